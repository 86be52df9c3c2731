/* What a run found, one entry per case and engine, and the formulas of its figures. */
#ifndef BENCH_RESULT_H
#define BENCH_RESULT_H

#include <attn/sdpa.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "peaks.h"

typedef enum result_state {
    RESULT_TIMED,
    RESULT_LEFT_OUT, /* does not fit the budget or the memory, or the user interrupted */
    RESULT_REFUSED,  /* the library refuses it; note is its sentence */
    RESULT_FAILED    /* disagrees with the oracle, or a run-time error: never timed */
} result_state;

typedef enum result_kind { RESULT_SDPA, RESULT_CHAIN, RESULT_LAYER } result_kind;

typedef struct bench_result {
    result_state state;
    char note[512]; /* why, when it is not timed */

    char problem[256]; /* problem string of the attention */
    char shape[96];    /* its name in a shape file, "" when it has none */
    result_kind kind;  /* attention alone, the chain X -> Z, or a whole layer */
    const char *engine;
    attn_dtype dtype;
    int threads;
    int64_t d_model, len; /* columns of X and its rows of a member; of attention alone q_heads * head_dim and q_len */
    int64_t batch, heads, head_dim;

    double ms_median, ms_min, ms_cpu, ms_setup;
    double spread; /* (upper - lower quartile) / median; of stages that are timed apart the largest */
    int samples;   /* of stages that are timed apart the fewest */
    bool sampled;  /* timed on sampled rows, scaled up by flops */
    int64_t sampled_rows;
    bool cold;       /* caches were emptied of the arrays before each run */
    double checksum; /* sum of the output that was computed */

    double flops, kv_bytes, working_set_bytes, workspace_bytes;
    double error_eps, error_abs, error_share;
    double fma_peak, blas_peak, read_peak; /* GFLOP/s, GFLOP/s, GB/s, for these threads */
} bench_result;

typedef struct result_list {
    bench_result *item;
    size_t count, capacity;
} result_list;

/* A cleared entry at the end of the list; ends the program when there is no memory for it. Valid until the next. */
bench_result *result_add(result_list *list);
void result_list_free(result_list *list);

/* The formulas. 0 when nothing was timed. */
double result_gflops(const bench_result *r);        /* flops / median time */
double result_gflops_best(const bench_result *r);   /* flops / least time */
double result_gbytes_per_s(const bench_result *r);  /* bytes of K and V, each read once, / median time */
double result_share_of_peak(const bench_result *r); /* gflops / multiply-add peak */
double result_threads_busy(const bench_result *r);  /* CPU time / wall time */
double result_speed_up(const result_list *list, const bench_result *r); /* gflops / gflops of naive, same case */

/* Fewer repeats than this say nothing about how far a figure can be trusted. */
#define RESULT_FEWEST_REPEATS 3

double result_spread(const bench_result *r);    /* NaN below two repeats */
bool result_is_repeated(const bench_result *r); /* timed RESULT_FEWEST_REPEATS times or more */
bool result_is_doubtful(const bench_result *r); /* fewer repeats, or a spread above 10 % */

/* True when the entry or naive of the same case is: a ratio of the two is not to be trusted. */
bool result_speed_up_is_doubtful(const result_list *list, const bench_result *r);

/* True for entries of the chain that differ in engine and length only: those of one table. */
bool result_same_table(const bench_result *a, const bench_result *b);

/* True for entries that differ in the engine only. */
bool result_same_problem(const bench_result *a, const bench_result *b);

/* The entry of another engine for the same case, NULL when there is none that was timed. */
const bench_result *result_of_engine(const result_list *list, const bench_result *r, const char *engine);

/* The sizes of attention alone. */
void result_set_sizes(bench_result *r, const attn_problem *problem);

/* Takes the ceilings for the result's precision, threads and working set. */
void result_set_peaks(bench_result *r, peaks *p);

/* "640 KiB", "1.5 GiB"; "0" for nothing. text holds at least 16 bytes. */
const char *human_bytes(double bytes, char *text);

const char *result_kind_name(const bench_result *r); /* "sdpa", "chain", "layer" */
const char *dtype_name(attn_dtype dtype);            /* "f32", "f64" */

#endif
