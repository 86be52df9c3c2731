/* Results of the engines against the oracle, on sampled rows. */
#include "verify.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const void *element(attn_dtype dtype, const void *x, int64_t n) {
    return (const char *)x + n * (int64_t)(dtype == ATTN_F32 ? sizeof(float) : sizeof(double));
}

/* Takes over a report of the support library. */
static bool conclude(verdict *v, const support_report *report) {
    v->passed = report->verdict != SUPPORT_FAILED;
    if (!(report->worst <= v->error_share))
        v->error_share = report->worst;
    if (!v->passed)
        snprintf(v->text, sizeof v->text, "%.1000s", report->text);
    return v->passed;
}

/* ---- Projection -------------------------------------------------------------------------------------------------- */

bool projection_oracle_open(projection_oracle *oracle, const bench_case *c, uint64_t seed) {
    int64_t n = c->data->problem_case->problem.batch * c->data->problem_case->problem.q_len, d = c->d_model;
    *oracle = (projection_oracle){0};
    if (n == 0 || d == 0)
        return true;
    oracle->row[0] = 0;
    oracle->row[1] = n - 1;
    oracle->row[2] = (int64_t)(support_random_bits(seed, 99, 0) % (uint64_t)n);
    oracle->rows = n > 2 ? PROJECTION_ROWS : (int)n;
    for (int r = 0; r < oracle->rows; r++) {
        oracle->wanted[r] = calloc((size_t)(3 * d), sizeof(long double));
        oracle->tolerance[r] = calloc((size_t)(3 * d), sizeof(long double));
        if (!oracle->wanted[r] || !oracle->tolerance[r])
            return false;
        support_oracle_project(c->dtype, d, 3 * d, element(c->dtype, c->x, oracle->row[r] * d), c->w_packed, 3 * d,
                               NULL, oracle->wanted[r], oracle->tolerance[r]);
        /* Any order of d products and sums is off by at most this. */
        for (int64_t j = 0; j < 3 * d; j++)
            oracle->tolerance[r][j] *= (long double)(0.5 * support_eps(c->dtype) * ((double)d + 1));
    }
    return true;
}

void projection_oracle_close(projection_oracle *oracle) {
    for (int r = 0; r < PROJECTION_ROWS; r++) {
        free(oracle->wanted[r]);
        free(oracle->tolerance[r]);
    }
    *oracle = (projection_oracle){0};
}

bool verify_projection(const projection_oracle *oracle, const bench_case *c, const void *qkv, bool only_ends,
                       verdict *v) {
    support_report report;
    support_report_begin(&report);
    int64_t width = 3 * c->d_model;
    for (int r = 0; r < (only_ends && oracle->rows > 2 ? 2 : oracle->rows); r++)
        support_compare_row(&report, "qkv", oracle->row[r], c->dtype, width,
                            element(c->dtype, qkv, oracle->row[r] * width), oracle->wanted[r], oracle->tolerance[r]);
    support_report_end(&report, "projection X W");
    return conclude(v, &report);
}

/* ---- Attention --------------------------------------------------------------------------------------------------- */

/* One row of the output against the oracle. */
static void compare_output_row(const support_data *d, int64_t b, int64_t h, int64_t i, support_row *row,
                               long double *tolerance, support_report *report, verdict *v) {
    int64_t n = d->problem_case->problem.v_dim;
    support_oracle_row(d, b, h, i, row);
    long double allowed = support_tolerance(d, row), unit = (long double)support_eps(d->dtype) * row->max_value;
    int64_t start = support_index(d, SUPPORT_OUT, b, h, i, 0);
    for (int64_t c = 0; c < n; c++) {
        tolerance[c] = row->out_expect[c] == SUPPORT_EXPECT_EXACT ? 0 : allowed;
        double error = fabs((double)(support_load(d->dtype, d->base[SUPPORT_OUT], start + c) - row->out[c]));
        if (!(error <= v->error_max))
            v->error_max = error;
        if (unit > 0 && !(error / (double)unit <= v->error_eps))
            v->error_eps = error / (double)unit;
    }
    support_compare_row(report, "out", i, d->dtype, n, element(d->dtype, d->base[SUPPORT_OUT], start), row->out,
                        tolerance);
}

/* The rows that a sampled run has computed: of each piece the first or the last, of first and last head in turn. */
static bool verify_sample(const engine_run *run, const support_data *d, int64_t max_rows, verdict *v) {
    const attn_problem *p = &d->problem_case->problem;
    support_report report;
    support_report_begin(&report);
    support_row *row = support_row_create(d->problem_case);
    long double *tolerance = calloc((size_t)p->v_dim + 1, sizeof *tolerance);
    if (row && tolerance)
        for (int i = 0; i < run->pieces && i < max_rows; i++) {
            int n = i % 2 ? run->pieces - 1 - i / 2 : i / 2;
            const row_piece *piece = &run->piece[n];
            int64_t last = n % 2 || n == run->pieces - 1 ? piece->count - 1 : 0;
            compare_output_row(d, i % 2 ? p->batch - 1 : 0, i % 3 ? p->q_heads - 1 : 0, piece->first + last, row,
                               tolerance, &report, v);
        }
    support_report_end(&report, engine_name(run->id));
    bool passed = conclude(v, &report);
    if (!row || !tolerance) {
        passed = v->passed = false;
        snprintf(v->text, sizeof v->text, "not enough memory for the oracle");
    }
    support_row_free(row);
    free(tolerance);
    return passed;
}

bool verify_attention(const engine_run *run, int64_t max_rows, uint64_t seed, verdict *v) {
    support_data d = *run->c->data;
    const attn_problem *p = &d.problem_case->problem;
    if (run->sampled && p->batch > 0 && p->q_heads > 0) {
        if (run->c->chain) {
            d.base[SUPPORT_K] = (void *)(uintptr_t)element(d.dtype, run->c->qkv_checked, run->c->d_model);
            d.base[SUPPORT_V] = (void *)(uintptr_t)element(d.dtype, run->c->qkv_checked, 2 * run->c->d_model);
        }
        return verify_sample(run, &d, max_rows, v);
    }
    support_report report;
    support_verify_sampled(&d, engine_name(run->id), max_rows, seed, &report);
    v->error_eps = report.error_eps;
    v->error_max = report.error_max;
    return conclude(v, &report);
}
