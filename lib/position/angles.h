/* What sinusoidal and rotary positions share: frequencies of the pairs, sine and cosine of any angle, checks. */
#ifndef ATTN_LIB_ANGLES_H
#define ATTN_LIB_ANGLES_H

#include <attn/base.h>
#include <inttypes.h>
#include <math.h>

#include "base/real.h"
#include "base/status.h"

#define attn_position_sincos REAL(attn_position_sincos)

static inline attn_status attn_check_base(double base) {
    if (isfinite(base) && base > 0)
        return ATTN_OK;
    return attn_fail(ATTN_ERR_VALUE, "base %g is not finite and positive", base);
}

static inline attn_status attn_check_start(int64_t rows, int64_t start) {
    if (rows < 2 || start <= INT64_MAX - (rows - 1))
        return ATTN_OK;
    return attn_fail(ATTN_ERR_OVERFLOW, "start %" PRId64 ": the last of %" PRId64 " positions is no int64", start,
                     rows);
}

static inline attn_status attn_check_positions(int64_t rows, int64_t start, double base) {
    ATTN_TRY(attn_check_base(base));
    return attn_check_start(rows, start);
}

/* Most pairs of columns that the functions below take at once: their angles stand on the stack. */
enum { ATTN_ANGLE_PAIRS = 256 };

/* frequency[i] = base^(-2 (first + i) / dim) for `pairs` pairs of columns. */
void REAL(attn_pair_frequencies)(int64_t pairs, int64_t first, int64_t dim, double base, double *frequency);

/* Sine and cosine of position * frequency[i], for any position. An element depends on its own angle alone. */
void REAL(attn_position_sincos)(int64_t pairs, int64_t position, const double *frequency, real *sine, real *cosine);

#endif
