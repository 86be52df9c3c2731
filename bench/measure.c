/* One engine on one case: check against the oracle first, then time. */
#include "measure.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "flush.h"
#include "machine.h"

/* Rows of the first, short run of the loops, which tells how long a row takes. */
#define PILOT_ROWS 4

static size_t element_size(attn_dtype dtype) {
    return dtype == ATTN_F32 ? sizeof(float) : sizeof(double);
}

static void give_up(bench_result *r, const engine_run *run) {
    r->state = run->status == ATTN_ERR_UNSUPPORTED ? RESULT_REFUSED : RESULT_FAILED;
    snprintf(r->note, sizeof r->note, "%s", run->message);
}

/* Opens the loops on all rows, or on as many as the time allows. */
static bool open_loops(engine_run *run, engine_id id, const bench_case *c, double loop_seconds) {
    if (!engine_open(run, id, c, PILOT_ROWS))
        return false;
    if (!run->sampled)
        return true;
    /* The better of two runs, if the first says that a sample is needed: it may have been disturbed, and is cold. */
    double rows = 0;
    for (int i = 0; i < 2 && rows < (double)c->data->problem_case->problem.q_len; i++) {
        double start = timing_now();
        if (!engine_call(run))
            return false;
        rows = fmax(rows, loop_seconds * (double)run->rows / (timing_now() - start));
    }
    engine_close(run);
    int64_t max_rows = rows < PILOT_ROWS ? PILOT_ROWS : rows < 1e9 ? (int64_t)rows : 0;
    return engine_open(run, id, c, max_rows);
}

/* Bytes 0xff are NaN: what an engine does not write cannot pass the check. */
static void poison(const bench_case *c) {
    if (!c->chain) {
        support_data_poison_outputs(c->data);
        return;
    }
    const attn_problem *p = &c->data->problem_case->problem;
    size_t elements = (size_t)(p->batch * p->q_len) * (size_t)c->d_model;
    memset(c->qkv, 0xff, 3 * elements * element_size(c->dtype));
    memset(c->data->base[SUPPORT_OUT], 0xff, elements * element_size(c->dtype));
}

/* Runs once and compares; the first run is the warm-up of large cases too. */
static bool run_and_verify(engine_run *run, const measure_settings *settings, const projection_oracle *oracle,
                           bench_result *r) {
    poison(run->c);
    if (!engine_call(run)) {
        give_up(r, run);
        return false;
    }
    verdict v = {0};
    bool passed = (!run->c->chain || verify_projection(oracle, run->c, run->c->qkv, run->sampled, &v)) &&
                  verify_attention(run, settings->oracle_rows, settings->seed, &v);
    r->error_eps = v.error_eps;
    r->error_abs = v.error_max;
    r->error_share = v.error_share;
    if (!passed) {
        r->state = RESULT_FAILED;
        snprintf(r->note, sizeof r->note, "disagrees with the oracle, not timed: %.400s", v.text);
    }
    return passed;
}

/* Puts all arguments and the workspace out of the caches. Memory of the BLAS library's own stays where it is. */
static void flush_arrays(void *argument) {
    const engine_run *run = argument;
    const bench_case *c = run->c;
    const support_data *d = c->data;
    size_t size = element_size(c->dtype);
    for (int a = 0; a < SUPPORT_ARRAY_COUNT; a++)
        if (d->base[a])
            flush_memory(d->base[a], (size_t)d->elements[a] * (a == SUPPORT_MASK ? 1 : size));
    flush_memory(run->workspace, run->workspace_bytes);
    if (!c->chain)
        return;
    const attn_problem *p = &d->problem_case->problem;
    size_t rows = (size_t)(p->batch * p->q_len), columns = (size_t)c->d_model;
    flush_memory(c->x, rows * columns * size);
    flush_memory(c->w_packed, 3 * columns * columns * size);
    for (int i = 0; i < 3; i++)
        flush_memory(c->w[i], columns * columns * size);
    flush_memory(c->qkv_checked, 3 * rows * columns * size);
}

/* Sum of the output rows that were computed: the work cannot be left out, and two runs of the same can be compared. */
static double checksum_of(const engine_run *run) {
    const support_data *d = run->c->data;
    const attn_problem *p = &d->problem_case->problem;
    double sum = 0;
    for (int64_t b = 0; b < p->batch; b++)
        for (int64_t h = 0; h < p->q_heads; h++)
            for (int i = 0; i < run->pieces; i++) {
                const row_piece *piece = &run->piece[i];
                int64_t end = piece->first + piece->count;
                if (d->q_lens && d->q_lens[b] < end)
                    end = d->q_lens[b];
                for (int64_t row = piece->first; row < end; row++) {
                    int64_t start = support_index(d, SUPPORT_OUT, b, h, row, 0);
                    for (int64_t col = 0; col < p->v_dim; col++)
                        sum += support_load(d->dtype, d->base[SUPPORT_OUT], start + col);
                }
            }
    return sum;
}

/* Adds a stage's times, scaled from the sample to the whole. */
static bool add_stage(engine_run *run, bool (*stage)(void *), double scale, const timing_goal *goal, bench_result *r) {
    timing_stats stats;
    if (!timing_measure(stage, run, goal, &stats))
        return false;
    r->ms_median += 1e3 * scale * stats.median;
    r->ms_min += 1e3 * scale * stats.best;
    r->ms_cpu += 1e3 * scale * stats.cpu;
    r->spread = fmax(r->spread, stats.spread);
    r->samples = r->samples == 0 || stats.samples < r->samples ? stats.samples : r->samples;
    return true;
}

static bool time_engine(engine_run *run, const measure_settings *settings, bench_result *r) {
    timing_goal part = settings->goal;
    part.before = settings->cold ? flush_arrays : NULL;
    r->cold = settings->cold;
    if (!run->sampled)
        return add_stage(run, engine_call, 1, &part, r);
    part.floor_seconds /= 3;
    return (!run->c->chain || add_stage(run, engine_project, run->project_scale, &part, r)) &&
           (run->id != ENGINE_CACHE || add_stage(run, engine_prepare, 1, &part, r)) &&
           add_stage(run, engine_attend, run->attend_scale, &part, r);
}

/* Bytes of everything that a run reads or writes once. */
static double working_set(const bench_case *c, size_t workspace) {
    const attn_problem *p = &c->data->problem_case->problem;
    double q_rows = (double)p->batch * (double)p->q_heads * (double)p->q_len;
    double kv_rows = (double)p->batch * (double)p->kv_heads * (double)p->kv_len;
    double elements = (q_rows + kv_rows) * ((double)p->head_dim + (double)p->v_dim);
    if (c->chain)
        elements += (double)c->d_model * ((double)p->batch * (double)p->q_len + 3 * (double)c->d_model);
    return elements * (double)element_size(c->dtype) + (double)workspace;
}

/* K and V as far as the lengths reach, each key head once. */
static double kv_bytes(const bench_case *c) {
    const support_data *d = c->data;
    const attn_problem *p = &d->problem_case->problem;
    double keys = 0;
    for (int64_t b = 0; b < p->batch; b++)
        keys += (double)(d->kv_lens ? d->kv_lens[b] : p->kv_len);
    return keys * (double)p->kv_heads * ((double)p->head_dim + (double)p->v_dim) * (double)element_size(c->dtype);
}

/* Elements of an array whose dimensions with stride 0 are there once. */
static double elements_of(const attn_strides *s, double batch, double heads, double rows, double columns) {
    return (s->batch ? batch : 1) * (s->head ? heads : 1) * (s->row ? rows : 1) * columns;
}

static double mask_elements(const attn_mask_strides *s, const attn_problem *p, int64_t keys) {
    const attn_strides rows = {s->batch, s->head, s->row};
    return elements_of(&rows, (double)p->batch, (double)p->q_heads, (double)p->q_len, s->key ? (double)keys : 1);
}

/* Bytes of all arguments of a call, without what a padded layout adds. */
static double argument_bytes(const support_case *c, attn_dtype dtype) {
    static const uint64_t wanted[] = {ATTN_WANT_SCORES, ATTN_WANT_CAPPED, ATTN_WANT_MASKED, ATTN_WANT_WEIGHTS};
    const attn_problem *p = &c->problem;
    bool ragged = (p->flags & ATTN_RAGGED) != 0;
    double batch = ragged ? 1 : (double)p->batch, heads = (double)p->q_heads, kv_heads = (double)p->kv_heads;
    double q_rows = (double)(ragged ? p->total_q : p->q_len), kv_rows = (double)(ragged ? p->total_kv : p->kv_len);
    double elements = elements_of(&p->q, batch, heads, q_rows, (double)p->head_dim) +
                      elements_of(&p->k, batch, kv_heads, kv_rows, (double)p->head_dim) +
                      elements_of(&p->v, batch, kv_heads, kv_rows, (double)p->v_dim) +
                      batch * heads * q_rows * ((double)p->v_dim + (c->lse ? 1 : 0));
    if (p->flags & ATTN_HAS_BIAS)
        elements += mask_elements(&p->bias, p, p->flags & ATTN_HAS_BIAS_LEN ? p->bias_len : p->kv_len);
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++)
        if (p->flags & wanted[i])
            elements += (double)p->batch * heads * (double)p->q_len * (double)p->kv_len;
    double mask = p->flags & ATTN_HAS_MASK
                      ? mask_elements(&p->mask, p, p->flags & ATTN_HAS_MASK_LEN ? p->mask_len : p->kv_len)
                      : 0;
    return elements * (double)element_size(dtype) + mask;
}

bool measure_is_possible(const support_case *c, engine_id id, attn_dtype dtype, int threads, char *note, size_t size) {
    char a[16], b[16], have[16];
    double arrays = argument_bytes(c, dtype), available = machine_available_memory();
    bool limited = available > 0;
    human_bytes(arrays, a);
    human_bytes(available, have);
    if (limited && arrays >= 0.9 * available) {
        snprintf(note, size, "does not fit: the arrays need %s, %s of memory are available", a, have);
        return false;
    }
    size_t workspace;
    if (!engine_workspace(id, &c->problem, dtype, threads, &workspace)) {
        snprintf(note, size, "%s", attn_last_error());
        return false;
    }
    if (limited && arrays + (double)workspace >= 0.9 * available) {
        snprintf(note, size, "does not fit: needs %s of arrays and %s of workspace, %s of memory are available", a,
                 human_bytes((double)workspace, b), have);
        return false;
    }
    return true;
}

static bool fits_memory(engine_id id, const bench_case *c, bench_result *r) {
    size_t bytes;
    char need[16], have[16];
    double available = machine_available_memory();
    if (!engine_workspace(id, &c->data->problem_case->problem, c->dtype, c->threads, &bytes) || available <= 0 ||
        (double)bytes < 0.9 * available)
        return true;
    r->state = RESULT_LEFT_OUT;
    human_bytes((double)bytes, need);
    human_bytes(available, have);
    snprintf(r->note, sizeof r->note, "does not fit: needs %s of workspace, %s of memory are available", need, have);
    return false;
}

void measure_engine(const bench_case *c, engine_id id, const measure_settings *settings,
                    const projection_oracle *oracle, bench_result *r) {
    engine_run run;
    r->engine = engine_name(id);
    r->dtype = c->dtype;
    r->threads = c->threads;
    r->kind = c->chain ? RESULT_CHAIN : RESULT_SDPA;
    if (!fits_memory(id, c, r))
        return;
    bool open = engine_is_loops(id) ? open_loops(&run, id, c, settings->loop_seconds) : engine_open(&run, id, c, 0);
    r->flops = run.attention_flops + run.projection_flops;
    r->kv_bytes = kv_bytes(c);
    r->workspace_bytes = (double)run.workspace_bytes;
    r->working_set_bytes = working_set(c, run.workspace_bytes);
    r->ms_setup = 1e3 * run.setup_seconds;
    r->sampled = run.sampled;
    r->sampled_rows = run.sampled ? run.rows : 0;
    if (!open)
        give_up(r, &run);
    else if (run_and_verify(&run, settings, oracle, r)) {
        if (time_engine(&run, settings, r))
            r->checksum = checksum_of(&run);
        else
            give_up(r, &run);
    }
    engine_close(&run);
}

bool measure_stages(const bench_case *c, engine_id id, const measure_settings *settings, stage_times *t) {
    engine_run run;
    int64_t max_rows = 0;
    if (engine_is_loops(id)) {
        bool open = open_loops(&run, id, c, settings->loop_seconds);
        max_rows = run.sampled ? run.rows : 0;
        engine_close(&run);
        if (!open)
            return false;
    }
    /* The second copy of the library's engines has an output too. */
    engine_run copy = {.id = id, .c = c};
    verdict v = {0};
    poison(c);
    return stages_measure(c, id, max_rows, t) &&
           (engine_is_loops(id) || verify_attention(&copy, settings->oracle_rows, settings->seed, &v));
}
