/* Rows of a cache that are written before they count. */
#ifndef ATTN_LIB_CACHE_ROWS_H
#define ATTN_LIB_CACHE_ROWS_H

#include "base/real.h"
#include "layer/cache.h"

/* attn_cache_append_all() of checked rows without the last step: lengths stay as they are. */
void REAL(attn_cache_store_all)(attn_cache *cache, int64_t rows, const int64_t *counts, const real *k,
                                attn_strides k_strides, const real *v, attn_strides v_strides);

#endif
