/* attn-bench list and attn-bench version. */
#include <jansson.h>
#include <stdio.h>

#include "shapes.h"
#include "subcommands.h"
#include "sweep_plan.h"

static void print_numbers(const char *name, const number_list *list) {
    printf("  %-8s", name);
    for (int i = 0; i < list->count; i++)
        printf(" %lld", (long long)list->item[i]);
    putchar('\n');
}

static void print_grid(const char *title, bool full) {
    bench_options options = {.full = full};
    sweep_plan plan;
    printf("\n%s\n", title);
    if (sweep_plan_grid(&plan, &options)) {
        print_numbers("d_model", &plan.d_model);
        print_numbers("length", &plan.len);
        printf("  f64      at %d of %d points\n", plan.count - plan.d_model.count * plan.len.count,
               plan.d_model.count * plan.len.count);
    }
    sweep_plan_free(&plan);
}

int sub_list(const bench_options *options) {
    (void)options;
    printf("Engines\n");
    for (int id = 0; id < ENGINE_COUNT; id++)
        printf("  %-8s %s\n", engine_name((engine_id)id), engine_meaning((engine_id)id));
    printf("\nInstruction sets\n");
    printf("  kernels of the library: %s (ATTN_MAX_ISA=generic|neon|avx2|avx512 lowers it, amx adds the matrix unit)\n",
           attn_isa_name(attn_isa_in_use()));
    printf("  widest vectors of this CPU: %s\n", peaks_best_isa());
    print_grid("Grid of the sweep", false);
    print_grid("Grid of sweep --full", true);
    printf("\nShapes of models, for sweep --shapes NAME and as the PROBLEM NAME:SHAPE\n");
    shapes_print(stdout);
    return 0;
}

int sub_version(const bench_options *options) {
    (void)options;
    printf("attn-bench %d.%d.%d\n%s\njansson %s\n", ATTN_VERSION_MAJOR, ATTN_VERSION_MINOR, ATTN_VERSION_PATCH,
           attn_version_string(), JANSSON_VERSION);
    return 0;
}
