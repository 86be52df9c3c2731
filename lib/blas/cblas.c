/* Matrix products through CBLAS. The only file of libattn.so that includes cblas.h. */
#include <cblas.h>

#include "base/real.h"
#include "blas/blas.h"

#if ATTN_REAL_BITS == 32
#define CBLAS_GEMM cblas_sgemm
#else
#define CBLAS_GEMM cblas_dgemm
#endif

/* The integer of cblas.h: OpenBLAS has blasint, the others int. */
#ifdef OPENBLAS_VERSION
typedef blasint blas_int;
#else
typedef int blas_int;
#endif

_Static_assert(sizeof(blas_int) * 8 == ATTN_BLAS_INTEGER_BITS,
               "cblas.h has 64-bit integers without a suffix in its names: use a BLAS library with 32-bit integers");

/* CBLAS wants leading dimensions of at least 1 and at least the row size, for matrices of one row too. */
static blas_int leading(int64_t stride, int64_t row_size) {
    int64_t least = stride < row_size ? row_size : stride;
    return (blas_int)(least < 1 ? 1 : least);
}

void REAL(attn_gemm)(bool transpose_a, bool transpose_b, int64_t m, int64_t n, int64_t k, real alpha, const real *a,
                     int64_t lda, const real *b, int64_t ldb, real beta, real *c, int64_t ldc) {
    if (m == 0 || n == 0)
        return;
    if (k == 0) {
        for (int64_t i = 0; i < m; i++)
            for (int64_t j = 0; j < n; j++)
                c[i * ldc + j] = beta == 0 ? 0 : beta * c[i * ldc + j];
        return;
    }
    attn_blas_begin_product();
    CBLAS_GEMM(CblasRowMajor, transpose_a ? CblasTrans : CblasNoTrans, transpose_b ? CblasTrans : CblasNoTrans,
               (blas_int)m, (blas_int)n, (blas_int)k, alpha, a, leading(lda, transpose_a ? m : k), b,
               leading(ldb, transpose_b ? k : n), beta, c, leading(ldc, n));
    attn_blas_end_product();
}
