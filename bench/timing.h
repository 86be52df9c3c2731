/* Time: a monotonic clock, CPU time, and repeated calls up to a time floor. */
#ifndef BENCH_TIMING_H
#define BENCH_TIMING_H

#include <stdbool.h>

/* Seconds on a clock that never jumps; seconds of CPU that all threads of this process have used. */
double timing_now(void);
double timing_cpu_now(void);

/* When to stop: both the floor and the fewest samples reached, or the most samples. */
typedef struct timing_goal {
    double floor_seconds;
    int min_samples;
    int max_samples;                /* at most TIMING_MAX_SAMPLES */
    bool (*enough)(void);           /* true ends the runs after the first sample; NULL = never */
    bool warm_up;                   /* one untimed call first */
    void (*before)(void *argument); /* runs before each sample, outside its time; NULL = nothing */
} timing_goal;

#define TIMING_MAX_SAMPLES 1000

/* All in seconds per call. spread: upper quartile minus lower quartile, as a share of the median; 0 for one sample. */
typedef struct timing_stats {
    double median, best, cpu, spread;
    int samples;
} timing_stats;

/* Times call(argument), which returns false to give up. Calls shorter than 0.1 ms are timed in groups, each group one
 * sample, unless something must run before each of them. False when a call gave up. */
bool timing_measure(bool (*call)(void *), void *argument, const timing_goal *goal, timing_stats *stats);

#endif
