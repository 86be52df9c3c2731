/* Sinusoidal positions: P[r][2i] = sin(pos / base^(2i/d)), P[r][2i+1] = cos(the same). */
#include <attn/position.h>

#include "base/blocks.h"
#include "position/angles.h"

/* A worker computes the frequencies of a block once and uses them for all of its rows. */
enum { POSITION_BLOCK_ROWS = 256 };

typedef struct position_job {
    attn_blocks blocks; /* of rows and pairs of columns */
    int64_t d_model, start;
    double base;
    real *p;
    int64_t row_stride;
} position_job;

static void position_row(const position_job *job, const attn_block *block, int64_t row, const double *frequency) {
    real sine[ATTN_ANGLE_PAIRS], cosine[ATTN_ANGLE_PAIRS];
    attn_position_sincos(block->cols, job->start + row, frequency, sine, cosine);
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
        double frequency[ATTN_ANGLE_PAIRS];
        REAL(attn_pair_frequencies)(block.cols, block.col, job->d_model, job->base, frequency);
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
    attn_extent output = attn_extent_matrix("p", p, rows, d_model, row_stride, sizeof(real));
    ATTN_TRY(attn_check_array(&output));

    position_job job = {
        .blocks = attn_cut(1, rows, d_model / 2 + d_model % 2, POSITION_BLOCK_ROWS, ATTN_ANGLE_PAIRS),
        .d_model = d_model,
        .start = start,
        .base = base,
        .p = p,
        .row_stride = row_stride,
    };
    int workers = attn_block_workers(&job.blocks, &resources, rows * d_model, ATTN_ROW_BLOCK_ELEMENTS);
    return attn_run_workers(&resources, workers, position_blocks, &job);
}
