/* Chunks of keys: one after the other on one thread, or shared out. */
#include "sdpa/chunks.h"

#include <tgmath.h>

/* The block gathers in the n-th part of these. */
static void keep_in(const attn_call *call, attn_query_block *block, real *states, int64_t n) {
    int64_t rows = block->heads * block->rows, v_dim = call->plan->problem.v_dim;
    block->o = states + n * rows * (v_dim + 2);
    block->row_max = block->o + rows * v_dim;
    block->row_sum = block->row_max + rows;
}

static attn_key_range keys_of(const attn_task *task, const attn_query_block *block) {
    return attn_block_keys(&task->member, block->row0, block->rows);
}

/* The rows of `block` now stand for the keys of both; `chunk` is used up. Rows that have seen no key of one of them are
 * as if it were not there, since blocks with other rows may not have it: 0 + -0 would not be -0. */
static void merge(const attn_call *call, const attn_query_block *block, const attn_query_block *chunk) {
    const attn_kernels *kernels = call->kernels;
    int64_t rows = block->heads * block->rows, v_dim = call->plan->problem.v_dim;
    for (int64_t i = 0; i < rows; i++) {
        real *o = block->o + i * v_dim, *more = chunk->o + i * v_dim;
        if (chunk->row_sum[i] == 0)
            continue;
        if (block->row_sum[i] == 0) {
            block->row_max[i] = chunk->row_max[i];
            block->row_sum[i] = chunk->row_sum[i];
            kernels->scaled(v_dim, 1, more, o);
            continue;
        }
        real old = block->row_max[i], new = chunk->row_max[i], max = old > new ? old : new;
        real old_factor = old == max ? 1 : exp(old - max), new_factor = new == max ? 1 : exp(new - max);
        block->row_max[i] = max;
        block->row_sum[i] = block->row_sum[i] * old_factor + chunk->row_sum[i] * new_factor;
        kernels->scale_rows(1, v_dim, o, v_dim, &old_factor);
        kernels->scale_rows(1, v_dim, more, v_dim, &new_factor);
        kernels->add(v_dim, o, more, o);
    }
}

/* One chunk after the other, from the second on beside the block. */
static void in_turn(const attn_call *call, const attn_task *task, const attn_query_block *block) {
    attn_key_range seen = keys_of(task, block);
    int64_t chunks = attn_chunks_in(seen, block->share.chunk_keys);
    attn_query_block chunk = *block;
    if (chunks == 0)
        attn_block_begin(call, block);
    for (int64_t n = 0; n < chunks; n++) {
        if (n == 1)
            keep_in(call, &chunk,
                    attn_ledger_grant(&call->plan->ledger, call->workspace, call->plan->pieces.beside, block->worker),
                    0);
        block->over_chunk(call, task, &chunk, attn_chunk_at(seen, block->share.chunk_keys, n));
        if (n > 0)
            merge(call, block, &chunk);
    }
}

/* The chunks of a block that its tasks take apart; 0 when the first task takes all keys. */
static int64_t shared_chunks(const attn_call *call, const attn_task *task, const attn_query_block *block) {
    if (task->chunk < 0)
        return 0;
    int64_t chunks = attn_chunks_in(keys_of(task, block), block->share.chunk_keys);
    return chunks > 1 && chunks * block->heads * block->rows <= call->plan->shared_rows ? chunks : 0;
}

/* The first chunk of a task, of so many that the tasks of a block share alike: at full length one each. */
static int64_t first_of(const attn_call *call, int64_t task_chunk, int64_t chunks) {
    return task_chunk * chunks / call->plan->chunks;
}

attn_key_range attn_task_keys(const attn_call *call, const attn_task *task, const attn_query_block *block) {
    attn_key_range seen = keys_of(task, block), none = {seen.end, seen.end};
    int64_t chunks = shared_chunks(call, task, block);
    if (chunks == 0)
        return task->chunk <= 0 ? seen : none;
    int64_t begin = first_of(call, task->chunk, chunks), end = first_of(call, task->chunk + 1, chunks);
    if (begin == end)
        return none;
    return (attn_key_range){attn_chunk_at(seen, block->share.chunk_keys, begin).begin,
                            attn_chunk_at(seen, block->share.chunk_keys, end - 1).end};
}

void attn_chunks_run(const attn_call *call, const attn_task *task, const attn_query_block *block) {
    const attn_plan *plan = call->plan;
    int64_t chunks = shared_chunks(call, task, block);
    if (chunks == 0) {
        if (task->chunk > 0)
            return;
        in_turn(call, task, block);
        attn_block_complete(call, task, block, in_turn);
        return;
    }
    real *states = attn_ledger_grant(&plan->ledger, call->workspace, plan->pieces.chunks, task->shared);
    attn_query_block whole = *block, chunk = *block;
    int64_t begin = first_of(call, task->chunk, chunks), end = first_of(call, task->chunk + 1, chunks);
    for (int64_t n = begin; n < end; n++) {
        keep_in(call, &chunk, states, n);
        block->over_chunk(call, task, &chunk, attn_chunk_at(keys_of(task, block), block->share.chunk_keys, n));
    }
    int64_t *done = attn_ledger_grant(&plan->ledger, call->workspace, plan->pieces.chunks_done, 0);
    if (begin == end || __atomic_add_fetch(&done[task->shared], end - begin, __ATOMIC_ACQ_REL) < chunks)
        return;
    keep_in(call, &whole, states, 0);
    for (int64_t n = 1; n < chunks; n++) {
        keep_in(call, &chunk, states, n);
        merge(call, &whole, &chunk);
    }
    attn_block_complete(call, task, &whole, in_turn);
}
