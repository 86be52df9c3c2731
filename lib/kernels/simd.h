/* One vector type `vec` of `real` per instruction set, and the few operations that GCC's vector extension lacks.
 *
 *   generic  16 bytes, plain C, product and sum rounded apart
 *   neon     16 bytes, fused multiply-add
 *   avx2     32 bytes, fused multiply-add
 *   avx512   64 bytes, fused multiply-add, masked loads and stores
 *
 * Arithmetic, comparisons and shifts are the operators of the language; a scalar operand is broadcast. CMake defines
 * ATTN_KERNEL_ISA_<NAME> and gives the flags that belong to it, for this file's includers and for nothing else.
 */
#ifndef ATTN_LIB_SIMD_H
#define ATTN_LIB_SIMD_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/real.h"
#include "kernels/kernel_list.h"

#if defined(ATTN_KERNEL_ISA_GENERIC)
#define ISA_NAME generic
#define VEC_BYTES 16
#elif defined(ATTN_KERNEL_ISA_NEON)
#if !defined(__aarch64__) || !defined(__ARM_NEON)
#error "ATTN_KERNEL_ISA_NEON needs a 64-bit Arm compiler with NEON"
#endif
#include <arm_neon.h>
#define ISA_NAME neon
#define VEC_BYTES 16
#elif defined(ATTN_KERNEL_ISA_AVX2)
#if !defined(__AVX2__) || !defined(__FMA__)
#error "ATTN_KERNEL_ISA_AVX2 needs -mavx2 -mfma"
#endif
#include <immintrin.h>
#define ISA_NAME avx2
#define VEC_BYTES 32
#elif defined(ATTN_KERNEL_ISA_AVX512)
#if !defined(__AVX512F__) || !defined(__AVX512DQ__) || !defined(__AVX512BW__) || !defined(__AVX512VL__) ||             \
    !defined(__AVX2__) || !defined(__FMA__)
#error "ATTN_KERNEL_ISA_AVX512 needs -mavx512f -mavx512dq -mavx512bw -mavx512vl -mavx2 -mfma"
#endif
#include <immintrin.h>
/* The few kernels that the matrix unit has of its own are of AVX-512 beside it. */
#ifdef ATTN_KERNEL_ISA_AMX
#define ISA_NAME amx
#else
#define ISA_NAME avx512
#endif
#define VEC_BYTES 64
#else
#error "define one of ATTN_KERNEL_ISA_GENERIC, _NEON, _AVX2, _AVX512"
#endif

/* The name of a kernel of this instruction set: KERNEL(exp) is attn_exp_avx2_f32 and the like. */
#define KERNEL(name) KERNEL_OF(name, ISA_NAME)

/* Inlined even where the optimiser would not: the helpers below take and return registers. */
#define INLINE static inline __attribute__((always_inline))

/* Before a loop of few turns, whose number is a constant once it is inlined: all of them in a row, so that what they
 * index stays in registers. clang 14 takes no notice of GCC's pragma: kernel multiply took 4.5 times as long. */
#ifdef __clang__
#define UNROLLED _Pragma("clang loop unroll(full)")
#else
#define UNROLLED _Pragma("GCC unroll 16")
#endif

#define LANES (VEC_BYTES * 8 / ATTN_REAL_BITS)
/* A group is 16 bytes of a vec: all instruction sets shuffle within groups at the least cost. */
#define GROUP_LANES (16 * 8 / ATTN_REAL_BITS)
#define GROUPS (LANES / GROUP_LANES)

#if ATTN_REAL_BITS == 32
typedef uint32_t lane_bits;
typedef int32_t lane_truth;
#else
typedef uint64_t lane_bits;
typedef int64_t lane_truth;
#endif
typedef real vec __attribute__((vector_size(VEC_BYTES)));
/* Unsigned, since shifts and sums of bits may overflow. */
typedef lane_bits vec_bits __attribute__((vector_size(VEC_BYTES)));
/* What comparisons give: all ones or 0. */
typedef lane_truth vec_truth __attribute__((vector_size(VEC_BYTES)));
typedef real vec_in_memory __attribute__((vector_size(VEC_BYTES), aligned(sizeof(real)), may_alias));

/* As many doubles as a vec has lanes. */
typedef double doubles __attribute__((vector_size(LANES * sizeof(double))));

/* The intrinsic of this instruction set and precision: INTRINSIC(fmadd) is _mm256_fmadd_ps and the like. */
#if defined(ATTN_KERNEL_ISA_AVX2)
#if ATTN_REAL_BITS == 32
#define INTRINSIC(operation) _mm256_##operation##_ps
#else
#define INTRINSIC(operation) _mm256_##operation##_pd
#endif
#elif defined(ATTN_KERNEL_ISA_AVX512)
#if ATTN_REAL_BITS == 32
#define INTRINSIC(operation) _mm512_##operation##_ps
#define COMPARE_TO_MASK _mm512_cmp_ps_mask
typedef __mmask16 lane_mask;
#else
#define INTRINSIC(operation) _mm512_##operation##_pd
#define COMPARE_TO_MASK _mm512_cmp_pd_mask
typedef __mmask8 lane_mask;
#endif
#elif defined(ATTN_KERNEL_ISA_NEON)
#if ATTN_REAL_BITS == 32
#define INTRINSIC(operation) operation##_f32
#else
#define INTRINSIC(operation) operation##_f64
#endif
#endif

INLINE vec vec_all(real x) {
    return x - (vec){0};
}

INLINE vec vec_load(const real *p) {
    return *(const vec_in_memory *)p;
}

INLINE void vec_store(real *p, vec v) {
    *(vec_in_memory *)p = v;
}

/* v, kept in a register: gcc 12 may load it again for each use otherwise. */
INLINE vec vec_kept(vec v) {
#if defined(ATTN_KERNEL_ISA_AVX512)
    __asm__("" : "+v"(v));
#elif defined(ATTN_KERNEL_ISA_AVX2)
    __asm__("" : "+x"(v));
#endif
    return v;
}

/* a * b + c, fused on every instruction set but generic. */
INLINE vec vec_fma(vec a, vec b, vec c) {
#if defined(ATTN_KERNEL_ISA_AVX2) || defined(ATTN_KERNEL_ISA_AVX512)
    return INTRINSIC(fmadd)(a, b, c);
#elif defined(ATTN_KERNEL_ISA_NEON)
    return INTRINSIC(vfmaq)(c, a, b);
#else
    return a * b + c;
#endif
}

/* mask ? a : b, lane by lane, for masks that comparisons made. */
INLINE vec vec_select(vec_truth mask, vec a, vec b) {
    return (vec)((mask & (vec_truth)a) | (~mask & (vec_truth)b));
}

/* The larger of a and b; a where b is NaN. */
INLINE vec vec_max(vec a, vec b) {
#if defined(ATTN_KERNEL_ISA_AVX2) || defined(ATTN_KERNEL_ISA_AVX512)
    return INTRINSIC(max)(b, a);
#elif defined(ATTN_KERNEL_ISA_NEON)
    return INTRINSIC(vmaxnmq)(a, b);
#else
    return vec_select(b > a, b, a);
#endif
}

/* The larger of x and bound; NaN stays. */
INLINE vec vec_at_least(vec x, real bound) {
#if defined(ATTN_KERNEL_ISA_AVX2) || defined(ATTN_KERNEL_ISA_AVX512)
    return INTRINSIC(max)(vec_all(bound), x);
#elif defined(ATTN_KERNEL_ISA_NEON)
    return INTRINSIC(vmaxq)(x, vec_all(bound));
#else
    return vec_select(x < bound, vec_all(bound), x);
#endif
}

/* The smaller of x and bound; NaN stays. */
INLINE vec vec_at_most(vec x, real bound) {
#if defined(ATTN_KERNEL_ISA_AVX2) || defined(ATTN_KERNEL_ISA_AVX512)
    return INTRINSIC(min)(vec_all(bound), x);
#elif defined(ATTN_KERNEL_ISA_NEON)
    return INTRINSIC(vminq)(x, vec_all(bound));
#else
    return vec_select(x > bound, vec_all(bound), x);
#endif
}

/* Whether a comparison is true in any lane. */
INLINE bool vec_any(vec_truth mask) {
    lane_truth any = 0;
    for (int i = 0; i < LANES; i++)
        any |= mask[i];
    return any != 0;
}

#if defined(ATTN_KERNEL_ISA_AVX2) && ATTN_REAL_BITS == 32
/* In each lane the entry at its index, modulo 4, of a table that is there twice. */
INLINE vec vec_looked_up(const real *table, vec_bits index) {
    return _mm256_permutevar_ps(vec_load(table), (__m256i)index);
}
#endif

#if defined(ATTN_KERNEL_ISA_AVX512)
/* In each lane the table's entry at its index, modulo LANES. */
INLINE vec vec_looked_up(const real *table, vec_bits index) {
    return INTRINSIC(permutexvar)((__m512i)index, vec_load(table));
}

/* y times two to the largest whole number that is no larger than n, where x >= bound or x is NaN, else 0. */
INLINE vec vec_raised(vec y, vec n, vec x, real bound) {
    return INTRINSIC(maskz_scalef)(COMPARE_TO_MASK(x, vec_all(bound), _CMP_NLT_UQ), y, n);
}
#endif

/* v where x >= bound or x is NaN, else 0. */
INLINE vec vec_zero_below(vec v, vec x, real bound) {
#if defined(ATTN_KERNEL_ISA_AVX512)
    return INTRINSIC(maskz_mov)(COMPARE_TO_MASK(x, vec_all(bound), _CMP_NLT_UQ), v);
#else
    return (vec)((vec_bits)v & ~(vec_bits)(x < bound));
#endif
}

#if defined(ATTN_KERNEL_ISA_AVX2)
/* All ones in the first n lanes. */
INLINE __m256i first_lanes(int64_t n) {
#if ATTN_REAL_BITS == 32
    const vec_truth index = {0, 1, 2, 3, 4, 5, 6, 7};
#else
    const vec_truth index = {0, 1, 2, 3};
#endif
    return (__m256i)(index < (lane_truth)n);
}
#elif defined(ATTN_KERNEL_ISA_AVX512)
INLINE lane_mask first_lanes(int64_t n) {
    return (lane_mask)((1u << n) - 1);
}
#endif

/* The first n lanes from memory, 0 < n < LANES, `fill` in the others, which are not read. */
INLINE vec vec_load_part(const real *p, int64_t n, real fill) {
#if defined(ATTN_KERNEL_ISA_AVX512)
    return INTRINSIC(mask_loadu)(vec_all(fill), first_lanes(n), p);
#elif defined(ATTN_KERNEL_ISA_AVX2)
    return vec_select((vec_truth)first_lanes(n), INTRINSIC(maskload)(p, first_lanes(n)), vec_all(fill));
#else
    union {
        vec v;
        real lane[LANES];
    } u = {vec_all(fill)};
    for (int i = 0; i < LANES; i++)
        if (i < n)
            u.lane[i] = p[i];
    return u.v;
#endif
}

/* The first n lanes to memory, 0 < n < LANES; the places of the others are not written. */
INLINE void vec_store_part(real *p, int64_t n, vec v) {
#if defined(ATTN_KERNEL_ISA_AVX512)
    INTRINSIC(mask_storeu)(p, first_lanes(n), v);
#elif defined(ATTN_KERNEL_ISA_AVX2)
    INTRINSIC(maskstore)(p, first_lanes(n), v);
#else
    union {
        vec v;
        real lane[LANES];
    } u = {v};
    for (int i = 0; i < LANES; i++)
        if (i < n)
            p[i] = u.lane[i];
#endif
}

/* Sum of the lanes: halves onto each other until one is left. */
INLINE real vec_sum(vec v) {
    union {
        vec v;
        real lane[LANES];
    } u = {v};
    for (int half = LANES / 2; half > 0; half /= 2)
        for (int i = 0; i < half; i++)
            u.lane[i] += u.lane[i + half];
    return u.lane[0];
}

/* Largest lane of a vector without NaN. */
INLINE real vec_largest(vec v) {
    union {
        vec v;
        real lane[LANES];
    } u = {v};
    for (int half = LANES / 2; half > 0; half /= 2)
        for (int i = 0; i < half; i++)
            u.lane[i] = u.lane[i] > u.lane[i + half] ? u.lane[i] : u.lane[i + half];
    return u.lane[0];
}

/* a[0] b[0] a[1] b[1] ... from the lower halves of two vectors, and from the upper ones. */
#if LANES == 2
#define VEC_ZIP_LOW(a, b) __builtin_shufflevector(a, b, 0, 2)
#define VEC_ZIP_HIGH(a, b) __builtin_shufflevector(a, b, 1, 3)
#elif LANES == 4
#define VEC_ZIP_LOW(a, b) __builtin_shufflevector(a, b, 0, 4, 1, 5)
#define VEC_ZIP_HIGH(a, b) __builtin_shufflevector(a, b, 2, 6, 3, 7)
#elif LANES == 8
#define VEC_ZIP_LOW(a, b) __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11)
#define VEC_ZIP_HIGH(a, b) __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15)
#else
#define VEC_ZIP_LOW(a, b) __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23)
#define VEC_ZIP_HIGH(a, b) __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31)
#endif

/* The same with the halves of each group. */
INLINE vec vec_zip_low_in_groups(vec a, vec b) {
#if GROUPS == 1
    return VEC_ZIP_LOW(a, b);
#else
    return INTRINSIC(unpacklo)(a, b);
#endif
}

INLINE vec vec_zip_high_in_groups(vec a, vec b) {
#if GROUPS == 1
    return VEC_ZIP_HIGH(a, b);
#else
    return INTRINSIC(unpackhi)(a, b);
#endif
}

/* The groups at p, p + step, ... */
INLINE vec vec_load_groups(const real *p, int64_t step) {
#if GROUPS == 1
    (void)step;
    return vec_load(p);
#else
#define GROUP_AT(g) _mm_loadu_ps((const float *)(p + (g)*step))
    __m256 low = _mm256_insertf128_ps(_mm256_castps128_ps256(GROUP_AT(0)), GROUP_AT(1), 1);
#if GROUPS == 2
    return (vec)low;
#else
    __m256 high = _mm256_insertf128_ps(_mm256_castps128_ps256(GROUP_AT(2)), GROUP_AT(3), 1);
    return (vec)_mm512_insertf32x8(_mm512_castps256_ps512(low), high, 1);
#endif
#undef GROUP_AT
#endif
}

/* In lane i the largest lane of v[i], for vectors without NaN; v is used up. */
INLINE vec vec_largest_of_each(vec *v) {
    UNROLLED
    for (int half = LANES / 2; half > 0; half /= 2) {
        UNROLLED
        for (int i = 0; i < half; i++)
            v[i] = vec_max(VEC_ZIP_LOW(v[i], v[i + half]), VEC_ZIP_HIGH(v[i], v[i + half]));
    }
    return v[0];
}

/* In lane i the sum of the lanes of v[i]; v is used up. */
INLINE vec vec_sum_of_each(vec *v) {
    UNROLLED
    for (int half = LANES / 2; half > 0; half /= 2) {
        UNROLLED
        for (int i = 0; i < half; i++)
            v[i] = VEC_ZIP_LOW(v[i], v[i + half]) + VEC_ZIP_HIGH(v[i], v[i + half]);
    }
    return v[0];
}

#endif
