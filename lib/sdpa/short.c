/* Few queries: own loops where a CBLAS product has nothing to offer. A row of scores or of output stays in registers
 * while the keys or values of a tile pass by. */
#include "sdpa/short.h"

void attn_short_scores(const attn_call *call, const attn_head *head, const attn_tile *tile) {
    for (int64_t i = 0; i < tile->rows; i++)
        call->kernels->dot_rows(tile->keys, call->plan->problem.head_dim, call->scale,
                                head->q + (tile->row0 + i) * head->q_row, head->k + tile->key0 * head->k_row,
                                head->k_row, tile->s + i * tile->ld);
}

void attn_short_combine(const attn_call *call, const attn_tile *tile, const real *v, int64_t v_row, real *o) {
    int64_t v_dim = call->plan->problem.v_dim;
    for (int64_t i = 0; i < tile->rows; i++)
        call->kernels->weighted_rows(tile->keys, v_dim, tile->s + i * tile->ld, v, v_row, o + i * v_dim);
}
