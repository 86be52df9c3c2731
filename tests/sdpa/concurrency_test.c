/* Many callers at once: one plan shared by all of them, each with its own workspace, and one-shot calls in between. */
#include "sdpa_test.h"

#include <pthread.h>

enum { CALLERS = 8, ROUNDS = 6 };

typedef struct caller {
    pthread_t thread;
    const attn_plan *plan;
    const attn_problem *problem;
    const results *wanted;
    real_args args; /* outputs of its own */
    void *workspace;
    size_t bytes;
    int threads;
    const char *complaint; /* NULL = all was well */
} caller;

static const char *examine(const caller *me, attn_status status) {
    if (status != ATTN_OK)
        return attn_last_error();
    if (!same_bits(me->args.out, me->wanted->copy[SUPPORT_OUT], me->wanted->count[SUPPORT_OUT]))
        return "other bits in out";
    return same_bits(me->args.lse, me->wanted->copy[SUPPORT_LSE], me->wanted->count[SUPPORT_LSE]) ? NULL
                                                                                                  : "other bits in lse";
}

static void *call_in_turns(void *data) {
    caller *me = data;
    attn_context context = threads_context(me->threads);
    for (int round = 0; round < ROUNDS && me->complaint == NULL; round += (int)stride_of_problems()) {
        memset(me->args.out, 0xff, (size_t)me->wanted->count[SUPPORT_OUT] * sizeof(real));
        memset(me->args.lse, 0xff, (size_t)me->wanted->count[SUPPORT_LSE] * sizeof(real));
        attn_status status = round % 3 == 0   ? REAL(attn_sdpa)(&context, me->problem, &me->args)
                             : round % 3 == 1 ? REAL(attn_plan_run)(me->plan, &me->args, me->workspace, me->bytes)
                                              : REAL(attn_plan_run)(me->plan, &me->args, NULL, 0);
        me->complaint = examine(me, status);
    }
    return NULL;
}

static void run_callers(trial *t, attn_engine engine) {
    trial_run(t, engine, 1);
    results wanted = results_of(t);
    attn_problem problem = trial_problem(t, engine);
    attn_context context = threads_context(2);
    attn_plan *plan;
    size_t bytes;
    assert_ok(attn_plan_create(&context, &problem, REAL_DTYPE, &plan));
    assert_ok(attn_plan_workspace(plan, &bytes));
    caller callers[CALLERS];
    for (int n = 0; n < CALLERS; n++) {
        callers[n] = (caller){.plan = plan, .problem = &problem, .wanted = &wanted, .args = *trial_args(t)};
        callers[n].args.out = poisoned(wanted.count[SUPPORT_OUT]);
        callers[n].args.lse = poisoned(wanted.count[SUPPORT_LSE]);
        callers[n].bytes = bytes;
        callers[n].threads = 1 + n % 3;
        callers[n].workspace = aligned_alloc(ATTN_WORKSPACE_ALIGN, bytes);
        assert_non_null(callers[n].workspace);
    }
    for (int n = 0; n < CALLERS; n++)
        assert_int_equal(pthread_create(&callers[n].thread, NULL, call_in_turns, &callers[n]), 0);
    for (int n = 0; n < CALLERS; n++)
        assert_int_equal(pthread_join(callers[n].thread, NULL), 0);
    for (int n = 0; n < CALLERS; n++) {
        if (callers[n].complaint != NULL)
            fail_msg("%s, %s: caller %d: %s", t->text, engine_name(engine), n, callers[n].complaint);
        free(callers[n].workspace);
        free(callers[n].args.out);
        free(callers[n].args.lse);
    }
    attn_plan_destroy(plan);
    results_free(&wanted);
}

static void test_many_callers(void **state) {
    (void)state;
    static const char *const problems[] = {"b2h36/1q5k1100d3,kvlens=1100:700,causal,br,lse",
                                           "b3h6/2q5k300d17v13,causal,br,lse", "h2/1q270k530d9v5,causal,lse"};
    for (int s = 0; s < 3; s++) {
        trial t;
        trial_open(&t, problems[s]);
        for_each_engine(engine) run_callers(&t, engine);
        trial_close(&t);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_many_callers)};
    return run_sdpa_tests(tests);
}
