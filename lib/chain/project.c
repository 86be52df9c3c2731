/* Y = X W + bias for each member of a batch, and the blocked product that scores.c and combine.c use as well. */
#include <attn/chain.h>

#include "chain/stages.h"
#include "kernels/kernels.h"

/* One call of gemm computes a block of at most this size. Large enough for OpenBLAS to run at speed (its kernels of
 * Haswell type want 256 rows), small enough that a few hundred rows feed several threads. */
enum { PRODUCT_BLOCK_ROWS = 256, PRODUCT_BLOCK_COLS = 512 };

/* Multiplications that are worth starting a thread for: some ten microseconds at 25 per nanosecond. */
enum { PRODUCT_LEAST_WORK = 262144 };

/* A stride between rows that are not there is never looked at. */
static int64_t used_stride(int64_t rows, int64_t stride) {
    return rows > 1 ? stride : 0;
}

attn_status REAL(attn_check_product)(const attn_product *product) {
    const attn_product *p = product;
    if (p->members == 0 || p->m == 0 || p->n == 0 || p->k == 0)
        return ATTN_OK; /* no product */
    ATTN_TRY(attn_check_fits_blas(p->k_name, "", p->k));
    ATTN_TRY(attn_check_fits_blas(p->a_name, ": row stride", used_stride(p->m, p->a_stride)));
    ATTN_TRY(attn_check_fits_blas(p->b_name, ": row stride", used_stride(p->transpose_b ? p->n : p->k, p->b_stride)));
    ATTN_TRY(attn_check_fits_blas(p->c_name, ": row stride", used_stride(p->m, p->c_stride)));
    return attn_blas_check();
}

typedef struct product_job {
    attn_blocks blocks;
    const attn_product *product;
} product_job;

static void compute_blocks(void *argument, int worker) {
    product_job *job = argument;
    const attn_product *p = job->product;
    attn_block block;
    (void)worker;
    while (attn_next_block(&job->blocks, &block)) {
        /* with k 0 there is nothing to point at */
        const real *a = p->k == 0 ? NULL : p->a + block.member * p->a_member + block.row * p->a_stride;
        const real *b = p->k == 0 ? NULL : p->b + (p->transpose_b ? block.col * p->b_stride : block.col);
        real *c = p->c + block.member * p->c_member + block.row * p->c_stride + block.col;
        attn_gemm(false, p->transpose_b, block.rows, block.cols, p->k, p->alpha, a, used_stride(p->m, p->a_stride), b,
                  used_stride(p->transpose_b ? p->n : p->k, p->b_stride), 0, c, used_stride(p->m, p->c_stride));
        for (int64_t row = 0; p->bias != NULL && row < block.rows; row++) {
            real *c_row = c + row * p->c_stride;
            REAL(attn_kernels_in_use)()->add(block.cols, c_row, p->bias + block.col, c_row);
        }
    }
}

attn_status REAL(attn_run_product)(const attn_resources *resources, const attn_product *product) {
    product_job job = {
        .blocks = attn_cut(product->members, product->m, product->n, PRODUCT_BLOCK_ROWS, PRODUCT_BLOCK_COLS),
        .product = product,
    };
    if (job.blocks.queue.count == 0)
        return ATTN_OK;
    int64_t results = attn_mul_saturated(product->members, attn_mul_saturated(product->m, product->n));
    int workers =
        attn_block_workers(&job.blocks, resources, attn_mul_saturated(results, product->k), PRODUCT_LEAST_WORK);
    return attn_run_blas_workers(resources, workers, compute_blocks, &job);
}

/* A member is a matrix [rows, cols]; heads of one, so that checks speak of batch and row strides. */
static attn_extent batch_extent(const char *name, const real *address, int64_t batch, int64_t rows, int64_t cols,
                                int64_t batch_stride, int64_t row_stride) {
    return (attn_extent){
        .name = name,
        .address = address,
        .dims = 4,
        .size = {batch, 1, rows, cols},
        .stride = {batch_stride, 0, row_stride, 1},
        .element_bytes = sizeof(real),
    };
}

attn_status REAL(attn_project)(const attn_context *context, int64_t batch, int64_t rows, int64_t d_in, int64_t d_out,
                               const real *x, int64_t x_batch, int64_t x_stride, const real *w, int64_t w_stride,
                               const real *bias, real *y, int64_t y_batch, int64_t y_stride) {
    attn_resources resources;
    ATTN_TRY(attn_resolve_context(context, &resources));
    ATTN_TRY(attn_check_size("batch", batch, 0));
    ATTN_TRY(attn_check_size("rows", rows, 0));
    ATTN_TRY(attn_check_size("d_in", d_in, 0));
    ATTN_TRY(attn_check_size("d_out", d_out, 0));
    attn_extent inputs[] = {
        batch_extent("x", x, batch, rows, d_in, x_batch, x_stride),
        attn_real_matrix("w", w, d_in, d_out, w_stride),
        attn_extent_vector("bias", bias, bias == NULL ? 0 : d_out, sizeof(real)),
    };
    attn_extent output = batch_extent("y", y, batch, rows, d_out, y_batch, y_stride);
    ATTN_TRY(attn_check_array(&output));
    ATTN_TRY(attn_check_no_self_overlap(&output));
    for (int i = 0; i < 3; i++) {
        ATTN_TRY(attn_check_array(&inputs[i]));
        ATTN_TRY(attn_check_apart(&output, &inputs[i]));
    }

    attn_product product = {
        .members = batch,
        .m = rows,
        .n = d_out,
        .k = d_in,
        .alpha = 1,
        .a = x,
        .a_member = x_batch,
        .a_stride = x_stride,
        .b = w,
        .b_stride = w_stride,
        .bias = bias,
        .c = y,
        .c_member = y_batch,
        .c_stride = y_stride,
        .k_name = "d_in",
        .a_name = "x",
        .b_name = "w",
        .c_name = "y",
    };
    ATTN_TRY(REAL(attn_check_product)(&product));
    return REAL(attn_run_product)(&resources, &product);
}
