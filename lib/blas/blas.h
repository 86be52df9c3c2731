/* BLAS as the library uses it: gemm in `real` on 64-bit sizes, under a guard that keeps every call on one thread. */
#ifndef ATTN_LIB_BLAS_H
#define ATTN_LIB_BLAS_H

#include <attn/base.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/exports.h"
#include "base/status.h"

/* C = alpha op(A) op(B) + beta C, row-major, op(X) = X or its transpose; m x n results over an inner size of k. Nothing
 * is called when m or n is 0; with k 0 C is scaled only. beta 0 does not read C. The caller holds the guard, and has
 * made sure by attn_blas_fits() that every size and stride fits the library's integer; larger products are split by the
 * caller. */
ATTN_API void attn_gemm_f32(bool transpose_a, bool transpose_b, int64_t m, int64_t n, int64_t k, float alpha,
                            const float *a, int64_t lda, const float *b, int64_t ldb, float beta, float *c,
                            int64_t ldc);
ATTN_API void attn_gemm_f64(bool transpose_a, bool transpose_b, int64_t m, int64_t n, int64_t k, double alpha,
                            const double *a, int64_t lda, const double *b, int64_t ldb, double beta, double *c,
                            int64_t ldc);

#ifdef ATTN_REAL_BITS
#include "base/real.h"
#define attn_gemm REAL(attn_gemm)
#define attn_multiply REAL(attn_multiply)

/* C = alpha A B, or that much more with `add`: a product small enough for the cache, nothing transposed. CBLAS does it,
 * under the guard and with sizes that fit, or the library's own kernel: attn_own_products(). */
void attn_multiply(int64_t m, int64_t n, int64_t k, real alpha, const real *a, int64_t lda, const real *b, int64_t ldb,
                   bool add, real *c, int64_t ldc);
#endif

/* The width of the integers that CBLAS was compiled against here; probe.c compares it with the library that runs. */
#ifndef ATTN_BLAS_INTEGER_BITS
#define ATTN_BLAS_INTEGER_BITS 32
#endif

/* True when a size or stride can be handed to this BLAS. */
static inline bool attn_blas_fits(int64_t size) {
    return ATTN_BLAS_INTEGER_BITS == 64 || size <= INT32_MAX;
}

/* ATTN_ERR_OVERFLOW for one that cannot. `name` and `what` make the subject of the sentence: "x", ": row stride". */
static inline attn_status attn_check_fits_blas(const char *name, const char *what, int64_t value) {
    if (attn_blas_fits(value))
        return ATTN_OK;
    return attn_fail(ATTN_ERR_OVERFLOW, "%s%s %" PRId64 " does not fit the integer of the BLAS library", name, what,
                     value);
}

/* ATTN_ERR_BLAS with a sentence when the start-up probe found a library that cannot be used. */
ATTN_API attn_status attn_blas_check(void);

/* The guard. Between enter and leave, BLAS calls of this thread run on one thread. Every thread that calls gemm holds
 * its own guard; the thread that starts workers holds one around them too. leave puts the caller's settings back. */
enum { ATTN_BLAS_MAX_RUNTIMES = 2 };
typedef struct attn_blas_guard {
    int saved_threads[ATTN_BLAS_MAX_RUNTIMES]; /* of this thread, where the setting belongs to threads */
} attn_blas_guard;
ATTN_API void attn_blas_enter(attn_blas_guard *guard);
ATTN_API void attn_blas_leave(attn_blas_guard *guard);

/* Around each call of a product: fork() waits for the end. */
ATTN_API void attn_blas_begin_product(void);
ATTN_API void attn_blas_end_product(void);

/* attn_run_workers() with the guard held by the calling thread and by each worker. */
struct attn_resources;
ATTN_API attn_status attn_run_blas_workers(const struct attn_resources *resources, int workers, attn_parallel_body body,
                                           void *argument);

/* What probe.c found at start-up. */
typedef enum attn_blas_flavour {
    ATTN_BLAS_UNKNOWN,
    ATTN_BLAS_SEQUENTIAL,
    ATTN_BLAS_PTHREAD,
    ATTN_BLAS_OPENMP
} attn_blas_flavour;
attn_blas_flavour attn_blas_flavour_in_use(void);

/* The name of the BLAS library in use, as attn_blas_info has it. */
const char *attn_blas_name(void);

/* The name that the BLAS library gives the kernels it chose for this CPU, "" when it gives none. It decides shapes. */
const char *attn_blas_core(void);

/* False for a library that is neither OpenBLAS nor BLIS nor MKL. */
bool attn_blas_is_known(void);

/* Whether that is its name. OpenBLAS built for one core alone writes it in capitals, BLIS in
 * small letters. */
bool attn_blas_core_is(const char *name);

/* True for an OpenBLAS that holds several cores and chooses one when it is loaded. */
bool attn_blas_chooses_core(void);

/* True when that core leaves vectors unused that the kernels in use have (core.c). */
bool attn_blas_falls_short(void);

/* True when attn_multiply() has a kernel of our own: where the core falls short, and where it packs even a tile. */
bool attn_own_products(void);

/* A sentence on what to do about it; "" where there is nothing to say. */
const char *attn_blas_advice(void);

/* By whom attn_multiply() has products done, for people. */
const char *attn_multiply_way(void);

/* A function of the BLAS library in use, or of a library that it needs; NULL when there is none of that name. `linked`
 * is a weak reference to it, for BLAS libraries linked statically. */
void *attn_blas_function(const char *name, const void *linked);
#define ATTN_BLAS_FUNCTION(name) attn_blas_function(#name, (const void *)(name))

#endif
