/* The problem and its arguments: initialisers, layouts, checks, flops. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/status.h"
#include "sdpa/plan.h"

/* Sizes of the structs in 0.1, the first version. */
#define PROBLEM_FIRST_SIZE (offsetof(attn_problem, total_kv) + sizeof(int64_t))
#define ARGS_FIRST_SIZE (offsetof(attn_args_f32, weights) + sizeof(float *))

attn_status attn_problem_init(attn_problem *problem, size_t struct_size) {
    return attn_init_struct("attn_problem", problem, struct_size, PROBLEM_FIRST_SIZE, sizeof *problem);
}

attn_status attn_args_init_f32(attn_args_f32 *args, size_t struct_size) {
    return attn_init_struct("attn_args_f32", args, struct_size, ARGS_FIRST_SIZE, sizeof *args);
}

attn_status attn_args_init_f64(attn_args_f64 *args, size_t struct_size) {
    return attn_init_struct("attn_args_f64", args, struct_size, ARGS_FIRST_SIZE, sizeof *args);
}

attn_status attn_read_problem(const attn_problem *given, attn_problem *problem) {
    return attn_read_struct("problem", "attn_problem", given, PROBLEM_FIRST_SIZE, sizeof *problem, problem);
}

attn_status attn_read_args(const void *given, void *args) {
    _Static_assert(sizeof(attn_args_f32) == sizeof(attn_args_f64), "one size of args for both precisions");
    return attn_read_struct("args", "attn_args", given, ARGS_FIRST_SIZE, sizeof(attn_args_f32), args);
}

static bool has(const attn_problem *problem, uint64_t flag) {
    return (problem->flags & flag) != 0;
}

/* ---- Layouts ---- */

static attn_status check_sizes(const attn_problem *problem) {
    ATTN_TRY(attn_check_size("batch", problem->batch, 0));
    ATTN_TRY(attn_check_size("q_heads", problem->q_heads, 0));
    ATTN_TRY(attn_check_size("kv_heads", problem->kv_heads, 0));
    ATTN_TRY(attn_check_size("q_len", problem->q_len, 0));
    ATTN_TRY(attn_check_size("kv_len", problem->kv_len, 0));
    ATTN_TRY(attn_check_size("head_dim", problem->head_dim, 1));
    ATTN_TRY(attn_check_size("v_dim", problem->v_dim, 0));
    if (has(problem, ATTN_RAGGED)) {
        ATTN_TRY(attn_check_size("total_q", problem->total_q, 0));
        ATTN_TRY(attn_check_size("total_kv", problem->total_kv, 0));
    }
    if (problem->q_heads > 0 && problem->kv_heads == 0)
        return attn_fail(ATTN_ERR_SIZE, "kv_heads 0 does not divide q_heads %" PRId64, problem->q_heads);
    if (problem->kv_heads > 0 && problem->q_heads % problem->kv_heads != 0)
        return attn_fail(ATTN_ERR_SIZE, "kv_heads %" PRId64 " does not divide q_heads %" PRId64, problem->kv_heads,
                         problem->q_heads);
    return ATTN_OK;
}

static attn_strides dense_bhld(int64_t heads, int64_t len, int64_t dim) {
    int64_t head = attn_mul_saturated(len, dim);
    return (attn_strides){.batch = attn_mul_saturated(heads, head), .head = head, .row = dim};
}

static attn_strides dense_blhd(int64_t heads, int64_t len, int64_t dim) {
    int64_t row = attn_mul_saturated(heads, dim);
    return (attn_strides){.batch = attn_mul_saturated(len, row), .head = dim, .row = row};
}

typedef attn_strides (*dense_layout)(int64_t heads, int64_t len, int64_t dim);

/* What the three helpers share: read the caller's struct, check it, fill the strides of a dense layout. */
static attn_status begin_layout(const attn_problem *given, dense_layout dense, attn_problem *filled) {
    ATTN_TRY(attn_read_problem(given, filled));
    ATTN_TRY(check_sizes(filled));
    bool ragged = has(filled, ATTN_RAGGED);
    int64_t q_rows = ragged ? filled->total_q : filled->q_len;
    int64_t kv_rows = ragged ? filled->total_kv : filled->kv_len;
    filled->q = dense(filled->q_heads, q_rows, filled->head_dim);
    filled->k = dense(filled->kv_heads, kv_rows, filled->head_dim);
    filled->v = dense(filled->kv_heads, kv_rows, filled->v_dim);
    filled->out = dense(filled->q_heads, q_rows, filled->v_dim);
    filled->lse = dense_bhld(filled->q_heads, q_rows, 1);
    filled->scores = dense_bhld(filled->q_heads, filled->q_len, filled->kv_len);
    return ATTN_OK;
}

/* Those of arrays without elements do not count. */
static attn_status end_layout(attn_problem *given, const attn_problem *filled) {
    static const int arrays[] = {ATTN_Q, ATTN_K, ATTN_V, ATTN_OUT, ATTN_LSE, ATTN_SCORES};
    size_t count = sizeof arrays / sizeof *arrays - (has(filled, ATTN_WANT_ANY) ? 0 : 1); /* scores come last */
    for (size_t i = 0; i < count; i++) {
        attn_extent e = attn_array_extent(filled, &(attn_arrays){0}, arrays[i]);
        if (!attn_extent_empty(&e) &&
            (e.stride[0] == INT64_MAX || e.stride[1] == INT64_MAX || e.stride[2] == INT64_MAX))
            return attn_fail(ATTN_ERR_OVERFLOW, "%s: a dense array of these sizes has strides beyond 63 bits", e.name);
    }
    memcpy(given, filled, given->struct_size);
    return ATTN_OK;
}

attn_status attn_problem_layout_bhld(attn_problem *problem) {
    attn_problem filled;
    ATTN_TRY(begin_layout(problem, dense_bhld, &filled));
    return end_layout(problem, &filled);
}

attn_status attn_problem_layout_blhd(attn_problem *problem) {
    attn_problem filled;
    ATTN_TRY(begin_layout(problem, dense_blhd, &filled));
    return end_layout(problem, &filled);
}

attn_status attn_problem_layout_packed_qkv(attn_problem *problem) {
    attn_problem filled;
    ATTN_TRY(begin_layout(problem, dense_blhd, &filled));
    if (filled.q_len != filled.kv_len)
        return attn_fail(ATTN_ERR_SIZE, "packed_qkv: q_len %" PRId64 " is not kv_len %" PRId64, filled.q_len,
                         filled.kv_len);
    if (has(&filled, ATTN_RAGGED) && filled.total_q != filled.total_kv)
        return attn_fail(ATTN_ERR_SIZE, "packed_qkv: total_q %" PRId64 " is not total_kv %" PRId64, filled.total_q,
                         filled.total_kv);
    int64_t row = attn_add_saturated(attn_add_saturated(filled.q.row, filled.k.row), filled.v.row);
    filled.q.row = filled.k.row = filled.v.row = row;
    filled.q.batch = filled.k.batch = filled.v.batch =
        attn_mul_saturated(has(&filled, ATTN_RAGGED) ? filled.total_q : filled.q_len, row);
    return end_layout(problem, &filled);
}

/* ---- Checks of the problem ---- */

static const uint64_t known_flags = (ATTN_HAS_BIAS_LEN << 1) - 1;

static attn_status check_options(const attn_problem *problem) {
    if ((problem->flags & ~known_flags) != 0)
        return attn_fail(ATTN_ERR_FLAG, "flags: 0x%" PRIx64 " holds bits that this version does not know",
                         problem->flags & ~known_flags);
    if ((int)problem->engine < ATTN_ENGINE_AUTO || problem->engine > ATTN_ENGINE_FUSED)
        return attn_fail(ATTN_ERR_FLAG, "engine %d is none", (int)problem->engine);
    if ((int)problem->alignment < ATTN_ALIGN_TOP_LEFT || problem->alignment > ATTN_ALIGN_OFFSET)
        return attn_fail(ATTN_ERR_FLAG, "alignment %d is none", (int)problem->alignment);
    if ((problem->alignment == ATTN_ALIGN_OFFSET) != has(problem, ATTN_HAS_OFFSET))
        return attn_fail(ATTN_ERR_FLAG, "%s",
                         has(problem, ATTN_HAS_OFFSET) ? "ATTN_HAS_OFFSET goes with the alignment ATTN_ALIGN_OFFSET"
                                                       : "the alignment ATTN_ALIGN_OFFSET needs ATTN_HAS_OFFSET");
    if (has(problem, ATTN_HAS_SCALE) && !isfinite(problem->scale))
        return attn_fail(ATTN_ERR_VALUE, "scale %g is not finite", problem->scale);
    if (has(problem, ATTN_HAS_SOFTCAP) && !(problem->softcap >= 0 && isfinite(problem->softcap)))
        return attn_fail(ATTN_ERR_VALUE, "softcap %g is not 0 or a finite positive number", problem->softcap);
    if (has(problem, ATTN_HAS_WINDOW)) {
        if (problem->window_left < -1)
            return attn_fail(ATTN_ERR_VALUE, "window_left %" PRId64 " is below -1 (unlimited)", problem->window_left);
        if (problem->window_right < -1)
            return attn_fail(ATTN_ERR_VALUE, "window_right %" PRId64 " is below -1 (unlimited)", problem->window_right);
    }
    if (has(problem, ATTN_HAS_MASK_LEN))
        ATTN_TRY(attn_check_size("mask_len", problem->mask_len, 0));
    if (has(problem, ATTN_HAS_BIAS_LEN))
        ATTN_TRY(attn_check_size("bias_len", problem->bias_len, 0));
    if (has(problem, ATTN_HAS_MASK_LEN) && !has(problem, ATTN_HAS_MASK))
        return attn_fail(ATTN_ERR_FLAG, "ATTN_HAS_MASK_LEN goes with ATTN_HAS_MASK");
    if (has(problem, ATTN_HAS_BIAS_LEN) && !has(problem, ATTN_HAS_BIAS))
        return attn_fail(ATTN_ERR_FLAG, "ATTN_HAS_BIAS_LEN goes with ATTN_HAS_BIAS");
    if (has(problem, ATTN_WANT_ANY) && problem->engine == ATTN_ENGINE_FUSED)
        return attn_fail(ATTN_ERR_UNSUPPORTED,
                         "the engine fused never has the whole scores or weights: use blas or naive");
    return ATTN_OK;
}

/* The arrays of a call: the name in sentences, and the flag that goes with an optional one. */
static const struct {
    const char *name;
    uint64_t flag;
    const char *flag_name;
} array_facts[ATTN_ARRAYS] = {
    [ATTN_Q] = {"q", 0, NULL},
    [ATTN_K] = {"k", 0, NULL},
    [ATTN_V] = {"v", 0, NULL},
    [ATTN_MASK] = {"mask", ATTN_HAS_MASK, "ATTN_HAS_MASK"},
    [ATTN_BIAS] = {"bias", ATTN_HAS_BIAS, "ATTN_HAS_BIAS"},
    [ATTN_SLOPES] = {"alibi_slopes", ATTN_HAS_ALIBI, "ATTN_HAS_ALIBI"},
    [ATTN_SINK] = {"sink", ATTN_HAS_SINK, "ATTN_HAS_SINK"},
    [ATTN_OUT] = {"out", 0, NULL},
    [ATTN_LSE] = {"lse", 0, NULL},
    [ATTN_SCORES] = {"scores", ATTN_WANT_SCORES, "ATTN_WANT_SCORES"},
    [ATTN_CAPPED] = {"capped", ATTN_WANT_CAPPED, "ATTN_WANT_CAPPED"},
    [ATTN_MASKED] = {"masked", ATTN_WANT_MASKED, "ATTN_WANT_MASKED"},
    [ATTN_WEIGHTS] = {"weights", ATTN_WANT_WEIGHTS, "ATTN_WANT_WEIGHTS"},
};

/* The keys that a mask or bias covers. */
static int64_t covered_keys(const attn_problem *p, uint64_t flag, int64_t length) {
    return has(p, flag) && length < p->kv_len ? length : p->kv_len;
}

/* Of a mask or bias. */
static attn_extent mask_extent(const char *name, const void *address, const attn_problem *p, int64_t keys,
                               attn_mask_strides strides, int64_t element_bytes) {
    attn_extent e = attn_extent_heads(name, address, p->batch, p->q_heads, p->q_len, keys,
                                      (attn_strides){strides.batch, strides.head, strides.row}, element_bytes);
    e.stride[3] = strides.key;
    return e;
}

attn_extent attn_array_extent(const attn_problem *p, const attn_arrays *a, int array) {
    /* packed tokens are one member of all rows */
    bool ragged = has(p, ATTN_RAGGED);
    int64_t batch = ragged ? 1 : p->batch;
    int64_t q_rows = ragged ? p->total_q : p->q_len;
    int64_t kv_rows = ragged ? p->total_kv : p->kv_len;
    const char *name = array_facts[array].name;
    const void *address = a->at[array];
    int64_t bytes = a->real_bytes;
    switch (array) {
    case ATTN_Q:
        return attn_extent_heads(name, address, batch, p->q_heads, q_rows, p->head_dim, p->q, bytes);
    case ATTN_K:
        return attn_extent_heads(name, address, batch, p->kv_heads, kv_rows, p->head_dim, p->k, bytes);
    case ATTN_V:
        return attn_extent_heads(name, address, batch, p->kv_heads, kv_rows, p->v_dim, p->v, bytes);
    case ATTN_OUT:
        return attn_extent_heads(name, address, batch, p->q_heads, q_rows, p->v_dim, p->out, bytes);
    case ATTN_LSE:
        return attn_extent_heads(name, address, batch, p->q_heads, q_rows, 1, p->lse, bytes);
    case ATTN_MASK:
        return mask_extent(name, address, p, covered_keys(p, ATTN_HAS_MASK_LEN, p->mask_len), p->mask, 1);
    case ATTN_BIAS:
        return mask_extent(name, address, p, covered_keys(p, ATTN_HAS_BIAS_LEN, p->bias_len), p->bias, bytes);
    case ATTN_SLOPES:
    case ATTN_SINK:
        return attn_extent_vector(name, address, p->q_heads, bytes);
    default: /* the intermediates */
        return attn_extent_heads(name, address, p->batch, p->q_heads, p->q_len, p->kv_len, p->scores, bytes);
    }
}

/* True for an array that this problem has: lse always may be. */
static bool array_belongs(const attn_problem *p, int array) {
    return array_facts[array].flag == 0 || has(p, array_facts[array].flag);
}

static attn_status check_key_stride(const char *name, int64_t stride) {
    if (stride == 0 || stride == 1)
        return ATTN_OK;
    return attn_fail(ATTN_ERR_STRIDE, "%s: key stride %" PRId64 " is neither 0 nor 1", name, stride);
}

static attn_status check_array_shape(const attn_problem *p, int array) {
    attn_extent e = attn_array_extent(p, &(attn_arrays){.real_bytes = sizeof(double)}, array);
    if (array == ATTN_MASK || array == ATTN_BIAS) {
        ATTN_TRY(check_key_stride(e.name, e.stride[3]));
        e.stride[3] = 0; /* rows of a mask may be closer than their size: broadcast, or bands of one long row */
    }
    ATTN_TRY(attn_check_extent(&e));
    return array >= ATTN_FIRST_OUTPUT && array != ATTN_LSE ? attn_check_no_self_overlap(&e) : ATTN_OK;
}

/* The strides of one array that lead to no element are 0 from here on. */
static void settle_array(attn_problem *p, int array) {
    attn_extent e = attn_array_extent(p, &(attn_arrays){0}, array);
    attn_strides *const strides[ATTN_ARRAYS] = {
        [ATTN_Q] = &p->q,           [ATTN_K] = &p->k,           [ATTN_V] = &p->v,
        [ATTN_OUT] = &p->out,       [ATTN_LSE] = &p->lse,       [ATTN_SCORES] = &p->scores,
        [ATTN_CAPPED] = &p->scores, [ATTN_MASKED] = &p->scores, [ATTN_WEIGHTS] = &p->scores,
    };
    attn_settle_strides(&e);
    if (strides[array] != NULL)
        *strides[array] = (attn_strides){e.stride[0], e.stride[1], e.stride[2]};
    if (array == ATTN_MASK || array == ATTN_BIAS)
        *(array == ATTN_MASK ? &p->mask : &p->bias) =
            (attn_mask_strides){e.stride[0], e.stride[1], e.stride[2], e.stride[3]};
}

attn_status attn_check_problem(const attn_problem *given, attn_problem *problem) {
    ATTN_TRY(attn_read_problem(given, problem));
    ATTN_TRY(check_options(problem));
    ATTN_TRY(check_sizes(problem));
    if (has(problem, ATTN_RAGGED)) /* members differ by their offsets only */
        problem->q.batch = problem->k.batch = problem->v.batch = problem->out.batch = problem->lse.batch = 0;
    for (int array = 0; array < ATTN_ARRAYS; array++)
        if (array_belongs(problem, array) && array != ATTN_LSE)
            ATTN_TRY(check_array_shape(problem, array));
    if (has(problem, ATTN_RAGGED) && !has(problem, ATTN_WANT_ANY)) {
        /* no member is longer than the buffer, and work is cut by these */
        problem->q_len = problem->q_len < problem->total_q ? problem->q_len : problem->total_q;
        problem->kv_len = problem->kv_len < problem->total_kv ? problem->kv_len : problem->total_kv;
    }
    for (int array = 0; array < ATTN_ARRAYS; array++)
        if (array_belongs(problem, array))
            settle_array(problem, array);
    return ATTN_OK;
}

/* ---- Checks of the arguments ---- */

attn_status attn_check_lengths(const char *name, const int64_t *lengths, int64_t batch, const char *buffer_name,
                               int64_t buffer) {
    for (int64_t b = 0; lengths != NULL && b < batch; b++)
        if (lengths[b] < 0 || lengths[b] > buffer)
            return attn_fail(ATTN_ERR_LENGTH, "%s[%" PRId64 "] %" PRId64 " is outside 0..%s %" PRId64, name, b,
                             lengths[b], buffer_name, buffer);
    return ATTN_OK;
}

static attn_status check_offsets(const char *name, const int64_t *offsets, int64_t batch, const char *longest_name,
                                 int64_t longest, const char *total_name, int64_t total) {
    if (offsets == NULL)
        return attn_fail(ATTN_ERR_NULL, "ATTN_RAGGED is set, but %s is NULL", name);
    if (offsets[0] != 0)
        return attn_fail(ATTN_ERR_LENGTH, "%s[0] %" PRId64 " is not 0", name, offsets[0]);
    for (int64_t b = 0; b < batch; b++) {
        if (offsets[b + 1] < offsets[b])
            return attn_fail(ATTN_ERR_LENGTH, "%s[%" PRId64 "] %" PRId64 " is below the %" PRId64 " before it", name,
                             b + 1, offsets[b + 1], offsets[b]);
        if (offsets[b + 1] - offsets[b] > longest)
            return attn_fail(ATTN_ERR_LENGTH, "%s: member %" PRId64 " has %" PRId64 " rows, more than %s %" PRId64,
                             name, b, offsets[b + 1] - offsets[b], longest_name, longest);
    }
    if (offsets[batch] > total)
        return attn_fail(ATTN_ERR_LENGTH, "%s[%" PRId64 "] %" PRId64 " is beyond %s %" PRId64, name, batch,
                         offsets[batch], total_name, total);
    return ATTN_OK;
}

static attn_status check_member_lengths(const attn_problem *p, const attn_lengths *lengths) {
    if (has(p, ATTN_RAGGED)) {
        if (lengths->q_lens != NULL || lengths->kv_lens != NULL)
            return attn_fail(ATTN_ERR_FLAG, "%s are given with ATTN_RAGGED, which has offsets",
                             lengths->q_lens != NULL ? "q_lens" : "kv_lens");
        ATTN_TRY(check_offsets("q_offsets", lengths->q_offsets, p->batch, "q_len", p->q_len, "total_q", p->total_q));
        return check_offsets("kv_offsets", lengths->kv_offsets, p->batch, "kv_len", p->kv_len, "total_kv", p->total_kv);
    }
    if (lengths->q_offsets != NULL || lengths->kv_offsets != NULL)
        return attn_fail(ATTN_ERR_FLAG, "%s are given without ATTN_RAGGED",
                         lengths->q_offsets != NULL ? "q_offsets" : "kv_offsets");
    ATTN_TRY(attn_check_lengths("q_lens", lengths->q_lens, p->batch, "q_len", p->q_len));
    return attn_check_lengths("kv_lens", lengths->kv_lens, p->batch, "kv_len", p->kv_len);
}

/* Pointers: those that are needed are there, and an optional one goes with its flag. */
static attn_status check_pointers(const attn_problem *p, const attn_arrays *arrays, const attn_extent *extents) {
    double scale = attn_problem_scale(p);
    bool keys_are_read = (arrays->real_bytes == sizeof(float) ? (double)(float)scale : scale) != 0;
    for (int array = 0; array < ATTN_ARRAYS; array++) {
        if (!array_belongs(p, array) && arrays->at[array] != NULL)
            return attn_fail(ATTN_ERR_FLAG, "%s is given without %s", array_facts[array].name,
                             array_facts[array].flag_name);
        bool optional = array == ATTN_LSE || (array == ATTN_K && !keys_are_read);
        if (array_belongs(p, array) && !optional)
            ATTN_TRY(attn_check_present_with(&extents[array], array_facts[array].flag_name));
    }
    return ATTN_OK;
}

attn_status attn_check_apart_from_lengths(const attn_problem *p, const attn_extent *output,
                                          const attn_lengths *lengths) {
    const attn_extent inputs[] = {
        attn_extent_vector("q_lens", lengths->q_lens, p->batch, sizeof(int64_t)),
        attn_extent_vector("kv_lens", lengths->kv_lens, p->batch, sizeof(int64_t)),
        attn_extent_vector("q_offsets", lengths->q_offsets, attn_add_saturated(p->batch, 1), sizeof(int64_t)),
        attn_extent_vector("kv_offsets", lengths->kv_offsets, attn_add_saturated(p->batch, 1), sizeof(int64_t)),
    };
    for (size_t i = 0; i < sizeof inputs / sizeof *inputs; i++)
        ATTN_TRY(attn_check_apart(output, &inputs[i]));
    return ATTN_OK;
}

attn_status attn_check_arrays(const attn_problem *problem, const attn_arrays *arrays) {
    attn_extent extents[ATTN_ARRAYS] = {0};
    for (int array = 0; array < ATTN_ARRAYS; array++)
        if (array_belongs(problem, array)) /* the others stay empty, without an address */
            extents[array] = attn_array_extent(problem, arrays, array);
    ATTN_TRY(check_pointers(problem, arrays, extents));
    ATTN_TRY(check_member_lengths(problem, &arrays->lengths));
    if (arrays->at[ATTN_LSE] != NULL) {
        ATTN_TRY(attn_check_extent(&extents[ATTN_LSE]));
        ATTN_TRY(attn_check_no_self_overlap(&extents[ATTN_LSE]));
    }
    for (int output = ATTN_FIRST_OUTPUT; output < ATTN_ARRAYS; output++) {
        if (arrays->at[output] == NULL)
            continue;
        for (int input = 0; input < ATTN_FIRST_OUTPUT; input++)
            ATTN_TRY(attn_check_apart(&extents[output], &extents[input]));
        for (int other = ATTN_FIRST_OUTPUT; other < output; other++)
            ATTN_TRY(attn_check_outputs_apart(&extents[other], &extents[output]));
        ATTN_TRY(attn_check_apart_from_lengths(problem, &extents[output], &arrays->lengths));
    }
    return ATTN_OK;
}

bool attn_writes_nothing(const attn_problem *problem, const attn_arrays *arrays) {
    for (int output = ATTN_FIRST_OUTPUT; output < ATTN_ARRAYS; output++) {
        attn_extent e = attn_array_extent(problem, arrays, output);
        if (e.address != NULL && !attn_extent_empty(&e))
            return false;
    }
    return true;
}

/* ---- Members and flops ---- */

double attn_problem_scale(const attn_problem *problem) {
    return has(problem, ATTN_HAS_SCALE) ? problem->scale : 1 / sqrt((double)problem->head_dim);
}

/* The smaller of two counts of keys where -1 means unlimited. */
static int64_t narrower(int64_t a, int64_t b) {
    return a < 0 || (b >= 0 && b < a) ? b : a;
}

attn_member attn_member_of(const attn_problem *p, int64_t b, const attn_lengths *lengths) {
    attn_member member = {.q_len = p->q_len, .kv_len = p->kv_len, .q_rows = p->q_len, .left = -1, .right = -1};
    if (lengths->q_offsets != NULL) {
        member.q_start = lengths->q_offsets[b];
        member.kv_start = lengths->kv_offsets[b];
        member.q_len = member.q_rows = lengths->q_offsets[b + 1] - member.q_start;
        member.kv_len = lengths->kv_offsets[b + 1] - member.kv_start;
        /* one without rows may begin where the buffer ends, and a stride beyond is no address */
        if (member.q_len == 0)
            member.q_start = 0;
        if (member.kv_len == 0)
            member.kv_start = 0;
    }
    if (lengths->q_lens != NULL)
        member.q_len = lengths->q_lens[b];
    if (lengths->kv_lens != NULL)
        member.kv_len = lengths->kv_lens[b];
    if (has(p, ATTN_HAS_WINDOW)) {
        member.left = p->window_left;
        member.right = p->window_right;
    }
    if (has(p, ATTN_CAUSAL))
        member.right = narrower(member.right, 0);
    member.key_limit = member.kv_len;
    if (has(p, ATTN_HAS_MASK_LEN))
        member.key_limit = narrower(member.key_limit, p->mask_len);
    if (has(p, ATTN_HAS_BIAS_LEN))
        member.key_limit = narrower(member.key_limit, p->bias_len);
    if (p->alignment == ATTN_ALIGN_BOTTOM_RIGHT)
        member.offset = member.kv_len - member.q_len;
    else if (p->alignment == ATTN_ALIGN_OFFSET)
        member.offset = p->offset;
    return member;
}

attn_status attn_problem_flops(const attn_problem *problem, const int64_t *q_lens, const int64_t *kv_lens,
                               double *flops) {
    attn_problem checked;
    ATTN_TRY(attn_check_problem(problem, &checked));
    ATTN_TRY(attn_check_lengths("q_lens", q_lens, checked.batch, "q_len", checked.q_len));
    ATTN_TRY(attn_check_lengths("kv_lens", kv_lens, checked.batch, "kv_len", checked.kv_len));
    if (flops == NULL)
        return attn_fail(ATTN_ERR_NULL, "flops is NULL");
    const attn_lengths lengths = {.q_lens = q_lens, .kv_lens = kv_lens};
    bool all_alike = q_lens == NULL && kv_lens == NULL;
    double pairs = 0;
    for (int64_t b = 0; b < (all_alike ? checked.batch > 0 : checked.batch); b++) {
        attn_member member = attn_member_of(&checked, b, &lengths);
        pairs += attn_visible_pairs(&member) * (all_alike ? (double)checked.batch : 1);
    }
    *flops = 2 * pairs * (double)checked.q_heads * ((double)checked.head_dim + (double)checked.v_dim);
    return ATTN_OK;
}
