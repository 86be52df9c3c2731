/* Private side of problem and plan: checks, members, engine and tiles. Nothing here depends on the precision. */
#ifndef ATTN_LIB_PLAN_H
#define ATTN_LIB_PLAN_H

#include <attn/sdpa.h>
#include <stdbool.h>

#include "base/checks.h"
#include "base/context.h"
#include "base/ledger.h"
#include "sdpa/tiles.h"
#include "sdpa/visibility.h"

/* ---- problem.c: checks and the canonical form ---- */

/* Copy a caller's struct of any known size, later fields 0; args are attn_args_f32 or _f64. Errors: ATTN_ERR_NULL,
 * ATTN_ERR_STRUCT_SIZE. */
attn_status attn_read_problem(const attn_problem *given, attn_problem *problem);
attn_status attn_read_args(const void *given, void *args);

/* Checks a caller's problem and copies it to `problem`, later fields of an older struct 0, strides that lead to no
 * element 0 too. */
attn_status attn_check_problem(const attn_problem *given, attn_problem *problem);

/* The arrays of a call, inputs first. */
enum {
    ATTN_Q,
    ATTN_K,
    ATTN_V,
    ATTN_MASK,
    ATTN_BIAS,
    ATTN_SLOPES,
    ATTN_SINK,
    ATTN_OUT,
    ATTN_LSE,
    ATTN_SCORES,
    ATTN_CAPPED,
    ATTN_MASKED,
    ATTN_WEIGHTS,
    ATTN_ARRAYS,
    ATTN_FIRST_OUTPUT = ATTN_OUT
};

#define ATTN_WANT_ANY (ATTN_WANT_SCORES | ATTN_WANT_CAPPED | ATTN_WANT_MASKED | ATTN_WANT_WEIGHTS)

/* The lengths of the members: of padded buffers, or offsets into packed ones. Any may be NULL. */
typedef struct attn_lengths {
    const int64_t *q_lens, *kv_lens;
    const int64_t *q_offsets, *kv_offsets;
} attn_lengths;

/* The pointers of a call as the checks see them, whatever the precision. */
typedef struct attn_arrays {
    int64_t real_bytes; /* sizeof(float) or sizeof(double) */
    const void *at[ATTN_ARRAYS];
    attn_lengths lengths;
} attn_arrays;

/* Checks the pointers and lengths of a call against its checked problem. */
attn_status attn_check_arrays(const attn_problem *problem, const attn_arrays *arrays);

/* True when no output of a call has an element: nothing is to be computed, whatever the sizes are. */
bool attn_writes_nothing(const attn_problem *problem, const attn_arrays *arrays);

/* Lengths and offsets are inputs too, read again while outputs are written: ATTN_ERR_OVERLAP as attn_check_apart(). */
attn_status attn_check_apart_from_lengths(const attn_problem *problem, const attn_extent *output,
                                          const attn_lengths *lengths);

/* Where one array of a call lies. */
attn_extent attn_array_extent(const attn_problem *problem, const attn_arrays *arrays, int array);

/* The length of each member within 0 .. buffer; NULL is fine (ATTN_ERR_LENGTH). The names are for the sentence. */
attn_status attn_check_lengths(const char *name, const int64_t *lengths, int64_t batch, const char *buffer_name,
                               int64_t buffer);

/* Member b of the batch with its lengths and offset. */
attn_member attn_member_of(const attn_problem *problem, int64_t b, const attn_lengths *lengths);

/* ---- plan.c: decisions ---- */

/* The piece numbers of an engine's workspace in the plan's ledger; one copy per worker. */
typedef struct attn_pieces {
    int keys;                      /* naive, tiny members of fused: the numbers of a row's visible keys */
    int scores;                    /* naive: a row; blas: a head; fused: a tile */
    int packed_queries;            /* fused: Q of a block, dense or in parts */
    int packed_keys;               /* fused: K of a tile, transposed or in parts */
    int packed_values;             /* fused: V of a tile, dense or in parts */
    int queries_transposed, strip; /* fused, few queries with many rows: Q; scores of a strip of keys */
    int output;                    /* fused: the rows of a block while they accumulate */
    int row_max, row_sum, rescale; /* fused: one number per row of a block */
    int beside;                    /* fused: what rows have gathered from a chunk of keys after the first */
    int chunks, chunks_done;       /* fused: the same of all chunks of a shared block; how many of them are done */
    int weight_parts, wild;        /* fused with the matrix unit: weights of a tile; what parts are not for */
    int clean_values;              /* blas, fused: values with non-finite entries replaced by 0 */
} attn_pieces;

/* Rows of all heads that a piece of work with few queries has at most: those of four heads, if they are 32. */
enum { ATTN_FEW_ROWS = 128 };

/* Keys whose scores are computed at a time for many rows. */
enum { ATTN_STRIP_KEYS = 48 };

/* Keys whose values are cleaned at a time where queries are few. */
enum { ATTN_FEW_CLEAN_KEYS = 256 };

/* The piece of work of fused for one member: `heads` query heads of one key head x at most `rows` queries. */
typedef struct attn_share {
    bool tiny;        /* plain loops: even preparing tiles would take longer */
    bool few_queries; /* own loops in place of products of tiles */
    bool many_rows;   /* few queries, but of so many heads that their scores are worth a transposed Q */
    int64_t heads, rows;
    int64_t tile_rows, tile_keys;
    int64_t chunk_keys; /* of a chunk of keys, whose results are merged with the others': whole tiles */
} attn_share;

struct attn_plan {
    attn_problem problem;
    attn_dtype dtype;
    attn_resources resources; /* threads: the most that the context allows */
    double scale, softcap;    /* as numbers of the plan's precision; softcap 0 = none */
    attn_engine engine;       /* naive, blas or fused */
    const char *engine_reason;
    bool plain_loops; /* naive, or fused of members so small that a step more than naive's would show */
    bool edited;      /* scores are changed between product and softmax: softcap, bias, ALiBi or mask */
    attn_ledger ledger;
    attn_pieces pieces;
    int workers;              /* threads that the plan uses, 0 when there is nothing to do */
    attn_tile_shape shape;    /* fused */
    attn_share longest_share; /* fused: of members at full length */
    bool queries_packed;      /* fused: rows of Q are apart, and a block makes them dense */
    int64_t block_rows;       /* queries of a head in a piece of work */
    int64_t block_heads;      /* fused: query heads in a piece of work, that read K and V together */
    int64_t blocks_per_head;  /* of one key head at full length */
    int64_t whole_blocks;     /* the first blocks, each of which is one piece of work, */
    int64_t shared_blocks;    /* and the last ones, whose keys are shared out: */
    int64_t chunks;           /* each in so many pieces, */
    int64_t shared_rows;      /* with room for so many rows, those of all its chunks together */
    int64_t tasks;            /* pieces of work */
};

/* Checks everything and decides everything; the plan is then complete. */
attn_status attn_plan_prepare(attn_plan *plan, const attn_context *context, const attn_problem *problem,
                              attn_dtype dtype);

/* A caller's workspace, or NULL: large enough and aligned (ATTN_ERR_WORKSPACE). */
attn_status attn_check_workspace(const attn_ledger *ledger, const void *workspace, size_t workspace_bytes);

/* How a key head of this member is shared out. Whether own loops do it is for the member's own lengths to say; heads
 * and rows change no bits. */
attn_share attn_share_of(const attn_plan *plan, const attn_member *member);

/* 1/sqrt(head_dim) or the problem's own. */
double attn_problem_scale(const attn_problem *problem);

#endif
