/* What the kernel tests share: one run of every test per instruction set, poisoned arrays of exact size, bitwise
 * comparison. */
#ifndef ATTN_TESTS_KERNEL_TEST_H
#define ATTN_TESTS_KERNEL_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <attn/sdpa.h>

#include "kernels/kernels.h"
#include "support.h"

#define ISA_COUNT 4
#define SEED 20240607

#if ATTN_REAL_BITS == 32
#define REAL_EPS 0x1p-23
#define REAL_MIN FLT_MIN
#define REAL_DIGITS FLT_MANT_DIG
#else
#define REAL_EPS 0x1p-52
#define REAL_MIN DBL_MIN
#define REAL_DIGITS DBL_MANT_DIG
#endif

static const real real_infinity = (real)INFINITY;
static const real real_nan = (real)NAN;

/* The kernels under test; skips the test where this CPU or this build lacks them. */
static inline const REAL(attn_kernels) * kernels_under_test(void **state) {
    attn_isa isa = *(const attn_isa *)*state;
    const REAL(attn_kernels) *kernels = REAL(attn_kernels_of)(isa);
    if (!kernels) {
        print_message("skipped: this CPU or build has no %s (or ATTN_MAX_ISA is below it)\n", attn_isa_name(isa));
        skip();
    }
    return kernels;
}

/* Runs every test once per instruction set, the name of which is appended to its own. */
static inline int run_for_every_isa(const char *group, const struct CMUnitTest *tests, size_t count) {
    static attn_isa isas[ISA_COUNT] = {ATTN_ISA_GENERIC, ATTN_ISA_NEON, ATTN_ISA_AVX2, ATTN_ISA_AVX512};
    struct CMUnitTest *all = calloc(ISA_COUNT * count, sizeof *all);
    char(*names)[128] = calloc(ISA_COUNT * count, sizeof *names);
    if (!all || !names) {
        return 1;
    }
    for (size_t n = 0; n < ISA_COUNT * count; n++) {
        all[n] = tests[n % count];
        all[n].initial_state = &isas[n / count];
        snprintf(names[n], sizeof names[n], "%s %s", tests[n % count].name, attn_isa_name(isas[n / count]));
        all[n].name = names[n];
    }
    int failures = _cmocka_run_group_tests(group, all, ISA_COUNT * count, NULL, NULL);
    free(names);
    free(all);
    return failures;
}

/* Exactly n elements, all NaN: any access beyond is for the sanitizers to see. */
static inline real *poisoned(int64_t n) {
    real *x = support_alloc_poisoned(REAL_DTYPE, n);
    assert_non_null(x);
    return x;
}

/* Exactly n elements, factor * N(0, 1) + shift. */
static inline real *normals(int64_t n, uint64_t stream, double factor, double shift) {
    real *x = poisoned(n);
    double *normal = support_alloc_poisoned(ATTN_F64, n);
    assert_non_null(normal);
    support_fill_normal(ATTN_F64, normal, n, SEED, stream, 0, 1);
    for (int64_t i = 0; i < n; i++) {
        x[i] = (real)(factor * normal[i] + shift);
    }
    free(normal);
    return x;
}

static inline real *copied(const real *x, int64_t n) {
    real *copy = poisoned(n);
    if (n > 0) {
        memcpy(copy, x, (size_t)n * sizeof *x);
    }
    return copy;
}

static inline bool same_bits(const real *a, const real *b, int64_t n) {
    return n == 0 || memcmp(a, b, (size_t)n * sizeof *a) == 0;
}

static inline double from_double_bits(uint64_t bits) {
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* |got - wanted| in units of the last place of `real` at wanted, which is finite and not subnormal. NaN gives NaN. */
static inline double error_in_ulp(real got, long double wanted) {
    int exponent;
    frexpl(wanted, &exponent);
    return (double)ldexpl(fabsl((long double)got - wanted), REAL_DIGITS - exponent);
}

/* What exp and tanh may be off by. Under valgrind the reference itself, in 64 bits, is off by some. */
static inline double allowed_ulp(void) {
    return support_valgrind_factor(REAL_DTYPE);
}

/* Steps of loops over many sizes: valgrind, with which each takes fifty times as long, sees one of a few, the more of
 * them as 11 divides no period in the sizes. */
static inline int64_t step_of_sizes(void) {
    return support_under_valgrind() ? 11 : 1;
}

/* Fails, naming what, unless |got - wanted| <= tolerance; NaN on either side fails. */
static inline void check_near(const char *what, int64_t at, real got, long double wanted, long double tolerance) {
    long double error = fabsl((long double)got - wanted);
    if (!(error <= tolerance)) {
        fail_msg("%s[%lld]: got %.17g, wanted %.17Lg, error %.3Lg, tolerance %.3Lg", what, (long long)at, (double)got,
                 wanted, error, tolerance);
    }
}

#endif
