/* The folder of `sweep --report`. */
#include "report_folder.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "embedded.h"
#include "report.h"

const report_picture report_pictures[] = {
    {"throughput", "Throughput",
     "GFLOP/s = flops / median time of each engine, against length for each d_model, or for each shape."},
    {"speed_up", "Speed-up over the textbook loops",
     "GFLOP/s over GFLOP/s of the textbook loops (naive) on the same problem."},
    {"stages", "Share of the time per stage",
     "From a second, instrumented run of each engine, never from the timed one. In the library's engines a clock "
     "stands in "
     "front of each product and softmax kernel of a second copy of the same object files; masks, rescaling, copies, "
     "the "
     "division and waiting are the rest. The stages of the loops are the differences of the whole run, one without "
     "values, "
     "and one without values and scores, which leaves softmax and the rest."},
    {"memory", "Memory against length",
     "Workspace: what attention needs beside its arguments, worked out by the library for lengths that were not run, "
     "too. "
     "Arguments: X, W, Q, K, V and Z, as far as lengths were run."},
    {"roofline", "Roofline",
     "Operations per byte = flops / bytes of arguments and workspace, each counted once. An engine that reads and "
     "writes "
     "its workspace many times, or a loop that does not fill the registers, stays below the roof."},
    {"scaling", "Scaling over threads",
     "One problem on 1 to all processors; the only part that does not follow --threads. Every engine against its own "
     "rate "
     "on one thread."},
    {"float_double", "Float against double", "GFLOP/s of the same problems in both precisions, where double was run."},
    {0},
};

/* ---- Files ------------------------------------------------------------------------------------------------------- */

/* FOLDER/NAME in `path`; false when it is too long. */
static bool path_of(char path[4096], const char *folder, const char *name) {
    return snprintf(path, 4096, "%s/%s", folder, name) < 4096;
}

static FILE *open_in(const char *folder, const char *name, const char *mode) {
    char path[4096];
    errno = ENAMETOOLONG;
    return path_of(path, folder, name) ? fopen(path, mode) : NULL;
}

bool report_folder_make(const char *folder, char *error, size_t size) {
    FILE *probe = NULL;
    if (mkdir(folder, 0777) == 0 || errno == EEXIST)
        probe = open_in(folder, "results.json", "a");
    if (!probe) {
        snprintf(error, size, "%s", strerror(errno));
        return false;
    }
    fclose(probe);
    return true;
}

/* Closes a file that was opened in the folder; false with a message when it could not be written. */
static bool close_in(const char *folder, const char *name, FILE *file) {
    bool written = file && !ferror(file);
    if (file)
        written &= fclose(file) == 0;
    if (!written)
        fprintf(stderr, "attn-bench: cannot write %s/%s\n", folder, name);
    return written;
}

/* The columns that stages.csv and memory.csv have in common. */
static void write_point(const bench_result *r, FILE *out) {
    fprintf(out, "%s,%lld,%lld,%lld,%d,%lld,%s,%s,%s", result_kind_name(r), (long long)r->d_model, (long long)r->heads,
            (long long)r->batch, r->threads, (long long)r->len, r->engine, dtype_name(r->dtype), r->shape);
}

static bool write_stages(const char *folder, const extras *more) {
    FILE *out = open_in(folder, "stages.csv", "w");
    if (out)
        fputs("kind,d_model,heads,batch,threads,len,engine,dtype,shape,ms_project,ms_scores,ms_softmax,ms_combine,ms_"
              "rest\n",
              out);
    for (size_t i = 0; out && i < more->stages; i++) {
        const stage_times *t = &more->stage[i];
        write_point(&t->entry, out);
        for (int s = 0; s < STAGE_COUNT; s++)
            fprintf(out, ",%.6g", t->ms[s]);
        fputc('\n', out);
    }
    return close_in(folder, "stages.csv", out);
}

static bool write_memory(const char *folder, const extras *more) {
    FILE *out = open_in(folder, "memory.csv", "w");
    if (out)
        fputs("kind,d_model,heads,batch,threads,len,engine,dtype,shape,bytes_workspace\n", out);
    for (size_t i = 0; out && i < more->memories; i++) {
        const memory_need *m = &more->memory[i];
        write_point(&m->entry, out);
        fprintf(out, ",%.0f\n", m->bytes);
    }
    return close_in(folder, "memory.csv", out);
}

static bool write_plot(const char *folder) {
    FILE *out = open_in(folder, "plot.gp", "w");
    if (out) {
        fputs("titles = '", out); /* of the engines: the tables have the same */
        for (int id = 0; id < ENGINE_COUNT; id++)
            fprintf(out, "%s\"%s\"", id > 0 ? " " : "", engine_title((engine_id)id));
        fprintf(out, "'\n%s", embedded_plot);
    }
    return close_in(folder, "plot.gp", out);
}

static bool write_tables(const char *folder, const report_input *input) {
    char json[4096], csv[4096], threads[4096], cold[4096];
    if (!path_of(json, folder, "results.json") || !path_of(csv, folder, "results.csv") ||
        !path_of(threads, folder, "scaling.csv") || !path_of(cold, folder, "cold.csv"))
        return false;
    return report_json(json, input->where, input->ceilings, input->ceilings_count, input->list, input->more) &&
           report_csv(csv, input->list) && report_csv(threads, &input->more->threads) &&
           report_csv(cold, &input->more->cold) && write_stages(folder, input->more) &&
           write_memory(folder, input->more) && write_plot(folder);
}

/* ---- Pictures ---------------------------------------------------------------------------------------------------- */

enum { NOT_FOUND = 127 };

/* Exit status of gnuplot for one picture in the folder; NOT_FOUND when there is no gnuplot. */
static int run_gnuplot(const char *folder, const char *picture, const report_input *input) {
    char settings[256];
    bool has_float = false;
    for (size_t i = 0; i < input->list->count; i++)
        has_float |= input->list->item[i].state == RESULT_TIMED && input->list->item[i].dtype == ATTN_F32;
    snprintf(settings, sizeof settings, "pictures='%s'; dtype='%s'; limit=%.0f", picture, has_float ? "f32" : "f64",
             input->where->available);
    pid_t child = fork();
    if (child == 0) {
        /* It warns of every engine that a file has no points of. */
        int nowhere = open("/dev/null", O_WRONLY);
        if (nowhere >= 0)
            dup2(nowhere, STDERR_FILENO);
        if (chdir(folder) == 0)
            execlp("gnuplot", "gnuplot", "-e", settings, "plot.gp", (char *)NULL);
        _exit(NOT_FOUND);
    }
    int status = 0;
    if (child < 0 || waitpid(child, &status, 0) != child)
        return 1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

/* A picture of an earlier run would be taken for one of this. */
static void remove_picture(const char *folder, const char *picture) {
    static const char *const ends[] = {"svg", "png"};
    for (int i = 0; i < 2; i++) {
        char name[64], path[4096];
        snprintf(name, sizeof name, "%s.%s", picture, ends[i]);
        if (path_of(path, folder, name))
            remove(path);
    }
}

/* False when a picture could not be drawn; no gnuplot is told on `out`. */
static bool draw(const char *folder, const report_input *input, FILE *out) {
    bool drawn = true;
    int status = 0;
    for (const report_picture *p = report_pictures; p->name; p++) {
        remove_picture(folder, p->name);
        if (status != NOT_FOUND)
            status = run_gnuplot(folder, p->name, input);
        if (status != 0 && status != NOT_FOUND) {
            fprintf(stderr, "attn-bench: gnuplot could not draw %s; gnuplot plot.gp in %s tells why\n", p->name,
                    folder);
            drawn = false;
        }
    }
    if (status == NOT_FOUND)
        fprintf(out,
                "No pictures: gnuplot was not found. On Debian or Ubuntu: apt-get install gnuplot-nox; then run "
                "gnuplot plot.gp in %s,\nor the sweep again to have them in report.html\n",
                folder);
    return drawn;
}

bool report_folder_write(const char *folder, const report_input *input, FILE *out) {
    if (!write_tables(folder, input))
        return false;
    bool drawn = draw(folder, input, out);
    if (!report_html(folder, input))
        return false;
    fprintf(out, "Report: %s/report.html; data: results.json, results.csv; pictures: *.svg, *.png, by plot.gp\n",
            folder);
    return drawn;
}
