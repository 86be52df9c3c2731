/* Singular values of matrices that were made from them, and of any against an oracle; norms and ranks; what fails. */
#include "weights_test.h"

static real *values_of(int64_t rows, int64_t cols, const real *a, int64_t stride, attn_spectrum *spectrum) {
    real *s = poisoned(smaller(rows, cols));
    *spectrum = (attn_spectrum)ATTN_SPECTRUM_INIT;
    assert_ok(REAL(attn_spectrum)(NULL, rows, cols, a, stride, s, spectrum));
    assert_int_equal(spectrum->struct_size, sizeof *spectrum);
    assert_int_equal(spectrum->count, smaller(rows, cols));
    return s;
}

/* What the singular values `wanted` say, in long double; the matrix has `rank` of them that are not 0. */
static void check_spectrum(int64_t rows, int64_t cols, const attn_spectrum *got, const long double *wanted,
                           int64_t rank) {
    int64_t count = smaller(rows, cols);
    long double sum = 0, squares = 0, entropy = 0, s_1 = wanted[0];
    long double bound = 10 * EPS * sqrtl(larger(rows, cols)); /* of a singular value, relative to the largest */
    for (int64_t k = 0; k < count; k++) {
        sum += wanted[k];
        squares += wanted[k] / s_1 * (wanted[k] / s_1);
    }
    for (int64_t k = 0; k < count; k++)
        entropy -= wanted[k] > 0 ? wanted[k] / sum * logl(wanted[k] / sum) : 0;
    assert_near(got->norm, s_1, bound * s_1);
    assert_near(got->frobenius, s_1 * sqrtl(squares), bound * s_1 * sqrtl(count));
    assert_near(got->stable_rank, squares, 3 * bound * count);
    /* each share is off by at most `bound`, and shares of 0 by as much */
    assert_near(logl(got->effective_rank), entropy, count * bound * (2 + absolute(logl(bound))));
    assert_int_equal(got->rank, rank);
    long double least = wanted[count - 1] / s_1;
    if (least > 4 * bound)
        assert_near(got->condition, 1 / least, 2 * bound / least / least);
    else
        assert_true(got->condition > 0.5 / (double)(least + bound));
}

static void check_values(int64_t rows, int64_t cols, const real *got, const long double *wanted) {
    long double tolerance = 10 * EPS * sqrtl(larger(rows, cols)) * wanted[0];
    for (int64_t k = 0; k < smaller(rows, cols); k++) {
        assert_near(got[k], wanted[k], tolerance);
        assert_true(k == 0 || got[k] <= got[k - 1]);
    }
}

typedef long double singular_value(int64_t k, int64_t count);

static long double equal(int64_t k, int64_t count) {
    (void)k;
    (void)count;
    return 3;
}

static long double linear(int64_t k, int64_t count) {
    return (long double)(count - k);
}

static long double graded(int64_t k, int64_t count) {
    (void)count;
    return ldexpl(1, -(int)k); /* far below eps at the end */
}

static long double deficient(int64_t k, int64_t count) {
    return k < (count + 1) / 2 ? 1 + 1 / (1 + (long double)k) : 0;
}

static long double tiny(int64_t k, int64_t count) {
    return linear(k, count) * 1e-30L;
}

static long double huge(int64_t k, int64_t count) {
    return linear(k, count) * 1e30L;
}

static void check_made(int64_t rows, int64_t cols, int64_t stride, singular_value *value, uint64_t stream) {
    int64_t count = smaller(rows, cols), rank = 0;
    long double *wanted = wide_alloc(count);
    for (int64_t k = 0; k < count; k++) {
        wanted[k] = value(k, count);
        /* those of graded matrices near the limit are left out by choice of the shapes */
        rank += wanted[k] / wanted[0] > larger(rows, cols) * EPS;
    }
    real *a = matrix_with(rows, cols, stride, wanted, stream);
    attn_spectrum spectrum;
    real *s = values_of(rows, cols, a, stride, &spectrum);
    check_values(rows, cols, s, wanted);
    check_spectrum(rows, cols, &spectrum, wanted, rank);
    free(wanted);
    free(a);
    free(s);
}

static void test_known_singular_values(void **state) {
    (void)state;
    static const int64_t shapes[][3] = {{1, 1, 1},    {1, 9, 9},    {9, 1, 1},      {2, 3, 5},    {17, 17, 19},
                                        {61, 67, 67}, {67, 61, 71}, {31, 257, 257}, {257, 31, 31}};
    static singular_value *const values[] = {equal, linear, graded, deficient, tiny, huge};
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
        for (size_t v = 0; v < sizeof values / sizeof *values; v++)
            check_made(shapes[s][0], shapes[s][1], shapes[s][2], values[v], s);
}

static void test_large(void **state) {
    (void)state;
    static singular_value *const values[] = {equal, linear, graded, deficient};
    for (size_t v = 0; v < sizeof values / sizeof *values; v++) {
        check_made(1021, 1021, 1021, values[v], 1);
        check_made(2053, 401, 409, values[v], 2);
        check_made(401, 2053, 2053, values[v], 3);
    }
}

static void test_oracle(void **state) {
    (void)state;
    static const int64_t shapes[][2] = {{5, 7}, {23, 23}, {41, 13}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        int64_t rows = shapes[i][0], cols = shapes[i][1];
        real *a = random_matrix(rows, cols, cols + 3, i);
        long double *wide = wide_copy(rows, cols, a, cols + 3), *wanted = wide_singular_values(rows, cols, wide);
        attn_spectrum spectrum;
        real *s = values_of(rows, cols, a, cols + 3, &spectrum);
        check_values(rows, cols, s, wanted);
        check_spectrum(rows, cols, &spectrum, wanted, smaller(rows, cols));
        free(a);
        free(wide);
        free(wanted);
        free(s);
    }
}

static void test_small_numbers(void **state) {
    (void)state;
    const real a[] = {3, 0, 4, 5};
    attn_spectrum spectrum;
    real *s = values_of(2, 2, a, 2, &spectrum);
    assert_near(s[0], 3 * sqrtl(5), 20 * EPS);
    assert_near(s[1], sqrtl(5), 20 * EPS);
    assert_near(spectrum.condition, 3, 50 * EPS);
    assert_near(spectrum.effective_rank, 4 / powl(3, 0.75L), 50 * EPS); /* shares 3/4 and 1/4 */
    assert_near(spectrum.stable_rank, 10.0L / 9, 50 * EPS);
    free(s);
}

/* Attention matrices at both ends: every row the mean, and every row one key of its own. */
static void test_attention_matrices(void **state) {
    (void)state;
    enum { LEN = 16 };
    real uniform[LEN * LEN], one_hot[LEN * LEN] = {0};
    for (int i = 0; i < LEN; i++) {
        one_hot[i * LEN + (5 * i + 3) % LEN] = 1;
        for (int j = 0; j < LEN; j++)
            uniform[i * LEN + j] = (real)1 / LEN;
    }
    attn_spectrum spectrum;
    free(values_of(LEN, LEN, uniform, LEN, &spectrum));
    assert_near(spectrum.norm, 1, 20 * EPS);
    assert_near(spectrum.effective_rank, 1, 4e4L * EPS);
    assert_near(spectrum.stable_rank, 1, 20 * EPS);
    assert_int_equal(spectrum.rank, 1);
    free(values_of(LEN, LEN, one_hot, LEN, &spectrum));
    assert_near(spectrum.effective_rank, LEN, 20 * LEN * EPS);
    assert_near(spectrum.stable_rank, LEN, 20 * LEN * EPS);
    assert_near(spectrum.condition, 1, 20 * EPS);
    assert_int_equal(spectrum.rank, LEN);
}

static void test_zeros_and_empty(void **state) {
    (void)state;
    const real zeros[6] = {0};
    attn_spectrum spectrum;
    real *s = values_of(2, 3, zeros, 3, &spectrum);
    assert_true(s[0] == 0 && s[1] == 0);
    assert_true(spectrum.norm == 0 && spectrum.frobenius == 0 && spectrum.effective_rank == 0 &&
                spectrum.stable_rank == 0);
    assert_true(isinf(spectrum.condition));
    assert_int_equal(spectrum.rank, 0);
    free(s);
    free(values_of(0, 3, NULL, 3, &spectrum));
    assert_true(spectrum.norm == 0 && spectrum.condition == 0 && spectrum.effective_rank == 0);
    free(values_of(3, 0, NULL, 0, &spectrum));
    assert_int_equal(spectrum.count, 0);
}

/* Either result alone is the same; a spectrum of a larger struct keeps what is beyond. */
static void test_one_result_alone(void **state) {
    (void)state;
    enum { ROWS = 11, COLS = 7 };
    real *a = random_matrix(ROWS, COLS, COLS, 1), *alone = poisoned(COLS);
    attn_spectrum spectrum, other = ATTN_SPECTRUM_INIT;
    real *s = values_of(ROWS, COLS, a, COLS, &spectrum);
    assert_ok(REAL(attn_spectrum)(NULL, ROWS, COLS, a, COLS, alone, NULL));
    assert_same_bits(s, alone, COLS);
    assert_ok(REAL(attn_spectrum)(NULL, ROWS, COLS, a, COLS, NULL, &other));
    assert_memory_equal(&spectrum, &other, sizeof other);
    const attn_context context = threads_context(4);
    assert_ok(REAL(attn_spectrum)(&context, ROWS, COLS, a, COLS, alone, NULL));
    assert_same_bits(s, alone, COLS);
    free(a);
    free(s);
    free(alone);
}

/* ---- Failures ---------------------------------------------------------------------------------------------------- */

static void test_bad_input(void **state) {
    (void)state;
    real a[12], s[3];
    attn_spectrum spectrum = ATTN_SPECTRUM_INIT, before = spectrum;
    static attn_spectrum far_from_the_stack = ATTN_SPECTRUM_INIT;
    memset(s, 0xff, sizeof s);
    for (int i = 0; i < 12; i++)
        a[i] = (real)i;
#define SPECTRUM(rows, cols, matrix, stride) REAL(attn_spectrum)(NULL, rows, cols, matrix, stride, s, &spectrum)
    assert_refused(ATTN_ERR_NULL, "a is NULL", SPECTRUM(3, 4, NULL, 4));
    assert_refused(ATTN_ERR_NULL, "singular_values and spectrum are both NULL",
                   REAL(attn_spectrum)(NULL, 3, 4, a, 4, NULL, NULL));
    assert_refused(ATTN_ERR_SIZE, "rows -1 is below 0", SPECTRUM(-1, 4, a, 4));
    assert_refused(ATTN_ERR_SIZE, "cols -1 is below 0", SPECTRUM(3, -1, a, 4));
    assert_refused(ATTN_ERR_STRIDE, "a: row stride 2 is below the row size 4", SPECTRUM(3, 4, a, 2));
    assert_refused(ATTN_ERR_OVERFLOW, "rows 3000000000 does not fit the integer of LAPACK",
                   REAL(attn_spectrum)(NULL, INT64_C(3000000000), 1, a, 1, NULL, &far_from_the_stack));
    assert_refused(ATTN_ERR_OVERLAP, "singular_values starts where a starts",
                   REAL(attn_spectrum)(NULL, 3, 4, a, 4, a, NULL));
    assert_refused(ATTN_ERR_OVERLAP, "singular_values overlaps a", REAL(attn_spectrum)(NULL, 3, 4, a, 4, a + 2, NULL));
    union {
        attn_spectrum spectrum;
        real values[16];
    } both = {.spectrum = ATTN_SPECTRUM_INIT};
    assert_refused(ATTN_ERR_OVERLAP, "singular_values overlaps spectrum",
                   REAL(attn_spectrum)(NULL, 3, 4, a, 4, both.values + 2, &both.spectrum));
    assert_refused(ATTN_ERR_OVERLAP, "spectrum starts where a starts",
                   REAL(attn_spectrum)(NULL, 3, 4, both.values, 4, s, &both.spectrum));
    a[6] = NAN;
    a[11] = INFINITY;
    assert_refused(ATTN_ERR_VALUE, "a[1][2] is nan", SPECTRUM(3, 4, a, 4));
    a[6] = 0;
    assert_refused(ATTN_ERR_VALUE, "a[2][3] is inf", SPECTRUM(3, 4, a, 4));
    for (int i = 0; i < 12; i++)
        a[i] = REAL_MAX;
    assert_int_equal(SPECTRUM(3, 4, a, 4), ATTN_ERR_VALUE);
    assert_non_null(strstr(attn_last_error(), "a: its norm is beyond the range of"));
    assert_memory_equal(&spectrum, &before, sizeof spectrum);
    spectrum.struct_size = 8;
    assert_int_equal(SPECTRUM(3, 4, a, 4), ATTN_ERR_STRUCT_SIZE);
    spectrum.struct_size = sizeof spectrum + 8;
    assert_int_equal(SPECTRUM(3, 4, a, 4), ATTN_ERR_STRUCT_SIZE);
#undef SPECTRUM
    assert_untouched(s, 3);
}

/* Singular values that are in range and the root of whose squares is not, in double. */
static void test_frobenius_norm_at_the_end_of_the_range(void **state) {
    (void)state;
    enum { SIZE = 4 };
    real a[SIZE * SIZE] = {0}, s[SIZE];
    attn_spectrum spectrum = ATTN_SPECTRUM_INIT, before = spectrum;
    for (int i = 0; i < SIZE; i++)
        a[i * (SIZE + 1)] = REAL_MAX / 2 * (real)(1 + 0x1p-10);
    memset(s, 0xff, sizeof s);
    if (sizeof(real) == sizeof(float)) {
        assert_ok(REAL(attn_spectrum)(NULL, SIZE, SIZE, a, SIZE, s, &spectrum));
        assert_near(spectrum.frobenius / (double)REAL_MAX, 1 + 0x1p-10L, 20 * EPS);
        return;
    }
    assert_refused(ATTN_ERR_VALUE, "a: its Frobenius norm is beyond the range of double",
                   REAL(attn_spectrum)(NULL, SIZE, SIZE, a, SIZE, s, &spectrum));
    assert_untouched(s, SIZE);
    assert_memory_equal(&spectrum, &before, sizeof spectrum);
    assert_ok(REAL(attn_spectrum)(NULL, SIZE, SIZE, a, SIZE, s, NULL));
    assert_near(s[0] / (double)REAL_MAX, 0.5L + 0x1p-11L, 20 * EPS);
}

/* Ranks are no more than the singular values, to the last bit. */
static void test_ranks_of_equal_values(void **state) {
    (void)state;
    enum { MOST = 64 };
    static real a[MOST * MOST];
    for (int64_t size = 1; size <= MOST; size++) {
        memset(a, 0, sizeof a);
        for (int64_t i = 0; i < size; i++)
            a[i * (size + 1)] = 3;
        attn_spectrum spectrum = ATTN_SPECTRUM_INIT;
        assert_ok(REAL(attn_spectrum)(NULL, size, size, a, size, NULL, &spectrum));
        assert_int_equal(spectrum.rank, size);
        assert_true(spectrum.effective_rank <= (double)size && spectrum.effective_rank > (double)size * (1 - 1e-6));
        assert_true(spectrum.stable_rank <= (double)size && spectrum.stable_rank > (double)size * (1 - 1e-6));
    }
}

static void test_failures_write_nothing(void **state) {
    (void)state;
    enum { ROWS = 13, COLS = 11 };
    real *a = random_matrix(ROWS, COLS, COLS, 1), *s = poisoned(COLS);
    attn_spectrum spectrum = ATTN_SPECTRUM_INIT, before = spectrum;
    counting_allocator allocator = {.fail_at = 0};
    const attn_context context = counting_context(&allocator);
    static const struct {
        int info;
        attn_status status;
        const char *sentence;
    } failure[] = {
        {0, ATTN_ERR_NOMEM, "the allocator has no "},          {3, ATTN_ERR_LAPACK, "gesdd did not converge, info 3"},
        {-5, ATTN_ERR_LAPACK, "gesdd refused its argument 5"}, {-1010, ATTN_ERR_NOMEM, "gesdd has no memory"},
        {-1011, ATTN_ERR_NOMEM, "gesdd has no memory"},
    };
    for (size_t i = 0; i < sizeof failure / sizeof *failure; i++) {
        trap_lapacke(failure[i].info != 0 ? "gesdd" : NULL, 0, failure[i].info);
        assert_int_equal(REAL(attn_spectrum)(&context, ROWS, COLS, a, COLS, s, &spectrum), failure[i].status);
        assert_non_null(strstr(attn_last_error(), failure[i].sentence));
        assert_true(failure[i].info == 0 || strstr(attn_last_error(), "a: LAPACK's ") == attn_last_error());
        assert_untouched(s, COLS);
        assert_memory_equal(&spectrum, &before, sizeof spectrum);
        assert_int_equal(allocator.live, 0);
        assert_int_equal(allocator.live_size, 0);
    }
    trap_lapacke(NULL, 0, 0);
    allocator.calls = 0;
    allocator.fail_at = -1;
    assert_ok(REAL(attn_spectrum)(&context, ROWS, COLS, a, COLS, s, &spectrum));
    assert_int_equal(allocator.calls, 1);
    assert_int_equal(allocator.live, 0);
    free(a);
    free(s);
}

/* Any argument: the large ones. */
int main(int argc, char **argv) {
    const struct CMUnitTest large[] = {cmocka_unit_test(test_large)};
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_known_singular_values),
        cmocka_unit_test(test_oracle),
        cmocka_unit_test(test_small_numbers),
        cmocka_unit_test(test_attention_matrices),
        cmocka_unit_test(test_zeros_and_empty),
        cmocka_unit_test(test_one_result_alone),
        cmocka_unit_test(test_bad_input),
        cmocka_unit_test(test_frobenius_norm_at_the_end_of_the_range),
        cmocka_unit_test(test_ranks_of_equal_values),
        cmocka_unit_test(test_failures_write_nothing),
    };
    (void)argv;
    return argc > 1 ? cmocka_run_group_tests(large, NULL, NULL) : cmocka_run_group_tests(tests, NULL, NULL);
}
