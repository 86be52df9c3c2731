/* The oracle: the rules of attention and of the chain's stages written out in long double, one row at a time. */
#include "oracle.h"

#include <math.h>
#include <stdlib.h>

/* A key whose score is this far below the maximum adds less than the rounding error of a double: its own rounding error
 * does not matter. */
#define NEGLIGIBLE_DISTANCE 50.0L

/* Positions and distances: sums of two or three int64. */
__extension__ typedef __int128 wide;

bool support_is_inf(long double x) {
    return isinf((double)x);
}

bool support_is_finite(long double x) {
    return isfinite((double)x);
}

static bool is_minus_inf(long double x) {
    return support_is_inf(x) && x < 0;
}

/* fmaxl(), which is a call: this is done for every number that the oracle reads. */
static long double larger(long double a, long double b) {
    return a >= b || isnan(b) ? a : b;
}

static long double exponential(long double x) {
    return is_minus_inf(x) ? 0 : expl(x);
}

support_row *support_row_create(const support_case *c) {
    size_t keys = (size_t)c->problem.kv_len + 1, cols = (size_t)c->problem.v_dim + 1;
    support_row *row = calloc(1, sizeof *row);
    if (!row) {
        return NULL;
    }
    row->out = malloc(cols * sizeof *row->out);
    row->out_expect = malloc(cols * sizeof *row->out_expect);
    long double **numbers[] = {&row->scores, &row->capped,           &row->masked,           &row->weights,
                               &row->sizes,  &row->scores_magnitude, &row->capped_magnitude, &row->masked_magnitude};
    support_expect **expects[] = {&row->scores_expect, &row->capped_expect, &row->masked_expect, &row->weights_expect};
    bool complete = row->out && row->out_expect;
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        *numbers[i] = malloc(keys * sizeof **numbers[i]);
        complete = complete && *numbers[i];
    }
    for (int i = 0; i < 4; i++) {
        *expects[i] = malloc(keys * sizeof **expects[i]);
        complete = complete && *expects[i];
    }
    if (!complete) {
        support_row_free(row);
        return NULL;
    }
    return row;
}

void support_row_free(support_row *row) {
    if (row) {
        free(row->out);
        free(row->out_expect);
        free(row->scores);
        free(row->scores_expect);
        free(row->capped);
        free(row->capped_expect);
        free(row->masked);
        free(row->masked_expect);
        free(row->weights);
        free(row->weights_expect);
        free(row->sizes);
        free(row->scores_magnitude);
        free(row->capped_magnitude);
        free(row->masked_magnitude);
        free(row);
    }
}

/* ---- Visibility ---------------------------------------------------------------------------------------------- */

/* The position of query i of member b among the keys. */
static wide position(const support_case *c, int64_t b, int64_t i) {
    switch (c->problem.alignment) {
    case ATTN_ALIGN_BOTTOM_RIGHT:
        return (wide)i + support_case_kv_len(c, b) - support_case_q_len(c, b);
    case ATTN_ALIGN_OFFSET:
        return (wide)i + c->problem.offset;
    default:
        return i;
    }
}

/* Step 4: the intersection of lengths, causal, window, boolean mask, and of a bias of -Inf or too short. */
bool support_oracle_sees(const support_data *d, int64_t b, int64_t h, int64_t i, int64_t j) {
    const support_case *c = d->problem_case;
    const attn_problem *p = &c->problem;
    wide at = position(c, b, i);
    if (i >= support_case_q_len(c, b) || j >= support_case_kv_len(c, b)) {
        return false;
    }
    if ((p->flags & ATTN_CAUSAL) && j > at) {
        return false;
    }
    if (p->flags & ATTN_HAS_WINDOW) {
        if (p->window_left >= 0 && j < at - p->window_left) {
            return false;
        }
        if (p->window_right >= 0 && j > at + p->window_right) {
            return false;
        }
    }
    if (p->flags & ATTN_HAS_MASK) {
        if ((p->flags & ATTN_HAS_MASK_LEN) && j >= p->mask_len) {
            return false;
        }
        if (support_get(d, SUPPORT_MASK, b, h, i, j) == 0) {
            return false;
        }
    }
    if (p->flags & ATTN_HAS_BIAS) {
        if ((p->flags & ATTN_HAS_BIAS_LEN) && j >= p->bias_len) {
            return false;
        }
        if (support_get(d, SUPPORT_BIAS, b, h, i, j) == -INFINITY) {
            return false;
        }
    }
    return true;
}

/* ---- Scores, steps 1 to 3 ------------------------------------------------------------------------------------ */

static long double in_precision(attn_dtype dtype, long double x) {
    return dtype == ATTN_F32 ? (long double)(float)x : (long double)(double)x;
}

static long double largest_finite(attn_dtype dtype) {
    return dtype == ATTN_F32 ? 0x1.fffffep127L : 0x1.fffffffffffffp1023L;
}

/* x[0..n-1] of the precision. */
static const void *at(attn_dtype dtype, const void *x, int64_t n) {
    return dtype == ATTN_F32 ? (const void *)((const float *)x + n) : (const void *)((const double *)x + n);
}

typedef struct dot_product {
    long double sum;
    long double magnitude; /* sum of |x y| */
    long double typical;   /* sqrt of the sum of (x y)^2: its size but for chance cancellation */
} dot_product;

static dot_product dot(attn_dtype dtype, int64_t n, const void *x, const void *y, int64_t y_stride) {
    dot_product result = {0, 0, 0};
    long double squares = 0;
    for (int64_t c = 0; c < n; c++) {
        long double product = (long double)support_load(dtype, x, c) * support_load(dtype, y, c * y_stride);
        result.sum += product;
        result.magnitude += fabsl(product);
        squares += product * product;
    }
    result.typical = sqrtl(squares);
    return result;
}

static support_expect expect_of(long double x) {
    return isnan(x) ? SUPPORT_EXPECT_NAN : support_is_inf(x) ? SUPPORT_EXPECT_EXACT : SUPPORT_EXPECT_NUMBER;
}

/* Raises the sizes of key j to at least |x|. */
static void raise_sizes(support_row *row, int64_t j, long double x) {
    row->sizes[j] = larger(row->sizes[j], fabsl(x));
    row->masked_magnitude[j] = larger(row->masked_magnitude[j], fabsl(x));
}

static void multiply_sizes(support_row *row, int64_t j, long double factor) {
    row->sizes[j] *= factor;
    row->masked_magnitude[j] *= factor;
}

/* Scores of key j after steps 1, 2, 3 into row, with their sizes. */
static void score_key(const support_data *d, int64_t b, int64_t h, int64_t i, int64_t j, support_row *row) {
    const support_case *c = d->problem_case;
    const attn_problem *p = &c->problem;
    long double scale = (p->flags & ATTN_HAS_SCALE) ? (long double)p->scale : 1 / sqrtl((long double)p->head_dim);
    scale = in_precision(d->dtype, scale);

    /* 1. s = scale * (q . k); scale 0 reads nothing. */
    long double score = 0;
    bool unspecified = false;
    row->sizes[j] = row->masked_magnitude[j] = 0;
    if (scale != 0) {
        int64_t kv_head = h / (p->q_heads / p->kv_heads);
        const void *q = at(d->dtype, d->base[SUPPORT_Q], support_index(d, SUPPORT_Q, b, h, i, 0));
        const void *k = at(d->dtype, d->base[SUPPORT_K], support_index(d, SUPPORT_K, b, kv_head, j, 0));
        dot_product qk = dot(d->dtype, p->head_dim, q, k, 1);
        score = scale * qk.sum;
        row->sizes[j] = larger(fabsl(score), fabsl(scale) * qk.typical);
        row->masked_magnitude[j] = fabsl(scale) * qk.magnitude;
        unspecified = support_is_finite(qk.magnitude) &&
                      (qk.magnitude > largest_finite(d->dtype) || fabsl(score) > largest_finite(d->dtype));
    }
    row->scores[j] = score;
    row->scores_magnitude[j] = row->masked_magnitude[j];
    row->scores_expect[j] = scale == 0 ? SUPPORT_EXPECT_EXACT : expect_of(score);

    /* 2. softcap. Its slope takes the errors of step 1 down. */
    if (p->flags & ATTN_HAS_SOFTCAP && p->softcap > 0) {
        long double cap = in_precision(d->dtype, p->softcap);
        long double bend = tanhl(score / cap);
        score = cap * bend;
        multiply_sizes(row, j, 1 - bend * bend);
        raise_sizes(row, j, score);
    }
    row->capped[j] = score;
    row->capped_magnitude[j] = row->masked_magnitude[j];
    row->capped_expect[j] = scale == 0 ? SUPPORT_EXPECT_EXACT : expect_of(score);

    /* 3. additive terms. A bias that swallows the score is exact in every precision. */
    long double before = score;
    if ((p->flags & ATTN_HAS_BIAS) && !((p->flags & ATTN_HAS_BIAS_LEN) && j >= p->bias_len)) {
        long double bias = support_get(d, SUPPORT_BIAS, b, h, i, j);
        score += bias;
        if (score == bias && before != 0) {
            multiply_sizes(row, j, 0);
        } else {
            raise_sizes(row, j, score);
            raise_sizes(row, j, bias);
        }
    }
    if (p->flags & ATTN_HAS_ALIBI) {
        wide distance = position(c, b, i) - j;
        long double slope = support_get(d, SUPPORT_ALIBI, b, h, 0, 0);
        long double term = -slope * (long double)(distance < 0 ? -distance : distance);
        before = score;
        score += term;
        if (score != before) {
            raise_sizes(row, j, score);
            raise_sizes(row, j, term);
        }
    }
    row->masked[j] = score;
    row->masked_expect[j] = expect_of(score);
    if (unspecified) {
        row->scores_expect[j] = row->capped_expect[j] = row->masked_expect[j] = SUPPORT_EXPECT_ANYTHING;
    }
}

/* ---- Rows ---------------------------------------------------------------------------------------------------- */

static void set_out(support_row *row, int64_t v_dim, long double value, support_expect expect) {
    for (int64_t c = 0; c < v_dim; c++) {
        row->out[c] = value;
        row->out_expect[c] = expect;
    }
}

/* Cells that the member does not have: scores -Inf, weight 0. */
static void set_absent(support_row *row, int64_t j) {
    row->scores[j] = row->capped[j] = row->masked[j] = -INFINITY;
    row->weights[j] = 0;
    row->sizes[j] = row->scores_magnitude[j] = row->capped_magnitude[j] = row->masked_magnitude[j] = 0;
    row->scores_expect[j] = row->capped_expect[j] = row->masked_expect[j] = SUPPORT_EXPECT_EXACT;
    row->weights_expect[j] = SUPPORT_EXPECT_EXACT;
}

/* Steps 1 to 4 of all keys of the member. Weights become 0; hidden keys get the score -Inf. Sets visible;
 * returns what is expected of the row: NUMBER, NAN or ANYTHING. */
static support_expect score_row(const support_data *d, int64_t b, int64_t h, int64_t i, int64_t keys,
                                support_row *row) {
    support_expect expect = SUPPORT_EXPECT_NUMBER;
    for (int64_t j = 0; j < keys; j++) {
        score_key(d, b, h, i, j, row);
        row->weights[j] = 0;
        row->weights_expect[j] = SUPPORT_EXPECT_NUMBER;
        bool seen = support_oracle_sees(d, b, h, i, j);
        if (seen && row->masked_expect[j] == SUPPORT_EXPECT_ANYTHING) {
            expect = SUPPORT_EXPECT_ANYTHING;
        }
        if (!seen || (is_minus_inf(row->masked[j]) && row->masked_expect[j] != SUPPORT_EXPECT_ANYTHING)) {
            row->masked[j] = -INFINITY;
            row->masked_expect[j] = SUPPORT_EXPECT_EXACT;
            row->weights_expect[j] = SUPPORT_EXPECT_EXACT;
            continue;
        }
        row->visible++;
        if (expect == SUPPORT_EXPECT_NUMBER && !support_is_finite(row->masked[j])) {
            expect = SUPPORT_EXPECT_NAN;
        }
    }
    return expect;
}

/* The largest score of the visible keys. */
static long double row_maximum(const support_row *row, int64_t keys) {
    long double max = -INFINITY;
    for (int64_t j = 0; j < keys; j++) {
        if (row->weights_expect[j] == SUPPORT_EXPECT_NUMBER && row->masked[j] > max) {
            max = row->masked[j];
        }
    }
    return max;
}

/* A row that is NaN (or unspecified) as a whole; weights of hidden keys may be 0 or NaN then. */
static void set_whole_row(support_row *row, int64_t keys, int64_t v_dim, support_expect expect) {
    set_out(row, v_dim, NAN, expect);
    row->lse = NAN;
    row->lse_expect = expect;
    for (int64_t j = 0; j < keys; j++) {
        bool visible = row->weights_expect[j] == SUPPORT_EXPECT_NUMBER;
        row->weights[j] = NAN;
        row->weights_expect[j] = visible ? expect : SUPPORT_EXPECT_ANYTHING;
    }
}

/* Step 6: the weighted sums, and what a non-finite V does to them. */
static void combine(const support_data *d, int64_t b, int64_t kv_head, int64_t keys, support_row *row) {
    int64_t v_dim = d->problem_case->problem.v_dim;
    double largest = 0; /* of the values; in a variable of its own, which the loop of most of the oracle's time keeps */
    set_out(row, v_dim, 0, SUPPORT_EXPECT_NUMBER);
    for (int64_t j = 0; j < keys; j++) {
        if (row->weights_expect[j] != SUPPORT_EXPECT_NUMBER) {
            continue;
        }
        const void *values = at(d->dtype, d->base[SUPPORT_V], support_index(d, SUPPORT_V, b, kv_head, j, 0));
        long double weight = row->weights[j];
        for (int64_t c = 0; c < v_dim; c++) {
            double v = support_load(d->dtype, values, c);
            if (isfinite(v)) {
                row->out[c] += weight * v;
                largest = fabs(v) > largest ? fabs(v) : largest;
            } else if (isnan(v)) {
                row->out_expect[c] = SUPPORT_EXPECT_NAN;
            } else if (row->out_expect[c] != SUPPORT_EXPECT_NAN) {
                row->out_expect[c] = SUPPORT_EXPECT_NONFINITE;
            }
        }
    }
    row->max_value = larger(row->max_value, largest);
    for (int64_t c = 0; c < v_dim; c++) {
        if (row->out_expect[c] != SUPPORT_EXPECT_NUMBER) {
            row->out[c] = NAN;
        }
    }
}

void support_oracle_row(const support_data *d, int64_t b, int64_t h, int64_t i, support_row *row) {
    const support_case *c = d->problem_case;
    const attn_problem *p = &c->problem;
    bool present = i < support_case_q_len(c, b);
    int64_t keys = present ? support_case_kv_len(c, b) : 0;
    row->visible = 0;
    row->max_score = row->max_magnitude = row->max_value = 0;
    for (int64_t j = keys; j < p->kv_len; j++) {
        set_absent(row, j);
    }
    support_expect expect = score_row(d, b, h, i, keys, row);
    if (row->visible == 0) {
        set_out(row, p->v_dim, 0, SUPPORT_EXPECT_EXACT);
        row->lse = -INFINITY;
        row->lse_expect = SUPPORT_EXPECT_EXACT;
        return;
    }
    if (expect != SUPPORT_EXPECT_NUMBER) {
        set_whole_row(row, keys, p->v_dim, expect);
        return;
    }

    /* 5. softmax over the visible keys; the sink takes part in the denominator only. */
    long double max = row_maximum(row, keys);
    bool has_sink = (p->flags & ATTN_HAS_SINK) != 0;
    long double sink = has_sink ? (long double)support_get(d, SUPPORT_SINK, 0, h, 0, 0) : (long double)-INFINITY;
    long double top = larger(max, sink);
    row->max_score = row->max_magnitude = support_is_finite(sink) ? fabsl(sink) : 0;
    long double sum_max = 0, sum_top = 0;
    for (int64_t j = 0; j < keys; j++) {
        if (row->weights_expect[j] == SUPPORT_EXPECT_NUMBER) {
            if (row->masked[j] > max - NEGLIGIBLE_DISTANCE) {
                row->max_score = larger(row->max_score, row->sizes[j]);
                row->max_magnitude = larger(row->max_magnitude, row->masked_magnitude[j]);
            }
            row->weights[j] = exponential(row->masked[j] - top);
            sum_top += row->weights[j];
            sum_max += top == max ? row->weights[j] : exponential(row->masked[j] - max);
        }
    }
    sum_top += exponential(sink - top);
    for (int64_t j = 0; j < keys; j++) {
        row->weights[j] /= sum_top;
    }

    /* 6. the weighted sum of the values; lse without the sink. */
    row->lse = max + logl(sum_max);
    row->lse_expect = SUPPORT_EXPECT_NUMBER;
    int64_t kv_head = h / (p->q_heads / p->kv_heads);
    combine(d, b, kv_head, keys, row);
}

/* ---- Stages of the chain ------------------------------------------------------------------------------------- */

void support_oracle_sinusoidal(int64_t pos, int64_t d_model, double base, long double *p) {
    for (int64_t c = 0; c < d_model; c++) {
        long double pair = (long double)(c / 2 * 2);
        long double angle = (long double)pos / powl(base, pair / (long double)d_model);
        p[c] = c % 2 == 0 ? sinl(angle) : cosl(angle);
    }
}

void support_oracle_embed(attn_dtype dtype, int64_t d_model, const void *table, int64_t table_stride, int64_t id,
                          long double *e) {
    for (int64_t c = 0; c < d_model; c++) {
        e[c] = support_load(dtype, table, id * table_stride + c);
    }
}

void support_oracle_project(attn_dtype dtype, int64_t d_in, int64_t d_out, const void *x, const void *w,
                            int64_t w_stride, const void *bias, long double *y, long double *magnitude) {
    for (int64_t j = 0; j < d_out; j++) {
        dot_product xw = dot(dtype, d_in, x, at(dtype, w, j), w_stride);
        long double term = bias ? (long double)support_load(dtype, bias, j) : 0;
        y[j] = xw.sum + term;
        if (magnitude) {
            magnitude[j] = xw.magnitude + fabsl(term);
        }
    }
}

void support_oracle_scores(attn_dtype dtype, int64_t kv_len, int64_t head_dim, const void *q, const void *k,
                           int64_t k_stride, double scale, long double *s, long double *magnitude) {
    long double factor = in_precision(dtype, scale);
    for (int64_t j = 0; j < kv_len; j++) {
        dot_product qk = {0, 0, 0};
        if (factor != 0) {
            qk = dot(dtype, head_dim, q, at(dtype, k, j * k_stride), 1);
        }
        s[j] = factor == 0 ? 0 : factor * qk.sum;
        if (magnitude) {
            magnitude[j] = fabsl(factor) * qk.magnitude;
        }
    }
}

void support_oracle_softmax(attn_dtype dtype, int64_t cols, const void *s, long double *a) {
    long double max = -INFINITY, sum = 0;
    bool broken = false;
    for (int64_t j = 0; j < cols; j++) {
        long double score = support_load(dtype, s, j);
        broken = broken || isnan(score) || (support_is_inf(score) && score > 0);
        max = larger(max, score);
    }
    for (int64_t j = 0; j < cols; j++) {
        a[j] = broken ? (long double)NAN : is_minus_inf(max) ? 0 : exponential(support_load(dtype, s, j) - max);
        sum += a[j];
    }
    for (int64_t j = 0; j < cols && !is_minus_inf(max); j++) {
        a[j] /= sum;
    }
}

void support_oracle_combine(attn_dtype dtype, int64_t kv_len, int64_t v_dim, const void *a, const void *v,
                            int64_t v_stride, long double *z, long double *magnitude) {
    for (int64_t c = 0; c < v_dim; c++) {
        dot_product av = dot(dtype, kv_len, a, at(dtype, v, c), v_stride);
        z[c] = av.sum;
        if (magnitude) {
            magnitude[c] = av.magnitude;
        }
    }
}

long double support_oracle_alibi_slope(int64_t q_heads, int64_t h) {
    int64_t power = 1;
    while (power <= q_heads / 2) {
        power *= 2;
    }
    if (h < power) {
        return powl(2, -8.0L * (long double)(h + 1) / (long double)power);
    }
    /* The heads beyond the power of two take every other slope of twice as many heads. */
    return powl(2, -8.0L * (long double)(2 * (h - power) + 1) / (long double)(2 * power));
}
