/* Angles of positions: frequencies of the pairs, sine and cosine of any angle. */
#include "position/angles.h"

#include "kernels/kernels.h"

/* Up to here the sincos kernel keeps its bound; beyond, libm reduces the angle. */
#define KERNEL_ANGLE_MAX 0x1p31

/* Rounding the exponent alone would cost log(base)/2 eps; what it lost is put back to first order, which leaves little
 * more than the rounding errors of pow and of the product. */
static double pair_frequency(int64_t pair, int64_t dim, double base) {
    double numerator = 2.0 * (double)pair;
    double exponent = numerator / (double)dim;
    double lost = fma(-exponent, (double)dim, numerator) / (double)dim;
    double frequency = pow(base, -exponent);
    return fmin(frequency - frequency * (lost * log(base)), DBL_MAX);
}

void REAL(attn_pair_frequencies)(int64_t pairs, int64_t first, int64_t dim, double base, double *frequency) {
    for (int64_t i = 0; i < pairs; i++)
        frequency[i] = pair_frequency(first + i, dim, base);
}

void REAL(attn_position_sincos)(int64_t pairs, int64_t position, const double *frequency, real *sine, real *cosine) {
    const REAL(attn_kernels) *kernels = REAL(attn_kernels_in_use)();
    double angle[ATTN_ANGLE_PAIRS];
    double largest = 0;
    for (int64_t i = 0; i < pairs; i++) {
        angle[i] = fmax(-DBL_MAX, fmin((double)position * frequency[i], DBL_MAX));
        largest = fmax(largest, fabs(angle[i]));
    }
    if (largest <= KERNEL_ANGLE_MAX) {
        kernels->sincos(pairs, angle, sine, cosine);
        return;
    }
    for (int64_t i = 0; i < pairs; i++) {
        if (fabs(angle[i]) <= KERNEL_ANGLE_MAX) {
            kernels->sincos(1, angle + i, sine + i, cosine + i);
        } else {
            sine[i] = (real)sin(angle[i]);
            cosine[i] = (real)cos(angle[i]);
        }
    }
}
