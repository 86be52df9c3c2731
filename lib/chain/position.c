/* Sinusoidal positions: P[r][2i] = sin(pos / base^(2i/d)), P[r][2i+1] = cos(the same). */
#include <attn/position.h>

#include "chain/stages.h"
#include "kernels/kernels.h"

/* A worker computes the frequencies of a block once and uses them for all of its rows; both fit the stack. */
enum { POSITION_BLOCK_ROWS = 256, POSITION_BLOCK_PAIRS = 256 };

/* Up to here the sincos kernel keeps its bound; beyond, libm reduces the angle. */
#define KERNEL_ANGLE_MAX 0x1p31

/* base^(-2 pair / d_model). Rounding the exponent alone would cost log(base)/2 eps; what it lost is put back to first
 * order, which leaves little more than the rounding errors of pow and of the product. */
static double pair_frequency(int64_t pair, int64_t d_model, double base) {
    double numerator = 2.0 * (double)pair;
    double exponent = numerator / (double)d_model;
    double lost = fma(-exponent, (double)d_model, numerator) / (double)d_model;
    double frequency = pow(base, -exponent);
    return fmin(frequency - frequency * (lost * log(base)), DBL_MAX);
}

static void sine_and_cosine(int64_t n, const double *angle, real *sine, real *cosine) {
    const REAL(attn_kernels) *kernels = REAL(attn_kernels_in_use)();
    double largest = 0;
    for (int64_t i = 0; i < n; i++)
        largest = fmax(largest, fabs(angle[i]));
    if (largest <= KERNEL_ANGLE_MAX) {
        kernels->sincos(n, angle, sine, cosine);
        return;
    }
    for (int64_t i = 0; i < n; i++) {
        if (fabs(angle[i]) <= KERNEL_ANGLE_MAX) {
            kernels->sincos(1, angle + i, sine + i, cosine + i);
        } else {
            sine[i] = (real)sin(angle[i]);
            cosine[i] = (real)cos(angle[i]);
        }
    }
}

typedef struct position_job {
    attn_blocks blocks; /* of rows and pairs of columns */
    int64_t d_model, start;
    double base;
    real *p;
    int64_t row_stride;
} position_job;

static void position_row(const position_job *job, const attn_block *block, int64_t row, const double *frequency) {
    double angle[POSITION_BLOCK_PAIRS];
    real sine[POSITION_BLOCK_PAIRS], cosine[POSITION_BLOCK_PAIRS];
    double position = (double)(job->start + row);
    for (int64_t i = 0; i < block->cols; i++)
        angle[i] = fmax(-DBL_MAX, fmin(position * frequency[i], DBL_MAX));
    sine_and_cosine(block->cols, angle, sine, cosine);
    real *p = job->p + row * job->row_stride + 2 * block->col;
    for (int64_t i = 0; i < block->cols; i++)
        p[2 * i] = sine[i];
    int64_t cosines = attn_smaller(block->cols, job->d_model / 2 - block->col);
    for (int64_t i = 0; i < cosines; i++)
        p[2 * i + 1] = cosine[i];
}

static void position_blocks(void *argument, int worker) {
    position_job *job = argument;
    attn_block block;
    (void)worker;
    while (attn_next_block(&job->blocks, &block)) {
        double frequency[POSITION_BLOCK_PAIRS];
        for (int64_t i = 0; i < block.cols; i++)
            frequency[i] = pair_frequency(block.col + i, job->d_model, job->base);
        for (int64_t row = block.row; row < block.row + block.rows; row++)
            position_row(job, &block, row, frequency);
    }
}

attn_status REAL(attn_sinusoidal)(const attn_context *context, int64_t rows, int64_t d_model, int64_t start,
                                  double base, real *p, int64_t row_stride) {
    attn_resources resources;
    ATTN_TRY(attn_resolve_context(context, &resources));
    ATTN_TRY(attn_check_size("rows", rows, 0));
    ATTN_TRY(attn_check_size("d_model", d_model, 1));
    ATTN_TRY(attn_check_positions(rows, start, base));
    attn_extent output = attn_real_matrix("p", p, rows, d_model, row_stride);
    ATTN_TRY(attn_check_array(&output));

    position_job job = {
        .blocks = attn_cut(1, rows, d_model / 2 + d_model % 2, POSITION_BLOCK_ROWS, POSITION_BLOCK_PAIRS),
        .d_model = d_model,
        .start = start,
        .base = base,
        .p = p,
        .row_stride = row_stride,
    };
    int workers = attn_block_workers(&job.blocks, &resources, rows * d_model, ATTN_ROW_BLOCK_ELEMENTS);
    return attn_run_workers(&resources, workers, position_blocks, &job);
}
