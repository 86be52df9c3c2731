/* Test data: the seeded generator, exact-size allocation, filling of inputs, poisoning of outputs. */
#include "data.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "oracle.h"

/* Streams of the generator: one per input array. */
enum { STREAM_Q, STREAM_K, STREAM_V, STREAM_MASK, STREAM_MASK_ROW, STREAM_BIAS, STREAM_BIAS_CHOICE, STREAM_SINK };

/* Factors on q and k, so that scores have the standard deviation factor^2 at the default scale. */
#define FACTOR_LARGE 8.0
#define FACTOR_EXTREME 32.0
#define FACTOR_NEG 4.0
#define FACTOR_BIAS_LARGE 30.0
#define FACTOR_SINK 2.0
#define ROWEMPTY_HIDDEN 0.3 /* hidden share of the rows that are not empty */

/* ---- Generator ----------------------------------------------------------------------------------------------- */

#define GOLDEN UINT64_C(0x9e3779b97f4a7c15)

/* The finaliser of splitmix64. */
static uint64_t mix(uint64_t z) {
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

uint64_t support_random_bits(uint64_t seed, uint64_t stream, uint64_t n) {
    uint64_t start = mix(mix(seed + GOLDEN) + stream * GOLDEN);
    return mix(start + (n + 1) * GOLDEN);
}

double support_random_uniform(uint64_t seed, uint64_t stream, uint64_t n) {
    return (double)(support_random_bits(seed, stream, n) >> 11) * 0x1p-53;
}

/* Box-Muller: numbers 2*pair and 2*pair + 1. */
static void normal_pair(uint64_t seed, uint64_t stream, uint64_t pair, double normal[2]) {
    double radius = sqrt(-2 * log(1 - support_random_uniform(seed, stream, 2 * pair)));
    double angle = 6.283185307179586 * support_random_uniform(seed, stream, 2 * pair + 1);
    normal[0] = radius * cos(angle);
    normal[1] = radius * sin(angle);
}

double support_random_normal(uint64_t seed, uint64_t stream, uint64_t n) {
    double normal[2];
    normal_pair(seed, stream, n / 2, normal);
    return normal[n % 2];
}

void support_fill_normal(attn_dtype dtype, void *x, int64_t count, uint64_t seed, uint64_t stream, uint64_t first,
                         double factor) {
    double normal[2];
    for (int64_t i = 0; i < count; i++) {
        uint64_t n = first + (uint64_t)i;
        if (i == 0 || n % 2 == 0) {
            normal_pair(seed, stream, n / 2, normal);
        }
        support_store(dtype, x, i, factor * normal[n % 2]);
    }
}

/* ---- Elements ------------------------------------------------------------------------------------------------ */

void support_store(attn_dtype dtype, void *x, int64_t n, double value) {
    if (dtype == ATTN_F32) {
        ((float *)x)[n] = (float)value;
    } else {
        ((double *)x)[n] = value;
    }
}

static size_t element_bytes(attn_dtype dtype, support_array array) {
    return array == SUPPORT_MASK ? 1 : dtype == ATTN_F32 ? sizeof(float) : sizeof(double);
}

void *(*support_memory)(size_t bytes) = malloc;

void *support_alloc_poisoned(attn_dtype dtype, int64_t count) {
    size_t bytes = (size_t)count * element_bytes(dtype, SUPPORT_OUT);
    void *memory = support_memory(bytes);
    if (memory) {
        memset(memory, 0xff, bytes);
    }
    return memory;
}

/* ---- Shapes -------------------------------------------------------------------------------------------------- */

typedef struct shape {
    int64_t batch, heads, rows, cols;
    int64_t batch_stride, head_stride, row_stride, col_stride;
} shape;

static shape strided(const attn_strides *s, int64_t batch, int64_t heads, int64_t rows, int64_t cols) {
    return (shape){batch, heads, rows, cols, s->batch, s->head, s->row, 1};
}

static shape strided_mask(const attn_mask_strides *s, const attn_problem *p, int64_t keys) {
    return (shape){p->batch, p->q_heads, p->q_len, keys, s->batch, s->head, s->row, s->key};
}

/* Dimensions and strides of an array. Packed (ragged) arrays are one member of all rows. */
static shape shape_of(const support_case *c, support_array array) {
    const attn_problem *p = &c->problem;
    bool ragged = (p->flags & ATTN_RAGGED) != 0;
    int64_t batch = ragged ? 1 : p->batch;
    int64_t q_rows = ragged ? p->total_q : p->q_len;
    int64_t kv_rows = ragged ? p->total_kv : p->kv_len;
    switch (array) {
    case SUPPORT_Q:
        return strided(&p->q, batch, p->q_heads, q_rows, p->head_dim);
    case SUPPORT_K:
        return strided(&p->k, batch, p->kv_heads, kv_rows, p->head_dim);
    case SUPPORT_V:
        return strided(&p->v, batch, p->kv_heads, kv_rows, p->v_dim);
    case SUPPORT_OUT:
        return strided(&p->out, batch, p->q_heads, q_rows, p->v_dim);
    case SUPPORT_LSE:
        return strided(&p->lse, batch, p->q_heads, q_rows, 1);
    case SUPPORT_MASK:
        return strided_mask(&p->mask, p, (p->flags & ATTN_HAS_MASK_LEN) ? p->mask_len : p->kv_len);
    case SUPPORT_BIAS:
        return strided_mask(&p->bias, p, (p->flags & ATTN_HAS_BIAS_LEN) ? p->bias_len : p->kv_len);
    case SUPPORT_ALIBI:
    case SUPPORT_SINK:
        return (shape){1, p->q_heads, 1, 1, 0, 1, 0, 0};
    default:
        return strided(&p->scores, p->batch, p->q_heads, p->q_len, p->kv_len);
    }
}

/* Elements from the first to the last, 0 when there is none. */
static int64_t extent(const shape *s) {
    if (s->batch == 0 || s->heads == 0 || s->rows == 0 || s->cols == 0) {
        return 0;
    }
    return 1 + (s->batch - 1) * s->batch_stride + (s->heads - 1) * s->head_stride + (s->rows - 1) * s->row_stride +
           (s->cols - 1) * s->col_stride;
}

static bool case_has(const support_case *c, support_array array) {
    static const uint64_t flags[SUPPORT_ARRAY_COUNT] = {
        [SUPPORT_MASK] = ATTN_HAS_MASK,      [SUPPORT_BIAS] = ATTN_HAS_BIAS,        [SUPPORT_ALIBI] = ATTN_HAS_ALIBI,
        [SUPPORT_SINK] = ATTN_HAS_SINK,      [SUPPORT_SCORES] = ATTN_WANT_SCORES,   [SUPPORT_CAPPED] = ATTN_WANT_CAPPED,
        [SUPPORT_MASKED] = ATTN_WANT_MASKED, [SUPPORT_WEIGHTS] = ATTN_WANT_WEIGHTS,
    };
    return array == SUPPORT_LSE ? c->lse : flags[array] == 0 || (c->problem.flags & flags[array]) != 0;
}

bool support_has(const support_data *d, support_array array) {
    return case_has(d->problem_case, array);
}

int64_t support_index(const support_data *d, support_array array, int64_t b, int64_t h, int64_t row, int64_t col) {
    shape s = shape_of(d->problem_case, array);
    bool by_query = array == SUPPORT_Q || array == SUPPORT_OUT || array == SUPPORT_LSE;
    bool by_key = array == SUPPORT_K || array == SUPPORT_V;
    if (d->q_offsets && (by_query || by_key)) {
        row += by_query ? d->q_offsets[b] : d->kv_offsets[b];
        b = 0;
    }
    if (array == SUPPORT_LSE) {
        col = 0;
    }
    return b * s.batch_stride + h * s.head_stride + row * s.row_stride + col * s.col_stride;
}

double support_get(const support_data *d, support_array array, int64_t b, int64_t h, int64_t row, int64_t col) {
    int64_t n = support_index(d, array, b, h, row, col);
    return array == SUPPORT_MASK ? ((const uint8_t *)d->base[array])[n] : support_load(d->dtype, d->base[array], n);
}

void support_set(support_data *d, support_array array, int64_t b, int64_t h, int64_t row, int64_t col, double value) {
    int64_t n = support_index(d, array, b, h, row, col);
    if (array == SUPPORT_MASK) {
        ((uint8_t *)d->base[array])[n] = (uint8_t)value;
    } else {
        support_store(d->dtype, d->base[array], n, value);
    }
}

/* ---- Allocation ---------------------------------------------------------------------------------------------- */

static bool is_output(support_array array) {
    return array == SUPPORT_OUT || array == SUPPORT_LSE || array >= SUPPORT_SCORES;
}

/* Room for `elements` exactly, one element further on when the layout is padded. */
static bool allocate(support_data *d, support_array array, int64_t elements) {
    size_t bytes = element_bytes(d->dtype, array);
    size_t before = d->problem_case->layout == SUPPORT_LAYOUT_PADDED ? 1 : 0;
    d->elements[array] = elements;
    d->memory[array] = support_memory(((size_t)elements + before) * bytes);
    d->base[array] = d->memory[array] ? (char *)d->memory[array] + before * bytes : NULL;
    return d->memory[array] != NULL;
}

/* Bytes of the memory of an array that has memory of its own. */
static size_t memory_bytes(const support_data *d, support_array array) {
    size_t before = (size_t)((char *)d->base[array] - (char *)d->memory[array]);
    return before + (size_t)d->elements[array] * element_bytes(d->dtype, array);
}

/* One array [len, Q | K | V] with K and V as slices of it. */
static bool allocate_packed(support_data *d) {
    const attn_problem *p = &d->problem_case->problem;
    int64_t rows = (p->flags & ATTN_RAGGED) ? p->total_q : p->batch * p->q_len;
    int64_t before_k = p->q_heads * p->head_dim, before_v = before_k + p->kv_heads * p->head_dim;
    if (!allocate(d, SUPPORT_Q, rows * p->q.row)) {
        return false;
    }
    if (rows == 0) {
        before_k = before_v = 0;
    }
    size_t bytes = element_bytes(d->dtype, SUPPORT_Q);
    d->base[SUPPORT_K] = (char *)d->base[SUPPORT_Q] + (size_t)before_k * bytes;
    d->base[SUPPORT_V] = (char *)d->base[SUPPORT_Q] + (size_t)before_v * bytes;
    d->elements[SUPPORT_K] = d->elements[SUPPORT_Q] - before_k;
    d->elements[SUPPORT_V] = d->elements[SUPPORT_Q] - before_v;
    return true;
}

static bool allocate_arrays(support_data *d) {
    const support_case *c = d->problem_case;
    bool packed = c->layout == SUPPORT_LAYOUT_QKV;
    if (packed && !allocate_packed(d)) {
        return false;
    }
    for (int array = packed ? SUPPORT_OUT : 0; array < SUPPORT_ARRAY_COUNT; array++) {
        shape s = shape_of(c, (support_array)array);
        if (case_has(c, (support_array)array) && !allocate(d, (support_array)array, extent(&s))) {
            return false;
        }
    }
    return true;
}

static bool copy_lengths(int64_t **to, const int64_t *from, int64_t count) {
    if (!from) {
        return true;
    }
    *to = malloc((size_t)count * sizeof **to);
    if (*to) {
        memcpy(*to, from, (size_t)count * sizeof **to);
    }
    return *to != NULL;
}

static bool sum_lengths(int64_t **offsets, const int64_t *lengths, int64_t count) {
    *offsets = malloc(((size_t)count + 1) * sizeof **offsets);
    if (!*offsets) {
        return false;
    }
    (*offsets)[0] = 0;
    for (int64_t b = 0; b < count; b++) {
        (*offsets)[b + 1] = (*offsets)[b] + lengths[b];
    }
    return true;
}

static bool allocate_lengths(support_data *d) {
    const support_case *c = d->problem_case;
    int64_t batch = c->problem.batch;
    if (c->problem.flags & ATTN_RAGGED) {
        return sum_lengths(&d->q_offsets, c->q_lens, batch) && sum_lengths(&d->kv_offsets, c->kv_lens, batch);
    }
    return copy_lengths(&d->q_lens, c->q_lens, batch) && copy_lengths(&d->kv_lens, c->kv_lens, batch);
}

/* ---- Filling ------------------------------------------------------------------------------------------------- */

/* All elements of an input, those between rows included. */
static void fill_all(support_data *d, support_array array, double value) {
    int64_t count = (int64_t)(memory_bytes(d, array) / element_bytes(d->dtype, array));
    for (int64_t i = 0; i < count; i++) {
        support_store(d->dtype, d->memory[array], i, value);
    }
}

/* Number of an element of a mask or bias; broadcast dimensions do not count. */
static uint64_t mask_number(const attn_problem *p, const attn_mask_strides *s, int64_t b, int64_t h, int64_t i,
                            int64_t j) {
    uint64_t n = s->batch ? (uint64_t)b : 0;
    n = n * (uint64_t)p->q_heads + (s->head ? (uint64_t)h : 0);
    n = n * (uint64_t)p->q_len + (s->row ? (uint64_t)i : 0);
    return n * (uint64_t)p->kv_len + (s->key ? (uint64_t)j : 0);
}

static double mask_value(const support_case *c, uint64_t n, uint64_t row_n, int64_t i, int64_t j) {
    /* Any byte but 0 means "attend". */
    double attend = 1 + (double)(support_random_bits(c->seed, STREAM_MASK, n) % 255);
    double chance = support_random_uniform(c->seed, STREAM_MASK, n);
    switch (c->mask_kind) {
    case SUPPORT_MASK_RANDOM:
        return chance < c->mask_probability ? 0 : attend;
    case SUPPORT_MASK_ROWEMPTY: {
        bool empty = support_random_uniform(c->seed, STREAM_MASK_ROW, row_n) < c->mask_probability;
        return empty || chance < ROWEMPTY_HIDDEN ? 0 : attend;
    }
    case SUPPORT_MASK_LEAD:
        return j < c->mask_lead ? 0 : attend;
    case SUPPORT_MASK_BLOCKS:
        return i / c->mask_block == j / c->mask_block ? attend : 0;
    case SUPPORT_MASK_ALL:
        return attend;
    case SUPPORT_MASK_NONE:
        break;
    }
    return 0;
}

static double bias_value(const support_case *c, attn_dtype dtype, uint64_t n, uint64_t row_n) {
    double normal = support_random_normal(c->seed, STREAM_BIAS, n);
    double lowest = dtype == ATTN_F32 ? -0x1.fffffep127 : -0x1.fffffffffffffp1023;
    bool by_row = c->bias_kind == SUPPORT_BIAS_INFROW || c->bias_kind == SUPPORT_BIAS_LOWESTROW;
    bool chosen = support_random_uniform(c->seed, STREAM_BIAS_CHOICE, by_row ? row_n : n) < c->bias_probability;
    switch (c->bias_kind) {
    case SUPPORT_BIAS_NORMAL:
        break;
    case SUPPORT_BIAS_LARGE:
        return FACTOR_BIAS_LARGE * normal;
    case SUPPORT_BIAS_INF:
    case SUPPORT_BIAS_INFROW:
        return chosen ? -INFINITY : normal;
    case SUPPORT_BIAS_LOWEST:
    case SUPPORT_BIAS_LOWESTROW:
        return chosen ? lowest : normal;
    }
    return normal;
}

/* Mask or bias: every element once for each place that reads it, always with the same value. */
static void fill_mask_or_bias(support_data *d, support_array array) {
    const support_case *c = d->problem_case;
    const attn_problem *p = &c->problem;
    const attn_mask_strides *strides = array == SUPPORT_MASK ? &p->mask : &p->bias;
    shape s = shape_of(c, array);
    int64_t batch = s.batch_stride ? s.batch : s.batch > 0;
    int64_t heads = s.head_stride ? s.heads : s.heads > 0;
    int64_t rows = s.row_stride ? s.rows : s.rows > 0;
    int64_t cols = s.col_stride ? s.cols : s.cols > 0;
    for (int64_t b = 0; b < batch; b++) {
        for (int64_t h = 0; h < heads; h++) {
            for (int64_t i = 0; i < rows; i++) {
                uint64_t row_n = mask_number(p, strides, b, h, i, 0);
                for (int64_t j = 0; j < cols; j++) {
                    uint64_t n = mask_number(p, strides, b, h, i, j);
                    support_set(d, array, b, h, i, j,
                                array == SUPPORT_MASK ? mask_value(c, n, row_n, i, j)
                                                      : bias_value(c, d->dtype, n, row_n));
                }
            }
        }
    }
}

static double input_factor(const support_case *c, support_array array) {
    if (array == SUPPORT_V) {
        return 1;
    }
    switch (c->distribution) {
    case SUPPORT_DATA_LARGE:
        return FACTOR_LARGE;
    case SUPPORT_DATA_EXTREME:
        return FACTOR_EXTREME;
    case SUPPORT_DATA_NEG:
        return FACTOR_NEG;
    default:
        return 1;
    }
}

/* One row of q, k or v. */
static void fill_row(support_data *d, support_array array, int64_t b, int64_t h, int64_t row) {
    const support_case *c = d->problem_case;
    shape s = shape_of(c, array);
    int64_t start = support_index(d, array, b, h, row, 0);
    void *x = (char *)d->base[array] + (size_t)start * element_bytes(d->dtype, array);
    bool equal_keys = array == SUPPORT_K && c->distribution == SUPPORT_DATA_EQUAL;
    uint64_t stream = array == SUPPORT_Q ? STREAM_Q : array == SUPPORT_K ? STREAM_K : STREAM_V;
    uint64_t n = s.batch_stride || d->q_offsets ? (uint64_t)b : 0;
    n = n * (uint64_t)s.heads + (s.head_stride ? (uint64_t)h : 0);
    n = n * (uint64_t)s.rows + (equal_keys ? 0 : (uint64_t)row);
    support_fill_normal(d->dtype, x, s.cols, c->seed, stream, n * (uint64_t)s.cols, input_factor(c, array));
    if (array != SUPPORT_V && c->distribution == SUPPORT_DATA_NEG) {
        for (int64_t col = 0; col < s.cols; col++) {
            double size = fabs(support_load(d->dtype, x, col));
            support_store(d->dtype, x, col, array == SUPPORT_Q ? size : -size);
        }
    }
}

/* Whether any row of the member sees the key through any query head of its group. */
static bool key_is_seen(const support_data *d, int64_t b, int64_t kv_head, int64_t j) {
    const attn_problem *p = &d->problem_case->problem;
    int64_t group = p->q_heads / p->kv_heads;
    for (int64_t h = kv_head * group; h < (kv_head + 1) * group; h++) {
        for (int64_t i = 0; i < support_case_q_len(d->problem_case, b); i++) {
            if (support_oracle_sees(d, b, h, i, j)) {
                return true;
            }
        }
    }
    return false;
}

static void fill_queries(support_data *d) {
    const attn_problem *p = &d->problem_case->problem;
    for (int64_t b = 0; b < p->batch; b++) {
        for (int64_t h = 0; h < p->q_heads; h++) {
            for (int64_t i = 0; i < support_case_q_len(d->problem_case, b); i++) {
                fill_row(d, SUPPORT_Q, b, h, i);
            }
        }
    }
}

/* Inf in every other key that nobody sees; the rest is NaN already. */
static void poison_key(support_data *d, int64_t b, int64_t h, int64_t j) {
    const attn_problem *p = &d->problem_case->problem;
    if (j % 2 == 0) {
        return;
    }
    for (int64_t col = 0; col < p->head_dim; col++) {
        support_set(d, SUPPORT_K, b, h, j, col, INFINITY);
    }
    for (int64_t col = 0; col < p->v_dim; col++) {
        support_set(d, SUPPORT_V, b, h, j, col, INFINITY);
    }
}

/* Poison first and numbers afterwards: with broadcast keys, what one member hides another may see. */
static void fill_keys(support_data *d) {
    const support_case *c = d->problem_case;
    const attn_problem *p = &c->problem;
    double scale = (p->flags & ATTN_HAS_SCALE) ? p->scale : 1;
    bool k_is_read = (d->dtype == ATTN_F32 ? (float)scale : scale) != 0;
    for (int fill = c->poison ? 0 : 1; fill < 2; fill++) {
        for (int64_t b = 0; b < p->batch; b++) {
            for (int64_t h = 0; h < p->kv_heads; h++) {
                for (int64_t j = 0; j < support_case_kv_len(c, b); j++) {
                    if (c->poison && !key_is_seen(d, b, h, j)) {
                        if (!fill) {
                            poison_key(d, b, h, j);
                        }
                    } else if (fill) {
                        if (k_is_read) {
                            fill_row(d, SUPPORT_K, b, h, j);
                        }
                        fill_row(d, SUPPORT_V, b, h, j);
                    }
                }
            }
        }
    }
}

static void fill_inputs(support_data *d) {
    const support_case *c = d->problem_case;
    for (int array = SUPPORT_Q; array <= SUPPORT_V; array++) {
        if (d->memory[array]) {
            fill_all(d, (support_array)array, NAN);
        }
    }
    if (support_has(d, SUPPORT_MASK)) {
        memset(d->memory[SUPPORT_MASK], 0xff, memory_bytes(d, SUPPORT_MASK));
        fill_mask_or_bias(d, SUPPORT_MASK);
    }
    if (support_has(d, SUPPORT_BIAS)) {
        fill_all(d, SUPPORT_BIAS, NAN);
        fill_mask_or_bias(d, SUPPORT_BIAS);
    }
    for (int64_t h = 0; h < c->problem.q_heads; h++) {
        if (support_has(d, SUPPORT_ALIBI)) {
            support_set(d, SUPPORT_ALIBI, 0, h, 0, 0, (double)support_oracle_alibi_slope(c->problem.q_heads, h));
        }
        if (support_has(d, SUPPORT_SINK)) {
            double seeded = FACTOR_SINK * support_random_normal(c->seed, STREAM_SINK, (uint64_t)h);
            support_set(d, SUPPORT_SINK, 0, h, 0, 0, c->sink_constant ? c->sink_value : seeded);
        }
    }
    fill_queries(d);
    fill_keys(d);
    for (int i = 0; i < c->special_count; i++) {
        const support_special *s = &c->specials[i];
        support_array array = s->array == 'q' ? SUPPORT_Q : s->array == 'k' ? SUPPORT_K : SUPPORT_V;
        support_set(d, array, s->b, s->h, s->row, s->col, s->infinite ? INFINITY : NAN);
    }
}

void support_data_poison_outputs(support_data *d) {
    for (int array = 0; array < SUPPORT_ARRAY_COUNT; array++) {
        if (is_output((support_array)array) && d->base[array]) {
            memset(d->memory[array], 0xff, memory_bytes(d, (support_array)array));
        }
    }
}

/* ---- The whole ----------------------------------------------------------------------------------------------- */

/* The same assignments for both precisions. */
#define FILL_ARGS(args, d)                                                                                             \
    do {                                                                                                               \
        (args).struct_size = sizeof(args);                                                                             \
        (args).q = (d)->base[SUPPORT_Q];                                                                               \
        (args).k = (d)->base[SUPPORT_K];                                                                               \
        (args).v = (d)->base[SUPPORT_V];                                                                               \
        (args).out = (d)->base[SUPPORT_OUT];                                                                           \
        (args).lse = (d)->base[SUPPORT_LSE];                                                                           \
        (args).q_lens = (d)->q_lens;                                                                                   \
        (args).kv_lens = (d)->kv_lens;                                                                                 \
        (args).q_offsets = (d)->q_offsets;                                                                             \
        (args).kv_offsets = (d)->kv_offsets;                                                                           \
        (args).mask = (d)->base[SUPPORT_MASK];                                                                         \
        (args).bias = (d)->base[SUPPORT_BIAS];                                                                         \
        (args).alibi_slopes = (d)->base[SUPPORT_ALIBI];                                                                \
        (args).sink = (d)->base[SUPPORT_SINK];                                                                         \
        (args).scores = (d)->base[SUPPORT_SCORES];                                                                     \
        (args).capped = (d)->base[SUPPORT_CAPPED];                                                                     \
        (args).masked = (d)->base[SUPPORT_MASKED];                                                                     \
        (args).weights = (d)->base[SUPPORT_WEIGHTS];                                                                   \
    } while (0)

bool support_data_create(support_data *d, const support_case *c, attn_dtype dtype) {
    memset(d, 0, sizeof *d);
    d->problem_case = c;
    d->dtype = dtype;
    if (!allocate_lengths(d) || !allocate_arrays(d)) {
        support_data_destroy(d);
        return false;
    }
    fill_inputs(d);
    support_data_poison_outputs(d);
    if (dtype == ATTN_F32) {
        FILL_ARGS(d->args32, d);
    } else {
        FILL_ARGS(d->args64, d);
    }
    return true;
}

void support_data_destroy(support_data *d) {
    for (int array = 0; array < SUPPORT_ARRAY_COUNT; array++) {
        free(d->memory[array]);
    }
    free(d->q_lens);
    free(d->kv_lens);
    free(d->q_offsets);
    free(d->kv_offsets);
    memset(d, 0, sizeof *d);
}
