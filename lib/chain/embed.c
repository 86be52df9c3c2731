/* Embedding look-up: the rows of a table that the token ids name. */
#include <attn/chain.h>
#include <string.h>

#include "chain/stages.h"

typedef struct embed_job {
    int64_t d_model;
    const int64_t *ids;
    const real *table;
    int64_t table_stride;
    real *e;
    int64_t e_stride;
} embed_job;

static void embed_row(const void *argument, int64_t row) {
    const embed_job *job = argument;
    memcpy(job->e + row * job->e_stride, job->table + job->ids[row] * job->table_stride,
           (size_t)job->d_model * sizeof(real));
}

static attn_status check_ids(int64_t rows, int64_t vocab, const int64_t *ids) {
    for (int64_t r = 0; r < rows; r++)
        if (ids[r] < 0 || ids[r] >= vocab)
            return attn_fail(ATTN_ERR_ID, "ids[%" PRId64 "] %" PRId64 " is no row of a table with vocab %" PRId64, r,
                             ids[r], vocab);
    return ATTN_OK;
}

attn_status REAL(attn_embed)(const attn_context *context, int64_t rows, int64_t vocab, int64_t d_model,
                             const int64_t *ids, const real *table, int64_t table_stride, real *e, int64_t e_stride) {
    attn_resources resources;
    ATTN_TRY(attn_resolve_context(context, &resources));
    ATTN_TRY(attn_check_size("rows", rows, 0));
    ATTN_TRY(attn_check_size("vocab", vocab, 0));
    ATTN_TRY(attn_check_size("d_model", d_model, 0));
    attn_extent id_list = attn_extent_vector("ids", ids, rows, sizeof *ids);
    attn_extent from = attn_real_matrix("table", table, vocab, d_model, table_stride);
    attn_extent to = attn_real_matrix("e", e, rows, d_model, e_stride);
    ATTN_TRY(attn_check_array(&id_list));
    ATTN_TRY(attn_check_array(&from));
    ATTN_TRY(attn_check_array(&to));
    ATTN_TRY(attn_check_apart(&to, &id_list));
    ATTN_TRY(attn_check_apart(&to, &from));
    ATTN_TRY(check_ids(rows, vocab, ids));

    embed_job job = {d_model, ids, table, table_stride, e, e_stride};
    return attn_for_each_row(&resources, rows, d_model, embed_row, &job);
}
