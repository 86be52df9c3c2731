/* What the stages of the chain share: checks, matrices cut into blocks that workers draw one by one, and products in
 * such blocks (project.c).
 *
 * The edges of the blocks depend on the matrix alone, never on the number of threads, so that the bits do not either.
 */
#ifndef ATTN_LIB_STAGES_H
#define ATTN_LIB_STAGES_H

#include <attn/base.h>
#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/checks.h"
#include "base/context.h"
#include "base/real.h"
#include "base/status.h"
#include "blas/blas.h"

/* ---- Checks ------------------------------------------------------------------------------------------------------ */

static inline attn_extent attn_real_matrix(const char *name, const real *address, int64_t rows, int64_t cols,
                                           int64_t row_stride) {
    return attn_extent_matrix(name, address, rows, cols, row_stride, sizeof(real));
}

/* Strides, extent and presence of one array. */
static inline attn_status attn_check_array(const attn_extent *array) {
    ATTN_TRY(attn_check_extent(array));
    return attn_check_present(array);
}

/* attn_check_apart(), but output may be the very same matrix as input. */
static inline attn_status attn_check_apart_or_in_place(const attn_extent *output, const attn_extent *input) {
    if (output->address == input->address && (output->size[0] < 2 || output->stride[0] == input->stride[0]))
        return ATTN_OK;
    return attn_check_apart(output, input);
}

static inline attn_status attn_check_positions(int64_t rows, int64_t start, double base) {
    if (!isfinite(base) || base <= 0)
        return attn_fail(ATTN_ERR_VALUE, "base %g is not finite and positive", base);
    if (rows > 1 && start > INT64_MAX - (rows - 1))
        return attn_fail(ATTN_ERR_OVERFLOW, "start %" PRId64 ": the last of %" PRId64 " positions is no int64", start,
                         rows);
    return ATTN_OK;
}

static inline attn_status attn_check_scale(double scale) {
    if (isfinite((real)scale))
        return ATTN_OK;
    return attn_fail(ATTN_ERR_VALUE, "scale %g is not finite in %s", scale, sizeof(real) == 4 ? "float" : "double");
}

/* `name` and `what` make the subject of the sentence: "x", ": row stride". */
static inline attn_status attn_check_fits_blas(const char *name, const char *what, int64_t value) {
    if (attn_blas_fits(value))
        return ATTN_OK;
    return attn_fail(ATTN_ERR_OVERFLOW, "%s%s %" PRId64 " does not fit the integer of the BLAS library", name, what,
                     value);
}

/* ---- Blocks ------------------------------------------------------------------------------------------------------ */

static inline int64_t attn_smaller(int64_t a, int64_t b) {
    return a < b ? a : b;
}

/* `members` matrices [rows, cols], each cut from its first row and column into blocks of block_rows x block_cols. */
typedef struct attn_blocks {
    attn_task_queue queue;
    int64_t rows, cols, block_rows, block_cols, row_blocks, col_blocks;
} attn_blocks;

typedef struct attn_block {
    int64_t member, row, rows, col, cols;
} attn_block;

static inline attn_blocks attn_cut(int64_t members, int64_t rows, int64_t cols, int64_t block_rows,
                                   int64_t block_cols) {
    attn_blocks blocks = {.rows = rows, .cols = cols, .block_rows = block_rows, .block_cols = block_cols};
    blocks.row_blocks = rows / block_rows + (rows % block_rows != 0);
    blocks.col_blocks = cols / block_cols + (cols % block_cols != 0);
    blocks.queue.count = attn_mul_saturated(members, attn_mul_saturated(blocks.row_blocks, blocks.col_blocks));
    return blocks;
}

/* Fills `block` with one that nobody has taken; false when there is none left. */
static inline bool attn_next_block(attn_blocks *blocks, attn_block *block) {
    int64_t task = attn_next_task(&blocks->queue);
    if (task < 0)
        return false;
    block->member = task / blocks->col_blocks / blocks->row_blocks;
    block->row = task / blocks->col_blocks % blocks->row_blocks * blocks->block_rows;
    block->col = task % blocks->col_blocks * blocks->block_cols;
    block->rows = attn_smaller(blocks->block_rows, blocks->rows - block->row);
    block->cols = attn_smaller(blocks->block_cols, blocks->cols - block->col);
    return true;
}

/* As many workers as the call may have, but no more than there are blocks, nor than have least_work each. */
static inline int attn_block_workers(const attn_blocks *blocks, const attn_resources *resources, int64_t work,
                                     int64_t least_work) {
    int64_t useful = attn_smaller(blocks->queue.count, work / least_work + 1);
    return (int)attn_smaller(attn_threads_here(resources->threads), useful);
}

/* ---- Rows -------------------------------------------------------------------------------------------------------- */

/* Elements of a block of a row-wise stage: some ten microseconds of work, so that a thread is not started for less. */
enum { ATTN_ROW_BLOCK_ELEMENTS = 32768 };

typedef struct attn_row_job {
    attn_blocks blocks;
    void (*work)(const void *argument, int64_t row);
    const void *argument;
} attn_row_job;

static inline void attn_work_on_rows(void *argument, int worker) {
    attn_row_job *job = argument;
    attn_block block;
    (void)worker;
    while (attn_next_block(&job->blocks, &block))
        for (int64_t row = block.row; row < block.row + block.rows; row++)
            job->work(job->argument, row);
}

/* work(argument, row) for every row of a matrix [rows, cols] whose rows do not depend on each other. */
static inline attn_status attn_for_each_row(const attn_resources *resources, int64_t rows, int64_t cols,
                                            void (*work)(const void *argument, int64_t row), const void *argument) {
    int64_t block_rows = ATTN_ROW_BLOCK_ELEMENTS / (cols < 1 ? 1 : cols);
    attn_row_job job = {
        .blocks = attn_cut(1, rows, cols, block_rows < 1 ? 1 : block_rows, cols < 1 ? 1 : cols),
        .work = work,
        .argument = argument,
    };
    return attn_run_workers(
        resources, attn_block_workers(&job.blocks, resources, attn_mul_saturated(rows, cols), ATTN_ROW_BLOCK_ELEMENTS),
        attn_work_on_rows, &job);
}

/* ---- Products (project.c) ---------------------------------------------------------------------------------------- */

/* C[b] = alpha A[b] op(B) + 1 bias^T for each member b: A [m, k], op(B) = B [k, n] or the transpose of B [n, k],
 * C [m, n]. The names are the caller's, for sentences. */
typedef struct attn_product {
    int64_t members, m, n, k;
    bool transpose_b;
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

/* Computes a checked product. A member's bits depend on that member alone. */
attn_status REAL(attn_run_product)(const attn_resources *resources, const attn_product *product);

#endif
