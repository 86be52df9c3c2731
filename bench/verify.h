/* Results of the engines against the oracle, on sampled rows, before anything is timed. In the chain each stage is
 * judged from its own inputs as computed: the projection from X and W, attention from the Q, K and V that it read. */
#ifndef BENCH_VERIFY_H
#define BENCH_VERIFY_H

#include "engines.h"

/* What a check found. */
typedef struct verdict {
    bool passed;
    double error_eps;   /* largest error of the attention output in units of eps * max|V| */
    double error_max;   /* largest error of the attention output */
    double error_share; /* largest error of anything checked, in units of its tolerance */
    char text[1024];    /* on failure: what, where, by how much */
} verdict;

#define PROJECTION_ROWS 3

/* Rows of X W in long double, shared by all engines of a case: the first, the last and a seeded one. */
typedef struct projection_oracle {
    int rows;
    int64_t row[PROJECTION_ROWS];
    long double *wanted[PROJECTION_ROWS], *tolerance[PROJECTION_ROWS]; /* 3 d_model each */
} projection_oracle;

/* False for lack of memory; close it in any case. */
bool projection_oracle_open(projection_oracle *oracle, const bench_case *c, uint64_t seed);
void projection_oracle_close(projection_oracle *oracle);

/* Compares the rows of qkv that the oracle has; only_ends leaves out the seeded one, which a sample of rows lacks. */
bool verify_projection(const projection_oracle *oracle, const bench_case *c, const void *qkv, bool only_ends,
                       verdict *v);

/* Compares the attention output of an engine's last run, at most max_rows rows (the first and the last among them). */
bool verify_attention(const engine_run *run, int64_t max_rows, uint64_t seed, verdict *v);

#endif
