/* Kernel softcap with cap 1, that is tanh. Float: every one of the 2^32 floats. Double: twenty million points, random
 * ones and those where the reduction of the argument is hardest. The largest error found is printed.
 *
 * The float reference is the C library's double tanh: its error is 2^-27 ulp of the float at most, granted below.
 */
#include "kernel_test.h"

#define BLOCK 4096

typedef struct worst_error {
    double ulp;
    real at;
} worst_error;

static void note_error(worst_error *worst, real x, double error) {
    if (!(error <= worst->ulp)) {
        *worst = (worst_error){error, x};
    }
}

#if ATTN_REAL_BITS == 32
#define REFERENCE_ERROR 0x1p-26
#define UNCHANGED_BELOW 0x1p-13f /* x - x^3/3 rounds to x */
#define ONE_FROM 0x1.205968p+3f

/* One block of floats x that are not negative, and their results y. */
static void check_block(worst_error *worst, const float *x, const float *y) {
    for (int i = 0; i < BLOCK; i++) {
        bool right;
        if (isnan(x[i])) {
            right = isnan(y[i]);
        } else if (x[i] < UNCHANGED_BELOW) {
            right = same_bits(&x[i], &y[i], 1);
        } else if (x[i] >= ONE_FROM) {
            right = y[i] == 1;
        } else {
            double wanted = tanh((double)x[i]);
            uint64_t bits;
            memcpy(&bits, &wanted, sizeof bits);
            double ulp = from_double_bits((bits & 0x7ff0000000000000u) - ((uint64_t)23 << 52));
            note_error(worst, x[i], fabs((double)y[i] - wanted) / ulp);
            right = true;
        }
        if (!right) {
            fail_msg("tanh(%a) is %a", (double)x[i], (double)y[i]);
        }
    }
}

static worst_error check_all(const REAL(attn_kernels) * kernels, float *x, float *y, float *z) {
    worst_error worst = {0, 0};
    for (uint64_t first = 0; first < (uint64_t)1 << 31; first += BLOCK) {
        for (uint32_t i = 0; i < BLOCK; i++) {
            uint32_t bits = (uint32_t)first + i;
            memcpy(&x[i], &bits, sizeof bits);
            y[i] = x[i];
            z[i] = -x[i];
        }
        kernels->softcap(BLOCK, 1, y);
        kernels->softcap(BLOCK, 1, z);
        check_block(&worst, x, y);
        for (int i = 0; i < BLOCK; i++) { /* tanh(-x) is -tanh(x) */
            z[i] = -z[i];
        }
        if (!isnan(x[0]) && !isnan(x[BLOCK - 1])) {
            assert_true(same_bits(y, z, BLOCK));
        }
        for (int i = 0; i < BLOCK; i++) {
            assert_true(!isnan(x[i]) || isnan(z[i]));
        }
    }
    return worst;
}
#else
#define REFERENCE_ERROR 0x1p-10
#define POINTS 20000000

static worst_error check_all(const REAL(attn_kernels) * kernels, double *x, double *y, double *z) {
    const double largest = 19.1, half_ln2 = 0x1.62e42fefa39efp-2;
    worst_error worst = {0, 0};
    for (uint64_t first = 0; first < POINTS; first += BLOCK) {
        for (uint64_t i = 0; i < BLOCK; i++) {
            double a = support_random_uniform(SEED, 1, 2 * (first + i));
            double b = support_random_uniform(SEED, 1, 2 * (first + i) + 1);
            if (i % 4 == 0) { /* 2 x near multiples of ln2 / 2, where the digits of r cancel or r is largest */
                x[i] = floor(1 + a * largest / half_ln2 * 2) / 2 * half_ln2 * (1 + (b - 0.5) * 1e-13);
            } else if (i % 4 == 1) { /* where the error is largest */
                x[i] = 0.1 + a * 0.2;
            } else if (i % 4 == 2) { /* all magnitudes */
                x[i] = ldexp(1 + b, -(int)(a * 1022));
            } else {
                x[i] = a * largest;
            }
            y[i] = x[i];
            z[i] = -x[i];
        }
        kernels->softcap(BLOCK, 1, y);
        kernels->softcap(BLOCK, 1, z);
        for (int i = 0; i < BLOCK; i++) {
            note_error(&worst, x[i], error_in_ulp(y[i], tanhl((long double)x[i])));
            z[i] = -z[i];
        }
        assert_true(same_bits(y, z, BLOCK)); /* tanh(-x) is -tanh(x) */
    }
    return worst;
}
#endif

static void test_every_value(void **state) {
    const REAL(attn_kernels) *kernels = kernels_under_test(state);
    real *x = poisoned(BLOCK), *y = poisoned(BLOCK), *z = poisoned(BLOCK);
    worst_error worst = check_all(kernels, x, y, z);
    free(x);
    free(y);
    free(z);
    double limit = allowed_ulp() - REFERENCE_ERROR;
    print_message("largest error %.5f ulp at %a\n", worst.ulp, (double)worst.at);
    if (!(worst.ulp <= limit)) {
        fail_msg("tanh(%a) is off by %.5f ulp", (double)worst.at, worst.ulp);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_value)};
    return run_for_every_isa("kernels tanh, every value", tests, 1);
}
