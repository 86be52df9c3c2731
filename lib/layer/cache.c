/* The cache as an object: making it, its sizes and the lengths of its members, plans. Keys and values: cache_rows.c. */
#include "layer/cache.h"

#include <inttypes.h>
#include <string.h>

#include "base/checks.h"
#include "base/status.h"
#include "sdpa/plan.h"

/* Size of the struct in 0.1, the first version. */
#define SIZES_FIRST_SIZE (offsetof(attn_cache_sizes, v_dim) + sizeof(int64_t))

attn_status attn_cache_sizes_init(attn_cache_sizes *sizes, size_t struct_size) {
    return attn_init_struct("attn_cache_sizes", sizes, struct_size, SIZES_FIRST_SIZE, sizeof *sizes);
}

/* ---- Checks ---- */

attn_status attn_check_cache(const attn_cache *cache) {
    return cache != NULL ? ATTN_OK : attn_fail(ATTN_ERR_NULL, "cache is NULL");
}

attn_status attn_check_cache_dtype(const attn_cache *cache, attn_dtype dtype) {
    ATTN_TRY(attn_check_cache(cache));
    if (cache->dtype == dtype)
        return ATTN_OK;
    return attn_fail(ATTN_ERR_DTYPE, "a cache of %s is used in %s", cache->dtype == ATTN_F32 ? "float" : "double",
                     dtype == ATTN_F32 ? "float" : "double");
}

attn_status attn_check_cache_member(const attn_cache *cache, int64_t member) {
    ATTN_TRY(attn_check_cache(cache));
    if (member >= 0 && member < cache->sizes.batch)
        return ATTN_OK;
    return attn_fail(ATTN_ERR_SIZE, "member %" PRId64 " is none of a cache with batch %" PRId64, member,
                     cache->sizes.batch);
}

attn_status attn_check_apart_from_cache(const attn_cache *cache, const char *name, const int64_t *lengths) {
    attn_extent memory = attn_extent_vector("cache", cache, cache->bytes, 1);
    attn_extent array = attn_extent_vector(name, lengths, cache->sizes.batch, sizeof *lengths);
    return attn_check_apart(&memory, &array);
}

attn_status attn_check_cache_room(const attn_cache *cache, int64_t member, int64_t rows) {
    if (rows <= cache->sizes.capacity - cache->length[member])
        return ATTN_OK;
    return attn_fail(ATTN_ERR_LENGTH,
                     "member %" PRId64 ": %" PRId64 " more do not fit the capacity %" PRId64 " (length %" PRId64 ")",
                     member, rows, cache->sizes.capacity, cache->length[member]);
}

/* ---- Making and freeing ---- */

static attn_status check_sizes(const attn_cache_sizes *given, attn_cache_sizes *sizes) {
    ATTN_TRY(attn_read_struct("sizes", "attn_cache_sizes", given, SIZES_FIRST_SIZE, sizeof *sizes, sizes));
    sizes->struct_size = sizeof *sizes;
    ATTN_TRY(attn_check_size("batch", sizes->batch, 0));
    ATTN_TRY(attn_check_size("kv_heads", sizes->kv_heads, 0));
    ATTN_TRY(attn_check_size("capacity", sizes->capacity, 0));
    ATTN_TRY(attn_check_size("head_dim", sizes->head_dim, 1));
    return attn_check_size("v_dim", sizes->v_dim, 0);
}

attn_cache_layout attn_lay_out_cache(const attn_cache_sizes *s, int64_t real_bytes) {
    attn_cache_layout layout = {0};
    attn_ledger *ledger = &layout.ledger;
    int64_t heads = attn_mul_saturated(s->batch, s->kv_heads);
    layout.object = attn_ledger_book(ledger, "cache", 1, sizeof(attn_cache), 1);
    layout.lengths = attn_ledger_book(ledger, "lengths", s->batch, sizeof(int64_t), 1);
    layout.k =
        attn_ledger_book(ledger, "keys of a head", attn_mul_saturated(s->capacity, s->head_dim), real_bytes, heads);
    layout.v =
        attn_ledger_book(ledger, "values of a head", attn_mul_saturated(s->capacity, s->v_dim), real_bytes, heads);
    int64_t k_head = ledger->piece[layout.k].bytes / real_bytes, v_head = ledger->piece[layout.v].bytes / real_bytes;
    layout.k_strides =
        (attn_strides){.batch = attn_mul_saturated(s->kv_heads, k_head), .head = k_head, .row = s->head_dim};
    layout.v_strides =
        (attn_strides){.batch = attn_mul_saturated(s->kv_heads, v_head), .head = v_head, .row = s->v_dim};
    return layout;
}

attn_status attn_cache_create(const attn_context *context, const attn_cache_sizes *sizes, attn_dtype dtype,
                              attn_cache **cache) {
    attn_cache made = {.dtype = dtype};
    if (cache == NULL)
        return attn_fail(ATTN_ERR_NULL, "cache is NULL");
    ATTN_TRY(attn_resolve_context(context, &made.resources));
    ATTN_TRY(check_sizes(sizes, &made.sizes));
    if (dtype != ATTN_F32 && dtype != ATTN_F64)
        return attn_fail(ATTN_ERR_DTYPE, "dtype %d is none", (int)dtype);

    attn_cache_layout layout = attn_lay_out_cache(&made.sizes, dtype == ATTN_F32 ? sizeof(float) : sizeof(double));
    const attn_ledger *ledger = &layout.ledger;
    if (ledger->overflow || ledger->bytes > PTRDIFF_MAX - 1)
        return attn_fail(ATTN_ERR_OVERFLOW, "a cache of these sizes is larger than the address space");
    void *memory = attn_allocate(&made.resources, ledger->bytes);
    if (memory == NULL)
        return attn_fail(ATTN_ERR_NOMEM, "the allocator has no %" PRId64 " bytes for the cache", ledger->bytes);
    made.bytes = ledger->bytes;
    made.length = attn_ledger_grant(ledger, memory, layout.lengths, 0);
    made.k = attn_ledger_grant(ledger, memory, layout.k, 0);
    made.v = attn_ledger_grant(ledger, memory, layout.v, 0);
    made.k_strides = layout.k_strides;
    made.v_strides = layout.v_strides;
    memset(made.length, 0, (size_t)made.sizes.batch * sizeof *made.length);
    *cache = attn_ledger_grant(ledger, memory, layout.object, 0);
    **cache = made;
    return ATTN_OK;
}

void attn_cache_destroy(attn_cache *cache) {
    if (cache == NULL)
        return;
    attn_resources resources = cache->resources;
    attn_release(&resources, cache, cache->bytes);
}

attn_status attn_cache_get_sizes(const attn_cache *cache, attn_cache_sizes *sizes) {
    ATTN_TRY(attn_check_cache(cache));
    if (sizes == NULL)
        return attn_fail(ATTN_ERR_NULL, "sizes is NULL");
    size_t struct_size = sizes->struct_size;
    ATTN_TRY(attn_check_struct_size("attn_cache_sizes", struct_size, SIZES_FIRST_SIZE, sizeof *sizes));
    memcpy(sizes, &cache->sizes, struct_size);
    sizes->struct_size = struct_size;
    return ATTN_OK;
}

/* ---- Lengths ---- */

attn_status attn_cache_length(const attn_cache *cache, int64_t member, int64_t *length) {
    ATTN_TRY(attn_check_cache_member(cache, member));
    if (length == NULL)
        return attn_fail(ATTN_ERR_NULL, "length is NULL");
    *length = cache->length[member];
    return ATTN_OK;
}

/* The members that a number stands for: one, or all of them. */
typedef struct member_range {
    int64_t first, end;
} member_range;

static attn_status find_members(const attn_cache *cache, int64_t member, member_range *range) {
    ATTN_TRY(attn_check_cache(cache));
    if (member != ATTN_CACHE_ALL)
        ATTN_TRY(attn_check_cache_member(cache, member));
    bool all = member == ATTN_CACHE_ALL;
    *range = (member_range){.first = all ? 0 : member, .end = all ? cache->sizes.batch : member + 1};
    return ATTN_OK;
}

attn_status attn_cache_truncate(attn_cache *cache, int64_t member, int64_t length) {
    member_range range;
    ATTN_TRY(find_members(cache, member, &range));
    for (int64_t b = range.first; b < range.end; b++)
        if (length < 0 || length > cache->length[b])
            return attn_fail(ATTN_ERR_LENGTH,
                             "length %" PRId64 " is outside 0..%" PRId64 ", the keys of member %" PRId64, length,
                             cache->length[b], b);
    for (int64_t b = range.first; b < range.end; b++)
        cache->length[b] = length;
    return ATTN_OK;
}

attn_status attn_cache_reset(attn_cache *cache, int64_t member) {
    return attn_cache_truncate(cache, member, 0);
}

attn_status attn_cache_extend(attn_cache *cache, int64_t member, int64_t rows) {
    ATTN_TRY(attn_check_cache_member(cache, member));
    ATTN_TRY(attn_check_size("rows", rows, 0));
    ATTN_TRY(attn_check_cache_room(cache, member, rows));
    cache->length[member] += rows;
    return ATTN_OK;
}

/* ---- Plans ------------------------------------------------------------------------------------------------------- */

static attn_status check_same(const char *name, int64_t given, int64_t ours) {
    if (given == ours)
        return ATTN_OK;
    return attn_fail(ATTN_ERR_SIZE, "%s %" PRId64 " is not the cache's %" PRId64, name, given, ours);
}

attn_status attn_complete_problem(const attn_cache *cache, const attn_problem *given, int64_t kv_len,
                                  attn_problem *problem) {
    ATTN_TRY(attn_read_problem(given, problem));
    problem->struct_size = sizeof *problem;
    ATTN_TRY(check_same("batch", problem->batch, cache->sizes.batch));
    ATTN_TRY(check_same("kv_heads", problem->kv_heads, cache->sizes.kv_heads));
    ATTN_TRY(check_same("head_dim", problem->head_dim, cache->sizes.head_dim));
    ATTN_TRY(check_same("v_dim", problem->v_dim, cache->sizes.v_dim));
    if ((problem->flags & ATTN_RAGGED) != 0)
        return attn_fail(ATTN_ERR_FLAG, "ATTN_RAGGED: the keys of a cache are not packed");
    problem->kv_len = kv_len;
    problem->k = cache->k_strides;
    problem->v = cache->v_strides;
    return ATTN_OK;
}

attn_status attn_cache_plan_create(const attn_context *context, const attn_cache *cache, const attn_problem *problem,
                                   attn_plan **plan) {
    attn_problem full;
    ATTN_TRY(attn_check_cache(cache));
    ATTN_TRY(attn_complete_problem(cache, problem, cache->sizes.capacity, &full));
    return attn_plan_create(context, &full, cache->dtype, plan);
}
