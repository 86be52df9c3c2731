/* What a sweep does with its time: the grid, an estimate of every cell, and the choice of what fits the budget. */
#ifndef BENCH_SWEEP_PLAN_H
#define BENCH_SWEEP_PLAN_H

#include "engines.h"
#include "measure.h"
#include "options.h"
#include "peaks.h"
#include "shapes.h"

/* One point of the grid with all engines: a chain, or the attention of a shape. */
typedef struct sweep_cell {
    const shape *shape;                          /* NULL = a chain; its sizes are not below then */
    int64_t d_model, heads, batch, len;          /* the head size is d_model / heads */
    double flops, row_terms, elements, kv_bytes; /* multiply-adds of a checked row; elements of X or of all arguments */
    attn_dtype dtype;
    int threads;
    int ceilings;                     /* number of its threads in the plan's list */
    bool left_out;                    /* does not fit the budget */
    int library_samples;              /* fewest timed runs of the library's engines: fewer for large cells */
    bool warm_up;                     /* so small that the check alone is no warm-up */
    double setup;                     /* seconds: data, the checked projection, the oracle's projection */
    double loop_gflops[ENGINE_COUNT]; /* of the loops without BLAS, roughly */
    double engine[ENGINE_COUNT];      /* seconds: check and timed runs; 0 = not asked for */
    unsigned extras;                  /* what a report adds here, bits of extras.h */
    double extra_seconds;
} sweep_cell;

#define SWEEP_MAX_CELLS 20000

typedef struct sweep_plan {
    sweep_cell *cell; /* in the order of the run: precision, batch, d_model and heads, threads, length; or shape,
                         threads, precision */
    int count;
    number_list threads, d_model, len;
    shape_list shapes;
    unsigned engines, dtypes;
    double budget, seconds; /* allowed; estimated for what is not left out */
    timing_goal goal;
    double loop_seconds; /* one run of the loops without BLAS, longer ones are sampled */
} sweep_plan;

/* The grid of the options, nothing estimated; lists that do not go together are a usage error. False for lack of
 * memory. */
bool sweep_plan_grid(sweep_plan *plan, const bench_options *options);

/* Estimates every cell from the ceilings (of each number of threads) and a short run of the loops, then chooses repeats
 * and cells so that all is done within the budget less `used` seconds: first fewer repeats, then no doubles, then every
 * second length, then without the largest cells. */
void sweep_plan_fit(sweep_plan *plan, const peaks *ceilings, double used);

/* True for cells that share X and W. */
bool sweep_cell_same_data(const sweep_cell *a, const sweep_cell *b);
/* True for cells of one table: chains that differ in length only, one shape in both precisions. */
bool sweep_cell_same_table(const sweep_cell *a, const sweep_cell *b);

/* Cells that are not left out. */
int sweep_plan_cells(const sweep_plan *plan);

void sweep_plan_free(sweep_plan *plan);

double sweep_cell_seconds(const sweep_cell *cell);
measure_settings sweep_cell_settings(const sweep_plan *plan, const sweep_cell *cell, engine_id id, uint64_t seed);

#endif
