/* What surrounds the calls: initialisers, layout helpers, flops. */
#include "sdpa_test.h"

/* ---- Initialisers ------------------------------------------------------------------------------------------------ */

/* struct_size is stored, all else is 0, and no byte behind is written; smaller and larger structs are refused. */
#define CHECK_INITIALISER(type, name, call)                                                                            \
    do {                                                                                                               \
        struct {                                                                                                       \
            type object;                                                                                               \
            unsigned char behind[16];                                                                                  \
        } room;                                                                                                        \
        memset(&room, 0xff, sizeof room);                                                                              \
        assert_ok(call(&room.object, sizeof room.object));                                                             \
        type wanted;                                                                                                   \
        memset(&wanted, 0, sizeof wanted);                                                                             \
        wanted.struct_size = sizeof wanted;                                                                            \
        assert_memory_equal(&room.object, &wanted, sizeof wanted);                                                     \
        assert_true(all_poison(room.behind, sizeof room.behind));                                                      \
        memset(&room, 0xff, sizeof room);                                                                              \
        const size_t bad[] = {0, sizeof(size_t), sizeof(type) - 8, sizeof(type) + 8, SIZE_MAX};                        \
        for (int i_ = 0; i_ < 5; i_++) {                                                                               \
            assert_int_equal(call(&room.object, bad[i_]), ATTN_ERR_STRUCT_SIZE);                                       \
            assert_non_null(strstr(attn_last_error(), name ": struct_size"));                                          \
        }                                                                                                              \
        assert_true(all_poison(&room, sizeof room));                                                                   \
        assert_refused(ATTN_ERR_NULL, name " is NULL", call(NULL, sizeof(type)));                                      \
    } while (0)

static void test_initialisers(void **state) {
    (void)state;
    CHECK_INITIALISER(attn_problem, "attn_problem", attn_problem_init);
    CHECK_INITIALISER(attn_args_f32, "attn_args_f32", attn_args_init_f32);
    CHECK_INITIALISER(attn_args_f64, "attn_args_f64", attn_args_init_f64);
    CHECK_INITIALISER(attn_context, "attn_context", attn_context_init);
}

/* ---- Layouts ----------------------------------------------------------------------------------------------------- */

static attn_problem sized_problem(void) {
    attn_problem p = ATTN_PROBLEM_INIT;
    p.batch = 2;
    p.q_heads = 6;
    p.kv_heads = 3;
    p.q_len = 5;
    p.kv_len = 7;
    p.head_dim = 4;
    p.v_dim = 11;
    return p;
}

static void assert_strides(attn_strides got, int64_t batch, int64_t head, int64_t row) {
    assert_int_equal(got.batch, batch);
    assert_int_equal(got.head, head);
    assert_int_equal(got.row, row);
}

/* The strides apart, the problem is what it was. */
static void assert_only_strides_changed(attn_problem after) {
    attn_problem before = sized_problem();
    before.q_len = after.q_len;
    before.q = after.q;
    before.k = after.k;
    before.v = after.v;
    before.out = after.out;
    before.lse = after.lse;
    before.scores = after.scores;
    assert_memory_equal(&before, &after, sizeof before);
}

static void test_layouts(void **state) {
    (void)state;
    attn_problem p = sized_problem();
    assert_ok(attn_problem_layout_bhld(&p));
    assert_strides(p.q, 6 * 5 * 4, 5 * 4, 4);
    assert_strides(p.k, 3 * 7 * 4, 7 * 4, 4);
    assert_strides(p.v, 3 * 7 * 11, 7 * 11, 11);
    assert_strides(p.out, 6 * 5 * 11, 5 * 11, 11);
    assert_strides(p.lse, 6 * 5, 5, 1);
    assert_strides(p.scores, 6 * 5 * 7, 5 * 7, 7);
    assert_only_strides_changed(p);

    p = sized_problem();
    assert_ok(attn_problem_layout_blhd(&p));
    assert_strides(p.q, 5 * 6 * 4, 4, 6 * 4);
    assert_strides(p.k, 7 * 3 * 4, 4, 3 * 4);
    assert_strides(p.v, 7 * 3 * 11, 11, 3 * 11);
    assert_strides(p.out, 5 * 6 * 11, 11, 6 * 11);
    assert_strides(p.lse, 6 * 5, 5, 1);
    assert_strides(p.scores, 6 * 5 * 7, 5 * 7, 7);
    assert_only_strides_changed(p);

    /* packed tokens: one member of all rows; the batch strides do not count */
    p = sized_problem();
    p.flags = ATTN_RAGGED;
    p.total_q = 9;
    p.total_kv = 13;
    assert_ok(attn_problem_layout_bhld(&p));
    assert_int_equal(p.q.head, 9 * 4);
    assert_int_equal(p.k.head, 13 * 4);
    assert_int_equal(p.v.head, 13 * 11);
    assert_int_equal(p.out.head, 9 * 11);
    assert_int_equal(p.lse.head, 9);
    assert_int_equal(p.lse.row, 1);
    assert_strides(p.scores, 6 * 5 * 7, 5 * 7, 7);

    p = sized_problem();
    p.q_len = 7;
    const int64_t row = 6 * 4 + 3 * 4 + 3 * 11;
    assert_ok(attn_problem_layout_packed_qkv(&p));
    assert_strides(p.q, 7 * row, 4, row);
    assert_strides(p.k, 7 * row, 4, row);
    assert_strides(p.v, 7 * row, 11, row);
    assert_strides(p.out, 7 * 6 * 11, 11, 6 * 11);
    assert_strides(p.lse, 6 * 7, 7, 1);
    assert_strides(p.scores, 6 * 7 * 7, 7 * 7, 7);
    assert_only_strides_changed(p);
}

typedef attn_status (*layout_helper)(attn_problem *problem);
static const layout_helper layouts[] = {attn_problem_layout_bhld, attn_problem_layout_blhd,
                                        attn_problem_layout_packed_qkv};

static void refuse_layout(layout_helper layout, attn_problem problem, attn_status status, const char *words) {
    attn_problem before = problem;
    assert_int_equal(layout(&problem), status);
    if (strstr(attn_last_error(), words) == NULL)
        fail_msg("the sentence is \"%s\", without \"%s\"", attn_last_error(), words);
    assert_memory_equal(&problem, &before, sizeof before);
}

static void test_layout_errors(void **state) {
    (void)state;
    for (int n = 0; n < 3; n++) {
        assert_refused(ATTN_ERR_NULL, "problem is NULL", layouts[n](NULL));
        attn_problem p = sized_problem();
        p.q_len = p.kv_len;
#define REFUSE_LAYOUT(field, value, status, words)                                                                     \
    do {                                                                                                               \
        attn_problem bad = p;                                                                                          \
        bad.field = value;                                                                                             \
        refuse_layout(layouts[n], bad, status, words);                                                                 \
    } while (0)
        REFUSE_LAYOUT(struct_size, 8, ATTN_ERR_STRUCT_SIZE, "struct_size 8");
        REFUSE_LAYOUT(struct_size, sizeof p + 1, ATTN_ERR_STRUCT_SIZE, "struct_size");
        REFUSE_LAYOUT(batch, -1, ATTN_ERR_SIZE, "batch -1");
        REFUSE_LAYOUT(q_len, -1, ATTN_ERR_SIZE, "q_len -1");
        REFUSE_LAYOUT(kv_heads, 4, ATTN_ERR_SIZE, "kv_heads 4 does not divide q_heads 6");
        REFUSE_LAYOUT(head_dim, 0, ATTN_ERR_SIZE, "head_dim 0");
        REFUSE_LAYOUT(v_dim, INT64_MAX, ATTN_ERR_OVERFLOW, n == 2 ? "q: " : "v: ");
        REFUSE_LAYOUT(head_dim, INT64_MAX / 2, ATTN_ERR_OVERFLOW, "q: ");
#undef REFUSE_LAYOUT
        p.batch = 0; /* nothing lies anywhere then */
        p.head_dim = p.v_dim = INT64_MAX;
        assert_ok(layouts[n](&p));
    }
    attn_problem p = sized_problem();
    refuse_layout(attn_problem_layout_packed_qkv, p, ATTN_ERR_SIZE, "q_len 5 is not kv_len 7");
}

/* ---- Flops ------------------------------------------------------------------------------------------------------- */

/* By counting the pairs that the oracle sees. */
static double counted_flops(const trial *t) {
    const attn_problem *p = &t->problem_case->problem;
    double pairs = 0;
    for (int64_t b = 0; b < p->batch; b++)
        for (int64_t h = 0; h < p->q_heads; h++)
            for (int64_t i = 0; i < p->q_len; i++)
                for (int64_t j = 0; j < p->kv_len; j++)
                    pairs += support_oracle_sees(&t->data, b, h, i, j);
    return 2 * pairs * (double)(p->head_dim + p->v_dim);
}

static void test_flops(void **state) {
    (void)state;
    static const char *const problems[] = {
        "b2h6/3q5k7d4v11",
        "b2h6/3q5k7d4v11,causal",
        "b2h6/3q7k5d4v11,causal",
        "b2h6/3q5k7d4v11,causal,br",
        "b2h6/3q7k5d4v11,causal,br",
        "h2q5k7d4,causal,off=3",
        "h2q5k7d4,causal,off=-3",
        "h2q5k7d4,causal,off=-50",
        "h2q5k7d4,causal,off=9223372036854775807",
        "h2q5k7d4,causal,off=-9223372036854775808",
        "h2q5k7d4,off=-9223372036854775808",
        "b4q5k7d4,qlens=5:0:3:1,kvlens=7:7:0:2",
        "b4q5k7d4,qlens=5:0:3:4,kvlens=7:7:6:2,causal,br",
        "q5k7d4v0",
        "b0q5k7d4",
        "q0k7d4",
        "q5k0d4,causal",
        "h2q5k7d4,window=1:2",
        "h2q9k7d4,window=1:-1,causal,off=2",
        "h2q9k7d4,window=0:0,off=-4",
        "h2q19k43d7,off=4611686018427387904,window=4611686018427387900:-1",
        "h2q19k43d7,off=-4611686018427387904,window=-1:4611686018427387914",
        "h2q19k43d7,off=9223372036854775807,window=9223372036854775805:-1",
        "h2q9k7d4,window=9223372036854775807:9223372036854775807,off=3",
        "b3h2q9k7d4,ragged=9:0:5/7:4:3,causal,br",
    };
    for (size_t s = 0; s < sizeof problems / sizeof *problems; s++) {
        trial t;
        trial_open(&t, problems[s]);
        double flops = (double)NAN;
        assert_ok(
            attn_problem_flops(&t.problem_case->problem, t.problem_case->q_lens, t.problem_case->kv_lens, &flops));
        if (flops != counted_flops(&t))
            fail_msg("%s: %.17g flops, %.17g counted", problems[s], flops, counted_flops(&t));
        trial_close(&t);
    }
}

/* Beyond what a 64-bit integer holds. */
static void test_many_flops(void **state) {
    (void)state;
    attn_problem p = ATTN_PROBLEM_INIT;
    p.batch = 1000;
    p.q_heads = p.kv_heads = 8;
    p.q_len = p.kv_len = 1000000000;
    p.head_dim = p.v_dim = 1;
    assert_ok(attn_problem_layout_bhld(&p));
    double flops = (double)NAN;
    assert_ok(attn_problem_flops(&p, NULL, NULL, &flops));
    assert_true(flops == 3.2e22);
    assert_refused(ATTN_ERR_NULL, "flops is NULL", attn_problem_flops(&p, NULL, NULL, NULL));
    assert_refused(ATTN_ERR_NULL, "problem is NULL", attn_problem_flops(NULL, NULL, NULL, &flops));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_initialisers), cmocka_unit_test(test_layouts),    cmocka_unit_test(test_layout_errors),
        cmocka_unit_test(test_flops),        cmocka_unit_test(test_many_flops),
    };
    return run_sdpa_tests(tests);
}
