/* The subcommands, one file each. They return the exit status: 0, 1 when something failed or disagreed, 2 when a file
 * could not be written. */
#ifndef BENCH_SUBCOMMANDS_H
#define BENCH_SUBCOMMANDS_H

#include <attn/sdpa.h>

#include "engines.h"
#include "layer.h"
#include "options.h"
#include "support.h"

int sub_sweep(const bench_options *options);
int sub_sdpa(const bench_options *options);
int sub_layer(const bench_options *options);
int sub_check(const bench_options *options);
int sub_compare(const bench_options *options);
int sub_example(const bench_options *options);
int sub_explain(const bench_options *options);
int sub_list(const bench_options *options);
int sub_version(const bench_options *options);

/* The operand as a problem; a mistake in it is a usage error. */
support_case *parse_problem(const bench_options *options);

/* The operands LAYER and HEADS with at most `rows` rows; HEADS as they are where that would change more: lengths,
 * packed members. A mistake is a usage error. */
support_layer *parse_layer(const bench_options *options, int64_t rows);

#endif
