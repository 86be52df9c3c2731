/* What the tests of the layer share: a problem as text, made, run and compared. */
#ifndef LAYER_TEST_H
#define LAYER_TEST_H

#include "chain/chain_test.h"
#include "support/layer.h"

typedef REAL(attn_layer_args) layer_args;
typedef REAL(attn_args) head_args;

/* A layer with its data and, where it has one, its cache. */
typedef struct test_layer {
    support_layer *l;
    support_layer_data d;
    attn_cache *cache;
} test_layer;

static inline layer_args *args_of_layer(test_layer *t) {
#if ATTN_REAL_BITS == 32
    return &t->d.args32;
#else
    return &t->d.args64;
#endif
}

static inline head_args *heads_of_layer(test_layer *t) {
#if ATTN_REAL_BITS == 32
    return &t->d.heads32;
#else
    return &t->d.heads64;
#endif
}

static inline real *y_of_layer(test_layer *t) {
    return t->d.array[SUPPORT_LAYER_Y];
}

/* An empty cache of a layer's sizes, or one with its past in it. */
static inline attn_cache *make_cache_for(const support_layer_data *d, bool with_past) {
    const support_layer *l = d->l;
    const attn_problem *p = &l->heads->problem;
    attn_cache_sizes sizes = ATTN_CACHE_SIZES_INIT;
    attn_cache *cache = NULL;
    sizes.batch = p->batch;
    sizes.kv_heads = p->kv_heads;
    sizes.capacity = l->capacity;
    sizes.head_dim = p->head_dim;
    sizes.v_dim = p->v_dim;
    assert_ok(attn_cache_create(NULL, &sizes, REAL_DTYPE, &cache));
    const attn_strides k = {p->kv_heads * l->past * p->head_dim, l->past * p->head_dim, p->head_dim};
    const attn_strides v = {p->kv_heads * l->past * p->v_dim, l->past * p->v_dim, p->v_dim};
    if (with_past)
        assert_ok(REAL(attn_cache_append_all)(cache, l->past, NULL, d->array[SUPPORT_LAYER_PAST_K], k,
                                              d->array[SUPPORT_LAYER_PAST_V], v));
    return cache;
}

static inline test_layer *make_layer(const char *text) {
    char error[512] = "";
    test_layer *t = calloc(1, sizeof *t);
    assert_non_null(t);
    t->l = support_layer_parse(text, error, sizeof error);
    if (t->l == NULL)
        fail_msg("%s: %s", text, error);
    assert_true(support_layer_data_create(&t->d, t->l, REAL_DTYPE));
    if (t->l->cached) {
        t->cache = make_cache_for(&t->d, true);
        args_of_layer(t)->cache = t->cache;
    }
    return t;
}

static inline void free_layer(test_layer *t) {
    support_layer_data_destroy(&t->d);
    support_layer_free(t->l);
    attn_cache_destroy(t->cache);
    free(t);
}

static inline void assert_layer_ok(test_layer *t, const char *text, attn_status status) {
    if (status != ATTN_OK)
        fail_msg("%s: status %d: %s", text, (int)status, attn_last_error());
    support_report report;
    if (!support_layer_verify(&t->d, &report))
        fail_msg("%s: %s", text, report.text);
    for (int64_t b = 0; t->cache != NULL && b < t->l->heads->problem.batch; b++) {
        int64_t length = -1;
        assert_ok(attn_cache_length(t->cache, b, &length));
        assert_int_equal(length, t->l->past + support_layer_new_keys(t->l, b));
    }
}

/* Makes it, runs it, compares every row. Returns the worst error in units of the tolerance. */
static inline double check_layer(const char *text) {
    test_layer *t = make_layer(text);
    assert_layer_ok(t, text, REAL(attn_layer)(NULL, &t->d.layer, args_of_layer(t)));
    support_report report;
    (void)support_layer_verify(&t->d, &report);
    int64_t rows = 0;
    for (int64_t b = 0; b < t->l->heads->problem.batch; b++)
        rows += support_layer_q_len(t->l, b);
    assert_true(report.numbers >= rows * t->l->d_out);
    free_layer(t);
    return report.worst;
}

#endif
