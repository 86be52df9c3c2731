/* LAPACK in `real`, on column-major matrices in memory of the caller: nothing is allocated. Around a routine the caller
 * holds the BLAS guard, not around its query. Sizes fit LAPACK's integer: attn_check_lapack_matrix(). */
#ifndef ATTN_LIB_LAPACK_H
#define ATTN_LIB_LAPACK_H

#include <attn/base.h>
#include <stdbool.h>

#include "base/real.h"

/* ATTN_ERR_OVERFLOW when the sizes of a matrix, or the workspace for it, do not fit LAPACK's integer. */
#define attn_check_lapack_matrix REAL(attn_check_lapack_matrix)
attn_status attn_check_lapack_matrix(const char *rows_name, int64_t rows, const char *cols_name, int64_t cols);

/* The same for singular vectors of a square matrix. */
#define attn_check_lapack_svd REAL(attn_check_lapack_svd)
attn_status attn_check_lapack_svd(const char *name, int64_t size);

/* A call and its info: 0, or what LAPACK says about its failure. */
typedef struct attn_lapack_info {
    const char *routine;
    int64_t info;
} attn_lapack_info;

/* ATTN_OK for info 0; else ATTN_ERR_LAPACK, or ATTN_ERR_NOMEM, with a sentence: `subject` names what was decomposed. */
#define attn_lapack_status REAL(attn_lapack_status)
attn_status attn_lapack_status(attn_lapack_info result, const char *subject);

/* Each routine has a query for its workspace in elements; 0 rows or columns are the caller's to avoid. */

/* A = Q R of a [m, n]: R on and above the diagonal of a, Q as reflectors below it and in tau [min(m, n)]. */
#define attn_lapack_geqrf_space REAL(attn_lapack_geqrf_space)
#define attn_lapack_geqrf REAL(attn_lapack_geqrf)
int64_t attn_lapack_geqrf_space(int64_t m, int64_t n);
attn_lapack_info attn_lapack_geqrf(int64_t m, int64_t n, real *a, real *tau, real *work, int64_t space);

/* The first n columns of Q [m, n], n at most m, from what geqrf left in their place. */
#define attn_lapack_orgqr_space REAL(attn_lapack_orgqr_space)
#define attn_lapack_orgqr REAL(attn_lapack_orgqr)
int64_t attn_lapack_orgqr_space(int64_t m, int64_t n);
attn_lapack_info attn_lapack_orgqr(int64_t m, int64_t n, real *q, const real *tau, real *work, int64_t space);

/* C = Q C of c [m, n], Q [m, m] from geqrf's k reflectors. */
#define attn_lapack_ormqr_space REAL(attn_lapack_ormqr_space)
#define attn_lapack_ormqr REAL(attn_lapack_ormqr)
int64_t attn_lapack_ormqr_space(int64_t m, int64_t n, int64_t k);
attn_lapack_info attn_lapack_ormqr(int64_t m, int64_t n, int64_t k, const real *reflectors, const real *tau, real *c,
                                   real *work, int64_t space);

/* A = U diag(s) V^T of a [m, n], which is destroyed; s descending, u [m, min(m, n)], vt [min(m, n), n]; with u and vt
 * NULL s only. integers: LAPACK's, as many bytes as its query says. */
#define attn_lapack_gesdd_space REAL(attn_lapack_gesdd_space)
#define attn_lapack_gesdd_integer_bytes REAL(attn_lapack_gesdd_integer_bytes)
#define attn_lapack_gesdd REAL(attn_lapack_gesdd)
int64_t attn_lapack_gesdd_space(int64_t m, int64_t n, bool vectors);
int64_t attn_lapack_gesdd_integer_bytes(int64_t m, int64_t n);
attn_lapack_info attn_lapack_gesdd(int64_t m, int64_t n, real *a, real *s, real *u, real *vt, real *work, int64_t space,
                                   void *integers);

#endif
