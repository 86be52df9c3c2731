/* Kernels for products of few rows with a large matrix, which is read once: add_product and product_transposed.
 *
 * A result takes its terms in an order of its own, whatever rows and columns are computed beside it, so that its bits do
 * not depend on them.
 */
#include "kernels/simd.h"

/* Rows of x that share what was loaded of w, and rows of w at once. 2-core Sapphire Rapids, 2026-11-30: LADDER.md. With
 * 16 registers more rows of x would not fit. */
#define ROWS (VEC_BYTES == 64 ? 4 : 2)
#define DEPTH 4
#define DEPTH_ALONE 8 /* for a single row of x */

/* Rows of w at once for a single row of x. */
#define ALONE (LANES == 16 ? 16 : 8)

#define MOST_RESULTS 16

/* Rows of w that are asked for before they are read, by the first rows of x: into the second-level cache, since they would
 * drive each other from the first. */
#define AHEAD 16
#define ASK_FOR(address) __builtin_prefetch(address, 0, 2)

/* y[r][j] += sum of x[r][c] w[c][j] over `depth` rows of w; rows and depth are constants at every call. */
INLINE void product_step(int rows, int depth, bool fetch, int64_t cols, const real *const *x, int64_t c, const real *w,
                         int64_t ld, real *const *y) {
    vec factor[ROWS][DEPTH_ALONE];
    real *row[ROWS];
    for (int r = 0; r < rows; r++) {
        row[r] = y[r];
        for (int d = 0; d < depth; d++)
            factor[r][d] = vec_all(x[r][c + d]);
    }
    int64_t j = 0;
    for (; j + LANES <= cols; j += LANES) {
        vec loaded[DEPTH_ALONE];
        for (int d = 0; d < depth; d++) {
            loaded[d] = vec_load(w + d * ld + j);
            if (fetch)
                ASK_FOR(w + (d + AHEAD) * ld + j);
        }
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
        product_step(ROWS, depth, r == 0, cols, x + r, c, w, ld, y + r);
    for (; r < rows; r++)
        product_step(1, depth, r == 0, cols, x + r, c, w, ld, y + r);
}

void KERNEL(add_product)(int64_t rows, int64_t cols, int64_t k, const real *const *x, const real *w, int64_t ld,
                         real *const *y) {
    int64_t c = 0;
    for (; rows < ROWS && c + DEPTH_ALONE <= k; c += DEPTH_ALONE)
        for (int64_t r = 0; r < rows; r++)
            product_step(1, DEPTH_ALONE, r == 0, cols, x + r, c, w + c * ld, ld, y + r);
    for (; c + DEPTH <= k; c += DEPTH)
        product_steps(DEPTH, rows, cols, x, c, w + c * ld, ld, y);
    for (; c < k; c++)
        product_steps(1, rows, cols, x, c, w + c * ld, ld, y);
}

/* rows x cols results at column j; rows and cols are constants at every call. The sums across lanes are made for LANES
 * results at a time. */
INLINE void transposed_block(int rows, int cols, bool fetch, int64_t k, real scale, const real *const *x, const real *w,
                             int64_t ld, real *const *y, int64_t j) {
    vec sum[MOST_RESULTS + LANES];
    const real *row[ROWS];
    int results = rows * cols, padded = (results + LANES - 1) / LANES * LANES;
    for (int i = 0; i < padded; i++)
        sum[i] = vec_all(0);
    for (int r = 0; r < rows; r++)
        row[r] = x[r];
    int64_t c = 0;
    for (; c + LANES <= k; c += LANES) {
        vec factor[ROWS];
        for (int r = 0; r < rows; r++)
            factor[r] = vec_load(row[r] + c);
        for (int d = 0; d < cols; d++) {
            vec loaded = vec_load(w + d * ld + c);
            if (fetch)
                ASK_FOR(w + (d + AHEAD) * ld + c);
            for (int r = 0; r < rows; r++)
                sum[r * cols + d] = vec_fma(factor[r], loaded, sum[r * cols + d]);
        }
    }
    for (int r = 0; r < rows && c < k; r++) {
        vec factor = vec_load_part(row[r] + c, k - c, 0);
        for (int d = 0; d < cols; d++)
            sum[r * cols + d] = vec_fma(factor, vec_load_part(w + d * ld + c, k - c, 0), sum[r * cols + d]);
    }
    real result[MOST_RESULTS + LANES];
    for (int i = 0; i < padded; i += LANES)
        vec_store(result + i, scale * vec_sum_of_each(sum + i));
    for (int r = 0; r < rows; r++)
        for (int d = 0; d < cols; d++)
            y[r][j + d] = result[r * cols + d];
}

void KERNEL(product_transposed)(int64_t rows, int64_t cols, int64_t k, real scale, const real *const *x, const real *w,
                                int64_t ld, real *const *y) {
    int64_t j = 0;
    for (; j + ALONE <= cols; j += ALONE) {
        const real *strip = w + j * ld;
        int64_t r = 0;
        for (; r + ROWS <= rows; r += ROWS)
            for (int d = 0; d < ALONE; d += DEPTH)
                transposed_block(ROWS, DEPTH, r == 0, k, scale, x + r, strip + d * ld, ld, y + r, j + d);
        for (; r < rows; r++)
            transposed_block(1, ALONE, r == 0, k, scale, x + r, strip, ld, y + r, j);
    }
    for (; j < cols; j++)
        for (int64_t r = 0; r < rows; r++)
            transposed_block(1, 1, false, k, scale, x + r, w + j * ld, ld, y + r, j);
}
