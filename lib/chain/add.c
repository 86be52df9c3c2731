/* X = E + P: the sum of embeddings and positions. */
#include <attn/chain.h>

#include "chain/stages.h"
#include "kernels/kernels.h"

typedef struct add_job {
    int64_t d_model;
    const real *e;
    int64_t e_stride;
    const real *p;
    int64_t p_stride;
    real *x;
    int64_t x_stride;
} add_job;

static void add_row(const void *argument, int64_t row) {
    const add_job *job = argument;
    const REAL(attn_kernels) *kernels = REAL(attn_kernels_in_use)();
    kernels->add(job->d_model, job->e + row * job->e_stride, job->p + row * job->p_stride,
                 job->x + row * job->x_stride);
}

attn_status REAL(attn_add)(const attn_context *context, int64_t rows, int64_t d_model, const real *e, int64_t e_stride,
                           const real *p, int64_t p_stride, real *x, int64_t x_stride) {
    attn_resources resources;
    ATTN_TRY(attn_resolve_context(context, &resources));
    ATTN_TRY(attn_check_size("rows", rows, 0));
    ATTN_TRY(attn_check_size("d_model", d_model, 0));
    attn_extent left = attn_real_matrix("e", e, rows, d_model, e_stride);
    attn_extent right = attn_real_matrix("p", p, rows, d_model, p_stride);
    attn_extent sum = attn_real_matrix("x", x, rows, d_model, x_stride);
    ATTN_TRY(attn_check_array(&left));
    ATTN_TRY(attn_check_array(&right));
    ATTN_TRY(attn_check_array(&sum));
    ATTN_TRY(attn_check_apart_or_in_place(&sum, &left));
    ATTN_TRY(attn_check_apart_or_in_place(&sum, &right));

    add_job job = {d_model, e, e_stride, p, p_stride, x, x_stride};
    return attn_for_each_row(&resources, rows, d_model, add_row, &job);
}
