/* Extremes that once went wrong: outputs over the lengths, generous sizes, sinks without end, threads without
 * number. */
#include "sdpa_test.h"

#include <unistd.h>

enum { ROWS = 3, KEYS = 5, DIM = 67 };

typedef struct tiny {
    real q[ROWS * DIM], k[KEYS * DIM], v[KEYS * DIM], out[ROWS * DIM], lse[ROWS];
    attn_problem problem;
    real_args args;
} tiny;

static tiny make_tiny(attn_engine engine) {
    tiny t = {.problem = ATTN_PROBLEM_INIT, .args = {.struct_size = sizeof(real_args)}};
    for (int i = 0; i < KEYS * DIM; i++)
        t.k[i] = t.v[i] = t.q[i % (ROWS * DIM)] = (real)(i % 3 + 1) / 4;
    t.problem.engine = engine;
    t.problem.batch = t.problem.q_heads = t.problem.kv_heads = 1;
    t.problem.q_len = ROWS;
    t.problem.kv_len = KEYS;
    t.problem.head_dim = t.problem.v_dim = DIM;
    return t;
}

/* Pointers last: a struct that was returned has moved. */
static void connect(tiny *t) {
    assert_int_equal(attn_problem_layout_bhld(&t->problem), ATTN_OK);
    t->args.q = t->q;
    t->args.k = t->k;
    t->args.v = t->v;
    t->args.out = t->out;
    t->args.lse = t->lse;
}

static void test_output_over_lengths(void **state) {
    (void)state;
    int64_t lengths[2 * ROWS * DIM] = {KEYS, KEYS};
    for (int engine = ATTN_ENGINE_NAIVE; engine <= ATTN_ENGINE_FUSED; engine++) {
        tiny t = make_tiny((attn_engine)engine);
        connect(&t);
        t.args.kv_lens = lengths;
        t.args.out = (real *)lengths;
        assert_int_equal(REAL(attn_sdpa)(NULL, &t.problem, &t.args), ATTN_ERR_OVERLAP);
        assert_non_null(strstr(attn_last_error(), "kv_lens"));
        assert_int_equal(lengths[0], KEYS);
    }
}

static void test_sink_without_end_takes_everything(void **state) {
    (void)state;
    const real sink[] = {(real)INFINITY};
    for (int engine = ATTN_ENGINE_NAIVE; engine <= ATTN_ENGINE_FUSED; engine++) {
        tiny t = make_tiny((attn_engine)engine);
        t.problem.flags = ATTN_HAS_SINK;
        connect(&t);
        t.args.sink = sink;
        memset(t.out, 0xff, sizeof t.out);
        assert_int_equal(REAL(attn_sdpa)(NULL, &t.problem, &t.args), ATTN_OK);
        for (int i = 0; i < ROWS * DIM; i++)
            assert_true(t.out[i] == 0);
        assert_true(isfinite(t.lse[0]));
    }
}

static void test_generous_ragged_sizes_cost_nothing(void **state) {
    (void)state;
    const int64_t q_offsets[] = {0, ROWS}, kv_offsets[] = {0, KEYS};
    for (int engine = ATTN_ENGINE_NAIVE; engine <= ATTN_ENGINE_FUSED; engine++) {
        tiny t = make_tiny((attn_engine)engine);
        t.problem.flags = ATTN_RAGGED;
        t.problem.q_len = t.problem.kv_len = INT64_C(1) << 45;
        t.problem.total_q = ROWS;
        t.problem.total_kv = KEYS;
        connect(&t);
        t.args.q_offsets = q_offsets;
        t.args.kv_offsets = kv_offsets;
        memset(t.out, 0xff, sizeof t.out);
        assert_int_equal(REAL(attn_sdpa)(NULL, &t.problem, &t.args), ATTN_OK);
        for (int i = 0; i < ROWS * DIM; i++)
            assert_true(isfinite(t.out[i]));
        /* and batch strides do not count */
        t.problem.q.batch = -1;
        assert_int_equal(REAL(attn_sdpa)(NULL, &t.problem, &t.args), ATTN_OK);
    }
}

static void test_empty_problems_of_any_size(void **state) {
    (void)state;
    for (int engine = ATTN_ENGINE_NAIVE; engine <= ATTN_ENGINE_FUSED; engine++) {
        tiny t = make_tiny((attn_engine)engine);
        t.problem.batch = 0;
        t.problem.head_dim = INT64_C(1) << 40;
        connect(&t);
        assert_int_equal(REAL(attn_sdpa)(NULL, &t.problem, &t.args), ATTN_OK);
    }
}

/* 2^61 heads, or members, without anything to write come back at once. */
static void test_nothing_to_write_takes_no_time(void **state) {
    (void)state;
    alarm(60);
    for (int engine = ATTN_ENGINE_NAIVE; engine <= ATTN_ENGINE_FUSED; engine++)
        for (int heads = 0; heads < 2; heads++) {
            tiny t = make_tiny((attn_engine)engine);
            connect(&t);
            *(heads ? &t.problem.q_heads : &t.problem.batch) = INT64_C(1) << 61;
            t.problem.q.batch = t.problem.k.batch = t.problem.q.head = t.problem.k.head = 0;
            t.problem.kv_heads = t.problem.q_heads;
            t.problem.v_dim = 0;
            t.args.lse = NULL;
            assert_int_equal(REAL(attn_sdpa)(NULL, &t.problem, &t.args), ATTN_OK);
        }
    alarm(0);
}

/* Sizes of a head whose bytes overflow, of problems without elements: planned and run like others. */
static void test_heads_of_any_size_without_elements(void **state) {
    (void)state;
    for (int shift = 55; shift <= 62; shift++)
        for (int v = 0; v < 2; v++) {
            attn_problem p = ATTN_PROBLEM_INIT;
            p.batch = p.q_heads = p.kv_heads = p.head_dim = 1;
            *(v ? &p.v_dim : &p.head_dim) = INT64_C(1) << shift;
            assert_ok(attn_problem_layout_bhld(&p));
            attn_plan *plan;
            assert_ok(attn_plan_create(NULL, &p, REAL_DTYPE, &plan));
            attn_plan_destroy(plan);
        }
}

static int does_nothing(void *data, int workers, attn_parallel_body body, void *argument) {
    (void)data, (void)workers, (void)body, (void)argument;
    return 0;
}

static void test_work_left_undone_is_an_error(void **state) {
    (void)state;
    tiny t = make_tiny(ATTN_ENGINE_FUSED);
    t.problem.batch = 2;
    connect(&t);
    t.problem.q.batch = t.problem.k.batch = t.problem.v.batch = 0;
    real out[2 * ROWS * DIM];
    t.args.out = out;
    t.args.lse = NULL;
    attn_context context = ATTN_CONTEXT_INIT;
    context.threads = 2;
    context.parallel_for = does_nothing;
    assert_int_equal(REAL(attn_sdpa)(&context, &t.problem, &t.args), ATTN_ERR_THREADS);
}

static void test_scale_that_rounds_to_zero_reads_no_keys(void **state) {
    (void)state;
    for (int engine = ATTN_ENGINE_NAIVE; engine <= ATTN_ENGINE_FUSED; engine++) {
        tiny t = make_tiny((attn_engine)engine);
        t.problem.flags = ATTN_HAS_SCALE;
        t.problem.scale = ATTN_REAL_BITS == 32 ? 1e-60 : 0;
        connect(&t);
        t.args.k = NULL;
        assert_int_equal(REAL(attn_sdpa)(NULL, &t.problem, &t.args), ATTN_OK);
        assert_true(isfinite(t.out[0]));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_output_over_lengths),
        cmocka_unit_test(test_sink_without_end_takes_everything),
        cmocka_unit_test(test_generous_ragged_sizes_cost_nothing),
        cmocka_unit_test(test_empty_problems_of_any_size),
        cmocka_unit_test(test_heads_of_any_size_without_elements),
        cmocka_unit_test(test_nothing_to_write_takes_no_time),
        cmocka_unit_test(test_work_left_undone_is_an_error),
        cmocka_unit_test(test_scale_that_rounds_to_zero_reads_no_keys),
    };
    return run_sdpa_tests(tests);
}
