/* The engines that are compared, behind one interface. */
#include "engines.h"

#include <attn/chain.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "memory.h"
#include "team.h"
#include "textbook.h"
#include "timing.h"

typedef struct engine_facts {
    const char *name, *title, *meaning;
    attn_engine library_engine;
    bool loops;
} engine_facts;

static const engine_facts facts[ENGINE_COUNT] = {
    [ENGINE_NAIVE] = {"naive", "textbook loops", "textbook loops, no BLAS", ATTN_ENGINE_NAIVE, true},
    [ENGINE_CACHE] = {"cache", "cache-ordered loops", "cache-ordered loops, no BLAS (code of the bench)",
                      ATTN_ENGINE_AUTO, true},
    [ENGINE_BLAS] = {"blas", "BLAS, whole scores", "one CBLAS product each way per head, whole score matrix",
                     ATTN_ENGINE_BLAS, false},
    [ENGINE_FUSED] = {"fused", "BLAS, fused tiles", "tiles with an online softmax, multiplied by CBLAS",
                      ATTN_ENGINE_FUSED, false},
    [ENGINE_AUTO] = {"auto", "chosen by the library", "what the library chooses", ATTN_ENGINE_AUTO, false},
};

static attn_blas_info blas_info(void) {
    attn_blas_info blas = {.struct_size = sizeof blas};
    if (attn_blas_get_info(&blas) != ATTN_OK)
        return (attn_blas_info){.advice = ""};
    return blas;
}

bool engine_own_products(void) {
    return blas_info().own_products != 0;
}

bool engine_own_panels(void) {
    return blas_info().advice[0] != 0;
}

const char *engine_name(engine_id id) {
    return facts[id].name;
}

const char *engine_title(engine_id id) {
    return id == ENGINE_FUSED && engine_own_products() ? "own kernel, fused tiles" : facts[id].title;
}

const char *engine_meaning(engine_id id) {
    return id == ENGINE_FUSED && engine_own_products()
               ? "tiles with an online softmax, multiplied by the library's own kernel"
               : facts[id].meaning;
}

bool engine_is_loops(engine_id id) {
    return facts[id].loops;
}

/* ---- Small helpers ----------------------------------------------------------------------------------------------- */

static size_t element_size(attn_dtype dtype) {
    return dtype == ATTN_F32 ? sizeof(float) : sizeof(double);
}

/* Element n of an array of the precision. */
static void *at(attn_dtype dtype, const void *x, int64_t n) {
    return x ? (char *)(uintptr_t)x + n * (int64_t)element_size(dtype) : NULL;
}

static bool fail(engine_run *run, attn_status status, const char *message) {
    run->status = status;
    snprintf(run->message, sizeof run->message, "%s", message);
    return false;
}

static bool check(engine_run *run, attn_status status) {
    return status == ATTN_OK || fail(run, status, attn_last_error());
}

static int64_t base_offset(const attn_problem *p) {
    if (p->alignment == ATTN_ALIGN_BOTTOM_RIGHT)
        return p->kv_len - p->q_len;
    return p->alignment == ATTN_ALIGN_OFFSET && (p->flags & ATTN_HAS_OFFSET) ? p->offset : 0;
}

/* What the cache-ordered loops understand, and what a sample of rows does. */
#define SIMPLE_FLAGS (ATTN_CAUSAL | ATTN_HAS_SCALE | ATTN_HAS_OFFSET)

/* ---- Row pieces -------------------------------------------------------------------------------------------------- */

/* Bytes of K transposed for all key heads, then a row of scores per worker. */
static size_t cache_workspace(const attn_problem *p, attn_dtype dtype, int threads) {
    return (size_t)(p->batch * p->kv_heads * p->head_dim + threads) * (size_t)p->kv_len * element_size(dtype);
}

static bool make_plan(const attn_problem *problem, attn_dtype dtype, int threads, attn_engine engine, attn_plan **plan,
                      attn_status *status) {
    attn_context context = ATTN_CONTEXT_INIT;
    context.threads = threads;
    attn_problem p = *problem;
    p.engine = engine;
    *status = attn_plan_create(&context, &p, dtype, plan);
    return *status == ATTN_OK;
}

bool engine_workspace(engine_id id, const attn_problem *problem, attn_dtype dtype, int threads, size_t *bytes) {
    *bytes = 0;
    if (id == ENGINE_CACHE) {
        *bytes = cache_workspace(problem, dtype, threads);
        return true;
    }
    attn_plan *plan;
    attn_status status;
    if (!make_plan(problem, dtype, threads, facts[id].library_engine, &plan, &status))
        return false;
    status = attn_plan_workspace(plan, bytes);
    attn_plan_destroy(plan);
    return status == ATTN_OK;
}

static bool open_piece(engine_run *run, int64_t first, int64_t count) {
    const bench_case *c = run->c;
    row_piece *piece = &run->piece[run->pieces];
    piece->first = first;
    piece->count = count;
    piece->plan = NULL;
    piece->problem = c->data->problem_case->problem;
    if (run->sampled) {
        piece->problem.offset = base_offset(&piece->problem) + first;
        piece->problem.alignment = ATTN_ALIGN_OFFSET;
        piece->problem.flags |= ATTN_HAS_OFFSET;
        piece->problem.q_len = count;
    }
    const support_data *d = c->data;
    if (!check(run, attn_problem_flops(&piece->problem, d->q_lens, d->kv_lens, &piece->flops)))
        return false;
    size_t bytes = cache_workspace(&piece->problem, c->dtype, c->threads);
    if (run->id != ENGINE_CACHE) {
        double start = timing_now();
        attn_status status;
        if (!make_plan(&piece->problem, c->dtype, c->threads, facts[run->id].library_engine, &piece->plan, &status))
            return check(run, status);
        run->setup_seconds = timing_now() - start;
        run->pieces++;
        if (!check(run, attn_plan_workspace(piece->plan, &bytes)))
            return false;
    } else {
        run->pieces++;
    }
    if (bytes > run->workspace_bytes)
        run->workspace_bytes = bytes;
    run->rows += count;
    return true;
}

/* Pieces at even distances, the first row and the last among them. */
static bool open_sample(engine_run *run, int64_t q_len, int64_t max_rows) {
    int64_t pieces = max_rows < ENGINE_MAX_PIECES ? max_rows : ENGINE_MAX_PIECES;
    if (pieces < 2)
        pieces = 2;
    int64_t count = max_rows / pieces > 1 ? max_rows / pieces : 1;
    for (int64_t i = 0; i < pieces; i++)
        if (!open_piece(run, i * (q_len - count) / (pieces - 1), count))
            return false;
    return true;
}

bool engine_open(engine_run *run, engine_id id, const bench_case *c, int64_t max_rows) {
    *run = (engine_run){.id = id, .c = c, .project_scale = 1, .attend_scale = 1};
    const support_data *d = c->data;
    const attn_problem *p = &d->problem_case->problem;
    bool simple = (p->flags & ~SIMPLE_FLAGS) == 0;
    if (id == ENGINE_CACHE && !simple)
        return fail(run, ATTN_ERR_UNSUPPORTED,
                    "the cache-ordered loops do scale, causal, alignment and lengths, but no other option");
    if (!check(run, attn_problem_flops(p, d->q_lens, d->kv_lens, &run->attention_flops)))
        return false;
    double x_rows = (double)p->batch * (double)p->q_len;
    run->projection_flops = c->chain ? 3 * 2.0 * x_rows * (double)c->d_model * (double)c->d_model : 0;

    run->sampled = facts[id].loops && simple && !d->q_lens && !d->kv_lens && max_rows > 0 && max_rows < p->q_len / 2;
    if (!(run->sampled ? open_sample(run, p->q_len, max_rows) : open_piece(run, 0, p->q_len)))
        return false;
    if (run->sampled) {
        double flops = 0;
        for (int i = 0; i < run->pieces; i++)
            flops += run->piece[i].flops;
        run->attend_scale = flops > 0 ? run->attention_flops / flops : 1;
        run->project_scale = (double)p->q_len / (double)run->rows;
    }
    run->workspace = bench_memory(run->workspace_bytes);
    return run->workspace || fail(run, ATTN_ERR_NOMEM, "not enough memory for the workspace");
}

void engine_close(engine_run *run) {
    for (int i = 0; i < run->pieces; i++)
        attn_plan_destroy(run->piece[i].plan);
    free(run->workspace);
    run->workspace = NULL;
    run->pieces = 0;
}

/* ---- Projection -------------------------------------------------------------------------------------------------- */

static int64_t share_begin(int64_t n, int worker, int workers) {
    return n * worker / workers;
}

/* Rows begin .. begin+rows-1 of X by all three matrices. */
static void project_rows(engine_run *run, int64_t begin, int64_t rows) {
    const bench_case *c = run->c;
    bool textbook = run->id == ENGINE_NAIVE;
    int64_t d = c->d_model;
    for (int m = 0; m < 3; m++) {
        const void *x = at(c->dtype, c->x, begin * d);
        void *y = at(c->dtype, c->qkv, begin * 3 * d + m * d);
        if (c->dtype == ATTN_F32)
            (textbook ? textbook_project_f32 : cache_ordered_project_f32)(rows, d, d, x, d, c->w[m], d, y, 3 * d);
        else
            (textbook ? textbook_project_f64 : cache_ordered_project_f64)(rows, d, d, x, d, c->w[m], d, y, 3 * d);
    }
}

/* One worker's part of the rows of each piece and member, by the loops. */
static void project_by_loops(void *argument, int worker, int workers) {
    engine_run *run = argument;
    const attn_problem *whole = &run->c->data->problem_case->problem;
    for (int64_t b = 0; b < whole->batch; b++)
        for (int i = 0; i < run->pieces; i++) {
            int64_t begin = share_begin(run->piece[i].count, worker, workers);
            int64_t end = share_begin(run->piece[i].count, worker + 1, workers);
            project_rows(run, b * whole->q_len + run->piece[i].first + begin, end - begin);
        }
}

bool engine_project(void *argument) {
    engine_run *run = argument;
    const bench_case *c = run->c;
    if (!c->chain)
        return true;
    if (facts[run->id].loops) {
        team_run(c->threads, project_by_loops, run);
        return true;
    }
    attn_context context = ATTN_CONTEXT_INIT;
    context.threads = c->threads;
    int64_t batch = c->data->problem_case->problem.batch, rows = c->data->problem_case->problem.q_len;
    int64_t d = c->d_model, n = 3 * d;
    if (c->dtype == ATTN_F32)
        return check(run, attn_project_f32(&context, batch, rows, d, n, c->x, rows * d, d, c->w_packed, n, NULL, c->qkv,
                                           rows * n, n));
    return check(run, attn_project_f64(&context, batch, rows, d, n, c->x, rows * d, d, c->w_packed, n, NULL, c->qkv,
                                       rows * n, n));
}

/* ---- Attention by the cache-ordered loops ------------------------------------------------------------------------ */

typedef struct attention_arrays {
    const void *q, *k, *v;
    void *out, *lse;
} attention_arrays;

/* The arrays of a run; sampled rows of a chain attend to the checked K and V. */
static attention_arrays arrays_of(const engine_run *run) {
    const bench_case *c = run->c;
    const support_data *d = c->data;
    attention_arrays a = {d->base[SUPPORT_Q], d->base[SUPPORT_K], d->base[SUPPORT_V], d->base[SUPPORT_OUT],
                          d->base[SUPPORT_LSE]};
    if (c->chain && run->sampled) {
        a.k = at(c->dtype, c->qkv_checked, c->d_model);
        a.v = at(c->dtype, c->qkv_checked, 2 * c->d_model);
    }
    return a;
}

static int64_t member_length(const int64_t *lengths, int64_t b, int64_t full) {
    return lengths ? lengths[b] : full;
}

static void transpose_keys(void *argument, int worker, int workers) {
    engine_run *run = argument;
    const attn_problem *p = &run->piece[0].problem;
    const support_data *d = run->c->data;
    attn_dtype dtype = run->c->dtype;
    attention_arrays a = arrays_of(run);
    for (int64_t head = worker; head < p->batch * p->kv_heads; head += workers) {
        int64_t b = head / p->kv_heads, h = head % p->kv_heads;
        int64_t keys = member_length(d->kv_lens, b, p->kv_len);
        const void *k = at(dtype, a.k, b * p->k.batch + h * p->k.head);
        void *kt = at(dtype, run->workspace, head * p->head_dim * p->kv_len);
        if (dtype == ATTN_F32)
            cache_ordered_transpose_f32(keys, p->head_dim, k, p->k.row, kt, p->kv_len);
        else
            cache_ordered_transpose_f64(keys, p->head_dim, k, p->k.row, kt, p->kv_len);
    }
}

static bool scale_is_zero(const attn_problem *p) {
    return (p->flags & ATTN_HAS_SCALE) && p->scale == 0;
}

bool engine_prepare(void *argument) {
    engine_run *run = argument;
    if (run->id == ENGINE_CACHE && !scale_is_zero(&run->piece[0].problem))
        team_run(run->c->threads, transpose_keys, run);
    return true;
}

/* Row i (counted in the piece) of one head. */
static void attend_row(engine_run *run, const row_piece *piece, const attention_arrays *a, int64_t b, int64_t h,
                       int64_t i, void *scores) {
    const attn_problem *p = &piece->problem;
    const support_data *d = run->c->data;
    attn_dtype dtype = run->c->dtype;
    int64_t q_len = member_length(d->q_lens, b, p->q_len), visible = member_length(d->kv_lens, b, p->kv_len);
    int64_t row = run->sampled ? piece->first + i : i;
    int64_t offset = p->alignment == ATTN_ALIGN_BOTTOM_RIGHT ? visible - q_len : base_offset(p);
    int64_t kv_head = h / (p->q_heads / p->kv_heads);
    double scale = p->flags & ATTN_HAS_SCALE ? p->scale : 1 / sqrt((double)p->head_dim);
    if ((p->flags & ATTN_CAUSAL) && i + offset + 1 < visible)
        visible = i + offset + 1;
    if (i >= q_len)
        visible = 0;

    const void *q = at(dtype, a->q, b * p->q.batch + h * p->q.head + row * p->q.row);
    const void *kt = at(dtype, run->workspace, (b * p->kv_heads + kv_head) * p->head_dim * p->kv_len);
    const void *v = at(dtype, a->v, b * p->v.batch + kv_head * p->v.head);
    void *out = at(dtype, a->out, b * p->out.batch + h * p->out.head + row * p->out.row);
    double lse = dtype == ATTN_F32 ? cache_ordered_attend_f32(visible, p->head_dim, p->v_dim, scale, q, kt, p->kv_len,
                                                              v, p->v.row, scores, out)
                                   : cache_ordered_attend_f64(visible, p->head_dim, p->v_dim, scale, q, kt, p->kv_len,
                                                              v, p->v.row, scores, out);
    if (a->lse)
        support_store(dtype, a->lse, b * p->lse.batch + h * p->lse.head + row * p->lse.row, lse);
}

/* Every workers-th row, so that causal rows are shared out evenly. */
static void attend_by_loops(void *argument, int worker, int workers) {
    engine_run *run = argument;
    const attn_problem *whole = &run->piece[0].problem;
    attention_arrays a = arrays_of(run);
    int64_t kt_size = whole->batch * whole->kv_heads * whole->head_dim * whole->kv_len;
    void *scores = at(run->c->dtype, run->workspace, kt_size + worker * whole->kv_len);
    for (int64_t b = 0; b < whole->batch; b++)
        for (int64_t h = 0; h < whole->q_heads; h++)
            for (int i = 0; i < run->pieces; i++)
                for (int64_t row = worker; row < run->piece[i].count; row += workers)
                    attend_row(run, &run->piece[i], &a, b, h, row, scores);
}

/* ---- Attention by the library ------------------------------------------------------------------------------------ */

static attn_status run_plan(engine_run *run, const row_piece *piece) {
    const support_data *d = run->c->data;
    attn_dtype dtype = run->c->dtype;
    const attn_problem *p = &piece->problem;
    attention_arrays a = arrays_of(run);
    if (run->sampled) {
        a.q = at(dtype, a.q, piece->first * p->q.row);
        a.out = at(dtype, a.out, piece->first * p->out.row);
        a.lse = at(dtype, a.lse, piece->first * p->lse.row);
    }
    if (dtype == ATTN_F32) {
        attn_args_f32 args = d->args32;
        args.q = a.q, args.k = a.k, args.v = a.v, args.out = a.out, args.lse = a.lse;
        return attn_plan_run_f32(piece->plan, &args, run->workspace, run->workspace_bytes);
    }
    attn_args_f64 args = d->args64;
    args.q = a.q, args.k = a.k, args.v = a.v, args.out = a.out, args.lse = a.lse;
    return attn_plan_run_f64(piece->plan, &args, run->workspace, run->workspace_bytes);
}

bool engine_attend(void *argument) {
    engine_run *run = argument;
    if (run->id == ENGINE_CACHE) {
        team_run(run->c->threads, attend_by_loops, run);
        return true;
    }
    for (int i = 0; i < run->pieces; i++)
        if (!check(run, run_plan(run, &run->piece[i])))
            return false;
    return true;
}

bool engine_call(void *run) {
    return engine_project(run) && engine_prepare(run) && engine_attend(run);
}
