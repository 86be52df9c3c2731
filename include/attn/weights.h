/* Weight tools: good weights for a user who has none, and a look into those that he has.
 *
 *   attn_random_normal_f32()    a seeded generator: the same numbers on every machine; also _uniform
 *   attn_xavier_uniform_f32()   initial weights by Glorot (Xavier) and He, uniform and normal
 *   attn_orthogonal_f32()       random orthogonal matrices
 *   attn_spectrum_f32()         singular values, norm, condition and ranks of a weight or of an attention matrix
 *   attn_low_rank_f32()         the best factors of rank r of W_Q W_K^T, head by head, and the error they leave
 *
 * A library of its own, libattn_weights, because it needs LAPACK (through LAPACKE), which libattn does not: link
 * attn::attn_weights, or what `pkg-config --libs attn_weights` says. Status, error text and context are libattn's.
 *
 * LAPACK runs on one BLAS thread under libattn's guard, so that no result depends on the number of threads. Where a
 * process has several BLAS libraries the guard rules the one that libattn uses. While LAPACK runs a fork() waits.
 */
#ifndef ATTN_WEIGHTS_H
#define ATTN_WEIGHTS_H

#include <attn/base.h>

#if defined(_WIN32) && !defined(ATTN_STATIC)
#ifdef ATTN_WEIGHTS_BUILDING
#define ATTN_WEIGHTS_API __declspec(dllexport)
#else
#define ATTN_WEIGHTS_API __declspec(dllimport)
#endif
#elif defined(__GNUC__)
#define ATTN_WEIGHTS_API __attribute__((visibility("default")))
#else
#define ATTN_WEIGHTS_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ---- The generator ------------------------------------------------------------------------------------------ */

/* Numbers n = 0, 1, ... of the stream `stream` of `seed` are functions of (seed, stream, n) alone:
 *
 *   bits     Philox4x32-10 (Salmon et al. 2011) with the key (seed mod 2^32, seed / 2^32) and the counter
 *            (b mod 2^32, b / 2^32, stream mod 2^32, stream / 2^32) gives four words w0 .. w3 for block b. Number 2b
 *            has the 64 bits w0 + 2^32 w1, number 2b + 1 has w2 + 2^32 w3.
 *   uniform  u = (floor(bits / 2^12) + 1/2) / 2^52, exact in double, never 0 or 1.
 *   normal   with u and v the uniforms 2b and 2b + 1, r = sqrt(-2 ln u): number 2b is r cos(2 pi v), number 2b + 1 is
 *            r sin(2 pi v) (Box and Muller 1958). |normal| is at most 8.58.
 *
 * Logarithm, sine and cosine are libattn's own, made of +, -, *, / and sqrt in a fixed order without fused operations:
 * the bits are the same for every compiler, instruction set and C library. Float results are the double ones rounded.
 * Two matrices get independent numbers when their streams differ: number the weights of a model 0, 1, 2, ... */

/* Uniform random matrix (since 0.1).
 * Formula: x[i][j] = low + (high - low) u, u the uniform number n = i cols + j; between low and high, but for rounding.
 * x: [rows, cols], written; row_stride elements between rows, at least cols when there is more than one row.
 * NULL: x only when it has no elements; context = defaults. Aliasing: x is the only array.
 * Threads: pieces of x over context->threads; bits independent of their number. Memory: none.
 * Errors: ATTN_ERR_NULL, _SIZE (rows or cols below 0), _STRIDE, _VALUE (low, high or high - low not finite, high below
 *   low), _OVERFLOW, _STRUCT_SIZE (context): nothing was written. ATTN_ERR_THREADS: x is unspecified. */
ATTN_WEIGHTS_API attn_status attn_random_uniform_f32(const attn_context *context, int64_t rows, int64_t cols,
                                                     double low, double high, uint64_t seed, uint64_t stream, float *x,
                                                     int64_t row_stride);
ATTN_WEIGHTS_API attn_status attn_random_uniform_f64(const attn_context *context, int64_t rows, int64_t cols,
                                                     double low, double high, uint64_t seed, uint64_t stream, double *x,
                                                     int64_t row_stride);

/* Normal random matrix (since 0.1).
 * Formula: x[i][j] = mean + stddev z, z the normal number n = i cols + j.
 * Shapes, NULL, aliasing, threads, memory and errors as attn_random_uniform_f32(); ATTN_ERR_VALUE when mean or stddev
 *   is not finite, stddev is below 0, or |mean| + 9 stddev is beyond the range of the precision. */
ATTN_WEIGHTS_API attn_status attn_random_normal_f32(const attn_context *context, int64_t rows, int64_t cols,
                                                    double mean, double stddev, uint64_t seed, uint64_t stream,
                                                    float *x, int64_t row_stride);
ATTN_WEIGHTS_API attn_status attn_random_normal_f64(const attn_context *context, int64_t rows, int64_t cols,
                                                    double mean, double stddev, uint64_t seed, uint64_t stream,
                                                    double *x, int64_t row_stride);

/* ---- Initial weights ---------------------------------------------------------------------------------------- */

/* Xavier initialisation: keeps the variance of what passes forward and backward (since 0.1).
 * Formula: uniform on [-a, a], a = gain sqrt(6 / (rows + cols)); normal with variance gain^2 2 / (rows + cols).
 *   w[i][j] takes number i cols + j of the stream. It is the same for [in, out] and [out, in].
 *   W_Q, W_K and W_V side by side in one array are three calls with the row stride of the whole.
 * w: [rows, cols], written, with row_stride. gain: finite, not negative; 1 in the paper.
 * NULL, aliasing, threads, memory and errors as attn_random_uniform_f32(); ATTN_ERR_VALUE for gain.
 * Source: Glorot and Bengio 2010, equation 16. */
ATTN_WEIGHTS_API attn_status attn_xavier_uniform_f32(const attn_context *context, int64_t rows, int64_t cols,
                                                     double gain, uint64_t seed, uint64_t stream, float *w,
                                                     int64_t row_stride);
ATTN_WEIGHTS_API attn_status attn_xavier_uniform_f64(const attn_context *context, int64_t rows, int64_t cols,
                                                     double gain, uint64_t seed, uint64_t stream, double *w,
                                                     int64_t row_stride);
ATTN_WEIGHTS_API attn_status attn_xavier_normal_f32(const attn_context *context, int64_t rows, int64_t cols,
                                                    double gain, uint64_t seed, uint64_t stream, float *w,
                                                    int64_t row_stride);
ATTN_WEIGHTS_API attn_status attn_xavier_normal_f64(const attn_context *context, int64_t rows, int64_t cols,
                                                    double gain, uint64_t seed, uint64_t stream, double *w,
                                                    int64_t row_stride);

/* He initialisation: keeps the variance through rectified units (since 0.1).
 * Formula: normal with variance gain^2 2 / fan; uniform on [-a, a], a = gain sqrt(6 / fan), which has that variance.
 *   w[i][j] takes number i cols + j of the stream.
 * w: [rows, cols], written, with row_stride. fan: the inputs that a unit sums, at least 1: rows for weights [in, out]
 *   as in X W, cols for [out, in]. gain: finite, not negative; 1 in the paper.
 * NULL, aliasing, threads, memory and errors as attn_random_uniform_f32(); ATTN_ERR_SIZE for fan, _VALUE for gain.
 * Source: He et al. 2015, equation 10. */
ATTN_WEIGHTS_API attn_status attn_he_uniform_f32(const attn_context *context, int64_t rows, int64_t cols, int64_t fan,
                                                 double gain, uint64_t seed, uint64_t stream, float *w,
                                                 int64_t row_stride);
ATTN_WEIGHTS_API attn_status attn_he_uniform_f64(const attn_context *context, int64_t rows, int64_t cols, int64_t fan,
                                                 double gain, uint64_t seed, uint64_t stream, double *w,
                                                 int64_t row_stride);
ATTN_WEIGHTS_API attn_status attn_he_normal_f32(const attn_context *context, int64_t rows, int64_t cols, int64_t fan,
                                                double gain, uint64_t seed, uint64_t stream, float *w,
                                                int64_t row_stride);
ATTN_WEIGHTS_API attn_status attn_he_normal_f64(const attn_context *context, int64_t rows, int64_t cols, int64_t fan,
                                                double gain, uint64_t seed, uint64_t stream, double *w,
                                                int64_t row_stride);

/* Random orthogonal matrix (since 0.1), uniform in the sense of Haar.
 * Formula: with l the larger and s the smaller of rows and cols, G [l, s] of normal numbers, G(i, j) the number
 *   j l + i of the stream; G = Q R; Q(:, j) times the sign of R(j, j). W = gain Q when rows > cols, else gain Q^T.
 *   For gain 1, W^T W = I (rows >= cols) or W W^T = I (rows <= cols), every element within
 *   20 eps sqrt(max(rows, cols)); eps is 2^-23 or 2^-52.
 * w: [rows, cols], written, with row_stride. gain: finite, not negative.
 * NULL: w only when it has no elements; context = defaults. Aliasing: w is the only array.
 * Bits: the numbers of G are the same everywhere, those of W come from LAPACK and differ between its versions.
 * Threads: G over context->threads, LAPACK on one; bits independent of their number.
 * Memory: one piece from the context, rows * cols elements and LAPACK's workspace.
 * Errors: ATTN_ERR_NULL, _SIZE, _STRIDE, _VALUE (gain), _OVERFLOW (extent, or beyond LAPACK's integer), _STRUCT_SIZE;
 *   ATTN_ERR_NOMEM, _THREADS, _BLAS, _LAPACK. Nothing was written after any of them.
 * Source: Mezzadri 2007, section 5; LAPACK's geqrf and orgqr. */
ATTN_WEIGHTS_API attn_status attn_orthogonal_f32(const attn_context *context, int64_t rows, int64_t cols, double gain,
                                                 uint64_t seed, uint64_t stream, float *w, int64_t row_stride);
ATTN_WEIGHTS_API attn_status attn_orthogonal_f64(const attn_context *context, int64_t rows, int64_t cols, double gain,
                                                 uint64_t seed, uint64_t stream, double *w, int64_t row_stride);

/* ---- Spectrum ----------------------------------------------------------------------------------------------- */

/* What the singular values s_1 >= ... >= s_count of a matrix say. */
typedef struct attn_spectrum {
    size_t struct_size;    /* sizeof(attn_spectrum), set by the initialiser */
    int64_t count;         /* min(rows, cols) */
    int64_t rank;          /* how many exceed max(rows, cols) eps s_1 */
    double norm;           /* spectral norm, s_1 */
    double frobenius;      /* Frobenius norm, sqrt(sum s_k^2) */
    double condition;      /* s_1 / s_count; Inf when s_count is 0 or that is beyond double */
    double effective_rank; /* exp(-sum p_k ln p_k), p_k = s_k / sum s: between 1 and count (Roy and Vetterli 2007) */
    double stable_rank;    /* sum s_k^2 / s_1^2: between 1 and count */
} attn_spectrum;

#define ATTN_SPECTRUM_INIT ATTN_STRUCT_INIT(attn_spectrum)

/* Singular values of a matrix, and what they say (since 0.1).
 * Formula: A = U diag(s) V^T. Small numbers: [[3, 0], [4, 5]] has s = 3 sqrt(5), sqrt(5): norm 6.7082, condition 3,
 *   effective rank exp(0.5623) = 1.7548, stable rank 10/9. A matrix of zeros has rank, effective and stable rank 0 and
 *   condition Inf; an empty one has 0 everywhere.
 * a: [rows, cols] with row_stride. singular_values: [min(rows, cols)], written, descending, contiguous.
 * spectrum: struct_size set by the caller, struct_size bytes written.
 * Accuracy: each s within 10 eps sqrt(max(rows, cols)) s_1.
 * NULL: a only when it has no elements; singular_values or spectrum, not both, when not wanted; context = defaults.
 * Aliasing: singular_values, spectrum and a do not overlap. NaN: refused, infinities too, with the place of the first.
 * Threads: one, whatever the context says.
 * Memory: one piece from the context, rows * cols elements and LAPACK's workspace.
 * Errors: ATTN_ERR_NULL, _SIZE, _STRIDE, _VALUE (a not finite, its norm beyond the range, or with a spectrum its
 *   Frobenius norm beyond that of double), _OVERFLOW (extent, or beyond LAPACK's integer), _OVERLAP, _STRUCT_SIZE;
 *   ATTN_ERR_NOMEM, _BLAS, _LAPACK (no convergence). Nothing was written after any of them.
 * Source: LAPACK's gesdd; Roy and Vetterli 2007 (effective rank); Rudelson and Vershynin 2007 (stable rank). */
ATTN_WEIGHTS_API attn_status attn_spectrum_f32(const attn_context *context, int64_t rows, int64_t cols, const float *a,
                                               int64_t row_stride, float *singular_values, attn_spectrum *spectrum);
ATTN_WEIGHTS_API attn_status attn_spectrum_f64(const attn_context *context, int64_t rows, int64_t cols, const double *a,
                                               int64_t row_stride, double *singular_values, attn_spectrum *spectrum);

/* ---- Low rank ----------------------------------------------------------------------------------------------- */

/* Flags of attn_low_rank. */
#define ATTN_LOW_RANK_OUT_IN (UINT64_C(1) << 0) /* weights and factors are [out, in] instead of [in, out] */

/* Everything about a factorisation but the pointers. Sizes are literal; strides in elements. */
typedef struct attn_low_rank {
    size_t struct_size;        /* sizeof(attn_low_rank), set by the initialiser */
    uint64_t flags;            /* ATTN_LOW_RANK_... */
    int64_t q_heads, kv_heads; /* kv_heads divides q_heads; query head h goes with key head h / (q_heads / kv_heads) */
    int64_t d_model;           /* inputs of W_Q: size of a row of X */
    int64_t d_context;         /* inputs of W_K: d_model, or the size of a row of the context in cross-attention */
    int64_t head_dim;          /* columns of W_Q and W_K for each head */
    int64_t rank;              /* columns of a factor for each head, 0 .. min(head_dim, d_model, d_context) */
    int64_t w_q_row, w_k_row;  /* row strides of the weights */
    int64_t a_row, b_row;      /* row strides of the factors */
} attn_low_rank;

#define ATTN_LOW_RANK_INIT ATTN_STRUCT_INIT(attn_low_rank)

/* Clears an attn_low_rank and sets struct_size; writes struct_size bytes and no more (since 0.1).
 * Errors: ATTN_ERR_NULL, ATTN_ERR_STRUCT_SIZE. */
ATTN_WEIGHTS_API attn_status attn_low_rank_init(attn_low_rank *problem, size_t struct_size);

/* What is lost of M = W_Q W_K^T of one head, s its singular values. Has this size for good. */
typedef struct attn_low_rank_error {
    double norm;            /* spectral norm of M, s_1 */
    double frobenius;       /* Frobenius norm of M */
    double spectral_error;  /* spectral norm of M - A B^T, s_(rank+1); 0 when there is none */
    double frobenius_error; /* Frobenius norm of M - A B^T, the root of the sum of s_k^2 beyond rank */
} attn_low_rank_error;

/* Best approximation of W_Q W_K^T with fewer columns, for each query head (since 0.1).
 * Formula: M_h = W_Q,h W_K,h^T = U diag(s) V^T;  A_h = U_r diag(sqrt(s)), B_h = V_r diag(sqrt(s)), U_r and V_r the
 *   first `rank` columns. No factors of that rank leave less, in both norms. M_h itself, d_context columns wide, is
 *   never formed: W_Q,h = Q_1 R_1, W_K,h = Q_2 R_2, and R_1 R_2^T has the same s.
 *   A and B serve as W_Q and W_K of a layer with kv_heads = q_heads and head_dim = rank, whose scale must be given: it
 *   stays 1/sqrt of the original head_dim.
 * w_q: [d_model, q_heads * head_dim], w_k: [d_context, kv_heads * head_dim], head h in columns h head_dim and on.
 * a: [d_model, q_heads * rank], b: [d_context, q_heads * rank], written, head h in columns h rank and on.
 *   With ATTN_LOW_RANK_OUT_IN all four are transposed: w_q [q_heads * head_dim, d_model], and so on.
 * singular_values: [q_heads, min(head_dim, d_model, d_context)], written, dense, descending. errors: [q_heads],
 * written.
 * Accuracy: singular values and A B^T within 40 eps sqrt(max size) norm(W_Q,h) norm(W_K,h), spectral norms; what is
 *   below that of the errors is rounding.
 * NULL: arrays without elements; singular_values and errors when not wanted; a and b, both, when only the others are
 *   wanted; context = defaults.
 * Aliasing: inputs may alias each other; no output overlaps an input or another output.
 * NaN: refused, infinities too, with the place of the first.
 * Threads: key heads over context->threads; bits independent of their number.
 * Memory: one piece from the context: the outputs, and for each thread both weights of a head and LAPACK's workspace.
 * Errors: ATTN_ERR_NULL, _SIZE, _STRIDE, _VALUE (weights not finite, M_h beyond the range, or with errors its Frobenius
 *   norm beyond that of double), _FLAG, _OVERFLOW, _OVERLAP, _STRUCT_SIZE; ATTN_ERR_NOMEM, _THREADS, _BLAS, _LAPACK
 *   (no convergence). Nothing was written after any of them.
 * Source: Eckart and Young 1936; LAPACK's geqrf, gesdd and ormqr. */
ATTN_WEIGHTS_API attn_status attn_low_rank_f32(const attn_context *context, const attn_low_rank *problem,
                                               const float *w_q, const float *w_k, float *a, float *b,
                                               float *singular_values, attn_low_rank_error *errors);
ATTN_WEIGHTS_API attn_status attn_low_rank_f64(const attn_context *context, const attn_low_rank *problem,
                                               const double *w_q, const double *w_k, double *a, double *b,
                                               double *singular_values, attn_low_rank_error *errors);

#ifdef __cplusplus
}
#endif

#endif
