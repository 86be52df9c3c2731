/* No product runs on more than one BLAS thread, whatever starts the workers and whatever the caller told BLAS. */
#include "blas_test.h"

static call_results wanted;

static int set_up(void **state) {
    (void)state;
    assert_library_meant();
    call_results_make(&wanted);
    /* the first thread may bring helpers, of a sanitizer for example */
    const attn_context context = context_of(2, pthread_workers);
    assert_null(call_check(ATTN_F32, CALL_SCORES, &context, &wanted));
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    call_results_free(&wanted);
    return 0;
}

/* The watch works: without libattn's guard the caller's number of threads shows. */
static void test_watch_sees_many_threads(void **state) {
    (void)state;
    if (!library_has_threads())
        skip();
    int before = library_threads();
    library_set_threads(3);
    assert_false(library_would_use_one_thread());
    library_set_threads(1);
    assert_true(library_would_use_one_thread());
    library_set_threads(before);
}

/* All calls with `threads` workers while BLAS is set to `blas_threads`. Tasks: those there before, and the workers. */
static void check_calls(int threads, attn_parallel_fn parallel_for, int blas_threads) {
    const attn_context context = context_of(threads, parallel_for);
    library_set_threads(blas_threads);
    for_each_call(dtype, call) {
        int tasks = count_tasks();
        watch_begin(tasks + threads - 1);
        assert_call_right(dtype, call, call_check(dtype, call, &context, &wanted));
        watch_report seen = watch_end();
        if (seen.many_threads > 0 || seen.too_many_tasks > 0 || seen.bad_arguments > 0)
            fail_msg("%s, %d workers, BLAS set to %d: of %d products %d on many threads and %d with new tasks, XERBLA "
                     "called %d times",
                     call_name(dtype, call), threads, blas_threads, seen.products, seen.many_threads,
                     seen.too_many_tasks, seen.bad_arguments);
        if (seen.products == 0 && call != CALL_SDPA_NAIVE)
            fail_msg("%s made no product that was watched", call_name(dtype, call));
    }
}

static void check_worker_counts(attn_parallel_fn parallel_for) {
    int before = library_threads();
    for (int blas_threads = 1; blas_threads <= 3; blas_threads++)
        for (int threads = 1; threads <= 4; threads *= 2)
            check_calls(threads, parallel_for, blas_threads);
    library_set_threads(before);
}

static void test_own_threads(void **state) {
    (void)state;
    check_worker_counts(NULL);
}

static void test_threads_of_the_program(void **state) {
    (void)state;
    check_worker_counts(pthread_workers);
}

/* Default context: as many workers as OpenMP says. */
static void test_default_context(void **state) {
    (void)state;
    int before = library_threads();
    library_set_threads(3);
    for_each_call(dtype, call) {
        watch_begin(WATCH_ANY_TASKS);
        assert_call_right(dtype, call, call_check(dtype, call, NULL, &wanted));
        assert_int_equal(watch_end().many_threads, 0);
        assert_int_equal(watch_end().bad_arguments, 0);
    }
    library_set_threads(before);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_watch_sees_many_threads),
        cmocka_unit_test(test_own_threads),
        cmocka_unit_test(test_threads_of_the_program),
        cmocka_unit_test(test_default_context),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
