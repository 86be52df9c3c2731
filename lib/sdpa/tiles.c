/* The rule for tiles. lib/kernels/LADDER.md tells how it was found. */
#include "sdpa/tiles.h"

#include "base/checks.h"
#include "blas/blas.h"

/* OpenBLAS multiplies small matrices without packing them on AVX-512 cores (its pull request 3335): up to a million
 * multiply-adds, and B not transposed. Such tiles run at 190 GFLOP/s on a 2-core Xeon (Sapphire Rapids, core SkylakeX)
 * and at 115 of a peak of 118 on a 2-core EPYC (Zen 4, core Cooperlake); larger or transposed ones at 100 to 140 and 95
 * to 100: OpenBLAS 0.3.21, 2026-11-30, the tile tables of LADDER.md. Other cores pack whatever they are given: where no
 * kernel of our own takes their place (blas/core.c), they want large tiles (2-core Zen 3, core Zen, the same day). */
enum {
    MOST_MULTIPLICATIONS = 1000000, /* of an unpacked product */
    ROWS_UNIT = 16,                 /* softmax_tile takes as many floats at a time on these cores */
    WIDE_ROWS_UNIT = 8,             /* of heads so wide that fewer than 32 rows fit, */
    LEAST_ROWS = 12,                /* and fewer than 16: head size 2048 */
    PACKED_ROWS = 96,
    OWN_ROWS = 48,
    KEYS_UNIT = 16, /* whole vectors */
    /* two vectors: 0.80 to 0.94 of the time that one takes, 2-core Xeon, 2026-12-01: LADDER.md, "Wide heads" */
    LEAST_KEYS_BYTES = 128,
    PACKED_BLOCK_BYTES = 384 * 1024, /* output of a block: with as much of Q within L2, and transposing K takes 1 % */
    LARGE_ROWS = 256,
    LARGE_KEYS = 512,      /* while a row of V stays below WIDE_VALUES */
    LARGE_KEYS_WIDE = 256, /* from there on */
    WIDE_VALUES = 256,     /* elements */
    /* of the matrix unit: 2-core Xeon (Sapphire Rapids), 2026-12-01, plans of builds in turn: LADDER.md, "Parts" */
    PARTS_ROWS = 32,
    PARTS_KEYS = 128,
    PARTS_BLOCK_BYTES = 256 * 1024, /* output of a block; its Q takes one and a half times as much, */
    LEAST_WIDTH = 16,               /* and no less for narrower heads */
    PARTS_WIDEST = 256, /* wider heads were not tried: K and V of a tile would leave the second-level cache */
};

/* Who multiplies small tiles without packing them, and the keys of these: as many as make V this large, at most
 * `keys`. */
typedef struct small_products {
    const char *core;
    int64_t value_bytes, keys;
    int64_t keys_gap; /* as of attn_tile_shape */
    bool of_any_size; /* of more than MOST_MULTIPLICATIONS too */
    const char *reason;
} small_products;

#define UNPACKED "small products, which this BLAS core does without packing"
static const small_products cores[] = {
    {"SkylakeX", 32 * 1024, 128, 0, false, UNPACKED},
    {"SapphireRapids", 32 * 1024, 128, 0, false, UNPACKED},
    {"Cooperlake", 64 * 1024, 256, 0, false, UNPACKED},
};

/* Kernel `multiply`. It reads a few columns of K at a time, which at a distance of 1 KiB would share a sixteenth of the
 * first-level cache: 0.82 of the multiply-add peak without the gap, 0.93 with it (2-core Zen 3, 2026-12-01). */
static const small_products own_kernel = {
    "", 128 * 1024, 256, KEYS_UNIT, true, "small products, by the library's own kernel",
};

/* x cut to whole units, at least one and not above most. */
static int64_t whole(int64_t x, int64_t unit, int64_t most) {
    x = x < most ? x : most;
    return x < unit ? unit : x / unit * unit;
}

/* NULL for a core that packs everything. */
static const small_products *find_small_products(void) {
    if (attn_own_products())
        return &own_kernel;
    for (size_t i = 0; i < sizeof cores / sizeof *cores; i++)
        if (attn_blas_core_is(cores[i].core))
            return &cores[i];
    return NULL;
}

/* The matrix unit: kernels/parts.c. */
static attn_tile_shape tiles_of_parts(int64_t widest) {
    return (attn_tile_shape){
        .rows = PARTS_ROWS,
        .keys = PARTS_KEYS,
        .short_rows = PARTS_ROWS,
        .strip = ROWS_UNIT,
        .block_rows = whole(PARTS_BLOCK_BYTES / (attn_larger(widest, LEAST_WIDTH) * (int64_t)sizeof(float)), PARTS_ROWS,
                            INT64_MAX),
        .packed = true,
        .parts = true,
        .reason = "three parts of bfloat16 for each float, by the matrix unit",
    };
}

attn_tile_shape attn_shape_tiles(int64_t head_dim, int64_t v_dim, attn_dtype dtype) {
    int64_t widest = head_dim > v_dim ? head_dim : v_dim;
    widest = widest > 0 ? widest : 1;
    if (dtype == ATTN_F32 && attn_isa_in_use() == ATTN_ISA_AMX && widest <= PARTS_WIDEST)
        return tiles_of_parts(widest);
    int64_t room = MOST_MULTIPLICATIONS / widest;
    const small_products *small = find_small_products();
    if (small == NULL || (room < ROWS_UNIT * KEYS_UNIT && !small->of_any_size))
        return (attn_tile_shape){
            .rows = LARGE_ROWS,
            .keys = v_dim < WIDE_VALUES ? LARGE_KEYS : LARGE_KEYS_WIDE,
            .short_rows = LARGE_ROWS,
            .strip = LARGE_ROWS / 4,
            .block_rows = LARGE_ROWS,
            .reason = small == NULL ? "large products, for a BLAS core that packs them"
                                    : "large products, since heads of this size leave no small ones",
        };
    int64_t value_bytes = dtype == ATTN_F32 ? sizeof(float) : sizeof(double);
    int64_t row_bytes = attn_mul_saturated(widest, value_bytes); /* of problems without elements too */
    int64_t keys = whole(small->value_bytes / row_bytes, KEYS_UNIT, small->keys);
    int64_t rows = OWN_ROWS;
    if (!small->of_any_size) {
        int64_t least_keys = LEAST_KEYS_BYTES / value_bytes;
        if (room >= LEAST_ROWS * least_keys)
            keys = attn_larger(keys, least_keys);
        int64_t fits = room / keys;
        int64_t unit = fits < 2 * ROWS_UNIT ? WIDE_ROWS_UNIT : ROWS_UNIT;
        rows = fits < ROWS_UNIT ? LEAST_ROWS : whole(fits, unit, PACKED_ROWS);
    }
    return (attn_tile_shape){
        .rows = rows,
        .keys = keys,
        .keys_gap = small->keys_gap,
        /* More steps, between which the next head comes from memory: 0.96 of the time. Blocks begin with any tile, so
         * that these must cut tiles evenly: bits may not follow the threads. */
        .short_rows = rows % ROWS_UNIT == 0 ? ROWS_UNIT : rows,
        .strip = ROWS_UNIT,
        .block_rows = whole(PACKED_BLOCK_BYTES / row_bytes, rows, INT64_MAX),
        .packed = true,
        .reason = small->reason,
    };
}
