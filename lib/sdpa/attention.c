/* The public entry: one call, flat call, running a plan. */
#include <inttypes.h>
#include <string.h>
#include <tgmath.h>

#include "base/status.h"
#include "blas/blas.h"
#include "sdpa/engines.h"

/* ---- What engines.h promises ---- */

/* An address in an array that may have been left out, whose strides may then be anything. */
static const real *at(const real *base, attn_strides strides, int64_t b, int64_t head, int64_t row) {
    return base != NULL ? base + (b * strides.batch + head * strides.head + row * strides.row) : NULL;
}

attn_head attn_head_at(const attn_call *call, const attn_task *task, int64_t q_head) {
    const attn_problem *p = &call->plan->problem;
    const attn_args *args = call->args;
    int64_t b = task->b;
    int64_t q_start = task->member.q_start;
    int64_t kv_start = task->member.kv_start;
    int64_t kv_head = task->kv_head;
    return (attn_head){
        .b = b,
        .q_head = q_head,
        .q = at(args->q, p->q, b, q_head, q_start),
        .k = at(args->k, p->k, b, kv_head, kv_start),
        .v = at(args->v, p->v, b, kv_head, kv_start),
        .out = (real *)at(args->out, p->out, b, q_head, q_start),
        .lse = (real *)at(args->lse, p->lse, b, q_head, q_start),
        .q_row = attn_used_stride(p->q_len, p->q.row, p->head_dim),
        .k_row = attn_used_stride(p->kv_len, p->k.row, p->head_dim),
        .v_row = attn_used_stride(p->kv_len, p->v.row, p->v_dim),
        .out_row = attn_used_stride(p->q_len, p->out.row, p->v_dim),
        .lse_row = p->lse.row,
    };
}

attn_divisor attn_with_sink(const attn_call *call, const attn_head *head, real row_max, real row_sum) {
    if (call->args->sink == NULL)
        return (attn_divisor){1, row_sum};
    real above = call->args->sink[head->q_head] - row_max;
    if (!(above > 0)) /* NaN goes this way and stays */
        return (attn_divisor){1, row_sum + exp(above)};
    real factor = exp(-above);
    return (attn_divisor){factor, row_sum * factor + 1};
}

int64_t attn_group(const attn_call *call) {
    return call->plan->problem.q_heads / call->plan->problem.kv_heads;
}

void attn_clear_rows(const attn_call *call, const attn_head *head, int64_t row0, int64_t rows) {
    for (int64_t i = row0; i < row0 + rows; i++) {
        for (int64_t c = 0; c < call->plan->problem.v_dim; c++)
            head->out[i * head->out_row + c] = 0;
        if (head->lse != NULL)
            head->lse[i * head->lse_row] = -(real)INFINITY;
    }
}

/* ---- Running ---- */

attn_task attn_task_at(const attn_call *call, int64_t number) {
    const attn_plan *plan = call->plan;
    int64_t beyond = number - plan->whole_blocks; /* one piece each, before those whose keys are shared out */
    int64_t block = beyond < 0 ? number : plan->whole_blocks + beyond / plan->chunks;
    int64_t kv_head = block / plan->blocks_per_head;
    attn_task task = {
        .number = number,
        .b = kv_head / plan->problem.kv_heads,
        .kv_head = kv_head % plan->problem.kv_heads,
        .share = block % plan->blocks_per_head,
        .chunk = beyond < 0 ? -1 : beyond % plan->chunks,
        .shared = block - plan->whole_blocks,
    };
    task.member = attn_member_of(&plan->problem, task.b, &call->lengths);
    return task;
}

/* Tasks left for each worker from which on it takes its next one only when it is free: the last ones may be
 * anybody's. */
enum { LAST_TASKS = 2 };

static void run_tasks(void *argument, int worker) {
    attn_call *call = argument;
    const attn_plan *plan = call->plan;
    int64_t number = attn_next_task(&call->queue);
    bool awaited = false;
    while (number >= 0) {
        attn_task task = attn_task_at(call, number);
        task.awaited = awaited;
        /* taken ahead, so that its rows come from memory into the right cache */
        bool ahead = plan->workers == 1 || number < plan->tasks - (int64_t)LAST_TASKS * plan->workers;
        task.next = ahead ? attn_next_task(&call->queue) : -1;
        if (plan->plain_loops)
            attn_naive_task(call, worker, &task);
        else if (plan->engine == ATTN_ENGINE_BLAS)
            attn_blas_task(call, worker, &task);
        else
            attn_fused_task(call, worker, &task);
        number = ahead ? task.next : attn_next_task(&call->queue);
        awaited = ahead;
    }
}

static attn_lengths lengths_of(const attn_args *args) {
    return (attn_lengths){args->q_lens, args->kv_lens, args->q_offsets, args->kv_offsets};
}

attn_arrays attn_arrays_of(const attn_args *args) {
    return (attn_arrays){
        .real_bytes = sizeof(real),
        .at =
            {
                [ATTN_Q] = args->q,
                [ATTN_K] = args->k,
                [ATTN_V] = args->v,
                [ATTN_MASK] = args->mask,
                [ATTN_BIAS] = args->bias,
                [ATTN_SLOPES] = args->alibi_slopes,
                [ATTN_SINK] = args->sink,
                [ATTN_OUT] = args->out,
                [ATTN_LSE] = args->lse,
                [ATTN_SCORES] = args->scores,
                [ATTN_CAPPED] = args->capped,
                [ATTN_MASKED] = args->masked,
                [ATTN_WEIGHTS] = args->weights,
            },
        .lengths = lengths_of(args),
    };
}

attn_status REAL(attn_plan_run)(const attn_plan *plan, const attn_args *given, void *workspace,
                                size_t workspace_bytes) {
    if (plan == NULL)
        return attn_fail(ATTN_ERR_NULL, "plan is NULL");
    if (plan->dtype != REAL_DTYPE)
        return attn_fail(ATTN_ERR_DTYPE, "a plan for %s is run in %s", plan->dtype == ATTN_F32 ? "float" : "double",
                         REAL_DTYPE == ATTN_F32 ? "float" : "double");
    attn_args args;
    ATTN_TRY(attn_read_args(given, &args));
    const attn_arrays arrays = attn_arrays_of(&args);
    ATTN_TRY(attn_check_arrays(&plan->problem, &arrays));
    ATTN_TRY(attn_check_workspace(&plan->ledger, workspace, workspace_bytes));
    if (plan->tasks == 0 || attn_writes_nothing(&plan->problem, &arrays))
        return ATTN_OK;
    void *own = NULL;
    int64_t none = 0; /* what pieces without bytes point at */
    if (workspace == NULL && plan->ledger.bytes > 0) {
        own = attn_allocate(&plan->resources, plan->ledger.bytes);
        if (own == NULL)
            return attn_fail(ATTN_ERR_NOMEM, "the allocator has no %" PRId64 " bytes for the workspace",
                             plan->ledger.bytes);
    }
    attn_call call = {
        .plan = plan,
        .args = &args,
        .lengths = lengths_of(&args),
        .kernels = REAL(attn_kernels_in_use)(),
        .workspace = own != NULL         ? own
                     : workspace != NULL ? workspace
                                         : &none,
        .scale = (real)plan->scale,
        .queue = {.count = plan->tasks},
    };
    if (plan->shared_blocks > 0)
        memset(attn_ledger_grant(&plan->ledger, call.workspace, plan->pieces.chunks_done, 0), 0,
               (size_t)plan->shared_blocks * sizeof(int64_t));
    attn_status status = attn_run_blas_workers(&plan->resources, attn_threads_here(plan->workers), run_tasks, &call);
    attn_release(&plan->resources, own, plan->ledger.bytes);
    if (status == ATTN_OK && call.queue.next < call.queue.count)
        return attn_fail(ATTN_ERR_THREADS, "context: parallel_for returned 0 before the work was done");
    return status;
}

attn_status REAL(attn_sdpa)(const attn_context *context, const attn_problem *problem, const attn_args *args) {
    attn_plan plan;
    ATTN_TRY(attn_plan_prepare(&plan, context, problem, REAL_DTYPE));
    return REAL(attn_plan_run)(&plan, args, NULL, 0);
}

attn_status REAL(attn_sdpa_flat)(int64_t batch, int64_t q_heads, int64_t kv_heads, int64_t q_len, int64_t kv_len,
                                 int64_t head_dim, int64_t v_dim, const real *q, const real *k, const real *v,
                                 real *out, uint64_t flags) {
    if ((flags & ~(ATTN_CAUSAL | ATTN_FLAT_BOTTOM_RIGHT)) != 0)
        return attn_fail(ATTN_ERR_FLAG,
                         "flags 0x%" PRIx64 ": the flat call knows ATTN_CAUSAL and ATTN_FLAT_BOTTOM_RIGHT", flags);
    attn_problem problem = {
        .struct_size = sizeof problem,
        .flags = flags & ATTN_CAUSAL,
        .alignment = (flags & ATTN_FLAT_BOTTOM_RIGHT) != 0 ? ATTN_ALIGN_BOTTOM_RIGHT : ATTN_ALIGN_TOP_LEFT,
        .batch = batch,
        .q_heads = q_heads,
        .kv_heads = kv_heads,
        .q_len = q_len,
        .kv_len = kv_len,
        .head_dim = head_dim,
        .v_dim = v_dim,
    };
    ATTN_TRY(attn_problem_layout_bhld(&problem));
    const attn_args args = {.struct_size = sizeof args, .q = q, .k = k, .v = v, .out = out};
    return REAL(attn_sdpa)(NULL, &problem, &args);
}
