/* Single products of the BLAS library, as a ceiling: what cblas_?gemm reaches without anything around it. */
#ifndef BENCH_BLAS_PEAK_H
#define BENCH_BLAS_PEAK_H

#include <attn/sdpa.h>
#include <stdbool.h>

/* C = A B, m x n over k, dense row-major; transposed: B is stored as [n, k]. */
void blas_peak_product(attn_dtype dtype, bool transposed, int m, int n, int k, const void *a, const void *b, void *c);

/* Makes the calling thread's products run on that thread alone, whatever threads the library has of its own. */
void blas_peak_one_thread(void);

#endif
