/* Positions: what tells a token where it stands. */
#ifndef ATTN_POSITION_H
#define ATTN_POSITION_H

#include <attn/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Sinusoidal positions (since 0.1).
 * Formula: angle = pos / base^(2i / d_model);  P[r][2i] = sin(angle), P[r][2i+1] = cos(angle), pos = start + r. With an
 *   odd d_model the last column is the sine of its pair (some codes leave it 0).
 * p: [rows, d_model], written; row_stride elements between rows, at least d_model when there is more than one row.
 * start: any int64 whose last position start + rows - 1 is an int64 too. base: finite and positive; 10000 in the paper.
 * NULL: p only when rows is 0; context = defaults. Aliasing: p is the only array.
 * Accuracy: float within 2^-23 absolute for |pos| up to 1,000,000 (base 1 or more), double within
 *   4 * 2^-52 * (1 + |angle|) for every position. Results lie in [-1, 1] for every start and base.
 * Bits: an element depends on its position, its column, d_model and base alone.
 * Threads: blocks of rows and columns over context->threads; bits independent of their number. Memory: none.
 * Errors: ATTN_ERR_NULL, _SIZE (rows below 0, d_model below 1), _STRIDE, _VALUE (base), _OVERFLOW (positions or
 *   extent), _STRUCT_SIZE (context): nothing was written. ATTN_ERR_THREADS: p is unspecified.
 * Source: Vaswani et al. 2017, section 3.5. */
ATTN_API attn_status attn_sinusoidal_f32(const attn_context *context, int64_t rows, int64_t d_model, int64_t start,
                                         double base, float *p, int64_t row_stride);
ATTN_API attn_status attn_sinusoidal_f64(const attn_context *context, int64_t rows, int64_t d_model, int64_t start,
                                         double base, double *p, int64_t row_stride);

#ifdef __cplusplus
}
#endif

#endif
