/* Products of tiles, by whom they are done best. */
#include "base/real.h"
#include "blas/blas.h"
#include "kernels/kernels.h"

void attn_multiply(int64_t m, int64_t n, int64_t k, real alpha, const real *a, int64_t lda, const real *b, int64_t ldb,
                   bool add, real *c, int64_t ldc) {
    if (attn_own_products())
        REAL(attn_kernels_in_use)()->multiply(m, n, k, alpha, a, lda, b, ldb, add, c, ldc);
    else
        attn_gemm(false, false, m, n, k, alpha, a, lda, b, ldb, add ? 1 : 0, c, ldc);
}
