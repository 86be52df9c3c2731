/* attn-bench: times, checks and explains attention on this machine. */
#include <stdlib.h>
#include <string.h>

#include "memory.h"
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

support_layer *parse_layer(const bench_options *options, int64_t rows) {
    const char *heads = options->second, *q = strchr(heads, 'q');
    size_t size = strlen(options->operand) + strlen(heads) + 32;
    char error[512] = "", *text = malloc(size), *end;
    if (!text)
        usage_error("layer: not enough memory");
    if (!q || strstr(heads, "lens") || strstr(heads, "ragged") || strtoll(q + 1, &end, 10) <= rows)
        snprintf(text, size, "%s %s", options->operand, heads);
    else
        snprintf(text, size, "%s %.*s%lld%s", options->operand, (int)(q + 1 - heads), heads, (long long)rows, end);
    support_layer *l = support_layer_parse(text, error, sizeof error);
    if (!l)
        usage_error("layer '%s': %s", text, error);
    free(text);
    return l;
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

/* What was printed has arrived, whatever the subcommand was. */
static int check_output(int status) {
    if (fflush(stdout) == 0 && !ferror(stdout))
        return status;
    fputs("attn-bench: cannot write to standard output\n", stderr);
    return worse_status(status, EXIT_UNWRITTEN);
}

int main(int argc, char **argv) {
    support_memory = bench_memory;
    static int (*const run[SUB_COUNT])(const bench_options *) = {
        [SUB_SWEEP] = sub_sweep,     [SUB_SDPA] = sub_sdpa,       [SUB_LAYER] = sub_layer,     [SUB_CHECK] = sub_check,
        [SUB_COMPARE] = sub_compare, [SUB_EXAMPLE] = sub_example, [SUB_EXPLAIN] = sub_explain, [SUB_LIST] = sub_list,
        [SUB_VERSION] = sub_version, [SUB_HELP] = sub_help,
    };
    bench_options options;
    subcommand_id sub = options_parse(argc, argv, &options);
    return check_output(run[sub](&options));
}
