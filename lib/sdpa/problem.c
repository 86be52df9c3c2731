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
    if (given == NULL)
        return attn_fail(ATTN_ERR_NULL, "problem is NULL");
    ATTN_TRY(attn_check_struct_size("attn_problem", given->struct_size, PROBLEM_FIRST_SIZE, sizeof *filled));
    memset(filled, 0, sizeof *filled);
    memcpy(filled, given, given->struct_size);
    ATTN_TRY(check_sizes(filled));
    filled->q = dense(filled->q_heads, filled->q_len, filled->head_dim);
    filled->k = dense(filled->kv_heads, filled->kv_len, filled->head_dim);
    filled->v = dense(filled->kv_heads, filled->kv_len, filled->v_dim);
    filled->out = dense(filled->q_heads, filled->q_len, filled->v_dim);
    filled->lse = dense_bhld(filled->q_heads, filled->q_len, 1);
    filled->scores = dense_bhld(filled->q_heads, filled->q_len, filled->kv_len);
    return ATTN_OK;
}

static attn_status end_layout(attn_problem *given, const attn_problem *filled) {
    const attn_strides *strides[] = {&filled->q, &filled->k, &filled->v, &filled->out, &filled->lse, &filled->scores};
    const char *const names[] = {"q", "k", "v", "out", "lse", "scores"};
    for (size_t i = 0; i < sizeof strides / sizeof *strides; i++)
        if (strides[i]->batch == INT64_MAX || strides[i]->head == INT64_MAX || strides[i]->row == INT64_MAX)
            return attn_fail(ATTN_ERR_OVERFLOW, "%s: a dense array of these sizes has strides beyond 63 bits",
                             names[i]);
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
    int64_t row = attn_add_saturated(attn_add_saturated(filled.q.row, filled.k.row), filled.v.row);
    filled.q.row = filled.k.row = filled.v.row = row;
    filled.q.batch = filled.k.batch = filled.v.batch = attn_mul_saturated(filled.q_len, row);
    return end_layout(problem, &filled);
}

/* ---- Checks of the problem ---- */

static const struct {
    uint64_t flag;
    const char *name;
} unsupported[] = {
    {ATTN_HAS_WINDOW, "window"},
    {ATTN_HAS_SOFTCAP, "softcap"},
    {ATTN_HAS_MASK, "mask"},
    {ATTN_HAS_BIAS, "bias"},
    {ATTN_HAS_ALIBI, "ALiBi"},
    {ATTN_HAS_SINK, "sink"},
    {ATTN_RAGGED, "ragged"},
    {ATTN_WANT_SCORES, "scores"},
    {ATTN_WANT_CAPPED, "capped scores"},
    {ATTN_WANT_MASKED, "masked scores"},
    {ATTN_WANT_WEIGHTS, "weights"},
    {ATTN_HAS_MASK_LEN, "mask_len"},
    {ATTN_HAS_BIAS_LEN, "bias_len"},
};

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
    for (size_t i = 0; i < sizeof unsupported / sizeof *unsupported; i++)
        if (has(problem, unsupported[i].flag))
            return attn_fail(ATTN_ERR_UNSUPPORTED, "%s: not built into version %d.%d", unsupported[i].name,
                             ATTN_VERSION_MAJOR, ATTN_VERSION_MINOR);
    return ATTN_OK;
}

static attn_extent heads_extent(const char *name, const void *address, const attn_problem *problem, int64_t heads,
                                int64_t rows, int64_t cols, attn_strides strides, int64_t element_bytes) {
    return (attn_extent){
        .name = name,
        .address = address,
        .dims = 4,
        .size = {problem->batch, heads, rows, cols},
        .stride = {strides.batch, strides.head, strides.row, 1},
        .element_bytes = element_bytes,
    };
}

/* The arrays of a call by name; addresses NULL while only the problem is known. */
enum { Q, K, V, OUT, LSE, ARRAYS };

static void list_extents(const attn_problem *p, const attn_arrays *a, attn_extent list[ARRAYS]) {
    int64_t bytes = a->real_bytes;
    list[Q] = heads_extent("q", a->q, p, p->q_heads, p->q_len, p->head_dim, p->q, bytes);
    list[K] = heads_extent("k", a->k, p, p->kv_heads, p->kv_len, p->head_dim, p->k, bytes);
    list[V] = heads_extent("v", a->v, p, p->kv_heads, p->kv_len, p->v_dim, p->v, bytes);
    list[OUT] = heads_extent("out", a->out, p, p->q_heads, p->q_len, p->v_dim, p->out, bytes);
    list[LSE] = heads_extent("lse", a->lse, p, p->q_heads, p->q_len, 1, p->lse, bytes);
}

attn_status attn_check_problem(const attn_problem *given, attn_problem *problem) {
    if (given == NULL)
        return attn_fail(ATTN_ERR_NULL, "problem is NULL");
    ATTN_TRY(attn_check_struct_size("attn_problem", given->struct_size, PROBLEM_FIRST_SIZE, sizeof *problem));
    memset(problem, 0, sizeof *problem);
    memcpy(problem, given, given->struct_size);
    ATTN_TRY(check_options(problem));
    ATTN_TRY(check_sizes(problem));
    attn_extent list[ARRAYS];
    list_extents(problem, &(attn_arrays){.real_bytes = sizeof(double)}, list);
    for (int i = 0; i < LSE; i++)
        ATTN_TRY(attn_check_extent(&list[i]));
    return attn_check_no_self_overlap(&list[OUT]);
}

/* ---- Checks of the arguments ---- */

static attn_status check_lengths(const char *name, const int64_t *lengths, int64_t batch, const char *buffer_name,
                                 int64_t buffer) {
    for (int64_t b = 0; lengths != NULL && b < batch; b++)
        if (lengths[b] < 0 || lengths[b] > buffer)
            return attn_fail(ATTN_ERR_LENGTH, "%s[%" PRId64 "] %" PRId64 " is outside 0..%s %" PRId64, name, b,
                             lengths[b], buffer_name, buffer);
    return ATTN_OK;
}

/* An optional pointer goes with its flag. */
static attn_status check_option_pointer(const char *name, const void *pointer, const char *flag) {
    if (pointer == NULL)
        return ATTN_OK;
    return attn_fail(ATTN_ERR_FLAG, "%s is given without %s", name, flag);
}

attn_status attn_check_arrays(const attn_problem *problem, const attn_arrays *arrays) {
    attn_extent list[ARRAYS];
    list_extents(problem, arrays, list);
    bool keys_are_read = attn_problem_scale(problem) != 0;
    for (int i = 0; i < ARRAYS; i++) {
        bool optional = i == LSE || (i == K && !keys_are_read);
        if (!optional)
            ATTN_TRY(attn_check_present(&list[i]));
    }
    ATTN_TRY(check_option_pointer("mask", arrays->mask, "ATTN_HAS_MASK"));
    ATTN_TRY(check_option_pointer("bias", arrays->bias, "ATTN_HAS_BIAS"));
    ATTN_TRY(check_option_pointer("alibi_slopes", arrays->alibi_slopes, "ATTN_HAS_ALIBI"));
    ATTN_TRY(check_option_pointer("sink", arrays->sink, "ATTN_HAS_SINK"));
    ATTN_TRY(check_option_pointer("q_offsets", arrays->q_offsets, "ATTN_RAGGED"));
    ATTN_TRY(check_option_pointer("kv_offsets", arrays->kv_offsets, "ATTN_RAGGED"));
    ATTN_TRY(check_option_pointer("scores", arrays->scores, "ATTN_WANT_SCORES"));
    ATTN_TRY(check_option_pointer("capped", arrays->capped, "ATTN_WANT_CAPPED"));
    ATTN_TRY(check_option_pointer("masked", arrays->masked, "ATTN_WANT_MASKED"));
    ATTN_TRY(check_option_pointer("weights", arrays->weights, "ATTN_WANT_WEIGHTS"));
    ATTN_TRY(check_lengths("q_lens", arrays->q_lens, problem->batch, "q_len", problem->q_len));
    ATTN_TRY(check_lengths("kv_lens", arrays->kv_lens, problem->batch, "kv_len", problem->kv_len));
    if (arrays->lse != NULL) {
        ATTN_TRY(attn_check_extent(&list[LSE]));
        ATTN_TRY(attn_check_no_self_overlap(&list[LSE]));
    }
    for (int input = Q; input <= V; input++) {
        ATTN_TRY(attn_check_apart(&list[OUT], &list[input]));
        ATTN_TRY(attn_check_apart(&list[LSE], &list[input]));
    }
    return attn_check_outputs_apart(&list[OUT], &list[LSE]);
}

/* ---- Members and flops ---- */

double attn_problem_scale(const attn_problem *problem) {
    return has(problem, ATTN_HAS_SCALE) ? problem->scale : 1 / sqrt((double)problem->head_dim);
}

attn_member attn_member_of(const attn_problem *problem, int64_t b, const int64_t *q_lens, const int64_t *kv_lens) {
    attn_member member = {
        .q_len = q_lens != NULL ? q_lens[b] : problem->q_len,
        .kv_len = kv_lens != NULL ? kv_lens[b] : problem->kv_len,
        .left = -1,
        .right = has(problem, ATTN_CAUSAL) ? 0 : -1,
    };
    member.key_limit = member.kv_len;
    if (problem->alignment == ATTN_ALIGN_BOTTOM_RIGHT)
        member.offset = member.kv_len - member.q_len;
    else if (problem->alignment == ATTN_ALIGN_OFFSET)
        member.offset = problem->offset;
    return member;
}

attn_status attn_problem_flops(const attn_problem *problem, const int64_t *q_lens, const int64_t *kv_lens,
                               double *flops) {
    attn_problem checked;
    ATTN_TRY(attn_check_problem(problem, &checked));
    ATTN_TRY(check_lengths("q_lens", q_lens, checked.batch, "q_len", checked.q_len));
    ATTN_TRY(check_lengths("kv_lens", kv_lens, checked.batch, "kv_len", checked.kv_len));
    if (flops == NULL)
        return attn_fail(ATTN_ERR_NULL, "flops is NULL");
    double pairs = 0;
    if (q_lens == NULL && kv_lens == NULL) {
        attn_member member = attn_member_of(&checked, 0, NULL, NULL);
        pairs = (double)checked.batch * attn_visible_pairs(&member);
    }
    for (int64_t b = 0; (q_lens != NULL || kv_lens != NULL) && b < checked.batch; b++) {
        attn_member member = attn_member_of(&checked, b, q_lens, kv_lens);
        pairs += attn_visible_pairs(&member);
    }
    *flops = 2 * pairs * (double)checked.q_heads * ((double)checked.head_dim + (double)checked.v_dim);
    return ATTN_OK;
}
