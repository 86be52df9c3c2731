/* The functions that docs/guide.md defines in its code. */
#ifndef GUIDE_H
#define GUIDE_H

#include <attn/attn.h>
#include <stdbool.h>
#include <stdio.h>

attn_status attend(const float *q, const float *k, const float *v, const int64_t *kv_lens, float *out, float *lse);
attn_status attend_masked(attn_problem p, attn_args_f32 a, const uint8_t *mask);
attn_status attend_to_all(const attn_problem *p, bool (*more)(attn_args_f32 *a));
attn_status run_layer(const float *x, const float *w_qkv, const float *b_qkv, const float *w_o, const float *b_o,
                      float *y);
void warn_of_blas(FILE *out);
attn_status decode(attn_cache *cache, int64_t q_heads, const float *q, const float *k, const float *v, float *out);

#endif
