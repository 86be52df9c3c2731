/* What sinusoidal and rotary positions share: frequencies of the pairs, sine and cosine of any angle. */
#ifndef ATTN_LIB_ANGLES_H
#define ATTN_LIB_ANGLES_H

#include <attn/base.h>
#include <inttypes.h>
#include <math.h>

#include "base/real.h"
#include "position/position_check.h"

#define attn_position_sincos REAL(attn_position_sincos)

/* Most pairs of columns that the functions below take at once: their angles stand on the stack. */
enum { ATTN_ANGLE_PAIRS = 256 };

/* frequency[i] = base^(-2 (first + i) / dim) for `pairs` pairs of columns. */
void REAL(attn_pair_frequencies)(int64_t pairs, int64_t first, int64_t dim, double base, double *frequency);

/* Sine and cosine of position * frequency[i], for any position. An element depends on its own angle alone. */
void REAL(attn_position_sincos)(int64_t pairs, int64_t position, const double *frequency, real *sine, real *cosine);

#endif
