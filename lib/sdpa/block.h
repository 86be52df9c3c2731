/* A block: rows of one or several heads of a key head while they go over the keys, and what becomes of them at the end.
 * Shared by fused's two paths, tiles and few queries. */
#ifndef ATTN_LIB_BLOCK_H
#define ATTN_LIB_BLOCK_H

#include "base/fetch.h"
#include "base/real.h"
#include "sdpa/engines.h"

#define attn_block_with_workspace REAL(attn_block_with_workspace)
#define attn_block_begin REAL(attn_block_begin)
#define attn_block_run REAL(attn_block_run)
#define attn_block_complete REAL(attn_block_complete)
#define attn_block_keep_in REAL(attn_block_keep_in)
#define attn_block_chunk REAL(attn_block_chunk)
#define attn_few_queries_task REAL(attn_few_queries_task)

/* What is known of rows from some of their keys: the output before the division, and the maximum and sum of each. */
typedef struct attn_block_state {
    real *o, *row_max, *row_sum;
} attn_block_state;

/* `heads` query heads x `rows` queries, dense, heads outermost. */
typedef struct attn_query_block {
    attn_share share;
    int64_t head0, heads;
    int64_t row0, rows;
    real *s;                           /* a tile of scores of one head */
    real *o;                           /* output before the division, heads x rows x v_dim */
    real *row_max, *row_sum, *rescale; /* heads x rows */
    attn_block_state beside;           /* few queries: of a chunk of keys after the first */
    real *packed_queries;              /* heads x rows x head_dim, or NULL when Q is read where it is */
    real *packed_keys, *packed_values; /* of a tile */
    real *queries_transposed, *strip;  /* few queries, many rows: Q; scores of a strip of keys, or Q on its way */
    real *clean;                       /* a tile of values */
    bool first_writes;                 /* the product of the first key begins the output of every row */
    bool cleaning;                     /* non-finite values are kept from rows that do not see them */
} attn_query_block;

/* Asks for rows row0 .. row0+rows-1, which will be read soon; forced for the reason that attn_fetch() has. */
static inline __attribute__((always_inline)) void attn_fetch_rows(int64_t row0, int64_t rows, int64_t cols,
                                                                  const real *x, int64_t ld) {
    for (int64_t i = row0; i < row0 + rows; i++)
        attn_fetch(x + i * ld, cols * (int64_t)sizeof(real), ATTN_FETCH_TO_L2);
}

/* A block without share, heads and rows, with the workspace of one worker. */
attn_query_block attn_block_with_workspace(const attn_call *call, int worker);

/* No key seen yet. The output becomes 0 unless the first product is to write it. */
void attn_block_begin(const attn_call *call, const attn_query_block *block);

/* Takes a block, or a part of its heads and rows, over all its visible keys. */
typedef void attn_over_keys(const attn_call *call, const attn_task *task, const attn_query_block *block);

/* From what a block has gathered from all its keys to out and lse; parts that are not finite are done again with cleaned
 * values. */
void attn_block_complete(const attn_call *call, const attn_task *task, const attn_query_block *block,
                         attn_over_keys *over_keys);

/* Both. */
void attn_block_run(const attn_call *call, const attn_task *task, const attn_query_block *block,
                    attn_over_keys *over_keys);

/* The block gathers in other arrays. */
void attn_block_keep_in(attn_query_block *block, attn_block_state state);

/* The arrays of one chunk of keys, by its number. */
attn_block_state attn_block_chunk(const attn_call *call, int64_t number);

/* few_queries.c */
void attn_few_queries_task(const attn_call *call, int worker, const attn_task *task, attn_share share);

#endif
