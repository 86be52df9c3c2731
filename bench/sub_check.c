/* attn-bench check: every row of a problem against the oracle, for each engine and precision. */
#include <stdio.h>
#include <stdlib.h>

#include "interrupt.h"
#include "subcommands.h"

typedef enum outcome { PASSED, SKIPPED, FAILED } outcome;

static outcome check_one(const support_case *c, engine_id id, attn_dtype dtype, int threads) {
    char label[32];
    snprintf(label, sizeof label, "%-5s %s", engine_name(id), dtype == ATTN_F32 ? "f32" : "f64");
    support_data data;
    if (!support_data_create(&data, c, dtype)) {
        printf("FAIL  %s  not enough memory\n", label);
        return FAILED;
    }
    bench_case one = {.dtype = dtype, .threads = threads, .data = &data};
    engine_run run;
    support_report report;
    outcome result = FAILED;
    if (!engine_open(&run, id, &one, 0) || !engine_call(&run)) {
        result = run.status == ATTN_ERR_UNSUPPORTED ? SKIPPED : FAILED;
        printf("%s  %s  %s: %s\n", result == SKIPPED ? "SKIP" : "FAIL", label, attn_status_string(run.status),
               run.message);
    } else if (!support_verify(&data, engine_name(id), &report)) {
        printf("FAIL  %s  %s\n", label, report.text);
    } else {
        result = PASSED;
        printf("PASS  %s  %lld rows, error of out %.3g eps max|V|", label, (long long)report.rows, report.error_eps);
        if (report.array && report.worst > 0)
            printf(", worst: %.0f %% of the tolerance of %s", 100 * report.worst, report.array);
        printf("%s\n",
               report.verdict == SUPPORT_MISTRUSTED ? "; most of the result is one number, this proves little" : "");
    }
    engine_close(&run);
    support_data_destroy(&data);
    return result;
}

int sub_check(const bench_options *options) {
    support_case *c = parse_problem(options);
    unsigned engines = options->engines ? options->engines : ENGINES_DEFAULT;
    unsigned dtypes = options->dtypes ? options->dtypes : 3;
    int count[3] = {0};
    interrupt_catch();
    for (int dtype = 0; dtype < 2; dtype++)
        for (int id = 0; id < ENGINE_COUNT; id++)
            if ((engines & ENGINE_BIT(id)) && (dtypes & 1u << dtype) && !interrupted)
                count[check_one(c, (engine_id)id, (attn_dtype)dtype, options->threads)]++;
    support_case_free(c);
    if (!options->quiet)
        printf("%d passed, %d failed, %d skipped%s\n", count[PASSED], count[FAILED], count[SKIPPED],
               interrupted ? ", interrupted" : "");
    if (interrupted)
        return EXIT_INTERRUPTED;
    return count[FAILED] > 0 || count[PASSED] == 0;
}
