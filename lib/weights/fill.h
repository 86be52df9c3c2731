/* Matrices of random numbers, and the checks of everything that makes one. */
#ifndef ATTN_LIB_FILL_H
#define ATTN_LIB_FILL_H

#include <attn/weights.h>

#include "base/context.h"
#include "base/real.h"
#include "weights/random.h"

/* x[i][j] = offset + factor * number i cols + j of a stream. */
typedef struct attn_fill {
    int64_t rows, cols, row_stride;
    attn_random_numbers *numbers;
    attn_random_stream stream;
    double offset, factor;
    real *x;
} attn_fill;

/* Nothing when there are no elements. */
#define attn_run_fill REAL(attn_run_fill)
attn_status attn_run_fill(const attn_resources *resources, const attn_fill *fill);

/* Resolves the context of a public function and checks its matrix, known to the caller as `name`. */
#define attn_check_fill REAL(attn_check_fill)
attn_status attn_check_fill(const attn_context *context, const char *name, const attn_fill *fill,
                            attn_resources *resources);

/* Both of them. */
#define attn_fill_matrix REAL(attn_fill_matrix)
attn_status attn_fill_matrix(const attn_context *context, const char *name, const attn_fill *fill);

#endif
