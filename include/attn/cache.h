/* A cache of keys and values: what a decoder keeps of the tokens so far, for a fixed number of members and up to a
 * fixed number of keys each.
 *
 *   attn_cache_sizes sizes = ATTN_CACHE_SIZES_INIT;      batch, kv_heads, capacity, head_dim, v_dim
 *   attn_cache_create(context, &sizes, ATTN_F32, &cache)
 *   for each step:
 *       attn_cache_append_f32() or attn_cache_append_all_f32()    the keys and values of the new tokens
 *       attn_cache_attend_f32()                                   their queries against all keys so far
 *                       or attn_cache_plan_run_f32(), which allocates nothing
 *   attn_cache_destroy(cache)
 *
 * Each member has its own length; keys at or beyond it are never read, whatever memory holds there.
 * What holds for all functions:
 *   NULL: an array without elements may be NULL.
 *   Threads: one that changes a member (append, extend, truncate, reset) needs that member for itself, and must not run
 *     beside attend or append_all, which look at all members; different members may be changed at the same time, and
 *     any number of threads may attend and read lengths at once. create and destroy need the cache for themselves. All
 *     but attend work on the calling thread.
 *   Errors: arguments are checked before anything is changed; after an error contents and lengths are as before.
 *   NULL in place of a cache is refused by all but attn_cache_destroy().
 */
#ifndef ATTN_CACHE_H
#define ATTN_CACHE_H

#include <attn/base.h>
#include <attn/sdpa.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Making one -------------------------------------------------------------------------------------------------- */

typedef struct attn_cache attn_cache;

/* The sizes of a cache, fixed for its life; literal, never defaulted. */
typedef struct attn_cache_sizes {
    size_t struct_size; /* sizeof(attn_cache_sizes), set by the initialiser */
    int64_t batch;      /* members */
    int64_t kv_heads;   /* heads of the keys and values */
    int64_t capacity;   /* most keys of a member */
    int64_t head_dim;   /* size of a key, at least 1 */
    int64_t v_dim;      /* size of a value, 0 is legal */
} attn_cache_sizes;

#define ATTN_CACHE_SIZES_INIT ATTN_STRUCT_INIT(attn_cache_sizes)

/* Clears sizes and sets struct_size; writes struct_size bytes and no more (since 0.1).
 * Errors: ATTN_ERR_NULL, ATTN_ERR_STRUCT_SIZE. */
ATTN_API attn_status attn_cache_sizes_init(attn_cache_sizes *sizes, size_t struct_size);

/* Makes an empty cache of one precision (since 0.1). *cache is written on success only.
 * Memory: one piece from context->alloc for everything, kept until attn_cache_destroy(); batch * kv_heads * capacity *
 *   (head_dim + v_dim) elements and a little more. The default allocator asks for huge pages when it is large. The
 *   cache copies the context's hooks, which must work for its life.
 * Errors: ATTN_ERR_NULL, _SIZE, _VALUE (context), _OVERFLOW, _DTYPE (a dtype that is none), _STRUCT_SIZE, _NOMEM. */
ATTN_API attn_status attn_cache_create(const attn_context *context, const attn_cache_sizes *sizes, attn_dtype dtype,
                                       attn_cache **cache);

/* Frees a cache; NULL is allowed (since 0.1). No thread may be using it. */
ATTN_API void attn_cache_destroy(attn_cache *cache);

/* The sizes of a cache, as it was made (since 0.1). sizes->struct_size is set by the caller; so many bytes are written.
 * Errors: ATTN_ERR_NULL, _STRUCT_SIZE. */
ATTN_API attn_status attn_cache_get_sizes(const attn_cache *cache, attn_cache_sizes *sizes);

/* ---- Lengths ----------------------------------------------------------------------------------------------------- */

/* In place of a member: all of them. */
#define ATTN_CACHE_ALL INT64_C(-1)

/* *length = the number of keys that a member holds (since 0.1).
 * Errors: ATTN_ERR_NULL, _SIZE (no such member). */
ATTN_API attn_status attn_cache_length(const attn_cache *cache, int64_t member, int64_t *length);

/* Drops the keys of a member from number `length` on, for example of rejected tokens (since 0.1).
 * member: or ATTN_CACHE_ALL, when none may be shorter than `length`.
 * Errors: ATTN_ERR_NULL, _SIZE (no such member), _LENGTH (not in 0 .. the member's length). */
ATTN_API attn_status attn_cache_truncate(attn_cache *cache, int64_t member, int64_t length);

/* Empties a member, or all with ATTN_CACHE_ALL (since 0.1). Errors: ATTN_ERR_NULL, _SIZE (no such member). */
ATTN_API attn_status attn_cache_reset(attn_cache *cache, int64_t member);

/* ---- Appending --------------------------------------------------------------------------------------------------- */

/* Appends `rows` keys and values to one member (since 0.1).
 * k: [kv_heads, rows, head_dim], v: [kv_heads, rows, v_dim], by strides of which batch is not looked at.
 * Aliasing: k and v may be earlier rows of the cache. They are refused (ATTN_ERR_OVERLAP) where they start at
 *   the place of the new rows, or where dense extents intersect; other overlaps with that place are undefined.
 * NaN: copied as it stands. Memory: none.
 * Errors: ATTN_ERR_NULL, _SIZE (rows below 0, no such member), _STRIDE, _LENGTH (beyond the capacity), _OVERFLOW,
 *   _OVERLAP, _DTYPE (a cache of the other precision): nothing was changed. */
ATTN_API attn_status attn_cache_append_f32(attn_cache *cache, int64_t member, int64_t rows, const float *k,
                                           attn_strides k_strides, const float *v, attn_strides v_strides);
ATTN_API attn_status attn_cache_append_f64(attn_cache *cache, int64_t member, int64_t rows, const double *k,
                                           attn_strides k_strides, const double *v, attn_strides v_strides);

/* Appends keys and values to all members at once (since 0.1): counts[b] to member b, or `rows` to each with counts
 * NULL. k: [batch, kv_heads, rows, head_dim], v: [batch, kv_heads, rows, v_dim]; rows at or beyond counts[b] are not
 * read. counts: [batch], each 0 .. rows, not in the memory of the cache (ATTN_ERR_OVERLAP). Errors and all else: as
 * attn_cache_append_f32(); _LENGTH for a count outside 0 .. rows too. All members are checked before any is changed. */
ATTN_API attn_status attn_cache_append_all_f32(attn_cache *cache, int64_t rows, const int64_t *counts, const float *k,
                                               attn_strides k_strides, const float *v, attn_strides v_strides);
ATTN_API attn_status attn_cache_append_all_f64(attn_cache *cache, int64_t rows, const int64_t *counts, const double *k,
                                               attn_strides k_strides, const double *v, attn_strides v_strides);

/* Where a member's keys and values stand, for writers that need no copy (since 0.1): *k and *v get the address of head
 * 0, row 0, *k_strides and *v_strides the distances. Rows length .. capacity-1 may be written; attn_cache_extend() then
 * makes them count. The addresses hold until the cache is destroyed. Without elements they may be NULL.
 * Errors: ATTN_ERR_NULL, _SIZE (no such member), _DTYPE. */
ATTN_API attn_status attn_cache_rows_f32(attn_cache *cache, int64_t member, float **k, attn_strides *k_strides,
                                         float **v, attn_strides *v_strides);
ATTN_API attn_status attn_cache_rows_f64(attn_cache *cache, int64_t member, double **k, attn_strides *k_strides,
                                         double **v, attn_strides *v_strides);

/* Lengthens a member by `rows` keys and values that were written through attn_cache_rows_f32() (since 0.1).
 * Errors: ATTN_ERR_NULL, _SIZE (rows below 0, no such member), _LENGTH (beyond the capacity). */
ATTN_API attn_status attn_cache_extend(attn_cache *cache, int64_t member, int64_t rows);

/* ---- Attending --------------------------------------------------------------------------------------------------- */

/* Attention of queries to the keys in a cache (since 0.1): attn_sdpa_f32() with k, v and kv_lens from the cache.
 * problem: batch, kv_heads, head_dim and v_dim must be the cache's. Not looked at: kv_len, the strides of k and v. In
 *   their place kv_len is the longest length of a member now, which is also what mask, bias and intermediates have as
 *   columns; a mask of the whole capacity has that many more columns that no one reads. The alignment is the caller's;
 *   for decoding it is ATTN_ALIGN_BOTTOM_RIGHT, with the new tokens appended first: the last query stands at the last
 *   key of its member. ATTN_RAGGED is refused.
 * args: as for attn_sdpa_f32(); k, v and kv_lens must be NULL.
 * Equal, within the error bound, to the same tokens in one call; the same bits for any number of threads and any other
 *   members, as attn_sdpa_f32().
 * Threads, memory: as attn_sdpa_f32().
 * Errors: as attn_sdpa_f32(), and ATTN_ERR_NULL (cache), _SIZE (a size that is not the cache's), _FLAG (k, v or kv_lens
 *   given, or ATTN_RAGGED), _DTYPE: nothing was written. */
ATTN_API attn_status attn_cache_attend_f32(const attn_context *context, const attn_cache *cache,
                                           const attn_problem *problem, const attn_args_f32 *args);
ATTN_API attn_status attn_cache_attend_f64(const attn_context *context, const attn_cache *cache,
                                           const attn_problem *problem, const attn_args_f64 *args);

/* A plan for attention of queries to the keys in a cache, however many they will be (since 0.1): attn_plan_create()
 * with kv_len = the capacity, which is what mask, bias and intermediates have as columns; those at or beyond a member's
 * length are not read, in intermediates they become -Inf and weights 0. Workspace, description, end of life: as any
 * plan. It serves every cache of the same sizes and precision.
 * problem: as for attn_cache_attend_f32(). *plan is written on success only. Memory: one small allocation.
 * Errors: as attn_plan_create(), and those of attn_cache_attend_f32() for the problem. */
ATTN_API attn_status attn_cache_plan_create(const attn_context *context, const attn_cache *cache,
                                            const attn_problem *problem, attn_plan **plan);

/* Runs a plan of attn_cache_plan_create() with the keys that a cache holds now (since 0.1); the same bits as
 * attn_cache_attend_f32(). args: as there. workspace: as for attn_plan_run_f32(); with it nothing is allocated.
 * Errors: as attn_plan_run_f32(), and ATTN_ERR_NULL (plan, cache), _SIZE (a plan for a cache of other sizes), _FLAG
 *   (k, v or kv_lens given), _DTYPE: nothing was written. */
ATTN_API attn_status attn_cache_plan_run_f32(const attn_plan *plan, const attn_cache *cache, const attn_args_f32 *args,
                                             void *workspace, size_t workspace_bytes);
ATTN_API attn_status attn_cache_plan_run_f64(const attn_plan *plan, const attn_cache *cache, const attn_args_f64 *args,
                                             void *workspace, size_t workspace_bytes);

#ifdef __cplusplus
}
#endif

#endif
