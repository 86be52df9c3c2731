/* The vector hyperbolic tangent: at most 1 ulp, with or without fused multiply-add.
 *
 * With y = 2 |x| = n ln2 + r as in vexp.h, p = e^r - 1 = r + r^2 q(r) and P = 2^n p,
 *
 *   tanh |x| = (e^y - 1) / (e^y + 1) = ((2^n - 1) + P) / ((2^n + 1) + P),
 *
 * which for n = 0 is p / (2 + p): nothing cancels, a small x keeps all its digits. r, p, numerator and denominator are
 * kept as a rounded sum and what its rounding lost. The quotient is rounded once: a first quotient cut to half its
 * digits has exact products, and what it leaves over is divided and added. Constants: coefficients.py.
 */
#ifndef ATTN_LIB_VTANH_H
#define ATTN_LIB_VTANH_H

#include "kernels/vexp.h"

/* TANH_LARGEST: from there on the result rounds to 1. TANH_HALF_DIGITS clears the lower half of a significand. */
#if ATTN_REAL_BITS == 32
#define TANH_Q0 0x1p-1f
#define TANH_Q1 0x1.555556p-3f
#define TANH_Q2 0x1.5554aep-5f
#define TANH_Q3 0x1.11109p-7f
#define TANH_Q4 0x1.6d747cp-10f
#define TANH_Q5 0x1.a1a15ap-13f
#define TANH_LARGEST 10
#define TANH_HALF_DIGITS (~(lane_bits)0 << 12)
#else
#define TANH_Q0 0x1p-1
#define TANH_Q1 0x1.5555555555559p-3
#define TANH_Q2 0x1.555555555555ap-5
#define TANH_Q3 0x1.111111110f6b1p-7
#define TANH_Q4 0x1.6c16c16c14464p-10
#define TANH_Q5 0x1.a01a01afe3e17p-13
#define TANH_Q6 0x1.a01a01b0b0dcep-16
#define TANH_Q7 0x1.71ddf857314c2p-19
#define TANH_Q8 0x1.27e4c5ae4f35fp-22
#define TANH_Q9 0x1.af5eb833a04f9p-26
#define TANH_Q10 0x1.1f954e469710fp-29
#define TANH_LARGEST 20
#define TANH_HALF_DIGITS (~(lane_bits)0 << 27)
#endif

/* The rounded a + b, and in *low what the rounding lost. Exact for |a| >= |b| or a = 0. */
INLINE vec vec_sum_of_two(vec a, vec b, vec *low) {
    vec sum = a + b;
    *low = b - (sum - a);
    return sum;
}

/* q(r) by Horner's rule. */
INLINE vec vtanh_q(vec r) {
#if ATTN_REAL_BITS == 32
    vec q = vec_all(TANH_Q5);
#else
    vec q = vec_all(TANH_Q10);
    q = vec_fma(q, r, vec_all(TANH_Q9));
    q = vec_fma(q, r, vec_all(TANH_Q8));
    q = vec_fma(q, r, vec_all(TANH_Q7));
    q = vec_fma(q, r, vec_all(TANH_Q6));
    q = vec_fma(q, r, vec_all(TANH_Q5));
#endif
    q = vec_fma(q, r, vec_all(TANH_Q4));
    q = vec_fma(q, r, vec_all(TANH_Q3));
    q = vec_fma(q, r, vec_all(TANH_Q2));
    q = vec_fma(q, r, vec_all(TANH_Q1));
    return vec_fma(q, r, vec_all(TANH_Q0));
}

/* (a + a_low) / (b + b_low), rounded about once. */
INLINE vec vtanh_quotient(vec a, vec a_low, vec b, vec b_low) {
    vec reciprocal = 1 / b;
    vec quotient = (vec)((vec_bits)(a * reciprocal) & TANH_HALF_DIGITS);
    vec b_high_digits = (vec)((vec_bits)b & TANH_HALF_DIGITS);
    vec rest = vec_fma(-quotient, b_high_digits, a);
    rest = vec_fma(-quotient, b - b_high_digits, rest);
    rest += vec_fma(-quotient, b_low, a_low);
    return vec_fma(rest, reciprocal, quotient);
}

/* tanh(x) for any x: x itself where x is tiny, -0 for -0, +-1 for +-Inf, NaN for NaN. */
INLINE vec vtanh(vec x) {
    const vec shift = vec_all(EXP_SHIFT + EXP_BIAS);
    const vec_bits sign = (vec_bits)vec_all((real)-0.0);
    vec magnitude = (vec)((vec_bits)x & ~sign);
    magnitude = vec_select(magnitude > TANH_LARGEST, vec_all(TANH_LARGEST), magnitude);
    vec y = magnitude + magnitude;

    vec shifted = vec_fma(y, vec_all(EXP_LOG2E), shift);
    vec n = shifted - shift;
    vec two_to_n = (vec)((vec_bits)shifted << EXP_FRACTION_BITS);
    vec r_low, p_low, below_low, above_low, a_low, b_low;
    vec r = vec_sum_of_two(vec_fma(n, vec_all(-EXP_LN2_HI), y), n * -EXP_LN2_LO, &r_low);
    vec p = vec_sum_of_two(r, vec_fma(r * r, vtanh_q(r), vec_fma(r, r_low, r_low)), &p_low);
    p *= two_to_n;
    p_low *= two_to_n;

    vec below = vec_sum_of_two(two_to_n, vec_all(-1), &below_low);
    vec above = vec_sum_of_two(two_to_n, vec_all(1), &above_low);
    vec a = vec_sum_of_two(below, p, &a_low);
    vec b = vec_sum_of_two(above, p, &b_low);
    vec result = vtanh_quotient(a, a_low + (below_low + p_low), b, b_low + (above_low + p_low));
    return (vec)((vec_bits)result | ((vec_bits)x & sign));
}

#endif
