/* Every public call that makes products, each on fixed inputs large enough for several workers. */
#ifndef BLAS_CALLS_H
#define BLAS_CALLS_H

#include <attn/attn.h>
#include <stdint.h>

typedef enum product_call {
    CALL_SDPA_BLAS,
    CALL_SDPA_FUSED,
    CALL_SDPA_NAIVE, /* makes none: what the engines are compared with */
    CALL_PROJECT,
    CALL_SCORES,
    CALL_COMBINE,
    CALL_TRACE,
    CALL_LAYER,
    CALL_COUNT
} product_call;

size_t call_output_bytes(attn_dtype dtype, product_call call);
const char *call_name(attn_dtype dtype, product_call call);

/* Poisons the output with NaN and makes the call. */
attn_status call_run(attn_dtype dtype, product_call call, const attn_context *context, void *output);

/* The same with an argument that is refused. */
attn_status call_run_refused(attn_dtype dtype, product_call call, const attn_context *context, void *output);

/* ---- Contexts ---------------------------------------------------------------------------------------------------- */

/* A context whose workers are started by libattn (OpenMP where it is built with it) or by pthread_workers(). */
attn_context context_of(int threads, attn_parallel_fn parallel_for);

/* Outputs of all calls, made one after the other on one thread before the test changes anything. */
typedef struct call_results {
    void *output[2][CALL_COUNT]; /* by precision */
} call_results;
void call_results_make(call_results *results);
void call_results_free(call_results *results);

/* Makes the call and compares its bits with the results: NULL, or a sentence about what is wrong. */
const char *call_check(attn_dtype dtype, product_call call, const attn_context *context, const call_results *wanted);

/* parallel_for of a program with threads of its own: worker 0 on the calling thread, a new thread for each other. */
int pthread_workers(void *data, int workers, attn_parallel_body body, void *argument);

#endif
