/* Kernels for products of few rows with a large matrix, which is read once: product and product_transposed.
 *
 * A result takes its terms in an order of its own, whatever rows and columns are computed beside it, so that its bits do
 * not depend on them.
 */
#include "kernels/simd.h"

/* Rows of x that share what was loaded of w, and rows of w at once. 2-core Sapphire Rapids, 2026-11-30: LADDER.md. With
 * 16 registers more rows of x would not fit. */
#define ROWS (VEC_BYTES == 64 ? 4 : 2)
#define DEPTH 4

/* y[r][j] += sum of x[r][c] w[c][j] over `depth` rows of w; rows and depth are constants at every call. */
INLINE void product_step(int rows, int depth, int64_t cols, const real *const *x, int64_t c, const real *w, int64_t ld,
                         real *const *y) {
    vec factor[ROWS][DEPTH];
    real *row[ROWS];
    for (int r = 0; r < rows; r++) {
        row[r] = y[r];
        for (int d = 0; d < depth; d++)
            factor[r][d] = vec_all(x[r][c + d]);
    }
    int64_t j = 0;
    for (; j + LANES <= cols; j += LANES) {
        vec loaded[DEPTH];
        for (int d = 0; d < depth; d++)
            loaded[d] = vec_load(w + d * ld + j);
        for (int r = 0; r < rows; r++) {
            vec sum = vec_load(row[r] + j);
            for (int d = 0; d < depth; d++)
                sum = vec_fma(factor[r][d], loaded[d], sum);
            vec_store(row[r] + j, sum);
        }
    }
    if (j == cols)
        return;
    for (int r = 0; r < rows; r++) {
        vec sum = vec_load_part(row[r] + j, cols - j, 0);
        for (int d = 0; d < depth; d++)
            sum = vec_fma(factor[r][d], vec_load_part(w + d * ld + j, cols - j, 0), sum);
        vec_store_part(row[r] + j, cols - j, sum);
    }
}

/* One step for all rows; `w` stays in the first-level cache meanwhile. */
INLINE void product_steps(int depth, int64_t rows, int64_t cols, const real *const *x, int64_t c, const real *w,
                          int64_t ld, real *const *y) {
    int64_t r = 0;
    for (; r + ROWS <= rows; r += ROWS)
        product_step(ROWS, depth, cols, x + r, c, w, ld, y + r);
    for (; r < rows; r++)
        product_step(1, depth, cols, x + r, c, w, ld, y + r);
}

void KERNEL(product)(int64_t rows, int64_t cols, int64_t k, const real *const *x, const real *w, int64_t ld,
                     real *const *y) {
    for (int64_t r = 0; r < rows; r++)
        for (int64_t j = 0; j < cols; j++)
            y[r][j] = 0;
    int64_t c = 0;
    for (; c + DEPTH <= k; c += DEPTH)
        product_steps(DEPTH, rows, cols, x, c, w + c * ld, ld, y);
    for (; c < k; c++)
        product_steps(1, rows, cols, x, c, w + c * ld, ld, y);
}

/* rows x cols results at column j; rows and cols are constants at every call. */
INLINE void transposed_block(int rows, int cols, int64_t k, const real *const *x, const real *w, int64_t ld,
                             real *const *y, int64_t j) {
    vec sum[ROWS][DEPTH];
    const real *row[ROWS];
    for (int r = 0; r < rows; r++) {
        row[r] = x[r];
        for (int d = 0; d < cols; d++)
            sum[r][d] = vec_all(0);
    }
    int64_t c = 0;
    for (; c + LANES <= k; c += LANES) {
        vec loaded[DEPTH];
        for (int d = 0; d < cols; d++)
            loaded[d] = vec_load(w + d * ld + c);
        for (int r = 0; r < rows; r++) {
            vec factor = vec_load(row[r] + c);
            for (int d = 0; d < cols; d++)
                sum[r][d] = vec_fma(factor, loaded[d], sum[r][d]);
        }
    }
    for (int r = 0; r < rows && c < k; r++) {
        vec factor = vec_load_part(row[r] + c, k - c, 0);
        for (int d = 0; d < cols; d++)
            sum[r][d] = vec_fma(factor, vec_load_part(w + d * ld + c, k - c, 0), sum[r][d]);
    }
    for (int r = 0; r < rows; r++)
        for (int d = 0; d < cols; d++)
            y[r][j + d] = vec_sum(sum[r][d]);
}

INLINE void transposed_blocks(int cols, int64_t rows, int64_t k, const real *const *x, const real *w, int64_t ld,
                              real *const *y, int64_t j) {
    int64_t r = 0;
    for (; r + ROWS <= rows; r += ROWS)
        transposed_block(ROWS, cols, k, x + r, w, ld, y + r, j);
    for (; r < rows; r++)
        transposed_block(1, cols, k, x + r, w, ld, y + r, j);
}

void KERNEL(product_transposed)(int64_t rows, int64_t cols, int64_t k, const real *const *x, const real *w, int64_t ld,
                                real *const *y) {
    int64_t j = 0;
    for (; j + DEPTH <= cols; j += DEPTH)
        transposed_blocks(DEPTH, rows, k, x, w + j * ld, ld, y, j);
    for (; j < cols; j++)
        transposed_blocks(1, rows, k, x, w + j * ld, ld, y, j);
}
