/* What a sweep says of its results, for lists that were made up: words, bars and report.html. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "embedded.h"
#include "options.h"
#include "report.h"
#include "report_folder.h"

/* Of report.html without a folder. */
const char embedded_textbook[] = "", embedded_naive[] = "", embedded_cache_ordered[] = "";
const report_picture report_pictures[] = {{"stages", "Stages", ""}, {"scaling", "Scaling", ""}, {0}};

const char *help_figures(void) {
    return "";
}

const char *stage_name(stage_id s) {
    (void)s;
    return "stage";
}

double stage_total(const stage_times *t) {
    return t->ms[0];
}

/* The ceilings are not measured here. */
double peaks_blas(const peak_rates *rates) {
    return rates->large;
}

double peaks_read(peaks *p, double bytes) {
    (void)p;
    return bytes;
}

/* An entry of the chain of d_model 64: `gflops` in `samples` runs with a spread. */
static bench_result *add(result_list *list, const char *engine, int64_t len, double gflops, int samples,
                         double spread) {
    bench_result *r = result_add(list);
    r->kind = RESULT_CHAIN;
    r->engine = engine;
    r->threads = 1;
    r->d_model = 64;
    r->heads = r->batch = 1;
    r->head_dim = 64;
    r->len = len;
    r->flops = 1e6 * (double)len * (double)len;
    r->ms_median = r->ms_min = 1e-6 * r->flops / gflops;
    r->samples = samples;
    r->spread = spread;
    r->fma_peak = 200;
    r->blas_peak = 160;
    snprintf(r->problem, sizeof r->problem, "q%lldd64", (long long)len);
    return r;
}

static void add_trusted(result_list *list, int64_t len) {
    add(list, "naive", len, 2, 5, 0.01);
    add(list, "blas", len, 40, 5, 0.01);
    add(list, "fused", len, 50, 5, 0.01);
}

/* naive once and on sampled rows, blas spread widely, fused twice. */
static void add_doubtful(result_list *list, int64_t len) {
    add(list, "naive", len, 1, 1, 0)->sampled = true;
    add(list, "blas", len, 60, 5, 0.17);
    add(list, "fused", len, 80, 2, 0.01);
}

static char *text_of(void (*print)(const result_list *list, FILE *out), const result_list *list) {
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    assert_non_null(out);
    print(list, out);
    assert_int_equal(fclose(out), 0);
    return text;
}

static void assert_has(const char *text, const char *words) {
    if (!strstr(text, words))
        fail_msg("'%s' is not in: %s", words, text);
}

static void words_are_of_the_largest_point_that_can_be_trusted(void **state) {
    (void)state;
    result_list list = {0};
    add_trusted(&list, 64);
    add_trusted(&list, 256);
    add_doubtful(&list, 1024);
    char *words = text_of(report_summary, &list);
    assert_has(words, "At d_model 64, length 256 (float, 1 thread)");
    assert_has(words,
               "20.0 times as fast as the textbook loops\n(40.0 against 2.00 GFLOP/s), the fused engine 25.0 times");
    assert_has(words, "The largest gain that is to be trusted is 25.0 times: fused at d_model 64, length 64");
    assert_null(strchr(words, '?'));
    free(words);
    result_list_free(&list);
}

static void a_tiny_point_does_not_stand_for_the_sweep(void **state) {
    (void)state;
    result_list list = {0};
    add_trusted(&list, 64);
    add_doubtful(&list, 1024);
    char *words = text_of(report_summary, &list);
    assert_has(words, "At d_model 64, length 1024 (float, 1 thread)");
    assert_has(words,
               "60.0? times as fast as the textbook loops\n(60.0? against ~1.00? GFLOP/s), the fused engine 80.0? ");
    assert_has(words, "Fused reaches 40? % of what multiply-adds can do here and 50? % of");
    assert_has(words,
               "? is not to be trusted: naive from a single run, blas with a spread of 17 %, fused from 2 runs.\n");
    assert_has(words, "The largest gain that is to be trusted is 25.0 times: fused at d_model 64, length 64");
    free(words);
    char *bars = text_of(report_bars, &list);
    assert_has(bars, "length 1024, float");
    assert_has(bars, " ~1.00? ");
    assert_has(bars, " 60.0? ");
    assert_has(bars, " 80.0?\n");
    free(bars);
    result_list_free(&list);
}

static void nothing_in_common_has_no_words(void **state) {
    (void)state;
    result_list list = {0};
    add(&list, "naive", 64, 1, 5, 0);
    add(&list, "fused", 64, 1, 5, 0);
    add(&list, "blas", 64, 1, 5, 0)->state = RESULT_REFUSED;
    char *words = text_of(report_summary, &list), *bars = text_of(report_bars, &list);
    assert_string_equal(words, "");
    assert_string_equal(bars, "");
    free(words);
    free(bars);
    result_list_free(&list);
}

/* report.html of a list; to be freed. */
static char *page_of(const result_list *list, const extras *more) {
    char folder[] = "report_test.XXXXXX", path[64];
    static const machine where;
    static const peaks ceilings;
    report_input input = {&where, &ceilings, 1, list, more};
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/report.html", folder);
    assert_true(report_html(folder, &input));
    FILE *in = fopen(path, "r");
    char *page = NULL;
    size_t size = 0;
    assert_non_null(in);
    assert_true(getdelim(&page, &size, 0, in) > 0);
    fclose(in);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rmdir(folder), 0);
    return page;
}

static void bars_and_tables_of_the_page_have_marks(void **state) {
    (void)state;
    result_list list = {0};
    extras more = {0};
    add_doubtful(&list, 1024);
    char *page = page_of(&list, &more);
    /* Of the bars: rates, ratios, shares of the peak. */
    assert_has(page, "<td>~1?</td><td>1?</td><td>0.5? %</td>");
    assert_has(page, "<td>60?</td><td>60?</td><td>30? %</td>");
    /* Of the table: the median, then rate, ratio and share. */
    assert_has(page, "<td>~1.049e+06?</td>");
    assert_has(page, "<td>80?</td><td>80?</td><td>40? %</td>");
    assert_has(page, "The pictures draw a ring around such points.");
    free(page);
    result_list_free(&list);

    add_trusted(&list, 64);
    page = page_of(&list, &more);
    assert_has(page, "<td>50</td><td>25</td><td>25 %</td>");
    assert_null(strstr(page, "?</td>"));
    free(page);
    result_list_free(&list);
}

static void the_page_says_what_it_lacks(void **state) {
    (void)state;
    result_list list = {0};
    add_trusted(&list, 64);
    extras more = {.suited = EXTRA_STAGES | EXTRA_COLD, .chosen = EXTRA_COLD};
    char *page = page_of(&list, &more);
    assert_has(page, "Hot and cold caches side by side are not in this report: the run ended before");
    assert_has(page, "Shares of the time per stage are not in this report: they need more than the 25 % of the budget");
    assert_has(page, "Rates on 1 to all processors are not in this report: no point of the sweep is short enough");
    free(page);
    result_list_free(&list);
}

static void what_was_left_out_is_told_once(void **state) {
    (void)state;
    result_list list = {0};
    add_trusted(&list, 64);
    char *text = text_of(report_untimed, &list), *notes = text_of(report_notes, &list);
    assert_string_equal(text, "");
    assert_string_equal(notes, "\n");
    free(text);
    free(notes);
    for (int64_t len = 128; len <= 256; len *= 2) {
        bench_result *r = add(&list, "all", len, 1, 0, 0);
        r->state = RESULT_LEFT_OUT;
        snprintf(r->note, sizeof r->note, "a budget of 2 s");
    }
    text = text_of(report_untimed, &list);
    assert_string_equal(text, "\nleft out (a budget of 2 s): 64 x 128 f32, 64 x 256 f32\n");
    free(text);
    result_list_free(&list);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(words_are_of_the_largest_point_that_can_be_trusted),
        cmocka_unit_test(a_tiny_point_does_not_stand_for_the_sweep),
        cmocka_unit_test(nothing_in_common_has_no_words),
        cmocka_unit_test(bars_and_tables_of_the_page_have_marks),
        cmocka_unit_test(the_page_says_what_it_lacks),
        cmocka_unit_test(what_was_left_out_is_told_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
