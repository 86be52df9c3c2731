/* The layer in use: same bits for any threads and batch mates, plans without allocations, decoding in pieces, refusals
 * that change nothing. */
#include "layer_test.h"

#include <math.h>
#include <stdio.h>

/* ---- Bits -------------------------------------------------------------------------------------------------------- */

/* Enough work for several threads in every stage, several blocks of rows and columns. */
static const char *const large_layers[] = {
    "layer d24h2/1s8o530,bias,packed,rope=half b2q270,causal,qlens=270:257",
    "layer d24h2/1s8o530,outin,rope=pairs,cache=320,past=40 b3q270,causal,br,qlens=270:7:1",
    "layer d560h2/1s16c40o530,bias b2q5k37",
    "layer d530h2s16o37,outin b3q71,qlens=41:71:5",
    "layer d16h2,bias,packed,rope=half b3q270,causal,ragged=270:1:33/270:1:33",
};

static void test_threads(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof large_layers / sizeof *large_layers; i++) {
        real *first = NULL;
        int64_t size = 0;
        for (int threads = 1; threads <= 4; threads *= 2) {
            test_layer *t = make_layer(large_layers[i]);
            attn_context context = threads_context(threads);
            assert_ok(REAL(attn_layer)(&context, &t->d.layer, args_of_layer(t)));
            size = t->d.elements[SUPPORT_LAYER_Y];
            if (first == NULL) {
                first = poisoned(size);
                memcpy(first, y_of_layer(t), (size_t)size * sizeof *first);
            }
            assert_same_bits(first, y_of_layer(t), size);
            free_layer(t);
        }
        free(first);
    }
}

/* Copies row `row` of member b of y. */
static const real *y_row(test_layer *t, int64_t b, int64_t row) {
    if (t->d.heads.q_offsets != NULL)
        return y_of_layer(t) + (t->d.heads.q_offsets[b] + row) * t->d.layer.y_row;
    return y_of_layer(t) + b * t->d.layer.y_batch + row * t->d.layer.y_row;
}

/* Member b of `together` and the only member of `alone` see the same numbers: x and context are a function of member
 * and row, so the one alone gets those of member b. */
static void assert_same_alone(const char *together_text, int64_t b, const char *alone_text) {
    test_layer *together = make_layer(together_text), *alone = make_layer(alone_text);
    int64_t rows = support_layer_q_len(together->l, b), d_model = together->l->d_model;
    assert_int_equal(support_layer_q_len(alone->l, 0), rows);
    real *x = alone->d.array[SUPPORT_LAYER_X];
    for (int64_t row = 0; row < rows; row++) {
        int64_t from = together->d.heads.q_offsets != NULL
                           ? (together->d.heads.q_offsets[b] + row) * together->d.layer.x_row
                           : b * together->d.layer.x_batch + row * together->d.layer.x_row;
        memcpy(x + row * alone->d.layer.x_row, (const real *)together->d.array[SUPPORT_LAYER_X] + from,
               (size_t)d_model * sizeof *x);
    }
    attn_context two = threads_context(2);
    assert_ok(REAL(attn_layer)(&two, &together->d.layer, args_of_layer(together)));
    assert_ok(REAL(attn_layer)(NULL, &alone->d.layer, args_of_layer(alone)));
    for (int64_t row = 0; row < rows; row++)
        assert_same_bits(y_row(together, b, row), y_row(alone, 0, row), together->l->d_out);
    free_layer(together);
    free_layer(alone);
}

/* Mates, the length of the buffer and packing change no bit of a member. */
static void test_batch_mates(void **state) {
    (void)state;
    assert_same_alone("d40h4/2s16,bias,packed,rope=half b3q91,causal,qlens=91:67:5", 1,
                      "d40h4/2s16,bias,packed,rope=half b1q67,causal");
    assert_same_alone("d40h4/2s16,bias,packed,rope=half b3q91,causal,qlens=91:67:5", 2,
                      "d40h4/2s16,bias,packed,rope=half b1q5,causal");
    assert_same_alone("d40h4/2s16,bias,outin,pad=3 b4q81,causal,ragged=81:40:3:77/81:40:3:77", 3,
                      "d40h4/2s16,bias,outin b1q77,causal");
    assert_same_alone("d530h2s16o37,outin b3q71,qlens=71:41:5", 0, "d530h2s16o37,outin b1q71");
    assert_same_alone("d530h2s16o37,bias b3q71,ragged=41:71:71/41:71:71", 1, "d530h2s16o37,bias b1q71");
    assert_same_alone("d40h4/2s16,outin,cache=9,rope=half b70q1,causal,br", 69,
                      "d40h4/2s16,outin,cache=5,rope=half b1q1,causal,br");
}

/* ---- Plans ------------------------------------------------------------------------------------------------------- */

/* With a workspace a run allocates nothing; without one it takes one piece of that size. Bits are those of one call. */
static void test_plan(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof large_layers / sizeof *large_layers; i++) {
        test_layer *t = make_layer(large_layers[i]);
        counting_allocator allocator = {.fail_at = -1};
        attn_context context = counting_context(&allocator);
        attn_layer_plan *plan = NULL;
        size_t bytes = 0;
        int64_t size = t->d.elements[SUPPORT_LAYER_Y];
        assert_ok(attn_layer_plan_create(&context, &t->d.layer, REAL_DTYPE, &plan));
        assert_ok(attn_layer_plan_workspace(plan, &bytes));
        assert_int_equal(allocator.calls, 1);
        void *workspace = aligned_alloc(ATTN_WORKSPACE_ALIGN, bytes + 64 - bytes % 64);
        assert_non_null(workspace);
        memset(workspace, 0xff, bytes);
        assert_ok(REAL(attn_layer_plan_run)(plan, args_of_layer(t), workspace, bytes));
        assert_int_equal(allocator.calls, 1);
        real *with_plan = poisoned(size);
        memcpy(with_plan, y_of_layer(t), (size_t)size * sizeof *with_plan);
        for (int way = 0; way < 2; way++) {
            if (t->cache != NULL)
                assert_ok(attn_cache_truncate(t->cache, ATTN_CACHE_ALL, t->l->past));
            support_layer_poison_outputs(&t->d);
            if (way == 0)
                assert_ok(REAL(attn_layer)(NULL, &t->d.layer, args_of_layer(t)));
            else
                assert_ok(REAL(attn_layer_plan_run)(plan, args_of_layer(t), NULL, 0));
            assert_same_bits(with_plan, y_of_layer(t), size);
        }
        assert_int_equal(allocator.calls, 2);
        attn_layer_plan_destroy(plan);
        assert_int_equal(allocator.live, 0);
        free(workspace);
        free(with_plan);
        free_layer(t);
    }
    attn_layer_plan_destroy(NULL);
}

/* Each allocation fails in its turn: a status, nothing written, nothing kept, the cache as before. */
static void test_failing_allocations(void **state) {
    (void)state;
    static const char text[] = "layer d24h4/2,cache=31,past=17,rope=half,bias b2q5,br,causal,lse";
    for (int64_t k = 0; k < 2; k++) {
        test_layer *t = make_layer(text);
        counting_allocator allocator = {.fail_at = k};
        attn_context context = counting_context(&allocator);
        attn_layer_plan *plan = NULL;
        attn_status created = attn_layer_plan_create(&context, &t->d.layer, REAL_DTYPE, &plan);
        assert_int_equal(created, k == 0 ? ATTN_ERR_NOMEM : ATTN_OK);
        if (k == 0)
            assert_null(plan);
        else
            assert_int_equal(REAL(attn_layer_plan_run)(plan, args_of_layer(t), NULL, 0), ATTN_ERR_NOMEM);
        allocator.fail_at = allocator.calls;
        assert_int_equal(REAL(attn_layer)(&context, &t->d.layer, args_of_layer(t)), ATTN_ERR_NOMEM);
        assert_untouched(y_of_layer(t), t->d.elements[SUPPORT_LAYER_Y]);
        assert_untouched(t->d.heads.base[SUPPORT_LSE], t->d.heads.elements[SUPPORT_LSE]);
        int64_t length = 0;
        assert_ok(attn_cache_length(t->cache, 1, &length));
        assert_int_equal(length, 17);
        attn_layer_plan_destroy(plan);
        assert_int_equal(allocator.live, 0);
        free_layer(t);
    }
}

static int run_nothing(void *data, int workers, attn_parallel_body body, void *argument) {
    (void)workers;
    (void)body;
    (void)argument;
    return ++*(int *)data < 0;
}

static int run_all_then_fail(void *data, int workers, attn_parallel_body body, void *argument) {
    for (int w = 0; w < workers; w++)
        body(argument, w);
    return --*(int *)data == 0;
}

/* A callback that fails, in any of the phases, or does not do its work: the cache holds what it held. */
static void test_parallel_for_that_fails(void **state) {
    (void)state;
    test_layer *wanted = make_layer(large_layers[1]);
    assert_ok(REAL(attn_layer)(NULL, &wanted->d.layer, args_of_layer(wanted)));
    for (int phase = 0; phase < 4; phase++) {
        test_layer *t = make_layer(large_layers[1]);
        attn_context context = threads_context(2);
        int count = phase;
        context.parallel_for = phase == 0 ? run_nothing : run_all_then_fail;
        context.parallel_data = &count;
        assert_int_equal(REAL(attn_layer)(&context, &t->d.layer, args_of_layer(t)), ATTN_ERR_THREADS);
        for (int64_t b = 0; b < 3; b++) {
            int64_t length = -1;
            assert_ok(attn_cache_length(t->cache, b, &length));
            assert_int_equal(length, t->l->past);
        }
        /* and can go on */
        support_layer_poison_outputs(&t->d);
        assert_ok(REAL(attn_layer)(NULL, &t->d.layer, args_of_layer(t)));
        assert_same_bits(y_of_layer(t), y_of_layer(wanted), t->d.elements[SUPPORT_LAYER_Y]);
        free_layer(t);
    }
    free_layer(wanted);
}

/* ---- Decoding ---------------------------------------------------------------------------------------------------- */

/* The tokens of a causal layer in pieces of some lengths, by one plan, each within the bound of the one-shot result. */
static void test_decoding_in_pieces(void **state) {
    (void)state;
    enum { TOKENS = 47, MOST = 40 };
    static const int64_t pieces[][8] = {{40, 7}, {1, 1, 1, 40, 4}, {13, 13, 13, 8}, {3, 40, 1, 1, 1, 1}};
    static const char text[] = "layer d36h6/3s12,bias,packed,rope=half,cache=47 b2q47,br,causal";
    for (size_t way = 0; way < sizeof pieces / sizeof *pieces; way++) {
        test_layer *t = make_layer(text);
        attn_problem heads = t->d.problem;
        attn_layer layer = t->d.layer; /* its batch strides are those of all tokens */
        heads.q_len = heads.kv_len = MOST;
        layer.attention = &heads;
        layer.y_batch = MOST * layer.y_row;
        attn_layer_plan *plan = NULL;
        assert_ok(attn_layer_plan_create(NULL, &layer, REAL_DTYPE, &plan));
        real *y = poisoned(2 * layer.y_batch);
        int64_t done = 0;
        for (int i = 0; i < 8 && pieces[way][i] > 0; i++) {
            int64_t rows = pieces[way][i], lens[] = {rows, rows};
            layer_args args = *args_of_layer(t);
            head_args head = ATTN_STRUCT_INIT(head_args);
            head.q_lens = lens;
            args.attention = &head;
            args.x += done * layer.x_row;
            args.y = y;
            assert_ok(REAL(attn_layer_plan_run)(plan, &args, NULL, 0));
            for (int64_t b = 0; b < 2; b++)
                memcpy(y_of_layer(t) + b * t->d.layer.y_batch + done * layer.y_row, y + b * layer.y_batch,
                       (size_t)(rows * layer.y_row) * sizeof *y);
            done += rows;
        }
        assert_int_equal(done, TOKENS);
        assert_layer_ok(t, text, ATTN_OK);
        attn_layer_plan_destroy(plan);
        free(y);
        free_layer(t);
    }
}

/* ---- Refusals ---------------------------------------------------------------------------------------------------- */

/* The layer of a text is changed by `change` (t, layer, heads, rotary, args, head are at hand) and refused; nothing was
 * written. */
#define REFUSED(text, status, sentence, change)                                                                        \
    do {                                                                                                               \
        test_layer *t = make_layer(text);                                                                              \
        attn_layer *layer = &t->d.layer;                                                                               \
        attn_problem *heads = &t->d.problem;                                                                           \
        attn_rotary *rotary = &t->d.rotary;                                                                            \
        layer_args *args = args_of_layer(t);                                                                           \
        head_args *head = heads_of_layer(t);                                                                           \
        (void)heads, (void)rotary, (void)head;                                                                         \
        change;                                                                                                        \
        assert_refused(status, sentence, REAL(attn_layer)(NULL, layer, args));                                         \
        assert_untouched(y_of_layer(t), t->d.elements[SUPPORT_LAYER_Y]);                                               \
        for (int64_t b = 0; t->cache != NULL && b < t->l->heads->problem.batch; b++) {                                 \
            int64_t length = -1;                                                                                       \
            assert_ok(attn_cache_length(t->cache, b, &length));                                                        \
            assert_int_equal(length, t->l->past);                                                                      \
        }                                                                                                              \
        free_layer(t);                                                                                                 \
    } while (0)

#define SELF "layer d24h4/2,bias b2q5,lse"
#define PACKED "layer d24h4/2,packed,bias b2q5"
#define CROSS "layer d24h4/2c11,bias b2q5k7"
#define PACKED_CROSS "layer d24h4/2c11,packed,bias b2q5k7"
#define CACHED "layer d24h4/2,cache=9,past=4,rope=half b2q5,br,causal"
#define RAGGED "layer d24h4/2 b2q5,ragged=5:3/5:3"

static void test_bad_sizes(void **state) {
    (void)state;
    REFUSED(SELF, ATTN_ERR_SIZE, "d_model 0 is below 1", layer->d_model = 0);
    REFUSED(SELF, ATTN_ERR_SIZE, "d_out -1 is below 0", layer->d_out = -1);
    REFUSED(CROSS, ATTN_ERR_SIZE, "d_context 0 is below 1", layer->d_context = 0);
    REFUSED(SELF, ATTN_ERR_SIZE, "kv_len 6 is not q_len 5, as self-attention has it", heads->kv_len = 6);
    REFUSED(SELF, ATTN_ERR_SIZE, "kv_heads 3 does not divide q_heads 4", heads->kv_heads = 3);
    REFUSED(SELF, ATTN_ERR_SIZE, "head_dim 0 is below 1", heads->head_dim = 0);
    REFUSED(RAGGED, ATTN_ERR_SIZE, "total_kv 9 is not total_q 8, as self-attention has it", heads->total_kv = 9);
    REFUSED(CACHED, ATTN_ERR_SIZE, "capacity -1 is below 0", layer->capacity = -1);
    REFUSED(CACHED, ATTN_ERR_SIZE, "kv_len 5 new keys are more than the capacity 4", layer->capacity = 4);
    REFUSED(CACHED, ATTN_ERR_SIZE, "capacity 10 is not the cache's 9", layer->capacity = 10);
    REFUSED(CACHED, ATTN_ERR_SIZE, "batch 1 is not the cache's 2", heads->batch = 1);
    REFUSED(CACHED, ATTN_ERR_SIZE, "kv_heads 4 is not the cache's 2", heads->kv_heads = 4; layer->w_k_row = 24;
            layer->w_v_row = 24);
    REFUSED(CACHED, ATTN_ERR_SIZE, "rotary_dim 8 is above head_dim 6", rotary->rotary_dim = 8);
    REFUSED(CACHED, ATTN_ERR_SIZE, "rotary_dim 5 is odd", rotary->rotary_dim = 5);
    REFUSED(CACHED, ATTN_ERR_FLAG, "pairing 0 is neither ATTN_ROTARY_INTERLEAVED nor ATTN_ROTARY_HALF_SPLIT",
            rotary->pairing = (attn_rotary_pairing)0);
    REFUSED(CACHED, ATTN_ERR_OVERFLOW,
            "start 9223372036854775807 and the 4 keys of member 0 make a position that is no int64",
            rotary->start = INT64_MAX;
            heads->q_len = heads->kv_len = 1);
    REFUSED(SELF, ATTN_ERR_OVERFLOW, "the workspace of these sizes does not fit the address space",
            heads->batch = INT64_C(1) << 56);
}

static void test_bad_strides(void **state) {
    (void)state;
    REFUSED(SELF, ATTN_ERR_STRIDE, "x: row stride 23 is below the row size 24", layer->x_row = 23);
    REFUSED(SELF, ATTN_ERR_STRIDE, "x: batch stride -1 is negative", layer->x_batch = -1);
    REFUSED(CROSS, ATTN_ERR_STRIDE, "context: row stride 10 is below the row size 11", layer->context_row = 10);
    REFUSED(SELF, ATTN_ERR_STRIDE, "y: row stride 23 is below the row size 24", layer->y_row = 23);
    REFUSED(SELF, ATTN_ERR_STRIDE, "y: a stride of 0 makes its elements overlap, at least 1 is needed",
            layer->y_batch = 0);
    REFUSED(SELF, ATTN_ERR_STRIDE, "w_q: row stride 23 is below the row size 24", layer->w_q_row = 23);
    REFUSED(SELF, ATTN_ERR_STRIDE, "w_k: row stride 11 is below the row size 12", layer->w_k_row = 11);
    REFUSED(SELF, ATTN_ERR_STRIDE, "w_v: row stride 11 is below the row size 12", layer->w_v_row = 11);
    REFUSED(SELF, ATTN_ERR_STRIDE, "w_o: row stride 23 is below the row size 24", layer->w_o_row = 23);
    REFUSED(PACKED, ATTN_ERR_STRIDE, "w_q: row stride 47 is below the row size 48", layer->w_q_row = 47);
    REFUSED("layer d24h4/2c11,packed,outin b2q5k7", ATTN_ERR_STRIDE, "w_k: row stride 10 is below the row size 11",
            layer->w_k_row = 10);
    REFUSED(SELF, ATTN_ERR_OVERFLOW, "x: its sizes and strides span more than the address space",
            layer->x_batch = INT64_MAX);
}

/* A stride between rows that are not there may be anything. */
static void test_strides_of_one_row(void **state) {
    (void)state;
    static const char *const texts[] = {
        "layer d24h4/2,bias b1q1",      "layer d24h4/2,bias,outin b1q1",
        "layer d24h4/2c11,bias b1q1k1", "layer d24h4/2,cache=9,past=4 b1q1",
        "layer d1h1s40 b1q1",           "layer d1h1s40,packed b1q3",
        "layer d1h1s40c1 b1q2k7",       "layer d1h1s1o1,outin b1q2",
        "layer d1h1s1o1 b1q2",
    };
    static const int64_t strides[] = {INT64_C(1) << 40, INT64_MAX, 0};
    for (size_t i = 0; i < 3 * (sizeof texts / sizeof *texts); i++) {
        test_layer *t = make_layer(texts[i / 3]);
        attn_layer *layer = &t->d.layer;
        const attn_problem *p = &t->d.problem;
        int64_t free_stride = strides[i % 3], n_z = p->q_heads * p->v_dim;
        bool out_in = (layer->flags & ATTN_LAYER_OUT_IN) != 0;
        if (p->q_len == 1)
            layer->x_row = layer->y_row = free_stride;
        if (p->kv_len == 1)
            layer->context_row = free_stride;
        if (out_in ? n_z == 1 : layer->d_model == 1)
            layer->w_q_row = layer->w_k_row = layer->w_v_row = free_stride;
        if (out_in ? layer->d_out == 1 : n_z == 1)
            layer->w_o_row = free_stride;
        assert_layer_ok(t, texts[i / 3], REAL(attn_layer)(NULL, layer, args_of_layer(t)));
        free_layer(t);
    }
}

/* Neither need those of arrays without elements mean anything; the sanitizer of undefined behaviour looks at sums with
 * them. */
static void test_strides_of_empty_arrays(void **state) {
    (void)state;
    static const char *const texts[] = {
        "layer d24h4/2,bias b3q0",   "layer d24h4/2c11,bias b3q0k5",      "layer d24h4/2c11,bias b3q5k0",
        "layer d24h4/2o0,bias b3q5", "layer d24h4/2,cache=9,past=4 b3q0", "layer d24h4/2c11,cache=9,past=4 b3q5k0",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        test_layer *t = make_layer(texts[i]);
        attn_layer layer = t->d.layer;
        const attn_problem *p = &t->d.problem;
        if (p->q_len == 0)
            layer.x_row = layer.x_batch = layer.y_row = layer.y_batch = INT64_MAX;
        if (p->kv_len == 0)
            layer.context_row = layer.context_batch = INT64_MAX;
        if (layer.d_out == 0)
            layer.y_row = layer.y_batch = layer.w_o_row = INT64_MAX;
        assert_layer_ok(t, texts[i], REAL(attn_layer)(NULL, &layer, args_of_layer(t)));
        free_layer(t);
    }
}

/* Nothing to do needs nothing: no memory for members without rows, however many, no BLAS for sizes unknown to it. */
static void test_empty_layers(void **state) {
    (void)state;
    const int64_t huge = INT64_C(1) << 40;
    static const char *const texts[] = {
        "layer d24h4/2,bias b3q0",       "layer d24h4/2,bias,rope=half b3q0,lse", "layer d24h4/2c11,bias b3q0k0",
        "layer d24h4/2,cache=9 b3q0",    "layer d24h4/2 b3q0,ragged=0:0:0/0:0:0", "layer d24h4/2 b3q0,mask,bias",
        "layer d24h4/2,packed b3q0,lse", "layer d24h4/2c11,packed,outin b3q0k0",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        for (int way = 0; way < 3; way++) {
            test_layer *t = make_layer(texts[i]);
            attn_layer layer = t->d.layer;
            attn_problem heads = t->d.problem;
            layer.attention = &heads;
            bool own_members = t->cache != NULL || (heads.flags & ATTN_RAGGED) != 0;
            if (way == 1 && !own_members) {
                heads.batch = huge;
                heads.q_len = heads.kv_len = 0;
            } else if (way == 2 && !own_members) {
                heads.batch = 0;
                heads.q_len = heads.kv_len = huge;
                layer.d_model = layer.d_context = huge;
                assert_ok(attn_layer_layout_dense(&layer));
            }
            counting_allocator allocator = {.fail_at = 0};
            attn_context context = counting_context(&allocator);
            assert_layer_ok(t, texts[i], REAL(attn_layer)(&context, &layer, args_of_layer(t)));
            assert_int_equal(allocator.calls, 0);
            allocator.fail_at = -1;
            attn_layer_plan *plan;
            size_t bytes = 1;
            assert_ok(attn_layer_plan_create(&context, &layer, REAL_DTYPE, &plan));
            assert_ok(attn_layer_plan_workspace(plan, &bytes));
            assert_int_equal(bytes, 0);
            real workspace[64];
            assert_ok(REAL(attn_layer_plan_run)(plan, args_of_layer(t), NULL, 0));
            assert_ok(
                REAL(attn_layer_plan_run)(plan, args_of_layer(t), (void *)(((uintptr_t)workspace + 63) / 64 * 64), 0));
            assert_int_equal(allocator.calls, 1);
            attn_layer_plan_destroy(plan);
            free_layer(t);
        }
    const uint8_t mask = 1;
    REFUSED("layer d24h4/2,bias b3q0", ATTN_ERR_FLAG, "mask is given without ATTN_HAS_MASK", head->mask = &mask);
}

/* Tables of no columns, and of no rows where there is no position, have no strides either. */
static void test_strides_of_empty_tables(void **state) {
    (void)state;
    static const struct {
        const char *text;
        int64_t table_rows;
    } cases[] = {{"layer d24h4/2,rope=half:0 b3q5", 7},
                 {"layer d24h4/2,rope=half b3q0", 0},
                 {"layer d24h4/2c11,rope=half:0 b3q5k4", 7}};
    static const int64_t ids[3 * 5] = {0};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        test_layer *t = make_layer(cases[i].text);
        attn_layer layer = t->d.layer;
        attn_rotary r = t->d.rotary;
        layer.rotary = &r;
        layer_args *a = args_of_layer(t);
        const real table[1] = {1};
        r.flags |= ATTN_ROTARY_HAS_TABLES | ATTN_ROTARY_HAS_IDS;
        r.table_rows = cases[i].table_rows;
        r.table_row = r.table_batch = INT64_MAX;
        r.ids_batch = t->d.problem.q_len > 0 ? 5 : INT64_MAX;
        a->cosines = a->sines = table;
        a->ids = ids;
        a->kv_ids = (layer.flags & ATTN_LAYER_CROSS) != 0 ? ids : NULL;
        assert_layer_ok(t, cases[i].text, REAL(attn_layer)(NULL, &layer, a));
        free_layer(t);
    }
}

/* Strides of several rows that a 32-bit BLAS cannot be told, those of the workspace too. */
static void test_strides_beyond_blas(void **state) {
    (void)state;
    attn_blas_info info = ATTN_STRUCT_INIT(attn_blas_info);
    assert_ok(attn_blas_get_info(&info));
    if (info.integer_bits != 32)
        skip();
    const int64_t big = INT64_C(1) << 40;
#if ATTN_REAL_BITS == 32
#define PADDED_2_31 "2147483664" /* by one cache line */
#else
#define PADDED_2_31 "2147483656"
#endif
#define BEYOND ": row stride 1099511627776 does not fit the integer of the BLAS library"
    REFUSED(SELF, ATTN_ERR_OVERFLOW, "x" BEYOND, layer->x_batch = layer->x_row = big);
    REFUSED(SELF, ATTN_ERR_OVERFLOW, "y" BEYOND, layer->y_batch = 8 * (layer->y_row = big));
    REFUSED(CROSS, ATTN_ERR_OVERFLOW, "context" BEYOND, layer->context_batch = layer->context_row = big);
    REFUSED(SELF, ATTN_ERR_OVERFLOW, "w_q" BEYOND, layer->w_q_row = big);
    REFUSED(SELF, ATTN_ERR_OVERFLOW, "w_o" BEYOND, layer->w_o_row = big);
    REFUSED(CROSS, ATTN_ERR_OVERFLOW,
            "projected rows of the context: row stride " PADDED_2_31 " does not fit the integer of the BLAS library",
            heads->engine = ATTN_ENGINE_NAIVE;
            heads->kv_heads = 4; heads->v_dim = 0; layer->d_context = 1; layer->w_o_row = 24;
            heads->head_dim = INT64_C(1) << 29; layer->w_q_row = INT64_C(1) << 31; layer->d_model = 1; heads->q_len = 1;
            layer->w_k_row = layer->w_q_row);
}

static void test_bad_pointers(void **state) {
    (void)state;
    REFUSED(SELF, ATTN_ERR_NULL, "attention is NULL", layer->attention = NULL);
    REFUSED(CACHED, ATTN_ERR_NULL, "ATTN_LAYER_HAS_ROTARY is set, but rotary is NULL", layer->rotary = NULL);
    REFUSED(SELF, ATTN_ERR_NULL, "x is NULL", args->x = NULL);
    REFUSED(CROSS, ATTN_ERR_NULL, "ATTN_LAYER_CROSS is set, but context is NULL", args->context = NULL);
    REFUSED(SELF, ATTN_ERR_NULL, "w_q is NULL", args->w_q = NULL);
    REFUSED(SELF, ATTN_ERR_NULL, "w_k is NULL", args->w_k = NULL);
    REFUSED(SELF, ATTN_ERR_NULL, "w_v is NULL", args->w_v = NULL);
    REFUSED(SELF, ATTN_ERR_NULL, "w_o is NULL", args->w_o = NULL);
    REFUSED(PACKED_CROSS, ATTN_ERR_NULL, "w_k is NULL", args->w_k = NULL);
    REFUSED(SELF, ATTN_ERR_NULL, "y is NULL", args->y = NULL);
    REFUSED(CACHED, ATTN_ERR_NULL, "ATTN_LAYER_HAS_CACHE is set, but cache is NULL", args->cache = NULL);
    REFUSED(SELF, ATTN_ERR_FLAG, "context is given without ATTN_LAYER_CROSS", args->context = args->x);
    REFUSED(CACHED, ATTN_ERR_FLAG, "cache is given without ATTN_LAYER_HAS_CACHE",
            layer->flags &= ~ATTN_LAYER_HAS_CACHE);
    REFUSED(PACKED, ATTN_ERR_FLAG, "w_k is given with ATTN_LAYER_PACKED, where w_q holds it", args->w_k = args->x);
    REFUSED(PACKED, ATTN_ERR_FLAG, "b_v is given with ATTN_LAYER_PACKED, where b_q holds it", args->b_v = args->x);
    REFUSED(PACKED_CROSS, ATTN_ERR_FLAG, "w_v is given with ATTN_LAYER_PACKED, where w_k holds it",
            args->w_v = args->x);
    REFUSED(SELF, ATTN_ERR_FLAG, "ids is given without ATTN_ROTARY_HAS_IDS", args->ids = &heads->q_len);
    REFUSED(CACHED, ATTN_ERR_NULL, "ATTN_ROTARY_HAS_IDS is set, but ids is NULL", rotary->flags |= ATTN_ROTARY_HAS_IDS);
    REFUSED(CACHED, ATTN_ERR_FLAG, "cosines is given without ATTN_ROTARY_HAS_TABLES", args->cosines = args->x);
    REFUSED(CACHED, ATTN_ERR_NULL, "ATTN_ROTARY_HAS_TABLES is set, but cosines is NULL",
            rotary->flags |= ATTN_ROTARY_HAS_TABLES;
            rotary->table_rows = 9; rotary->table_row = 3);
    REFUSED(SELF, ATTN_ERR_FLAG, "attention.q is given but the layer makes its own", head->q = args->x);
    REFUSED(SELF, ATTN_ERR_FLAG, "attention.out is given but the layer makes its own", head->out = args->y);
    REFUSED(RAGGED, ATTN_ERR_FLAG, "attention.kv_offsets is given but the rows of x are the keys: q_offsets count",
            head->kv_offsets = head->q_offsets);
    REFUSED(RAGGED, ATTN_ERR_NULL, "ATTN_RAGGED is set, but q_offsets is NULL", head->q_offsets = NULL);
    REFUSED(SELF, ATTN_ERR_FLAG, "sink is given without ATTN_HAS_SINK", head->sink = args->x);
    REFUSED(SELF, ATTN_ERR_FLAG, "flags: 0x20 is unknown", layer->flags |= 0x20);
    REFUSED(SELF, ATTN_ERR_OVERLAP, "y starts where x starts", args->x = args->y);
    REFUSED(SELF, ATTN_ERR_OVERLAP, "y overlaps w_o", args->w_o = args->y + 1);
    REFUSED(SELF, ATTN_ERR_OVERLAP, "y overlaps b_k", args->b_k = args->y + 7);
    REFUSED(CACHED, ATTN_ERR_OVERLAP, "y overlaps cosines", rotary->flags |= ATTN_ROTARY_HAS_TABLES;
            rotary->table_rows = 9; rotary->table_row = 3; args->cosines = args->y + 1; args->sines = args->x);
    REFUSED(SELF, ATTN_ERR_OVERLAP, "y overlaps lse", head->lse = args->y + 3);
    REFUSED(SELF, ATTN_ERR_OVERLAP, "lse starts where w_q starts", head->lse = (real *)args->w_q);
}

/* Outputs on the caller's lengths: those of attention are elsewhere by then. With room for all of an output, were it
 * written. */
static void test_outputs_on_lengths(void **state) {
    (void)state;
    static int64_t numbers[512] = {3, 5};
    static int64_t offsets[512] = {0, 5, 8};
    void *lens = numbers;
    void *inside = numbers + 1;
#define CACHED_WANT CACHED ",lse,want=scores+capped+masked+weights"
#define CROSS_WANT CROSS ",lse,want=scores+capped+masked+weights"
    REFUSED(CACHED_WANT, ATTN_ERR_OVERLAP, "lse starts where kv_lens starts", head->kv_lens = lens; head->lse = lens);
    REFUSED(CACHED_WANT, ATTN_ERR_OVERLAP, "scores starts where kv_lens starts", head->kv_lens = lens;
            head->scores = lens);
    REFUSED(CACHED_WANT, ATTN_ERR_OVERLAP, "capped overlaps kv_lens", head->kv_lens = inside; head->capped = lens);
    REFUSED(CACHED_WANT, ATTN_ERR_OVERLAP, "masked starts where q_lens starts", head->q_lens = lens;
            head->masked = lens);
    REFUSED(CACHED_WANT, ATTN_ERR_OVERLAP, "weights starts where kv_lens starts", head->kv_lens = lens;
            head->weights = lens);
    REFUSED(CACHED_WANT, ATTN_ERR_OVERLAP, "y starts where kv_lens starts", head->kv_lens = lens; args->y = lens);
    REFUSED(CROSS_WANT, ATTN_ERR_OVERLAP, "lse overlaps kv_lens", head->kv_lens = inside; head->lse = lens);
    REFUSED(CROSS_WANT, ATTN_ERR_OVERLAP, "weights starts where kv_lens starts", head->kv_lens = lens;
            head->weights = lens);
    REFUSED(RAGGED ",lse", ATTN_ERR_OVERLAP, "lse starts where q_offsets starts", head->q_offsets = offsets;
            head->lse = (void *)offsets);
    assert_true(numbers[0] == 3 && numbers[1] == 5 && numbers[2] == 0 && offsets[1] == 5 && offsets[2] == 8);
}

/* Lengths in the cache, which new keys would change under the call. */
static void test_lengths_in_the_cache(void **state) {
    (void)state;
    for (int way = 0; way < 2; way++) {
        test_layer *t = make_layer(CACHED);
        real *k, *v;
        attn_strides ks, vs;
        assert_ok(REAL(attn_cache_rows)(t->cache, 0, &k, &ks, &v, &vs));
        int64_t *lens = (int64_t *)(void *)(k + 4 * ks.row);
        lens[0] = 3, lens[1] = 5;
        *(way == 0 ? &heads_of_layer(t)->q_lens : &heads_of_layer(t)->kv_lens) = lens;
        assert_refused(ATTN_ERR_OVERLAP, way == 0 ? "cache overlaps q_lens" : "cache overlaps kv_lens",
                       REAL(attn_layer)(NULL, &t->d.layer, args_of_layer(t)));
        assert_true(lens[0] == 3 && lens[1] == 5);
        assert_untouched(y_of_layer(t), t->d.elements[SUPPORT_LAYER_Y]);
        free_layer(t);
    }
}

static void test_bad_lengths(void **state) {
    (void)state;
    static const int64_t long_lens[] = {5, 6}, negative[] = {-1, 0}, jumps[] = {0, 5, 3};
    REFUSED(SELF, ATTN_ERR_LENGTH, "q_lens[1] 6 is outside 0..q_len 5", head->q_lens = long_lens);
    REFUSED(SELF, ATTN_ERR_LENGTH, "kv_lens[0] -1 is outside 0..kv_len 5", head->kv_lens = negative);
    REFUSED(CACHED, ATTN_ERR_LENGTH, "q_lens[1] 6 is outside 0..q_len 5", head->q_lens = long_lens);
    REFUSED(RAGGED, ATTN_ERR_LENGTH, "q_offsets[2] 3 is below the 5 before it", head->q_offsets = jumps);
    /* ids and positions beyond a table: the member is named */
    static const int64_t ids[] = {0, 1, 2, 3, 4, 0, 1, 9, 3, 4};
    real table[27] = {0};
    REFUSED(CACHED, ATTN_ERR_ID, "ids[1][2] 9 is no row of a table with table_rows 9",
            rotary->flags |= ATTN_ROTARY_HAS_IDS | ATTN_ROTARY_HAS_TABLES;
            rotary->ids_batch = 5; rotary->table_rows = 9; rotary->table_row = 3; args->ids = ids;
            args->cosines = args->sines = table);
    REFUSED(CACHED, ATTN_ERR_ID, "positions 4 to 8 are not all rows of a table with table_rows 8",
            rotary->flags |= ATTN_ROTARY_HAS_TABLES;
            rotary->table_rows = 8; rotary->table_row = 3; args->cosines = args->sines = table);
}

/* One member has no room left: neither gets a key, nothing is written. */
static void test_full_cache(void **state) {
    (void)state;
    test_layer *t = make_layer(CACHED);
    assert_ok(attn_cache_extend(t->cache, 1, 1));
    assert_refused(ATTN_ERR_LENGTH, "member 1: 5 more do not fit the capacity 9 (length 5)",
                   REAL(attn_layer)(NULL, &t->d.layer, args_of_layer(t)));
    for (int64_t b = 0; b < 2; b++) {
        int64_t length = -1;
        assert_ok(attn_cache_length(t->cache, b, &length));
        assert_int_equal(length, 4 + b);
    }
    assert_untouched(y_of_layer(t), t->d.elements[SUPPORT_LAYER_Y]);
    free_layer(t);
}

static void test_bad_calls(void **state) {
    (void)state;
    test_layer *t = make_layer(SELF);
    layer_args *args = args_of_layer(t);
    attn_layer_plan *plan = NULL;
    assert_refused(ATTN_ERR_NULL, "layer is NULL", REAL(attn_layer)(NULL, NULL, args));
    assert_refused(ATTN_ERR_NULL, "args is NULL", REAL(attn_layer)(NULL, &t->d.layer, NULL));
    assert_refused(ATTN_ERR_NULL, "plan is NULL", attn_layer_plan_create(NULL, &t->d.layer, REAL_DTYPE, NULL));
    assert_refused(ATTN_ERR_DTYPE, "dtype 7 is none", attn_layer_plan_create(NULL, &t->d.layer, (attn_dtype)7, &plan));
    t->d.layer.struct_size = 8;
    assert_int_equal(REAL(attn_layer)(NULL, &t->d.layer, args), ATTN_ERR_STRUCT_SIZE);
    t->d.layer.struct_size = sizeof t->d.layer;
    args->struct_size = sizeof *args + 8;
    assert_int_equal(REAL(attn_layer)(NULL, &t->d.layer, args), ATTN_ERR_STRUCT_SIZE);
    args->struct_size = sizeof *args;
    assert_null(plan);

    size_t bytes = 0;
    attn_dtype other = REAL_DTYPE == ATTN_F32 ? ATTN_F64 : ATTN_F32;
    assert_ok(attn_layer_plan_create(NULL, &t->d.layer, other, &plan));
    assert_int_equal(REAL(attn_layer_plan_run)(plan, args, NULL, 0), ATTN_ERR_DTYPE);
    attn_layer_plan_destroy(plan);
    assert_ok(attn_layer_plan_create(NULL, &t->d.layer, REAL_DTYPE, &plan));
    assert_ok(attn_layer_plan_workspace(plan, &bytes));
    char *workspace = aligned_alloc(64, bytes + 128 - bytes % 64);
    assert_non_null(workspace);
    assert_refused(ATTN_ERR_NULL, "plan is NULL", REAL(attn_layer_plan_run)(NULL, args, NULL, 0));
    assert_refused(ATTN_ERR_NULL, "plan is NULL", attn_layer_plan_workspace(NULL, &bytes));
    assert_refused(ATTN_ERR_NULL, "bytes is NULL", attn_layer_plan_workspace(plan, NULL));
    assert_int_equal(REAL(attn_layer_plan_run)(plan, args, workspace, bytes - 1), ATTN_ERR_WORKSPACE);
    assert_int_equal(REAL(attn_layer_plan_run)(plan, args, workspace + 8, bytes), ATTN_ERR_WORKSPACE);
    assert_untouched(y_of_layer(t), t->d.elements[SUPPORT_LAYER_Y]);
    free(workspace);
    attn_layer_plan_destroy(plan);
    free_layer(t);

    /* a cache of the other precision */
    t = make_layer(CACHED);
    attn_cache_sizes sizes = ATTN_CACHE_SIZES_INIT;
    attn_cache *wrong = NULL;
    assert_ok(attn_cache_get_sizes(t->cache, &sizes));
    assert_ok(attn_cache_create(NULL, &sizes, other, &wrong));
    args_of_layer(t)->cache = wrong;
    assert_int_equal(REAL(attn_layer)(NULL, &t->d.layer, args_of_layer(t)), ATTN_ERR_DTYPE);
    attn_cache_destroy(wrong);
    free_layer(t);
}

/* ---- Layout and flops -------------------------------------------------------------------------------------------- */

static void test_dense_layout(void **state) {
    (void)state;
    static const char *const texts[] = {
        SELF, PACKED, CROSS, PACKED_CROSS, "layer d24h4/2c11,packed,outin b2q5k7", "layer d24h4/2,outin b2q5"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        test_layer *t = make_layer(texts[i]);
        attn_layer wanted = t->d.layer, got = wanted;
        got.x_batch = got.x_row = got.y_batch = got.y_row = got.w_q_row = got.w_o_row = -1;
        got.context_batch = got.context_row = INT64_MAX; /* read by no one, written where there is a context */
        assert_ok(attn_layer_layout_dense(&got));
        assert_int_equal(got.x_batch, wanted.x_batch);
        assert_int_equal(got.x_row, wanted.x_row);
        assert_int_equal(got.y_batch, wanted.y_batch);
        assert_int_equal(got.y_row, wanted.y_row);
        assert_int_equal(got.w_q_row, wanted.w_q_row);
        assert_int_equal(got.w_o_row, wanted.w_o_row);
        if ((got.flags & ATTN_LAYER_PACKED) == 0 || (got.flags & ATTN_LAYER_CROSS) != 0)
            assert_int_equal(got.w_k_row, wanted.w_k_row);
        if ((got.flags & ATTN_LAYER_PACKED) == 0)
            assert_int_equal(got.w_v_row, wanted.w_v_row);
        if ((got.flags & ATTN_LAYER_CROSS) != 0) {
            assert_int_equal(got.context_batch, wanted.context_batch);
            assert_int_equal(got.context_row, wanted.context_row);
        } else {
            assert_true(got.context_batch == INT64_MAX && got.context_row == INT64_MAX);
        }
        free_layer(t);
    }
    attn_problem heads = ATTN_PROBLEM_INIT;
    attn_layer layer = ATTN_LAYER_INIT;
    heads.batch = 1;
    heads.q_len = heads.kv_len = INT64_MAX / 2;
    heads.head_dim = 1;
    layer.d_model = 3;
    layer.attention = &heads;
    assert_refused(ATTN_ERR_OVERFLOW, "x: a dense array of these sizes has strides beyond 63 bits",
                   attn_layer_layout_dense(&layer));
    assert_int_equal(layer.x_row, 0);
    assert_refused(ATTN_ERR_NULL, "layer is NULL", attn_layer_layout_dense(NULL));
    heads.q_len = heads.kv_len = 5;
    layer.flags = 0x20;
    assert_refused(ATTN_ERR_FLAG, "flags: 0x20 is unknown", attn_layer_layout_dense(&layer));
    heads.flags = ATTN_RAGGED;
    layer.flags = ATTN_LAYER_HAS_CACHE;
    assert_refused(ATTN_ERR_FLAG, "ATTN_RAGGED: the keys of a cache are not packed", attn_layer_layout_dense(&layer));
    assert_int_equal(layer.x_row, 0);
}

/* What a plan says: whole, cut, counted. */
static void test_description(void **state) {
    (void)state;
    test_layer *t = make_layer("layer d24h4/2,packed,rope=pairs:4,cache=9,past=4 b2q5,causal,br");
    attn_layer_plan *plan;
    assert_ok(attn_layer_plan_create(NULL, &t->d.layer, REAL_DTYPE, &plan));
    char text[4096], cut[40];
    size_t needed = 0, bytes = 0;
    assert_ok(attn_layer_plan_describe(plan, text, sizeof text, &needed));
    assert_int_equal(strlen(text) + 1, needed);
    assert_ok(attn_layer_plan_workspace(plan, &bytes));
    char workspace[64];
    snprintf(workspace, sizeof workspace, "\nlayer workspace: %zu bytes\n", bytes);
    const char *const lines[] = {
        "layer: d_model 24, d_out 24, weights [in, out], packed, self-attention\n",
        "\nrotary positions: interleaved, 4 of 6 elements of a head, own angles, after the keys of the cache\n",
        "\ncache: capacity 9, up to 5 new keys of a member\n",
        "\nproduct w_q: 5 rows of a member, 24 inputs, 48 columns, own loops for all members at once: few rows\n",
        "\nproduct w_o: 5 rows of a member, 24 inputs, 24 columns, own loops",
        workspace,
        "\nlayer workspace of rows of Z: ",
        "\nproblem: batch 2, q_heads 4, kv_heads 2, q_len 5, kv_len 9, head_dim 6, v_dim 6, ",
        "\nengine: fused (",
    };
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        if (strstr(text, lines[i]) == NULL)
            fail_msg("no \"%s\" in: %s", lines[i], text);
    for (size_t size = 0; size <= needed; size++) {
        char *exact = malloc(size + 1);
        size_t again = 0;
        exact[size] = '#';
        assert_ok(attn_layer_plan_describe(plan, size > 0 ? exact : NULL, size, &again));
        assert_int_equal(again, needed);
        if (size > 0) {
            assert_memory_equal(exact, text, size - 1);
            assert_int_equal(exact[size - 1], 0);
        }
        assert_int_equal(exact[size], '#');
        free(exact);
    }
    assert_ok(attn_layer_plan_describe(plan, cut, sizeof cut, NULL));
    assert_refused(ATTN_ERR_NULL, "plan is NULL", attn_layer_plan_describe(NULL, text, sizeof text, &needed));
    assert_refused(ATTN_ERR_NULL, "text is NULL with a size of 8", attn_layer_plan_describe(plan, NULL, 8, &needed));
    attn_layer_plan_destroy(plan);
    free_layer(t);

    /* a layer without members has no pieces of workspace to speak of */
    t = make_layer("layer d24h4/2 b0q5");
    assert_ok(attn_layer_plan_create(NULL, &t->d.layer, REAL_DTYPE, &plan));
    assert_ok(attn_layer_plan_describe(plan, text, sizeof text, &needed));
    assert_non_null(strstr(text, "\nlayer workspace: 0 bytes\n"));
    assert_null(strstr(text, "workspace of "));
    attn_layer_plan_destroy(plan);
    free_layer(t);
}

/* The way of products above the rows of own loops, by whatever core the BLAS has: those with small products take
 * panels, SkylakeX for some rows only. */
static void test_description_of_more_rows(void **state) {
    (void)state;
    static const int all_rows[] = {97, 263};
    attn_blas_info blas = ATTN_STRUCT_INIT(attn_blas_info);
    assert_ok(attn_blas_get_info(&blas));
    bool some_rows = strcmp(blas.core, "SkylakeX") == 0 || strcmp(blas.core, "SapphireRapids") == 0;
    for (int i = 0; i < 2; i++) {
        char problem[64], text[8192], line[512], way[400] = "in blocks, CBLAS products";
        snprintf(problem, sizeof problem, "layer d128h4 b1q%d", all_rows[i]);
        test_layer *t = make_layer(problem);
        attn_layer_plan *plan;
        assert_ok(attn_layer_plan_create(NULL, &t->d.layer, REAL_DTYPE, &plan));
        if (blas.advice[0] != 0)
            snprintf(way, sizeof way, "weights packed in panels for small products by the library's own kernel");
        else if (strcmp(blas.core, "Cooperlake") == 0 || (some_rows && i == 0))
            snprintf(way, sizeof way, "weights packed in panels for small CBLAS products");
        assert_ok(attn_layer_plan_describe(plan, text, sizeof text, NULL));
        snprintf(line, sizeof line, "\nproduct w_o: %d rows of a member, 128 inputs, 128 columns, %s\n", all_rows[i],
                 way);
        if (strstr(text, line) == NULL)
            fail_msg("no \"%s\" in: %s", line, text);
        attn_layer_plan_destroy(plan);
        free_layer(t);
    }
}

static double flops_of(const char *text, const int64_t *q_lens, const int64_t *past) {
    test_layer *t = make_layer(text);
    double flops = -1;
    assert_ok(attn_layer_flops(&t->d.layer, q_lens, NULL, past, &flops));
    free_layer(t);
    return flops;
}

static void test_flops(void **state) {
    (void)state;
    static const int64_t lens[] = {5, 2}, past[] = {4, 4};
    /* d 24, 4 heads of 6 over 2: W_Q and W_O 24 x 24, W_K and W_V 24 x 12; pairs * 2 * 12 flops of 4 heads */
    const double row = 2.0 * 24 * (24 + 24 + 12 + 12), pair = 2 * 4 * 12.0;
    assert_true(flops_of("layer d24h4/2 b2q5", NULL, NULL) == 10 * row + 50 * pair);
    assert_true(flops_of("layer d24h4/2,packed b2q5,causal", NULL, NULL) == 10 * row + 30 * pair);
    assert_true(flops_of("layer d24h4/2 b2q5", lens, NULL) == 7 * row + 29 * pair);
    assert_true(flops_of("layer d24h4/2,cache=9 b2q5", lens, past) == 7 * row + (5 * 9 + 2 * 6) * pair);
    assert_true(flops_of("layer d24h4/2c10 b1q5k3", NULL, NULL) == 5 * 2.0 * 24 * 48 + 3 * 2.0 * 10 * 24 + 15 * pair);
    test_layer *t = make_layer(CACHED);
    double flops;
    static const int64_t beyond[] = {4, 5};
    assert_refused(ATTN_ERR_LENGTH, "past[1] 5 is outside 0..4, what the capacity leaves to it",
                   attn_layer_flops(&t->d.layer, NULL, NULL, beyond, &flops));
    assert_refused(ATTN_ERR_NULL, "flops is NULL", attn_layer_flops(&t->d.layer, NULL, NULL, NULL, NULL));
    free_layer(t);
    t = make_layer(SELF);
    assert_refused(ATTN_ERR_FLAG, "past is given without ATTN_LAYER_HAS_CACHE",
                   attn_layer_flops(&t->d.layer, NULL, NULL, past, &flops));
    free_layer(t);
}

/* Sizes count for flops, not what a plan in some precision makes of them. */
static void test_flops_without_a_plan(void **state) {
    (void)state;
    attn_problem heads = ATTN_PROBLEM_INIT;
    attn_layer layer = ATTN_LAYER_INIT;
    double flops = -1;
    heads.batch = heads.q_heads = heads.kv_heads = 1;
    heads.head_dim = heads.v_dim = layer.d_model = layer.d_out = 16;
    heads.q_len = heads.kv_len = INT64_C(1) << 54; /* its workspace fits in float, not in double */
    layer.attention = &heads;
    /* strides are 0: they do not count, nor does rotary */
    layer.flags = ATTN_LAYER_HAS_ROTARY;
    assert_ok(attn_layer_flops(&layer, NULL, NULL, NULL, &flops));
    const long double len = 0x1p54L, wanted = 4 * 2 * len * 256 + 2 * len * len * 32;
    assert_near(flops, wanted, 4 * 0x1p-52L * wanted);
    attn_layer_plan *plan = NULL;
    layer.flags = 0;
    assert_ok(attn_layer_layout_dense(&layer));
    assert_int_equal(attn_layer_plan_create(NULL, &layer, ATTN_F64, &plan), ATTN_ERR_OVERFLOW);
    assert_ok(attn_layer_plan_create(NULL, &layer, ATTN_F32, &plan));
    attn_layer_plan_destroy(plan);

    /* more than one BLAS call could take */
    heads.q_len = heads.kv_len = 2;
    layer.d_model = layer.d_out = INT64_C(1) << 40;
    assert_ok(attn_layer_flops(&layer, NULL, NULL, NULL, &flops));
    assert_true(flops == 4 * 2 * 2 * 16 * 0x1p40 + 2 * 4 * 32);

    /* packed rows are no more than all together */
    heads.flags = ATTN_RAGGED;
    heads.q_len = heads.kv_len = 100;
    heads.total_q = heads.total_kv = 3;
    layer.d_model = layer.d_out = 16;
    assert_ok(attn_layer_flops(&layer, NULL, NULL, NULL, &flops));
    assert_true(flops == 4 * 2 * 3 * 256 + 2 * 9 * 32);

    heads.flags = ATTN_HAS_SCALE;
    heads.scale = (double)NAN;
    assert_int_equal(attn_layer_flops(&layer, NULL, NULL, NULL, &flops), ATTN_ERR_VALUE);
    heads.flags = 0;
    heads.batch = -1;
    assert_refused(ATTN_ERR_SIZE, "batch -1 is below 0", attn_layer_flops(&layer, NULL, NULL, NULL, &flops));
}

static void test_initialisers(void **state) {
    (void)state;
    struct {
        attn_layer layer;
        unsigned char after[8];
    } guarded;
    memset(&guarded, 0x5a, sizeof guarded);
    assert_ok(attn_layer_init(&guarded.layer, sizeof guarded.layer));
    attn_layer empty = ATTN_LAYER_INIT;
    assert_memory_equal(&guarded.layer, &empty, sizeof empty);
    for (int i = 0; i < 8; i++)
        assert_int_equal(guarded.after[i], 0x5a);
    layer_args args, no_args = ATTN_STRUCT_INIT(layer_args);
    memset(&args, 0x5a, sizeof args);
    assert_ok(REAL(attn_layer_args_init)(&args, sizeof args));
    assert_memory_equal(&args, &no_args, sizeof args);
    assert_int_equal(attn_layer_init(NULL, sizeof empty), ATTN_ERR_NULL);
    assert_int_equal(attn_layer_init(&empty, 8), ATTN_ERR_STRUCT_SIZE);
    assert_int_equal(REAL(attn_layer_args_init)(&args, sizeof args + 1), ATTN_ERR_STRUCT_SIZE);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_threads),
        cmocka_unit_test(test_batch_mates),
        cmocka_unit_test(test_plan),
        cmocka_unit_test(test_failing_allocations),
        cmocka_unit_test(test_parallel_for_that_fails),
        cmocka_unit_test(test_decoding_in_pieces),
        cmocka_unit_test(test_bad_sizes),
        cmocka_unit_test(test_bad_strides),
        cmocka_unit_test(test_strides_of_one_row),
        cmocka_unit_test(test_strides_of_empty_arrays),
        cmocka_unit_test(test_empty_layers),
        cmocka_unit_test(test_strides_of_empty_tables),
        cmocka_unit_test(test_strides_beyond_blas),
        cmocka_unit_test(test_bad_pointers),
        cmocka_unit_test(test_outputs_on_lengths),
        cmocka_unit_test(test_lengths_in_the_cache),
        cmocka_unit_test(test_bad_lengths),
        cmocka_unit_test(test_full_cache),
        cmocka_unit_test(test_bad_calls),
        cmocka_unit_test(test_dense_layout),
        cmocka_unit_test(test_description),
        cmocka_unit_test(test_description_of_more_rows),
        cmocka_unit_test(test_flops),
        cmocka_unit_test(test_flops_without_a_plan),
        cmocka_unit_test(test_initialisers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
