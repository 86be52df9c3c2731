/* What a run found, and the formulas of its figures. */
#include "result.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bench_result *result_add(result_list *list) {
    if (list->count == list->capacity) {
        size_t capacity = list->capacity ? 2 * list->capacity : 64;
        bench_result *item = realloc(list->item, capacity * sizeof *item);
        if (!item) {
            fputs("attn-bench: not enough memory for the results\n", stderr);
            exit(1);
        }
        list->item = item;
        list->capacity = capacity;
    }
    bench_result *r = &list->item[list->count++];
    memset(r, 0, sizeof *r);
    return r;
}

void result_list_free(result_list *list) {
    free(list->item);
    *list = (result_list){0};
}

static double per_second(const bench_result *r, double amount, double ms) {
    return r->state == RESULT_TIMED && ms > 0 ? amount / (1e-3 * ms) : 0;
}

double result_gflops(const bench_result *r) {
    return 1e-9 * per_second(r, r->flops, r->ms_median);
}

double result_gflops_best(const bench_result *r) {
    return 1e-9 * per_second(r, r->flops, r->ms_min);
}

double result_gbytes_per_s(const bench_result *r) {
    return 1e-9 * per_second(r, r->kv_bytes, r->ms_median);
}

double result_share_of_peak(const bench_result *r) {
    return r->fma_peak > 0 ? result_gflops(r) / r->fma_peak : 0;
}

double result_threads_busy(const bench_result *r) {
    return r->state == RESULT_TIMED && r->ms_median > 0 ? r->ms_cpu / r->ms_median : 0;
}

double result_spread(const bench_result *r) {
    return r->samples < 2 ? NAN : r->spread;
}

bool result_is_repeated(const bench_result *r) {
    return r->state == RESULT_TIMED && r->samples >= RESULT_FEWEST_REPEATS;
}

bool result_is_doubtful(const bench_result *r) {
    return !result_is_repeated(r) || !(r->spread <= 0.1);
}

bool result_same_table(const bench_result *a, const bench_result *b) {
    return a->kind == RESULT_CHAIN && b->kind == RESULT_CHAIN && a->dtype == b->dtype && a->threads == b->threads &&
           a->d_model == b->d_model && a->heads == b->heads && a->batch == b->batch;
}

bool result_same_problem(const bench_result *a, const bench_result *b) {
    return a->dtype == b->dtype && a->threads == b->threads && a->kind == b->kind && a->d_model == b->d_model &&
           strcmp(a->problem, b->problem) == 0;
}

const bench_result *result_of_engine(const result_list *list, const bench_result *r, const char *engine) {
    for (size_t i = 0; i < list->count; i++) {
        const bench_result *other = &list->item[i];
        if (other->state == RESULT_TIMED && result_same_problem(other, r) && strcmp(other->engine, engine) == 0)
            return other;
    }
    return NULL;
}

double result_speed_up(const result_list *list, const bench_result *r) {
    const bench_result *naive = result_of_engine(list, r, "naive");
    return naive && result_gflops(naive) > 0 ? result_gflops(r) / result_gflops(naive) : 0;
}

bool result_speed_up_is_doubtful(const result_list *list, const bench_result *r) {
    const bench_result *naive = result_of_engine(list, r, "naive");
    return result_is_doubtful(r) || (naive && result_is_doubtful(naive));
}

void result_set_sizes(bench_result *r, const attn_problem *problem) {
    r->d_model = problem->q_heads * problem->head_dim;
    r->len = problem->q_len;
    r->batch = problem->batch;
    r->heads = problem->q_heads;
    r->head_dim = problem->head_dim;
}

void result_set_peaks(bench_result *r, peaks *p) {
    const peak_rates *rates = &p->all[r->dtype];
    r->fma_peak = rates->fma;
    r->blas_peak = peaks_blas(rates);
    r->read_peak = peaks_read(p, r->working_set_bytes);
}

const char *result_kind_name(const bench_result *r) {
    static const char *const names[] = {[RESULT_SDPA] = "sdpa", [RESULT_CHAIN] = "chain", [RESULT_LAYER] = "layer"};
    return names[r->kind];
}

const char *dtype_name(attn_dtype dtype) {
    return dtype == ATTN_F32 ? "f32" : "f64";
}

const char *human_bytes(double bytes, char *text) {
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    int unit = 0;
    while (bytes >= 1023.5 && unit < 4) {
        bytes /= 1024;
        unit++;
    }
    snprintf(text, 16, unit == 0 || bytes >= 9.95 ? "%.0f %s" : "%.1f %s", bytes, units[unit]);
    return text;
}
