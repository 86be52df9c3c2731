/* ONNX Attention (opset 23 and 24) through attn_sdpa, on every engine. */
#include <attn/attn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
/* cmocka.h wants the four above before it */
#include <cmocka.h>

#include "cases.h"

typedef REAL(attn_args) args_of_real;

enum { Q, K, V, MASK, PAST_KEY, PAST_VALUE, NONPAD };

/* Sizes and strides of a tensor [batch, heads, len, size] or [batch, len, heads * size]. */
typedef struct heads_shape {
    int64_t batch, heads, len, size;
    attn_strides strides;
} heads_shape;

static heads_shape shape_of(const case_tensor *t, int64_t heads) {
    heads_shape s;
    if (t->rank == 4) {
        s = (heads_shape){.batch = t->dims[0], .heads = t->dims[1], .len = t->dims[2], .size = t->dims[3]};
        s.strides = (attn_strides){s.heads * s.len * s.size, s.len * s.size, s.size};
    } else {
        s = (heads_shape){.batch = t->dims[0], .heads = heads, .len = t->dims[1], .size = t->dims[2] / heads};
        s.strides = (attn_strides){s.len * t->dims[2], s.size, t->dims[2]};
    }
    return s;
}

/* Past and new rows in one dense buffer [batch, heads, past + new, size]. */
static real *with_past(const case_tensor *past, const case_tensor *added, heads_shape shape, int64_t *len) {
    int64_t past_len = past->present ? past->dims[2] : 0;
    *len = past_len + shape.len;
    real *all = malloc((size_t)(shape.batch * shape.heads * *len * shape.size + 1) * sizeof *all);
    assert_non_null(all);
    size_t row_bytes = (size_t)shape.size * sizeof *all;
    for (int64_t b = 0; b < shape.batch; b++)
        for (int64_t h = 0; h < shape.heads; h++)
            for (int64_t i = 0; i < *len; i++) {
                const real *from = i < past_len ? past->reals + ((b * shape.heads + h) * past_len + i) * shape.size
                                                : added->reals + b * shape.strides.batch + h * shape.strides.head +
                                                      (i - past_len) * shape.strides.row;
                memcpy(all + ((b * shape.heads + h) * *len + i) * shape.size, from, row_bytes);
            }
    return all;
}

/* Strides of a mask that is broadcast from the right to [batch, heads, q_len, kv_len]. */
static attn_mask_strides mask_strides(const case_tensor *mask) {
    int64_t stride[4] = {0};
    int64_t step = 1;
    for (int d = 3; d >= 0; d--) {
        int from = d - (4 - mask->rank);
        if (from < 0)
            continue;
        stride[d] = mask->dims[from] == 1 ? 0 : step;
        step *= mask->dims[from];
    }
    return (attn_mask_strides){stride[0], stride[1], stride[2], stride[3]};
}

static void set_mask(attn_problem *problem, args_of_real *args, const case_tensor *mask) {
    if (!mask->present)
        return;
    int64_t covered = mask->dims[mask->rank - 1];
    bool narrower = covered != 1 && covered < problem->kv_len;
    if (mask->bools != NULL) {
        problem->flags |= ATTN_HAS_MASK | (narrower ? ATTN_HAS_MASK_LEN : 0);
        problem->mask = mask_strides(mask);
        problem->mask_len = covered;
        args->mask = mask->bools;
    } else {
        problem->flags |= ATTN_HAS_BIAS | (narrower ? ATTN_HAS_BIAS_LEN : 0);
        problem->bias = mask_strides(mask);
        problem->bias_len = covered;
        args->bias = mask->reals;
    }
}

static void set_numbers(attn_problem *problem, const case_file *file, int64_t past_len) {
    float number;
    if (case_float(file, "scale", &number)) {
        problem->flags |= ATTN_HAS_SCALE;
        problem->scale = (double)number;
    }
    if (case_float(file, "softcap", &number)) {
        problem->flags |= ATTN_HAS_SOFTCAP;
        problem->softcap = (double)number;
    }
    if (case_int(file, "is_causal", 0) != 0)
        problem->flags |= ATTN_CAUSAL;
    if (file->input[NONPAD].present) {
        problem->alignment = ATTN_ALIGN_BOTTOM_RIGHT;
    } else if (past_len > 0) {
        problem->flags |= ATTN_HAS_OFFSET;
        problem->alignment = ATTN_ALIGN_OFFSET;
        problem->offset = past_len;
    }
}

static void run_engine(const case_file *file, attn_problem problem, args_of_real args, attn_engine engine) {
    static const char *const names[] = {"auto", "naive", "blas", "fused"};
    static const uint64_t wants[] = {ATTN_WANT_SCORES, ATTN_WANT_CAPPED, ATTN_WANT_MASKED, ATTN_WANT_WEIGHTS};
    int64_t mode = case_int(file, "qk_matmul_output_mode", 0);
    bool wants_matrix = file->output[3].present && engine != ATTN_ENGINE_FUSED;
    assert_in_range(mode, 0, 3);
    int64_t out_count = problem.batch * problem.q_heads * problem.q_len * problem.v_dim;
    int64_t cells = problem.batch * problem.q_heads * problem.q_len * problem.kv_len;
    real *out = malloc((size_t)(out_count + 1) * sizeof *out);
    real *matrix = malloc((size_t)(cells + 1) * sizeof *matrix);
    assert_true(out != NULL && matrix != NULL);
    memset(out, 0xff, (size_t)out_count * sizeof *out);
    memset(matrix, 0xff, (size_t)cells * sizeof *matrix);
    args.out = out;
    problem.engine = engine;
    if (wants_matrix) {
        real **const places[] = {&args.scores, &args.capped, &args.masked, &args.weights};
        problem.flags |= wants[mode];
        *places[mode] = matrix;
    }
    attn_status status = REAL(attn_sdpa)(NULL, &problem, &args);
    if (status != ATTN_OK)
        fail_msg("%s, %s: %s", file->path, names[engine], attn_last_error());
    check_output(file, 0, out_count, out, names[engine]);
    if (wants_matrix)
        check_output(file, 3, cells, matrix, names[engine]);
    free(out);
    free(matrix);
}

void run_attention(const case_file *file) {
    const case_tensor *in = file->input;
    heads_shape q = shape_of(&in[Q], case_int(file, "q_num_heads", 0));
    heads_shape k = shape_of(&in[K], case_int(file, "kv_num_heads", 0));
    heads_shape v = shape_of(&in[V], case_int(file, "kv_num_heads", 0));
    int64_t kv_len;
    real *keys = with_past(&in[PAST_KEY], &in[K], k, &kv_len);
    real *values = with_past(&in[PAST_VALUE], &in[V], v, &kv_len);
    attn_problem problem = {
        .struct_size = sizeof problem,
        .batch = q.batch,
        .q_heads = q.heads,
        .kv_heads = k.heads,
        .q_len = q.len,
        .kv_len = kv_len,
        .head_dim = q.size,
        .v_dim = v.size,
    };
    assert_int_equal(attn_problem_layout_bhld(&problem), ATTN_OK);
    problem.q = q.strides;
    if (in[Q].rank == 3) /* the output has the layout of Q */
        problem.out = (attn_strides){q.len * q.heads * v.size, v.size, q.heads * v.size};
    args_of_real args = {
        .struct_size = sizeof args, .q = in[Q].reals, .k = keys, .v = values, .kv_lens = in[NONPAD].ints};
    set_numbers(&problem, file, kv_len - k.len);
    set_mask(&problem, &args, &in[MASK]);
    for (int engine = ATTN_ENGINE_AUTO; engine <= ATTN_ENGINE_FUSED; engine++)
        run_engine(file, problem, args, (attn_engine)engine);
    if (file->output[1].present)
        check_output(file, 1, k.batch * k.heads * kv_len * k.size, keys, "present_key");
    if (file->output[2].present)
        check_output(file, 2, v.batch * v.heads * kv_len * v.size, values, "present_value");
    free(keys);
    free(values);
}
