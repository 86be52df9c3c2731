/* Comparators: one number against what the oracle expects of it, rows, whole results, and the report about them. */
#include "compare.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Where 3 eps max|V| is promised for standard normal inputs. Rows of fewer keys, and short products with their longer
 * tails, have weights near 1 whose scores' errors nothing averages out: in 30,000 random problems the textbook loops
 * reached 3.9 eps at 47 keys and head size 128. */
enum { NORMAL_MOST_KEYS = 4096, NORMAL_LEAST_KEYS = 128, NORMAL_LEAST_DIM = 16 };

/* BLAS and textbook loops sum a score in order: its error, where two keys compete for a row, reaches four times its
 * standard deviation of 0.15 sqrt(head_dim) eps in some of many cases. */
#define SUM_FACTOR 0.45L

/* Equal exponentials summed in order are all rounded the same way. */
#define LSE_FACTOR 0.125L

/* ---- Tolerances ---------------------------------------------------------------------------------------------- */

double support_eps(attn_dtype dtype) {
    return dtype == ATTN_F32 ? 0x1p-23 : 0x1p-52;
}

bool support_under_valgrind(void) {
    const char *valgrind = getenv("ATTN_UNDER_VALGRIND");
    return valgrind && strcmp(valgrind, "1") == 0;
}

double support_valgrind_factor(attn_dtype dtype) {
    return dtype == ATTN_F64 && support_under_valgrind() ? SUPPORT_VALGRIND_FACTOR : 1;
}

/* Inputs, options and rows for which 3 eps max|V| holds. */
static bool is_plain_normal(const support_case *c, const support_row *row) {
    const uint64_t changes_scores = ATTN_HAS_SCALE | ATTN_HAS_SOFTCAP | ATTN_HAS_BIAS | ATTN_HAS_ALIBI | ATTN_HAS_SINK;
    return c->distribution == SUPPORT_DATA_NORMAL && !(c->problem.flags & changes_scores) &&
           c->problem.kv_len <= NORMAL_MOST_KEYS && row->visible >= NORMAL_LEAST_KEYS &&
           c->problem.head_dim >= NORMAL_LEAST_DIM;
}

/* (3 + factor size) eps. */
static long double growing(const support_data *d, long double factor, long double size) {
    return (3 + factor * size) * support_eps(d->dtype) * support_valgrind_factor(d->dtype);
}

/* What rounding may do to scores, and to all that a row says about them, from the magnitude of their terms. A default
 * scale 1/sqrt(head_dim) computed in double is one eps off at most. */
static long double score_tolerance(const support_data *d, long double magnitude) {
    return growing(d, 2.5L + 0.5L * sqrtl((long double)d->problem_case->problem.head_dim), magnitude);
}

long double support_tolerance(const support_data *d, const support_row *row) {
    if (is_plain_normal(d->problem_case, row)) {
        return growing(d, 0, 0) * row->max_value;
    }
    long double factor = fmaxl(1.5L, SUM_FACTOR * sqrtl((long double)d->problem_case->problem.head_dim));
    return growing(d, factor, row->max_score) * row->max_value;
}

static long double lse_tolerance(const support_data *d, const support_row *row) {
    long double size = support_is_finite(row->lse) ? fmaxl(1, fabsl(row->lse)) : 1;
    return score_tolerance(d, row->max_magnitude) * size + growing(d, LSE_FACTOR, (long double)row->visible);
}

/* ---- One number ---------------------------------------------------------------------------------------------- */

static double error_units(double got, long double wanted, support_expect expect, long double tolerance) {
    switch (expect) {
    case SUPPORT_EXPECT_ANYTHING:
        return 0;
    case SUPPORT_EXPECT_NAN:
        return isnan(got) ? 0 : INFINITY;
    case SUPPORT_EXPECT_NONFINITE:
        return isfinite(got) ? INFINITY : 0;
    case SUPPORT_EXPECT_EXACT:
        return got == wanted ? 0 : INFINITY;
    case SUPPORT_EXPECT_NUMBER:
        break;
    }
    if (got == wanted) {
        return 0;
    }
    long double error = fabsl(got - wanted);
    return isfinite(got) && tolerance > 0 ? (double)(error / tolerance) : (double)INFINITY;
}

typedef struct place {
    const char *array;
    int64_t b, h, row, col;
} place;

static void check(support_report *report, const place *where, double got, long double wanted, support_expect expect,
                  long double tolerance) {
    double units = error_units(got, wanted, expect, tolerance);
    report->numbers++;
    if (units > 1) {
        report->failures++;
    }
    if (report->array == NULL || units > report->worst) {
        report->worst = units;
        report->array = where->array;
        report->b = where->b;
        report->h = where->h;
        report->row = where->row;
        report->col = where->col;
        report->got = got;
        report->wanted = expect == SUPPORT_EXPECT_NONFINITE ? (double)NAN : (double)wanted;
    }
}

/* ---- Rows of attention --------------------------------------------------------------------------------------- */

/* What was wanted so far: whether it could tell a right result from a wrong one. */
typedef struct witness {
    int64_t numbers, zeros, repeats;
    long double previous;
} witness;

static void observe(witness *seen, long double wanted, support_expect expect) {
    if (expect == SUPPORT_EXPECT_ANYTHING) {
        return;
    }
    seen->repeats += seen->numbers > 0 && wanted == seen->previous;
    seen->zeros += wanted == 0;
    seen->numbers++;
    seen->previous = wanted;
}

static bool proves_little(const witness *seen) {
    return 2 * seen->zeros >= seen->numbers || 2 * seen->repeats >= seen->numbers;
}

static void compare_out(const support_data *d, place where, const support_row *row, witness *seen,
                        support_report *report) {
    long double tolerance = support_tolerance(d, row);
    for (int64_t c = 0; c < d->problem_case->problem.v_dim; c++) {
        where.col = c;
        double got = support_get(d, SUPPORT_OUT, where.b, where.h, where.row, c);
        check(report, &where, got, row->out[c], row->out_expect[c], tolerance);
        observe(seen, row->out[c], row->out_expect[c]);
        if (row->out_expect[c] == SUPPORT_EXPECT_NUMBER) {
            double error = (double)fabsl(got - row->out[c]);
            report->error_max = fmax(report->error_max, error);
            if (row->max_value > 0) {
                report->error_eps = fmax(report->error_eps, error / (support_eps(d->dtype) * (double)row->max_value));
            }
        }
    }
}

/* One row of an intermediate. */
static void compare_intermediate(const support_data *d, place where, support_array array, const support_row *row,
                                 support_report *report) {
    static const char *const names[] = {"scores", "capped", "masked", "weights"};
    const long double *wanted[] = {row->scores, row->capped, row->masked, row->weights};
    const support_expect *expect[] = {row->scores_expect, row->capped_expect, row->masked_expect, row->weights_expect};
    const long double *magnitude[] = {row->scores_magnitude, row->capped_magnitude, row->masked_magnitude, NULL};
    int which = (int)(array - SUPPORT_SCORES);
    where.array = names[which];
    for (int64_t j = 0; j < d->problem_case->problem.kv_len; j++) {
        where.col = j;
        check(report, &where, support_get(d, array, where.b, where.h, where.row, j), wanted[which][j], expect[which][j],
              score_tolerance(d, magnitude[which] ? magnitude[which][j] : row->max_magnitude));
    }
}

static void compare_attention_row(const support_data *d, int64_t b, int64_t h, int64_t i, support_row *row,
                                  witness *seen, support_report *report) {
    const support_case *c = d->problem_case;
    support_oracle_row(d, b, h, i, row);
    report->rows++;
    place where = {"out", b, h, i, 0};
    if (!(c->problem.flags & ATTN_RAGGED) || i < support_case_q_len(c, b)) {
        compare_out(d, where, row, seen, report);
        if (support_has(d, SUPPORT_LSE)) {
            where.array = "lse";
            check(report, &where, support_get(d, SUPPORT_LSE, b, h, i, 0), row->lse, row->lse_expect,
                  lse_tolerance(d, row));
        }
    }
    for (int array = SUPPORT_SCORES; array <= SUPPORT_WEIGHTS; array++) {
        if (support_has(d, (support_array)array)) {
            compare_intermediate(d, where, (support_array)array, row, report);
        }
    }
}

/* ---- Elements beside the rows -------------------------------------------------------------------------------- */

static bool is_untouched(const support_data *d, support_array array, int64_t n) {
    size_t bytes = d->dtype == ATTN_F32 ? sizeof(float) : sizeof(double);
    const unsigned char *x = (const unsigned char *)d->base[array] + (size_t)n * bytes;
    for (size_t i = 0; i < bytes; i++) {
        if (x[i] != 0xff) {
            return false;
        }
    }
    return true;
}

/* Marks the elements that belong to rows of an output. */
static void mark_rows(const support_data *d, support_array array, bool *belongs) {
    const support_case *c = d->problem_case;
    bool by_query = array == SUPPORT_OUT || array == SUPPORT_LSE;
    bool ragged = (c->problem.flags & ATTN_RAGGED) != 0;
    int64_t cols = array == SUPPORT_OUT ? c->problem.v_dim : array == SUPPORT_LSE ? 1 : c->problem.kv_len;
    for (int64_t b = 0; b < c->problem.batch; b++) {
        int64_t rows = by_query && ragged ? support_case_q_len(c, b) : c->problem.q_len;
        for (int64_t h = 0; h < c->problem.q_heads; h++) {
            for (int64_t i = 0; i < rows; i++) {
                for (int64_t col = 0; col < cols; col++) {
                    belongs[support_index(d, array, b, h, i, col)] = true;
                }
            }
        }
    }
}

static void check_beside_rows(const support_data *d, support_array array, support_report *report) {
    bool *belongs = calloc((size_t)d->elements[array] + 1, sizeof *belongs);
    if (!belongs) {
        return;
    }
    mark_rows(d, array, belongs);
    for (int64_t n = 0; n < d->elements[array]; n++) {
        if (!belongs[n] && !is_untouched(d, array, n)) {
            place where = {"an element between rows", 0, 0, 0, n};
            check(report, &where, support_load(d->dtype, d->base[array], n), NAN, SUPPORT_EXPECT_EXACT, 0);
        }
    }
    free(belongs);
}

/* ---- Reports ------------------------------------------------------------------------------------------------- */

void support_report_begin(support_report *report) {
    memset(report, 0, sizeof *report);
}

static const char *const verdicts[] = {"passed", "MISTRUSTED (most of the wanted output is 0 or one constant)",
                                       "FAILED"};

/* The bytes of poison mean that nobody wrote there. */
static const char *written_or_not(double got, attn_dtype dtype) {
    uint32_t single;
    uint64_t bits;
    float narrow = (float)got;
    memcpy(&single, &narrow, sizeof single);
    memcpy(&bits, &got, sizeof bits);
    bool poison = isnan(got) && (dtype == ATTN_F32 ? single == UINT32_MAX : bits == UINT64_MAX);
    return poison ? " (never written)" : "";
}

static void describe(const support_data *d, const char *engine, support_report *report) {
    char problem[SUPPORT_TEXT_SIZE];
    support_case_print(d->problem_case, problem, sizeof problem);
    if (report->array == NULL) {
        snprintf(report->text, sizeof report->text, "%s: nothing to compare; attn-bench check '%.3000s'",
                 verdicts[report->verdict], problem);
        return;
    }
    snprintf(
        report->text, sizeof report->text,
        "%s: %lld of %lld numbers outside their tolerance; worst at %s[%lld][%lld][%lld][%lld]: got %.9g%s, wanted "
        "%.9g, %.4g times the tolerance; attn-bench check '%.3000s' --engine %s --dtype %s",
        verdicts[report->verdict], (long long)report->failures, (long long)report->numbers, report->array,
        (long long)report->b, (long long)report->h, (long long)report->row, (long long)report->col, report->got,
        written_or_not(report->got, d->dtype), report->wanted, report->worst, problem, engine ? engine : "auto",
        d->dtype == ATTN_F32 ? "f32" : "f64");
}

static bool conclude(const support_data *d, const char *engine, const witness *seen, support_report *report) {
    report->verdict = report->failures > 0 ? SUPPORT_FAILED : proves_little(seen) ? SUPPORT_MISTRUSTED : SUPPORT_PASSED;
    describe(d, engine, report);
    return report->verdict != SUPPORT_FAILED;
}

static bool no_memory(support_report *report) {
    report->verdict = SUPPORT_FAILED;
    snprintf(report->text, sizeof report->text, "FAILED: no memory for the oracle");
    return false;
}

bool support_verify(const support_data *d, const char *engine, support_report *report) {
    const attn_problem *p = &d->problem_case->problem;
    support_report_begin(report);
    support_row *row = support_row_create(d->problem_case);
    if (!row) {
        return no_memory(report);
    }
    witness seen = {0, 0, 0, 0};
    for (int64_t b = 0; b < p->batch; b++) {
        for (int64_t h = 0; h < p->q_heads; h++) {
            for (int64_t i = 0; i < p->q_len; i++) {
                compare_attention_row(d, b, h, i, row, &seen, report);
            }
        }
    }
    support_row_free(row);
    for (int array = 0; array < SUPPORT_ARRAY_COUNT; array++) {
        bool is_output = array == SUPPORT_OUT || array == SUPPORT_LSE || array >= SUPPORT_SCORES;
        if (is_output && d->base[array]) {
            check_beside_rows(d, (support_array)array, report);
        }
    }
    return conclude(d, engine, &seen, report);
}

bool support_verify_sampled(const support_data *d, const char *engine, int64_t max_rows, uint64_t seed,
                            support_report *report) {
    const attn_problem *p = &d->problem_case->problem;
    support_report_begin(report);
    support_row *row = support_row_create(d->problem_case);
    if (!row) {
        return no_memory(report);
    }
    witness seen = {0, 0, 0, 0};
    bool any = p->batch > 0 && p->q_heads > 0 && p->q_len > 0;
    for (int64_t n = 0; any && n < max_rows; n++) {
        int64_t b, h, i;
        if (n < 4) {
            /* The first and the last row of the first and of the last head. */
            b = n < 2 ? 0 : p->batch - 1;
            h = n < 2 ? 0 : p->q_heads - 1;
            i = n % 2 == 0 ? 0 : p->q_len - 1;
        } else {
            b = (int64_t)(support_random_bits(seed, 0, (uint64_t)n) % (uint64_t)p->batch);
            h = (int64_t)(support_random_bits(seed, 1, (uint64_t)n) % (uint64_t)p->q_heads);
            i = (int64_t)(support_random_bits(seed, 2, (uint64_t)n) % (uint64_t)p->q_len);
        }
        compare_attention_row(d, b, h, i, row, &seen, report);
    }
    support_row_free(row);
    return conclude(d, engine, &seen, report);
}

/* ---- Stages and arrays of a test's own ----------------------------------------------------------------------- */

void support_compare_row(support_report *report, const char *name, int64_t row, attn_dtype dtype, int64_t n,
                         const void *got, const long double *wanted, const long double *tolerance) {
    report->rows++;
    for (int64_t c = 0; c < n; c++) {
        place where = {name, 0, 0, row, c};
        support_expect expect = isnan(wanted[c])                                 ? SUPPORT_EXPECT_NAN
                                : support_is_inf(wanted[c]) || tolerance[c] == 0 ? SUPPORT_EXPECT_EXACT
                                                                                 : SUPPORT_EXPECT_NUMBER;
        double value = support_load(dtype, got, c);
        check(report, &where, value, wanted[c], expect, tolerance[c] * support_valgrind_factor(dtype));
        if (expect == SUPPORT_EXPECT_NUMBER) {
            report->error_max = fmax(report->error_max, (double)fabsl(value - wanted[c]));
        }
    }
}

bool support_report_end(support_report *report, const char *origin) {
    report->verdict = report->failures > 0 ? SUPPORT_FAILED : SUPPORT_PASSED;
    if (report->array == NULL) {
        snprintf(report->text, sizeof report->text, "%s: %s: nothing to compare", verdicts[report->verdict], origin);
    } else {
        snprintf(report->text, sizeof report->text,
                 "%s: %s: %lld of %lld numbers outside their tolerance; worst at %s[%lld][%lld]: got %.17g, wanted "
                 "%.17g, %.4g times the tolerance",
                 verdicts[report->verdict], origin, (long long)report->failures, (long long)report->numbers,
                 report->array, (long long)report->row, (long long)report->col, report->got, report->wanted,
                 report->worst);
    }
    return report->verdict != SUPPORT_FAILED;
}
