/* The vector exponential, shared by exp.c and softmax.c.
 *
 * exp(x) = 2^n e^r with n the integer nearest to x / ln2 and r = x - n ln2, |r| at most ln2 / 2 and a little;
 * e^r = 1 + r + r^2 q(r). Adding SHIFT rounds to n and leaves n in the low bits, from where one shift brings it into
 * the exponent. At most 1 ulp: the reduced argument is off by a quarter ulp of the result at most, the last addition by
 * half. Constants: coefficients.py.
 */
#ifndef ATTN_LIB_VEXP_H
#define ATTN_LIB_VEXP_H

#include "kernels/simd.h"

#if ATTN_REAL_BITS == 32
#define EXP_LOG2E 0x1.715476p+0f
#define EXP_LN2_HI 0x1.62e4p-1f
#define EXP_LN2_LO 0x1.7f7d1cp-20f
#define EXP_LN2 0x1.62e43p-1f
#define EXP_Q0 0x1.fffffcp-2f
#define EXP_Q1 0x1.555492p-3f
#define EXP_Q2 0x1.5558f2p-5f
#define EXP_Q3 0x1.1239dap-7f
#define EXP_Q4 0x1.6a2442p-10f
#define EXP_LOWEST -0x1.5d589ep+6f
#define EXP_HIGHEST 0x1.62e42ep+6f
#define EXP_VANISHED -88.0f /* n is -127: all bits of 2^n are 0 */
#define EXP_SHIFT 0x1.8p23f
#define EXP_BIAS 127
#define EXP_FRACTION_BITS 23
#ifdef ATTN_KERNEL_ISA_AVX512
#define WEIGHT_C0 0x1.00021ep-1f
#define WEIGHT_C1 0x1.55559ap-3f
#define WEIGHT_SHIFT 0x1.8p+19f
#define WEIGHT_TABLE                                                                                                   \
    0x1p+0f, 0x1.0b5586p+0f, 0x1.172b84p+0f, 0x1.2387a6p+0f, 0x1.306fep+0f, 0x1.3dea64p+0f, 0x1.4bfdaep+0f,            \
        0x1.5ab07ep+0f, 0x1.6a09e6p+0f, 0x1.7a1148p+0f, 0x1.8ace54p+0f, 0x1.9c4918p+0f, 0x1.ae89fap+0f,                \
        0x1.c199bep+0f, 0x1.d5818ep+0f, 0x1.ea4afap+0f
#else
#define WEIGHT_C0 0x1.000006p-1f
#define WEIGHT_C1 0x1.5571d8p-3f
#define WEIGHT_C2 0x1.552114p-5f
#define WEIGHT_SHIFT 0x1.8p+21f
#define WEIGHT_TABLE                                                                                                   \
    0x1p+0f, 0x1.f06fep-1f, 0x1.ea09e6p-1f, 0x1.ee89fap-1f, 0x1p+0f, 0x1.f06fep-1f, 0x1.ea09e6p-1f, 0x1.ee89fap-1f
#endif
#else
#define EXP_LOG2E 0x1.71547652b82fep+0
#define EXP_LN2_HI 0x1.62e42fefa38p-1
#define EXP_LN2_LO 0x1.ef35793c7673p-45
#define EXP_LN2 0x1.62e42fefa39efp-1
#define EXP_Q0 0x1.000000000000ap-1
#define EXP_Q1 0x1.55555555554fap-3
#define EXP_Q2 0x1.5555555550885p-5
#define EXP_Q3 0x1.1111111127bbap-7
#define EXP_Q4 0x1.6c16c18428094p-10
#define EXP_Q5 0x1.a01a012a61eebp-13
#define EXP_Q6 0x1.a0199a124141p-16
#define EXP_Q7 0x1.71df254526f35p-19
#define EXP_Q8 0x1.28ad6d1ec7da3p-22
#define EXP_Q9 0x1.ad7f74328a688p-26
#define EXP_LOWEST -0x1.6232bdd7abcd2p+9
#define EXP_HIGHEST 0x1.62e42fefa39efp+9
#define EXP_VANISHED -709.0 /* n is -1023: all bits of 2^n are 0 */
#define EXP_SHIFT 0x1.8p52
#define EXP_BIAS 1023
#define EXP_FRACTION_BITS 52
#define WEIGHT_C0 0x1.000000000010bp-1
#define WEIGHT_C1 0x1.555555555513p-3
#define WEIGHT_C2 0x1.555555480b556p-5
#define WEIGHT_C3 0x1.11111125dc02cp-7
#define WEIGHT_C4 0x1.6c1cbe44d4149p-10
#define WEIGHT_C5 0x1.a01639ed6f792p-13
#define WEIGHT_SHIFT 0x1.8p+49
#define WEIGHT_TABLE                                                                                                   \
    0x1p+0, 0x1.172b83c7d517bp+0, 0x1.306fe0a31b715p+0, 0x1.4bfdad5362a27p+0, 0x1.6a09e667f3bcdp+0,                    \
        0x1.8ace5422aa0dbp+0, 0x1.ae89f995ad3adp+0, 0x1.d5818dcfba487p+0
#endif

/* q(r) by Horner's rule. */
INLINE vec vexp_q(vec r) {
#if ATTN_REAL_BITS == 32
    vec q = vec_all(EXP_Q4);
#else
    vec q = vec_all(EXP_Q9);
    q = vec_fma(q, r, vec_all(EXP_Q8));
    q = vec_fma(q, r, vec_all(EXP_Q7));
    q = vec_fma(q, r, vec_all(EXP_Q6));
    q = vec_fma(q, r, vec_all(EXP_Q5));
    q = vec_fma(q, r, vec_all(EXP_Q4));
#endif
    q = vec_fma(q, r, vec_all(EXP_Q3));
    q = vec_fma(q, r, vec_all(EXP_Q2));
    q = vec_fma(q, r, vec_all(EXP_Q1));
    return vec_fma(q, r, vec_all(EXP_Q0));
}

/* e^r, and in the low bits of *n_bits the integer n plus the exponent's bias. Any x, garbage where exp(x) is no normal
 * number, but NaN stays NaN. With one_step, a constant at every call, x is reduced by EXP_LN2 alone; generic does not
 * look at it. */
INLINE vec vexp_reduced(vec x, bool one_step, vec_bits *n_bits) {
    const vec shift = vec_all(EXP_SHIFT + EXP_BIAS);
    vec shifted = vec_fma(x, vec_all(EXP_LOG2E), shift);
    vec n = shifted - shift;
    *n_bits = (vec_bits)shifted;
    /* Exact: EXP_LN2_HI has trailing zeros for every n. */
    vec r_high = vec_fma(n, vec_all(-EXP_LN2_HI), x);
#ifdef ATTN_KERNEL_ISA_GENERIC
    (void)one_step;
    /* Without a fused last step 1 + r p(r) rounds r p(r) once more; keeping r_low out of r makes room for that. */
    vec r_low = n * -EXP_LN2_LO;
    vec r = r_high + r_low;
    return 1 + (r_high + (r * r * vexp_q(r) + r_low));
#else
    vec r = one_step ? vec_fma(n, vec_all(-EXP_LN2), x) : vec_fma(n, vec_all(-EXP_LN2_LO), r_high);
    return vec_fma(vec_fma(vexp_q(r), r, vec_all(1)), r, vec_all(1));
#endif
}

/* exp(x) for the softmax, a weight relative to that of some other score: +0 below EXP_LOWEST or next to it, NaN stays.
 * In float EXP_LN2 takes the place of its two parts: off by 2.8e-9 of its value, so that another 2.8e-9 |x| is added to
 * the errors below; that of double would matter for small weights. */
#ifdef ATTN_KERNEL_ISA_AVX512
/* As many powers of two as a vector has lanes, so that three terms do, in double seven; within 1.3 ulp of e^x. Above
 * EXP_HIGHEST it is infinite or NaN. LADDER.md. */
INLINE vec vexp_weight(vec x) {
    const real table[LANES] = {WEIGHT_TABLE};
    const vec shift = vec_all(WEIGHT_SHIFT);
    vec shifted = vec_fma(x, vec_all(EXP_LOG2E), shift);
    vec n = shifted - shift; /* whole sixteenths, in double eighths */
    vec power = vec_looked_up(table, (vec_bits)shifted);
#if ATTN_REAL_BITS == 32
    vec r = vec_fma(n, vec_all(-EXP_LN2), x);
    vec p = vec_all(WEIGHT_C1);
#else
    vec r = vec_fma(n, vec_all(-EXP_LN2_LO), vec_fma(n, vec_all(-EXP_LN2_HI), x));
    vec p = vec_all(WEIGHT_C5);
    p = vec_fma(p, r, vec_all(WEIGHT_C4));
    p = vec_fma(p, r, vec_all(WEIGHT_C3));
    p = vec_fma(p, r, vec_all(WEIGHT_C2));
    p = vec_fma(p, r, vec_all(WEIGHT_C1));
#endif
    p = vec_fma(vec_fma(p, r, vec_all(WEIGHT_C0)), r, vec_all(1));
    return vec_raised(vec_fma(power * r, p, power), n, x, EXP_LOWEST);
}

INLINE vec vexp_weight_above(vec x) {
    return vexp_weight(x);
}
#else
/* x <= WEIGHT_MOST; no mask and, in float, one step of reduction less than vexp(). Weights below 2^-126 (double
 * 2^-1022), of which there is hardly one, may be subnormal. */
#define WEIGHT_MOST 60
#if defined(ATTN_KERNEL_ISA_AVX2) && ATTN_REAL_BITS == 32
/* Four powers of two, so that four terms do; within 1.3 ulp of e^x. */
INLINE vec vexp_weight(vec x) {
    const real table[LANES] = {WEIGHT_TABLE};
    const vec shift = vec_all(WEIGHT_SHIFT);
    x = vec_at_least(x, EXP_VANISHED);
    vec shifted = vec_fma(x, vec_all(EXP_LOG2E), shift);
    vec r = vec_fma(shifted - shift, vec_all(-EXP_LN2), x); /* less whole quarters of ln2 */
    vec_bits quarters = (vec_bits)shifted << (EXP_FRACTION_BITS - 2);
    vec power = (vec)((vec_bits)vec_looked_up(table, (vec_bits)shifted) + quarters);
    vec p = vec_fma(vec_all(WEIGHT_C2), r, vec_all(WEIGHT_C1));
    p = vec_fma(vec_fma(p, r, vec_all(WEIGHT_C0)), r, vec_all(1));
    return vec_fma(power * r, p, power);
}
#else
/* Within 1 ulp of e^x. */
INLINE vec vexp_weight(vec x) {
    x = vec_at_least(x, EXP_VANISHED);
    vec_bits n_bits;
    vec e = vexp_reduced(x, ATTN_REAL_BITS == 32, &n_bits);
    /* A product, unlike a sum of bits, keeps NaN. */
    return e * (vec)(n_bits << EXP_FRACTION_BITS);
}
#endif

/* Any x, more than WEIGHT_MOST counting as this much. */
INLINE vec vexp_weight_above(vec x) {
    return vexp_weight(vec_at_most(x, WEIGHT_MOST));
}
#endif

/* exp(x) for any x: +0 below EXP_LOWEST, +Inf above EXP_HIGHEST, NaN for NaN. */
INLINE vec vexp(vec x) {
    vec_bits n_bits;
    vec e = vexp_reduced(x, false, &n_bits);
    /* Added to the exponent of e, since 2^n itself overflows for the largest n. */
    vec_bits scaled = (vec_bits)e + ((n_bits - EXP_BIAS) << EXP_FRACTION_BITS);
    vec y = vec_select(x > EXP_HIGHEST, vec_all((real)INFINITY), (vec)scaled);
    y = vec_zero_below(y, x, EXP_LOWEST);
    return vec_select(x == x, y, x + x);
}

#endif
