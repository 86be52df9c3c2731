/* Every public call that makes products, in one precision: compiled with ATTN_REAL_BITS 32 and 64. */
#include "calls.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/real.h"
#include "calls_real.h"
#include "support.h"

/* Sizes from which OpenBLAS would use several threads (2^18 multiplications), and more than one block in each stage. */
enum { BATCH = 2, HEADS = 2, Q_LEN = 61, KV_LEN = 71, HEAD_DIM = 67 }; /* attention */
enum { ROWS = 263, KEYS = 509, D_IN = 37, D_OUT = 41 };                /* stages */
enum { VOCAB = 53, D_MODEL = 43 };                                     /* trace */
enum { LAYER_HEAD = 17 };                                              /* layer, with the sizes of the stages */

/* All inputs are slices of one array, which is never freed. */
enum { NUMBERS = ROWS * KEYS, SLICE = 1009, SLICES = 7 };
static real *numbers;

static void make_numbers(void) {
    numbers = support_alloc_poisoned(REAL_DTYPE, NUMBERS + SLICES * SLICE);
    if (numbers == NULL)
        abort();
    support_fill_normal(REAL_DTYPE, numbers, NUMBERS + SLICES * SLICE, 1, 1, 0, 1);
}

static const real *input(int slice) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, make_numbers);
    return numbers + slice * SLICE;
}

size_t REAL(call_elements)(product_call call) {
    switch (call) {
    case CALL_PROJECT:
        return (size_t)ROWS * D_OUT;
    case CALL_SCORES:
        return (size_t)ROWS * KEYS;
    case CALL_COMBINE:
    case CALL_TRACE:
    case CALL_LAYER:
        return (size_t)ROWS * D_OUT;
    default:
        return (size_t)BATCH * HEADS * Q_LEN * HEAD_DIM;
    }
}

static attn_status run_sdpa(attn_engine engine, const attn_context *context, real *output, bool refused) {
    attn_problem problem = ATTN_PROBLEM_INIT;
    problem.engine = engine;
    problem.batch = BATCH;
    problem.q_heads = problem.kv_heads = HEADS;
    problem.q_len = Q_LEN;
    problem.kv_len = KV_LEN;
    problem.head_dim = problem.v_dim = HEAD_DIM;
    REAL(attn_args) args = {.struct_size = sizeof args, .q = input(0), .v = input(2), .out = output};
    args.k = refused ? NULL : input(1);
    attn_status status = attn_problem_layout_bhld(&problem);
    if (status == ATTN_OK)
        status = REAL(attn_sdpa)(context, &problem, &args);
    return status;
}

static attn_status run_trace(const attn_context *context, real *output, bool refused) {
    int64_t ids[ROWS];
    for (int i = 0; i < ROWS; i++)
        ids[i] = refused ? VOCAB : i * 31 % VOCAB;
    REAL(attn_trace) trace = {.struct_size = sizeof trace};
    trace.tokens = ROWS;
    trace.vocab = VOCAB;
    trace.d_model = D_MODEL;
    trace.d_k = D_IN;
    trace.d_v = D_OUT;
    trace.ids = ids;
    trace.table = input(0);
    trace.w_q = input(1);
    trace.w_k = input(2);
    trace.w_v = input(3);
    trace.z = output;
    return REAL(attn_chain_trace)(context, &trace);
}

static attn_status run_layer(const attn_context *context, real *output, bool refused) {
    attn_problem heads = ATTN_PROBLEM_INIT;
    heads.batch = 1;
    heads.q_heads = heads.kv_heads = HEADS;
    heads.q_len = heads.kv_len = ROWS;
    heads.head_dim = heads.v_dim = LAYER_HEAD;
    attn_layer layer = ATTN_LAYER_INIT;
    layer.d_model = D_IN;
    layer.d_out = D_OUT;
    layer.attention = &heads;
    attn_status status = attn_layer_layout_dense(&layer);
    REAL(attn_layer_args) args = {.struct_size = sizeof args, .x = input(0), .y = output};
    args.w_q = input(1);
    args.w_k = input(2);
    args.w_v = input(3);
    args.w_o = refused ? NULL : input(4);
    return status == ATTN_OK ? REAL(attn_layer)(context, &layer, &args) : status;
}

/* A product [ROWS, inner] x [inner, cols] by the stage that is asked for. */
static attn_status run_stage(product_call call, const attn_context *context, real *output, bool refused) {
    int64_t inner = call == CALL_COMBINE ? KEYS : D_IN;
    int64_t cols = call == CALL_SCORES ? KEYS : D_OUT;
    const real *a = input(5), *b = input(6);
    int64_t rows = refused ? -1 : ROWS;
    if (call == CALL_PROJECT)
        return REAL(attn_project)(context, 1, rows, inner, cols, a, 0, inner, b, cols, NULL, output, 0, cols);
    if (call == CALL_SCORES)
        return REAL(attn_scores)(context, rows, cols, inner, a, inner, b, inner, 0.125, output, cols);
    return REAL(attn_combine)(context, rows, inner, cols, a, inner, b, cols, output, cols);
}

attn_status REAL(call_make)(product_call call, const attn_context *context, void *output, bool refused) {
    memset(output, 0xff, REAL(call_elements)(call) * sizeof(real));
    switch (call) {
    case CALL_SDPA_BLAS:
        return run_sdpa(ATTN_ENGINE_BLAS, context, output, refused);
    case CALL_SDPA_FUSED:
        return run_sdpa(ATTN_ENGINE_FUSED, context, output, refused);
    case CALL_SDPA_NAIVE:
        return run_sdpa(ATTN_ENGINE_NAIVE, context, output, refused);
    case CALL_TRACE:
        return run_trace(context, output, refused);
    case CALL_LAYER:
        return run_layer(context, output, refused);
    default:
        return run_stage(call, context, output, refused);
    }
}
