/* The command line. */
#include "options.h"

#include <ctype.h>
#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "engines.h"
#include "flush.h"
#include "report_folder.h"
#include "team.h"

/* ---- Tables ------------------------------------------------------------------------------------------------------ */

#define SOME_PROBLEM "b1h12q1024k1024d64,causal"

const subcommand_entry subcommand_table[SUB_COUNT] = {
    [SUB_SWEEP] = {"sweep", NULL, "naive against BLAS over growing d_model and length (the default)", NULL},
    [SUB_SDPA] = {"sdpa", "PROBLEM", "time one attention problem", SOME_PROBLEM},
    [SUB_LAYER] = {"layer", "LAYER HEADS", "time a whole layer: projections, attention, cache", "d768h12 b1q1024"},
    [SUB_CHECK] = {"check", "PROBLEM", "compare all rows of one problem with the oracle", SOME_PROBLEM},
    [SUB_COMPARE] = {"compare", "OLD NEW", "two files of --json: what became slower or faster", "old.json new.json"},
    [SUB_EXAMPLE] = {"example", NULL, "a worked example: all ten matrices of three tokens", NULL},
    [SUB_EXPLAIN] = {"explain", "PROBLEM", "what the library decides for a problem or a layer, and why", SOME_PROBLEM},
    [SUB_LIST] = {"list", NULL, "engines, instruction sets, the grid of the sweep, shapes of models", NULL},
    [SUB_VERSION] = {"version", NULL, "versions of program, library and BLAS", NULL},
    [SUB_HELP] = {"help", "[PAGE]", "this help, the page of a subcommand, or help problem: the grammar of PROBLEM",
                  NULL},
};

#define SWEEP (1u << SUB_SWEEP)
#define SDPA (1u << SUB_SDPA)
#define LAYER (1u << SUB_LAYER)
#define CHECK (1u << SUB_CHECK)
#define COMPARE (1u << SUB_COMPARE)
#define EXPLAIN (1u << SUB_EXPLAIN)
#define EVERY ((1u << SUB_COUNT) - 1)

enum {
    KEY_ENGINE = 256,
    KEY_DTYPE,
    KEY_THREADS,
    KEY_D_MODEL,
    KEY_HEADS,
    KEY_HEAD_DIM,
    KEY_BATCH,
    KEY_LEN,
    KEY_SHAPES,
    KEY_FULL,
    KEY_BUDGET,
    KEY_REPEAT,
    KEY_MIN_TIME,
    KEY_SEED,
    KEY_JSON,
    KEY_CSV,
    KEY_BOUND,
    KEY_ALL,
    KEY_COLD,
    KEY_REPORT,
    KEY_QUIET,
    KEY_MAN,
    KEY_HELP,
    KEY_VERSION
};

const option_entry option_table[] = {
    {"engine", "LIST", KEY_ENGINE, SWEEP | SDPA | CHECK | EXPLAIN,
     "engines, separated by commas: naive, cache, blas, fused, auto, or all of the first four (the default; explain: "
     "auto)"},
    {"dtype", "LIST", KEY_DTYPE, SWEEP | SDPA | LAYER | CHECK | EXPLAIN,
     "f32, f64 or both; default f32, for check both, for sweep f32 everywhere and f64 on a part of the grid"},
    {"threads", "N", KEY_THREADS, SWEEP | SDPA | LAYER | CHECK | EXPLAIN,
     "threads of every engine, default 1; for sweep a list too, such as 1,2,4 or 1:8:x2"},
    {"d-model", "LIST", KEY_D_MODEL, SWEEP,
     "columns of X, in numbers and ranges separated by commas, such as 64,256 or 64:1024:x2 or 64:512:+64"},
    {"heads", "LIST", KEY_HEADS, SWEEP, "query and key heads; the head size is then d_model / heads"},
    {"head-dim", "LIST", KEY_HEAD_DIM, SWEEP,
     "head size, default 64; the heads are then d_model / head size, or with --heads d_model their product"},
    {"len", "LIST", KEY_LEN, SWEEP, "rows of X of a batch member"},
    {"batch", "LIST", KEY_BATCH, SWEEP, "batch members, default 1"},
    {"shapes", "FILE", KEY_SHAPES, SWEEP,
     "in place of the chain the attention problems of a model: a file, one of those that came with attn-bench "
     "(attn-bench "
     "list), or all"},
    {"full", NULL, KEY_FULL, SWEEP, "the grid up to d_model 4096 and length 16384; says what does not fit in memory"},
    {"budget", "SECONDS", KEY_BUDGET, SWEEP,
     "about how long it may take, default 120, with --full 1800; what does not fit is left out and named"},
    {"repeat", "N", KEY_REPEAT, SDPA | LAYER, "at least N timed runs, default 5"},
    {"min-time", "SECONDS", KEY_MIN_TIME, SDPA | LAYER, "time each engine at least that long, default 0.5"},
    {"seed", "N", KEY_SEED, SWEEP | SDPA,
     "seed of the data and of the choice of checked rows, default 1; in sdpa the "
     "data's seed is a part of PROBLEM"},
    {"json", "FILE", KEY_JSON, SWEEP | SDPA | LAYER,
     "write results as JSON; - is standard output, and the text then goes to "
     "standard error"},
    {"csv", "FILE", KEY_CSV, SWEEP | SDPA | LAYER, "write results as CSV; - as above"},
    {"bound", "PERCENT", KEY_BOUND, COMPARE, "more time than this is a regression, default 5%"},
    {"all", NULL, KEY_ALL, COMPARE, "print every point, changed or not, and name all that only one file has"},
    {"report", "DIR", KEY_REPORT, SWEEP,
     "make the folder DIR with report.html, pictures (by gnuplot), results.json and results.csv; adds runs for the "
     "shares "
     "of the stages, cold caches and 1 to all threads"},
    {"cold", NULL, KEY_COLD, SWEEP | SDPA, "put arrays and workspace out of the caches before every run"},
    {"quiet", NULL, KEY_QUIET, SWEEP | SDPA | LAYER | CHECK, "no progress bar, no machine header, no remarks"},
    {"man", NULL, KEY_MAN, 1u << SUB_HELP, "all pages as one man page, as it is installed"},
    {"help", NULL, KEY_HELP, EVERY, "this page"},
    {"version", NULL, KEY_VERSION, EVERY, "versions"},
    {0},
};

/* ---- Errors ------------------------------------------------------------------------------------------------------ */

void usage_error(const char *format, ...) {
    va_list list;
    va_start(list, format);
    fputs("attn-bench: ", stderr);
    vfprintf(stderr, format, list);
    fputc('\n', stderr);
    va_end(list);
    exit(EXIT_USAGE);
}

FILE *options_text_stream(const bench_options *options) {
    bool taken = (options->json && strcmp(options->json, "-") == 0) || (options->csv && strcmp(options->csv, "-") == 0);
    return taken ? stderr : stdout;
}

static void check_file(const char *option, const char *file) {
    if (!file || strcmp(file, "-") == 0)
        return;
    FILE *out = fopen(file, "a");
    if (!out)
        usage_error("--%s %s: %s", option, file, strerror(errno));
    fclose(out);
}

void options_check_files(const bench_options *options) {
    check_file("json", options->json);
    check_file("csv", options->csv);
    char error[256];
    if (options->report && !report_folder_make(options->report, error, sizeof error))
        usage_error("--report %s: %s", options->report, error);
}

/* ---- Values ------------------------------------------------------------------------------------------------------ */

static int64_t parse_integer(const char *option, const char *text, int64_t low, int64_t high) {
    char *end;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    if (end == text || *end || errno || value < low || value > high)
        usage_error("--%s %s: a whole number from %lld to %lld is needed", option, text, (long long)low,
                    (long long)high);
    return value;
}

static double parse_seconds(const char *option, const char *text) {
    char *end;
    double value = strtod(text, &end);
    if (end == text || *end || !(value >= 0) || value > 1e6)
        usage_error("--%s %s: a number of seconds from 0 to 1000000 is needed", option, text);
    return value;
}

/* "5%" or "5" as 0.05. */
static double parse_percent(const char *option, const char *text) {
    char *end;
    double value = strtod(text, &end);
    if (end == text || strcmp(end + (*end == '%'), "") != 0 || !(value >= 0) || value > 1000)
        usage_error("--%s %s: a percentage from 0%% to 1000%% is needed, such as 5%%", option, text);
    return value / 100;
}

static uint64_t parse_seed(const char *text) {
    char *end;
    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);
    if (!isdigit((unsigned char)*text) || *end || errno)
        usage_error("--seed %s: a whole number from 0 to 18446744073709551615 is needed", text);
    return value;
}

static void append_number(number_list *list, const char *option, int64_t value, int64_t low, int64_t high) {
    if (value < low || value > high)
        usage_error("--%s %lld: whole numbers from %lld to %lld are accepted", option, (long long)value, (long long)low,
                    (long long)high);
    if (list->count == LIST_MAX)
        usage_error("--%s: more than %d values", option, LIST_MAX);
    list->item[list->count++] = value;
}

/* One item: N, or FROM:TO:xFACTOR, or FROM:TO:+STEP. */
static void parse_item(number_list *list, const char *option, const char *item, int64_t low, int64_t high) {
    long long from, to, step;
    char kind, rest;
    if (sscanf(item, "%lld%c", &from, &rest) == 1) {
        append_number(list, option, from, low, high);
        return;
    }
    if (sscanf(item, "%lld:%lld:%c%lld%c", &from, &to, &kind, &step, &rest) != 4 || (kind != 'x' && kind != '+') ||
        step < (kind == 'x' ? 2 : 1) || from < 1 || to < from || to > high || step > high)
        usage_error("--%s %s: numbers, or ranges such as 64:4096:x2 or 64:512:+64, separated by commas are needed",
                    option, item);
    for (int64_t n = from; n <= to; n = kind == 'x' ? n * step : n + step)
        append_number(list, option, n, low, high);
}

/* Cuts a list at its commas and hands each item on; an empty item is handed on too. */
static void for_each_item(const char *text, void (*take)(void *argument, const char *item), void *argument) {
    char item[64];
    for (;;) {
        size_t n = strcspn(text, ",");
        snprintf(item, sizeof item, "%.*s", (int)(n < sizeof item ? n : sizeof item), text);
        take(argument, item);
        if (!text[n])
            return;
        text += n + 1;
    }
}

typedef struct list_target {
    number_list *list;
    const char *option;
    int64_t low, high;
} list_target;

static void take_number(void *argument, const char *item) {
    const list_target *t = argument;
    parse_item(t->list, t->option, item, t->low, t->high);
}

static int compare_numbers(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* Ascending, each value once. */
static void parse_numbers(number_list *list, const char *option, const char *text, int64_t low, int64_t high) {
    list_target target = {list, option, low, high};
    list->count = 0;
    for_each_item(text, take_number, &target);
    qsort(list->item, (size_t)list->count, sizeof *list->item, compare_numbers);
    int kept = 1;
    for (int i = 1; i < list->count; i++)
        if (list->item[i] != list->item[kept - 1])
            list->item[kept++] = list->item[i];
    list->count = kept;
}

static void take_engine(void *argument, const char *item) {
    unsigned *engines = argument;
    if (strcmp(item, "all") == 0) {
        *engines |= ENGINES_DEFAULT;
        return;
    }
    for (int id = 0; id < ENGINE_COUNT; id++)
        if (strcmp(item, engine_name((engine_id)id)) == 0) {
            *engines |= ENGINE_BIT(id);
            return;
        }
    usage_error("--engine %s: naive, cache, blas, fused, auto or all are accepted", item);
}

static void take_dtype(void *argument, const char *item) {
    unsigned *dtypes = argument;
    if (strcmp(item, "f32") == 0)
        *dtypes |= 1u << ATTN_F32;
    else if (strcmp(item, "f64") == 0)
        *dtypes |= 1u << ATTN_F64;
    else if (strcmp(item, "both") == 0)
        *dtypes |= 1u << ATTN_F32 | 1u << ATTN_F64;
    else
        usage_error("--dtype %s: f32, f64 or both are accepted", item);
}

/* ---- Parsing ----------------------------------------------------------------------------------------------------- */

static subcommand_id find_subcommand(const char *name) {
    char known[512] = "";
    for (int id = 0; id < SUB_COUNT; id++) {
        if (strcmp(name, subcommand_table[id].name) == 0)
            return (subcommand_id)id;
        size_t used = strlen(known);
        snprintf(known + used, sizeof known - used, "%s%s", id ? ", " : "", subcommand_table[id].name);
    }
    usage_error("unknown subcommand '%s': %s are accepted", name, known);
}

static void take_option(const option_entry *entry, const char *value, bench_options *o) {
    switch (entry->key) {
    case KEY_ENGINE:
        o->engines = 0;
        for_each_item(value, take_engine, &o->engines);
        break;
    case KEY_DTYPE:
        o->dtypes = 0;
        for_each_item(value, take_dtype, &o->dtypes);
        break;
    case KEY_THREADS:
        parse_numbers(&o->thread_counts, entry->name, value, 1, TEAM_MAX_WORKERS);
        break;
    case KEY_D_MODEL:
        parse_numbers(&o->d_model, entry->name, value, 1, 65536);
        break;
    case KEY_HEADS:
        parse_numbers(&o->heads, entry->name, value, 1, 65536);
        break;
    case KEY_HEAD_DIM:
        parse_numbers(&o->head_dim, entry->name, value, 1, 65536);
        break;
    case KEY_BATCH:
        parse_numbers(&o->batch, entry->name, value, 1, 65536);
        break;
    case KEY_LEN:
        parse_numbers(&o->len, entry->name, value, 1, 1 << 20);
        break;
    case KEY_SHAPES:
        o->shapes = value;
        break;
    case KEY_FULL:
        o->full = true;
        break;
    case KEY_BUDGET:
        o->budget = parse_seconds(entry->name, value);
        if (o->budget < 1)
            usage_error("--budget %s: at least 1 second is needed", value);
        break;
    case KEY_REPEAT:
        o->repeat = (int)parse_integer(entry->name, value, 1, 1000);
        break;
    case KEY_MIN_TIME:
        o->min_time = parse_seconds(entry->name, value);
        break;
    case KEY_SEED:
        o->seed = parse_seed(value);
        break;
    case KEY_JSON:
        o->json = value;
        break;
    case KEY_CSV:
        o->csv = value;
        break;
    case KEY_BOUND:
        o->bound = parse_percent(entry->name, value);
        break;
    case KEY_ALL:
        o->all = true;
        break;
    case KEY_REPORT:
        o->report = value;
        break;
    case KEY_COLD:
        if (!flush_is_possible())
            usage_error("--cold: caches cannot be emptied on this processor");
        o->cold = true;
        break;
    case KEY_QUIET:
        o->quiet = true;
        break;
    case KEY_MAN:
        o->man = true;
        break;
    }
}

/* Options of the subcommands (bits 1 << subcommand_id) for getopt_long; val is the key. */
static void make_long_options(unsigned subcommands, struct option *list) {
    int n = 0;
    for (const option_entry *e = option_table; e->name; e++)
        if (e->subcommands & subcommands)
            list[n++] = (struct option){e->name, e->argument ? required_argument : no_argument, NULL, e->key};
    list[n] = (struct option){0};
}

/* The first word that is no option names the subcommand, sweep when there is none; it is moved to argv[1], where it
 * takes the place of the program's name. *moved tells whether there was one. */
static subcommand_id take_subcommand(int argc, char **argv, bool *moved) {
    struct option list[64];
    make_long_options(EVERY, list);
    opterr = 0;
    optind = 1;
    while (getopt_long(argc, argv, "+:hq", list, NULL) != -1)
        ;
    *moved = optind < argc;
    if (!*moved)
        return SUB_SWEEP;
    char *word = argv[optind];
    subcommand_id sub = find_subcommand(word);
    memmove(argv + 2, argv + 1, (size_t)(optind - 1) * sizeof *argv);
    argv[1] = word;
    return sub;
}

static const option_entry *find_option(int key) {
    for (const option_entry *e = option_table; e->name; e++)
        if (e->key == key)
            return e;
    return NULL;
}

static void check_operands(subcommand_id sub, int count, char **operands, bench_options *o) {
    const subcommand_entry *s = &subcommand_table[sub];
    o->layer = sub == SUB_EXPLAIN && count > 0 && strcmp(operands[0], "layer") == 0;
    if (o->layer) {
        s = &subcommand_table[SUB_LAYER];
        operands++;
        count--;
    }
    int allowed = !s->operand ? 0 : strchr(s->operand, ' ') ? 2 : 1;
    if (count > allowed)
        usage_error("%s: '%s' is one argument too many (see attn-bench help %s)", s->name, operands[allowed], s->name);
    if (s->operand && s->operand[0] != '[' && count < allowed)
        usage_error("%s: %s %s needed, such as %s %s", s->name, s->operand, allowed > 1 ? "are" : "is", s->name,
                    s->such_as);
    if (o->thread_counts.count > 1 && sub != SUB_SWEEP)
        usage_error("%s: --threads takes one number here; only sweep takes a list", s->name);
    o->operand = count > 0 ? operands[0] : NULL;
    o->second = count > 1 ? operands[1] : NULL;
    if (o->json && o->csv && strcmp(o->json, "-") == 0 && strcmp(o->csv, "-") == 0)
        usage_error("--json and --csv cannot both be standard output");
}

/* The option that getopt_long() stumbled over. */
static void describe_word(char **words, char *text, size_t size) {
    if (optopt > 0 && optopt < 128)
        snprintf(text, size, "-%c", optopt);
    else
        snprintf(text, size, "%s", words[optind - 1]);
}

subcommand_id options_parse(int argc, char **argv, bench_options *o) {
    *o = (bench_options){.thread_counts = {{1}, 1}, .seed = 1, .min_time = -1, .bound = 0.05};
    bool named;
    subcommand_id sub = take_subcommand(argc, argv, &named);
    int first = named; /* words before those that belong to the subcommand */
    struct option list[64];
    make_long_options(1u << sub, list);
    optind = 0; /* getopt begins anew */
    for (;;) {
        int key = getopt_long(argc - first, argv + first, ":hq", list, NULL);
        if (key == -1)
            break;
        if (key == 'h' || key == KEY_HELP) {
            o->operand = first ? subcommand_table[sub].name : NULL;
            return SUB_HELP;
        }
        if (key == KEY_VERSION)
            return SUB_VERSION;
        char word[64];
        describe_word(argv + first, word, sizeof word);
        if (key == ':')
            usage_error("%s: a value is needed (see attn-bench help %s)", word, subcommand_table[sub].name);
        if (key == '?') {
            char known[512] = "";
            for (const struct option *l = list; l->name; l++) {
                size_t used = strlen(known);
                snprintf(known + used, sizeof known - used, "%s--%s", used ? ", " : "", l->name);
            }
            usage_error("%s: no option of %s; %s are accepted", word, subcommand_table[sub].name, known);
        }
        take_option(find_option(key == 'q' ? KEY_QUIET : key), optarg, o);
    }
    check_operands(sub, argc - first - optind, argv + first + optind, o);
    o->threads = (int)o->thread_counts.item[0];
    return sub;
}
