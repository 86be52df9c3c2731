/* One engine on one case: check against the oracle first, then time, and never time what fails. */
#ifndef BENCH_MEASURE_H
#define BENCH_MEASURE_H

#include "engines.h"
#include "result.h"
#include "stages.h"
#include "timing.h"
#include "verify.h"

typedef struct measure_settings {
    timing_goal goal;
    double loop_seconds; /* longer runs of the loops without BLAS are done on a sample of rows of about this long */
    int64_t oracle_rows; /* rows of attention that are checked */
    bool cold;           /* arrays and workspace are put out of the caches before each run */
    uint64_t seed;
} measure_settings;

/* Fills state, note, times, flops, memory and errors of r; problem, len and peaks are the caller's. oracle: rows of the
 * projection of a chain, NULL for attention alone. */
void measure_engine(const bench_case *c, engine_id id, const measure_settings *settings,
                    const projection_oracle *oracle, bench_result *r);

/* Where an engine's time goes (stages.h), the loops on a sample of rows as above. False when it cannot be told. */
bool measure_stages(const bench_case *c, engine_id id, const measure_settings *settings, stage_times *t);

/* Before any data are made: false, with the reason, when the library refuses the plan or when arrays and workspace
 * together do not fit the memory that can be had. */
bool measure_is_possible(const support_case *c, engine_id id, attn_dtype dtype, int threads, char *note, size_t size);

#endif
