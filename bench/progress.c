/* A progress bar with the time left. */
#include "progress.h"

#include <math.h>
#include <stdio.h>
#include <unistd.h>

#include "timing.h"

#define BAR_WIDTH 30

void progress_begin(progress *p, double estimated_seconds, double limit, bool quiet) {
    *p = (progress){
        .shown = !quiet && isatty(STDERR_FILENO), .total = estimated_seconds, .start = timing_now(), .limit = limit};
}

double progress_pace(const progress *p) {
    /* The first steps are short and say little: as if some of the run had gone as planned already. */
    double as_planned = 0.2 * p->total;
    if (!(p->total > 0))
        return 1;
    return (timing_now() - p->start + as_planned) / (p->done + as_planned);
}

void progress_show(const progress *p, const char *step) {
    if (!p->shown)
        return;
    if (!(p->total > 0)) {
        fprintf(stderr, "\rtiming %-60.60s", step);
        fflush(stderr);
        return;
    }
    double share = p->done / p->total;
    if (share > 1)
        share = 1;
    double until_limit = p->limit - (timing_now() - p->start);
    int left = (int)(fmax(fmin(progress_pace(p) * (p->total - p->done), until_limit), 0) + 0.5);
    char bar[BAR_WIDTH + 1];
    for (int i = 0; i < BAR_WIDTH; i++)
        bar[i] = i < (int)(share * BAR_WIDTH) ? '#' : '.';
    bar[BAR_WIDTH] = 0;
    fprintf(stderr, "\r[%s] %3.0f %%  %d:%02d left  %-36.36s", bar, 100 * share, left / 60, left % 60, step);
    fflush(stderr);
}

void progress_step(progress *p, double estimated_seconds) {
    p->done += estimated_seconds;
}

void progress_skip(progress *p, double estimated_seconds) {
    p->total -= estimated_seconds;
}

void progress_hide(const progress *p) {
    if (p->shown)
        fprintf(stderr, "\r%90s\r", "");
}
