/* The textbook loops, row by row, no BLAS and no blocking: the bench's baseline and a second opinion for the tests. All
 * rules are written out here, nothing is shared with the other engines. */
#include <tgmath.h>

#include "sdpa/engines.h"

/* Scores of the visible keys of query i, in key order; their numbers go to `keys`. Returns how many there are. */
static int64_t visible_scores(const attn_call *call, const attn_task *task, const attn_head *head, int64_t i,
                              int64_t *keys, real *s) {
    const attn_problem *problem = &call->plan->problem;
    const int64_t d = problem->head_dim;
    const bool causal = (problem->flags & ATTN_CAUSAL) != 0;
    /* key j is visible to a causal row when j <= i + offset, written so that it cannot overflow */
    const int64_t last_key = task->member.offset;
    int64_t count = 0;
    for (int64_t j = 0; j < task->member.kv_len; j++) {
        if (causal && j - i > last_key)
            break;
        real dot = 0;
        if (call->scale != 0)
            for (int64_t c = 0; c < d; c++)
                dot += head->q[i * head->q_row + c] * head->k[j * head->k_row + c];
        real score = call->scale * dot;
        if (score == -(real)INFINITY)
            continue; /* hidden, whatever the reason */
        keys[count] = j;
        s[count++] = score;
    }
    return count;
}

/* Softmax of the scores in place, without the division; returns the sum of the weights and, in *max, the maximum. */
static real exponentials(int64_t count, real *s, real *max) {
    *max = s[0];
    for (int64_t n = 1; n < count; n++)
        if (s[n] > *max)
            *max = s[n];
    real sum = 0;
    for (int64_t n = 0; n < count; n++) {
        s[n] = exp(s[n] - *max); /* a NaN stays NaN, and so does Inf - Inf */
        sum += s[n];
    }
    return sum;
}

static void naive_row(const attn_call *call, const attn_task *task, const attn_head *head, int64_t i, int64_t *keys,
                      real *s) {
    int64_t count = visible_scores(call, task, head, i, keys, s);
    if (count == 0) {
        attn_clear_rows(call, head, i, 1);
        return;
    }
    real max;
    real l = exponentials(count, s, &max);
    for (int64_t c = 0; c < call->plan->problem.v_dim; c++) {
        real sum = 0;
        for (int64_t n = 0; n < count; n++)
            sum += s[n] * head->v[keys[n] * head->v_row + c];
        head->out[i * head->out_row + c] = sum / l;
    }
    if (head->lse != NULL)
        head->lse[i * head->lse_row] = max + log(l);
}

void attn_naive_task(const attn_call *call, int worker, const attn_task *task) {
    const attn_plan *plan = call->plan;
    int64_t group = attn_group(call);
    int64_t q_head = task->kv_head * group + task->share % group;
    attn_head head = attn_head_at(call, task->b, q_head);
    int64_t *keys = attn_ledger_grant(&plan->ledger, call->workspace, plan->pieces.keys, worker);
    real *s = attn_ledger_grant(&plan->ledger, call->workspace, plan->pieces.scores, worker);
    int64_t row0 = task->share / group * plan->block_rows;
    for (int64_t i = row0; i < row0 + plan->block_rows && i < plan->problem.q_len; i++) {
        if (i < task->member.q_len)
            naive_row(call, task, &head, i, keys, s);
        else
            attn_clear_rows(call, &head, i, 1);
    }
}
