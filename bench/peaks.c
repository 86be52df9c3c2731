/* Ceilings of this machine: each measured over several short windows, the best counts. */
#include "peaks.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "blas_peak.h"
#include "isa_loops.h"
#include "team.h"
#include "timing.h"

/* Short windows, so that some of them see the processor alone even when other programs run; a window holds at least one
 * unit of work. */
#define WINDOWS 16
#define WINDOWS_LARGE 5
static const double window_seconds = 0.003;
static const int large_size = 1024;
static const double large_seconds = 0.005; /* a smaller product will do where it takes that long already */

/* ---- One loop on several threads --------------------------------------------------------------------------------- */

/* A unit of work: does it once with the worker's own data and returns the operations or bytes. */
typedef double (*work_unit)(const void *job, void *data);

typedef struct ceiling {
    work_unit unit;
    const void *job;
    int windows;
    void *data[TEAM_MAX_WORKERS];
    double rate[TEAM_MAX_WORKERS][WINDOWS];
} ceiling;

static void run_windows(void *argument, int worker, int workers) {
    ceiling *c = argument;
    (void)workers;
    blas_peak_one_thread();
    c->unit(c->job, c->data[worker]);
    for (int w = 0; w < c->windows; w++) {
        double start = timing_now(), done = 0, now;
        do {
            done += c->unit(c->job, c->data[worker]);
            now = timing_now();
        } while (now - start < window_seconds);
        c->rate[worker][w] = done / (now - start);
    }
}

/* The best window, the rates of all workers added. */
static double best_rate(ceiling *c, int threads) {
    team_run(threads, run_windows, c);
    double best = 0;
    for (int w = 0; w < c->windows; w++) {
        double sum = 0;
        for (int t = 0; t < threads; t++)
            sum += c->rate[t][w];
        if (sum > best)
            best = sum;
    }
    return best;
}

/* ---- Multiply-adds ----------------------------------------------------------------------------------------------- */

/* The sets of this CPU, best last. */
static int usable_loops(const isa_loops *list[3][2]) {
    int n = 0;
    list[n][0] = &isa_loops_generic_f32;
    list[n++][1] = &isa_loops_generic_f64;
#ifdef BENCH_HAVE_X86
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
        list[n][0] = &isa_loops_avx2_f32;
        list[n++][1] = &isa_loops_avx2_f64;
    }
    if (__builtin_cpu_supports("avx512f")) {
        list[n][0] = &isa_loops_avx512_f32;
        list[n++][1] = &isa_loops_avx512_f64;
    }
#endif
    return n;
}

const char *peaks_best_isa(void) {
    const isa_loops *list[3][2];
    return list[usable_loops(list) - 1][0]->name;
}

static double fma_unit(const void *job, void *data) {
    const isa_loops *loops = job;
    return loops->multiply_add(20000, data);
}

static void measure_fma(peak_rates *rates, attn_dtype dtype, int threads, ceiling *c) {
    const isa_loops *list[3][2];
    double sink[TEAM_MAX_WORKERS];
    int n = usable_loops(list);
    for (int i = 0; i < n; i++) {
        c->unit = fma_unit;
        c->job = list[i][dtype];
        for (int t = 0; t < threads; t++)
            c->data[t] = &sink[t];
        double rate = 1e-9 * best_rate(c, threads);
        if (rate > rates->fma) {
            rates->fma = rate;
            rates->fma_isa = list[i][dtype]->name;
        }
    }
}

/* ---- Products ---------------------------------------------------------------------------------------------------- */

typedef struct product {
    attn_dtype dtype;
    bool transposed;
    int m, n, k;
} product;

/* data: three matrices of large_size^2 elements, one after the other. */
static double product_unit(const void *job, void *data) {
    const product *p = job;
    size_t matrix = (size_t)large_size * (size_t)large_size * (p->dtype == ATTN_F32 ? sizeof(float) : sizeof(double));
    char *memory = data;
    blas_peak_product(p->dtype, p->transposed, p->m, p->n, p->k, memory, memory + matrix, memory + 2 * matrix);
    return 2.0 * p->m * p->n * p->k;
}

static void measure_products(peak_rates *rates, attn_dtype dtype, int threads, ceiling *c) {
    static const int shapes[][3] = {{48, 256, 64}, {96, 128, 64}, {128, 512, 64}, {256, 512, 64}};
    size_t elements = 3 * (size_t)large_size * (size_t)large_size;
    bool complete = true;
    for (int t = 0; t < threads; t++) {
        c->data[t] = aligned_alloc(64, elements * (dtype == ATTN_F32 ? sizeof(float) : sizeof(double)));
        if (!c->data[t]) {
            complete = false;
            continue;
        }
        for (size_t i = 0; i < elements; i++)
            if (dtype == ATTN_F32)
                ((float *)c->data[t])[i] = (float)(i % 7) - 3;
            else
                ((double *)c->data[t])[i] = (double)(i % 7) - 3;
    }
    c->unit = product_unit;
    for (size_t s = 0; complete && s < sizeof shapes / sizeof *shapes; s++)
        for (int transposed = 0; transposed <= 1; transposed++) {
            product p = {dtype, transposed != 0, shapes[s][0], shapes[s][1], shapes[s][2]};
            c->job = &p;
            double rate = 1e-9 * best_rate(c, threads);
            if (rate > rates->tile) {
                rates->tile = rate;
                snprintf(rates->tile_shape, sizeof rates->tile_shape, "%s %dx%dx%d", transposed ? "NT" : "NN", p.m, p.n,
                         p.k);
            }
        }
    if (complete) {
        product p = {dtype, false, large_size, large_size, large_size};
        for (int size = 256; size < large_size; size *= 2) {
            p.m = p.n = p.k = size;
            double start = timing_now();
            product_unit(&p, c->data[0]);
            if (timing_now() - start > large_seconds)
                break;
            p.m = p.n = p.k = large_size;
        }
        c->job = &p;
        c->windows = WINDOWS_LARGE;
        rates->large = 1e-9 * best_rate(c, threads);
    }
    for (int t = 0; t < threads; t++)
        free(c->data[t]);
}

static void measure_rates(peak_rates *rates, attn_dtype dtype, int threads) {
    ceiling *c = calloc(1, sizeof *c);
    *rates = (peak_rates){.measured = true, .fma_isa = "none"};
    if (!c)
        return;
    c->windows = WINDOWS;
    measure_fma(rates, dtype, threads, c);
    measure_products(rates, dtype, threads, c);
    free(c);
}

void peaks_measure(peaks *p, attn_dtype dtype, int threads) {
    p->threads = threads;
    if (!p->one[dtype].measured)
        measure_rates(&p->one[dtype], dtype, 1);
    if (threads == 1)
        p->all[dtype] = p->one[dtype];
    else
        measure_rates(&p->all[dtype], dtype, threads);
}

double peaks_blas(const peak_rates *rates) {
    return rates->tile > rates->large ? rates->tile : rates->large;
}

/* ---- Reading ----------------------------------------------------------------------------------------------------- */

typedef struct reading {
    const isa_loops *loops;
    size_t bytes; /* of each worker */
    int places;
} reading;

static double read_unit(const void *job, void *data) {
    const reading *r = job;
    volatile double sum = r->loops->read(data, r->bytes, r->places);
    (void)sum;
    return (double)r->bytes;
}

double peaks_read(peaks *p, double bytes) {
    int exponent = 16;
    while (exponent < 30 && (double)(UINT64_C(1) << exponent) < bytes)
        exponent++;
    if (p->read_rate[exponent] > 0)
        return 1e-9 * p->read_rate[exponent];

    const isa_loops *list[3][2];
    int threads = p->threads > 0 ? p->threads : 1;
    size_t total = (size_t)1 << exponent, part = total / (size_t)threads / 1024 * 1024;
    ceiling *c = calloc(1, sizeof *c);
    char *memory = c && part > 0 ? aligned_alloc((size_t)1 << 16, total) : NULL;
    if (memory) {
        madvise(memory, total, MADV_HUGEPAGE);
        memset(memory, 0, total);
        reading r = {list[usable_loops(list) - 1][0], part, 1};
        c->unit = read_unit;
        c->windows = total < (size_t)64 << 20 ? WINDOWS : WINDOWS_LARGE;
        c->job = &r;
        for (int t = 0; t < threads; t++)
            c->data[t] = memory + (size_t)t * part;
        p->read_rate[exponent] = best_rate(c, threads);
        r.places = 4; /* faster where the processor fetches ahead within a page only */
        p->read_rate[exponent] = fmax(p->read_rate[exponent], best_rate(c, threads));
    }
    free(memory);
    free(c);
    return 1e-9 * p->read_rate[exponent];
}
