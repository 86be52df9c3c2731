/* Random orthogonal matrices by QR of a normal one. */
#include "blas/blas.h"
#include "weights/fill.h"
#include "weights/lapack.h"
#include "weights/matrix.h"

/* G is column-major [length, count]: its columns become the columns of a tall W, or the rows of a wide or square
 * one. */
typedef struct orthogonal_work {
    int64_t length, count, space;
    attn_ledger ledger;
    int g, tau, work;
} orthogonal_work;

static orthogonal_work book_work(int64_t rows, int64_t cols) {
    orthogonal_work w = {.length = rows > cols ? rows : cols, .count = attn_smaller(rows, cols)};
    int64_t geqrf = attn_lapack_geqrf_space(w.length, w.count), orgqr = attn_lapack_orgqr_space(w.length, w.count);
    w.space = geqrf > orgqr ? geqrf : orgqr;
    w.g = attn_ledger_book(&w.ledger, "columns", attn_mul_saturated(w.length, w.count), sizeof(real), 1);
    w.tau = attn_ledger_book(&w.ledger, "reflectors, then factors", 2 * w.count, sizeof(real), 1);
    w.work = attn_ledger_book(&w.ledger, "LAPACK", w.space, sizeof(real), 1);
    return w;
}

/* Q of G in its place, and for each column the gain with the sign of R's diagonal: without the signs the distribution
 * would be that of LAPACK's choice of them. */
static attn_status orthogonalize(const orthogonal_work *w, real *g, real *tau, real *factor, real *work, real gain) {
    ATTN_TRY(attn_lapack_status(attn_lapack_geqrf(w->length, w->count, g, tau, work, w->space), "w"));
    for (int64_t j = 0; j < w->count; j++)
        factor[j] = g[j * w->length + j] < 0 ? -gain : gain;
    return attn_lapack_status(attn_lapack_orgqr(w->length, w->count, g, tau, work, w->space), "w");
}

static attn_status make_orthogonal(const attn_resources *resources, const attn_fill *fill, real gain) {
    orthogonal_work w = book_work(fill->rows, fill->cols);
    void *memory;
    ATTN_TRY(attn_allocate_pieces(resources, &w.ledger, &memory));
    real *g = attn_ledger_grant(&w.ledger, memory, w.g, 0);
    real *tau = attn_ledger_grant(&w.ledger, memory, w.tau, 0);
    real *factor = tau + w.count;
    attn_fill columns = *fill;
    columns.rows = w.count;
    columns.cols = columns.row_stride = w.length;
    columns.x = g;
    attn_status status = attn_run_fill(resources, &columns);
    if (status == ATTN_OK) {
        attn_blas_guard guard = {0};
        attn_blas_enter(&guard);
        status = orthogonalize(&w, g, tau, factor, attn_ledger_grant(&w.ledger, memory, w.work, 0), gain);
        attn_blas_leave(&guard);
    }
    if (status == ATTN_OK) {
        for (int64_t j = 0; j < w.count; j++)
            for (int64_t i = 0; i < w.length; i++)
                g[j * w.length + i] *= factor[j];
        if (fill->rows > fill->cols)
            attn_transpose(w.count, w.length, g, w.length, fill->x, fill->row_stride);
        else
            attn_copy(w.count, w.length, g, w.length, fill->x, fill->row_stride);
    }
    attn_release(resources, memory, w.ledger.bytes);
    return status;
}

attn_status REAL(attn_orthogonal)(const attn_context *context, int64_t rows, int64_t cols, double gain, uint64_t seed,
                                  uint64_t stream, real *w, int64_t row_stride) {
    attn_resources resources;
    const attn_fill fill = {
        .rows = rows,
        .cols = cols,
        .row_stride = row_stride,
        .numbers = attn_random_normals,
        .stream = {seed, stream},
        .factor = 1,
        .x = w,
    };
    ATTN_TRY(attn_check_fill(context, "w", &fill, &resources));
    ATTN_TRY(attn_check_gain(gain));
    if (rows == 0 || cols == 0)
        return ATTN_OK;
    ATTN_TRY(attn_check_lapack_matrix("rows", rows, "cols", cols));
    ATTN_TRY(attn_blas_check());
    return make_orthogonal(&resources, &fill, (real)gain);
}
