/* attn-bench sdpa: times one attention problem with each engine and precision asked for. */
#include <stdio.h>
#include <stdlib.h>

#include "machine.h"
#include "measure.h"
#include "report.h"
#include "subcommands.h"

/* Loops longer than this run on a sample of rows. */
static const double loop_seconds = 2;

static void measure_dtype(const support_case *c, attn_dtype dtype, const bench_options *options,
                          const measure_settings *settings, peaks *ceilings, result_list *list) {
    support_data data;
    bool created = support_data_create(&data, c, dtype);
    bench_case one = {.dtype = dtype, .threads = options->threads, .data = &data};
    unsigned engines = options->engines ? options->engines : ENGINES_DEFAULT;
    for (int id = 0; id < ENGINE_COUNT; id++) {
        if (!(engines & ENGINE_BIT(id)))
            continue;
        bench_result *r = result_add(list);
        r->engine = engine_name((engine_id)id);
        r->dtype = dtype;
        r->threads = options->threads;
        r->d_model = c->problem.q_heads * c->problem.head_dim;
        r->len = c->problem.q_len;
        support_case_print(c, r->problem, sizeof r->problem);
        if (created) {
            measure_engine(&one, (engine_id)id, settings, NULL, r);
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
    unsigned dtypes = options->dtypes ? options->dtypes : 1u << ATTN_F32;
    FILE *text = options_text_stream(options);
    measure_settings settings = {
        .goal = {.floor_seconds = options->min_time >= 0 ? options->min_time : 0.5,
                 .min_samples = options->repeat ? options->repeat : 5,
                 .max_samples = TIMING_MAX_SAMPLES,
                 .warm_up = true},
        .loop_seconds = loop_seconds,
        .oracle_rows = 24,
        .seed = options->seed,
    };
    machine m;
    peaks ceilings = {0};
    result_list list = {0};
    machine_read(&m, options->threads);
    if (!options->quiet)
        machine_print(&m, text);
    for (int dtype = 0; dtype < 2; dtype++)
        if (dtypes & 1u << dtype)
            peaks_measure(&ceilings, (attn_dtype)dtype, options->threads);
    if (!options->quiet)
        report_peaks(&ceilings, text);
    for (int dtype = 0; dtype < 2; dtype++)
        if (dtypes & 1u << dtype)
            measure_dtype(c, (attn_dtype)dtype, options, &settings, &ceilings, &list);
    report_sdpa_table(&list, text);
    if (!options->quiet)
        report_notes(&list, text);

    int status = 0;
    for (size_t i = 0; i < list.count; i++)
        status |= list.item[i].state == RESULT_FAILED;
    if (options->json)
        status |= !report_json(options->json, &m, &ceilings, &list);
    if (options->csv)
        status |= !report_csv(options->csv, &list);
    result_list_free(&list);
    support_case_free(c);
    return status;
}
