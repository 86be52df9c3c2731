/* Products cut into blocks. A member of many rows is cut into blocks for CBLAS, by its own rows only. Members of few rows
 * wait for the matrix to arrive from memory, once for all of them, in loops of our own. */
#include "chain/product.h"

#include <string.h>

#include "base/blocks.h"
#include "base/checks.h"
#include "base/status.h"
#include "blas/blas.h"
#include "kernels/kernels.h"

/* 2-core Sapphire Rapids, OpenBLAS 0.3.21 core SkylakeX, 2026-11-30: lib/kernels/LADDER.md, "Projections". */
enum {
    BLOCK_ROWS = 1024,     /* most rows of a call of gemm, which packs its part of B anew */
    BLOCK_COLS = 512,      /* most columns, for which it packs its part of A anew; fewer give more threads work */
    NARROW_ROWS = 256,     /* most rows where BLOCK_COLS hold all columns, so that rows give several threads work */
    MEDIUM_ROWS = 512,     /* most rows where twice as many do, which are not cut then: halves are slower */
    FEW_ROWS = 32,         /* members of up to this many rows take the loops */
    STRIP_ROWS = 64,       /* most rows that share one reading of the matrix */
    STRIP_COLS_MAX = 1024, /* columns of a task of the loops: long pieces of rows come faster from memory */
    STRIP_COLS_MIN = 256,  /* fewer are not worth a task */
    STRIP_COLS_UNIT = 64,  /* so that no two threads write to one cache line */
    LEAST_MULTIPLY =
        262144 /* multiplications worth starting a thread for: some ten microseconds at 25 per nanosecond */
};

/* The strides that are used; attn_gemm() makes of 0 what CBLAS wants of a single row. */
static int64_t a_stride_of(const attn_product *p) {
    return attn_used_stride(p->m, p->a_stride, 0);
}

static int64_t b_stride_of(const attn_product *p) {
    return attn_used_stride(p->transpose_b && p->k > 0 ? p->n : p->k, p->b_stride, 0);
}

static int64_t c_stride_of(const attn_product *p) {
    return attn_used_stride(p->m, p->c_stride, 0);
}

attn_status REAL(attn_check_product)(const attn_product *product) {
    const attn_product *p = product;
    if (p->members == 0 || p->m == 0 || p->n == 0 || p->k == 0)
        return ATTN_OK; /* no product */
    ATTN_TRY(attn_check_fits_blas(p->k_name, "", p->k));
    ATTN_TRY(attn_check_fits_blas(p->a_name, ": row stride", a_stride_of(p)));
    ATTN_TRY(attn_check_fits_blas(p->b_name, ": row stride", b_stride_of(p)));
    ATTN_TRY(attn_check_fits_blas(p->c_name, ": row stride", c_stride_of(p)));
    return attn_blas_check();
}

/* ---- Places ------------------------------------------------------------------------------------------------------ */

static int64_t rows_of(const attn_product *p, int64_t member) {
    if (p->offsets != NULL)
        return p->offsets[member + 1] - p->offsets[member];
    return p->lengths != NULL ? p->lengths[member] : p->m;
}

/* Row `row` of a member; NULL where there is nothing to point at. */
static const real *a_row(const attn_product *p, int64_t member, int64_t row) {
    if (p->offsets != NULL)
        return p->k == 0 ? NULL : p->a + (p->offsets[member] + row) * p->a_stride;
    return p->k == 0 ? NULL : p->a + member * p->a_member + row * p->a_stride;
}

static real *c_row(const attn_product *p, int64_t member, int64_t row) {
    if (p->offsets != NULL)
        return p->c + (p->offsets[member] + row) * p->c_stride;
    return p->c + member * p->c_member + row * p->c_stride;
}

static const real *b_col(const attn_product *p, int64_t col) {
    return p->k == 0 ? NULL : p->b + (p->transpose_b ? col * p->b_stride : col);
}

static bool takes_loops(const attn_product *p, int64_t rows) {
    return p->weights && rows <= FEW_ROWS;
}

static void add_bias(const attn_product *p, int64_t col, int64_t cols, real *c) {
    if (p->bias != NULL)
        REAL(attn_kernels_in_use)()->add(cols, c, p->bias + col, c);
}

/* ---- Tasks ------------------------------------------------------------------------------------------------------- */

/* One product of a job: tasks 0 .. strips-1 are columns of all members that take the loops, then come blocks. */
typedef struct product_part {
    const attn_product *product;
    int64_t strips, strip_cols;
    attn_blocks blocks; /* their queue counts, nobody draws from it */
} product_part;

typedef struct product_job {
    attn_task_queue queue;
    product_part part[ATTN_MAX_PRODUCTS];
} product_job;

static void compute_block(const attn_product *p, const attn_block *block) {
    int64_t rows = rows_of(p, block->member);
    if (takes_loops(p, rows) || block->row >= rows)
        return;
    int64_t block_rows = attn_smaller(block->rows, rows - block->row);
    real *c = c_row(p, block->member, block->row) + block->col;
    attn_gemm(false, p->transpose_b, block_rows, block->cols, p->k, p->alpha, a_row(p, block->member, block->row),
              a_stride_of(p), b_col(p, block->col), b_stride_of(p), 0, c, c_stride_of(p));
    for (int64_t row = 0; row < block_rows; row++)
        add_bias(p, block->col, block->cols, c + row * p->c_stride);
}

/* Rows of any members on their way through the loops. */
typedef struct row_batch {
    int64_t rows;
    const real *a[STRIP_ROWS];
    real *c[STRIP_ROWS];
} row_batch;

static void compute_rows(const attn_product *p, int64_t col, int64_t cols, row_batch *batch) {
    const REAL(attn_kernels) *kernels = REAL(attn_kernels_in_use)();
    const real *b = b_col(p, col);
    if (p->transpose_b) {
        kernels->product_transposed(batch->rows, cols, p->k, 1, batch->a, b, b_stride_of(p), batch->c);
    } else {
        for (int64_t r = 0; r < batch->rows; r++)
            memset(batch->c[r], 0, (size_t)cols * sizeof(real));
        kernels->add_product(batch->rows, cols, p->k, batch->a, b, b_stride_of(p), batch->c);
    }
    for (int64_t r = 0; r < batch->rows; r++)
        add_bias(p, col, cols, batch->c[r]);
    batch->rows = 0;
}

static void compute_strip(const attn_product *p, int64_t col, int64_t cols) {
    row_batch batch = {0};
    for (int64_t member = 0; member < p->members; member++) {
        int64_t rows = rows_of(p, member);
        for (int64_t row = 0; takes_loops(p, rows) && row < rows; row++) {
            batch.a[batch.rows] = a_row(p, member, row);
            batch.c[batch.rows] = c_row(p, member, row) + col;
            if (++batch.rows == STRIP_ROWS)
                compute_rows(p, col, cols, &batch);
        }
    }
    if (batch.rows > 0)
        compute_rows(p, col, cols, &batch);
}

static void compute_tasks(void *argument, int worker) {
    product_job *job = argument;
    (void)worker;
    for (int64_t task; (task = attn_next_task(&job->queue)) >= 0;) {
        const product_part *part = job->part;
        for (; task >= part->strips + part->blocks.queue.count; part++)
            task -= part->strips + part->blocks.queue.count;
        if (task < part->strips) {
            int64_t col = task * part->strip_cols;
            compute_strip(part->product, col, attn_smaller(part->strip_cols, part->product->n - col));
        } else {
            attn_block block = attn_block_at(&part->blocks, task - part->strips);
            compute_block(part->product, &block);
        }
    }
}

static attn_blocks cut_blocks(const attn_product *p) {
    if (p->n <= BLOCK_COLS)
        return attn_cut(p->members, p->m, p->n, NARROW_ROWS, BLOCK_COLS);
    if (p->n <= 2 * BLOCK_COLS)
        return attn_cut(p->members, p->m, p->n, MEDIUM_ROWS, 2 * BLOCK_COLS);
    return attn_cut(p->members, p->m, p->n, BLOCK_ROWS, BLOCK_COLS);
}

/* Strips may follow the number of threads: in the loops a result's bits depend on its own row and column alone. */
static product_part cut_product(const attn_product *p, int threads) {
    product_part part = {.product = p};
    bool any_few = false, any_many = false;
    for (int64_t member = 0; p->n > 0 && member < p->members && !(any_few && any_many); member++) {
        bool few = takes_loops(p, rows_of(p, member));
        any_few |= few;
        any_many |= !few;
    }
    if (any_many)
        part.blocks = cut_blocks(p);
    if (any_few && p->n > 0) {
        int64_t cols = p->n / threads + (p->n % threads != 0);
        cols = cols < STRIP_COLS_MIN ? STRIP_COLS_MIN : attn_smaller(cols, STRIP_COLS_MAX);
        part.strip_cols = (cols + STRIP_COLS_UNIT - 1) / STRIP_COLS_UNIT * STRIP_COLS_UNIT;
        part.strips = p->n / part.strip_cols + (p->n % part.strip_cols != 0);
    }
    return part;
}

attn_status REAL(attn_run_products)(const attn_resources *resources, int count, const attn_product *products) {
    int threads = attn_threads_here(resources->threads);
    product_job job = {0};
    int64_t work = 0;
    for (int i = 0; i < count; i++) {
        const attn_product *p = &products[i];
        if (p->m == 0)
            continue;
        product_part *part = &job.part[i];
        *part = cut_product(p, threads);
        job.queue.count = attn_add_saturated(job.queue.count, part->strips + part->blocks.queue.count);
        int64_t results = attn_mul_saturated(p->members, attn_mul_saturated(p->m, p->n));
        work = attn_add_saturated(work, attn_mul_saturated(results, p->k));
    }
    if (job.queue.count == 0)
        return ATTN_OK;
    int64_t useful = attn_smaller(job.queue.count, work / LEAST_MULTIPLY + 1);
    return attn_run_blas_workers(resources, (int)attn_smaller(threads, useful), compute_tasks, &job);
}
