/* Matrices of random numbers. */
#include "weights/fill.h"

#include <math.h>

#include "base/blocks.h"
#include "base/checks.h"
#include "base/status.h"
#include "weights/matrix.h"

/* Numbers that a worker takes at a time: whole groups, some hundred microseconds. */
enum { FILL_BLOCK = 256 * ATTN_RANDOM_GROUP };

typedef struct fill_job {
    attn_blocks blocks; /* of one row of numbers */
    const attn_fill *fill;
} fill_job;

/* Numbers first .. first+count-1 to their places, row by row. */
static void scatter(const attn_fill *f, int64_t first, int64_t count, const double *number) {
    int64_t row = first / f->cols, col = first % f->cols;
    for (int64_t done = 0; done < count; row++, col = 0) {
        int64_t run = attn_smaller(f->cols - col, count - done);
        real *x = f->x + row * f->row_stride + col;
        for (int64_t i = 0; i < run; i++)
            x[i] = (real)(f->offset + f->factor * number[done + i]);
        done += run;
    }
}

static void fill_blocks(void *argument, int worker) {
    fill_job *job = argument;
    attn_block block;
    (void)worker;
    while (attn_next_block(&job->blocks, &block)) {
        for (int64_t done = 0; done < block.cols; done += ATTN_RANDOM_GROUP) {
            double number[ATTN_RANDOM_GROUP];
            job->fill->numbers(job->fill->stream, (block.col + done) / ATTN_RANDOM_GROUP, number);
            scatter(job->fill, block.col + done, attn_smaller(ATTN_RANDOM_GROUP, block.cols - done), number);
        }
    }
}

attn_status attn_run_fill(const attn_resources *resources, const attn_fill *fill) {
    int64_t numbers = fill->rows * fill->cols; /* no more than the extent, which fits */
    fill_job job = {.blocks = attn_cut(1, 1, numbers, 1, FILL_BLOCK), .fill = fill};
    if (numbers == 0)
        return ATTN_OK;
    return attn_run_workers(resources, attn_block_workers(&job.blocks, resources, numbers, FILL_BLOCK), fill_blocks,
                            &job);
}

attn_status attn_check_fill(const attn_context *context, const char *name, const attn_fill *fill,
                            attn_resources *resources) {
    ATTN_TRY(attn_resolve_context(context, resources));
    ATTN_TRY(attn_check_size("rows", fill->rows, 0));
    ATTN_TRY(attn_check_size("cols", fill->cols, 0));
    attn_extent x = attn_extent_matrix(name, fill->x, fill->rows, fill->cols, fill->row_stride, sizeof(real));
    return attn_check_array(&x);
}

attn_status attn_fill_matrix(const attn_context *context, const char *name, const attn_fill *fill) {
    attn_resources resources;
    ATTN_TRY(attn_check_fill(context, name, fill, &resources));
    return attn_run_fill(&resources, fill);
}

/* ---- Public ------------------------------------------------------------------------------------------------------ */

static attn_status check_finite(const char *name, double value) {
    if (isfinite((real)value))
        return ATTN_OK;
    return attn_fail(ATTN_ERR_VALUE, "%s %g is not finite in %s", name, value, REAL_NAME);
}

attn_status REAL(attn_random_uniform)(const attn_context *context, int64_t rows, int64_t cols, double low, double high,
                                      uint64_t seed, uint64_t stream, real *x, int64_t row_stride) {
    ATTN_TRY(check_finite("low", low));
    ATTN_TRY(check_finite("high", high));
    if (high < low)
        return attn_fail(ATTN_ERR_VALUE, "high %g is below low %g", high, low);
    ATTN_TRY(check_finite("high - low", high - low));
    const attn_fill fill = {
        .rows = rows,
        .cols = cols,
        .row_stride = row_stride,
        .numbers = attn_random_uniforms,
        .stream = {seed, stream},
        .offset = low,
        .factor = high - low,
        .x = x,
    };
    return attn_fill_matrix(context, "x", &fill);
}

attn_status REAL(attn_random_normal)(const attn_context *context, int64_t rows, int64_t cols, double mean,
                                     double stddev, uint64_t seed, uint64_t stream, real *x, int64_t row_stride) {
    ATTN_TRY(check_finite("mean", mean));
    ATTN_TRY(check_finite("stddev", stddev));
    if (stddev < 0)
        return attn_fail(ATTN_ERR_VALUE, "stddev %g is below 0", stddev);
    /* no number is beyond sqrt(-2 ln 2^-53) = 8.57... */
    ATTN_TRY(check_finite("|mean| + 9 stddev", fabs(mean) + 9 * stddev));
    const attn_fill fill = {
        .rows = rows,
        .cols = cols,
        .row_stride = row_stride,
        .numbers = attn_random_normals,
        .stream = {seed, stream},
        .offset = mean,
        .factor = stddev,
        .x = x,
    };
    return attn_fill_matrix(context, "x", &fill);
}
