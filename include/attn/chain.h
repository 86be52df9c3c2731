/* The chain from token ids to attention output, one function a stage, and one traced call that returns every matrix:
 *
 *   ids -> E -> X = E + P -> Q, K, V = X W -> QK = Q K^T -> S = QK / sqrt(d_k) -> A = softmax_rows(S) -> Z = A V
 *
 * P is attn_sinusoidal_f32() of position.h. All matrices are row-major, their strides in elements and at least the row
 * size when there is more than one row; sizes of 0 are legal unless a function says otherwise. What holds for all:
 *   NULL: an array without elements may be NULL; context NULL = defaults.
 *   Aliasing: inputs may alias each other; an output that starts at an input's pointer, or whose dense extent meets
 *     an input's, is refused (ATTN_ERR_OVERLAP) unless the function says "in place"; other overlaps are undefined.
 *   Threads: at most context->threads, each on blocks of rows; bits independent of their number. Any number of threads
 *     may call at once. Products run on one BLAS thread in each of them.
 *   Sizes: row and column counts of products are cut into blocks; an inner size or a row stride that does not fit the
 *     BLAS library's integer is refused (ATTN_ERR_OVERFLOW).
 *   Errors: ATTN_ERR_NULL, _SIZE, _STRIDE, _VALUE, _OVERFLOW, _OVERLAP, _STRUCT_SIZE: nothing was written.
 *     ATTN_ERR_BLAS from the products: nothing was written. ATTN_ERR_THREADS: outputs are unspecified.
 * For whole attention without the intermediates, and for heads, batches and masks, use sdpa.h.
 */
#ifndef ATTN_CHAIN_H
#define ATTN_CHAIN_H

#include <attn/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Embedding look-up (since 0.1).
 * Formula: E[r] = table[ids[r]].
 * ids: [rows], each 0 .. vocab-1. table: [vocab, d_model]. e: [rows, d_model], written.
 * NaN: copied as it stands. Memory: none.
 * Errors: as above, and ATTN_ERR_ID for an id outside the table: all ids are checked before anything is written. */
ATTN_API attn_status attn_embed_f32(const attn_context *context, int64_t rows, int64_t vocab, int64_t d_model,
                                    const int64_t *ids, const float *table, int64_t table_stride, float *e,
                                    int64_t e_stride);
ATTN_API attn_status attn_embed_f64(const attn_context *context, int64_t rows, int64_t vocab, int64_t d_model,
                                    const int64_t *ids, const double *table, int64_t table_stride, double *e,
                                    int64_t e_stride);

/* Sum of two matrices (since 0.1).
 * Formula: X = E + P.
 * e, p: [rows, d_model]. x: [rows, d_model], written; in place: x may be e or p with the same stride.
 * NaN and Inf: IEEE addition. Memory: none. */
ATTN_API attn_status attn_add_f32(const attn_context *context, int64_t rows, int64_t d_model, const float *e,
                                  int64_t e_stride, const float *p, int64_t p_stride, float *x, int64_t x_stride);
ATTN_API attn_status attn_add_f64(const attn_context *context, int64_t rows, int64_t d_model, const double *e,
                                  int64_t e_stride, const double *p, int64_t p_stride, double *x, int64_t x_stride);

/* Projection of each member of a batch by one weight matrix (since 0.1).
 * Formula: Y[b] = X[b] W + 1 bias^T, the product through cblas_?gemm, for members of up to 32 rows by loops of our
 *   own that read W once, and by a kernel of our own where the BLAS falls short of the CPU
 *   (attn_blas_info.advice) or, up to a million multiply-adds, packs whatever it multiplies (own_products); the bias
 *   added to the finished product (one rounding each, so that a bias of 0 changes no value).
 * x: [batch, rows, d_in]. w: [d_in, d_out]. bias: [d_out] or NULL for none. y: [batch, rows, d_out], written.
 *   Q, K and V in one product: W = [W_Q | W_K | W_V] with d_out the sum of the three; their columns then stand side by
 *   side in each row of Y, ready for attn_problem_layout_packed_qkv(). Equal to three products within rounding.
 * Batch strides: not negative, not looked at when batch is 1. Members of x may overlap, x_batch 0 included; members of
 *   y may interleave but not overlap (ATTN_ERR_STRIDE).
 * d_in 0: Y is the bias, or 0.
 * NaN and Inf: as the product gives them; a row of Y sees its own row of X only.
 * Bits: rows are blocked from row 0 of each member, so that a member's result depends on that member alone.
 * Memory: up to 256 KiB per thread that has work, for packed weights, in one piece from context->alloc, freed before it
 *   returns; none when no member takes more than 32 rows or a million multiplications.
 * Errors: as above, ATTN_ERR_NOMEM. */
ATTN_API attn_status attn_project_f32(const attn_context *context, int64_t batch, int64_t rows, int64_t d_in,
                                      int64_t d_out, const float *x, int64_t x_batch, int64_t x_stride, const float *w,
                                      int64_t w_stride, const float *bias, float *y, int64_t y_batch, int64_t y_stride);
ATTN_API attn_status attn_project_f64(const attn_context *context, int64_t batch, int64_t rows, int64_t d_in,
                                      int64_t d_out, const double *x, int64_t x_batch, int64_t x_stride,
                                      const double *w, int64_t w_stride, const double *bias, double *y, int64_t y_batch,
                                      int64_t y_stride);

/* Scores of one head (since 0.1).
 * Formula: S = scale * Q K^T, through cblas_?gemm. scale 1 gives QK, 1/sqrt(head_dim) the S of the chain.
 * q: [q_len, head_dim]. k: [kv_len, head_dim]. s: [q_len, kv_len], written. scale: rounded to the precision of the
 *   call, where it must be finite; 0 and negative included. At scale 0 q and k are not read and s is exactly 0, and so
 *   it is at head_dim 0.
 * NaN and Inf: as the product gives them. Memory: none. */
ATTN_API attn_status attn_scores_f32(const attn_context *context, int64_t q_len, int64_t kv_len, int64_t head_dim,
                                     const float *q, int64_t q_stride, const float *k, int64_t k_stride, double scale,
                                     float *s, int64_t s_stride);
ATTN_API attn_status attn_scores_f64(const attn_context *context, int64_t q_len, int64_t kv_len, int64_t head_dim,
                                     const double *q, int64_t q_stride, const double *k, int64_t k_stride, double scale,
                                     double *s, int64_t s_stride);

/* Row-wise stable softmax (since 0.1).
 * Formula: A[i][j] = exp(S[i][j] - max_j S[i][j]) / sum_j exp(S[i][j] - max_j S[i][j]).
 * s: [rows, cols]. a: [rows, cols], written; in place: a may be s with the same stride.
 * Empty rows: entries of -Inf get weight 0; a row of nothing but -Inf becomes all 0. NaN: a row that holds a NaN or
 *   +Inf becomes all NaN. Memory: none. */
ATTN_API attn_status attn_softmax_f32(const attn_context *context, int64_t rows, int64_t cols, const float *s,
                                      int64_t s_stride, float *a, int64_t a_stride);
ATTN_API attn_status attn_softmax_f64(const attn_context *context, int64_t rows, int64_t cols, const double *s,
                                      int64_t s_stride, double *a, int64_t a_stride);

/* Weighted sum of the values (since 0.1).
 * Formula: Z = A V, through cblas_?gemm; small products as in attn_project_f32().
 * a: [q_len, kv_len]. v: [kv_len, v_dim]. z: [q_len, v_dim], written; kv_len 0 gives 0.
 * NaN and Inf: as the product gives them, so a weight of 0 does not hide a NaN in V (attn_sdpa_f32() does).
 * Memory: none. */
ATTN_API attn_status attn_combine_f32(const attn_context *context, int64_t q_len, int64_t kv_len, int64_t v_dim,
                                      const float *a, int64_t a_stride, const float *v, int64_t v_stride, float *z,
                                      int64_t z_stride);
ATTN_API attn_status attn_combine_f64(const attn_context *context, int64_t q_len, int64_t kv_len, int64_t v_dim,
                                      const double *a, int64_t a_stride, const double *v, int64_t v_stride, double *z,
                                      int64_t z_stride);

/* ---- The traced call --------------------------------------------------------------------------------------------- */

/* Flags of attn_trace_f32. A field whose flag is not set is not looked at. */
#define ATTN_TRACE_HAS_SCALE (UINT64_C(1) << 0)    /* scale counts, 0 included; else 1/sqrt(d_k) */
#define ATTN_TRACE_HAS_START (UINT64_C(1) << 1)    /* start counts; else 0 */
#define ATTN_TRACE_HAS_BASE (UINT64_C(1) << 2)     /* base counts; else 10000 */
#define ATTN_TRACE_NO_POSITIONS (UINT64_C(1) << 3) /* X = E; P, when asked for, is 0 */

/* Inputs and wanted outputs of the traced call. All matrices are dense. An input that no wanted matrix needs is not
 * looked at and may be NULL: P alone needs sizes only. */
typedef struct attn_trace_f32 {
    size_t struct_size;        /* sizeof(attn_trace_f32), set by the initialiser */
    uint64_t flags;            /* ATTN_TRACE_... */
    int64_t tokens;            /* n */
    int64_t vocab;             /* rows of the table */
    int64_t d_model, d_k, d_v; /* d_model and d_k at least 1 */
    const int64_t *ids;        /* [n] */
    const float *table;        /* [vocab, d_model] */
    const float *w_q, *w_k;    /* [d_model, d_k] */
    const float *w_v;          /* [d_model, d_v] */
    const float *b_q, *b_k;    /* [d_k] or NULL for none */
    const float *b_v;          /* [d_v] or NULL for none */
    double scale;              /* finite, of the scores */
    int64_t start;             /* position of token 0 */
    double base;               /* of the sinusoidal positions */
    float *e, *p, *x;          /* [n, d_model], each NULL = not wanted, like all that follow */
    float *q, *k;              /* [n, d_k] */
    float *v;                  /* [n, d_v] */
    float *qk, *s, *a;         /* [n, n] */
    float *z;                  /* [n, d_v] */
} attn_trace_f32;

/* The same in double. */
typedef struct attn_trace_f64 {
    size_t struct_size;
    uint64_t flags;
    int64_t tokens;
    int64_t vocab;
    int64_t d_model, d_k, d_v;
    const int64_t *ids;
    const double *table;
    const double *w_q, *w_k;
    const double *w_v;
    const double *b_q, *b_k;
    const double *b_v;
    double scale;
    int64_t start;
    double base;
    double *e, *p, *x;
    double *q, *k;
    double *v;
    double *qk, *s, *a;
    double *z;
} attn_trace_f64;

#define ATTN_TRACE_F32_INIT ATTN_STRUCT_INIT(attn_trace_f32)
#define ATTN_TRACE_F64_INIT ATTN_STRUCT_INIT(attn_trace_f64)

/* Clear a trace and set struct_size; write struct_size bytes and no more (since 0.1).
 * Errors: ATTN_ERR_NULL, ATTN_ERR_STRUCT_SIZE. */
ATTN_API attn_status attn_trace_init_f32(attn_trace_f32 *trace, size_t struct_size);
ATTN_API attn_status attn_trace_init_f64(attn_trace_f64 *trace, size_t struct_size);

/* The whole chain of a single head, filling each of the ten matrices that is asked for (since 0.1).
 * Formula: the chain above, stage by stage through the functions of this header, so that a matrix has the bits that
 *   calling the stages by hand gives: QK is attn_scores_f32() with scale 1, S the same with the scale (not QK rounded
 *   and then scaled). Only what the wanted matrices need is computed.
 * Aliasing: the outputs overlap neither an input nor each other (ATTN_ERR_OVERLAP).
 * Memory: the matrices on the way that are not asked for, and what attn_project_f32() takes, in one piece from
 *   context->alloc, freed before it returns.
 * Errors: those of the stages, each naming the field; all arguments are checked before any work. ATTN_ERR_ID,
 *   ATTN_ERR_FLAG for an unknown flag: nothing was written. ATTN_ERR_NOMEM: nothing was written. */
ATTN_API attn_status attn_chain_trace_f32(const attn_context *context, const attn_trace_f32 *trace);
ATTN_API attn_status attn_chain_trace_f64(const attn_context *context, const attn_trace_f64 *trace);

#ifdef __cplusplus
}
#endif

#endif
