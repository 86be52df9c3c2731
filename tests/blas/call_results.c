/* Calls in both precisions, contexts for them, and results to compare with. */
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "calls.h"
#include "calls_real.h"
#include "support.h"

static size_t elements(attn_dtype dtype, product_call call) {
    return dtype == ATTN_F32 ? call_elements_f32(call) : call_elements_f64(call);
}

size_t call_output_bytes(attn_dtype dtype, product_call call) {
    return elements(dtype, call) * (dtype == ATTN_F32 ? sizeof(float) : sizeof(double));
}

const char *call_name(attn_dtype dtype, product_call call) {
    static const char *const names[2][CALL_COUNT] = {
        {"attn_sdpa_f32, blas", "attn_sdpa_f32, fused", "attn_sdpa_f32, naive", "attn_project_f32", "attn_scores_f32",
         "attn_combine_f32", "attn_chain_trace_f32", "attn_layer_f32"},
        {"attn_sdpa_f64, blas", "attn_sdpa_f64, fused", "attn_sdpa_f64, naive", "attn_project_f64", "attn_scores_f64",
         "attn_combine_f64", "attn_chain_trace_f64", "attn_layer_f64"},
    };
    return names[dtype][call];
}

attn_status call_run(attn_dtype dtype, product_call call, const attn_context *context, void *output) {
    return dtype == ATTN_F32 ? call_make_f32(call, context, output, false)
                             : call_make_f64(call, context, output, false);
}

attn_status call_run_refused(attn_dtype dtype, product_call call, const attn_context *context, void *output) {
    return dtype == ATTN_F32 ? call_make_f32(call, context, output, true) : call_make_f64(call, context, output, true);
}

attn_context context_of(int threads, attn_parallel_fn parallel_for) {
    attn_context context = ATTN_CONTEXT_INIT;
    context.threads = threads;
    context.parallel_for = parallel_for;
    return context;
}

typedef struct pthread_worker {
    pthread_t thread;
    attn_parallel_body body;
    void *argument;
    int worker;
} pthread_worker;

static void *start_worker(void *data) {
    pthread_worker *me = data;
    me->body(me->argument, me->worker);
    return NULL;
}

int pthread_workers(void *data, int workers, attn_parallel_body body, void *argument) {
    enum { MOST = 64 };
    (void)data;
    if (workers > MOST)
        return 1;
    pthread_worker others[MOST];
    int failures = 0;
    for (int w = 1; w < workers; w++) {
        others[w] = (pthread_worker){.body = body, .argument = argument, .worker = w};
        if (pthread_create(&others[w].thread, NULL, start_worker, &others[w]) != 0)
            abort();
    }
    body(argument, 0);
    for (int w = 1; w < workers; w++)
        failures += pthread_join(others[w].thread, NULL) != 0;
    return failures;
}

/* ---- Results ----------------------------------------------------------------------------------------------------- */

/* The engines agree, so that equal bits later are also right ones; the stages have tests of their own. */
static void compare_engines(attn_dtype dtype, void *const *output) {
    const double tolerance = dtype == ATTN_F32 ? 1e-4 : 1e-12;
    for (size_t i = 0; i < elements(dtype, CALL_SDPA_NAIVE); i++) {
        double naive = support_load(dtype, output[CALL_SDPA_NAIVE], (int64_t)i);
        double blas = support_load(dtype, output[CALL_SDPA_BLAS], (int64_t)i);
        double fused = support_load(dtype, output[CALL_SDPA_FUSED], (int64_t)i);
        if (!(fabs(naive - blas) <= tolerance && fabs(naive - fused) <= tolerance))
            abort();
    }
}

void call_results_make(call_results *results) {
    const attn_context one_thread = context_of(1, NULL);
    for (int dtype = ATTN_F32; dtype <= ATTN_F64; dtype++) {
        for (int call = 0; call < CALL_COUNT; call++) {
            void *output = malloc(call_output_bytes(dtype, call));
            if (output == NULL || call_run(dtype, call, &one_thread, output) != ATTN_OK)
                abort();
            for (size_t i = 0; i < elements(dtype, call); i++)
                if (!isfinite(support_load(dtype, output, (int64_t)i)))
                    abort();
            results->output[dtype][call] = output;
        }
        compare_engines(dtype, results->output[dtype]);
    }
}

void call_results_free(call_results *results) {
    for (int dtype = ATTN_F32; dtype <= ATTN_F64; dtype++)
        for (int call = 0; call < CALL_COUNT; call++)
            free(results->output[dtype][call]);
}

const char *call_check(attn_dtype dtype, product_call call, const attn_context *context, const call_results *wanted) {
    size_t bytes = call_output_bytes(dtype, call);
    void *output = malloc(bytes);
    if (output == NULL)
        abort();
    const char *wrong = NULL;
    if (call_run(dtype, call, context, output) != ATTN_OK)
        wrong = attn_last_error();
    else if (memcmp(output, wanted->output[dtype][call], bytes) != 0)
        wrong = "other bits than on one thread";
    free(output);
    return wrong;
}
