/* What must hold between results, whatever the numbers are. */
#include "sdpa_test.h"

/* The largest |V| of a trial: the unit of its error bound is eps times this. */
static long double largest_value(const trial *t) {
    const attn_problem *p = &t->problem_case->problem;
    long double largest = 0;
    for (int64_t b = 0; b < p->batch; b++)
        for (int64_t h = 0; h < p->kv_heads; h++)
            for (int64_t j = 0; j < support_case_kv_len(t->problem_case, b); j++)
                for (int64_t c = 0; c < p->v_dim; c++)
                    largest = fmaxl(largest, absolute(support_get(&t->data, SUPPORT_V, b, h, j, c)));
    return largest;
}

/* Two results for standard normal inputs, each at most 3 eps max|V| off. */
static long double twice_the_bound(const trial *t) {
    return 6 * EPS * largest_value(t);
}

static void assert_close_results(const trial *t, const results *kept, long double tolerance) {
    for (int64_t n = 0; n < kept->count[SUPPORT_OUT]; n++)
        assert_near(((const real *)t->data.base[SUPPORT_OUT])[n], kept->copy[SUPPORT_OUT][n], tolerance);
}

/* Copies every element of an input from another trial, whose heads and members may be shared or fewer. */
static void copy_input(trial *to, trial *from, support_array array, int64_t head_divisor) {
    const attn_problem *p = &to->problem_case->problem;
    bool query = array == SUPPORT_Q;
    int64_t cols = array == SUPPORT_V ? p->v_dim : p->head_dim;
    for (int64_t b = 0; b < p->batch; b++)
        for (int64_t h = 0; h < (query ? p->q_heads : p->kv_heads); h++)
            for (int64_t row = 0; row < (query ? p->q_len : p->kv_len); row++)
                for (int64_t c = 0; c < cols; c++)
                    *element(to, array, b, h, row, c) = *element(from, array, b, h / head_divisor, row, c);
}

/* Sizes for every path: few queries, some tiles, many tiles and blocks. */
static const char *const sizes[] = {"h4/2q3k57d13v11,lse", "h4/2q23k57d13v11,lse", "h2/1q300k1100d5,lse"};
enum { SIZES = sizeof sizes / sizeof *sizes };

/* The order of the keys does not matter: row j moves to 7 j mod kv_len. */
static void test_permuted_keys(void **state) {
    (void)state;
    for (int s = 0; s < SIZES; s++) {
        trial t, permuted;
        trial_open(&t, sizes[s]);
        trial_open(&permuted, sizes[s]);
        const attn_problem *p = &t.problem_case->problem;
        for (int64_t h = 0; h < p->kv_heads; h++)
            for (int64_t j = 0; j < p->kv_len; j++) {
                int64_t to = 7 * j % p->kv_len;
                for (int64_t c = 0; c < p->head_dim; c++)
                    *element(&permuted, SUPPORT_K, 0, h, to, c) = *element(&t, SUPPORT_K, 0, h, j, c);
                for (int64_t c = 0; c < p->v_dim; c++)
                    *element(&permuted, SUPPORT_V, 0, h, to, c) = *element(&t, SUPPORT_V, 0, h, j, c);
            }
        for_each_engine(engine) {
            trial_run(&t, engine, 1);
            trial_run(&permuted, engine, 1);
            results kept = results_of(&t);
            assert_close_results(&permuted, &kept, twice_the_bound(&t));
            results_free(&kept);
        }
        trial_close(&permuted);
        trial_close(&t);
    }
}

/* A constant added to all scores changes lse by as much and nothing else: the last element of each query is 1, that of
 * each key 0 or the constant. */
static void test_constant_in_all_scores(void **state) {
    (void)state;
    enum { CONSTANT = 40, LAST = 11, LARGEST_SCORE = CONSTANT + 24 };
    static const char *const problems[] = {"h2q3k57d12,scale=1,lse", "h2q40k600d12,scale=1,causal,br,lse"};
    const long double tolerance = 2 * (3 + 1.5L * LARGEST_SCORE) * EPS;
    for (int s = 0; s < 2; s++) {
        trial t;
        trial_open(&t, problems[s]);
        const attn_problem *p = &t.problem_case->problem;
        for_each_engine(engine) {
            results without = {0};
            for (int with = 0; with < 2; with++) {
                for (int64_t h = 0; h < p->q_heads; h++) {
                    for (int64_t i = 0; i < p->q_len; i++)
                        *element(&t, SUPPORT_Q, 0, h, i, LAST) = 1;
                    for (int64_t j = 0; j < p->kv_len; j++)
                        *element(&t, SUPPORT_K, 0, h, j, LAST) = with ? CONSTANT : 0;
                }
                trial_run(&t, engine, 1);
                if (!with)
                    without = results_of(&t);
            }
            assert_close_results(&t, &without, tolerance * largest_value(&t));
            for (int64_t n = 0; n < without.count[SUPPORT_LSE]; n++)
                assert_near(((real *)t.data.base[SUPPORT_LSE])[n], without.copy[SUPPORT_LSE][n] + (long double)CONSTANT,
                            tolerance * LARGEST_SCORE);
            results_free(&without);
        }
        trial_close(&t);
    }
}

/* The weights of a row sum to 1. */
static void test_values_of_one(void **state) {
    (void)state;
    for (int s = 0; s < SIZES; s++) {
        trial t;
        trial_open(&t, sizes[s]);
        const attn_problem *p = &t.problem_case->problem;
        for (int64_t h = 0; h < p->kv_heads; h++)
            for (int64_t j = 0; j < p->kv_len; j++)
                for (int64_t c = 0; c < p->v_dim; c++)
                    *element(&t, SUPPORT_V, 0, h, j, c) = 1;
        for_each_engine(engine) {
            trial_run(&t, engine, 1);
            for (int64_t n = 0; n < t.data.elements[SUPPORT_OUT]; n++)
                assert_near(((real *)t.data.base[SUPPORT_OUT])[n], 1, 8 * EPS);
        }
        trial_close(&t);
    }
}

/* Keys are unit vectors and a query is 1500 times one of them: its row is that row of V, exactly. */
static void test_one_hot_scores(void **state) {
    (void)state;
    static const char *const problems[] = {"h2/1q5k61d61v7,scale=1,lse", "h2/1q53k61d61v7,scale=1,lse",
                                           "q40k600d600v3,scale=1,lse"};
    for (int s = 0; s < 3; s++) {
        trial t;
        trial_open(&t, problems[s]);
        const attn_problem *p = &t.problem_case->problem;
        for (int64_t j = 0; j < p->kv_len; j++)
            for (int64_t c = 0; c < p->head_dim; c++)
                *element(&t, SUPPORT_K, 0, 0, j, c) = j == c;
        for (int64_t h = 0; h < p->q_heads; h++)
            for (int64_t i = 0; i < p->q_len; i++)
                for (int64_t c = 0; c < p->head_dim; c++)
                    *element(&t, SUPPORT_Q, 0, h, i, c) = c == 7 * i % p->kv_len ? 1500 : 0;
        for_each_engine(engine) {
            trial_run(&t, engine, 1);
            for (int64_t h = 0; h < p->q_heads; h++)
                for (int64_t i = 0; i < p->q_len; i++) {
                    assert_true(*element(&t, SUPPORT_LSE, 0, h, i, 0) == 1500);
                    for (int64_t c = 0; c < p->v_dim; c++)
                        assert_true(*element(&t, SUPPORT_OUT, 0, h, i, c) ==
                                    *element(&t, SUPPORT_V, 0, 0, 7 * i % p->kv_len, c));
                }
        }
        trial_close(&t);
    }
}

/* Keys after a causal row may change without a bit of the row changing. */
static void test_causal_rows_ignore_later_keys(void **state) {
    (void)state;
    static const struct {
        const char *problem;
        int64_t row; /* the last row whose keys stay as they are */
    } cuts[] = {{"h2q5k41d7,causal,lse", 2}, {"h2q41k41d7,causal,lse", 11}, {"q300k600d5,causal,lse", 200}};
    for (int s = 0; s < 3; s++) {
        trial t;
        trial_open(&t, cuts[s].problem);
        const attn_problem *p = &t.problem_case->problem;
        for_each_engine(engine) {
            trial_run(&t, engine, 1);
            results kept = results_of(&t);
            for (int64_t h = 0; h < p->kv_heads; h++)
                for (int64_t j = cuts[s].row + 1; j < p->kv_len; j++) {
                    *element(&t, SUPPORT_K, 0, h, j, 1) += 1;
                    *element(&t, SUPPORT_V, 0, h, j, 2) += 1;
                }
            trial_run(&t, engine, 1);
            for (int64_t h = 0; h < p->q_heads; h++) {
                int64_t first = support_index(&t.data, SUPPORT_OUT, 0, h, 0, 0);
                int64_t first_lse = support_index(&t.data, SUPPORT_LSE, 0, h, 0, 0);
                assert_same_bits(element(&t, SUPPORT_OUT, 0, h, 0, 0), kept.copy[SUPPORT_OUT] + first,
                                 (cuts[s].row + 1) * p->v_dim);
                assert_same_bits(element(&t, SUPPORT_LSE, 0, h, 0, 0), kept.copy[SUPPORT_LSE] + first_lse,
                                 cuts[s].row + 1);
                assert_false(same_bits(element(&t, SUPPORT_OUT, 0, h, cuts[s].row + 1, 0),
                                       kept.copy[SUPPORT_OUT] + first + (cuts[s].row + 1) * p->v_dim, p->v_dim));
            }
            results_free(&kept);
        }
        trial_close(&t);
    }
}

/* One call per member and key head writes the bits of the whole call. */
static void test_split_heads_and_members(void **state) {
    (void)state;
    static const char *const problems[] = {"b2h6/3q5k57d13v11,causal,br,lse", "b2h6/3q23k57d13v11,layout=blhd,lse",
                                           "b2h4/2q270k530d5,causal,br,lse"};
    for (int s = 0; s < 3; s++) {
        trial t;
        trial_open(&t, problems[s]);
        for_each_engine(engine) {
            trial_run(&t, engine, 1);
            results kept = results_of(&t);
            support_data_poison_outputs(&t.data);
            attn_problem part = trial_problem(&t, engine);
            int64_t group = part.q_heads / part.kv_heads, heads = part.kv_heads, batch = part.batch;
            part.batch = part.kv_heads = 1;
            part.q_heads = group;
            for (int64_t b = 0; b < batch; b++)
                for (int64_t h = 0; h < heads; h++) {
                    real_args args = ATTN_STRUCT_INIT(real_args);
                    args.q = element(&t, SUPPORT_Q, b, h * group, 0, 0);
                    args.k = element(&t, SUPPORT_K, b, h, 0, 0);
                    args.v = element(&t, SUPPORT_V, b, h, 0, 0);
                    args.out = element(&t, SUPPORT_OUT, b, h * group, 0, 0);
                    args.lse = element(&t, SUPPORT_LSE, b, h * group, 0, 0);
                    assert_ok(REAL(attn_sdpa)(NULL, &part, &args));
                }
            assert_same_results(&t, &kept, engine, "one call per member and key head");
            results_free(&kept);
        }
        trial_close(&t);
    }
}

/* An input shared by stride 0 and its copies give the same bits. */
static void test_broadcast_inputs(void **state) {
    (void)state;
    static const struct {
        const char *shared, *copied;
    } pairs[] = {
        {"b3h4/2q5k37d11v7,k@b,v@h,lse", "b3h4/2q5k37d11v7,lse"},
        {"b3h4/2q19k37d11v7,q@b,k@bh,v@bh,causal,br,lse", "b3h4/2q19k37d11v7,causal,br,lse"},
        {"b2h2q270k530d5,q@h,k@h,v@b,lse", "b2h2q270k530d5,lse"},
    };
    for (int s = 0; s < 3; s++) {
        trial shared, copied;
        trial_open(&shared, pairs[s].shared);
        trial_open(&copied, pairs[s].copied);
        for (int array = SUPPORT_Q; array <= SUPPORT_V; array++)
            copy_input(&copied, &shared, (support_array)array, 1);
        for_each_engine(engine) {
            trial_run(&shared, engine, 1);
            results kept = results_of(&shared);
            trial_run(&copied, engine, 1);
            assert_same_results(&copied, &kept, engine, "inputs shared by stride 0");
            results_free(&kept);
        }
        trial_close(&copied);
        trial_close(&shared);
    }
}

/* Grouped heads are what repeated key heads are. */
static void test_grouped_heads(void **state) {
    (void)state;
    static const struct {
        const char *grouped, *repeated;
    } pairs[] = {
        {"b2h6/2q3k37d11v7", "b2h6q3k37d11v7"},
        {"b2h6/2q19k37d11v7,causal", "b2h6q19k37d11v7,causal"},
        {"h3/1q270k530d5", "h3q270k530d5"},
    };
    for (int s = 0; s < 3; s++) {
        trial grouped, repeated;
        trial_open(&grouped, pairs[s].grouped);
        trial_open(&repeated, pairs[s].repeated);
        copy_input(&repeated, &grouped, SUPPORT_Q, 1);
        copy_input(&repeated, &grouped, SUPPORT_K, 3);
        copy_input(&repeated, &grouped, SUPPORT_V, 3);
        for_each_engine(engine) {
            trial_run(&grouped, engine, 1);
            results kept = results_of(&grouped);
            trial_run(&repeated, engine, 1);
            assert_close_results(&repeated, &kept, twice_the_bound(&grouped));
            results_free(&kept);
        }
        trial_close(&repeated);
        trial_close(&grouped);
    }
}

/* A window that reaches all the keys that causal shows is bit by bit no window. */
static void test_wide_window(void **state) {
    (void)state;
    static const struct {
        const char *windowed, *plain;
    } pairs[] = {
        {"h2q41k53d7,causal,window=40:-1,lse", "h2q41k53d7,causal,lse"},
        {"h2q5k300d7,causal,br,window=299:0,lse", "h2q5k300d7,causal,br,lse"},
        {"q270k600d5,causal,off=300,window=569:5,lse", "q270k600d5,causal,off=300,lse"},
    };
    for (int s = 0; s < 3; s++) {
        trial windowed, plain;
        trial_open(&windowed, pairs[s].windowed);
        trial_open(&plain, pairs[s].plain);
        for_each_engine(engine) {
            trial_run(&plain, engine, 1);
            results kept = results_of(&plain);
            trial_run(&windowed, engine, 1);
            assert_same_results(&windowed, &kept, engine, "a window that hides nothing");
            results_free(&kept);
        }
        trial_close(&plain);
        trial_close(&windowed);
    }
}

/* A shorter length is a shorter call. */
static void test_truncated_keys(void **state) {
    (void)state;
    trial t;
    trial_open(&t, "h4/2q19k600d11v7,kvlens=523,causal,br,lse");
    for_each_engine(engine) {
        trial_run(&t, engine, 1);
        results kept = results_of(&t);
        attn_problem shorter = trial_problem(&t, engine);
        shorter.kv_len = 523;
        real_args args = *trial_args(&t);
        args.kv_lens = NULL;
        support_data_poison_outputs(&t.data);
        assert_ok(REAL(attn_sdpa)(NULL, &shorter, &args));
        assert_close_results(&t, &kept, twice_the_bound(&t));
        results_free(&kept);
    }
    trial_close(&t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_permuted_keys),
        cmocka_unit_test(test_constant_in_all_scores),
        cmocka_unit_test(test_values_of_one),
        cmocka_unit_test(test_one_hot_scores),
        cmocka_unit_test(test_causal_rows_ignore_later_keys),
        cmocka_unit_test(test_split_heads_and_members),
        cmocka_unit_test(test_broadcast_inputs),
        cmocka_unit_test(test_grouped_heads),
        cmocka_unit_test(test_wide_window),
        cmocka_unit_test(test_truncated_keys),
    };
    return run_sdpa_tests(tests);
}
