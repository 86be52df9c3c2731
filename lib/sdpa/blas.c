/* The textbook BLAS version: the whole score matrix of a head by one product, softmax over it in place, one product
 * with V. Memory O(q_len kv_len) per thread. */
#include <tgmath.h>

#include "blas/blas.h"
#include "sdpa/tile.h"

/* Attention of one head; with `clean` the values are cleaned first (see attn_tile_clean()). */
static void whole_head(const attn_call *call, const attn_task *task, const attn_head *head, const attn_tile *whole,
                       real *clean) {
    int64_t v_dim = call->plan->problem.v_dim;
    attn_tile_scores(call, head, whole);
    attn_tile_hide(&task->member, whole);
    for (int64_t i = 0; i < whole->rows; i++)
        for (int64_t c = 0; c < v_dim; c++)
            head->out[i * head->out_row + c] = 0;
    if (clean != NULL)
        attn_tile_clean(call, head, whole, clean, head->out, head->out_row);
    for (int64_t i = 0; i < whole->rows; i++) {
        real *s = whole->s + i * whole->ld;
        real lse = call->kernels->softmax_row(whole->keys, s, s);
        if (head->lse != NULL)
            head->lse[i * head->lse_row] = lse;
    }
    attn_gemm(false, false, whole->rows, v_dim, whole->keys, 1, whole->s, whole->ld, clean != NULL ? clean : head->v,
              clean != NULL ? v_dim : head->v_row, 1, head->out, head->out_row);
}

void attn_blas_task(const attn_call *call, int worker, const attn_task *task) {
    const attn_plan *plan = call->plan;
    const attn_member *member = &task->member;
    attn_head head = attn_head_at(call, task->b, task->kv_head * attn_group(call) + task->share);
    attn_clear_rows(call, &head, member->q_len, plan->problem.q_len - member->q_len);
    if (member->kv_len == 0) {
        attn_clear_rows(call, &head, 0, member->q_len);
        return;
    }
    attn_tile whole = {
        .s = attn_ledger_grant(&plan->ledger, call->workspace, plan->pieces.scores, worker),
        .ld = member->kv_len,
        .rows = member->q_len,
        .keys = member->kv_len,
    };
    whole_head(call, task, &head, &whole, NULL);
    if (call->kernels->all_finite(member->q_len, plan->problem.v_dim, head.out, head.out_row))
        return;
    real *clean = attn_ledger_grant(&plan->ledger, call->workspace, plan->pieces.clean_values, worker);
    whole_head(call, task, &head, &whole, clean);
}
