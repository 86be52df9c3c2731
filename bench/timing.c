/* Time: a monotonic clock, CPU time, and repeated calls up to a time floor. */
#include "timing.h"

#include <stdlib.h>
#include <time.h>

/* A group of calls lasts at least this long, so that reading the clock does not count. */
static const double group_seconds = 1e-4;

static double read_clock(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

double timing_now(void) {
    return read_clock(CLOCK_MONOTONIC);
}

double timing_cpu_now(void) {
    return read_clock(CLOCK_PROCESS_CPUTIME_ID);
}

static int compare_doubles(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void summarise(double *sample, int n, timing_stats *stats) {
    qsort(sample, (size_t)n, sizeof *sample, compare_doubles);
    stats->samples = n;
    stats->best = sample[0];
    stats->median = n % 2 ? sample[n / 2] : 0.5 * (sample[n / 2 - 1] + sample[n / 2]);
    stats->spread = (sample[3 * (n - 1) / 4 + (3 * (n - 1) % 4 != 0)] - sample[(n - 1) / 4]) / stats->median;
}

/* One group of calls, seconds per call; *cpu grows by the CPU time of all. False when a call gave up. */
static bool run_group(bool (*call)(void *), void *argument, const timing_goal *goal, long calls, double *seconds,
                      double *cpu) {
    if (goal->before)
        goal->before(argument);
    double cpu_start = timing_cpu_now(), start = timing_now();
    for (long i = 0; i < calls; i++)
        if (!call(argument))
            return false;
    *seconds = (timing_now() - start) / (double)calls;
    *cpu += timing_cpu_now() - cpu_start;
    return true;
}

bool timing_measure(bool (*call)(void *), void *argument, const timing_goal *goal, timing_stats *stats) {
    double sample[TIMING_MAX_SAMPLES];
    double seconds, cpu = 0;
    if (goal->warm_up && !call(argument))
        return false;
    double start = timing_now();
    if (!run_group(call, argument, goal, 1, &seconds, &cpu))
        return false;
    long calls = 1, total = 1;
    if (seconds < group_seconds && !goal->before)
        calls = (long)(group_seconds / (seconds > 1e-8 ? seconds : 1e-8)) + 1;
    int n = 0;
    if (calls == 1)
        sample[n++] = seconds;
    while (n < goal->max_samples && n < TIMING_MAX_SAMPLES &&
           (n < goal->min_samples || timing_now() - start < goal->floor_seconds)) {
        if (n > 0 && goal->enough && goal->enough())
            break;
        if (!run_group(call, argument, goal, calls, &sample[n++], &cpu))
            return false;
        total += calls;
    }
    stats->cpu = cpu / (double)total;
    summarise(sample, n, stats);
    return true;
}
