/* The clock inside the second copy of the library's engines: what the linker's --wrap puts in front of products and of
 * the table of kernels. Compiled for float and double like the library. */
#include "stage_clock.h"

#include <math.h>
#include <stdatomic.h>

#include "blas/blas.h"
#include "kernels/kernels.h"
#include "timing.h"

#define real_gemm REAL(__real_attn_priv_gemm)
#define wrap_gemm REAL(__wrap_attn_priv_gemm)
#define real_kernels REAL(__real_attn_kernels_in_use)
#define wrap_kernels REAL(__wrap_attn_kernels_in_use)

/* ---- The clock, one for both precisions -------------------------------------------------------------------------- */

extern struct stage_clock {
    _Atomic int64_t nanoseconds[STAGE_COUNT];
    _Atomic int64_t calls[STAGE_COUNT];
} bench_stage_clock;

#if ATTN_REAL_BITS == 32
struct stage_clock bench_stage_clock;

void stage_clock_begin(void) {
    for (int s = 0; s < STAGE_COUNT; s++)
        bench_stage_clock.nanoseconds[s] = bench_stage_clock.calls[s] = 0;
}

/* Seconds between two readings of the clock with nothing between them, and of the pair as a whole: the least of many,
 * as something may interrupt. */
static void clock_costs(double *between, double *pair) {
    *between = *pair = INFINITY;
    for (int i = 0; i < 1000; i++) {
        double before = timing_now(), first = timing_now(), second = timing_now();
        *between = fmin(*between, second - first);
        *pair = fmin(*pair, second - before);
    }
}

double stage_clock_end(double seconds[STAGE_COUNT]) {
    double between, pair, taken = 0;
    clock_costs(&between, &pair);
    for (int s = 0; s < STAGE_COUNT; s++) {
        double calls = (double)bench_stage_clock.calls[s];
        double spent = 1e-9 * (double)bench_stage_clock.nanoseconds[s] - calls * between;
        seconds[s] += spent > 0 ? spent : 0;
        taken += calls * pair;
    }
    return taken;
}
#endif

static void add_time(stage_id s, double start) {
    int64_t nanoseconds = (int64_t)(1e9 * (timing_now() - start));
    atomic_fetch_add_explicit(&bench_stage_clock.nanoseconds[s], nanoseconds, memory_order_relaxed);
    atomic_fetch_add_explicit(&bench_stage_clock.calls[s], 1, memory_order_relaxed);
}

/* True between a softmax and the product that takes its weights. */
static _Thread_local bool weights_wait;

/* ---- Products ---------------------------------------------------------------------------------------------------- */

void real_gemm(bool transpose_a, bool transpose_b, int64_t m, int64_t n, int64_t k, real alpha, const real *a,
               int64_t lda, const real *b, int64_t ldb, real beta, real *c, int64_t ldc);
void wrap_gemm(bool transpose_a, bool transpose_b, int64_t m, int64_t n, int64_t k, real alpha, const real *a,
               int64_t lda, const real *b, int64_t ldb, real beta, real *c, int64_t ldc);

static void add_product_time(double start) {
    add_time(weights_wait ? STAGE_COMBINE : STAGE_SCORES, start);
    weights_wait = false;
}

void wrap_gemm(bool transpose_a, bool transpose_b, int64_t m, int64_t n, int64_t k, real alpha, const real *a,
               int64_t lda, const real *b, int64_t ldb, real beta, real *c, int64_t ldc) {
    double start = timing_now();
    real_gemm(transpose_a, transpose_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
    add_product_time(start);
}

/* ---- Kernels ----------------------------------------------------------------------------------------------------- */

typedef REAL(attn_kernels) kernel_table;

const kernel_table *real_kernels(void);
const kernel_table *wrap_kernels(void);

static real clocked_softmax_row(int64_t n, const real *x, real *y) {
    double start = timing_now();
    real lse = real_kernels()->softmax_row(n, x, y);
    add_time(STAGE_SOFTMAX, start);
    weights_wait = true;
    return lse;
}

static int64_t clocked_softmax_tile(int64_t rows, int64_t cols, real *s, int64_t ld, bool keep, real *row_max,
                                    real *row_sum, real *rescale) {
    double start = timing_now();
    int64_t done = real_kernels()->softmax_tile(rows, cols, s, ld, keep, row_max, row_sum, rescale);
    add_time(STAGE_SOFTMAX, start);
    weights_wait = true;
    return done;
}

/* The products of few queries. */
static void clocked_product_transposed(int64_t rows, int64_t cols, int64_t k, bool apart, real scale,
                                       const real *const *x, const real *w, int64_t ld, real *const *y) {
    double start = timing_now();
    real_kernels()->product_transposed(rows, cols, k, apart, scale, x, w, ld, y);
    add_time(STAGE_SCORES, start);
}

static void clocked_add_product(int64_t rows, int64_t cols, int64_t k, bool apart, const real *const *x, const real *w,
                                int64_t ld, real *const *y) {
    double start = timing_now();
    real_kernels()->add_product(rows, cols, k, apart, x, w, ld, y);
    add_time(STAGE_COMBINE, start);
    weights_wait = false;
}

/* The products of tiles where the BLAS core falls short. */
static void clocked_multiply(int64_t rows, int64_t cols, int64_t k, real alpha, const real *x, int64_t ldx,
                             const real *w, int64_t ldw, bool add, real *y, int64_t ldy) {
    double start = timing_now();
    real_kernels()->multiply(rows, cols, k, alpha, x, ldx, w, ldw, add, y, ldy);
    add_product_time(start);
}

/* The same by the matrix unit. */
static void clocked_multiply_parts(const attn_parts_product *product) {
    double start = timing_now();
    real_kernels()->multiply_parts(product);
    add_product_time(start);
}

const kernel_table *wrap_kernels(void) {
    static _Thread_local kernel_table clocked;
    clocked = *real_kernels();
    clocked.softmax_row = clocked_softmax_row;
    clocked.softmax_tile = clocked_softmax_tile;
    clocked.product_transposed = clocked_product_transposed;
    clocked.add_product = clocked_add_product;
    clocked.multiply = clocked_multiply;
    if (clocked.multiply_parts != NULL)
        clocked.multiply_parts = clocked_multiply_parts;
    return &clocked;
}
