/* Products of a tile by the matrix unit. */
#include "sdpa/parts.h"

#include <string.h>

/* n blocks of terms of 16 rows or columns further. */
static void *blocks_from(void *parts, int64_t n) {
    return (char *)parts + n * ATTN_PARTS_BLOCK_BYTES;
}

/* Those of Q of a head of the block from a row on, a multiple of 16: each head begins with a tile. */
static void *queries_from(const attn_call *call, const attn_query_block *block, int64_t head, int64_t row) {
    int64_t groups = head * attn_blocks_of(block->rows, ATTN_PARTS_SIDE) + row / ATTN_PARTS_SIDE;
    return blocks_from(block->packed_queries, groups * attn_parts_blocks(call->plan->problem.head_dim));
}

/* The number of the first key of the 16 or 32 that this one is among. */
static int64_t first_of(int64_t key, int64_t unit) {
    return key / unit * unit;
}

/* Of a block: what its heads' queries have marked, and behind it the keys of a tile. */
static uint8_t *wild_queries(const attn_query_block *block, int64_t head) {
    return block->wild + head * block->rows;
}
static uint8_t *wild_keys(const attn_query_block *block) {
    return block->wild + block->heads * block->rows;
}

void attn_parts_of_queries(const attn_call *call, const attn_task *task, const attn_query_block *block) {
    int64_t head_dim = call->plan->problem.head_dim;
    for (int64_t head = 0; head < block->heads; head++) {
        attn_head arrays = attn_head_at(call, task, block->head0 + head);
        call->kernels->split_rows(block->rows, head_dim, 0, call->scale, arrays.q + block->row0 * arrays.q_row,
                                  arrays.q_row, queries_from(call, block, head, 0), wild_queries(block, head));
    }
}

void attn_parts_of_keys(const attn_call *call, const attn_head *arrays, const attn_query_block *block,
                        attn_key_range keys) {
    const attn_problem *p = &call->plan->problem;
    int64_t count = keys.end - keys.begin;
    if (call->scale != 0)
        call->kernels->split_keys(count, p->head_dim, keys.begin % ATTN_PARTS_SIDE,
                                  arrays->k + keys.begin * arrays->k_row, arrays->k_row, block->packed_keys,
                                  wild_keys(block));
    if (p->v_dim > 0 && !block->cleaning)
        call->kernels->split_values(count, p->v_dim, keys.begin % ATTN_PARTS_TERMS,
                                    arrays->v + keys.begin * arrays->v_row, arrays->v_row, block->packed_values);
}

/* Scores of one row and keys begin .. end-1 of the tile. */
static void scores_apart(const attn_call *call, const attn_head *arrays, const attn_tile *tile, int64_t row,
                         int64_t begin, int64_t end) {
    const attn_tile part = {.s = tile->s + row * tile->ld + begin,
                            .ld = tile->ld,
                            .row0 = tile->row0 + row,
                            .rows = 1,
                            .key0 = tile->key0 + begin,
                            .keys = end - begin};
    attn_tile_scores_apart(call, arrays, &part);
}

void attn_parts_scores(const attn_call *call, const attn_head *arrays, const attn_query_block *block, int64_t head,
                       attn_key_range keys, const attn_tile *tile) {
    int64_t blocks = attn_parts_blocks(call->plan->problem.head_dim);
    int64_t row = tile->row0 - block->row0, column = tile->key0 - first_of(keys.begin, ATTN_PARTS_SIDE);
    const attn_parts_product product = {
        .left = queries_from(call, block, head, row),
        .right = blocks_from(block->packed_keys, column / ATTN_PARTS_SIDE * blocks),
        .rows = tile->rows,
        .cols = tile->keys,
        .skip = column % ATTN_PARTS_SIDE,
        .blocks = blocks,
        .right_blocks = blocks,
        .y = (float *)tile->s,
        .ldy = tile->ld,
    };
    call->kernels->multiply_parts(&product);
    const uint8_t *wild_row = wild_queries(block, head) + row, *wild_key = wild_keys(block) + tile->key0 - keys.begin;
    bool some_key = memchr(wild_key, 1, (size_t)tile->keys) != NULL;
    for (int64_t i = 0; i < tile->rows; i++) {
        if (wild_row[i])
            scores_apart(call, arrays, tile, i, 0, tile->keys);
        for (int64_t j = 0; !wild_row[i] && some_key && j < tile->keys; j++)
            if (wild_key[j])
                scores_apart(call, arrays, tile, i, j, j + 1);
    }
}

void attn_parts_add_values(const attn_call *call, const attn_query_block *block, attn_key_range keys,
                           const attn_tile *tile, bool add, real *o) {
    const attn_kernels *kernels = call->kernels;
    int64_t v_dim = call->plan->problem.v_dim, skip = tile->key0 % ATTN_PARTS_TERMS;
    int64_t blocks = attn_parts_blocks(skip + tile->keys), origin = first_of(keys.begin, ATTN_PARTS_TERMS);
    attn_parts_product product = {
        .left = block->weight_parts,
        .right = blocks_from(block->packed_values, (tile->key0 - origin) / ATTN_PARTS_TERMS),
        .rows = tile->rows,
        .cols = v_dim,
        .blocks = blocks,
        .right_blocks = attn_parts_blocks(keys.end - origin),
        .add = add,
        .y = (float *)o,
        .ldy = v_dim,
    };
    if (block->cleaning) {
        kernels->split_values(tile->keys, v_dim, skip, block->clean, v_dim, block->packed_values);
        product.right = block->packed_values;
        product.right_blocks = blocks;
    }
    kernels->split_rows(tile->rows, tile->keys, skip, 1, tile->s, tile->ld, block->weight_parts, NULL);
    kernels->multiply_parts(&product);
}
