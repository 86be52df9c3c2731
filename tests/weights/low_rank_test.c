/* Factors of W_Q W_K^T: against the product in long double and the singular values of an oracle, in every layout; the
 * same bits; what fails and leaves nothing behind. */
#include "weights_test.h"

/* ---- A problem with its arrays ----------------------------------------------------------------------------------- */

typedef struct trial {
    attn_low_rank problem;
    int64_t count;
    real *w_q, *w_k, *a, *b, *s;
    int64_t a_elements, b_elements;
    attn_low_rank_error *errors;
} trial;

static bool out_in(const trial *t) {
    return (t->problem.flags & ATTN_LOW_RANK_OUT_IN) != 0;
}

/* Normal weights; row strides that leave `gap` elements between rows. */
static trial open_trial(uint64_t flags, int64_t q_heads, int64_t kv_heads, int64_t d_model, int64_t d_context,
                        int64_t head_dim, int64_t rank, int64_t gap) {
    trial t = {.problem = ATTN_LOW_RANK_INIT, .count = smaller(head_dim, smaller(d_model, d_context))};
    attn_low_rank *p = &t.problem;
    bool transposed = (flags & ATTN_LOW_RANK_OUT_IN) != 0;
    int64_t q = q_heads * head_dim, k = kv_heads * head_dim, r = q_heads * rank;
    p->flags = flags;
    p->q_heads = q_heads;
    p->kv_heads = kv_heads;
    p->d_model = d_model;
    p->d_context = d_context;
    p->head_dim = head_dim;
    p->rank = rank;
    p->w_q_row = (transposed ? d_model : q) + gap;
    p->w_k_row = (transposed ? d_context : k) + gap;
    p->a_row = (transposed ? d_model : r) + gap;
    p->b_row = (transposed ? d_context : r) + gap;
    t.w_q = random_matrix(transposed ? q : d_model, transposed ? d_model : q, p->w_q_row, 1);
    t.w_k = random_matrix(transposed ? k : d_context, transposed ? d_context : k, p->w_k_row, 2);
    t.a_elements = matrix_extent(transposed ? r : d_model, transposed ? d_model : r, p->a_row);
    t.b_elements = matrix_extent(transposed ? r : d_context, transposed ? d_context : r, p->b_row);
    t.a = poisoned(t.a_elements);
    t.b = poisoned(t.b_elements);
    t.s = poisoned(q_heads * t.count);
    t.errors = malloc((size_t)larger(q_heads, 1) * sizeof *t.errors);
    assert_non_null(t.errors);
    memset(t.errors, 0xff, (size_t)larger(q_heads, 1) * sizeof *t.errors);
    return t;
}

static void close_trial(trial *t) {
    free(t->w_q);
    free(t->w_k);
    free(t->a);
    free(t->b);
    free(t->s);
    free(t->errors);
}

static attn_status run(const attn_context *context, const trial *t) {
    return REAL(attn_low_rank)(context, &t->problem, t->w_q, t->w_k, t->a, t->b, t->s, t->errors);
}

/* Head h of a matrix of heads, dense [d_model, size], in long double. */
static long double *head_of(const trial *t, const real *matrix, int64_t row, int64_t h, int64_t d_model, int64_t size) {
    long double *head = wide_alloc(d_model * size);
    for (int64_t i = 0; i < d_model; i++)
        for (int64_t c = 0; c < size; c++)
            head[i * size + c] = matrix[out_in(t) ? (h * size + c) * row + i : i * row + h * size + c];
    return head;
}

static long double norm_of_tail(const long double *s, int64_t first, int64_t count) {
    long double squares = 0;
    for (int64_t k = first; k < count; k++)
        squares += s[k] * s[k];
    return sqrtl(squares);
}

static long double largest_singular_value(int64_t rows, int64_t cols, const long double *a) {
    long double *s = wide_singular_values(rows, cols, a), largest = s[0];
    free(s);
    return largest;
}

static void check_head(const trial *t, int64_t h) {
    const attn_low_rank *p = &t->problem;
    int64_t m = p->d_model, n = p->d_context;
    long double *w_q = head_of(t, t->w_q, p->w_q_row, h, m, p->head_dim);
    long double *w_k = head_of(t, t->w_k, p->w_k_row, h / (p->q_heads / p->kv_heads), n, p->head_dim);
    long double *a = head_of(t, t->a, p->a_row, h, m, p->rank), *b = head_of(t, t->b, p->b_row, h, n, p->rank);
    long double *product = wide_product(m, n, p->head_dim, w_q, w_k), *rest = wide_product(m, n, p->rank, a, b);
    long double *wanted = wide_singular_values(m, n, product);
    long double tolerance = 40 * EPS * sqrtl(larger(larger(m, n), p->head_dim)) *
                            largest_singular_value(m, p->head_dim, w_q) * largest_singular_value(n, p->head_dim, w_k);
    for (int64_t k = 0; k < t->count; k++)
        assert_near(t->s[h * t->count + k], wanted[k], tolerance);
    for (int64_t i = 0; i < m * n; i++)
        rest[i] = product[i] - rest[i];
    long double *left = wide_singular_values(m, n, rest);
    /* what the factors leave, what they should leave, and what is said of it */
    long double spectral = p->rank < t->count ? wanted[p->rank] : 0;
    long double frobenius = norm_of_tail(wanted, p->rank, t->count);
    assert_near(left[0], spectral, tolerance);
    assert_near(norm_of_tail(left, 0, smaller(m, n)), frobenius, tolerance * sqrtl(t->count));
    assert_near(t->errors[h].norm, wanted[0], tolerance);
    assert_near(t->errors[h].frobenius, norm_of_tail(wanted, 0, t->count), tolerance * sqrtl(t->count));
    assert_near(t->errors[h].spectral_error, spectral, tolerance);
    assert_near(t->errors[h].frobenius_error, frobenius, tolerance * sqrtl(t->count));
    /* the two factors share the singular values evenly: A^T A = B^T B = diag(s) */
    for (int64_t x = 0; x < p->rank; x++)
        for (int64_t y = 0; y < p->rank; y++) {
            long double aa = 0, bb = 0, s = x == y ? t->s[h * t->count + x] : 0;
            for (int64_t i = 0; i < m; i++)
                aa += a[i * p->rank + x] * a[i * p->rank + y];
            for (int64_t i = 0; i < n; i++)
                bb += b[i * p->rank + x] * b[i * p->rank + y];
            assert_near(aa, s, tolerance);
            assert_near(bb, s, tolerance);
        }
    free(w_q);
    free(w_k);
    free(a);
    free(b);
    free(product);
    free(rest);
    free(wanted);
    free(left);
}

static void check_trial(trial *t) {
    const attn_low_rank *p = &t->problem;
    int64_t r = p->q_heads * p->rank;
    assert_ok(run(NULL, t));
    assert_rows_only(t->a, out_in(t) ? r : p->d_model, out_in(t) ? p->d_model : r, p->a_row);
    assert_rows_only(t->b, out_in(t) ? r : p->d_context, out_in(t) ? p->d_context : r, p->b_row);
    for (int64_t h = 0; h < p->q_heads; h++)
        check_head(t, h);
    close_trial(t);
}

/* ---- Results ----------------------------------------------------------------------------------------------------- */

static void test_factors(void **state) {
    (void)state;
    for (uint64_t flags = 0; flags <= ATTN_LOW_RANK_OUT_IN; flags++) {
        static const int64_t problem[][7] = {
            /* q_heads, kv_heads, d_model, d_context, head_dim, rank, gap */
            {2, 2, 23, 23, 7, 3, 0}, {2, 2, 23, 23, 7, 7, 2}, /* all of it */
            {3, 3, 19, 31, 5, 1, 3},                          /* cross-attention */
            {6, 2, 17, 17, 5, 4, 1},                          /* grouped heads */
            {4, 1, 13, 13, 3, 2, 0}, {2, 1, 7, 11, 13, 5, 2}, /* heads wider than the model */
            {2, 2, 11, 3, 5, 3, 0},  {1, 1, 1, 1, 1, 1, 1},   {1, 1, 61, 67, 23, 8, 0},
        };
        for (size_t i = 0; i < sizeof problem / sizeof *problem; i++) {
            const int64_t *p = problem[i];
            trial t = open_trial(flags, p[0], p[1], p[2], p[3], p[4], p[5], p[6]);
            check_trial(&t);
        }
    }
}

/* W_K's columns depend on each other: a head of true rank 2 loses nothing beyond rounding with 2 columns. */
static void test_deficient(void **state) {
    (void)state;
    enum { D = 29, DIM = 6, RANK = 2 };
    trial t = open_trial(0, 1, 1, D, D, DIM, RANK, 0);
    for (int i = 0; i < D; i++)
        for (int c = RANK; c < DIM; c++)
            t.w_k[i * DIM + c] = t.w_k[i * DIM + c % RANK] * (real)(c - 3);
    assert_ok(run(NULL, &t));
    assert_true(t.errors[0].frobenius_error <= 100 * (double)EPS * t.errors[0].norm);
    check_head(&t, 0);
    close_trial(&t);
}

static void test_large_and_small_numbers(void **state) {
    (void)state;
    static const double factors[] = {1e-15, 1e15};
    for (int f = 0; f < 2; f++) {
        trial t = open_trial(0, 2, 2, 13, 13, 5, 3, 0);
        for (int i = 0; i < 13 * 10; i++) {
            t.w_q[i] *= (real)factors[f];
            t.w_k[i] *= (real)factors[f];
        }
        check_trial(&t);
    }
}

/* Singular values and errors alone, for every rank; and no rank at all. */
static void test_without_factors(void **state) {
    (void)state;
    trial t = open_trial(0, 4, 2, 17, 19, 5, 2, 0);
    assert_ok(run(NULL, &t));
    real *s = poisoned(4 * 5);
    attn_low_rank_error errors[4];
    for (int64_t rank = 0; rank <= 5; rank++) {
        attn_low_rank p = t.problem;
        p.rank = rank;
        p.a_row = p.b_row = 0; /* not looked at */
        assert_ok(REAL(attn_low_rank)(NULL, &p, t.w_q, t.w_k, NULL, NULL, s, errors));
        for (int i = 0; i < 4; i++) {
            const real *values = s + 5 * i;
            for (int k = 0; k < 5; k++) /* gesdd takes another way without vectors */
                assert_near(values[k], t.s[5 * i + k], 40 * EPS * values[0]);
            assert_true(errors[i].spectral_error == (rank < 5 ? (double)values[rank] : 0));
            assert_true((rank == 5) == (errors[i].frobenius_error == 0));
            assert_true(rank > 0 || errors[i].frobenius_error == errors[i].frobenius);
        }
    }
    free(s);
    close_trial(&t);
}

static void test_empty(void **state) {
    (void)state;
    /* LAPACK's integers count only where there is work for it */
    const real w_k[2] = {1, 1};
    attn_low_rank without_heads = ATTN_LOW_RANK_INIT;
    attn_low_rank_error error;
    without_heads.kv_heads = without_heads.d_context = 1;
    without_heads.head_dim = without_heads.w_k_row = 2;
    without_heads.d_model = INT64_C(1) << 40;
    assert_ok(REAL(attn_low_rank)(NULL, &without_heads, NULL, w_k, NULL, NULL, NULL, &error));
    trial t = open_trial(0, 2, 1, 7, 0, 3, 0, 0);
    assert_ok(REAL(attn_low_rank)(NULL, &t.problem, t.w_q, NULL, NULL, NULL, NULL, t.errors));
    assert_true(t.errors[1].norm == 0 && t.errors[1].frobenius_error == 0);
    close_trial(&t);
    t = open_trial(0, 0, 1, 7, 5, 3, 2, 0);
    assert_ok(run(NULL, &t));
    close_trial(&t);
}

static void test_bits_do_not_depend_on_threads_or_layout(void **state) {
    (void)state;
    trial t = open_trial(0, 8, 4, 67, 71, 16, 5, 0);
    trial other = open_trial(ATTN_LOW_RANK_OUT_IN, 8, 4, 67, 71, 16, 5, 0);
    const attn_low_rank *p = &t.problem;
    for (int64_t i = 0; i < 67; i++)
        for (int64_t c = 0; c < 8 * 16; c++)
            other.w_q[c * 67 + i] = t.w_q[i * 8 * 16 + c];
    for (int64_t i = 0; i < 71; i++)
        for (int64_t c = 0; c < 4 * 16; c++)
            other.w_k[c * 71 + i] = t.w_k[i * 4 * 16 + c];
    attn_context context = threads_context(1);
    assert_ok(run(&context, &t));
    for (int threads = 1; threads <= 4; threads++) {
        context.threads = threads;
        memset(other.a, 0xff, (size_t)other.a_elements * sizeof(real));
        assert_ok(run(&context, &other));
        assert_same_bits(t.s, other.s, p->q_heads * t.count);
        for (int64_t h = 0; h < p->q_heads * p->rank; h++)
            for (int64_t i = 0; i < 71; i++) {
                if (i < 67)
                    assert_same_bits(&t.a[i * p->a_row + h], &other.a[h * 67 + i], 1);
                assert_same_bits(&t.b[i * p->b_row + h], &other.b[h * 71 + i], 1);
            }
    }
    close_trial(&t);
    close_trial(&other);
}

/* ---- Failures ---------------------------------------------------------------------------------------------------- */

static void assert_nothing_written(const trial *t) {
    assert_untouched(t->a, t->a_elements);
    assert_untouched(t->b, t->b_elements);
    assert_untouched(t->s, t->problem.q_heads * t->count);
    assert_true(all_poison(t->errors, (size_t)t->problem.q_heads * sizeof *t->errors));
}

/* The call with one field of the problem changed. */
static void check_refused(trial *t, int64_t *field, int64_t value, attn_status status, const char *sentence) {
    int64_t before = *field;
    *field = value;
    assert_refused(status, sentence, run(NULL, t));
    *field = before;
    assert_nothing_written(t);
}

static void test_bad_input(void **state) {
    (void)state;
    trial t = open_trial(0, 4, 2, 11, 13, 5, 3, 0);
    attn_low_rank *p = &t.problem;
    check_refused(&t, &p->q_heads, -1, ATTN_ERR_SIZE, "q_heads -1 is below 0");
    check_refused(&t, &p->kv_heads, 0, ATTN_ERR_SIZE, "kv_heads 0 is below 1");
    check_refused(&t, &p->kv_heads, 3, ATTN_ERR_SIZE, "kv_heads 3 does not divide q_heads 4");
    check_refused(&t, &p->d_model, -1, ATTN_ERR_SIZE, "d_model -1 is below 0");
    check_refused(&t, &p->d_context, -1, ATTN_ERR_SIZE, "d_context -1 is below 0");
    check_refused(&t, &p->head_dim, -1, ATTN_ERR_SIZE, "head_dim -1 is below 0");
    check_refused(&t, &p->rank, -1, ATTN_ERR_SIZE, "rank -1 is below 0");
    check_refused(&t, &p->rank, 6, ATTN_ERR_SIZE,
                  "rank 6 is above the smallest of head_dim 5, d_model 11, d_context 13");
    check_refused(&t, &p->w_q_row, 19, ATTN_ERR_STRIDE, "w_q: row stride 19 is below the row size 20");
    check_refused(&t, &p->w_k_row, 9, ATTN_ERR_STRIDE, "w_k: row stride 9 is below the row size 10");
    check_refused(&t, &p->a_row, 11, ATTN_ERR_STRIDE, "a: row stride 11 is below the row size 12");
    check_refused(&t, &p->b_row, -1, ATTN_ERR_STRIDE, "b: row stride -1 is negative");
    p->flags = 6;
    assert_refused(ATTN_ERR_FLAG, "flags 0x6 are unknown", run(NULL, &t));
    p->flags = 0;
    p->struct_size = sizeof *p + 8;
    assert_int_equal(run(NULL, &t), ATTN_ERR_STRUCT_SIZE);
    p->struct_size = sizeof *p;
    t.w_k[7] = NAN;
    assert_refused(ATTN_ERR_VALUE, "w_k[0][7] is nan", run(NULL, &t));
    t.w_k[7] = 1;
    t.w_q[23] = -INFINITY;
    assert_refused(ATTN_ERR_VALUE, "w_q[1][3] is -inf", run(NULL, &t));
    t.w_q[23] = 1;
#define LOW_RANK(...) REAL(attn_low_rank)(NULL, __VA_ARGS__)
    assert_refused(ATTN_ERR_NULL, "problem is NULL", LOW_RANK(NULL, t.w_q, t.w_k, t.a, t.b, t.s, t.errors));
    assert_refused(ATTN_ERR_NULL, "w_q is NULL", LOW_RANK(p, NULL, t.w_k, t.a, t.b, t.s, t.errors));
    assert_refused(ATTN_ERR_NULL, "w_k is NULL", LOW_RANK(p, t.w_q, NULL, t.a, t.b, t.s, t.errors));
    assert_refused(ATTN_ERR_NULL, "a is NULL", LOW_RANK(p, t.w_q, t.w_k, NULL, t.b, t.s, t.errors));
    assert_refused(ATTN_ERR_NULL, "b is NULL", LOW_RANK(p, t.w_q, t.w_k, t.a, NULL, t.s, t.errors));
    assert_refused(ATTN_ERR_NULL, "a, b, singular_values and errors are all NULL",
                   LOW_RANK(p, t.w_q, t.w_k, NULL, NULL, NULL, NULL));
    assert_refused(ATTN_ERR_OVERLAP, "a starts where w_q starts", LOW_RANK(p, t.w_q, t.w_k, t.w_q, t.b, t.s, t.errors));
    assert_refused(ATTN_ERR_OVERLAP, "b starts where w_k starts", LOW_RANK(p, t.w_q, t.w_k, t.a, t.w_k, t.s, t.errors));
    /* with room beyond, so that nothing else is met there */
    static real room[4096];
    assert_refused(ATTN_ERR_OVERLAP, "b overlaps a", LOW_RANK(p, t.w_q, t.w_k, room, room + 12, t.s, t.errors));
    assert_refused(ATTN_ERR_OVERLAP, "singular_values overlaps b",
                   LOW_RANK(p, t.w_q, t.w_k, t.a, room, room + 1, t.errors));
#undef LOW_RANK
    assert_nothing_written(&t);
    for (int i = 0; i < 13 * 10; i++)
        t.w_k[i] = REAL_MAX / 4;
    assert_int_equal(run(NULL, &t), ATTN_ERR_VALUE);
    assert_non_null(strstr(attn_last_error(), "W_Q W_K^T of key head 0 is beyond the range of"));
    assert_nothing_written(&t);
    close_trial(&t);

    attn_low_rank cleared;
    memset(&cleared, 0xff, sizeof cleared);
    assert_ok(attn_low_rank_init(&cleared, sizeof cleared));
    assert_int_equal(cleared.struct_size, sizeof cleared);
    assert_true(cleared.flags == 0 && cleared.b_row == 0);
    assert_int_equal(attn_low_rank_init(NULL, sizeof cleared), ATTN_ERR_NULL);
    assert_int_equal(attn_low_rank_init(&cleared, 8), ATTN_ERR_STRUCT_SIZE);
}

/* Singular values that are in range and the root of whose squares is not, in double. */
static void test_frobenius_norm_at_the_end_of_the_range(void **state) {
    (void)state;
    enum { SIZE = 4 };
    trial t = open_trial(0, 1, 1, SIZE, SIZE, SIZE, 2, 0);
    for (int i = 0; i < SIZE * SIZE; i++)
        t.w_q[i] = t.w_k[i] = i % (SIZE + 1) == 0 ? (real)sqrt((double)REAL_MAX / 2) * (real)(1 + 0x1p-10) : 0;
    if (sizeof(real) == sizeof(float)) {
        assert_ok(run(NULL, &t));
        assert_near(t.errors[0].frobenius / (double)REAL_MAX, 1 + 0x1p-9L, 1e-5L);
        close_trial(&t);
        return;
    }
    assert_refused(ATTN_ERR_VALUE, "W_Q W_K^T of query head 0: its Frobenius norm is beyond the range of double",
                   run(NULL, &t));
    assert_nothing_written(&t);
    assert_ok(REAL(attn_low_rank)(NULL, &t.problem, t.w_q, t.w_k, t.a, t.b, t.s, NULL));
    close_trial(&t);
}

static void check_failure(trial *t, const attn_context *context, const counting_allocator *allocator,
                          attn_status status, const char *sentence) {
    assert_int_equal(run(context, t), status);
    if (strstr(attn_last_error(), sentence) == NULL)
        fail_msg("\"%s\" says nothing of \"%s\"", attn_last_error(), sentence);
    assert_nothing_written(t);
    assert_int_equal(allocator->live, 0);
    assert_int_equal(allocator->live_size, 0);
}

/* Each call of LAPACKE fails once, on one thread and on several; so does memory. */
static void test_failures_write_nothing(void **state) {
    (void)state;
    static const struct {
        const char *routine;
        int calls; /* with 4 query heads over 2 key heads */
        int info;
        const char *sentence;
    } failure[] = {
        {"geqrf", 6, -5, "geqrf refused its argument 5"},
        {"gesdd", 4, 2, "gesdd did not converge, info 2"},
        {"ormqr", 8, -9, "ormqr refused its argument 9"},
    };
    trial t = open_trial(0, 4, 2, 37, 41, 11, 3, 0);
    counting_allocator allocator = {.fail_at = 0};
    attn_context context = counting_context(&allocator);
    for (context.threads = 1; context.threads <= 2; context.threads++) {
        allocator.calls = 0;
        check_failure(&t, &context, &allocator, ATTN_ERR_NOMEM, "the allocator has no ");
        for (size_t i = 0; i < sizeof failure / sizeof *failure; i++)
            for (int call = 0; call < failure[i].calls; call++) {
                trap_lapacke(failure[i].routine, call, failure[i].info);
                check_failure(&t, &context, &allocator, ATTN_ERR_LAPACK, failure[i].sentence);
                assert_true(strstr(attn_last_error(), "key head ") == attn_last_error());
            }
        trap_lapacke("gesdd", 3, -1010);
        check_failure(&t, &context, &allocator, ATTN_ERR_NOMEM, "key head ");
    }
    trap_lapacke(NULL, 0, 0);
    allocator.calls = 0;
    allocator.fail_at = -1;
    assert_ok(run(&context, &t));
    assert_int_equal(allocator.calls, 1);
    assert_int_equal(allocator.live, 0);
    assert_int_equal(trapped_calls(), 6 + 4 + 8);
    close_trial(&t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_factors),
        cmocka_unit_test(test_deficient),
        cmocka_unit_test(test_large_and_small_numbers),
        cmocka_unit_test(test_without_factors),
        cmocka_unit_test(test_empty),
        cmocka_unit_test(test_bits_do_not_depend_on_threads_or_layout),
        cmocka_unit_test(test_bad_input),
        cmocka_unit_test(test_frobenius_norm_at_the_end_of_the_range),
        cmocka_unit_test(test_failures_write_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
