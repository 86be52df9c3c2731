/* Tiles of queries and keys with an online softmax: a block of rows goes over the keys tile by tile, its output
 * accumulating, and no more than one tile of scores exists per thread. A tile of keys is prepared once for all rows and
 * heads of the block. Few queries have a path of their own (few_queries.c), the smallest members go to naive's
 * loops. */
#include <string.h>

#include "blas/blas.h"
#include "sdpa/chunks.h"
#include "sdpa/parts.h"
#include "sdpa/tile.h"

/* ---- Ahead of the products ---- */

/* Rows that will be wanted next. They are asked for a few at a time while the rows at work go on, and come from memory
 * meanwhile: 4 % at length 128 (causal 6), 1 % at 1024. */
typedef struct fetch_list {
    struct {
        const real *x;
        int64_t begin, end, cols, ld; /* rows */
    } part[5];
    int parts;
} fetch_list;

/* A step over a tile asks three times: the memory takes about thirty lines at a time, and whoever asks for more
 * waits. */
enum { FETCHES = 3 };

/* Output that is asked for before it is written: more would not stay in the caches until then. */
enum { FETCHED_OUTPUT_BYTES = 64 * 1024 };

static void add_fetch(fetch_list *list, const real *x, int64_t row0, int64_t rows, int64_t cols, int64_t ld) {
    if (x == NULL || rows <= 0)
        return;
    list->part[list->parts].x = x;
    list->part[list->parts].begin = row0;
    list->part[list->parts].end = row0 + rows;
    list->part[list->parts].cols = cols;
    list->part[list->parts++].ld = ld;
}

/* The number-th time of a step that takes `rows` of the rows that are left: asks for its part of what is left. Inlined
 * by force: see attn_fetch(). */
static inline __attribute__((always_inline)) void fetch_share(fetch_list *list, int number, int64_t rows,
                                                              int64_t rows_left) {
    for (int i = 0; i < list->parts; i++) {
        int64_t begin = list->part[i].begin;
        int64_t now = (list->part[i].end - begin) * rows / (FETCHES * rows_left - number * rows);
        attn_fetch_rows(begin, now, list->part[i].cols, list->part[i].x, list->part[i].ld);
        list->part[i].begin += now;
    }
}

/* The heads and rows of a task: a few query heads of its key head and a block of rows, later blocks first, since under
 * a causal mask they are the longest. Returns the rows of the buffer, of which the last ones may not be valid. */
static int64_t place_block(const attn_call *call, const attn_task *task, attn_query_block *block) {
    const attn_member *member = &task->member;
    int64_t blocks = attn_blocks_of(call->plan->problem.q_len, call->plan->block_rows);
    int64_t head0 = task->share / blocks * block->share.heads;
    block->heads = attn_smaller(block->share.heads, attn_group(call) - head0);
    block->head0 = task->kv_head * attn_group(call) + head0;
    block->row0 = (blocks - 1 - task->share % blocks) * block->share.rows;
    int64_t buffer_end = attn_larger(block->row0, attn_smaller(block->row0 + block->share.rows, member->q_rows));
    block->rows = attn_larger(block->row0, attn_smaller(buffer_end, member->q_len)) - block->row0;
    return buffer_end - block->row0;
}

/* Rows of Q that are asked for before a block begins. */
static int64_t first_queries(const attn_query_block *block) {
    return attn_smaller(block->rows, block->share.tile_keys);
}

/* Those of a block that nobody has asked for; of several heads, or where they are made dense or split at once, all. */
static void fetch_queries(const attn_call *call, const attn_task *task, const attn_query_block *block) {
    bool alone = block->heads == 1, all = !alone || block->packed_queries != NULL;
    int64_t begin = task->awaited && alone ? first_queries(block) : 0, end = all ? block->rows : first_queries(block);
    for (int64_t head = 0; head < block->heads; head++) {
        attn_head arrays = attn_head_at(call, task, block->head0 + head);
        attn_fetch_rows(block->row0 + begin, end - begin, call->plan->problem.head_dim, arrays.q, arrays.q_row);
    }
}

/* While a block goes over these of the coming keys: the rest of its Q, the keys after them, or its output and what this
 * worker begins with next. */
static fetch_list what_comes_next(const attn_call *call, const attn_task *task, const attn_query_block *block,
                                  attn_key_range keys_now, attn_key_range coming) {
    const attn_plan *plan = call->plan;
    const attn_problem *p = &plan->problem;
    fetch_list list = {.parts = 0};
    attn_head head = attn_head_at(call, task, block->head0);
    int64_t asked = first_queries(block);
    if (keys_now.begin == coming.begin && block->heads == 1 && block->packed_queries == NULL)
        add_fetch(&list, head.q, block->row0 + asked, block->rows - asked, p->head_dim, head.q_row);
    if (keys_now.end < coming.end) {
        int64_t keys = attn_smaller(block->share.tile_keys, coming.end - keys_now.end);
        add_fetch(&list, head.k, keys_now.end, keys, p->head_dim, head.k_row);
        add_fetch(&list, head.v, keys_now.end, keys, p->v_dim, head.v_row);
        return list;
    }
    if (block->heads == 1 && task->chunk < 0 && block->rows * p->v_dim * (int64_t)sizeof(real) <= FETCHED_OUTPUT_BYTES)
        add_fetch(&list, head.out, block->row0, block->rows, p->v_dim, head.out_row);
    if (task->next < 0)
        return list;
    attn_task next = attn_task_at(call, task->next);
    attn_query_block begin = {.share = attn_share_of(plan, &next.member)};
    if (begin.share.few_queries)
        return list;
    place_block(call, &next, &begin);
    attn_head arrays = attn_head_at(call, &next, begin.head0);
    attn_key_range first = attn_task_keys(call, &next, &begin);
    int64_t keys = attn_smaller(begin.share.tile_keys, first.end - first.begin);
    add_fetch(&list, arrays.k, first.begin, keys, p->head_dim, arrays.k_row);
    add_fetch(&list, arrays.v, first.begin, keys, p->v_dim, arrays.v_row);
    add_fetch(&list, arrays.q, begin.row0, first_queries(&begin), p->head_dim, arrays.q_row);
    return list;
}

/* ---- Over the keys ---- */

/* Keys begin .. end-1, which the rows of a block read together: where they are and how far apart. */
typedef struct key_tile {
    int64_t begin, end;
    bool prepared; /* what follows is known: not before some rows look at these keys */
    bool transposed;
    const real *k, *v;
    int64_t k_row, v_row;
    bool first;      /* there are none before */
    fetch_list next; /* to be asked for meanwhile */
} key_tile;

static void copy_rows(const attn_call *call, int64_t rows, int64_t cols, const real *from, int64_t ld, real *to) {
    for (int64_t i = 0; i < rows; i++)
        call->kernels->scaled(cols, 1, from + i * ld, to + i * cols);
}

/* True where the block's products are the matrix unit's. */
static bool by_parts(const attn_call *call, const attn_query_block *block) {
    return call->plan->shape.parts && !block->without_parts;
}

/* Q of the block in parts, or made dense where its rows are apart: every tile of keys reads it. */
static void prepare_queries(const attn_call *call, const attn_task *task, const attn_query_block *block) {
    if (by_parts(call, block)) {
        attn_parts_of_queries(call, task, block);
        return;
    }
    int64_t head_dim = call->plan->problem.head_dim;
    for (int64_t head = 0; call->plan->queries_packed && head < block->heads; head++) {
        attn_head arrays = attn_head_at(call, task, block->head0 + head);
        copy_rows(call, block->rows, head_dim, arrays.q + block->row0 * arrays.q_row, arrays.q_row,
                  block->packed_queries + head * block->rows * head_dim);
    }
}

/* Where the block finds these keys and their values: in the caller's arrays, or packed for products without packing.
 * Once for all rows and heads of the block, and never where a mask hides these keys from all of them. */
static void prepare_keys(const attn_call *call, const attn_task *task, const attn_query_block *block, key_tile *tile) {
    if (tile->prepared)
        return;
    tile->prepared = true;
    const attn_problem *p = &call->plan->problem;
    attn_head arrays = attn_head_at(call, task, block->head0);
    tile->k = arrays.k != NULL ? arrays.k + tile->begin * arrays.k_row : NULL;
    tile->v = arrays.v != NULL ? arrays.v + tile->begin * arrays.v_row : NULL;
    tile->k_row = arrays.k_row;
    tile->v_row = arrays.v_row;
    if (!call->plan->shape.packed || block->without_parts)
        return;
    if (call->plan->shape.parts) {
        attn_parts_of_keys(call, &arrays, block, (attn_key_range){tile->begin, tile->end});
        return;
    }
    if (call->scale != 0) {
        int64_t row = call->plan->shape.keys + call->plan->shape.keys_gap;
        call->kernels->transpose(tile->end - tile->begin, p->head_dim, tile->k, tile->k_row, block->packed_keys, row);
        tile->k = block->packed_keys;
        tile->k_row = row;
        tile->transposed = true;
    }
    if (tile->v_row != p->v_dim && p->v_dim > 0) {
        copy_rows(call, tile->end - tile->begin, p->v_dim, tile->v, tile->v_row, block->packed_values);
        tile->v = block->packed_values;
        tile->v_row = p->v_dim;
    }
}

/* s = scale Q K^T of the block's head-th head, of keys that were prepared for it or of those in the caller's array. */
static void scores(const attn_call *call, const attn_head *arrays, const attn_query_block *block, int64_t head,
                   const key_tile *keys, const attn_tile *tile) {
    if (call->scale != 0 && by_parts(call, block)) {
        attn_parts_scores(call, arrays, block, head, (attn_key_range){keys->begin, keys->end}, tile);
        return;
    }
    if (call->scale != 0 && block->without_parts) {
        attn_tile_scores_apart(call, arrays, tile);
        return;
    }
    if (!keys->transposed) {
        attn_tile_scores(call, arrays, tile);
        return;
    }
    int64_t head_dim = call->plan->problem.head_dim, state = head * block->rows + tile->row0 - block->row0;
    bool dense = block->packed_queries != NULL;
    attn_multiply(tile->rows, tile->keys, head_dim, call->scale,
                  dense ? block->packed_queries + state * head_dim : arrays->q + tile->row0 * arrays->q_row,
                  dense ? head_dim : arrays->q_row, keys->k + (tile->key0 - keys->begin), keys->k_row, false, tile->s,
                  tile->ld);
}

/* Rows that are edited and exponentiated together, in the first-level cache. Meanwhile mask and bias of the next ones
 * come from memory: of all rows at once they would be asked for faster than they come. LADDER.md, 2026-11-30. */
enum { ROWS_AT_ONCE = 16 };

/* Rows i .. i+rows-1 of a tile, as many of them as there are. */
static attn_tile rows_of(const attn_tile *tile, int64_t i, int64_t rows) {
    attn_tile part = *tile;
    i = attn_smaller(i, tile->rows);
    part.s += i * tile->ld;
    part.row0 += i;
    part.rows = attn_smaller(rows, tile->rows - i);
    return part;
}

/* Scores to weights, some rows of a tile. A row keeps the maximum of its first keys while its scores stay near that.
 * Few rows need a second one, so that making their scores again is cheaper than looking for the maxima of all: one by
 * one, since what other rows need must not change their bits. Not where scores are edited: biases often rise from tile
 * to tile. */
static void weights(const attn_call *call, const attn_task *task, const attn_head *arrays,
                    const attn_query_block *block, int64_t state, const key_tile *keys, const attn_tile *tile) {
    const attn_kernels *kernels = call->kernels;
    real *row_max = block->row_max + state, *row_sum = block->row_sum + state, *rescale = block->rescale + state;
    bool keep = !keys->first && !call->plan->edited;
    if (kernels->softmax_tile(tile->rows, tile->keys, tile->s, tile->ld, keep, row_max, row_sum, rescale) == 0)
        return;
    for (int64_t i = 0; i < tile->rows; i++) {
        if (!(rescale[i] < 0))
            continue;
        attn_tile row = rows_of(tile, i, 1);
        attn_tile_scores_apart(call, arrays, &row);
        attn_tile_edit(call, arrays, &task->member, &row);
        kernels->softmax_tile(1, row.keys, row.s, row.ld, false, row_max + i, row_sum + i, rescale + i);
    }
}

/* One tile of one head of the block: scores, hidden keys, softmax step, product with V. A tile that is hidden as a
 * whole would add 0 to everything, so that only the output that it was to begin is left to do. */
static void tile_step(const attn_call *call, const attn_task *task, const attn_query_block *block, int64_t head,
                      key_tile *keys, const attn_tile *tile) {
    int64_t v_dim = call->plan->problem.v_dim;
    int64_t state = head * block->rows + tile->row0 - block->row0;
    real *o = block->o + state * v_dim;
    attn_head arrays = attn_head_at(call, task, block->head0 + head);
    attn_tile part = rows_of(tile, 0, ROWS_AT_ONCE);
    attn_tile_fetch(call, &arrays, &part);
    int64_t left = block->heads * block->rows - state;
    fetch_share(&keys->next, 0, tile->rows, left);
    bool first = tile->key0 == block->first_key;
    if (attn_tile_hidden(call, &arrays, tile)) {
        for (int number = 1; number < FETCHES; number++)
            fetch_share(&keys->next, number, tile->rows, left);
        if (first)
            memset(o, 0, (size_t)(tile->rows * v_dim) * sizeof *o);
        return;
    }
    prepare_keys(call, task, block, keys);
    scores(call, &arrays, block, head, keys, tile);
    fetch_share(&keys->next, 1, tile->rows, left);
    int64_t rows_at_once = block->cleaning ? tile->rows : ROWS_AT_ONCE;
    for (int64_t i = 0; i < tile->rows; i += rows_at_once) {
        part = rows_of(tile, i + rows_at_once, ROWS_AT_ONCE);
        attn_tile_fetch(call, &arrays, &part);
        part = rows_of(tile, i, rows_at_once);
        attn_tile_edit(call, &arrays, &task->member, &part);
        if (block->cleaning)
            attn_tile_clean(call, &arrays, tile, block->clean, o, v_dim);
        weights(call, task, &arrays, block, state + i, keys, &part);
    }
    if (v_dim == 0)
        return; /* only lse is wanted, and there may be no V to point at */
    fetch_share(&keys->next, 2, tile->rows, left);
    if (!first)
        call->kernels->scale_rows(tile->rows, v_dim, o, v_dim, block->rescale + state);
    if (by_parts(call, block)) {
        attn_parts_add_values(call, block, (attn_key_range){keys->begin, keys->end}, tile, !first, o);
        return;
    }
    const real *v = block->cleaning ? block->clean : keys->v + (tile->key0 - keys->begin) * keys->v_row;
    int64_t v_row = block->cleaning ? v_dim : keys->v_row;
    if (block->without_parts) /* whose bits are a row's own, however many of them are too small */
        call->kernels->multiply(tile->rows, v_dim, tile->keys, 1, tile->s, tile->ld, v, v_row, !first, o, v_dim);
    else
        attn_multiply(tile->rows, v_dim, tile->keys, 1, tile->s, tile->ld, v, v_row, !first, o, v_dim);
}

/* Rows of one head over the keys of a tile: nothing where all are hidden, in strips where some are, since a strip
 * leaves out the keys that none of its rows sees. */
static void rows_step(const attn_call *call, const attn_task *task, const attn_query_block *block, int64_t head,
                      key_tile *keys, attn_tile tile) {
    const attn_member *member = &task->member;
    int64_t strip = call->plan->shape.strip;
    attn_key_range seen = attn_block_keys(member, tile.row0, tile.rows);
    int64_t begin = attn_larger(keys->begin, seen.begin), end = attn_smaller(keys->end, seen.end);
    if (begin >= end)
        return;
    tile.key0 = begin;
    tile.keys = end - begin;
    if (tile.rows <= strip || attn_tile_visible(member, tile.row0, tile.rows, begin, end - begin)) {
        tile_step(call, task, block, head, keys, &tile);
        return;
    }
    int64_t rows_end = tile.row0 + tile.rows;
    for (; tile.row0 < rows_end; tile.row0 += strip) {
        tile.rows = attn_smaller(strip, rows_end - tile.row0);
        rows_step(call, task, block, head, keys, tile);
    }
}

/* Takes the block over a chunk of its visible keys. Tiles begin at multiples of their size, in rows and keys: where the
 * block begins and ends changes no result. */
static void over_chunk(const attn_call *call, const attn_task *task, const attn_query_block *given,
                       attn_key_range chunk) {
    const attn_member *member = &task->member;
    int64_t tile_rows = given->share.tile_rows, tile_keys = given->share.tile_keys;
    attn_query_block with_first = *given;
    const attn_query_block *block = &with_first;
    /* for the member as a whole, since 0 + -0 is not -0 and blocks follow the threads; what is not finite is marked in
     * the output before the product */
    bool writes = member->left < 0 && attn_row_keys(member, 0).end > chunk.begin && !given->cleaning;
    with_first.first_key = writes ? chunk.begin : -1;
    attn_block_begin(call, block);
    fetch_queries(call, task, block);
    prepare_queries(call, task, block);
    if (by_parts(call, block))
        call->kernels->parts_begin();
    /* what this task goes over next */
    attn_key_range coming = chunk;
    if (task->chunk < 0)
        coming.end = attn_task_keys(call, task, block).end;
    for (int64_t begin = chunk.begin, end; begin < chunk.end; begin = end) {
        end = attn_smaller((begin / tile_keys + 1) * tile_keys, chunk.end);
        key_tile keys = {.begin = begin, .end = end, .first = begin == chunk.begin};
        keys.next = what_comes_next(call, task, block, (attn_key_range){begin, end}, coming);
        attn_tile tile = {.s = block->s, .ld = attn_smaller(tile_keys, call->plan->problem.kv_len)};
        for (int64_t head = 0; head < block->heads; head++)
            for (int64_t i = 0; i < block->rows; i += tile_rows) {
                tile.row0 = block->row0 + i;
                tile.rows = attn_smaller(tile_rows, block->rows - i);
                rows_step(call, task, block, head, &keys, tile);
            }
    }
    if (by_parts(call, block))
        call->kernels->parts_end();
}

void attn_fused_task(const attn_call *call, int worker, const attn_task *task) {
    const attn_member *member = &task->member;
    attn_share share = attn_share_of(call->plan, member);
    if (share.few_queries) {
        attn_few_queries_task(call, worker, task, share);
        return;
    }
    attn_query_block block = attn_block_with_workspace(call, worker);
    block.share = share;
    block.over_chunk = over_chunk;
    int64_t buffer_rows = place_block(call, task, &block);
    for (int64_t head = 0; task->chunk <= 0 && head < block.heads; head++) {
        attn_head arrays = attn_head_at(call, task, block.head0 + head);
        attn_clear_rows(call, &arrays, block.row0 + block.rows, buffer_rows - block.rows);
    }
    if (block.rows > 0)
        attn_chunks_run(call, task, &block);
}
