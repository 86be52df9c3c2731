/* Kernels over rows of a matrix: scale_rows, scaled, all_finite, dot_rows, weighted_rows, and add.
 *
 * Blocks of rows or columns only share loads and hide latencies: every result takes its terms in an order of its own,
 * the same in a full block, in what remains, and in a tail.
 */
#include "kernels/simd.h"

/* Rows of k per pass over q, and vectors of o per pass over v: enough independent chains to fill two FMA units of
 * latency 4. */
#define BLOCK 8

void KERNEL(scaled)(int64_t n, real factor, const real *x, real *y) {
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        vec_store(y + i, factor * vec_load(x + i));
    if (i < n)
        vec_store_part(y + i, n - i, factor * vec_load_part(x + i, n - i, 0));
}

void KERNEL(scale_rows)(int64_t rows, int64_t cols, real *o, int64_t ld, const real *factor) {
    for (int64_t i = 0; i < rows; i++)
        if (factor[i] != 1)
            KERNEL(scaled)(cols, factor[i], o + i * ld, o + i * ld);
}

bool KERNEL(all_finite)(int64_t rows, int64_t cols, const real *x, int64_t ld) {
    /* 0 * x is 0 for finite x and NaN for all others. */
    const vec zero = vec_all(0);
    for (int64_t i = 0; i < rows; i++) {
        const real *row = x + i * ld;
        vec even = zero, odd = zero;
        int64_t c = 0;
        for (; c + 2 * LANES <= cols; c += 2 * LANES) {
            even = vec_fma(vec_load(row + c), zero, even);
            odd = vec_fma(vec_load(row + c + LANES), zero, odd);
        }
        for (; c + LANES <= cols; c += LANES)
            even = vec_fma(vec_load(row + c), zero, even);
        if (c < cols)
            odd = vec_fma(vec_load_part(row + c, cols - c, 0), zero, odd);
        if (vec_sum(even + odd) != 0)
            return false;
    }
    return true;
}

/* The dot products of q with `rows` rows of k; rows is a constant at every call. */
INLINE void dot_block(int rows, int64_t dim, real scale, const real *q, const real *k, int64_t ld, real *s) {
    vec sum[BLOCK];
    for (int r = 0; r < rows; r++)
        sum[r] = vec_all(0);
    int64_t c = 0;
    for (; c + LANES <= dim; c += LANES) {
        vec x = vec_load(q + c);
        for (int r = 0; r < rows; r++)
            sum[r] = vec_fma(x, vec_load(k + r * ld + c), sum[r]);
    }
    if (c < dim) {
        vec x = vec_load_part(q + c, dim - c, 0);
        for (int r = 0; r < rows; r++)
            sum[r] = vec_fma(x, vec_load_part(k + r * ld + c, dim - c, 0), sum[r]);
    }
    for (int r = 0; r < rows; r++)
        s[r] = scale * vec_sum(sum[r]);
}

void KERNEL(dot_rows)(int64_t keys, int64_t dim, real scale, const real *q, const real *k, int64_t ld, real *s) {
    int64_t j = 0;
    for (; j + BLOCK <= keys; j += BLOCK)
        dot_block(BLOCK, dim, scale, q, k + j * ld, ld, s + j);
    for (; j < keys; j++)
        dot_block(1, dim, scale, q, k + j * ld, ld, s + j);
}

/* `vectors` whole vectors of o, kept in registers over all keys; vectors is a constant at every call. */
INLINE void weighted_block(int vectors, int64_t keys, const real *p, const real *v, int64_t ld, real *o) {
    vec sum[BLOCK];
    for (int k = 0; k < vectors; k++)
        sum[k] = vec_load(o + k * LANES);
    for (int64_t j = 0; j < keys; j++) {
        vec weight = vec_all(p[j]);
        for (int k = 0; k < vectors; k++)
            sum[k] = vec_fma(weight, vec_load(v + j * ld + k * LANES), sum[k]);
    }
    for (int k = 0; k < vectors; k++)
        vec_store(o + k * LANES, sum[k]);
}

/* The last columns of o, fewer than a vector. */
INLINE void weighted_tail(int64_t cols, int64_t keys, const real *p, const real *v, int64_t ld, real *o) {
    vec sum = vec_load_part(o, cols, 0);
    for (int64_t j = 0; j < keys; j++)
        sum = vec_fma(vec_all(p[j]), vec_load_part(v + j * ld, cols, 0), sum);
    vec_store_part(o, cols, sum);
}

void KERNEL(weighted_rows)(int64_t keys, int64_t dim, const real *p, const real *v, int64_t ld, real *o) {
    int64_t c = 0;
    for (; c + BLOCK * LANES <= dim; c += BLOCK * LANES)
        weighted_block(BLOCK, keys, p, v + c, ld, o + c);
    for (; c + 4 * LANES <= dim; c += 4 * LANES)
        weighted_block(4, keys, p, v + c, ld, o + c);
    for (; c + LANES <= dim; c += LANES)
        weighted_block(1, keys, p, v + c, ld, o + c);
    if (c < dim)
        weighted_tail(dim - c, keys, p, v + c, ld, o + c);
}

void KERNEL(add)(int64_t n, const real *x, const real *y, real *z) {
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        vec_store(z + i, vec_load(x + i) + vec_load(y + i));
    for (; i < n; i++)
        z[i] = x[i] + y[i];
}
