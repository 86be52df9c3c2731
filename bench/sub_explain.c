/* attn-bench explain: what the library decides for a problem or a layer. */
#include <attn/layer.h>
#include <stdio.h>
#include <stdlib.h>

#include "subcommands.h"

static const attn_engine library_engines[ENGINE_COUNT] = {
    [ENGINE_NAIVE] = ATTN_ENGINE_NAIVE,
    [ENGINE_BLAS] = ATTN_ENGINE_BLAS,
    [ENGINE_FUSED] = ATTN_ENGINE_FUSED,
    [ENGINE_AUTO] = ATTN_ENGINE_AUTO,
};

/* What a plan of either kind says of itself. */
typedef attn_status describer(const void *plan, char *text, size_t size, size_t *needed);

static attn_status describe_attention(const void *plan, char *text, size_t size, size_t *needed) {
    return attn_plan_describe(plan, text, size, needed);
}

static attn_status describe_layer(const void *plan, char *text, size_t size, size_t *needed) {
    return attn_layer_plan_describe(plan, text, size, needed);
}

static bool print_description(describer *describe, const void *plan) {
    size_t size = 0;
    (void)describe(plan, NULL, 0, &size);
    char *text = calloc(1, size + 1);
    bool described = text && describe(plan, text, size + 1, NULL) == ATTN_OK;
    if (described)
        fputs(text, stdout);
    free(text);
    return described;
}

/* True when the plan could be made and described. */
static bool explain(const attn_problem *problem, engine_id id, attn_dtype dtype, int threads) {
    attn_context context = ATTN_CONTEXT_INIT;
    context.threads = threads;
    attn_problem p = *problem;
    p.engine = library_engines[id];
    attn_plan *plan;
    printf("engine asked for: %s, %s\n", engine_name(id), dtype == ATTN_F32 ? "f32" : "f64");
    if (attn_plan_create(&context, &p, dtype, &plan) != ATTN_OK) {
        printf("refused: %s\n", attn_last_error());
        return false;
    }
    bool described = print_description(describe_attention, plan);
    attn_plan_destroy(plan);
    return described;
}

/* The same for a layer. */
static bool explain_layer(const support_layer *l, attn_dtype dtype, int threads) {
    attn_context context = ATTN_CONTEXT_INIT;
    context.threads = threads;
    support_layer_data data;
    attn_layer_plan *plan;
    printf("layer asked for: %s\n", dtype == ATTN_F32 ? "f32" : "f64");
    if (!support_layer_data_create(&data, l, dtype)) {
        puts("not enough memory for the arrays");
        return false;
    }
    bool described = attn_layer_plan_create(&context, &data.layer, dtype, &plan) == ATTN_OK;
    if (described) {
        described = print_description(describe_layer, plan);
        attn_layer_plan_destroy(plan);
    } else {
        printf("refused: %s\n", attn_last_error());
    }
    support_layer_data_destroy(&data);
    return described;
}

static int sub_explain_layer(const bench_options *options) {
    unsigned dtypes = options->dtypes ? options->dtypes : 1u << ATTN_F32;
    if (options->engines)
        usage_error("explain layer: --engine does not go with a layer, which leaves the choice to the library");
    support_layer *l = parse_layer(options, INT64_MAX);
    bool all = true;
    for (int dtype = 0; dtype < 2; dtype++)
        if (dtypes & 1u << dtype) {
            if (dtype > 0 && dtypes & 1u)
                putchar('\n');
            all &= explain_layer(l, (attn_dtype)dtype, options->threads);
        }
    support_layer_free(l);
    return !all;
}

int sub_explain(const bench_options *options) {
    if (options->layer)
        return sub_explain_layer(options);
    unsigned engines = options->engines ? options->engines : ENGINE_BIT(ENGINE_AUTO);
    unsigned dtypes = options->dtypes ? options->dtypes : 1u << ATTN_F32;
    if (engines & ENGINE_BIT(ENGINE_CACHE) && engines != ENGINES_DEFAULT)
        usage_error("explain --engine cache: these loops belong to the bench; naive, blas, fused, auto are accepted");
    engines &= ~ENGINE_BIT(ENGINE_CACHE);
    support_case *c = parse_problem(options);
    bool all = true, first = true;
    for (int dtype = 0; dtype < 2; dtype++)
        for (int id = 0; id < ENGINE_COUNT; id++)
            if ((engines & ENGINE_BIT(id)) && (dtypes & 1u << dtype)) {
                if (!first)
                    putchar('\n');
                first = false;
                all &= explain(&c->problem, (engine_id)id, (attn_dtype)dtype, options->threads);
            }
    support_case_free(c);
    return !all;
}
