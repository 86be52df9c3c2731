/* The same bits for any number of threads, any way of running them, any batch and either form of the call. */
#include "sdpa_test.h"

#include <pthread.h>

#include "support/child.h"

/* Every path: few queries with all heads of a group at once, more groups than fit a block, tiles in several blocks,
 * members that take different paths in one batch. */
static const char *const problems[] = {
    "b2h6/2q5k300d17v13,causal,br,lse",
    "h70/1q8k40d5,lse",
    "h2/1q263k523d3,causal,br,lse",
    "h2/1q519k131d6,causal,lse",
    /* heads so wide that tiles have 24, 16 and 12 rows, with one tile of keys and more */
    "h2/1q60k32d1024v3,causal,lse",
    "h2/1q50k67d1030v3,causal,lse",
    "h2q50k35d1531v3,causal,lse",
    "b2q30k67d2053v2,qlens=30:13,causal,lse",
    "b5h2/1q259k523d3,qlens=67:5:31:0:259,kvlens=523:300:31:7:257,causal,br,lse",
    "b3h4/2q5k300d7,causal,br,window=100:-1,softcap=5,mask,bias@h,alibi,sink,kvlens=300:257:40,lse",
    "b2q67k523d5,br,window=200:3,softcap=5,mask@h,bias,alibi,sink,kvlens=523:513,lse",
    "b4h2/1q259k300d3,ragged=259:5:31:0/257:300:31:7,mask,causal,br,lse",
    /* few queries whose keys are shared out in chunks of 256, 1280, 4096 and 8192 keys; members of one chunk and of
     * none */
    "h64/2q1k1500d7,lse",
    "b2h40/2q3k1100d5,kvlens=1100:257,causal,br,lse",
    "h2/1q3k4000d3,causal,br,lse",
    "b3h2/1q1k9001d3,kvlens=9001:0:100,sink,lse",
    "h2q1k20011d3,mask=random:0.5,lse",
    "b2h12/1q4k2003d5,br,window=700:3,softcap=5,mask=lead:600,bias@h,alibi,sink,kvlens=2003:1290,lse",
    "b4h36/1q7k1025d3,ragged=7:1:0:3/1025:1024:300:0,causal,br,layout=blhd,lse",
    "h36/1q7k1100d6,mask=random:0.6,lse,nan=v:0:0:150:2+v:0:0:600:1+q:0:1:1:2,inf=v:0:0:151:1+k:0:0:1090:0+k:0:0:300:3",
    "h3/1q2k8211d5,causal,off=4095,lse,nan=v:0:0:4096:2+v:0:0:5000:1+k:0:0:8000:3",
    /* so many rows of a key head that Q is transposed, and one fewer, whose chunks are shorter */
    "b4h8/1q4k1300d5v3,qlens=4:3:4:1,kvlens=1300:1299:63:1300,causal,br,lse",
    /* tiles whose keys are in chunks: of up to 16 parts, fewer with more queries, of several heads, of rows some of
     * which do not see a chunk; the last blocks only; members of few queries and of one chunk */
    "h2q9k6001d1,lse",
    "h2/1q70k3200d2,causal,br,lse",
    "h2q270k2200d1v5,lse",
    "h2q80k2048d2,causal,off=990,lse",
    "b3q67k3100d2,causal,br,window=1500:0,lse",
    "b5h2/1q60k3109d2,qlens=60:9:8:0:33,kvlens=3109:2048:2300:5:2047,causal,br,lse",
    "b2q19k3500d2,br,window=2400:3,softcap=5,mask=lead:1100,bias@h,alibi,sink,kvlens=3500:2100,lse",
    "b4h4/2q30k3200d2,ragged=30:9:3:0/3200:2048:1500:30,mask,causal,br,layout=blhd,lse",
    ("h3/1q20k3200d6,mask=random:0.6,lse,nan=v:0:0:150:2+v:0:0:1600:1+q:0:1:1:2,"
     "inf=v:0:0:151:1+k:0:0:3090:0+k:0:0:300:3"),
    "h2q20k4097d5,causal,off=3060,lse,nan=v:0:0:3060:2+v:0:0:3080:1+k:0:0:4000:3",
    "b3q7k17d3,qlens=5:7:1,kvlens=17:12:16,lse",            /* members of 255, 252 and 48 multiply-adds, */
    "b3h2/1q8k16d2,qlens=8:8:2,kvlens=16:15:16,causal,lse", /* of 256, 240 and 64 */
    "b3h2/1q8k33d1,qlens=8:8:7,kvlens=32:33:32,lse",        /* of 256, 264 and 224 */
    /* a head or tile that is done again for its NaN changes no neighbour's, not even the bits of their NaN */
    ("b3h2/1q7k7d128,bias@bk=inf:0.3,alibi,kvlens=5:4:7,k@b,layout=padded,lse,seed=683683,nan=v:0:0:3:56+v:2:0:3:24,"
     "inf=k:0:0:3:108+k:2:0:1:34+q:0:0:1:47"),
    ("b1h12/"
     "3q5k23d5v16,bias=inf:0.3,bias_len=19,alibi,sink,qlens=5,lse,seed=656847,nan=v:0:0:8:7+k:0:0:0:1+v:0:2:22:12,"
     "inf=k:0:0:9:4+k:0:2:5:3,poison"),
    "h2/1q523k263d6,alibi,lse,nan=v:0:0:150:2,inf=v:0:0:151:1+q:0:0:1:2+k:0:0:5:1+k:0:0:140:3",
};
enum { PROBLEMS = sizeof problems / sizeof *problems };

/* Naive, which is slow, knows neither tiles nor chunks: one of so many problems is enough for it. */
enum { ONE_NAIVE_OF = 3 };

/* Calls `check` with every problem and engine, naive with one of three, and the results of one thread. */
static void against_one_thread(void (*check)(trial *t, attn_engine engine, const results *one)) {
    size_t opened = 0; /* naive's are 1, 4, 7 and so on, ragged ones among them */
    for (size_t s = first_problem(); s < PROBLEMS; s += stride_of_problems(), opened++) {
        trial t;
        trial_open(&t, problems[s]);
        for_each_engine(engine) {
            if (engine == ATTN_ENGINE_NAIVE && opened % ONE_NAIVE_OF != 1)
                continue;
            trial_run(&t, engine, 1);
            results one = results_of(&t);
            check(&t, engine, &one);
            results_free(&one);
        }
        trial_close(&t);
    }
}

static void check_threads(trial *t, attn_engine engine, const results *one) {
    static const int threads[] = {1, 2, 3, 4, 7, 8};
    for (size_t i = 0; i < sizeof threads / sizeof *threads; i++) {
        trial_run(t, engine, threads[i]);
        assert_same_results(t, one, engine, "number of threads");
    }
}

static void test_threads(void **state) {
    (void)state;
    against_one_thread(check_threads);
}

/* ---- The caller's own threads ------------------------------------------------------------------------------------ */

static int run_forwards(void *data, int workers, attn_parallel_body body, void *argument) {
    ++*(int *)data;
    for (int worker = 0; worker < workers; worker++)
        body(argument, worker);
    return 0;
}

static int run_backwards(void *data, int workers, attn_parallel_body body, void *argument) {
    ++*(int *)data;
    for (int worker = workers - 1; worker >= 0; worker--)
        body(argument, worker);
    return 0;
}

static int run_on_pthreads(void *data, int workers, attn_parallel_body body, void *argument) {
    ++*(int *)data;
    return on_pthreads(NULL, workers, body, argument);
}

static void check_parallel_for(trial *t, attn_engine engine, const results *one) {
    const attn_parallel_fn ways[] = {run_forwards, run_backwards, run_on_pthreads};
    for (int way = 0; way < 3; way++) {
        int calls = 0;
        attn_context context = threads_context(4);
        context.parallel_for = ways[way];
        context.parallel_data = &calls;
        trial_run_in(t, engine, &context);
        assert_same_results(t, one, engine, "parallel_for of the caller");
        assert_int_equal(calls, 1);
    }
}

static void test_parallel_for(void **state) {
    (void)state;
    against_one_thread(check_parallel_for);
}

static int refuse(void *data, int workers, attn_parallel_body body, void *argument) {
    (void)data;
    (void)workers;
    (void)body;
    (void)argument;
    return 7;
}

static void check_failing_parallel_for(trial *t, attn_engine engine, const results *one) {
    attn_context context = threads_context(4);
    context.parallel_for = refuse;
    attn_problem problem = trial_problem(t, engine);
    assert_refused(ATTN_ERR_THREADS, "context: parallel_for returned 7",
                   REAL(attn_sdpa)(&context, &problem, trial_args(t)));
    trial_run(t, engine, 2);
    assert_same_results(t, one, engine, "after a failed call");
}

static void test_failing_parallel_for(void **state) {
    (void)state;
    against_one_thread(check_failing_parallel_for);
}

/* ---- Where the call comes from ----------------------------------------------------------------------------------- */

/* Several threads of one OpenMP region call at once, each with outputs of its own. */
static void check_parallel_region(trial *t, attn_engine engine, const results *one) {
    enum { CALLERS = 3 };
    attn_context context = threads_context(4);
    attn_problem problem = trial_problem(t, engine);
    real_args args[CALLERS];
    attn_status status[CALLERS] = {ATTN_OK};
    for (int n = 0; n < CALLERS; n++) {
        args[n] = *trial_args(t);
        args[n].out = poisoned(one->count[SUPPORT_OUT]);
        args[n].lse = poisoned(one->count[SUPPORT_LSE]);
    }
#ifdef _OPENMP
#pragma omp parallel for num_threads(CALLERS) schedule(static, 1)
#endif
    for (int n = 0; n < CALLERS; n++)
        status[n] = REAL(attn_sdpa)(&context, &problem, &args[n]);
    for (int n = 0; n < CALLERS; n++) {
        assert_int_equal(status[n], ATTN_OK);
        assert_same_bits(args[n].out, one->copy[SUPPORT_OUT], one->count[SUPPORT_OUT]);
        assert_same_bits(args[n].lse, one->copy[SUPPORT_LSE], one->count[SUPPORT_LSE]);
        free(args[n].out);
        free(args[n].lse);
    }
}

static void test_parallel_region(void **state) {
    (void)state;
    against_one_thread(check_parallel_region);
}

typedef struct forked_run {
    trial *t;
    attn_engine engine;
    const results *one;
} forked_run;

/* 0 when the results are right. */
static int run_in_child(void *argument) {
    const forked_run *run = argument;
    const results *one = run->one;
    attn_context context = threads_context(4);
    attn_problem problem = trial_problem(run->t, run->engine);
    const support_data *data = &run->t->data;
    bool right = REAL(attn_sdpa)(&context, &problem, trial_args(run->t)) == ATTN_OK &&
                 same_bits(data->base[SUPPORT_OUT], one->copy[SUPPORT_OUT], one->count[SUPPORT_OUT]) &&
                 same_bits(data->base[SUPPORT_LSE], one->copy[SUPPORT_LSE], one->count[SUPPORT_LSE]);
    return !right;
}

/* In the child of a process that has used its threads. */
static void check_forked_child(trial *t, attn_engine engine, const results *one) {
    forked_run run = {t, engine, one};
    trial_run(t, engine, 4);
    support_data_poison_outputs(&t->data);
    assert_int_equal(support_in_child(run_in_child, &run), 0);
}

static void test_forked_child(void **state) {
    (void)state;
    against_one_thread(check_forked_child);
}

/* ---- Plans ------------------------------------------------------------------------------------------------------- */

static void check_plan(trial *t, attn_engine engine, const results *one) {
    for (int threads = 1; threads <= 3; threads += 2) {
        attn_context context = threads_context(threads);
        attn_problem problem = trial_problem(t, engine);
        attn_plan *plan;
        size_t bytes;
        assert_ok(attn_plan_create(&context, &problem, REAL_DTYPE, &plan));
        assert_ok(attn_plan_workspace(plan, &bytes));
        void *workspace = aligned_alloc(ATTN_WORKSPACE_ALIGN, bytes);
        assert_non_null(workspace);
        memset(workspace, 0xff, bytes);
        for (int run = 0; run < 2; run++) { /* the second finds what the first has left */
            support_data_poison_outputs(&t->data);
            assert_ok(REAL(attn_plan_run)(plan, trial_args(t), workspace, bytes));
            assert_same_results(t, one, engine, "plan with a workspace");
        }
        support_data_poison_outputs(&t->data);
        assert_ok(REAL(attn_plan_run)(plan, trial_args(t), NULL, 0));
        assert_same_results(t, one, engine, "plan without a workspace");
        free(workspace);
        attn_plan_destroy(plan);
    }
}

static void test_plan(void **state) {
    (void)state;
    against_one_thread(check_plan);
}

/* The engine auto is one of the others. */
static void check_auto(trial *t, attn_engine engine, const results *one) {
    if (engine != ATTN_ENGINE_FUSED)
        return;
    trial_run(t, ATTN_ENGINE_AUTO, 2);
    assert_same_results(t, one, engine, "the engine auto");
}

static void test_auto(void **state) {
    (void)state;
    against_one_thread(check_auto);
    trial t;
    trial_open(&t, "h2q19k43d7,want=weights,lse");
    trial_run(&t, ATTN_ENGINE_BLAS, 1);
    results kept = results_of(&t);
    trial_run(&t, ATTN_ENGINE_AUTO, 1);
    assert_same_results(&t, &kept, ATTN_ENGINE_AUTO, "weights take the engine blas");
    results_free(&kept);
    trial_close(&t);
}

/* One plan, other lengths in each run: each run is what a call with these lengths is. */
static void test_plan_with_other_lengths(void **state) {
    (void)state;
    static const int64_t lengths[][2] = {{270, 530}, {5, 530}, {31, 17}, {0, 530}, {9, 0}, {256, 513}, {1, 1}};
    trial t;
    trial_open(&t, "h2/1q270k530d3,qlens=270,kvlens=530,causal,br,window=300:0,mask@h,sink,lse");
    for_each_engine(engine) {
        attn_problem problem = trial_problem(&t, engine);
        attn_plan *plan;
        assert_ok(attn_plan_create(NULL, &problem, REAL_DTYPE, &plan));
        for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
            t.data.q_lens[0] = lengths[i][0];
            t.data.kv_lens[0] = lengths[i][1];
            trial_run(&t, engine, 2);
            results kept = results_of(&t);
            support_data_poison_outputs(&t.data);
            assert_ok(REAL(attn_plan_run)(plan, trial_args(&t), NULL, 0));
            assert_same_results(&t, &kept, engine, "plan with other lengths");
            results_free(&kept);
        }
        attn_plan_destroy(plan);
    }
    trial_close(&t);
}

/* ---- Batches ----------------------------------------------------------------------------------------------------- */

/* Where member b of a mask or bias starts; NULL stays NULL. */
static const void *member_of(const void *array, int64_t b, int64_t stride, size_t element_bytes) {
    return array != NULL ? (const char *)array + (size_t)(b * stride) * element_bytes : NULL;
}

/* Each member alone, with its lengths given and with the sizes cut to them, has the bits that it has in the batch. */
static void check_members_alone(trial *t, attn_engine engine, const results *batch) {
    const attn_problem *whole = &t->problem_case->problem;
    bool ragged = (whole->flags & ATTN_RAGGED) != 0;
    for (int64_t b = 0; b < whole->batch; b++)
        for (int cut = ragged ? 1 : 0; cut < 2; cut++) {
            attn_problem alone = trial_problem(t, engine);
            real_args args = *trial_args(t);
            int64_t q_len = support_case_q_len(t->problem_case, b), kv_len = support_case_kv_len(t->problem_case, b);
            alone.batch = 1;
            alone.flags &= ~ATTN_RAGGED;
            args.q_offsets = args.kv_offsets = NULL;
            args.mask = member_of(args.mask, b, whole->mask.batch, 1);
            args.bias = member_of(args.bias, b, whole->bias.batch, sizeof(real));
            args.q = element(t, SUPPORT_Q, b, 0, 0, 0);
            args.k = element(t, SUPPORT_K, b, 0, 0, 0);
            args.v = element(t, SUPPORT_V, b, 0, 0, 0);
            args.out = element(t, SUPPORT_OUT, b, 0, 0, 0);
            args.lse = element(t, SUPPORT_LSE, b, 0, 0, 0);
            args.q_lens = &q_len;
            args.kv_lens = &kv_len;
            if (cut) {
                alone.q_len = q_len;
                alone.kv_len = kv_len;
                args.q_lens = args.kv_lens = NULL;
            }
            support_data_poison_outputs(&t->data);
            assert_ok(REAL(attn_sdpa)(NULL, &alone, &args));
            for (int64_t h = 0; h < whole->q_heads; h++) {
                int64_t out = support_index(&t->data, SUPPORT_OUT, b, h, 0, 0);
                int64_t lse = support_index(&t->data, SUPPORT_LSE, b, h, 0, 0);
                assert_same_bits(element(t, SUPPORT_OUT, b, h, 0, 0), batch->copy[SUPPORT_OUT] + out,
                                 q_len * whole->v_dim);
                assert_same_bits(element(t, SUPPORT_LSE, b, h, 0, 0), batch->copy[SUPPORT_LSE] + lse, q_len);
            }
        }
}

static void test_members_alone(void **state) {
    (void)state;
    against_one_thread(check_members_alone);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_threads),
        cmocka_unit_test(test_parallel_for),
        cmocka_unit_test(test_failing_parallel_for),
        cmocka_unit_test(test_parallel_region),
        cmocka_unit_test(test_forked_child),
        cmocka_unit_test(test_plan),
        cmocka_unit_test(test_auto),
        cmocka_unit_test(test_plan_with_other_lengths),
        cmocka_unit_test(test_members_alone),
    };
    return run_sdpa_tests(tests);
}
