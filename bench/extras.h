/* What a report shows beside the grid, from runs of their own on cells of it: the shares of the stages, cold caches,
 * 1 to all threads; and the memory of lengths that nobody runs. */
#ifndef BENCH_EXTRAS_H
#define BENCH_EXTRAS_H

#include "measure.h"
#include "result.h"
#include "stages.h"
#include "sweep_plan.h"

/* Bits of sweep_cell.extras. */
enum { EXTRA_STAGES = 1, EXTRA_COLD = 2, EXTRA_THREADS = 4 };

/* Share of the budget that is kept for them. */
#define EXTRAS_SHARE 0.25

typedef struct memory_need {
    bench_result entry; /* whose memory, as in stage_times */
    double bytes;       /* workspace */
} memory_need;

typedef struct extras {
    stage_times *stage; /* `stages` of them */
    size_t stages, stage_capacity;
    result_list cold, threads;
    memory_need *memory; /* `memories` of them, by table and engine, lengths ascending */
    size_t memories, memory_capacity;
    unsigned suited, chosen; /* kinds that a cell of the plan is fit for, and those of them that time was kept for */
} extras;

/* Marks cells of a fitted plan, at most `seconds` worth of them, and adds their time to the plan. */
void extras_choose(extras *e, sweep_plan *plan, double seconds);

/* Runs what is marked for a cell whose case is ready. like: an entry with the cell's problem and sizes. What fails is
 * added to the list. Ends early when interrupted. */
void extras_run(extras *e, const sweep_plan *plan, const sweep_cell *cell, const bench_case *c,
                const projection_oracle *oracle, uint64_t seed, const bench_result *like, result_list *list);

/* Works out the workspace of every engine of each table of the list, up to lengths that no memory holds. */
void extras_add_memory(extras *e, const result_list *list, double available);

void extras_free(extras *e);

#endif
