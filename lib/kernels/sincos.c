/* Kernel sincos: sine and cosine of an array of angles.
 *
 * n = the integer nearest to angle / (pi/2), r = angle - n pi/2, then short polynomials of r and a swap and signs by
 * n mod 4. pi/2 is subtracted in three parts, the first two of which have exact products with n up to 2^31, so that r
 * is rounded once. All in double for both precisions, and in plain loops over a block: compilers vectorise them.
 * Constants: coefficients.py.
 */
#include <string.h>

#include "kernels/simd.h"

#define TWO_OVER_PI 0x1.45f306dc9c883p-1
#define HALF_PI_HI 0x1.921fbp+0
#define HALF_PI_MID 0x1.5110bp-22
#define HALF_PI_LO 0x1.18469898cc517p-44

#if ATTN_REAL_BITS == 32
#define SIN_S0 -0x1.55553fdca3cf1p-3
#define SIN_S1 0x1.1105b3ebce28p-7
#define SIN_S2 -0x1.98da654fc1362p-13
#define COS_C0 0x1.55554ab3ff064p-5
#define COS_C1 -0x1.6c0c8bb630caep-10
#define COS_C2 0x1.9a0258c21bf93p-16
#else
#define SIN_S0 -0x1.555555555553dp-3
#define SIN_S1 0x1.111111110eb1fp-7
#define SIN_S2 -0x1.a01a019ab4acdp-13
#define SIN_S3 0x1.71de3475637e9p-19
#define SIN_S4 -0x1.ae5db4779743cp-26
#define SIN_S5 0x1.5d64c8eed8425p-33
#define COS_C0 0x1.555555555554cp-5
#define COS_C1 -0x1.6c16c16c15184p-10
#define COS_C2 0x1.a01a019cb26d6p-16
#define COS_C3 -0x1.27e4f80a752edp-22
#define COS_C4 0x1.1ee9ec46e4eb4p-29
#define COS_C5 -0x1.8faecec30cc74p-37
#endif

/* Adding it rounds to an integer and leaves that in the low bits. */
#define ROUND_SHIFT 0x1.8p52

/* Angles per block: a few vectors of the widest instruction set. */
#define ANGLES 32

INLINE double multiply_add(double a, double b, double c) {
#ifdef ATTN_KERNEL_ISA_GENERIC
    return a * b + c;
#else
    return __builtin_fma(a, b, c);
#endif
}

INLINE uint64_t bits_of(double x) {
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

INLINE double from_bits(uint64_t bits) {
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* (sin r - r) / r^3 and (cos r - 1 + r^2/2) / r^4 of r2 = r^2, by Horner's rule. */
INLINE double sine_series(double r2) {
    double s = SIN_S2;
#if ATTN_REAL_BITS == 64
    s = multiply_add(multiply_add(multiply_add(SIN_S5, r2, SIN_S4), r2, SIN_S3), r2, s);
#endif
    return multiply_add(multiply_add(s, r2, SIN_S1), r2, SIN_S0);
}

INLINE double cosine_series(double r2) {
    double c = COS_C2;
#if ATTN_REAL_BITS == 64
    c = multiply_add(multiply_add(multiply_add(COS_C5, r2, COS_C4), r2, COS_C3), r2, c);
#endif
    return multiply_add(multiply_add(c, r2, COS_C1), r2, COS_C0);
}

static void sincos_block(const double *restrict angle, double *restrict sine, double *restrict cosine) {
    for (int i = 0; i < ANGLES; i++) {
        double shifted = angle[i] * TWO_OVER_PI + ROUND_SHIFT;
        double n = shifted - ROUND_SHIFT;
        double r = angle[i] - n * HALF_PI_HI;
        r = r - n * HALF_PI_MID;
        r = r - n * HALF_PI_LO;
        double r2 = r * r;
        uint64_t sine_bits = bits_of(r + r * (r2 * sine_series(r2)));
        uint64_t cosine_bits = bits_of(1 - (0.5 * r2 - r2 * (r2 * cosine_series(r2))));
        /* In odd quarters sine and cosine are exchanged; sine is negative in quarters 2 and 3, cosine in 1 and 2. */
        uint64_t quarter = bits_of(shifted);
        uint64_t exchange = (sine_bits ^ cosine_bits) & (0 - (quarter & 1));
        sine[i] = from_bits(sine_bits ^ exchange ^ (quarter & 2) << 62);
        cosine[i] = from_bits(cosine_bits ^ exchange ^ ((quarter + 1) & 2) << 62);
    }
}

void KERNEL(sincos)(int64_t n, const double *angle, real *sine, real *cosine) {
    for (int64_t i = 0; i < n; i += ANGLES) {
        int count = n - i < ANGLES ? (int)(n - i) : ANGLES;
        double block[ANGLES] = {0}, sines[ANGLES], cosines[ANGLES];
        memcpy(block, angle + i, (size_t)count * sizeof *angle);
        sincos_block(block, sines, cosines);
        for (int k = 0; k < count; k++) {
            sine[i + k] = (real)sines[k];
            cosine[i + k] = (real)cosines[k];
        }
    }
}
