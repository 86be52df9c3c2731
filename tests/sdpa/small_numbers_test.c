/* Results small enough to check by hand: d = dv = 1 and queries of 1, so that the score of key j is k[j]. */
#include "sdpa_test.h"

/* Numbers of an array in the order [batch, heads, rows, cols]; rows beyond a member's length are not given. When there
 * are fewer than the array has, the first one stands for all before the others. */
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

#define LOWEST_FLOAT (-3.4028234663852886e38)

static const struct {
    const char *name, *problem;
    numbers k, v, mask, bias;
    numbers out, lse;
    closeness closeness; /* of out and lse; 0 and infinities are always exact */
} table[] = {
    {.name = "two keys",
     .problem = "q1k2d1,scale=1,lse",
     .k = NUMBERS(1, 2),
     .v = NUMBERS(3, 5),
     .out = NUMBERS(4.462117157),
     .lse = NUMBERS(2.313261688)},
    {.name = "scores of a thousand",
     .problem = "q1k2d1,scale=1,lse",
     .k = NUMBERS(1000, 1001),
     .v = NUMBERS(3, 5),
     .out = NUMBERS(4.462117157),
     .lse = NUMBERS(1001.313261688)},
    {.name = "scores of minus a thousand",
     .problem = "q1k2d1,scale=1,lse",
     .k = NUMBERS(-1001, -1000),
     .v = NUMBERS(3, 5),
     .out = NUMBERS(4.462117157),
     .lse = NUMBERS(-999.686738312)},
    {.name = "one key",
     .problem = "q3k1d1,scale=1,lse",
     .k = NUMBERS(-5),
     .v = NUMBERS(9),
     .out = NUMBERS(9),
     .lse = NUMBERS(-5),
     .closeness = EXACT},
    {.name = "no key",
     .problem = "q3k0d1,scale=1,lse",
     .k = NUMBERS(0),
     .v = NUMBERS(0),
     .out = NUMBERS(0),
     .lse = NUMBERS(-INFINITY)},
    {.name = "scale 0 does not read K",
     .problem = "q2k2d1,scale=0,lse",
     .k = NUMBERS(NAN),
     .v = NUMBERS(1, 2),
     .out = NUMBERS(1.5),
     .lse = NUMBERS(0.6931471806)},
    {.name = "negative scale",
     .problem = "q1k2d1,scale=-1,lse",
     .k = NUMBERS(-1, -2),
     .v = NUMBERS(3, 5),
     .out = NUMBERS(4.462117157),
     .lse = NUMBERS(2.313261688)},
    {.name = "grouped heads",
     .problem = "h4/2q1k1d1,scale=1",
     .k = NUMBERS(1),
     .v = NUMBERS(10, 20),
     .out = NUMBERS(10, 10, 20, 20),
     .closeness = EXACT},

    /* hidden by a score of -Inf */
    {.name = "first tiles hidden by -Inf",
     .problem = "q1k1100d1,scale=1,lse",
     .k = NUMBERS(-INFINITY, -300),
     .v = NUMBERS(NAN, 7),
     .out = NUMBERS(7),
     .lse = NUMBERS(-300),
     .closeness = EXACT},
    {.name = "first tiles hidden by -Inf, many queries",
     .problem = "q40k1100d1,scale=1,lse",
     .k = NUMBERS(-INFINITY, -300),
     .v = NUMBERS(NAN, 7),
     .out = NUMBERS(7),
     .lse = NUMBERS(-300),
     .closeness = EXACT},
    {.name = "every key hidden by -Inf",
     .problem = "q2k3d1,scale=1,lse",
     .k = NUMBERS(-INFINITY),
     .v = NUMBERS(NAN),
     .out = NUMBERS(0),
     .lse = NUMBERS(-INFINITY)},

    /* lengths */
    {.name = "cache of 4 with 2 keys",
     .problem = "q1k4d1,scale=1,kvlens=2,lse",
     .k = NUMBERS(1, 2),
     .v = NUMBERS(3, 5),
     .out = NUMBERS(4.462117157),
     .lse = NUMBERS(2.313261688)},
    {.name = "members with 2, 0 and 1 keys",
     .problem = "b3q1k2d1,scale=1,kvlens=2:0:1,lse",
     .k = NUMBERS(1, 2, 1),
     .v = NUMBERS(3, 5, 3),
     .out = NUMBERS(4.462117157, 0, 3),
     .lse = NUMBERS(2.313261688, -INFINITY, 1)},
    {.name = "one query of two",
     .problem = "b2q2k1d1,scale=1,qlens=1:2,lse",
     .k = NUMBERS(4, 5),
     .v = NUMBERS(3, 8),
     .out = NUMBERS(3, 0, 8, 8),
     .lse = NUMBERS(4, -INFINITY, 5, 5),
     .closeness = EXACT},
    {.name = "packed tokens, one member without queries, one without keys",
     .problem = "b3q2k2d1,scale=1,ragged=1:0:2/2:1:0,lse",
     .k = NUMBERS(1, 2, 9),
     .v = NUMBERS(3, 5, NAN),
     .out = NUMBERS(4.462117157, 0, 0),
     .lse = NUMBERS(2.313261688, -INFINITY, -INFINITY)},

    /* causal and alignment */
    {.name = "causal, more keys",
     .problem = "q2k4d1,scale=1,causal",
     .k = NUMBERS(0),
     .v = NUMBERS(1, 2, 3, 4),
     .out = NUMBERS(1, 1.5)},
    {.name = "causal, more keys, bottom-right",
     .problem = "q2k4d1,scale=1,causal,br",
     .k = NUMBERS(0),
     .v = NUMBERS(1, 2, 3, 4),
     .out = NUMBERS(2, 2.5)},
    {.name = "causal, more queries",
     .problem = "q4k2d1,scale=1,causal,lse",
     .k = NUMBERS(0),
     .v = NUMBERS(1, 3),
     .out = NUMBERS(1, 2, 2, 2),
     .lse = NUMBERS(0, 0.6931471806, 0.6931471806, 0.6931471806)},
    {.name = "causal, more queries, bottom-right",
     .problem = "q4k2d1,scale=1,causal,br,lse",
     .k = NUMBERS(0),
     .v = NUMBERS(1, 3),
     .out = NUMBERS(0, 0, 1, 2),
     .lse = NUMBERS(-INFINITY, -INFINITY, 0, 0.6931471806)},
    {.name = "causal, explicit offset",
     .problem = "q4k2d1,scale=1,causal,off=-2,lse",
     .k = NUMBERS(0),
     .v = NUMBERS(1, 3),
     .out = NUMBERS(0, 0, 1, 2),
     .lse = NUMBERS(-INFINITY, -INFINITY, 0, 0.6931471806)},
    {.name = "causal, every row before the keys",
     .problem = "q2k2d1,scale=1,causal,off=-9223372036854775808,lse",
     .k = NUMBERS(0),
     .v = NUMBERS(NAN),
     .out = NUMBERS(0),
     .lse = NUMBERS(-INFINITY)},
    {.name = "causal, every row after the keys",
     .problem = "q2k2d1,scale=1,causal,off=9223372036854775807,lse",
     .k = NUMBERS(1, 2),
     .v = NUMBERS(3, 5),
     .out = NUMBERS(4.462117157),
     .lse = NUMBERS(2.313261688)},

    /* window */
    {.name = "causal, one key to the left",
     .problem = "q4k4d1,scale=1,causal,window=1:-1",
     .k = NUMBERS(0),
     .v = NUMBERS(1, 2, 3, 4),
     .out = NUMBERS(1, 1.5, 2.5, 3.5)},
    {.name = "one key to the left, none to the right",
     .problem = "q4k4d1,scale=1,window=1:0",
     .k = NUMBERS(0),
     .v = NUMBERS(1, 2, 3, 4),
     .out = NUMBERS(1, 1.5, 2.5, 3.5)},
    {.name = "one key to the right, none to the left",
     .problem = "q4k4d1,scale=1,window=0:1,lse",
     .k = NUMBERS(0),
     .v = NUMBERS(1, 2, 3, 4),
     .out = NUMBERS(1.5, 2.5, 3.5, 4),
     .lse = NUMBERS(0.6931471806, 0.6931471806, 0.6931471806, 0)},
    {.name = "the key of the position alone",
     .problem = "q4k4d1,scale=1,window=0:0,lse",
     .k = NUMBERS(1, 2, 3, 4),
     .v = NUMBERS(5, 6, 7, 8),
     .out = NUMBERS(5, 6, 7, 8),
     .lse = NUMBERS(1, 2, 3, 4),
     .closeness = EXACT},
    {.name = "a window beside the keys",
     .problem = "q4k2d1,scale=1,window=0:0,lse",
     .k = NUMBERS(1, 2),
     .v = NUMBERS(5, 6),
     .out = NUMBERS(5, 6, 0, 0),
     .lse = NUMBERS(1, 2, -INFINITY, -INFINITY),
     .closeness = EXACT},

    /* mask */
    {.name = "a row of the mask hides all",
     .problem = "q2k2d1,scale=1,mask,lse",
     .k = NUMBERS(1, 2),
     .v = NUMBERS(3, 5),
     .mask = NUMBERS(1, 1, 0, 0),
     .out = NUMBERS(4.462117157, 0),
     .lse = NUMBERS(2.313261688, -INFINITY)},
    {.name = "first tiles masked",
     .problem = "q1k1100d1,scale=1,mask,lse",
     .k = NUMBERS(NAN, -300),
     .v = NUMBERS(NAN, 7),
     .mask = NUMBERS(0, 255),
     .out = NUMBERS(7),
     .lse = NUMBERS(-300),
     .closeness = EXACT},
    {.name = "softcap and mask",
     .problem = "q1k2d1,scale=1,softcap=2,mask",
     .k = NUMBERS(0),
     .v = NUMBERS(1, 9),
     .mask = NUMBERS(1, 0),
     .out = NUMBERS(1),
     .closeness = EXACT},
    {.name = "mask and causal leave nothing to row 0",
     .problem = "q2k2d1,scale=1,causal,mask,lse",
     .k = NUMBERS(0),
     .v = NUMBERS(1, 3),
     .mask = NUMBERS(0, 1, 1, 1),
     .out = NUMBERS(0, 2),
     .lse = NUMBERS(-INFINITY, 0.6931471806)},
    {.name = "a mask of one key",
     .problem = "q2k3d1,scale=1,mask,mask_len=1,lse",
     .k = NUMBERS(4, NAN, NAN),
     .v = NUMBERS(3, NAN, NAN),
     .mask = NUMBERS(1),
     .out = NUMBERS(3),
     .lse = NUMBERS(4),
     .closeness = EXACT},

    /* bias, ALiBi, softcap, sink */
    {.name = "bias",
     .problem = "q1k2d1,scale=1,bias,lse",
     .k = NUMBERS(1, 1),
     .v = NUMBERS(3, 5),
     .bias = NUMBERS(0, 1),
     .out = NUMBERS(4.462117157),
     .lse = NUMBERS(2.313261688)},
    {.name = "a bias of -Inf hides a NaN",
     .problem = "q1k2d1,scale=1,bias,lse",
     .k = NUMBERS(NAN, 2),
     .v = NUMBERS(NAN, 5),
     .bias = NUMBERS(-INFINITY, 0),
     .out = NUMBERS(5),
     .lse = NUMBERS(2),
     .closeness = EXACT},
    {.name = "the lowest float as bias swallows the scores",
     .problem = "q1k2d1,scale=1,bias,lse",
     .k = NUMBERS(1, 2),
     .v = NUMBERS(3, 5),
     .bias = NUMBERS(LOWEST_FLOAT),
     .out = NUMBERS(4),
     .lse = NUMBERS(LOWEST_FLOAT)},
    {.name = "a bias of one key",
     .problem = "q2k3d1,scale=1,bias,bias_len=1,lse",
     .k = NUMBERS(4, NAN, NAN),
     .v = NUMBERS(3, NAN, NAN),
     .bias = NUMBERS(2),
     .out = NUMBERS(3),
     .lse = NUMBERS(6),
     .closeness = EXACT},
    {.name = "ALiBi, slopes 1/16 and 1/256",
     .problem = "h2q1k2d1,scale=1,br,alibi,lse",
     .k = NUMBERS(0),
     .v = NUMBERS(1, 3, 1, 3),
     .out = NUMBERS(2.0312398314, 2.0019531225),
     .lse = NUMBERS(0.6623853824, 0.6911959629)},
    {.name = "softcap",
     .problem = "q1k2d1,scale=1,softcap=2,lse",
     .k = NUMBERS(1, 2),
     .v = NUMBERS(3, 5),
     .out = NUMBERS(4.2908339217),
     .lse = NUMBERS(1.961047032)},
    {.name = "sink of 0",
     .problem = "q1k2d1,scale=1,sink=0,lse",
     .k = NUMBERS(1, 2),
     .v = NUMBERS(3, 5),
     .out = NUMBERS(4.060390192),
     .lse = NUMBERS(2.313261688)},
    {.name = "sink above the scores",
     .problem = "q1k2d1,scale=1,sink=5,lse",
     .k = NUMBERS(1, 2),
     .v = NUMBERS(3, 5),
     .out = NUMBERS(0.2845065896),
     .lse = NUMBERS(2.313261688)},
    {.name = "sink without keys",
     .problem = "q1k2d1,scale=1,mask=none,sink=5,lse",
     .k = NUMBERS(1, 2),
     .v = NUMBERS(3, 5),
     .mask = NUMBERS(0),
     .out = NUMBERS(0),
     .lse = NUMBERS(-INFINITY)},
};

/* ---- Numbers in arrays ------------------------------------------------------------------------------------------- */

/* Number n of `total`. */
static double number_of(const numbers *given, int64_t n, int64_t total) {
    int64_t spare = total - (int64_t)given->count;
    return given->value[n > spare ? n - spare : 0];
}

/* Rows of a member in an array: those that are given. */
static int64_t rows_of(const trial *t, support_array array, int64_t b) {
    const support_case *c = t->problem_case;
    bool by_key = array == SUPPORT_K || array == SUPPORT_V;
    bool padded_output = array != SUPPORT_Q && !by_key && !(c->problem.flags & ATTN_RAGGED);
    return by_key ? support_case_kv_len(c, b) : padded_output ? c->problem.q_len : support_case_q_len(c, b);
}

typedef void (*visitor)(trial *t, support_array array, const int64_t at[4], double number);

/* Takes the numbers to their places. */
static void for_each_number(trial *t, support_array array, const numbers *given, visitor visit) {
    const attn_problem *p = &t->problem_case->problem;
    int64_t heads = array == SUPPORT_K || array == SUPPORT_V ? p->kv_heads : p->q_heads;
    int64_t cols = array == SUPPORT_MASK   ? (p->flags & ATTN_HAS_MASK_LEN ? p->mask_len : p->kv_len)
                   : array == SUPPORT_BIAS ? (p->flags & ATTN_HAS_BIAS_LEN ? p->bias_len : p->kv_len)
                                           : 1;
    int64_t total = 0, n = 0;
    for (int64_t b = 0; b < p->batch; b++)
        total += heads * rows_of(t, array, b) * cols;
    for (int64_t b = 0; b < p->batch; b++)
        for (int64_t h = 0; h < heads; h++)
            for (int64_t row = 0; row < rows_of(t, array, b); row++)
                for (int64_t c = 0; c < cols; c++, n++)
                    visit(t, array, (const int64_t[]){b, h, row, c}, number_of(given, n, total));
}

static void store(trial *t, support_array array, const int64_t at[4], double number) {
    support_set(&t->data, array, at[0], at[1], at[2], at[3], number);
}

static closeness wanted_closeness;
static const char *what;

static void compare(trial *t, support_array array, const int64_t at[4], double want) {
    double got = support_get(&t->data, array, at[0], at[1], at[2], at[3]);
    bool exactly = wanted_closeness == EXACT || want == 0 || isinf(want);
    double tolerance = (1e-9 + 4 * (double)EPS) * fmax(1, fabs(want));
    if (exactly ? got != want : !(fabs(got - want) <= tolerance))
        fail_msg("%s: member %lld, head %lld, row %lld of %s: %.17g, but %.10g is wanted", what, (long long)at[0],
                 (long long)at[1], (long long)at[2], array == SUPPORT_OUT ? "out" : "lse", got, want);
}

static void check_table(int64_t head_dim) {
    static const numbers one = NUMBERS(1);
    for (size_t n = 0; n < sizeof table / sizeof *table; n++) {
        trial t;
        char problem[100];
        trial_open_widened(&t, table[n].problem, head_dim, problem, sizeof problem);
        for_each_number(&t, SUPPORT_Q, &one, store);
        for_each_number(&t, SUPPORT_K, &table[n].k, store);
        for_each_number(&t, SUPPORT_V, &table[n].v, store);
        if (support_has(&t.data, SUPPORT_MASK))
            for_each_number(&t, SUPPORT_MASK, &table[n].mask, store);
        if (support_has(&t.data, SUPPORT_BIAS))
            for_each_number(&t, SUPPORT_BIAS, &table[n].bias, store);
        for_each_engine(engine) {
            char text[200];
            snprintf(text, sizeof text, "%s (%s), %s", table[n].name, problem, engine_name(engine));
            what = text;
            wanted_closeness = table[n].closeness;
            trial_run(&t, engine, 1);
            for_each_number(&t, SUPPORT_OUT, &table[n].out, compare);
            if (support_has(&t.data, SUPPORT_LSE))
                for_each_number(&t, SUPPORT_LSE, &table[n].lse, compare);
        }
        trial_close(&t);
    }
}

static void test_table(void **state) {
    (void)state;
    check_table(1);
}

static void test_table_with_wide_heads(void **state) {
    (void)state;
    check_table(WIDE_HEAD);
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
        cmocka_unit_test(test_table_with_wide_heads),
        cmocka_unit_test(test_flat),
    };
    return run_sdpa_tests(tests);
}
