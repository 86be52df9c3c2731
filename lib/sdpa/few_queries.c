/* The path of few queries: K and V are read once for all rows of a block, by loops of our own, a chunk of keys at a
 * time. */
#include <tgmath.h>

#include "base/cpu.h"
#include "sdpa/chunks.h"
#include "sdpa/tile.h"

/* Keeps non-finite values from rows that do not see them: marks the outputs of rows that do, before softmax. Cleaned
 * values are made again when the product needs them, CLEAN_KEYS at a time, since a chunk of them would be large. */
static void mark_nonfinite(const attn_call *call, const attn_head *arrays, attn_tile tile,
                           const attn_query_block *block, real *o) {
    int64_t v_dim = call->plan->problem.v_dim, end = tile.key0 + tile.keys;
    for (; tile.key0 < end; tile.key0 += tile.keys, tile.s += tile.keys) {
        tile.keys = attn_smaller(ATTN_FEW_CLEAN_KEYS, end - tile.key0);
        attn_tile_clean(call, arrays, &tile, block->clean, o, v_dim);
    }
}

static void add_clean_product(const attn_call *call, const attn_head *arrays, attn_tile tile,
                              const attn_query_block *block, int64_t rows, const real **weights, real *const *o) {
    int64_t v_dim = call->plan->problem.v_dim, end = tile.key0 + tile.keys;
    tile.rows = 0; /* nothing to mark */
    for (; tile.key0 < end; tile.key0 += tile.keys) {
        tile.keys = attn_smaller(ATTN_FEW_CLEAN_KEYS, end - tile.key0);
        attn_tile_clean(call, arrays, &tile, block->clean, NULL, v_dim);
        call->kernels->add_product(rows, v_dim, tile.keys, attn_cpu_reads_apart(), weights, block->clean, v_dim, o);
        for (int64_t i = 0; i < rows; i++)
            weights[i] += tile.keys;
    }
}

/* Scores of many rows: K Q^T, a strip of keys at a time, so that no sum goes across lanes, then transposed into place.
 * K is read as it lies. */
static void scores_of_many_rows(const attn_call *call, const attn_head *shared, const attn_tile *tile,
                                const attn_query_block *block, int64_t rows, const real *const *q) {
    const attn_kernels *kernels = call->kernels;
    int64_t head_dim = call->plan->problem.head_dim;
    const real *k = shared->k + tile->key0 * shared->k_row;
    for (int64_t i = 0; i < rows; i++)
        kernels->scaled(head_dim, 1, q[i], block->strip + i * head_dim);
    kernels->transpose(rows, head_dim, block->strip, head_dim, block->queries_transposed, rows);
    for (int64_t j = 0; j < tile->keys; j += ATTN_STRIP_KEYS) {
        int64_t keys = attn_smaller(ATTN_STRIP_KEYS, tile->keys - j);
        attn_fetch_rows(j + keys, attn_smaller(ATTN_STRIP_KEYS, tile->keys - j - keys), head_dim, k, shared->k_row);
        kernels->multiply(keys, rows, head_dim, call->scale, k + j * shared->k_row, shared->k_row,
                          block->queries_transposed, rows, false, block->strip, rows);
        kernels->transpose(keys, rows, block->strip, rows, block->s + j, tile->ld);
    }
}

/* True when a mask hides a chunk from all heads of the block. */
static bool hidden_from_all(const attn_call *call, const attn_task *task, const attn_query_block *block,
                            const attn_tile *tile) {
    for (int64_t head = 0; head < block->heads; head++) {
        attn_head arrays = attn_head_at(call, task, block->head0 + head);
        if (!attn_tile_hidden(call, &arrays, tile))
            return false;
    }
    return true;
}

/* The rows of all heads over the keys of a chunk. The values of a row or of a few stay in registers; CBLAS has nothing
 * to offer here. */
static void over_chunk(const attn_call *call, const attn_task *task, const attn_query_block *block,
                       attn_key_range keys) {
    const attn_problem *p = &call->plan->problem;
    int64_t rows = block->heads * block->rows;
    attn_tile tile = {
        .ld = attn_smaller(block->share.tile_keys, p->kv_len),
        .row0 = block->row0,
        .rows = block->rows,
        .key0 = keys.begin,
        .keys = keys.end - keys.begin,
    };
    const real *q[ATTN_FEW_ROWS], *weights[ATTN_FEW_ROWS];
    real *s[ATTN_FEW_ROWS], *o[ATTN_FEW_ROWS];
    attn_block_begin(call, block);
    if (hidden_from_all(call, task, block, &tile))
        return;
    for (int64_t i = 0; i < rows; i++) {
        attn_head arrays = attn_head_at(call, task, block->head0 + i / block->rows);
        q[i] = arrays.q + (block->row0 + i % block->rows) * arrays.q_row;
        attn_fetch_rows(0, 1, p->head_dim, q[i], 0);
        weights[i] = s[i] = block->s + i * tile.ld;
        o[i] = block->o + i * p->v_dim;
    }
    attn_head shared = attn_head_at(call, task, block->head0); /* all heads of the block read the same K and V */
    if (call->scale != 0 && block->share.many_rows)
        scores_of_many_rows(call, &shared, &tile, block, rows, q);
    else if (call->scale != 0)
        call->kernels->product_transposed(rows, tile.keys, p->head_dim, attn_cpu_reads_apart(), call->scale, q,
                                          shared.k + tile.key0 * shared.k_row, shared.k_row, s);
    for (int64_t head = 0; head < block->heads; head++) {
        attn_head arrays = attn_head_at(call, task, block->head0 + head);
        tile.s = s[head * block->rows];
        if (call->scale == 0)
            attn_tile_scores(call, &arrays, &tile);
        attn_tile_edit(call, &arrays, &task->member, &tile);
        if (block->cleaning)
            mark_nonfinite(call, &arrays, tile, block, o[head * block->rows]);
    }
    call->kernels->softmax_tile(rows, tile.keys, block->s, tile.ld, false, block->row_max, block->row_sum,
                                block->rescale);
    if (p->v_dim == 0)
        return; /* only lse is wanted, and there may be no V to point at */
    if (block->cleaning)
        add_clean_product(call, &shared, tile, block, rows, weights, o);
    else
        call->kernels->add_product(rows, p->v_dim, tile.keys, attn_cpu_reads_apart(), weights,
                                   shared.v + tile.key0 * shared.v_row, shared.v_row, o);
}

/* The smallest members: even preparing a block would take longer than naive's loops. */
static void tiny_heads(const attn_call *call, int worker, const attn_task *task, int64_t head0, int64_t heads) {
    const attn_plan *plan = call->plan;
    int64_t *keys = attn_ledger_grant(&plan->ledger, call->workspace, plan->pieces.keys, worker);
    real *s = attn_ledger_grant(&plan->ledger, call->workspace, plan->pieces.scores, worker);
    for (int64_t head = head0; head < head0 + heads; head++)
        attn_naive_rows(call, task, head, 0, task->member.q_rows, keys, s);
}

/* A share is a few query heads with all rows, and one of their chunks where the plan shares those out. */
void attn_few_queries_task(const attn_call *call, int worker, const attn_task *task, attn_share share) {
    const attn_member *member = &task->member;
    int64_t group = attn_group(call), head0 = task->share * share.heads;
    bool first = task->chunk <= 0;
    if (head0 >= group)
        return;
    if (share.tiny) {
        if (first)
            tiny_heads(call, worker, task, task->kv_head * group + head0, attn_smaller(share.heads, group - head0));
        return;
    }
    attn_query_block block = attn_block_with_workspace(call, worker);
    block.share = share;
    block.over_chunk = over_chunk;
    block.heads = attn_smaller(share.heads, group - head0);
    block.head0 = task->kv_head * group + head0;
    block.rows = member->q_len;
    for (int64_t head = block.head0; first && head < block.head0 + block.heads; head++) {
        attn_head arrays = attn_head_at(call, task, head);
        attn_clear_rows(call, &arrays, member->q_len, member->q_rows - member->q_len);
    }
    if (block.rows > 0)
        attn_chunks_run(call, task, &block);
}
