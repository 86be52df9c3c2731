/* ONNX RotaryEmbedding, Softmax and Gather through attn_rotary, attn_softmax and attn_embed. */
#include <attn/attn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
/* cmocka.h wants the four above before it */
#include <cmocka.h>

#include "cases.h"

/* An output poisoned with NaN. */
static real *poisoned(int64_t count) {
    real *array = malloc((size_t)(count + 1) * sizeof *array);
    assert_non_null(array);
    memset(array, 0xff, (size_t)count * sizeof *array);
    return array;
}

static void assert_success(const case_file *file, attn_status status) {
    if (status != ATTN_OK)
        fail_msg("%s: %s", file->path, attn_last_error());
}

static int64_t product(const case_tensor *t, int from, int to) {
    int64_t count = 1;
    for (int d = from; d < to; d++)
        count *= t->dims[d];
    return count;
}

static int axis_of(const case_file *file, const case_tensor *t, int64_t otherwise) {
    int64_t axis = case_int(file, "axis", otherwise);
    axis += axis < 0 ? t->rank : 0;
    assert_in_range(axis, 0, t->rank - 1);
    return (int)axis;
}

void run_rotary(const case_file *file) {
    const case_tensor *x = &file->input[0];
    const case_tensor *cosines = &file->input[1];
    const case_tensor *sines = &file->input[2];
    const case_tensor *ids = &file->input[3];
    attn_rotary r = ATTN_ROTARY_INIT;
    r.batch = x->dims[0];
    r.heads = x->rank == 4 ? x->dims[1] : case_int(file, "num_heads", 0);
    r.rows = x->rank == 4 ? x->dims[2] : x->dims[1];
    r.head_dim = x->rank == 4 ? x->dims[3] : x->dims[2] / r.heads;
    r.rotary_dim = case_int(file, "rotary_embedding_dim", 0);
    r.rotary_dim = r.rotary_dim == 0 ? r.head_dim : r.rotary_dim;
    r.pairing = case_int(file, "interleaved", 0) != 0 ? ATTN_ROTARY_INTERLEAVED : ATTN_ROTARY_HALF_SPLIT;
    r.x.batch = r.heads * r.rows * r.head_dim;
    r.x.head = x->rank == 4 ? r.rows * r.head_dim : r.head_dim;
    r.x.row = x->rank == 4 ? r.head_dim : r.heads * r.head_dim;
    r.y = r.x;
    r.flags = ATTN_ROTARY_HAS_TABLES | (ids->present ? ATTN_ROTARY_HAS_IDS : 0);
    r.ids_batch = r.rows;
    /* with ids one table for all, without them a row per token of each member */
    r.table_row = cosines->dims[cosines->rank - 1];
    r.table_rows = cosines->dims[cosines->rank - 2];
    r.table_batch = cosines->rank == 3 ? r.table_rows * r.table_row : 0;
    real *y = poisoned(x->count);
    assert_success(file, REAL(attn_rotary)(NULL, &r, x->reals, ids->ints, cosines->reals, sines->reals, y));
    check_output(file, 0, x->count, y, "rotary");
    free(y);
}

void run_softmax(const case_file *file) {
    const case_tensor *x = &file->input[0];
    int axis = axis_of(file, x, -1);
    int64_t outer = product(x, 0, axis);
    int64_t n = x->dims[axis];
    int64_t inner = product(x, axis + 1, x->rank);
    real *row = poisoned(n);
    real *y = poisoned(x->count);
    for (int64_t o = 0; o < outer; o++)
        for (int64_t i = 0; i < inner; i++) {
            for (int64_t j = 0; j < n; j++)
                row[j] = x->reals[(o * n + j) * inner + i];
            assert_success(file, REAL(attn_softmax)(NULL, 1, n, row, n, row, n));
            for (int64_t j = 0; j < n; j++)
                y[(o * n + j) * inner + i] = row[j];
        }
    check_output(file, 0, x->count, y, "softmax");
    free(row);
    free(y);
}

void run_gather(const case_file *file) {
    const case_tensor *data = &file->input[0];
    const case_tensor *indices = &file->input[1];
    int axis = axis_of(file, data, 0);
    int64_t outer = product(data, 0, axis);
    int64_t n = data->dims[axis];
    int64_t inner = product(data, axis + 1, data->rank);
    for (int64_t i = 0; i < indices->count; i++)
        indices->ints[i] += indices->ints[i] < 0 ? n : 0;
    int64_t picked = indices->count * inner;
    real *y = poisoned(outer * picked);
    for (int64_t o = 0; o < outer; o++)
        assert_success(file, REAL(attn_embed)(NULL, indices->count, n, inner, indices->ints,
                                              data->reals + o * n * inner, inner, y + o * picked, inner));
    check_output(file, 0, outer * picked, y, "gather");
    free(y);
}
