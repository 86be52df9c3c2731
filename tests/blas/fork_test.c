/* In a forked child: the same bits on one thread, no hang, the caller's settings. */
#include <pthread.h>
#include <sched.h>
#include <time.h>

#include "blas_test.h"
#include "child.h"

/* A child of a process with threads may start some too: OpenBLAS does, for later use, when its number is set. */
const char *__tsan_default_options(void);
__attribute__((visibility("default"))) const char *__tsan_default_options(void) {
    return "die_after_fork=0";
}

enum { BLAS_THREADS = 3 };

static call_results wanted;
static int threads_at_start;

static int setting_of_parent(void) {
    return library_has_threads() ? BLAS_THREADS : 1;
}

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

/* ---- The child --------------------------------------------------------------------------------------------------- */

static int complain(attn_dtype dtype, product_call call, const char *wrong) {
    fprintf(stderr, "child: %s: %s\n", call_name(dtype, call), wrong);
    return 1;
}

/* Everything that a child checks; only the forking thread is there, so that it alone may compute. */
static int check_in_child(product_call first, product_call last) {
    const attn_context contexts[] = {context_of(4, NULL), context_of(4, pthread_workers), context_of(0, NULL)};
    /* a setting of the forking thread is what OpenMP makes of it: LLVM's forgets it in the child */
    int setting = library_threads_belong_to_thread() ? library_threads() : setting_of_parent();
    watch_own_thread(true);
    watch_begin(WATCH_ANY_TASKS);
    for (attn_dtype dtype = ATTN_F32; dtype <= ATTN_F64; dtype++)
        for (product_call call = first; call <= last; call++)
            for (int i = 0; i < 3; i++) {
                const char *wrong = call_check(dtype, call, &contexts[i], &wanted);
                if (wrong != NULL)
                    return complain(dtype, call, wrong);
                if (library_threads() != setting)
                    return complain(dtype, call, "the caller's setting is lost");
            }
    watch_report seen = watch_end();
    if (seen.products == 0 || seen.foreign > 0 || seen.many_threads > 0)
        return complain(ATTN_F32, last, "products on more than one thread, or none");
    return 0;
}

/* The calls first .. last. */
typedef struct call_range {
    product_call first, last;
} call_range;

static int check_range(void *argument) {
    const call_range *range = argument;
    return check_in_child(range->first, range->last);
}

static int in_child(product_call first, product_call last) {
    call_range range = {first, last};
    return support_in_child(check_range, &range);
}

/* ---- Tests ------------------------------------------------------------------------------------------------------- */

static void check_calls_here(attn_parallel_fn parallel_for) {
    const attn_context context = context_of(4, parallel_for);
    for_each_call(dtype, call) assert_call_right(dtype, call, call_check(dtype, call, &context, &wanted));
}

static void test_child_of_a_parent_with_threads(void **state) {
    (void)state;
    library_set_threads(BLAS_THREADS);
    check_calls_here(NULL);
    check_calls_here(pthread_workers);
    assert_int_equal(in_child(0, CALL_COUNT - 1), 0);
    check_calls_here(NULL); /* and the parent goes on */
    assert_int_equal(library_threads(), setting_of_parent());
}

typedef struct background {
    pthread_t thread;
    attn_parallel_fn parallel_for;
    int stop;
    const char *wrong;
} background;

static void *call_until_stopped(void *data) {
    background *me = data;
    const attn_context context = context_of(2, me->parallel_for);
    for (int round = 0; !__atomic_load_n(&me->stop, __ATOMIC_ACQUIRE); round++) {
        const char *wrong = call_check(round % 2 == 0 ? ATTN_F32 : ATTN_F64, round % CALL_COUNT, &context, &wanted);
        me->wrong = wrong != NULL ? wrong : me->wrong;
    }
    return NULL;
}

/* A guard of another thread is held at the fork, by turns: the child still ends with the caller's setting. */
static void check_forks_meanwhile(attn_parallel_fn parallel_for, int forks) {
    library_set_threads(BLAS_THREADS);
    background other = {.parallel_for = parallel_for};
    assert_int_equal(pthread_create(&other.thread, NULL, call_until_stopped, &other), 0);
    int code = 0;
    for (int i = 0; i < forks && code == 0; i++) {
        product_call call = i % CALL_COUNT == CALL_SDPA_NAIVE ? CALL_SDPA_BLAS : i % CALL_COUNT;
        code = in_child(call, call);
    }
    __atomic_store_n(&other.stop, 1, __ATOMIC_RELEASE);
    assert_int_equal(pthread_join(other.thread, NULL), 0);
    assert_null(other.wrong);
    assert_int_equal(code, 0);
    assert_int_equal(library_threads(), setting_of_parent());
}

/* The allocator of the address sanitizer does not survive a fork while another thread allocates. */
static void skip_under_address_sanitizer(void) {
#if defined(__SANITIZE_ADDRESS__)
    skip();
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
    skip();
#endif
#endif
}

static void test_fork_while_another_thread_calls(void **state) {
    (void)state;
    skip_under_address_sanitizer();
    check_forks_meanwhile(NULL, 14);
}

static void test_fork_while_workers_of_the_program_run(void **state) {
    (void)state;
    skip_under_address_sanitizer();
    check_forks_meanwhile(pthread_workers, 14);
}

/* A fork waits for the products that run: BLAS may hold a lock in each, which the child would find locked for ever. */
static int in_product;

static void stay_in_product(void) {
    const struct timespec long_enough_to_fork = {.tv_nsec = 100 * 1000 * 1000};
    __atomic_store_n(&in_product, 1, __ATOMIC_RELEASE);
    nanosleep(&long_enough_to_fork, NULL);
    __atomic_store_n(&in_product, 0, __ATOMIC_RELEASE);
}

static void *make_one_call(void *data) {
    const attn_context context = context_of(1, NULL);
    *(const char **)data = call_check(ATTN_F32, CALL_SDPA_BLAS, &context, &wanted);
    return NULL;
}

static int product_runs(void *argument) {
    (void)argument;
    return __atomic_load_n(&in_product, __ATOMIC_ACQUIRE);
}

static void test_fork_waits_for_products(void **state) {
    (void)state;
    pthread_t thread;
    const char *wrong = "not called";
    watch_set_hook(stay_in_product);
    assert_int_equal(pthread_create(&thread, NULL, make_one_call, &wrong), 0);
    while (!__atomic_load_n(&in_product, __ATOMIC_ACQUIRE))
        sched_yield();
    int status = support_in_child(product_runs, NULL);
    assert_int_equal(pthread_join(thread, NULL), 0);
    watch_set_hook(NULL);
    assert_null(wrong);
    assert_int_equal(status, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_child_of_a_parent_with_threads),
        cmocka_unit_test(test_fork_waits_for_products),
        cmocka_unit_test(test_fork_while_another_thread_calls),
        cmocka_unit_test(test_fork_while_workers_of_the_program_run),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
