/* Positions: what tells a token where it stands.
 *
 *   attn_sinusoidal_f32()     a matrix that is added to the embeddings
 *   attn_rotary_f32()         turns queries and keys by an angle that grows with their position
 *   attn_alibi_slopes_f32()   the slopes of a bias by distance, which attn_sdpa_f32() adds to the scores
 */
#ifndef ATTN_POSITION_H
#define ATTN_POSITION_H

#include <attn/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Sinusoidal -------------------------------------------------------------------------------------------------- */

/* Sinusoidal positions (since 0.1).
 * Formula: angle = pos / base^(2i / d_model);  P[r][2i] = sin(angle), P[r][2i+1] = cos(angle), pos = start + r. With an
 *   odd d_model the last column is the sine of its pair (some codes leave it 0).
 * p: [rows, d_model], written; row_stride elements between rows, at least d_model when there is more than one row.
 * start: any int64 whose last position start + rows - 1 is an int64 too. base: finite and positive; 10000 in the paper.
 * NULL: p only when rows is 0; context = defaults. Aliasing: p is the only array.
 * Accuracy: float within 2^-23 absolute for |pos| up to 1,000,000 (base 1 or more), double within
 *   4 * 2^-52 * (1 + |angle|) for every position. Results lie in [-1, 1] for every start and base.
 * Bits: an element depends on its position, its column, d_model and base alone.
 * Threads: blocks of rows and columns over context->threads; bits independent of their number. Memory: none.
 * Errors: ATTN_ERR_NULL, _SIZE (rows below 0, d_model below 1), _STRIDE, _VALUE (base), _OVERFLOW (positions or
 *   extent), _STRUCT_SIZE (context): nothing was written. ATTN_ERR_THREADS: p is unspecified.
 * Source: Vaswani et al. 2017, section 3.5. */
ATTN_API attn_status attn_sinusoidal_f32(const attn_context *context, int64_t rows, int64_t d_model, int64_t start,
                                         double base, float *p, int64_t row_stride);
ATTN_API attn_status attn_sinusoidal_f64(const attn_context *context, int64_t rows, int64_t d_model, int64_t start,
                                         double base, double *p, int64_t row_stride);

/* ---- Rotary ------------------------------------------------------------------------------------------------------ */

/* Which two of the first rotary_dim elements of a row turn together. Required: 0 is neither. */
typedef enum attn_rotary_pairing {
    ATTN_ROTARY_INTERLEAVED = 1, /* (x[2k], x[2k+1]): RoFormer, GPT-J, ONNX with interleaved = 1 */
    ATTN_ROTARY_HALF_SPLIT = 2   /* (x[k], x[k + rotary_dim/2]): GPT-NeoX, Llama in Hugging Face, ONNX otherwise */
} attn_rotary_pairing;

/* Flags of attn_rotary. A field whose flag is not set is not looked at. */
#define ATTN_ROTARY_INVERSE (UINT64_C(1) << 0)    /* turns back: the sine changes its sign */
#define ATTN_ROTARY_HAS_IDS (UINT64_C(1) << 1)    /* ids are given and ids_batch counts; else start counts */
#define ATTN_ROTARY_HAS_TABLES (UINT64_C(1) << 2) /* tables are given and their sizes count; else base counts */

/* Everything about a rotation but the pointers. Sizes are literal; strides in elements. */
typedef struct attn_rotary {
    size_t struct_size;          /* sizeof(attn_rotary), set by the initialiser */
    uint64_t flags;              /* ATTN_ROTARY_... */
    attn_rotary_pairing pairing; /* required */
    int64_t batch, heads, rows;  /* of x and y */
    int64_t head_dim;            /* size of a row, at least 1 */
    int64_t rotary_dim;          /* even, 0 .. head_dim: the first so many elements turn */
    int64_t start;               /* position of row 0 of every member */
    double base;                 /* finite and positive; 10000 in the paper */
    attn_strides x, y;           /* [batch, heads, rows, head_dim] */
    int64_t ids_batch;           /* from one member's ids to the next one's; 0 = one set for all */
    int64_t table_rows;          /* positions 0 .. table_rows-1 */
    int64_t table_row;           /* row stride of both tables */
    int64_t table_batch;         /* from one member's table to the next one's; 0 = one table for all */
} attn_rotary;

#define ATTN_ROTARY_INIT ATTN_STRUCT_INIT(attn_rotary)

/* Clears a rotary and sets struct_size; writes struct_size bytes and no more (since 0.1).
 * Errors: ATTN_ERR_NULL, ATTN_ERR_STRUCT_SIZE. */
ATTN_API attn_status attn_rotary_init(attn_rotary *rotary, size_t struct_size);

/* Rotary positions (since 0.1).
 * Formula: with r = rotary_dim, each pair k = 0 .. r/2-1 of the first r elements of a row at position pos turns by
 *   angle = pos / base^(2k/r):  y_a = x_a cos(angle) - x_b sin(angle),  y_b = x_b cos(angle) + x_a sin(angle).
 *   Inverse: by -angle. pos = ids[b][row], or start + row. With tables cos and sin are cosines[pos][k], sines[pos][k].
 *   Elements r and beyond are copied bit for bit, in place not touched.
 *   Small numbers: head_dim = r = 4, position 1, base 10000, x = [1, 2, 3, 4] gives
 *   interleaved [-1.142639664, 1.922075597, 2.959850668, 4.029799502],
 *   half split  [-1.984110649, 1.959900667, 2.462377902, 4.019799668].
 * x, y: [batch, heads, rows, head_dim] with strides; y is written. ids: [batch, rows]. cosines, sines:
 *   [table_rows, r/2], or [batch, table_rows, r/2] with table_batch: a table that holds a row per token rather than per
 *   position is one with start 0.
 *   Positions are any int64 with own angles and rows of the table with tables.
 * NULL: arrays without elements; ids, cosines, sines exactly when their flag is not set; context = defaults.
 * Aliasing: in place: y may be x with the same strides. y is refused (ATTN_ERR_OVERLAP) when it starts at any other
 *   input's pointer, or when both extents are dense and intersect; other overlaps are undefined.
 * NaN and Inf: IEEE arithmetic within the pair; they reach no other pair.
 * Accuracy, m = |x_a| + |x_b|: own angles, base 1 or more: float within 2 * 2^-23 m for |pos| up to 1,000,000; double
 *   within 5 * 2^-52 (1 + |angle|) m. Tables: within one eps of |x_a cos| + |x_b sin|.
 * Bits: an element depends on its pair and its position (or table row) alone.
 * Threads: blocks of rows over context->threads; bits independent of their number. Memory: none.
 * Errors: ATTN_ERR_NULL, _SIZE (rotary_dim odd or above head_dim too), _STRIDE, _VALUE (base), _FLAG (pairing, unknown
 *   flags, a pointer without its flag), _ID (a position that is no row of the table), _OVERFLOW, _OVERLAP,
 *   _STRUCT_SIZE: nothing was written. ATTN_ERR_THREADS: y is unspecified.
 * Source: Su et al. 2021, "RoFormer", section 3.2.2. */
ATTN_API attn_status attn_rotary_f32(const attn_context *context, const attn_rotary *rotary, const float *x,
                                     const int64_t *ids, const float *cosines, const float *sines, float *y);
ATTN_API attn_status attn_rotary_f64(const attn_context *context, const attn_rotary *rotary, const double *x,
                                     const int64_t *ids, const double *cosines, const double *sines, double *y);

/* ---- ALiBi ------------------------------------------------------------------------------------------------------- */

/* Slopes of ALiBi, for attn_args_f32.alibi_slopes (since 0.1): the score of query position p and key j gets
 * -slope * |p - j|.
 * Formula: n = the largest power of two in `heads`; slopes[h] = 2^(-8 (h + 1) / n) for h < n; the heads beyond take
 *   every other slope of 2n heads: slopes[n + i] = 2^(-8 (2i + 1) / (2n)). Small number: 3 heads have 1/16, 1/256, 1/4.
 * slopes: [heads], written. NULL: slopes only when heads is 0. Accuracy: one ulp. Threads: the calling one.
 * Memory: none. Errors: ATTN_ERR_SIZE (heads below 0), _NULL, _OVERFLOW: nothing was written.
 * Source: Press, Smith and Lewis 2022, "Train Short, Test Long", section 3 and the code of its authors. */
ATTN_API attn_status attn_alibi_slopes_f32(int64_t heads, float *slopes);
ATTN_API attn_status attn_alibi_slopes_f64(int64_t heads, double *slopes);

#ifdef __cplusplus
}
#endif

#endif
