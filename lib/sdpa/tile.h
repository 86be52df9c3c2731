/* A tile of scores, rows x keys of one head, between the two products: softcap, bias, hidden keys, and the
 * rules for NaN and Inf.
 * Serves the engines blas and fused. */
#ifndef ATTN_LIB_TILE_H
#define ATTN_LIB_TILE_H

#include "base/real.h"
#include "sdpa/engines.h"

#define attn_tile_scores REAL(attn_tile_scores)
#define attn_tile_scores_apart REAL(attn_tile_scores_apart)
#define attn_tile_cap REAL(attn_tile_cap)
#define attn_tile_bias REAL(attn_tile_bias)
#define attn_tile_hide REAL(attn_tile_hide)
#define attn_tile_edit REAL(attn_tile_edit)
#define attn_tile_fetch REAL(attn_tile_fetch)
#define attn_tile_hidden REAL(attn_tile_hidden)
#define attn_tile_clean REAL(attn_tile_clean)

typedef struct attn_tile {
    real *s;
    int64_t ld;
    int64_t row0, rows; /* queries */
    int64_t key0, keys;
} attn_tile;

/* s = scale * Q K^T by one CBLAS product; exactly 0, without reading K, when the scale is 0. */
void attn_tile_scores(const attn_call *call, const attn_head *head, const attn_tile *tile);

/* The same by kernel product_transposed, a row at a time: each score's bits are those of its query and key alone. */
void attn_tile_scores_apart(const attn_call *call, const attn_head *head, const attn_tile *tile);

/* Step 2, softcap, and step 3, bias and ALiBi; nothing where the problem has none. */
void attn_tile_cap(const attn_call *call, const attn_tile *tile);
void attn_tile_bias(const attn_call *call, const attn_head *head, const attn_member *member, const attn_tile *tile);

/* Step 4: scores of keys hidden by mask, causal, window or lengths become -Inf, whatever they were. */
void attn_tile_hide(const attn_call *call, const attn_head *head, const attn_member *member, const attn_tile *tile);

/* Steps 2 to 4 at once; a fully visible tile of a problem without options is left alone. */
void attn_tile_edit(const attn_call *call, const attn_head *head, const attn_member *member, const attn_tile *tile);

/* Asks for the mask and bias of a tile that will be edited a microsecond later or more. */
void attn_tile_fetch(const attn_call *call, const attn_head *head, const attn_tile *tile);

/* True when the boolean mask hides every key of the tile from every row of it. The first visible one ends the
 * search. */
bool attn_tile_hidden(const attn_call *call, const attn_head *head, const attn_tile *tile);

/* The rule for non-finite values, before softmax: the tile's values go to `clean` (keys x v_dim, dense) with their
 * non-finite entries replaced by 0, and o[i][c] becomes NaN where row i sees a non-finite v[j][c]. A weight of 0 times
 * NaN would be NaN in the product; NaN already in o stays through everything that follows. */
void attn_tile_clean(const attn_call *call, const attn_head *head, const attn_tile *tile, real *clean, real *o,
                     int64_t o_ld);

#endif
