/* Bad arguments: each has its status and a sentence that names the argument and its value, whichever way in is taken;
 * nothing is written and nothing printed. */
#include "sdpa_test.h"

#include <float.h>
#include <unistd.h>

#include "blas/blas.h"
#include "support/child.h"

enum { BATCH = 2, Q_HEADS = 4, KV_HEADS = 2, Q_LEN = 5, KV_LEN = 7, DIM = 3, V_DIM = 2 };
#define PROBLEM_TEXT "b2h4/2q5k7d3v2,lse"

/* A good problem with data, outputs poisoned. */
static trial good;

static int open_good(void **state) {
    (void)state;
    trial_open(&good, PROBLEM_TEXT);
    return 0;
}

static int close_good(void **state) {
    (void)state;
    trial_close(&good);
    return 0;
}

static void assert_outputs_untouched(void) {
    assert_untouched(good.data.base[SUPPORT_OUT], good.data.elements[SUPPORT_OUT]);
    assert_untouched(good.data.base[SUPPORT_LSE], good.data.elements[SUPPORT_LSE]);
}

static void assert_failed(attn_status got, attn_status wanted, const char *words) {
    if (got != wanted)
        fail_msg("status %d (%s) where %d and \"%s\" are wanted", (int)got, attn_last_error(), (int)wanted, words);
    if (strstr(attn_last_error(), words) == NULL)
        fail_msg("the sentence is \"%s\", without \"%s\"", attn_last_error(), words);
    assert_outputs_untouched();
}

/* ---- Problems ---------------------------------------------------------------------------------------------------- */

/* The flops of a problem do not depend on precision and engine; a problem that fails for these alone has flops. */
typedef enum flops_too { FLOPS_FAIL, FLOPS_EXIST } flops_too;

static void refuse_problem(const attn_problem *problem, attn_status wanted, const char *words, flops_too flops) {
    attn_plan *plan = (attn_plan *)&good;
    double count = -1;
    support_data_poison_outputs(&good.data);
    assert_failed(REAL(attn_sdpa)(NULL, problem, trial_args(&good)), wanted, words);
    assert_failed(attn_plan_create(NULL, problem, REAL_DTYPE, &plan), wanted, words);
    assert_ptr_equal(plan, &good);
    if (flops == FLOPS_FAIL) {
        assert_failed(attn_problem_flops(problem, NULL, NULL, &count), wanted, words);
        assert_true(count == -1);
    }
}

#define REFUSE(change, status, words) REFUSE_BUT_FLOPS(change, status, words, FLOPS_FAIL)
#define REFUSE_BUT_FLOPS(change, status, words, flops)                                                                 \
    do {                                                                                                               \
        attn_problem p = trial_problem(&good, engine);                                                                 \
        change;                                                                                                        \
        refuse_problem(&p, status, words, flops);                                                                      \
    } while (0)

static void test_sizes(void **state) {
    (void)state;
    for_each_engine(engine) {
        REFUSE(p.batch = -1, ATTN_ERR_SIZE, "batch -1 is below 0");
        REFUSE(p.q_heads = -4, ATTN_ERR_SIZE, "q_heads -4 is below 0");
        REFUSE(p.kv_heads = -2, ATTN_ERR_SIZE, "kv_heads -2 is below 0");
        REFUSE(p.kv_heads = 3, ATTN_ERR_SIZE, "kv_heads 3 does not divide q_heads 4");
        REFUSE(p.kv_heads = 0, ATTN_ERR_SIZE, "kv_heads 0 does not divide q_heads 4");
        REFUSE(p.kv_heads = 8, ATTN_ERR_SIZE, "kv_heads 8 does not divide q_heads 4");
        REFUSE(p.q_len = -5, ATTN_ERR_SIZE, "q_len -5 is below 0");
        REFUSE(p.kv_len = INT64_MIN, ATTN_ERR_SIZE, "kv_len -9223372036854775808 is below 0");
        REFUSE(p.head_dim = 0, ATTN_ERR_SIZE, "head_dim 0 is below 1");
        REFUSE(p.head_dim = -3, ATTN_ERR_SIZE, "head_dim -3 is below 1");
        REFUSE(p.v_dim = -1, ATTN_ERR_SIZE, "v_dim -1 is below 0");
    }
}

static void test_strides(void **state) {
    (void)state;
    for_each_engine(engine) {
        REFUSE(p.q.row = DIM - 1, ATTN_ERR_STRIDE, "q: row stride 2 is below the row size 3");
        REFUSE(p.k.row = 0, ATTN_ERR_STRIDE, "k: row stride 0 is below the row size 3");
        REFUSE(p.v.row = 1, ATTN_ERR_STRIDE, "v: row stride 1 is below the row size 2");
        REFUSE(p.q.batch = -1, ATTN_ERR_STRIDE, "q: batch stride -1 is negative");
        REFUSE(p.k.head = -21, ATTN_ERR_STRIDE, "k: head stride -21 is negative");
        REFUSE(p.v.row = INT64_MIN, ATTN_ERR_STRIDE, "v: row stride -9223372036854775808 is negative");
        REFUSE(p.out.batch = -40, ATTN_ERR_STRIDE, "out: batch stride -40 is negative");
        REFUSE(p.out.row = 1, ATTN_ERR_STRIDE, "out: row stride 1 is below the row size 2");
        /* an output has no broadcast */
        REFUSE(p.out.batch = 0, ATTN_ERR_STRIDE, "out: a stride of 0");
        REFUSE(p.out.head = 0, ATTN_ERR_STRIDE, "out: a stride of 0");
        REFUSE(p.out.head = Q_LEN * V_DIM - 1, ATTN_ERR_STRIDE, "out: a stride of 9");
        REFUSE(p.out.batch = Q_HEADS * Q_LEN * V_DIM - 1, ATTN_ERR_STRIDE, "out: a stride of 39");
    }
}

static void test_numbers(void **state) {
    (void)state;
    for_each_engine(engine) {
        REFUSE((p.flags |= ATTN_HAS_SCALE, p.scale = (double)NAN), ATTN_ERR_VALUE, "scale nan");
        REFUSE((p.flags |= ATTN_HAS_SCALE, p.scale = (double)INFINITY), ATTN_ERR_VALUE, "scale inf");
        REFUSE((p.flags |= ATTN_HAS_SCALE, p.scale = -(double)INFINITY), ATTN_ERR_VALUE, "scale -inf");
        REFUSE((p.flags |= ATTN_HAS_SOFTCAP, p.softcap = (double)NAN), ATTN_ERR_VALUE, "softcap nan");
        REFUSE((p.flags |= ATTN_HAS_SOFTCAP, p.softcap = (double)INFINITY), ATTN_ERR_VALUE, "softcap inf");
        REFUSE((p.flags |= ATTN_HAS_SOFTCAP, p.softcap = -2), ATTN_ERR_VALUE, "softcap -2");
        REFUSE((p.flags |= ATTN_HAS_WINDOW, p.window_left = -2), ATTN_ERR_VALUE, "window_left -2 is below -1");
        REFUSE((p.flags |= ATTN_HAS_WINDOW, p.window_right = INT64_MIN), ATTN_ERR_VALUE,
               "window_right -9223372036854775808 is below -1");
        REFUSE((p.flags |= ATTN_HAS_MASK | ATTN_HAS_MASK_LEN, p.mask_len = -1), ATTN_ERR_SIZE, "mask_len -1");
        REFUSE((p.flags |= ATTN_HAS_BIAS | ATTN_HAS_BIAS_LEN, p.bias_len = -1), ATTN_ERR_SIZE, "bias_len -1");
        if (REAL_DTYPE == ATTN_F32) {
            REFUSE_BUT_FLOPS((p.flags |= ATTN_HAS_SCALE, p.scale = 1e300), ATTN_ERR_VALUE,
                             "scale 1e+300 does not fit float", FLOPS_EXIST);
            REFUSE_BUT_FLOPS((p.flags |= ATTN_HAS_SOFTCAP, p.softcap = 1e300), ATTN_ERR_VALUE,
                             "softcap 1e+300 does not fit float", FLOPS_EXIST);
            REFUSE_BUT_FLOPS((p.flags |= ATTN_HAS_SOFTCAP, p.softcap = 1e-60), ATTN_ERR_VALUE,
                             "softcap 1e-60 is 0 in float", FLOPS_EXIST);
        }
    }
}

static void test_flags(void **state) {
    (void)state;
    for_each_engine(engine) {
        REFUSE(p.flags |= UINT64_C(1) << 16, ATTN_ERR_FLAG, "flags: 0x10000");
        REFUSE(p.flags |= UINT64_C(1) << 63, ATTN_ERR_FLAG, "flags: 0x8000000000000000");
        REFUSE(p.flags |= ATTN_FLAT_BOTTOM_RIGHT, ATTN_ERR_FLAG, "flags: 0x100000000");
        REFUSE(p.engine = (attn_engine)4, ATTN_ERR_FLAG, "engine 4");
        REFUSE(p.engine = (attn_engine)-1, ATTN_ERR_FLAG, "engine -1");
        REFUSE(p.alignment = (attn_alignment)3, ATTN_ERR_FLAG, "alignment 3");
        REFUSE(p.alignment = (attn_alignment)-1, ATTN_ERR_FLAG, "alignment -1");
        REFUSE(p.alignment = ATTN_ALIGN_OFFSET, ATTN_ERR_FLAG, "needs ATTN_HAS_OFFSET");
        REFUSE(p.flags |= ATTN_HAS_OFFSET, ATTN_ERR_FLAG, "ATTN_HAS_OFFSET goes with");
        REFUSE(p.flags |= ATTN_HAS_MASK_LEN, ATTN_ERR_FLAG, "ATTN_HAS_MASK_LEN goes with ATTN_HAS_MASK");
        REFUSE(p.flags |= ATTN_HAS_BIAS_LEN, ATTN_ERR_FLAG, "ATTN_HAS_BIAS_LEN goes with ATTN_HAS_BIAS");
    }
}

static void test_struct_sizes(void **state) {
    (void)state;
    for_each_engine(engine) {
        REFUSE(p.struct_size = 0, ATTN_ERR_STRUCT_SIZE, "attn_problem: struct_size 0");
        REFUSE(p.struct_size = sizeof p - 8, ATTN_ERR_STRUCT_SIZE, "attn_problem: struct_size");
        REFUSE(p.struct_size = sizeof p + 8, ATTN_ERR_STRUCT_SIZE, "attn_problem: struct_size");
        REFUSE(p.struct_size = SIZE_MAX, ATTN_ERR_STRUCT_SIZE, "attn_problem: struct_size");
    }
}

/* fused refuses the intermediates. */
static void test_unsupported_options(void **state) {
    (void)state;
    const attn_engine engine = ATTN_ENGINE_FUSED;
    static const uint64_t wanted[] = {ATTN_WANT_SCORES, ATTN_WANT_CAPPED, ATTN_WANT_MASKED, ATTN_WANT_WEIGHTS};
    for (int n = 0; n < 4; n++)
        REFUSE(p.flags |= wanted[n], ATTN_ERR_UNSUPPORTED,
               "the engine fused never has the whole scores or weights: use blas or naive");
}

static void test_strides_of_options(void **state) {
    (void)state;
    for_each_engine(engine) {
        REFUSE((p.flags |= ATTN_HAS_MASK, p.mask.key = 2), ATTN_ERR_STRIDE, "mask: key stride 2 is neither 0 nor 1");
        REFUSE((p.flags |= ATTN_HAS_MASK, p.mask.key = -1), ATTN_ERR_STRIDE, "mask: key stride -1");
        REFUSE((p.flags |= ATTN_HAS_MASK, p.mask.row = -1), ATTN_ERR_STRIDE, "mask: row stride -1 is negative");
        REFUSE((p.flags |= ATTN_HAS_BIAS, p.bias.key = 7), ATTN_ERR_STRIDE, "bias: key stride 7 is neither 0 nor 1");
        REFUSE((p.flags |= ATTN_HAS_BIAS, p.bias.batch = -7), ATTN_ERR_STRIDE, "bias: batch stride -7 is negative");
        REFUSE((p.flags |= ATTN_HAS_BIAS, p.bias.head = INT64_MAX), ATTN_ERR_OVERFLOW, "bias: ");
        REFUSE((p.flags |= ATTN_RAGGED, p.total_q = -1), ATTN_ERR_SIZE, "total_q -1");
        REFUSE((p.flags |= ATTN_RAGGED, p.total_kv = -1), ATTN_ERR_SIZE, "total_kv -1");
        if (engine == ATTN_ENGINE_FUSED)
            continue;
        REFUSE((p.flags |= ATTN_WANT_WEIGHTS, p.scores.row = KV_LEN - 1), ATTN_ERR_STRIDE,
               "weights: row stride 6 is below the row size 7");
        REFUSE((p.flags |= ATTN_WANT_SCORES, p.scores.batch = 0), ATTN_ERR_STRIDE, "scores: a stride of 0");
    }
}

/* Sums and products beyond 63 bits, and sizes beyond BLAS's integers. */
static void test_overflow(void **state) {
    (void)state;
    for_each_engine(engine) {
        REFUSE(p.q.batch = INT64_MAX, ATTN_ERR_OVERFLOW, "q: ");
        REFUSE(p.k.head = INT64_MAX, ATTN_ERR_OVERFLOW, "k: ");
        REFUSE(p.v.row = INT64_MAX / 2, ATTN_ERR_OVERFLOW, "v: ");
        REFUSE(p.out.row = INT64_MAX / 4, ATTN_ERR_OVERFLOW, "out: ");
        REFUSE((p.kv_len = INT64_MAX, p.k.row = p.v.row = DIM), ATTN_ERR_OVERFLOW, "k: ");
        REFUSE((p.q_len = INT64_MAX, p.q.row = DIM), ATTN_ERR_OVERFLOW, "q: ");
        REFUSE((p.head_dim = INT64_MAX, p.q.row = p.k.row = INT64_MAX), ATTN_ERR_OVERFLOW, "q: ");
        if (engine == ATTN_ENGINE_NAIVE || ATTN_BLAS_INTEGER_BITS == 64)
            continue;
        const int64_t wide = INT64_C(1) << 31;
        REFUSE_BUT_FLOPS(p.q.row = p.q.head = p.q.batch = wide, ATTN_ERR_OVERFLOW,
                         "q: row stride 2147483648 does not fit the integer of the BLAS library", FLOPS_EXIST);
        REFUSE_BUT_FLOPS((p.head_dim = wide, p.q.row = p.k.row = wide), ATTN_ERR_OVERFLOW,
                         "head_dim 2147483648 does not fit the integer of the BLAS library", FLOPS_EXIST);
        REFUSE_BUT_FLOPS((p.v_dim = wide, p.v.row = wide, p.out = (attn_strides){64 * wide, 8 * wide, wide}),
                         ATTN_ERR_OVERFLOW, "v_dim 2147483648 does not fit the integer of the BLAS library",
                         FLOPS_EXIST);
        if (engine == ATTN_ENGINE_BLAS)
            REFUSE_BUT_FLOPS(p.kv_len = wide, ATTN_ERR_OVERFLOW,
                             "kv_len 2147483648 does not fit the integer of the BLAS library", FLOPS_EXIST);
    }
}

/* A stride that separates nothing may be anything that is not negative. */
static void test_strides_without_meaning(void **state) {
    (void)state;
    trial t;
    trial_open(&t, "q1k1d3");
    for_each_engine(engine) {
        attn_problem problem = trial_problem(&t, engine);
        problem.q = problem.k = problem.v = problem.out = (attn_strides){INT64_MAX, INT64_MAX, INT64_MAX};
        support_data_poison_outputs(&t.data);
        assert_ok(REAL(attn_sdpa)(NULL, &problem, trial_args(&t)));
        trial_verify(&t, engine);
        problem.q = problem.k = problem.v = problem.out = (attn_strides){0, 0, 0};
        support_data_poison_outputs(&t.data);
        assert_ok(REAL(attn_sdpa)(NULL, &problem, trial_args(&t)));
        trial_verify(&t, engine);
    }
    trial_close(&t);
}

/* So may all strides of an array without elements, and those of an lse that nobody wants; its address may be NULL. The
 * sanitizer of undefined behaviour sees whether sums are made with them, clang's those with NULL too. */
static void test_empty_arrays(void **state) {
    (void)state;
    const attn_strides anything = {INT64_MAX, INT64_MAX, INT64_MAX};
    static const char *const texts[] = {
        "b2h4/2q5k0d3v2,lse",
        "b2h4/2q5k0d3v2,mask,bias,alibi,sink,lse",
        "b2h4/2q5k0d3v2,mask,bias,lse,want=scores+capped+masked+weights",
        "b2h4/2q40k0d3v2,mask,bias,lse",
        "b2h4/2q1k7d3v0,lse",
        "b2h4/2q5k70d3v0,lse",
        "b2h4/2q40k70d3v0,lse",
        "b2h4/2q40k70d3v0,causal,softcap=2,lse,want=scores+weights",
        "b2h4/2q5k70d3v2,mask,mask_len=0,lse",
        "b2h4/2q40k70d3v2,bias,bias_len=0,lse,want=masked",
        "b2h4/2q40k70d3v2,mask,mask_len=0,bias,bias_len=0",
        "b2h4/2q5k7d3v2,ragged=0:0/0:7,lse",
        "b2h4/2q5k7d3v2,ragged=5:0/0:0,lse",
        "b2h4/2q5k7d3v2,ragged=0:0/7:0,lse,want=scores",
        "b3h4/2q1k1d3v2,ragged=1:0:0/1:0:0,lse",
        "b3h4/2q1k1d3v0,ragged=0:1:0/1:0:0,lse",
        "b2h4/2q41k71d3v2,ragged=41:0/71:0,layout=blhd,lse",
        "b2h4/2q5k7d3v2",
    };
    for (size_t n = 0; n < sizeof texts / sizeof *texts; n++)
        for_each_engine(engine) {
            trial t;
            trial_open(&t, texts[n]);
            attn_problem p = trial_problem(&t, engine);
            real_args args = *trial_args(&t);
            bool ragged = (p.flags & ATTN_RAGGED) != 0;
            int64_t q_rows = ragged ? p.total_q : p.q_len, kv_rows = ragged ? p.total_kv : p.kv_len;
            if (kv_rows == 0) {
                p.k = p.v = anything;
                args.k = args.v = NULL;
            }
            if (q_rows == 0) {
                p.q = p.out = p.lse = anything;
                args.q = NULL;
                args.out = args.lse = NULL;
            }
            if (p.v_dim == 0) {
                p.v = p.out = anything;
                args.v = NULL;
                args.out = NULL;
            }
            if (p.kv_len == 0) {
                p.scores = anything;
                args.scores = args.capped = args.masked = args.weights = NULL;
            }
            if (p.kv_len == 0 || ((p.flags & ATTN_HAS_MASK_LEN) != 0 && p.mask_len == 0)) {
                p.mask = (attn_mask_strides){INT64_MAX, INT64_MAX, INT64_MAX, 1};
                args.mask = NULL;
            }
            if (p.kv_len == 0 || ((p.flags & ATTN_HAS_BIAS_LEN) != 0 && p.bias_len == 0)) {
                p.bias = (attn_mask_strides){INT64_MAX, INT64_MAX, INT64_MAX, 1};
                args.bias = NULL;
            }
            if (q_rows == 1)
                p.q.row = p.out.row = p.lse.row = INT64_MAX;
            if (kv_rows == 1)
                p.k.row = p.v.row = INT64_MAX;
            if (args.lse == NULL)
                p.lse = anything;
            if (engine_can(&t, engine)) {
                assert_ok(REAL(attn_sdpa)(NULL, &p, &args));
                trial_verify(&t, engine);
            }
            trial_close(&t);
        }
}

/* Fields whose flag is not set are not looked at. */
static void test_fields_without_flags(void **state) {
    (void)state;
    trial t;
    trial_open(&t, PROBLEM_TEXT);
    for_each_engine(engine) {
        attn_problem problem = trial_problem(&t, engine);
        problem.scale = problem.softcap = (double)NAN;
        problem.offset = INT64_MIN;
        problem.window_left = problem.window_right = -9;
        problem.mask_len = problem.bias_len = problem.total_q = problem.total_kv = -1;
        problem.mask = problem.bias = (attn_mask_strides){-1, -1, -1, -1};
        problem.scores = (attn_strides){-1, -1, -1};
        support_data_poison_outputs(&t.data);
        assert_ok(REAL(attn_sdpa)(NULL, &problem, trial_args(&t)));
        trial_verify(&t, engine);
    }
    trial_close(&t);
}

/* ---- Arguments --------------------------------------------------------------------------------------------------- */

/* One-shot and through a plan, with a workspace and without. */
static void refuse_args(const attn_problem *problem, const real_args *args, attn_status wanted, const char *words) {
    attn_plan *plan;
    size_t bytes;
    support_data_poison_outputs(&good.data);
    assert_failed(REAL(attn_sdpa)(NULL, problem, args), wanted, words);
    assert_ok(attn_plan_create(NULL, problem, REAL_DTYPE, &plan));
    assert_ok(attn_plan_workspace(plan, &bytes));
    void *workspace = aligned_alloc(ATTN_WORKSPACE_ALIGN, bytes);
    assert_non_null(workspace);
    assert_failed(REAL(attn_plan_run)(plan, args, workspace, bytes), wanted, words);
    assert_failed(REAL(attn_plan_run)(plan, args, NULL, 0), wanted, words);
    free(workspace);
    attn_plan_destroy(plan);
}

#define REFUSE_ARGS(change, status, words)                                                                             \
    do {                                                                                                               \
        attn_problem p = trial_problem(&good, engine);                                                                 \
        real_args a = *trial_args(&good);                                                                              \
        change;                                                                                                        \
        refuse_args(&p, &a, status, words);                                                                            \
    } while (0)

static void test_null(void **state) {
    (void)state;
    for_each_engine(engine) {
        REFUSE_ARGS(a.q = NULL, ATTN_ERR_NULL, "q is NULL");
        REFUSE_ARGS(a.k = NULL, ATTN_ERR_NULL, "k is NULL");
        REFUSE_ARGS(a.v = NULL, ATTN_ERR_NULL, "v is NULL");
        REFUSE_ARGS(a.out = NULL, ATTN_ERR_NULL, "out is NULL");
        attn_problem p = trial_problem(&good, engine);
        assert_failed(REAL(attn_sdpa)(NULL, NULL, trial_args(&good)), ATTN_ERR_NULL, "problem is NULL");
        assert_failed(REAL(attn_sdpa)(NULL, &p, NULL), ATTN_ERR_NULL, "args is NULL");
        assert_failed(REAL(attn_plan_run)(NULL, trial_args(&good), NULL, 0), ATTN_ERR_NULL, "plan is NULL");
        attn_plan *plan = (attn_plan *)&good;
        size_t bytes = 7;
        assert_failed(attn_plan_create(NULL, NULL, REAL_DTYPE, &plan), ATTN_ERR_NULL, "problem is NULL");
        assert_ptr_equal(plan, &good);
        assert_failed(attn_plan_create(NULL, &p, REAL_DTYPE, NULL), ATTN_ERR_NULL, "plan is NULL");
        assert_failed(attn_plan_workspace(NULL, &bytes), ATTN_ERR_NULL, "plan is NULL");
        assert_int_equal(bytes, 7);
        assert_failed(attn_plan_describe(NULL, NULL, 0, NULL), ATTN_ERR_NULL, "plan is NULL");
        assert_ok(attn_plan_create(NULL, &p, REAL_DTYPE, &plan));
        assert_failed(attn_plan_workspace(plan, NULL), ATTN_ERR_NULL, "bytes is NULL");
        assert_failed(attn_plan_describe(plan, NULL, 5, NULL), ATTN_ERR_NULL, "text is NULL");
        assert_failed(REAL(attn_plan_run)(plan, NULL, NULL, 0), ATTN_ERR_NULL, "args is NULL");
        attn_plan_destroy(plan);
        attn_plan_destroy(NULL);
    }
}

/* Pointers that may be NULL: lse, K at scale 0, arrays without elements. */
static void test_null_that_is_right(void **state) {
    (void)state;
    trial t;
    trial_open(&t, "b2h4/2q5k7d3v2,scale=0");
    for_each_engine(engine) {
        attn_problem problem = trial_problem(&t, engine);
        real_args args = *trial_args(&t);
        args.k = NULL;
        args.lse = NULL;
        support_data_poison_outputs(&t.data);
        assert_ok(REAL(attn_sdpa)(NULL, &problem, &args));
        trial_verify(&t, engine);
    }
    trial_close(&t);
    static const struct {
        const char *problem;
        bool q, k, v, out; /* has elements */
    } empty[] = {
        {"b0q5k7d3", false, false, false, false},  {"q0k7d3", false, true, true, false},
        {"q5k0d3", true, false, false, true},      {"q5k7d3v0", true, true, false, false},
        {"q40k600d3v0", true, true, false, false}, {"b2q0k0d3v0", false, false, false, false},
    };
    for (size_t n = 0; n < sizeof empty / sizeof *empty; n++) {
        trial_open(&t, empty[n].problem);
        for_each_engine(engine) {
            attn_problem problem = trial_problem(&t, engine);
            real_args args = *trial_args(&t);
            args.q = empty[n].q ? args.q : NULL;
            args.k = empty[n].k ? args.k : NULL;
            args.v = empty[n].v ? args.v : NULL;
            args.out = empty[n].out ? args.out : NULL;
            support_data_poison_outputs(&t.data);
            assert_ok(REAL(attn_sdpa)(NULL, &problem, &args));
            trial_verify(&t, engine);
        }
        trial_close(&t);
    }
}

static void test_lengths(void **state) {
    (void)state;
    static const struct {
        int64_t lengths[BATCH];
        const char *q_words, *kv_words;
    } bad[] = {
        {{-1, 5}, "q_lens[0] -1 is outside 0..q_len 5", "kv_lens[0] -1 is outside 0..kv_len 7"},
        {{5, 8}, "q_lens[1] 8 is outside 0..q_len 5", "kv_lens[1] 8 is outside 0..kv_len 7"},
        {{INT64_MAX, 0}, "q_lens[0] 9223372036854775807", "kv_lens[0] 9223372036854775807"},
        {{0, INT64_MIN}, "q_lens[1] -9223372036854775808", "kv_lens[1] -9223372036854775808"},
    };
    for_each_engine(engine) for (size_t n = 0; n < sizeof bad / sizeof *bad; n++) {
        REFUSE_ARGS(a.q_lens = bad[n].lengths, ATTN_ERR_LENGTH, bad[n].q_words);
        REFUSE_ARGS(a.kv_lens = bad[n].lengths, ATTN_ERR_LENGTH, bad[n].kv_words);
        attn_problem p = trial_problem(&good, engine);
        double flops = -1;
        assert_failed(attn_problem_flops(&p, bad[n].lengths, NULL, &flops), ATTN_ERR_LENGTH, bad[n].q_words);
        assert_failed(attn_problem_flops(&p, NULL, bad[n].lengths, &flops), ATTN_ERR_LENGTH, bad[n].kv_words);
        assert_true(flops == -1);
    }
}

static void test_lse_strides(void **state) {
    (void)state;
    for_each_engine(engine) {
        REFUSE_ARGS(p.lse.row = -1, ATTN_ERR_STRIDE, "lse: row stride -1 is negative");
        REFUSE_ARGS(p.lse.row = 0, ATTN_ERR_STRIDE, "lse: row stride 0");
        REFUSE_ARGS(p.lse.head = 0, ATTN_ERR_STRIDE, "lse: a stride of 0");
        REFUSE_ARGS(p.lse.head = Q_LEN - 1, ATTN_ERR_STRIDE, "lse: a stride of 4");
        REFUSE_ARGS(p.lse.batch = INT64_MAX, ATTN_ERR_OVERFLOW, "lse: ");
    }
    /* without lse its strides do not count */
    trial t;
    trial_open(&t, "b2h4/2q5k7d3v2");
    for_each_engine(engine) {
        attn_problem problem = trial_problem(&t, engine);
        problem.lse = (attn_strides){-1, -1, -1};
        support_data_poison_outputs(&t.data);
        assert_ok(REAL(attn_sdpa)(NULL, &problem, trial_args(&t)));
        trial_verify(&t, engine);
    }
    trial_close(&t);
}

static void test_pointers_without_flags(void **state) {
    (void)state;
    static const int64_t offsets[] = {0, 0, 0};
    static const uint8_t mask[] = {1};
    real numbers[1] = {0};
    for_each_engine(engine) {
        REFUSE_ARGS(a.mask = mask, ATTN_ERR_FLAG, "mask is given without ATTN_HAS_MASK");
        REFUSE_ARGS(a.bias = numbers, ATTN_ERR_FLAG, "bias is given without ATTN_HAS_BIAS");
        REFUSE_ARGS(a.alibi_slopes = numbers, ATTN_ERR_FLAG, "alibi_slopes is given without ATTN_HAS_ALIBI");
        REFUSE_ARGS(a.sink = numbers, ATTN_ERR_FLAG, "sink is given without ATTN_HAS_SINK");
        REFUSE_ARGS(a.q_offsets = offsets, ATTN_ERR_FLAG, "q_offsets are given without ATTN_RAGGED");
        REFUSE_ARGS(a.kv_offsets = offsets, ATTN_ERR_FLAG, "kv_offsets are given without ATTN_RAGGED");
        REFUSE_ARGS(a.scores = numbers, ATTN_ERR_FLAG, "scores is given without ATTN_WANT_SCORES");
        REFUSE_ARGS(a.capped = numbers, ATTN_ERR_FLAG, "capped is given without ATTN_WANT_CAPPED");
        REFUSE_ARGS(a.masked = numbers, ATTN_ERR_FLAG, "masked is given without ATTN_WANT_MASKED");
        REFUSE_ARGS(a.weights = numbers, ATTN_ERR_FLAG, "weights is given without ATTN_WANT_WEIGHTS");
    }
    assert_true(numbers[0] == 0);
}

static void test_flags_without_pointers(void **state) {
    (void)state;
    for_each_engine(engine) {
        REFUSE_ARGS(p.flags |= ATTN_HAS_MASK, ATTN_ERR_NULL, "ATTN_HAS_MASK is set, but mask is NULL");
        REFUSE_ARGS(p.flags |= ATTN_HAS_BIAS, ATTN_ERR_NULL, "ATTN_HAS_BIAS is set, but bias is NULL");
        REFUSE_ARGS(p.flags |= ATTN_HAS_ALIBI, ATTN_ERR_NULL, "ATTN_HAS_ALIBI is set, but alibi_slopes is NULL");
        REFUSE_ARGS(p.flags |= ATTN_HAS_SINK, ATTN_ERR_NULL, "ATTN_HAS_SINK is set, but sink is NULL");
        if (engine == ATTN_ENGINE_FUSED)
            continue;
        REFUSE_ARGS(p.flags |= ATTN_WANT_SCORES, ATTN_ERR_NULL, "ATTN_WANT_SCORES is set, but scores is NULL");
        REFUSE_ARGS(p.flags |= ATTN_WANT_CAPPED, ATTN_ERR_NULL, "ATTN_WANT_CAPPED is set, but capped is NULL");
        REFUSE_ARGS(p.flags |= ATTN_WANT_MASKED, ATTN_ERR_NULL, "ATTN_WANT_MASKED is set, but masked is NULL");
        REFUSE_ARGS(p.flags |= ATTN_WANT_WEIGHTS, ATTN_ERR_NULL, "ATTN_WANT_WEIGHTS is set, but weights is NULL");
    }
}

/* The good arrays as packed tokens: two members of 5 and 7 rows at most. */
#define REFUSE_RAGGED(q_offset_list, kv_offset_list, status, words)                                                    \
    REFUSE_ARGS((p.flags |= ATTN_RAGGED, p.total_q = BATCH * Q_LEN, p.total_kv = BATCH * KV_LEN,                       \
                 p.q.head = BATCH * Q_LEN * DIM, p.k.head = BATCH * KV_LEN * DIM, p.v.head = BATCH * KV_LEN * V_DIM,   \
                 p.out.head = BATCH * Q_LEN * V_DIM, p.lse.head = BATCH * Q_LEN, a.q_offsets = (q_offset_list),        \
                 a.kv_offsets = (kv_offset_list)),                                                                     \
                status, words)

static void test_offsets(void **state) {
    (void)state;
    static const int64_t right[] = {0, 5, 10}, late[] = {1, 5, 10}, falling[] = {0, 5, 4}, negative[] = {0, -1, 5},
                         wide[] = {0, 8, 10}, far[] = {0, 2, 9}, beyond[] = {0, 5, INT64_MAX};
    for_each_engine(engine) {
        REFUSE_RAGGED(NULL, right, ATTN_ERR_NULL, "ATTN_RAGGED is set, but q_offsets is NULL");
        REFUSE_RAGGED(right, NULL, ATTN_ERR_NULL, "ATTN_RAGGED is set, but kv_offsets is NULL");
        REFUSE_RAGGED(late, right, ATTN_ERR_LENGTH, "q_offsets[0] 1 is not 0");
        REFUSE_RAGGED(right, late, ATTN_ERR_LENGTH, "kv_offsets[0] 1 is not 0");
        REFUSE_RAGGED(falling, right, ATTN_ERR_LENGTH, "q_offsets[2] 4 is below the 5 before it");
        REFUSE_RAGGED(right, falling, ATTN_ERR_LENGTH, "kv_offsets[2] 4 is below the 5 before it");
        REFUSE_RAGGED(right, negative, ATTN_ERR_LENGTH, "kv_offsets[1] -1 is below the 0 before it");
        REFUSE_RAGGED(far, right, ATTN_ERR_LENGTH, "q_offsets: member 1 has 7 rows, more than q_len 5");
        REFUSE_RAGGED(right, wide, ATTN_ERR_LENGTH, "kv_offsets: member 0 has 8 rows, more than kv_len 7");
        REFUSE_RAGGED(beyond, right, ATTN_ERR_LENGTH, "q_offsets: member 1 has 9223372036854775802 rows");
        REFUSE_RAGGED((p.total_q = 9, right), right, ATTN_ERR_LENGTH, "q_offsets[2] 10 is beyond total_q 9");
        REFUSE_RAGGED((a.q_lens = right, right), right, ATTN_ERR_FLAG, "q_lens are given with ATTN_RAGGED");
        REFUSE_RAGGED((a.kv_lens = right, right), right, ATTN_ERR_FLAG, "kv_lens are given with ATTN_RAGGED");
    }
}

static void test_args_struct_size(void **state) {
    (void)state;
    for_each_engine(engine) {
        REFUSE_ARGS(a.struct_size = 0, ATTN_ERR_STRUCT_SIZE, "attn_args: struct_size 0");
        REFUSE_ARGS(a.struct_size = sizeof a - 8, ATTN_ERR_STRUCT_SIZE, "attn_args: struct_size");
        REFUSE_ARGS(a.struct_size = sizeof a + 8, ATTN_ERR_STRUCT_SIZE, "attn_args: struct_size");
    }
}

/* ---- Overlap ----------------------------------------------------------------------------------------------------- */

static void test_overlap(void **state) {
    (void)state;
    for_each_engine(engine) {
        const support_data *d = &good.data;
        REFUSE_ARGS(a.q = a.out, ATTN_ERR_OVERLAP, "out starts where q starts");
        REFUSE_ARGS(a.k = a.out, ATTN_ERR_OVERLAP, "out starts where k starts");
        REFUSE_ARGS(a.v = a.out, ATTN_ERR_OVERLAP, "out starts where v starts");
        REFUSE_ARGS(a.v = a.lse, ATTN_ERR_OVERLAP, "lse starts where v starts");
        REFUSE_ARGS(a.q = a.lse, ATTN_ERR_OVERLAP, "lse starts where q starts");
        /* one element of out, then of lse, is an input's last, and the other way round */
        REFUSE_ARGS(a.k = a.out - (d->elements[SUPPORT_K] - 1), ATTN_ERR_OVERLAP, "out overlaps k");
        REFUSE_ARGS(a.q = a.lse - (d->elements[SUPPORT_Q] - 1), ATTN_ERR_OVERLAP, "overlaps q");
        REFUSE_ARGS(a.v = a.out + (d->elements[SUPPORT_OUT] - 1), ATTN_ERR_OVERLAP, "out overlaps v");
        REFUSE_ARGS((p.flags |= ATTN_HAS_SINK, a.sink = a.lse), ATTN_ERR_OVERLAP, "lse starts where sink starts");
        REFUSE_ARGS((p.flags |= ATTN_HAS_BIAS, p.bias = (attn_mask_strides){0, 0, 0, 1}, a.bias = a.out + 1),
                    ATTN_ERR_OVERLAP, "out overlaps bias");
        REFUSE_ARGS(
            (p.flags |= ATTN_HAS_MASK, p.mask = (attn_mask_strides){0, 0, 0, 1}, a.mask = (const uint8_t *)a.lse + 1),
            ATTN_ERR_OVERLAP, "lse overlaps mask");
        if (engine != ATTN_ENGINE_FUSED)
            REFUSE_ARGS((p.flags |= ATTN_WANT_WEIGHTS, a.weights = a.out), ATTN_ERR_OVERLAP, "out overlaps weights");
    }
}

/* Two outputs, in an array of their own. */
static void test_overlapping_outputs(void **state) {
    (void)state;
    enum { OUT = BATCH * Q_HEADS * Q_LEN * V_DIM, LSE = BATCH * Q_HEADS * Q_LEN, GAP = 4, ROOM = 10 * GAP * OUT };
    real *room = poisoned(ROOM);
    real *out = room + ROOM / 2;
    const attn_strides gaps = {Q_HEADS * Q_LEN * GAP, Q_LEN * GAP, GAP};
    const attn_strides wide_gaps = {Q_HEADS * Q_LEN * (GAP + 1), Q_LEN * (GAP + 1), GAP + 1};
    for_each_engine(engine) {
        REFUSE_ARGS(a.lse = a.out = out, ATTN_ERR_OVERLAP, "out overlaps lse");
        REFUSE_ARGS((a.out = out, a.lse = out + OUT - 1), ATTN_ERR_OVERLAP, "out overlaps lse");
        REFUSE_ARGS((a.out = out, a.lse = out - LSE + 1), ATTN_ERR_OVERLAP, "out overlaps lse");
        /* rows of out with gaps: lse lies in the second element of each row, or now and then in one */
        REFUSE_ARGS((p.out = p.lse = gaps, a.out = out, a.lse = out + 1), ATTN_ERR_OVERLAP, "out overlaps lse");
        REFUSE_ARGS((p.out = p.lse = gaps, a.out = out, a.lse = out + 1 - 2 * GAP), ATTN_ERR_OVERLAP,
                    "out overlaps lse");
        REFUSE_ARGS((p.out = gaps, p.lse = wide_gaps, a.out = out, a.lse = out + V_DIM), ATTN_ERR_OVERLAP,
                    "out overlaps lse");
        assert_untouched(room, ROOM);
    }
    free(room);
}

/* Calls on a copy of the good inputs inside `memory`; the wanted results are those of separate arrays. */
static void run_inside(const attn_problem *problem, const real_args *args, const char *what) {
    attn_problem separate = trial_problem(&good, problem->engine);
    trial wanted;
    trial_open(&wanted, PROBLEM_TEXT);
    assert_ok(REAL(attn_sdpa)(NULL, &separate, trial_args(&wanted)));
    attn_status status = REAL(attn_sdpa)(NULL, problem, args);
    if (status != ATTN_OK)
        fail_msg("%s: status %d: %s", what, (int)status, attn_last_error());
    for (int64_t b = 0; b < BATCH; b++)
        for (int64_t h = 0; h < Q_HEADS; h++)
            for (int64_t i = 0; i < Q_LEN; i++) {
                const real *out = args->out + b * problem->out.batch + h * problem->out.head + i * problem->out.row;
                const real *lse = args->lse + b * problem->lse.batch + h * problem->lse.head + i * problem->lse.row;
                assert_same_bits(out, element(&wanted, SUPPORT_OUT, b, h, i, 0), V_DIM);
                assert_same_bits(lse, element(&wanted, SUPPORT_LSE, b, h, i, 0), 1);
            }
    trial_close(&wanted);
}

/* Arrays that share a range of memory but no element. */
static void test_interleaving(void **state) {
    (void)state;
    enum { ROWS = BATCH * Q_HEADS * Q_LEN, WIDTH = DIM + V_DIM + 1 };
    for_each_engine(engine) {
        /* a row of q, then its row of out, then its lse */
        real *memory = poisoned(ROWS * WIDTH);
        attn_problem problem = trial_problem(&good, engine);
        real_args args = *trial_args(&good);
        problem.q = problem.out = problem.lse = (attn_strides){Q_HEADS * Q_LEN * WIDTH, Q_LEN * WIDTH, WIDTH};
        for (int64_t row = 0; row < ROWS; row++)
            memcpy(memory + row * WIDTH, trial_args(&good)->q + row * DIM, DIM * sizeof(real));
        args.q = memory;
        args.out = memory + DIM;
        args.lse = memory + DIM + V_DIM;
        run_inside(&problem, &args, "q, out and lse in one array");
        free(memory);
        /* the lse of each head behind its out */
        enum { BLOCK = Q_LEN * (V_DIM + 1) };
        memory = poisoned(BATCH * Q_HEADS * BLOCK);
        problem = trial_problem(&good, engine);
        args = *trial_args(&good);
        problem.out = (attn_strides){Q_HEADS * BLOCK, BLOCK, V_DIM};
        problem.lse = (attn_strides){Q_HEADS * BLOCK, BLOCK, 1};
        args.out = memory;
        args.lse = memory + Q_LEN * V_DIM;
        run_inside(&problem, &args, "out and lse of each head in one array");
        free(memory);
    }
    support_data_poison_outputs(&good.data);
}

/* Inputs may alias each other; empty arrays overlap nothing. */
static void test_overlap_that_is_right(void **state) {
    (void)state;
    static real numbers[8] = {1, 2, 3, 4, 5, 6, 7, 8}, apart[8];
    for_each_engine(engine) {
        attn_problem problem = ATTN_PROBLEM_INIT;
        problem.engine = engine;
        problem.batch = problem.q_heads = problem.kv_heads = 1;
        problem.q_len = problem.kv_len = problem.head_dim = problem.v_dim = 2;
        assert_ok(attn_problem_layout_bhld(&problem));
        real_args args = ATTN_STRUCT_INIT(real_args);
        args.q = args.k = args.v = numbers;
        args.out = apart;
        assert_ok(REAL(attn_sdpa)(NULL, &problem, &args));
        args.out = numbers + 4; /* right behind the inputs */
        args.lse = NULL;
        assert_ok(REAL(attn_sdpa)(NULL, &problem, &args));
        problem.kv_len = 0; /* k and v are empty: they may stand anywhere */
        args.q = apart;
        args.k = args.v = args.out = numbers;
        assert_ok(REAL(attn_sdpa)(NULL, &problem, &args));
        assert_true(numbers[0] == 0 && numbers[3] == 0);
        problem.v_dim = 0; /* and so may out */
        args.out = apart;
        assert_ok(REAL(attn_sdpa)(NULL, &problem, &args));
    }
}

/* ---- Plan, context, flat call ------------------------------------------------------------------------------------ */

static void test_workspace(void **state) {
    (void)state;
    for_each_engine(engine) {
        attn_problem problem = trial_problem(&good, engine);
        attn_plan *plan;
        size_t bytes;
        assert_ok(attn_plan_create(NULL, &problem, REAL_DTYPE, &plan));
        assert_ok(attn_plan_workspace(plan, &bytes));
        assert_true(bytes > 0);
        char *workspace = aligned_alloc(ATTN_WORKSPACE_ALIGN, bytes + ATTN_WORKSPACE_ALIGN);
        assert_non_null(workspace);
        char words[100];
        snprintf(words, sizeof words, "workspace_bytes %zu is below the %zu", bytes - 1, bytes);
        assert_failed(REAL(attn_plan_run)(plan, trial_args(&good), workspace, bytes - 1), ATTN_ERR_WORKSPACE, words);
        assert_failed(REAL(attn_plan_run)(plan, trial_args(&good), workspace, 0), ATTN_ERR_WORKSPACE,
                      "workspace_bytes 0 is below");
        assert_failed(REAL(attn_plan_run)(plan, trial_args(&good), workspace + 8, bytes), ATTN_ERR_WORKSPACE,
                      "is not aligned to 64");
        free(workspace);
        attn_plan_destroy(plan);
    }
}

static void test_dtype(void **state) {
    (void)state;
    attn_problem problem = trial_problem(&good, ATTN_ENGINE_AUTO);
    attn_plan *plan = (attn_plan *)&good;
    assert_failed(attn_plan_create(NULL, &problem, (attn_dtype)2, &plan), ATTN_ERR_DTYPE, "dtype 2");
    assert_failed(attn_plan_create(NULL, &problem, (attn_dtype)-1, &plan), ATTN_ERR_DTYPE, "dtype -1");
    assert_ptr_equal(plan, &good);
    attn_dtype other = REAL_DTYPE == ATTN_F32 ? ATTN_F64 : ATTN_F32;
    assert_ok(attn_plan_create(NULL, &problem, other, &plan));
    assert_failed(REAL(attn_plan_run)(plan, trial_args(&good), NULL, 0), ATTN_ERR_DTYPE,
                  other == ATTN_F32 ? "a plan for float is run in double" : "a plan for double is run in float");
    attn_plan_destroy(plan);
}

static void refuse_context(const attn_context *context, attn_status wanted, const char *words) {
    attn_problem problem = trial_problem(&good, ATTN_ENGINE_AUTO);
    attn_plan *plan = (attn_plan *)&good;
    assert_failed(REAL(attn_sdpa)(context, &problem, trial_args(&good)), wanted, words);
    assert_failed(attn_plan_create(context, &problem, REAL_DTYPE, &plan), wanted, words);
    assert_ptr_equal(plan, &good);
}

static void test_context(void **state) {
    (void)state;
    attn_context context = threads_context(-1);
    refuse_context(&context, ATTN_ERR_VALUE, "threads -1");
    context = threads_context(1);
    context.struct_size = sizeof context + 8;
    refuse_context(&context, ATTN_ERR_STRUCT_SIZE, "attn_context: struct_size");
    context.struct_size = 8;
    refuse_context(&context, ATTN_ERR_STRUCT_SIZE, "attn_context: struct_size 8");
    context = threads_context(1);
    context.alloc = counting_alloc;
    refuse_context(&context, ATTN_ERR_NULL, "alloc is given without free");
    context = threads_context(1);
    context.free = counting_free;
    refuse_context(&context, ATTN_ERR_NULL, "free is given without alloc");
}

static void test_flat_call(void **state) {
    (void)state;
    const real_args *a = trial_args(&good);
#define FLAT(batch, q_heads, kv_heads, q_len, kv_len, head_dim, v_dim, q, flags)                                       \
    REAL(attn_sdpa_flat)(batch, q_heads, kv_heads, q_len, kv_len, head_dim, v_dim, q, a->k, a->v, a->out, flags)
    assert_failed(FLAT(2, 4, 2, 5, 7, 3, 2, a->q, ATTN_HAS_WINDOW), ATTN_ERR_FLAG, "flags 0x8");
    assert_failed(FLAT(2, 4, 2, 5, 7, 3, 2, a->q, UINT64_C(1) << 33), ATTN_ERR_FLAG, "flags 0x200000000");
    assert_failed(FLAT(-2, 4, 2, 5, 7, 3, 2, a->q, 0), ATTN_ERR_SIZE, "batch -2");
    assert_failed(FLAT(2, 4, 3, 5, 7, 3, 2, a->q, 0), ATTN_ERR_SIZE, "kv_heads 3 does not divide q_heads 4");
    assert_failed(FLAT(2, 4, 2, 5, 7, 0, 2, a->q, 0), ATTN_ERR_SIZE, "head_dim 0");
    assert_failed(FLAT(2, 4, 2, 5, 7, 3, 2, NULL, 0), ATTN_ERR_NULL, "q is NULL");
    assert_failed(FLAT(2, 4, 2, 5, 7, 3, 2, a->out, 0), ATTN_ERR_OVERLAP, "out starts where q starts");
    assert_failed(FLAT(INT64_MAX, 4, 2, 5, 7, 3, 2, a->q, 0), ATTN_ERR_OVERFLOW, "q: ");
    assert_failed(FLAT(2, 4, 2, INT64_MAX, 7, 3, 2, a->q, 0), ATTN_ERR_OVERFLOW, "q: ");
    assert_failed(FLAT(2, 4, 2, 5, INT64_MAX, 3, 2, a->q, 0), ATTN_ERR_OVERFLOW, "k: ");
#undef FLAT
}

/* ---- The sentence, the screen and XERBLA ------------------------------------------------------------------------- */

/* A call that succeeds leaves the sentence of the last failure. */
static void test_sentence_stays(void **state) {
    (void)state;
    trial t;
    trial_open(&t, PROBLEM_TEXT);
    attn_problem problem = trial_problem(&t, ATTN_ENGINE_AUTO);
    problem.batch = -9;
    assert_refused(ATTN_ERR_SIZE, "batch -9 is below 0", REAL(attn_sdpa)(NULL, &problem, trial_args(&t)));
    trial_run(&t, ATTN_ENGINE_AUTO, 1);
    assert_string_equal(attn_last_error(), "batch -9 is below 0");
    trial_close(&t);
}

static const CMUnitTestFunction refusals[] = {
    test_sizes,
    test_strides,
    test_numbers,
    test_flags,
    test_struct_sizes,
    test_unsupported_options,
    test_null,
    test_overflow,
    test_lengths,
    test_lse_strides,
    test_pointers_without_flags,
    test_args_struct_size,
    test_dtype,
    test_overlap,
    test_context,
    test_workspace,
    test_flat_call,
};

/* All refusals once more with standard output and standard error in a file, which must stay empty. */
static void test_nothing_is_printed(void **state) {
    FILE *caught = tmpfile();
    assert_non_null(caught);
    fflush(NULL);
    int saved[2] = {dup(STDOUT_FILENO), dup(STDERR_FILENO)};
    dup2(fileno(caught), STDOUT_FILENO);
    dup2(fileno(caught), STDERR_FILENO);
    for (size_t n = 0; n < sizeof refusals / sizeof *refusals; n++)
        refusals[n](state);
    fflush(NULL);
    dup2(saved[0], STDOUT_FILENO);
    dup2(saved[1], STDERR_FILENO);
    close(saved[0]);
    close(saved[1]);
    assert_int_equal(lseek(fileno(caught), 0, SEEK_END), 0);
    fclose(caught);
}

static int call_with_a_bad_size(void *argument) {
    real one[1] = {1};
    (void)argument;
    if (freopen("/dev/null", "w", stderr) == NULL)
        return 2;
    attn_gemm(false, false, -1, 1, 1, 1, one, 1, one, 1, 0, one, 1);
    return 0;
}

/* The trap of xerbla_trap.c works: a product that BLAS refuses ends the process by a signal. */
static void test_xerbla_is_caught(void **state) {
    (void)state;
    int ending = support_in_child(call_with_a_bad_size, NULL);
    assert_true(ending < 0 && ending != SUPPORT_NO_CHILD);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_strides),
        cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_flags),
        cmocka_unit_test(test_struct_sizes),
        cmocka_unit_test(test_unsupported_options),
        cmocka_unit_test(test_strides_of_options),
        cmocka_unit_test(test_overflow),
        cmocka_unit_test(test_strides_without_meaning),
        cmocka_unit_test(test_empty_arrays),
        cmocka_unit_test(test_fields_without_flags),
        cmocka_unit_test(test_null),
        cmocka_unit_test(test_null_that_is_right),
        cmocka_unit_test(test_lengths),
        cmocka_unit_test(test_lse_strides),
        cmocka_unit_test(test_pointers_without_flags),
        cmocka_unit_test(test_flags_without_pointers),
        cmocka_unit_test(test_offsets),
        cmocka_unit_test(test_args_struct_size),
        cmocka_unit_test(test_overlap),
        cmocka_unit_test(test_overlapping_outputs),
        cmocka_unit_test(test_interleaving),
        cmocka_unit_test(test_overlap_that_is_right),
        cmocka_unit_test(test_workspace),
        cmocka_unit_test(test_dtype),
        cmocka_unit_test(test_context),
        cmocka_unit_test(test_flat_call),
        cmocka_unit_test(test_sentence_stays),
        cmocka_unit_test(test_nothing_is_printed),
        cmocka_unit_test(test_xerbla_is_caught),
    };
    return wanted_isa_is_here() ? cmocka_run_group_tests(tests, open_good, close_good) : SKIPPED_RETURN_CODE;
}
