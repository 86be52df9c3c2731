/* Matrices cut into blocks that workers draw one by one.
 *
 * The edges of the blocks depend on the matrix alone, never on the number of threads, so that the bits do not either.
 */
#ifndef ATTN_LIB_BLOCKS_H
#define ATTN_LIB_BLOCKS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/checks.h"
#include "base/context.h"

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
    blocks.row_blocks = attn_blocks_of(rows, block_rows);
    blocks.col_blocks = attn_blocks_of(cols, block_cols);
    blocks.queue.count = attn_mul_saturated(members, attn_mul_saturated(blocks.row_blocks, blocks.col_blocks));
    return blocks;
}

/* Block number `task`, 0 .. queue.count - 1: the blocks of a row of blocks, then the next row, then the next member. */
static inline attn_block attn_block_at(const attn_blocks *blocks, int64_t task) {
    attn_block block = {
        .member = task / blocks->col_blocks / blocks->row_blocks,
        .row = task / blocks->col_blocks % blocks->row_blocks * blocks->block_rows,
        .col = task % blocks->col_blocks * blocks->block_cols,
    };
    block.rows = attn_smaller(blocks->block_rows, blocks->rows - block.row);
    block.cols = attn_smaller(blocks->block_cols, blocks->cols - block.col);
    return block;
}

/* Fills `block` with one that nobody has taken; false when there is none left. */
static inline bool attn_next_block(attn_blocks *blocks, attn_block *block) {
    int64_t task = attn_next_task(&blocks->queue);
    if (task < 0)
        return false;
    *block = attn_block_at(blocks, task);
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

/* work(argument, row) for every row of a matrix [rows, cols] whose rows do not depend on each other; for none without
 * columns. */
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

#endif
