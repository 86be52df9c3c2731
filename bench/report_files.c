/* The files that options ask for, whatever their format. */
#include "report.h"

int report_files(const bench_options *options, const machine *m, const peaks *p, int peaks_count,
                 const result_list *list) {
    bool written = !options->json || report_json(options->json, m, p, peaks_count, list, NULL);
    written &= !options->csv || report_csv(options->csv, list);
    return written ? 0 : EXIT_UNWRITTEN;
}
