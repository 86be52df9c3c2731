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
static const double sine_terms[] = {-0x1.55553fdca3cf1p-3, 0x1.1105b3ebce28p-7, -0x1.98da654fc1362p-13};
static const double cosine_terms[] = {0x1.55554ab3ff064p-5, -0x1.6c0c8bb630caep-10, 0x1.9a0258c21bf93p-16};
#else
static const double sine_terms[] = {-0x1.555555555553dp-3, 0x1.111111110eb1fp-7,   -0x1.a01a019ab4acdp-13,
                                    0x1.71de3475637e9p-19, -0x1.ae5db4779743cp-26, 0x1.5d64c8eed8425p-33};
static const double cosine_terms[] = {0x1.555555555554cp-5,   -0x1.6c16c16c15184p-10, 0x1.a01a019cb26d6p-16,
                                      -0x1.27e4f80a752edp-22, 0x1.1ee9ec46e4eb4p-29,  -0x1.8faecec30cc74p-37};
#endif
#define TERMS (int)(sizeof sine_terms / sizeof sine_terms[0])

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

static void sincos_block(const double *angle, real *sine, real *cosine) {
    for (int i = 0; i < ANGLES; i++) {
        double shifted = angle[i] * TWO_OVER_PI + ROUND_SHIFT;
        double n = shifted - ROUND_SHIFT;
        double r = angle[i] - n * HALF_PI_HI;
        r = r - n * HALF_PI_MID;
        r = r - n * HALF_PI_LO;
        double r2 = r * r;
        double s = sine_terms[TERMS - 1], c = cosine_terms[TERMS - 1];
        for (int k = TERMS - 2; k >= 0; k--) {
            s = multiply_add(s, r2, sine_terms[k]);
            c = multiply_add(c, r2, cosine_terms[k]);
        }
        uint64_t sine_bits = bits_of(r + r * (r2 * s));
        uint64_t cosine_bits = bits_of(1 - (0.5 * r2 - r2 * (r2 * c)));
        uint64_t quarter = bits_of(shifted);
        uint64_t swapped = 0 - (quarter & 1);
        uint64_t exchange = (sine_bits ^ cosine_bits) & swapped;
        /* Sine is negative in quarters 2 and 3, cosine in 1 and 2. */
        sine[i] = (real)from_bits(sine_bits ^ exchange ^ (quarter & 2) << 62);
        cosine[i] = (real)from_bits(cosine_bits ^ exchange ^ ((quarter + 1) & 2) << 62);
    }
}

void KERNEL(sincos)(int64_t n, const double *angle, real *sine, real *cosine) {
    int64_t i = 0;
    for (; i + ANGLES <= n; i += ANGLES)
        sincos_block(angle + i, sine + i, cosine + i);
    if (i < n) {
        double padded[ANGLES] = {0};
        real padded_sine[ANGLES], padded_cosine[ANGLES];
        memcpy(padded, angle + i, (size_t)(n - i) * sizeof *angle);
        sincos_block(padded, padded_sine, padded_cosine);
        memcpy(sine + i, padded_sine, (size_t)(n - i) * sizeof *sine);
        memcpy(cosine + i, padded_cosine, (size_t)(n - i) * sizeof *cosine);
    }
}
