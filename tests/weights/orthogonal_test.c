/* Orthogonal matrices: how orthogonal, how random, the same bits; what fails and leaves nothing behind. */
#include "weights_test.h"

/* ---- Orthogonality ----------------------------------------------------------------------------------------------- */

/* W^T W of a tall or square W, W W^T of a wide one, is gain^2 I within gain^2 20 eps sqrt(max(rows, cols)). */
static void check_orthogonal(int64_t rows, int64_t cols, const real *w, int64_t stride, long double gain) {
    bool wide = rows <= cols;
    int64_t count = smaller(rows, cols), length = larger(rows, cols);
    long double bound = 20 * EPS * sqrtl(length) * gain * gain;
    for (int64_t p = 0; p < count; p++)
        for (int64_t q = p; q < count; q++) {
            long double sum = 0;
            for (int64_t i = 0; i < length; i++)
                sum +=
                    (long double)w[wide ? p * stride + i : i * stride + p] * w[wide ? q * stride + i : i * stride + q];
            assert_near(sum, p == q ? gain * gain : 0, bound);
        }
}

static void check_shape(int64_t rows, int64_t cols, int64_t stride, double gain, uint64_t seed) {
    real *w = poisoned(matrix_extent(rows, cols, stride));
    assert_ok(REAL(attn_orthogonal)(NULL, rows, cols, gain, seed, 1, w, stride));
    assert_rows_only(w, rows, cols, stride);
    check_orthogonal(rows, cols, w, stride, (real)gain);
    free(w);
}

static void test_orthogonal(void **state) {
    (void)state;
    static const int64_t shapes[][3] = {{1, 1, 1},     {1, 7, 7},       {7, 1, 1},     {2, 2, 3},
                                        {5, 3, 3},     {3, 5, 11},      {31, 31, 31},  {37, 101, 103},
                                        {101, 37, 41}, {127, 127, 131}, {257, 61, 61}, {61, 257, 257}};
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
        for (uint64_t seed = 0; seed < 3; seed++)
            check_shape(shapes[s][0], shapes[s][1], shapes[s][2], 1, seed);
    check_shape(29, 13, 17, 2.5, 4);
    check_shape(13, 29, 29, 0.1, 4);
    check_shape(13, 13, 13, 0, 4);
}

static void test_large(void **state) {
    (void)state;
    check_shape(1024, 1024, 1024, 1, 1);
    check_shape(2053, 401, 409, 1, 1);
    check_shape(401, 2053, 2053, 1, 1);
}

/* As G(i, j) is number j l + i, a tall matrix is the transpose of the wide one. */
static void test_tall_is_wide_transposed(void **state) {
    (void)state;
    enum { LONG = 53, SHORT = 19 };
    real *tall = poisoned(LONG * SHORT), *wide = poisoned(LONG * SHORT);
    assert_ok(REAL(attn_orthogonal)(NULL, LONG, SHORT, 1, 3, 1, tall, SHORT));
    assert_ok(REAL(attn_orthogonal)(NULL, SHORT, LONG, 1, 3, 1, wide, LONG));
    for (int i = 0; i < LONG; i++)
        for (int j = 0; j < SHORT; j++)
            assert_same_bits(&tall[i * SHORT + j], &wide[j * LONG + i], 1);
    free(tall);
    free(wide);
}

/* W and the G it comes from: G = Q R with a positive diagonal of R, so that W G (wide) is lower triangular with a
 * positive diagonal. */
static void test_signs_of_r(void **state) {
    (void)state;
    enum { LONG = 23, SHORT = 17 };
    real *wide = poisoned(LONG * SHORT), *g = poisoned(LONG * SHORT);
    assert_ok(REAL(attn_orthogonal)(NULL, SHORT, LONG, 1, 8, 5, wide, LONG));
    assert_ok(REAL(attn_random_normal)(NULL, SHORT, LONG, 0, 1, 8, 5, g, LONG)); /* row j is column j of G */
    for (int i = 0; i < SHORT; i++)
        for (int j = 0; j < SHORT; j++) {
            long double r = 0; /* R(i, j) */
            for (int c = 0; c < LONG; c++)
                r += (long double)wide[i * LONG + c] * g[j * LONG + c];
            if (i == j && !(r > 0.01L))
                fail_msg("R(%d, %d) is %Lg", i, i, r);
            if (i > j)
                assert_near(r, 0, 100 * EPS);
        }
    free(wide);
    free(g);
}

/* ---- Haar -------------------------------------------------------------------------------------------------------- */

static long double share_of_angle(long double angle) {
    const long double pi = 3.14159265358979323846L;
    return (angle + pi) / (2 * pi);
}

/* Orthogonal matrices of two rows: as many turns as reflections, by angles that are uniform. */
static void test_two_by_two(void **state) {
    (void)state;
    enum { MATRICES = 2048 };
    long double *angle = wide_alloc(MATRICES);
    int turns = 0;
    for (int m = 0; m < MATRICES; m++) {
        real w[4];
        assert_ok(REAL(attn_orthogonal)(NULL, 2, 2, 1, 17, (uint64_t)m, w, 2));
        angle[m] = atan2l(w[1], w[0]);
        turns += w[0] * w[3] - w[1] * w[2] > 0;
    }
    assert_true(distance_from(angle, MATRICES, share_of_angle) < 1.95L); /* one of 1000 exceeds that */
    assert_near(turns, MATRICES / 2.0L, 4 * sqrtl(MATRICES) / 2);
    free(angle);
}

/* Of a Haar matrix of n rows: trace with mean 0 and variance 1, whatever n; w_ii^2 with mean 1/n. Without the signs the
 * trace's mean is far off. */
static void test_traces(void **state) {
    (void)state;
    enum { MATRICES = 1000, N = 5 };
    long double traces = 0, squares = 0, diagonal = 0;
    for (int m = 0; m < MATRICES; m++) {
        real w[N * N];
        long double trace = 0;
        assert_ok(REAL(attn_orthogonal)(NULL, N, N, 1, 23, (uint64_t)m, w, N));
        for (int i = 0; i < N; i++) {
            trace += w[i * N + i];
            diagonal += (long double)w[i * N + i] * w[i * N + i];
        }
        traces += trace;
        squares += trace * trace;
    }
    assert_near(traces / MATRICES, 0, 4 / sqrtl(MATRICES));
    assert_near(squares / MATRICES, 1, 4 * sqrtl(2) / sqrtl(MATRICES));
    assert_near(diagonal / MATRICES / N, 1.0L / N, 0.015L);
}

/* ---- Bits -------------------------------------------------------------------------------------------------------- */

static void test_bits_do_not_depend_on_threads(void **state) {
    (void)state;
    enum { ROWS = 307, COLS = 211 };
    real *first = poisoned(ROWS * COLS), *w = poisoned(ROWS * COLS);
    for (int threads = 1; threads <= 4; threads++) {
        const attn_context context = threads_context(threads);
        assert_ok(REAL(attn_orthogonal)(&context, ROWS, COLS, 1, 3, 1, threads == 1 ? first : w, COLS));
        if (threads > 1)
            assert_same_bits(first, w, ROWS * COLS);
    }
    free(first);
    free(w);
}

/* ---- Failures ---------------------------------------------------------------------------------------------------- */

static void test_bad_input(void **state) {
    (void)state;
    real w[12];
    memset(w, 0xff, sizeof w);
    assert_ok(REAL(attn_orthogonal)(NULL, 0, 4, 1, 0, 0, NULL, 4));
    assert_ok(REAL(attn_orthogonal)(NULL, 4, 0, 1, 0, 0, NULL, 0));
    assert_refused(ATTN_ERR_NULL, "w is NULL", REAL(attn_orthogonal)(NULL, 3, 4, 1, 0, 0, NULL, 4));
    assert_refused(ATTN_ERR_SIZE, "rows -1 is below 0", REAL(attn_orthogonal)(NULL, -1, 4, 1, 0, 0, w, 4));
    assert_refused(ATTN_ERR_SIZE, "cols -1 is below 0", REAL(attn_orthogonal)(NULL, 3, -1, 1, 0, 0, w, 4));
    assert_refused(ATTN_ERR_STRIDE, "w: row stride 3 is below the row size 4",
                   REAL(attn_orthogonal)(NULL, 3, 4, 1, 0, 0, w, 3));
    assert_int_equal(REAL(attn_orthogonal)(NULL, 3, 4, -0.5, 0, 0, w, 4), ATTN_ERR_VALUE);
    assert_non_null(strstr(attn_last_error(), "gain -0.5 is outside 0 .. "));
    assert_int_equal(REAL(attn_orthogonal)(NULL, 3, 4, NAN, 0, 0, w, 4), ATTN_ERR_VALUE);
    assert_refused(ATTN_ERR_OVERFLOW, "cols 3000000000 does not fit the integer of LAPACK",
                   REAL(attn_orthogonal)(NULL, 1, INT64_C(3000000000), 1, 0, 0, w, INT64_C(3000000000)));
    assert_refused(ATTN_ERR_OVERFLOW, "the workspace for rows 20000000 does not fit the integer of LAPACK",
                   REAL(attn_orthogonal)(NULL, 20000000, 30000000, 1, 0, 0, w, 30000000));
    assert_untouched(w, 12);
}

static attn_status make(const attn_context *context, real *w) {
    return REAL(attn_orthogonal)(context, 300, 257, 1, 3, 1, w, 257);
}

/* Every way to fail leaves w as it was and no memory behind. */
static void check_failure(real *w, attn_context *context, counting_allocator *allocator, attn_status status,
                          const char *sentence) {
    assert_int_equal(make(context, w), status);
    assert_non_null(strstr(attn_last_error(), sentence));
    assert_untouched(w, 300 * 257);
    assert_int_equal(allocator->live, 0);
    assert_int_equal(allocator->live_size, 0);
}

static void test_failures_write_nothing(void **state) {
    (void)state;
    real *w = poisoned(300 * 257);
    counting_allocator allocator = {.fail_at = 0};
    attn_context context = counting_context(&allocator);
    context.threads = 2;
    check_failure(w, &context, &allocator, ATTN_ERR_NOMEM, "the allocator has no ");
    trap_lapacke("geqrf", 0, -4);
    check_failure(w, &context, &allocator, ATTN_ERR_LAPACK, "geqrf refused its argument 4");
    trap_lapacke("orgqr", 0, -1010);
    check_failure(w, &context, &allocator, ATTN_ERR_NOMEM, "orgqr has no memory");
    trap_lapacke(NULL, 0, 0);
    int failure = 7;
    context.parallel_for = failing_parallel_for;
    context.parallel_data = &failure;
    check_failure(w, &context, &allocator, ATTN_ERR_THREADS, "parallel_for returned 7");
    failure = 0;
    allocator.calls = 0;
    allocator.fail_at = -1;
    assert_ok(make(&context, w));
    assert_int_equal(allocator.calls, 1);
    assert_int_equal(allocator.live, 0);
    check_orthogonal(300, 257, w, 257, 1);
    free(w);
}

/* Any argument: the large ones. */
int main(int argc, char **argv) {
    const struct CMUnitTest large[] = {cmocka_unit_test(test_large)};
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_orthogonal), cmocka_unit_test(test_tall_is_wide_transposed),
        cmocka_unit_test(test_signs_of_r), cmocka_unit_test(test_two_by_two),
        cmocka_unit_test(test_traces),     cmocka_unit_test(test_bits_do_not_depend_on_threads),
        cmocka_unit_test(test_bad_input),  cmocka_unit_test(test_failures_write_nothing),
    };
    (void)argv;
    return argc > 1 ? cmocka_run_group_tests(large, NULL, NULL) : cmocka_run_group_tests(tests, NULL, NULL);
}
