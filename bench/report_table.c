/* Results for readers: tables, remarks and a summary in words. */
#include <math.h>
#include <string.h>

#include "engines.h"
#include "report.h"

/* Three figures: "2.91", "12.4", "105". */
static const char *three_figures(double x, char *text) {
    snprintf(text, 16, x < 9.995 ? "%.2f" : x < 99.95 ? "%.1f" : "%.0f", x);
    return text;
}

static const char *dtype_word(attn_dtype dtype) {
    return dtype == ATTN_F32 ? "float" : "double";
}

static const char *threads_word(int threads, char *text) {
    snprintf(text, 24, threads == 1 ? "1 thread" : "%d threads", threads);
    return text;
}

void report_peaks(const peaks *p, FILE *out) {
    for (int dtype = 0; dtype < 2; dtype++)
        for (int all = 0; all <= (p->threads > 1); all++) {
            const peak_rates *r = all ? &p->all[dtype] : &p->one[dtype];
            if (!r->measured)
                continue;
            char a[16], b[16], c[16], threads[24];
            fprintf(out, "  peak %s, %s: multiply-add %s GFLOP/s (%s), BLAS tile %s (%s), large BLAS product %s\n",
                    dtype_word((attn_dtype)dtype), threads_word(all ? p->threads : 1, threads),
                    three_figures(r->fma, a), r->fma_isa, three_figures(r->tile, b), r->tile_shape,
                    three_figures(r->large, c));
        }
}

/* ---- The chain --------------------------------------------------------------------------------------------------- */

static const bench_result *find_chain(const result_list *list, int64_t d_model, int64_t len, attn_dtype dtype,
                                      const char *engine) {
    for (size_t i = 0; i < list->count; i++) {
        const bench_result *r = &list->item[i];
        if (r->chain && r->d_model == d_model && r->len == len && r->dtype == dtype && strcmp(r->engine, engine) == 0)
            return r;
    }
    return NULL;
}

static void print_heading(unsigned engines, FILE *out) {
    fprintf(out, "\n%7s", "");
    for (int id = 0; id < ENGINE_COUNT; id++)
        if (engines & ENGINE_BIT(id))
            fprintf(out, "%*s", id == ENGINE_NAIVE ? 9 : id == ENGINE_CACHE ? 16 : 21, engine_name((engine_id)id));
    fprintf(out, "   workspace\n%7s", "length");
    for (int id = 0; id < ENGINE_COUNT; id++)
        if (engines & ENGINE_BIT(id))
            fprintf(out, "%9s%s%s", "GFLOP/s", id == ENGINE_NAIVE ? "" : "  times",
                    id == ENGINE_NAIVE || id == ENGINE_CACHE ? "" : " peak");
    fprintf(out, "  ");
    for (int id = ENGINE_BLAS; id < ENGINE_COUNT; id++)
        if (engines & ENGINE_BIT(id))
            fprintf(out, "%9s", engine_name((engine_id)id));
    fputc('\n', out);
}

static void print_cell(const result_list *list, const bench_result *r, engine_id id, FILE *out) {
    char text[16], marked[24];
    bool loops = engine_is_loops(id);
    if (!r || r->state != RESULT_TIMED) {
        const char *word = !r || r->state == RESULT_LEFT_OUT ? "-" : r->state == RESULT_REFUSED ? "refused" : "FAILED";
        fprintf(out, "%9s%s%s", word, id == ENGINE_NAIVE ? "" : "       ", loops ? "" : "     ");
        return;
    }
    snprintf(marked, sizeof marked, "%s%s", r->sampled ? "~" : "", three_figures(result_gflops(r), text));
    fprintf(out, "%9s", marked);
    double speed_up = result_speed_up(list, r);
    if (id != ENGINE_NAIVE)
        fprintf(out, "%7s", speed_up > 0 ? three_figures(speed_up, text) : "-");
    if (!loops) {
        snprintf(text, sizeof text, "%.0f%%", 100 * result_share_of_peak(r));
        fprintf(out, "%5s", text);
    }
}

static void print_length(const result_list *list, int64_t d_model, int64_t len, attn_dtype dtype, unsigned engines,
                         FILE *out) {
    fprintf(out, "%7lld", (long long)len);
    for (int id = 0; id < ENGINE_COUNT; id++)
        if (engines & ENGINE_BIT(id))
            print_cell(list, find_chain(list, d_model, len, dtype, engine_name((engine_id)id)), (engine_id)id, out);
    fprintf(out, "  ");
    for (int id = ENGINE_BLAS; id < ENGINE_COUNT; id++)
        if (engines & ENGINE_BIT(id)) {
            const bench_result *r = find_chain(list, d_model, len, dtype, engine_name((engine_id)id));
            char text[16] = "-";
            if (r && r->state == RESULT_TIMED)
                human_bytes(r->workspace_bytes, text);
            fprintf(out, "%9s", text);
        }
    fputc('\n', out);
}

void report_chain_table(const result_list *list, int64_t d_model, attn_dtype dtype, unsigned engines, FILE *out) {
    bool headed = false;
    int64_t last = -1;
    for (size_t i = 0; i < list->count; i++) {
        const bench_result *r = &list->item[i];
        if (!r->chain || r->d_model != d_model || r->dtype != dtype || r->len == last || strcmp(r->engine, "all") == 0)
            continue;
        if (!headed) {
            char threads[24], peak[16];
            fprintf(out, "\nd_model %lld (heads: %lld of 64), %s, %s, peak %s GFLOP/s\n", (long long)d_model,
                    (long long)d_model / 64, dtype_word(dtype), threads_word(r->threads, threads),
                    three_figures(r->fma_peak, peak));
            print_heading(engines, out);
            headed = true;
        }
        print_length(list, d_model, r->len, dtype, engines, out);
        last = r->len;
    }
}

/* ---- Attention alone --------------------------------------------------------------------------------------------- */

void report_sdpa_table(const result_list *list, FILE *out) {
    const char *problem = "";
    for (size_t i = 0; i < list->count; i++) {
        const bench_result *r = &list->item[i];
        if (strcmp(problem, r->problem) != 0) {
            char threads[24];
            problem = r->problem;
            fprintf(out, "\n%s, %s, %.4g GFLOP\n\n", problem, threads_word(r->threads, threads), 1e-9 * r->flops);
            fprintf(out, "%-6s %-4s%11s%11s%7s%9s%9s%7s%6s%8s%10s%7s\n", "engine", "type", "median ms", "best ms",
                    "spread", "GFLOP/s", "best", "times", "peak", "GB/s", "workspace", "error");
        }
        fprintf(out, "%-6s %-4s", r->engine, dtype_name(r->dtype));
        if (r->state != RESULT_TIMED) {
            fprintf(out, "  %s: %s\n", r->state == RESULT_FAILED ? "FAILED" : "refused", r->note);
            continue;
        }
        char a[16], b[16], c[16], d[16], bytes[16], median[24];
        double speed_up = result_speed_up(list, r);
        snprintf(median, sizeof median, "%s%.4g", r->sampled ? "~" : "", r->ms_median);
        fprintf(out, "%11s%11.4g%6.1f%%%9s%9s%7s%5.0f%%%8s%10s%7.2f\n", median, r->ms_min, 100 * r->spread,
                three_figures(result_gflops(r), a), three_figures(result_gflops_best(r), b),
                speed_up > 0 ? three_figures(speed_up, c) : "-", 100 * result_share_of_peak(r),
                three_figures(result_gbytes_per_s(r), d), human_bytes(r->workspace_bytes, bytes), r->error_eps);
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

/* "2048 x 4096 f32 blas" or the problem string. */
static void print_name(const bench_result *r, FILE *out) {
    if (r->chain)
        fprintf(out, "%lld x %lld %s", (long long)r->d_model, (long long)r->len, dtype_name(r->dtype));
    else
        fprintf(out, "%s %s", r->problem, dtype_name(r->dtype));
    if (strcmp(r->engine, "all") != 0)
        fprintf(out, " %s", r->engine);
}

static void print_reason(const result_list *list, size_t first, FILE *out) {
    static const char *const words[] = {
        [RESULT_LEFT_OUT] = "left out", [RESULT_REFUSED] = "refused", [RESULT_FAILED] = "FAILED"};
    const int most = 12;
    int named = 0, more = 0;
    fprintf(out, "%s (%s): ", words[list->item[first].state], list->item[first].note);
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

void report_notes(const result_list *list, FILE *out) {
    bool sampled = false;
    int timed = 0, spread = 0;
    fputc('\n', out);
    for (size_t i = 0; i < list->count; i++) {
        const bench_result *r = &list->item[i];
        if (r->state == RESULT_TIMED) {
            timed++;
            sampled |= r->sampled;
            spread += r->spread > 0.1;
        } else if (!reason_seen_before(list, i)) {
            print_reason(list, i, out);
        }
    }
    if (sampled)
        fputs("~ timed on a sample of query rows and scaled up by floating-point operations\n", out);
    if (spread)
        fprintf(out,
                "%d of %d figures have a spread above 10 %%: something else used the machine, or the runs were "
                "short\n",
                spread, timed);
}

/* ---- Summary ----------------------------------------------------------------------------------------------------- */

/* The largest case that naive, blas and fused have in common. */
static const bench_result *largest_common(const result_list *list) {
    const bench_result *best = NULL;
    for (size_t i = 0; i < list->count; i++) {
        const bench_result *r = &list->item[i];
        if (r->state == RESULT_TIMED && r->chain && strcmp(r->engine, "fused") == 0 &&
            result_of_engine(list, r, "naive") && result_of_engine(list, r, "blas") &&
            (!best || r->flops > best->flops))
            best = r;
    }
    return best;
}

static const bench_result *largest_speed_up(const result_list *list) {
    const bench_result *best = NULL;
    for (size_t i = 0; i < list->count; i++) {
        const bench_result *r = &list->item[i];
        if (r->chain && result_speed_up(list, r) > (best ? result_speed_up(list, best) : 0))
            best = r;
    }
    return best;
}

void report_summary(const result_list *list, FILE *out) {
    const bench_result *fused = largest_common(list);
    if (!fused)
        return;
    const bench_result *naive = result_of_engine(list, fused, "naive"), *blas = result_of_engine(list, fused, "blas");
    const bench_result *cache = result_of_engine(list, fused, "cache"), *top = largest_speed_up(list);
    char a[16], b[16], c[16], d[16], threads[24];
    fprintf(out,
            "\nAt d_model %lld, length %lld (%s, %s) the chain through BLAS runs %s times as fast as the textbook "
            "loops\n(%s against %s GFLOP/s), the fused engine %s times",
            (long long)fused->d_model, (long long)fused->len, dtype_word(fused->dtype),
            threads_word(fused->threads, threads), three_figures(result_speed_up(list, blas), a),
            three_figures(result_gflops(blas), b), three_figures(result_gflops(naive), c),
            three_figures(result_speed_up(list, fused), d));
    if (fused->workspace_bytes > 0 && blas->workspace_bytes > fused->workspace_bytes)
        fprintf(out, ", with %s times less memory (%s instead of %s)",
                three_figures(blas->workspace_bytes / fused->workspace_bytes, a),
                human_bytes(fused->workspace_bytes, b), human_bytes(blas->workspace_bytes, c));
    fprintf(out, ".\nFused reaches %.0f %% of what multiply-adds can do here and %.0f %% of the best BLAS product",
            100 * result_share_of_peak(fused), 100 * result_gflops(fused) / fmax(fused->blas_peak, 1e-9));
    if (cache)
        fprintf(out, "; cache-ordered loops alone give %s times", three_figures(result_speed_up(list, cache), a));
    fprintf(out, ".\n");
    if (top)
        fprintf(out, "The largest gain over the textbook loops is %s times, %s at d_model %lld, length %lld (%s).\n",
                three_figures(result_speed_up(list, top), a), top->engine, (long long)top->d_model, (long long)top->len,
                dtype_word(top->dtype));
}
