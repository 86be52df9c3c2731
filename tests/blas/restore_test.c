/* The caller's BLAS and OpenMP settings are back after every call, whichever way it ends and however many run. */
#include <pthread.h>

#include "blas_test.h"

static call_results wanted;
static void *output;
static int threads_at_start;

static int set_up(void **state) {
    size_t most = 0;
    (void)state;
    assert_library_meant();
    threads_at_start = library_threads();
    call_results_make(&wanted);
    for_each_call(dtype, call) {
        size_t bytes = call_output_bytes(dtype, call);
        most = bytes > most ? bytes : most;
    }
    output = malloc(most);
    assert_non_null(output);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    free(output);
    call_results_free(&wanted);
    library_set_threads(threads_at_start);
    return 0;
}

/* ---- One caller -------------------------------------------------------------------------------------------------- */

typedef struct settings {
    int blas, openmp;
} settings;

static settings settings_now(void) {
    return (settings){library_threads(), openmp_max_threads()};
}

static void assert_settings(settings before, attn_dtype dtype, product_call call, const char *path) {
    settings after = settings_now();
    if (after.blas != before.blas || after.openmp != before.openmp)
        fail_msg("%s, %s: BLAS threads %d became %d, OpenMP threads %d became %d", call_name(dtype, call), path,
                 before.blas, after.blas, before.openmp, after.openmp);
}

static void *no_memory(void *data, size_t bytes) {
    (void)data;
    (void)bytes;
    return NULL;
}

static void never_called(void *data, void *memory, size_t bytes) {
    (void)data;
    (void)memory;
    (void)bytes;
    abort();
}

/* Fails before it ran anything, or after it ran everything. */
static int fail_first(void *data, int workers, attn_parallel_body body, void *argument) {
    (void)data;
    (void)workers;
    (void)body;
    (void)argument;
    return 1;
}

static int fail_last(void *data, int workers, attn_parallel_body body, void *argument) {
    return pthread_workers(data, workers, body, argument) + 1;
}

static void check_paths(int blas_threads) {
    library_set_threads(blas_threads);
    const settings before = settings_now();
    attn_context without_memory = context_of(2, NULL);
    without_memory.alloc = no_memory;
    without_memory.free = never_called;
    const attn_context own = context_of(3, NULL), callback = context_of(3, pthread_workers);
    const attn_context failing_first = context_of(2, fail_first), failing_last = context_of(2, fail_last);
    for_each_call(dtype, call) {
        assert_int_equal(call_run(dtype, call, &own, output), ATTN_OK);
        assert_settings(before, dtype, call, "own threads");
        assert_int_equal(call_run(dtype, call, &callback, output), ATTN_OK);
        assert_settings(before, dtype, call, "threads of the program");
        attn_status refused = call_run_refused(dtype, call, &own, output);
        assert_true(refused > ATTN_OK && refused < ATTN_ERR_NOMEM);
        assert_settings(before, dtype, call, "refused argument");
        attn_status status = call_run(dtype, call, &without_memory, output);
        if (call <= CALL_SDPA_NAIVE || call == CALL_TRACE || call == CALL_LAYER)
            assert_int_equal(status, ATTN_ERR_NOMEM); /* the stages allocate nothing */
        assert_settings(before, dtype, call, "no memory");
        assert_int_equal(call_run(dtype, call, &failing_first, output), ATTN_ERR_THREADS);
        assert_settings(before, dtype, call, "parallel_for fails at once");
        assert_int_equal(call_run(dtype, call, &failing_last, output), ATTN_ERR_THREADS);
        assert_settings(before, dtype, call, "parallel_for fails in the end");
    }
}

static void test_every_path(void **state) {
    (void)state;
    for (int blas_threads = 1; blas_threads <= 3; blas_threads++)
        check_paths(blas_threads);
}

/* A number set while a call runs is the caller's wish for afterwards. */
static int set_five_threads(void *data, int workers, attn_parallel_body body, void *argument) {
    library_set_threads(5);
    return pthread_workers(data, workers, body, argument);
}

static void test_setting_made_meanwhile(void **state) {
    (void)state;
    if (!library_has_threads() || library_threads_belong_to_thread())
        skip();
    library_set_threads(2);
    const attn_context context = context_of(2, set_five_threads);
    assert_int_equal(call_run(ATTN_F32, CALL_SCORES, &context, output), ATTN_OK);
    assert_int_equal(library_threads(), 5);
}

/* ---- Many callers ------------------------------------------------------------------------------------------------ */

enum { CALLERS = 8, ROUNDS = 300 };

typedef struct caller {
    pthread_t thread;
    pthread_barrier_t *barrier;
    int number;
    const char *wrong;
    int lost_settings;
} caller;

/* A pair of calls in every round. Where threads have settings of their own, each caller checks its own. */
static void *call_in_rounds(void *data) {
    caller *me = data;
    const bool own_setting = library_threads_belong_to_thread();
    const int mine = 1 + me->number % 3;
    const attn_context context = context_of(me->number < 2 ? 2 : 1, pthread_workers);
    if (own_setting)
        library_set_threads(mine);
    for (int round = 0; round < ROUNDS; round++) {
        attn_dtype dtype = (round + me->number) % 2 == 0 ? ATTN_F32 : ATTN_F64;
        product_call call = me->number % 4 == 0 ? CALL_PROJECT : CALL_SDPA_FUSED;
        pthread_barrier_wait(me->barrier);
        for (int pair = 0; pair < 2; pair++) {
            const char *wrong = call_check(dtype, call, &context, &wanted);
            me->wrong = wrong != NULL ? wrong : me->wrong;
            me->lost_settings += own_setting && library_threads() != mine;
        }
        pthread_barrier_wait(me->barrier);
    }
    return NULL;
}

static void test_many_callers(void **state) {
    (void)state;
    pthread_barrier_t barrier;
    caller callers[CALLERS];
    library_set_threads(3);
    const settings before = settings_now();
    watch_begin(WATCH_ANY_TASKS);
    assert_int_equal(pthread_barrier_init(&barrier, NULL, CALLERS + 1), 0);
    for (int c = 0; c < CALLERS; c++) {
        callers[c] = (caller){.barrier = &barrier, .number = c};
        assert_int_equal(pthread_create(&callers[c].thread, NULL, call_in_rounds, &callers[c]), 0);
    }
    int lost = 0;
    for (int round = 0; round < ROUNDS; round++) {
        pthread_barrier_wait(&barrier);
        pthread_barrier_wait(&barrier);
        lost += library_threads() != before.blas;
        library_set_threads(before.blas);
    }
    for (int c = 0; c < CALLERS; c++) {
        assert_int_equal(pthread_join(callers[c].thread, NULL), 0);
        assert_null(callers[c].wrong);
        lost += callers[c].lost_settings;
    }
    pthread_barrier_destroy(&barrier);
    assert_int_equal(lost, 0);
    assert_int_equal(watch_end().many_threads, 0);
    assert_settings(before, ATTN_F32, CALL_SDPA_FUSED, "many callers");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_path),
        cmocka_unit_test(test_setting_made_meanwhile),
        cmocka_unit_test(test_many_callers),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
