/* Kernel transpose: blocks of LANES x LANES elements turn in registers.
 *
 * Zipping vectors i and i + LANES / 2 for all i brings each element's place one bit nearer to its transposed place;
 * after log2(LANES) rounds it is there.
 */
#include "base/fetch.h"
#include "kernels/simd.h"

INLINE void zip(const vec *from, vec *to) {
#pragma GCC unroll 8
    for (int i = 0; i < LANES / 2; i++) {
        to[2 * i] = VEC_ZIP_LOW(from[i], from[i + LANES / 2]);
        to[2 * i + 1] = VEC_ZIP_HIGH(from[i], from[i + LANES / 2]);
    }
}

INLINE void transpose_registers(vec *v) {
    vec other[LANES];
    int round = LANES;
    for (; round > 2; round /= 4) {
        zip(v, other);
        zip(other, v);
    }
    if (round == 2) {
        zip(v, other);
        for (int i = 0; i < LANES; i++)
            v[i] = other[i];
    }
}

/* One block: `rows` rows of x by `cols` columns, both at most LANES; rows and columns beyond are neither read nor
 * written. */
INLINE void transpose_block(int64_t rows, int64_t cols, const real *x, int64_t ldx, real *y, int64_t ldy) {
    vec v[LANES];
    for (int i = 0; i < LANES; i++)
        v[i] = i >= rows ? vec_all(0) : cols == LANES ? vec_load(x + i * ldx) : vec_load_part(x + i * ldx, cols, 0);
    transpose_registers(v);
    for (int i = 0; i < LANES && i < cols; i++) {
        if (rows == LANES)
            vec_store(y + i * ldy, v[i]);
        else
            vec_store_part(y + i * ldy, rows, v[i]);
    }
}

void KERNEL(transpose)(int64_t rows, int64_t cols, const real *x, int64_t ldx, real *y, int64_t ldy) {
    for (int64_t i = 0; i < rows; i += LANES) {
        int64_t height = rows - i < LANES ? rows - i : LANES;
        for (int64_t j = 0; j < cols; j += LANES) {
            int64_t width = cols - j < LANES ? cols - j : LANES;
            const real *from = x + i * ldx + j;
            real *to = y + j * ldy + i;
            if (height == LANES && width == LANES) {
                for (int r = 0; r < LANES; r++)
                    __builtin_prefetch(attn_fetch_address(from, (LANES + r) * ldx * (int64_t)sizeof(real)));
                transpose_block(LANES, LANES, from, ldx, to, ldy);
            } else
                transpose_block(height, width, from, ldx, to, ldy);
        }
    }
}
