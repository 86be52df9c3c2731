/* attn-bench layer: times a multi-head layer, as a plan with its workspace. */
#include <attn/layer.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "interrupt.h"
#include "machine.h"
#include "memory.h"
#include "progress.h"
#include "report.h"
#include "subcommands.h"
#include "timing.h"

/* More rows than this are checked on a layer of so many: still enough for the path of long members. */
#define CHECKED_ROWS 40

/* A layer ready to run. */
typedef struct layer_run {
    support_layer *l;
    support_layer_data data;
    attn_cache *cache;
    attn_layer_plan *plan;
    void *workspace;
    size_t workspace_bytes;
    attn_status status;
} layer_run;

static bool make_cache(layer_run *run) {
    const support_layer *l = run->l;
    const attn_problem *p = &l->heads->problem;
    attn_cache_sizes sizes = ATTN_CACHE_SIZES_INIT;
    sizes.batch = p->batch;
    sizes.kv_heads = p->kv_heads;
    sizes.capacity = l->capacity;
    sizes.head_dim = p->head_dim;
    sizes.v_dim = p->v_dim;
    const attn_strides k = {p->kv_heads * l->past * p->head_dim, l->past * p->head_dim, p->head_dim};
    const attn_strides v = {p->kv_heads * l->past * p->v_dim, l->past * p->v_dim, p->v_dim};
    const void *past_k = run->data.array[SUPPORT_LAYER_PAST_K], *past_v = run->data.array[SUPPORT_LAYER_PAST_V];
    run->status = attn_cache_create(NULL, &sizes, run->data.dtype, &run->cache);
    if (run->status == ATTN_OK)
        run->status = run->data.dtype == ATTN_F32
                          ? attn_cache_append_all_f32(run->cache, l->past, NULL, past_k, k, past_v, v)
                          : attn_cache_append_all_f64(run->cache, l->past, NULL, past_k, k, past_v, v);
    run->data.args32.cache = run->data.args64.cache = run->cache;
    return run->status == ATTN_OK;
}

static void close_run(layer_run *run) {
    attn_layer_plan_destroy(run->plan);
    attn_cache_destroy(run->cache);
    if (run->data.l)
        support_layer_data_destroy(&run->data);
    support_layer_free(run->l);
    free(run->workspace);
}

static bool open_run(layer_run *run, support_layer *l, attn_dtype dtype, int threads) {
    attn_context context = ATTN_CONTEXT_INIT;
    context.threads = threads;
    *run = (layer_run){.l = l, .status = ATTN_ERR_NOMEM};
    if (!support_layer_data_create(&run->data, l, dtype) || (l->cached && !make_cache(run)))
        return false;
    run->status = attn_layer_plan_create(&context, &run->data.layer, dtype, &run->plan);
    if (run->status != ATTN_OK || attn_layer_plan_workspace(run->plan, &run->workspace_bytes) != ATTN_OK)
        return false;
    run->status = ATTN_ERR_NOMEM;
    run->workspace = bench_memory(run->workspace_bytes);
    return run->workspace != NULL;
}

/* One run from the same state of the cache. */
static bool call(void *argument) {
    layer_run *run = argument;
    run->status = run->cache ? attn_cache_truncate(run->cache, ATTN_CACHE_ALL, run->l->past) : ATTN_OK;
    if (run->status == ATTN_OK)
        run->status = run->data.dtype == ATTN_F32
                          ? attn_layer_plan_run_f32(run->plan, &run->data.args32, run->workspace, run->workspace_bytes)
                          : attn_layer_plan_run_f64(run->plan, &run->data.args64, run->workspace, run->workspace_bytes);
    return run->status == ATTN_OK;
}

static void give_up(bench_result *r, const layer_run *run) {
    r->state = run->status == ATTN_ERR_NOMEM ? RESULT_FAILED : RESULT_REFUSED;
    snprintf(r->note, sizeof r->note, "%s",
             run->status == ATTN_ERR_NOMEM ? "not enough memory for the arrays" : attn_last_error());
}

/* Runs the layer, or a shorter one, and compares every row. */
static bool check(const bench_options *options, bench_result *r) {
    layer_run run;
    support_report report;
    bool passed = open_run(&run, parse_layer(options, CHECKED_ROWS), r->dtype, r->threads) && call(&run);
    if (!passed) {
        give_up(r, &run);
    } else if (!support_layer_verify(&run.data, &report)) {
        passed = false;
        r->state = RESULT_FAILED;
        snprintf(r->note, sizeof r->note, "disagrees with the oracle, not timed: %.400s", report.text);
    } else {
        r->error_share = report.worst;
        r->error_abs = report.error_max;
        r->error_eps = report.error_eps;
    }
    close_run(&run);
    return passed;
}

/* Weights, biases and the keys and values that attention reads, each once. */
static double bytes_read(const layer_run *run) {
    const attn_problem *p = &run->l->heads->problem;
    double elements = 0, size = run->data.dtype == ATTN_F32 ? sizeof(float) : sizeof(double);
    for (int array = SUPPORT_LAYER_W; array < SUPPORT_LAYER_Y; array++)
        elements += (double)run->data.elements[array];
    for (int64_t b = 0; b < p->batch; b++)
        elements += (double)support_case_kv_len(run->l->heads, b) * (double)p->kv_heads *
                    ((double)p->head_dim + (double)p->v_dim);
    return elements * size;
}

static bool total_flops(layer_run *run, double *flops) {
    const support_layer *l = run->l;
    int64_t batch = l->heads->problem.batch;
    int64_t *lengths = malloc((size_t)(3 * batch + 1) * sizeof *lengths);
    run->status = ATTN_ERR_NOMEM;
    if (!lengths)
        return false;
    for (int64_t b = 0; b < batch; b++) {
        lengths[b] = support_layer_q_len(l, b);
        lengths[batch + b] = support_layer_new_keys(l, b);
        lengths[2 * batch + b] = l->past;
    }
    run->status =
        attn_layer_flops(&run->data.layer, lengths, lengths + batch, l->cached ? lengths + 2 * batch : NULL, flops);
    free(lengths);
    return run->status == ATTN_OK;
}

static void measure(const bench_options *options, const timing_goal *goal, peaks *ceilings, bench_result *r) {
    layer_run run;
    timing_stats stats;
    if (!check(options, r))
        return;
    peaks_measure(ceilings, r->dtype, r->threads);
    if (open_run(&run, parse_layer(options, INT64_MAX), r->dtype, r->threads) && total_flops(&run, &r->flops) &&
        timing_measure(call, &run, goal, &stats)) {
        double size = r->dtype == ATTN_F32 ? sizeof(float) : sizeof(double);
        r->state = RESULT_TIMED;
        r->ms_median = stats.median * 1e3;
        r->ms_min = stats.best * 1e3;
        r->ms_cpu = stats.cpu * 1e3;
        r->spread = stats.spread;
        r->samples = stats.samples;
        r->workspace_bytes = (double)run.workspace_bytes;
        r->kv_bytes = bytes_read(&run);
        r->working_set_bytes = r->kv_bytes + r->workspace_bytes +
                               size * (double)(run.data.elements[SUPPORT_LAYER_X] + run.data.elements[SUPPORT_LAYER_Y]);
        for (int64_t i = 0; i < run.data.elements[SUPPORT_LAYER_Y]; i++)
            r->checksum += support_load(r->dtype, run.data.array[SUPPORT_LAYER_Y], i);
        result_set_peaks(r, ceilings);
    } else {
        give_up(r, &run);
    }
    close_run(&run);
}

int sub_layer(const bench_options *options) {
    support_layer *l = parse_layer(options, INT64_MAX);
    options_check_files(options);
    FILE *text = options_text_stream(options);
    timing_goal goal = {.floor_seconds = options->min_time >= 0 ? options->min_time : 0.5,
                        .min_samples = options->repeat ? options->repeat : 5,
                        .max_samples = TIMING_MAX_SAMPLES,
                        .enough = interrupt_requested,
                        .warm_up = true};
    unsigned dtypes = options->dtypes ? options->dtypes : 1u << ATTN_F32;
    machine m;
    peaks ceilings = {0};
    result_list list = {0};
    progress bar;
    interrupt_catch();
    machine_read(&m, options->threads);
    if (!options->quiet)
        machine_print(&m, text);
    fflush(text);
    progress_begin(&bar, 0, 0, options->quiet);
    int status = 0;
    for (int dtype = 0; dtype < 2; dtype++) {
        if (!(dtypes & 1u << dtype))
            continue;
        bench_result *r = result_add(&list);
        r->kind = RESULT_LAYER;
        r->engine = "layer";
        r->dtype = (attn_dtype)dtype;
        r->threads = options->threads;
        r->d_model = l->d_model;
        r->len = l->heads->problem.q_len;
        r->batch = l->heads->problem.batch;
        r->heads = l->heads->problem.q_heads;
        r->head_dim = l->heads->problem.head_dim;
        snprintf(r->problem, sizeof r->problem, "layer %.120s %.120s", options->operand, options->second);
        char step[32];
        snprintf(step, sizeof step, "%s %s", r->engine, dtype_name(r->dtype));
        progress_show(&bar, step);
        measure(options, &goal, &ceilings, r);
        status |= r->state != RESULT_TIMED;
    }
    progress_hide(&bar);
    if (!options->quiet)
        report_peaks(&ceilings, 1, text);
    report_sdpa_table(&list, 0, text);
    for (size_t i = 0; i < list.count; i++)
        if (list.item[i].state == RESULT_TIMED && !options->quiet)
            fprintf(text, "%s: %.0f %% of the read bandwidth at this working set, %.1f GB/s\n",
                    dtype_name(list.item[i].dtype), 100 * result_gbytes_per_s(&list.item[i]) / list.item[i].read_peak,
                    list.item[i].read_peak);
    if (!options->quiet)
        report_notes(&list, text);
    machine_finish(&m, options->quiet ? NULL : text);
    status = worse_status(status, report_files(options, &m, &ceilings, 1, &list));
    result_list_free(&list);
    support_layer_free(l);
    return interrupted ? EXIT_INTERRUPTED : status;
}
