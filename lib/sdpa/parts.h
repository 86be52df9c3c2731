/* Products of a tile by the matrix unit (kernels/parts.c): queries, keys, values and weights in parts, and the scores
 * that parts are not for.
 *
 * Parts begin at multiples of 16 and 32 keys, whatever a block sees of them, so that no bits follow the blocks; values
 * before the first visible key and behind the last one are 0.
 */
#ifndef ATTN_LIB_SDPA_PARTS_H
#define ATTN_LIB_SDPA_PARTS_H

#include "sdpa/block.h"
#include "sdpa/tile.h"

#define attn_parts_of_queries REAL(attn_parts_of_queries)
#define attn_parts_of_keys REAL(attn_parts_of_keys)
#define attn_parts_scores REAL(attn_parts_scores)
#define attn_parts_add_values REAL(attn_parts_add_values)

/* Q of a block, with the scale in it. */
void attn_parts_of_queries(const attn_call *call, const attn_task *task, const attn_query_block *block);

/* These keys and values of a key head; no keys when the scale is 0. */
void attn_parts_of_keys(const attn_call *call, const attn_head *arrays, const attn_query_block *block,
                        attn_key_range keys);

/* s = scale Q K^T of the head-th head of the block, for some of the keys that are in parts. A score of a query or key
 * that is not finite or too large for parts is made apart. */
void attn_parts_scores(const attn_call *call, const attn_head *arrays, const attn_query_block *block, int64_t head,
                       attn_key_range keys, const attn_tile *tile);

/* o = s V, or that much more with `add`, for some of the keys that are in parts; of the block's clean values of this
 * tile while it is cleaning. */
void attn_parts_add_values(const attn_call *call, const attn_query_block *block, attn_key_range keys,
                           const attn_tile *tile, bool add, real *o);

#endif
