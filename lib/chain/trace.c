/* The traced call: the whole chain of one head, with every matrix that the caller asks for. */
#include <attn/chain.h>
#include <attn/position.h>
#include <stddef.h>
#include <string.h>

#include "base/ledger.h"
#include "chain/stages.h"

typedef REAL(attn_trace) trace_fields;

/* Size of attn_trace_f32 in 0.1, the first version. */
#define TRACE_FIRST_SIZE (offsetof(trace_fields, z) + sizeof(real *))
#if ATTN_REAL_BITS == 32
#define TRACE_TYPE_NAME "attn_trace_f32"
#else
#define TRACE_TYPE_NAME "attn_trace_f64"
#endif

attn_status REAL(attn_trace_init)(trace_fields *trace, size_t struct_size) {
    return attn_init_struct(TRACE_TYPE_NAME, trace, struct_size, TRACE_FIRST_SIZE, sizeof *trace);
}

enum { E, P, X, Q, K, V, QK, S, A, Z, MATRICES };

/* A matrix of the chain, [tokens, cols]. */
typedef struct trace_matrix {
    const char *name;
    int64_t cols;
    real *wanted; /* where the caller wants it, or NULL */
    bool needed;  /* wanted, or on the way to one that is */
    real *place;  /* where it is computed, when it is needed */
} trace_matrix;

/* A projection of X: the matrix it fills, by which weights. */
typedef struct trace_projection {
    int matrix;
    const char *w_name, *bias_name;
    const real *w, *bias;
} trace_projection;

enum { PROJECTIONS = 3 };

/* A traced call, with defaults and needs resolved. */
typedef struct trace_call {
    const attn_context *context;
    attn_resources resources;
    trace_fields fields;
    bool add_positions;
    int64_t start;
    double base, scale;
    trace_matrix matrix[MATRICES];
    trace_projection projection[PROJECTIONS];
    void *packed_weights;
} trace_call;

/* ---- What is asked for ------------------------------------------------------------------------------------------- */

static void list_matrices(trace_call *call) {
    const trace_fields *f = &call->fields;
    const trace_matrix matrices[MATRICES] = {
        [E] = {.name = "e", .cols = f->d_model, .wanted = f->e},
        [P] = {.name = "p", .cols = f->d_model, .wanted = f->p},
        [X] = {.name = "x", .cols = f->d_model, .wanted = f->x},
        [Q] = {.name = "q", .cols = f->d_k, .wanted = f->q},
        [K] = {.name = "k", .cols = f->d_k, .wanted = f->k},
        [V] = {.name = "v", .cols = f->d_v, .wanted = f->v},
        [QK] = {.name = "qk", .cols = f->tokens, .wanted = f->qk},
        [S] = {.name = "s", .cols = f->tokens, .wanted = f->s},
        [A] = {.name = "a", .cols = f->tokens, .wanted = f->a},
        [Z] = {.name = "z", .cols = f->d_v, .wanted = f->z},
    };
    const trace_projection projections[PROJECTIONS] = {
        {Q, "w_q", "b_q", f->w_q, f->b_q},
        {K, "w_k", "b_k", f->w_k, f->b_k},
        {V, "w_v", "b_v", f->w_v, f->b_v},
    };
    memcpy(call->matrix, matrices, sizeof matrices);
    memcpy(call->projection, projections, sizeof projections);
}

static void find_needs(trace_call *call) {
    trace_matrix *m = call->matrix;
    for (int i = 0; i < MATRICES; i++)
        m[i].needed = m[i].wanted != NULL;
    m[A].needed |= m[Z].needed;
    m[V].needed |= m[Z].needed;
    m[S].needed |= m[A].needed;
    m[Q].needed |= m[S].needed || m[QK].needed;
    m[K].needed |= m[S].needed || m[QK].needed;
    m[X].needed |= m[Q].needed || m[K].needed || m[V].needed;
    m[E].needed |= m[X].needed;
    m[P].needed |= m[X].needed && call->add_positions;
}

/* ---- Checks ------------------------------------------------------------------------------------------------------ */

static attn_status check_input(const trace_call *call, const attn_extent *input) {
    ATTN_TRY(attn_check_array(input));
    for (int i = 0; i < MATRICES; i++) {
        const trace_matrix *m = &call->matrix[i];
        attn_extent output = attn_real_matrix(m->name, m->wanted, call->fields.tokens, m->cols, m->cols);
        ATTN_TRY(attn_check_apart(&output, input));
    }
    return ATTN_OK;
}

static attn_status check_outputs(const trace_call *call) {
    attn_extent outputs[MATRICES];
    for (int i = 0; i < MATRICES; i++) {
        const trace_matrix *m = &call->matrix[i];
        outputs[i] = attn_real_matrix(m->name, m->wanted, call->fields.tokens, m->cols, m->cols);
        if (m->wanted != NULL)
            ATTN_TRY(attn_check_extent(&outputs[i]));
        for (int j = 0; j < i; j++)
            ATTN_TRY(attn_check_outputs_apart(&outputs[i], &outputs[j]));
    }
    return ATTN_OK;
}

static attn_status check_inputs(const trace_call *call) {
    const trace_fields *f = &call->fields;
    if (call->matrix[E].needed) {
        attn_extent ids = attn_extent_vector("ids", f->ids, f->tokens, sizeof *f->ids);
        attn_extent table = attn_real_matrix("table", f->table, f->vocab, f->d_model, f->d_model);
        ATTN_TRY(check_input(call, &ids));
        ATTN_TRY(check_input(call, &table));
    }
    for (int i = 0; i < PROJECTIONS; i++) {
        const trace_projection *p = &call->projection[i];
        const trace_matrix *m = &call->matrix[p->matrix];
        if (!m->needed)
            continue;
        attn_extent w = attn_real_matrix(p->w_name, p->w, f->d_model, m->cols, m->cols);
        attn_extent bias = attn_extent_vector(p->bias_name, p->bias, p->bias == NULL ? 0 : m->cols, sizeof(real));
        ATTN_TRY(check_input(call, &w));
        ATTN_TRY(check_input(call, &bias));
    }
    return ATTN_OK;
}

/* The sizes that the products hand to BLAS. */
static attn_status check_products(const trace_call *call) {
    const trace_fields *f = &call->fields;
    const trace_matrix *m = call->matrix;
    if (f->tokens == 0 || !(m[Q].needed || m[K].needed || m[V].needed))
        return ATTN_OK;
    ATTN_TRY(attn_check_fits_blas("tokens", "", f->tokens));
    ATTN_TRY(attn_check_fits_blas("d_model", "", f->d_model));
    ATTN_TRY(attn_check_fits_blas("d_k", "", f->d_k));
    ATTN_TRY(attn_check_fits_blas("d_v", "", f->d_v));
    return attn_blas_check();
}

/* All but the ids: attn_embed() is the first stage, and looks at all of them before it writes. */
static attn_status check_and_resolve(trace_call *call, const trace_fields *trace) {
    const uint64_t known_flags =
        ATTN_TRACE_HAS_SCALE | ATTN_TRACE_HAS_START | ATTN_TRACE_HAS_BASE | ATTN_TRACE_NO_POSITIONS;
    trace_fields *f = &call->fields;
    if (trace == NULL)
        return attn_fail(ATTN_ERR_NULL, "trace is NULL");
    ATTN_TRY(attn_check_struct_size(TRACE_TYPE_NAME, trace->struct_size, TRACE_FIRST_SIZE, sizeof *trace));
    memcpy(f, trace, trace->struct_size);
    if ((f->flags & ~known_flags) != 0)
        return attn_fail(ATTN_ERR_FLAG, "flags: 0x%" PRIx64 " is unknown", f->flags & ~known_flags);
    ATTN_TRY(attn_check_size("tokens", f->tokens, 0));
    ATTN_TRY(attn_check_size("vocab", f->vocab, 0));
    ATTN_TRY(attn_check_size("d_model", f->d_model, 1));
    ATTN_TRY(attn_check_size("d_k", f->d_k, 1));
    ATTN_TRY(attn_check_size("d_v", f->d_v, 0));

    call->add_positions = (f->flags & ATTN_TRACE_NO_POSITIONS) == 0;
    call->start = (f->flags & ATTN_TRACE_HAS_START) != 0 ? f->start : 0;
    call->base = (f->flags & ATTN_TRACE_HAS_BASE) != 0 ? f->base : 10000;
    call->scale = (f->flags & ATTN_TRACE_HAS_SCALE) != 0 ? f->scale : 1 / sqrt((double)f->d_k);
    ATTN_TRY(attn_check_positions(f->tokens, call->start, call->base));
    ATTN_TRY(attn_check_scale(call->scale));
    list_matrices(call);
    find_needs(call);
    ATTN_TRY(check_outputs(call));
    ATTN_TRY(check_inputs(call));
    return check_products(call);
}

/* ---- Places ------------------------------------------------------------------------------------------------------ */

/* What the largest of the projections needs, which come one after the other. */
static int64_t packed_weight_bytes(const trace_call *call) {
    int64_t tokens = call->fields.tokens, d_model = call->fields.d_model, most = 0;
    for (int i = 0; i < PROJECTIONS; i++) {
        const trace_matrix *m = &call->matrix[call->projection[i].matrix];
        int64_t threads = attn_smaller(call->resources.threads, attn_product_panels(1, tokens, m->cols, d_model));
        if (m->needed)
            most = attn_larger(most, attn_mul_saturated(attn_product_scratch(tokens, m->cols, d_model), threads));
    }
    return most;
}

/* Sets the place of every needed matrix: the caller's, the next one's where a stage works in place, or the workspace.
 * Called with a NULL base first, to book the workspace, then to grant it. */
static void set_places(trace_call *call, attn_ledger *ledger, void *base) {
    static const int scratch[] = {P, X, Q, K, V, A};
    trace_matrix *m = call->matrix;
    int piece = 0;
    int64_t packed_bytes = packed_weight_bytes(call);
    for (int i = 0; i < MATRICES; i++)
        m[i].place = m[i].wanted;
    for (size_t i = 0; i < sizeof scratch / sizeof *scratch; i++) {
        trace_matrix *here = &m[scratch[i]];
        if (!here->needed || here->wanted != NULL)
            continue;
        if (base == NULL)
            attn_ledger_book(ledger, here->name, attn_mul_saturated(call->fields.tokens, here->cols), sizeof(real), 1);
        else
            here->place = attn_ledger_grant(ledger, base, piece++, 0);
    }
    if (packed_bytes > 0 && base == NULL)
        attn_ledger_book(ledger, "packed weights", packed_bytes, 1, 1);
    else if (packed_bytes > 0)
        call->packed_weights = attn_ledger_grant(ledger, base, piece, 0);
    if (m[E].wanted == NULL)
        m[E].place = m[X].place;
    if (m[S].wanted == NULL)
        m[S].place = m[A].place;
}

/* ---- The stages -------------------------------------------------------------------------------------------------- */

static attn_status embed_into(const trace_call *call, int matrix) {
    const trace_fields *f = &call->fields;
    return REAL(attn_embed)(call->context, f->tokens, f->vocab, f->d_model, f->ids, f->table, f->d_model,
                            call->matrix[matrix].place, f->d_model);
}

static attn_status score_into(const trace_call *call, int matrix, double scale) {
    const trace_fields *f = &call->fields;
    const trace_matrix *m = call->matrix;
    return REAL(attn_scores)(call->context, f->tokens, f->tokens, f->d_k, m[Q].place, f->d_k, m[K].place, f->d_k, scale,
                             m[matrix].place, f->tokens);
}

static attn_status run_embeddings(const trace_call *call) {
    const trace_fields *f = &call->fields;
    const trace_matrix *m = call->matrix;
    if (m[E].needed)
        ATTN_TRY(embed_into(call, E));
    if (!call->add_positions) {
        if (m[P].needed)
            memset(m[P].place, 0, (size_t)f->tokens * (size_t)f->d_model * sizeof(real));
        return m[X].needed && m[X].place != m[E].place ? embed_into(call, X) : ATTN_OK;
    }
    if (m[P].needed)
        ATTN_TRY(REAL(attn_sinusoidal)(call->context, f->tokens, f->d_model, call->start, call->base, m[P].place,
                                       f->d_model));
    if (m[X].needed)
        ATTN_TRY(REAL(attn_add)(call->context, f->tokens, f->d_model, m[E].place, f->d_model, m[P].place, f->d_model,
                                m[X].place, f->d_model));
    return ATTN_OK;
}

static attn_status run_stages(const trace_call *call) {
    const trace_fields *f = &call->fields;
    const trace_matrix *m = call->matrix;
    ATTN_TRY(run_embeddings(call));
    for (int i = 0; i < PROJECTIONS; i++) {
        const trace_projection *p = &call->projection[i];
        const trace_matrix *y = &m[p->matrix];
        if (y->needed)
            ATTN_TRY(REAL(attn_project_in)(&call->resources, 1, f->tokens, f->d_model, y->cols, m[X].place, 0,
                                           f->d_model, p->w, y->cols, p->bias, y->place, 0, y->cols,
                                           call->packed_weights));
    }
    if (m[QK].needed)
        ATTN_TRY(score_into(call, QK, 1));
    if (m[S].needed)
        ATTN_TRY(score_into(call, S, call->scale));
    if (m[A].needed)
        ATTN_TRY(REAL(attn_softmax)(call->context, f->tokens, f->tokens, m[S].place, f->tokens, m[A].place, f->tokens));
    if (m[Z].needed)
        ATTN_TRY(REAL(attn_combine)(call->context, f->tokens, f->tokens, f->d_v, m[A].place, f->tokens, m[V].place,
                                    f->d_v, m[Z].place, f->d_v));
    return ATTN_OK;
}

attn_status REAL(attn_chain_trace)(const attn_context *context, const trace_fields *trace) {
    trace_call call = {.context = context};
    ATTN_TRY(attn_resolve_context(context, &call.resources));
    ATTN_TRY(check_and_resolve(&call, trace));

    attn_ledger ledger = {0};
    set_places(&call, &ledger, NULL);
    if (ledger.overflow)
        return attn_fail(ATTN_ERR_OVERFLOW, "tokens %" PRId64 ": the matrices not asked for do not fit any memory",
                         call.fields.tokens);
    void *workspace = NULL;
    if (ledger.bytes > 0) {
        workspace = attn_allocate(&call.resources, ledger.bytes);
        if (workspace == NULL)
            return attn_fail(ATTN_ERR_NOMEM, "the allocator returned NULL for %" PRId64 " bytes", ledger.bytes);
        set_places(&call, &ledger, workspace);
    }
    attn_status status = run_stages(&call);
    attn_release(&call.resources, workspace, ledger.bytes);
    return status;
}
