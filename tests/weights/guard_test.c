/* LAPACK under the BLAS guard, with each flavour of the library: one thread whatever the caller chose, the caller's
 * setting back on every path, the same bits, in a forked child too; a fork waits for LAPACK. */
#include <pthread.h>
#include <sched.h>
#include <time.h>

#include "blas/library.h"
#include "support/child.h"
#include "weights_test.h"

enum { SIDE = 150, HEADS = 4, DIM = 16, RANK = 5, OUTPUTS = 3 };

/* The outputs of all calls that use LAPACK. */
typedef struct results {
    real *output[OUTPUTS];
} results;

static const int64_t elements[OUTPUTS] = {SIDE * SIDE, SIDE, SIDE *HEADS *RANK};

static results alloc_results(void) {
    results r;
    for (int i = 0; i < OUTPUTS; i++)
        r.output[i] = poisoned(elements[i]);
    return r;
}

static void free_results(results *r) {
    for (int i = 0; i < OUTPUTS; i++)
        free(r->output[i]);
}

static real *weights;
static real *other_factor;

static attn_status make(int call, const attn_context *context, real *output) {
    attn_low_rank p = ATTN_LOW_RANK_INIT;
    p.q_heads = p.kv_heads = HEADS;
    p.d_model = p.d_context = SIDE;
    p.head_dim = DIM;
    p.rank = RANK;
    p.w_q_row = p.w_k_row = HEADS * DIM;
    p.a_row = p.b_row = HEADS * RANK;
    switch (call) {
    case 0:
        return REAL(attn_orthogonal)(context, SIDE, SIDE, 1, 1, 1, output, SIDE);
    case 1:
        return REAL(attn_spectrum)(context, SIDE, SIDE, weights, SIDE, output, NULL);
    default:
        return REAL(attn_low_rank)(context, &p, weights, weights + SIDE * HEADS * DIM, output, other_factor, NULL,
                                   NULL);
    }
}

static int lapack_calls, on_many_threads;

static void look_at_threads(void) {
    __atomic_add_fetch(&lapack_calls, 1, __ATOMIC_RELAXED);
    __atomic_add_fetch(&on_many_threads, !library_would_use_one_thread(), __ATOMIC_RELAXED);
}

/* The hook sees what it is there for: outside the guard the caller's threads count. */
static void test_watch_sees_many_threads(void **state) {
    (void)state;
    if (!library_has_threads())
        skip();
    int before = library_threads();
    library_set_threads(3);
    on_many_threads = 0;
    look_at_threads();
    assert_int_equal(on_many_threads, 1);
    library_set_threads(before);
}

static void test_one_thread_and_the_same_bits(void **state) {
    (void)state;
    int before = library_threads();
    results wanted = alloc_results(), got = alloc_results();
    library_set_threads(1);
    for (int call = 0; call < OUTPUTS; call++)
        assert_ok(make(call, NULL, wanted.output[call]));
    for (int blas_threads = 1; blas_threads <= 3; blas_threads++)
        for (int threads = 0; threads <= 4; threads++)
            for (int call = 0; call < OUTPUTS; call++) {
                const attn_context context = threads_context(threads);
                library_set_threads(blas_threads);
                int setting = library_threads();
                lapack_calls = on_many_threads = 0;
                assert_ok(make(call, &context, got.output[call]));
                assert_true(lapack_calls > 0);
                assert_int_equal(on_many_threads, 0);
                assert_int_equal(library_threads(), setting);
                assert_same_bits(wanted.output[call], got.output[call], elements[call]);
            }
    library_set_threads(before);
    free_results(&wanted);
    free_results(&got);
}

static void test_setting_is_back_after_failures(void **state) {
    (void)state;
    static const char *const failing[OUTPUTS] = {"orgqr", "gesdd", "ormqr"};
    int before = library_threads();
    results got = alloc_results();
    library_set_threads(3);
    int setting = library_threads();
    for (int call = 0; call < OUTPUTS; call++) {
        trap_lapacke(failing[call], 0, 1);
        assert_int_equal(make(call, NULL, got.output[call]), ATTN_ERR_LAPACK);
        assert_int_equal(library_threads(), setting);
        assert_untouched(got.output[call], elements[call]);
    }
    trap_lapacke(NULL, 0, 0);
    library_set_threads(before);
    free_results(&got);
}

/* ---- Forks ------------------------------------------------------------------------------------------------------- */

static int in_lapack;

static void stay_in_lapack(void) {
    const struct timespec long_enough_to_fork = {.tv_nsec = 100 * 1000 * 1000};
    __atomic_store_n(&in_lapack, 1, __ATOMIC_RELEASE);
    nanosleep(&long_enough_to_fork, NULL);
    __atomic_store_n(&in_lapack, 0, __ATOMIC_RELEASE);
}

static void *make_one_spectrum(void *data) {
    attn_status *status = data;
    real *s = poisoned(elements[1]);
    *status = make(1, NULL, s);
    free(s);
    return NULL;
}

/* A child of a process whose other thread is in LAPACK makes everything, with the bits of its parent. */
static int in_child(void *argument) {
    const results *wanted = argument;
    const attn_context context = threads_context(4);
    if (__atomic_load_n(&in_lapack, __ATOMIC_ACQUIRE))
        return 1;
    trap_set_hook(NULL);
    for (int call = 0; call < OUTPUTS; call++) {
        real *output = malloc((size_t)elements[call] * sizeof *output);
        if (output == NULL || make(call, &context, output) != ATTN_OK ||
            memcmp(output, wanted->output[call], (size_t)elements[call] * sizeof *output) != 0)
            return 2 + call;
        free(output);
    }
    return 0;
}

static void test_forks(void **state) {
    (void)state;
    pthread_t thread;
    attn_status of_thread = ATTN_ERR_NOMEM;
    results wanted = alloc_results();
    for (int call = 0; call < OUTPUTS; call++)
        assert_ok(make(call, NULL, wanted.output[call]));
    trap_set_hook(stay_in_lapack);
    assert_int_equal(pthread_create(&thread, NULL, make_one_spectrum, &of_thread), 0);
    while (!__atomic_load_n(&in_lapack, __ATOMIC_ACQUIRE))
        sched_yield();
    int status = support_in_child(in_child, &wanted);
    assert_int_equal(pthread_join(thread, NULL), 0);
    trap_set_hook(look_at_threads);
    assert_int_equal(of_thread, ATTN_OK);
    assert_int_equal(status, 0);
    free_results(&wanted);
}

static int set_up(void **state) {
    (void)state;
    weights = random_numbers(larger(SIDE * SIDE, 2 * SIDE * HEADS * DIM), 1);
    other_factor = poisoned(elements[2]);
    trap_set_hook(look_at_threads);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    free(weights);
    free(other_factor);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_watch_sees_many_threads),
        cmocka_unit_test(test_one_thread_and_the_same_bits),
        cmocka_unit_test(test_setting_is_back_after_failures),
        cmocka_unit_test(test_forks),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
