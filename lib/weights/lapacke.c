/* LAPACK through LAPACKE. The only file that includes lapacke.h.
 *
 * The _work functions on column-major matrices: the others allocate, copy row-major matrices to and fro, and print.
 */
#include <lapacke.h>
#include <math.h>

#include "base/checks.h"
#include "base/status.h"
#include "blas/blas.h"
#include "weights/lapack.h"
#include "weights/matrix.h"

#if ATTN_REAL_BITS == 32
#define LAPACKE(name) LAPACKE_s##name##_work
#define ROUTINE(name) "s" #name
#else
#define LAPACKE(name) LAPACKE_d##name##_work
#define ROUTINE(name) "d" #name
#endif

static bool fits(int64_t size) {
    return sizeof(lapack_int) >= sizeof size || size <= INT32_MAX;
}

static attn_status check_fits(const char *name, int64_t size) {
    if (fits(size))
        return ATTN_OK;
    return attn_fail(ATTN_ERR_OVERFLOW, "%s %" PRId64 " does not fit the integer of LAPACK", name, size);
}

/* The most that LAPACK's workspace takes for each of the fewer rows or columns: a block of 64 for both sides. */
enum { WORKSPACE_FACTOR = 128 };

attn_status attn_check_lapack_matrix(const char *rows_name, int64_t rows, const char *cols_name, int64_t cols) {
    bool few_rows = rows < cols;
    int64_t count = few_rows ? rows : cols;
    ATTN_TRY(check_fits(rows_name, rows));
    ATTN_TRY(check_fits(cols_name, cols));
    if (fits(attn_mul_saturated(WORKSPACE_FACTOR, count)))
        return ATTN_OK;
    return attn_fail(ATTN_ERR_OVERFLOW, "the workspace for %s %" PRId64 " does not fit the integer of LAPACK",
                     few_rows ? rows_name : cols_name, count);
}

/* gesdd needs 4 n^2 + 7 n. */
attn_status attn_check_lapack_svd(const char *name, int64_t size) {
    if (fits(attn_mul_saturated(4 * size, size + 2)))
        return ATTN_OK;
    return attn_fail(ATTN_ERR_OVERFLOW, "the workspace for %s %" PRId64 " does not fit the integer of LAPACK", name,
                     size);
}

attn_status attn_lapack_status(attn_lapack_info result, const char *subject) {
    if (result.info == 0)
        return ATTN_OK;
    if (result.info == LAPACK_WORK_MEMORY_ERROR || result.info == LAPACK_TRANSPOSE_MEMORY_ERROR)
        return attn_fail(ATTN_ERR_NOMEM, "%s: LAPACK's %s has no memory", subject, result.routine);
    if (result.info < 0)
        return attn_fail(ATTN_ERR_LAPACK, "%s: LAPACK's %s refused its argument %" PRId64, subject, result.routine,
                         -result.info);
    return attn_fail(ATTN_ERR_LAPACK, "%s: LAPACK's %s did not converge, info %" PRId64, subject, result.routine,
                     result.info);
}

/* The answer to a query for workspace. It comes as a `real`, so that a large one may have been rounded down. */
static int64_t space_of(real answer) {
    return (int64_t)ceil((double)answer * (1 + 2 * REAL_EPS));
}

/* Like a product, so that a fork waits for its end. */
#define CALL(name, ...)                                                                                                \
    attn_blas_begin_product();                                                                                         \
    lapack_int info = LAPACKE(name)(LAPACK_COL_MAJOR, __VA_ARGS__);                                                    \
    attn_blas_end_product();                                                                                           \
    return (attn_lapack_info) {                                                                                        \
        ROUTINE(name), info                                                                                            \
    }

int64_t attn_lapack_geqrf_space(int64_t m, int64_t n) {
    real answer = 1;
    (void)LAPACKE(geqrf)(LAPACK_COL_MAJOR, (lapack_int)m, (lapack_int)n, NULL, (lapack_int)m, NULL, &answer, -1);
    return space_of(answer);
}

attn_lapack_info attn_lapack_geqrf(int64_t m, int64_t n, real *a, real *tau, real *work, int64_t space) {
    CALL(geqrf, (lapack_int)m, (lapack_int)n, a, (lapack_int)m, tau, work, (lapack_int)space);
}

int64_t attn_lapack_orgqr_space(int64_t m, int64_t n) {
    real answer = 1;
    (void)LAPACKE(orgqr)(LAPACK_COL_MAJOR, (lapack_int)m, (lapack_int)n, (lapack_int)n, NULL, (lapack_int)m, NULL,
                         &answer, -1);
    return space_of(answer);
}

attn_lapack_info attn_lapack_orgqr(int64_t m, int64_t n, real *q, const real *tau, real *work, int64_t space) {
    CALL(orgqr, (lapack_int)m, (lapack_int)n, (lapack_int)n, q, (lapack_int)m, tau, work, (lapack_int)space);
}

int64_t attn_lapack_ormqr_space(int64_t m, int64_t n, int64_t k) {
    real answer = 1;
    (void)LAPACKE(ormqr)(LAPACK_COL_MAJOR, 'L', 'N', (lapack_int)m, (lapack_int)n, (lapack_int)k, NULL, (lapack_int)m,
                         NULL, NULL, (lapack_int)m, &answer, -1);
    return space_of(answer);
}

attn_lapack_info attn_lapack_ormqr(int64_t m, int64_t n, int64_t k, const real *reflectors, const real *tau, real *c,
                                   real *work, int64_t space) {
    CALL(ormqr, 'L', 'N', (lapack_int)m, (lapack_int)n, (lapack_int)k, reflectors, (lapack_int)m, tau, c, (lapack_int)m,
         work, (lapack_int)space);
}

/* gesdd's job: thin U and V, or no vectors. */
static char job_of(bool vectors) {
    return vectors ? 'S' : 'N';
}

int64_t attn_lapack_gesdd_space(int64_t m, int64_t n, bool vectors) {
    lapack_int least = (lapack_int)attn_smaller(m, n);
    real answer = 1;
    (void)LAPACKE(gesdd)(LAPACK_COL_MAJOR, job_of(vectors), (lapack_int)m, (lapack_int)n, NULL, (lapack_int)m, NULL,
                         NULL, (lapack_int)m, NULL, least, &answer, -1, NULL);
    return space_of(answer);
}

int64_t attn_lapack_gesdd_integer_bytes(int64_t m, int64_t n) {
    return 8 * attn_smaller(m, n) * (int64_t)sizeof(lapack_int);
}

attn_lapack_info attn_lapack_gesdd(int64_t m, int64_t n, real *a, real *s, real *u, real *vt, real *work, int64_t space,
                                   void *integers) {
    lapack_int least = (lapack_int)attn_smaller(m, n);
    CALL(gesdd, job_of(u != NULL), (lapack_int)m, (lapack_int)n, a, (lapack_int)m, s, u, (lapack_int)m, vt, least, work,
         (lapack_int)space, integers);
}
