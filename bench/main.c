/* attn-bench: times, checks and explains attention on this machine. */
#include <stdlib.h>
#include <string.h>

#include "shapes.h"
#include "subcommands.h"

support_case *parse_problem(const bench_options *options) {
    char error[512] = "", named[256];
    const char *text = shapes_resolve(options->operand, named, sizeof named) ? named : options->operand;
    support_case *c = support_case_parse(text, error, sizeof error);
    if (!c)
        usage_error("problem '%s': %s", options->operand, error);
    return c;
}

static int sub_help(const bench_options *options) {
    if (options->man) {
        if (options->operand)
            usage_error("help --man %s: the man page has all pages, it takes no name", options->operand);
        help_print_man(stdout);
        return 0;
    }
    if (help_print(options->operand, stdout))
        return 0;
    char known[256] = "";
    for (int id = 0; id < SUB_COUNT; id++) {
        size_t used = strlen(known);
        snprintf(known + used, sizeof known - used, "%s, ", subcommand_table[id].name);
    }
    usage_error("help %s: no such page; %sproblem are accepted", options->operand, known);
}

int main(int argc, char **argv) {
    static int (*const run[SUB_COUNT])(const bench_options *) = {
        [SUB_SWEEP] = sub_sweep,     [SUB_SDPA] = sub_sdpa,       [SUB_LAYER] = sub_layer,     [SUB_CHECK] = sub_check,
        [SUB_COMPARE] = sub_compare, [SUB_EXAMPLE] = sub_example, [SUB_EXPLAIN] = sub_explain, [SUB_LIST] = sub_list,
        [SUB_VERSION] = sub_version, [SUB_HELP] = sub_help,
    };
    bench_options options;
    subcommand_id sub = options_parse(argc, argv, &options);
    return run[sub](&options);
}
