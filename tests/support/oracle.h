/* The oracle: every result in long double from the inputs of a call, one row at a time, the rules of attention written
 * out in full. It shares no code with libattn and is meant to be read beside the rules.
 */
#ifndef ATTN_SUPPORT_ORACLE_H
#define ATTN_SUPPORT_ORACLE_H

#include <stdbool.h>
#include <stdint.h>

#include "data.h"

/* Tests that hold under valgrind too, whose long double has 64 bits: gcc makes `x == INFINITY` a comparison with
 * LDBL_MAX, which is infinite there. Numbers beyond double's range count as infinite. */
bool support_is_inf(long double x);
bool support_is_finite(long double x);

/* What the rules say about one number. */
typedef enum support_expect {
    SUPPORT_EXPECT_NUMBER,    /* the value, within the tolerance; infinities exactly */
    SUPPORT_EXPECT_EXACT,     /* exactly the value: 0 or -Inf */
    SUPPORT_EXPECT_NAN,       /* NaN */
    SUPPORT_EXPECT_NONFINITE, /* Inf or NaN, unspecified which */
    SUPPORT_EXPECT_ANYTHING   /* unspecified: q . k overflows the precision */
} support_expect;

/* One row of results. The arrays are owned by the row: out v_dim long, the others kv_len. */
typedef struct support_row {
    long double *out;
    support_expect *out_expect;
    long double lse;
    support_expect lse_expect;
    long double *scores, *capped, *masked, *weights; /* after steps 1, 2, 3 and 4, 5 */
    support_expect *scores_expect, *capped_expect, *masked_expect, *weights_expect;
    int64_t visible; /* keys with weight: visible, and their score after step 3 is not -Inf */
    /* What the tolerances are made of. A score that is small by chance cancellation is as large as its terms are. */
    long double *sizes; /* per key: |s|, or the root of the sum of its squared terms where that is more */
    /* Per key: |scale| sum |q_c k_c|, taken through the steps like |s|, after steps 1, 2 and 3. */
    long double *scores_magnitude, *capped_magnitude, *masked_magnitude;
    long double max_magnitude; /* largest masked_magnitude over the keys that bear on the row */
    long double max_score;     /* largest size over them: the max|s| of the tolerances */
    long double max_value;     /* max |V| over the visible keys */
} support_row;

/* A row for the sizes of a case; NULL for lack of memory. */
support_row *support_row_create(const support_case *c);
void support_row_free(support_row *row);

/* Row i of query head h of batch member b. i may be at or beyond the member's query length. */
void support_oracle_row(const support_data *d, int64_t b, int64_t h, int64_t i, support_row *row);

/* Visibility of key j for row i by mask, causal, window, lengths and bias of -Inf: all that does not need the scores.
 */
bool support_oracle_sees(const support_data *d, int64_t b, int64_t h, int64_t i, int64_t j);

/* ---- Stages of the chain. x, w, ... are of the precision dtype, strides in elements. ------------------------- */

/* P[pos][0..d_model-1]. */
void support_oracle_sinusoidal(int64_t pos, int64_t d_model, double base, long double *p);

/* e = table[id]. */
void support_oracle_embed(attn_dtype dtype, int64_t d_model, const void *table, int64_t table_stride, int64_t id,
                          long double *e);

/* y = x W + bias for one row x; bias NULL for none. magnitude[j], when not NULL, gets |bias_j| + sum_c |x_c w_cj|. */
void support_oracle_project(attn_dtype dtype, int64_t d_in, int64_t d_out, const void *x, const void *w,
                            int64_t w_stride, const void *bias, long double *y, long double *magnitude);

/* s[j] = scale * q . k_j, scale rounded to the precision, exactly 0 at scale 0. magnitude as above, with |scale|. */
void support_oracle_scores(attn_dtype dtype, int64_t kv_len, int64_t head_dim, const void *q, const void *k,
                           int64_t k_stride, double scale, long double *s, long double *magnitude);

/* a = softmax(s): all 0 for nothing but -Inf, all NaN with a NaN or +Inf. */
void support_oracle_softmax(attn_dtype dtype, int64_t cols, const void *s, long double *a);

/* z = sum_j a_j v_j for one row a. magnitude as above. */
void support_oracle_combine(attn_dtype dtype, int64_t kv_len, int64_t v_dim, const void *a, const void *v,
                            int64_t v_stride, long double *z, long double *magnitude);

/* The slope of ALiBi for query head h of q_heads, as the paper has it. */
long double support_oracle_alibi_slope(int64_t q_heads, int64_t h);

#endif
