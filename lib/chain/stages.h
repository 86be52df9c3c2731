/* What the stages of the chain share: checks of matrices, and products cut into blocks (project.c). */
#ifndef ATTN_LIB_STAGES_H
#define ATTN_LIB_STAGES_H

#include <attn/base.h>
#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/blocks.h"
#include "base/checks.h"
#include "base/context.h"
#include "base/real.h"
#include "base/status.h"
#include "blas/blas.h"
#include "position/angles.h"

/* ---- Checks ------------------------------------------------------------------------------------------------------ */

static inline attn_extent attn_real_matrix(const char *name, const real *address, int64_t rows, int64_t cols,
                                           int64_t row_stride) {
    return attn_extent_matrix(name, address, rows, cols, row_stride, sizeof(real));
}

static inline attn_status attn_check_scale(double scale) {
    if (isfinite((real)scale))
        return ATTN_OK;
    return attn_fail(ATTN_ERR_VALUE, "scale %g is not finite in %s", scale, sizeof(real) == 4 ? "float" : "double");
}

/* `name` and `what` make the subject of the sentence: "x", ": row stride". */
static inline attn_status attn_check_fits_blas(const char *name, const char *what, int64_t value) {
    if (attn_blas_fits(value))
        return ATTN_OK;
    return attn_fail(ATTN_ERR_OVERFLOW, "%s%s %" PRId64 " does not fit the integer of the BLAS library", name, what,
                     value);
}

/* ---- Products (project.c) ---------------------------------------------------------------------------------------- */

/* C[b] = alpha A[b] op(B) + 1 bias^T for each member b: A [m, k], op(B) = B [k, n] or the transpose of B [n, k],
 * C [m, n]. The names are the caller's, for sentences. */
typedef struct attn_product {
    int64_t members, m, n, k;
    bool transpose_b;
    real alpha;
    const real *a;
    int64_t a_member, a_stride;
    const real *b;
    int64_t b_stride;
    const real *bias; /* [n] or NULL */
    real *c;
    int64_t c_member, c_stride;
    const char *k_name, *a_name, *b_name, *c_name;
} attn_product;

/* ATTN_ERR_OVERFLOW when what BLAS gets as it is (k, and the stride of a matrix of several rows) does not fit its
 * integer; m and n are cut into blocks, so any fits. ATTN_ERR_BLAS when the library in this process cannot be used. */
attn_status REAL(attn_check_product)(const attn_product *product);

/* Computes a checked product. A member's bits depend on that member alone. */
attn_status REAL(attn_run_product)(const attn_resources *resources, const attn_product *product);

#endif
