/* Called inside the caller's OpenMP region: on that thread, with the same bits, each thread's settings kept. Compiled
 * with OpenMP whether libattn is or not. */
#include <omp.h>

#include "blas_test.h"

static call_results wanted;
static int threads_at_start;

static int set_up(void **state) {
    (void)state;
    assert_library_meant();
    threads_at_start = library_threads();
    call_results_make(&wanted);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    call_results_free(&wanted);
    library_set_threads(threads_at_start);
    return 0;
}

/* cmocka's assertions do not work off the main thread: what is wrong is collected. */
typedef struct findings {
    const char *wrong;
    int lost_settings;
} findings;

/* One thread of a region: its own setting, then all calls, with own threads and with a callback on offer. */
static void call_inside(int setting, findings *found) {
    const bool own_setting = library_threads_belong_to_thread();
    omp_set_num_threads(setting);
    watch_own_thread(true);
    for_each_call(dtype, call) {
        const attn_context contexts[] = {context_of(4, NULL), context_of(4, pthread_workers)};
        for (int i = 0; i < 2; i++) {
            const char *wrong = call_check(dtype, call, &contexts[i], &wanted);
            int lost = omp_get_max_threads() != setting || (own_setting && library_threads() != setting);
#pragma omp critical
            {
                found->wrong = wrong != NULL ? wrong : found->wrong;
                found->lost_settings += lost;
            }
        }
    }
    watch_own_thread(false);
}

/* region() runs call_inside() on threads that exist already, but for those that OpenMP starts anew for every region. */
static void check_region(void (*region)(findings *found), int new_threads) {
    library_set_threads(3);
    int openmp_before = omp_get_max_threads(), blas_before = library_threads();
    findings warm_up = {0}, found = {0};
    region(&warm_up);
    watch_begin(count_tasks() + new_threads);
    region(&found);
    watch_report seen = watch_end();
    assert_null(warm_up.wrong);
    assert_null(found.wrong);
    assert_int_equal(warm_up.lost_settings + found.lost_settings, 0);
    assert_true(seen.products > 0);
    assert_int_equal(seen.many_threads, 0);
    assert_int_equal(seen.foreign, 0);
    assert_int_equal(seen.too_many_tasks, 0);
    assert_int_equal(omp_get_max_threads(), openmp_before);
    assert_int_equal(library_threads(), blas_before);
}

static void three_threads(findings *found) {
#pragma omp parallel num_threads(3)
    call_inside(1 + omp_get_thread_num(), found);
}

static void one_thread(findings *found) {
#pragma omp parallel num_threads(1)
    call_inside(3, found);
}

static void nested(findings *found) {
    int levels = omp_get_max_active_levels();
    omp_set_max_active_levels(2);
#pragma omp parallel num_threads(2)
#pragma omp parallel num_threads(2)
    call_inside(2, found);
    omp_set_max_active_levels(levels);
}

static void single_of_two(findings *found) {
#pragma omp parallel num_threads(2)
#pragma omp single
    call_inside(2, found);
}

static void test_region_of_three_threads(void **state) {
    (void)state;
    check_region(three_threads, 0);
}

static void test_region_of_one_thread(void **state) {
    (void)state;
    check_region(one_thread, 0);
}

static void test_nested_regions(void **state) {
    (void)state;
    check_region(nested, 2);
}

static void test_single_thread_of_a_region(void **state) {
    (void)state;
    check_region(single_of_two, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_region_of_three_threads),
        cmocka_unit_test(test_region_of_one_thread),
        cmocka_unit_test(test_nested_regions),
        cmocka_unit_test(test_single_thread_of_a_region),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
