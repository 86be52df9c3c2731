/* Truncated singular value decomposition of W_Q W_K^T, head by head.
 *
 * W_Q = Q_1 R_1 and W_K = Q_2 R_2, so that W_Q W_K^T = Q_1 (R_1 R_2^T) Q_2^T, whose core has no more rows and columns
 * than a head: all that is done at the length of d_model are QR and products with Q.
 */
#include "weights/low_rank.h"

#include <stdio.h>

#include "blas/blas.h"
#include "weights/lapack.h"
#include "weights/matrix.h"

/* W_Q or W_K, and the factor that takes its place. Matrices of a head are column-major, `inputs` long. */
typedef struct side {
    const char *w_name, *factor_name;
    int64_t inputs, w_heads, w_row, factor_row;
    const real *w;
    real *factor;
    int64_t r_rows; /* of R: min(inputs, head_dim) */
    int factors_piece, w_piece, tau_piece, r_piece;
} side;

enum { OF_Q, OF_K, SIDES };

typedef struct low_rank_job {
    attn_task_queue queue; /* of key heads */
    attn_low_rank problem;
    side side[SIDES];
    int64_t count; /* singular values of a head */
    bool vectors;  /* factors are wanted */
    int64_t space;
    attn_ledger ledger;
    int outcome_piece, values_piece, core_piece, u_piece, vt_piece, work_piece, integers_piece;
    void *memory;
} low_rank_job;

/* What became of a key head, for the calling thread to tell: sentences belong to threads. */
typedef struct outcome {
    attn_lapack_info info;
    bool overflow;
} outcome;

/* ---- Checks ------------------------------------------------------------------------------------------------------ */

/* A matrix of heads side by side, as the caller stores it. */
static attn_extent heads_extent(const attn_low_rank *p, const char *name, const real *address, int64_t inputs,
                                int64_t heads, int64_t head_size, int64_t row_stride) {
    int64_t out = attn_mul_saturated(heads, head_size);
    bool out_in = (p->flags & ATTN_LOW_RANK_OUT_IN) != 0;
    return attn_extent_matrix(name, address, out_in ? out : inputs, out_in ? inputs : out, row_stride, sizeof(real));
}

/* True when there is a head with singular values: else LAPACK is not asked. */
static bool has_heads(const low_rank_job *job) {
    return job->problem.q_heads > 0 && job->count > 0;
}

static attn_status check_lapack(const low_rank_job *job) {
    const attn_low_rank *p = &job->problem;
    ATTN_TRY(attn_check_lapack_matrix("d_model", p->d_model, "head_dim", p->head_dim));
    ATTN_TRY(attn_check_lapack_matrix("d_context", p->d_context, "head_dim", p->head_dim));
    ATTN_TRY(attn_check_lapack_svd("head_dim", job->count));
    return attn_blas_check();
}

static attn_status check_arrays(const low_rank_job *job, const real *singular_values,
                                const attn_low_rank_error *errors) {
    const attn_low_rank *p = &job->problem;
    enum { OUTPUTS = SIDES + 2 };
    attn_extent input[SIDES],
        output[OUTPUTS] = {
            [SIDES] = attn_extent_matrix("singular_values", singular_values, singular_values == NULL ? 0 : p->q_heads,
                                         job->count, job->count, sizeof(real)),
            [SIDES + 1] = attn_extent_matrix("errors", errors, errors == NULL ? 0 : p->q_heads, 1, 1, sizeof *errors),
        };
    for (int i = 0; i < SIDES; i++) {
        const side *s = &job->side[i];
        input[i] = heads_extent(p, s->w_name, s->w, s->inputs, s->w_heads, p->head_dim, s->w_row);
        output[i] = heads_extent(p, s->factor_name, s->factor, s->inputs, p->q_heads, job->vectors ? p->rank : 0,
                                 s->factor_row);
        ATTN_TRY(attn_check_array(&input[i]));
    }
    for (int i = 0; i < OUTPUTS; i++) {
        ATTN_TRY(attn_check_array(&output[i]));
        for (int j = 0; j < SIDES; j++)
            ATTN_TRY(attn_check_apart(&output[i], &input[j]));
        for (int j = 0; j < i; j++)
            ATTN_TRY(attn_check_outputs_apart(&output[i], &output[j]));
    }
    if (has_heads(job))
        ATTN_TRY(check_lapack(job));
    for (int j = 0; j < SIDES; j++)
        ATTN_TRY(attn_check_entries(input[j].name, input[j].address, input[j].size[0], input[j].size[1],
                                    input[j].stride[0]));
    return ATTN_OK;
}

/* ---- Workspace --------------------------------------------------------------------------------------------------- */

static void raise_to(int64_t *most, int64_t value) {
    *most = *most < value ? value : *most;
}

static void book(low_rank_job *job, int workers) {
    const attn_low_rank *p = &job->problem;
    attn_ledger *ledger = &job->ledger;
    job->space = attn_lapack_gesdd_space(job->side[OF_Q].r_rows, job->side[OF_K].r_rows, job->vectors);
    for (int i = 0; i < SIDES; i++) {
        side *s = &job->side[i];
        raise_to(&job->space, attn_lapack_geqrf_space(s->inputs, p->head_dim));
        if (job->vectors)
            raise_to(&job->space, attn_lapack_ormqr_space(s->inputs, p->rank, s->r_rows));
        s->factors_piece =
            attn_ledger_book(ledger, "factor of a head", attn_mul_saturated(s->inputs, job->vectors ? p->rank : 0),
                             sizeof(real), p->q_heads);
        s->w_piece = attn_ledger_book(ledger, "weights of a head", attn_mul_saturated(s->inputs, p->head_dim),
                                      sizeof(real), workers);
        s->tau_piece = attn_ledger_book(ledger, "reflectors", s->r_rows, sizeof(real), workers);
        s->r_piece = attn_ledger_book(ledger, "R", attn_mul_saturated(s->r_rows, p->head_dim), sizeof(real), workers);
    }
    int64_t q_rows = job->side[OF_Q].r_rows, k_rows = job->side[OF_K].r_rows;
    job->outcome_piece = attn_ledger_book(ledger, "outcomes", p->kv_heads, sizeof(outcome), 1);
    job->values_piece = attn_ledger_book(ledger, "singular values of a head", job->count, sizeof(real), p->q_heads);
    job->core_piece = attn_ledger_book(ledger, "core", attn_mul_saturated(q_rows, k_rows), sizeof(real), workers);
    job->u_piece = attn_ledger_book(ledger, "U", attn_mul_saturated(q_rows, job->count), sizeof(real), workers);
    job->vt_piece = attn_ledger_book(ledger, "V^T", attn_mul_saturated(job->count, k_rows), sizeof(real), workers);
    job->work_piece = attn_ledger_book(ledger, "LAPACK", job->space, sizeof(real), workers);
    job->integers_piece =
        attn_ledger_book(ledger, "LAPACK's integers", attn_lapack_gesdd_integer_bytes(q_rows, k_rows), 1, workers);
}

static void *grant(const low_rank_job *job, int piece, int64_t copy) {
    return attn_ledger_grant(&job->ledger, job->memory, piece, copy);
}

/* ---- One head ---------------------------------------------------------------------------------------------------- */

/* QR of a head of W, and R with zeros below its diagonal, column-major [r_rows, head_dim]. */
static attn_lapack_info factor_weights(const low_rank_job *job, const side *s, int64_t head, int worker) {
    int64_t head_dim = job->problem.head_dim;
    real *w = grant(job, s->w_piece, worker), *r = grant(job, s->r_piece, worker);
    if (job->problem.flags & ATTN_LOW_RANK_OUT_IN)
        attn_copy(head_dim, s->inputs, s->w + head * head_dim * s->w_row, s->w_row, w, s->inputs);
    else
        attn_transpose(s->inputs, head_dim, s->w + head * head_dim, s->w_row, w, s->inputs);
    attn_lapack_info info = attn_lapack_geqrf(s->inputs, head_dim, w, grant(job, s->tau_piece, worker),
                                              grant(job, job->work_piece, worker), job->space);
    for (int64_t col = 0; col < head_dim; col++)
        for (int64_t row = 0; row < s->r_rows; row++)
            r[col * s->r_rows + row] = row <= col ? w[col * s->inputs + row] : 0;
    return info;
}

/* core = R_1 R_2^T, column-major, which is R_2 R_1^T in rows. False when it is not finite. */
static bool multiply_core(const low_rank_job *job, int worker, real *core) {
    int64_t q_rows = job->side[OF_Q].r_rows, k_rows = job->side[OF_K].r_rows;
    attn_gemm(true, false, k_rows, q_rows, job->problem.head_dim, 1, grant(job, job->side[OF_K].r_piece, worker),
              k_rows, grant(job, job->side[OF_Q].r_piece, worker), q_rows, 0, core, q_rows);
    for (int64_t i = 0; i < q_rows * k_rows; i++)
        if (!isfinite(core[i]))
            return false;
    return true;
}

/* The factor of a query head: Q times the first `rank` singular vectors, each times the root of its singular value.
 * Element `row` of vector `col` stands at row * row_step + col * col_step. */
static attn_lapack_info expand(const low_rank_job *job, const side *s, int64_t q_head, int worker, const real *vectors,
                               int64_t row_step, int64_t col_step) {
    const real *values = grant(job, job->values_piece, q_head);
    real *factor = grant(job, s->factors_piece, q_head);
    for (int64_t col = 0; col < job->problem.rank; col++) {
        real root = (real)sqrt((double)values[col]);
        for (int64_t row = 0; row < s->inputs; row++)
            factor[col * s->inputs + row] = row < s->r_rows ? root * vectors[row * row_step + col * col_step] : 0;
    }
    return attn_lapack_ormqr(s->inputs, job->problem.rank, s->r_rows, grant(job, s->w_piece, worker),
                             grant(job, s->tau_piece, worker), factor, grant(job, job->work_piece, worker), job->space);
}

/* W_K's QR is done; those of the query heads that share it follow one by one. */
static outcome factor_query_head(const low_rank_job *job, int64_t q_head, int worker) {
    const side *q = &job->side[OF_Q], *k = &job->side[OF_K];
    outcome result = {.info = factor_weights(job, q, q_head, worker)};
    if (result.info.info != 0)
        return result;
    real *core = grant(job, job->core_piece, worker), *values = grant(job, job->values_piece, q_head);
    real *u = job->vectors ? grant(job, job->u_piece, worker) : NULL;
    real *vt = job->vectors ? grant(job, job->vt_piece, worker) : NULL;
    result.overflow = !multiply_core(job, worker, core);
    if (result.overflow)
        return result;
    result.info = attn_lapack_gesdd(q->r_rows, k->r_rows, core, values, u, vt, grant(job, job->work_piece, worker),
                                    job->space, grant(job, job->integers_piece, worker));
    result.overflow = result.info.info == 0 && !isfinite(values[0]);
    if (job->vectors && result.info.info == 0)
        result.info = expand(job, q, q_head, worker, u, 1, q->r_rows);
    if (job->vectors && result.info.info == 0)
        result.info = expand(job, k, q_head, worker, vt, job->count, 1);
    return result;
}

static void factor_heads(void *argument, int worker) {
    low_rank_job *job = argument;
    int64_t group = job->problem.q_heads / job->problem.kv_heads;
    outcome *outcomes = grant(job, job->outcome_piece, 0);
    for (int64_t k_head; (k_head = attn_next_task(&job->queue)) >= 0;) {
        outcome result = {.info = factor_weights(job, &job->side[OF_K], k_head, worker)};
        for (int64_t i = 0; i < group && result.info.info == 0 && !result.overflow; i++)
            result = factor_query_head(job, k_head * group + i, worker);
        outcomes[k_head] = result;
    }
}

/* ---- Results ----------------------------------------------------------------------------------------------------- */

static attn_status first_failure(const low_rank_job *job) {
    const outcome *outcomes = grant(job, job->outcome_piece, 0);
    char subject[64];
    for (int64_t h = 0; h < job->problem.kv_heads; h++) {
        if (outcomes[h].overflow)
            return attn_fail(ATTN_ERR_VALUE, "W_Q W_K^T of key head %" PRId64 " is beyond the range of %s", h,
                             REAL_NAME);
        (void)snprintf(subject, sizeof subject, "key head %" PRId64, h);
        ATTN_TRY(attn_lapack_status(outcomes[h].info, subject));
    }
    return ATTN_OK;
}

static double norm_from(const real *s, int64_t first, int64_t count) {
    return first < count ? (double)s[first] * sqrt(attn_relative_squares(s + first, count - first)) : 0;
}

/* Those of the singular values may be in range where the Frobenius norm is not. */
static attn_status check_norms(const low_rank_job *job) {
    for (int64_t h = 0; h < job->problem.q_heads; h++)
        if (!isfinite(norm_from(grant(job, job->values_piece, h), 0, job->count)))
            return attn_fail(ATTN_ERR_VALUE,
                             "W_Q W_K^T of query head %" PRId64 ": its Frobenius norm is beyond the range of double",
                             h);
    return ATTN_OK;
}

static void copy_out(const low_rank_job *job, real *singular_values, attn_low_rank_error *errors) {
    const attn_low_rank *p = &job->problem;
    for (int64_t h = 0; h < p->q_heads; h++) {
        for (int i = 0; i < SIDES && job->vectors; i++) {
            const side *s = &job->side[i];
            const real *factor = grant(job, s->factors_piece, h);
            if (p->flags & ATTN_LOW_RANK_OUT_IN)
                attn_copy(p->rank, s->inputs, factor, s->inputs, s->factor + h * p->rank * s->factor_row,
                          s->factor_row);
            else
                attn_transpose(p->rank, s->inputs, factor, s->inputs, s->factor + h * p->rank, s->factor_row);
        }
        const real *values = grant(job, job->values_piece, h);
        if (singular_values != NULL)
            attn_copy(1, job->count, values, job->count, singular_values + h * job->count, job->count);
        if (errors != NULL)
            errors[h] = (attn_low_rank_error){
                .norm = (double)values[0],
                .frobenius = norm_from(values, 0, job->count),
                .spectral_error = p->rank < job->count ? (double)values[p->rank] : 0,
                .frobenius_error = norm_from(values, p->rank, job->count),
            };
    }
}

static attn_status run(const attn_resources *resources, low_rank_job *job, real *singular_values,
                       attn_low_rank_error *errors) {
    int workers = (int)attn_smaller(attn_threads_here(resources->threads), job->problem.kv_heads);
    book(job, workers);
    ATTN_TRY(attn_allocate_pieces(resources, &job->ledger, &job->memory));
    job->queue.count = job->problem.kv_heads;
    attn_status status = attn_run_blas_workers(resources, workers, factor_heads, job);
    if (status == ATTN_OK)
        status = first_failure(job);
    if (status == ATTN_OK && errors != NULL)
        status = check_norms(job);
    if (status == ATTN_OK)
        copy_out(job, singular_values, errors);
    attn_release(resources, job->memory, job->ledger.bytes);
    return status;
}

attn_status REAL(attn_low_rank)(const attn_context *context, const attn_low_rank *problem, const real *w_q,
                                const real *w_k, real *a, real *b, real *singular_values, attn_low_rank_error *errors) {
    attn_resources resources;
    low_rank_job job = {0};
    const attn_low_rank *p = &job.problem;
    ATTN_TRY(attn_resolve_context(context, &resources));
    ATTN_TRY(attn_read_low_rank(problem, &job.problem));
    if (a == NULL && b == NULL && singular_values == NULL && errors == NULL)
        return attn_fail(ATTN_ERR_NULL, "a, b, singular_values and errors are all NULL");
    job.side[OF_Q] = (side){.w_name = "w_q",
                            .factor_name = "a",
                            .inputs = p->d_model,
                            .w_heads = p->q_heads,
                            .w_row = p->w_q_row,
                            .factor_row = p->a_row,
                            .w = w_q,
                            .factor = a};
    job.side[OF_K] = (side){.w_name = "w_k",
                            .factor_name = "b",
                            .inputs = p->d_context,
                            .w_heads = p->kv_heads,
                            .w_row = p->w_k_row,
                            .factor_row = p->b_row,
                            .w = w_k,
                            .factor = b};
    for (int i = 0; i < SIDES; i++)
        job.side[i].r_rows = attn_smaller(job.side[i].inputs, p->head_dim);
    job.count = attn_low_rank_count(p);
    job.vectors = p->rank > 0 && (a != NULL || b != NULL);
    ATTN_TRY(check_arrays(&job, singular_values, errors));
    if (has_heads(&job))
        return run(&resources, &job, singular_values, errors);
    for (int64_t h = 0; h < p->q_heads && errors != NULL; h++)
        errors[h] = (attn_low_rank_error){0};
    return ATTN_OK;
}
