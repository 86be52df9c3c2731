/* Where the time of an engine goes: X W, Q K^T, softmax, A V and the rest, from runs of their own.
 *
 * The library's engines: stage_clock.c and the very objects of libattn are linked a second time, into one object whose
 * products and softmax kernels pass a clock (the linker's --wrap). The timed runs use libattn as it is, which knows
 * nothing of this. The loops without BLAS have no such seams: their stages are the differences of the whole run, one
 * without values (v_dim 0), and one without values and scores (scale 0), which leaves softmax. */
#ifndef BENCH_STAGES_H
#define BENCH_STAGES_H

#include "engines.h"
#include "result.h"

typedef enum stage_id { STAGE_PROJECT, STAGE_SCORES, STAGE_SOFTMAX, STAGE_COMBINE, STAGE_REST, STAGE_COUNT } stage_id;

/* "X W", "Q K^T", "softmax", "A V", "rest". */
const char *stage_name(stage_id s);

typedef struct stage_times {
    bench_result entry;     /* whose stages: problem, sizes, threads, precision, engine */
    double ms[STAGE_COUNT]; /* of the whole problem; of several threads their mean. Loops: the rest is in softmax */
} stage_times;

double stage_total(const stage_times *t);

/* Fills the times of one engine on a case. max_rows > 0: the loops run on a sample of about that many rows. False when
 * the engine refuses, fails, or this platform cannot look inside it. */
bool stages_measure(const bench_case *c, engine_id id, int64_t max_rows, stage_times *t);

#endif
