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

/* Maxima of x and `start` lane by lane; NaN is dropped. */
INLINE vec lane_maxima(int64_t n, const real *x, vec start) {
    vec largest[CHAINS];
    for (int k = 0; k < CHAINS; k++)
        largest[k] = start;
    int64_t i = 0;
    for (; i + CHAINS * LANES <= n; i += CHAINS * LANES)
        for (int k = 0; k < CHAINS; k++)
            largest[k] = vec_max(largest[k], vec_load(x + i + k * LANES));
    for (; i + LANES <= n; i += LANES)
        largest[0] = vec_max(largest[0], vec_load(x + i));
    if (i < n)
        largest[1] = vec_max(largest[1], vec_load_part(x + i, n - i, (real)-INFINITY));
    return vec_max(vec_max(largest[0], largest[1]), vec_max(largest[2], largest[3]));
}

/* y = exp(x - maximum) for n <= CHUNK elements; returns their sums lane by lane. Not inlined: amid more code clang 14 no
 * longer keeps the constants of the exponential in registers. */
static __attribute__((noinline)) vec exponentials_of_chunk(int64_t n, const real *x, real maximum, real *y) {
    vec sum = vec_all(0);
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        vec e = vexp_weight(vec_load(x + i) - maximum);
        vec_store(y + i, e);
        sum += e;
    }
    if (i < n) {
        vec e = vexp_weight(vec_load_part(x + i, n - i, (real)-INFINITY) - maximum);
        vec_store_part(y + i, n - i, e);
        sum += e;
    }
    return sum;
}

/* y = exp(x - maximum), where a maximum of -Inf counts as 0, so that -Inf gives 0 and NaN stays; returns their sum. */
INLINE double exponentials(int64_t n, const real *x, real maximum, real *y) {
    real base = maximum == (real)-INFINITY ? 0 : maximum;
    double total = 0;
    for (int64_t i = 0; i < n; i += CHUNK)
        total += (double)vec_sum(exponentials_of_chunk(n - i < CHUNK ? n - i : CHUNK, x + i, base, y + i));
    return total;
}

real KERNEL(softmax_row)(int64_t n, const real *x, real *y) {
    real maximum = vec_largest(lane_maxima(n, x, vec_all((real)-INFINITY)));
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

/* ---- Tiles: LANES rows at a time, so that what is done once a row is done for all of them in one vector ---- */

/* Lane r is the maximum of row r and old[r]. */
INLINE vec row_maxima(int rows, int64_t cols, const real *s, int64_t ld, vec old) {
    const vec none = vec_all((real)-INFINITY);
    vec largest[LANES];
    for (int r = 0; r < LANES; r++)
        largest[r] = r < rows ? lane_maxima(cols, s + r * ld, none) : none;
    return vec_max(old, vec_largest_of_each(largest));
}

/* Replaces the scores of the rows by their exponentials relative to `base`; adds the sum of row r to lane r of the
 * total. */
INLINE void row_exponentials(int rows, int64_t cols, real *s, int64_t ld, vec base, doubles *total) {
    real base_of[LANES];
    vec_store(base_of, base);
    for (int64_t j = 0; j < cols; j += CHUNK) {
        int64_t n = cols - j < CHUNK ? cols - j : CHUNK;
        vec sum[LANES];
        for (int r = 0; r < LANES; r++) {
            real *row = s + r * ld + j;
            sum[r] = r < rows ? exponentials_of_chunk(n, row, base_of[r], row) : vec_all(0);
        }
        *total += __builtin_convertvector(vec_sum_of_each(sum), doubles);
    }
}

/* A maximum of -Inf counts as 0, so that -Inf gives 0 and NaN stays. */
INLINE void tile_of_rows(int rows, int64_t cols, real *s, int64_t ld, real *row_max, real *row_sum, real *rescale) {
    const vec none = vec_all((real)-INFINITY);
    vec old = rows == LANES ? vec_load(row_max) : vec_load_part(row_max, rows, (real)-INFINITY);
    vec old_sum = rows == LANES ? vec_load(row_sum) : vec_load_part(row_sum, rows, 0);
    vec maximum = row_maxima(rows, cols, s, ld, old);
    vec factor = vec_select(maximum == old, vec_all(1), vexp_weight(old - maximum));
    doubles sum = __builtin_convertvector(old_sum, doubles) * __builtin_convertvector(factor, doubles);
    row_exponentials(rows, cols, s, ld, vec_select(maximum == none, vec_all(0), maximum), &sum);
    vec new_sum = __builtin_convertvector(sum, vec);
    if (rows == LANES) {
        vec_store(row_max, maximum);
        vec_store(row_sum, new_sum);
        vec_store(rescale, factor);
    } else {
        vec_store_part(row_max, rows, maximum);
        vec_store_part(row_sum, rows, new_sum);
        vec_store_part(rescale, rows, factor);
    }
}

void KERNEL(softmax_tile)(int64_t rows, int64_t cols, real *s, int64_t ld, real *row_max, real *row_sum,
                          real *rescale) {
    int64_t i = 0;
    for (; i + LANES <= rows; i += LANES)
        tile_of_rows(LANES, cols, s + i * ld, ld, row_max + i, row_sum + i, rescale + i);
    if (i < rows)
        tile_of_rows((int)(rows - i), cols, s + i * ld, ld, row_max + i, row_sum + i, rescale + i);
}
