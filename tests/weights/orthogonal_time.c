/* What attn_orthogonal_f32() and _f64() cost beside the LAPACKE calls that they cannot do without: pairs of both, in
 * turn, on one thread, by the CPU time of the process, which other processes disturb little.
 *
 *   cmake --build build/test --target orthogonal_time && OPENBLAS_NUM_THREADS=1
 *   build/test/tests/weights/orthogonal_time
 *
 * A program to run by hand, not a test. */
#include <attn/weights.h>
#include <lapacke.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { N = 1024, PAIRS = 31 };

static double cpu_seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void require(int ok, const char *what) {
    if (ok)
        return;
    fprintf(stderr, "%s failed: %s\n", what, attn_last_error());
    exit(1);
}

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *times) {
    qsort(times, PAIRS, sizeof *times, ascending);
    return times[PAIRS / 2];
}

static const attn_context *one_thread(void) {
    static attn_context context = ATTN_CONTEXT_INIT;
    context.threads = 1;
    return &context;
}

/* The first pair is not counted. */
#define MEASURE(name, type, geqrf, orgqr, normal, orthogonal)                                                          \
    static void name(void) {                                                                                           \
        type *a = malloc(sizeof *a * N * N), *w = malloc(sizeof *w * N * N), *tau = malloc(sizeof *tau * N);           \
        double bare[PAIRS], ours[PAIRS], ratio[PAIRS];                                                                 \
        require(a != NULL && w != NULL && tau != NULL, "malloc");                                                      \
        for (int pair = -1; pair < PAIRS; pair++) {                                                                    \
            require(normal(one_thread(), N, N, 0, 1, 1, (uint64_t)(pair + 1), a, N) == ATTN_OK, #normal);              \
            double start = cpu_seconds();                                                                              \
            require(geqrf(LAPACK_COL_MAJOR, N, N, a, N, tau) == 0, #geqrf);                                            \
            require(orgqr(LAPACK_COL_MAJOR, N, N, N, a, N, tau) == 0, #orgqr);                                         \
            double middle = cpu_seconds();                                                                             \
            require(orthogonal(one_thread(), N, N, 1, 1, (uint64_t)(pair + 1), w, N) == ATTN_OK, #orthogonal);         \
            double end = cpu_seconds();                                                                                \
            if (pair < 0)                                                                                              \
                continue;                                                                                              \
            bare[pair] = middle - start;                                                                               \
            ours[pair] = end - middle;                                                                                 \
            ratio[pair] = ours[pair] / bare[pair];                                                                     \
        }                                                                                                              \
        printf("%s and %s %.1f ms, %s %.1f ms: ratio %.3f (medians of %d pairs)\n", #geqrf, #orgqr,                    \
               1e3 * median(bare), #orthogonal, 1e3 * median(ours), median(ratio), PAIRS);                             \
        free(a);                                                                                                       \
        free(w);                                                                                                       \
        free(tau);                                                                                                     \
    }
MEASURE(measure_f32, float, LAPACKE_sgeqrf, LAPACKE_sorgqr, attn_random_normal_f32, attn_orthogonal_f32)
MEASURE(measure_f64, double, LAPACKE_dgeqrf, LAPACKE_dorgqr, attn_random_normal_f64, attn_orthogonal_f64)

int main(void) {
    printf("%s, %d x %d, one thread\n", attn_version_string(), N, N);
    measure_f32();
    measure_f64();
    return 0;
}
