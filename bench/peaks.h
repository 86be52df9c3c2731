/* Ceilings of this machine, measured in the same run as everything else:
 *   multiply-adds   the best rate over all instruction sets of this CPU, 12 independent accumulators, no memory
 *   tile product    the best cblas_?gemm rate over a few small shapes as the fused engine uses them
 *   large product   cblas_?gemm of 1024 x 1024 x 1024
 *   reading         memory of a given size, again and again, from one place or from four at once: the faster
 * All for one thread and, where more are asked for, for that many threads at once, each on its own data and each with
 * one BLAS thread. */
#ifndef BENCH_PEAKS_H
#define BENCH_PEAKS_H

#include <attn/sdpa.h>
#include <stdbool.h>

typedef struct peak_rates {
    bool measured;
    double fma;          /* GFLOP/s */
    const char *fma_isa; /* instruction set that reached it */
    double tile, large;  /* GFLOP/s; 0 for lack of memory */
    char tile_shape[32]; /* "NN 96x128x64" */
} peak_rates;

#define PEAKS_READ_SIZES 40

typedef struct peaks {
    int threads;
    peak_rates one[2];                  /* by attn_dtype: one thread */
    peak_rates all[2];                  /* `threads` threads at once; the same as one[] when threads is 1 */
    double read_rate[PEAKS_READ_SIZES]; /* bytes/s for 2^i bytes, 0 = not yet measured */
} peaks;

/* Measures the rates of one precision; a few tenths of a second. What one thread does is taken as it stands when it is
 * there already. */
void peaks_measure(peaks *p, attn_dtype dtype, int threads);

/* The larger of tile and large product. */
double peaks_blas(const peak_rates *rates);

/* GB/s at which `threads` threads together read a working set of that many bytes, rounded up to a power of two between
 * 64 KiB and 1 GiB. Measured at the first question for a size. */
double peaks_read(peaks *p, double bytes);

/* Name of the best instruction set of this CPU that the bench knows. */
const char *peaks_best_isa(void);

#endif
