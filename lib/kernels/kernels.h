/* The kernels: hand-written loops over contiguous memory, one source for float and double and all instruction sets.
 *
 * A kernel knows no heads, masks or threads, checks nothing and allocates nothing. Its pointers need no alignment, its
 * sizes may be 0 or any number: tails give the same bits as the vector body. Bits may differ between instruction sets.
 * attn_kernels_f32()/_f64() return the table chosen at start-up (table.c): filled with the generic kernels first, then
 * overwritten by the best instruction set of this CPU.
 */
#ifndef ATTN_LIB_KERNELS_H
#define ATTN_LIB_KERNELS_H

#include <attn/base.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/real.h"
#include "kernels/parts.h"

typedef struct REAL(attn_kernels) {
    /* y[i] = exp(x[i]), at most 1 ulp; +0 below the smallest normal result, +Inf above, NaN stays. x == y is allowed.
     */
    void (*exp)(int64_t n, const real *x, real *y);

    /* Stable softmax of one row: y[i] = exp(x[i] - max) / sum. Entries of -Inf give 0; a row of nothing but -Inf (or
     * n 0) becomes all 0; NaN or +Inf anywhere makes all of y NaN. x == y is allowed. Returns the log of
     * sum exp(x): -Inf for an empty row, NaN with NaN. */
    real (*softmax_row)(int64_t n, const real *x, real *y);

    /* One step of the online softmax over a tile of scores s (rows x cols, row stride ld), in place.
     * On entry row_max[i] and row_sum[i] describe the keys seen so far (-Inf and 0 before the first tile; rescale[i] is
     * what the step before has left, or 1).
     * On exit s[i][j] = exp(s - row_max[i]) with the new maximum, row_sum[i] = old sum rescaled + sum of the new
     * s[i][:], and rescale[i] is what the output accumulated so far must be multiplied by (1 when the maximum did not
     * move, or there was none). While a row has seen nothing but -Inf, row_max stays -Inf, row_sum 0, and s[i][:]
     * becomes 0. A NaN or +Inf score makes row_sum NaN for good.
     * With `keep`, a row that has a maximum keeps it while its new weights add up to 65536 at most and are not NaN,
     * which saves a reading of the scores: weights are then relative to a score next to the largest. Returns the number
     * of rows for which that turned out to be wrong, 0 without `keep`: their rescale is -1, their scores are lost,
     * their state is as before, and the caller makes their scores again and calls once more without `keep`. A row's
     * bits depend on that row alone. */
    int64_t (*softmax_tile)(int64_t rows, int64_t cols, real *s, int64_t ld, bool keep, real *row_max, real *row_sum,
                            real *rescale);

    /* o[i][:] *= factor[i] (rows x cols, row stride ld); rows of factor 1 are left alone bit for bit. */
    void (*scale_rows)(int64_t rows, int64_t cols, real *o, int64_t ld, const real *factor);

    /* y[i] = factor * x[i]; x == y is allowed. */
    void (*scaled)(int64_t n, real factor, const real *x, real *y);

    /* y[i] = factor * x[i] / divisor, the quotient rounded once, in a hundredth of the cases next to it; x == y is
     * allowed. An infinite x gives Inf or NaN, -0 gives 0: products that are written and products that are added to 0
     * differ there. */
    void (*divided)(int64_t n, real factor, real divisor, const real *x, real *y);

    /* y[j][i] = x[i][j] for rows x cols elements of x (row strides ldx and ldy). */
    void (*transpose)(int64_t rows, int64_t cols, const real *x, int64_t ldx, real *y, int64_t ldy);

    /* True when no element of x (rows x cols, row stride ld) is NaN or infinite. */
    bool (*all_finite)(int64_t rows, int64_t cols, const real *x, int64_t ld);

    /* Few rows times a matrix that is read once: y[r][j] += sum_c x[r][c] w[c][j] for j < cols, or with
     * product_transposed y[r][j] = scale sum_c x[r][c] w[j][c], over c < k; rows of w lie ld apart, those of x and y
     * anywhere. A result's bits depend on its own row and column alone. add_product adds in ascending c; with `apart`
     * it takes each 256 terms, and what is left if that is 64 or more, a quarter apart: 0, 64, 128, 192, 1, 65 and so
     * on, those above a multiple of four in order at the end. product_transposed has the same bits either way. */
    void (*add_product)(int64_t rows, int64_t cols, int64_t k, bool apart, const real *const *x, const real *w,
                        int64_t ld, real *const *y);
    void (*product_transposed)(int64_t rows, int64_t cols, int64_t k, bool apart, real scale, const real *const *x,
                               const real *w, int64_t ld, real *const *y);

    /* y[i][j] = alpha sum_c x[i][c] w[c][j], or that much more with `add`: rows x cols results over c < k, each in
     * ascending c in `real`, in sums of up to 256 terms (AVX-512 128), so that its bits depend on its own row and
     * column alone. y is not read without `add`. */
    void (*multiply)(int64_t rows, int64_t cols, int64_t k, real alpha, const real *x, int64_t ldx, const real *w,
                     int64_t ldw, bool add, real *y, int64_t ldy);

    /* The following are NULL where there is no matrix unit: for double, and below ATTN_ISA_AMX. Parts are of three
     * bfloat16 numbers a float, as parts.c has them, at addresses that are multiples of 64.
     *
     * Left factor: rows x k elements scale * x[i][c], as if the product were not rounded, after `skip` zeros in each
     * row, fewer than 32. wild[i] becomes 1 where a row has a number of ATTN_PARTS_LARGE or more, or one that is not
     * finite, else 0; without wild the scale is 1. */
    void (*split_rows)(int64_t rows, int64_t k, int64_t skip, real scale, const real *x, int64_t ldx, void *parts,
                       uint8_t *wild);
    /* Right factor: k x cols elements w[c][j], after `skip` rows of zeros, fewer than 32. What is not finite makes
     * products that are not. */
    void (*split_values)(int64_t k, int64_t cols, int64_t skip, const real *w, int64_t ldw, void *parts);
    /* Right factor from its transpose: cols x k elements w[j][c], after `skip` columns of anything, fewer than 16.
     * wild[j] as above. */
    void (*split_keys)(int64_t cols, int64_t k, int64_t skip, const real *w, int64_t ldw, void *parts, uint8_t *wild);
    /* Each result in the same order, so that its bits depend on its own row and column, and where these begin in blocks
     * of terms, alone; terms of 0 change none that is normal. Between parts_begin and parts_end on the same thread. */
    void (*multiply_parts)(const attn_parts_product *product);
    void (*parts_begin)(void);
    void (*parts_end)(void);

    /* z[i] = x[i] + y[i]; z may be x or y. */
    void (*add)(int64_t n, const real *x, const real *y, real *z);

    /* s[j] = cap * tanh(s[j] / cap), tanh at most 1 ulp; NaN stays, infinities become +-cap. */
    void (*softcap)(int64_t n, real cap, real *s);

    /* s[j] += b[j]; a bias of -Inf gives -Inf whatever s[j] is, NaN included. */
    void (*add_bias)(int64_t n, const real *b, real *s);

    /* s[j] -= slope * |distance - j|, where distance is the query's position less the position of s[0]: a whole
     * number. */
    void (*add_alibi)(int64_t n, real slope, double distance, real *s);

    /* s[j] = -Inf where mask[j] is 0. */
    void (*hide)(int64_t n, const uint8_t *mask, real *s);

    /* sine[i] = sin(angle[i]), cosine[i] = cos(angle[i]) for finite angles up to 2^31 in magnitude, at most one eps
     * of `real` absolute. Angles are double in both precisions. */
    void (*sincos)(int64_t n, const double *angle, real *sine, real *cosine);

    /* Rotary positions: each pair (a, b) of x becomes (a c - b s, b c + a s) in y, c = cosine[k], s = direction *
     * sine[k], direction 1 or -1. y may be x. A pair is (x[2k], x[2k+1]), or (x[k], x[half + k]). */
    void (*rotate_interleaved)(int64_t pairs, const real *cosine, const real *sine, real direction, const real *x,
                               real *y);
    void (*rotate_halves)(int64_t pairs, int64_t half, const real *cosine, const real *sine, real direction,
                          const real *x, real *y);
} REAL(attn_kernels);

/* The table in use. Constant after the library was loaded. */
const REAL(attn_kernels) * REAL(attn_kernels_in_use)(void);

/* The table of one instruction set, for tests; NULL when it is not compiled in or this CPU lacks it. */
const REAL(attn_kernels) * REAL(attn_kernels_of)(attn_isa isa);

#endif
