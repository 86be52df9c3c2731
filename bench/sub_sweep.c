/* attn-bench sweep: the chain X -> Z over growing d_model and length, naive against BLAS.
 *
 * X [batch, len, d_model] is projected by three d_model x d_model matrices, then comes one attention call with heads of
 * 64 unless told otherwise, reading Q, K and V by strides where the projection left them, side by side in one array.
 * The library's projection is one product with the three matrices side by side: up to a tenth faster than three
 * products for small d_model (cblas_sgemm, d_model 64, OpenBLAS 0.3.21 on 2 cores of Zen 3, 2026-11-30), no different
 * for large. The loops without BLAS take the three matrices one after the other.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <attn/chain.h>

#include "extras.h"
#include "interrupt.h"
#include "machine.h"
#include "measure.h"
#include "progress.h"
#include "report.h"
#include "report_folder.h"
#include "subcommands.h"
#include "sweep_plan.h"

/* ---- Data of one d_model and batch, shared by all lengths, heads and numbers of threads -------------------------- */

typedef struct sweep_data {
    attn_dtype dtype;
    int64_t d_model, rows; /* the most rows of X that it serves, over all batch members */
    void *x, *w[3], *w_packed, *qkv, *qkv_checked, *out;
} sweep_data;

static size_t element_size(attn_dtype dtype) {
    return dtype == ATTN_F32 ? sizeof(float) : sizeof(double);
}

static void data_free(sweep_data *d) {
    free(d->x);
    free(d->w_packed);
    free(d->qkv);
    free(d->qkv_checked);
    free(d->out);
    for (int i = 0; i < 3; i++)
        free(d->w[i]);
    *d = (sweep_data){0};
}

static double data_bytes(const sweep_cell *cell, int64_t len) {
    double rows = (double)cell->batch * (double)len, d = (double)cell->d_model;
    return (double)element_size(cell->dtype) * d * (6 * d + 8 * rows);
}

/* X of unit variance, W of variance 1 / d_model, so that Q, K and V have unit variance again. */
static bool data_create(sweep_data *d, int64_t d_model, int64_t rows, attn_dtype dtype, uint64_t seed) {
    data_free(d);
    d->dtype = dtype;
    d->d_model = d_model;
    d->rows = rows;
    int64_t square = d_model * d_model;
    double factor = 1 / __builtin_sqrt((double)d_model);
    d->x = support_alloc_poisoned(dtype, rows * d_model);
    d->qkv = support_alloc_poisoned(dtype, 3 * rows * d_model);
    d->qkv_checked = support_alloc_poisoned(dtype, 3 * rows * d_model);
    d->out = support_alloc_poisoned(dtype, rows * d_model);
    d->w_packed = support_alloc_poisoned(dtype, 3 * square);
    bool complete = d->x && d->qkv && d->qkv_checked && d->out && d->w_packed;
    for (int i = 0; i < 3; i++) {
        d->w[i] = support_alloc_poisoned(dtype, square);
        complete &= d->w[i] != NULL;
    }
    if (!complete) {
        data_free(d);
        return false;
    }
    support_fill_normal(dtype, d->x, rows * d_model, seed, 0, 0, 1);
    size_t row = (size_t)d_model * element_size(dtype);
    for (int i = 0; i < 3; i++) {
        support_fill_normal(dtype, d->w[i], square, seed, 1 + (uint64_t)i, 0, factor);
        for (int64_t r = 0; r < d_model; r++)
            memcpy((char *)d->w_packed + (size_t)(3 * r + i) * row, (char *)d->w[i] + (size_t)r * row, row);
    }
    return true;
}

/* ---- One cell ---------------------------------------------------------------------------------------------------- */

typedef struct sweep {
    const bench_options *options;
    sweep_plan plan;
    peaks *ceilings; /* of each number of threads of the plan */
    machine where;
    result_list list;
    extras more;
    progress bar;
    sweep_data data;
    int points; /* that were run, not left out as a whole */
    FILE *text;
} sweep;

/* The problem string of a cell's attention. */
static void write_problem(const sweep_cell *cell, char *text, size_t size) {
    snprintf(text, size, "b%lldh%lldq%lldk%lldd%lld,layout=qkv", (long long)cell->batch, (long long)cell->heads,
             (long long)cell->len, (long long)cell->len, (long long)(cell->d_model / cell->heads));
}

/* The sizes of a shape, as for attention alone. */
static void set_shape(const sweep_cell *cell, bench_result *r) {
    snprintf(r->shape, sizeof r->shape, "%s", cell->shape->name);
    snprintf(r->problem, sizeof r->problem, "%s", cell->shape->problem);
    support_case *c = support_case_parse(cell->shape->problem, NULL, 0);
    if (c)
        result_set_sizes(r, &c->problem);
    support_case_free(c);
}

static bench_result *add_result(sweep *s, const sweep_cell *cell, const char *engine) {
    bench_result *r = result_add(&s->list);
    r->engine = engine;
    r->dtype = cell->dtype;
    r->threads = cell->threads;
    if (cell->shape) {
        set_shape(cell, r);
        return r;
    }
    r->kind = RESULT_CHAIN;
    r->d_model = cell->d_model;
    r->len = cell->len;
    r->batch = cell->batch;
    r->heads = cell->heads;
    r->head_dim = cell->d_model / cell->heads;
    write_problem(cell, r->problem, sizeof r->problem);
    return r;
}

static void add_untimed(sweep *s, const sweep_cell *cell, result_state state, const char *note) {
    bench_result *r = add_result(s, cell, "all");
    r->state = state;
    snprintf(r->note, sizeof r->note, "%s", note);
}

/* Points a case and its support data at the arrays of the sweep. */
static void make_case(sweep *s, const sweep_cell *cell, const support_case *problem_case, support_data *data,
                      bench_case *c) {
    const sweep_data *d = &s->data;
    size_t part = (size_t)d->d_model * element_size(d->dtype);
    *data = (support_data){.problem_case = problem_case, .dtype = d->dtype};
    int64_t elements = cell->batch * cell->len * d->d_model;
    for (int i = 0; i < 3; i++) {
        data->base[SUPPORT_Q + i] = (char *)d->qkv + (size_t)i * part;
        data->elements[SUPPORT_Q + i] = 3 * elements - i * d->d_model;
    }
    data->base[SUPPORT_OUT] = d->out;
    data->elements[SUPPORT_OUT] = elements;
    attn_args_init_f32(&data->args32, sizeof data->args32);
    attn_args_init_f64(&data->args64, sizeof data->args64);
    *c = (bench_case){.dtype = d->dtype,
                      .threads = cell->threads,
                      .data = data,
                      .chain = true,
                      .d_model = d->d_model,
                      .x = d->x,
                      .w = {d->w[0], d->w[1], d->w[2]},
                      .w_packed = d->w_packed,
                      .qkv = d->qkv,
                      .qkv_checked = d->qkv_checked};
}

/* The library's projection into qkv_checked, compared with the oracle: K and V for engines that run on sampled rows. */
static bool make_checked_projection(const bench_case *c, const projection_oracle *oracle, char *note, size_t size) {
    attn_context context = ATTN_CONTEXT_INIT;
    context.threads = c->threads;
    int64_t batch = c->data->problem_case->problem.batch, rows = c->data->problem_case->problem.q_len, d = c->d_model;
    void *y = (void *)(uintptr_t)c->qkv_checked;
    attn_status status = c->dtype == ATTN_F32 ? attn_project_f32(&context, batch, rows, d, 3 * d, c->x, rows * d, d,
                                                                 c->w_packed, 3 * d, NULL, y, rows * 3 * d, 3 * d)
                                              : attn_project_f64(&context, batch, rows, d, 3 * d, c->x, rows * d, d,
                                                                 c->w_packed, 3 * d, NULL, y, rows * 3 * d, 3 * d);
    verdict v = {0};
    if (status != ATTN_OK)
        snprintf(note, size, "%s", attn_last_error());
    else if (!verify_projection(oracle, c, y, false, &v))
        snprintf(note, size, "disagrees with the oracle, not timed: %.400s", v.text);
    return status == ATTN_OK && v.passed;
}

/* BLAS engines first: they show soonest whether something is wrong, and caches are cold for all alike. */
static const engine_id order[] = {ENGINE_BLAS, ENGINE_FUSED, ENGINE_AUTO, ENGINE_CACHE, ENGINE_NAIVE};

/* What a step of a cell is about. */
static void name_step(const sweep_cell *cell, const char *what, char *text, size_t size) {
    if (cell->shape)
        snprintf(text, size, "%s, %s %s", cell->shape->name, what, dtype_name(cell->dtype));
    else
        snprintf(text, size, "d_model %lld, length %lld, %s %s", (long long)cell->d_model, (long long)cell->len, what,
                 dtype_name(cell->dtype));
}

static void run_engines(sweep *s, const sweep_cell *cell, const bench_case *c, const projection_oracle *oracle) {
    for (size_t i = 0; i < sizeof order / sizeof *order; i++) {
        if (!(s->plan.engines & ENGINE_BIT(order[i])))
            continue;
        bench_result *r = add_result(s, cell, engine_name(order[i]));
        if (interrupted) {
            r->state = RESULT_LEFT_OUT;
            snprintf(r->note, sizeof r->note, "interrupted");
            continue;
        }
        if (cell->shape && !measure_is_possible(c->data->problem_case, order[i], cell->dtype, cell->threads, r->note,
                                                sizeof r->note)) {
            r->state = RESULT_REFUSED;
            continue;
        }
        char step[160];
        name_step(cell, engine_name(order[i]), step, sizeof step);
        progress_show(&s->bar, step);
        measure_settings settings = sweep_cell_settings(&s->plan, cell, order[i], s->options->seed);
        settings.cold = s->options->cold;
        measure_engine(c, order[i], &settings, oracle, r);
        result_set_peaks(r, &s->ceilings[cell->ceilings]);
        progress_step(&s->bar, cell->engine[order[i]]);
    }
}

/* What a report adds here, apart from the timed runs and after them. */
static void run_extras(sweep *s, const sweep_cell *cell, const bench_case *c, const projection_oracle *oracle) {
    if (!cell->extras || interrupted)
        return;
    char step[160];
    name_step(cell, "for the report:", step, sizeof step);
    progress_show(&s->bar, step);
    bench_result like = s->list.item[s->list.count - 1];
    extras_run(&s->more, &s->plan, cell, c, oracle, s->options->seed, &like, &s->list);
    progress_step(&s->bar, cell->extra_seconds);
}

/* The longest length with the cell's data that is run and whose arrays fit memory, at least the cell's own. */
static int64_t longest_that_fits(const sweep_plan *plan, const sweep_cell *like, double available) {
    int64_t longest = like->len;
    for (int i = 0; i < plan->count; i++) {
        const sweep_cell *cell = &plan->cell[i];
        if (!cell->left_out && sweep_cell_same_data(cell, like) && cell->len > longest &&
            (available <= 0 || data_bytes(cell, cell->len) < 0.9 * available))
            longest = cell->len;
    }
    return longest;
}

/* Arrays for a cell, made once for all that share them; false with a note. */
static bool provide_data(sweep *s, const sweep_cell *cell, char *note, size_t size) {
    sweep_data *d = &s->data;
    bool other = !d->x || d->d_model != cell->d_model || d->dtype != cell->dtype;
    if (!other && cell->batch * cell->len <= d->rows)
        return true;
    data_free(d);
    double available = machine_available_memory(), need = data_bytes(cell, cell->len);
    if ((available <= 0 || need < 0.9 * available) &&
        data_create(d, cell->d_model, cell->batch * longest_that_fits(&s->plan, cell, available), cell->dtype,
                    s->options->seed))
        return true;
    char a[16], b[16];
    snprintf(note, size, "does not fit: the arrays need %s, %s of memory are available", human_bytes(need, a),
             human_bytes(available, b));
    return false;
}

/* False, with the reason of the last, when no engine can do a shape: then its data need not be made. */
static bool any_is_possible(const sweep *s, const sweep_cell *cell, const support_case *c, char *note, size_t size) {
    for (int id = 0; id < ENGINE_COUNT; id++)
        if ((s->plan.engines & ENGINE_BIT(id)) &&
            measure_is_possible(c, (engine_id)id, cell->dtype, cell->threads, note, size))
            return true;
    return false;
}

/* Attention alone, as attn-bench sdpa. False when the whole cell failed. */
static bool run_shape(sweep *s, const sweep_cell *cell) {
    char note[512] = "";
    support_case *problem_case = support_case_parse(cell->shape->problem, note, sizeof note);
    support_data data;
    bool ran = false;
    if (!problem_case) {
        add_untimed(s, cell, RESULT_FAILED, note);
    } else if (!any_is_possible(s, cell, problem_case, note, sizeof note)) {
        add_untimed(s, cell, RESULT_REFUSED, note);
    } else if (!support_data_create(&data, problem_case, cell->dtype)) {
        add_untimed(s, cell, RESULT_LEFT_OUT, "not enough memory for the arrays");
    } else {
        bench_case c = {.dtype = cell->dtype, .threads = cell->threads, .data = &data};
        progress_step(&s->bar, cell->setup);
        run_engines(s, cell, &c, NULL);
        run_extras(s, cell, &c, NULL);
        support_data_destroy(&data);
        ran = true;
    }
    support_case_free(problem_case);
    return ran;
}

/* False when the whole cell was left out or failed. */
static bool run_cell(sweep *s, const sweep_cell *cell) {
    char text[160], note[512] = "";
    name_step(cell, "data", text, sizeof text);
    progress_show(&s->bar, text);
    if (cell->shape)
        return run_shape(s, cell);
    write_problem(cell, text, sizeof text);
    support_case *problem_case = support_case_parse(text, note, sizeof note);
    projection_oracle oracle = {0};
    support_data data;
    bench_case c;
    bool ran = false;
    if (!problem_case) {
        add_untimed(s, cell, RESULT_FAILED, note);
    } else if (!provide_data(s, cell, note, sizeof note)) {
        add_untimed(s, cell, RESULT_LEFT_OUT, note);
    } else {
        make_case(s, cell, problem_case, &data, &c);
        if (!projection_oracle_open(&oracle, &c, s->options->seed))
            add_untimed(s, cell, RESULT_LEFT_OUT, "not enough memory for the oracle");
        else if (!make_checked_projection(&c, &oracle, note, sizeof note))
            add_untimed(s, cell, RESULT_FAILED, note);
        else {
            progress_step(&s->bar, cell->setup);
            run_engines(s, cell, &c, &oracle);
            run_extras(s, cell, &c, &oracle);
            ran = true;
        }
    }
    projection_oracle_close(&oracle);
    support_case_free(problem_case);
    return ran;
}

/* ---- The whole --------------------------------------------------------------------------------------------------- */

/* No point begins that would end later than so many budgets after the start. */
#define BUDGET_MARGIN 1.1

static void run_cells(sweep *s, double start) {
    const sweep_plan *plan = &s->plan;
    size_t table = 0; /* first entry of the table that comes next */
    for (int i = 0; i < plan->count; i++) {
        const sweep_cell *cell = &plan->cell[i];
        double end = timing_now() - start + progress_pace(&s->bar) * sweep_cell_seconds(cell);
        char note[96];
        snprintf(note, sizeof note, "a budget of %.0f s", plan->budget);
        if (interrupted)
            add_untimed(s, cell, RESULT_LEFT_OUT, "interrupted");
        else if (cell->left_out)
            add_untimed(s, cell, RESULT_LEFT_OUT, note);
        else if (s->points > 0 && end > BUDGET_MARGIN * plan->budget) {
            snprintf(note, sizeof note, "a budget of %.0f s, and the run is slower than planned", plan->budget);
            progress_skip(&s->bar, sweep_cell_seconds(cell));
            add_untimed(s, cell, RESULT_LEFT_OUT, note);
        } else {
            s->points += run_cell(s, cell);
        }
        if (i + 1 == plan->count || !sweep_cell_same_table(cell, &plan->cell[i + 1])) {
            progress_hide(&s->bar);
            if (cell->shape)
                report_sdpa_table(&s->list, table, s->text);
            else
                report_chain_table(&s->list, &s->list.item[s->list.count - 1], plan->engines, s->text);
            table = s->list.count;
            fflush(s->text);
        }
    }
}

static int finish(sweep *s, double start) {
    int status = 0;
    bool timed = false;
    for (size_t i = 0; i < s->list.count; i++) {
        status |= s->list.item[i].state == RESULT_FAILED;
        timed |= s->list.item[i].state == RESULT_TIMED;
    }
    status |= !timed;
    if (!s->options->quiet || status)
        report_notes(&s->list, s->text);
    else
        report_untimed(&s->list, s->text);
    machine_finish(&s->where, s->options->quiet ? NULL : s->text);
    if (!s->options->quiet)
        fprintf(s->text, "Done in %.0f s: %d of %d points were run.\n", timing_now() - start, s->points, s->plan.count);
    report_summary(&s->list, s->text);
    report_bars(&s->list, s->text);
    status = worse_status(status, report_files(s->options, &s->where, s->ceilings, s->plan.threads.count, &s->list));
    if (s->options->report) {
        extras_add_memory(&s->more, &s->list, s->where.available);
        report_input input = {&s->where, s->ceilings, s->plan.threads.count, &s->list, &s->more};
        if (!report_folder_write(s->options->report, &input, s->text))
            status = EXIT_UNWRITTEN;
    }
    return interrupted ? EXIT_INTERRUPTED : status;
}

/* Of each number of threads; what one thread can do is measured once. */
static void measure_ceilings(sweep *s) {
    for (int i = 0; i < s->plan.threads.count; i++)
        for (int dtype = 0; dtype < 2; dtype++) {
            s->ceilings[i].one[dtype] = s->ceilings[0].one[dtype];
            if (s->plan.dtypes & 1u << dtype)
                peaks_measure(&s->ceilings[i], (attn_dtype)dtype, (int)s->plan.threads.item[i]);
        }
}

int sub_sweep(const bench_options *options) {
    double start = timing_now();
    options_check_files(options);
    sweep *s = calloc(1, sizeof *s);
    bool planned = s && sweep_plan_grid(&s->plan, options);
    if (planned)
        s->ceilings = calloc((size_t)s->plan.threads.count, sizeof *s->ceilings);
    if (!planned || !s->ceilings) {
        fputs("attn-bench: not enough memory\n", stderr);
        if (s)
            sweep_plan_free(&s->plan);
        free(s);
        return 1;
    }
    s->options = options;
    s->text = options_text_stream(options);
    interrupt_catch();
    machine_read(&s->where, (int)s->plan.threads.item[s->plan.threads.count - 1]);
    if (!options->quiet)
        machine_print(&s->where, s->text);
    measure_ceilings(s);
    double used = timing_now() - start, kept = options->report ? EXTRAS_SHARE * (s->plan.budget - used) : 0;
    sweep_plan_fit(&s->plan, s->ceilings, used + kept);
    if (options->report)
        extras_choose(&s->more, &s->plan, kept);
    if (!options->quiet) {
        report_peaks(s->ceilings, s->plan.threads.count, s->text);
        fprintf(s->text, "  %-16s %d of %d points, about %.0f s of %.0f s, %.0f s of them for the ceilings\n", "plan",
                sweep_plan_cells(&s->plan), s->plan.count, used + s->plan.seconds, s->plan.budget, used);
        fflush(s->text);
    }
    progress_begin(&s->bar, s->plan.seconds, BUDGET_MARGIN * s->plan.budget - used, options->quiet);
    run_cells(s, start);
    int status = finish(s, start);
    data_free(&s->data);
    sweep_plan_free(&s->plan);
    result_list_free(&s->list);
    free(s->ceilings);
    extras_free(&s->more);
    free(s);
    return status;
}
