/* Which keys a row of queries sees by its position: causal, window and lengths. Serves the engines blas and fused;
 * naive and the oracle of the tests write the rules out for themselves. */
#ifndef ATTN_LIB_VISIBILITY_H
#define ATTN_LIB_VISIBILITY_H

#include <stdbool.h>
#include <stdint.h>

/* One member of the batch as its rows see it. Query i stands at position i + offset among the keys. */
typedef struct attn_member {
    int64_t q_len, kv_len;     /* valid lengths */
    int64_t q_rows;            /* rows of out and lse that are this member's: those at or beyond q_len are empty */
    int64_t q_start, kv_start; /* its first row in the buffers, other than 0 when tokens are packed */
    int64_t offset;
    int64_t left, right; /* keys before and after the position that are visible; -1 = unlimited */
    int64_t key_limit;   /* keys at or beyond are hidden: kv_len, or less when a mask or bias is narrower */
} attn_member;

/* Keys begin .. end-1; empty when begin == end. */
typedef struct attn_key_range {
    int64_t begin, end;
} attn_key_range;

/* The keys that query `row` sees. */
attn_key_range attn_row_keys(const attn_member *member, int64_t row);

/* The smallest range that holds the keys of rows row0 .. row0+rows-1. */
attn_key_range attn_block_keys(const attn_member *member, int64_t row0, int64_t rows);

/* True when each of these rows sees each of these keys. */
bool attn_tile_visible(const attn_member *member, int64_t row0, int64_t rows, int64_t key0, int64_t keys);

/* Cut into chunks that begin at multiples of their size: where the visible keys begin changes no other chunk. How many
 * of these keys there are, and number n of them. */
int64_t attn_chunks_in(attn_key_range keys, int64_t size);
attn_key_range attn_chunk_at(attn_key_range keys, int64_t size, int64_t n);

/* Visible (query, key) pairs of the whole member, by position; double because it may pass 2^63. */
double attn_visible_pairs(const attn_member *member);

#endif
