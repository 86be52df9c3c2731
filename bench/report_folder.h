/* The folder of `sweep --report`: results.json, results.csv and the tables behind the pictures, plot.gp, pictures by
 * gnuplot as SVG and PNG, report.html. */
#ifndef BENCH_REPORT_FOLDER_H
#define BENCH_REPORT_FOLDER_H

#include <stdbool.h>
#include <stdio.h>

#include "extras.h"
#include "machine.h"
#include "peaks.h"
#include "result.h"

typedef struct report_input {
    const machine *where;
    const peaks *ceilings; /* of each number of threads */
    int ceilings_count;
    const result_list *list;
    const extras *more;
} report_input;

/* One picture: plot.gp makes NAME.svg and NAME.png. */
typedef struct report_picture {
    const char *name, *title, *text;
} report_picture;

extern const report_picture report_pictures[]; /* ends with name NULL */

/* Makes the folder (not its parents) or takes one that can be written to; false with a reason. */
bool report_folder_make(const char *folder, char *error, size_t size);

/* Writes everything and names it on `out`. False with a message on stderr when something cannot be written; no gnuplot
 * is no failure, and said. */
bool report_folder_write(const char *folder, const report_input *input, FILE *out);

/* report.html alone; pictures that are not there are left out. */
bool report_html(const char *folder, const report_input *input);

#endif
