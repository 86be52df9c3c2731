/* Private side of the cache: the object, and the checks that its functions share. */
#ifndef ATTN_LIB_CACHE_H
#define ATTN_LIB_CACHE_H

#include <attn/cache.h>

#include "base/context.h"
#include "base/ledger.h"

/* One piece of memory: this struct, the lengths, the keys and the values. Keys are [batch, kv_heads, capacity,
 * head_dim] and values alike; each head starts on a cache line, so that no two threads write to one. */
struct attn_cache {
    attn_cache_sizes sizes;
    attn_dtype dtype;
    attn_resources resources;
    int64_t bytes;   /* of the whole */
    int64_t *length; /* [batch] */
    void *k, *v;
    attn_strides k_strides, v_strides;
};

/* Where keys and values of a cache of checked sizes stand: strides, and the pieces of its memory in an empty ledger. */
typedef struct attn_cache_layout {
    attn_ledger ledger;
    int object, lengths, k, v; /* pieces */
    attn_strides k_strides, v_strides;
} attn_cache_layout;
attn_cache_layout attn_lay_out_cache(const attn_cache_sizes *sizes, int64_t real_bytes);

attn_status attn_check_cache(const attn_cache *cache);
attn_status attn_check_cache_dtype(const attn_cache *cache, attn_dtype dtype);
attn_status attn_check_cache_member(const attn_cache *cache, int64_t member);

/* The caller's problem with the keys of the cache in it, kv_len of them at most. */
attn_status attn_complete_problem(const attn_cache *cache, const attn_problem *given, int64_t kv_len,
                                  attn_problem *problem);

/* [batch] lengths, or NULL, that do not lie in the cache, where new rows would change them (ATTN_ERR_OVERLAP). */
attn_status attn_check_apart_from_cache(const attn_cache *cache, const char *name, const int64_t *lengths);

/* Room for `rows` more keys of a member (ATTN_ERR_LENGTH). */
attn_status attn_check_cache_room(const attn_cache *cache, int64_t member, int64_t rows);

#endif
