/* Loops that reach a ceiling of the processor, one set per instruction set and precision: the rate of fused
 * multiply-adds, and the rate of reading memory. */
#ifndef BENCH_ISA_LOOPS_H
#define BENCH_ISA_LOOPS_H

#include <stddef.h>
#include <stdint.h>

typedef struct isa_loops {
    const char *name; /* "generic", "avx2", "avx512" */
    /* Runs `rounds` rounds of independent multiply-adds; returns the floating-point operations done, a multiply-add
     * counted as two. The result of the arithmetic goes to *sink. */
    double (*multiply_add)(int64_t rounds, double *sink);
    /* Reads `bytes` bytes (a multiple of 1024, aligned to 64) once, from one place or from four at a time, and returns
     * a sum of them. */
    double (*read)(const void *memory, size_t bytes, int places);
} isa_loops;

extern const isa_loops isa_loops_generic_f32, isa_loops_generic_f64;
extern const isa_loops isa_loops_avx2_f32, isa_loops_avx2_f64;
extern const isa_loops isa_loops_avx512_f32, isa_loops_avx512_f64;

#endif
