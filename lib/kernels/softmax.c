/* Kernels softmax_row and softmax_tile: maximum, exponential and sum over rows of scores.
 *
 * NaN: the maximum drops it, the exponential carries it into the sum. A row of nothing but -Inf is known by maximum
 * -Inf together with sum 0.
 */
#include "kernels/vexp.h"

/* Independent maxima of a row, so that no comparison waits for the one before. The exponentials are long enough to hide
 * the latency of a single sum. */
#define CHAINS 4

/* Elements whose exponentials are summed in `real`, 32 additions per lane; these sums are added in double. */
#define CHUNK (32 * LANES)

/* Rows of a tile whose maxima are found before their exponentials: one row's reduction hides behind the others' work.
 */
#define TILE_ROWS 4

/* The larger of `start` and the largest x that is no NaN. */
INLINE real row_maximum(int64_t n, const real *x, real start) {
    vec largest[CHAINS];
    for (int k = 0; k < CHAINS; k++)
        largest[k] = vec_all(start);
    int64_t i = 0;
    for (; i + CHAINS * LANES <= n; i += CHAINS * LANES)
        for (int k = 0; k < CHAINS; k++)
            largest[k] = vec_max(largest[k], vec_load(x + i + k * LANES));
    for (; i + LANES <= n; i += LANES)
        largest[0] = vec_max(largest[0], vec_load(x + i));
    if (i < n)
        largest[1] = vec_max(largest[1], vec_load_part(x + i, n - i, (real)-INFINITY));
    return vec_largest(vec_max(vec_max(largest[0], largest[1]), vec_max(largest[2], largest[3])));
}

/* y = exp(x - maximum) for n <= CHUNK elements; returns their sum. Not inlined: amid more code clang 14 no longer keeps
 * the constants of the exponential in registers. */
static __attribute__((noinline)) real exponentials_of_chunk(int64_t n, const real *x, real maximum, real *y) {
    vec sum = vec_all(0);
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        vec e = vexp_nonpositive(vec_load(x + i) - maximum);
        vec_store(y + i, e);
        sum += e;
    }
    if (i < n) {
        vec e = vexp_nonpositive(vec_load_part(x + i, n - i, (real)-INFINITY) - maximum);
        vec_store_part(y + i, n - i, e);
        sum += e;
    }
    return vec_sum(sum);
}

/* y = exp(x - maximum), where a maximum of -Inf counts as 0, so that -Inf gives 0 and NaN stays; returns their sum. */
INLINE double exponentials(int64_t n, const real *x, real maximum, real *y) {
    real base = maximum == (real)-INFINITY ? 0 : maximum;
    double total = 0;
    for (int64_t i = 0; i < n; i += CHUNK)
        total += (double)exponentials_of_chunk(n - i < CHUNK ? n - i : CHUNK, x + i, base, y + i);
    return total;
}

real KERNEL(softmax_row)(int64_t n, const real *x, real *y) {
    real maximum = row_maximum(n, x, (real)-INFINITY);
    double sum = exponentials(n, x, maximum, y);
    if (sum == 0)
        return (real)-INFINITY;
    real divisor = (real)sum;
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        vec_store(y + i, vec_load(y + i) / divisor);
    if (i < n)
        vec_store_part(y + i, n - i, vec_load_part(y + i, n - i, 0) / divisor);
    return (real)((double)maximum + log(sum));
}

/* The second half of the tile step for one row: its exponentials, its sum, its factor. */
INLINE void tile_row(int64_t cols, real *s, real old_maximum, real maximum, real *row_sum, real *rescale) {
    double sum = exponentials(cols, s, maximum, s);
    real factor = 1;
    if (maximum != old_maximum)
        factor = vexp_nonpositive(vec_all(old_maximum - maximum))[0];
    *rescale = factor;
    *row_sum = (real)((double)*row_sum * (double)factor + sum);
}

void KERNEL(softmax_tile)(int64_t rows, int64_t cols, real *s, int64_t ld, real *row_max, real *row_sum,
                          real *rescale) {
    for (int64_t i = 0; i < rows; i += TILE_ROWS) {
        int count = rows - i < TILE_ROWS ? (int)(rows - i) : TILE_ROWS;
        real maximum[TILE_ROWS];
        for (int r = 0; r < count; r++)
            maximum[r] = row_maximum(cols, s + (i + r) * ld, row_max[i + r]);
        for (int r = 0; r < count; r++) {
            tile_row(cols, s + (i + r) * ld, row_max[i + r], maximum[r], row_sum + i + r, rescale + i + r);
            row_max[i + r] = maximum[r];
        }
    }
}
