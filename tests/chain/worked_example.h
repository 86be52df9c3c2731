/* The worked example: three tokens, d_model = d_k = d_v = 2. Shared by the tests that need a chain with known numbers.
 */
#ifndef WORKED_EXAMPLE_H
#define WORKED_EXAMPLE_H

#include "chain_test.h"

enum { TOKENS = 3, DIM = 2, VOCAB = 10000 };

static const int64_t example_ids[TOKENS] = {1258, 875, 9527};
static const real example_embeddings[TOKENS][DIM] = {{3, 1}, {2, 2}, {2, 4}};
static const real example_w_q[] = {(real)-0.6, (real)0.9, (real)0.8, (real)-0.5};
static const real example_w_k[] = {(real)0.6, (real)0.1, (real)-0.1, (real)1.4};
static const real example_w_v[] = {(real)1.0, (real)-0.5, (real)-0.4, (real)1.2};

/* The ten matrices, in the order of the chain. */
typedef struct example_matrices {
    real e[TOKENS * DIM], p[TOKENS * DIM], x[TOKENS * DIM];
    real q[TOKENS * DIM], k[TOKENS * DIM], v[TOKENS * DIM];
    real qk[TOKENS * TOKENS], s[TOKENS * TOKENS], a[TOKENS * TOKENS];
    real z[TOKENS * DIM];
} example_matrices;

/* Only the three rows that the ids name are numbers. */
static inline real *example_table(void) {
    real *table = poisoned(VOCAB * DIM);
    for (int t = 0; t < TOKENS; t++)
        memcpy(table + example_ids[t] * DIM, example_embeddings[t], sizeof example_embeddings[t]);
    return table;
}

/* All inputs, no output. */
static inline REAL(attn_trace) example_trace(const real *table) {
    REAL(attn_trace) trace = ATTN_STRUCT_INIT(REAL(attn_trace));
    trace.tokens = TOKENS;
    trace.vocab = VOCAB;
    trace.d_model = trace.d_k = trace.d_v = DIM;
    trace.ids = example_ids;
    trace.table = table;
    trace.w_q = example_w_q;
    trace.w_k = example_w_k;
    trace.w_v = example_w_v;
    return trace;
}

/* Asks for every matrix, and poisons them. */
static inline void example_want_all(REAL(attn_trace) * trace, example_matrices *m) {
    memset(m, 0xff, sizeof *m);
    trace->e = m->e;
    trace->p = m->p;
    trace->x = m->x;
    trace->q = m->q;
    trace->k = m->k;
    trace->v = m->v;
    trace->qk = m->qk;
    trace->s = m->s;
    trace->a = m->a;
    trace->z = m->z;
}

/* Runs the example for all matrices. */
static inline example_matrices run_example(uint64_t flags, const int64_t *ids) {
    example_matrices m;
    real *table = example_table();
    REAL(attn_trace) trace = example_trace(table);
    trace.flags = flags;
    trace.ids = ids;
    example_want_all(&trace, &m);
    assert_ok(REAL(attn_chain_trace)(NULL, &trace));
    free(table);
    return m;
}

#endif
