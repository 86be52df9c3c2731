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

/* y = exp(x - base[i]) for row i of n <= CHUNK elements each; their sums lane by lane in sum[i]. `above`, a constant at
 * every call: x may be above the base; what is too far above gives something negative, huge or NaN. */
INLINE void exponentials_of(bool above, int rows, int64_t n, const real *x, int64_t ldx, const real *base, real *y,
                            int64_t ldy, vec *sum) {
    for (int r = 0; r < rows; r++, x += ldx, y += ldy) {
        vec row_sum = vec_all(0);
        int64_t i = 0;
        for (; i + LANES <= n; i += LANES) {
            vec distance = vec_load(x + i) - base[r];
            vec e = above ? vexp_weight_above(distance) : vexp_weight(distance);
            vec_store(y + i, e);
            row_sum += e;
        }
        if (i < n) {
            vec distance = vec_load_part(x + i, n - i, (real)-INFINITY) - base[r];
            vec e = above ? vexp_weight_above(distance) : vexp_weight(distance);
            vec_store_part(y + i, n - i, e);
            row_sum += e;
        }
        sum[r] = row_sum;
    }
}

/* Not inlined: amid more code clang 14 no longer keeps the constants of the exponential in registers. */
static __attribute__((noinline)) void exponentials_below(int rows, int64_t n, const real *x, int64_t ldx,
                                                         const real *base, real *y, int64_t ldy, vec *sum) {
    exponentials_of(false, rows, n, x, ldx, base, y, ldy, sum);
}

static __attribute__((noinline)) void exponentials_above(int rows, int64_t n, const real *x, int64_t ldx,
                                                         const real *base, real *y, int64_t ldy, vec *sum) {
    exponentials_of(true, rows, n, x, ldx, base, y, ldy, sum);
}

/* y = exp(x - maximum), where a maximum of -Inf counts as 0, so that -Inf gives 0 and NaN stays; returns their sum. */
INLINE double exponentials(int64_t n, const real *x, real maximum, real *y) {
    real base = maximum == (real)-INFINITY ? 0 : maximum;
    double total = 0;
    for (int64_t i = 0; i < n; i += CHUNK) {
        vec sum;
        exponentials_below(1, n - i < CHUNK ? n - i : CHUNK, x + i, 0, &base, y + i, 0, &sum);
        total += (double)vec_sum(sum);
    }
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

/* Replaces the scores of the rows by their exponentials relative to `base`, with `above` as above; adds the sum of row
 * r to lane r of the total. */
INLINE void row_exponentials(int rows, int64_t cols, real *s, int64_t ld, vec base, bool above, doubles *total) {
    real base_of[LANES];
    vec_store(base_of, base);
    for (int64_t j = 0; j < cols; j += CHUNK) {
        int64_t n = cols - j < CHUNK ? cols - j : CHUNK;
        vec sum[LANES];
        for (int r = rows; r < LANES; r++)
            sum[r] = vec_all(0);
        if (above)
            exponentials_above(rows, n, s + j, ld, base_of, s + j, ld, sum);
        else
            exponentials_below(rows, n, s + j, ld, base_of, s + j, ld, sum);
        *total += __builtin_convertvector(vec_sum_of_each(sum), doubles);
    }
}

INLINE vec load_rows(int rows, const real *x, real fill) {
    return rows == LANES ? vec_load(x) : vec_load_part(x, rows, fill);
}

INLINE void store_rows(int rows, real *x, vec v) {
    if (rows == LANES)
        vec_store(x, v);
    else
        vec_store_part(x, rows, v);
}

/* What the weights of a row may add up to when it keeps its maximum, and by how much the tile before may have moved the
 * maximum, so that this one probably will not: 2^16 both. */
#define MOST_KEPT 65536
#define LEAST_SETTLED ((real)1 / MOST_KEPT)

/* A maximum of -Inf counts as 0, so that -Inf gives 0 and NaN stays. With `keep` returns how many rows would have
 * needed another maximum. Each row decides for itself, whatever the others do. */
INLINE int64_t tile_of_rows(int rows, int64_t cols, real *s, int64_t ld, bool keep, real *row_max, real *row_sum,
                            real *rescale) {
    const vec none = vec_all((real)-INFINITY), one = vec_all(1);
    vec old = load_rows(rows, row_max, 0), old_sum = load_rows(rows, row_sum, 0);
    vec_truth kept = {0};
    if (keep)
        kept = (old != none) & (load_rows(rows, rescale, 1) >= LEAST_SETTLED);
    vec maximum = old, factor = one;
    if (!keep || vec_any(~kept)) {
        maximum = vec_select(kept, old, row_maxima(rows, cols, s, ld, old));
        factor = vec_select((maximum == old) | (old == none), one, vexp_weight(old - maximum));
    }
    doubles new = {0}, carried = __builtin_convertvector(old_sum, doubles) * __builtin_convertvector(factor, doubles);
    row_exponentials(rows, cols, s, ld, vec_select(maximum == none, vec_all(0), maximum), keep, &new);
    vec sum = __builtin_convertvector(carried + new, vec);
    int64_t lost_rows = 0;
    if (keep) {
        vec weights = __builtin_convertvector(new, vec);
        vec_truth lost = kept & ~((weights >= 0) & (weights <= MOST_KEPT)); /* NaN is lost */
        if (vec_any(lost))
            for (int r = 0; r < rows; r++)
                lost_rows += lost[r] != 0;
        sum = vec_select(lost, old_sum, sum);
        factor = vec_select(lost, -one, factor);
    }
    store_rows(rows, row_max, maximum);
    store_rows(rows, row_sum, sum);
    store_rows(rows, rescale, factor);
    return lost_rows;
}

int64_t KERNEL(softmax_tile)(int64_t rows, int64_t cols, real *s, int64_t ld, bool keep, real *row_max, real *row_sum,
                             real *rescale) {
    int64_t i = 0, lost = 0;
    for (; i + LANES <= rows; i += LANES)
        lost += tile_of_rows(LANES, cols, s + i * ld, ld, keep, row_max + i, row_sum + i, rescale + i);
    if (i < rows)
        lost += tile_of_rows((int)(rows - i), cols, s + i * ld, ld, keep, row_max + i, row_sum + i, rescale + i);
    return lost;
}
