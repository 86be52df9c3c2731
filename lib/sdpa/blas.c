/* The textbook BLAS version: the whole score matrix of a head by one product, softmax over it in place, one product
 * with V. Memory O(q_len kv_len) per thread. The one engine besides naive that can give scores and weights. */
#include <tgmath.h>

#include "blas/blas.h"
#include "sdpa/tile.h"

/* Address of row i of an intermediate of this head. */
static real *wanted_row(const attn_call *call, const attn_head *head, real *wanted, int64_t i) {
    attn_strides strides = call->plan->problem.scores;
    return wanted + head->b * strides.batch + head->q_head * strides.head + i * strides.row;
}

/* Fills an intermediate from the tile; what lies beyond the member's lengths becomes `absent`. NULL = not wanted. */
static void give(const attn_call *call, const attn_head *head, const attn_tile *tile, real *wanted, real absent) {
    if (wanted == NULL)
        return;
    const attn_problem *p = &call->plan->problem;
    for (int64_t i = 0; i < p->q_len; i++) {
        real *row = wanted_row(call, head, wanted, i);
        for (int64_t j = 0; j < p->kv_len; j++)
            row[j] = i < tile->rows && j < tile->keys ? tile->s[i * tile->ld + j] : absent;
    }
}

/* Weights of a NaN row: exactly 0 for the keys that it does not see. Softmax has made all of them NaN, so the row's
 * scores are computed once more, in place. */
static void mend_nan_weights(const attn_call *call, const attn_task *task, const attn_head *head,
                             const attn_tile *whole, int64_t i) {
    real *weights = wanted_row(call, head, call->args->weights, i);
    attn_tile row = {.s = weights, .ld = whole->keys, .row0 = i, .rows = 1, .keys = whole->keys};
    attn_tile_scores(call, head, &row);
    attn_tile_edit(call, head, &task->member, &row);
    for (int64_t j = 0; j < whole->keys; j++)
        weights[j] = weights[j] == -(real)INFINITY ? 0 : (real)NAN;
}

/* Softmax of each row in place, with the sink in the divisor, and lse without it. */
static void softmax_rows(const attn_call *call, const attn_head *head, const attn_tile *whole) {
    for (int64_t i = 0; i < whole->rows; i++) {
        real *s = whole->s + i * whole->ld;
        real lse = call->kernels->softmax_row(whole->keys, s, s);
        if (head->lse != NULL)
            head->lse[i * head->lse_row] = lse;
        if (call->args->sink == NULL || lse == -(real)INFINITY)
            continue;
        attn_divisor divisor = attn_with_sink(call, head, lse, 1);
        real factor = divisor.factor / divisor.sum;
        call->kernels->scale_rows(1, whole->keys, s, whole->ld, &factor);
    }
}

/* Attention of one head; with `clean` the values are cleaned first (see attn_tile_clean()). */
static void whole_head(const attn_call *call, const attn_task *task, const attn_head *head, const attn_tile *whole,
                       real *clean) {
    const attn_args *args = call->args;
    int64_t v_dim = call->plan->problem.v_dim;
    attn_tile_scores(call, head, whole);
    give(call, head, whole, args->scores, -(real)INFINITY);
    attn_tile_cap(call, whole);
    give(call, head, whole, args->capped, -(real)INFINITY);
    attn_tile_bias(call, head, &task->member, whole);
    attn_tile_hide(call, head, &task->member, whole);
    give(call, head, whole, args->masked, -(real)INFINITY);
    for (int64_t i = 0; i < whole->rows; i++)
        for (int64_t c = 0; c < v_dim; c++)
            head->out[i * head->out_row + c] = 0;
    if (clean != NULL)
        attn_tile_clean(call, head, whole, clean, head->out, head->out_row);
    softmax_rows(call, head, whole);
    give(call, head, whole, args->weights, 0);
    attn_gemm(false, false, whole->rows, v_dim, whole->keys, 1, whole->s, whole->ld, clean != NULL ? clean : head->v,
              clean != NULL ? v_dim : head->v_row, 1, head->out, head->out_row);
    for (int64_t i = 0; args->weights != NULL && i < whole->rows; i++)
        if (whole->keys > 0 && isnan(whole->s[i * whole->ld]))
            mend_nan_weights(call, task, head, whole, i);
}

void attn_blas_task(const attn_call *call, int worker, const attn_task *task) {
    const attn_plan *plan = call->plan;
    const attn_member *member = &task->member;
    attn_head head = attn_head_at(call, task, task->kv_head * attn_group(call) + task->share);
    attn_clear_rows(call, &head, member->q_len, member->q_rows - member->q_len);
    attn_tile whole = {
        .s = attn_ledger_grant(&plan->ledger, call->workspace, plan->pieces.scores, worker),
        .ld = member->kv_len,
        .rows = member->q_len,
        .keys = member->kv_len,
    };
    whole_head(call, task, &head, &whole, NULL);
    int64_t v_dim = plan->problem.v_dim; /* 0: there may be no out to point at */
    if (v_dim == 0 || call->kernels->all_finite(member->q_len, v_dim, head.out, head.out_row))
        return;
    real *clean = attn_ledger_grant(&plan->ledger, call->workspace, plan->pieces.clean_values, worker);
    whole_head(call, task, &head, &whole, clean);
}
