/* Y = X W + bias for each member of a batch. */
#include <attn/chain.h>

#include "chain/stages.h"

/* A member is a matrix [rows, cols]; heads of one, so that checks speak of batch and row strides. */
static attn_extent member_extent(const char *name, const real *address, int64_t batch, int64_t rows, int64_t cols,
                                 int64_t batch_stride, int64_t row_stride) {
    return attn_extent_heads(name, address, batch, 1, rows, cols,
                             (attn_strides){.batch = batch_stride, .row = row_stride}, sizeof(real));
}

attn_status REAL(attn_project_in)(const attn_resources *resources, int64_t batch, int64_t rows, int64_t d_in,
                                  int64_t d_out, const real *x, int64_t x_batch, int64_t x_stride, const real *w,
                                  int64_t w_stride, const real *bias, real *y, int64_t y_batch, int64_t y_stride,
                                  void *scratch) {
    ATTN_TRY(attn_check_size("batch", batch, 0));
    ATTN_TRY(attn_check_size("rows", rows, 0));
    ATTN_TRY(attn_check_size("d_in", d_in, 0));
    ATTN_TRY(attn_check_size("d_out", d_out, 0));
    if (batch == 1)
        x_batch = y_batch = 0; /* not looked at */
    attn_extent inputs[] = {
        member_extent("x", x, batch, rows, d_in, x_batch, x_stride),
        attn_real_matrix("w", w, d_in, d_out, w_stride),
        attn_extent_vector("bias", bias, bias == NULL ? 0 : d_out, sizeof(real)),
    };
    attn_extent output = member_extent("y", y, batch, rows, d_out, y_batch, y_stride);
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
        .weights = true,
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
    int64_t scratch_bytes = batch > 0 ? attn_product_scratch(rows, d_out, d_in) : 0;
    attn_resources busy = *resources;
    if (scratch_bytes > 0)
        busy.threads = (int)attn_smaller(busy.threads, attn_product_panels(batch, rows, d_out, d_in));
    int64_t own_bytes = scratch == NULL ? attn_mul_saturated(scratch_bytes, busy.threads) : 0;
    void *own = own_bytes > 0 ? attn_allocate(resources, own_bytes) : NULL;
    if (own == NULL && own_bytes > 0)
        return attn_fail(ATTN_ERR_NOMEM, "the allocator returned NULL for %" PRId64 " bytes", own_bytes);
    attn_status status = REAL(attn_run_products)(&busy, 1, &product, own != NULL ? own : scratch, scratch_bytes);
    attn_release(resources, own, own_bytes);
    return status;
}

attn_status REAL(attn_project)(const attn_context *context, int64_t batch, int64_t rows, int64_t d_in, int64_t d_out,
                               const real *x, int64_t x_batch, int64_t x_stride, const real *w, int64_t w_stride,
                               const real *bias, real *y, int64_t y_batch, int64_t y_stride) {
    attn_resources resources;
    ATTN_TRY(attn_resolve_context(context, &resources));
    return REAL(attn_project_in)(&resources, batch, rows, d_in, d_out, x, x_batch, x_stride, w, w_stride, bias, y,
                                 y_batch, y_stride, NULL);
}
