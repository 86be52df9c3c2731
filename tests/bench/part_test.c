/* The bench's own parts: timing statistics, the team, formulas and human sizes. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "cpu_usage.h"
#include "flush.h"
#include "result.h"
#include "team.h"
#include "timing.h"

/* The ceilings are not measured here. */
double peaks_blas(const peak_rates *rates) {
    return rates->large;
}

double peaks_read(peaks *p, double bytes) {
    (void)p;
    return bytes;
}

/* The clocks of timing.c (linker option --wrap), which only the calls below move: no machine decides a test. */
static int64_t wall_ns, cpu_ns;

int __wrap_clock_gettime(clockid_t clock, struct timespec *t);

int __wrap_clock_gettime(clockid_t clock, struct timespec *t) {
    int64_t now = clock == CLOCK_PROCESS_CPUTIME_ID ? cpu_ns : wall_ns;
    *t = (struct timespec){.tv_sec = now / 1000000000, .tv_nsec = now % 1000000000};
    return 0;
}

static bool equal(double a, double b) {
    return fabs(a - b) <= 1e-6 * b;
}

/* Takes 2 ms, half of them on a processor. */
static bool sleep_a_little(void *argument) {
    (*(int *)argument)++;
    wall_ns += 2000000;
    cpu_ns += 1000000;
    return true;
}

static void timing_reaches_samples_and_floor(void **state) {
    (void)state;
    int calls = 0;
    timing_stats stats;
    timing_goal goal = {.floor_seconds = 0, .min_samples = 4, .max_samples = 100, .warm_up = true};
    assert_true(timing_measure(sleep_a_little, &calls, &goal, &stats));
    assert_int_equal(calls, 5);
    assert_int_equal(stats.samples, 4);
    assert_true(equal(stats.best, 0.002) && equal(stats.median, 0.002) && equal(stats.cpu, 0.001));
    assert_true(fabs(stats.spread) < 1e-6);

    goal = (timing_goal){.floor_seconds = 0.051, .min_samples = 1, .max_samples = 1000};
    calls = 0;
    assert_true(timing_measure(sleep_a_little, &calls, &goal, &stats));
    assert_int_equal(calls, 26);
    assert_int_equal(stats.samples, 26);
}

/* Takes 3 us. */
static bool do_little(void *argument) {
    (*(int *)argument)++;
    wall_ns += 3000;
    cpu_ns += 3000;
    return true;
}

static void short_calls_are_grouped(void **state) {
    (void)state;
    int calls = 0;
    timing_stats stats;
    timing_goal goal = {.min_samples = 3, .max_samples = 3, .warm_up = true};
    assert_true(timing_measure(do_little, &calls, &goal, &stats));
    assert_int_equal(stats.samples, 3);
    assert_int_equal(calls, 1 + 1 + 3 * 34); /* warm-up, a first one, groups of 0.1 ms */
    assert_true(equal(stats.best, 3e-6) && equal(stats.cpu, 3e-6));
}

static bool already(void) {
    return true;
}

static void an_interrupt_leaves_one_sample(void **state) {
    (void)state;
    int calls = 0;
    timing_goal goal = {.floor_seconds = 100, .min_samples = 50, .max_samples = 50, .enough = already};
    timing_stats stats;
    assert_true(timing_measure(sleep_a_little, &calls, &goal, &stats));
    assert_int_equal(calls, 1);
    assert_int_equal(stats.samples, 1);
    assert_true(timing_measure(do_little, &calls, &goal, &stats));
    assert_int_equal(stats.samples, 1); /* one group */
}

/* Counts calls in tens, what runs before them in ones. */
static void count_before(void *argument) {
    (*(int *)argument)++;
}

static bool count_call(void *argument) {
    *(int *)argument += 10;
    return true;
}

static void something_runs_before_every_sample(void **state) {
    (void)state;
    int count = 0;
    timing_stats stats;
    timing_goal goal = {.min_samples = 4, .max_samples = 4, .before = count_before};
    assert_true(timing_measure(count_call, &count, &goal, &stats));
    assert_int_equal(stats.samples, 4);
    assert_int_equal(count, 44);
}

static void flushed_memory_keeps_its_contents(void **state) {
    (void)state;
    unsigned char bytes[1000];
    for (int i = 0; i < 1000; i++)
        bytes[i] = (unsigned char)(7 * i);
    flush_memory(bytes + 1, 998);
    flush_memory(NULL, 0);
    for (int i = 0; i < 1000; i++)
        assert_int_equal(bytes[i], (unsigned char)(7 * i));
}

static void others_are_what_is_left(void **state) {
    (void)state;
    cpu_usage from = {.known = true, .wall = 1, .busy = 10, .stolen = 3, .own = 2}, to = from;
    double programs, host;
    assert_false(cpu_usage_of_others(&from, &to, &programs, &host));
    to = (cpu_usage){.known = true, .wall = 5, .busy = 16, .stolen = 4, .own = 6};
    assert_true(cpu_usage_of_others(&from, &to, &programs, &host));
    assert_true(fabs(programs - 0.5) < 1e-12 && fabs(host - 0.25) < 1e-12);
    to.own = 9; /* clocks of different grain */
    assert_true(cpu_usage_of_others(&from, &to, &programs, &host) && programs == 0);
    to.known = false;
    assert_false(cpu_usage_of_others(&from, &to, &programs, &host));
}

static bool give_up(void *argument) {
    return --*(int *)argument > 0;
}

static void a_call_that_gives_up_ends_the_timing(void **state) {
    (void)state;
    int calls = 2;
    timing_stats stats;
    timing_goal goal = {.min_samples = 5, .max_samples = 5};
    assert_false(timing_measure(give_up, &calls, &goal, &stats));
}

static void mark(void *argument, int worker, int workers) {
    assert_int_equal(workers, 5);
    ((int *)argument)[worker]++;
}

static void every_worker_runs_once(void **state) {
    (void)state;
    int done[5] = {0};
    team_run(5, mark, done);
    for (int w = 0; w < 5; w++)
        assert_int_equal(done[w], 1);
}

static void formulas(void **state) {
    (void)state;
    result_list list = {0};
    bench_result *naive = result_add(&list);
    naive->engine = "naive";
    naive->flops = 2e9;
    naive->ms_median = 1000;
    bench_result *fused = result_add(&list);
    fused->engine = "fused";
    fused->flops = 2e9;
    fused->ms_median = 40;
    fused->ms_min = 20;
    fused->kv_bytes = 4e6;
    fused->fma_peak = 100;
    assert_true(fabs(result_gflops(fused) - 50) < 1e-9);
    assert_true(fabs(result_gflops_best(fused) - 100) < 1e-9);
    assert_true(fabs(result_gbytes_per_s(fused) - 0.1) < 1e-9);
    assert_true(fabs(result_share_of_peak(fused) - 0.5) < 1e-9);
    assert_true(fabs(result_speed_up(&list, fused) - 25) < 1e-9);
    fused->ms_cpu = 60;
    assert_true(fabs(result_threads_busy(fused) - 1.5) < 1e-9);

    /* What was not timed has no figures and is no baseline; other problems, precisions and threads neither. */
    list.item[0].state = RESULT_FAILED;
    assert_true(result_gflops(&list.item[0]) == 0);
    assert_true(result_speed_up(&list, &list.item[1]) == 0);
    list.item[0].state = RESULT_TIMED;
    list.item[0].threads = 2;
    assert_true(result_speed_up(&list, &list.item[1]) == 0);
    result_list_free(&list);
}

static void doubtful_figures(void **state) {
    (void)state;
    bench_result r = {.samples = 3, .spread = 0.05};
    assert_true(result_is_repeated(&r) && !result_is_doubtful(&r));
    r.spread = 0.11;
    assert_true(result_is_repeated(&r) && result_is_doubtful(&r));
    r = (bench_result){.samples = 2, .spread = 0.01};
    assert_true(!result_is_repeated(&r) && result_is_doubtful(&r));
    assert_true(fabs(result_spread(&r) - 0.01) < 1e-12);
    r.samples = 1;
    assert_true(isnan(result_spread(&r)));
    r = (bench_result){.state = RESULT_REFUSED, .samples = 5};
    assert_false(result_is_repeated(&r));
}

static void human_sizes(void **state) {
    (void)state;
    char text[16];
    assert_string_equal(human_bytes(0, text), "0 B");
    assert_string_equal(human_bytes(1023, text), "1023 B");
    assert_string_equal(human_bytes(1024, text), "1.0 KiB");
    assert_string_equal(human_bytes(640 * 1024, text), "640 KiB");
    assert_string_equal(human_bytes(1.5 * 1024 * 1024 * 1024, text), "1.5 GiB");
    assert_string_equal(human_bytes(1e18, text), "909495 TiB");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(timing_reaches_samples_and_floor),
        cmocka_unit_test(short_calls_are_grouped),
        cmocka_unit_test(an_interrupt_leaves_one_sample),
        cmocka_unit_test(something_runs_before_every_sample),
        cmocka_unit_test(flushed_memory_keeps_its_contents),
        cmocka_unit_test(others_are_what_is_left),
        cmocka_unit_test(a_call_that_gives_up_ends_the_timing),
        cmocka_unit_test(every_worker_runs_once),
        cmocka_unit_test(formulas),
        cmocka_unit_test(doubtful_figures),
        cmocka_unit_test(human_sizes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
