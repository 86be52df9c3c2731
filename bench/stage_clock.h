/* The clock inside the second copy of the library's engines (see stages.h), and the engines of that copy. */
#ifndef BENCH_STAGE_CLOCK_H
#define BENCH_STAGE_CLOCK_H

#include "engines.h"
#include "stages.h"

/* engines.h for the copy: the same code on the same data, with the clock in its products and kernels. */
bool staged_engine_open(engine_run *run, engine_id id, const bench_case *c, int64_t max_rows);
void staged_engine_close(engine_run *run);
bool staged_engine_project(void *run);
bool staged_engine_attend(void *run);

/* Sets the clock to 0. The first product of a thread after a softmax is A V, any other is Q K^T: their factors may be
 * copies, so that addresses tell nothing. */
void stage_clock_begin(void);

/* Adds the seconds of all threads since then to the stages, less what reading the clock takes; returns the seconds of
 * all threads that the clock itself has taken. */
double stage_clock_end(double seconds[STAGE_COUNT]);

#endif
