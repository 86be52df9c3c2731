/* What a sweep does with its time. The estimates need not be good: they choose repeats and draw the time left, and the
 * run itself corrects them by its pace. */
#include "sweep_plan.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "interrupt.h"
#include "textbook.h"

#define PRECISIONS 2

/* ---- The grid ---------------------------------------------------------------------------------------------------- */

static const number_list default_d_model = {{64, 256, 768, 2048}, 4}, full_d_model = {{64, 256, 768, 2048, 4096}, 5};
static const number_list default_len = {{64, 128, 256, 512, 1024, 2048, 4096}, 7},
                         full_len = {{64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384}, 9};

/* Where double is run too when no precision is asked for: small enough to cost little, large enough to show it. */
static bool in_double_part(int64_t d_model, int64_t len) {
    return d_model <= 768 && len <= 1024 && (len == 64 || len == 256 || len == 1024);
}

/* ---- Which heads ------------------------------------------------------------------------------------------------- */

typedef struct width {
    int64_t d_model, heads;
} width;

typedef struct width_list {
    width item[LIST_MAX * LIST_MAX];
    int count;
} width_list;

static void add_width(width_list *list, int64_t d_model, int64_t heads) {
    const int64_t widest = 65536;
    if (d_model > widest)
        usage_error("sweep: --heads %lld times the head size %lld is a d_model above %lld", (long long)heads,
                    (long long)(d_model / heads), (long long)widest);
    list->item[list->count++] = (width){d_model, heads};
}

/* d_model and one of the two others. */
static void add_widths_of(width_list *list, int64_t d_model, const number_list *other, bool other_is_heads,
                          bool given) {
    for (int i = 0; i < other->count; i++) {
        int64_t part = other->item[i];
        if (d_model % part == 0)
            add_width(list, d_model, other_is_heads ? part : d_model / part);
        else if (given)
            usage_error("sweep: --d-model %lld is no multiple of %s %lld; --heads or --head-dim chooses another",
                        (long long)d_model, other_is_heads ? "--heads" : "the head size", (long long)part);
    }
}

/* Two of d_model, heads and head size decide the third; a default d_model that does not divide is passed over. */
static void make_widths(const bench_options *o, const number_list *d_model, width_list *list) {
    static const number_list usual_head_dim = {{64}, 1};
    const number_list *head_dim = o->head_dim.count ? &o->head_dim : &usual_head_dim;
    list->count = 0;
    if (o->d_model.count && o->heads.count && o->head_dim.count)
        usage_error("sweep: --d-model, --heads and --head-dim: two of them decide the third, give no more than two");
    if (o->heads.count && !o->d_model.count) {
        for (int i = 0; i < o->heads.count; i++)
            for (int j = 0; j < head_dim->count; j++)
                add_width(list, o->heads.item[i] * head_dim->item[j], o->heads.item[i]);
        return;
    }
    for (int i = 0; i < d_model->count; i++)
        add_widths_of(list, d_model->item[i], o->heads.count ? &o->heads : head_dim, o->heads.count > 0,
                      o->d_model.count > 0);
    if (list->count == 0)
        usage_error("sweep: --head-dim %lld divides no usual d_model; --d-model or --heads is needed too",
                    (long long)head_dim->item[0]);
}

/* ---- The cells --------------------------------------------------------------------------------------------------- */

static void add_cell(sweep_plan *plan, const bench_options *o, const sweep_cell *cell) {
    bool wanted = o->dtypes ? (o->dtypes & 1u << cell->dtype) != 0
                            : cell->dtype == ATTN_F32 || in_double_part(cell->d_model, cell->len);
    if (!wanted)
        return;
    plan->dtypes |= 1u << cell->dtype;
    plan->cell[plan->count++] = *cell;
}

static void set_chain_amounts(sweep_cell *cell) {
    double n = (double)cell->len, d = (double)cell->d_model;
    cell->flops = (double)cell->batch * (6 * n * d * d + 4 * n * n * d);
    cell->row_terms = n * 2 * d / (double)cell->heads;
    cell->elements = (double)cell->batch * n * d;
}

static void set_shape_amounts(sweep_cell *cell, const support_case *c) {
    const attn_problem *p = &c->problem;
    double heads = (double)p->batch * (double)p->q_heads, kv_heads = (double)p->batch * (double)p->kv_heads;
    double dims = (double)p->head_dim + (double)p->v_dim, kv_elements = kv_heads * (double)p->kv_len * dims;
    /* what the library refuses costs nothing */
    if (attn_problem_flops(p, c->q_lens, c->kv_lens, &cell->flops) != ATTN_OK)
        cell->flops = 0;
    cell->len = p->q_len;
    cell->row_terms = (double)p->kv_len * dims;
    cell->elements = heads * (double)p->q_len * dims + kv_elements;
    cell->kv_bytes = kv_elements * (cell->dtype == ATTN_F32 ? sizeof(float) : sizeof(double));
}

/* Each shape with each number of threads and precision, single alone when none is asked for. */
static bool add_shapes(sweep_plan *plan, const bench_options *o) {
    plan->dtypes = o->dtypes ? o->dtypes : 1u << ATTN_F32;
    for (int i = 0; i < plan->shapes.count; i++) {
        support_case *c = support_case_parse(plan->shapes.item[i].problem, NULL, 0);
        if (!c)
            return false;
        for (int t = 0; t < plan->threads.count; t++)
            for (int dtype = 0; dtype < PRECISIONS; dtype++) {
                if (!(plan->dtypes & 1u << dtype))
                    continue;
                sweep_cell cell = {.shape = &plan->shapes.item[i],
                                   .dtype = (attn_dtype)dtype,
                                   .threads = (int)plan->threads.item[t],
                                   .ceilings = t};
                set_shape_amounts(&cell, c);
                plan->cell[plan->count++] = cell;
            }
        support_case_free(c);
    }
    return true;
}

/* All widths, numbers of threads and lengths of one precision and batch. */
static void add_cells(sweep_plan *plan, const bench_options *o, const width_list *widths, sweep_cell cell) {
    for (int i = 0; i < widths->count; i++)
        for (int t = 0; t < plan->threads.count; t++)
            for (int j = 0; j < plan->len.count; j++) {
                cell.d_model = widths->item[i].d_model;
                cell.heads = widths->item[i].heads;
                cell.ceilings = t;
                cell.threads = (int)plan->threads.item[t];
                cell.len = plan->len.item[j];
                set_chain_amounts(&cell);
                add_cell(plan, o, &cell);
            }
}

static void check_count(double points) {
    if (points > SWEEP_MAX_CELLS)
        usage_error("sweep: the lists make %.0f points, more than %d", points, SWEEP_MAX_CELLS);
}

bool sweep_plan_grid(sweep_plan *plan, const bench_options *o) {
    static const number_list one = {{1}, 1};
    const number_list *batch = o->batch.count ? &o->batch : &one;
    if (o->shapes &&
        (o->d_model.count || o->heads.count || o->head_dim.count || o->batch.count || o->len.count || o->full))
        usage_error(
            "sweep: --shapes has its own sizes; --d-model, --heads, --head-dim, --batch, --len and --full do not go "
            "with it");
    *plan = (sweep_plan){.engines = o->engines ? o->engines : ENGINES_DEFAULT};
    plan->threads = o->thread_counts.count ? o->thread_counts : one;
    plan->d_model = o->d_model.count ? o->d_model : o->full ? full_d_model : default_d_model;
    plan->len = o->len.count ? o->len : o->full ? full_len : default_len;
    plan->budget = o->budget > 0 ? o->budget : o->full ? 1800 : 120;
    plan->cell = calloc(SWEEP_MAX_CELLS, sizeof *plan->cell);
    if (!plan->cell)
        return false;
    if (o->shapes) {
        shapes_read(o->shapes, &plan->shapes);
        check_count((double)PRECISIONS * plan->threads.count * plan->shapes.count);
        return add_shapes(plan, o);
    }
    width_list *widths = malloc(sizeof *widths);
    if (!widths)
        return false;
    make_widths(o, &plan->d_model, widths);
    check_count((double)PRECISIONS * plan->threads.count * batch->count * widths->count * plan->len.count);
    for (int dtype = 0; dtype < PRECISIONS; dtype++)
        for (int b = 0; b < batch->count; b++)
            add_cells(plan, o, widths, (sweep_cell){.dtype = (attn_dtype)dtype, .batch = batch->item[b]});
    free(widths);
    return true;
}

bool sweep_cell_same_data(const sweep_cell *a, const sweep_cell *b) {
    return !a->shape && !b->shape && a->d_model == b->d_model && a->batch == b->batch && a->dtype == b->dtype;
}

bool sweep_cell_same_table(const sweep_cell *a, const sweep_cell *b) {
    bool alike = a->shape ? a->shape == b->shape : sweep_cell_same_data(a, b) && a->heads == b->heads;
    return alike && a->threads == b->threads;
}

void sweep_plan_free(sweep_plan *plan) {
    free(plan->cell);
    free(plan->shapes.item);
    plan->shapes = (shape_list){0};
    plan->cell = NULL;
    plan->count = 0;
}

/* ---- Estimates --------------------------------------------------------------------------------------------------- */

/* Rough costs of this machine in seconds, good to a factor of two. */
static const double oracle_term = 2.5e-9;    /* one product in long double, along memory */
static const double oracle_column = 6e-9;    /* the same, down a column of W */
static const double random_number = 4e-8;    /* one normal number */
static const double library_share = 0.75;    /* of the BLAS product's rate, for projection and attention */
static const double call_overhead = 3e-5;    /* of one library call */
static const double long_run = 1.2;          /* longer library runs are timed once, */
static const double half_long_run = 0.4;     /* longer ones than this twice */
static const double short_cell = 3;          /* of all engines */
static const double warm_up_limit = 0.05;    /* longer runs need no warm-up but the check */
static const double library_reading = 5e9;   /* bytes/s of K and V */
static const double reading_window = 0.03;   /* the reading ceiling: its windows, */
static const double reading_rate = 1e9;      /* bytes of its memory made and read several times */
static const double memory_per_second = 5e8; /* elements poisoned and compared on the way */

/* Rows of attention that are checked: fewer where a row is dear. */
static int64_t oracle_rows(const sweep_cell *cell) {
    double rows = 0.02 / (cell->row_terms * oracle_term);
    return rows < 3 ? 3 : rows > 12 ? 12 : (int64_t)rows;
}

/* GFLOP/s of the projection loops at a d_model, up to 4096: the best of a few short runs. The textbook loops go down
 * the columns of W and are ten times slower where that is wide. */
static double loop_gflops(engine_id id, int64_t d_model) {
    enum { tries = 10 };
    const int64_t widest = 4096, work = 524288;
    const double long_enough = 0.02;
    int64_t d = d_model < widest ? d_model : widest, rows = work / (d * d) > 2 ? work / (d * d) : 2;
    size_t bytes = (size_t)(2 * rows * d + d * d) * sizeof(float);
    float *x = malloc(bytes);
    double best = 0.1, begin = timing_now();
    if (x)
        memset(x, 0, bytes); /* pages that were never written would all be one */
    for (int i = 0; x && i < tries && (i < 2 || timing_now() - begin < long_enough); i++) {
        double start = timing_now();
        (id == ENGINE_NAIVE ? textbook_project_f32 : cache_ordered_project_f32)(rows, d, d, x, d, x + rows * d, d,
                                                                                x + rows * d + d * d, d);
        best = fmax(best, 1e-9 * 2.0 * (double)(rows * d * d) / (timing_now() - start));
    }
    free(x);
    return best;
}

/* Where the loops of a cell are measured: attention goes along memory, as a narrow projection does. */
static int64_t loops_width(const sweep_cell *cell) {
    return cell->shape ? 256 : cell->d_model;
}

/* The rates of the loops for every cell, measured once for each d_model. */
static void measure_loops(sweep_plan *plan) {
    for (int i = 0; i < plan->count; i++) {
        sweep_cell *cell = &plan->cell[i];
        int j = 0;
        while (loops_width(&plan->cell[j]) != loops_width(cell))
            j++;
        for (int id = 0; id < ENGINE_COUNT; id++)
            if (engine_is_loops((engine_id)id))
                cell->loop_gflops[id] =
                    j < i ? plan->cell[j].loop_gflops[id] : loop_gflops((engine_id)id, loops_width(cell));
    }
}

/* Check and timed runs of one engine whose run takes `run` seconds. */
static double engine_seconds(const sweep_plan *plan, const sweep_cell *cell, engine_id id, double run, double row) {
    double check =
        run + (double)oracle_rows(cell) * cell->row_terms * oracle_term + 4 * cell->elements / memory_per_second;
    bool loops = engine_is_loops(id);
    double timed = fmax(run * (loops ? plan->goal.min_samples : cell->library_samples), plan->goal.floor_seconds);
    return check + timed + (loops ? 8 * row : cell->warm_up ? run : 0);
}

/* True when no cell before this one has made the arrays that it needs. */
static bool first_of_data(const sweep_plan *plan, int i) {
    const sweep_cell *cell = &plan->cell[i];
    for (int j = 0; j < i; j++)
        if (!plan->cell[j].left_out && sweep_cell_same_data(&plan->cell[j], cell))
            return false;
    return true;
}

static double element_bytes(attn_dtype dtype) {
    return dtype == ATTN_F32 ? sizeof(float) : sizeof(double);
}

/* The reading ceiling for the working set of one engine; those of the same size are measured once, which is not known
 * here, so that this is too much rather than too little. */
static double reading_seconds(const sweep_cell *cell) {
    double weights = cell->shape ? 0 : 3 * (double)cell->d_model * (double)cell->d_model;
    double elements = weights + (cell->shape ? 1 : 4) * cell->elements;
    return reading_window + element_bytes(cell->dtype) * elements / reading_rate;
}

/* Everything that is made before the engines run. */
static double setup_seconds(const sweep_plan *plan, int i, double library) {
    const sweep_cell *cell = &plan->cell[i];
    double d = (double)cell->d_model, seconds = reading_seconds(cell);
    if (cell->shape)
        return seconds + cell->elements * random_number;
    seconds += library / 2 + 9 * d * d * oracle_column;
    /* W is made for the first length of a d_model and serves all of them; so are the rows of X. */
    if (!cell->left_out && first_of_data(plan, i))
        seconds += (3 * d * d + cell->elements / (double)cell->len * (double)plan->len.item[plan->len.count - 1]) *
                   random_number;
    return seconds;
}

/* One run of the library's engines: products, or for few queries the reading of K and V. */
static double library_seconds(const sweep_cell *cell, const peaks *ceilings) {
    double rate = 1e9 * library_share * fmax(peaks_blas(&ceilings->all[cell->dtype]), 0.1);
    return fmax(cell->flops / rate, cell->kv_bytes / library_reading) + call_overhead;
}

static void estimate(sweep_plan *plan, const peaks *ceilings) {
    for (int i = 0; i < plan->count; i++) {
        sweep_cell *cell = &plan->cell[i];
        double library = library_seconds(cell, &ceilings[cell->ceilings]);
        cell->library_samples = library > long_run ? 1 : library > half_long_run ? 2 : plan->goal.min_samples;
        if (cell->library_samples > plan->goal.min_samples)
            cell->library_samples = plan->goal.min_samples;
        cell->warm_up = library < warm_up_limit;
        cell->setup = setup_seconds(plan, i, library);
        for (int id = 0; id < ENGINE_COUNT; id++) {
            if (!(plan->engines & ENGINE_BIT(id)))
                continue;
            double run = library, row = 0;
            if (engine_is_loops((engine_id)id)) {
                run = 1e-9 * cell->flops / (cell->loop_gflops[id] * cell->threads);
                row = run / fmax((double)cell->len, 1);
                if (run > plan->loop_seconds)
                    run = fmax(plan->loop_seconds, 4 * row);
            }
            cell->engine[id] = engine_seconds(plan, cell, (engine_id)id, run, row);
        }
    }
}

double sweep_cell_seconds(const sweep_cell *cell) {
    double seconds = cell->setup + cell->extra_seconds;
    for (int id = 0; id < ENGINE_COUNT; id++)
        seconds += cell->engine[id];
    return seconds;
}

/* ---- The choice -------------------------------------------------------------------------------------------------- */

/* From generous to hasty. */
static const struct {
    double floor_seconds;
    int min_samples;
    double loop_seconds;
} levels[] = {{0.4, 7, 0.5},   {0.25, 5, 0.3},  {0.15, 3, 0.2},  {0.08, 3, 0.1},
              {0.06, 2, 0.06}, {0.03, 2, 0.03}, {0.005, 1, 0.01}};
#define LEVELS (int)(sizeof levels / sizeof *levels)
#define THOROUGH_LEVELS 5 /* those that are tried before cells are left out */
#define REPEATED_LEVELS 4 /* those with RESULT_FEWEST_REPEATS */

/* Lengths in between, which a hasty sweep can do without: every second one of the list. */
static bool in_between(const sweep_plan *plan, const sweep_cell *cell) {
    for (int i = 1; i < plan->len.count && !cell->shape; i += 2)
        if (plan->len.item[i] == cell->len)
            return true;
    return false;
}

static double total_seconds(const sweep_plan *plan) {
    double sum = 0;
    for (int i = 0; i < plan->count; i++)
        if (!plan->cell[i].left_out)
            sum += sweep_cell_seconds(&plan->cell[i]);
    return sum;
}

/* The first of the first `count` levels with which the cells fit; false, at the last of them, when none does. */
static bool fit_levels(sweep_plan *plan, const peaks *ceilings, double allowed, int count) {
    for (int i = 0; i < count; i++) {
        plan->goal = (timing_goal){.floor_seconds = levels[i].floor_seconds,
                                   .min_samples = levels[i].min_samples,
                                   .max_samples = TIMING_MAX_SAMPLES};
        plan->loop_seconds = levels[i].loop_seconds;
        estimate(plan, ceilings);
        plan->seconds = total_seconds(plan);
        if (plan->seconds <= allowed)
            return true;
    }
    return false;
}

static void leave_out_largest(sweep_plan *plan) {
    sweep_cell *largest = NULL;
    for (int i = 0; i < plan->count; i++)
        if (!plan->cell[i].left_out && (!largest || plan->cell[i].flops > largest->flops))
            largest = &plan->cell[i];
    largest->left_out = true;
}

int sweep_plan_cells(const sweep_plan *plan) {
    int n = 0;
    for (int i = 0; i < plan->count; i++)
        n += !plan->cell[i].left_out;
    return n;
}

void sweep_plan_fit(sweep_plan *plan, const peaks *ceilings, double used) {
    measure_loops(plan);
    double allowed = plan->budget - used;
    if (fit_levels(plan, ceilings, allowed, THOROUGH_LEVELS))
        return;
    if (plan->dtypes == (1u << ATTN_F32 | 1u << ATTN_F64)) {
        for (int i = 0; i < plan->count; i++)
            plan->cell[i].left_out |= plan->cell[i].dtype == ATTN_F64;
        if (fit_levels(plan, ceilings, allowed, THOROUGH_LEVELS))
            return;
    }
    for (int i = 0; i < plan->count; i++)
        plan->cell[i].left_out |= in_between(plan, &plan->cell[i]);
    /* A grid shows its curves even in figures of one run; shapes stand for themselves, fewer of them are better than
     * figures that say nothing. One short cell is run whatever the budget says. */
    int hasty = plan->shapes.count > 0 ? REPEATED_LEVELS : LEVELS;
    while (!fit_levels(plan, ceilings, allowed, hasty) && (sweep_plan_cells(plan) > 1 || plan->seconds > short_cell))
        leave_out_largest(plan);
}

measure_settings sweep_cell_settings(const sweep_plan *plan, const sweep_cell *cell, engine_id id, uint64_t seed) {
    measure_settings s = {
        .goal = plan->goal, .loop_seconds = plan->loop_seconds, .oracle_rows = oracle_rows(cell), .seed = seed};
    s.goal.enough = interrupt_requested;
    if (!engine_is_loops(id)) {
        s.goal.min_samples = cell->library_samples;
        s.goal.warm_up = cell->warm_up;
    }
    return s;
}
