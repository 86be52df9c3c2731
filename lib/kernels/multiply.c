/* Kernel multiply: products of tiles whose w fits the cache, for BLAS libraries that leave vectors of this CPU unused.
 *
 * A block of results stays in registers over all of k, each result in one sum of ascending terms, so that its bits depend on
 * its own row and column alone. Columns of a block outermost: its part of w stays in the first-level cache for all rows.
 */
#include "kernels/simd.h"

/* Rows and vectors of a block: 24 of 32 registers hold sums, or 12 of 16, and each load of w serves all rows. */
#define BLOCK_ROWS 6
#if defined(ATTN_KERNEL_ISA_AVX512) || defined(ATTN_KERNEL_ISA_NEON)
#define BLOCK_VECS 4
#else
#define BLOCK_VECS 2
#endif

/* rows x vecs results, the last vector of `part` columns only where part is not 0; rows, vecs, whether there is a part and
 * add are constants at every call. */
INLINE void multiply_block(int rows, int vecs, int64_t part, bool add, int64_t k, real alpha, const real *x,
                           int64_t ldx, const real *w, int64_t ldw, real *y, int64_t ldy) {
    vec sum[BLOCK_ROWS][BLOCK_VECS];
#pragma GCC unroll 6
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 4
        for (int v = 0; v < vecs; v++)
            sum[r][v] = vec_all(0);
    for (int64_t c = 0; c < k; c++) {
        vec loaded[BLOCK_VECS];
#pragma GCC unroll 4
        for (int v = 0; v < vecs; v++)
            loaded[v] = vec_kept(part == 0 ? vec_load(w + c * ldw + v * LANES) : vec_load_part(w + c * ldw, part, 0));
#pragma GCC unroll 6
        for (int r = 0; r < rows; r++) {
            vec factor = vec_kept(vec_all(x[r * ldx + c]));
#pragma GCC unroll 4
            for (int v = 0; v < vecs; v++)
                sum[r][v] = vec_fma(factor, loaded[v], sum[r][v]);
        }
    }
    /* from memory: all registers are taken until here */
    __asm__ volatile("" : "+m"(alpha));
#pragma GCC unroll 6
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 4
        for (int v = 0; v < vecs; v++) {
            real *to = y + r * ldy + v * LANES;
            vec result = alpha * sum[r][v];
            if (part != 0)
                vec_store_part(to, part, add ? vec_load_part(to, part, 0) + result : result);
            else
                vec_store(to, add ? vec_load(to) + result : result);
        }
}

/* All rows of some columns. */
INLINE void multiply_columns(int vecs, int64_t part, bool add, int64_t rows, int64_t k, real alpha, const real *x,
                             int64_t ldx, const real *w, int64_t ldw, real *y, int64_t ldy) {
    int64_t i = 0;
    for (; i + BLOCK_ROWS <= rows; i += BLOCK_ROWS)
        multiply_block(BLOCK_ROWS, vecs, part, add, k, alpha, x + i * ldx, ldx, w, ldw, y + i * ldy, ldy);
    if (i + 4 <= rows) {
        multiply_block(4, vecs, part, add, k, alpha, x + i * ldx, ldx, w, ldw, y + i * ldy, ldy);
        i += 4;
    }
    if (i + 2 <= rows) {
        multiply_block(2, vecs, part, add, k, alpha, x + i * ldx, ldx, w, ldw, y + i * ldy, ldy);
        i += 2;
    }
    if (i < rows)
        multiply_block(1, vecs, part, add, k, alpha, x + i * ldx, ldx, w, ldw, y + i * ldy, ldy);
}

INLINE void multiply(bool add, int64_t rows, int64_t cols, int64_t k, real alpha, const real *x, int64_t ldx,
                     const real *w, int64_t ldw, real *y, int64_t ldy) {
    int64_t j = 0;
    for (; j + BLOCK_VECS * LANES <= cols; j += BLOCK_VECS * LANES)
        multiply_columns(BLOCK_VECS, 0, add, rows, k, alpha, x, ldx, w + j, ldw, y + j, ldy);
#if BLOCK_VECS == 4
    if (j + 2 * LANES <= cols) {
        multiply_columns(2, 0, add, rows, k, alpha, x, ldx, w + j, ldw, y + j, ldy);
        j += 2 * LANES;
    }
#endif
    if (j + LANES <= cols) {
        multiply_columns(1, 0, add, rows, k, alpha, x, ldx, w + j, ldw, y + j, ldy);
        j += LANES;
    }
    if (j < cols)
        multiply_columns(1, cols - j, add, rows, k, alpha, x, ldx, w + j, ldw, y + j, ldy);
}

void KERNEL(multiply)(int64_t rows, int64_t cols, int64_t k, real alpha, const real *x, int64_t ldx, const real *w,
                      int64_t ldw, bool add, real *y, int64_t ldy) {
    if (add)
        multiply(true, rows, cols, k, alpha, x, ldx, w, ldw, y, ldy);
    else
        multiply(false, rows, cols, k, alpha, x, ldx, w, ldw, y, ldy);
}
