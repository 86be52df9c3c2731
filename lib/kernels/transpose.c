/* Kernel transpose: blocks of LANES x LANES elements turn in registers.
 *
 * The loads put the same columns of different rows into the groups of a vector: row g * GROUP_LANES + i into group g of
 * vector i. So no element has to leave its group, which would cost more. Zipping vectors i and i + GROUP_LANES / 2 for
 * all i brings each element's place in its group one bit nearer to its transposed place; after log2(GROUP_LANES)
 * rounds it is there.
 */
#include "base/fetch.h"
#include "kernels/simd.h"

enum {
    LINE = ATTN_FETCH_LINE / sizeof(real),
    AHEAD = 16, /* rows; 2-core EPYC (Zen 4), 2026-11-30, see LADDER.md, "Transposing" */
};

INLINE void zip(const vec *from, vec *to) {
    UNROLLED
    for (int i = 0; i < GROUP_LANES / 2; i++) {
        to[2 * i] = vec_zip_low_in_groups(from[i], from[i + GROUP_LANES / 2]);
        to[2 * i + 1] = vec_zip_high_in_groups(from[i], from[i + GROUP_LANES / 2]);
    }
}

INLINE void turn_groups(vec *v) {
    vec other[GROUP_LANES];
    zip(v, other);
    if (GROUP_LANES == 4)
        zip(other, v);
    else
        for (int i = 0; i < GROUP_LANES; i++)
            v[i] = other[i];
}

/* p, of which gcc 12 does not know where it comes from: it would compute the addresses of all loads beforehand and keep
 * them in memory. */
INLINE const real *address_kept(const real *p) {
    __asm__("" : "+r"(p));
    return p;
}

/* v[j] = column j of a block of x. fetch: asks for the rows further down, into the second-level cache, since rows a
 * multiple of 4 KiB apart would drive each other from the first. */
INLINE void load_turned(const real *x, int64_t ldx, bool fetch, vec *v) {
    UNROLLED
    for (int i = 0; i < GROUP_LANES; i++) {
        UNROLLED
        for (int g = 0; g < GROUPS && fetch; g++) {
            int64_t step = (AHEAD + g * GROUP_LANES) * ldx;
            __builtin_prefetch(attn_fetch_address(x, step * (int64_t)sizeof *x), 0, 2);
        }
        UNROLLED
        for (int c = 0; c < GROUPS; c++)
            v[c * GROUP_LANES + i] = vec_load_groups(x + c * GROUP_LANES, GROUP_LANES * ldx);
        x = address_kept(x + ldx);
    }
    UNROLLED
    for (int c = 0; c < GROUPS; c++)
        turn_groups(v + c * GROUP_LANES);
}

INLINE void transpose_block(const real *x, int64_t ldx, real *y, int64_t ldy) {
    vec v[LANES];
    load_turned(x, ldx, true, v);
    UNROLLED
    for (int j = 0; j < LANES; j++)
        vec_store(y + j * ldy, v[j]);
}

/* The same for fewer rows or columns, both above 0; what is beyond them is neither read nor written. */
static void transpose_part(int64_t rows, int64_t cols, const real *x, int64_t ldx, real *y, int64_t ldy) {
    real copy[LANES * LANES] = {0};
    for (int64_t i = 0; i < rows; i++)
        vec_store(copy + i * LANES, cols == LANES ? vec_load(x + i * ldx) : vec_load_part(x + i * ldx, cols, 0));
    vec v[LANES];
    load_turned(copy, LANES, false, v);
    UNROLLED
    for (int j = 0; j < LANES; j++) {
        if (j < cols && rows == LANES)
            vec_store(y + j * ldy, v[j]);
        else if (j < cols)
            vec_store_part(y + j * ldy, rows, v[j]);
    }
}

/* Whole blocks, as many rows at a time as fill a cache line of y, then what is left beside them and below. */
void KERNEL(transpose)(int64_t rows, int64_t cols, const real *x, int64_t ldx, real *y, int64_t ldy) {
    int64_t whole_rows = rows - rows % LINE, whole_cols = cols - cols % LANES;
    for (int64_t i = 0; i < whole_rows; i += LINE)
        for (int64_t j = 0; j < whole_cols; j += LANES)
            for (int64_t r = i; r < i + LINE; r += LANES)
                transpose_block(x + r * ldx + j, ldx, y + j * ldy + r, ldy);
    for (int64_t i = 0; i < rows; i += LANES)
        for (int64_t j = i < whole_rows ? whole_cols : 0; j < cols; j += LANES) {
            int64_t height = rows - i < LANES ? rows - i : LANES, width = cols - j < LANES ? cols - j : LANES;
            if (height == LANES && width == LANES)
                transpose_block(x + i * ldx + j, ldx, y + j * ldy + i, ldy);
            else
                transpose_part(height, width, x + i * ldx + j, ldx, y + j * ldy + i, ldy);
        }
}
