/* The rule for tiles. lib/kernels/LADDER.md tells how it was found. */
#include "sdpa/tiles.h"

#include <string.h>

#include "blas/blas.h"

/* OpenBLAS multiplies small matrices without packing them on AVX-512 cores (its pull request 3335): up to a million
 * multiply-adds, and B not transposed. On a 2-core Xeon (Sapphire Rapids, core SkylakeX) such tiles run at 190 GFLOP/s,
 * larger or transposed ones at 100 to 140: OpenBLAS 0.3.21, 2026-11-30, the tile table of LADDER.md. Other cores pack
 * whatever they are given and want large tiles: 2-core Zen 3, core Zen, the same day. */
enum {
    MOST_MULTIPLICATIONS = 1000000, /* of an unpacked product */
    ROWS_UNIT = 24,                 /* whole register blocks of those products */
    PACKED_ROWS = 96,
    KEYS_UNIT = 16,                  /* whole vectors */
    PACKED_KEYS = 128,               /* at most, */
    PACKED_VALUES_BYTES = 32 * 1024, /* and V of a tile stays in the first-level cache */
    PACKED_BLOCK_ROWS = 384,         /* transposing K then takes 4 % of the time */
    LARGE_ROWS = 256,
    LARGE_KEYS = 512,      /* while a row of V stays below WIDE_VALUES */
    LARGE_KEYS_WIDE = 256, /* from there on */
    WIDE_VALUES = 256,     /* elements */
};

/* x cut to whole units, at least one and not above most. */
static int64_t whole(int64_t x, int64_t unit, int64_t most) {
    x = x < most ? x : most;
    return x < unit ? unit : x / unit * unit;
}

static bool core_has_small_products(void) {
    static const char *const cores[] = {"SkylakeX", "Cooperlake", "SapphireRapids"};
    for (size_t i = 0; i < sizeof cores / sizeof *cores; i++)
        if (strcmp(attn_blas_core(), cores[i]) == 0)
            return true;
    return false;
}

attn_tile_shape attn_shape_tiles(int64_t head_dim, int64_t v_dim, attn_dtype dtype) {
    int64_t widest = head_dim > v_dim ? head_dim : v_dim;
    widest = widest > 0 ? widest : 1;
    int64_t room = MOST_MULTIPLICATIONS / widest;
    if (room < ROWS_UNIT * KEYS_UNIT || !core_has_small_products())
        return (attn_tile_shape){
            .rows = LARGE_ROWS,
            .keys = v_dim < WIDE_VALUES ? LARGE_KEYS : LARGE_KEYS_WIDE,
            .strip = LARGE_ROWS / 4,
            .block_rows = LARGE_ROWS,
            .reason = "large products, for a BLAS core that packs them",
        };
    int64_t value_bytes = dtype == ATTN_F32 ? sizeof(float) : sizeof(double);
    int64_t keys = whole(PACKED_VALUES_BYTES / (widest * value_bytes), KEYS_UNIT, PACKED_KEYS);
    int64_t rows = whole(room / keys, ROWS_UNIT, PACKED_ROWS);
    return (attn_tile_shape){
        .rows = rows,
        .keys = keys,
        .strip = ROWS_UNIT,
        .block_rows = PACKED_BLOCK_ROWS / rows * rows,
        .packed = true,
        .reason = "small products, which this BLAS core does without packing",
    };
}
