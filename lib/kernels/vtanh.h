/* The vector hyperbolic tangent: at most 1 ulp, with or without fused multiply-add.
 *
 * Of the magnitude x, both of these are computed:
 *
 *   x below TANH_SMALL   x + x^3 c(x^2)
 *   above                (d - 2) / d, d = e^(2x) + 1 = (2^n + 1) + 2^n (e^r - 1), n and r as in vexp.h
 *
 * d and the quotient are rounded once each, d - 2 is exact below TANH_LARGEST; errors of d count 2/d. Between
 * TANH_LARGEST and TANH_ONE_ABOVE the largest number below 1 is right. Constants: coefficients.py.
 */
#ifndef ATTN_LIB_VTANH_H
#define ATTN_LIB_VTANH_H

#include "kernels/vexp.h"

#if ATTN_REAL_BITS == 32
#define TANH_SMALL 0.7f
#define TANH_C0 -0x1.55555p-2f
#define TANH_C1 0x1.110f3cp-3f
#define TANH_C2 -0x1.b9b87p-5f
#define TANH_C3 0x1.616b96p-6f
#define TANH_C4 -0x1.025202p-7f
#define TANH_C5 0x1.f0f022p-10f
#define TANH_LARGEST 0x1.15p+3f
#define TANH_ONE_ABOVE 0x1.205966p+3f
#else
#define TANH_SMALL 0.7
#define TANH_C0 -0x1.5555555555529p-2
#define TANH_C1 0x1.111111110e096p-3
#define TANH_C2 -0x1.ba1ba1b7cc0cfp-5
#define TANH_C3 0x1.664f4811539cp-6
#define TANH_C4 -0x1.226e28952c869p-7
#define TANH_C5 0x1.d6d1f909b7e65p-9
#define TANH_C6 -0x1.7d8c93c914041p-10
#define TANH_C7 0x1.3495b5ba58559p-11
#define TANH_C8 -0x1.ec7dd51ca715dp-13
#define TANH_C9 0x1.719f684cfd847p-14
#define TANH_C10 -0x1.c61e974c3c956p-16
#define TANH_C11 0x1.4225b50b75864p-18
#define TANH_LARGEST 0x1.2bp+4
#define TANH_ONE_ABOVE 0x1.30fc1931f09c9p+4
#endif

/* x + x^3 c(x^2), c by Horner's rule. */
INLINE vec vtanh_small(vec x) {
    vec square = x * x;
#if ATTN_REAL_BITS == 32
    vec c = vec_all(TANH_C5);
#else
    vec c = vec_all(TANH_C11);
    c = vec_fma(c, square, vec_all(TANH_C10));
    c = vec_fma(c, square, vec_all(TANH_C9));
    c = vec_fma(c, square, vec_all(TANH_C8));
    c = vec_fma(c, square, vec_all(TANH_C7));
    c = vec_fma(c, square, vec_all(TANH_C6));
    c = vec_fma(c, square, vec_all(TANH_C5));
#endif
    c = vec_fma(c, square, vec_all(TANH_C4));
    c = vec_fma(c, square, vec_all(TANH_C3));
    c = vec_fma(c, square, vec_all(TANH_C2));
    c = vec_fma(c, square, vec_all(TANH_C1));
    c = vec_fma(c, square, vec_all(TANH_C0));
    return vec_fma(x * square, c, x);
}

/* (e^2x - 1) / (e^2x + 1). */
INLINE vec vtanh_large(vec x) {
    const vec shift = vec_all(EXP_SHIFT + EXP_BIAS);
    vec y = x + x;
    vec shifted = vec_fma(y, vec_all(EXP_LOG2E), shift);
    vec n = shifted - shift;
    vec two_to_n = (vec)((vec_bits)shifted << EXP_FRACTION_BITS);
    vec r = vec_fma(n, vec_all(-EXP_LN2_LO), vec_fma(n, vec_all(-EXP_LN2_HI), y));
    vec d = vec_fma(two_to_n, vec_fma(r * r, vexp_q(r), r), two_to_n + 1);
    return (d - 2) / d;
}

/* tanh(x) for any x: x itself where x is tiny, -0 for -0, +-1 for +-Inf, NaN for NaN. */
INLINE vec vtanh(vec x) {
    const vec_bits sign = (vec_bits)vec_all((real)-0.0);
    vec magnitude = (vec)((vec_bits)x & ~sign);
    vec at_most = vec_select(magnitude > TANH_LARGEST, vec_all(TANH_LARGEST), magnitude);
    vec y = vec_select(magnitude < TANH_SMALL, vtanh_small(magnitude), vtanh_large(at_most));
    y = vec_select(magnitude > TANH_ONE_ABOVE, vec_all(1), y);
    return (vec)((vec_bits)y | ((vec_bits)x & sign));
}

#endif
