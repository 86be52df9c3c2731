/* A block: rows of one or several heads of a key head while they go over the keys, and what becomes of them at the end.
 * Shared by fused's two paths, tiles and few queries. */
#ifndef ATTN_LIB_BLOCK_H
#define ATTN_LIB_BLOCK_H

#include "base/fetch.h"
#include "base/real.h"
#include "sdpa/engines.h"

#define attn_block_with_workspace REAL(attn_block_with_workspace)
#define attn_block_begin REAL(attn_block_begin)
#define attn_block_complete REAL(attn_block_complete)
#define attn_few_queries_task REAL(attn_few_queries_task)

typedef struct attn_query_block attn_query_block;

/* Takes a block from nothing over some of its visible keys, one chunk of them: a path's own way. */
typedef void attn_over_chunk(const attn_call *call, const attn_task *task, const attn_query_block *block,
                             attn_key_range keys);

/* `heads` query heads x `rows` queries, dense, heads outermost. */
struct attn_query_block {
    attn_share share;
    attn_over_chunk *over_chunk;
    int worker; /* whose workspace it has */
    int64_t head0, heads;
    int64_t row0, rows;
    real *s;                           /* a tile of scores of one head */
    real *o;                           /* output before the division, heads x rows x v_dim */
    real *row_max, *row_sum, *rescale; /* heads x rows */
    real *packed_queries;              /* heads x rows x head_dim, or NULL when Q is read where it is; or parts of Q */
    real *packed_keys, *packed_values; /* of a tile; with the matrix unit parts, not reals */
    real *queries_transposed, *strip;  /* few queries, many rows: Q; scores of a strip of keys, or Q on its way */
    void *weight_parts;                /* of a tile, for the matrix unit */
    uint8_t *wild;                     /* 1 for each query and key that parts are not for */
    real *clean;                       /* a tile of values */
    int64_t first_key;                 /* whose product begins the output of every row, -1 = the output begins as 0 */
    bool without_parts;                /* of the matrix unit, and unpacked: rows too small for parts once more */
    bool cleaning;                     /* non-finite values are kept from rows that do not see them */
};

/* Asks for rows row0 .. row0+rows-1, which will be read soon; forced for the reason that attn_fetch() has. */
static inline __attribute__((always_inline)) void attn_fetch_rows(int64_t row0, int64_t rows, int64_t cols,
                                                                  const real *x, int64_t ld) {
    for (int64_t i = row0; i < row0 + rows; i++)
        attn_fetch(x + i * ld, cols * (int64_t)sizeof(real), ATTN_FETCH_TO_L2);
}

/* A block without share, way, heads and rows, with the workspace of one worker. */
attn_query_block attn_block_with_workspace(const attn_call *call, int worker);

/* No key seen yet. The output becomes 0 unless the first product is to write it. */
void attn_block_begin(const attn_call *call, const attn_query_block *block);

/* Takes a block, or a part of its heads and rows, over all its visible keys. */
typedef void attn_over_keys(const attn_call *call, const attn_task *task, const attn_query_block *block);

/* From what a block has gathered from all its keys to out and lse; parts that are not finite are done again with
 * cleaned values. */
void attn_block_complete(const attn_call *call, const attn_task *task, const attn_query_block *block,
                         attn_over_keys *over_keys);

/* few_queries.c */
void attn_few_queries_task(const attn_call *call, int worker, const attn_task *task, attn_share share);

#endif
