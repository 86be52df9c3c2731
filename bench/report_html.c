/* report.html: one file that needs no other and no network. Pictures stand in it as SVG, tables are made from the same
 * list as everything else, the loops are printed from their sources. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "embedded.h"
#include "options.h"
#include "report.h"
#include "report_folder.h"

/* ---- Text -------------------------------------------------------------------------------------------------------- */

/* Text as HTML. */
static void put(FILE *out, const char *text) {
    for (; *text; text++)
        switch (*text) {
        case '&':
            fputs("&amp;", out);
            break;
        case '<':
            fputs("&lt;", out);
            break;
        case '>':
            fputs("&gt;", out);
            break;
        case '"':
            fputs("&quot;", out);
            break;
        default:
            fputc(*text, out);
        }
}

/* Each line of the text as a paragraph. */
static void put_paragraphs(FILE *out, const char *text) {
    char *copy = strdup(text), *rest = copy;
    for (char *line = copy ? strtok_r(copy, "\n", &rest) : NULL; line; line = strtok_r(NULL, "\n", &rest)) {
        fputs("<p>", out);
        put(out, line);
        fputs("</p>\n", out);
    }
    free(copy);
}

/* A cell, with the marks of tables: ~ for what was timed on sampled rows, ? for what is not to be trusted. */
static void put_marked(FILE *out, const char *format, double x, bool sampled, bool doubtful) {
    fprintf(out, "<td>%s", isfinite(x) && sampled ? "~" : "");
    if (isfinite(x))
        fprintf(out, format, x);
    else
        fputs("–", out);
    fprintf(out, "%s</td>", isfinite(x) && doubtful ? "?" : "");
}

static void put_number(FILE *out, const char *format, double x) {
    put_marked(out, format, x, false, false);
}

/* Share of the peak, with the mark in front of the unit, as in words. */
static void put_share(FILE *out, const bench_result *r) {
    put_marked(out, result_is_doubtful(r) ? "%.3g? %%" : "%.3g %%",
               r->fma_peak > 0 ? 100 * result_share_of_peak(r) : NAN, false, false);
}

/* What a report function prints, as a text of its own; NULL for lack of memory. */
static char *printed(void (*print)(const result_list *list, FILE *out), const result_list *list) {
    char *text = NULL;
    size_t size = 0;
    FILE *stream = open_memstream(&text, &size);
    if (!stream)
        return NULL;
    print(list, stream);
    return fclose(stream) == 0 ? text : NULL;
}

static const char style[] =
    ":root{color-scheme:light dark;--line:#c8c8c8;--soft:#f2f2f2;--bar:#009e73}\n"
    "@media (prefers-color-scheme:dark){:root{--line:#555;--soft:#262626;--bar:#2fbf95}}\n"
    "body{font:16px/1.5 system-ui,sans-serif;max-width:70rem;margin:2rem auto;padding:0 1rem}\n"
    "h1{font-size:1.7rem}h2{font-size:1.3rem;margin-top:2.5rem;border-bottom:1px solid var(--line)}\n"
    "h3{font-size:1.05rem;margin:1.5rem 0 .3rem}\n"
    ".wide{overflow-x:auto}table{border-collapse:collapse;font-size:.82rem;font-variant-numeric:tabular-nums}\n"
    "th,td{padding:.16rem .42rem;border-bottom:1px solid var(--line);text-align:right;white-space:nowrap}\n"
    "th:first-child,td:first-child,.facts td,.reasons td{text-align:left}\n"
    ".facts td,.reasons td{white-space:normal}\n"
    "td.bar{width:24rem;text-align:left}td.bar i{display:block;height:.9rem;background:var(--bar);min-width:1px;"
    "print-color-adjust:exact;-webkit-print-color-adjust:exact}\n"
    "figure{margin:1rem 0;background:#fff;border:1px solid var(--line);padding:.5rem;break-inside:avoid}\n"
    "figure svg{width:100%;height:auto;display:block}\n"
    ".words{font-size:1.1rem;background:var(--soft);padding:.6rem 1rem;border-left:4px solid var(--bar)}\n"
    "pre{background:var(--soft);padding:.8rem;overflow-x:auto;font-size:.78rem;line-height:1.35}\n"
    ".new td{border-top:2px solid var(--line)}.notes{white-space:pre-line}\n"
    "@media print{body{max-width:none;margin:0;font-size:11px}h2,h3{break-after:avoid}section{break-inside:avoid}\n"
    ".wide{overflow:visible}table{font-size:8px}th,td{padding:1px 4px}pre{white-space:pre-wrap;font-size:8px}}\n";

/* ---- Pictures ---------------------------------------------------------------------------------------------------- */

/* Prints what stands at `text` of an SVG file and returns how much: a character, or the beginning of a name or of a
 * reference to one, with a prefix behind it: gnuplot's names are the same in every file. */
static size_t put_svg_text(FILE *out, const char *text, int number) {
    static const char *const marks[] = {" id='", " id=\"", "href='#", "href=\"#", "url(#"};
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++)
        if (strncmp(text, marks[i], strlen(marks[i])) == 0) {
            fprintf(out, "%sp%d-", marks[i], number);
            return strlen(marks[i]);
        }
    fputc(*text, out);
    return 1;
}

/* Copies an SVG file from its <svg> on. */
static void put_svg(FILE *out, FILE *svg, int number) {
    char *line = NULL;
    size_t size = 0;
    bool begun = false;
    while (getline(&line, &size, svg) > 0) {
        const char *text = begun ? line : strstr(line, "<svg");
        if (!text)
            continue;
        begun = true;
        while (*text)
            text += put_svg_text(out, text, number);
    }
    free(line);
}

/* Title, text and picture; nothing where there is no picture, unless a table comes after. */
static void put_picture(FILE *out, const char *folder, int number, bool table_follows) {
    const report_picture *p = &report_pictures[number];
    char path[4096];
    if (snprintf(path, sizeof path, "%s/%s.svg", folder, p->name) >= (int)sizeof path)
        return;
    FILE *svg = fopen(path, "r");
    if (!svg && !table_follows)
        return;
    fprintf(out, "<section>\n<h2 id=\"%s\">%s</h2>\n<p>", p->name, p->title);
    put(out, p->text);
    fputs("</p>\n", out);
    if (svg) {
        fprintf(out, "<figure role=\"img\" aria-label=\"%s\">\n", p->title);
        put_svg(out, svg, number);
        fputs("</figure>\n", out);
        fclose(svg);
    }
    fputs("</section>\n", out);
}

/* ---- Tables ------------------------------------------------------------------------------------------------------ */

static void put_bars(FILE *out, const result_list *list) {
    const bench_result *fused = report_largest_common(list);
    if (!fused)
        return;
    fprintf(out, "<h3>d_model %lld, length %lld, %s, threads: %d</h3>\n<table>\n", (long long)fused->d_model,
            (long long)fused->len, fused->dtype == ATTN_F32 ? "float" : "double", fused->threads);
    fputs("<tr><th></th><th></th><th>GFLOP/s</th><th>times</th><th>peak</th></tr>\n", out);
    for (int id = 0; id < ENGINE_COUNT; id++) {
        const bench_result *r = result_of_engine(list, fused, engine_name((engine_id)id));
        if (!r)
            continue;
        double share = result_share_of_peak(r), speed_up = result_speed_up(list, r);
        bool doubtful = result_is_doubtful(r);
        fprintf(out, "<tr><td>%s</td><td class=\"bar\"><i style=\"width:%.1f%%\"></i></td>",
                engine_title((engine_id)id), 100 * fmin(share, 1));
        put_marked(out, "%.3g", result_gflops(r), r->sampled, doubtful);
        put_marked(out, "%.3g", speed_up > 0 ? speed_up : NAN, false, result_speed_up_is_doubtful(list, r));
        put_share(out, r);
        fputs("</tr>\n", out);
    }
    fprintf(out,
            "<tr><td>multiply-add peak</td><td class=\"bar\"><i style=\"width:100%%\"></i></td><td>%.4g</td><td></td>"
            "<td></td></tr>\n</table>\n",
            fused->fma_peak);
}

static void put_facts(FILE *out, const machine *m) {
    fputs("<h2>Machine</h2>\n<table class=\"facts\">\n", out);
    for (int i = 0; i < m->count; i++) {
        if (!m->fact[i].label)
            continue;
        fprintf(out, "<tr><td>%s</td><td>", m->fact[i].label);
        put(out, m->fact[i].text);
        fputs("</td></tr>\n", out);
    }
    fputs("</table>\n", out);
}

static void put_ceilings_of(FILE *out, const peaks *p, attn_dtype dtype, int threads) {
    const peak_rates *r = threads == 1 ? &p->one[dtype] : &p->all[dtype];
    if (!r->measured)
        return;
    fprintf(out, "<tr><td>%s</td><td>%d</td>", dtype_name(dtype), threads);
    put_number(out, "%.4g", r->fma);
    fprintf(out, "<td>%s</td>", r->fma_isa);
    put_number(out, "%.4g", r->tile);
    fprintf(out, "<td>%s</td>", r->tile_shape);
    put_number(out, "%.4g", r->large);
    fputs("</tr>\n", out);
}

static void put_ceilings(FILE *out, const report_input *in) {
    fputs("<h3>Ceilings, measured in this run (GFLOP/s)</h3>\n<div class=\"wide\"><table>\n<tr><th>type</th>"
          "<th>threads</th><th>multiply-add</th><th>by</th><th>best BLAS tile</th><th>of</th>"
          "<th>large BLAS product</th></tr>\n",
          out);
    for (int dtype = 0; dtype < 2; dtype++) {
        put_ceilings_of(out, in->ceilings, (attn_dtype)dtype, 1);
        for (int i = 0; i < in->ceilings_count; i++)
            if (in->ceilings[i].threads > 1)
                put_ceilings_of(out, &in->ceilings[i], (attn_dtype)dtype, in->ceilings[i].threads);
    }
    fputs("</table></div>\n", out);
}

/* True when not all entries are of the chain. */
static bool has_shapes(const result_list *list) {
    for (size_t i = 0; i < list->count; i++)
        if (list->item[i].kind != RESULT_CHAIN)
            return true;
    return false;
}

/* Begins a table with the columns that say which run a line is about, the same in all tables. */
static void put_heading(FILE *out, bool shapes, const char *more) {
    fprintf(out,
            "<div class=\"wide\"><table>\n<thead><tr>%s<th>engine</th><th>type</th><th>d_model</th><th>heads</th>"
            "<th>batch</th><th>length</th><th>threads</th>%s</tr></thead>\n",
            shapes ? "<th>shape</th>" : "", more);
}

/* Begins a line; last: the entry of the line before, NULL for the first. */
static void put_point(FILE *out, const bench_result *r, const bench_result *last, bool shapes) {
    fprintf(out, "<tr%s>", last && !result_same_problem(r, last) ? " class=\"new\"" : "");
    if (shapes) {
        fputs("<td>", out);
        put(out, r->shape[0] ? r->shape : r->problem);
        fputs("</td>", out);
    }
    fprintf(out, "<td>%s</td><td>%s</td><td>%lld</td><td>%lld</td><td>%lld</td><td>%lld</td><td>%d</td>", r->engine,
            dtype_name(r->dtype), (long long)r->d_model, (long long)r->heads, (long long)r->batch, (long long)r->len,
            r->threads);
}

static void put_results(FILE *out, const result_list *list) {
    char bytes[16];
    bool shapes = has_shapes(list);
    const bench_result *last = NULL;
    put_heading(out, shapes,
                "<th>busy</th><th>median ms</th><th>best ms</th><th>spread</th><th>runs</th><th>GFLOP/s</th>"
                "<th>times</th><th>peak</th><th>workspace</th><th>error</th>");
    for (size_t i = 0; i < list->count; i++) {
        const bench_result *r = &list->item[i];
        if (r->state != RESULT_TIMED)
            continue;
        double speed_up = result_speed_up(list, r);
        bool doubtful = result_is_doubtful(r);
        put_point(out, r, last, shapes);
        last = r;
        put_number(out, "%.2f", result_threads_busy(r));
        put_marked(out, "%.4g", r->ms_median, r->sampled, doubtful);
        put_number(out, "%.4g", r->ms_min);
        put_number(out, "%.1f %%", 100 * result_spread(r));
        fprintf(out, "<td>%d</td>", r->samples);
        put_marked(out, "%.3g", result_gflops(r), false, doubtful);
        put_marked(out, "%.3g", speed_up > 0 ? speed_up : NAN, false, result_speed_up_is_doubtful(list, r));
        put_share(out, r);
        fprintf(out, "<td>%s</td>", human_bytes(r->workspace_bytes, bytes));
        put_number(out, "%.3g", r->error_eps);
        fputs("</tr>\n", out);
    }
    fputs("</table></div>\n", out);
}

/* Why a part that a report has as a rule is not in this one. */
static void put_missing(FILE *out, const extras *more, const char *part, unsigned kind) {
    fprintf(out, "<p>%s are not in this report: ", part);
    if (!(more->suited & kind))
        fputs("no point of the sweep is short enough, or none was run.</p>\n", out);
    else if (!(more->chosen & kind))
        fprintf(out, "they need more than the %.0f %% of the budget that are kept for this; --budget gives more.</p>\n",
                100 * EXTRAS_SHARE);
    else
        fputs("the run ended before, or no engine of it has them.</p>\n", out);
}

static void put_cold(FILE *out, const report_input *in) {
    const result_list *cold = &in->more->cold;
    const bench_result *last = NULL;
    bool shapes = has_shapes(cold);
    if (cold->count == 0) {
        put_missing(out, in->more, "Hot and cold caches side by side", EXTRA_COLD);
        return;
    }
    if (in->list->item[0].cold) {
        fputs("<p>Hot and cold caches side by side are not in this report: with --cold nothing is hot.</p>\n", out);
        return;
    }
    fputs("<h2>Hot and cold caches</h2>\n<p>Hot: runs follow each other, as everywhere else here. Cold: arguments and "
          "workspace were put out of all caches before each run. Slower = cold median / hot median.</p>\n",
          out);
    put_heading(out, shapes, "<th>hot ms</th><th>cold ms</th><th>slower</th>");
    for (size_t i = 0; i < cold->count; i++) {
        const bench_result *r = &cold->item[i], *hot = result_of_engine(in->list, r, r->engine);
        if (r->state != RESULT_TIMED || !hot)
            continue;
        put_point(out, r, last, shapes);
        last = r;
        put_marked(out, "%.4g", hot->ms_median, false, result_is_doubtful(hot));
        put_marked(out, "%.4g", r->ms_median, false, result_is_doubtful(r));
        put_marked(out, "%.2f", r->ms_median / hot->ms_median, false, result_is_doubtful(hot) || result_is_doubtful(r));
        fputs("</tr>\n", out);
    }
    fputs("</table></div>\n", out);
}

static void put_stages(FILE *out, const report_input *in) {
    const extras *more = in->more;
    const bench_result *last = NULL;
    bool shapes = has_shapes(in->list);
    char columns[256] = "";
    for (int s = 0; s < STAGE_COUNT; s++) {
        size_t used = strlen(columns);
        snprintf(columns + used, sizeof columns - used, "<th>%s</th>", stage_name((stage_id)s));
    }
    strcat(columns, "<th>instrumented ms</th><th>timed ms</th>");
    put_heading(out, shapes, columns);
    for (size_t i = 0; i < more->stages; i++) {
        const stage_times *t = &more->stage[i];
        const bench_result *r = result_of_engine(in->list, &t->entry, t->entry.engine);
        double total = stage_total(t);
        put_point(out, &t->entry, last, shapes);
        last = &t->entry;
        for (int s = 0; s < STAGE_COUNT; s++)
            put_number(out, "%.1f %%", 100 * t->ms[s] / total);
        put_number(out, "%.4g", total);
        put_marked(out, "%.4g", r ? r->ms_median : NAN, r && r->sampled, r && result_is_doubtful(r));
        fputs("</tr>\n", out);
    }
    fputs("</table></div>\n", out);
}

static void put_untimed(FILE *out, const result_list *list) {
    static const char *const words[] = {
        [RESULT_LEFT_OUT] = "left out", [RESULT_REFUSED] = "refused", [RESULT_FAILED] = "FAILED"};
    bool headed = false;
    for (size_t i = 0; i < list->count; i++) {
        const bench_result *r = &list->item[i];
        if (r->state == RESULT_TIMED)
            continue;
        if (!headed)
            fputs("<h2>Not timed</h2>\n<table class=\"reasons\">\n", out);
        headed = true;
        fputs("<tr><td>", out);
        if (r->shape[0])
            put(out, r->shape);
        else
            fprintf(out, "d_model %lld, length %lld", (long long)r->d_model, (long long)r->len);
        fprintf(out, ", %s, %s</td><td>%s: ", dtype_name(r->dtype), r->engine, words[r->state]);
        put(out, r->note);
        fputs("</td></tr>\n", out);
    }
    if (headed)
        fputs("</table>\n", out);
}

static void put_source(FILE *out, const char *title, const char *text) {
    fprintf(out, "<h3>%s</h3>\n<pre>", title);
    put(out, text);
    fputs("</pre>\n", out);
}

/* ---- The page ---------------------------------------------------------------------------------------------------- */

static void put_page(FILE *out, const char *folder, const report_input *in) {
    char *words = printed(report_summary, in->list), *notes = printed(report_notes, in->list);
    fprintf(out,
            "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
            "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n"
            "<title>attn-bench report</title>\n<style>\n%s</style>\n</head>\n<body>\n"
            "<h1>Attention on this machine: loops against BLAS</h1>\n",
            style);
    if (words && *words) {
        fputs("<p class=\"words\">", out);
        put(out, words);
        fputs("</p>\n", out);
    }
    put_bars(out, in->list);
    put_facts(out, in->where);
    put_ceilings(out, in);
    fputs("<p>Tables mark figures with ~ (timed on a sample of query rows) and ? (not to be trusted: fewer than three "
          "repeats, or a spread above 10 %). The pictures draw a ring around such points.</p>\n",
          out);
    for (int i = 0; report_pictures[i].name; i++) {
        const char *name = report_pictures[i].name;
        bool stages = strcmp(name, "stages") == 0, scaling = strcmp(name, "scaling") == 0;
        if (stages && in->more->stages == 0) {
            put_missing(out, in->more, "Shares of the time per stage", EXTRA_STAGES);
            continue;
        }
        if (scaling && in->more->threads.count == 0) {
            put_missing(out, in->more, "Rates on 1 to all processors", EXTRA_THREADS);
            continue;
        }
        put_picture(out, folder, i, stages || scaling);
        if (stages)
            put_stages(out, in);
        if (scaling)
            put_results(out, &in->more->threads);
    }
    put_cold(out, in);
    fputs("<h2>All results</h2>\n", out);
    put_results(out, in->list);
    if (notes) {
        fputs("<p class=\"notes\">", out);
        put(out, notes);
        fputs("</p>\n", out);
    }
    put_untimed(out, in->list);
    fputs("<h2>Formulas</h2>\n", out);
    put_paragraphs(out, help_figures());
    fputs("<h2>The loops</h2>\n<p>What BLAS is compared with, compiled with -O3 and no instruction set beyond the "
          "compiler's default, from the sources of this program.</p>\n",
          out);
    put_source(out, "Textbook loops: projection", embedded_textbook);
    put_source(out, "Cache-ordered loops: projection and attention", embedded_cache_ordered);
    put_source(out, "Textbook loops: attention with every option of the library (engine naive)", embedded_naive);
    fputs("</body>\n</html>\n", out);
    free(words);
    free(notes);
}

bool report_html(const char *folder, const report_input *input) {
    char path[4096];
    FILE *out = NULL;
    if (snprintf(path, sizeof path, "%s/report.html", folder) < (int)sizeof path)
        out = fopen(path, "w");
    bool written = out != NULL;
    if (out) {
        put_page(out, folder, input);
        written = !ferror(out);
        written &= fclose(out) == 0;
    }
    if (!written)
        fprintf(stderr, "attn-bench: cannot write %s/report.html\n", folder);
    return written;
}
