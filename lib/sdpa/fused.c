/* Tiles of queries and keys with an online softmax: a block of rows goes over the keys tile by tile, its output
 * accumulating, and no more than one tile of scores exists per thread. */
#include <tgmath.h>

#include "blas/blas.h"
#include "sdpa/short.h"
#include "sdpa/tile.h"

/* The rows of a block while they go over the keys: `heads` query heads x `rows` queries, dense, heads outermost. */
typedef struct query_block {
    attn_tiles tiles;
    int64_t head0, heads;
    int64_t row0, rows;
    real *s;                           /* a tile of scores of one head */
    real *o;                           /* output before the division, heads x rows x v_dim */
    real *row_max, *row_sum, *rescale; /* heads x rows */
    real *clean;                       /* a tile of values */
} query_block;

static query_block block_with_workspace(const attn_call *call, int worker) {
    const attn_plan *plan = call->plan;
    const attn_ledger *ledger = &plan->ledger;
    return (query_block){
        .s = attn_ledger_grant(ledger, call->workspace, plan->pieces.scores, worker),
        .o = attn_ledger_grant(ledger, call->workspace, plan->pieces.output, worker),
        .row_max = attn_ledger_grant(ledger, call->workspace, plan->pieces.row_max, worker),
        .row_sum = attn_ledger_grant(ledger, call->workspace, plan->pieces.row_sum, worker),
        .rescale = attn_ledger_grant(ledger, call->workspace, plan->pieces.rescale, worker),
        .clean = attn_ledger_grant(ledger, call->workspace, plan->pieces.clean_values, worker),
    };
}

/* One tile of one head of the block: scores, hidden keys, softmax step, products with V. */
static void tile_step(const attn_call *call, const attn_task *task, const query_block *block, int64_t head,
                      attn_tile *tile, bool cleaning) {
    int64_t v_dim = call->plan->problem.v_dim;
    int64_t state = head * block->rows;
    real *o = block->o + state * v_dim;
    attn_head arrays = attn_head_at(call, task, block->head0 + head);
    if (block->tiles.few_queries && call->scale != 0)
        attn_short_scores(call, &arrays, tile);
    else
        attn_tile_scores(call, &arrays, tile);
    attn_tile_edit(call, &arrays, &task->member, tile);
    if (cleaning)
        attn_tile_clean(call, &arrays, tile, block->clean, o, v_dim);
    call->kernels->softmax_tile(tile->rows, tile->keys, tile->s, tile->ld, block->row_max + state,
                                block->row_sum + state, block->rescale + state);
    if (v_dim == 0)
        return; /* only lse is wanted, and there may be no V to point at */
    call->kernels->scale_rows(tile->rows, v_dim, o, v_dim, block->rescale + state);
    const real *v = cleaning ? block->clean : arrays.v + tile->key0 * arrays.v_row;
    int64_t v_row = cleaning ? v_dim : arrays.v_row;
    if (block->tiles.few_queries)
        attn_short_combine(call, tile, v, v_row, o);
    else
        attn_gemm(false, false, tile->rows, v_dim, tile->keys, 1, tile->s, tile->ld, v, v_row, 1, o, v_dim);
}

/* Takes the block over its visible keys; with `cleaning` non-finite values are kept from rows that do not see them. */
static void go_over_keys(const attn_call *call, const attn_task *task, const query_block *block, bool cleaning) {
    int64_t rows = block->heads * block->rows;
    for (int64_t i = 0; i < rows; i++) {
        block->row_max[i] = -(real)INFINITY;
        block->row_sum[i] = 0;
    }
    for (int64_t i = 0; i < rows * call->plan->problem.v_dim; i++)
        block->o[i] = 0;
    attn_key_range seen = attn_block_keys(&task->member, block->row0, block->rows);
    for (int64_t key0 = seen.begin; key0 < seen.end; key0 += block->tiles.keys) {
        int64_t keys = seen.end - key0 < block->tiles.keys ? seen.end - key0 : block->tiles.keys;
        attn_tile tile = {
            .s = block->s, .ld = keys, .row0 = block->row0, .rows = block->rows, .key0 = key0, .keys = keys};
        for (int64_t head = 0; head < block->heads; head++)
            tile_step(call, task, block, head, &tile, cleaning);
    }
}

/* True when a row that is neither empty nor NaN as a whole has a non-finite element: then a hidden value may have got
 * in. */
static bool suspicious(const attn_call *call, const query_block *block) {
    int64_t v_dim = call->plan->problem.v_dim;
    int64_t rows = block->heads * block->rows;
    if (call->kernels->all_finite(rows, v_dim, block->o, v_dim))
        return false;
    for (int64_t i = 0; i < rows; i++)
        if (block->row_sum[i] > 0 && !call->kernels->all_finite(1, v_dim, block->o + i * v_dim, v_dim))
            return true;
    return false;
}

/* out = o / sum and lse; a row whose sum is 0 has seen no key. */
static void finish(const attn_call *call, const attn_task *task, const query_block *block) {
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
            const real *o = block->o + state * v_dim;
            real *out = arrays.out + (block->row0 + i) * arrays.out_row;
            attn_divisor divisor = attn_with_sink(call, &arrays, block->row_max[state], sum);
            for (int64_t c = 0; c < v_dim; c++)
                out[c] = o[c] * divisor.factor / divisor.sum;
            if (arrays.lse != NULL)
                arrays.lse[(block->row0 + i) * arrays.lse_row] = block->row_max[state] + log(sum);
        }
    }
}

static void run_block(const attn_call *call, const attn_task *task, const query_block *block) {
    go_over_keys(call, task, block, false);
    if (suspicious(call, block))
        go_over_keys(call, task, block, true);
    finish(call, task, block);
}

static int64_t smaller(int64_t a, int64_t b) {
    return a < b ? a : b;
}

static int64_t larger(int64_t a, int64_t b) {
    return a > b ? a : b;
}

/* A share of a key head is a query head and a block of rows of the buffer, later blocks first: under a causal mask they
 * are the longest. With few queries a share is as many whole query heads as fit a block, and the last shares are empty.
 */
void attn_fused_task(const attn_call *call, int worker, const attn_task *task) {
    const attn_plan *plan = call->plan;
    int64_t group = attn_group(call);
    int64_t first_head = task->kv_head * group;
    query_block block = block_with_workspace(call, worker);
    block.tiles = attn_choose_tiles(plan, &task->member);
    int64_t q_len = task->member.q_len;
    if (block.tiles.few_queries) {
        int64_t head0 = task->share * block.tiles.heads;
        if (head0 >= group)
            return;
        block.head0 = first_head + head0;
        block.heads = smaller(block.tiles.heads, group - head0);
        block.rows = q_len;
        for (int64_t head = 0; head < block.heads; head++) {
            attn_head arrays = attn_head_at(call, task, block.head0 + head);
            attn_clear_rows(call, &arrays, q_len, task->member.q_rows - q_len);
        }
    } else {
        int64_t blocks = plan->tasks_per_head / group;
        block.head0 = first_head + task->share / blocks;
        block.heads = 1;
        block.row0 = (blocks - 1 - task->share % blocks) * plan->block_rows;
        /* rows of the buffer, then those of them that are valid; either may be none */
        int64_t buffer_end = larger(block.row0, smaller(block.row0 + plan->block_rows, task->member.q_rows));
        int64_t end = larger(block.row0, smaller(buffer_end, q_len));
        block.rows = end - block.row0;
        attn_head arrays = attn_head_at(call, task, block.head0);
        attn_clear_rows(call, &arrays, end, buffer_end - end);
    }
    if (block.rows > 0)
        run_block(call, task, &block);
}
