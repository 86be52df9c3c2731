/* Results against the oracle.
 *
 * Tolerances, eps = 2^-23 (float) or 2^-52 (double), per row:
 *   out      3 eps max|V| for data=normal with the default scale, no option that changes scores, head_dim of 16 or more
 *            and 32 to 4096 keys seen; else (3 + g max|s|) eps max|V|, g = max(1.5, 0.45 sqrt(head_dim)); max over the
 *            keys that the row sees, |s| at least the root of the sum of its squared terms
 *   lse      (3 + f max m) eps max(1, |lse|) + (3 + n/8) eps, f = 2.5 + 0.5 sqrt(head_dim), m = |scale| sum |q_c k_c|
 *            of a key, taken through the steps; max over the n keys that the row sees
 *   weights  (3 + f max m) eps
 *   scores, capped, masked   (3 + f m) eps, m of their own key after that step
 * With the environment variable ATTN_UNDER_VALGRIND=1, double tolerances are SUPPORT_VALGRIND_FACTOR times as wide:
 * valgrind computes long double in 64 bits.
 * NaN where none is expected fails, and so does anything but what the rules demand where they demand NaN, 0 or -Inf.
 * So does an element between the rows of out, lse or an intermediate that was written to (support_verify only).
 */
#ifndef ATTN_SUPPORT_COMPARE_H
#define ATTN_SUPPORT_COMPARE_H

#include <stdbool.h>
#include <stdint.h>

#include "data.h"
#include "oracle.h"

#define SUPPORT_VALGRIND_FACTOR 16

typedef enum support_verdict {
    SUPPORT_PASSED,
    SUPPORT_MISTRUSTED, /* agrees, but most of the wanted output is 0 or one constant: it would prove little */
    SUPPORT_FAILED
} support_verdict;

typedef struct support_report {
    support_verdict verdict;
    int64_t rows;           /* rows compared */
    int64_t numbers;        /* numbers compared */
    int64_t failures;       /* numbers outside their tolerance */
    double worst;           /* largest error in units of its tolerance; Inf for a violated NaN, 0, -Inf rule */
    double error_eps;       /* largest |got - wanted| of out in units of eps max|V| */
    double error_max;       /* largest |got - wanted| of out */
    const char *array;      /* where the worst is: "out", "lse", "scores", ... */
    int64_t b, h, row, col; /* */
    double got, wanted;     /* */
    char text[4096];        /* all of it in a sentence, with the line that reproduces it */
} support_report;

/* Compares all rows. engine ("naive", NULL = "auto") is for the text only. True unless the verdict is FAILED. */
bool support_verify(const support_data *d, const char *engine, support_report *report);

/* Compares at most max_rows rows: the first and the last of the first and last head, the rest seeded. */
bool support_verify_sampled(const support_data *d, const char *engine, int64_t max_rows, uint64_t seed,
                            support_report *report);

/* The tolerance of out for a row of the oracle. */
long double support_tolerance(const support_data *d, const support_row *row);

/* eps of a precision; whether this is under valgrind, and the factor for it, 1 without it. */
double support_eps(attn_dtype dtype);
bool support_under_valgrind(void);
double support_valgrind_factor(attn_dtype dtype);

/* ---- For stages and arrays of a test's own ------------------------------------------------------------------- */

/* Clears a report. */
void support_report_begin(support_report *report);

/* Compares n numbers of one row with what is wanted: NaN wants NaN, infinities and 0 tolerance want the same value.
 * tolerance[c] is absolute. name and row are for the report. */
void support_compare_row(support_report *report, const char *name, int64_t row, attn_dtype dtype, int64_t n,
                         const void *got, const long double *wanted, const long double *tolerance);

/* Writes the verdict and the text; origin names what was compared. True unless the verdict is FAILED. */
bool support_report_end(support_report *report, const char *origin);

#endif
