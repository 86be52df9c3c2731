/* Z = A V: the values, summed by their weights. */
#include <attn/chain.h>

#include "chain/stages.h"

attn_status REAL(attn_combine)(const attn_context *context, int64_t q_len, int64_t kv_len, int64_t v_dim, const real *a,
                               int64_t a_stride, const real *v, int64_t v_stride, real *z, int64_t z_stride) {
    attn_resources resources;
    ATTN_TRY(attn_resolve_context(context, &resources));
    ATTN_TRY(attn_check_size("q_len", q_len, 0));
    ATTN_TRY(attn_check_size("kv_len", kv_len, 0));
    ATTN_TRY(attn_check_size("v_dim", v_dim, 0));
    attn_extent weights = attn_real_matrix("a", a, q_len, kv_len, a_stride);
    attn_extent values = attn_real_matrix("v", v, kv_len, v_dim, v_stride);
    attn_extent sums = attn_real_matrix("z", z, q_len, v_dim, z_stride);
    ATTN_TRY(attn_check_array(&weights));
    ATTN_TRY(attn_check_array(&values));
    ATTN_TRY(attn_check_array(&sums));
    ATTN_TRY(attn_check_apart(&sums, &weights));
    ATTN_TRY(attn_check_apart(&sums, &values));

    attn_product product = {
        .members = 1,
        .m = q_len,
        .n = v_dim,
        .k = kv_len,
        .alpha = 1,
        .a = a,
        .a_stride = a_stride,
        .b = v,
        .b_stride = v_stride,
        .c = z,
        .c_stride = z_stride,
        .k_name = "kv_len",
        .a_name = "a",
        .b_name = "v",
        .c_name = "z",
    };
    ATTN_TRY(REAL(attn_check_product)(&product));
    return REAL(attn_run_products)(&resources, 1, &product, NULL, 0);
}
