/* libattn: attention on CPUs, softmax(Q K^T / sqrt(d)) V, exactly, fast, and the same way every time.
 *
 * This header includes all the others but weights.h, whose functions are in a library of their own, libattn_weights:
 *
 *   base.h       status codes, error text, context (threads, allocator), version
 *   sdpa.h       scaled dot-product attention: problem, arguments, one call, plan, flat call; merging results
 *   chain.h      the stages from token ids to attention output, one function each, and the traced call
 *   position.h   sinusoidal and rotary positions, slopes of ALiBi
 *   cache.h      keys and values of the tokens so far, for decoding
 *   layer.h      a whole layer: projections, rotary positions, attention with or without a cache, the last projection
 *
 * Start with attn_sdpa_f32() in sdpa.h, or with attn_sdpa_flat_f32() when all arrays are dense.
 * All headers are C99 and C++ and include neither cblas.h nor lapacke.h.
 */
#ifndef ATTN_ATTN_H
#define ATTN_ATTN_H

#include <attn/base.h>
#include <attn/cache.h>
#include <attn/chain.h>
#include <attn/layer.h>
#include <attn/position.h>
#include <attn/sdpa.h>

#endif
