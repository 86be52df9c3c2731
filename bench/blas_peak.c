/* Single products of the BLAS library, as a ceiling. The only file of the bench that includes cblas.h. */
#include "blas_peak.h"

#include <cblas.h>

/* Found at run time where the library has them. */
extern void openblas_set_num_threads(int threads) __attribute__((weak));
extern void omp_set_num_threads(int threads) __attribute__((weak));

void blas_peak_one_thread(void) {
    if (openblas_set_num_threads)
        openblas_set_num_threads(1);
    if (omp_set_num_threads)
        omp_set_num_threads(1);
}

void blas_peak_product(attn_dtype dtype, bool transposed, int m, int n, int k, const void *a, const void *b, void *c) {
    enum CBLAS_TRANSPOSE op = transposed ? CblasTrans : CblasNoTrans;
    int ldb = transposed ? k : n;
    if (dtype == ATTN_F32)
        cblas_sgemm(CblasRowMajor, CblasNoTrans, op, m, n, k, 1, a, k, b, ldb, 0, c, n);
    else
        cblas_dgemm(CblasRowMajor, CblasNoTrans, op, m, n, k, 1, a, k, b, ldb, 0, c, n);
}
