/* The same sums as the textbook, with the innermost loop along memory: it vectorises and every cache line is used
 * whole. No blocking, no BLAS. */
#include <math.h>

#include "base/real.h"
#include "textbook.h"

/* y += a x. */
static void axpy(int64_t n, real a, const real *restrict x, real *restrict y) {
    for (int64_t i = 0; i < n; i++)
        y[i] += a * x[i];
}

static void clear(int64_t n, real *x) {
    for (int64_t i = 0; i < n; i++)
        x[i] = 0;
}

void REAL(cache_ordered_project)(int64_t rows, int64_t d_in, int64_t d_out, const real *x, int64_t x_stride,
                                 const real *w, int64_t w_stride, real *y, int64_t y_stride) {
    for (int64_t i = 0; i < rows; i++) {
        clear(d_out, y + i * y_stride);
        for (int64_t c = 0; c < d_in; c++)
            axpy(d_out, x[i * x_stride + c], w + c * w_stride, y + i * y_stride);
    }
}

void REAL(cache_ordered_transpose)(int64_t keys, int64_t head_dim, const real *k, int64_t k_stride, real *kt,
                                   int64_t kt_stride) {
    for (int64_t j = 0; j < keys; j++)
        for (int64_t c = 0; c < head_dim; c++)
            kt[c * kt_stride + j] = k[j * k_stride + c];
}

double REAL(cache_ordered_attend)(int64_t visible, int64_t head_dim, int64_t v_dim, double scale, const real *q,
                                  const real *kt, int64_t kt_stride, const real *v, int64_t v_stride, real *s,
                                  real *out) {
    clear(v_dim, out);
    if (visible <= 0)
        return -(double)INFINITY;
    clear(visible, s);
    for (int64_t c = 0; c < head_dim && scale != 0; c++)
        axpy(visible, (real)scale * q[c], kt + c * kt_stride, s);

    real max = s[0], sum = 0;
    for (int64_t j = 1; j < visible; j++)
        max = s[j] > max ? s[j] : max;
    for (int64_t j = 0; j < visible; j++) {
        s[j] = sizeof(real) == sizeof(float) ? (real)expf((float)(s[j] - max)) : (real)exp((double)(s[j] - max));
        sum += s[j];
    }
    for (int64_t j = 0; j < visible; j++)
        axpy(v_dim, s[j], v + j * v_stride, out);
    for (int64_t c = 0; c < v_dim; c++)
        out[c] /= sum;
    return (double)max + log((double)sum);
}
