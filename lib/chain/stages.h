/* What the stages of the chain share: checks of matrices, and products cut into blocks (product.h). */
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
#include "chain/product.h"
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

/* ---- Stages ------------------------------------------------------------------------------------------------------ */

/* attn_project() in scratch memory of attn_product_scratch() bytes for each thread of the resources, or for
 * attn_product_panels() if they are more; NULL = the resources' own. */
attn_status REAL(attn_project_in)(const attn_resources *resources, int64_t batch, int64_t rows, int64_t d_in,
                                  int64_t d_out, const real *x, int64_t x_batch, int64_t x_stride, const real *w,
                                  int64_t w_stride, const real *bias, real *y, int64_t y_batch, int64_t y_stride,
                                  void *scratch);

#endif
