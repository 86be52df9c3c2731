/* attn-bench sdpa: times one attention problem with each engine and precision asked for. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "interrupt.h"
#include "machine.h"
#include "measure.h"
#include "progress.h"
#include "report.h"
#include "subcommands.h"

/* Loops longer than this run on a sample of rows. */
static const double loop_seconds = 2;

/* An entry for each engine and precision asked for, refused where it cannot be done. True when one of them can. */
static bool list_engines(const support_case *c, const bench_options *options, result_list *list) {
    unsigned engines = options->engines ? options->engines : ENGINES_DEFAULT;
    unsigned dtypes = options->dtypes ? options->dtypes : 1u << ATTN_F32;
    bool any = false;
    for (int dtype = 0; dtype < 2; dtype++)
        for (int id = 0; id < ENGINE_COUNT; id++) {
            if (!(engines & ENGINE_BIT(id)) || !(dtypes & 1u << dtype))
                continue;
            bench_result *r = result_add(list);
            r->engine = engine_name((engine_id)id);
            r->dtype = (attn_dtype)dtype;
            r->threads = options->threads;
            result_set_sizes(r, &c->problem);
            support_case_print(c, r->problem, sizeof r->problem);
            bool possible = measure_is_possible(c, (engine_id)id, r->dtype, r->threads, r->note, sizeof r->note);
            r->state = possible ? RESULT_TIMED : RESULT_REFUSED;
            any |= possible;
        }
    return any;
}

static engine_id engine_of(const bench_result *r) {
    int id = 0;
    while (id < ENGINE_COUNT - 1 && strcmp(engine_name((engine_id)id), r->engine) != 0)
        id++;
    return (engine_id)id;
}

/* What takes this long is told beforehand. */
static const double long_run_seconds = 20;

static void tell_of_long_run(const support_case *c, const bench_result *r, const peak_rates *rates) {
    double flops = 0;
    if (engine_is_loops(engine_of(r)) || rates->fma <= 0 ||
        attn_problem_flops(&c->problem, c->q_lens, c->kv_lens, &flops) != ATTN_OK)
        return; /* loops without BLAS run on a sample */
    double minutes = flops / (rates->fma * 1e9) / 60;
    if (minutes * 60 >= long_run_seconds)
        fprintf(stderr, "attn-bench: a run of %s takes %.3g %s or more here; Ctrl-C ends after it\n", r->engine,
                minutes < 120 ? minutes : minutes / 60, minutes < 120 ? "minutes" : "hours");
}

/* Times the entries of one precision that are possible. */
static void measure_dtype(const support_case *c, attn_dtype dtype, const bench_options *options,
                          const measure_settings *settings, const progress *bar, peaks *ceilings, result_list *list) {
    support_data data;
    bool tried = false, created = false;
    for (size_t i = 0; i < list->count; i++) {
        bench_result *r = &list->item[i];
        if (r->dtype != dtype || r->state != RESULT_TIMED)
            continue;
        if (interrupted) {
            r->state = RESULT_LEFT_OUT;
            snprintf(r->note, sizeof r->note, "interrupted");
            continue;
        }
        if (!tried) {
            peaks_measure(ceilings, dtype, options->threads);
            created = support_data_create(&data, c, dtype);
            tried = true;
        }
        if (created) {
            char step[32];
            snprintf(step, sizeof step, "%s %s", r->engine, dtype_name(dtype));
            if (!options->quiet)
                tell_of_long_run(c, r, &ceilings->all[dtype]);
            progress_show(bar, step);
            bench_case one = {.dtype = dtype, .threads = options->threads, .data = &data};
            measure_engine(&one, engine_of(r), settings, NULL, r);
            result_set_peaks(r, ceilings);
        } else {
            r->state = RESULT_FAILED;
            snprintf(r->note, sizeof r->note, "not enough memory for the arrays");
        }
    }
    if (created)
        support_data_destroy(&data);
}

int sub_sdpa(const bench_options *options) {
    support_case *c = parse_problem(options);
    options_check_files(options);
    FILE *text = options_text_stream(options);
    measure_settings settings = {
        .goal = {.floor_seconds = options->min_time >= 0 ? options->min_time : 0.5,
                 .min_samples = options->repeat ? options->repeat : 5,
                 .max_samples = TIMING_MAX_SAMPLES,
                 .enough = interrupt_requested,
                 .warm_up = true},
        .loop_seconds = loop_seconds,
        .oracle_rows = 24,
        .seed = options->seed,
        .cold = options->cold,
    };
    machine m;
    peaks ceilings = {0};
    result_list list = {0};
    progress bar;
    bool possible = list_engines(c, options, &list);
    interrupt_catch();
    machine_read(&m, options->threads);
    if (possible) {
        if (!options->quiet)
            machine_print(&m, text);
        fflush(text);
        progress_begin(&bar, 0, 0, options->quiet);
        for (int dtype = 0; dtype < 2; dtype++)
            measure_dtype(c, (attn_dtype)dtype, options, &settings, &bar, &ceilings, &list);
        progress_hide(&bar);
        if (!options->quiet)
            report_peaks(&ceilings, 1, text);
        report_sdpa_table(&list, 0, text);
        if (!options->quiet)
            report_notes(&list, text);
        machine_finish(&m, options->quiet ? NULL : text);
    } else {
        fprintf(stderr, "attn-bench: %s %s: %s\n", list.item[0].problem, list.item[0].engine, list.item[0].note);
    }

    bool timed = false, failed = false;
    for (size_t i = 0; i < list.count; i++) {
        timed |= list.item[i].state == RESULT_TIMED;
        failed |= list.item[i].state == RESULT_FAILED;
    }
    int status = worse_status(failed || !timed, report_files(options, &m, &ceilings, 1, &list));
    result_list_free(&list);
    support_case_free(c);
    return interrupted ? EXIT_INTERRUPTED : status;
}
