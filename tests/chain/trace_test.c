/* The traced call: any subset of the matrices, the bits of the stages called by hand, memory. */
#include "worked_example.h"

#include <math.h>

enum { MATRICES = 10 };

/* A larger chain, with sizes that all differ. */
enum { N = 37, ROWS_OF_TABLE = 53, D = 13, D_K = 7, D_V = 11 };

typedef struct chain {
    int64_t ids[N];
    real *table, *w_q, *w_k, *w_v, *b_q, *b_k, *b_v;
    real *matrix[MATRICES]; /* in the order of the chain */
} chain;

static const int64_t cols_of[MATRICES] = {D, D, D, D_K, D_K, D_V, N, N, N, D_V};

static chain chain_create(void) {
    chain c;
    for (int t = 0; t < N; t++)
        c.ids[t] = t * 17 % ROWS_OF_TABLE;
    c.table = random_numbers(ROWS_OF_TABLE * D, 1);
    c.w_q = random_numbers(D * D_K, 2);
    c.w_k = random_numbers(D * D_K, 3);
    c.w_v = random_numbers(D * D_V, 4);
    c.b_q = random_numbers(D_K, 5);
    c.b_k = random_numbers(D_K, 6);
    c.b_v = random_numbers(D_V, 7);
    for (int m = 0; m < MATRICES; m++)
        c.matrix[m] = poisoned(N * cols_of[m]);
    return c;
}

static void chain_free(chain *c) {
    real *all[] = {c->table, c->w_q, c->w_k, c->w_v, c->b_q, c->b_k, c->b_v};
    for (int i = 0; i < 7; i++)
        free(all[i]);
    for (int m = 0; m < MATRICES; m++)
        free(c->matrix[m]);
}

static void chain_poison(const chain *c) {
    for (int m = 0; m < MATRICES; m++)
        memset(c->matrix[m], 0xff, (size_t)(N * cols_of[m]) * sizeof(real));
}

/* All inputs; the outputs whose bit of `wanted` is set. */
static REAL(attn_trace) trace_of(const chain *c, unsigned wanted, uint64_t flags) {
    REAL(attn_trace) t = ATTN_STRUCT_INIT(REAL(attn_trace));
    t.flags = flags | ATTN_TRACE_HAS_START | ATTN_TRACE_HAS_BASE | ATTN_TRACE_HAS_SCALE;
    t.tokens = N;
    t.vocab = ROWS_OF_TABLE;
    t.d_model = D;
    t.d_k = D_K;
    t.d_v = D_V;
    t.ids = c->ids;
    t.table = c->table;
    t.w_q = c->w_q;
    t.w_k = c->w_k;
    t.w_v = c->w_v;
    t.b_q = c->b_q;
    t.b_k = c->b_k;
    t.b_v = c->b_v;
    t.scale = 0.375;
    t.start = -5;
    t.base = 500;
    real **outputs[MATRICES] = {&t.e, &t.p, &t.x, &t.q, &t.k, &t.v, &t.qk, &t.s, &t.a, &t.z};
    for (int m = 0; m < MATRICES; m++)
        if (wanted >> m & 1)
            *outputs[m] = c->matrix[m];
    return t;
}

/* The same chain, stage by stage. */
static void by_hand(const chain *c, bool positions) {
    real *const *m = c->matrix;
    real *e = m[0], *p = m[1], *x = m[2], *q = m[3], *k = m[4], *v = m[5], *qk = m[6], *s = m[7], *a = m[8], *z = m[9];
    assert_ok(REAL(attn_embed)(NULL, N, ROWS_OF_TABLE, D, c->ids, c->table, D, e, D));
    if (positions) {
        assert_ok(REAL(attn_sinusoidal)(NULL, N, D, -5, 500, p, D));
        assert_ok(REAL(attn_add)(NULL, N, D, e, D, p, D, x, D));
    } else {
        memset(p, 0, N * D * sizeof(real));
        memcpy(x, e, N * D * sizeof(real));
    }
    assert_ok(REAL(attn_project)(NULL, 1, N, D, D_K, x, 0, D, c->w_q, D_K, c->b_q, q, 0, D_K));
    assert_ok(REAL(attn_project)(NULL, 1, N, D, D_K, x, 0, D, c->w_k, D_K, c->b_k, k, 0, D_K));
    assert_ok(REAL(attn_project)(NULL, 1, N, D, D_V, x, 0, D, c->w_v, D_V, c->b_v, v, 0, D_V));
    assert_ok(REAL(attn_scores)(NULL, N, N, D_K, q, D_K, k, D_K, 1, qk, N));
    assert_ok(REAL(attn_scores)(NULL, N, N, D_K, q, D_K, k, D_K, 0.375, s, N));
    assert_ok(REAL(attn_softmax)(NULL, N, N, s, N, a, N));
    assert_ok(REAL(attn_combine)(NULL, N, N, D_V, a, N, v, D_V, z, D_V));
}

/* Every subset of the ten: what is wanted has the bits of the stages, what is not is left alone, nothing leaks. */
static void test_every_subset(void **state) {
    (void)state;
    chain wanted = chain_create(), got = chain_create();
    for (int positions = 0; positions <= 1; positions++) {
        by_hand(&wanted, positions);
        for (unsigned subset = 0; subset < 1u << MATRICES; subset++) {
            counting_allocator allocator = {.fail_at = -1};
            attn_context context = counting_context(&allocator);
            chain_poison(&got);
            REAL(attn_trace) t = trace_of(&got, subset, positions ? 0 : ATTN_TRACE_NO_POSITIONS);
            assert_ok(REAL(attn_chain_trace)(&context, &t));
            for (int m = 0; m < MATRICES; m++) {
                if (subset >> m & 1)
                    assert_same_bits(got.matrix[m], wanted.matrix[m], N * cols_of[m]);
                else
                    assert_untouched(got.matrix[m], N * cols_of[m]);
            }
            assert_int_equal(allocator.live, 0);
            assert_int_equal(allocator.live_size, 0);
        }
    }
    chain_free(&wanted);
    chain_free(&got);
}

/* Inputs that no wanted matrix needs are not looked at. */
static void test_unneeded_inputs(void **state) {
    (void)state;
    enum { E = 1 << 0, P = 1 << 1, X = 1 << 2, Q = 1 << 3, V = 1 << 5 };
    chain c = chain_create();
    REAL(attn_trace) t = trace_of(&c, P, 0);
    t.ids = NULL;
    t.table = t.w_q = t.w_k = t.w_v = NULL;
    assert_ok(REAL(attn_chain_trace)(NULL, &t));
    assert_rows_only(c.matrix[1], N, D, D);
    t = trace_of(&c, E | X, 0);
    t.w_q = t.w_k = t.w_v = NULL;
    assert_ok(REAL(attn_chain_trace)(NULL, &t));
    t = trace_of(&c, Q, 0);
    t.w_k = t.w_v = NULL;
    assert_ok(REAL(attn_chain_trace)(NULL, &t));
    t = trace_of(&c, V, 0);
    t.w_q = t.w_k = NULL;
    assert_ok(REAL(attn_chain_trace)(NULL, &t));
    t = trace_of(&c, 0, 0);
    t.ids = NULL;
    assert_ok(REAL(attn_chain_trace)(NULL, &t));
    chain_free(&c);
}

/* Fields without their flag are not looked at: NaN and impossible numbers in them change nothing. */
static void test_unset_fields(void **state) {
    (void)state;
    real *table = example_table();
    example_matrices plain = run_example(0, example_ids), m;
    REAL(attn_trace) trace = example_trace(table);
    example_want_all(&trace, &m);
    trace.scale = (double)NAN;
    trace.base = -1;
    trace.start = INT64_MAX;
    assert_ok(REAL(attn_chain_trace)(NULL, &trace));
    assert_memory_equal(&m, &plain, sizeof m);
    free(table);
}

static void test_bias(void **state) {
    (void)state;
    real *table = example_table();
    static const real b_q[] = {1, 2}, b_k[] = {3, 4}, b_v[] = {5, 6};
    example_matrices plain = run_example(0, example_ids), m;
    REAL(attn_trace) trace = example_trace(table);
    example_want_all(&trace, &m);
    trace.b_q = b_q;
    trace.b_k = b_k;
    trace.b_v = b_v;
    assert_ok(REAL(attn_chain_trace)(NULL, &trace));
    for (int i = 0; i < TOKENS * DIM; i++) {
        assert_true(m.q[i] == plain.q[i] + b_q[i % DIM]);
        assert_true(m.k[i] == plain.k[i] + b_k[i % DIM]);
        assert_true(m.v[i] == plain.v[i] + b_v[i % DIM]);
    }
    free(table);
}

static void test_no_tokens(void **state) {
    (void)state;
    example_matrices m;
    counting_allocator allocator = {.fail_at = 0};
    attn_context context = counting_context(&allocator);
    REAL(attn_trace) trace = example_trace(NULL);
    example_want_all(&trace, &m);
    trace.tokens = 0;
    trace.vocab = 0;
    trace.ids = NULL;
    assert_ok(REAL(attn_chain_trace)(&context, &trace));
    assert_untouched((const real *)&m, sizeof m / sizeof(real));
}

static void test_no_values(void **state) {
    (void)state;
    real *table = example_table();
    example_matrices plain = run_example(0, example_ids), m;
    REAL(attn_trace) trace = example_trace(table);
    example_want_all(&trace, &m);
    trace.d_v = 0;
    trace.w_v = NULL;
    assert_ok(REAL(attn_chain_trace)(NULL, &trace));
    assert_same_bits(m.a, plain.a, TOKENS * TOKENS);
    assert_untouched(m.v, TOKENS * DIM);
    assert_untouched(m.z, TOKENS * DIM);
    free(table);
}

/* The k-th allocation fails, for every k that there is: ATTN_ERR_NOMEM, nothing written, nothing lost. */
static void test_every_allocation_may_fail(void **state) {
    (void)state;
    enum { Z = 1 << 9 };
    chain c = chain_create();
    int64_t k = 0;
    for (;; k++) {
        counting_allocator allocator = {.fail_at = k};
        attn_context context = counting_context(&allocator);
        chain_poison(&c);
        REAL(attn_trace) t = trace_of(&c, Z, 0);
        attn_status status = REAL(attn_chain_trace)(&context, &t);
        assert_int_equal(allocator.live, 0);
        assert_int_equal(allocator.live_size, 0);
        if (allocator.calls <= k) {
            assert_int_equal(status, ATTN_OK);
            assert_rows_only(c.matrix[9], N, D_V, D_V);
            break;
        }
        assert_int_equal(status, ATTN_ERR_NOMEM);
        assert_non_null(strstr(attn_last_error(), "the allocator returned NULL for "));
        for (int m = 0; m < MATRICES; m++)
            assert_untouched(c.matrix[m], N * cols_of[m]);
    }
    assert_true(k >= 1);
    chain_free(&c);
}

/* The stages themselves allocate nothing for a few numbers. */
static void test_stages_take_no_memory(void **state) {
    (void)state;
    counting_allocator allocator = {.fail_at = 0};
    attn_context context = counting_context(&allocator);
    chain c = chain_create();
    real *const *m = c.matrix;
    assert_ok(REAL(attn_embed)(&context, N, ROWS_OF_TABLE, D, c.ids, c.table, D, m[0], D));
    assert_ok(REAL(attn_sinusoidal)(&context, N, D, 0, 10000, m[1], D));
    assert_ok(REAL(attn_add)(&context, N, D, m[0], D, m[1], D, m[2], D));
    assert_ok(REAL(attn_project)(&context, 1, N, D, D_K, m[2], 0, D, c.w_q, D_K, c.b_q, m[3], 0, D_K));
    assert_ok(REAL(attn_scores)(&context, N, N, D_K, m[3], D_K, m[3], D_K, 1, m[7], N));
    assert_ok(REAL(attn_softmax)(&context, N, N, m[7], N, m[8], N));
    assert_ok(REAL(attn_combine)(&context, N, N, D_K, m[8], N, m[3], D_K, m[9], D_K));
    assert_int_equal(allocator.calls, 0);
    chain_free(&c);
}

/* A large projection may pack its weights, in one piece of memory, which in a traced call is part of its own. */
static void test_memory_of_a_projection(void **state) {
    (void)state;
    enum { ROWS = 131, IN = 127, OUT = 137 };
    real *x = random_numbers(ROWS * IN, 1), *w = random_numbers(IN * OUT, 2), *q = poisoned(ROWS * OUT);
    real *wanted = poisoned(ROWS * OUT);
    int64_t ids[ROWS];
    for (int i = 0; i < ROWS; i++)
        ids[i] = i;
    assert_ok(REAL(attn_project)(NULL, 1, ROWS, IN, OUT, x, 0, IN, w, OUT, NULL, wanted, 0, OUT));
    REAL(attn_trace) t = ATTN_STRUCT_INIT(REAL(attn_trace));
    t.flags = ATTN_TRACE_NO_POSITIONS;
    t.tokens = t.vocab = ROWS;
    t.d_model = IN;
    t.d_k = OUT;
    t.ids = ids;
    t.table = x;
    t.w_q = w;
    t.q = q;
    for (int traced = 0; traced < 2; traced++)
        for (int64_t fail_at = -1; fail_at < 1; fail_at++) {
            counting_allocator allocator = {.fail_at = fail_at};
            attn_context context = counting_context(&allocator);
            memset(q, 0xff, ROWS * OUT * sizeof(real));
            attn_status status =
                traced ? REAL(attn_chain_trace)(&context, &t)
                       : REAL(attn_project)(&context, 1, ROWS, IN, OUT, x, 0, IN, w, OUT, NULL, q, 0, OUT);
            assert_true(allocator.calls == 1 || (!traced && allocator.calls == 0));
            assert_int_equal(allocator.live, 0);
            assert_int_equal(allocator.live_size, 0);
            if (fail_at == 0 && allocator.calls == 1) {
                assert_int_equal(status, ATTN_ERR_NOMEM);
                assert_untouched(q, ROWS * OUT);
            } else {
                assert_int_equal(status, ATTN_OK);
                assert_same_bits(q, wanted, ROWS * OUT);
            }
        }
    free(x);
    free(w);
    free(q);
    free(wanted);
}

static void test_init(void **state) {
    (void)state;
    REAL(attn_trace) t[2], cleared = ATTN_STRUCT_INIT(REAL(attn_trace));
    memset(t, 0xff, sizeof t);
    assert_ok(REAL(attn_trace_init)(&t[0], sizeof t[0]));
    assert_memory_equal(&t[0], &cleared, sizeof t[0]);
    assert_true(all_poison(&t[1], sizeof t[1]));
    assert_int_equal(REAL(attn_trace_init)(&t[1], sizeof t[1] + 1), ATTN_ERR_STRUCT_SIZE);
    assert_int_equal(REAL(attn_trace_init)(&t[1], sizeof t[1] - 1), ATTN_ERR_STRUCT_SIZE);
    assert_int_equal(REAL(attn_trace_init)(NULL, sizeof t[1]), ATTN_ERR_NULL);
    assert_true(all_poison(&t[1], sizeof t[1]));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_subset),
        cmocka_unit_test(test_unneeded_inputs),
        cmocka_unit_test(test_unset_fields),
        cmocka_unit_test(test_bias),
        cmocka_unit_test(test_no_tokens),
        cmocka_unit_test(test_no_values),
        cmocka_unit_test(test_every_allocation_may_fail),
        cmocka_unit_test(test_stages_take_no_memory),
        cmocka_unit_test(test_memory_of_a_projection),
        cmocka_unit_test(test_init),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
