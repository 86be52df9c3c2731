/* Private side of the layer: the plan, and where its arrays lie. Nothing here depends on the precision. */
#ifndef ATTN_LIB_LAYER_H
#define ATTN_LIB_LAYER_H

#include <attn/layer.h>
#include <stdbool.h>

#include "base/checks.h"
#include "base/context.h"
#include "base/ledger.h"
#include "sdpa/plan.h"

/* The arrays of a call that are not attention's, inputs first. */
enum {
    ATTN_LAYER_X,
    ATTN_LAYER_CONTEXT,
    ATTN_LAYER_W_Q,
    ATTN_LAYER_W_K,
    ATTN_LAYER_W_V,
    ATTN_LAYER_W_O,
    ATTN_LAYER_B_Q,
    ATTN_LAYER_B_K,
    ATTN_LAYER_B_V,
    ATTN_LAYER_B_O,
    ATTN_LAYER_IDS,
    ATTN_LAYER_KV_IDS,
    ATTN_LAYER_COSINES,
    ATTN_LAYER_SINES,
    ATTN_LAYER_Y,
    ATTN_LAYER_ARRAYS
};

/* The weights, in the order of their arrays and of their biases. */
enum { ATTN_LAYER_Q, ATTN_LAYER_K, ATTN_LAYER_V, ATTN_LAYER_O, ATTN_LAYER_WEIGHTS };

/* One weight matrix with its bias; columns 0 means that another one holds it. */
typedef struct attn_layer_weight {
    const char *name;
    int64_t in, columns, row;
} attn_layer_weight;

/* Projected rows in the workspace. In self-attention Q, K and V share the rows of one array. */
typedef struct attn_layer_rows {
    int piece;
    int64_t first; /* column */
    int64_t batch, row;
} attn_layer_rows;

struct attn_layer_plan {
    attn_layer layer; /* its pointers are not used any more */
    attn_rotary rotary;
    attn_plan attention; /* its problem has the strides of the workspace and of the cache */
    int64_t new_keys;    /* kv_len as the caller gave it; ragged: not more than total_kv */
    bool empty; /* no member, or none with a row or a new key: nothing is computed, and nothing is needed for it */
    attn_layer_weight weight[ATTN_LAYER_WEIGHTS];
    attn_ledger ledger;
    attn_layer_rows q, k, v, z;
    int lengths;           /* [2, batch]: keys that a member has in the end, rows of x that are projected */
    int shared;            /* the workspace of attention, or packed weights while the layer projects */
    int64_t scratch_bytes; /* packed weights of a thread */
    int product_threads;   /* most threads of the projections */
};

static inline bool attn_layer_has(const attn_layer_plan *plan, uint64_t flag) {
    return (plan->layer.flags & flag) != 0;
}

static inline bool attn_layer_ragged(const attn_layer_plan *plan) {
    return (plan->attention.problem.flags & ATTN_RAGGED) != 0;
}

/* Copies args of either precision and of any known struct_size. */
attn_status attn_read_layer_args(const void *given, void *args);

/* Checks everything and decides everything. */
attn_status attn_layer_prepare(attn_layer_plan *plan, const attn_context *context, const attn_layer *layer,
                               attn_dtype dtype);

/* Where one array of a call lies; empty when the layer has none. */
attn_extent attn_layer_extent(const attn_layer_plan *plan, int array, const void *address);

#endif
