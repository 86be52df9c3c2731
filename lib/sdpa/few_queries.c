/* The path of few queries: K and V are read once for all rows of a block, by loops of our own. */
#include <tgmath.h>

#include "sdpa/block.h"
#include "sdpa/tile.h"

/* The rows of all heads over the keys of a tile, by loops of our own: K and V are read once, the values of a row or of a
 * few stay in registers. CBLAS has nothing to offer here. */
static void few_queries_step(const attn_call *call, const attn_task *task, const attn_query_block *block,
                             attn_tile tile) {
    const attn_problem *p = &call->plan->problem;
    int64_t rows = block->heads * block->rows;
    const real *q[ATTN_FEW_ROWS], *weights[ATTN_FEW_ROWS];
    real *s[ATTN_FEW_ROWS], *o[ATTN_FEW_ROWS];
    for (int64_t i = 0; i < rows; i++) {
        attn_head arrays = attn_head_at(call, task, block->head0 + i / block->rows);
        q[i] = arrays.q + (block->row0 + i % block->rows) * arrays.q_row;
        weights[i] = s[i] = block->s + i * tile.ld;
        o[i] = block->o + i * p->v_dim;
    }
    attn_head shared = attn_head_at(call, task, block->head0); /* all heads of the block read the same K and V */
    if (call->scale != 0)
        call->kernels->product_transposed(rows, tile.keys, p->head_dim, call->scale, q,
                                          shared.k + tile.key0 * shared.k_row, shared.k_row, s);
    for (int64_t head = 0; head < block->heads; head++) {
        attn_head arrays = attn_head_at(call, task, block->head0 + head);
        tile.s = s[head * block->rows];
        if (call->scale == 0)
            attn_tile_scores(call, &arrays, &tile);
        attn_tile_edit(call, &arrays, &task->member, &tile);
        if (block->cleaning)
            attn_tile_clean(call, &arrays, &tile, block->clean, o[head * block->rows], p->v_dim);
    }
    call->kernels->softmax_tile(rows, tile.keys, block->s, tile.ld, block->row_max, block->row_sum, block->rescale);
    if (p->v_dim == 0)
        return;
    call->kernels->scale_rows(rows, p->v_dim, block->o, p->v_dim, block->rescale);
    call->kernels->add_product(rows, p->v_dim, tile.keys, weights,
                               block->cleaning ? block->clean : shared.v + tile.key0 * shared.v_row,
                               block->cleaning ? p->v_dim : shared.v_row, o);
}

/* Tiles begin at multiples of their size: where the visible keys begin changes no result. */
void attn_few_queries_over_keys(const attn_call *call, const attn_task *task, const attn_query_block *block) {
    int64_t tile_keys = block->share.tile_keys;
    attn_block_begin(call, task, block);
    attn_key_range seen = attn_block_keys(&task->member, block->row0, block->rows);
    for (int64_t begin = seen.begin, end; begin < seen.end; begin = end) {
        end = attn_smaller((begin / tile_keys + 1) * tile_keys, seen.end);
        attn_tile tile = {
            .s = block->s,
            .ld = attn_smaller(tile_keys, call->plan->problem.kv_len),
            .row0 = block->row0,
            .rows = block->rows,
            .key0 = begin,
            .keys = end - begin,
        };
        few_queries_step(call, task, block, tile);
    }
}
