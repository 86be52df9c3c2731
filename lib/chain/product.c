/* Products on the three paths of product_path.h. */
#include "chain/product.h"

#include <string.h>

#include "base/blocks.h"
#include "base/checks.h"
#include "base/fetch.h"
#include "base/status.h"
#include "blas/blas.h"
#include "kernels/kernels.h"

/* 2-core Sapphire Rapids, OpenBLAS 0.3.21 core SkylakeX, 2026-11-30: lib/kernels/LADDER.md, "Projections". */
enum {
    BLOCK_ROWS = 1024,     /* most rows of a call of gemm, which packs its part of B anew */
    BLOCK_COLS = 512,      /* most columns, for which it packs its part of A anew; fewer give more threads work */
    NARROW_ROWS = 256,     /* most rows where BLOCK_COLS hold all columns, so that rows give several threads work */
    MEDIUM_ROWS = 512,     /* most rows where twice as many do, which are not cut then: halves are slower */
    STRIP_ROWS = 64,       /* most rows that share one reading of the matrix */
    STRIP_COLS_MAX = 1024, /* columns of a task of the loops: long pieces of rows come faster from memory */
    STRIP_COLS_MIN = 256,  /* fewer are not worth a task */
    STRIP_COLS_UNIT = 64,  /* so that no two threads write to one cache line */
    LEAST_MULTIPLY =
        262144 /* multiplications worth starting a thread for: some ten microseconds at 25 per nanosecond */
};

enum {
    PANEL_COLS = ATTN_PANEL_BYTES / (int)sizeof(real),
    PANELS_PER_THREAD = 4,
    AHEAD = 8, /* rows of weights fetched ahead */
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

static attn_product_path path_of(const attn_product *p, int64_t member) {
    return p->weights ? attn_product_path_of(rows_of(p, member), p->n, p->k) : ATTN_PATH_BLOCKS;
}

static void add_bias(const attn_product *p, int64_t rows, int64_t col, int64_t cols, real *c) {
    for (int64_t row = 0; p->bias != NULL && row < rows; row++)
        REAL(attn_kernels_in_use)()->add(cols, c + row * p->c_stride, p->bias + col, c + row * p->c_stride);
}

/* ---- Tasks ------------------------------------------------------------------------------------------------------- */

/* One product of a job: the tasks of one path after those of the other. Their queues count, nobody draws from them. */
typedef struct product_part {
    const attn_product *product;
    attn_blocks path[ATTN_PATHS]; /* strips: columns of all members; panels: of groups of members, or of rows of one */
    int64_t group;                /* members */
} product_part;

typedef struct product_job {
    attn_task_queue queue;
    product_part part[ATTN_MAX_PRODUCTS];
    char *scratch;
    int64_t scratch_bytes; /* of a thread */
} product_job;

static void compute_block(const attn_product *p, const attn_block *block) {
    int64_t rows = rows_of(p, block->member);
    if (path_of(p, block->member) != ATTN_PATH_BLOCKS || block->row >= rows)
        return;
    int64_t block_rows = attn_smaller(block->rows, rows - block->row);
    real *c = c_row(p, block->member, block->row) + block->col;
    const real *a = a_row(p, block->member, block->row), *b = b_col(p, block->col);
    if (!p->transpose_b && p->k > 0 && attn_product_is_small(rows, p->n, p->k))
        attn_multiply(block_rows, block->cols, p->k, p->alpha, a, a_stride_of(p), b, b_stride_of(p), false, c,
                      c_stride_of(p));
    else
        attn_gemm(false, p->transpose_b, block_rows, block->cols, p->k, p->alpha, a, a_stride_of(p), b, b_stride_of(p),
                  0, c, c_stride_of(p));
    add_bias(p, block_rows, block->col, block->cols, c);
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
        kernels->product_transposed(batch->rows, cols, p->k, false, 1, batch->a, b, b_stride_of(p), batch->c);
    } else {
        for (int64_t r = 0; r < batch->rows; r++)
            memset(batch->c[r], 0, (size_t)cols * sizeof(real));
        kernels->add_product(batch->rows, cols, p->k, false, batch->a, b, b_stride_of(p), batch->c);
    }
    for (int64_t r = 0; r < batch->rows; r++)
        add_bias(p, 1, col, cols, batch->c[r]);
    batch->rows = 0;
}

static void compute_strip(const attn_product *p, int64_t col, int64_t cols) {
    row_batch batch = {0};
    for (int64_t member = 0; member < p->members; member++) {
        int64_t rows = path_of(p, member) == ATTN_PATH_STRIPS ? rows_of(p, member) : 0;
        for (int64_t row = 0; row < rows; row++) {
            batch.a[batch.rows] = a_row(p, member, row);
            batch.c[batch.rows] = c_row(p, member, row) + col;
            if (++batch.rows == STRIP_ROWS)
                compute_rows(p, col, cols, &batch);
        }
    }
    if (batch.rows > 0)
        compute_rows(p, col, cols, &batch);
}

/* Rows from..from+depth-1 of op(B), `cols` columns of it side by side. */
static void pack_panel(const attn_product *p, int64_t from, int64_t depth, int64_t col, int64_t cols, real *panel) {
    if (p->transpose_b) {
        REAL(attn_kernels_in_use)()->transpose(cols, depth, b_col(p, col) + from, b_stride_of(p), panel, cols);
        return;
    }
    int64_t stride = b_stride_of(p);
    const real *b = b_col(p, col) + from * stride;
    for (int64_t r = 0; r < depth; r++) {
        if (r + AHEAD < depth)
            attn_fetch(b + (r + AHEAD) * stride, cols * (int64_t)sizeof(real), ATTN_FETCH_TO_L1);
        memcpy(panel + r * cols, b + r * stride, (size_t)cols * sizeof(real));
    }
}

/* Adds what `depth` rows of the packed panel give, to nothing when they are the first. */
static void compute_tile(const attn_product *p, int64_t member, const attn_block *tile, int64_t from, int64_t depth,
                         const real *panel) {
    real *c = c_row(p, member, tile->row) + tile->col;
    int64_t step = attn_panel_tile_depth(p->k);
    for (int64_t d = 0; d < depth; d += step)
        attn_multiply(tile->rows, tile->cols, attn_smaller(step, depth - d), p->alpha,
                      a_row(p, member, tile->row) + from + d, a_stride_of(p), panel + d * tile->cols, tile->cols,
                      from + d > 0, c, c_stride_of(p));
    if (from + depth == p->k)
        add_bias(p, tile->rows, tile->col, tile->cols, c);
}

static void compute_panel(const product_part *part, const attn_block *task, real *panel) {
    const attn_product *p = part->product;
    int64_t first = task->member * part->group, end = attn_smaller(p->members, first + part->group);
    int64_t most = ATTN_PANEL_TILES * attn_panel_tile_depth(p->k);
    for (int64_t from = 0; from < p->k; from += most) {
        int64_t depth = attn_smaller(most, p->k - from);
        bool packed = false;
        for (int64_t member = first; member < end; member++) {
            int64_t rows = path_of(p, member) == ATTN_PATH_PANELS ? rows_of(p, member) : 0;
            int64_t rows_end = attn_smaller(rows, task->row + task->rows);
            attn_block tile = *task;
            for (; tile.row < rows_end; tile.row += ATTN_PANEL_TILE_ROWS) {
                if (!packed)
                    pack_panel(p, from, depth, task->col, task->cols, panel);
                packed = true;
                tile.rows = attn_smaller(ATTN_PANEL_TILE_ROWS, rows_end - tile.row);
                compute_tile(p, member, &tile, from, depth, panel);
            }
        }
    }
}

static void compute_tasks(void *argument, int worker) {
    product_job *job = argument;
    for (int64_t task; (task = attn_next_task(&job->queue)) >= 0;) {
        const product_part *part = job->part;
        int path = 0;
        while (task >= part->path[path].queue.count) {
            task -= part->path[path].queue.count;
            if (++path == ATTN_PATHS) {
                part++;
                path = 0;
            }
        }
        attn_block block = attn_block_at(&part->path[path], task);
        if (path == ATTN_PATH_STRIPS)
            compute_strip(part->product, block.col, block.cols);
        else if (path == ATTN_PATH_PANELS)
            compute_panel(part, &block, (real *)(job->scratch + worker * job->scratch_bytes));
        else
            compute_block(part->product, &block);
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
static attn_blocks cut_strips(const attn_product *p, int threads) {
    int64_t cols = attn_smaller(attn_larger(attn_blocks_of(p->n, threads), STRIP_COLS_MIN), STRIP_COLS_MAX);
    return attn_cut(1, 1, p->n, 1, attn_blocks_of(cols, STRIP_COLS_UNIT) * STRIP_COLS_UNIT);
}

/* `rows` and `members` take panels. Which of them share one may follow the number of threads too: tiles begin at
 * multiples of their size, of which the rows of a task are one. */
static attn_blocks cut_panels(const attn_product *p, int threads, int64_t rows, int64_t members, int64_t *group) {
    int64_t shared = ATTN_PANEL_ROWS;
    int64_t wanted = threads > 1 ? (int64_t)PANELS_PER_THREAD * threads : 1;
    attn_blocks panels;
    do {
        *group = attn_larger(1, attn_smaller(shared * members / rows, p->members));
        panels = attn_cut(attn_blocks_of(p->members, *group), p->m, p->n, shared, PANEL_COLS);
        shared /= 2;
    } while (panels.queue.count < wanted && shared >= ATTN_PANEL_ROWS_MIN);
    return panels;
}

static product_part cut_product(const attn_product *p, int threads) {
    product_part part = {.product = p};
    int64_t members[ATTN_PATHS] = {0}, rows[ATTN_PATHS] = {0};
    for (int64_t member = 0; p->n > 0 && member < p->members; member++) {
        attn_product_path path = path_of(p, member);
        members[path]++;
        rows[path] += rows_of(p, member);
    }
    if (rows[ATTN_PATH_STRIPS] > 0)
        part.path[ATTN_PATH_STRIPS] = cut_strips(p, threads);
    if (rows[ATTN_PATH_PANELS] > 0)
        part.path[ATTN_PATH_PANELS] =
            cut_panels(p, threads, rows[ATTN_PATH_PANELS], members[ATTN_PATH_PANELS], &part.group);
    if (rows[ATTN_PATH_BLOCKS] > 0)
        part.path[ATTN_PATH_BLOCKS] = cut_blocks(p);
    return part;
}

attn_status REAL(attn_run_products)(const attn_resources *resources, int count, const attn_product *products,
                                    void *scratch, int64_t scratch_bytes) {
    int threads = attn_threads_here(resources->threads);
    product_job job = {.scratch = scratch, .scratch_bytes = scratch_bytes};
    int64_t work = 0;
    for (int i = 0; i < count; i++) {
        const attn_product *p = &products[i];
        if (p->m == 0)
            continue;
        job.part[i] = cut_product(p, threads);
        for (int path = 0; path < ATTN_PATHS; path++)
            job.queue.count = attn_add_saturated(job.queue.count, job.part[i].path[path].queue.count);
        int64_t results = attn_mul_saturated(p->members, attn_mul_saturated(p->m, p->n));
        work = attn_add_saturated(work, attn_mul_saturated(results, p->k));
    }
    if (job.queue.count == 0)
        return ATTN_OK;
    int64_t useful = attn_smaller(job.queue.count, work / LEAST_MULTIPLY + 1);
    return attn_run_blas_workers(resources, (int)attn_smaller(threads, useful), compute_tasks, &job);
}
