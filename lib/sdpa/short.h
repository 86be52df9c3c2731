/* The two products of a tile with few queries. */
#ifndef ATTN_LIB_SHORT_H
#define ATTN_LIB_SHORT_H

#include "sdpa/tile.h"

#define attn_short_scores REAL(attn_short_scores)
#define attn_short_combine REAL(attn_short_combine)

/* s = scale * Q K^T of a tile; the scale is not 0. */
void attn_short_scores(const attn_call *call, const attn_head *head, const attn_tile *tile);

/* o += s V of a tile; o is rows x v_dim, dense. */
void attn_short_combine(const attn_call *call, const attn_tile *tile, const real *v, int64_t v_row, real *o);

#endif
