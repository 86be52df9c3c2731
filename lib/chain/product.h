/* Products of the chain and of the layer: the rows of each member times one matrix, cut into blocks that threads
 * draw. */
#ifndef ATTN_LIB_PRODUCT_H
#define ATTN_LIB_PRODUCT_H

#include <attn/base.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/context.h"
#include "base/real.h"
#include "chain/product_path.h"

/* C[b] = alpha A[b] op(B) + 1 bias^T for each member b: A [m, k], op(B) = B [k, n] or the transpose of B [n, k],
 * C [m, n]. The names are the caller's, for sentences. */
typedef struct attn_product {
    int64_t members, m, n, k;
    const int64_t *lengths; /* [members]: rows of each member, the others are neither read nor written; NULL = m */
    const int64_t *offsets; /* [members + 1]: member b has the rows offsets[b] .. offsets[b+1]-1 of A and C, at most m;
                             * NULL = batch strides */
    bool transpose_b;
    bool weights; /* B is large and serves all members: they may share one reading or packing of it; alpha is 1 */
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

/* Computes checked products, at most ATTN_MAX_PRODUCTS, none of which needs another one's results. A member's bits
 * depend on that member alone. `scratch` has scratch_bytes for each thread of the resources, aligned to
 * ATTN_LEDGER_ALIGN: the most that attn_product_scratch() says of one of the products. */
enum { ATTN_MAX_PRODUCTS = 3 };
attn_status REAL(attn_run_products)(const attn_resources *resources, int count, const attn_product *products,
                                    void *scratch, int64_t scratch_bytes);

#endif
