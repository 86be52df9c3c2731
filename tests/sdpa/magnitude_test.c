/* Numbers far from 1: scores and values that products of a reduced range or precision would lose. Against the oracle,
 * and to the bit for more threads. */
#include "sdpa_test.h"

#include <float.h>

/* Tiles and parts of tiles, with all keys visible and with some. */
static const char *const problems[] = {
    "h3q67k301d45v37,lse",
    "h4/2q61k333d67v45,causal,lse",
    "h2q150k150d32v64,window=41:7,lse",
    "b2h2q40k1100d17v21,kvlens=1100:77,lse",
};

/* Rows whose number is a multiple of `each` times 2^exponent. */
static void scale_rows_of(trial *t, int array, int64_t heads, int64_t rows, int64_t cols, int64_t each, int exponent) {
    for (int64_t b = 0; b < t->problem_case->problem.batch; b++)
        for (int64_t h = 0; h < heads; h++)
            for (int64_t i = 0; i < rows; i += each)
                for (int64_t c = 0; c < cols; c++) {
                    real *x = element(t, array, b, h, i, c);
                    *x = (real)ldexp(*x, exponent);
                }
}

static void check(trial *t) {
    for_each_engine(engine) {
        trial_run(t, engine, 1);
        trial_verify(t, engine);
        results one = results_of(t);
        trial_run(t, engine, 3);
        assert_same_results(t, &one, engine, "more threads");
        results_free(&one);
    }
    trial_close(t);
}

static void test_queries_and_keys(void **state) {
    (void)state;
    /* of all rows, then of some */
    static const struct {
        int q, k;
        int64_t q_rows, k_rows;
        int some_q, some_k;
    } scales[] = {
        {0, -70, 3, 1, 70, 0}, /* a third of the queries see scores about 1, the others about 0 */
        {-70, 0, 1, 7, 0, 70}, /* every seventh key */
        {-100, 0, 1, 5, 0, 100}, {57, -57, 2, 1, -2, 0},   /* on both sides of what parts hold */
        {-57, 57, 1, 2, 0, -2},  {-140, 100, 1, 1, 40, 0}, /* subnormal queries, as far as float goes */
    };
    for (size_t n = first_problem(); n < sizeof problems / sizeof *problems; n += stride_of_problems())
        for (size_t i = 0; i < sizeof scales / sizeof *scales; i++) {
            trial t;
            trial_open(&t, problems[n]);
            const attn_problem *p = &t.problem_case->problem;
            scale_rows_of(&t, SUPPORT_Q, p->q_heads, p->q_len, p->head_dim, 1, scales[i].q);
            scale_rows_of(&t, SUPPORT_K, p->kv_heads, p->kv_len, p->head_dim, 1, scales[i].k);
            scale_rows_of(&t, SUPPORT_Q, p->q_heads, p->q_len, p->head_dim, scales[i].q_rows, scales[i].some_q);
            scale_rows_of(&t, SUPPORT_K, p->kv_heads, p->kv_len, p->head_dim, scales[i].k_rows, scales[i].some_k);
            check(&t);
        }
}

/* The largest number there is, which rounding to fewer bits would make infinite, and keys so small that scores are not
 * large. */
static void test_largest_queries_and_keys(void **state) {
    (void)state;
    const real largest = REAL_DTYPE == ATTN_F32 ? (real)FLT_MAX : (real)DBL_MAX;
    const int exponent = REAL_DTYPE == ATTN_F32 ? 125 : 1021;
    for (int keys = 0; keys < 2; keys++) {
        trial t;
        trial_open(&t, "h2q67k301d45v37,causal,br,lse");
        const attn_problem *p = &t.problem_case->problem;
        if (keys)
            scale_rows_of(&t, SUPPORT_Q, p->q_heads, p->q_len, p->head_dim, 1, -exponent);
        else
            scale_rows_of(&t, SUPPORT_K, p->kv_heads, p->kv_len, p->head_dim, 1, -exponent);
        for (int64_t i = 0; i < p->q_len; i += 9)
            *element(&t, keys ? SUPPORT_K : SUPPORT_Q, 0, i % 2, i, i % p->head_dim) = i % 2 ? largest : -largest;
        check(&t);
    }
}

static void test_values(void **state) {
    (void)state;
    static const int scales[] = {-118, -103, -90, -71, -60, 60, 100, 110};
    for (size_t n = first_problem(); n < sizeof problems / sizeof *problems; n += stride_of_problems())
        for (size_t i = 0; i < sizeof scales / sizeof *scales; i++) {
            trial t;
            trial_open(&t, problems[n]);
            const attn_problem *p = &t.problem_case->problem;
            scale_rows_of(&t, SUPPORT_V, p->kv_heads, p->kv_len, p->v_dim, 1, scales[i]);
            check(&t);
        }
}

/* Rows of one head whose values are small beside those of another, and one element that is not finite. */
static void test_small_values_and_nan(void **state) {
    (void)state;
    trial t;
    trial_open(&t, "h2q67k301d45v37,causal,lse");
    const attn_problem *p = &t.problem_case->problem;
    for (int64_t j = 0; j < p->kv_len; j++)
        for (int64_t c = 0; c < p->v_dim; c++) {
            real *x = element(&t, SUPPORT_V, 0, 1, j, c);
            *x = (real)ldexp(*x, -118);
        }
    *element(&t, SUPPORT_V, 0, 1, 29, 5) = (real)NAN;
    *element(&t, SUPPORT_V, 0, 1, 11, 7) = (real)INFINITY;
    check(&t);
}

/* Values of nothing but 0, and what is left of them beside numbers that are not finite. */
static void test_zeros(void **state) {
    (void)state;
    for (size_t n = 0; n < sizeof problems / sizeof *problems; n++)
        for (int nonfinite = 0; nonfinite < 2; nonfinite++) {
            trial t;
            trial_open(&t, problems[n]);
            const attn_problem *p = &t.problem_case->problem;
            for (int64_t b = 0; b < p->batch; b++)
                for (int64_t h = 0; h < p->kv_heads; h++)
                    for (int64_t j = 0; j < p->kv_len; j++)
                        for (int64_t c = 0; c < p->v_dim; c++)
                            *element(&t, SUPPORT_V, b, h, j, c) = (j + c) % 3 == 0 ? -(real)0 : 0;
            if (nonfinite)
                *element(&t, SUPPORT_V, 0, 0, 31, 5) = (real)NAN;
            check(&t);
        }
}

/* Sums below the smallest subnormal, where adding to 0 and writing differ in their sign: a row's bits are the same
 * whether a row beside it sees NaN or not. */
static void test_vanishing_sums(void **state) {
    (void)state;
    enum { ROWS = 64, KEYS = 70, SIZE = 19 };
    const real least = REAL_DTYPE == ATTN_F32 ? (real)0x1p-149 : (real)0x1p-1074;
    for_each_engine(engine) {
        trial t;
        trial_open(&t, "q64k70d19,causal,br");
        for (int64_t j = 0; j < KEYS; j++)
            for (int64_t c = 0; c < SIZE; c++)
                *element(&t, SUPPORT_V, 0, 0, j, c) = j % 5 == 3 ? -least : -(real)0;
        trial_run(&t, engine, 1);
        results finite = results_of(&t);
        *element(&t, SUPPORT_V, 0, 0, KEYS - 1, 2) = (real)NAN; /* the last row's alone */
        for (int threads = 1; threads <= 3; threads += 2) {
            trial_run(&t, engine, threads);
            assert_memory_equal(t.data.base[SUPPORT_OUT], finite.copy[SUPPORT_OUT], (ROWS - 1) * SIZE * sizeof(real));
        }
        results_free(&finite);
        trial_close(&t);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_queries_and_keys),
        cmocka_unit_test(test_largest_queries_and_keys),
        cmocka_unit_test(test_values),
        cmocka_unit_test(test_small_values_and_nan),
        cmocka_unit_test(test_zeros),
        cmocka_unit_test(test_vanishing_sums),
    };
    return run_sdpa_tests(tests);
}
