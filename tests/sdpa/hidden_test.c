/* Masks that hide whole tiles, which fused leaves out: all rows against the plain loops, some against the oracle, and
 * that keys which nobody looks at are not even read. */
#include "sdpa_test.h"

#include <sys/mman.h>

/* ---- Rectangles of hidden keys ----------------------------------------------------------------------------------- */

/* Tiles, strips of rows, few queries; mask rows of every stride, of lengths that are no multiple of a word. */
static const char *const problems[] = {
    "h2/1q300k1100d5v7,mask,lse",
    "q300k1100d5,mask,causal,off=400,sink,lse",
    "h2q300k1100d5,mask@h,mask_len=1003,bias,softcap=5,lse",
    "h2q300k1100d5,mask@q,lse",
    "q300k1100d5,mask@k,lse",
    "q300k1100d5,mask,window=300:300,off=300,lse",
    "h6/1q4k1100d3,mask,sink,lse",
    "b2h2q5k1100d3,mask@q,mask_len=1003,lse",
};

/* Rows and keys, cut to those that there are, of all heads or every second one: at the beginning, in the middle, at the
 * end, of all rows or some; tiles of 16 to 256 rows and 128 to 512 keys that are hidden but for one row or key. */
static const struct rectangle {
    int64_t row0, row_end, key0, key_end, head_step;
} rectangles[] = {
    {0, 300, 0, 512, 1},    {0, 300, 512, 1024, 1}, {0, 300, 1024, 1100, 1}, {0, 300, 0, 1100, 1}, {0, 256, 0, 1024, 1},
    {96, 300, 512, 768, 2}, {0, 255, 0, 1024, 1},   {1, 300, 0, 1100, 2},    {0, 256, 0, 511, 1},  {0, 256, 1, 1100, 1},
    {0, 47, 0, 512, 1},     {1, 3, 0, 1100, 1},     {0, 300, 0, 1099, 1},    {0, 300, 0, 768, 2},
};

/* All visible but for the keys of a rectangle. */
static void paint_mask(trial *t, const struct rectangle *hidden) {
    const attn_problem *p = &t->problem_case->problem;
    int64_t keys = (p->flags & ATTN_HAS_MASK_LEN) != 0 ? p->mask_len : p->kv_len;
    for (int hide = 0; hide < 2; hide++) {
        int64_t row_end = hide && hidden->row_end < p->q_len ? hidden->row_end : p->q_len;
        int64_t key_end = hide && hidden->key_end < keys ? hidden->key_end : keys;
        for (int64_t b = 0; b < p->batch; b++)
            for (int64_t h = 0; h < p->q_heads; h += hide ? hidden->head_step : 1)
                for (int64_t i = hide ? hidden->row0 : 0; i < row_end; i++)
                    for (int64_t j = hide ? hidden->key0 : 0; j < key_end; j++)
                        support_set(&t->data, SUPPORT_MASK, b, h, i, j, hide ? 0 : 1 + (double)(j % 255));
    }
}

/* NaN in keys and values of a rectangle: rows that do not see them are as they were. */
static void put_nans(trial *t, const struct rectangle *hidden) {
    const attn_problem *p = &t->problem_case->problem;
    for (int64_t b = 0; b < p->batch; b++)
        for (int64_t h = 0; h < p->kv_heads; h++) {
            *element(t, SUPPORT_K, b, h, hidden->key0 + 3, 1) = (real)NAN;
            *element(t, SUPPORT_V, b, h, hidden->key0, 0) = (real)NAN;
            *element(t, SUPPORT_V, b, h, hidden->key_end - 1, 2) = (real)NAN;
        }
}

/* Weights of 1/1100 are far above this. */
#define TOLERANCE (500 * EPS)

static void assert_like_plain_loops(const trial *t, const results *plain) {
    static const support_array both[] = {SUPPORT_OUT, SUPPORT_LSE};
    for (int n = 0; n < 2; n++)
        for (int64_t e = 0; e < plain->count[both[n]]; e++) {
            real got = ((const real *)t->data.base[both[n]])[e], wanted = plain->copy[both[n]][e];
            bool same = isfinite(wanted) ? absolute(got - (long double)wanted) <= TOLERANCE
                                         : (isnan(wanted) ? (bool)isnan(got) : got == wanted);
            if (!same)
                fail_msg("%s: element %lld of output %d is %.9g, of the plain loops %.9g", t->text, (long long)e, n,
                         (double)got, (double)wanted);
        }
}

/* Memory full of small numbers: output that no product begins must be cleared. NaN there would bring the second run,
 * which clears. */
static void *used_memory(void *data, size_t bytes) {
    (void)data;
    void *memory = aligned_alloc(64, (bytes + 63) / 64 * 64);
    assert_non_null(memory);
    return memset(memory, 0x3f, bytes);
}

static void free_memory(void *data, void *memory, size_t bytes) {
    (void)data;
    (void)bytes;
    free(memory);
}

static void check_fused(trial *t) {
    trial_run(t, ATTN_ENGINE_NAIVE, 1);
    results plain = results_of(t);
    attn_context context = threads_context(1);
    context.alloc = used_memory;
    context.free = free_memory;
    trial_run_in(t, ATTN_ENGINE_FUSED, &context);
    assert_like_plain_loops(t, &plain);
    trial_verify(t, ATTN_ENGINE_FUSED);
    results one = results_of(t);
    trial_run(t, ATTN_ENGINE_FUSED, 3);
    assert_same_results(t, &one, ATTN_ENGINE_FUSED, "more threads");
    results_free(&one);
    results_free(&plain);
}

static void test_hidden_rectangles(void **state) {
    (void)state;
    size_t pairs = 0;
    for (size_t s = 0; s < sizeof problems / sizeof *problems; s++)
        for (size_t r = 0; r < sizeof rectangles / sizeof *rectangles; r++) {
            if (pairs++ % stride_of_problems() != first_problem())
                continue;
            trial t;
            trial_open(&t, problems[s]);
            paint_mask(&t, &rectangles[r]);
            check_fused(&t);
            put_nans(&t, &rectangles[r]);
            check_fused(&t);
            trial_close(&t);
        }
}

/* ---- Keys that nobody looks at ----------------------------------------------------------------------------------- */

enum { KEYS = 1536, HIDDEN = 512, HIDDEN_END = 1024, SIZE = 512 }; /* the hidden ones are whole tiles and whole pages */
enum { ARRAY_BYTES = KEYS * SIZE * sizeof(real) };

/* Keys or values, of which those that will be hidden cannot be read. */
static real *guarded_array(void) {
    real *x = mmap(NULL, ARRAY_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANON, -1, 0);
    assert_true(x != MAP_FAILED);
    for (int64_t i = 0; i < (int64_t)KEYS * SIZE; i++)
        x[i] = (real)(i % 7) / 8;
    assert_int_equal(mprotect(x + (int64_t)HIDDEN * SIZE, (HIDDEN_END - HIDDEN) * SIZE * sizeof(real), PROT_NONE), 0);
    return x;
}

static void check_unread_keys(int64_t q_len) {
    attn_problem problem = ATTN_PROBLEM_INIT;
    problem.engine = ATTN_ENGINE_FUSED;
    problem.batch = problem.q_heads = problem.kv_heads = 1;
    problem.q_len = q_len;
    problem.kv_len = KEYS;
    problem.head_dim = problem.v_dim = SIZE;
    problem.flags = ATTN_HAS_MASK;
    problem.mask.key = 1;
    assert_ok(attn_problem_layout_bhld(&problem));
    uint8_t mask[KEYS];
    for (int64_t j = 0; j < KEYS; j++)
        mask[j] = j < HIDDEN || j >= HIDDEN_END;
    real *k = guarded_array(), *v = guarded_array(), *q = poisoned(q_len * SIZE), *out = poisoned(q_len * SIZE);
    for (int64_t i = 0; i < q_len * SIZE; i++)
        q[i] = (real)(i % 5) / 8;
    real_args args = ATTN_STRUCT_INIT(real_args);
    args.q = q;
    args.k = k;
    args.v = v;
    args.out = out;
    args.mask = mask;
    assert_ok(REAL(attn_sdpa)(NULL, &problem, &args));
    for (int64_t i = 0; i < q_len * SIZE; i++)
        assert_true(out[i] > 0 && out[i] < 1);
    free(out);
    free(q);
    munmap(v, ARRAY_BYTES);
    munmap(k, ARRAY_BYTES);
}

/* A call that reads them ends the program. */
static void test_keys_of_hidden_tiles_are_not_read(void **state) {
    (void)state;
    check_unread_keys(2);
    check_unread_keys(300);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hidden_rectangles),
        cmocka_unit_test(test_keys_of_hidden_tiles_are_not_read),
    };
    return run_sdpa_tests(tests);
}
