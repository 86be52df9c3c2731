/* attn-bench explain: what the library decides for a problem. */
#include <stdio.h>
#include <stdlib.h>

#include "subcommands.h"

static const attn_engine library_engines[ENGINE_COUNT] = {
    [ENGINE_NAIVE] = ATTN_ENGINE_NAIVE,
    [ENGINE_BLAS] = ATTN_ENGINE_BLAS,
    [ENGINE_FUSED] = ATTN_ENGINE_FUSED,
    [ENGINE_AUTO] = ATTN_ENGINE_AUTO,
};

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
    size_t size = 0;
    attn_plan_describe(plan, NULL, 0, &size);
    char *text = calloc(1, size + 1);
    bool described = text && attn_plan_describe(plan, text, size + 1, NULL) == ATTN_OK;
    if (described)
        fputs(text, stdout);
    free(text);
    attn_plan_destroy(plan);
    return described;
}

int sub_explain(const bench_options *options) {
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
