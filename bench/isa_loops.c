/* Loops that reach a ceiling of the processor. Compiled per instruction set and precision with its flags and
 * -ffp-contract=fast: BENCH_ISA is the name, BENCH_VECTOR_BYTES the size of its registers. */
#include "isa_loops.h"

#include "base/real.h"

#define JOIN3(a, b, c) a##_##b##_##c
#define NAME3(a, b, c) JOIN3(a, b, c)
#define TEXT(a) #a
#define NAME_TEXT(a) TEXT(a)
#if ATTN_REAL_BITS == 32
#define LOOPS NAME3(isa_loops, BENCH_ISA, f32)
#else
#define LOOPS NAME3(isa_loops, BENCH_ISA, f64)
#endif

typedef real vector __attribute__((vector_size(BENCH_VECTOR_BYTES)));
#define LANES ((int)(BENCH_VECTOR_BYTES / sizeof(real)))

/* Independent sums: enough to hide a latency of 4 cycles on two units (8) with a margin, and still within 16 registers
 * beside the two constants. */
#define ACCUMULATORS 12

static double multiply_add(int64_t rounds, double *sink) {
    /* Volatile, or the compiler would find sums that never change and leave them out. */
    volatile real half = (real)0.5, one = 1;
    vector acc[ACCUMULATORS], factor, term;
    for (int lane = 0; lane < LANES; lane++) {
        factor[lane] = half;
        term[lane] = one;
    }
    for (int i = 0; i < ACCUMULATORS; i++)
        acc[i] = term * (one + (real)i);
    for (int64_t r = 0; r < rounds; r++) {
        for (int i = 0; i < ACCUMULATORS; i++)
            acc[i] = acc[i] * factor + term;
        for (int i = 0; i < ACCUMULATORS; i++)
            acc[i] = acc[i] * factor + term;
    }
    double sum = 0;
    for (int i = 0; i < ACCUMULATORS; i++)
        for (int lane = 0; lane < LANES; lane++)
            sum += (double)acc[i][lane];
    *sink = sum;
    return (double)rounds * 2 * ACCUMULATORS * LANES * 2;
}

/* Vectors per step; 1024 bytes are a whole number of steps for every register size up to 64. */
#define STREAMS ((size_t)8)

/* `places` is a constant at every call. */
static inline __attribute__((always_inline)) void read_places(const vector *x, size_t vectors, size_t places,
                                                              vector *acc) {
    size_t part = vectors / places;
    for (size_t i = 0; i + STREAMS / places <= part; i += STREAMS / places)
        for (size_t s = 0; s < STREAMS; s++)
            acc[s] += x[s % places * part + i + s / places];
}

static double read_memory(const void *memory, size_t bytes, int places) {
    vector acc[STREAMS] = {{0}};
    if (places == 4)
        read_places(memory, bytes / sizeof(vector), 4, acc);
    else
        read_places(memory, bytes / sizeof(vector), 1, acc);
    double sum = 0;
    for (size_t s = 0; s < STREAMS; s++)
        for (int lane = 0; lane < LANES; lane++)
            sum += (double)acc[s][lane];
    return sum;
}

const isa_loops LOOPS = {NAME_TEXT(BENCH_ISA), multiply_add, read_memory};
