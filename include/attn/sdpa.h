/* Scaled dot-product attention: out = softmax(scale * Q K^T) V, per batch member and query head.
 *
 * Three ways in, one meaning:
 *   attn_sdpa_flat_f32()   dense arrays and a few numbers; for Fortran, ctypes and quick starts
 *   attn_sdpa_f32()        a problem (sizes, strides, options) and its arguments (pointers); one call
 *   attn_plan_create()     checks and decides once, attn_plan_run_f32() then runs without allocating
 *
 * Order of operations for query i, key j of one head, position p = i + offset:
 *   1. s = scale * (q . k)              default scale 1/sqrt(head_dim); at scale 0 s is exactly 0 and k is not read
 *   2. softcap c > 0: s = c tanh(s / c)
 *   3. s += bias - slope |p - j|        bias and ALiBi; a score of -Inf now hides the key, and a bias of -Inf does so
 *                                       whatever the score was
 *   4. visibility: the intersection of boolean mask, causal, window and lengths; hidden keys have weight exactly 0
 *   5. softmax over the visible keys, maximum subtracted (by fused perhaps a score up to 11 below it: the same
 *      quotient); with a sink, exp(sink) is added to the denominator
 *   6. out = sum_j a_j v_j;  lse = max + log(sum_j exp(s_j - max)), natural logarithm, without the sink
 * A row that sees no key is empty: out exactly 0, lse -Inf, weights 0. A NaN or +Inf score after step 3 makes its row
 * and its lse NaN. A NaN in a visible row of V reaches its column of the row's output (an Inf gives Inf or NaN there);
 * hidden keys never matter, whatever is stored there, and keys at or beyond a member's length are not even read. If
 * q . k overflows before the scale, its row is unspecified, and so is a column whose values are so large that 65536
 * times their sum overflows before the division. A sink of +Inf takes everything: out 0.
 *
 * Small numbers (head_dim = v_dim = 1, scale 1, q = 1, so that the score of key j is k[j]):
 *   k = [1, 2], v = [3, 5]                                    4.462117157, lse 2.313261688
 *   k = [0, 0], v = [1, 9], softcap 2, mask [1, 0]            exactly 1
 *   k = 0, v = [1, 2, 3, 4], causal, four queries, left 1     1, 1.5, 2.5, 3.5
 *   k = 0, v = [1, 2, 3, 4], causal, two queries              top-left 1, 1.5; bottom-right 2, 2.5
 */
#ifndef ATTN_SDPA_H
#define ATTN_SDPA_H

#include <attn/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Problem: sizes, strides, options ------------------------------------------------------------------------ */

typedef enum attn_dtype { ATTN_F32 = 0, ATTN_F64 = 1 } attn_dtype;

/* How the result is computed. All give the same result within the stated error and follow the same rules. */
typedef enum attn_engine {
    ATTN_ENGINE_AUTO = 0,  /* chosen by the problem: blas when scores or weights are asked for, else fused */
    ATTN_ENGINE_NAIVE = 1, /* the textbook loops, no BLAS */
    ATTN_ENGINE_BLAS = 2,  /* the whole score matrix of a head, one CBLAS product each way; memory O(q_len kv_len) */
    ATTN_ENGINE_FUSED = 3  /* tiles of queries and keys with an online softmax; memory O(1) per thread, and a
                            * small part of K and V where threads share the keys of few queries */
} attn_engine;

/* Where query 0 stands among the keys: query i has the position p = i + offset. */
typedef enum attn_alignment {
    ATTN_ALIGN_TOP_LEFT = 0,     /* offset 0 */
    ATTN_ALIGN_BOTTOM_RIGHT = 1, /* offset kv_len - q_len, of each member's own lengths: the KV-cache convention */
    ATTN_ALIGN_OFFSET = 2        /* offset = problem.offset, which may be negative; needs ATTN_HAS_OFFSET */
} attn_alignment;

/* Flags of attn_problem. A field whose flag is not set is not looked at; all options may be combined. */
#define ATTN_CAUSAL (UINT64_C(1) << 0)     /* key j is visible only if j <= p, for every q_len, 1 included */
#define ATTN_HAS_SCALE (UINT64_C(1) << 1)  /* scale counts, 0 and negative included; else 1/sqrt(head_dim) */
#define ATTN_HAS_OFFSET (UINT64_C(1) << 2) /* offset counts; goes with ATTN_ALIGN_OFFSET */
/* window_left and window_right count: key j is visible only if p - left <= j <= p + right. Without causal too. */
#define ATTN_HAS_WINDOW (UINT64_C(1) << 3)
#define ATTN_HAS_SOFTCAP (UINT64_C(1) << 4) /* softcap counts: s = softcap * tanh(s / softcap) */
#define ATTN_HAS_MASK (UINT64_C(1) << 5)    /* args.mask is given: not 0 = attend */
#define ATTN_HAS_BIAS (UINT64_C(1) << 6)    /* args.bias is given: added to the score; -Inf hides */
/* args.alibi_slopes is given: s -= slope[h] * |p - j|; attn_alibi_slopes_f32() makes them. */
#define ATTN_HAS_ALIBI (UINT64_C(1) << 7)
/* args.sink is given: out = sum_j e^(s_j - m) v_j / (sum_j e^(s_j - m) + e^(sink[h] - m)), m the larger of maximum and
 * sink; scale and softcap do not touch it, an empty row stays 0. Parts that are to be merged go without it. */
#define ATTN_HAS_SINK (UINT64_C(1) << 8)
/* Packed tokens: member b has the rows q_offsets[b] .. q_offsets[b+1]-1 of q, out and lse, and kv_offsets[b] ..
 * kv_offsets[b+1]-1 of k and v; the batch strides of these five do not count. Masks, biases and positions use each
 * member's own i and j. q_len and kv_len are the longest that a member may be, total_q and total_kv the buffers' rows.
 */
#define ATTN_RAGGED (UINT64_C(1) << 9)
/* Intermediates [batch, q_heads, q_len, kv_len], engines naive and blas; fused refuses them with ATTN_ERR_UNSUPPORTED,
 * for good. Cells of keys at or beyond kv_lens[b] and of
 * rows at or beyond q_lens[b] become -Inf, weights 0. With a sink the weights are those of step 6: they sum to less
 * than 1. */
#define ATTN_WANT_SCORES (UINT64_C(1) << 10)  /* args.scores is filled: after step 1 */
#define ATTN_WANT_CAPPED (UINT64_C(1) << 11)  /* args.capped is filled: after step 2 */
#define ATTN_WANT_MASKED (UINT64_C(1) << 12)  /* args.masked is filled: after steps 3 and 4, hidden = -Inf */
#define ATTN_WANT_WEIGHTS (UINT64_C(1) << 13) /* args.weights is filled: after step 5 */
#define ATTN_HAS_MASK_LEN (UINT64_C(1) << 14) /* mask_len counts: keys at or beyond it are hidden */
#define ATTN_HAS_BIAS_LEN (UINT64_C(1) << 15) /* bias_len counts: keys at or beyond it are hidden */

/* Distances in elements in a mask or bias [batch, q_heads, q_len, kv_len]. Any may be 0, which broadcasts; key is 0
 * or 1. No layout helper sets them: left at 0 they make the first element stand for all. A mask [q_len, kv_len] for all
 * heads has {0, 0, kv_len, 1}. */
typedef struct attn_mask_strides {
    int64_t batch, head, row, key;
} attn_mask_strides;

/* Everything about a computation but the pointers. Sizes are literal and never defaulted; strides in elements. Fill it
 * with attn_problem_init() or ATTN_PROBLEM_INIT, set the sizes, then call a layout helper or set the strides. After a
 * change of sizes call the helper again: strides that are larger than they need be are legal, and one
 * that leads to no element (of a single row, of an empty array) may be anything that is not negative. A size left 0 is
 * a size of 0: the call succeeds and writes nothing. */
typedef struct attn_problem {
    size_t struct_size;        /* sizeof(attn_problem), set by the initialiser */
    uint64_t flags;            /* ATTN_CAUSAL, ATTN_HAS_..., ATTN_WANT_..., ATTN_RAGGED */
    attn_engine engine;        /* auto, or the one to use */
    attn_alignment alignment;  /* serves causal, window and ALiBi alike, and is independent of the causal flag */
    int64_t batch;             /* members */
    int64_t q_heads, kv_heads; /* kv_heads divides q_heads; query head h reads key head h / (q_heads / kv_heads) */
    int64_t q_len, kv_len;     /* rows of the q and of the k and v buffers of a member (ragged: the longest member) */
    int64_t head_dim, v_dim;   /* size of a row of q and k (at least 1), of v and out (0 is legal) */
    double scale;              /* finite; rounded to the precision of the call */
    int64_t offset;            /* position of query 0, may be negative */
    int64_t window_left, window_right; /* keys besides p itself, inclusive; -1 = unlimited, below -1 an error */
    double softcap;                    /* 0 = none; else finite and positive */
    attn_strides q;                    /* [batch, q_heads, q_len, head_dim] */
    attn_strides k;                    /* [batch, kv_heads, kv_len, head_dim] */
    attn_strides v;                    /* [batch, kv_heads, kv_len, v_dim] */
    attn_strides out;                  /* [batch, q_heads, q_len, v_dim] */
    attn_strides lse;                  /* [batch, q_heads, q_len]: row is the distance between neighbouring rows */
    attn_mask_strides mask;            /* [batch, q_heads, q_len, kv_len or mask_len] */
    attn_mask_strides bias;            /* [batch, q_heads, q_len, kv_len or bias_len] */
    int64_t mask_len, bias_len;        /* keys that mask and bias cover; those beyond are hidden */
    attn_strides scores;               /* [batch, q_heads, q_len, kv_len], for the four intermediates alike */
    int64_t total_q, total_kv;         /* ragged: rows of the packed buffers */
} attn_problem;

/* A problem with every field 0 but struct_size: engine auto, top-left, no option. */
#define ATTN_PROBLEM_INIT ATTN_STRUCT_INIT(attn_problem)

/* Clears a problem and sets struct_size; writes struct_size bytes and no more (since 0.1).
 * Errors: ATTN_ERR_NULL, ATTN_ERR_STRUCT_SIZE. */
ATTN_API attn_status attn_problem_init(attn_problem *problem, size_t struct_size);

/* Layout helpers: read the sizes and fill the strides of q, k, v, out, lse and scores (since 0.1), not those of
 * mask and bias. They write the strides only. Errors: ATTN_ERR_NULL, ATTN_ERR_STRUCT_SIZE, ATTN_ERR_SIZE,
 * ATTN_ERR_OVERFLOW.
 *   bhld        dense [batch, heads, len, dim]
 *   blhd        dense [batch, len, heads, dim], as a projection X W leaves it
 *   packed_qkv  slices of one array [batch, len, q_heads*head_dim + kv_heads*head_dim + kv_heads*v_dim] in the order
 *               Q, K, V: pass q = base, k = base + q_heads*head_dim, v = k + kv_heads*head_dim; needs q_len == kv_len;
 *               out is blhd
 * lse is dense [batch, q_heads, q_len] and scores dense [batch, q_heads, q_len, kv_len] in all of them. With
 * ATTN_RAGGED the packed buffers are one member of total_q and total_kv rows, and lse is dense [q_heads, total_q]. */
ATTN_API attn_status attn_problem_layout_bhld(attn_problem *problem);
ATTN_API attn_status attn_problem_layout_blhd(attn_problem *problem);
ATTN_API attn_status attn_problem_layout_packed_qkv(attn_problem *problem);

/* The floating-point operations of a problem, 2 * visible pairs * (head_dim + v_dim) over batch and query heads
 * (since 0.1); softmax is not counted; causal, window and lengths reduce the pairs, data (mask, bias) does not. q_lens
 * and kv_lens hold `batch` lengths each (of a ragged batch too) or are NULL for full length. Returned as double: it may
 * pass 2^63. Errors: as attn_sdpa_f32() for the problem and lengths; ATTN_ERR_NULL for flops. */
ATTN_API attn_status attn_problem_flops(const attn_problem *problem, const int64_t *q_lens, const int64_t *kv_lens,
                                        double *flops);

/* ---- Arguments: the pointers ------------------------------------------------------------------------------------ */

/* Pointers of one call, in the precision of the call. An array without elements may be NULL. An optional pointer that
 * is given without its flag in the problem is an error, and so is a flag without its pointer. */
typedef struct attn_args_f32 {
    size_t struct_size;        /* sizeof(attn_args_f32), set by the initialiser */
    const float *q;            /* strides problem.q */
    const float *k;            /* strides problem.k; not read when the scale is 0 */
    const float *v;            /* strides problem.v */
    float *out;                /* strides problem.out; every row is written */
    float *lse;                /* strides problem.lse; NULL = not wanted */
    const int64_t *q_lens;     /* [batch], 0..q_len; NULL = q_len for all. Rows at or beyond: out 0, lse -Inf */
    const int64_t *kv_lens;    /* [batch], 0..kv_len; NULL = kv_len for all. Keys at or beyond are never read */
    const int64_t *q_offsets;  /* ATTN_RAGGED: [batch + 1], the first 0, monotone */
    const int64_t *kv_offsets; /* ATTN_RAGGED: [batch + 1], the first 0, monotone */
    const uint8_t *mask;       /* ATTN_HAS_MASK: not 0 = attend */
    const float *bias;         /* ATTN_HAS_BIAS: added to the score; -Inf hides */
    const float *alibi_slopes; /* ATTN_HAS_ALIBI: [q_heads] */
    const float *sink;         /* ATTN_HAS_SINK: [q_heads] */
    float *scores, *capped, *masked, *weights; /* ATTN_WANT_...: strides problem.scores */
} attn_args_f32;

/* The same in double. */
typedef struct attn_args_f64 {
    size_t struct_size;
    const double *q;
    const double *k;
    const double *v;
    double *out;
    double *lse;
    const int64_t *q_lens;
    const int64_t *kv_lens;
    const int64_t *q_offsets;
    const int64_t *kv_offsets;
    const uint8_t *mask;
    const double *bias;
    const double *alibi_slopes;
    const double *sink;
    double *scores, *capped, *masked, *weights;
} attn_args_f64;

#define ATTN_ARGS_F32_INIT ATTN_STRUCT_INIT(attn_args_f32)
#define ATTN_ARGS_F64_INIT ATTN_STRUCT_INIT(attn_args_f64)

/* Clear args and set struct_size; write struct_size bytes and no more (since 0.1).
 * Errors: ATTN_ERR_NULL, ATTN_ERR_STRUCT_SIZE. */
ATTN_API attn_status attn_args_init_f32(attn_args_f32 *args, size_t struct_size);
ATTN_API attn_status attn_args_init_f64(attn_args_f64 *args, size_t struct_size);

/* ---- One call ---------------------------------------------------------------------------------------------------- */

/* Attention in one call (since 0.1).
 * Formula: above. Shapes and strides: attn_problem. NULL: context = defaults; others see attn_args_f32.
 * Aliasing: inputs may alias each other. out and lse are refused (ATTN_ERR_OVERLAP) when they start at an input's
 *   pointer, or when both extents are dense and intersect; other overlaps with an input are undefined. out and lse may
 *   overlap neither themselves nor each other. Empty arrays are exempt.
 * NaN, masked and empty rows: above.
 * Threads: at most context->threads; any number of threads may call at once; inside a caller's parallel region and in a
 *   forked child it runs on the calling thread. Bits do not depend on the number of threads or on the other members of
 *   the batch. While it runs, BLAS is told to use one thread; other threads of the process see that meanwhile.
 * Memory: a workspace from context->alloc, freed before it returns; attn_plan_workspace() tells how much.
 * Errors: ATTN_ERR_NULL, _SIZE, _STRIDE, _VALUE, _LENGTH, _OVERFLOW, _OVERLAP, _FLAG, _STRUCT_SIZE, _UNSUPPORTED:
 *   nothing was written. ATTN_ERR_NOMEM: nothing was written. ATTN_ERR_BLAS: nothing was written. ATTN_ERR_THREADS:
 *   outputs are unspecified.
 * Source: Vaswani et al. 2017, "Attention Is All You Need"; online softmax: Milakov and Gimelshein 2018; tiling: Dao et
 *   al. 2022, "FlashAttention". */
ATTN_API attn_status attn_sdpa_f32(const attn_context *context, const attn_problem *problem, const attn_args_f32 *args);
ATTN_API attn_status attn_sdpa_f64(const attn_context *context, const attn_problem *problem, const attn_args_f64 *args);

/* ---- Flat call --------------------------------------------------------------------------------------------------- */

/* Attention on dense arrays [batch, heads, len, dim] with default threads, memory and scale (since 0.1).
 * flags: 0, ATTN_CAUSAL, ATTN_FLAT_BOTTOM_RIGHT, or both. ATTN_ALIGN_BOTTOM_RIGHT is no flag and cannot be refused: its
 * value is that of ATTN_CAUSAL. Everything else as attn_sdpa_f32(). */
#define ATTN_FLAT_BOTTOM_RIGHT (UINT64_C(1) << 32)
ATTN_API attn_status attn_sdpa_flat_f32(int64_t batch, int64_t q_heads, int64_t kv_heads, int64_t q_len, int64_t kv_len,
                                        int64_t head_dim, int64_t v_dim, const float *q, const float *k, const float *v,
                                        float *out, uint64_t flags);
ATTN_API attn_status attn_sdpa_flat_f64(int64_t batch, int64_t q_heads, int64_t kv_heads, int64_t q_len, int64_t kv_len,
                                        int64_t head_dim, int64_t v_dim, const double *q, const double *k,
                                        const double *v, double *out, uint64_t flags);

/* ---- Plan -------------------------------------------------------------------------------------------------------- */

/* A checked problem with its decisions: engine rule, tiles, most threads and workspace. Immutable, so that any number
 * of threads may run the same plan at once, each with its own workspace. */
typedef struct attn_plan attn_plan;

/* Checks the problem and makes a plan for one precision (since 0.1). The plan copies what it needs of context and
 * problem; the context's threads = 0 is resolved now. *plan is written on success only.
 * Threads: any. Memory: one small allocation from context->alloc.
 * Errors: as attn_sdpa_f32() for the problem; ATTN_ERR_DTYPE for a dtype that is none; ATTN_ERR_NOMEM. */
ATTN_API attn_status attn_plan_create(const attn_context *context, const attn_problem *problem, attn_dtype dtype,
                                      attn_plan **plan);

/* Frees a plan; NULL is allowed (since 0.1). No thread may be running it. */
ATTN_API void attn_plan_destroy(attn_plan *plan);

/* Bytes of workspace that attn_plan_run_f32() needs, enough for all lengths up to the problem's (since 0.1). */
#define ATTN_WORKSPACE_ALIGN 64
ATTN_API attn_status attn_plan_workspace(const attn_plan *plan, size_t *bytes);

/* Runs a plan (since 0.1). workspace: at least attn_plan_workspace() bytes, aligned to ATTN_WORKSPACE_ALIGN, used by
 * this call only and without meaning afterwards; nothing is allocated then. NULL (with any workspace_bytes): taken from
 * the context's allocator and freed before the call returns. Everything else, bits included, as attn_sdpa_f32().
 * Errors: as attn_sdpa_f32() for the arguments; ATTN_ERR_WORKSPACE; ATTN_ERR_DTYPE for a plan of the other precision.
 */
ATTN_API attn_status attn_plan_run_f32(const attn_plan *plan, const attn_args_f32 *args, void *workspace,
                                       size_t workspace_bytes);
ATTN_API attn_status attn_plan_run_f64(const attn_plan *plan, const attn_args_f64 *args, void *workspace,
                                       size_t workspace_bytes);

/* Writes what the plan decided for full length as lines "name: value" into text, at most `size` bytes with the closing
 * 0 (since 0.1): problem, engine, path, tiles, threads, workspace and why. *needed, if not NULL, gets the bytes that
 * the whole text takes; text may be NULL when size is 0. A text that does not fit is cut. Errors: ATTN_ERR_NULL. */
ATTN_API attn_status attn_plan_describe(const attn_plan *plan, char *text, size_t size, size_t *needed);

/* ---- Merging ----------------------------------------------------------------------------------------------------- */

/* Flags of attn_merge. */
#define ATTN_MERGE_HAS_SINK (UINT64_C(1) << 0) /* sink is given */

/* Everything about a merge but the pointers. Sizes are literal; strides in elements. */
typedef struct attn_merge {
    size_t struct_size;        /* sizeof(attn_merge), set by the initialiser */
    uint64_t flags;            /* ATTN_MERGE_... */
    int64_t batch;             /* members */
    int64_t q_heads;           /* heads of out and lse */
    int64_t q_len;             /* rows of a head */
    int64_t v_dim;             /* size of a row of out, 0 is legal */
    attn_strides out_a, out_b; /* [batch, q_heads, q_len, v_dim] */
    attn_strides lse_a, lse_b; /* [batch, q_heads, q_len]: row is the distance between neighbouring rows */
    attn_strides out, lse;     /* as out_a and lse_a */
} attn_merge;

#define ATTN_MERGE_INIT ATTN_STRUCT_INIT(attn_merge)

/* Clears a merge and sets struct_size; writes struct_size bytes and no more (since 0.1).
 * Errors: ATTN_ERR_NULL, ATTN_ERR_STRUCT_SIZE. */
ATTN_API attn_status attn_merge_init(attn_merge *merge, size_t struct_size);

/* Merges two results of attention over disjoint sets of keys into the result over all of them (since 0.1).
 * Formula, per row: m = max(lse_a, lse_b);  l = exp(lse_a - m) + exp(lse_b - m);  lse = m + log(l);
 *   out = (exp(lse_a - m) out_a + exp(lse_b - m) out_b) / l.
 *   With a sink: out = (...) / (l + exp(sink[head] - m)); lse never includes it. Parts are computed without the
 *   sink, and of several merges only the last one takes it.
 *   Small number: {no keys}, {score 1, value 3} and {score 2, value 5} merge into out 4.462117157, lse 2.313261688.
 * out_a, out_b, lse_a, lse_b: the two parts, in any order (a and b exchanged give the same bits). sink: [q_heads].
 *   out, lse: written.
 * NULL: arrays without elements; sink exactly when its flag is not set; lse = not wanted; context = defaults.
 * Aliasing: in place: out may be out_a or out_b and lse may be lse_a or lse_b, with the same strides. Otherwise out and
 *   lse are refused (ATTN_ERR_OVERLAP) when they start at an input's pointer, or when both extents are dense and
 *   intersect; other overlaps are undefined.
 * Empty rows and NaN: a part whose lse is -Inf is empty: its out is not read, and without a sink the other part is
 *   the result, bit for bit. Two empty parts give out 0, lse -Inf, sink or not. An lse of NaN or +Inf makes the row and
 *   its lse NaN. A NaN in out_a or out_b reaches its column. A sink of -Inf takes nothing, one of +Inf
 *   everything; one of NaN makes the rows of its head NaN unless they are empty; lse never sees it.
 * Accuracy: within 4 eps max(|out_a|, |out_b|) of the formula, lse within eps max(1, |lse|); errors of lse_a and lse_b
 *   come on top: one of d in their difference changes out by at most d/4 |out_a - out_b|.
 * Threads: blocks of rows over context->threads; bits independent of their number. Memory: none.
 * Errors: ATTN_ERR_NULL, _SIZE, _STRIDE, _VALUE (context), _FLAG, _OVERFLOW, _OVERLAP, _STRUCT_SIZE: nothing was
 *   written. ATTN_ERR_THREADS: outputs are unspecified.
 * Source: Milakov and Gimelshein 2018, "Online normalizer calculation for softmax". */
ATTN_API attn_status attn_merge_f32(const attn_context *context, const attn_merge *merge, const float *out_a,
                                    const float *lse_a, const float *out_b, const float *lse_b, const float *sink,
                                    float *out, float *lse);
ATTN_API attn_status attn_merge_f64(const attn_context *context, const attn_merge *merge, const double *out_a,
                                    const double *lse_a, const double *out_b, const double *lse_b, const double *sink,
                                    double *out, double *lse);

#ifdef __cplusplus
}
#endif

#endif
