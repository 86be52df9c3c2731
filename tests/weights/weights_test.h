/* What the tests of the weight tools share: matrices with known singular values and an oracle for those of any matrix,
 * both in long double; LAPACKE calls that fail on demand. Each test is compiled once for float and once for double. */
#ifndef WEIGHTS_TEST_H
#define WEIGHTS_TEST_H

#include <attn/weights.h>
#include <math.h>
#include <stdio.h>

#include "chain/chain_test.h"

static inline int64_t smaller(int64_t a, int64_t b) {
    return a < b ? a : b;
}

static inline int64_t larger(int64_t a, int64_t b) {
    return a > b ? a : b;
}

/* ---- Long double matrices, dense --------------------------------------------------------------------------------- */

static inline long double *wide_alloc(int64_t count) {
    long double *memory = malloc((size_t)larger(count, 1) * sizeof *memory);
    assert_non_null(memory);
    return memory;
}

static inline long double *wide_copy(int64_t rows, int64_t cols, const real *a, int64_t stride) {
    long double *wide = wide_alloc(rows * cols);
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < cols; j++)
            wide[i * cols + j] = a[i * stride + j];
    return wide;
}

/* C = A B^T of dense A [m, k] and B [n, k]. */
static inline long double *wide_product(int64_t m, int64_t n, int64_t k, const long double *a, const long double *b) {
    long double *c = wide_alloc(m * n);
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++) {
            long double sum = 0;
            for (int64_t l = 0; l < k; l++)
                sum += a[i * k + l] * b[j * k + l];
            c[i * n + j] = sum;
        }
    return c;
}

static inline int descending(const void *a, const void *b) {
    long double x = *(const long double *)a, y = *(const long double *)b;
    return (x < y) - (x > y);
}

static inline int ascending(const void *a, const void *b) {
    return -descending(a, b);
}

/* Kolmogorov and Smirnov: sqrt(count) times the largest distance between the distribution of x, which is sorted, and
 * `share`. */
static inline long double distance_from(long double *x, int64_t count, long double (*share)(long double)) {
    long double distance = 0;
    qsort(x, (size_t)count, sizeof *x, ascending);
    for (int64_t i = 0; i < count; i++) {
        long double p = share(x[i]), n = (long double)count;
        distance = fmaxl(distance, fmaxl(p - (long double)i / n, (long double)(i + 1) / n - p));
    }
    return distance * sqrtl((long double)count);
}

/* Singular values of a [rows, cols], descending, by one-sided Jacobi on the fewer of rows and columns. Free the
 * result. */
static inline long double *wide_singular_values(int64_t rows, int64_t cols, const long double *a) {
    int64_t count = smaller(rows, cols), length = larger(rows, cols);
    long double *v = wide_alloc(count * length), *s = wide_alloc(count);
    for (int64_t k = 0; k < count; k++)
        for (int64_t i = 0; i < length; i++)
            v[k * length + i] = rows <= cols ? a[k * cols + i] : a[i * cols + k];
    /* valgrind, which computes in 64 bits, would never reach less */
    const long double orthogonal = sizeof(real) == 4 ? 1e-10L : 1e-15L;
    bool turned = true;
    for (int sweep = 0; turned && sweep < 60; sweep++) {
        turned = false;
        for (int64_t p = 0; p < count; p++)
            for (int64_t q = p + 1; q < count; q++) {
                long double pp = 0, qq = 0, pq = 0, *vp = v + p * length, *vq = v + q * length;
                for (int64_t i = 0; i < length; i++) {
                    pp += vp[i] * vp[i];
                    qq += vq[i] * vq[i];
                    pq += vp[i] * vq[i];
                }
                if (absolute(pq) <= orthogonal * sqrtl(pp * qq))
                    continue;
                turned = true;
                long double z = (qq - pp) / (2 * pq);
                long double t = (z < 0 ? -1 : 1) / (absolute(z) + sqrtl(1 + z * z));
                long double c = 1 / sqrtl(1 + t * t);
                for (int64_t i = 0; i < length; i++) {
                    long double x = vp[i], y = vq[i];
                    vp[i] = c * (x - t * y);
                    vq[i] = c * (t * x + y);
                }
            }
    }
    for (int64_t k = 0; k < count; k++) {
        long double sum = 0;
        for (int64_t i = 0; i < length; i++)
            sum += v[k * length + i] * v[k * length + i];
        s[k] = sqrtl(sum);
    }
    qsort(s, (size_t)count, sizeof *s, descending);
    free(v);
    return s;
}

/* a = (I - 2 u u^T / u^T u) diag(s) (I - 2 v v^T / v^T v): a full matrix with the singular values s, rounded to
 * `real`. */
static inline real *matrix_with(int64_t rows, int64_t cols, int64_t stride, const long double *s, uint64_t stream) {
    int64_t count = smaller(rows, cols);
    long double *u = wide_alloc(rows), *v = wide_alloc(cols), uu = 0, vv = 0, usv = 0;
    for (int64_t i = 0; i < rows; i++)
        u[i] = support_random_normal(2, stream, (uint64_t)i);
    for (int64_t j = 0; j < cols; j++)
        v[j] = support_random_normal(3, stream, (uint64_t)j);
    for (int64_t i = 0; i < rows; i++)
        uu += u[i] * u[i];
    for (int64_t j = 0; j < cols; j++)
        vv += v[j] * v[j];
    for (int64_t k = 0; k < count; k++)
        usv += u[k] * s[k] * v[k];
    real *a = poisoned(matrix_extent(rows, cols, stride));
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < cols; j++) {
            long double us_j = j < count ? u[j] * s[j] : 0, sv_i = i < count ? s[i] * v[i] : 0;
            a[i * stride + j] = (real)((i == j ? s[i] : 0) - 2 / uu * u[i] * us_j - 2 / vv * sv_i * v[j] +
                                       4 / uu / vv * u[i] * usv * v[j]);
        }
    free(u);
    free(v);
    return a;
}

/* parallel_for that does the work and fails: with the number that data points to. */
static inline int failing_parallel_for(void *data, int workers, attn_parallel_body body, void *argument) {
    for (int worker = 0; worker < workers; worker++)
        body(argument, worker);
    return *(int *)data;
}

/* ---- LAPACKE calls that fail (lapacke_trap.c) -------------------------------------------------------------------- */

/* From now on call number `call` (0, 1, ...) of any routine with a name that ends in `routine`, "gesdd", does nothing
 * and returns `info`. NULL ends that. */
void trap_lapacke(const char *routine, int call, int info);

/* Calls of LAPACKE routines since then, queries for workspace not counted. */
int trapped_calls(void);

/* What each call does before it computes; NULL = nothing. */
void trap_set_hook(void (*hook)(void));

#endif
