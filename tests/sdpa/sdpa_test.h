/* What the tests of attention share: a problem with its data, calls by engine and thread count, results kept for a
 * comparison bit by bit. Each test is compiled once for float and once for double. */
#ifndef SDPA_TEST_H
#define SDPA_TEST_H

#include <math.h>
#include <stdio.h>

#include "chain/chain_test.h"

/* ---- Engines and instruction sets -------------------------------------------------------------------------------- */

static const attn_engine engines[] = {ATTN_ENGINE_NAIVE, ATTN_ENGINE_BLAS, ATTN_ENGINE_FUSED};
enum { ENGINES = sizeof engines / sizeof *engines };

static inline const char *engine_name(attn_engine engine) {
    static const char *const names[] = {"auto", "naive", "blas", "fused"};
    return names[engine];
}

#define for_each_engine(name)                                                                                          \
    for (int name##_index_ = 0; name##_index_ < ENGINES; name##_index_++)                                              \
        for (attn_engine name = engines[name##_index_], *name##_once_ = &name; name##_once_; name##_once_ = NULL)

/* Runs a group of tests; a program that was told to use an instruction set which is not here is shown as skipped (the
 * return code 77 says so to ctest). */
#define run_sdpa_tests(tests) (wanted_isa_is_here() ? cmocka_run_group_tests(tests, NULL, NULL) : SKIPPED_RETURN_CODE)

enum { SKIPPED_RETURN_CODE = 77 };

static inline bool wanted_isa_is_here(void) {
    const char *wanted = getenv("ATTN_MAX_ISA");
    const char *used = attn_isa_name(attn_isa_in_use());
    if (wanted == NULL || strcmp(wanted, used) == 0)
        return true;
    printf("skipped: ATTN_MAX_ISA is %s, but the best that this CPU and this build have is %s\n", wanted, used);
    return false;
}

/* ---- A problem with its data ------------------------------------------------------------------------------------- */

typedef REAL(attn_args) real_args;

typedef struct trial {
    support_case *problem_case;
    support_data data;
    char text[SUPPORT_TEXT_SIZE]; /* for messages */
} trial;

static inline void trial_open_case(trial *t, support_case *c) {
    t->problem_case = c;
    support_case_print(c, t->text, sizeof t->text);
    assert_true(support_data_create(&t->data, c, REAL_DTYPE));
}

static inline void trial_open(trial *t, const char *text) {
    char error[512];
    support_case *c = support_case_parse(text, error, sizeof error);
    if (c == NULL)
        fail_msg("%s: %s", text, error);
    trial_open_case(t, c);
}

static inline void trial_close(trial *t) {
    support_data_destroy(&t->data);
    support_case_free(t->problem_case);
}

static inline real_args *trial_args(trial *t) {
#if ATTN_REAL_BITS == 32
    return &t->data.args32;
#else
    return &t->data.args64;
#endif
}

static inline attn_problem trial_problem(const trial *t, attn_engine engine) {
    attn_problem problem = t->problem_case->problem;
    problem.engine = engine;
    return problem;
}

/* fused gives no intermediates. */
static inline bool engine_can(const trial *t, attn_engine engine) {
    const uint64_t wanted = ATTN_WANT_SCORES | ATTN_WANT_CAPPED | ATTN_WANT_MASKED | ATTN_WANT_WEIGHTS;
    return engine != ATTN_ENGINE_FUSED || (t->problem_case->problem.flags & wanted) == 0;
}

/* One call on poisoned outputs; it must succeed. */
static inline void trial_run_in(trial *t, attn_engine engine, const attn_context *context) {
    attn_problem problem = trial_problem(t, engine);
    support_data_poison_outputs(&t->data);
    attn_status status = REAL(attn_sdpa)(context, &problem, trial_args(t));
    if (status != ATTN_OK)
        fail_msg("%s: status %d: %s", t->text, (int)status, attn_last_error());
}

static inline void trial_run(trial *t, attn_engine engine, int threads) {
    attn_context context = threads_context(threads);
    trial_run_in(t, engine, &context);
}

/* ---- Results kept ------------------------------------------------------------------------------------------------ */

/* Copies of all outputs as they were written, elements between the rows included; NULL for those not wanted. */
typedef struct results {
    int64_t count[SUPPORT_ARRAY_COUNT];
    real *copy[SUPPORT_ARRAY_COUNT];
} results;

static const support_array outputs[] = {SUPPORT_OUT,    SUPPORT_LSE,    SUPPORT_SCORES,
                                        SUPPORT_CAPPED, SUPPORT_MASKED, SUPPORT_WEIGHTS};
enum { OUTPUTS = sizeof outputs / sizeof *outputs };

static inline results results_of(const trial *t) {
    results kept = {0};
    for (int n = 0; n < OUTPUTS; n++) {
        support_array array = outputs[n];
        if (t->data.base[array] == NULL)
            continue;
        kept.count[array] = t->data.elements[array];
        kept.copy[array] = poisoned(kept.count[array] + 1);
        if (kept.count[array] > 0)
            memcpy(kept.copy[array], t->data.base[array], (size_t)kept.count[array] * sizeof(real));
    }
    return kept;
}

static inline void results_free(results *kept) {
    for (int n = 0; n < OUTPUTS; n++)
        free(kept->copy[outputs[n]]);
}

static inline bool same_bits(const real *a, const real *b, int64_t count) {
    return count == 0 || memcmp(a, b, (size_t)count * sizeof *a) == 0;
}

/* The trial's outputs are bit by bit those that were kept; `what` says what differs between the two runs. */
static inline void assert_same_results(const trial *t, const results *kept, attn_engine engine, const char *what) {
    for (int n = 0; n < OUTPUTS; n++)
        if (!same_bits(t->data.base[outputs[n]], kept->copy[outputs[n]], kept->count[outputs[n]]))
            fail_msg("%s, %s: output %d has other bits: %s", t->text, engine_name(engine), n, what);
}

/* One element of the outputs and of inputs, by head and row. */
static inline real *element(trial *t, support_array array, int64_t b, int64_t h, int64_t row, int64_t col) {
    return (real *)t->data.base[array] + support_index(&t->data, array, b, h, row, col);
}

/* A problem of head size 1 once more with a head size whose further columns of Q and K are 0: the same numbers by other
 * paths, since fused leaves the smallest members to the plain loops. `text` keeps the string. */
enum { WIDE_HEAD = 257 };

static inline void trial_open_widened(trial *t, const char *problem, int64_t head_dim, char *text, size_t size) {
    const char *head = strstr(problem, "d1");
    assert_true(head != NULL && (head[2] == ',' || head[2] == '\0'));
    snprintf(text, size, "%.*sd%lldv1%s", (int)(head - problem), problem, (long long)head_dim, head + 2);
    trial_open(t, text);
    const attn_problem *p = &t->problem_case->problem;
    for (int64_t b = 0; b < p->batch; b++)
        for (int64_t c = 1; c < head_dim; c++) {
            for (int64_t h = 0; h < p->q_heads; h++)
                for (int64_t i = 0; i < support_case_q_len(t->problem_case, b); i++)
                    support_set(&t->data, SUPPORT_Q, b, h, i, c, 0);
            for (int64_t h = 0; h < p->kv_heads; h++)
                for (int64_t j = 0; j < support_case_kv_len(t->problem_case, b); j++)
                    support_set(&t->data, SUPPORT_K, b, h, j, c, 0);
        }
}

/* ---- Against the oracle ------------------------------------------------------------------------------------------ */

/* Up to this many pairs of query and key all rows are compared, of larger problems some; all with `thorough`. */
enum { PAIRS_OF_ALL_ROWS = 4000, SOME_ROWS = 16 };
static bool thorough;

static inline support_report trial_verify(const trial *t, attn_engine engine) {
    const attn_problem *p = &t->problem_case->problem;
    double pairs = (double)p->batch * (double)p->q_heads * (double)p->q_len * (double)p->kv_len;
    support_report report;
    bool right = thorough || pairs <= PAIRS_OF_ALL_ROWS
                     ? support_verify(&t->data, engine_name(engine), &report)
                     : support_verify_sampled(&t->data, engine_name(engine), SOME_ROWS, engine, &report);
    if (!right)
        fail_msg("%s", report.text);
    return report;
}

#endif
