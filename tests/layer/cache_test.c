/* The cache of keys and values: the same tokens in any pieces, capacity, unused slots, lengths, options, misuse. */
#include <math.h>

#include "chain/chain_test.h"

/* ---- A small model: tokens with their queries, keys and values --------------------------------------------------- */

enum { BATCH = 2, Q_HEADS = 4, KV_HEADS = 2, DIM = 19, V_DIM = 13, TOKENS = 6 };

static const attn_engine engines[] = {ATTN_ENGINE_NAIVE, ATTN_ENGINE_BLAS, ATTN_ENGINE_FUSED};

/* [batch, heads, tokens, dim], dense. */
typedef struct tokens {
    real *q, *k, *v;
} tokens;

static tokens make_tokens(void) {
    return (tokens){.q = random_numbers(BATCH * Q_HEADS * TOKENS * DIM, 1),
                    .k = random_numbers(BATCH * KV_HEADS * TOKENS * DIM, 2),
                    .v = random_numbers(BATCH * KV_HEADS * TOKENS * V_DIM, 3)};
}

static void free_tokens(tokens *t) {
    free(t->q);
    free(t->k);
    free(t->v);
}

static attn_strides dense(int64_t heads, int64_t rows, int64_t dim) {
    return (attn_strides){heads * rows * dim, rows * dim, dim};
}

static const attn_strides k_strides = {KV_HEADS * TOKENS * DIM, TOKENS *DIM, DIM};
static const attn_strides v_strides = {KV_HEADS * TOKENS * V_DIM, TOKENS *V_DIM, V_DIM};

static attn_cache *make_cache_of(const attn_context *context, int64_t batch, int64_t capacity) {
    attn_cache_sizes sizes = ATTN_CACHE_SIZES_INIT;
    sizes.batch = batch;
    sizes.kv_heads = KV_HEADS;
    sizes.capacity = capacity;
    sizes.head_dim = DIM;
    sizes.v_dim = V_DIM;
    attn_cache *cache = NULL;
    assert_ok(attn_cache_create(context, &sizes, REAL_DTYPE, &cache));
    assert_non_null(cache);
    return cache;
}

static int64_t length_of(const attn_cache *cache, int64_t member) {
    int64_t length = -1;
    assert_ok(attn_cache_length(cache, member, &length));
    return length;
}

/* Tokens first .. first+rows-1 of one member, or of all. */
static attn_status append(attn_cache *cache, const tokens *t, int64_t member, int64_t first, int64_t rows) {
    return REAL(attn_cache_append)(cache, member, rows, t->k + member * k_strides.batch + first * DIM, k_strides,
                                   t->v + member * v_strides.batch + first * V_DIM, v_strides);
}

static attn_status append_all(attn_cache *cache, const tokens *t, int64_t first, int64_t rows, const int64_t *counts) {
    return REAL(attn_cache_append_all)(cache, rows, counts, t->k + first * DIM, k_strides, t->v + first * V_DIM,
                                       v_strides);
}

/* Queries first .. first+rows-1 of all members, results at their places in out and lse of all tokens. */
static attn_problem problem_of(int64_t rows, attn_engine engine) {
    attn_problem p = ATTN_PROBLEM_INIT;
    p.flags = ATTN_CAUSAL;
    p.engine = engine;
    p.alignment = ATTN_ALIGN_BOTTOM_RIGHT;
    p.batch = BATCH;
    p.q_heads = Q_HEADS;
    p.kv_heads = KV_HEADS;
    p.q_len = rows;
    p.kv_len = -77; /* not looked at */
    p.head_dim = DIM;
    p.v_dim = V_DIM;
    p.q = dense(Q_HEADS, TOKENS, DIM);
    p.k = p.v = (attn_strides){-1, -1, -1}; /* not looked at */
    p.out = dense(Q_HEADS, TOKENS, V_DIM);
    p.lse = dense(Q_HEADS, TOKENS, 1);
    return p;
}

enum { OUT_SIZE = BATCH * Q_HEADS * TOKENS * V_DIM, LSE_SIZE = BATCH * Q_HEADS * TOKENS };

static REAL(attn_args) args_of(const tokens *t, int64_t first, real *out, real *lse) {
    REAL(attn_args) args = ATTN_STRUCT_INIT(REAL(attn_args));
    args.q = t->q + first * DIM;
    args.out = out + first * V_DIM;
    args.lse = lse + first;
    return args;
}

/* ---- Long double ------------------------------------------------------------------------------------------------- */

typedef struct wanted_row {
    long double out[V_DIM], lse, out_error, lse_error; /* the errors are those that attention states */
} wanted_row;

/* Query `token` of a head against the first `keys` tokens. */
static wanted_row attend_to(const tokens *t, int64_t b, int64_t h, int64_t token, int64_t keys) {
    wanted_row row = {.lse = -INFINITY};
    long double score[TOKENS], max_score = 0, max_value = 0, sum = 0;
    int64_t kv_head = h / (Q_HEADS / KV_HEADS);
    const real *q = t->q + ((b * Q_HEADS + h) * TOKENS + token) * DIM;
    for (int64_t j = 0; j < keys; j++) {
        const real *k = t->k + b * k_strides.batch + kv_head * k_strides.head + j * DIM;
        score[j] = 0;
        for (int c = 0; c < DIM; c++)
            score[j] += (long double)q[c] * k[c];
        score[j] /= sqrtl(DIM);
        max_score = fmaxl(max_score, absolute(score[j]));
        sum += expl(score[j]);
    }
    if (keys > 0)
        row.lse = logl(sum);
    for (int64_t j = 0; j < keys; j++)
        for (int c = 0; c < V_DIM; c++) {
            long double v = t->v[b * v_strides.batch + kv_head * v_strides.head + j * V_DIM + c];
            row.out[c] += expl(score[j]) / sum * v;
            max_value = fmaxl(max_value, absolute(v));
        }
    long double error = (3 + 1.5L * max_score) * EPS * (long double)support_valgrind_factor(REAL_DTYPE);
    row.out_error = error * max_value;
    row.lse_error = error * fmaxl(1, absolute(row.lse));
    return row;
}

static void check_row(const tokens *t, int64_t b, int64_t token, int64_t keys, const real *out, const real *lse) {
    for (int64_t h = 0; h < Q_HEADS; h++) {
        wanted_row row = attend_to(t, b, h, token, keys);
        int64_t place = (b * Q_HEADS + h) * TOKENS + token;
        for (int c = 0; c < V_DIM; c++)
            assert_near(out[place * V_DIM + c], row.out[c], row.out_error);
        if (keys == 0)
            assert_true(lse[place] == -(real)INFINITY);
        else
            assert_near(lse[place], row.lse, row.lse_error);
    }
}

/* ---- Use --------------------------------------------------------------------------------------------------------- */

/* 6 tokens as 6, 4+2, 2+2+2, 1x6, in a cache that has room to spare, its memory poisoned by the allocator: each token
 * sees itself and those before it. */
static void test_tokens_in_pieces(void **state) {
    (void)state;
    static const int64_t pieces[4][TOKENS] = {{6}, {4, 2}, {2, 2, 2}, {1, 1, 1, 1, 1, 1}};
    tokens t = make_tokens();
    for (int e = 0; e < 3; e++)
        for (int way = 0; way < 4; way++)
            for (int64_t capacity = TOKENS; capacity < 40; capacity += 33) {
                counting_allocator allocator = {.fail_at = -1};
                attn_context context = counting_context(&allocator);
                attn_cache *cache = make_cache_of(&context, BATCH, capacity);
                real *out = poisoned(OUT_SIZE), *lse = poisoned(LSE_SIZE);
                int64_t done = 0;
                for (int i = 0; i < TOKENS && pieces[way][i] > 0; i++) {
                    int64_t rows = pieces[way][i];
                    attn_problem problem = problem_of(rows, engines[e]);
                    REAL(attn_args) args = args_of(&t, done, out, lse);
                    assert_ok(append_all(cache, &t, done, rows, NULL));
                    assert_ok(REAL(attn_cache_attend)(NULL, cache, &problem, &args));
                    done += rows;
                    assert_int_equal(length_of(cache, 0), done);
                    assert_int_equal(length_of(cache, 1), done);
                }
                for (int64_t b = 0; b < BATCH; b++)
                    for (int64_t token = 0; token < TOKENS; token++)
                        check_row(&t, b, token, token + 1, out, lse);
                free(out);
                free(lse);
                attn_cache_destroy(cache);
                assert_int_equal(allocator.live, 0);
            }
    free_tokens(&t);
}

/* Members of different lengths, one of them empty. */
static void test_lengths_per_member(void **state) {
    (void)state;
    static const int64_t counts[] = {5, 0};
    tokens t = make_tokens();
    real *out = poisoned(OUT_SIZE), *lse = poisoned(LSE_SIZE);
    counting_allocator allocator = {.fail_at = -1};
    attn_context context = counting_context(&allocator);
    attn_cache *cache = make_cache_of(&context, BATCH, 7);
    assert_ok(append_all(cache, &t, 0, 5, counts));
    assert_int_equal(length_of(cache, 0), 5);
    assert_int_equal(length_of(cache, 1), 0);
    for (int e = 0; e < 3; e++) {
        attn_problem problem = problem_of(1, engines[e]);
        REAL(attn_args) args = args_of(&t, 4, out, lse);
        assert_ok(REAL(attn_cache_attend)(NULL, cache, &problem, &args));
        check_row(&t, 0, 4, 5, out, lse);
        check_row(&t, 1, 4, 0, out, lse);
    }
    /* member 1 catches up */
    assert_ok(append(cache, &t, 1, 0, 3));
    assert_int_equal(length_of(cache, 0), 5);
    assert_int_equal(length_of(cache, 1), 3);
    attn_problem problem = problem_of(1, ATTN_ENGINE_AUTO);
    REAL(attn_args) args = args_of(&t, 4, out, lse);
    assert_ok(REAL(attn_cache_attend)(NULL, cache, &problem, &args));
    check_row(&t, 0, 4, 5, out, lse);
    check_row(&t, 1, 4, 3, out, lse);
    free(out);
    free(lse);
    free_tokens(&t);
    attn_cache_destroy(cache);
}

/* The rows of a member as raw memory. */
typedef struct member_rows {
    real *k, *v;
    attn_strides k_strides, v_strides;
} member_rows;

static member_rows rows_of(attn_cache *cache, int64_t member) {
    member_rows m;
    assert_ok(REAL(attn_cache_rows)(cache, member, &m.k, &m.k_strides, &m.v, &m.v_strides));
    return m;
}

/* Row `row` of a member holds token `token`. */
static void assert_holds(attn_cache *cache, const tokens *t, int64_t member, int64_t row, int64_t token) {
    member_rows m = rows_of(cache, member);
    for (int64_t h = 0; h < KV_HEADS; h++) {
        assert_same_bits(m.k + h * m.k_strides.head + row * m.k_strides.row,
                         t->k + member * k_strides.batch + h * k_strides.head + token * DIM, DIM);
        assert_same_bits(m.v + h * m.v_strides.head + row * m.v_strides.row,
                         t->v + member * v_strides.batch + h * v_strides.head + token * V_DIM, V_DIM);
    }
}

static void assert_slots_untouched(attn_cache *cache, int64_t member, int64_t first, int64_t end) {
    member_rows m = rows_of(cache, member);
    for (int64_t h = 0; h < KV_HEADS; h++)
        for (int64_t row = first; row < end; row++) {
            assert_untouched(m.k + h * m.k_strides.head + row * m.k_strides.row, DIM);
            assert_untouched(m.v + h * m.v_strides.head + row * m.v_strides.row, V_DIM);
        }
}

static void test_beyond_the_capacity(void **state) {
    (void)state;
    tokens t = make_tokens();
    counting_allocator allocator = {.fail_at = -1};
    attn_context context = counting_context(&allocator);
    attn_cache *cache = make_cache_of(&context, BATCH, 4);
    assert_ok(append(cache, &t, 1, 0, 3));
    assert_refused(ATTN_ERR_LENGTH, "member 1: 2 more do not fit the capacity 4 (length 3)",
                   append(cache, &t, 1, 3, 2));
    /* member 0 has room, member 1 has not: neither changes */
    assert_refused(ATTN_ERR_LENGTH, "member 1: 2 more do not fit the capacity 4 (length 3)",
                   append_all(cache, &t, 3, 2, NULL));
    assert_refused(ATTN_ERR_LENGTH, "member 1: 2 more do not fit the capacity 4 (length 3)",
                   attn_cache_extend(cache, 1, 2));
    assert_refused(ATTN_ERR_LENGTH, "member 0: 9223372036854775807 more do not fit the capacity 4 (length 0)",
                   attn_cache_extend(cache, 0, INT64_MAX));
    assert_int_equal(length_of(cache, 0), 0);
    assert_int_equal(length_of(cache, 1), 3);
    assert_slots_untouched(cache, 0, 0, 4);
    assert_slots_untouched(cache, 1, 3, 4);
    for (int64_t row = 0; row < 3; row++)
        assert_holds(cache, &t, 1, row, row);
    /* the last slot can be filled */
    static const int64_t counts[] = {2, 1};
    assert_ok(append_all(cache, &t, 3, 2, counts));
    assert_holds(cache, &t, 0, 0, 3);
    assert_holds(cache, &t, 0, 1, 4);
    assert_holds(cache, &t, 1, 3, 3);
    assert_slots_untouched(cache, 0, 2, 4);
    free_tokens(&t);
    attn_cache_destroy(cache);
}

/* What was truncated away and now holds NaN is not read either. */
static void test_truncate_and_reset(void **state) {
    (void)state;
    tokens t = make_tokens();
    real *out = poisoned(OUT_SIZE), *lse = poisoned(LSE_SIZE);
    attn_cache *cache = make_cache_of(NULL, BATCH, TOKENS);
    assert_ok(append_all(cache, &t, 0, TOKENS, NULL));
    assert_ok(attn_cache_truncate(cache, 1, 2));
    assert_int_equal(length_of(cache, 0), TOKENS);
    assert_int_equal(length_of(cache, 1), 2);
    assert_refused(ATTN_ERR_LENGTH, "length 3 is outside 0..2, the keys of member 1", attn_cache_truncate(cache, 1, 3));
    assert_refused(ATTN_ERR_LENGTH, "length 3 is outside 0..2, the keys of member 1",
                   attn_cache_truncate(cache, ATTN_CACHE_ALL, 3));
    assert_refused(ATTN_ERR_LENGTH, "length -1 is outside 0..6, the keys of member 0",
                   attn_cache_truncate(cache, ATTN_CACHE_ALL, -1));
    assert_int_equal(length_of(cache, 0), TOKENS);
    member_rows m = rows_of(cache, 1);
    for (int64_t h = 0; h < KV_HEADS; h++) {
        memset(m.k + h * m.k_strides.head + 2 * m.k_strides.row, 0xff, 4 * DIM * sizeof(real));
        memset(m.v + h * m.v_strides.head + 2 * m.v_strides.row, 0xff, 4 * V_DIM * sizeof(real));
    }
    for (int e = 0; e < 3; e++) {
        attn_problem problem = problem_of(1, engines[e]);
        REAL(attn_args) args = args_of(&t, 5, out, lse);
        assert_ok(REAL(attn_cache_attend)(NULL, cache, &problem, &args));
        check_row(&t, 0, 5, 6, out, lse);
        check_row(&t, 1, 5, 2, out, lse);
    }
    /* again from there */
    assert_ok(append(cache, &t, 1, 2, 4));
    attn_problem problem = problem_of(1, ATTN_ENGINE_AUTO);
    REAL(attn_args) args = args_of(&t, 5, out, lse);
    assert_ok(REAL(attn_cache_attend)(NULL, cache, &problem, &args));
    check_row(&t, 1, 5, 6, out, lse);

    assert_ok(attn_cache_truncate(cache, ATTN_CACHE_ALL, 4));
    assert_int_equal(length_of(cache, 0), 4);
    assert_int_equal(length_of(cache, 1), 4);
    assert_ok(attn_cache_reset(cache, 0));
    assert_int_equal(length_of(cache, 0), 0);
    assert_int_equal(length_of(cache, 1), 4);
    assert_ok(attn_cache_reset(cache, ATTN_CACHE_ALL));
    assert_int_equal(length_of(cache, 1), 0);
    free(out);
    free(lse);
    free_tokens(&t);
    attn_cache_destroy(cache);
}

/* Keys and values written in place; sources with tokens before heads. */
static void test_writing_without_a_copy(void **state) {
    (void)state;
    tokens t = make_tokens();
    attn_cache *copied = make_cache_of(NULL, 1, TOKENS), *written = make_cache_of(NULL, 1, TOKENS);
    real k[TOKENS * KV_HEADS * DIM], v[TOKENS * KV_HEADS * V_DIM];
    member_rows m = rows_of(written, 0);
    for (int64_t row = 0; row < TOKENS; row++)
        for (int64_t h = 0; h < KV_HEADS; h++) {
            const real *from_k = t.k + h * k_strides.head + row * DIM, *from_v = t.v + h * v_strides.head + row * V_DIM;
            memcpy(m.k + h * m.k_strides.head + row * m.k_strides.row, from_k, DIM * sizeof(real));
            memcpy(m.v + h * m.v_strides.head + row * m.v_strides.row, from_v, V_DIM * sizeof(real));
            memcpy(k + (row * KV_HEADS + h) * DIM, from_k, DIM * sizeof(real));
            memcpy(v + (row * KV_HEADS + h) * V_DIM, from_v, V_DIM * sizeof(real));
        }
    assert_int_equal(length_of(written, 0), 0);
    assert_ok(attn_cache_extend(written, 0, 4));
    assert_ok(attn_cache_extend(written, 0, 0));
    assert_ok(attn_cache_extend(written, 0, 2));
    assert_int_equal(length_of(written, 0), TOKENS);
    assert_ok(REAL(attn_cache_append)(copied, 0, TOKENS, k, (attn_strides){-5, DIM, KV_HEADS * DIM}, v,
                                      (attn_strides){-5, V_DIM, KV_HEADS * V_DIM}));
    for (int64_t row = 0; row < TOKENS; row++) {
        assert_holds(copied, &t, 0, row, row);
        assert_holds(written, &t, 0, row, row);
    }
    /* from one place of the cache to another */
    assert_ok(attn_cache_truncate(written, 0, 3));
    m = rows_of(written, 0);
    assert_ok(
        REAL(attn_cache_append)(written, 0, 2, m.k + m.k_strides.row, m.k_strides, m.v + m.v_strides.row, m.v_strides));
    assert_holds(written, &t, 0, 3, 1);
    assert_holds(written, &t, 0, 4, 2);
    assert_refused(ATTN_ERR_OVERLAP, "room of the cache starts where k starts",
                   REAL(attn_cache_append)(written, 0, 1, m.k + 5 * m.k_strides.row, m.k_strides, m.v, m.v_strides));
    free_tokens(&t);
    attn_cache_destroy(copied);
    attn_cache_destroy(written);
}

/* The options of a problem work as in a plain call over the same keys, bit for bit. */
static void test_options(void **state) {
    (void)state;
    enum { KEYS = TOKENS, CAPACITY = 11 };
    static const int64_t kv_lens[] = {6, 4}, q_lens[] = {2, 1};
    tokens t = make_tokens();
    attn_cache *cache = make_cache_of(NULL, BATCH, CAPACITY);
    assert_ok(append_all(cache, &t, 0, TOKENS, kv_lens));
    uint8_t mask[BATCH * 3 * CAPACITY];
    for (int i = 0; i < (int)sizeof mask; i++)
        mask[i] = support_random_uniform(1, 6, (uint64_t)i) < 0.7;
    real bias[KEYS], slopes[Q_HEADS], sink[Q_HEADS] = {1, 0, -1, 2};
    support_fill_normal(REAL_DTYPE, bias, KEYS, 1, 7, 0, 1);
    assert_ok(REAL(attn_alibi_slopes)(Q_HEADS, slopes));
    for (int e = 0; e < 3; e++) {
        attn_problem problem = problem_of(3, engines[e]);
        problem.flags |= ATTN_HAS_WINDOW | ATTN_HAS_SOFTCAP | ATTN_HAS_MASK | ATTN_HAS_BIAS | ATTN_HAS_ALIBI |
                         ATTN_HAS_SINK | ATTN_HAS_SCALE;
        problem.scale = 0.4;
        problem.softcap = 5;
        problem.window_left = 3;
        problem.window_right = -1;
        problem.mask = (attn_mask_strides){3 * CAPACITY, 0, CAPACITY, 1};
        problem.bias = (attn_mask_strides){0, 0, 0, 1};
        real *out[2], *lse[2];
        for (int plain = 0; plain < 2; plain++) {
            out[plain] = poisoned(OUT_SIZE);
            lse[plain] = poisoned(LSE_SIZE);
            REAL(attn_args) args = args_of(&t, 0, out[plain], lse[plain]);
            args.q_lens = q_lens;
            args.mask = mask;
            args.bias = bias;
            args.alibi_slopes = slopes;
            args.sink = sink;
            if (plain) {
                problem.kv_len = KEYS;
                problem.k = k_strides;
                problem.v = v_strides;
                args.k = t.k;
                args.v = t.v;
                args.kv_lens = kv_lens;
                assert_ok(REAL(attn_sdpa)(NULL, &problem, &args));
            } else {
                assert_ok(REAL(attn_cache_attend)(NULL, cache, &problem, &args));
            }
        }
        assert_same_bits(out[0], out[1], OUT_SIZE);
        assert_same_bits(lse[0], lse[1], LSE_SIZE);
        for (int plain = 0; plain < 2; plain++) {
            free(out[plain]);
            free(lse[plain]);
        }
    }
    free_tokens(&t);
    attn_cache_destroy(cache);
}

/* ---- Plans ------------------------------------------------------------------------------------------------------- */

/* One plan and one workspace for all steps: nothing is allocated after the plan was made, bits are those of attend. */
static void test_plan(void **state) {
    (void)state;
    tokens t = make_tokens();
    for (int e = 0; e < 3; e++) {
        counting_allocator allocator = {.fail_at = -1};
        attn_context context = counting_context(&allocator);
        attn_cache *cache = make_cache_of(&context, BATCH, 11);
        attn_problem problem = problem_of(2, engines[e]);
        attn_plan *plan = NULL;
        size_t bytes = 0;
        assert_ok(attn_cache_plan_create(&context, cache, &problem, &plan));
        assert_ok(attn_plan_workspace(plan, &bytes));
        void *workspace = aligned_alloc(ATTN_WORKSPACE_ALIGN, bytes + 64 - bytes % 64);
        assert_non_null(workspace);
        int64_t calls = allocator.calls;
        real *out = poisoned(OUT_SIZE), *lse = poisoned(LSE_SIZE);
        real *wanted_out = poisoned(OUT_SIZE), *wanted_lse = poisoned(LSE_SIZE);
        for (int64_t done = 0; done < TOKENS; done += 2) {
            assert_ok(append_all(cache, &t, done, 2, NULL));
            REAL(attn_args) args = args_of(&t, done, out, lse), wanted = args_of(&t, done, wanted_out, wanted_lse);
            memset(workspace, 0xff, bytes);
            assert_ok(REAL(attn_cache_plan_run)(plan, cache, &args, workspace, bytes));
            assert_ok(REAL(attn_cache_attend)(NULL, cache, &problem, &wanted));
        }
        assert_same_bits(out, wanted_out, OUT_SIZE);
        assert_same_bits(lse, wanted_lse, LSE_SIZE);
        assert_int_equal(allocator.calls, calls);
        /* without a workspace it takes one */
        REAL(attn_args) args = args_of(&t, 4, out, lse);
        assert_ok(REAL(attn_cache_plan_run)(plan, cache, &args, NULL, 0));
        assert_same_bits(out, wanted_out, OUT_SIZE);
        free(workspace);
        free(out);
        free(lse);
        free(wanted_out);
        free(wanted_lse);
        attn_plan_destroy(plan);
        attn_cache_destroy(cache);
        assert_int_equal(allocator.live, 0);
    }
    free_tokens(&t);
}

/* The columns of a plan's mask and intermediates are the capacity. */
static void test_columns_of_a_plan(void **state) {
    (void)state;
    enum { CAPACITY = 9, ROWS = 2, CELLS = BATCH * Q_HEADS * ROWS * CAPACITY };
    tokens t = make_tokens();
    attn_cache *cache = make_cache_of(NULL, BATCH, CAPACITY);
    assert_ok(append_all(cache, &t, 0, TOKENS, NULL));
    attn_problem problem = problem_of(ROWS, ATTN_ENGINE_AUTO);
    problem.flags |= ATTN_HAS_MASK | ATTN_WANT_WEIGHTS;
    problem.mask = (attn_mask_strides){0, 0, 0, 1};
    problem.scores = (attn_strides){Q_HEADS * ROWS * CAPACITY, ROWS * CAPACITY, CAPACITY};
    uint8_t mask[CAPACITY] = {1, 0, 1, 1, 1, 1, 1, 1, 1};
    real *out = poisoned(OUT_SIZE), *lse = poisoned(LSE_SIZE), *weights = poisoned(CELLS);
    REAL(attn_args) args = args_of(&t, 4, out, lse);
    args.mask = mask;
    args.weights = weights;
    attn_plan *plan = NULL;
    assert_ok(attn_cache_plan_create(NULL, cache, &problem, &plan));
    assert_ok(REAL(attn_cache_plan_run)(plan, cache, &args, NULL, 0));
    for (int64_t row = 0; row < BATCH * Q_HEADS * ROWS; row++) {
        long double sum = 0;
        for (int64_t j = 0; j < CAPACITY; j++) {
            real weight = weights[row * CAPACITY + j];
            bool visible = j != 1 && j <= 4 + row % ROWS;
            assert_true(visible ? weight > 0 : weight == 0);
            sum += weight;
        }
        assert_near(sum, 1, 8 * EPS);
    }
    attn_plan_destroy(plan);
    free(out);
    free(lse);
    free(weights);
    free_tokens(&t);
    attn_cache_destroy(cache);
}

static void test_bad_plans(void **state) {
    (void)state;
    tokens t = make_tokens();
    attn_cache *cache = make_cache_of(NULL, BATCH, TOKENS), *longer = make_cache_of(NULL, BATCH, TOKENS + 1);
    attn_cache *single = make_cache_of(NULL, 1, TOKENS);
    attn_problem problem = problem_of(1, ATTN_ENGINE_AUTO);
    attn_plan *plan = NULL, *none = NULL;
    assert_refused(ATTN_ERR_NULL, "cache is NULL", attn_cache_plan_create(NULL, NULL, &problem, &none));
    assert_refused(ATTN_ERR_NULL, "problem is NULL", attn_cache_plan_create(NULL, cache, NULL, &none));
    assert_refused(ATTN_ERR_NULL, "plan is NULL", attn_cache_plan_create(NULL, cache, &problem, NULL));
    assert_refused(ATTN_ERR_SIZE, "batch 2 is not the cache's 1",
                   attn_cache_plan_create(NULL, single, &problem, &none));
    problem.flags |= ATTN_RAGGED;
    assert_refused(ATTN_ERR_FLAG, "ATTN_RAGGED: the keys of a cache are not packed",
                   attn_cache_plan_create(NULL, cache, &problem, &none));
    problem.flags &= ~ATTN_RAGGED;
    counting_allocator allocator = {.fail_at = 0};
    attn_context context = counting_context(&allocator);
    assert_int_equal(attn_cache_plan_create(&context, cache, &problem, &none), ATTN_ERR_NOMEM);
    assert_null(none);

    assert_ok(attn_cache_plan_create(NULL, cache, &problem, &plan));
    assert_ok(append_all(cache, &t, 0, TOKENS, NULL));
    real *out = poisoned(OUT_SIZE), *lse = poisoned(LSE_SIZE);
    REAL(attn_args) args = args_of(&t, 5, out, lse);
    assert_refused(ATTN_ERR_NULL, "plan is NULL", REAL(attn_cache_plan_run)(NULL, cache, &args, NULL, 0));
    assert_refused(ATTN_ERR_NULL, "cache is NULL", REAL(attn_cache_plan_run)(plan, NULL, &args, NULL, 0));
    assert_refused(ATTN_ERR_NULL, "args is NULL", REAL(attn_cache_plan_run)(plan, cache, NULL, NULL, 0));
    assert_refused(ATTN_ERR_SIZE, "capacity 6 of the plan is not the cache's 7",
                   REAL(attn_cache_plan_run)(plan, longer, &args, NULL, 0));
    assert_refused(ATTN_ERR_SIZE, "batch 2 of the plan is not the cache's 1",
                   REAL(attn_cache_plan_run)(plan, single, &args, NULL, 0));
    attn_problem apart = problem; /* a plan of the cache's sizes, but for members further apart */
    real *keys, *values;
    apart.kv_len = TOKENS;
    assert_ok(attn_problem_layout_bhld(&apart));
    assert_ok(REAL(attn_cache_rows)(cache, 0, &keys, &apart.k, &values, &apart.v));
    apart.k.batch += 1000;
    assert_ok(attn_plan_create(NULL, &apart, REAL_DTYPE, &none));
    assert_int_equal(REAL(attn_cache_plan_run)(none, cache, &args, NULL, 0), ATTN_ERR_SIZE);
    assert_non_null(strstr(attn_last_error(), "k batch stride"));
    attn_plan_destroy(none);
    args.k = t.k;
    assert_refused(ATTN_ERR_FLAG, "k is given, but the cache has its own",
                   REAL(attn_cache_plan_run)(plan, cache, &args, NULL, 0));
    args.k = NULL;
    assert_int_equal(REAL(attn_cache_plan_run)(plan, cache, &args, out, 1), ATTN_ERR_WORKSPACE);
    assert_untouched(out, OUT_SIZE);
    assert_untouched(lse, LSE_SIZE);
    attn_plan_destroy(plan);
    free(out);
    free(lse);
    free_tokens(&t);
    attn_cache_destroy(cache);
    attn_cache_destroy(longer);
    attn_cache_destroy(single);
}

/* Enough work for several threads. */
static void test_threads(void **state) {
    (void)state;
    enum { KEYS = 700, ROWS = 40 };
    attn_cache *cache = make_cache_of(NULL, BATCH, 800);
    real *k = random_numbers(BATCH * KV_HEADS * KEYS * DIM, 1), *v = random_numbers(BATCH * KV_HEADS * KEYS * V_DIM, 2);
    real *q = random_numbers(BATCH * Q_HEADS * ROWS * DIM, 3);
    assert_ok(
        REAL(attn_cache_append_all)(cache, KEYS, NULL, k, dense(KV_HEADS, KEYS, DIM), v, dense(KV_HEADS, KEYS, V_DIM)));
    for (int e = 0; e < 3; e++)
        for (int64_t rows = 1; rows <= ROWS; rows += ROWS - 1) {
            attn_problem problem = problem_of(rows, engines[e]);
            problem.q = dense(Q_HEADS, rows, DIM);
            problem.out = dense(Q_HEADS, rows, V_DIM);
            int64_t size = BATCH * Q_HEADS * rows * V_DIM;
            real *first = NULL;
            for (int threads = 1; threads <= 4; threads *= 2) {
                attn_context context = threads_context(threads);
                real *out = poisoned(size);
                REAL(attn_args) args = ATTN_STRUCT_INIT(REAL(attn_args));
                args.q = q;
                args.out = out;
                assert_ok(REAL(attn_cache_attend)(&context, cache, &problem, &args));
                if (first != NULL)
                    assert_same_bits(out, first, size);
                free(first);
                first = out;
            }
            free(first);
        }
    free(k);
    free(v);
    free(q);
    attn_cache_destroy(cache);
}

static void test_sizes_of_0(void **state) {
    (void)state;
    static const int64_t sizes_of[5][5] = {
        {0, 2, 3, 4, 5}, {3, 0, 3, 4, 5}, {2, 2, 0, 4, 5}, {3, 2, 3, 4, 0}, {0, 0, 0, 1, 0}};
    for (int i = 0; i < 5; i++) {
        attn_cache_sizes sizes = ATTN_CACHE_SIZES_INIT;
        sizes.batch = sizes_of[i][0], sizes.kv_heads = sizes_of[i][1], sizes.capacity = sizes_of[i][2];
        sizes.head_dim = sizes_of[i][3], sizes.v_dim = sizes_of[i][4];
        attn_cache *cache = NULL;
        assert_ok(attn_cache_create(NULL, &sizes, REAL_DTYPE, &cache));
        int64_t rows = sizes.capacity > 0 ? 2 : 0;
        real *k = random_numbers(sizes.batch * sizes.kv_heads * rows * sizes.head_dim + 1, 1);
        real *v = random_numbers(sizes.batch * sizes.kv_heads * rows * sizes.v_dim + 1, 2);
        const attn_strides anything = {INT64_MAX, INT64_MAX, INT64_MAX};
        bool no_keys = sizes.batch * sizes.kv_heads * rows == 0;
        assert_ok(REAL(attn_cache_append_all)(
            cache, rows, NULL, k, no_keys ? anything : dense(sizes.kv_heads, rows, sizes.head_dim),
            sizes.v_dim > 0 ? v : NULL,
            no_keys || sizes.v_dim == 0 ? anything : dense(sizes.kv_heads, rows, sizes.v_dim)));
        attn_problem problem = ATTN_PROBLEM_INIT;
        problem.batch = sizes.batch, problem.q_heads = problem.kv_heads = sizes.kv_heads, problem.q_len = 1;
        problem.head_dim = sizes.head_dim, problem.v_dim = sizes.v_dim;
        assert_ok(attn_problem_layout_bhld(&problem));
        real out[32], lse[8];
        memset(out, 0xff, sizeof out);
        memset(lse, 0xff, sizeof lse);
        REAL(attn_args) args = ATTN_STRUCT_INIT(REAL(attn_args));
        args.q = k;
        args.out = out;
        args.lse = lse;
        assert_ok(REAL(attn_cache_attend)(NULL, cache, &problem, &args));
        int64_t results = sizes.batch * sizes.kv_heads;
        for (int64_t n = 0; n < results; n++)
            assert_true(rows > 0 ? isfinite(lse[n]) : lse[n] == -(real)INFINITY);
        for (int64_t n = 0; n < results * sizes.v_dim; n++)
            assert_true(rows > 0 ? isfinite(out[n]) : out[n] == 0);
        assert_untouched(out + results * sizes.v_dim, 1);
        attn_plan *plan;
        real lse_of_plan[8];
        assert_ok(attn_cache_plan_create(NULL, cache, &problem, &plan));
        args.lse = lse_of_plan;
        assert_ok(REAL(attn_cache_plan_run)(plan, cache, &args, NULL, 0));
        assert_same_bits(lse_of_plan, lse, results);
        attn_plan_destroy(plan);
        free(k);
        free(v);
        attn_cache_destroy(cache);
    }
}

/* ---- Memory ------------------------------------------------------------------------------------------------------ */

static void test_failing_allocations(void **state) {
    (void)state;
    tokens t = make_tokens();
    real *out = poisoned(OUT_SIZE), *lse = poisoned(LSE_SIZE);
    int64_t needed = 1;
    for (int64_t k = 0; k < needed; k++) {
        counting_allocator allocator = {.fail_at = k};
        attn_context context = counting_context(&allocator);
        attn_cache_sizes sizes = ATTN_CACHE_SIZES_INIT;
        sizes.batch = BATCH, sizes.kv_heads = KV_HEADS, sizes.capacity = TOKENS;
        sizes.head_dim = DIM, sizes.v_dim = V_DIM;
        attn_cache *cache = NULL;
        attn_status status = attn_cache_create(&context, &sizes, REAL_DTYPE, &cache);
        if (k == 0) {
            assert_int_equal(status, ATTN_ERR_NOMEM);
            assert_null(cache);
            assert_non_null(strstr(attn_last_error(), " bytes for the cache"));
            needed = 2;
        } else {
            assert_ok(status);
            assert_ok(append_all(cache, &t, 0, TOKENS, NULL));
            attn_problem problem = problem_of(TOKENS, ATTN_ENGINE_BLAS);
            REAL(attn_args) args = args_of(&t, 0, out, lse);
            status = REAL(attn_cache_attend)(&context, cache, &problem, &args);
            /* count on as long as a call to come fails */
            if (allocator.calls > k) {
                assert_int_equal(status, ATTN_ERR_NOMEM);
                assert_untouched(out, OUT_SIZE);
                assert_untouched(lse, LSE_SIZE);
                needed = k + 2;
            } else {
                assert_ok(status);
                check_row(&t, 1, 5, 6, out, lse);
            }
            assert_int_equal(length_of(cache, 1), TOKENS);
        }
        attn_cache_destroy(cache);
        assert_int_equal(allocator.live, 0);
        assert_int_equal(allocator.live_size, 0);
    }
    assert_true(needed >= 3);
    free(out);
    free(lse);
    free_tokens(&t);
}

/* Huge sizes are refused before memory is asked for. */
static void test_too_large(void **state) {
    (void)state;
    attn_cache_sizes sizes = ATTN_CACHE_SIZES_INIT;
    sizes.batch = sizes.kv_heads = sizes.capacity = sizes.head_dim = INT64_C(1) << 20;
    attn_cache *cache = NULL;
    assert_refused(ATTN_ERR_OVERFLOW, "a cache of these sizes is larger than the address space",
                   attn_cache_create(NULL, &sizes, REAL_DTYPE, &cache));
    assert_null(cache);
}

/* ---- Misuse ------------------------------------------------------------------------------------------------------ */

static void test_bad_creation(void **state) {
    (void)state;
    attn_cache_sizes good = ATTN_CACHE_SIZES_INIT;
    good.batch = 2, good.kv_heads = 3, good.capacity = 4, good.head_dim = 5, good.v_dim = 6;
    attn_cache *cache = NULL;
#define REFUSED(status, sentence, change)                                                                              \
    do {                                                                                                               \
        attn_cache_sizes s = good;                                                                                     \
        change;                                                                                                        \
        assert_refused(status, sentence, attn_cache_create(NULL, &s, REAL_DTYPE, &cache));                             \
        assert_null(cache);                                                                                            \
    } while (0)
    REFUSED(ATTN_ERR_SIZE, "batch -1 is below 0", s.batch = -1);
    REFUSED(ATTN_ERR_SIZE, "kv_heads -1 is below 0", s.kv_heads = -1);
    REFUSED(ATTN_ERR_SIZE, "capacity -1 is below 0", s.capacity = -1);
    REFUSED(ATTN_ERR_SIZE, "head_dim 0 is below 1", s.head_dim = 0);
    REFUSED(ATTN_ERR_SIZE, "v_dim -1 is below 0", s.v_dim = -1);
    REFUSED(ATTN_ERR_STRUCT_SIZE, "attn_cache_sizes: struct_size 47 is below the first version's 48", s.struct_size--);
    REFUSED(ATTN_ERR_STRUCT_SIZE, "attn_cache_sizes: struct_size 49 is above this library's 48", s.struct_size++);
#undef REFUSED
    assert_refused(ATTN_ERR_DTYPE, "dtype 2 is none", attn_cache_create(NULL, &good, (attn_dtype)2, &cache));
    assert_refused(ATTN_ERR_NULL, "sizes is NULL", attn_cache_create(NULL, NULL, REAL_DTYPE, &cache));
    assert_refused(ATTN_ERR_NULL, "cache is NULL", attn_cache_create(NULL, &good, REAL_DTYPE, NULL));
    attn_context context = threads_context(-1);
    assert_refused(ATTN_ERR_VALUE, "context: threads -1 is below 0 (0 = the default number)",
                   attn_cache_create(&context, &good, REAL_DTYPE, &cache));
    assert_null(cache);
    assert_refused(ATTN_ERR_NULL, "attn_cache_sizes is NULL", attn_cache_sizes_init(NULL, sizeof good));
    attn_cache_sizes sizes;
    memset(&sizes, 0xff, sizeof sizes);
    assert_ok(attn_cache_sizes_init(&sizes, sizeof sizes));
    assert_true(sizes.struct_size == sizeof sizes && sizes.batch == 0 && sizes.v_dim == 0);

    assert_ok(attn_cache_create(NULL, &good, REAL_DTYPE, &cache));
    assert_ok(attn_cache_get_sizes(cache, &sizes));
    assert_memory_equal(&sizes, &good, sizeof sizes);
    assert_refused(ATTN_ERR_NULL, "sizes is NULL", attn_cache_get_sizes(cache, NULL));
    sizes.struct_size = 0;
    assert_int_equal(attn_cache_get_sizes(cache, &sizes), ATTN_ERR_STRUCT_SIZE);
    attn_cache_destroy(cache);
}

/* Every function refuses NULL in place of a cache, but for the end of it. */
static void test_no_cache(void **state) {
    (void)state;
    attn_cache *cache = NULL;
    attn_cache_destroy(cache);
    const attn_strides s = {0, 0, 64};
    attn_strides strides;
    int64_t length;
    real x[64] = {0}, *k, *v;
    attn_cache_sizes sizes = ATTN_CACHE_SIZES_INIT;
    attn_problem problem = problem_of(1, ATTN_ENGINE_AUTO);
    REAL(attn_args) args = ATTN_STRUCT_INIT(REAL(attn_args));
    assert_refused(ATTN_ERR_NULL, "cache is NULL", attn_cache_get_sizes(cache, &sizes));
    assert_refused(ATTN_ERR_NULL, "cache is NULL", attn_cache_length(cache, 0, &length));
    assert_refused(ATTN_ERR_NULL, "cache is NULL", attn_cache_truncate(cache, 0, 0));
    assert_refused(ATTN_ERR_NULL, "cache is NULL", attn_cache_reset(cache, ATTN_CACHE_ALL));
    assert_refused(ATTN_ERR_NULL, "cache is NULL", attn_cache_extend(cache, 0, 0));
    assert_refused(ATTN_ERR_NULL, "cache is NULL", REAL(attn_cache_append)(cache, 0, 1, x, s, x, s));
    assert_refused(ATTN_ERR_NULL, "cache is NULL", REAL(attn_cache_append_all)(cache, 1, NULL, x, s, x, s));
    assert_refused(ATTN_ERR_NULL, "cache is NULL", REAL(attn_cache_rows)(cache, 0, &k, &strides, &v, &strides));
    assert_refused(ATTN_ERR_NULL, "cache is NULL", REAL(attn_cache_attend)(NULL, cache, &problem, &args));
}

/* Changes one thing of a good append of 2 rows to member 1 and expects the sentence; the cache stays as it is. */
static void test_bad_appends(void **state) {
    (void)state;
    tokens t = make_tokens();
    counting_allocator allocator = {.fail_at = -1};
    attn_context context = counting_context(&allocator);
    attn_cache *cache = make_cache_of(&context, BATCH, 4);
    assert_ok(append(cache, &t, 1, 0, 1));
#define REFUSED(status, sentence, change)                                                                              \
    do {                                                                                                               \
        int64_t member = 1, rows = 2;                                                                                  \
        const real *k = t.k, *v = t.v;                                                                                 \
        attn_strides ks = k_strides, vs = v_strides;                                                                   \
        change;                                                                                                        \
        assert_refused(status, sentence, REAL(attn_cache_append)(cache, member, rows, k, ks, v, vs));                  \
        assert_int_equal(length_of(cache, 0), 0);                                                                      \
        assert_int_equal(length_of(cache, 1), 1);                                                                      \
        assert_slots_untouched(cache, 1, 1, 4);                                                                        \
    } while (0)
    REFUSED(ATTN_ERR_SIZE, "member -1 is none of a cache with batch 2", member = -1);
    REFUSED(ATTN_ERR_SIZE, "member 2 is none of a cache with batch 2", member = 2);
    REFUSED(ATTN_ERR_SIZE, "rows -1 is below 0", rows = -1);
    REFUSED(ATTN_ERR_NULL, "k is NULL", k = NULL);
    REFUSED(ATTN_ERR_NULL, "v is NULL", v = NULL);
    REFUSED(ATTN_ERR_STRIDE, "k: row stride 18 is below the row size 19", ks.row = DIM - 1);
    REFUSED(ATTN_ERR_STRIDE, "v: row stride 12 is below the row size 13", vs.row = V_DIM - 1);
    REFUSED(ATTN_ERR_STRIDE, "k: head stride -1 is negative", ks.head = -1);
    REFUSED(ATTN_ERR_OVERFLOW, "v: its sizes and strides span more than the address space", vs.head = INT64_MAX / 2);
#undef REFUSED
    static const int64_t too_many[] = {1, 3}, negative[] = {-1, 1};
    assert_refused(ATTN_ERR_LENGTH, "counts[1] 3 is outside 0..rows 2", append_all(cache, &t, 0, 2, too_many));
    assert_refused(ATTN_ERR_LENGTH, "counts[0] -1 is outside 0..rows 2", append_all(cache, &t, 0, 2, negative));
    assert_refused(ATTN_ERR_SIZE, "rows -1 is below 0", append_all(cache, &t, 0, -1, NULL));
    real *place = NULL, *other = NULL;
    attn_strides strides;
    assert_ok(REAL(attn_cache_rows)(cache, 1, &place, &strides, &other, &strides));
    int64_t *counts = (int64_t *)(void *)place; /* on the first key of member 1, whose bits are put back */
    const int64_t bits[] = {counts[0], counts[1]};
    counts[0] = counts[1] = 1;
    assert_refused(ATTN_ERR_OVERLAP, "cache overlaps counts", append_all(cache, &t, 0, 1, counts));
    memcpy(counts, bits, sizeof bits);
    assert_refused(ATTN_ERR_SIZE, "rows -1 is below 0", attn_cache_extend(cache, 0, -1));
    assert_refused(ATTN_ERR_SIZE, "member 2 is none of a cache with batch 2", attn_cache_extend(cache, 2, 1));
    assert_refused(ATTN_ERR_SIZE, "member -1 is none of a cache with batch 2", attn_cache_extend(cache, -1, 1));
    assert_refused(ATTN_ERR_SIZE, "member 2 is none of a cache with batch 2", attn_cache_truncate(cache, 2, 0));
    assert_refused(ATTN_ERR_SIZE, "member -2 is none of a cache with batch 2", attn_cache_reset(cache, -2));
    int64_t length = 77;
    assert_refused(ATTN_ERR_SIZE, "member 2 is none of a cache with batch 2", attn_cache_length(cache, 2, &length));
    assert_refused(ATTN_ERR_SIZE, "member -1 is none of a cache with batch 2",
                   attn_cache_length(cache, ATTN_CACHE_ALL, &length));
    assert_int_equal(length, 77);
    assert_refused(ATTN_ERR_NULL, "length is NULL", attn_cache_length(cache, 0, NULL));
    real *k = NULL, *v = NULL;
    attn_strides s;
    assert_refused(ATTN_ERR_SIZE, "member 2 is none of a cache with batch 2",
                   REAL(attn_cache_rows)(cache, 2, &k, &s, &v, &s));
    assert_refused(ATTN_ERR_NULL, "k is NULL", REAL(attn_cache_rows)(cache, 0, NULL, &s, &v, &s));
    assert_refused(ATTN_ERR_NULL, "k_strides is NULL", REAL(attn_cache_rows)(cache, 0, &k, NULL, &v, &s));
    assert_refused(ATTN_ERR_NULL, "v is NULL", REAL(attn_cache_rows)(cache, 0, &k, &s, NULL, &s));
    assert_refused(ATTN_ERR_NULL, "v_strides is NULL", REAL(attn_cache_rows)(cache, 0, &k, &s, &v, NULL));
    assert_true(k == NULL && v == NULL);
    assert_slots_untouched(cache, 0, 0, 4);
    free_tokens(&t);
    attn_cache_destroy(cache);
}

static void test_bad_attends(void **state) {
    (void)state;
    tokens t = make_tokens();
    attn_cache *cache = make_cache_of(NULL, BATCH, TOKENS);
    assert_ok(append_all(cache, &t, 0, TOKENS, NULL));
    real *out = poisoned(OUT_SIZE), *lse = poisoned(LSE_SIZE);
    static const int64_t lens[BATCH] = {6, 6}, long_q_lens[BATCH] = {3, 4};
#define REFUSED(status, sentence, change)                                                                              \
    do {                                                                                                               \
        attn_problem p = problem_of(3, ATTN_ENGINE_AUTO);                                                              \
        REAL(attn_args) a = args_of(&t, 3, out, lse);                                                                  \
        change;                                                                                                        \
        assert_refused(status, sentence, REAL(attn_cache_attend)(NULL, cache, &p, &a));                                \
        assert_untouched(out, OUT_SIZE);                                                                               \
        assert_untouched(lse, LSE_SIZE);                                                                               \
    } while (0)
    REFUSED(ATTN_ERR_SIZE, "batch 1 is not the cache's 2", p.batch = 1);
    REFUSED(ATTN_ERR_SIZE, "kv_heads 4 is not the cache's 2", p.kv_heads = 4);
    REFUSED(ATTN_ERR_SIZE, "head_dim 18 is not the cache's 19", p.head_dim = 18);
    REFUSED(ATTN_ERR_SIZE, "v_dim 14 is not the cache's 13", p.v_dim = 14);
    REFUSED(ATTN_ERR_SIZE, "kv_heads 2 does not divide q_heads 3", p.q_heads = 3);
    REFUSED(ATTN_ERR_FLAG, "ATTN_RAGGED: the keys of a cache are not packed", p.flags |= ATTN_RAGGED);
    REFUSED(ATTN_ERR_FLAG, "k is given, but the cache has its own", a.k = t.k);
    REFUSED(ATTN_ERR_FLAG, "v is given, but the cache has its own", a.v = t.v);
    REFUSED(ATTN_ERR_FLAG, "kv_lens is given, but the cache has its own", a.kv_lens = lens);
    REFUSED(ATTN_ERR_LENGTH, "q_lens[1] 4 is outside 0..q_len 3", a.q_lens = long_q_lens);
    REFUSED(ATTN_ERR_NULL, "q is NULL", a.q = NULL);
    assert_int_equal(REAL(attn_cache_attend)(NULL, cache, NULL, NULL), ATTN_ERR_NULL);
    assert_string_equal(attn_last_error(), "problem is NULL");
    attn_problem p = problem_of(3, ATTN_ENGINE_AUTO);
    assert_refused(ATTN_ERR_NULL, "args is NULL", REAL(attn_cache_attend)(NULL, cache, &p, NULL));
    REAL(attn_args) a = args_of(&t, 3, out, lse);
    a.struct_size = 8;
    assert_int_equal(REAL(attn_cache_attend)(NULL, cache, &p, &a), ATTN_ERR_STRUCT_SIZE);
    a.struct_size = sizeof a;
    p.struct_size = 8;
    assert_int_equal(REAL(attn_cache_attend)(NULL, cache, &p, &a), ATTN_ERR_STRUCT_SIZE);
    p.struct_size = sizeof p;
#undef REFUSED
    /* the keys of the cache are inputs like any other */
    member_rows m = rows_of(cache, 0);
    a = args_of(&t, 3, out, lse);
    a.out = m.k;
    assert_refused(ATTN_ERR_OVERLAP, "out starts where k starts", REAL(attn_cache_attend)(NULL, cache, &p, &a));
    free(out);
    free(lse);
    free_tokens(&t);
    attn_cache_destroy(cache);
}

static void test_other_precision(void **state) {
    (void)state;
    attn_cache_sizes sizes = ATTN_CACHE_SIZES_INIT;
    sizes.batch = sizes.kv_heads = sizes.capacity = sizes.head_dim = sizes.v_dim = 1;
    attn_cache *cache = NULL;
    assert_ok(attn_cache_create(NULL, &sizes, REAL_DTYPE == ATTN_F32 ? ATTN_F64 : ATTN_F32, &cache));
    const char *sentence =
        sizeof(real) == 4 ? "a cache of double is used in float" : "a cache of float is used in double";
    const attn_strides s = {1, 1, 1};
    attn_strides strides;
    real x = 1, *k, *v;
    attn_problem problem = problem_of(1, ATTN_ENGINE_AUTO);
    REAL(attn_args) args = ATTN_STRUCT_INIT(REAL(attn_args));
    assert_refused(ATTN_ERR_DTYPE, sentence, REAL(attn_cache_append)(cache, 0, 1, &x, s, &x, s));
    assert_refused(ATTN_ERR_DTYPE, sentence, REAL(attn_cache_append_all)(cache, 1, NULL, &x, s, &x, s));
    assert_refused(ATTN_ERR_DTYPE, sentence, REAL(attn_cache_rows)(cache, 0, &k, &strides, &v, &strides));
    assert_refused(ATTN_ERR_DTYPE, sentence, REAL(attn_cache_attend)(NULL, cache, &problem, &args));
    assert_int_equal(length_of(cache, 0), 0);
    attn_cache_destroy(cache);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tokens_in_pieces),
        cmocka_unit_test(test_lengths_per_member),
        cmocka_unit_test(test_beyond_the_capacity),
        cmocka_unit_test(test_truncate_and_reset),
        cmocka_unit_test(test_writing_without_a_copy),
        cmocka_unit_test(test_options),
        cmocka_unit_test(test_plan),
        cmocka_unit_test(test_columns_of_a_plan),
        cmocka_unit_test(test_bad_plans),
        cmocka_unit_test(test_threads),
        cmocka_unit_test(test_sizes_of_0),
        cmocka_unit_test(test_failing_allocations),
        cmocka_unit_test(test_too_large),
        cmocka_unit_test(test_bad_creation),
        cmocka_unit_test(test_no_cache),
        cmocka_unit_test(test_bad_appends),
        cmocka_unit_test(test_bad_attends),
        cmocka_unit_test(test_other_precision),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
