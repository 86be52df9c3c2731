/* Kernel exp: at most 1 ulp on a dense sample of its range, special values, tails. */
#include "kernel_test.h"

#if ATTN_REAL_BITS == 32
#define LOWEST -0x1.5d589ep+6f
#define HIGHEST 0x1.62e42ep+6f
#else
#define LOWEST -0x1.6232bdd7abcd2p+9
#define HIGHEST 0x1.62e42fefa39efp+9
#endif

static real next_toward(real x, real target) {
#if ATTN_REAL_BITS == 32
    return nextafterf(x, target);
#else
    return nextafter(x, target);
#endif
}

static void test_one_ulp(void **state) {
    const REAL(attn_kernels) *kernels = kernels_under_test(state);
    enum { BLOCK = 4096, BLOCKS = 64 };
    double limit = allowed_ulp();
    real *x = poisoned(BLOCK), *y = poisoned(BLOCK);
    for (uint64_t block = 0; block < BLOCKS; block++) {
        for (int i = 0; i < BLOCK; i++) {
            double part = support_random_uniform(SEED, block, (uint64_t)i);
            if (block % 4 == 0) { /* all magnitudes */
                x[i] = (real)(ldexp(1, (int)(part * 60) - 54) * (i % 2 ? 1 : -1));
            } else if (block % 4 == 1) { /* both ends */
                x[i] = i % 2 ? (real)(LOWEST + part * 0.01) : (real)(HIGHEST - part * 0.01);
            } else {
                x[i] = (real)(LOWEST + part * ((double)HIGHEST - (double)LOWEST));
            }
        }
        x[0] = LOWEST;
        x[1] = HIGHEST;
        kernels->exp(BLOCK, x, y);
        for (int i = 0; i < BLOCK; i++) {
            double error = error_in_ulp(y[i], expl((long double)x[i]));
            if (!(error <= limit)) {
                fail_msg("exp(%a) is %a, off by %.4f ulp", (double)x[i], (double)y[i], error);
            }
        }
    }
    free(x);
    free(y);
}

static void test_special_values(void **state) {
    const REAL(attn_kernels) *kernels = kernels_under_test(state);
    const real zeros[] = {-real_infinity, -REAL_MAX, -1000, next_toward(LOWEST, -real_infinity)};
    const real infinities[] = {real_infinity, REAL_MAX, 1000, next_toward(HIGHEST, real_infinity)};
    const real ones[] = {0, (real)-0.0, REAL_MIN, -REAL_MIN, REAL_MIN / 4, (real)REAL_EPS / 8, -(real)REAL_EPS / 8};
    real nans[3] = {real_nan, -real_nan, real_nan};
    /* A NaN with all bits set: a sum of bits would turn it into a number. */
    memset(&nans[2], 0xff, sizeof nans[2]);
    real y[8];
    for (size_t i = 0; i < sizeof zeros / sizeof *zeros; i++) {
        kernels->exp(1, zeros + i, y);
        assert_true(y[0] == 0 && !signbit(y[0]));
    }
    for (size_t i = 0; i < sizeof infinities / sizeof *infinities; i++) {
        kernels->exp(1, infinities + i, y);
        assert_true(y[0] == real_infinity);
    }
    for (size_t i = 0; i < sizeof ones / sizeof *ones; i++) {
        kernels->exp(1, ones + i, y);
        assert_true(y[0] == 1);
    }
    kernels->exp(3, nans, y);
    for (int i = 0; i < 3; i++) {
        assert_true(isnan(y[i]));
    }
}

/* An element's value depends neither on its place nor on the length, and nothing beyond the length is written. */
static void test_tails(void **state) {
    const REAL(attn_kernels) *kernels = kernels_under_test(state);
    enum { LONGEST = 130 };
    real *values = normals(LONGEST, 1, 20, 0), *one_by_one = poisoned(LONGEST);
    for (int i = 0; i < LONGEST; i++) {
        kernels->exp(1, values + i, one_by_one + i);
    }
    for (int n = 0; n <= LONGEST; n++) {
        for (int offset = 0; offset < 2; offset++) {
            real *x = poisoned(n + offset), *y = poisoned(n + offset + 1), *clean = poisoned(1);
            memcpy(x + offset, values, (size_t)n * sizeof *x);
            kernels->exp(n, x + offset, y + offset);
            assert_true(same_bits(y + offset, one_by_one, n));
            assert_true(same_bits(y + offset + n, clean, 1));
            kernels->exp(n, x + offset, x + offset);
            assert_true(same_bits(x + offset, one_by_one, n));
            free(x);
            free(y);
            free(clean);
        }
    }
    free(values);
    free(one_by_one);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_ulp),
        cmocka_unit_test(test_special_values),
        cmocka_unit_test(test_tails),
    };
    return run_for_every_isa("kernels exp", tests, sizeof tests / sizeof *tests);
}
