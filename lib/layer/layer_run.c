/* Running a layer: all checks, then projections, rotary positions, the cache, attention, the last projection. */
#include <inttypes.h>
#include <string.h>

#include "base/checks.h"
#include "base/real.h"
#include "base/status.h"
#include "blas/blas.h"
#include "chain/product.h"
#include "layer/cache_rows.h"
#include "layer/layer.h"
#include "position/rotary.h"
#include "sdpa/engines.h"

typedef REAL(attn_layer_args) layer_args;

/* One call: the caller's arguments, completed, and what lies in the workspace. */
typedef struct layer_call {
    const attn_layer_plan *plan;
    layer_args args;
    attn_args heads; /* attention's arguments */
    real *q, *k, *v, *z;
    void *shared;            /* attention's workspace, or packed weights */
    const int64_t *new_keys; /* [batch], NULL = as many as the plan says */
    const int64_t *x_lens;   /* [batch]: rows of x that are projected, NULL = all */
} layer_call;

static bool has(const layer_call *call, uint64_t flag) {
    return attn_layer_has(call->plan, flag);
}

/* ---- Checks of what was given ------------------------------------------------------------------------------------ */

/* A pointer that belongs to a flag of the layer. */
typedef struct given_pointer {
    const char *name;
    const void *pointer;
    bool allowed;
    const char *why_not;
} given_pointer;

static attn_status check_given(const layer_call *call) {
    const layer_args *a = &call->args;
    const attn_args *h = &call->heads;
    bool packed = has(call, ATTN_LAYER_PACKED), cross = has(call, ATTN_LAYER_CROSS);
    bool rotary = has(call, ATTN_LAYER_HAS_ROTARY);
    bool ids = rotary && (call->plan->rotary.flags & ATTN_ROTARY_HAS_IDS) != 0;
    bool tables = rotary && (call->plan->rotary.flags & ATTN_ROTARY_HAS_TABLES) != 0;
    const given_pointer pointers[] = {
        {"context", a->context, cross, "without ATTN_LAYER_CROSS"},
        {"cache", a->cache, has(call, ATTN_LAYER_HAS_CACHE), "without ATTN_LAYER_HAS_CACHE"},
        {"w_k", a->w_k, !packed || cross, "with ATTN_LAYER_PACKED, where w_q holds it"},
        {"b_k", a->b_k, !packed || cross, "with ATTN_LAYER_PACKED, where b_q holds it"},
        {"w_v", a->w_v, !packed,
         cross ? "with ATTN_LAYER_PACKED, where w_k holds it" : "with ATTN_LAYER_PACKED, where w_q holds it"},
        {"b_v", a->b_v, !packed,
         cross ? "with ATTN_LAYER_PACKED, where b_k holds it" : "with ATTN_LAYER_PACKED, where b_q holds it"},
        {"ids", a->ids, ids, "without ATTN_ROTARY_HAS_IDS"},
        {"kv_ids", a->kv_ids, ids && cross, "without ATTN_ROTARY_HAS_IDS and ATTN_LAYER_CROSS"},
        {"cosines", a->cosines, tables, "without ATTN_ROTARY_HAS_TABLES"},
        {"sines", a->sines, tables, "without ATTN_ROTARY_HAS_TABLES"},
        {"attention.q", h->q, false, "but the layer makes its own"},
        {"attention.k", h->k, false, "but the layer makes its own"},
        {"attention.v", h->v, false, "but the layer makes its own"},
        {"attention.out", h->out, false, "but the layer makes its own"},
        {"attention.kv_offsets", h->kv_offsets, cross, "but the rows of x are the keys: q_offsets count"},
    };
    for (size_t i = 0; i < sizeof pointers / sizeof *pointers; i++)
        if (pointers[i].pointer != NULL && !pointers[i].allowed)
            return attn_fail(ATTN_ERR_FLAG, "%s is given %s", pointers[i].name, pointers[i].why_not);
    return ATTN_OK;
}

static attn_status check_cache(const layer_call *call) {
    const attn_cache *cache = call->args.cache;
    if (!has(call, ATTN_LAYER_HAS_CACHE))
        return ATTN_OK;
    if (cache == NULL)
        return attn_fail(ATTN_ERR_NULL, "ATTN_LAYER_HAS_CACHE is set, but cache is NULL");
    ATTN_TRY(attn_check_cache_dtype(cache, REAL_DTYPE));
    const attn_problem *p = &call->plan->attention.problem;
    const attn_cache_sizes *s = &cache->sizes;
    const struct {
        const char *name;
        int64_t layer, cache;
    } sizes[] = {
        {"batch", p->batch, s->batch},        {"kv_heads", p->kv_heads, s->kv_heads},
        {"capacity", p->kv_len, s->capacity}, {"head_dim", p->head_dim, s->head_dim},
        {"v_dim", p->v_dim, s->v_dim},
    };
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        if (sizes[i].layer != sizes[i].cache)
            return attn_fail(ATTN_ERR_SIZE, "%s %" PRId64 " is not the cache's %" PRId64, sizes[i].name, sizes[i].layer,
                             sizes[i].cache);
    return ATTN_OK;
}

static int64_t new_keys_of(const layer_call *call, int64_t b) {
    return call->new_keys != NULL ? call->new_keys[b] : call->plan->new_keys;
}

static attn_status check_lengths(layer_call *call) {
    const attn_layer_plan *plan = call->plan;
    const attn_problem *p = &plan->attention.problem;
    const attn_args *h = &call->heads;
    if (attn_layer_ragged(plan))
        return ATTN_OK; /* attention looks at the offsets */
    ATTN_TRY(attn_check_lengths("q_lens", h->q_lens, p->batch, "q_len", p->q_len));
    ATTN_TRY(attn_check_lengths("kv_lens", h->kv_lens, p->batch, "kv_len", plan->new_keys));
    call->new_keys = h->kv_lens == NULL && !has(call, ATTN_LAYER_CROSS) ? h->q_lens : h->kv_lens;
    if (call->args.cache == NULL)
        return ATTN_OK;
    for (int64_t b = 0; b < p->batch; b++)
        ATTN_TRY(attn_check_cache_room(call->args.cache, b, new_keys_of(call, b)));
    ATTN_TRY(attn_check_apart_from_cache(call->args.cache, "q_lens", h->q_lens));
    return attn_check_apart_from_cache(call->args.cache, "kv_lens", h->kv_lens);
}

/* The arrays in the order of the enum. */
typedef struct layer_extents {
    attn_extent at[ATTN_LAYER_ARRAYS];
} layer_extents;

static layer_extents extents_of(const layer_call *call) {
    const layer_args *a = &call->args;
    const void *const addresses[ATTN_LAYER_ARRAYS] = {a->x,   a->context, a->w_q,     a->w_k,   a->w_v,
                                                      a->w_o, a->b_q,     a->b_k,     a->b_v,   a->b_o,
                                                      a->ids, a->kv_ids,  a->cosines, a->sines, a->y};
    layer_extents extents;
    for (int array = 0; array < ATTN_LAYER_ARRAYS; array++)
        extents.at[array] = attn_layer_extent(call->plan, array, addresses[array]);
    return extents;
}

static attn_status check_arrays(const layer_call *call) {
    static const char *const flags[ATTN_LAYER_ARRAYS] = {
        [ATTN_LAYER_CONTEXT] = "ATTN_LAYER_CROSS",     [ATTN_LAYER_IDS] = "ATTN_ROTARY_HAS_IDS",
        [ATTN_LAYER_KV_IDS] = "ATTN_ROTARY_HAS_IDS",   [ATTN_LAYER_COSINES] = "ATTN_ROTARY_HAS_TABLES",
        [ATTN_LAYER_SINES] = "ATTN_ROTARY_HAS_TABLES",
    };
    layer_extents extents = extents_of(call);
    const attn_extent *y = &extents.at[ATTN_LAYER_Y];
    for (int array = 0; array < ATTN_LAYER_ARRAYS; array++) {
        ATTN_TRY(attn_check_present_with(&extents.at[array], flags[array]));
        if (array != ATTN_LAYER_Y)
            ATTN_TRY(attn_check_apart(y, &extents.at[array]));
    }
    return ATTN_OK;
}

/* Arrays of the layer against those of attention, and outputs of either against the lengths that the caller gave: the
 * kv_lens of attention are in the workspace. */
static attn_status check_apart_from_heads(const layer_call *call) {
    const attn_problem *p = &call->plan->attention.problem;
    const attn_args *h = &call->heads;
    const attn_arrays arrays = attn_arrays_of(h);
    layer_extents extents = extents_of(call);
    const attn_extent *y = &extents.at[ATTN_LAYER_Y];
    const attn_lengths lengths = {h->q_lens, call->new_keys, h->q_offsets, h->kv_offsets};
    for (int array = 0; array < ATTN_ARRAYS; array++) {
        if (arrays.at[array] == NULL)
            continue;
        attn_extent other = attn_array_extent(p, &arrays, array);
        if (array < ATTN_FIRST_OUTPUT) {
            ATTN_TRY(attn_check_apart(y, &other));
            continue;
        }
        ATTN_TRY(attn_check_outputs_apart(y, &other));
        for (int input = 0; input < ATTN_LAYER_Y; input++)
            ATTN_TRY(attn_check_apart(&other, &extents.at[input]));
        ATTN_TRY(attn_check_apart_from_lengths(p, &other, &lengths));
    }
    return attn_check_apart_from_lengths(p, y, &lengths);
}

/* ---- Workspace --------------------------------------------------------------------------------------------------- */

static real *rows_at(const attn_layer_plan *plan, const attn_layer_rows *rows, void *workspace) {
    return plan->empty ? NULL : (real *)attn_ledger_grant(&plan->ledger, workspace, rows->piece, 0) + rows->first;
}

/* Lengths that neither the caller nor the plan has as an array. */
static void set_lengths(layer_call *call, int64_t *keys, int64_t *x_lens) {
    const attn_problem *p = &call->plan->attention.problem;
    const int64_t *q_lens = call->heads.q_lens;
    const attn_cache *cache = call->args.cache;
    for (int64_t b = 0; b < p->batch; b++)
        keys[b] = (cache != NULL ? cache->length[b] : 0) + new_keys_of(call, b);
    call->x_lens = q_lens;
    if (!has(call, ATTN_LAYER_CROSS) && call->new_keys != q_lens) { /* in self-attention x has to serve both */
        for (int64_t b = 0; b < p->batch; b++) {
            int64_t queries = q_lens != NULL ? q_lens[b] : p->q_len;
            x_lens[b] = queries > new_keys_of(call, b) ? queries : new_keys_of(call, b);
        }
        call->x_lens = x_lens;
    }
    call->heads.kv_lens = cache != NULL || call->new_keys != NULL ? keys : NULL;
}

static void use_workspace(layer_call *call, void *workspace) {
    const attn_layer_plan *plan = call->plan;
    attn_args *h = &call->heads;
    call->q = rows_at(plan, &plan->q, workspace);
    call->k = rows_at(plan, &plan->k, workspace);
    call->v = rows_at(plan, &plan->v, workspace);
    call->z = rows_at(plan, &plan->z, workspace);
    call->shared = plan->empty ? NULL : attn_ledger_grant(&plan->ledger, workspace, plan->shared, 0);
    h->q = call->q;
    h->k = call->args.cache != NULL ? call->args.cache->k : call->k;
    h->v = call->args.cache != NULL ? call->args.cache->v : call->v;
    h->out = call->z;
    if (attn_layer_ragged(plan)) {
        if (!has(call, ATTN_LAYER_CROSS))
            h->kv_offsets = h->q_offsets;
    } else if (!plan->empty) {
        int64_t *lengths = attn_ledger_grant(&plan->ledger, workspace, plan->lengths, 0);
        set_lengths(call, lengths, lengths + plan->attention.problem.batch);
    }
}

/* ---- Products ---------------------------------------------------------------------------------------------------- */

/* Rows of x, of the context or of Z times a weight; rows and places of both sides are still to be set. */
static attn_product weight_product(const layer_call *call, int weight, const real *b, const real *bias) {
    const attn_layer_weight *w = &call->plan->weight[weight];
    return (attn_product){
        .members = call->plan->attention.problem.batch,
        .n = w->columns,
        .k = w->in,
        .transpose_b = has(call, ATTN_LAYER_OUT_IN),
        .weights = true,
        .alpha = 1,
        .b = b,
        .b_stride = w->row,
        .bias = bias,
        .k_name = "d_in",
        .a_name = "rows",
        .b_name = w->name,
        .c_name = "rows",
    };
}

static attn_product project_x(const layer_call *call, int weight, const real *b, const real *bias, real *c,
                              const attn_layer_rows *rows) {
    const attn_layer *l = &call->plan->layer;
    attn_product p = weight_product(call, weight, b, bias);
    p.m = call->plan->attention.problem.q_len;
    p.lengths = call->x_lens;
    p.offsets = call->heads.q_offsets;
    p.a = call->args.x;
    p.a_member = l->x_batch;
    p.a_stride = l->x_row;
    p.c = c;
    p.c_member = rows->batch;
    p.c_stride = rows->row;
    return p;
}

static attn_product project_context(const layer_call *call, int weight, const real *b, const real *bias, real *c,
                                    const attn_layer_rows *rows) {
    const attn_layer *l = &call->plan->layer;
    attn_product p = project_x(call, weight, b, bias, c, rows);
    if (!has(call, ATTN_LAYER_CROSS))
        return p;
    p.m = call->plan->new_keys;
    p.lengths = call->new_keys;
    p.offsets = call->heads.kv_offsets;
    p.a = call->args.context;
    p.a_member = l->context_batch;
    p.a_stride = l->context_row;
    return p;
}

static attn_status run_products(const layer_call *call, int count, const attn_product *products) {
    attn_resources resources = call->plan->attention.resources;
    resources.threads = call->plan->product_threads;
    return REAL(attn_run_products)(&resources, count, products, call->shared, call->plan->scratch_bytes);
}

static attn_status project(const layer_call *call) {
    const attn_layer_plan *plan = call->plan;
    const layer_args *a = &call->args;
    attn_product product[ATTN_MAX_PRODUCTS];
    int count = 0;
    product[count++] = project_x(call, ATTN_LAYER_Q, a->w_q, a->b_q, call->q, &plan->q);
    if (has(call, ATTN_LAYER_CROSS) || !has(call, ATTN_LAYER_PACKED))
        product[count++] = project_context(call, ATTN_LAYER_K, a->w_k, a->b_k, call->k, &plan->k);
    if (!has(call, ATTN_LAYER_PACKED))
        product[count++] = project_context(call, ATTN_LAYER_V, a->w_v, a->b_v, call->v, &plan->v);
    return run_products(call, count, product);
}

static attn_status project_out(const layer_call *call) {
    const attn_layer_plan *plan = call->plan;
    const attn_layer *l = &plan->layer;
    attn_product p = weight_product(call, ATTN_LAYER_O, call->args.w_o, call->args.b_o);
    p.m = plan->attention.problem.q_len;
    p.lengths = call->heads.q_lens;
    p.offsets = call->heads.q_offsets;
    p.a = call->z;
    p.a_member = plan->z.batch;
    p.a_stride = plan->z.row;
    p.c = call->args.y;
    p.c_member = l->y_batch;
    p.c_stride = l->y_row;
    return run_products(call, 1, &p);
}

/* Rows of y beyond the queries of their members. */
static void clear_padding(const layer_call *call) {
    const attn_problem *p = &call->plan->attention.problem;
    const attn_layer *l = &call->plan->layer;
    for (int64_t b = 0; call->heads.q_lens != NULL && b < p->batch; b++)
        for (int64_t i = call->heads.q_lens[b]; i < p->q_len; i++)
            for (int64_t c = 0; c < l->d_out; c++)
                call->args.y[b * l->y_batch + i * l->y_row + c] = 0;
}

/* ---- Rotary positions -------------------------------------------------------------------------------------------- */

/* Heads that turn: those of Q and K at once in self-attention, where they stand side by side in the same rows. */
typedef struct rotary_side {
    real *rows;
    const attn_layer_rows *place;
    int64_t heads, len;
    const int64_t *lengths, *offsets, *ids;
    bool after_cache; /* positions follow the keys that the member has */
} rotary_side;

static attn_status turn_members(const layer_call *call, const rotary_side *side, int64_t b, int64_t members, bool run) {
    const attn_layer_plan *plan = call->plan;
    attn_rotary_call turn = {.r = plan->rotary, .first_member = b};
    attn_rotary *r = &turn.r;
    int64_t first = side->offsets != NULL ? side->offsets[b] : 0;
    int64_t table = (r->flags & ATTN_ROTARY_HAS_TABLES) != 0 ? b * r->table_batch : 0;
    r->batch = members;
    r->heads = side->heads;
    r->rows = side->len;
    if (side->offsets != NULL)
        r->rows = side->offsets[b + 1] - first;
    else if (side->lengths != NULL)
        r->rows = side->lengths[b];
    r->x = r->y = (attn_strides){side->place->batch, r->head_dim, side->place->row};
    if (side->after_cache && (r->flags & ATTN_ROTARY_HAS_IDS) == 0 &&
        __builtin_add_overflow(r->start, call->args.cache->length[b], &r->start))
        return attn_fail(ATTN_ERR_OVERFLOW,
                         "start %" PRId64 " and the %" PRId64 " keys of member %" PRId64
                         " make a position that is no int64",
                         plan->rotary.start, call->args.cache->length[b], b);
    if (members == 0 || r->rows == 0 || r->heads == 0)
        return ATTN_OK;
    turn.x = turn.y = side->rows + (side->offsets != NULL ? first * side->place->row : b * side->place->batch);
    if (side->ids != NULL)
        turn.ids = side->ids + (side->offsets != NULL ? first : b * r->ids_batch);
    turn.cosines = call->args.cosines != NULL ? call->args.cosines + table : NULL;
    turn.sines = call->args.sines != NULL ? call->args.sines + table : NULL;
    if (members == 1)
        r->ids_batch = r->table_batch = 0; /* the pointers are this member's */
    ATTN_TRY(attn_check_rotary(r));
    ATTN_TRY(REAL(attn_prepare_rotary)(&turn));
    return run ? REAL(attn_run_rotary)(&plan->attention.resources, &turn) : ATTN_OK;
}

/* Members of one length and start together, others one by one. */
static attn_status turn_side(const layer_call *call, const rotary_side *side, bool run) {
    int64_t batch = call->plan->attention.problem.batch;
    if (side->lengths == NULL && side->offsets == NULL && !side->after_cache)
        return turn_members(call, side, 0, batch, run);
    for (int64_t b = 0; b < batch; b++)
        ATTN_TRY(turn_members(call, side, b, 1, run));
    return ATTN_OK;
}

/* run false: checks alone. */
static attn_status turn(const layer_call *call, bool run) {
    const attn_layer_plan *plan = call->plan;
    const attn_problem *p = &plan->attention.problem;
    if (!has(call, ATTN_LAYER_HAS_ROTARY))
        return ATTN_OK;
    bool cross = has(call, ATTN_LAYER_CROSS), cache = call->args.cache != NULL;
    const rotary_side x_side = {
        .rows = call->q,
        .place = &plan->q,
        .heads = cross ? p->q_heads : p->q_heads + p->kv_heads,
        .len = p->q_len,
        .lengths = call->x_lens,
        .offsets = call->heads.q_offsets,
        .ids = call->args.ids,
        .after_cache = cache && !cross,
    };
    ATTN_TRY(turn_side(call, &x_side, run));
    if (!cross)
        return ATTN_OK;
    const rotary_side context_side = {
        .rows = call->k,
        .place = &plan->k,
        .heads = p->kv_heads,
        .len = plan->new_keys,
        .lengths = call->new_keys,
        .offsets = call->heads.kv_offsets,
        .ids = call->args.kv_ids,
        .after_cache = cache,
    };
    return turn_side(call, &context_side, run);
}

/* ---- The cache --------------------------------------------------------------------------------------------------- */

static void store_keys(const layer_call *call) {
    const attn_layer_plan *plan = call->plan;
    const attn_problem *p = &plan->attention.problem;
    const attn_strides k = {plan->k.batch, p->head_dim, plan->k.row}, v = {plan->v.batch, p->v_dim, plan->v.row};
    if (call->args.cache != NULL)
        REAL(attn_cache_store_all)(call->args.cache, plan->new_keys, call->new_keys, call->k, k, call->v, v);
}

/* By the lengths in the workspace: attention has read no others. */
static void count_keys(const layer_call *call) {
    for (int64_t b = 0; call->args.cache != NULL && b < call->plan->attention.problem.batch; b++)
        call->args.cache->length[b] = call->heads.kv_lens[b];
}

/* ---- Running ----------------------------------------------------------------------------------------------------- */

static attn_status run_in(layer_call *call, void *workspace) {
    const attn_layer_plan *plan = call->plan;
    use_workspace(call, workspace);
    const attn_arrays arrays = attn_arrays_of(&call->heads);
    ATTN_TRY(attn_check_arrays(&plan->attention.problem, &arrays));
    ATTN_TRY(check_apart_from_heads(call));
    ATTN_TRY(turn(call, false));
    if (plan->empty)
        return ATTN_OK;

    ATTN_TRY(project(call));
    ATTN_TRY(turn(call, true));
    store_keys(call);
    ATTN_TRY(REAL(attn_plan_run)(&plan->attention, &call->heads, call->shared, (size_t)plan->attention.ledger.bytes));
    ATTN_TRY(project_out(call));
    clear_padding(call);
    count_keys(call);
    return ATTN_OK;
}

attn_status REAL(attn_layer_plan_run)(const attn_layer_plan *plan, const layer_args *given, void *workspace,
                                      size_t workspace_bytes) {
    if (plan == NULL)
        return attn_fail(ATTN_ERR_NULL, "plan is NULL");
    if (plan->attention.dtype != REAL_DTYPE)
        return attn_fail(ATTN_ERR_DTYPE, "a plan for %s is run in %s",
                         plan->attention.dtype == ATTN_F32 ? "float" : "double",
                         REAL_DTYPE == ATTN_F32 ? "float" : "double");
    layer_call call = {.plan = plan};
    ATTN_TRY(attn_read_layer_args(given, &call.args));
    if (call.args.attention != NULL)
        ATTN_TRY(attn_read_args(call.args.attention, &call.heads));
    call.heads.struct_size = sizeof call.heads;
    ATTN_TRY(check_given(&call));
    ATTN_TRY(check_cache(&call));
    ATTN_TRY(check_arrays(&call));
    ATTN_TRY(check_lengths(&call));
    ATTN_TRY(attn_check_workspace(&plan->ledger, workspace, workspace_bytes));
    void *own = NULL;
    if (workspace == NULL && plan->ledger.bytes > 0) {
        own = attn_allocate(&plan->attention.resources, plan->ledger.bytes);
        if (own == NULL)
            return attn_fail(ATTN_ERR_NOMEM, "the allocator has no %" PRId64 " bytes for the workspace",
                             plan->ledger.bytes);
    }
    attn_status status = run_in(&call, own != NULL ? own : workspace);
    attn_release(&plan->attention.resources, own, plan->ledger.bytes);
    return status;
}

attn_status REAL(attn_layer)(const attn_context *context, const attn_layer *layer, const layer_args *args) {
    attn_layer_plan plan;
    ATTN_TRY(attn_layer_prepare(&plan, context, layer, REAL_DTYPE));
    return REAL(attn_layer_plan_run)(&plan, args, NULL, 0);
}
