/* The layer as a plan: checks, places in the workspace, flops. Running it: layer_run.c. */
#include "layer/layer.h"

#include <inttypes.h>
#include <string.h>

#include "base/blocks.h"
#include "base/status.h"
#include "base/text.h"
#include "blas/blas.h"
#include "chain/product_path.h"
#include "layer/cache.h"
#include "position/rotary_check.h"

/* Sizes of the structs in the first version. */
#define LAYER_FIRST_SIZE (offsetof(attn_layer, w_o_row) + sizeof(int64_t))
#define ARGS_FIRST_SIZE (offsetof(attn_layer_args_f32, attention) + sizeof(void *))

attn_status attn_layer_init(attn_layer *layer, size_t struct_size) {
    return attn_init_struct("attn_layer", layer, struct_size, LAYER_FIRST_SIZE, sizeof *layer);
}

attn_status attn_layer_args_init_f32(attn_layer_args_f32 *args, size_t struct_size) {
    return attn_init_struct("attn_layer_args_f32", args, struct_size, ARGS_FIRST_SIZE, sizeof *args);
}

attn_status attn_layer_args_init_f64(attn_layer_args_f64 *args, size_t struct_size) {
    return attn_init_struct("attn_layer_args_f64", args, struct_size, ARGS_FIRST_SIZE, sizeof *args);
}

attn_status attn_read_layer_args(const void *given, void *args) {
    _Static_assert(sizeof(attn_layer_args_f32) == sizeof(attn_layer_args_f64), "one size of args for both precisions");
    return attn_read_struct("args", "attn_layer_args", given, ARGS_FIRST_SIZE, sizeof(attn_layer_args_f32), args);
}

/* ---- Sizes ------------------------------------------------------------------------------------------------------- */

static bool has(const attn_layer *layer, uint64_t flag) {
    return (layer->flags & flag) != 0;
}

/* In self-attention keys and values come from x. */
static attn_status check_self(const attn_problem *p) {
    if (p->kv_len != p->q_len)
        return attn_fail(ATTN_ERR_SIZE, "kv_len %" PRId64 " is not q_len %" PRId64 ", as self-attention has it",
                         p->kv_len, p->q_len);
    if ((p->flags & ATTN_RAGGED) != 0 && p->total_kv != p->total_q)
        return attn_fail(ATTN_ERR_SIZE, "total_kv %" PRId64 " is not total_q %" PRId64 ", as self-attention has it",
                         p->total_kv, p->total_q);
    return ATTN_OK;
}

static attn_status check_cache_sizes(const attn_layer *layer, const attn_problem *p) {
    ATTN_TRY(attn_check_size("capacity", layer->capacity, 0));
    if ((p->flags & ATTN_RAGGED) != 0)
        return attn_fail(ATTN_ERR_FLAG, "ATTN_RAGGED: the keys of a cache are not packed");
    if (p->kv_len > layer->capacity)
        return attn_fail(ATTN_ERR_SIZE, "kv_len %" PRId64 " new keys are more than the capacity %" PRId64, p->kv_len,
                         layer->capacity);
    return ATTN_OK;
}

/* The caller's structs with sizes that fit each other; `problem` gets strides for nothing but this check. */
static attn_status read_layer(const attn_layer *given, attn_layer *layer, attn_problem *problem) {
    const uint64_t known = (ATTN_LAYER_HAS_CACHE << 1) - 1;
    ATTN_TRY(attn_read_struct("layer", "attn_layer", given, LAYER_FIRST_SIZE, sizeof *layer, layer));
    if ((layer->flags & ~known) != 0)
        return attn_fail(ATTN_ERR_FLAG, "flags: 0x%" PRIx64 " is unknown", layer->flags & ~known);
    if (layer->attention == NULL)
        return attn_fail(ATTN_ERR_NULL, "attention is NULL");
    ATTN_TRY(attn_read_problem(layer->attention, problem));
    problem->struct_size = sizeof *problem;
    attn_problem sizes = *problem;
    ATTN_TRY(attn_problem_layout_blhd(&sizes));
    ATTN_TRY(attn_check_size("d_model", layer->d_model, 1));
    ATTN_TRY(attn_check_size("d_out", layer->d_out, 0));
    if (has(layer, ATTN_LAYER_CROSS))
        ATTN_TRY(attn_check_size("d_context", layer->d_context, 1));
    else
        ATTN_TRY(check_self(problem));
    return has(layer, ATTN_LAYER_HAS_CACHE) ? check_cache_sizes(layer, problem) : ATTN_OK;
}

static const char *const array_names[ATTN_LAYER_ARRAYS] = {
    "x", "context", "w_q", "w_k", "w_v", "w_o", "b_q", "b_k", "b_v", "b_o", "ids", "kv_ids", "cosines", "sines", "y",
};

/* Columns of the heads side by side, saturated. */
typedef struct layer_columns {
    int64_t q, k, v, z;
} layer_columns;

static layer_columns columns_of(const attn_problem *p) {
    return (layer_columns){
        .q = attn_mul_saturated(p->q_heads, p->head_dim),
        .k = attn_mul_saturated(p->kv_heads, p->head_dim),
        .v = attn_mul_saturated(p->kv_heads, p->v_dim),
        .z = attn_mul_saturated(p->q_heads, p->v_dim),
    };
}

static void set_weights(const attn_layer *layer, const attn_problem *p, attn_layer_weight *weight) {
    layer_columns n = columns_of(p);
    bool packed = has(layer, ATTN_LAYER_PACKED), cross = has(layer, ATTN_LAYER_CROSS);
    int64_t kv_in = cross ? layer->d_context : layer->d_model;
    int64_t kv = attn_add_saturated(n.k, n.v);
    int64_t q = packed && !cross ? attn_add_saturated(n.q, kv) : n.q;
    int64_t k = !packed ? n.k : cross ? kv : 0;
    int64_t v = packed ? 0 : n.v;
    const char *const *names = array_names + ATTN_LAYER_W_Q;
    weight[ATTN_LAYER_Q] = (attn_layer_weight){names[ATTN_LAYER_Q], layer->d_model, q, layer->w_q_row};
    weight[ATTN_LAYER_K] = (attn_layer_weight){names[ATTN_LAYER_K], kv_in, k, layer->w_k_row};
    weight[ATTN_LAYER_V] = (attn_layer_weight){names[ATTN_LAYER_V], kv_in, v, layer->w_v_row};
    weight[ATTN_LAYER_O] = (attn_layer_weight){names[ATTN_LAYER_O], n.z, layer->d_out, layer->w_o_row};
}

attn_status attn_layer_layout_dense(attn_layer *given) {
    attn_layer layer;
    attn_problem p;
    attn_layer_weight weight[ATTN_LAYER_WEIGHTS];
    ATTN_TRY(read_layer(given, &layer, &p));
    set_weights(&layer, &p, weight);
    layer.x_row = layer.d_model;
    layer.x_batch = attn_mul_saturated(p.q_len, layer.d_model);
    if (has(&layer, ATTN_LAYER_CROSS)) {
        layer.context_row = layer.d_context;
        layer.context_batch = attn_mul_saturated(p.kv_len, layer.d_context);
    }
    layer.y_row = layer.d_out;
    layer.y_batch = attn_mul_saturated(p.q_len, layer.d_out);
    int64_t *const rows[] = {&layer.w_q_row, &layer.w_k_row, &layer.w_v_row, &layer.w_o_row};
    for (int i = 0; i < ATTN_LAYER_WEIGHTS; i++) {
        *rows[i] = has(&layer, ATTN_LAYER_OUT_IN) ? weight[i].in : weight[i].columns;
        if (*rows[i] == INT64_MAX)
            return attn_fail(ATTN_ERR_OVERFLOW, "%s: a dense array of these sizes has strides beyond 63 bits",
                             weight[i].name);
    }
    bool context = has(&layer, ATTN_LAYER_CROSS) && layer.context_batch == INT64_MAX;
    if (p.batch > 0 && (layer.x_batch == INT64_MAX || context || layer.y_batch == INT64_MAX))
        return attn_fail(ATTN_ERR_OVERFLOW, "%s: a dense array of these sizes has strides beyond 63 bits",
                         layer.x_batch == INT64_MAX ? "x"
                         : context                  ? "context"
                                                    : "y");
    memcpy(given, &layer, given->struct_size);
    return ATTN_OK;
}

/* ---- Arrays ------------------------------------------------------------------------------------------------------ */

static attn_extent rows_extent(const attn_layer_plan *plan, int64_t rows, int64_t total, int64_t cols, int64_t batch,
                               int64_t row) {
    const attn_problem *p = &plan->attention.problem;
    bool ragged = attn_layer_ragged(plan);
    bool one = ragged || p->batch == 1;
    return attn_extent_heads(NULL, NULL, ragged ? 1 : p->batch, 1, ragged ? total : rows, cols,
                             (attn_strides){.batch = one ? 0 : batch, .row = row}, 1);
}

static int64_t weight_rows(const attn_layer_plan *plan, const attn_layer_weight *weight) {
    return attn_layer_has(plan, ATTN_LAYER_OUT_IN) ? weight->columns : weight->in;
}

attn_extent attn_layer_extent(const attn_layer_plan *plan, int array, const void *address) {
    const attn_problem *p = &plan->attention.problem;
    const attn_layer *l = &plan->layer;
    bool cross = attn_layer_has(plan, ATTN_LAYER_CROSS);
    uint64_t rotary = attn_layer_has(plan, ATTN_LAYER_HAS_ROTARY) ? plan->rotary.flags : 0;
    attn_extent e = {.dims = 1};
    int64_t element_bytes = plan->attention.dtype == ATTN_F32 ? sizeof(float) : sizeof(double);
    switch (array) {
    case ATTN_LAYER_X:
        e = rows_extent(plan, p->q_len, p->total_q, l->d_model, l->x_batch, l->x_row);
        break;
    case ATTN_LAYER_CONTEXT:
        if (cross)
            e = rows_extent(plan, plan->new_keys, p->total_kv, l->d_context, l->context_batch, l->context_row);
        break;
    case ATTN_LAYER_W_Q:
    case ATTN_LAYER_W_K:
    case ATTN_LAYER_W_V:
    case ATTN_LAYER_W_O: {
        const attn_layer_weight *w = &plan->weight[array - ATTN_LAYER_W_Q];
        bool out_in = attn_layer_has(plan, ATTN_LAYER_OUT_IN);
        e = attn_extent_matrix(NULL, NULL, weight_rows(plan, w), out_in ? w->in : w->columns, w->row, 1);
        break;
    }
    case ATTN_LAYER_B_Q:
    case ATTN_LAYER_B_K:
    case ATTN_LAYER_B_V:
    case ATTN_LAYER_B_O:
        e = attn_extent_vector(NULL, NULL, address != NULL ? plan->weight[array - ATTN_LAYER_B_Q].columns : 0, 1);
        break;
    case ATTN_LAYER_IDS:
    case ATTN_LAYER_KV_IDS:
        element_bytes = sizeof(int64_t);
        if ((rotary & ATTN_ROTARY_HAS_IDS) != 0 && (array == ATTN_LAYER_IDS || cross)) {
            bool own = array == ATTN_LAYER_IDS;
            int64_t rows = own ? p->q_len : plan->new_keys, total = own ? p->total_q : p->total_kv;
            bool ragged = attn_layer_ragged(plan);
            e = attn_extent_heads(NULL, NULL, ragged ? 1 : p->batch, 1, 1, ragged ? total : rows,
                                  (attn_strides){.batch = ragged ? 0 : plan->rotary.ids_batch}, 1);
        }
        break;
    case ATTN_LAYER_COSINES:
    case ATTN_LAYER_SINES:
        if ((rotary & ATTN_ROTARY_HAS_TABLES) != 0)
            e = attn_extent_heads(NULL, NULL, p->batch, 1, plan->rotary.table_rows, plan->rotary.rotary_dim / 2,
                                  (attn_strides){.batch = plan->rotary.table_batch, .row = plan->rotary.table_row}, 1);
        break;
    default:
        e = rows_extent(plan, p->q_len, p->total_q, l->d_out, l->y_batch, l->y_row);
        break;
    }
    e.name = array_names[array];
    e.address = address;
    e.element_bytes = element_bytes;
    return e;
}

static attn_status check_strides(const attn_layer_plan *plan) {
    for (int array = 0; array < ATTN_LAYER_ARRAYS; array++) {
        attn_extent e = attn_layer_extent(plan, array, NULL);
        ATTN_TRY(attn_check_extent(&e));
        if (array == ATTN_LAYER_Y)
            ATTN_TRY(attn_check_no_self_overlap(&e));
    }
    return ATTN_OK;
}

/* Strides that lead to no element are 0 from here on. */
static void settle_strides(attn_layer_plan *plan) {
    attn_layer *l = &plan->layer;
    attn_rotary *r = &plan->rotary;
    const struct {
        int array;
        int64_t *batch, *row;
    } rows[] = {
        {ATTN_LAYER_X, &l->x_batch, &l->x_row},
        {ATTN_LAYER_CONTEXT, &l->context_batch, &l->context_row},
        {ATTN_LAYER_Y, &l->y_batch, &l->y_row},
        {ATTN_LAYER_COSINES, &r->table_batch, &r->table_row},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        attn_extent e = attn_layer_extent(plan, rows[i].array, NULL);
        if (e.dims != ATTN_MAX_DIMS)
            continue; /* the layer has no such array */
        attn_strides settled = attn_settled_strides(e);
        *rows[i].batch = settled.batch;
        *rows[i].row = settled.row;
    }
    for (int i = 0; i < ATTN_LAYER_WEIGHTS; i++) {
        attn_extent e = attn_layer_extent(plan, ATTN_LAYER_W_Q + i, NULL);
        attn_settle_strides(&e);
        plan->weight[i].row = e.stride[0];
    }
    attn_extent ids = attn_layer_extent(plan, ATTN_LAYER_IDS, NULL);
    attn_extent kv_ids = attn_layer_extent(plan, ATTN_LAYER_KV_IDS, NULL);
    if (attn_extent_empty(&ids) && attn_extent_empty(&kv_ids)) /* they share one stride */
        r->ids_batch = 0;
}

/* Of `rows` rows. */
static attn_status check_row_stride(const char *name, int64_t rows, int64_t stride) {
    return attn_check_fits_blas(name, ": row stride", attn_used_stride(rows, stride, 0));
}

/* True for the weights that the context meets, not x. */
static bool is_of_context(const attn_layer_plan *plan, int weight) {
    return attn_layer_has(plan, ATTN_LAYER_CROSS) && (weight == ATTN_LAYER_K || weight == ATTN_LAYER_V);
}

/* What goes to CBLAS as it is; rows and columns are cut into blocks. No rows go there at all. */
static attn_status check_blas_integers(const attn_layer_plan *plan) {
    const attn_layer *l = &plan->layer;
    bool cross = attn_layer_has(plan, ATTN_LAYER_CROSS);
    int64_t rows = plan->attention.problem.q_len, context_rows = cross ? plan->new_keys : 0;
    if (plan->empty)
        return ATTN_OK;
    if (rows > 0) {
        ATTN_TRY(attn_check_fits_blas("d_model", "", l->d_model));
        ATTN_TRY(attn_check_fits_blas("q_heads * v_dim", "", plan->weight[ATTN_LAYER_O].in));
    }
    ATTN_TRY(check_row_stride("x", rows, l->x_row));
    ATTN_TRY(check_row_stride("y", rows, l->y_row));
    if (context_rows > 0)
        ATTN_TRY(attn_check_fits_blas("d_context", "", l->d_context));
    ATTN_TRY(check_row_stride("context", context_rows, l->context_row));
    ATTN_TRY(check_row_stride("projected rows of the context", context_rows, plan->k.row));
    for (int i = 0; i < ATTN_LAYER_WEIGHTS; i++) {
        const attn_layer_weight *w = &plan->weight[i];
        if (w->columns > 0 && (is_of_context(plan, i) ? context_rows : rows) > 0)
            ATTN_TRY(check_row_stride(w->name, weight_rows(plan, w), w->row));
    }
    ATTN_TRY(check_row_stride("projected rows", rows, plan->q.row));
    ATTN_TRY(check_row_stride("rows of Z", rows, plan->z.row));
    return attn_blas_check();
}

/* ---- Workspace --------------------------------------------------------------------------------------------------- */

/* Elements from one row to the next: whole cache lines, an odd number of them, so that the rows of a head do not all
 * fall into the same few sets of a cache. */
static int64_t padded_row(int64_t columns, int64_t real_bytes) {
    int64_t line = ATTN_LEDGER_ALIGN / real_bytes;
    int64_t lines = attn_blocks_of(columns, line);
    return attn_mul_saturated(lines + (lines % 2 == 0), line);
}

/* Rows [batch, len, columns], or those of all ragged members. */
static attn_layer_rows book_rows(attn_layer_plan *plan, const char *name, int64_t len, int64_t total, int64_t columns,
                                 int64_t real_bytes) {
    const attn_problem *p = &plan->attention.problem;
    int64_t row = padded_row(columns, real_bytes);
    int64_t rows = attn_layer_ragged(plan) ? total : attn_mul_saturated(p->batch, len);
    return (attn_layer_rows){
        .piece = attn_ledger_book(&plan->ledger, name, attn_mul_saturated(rows, row), real_bytes, !plan->empty),
        .batch = attn_mul_saturated(len, row),
        .row = row,
    };
}

static attn_layer_rows columns_from(attn_layer_rows rows, int64_t first) {
    rows.first = first;
    return rows;
}

static attn_strides heads_of(const attn_layer_rows *rows, int64_t size) {
    return (attn_strides){.batch = rows->batch, .head = size, .row = rows->row};
}

/* Books all but attention's own workspace, and gives attention the strides of what it reads and writes. `p` is the
 * caller's problem as it was read. */
static void place_rows(attn_layer_plan *plan, attn_problem *p, int64_t real_bytes) {
    layer_columns n = columns_of(p);
    int64_t kv = attn_add_saturated(n.k, n.v);
    plan->attention.problem = *p; /* sizes for the books; attn_plan_prepare() does the rest */
    if (attn_layer_has(plan, ATTN_LAYER_CROSS)) {
        plan->q = book_rows(plan, "projected rows of x", p->q_len, p->total_q, n.q, real_bytes);
        plan->k = book_rows(plan, "projected rows of the context", p->kv_len, p->total_kv, kv, real_bytes);
    } else {
        plan->q = book_rows(plan, "projected rows", p->q_len, p->total_q, attn_add_saturated(n.q, kv), real_bytes);
        plan->k = columns_from(plan->q, n.q);
    }
    plan->v = columns_from(plan->k, attn_add_saturated(plan->k.first, n.k));
    plan->z = book_rows(plan, "rows of Z", p->q_len, p->total_q, n.z, real_bytes);
    plan->lengths =
        attn_ledger_book(&plan->ledger, "lengths", attn_mul_saturated(p->batch, 2), sizeof(int64_t), !plan->empty);
    p->q = heads_of(&plan->q, p->head_dim);
    p->k = heads_of(&plan->k, p->head_dim);
    p->v = heads_of(&plan->v, p->v_dim);
    p->out = heads_of(&plan->z, p->v_dim);
    if (attn_layer_has(plan, ATTN_LAYER_HAS_CACHE)) {
        const attn_cache_sizes sizes = {
            .batch = p->batch,
            .kv_heads = p->kv_heads,
            .capacity = plan->layer.capacity,
            .head_dim = p->head_dim,
            .v_dim = p->v_dim,
        };
        attn_cache_layout layout = attn_lay_out_cache(&sizes, real_bytes);
        p->kv_len = plan->layer.capacity;
        p->k = layout.k_strides;
        p->v = layout.v_strides;
    }
}

/* What the products ask for, none of which runs while attention does: bytes of a thread, and threads. */
static void size_scratch(attn_layer_plan *plan) {
    const attn_problem *p = &plan->attention.problem;
    int64_t rows = attn_larger(p->q_len, plan->new_keys), panels = 0;
    for (int i = 0; i < ATTN_LAYER_WEIGHTS; i++) {
        const attn_layer_weight *w = &plan->weight[i];
        plan->scratch_bytes = attn_larger(plan->scratch_bytes, attn_product_scratch(rows, w->columns, w->in));
        panels = attn_add_saturated(panels, attn_product_panels(p->batch, rows, w->columns, w->in));
    }
    plan->product_threads = plan->attention.resources.threads;
    if (panels > 0)
        plan->product_threads = (int)attn_smaller(plan->product_threads, panels);
}

static attn_status prepare_rotary(attn_layer_plan *plan, const attn_problem *p) {
    attn_rotary *r = &plan->rotary;
    if (plan->layer.rotary == NULL)
        return attn_fail(ATTN_ERR_NULL, "ATTN_LAYER_HAS_ROTARY is set, but rotary is NULL");
    ATTN_TRY(attn_read_rotary(plan->layer.rotary, r));
    r->struct_size = sizeof *r;
    r->batch = r->heads = 1;
    r->rows = attn_smaller(p->q_len, p->kv_len); /* positions are checked in each run */
    r->head_dim = p->head_dim;
    r->x = r->y = (attn_strides){0, 0, p->head_dim};
    return attn_check_rotary(r);
}

/* Rows of the longest member: none of ragged ones is longer than all together, but intermediates have all rows. */
static int64_t most_rows(const attn_problem *p, int64_t len, int64_t total) {
    bool ragged = (p->flags & ATTN_RAGGED) != 0 && (p->flags & ATTN_WANT_ANY) == 0;
    return ragged ? attn_smaller(len, total) : len;
}

/* What a plan knows from sizes and flags alone; `problem` is the caller's. */
static attn_status begin_plan(attn_layer_plan *plan, const attn_layer *layer, attn_problem *problem) {
    memset(plan, 0, sizeof *plan);
    ATTN_TRY(read_layer(layer, &plan->layer, problem));
    plan->new_keys = problem->kv_len;
    plan->empty = problem->batch == 0 || (most_rows(problem, problem->q_len, problem->total_q) == 0 &&
                                          most_rows(problem, problem->kv_len, problem->total_kv) == 0);
    set_weights(&plan->layer, problem, plan->weight);
    return ATTN_OK;
}

/* When the problem is checked: of ragged members none is longer than all together. */
static void limit_new_keys(attn_layer_plan *plan) {
    if (attn_layer_ragged(plan))
        plan->new_keys = plan->attention.problem.kv_len;
}

attn_status attn_layer_prepare(attn_layer_plan *plan, const attn_context *context, const attn_layer *layer,
                               attn_dtype dtype) {
    attn_problem problem;
    if (dtype != ATTN_F32 && dtype != ATTN_F64)
        return attn_fail(ATTN_ERR_DTYPE, "dtype %d is none", (int)dtype);
    ATTN_TRY(begin_plan(plan, layer, &problem));
    if (attn_layer_has(plan, ATTN_LAYER_HAS_ROTARY))
        ATTN_TRY(prepare_rotary(plan, &problem));
    int64_t real_bytes = dtype == ATTN_F32 ? sizeof(float) : sizeof(double);
    place_rows(plan, &problem, real_bytes);
    if (plan->ledger.overflow)
        return attn_fail(ATTN_ERR_OVERFLOW, "the workspace of these sizes does not fit the address space");
    ATTN_TRY(attn_plan_prepare(&plan->attention, context, &problem, dtype));
    limit_new_keys(plan);
    ATTN_TRY(check_strides(plan));
    settle_strides(plan);
    ATTN_TRY(check_blas_integers(plan));
    size_scratch(plan);
    int64_t packed = attn_mul_saturated(plan->scratch_bytes, plan->product_threads);
    plan->shared = attn_ledger_book(&plan->ledger, "attention, packed weights",
                                    attn_larger(plan->attention.ledger.bytes, packed), 1, !plan->empty);
    if (plan->ledger.overflow || plan->ledger.bytes > PTRDIFF_MAX - 1)
        return attn_fail(ATTN_ERR_OVERFLOW, "the workspace of these sizes does not fit the address space");
    return ATTN_OK;
}

/* ---- Public ------------------------------------------------------------------------------------------------------ */

attn_status attn_layer_plan_create(const attn_context *context, const attn_layer *layer, attn_dtype dtype,
                                   attn_layer_plan **plan) {
    if (plan == NULL)
        return attn_fail(ATTN_ERR_NULL, "plan is NULL");
    attn_layer_plan prepared;
    ATTN_TRY(attn_layer_prepare(&prepared, context, layer, dtype));
    attn_layer_plan *made = attn_allocate(&prepared.attention.resources, sizeof *made);
    if (made == NULL)
        return attn_fail(ATTN_ERR_NOMEM, "the allocator has no %zu bytes for a plan", sizeof *made);
    *made = prepared;
    *plan = made;
    return ATTN_OK;
}

void attn_layer_plan_destroy(attn_layer_plan *plan) {
    if (plan == NULL)
        return;
    attn_resources resources = plan->attention.resources;
    attn_release(&resources, plan, sizeof *plan);
}

attn_status attn_layer_plan_workspace(const attn_layer_plan *plan, size_t *bytes) {
    if (plan == NULL)
        return attn_fail(ATTN_ERR_NULL, "plan is NULL");
    if (bytes == NULL)
        return attn_fail(ATTN_ERR_NULL, "bytes is NULL");
    *bytes = (size_t)plan->ledger.bytes;
    return ATTN_OK;
}

static void describe_options(const attn_layer_plan *plan, attn_text *out) {
    const attn_layer *l = &plan->layer;
    attn_add_text(out, "layer: d_model %" PRId64 ", d_out %" PRId64, l->d_model, l->d_out);
    if (attn_layer_has(plan, ATTN_LAYER_CROSS))
        attn_add_text(out, ", d_context %" PRId64, l->d_context);
    attn_add_text(out, ", weights [%s], %s, %s-attention\n",
                  attn_layer_has(plan, ATTN_LAYER_OUT_IN) ? "out, in" : "in, out",
                  attn_layer_has(plan, ATTN_LAYER_PACKED) ? "packed" : "apart",
                  attn_layer_has(plan, ATTN_LAYER_CROSS) ? "cross" : "self");
    if (attn_layer_has(plan, ATTN_LAYER_HAS_ROTARY)) {
        const attn_rotary *r = &plan->rotary;
        attn_add_text(out, "rotary positions: %s, %" PRId64 " of %" PRId64 " elements of a head, %s, %s\n",
                      r->pairing == ATTN_ROTARY_INTERLEAVED ? "interleaved" : "half-split", r->rotary_dim, r->head_dim,
                      (r->flags & ATTN_ROTARY_HAS_TABLES) != 0 ? "tables" : "own angles",
                      (r->flags & ATTN_ROTARY_HAS_IDS) != 0        ? "by ids"
                      : attn_layer_has(plan, ATTN_LAYER_HAS_CACHE) ? "after the keys of the cache"
                                                                   : "from start");
    }
    if (attn_layer_has(plan, ATTN_LAYER_HAS_CACHE))
        attn_add_text(out, "cache: capacity %" PRId64 ", up to %" PRId64 " new keys of a member\n", l->capacity,
                      plan->new_keys);
}

static void describe_product(const attn_layer_plan *plan, int weight, attn_text *out) {
    const attn_layer_weight *w = &plan->weight[weight];
    if (w->columns == 0)
        return;
    int64_t rows = is_of_context(plan, weight) ? plan->new_keys : plan->attention.problem.q_len;
    attn_add_text(out, "product %s: %" PRId64 " rows of a member, %" PRId64 " inputs, %" PRId64 " columns, ", w->name,
                  rows, w->in, w->columns);
    attn_add_product_way(out, rows, w->columns, w->in, attn_layer_has(plan, ATTN_LAYER_OUT_IN));
    attn_add_text(out, "\n");
}

attn_status attn_layer_plan_describe(const attn_layer_plan *plan, char *text, size_t size, size_t *needed) {
    if (plan == NULL)
        return attn_fail(ATTN_ERR_NULL, "plan is NULL");
    if (text == NULL && size > 0)
        return attn_fail(ATTN_ERR_NULL, "text is NULL with a size of %zu", size);
    attn_text out = {text, size, 0};
    describe_options(plan, &out);
    for (int weight = 0; weight < ATTN_LAYER_WEIGHTS; weight++)
        describe_product(plan, weight, &out);
    attn_add_text(&out, "layer workspace: %" PRId64 " bytes\n", plan->ledger.bytes);
    for (int i = 0; i < plan->ledger.pieces; i++)
        if (!attn_ledger_is_empty(&plan->ledger, i))
            attn_add_text(&out, "layer workspace of %s: %" PRId64 " bytes\n", plan->ledger.piece[i].name,
                          plan->ledger.piece[i].bytes);
    size_t left = out.used < size ? size - out.used : 0, more = 0;
    ATTN_TRY(attn_plan_describe(&plan->attention, left > 0 ? text + out.used : NULL, left, &more));
    if (needed != NULL)
        *needed = out.used + more;
    return ATTN_OK;
}

/* The flops of one member, or of all when their lengths are full: `members` of them. */
static attn_status add_flops(const attn_layer_plan *plan, int64_t members, int64_t q_len, int64_t new_keys,
                             int64_t past, double *flops) {
    attn_problem heads = plan->attention.problem;
    int64_t keys = attn_layer_has(plan, ATTN_LAYER_HAS_CACHE) ? past + new_keys : new_keys;
    double attention;
    heads.batch = 1;
    heads.flags &= ~ATTN_RAGGED;
    ATTN_TRY(attn_problem_flops(&heads, &q_len, &keys, &attention));
    bool cross = attn_layer_has(plan, ATTN_LAYER_CROSS);
    double x_rows = (double)(cross || q_len > new_keys ? q_len : new_keys);
    double context_rows = cross ? (double)new_keys : x_rows;
    const double rows[] = {[ATTN_LAYER_Q] = x_rows,
                           [ATTN_LAYER_K] = context_rows,
                           [ATTN_LAYER_V] = context_rows,
                           [ATTN_LAYER_O] = (double)q_len};
    for (int i = 0; i < ATTN_LAYER_WEIGHTS; i++)
        attention += 2 * rows[i] * (double)plan->weight[i].in * (double)plan->weight[i].columns;
    *flops += (double)members * attention;
    return ATTN_OK;
}

attn_status attn_layer_flops(const attn_layer *layer, const int64_t *q_lens, const int64_t *kv_lens,
                             const int64_t *past, double *flops) {
    attn_layer_plan plan;
    attn_problem problem;
    ATTN_TRY(begin_plan(&plan, layer, &problem));
    if (attn_layer_has(&plan, ATTN_LAYER_HAS_CACHE))
        problem.kv_len = plan.layer.capacity;
    ATTN_TRY(attn_problem_layout_blhd(&problem)); /* its own strides do not count */
    const attn_problem *p = &plan.attention.problem;
    ATTN_TRY(attn_check_problem(&problem, &plan.attention.problem));
    limit_new_keys(&plan);
    if (flops == NULL)
        return attn_fail(ATTN_ERR_NULL, "flops is NULL");
    if (kv_lens == NULL && !attn_layer_has(&plan, ATTN_LAYER_CROSS))
        kv_lens = q_lens;
    ATTN_TRY(attn_check_lengths("q_lens", q_lens, p->batch, "q_len", p->q_len));
    ATTN_TRY(attn_check_lengths("kv_lens", kv_lens, p->batch, "kv_len", plan.new_keys));
    if (past != NULL && !attn_layer_has(&plan, ATTN_LAYER_HAS_CACHE))
        return attn_fail(ATTN_ERR_FLAG, "past is given without ATTN_LAYER_HAS_CACHE");
    for (int64_t b = 0; past != NULL && b < p->batch; b++) {
        int64_t room = plan.layer.capacity - (kv_lens != NULL ? kv_lens[b] : plan.new_keys);
        if (past[b] < 0 || past[b] > room)
            return attn_fail(ATTN_ERR_LENGTH,
                             "past[%" PRId64 "] %" PRId64 " is outside 0..%" PRId64 ", what the capacity leaves to it",
                             b, past[b], room);
    }
    double sum = 0;
    bool all_alike = q_lens == NULL && kv_lens == NULL && past == NULL;
    for (int64_t b = 0; b < (all_alike ? p->batch > 0 : p->batch); b++)
        ATTN_TRY(add_flops(&plan, all_alike ? p->batch : 1, q_lens != NULL ? q_lens[b] : p->q_len,
                           kv_lens != NULL ? kv_lens[b] : plan.new_keys, past != NULL ? past[b] : 0, &sum));
    *flops = sum;
    return ATTN_OK;
}
