/* A progress bar with the time left, on standard error when that is a terminal. */
#ifndef BENCH_PROGRESS_H
#define BENCH_PROGRESS_H

#include <stdbool.h>

typedef struct progress {
    bool shown;
    double total, done;  /* seconds as estimated beforehand */
    double start, limit; /* limit: it ends about so many seconds after the start, whatever is left out for it */
} progress;

/* estimated_seconds 0: not known, then the steps are named without a bar. */
void progress_begin(progress *p, double estimated_seconds, double limit, bool quiet);
/* How much slower than estimated the steps so far were; 1 at the beginning. */
double progress_pace(const progress *p);
/* Draws the bar, naming the step that begins now. */
void progress_show(const progress *p, const char *step);
/* The step is over; estimated_seconds is what it was thought to take. */
void progress_step(progress *p, double estimated_seconds);
/* The step will not be done. */
void progress_skip(progress *p, double estimated_seconds);
/* Removes the bar, so that something else can be printed. */
void progress_hide(const progress *p);

#endif
