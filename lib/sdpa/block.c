/* Blocks of fused before and after their way over the keys. */
#include "sdpa/block.h"

#include <string.h>
#include <tgmath.h>

attn_query_block attn_block_with_workspace(const attn_call *call, int worker) {
    const attn_plan *plan = call->plan;
    const attn_ledger *ledger = &plan->ledger;
    return (attn_query_block){
        .worker = worker,
        .first_key = -1,
        .s = attn_ledger_grant(ledger, call->workspace, plan->pieces.scores, worker),
        .o = attn_ledger_grant(ledger, call->workspace, plan->pieces.output, worker),
        .row_max = attn_ledger_grant(ledger, call->workspace, plan->pieces.row_max, worker),
        .row_sum = attn_ledger_grant(ledger, call->workspace, plan->pieces.row_sum, worker),
        .rescale = attn_ledger_grant(ledger, call->workspace, plan->pieces.rescale, worker),
        .packed_queries = plan->queries_packed || plan->shape.parts
                              ? attn_ledger_grant(ledger, call->workspace, plan->pieces.packed_queries, worker)
                              : NULL,
        .packed_keys = attn_ledger_grant(ledger, call->workspace, plan->pieces.packed_keys, worker),
        .packed_values = attn_ledger_grant(ledger, call->workspace, plan->pieces.packed_values, worker),
        .queries_transposed = attn_ledger_grant(ledger, call->workspace, plan->pieces.queries_transposed, worker),
        .strip = attn_ledger_grant(ledger, call->workspace, plan->pieces.strip, worker),
        .weight_parts = attn_ledger_grant(ledger, call->workspace, plan->pieces.weight_parts, worker),
        .wild = attn_ledger_grant(ledger, call->workspace, plan->pieces.wild, worker),
        .clean = attn_ledger_grant(ledger, call->workspace, plan->pieces.clean_values, worker),
    };
}

void attn_block_begin(const attn_call *call, const attn_query_block *block) {
    int64_t rows = block->heads * block->rows;
    for (int64_t i = 0; i < rows; i++) {
        block->row_max[i] = -(real)INFINITY;
        block->row_sum[i] = 0;
        block->rescale[i] = 1;
    }
    if (block->first_key < 0)
        memset(block->o, 0, (size_t)(rows * call->plan->problem.v_dim) * sizeof *block->o);
}

/* ---- The finished block ---- */

/* True when a row that is neither empty nor NaN as a whole has a non-finite element: then a hidden value may have got
 * in. */
static bool suspicious(const attn_call *call, const attn_query_block *part) {
    int64_t v_dim = call->plan->problem.v_dim;
    for (int64_t i = 0; i < part->rows; i++)
        if (part->row_sum[i] > 0 && !call->kernels->all_finite(1, v_dim, part->o + i * v_dim, v_dim))
            return true;
    return false;
}

/* True for a row so small that what the matrix unit takes for 0 might show, 0 too. Most are known not to be by their
 * first element. */
static bool too_small_for_parts(const attn_query_block *block, int64_t v_dim, int64_t head, int64_t i) {
    int64_t state = head * block->rows + i;
    const real *o = block->o + state * v_dim;
    for (int64_t c = 0; c < v_dim; c++)
        if (o[c] >= ATTN_PARTS_SMALL || o[c] <= -ATTN_PARTS_SMALL)
            return false;
    return v_dim > 0 && block->row_sum[state] > 0;
}

/* One NaN for all, since the sign of a product's NaN depends on how rows were grouped. */
static void make_nans_alike(int64_t n, real *x) {
    for (int64_t i = 0; i < n; i++)
        if (isnan(x[i]))
            x[i] = (real)NAN;
}

/* out = o / sum and lse; a row whose sum is 0 has seen no key. */
static void finish(const attn_call *call, const attn_task *task, const attn_query_block *block, bool all_finite) {
    int64_t v_dim = call->plan->problem.v_dim;
    for (int64_t head = 0; head < block->heads; head++) {
        attn_head arrays = attn_head_at(call, task, block->head0 + head);
        for (int64_t i = 0; i < block->rows; i++) {
            int64_t state = head * block->rows + i;
            real sum = block->row_sum[state];
            if (sum == 0) {
                attn_clear_rows(call, &arrays, block->row0 + i, 1);
                continue;
            }
            if (v_dim > 0) { /* there may be no out to point at */
                attn_divisor divisor = attn_with_sink(call, &arrays, block->row_max[state], sum);
                real *out = arrays.out + (block->row0 + i) * arrays.out_row;
                call->kernels->divided(v_dim, divisor.factor, divisor.sum, block->o + state * v_dim, out);
                if (!all_finite)
                    make_nans_alike(v_dim, out);
            }
            if (arrays.lse != NULL)
                arrays.lse[(block->row0 + i) * arrays.lse_row] =
                    isnan(sum) ? (real)NAN : block->row_max[state] + log(sum);
        }
    }
}

/* The part of a block that a second run takes: one head's rows of one tile, the same ones whatever the block is. */
static attn_query_block part_of(const attn_query_block *block, int64_t v_dim, int64_t head, int64_t i, int64_t rows) {
    int64_t state = head * block->rows + i;
    attn_query_block part = *block;
    part.head0 += head;
    part.heads = 1;
    part.row0 += i;
    part.rows = rows;
    part.o += state * v_dim;
    part.row_max += state;
    part.row_sum += state;
    part.rescale += state;
    return part;
}

/* Rows too small for parts, together while they follow each other in a tile: the kernels then in use see to it that
 * this changes no bits, but for a window, where the first key of a product would not be a row's own. */
static void redo_small_rows(const attn_call *call, const attn_task *task, const attn_query_block *block,
                            bool all_finite, attn_over_keys *over_keys) {
    int64_t v_dim = call->plan->problem.v_dim, most = task->member.left < 0 ? block->share.tile_rows : 1;
    for (int64_t head = 0; head < block->heads; head++)
        for (int64_t i = 0, n; i < block->rows; i += n) {
            int64_t tile_end = attn_smaller((i / most + 1) * most, block->rows);
            for (n = 0; i + n < tile_end && too_small_for_parts(block, v_dim, head, i + n); n++) {
            }
            if (n > 0) {
                attn_query_block rows = part_of(block, v_dim, head, i, n);
                rows.without_parts = true;
                rows.cleaning = !all_finite;
                over_keys(call, task, &rows);
            } else {
                n = 1;
            }
        }
}

void attn_block_complete(const attn_call *call, const attn_task *task, const attn_query_block *block,
                         attn_over_keys *over_keys) {
    int64_t v_dim = call->plan->problem.v_dim;
    bool all_finite = call->kernels->all_finite(block->heads * block->rows, v_dim, block->o, v_dim);
    for (int64_t head = 0; !all_finite && head < block->heads; head++)
        for (int64_t i = 0; i < block->rows; i += block->share.tile_rows) {
            attn_query_block part =
                part_of(block, v_dim, head, i, attn_smaller(block->share.tile_rows, block->rows - i));
            part.cleaning = suspicious(call, &part);
            if (part.cleaning)
                over_keys(call, task, &part);
        }
    if (call->plan->shape.parts && !block->share.few_queries)
        redo_small_rows(call, task, block, all_finite, over_keys);
    finish(call, task, block, all_finite);
}
