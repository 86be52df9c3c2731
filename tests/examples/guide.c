/* The code of docs/guide.md does what the guide says: every function of its blocks, against the oracle. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "guide.h"
#include "layer.h"
#include "support.h"

static support_case *parsed(const char *text) {
    char error[256] = "";
    support_case *c = support_case_parse(text, error, sizeof error);
    if (!c)
        fail_msg("%s: %s", text, error);
    return c;
}

static void assert_right(const support_data *d) {
    support_report report;
    if (!support_verify_sampled(d, NULL, 60, 1, &report))
        fail_msg("%s", report.text);
    assert_int_equal(report.verdict, SUPPORT_PASSED);
}

static void test_attend(void **state) {
    (void)state;
    support_case *c = parsed("b2h32/8q16k1024d128,causal,br,kvlens=1024:700,layout=blhd,lse");
    support_data d;
    assert_true(support_data_create(&d, c, ATTN_F32));
    assert_int_equal(attend(d.args32.q, d.args32.k, d.args32.v, d.kv_lens, d.args32.out, d.args32.lse), ATTN_OK);
    assert_right(&d);
    support_data_poison_outputs(&d);
    const int64_t too_long[] = {1024, 1025};
    assert_int_equal(attend(d.args32.q, d.args32.k, d.args32.v, too_long, d.args32.out, d.args32.lse), ATTN_ERR_LENGTH);
    support_data_destroy(&d);
    support_case_free(c);
}

static void test_mask(void **state) {
    (void)state;
    support_case *c = parsed("b2h4/2q7k53d17,mask@bh");
    support_data d;
    assert_true(support_data_create(&d, c, ATTN_F32));
    assert_int_equal(c->problem.mask.row, 53); /* else it is another mask than the guide's */
    attn_problem p = c->problem;
    attn_args_f32 a = d.args32;
    p.flags &= ~ATTN_HAS_MASK;
    p.mask = (attn_mask_strides){0};
    a.mask = NULL;
    assert_int_equal(attend_masked(p, a, d.args32.mask), ATTN_OK);
    assert_right(&d);
    support_data_destroy(&d);
    support_case_free(c);
}

enum { ROUNDS = 3 };
static support_data loop_data[ROUNDS];
static int loop_round;

static bool next_round(attn_args_f32 *a) {
    if (loop_round == ROUNDS)
        return false;
    *a = loop_data[loop_round++].args32;
    return true;
}

static void test_plan(void **state) {
    (void)state;
    const char *const texts[ROUNDS] = {"b2h4/2q7k53d17,causal,seed=1", "b2h4/2q7k53d17,causal,seed=2",
                                       "b2h4/2q7k53d17,causal,seed=3,kvlens=53:11"};
    support_case *c[ROUNDS];
    for (int i = 0; i < ROUNDS; i++) {
        c[i] = parsed(texts[i]);
        assert_true(support_data_create(&loop_data[i], c[i], ATTN_F32));
    }
    assert_int_equal(attend_to_all(&c[0]->problem, next_round), ATTN_OK);
    for (int i = 0; i < ROUNDS; i++) {
        assert_right(&loop_data[i]);
        support_data_destroy(&loop_data[i]);
    }
    c[0]->problem.kv_heads = 3;
    assert_int_equal(attend_to_all(&c[0]->problem, next_round), ATTN_ERR_SIZE);
    for (int i = 0; i < ROUNDS; i++)
        support_case_free(c[i]);
}

/* Token by token: after the last one the output is that of all keys. */
static void test_decode(void **state) {
    (void)state;
    enum { BATCH = 3, KV_HEADS = 2, KEYS = 23, DIM = 13, V_DIM = 7 };
    support_case *c = parsed("b3h6/2q1k23d13v7,br");
    support_data d;
    assert_true(support_data_create(&d, c, ATTN_F32));
    attn_cache_sizes sizes = ATTN_CACHE_SIZES_INIT;
    sizes.batch = BATCH, sizes.kv_heads = KV_HEADS, sizes.capacity = KEYS, sizes.head_dim = DIM, sizes.v_dim = V_DIM;
    attn_cache *cache = NULL;
    assert_int_equal(attn_cache_create(NULL, &sizes, ATTN_F32, &cache), ATTN_OK);
    float k[BATCH * KV_HEADS * DIM], v[BATCH * KV_HEADS * V_DIM];
    for (int key = 0; key < KEYS; key++) {
        for (int head = 0; head < BATCH * KV_HEADS; head++) {
            for (int i = 0; i < DIM; i++)
                k[head * DIM + i] = d.args32.k[(head * KEYS + key) * DIM + i];
            for (int i = 0; i < V_DIM; i++)
                v[head * V_DIM + i] = d.args32.v[(head * KEYS + key) * V_DIM + i];
        }
        assert_int_equal(decode(cache, 6, d.args32.q, k, v, d.args32.out), ATTN_OK);
    }
    assert_right(&d);
    assert_int_equal(decode(cache, 6, d.args32.q, k, v, d.args32.out), ATTN_ERR_LENGTH); /* it is full */
    attn_cache_destroy(cache);
    support_data_destroy(&d);
    support_case_free(c);
}

static void test_layer(void **state) {
    (void)state;
    char error[256] = "";
    support_layer *l = support_layer_parse("d768h12,outin,packed,bias b1q40,causal", error, sizeof error);
    support_layer_data d;
    support_report report;
    assert_string_equal(error, "");
    assert_true(support_layer_data_create(&d, l, ATTN_F32));
    const attn_layer_args_f32 *a = &d.args32;
    assert_int_equal(run_layer(a->x, a->w_q, a->b_q, a->w_o, a->b_o, a->y), ATTN_OK);
    if (!support_layer_verify(&d, &report))
        fail_msg("%s", report.text);
    support_layer_data_destroy(&d);
    support_layer_free(l);
}

static void test_warn_of_blas(void **state) {
    (void)state;
    attn_blas_info blas = ATTN_STRUCT_INIT(attn_blas_info);
    assert_int_equal(attn_blas_get_info(&blas), ATTN_OK);
    char wanted[256] = "", written[256] = "";
    if (blas.advice[0] != 0)
        snprintf(wanted, sizeof wanted, "%s\n", blas.advice);
    FILE *file = tmpfile();
    assert_non_null(file);
    warn_of_blas(file);
    rewind(file);
    written[fread(written, 1, sizeof written - 1, file)] = 0;
    fclose(file);
    assert_string_equal(written, wanted);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_attend), cmocka_unit_test(test_mask),  cmocka_unit_test(test_plan),
        cmocka_unit_test(test_decode), cmocka_unit_test(test_layer), cmocka_unit_test(test_warn_of_blas),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
