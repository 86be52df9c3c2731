/* A tile of scores between the two products. */
#include "sdpa/tile.h"

#include <tgmath.h>

#include "blas/blas.h"

void attn_tile_scores(const attn_call *call, const attn_head *head, const attn_tile *tile) {
    if (call->scale == 0) {
        for (int64_t i = 0; i < tile->rows; i++)
            for (int64_t j = 0; j < tile->keys; j++)
                tile->s[i * tile->ld + j] = 0;
        return;
    }
    attn_gemm(false, true, tile->rows, tile->keys, call->plan->problem.head_dim, call->scale,
              head->q + tile->row0 * head->q_row, head->q_row, head->k + tile->key0 * head->k_row, head->k_row, 0,
              tile->s, tile->ld);
}

void attn_tile_hide(const attn_member *member, const attn_tile *tile) {
    if (attn_tile_visible(member, tile->row0, tile->rows, tile->key0, tile->keys))
        return;
    for (int64_t i = 0; i < tile->rows; i++) {
        attn_key_range seen = attn_row_keys(member, tile->row0 + i);
        real *s = tile->s + i * tile->ld;
        int64_t begin = seen.begin - tile->key0;
        int64_t end = seen.end - tile->key0;
        for (int64_t j = 0; j < tile->keys && j < begin; j++)
            s[j] = -(real)INFINITY;
        for (int64_t j = end > 0 ? end : 0; j < tile->keys; j++)
            s[j] = -(real)INFINITY;
    }
}

void attn_tile_clean(const attn_call *call, const attn_head *head, const attn_tile *tile, real *clean, real *o,
                     int64_t o_ld) {
    int64_t v_dim = call->plan->problem.v_dim;
    for (int64_t j = 0; j < tile->keys; j++) {
        const real *v = head->v + (tile->key0 + j) * head->v_row;
        for (int64_t c = 0; c < v_dim; c++) {
            clean[j * v_dim + c] = isfinite(v[c]) ? v[c] : 0;
            if (isfinite(v[c]))
                continue;
            for (int64_t i = 0; i < tile->rows; i++)
                if (tile->s[i * tile->ld + j] != -(real)INFINITY)
                    o[i * o_ld + c] = (real)NAN;
        }
    }
}
