/* Results for readers and for programs: a table, JSON, CSV. */
#ifndef BENCH_REPORT_H
#define BENCH_REPORT_H

#include <stdbool.h>
#include <stdio.h>

#include "extras.h"
#include "machine.h"
#include "options.h"
#include "peaks.h"
#include "result.h"

/* The ceilings of `count` numbers of threads, one line per precision and number. */
void report_peaks(const peaks *p, int count, FILE *out);

/* Chain: one line per length, the engines side by side. The entries of one table only (result_same_table). engines:
 * bits of engine_id. */
void report_chain_table(const result_list *list, const bench_result *like, unsigned engines, FILE *out);

/* Attention alone: one line per result, from entry number `first` on. */
void report_sdpa_table(const result_list *list, size_t first, FILE *out);

/* What was not timed and why; nothing when everything was. */
void report_untimed(const result_list *list, FILE *out);

/* The same, and figures that spread widely, behind an empty line. */
void report_notes(const result_list *list, FILE *out);

/* The sweep in words; every number comes from the list. */
void report_summary(const result_list *list, FILE *out);

/* The engines of the largest common case as bars, up to the multiply-add peak; nothing without such a case. */
void report_bars(const result_list *list, FILE *out);

/* The case of the words and bars, as the entry of its fused run; NULL when there is none. The largest case that naive,
 * blas and fused have in common, in the first precision of the list; one whose figures are to be trusted, if there is
 * one that is not tiny beside it. */
const bench_result *report_largest_common(const result_list *list);

/* FILE "-" is standard output. False with a message on stderr when it cannot be written. more: NULL = none. */
bool report_json(const char *file, const machine *m, const peaks *p, int peaks_count, const result_list *list,
                 const extras *more);
bool report_csv(const char *file, const result_list *list);

/* What --json and --csv ask for. Returns the exit status: 0, or 2 when a file could not be written. */
int report_files(const bench_options *options, const machine *m, const peaks *p, int peaks_count,
                 const result_list *list);

#endif
