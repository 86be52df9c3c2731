/* The keys and values of a cache: appending them, lending them out, attending to them. */
#include <inttypes.h>
#include <string.h>

#include "base/checks.h"
#include "base/real.h"
#include "base/status.h"
#include "layer/cache.h"
#include "layer/cache_rows.h"
#include "sdpa/plan.h"

typedef REAL(attn_args) attn_args;

/* ---- Appending ---- */

/* New keys, or new values: [members, kv_heads, rows, cols], for the end of cache members first_member and on. */
typedef struct new_rows {
    const char *name;
    const real *from;
    attn_strides from_strides;
    real *to; /* the cache's first element */
    attn_strides to_strides;
    int64_t cols;
} new_rows;

typedef struct append_call {
    attn_cache *cache;
    int64_t first_member, members, rows;
    const int64_t *counts; /* NULL = rows for each */
    new_rows part[2];      /* keys, values */
} append_call;

static int64_t count_of(const append_call *call, int64_t m) {
    return call->counts != NULL ? call->counts[m] : call->rows;
}

/* Where the new rows of member m come from and where they go. */
static const real *source_of(const new_rows *part, int64_t m) {
    return part->from != NULL ? part->from + m * part->from_strides.batch : NULL;
}

static real *target_of(const append_call *call, const new_rows *part, int64_t m) {
    int64_t member = call->first_member + m;
    return part->to + member * part->to_strides.batch + call->cache->length[member] * part->to_strides.row;
}

/* And settles the strides of what is given. */
static attn_status check_part(const append_call *call, new_rows *part) {
    int64_t heads = call->cache->sizes.kv_heads;
    attn_extent all = attn_extent_heads(part->name, part->from, call->members, heads, call->rows, part->cols,
                                        part->from_strides, sizeof(real));
    ATTN_TRY(attn_check_array(&all));
    part->from_strides = attn_settled_strides(all);
    for (int64_t m = 0; m < call->members; m++) {
        int64_t count = count_of(call, m);
        attn_extent from = attn_extent_heads(part->name, source_of(part, m), 1, heads, count, part->cols,
                                             part->from_strides, sizeof(real));
        attn_extent to = attn_extent_heads("room of the cache", target_of(call, part, m), 1, heads, count, part->cols,
                                           part->to_strides, sizeof(real));
        ATTN_TRY(attn_check_apart(&to, &from));
    }
    return ATTN_OK;
}

static void copy_part(const append_call *call, const new_rows *part, int64_t m) {
    const real *from = source_of(part, m);
    real *to = target_of(call, part, m);
    int64_t count = count_of(call, m);
    if (count == 0 || part->cols == 0)
        return;
    for (int64_t h = 0; h < call->cache->sizes.kv_heads; h++)
        for (int64_t t = 0; t < count; t++)
            memcpy(to + h * part->to_strides.head + t * part->to_strides.row,
                   from + h * part->from_strides.head + t * part->from_strides.row, (size_t)part->cols * sizeof(real));
}

/* Puts the new rows where they belong; they do not count yet. */
static void store(const append_call *call) {
    for (int64_t m = 0; m < call->members; m++)
        for (int i = 0; i < 2; i++)
            copy_part(call, &call->part[i], m);
}

static void count_new_rows(append_call *call) {
    for (int64_t m = 0; m < call->members; m++)
        call->cache->length[call->first_member + m] += count_of(call, m);
}

static attn_status append(append_call *call) {
    ATTN_TRY(attn_check_size("rows", call->rows, 0));
    for (int64_t m = 0; m < call->members; m++) {
        int64_t count = count_of(call, m);
        if (count < 0 || count > call->rows)
            return attn_fail(ATTN_ERR_LENGTH, "counts[%" PRId64 "] %" PRId64 " is outside 0..rows %" PRId64, m, count,
                             call->rows);
        ATTN_TRY(attn_check_cache_room(call->cache, call->first_member + m, count));
    }
    ATTN_TRY(attn_check_apart_from_cache(call->cache, "counts", call->counts));
    for (int i = 0; i < 2; i++)
        ATTN_TRY(check_part(call, &call->part[i]));
    store(call);
    count_new_rows(call);
    return ATTN_OK;
}

/* What both ways of appending have in common; `cache` is checked. */
static append_call append_to(attn_cache *cache, const real *k, attn_strides k_strides, const real *v,
                             attn_strides v_strides) {
    return (append_call){
        .cache = cache,
        .part = {{"k", k, k_strides, cache->k, cache->k_strides, cache->sizes.head_dim},
                 {"v", v, v_strides, cache->v, cache->v_strides, cache->sizes.v_dim}},
    };
}

attn_status REAL(attn_cache_append)(attn_cache *cache, int64_t member, int64_t rows, const real *k,
                                    attn_strides k_strides, const real *v, attn_strides v_strides) {
    ATTN_TRY(attn_check_cache_dtype(cache, REAL_DTYPE));
    ATTN_TRY(attn_check_cache_member(cache, member));
    k_strides.batch = v_strides.batch = 0; /* not looked at */
    append_call call = append_to(cache, k, k_strides, v, v_strides);
    call.first_member = member;
    call.members = 1;
    call.rows = rows;
    return append(&call);
}

static append_call append_to_all(attn_cache *cache, int64_t rows, const int64_t *counts, const real *k,
                                 attn_strides k_strides, const real *v, attn_strides v_strides) {
    append_call call = append_to(cache, k, k_strides, v, v_strides);
    call.members = cache->sizes.batch;
    call.rows = rows;
    call.counts = counts;
    return call;
}

attn_status REAL(attn_cache_append_all)(attn_cache *cache, int64_t rows, const int64_t *counts, const real *k,
                                        attn_strides k_strides, const real *v, attn_strides v_strides) {
    ATTN_TRY(attn_check_cache_dtype(cache, REAL_DTYPE));
    append_call call = append_to_all(cache, rows, counts, k, k_strides, v, v_strides);
    return append(&call);
}

void REAL(attn_cache_store_all)(attn_cache *cache, int64_t rows, const int64_t *counts, const real *k,
                                attn_strides k_strides, const real *v, attn_strides v_strides) {
    append_call call = append_to_all(cache, rows, counts, k, k_strides, v, v_strides);
    store(&call);
}

attn_status REAL(attn_cache_rows)(attn_cache *cache, int64_t member, real **k, attn_strides *k_strides, real **v,
                                  attn_strides *v_strides) {
    ATTN_TRY(attn_check_cache_dtype(cache, REAL_DTYPE));
    ATTN_TRY(attn_check_cache_member(cache, member));
    if (k == NULL || k_strides == NULL || v == NULL || v_strides == NULL)
        return attn_fail(ATTN_ERR_NULL, "%s is NULL",
                         k == NULL           ? "k"
                         : k_strides == NULL ? "k_strides"
                         : v == NULL         ? "v"
                                             : "v_strides");
    *k = (real *)cache->k + member * cache->k_strides.batch;
    *v = (real *)cache->v + member * cache->v_strides.batch;
    *k_strides = cache->k_strides;
    *v_strides = cache->v_strides;
    return ATTN_OK;
}

/* ---- Attending ---- */

static int64_t longest_length(const attn_cache *cache) {
    int64_t longest = 0;
    for (int64_t b = 0; b < cache->sizes.batch; b++)
        longest = cache->length[b] > longest ? cache->length[b] : longest;
    return longest;
}

static attn_status complete_args(const attn_cache *cache, const attn_args *given, attn_args *args) {
    ATTN_TRY(attn_read_args(given, args));
    args->struct_size = sizeof *args;
    if (args->k != NULL || args->v != NULL || args->kv_lens != NULL)
        return attn_fail(ATTN_ERR_FLAG, "%s is given, but the cache has its own",
                         args->k != NULL   ? "k"
                         : args->v != NULL ? "v"
                                           : "kv_lens");
    args->k = cache->k;
    args->v = cache->v;
    args->kv_lens = cache->length;
    return ATTN_OK;
}

attn_status REAL(attn_cache_attend)(const attn_context *context, const attn_cache *cache, const attn_problem *problem,
                                    const attn_args *args) {
    attn_problem full_problem;
    attn_args full_args;
    ATTN_TRY(attn_check_cache_dtype(cache, REAL_DTYPE));
    ATTN_TRY(attn_complete_problem(cache, problem, longest_length(cache), &full_problem));
    ATTN_TRY(complete_args(cache, args, &full_args));
    return REAL(attn_sdpa)(context, &full_problem, &full_args);
}

/* A plan holds where its keys stand: it serves caches of the sizes that it was made for. */
static attn_status check_plan_of_cache(const attn_plan *plan, const attn_cache *cache) {
    if (plan == NULL)
        return attn_fail(ATTN_ERR_NULL, "plan is NULL");
    const attn_problem *p = &plan->problem;
    const attn_cache_sizes *s = &cache->sizes;
    const attn_strides k = attn_settled_strides(
        attn_extent_heads("k", NULL, s->batch, s->kv_heads, s->capacity, s->head_dim, cache->k_strides, sizeof(real)));
    const attn_strides v = attn_settled_strides(
        attn_extent_heads("v", NULL, s->batch, s->kv_heads, s->capacity, s->v_dim, cache->v_strides, sizeof(real)));
    const struct {
        const char *name;
        int64_t plan, cache;
    } sizes[] = {
        {"batch", p->batch, s->batch},           {"kv_heads", p->kv_heads, s->kv_heads},
        {"capacity", p->kv_len, s->capacity},    {"head_dim", p->head_dim, s->head_dim},
        {"v_dim", p->v_dim, s->v_dim},           {"k head stride", p->k.head, k.head},
        {"k row stride", p->k.row, k.row},       {"v head stride", p->v.head, v.head},
        {"v row stride", p->v.row, v.row},       {"k batch stride", p->k.batch, k.batch},
        {"v batch stride", p->v.batch, v.batch},
    };
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        if (sizes[i].plan != sizes[i].cache)
            return attn_fail(ATTN_ERR_SIZE, "%s %" PRId64 " of the plan is not the cache's %" PRId64, sizes[i].name,
                             sizes[i].plan, sizes[i].cache);
    return ATTN_OK;
}

attn_status REAL(attn_cache_plan_run)(const attn_plan *plan, const attn_cache *cache, const attn_args *args,
                                      void *workspace, size_t workspace_bytes) {
    attn_args full_args;
    ATTN_TRY(attn_check_cache_dtype(cache, REAL_DTYPE));
    ATTN_TRY(check_plan_of_cache(plan, cache));
    ATTN_TRY(complete_args(cache, args, &full_args));
    return REAL(attn_plan_run)(plan, &full_args, workspace, workspace_bytes);
}
