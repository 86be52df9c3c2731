/* The shape of fused's tiles: what fits the products of the BLAS core in use. */
#ifndef ATTN_LIB_TILES_H
#define ATTN_LIB_TILES_H

#include <attn/sdpa.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct attn_tile_shape {
    int64_t rows, keys; /* queries and keys of a tile */
    int64_t keys_gap;   /* elements left free after each row of the transposed K */
    int64_t short_rows; /* queries of a tile that holds all keys of its member: divides rows */
    int64_t strip;      /* rows at a time where position hides a part of a tile */
    int64_t block_rows; /* queries that go over the keys together: a multiple of rows */
    bool parts;         /* by the matrix unit: packed as numbers of bfloat16 */
    bool packed; /* a tile's K is transposed and its V made dense before the products, or both split into parts */
    const char *reason; /* for plan_describe */
} attn_tile_shape;

/* From head sizes, precision, BLAS core and instruction set alone, so that no result depends on anything else. */
attn_tile_shape attn_shape_tiles(int64_t head_dim, int64_t v_dim, attn_dtype dtype);

#endif
