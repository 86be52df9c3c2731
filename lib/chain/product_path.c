/* The choice of a product's path. */
#include "chain/product_path.h"

#include "base/checks.h"
#include "blas/blas.h"

/* FEW_ROWS: 2-core Sapphire Rapids, OpenBLAS 0.3.21 core SkylakeX, 2026-11-30; the others as in product_path.h:
 * lib/kernels/LADDER.md, "Projections". */
enum {
    FEW_ROWS = 32,   /* members of up to this many rows take the loops */
    SOME_ROWS = 128, /* of panels on core SkylakeX: see below */
    MOST_UNPACKED = 1000000,
    TILE_DEPTH = 256, /* most terms that one call sums */
    DEPTH_UNIT = 16,
};

/* The most rows of a member that takes panels. Cores named SkylakeX have small products too, but read large matrices
 * faster in blocks: on 2-core Xeons (Sapphire and Emerald Rapids), 2026-11-30, panels are ahead up to some 150 rows. */
static int64_t most_panel_rows(void) {
    if (attn_blas_falls_short() || attn_blas_core_is("Cooperlake"))
        return INT64_MAX;
    return attn_blas_core_is("SkylakeX") || attn_blas_core_is("SapphireRapids") ? SOME_ROWS : 0;
}

bool attn_product_is_small(int64_t rows, int64_t n, int64_t k) {
    return attn_mul_saturated(rows, attn_mul_saturated(n, k)) <= MOST_UNPACKED;
}

attn_product_path attn_product_path_of(int64_t rows, int64_t n, int64_t k) {
    if (rows <= FEW_ROWS)
        return ATTN_PATH_STRIPS;
    return rows <= most_panel_rows() && !attn_product_is_small(rows, n, k) ? ATTN_PATH_PANELS : ATTN_PATH_BLOCKS;
}

/* True when members of up to `rows` rows may take panels. */
static bool some_take_panels(int64_t rows, int64_t n, int64_t k) {
    return attn_product_path_of(attn_smaller(rows, most_panel_rows()), n, k) == ATTN_PATH_PANELS;
}

/* All about alike, and whole cache lines of X. */
int64_t attn_panel_tile_depth(int64_t k) {
    return attn_blocks_of(attn_blocks_of(k, attn_blocks_of(k, TILE_DEPTH)), DEPTH_UNIT) * DEPTH_UNIT;
}

int64_t attn_product_scratch(int64_t rows, int64_t n, int64_t k) {
    return some_take_panels(rows, n, k)
               ? ATTN_PANEL_BYTES * attn_smaller(k, ATTN_PANEL_TILES * attn_panel_tile_depth(k))
               : 0;
}

int64_t attn_product_panels(int64_t members, int64_t rows, int64_t n, int64_t k) {
    const int64_t least_cols = ATTN_PANEL_BYTES / (int)sizeof(double);
    int64_t panels = attn_mul_saturated(attn_blocks_of(rows, ATTN_PANEL_ROWS_MIN), attn_blocks_of(n, least_cols));
    return some_take_panels(rows, n, k) ? attn_mul_saturated(members, panels) : 0;
}

void attn_add_product_way(attn_text *out, int64_t rows, int64_t n, int64_t k, bool transposed) {
    switch (attn_product_path_of(rows, n, k)) {
    case ATTN_PATH_STRIPS:
        attn_add_text(out, "own loops for all members at once: few rows");
        break;
    case ATTN_PATH_PANELS:
        attn_add_text(out, "weights packed in panels for small %s", attn_multiply_way());
        break;
    default: {
        bool small = !transposed && attn_product_is_small(rows, n, k);
        attn_add_text(out, "in blocks, %s", small ? attn_multiply_way() : "CBLAS products");
    }
    }
}
