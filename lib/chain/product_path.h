/* The path that a product takes, and the scratch memory for it. Nothing here depends on the precision. */
#ifndef ATTN_LIB_PRODUCT_PATH_H
#define ATTN_LIB_PRODUCT_PATH_H

#include <stdbool.h>
#include <stdint.h>

#include "base/text.h"

/* What product.c has for the rows of a member times a matrix.
 *
 *   strips  members of few rows wait for the weights to arrive from memory, once for all of them, in loops of our own
 *   panels  some columns of the weights are packed once for many rows, then multiplied in tiles: by BLAS where it
 *           leaves them unpacked, by a kernel of our own where the BLAS core leaves vectors of this CPU unused
 *   blocks  large products, which BLAS packs itself
 */
typedef enum attn_product_path { ATTN_PATH_STRIPS, ATTN_PATH_PANELS, ATTN_PATH_BLOCKS, ATTN_PATHS } attn_product_path;

/* The path of a member of so many rows with weights [k, n]: for its own rows, the sizes and the BLAS core to decide. */
attn_product_path attn_product_path_of(int64_t rows, int64_t n, int64_t k);

/* True for products that need no packing: a million multiplications at most. */
bool attn_product_is_small(int64_t rows, int64_t n, int64_t k);

/* Panels. 2-core Zen 4, OpenBLAS 0.3.21 core Cooperlake, 2026-11-30: lib/kernels/LADDER.md, "Projections". Tiles stay
 * below the million multiplications up to which this BLAS does not pack. */
enum {
    ATTN_PANEL_BYTES = 256, /* of a row: four vectors, which the kernels of this BLAS take at once, by six rows */
    ATTN_PANEL_TILES = 4,   /* tiles that a panel is deep: results are read and written once for each panel */
    ATTN_PANEL_TILE_ROWS = 48,
    ATTN_PANEL_ROWS = 22 * ATTN_PANEL_TILE_ROWS, /* rows that share a panel, */
    ATTN_PANEL_ROWS_MIN = ATTN_PANEL_ROWS / 2,   /* and when many threads want a share: packing takes 7 % then, not 2 */
};

/* Terms that one tile of a panel sums. */
int64_t attn_panel_tile_depth(int64_t k);

/* Bytes of scratch memory per thread for weights [k, n] and members of up to `rows` rows, in either precision; 0 where
 * none is needed. */
int64_t attn_product_scratch(int64_t rows, int64_t n, int64_t k);

/* The most tasks of such a product that take scratch memory, of `members` members: more threads would have theirs in
 * vain. */
int64_t attn_product_panels(int64_t members, int64_t rows, int64_t n, int64_t k);

/* Adds how a product with weights [k, n], or transposed ones, goes about a member of so many rows, for people. */
void attn_add_product_way(attn_text *out, int64_t rows, int64_t n, int64_t k, bool transposed);

#endif
