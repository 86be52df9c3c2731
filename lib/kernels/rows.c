/* Kernels over rows of a matrix: scale_rows, scaled, divided, all_finite, add.
 *
 * Blocks of rows or columns only share loads and hide latencies: every result takes its terms in an order of its own,
 * the same in a full block, in what remains, and in a tail.
 */
#include "kernels/simd.h"

void KERNEL(scaled)(int64_t n, real factor, const real *x, real *y) {
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        vec_store(y + i, factor * vec_load(x + i));
    if (i < n)
        vec_store_part(y + i, n - i, factor * vec_load_part(x + i, n - i, 0));
}

/* A product with the reciprocal, mended by what it leaves: nearly as exact as a division and several times as fast. Inf
 * becomes NaN, except in generic. */
INLINE vec quotient(vec x, real factor, real divisor) {
    vec scaled = factor * (x + vec_all(0)); /* -0 becomes 0 */
#ifdef ATTN_KERNEL_ISA_GENERIC
    return scaled / divisor;
#else
    vec reciprocal = vec_all(1 / divisor);
    vec y = scaled * reciprocal;
    return vec_fma(vec_fma(-y, vec_all(divisor), scaled), reciprocal, y);
#endif
}

void KERNEL(divided)(int64_t n, real factor, real divisor, const real *x, real *y) {
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        vec_store(y + i, quotient(vec_load(x + i), factor, divisor));
    if (i < n)
        vec_store_part(y + i, n - i, quotient(vec_load_part(x + i, n - i, 0), factor, divisor));
}

void KERNEL(scale_rows)(int64_t rows, int64_t cols, real *o, int64_t ld, const real *factor) {
    for (int64_t i = 0; i < rows; i++)
        if (factor[i] != 1)
            KERNEL(scaled)(cols, factor[i], o + i * ld, o + i * ld);
}

bool KERNEL(all_finite)(int64_t rows, int64_t cols, const real *x, int64_t ld) {
    /* 0 * x is 0 for finite x and NaN for all others. */
    const vec zero = vec_all(0);
    vec even = zero, odd = zero;
    for (int64_t i = 0; i < rows; i++) {
        const real *row = x + i * ld;
        int64_t c = 0;
        for (; c + 2 * LANES <= cols; c += 2 * LANES) {
            even = vec_fma(vec_load(row + c), zero, even);
            odd = vec_fma(vec_load(row + c + LANES), zero, odd);
        }
        for (; c + LANES <= cols; c += LANES)
            even = vec_fma(vec_load(row + c), zero, even);
        if (c < cols)
            odd = vec_fma(vec_load_part(row + c, cols - c, 0), zero, odd);
    }
    return vec_sum(even + odd) == 0;
}

void KERNEL(add)(int64_t n, const real *x, const real *y, real *z) {
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        vec_store(z + i, vec_load(x + i) + vec_load(y + i));
    for (; i < n; i++)
        z[i] = x[i] + y[i];
}
