/* Sinusoidal positions: small numbers, accuracy, huge positions, strides. */
#include "position_check.h"

static void test_small_numbers(void **state) {
    (void)state;
    static const double wanted[] = {0.841470985, 0.540302306, 0.025116223, 0.999684538, 0.000630957};
    real p[5];
    memset(p, 0xff, sizeof p);
    assert_ok(REAL(attn_sinusoidal)(NULL, 1, 5, 1, 10000, p, 5));
    for (int c = 0; c < 5; c++)
        assert_near(p[c], wanted[c], 0.5e-9L + (sizeof(real) == 4 ? EPS : 0));
}

static void test_position_0_is_exact(void **state) {
    (void)state;
    real p[7];
    memset(p, 0xff, sizeof p);
    assert_ok(REAL(attn_sinusoidal)(NULL, 1, 7, 0, 10000, p, 7));
    for (int c = 0; c < 7; c++)
        assert_true(p[c] == (real)(c % 2));
}

/* The last column of an odd d_model is the sine of its pair, and of one column it is the sine of the position. */
static void test_odd_sizes_end_with_a_sine(void **state) {
    (void)state;
    real one[3], three[3];
    memset(one, 0xff, sizeof one);
    memset(three, 0xff, sizeof three);
    assert_ok(REAL(attn_sinusoidal)(NULL, 3, 1, -1, 10000, one, 1));
    for (int r = 0; r < 3; r++)
        assert_near(one[r], sinl(r - 1), EPS);
    assert_ok(REAL(attn_sinusoidal)(NULL, 1, 3, 2, 10000, three, 3));
    assert_near(three[2], sinl(2 / powl(10000, 2 / 3.0L)), EPS);
}

static void test_accuracy_up_to_a_million(void **state) {
    (void)state;
    static const int64_t sizes[] = {1, 2, 5, 64, 127, 512};
    double worst = 0;
    for (int i = 0; i < 6; i++) {
        worst = fmax(worst, check_positions(29, sizes[i], 0, 10000));
        worst = fmax(worst, check_positions(29, sizes[i], -48, 10000));
        worst = fmax(worst, check_positions(29, sizes[i], 1000000 - 28, 10000));
        worst = fmax(worst, check_positions(11, sizes[i], -1000000, 10000));
        for (uint64_t n = 0; n < 8; n++) {
            int64_t start = (int64_t)(support_random_uniform(1, 9, n) * 1e6);
            worst = fmax(worst, check_positions(3, sizes[i], start, 10000));
            worst = fmax(worst, check_positions(3, sizes[i], start, 1 + 1e6 * support_random_uniform(1, 8, n)));
        }
    }
    print_message("worst error: %.3f of the bound\n", worst);
}

/* A large base multiplies the rounding error of the exponent 2i / d_model by its logarithm. */
static void test_accuracy_with_large_bases(void **state) {
    (void)state;
    double worst = fmax(check_positions(3, 1023, 1000000 - 2, 1e9), check_positions(3, 1023, 1000000 - 2, 1e30));
    if (sizeof(real) == 8)
        worst = fmax(worst, check_positions(3, 1023, INT64_C(1) << 50, 1e300));
    print_message("worst error: %.3f of the bound\n", worst);
}

/* Beyond what the kernel reduces, and beyond what double can hold. The bound of double grows with the angle; in float
 * these positions have no bound but [-1, 1] and their neighbours. */
static void test_huge_positions(void **state) {
    (void)state;
    static const int64_t starts[] = {INT64_MIN,
                                     -(INT64_C(1) << 53) - 3,
                                     -(INT64_C(1) << 40),
                                     -(INT64_C(1) << 31) - 3,
                                     (INT64_C(1) << 31) - 3,
                                     (INT64_C(1) << 32) + 1,
                                     (INT64_C(1) << 40) + 7,
                                     (INT64_C(1) << 53) - 3,
                                     INT64_MAX - 6};
    for (int i = 0; i < 9; i++) {
        enum { ROWS = 7, COLS = 65 };
        if (sizeof(real) == 8)
            (void)check_positions(ROWS, COLS, starts[i], 10000);
        real p[ROWS * COLS];
        memset(p, 0xff, sizeof p);
        assert_ok(REAL(attn_sinusoidal)(NULL, ROWS, COLS, starts[i], 10000, p, COLS));
        for (int n = 0; n < ROWS * COLS; n++)
            assert_true(p[n] >= -1 && p[n] <= 1);
        /* sine and cosine of one angle, however far it is */
        for (int r = 0; r < ROWS; r++)
            for (int c = 0; c + 1 < COLS; c += 2) {
                long double sine = p[r * COLS + c], cosine = p[r * COLS + c + 1];
                assert_near(sine * sine + cosine * cosine, 1, 4 * EPS);
            }
    }
}

static void test_any_base_stays_in_range(void **state) {
    (void)state;
    static const double bases[] = {5e-324, 1e-300, 0.5, 1, 1e300, DBL_MAX};
    static const int64_t starts[] = {INT64_MIN, -2, INT64_MAX - 4};
    for (int b = 0; b < 6; b++)
        for (int s = 0; s < 3; s++) {
            real p[5 * 33];
            memset(p, 0xff, sizeof p);
            assert_ok(REAL(attn_sinusoidal)(NULL, 5, 33, starts[s], bases[b], p, 33));
            for (int i = 0; i < 5 * 33; i++)
                assert_true(p[i] >= -1 && p[i] <= 1);
        }
    (void)check_positions(50, 33, -25, 1);
    (void)check_positions(50, 33, -25, 1e300);
    if (sizeof(real) == 8)
        (void)check_positions(50, 33, -25, 0.5);
}

/* An element is the same whatever block, row or call it is computed in. */
static void test_rows_do_not_depend_on_the_call(void **state) {
    (void)state;
    enum { ROWS = 300, COLS = 601 };
    static const int64_t starts[] = {-150, (INT64_C(1) << 31) - 150, INT64_C(1) << 36};
    for (int s = 0; s < 3; s++) {
        real *all = poisoned(ROWS * COLS), one[COLS];
        assert_ok(REAL(attn_sinusoidal)(NULL, ROWS, COLS, starts[s], 10000, all, COLS));
        for (int r = 0; r < ROWS; r++) {
            memset(one, 0xff, sizeof one);
            assert_ok(REAL(attn_sinusoidal)(NULL, 1, COLS, starts[s] + r, 10000, one, COLS));
            assert_same_bits(all + r * COLS, one, COLS);
        }
        free(all);
    }
}

static void test_row_stride(void **state) {
    (void)state;
    enum { ROWS = 11, COLS = 13, STRIDE = 17 };
    int64_t extent = matrix_extent(ROWS, COLS, STRIDE);
    real *p = poisoned(extent), dense[ROWS * COLS];
    assert_ok(REAL(attn_sinusoidal)(NULL, ROWS, COLS, 5, 10000, p, STRIDE));
    assert_ok(REAL(attn_sinusoidal)(NULL, ROWS, COLS, 5, 10000, dense, COLS));
    assert_rows_only(p, ROWS, COLS, STRIDE);
    for (int r = 0; r < ROWS; r++)
        assert_same_bits(p + r * STRIDE, dense + r * COLS, COLS);
    free(p);
}

static void test_no_rows(void **state) {
    (void)state;
    real p[4];
    memset(p, 0xff, sizeof p);
    assert_ok(REAL(attn_sinusoidal)(NULL, 0, 4, INT64_MAX, 10000, NULL, 0));
    assert_ok(REAL(attn_sinusoidal)(NULL, 0, 4, 0, 10000, p, 4));
    assert_untouched(p, 4);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_small_numbers),
        cmocka_unit_test(test_position_0_is_exact),
        cmocka_unit_test(test_odd_sizes_end_with_a_sine),
        cmocka_unit_test(test_accuracy_up_to_a_million),
        cmocka_unit_test(test_accuracy_with_large_bases),
        cmocka_unit_test(test_huge_positions),
        cmocka_unit_test(test_any_base_stays_in_range),
        cmocka_unit_test(test_rows_do_not_depend_on_the_call),
        cmocka_unit_test(test_row_stride),
        cmocka_unit_test(test_no_rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
