/* Results as JSON. docs/bench.md explains every field. */
#include <jansson.h>
#include <math.h>

#include "report.h"

/* A number, null when it is not finite. */
static void set_real(json_t *object, const char *key, double value) {
    json_object_set_new(object, key, isfinite(value) ? json_real(value) : json_null());
}

/* A count that is kept as a double: exact to the last digit as long as the double is. */
static void set_count(json_t *object, const char *key, double value) {
    if (fabs(value) < 9e18)
        json_object_set_new(object, key, json_integer((json_int_t)value));
    else
        set_real(object, key, value);
}

static void set_text(json_t *object, const char *key, const char *text) {
    json_t *value = json_string(text);
    json_object_set_new(object, key, value ? value : json_string("(not UTF-8)"));
}

static json_t *machine_json(const machine *m) {
    json_t *object = json_object();
    for (int i = 0; i < m->count; i++)
        if (m->fact[i].is_number)
            json_object_set_new(object, m->fact[i].key, json_integer(atoll(m->fact[i].text)));
        else
            set_text(object, m->fact[i].key, m->fact[i].text);
    return object;
}

/* The ceilings of several numbers of threads; what one thread does is in all of them. */
static json_t *peaks_json(const peaks *p, int count) {
    json_t *array = json_array();
    for (int dtype = 0; dtype < 2; dtype++)
        for (int i = -1; i < count; i++) {
            bool all = i >= 0;
            const peak_rates *rates = all ? &p[i].all[dtype] : &p->one[dtype];
            if (!rates->measured || (all && p[i].threads == 1))
                continue;
            json_t *object = json_object();
            set_text(object, "dtype", dtype_name((attn_dtype)dtype));
            json_object_set_new(object, "threads", json_integer(all ? p[i].threads : 1));
            set_real(object, "fma_gflops", rates->fma);
            set_text(object, "fma_instruction_set", rates->fma_isa);
            set_real(object, "blas_tile_gflops", rates->tile);
            set_text(object, "blas_tile_shape", rates->tile_shape);
            set_real(object, "blas_large_gflops", rates->large);
            json_array_append_new(array, object);
        }
    return array;
}

/* Which run an entry is about. */
static void set_problem(json_t *object, const bench_result *r) {
    set_text(object, "problem", r->problem);
    json_object_set_new(object, "shape", r->shape[0] ? json_string(r->shape) : json_null());
    set_text(object, "kind", result_kind_name(r));
    set_text(object, "engine", r->engine);
    set_text(object, "dtype", dtype_name(r->dtype));
    json_object_set_new(object, "threads", json_integer(r->threads));
    json_object_set_new(object, "d_model", json_integer(r->d_model));
    json_object_set_new(object, "len", json_integer(r->len));
    json_object_set_new(object, "batch", json_integer(r->batch));
    json_object_set_new(object, "heads", json_integer(r->heads));
    json_object_set_new(object, "head_dim", json_integer(r->head_dim));
}

static json_t *result_json(const result_list *list, const bench_result *r) {
    json_t *object = json_object();
    set_problem(object, r);
    set_real(object, "ms_median", r->ms_median);
    set_real(object, "ms_min", r->ms_min);
    set_real(object, "ms_cpu", r->ms_cpu);
    set_real(object, "ms_setup", r->ms_setup);
    set_real(object, "spread", result_spread(r));
    json_object_set_new(object, "repeats", json_integer(r->samples));
    json_object_set_new(object, "sampled", json_boolean(r->sampled));
    json_object_set_new(object, "sampled_rows", json_integer(r->sampled_rows));
    set_count(object, "flops", r->flops);
    set_real(object, "gflops", result_gflops(r));
    set_real(object, "gflops_best", result_gflops_best(r));
    set_real(object, "gbytes_per_s", result_gbytes_per_s(r));
    double speed_up = result_speed_up(list, r);
    set_real(object, "speed_up", speed_up > 0 ? speed_up : NAN);
    set_real(object, "fma_peak_gflops", r->fma_peak);
    set_real(object, "blas_peak_gflops", r->blas_peak);
    set_real(object, "read_peak_gbytes_per_s", r->read_peak);
    set_real(object, "share_of_peak", result_share_of_peak(r));
    set_count(object, "bytes_workspace", r->workspace_bytes);
    set_count(object, "bytes_working_set", r->working_set_bytes);
    set_real(object, "error_max", r->error_eps);
    set_real(object, "error_abs", r->error_abs);
    set_real(object, "error_share", r->error_share);
    set_real(object, "threads_busy", result_threads_busy(r));
    set_text(object, "caches", r->cold ? "cold" : "hot");
    set_real(object, "checksum", r->checksum);
    return object;
}

static json_t *untimed_json(const bench_result *r) {
    static const char *const states[] = {
        [RESULT_LEFT_OUT] = "left out", [RESULT_REFUSED] = "refused", [RESULT_FAILED] = "failed"};
    json_t *object = json_object();
    set_text(object, "problem", r->problem);
    set_text(object, "kind", result_kind_name(r));
    set_text(object, "engine", r->engine);
    set_text(object, "dtype", dtype_name(r->dtype));
    json_object_set_new(object, "threads", json_integer(r->threads));
    set_text(object, "state", states[r->state]);
    set_text(object, "reason", r->note);
    return object;
}

static json_t *results_json(const result_list *list) {
    json_t *array = json_array();
    for (size_t i = 0; i < list->count; i++)
        if (list->item[i].state == RESULT_TIMED)
            json_array_append_new(array, result_json(list, &list->item[i]));
    return array;
}

static json_t *stages_json(const extras *more) {
    json_t *array = json_array();
    for (size_t i = 0; i < more->stages; i++) {
        const stage_times *t = &more->stage[i];
        json_t *object = json_object(), *ms = json_object();
        set_problem(object, &t->entry);
        for (int s = 0; s < STAGE_COUNT; s++)
            set_real(ms, stage_name((stage_id)s), t->ms[s]);
        json_object_set_new(object, "ms", ms);
        json_array_append_new(array, object);
    }
    return array;
}

bool report_json(const char *file, const machine *m, const peaks *p, int peaks_count, const result_list *list,
                 const extras *more) {
    json_t *root = json_object(), *untimed = json_array();
    for (size_t i = 0; i < list->count; i++)
        if (list->item[i].state != RESULT_TIMED)
            json_array_append_new(untimed, untimed_json(&list->item[i]));
    json_object_set_new(root, "machine", machine_json(m));
    json_object_set_new(root, "peaks", peaks_json(p, peaks_count));
    json_object_set_new(root, "results", results_json(list));
    json_object_set_new(root, "not_timed", untimed);
    if (more) {
        json_object_set_new(root, "cold", results_json(&more->cold));
        json_object_set_new(root, "scaling", results_json(&more->threads));
        json_object_set_new(root, "stages", stages_json(more));
    }

    const size_t flags = JSON_INDENT(1) | JSON_REAL_PRECISION(7);
    bool to_stdout = file[0] == '-' && !file[1];
    int failed = to_stdout ? json_dumpf(root, stdout, flags) : json_dump_file(root, file, flags);
    if (to_stdout)
        failed |= putchar('\n') == EOF || fflush(stdout) != 0;
    json_decref(root);
    if (failed)
        fprintf(stderr, "attn-bench: cannot write JSON to '%s'\n", file);
    return !failed;
}
