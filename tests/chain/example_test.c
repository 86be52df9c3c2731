/* The worked example, all ten matrices to four decimals, and what it teaches. */
#include "worked_example.h"

#include <math.h>

/* Double: what is printed to four decimals. Float: half of the last decimal and its own rounding. */
static void assert_printed(const char *name, const real *got, const double *wanted, int count) {
    for (int i = 0; i < count; i++) {
        double tolerance = sizeof(real) == 4 ? 0.5e-4 + 4 * (double)FLT_EPSILON * fabs(wanted[i]) : 0.5e-4;
        if (!(fabs((double)got[i] - wanted[i]) <= tolerance))
            fail_msg("%s[%d] is %.7f, the example has %.4f", name, i, (double)got[i], wanted[i]);
    }
}

static void test_ten_matrices(void **state) {
    (void)state;
    static const double e[] = {3, 1, 2, 2, 2, 4};
    static const double p[] = {0.0000, 1.0000, 0.8415, 0.5403, 0.9093, -0.4161};
    static const double x[] = {3.0000, 2.0000, 2.8415, 2.5403, 2.9093, 3.5839};
    static const double q[] = {-0.2000, 1.7000, 0.3274, 1.2872, 1.1215, 0.8264};
    static const double k[] = {1.6000, 3.1000, 1.4509, 3.8406, 1.3872, 5.3083};
    static const double v[] = {2.2000, 0.9000, 1.8254, 1.6276, 1.4758, 2.8460};
    static const double qk[] = {4.9500, 6.2388, 8.7467, 4.5140, 5.4184, 7.2868, 4.3564, 4.8011, 5.9428};
    static const double s[] = {3.5002, 4.4115, 6.1849, 3.1919, 3.8314, 5.1526, 3.0804, 3.3949, 4.2022};
    static const double a[] = {0.0551, 0.1371, 0.8078, 0.1000, 0.1896, 0.7104, 0.1838, 0.2518, 0.5644};
    static const double z[] = {1.5636, 2.5716, 1.6145, 2.4204, 1.6969, 2.1815};
    example_matrices m = run_example(0, example_ids);
    assert_printed("E", m.e, e, TOKENS * DIM);
    assert_printed("P", m.p, p, TOKENS * DIM);
    assert_printed("X", m.x, x, TOKENS * DIM);
    assert_printed("Q", m.q, q, TOKENS * DIM);
    assert_printed("K", m.k, k, TOKENS * DIM);
    assert_printed("V", m.v, v, TOKENS * DIM);
    assert_printed("QK", m.qk, qk, TOKENS * TOKENS);
    assert_printed("S", m.s, s, TOKENS * TOKENS);
    assert_printed("A", m.a, a, TOKENS * TOKENS);
    assert_printed("Z", m.z, z, TOKENS * DIM);
}

/* Softmax of row 0 of QK times a factor. */
static void weights_of_row_0(const example_matrices *m, double factor, real *weights) {
    real row[TOKENS];
    for (int j = 0; j < TOKENS; j++)
        row[j] = m->qk[j] * (real)factor;
    memset(weights, 0xff, TOKENS * sizeof *weights);
    assert_ok(REAL(attn_softmax)(NULL, 1, TOKENS, row, TOKENS, weights, TOKENS));
}

static void test_scale_softens_the_weights(void **state) {
    (void)state;
    static const double scaled[] = {0.055, 0.137, 0.808}, unscaled[] = {0.020, 0.074, 0.906};
    example_matrices m = run_example(0, example_ids);
    real weights[TOKENS];
    weights_of_row_0(&m, 1, weights);
    for (int j = 0; j < TOKENS; j++) {
        assert_near(m.a[j], scaled[j], 0.5e-3L);
        assert_near(weights[j], unscaled[j], 0.5e-3L);
    }
}

/* The same through the traced call, by its scale. */
static void test_scale_of_1_is_unscaled(void **state) {
    (void)state;
    real *table = example_table();
    REAL(attn_trace) trace = example_trace(table);
    example_matrices m;
    example_want_all(&trace, &m);
    trace.flags = ATTN_TRACE_HAS_SCALE;
    trace.scale = 1;
    assert_ok(REAL(attn_chain_trace)(NULL, &trace));
    assert_same_bits(m.s, m.qk, TOKENS * TOKENS);
    assert_near(m.a[2], 0.906, 0.5e-3L);
    free(table);
}

static void test_large_scores_select_one_key(void **state) {
    (void)state;
    example_matrices m = run_example(0, example_ids);
    real weights[TOKENS];
    weights_of_row_0(&m, 8, weights);
    assert_near(weights[0], 0, 0.5e-6L);
    assert_near(weights[1], 0, 0.5e-6L);
    assert_near(weights[2], 1, 0.5e-6L);
}

/* The derivative a (1 - a) of a weight vanishes as the row becomes one-hot. */
static void test_gradient_vanishes(void **state) {
    (void)state;
    example_matrices m = run_example(0, example_ids);
    double before = 1;
    for (double factor = 0.5; factor <= 8; factor *= 2) {
        real weights[TOKENS];
        weights_of_row_0(&m, factor, weights);
        double largest = 0;
        for (int j = 0; j < TOKENS; j++)
            largest = fmax(largest, (double)weights[j] * (1 - (double)weights[j]));
        assert_true(largest < before);
        before = largest;
    }
    assert_true(before < 1e-6);
}

static void test_order_matters_only_with_positions(void **state) {
    (void)state;
    static const int order[TOKENS] = {2, 0, 1};
    int64_t permuted_ids[TOKENS];
    for (int t = 0; t < TOKENS; t++)
        permuted_ids[t] = example_ids[order[t]];
    for (int positions = 0; positions <= 1; positions++) {
        uint64_t flags = positions ? 0 : ATTN_TRACE_NO_POSITIONS;
        example_matrices plain = run_example(flags, example_ids);
        example_matrices permuted = run_example(flags, permuted_ids);
        long double largest = 0;
        for (int t = 0; t < TOKENS; t++)
            for (int c = 0; c < DIM; c++) {
                long double change = absolute((long double)permuted.z[t * DIM + c] - plain.z[order[t] * DIM + c]);
                assert_true(change >= 0);
                largest = change > largest ? change : largest;
            }
        /* the bound of attention: (3 + 1.5 max|s|) eps max|V|, max|s| below 16, max|V| below 4.5 */
        if (positions)
            assert_true(largest > 0.01L);
        else
            assert_true(largest <= (3 + 1.5L * 16) * EPS * 4.5L);
    }
}

static void test_no_positions_is_embedding_alone(void **state) {
    (void)state;
    example_matrices m = run_example(ATTN_TRACE_NO_POSITIONS, example_ids);
    assert_same_bits(m.x, m.e, TOKENS * DIM);
    for (int i = 0; i < TOKENS * DIM; i++)
        assert_true(m.p[i] == 0);
}

static void test_qk_is_not_symmetric(void **state) {
    (void)state;
    example_matrices m = run_example(0, example_ids);
    assert_true(absolute((long double)m.qk[1] - m.qk[TOKENS]) > 1);
}

/* The standard deviation of q . k grows as sqrt(d_k) for independent unit-variance q and k, and 1/sqrt(d_k) undoes it.
 */
static void test_spread_of_dot_products(void **state) {
    (void)state;
    enum { LEN = 256 };
    for (int64_t d_k = 4; d_k <= 256; d_k *= 4) {
        real *q = random_numbers(LEN * d_k, 1), *k = random_numbers(LEN * d_k, 2), *s = poisoned(LEN * LEN);
        for (int scaled = 0; scaled <= 1; scaled++) {
            assert_ok(
                REAL(attn_scores)(NULL, LEN, LEN, d_k, q, d_k, k, d_k, scaled ? 1 / sqrt((double)d_k) : 1, s, LEN));
            double sum = 0, squares = 0;
            for (int i = 0; i < LEN * LEN; i++) {
                sum += (double)s[i];
                squares += (double)s[i] * (double)s[i];
            }
            double mean = sum / (LEN * LEN);
            double deviation = sqrt(squares / (LEN * LEN) - mean * mean);
            double wanted = scaled ? 1 : sqrt((double)d_k);
            assert_near(deviation / wanted, 1, 0.1L);
        }
        free(q);
        free(k);
        free(s);
    }
}

/* Z has the shape of X when d_v = d_model: as many numbers, and none beyond. */
static void test_result_has_the_shape_of_the_input(void **state) {
    (void)state;
    real *table = example_table(), *x = poisoned(2 * TOKENS * DIM), *z = poisoned(2 * TOKENS * DIM);
    REAL(attn_trace) trace = example_trace(table);
    trace.x = x;
    trace.z = z;
    assert_ok(REAL(attn_chain_trace)(NULL, &trace));
    assert_rows_only(x, TOKENS, DIM, DIM);
    assert_rows_only(z, TOKENS, DIM, DIM);
    assert_untouched(x + TOKENS * DIM, TOKENS * DIM);
    assert_untouched(z + TOKENS * DIM, TOKENS * DIM);
    free(table);
    free(x);
    free(z);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ten_matrices),
        cmocka_unit_test(test_scale_softens_the_weights),
        cmocka_unit_test(test_scale_of_1_is_unscaled),
        cmocka_unit_test(test_large_scores_select_one_key),
        cmocka_unit_test(test_gradient_vanishes),
        cmocka_unit_test(test_order_matters_only_with_positions),
        cmocka_unit_test(test_no_positions_is_embedding_alone),
        cmocka_unit_test(test_qk_is_not_symmetric),
        cmocka_unit_test(test_spread_of_dot_products),
        cmocka_unit_test(test_result_has_the_shape_of_the_input),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
