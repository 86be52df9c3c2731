/* The stages that work row by row: embedding look-up, addition, softmax. */
#include "chain_test.h"

#include <math.h>

/* ---- Embedding --------------------------------------------------------------------------------------------------- */

static void test_embed(void **state) {
    (void)state;
    enum { ROWS = 29, VOCAB = 101, D = 13, TABLE_STRIDE = 17, E_STRIDE = 19 };
    real *table = random_matrix(VOCAB, D, TABLE_STRIDE, 1), *e = poisoned(matrix_extent(ROWS, D, E_STRIDE));
    int64_t ids[ROWS];
    for (int r = 0; r < ROWS; r++)
        ids[r] = r == 0 ? VOCAB - 1 : (r * 37) % VOCAB;
    assert_ok(REAL(attn_embed)(NULL, ROWS, VOCAB, D, ids, table, TABLE_STRIDE, e, E_STRIDE));
    for (int r = 0; r < ROWS; r++) {
        assert_same_bits(e + r * E_STRIDE, table + ids[r] * TABLE_STRIDE, D);
        if (r + 1 < ROWS)
            assert_untouched(e + r * E_STRIDE + D, E_STRIDE - D);
    }
    free(table);
    free(e);
}

/* Copied as they stand: NaN with its bits, infinities, -0. */
static void test_embed_copies_bits(void **state) {
    (void)state;
    const real table[] = {(real)NAN, (real)INFINITY, (real)-0.0, -(real)INFINITY};
    const int64_t ids[] = {0, 0};
    real e[8];
    memset(e, 0xff, sizeof e);
    assert_ok(REAL(attn_embed)(NULL, 2, 1, 4, ids, table, 4, e, 4));
    assert_same_bits(e, table, 4);
    assert_same_bits(e + 4, table, 4);
}

/* ---- Addition ---------------------------------------------------------------------------------------------------- */

static void test_add(void **state) {
    (void)state;
    enum { ROWS = 23, D = 31, E = 37, P = 41, X = 43 };
    real *e = random_matrix(ROWS, D, E, 1), *p = random_matrix(ROWS, D, P, 2), *x = poisoned(matrix_extent(ROWS, D, X));
    assert_ok(REAL(attn_add)(NULL, ROWS, D, e, E, p, P, x, X));
    assert_rows_only(x, ROWS, D, X);
    for (int r = 0; r < ROWS; r++)
        for (int c = 0; c < D; c++)
            assert_true(x[r * X + c] == e[r * E + c] + p[r * P + c]);
    /* in place, over either of the two */
    real *wanted = poisoned(ROWS * D);
    assert_ok(REAL(attn_add)(NULL, ROWS, D, e, E, p, P, wanted, D));
    real *e_copy = random_matrix(ROWS, D, E, 1);
    assert_ok(REAL(attn_add)(NULL, ROWS, D, e_copy, E, p, P, e_copy, E));
    assert_ok(REAL(attn_add)(NULL, ROWS, D, e, E, p, P, p, P));
    for (int r = 0; r < ROWS; r++) {
        assert_same_bits(e_copy + r * E, wanted + r * D, D);
        assert_same_bits(p + r * P, wanted + r * D, D);
        if (r + 1 < ROWS)
            assert_untouched(e_copy + r * E + D, E - D);
    }
    free(e);
    free(p);
    free(x);
    free(wanted);
    free(e_copy);
}

static void test_add_to_itself(void **state) {
    (void)state;
    real x[] = {1, -2, (real)INFINITY, (real)NAN};
    assert_ok(REAL(attn_add)(NULL, 1, 4, x, 4, x, 4, x, 4));
    assert_true(x[0] == 2 && x[1] == -4 && isinf(x[2]) && isnan(x[3]));
}

/* ---- Softmax ----------------------------------------------------------------------------------------------------- */

/* Against long double, relative to the weight: 3 eps for exp and the division, some for the sum of many, and half an
 * eps for each unit that the score lies below the maximum (rounding of the difference). Below the smallest normal
 * number a weight may be 0. */
static double check_softmax(int64_t rows, int64_t cols, int64_t pad, double factor, bool in_place) {
    int64_t stride = cols + pad;
    real *s = random_matrix(rows, cols, stride, 1);
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < cols; c++)
            s[r * stride + c] *= (real)factor;
    real *a = poisoned(matrix_extent(rows, cols, stride));
    if (in_place)
        memcpy(a, s, (size_t)matrix_extent(rows, cols, stride) * sizeof(real));
    assert_ok(REAL(attn_softmax)(NULL, rows, cols, in_place ? a : s, stride, a, stride));
    assert_rows_only(a, rows, cols, stride);
    long double *wanted = malloc((size_t)cols * sizeof *wanted), *tolerance = malloc((size_t)cols * sizeof *tolerance);
    assert_non_null(wanted);
    assert_non_null(tolerance);
    support_report report;
    support_report_begin(&report);
    for (int64_t r = 0; r < rows; r++) {
        const real *row = s + r * stride;
        support_oracle_softmax(REAL_DTYPE, cols, row, wanted);
        real max = row[0];
        for (int64_t c = 1; c < cols; c++)
            max = row[c] > max ? row[c] : max;
        for (int64_t c = 0; c < cols; c++)
            tolerance[c] = (3 + log2l((long double)cols) / 2 + 0.5L * ((long double)max - row[c])) * EPS * wanted[c] *
                               (long double)support_valgrind_factor(REAL_DTYPE) +
                           (sizeof(real) == 4 ? (long double)FLT_MIN : (long double)DBL_MIN);
        support_compare_row(&report, "a", r, REAL_DTYPE, cols, a + r * stride, wanted, tolerance);
    }
    if (!support_report_end(&report, "softmax"))
        fail_msg("%s", report.text);
    free(s);
    free(a);
    free(wanted);
    free(tolerance);
    return report.worst;
}

static void test_softmax(void **state) {
    (void)state;
    static const int64_t cols[] = {1, 2, 3, 7, 8, 15, 16, 17, 31, 61, 127, 1009, 4099};
    static const double factors[] = {0, 1, 10, 300};
    double worst = 0;
    for (int c = 0; c < 13; c++)
        for (int f = 0; f < 4; f++)
            worst = fmax(worst, check_softmax(11, cols[c], (c + f) % 3, factors[f], f % 2 == 1));
    worst = fmax(worst, check_softmax(1201, 37, 2, 3, true)); /* several blocks of rows */
    print_message("worst error: %.3f of the tolerance\n", worst);
}

static void softmax_of(int64_t cols, const real *s, real *a) {
    memset(a, 0xff, (size_t)cols * sizeof *a);
    assert_ok(REAL(attn_softmax)(NULL, 1, cols, s, cols, a, cols));
}

static void test_softmax_of_large_scores(void **state) {
    (void)state;
    const real s[] = {800, 801, -800};
    real a[3];
    softmax_of(3, s, a);
    assert_near(a[0], 1 / (1 + expl(1)), 2 * EPS);
    assert_near(a[1], 1 / (1 + expl(-1)), 2 * EPS);
    assert_true(a[2] == 0);
    const real largest[] = {REAL_MAX, REAL_MAX, -REAL_MAX};
    softmax_of(3, largest, a);
    assert_true(a[0] == (real)0.5 && a[1] == (real)0.5 && a[2] == 0);
}

static void test_softmax_edges(void **state) {
    (void)state;
    const real inf = (real)INFINITY, nan = (real)NAN;
    for (int64_t cols = 1; cols <= 70; cols++) {
        real s[70], a[70];
        /* nothing but -Inf */
        for (int64_t c = 0; c < cols; c++)
            s[c] = -inf;
        softmax_of(cols, s, a);
        for (int64_t c = 0; c < cols; c++)
            assert_true(a[c] == 0);
        for (int64_t at = 0; at < cols; at++) {
            /* one key that is seen, however low its score */
            s[at] = -300;
            softmax_of(cols, s, a);
            for (int64_t c = 0; c < cols; c++)
                assert_true(a[c] == (c == at));
            /* NaN or +Inf anywhere makes the row NaN */
            for (int bad = 0; bad < 2; bad++) {
                s[at] = bad ? nan : inf;
                softmax_of(cols, s, a);
                for (int64_t c = 0; c < cols; c++)
                    assert_true(isnan(a[c]) && !all_poison(&a[c], sizeof(real)));
            }
            s[at] = -inf;
        }
    }
}

/* Equal scores: equal weights, exact for powers of two. */
static void test_softmax_of_equal_scores(void **state) {
    (void)state;
    real s[64], a[64];
    for (int c = 0; c < 64; c++)
        s[c] = (real)-7.25;
    softmax_of(64, s, a);
    for (int c = 0; c < 64; c++)
        assert_true(a[c] == (real)0.015625);
}

static void test_softmax_in_place_has_the_same_bits(void **state) {
    (void)state;
    enum { ROWS = 13, COLS = 67, STRIDE = 71 };
    real *s = random_matrix(ROWS, COLS, STRIDE, 1), *a = poisoned(ROWS * COLS);
    assert_ok(REAL(attn_softmax)(NULL, ROWS, COLS, s, STRIDE, a, COLS));
    assert_ok(REAL(attn_softmax)(NULL, ROWS, COLS, s, STRIDE, s, STRIDE));
    for (int r = 0; r < ROWS; r++) {
        assert_same_bits(s + r * STRIDE, a + r * COLS, COLS);
        if (r + 1 < ROWS)
            assert_untouched(s + r * STRIDE + COLS, STRIDE - COLS);
    }
    free(s);
    free(a);
}

/* ---- Sizes of 0 -------------------------------------------------------------------------------------------------- */

static void test_empty(void **state) {
    (void)state;
    const int64_t ids[] = {0, 0, 0};
    real one[1];
    memset(one, 0xff, sizeof one);
    assert_ok(REAL(attn_embed)(NULL, 0, 0, 5, NULL, NULL, 5, NULL, 5));
    assert_ok(REAL(attn_embed)(NULL, 0, 7, 5, NULL, one, 5, one, 5));
    assert_ok(REAL(attn_embed)(NULL, 3, 7, 0, ids, NULL, 0, NULL, INT64_MAX));
    assert_ok(REAL(attn_add)(NULL, 0, 5, NULL, 5, NULL, 5, NULL, 5));
    assert_ok(REAL(attn_add)(NULL, 5, 0, NULL, 0, NULL, INT64_MAX, NULL, 0));
    assert_ok(REAL(attn_softmax)(NULL, 0, 5, NULL, 5, NULL, 5));
    assert_ok(REAL(attn_softmax)(NULL, 5, 0, NULL, 0, NULL, INT64_MAX));
    assert_untouched(one, 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_embed),
        cmocka_unit_test(test_embed_copies_bits),
        cmocka_unit_test(test_add),
        cmocka_unit_test(test_add_to_itself),
        cmocka_unit_test(test_softmax),
        cmocka_unit_test(test_softmax_of_large_scores),
        cmocka_unit_test(test_softmax_edges),
        cmocka_unit_test(test_softmax_of_equal_scores),
        cmocka_unit_test(test_softmax_in_place_has_the_same_bits),
        cmocka_unit_test(test_empty),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
