/* The engines that are compared, behind one interface: open, run in stages, close. One loop times them all.
 *
 *   naive   textbook loops: projections i, j, c (textbook.c), attention by the library's naive engine
 *   cache   cache-ordered loops: projections i, c, j, attention with K transposed (cache_ordered.c)
 *   blas    the library's projection and blas engine
 *   fused   the library's projection and fused engine
 *   auto    the library's projection and its own choice of engine
 */
#ifndef BENCH_ENGINES_H
#define BENCH_ENGINES_H

#include <attn/sdpa.h>
#include <stdbool.h>
#include <stddef.h>

#include "support.h"

typedef enum engine_id { ENGINE_NAIVE, ENGINE_CACHE, ENGINE_BLAS, ENGINE_FUSED, ENGINE_AUTO, ENGINE_COUNT } engine_id;

#define ENGINE_BIT(id) (1u << (id))
/* What is compared when nothing else is asked for. */
#define ENGINES_DEFAULT                                                                                                \
    (ENGINE_BIT(ENGINE_NAIVE) | ENGINE_BIT(ENGINE_CACHE) | ENGINE_BIT(ENGINE_BLAS) | ENGINE_BIT(ENGINE_FUSED))

/* True where the library multiplies tiles itself: fused is not "BLAS" then in title, meaning and summary. */
bool engine_own_products(void);

/* True where it multiplies panels of weights itself too, since BLAS falls short of this CPU. */
bool engine_own_panels(void);

const char *engine_name(engine_id id);
const char *engine_title(engine_id id); /* in bars, pictures and their legends */
const char *engine_meaning(engine_id id);
/* The loops without BLAS: too slow for large problems, where they run on a sample of rows. */
bool engine_is_loops(engine_id id);

/* One thing to compute: attention on given arrays, or the chain X -> Q, K, V -> Z. */
typedef struct bench_case {
    attn_dtype dtype;
    int threads;
    support_data *data; /* q, k, v, out and their problem; q_lens and kv_lens for attention alone */

    /* The chain has these too; Q, K and V of `data` then point into `qkv`. */
    bool chain;
    int64_t d_model;
    const void *x;           /* [batch, q_len, d_model] */
    const void *w[3];        /* W_Q, W_K, W_V: [d_model, d_model] */
    const void *w_packed;    /* the same side by side: [d_model, 3 d_model] */
    void *qkv;               /* [batch, q_len, 3 d_model]: what the engine projects and attends to */
    const void *qkv_checked; /* the library's projection, checked: K and V for sampled rows */
} bench_case;

/* Rows first .. first+count-1 of every member and head. */
typedef struct row_piece {
    int64_t first, count;
    attn_problem problem;
    attn_plan *plan; /* NULL for the cache-ordered loops */
    double flops;    /* of attention */
} row_piece;

#define ENGINE_MAX_PIECES 8

typedef struct engine_run {
    engine_id id;
    const bench_case *c;
    row_piece piece[ENGINE_MAX_PIECES];
    int pieces;
    bool sampled;
    int64_t rows;            /* rows of all pieces */
    double attention_flops;  /* of the whole problem, not of the sample */
    double projection_flops; /* likewise; 0 without a chain */
    double project_scale;    /* whole work / sampled work; 1 when not sampled */
    double attend_scale;
    void *workspace;
    size_t workspace_bytes; /* what attention needs beside its arguments */
    double setup_seconds;   /* making the plan */
    attn_status status;     /* of the last failure */
    char message[256];
} engine_run;

/* Prepares an engine for a case. max_rows > 0: the loops may run on a sample of about that many query rows, where the
 * problem allows it. False with status and message when it cannot be done; close it in any case. */
bool engine_open(engine_run *run, engine_id id, const bench_case *c, int64_t max_rows);
void engine_close(engine_run *run);

/* The stages. project: Q, K, V of the rows (chain only). prepare: what does not shrink with the sample (K transposed).
 * attend: the rest. All of it: engine_call(). They take an engine_run and are false on failure. */
bool engine_project(void *run);
bool engine_prepare(void *run);
bool engine_attend(void *run);
bool engine_call(void *run);

/* Memory that attention needs beside its arguments, for planning; 0 with a false result when it is refused. */
bool engine_workspace(engine_id id, const attn_problem *problem, attn_dtype dtype, int threads, size_t *bytes);

#endif
