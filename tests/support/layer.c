/* Layer problems: text, data, oracle. */
#include "layer.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Streams of the generator that problem data does not use. */
enum { STREAM_LAYER = 100 };

#define FACTOR_BIAS 0.25

/* ---- Text -------------------------------------------------------------------------------------------------------- */

typedef struct layer_parser {
    const char *at;
    char *error;
    size_t error_size;
} layer_parser;

__attribute__((format(printf, 2, 3))) static bool refuse(layer_parser *p, const char *format, ...) {
    va_list values;
    va_start(values, format);
    vsnprintf(p->error, p->error_size, format, values);
    va_end(values);
    return false;
}

/* A letter and its size; leaves *value alone where the letter is missing. */
static bool take_size(layer_parser *p, char letter, int64_t least, int64_t *value) {
    if (*p->at != letter)
        return true;
    char *end;
    p->at++;
    long long number = strtoll(p->at, &end, 10);
    if (*p->at < '0' || *p->at > '9' || number < least || number > 1000000000)
        return refuse(p, "%c: a size of at least %lld is needed at \"%.20s\"", letter, (long long)least, p->at);
    *value = number;
    p->at = end;
    return true;
}

static bool parse_layer_sizes(layer_parser *p, support_layer *l, attn_problem *heads) {
    heads->head_dim = heads->v_dim = l->d_out = -1;
    if (*p->at != 'd' || !take_size(p, 'd', 1, &l->d_model) || *p->at != 'h')
        return *p->error ? false : refuse(p, "the sizes of a layer are written d768h12 or d768h12/4s64v32c512o640");
    if (!take_size(p, 'h', 1, &heads->q_heads))
        return false;
    heads->kv_heads = heads->q_heads;
    if (!take_size(p, '/', 1, &heads->kv_heads) || !take_size(p, 's', 1, &heads->head_dim) ||
        !take_size(p, 'v', 0, &heads->v_dim))
        return false;
    l->cross = *p->at == 'c';
    if (!take_size(p, 'c', 1, &l->d_context) || !take_size(p, 'o', 0, &l->d_out))
        return false;
    if (heads->head_dim < 0 && l->d_model % heads->q_heads != 0)
        return refuse(p, "h %lld does not divide d %lld: the head size s is needed", (long long)heads->q_heads,
                      (long long)l->d_model);
    heads->head_dim = heads->head_dim < 0 ? l->d_model / heads->q_heads : heads->head_dim;
    heads->v_dim = heads->v_dim < 0 ? heads->head_dim : heads->v_dim;
    l->d_out = l->d_out < 0 ? l->d_model : l->d_out;
    return true;
}

/* name=N; *value is -1 before. */
static bool take_number(layer_parser *p, const char *name, int64_t *value, bool *taken) {
    size_t n = strlen(name);
    if (strncmp(p->at, name, n) != 0 || p->at[n] != '=')
        return true;
    *taken = true;
    char *end;
    long long number = strtoll(p->at + n + 1, &end, 10);
    if (*value >= 0)
        return refuse(p, "%s is given twice", name);
    if (p->at[n + 1] < '0' || p->at[n + 1] > '9' || number < 0 || number > 1000000000)
        return refuse(p, "%s: a number from 0 to 1000000000 is needed at \"%.20s\"", name, p->at + n + 1);
    *value = number;
    p->at = end;
    return true;
}

static bool take_flag(layer_parser *p, const char *name, bool *flag, bool *taken) {
    size_t n = strlen(name);
    if (strncmp(p->at, name, n) != 0 || (p->at[n] != ',' && p->at[n] != ' ' && p->at[n] != 0))
        return true;
    if (*flag)
        return refuse(p, "%s is given twice", name);
    *taken = *flag = true;
    p->at += n;
    return true;
}

static bool take_rope(layer_parser *p, support_layer *l, const attn_problem *heads, bool *taken) {
    static const struct {
        const char *text;
        attn_rotary_pairing pairing;
    } kinds[] = {{"rope=half", ATTN_ROTARY_HALF_SPLIT}, {"rope=pairs", ATTN_ROTARY_INTERLEAVED}};
    for (int i = 0; i < 2; i++) {
        size_t n = strlen(kinds[i].text);
        if (strncmp(p->at, kinds[i].text, n) != 0)
            continue;
        if (l->pairing != 0)
            return refuse(p, "rope is given twice");
        *taken = true;
        p->at += n;
        l->pairing = kinds[i].pairing;
        l->rotary_dim = heads->head_dim / 2 * 2;
        if (!take_size(p, ':', 0, &l->rotary_dim))
            return false;
        if (l->rotary_dim % 2 != 0 || l->rotary_dim > heads->head_dim)
            return refuse(p, "rope: %lld is not even and at most the head size %lld", (long long)l->rotary_dim,
                          (long long)heads->head_dim);
    }
    return true;
}

static bool parse_layer_options(layer_parser *p, support_layer *l, const attn_problem *heads) {
    int64_t start = -1, capacity = -1, past = -1, pad = -1;
    while (*p->at == ',') {
        bool taken = false;
        p->at++;
        if (!take_flag(p, "outin", &l->out_in, &taken) || !take_flag(p, "packed", &l->packed, &taken) ||
            !take_flag(p, "bias", &l->bias, &taken) || !take_rope(p, l, heads, &taken) ||
            !take_number(p, "start", &start, &taken) || !take_number(p, "cache", &capacity, &taken) ||
            !take_number(p, "past", &past, &taken) || !take_number(p, "pad", &pad, &taken))
            return false;
        if (!taken)
            return refuse(p,
                          "no option of a layer at \"%.20s\": outin, packed, bias, rope=, start=, cache=, past=, pad= "
                          "are accepted",
                          p->at);
    }
    if (past > capacity)
        return refuse(p, "past %lld is more than the cache holds", (long long)past);
    l->start = start < 0 ? 0 : start;
    l->cached = capacity >= 0;
    l->capacity = capacity < 0 ? 0 : capacity;
    l->past = past < 0 ? 0 : past;
    l->pad = pad < 0 ? 0 : pad;
    return true;
}

/* A layer computes Q, K and V itself, each into an array of its own. */
static bool check_heads(layer_parser *p, const support_case *heads) {
    if (heads->q_broadcast != 0 || heads->k_broadcast != 0 || heads->v_broadcast != 0)
        return refuse(p, "q@, k@ and v@ are for attention alone: a layer makes its own q, k and v");
    if (heads->layout != SUPPORT_LAYOUT_BHLD)
        return refuse(p, "layout= is for attention alone: a layer makes its own q, k and v");
    if (heads->special_count > 0 || heads->distribution != SUPPORT_DATA_NORMAL)
        return refuse(p, "nan=, inf= and data= are for attention alone: a layer makes its own q, k and v");
    return true;
}

/* The heads as a problem of their own. */
static bool parse_heads(layer_parser *p, support_layer *l, const attn_problem *sizes) {
    int64_t batch = 1, q_len = -1, kv_len = -1;
    if (!take_size(p, 'b', 0, &batch) || !take_size(p, 'q', 0, &q_len) || !take_size(p, 'k', 0, &kv_len))
        return false;
    if (q_len < 0)
        return refuse(p, "the heads of a layer are written b1q1024, then options; q is needed");
    if (kv_len >= 0 && !l->cross)
        return refuse(p, "k goes with cross-attention: in self-attention keys are the rows of x");
    kv_len = (kv_len < 0 ? q_len : kv_len) + l->past;
    double columns = (double)sizes->q_heads * (double)(sizes->head_dim + sizes->v_dim) +
                     (double)sizes->kv_heads * (double)(sizes->head_dim + sizes->v_dim) +
                     (double)(l->d_model + l->d_context + l->d_out + l->pad);
    if ((double)batch * (double)(q_len + kv_len) * columns > 1e15 || columns * columns > 1e15)
        return refuse(p, "these sizes make arrays of more than 10^15 elements");
    if (l->cached && kv_len > l->capacity)
        return refuse(p, "%lld keys are more than the cache of %lld holds", (long long)kv_len, (long long)l->capacity);
    size_t size = strlen(p->at) + 256;
    char *text = malloc(size);
    if (text == NULL)
        return refuse(p, "not enough memory");
    snprintf(text, size, "b%" PRId64 "h%" PRId64 "/%" PRId64 "q%" PRId64 "k%" PRId64 "d%" PRId64 "v%" PRId64 "%s",
             batch, sizes->q_heads, sizes->kv_heads, q_len, kv_len, sizes->head_dim, sizes->v_dim, p->at);
    l->heads = support_case_parse(text, p->error, p->error_size);
    free(text);
    return l->heads != NULL && check_heads(p, l->heads);
}

/* The keys that members have in the end: those of the past too, and in self-attention as many new ones as rows. */
static bool complete_lengths(layer_parser *p, support_layer *l) {
    support_case *c = l->heads;
    int64_t batch = c->problem.batch;
    if ((c->problem.flags & ATTN_RAGGED) != 0)
        return l->cached ? refuse(p, "ragged: the keys of a cache are not packed") : true;
    if (c->kv_lens == NULL && (l->cross || c->q_lens == NULL))
        return true;
    int64_t *new_keys = c->kv_lens != NULL ? c->kv_lens : c->q_lens;
    int64_t *keys = malloc((size_t)(batch > 0 ? batch : 1) * sizeof *keys);
    if (keys == NULL)
        return refuse(p, "not enough memory");
    for (int64_t b = 0; b < batch; b++) {
        keys[b] = new_keys[b] + l->past;
        if (keys[b] > c->problem.kv_len) {
            free(keys);
            return refuse(p, "kvlens: member %lld has more new keys than rows", (long long)b);
        }
    }
    free(c->kv_lens);
    c->kv_lens = keys;
    return true;
}

support_layer *support_layer_parse(const char *text, char *error, size_t error_size) {
    attn_problem sizes = {0};
    support_layer *l = calloc(1, sizeof *l);
    layer_parser p = {text, error, error_size};
    if (error_size > 0)
        error[0] = 0;
    if (l == NULL)
        return NULL;
    if (strncmp(p.at, "layer ", 6) == 0)
        p.at += 6;
    bool fine = parse_layer_sizes(&p, l, &sizes) && parse_layer_options(&p, l, &sizes);
    if (fine && *p.at != ' ')
        fine = refuse(&p, "a blank and the heads, such as b1q1024, are needed at \"%.20s\"", p.at);
    p.at += fine;
    if (fine && parse_heads(&p, l, &sizes) && complete_lengths(&p, l))
        return l;
    support_layer_free(l);
    return NULL;
}

void support_layer_free(support_layer *l) {
    if (l != NULL && l->heads != NULL)
        support_case_free(l->heads);
    free(l);
}

int64_t support_layer_q_len(const support_layer *l, int64_t b) {
    return support_case_q_len(l->heads, b);
}

int64_t support_layer_new_keys(const support_layer *l, int64_t b) {
    return support_case_kv_len(l->heads, b) - l->past;
}

/* ---- Data -------------------------------------------------------------------------------------------------------- */

static bool is_ragged(const support_layer *l) {
    return (l->heads->problem.flags & ATTN_RAGGED) != 0;
}

/* Rows of x that count for member b: in self-attention those that are queries and those that are keys. */
static int64_t x_rows(const support_layer *l, int64_t b) {
    int64_t queries = support_layer_q_len(l, b), keys = support_layer_new_keys(l, b);
    return !l->cross && keys > queries ? keys : queries;
}

/* Rows of the buffers of x and of the context. */
static int64_t x_len(const support_layer *l) {
    return l->heads->problem.q_len;
}

static int64_t context_len(const support_layer *l) {
    return l->heads->problem.kv_len - l->past;
}

/* in x out of weight Q, K, V, O. */
typedef struct weight_shape {
    int64_t in, out;
} weight_shape;

static weight_shape shape_of(const support_layer *l, int weight) {
    const attn_problem *p = &l->heads->problem;
    int64_t kv_in = l->cross ? l->d_context : l->d_model;
    const weight_shape shapes[] = {
        {l->d_model, p->q_heads * p->head_dim},
        {kv_in, p->kv_heads * p->head_dim},
        {kv_in, p->kv_heads * p->v_dim},
        {p->q_heads * p->v_dim, l->d_out},
    };
    return shapes[weight];
}

/* Where weight number `weight` stands: in which matrix, from which column on. */
typedef struct weight_place {
    int matrix;
    int64_t first, columns; /* of all that the matrix holds */
} weight_place;

static weight_place place_of(const support_layer *l, int weight) {
    weight_place place = {weight, 0, shape_of(l, weight).out};
    int holder = !l->packed || weight == 3 ? weight : l->cross && weight > 0 ? 1 : 0;
    int last = !l->packed || weight == 3 ? weight : l->cross && weight == 0 ? 0 : 2;
    place.matrix = holder;
    place.columns = 0;
    for (int w = holder; w <= last; w++) {
        place.first += w < weight ? shape_of(l, w).out : 0;
        place.columns += shape_of(l, w).out;
    }
    return place;
}

static int64_t weight_row(const support_layer *l, int weight) {
    return (l->out_in ? shape_of(l, weight).in : place_of(l, weight).columns) + l->pad;
}

static int64_t weight_index(const support_layer *l, int weight, int64_t in, int64_t out) {
    int64_t column = place_of(l, weight).first + out, row = weight_row(l, place_of(l, weight).matrix);
    return l->out_in ? column * row + in : in * row + column;
}

/* A weight matrix as it is read: element (in, out) is at base + in * in_step + out * out_step. */
typedef struct weight_view {
    const void *matrix;
    int64_t base, in_step, out_step;
} weight_view;

static weight_view view_of(const support_layer_data *d, int weight) {
    return (weight_view){
        .matrix = d->array[SUPPORT_LAYER_W + place_of(d->l, weight).matrix],
        .base = weight_index(d->l, weight, 0, 0),
        .in_step = weight_index(d->l, weight, 1, 0) - weight_index(d->l, weight, 0, 0),
        .out_step = weight_index(d->l, weight, 0, 1) - weight_index(d->l, weight, 0, 0),
    };
}

static double get_weight(const support_layer_data *d, const weight_view *w, int64_t in, int64_t out) {
    return support_load(d->dtype, w->matrix, w->base + in * w->in_step + out * w->out_step);
}

static double get_bias(const support_layer_data *d, int weight, int64_t out) {
    weight_place place = place_of(d->l, weight);
    const void *bias = d->array[SUPPORT_LAYER_B + place.matrix];
    return bias != NULL ? support_load(d->dtype, bias, place.first + out) : 0;
}

static bool allocate(support_layer_data *d, int array, int64_t elements) {
    d->elements[array] = elements < 0 ? 0 : elements;
    d->array[array] = support_alloc_poisoned(d->dtype, d->elements[array]);
    return d->array[array] != NULL;
}

/* Elements of [members, rows, cols] with their padding, none after the last row. */
static int64_t extent(int64_t members, int64_t rows, int64_t cols, int64_t batch, int64_t row) {
    return members == 0 || rows == 0 || cols == 0 ? 0 : (members - 1) * batch + (rows - 1) * row + cols;
}

static void set_layer(support_layer_data *d) {
    const support_layer *l = d->l;
    attn_layer *layer = &d->layer;
    d->problem = l->heads->problem;
    d->problem.kv_len = context_len(l);
    *layer = (attn_layer){.struct_size = sizeof *layer, .attention = &d->problem};
    layer->flags = (l->out_in ? ATTN_LAYER_OUT_IN : 0) | (l->packed ? ATTN_LAYER_PACKED : 0) |
                   (l->cross ? ATTN_LAYER_CROSS : 0) | (l->pairing != 0 ? ATTN_LAYER_HAS_ROTARY : 0) |
                   (l->cached ? ATTN_LAYER_HAS_CACHE : 0);
    layer->d_model = l->d_model;
    layer->d_context = l->d_context;
    layer->d_out = l->d_out;
    layer->capacity = l->capacity;
    layer->x_row = l->d_model + l->pad;
    layer->x_batch = x_len(l) * layer->x_row + l->pad;
    layer->context_row = l->d_context + l->pad;
    layer->context_batch = context_len(l) * layer->context_row + l->pad;
    layer->y_row = l->d_out + l->pad;
    layer->y_batch = x_len(l) * layer->y_row + l->pad;
    layer->w_q_row = weight_row(l, 0);
    layer->w_k_row = weight_row(l, 1);
    layer->w_v_row = weight_row(l, 2);
    layer->w_o_row = weight_row(l, 3);
    if (l->pairing == 0)
        return;
    d->rotary = (attn_rotary){.struct_size = sizeof d->rotary, .pairing = l->pairing};
    d->rotary.rotary_dim = l->rotary_dim;
    d->rotary.start = l->start;
    d->rotary.base = 10000;
    layer->rotary = &d->rotary;
}

static bool allocate_all(support_layer_data *d) {
    const support_layer *l = d->l;
    const attn_problem *p = &l->heads->problem;
    const attn_layer *layer = &d->layer;
    int64_t members = is_ragged(l) ? 1 : p->batch;
    int64_t q_rows = is_ragged(l) ? p->total_q : x_len(l), kv_rows = is_ragged(l) ? p->total_kv : context_len(l);
    bool fine = allocate(d, SUPPORT_LAYER_X, extent(members, q_rows, l->d_model, layer->x_batch, layer->x_row)) &&
                allocate(d, SUPPORT_LAYER_Y, extent(members, q_rows, l->d_out, layer->y_batch, layer->y_row));
    if (l->cross)
        fine = fine && allocate(d, SUPPORT_LAYER_CONTEXT,
                                extent(members, kv_rows, l->d_context, layer->context_batch, layer->context_row));
    for (int w = 0; w < 4; w++) {
        weight_place place = place_of(l, w);
        int64_t in = shape_of(l, w).in;
        if (place.matrix != w)
            continue;
        fine = fine &&
               allocate(d, SUPPORT_LAYER_W + w,
                        extent(1, l->out_in ? place.columns : in, l->out_in ? in : place.columns, 0, weight_row(l, w)));
        if (l->bias)
            fine = fine && allocate(d, SUPPORT_LAYER_B + w, place.columns);
    }
    int64_t past = p->batch * p->kv_heads * l->past;
    if (l->cached)
        fine = fine && allocate(d, SUPPORT_LAYER_PAST_K, past * p->head_dim) &&
               allocate(d, SUPPORT_LAYER_PAST_V, past * p->v_dim);
    return fine;
}

/* First row of member b in a buffer. */
static int64_t row_start(const support_layer *l, const int64_t *offsets, int64_t b, int64_t row_of_member,
                         int64_t batch, int64_t row) {
    return is_ragged(l) ? (offsets[b] + row_of_member) * row : b * batch + row_of_member * row;
}

static int64_t x_index(const support_layer_data *d, int64_t b, int64_t row) {
    return row_start(d->l, d->heads.q_offsets, b, row, d->layer.x_batch, d->layer.x_row);
}

static int64_t context_index(const support_layer_data *d, int64_t b, int64_t row) {
    return row_start(d->l, d->heads.kv_offsets, b, row, d->layer.context_batch, d->layer.context_row);
}

static int64_t y_index(const support_layer_data *d, int64_t b, int64_t row) {
    return row_start(d->l, d->heads.q_offsets, b, row, d->layer.y_batch, d->layer.y_row);
}

/* Row `row` of a member's x or context, the same numbers whatever the buffer looks like. */
static void fill_row(support_layer_data *d, int array, int64_t at, int64_t b, int64_t row, int64_t cols) {
    size_t size = d->dtype == ATTN_F32 ? sizeof(float) : sizeof(double);
    uint64_t stream = STREAM_LAYER + (uint64_t)array + 100 * (uint64_t)(b + 1);
    support_fill_normal(d->dtype, (char *)d->array[array] + (size_t)at * size, cols, d->l->heads->seed, stream,
                        (uint64_t)(row * cols), 1);
}

static void fill_weight(support_layer_data *d, int w) {
    const support_layer *l = d->l;
    weight_shape shape = shape_of(l, w);
    weight_place place = place_of(l, w);
    uint64_t stream = STREAM_LAYER + SUPPORT_LAYER_W + (uint64_t)w;
    double factor = 1 / sqrt((double)(shape.in > 0 ? shape.in : 1));
    double *row = malloc((size_t)(shape.out > 0 ? shape.out : 1) * sizeof *row);
    for (int64_t i = 0; row != NULL && i < shape.in; i++) {
        support_fill_normal(ATTN_F64, row, shape.out, l->heads->seed, stream, (uint64_t)(i * shape.out), factor);
        for (int64_t o = 0; o < shape.out; o++)
            support_store(d->dtype, d->array[SUPPORT_LAYER_W + place.matrix], weight_index(l, w, i, o), row[o]);
    }
    free(row);
    for (int64_t o = 0; l->bias && o < shape.out; o++)
        support_store(d->dtype, d->array[SUPPORT_LAYER_B + place.matrix], place.first + o,
                      FACTOR_BIAS * support_random_normal(l->heads->seed, stream + 50, (uint64_t)o));
}

static void fill_all(support_layer_data *d) {
    const support_layer *l = d->l;
    for (int64_t b = 0; b < l->heads->problem.batch; b++) {
        for (int64_t row = 0; row < x_rows(l, b); row++)
            fill_row(d, SUPPORT_LAYER_X, x_index(d, b, row), b, row, l->d_model);
        for (int64_t row = 0; l->cross && row < support_layer_new_keys(l, b); row++)
            fill_row(d, SUPPORT_LAYER_CONTEXT, context_index(d, b, row), b, row, l->d_context);
    }
    for (int w = 0; w < 4; w++)
        fill_weight(d, w);
    for (int array = SUPPORT_LAYER_PAST_K; l->cached && array <= SUPPORT_LAYER_PAST_V; array++)
        support_fill_normal(d->dtype, d->array[array], d->elements[array], l->heads->seed,
                            STREAM_LAYER + (uint64_t)array, 0, 1);
}

/* The lengths as the layer wants them: NULL where they are full. */
static bool copy_lengths(support_layer_data *d) {
    const support_case *c = d->l->heads;
    int64_t batch = c->problem.batch;
    size_t bytes = (size_t)(batch > 0 ? batch : 1) * sizeof(int64_t);
    if (is_ragged(d->l))
        return true;
    if (c->q_lens != NULL) {
        d->q_lens = malloc(bytes);
        if (d->q_lens == NULL)
            return false;
        memcpy(d->q_lens, c->q_lens, (size_t)batch * sizeof(int64_t));
    }
    if (c->kv_lens != NULL) {
        d->kv_lens = malloc(bytes);
        if (d->kv_lens == NULL)
            return false;
        for (int64_t b = 0; b < batch; b++)
            d->kv_lens[b] = c->kv_lens[b] - d->l->past;
    }
    return true;
}

#define FILL_LAYER_ARGS(args, head_args, d, from)                                                                      \
    do {                                                                                                               \
        (head_args) = (from);                                                                                          \
        (head_args).q = (head_args).k = (head_args).v = NULL;                                                          \
        (head_args).out = NULL;                                                                                        \
        (head_args).q_lens = (d)->q_lens;                                                                              \
        (head_args).kv_lens = (d)->kv_lens;                                                                            \
        if (!(d)->l->cross)                                                                                            \
            (head_args).kv_offsets = NULL;                                                                             \
        (args).struct_size = sizeof(args);                                                                             \
        (args).x = (d)->array[SUPPORT_LAYER_X];                                                                        \
        (args).context = (d)->array[SUPPORT_LAYER_CONTEXT];                                                            \
        (args).w_q = (d)->array[SUPPORT_LAYER_W];                                                                      \
        (args).w_k = (d)->array[SUPPORT_LAYER_W + 1];                                                                  \
        (args).w_v = (d)->array[SUPPORT_LAYER_W + 2];                                                                  \
        (args).w_o = (d)->array[SUPPORT_LAYER_W + 3];                                                                  \
        (args).b_q = (d)->array[SUPPORT_LAYER_B];                                                                      \
        (args).b_k = (d)->array[SUPPORT_LAYER_B + 1];                                                                  \
        (args).b_v = (d)->array[SUPPORT_LAYER_B + 2];                                                                  \
        (args).b_o = (d)->array[SUPPORT_LAYER_B + 3];                                                                  \
        (args).y = (d)->array[SUPPORT_LAYER_Y];                                                                        \
        (args).attention = &(head_args);                                                                               \
    } while (0)

bool support_layer_data_create(support_layer_data *d, const support_layer *l, attn_dtype dtype) {
    memset(d, 0, sizeof *d);
    d->l = l;
    d->dtype = dtype;
    if (!support_data_create(&d->heads, l->heads, dtype))
        return false;
    set_layer(d);
    if (!allocate_all(d) || !copy_lengths(d)) {
        support_layer_data_destroy(d);
        return false;
    }
    fill_all(d);
    if (dtype == ATTN_F32)
        FILL_LAYER_ARGS(d->args32, d->heads32, d, d->heads.args32);
    else
        FILL_LAYER_ARGS(d->args64, d->heads64, d, d->heads.args64);
    return true;
}

void support_layer_data_destroy(support_layer_data *d) {
    for (int array = 0; array < SUPPORT_LAYER_ARRAYS; array++)
        free(d->array[array]);
    free(d->q_lens);
    free(d->kv_lens);
    support_data_destroy(&d->heads);
    memset(d, 0, sizeof *d);
}

void support_layer_poison_outputs(support_layer_data *d) {
    size_t size = d->dtype == ATTN_F32 ? sizeof(float) : sizeof(double);
    if (d->array[SUPPORT_LAYER_Y] != NULL)
        memset(d->array[SUPPORT_LAYER_Y], 0xff, (size_t)d->elements[SUPPORT_LAYER_Y] * size);
    support_data_poison_outputs(&d->heads);
}

/* ---- Oracle ------------------------------------------------------------------------------------------------------ */

/* Row `at` of x or context times a weight, and its bias. */
static void project_row(const support_layer_data *d, int weight, int array, int64_t at, long double *result) {
    weight_shape shape = shape_of(d->l, weight);
    weight_view w = view_of(d, weight);
    for (int64_t o = 0; o < shape.out; o++)
        result[o] = get_bias(d, weight, o);
    for (int64_t i = 0; i < shape.in; i++) {
        long double x = support_load(d->dtype, d->array[array], at + i);
        for (int64_t o = 0; o < shape.out; o++)
            result[o] += x * get_weight(d, &w, i, o);
    }
}

static void turn_head(const support_layer *l, int64_t position, long double *head) {
    int64_t half = l->rotary_dim / 2;
    for (int64_t k = 0; k < half; k++) {
        bool interleaved = l->pairing == ATTN_ROTARY_INTERLEAVED;
        long double *a = &head[interleaved ? 2 * k : k], *b = &head[interleaved ? 2 * k + 1 : half + k];
        long double angle = (long double)position * powl(10000, -2.0L * (long double)k / (long double)l->rotary_dim);
        long double turned = *a * cosl(angle) - *b * sinl(angle);
        *b = *b * cosl(angle) + *a * sinl(angle);
        *a = turned;
    }
}

/* The largest root of the sum of squared terms of an element of V: by chance it may be much smaller than its terms. */
static long double size_of_values(const support_layer_data *d, int from, int64_t at) {
    weight_shape shape = shape_of(d->l, 2);
    weight_view w = view_of(d, 2);
    long double largest = 0;
    for (int64_t o = 0; o < shape.out; o++) {
        long double sum = 0;
        for (int64_t i = 0; i < shape.in; i++) {
            long double term = support_load(d->dtype, d->array[from], at + i) * get_weight(d, &w, i, o);
            sum += term * term;
        }
        largest = fmaxl(largest, sqrtl(sum));
    }
    return largest;
}

/* Projects a row and puts its heads into an array of `to`, at row `row` of member b. */
static void put_heads(const support_layer_data *d, support_data *to, support_array array, int weight, int64_t b,
                      int64_t row, int from, int64_t at, int64_t position, long double *scratch) {
    const attn_problem *p = &d->l->heads->problem;
    int64_t heads = array == SUPPORT_Q ? p->q_heads : p->kv_heads;
    int64_t size = array == SUPPORT_V ? p->v_dim : p->head_dim;
    project_row(d, weight, from, at, scratch);
    for (int64_t h = 0; h < heads; h++) {
        if (array != SUPPORT_V && d->l->pairing != 0)
            turn_head(d->l, position, scratch + h * size);
        for (int64_t c = 0; c < size; c++)
            support_set(to, array, b, h, row, c, (double)scratch[h * size + c]);
    }
}

static void put_past(const support_layer_data *d, support_data *to, int64_t b) {
    const support_layer *l = d->l;
    const attn_problem *p = &l->heads->problem;
    for (int64_t h = 0; h < p->kv_heads; h++)
        for (int64_t row = 0; row < l->past; row++) {
            int64_t at = (b * p->kv_heads + h) * l->past + row;
            for (int64_t c = 0; c < p->head_dim; c++)
                support_set(to, SUPPORT_K, b, h, row, c,
                            support_load(d->dtype, d->array[SUPPORT_LAYER_PAST_K], at * p->head_dim + c));
            for (int64_t c = 0; c < p->v_dim; c++)
                support_set(to, SUPPORT_V, b, h, row, c,
                            support_load(d->dtype, d->array[SUPPORT_LAYER_PAST_V], at * p->v_dim + c));
        }
}

/* The heads' problem with Q, K and V of the layer, and the numbers of all other inputs, in double. value_size: [batch,
 * keys], see size_of_values(); the past has none. */
static void fill_heads(const support_layer_data *d, support_data *to, long double *scratch, long double *value_size) {
    const support_layer *l = d->l;
    static const support_array copied[] = {SUPPORT_BIAS, SUPPORT_ALIBI, SUPPORT_SINK};
    for (int i = 0; i < 3; i++)
        for (int64_t n = 0; support_has(to, copied[i]) && n < to->elements[copied[i]]; n++)
            support_store(ATTN_F64, to->base[copied[i]], n, support_load(d->dtype, d->heads.base[copied[i]], n));
    for (int64_t b = 0; b < l->heads->problem.batch; b++) {
        for (int64_t row = 0; row < support_layer_q_len(l, b); row++)
            put_heads(d, to, SUPPORT_Q, 0, b, row, SUPPORT_LAYER_X, x_index(d, b, row),
                      l->start + row + (l->cross ? 0 : l->past), scratch);
        put_past(d, to, b);
        for (int64_t row = 0; row < support_layer_new_keys(l, b); row++) {
            int from = l->cross ? SUPPORT_LAYER_CONTEXT : SUPPORT_LAYER_X;
            int64_t at = l->cross ? context_index(d, b, row) : x_index(d, b, row);
            put_heads(d, to, SUPPORT_K, 1, b, l->past + row, from, at, l->start + l->past + row, scratch);
            put_heads(d, to, SUPPORT_V, 2, b, l->past + row, from, at, 0, scratch);
            value_size[b * l->heads->problem.kv_len + l->past + row] = size_of_values(d, from, at);
        }
    }
}

/* What one row of y is compared with. */
typedef struct layer_row {
    support_row *head;
    long double *z, *value, *tolerance, *head_tolerance;
    long double *value_size; /* of all members and keys */
    bool plain;              /* every number of Z is one */
} layer_row;

static void compare_head(const support_layer_data *d, int64_t b, int64_t h, int64_t i, layer_row *row,
                         support_report *report) {
    const attn_problem *p = &d->l->heads->problem;
    int64_t d_in = d->l->cross && d->l->d_context > d->l->d_model ? d->l->d_context : d->l->d_model;
    long double factor = fmaxl(1.5L, 0.45L * sqrtl((long double)p->head_dim));
    long double scaled =
        (1 + sqrtl((long double)d_in) / 4) * (3 + factor * row->head->max_score) * (long double)support_eps(d->dtype);
    int64_t place = (b * p->q_heads + h) * p->q_len + i;
    if (support_has(&d->heads, SUPPORT_LSE) && row->head->lse_expect == SUPPORT_EXPECT_NUMBER) {
        double lse = support_get(&d->heads, SUPPORT_LSE, b, h, i, 0);
        long double tolerance = scaled * fmaxl(1, fabsl(row->head->lse));
        double stored[1];
        float stored32[1] = {(float)lse};
        stored[0] = lse;
        support_compare_row(report, "lse", place, d->dtype, 1, d->dtype == ATTN_F32 ? (void *)stored32 : stored,
                            &row->head->lse, &tolerance);
    }
    for (int64_t j = 0; support_has(&d->heads, SUPPORT_WEIGHTS) && j < p->kv_len; j++)
        row->head_tolerance[j] = row->head->weights_expect[j] == SUPPORT_EXPECT_NUMBER ? scaled : 0;
    if (support_has(&d->heads, SUPPORT_WEIGHTS)) {
        size_t size = d->dtype == ATTN_F32 ? sizeof(float) : sizeof(double);
        support_compare_row(report, "weights", place, d->dtype, p->kv_len,
                            (char *)d->heads.base[SUPPORT_WEIGHTS] +
                                (size_t)support_index(&d->heads, SUPPORT_WEIGHTS, b, h, i, 0) * size,
                            row->head->weights, row->head_tolerance);
    }
}

static void compare_y(const support_layer_data *d, const support_data *heads, int64_t b, int64_t i, layer_row *row,
                      support_report *report) {
    const support_layer *l = d->l;
    const attn_problem *p = &l->heads->problem;
    long double max_score = 0, max_value = 0;
    int64_t d_in = l->cross && l->d_context > l->d_model ? l->d_context : l->d_model;
    row->plain = true;
    for (int64_t h = 0; h < p->q_heads; h++) {
        support_oracle_row(heads, b, h, i, row->head);
        for (int64_t c = 0; c < p->v_dim; c++) {
            row->z[h * p->v_dim + c] = row->head->out[c];
            row->plain &= row->head->out_expect[c] <= SUPPORT_EXPECT_EXACT;
        }
        max_score = fmaxl(max_score, row->head->max_score);
        max_value = fmaxl(max_value, row->head->max_value);
        for (int64_t j = 0; j < support_case_kv_len(l->heads, b); j++)
            if (row->value_size[b * p->kv_len + j] > max_value && support_oracle_sees(heads, b, h, i, j))
                max_value = row->value_size[b * p->kv_len + j];
        compare_head(d, b, h, i, row, report);
    }
    if (!row->plain)
        return;
    long double n_z = (long double)(p->q_heads * p->v_dim), eps = (long double)support_eps(d->dtype);
    long double g = fmaxl(1.5L, 0.45L * sqrtl((long double)p->head_dim));
    long double scaled = (1 + (sqrtl((long double)d_in) + sqrtl(n_z)) / 4) * (3 + g * max_score) * eps * max_value;
    weight_view w_o = view_of(d, 3);
    for (int64_t o = 0; o < l->d_out; o++) {
        long double norm = 0;
        row->value[o] = get_bias(d, 3, o);
        for (int64_t c = 0; c < p->q_heads * p->v_dim; c++) {
            long double w = get_weight(d, &w_o, c, o);
            row->value[o] += row->z[c] * w;
            norm += w * w;
        }
        row->tolerance[o] = scaled * sqrtl(norm) + eps * fabsl(get_bias(d, 3, o));
        long double error =
            fabsl(support_load(d->dtype, d->array[SUPPORT_LAYER_Y], y_index(d, b, i) + o) - row->value[o]);
        if (max_value > 0 && norm > 0)
            report->error_eps = fmax(report->error_eps, (double)(error / (eps * max_value * sqrtl(norm))));
    }
    size_t size = d->dtype == ATTN_F32 ? sizeof(float) : sizeof(double);
    support_compare_row(report, "y", b * p->q_len + i, d->dtype, l->d_out,
                        (char *)d->array[SUPPORT_LAYER_Y] + (size_t)y_index(d, b, i) * size, row->value,
                        row->tolerance);
}

/* Rows beyond a member's length are 0. */
static void compare_padding(const support_layer_data *d, int64_t b, int64_t i, layer_row *row, support_report *report) {
    size_t size = d->dtype == ATTN_F32 ? sizeof(float) : sizeof(double);
    for (int64_t o = 0; o < d->l->d_out; o++)
        row->value[o] = row->tolerance[o] = 0;
    support_compare_row(report, "y", b * x_len(d->l) + i, d->dtype, d->l->d_out,
                        (char *)d->array[SUPPORT_LAYER_Y] + (size_t)y_index(d, b, i) * size, row->value,
                        row->tolerance);
}

static long double *numbers(int64_t count) {
    return calloc((size_t)(count > 0 ? count : 1), sizeof(long double));
}

bool support_layer_verify(const support_layer_data *d, support_report *report) {
    const support_layer *l = d->l;
    const attn_problem *p = &l->heads->problem;
    support_data heads;
    int64_t widest = p->q_heads * p->head_dim + p->kv_heads * p->v_dim;
    long double *scratch = numbers(widest);
    layer_row row = {
        .head = support_row_create(l->heads),
        .z = numbers(p->q_heads * p->v_dim),
        .value = numbers(l->d_out),
        .tolerance = numbers(l->d_out),
        .head_tolerance = numbers(p->kv_len),
        .value_size = numbers(p->batch * p->kv_len),
    };
    bool created = support_data_create(&heads, l->heads, ATTN_F64);
    support_report_begin(report);
    if (created && scratch != NULL && row.head != NULL && row.z != NULL && row.value != NULL && row.tolerance != NULL &&
        row.head_tolerance != NULL && row.value_size != NULL) {
        fill_heads(d, &heads, scratch, row.value_size);
        for (int64_t b = 0; b < p->batch; b++) {
            int64_t rows = support_layer_q_len(l, b);
            for (int64_t i = 0; i < rows; i++)
                compare_y(d, &heads, b, i, &row, report);
            for (int64_t i = rows; !is_ragged(l) && i < p->q_len; i++)
                compare_padding(d, b, i, &row, report);
        }
    } else {
        report->failures++;
    }
    if (created)
        support_data_destroy(&heads);
    if (row.head != NULL)
        support_row_free(row.head);
    free(scratch);
    free(row.z);
    free(row.value);
    free(row.tolerance);
    free(row.head_tolerance);
    free(row.value_size);
    return support_report_end(report, "layer");
}
