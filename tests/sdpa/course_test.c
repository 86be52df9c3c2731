/* Scores that take a certain course over the keys: rising from tile to tile, jumping, falling, different from row to
 * row. Engine fused, which goes over the keys in tiles, must be right wherever the maximum comes from, with values of
 * any size, and give the same bits for any thread count. */
#include "sdpa_test.h"

enum { CLASSES = 8 }; /* row i takes the score of column i % CLASSES of K */

typedef struct course {
    const char *name;
    double (*score)(int64_t j, int row_class);
} course;

static double rising(int64_t j, int row_class) {
    return 0.15 * (double)j + row_class;
}

static double falling(int64_t j, int row_class) {
    return 100 - 0.15 * (double)j - row_class;
}

static double jumping(int64_t j, int row_class) {
    return j == 300 + 111 * row_class ? 45 : row_class;
}

/* Jumps that are too small for another maximum, one after the other, up to 28. */
static double creeping(int64_t j, int row_class) {
    return row_class + 7 * (double)(j / 256);
}

static double up_and_down(int64_t j, int row_class) {
    return (j / 200 + row_class) % 2 == 0 ? -40 : 40;
}

static double scattered(int64_t j, int row_class) {
    return 40 * support_random_normal(7, (uint64_t)row_class, (uint64_t)j);
}

/* The first scores are as good as hidden. */
static double late(int64_t j, int row_class) {
    return j < 700 + 50 * row_class ? -1e30 : row_class;
}

static const course courses[] = {
    {"rising", rising},           {"falling", falling},     {"jumping", jumping}, {"creeping", creeping},
    {"up_and_down", up_and_down}, {"scattered", scattered}, {"late", late},
};

static const char *const problems[] = {
    "q40k1300d8v5,scale=1,lse",        "h2/1q65k1300d8v40,scale=1,lse",      "q40k1300d64,scale=1,causal,lse",
    "q100k1300d8v5,scale=1,causal,br", "q20k1300d8v5,scale=1,window=-1:700", "q5k1300d8v5,scale=1,lse",
    "q50k1300d8v5,scale=1,bias,lse",
};

static void set_scores(trial *t, const course *c, double value_factor) {
    const attn_problem *p = &t->problem_case->problem;
    for (int64_t h = 0; h < p->q_heads; h++)
        for (int64_t i = 0; i < p->q_len; i++)
            for (int64_t n = 0; n < p->head_dim; n++)
                support_set(&t->data, SUPPORT_Q, 0, h, i, n, n == i % CLASSES);
    for (int64_t h = 0; h < p->kv_heads; h++)
        for (int64_t j = 0; j < p->kv_len; j++) {
            for (int64_t n = 0; n < p->head_dim; n++)
                support_set(&t->data, SUPPORT_K, 0, h, j, n, n < CLASSES ? c->score(j, (int)n) : 0);
            for (int64_t n = 0; n < p->v_dim; n++)
                *element(t, SUPPORT_V, 0, h, j, n) *= (real)value_factor;
        }
}

static void test_courses(void **state) {
    (void)state;
    /* the second: a product with the weights of all keys, which are below 65536 a tile, stays finite */
    const double factors[] = {1, REAL_MAX / 1e10};
    for (size_t n = first_problem(); n < sizeof problems / sizeof *problems; n += stride_of_problems())
        for (size_t c = 0; c < sizeof courses / sizeof *courses; c++)
            for (size_t f = 0; f < sizeof factors / sizeof *factors; f++) {
                trial t;
                trial_open(&t, problems[n]);
                set_scores(&t, &courses[c], factors[f]);
                trial_run(&t, ATTN_ENGINE_FUSED, 1);
                trial_verify(&t, ATTN_ENGINE_FUSED);
                results kept = results_of(&t);
                trial_run(&t, ATTN_ENGINE_FUSED, 3);
                assert_same_results(&t, &kept, ATTN_ENGINE_FUSED, courses[c].name);
                results_free(&kept);
                trial_close(&t);
            }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_courses)};
    return run_sdpa_tests(tests);
}
