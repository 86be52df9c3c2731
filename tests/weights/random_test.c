/* The generator: published and pinned numbers, the accuracy of its functions, independence of order, threads and
 * compiler, statistics; random matrices and initial weights made of it. */
#include "weights/random.h"

#include "weights_test.h"

/* ---- Bits -------------------------------------------------------------------------------------------------------- */

/* Number n of a stream by itself. */
static double number_of(attn_random_numbers *numbers, attn_random_stream stream, uint64_t n) {
    double group[ATTN_RANDOM_GROUP];
    numbers(stream, (int64_t)(n / ATTN_RANDOM_GROUP), group);
    return group[n % ATTN_RANDOM_GROUP];
}

/* The words of a block as far as uniforms show them: the upper 52 bits of each pair. */
static void check_block(uint64_t seed, uint64_t stream, uint64_t block, const uint32_t *word) {
    double group[ATTN_RANDOM_GROUP];
    attn_random_uniforms((attn_random_stream){seed, stream}, (int64_t)(block / ATTN_RANDOM_BLOCKS), group);
    for (int i = 0; i < 2; i++) {
        uint64_t bits = (uint64_t)word[2 * i + 1] << 32 | word[2 * i];
        double wanted = ((double)(bits >> 12) + 0.5) / 0x1p52;
        double got = group[block % ATTN_RANDOM_BLOCKS * 2 + (uint64_t)i];
        if (got != wanted)
            fail_msg("block %llx: number %d is %a, not %a", (unsigned long long)block, i, got, wanted);
    }
}

/* The known answers that come with Random123, the authors' library. */
static void test_published_words(void **state) {
    (void)state;
    check_block(0, 0, 0, (const uint32_t[]){0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
    check_block(UINT64_MAX, UINT64_MAX, UINT64_MAX, (const uint32_t[]){0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
    check_block(UINT64_C(0x299f31d0a4093822), UINT64_C(0x0370734413198a2e), UINT64_C(0x85a308d3243f6a88),
                (const uint32_t[]){0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
}

/* Pinned for good: whoever changes them changes everybody's weights. */
static void test_pinned_normals(void **state) {
    (void)state;
    static const struct {
        uint64_t seed, stream, n;
        double normal;
    } pinned[] = {
        {UINT64_C(0x0), UINT64_C(0x0), UINT64_C(0), -0x1.973628c131c08p-2},       /* -0.397668 */
        {UINT64_C(0x0), UINT64_C(0x0), UINT64_C(1), -0x1.3dd84ff91e70dp-2},       /* -0.310395 */
        {UINT64_C(0x0), UINT64_C(0x0), UINT64_C(2), 0x1.63083c830bea6p+0},        /* 1.386844 */
        {UINT64_C(0x1), UINT64_C(0x0), UINT64_C(0), -0x1.d1a253882cf6dp-4},       /* -0.113680 */
        {UINT64_C(0x0), UINT64_C(0x1), UINT64_C(0), -0x1.67918141f285p-2},        /* -0.351141 */
        {UINT64_C(0x2a), UINT64_C(0x7), UINT64_C(1000003), 0x1.48d1c32e82e9fp-1}, /* 0.642225 */
        {UINT64_C(0x123456789abcdef), UINT64_C(0xfedcba9876543210), UINT64_C(12345678901),
         0x1.1b6a6796e02a3p+0},                                                 /* 1.107092 */
        {UINT64_C(0x7ea), UINT64_C(0x3), UINT64_C(127), 0x1.46324b304452ap-2},  /* 0.318551 */
        {UINT64_C(0x7ea), UINT64_C(0x3), UINT64_C(128), -0x1.0ed3ea79c76d2p-1}, /* -0.528961 */
        {UINT64_C(0xffffffffffffffff), UINT64_C(0xffffffffffffffff), UINT64_C(9223372036854775806),
         -0x1.636dd4fb2057fp-5}, /* -0.043387 */
    };
    for (size_t i = 0; i < sizeof pinned / sizeof *pinned; i++) {
        double got =
            number_of(attn_random_normals, (attn_random_stream){pinned[i].seed, pinned[i].stream}, pinned[i].n);
        if (got != pinned[i].normal)
            fail_msg("number %zu: %a, not %a", i, got, pinned[i].normal);
    }
}

/* The same source compiled with other flags gives the same bits. */
attn_random_numbers other_uniforms_plain, other_normals_plain;
#ifdef WITH_FMA
attn_random_numbers other_uniforms_fma, other_normals_fma;
#endif

static void check_other(attn_random_numbers *numbers, attn_random_numbers *other) {
    for (int64_t group = 0; group < 2000; group++) {
        double a[ATTN_RANDOM_GROUP], b[ATTN_RANDOM_GROUP];
        const attn_random_stream stream = {(uint64_t)group % 7, (uint64_t)group % 5};
        numbers(stream, group, a);
        other(stream, group, b);
        assert_memory_equal(a, b, sizeof a);
    }
}

static void test_bits_do_not_depend_on_flags(void **state) {
    (void)state;
    check_other(attn_random_uniforms, other_uniforms_plain);
    check_other(attn_random_normals, other_normals_plain);
#ifdef WITH_FMA
    if (attn_isa_in_use() >= ATTN_ISA_AVX2) {
        check_other(attn_random_uniforms, other_uniforms_fma);
        check_other(attn_random_normals, other_normals_fma);
    }
#endif
}

/* Against the formula in long double; under valgrind that has 64 bits, which is enough for this bound too. */
static void test_accuracy_of_normals(void **state) {
    (void)state;
    const long double two_pi = 6.283185307179586476925286766559L;
    const attn_random_stream stream = {11, 3};
    for (int64_t group = 0; group < 400; group++) {
        double u[ATTN_RANDOM_GROUP], z[ATTN_RANDOM_GROUP];
        attn_random_uniforms(stream, group, u);
        attn_random_normals(stream, group, z);
        for (int i = 0; i < ATTN_RANDOM_GROUP; i += 2) {
            long double r = sqrtl(-2 * logl(u[i])), tolerance = 4 * DBL_EPSILON * r;
            assert_near(z[i], r * cosl(two_pi * u[i + 1]), tolerance);
            assert_near(z[i + 1], r * sinl(two_pi * u[i + 1]), tolerance);
        }
    }
}

/* ---- Matrices ---------------------------------------------------------------------------------------------------- */

typedef attn_status make_matrix(const attn_context *context, int64_t rows, int64_t cols, uint64_t stream, real *x,
                                int64_t stride);

static attn_status make_uniform(const attn_context *context, int64_t rows, int64_t cols, uint64_t stream, real *x,
                                int64_t stride) {
    return REAL(attn_random_uniform)(context, rows, cols, -2, 3, 5, stream, x, stride);
}

static attn_status make_normal(const attn_context *context, int64_t rows, int64_t cols, uint64_t stream, real *x,
                               int64_t stride) {
    return REAL(attn_random_normal)(context, rows, cols, 0.25, 1.5, 5, stream, x, stride);
}

/* Element (i, j) is number i cols + j, whatever the shape, the strides and the threads. */
static void check_places(make_matrix *make, attn_random_numbers *numbers, double offset, double factor) {
    static const int64_t shapes[][3] = {{1, 1, 1},   {3, 5, 7},       {1, 257, 257},
                                        {131, 2, 2}, {127, 129, 131}, {263, 521, 523}};
    const attn_random_stream stream = {5, 9};
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
        int64_t rows = shapes[s][0], cols = shapes[s][1], stride = shapes[s][2];
        for (int threads = 1; threads <= 4; threads++) {
            const attn_context context = threads_context(threads);
            real *x = poisoned(matrix_extent(rows, cols, stride));
            assert_ok(make(&context, rows, cols, 9, x, stride));
            assert_rows_only(x, rows, cols, stride);
            for (int64_t n = 0; n < rows * cols; n += n < 300 ? 1 : 37) {
                real wanted = (real)(offset + factor * number_of(numbers, stream, (uint64_t)n));
                assert_same_bits(&x[n / cols * stride + n % cols], &wanted, 1);
            }
            free(x);
        }
    }
}

static void test_places(void **state) {
    (void)state;
    check_places(make_uniform, attn_random_uniforms, -2, 5);
    check_places(make_normal, attn_random_normals, 0.25, 1.5);
}

static void test_empty(void **state) {
    (void)state;
    assert_ok(make_normal(NULL, 0, 5, 0, NULL, 5));
    assert_ok(make_normal(NULL, 5, 0, 0, NULL, 0));
    assert_ok(make_uniform(NULL, 0, 0, 0, NULL, 0));
}

/* ---- Statistics, with fixed seeds: they pass always or never ----------------------------------------------------- */

enum { SAMPLES = 1 << 14 };

static long double *sample(make_matrix *make, uint64_t stream) {
    real *x = poisoned(SAMPLES);
    assert_ok(make(NULL, 1, SAMPLES, stream, x, SAMPLES));
    long double *wide = wide_copy(1, SAMPLES, x, SAMPLES);
    free(x);
    return wide;
}

static long double uniform_share(long double x) {
    return (x + 2) / 5;
}

static long double normal_share(long double x) {
    return erfcl(-(x - 0.25L) / 1.5L / sqrtl(2)) / 2;
}

/* sqrt(n) D has the mean 0.8687 and the deviation 0.2603. Of many streams, so that one seed's luck decides nothing:
 * their mean within four deviations, none beyond 2.5 (7 in a million). */
static void check_distribution(make_matrix *make, long double (*share)(long double)) {
    enum { STREAMS = 16 };
    long double mean = 0;
    for (uint64_t stream = 0; stream < STREAMS; stream++) {
        long double *x = sample(make, stream), distance = distance_from(x, SAMPLES, share);
        if (!(distance < 2.5L))
            fail_msg("stream %d: sqrt(n) D = %Lg", (int)stream, distance);
        mean += distance / STREAMS;
        free(x);
    }
    assert_near(mean, 0.8687L, 4 * 0.2603L / sqrtl(STREAMS));
}

static void test_distributions(void **state) {
    (void)state;
    check_distribution(make_uniform, uniform_share);
    check_distribution(make_normal, normal_share);
}

static long double mean_of(const long double *x, int power) {
    long double sum = 0;
    for (int64_t i = 0; i < SAMPLES; i++)
        sum += powl(x[i], power);
    return sum / SAMPLES;
}

/* Moments of (x - 1/4) / (3/2) within four of their own standard deviations. */
static void test_moments_of_normals(void **state) {
    (void)state;
    static const long double wanted[] = {1, 0, 1, 0, 3}, variance[] = {0, 1, 2, 15, 96};
    for (uint64_t stream = 0; stream < 4; stream++) {
        long double *x = sample(make_normal, stream);
        for (int64_t i = 0; i < SAMPLES; i++)
            x[i] = (x[i] - 0.25L) / 1.5L;
        for (int power = 1; power <= 4; power++)
            assert_near(mean_of(x, power), wanted[power], 4 * sqrtl(variance[power] / SAMPLES));
        free(x);
    }
}

static long double correlation(const long double *x, const long double *y, int64_t count) {
    long double xy = 0, xx = 0, yy = 0;
    for (int64_t i = 0; i < count; i++) {
        xy += (x[i] - 0.25L) * (y[i] - 0.25L);
        xx += (x[i] - 0.25L) * (x[i] - 0.25L);
        yy += (y[i] - 0.25L) * (y[i] - 0.25L);
    }
    return xy / sqrtl(xx * yy);
}

/* Neighbours in a stream, and numbers of the same place in neighbouring streams. */
static void test_correlations(void **state) {
    (void)state;
    long double *x = sample(make_normal, 0), *y = sample(make_normal, 1), bound = 4 / sqrtl(SAMPLES);
    assert_near(correlation(x, y, SAMPLES), 0, bound);
    for (int lag = 1; lag <= 4; lag++)
        assert_near(correlation(x, x + lag, SAMPLES - lag), 0, bound);
    free(x);
    free(y);
}

/* ---- Initial weights --------------------------------------------------------------------------------------------- */

enum { ROWS = 67, COLS = 41, STRIDE = 43 };

static void check_weights(attn_status status, real *w, attn_random_numbers *numbers, long double deviation) {
    const attn_random_stream stream = {7, 2};
    bool uniform = numbers == attn_random_uniforms;
    assert_ok(status);
    assert_rows_only(w, ROWS, COLS, STRIDE);
    for (int64_t n = 0; n < (int64_t)ROWS * COLS; n++) {
        long double number = number_of(numbers, stream, (uint64_t)n);
        long double wanted = deviation * (uniform ? sqrtl(3) * (2 * number - 1) : number);
        assert_near(w[n / COLS * STRIDE + n % COLS], wanted, 2 * EPS * deviation * (1 + absolute(number)));
    }
    memset(w, 0xff, (size_t)matrix_extent(ROWS, COLS, STRIDE) * sizeof *w);
}

static void test_initial_weights(void **state) {
    (void)state;
    real *w = poisoned(matrix_extent(ROWS, COLS, STRIDE));
    attn_random_numbers *uniform = attn_random_uniforms, *normal = attn_random_normals;
    long double xavier = sqrtl(2.0L / (ROWS + COLS)), he = sqrtl(2.0L / ROWS);
    check_weights(REAL(attn_xavier_uniform)(NULL, ROWS, COLS, 1, 7, 2, w, STRIDE), w, uniform, xavier);
    check_weights(REAL(attn_xavier_normal)(NULL, ROWS, COLS, 0.5, 7, 2, w, STRIDE), w, normal, xavier / 2);
    check_weights(REAL(attn_he_uniform)(NULL, ROWS, COLS, ROWS, 3, 7, 2, w, STRIDE), w, uniform, 3 * he);
    check_weights(REAL(attn_he_normal)(NULL, ROWS, COLS, ROWS, 1, 7, 2, w, STRIDE), w, normal, he);
    assert_ok(REAL(attn_he_normal)(NULL, ROWS, COLS, ROWS, 0, 7, 2, w, STRIDE));
    for (int64_t n = 0; n < (int64_t)ROWS * COLS; n++)
        assert_true(w[n / COLS * STRIDE + n % COLS] == 0);
    free(w);
}

/* ---- Failures ---------------------------------------------------------------------------------------------------- */

static void test_bad_input(void **state) {
    (void)state;
    real *x = poisoned(12);
    const attn_context bad = threads_context(-1);
    assert_refused(ATTN_ERR_NULL, "x is NULL", make_uniform(NULL, 3, 4, 0, NULL, 4));
    assert_refused(ATTN_ERR_SIZE, "rows -3 is below 0", make_uniform(NULL, -3, 4, 0, x, 4));
    assert_refused(ATTN_ERR_SIZE, "cols -4 is below 0", make_normal(NULL, 3, -4, 0, x, 4));
    assert_refused(ATTN_ERR_STRIDE, "x: row stride 3 is below the row size 4", make_normal(NULL, 3, 4, 0, x, 3));
    assert_int_equal(make_normal(NULL, INT64_MAX / 2, 4, 0, x, 4), ATTN_ERR_OVERFLOW);
    assert_int_not_equal(make_normal(&bad, 3, 4, 0, x, 4), ATTN_OK);
    assert_non_null(strstr(attn_last_error(), "threads -1"));
    assert_refused(ATTN_ERR_VALUE, "high 1 is below low 2", REAL(attn_random_uniform)(NULL, 3, 4, 2, 1, 0, 0, x, 4));
    assert_int_equal(REAL(attn_random_uniform)(NULL, 3, 4, NAN, 1, 0, 0, x, 4), ATTN_ERR_VALUE);
    assert_int_equal(REAL(attn_random_uniform)(NULL, 3, 4, 0, INFINITY, 0, 0, x, 4), ATTN_ERR_VALUE);
    assert_int_equal(REAL(attn_random_uniform)(NULL, 3, 4, -REAL_MAX, REAL_MAX, 0, 0, x, 4), ATTN_ERR_VALUE);
    assert_non_null(strstr(attn_last_error(), "high - low"));
    assert_refused(ATTN_ERR_VALUE, "stddev -1 is below 0", REAL(attn_random_normal)(NULL, 3, 4, 0, -1, 0, 0, x, 4));
    assert_int_equal(REAL(attn_random_normal)(NULL, 3, 4, NAN, 1, 0, 0, x, 4), ATTN_ERR_VALUE);
    assert_int_equal(REAL(attn_random_normal)(NULL, 3, 4, 0, REAL_MAX / 4, 0, 0, x, 4), ATTN_ERR_VALUE);
    assert_int_equal(REAL(attn_xavier_uniform)(NULL, 3, 4, NAN, 0, 0, x, 4), ATTN_ERR_VALUE);
    assert_int_equal(REAL(attn_xavier_normal)(NULL, 3, 4, -1, 0, 0, x, 4), ATTN_ERR_VALUE);
    assert_non_null(strstr(attn_last_error(), "gain -1 is outside 0 .. "));
    assert_int_equal(REAL(attn_he_uniform)(NULL, 3, 4, 3, INFINITY, 0, 0, x, 4), ATTN_ERR_VALUE);
    assert_refused(ATTN_ERR_SIZE, "fan 0 is below 1", REAL(attn_he_normal)(NULL, 3, 4, 0, 1, 0, 0, x, 4));
    assert_refused(ATTN_ERR_NULL, "w is NULL", REAL(attn_he_normal)(NULL, 3, 4, 3, 1, 0, 0, NULL, 4));
    assert_untouched(x, 12);
    free(x);
}

static void test_threads_that_fail(void **state) {
    (void)state;
    enum { SIDE = 512 };
    attn_context context = threads_context(2);
    int failure = 3;
    context.parallel_for = failing_parallel_for;
    context.parallel_data = &failure;
    real *x = poisoned(SIDE * SIDE);
    assert_refused(ATTN_ERR_THREADS, "context: parallel_for returned 3", make_normal(&context, SIDE, SIDE, 0, x, SIDE));
    free(x);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_published_words),
        cmocka_unit_test(test_pinned_normals),
        cmocka_unit_test(test_bits_do_not_depend_on_flags),
        cmocka_unit_test(test_accuracy_of_normals),
        cmocka_unit_test(test_places),
        cmocka_unit_test(test_empty),
        cmocka_unit_test(test_distributions),
        cmocka_unit_test(test_moments_of_normals),
        cmocka_unit_test(test_correlations),
        cmocka_unit_test(test_initial_weights),
        cmocka_unit_test(test_bad_input),
        cmocka_unit_test(test_threads_that_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
