/* S = scale * Q K^T of one head. */
#include <attn/chain.h>

#include "chain/stages.h"

attn_status REAL(attn_scores)(const attn_context *context, int64_t q_len, int64_t kv_len, int64_t head_dim,
                              const real *q, int64_t q_stride, const real *k, int64_t k_stride, double scale, real *s,
                              int64_t s_stride) {
    attn_resources resources;
    ATTN_TRY(attn_resolve_context(context, &resources));
    ATTN_TRY(attn_check_size("q_len", q_len, 0));
    ATTN_TRY(attn_check_size("kv_len", kv_len, 0));
    ATTN_TRY(attn_check_size("head_dim", head_dim, 0));
    ATTN_TRY(attn_check_scale(scale));
    attn_extent queries = attn_real_matrix("q", q, q_len, head_dim, q_stride);
    attn_extent keys = attn_real_matrix("k", k, kv_len, head_dim, k_stride);
    attn_extent scores = attn_real_matrix("s", s, q_len, kv_len, s_stride);
    ATTN_TRY(attn_check_array(&queries));
    ATTN_TRY(attn_check_array(&keys));
    ATTN_TRY(attn_check_array(&scores));
    ATTN_TRY(attn_check_apart(&scores, &queries));
    ATTN_TRY(attn_check_apart(&scores, &keys));

    attn_product product = {
        .members = 1,
        .m = q_len,
        .n = kv_len,
        .k = (real)scale == 0 ? 0 : head_dim, /* a scale of 0 hides NaN and Inf: an empty product, exactly 0 */
        .transpose_b = true,
        .alpha = (real)scale,
        .a = q,
        .a_stride = q_stride,
        .b = k,
        .b_stride = k_stride,
        .c = s,
        .c_stride = s_stride,
        .k_name = "head_dim",
        .a_name = "q",
        .b_name = "k",
        .c_name = "s",
    };
    ATTN_TRY(REAL(attn_check_product)(&product));
    return REAL(attn_run_products)(&resources, 1, &product, NULL, 0);
}
