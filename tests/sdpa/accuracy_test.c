/* How accurate: standard normal inputs up to length 4096, error in units of eps max|V|. At most 3 anywhere, and the
 * worst over the set at most 1.25 times the worst of plain loops in the same precision. Prints the worst by engine. */
#include "sdpa_test.h"

#define LARGEST_ERROR 3.0
#define LARGEST_RATIO 1.25
enum { ROWS = 40 }; /* of each problem, the same for all */

static const char *const problems[] = {
    "h2q67k64d64",
    "h2q67k257d64",
    "h2q67k521d64,seed=2",
    "q127k1031d64,seed=3",
    "q67k2053d64,seed=4",
    "q67k4096d64,seed=5",
    "q67k4096d128,seed=6",
    "q67k4093d16,seed=7",
    "q67k4096d3,seed=8",
    "h8/2q1k4096d64,seed=9",
    "h8/2q7k4096d128,seed=10",
    "h8/2q5k1031d80,seed=11",
    "q300k4096d64v8,causal,br,seed=12",
    "q1031k1031d32v8,causal,seed=13",
    "q1031k1031d64v8,layout=blhd,seed=14",
    "b3h4q31k31d64,seed=15",
};

/* Softmax(Q K^T scale) V by three loops for each row, as a textbook has it. */
static void plain_row(const real *q, const real *k, const real *v, int64_t keys, const attn_problem *p, real *s,
                      real *out) {
    const real scale = (real)(1 / sqrt((double)p->head_dim));
    real max = -(real)INFINITY, sum = 0;
    for (int64_t j = 0; j < keys; j++) {
        real dot = 0;
        for (int64_t c = 0; c < p->head_dim; c++)
            dot += q[c] * k[j * p->k.row + c];
        s[j] = dot * scale;
        max = s[j] > max ? s[j] : max;
    }
    for (int64_t j = 0; j < keys; j++) {
        s[j] = sizeof(real) == 4 ? (real)expf((float)(s[j] - max)) : (real)exp((double)(s[j] - max));
        sum += s[j];
    }
    for (int64_t c = 0; c < p->v_dim; c++) {
        real total = 0;
        for (int64_t j = 0; j < keys; j++)
            total += s[j] * v[j * p->v.row + c];
        out[c] = total / sum;
    }
}

static void run_plain_loops(trial *t) {
    const attn_problem *p = &t->problem_case->problem;
    real *s = poisoned(p->kv_len);
    support_data_poison_outputs(&t->data);
    for (int64_t b = 0; b < p->batch; b++)
        for (int64_t h = 0; h < p->q_heads; h++)
            for (int64_t i = 0; i < p->q_len; i++) {
                int64_t keys = 0;
                while (keys < p->kv_len && support_oracle_sees(&t->data, b, h, i, keys))
                    keys++;
                int64_t kv_head = h / (p->q_heads / p->kv_heads);
                plain_row(element(t, SUPPORT_Q, b, h, i, 0), element(t, SUPPORT_K, b, kv_head, 0, 0),
                          element(t, SUPPORT_V, b, kv_head, 0, 0), keys, p, s, element(t, SUPPORT_OUT, b, h, i, 0));
            }
    free(s);
}

/* Worst errors: plain loops first, then the engines. */
static void test_worst_errors(void **state) {
    (void)state;
    double worst[1 + ENGINES] = {0};
    const char *where[1 + ENGINES] = {""};
    for (size_t n = 0; n < sizeof problems / sizeof *problems; n++) {
        trial t;
        trial_open(&t, problems[n]);
        for (int e = 0; e <= ENGINES; e++) {
            if (e == 0)
                run_plain_loops(&t);
            else
                trial_run(&t, engines[e - 1], 2);
            support_report report;
            support_verify_sampled(&t.data, e == 0 ? "plain loops" : engine_name(engines[e - 1]), ROWS, 1, &report);
            if (e > 0 && report.verdict != SUPPORT_PASSED)
                fail_msg("%s", report.text);
            if (report.error_eps > worst[e]) {
                worst[e] = report.error_eps;
                where[e] = problems[n];
            }
        }
        trial_close(&t);
    }
    for (int e = 0; e <= ENGINES; e++)
        print_message("%s: worst error %.3f eps max|V|, %.2f times that of the plain loops, in %s\n",
                      e == 0 ? "plain loops" : engine_name(engines[e - 1]), worst[e], worst[e] / worst[0], where[e]);
    for (int e = 1; e <= ENGINES; e++) {
        assert_true(worst[e] <= LARGEST_ERROR);
        assert_true(worst[e] <= LARGEST_RATIO * worst[0]);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_worst_errors)};
    return run_sdpa_tests(tests);
}
