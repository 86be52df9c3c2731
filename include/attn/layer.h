/* A whole attention layer: projections of its input, attention of each head, and the projection of what they found.
 *
 *   Q = X W_Q + b_Q,  K = C W_K + b_K,  V = C W_V + b_V        C = X (self-attention), or the context (cross-attention)
 *   rotary positions on the heads of Q and K, if asked for; K and V then join the cache, if there is one
 *   Z = attention of each head, as sdpa.h has it with all its options
 *   Y = Z W_O + b_O                                            heads side by side in the rows of Z
 *
 * The options of attention are those of attn_problem and attn_args, filled in once and handed over by pointer: causal,
 * window, softcap, masks, lengths, grouped heads, log-sum-exp, intermediates, whatever sdpa.h knows.
 *
 *   attn_problem heads = ATTN_PROBLEM_INIT;         batch, q_heads, kv_heads, q_len, kv_len, head_dim, v_dim, options
 *   attn_layer layer = ATTN_LAYER_INIT;
 *   layer.d_model = layer.d_out = 768, layer.attention = &heads;
 *   attn_problem_layout_bhld(&heads);               strides of lse and of intermediates, where they are asked for
 *   attn_layer_layout_dense(&layer);
 *   attn_layer_args_f32 args = ATTN_LAYER_ARGS_F32_INIT;       x, w_q, w_k, w_v, w_o, y
 *   attn_layer_f32(NULL, &layer, &args);
 *
 * In a loop: attn_layer_plan_create() once, attn_layer_plan_run_f32() then allocates nothing.
 */
#ifndef ATTN_LAYER_H
#define ATTN_LAYER_H

#include <attn/base.h>
#include <attn/cache.h>
#include <attn/position.h>
#include <attn/sdpa.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Layer: sizes, strides, options ------------------------------------------------------------------------------ */

/* Flags of attn_layer. A field whose flag is not set is not looked at. */
/* All weights are [out, in], as most checkpoints store them, and used as they stand; else [in, out], as in X W. */
#define ATTN_LAYER_OUT_IN (UINT64_C(1) << 0)
/* One product where several would do: w_q holds W_Q | W_K | W_V side by side, b_q their biases; in cross-attention w_k
 * holds W_K | W_V and b_k theirs. What is packed elsewhere (w_k, w_v, b_k, b_v; w_v, b_v) must be NULL. */
#define ATTN_LAYER_PACKED (UINT64_C(1) << 1)
/* Cross-attention: keys and values come from args.context, and d_context counts. Else from x, and q_len is kv_len. */
#define ATTN_LAYER_CROSS (UINT64_C(1) << 2)
/* rotary counts: the heads of Q and K are turned, before they go to the cache. */
#define ATTN_LAYER_HAS_ROTARY (UINT64_C(1) << 3)
/* args.cache is given and capacity counts: attention sees the keys of the cache and the new ones, which join it. */
#define ATTN_LAYER_HAS_CACHE (UINT64_C(1) << 4)

/* Everything about a layer but the pointers to numbers. Sizes are literal, strides in elements. Row strides are at
 * least the row size when there is more than one row; batch strides do not count when there is one member, or with
 * ATTN_RAGGED. */
typedef struct attn_layer {
    size_t struct_size; /* sizeof(attn_layer), set by the initialiser */
    uint64_t flags;     /* ATTN_LAYER_... */
    int64_t d_model;    /* size of a row of x, at least 1 */
    int64_t d_context;  /* ATTN_LAYER_CROSS: size of a row of the context, at least 1 */
    int64_t d_out;      /* size of a row of y, mostly d_model; 0 is legal */
    int64_t capacity;   /* ATTN_LAYER_HAS_CACHE: of the cache */
    /* Sizes and options of the heads. kv_len: rows of the context, or q_len; with a cache the new keys only, those that
     * mask, bias and intermediates have as columns are then the capacity. Its q, k, v and out strides do not count,
     * but those of lse and intermediates do: attn_problem_layout_bhld() sets them. */
    const attn_problem *attention;
    /* Its pairing, rotary_dim, flags, start, base, ids_batch and the sizes of tables count, the others do not. Row t of
     * x or of the context stands at position start + t, or at its id; rows that join a cache, and all of x in
     * self-attention, at start + t + the keys that their member has. */
    const attn_rotary *rotary;
    int64_t x_batch, x_row;             /* [batch, q_len, d_model]; x_batch may be 0 */
    int64_t context_batch, context_row; /* [batch, kv_len, d_context]; context_batch may be 0 */
    int64_t y_batch, y_row;             /* [batch, q_len, d_out] */
    int64_t w_q_row, w_k_row, w_v_row;  /* row strides of the weights; of packed ones the first counts */
    int64_t w_o_row;
} attn_layer;

#define ATTN_LAYER_INIT ATTN_STRUCT_INIT(attn_layer)

/* Clears a layer and sets struct_size; writes struct_size bytes and no more (since 0.1).
 * Errors: ATTN_ERR_NULL, ATTN_ERR_STRUCT_SIZE. */
ATTN_API attn_status attn_layer_init(attn_layer *layer, size_t struct_size);

/* Reads flags and sizes, those of layer->attention too, and fills the strides of dense arrays (since 0.1); it writes
 * strides only. Errors: ATTN_ERR_NULL, _STRUCT_SIZE, _SIZE, _OVERFLOW, _FLAG (unknown ones, ragged keys with a
 * cache). */
ATTN_API attn_status attn_layer_layout_dense(attn_layer *layer);

/* The floating-point operations of a layer (since 0.1): 2 * rows * in * out for each projection, of rows that count,
 * and attn_problem_flops() for attention. q_lens, kv_lens: as in the args, ragged members too; past: the keys that the
 * cache holds of each member; [batch] each, NULL for full length and for nothing. Strides and rotary do not count, but
 * for the strides of mask and bias. Errors: ATTN_ERR_NULL, _STRUCT_SIZE, _SIZE, _STRIDE, _VALUE, _LENGTH, _OVERFLOW,
 * _FLAG, _UNSUPPORTED; none of workspace or BLAS. */
ATTN_API attn_status attn_layer_flops(const attn_layer *layer, const int64_t *q_lens, const int64_t *kv_lens,
                                      const int64_t *past, double *flops);

/* ---- Arguments: the pointers ------------------------------------------------------------------------------------ */

/* Pointers of one call. n_q = q_heads * head_dim, n_k = kv_heads * head_dim, n_v = kv_heads * v_dim,
 * n_z = q_heads * v_dim; shapes of weights are written as [in, out]. */
typedef struct attn_layer_args_f32 {
    size_t struct_size;   /* sizeof(attn_layer_args_f32), set by the initialiser */
    const float *x;       /* [batch, q_len, d_model], ragged: [total_q, d_model] */
    const float *context; /* ATTN_LAYER_CROSS: [batch, kv_len, d_context], ragged: [total_kv, d_context] */
    const float *w_q;     /* [d_model, n_q]; packed, self-attention: [d_model, n_q + n_k + n_v] */
    const float *w_k;     /* [d_model or d_context, n_k]; packed, cross-attention: [d_context, n_k + n_v] */
    const float *w_v;     /* [d_model or d_context, n_v] */
    const float *w_o;     /* [n_z, d_out] */
    const float *b_q, *b_k, *b_v, *b_o; /* as long as their weights are wide; each NULL = none */
    float *y;                           /* [batch, q_len, d_out], ragged: [total_q, d_out]; written */
    attn_cache *cache;                  /* ATTN_LAYER_HAS_CACHE: of the layer's sizes and capacity */
    const int64_t *ids;    /* ATTN_ROTARY_HAS_IDS: positions of the rows of x, [batch, q_len], ragged: [total_q] */
    const int64_t *kv_ids; /* the same of the context, in cross-attention: [batch, kv_len], ragged: [total_kv] */
    const float *cosines, *sines; /* ATTN_ROTARY_HAS_TABLES: as for attn_rotary_f32() */
    /* Lengths, mask, bias, slopes, sink, lse, intermediates, as for attn_sdpa_f32(); q, k, v, out are NULL. NULL for
     * none of them. q_lens count rows of x, kv_lens rows of the context or new keys; in self-attention kv_lens NULL is
     * q_lens, and kv_offsets are NULL. */
    const attn_args_f32 *attention;
} attn_layer_args_f32;

/* The same in double. */
typedef struct attn_layer_args_f64 {
    size_t struct_size;
    const double *x;
    const double *context;
    const double *w_q;
    const double *w_k;
    const double *w_v;
    const double *w_o;
    const double *b_q, *b_k, *b_v, *b_o;
    double *y;
    attn_cache *cache;
    const int64_t *ids;
    const int64_t *kv_ids;
    const double *cosines, *sines;
    const attn_args_f64 *attention;
} attn_layer_args_f64;

#define ATTN_LAYER_ARGS_F32_INIT ATTN_STRUCT_INIT(attn_layer_args_f32)
#define ATTN_LAYER_ARGS_F64_INIT ATTN_STRUCT_INIT(attn_layer_args_f64)

/* Clear args and set struct_size; write struct_size bytes and no more (since 0.1).
 * Errors: ATTN_ERR_NULL, ATTN_ERR_STRUCT_SIZE. */
ATTN_API attn_status attn_layer_args_init_f32(attn_layer_args_f32 *args, size_t struct_size);
ATTN_API attn_status attn_layer_args_init_f64(attn_layer_args_f64 *args, size_t struct_size);

/* ---- One call ---------------------------------------------------------------------------------------------------- */

/* A layer in one call (since 0.1).
 * Formula: above. Shapes and strides: attn_layer, attn_layer_args_f32. With a cache new keys follow those that a member
 *   has; for decoding the alignment is ATTN_ALIGN_BOTTOM_RIGHT. In cross-attention kv_len may be 0 with a cache: then
 *   nothing joins it.
 * NULL: context = defaults; arrays without elements; others see attn_layer_args_f32.
 * Aliasing: inputs may alias each other. y, lse and intermediates are refused (ATTN_ERR_OVERLAP) where one starts at an
 *   input's pointer, lengths and offsets included, or where both extents are dense and intersect; other overlaps with
 *   an input are undefined. They overlap neither themselves nor each other; the memory of the cache is no other
 *   argument's, and lengths in it are refused.
 * NaN and Inf: in the products as they give them, in attention as sdpa.h says.
 * Rows of x at or beyond q_lens[b] and of the context at or beyond kv_lens[b] are not read; those of y become 0. The
 *   rows of a ragged y that belong to no member are not written. A row that sees no key is b_O.
 * Accuracy: |y_j - exact| <= (1 + (sqrt(d_in) + sqrt(n_z)) / 4) (3 + g max|s|) eps max|V| |W_O[:, j]| + eps |b_O[j]|,
 *   for seeded sets of data and weights, |W_O[:, j]| the Euclidean norm of the column, d_in the larger of d_model and
 *   d_context; max|s|, max|V| over the visible keys of all heads of the row, each number at least the root of the sum
 *   of its squared terms; g = max(1.5, 0.45 sqrt(head_dim)). Rotary positions in double add what position.h says about
 *   large angles.
 * Threads: at most those of the context, over blocks of rows and columns, heads and members. Bits do not depend on
 *   their number nor on the other members of the batch, lengths of their buffers included.
 * Memory: one workspace from the context's allocator, freed before it returns; attn_layer_plan_workspace() tells how
 * much.
 * Errors: ATTN_ERR_NULL, _SIZE, _STRIDE, _VALUE, _ID, _LENGTH (more keys than the cache has room for too), _OVERFLOW,
 *   _OVERLAP, _FLAG, _STRUCT_SIZE, _UNSUPPORTED, _DTYPE (a cache of the other precision): all are found before anything
 *   is written. ATTN_ERR_NOMEM, _BLAS: nothing was written. ATTN_ERR_THREADS: y, lse and intermediates are unspecified,
 *   the cache holds what it held.
 * Source: Vaswani et al. 2017, section 3.2.2; grouped heads: Ainslie et al. 2023, "GQA". */
ATTN_API attn_status attn_layer_f32(const attn_context *context, const attn_layer *layer,
                                    const attn_layer_args_f32 *args);
ATTN_API attn_status attn_layer_f64(const attn_context *context, const attn_layer *layer,
                                    const attn_layer_args_f64 *args);

/* ---- Plan -------------------------------------------------------------------------------------------------------- */

/* A checked layer with its decisions, for one precision. Immutable: any number of threads may run it at once, each with
 * its own workspace and cache. */
typedef struct attn_layer_plan attn_layer_plan;

/* Checks a layer and makes a plan (since 0.1). It copies what it needs of context, layer, problem and rotary; the
 * context's threads = 0 is resolved now. *plan is written on success only.
 * Memory: one allocation from context->alloc. Errors: as attn_layer_f32() for the layer; ATTN_ERR_DTYPE for a dtype
 * that is none; ATTN_ERR_NOMEM. */
ATTN_API attn_status attn_layer_plan_create(const attn_context *context, const attn_layer *layer, attn_dtype dtype,
                                            attn_layer_plan **plan);

/* Frees a plan; NULL is allowed (since 0.1). No thread may be running it. */
ATTN_API void attn_layer_plan_destroy(attn_layer_plan *plan);

/* Bytes of workspace that a run needs, for all lengths up to the layer's: projected rows, the rows of Z, and
 * attention's own or, at other times, packed weights (since 0.1). Errors: ATTN_ERR_NULL. */
ATTN_API attn_status attn_layer_plan_workspace(const attn_layer_plan *plan, size_t *bytes);

/* Writes what the plan decided for full length as lines "name: value" into text, as attn_plan_describe() does (since
 * 0.1): sizes and options of the layer, its products and their path, positions, cache, the layer's workspace, then all
 * lines of the plan of its attention. *needed and a text that does not fit: as there. Errors: ATTN_ERR_NULL. */
ATTN_API attn_status attn_layer_plan_describe(const attn_layer_plan *plan, char *text, size_t size, size_t *needed);

/* Runs a plan (since 0.1). workspace: at least attn_layer_plan_workspace() bytes, aligned to ATTN_WORKSPACE_ALIGN, used
 * by this call only and without meaning afterwards; nothing is allocated then. NULL (with any workspace_bytes): taken
 * from the context's allocator and freed before the call returns. A cache is changed: no one else may use it meanwhile.
 * Everything else, bits included, as attn_layer_f32().
 * Errors: as attn_layer_f32() for the arguments; ATTN_ERR_WORKSPACE; ATTN_ERR_DTYPE for a plan of the other
 * precision. */
ATTN_API attn_status attn_layer_plan_run_f32(const attn_layer_plan *plan, const attn_layer_args_f32 *args,
                                             void *workspace, size_t workspace_bytes);
ATTN_API attn_status attn_layer_plan_run_f64(const attn_layer_plan *plan, const attn_layer_args_f64 *args,
                                             void *workspace, size_t workspace_bytes);

#ifdef __cplusplus
}
#endif

#endif
