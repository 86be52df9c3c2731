/* Results as CSV with a line of names; docs/bench.md explains every column. Numbers have a point and no grouping. */
#include <math.h>
#include <string.h>

#include "report.h"

static void write_line(const result_list *list, const bench_result *r, FILE *out) {
    /* Problem strings hold commas, never quotes. */
    fprintf(out, "%s,%lld,%lld,%s,%s,%d,\"%s\",", result_kind_name(r), (long long)r->d_model, (long long)r->len,
            r->engine, dtype_name(r->dtype), r->threads, r->problem);
    char spread[32] = "";
    if (isfinite(result_spread(r)))
        snprintf(spread, sizeof spread, "%.4g", result_spread(r));
    fprintf(out, "%.6g,%.6g,%.6g,%.6g,%s,%d,%d,%lld,", r->ms_median, r->ms_min, r->ms_cpu, r->ms_setup, spread,
            r->samples, r->sampled, (long long)r->sampled_rows);
    fprintf(out, "%.0f,%.6g,%.6g,%.6g,%.6g,", r->flops, result_gflops(r), result_gflops_best(r), result_gbytes_per_s(r),
            result_speed_up(list, r));
    fprintf(out, "%.6g,%.6g,%.6g,%.4g,%.0f,%.0f,%.4g,%.4g,%.4g,%lld,%lld,%lld,", r->fma_peak, r->blas_peak,
            r->read_peak, result_share_of_peak(r), r->workspace_bytes, r->working_set_bytes, r->error_eps, r->error_abs,
            r->error_share, (long long)r->batch, (long long)r->heads, (long long)r->head_dim);
    fprintf(out, "%.4g,%s,%.7g,%s\n", result_threads_busy(r), r->cold ? "cold" : "hot", r->checksum, r->shape);
}

bool report_csv(const char *file, const result_list *list) {
    bool to_stdout = strcmp(file, "-") == 0;
    FILE *out = to_stdout ? stdout : fopen(file, "w");
    bool written = out != NULL;
    if (out) {
        fputs("kind,d_model,len,engine,dtype,threads,problem,ms_median,ms_min,ms_cpu,ms_setup,spread,repeats,sampled,"
              "sampled_rows,flops,gflops,gflops_best,gbytes_per_s,speed_up,fma_peak_gflops,blas_peak_gflops,"
              "read_peak_gbytes_per_s,share_of_peak,bytes_workspace,bytes_working_set,error_max,error_abs,"
              "error_share,batch,heads,head_dim,threads_busy,caches,checksum,shape\n",
              out);
        for (size_t i = 0; i < list->count; i++)
            if (list->item[i].state == RESULT_TIMED)
                write_line(list, &list->item[i], out);
        written = !ferror(out);
        written &= (to_stdout ? fflush(out) : fclose(out)) == 0;
    }
    if (!written)
        fprintf(stderr, "attn-bench: cannot write CSV to '%s'\n", file);
    return written;
}
