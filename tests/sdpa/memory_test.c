/* Memory: what is allocated, when, and what happens when there is none; workspaces of exactly the promised size; the
 * text of a plan. */
#include "sdpa_test.h"

/* ---- Calls to malloc and its kind, counted by the linker's --wrap ------------------------------------------------ */

static int64_t mallocs;

#ifdef ATTN_WRAPPED_MALLOC
void *__real_malloc(size_t bytes);
void *__real_calloc(size_t count, size_t bytes);
void *__real_realloc(void *memory, size_t bytes);
void *__real_aligned_alloc(size_t alignment, size_t bytes);
int __real_posix_memalign(void **memory, size_t alignment, size_t bytes);
void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
void *__wrap_realloc(void *memory, size_t bytes);
void *__wrap_aligned_alloc(size_t alignment, size_t bytes);
int __wrap_posix_memalign(void **memory, size_t alignment, size_t bytes);

static void count_one(void) {
    __atomic_fetch_add(&mallocs, 1, __ATOMIC_RELAXED);
}

void *__wrap_malloc(size_t bytes) {
    count_one();
    return __real_malloc(bytes);
}

void *__wrap_calloc(size_t count, size_t bytes) {
    count_one();
    return __real_calloc(count, bytes);
}

void *__wrap_realloc(void *memory, size_t bytes) {
    count_one();
    return __real_realloc(memory, bytes);
}

void *__wrap_aligned_alloc(size_t alignment, size_t bytes) {
    count_one();
    return __real_aligned_alloc(alignment, bytes);
}

int __wrap_posix_memalign(void **memory, size_t alignment, size_t bytes) {
    count_one();
    return __real_posix_memalign(memory, alignment, bytes);
}
#endif

/* ---- Problems ---------------------------------------------------------------------------------------------------- */

/* NaN in a hidden value brings the second pass of blas and fused, with its own piece of the workspace. */
static const char *const problems[] = {
    "b2h6/2q5k300d17v13,causal,br,lse",
    "h70/1q8k40d5,lse",
    "q263k523d5,causal,br,lse",
    "q263k523d5,causal,lse,nan=v:0:0:200:1+v:0:0:262:2",
    "h2/1q5k523d5,causal,off=300,lse,nan=v:0:0:302:1",
    "h40/1q2k1100d5,causal,off=600,lse,nan=v:0:0:601:1+v:0:0:1000:2",
    "b2h3/1q1k1601d2v300,kvlens=1601:263,lse",
    "h3/1q60k2500d2v67,causal,off=1300,lse,nan=v:0:0:1310:1+v:0:0:2400:2",
    "b2h2/1q31k263d2v300,qlens=31:5,kvlens=263:30,softcap=3,mask@h,bias@b,alibi,sink,lse",
};
enum { PROBLEMS = sizeof problems / sizeof *problems };

static void assert_outputs_untouched(const trial *t) {
    assert_untouched(t->data.base[SUPPORT_OUT], t->data.elements[SUPPORT_OUT]);
    assert_untouched(t->data.base[SUPPORT_LSE], t->data.elements[SUPPORT_LSE]);
}

/* ---- No memory --------------------------------------------------------------------------------------------------- */

/* The k-th allocation fails, for every k; then all succeed. */
static void test_every_allocation_fails_once(void **state) {
    (void)state;
    for (int s = 0; s < PROBLEMS; s++) {
        trial t;
        trial_open(&t, problems[s]);
        for_each_engine(engine) {
            attn_problem problem = trial_problem(&t, engine);
            int64_t needed = -1;
            for (int64_t k = 0; needed < 0; k++) {
                counting_allocator allocator = {.fail_at = k};
                attn_context context = counting_context(&allocator);
                context.threads = 2;
                support_data_poison_outputs(&t.data);
                int64_t mallocs_before = mallocs;
                attn_status status = REAL(attn_sdpa)(&context, &problem, trial_args(&t));
                /* counting_alloc() itself calls aligned_alloc() */
                int64_t beside = mallocs - mallocs_before;
                assert_true(beside == 0 || beside == allocator.calls - (status == ATTN_ERR_NOMEM));
                assert_int_equal(allocator.live, 0);
                assert_int_equal(allocator.live_size, 0);
                if (status == ATTN_OK) {
                    needed = allocator.calls;
                    assert_true(k >= needed);
                    trial_verify(&t, engine);
                    continue;
                }
                assert_int_equal(status, ATTN_ERR_NOMEM);
                assert_non_null(strstr(attn_last_error(), "the allocator has no "));
                assert_outputs_untouched(&t);
            }
            assert_true(needed >= 1);
        }
        trial_close(&t);
    }
}

static void test_no_memory_for_a_plan(void **state) {
    (void)state;
    trial t;
    trial_open(&t, problems[2]);
    for_each_engine(engine) {
        attn_problem problem = trial_problem(&t, engine);
        counting_allocator allocator = {.fail_at = 0};
        attn_context context = counting_context(&allocator);
        attn_plan *plan = (attn_plan *)&t;
        assert_int_equal(attn_plan_create(&context, &problem, REAL_DTYPE, &plan), ATTN_ERR_NOMEM);
        assert_ptr_equal(plan, &t);
        assert_int_equal(allocator.live, 0);
        assert_ok(attn_plan_create(&context, &problem, REAL_DTYPE, &plan));
        assert_int_equal(allocator.live, 1);
        /* the workspace of a run comes from the same hooks; when it cannot be had the plan stays good */
        support_data_poison_outputs(&t.data);
        allocator.fail_at = allocator.calls;
        assert_int_equal(REAL(attn_plan_run)(plan, trial_args(&t), NULL, 0), ATTN_ERR_NOMEM);
        assert_outputs_untouched(&t);
        assert_ok(REAL(attn_plan_run)(plan, trial_args(&t), NULL, 0));
        trial_verify(&t, engine);
        assert_int_equal(allocator.live, 1);
        attn_plan_destroy(plan);
        assert_int_equal(allocator.live, 0);
        assert_int_equal(allocator.live_size, 0);
    }
    trial_close(&t);
}

/* ---- The caller's workspace -------------------------------------------------------------------------------------- */

enum { GUARD = 4096, GUARD_BYTE = 0xa5 };

/* `bytes` aligned bytes between two guards. */
static unsigned char *guarded(size_t bytes) {
    unsigned char *memory = aligned_alloc(ATTN_WORKSPACE_ALIGN, 2 * GUARD + (bytes + 63) / 64 * 64);
    assert_non_null(memory);
    memset(memory, GUARD_BYTE, 2 * GUARD + bytes);
    memset(memory + GUARD, 0xff, bytes);
    return memory + GUARD;
}

static void check_guards_and_free(unsigned char *workspace, size_t bytes) {
    for (size_t i = 0; i < GUARD; i++) {
        assert_int_equal((workspace - GUARD)[i], GUARD_BYTE);
        assert_int_equal(workspace[bytes + i], GUARD_BYTE);
    }
    free(workspace - GUARD);
}

/* With a workspace of its own a run allocates nothing, neither through the hooks nor past them, writes nothing outside
 * of it, and needs nothing to be in it. */
static void test_workspace_of_the_caller(void **state) {
    (void)state;
    for (int s = 0; s < PROBLEMS; s++) {
        trial t;
        trial_open(&t, problems[s]);
        for_each_engine(engine) for (int threads = 1; threads <= 3; threads++) {
            attn_problem problem = trial_problem(&t, engine);
            counting_allocator allocator = {.fail_at = -1};
            attn_context context = counting_context(&allocator);
            context.threads = threads;
            attn_plan *plan;
            size_t bytes;
            assert_ok(attn_plan_create(&context, &problem, REAL_DTYPE, &plan));
            assert_int_equal(allocator.calls, 1);
            assert_ok(attn_plan_workspace(plan, &bytes));
            unsigned char *workspace = guarded(bytes);
            support_data_poison_outputs(&t.data);
            int64_t mallocs_before = mallocs;
            attn_status status = REAL(attn_plan_run)(plan, trial_args(&t), workspace, bytes);
            assert_int_equal(mallocs, mallocs_before);
            assert_int_equal(allocator.calls, 1);
            assert_int_equal(status, ATTN_OK);
            check_guards_and_free(workspace, bytes);
            trial_verify(&t, engine);
            attn_plan_destroy(plan);
        }
        trial_close(&t);
    }
}

/* One-shot calls and runs without a workspace ask for what attn_plan_workspace() says. */
static void test_workspace_of_the_library(void **state) {
    (void)state;
    for (int s = 0; s < PROBLEMS; s++) {
        trial t;
        trial_open(&t, problems[s]);
        for_each_engine(engine) {
            attn_problem problem = trial_problem(&t, engine);
            attn_context plain = threads_context(2);
            attn_plan *plan;
            size_t bytes;
            assert_ok(attn_plan_create(&plain, &problem, REAL_DTYPE, &plan));
            assert_ok(attn_plan_workspace(plan, &bytes));
            attn_plan_destroy(plan);
            counting_allocator allocator = {.fail_at = -1};
            attn_context context = counting_context(&allocator);
            context.threads = 2;
            trial_run_in(&t, engine, &context);
            assert_int_equal(allocator.calls, 1);
            assert_int_equal(allocator.live, 0);
            allocator.calls = 0;
            allocator.fail_at = 0;
            assert_int_equal(REAL(attn_sdpa)(&context, &problem, trial_args(&t)), ATTN_ERR_NOMEM);
            char words[80];
            snprintf(words, sizeof words, "%zu bytes", bytes);
            assert_non_null(strstr(attn_last_error(), words));
        }
        trial_close(&t);
    }
}

/* The workspace of a plan is enough for any lengths of its members, on whatever path they take. */
static void test_workspace_for_all_lengths(void **state) {
    (void)state;
    static const int64_t lengths[] = {0, 1, 8, 9, 31, 33, 255, 256, 257, 270};
    enum { LENGTHS = sizeof lengths / sizeof *lengths };
    static const char *const texts[] = {"h6/1q270k270d5v3,qlens=270,kvlens=270,causal,br,lse",
                                        "h2/1q270k270d2v257,qlens=270,kvlens=270,lse"};
    for (int s = 0; s < 2; s++) {
        trial t;
        trial_open(&t, texts[s]);
        for_each_engine(engine) {
            attn_problem problem = trial_problem(&t, engine);
            attn_context context = threads_context(1);
            attn_plan *plan;
            size_t bytes;
            assert_ok(attn_plan_create(&context, &problem, REAL_DTYPE, &plan));
            assert_ok(attn_plan_workspace(plan, &bytes));
            for (size_t q = 0; q < LENGTHS; q += stride_of_problems())
                for (size_t k = q % 3; k < LENGTHS; k += 3) {
                    t.data.q_lens[0] = lengths[q];
                    t.data.kv_lens[0] = lengths[k];
                    unsigned char *workspace = guarded(bytes);
                    support_data_poison_outputs(&t.data);
                    assert_ok(REAL(attn_plan_run)(plan, trial_args(&t), workspace, bytes));
                    check_guards_and_free(workspace, bytes);
                }
            attn_plan_destroy(plan);
        }
        trial_close(&t);
    }
}

/* The same of members whose keys are in chunks, more of them with fewer queries, with the bits of one thread. */
static void test_workspace_for_chunks(void **state) {
    (void)state;
    static const int64_t q_lens[] = {5, 9, 61, 275, 400}, kv_lens[] = {2047, 2048, 3300};
    enum { Q_LENS = sizeof q_lens / sizeof *q_lens, KV_LENS = sizeof kv_lens / sizeof *kv_lens, MOST_THREADS = 3 };
    trial t;
    trial_open(&t, "q400k3300d2v3,qlens=400,kvlens=3300,lse");
    attn_problem problem = trial_problem(&t, ATTN_ENGINE_FUSED);
    results one = {0};
    for (size_t i = 0; i < Q_LENS * KV_LENS; i += stride_of_problems())
        for (int threads = 1; threads <= MOST_THREADS; threads++) {
            attn_context context = threads_context(threads);
            attn_plan *plan;
            size_t bytes;
            t.data.q_lens[0] = q_lens[i % Q_LENS];
            t.data.kv_lens[0] = kv_lens[i / Q_LENS];
            assert_ok(attn_plan_create(&context, &problem, REAL_DTYPE, &plan));
            assert_ok(attn_plan_workspace(plan, &bytes));
            unsigned char *workspace = guarded(bytes);
            support_data_poison_outputs(&t.data);
            assert_ok(REAL(attn_plan_run)(plan, trial_args(&t), workspace, bytes));
            check_guards_and_free(workspace, bytes);
            attn_plan_destroy(plan);
            if (threads == 1)
                one = results_of(&t);
            assert_same_results(&t, &one, ATTN_ENGINE_FUSED, "number of threads");
            if (threads == MOST_THREADS)
                results_free(&one);
        }
    trial_close(&t);
}

/* Nothing to do needs nothing. */
static void test_empty_problem(void **state) {
    (void)state;
    const int64_t huge = INT64_C(1) << 40;
    trial t;
    trial_open(&t, "b0q5k7d3");
    for (int way = 0; way < 4; way++)
        for_each_engine(engine) {
            attn_problem problem = trial_problem(&t, engine);
            if (way > 0) { /* no member, no row, or no head of sizes that fit neither memory nor BLAS */
                problem.batch = problem.q_heads = problem.kv_heads = problem.q_len = problem.head_dim = huge;
                problem.kv_len = problem.v_dim = 0;
                *(way == 1 ? &problem.batch : way == 2 ? &problem.q_len : &problem.q_heads) = 0;
                assert_ok(attn_problem_layout_blhd(&problem));
            }
            counting_allocator allocator = {.fail_at = 0};
            attn_context context = counting_context(&allocator);
            assert_ok(REAL(attn_sdpa)(&context, &problem, trial_args(&t)));
            assert_int_equal(allocator.calls, 0);
            allocator.fail_at = -1;
            attn_plan *plan;
            size_t bytes = 1;
            assert_ok(attn_plan_create(&context, &problem, REAL_DTYPE, &plan));
            assert_ok(attn_plan_workspace(plan, &bytes));
            assert_int_equal(bytes, 0);
            assert_ok(REAL(attn_plan_run)(plan, trial_args(&t), NULL, 0));
            assert_int_equal(allocator.calls, 1);
            attn_plan_destroy(plan);
        }
    trial_close(&t);
}

/* Memory grows with q_len in fused and naive, with q_len x kv_len in blas. */
static void test_growth(void **state) {
    (void)state;
    size_t bytes[ENGINES][2];
    for (int big = 0; big < 2; big++)
        for (int e = 0; e < ENGINES; e++) {
            attn_problem problem = ATTN_PROBLEM_INIT;
            problem.engine = engines[e];
            problem.batch = problem.q_heads = problem.kv_heads = 1;
            problem.q_len = problem.kv_len = big ? 65536 : 4096;
            problem.head_dim = problem.v_dim = 64;
            assert_ok(attn_problem_layout_bhld(&problem));
            attn_context context = threads_context(1);
            attn_plan *plan;
            assert_ok(attn_plan_create(&context, &problem, REAL_DTYPE, &plan));
            assert_ok(attn_plan_workspace(plan, &bytes[e][big]));
            attn_plan_destroy(plan);
        }
    assert_true(bytes[0][1] <= 16 * bytes[0][0]);
    assert_true(bytes[1][1] >= (size_t)65536 * 65536 * sizeof(real));
    assert_true(bytes[2][1] <= 16 * bytes[2][0]);
}

/* Bytes of K and V of a tile for one thread, as the plan describes them: 0 where they are not packed. */
static size_t packed_bytes(const attn_plan *plan) {
    static const char *const pieces[] = {
        "\nworkspace of keys of a tile, transposed: ", "\nworkspace of values of a tile, dense: ",
        "\nworkspace of keys of a tile, in parts: ", "\nworkspace of values of a tile, in parts: "};
    char text[4096];
    size_t bytes = 0;
    assert_ok(attn_plan_describe(plan, text, sizeof text, NULL));
    for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++) {
        const char *line = strstr(text, pieces[i]), *times = line != NULL ? strstr(line, " x ") : NULL;
        bytes += times != NULL ? (size_t)strtoull(times + 3, NULL, 10) : 0;
    }
    return bytes;
}

/* However long the keys and many the threads, fused needs no more than 2 MiB for each beside K and V of a tile; with
 * large tiles, whose K and V are not packed, 128 KiB more at these sizes. */
static void check_bound(int64_t batch, int64_t q_heads, int64_t kv_heads, int64_t q_len, int64_t kv_len, int64_t size,
                        int threads) {
    attn_problem problem = ATTN_PROBLEM_INIT;
    problem.engine = ATTN_ENGINE_FUSED;
    problem.batch = batch;
    problem.q_heads = q_heads;
    problem.kv_heads = kv_heads;
    problem.q_len = q_len;
    problem.kv_len = kv_len;
    problem.head_dim = problem.v_dim = size;
    assert_ok(attn_problem_layout_blhd(&problem));
    attn_context context = threads_context(threads);
    attn_plan *plan;
    size_t bytes;
    assert_ok(attn_plan_create(&context, &problem, REAL_DTYPE, &plan));
    assert_ok(attn_plan_workspace(plan, &bytes));
    size_t packed = packed_bytes(plan), most = (2 << 20) + (packed > 0 ? packed : 128 * 1024);
    attn_plan_destroy(plan);
    if (bytes > (size_t)threads * most)
        fail_msg("%zu bytes: batch %d, heads %d/%d, q_len %d, kv_len %d, head_dim %d, threads %d", bytes, (int)batch,
                 (int)q_heads, (int)kv_heads, (int)q_len, (int)kv_len, (int)size, threads);
}

static void test_bound(void **state) {
    (void)state;
    static const int64_t q_lens[] = {9, 32, 100, 250, 257, 512, 1000, 1024, 1025, 4096};
    static const int64_t kv_lens[] = {1000, 2048, 5000, 16384, 32768, 1000000};
    static const int64_t heads[][2] = {{1, 1}, {4, 1}, {5, 5}, {12, 12}, {32, 8}, {71, 1}};
    static const int64_t sizes[] = {16, 64, 128, 256};
    static const int threads[] = {1, 2, 3, 16, 64};
    size_t plans = 0;
    for (size_t q = 0; q < sizeof q_lens / sizeof *q_lens; q++)
        for (size_t k = 0; k < sizeof kv_lens / sizeof *kv_lens; k++)
            for (size_t h = 0; h < sizeof heads / sizeof *heads; h++)
                for (size_t d = 0; d < sizeof sizes / sizeof *sizes; d++)
                    for (size_t t = 0; t < sizeof threads / sizeof *threads; t++)
                        if (plans++ % stride_of_problems() == 0)
                            check_bound(1, heads[h][0], heads[h][1], q_lens[q], kv_lens[k], sizes[d], threads[t]);
    /* heads so narrow that parts of Q are wider */
    check_bound(1, 1, 1, 65536, 5000, 1, 1);
    check_bound(1, 1, 1, 8192, 5000, 8, 1);
    /* many rows of small heads, or few rows whose Q is transposed, in chunks that are shared out */
    check_bound(1, 444, 12, 984, 16260, 1, 16);
    check_bound(1, 115, 5, 49, 2629, 256, 5);
    check_bound(3, 54, 3, 75, 7525, 256, 64);
}

/* ---- The text of a plan ------------------------------------------------------------------------------------------ */

/* Each path of fused names what it has: plain loops take row by row, with neither tile nor chunk nor block. */
static void test_describe_paths(void **state) {
    (void)state;
    static const struct {
        const char *problem, *path, *pieces;
        bool blocks;
    } cases[] = {
        {"q2d8", "\npath: plain loops", NULL, false},
        {"q5k41d17", "\npath: few queries", "\nchunk: 5 queries x 41 keys", true},
        {"q31d17", "\npath: few queries", "\nchunk: 31 queries x 31 keys", true},
        {"q13k41d17", "\npath: tiles", "\ntile: 13 queries x 41 keys", true},
        {"q13k2048d17", "\npath: tiles", "\nchunk: 1024 keys", true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        trial t;
        trial_open(&t, cases[i].problem);
        attn_problem problem = trial_problem(&t, ATTN_ENGINE_FUSED);
        attn_plan *plan;
        char text[4096];
        assert_ok(attn_plan_create(NULL, &problem, REAL_DTYPE, &plan));
        assert_ok(attn_plan_describe(plan, text, sizeof text, NULL));
        assert_non_null(strstr(text, cases[i].path));
        if (cases[i].pieces != NULL)
            assert_non_null(strstr(text, cases[i].pieces));
        else
            assert_true(strstr(text, "\nchunk: ") == NULL && strstr(text, "\ntile: ") == NULL);
        assert_int_equal(strstr(text, "\nblock that reads K and V once: ") != NULL, cases[i].blocks);
        attn_plan_destroy(plan);
        trial_close(&t);
    }
}

static void test_describe(void **state) {
    (void)state;
    trial t;
    trial_open(&t, "b2h4/2q5k7d3v2,causal");
    for_each_engine(engine) {
        attn_problem problem = trial_problem(&t, engine);
        attn_plan *plan;
        size_t bytes, needed = 0;
        assert_ok(attn_plan_create(NULL, &problem, REAL_DTYPE, &plan));
        assert_ok(attn_plan_workspace(plan, &bytes));
        assert_ok(attn_plan_describe(plan, NULL, 0, &needed));
        assert_true(needed > 1);
        char *whole = malloc(needed);
        assert_non_null(whole);
        size_t again = 0;
        assert_ok(attn_plan_describe(plan, whole, needed, &again));
        assert_int_equal(again, needed);
        assert_int_equal(strlen(whole), needed - 1);
        char line[100];
        snprintf(line, sizeof line, "engine: %s (", engine_name(engine));
        assert_non_null(strstr(whole, line));
        snprintf(line, sizeof line, "workspace: %zu bytes\n", bytes);
        assert_non_null(strstr(whole, line));
        assert_non_null(strstr(whole, "kv_heads 2, q_len 5, kv_len 7, head_dim 3, v_dim 2"));
        assert_non_null(strstr(whole, "top left, causal"));
        assert_non_null(strstr(whole, REAL_DTYPE == ATTN_F32 ? "float" : "double"));
        /* cut to any size, closed, and nothing behind */
        for (size_t size = 1; size <= needed + 1; size++) {
            unsigned char *cut = malloc(needed + 8);
            assert_non_null(cut);
            memset(cut, 0xff, needed + 8);
            assert_ok(attn_plan_describe(plan, (char *)cut, size, size % 2 ? &again : NULL));
            assert_int_equal(again, needed);
            size_t length = size < needed ? size - 1 : needed - 1;
            assert_memory_equal(cut, whole, length);
            assert_int_equal(cut[length], 0);
            assert_true(all_poison(cut + size, needed + 8 - size));
            free(cut);
        }
        char nothing = 'x';
        assert_ok(attn_plan_describe(plan, &nothing, 0, NULL));
        assert_int_equal(nothing, 'x');
        free(whole);
        attn_plan_destroy(plan);
    }
    trial_close(&t);
}

/* Who multiplies tiles, by whatever core the BLAS has. */
static void test_describe_tiles(void **state) {
    (void)state;
    trial t;
    trial_open(&t, "h2q61k71d67");
    attn_blas_info blas = ATTN_STRUCT_INIT(attn_blas_info);
    assert_ok(attn_blas_get_info(&blas));
    attn_problem problem = trial_problem(&t, ATTN_ENGINE_FUSED);
    attn_plan *plan;
    assert_ok(attn_plan_create(NULL, &problem, REAL_DTYPE, &plan));
    char text[4096], line[512];
    assert_ok(attn_plan_describe(plan, text, sizeof text, NULL));
    bool in_parts = REAL_DTYPE == ATTN_F32 && attn_isa_in_use() == ATTN_ISA_AMX;
    snprintf(line, sizeof line, "\npath: tiles (q_len above 8), %s\n",
             in_parts                 ? "products by the matrix unit (AMX)"
             : blas.own_products != 0 ? "products by the library's own kernel"
                                      : "CBLAS products");
    if (strstr(text, line) == NULL)
        fail_msg("no \"%s\" in: %s", line, text);
    attn_plan_destroy(plan);
    trial_close(&t);
}

/* Every piece of the workspace that has bytes, and no other. */
static void test_describe_workspace(void **state) {
    (void)state;
    static const char *const shapes[] = {"h2q1k97d67", "h2q61k71d67", "h2q61k71d67v0", "b2h0q5k7d3", "b0h2q61k71d67"};
    static const attn_engine three[] = {ATTN_ENGINE_NAIVE, ATTN_ENGINE_BLAS, ATTN_ENGINE_FUSED};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes * 3; i++) {
        trial t;
        trial_open(&t, shapes[i / 3]);
        attn_problem problem = trial_problem(&t, three[i % 3]);
        attn_plan *plan;
        assert_ok(attn_plan_create(NULL, &problem, REAL_DTYPE, &plan));
        char text[4096];
        size_t bytes, sum = 0;
        assert_ok(attn_plan_describe(plan, text, sizeof text, NULL));
        assert_ok(attn_plan_workspace(plan, &bytes));
        for (const char *line = text; (line = strstr(line, "\nworkspace of ")) != NULL; line++) {
            size_t copies = 0, each = 0;
            assert_int_equal(sscanf(line, "\nworkspace of %*[^:]: %zu x %zu bytes\n", &copies, &each), 2);
            if (copies * each == 0)
                fail_msg("%s: a piece of no bytes in: %s", shapes[i / 3], text);
            sum += copies * each;
        }
#if defined(__SANITIZE_ADDRESS__)
        assert_true(sum <= bytes); /* pieces without elements have some bytes here, to keep others apart */
#else
        assert_int_equal(sum, bytes);
#endif
        attn_plan_destroy(plan);
        trial_close(&t);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_allocation_fails_once),
        cmocka_unit_test(test_no_memory_for_a_plan),
        cmocka_unit_test(test_workspace_of_the_caller),
        cmocka_unit_test(test_workspace_of_the_library),
        cmocka_unit_test(test_workspace_for_all_lengths),
        cmocka_unit_test(test_workspace_for_chunks),
        cmocka_unit_test(test_bound),
        cmocka_unit_test(test_empty_problem),
        cmocka_unit_test(test_growth),
        cmocka_unit_test(test_describe_paths),
        cmocka_unit_test(test_describe),
        cmocka_unit_test(test_describe_tiles),
        cmocka_unit_test(test_describe_workspace),
    };
    return run_sdpa_tests(tests);
}
