/* Merging two results of attention over disjoint sets of keys by their log-sums. */
#include <attn/sdpa.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/blocks.h"
#include "base/real.h"
#include "base/status.h"
#include "sdpa/merge_problem.h"

typedef struct merge_call {
    attn_merge m;
    const real *out_a, *lse_a, *out_b, *lse_b, *sink;
    real *out, *lse;
} merge_call;

/* ---- Checks ---- */

static attn_extent rows_extent(const attn_merge *m, const char *name, const real *address, int64_t cols,
                               attn_strides strides) {
    return attn_extent_heads(name, address, m->batch, m->q_heads, m->q_len, cols, strides, sizeof(real));
}

static attn_status check_arrays(const merge_call *call) {
    const attn_merge *m = &call->m;
    const bool has_sink = (m->flags & ATTN_MERGE_HAS_SINK) != 0;
    enum { OUT_A, OUT_B, LSE_A, LSE_B, SINK, INPUTS };
    const attn_extent input[INPUTS] = {
        [OUT_A] = rows_extent(m, "out_a", call->out_a, m->v_dim, m->out_a),
        [OUT_B] = rows_extent(m, "out_b", call->out_b, m->v_dim, m->out_b),
        [LSE_A] = rows_extent(m, "lse_a", call->lse_a, 1, m->lse_a),
        [LSE_B] = rows_extent(m, "lse_b", call->lse_b, 1, m->lse_b),
        [SINK] = attn_extent_vector("sink", call->sink, m->q_heads, sizeof(real)),
    };
    const attn_extent out = rows_extent(m, "out", call->out, m->v_dim, m->out);
    const attn_extent lse = rows_extent(m, "lse", call->lse, 1, m->lse);

    if (call->sink != NULL && !has_sink)
        return attn_fail(ATTN_ERR_FLAG, "sink is given without ATTN_MERGE_HAS_SINK");
    for (int i = 0; i < (has_sink ? INPUTS : SINK); i++) {
        ATTN_TRY(attn_check_extent(&input[i]));
        ATTN_TRY(attn_check_present_with(&input[i], i == SINK ? "ATTN_MERGE_HAS_SINK" : NULL));
    }
    ATTN_TRY(attn_check_array(&out));
    ATTN_TRY(attn_check_no_self_overlap(&out));
    if (call->lse != NULL) {
        ATTN_TRY(attn_check_extent(&lse));
        ATTN_TRY(attn_check_no_self_overlap(&lse));
    }
    for (int i = 0; i < INPUTS; i++) {
        bool lse_input = i == LSE_A || i == LSE_B, out_input = i == OUT_A || i == OUT_B;
        ATTN_TRY(out_input ? attn_check_apart_or_in_place(&out, &input[i]) : attn_check_apart(&out, &input[i]));
        ATTN_TRY(lse_input ? attn_check_apart_or_in_place(&lse, &input[i]) : attn_check_apart(&lse, &input[i]));
    }
    return attn_check_outputs_apart(&out, &lse);
}

/* ---- Work ---- */

/* Whatever is no number (an lse of NaN or +Inf, a sink of NaN) makes weights of NaN. A sink too far above for exp makes
 * weights of 0, as it should. */
static void merge_row(const merge_call *call, const real *out_a, double lse_a, const real *out_b, double lse_b,
                      double sink, real *out, real *lse) {
    int64_t v_dim = call->m.v_dim;
    bool numbers = lse_a < INFINITY && lse_b < INFINITY;
    double max = numbers ? fmax(lse_a, lse_b) : NAN;
    double share_a = exp(lse_a - max), share_b = exp(lse_b - max);
    double sum = share_a + share_b + exp(sink - max);
    bool empty = max == -INFINITY;
    if (lse != NULL)
        *lse = (real)(empty ? max : max + log(share_a + share_b));
    if (empty) {
        for (int64_t c = 0; c < v_dim; c++)
            out[c] = 0;
        return;
    }
    real weight_a = (real)(share_a / sum), weight_b = (real)(share_b / sum);
    if (lse_a == -INFINITY || lse_b == -INFINITY) {
        const real *part = lse_a == -INFINITY ? out_b : out_a;
        real weight = lse_a == -INFINITY ? weight_b : weight_a;
        for (int64_t c = 0; c < v_dim; c++)
            out[c] = weight * part[c];
        return;
    }
    for (int64_t c = 0; c < v_dim; c++)
        out[c] = weight_a * out_a[c] + weight_b * out_b[c];
}

static int64_t row_at(attn_strides strides, int64_t b, int64_t h, int64_t i) {
    return b * strides.batch + h * strides.head + i * strides.row;
}

static void merge_numbered_row(const void *argument, int64_t row) {
    const merge_call *call = argument;
    const attn_merge *m = &call->m;
    int64_t i = row % m->q_len, h = row / m->q_len % m->q_heads, b = row / m->q_len / m->q_heads;
    /* null pointers stand for arrays without elements and for an lse that is not wanted */
    bool elements = m->v_dim > 0;
    merge_row(call, elements ? call->out_a + row_at(m->out_a, b, h, i) : NULL, call->lse_a[row_at(m->lse_a, b, h, i)],
              elements ? call->out_b + row_at(m->out_b, b, h, i) : NULL, call->lse_b[row_at(m->lse_b, b, h, i)],
              call->sink != NULL ? call->sink[h] : -INFINITY, elements ? call->out + row_at(m->out, b, h, i) : NULL,
              call->lse != NULL ? call->lse + row_at(m->lse, b, h, i) : NULL);
}

attn_status REAL(attn_merge)(const attn_context *context, const attn_merge *merge, const real *out_a, const real *lse_a,
                             const real *out_b, const real *lse_b, const real *sink, real *out, real *lse) {
    attn_resources resources;
    ATTN_TRY(attn_resolve_context(context, &resources));
    merge_call call = {
        .out_a = out_a, .lse_a = lse_a, .out_b = out_b, .lse_b = lse_b, .sink = sink, .out = out, .lse = lse};
    ATTN_TRY(attn_read_merge(merge, &call.m));
    ATTN_TRY(check_arrays(&call));
    int64_t rows = attn_mul_saturated(call.m.batch, attn_mul_saturated(call.m.q_heads, call.m.q_len));
    /* a row is its lse too: without values it is still work */
    int64_t results = attn_add_saturated(call.m.v_dim, lse != NULL);
    return attn_for_each_row(&resources, rows, results, merge_numbered_row, &call);
}
