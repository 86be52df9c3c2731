/* Projections, scores and weighted sums: against long double, packed weights, bias, sizes of 0, NaN. */
#include "product_check.h"

#include <math.h>

/* Distinct primes, over the edges of the blocks (256 rows, 512 from 513 columns on, 1024 rows of 512 columns from 1025
 * on), of the strips that members of few rows take (32 rows, 256 columns, 64 rows of all members) and, above a million
 * multiplications, of packed panels (64 or 32 columns, 256 terms of 48 rows, 1024 terms of 1056 rows of all
 * members). */
static void test_project(void **state) {
    (void)state;
    (void)check_project(1, 1, 1, 1, 0, false);
    (void)check_project(3, 7, 5, 11, 0, false);
    (void)check_project(2, 13, 37, 17, 3, true);
    (void)check_project(1, 263, 31, 29, 1, true);
    (void)check_project(2, 5, 19, 523, 2, true);
    (void)check_project(1, 521, 3, 523, 0, false);
    (void)check_project(1, 1031, 3, 1033, 0, false);
    (void)check_project(1, 31, 7, 1031, 0, true);
    (void)check_project(1, 37, 7, 1031, 2, true);
    (void)check_project(71, 1, 13, 11, 1, true);
    (void)check_project(5, 29, 17, 257, 0, false);
    (void)check_project(1, 101, 131, 97, 1, true);
    (void)check_project(3, 53, 1031, 67, 3, true);
    (void)check_project(1, 1063, 19, 71, 0, false);
    (void)check_project(31, 37, 311, 89, 2, true);
}

static void test_scores(void **state) {
    (void)state;
    (void)check_scores(1, 1, 1, 0, 1);
    (void)check_scores(7, 11, 5, 0, 1);
    (void)check_scores(37, 53, 17, 3, 1 / sqrt(17.0));
    (void)check_scores(3, 61, 128, 1, -2.5);
    (void)check_scores(269, 13, 7, 2, 0.125);
    (void)check_scores(11, 541, 3, 5, 1);
}

static void test_combine(void **state) {
    (void)state;
    (void)check_combine(1, 1, 1, 0);
    (void)check_combine(7, 11, 5, 0);
    (void)check_combine(37, 53, 17, 3);
    (void)check_combine(271, 31, 13, 1);
    (void)check_combine(3, 601, 7, 2);
    (void)check_combine(5, 7, 521, 1);
}

/* Q, K and V by one product over [W_Q | W_K | W_V]: what three products give. */
static void test_packed_weights(void **state) {
    (void)state;
    enum { ROWS = 41, D = 23, D_Q = 29, D_K = 17, D_V = 13, ALL = D_Q + D_K + D_V };
    real *x = random_numbers(ROWS * D, 1), *w = random_numbers(D * ALL, 2), *bias = random_numbers(ALL, 3);
    real *packed = poisoned(ROWS * ALL);
    assert_ok(REAL(attn_project)(NULL, 1, ROWS, D, ALL, x, 0, D, w, ALL, bias, packed, 0, ALL));
    static const int first[] = {0, D_Q, D_Q + D_K}, size[] = {D_Q, D_K, D_V};
    for (int part = 0; part < 3; part++) {
        real *one = poisoned(ROWS * size[part]);
        assert_ok(REAL(attn_project)(NULL, 1, ROWS, D, size[part], x, 0, D, w + first[part], ALL, bias + first[part],
                                     one, 0, size[part]));
        for (int r = 0; r < ROWS; r++)
            for (int c = 0; c < size[part]; c++) {
                long double magnitude = absolute(bias[first[part] + c]);
                for (int i = 0; i < D; i++)
                    magnitude += absolute((long double)x[r * D + i] * w[i * ALL + first[part] + c]);
                assert_near(packed[r * ALL + first[part] + c], one[r * size[part] + c], PRODUCT_EPS * EPS * magnitude);
            }
        free(one);
    }
    free(x);
    free(w);
    free(bias);
    free(packed);
}

/* The bias is one rounded addition to the finished product. */
static void check_bias_is_added_last(int64_t rows, int64_t d, int64_t out) {
    real *x = random_numbers(rows * d, 1), *w = random_numbers(d * out, 2), *bias = random_numbers(out, 3);
    real *with = poisoned(rows * out), *without = poisoned(rows * out);
    assert_ok(REAL(attn_project)(NULL, 1, rows, d, out, x, 0, d, w, out, NULL, without, 0, out));
    assert_ok(REAL(attn_project)(NULL, 1, rows, d, out, x, 0, d, w, out, bias, with, 0, out));
    for (int64_t i = 0; i < rows * out; i++) {
        real sum = without[i] + bias[i % out];
        assert_same_bits(&with[i], &sum, 1);
    }
    free(x);
    free(w);
    free(bias);
    free(with);
    free(without);
}

static void test_bias_is_added_last(void **state) {
    (void)state;
    check_bias_is_added_last(261, 43, 519);
    check_bias_is_added_last(37, 1031, 71);
}

/* With a single member the batch strides are not looked at. */
static void test_batch_strides_of_one_member(void **state) {
    (void)state;
    enum { ROWS = 19, D = 11, OUT = 7 };
    real *x = random_numbers(ROWS * D, 1), *w = random_numbers(D * OUT, 2);
    real *y = poisoned(ROWS * OUT), *wanted = poisoned(ROWS * OUT);
    assert_ok(REAL(attn_project)(NULL, 1, ROWS, D, OUT, x, 0, D, w, OUT, NULL, wanted, 0, OUT));
    assert_ok(REAL(attn_project)(NULL, 1, ROWS, D, OUT, x, -77, D, w, OUT, NULL, y, INT64_MIN, OUT));
    assert_same_bits(y, wanted, ROWS * OUT);
    free(x);
    free(w);
    free(y);
    free(wanted);
}

static void test_broadcast_member(void **state) {
    (void)state;
    enum { BATCH = 3, ROWS = 19, D = 11, OUT = 7 };
    real *x = random_numbers(ROWS * D, 1), *w = random_numbers(D * OUT, 2), *y = poisoned(BATCH * ROWS * OUT);
    assert_ok(REAL(attn_project)(NULL, BATCH, ROWS, D, OUT, x, 0, D, w, OUT, NULL, y, ROWS * OUT, OUT));
    for (int b = 1; b < BATCH; b++)
        assert_same_bits(y, y + b * ROWS * OUT, ROWS * OUT);
    free(x);
    free(w);
    free(y);
}

/* Members side by side in the rows of y: [rows, batch, d_out]. */
static void test_interleaved_members(void **state) {
    (void)state;
    enum { BATCH = 3, ROWS = 19, D = 11, OUT = 7 };
    real *x = random_numbers(BATCH * ROWS * D, 1), *w = random_numbers(D * OUT, 2);
    real *y = poisoned(BATCH * ROWS * OUT), *side_by_side = poisoned(BATCH * ROWS * OUT);
    assert_ok(REAL(attn_project)(NULL, BATCH, ROWS, D, OUT, x, ROWS * D, D, w, OUT, NULL, y, ROWS * OUT, OUT));
    assert_ok(
        REAL(attn_project)(NULL, BATCH, ROWS, D, OUT, x, ROWS * D, D, w, OUT, NULL, side_by_side, OUT, BATCH * OUT));
    for (int b = 0; b < BATCH; b++)
        for (int r = 0; r < ROWS; r++)
            assert_same_bits(y + (b * ROWS + r) * OUT, side_by_side + (r * BATCH + b) * OUT, OUT);
    free(x);
    free(w);
    free(y);
    free(side_by_side);
}

static void test_no_inner_size(void **state) {
    (void)state;
    enum { ROWS = 300, COLS = 5 };
    real *bias = random_numbers(COLS, 1), *y = poisoned(ROWS * COLS);
    assert_ok(REAL(attn_project)(NULL, 1, ROWS, 0, COLS, NULL, 0, INT64_MAX, NULL, 0, bias, y, 0, COLS));
    for (int i = 0; i < ROWS * COLS; i++)
        assert_true(y[i] == bias[i % COLS]);
    assert_ok(REAL(attn_project)(NULL, 1, ROWS, 0, COLS, NULL, 0, 0, NULL, 0, NULL, y, 0, COLS));
    for (int i = 0; i < ROWS * COLS; i++)
        assert_true(y[i] == 0);
    memset(y, 0xff, ROWS * COLS * sizeof(real));
    assert_ok(REAL(attn_scores)(NULL, ROWS, COLS, 0, NULL, INT64_MAX, NULL, 0, 1, y, COLS));
    for (int i = 0; i < ROWS * COLS; i++)
        assert_true(y[i] == 0);
    memset(y, 0xff, ROWS * COLS * sizeof(real));
    assert_ok(REAL(attn_combine)(NULL, ROWS, 0, COLS, NULL, 0, NULL, INT64_MAX, y, COLS));
    for (int i = 0; i < ROWS * COLS; i++)
        assert_true(y[i] == 0);
    free(bias);
    free(y);
}

/* No row or no column: nothing is read or written, and no stride matters. */
static void test_empty_results(void **state) {
    (void)state;
    real one[1];
    memset(one, 0xff, sizeof one);
    assert_ok(REAL(attn_project)(NULL, 0, 3, 5, 7, NULL, 15, 5, one, 7, NULL, NULL, 21, 7));
    assert_ok(REAL(attn_project)(NULL, 2, 0, 5, 7, NULL, 15, 5, one, 7, NULL, NULL, 21, 7));
    assert_ok(REAL(attn_project)(NULL, 2, 3, 5, 0, one, 15, 5, NULL, 0, NULL, NULL, 0, 0));
    assert_ok(REAL(attn_scores)(NULL, 0, 3, 5, NULL, 5, one, 5, 1, NULL, 3));
    assert_ok(REAL(attn_scores)(NULL, 3, 0, 5, one, 5, NULL, 5, 1, NULL, 0));
    assert_ok(REAL(attn_combine)(NULL, 0, 3, 5, NULL, 3, one, 5, NULL, 5));
    assert_ok(REAL(attn_combine)(NULL, 3, 5, 0, one, 5, NULL, 0, NULL, 0));
    assert_untouched(one, 1);
}

/* A scale of 0 gives exact zeros, whatever q and k hold; one that rounds to 0 in this precision as well. */
static void test_scale_0_reads_nothing(void **state) {
    (void)state;
    real *q = poisoned(6), *k = poisoned(10), *s = poisoned(15);
    static const double scales[] = {0, -0.0, 1e-60};
    for (int i = 0; i < (sizeof(real) == 4 ? 3 : 2); i++) {
        memset(s, 0xff, 15 * sizeof(real));
        assert_ok(REAL(attn_scores)(NULL, 3, 5, 2, q, 2, k, 2, scales[i], s, 5));
        for (int n = 0; n < 15; n++)
            assert_true(s[n] == 0);
    }
    free(q);
    free(k);
    free(s);
}

/* A NaN in one row of X, Q or A makes that row of the result NaN and no other. */
static void test_nan_stays_in_its_row(void **state) {
    (void)state;
    enum { ROWS = 19, INNER = 11, COLS = 23, BAD = 5 };
    real *left = random_numbers(ROWS * INNER, 1), *right = random_numbers(INNER * COLS, 2);
    real *result = poisoned(ROWS * COLS);
    left[BAD * INNER + 3] = NAN;
    for (int product = 0; product < 3; product++) {
        for (int i = 0; i < ROWS * COLS; i++)
            result[i] = 1e30f;
        if (product == 0)
            assert_ok(
                REAL(attn_project)(NULL, 1, ROWS, INNER, COLS, left, 0, INNER, right, COLS, NULL, result, 0, COLS));
        else if (product == 1)
            assert_ok(REAL(attn_scores)(NULL, ROWS, COLS, INNER, left, INNER, right, INNER, 1, result, COLS));
        else
            assert_ok(REAL(attn_combine)(NULL, ROWS, INNER, COLS, left, INNER, right, COLS, result, COLS));
        for (int i = 0; i < ROWS * COLS; i++)
            assert_true(isnan(result[i]) == (i / COLS == BAD) && !(result[i] > 1e20f));
    }
    free(left);
    free(right);
    free(result);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_project),
        cmocka_unit_test(test_scores),
        cmocka_unit_test(test_combine),
        cmocka_unit_test(test_packed_weights),
        cmocka_unit_test(test_bias_is_added_last),
        cmocka_unit_test(test_batch_strides_of_one_member),
        cmocka_unit_test(test_broadcast_member),
        cmocka_unit_test(test_interleaved_members),
        cmocka_unit_test(test_no_inner_size),
        cmocka_unit_test(test_empty_results),
        cmocka_unit_test(test_scale_0_reads_nothing),
        cmocka_unit_test(test_nan_stays_in_its_row),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
