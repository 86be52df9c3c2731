/* Kernel sincos: at most one eps absolute up to 2^31, multiples of pi/4 and tails included. */
#include "kernel_test.h"

#define HALF_PI 1.57079632679489661923132169163975144L

static void check_angles(const REAL(attn_kernels) * kernels, int64_t n, const double *angle) {
    real *sine = poisoned(n), *cosine = poisoned(n);
    long double tolerance = (long double)REAL_EPS * support_valgrind_factor(REAL_DTYPE);
    kernels->sincos(n, angle, sine, cosine);
    for (int64_t i = 0; i < n; i++) {
        long double sine_error = fabsl(sine[i] - sinl(angle[i])), cosine_error = fabsl(cosine[i] - cosl(angle[i]));
        if (!(sine_error <= tolerance) || !(cosine_error <= tolerance)) {
            fail_msg("angle %a: sine %.17g off by %.3Lg, cosine %.17g off by %.3Lg", angle[i], (double)sine[i],
                     sine_error, (double)cosine[i], cosine_error);
        }
    }
    free(sine);
    free(cosine);
}

static void test_accuracy(void **state) {
    const REAL(attn_kernels) *kernels = kernels_under_test(state);
    enum { COUNT = 20000 };
    double *angle = malloc(COUNT * sizeof *angle);
    assert_non_null(angle);
    for (uint64_t kind = 0; kind < 5; kind++) {
        for (int i = 0; i < COUNT; i++) {
            double a = support_random_uniform(SEED, kind, (uint64_t)i), sign = i % 2 ? -1 : 1;
            if (kind == 0) {
                angle[i] = sign * a * 0x1p31;
            } else if (kind == 1) { /* all magnitudes */
                angle[i] = sign * (1 + a) * ldexp(0.5, i % 90 - 58);
            } else if (kind == 2) { /* the doubles nearest to multiples of pi/2, where a result is almost 0 */
                angle[i] = (double)(floorl(sign * a * 0x1p31L / HALF_PI) * HALF_PI);
            } else if (kind == 3) { /* and to odd multiples of pi/4, where the quarter changes */
                angle[i] = (double)((floorl(sign * a * 0x1p31L / HALF_PI) + 0.5L) * HALF_PI);
            } else {
                angle[i] = floor(sign * a * 131072);
            }
        }
        angle[0] = 0x1p31;
        angle[1] = -0x1p31;
        angle[2] = 0;
        check_angles(kernels, COUNT, angle);
    }
    free(angle);
}

static void test_tails(void **state) {
    const REAL(attn_kernels) *kernels = kernels_under_test(state);
    enum { LONGEST = 70 };
    double angle[LONGEST];
    real sine[LONGEST], cosine[LONGEST];
    for (int i = 0; i < LONGEST; i++) {
        angle[i] = 1000 * support_random_normal(SEED, 9, (uint64_t)i);
        kernels->sincos(1, angle + i, sine + i, cosine + i);
    }
    for (int n = 0; n <= LONGEST; n++) {
        double *a = malloc((size_t)n * sizeof *a + 1);
        assert_non_null(a);
        memcpy(a, angle, (size_t)n * sizeof *a);
        real *s = poisoned(n), *c = poisoned(n);
        kernels->sincos(n, a, s, c);
        assert_true(same_bits(s, sine, n) && same_bits(c, cosine, n));
        free(a);
        free(s);
        free(c);
    }
}

/* Outside the domain results mean nothing, but the call returns; NaN stays NaN. */
static void test_outside(void **state) {
    const REAL(attn_kernels) *kernels = kernels_under_test(state);
    const double angle[] = {INFINITY, -INFINITY, NAN, DBL_MAX, -DBL_MAX, 1e300};
    enum { COUNT = sizeof angle / sizeof *angle };
    real sine[COUNT] = {0}, cosine[COUNT] = {0};
    kernels->sincos(COUNT, angle, sine, cosine);
    for (int i = 0; i < 3; i++) {
        assert_true(isnan(sine[i]) && isnan(cosine[i]));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_accuracy),
        cmocka_unit_test(test_tails),
        cmocka_unit_test(test_outside),
    };
    return run_for_every_isa("kernels sincos", tests, sizeof tests / sizeof *tests);
}
