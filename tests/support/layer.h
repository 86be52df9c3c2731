/* Layer problems: one line of text for a whole attention layer with its test data, and its oracle in long double.
 *
 *   layer d768h12 b1q1024
 *   layer d768h12/4s64v32c512o640,outin,packed,bias,rope=half:32,cache=1024,past=1000 b2q8,causal,br,seed=7
 *
 * First the layer. Sizes in this order: d d_model, h query heads or query heads/key heads, s head size (default:
 * d_model / query heads), v value size (default: as s), c d_context (cross-attention; default: self-attention), o d_out
 * (default: as d). d and h are needed. Then options, none twice:
 *
 *   outin                   weights are [out, in]
 *   packed                  W_Q | W_K | W_V, in cross-attention W_K | W_V, are one matrix
 *   bias                    all four projections have one
 *   rope=half[:R] | pairs[:R]   rotary positions on the first R elements of a head (default: all)
 *   start=N                 position of row 0
 *   cache=N                 a cache of capacity N; past=N: the keys that each member holds before (default 0)
 *   pad=N                   unused elements after each row of x, context, y and the weights, and after each member
 *
 * After a blank the heads, as in problem_string.h but without h, d and v. q and k count rows of x and of the context;
 * in self-attention k is left out. qlens, kvlens and ragged too. Broadcasts of q, k, v, layout and data do not count.
 */
#ifndef ATTN_SUPPORT_LAYER_H
#define ATTN_SUPPORT_LAYER_H

#include <attn/layer.h>

#include "compare.h"

typedef struct support_layer {
    support_case *heads; /* its keys are all that attention sees in the end, those of the cache too */
    int64_t d_model, d_context, d_out;
    bool out_in, packed, cross, bias;
    attn_rotary_pairing pairing; /* 0 = no rotary positions */
    int64_t rotary_dim, start;
    bool cached;
    int64_t capacity, past;
    int64_t pad;
} support_layer;

/* The layer that a text describes, or NULL with a sentence in error. The word "layer" in front may be left out. */
support_layer *support_layer_parse(const char *text, char *error, size_t error_size);
void support_layer_free(support_layer *l);

/* Rows of x, and new keys, of member b. */
int64_t support_layer_q_len(const support_layer *l, int64_t b);
int64_t support_layer_new_keys(const support_layer *l, int64_t b);

typedef enum support_layer_array {
    SUPPORT_LAYER_X,
    SUPPORT_LAYER_CONTEXT,
    SUPPORT_LAYER_W, /* Q, K, V, O */
    SUPPORT_LAYER_B = SUPPORT_LAYER_W + 4,
    SUPPORT_LAYER_Y = SUPPORT_LAYER_B + 4,
    SUPPORT_LAYER_PAST_K, /* [batch, kv_heads, past, head_dim], dense */
    SUPPORT_LAYER_PAST_V,
    SUPPORT_LAYER_ARRAYS
} support_layer_array;

/* Test data of a layer: arrays exactly as large as they must be, NaN in all places that are not to be read, y poisoned.
 * The caller makes the cache, puts past_k and past_v into it and its address into the args. */
typedef struct support_layer_data {
    const support_layer *l; /* not owned: must outlive the data */
    attn_dtype dtype;
    support_data heads; /* mask, bias, slopes, sink, lse, intermediates, lengths */
    attn_problem problem;
    attn_rotary rotary;
    attn_layer layer; /* complete; points to problem and rotary */
    attn_args_f32 heads32;
    attn_args_f64 heads64;
    attn_layer_args_f32 args32; /* complete but for the cache */
    attn_layer_args_f64 args64;
    int64_t *q_lens, *kv_lens; /* as given to the layer: rows of x, new keys; exact copies */
    void *array[SUPPORT_LAYER_ARRAYS];
    int64_t elements[SUPPORT_LAYER_ARRAYS];
} support_layer_data;

/* False, with d cleared, when there is not enough memory. */
bool support_layer_data_create(support_layer_data *d, const support_layer *l, attn_dtype dtype);
void support_layer_data_destroy(support_layer_data *d);

/* Poisons y, lse and intermediates again. */
void support_layer_poison_outputs(support_layer_data *d);

/* Compares all rows of y, lse and the weights with the oracle: projections and rotary positions in long double, Q, K
 * and V rounded to double, attention as in oracle.h, the last projection in long double. Tolerance of y: layer.h; lse
 * and weights have that of attention alone times 1 + sqrt(d_in) / 4. report->error_eps: the largest error of y in units
 * of eps max|V| |W_O[:, j]|. True unless the verdict is FAILED. */
bool support_layer_verify(const support_layer_data *d, support_report *report);

#endif
