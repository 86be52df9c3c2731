/* The textbook loops, row by row, no BLAS and no blocking: the bench's baseline and a second opinion for the tests. All
 * rules are written out here, nothing is taken from the other engines; fused leaves its smallest members to these
 * loops. */
#include <tgmath.h>

#include "sdpa/engines.h"

/* One query row and what is known of it. */
typedef struct naive_row {
    const attn_call *call;
    const attn_head *head;
    const attn_member *member;
    int64_t i;
    int64_t count; /* visible keys */
    int64_t *keys; /* their numbers, ascending */
    real *s;       /* their scores, then their weights */
} naive_row;

/* Positions and ends of windows: offsets and window sizes may each be as large as int64. */
__extension__ typedef __int128 wide;

static wide smaller(wide a, wide b) {
    return a < b ? a : b;
}

/* The keys first .. last of a member that the row sees by position and by the widths of mask and bias. */
typedef struct naive_band {
    int64_t first, last;
} naive_band;

static naive_band band_of(const naive_row *row) {
    const attn_problem *p = &row->call->plan->problem;
    wide position = (wide)row->member->offset + row->i;
    wide first = 0;
    wide last = (wide)row->member->kv_len - 1;
    if ((p->flags & ATTN_CAUSAL) != 0)
        last = smaller(last, position);
    if ((p->flags & ATTN_HAS_WINDOW) != 0 && p->window_right >= 0)
        last = smaller(last, position + p->window_right);
    if ((p->flags & ATTN_HAS_WINDOW) != 0 && p->window_left >= 0)
        first = position > p->window_left ? position - p->window_left : 0;
    if ((p->flags & ATTN_HAS_MASK_LEN) != 0)
        last = smaller(last, (wide)p->mask_len - 1);
    if ((p->flags & ATTN_HAS_BIAS_LEN) != 0)
        last = smaller(last, (wide)p->bias_len - 1);
    return first > last ? (naive_band){0, -1} : (naive_band){(int64_t)first, (int64_t)last};
}

/* Step 4. */
static bool sees(const naive_row *row, naive_band band, int64_t j) {
    if (j < band.first || j > band.last)
        return false;
    const attn_args *args = row->call->args;
    if (args->mask == NULL)
        return true;
    attn_mask_strides strides = row->call->plan->problem.mask;
    return args->mask[row->head->b * strides.batch + row->head->q_head * strides.head + row->i * strides.row +
                      j * strides.key] != 0;
}

/* Steps 1 to 3 for key j: the score after each. */
typedef struct naive_score {
    real scaled, capped, biased;
} naive_score;

static inline __attribute__((always_inline)) naive_score score_of(const naive_row *row, int64_t j) {
    const attn_plan *plan = row->call->plan;
    const attn_problem *p = &plan->problem;
    const attn_args *args = row->call->args;
    const attn_head *head = row->head;
    naive_score s;
    real dot = 0;
    if (row->call->scale != 0)
        for (int64_t c = 0; c < p->head_dim; c++)
            dot += head->q[row->i * head->q_row + c] * head->k[j * head->k_row + c];
    s.scaled = row->call->scale == 0 ? 0 : row->call->scale * dot;
    s.capped = s.biased = s.scaled;
    if (!plan->edited)
        return s;
    real cap = (real)plan->softcap;
    if (cap > 0)
        s.capped = s.biased = cap * tanh(s.scaled / cap);
    if (args->bias != NULL && ((p->flags & ATTN_HAS_BIAS_LEN) == 0 || j < p->bias_len)) {
        real bias =
            args->bias[head->b * p->bias.batch + head->q_head * p->bias.head + row->i * p->bias.row + j * p->bias.key];
        s.biased = bias == -(real)INFINITY ? bias : s.biased + bias;
    }
    if (args->alibi_slopes != NULL) {
        double distance = fabs((double)row->member->offset + (double)row->i - (double)j);
        s.biased -= args->alibi_slopes[head->q_head] * (real)distance;
    }
    return s;
}

/* Address of an intermediate of this row, NULL when it is not wanted. */
static real *wanted_row(const naive_row *row, real *wanted) {
    attn_strides strides = row->call->plan->problem.scores;
    return wanted == NULL
               ? NULL
               : wanted + row->head->b * strides.batch + row->head->q_head * strides.head + row->i * strides.row;
}

static void set_wanted(real *wanted, int64_t j, real value) {
    if (wanted != NULL)
        wanted[j] = value;
}

/* Scores of the keys, visible ones into the row's list, and the intermediates after steps 1, 2 and 4. */
static void score_keys(naive_row *row) {
    const attn_plan *plan = row->call->plan;
    const attn_args *args = row->call->args;
    real *scores = wanted_row(row, args->scores);
    real *capped = wanted_row(row, args->capped);
    real *masked = wanted_row(row, args->masked);
    bool all_scores = (plan->problem.flags & ATTN_WANT_ANY) != 0;
    naive_band band = band_of(row);
    row->count = 0;
    bool whole_band = !all_scores && args->mask == NULL;
    int64_t first = all_scores ? 0 : band.first;
    int64_t last = all_scores ? row->member->kv_len - 1 : band.last;
    for (int64_t j = first; j <= last; j++) {
        bool seen = whole_band || sees(row, band, j);
        if (!seen && !all_scores)
            continue;
        naive_score s = score_of(row, j);
        if (all_scores) {
            set_wanted(scores, j, s.scaled);
            set_wanted(capped, j, s.capped);
            set_wanted(masked, j, seen ? s.biased : -(real)INFINITY);
        }
        if (!seen || s.biased == -(real)INFINITY)
            continue;
        row->keys[row->count] = j;
        row->s[row->count++] = s.biased;
    }
    for (int64_t j = row->member->kv_len; all_scores && j < plan->problem.kv_len; j++) {
        set_wanted(scores, j, -(real)INFINITY);
        set_wanted(capped, j, -(real)INFINITY);
        set_wanted(masked, j, -(real)INFINITY);
    }
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

/* Steps 5 and 6. */
static void combine(naive_row *row) {
    const attn_head *head = row->head;
    real *weights = wanted_row(row, row->call->args->weights);
    for (int64_t j = 0; weights != NULL && j < row->call->plan->problem.kv_len; j++)
        weights[j] = 0;
    if (row->count == 0) {
        attn_clear_rows(row->call, head, row->i, 1);
        return;
    }
    real max;
    real l = exponentials(row->count, row->s, &max);
    if (head->lse != NULL)
        head->lse[row->i * head->lse_row] = max + log(l);
    if (row->call->args->sink != NULL) {
        /* all weights relative to the larger of maximum and sink; a sink of +Inf takes everything */
        real above = row->call->args->sink[head->q_head] - max;
        real factor = above > 0 ? exp(-above) : 1;
        for (int64_t n = 0; n < row->count; n++)
            row->s[n] *= factor;
        l = above > 0 ? l * factor + 1 : l + exp(above);
    }
    for (int64_t n = 0; weights != NULL && n < row->count; n++)
        weights[row->keys[n]] = row->s[n] / l;
    for (int64_t c = 0; c < row->call->plan->problem.v_dim; c++) {
        real sum = 0;
        for (int64_t n = 0; n < row->count; n++)
            sum += row->s[n] * head->v[row->keys[n] * head->v_row + c];
        head->out[row->i * head->out_row + c] = sum / l;
    }
}

/* A row of the buffer beyond the member's length. */
static void absent_row(const naive_row *row, bool in_buffer) {
    const attn_args *args = row->call->args;
    real *const wanted[] = {args->scores, args->capped, args->masked};
    for (size_t w = 0; w < sizeof wanted / sizeof *wanted; w++)
        for (int64_t j = 0; wanted[w] != NULL && j < row->call->plan->problem.kv_len; j++)
            wanted_row(row, wanted[w])[j] = -(real)INFINITY;
    for (int64_t j = 0; args->weights != NULL && j < row->call->plan->problem.kv_len; j++)
        wanted_row(row, args->weights)[j] = 0;
    if (in_buffer)
        attn_clear_rows(row->call, row->head, row->i, 1);
}

void attn_naive_rows(const attn_call *call, const attn_task *task, int64_t q_head, int64_t row0, int64_t rows,
                     int64_t *keys, real *s) {
    attn_head head = attn_head_at(call, task, q_head);
    naive_row row = {.call = call, .head = &head, .member = &task->member, .keys = keys, .s = s};
    for (row.i = row0; row.i < row0 + rows; row.i++) {
        if (row.i >= task->member.q_len) {
            absent_row(&row, row.i < task->member.q_rows);
            continue;
        }
        score_keys(&row);
        combine(&row);
    }
}

void attn_naive_task(const attn_call *call, int worker, const attn_task *task) {
    const attn_plan *plan = call->plan;
    int64_t group = attn_group(call);
    int64_t row0 = task->share / group * plan->block_rows;
    int64_t left = plan->problem.q_len - row0;
    attn_naive_rows(call, task, task->kv_head * group + task->share % group, row0,
                    left < plan->block_rows ? left : plan->block_rows,
                    attn_ledger_grant(&plan->ledger, call->workspace, plan->pieces.keys, worker),
                    attn_ledger_grant(&plan->ledger, call->workspace, plan->pieces.scores, worker));
}
