/* Where the time of an engine goes, by a clock inside or by differences. */
#include "stages.h"

#include <math.h>
#include <stdlib.h>

#include "interrupt.h"
#include "stage_clock.h"
#include "timing.h"

const char *stage_name(stage_id s) {
    static const char *const names[STAGE_COUNT] = {"X W", "Q K^T", "softmax", "A V", "rest"};
    return names[s];
}

double stage_total(const stage_times *t) {
    double sum = 0;
    for (int s = 0; s < STAGE_COUNT; s++)
        sum += t->ms[s];
    return sum;
}

/* Repeats: short runs until this long, long ones twice. */
static const double run_seconds = 0.1;
static const int fewest_runs = 2;

/* Milliseconds of the best run of one stage; below 0 when it gave up. */
static double best_ms(engine_run *run, bool (*part)(void *)) {
    timing_goal goal = {.floor_seconds = run_seconds,
                        .min_samples = fewest_runs,
                        .max_samples = TIMING_MAX_SAMPLES,
                        .enough = interrupt_requested};
    timing_stats stats;
    return timing_measure(part, run, &goal, &stats) ? 1e3 * stats.best : -1;
}

/* ---- The loops --------------------------------------------------------------------------------------------------- */

/* The only output of a problem without values, which the library would else do nothing for. False without memory. */
static bool want_lse(support_case *c, support_data *data, attn_dtype dtype) {
    attn_problem *p = &c->problem;
    p->lse = (attn_strides){.batch = p->q_heads * p->q_len, .head = p->q_len, .row = 1};
    size_t bytes = dtype == ATTN_F32 ? sizeof(float) : sizeof(double);
    data->base[SUPPORT_LSE] = malloc((size_t)(p->batch * p->q_heads * p->q_len) * bytes + 1);
    return data->base[SUPPORT_LSE] != NULL;
}

/* Attention of a problem with other values or another scale; below 0 when it gave up. */
static double changed_ms(const bench_case *c, engine_id id, int64_t max_rows, bool values, bool scores) {
    support_case changed = *c->data->problem_case;
    support_data data = *c->data;
    bench_case one = *c;
    one.data = &data;
    data.problem_case = &changed;
    if (!values) {
        changed.problem.v_dim = 0;
        if (!want_lse(&changed, &data, c->dtype))
            return -1;
    }
    if (!scores) {
        changed.problem.flags |= ATTN_HAS_SCALE;
        changed.problem.scale = 0;
    }
    engine_run run;
    double ms = engine_open(&run, id, &one, max_rows) && engine_prepare(&run) ? best_ms(&run, engine_attend) : -1;
    ms *= run.attend_scale;
    engine_close(&run);
    if (!values)
        free(data.base[SUPPORT_LSE]);
    return ms;
}

static bool measure_loops(const bench_case *c, engine_id id, int64_t max_rows, stage_times *t) {
    engine_run run;
    double project = -1, prepare = -1;
    if (engine_open(&run, id, c, max_rows)) {
        project = c->chain ? run.project_scale * best_ms(&run, engine_project) : 0;
        prepare = id == ENGINE_CACHE ? best_ms(&run, engine_prepare) : 0;
        max_rows = run.sampled ? run.rows : 0;
    }
    engine_close(&run);
    double whole = changed_ms(c, id, max_rows, true, true), no_values = changed_ms(c, id, max_rows, false, true),
           softmax = changed_ms(c, id, max_rows, false, false);
    if (project < 0 || prepare < 0 || whole < 0 || no_values < 0 || softmax < 0)
        return false;
    t->ms[STAGE_PROJECT] = project;
    t->ms[STAGE_SCORES] = fmax(no_values - softmax, 0) + prepare;
    t->ms[STAGE_SOFTMAX] = softmax;
    t->ms[STAGE_COMBINE] = fmax(whole - no_values, 0);
    return true;
}

/* ---- The library's engines --------------------------------------------------------------------------------------- */

#ifdef BENCH_HAVE_STAGES
/* One run with the clock; false when it gave up. */
static bool clocked_run(engine_run *run, stage_times *t) {
    double seconds[STAGE_COUNT] = {0};
    double start = timing_now();
    if (!staged_engine_project(run))
        return false;
    double project = run->c->chain ? timing_now() - start : 0;
    stage_clock_begin();
    start = timing_now();
    bool done = staged_engine_attend(run);
    double attend = timing_now() - start;
    double taken = stage_clock_end(seconds), threads = run->c->threads, known = 0;
    seconds[STAGE_PROJECT] = project * threads;
    for (int s = STAGE_SCORES; s < STAGE_REST; s++)
        known += seconds[s];
    seconds[STAGE_REST] = fmax(attend * threads - taken - known, 0);
    for (int s = 0; s < STAGE_COUNT; s++)
        t->ms[s] = 1e3 * seconds[s] / threads;
    return done;
}

/* The fastest of a few runs, after one that warms up. */
static bool measure_library(const bench_case *c, engine_id id, stage_times *t) {
    engine_run run;
    double best = INFINITY;
    bool done = staged_engine_open(&run, id, c, 0) && staged_engine_project(&run) && staged_engine_attend(&run);
    double start = timing_now();
    for (int i = 0; done && (i < fewest_runs || timing_now() - start < run_seconds); i++) {
        stage_times one = *t;
        done = clocked_run(&run, &one);
        if (done && stage_total(&one) < best) {
            best = stage_total(&one);
            *t = one;
        }
    }
    staged_engine_close(&run);
    return done;
}
#else
static bool measure_library(const bench_case *c, engine_id id, stage_times *t) {
    (void)c, (void)id, (void)t;
    return false;
}
#endif

bool stages_measure(const bench_case *c, engine_id id, int64_t max_rows, stage_times *t) {
    return engine_is_loops(id) ? measure_loops(c, id, max_rows, t) : measure_library(c, id, t);
}
