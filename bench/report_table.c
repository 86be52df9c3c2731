/* Results for readers: tables, remarks and a summary in words. */
#include <math.h>
#include <string.h>

#include "engines.h"
#include "report.h"

#define FIGURE_SIZE 16
#define MARKED_SIZE (FIGURE_SIZE + 1)

/* Three figures: "0.0123", "2.91", "12.4", "105"; what is very small or large as "1.23e-05". */
static const char *three_figures(double x, char *text) {
    int decimals = x >= 99.95 || x == 0 ? 0
                   : x >= 9.995         ? 1
                   : x >= 0.9995        ? 2
                   : x >= 0.09995       ? 3
                   : x >= 0.009995      ? 4
                                        : 5;
    if (x != 0 && (x < 0.0009995 || x >= 999999))
        snprintf(text, FIGURE_SIZE, "%.2e", x);
    else
        snprintf(text, FIGURE_SIZE, "%.*f", decimals, x);
    return text;
}

/* The same, with a mark for a figure that is not to be trusted. */
static const char *marked_figures(double x, bool doubtful, char *text) {
    three_figures(x, text);
    if (doubtful)
        strncat(text, "?", FIGURE_SIZE - 1 - strlen(text));
    return text;
}

/* "94", "2.9": how many times, where more digits would promise too much. */
static const char *about(double x, char *text) {
    snprintf(text, FIGURE_SIZE, x < 9.95 ? "%.1f" : "%.0f", x);
    return text;
}

static const char *percent(double share, char *text) {
    snprintf(text, FIGURE_SIZE, 100 * share < 9.95 ? "%.1f%%" : "%.0f%%", 100 * share);
    return text;
}

/* GFLOP/s with its marks, as in all tables: ~ in front when it was timed on sampled rows. */
static const char *gflops_figures(const bench_result *r, char *text) {
    char figures[FIGURE_SIZE];
    marked_figures(result_gflops(r), result_is_doubtful(r), figures);
    snprintf(text, MARKED_SIZE, "%s%s", r->sampled ? "~" : "", figures);
    return text;
}

/* Times of naive; "-" without naive. Doubtful when one of the two is. */
static const char *speed_up_figures(const result_list *list, const bench_result *r, char *text) {
    double speed_up = result_speed_up(list, r);
    if (!(speed_up > 0))
        return "-";
    return marked_figures(speed_up, result_speed_up_is_doubtful(list, r), text);
}

/* "8.19 kFLOP", "412 GFLOP". */
static const char *human_flops(double flops, char *text) {
    static const char *const units[] = {"FLOP", "kFLOP", "MFLOP", "GFLOP", "TFLOP", "PFLOP"};
    char figures[FIGURE_SIZE];
    int unit = 0;
    while (flops >= 999.5 && unit < 5) {
        flops /= 1000;
        unit++;
    }
    snprintf(text, 24, "%s %s", three_figures(flops, figures), units[unit]);
    return text;
}

static const char *const untimed_words[] = {
    [RESULT_LEFT_OUT] = "left out", [RESULT_REFUSED] = "refused", [RESULT_FAILED] = "FAILED"};

static const char *dtype_word(attn_dtype dtype) {
    return dtype == ATTN_F32 ? "float" : "double";
}

static const char *threads_word(int threads, char *text) {
    snprintf(text, 24, threads == 1 ? "1 thread" : "%d threads", threads);
    return text;
}

void report_peaks(const peaks *p, int count, FILE *out) {
    for (int dtype = 0; dtype < 2; dtype++)
        for (int i = -1; i < count; i++) {
            bool all = i >= 0;
            const peak_rates *r = all ? &p[i].all[dtype] : &p->one[dtype];
            if (!r->measured || (all && p[i].threads == 1))
                continue;
            char a[16], b[16], c[16], threads[24];
            fprintf(out, "  peak %s, %s: multiply-add %s GFLOP/s (%s), BLAS tile %s (%s), large BLAS product %s\n",
                    dtype_word((attn_dtype)dtype), threads_word(all ? p[i].threads : 1, threads),
                    three_figures(r->fma, a), r->fma_isa, three_figures(r->tile, b), r->tile_shape,
                    three_figures(r->large, c));
        }
}

/* ---- The chain --------------------------------------------------------------------------------------------------- */

/* The entry of an engine in the same line of the same table, timed or not. */
static const bench_result *find_chain(const result_list *list, const bench_result *line, const char *engine) {
    for (size_t i = 0; i < list->count; i++) {
        const bench_result *r = &list->item[i];
        if (result_same_table(r, line) && r->len == line->len && strcmp(r->engine, engine) == 0)
            return r;
    }
    return NULL;
}

static void print_heading(unsigned engines, FILE *out) {
    fprintf(out, "\n%7s", "");
    for (int id = 0; id < ENGINE_COUNT; id++)
        if (engines & ENGINE_BIT(id))
            fprintf(out, " %*s", id == ENGINE_NAIVE ? 9 : id == ENGINE_CACHE ? 18 : 24, engine_name((engine_id)id));
    fprintf(out, "   workspace\n%7s", "length");
    for (int id = 0; id < ENGINE_COUNT; id++)
        if (engines & ENGINE_BIT(id))
            fprintf(out, " %9s%s%s", "GFLOP/s", id == ENGINE_NAIVE ? "" : "    times",
                    id == ENGINE_NAIVE || id == ENGINE_CACHE ? "" : "  peak");
    fprintf(out, "  ");
    for (int id = ENGINE_BLAS; id < ENGINE_COUNT; id++)
        if (engines & ENGINE_BIT(id))
            fprintf(out, " %9s", engine_name((engine_id)id));
    fputc('\n', out);
}

static void print_cell(const result_list *list, const bench_result *r, engine_id id, FILE *out) {
    char text[MARKED_SIZE];
    bool loops = engine_is_loops(id);
    if (!r || r->state != RESULT_TIMED) {
        const char *word = !r || r->state == RESULT_LEFT_OUT ? "-" : r->state == RESULT_REFUSED ? "refused" : "FAILED";
        fprintf(out, " %9s%s%s", word, id == ENGINE_NAIVE ? "" : "         ", loops ? "" : "      ");
        return;
    }
    fprintf(out, " %9s", gflops_figures(r, text));
    if (id != ENGINE_NAIVE)
        fprintf(out, " %8s", speed_up_figures(list, r, text));
    if (!loops)
        fprintf(out, " %5s", percent(result_share_of_peak(r), text));
}

static void print_length(const result_list *list, const bench_result *line, unsigned engines, FILE *out) {
    fprintf(out, "%7lld", (long long)line->len);
    for (int id = 0; id < ENGINE_COUNT; id++)
        if (engines & ENGINE_BIT(id))
            print_cell(list, find_chain(list, line, engine_name((engine_id)id)), (engine_id)id, out);
    fprintf(out, "  ");
    for (int id = ENGINE_BLAS; id < ENGINE_COUNT; id++)
        if (engines & ENGINE_BIT(id)) {
            const bench_result *r = find_chain(list, line, engine_name((engine_id)id));
            char text[16] = "-";
            if (r && r->state == RESULT_TIMED)
                human_bytes(r->workspace_bytes, text);
            fprintf(out, " %9s", text);
        }
    fputc('\n', out);
}

static void print_chain_title(const bench_result *r, FILE *out) {
    char threads[24], peak[16];
    fprintf(out, "\nd_model %lld (heads: %lld of %lld), ", (long long)r->d_model, (long long)r->heads,
            (long long)r->head_dim);
    if (r->batch != 1)
        fprintf(out, "batch %lld, ", (long long)r->batch);
    fprintf(out, "%s, %s, peak %s GFLOP/s\n", dtype_word(r->dtype), threads_word(r->threads, threads),
            three_figures(r->fma_peak, peak));
}

void report_chain_table(const result_list *list, const bench_result *like, unsigned engines, FILE *out) {
    bool headed = false;
    int64_t last = -1;
    for (size_t i = 0; i < list->count; i++) {
        const bench_result *r = &list->item[i];
        if (!result_same_table(r, like) || r->len == last || strcmp(r->engine, "all") == 0)
            continue;
        if (!headed) {
            print_chain_title(r, out);
            print_heading(engines, out);
            headed = true;
        }
        print_length(list, r, engines, out);
        last = r->len;
    }
}

/* ---- Attention alone --------------------------------------------------------------------------------------------- */

/* Flops of the problem, which only a timed entry knows; below 0 when there is none. */
static double flops_of_problem(const result_list *list, const char *problem) {
    for (size_t i = 0; i < list->count; i++)
        if (list->item[i].state == RESULT_TIMED && strcmp(list->item[i].problem, problem) == 0)
            return list->item[i].flops;
    return -1;
}

static void print_sdpa_heading(const result_list *list, const bench_result *r, FILE *out) {
    char threads[24], text[24];
    double flops = flops_of_problem(list, r->problem);
    fprintf(out, "\n%s%s%s, %s%s%s\n\n", r->shape, r->shape[0] ? " " : "", r->problem,
            threads_word(r->threads, threads), flops < 0 ? "" : ", ", flops < 0 ? "" : human_flops(flops, text));
    fprintf(out, "%-6s %-4s %10s %10s %7s %9s %9s %9s %6s %9s %9s %7s\n", "engine", "type", "median ms", "best ms",
            "spread", "GFLOP/s", "best", "times", "peak", "GB/s", "workspace", "error");
}

static void print_sdpa_line(const result_list *list, const bench_result *r, FILE *out) {
    char a[FIGURE_SIZE], b[FIGURE_SIZE], c[FIGURE_SIZE], median[24];
    bool doubtful = result_is_doubtful(r);
    snprintf(median, sizeof median, "%s%s", r->sampled ? "~" : "", marked_figures(r->ms_median, doubtful, a));
    fprintf(out, " %10s %10s", median, three_figures(r->ms_min, a));
    fprintf(out, " %7s", isfinite(result_spread(r)) ? percent(result_spread(r), a) : "-");
    fprintf(out, " %9s %9s", marked_figures(result_gflops(r), doubtful, a), three_figures(result_gflops_best(r), b));
    fprintf(out, " %9s %6s", speed_up_figures(list, r, a), percent(result_share_of_peak(r), b));
    fprintf(out, " %9s %9s %7s\n", three_figures(result_gbytes_per_s(r), a), human_bytes(r->workspace_bytes, b),
            three_figures(r->error_eps, c));
}

void report_sdpa_table(const result_list *list, size_t first, FILE *out) {
    const char *problem = "";
    for (size_t i = first; i < list->count; i++) {
        const bench_result *r = &list->item[i];
        if (strcmp(r->engine, "all") == 0)
            continue;
        if (strcmp(problem, r->problem) != 0) {
            problem = r->problem;
            print_sdpa_heading(list, r, out);
        }
        fprintf(out, "%-6s %-4s", r->engine, dtype_name(r->dtype));
        if (r->state != RESULT_TIMED) {
            fprintf(out, "  %s: %s\n", untimed_words[r->state], r->note);
            continue;
        }
        print_sdpa_line(list, r, out);
    }
}

/* ---- Remarks ----------------------------------------------------------------------------------------------------- */

static bool same_reason(const bench_result *a, const bench_result *b) {
    return a->state == b->state && strcmp(a->note, b->note) == 0;
}

static bool reason_seen_before(const result_list *list, size_t i) {
    for (size_t j = 0; j < i; j++)
        if (same_reason(&list->item[i], &list->item[j]))
            return true;
    return false;
}

/* "2048 x 4096 f32 blas", with what is not as usual behind it, or the problem string. */
static void print_name(const bench_result *r, FILE *out) {
    if (r->kind == RESULT_CHAIN)
        fprintf(out, "%lld x %lld %s", (long long)r->d_model, (long long)r->len, dtype_name(r->dtype));
    else
        fprintf(out, "%s %s", r->shape[0] ? r->shape : r->problem, dtype_name(r->dtype));
    if (r->kind == RESULT_CHAIN && r->head_dim != 64)
        fprintf(out, " heads %lld", (long long)r->heads);
    if (r->kind == RESULT_CHAIN && r->batch != 1)
        fprintf(out, " batch %lld", (long long)r->batch);
    if (r->threads != 1)
        fprintf(out, " threads %d", r->threads);
    if (strcmp(r->engine, "all") != 0)
        fprintf(out, " %s", r->engine);
}

static void print_reason(const result_list *list, size_t first, FILE *out) {
    const int most = 12;
    int named = 0, more = 0;
    fprintf(out, "%s (%s): ", untimed_words[list->item[first].state], list->item[first].note);
    for (size_t i = first; i < list->count; i++) {
        if (!same_reason(&list->item[i], &list->item[first]))
            continue;
        if (named == most) {
            more++;
            continue;
        }
        if (named++)
            fprintf(out, ", ");
        print_name(&list->item[i], out);
    }
    if (more)
        fprintf(out, " and %d more", more);
    fputc('\n', out);
}

void report_untimed(const result_list *list, FILE *out) {
    bool first = true;
    for (size_t i = 0; i < list->count; i++) {
        if (list->item[i].state == RESULT_TIMED || reason_seen_before(list, i))
            continue;
        if (first)
            fputc('\n', out);
        first = false;
        print_reason(list, i, out);
    }
}

void report_notes(const result_list *list, FILE *out) {
    bool sampled = false;
    int timed = 0, doubtful = 0, idle = 0;
    report_untimed(list, out);
    for (size_t i = 0; i < list->count; i++) {
        const bench_result *r = &list->item[i];
        if (r->state != RESULT_TIMED)
            continue;
        timed++;
        sampled |= r->sampled;
        doubtful += result_is_doubtful(r);
        idle += r->threads > 1 && result_threads_busy(r) < 0.75 * r->threads;
    }
    if (timed == (int)list->count)
        fputc('\n', out);
    if (sampled)
        fputs("~ timed on a sample of query rows and scaled up by floating-point operations\n", out);
    if (idle)
        fprintf(out,
                "%d of %d figures kept fewer than three quarters of the threads asked for at work: too little work, or "
                "processors taken by others\n",
                idle, timed);
    if (doubtful)
        fprintf(out,
                "? not to be trusted: timed fewer than %d times, or a spread above 10 %% because something else used "
                "the machine or the runs\n  were short; %d of %d figures\n",
                RESULT_FEWEST_REPEATS, doubtful, timed);
}

/* ---- Summary ----------------------------------------------------------------------------------------------------- */

/* Words prefer figures that are to be trusted, unless all such cases are below this share of the largest one's
 * flops. */
static const double tiny_share = 1.0 / 64;

/* True for the fused run of a case that naive and blas have in common with it; *doubtful when a figure of the three
 * is. */
static bool is_common(const result_list *list, const bench_result *r, bool *doubtful) {
    if (r->state != RESULT_TIMED || r->kind != RESULT_CHAIN || strcmp(r->engine, "fused") != 0)
        return false;
    const bench_result *naive = result_of_engine(list, r, "naive"), *blas = result_of_engine(list, r, "blas");
    *doubtful = result_is_doubtful(r) || (naive && result_is_doubtful(naive)) || (blas && result_is_doubtful(blas));
    return naive && blas;
}

const bench_result *report_largest_common(const result_list *list) {
    const bench_result *largest = NULL, *trusted = NULL;
    bool doubtful;
    for (size_t i = 0; i < list->count; i++) {
        const bench_result *r = &list->item[i];
        if (r->dtype != list->item[0].dtype || !is_common(list, r, &doubtful))
            continue;
        if (!largest || r->flops > largest->flops)
            largest = r;
        if (!doubtful && (!trusted || r->flops > trusted->flops))
            trusted = r;
    }
    return trusted && trusted->flops >= tiny_share * largest->flops ? trusted : largest;
}

/* Of the ratios that are to be trusted: the largest of many doubtful ones would be the luckiest. */
static const bench_result *largest_speed_up(const result_list *list) {
    const bench_result *best = NULL;
    for (size_t i = 0; i < list->count; i++) {
        const bench_result *r = &list->item[i];
        if (r->state == RESULT_TIMED && r->kind == RESULT_CHAIN && !result_speed_up_is_doubtful(list, r) &&
            result_speed_up(list, r) > (best ? result_speed_up(list, best) : 0))
            best = r;
    }
    return best;
}

/* ", naive from a single run", ", blas with a spread of 17 %": why a figure of the words carries its mark. */
static void print_doubt(const bench_result *r, bool *first, FILE *out) {
    if (!r || !result_is_doubtful(r))
        return;
    fprintf(out, "%s %s ", *first ? "? is not to be trusted:" : ",", r->engine);
    *first = false;
    if (r->samples == 1)
        fprintf(out, "from a single run");
    else if (!result_is_repeated(r))
        fprintf(out, "from %d runs", r->samples);
    else
        fprintf(out, "with a spread of %.0f %%", 100 * result_spread(r));
}

static void print_doubts(const bench_result *const r[], int count, FILE *out) {
    bool first = true;
    for (int i = 0; i < count; i++)
        print_doubt(r[i], &first, out);
    if (!first)
        fprintf(out, ".\n");
}

void report_summary(const result_list *list, FILE *out) {
    const bench_result *fused = report_largest_common(list);
    if (!fused)
        return;
    const bench_result *naive = result_of_engine(list, fused, "naive"), *blas = result_of_engine(list, fused, "blas");
    const bench_result *cache = result_of_engine(list, fused, "cache"), *top = largest_speed_up(list);
    const char *mark = result_is_doubtful(fused) ? "?" : "";
    bool own_panels = engine_own_panels();
    char a[FIGURE_SIZE], b[MARKED_SIZE], c[MARKED_SIZE], d[FIGURE_SIZE], threads[24];
    fprintf(out,
            "\nAt d_model %lld, length %lld (%s, %s) the chain %s runs %s times as fast as the textbook "
            "loops\n(%s against %s GFLOP/s), the fused engine %s times",
            (long long)fused->d_model, (long long)fused->len, dtype_word(fused->dtype),
            threads_word(fused->threads, threads), own_panels ? "with engine blas" : "through BLAS",
            speed_up_figures(list, blas, a), gflops_figures(blas, b), gflops_figures(naive, c),
            speed_up_figures(list, fused, d));
    if (fused->workspace_bytes > 0 && blas->workspace_bytes > fused->workspace_bytes)
        fprintf(out, ", with %s times less memory (%s instead of %s)",
                about(blas->workspace_bytes / fused->workspace_bytes, a), human_bytes(fused->workspace_bytes, b),
                human_bytes(blas->workspace_bytes, c));
    fprintf(out, ".\nFused reaches %.0f%s %% of what multiply-adds can do here and %.0f%s %% of the best BLAS product",
            100 * result_share_of_peak(fused), mark, 100 * result_gflops(fused) / fmax(fused->blas_peak, 1e-9), mark);
    if (cache)
        fprintf(out, "; cache-ordered loops alone give %s times", speed_up_figures(list, cache, a));
    fprintf(out, ".\n");
    if (own_panels)
        fprintf(out,
                "Tiles of fused and panels of weights are multiplied by the library's own kernel: BLAS falls short of "
                "this CPU.\n");
    else if (engine_own_products())
        fprintf(out, "Tiles of fused are multiplied by the library's own kernel: this BLAS core packs whatever it "
                     "multiplies.\n");
    print_doubts((const bench_result *const[]){naive, cache, blas, fused}, 4, out);
    if (top)
        fprintf(out, "The largest gain that is to be trusted is %s times: %s at d_model %lld, length %lld (%s).\n",
                speed_up_figures(list, top, a), top->engine, (long long)top->d_model, (long long)top->len,
                dtype_word(top->dtype));
}

/* ---- Bars -------------------------------------------------------------------------------------------------------- */

#define BAR_WIDTH 40

static void print_bar(const char *name, double share, FILE *out) {
    int width = share <= 0 ? 0 : (int)(share * BAR_WIDTH + 0.5);
    fprintf(out, "  %-23s |", name);
    for (int i = 0; i < (width < BAR_WIDTH ? width : BAR_WIDTH); i++)
        fputc('#', out);
    fprintf(out, "%*s|", width < BAR_WIDTH ? BAR_WIDTH - width : 0, "");
}

void report_bars(const result_list *list, FILE *out) {
    const bench_result *fused = report_largest_common(list);
    if (!fused)
        return;
    double most = fused->fma_peak;
    char text[MARKED_SIZE], threads[24];
    fprintf(out, "\n  d_model %lld, length %lld, %s, %s%*s%9s %9s\n", (long long)fused->d_model, (long long)fused->len,
            dtype_word(fused->dtype), threads_word(fused->threads, threads), 25, "", "GFLOP/s", "times");
    for (int id = 0; id < ENGINE_COUNT; id++) {
        const bench_result *r = result_of_engine(list, fused, engine_name((engine_id)id));
        if (!r)
            continue;
        print_bar(engine_title((engine_id)id), result_gflops(r) / most, out);
        fprintf(out, " %9s", gflops_figures(r, text));
        fprintf(out, " %9s\n", speed_up_figures(list, r, text));
    }
    print_bar("multiply-add peak", 1, out);
    fprintf(out, " %9s\n", three_figures(most, text));
}
