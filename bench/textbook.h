/* The loops that the library is compared with, as plain C for any compiler:
 *   textbook.c       the projection as the formula is written; textbook attention is the library's naive engine
 *   cache_ordered.c  the same sums with the loops in an order that caches and compilers like */
#ifndef BENCH_TEXTBOOK_H
#define BENCH_TEXTBOOK_H

#include <stdint.h>

/* y = x w for rows rows; x [rows, d_in], w [d_in, d_out], y [rows, d_out], row strides in elements. */
void textbook_project_f32(int64_t rows, int64_t d_in, int64_t d_out, const float *x, int64_t x_stride, const float *w,
                          int64_t w_stride, float *y, int64_t y_stride);
void textbook_project_f64(int64_t rows, int64_t d_in, int64_t d_out, const double *x, int64_t x_stride, const double *w,
                          int64_t w_stride, double *y, int64_t y_stride);

void cache_ordered_project_f32(int64_t rows, int64_t d_in, int64_t d_out, const float *x, int64_t x_stride,
                               const float *w, int64_t w_stride, float *y, int64_t y_stride);
void cache_ordered_project_f64(int64_t rows, int64_t d_in, int64_t d_out, const double *x, int64_t x_stride,
                               const double *w, int64_t w_stride, double *y, int64_t y_stride);

/* kt = k^T: k [keys, head_dim], kt [head_dim, keys], both with a row stride. */
void cache_ordered_transpose_f32(int64_t keys, int64_t head_dim, const float *k, int64_t k_stride, float *kt,
                                 int64_t kt_stride);
void cache_ordered_transpose_f64(int64_t keys, int64_t head_dim, const double *k, int64_t k_stride, double *kt,
                                 int64_t kt_stride);

/* One row of attention over keys 0 .. visible-1: out[v_dim]; returns log(sum exp(score)). kt is [head_dim, visible]
 * with a row stride, s is scratch of `visible` numbers. visible 0: out 0, -Inf. scale 0: kt is not read. */
double cache_ordered_attend_f32(int64_t visible, int64_t head_dim, int64_t v_dim, double scale, const float *q,
                                const float *kt, int64_t kt_stride, const float *v, int64_t v_stride, float *s,
                                float *out);
double cache_ordered_attend_f64(int64_t visible, int64_t head_dim, int64_t v_dim, double scale, const double *q,
                                const double *kt, int64_t kt_stride, const double *v, int64_t v_stride, double *s,
                                double *out);

#endif
