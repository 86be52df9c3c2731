/* Kernels that edit scores: softcap (with cap 1 it is tanh itself), add_bias, add_alibi, hide. */
#include "kernel_test.h"

#define LONGEST 67

#if ATTN_REAL_BITS == 32
#define EXACTLY_ONE_FROM 0x1.205968p+3f /* tanh of it and of all larger ones rounds to 1 */
#define ODD_DISTANCE 16777217.0         /* no float, its distance to an odd key is one */
static const uint32_t signalling_nan = 0x7fa00001u;
#else
#define EXACTLY_ONE_FROM 0x1.30fc1931f09cap+4
#define ODD_DISTANCE 9007199254740991.0
static const uint64_t signalling_nan = 0x7ff4000000000001u;
#endif

static void check_tanh(const REAL(attn_kernels) * kernels, int64_t n, const real *x) {
    double limit = allowed_ulp();
    real *y = copied(x, n);
    kernels->softcap(n, 1, y);
    for (int64_t i = 0; i < n; i++) {
        double error = error_in_ulp(y[i], tanhl((long double)x[i]));
        if (!(error <= limit)) {
            fail_msg("tanh(%a) is %a, off by %.4f ulp", (double)x[i], (double)y[i], error);
        }
    }
    free(y);
}

static void test_tanh_one_ulp(void **state) {
    const REAL(attn_kernels) *kernels = kernels_under_test(state);
    enum { BLOCK = 4096, BLOCKS = 30 };
    const double half_ln2 = 0x1.62e42fefa39efp-2;
    real *x = poisoned(BLOCK);
    for (uint64_t block = 0; block < BLOCKS; block++) {
        for (uint64_t i = 0; i < BLOCK; i++) {
            double part = support_random_uniform(SEED, block, 2 * i);
            double other = support_random_uniform(SEED, block, 2 * i + 1);
            double magnitude;
            if (block % 5 == 0) { /* all magnitudes of normal results */
                magnitude = ldexp(1 + other, -(int)(part * (ATTN_REAL_BITS == 32 ? 126 : 1022)));
            } else if (block % 5 == 1) { /* around the first change of n, where the error is largest */
                magnitude = half_ln2 / 2 * (1 + (part - 0.5) * (i % 2 ? 0.3 : 1e-3));
            } else if (block % 5 == 2) { /* 2 x near multiples of ln2 / 2: the digits of r cancel, or r is largest */
                magnitude = floor(1 + part * (double)EXACTLY_ONE_FROM / half_ln2 * 2) / 2 * half_ln2;
                magnitude *= 1 + (other - 0.5) * 1e-6;
            } else if (block % 5 == 3) {
                magnitude = part * 2;
            } else {
                magnitude = part * 1.1 * (double)EXACTLY_ONE_FROM;
            }
            x[i] = (real)(i % 4 < 2 ? magnitude : -magnitude);
        }
        check_tanh(kernels, BLOCK, x);
    }
    free(x);
}

static real tanh_of(const REAL(attn_kernels) * kernels, real x) {
    kernels->softcap(1, 1, &x);
    return x;
}

static void test_tanh_special_values(void **state) {
    const REAL(attn_kernels) *kernels = kernels_under_test(state);
    const real unchanged[] = {0, REAL_MIN, REAL_MIN / 4, REAL_MIN * (real)REAL_EPS, (real)REAL_EPS, (real)REAL_EPS / 3};
    const real large[] = {EXACTLY_ONE_FROM, 21, 88, 1000, REAL_MAX, real_infinity};
    for (size_t i = 0; i < sizeof unchanged / sizeof *unchanged; i++) {
        real x = unchanged[i], minus_x = -x, y = tanh_of(kernels, x), minus_y = tanh_of(kernels, minus_x);
        assert_true(same_bits(&y, &x, 1));
        assert_true(same_bits(&minus_y, &minus_x, 1));
    }
    for (size_t i = 0; i < sizeof large / sizeof *large; i++) {
        assert_true(tanh_of(kernels, large[i]) == 1);
        assert_true(tanh_of(kernels, -large[i]) == -1);
    }
    real nans[3] = {real_nan, -real_nan, real_nan};
    memset(&nans[2], 0xff, sizeof nans[2]);
    for (int i = 0; i < 3; i++) {
        assert_true(isnan(tanh_of(kernels, nans[i])));
    }
}

/* softcap is cap * tanh(s / cap), quotient and product rounded to real. */
static void test_softcap(void **state) {
    const REAL(attn_kernels) *kernels = kernels_under_test(state);
    const real caps[] = {1, 5, 50, (real)0.37, REAL_MAX, REAL_MIN, REAL_MIN / 16};
    enum { COUNT = 300 };
    for (size_t c = 0; c < sizeof caps / sizeof *caps; c++) {
        real cap = caps[c], *s = normals(COUNT, c + 1, 3, 0), *wanted = poisoned(COUNT);
        for (int i = 0; i < COUNT; i += 2) { /* of the cap's magnitude, or far from it */
            s[i] = s[i] / 3 * cap;
        }
        s[3] = real_infinity;
        s[8] = -real_infinity;
        s[13] = real_nan;
        for (int i = 0; i < COUNT; i++) {
            wanted[i] = cap * tanh_of(kernels, s[i] / cap);
        }
        kernels->softcap(COUNT, cap, s);
        assert_true(s[3] == cap && s[8] == -cap && isnan(s[13]));
        s[13] = wanted[13] = 0;
        assert_true(same_bits(s, wanted, COUNT));
        free(s);
        free(wanted);
    }
}

static void test_add_bias(void **state) {
    const REAL(attn_kernels) *kernels = kernels_under_test(state);
    const real values[] = {0, (real)-0.0, 1, (real)-2.5, REAL_MAX, -REAL_MAX, real_infinity, -real_infinity, real_nan};
    enum { VALUES = sizeof values / sizeof *values, COUNT = VALUES * VALUES };
    real *s = poisoned(COUNT), *b = poisoned(COUNT), *sum = poisoned(COUNT);
    for (int i = 0; i < COUNT; i++) {
        s[i] = values[i / VALUES];
        b[i] = values[i % VALUES];
        sum[i] = s[i] + b[i];
    }
    kernels->add_bias(COUNT, b, s);
    for (int i = 0; i < COUNT; i++) {
        if (b[i] == -real_infinity) {
            assert_true(s[i] == -real_infinity);
        } else if (isnan(sum[i])) {
            assert_true(isnan(s[i]));
        } else {
            assert_true(same_bits(s + i, sum + i, 1));
        }
    }
    free(s);
    free(b);
    free(sum);
}

static void test_add_alibi(void **state) {
    const REAL(attn_kernels) *kernels = kernels_under_test(state);
    const double distances[] = {0,    1,       33,       -1,      -40,          1e6 + 1,
                                -1e6, 8388541, -8388541, 8388608, ODD_DISTANCE, -ODD_DISTANCE};
    const real slopes[] = {(real)0.5, 1, (real)0.7071067811865476, 0, -2};
    for (size_t d = 0; d < sizeof distances / sizeof *distances; d++) {
        for (size_t c = 0; c < sizeof slopes / sizeof *slopes; c++) {
            real *s = normals(LONGEST, d + 1, 1, 0), *wanted = poisoned(LONGEST);
            s[4] = real_infinity;
            s[11] = -real_infinity;
            s[17] = real_nan;
            for (int j = 0; j < LONGEST; j++) {
                wanted[j] = s[j] - slopes[c] * (real)fabs(distances[d] - j);
            }
            kernels->add_alibi(LONGEST, slopes[c], distances[d], s);
            assert_true(isnan(s[17]));
            s[17] = wanted[17] = 0;
            assert_true(same_bits(s, wanted, LONGEST));
            free(s);
            free(wanted);
        }
    }
}

/* Every byte but 0 shows; what is shown keeps its bits, even those of a signalling NaN. */
static void test_hide(void **state) {
    const REAL(attn_kernels) *kernels = kernels_under_test(state);
    enum { COUNT = 1024 };
    real *s = normals(COUNT, 1, 1, 0), *wanted;
    uint8_t *mask = malloc(COUNT);
    assert_non_null(mask);
    for (int j = 0; j < COUNT; j++) {
        mask[j] = (uint8_t)(j % 3 == 0 ? 0 : j);
        if (j % 5 == 0) {
            memcpy(s + j, &signalling_nan, sizeof *s);
        }
    }
    wanted = copied(s, COUNT);
    for (int j = 0; j < COUNT; j++) {
        if (mask[j] == 0) {
            wanted[j] = -real_infinity;
        }
    }
    kernels->hide(COUNT, mask, s);
    assert_true(same_bits(s, wanted, COUNT));
    free(s);
    free(mask);
    free(wanted);
}

/* The n scores from place `first` of a row, edited by one of the kernels; s and the two others are exactly n long. */
typedef void (*edit)(const REAL(attn_kernels) * kernels, int64_t n, int64_t first, const real *bias,
                     const uint8_t *mask, real *s);

static void edit_softcap(const REAL(attn_kernels) * kernels, int64_t n, int64_t first, const real *bias,
                         const uint8_t *mask, real *s) {
    (void)first, (void)bias, (void)mask;
    kernels->softcap(n, (real)1.7, s);
}

static void edit_bias(const REAL(attn_kernels) * kernels, int64_t n, int64_t first, const real *bias,
                      const uint8_t *mask, real *s) {
    (void)first, (void)mask;
    kernels->add_bias(n, bias, s);
}

static void edit_alibi(const REAL(attn_kernels) * kernels, int64_t n, int64_t first, const real *bias,
                       const uint8_t *mask, real *s) {
    (void)bias, (void)mask;
    kernels->add_alibi(n, (real)0.3, ODD_DISTANCE - (double)first, s);
}

static void edit_hide(const REAL(attn_kernels) * kernels, int64_t n, int64_t first, const real *bias,
                      const uint8_t *mask, real *s) {
    (void)first, (void)bias;
    kernels->hide(n, mask, s);
}

/* A score's value depends neither on its place in a vector nor on the length, and nothing beyond is written. */
static void test_tails(void **state) {
    const REAL(attn_kernels) *kernels = kernels_under_test(state);
    const edit edits[] = {edit_softcap, edit_bias, edit_alibi, edit_hide};
    for (size_t e = 0; e < sizeof edits / sizeof *edits; e++) {
        real *scores = normals(LONGEST, 1, 2, 0), *biases = normals(LONGEST, 2, 1, 0);
        uint8_t hidden[LONGEST];
        biases[7] = -real_infinity;
        for (int j = 0; j < LONGEST; j++) {
            hidden[j] = (uint8_t)(j * 7 % 5 / 2);
        }
        real *one_by_one = copied(scores, LONGEST);
        for (int j = 0; j < LONGEST; j++) {
            edits[e](kernels, 1, j, biases + j, hidden + j, one_by_one + j);
        }
        for (int64_t n = 0; n <= LONGEST; n++) {
            for (int64_t offset = 0; offset < 2; offset++) { /* one of them is not aligned */
                real *s = poisoned(n + offset), *guarded = poisoned(n + 1), *clean = poisoned(1);
                real *bias = copied(biases, n);
                uint8_t *mask = malloc((size_t)n + (n == 0));
                assert_non_null(mask);
                for (int64_t j = 0; j < n; j++) { /* at -O1 gcc 12 sees a memcpy of up to 2^64 bytes */
                    mask[j] = hidden[j];
                }
                memcpy(s + offset, scores, (size_t)n * sizeof *s);
                memcpy(guarded, scores, (size_t)n * sizeof *s);
                edits[e](kernels, n, 0, bias, mask, s + offset);
                edits[e](kernels, n, 0, bias, mask, guarded);
                assert_true(same_bits(s + offset, one_by_one, n));
                assert_true(same_bits(guarded, one_by_one, n));
                assert_true(same_bits(guarded + n, clean, 1));
                free(s);
                free(guarded);
                free(clean);
                free(bias);
                free(mask);
            }
        }
        free(scores);
        free(biases);
        free(one_by_one);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tanh_one_ulp), cmocka_unit_test(test_tanh_special_values), cmocka_unit_test(test_softcap),
        cmocka_unit_test(test_add_bias),     cmocka_unit_test(test_add_alibi),           cmocka_unit_test(test_hide),
        cmocka_unit_test(test_tails),
    };
    return run_for_every_isa("kernels edit", tests, sizeof tests / sizeof *tests);
}
