/* What a report shows beside the grid. */
#include "extras.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "interrupt.h"

/* ---- The choice -------------------------------------------------------------------------------------------------- */

/* The picture of the threads is of a problem of this size, or the nearest that is run. */
static const int64_t usual_d_model = 768;
static const double longest_thread_run = 0.3, longest_stage_run = 0.6; /* seconds of one library run */

/* 1, 2, 4, .. and all processors. */
static int thread_counts(int *list, int most) {
    int cpus = (int)sysconf(_SC_NPROCESSORS_ONLN), n = 0;
    for (int t = 1; t < cpus && n < most - 1; t *= 2)
        list[n++] = t;
    list[n++] = cpus > 1 ? cpus : 1;
    return n;
}

#define MOST_THREAD_COUNTS 12

/* One run of a library engine, at most; short runs are repeated to the time floor. */
static double run_of(const sweep_cell *cell, int id) {
    return cell->engine[id] / (1 + cell->library_samples);
}

/* One run of the loops for the stages: on a sample of rows, eight at least. */
static const double stage_loop_seconds = 0.15;
static double loop_run(const sweep_cell *cell, int id) {
    double d = (double)cell->d_model, row = 6 * d * d + 4 * (double)cell->len * d;
    return fmax(stage_loop_seconds, 8 * 1e-9 * row / cell->loop_gflops[id]);
}

static double seconds_of(const sweep_plan *plan, const sweep_cell *cell) {
    double seconds = 0;
    int list[MOST_THREAD_COUNTS];
    for (int id = 0; id < ENGINE_COUNT; id++) {
        if (!(plan->engines & ENGINE_BIT(id)))
            continue;
        bool loops = engine_is_loops((engine_id)id);
        if (cell->extras & EXTRA_STAGES)
            seconds += loops ? 0.3 + 4 * loop_run(cell, id) : 3 * run_of(cell, id) + 0.1;
        if (cell->extras & EXTRA_COLD)
            seconds += loops ? 0 : cell->engine[id];
        if (cell->extras & EXTRA_THREADS)
            seconds += thread_counts(list, MOST_THREAD_COUNTS) * cell->engine[id];
    }
    return seconds;
}

/* The cells of one table in the plan's first precision that are run, lengths ascending; *end is the first cell of the
 * next. */
static int cells_of(const sweep_plan *plan, int begin, int *end, sweep_cell **list) {
    int n = 0;
    for (*end = begin; *end < plan->count && sweep_cell_same_table(&plan->cell[begin], &plan->cell[*end]); ++*end)
        if (!plan->cell[*end].left_out && plan->cell[*end].dtype == plan->cell[0].dtype)
            list[n++] = &plan->cell[*end];
    return n;
}

static int64_t distance(int64_t a, int64_t b) {
    return a < b ? b - a : a - b;
}

/* For the picture of the threads: nearer to the usual size, then the longer run. */
static bool suits_better(const sweep_cell *a, const sweep_cell *b) {
    int64_t from_a = distance(a->d_model, usual_d_model), from_b = distance(b->d_model, usual_d_model);
    return from_a != from_b ? from_a < from_b : run_of(a, ENGINE_FUSED) > run_of(b, ENGINE_FUSED);
}

/* Stages: the middle length and the longest that is not dear. Cold caches: the shortest and the middle. */
static void mark(sweep_plan *plan) {
    sweep_cell *list[LIST_MAX], *threads = NULL;
    for (int begin = 0, end; begin < plan->count; begin = end) {
        int n = cells_of(plan, begin, &end, list);
        if (n == 0)
            continue;
        list[n / 2]->extras |= EXTRA_STAGES | EXTRA_COLD;
        int last = n - 1;
        while (last > 0 && run_of(list[last], ENGINE_FUSED) > longest_stage_run)
            last--;
        list[last]->extras |= EXTRA_STAGES;
        list[0]->extras |= EXTRA_COLD;
        for (int i = 0; i < n; i++)
            if (run_of(list[i], ENGINE_FUSED) < longest_thread_run && (!threads || suits_better(list[i], threads)))
                threads = list[i];
    }
    if (threads)
        threads->extras |= EXTRA_THREADS;
}

static unsigned kinds_of(const sweep_plan *plan) {
    unsigned kinds = 0;
    for (int i = 0; i < plan->count; i++)
        kinds |= plan->cell[i].extras;
    return kinds;
}

void extras_choose(extras *e, sweep_plan *plan, double seconds) {
    double sum = 0;
    mark(plan);
    e->suited = kinds_of(plan);
    for (int i = 0; i < plan->count; i++)
        sum += plan->cell[i].extra_seconds = seconds_of(plan, &plan->cell[i]);
    /* The dearest go first, the threads last: they are in one cell only. */
    for (unsigned kind = EXTRA_STAGES | EXTRA_COLD; sum > seconds;) {
        sweep_cell *dearest = NULL;
        for (int i = 0; i < plan->count; i++)
            if (plan->cell[i].extras & kind && (!dearest || plan->cell[i].extra_seconds > dearest->extra_seconds))
                dearest = &plan->cell[i];
        if (!dearest && kind == EXTRA_THREADS)
            break;
        if (!dearest) {
            kind = EXTRA_THREADS;
            continue;
        }
        sum -= dearest->extra_seconds;
        dearest->extras &= ~kind;
        sum += dearest->extra_seconds = seconds_of(plan, dearest);
    }
    e->chosen = kinds_of(plan);
    plan->seconds += sum;
}

/* ---- The runs ---------------------------------------------------------------------------------------------------- */

/* An entry of the same problem that nothing is known of yet. */
static bench_result sizes_of(const bench_result *like) {
    bench_result r = {.kind = like->kind,
                      .dtype = like->dtype,
                      .threads = like->threads,
                      .d_model = like->d_model,
                      .len = like->len,
                      .batch = like->batch,
                      .heads = like->heads,
                      .head_dim = like->head_dim};
    memcpy(r.problem, like->problem, sizeof r.problem);
    memcpy(r.shape, like->shape, sizeof r.shape);
    return r;
}

static bench_result *add_like(result_list *list, const bench_result *like) {
    bench_result *r = result_add(list);
    *r = sizes_of(like);
    return r;
}

static void *add_item(void **list, size_t *count, size_t *capacity, size_t size) {
    if (*count == *capacity) {
        size_t more = *capacity ? 2 * *capacity : 64;
        void *larger = realloc(*list, more * size);
        if (!larger) {
            fputs("attn-bench: not enough memory for the results\n", stderr);
            exit(1);
        }
        *list = larger;
        *capacity = more;
    }
    return (char *)*list + (*count)++ * size;
}

/* What failed is told with everything else that did. */
static void keep_failure(const bench_result *r, result_list *list) {
    bench_result copy = *r;
    if (r->state == RESULT_FAILED)
        *result_add(list) = copy;
}

void extras_run(extras *e, const sweep_plan *plan, const sweep_cell *cell, const bench_case *c,
                const projection_oracle *oracle, uint64_t seed, const bench_result *like, result_list *list) {
    int threads[MOST_THREAD_COUNTS];
    int counts = cell->extras & EXTRA_THREADS ? thread_counts(threads, MOST_THREAD_COUNTS) : 0;
    for (int id = 0; id < ENGINE_COUNT; id++) {
        if (!(plan->engines & ENGINE_BIT(id)))
            continue;
        measure_settings settings = sweep_cell_settings(plan, cell, (engine_id)id, seed);
        stage_times t = {.entry = sizes_of(like)};
        t.entry.engine = engine_name((engine_id)id);
        measure_settings short_loops = settings;
        short_loops.loop_seconds = fmin(settings.loop_seconds, stage_loop_seconds);
        if (cell->extras & EXTRA_STAGES && !interrupted && measure_stages(c, (engine_id)id, &short_loops, &t))
            *(stage_times *)add_item((void **)&e->stage, &e->stages, &e->stage_capacity, sizeof t) = t;
        for (int i = 0; i < counts && !interrupted; i++) {
            bench_case other = *c;
            other.threads = threads[i];
            bench_result *r = add_like(&e->threads, like);
            measure_engine(&other, (engine_id)id, &settings, oracle, r);
            keep_failure(r, list);
        }
        if (cell->extras & EXTRA_COLD && !engine_is_loops((engine_id)id) && !interrupted) {
            settings.cold = true;
            bench_result *r = add_like(&e->cold, like);
            measure_engine(c, (engine_id)id, &settings, oracle, r);
            keep_failure(r, list);
        }
    }
}

/* ---- Memory ------------------------------------------------------------------------------------------------------ */

/* The same problem with another length of queries and keys; NULL when its string has no such form. */
static support_case *with_length(const char *problem, int64_t len) {
    const char *q = strstr(problem, "q"), *d = strstr(problem, "d");
    char text[512], error[256];
    if (!q || !d || d < q)
        return NULL;
    snprintf(text, sizeof text, "%.*sq%lldk%lld%s", (int)(q - problem), problem, (long long)len, (long long)len, d);
    return support_case_parse(text, error, sizeof error);
}

/* Lengths up to here, or until an engine needs this many times what there is. */
static const int64_t longest_length = (int64_t)1 << 20;
static const double enough_times = 16;

static void add_needs(extras *e, const bench_result *r, engine_id id, double available) {
    for (int64_t len = 64; len <= longest_length; len *= 2) {
        support_case *c = with_length(r->problem, len);
        size_t bytes;
        bool known = c && engine_workspace(id, &c->problem, r->dtype, r->threads, &bytes);
        support_case_free(c);
        if (!known)
            return;
        memory_need *need = add_item((void **)&e->memory, &e->memories, &e->memory_capacity, sizeof *need);
        *need = (memory_need){sizes_of(r), (double)bytes};
        need->entry.engine = engine_name(id);
        need->entry.len = len;
        if (available > 0 && (double)bytes > enough_times * available)
            return;
    }
}

void extras_add_memory(extras *e, const result_list *list, double available) {
    for (size_t i = 0; i < list->count; i++) {
        const bench_result *r = &list->item[i];
        bool seen = r->state != RESULT_TIMED || r->kind != RESULT_CHAIN; /* the workspace of a shape is in its entry */
        for (size_t j = 0; !seen && j < i; j++)
            seen = list->item[j].state == RESULT_TIMED && result_same_table(&list->item[j], r) &&
                   strcmp(list->item[j].engine, r->engine) == 0;
        for (int id = 0; !seen && id < ENGINE_COUNT; id++)
            if (strcmp(engine_name((engine_id)id), r->engine) == 0)
                add_needs(e, r, (engine_id)id, available);
    }
}

void extras_free(extras *e) {
    result_list_free(&e->cold);
    result_list_free(&e->threads);
    free(e->stage);
    free(e->memory);
    *e = (extras){0};
}
