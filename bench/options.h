/* The command line: one table of options and one of subcommands, from which parsing and help are made. */
#ifndef BENCH_OPTIONS_H
#define BENCH_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#define LIST_MAX 64

typedef struct number_list {
    int64_t item[LIST_MAX];
    int count; /* 0 = not given */
} number_list;

typedef struct bench_options {
    const char *operand;       /* PROBLEM, LAYER, OLD of compare, or what help is about; NULL = none */
    const char *second;        /* NEW of compare, HEADS of layer and explain layer */
    unsigned engines;          /* ENGINE_BIT; 0 = not given */
    unsigned dtypes;           /* bits 1 << attn_dtype; 0 = not given */
    int threads;               /* the first of thread_counts */
    number_list thread_counts; /* more than one in sweep only */
    number_list d_model, heads, head_dim, batch, len;
    const char *shapes; /* of sweep: file or name; NULL = not given */
    double budget;      /* seconds; 0 = not given */
    double bound;       /* of compare: 0.05 is 5 % */
    bool layer;         /* of explain: the operands are LAYER and HEADS */
    bool full, quiet, cold, man, all;
    uint64_t seed;
    const char *json, *csv; /* NULL = not given, "-" = standard output */
    const char *report;     /* folder; NULL = not given */
    int repeat;             /* fewest samples; 0 = not given */
    double min_time;        /* seconds; below 0 = not given */
} bench_options;

typedef enum subcommand_id {
    SUB_SWEEP,
    SUB_SDPA,
    SUB_LAYER,
    SUB_CHECK,
    SUB_COMPARE,
    SUB_EXAMPLE,
    SUB_EXPLAIN,
    SUB_LIST,
    SUB_VERSION,
    SUB_HELP,
    SUB_COUNT
} subcommand_id;

#define EXIT_USAGE 2
#define EXIT_UNWRITTEN 2 /* a file, standard output among them, could not be written; told in a line too */

/* Of two exit statuses the one that says more. */
static inline int worse_status(int a, int b) {
    return a > b ? a : b;
}

/* Reads the command line. An error ends the program with one line on standard error and status 2; --help and --version
 * become the subcommands. */
subcommand_id options_parse(int argc, char **argv, bench_options *options);

/* One line on standard error, then status 2. */
__attribute__((noreturn, format(printf, 1, 2))) void usage_error(const char *format, ...);

/* Where text for people goes: standard output, or standard error when JSON or CSV goes to standard output. */
FILE *options_text_stream(const bench_options *options);

/* A file of --json or --csv or a folder of --report that cannot be written is a usage error: said before anything is
 * measured. What a file holds is kept until the results are there. */
void options_check_files(const bench_options *options);

/* help.c: the page of one subcommand, of the grammar for "problem", or of the program for NULL.
 * False when there is no such page. */
bool help_print(const char *name, FILE *out);
/* All pages as one man page, in the macros of man(7). */
void help_print_man(FILE *out);
/* The formulas of all figures, a paragraph a line. */
const char *help_figures(void);

/* ---- The tables, for help.c -------------------------------------------------------------------------------------- */

typedef struct option_entry {
    const char *name, *argument; /* argument NULL = takes none */
    int key;
    unsigned subcommands; /* bits 1 << subcommand_id */
    const char *help;
} option_entry;

typedef struct subcommand_entry {
    const char *name, *operand; /* operand NULL = none, "[X]" = optional, "X Y" = two */
    const char *summary;
    const char *such_as; /* an operand */
} subcommand_entry;

extern const option_entry option_table[]; /* ends with name NULL */
extern const subcommand_entry subcommand_table[SUB_COUNT];

#endif
