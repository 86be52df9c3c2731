/* Sizes of what the matrix unit multiplies: numbers of float in three parts (parts.c). */
#ifndef ATTN_LIB_KERNELS_PARTS_H
#define ATTN_LIB_KERNELS_PARTS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/checks.h"

/* A tile of one part: so many rows or columns x so many terms; a block is the three parts of these. */
enum {
    ATTN_PARTS_SIDE = 16,
    ATTN_PARTS_TERMS = 32,
    ATTN_PARTS_TILE_BYTES = 1024,
    ATTN_PARTS_BLOCK_BYTES = 3 * ATTN_PARTS_TILE_BYTES,
};

/* Numbers from here on and what is not finite are no factors of scores in parts, which would overflow. */
#define ATTN_PARTS_LARGE 0x1p56F

/* Sums of products in parts lose what is below 2^-126: of results this large less than 2^-24 for a million terms. */
#define ATTN_PARTS_SMALL 0x1p-70F

/* Blocks of terms. */
static inline int64_t attn_parts_blocks(int64_t k) {
    return k / ATTN_PARTS_TERMS + (k % ATTN_PARTS_TERMS != 0);
}

/* What the parts of so many rows or columns x so many terms take; a multiple of 64, where they must begin. */
static inline int64_t attn_parts_bytes(int64_t rows, int64_t k) {
    int64_t groups = rows / ATTN_PARTS_SIDE + (rows % ATTN_PARTS_SIDE != 0);
    return attn_mul_saturated(attn_mul_saturated(groups, attn_parts_blocks(k)), ATTN_PARTS_BLOCK_BYTES);
}

/* A product: y[i][j] = sum_c left[i][c] right[c][skip + j], or that much more with `add`. */
typedef struct attn_parts_product {
    const void *left, *right; /* parts; of the right one the first block of terms and 16 columns that are to be taken */
    int64_t rows, cols, skip; /* skip columns of the right factor, fewer than 16 */
    int64_t blocks;           /* of terms: all that the left factor has */
    int64_t right_blocks;     /* that the right one has */
    bool add;                 /* without it y is not read */
    float *y;
    int64_t ldy; /* row stride */
} attn_parts_product;

#endif
