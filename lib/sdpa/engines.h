/* What the three engines share: a call in progress, its pieces of work, and the rows of one head. */
#ifndef ATTN_LIB_ENGINES_H
#define ATTN_LIB_ENGINES_H

#include <attn/sdpa.h>

#include "base/real.h"
#include "kernels/kernels.h"
#include "sdpa/plan.h"

/* Within one precision: types without suffix, functions with it under their short names. */
typedef REAL(attn_args) attn_args;
typedef REAL(attn_kernels) attn_kernels;
#define attn_head_at REAL(attn_head_at)
#define attn_task_at REAL(attn_task_at)
#define attn_with_sink REAL(attn_with_sink)
#define attn_group REAL(attn_group)
#define attn_clear_rows REAL(attn_clear_rows)
#define attn_arrays_of REAL(attn_arrays_of)
#define attn_naive_task REAL(attn_naive_task)
#define attn_naive_rows REAL(attn_naive_rows)
#define attn_blas_task REAL(attn_blas_task)
#define attn_fused_task REAL(attn_fused_task)

/* The pointers of a call, for the checks. */
attn_arrays attn_arrays_of(const attn_args *args);

/* One call of attn_plan_run: checked, with a workspace, shared by its workers. */
typedef struct attn_call {
    const attn_plan *plan;
    const attn_args *args;
    attn_lengths lengths;
    const attn_kernels *kernels;
    void *workspace;
    real scale;
    _Alignas(64) attn_task_queue queue; /* apart from what all workers only read */
} attn_call;

/* One piece of work: a share of the query heads and rows that read one key head of one member. */
typedef struct attn_task {
    int64_t number; /* 0 .. plan->tasks - 1 */
    int64_t next;   /* what this worker does next, -1 when that is not settled */
    bool awaited;   /* it was the next one, so that its first rows were asked for */
    int64_t b, kv_head;
    int64_t share;  /* 0 .. plan->blocks_per_head - 1 */
    int64_t chunk;  /* which share of the block's chunks of keys; -1 = all keys */
    int64_t shared; /* with a chunk: the block's number among those whose keys are shared out */
    attn_member member;
} attn_task;

attn_task attn_task_at(const attn_call *call, int64_t number);

/* The arrays of one query head of a member, at its row 0. Pointers of arrays that the caller left out are NULL. */
typedef struct attn_head {
    int64_t b, q_head;
    const real *q, *k, *v;
    real *out, *lse;
    int64_t q_row, k_row, v_row, out_row, lse_row;
} attn_head;

attn_head attn_head_at(const attn_call *call, const attn_task *task, int64_t q_head);

/* What a row is divided by at the end. The sink of its head takes part: relative to the larger of row maximum and sink,
 * the row counts `factor` times and the whole is `sum`, so that out = o * factor / sum. Without a sink 1 and row_sum.
 */
typedef struct attn_divisor {
    real factor, sum;
} attn_divisor;
attn_divisor attn_with_sink(const attn_call *call, const attn_head *head, real row_max, real row_sum);

/* The number of query heads that read one key head. */
int64_t attn_group(const attn_call *call);

/* Writes empty rows: out 0, lse -Inf. */
void attn_clear_rows(const attn_call *call, const attn_head *head, int64_t row0, int64_t rows);

/* The engines: each does one task with the workspace of one worker. */
void attn_naive_task(const attn_call *call, int worker, const attn_task *task);
void attn_blas_task(const attn_call *call, int worker, const attn_task *task);
void attn_fused_task(const attn_call *call, int worker, const attn_task *task);

/* Rows row0 .. row0+rows-1 of one head by the plain loops, with room for kv_len keys and scores. */
void attn_naive_rows(const attn_call *call, const attn_task *task, int64_t q_head, int64_t row0, int64_t rows,
                     int64_t *keys, real *s);

#endif
