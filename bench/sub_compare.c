/* attn-bench compare: two files of --json, point by point. */
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "result.h"
#include "subcommands.h"

/* Names that are printed without --all. */
#define MOST_NAMES 12

/* ---- Files ------------------------------------------------------------------------------------------------------- */

/* One entry of "results"; the texts belong to the file. */
typedef struct point {
    const char *kind, *problem, *engine, *dtype;
    json_int_t threads;
    bool cold, sampled;
    double ms, spread; /* spread NaN = unknown */
    json_int_t repeats;
} point;

typedef struct result_file {
    const char *name;
    json_t *root;
    point *point;
    size_t count;
} result_file;

static const char *text_of(const json_t *object, const char *key) {
    return json_string_value(json_object_get(object, key));
}

static const char *fact(const result_file *f, const char *key) {
    const char *text = text_of(json_object_get(f->root, "machine"), key);
    return text ? text : "unknown";
}

static void read_point(const result_file *f, size_t i, const json_t *entry, point *p) {
    const json_t *ms = json_object_get(entry, "ms_median"), *spread = json_object_get(entry, "spread");
    const char *caches = text_of(entry, "caches");
    *p = (point){
        .kind = text_of(entry, "kind"),
        .problem = text_of(entry, "problem"),
        .engine = text_of(entry, "engine"),
        .dtype = text_of(entry, "dtype"),
        .threads = json_integer_value(json_object_get(entry, "threads")),
        .cold = caches && strcmp(caches, "cold") == 0,
        .sampled = json_is_true(json_object_get(entry, "sampled")),
        .ms = json_number_value(ms),
        .spread = json_is_number(spread) ? json_number_value(spread) : NAN,
        .repeats = json_integer_value(json_object_get(entry, "repeats")),
    };
    if (p->kind && p->engine && strcmp(p->engine, "layer") == 0)
        p->kind = "layer"; /* which files of the first days call sdpa */
    if (!p->kind || !p->problem || !p->engine || !p->dtype || p->threads < 1 || !(p->ms > 0) || p->repeats < 1)
        usage_error(
            "compare %s: results[%zu] is no result of attn-bench: kind, problem, engine, dtype, threads, ms_median "
            "and repeats are needed",
            f->name, i);
}

static bool same_point(const point *a, const point *b) {
    return a->threads == b->threads && a->cold == b->cold && strcmp(a->engine, b->engine) == 0 &&
           strcmp(a->dtype, b->dtype) == 0 && strcmp(a->kind, b->kind) == 0 && strcmp(a->problem, b->problem) == 0;
}

/* The same point in a file, NULL when it is not there; looks at the first `count` points. */
static const point *find_point(const result_file *f, size_t count, const point *like) {
    for (size_t i = 0; i < count; i++)
        if (same_point(&f->point[i], like))
            return &f->point[i];
    return NULL;
}

static void read_file(const char *name, result_file *f) {
    json_error_t error;
    *f = (result_file){.name = name, .root = json_load_file(name, JSON_REJECT_DUPLICATES, &error)};
    if (!f->root && error.line < 1)
        usage_error("compare: %s", error.text);
    if (!f->root)
        usage_error("compare %s: line %d is no JSON: %s", name, error.line, error.text);
    const json_t *results = json_object_get(f->root, "results");
    if (!json_is_array(results) || !json_is_object(json_object_get(f->root, "machine")))
        usage_error(
            "compare %s: no results of attn-bench: what --json writes is needed, an object with machine and results",
            name);
    size_t count = json_array_size(results);
    f->point = calloc(count + 1, sizeof *f->point);
    for (size_t i = 0; f->point && i < count; i++) {
        read_point(f, i, json_array_get(results, i), &f->point[i]);
        if (find_point(f, i, &f->point[i]))
            usage_error("compare %s: results[%zu] is there twice: %s %s %s, %s, %lld threads", name, i,
                        f->point[i].kind, f->point[i].problem, f->point[i].engine, f->point[i].dtype,
                        (long long)f->point[i].threads);
        f->count++;
    }
}

static void close_file(result_file *f) {
    free(f->point);
    json_decref(f->root);
}

/* ---- Changes ----------------------------------------------------------------------------------------------------- */

/* One point in both files. Times are compared by the logarithm of new / old, which treats faster and slower alike. */
typedef struct change {
    const point *old, *new;
    double log_ratio;
    double noise;     /* the spreads of both, added as independent ones are; NaN = unknown */
    bool significant; /* beyond the noise, in figures with enough repeats */
} change;

static change make_change(const point *old, const point *new) {
    change c = {.old = old, .new = new, .log_ratio = log(new->ms / old->ms), .noise = hypot(old->spread, new->spread)};
    c.significant =
        old->repeats >= RESULT_FEWEST_REPEATS && new->repeats >= RESULT_FEWEST_REPEATS &&fabs(c.log_ratio) > c.noise;
    return c;
}

static int slowest_first(const void *a, const void *b) {
    double x = ((const change *)a)->log_ratio, y = ((const change *)b)->log_ratio;
    return (x < y) - (x > y);
}

/* "+8.9%": of the time. */
static const char *percent(double log_ratio, char *text) {
    snprintf(text, 16, "%+.1f%%", 100 * expm1(log_ratio));
    return text;
}

static const char *spread_text(double spread, char *text) {
    if (isfinite(spread))
        snprintf(text, 16, "%.1f%%", 100 * spread);
    else
        snprintf(text, 16, "-");
    return text;
}

static void print_point(const point *p, FILE *out) {
    fprintf(out, "%s %s %s, %s, %lld thread%s%s", p->engine, p->kind, p->problem, p->dtype, (long long)p->threads,
            p->threads == 1 ? "" : "s", p->cold ? ", cold" : "");
}

static void print_change(const change *c, double bound) {
    char a[16], b[16], d[16];
    printf("%8s %10.4g %10.4g %8s %8s  %s ", percent(c->log_ratio, a), c->old->ms, c->new->ms,
           spread_text(c->old->spread, b), spread_text(c->new->spread, d),
           !c->significant               ? "  "
           : c->log_ratio > log1p(bound) ? "!!"
                                         : "* ");
    print_point(c->new, stdout);
    puts(c->old->sampled || c->new->sampled ? " ~" : "");
}

static void print_changes(const change *list, size_t count, double bound, bool all) {
    size_t shown = 0;
    for (size_t i = 0; i < count; i++) {
        if (!all && !list[i].significant)
            continue;
        if (shown++ == 0)
            printf("\n%8s %10s %10s %8s %8s\n", "time", "old ms", "new ms", "spread", "spread");
        print_change(&list[i], bound);
    }
    if (shown > 0)
        puts("* beyond the spread of both, !! and slower by more than the bound");
}

/* ---- Engines ----------------------------------------------------------------------------------------------------- */

/* The two-sided 95 % point of Student's t. */
static double student(size_t freedom) {
    static const double table[] = {12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23};
    return freedom <= sizeof table / sizeof *table ? table[freedom - 1] : 1.96 + 2.6 / (double)freedom;
}

static bool same_group(const change *a, const change *b) {
    return a->new->threads == b->new->threads &&strcmp(a->new->engine, b->new->engine) == 0 &&
           strcmp(a->new->dtype, b->new->dtype) == 0;
}

/* The points of one engine, precision and number of threads as pairs: the mean change with its interval, which tells
 * what no single point can. True when all of the interval is slower and the mean by more than the bound. */
static bool print_group(const change *list, size_t count, const change *like, double bound) {
    double sum = 0, squares = 0;
    size_t n = 0, slower = 0, faster = 0;
    for (size_t i = 0; i < count; i++) {
        if (!same_group(&list[i], like))
            continue;
        sum += list[i].log_ratio;
        n++;
        slower += list[i].significant && list[i].log_ratio > 0;
        faster += list[i].significant && list[i].log_ratio < 0;
    }
    double mean = sum / (double)n;
    for (size_t i = 0; i < count; i++)
        if (same_group(&list[i], like))
            squares += (list[i].log_ratio - mean) * (list[i].log_ratio - mean);
    char a[16], low[16] = "-", high[16] = "-";
    double reach = n < 2 ? INFINITY : student(n - 1) * sqrt(squares / (double)(n - 1) / (double)n);
    if (n > 1) {
        percent(mean - reach, low);
        percent(mean + reach, high);
    }
    bool worse = mean - reach > 0 && mean > log1p(bound);
    printf("%-6s %-4s %7lld %6zu %8s %8s .. %-8s %6zu %6zu%s\n", like->new->engine, like->new->dtype,
           (long long)like->new->threads, n, percent(mean, a), low, high, slower, faster, worse ? "  !!" : "");
    return worse;
}

static int print_groups(const change *list, size_t count, double bound) {
    int worse = 0;
    printf("\n%-6s %-4s %7s %6s %8s %20s %6s %6s\n", "engine", "type", "threads", "points", "time",
           "95 % of the mean  ", "slower", "faster");
    for (size_t i = 0; i < count; i++) {
        bool seen = false;
        for (size_t j = 0; j < i; j++)
            seen |= same_group(&list[i], &list[j]);
        if (!seen)
            worse += print_group(list, count, &list[i], bound);
    }
    return worse;
}

/* ---- What the two files do not share ----------------------------------------------------------------------------- */

static void print_machines(const result_file *old, const result_file *new) {
    static const char *const keys[] = {"cpu",    "cores", "caches",  "instruction_set", "governor",      "huge_pages",
                                       "kernel", "blas",  "library", "compiler",        "compiler_flags"};
    printf("old: %s, %s\nnew: %s, %s\n", old->name, fact(old, "date"), new->name, fact(new, "date"));
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        const json_t *a = json_object_get(json_object_get(old->root, "machine"), keys[i]);
        const json_t *b = json_object_get(json_object_get(new->root, "machine"), keys[i]);
        if (json_equal(a, b) || (!a && !b))
            continue;
        if (json_is_integer(a) && json_is_integer(b))
            printf("machines differ: %s: old %lld, new %lld\n", keys[i], (long long)json_integer_value(a),
                   (long long)json_integer_value(b));
        else
            printf("machines differ: %s: old '%s', new '%s'\n", keys[i], fact(old, keys[i]), fact(new, keys[i]));
    }
}

/* Why a file has no time of a point: "failed: ..." of its not_timed, NULL when it says nothing. *failed: it was no
 * choice of the user's. */
static const char *reason_of(const result_file *f, const point *p, bool *failed) {
    const json_t *list = json_object_get(f->root, "not_timed");
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *entry = json_array_get(list, i);
        const char *problem = text_of(entry, "problem"), *engine = text_of(entry, "engine");
        const char *dtype = text_of(entry, "dtype"), *kind = text_of(entry, "kind"), *state = text_of(entry, "state");
        if (!problem || !engine || !dtype || !kind || !state || strcmp(problem, p->problem) != 0 ||
            strcmp(dtype, p->dtype) != 0 || strcmp(kind, p->kind) != 0 ||
            (strcmp(engine, p->engine) != 0 && strcmp(engine, "all") != 0) ||
            json_integer_value(json_object_get(entry, "threads")) != p->threads)
            continue;
        *failed = strcmp(state, "failed") == 0;
        return state;
    }
    return NULL;
}

/* Names the points of f that the other file has not timed; returns how many of them failed there. */
static int print_lonely(const result_file *f, const result_file *other, const char *word, bool all) {
    int named = 0, more = 0, failures = 0;
    for (size_t i = 0; i < f->count; i++) {
        if (find_point(other, other->count, &f->point[i]))
            continue;
        bool failed = false;
        const char *reason = reason_of(other, &f->point[i], &failed);
        failures += failed;
        if (named >= MOST_NAMES && !all && !failed) {
            more++;
            continue;
        }
        if (named++ == 0)
            printf("\nonly in %s:\n", word);
        fputs("  ", stdout);
        print_point(&f->point[i], stdout);
        printf(reason ? " (%s in the other)\n" : "\n", reason);
    }
    if (more)
        printf("  and %d more, which --all names\n", more);
    return failures;
}

/* ---- The whole --------------------------------------------------------------------------------------------------- */

static size_t make_changes(const result_file *old, const result_file *new, change *list) {
    size_t count = 0;
    for (size_t i = 0; i < new->count; i++) {
        const point *before = find_point(old, old->count, &new->point[i]);
        if (before)
            list[count++] = make_change(before, &new->point[i]);
    }
    qsort(list, count, sizeof *list, slowest_first);
    return count;
}

static int print_verdict(const change *list, size_t count, int worse_groups, int failures, double bound) {
    int worse = 0;
    size_t significant = 0;
    for (size_t i = 0; i < count; i++) {
        significant += list[i].significant;
        worse += list[i].significant && list[i].log_ratio > log1p(bound);
    }
    printf("\n%zu point%s in both, %zu changed beyond their spread, %d of them slower by more than %g %%", count,
           count == 1 ? "" : "s", significant, worse, 100 * bound);
    if (worse_groups)
        printf(", %d engine%s slower in the mean", worse_groups, worse_groups == 1 ? "" : "s");
    if (failures)
        printf(", %d failed", failures);
    bool regression = worse > 0 || worse_groups > 0 || failures > 0;
    printf(": %s\n", regression ? "REGRESSION" : "no regression");
    return regression;
}

int sub_compare(const bench_options *options) {
    result_file old, new;
    read_file(options->operand, &old);
    read_file(options->second, &new);
    int status = 1;
    change *list = calloc(new.count + 1, sizeof *list);
    if (list && old.point && new.point) {
        print_machines(&old, &new);
        size_t count = make_changes(&old, &new, list);
        print_changes(list, count, options->bound, options->all);
        int worse = count > 0 ? print_groups(list, count, options->bound) : 0;
        int failures = print_lonely(&old, &new, "old", options->all);
        print_lonely(&new, &old, "new", options->all);
        if (count > 0)
            status = print_verdict(list, count, worse, failures, options->bound);
        else
            fprintf(stderr, "attn-bench: compare: no point is in both %s and %s: nothing was compared\n", old.name,
                    new.name);
    } else {
        fputs("attn-bench: compare: not enough memory\n", stderr);
    }
    free(list);
    close_file(&old);
    close_file(&new);
    return status;
}
