/* Rotary positions: each pair of a row turns by an angle that grows with the row's position.
 *
 * Rows are cut into blocks, pairs into pieces whose frequencies fit the stack; sine and cosine are computed once per
 * token and serve all heads.
 */
#include "position/rotary.h"

#include <string.h>

#include "kernels/kernels.h"
#include "position/angles.h"

typedef attn_rotary_call rotary_call;

static bool has(const attn_rotary *r, uint64_t flag) {
    return (r->flags & flag) != 0;
}

/* ---- Checks ---- */

static attn_status check_option(const attn_rotary *r, const attn_extent *array, uint64_t flag, const char *flag_name) {
    if (has(r, flag)) {
        ATTN_TRY(attn_check_extent(array));
        return attn_check_present_with(array, flag_name);
    }
    if (array->address == NULL)
        return ATTN_OK;
    return attn_fail(ATTN_ERR_FLAG, "%s is given without %s", array->name, flag_name);
}

/* Every position a row of the table. */
static attn_status check_table_positions(const rotary_call *call) {
    const attn_rotary *r = &call->r;
    if (!has(r, ATTN_ROTARY_HAS_TABLES) || r->batch == 0 || r->rows == 0)
        return ATTN_OK;
    if (!has(r, ATTN_ROTARY_HAS_IDS)) {
        if (r->start >= 0 && r->start + (r->rows - 1) < r->table_rows)
            return ATTN_OK;
        return attn_fail(ATTN_ERR_ID,
                         "positions %" PRId64 " to %" PRId64 " are not all rows of a table with table_rows %" PRId64,
                         r->start, r->start + (r->rows - 1), r->table_rows);
    }
    int64_t sets = r->ids_batch == 0 ? 1 : r->batch;
    for (int64_t b = 0; b < sets; b++)
        for (int64_t t = 0; t < r->rows; t++) {
            int64_t id = call->ids[b * r->ids_batch + t];
            if (id < 0 || id >= r->table_rows)
                return attn_fail(ATTN_ERR_ID,
                                 "ids[%" PRId64 "][%" PRId64 "] %" PRId64
                                 " is no row of a table with table_rows %" PRId64,
                                 call->first_member + b, t, id, r->table_rows);
        }
    return ATTN_OK;
}

static attn_status check_arrays(const rotary_call *call) {
    const attn_rotary *r = &call->r;
    const attn_strides ids_strides = {.batch = r->ids_batch};
    const attn_strides table_strides = {.batch = r->table_batch, .row = r->table_row};
    attn_extent x = attn_extent_heads("x", call->x, r->batch, r->heads, r->rows, r->head_dim, r->x, sizeof(real));
    attn_extent y = attn_extent_heads("y", call->y, r->batch, r->heads, r->rows, r->head_dim, r->y, sizeof(real));
    const attn_extent options[] = {
        attn_extent_heads("ids", call->ids, r->batch, 1, 1, r->rows, ids_strides, sizeof(int64_t)),
        attn_extent_heads("cosines", call->cosines, r->batch, 1, r->table_rows, call->pairs, table_strides,
                          sizeof(real)),
        attn_extent_heads("sines", call->sines, r->batch, 1, r->table_rows, call->pairs, table_strides, sizeof(real)),
    };
    ATTN_TRY(attn_check_array(&x));
    ATTN_TRY(attn_check_array(&y));
    ATTN_TRY(attn_check_no_self_overlap(&y));
    ATTN_TRY(check_option(r, &options[0], ATTN_ROTARY_HAS_IDS, "ATTN_ROTARY_HAS_IDS"));
    ATTN_TRY(check_option(r, &options[1], ATTN_ROTARY_HAS_TABLES, "ATTN_ROTARY_HAS_TABLES"));
    ATTN_TRY(check_option(r, &options[2], ATTN_ROTARY_HAS_TABLES, "ATTN_ROTARY_HAS_TABLES"));
    ATTN_TRY(attn_check_apart_or_in_place(&y, &x));
    for (int i = 0; i < 3; i++)
        ATTN_TRY(attn_check_apart(&y, &options[i]));
    return check_table_positions(call);
}

/* ---- Work ---- */

/* Sines, and cosines, of own angles that a worker keeps on its stack: 8 rows of 64 pairs. */
enum { RUN_ANGLES = 512 };

/* Rows of a block whose own angles are known; with tables the numbers are not used. */
typedef struct row_run {
    const attn_block *block;
    int64_t pairs, row, rows;
    real sines[RUN_ANGLES], cosines[RUN_ANGLES]; /* [rows, pairs] */
} row_run;

static int64_t position_of(const rotary_call *call, int64_t member, int64_t row) {
    const attn_rotary *r = &call->r;
    return has(r, ATTN_ROTARY_HAS_IDS) ? call->ids[member * r->ids_batch + row] : r->start + row;
}

/* Row `run->row + i` of one head: the pairs of the block, and what is copied. */
static void rotate_row(const rotary_call *call, const row_run *run, int64_t head, int64_t i) {
    const REAL(attn_kernels) *kernels = REAL(attn_kernels_in_use)();
    const attn_rotary *r = &call->r;
    int64_t member = run->block->member, col = run->block->col, row = run->row + i;
    const real *cosine = run->cosines + i * run->pairs, *sine = run->sines + i * run->pairs;
    if (has(r, ATTN_ROTARY_HAS_TABLES) && run->pairs > 0) {
        int64_t entry = member * r->table_batch + position_of(call, member, row) * r->table_row + col;
        cosine = call->cosines + entry;
        sine = call->sines + entry;
    }
    const real *x = call->x + member * r->x.batch + head * r->x.head + row * r->x.row;
    real *y = call->y + member * r->y.batch + head * r->y.head + row * r->y.row;
    if (r->pairing == ATTN_ROTARY_INTERLEAVED)
        kernels->rotate_interleaved(run->pairs, cosine, sine, call->direction, x + 2 * col, y + 2 * col);
    else
        kernels->rotate_halves(run->pairs, call->pairs, cosine, sine, call->direction, x + col, y + col);
    if (col == 0 && r->rotary_dim < r->head_dim && x != y)
        memcpy(y + r->rotary_dim, x + r->rotary_dim, (size_t)(r->head_dim - r->rotary_dim) * sizeof *y);
}

/* All heads of a run, in the order of the memory. */
static void rotate_run(const rotary_call *call, const row_run *run) {
    const attn_rotary *r = &call->r;
    if (r->y.head < r->y.row) {
        for (int64_t i = 0; i < run->rows; i++)
            for (int64_t head = 0; head < r->heads; head++)
                rotate_row(call, run, head, i);
    } else {
        for (int64_t head = 0; head < r->heads; head++)
            for (int64_t i = 0; i < run->rows; i++)
                rotate_row(call, run, head, i);
    }
}

static void rotate_blocks(void *argument, int worker) {
    rotary_call *call = argument;
    const attn_rotary *r = &call->r;
    const bool own_angles = !has(r, ATTN_ROTARY_HAS_TABLES);
    double frequency[ATTN_ANGLE_PAIRS];
    int64_t frequency_col = -1; /* the pair that frequency[0] belongs to */
    attn_block block;
    row_run run;
    (void)worker;
    while (attn_next_block(&call->blocks, &block)) {
        run.block = &block;
        run.pairs = attn_smaller(block.cols, call->pairs - block.col);
        int64_t most_rows = own_angles && run.pairs > 0 ? RUN_ANGLES / run.pairs : block.rows;
        if (own_angles && frequency_col != block.col) {
            REAL(attn_pair_frequencies)(run.pairs, block.col, r->rotary_dim, r->base, frequency);
            frequency_col = block.col;
        }
        for (int64_t done = 0; done < block.rows; done += run.rows) {
            run.row = block.row + done;
            run.rows = attn_smaller(most_rows, block.rows - done);
            for (int64_t i = 0; own_angles && i < run.rows; i++)
                attn_position_sincos(run.pairs, position_of(call, block.member, run.row + i), frequency,
                                     run.sines + i * run.pairs, run.cosines + i * run.pairs);
            rotate_run(call, &run);
        }
    }
}

attn_status REAL(attn_prepare_rotary)(rotary_call *call) {
    call->pairs = call->r.rotary_dim / 2;
    call->direction = has(&call->r, ATTN_ROTARY_INVERSE) ? -1 : 1;
    ATTN_TRY(check_arrays(call));
    int64_t token = attn_mul_saturated(call->r.heads, call->r.head_dim);
    int64_t block_rows = ATTN_ROW_BLOCK_ELEMENTS / (token < 1 ? 1 : token);
    call->blocks = attn_cut(call->r.batch, call->r.rows, call->pairs < 1 ? 1 : call->pairs,
                            block_rows < 1 ? 1 : block_rows, ATTN_ANGLE_PAIRS);
    return ATTN_OK;
}

attn_status REAL(attn_run_rotary)(const attn_resources *resources, rotary_call *call) {
    const attn_rotary *r = &call->r;
    int64_t elements =
        attn_mul_saturated(attn_mul_saturated(r->batch, r->rows), attn_mul_saturated(r->heads, r->head_dim));
    int workers = attn_block_workers(&call->blocks, resources, elements, ATTN_ROW_BLOCK_ELEMENTS);
    return elements == 0 ? ATTN_OK : attn_run_workers(resources, workers, rotate_blocks, call);
}

attn_status REAL(attn_rotary)(const attn_context *context, const attn_rotary *rotary, const real *x, const int64_t *ids,
                              const real *cosines, const real *sines, real *y) {
    attn_resources resources;
    ATTN_TRY(attn_resolve_context(context, &resources));
    rotary_call call = {.x = x, .cosines = cosines, .sines = sines, .ids = ids, .y = y};
    ATTN_TRY(attn_read_rotary(rotary, &call.r));
    ATTN_TRY(attn_check_rotary(&call.r));
    ATTN_TRY(REAL(attn_prepare_rotary)(&call));
    return REAL(attn_run_rotary)(&resources, &call);
}
