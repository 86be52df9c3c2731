/* A = softmax of the rows of S. */
#include <attn/chain.h>

#include "chain/stages.h"
#include "kernels/kernels.h"

typedef struct softmax_job {
    int64_t cols;
    const real *s;
    int64_t s_stride;
    real *a;
    int64_t a_stride;
} softmax_job;

static void softmax_row(const void *argument, int64_t row) {
    const softmax_job *job = argument;
    (void)REAL(attn_kernels_in_use)()->softmax_row(job->cols, job->s + row * job->s_stride,
                                                   job->a + row * job->a_stride);
}

attn_status REAL(attn_softmax)(const attn_context *context, int64_t rows, int64_t cols, const real *s, int64_t s_stride,
                               real *a, int64_t a_stride) {
    attn_resources resources;
    ATTN_TRY(attn_resolve_context(context, &resources));
    ATTN_TRY(attn_check_size("rows", rows, 0));
    ATTN_TRY(attn_check_size("cols", cols, 0));
    attn_extent scores = attn_real_matrix("s", s, rows, cols, s_stride);
    attn_extent weights = attn_real_matrix("a", a, rows, cols, a_stride);
    ATTN_TRY(attn_check_array(&scores));
    ATTN_TRY(attn_check_array(&weights));
    ATTN_TRY(attn_check_apart_or_in_place(&weights, &scores));

    softmax_job job = {cols, s, s_stride, a, a_stride};
    return attn_for_each_row(&resources, rows, cols, softmax_row, &job);
}
