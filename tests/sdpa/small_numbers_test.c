/* Results small enough to check by hand: d = dv = 1 and queries of 1, so that the score of key j is k[j]. */
#include "sdpa_test.h"

/* Numbers of an array in the order [batch, heads, rows]; rows beyond a member's length are not given. When there are
 * fewer than the array has, the first one stands for all before the others. */
#define NUMBERS(...)                                                                                                   \
    {                                                                                                                  \
        sizeof((const double[]){__VA_ARGS__}) / sizeof(double), {                                                      \
            __VA_ARGS__                                                                                                \
        }                                                                                                              \
    }
typedef struct numbers {
    size_t count;
    double value[8];
} numbers;

/* How close a result must be to what is written here, which has ten digits. */
typedef enum closeness { TEN_DIGITS, EXACT } closeness;

static const struct {
    const char *name, *problem;
    numbers k, v, out, lse;
    closeness closeness; /* of out and lse; 0 and infinities are always exact */
} table[] = {
    {"two keys", "q1k2d1,scale=1,lse", NUMBERS(1, 2), NUMBERS(3, 5), NUMBERS(4.462117157), NUMBERS(2.313261688),
     TEN_DIGITS},
    {"scores of a thousand", "q1k2d1,scale=1,lse", NUMBERS(1000, 1001), NUMBERS(3, 5), NUMBERS(4.462117157),
     NUMBERS(1001.313261688), TEN_DIGITS},
    {"scores of minus a thousand", "q1k2d1,scale=1,lse", NUMBERS(-1001, -1000), NUMBERS(3, 5), NUMBERS(4.462117157),
     NUMBERS(-999.686738312), TEN_DIGITS},
    {"first tiles hidden by -Inf", "q1k1100d1,scale=1,lse", NUMBERS(-INFINITY, -300), NUMBERS(NAN, 7), NUMBERS(7),
     NUMBERS(-300), EXACT},
    {"first tiles hidden by -Inf, many queries", "q40k1100d1,scale=1,lse", NUMBERS(-INFINITY, -300), NUMBERS(NAN, 7),
     NUMBERS(7), NUMBERS(-300), EXACT},
    {"every key hidden by -Inf", "q2k3d1,scale=1,lse", NUMBERS(-INFINITY), NUMBERS(NAN), NUMBERS(0), NUMBERS(-INFINITY),
     EXACT},
    {"one key", "q3k1d1,scale=1,lse", NUMBERS(-5), NUMBERS(9), NUMBERS(9), NUMBERS(-5), EXACT},
    {"no key", "q3k0d1,scale=1,lse", NUMBERS(0), NUMBERS(0), NUMBERS(0), NUMBERS(-INFINITY), EXACT},
    {"scale 0", "q2k2d1,scale=0,lse", NUMBERS(NAN, NAN), NUMBERS(1, 2), NUMBERS(1.5), NUMBERS(0.6931471806),
     TEN_DIGITS},
    {"negative scale", "q1k2d1,scale=-1,lse", NUMBERS(-1, -2), NUMBERS(3, 5), NUMBERS(4.462117157),
     NUMBERS(2.313261688), TEN_DIGITS},
    {"cache of 4 with 2 keys", "q1k4d1,scale=1,kvlens=2,lse", NUMBERS(1, 2), NUMBERS(3, 5), NUMBERS(4.462117157),
     NUMBERS(2.313261688), TEN_DIGITS},
    {"members of length 2, 0 and 1", "b3q1k2d1,scale=1,kvlens=2:0:1,lse", NUMBERS(1, 2, 1), NUMBERS(3, 5, 3),
     NUMBERS(4.462117157, 0, 3), NUMBERS(2.313261688, -INFINITY, 1), TEN_DIGITS},
    {"one of two queries", "b2q2k1d1,scale=1,qlens=1:2,lse", NUMBERS(4, 5), NUMBERS(3, 8), NUMBERS(3, 0, 8, 8),
     NUMBERS(4, -INFINITY, 5, 5), EXACT},
    {"causal, more keys", "q2k4d1,scale=1,causal", NUMBERS(0), NUMBERS(1, 2, 3, 4), NUMBERS(1, 1.5), {0}, TEN_DIGITS},
    {"causal, more keys, bottom-right",
     "q2k4d1,scale=1,causal,br",
     NUMBERS(0),
     NUMBERS(1, 2, 3, 4),
     NUMBERS(2, 2.5),
     {0},
     TEN_DIGITS},
    {"causal, more queries", "q4k2d1,scale=1,causal,lse", NUMBERS(0), NUMBERS(1, 3), NUMBERS(1, 2, 2, 2),
     NUMBERS(0, 0.6931471806, 0.6931471806, 0.6931471806), TEN_DIGITS},
    {"causal, more queries, bottom-right", "q4k2d1,scale=1,causal,br,lse", NUMBERS(0), NUMBERS(1, 3),
     NUMBERS(0, 0, 1, 2), NUMBERS(-INFINITY, -INFINITY, 0, 0.6931471806), TEN_DIGITS},
    {"causal, explicit offset", "q4k2d1,scale=1,causal,off=-2,lse", NUMBERS(0), NUMBERS(1, 3), NUMBERS(0, 0, 1, 2),
     NUMBERS(-INFINITY, -INFINITY, 0, 0.6931471806), TEN_DIGITS},
    {"causal, every row before the keys", "q2k2d1,scale=1,causal,off=-9223372036854775808,lse", NUMBERS(0),
     NUMBERS(NAN), NUMBERS(0), NUMBERS(-INFINITY), EXACT},
    {"causal, every row after the keys", "q2k2d1,scale=1,causal,off=9223372036854775807,lse", NUMBERS(1, 2),
     NUMBERS(3, 5), NUMBERS(4.462117157), NUMBERS(2.313261688), TEN_DIGITS},
    {"grouped heads", "h4/2q1k1d1,scale=1", NUMBERS(1), NUMBERS(10, 20), NUMBERS(10, 10, 20, 20), {0}, EXACT},
};

/* Number n of `total`. */
static double number_of(const numbers *given, int64_t n, int64_t total) {
    int64_t spare = total - (int64_t)given->count;
    return given->value[n > spare ? n - spare : 0];
}

static int64_t rows_of_all(const attn_problem *p, const int64_t *lengths, int64_t heads, int64_t full) {
    int64_t rows = 0;
    for (int64_t b = 0; b < p->batch; b++)
        rows += heads * (lengths != NULL ? lengths[b] : full);
    return rows;
}

static void fill(trial *t, support_array array, const numbers *given, int64_t heads, const int64_t *lengths,
                 int64_t full) {
    const attn_problem *p = &t->problem_case->problem;
    int64_t total = rows_of_all(p, lengths, heads, full);
    int64_t n = 0;
    for (int64_t b = 0; b < p->batch; b++)
        for (int64_t h = 0; h < heads; h++)
            for (int64_t row = 0; row < (lengths != NULL ? lengths[b] : full); row++)
                support_set(&t->data, array, b, h, row, 0, number_of(given, n++, total));
}

static void compare(trial *t, support_array array, const numbers *wanted, closeness close, const char *what) {
    const attn_problem *p = &t->problem_case->problem;
    int64_t total = p->batch * p->q_heads * p->q_len;
    for (int64_t n = 0; n < total; n++) {
        int64_t b = n / p->q_len / p->q_heads, h = n / p->q_len % p->q_heads, row = n % p->q_len;
        double want = number_of(wanted, n, total);
        double got = support_get(&t->data, array, b, h, row, 0);
        bool exactly = close == EXACT || want == 0 || isinf(want);
        double tolerance = (1e-9 + 4 * (double)EPS) * fmax(1, fabs(want));
        if (exactly ? got != want : !(fabs(got - want) <= tolerance))
            fail_msg("%s, row %lld of %s: %.17g, but %.10g is wanted", what, (long long)n,
                     array == SUPPORT_OUT ? "out" : "lse", got, want);
    }
}

static void test_table(void **state) {
    (void)state;
    static const numbers one = NUMBERS(1);
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        trial t;
        trial_open(&t, table[i].problem);
        const attn_problem *p = &t.problem_case->problem;
        fill(&t, SUPPORT_Q, &one, p->q_heads, t.data.q_lens, p->q_len);
        fill(&t, SUPPORT_K, &table[i].k, p->kv_heads, t.data.kv_lens, p->kv_len);
        fill(&t, SUPPORT_V, &table[i].v, p->kv_heads, t.data.kv_lens, p->kv_len);
        for_each_engine(engine) {
            char what[200];
            snprintf(what, sizeof what, "%s (%s), %s", table[i].name, table[i].problem, engine_name(engine));
            trial_run(&t, engine, 1);
            compare(&t, SUPPORT_OUT, &table[i].out, table[i].closeness, what);
            if (t.problem_case->lse)
                compare(&t, SUPPORT_LSE, &table[i].lse, table[i].closeness, what);
        }
        trial_close(&t);
    }
}

/* The flat call on the table's first numbers. */
static void test_flat(void **state) {
    (void)state;
    const real q[] = {1, 1}, k[] = {1, 2}, v[] = {3, 5};
    real out[2] = {NAN, NAN};
    assert_ok(REAL(attn_sdpa_flat)(1, 1, 1, 2, 2, 1, 1, q, k, v, out, 0));
    assert_near(out[0], 4.462117157L, 1e-9L + 8 * EPS);
    assert_near(out[1], 4.462117157L, 1e-9L + 8 * EPS);
    assert_ok(REAL(attn_sdpa_flat)(1, 1, 1, 2, 2, 1, 1, q, k, v, out, ATTN_CAUSAL));
    assert_true(out[0] == 3);
    assert_near(out[1], 4.462117157L, 1e-9L + 8 * EPS);
    /* the second query alone, at the end of the keys */
    real last = NAN;
    assert_ok(REAL(attn_sdpa_flat)(1, 1, 1, 1, 2, 1, 1, q, k, v, &last, ATTN_CAUSAL | ATTN_FLAT_BOTTOM_RIGHT));
    assert_near(last, 4.462117157L, 1e-9L + 8 * EPS);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_table),
        cmocka_unit_test(test_flat),
    };
    return run_sdpa_tests(tests);
}
