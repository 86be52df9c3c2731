/* What the weight tools share: checks of their arguments, workspace, copies between row-major and column-major. */
#ifndef ATTN_LIB_MATRIX_H
#define ATTN_LIB_MATRIX_H

#include <attn/base.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/blocks.h"
#include "base/ledger.h"
#include "base/real.h"
#include "base/status.h"

#define REAL_NAME (sizeof(real) == 4 ? "float" : "double")
#define REAL_EPS (sizeof(real) == 4 ? (double)FLT_EPSILON : DBL_EPSILON)

/* ---- Checks ------------------------------------------------------------------------------------------------------ */

/* A gain times any number that it is used with stays finite. */
static inline attn_status attn_check_gain(double gain) {
    const double most = REAL_MAX / 16;
    if (gain >= 0 && gain <= most)
        return ATTN_OK;
    return attn_fail(ATTN_ERR_VALUE, "gain %g is outside 0 .. %g", gain, most);
}

static inline attn_status attn_check_entries(const char *name, const real *a, int64_t rows, int64_t cols,
                                             int64_t row_stride) {
    for (int64_t i = 0; cols > 0 && i < rows; i++)
        for (int64_t j = 0; j < cols; j++)
            if (!isfinite(a[i * row_stride + j]))
                return attn_fail(ATTN_ERR_VALUE, "%s[%" PRId64 "][%" PRId64 "] is %g", name, i, j,
                                 (double)a[i * row_stride + j]);
    return ATTN_OK;
}

/* ---- Singular values --------------------------------------------------------------------------------------------- */

/* The sum of the squares of `count` descending numbers, relative to the first of them, so that none overflows; 0 when
 * all are 0. Its root times the first one is the Frobenius norm. */
static inline double attn_relative_squares(const real *s, int64_t count) {
    double squares = 0;
    for (int64_t k = 0; k < count && s[0] > 0; k++)
        squares += (double)s[k] / (double)s[0] * ((double)s[k] / (double)s[0]);
    return squares;
}

/* ---- Workspace --------------------------------------------------------------------------------------------------- */

/* All pieces of a call at once. */
static inline attn_status attn_allocate_pieces(const attn_resources *resources, const attn_ledger *ledger,
                                               void **memory) {
    if (ledger->overflow)
        return attn_fail(ATTN_ERR_OVERFLOW, "the workspace is larger than the address space");
    *memory = attn_allocate(resources, ledger->bytes);
    if (*memory == NULL)
        return attn_fail(ATTN_ERR_NOMEM, "the allocator has no %" PRId64 " bytes for the workspace", ledger->bytes);
    return ATTN_OK;
}

/* ---- Copies ------------------------------------------------------------------------------------------------------ */

static inline void attn_copy(int64_t rows, int64_t cols, const real *from, int64_t from_stride, real *to,
                             int64_t to_stride) {
    for (int64_t i = 0; i < rows; i++)
        memcpy(to + i * to_stride, from + i * from_stride, (size_t)cols * sizeof(real));
}

/* to[j][i] = from[i][j], in squares whose rows stay in the cache. */
static inline void attn_transpose(int64_t rows, int64_t cols, const real *from, int64_t from_stride, real *to,
                                  int64_t to_stride) {
    enum { SQUARE = 16 };
    for (int64_t row = 0; row < rows; row += SQUARE)
        for (int64_t col = 0; col < cols; col += SQUARE)
            for (int64_t j = col; j < attn_smaller(col + SQUARE, cols); j++)
                for (int64_t i = row; i < attn_smaller(row + SQUARE, rows); i++)
                    to[j * to_stride + i] = from[i * from_stride + j];
}

#endif
