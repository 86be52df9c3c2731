/* Same bits for any number of threads, any way of running them and any batch; many callers at once. */
#include "chain_test.h"

#include <limits.h>
#include <pthread.h>

/* Sizes over the edges of all blocks: every stage has several, products in rows and columns, at little work. */
enum { BATCH = 2, ROWS = 530, D_MODEL = 67, D = 5, OUT = 530, KEYS = 523, V_DIM = 7 };

typedef struct inputs {
    int64_t ids[ROWS];
    real *table, *x, *w, *bias, *q, *k, *v;
} inputs;

/* Everything that the stages make of the inputs. */
typedef struct outputs {
    real *e, *p, *sum, *y, *s, *a, *z;
} outputs;

static inputs inputs_create(void) {
    inputs in;
    for (int r = 0; r < ROWS; r++)
        in.ids[r] = r * 31 % ROWS;
    in.table = random_numbers(ROWS * D_MODEL, 1);
    in.x = random_numbers(BATCH * ROWS * D, 2);
    in.w = random_numbers(D * OUT, 3);
    in.bias = random_numbers(OUT, 4);
    in.q = random_numbers(ROWS * D, 5);
    in.k = random_numbers(KEYS * D, 6);
    in.v = random_numbers(KEYS * V_DIM, 7);
    return in;
}

static void inputs_free(inputs *in) {
    real *all[] = {in->table, in->x, in->w, in->bias, in->q, in->k, in->v};
    for (int i = 0; i < 7; i++)
        free(all[i]);
}

static void outputs_free(outputs *out) {
    real *all[] = {out->e, out->p, out->sum, out->y, out->s, out->a, out->z};
    for (int i = 0; i < 7; i++)
        free(all[i]);
}

static outputs run_stages(const attn_context *context, const inputs *in) {
    outputs out = {.e = poisoned(ROWS * D_MODEL),
                   .p = poisoned(ROWS * OUT),
                   .sum = poisoned(ROWS * D_MODEL),
                   .y = poisoned(BATCH * ROWS * OUT),
                   .s = poisoned(ROWS * KEYS),
                   .a = poisoned(ROWS * KEYS),
                   .z = poisoned(ROWS * V_DIM)};
    assert_ok(REAL(attn_embed)(context, ROWS, ROWS, D_MODEL, in->ids, in->table, D_MODEL, out.e, D_MODEL));
    assert_ok(REAL(attn_sinusoidal)(context, ROWS, OUT, 0, 10000, out.p, OUT));
    assert_ok(REAL(attn_add)(context, ROWS, D_MODEL, out.e, D_MODEL, in->table, D_MODEL, out.sum, D_MODEL));
    assert_ok(REAL(attn_project)(context, BATCH, ROWS, D, OUT, in->x, ROWS * D, D, in->w, OUT, in->bias, out.y,
                                 ROWS * OUT, OUT));
    assert_ok(REAL(attn_scores)(context, ROWS, KEYS, D, in->q, D, in->k, D, 0.125, out.s, KEYS));
    assert_ok(REAL(attn_softmax)(context, ROWS, KEYS, out.s, KEYS, out.a, KEYS));
    assert_ok(REAL(attn_combine)(context, ROWS, KEYS, V_DIM, out.a, KEYS, in->v, V_DIM, out.z, V_DIM));
    return out;
}

static void assert_same_outputs(const outputs *a, const outputs *b) {
    assert_same_bits(a->e, b->e, ROWS * D_MODEL);
    assert_same_bits(a->p, b->p, ROWS * OUT);
    assert_same_bits(a->sum, b->sum, ROWS * D_MODEL);
    assert_same_bits(a->y, b->y, BATCH * ROWS * OUT);
    assert_same_bits(a->s, b->s, ROWS * KEYS);
    assert_same_bits(a->a, b->a, ROWS * KEYS);
    assert_same_bits(a->z, b->z, ROWS * V_DIM);
    for (int i = 0; i < ROWS * V_DIM; i++)
        assert_true(b->z[i] == b->z[i]);
}

static void test_any_number_of_threads(void **state) {
    (void)state;
    inputs in = inputs_create();
    attn_context one = threads_context(1);
    outputs wanted = run_stages(&one, &in);
    static const int threads[] = {0, 2, 4, 64};
    for (int i = 0; i < 4; i++) {
        attn_context context = threads_context(threads[i]);
        outputs got = run_stages(&context, &in);
        assert_same_outputs(&got, &wanted);
        outputs_free(&got);
    }
    outputs_free(&wanted);
    inputs_free(&in);
}

/* A long sum shows more of the order it was made in. */
static void test_long_products(void **state) {
    (void)state;
    enum { M = 571, K = 127, N = 521 };
    real *a = random_numbers(M * K, 1), *b = random_numbers(K * N, 2), *wanted = poisoned(M * N),
         *got = poisoned(M * N);
    const attn_context one = threads_context(1), two = threads_context(2), many = threads_context(16);
    assert_ok(REAL(attn_combine)(&one, M, K, N, a, K, b, N, wanted, N));
    assert_ok(REAL(attn_combine)(&two, M, K, N, a, K, b, N, got, N));
    assert_same_bits(got, wanted, M * N);
    assert_ok(REAL(attn_project)(&one, 1, M, K, N, a, 0, K, b, N, NULL, wanted, 0, N));
    assert_ok(REAL(attn_project)(&many, 1, M, K, N, a, 0, K, b, N, NULL, got, 0, N));
    assert_same_bits(got, wanted, M * N);
    free(a);
    free(b);
    free(wanted);
    free(got);
}

/* ---- The caller's own threads ------------------------------------------------------------------------------------ */

typedef struct parallel_record {
    int calls, most_workers, failure;
} parallel_record;

/* One worker after the other, the last one first. */
static int run_backwards(void *data, int workers, attn_parallel_body body, void *argument) {
    parallel_record *record = data;
    record->calls++;
    record->most_workers = workers > record->most_workers ? workers : record->most_workers;
    for (int worker = workers - 1; worker >= 0; worker--)
        body(argument, worker);
    return record->failure;
}

typedef struct pthread_job {
    attn_parallel_body body;
    void *argument;
    int worker;
} pthread_job;

static void *run_pthread_job(void *data) {
    pthread_job *job = data;
    job->body(job->argument, job->worker);
    return NULL;
}

static int run_on_pthreads(void *data, int workers, attn_parallel_body body, void *argument) {
    pthread_t threads[8];
    pthread_job jobs[8];
    parallel_record *record = data;
    record->calls++;
    if (workers > 8)
        return 1;
    for (int w = 0; w < workers; w++) {
        jobs[w] = (pthread_job){body, argument, w};
        if (pthread_create(&threads[w], NULL, run_pthread_job, &jobs[w]) != 0)
            return 2;
    }
    for (int w = 0; w < workers; w++)
        pthread_join(threads[w], NULL);
    return 0;
}

static void test_parallel_for_of_the_caller(void **state) {
    (void)state;
    inputs in = inputs_create();
    attn_context one = threads_context(1);
    outputs wanted = run_stages(&one, &in);
    const attn_parallel_fn ways[] = {run_backwards, run_on_pthreads};
    for (int way = 0; way < 2; way++) {
        parallel_record record = {0};
        attn_context context = threads_context(4);
        context.parallel_for = ways[way];
        context.parallel_data = &record;
        outputs got = run_stages(&context, &in);
        assert_same_outputs(&got, &wanted);
        assert_int_equal(record.calls, 7);
        outputs_free(&got);
    }
    outputs_free(&wanted);
    inputs_free(&in);
}

/* No more workers than there are blocks, none at all for a single block or for little work. */
static void test_small_work_starts_no_threads(void **state) {
    (void)state;
    parallel_record record = {0};
    attn_context context = threads_context(64);
    context.parallel_for = run_backwards;
    context.parallel_data = &record;
    enum { SMALL = 16, LARGE = 1040, INNER = 8 };
    real *x = random_numbers(LARGE * LARGE, 1), *y = poisoned(LARGE * LARGE);
    assert_ok(REAL(attn_project)(&context, 1, SMALL, SMALL, SMALL, x, 0, SMALL, x, SMALL, NULL, y, 0, SMALL));
    assert_ok(REAL(attn_project)(&context, SMALL, 1, SMALL, SMALL, x, SMALL, SMALL, x, SMALL, NULL, y, SMALL, SMALL));
    assert_ok(REAL(attn_softmax)(&context, SMALL, SMALL, x, SMALL, y, SMALL));
    assert_ok(REAL(attn_sinusoidal)(&context, 1, 2000, 0, 10000, y, 2000));
    assert_int_equal(record.calls, 0);
    assert_ok(REAL(attn_scores)(&context, LARGE, LARGE, INNER, x, INNER, x, INNER, 1, y, LARGE));
    assert_int_equal(record.calls, 1);
    assert_int_equal(record.most_workers, 6); /* 2 blocks of rows, 3 of columns */
    free(x);
    free(y);
}

/* Memory follows the work, not the threads that a caller grants. */
static void test_threads_without_number(void **state) {
    (void)state;
    enum { M = 101, K = 131, N = 97 };
    parallel_record record = {0};
    attn_context context = threads_context(INT_MAX);
    context.parallel_for = run_backwards;
    context.parallel_data = &record;
    real *x = random_numbers(M * K, 1), *w = random_numbers(K * N, 2);
    real *wanted = poisoned(M * N), *got = poisoned(M * N);
    assert_ok(REAL(attn_project)(NULL, 1, M, K, N, x, 0, K, w, N, NULL, wanted, 0, N));
    assert_ok(REAL(attn_project)(&context, 1, M, K, N, x, 0, K, w, N, NULL, got, 0, N));
    assert_same_bits(got, wanted, M * N);
    free(x);
    free(w);
    free(wanted);
    free(got);
}

static void test_parallel_for_that_fails(void **state) {
    (void)state;
    parallel_record record = {.failure = 7};
    attn_context context = threads_context(2);
    context.parallel_for = run_backwards;
    context.parallel_data = &record;
    real *y = poisoned(1024 * 64);
    assert_refused(ATTN_ERR_THREADS, "context: parallel_for returned 7",
                   REAL(attn_sinusoidal)(&context, 1024, 64, 0, 10000, y, 64));
    free(y);
}

/* ---- Batches ----------------------------------------------------------------------------------------------------- */

/* A member's bits do not depend on its place in the batch or on its mates. */
static void test_batch_composition(void **state) {
    (void)state;
    enum { MEMBERS = 5, LEN = 301, SIZE = 71, WIDTH = 67 };
    real *x = random_numbers(MEMBERS * LEN * SIZE, 1), *w = random_numbers(SIZE * WIDTH, 2);
    real *all = poisoned(MEMBERS * LEN * WIDTH), *one = poisoned(LEN * WIDTH);
    assert_ok(REAL(attn_project)(NULL, MEMBERS, LEN, SIZE, WIDTH, x, LEN * SIZE, SIZE, w, WIDTH, NULL, all, LEN * WIDTH,
                                 WIDTH));
    for (int b = 0; b < MEMBERS; b++) {
        assert_ok(
            REAL(attn_project)(NULL, 1, LEN, SIZE, WIDTH, x + b * LEN * SIZE, 0, SIZE, w, WIDTH, NULL, one, 0, WIDTH));
        assert_same_bits(one, all + b * LEN * WIDTH, LEN * WIDTH);
    }
    free(x);
    free(w);
    free(all);
    free(one);
}

/* ---- Callers ----------------------------------------------------------------------------------------------------- */

enum { CALLERS = 8, CALLS = 2 };

typedef struct caller {
    pthread_t thread;
    const inputs *in;
    int threads;
    outputs out[CALLS];
} caller;

static void *call_repeatedly(void *data) {
    caller *me = data;
    attn_context context = threads_context(me->threads);
    for (int i = 0; i < CALLS; i++)
        me->out[i] = run_stages(&context, me->in);
    return NULL;
}

static void test_many_callers_at_once(void **state) {
    (void)state;
    inputs in = inputs_create();
    attn_context one = threads_context(1);
    outputs wanted = run_stages(&one, &in);
    caller callers[CALLERS];
    for (int c = 0; c < CALLERS; c++) {
        callers[c] = (caller){.in = &in, .threads = 1 + c % 2};
        assert_int_equal(pthread_create(&callers[c].thread, NULL, call_repeatedly, &callers[c]), 0);
    }
    for (int c = 0; c < CALLERS; c++) {
        assert_int_equal(pthread_join(callers[c].thread, NULL), 0);
        for (int i = 0; i < CALLS; i++) {
            assert_same_outputs(&callers[c].out[i], &wanted);
            outputs_free(&callers[c].out[i]);
        }
    }
    outputs_free(&wanted);
    inputs_free(&in);
}

/* Each thread has its own sentence. */
static void *fail_once(void *data) {
    (void)data;
    return REAL(attn_softmax)(NULL, -3, 1, NULL, 1, NULL, 1) == ATTN_ERR_SIZE &&
                   strcmp(attn_last_error(), "rows -3 is below 0") == 0
               ? NULL
               : (void *)"wrong status or sentence";
}

static void test_sentences_belong_to_threads(void **state) {
    (void)state;
    assert_refused(ATTN_ERR_SIZE, "cols -2 is below 0", REAL(attn_softmax)(NULL, 1, -2, NULL, 1, NULL, 1));
    pthread_t thread;
    void *result;
    assert_int_equal(pthread_create(&thread, NULL, fail_once, NULL), 0);
    assert_int_equal(pthread_join(thread, &result), 0);
    assert_null(result);
    assert_string_equal(attn_last_error(), "cols -2 is below 0");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_any_number_of_threads),       cmocka_unit_test(test_long_products),
        cmocka_unit_test(test_parallel_for_of_the_caller),  cmocka_unit_test(test_small_work_starts_no_threads),
        cmocka_unit_test(test_threads_without_number),      cmocka_unit_test(test_parallel_for_that_fails),
        cmocka_unit_test(test_batch_composition),           cmocka_unit_test(test_many_callers_at_once),
        cmocka_unit_test(test_sentences_belong_to_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
