/* Contexts: what is refused, what is filled in; memory; workers and their tasks. */
#include "base/context.h"

#include "base_test.h"

/* ---- Resolving --------------------------------------------------------------------------------------------------- */

static void *some_alloc(void *data, size_t bytes) {
    size_t *last = data;
    *last = bytes;
    return bytes == 77 ? NULL : malloc(bytes);
}

static void some_free(void *data, void *memory, size_t bytes) {
    size_t *last = data;
    assert_int_equal(bytes, *last);
    free(memory);
}

static void test_defaults(void **state) {
    (void)state;
    attn_resources resources;
    assert_ok(attn_resolve_context(NULL, &resources));
    assert_true(resources.threads >= 1);
    assert_non_null(resources.alloc);
    assert_non_null(resources.free);
    assert_null(resources.parallel_for);
    attn_context context = ATTN_CONTEXT_INIT;
    attn_resources same;
    assert_ok(attn_resolve_context(&context, &same));
    assert_int_equal(same.threads, resources.threads);
    assert_true(same.alloc == resources.alloc && same.free == resources.free);
    context.threads = 5;
    assert_ok(attn_resolve_context(&context, &resources));
    assert_int_equal(resources.threads, 5);
}

static void test_what_is_refused(void **state) {
    (void)state;
    attn_resources resources;
    attn_context context = ATTN_CONTEXT_INIT;
    context.threads = -1;
    assert_refused(ATTN_ERR_VALUE, "context: threads -1 is below 0 (0 = the default number)",
                   attn_resolve_context(&context, &resources));
    context.threads = 0;
    context.alloc = some_alloc;
    assert_refused(ATTN_ERR_NULL, "context: alloc is given without free", attn_resolve_context(&context, &resources));
    context.alloc = NULL;
    context.free = some_free;
    assert_refused(ATTN_ERR_NULL, "context: free is given without alloc", attn_resolve_context(&context, &resources));
    context.alloc = some_alloc;
    assert_ok(attn_resolve_context(&context, &resources));
    context.struct_size = sizeof context + 8;
    assert_int_equal(attn_resolve_context(&context, &resources), ATTN_ERR_STRUCT_SIZE);
    assert_non_null(strstr(attn_last_error(), "attn_context: struct_size"));
    context.struct_size = 0;
    assert_int_equal(attn_resolve_context(&context, &resources), ATTN_ERR_STRUCT_SIZE);
}

/* ---- Memory ------------------------------------------------------------------------------------------------------ */

/* Sanitizers stop a program that asks for too much unless they are told otherwise. */
const char *__asan_default_options(void);
const char *__tsan_default_options(void);
__attribute__((visibility("default"))) const char *__asan_default_options(void) {
    return "allocator_may_return_null=1";
}
__attribute__((visibility("default"))) const char *__tsan_default_options(void) {
    return "allocator_may_return_null=1";
}

static void test_default_memory(void **state) {
    (void)state;
    static const int64_t sizes[] = {0, 1, 63, 64, 65, 4095, (4 << 20) - 1, 4 << 20, (6 << 20) + 1};
    attn_resources resources;
    assert_ok(attn_resolve_context(NULL, &resources));
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        unsigned char *memory = attn_allocate(&resources, sizes[i]);
        assert_non_null(memory);
        assert_int_equal((uintptr_t)memory % 64, 0);
        memset(memory, 0x5a, (size_t)sizes[i]);
        attn_release(&resources, memory, sizes[i]);
    }
    static const int64_t impossible[] = {-1, INT64_MIN, INT64_MAX, INT64_MAX - 1, INT64_C(1) << 60};
    for (size_t i = 0; i < sizeof impossible / sizeof *impossible; i++)
        assert_null(attn_allocate(&resources, impossible[i]));
    attn_release(&resources, NULL, 100);
}

static void test_memory_of_the_caller(void **state) {
    (void)state;
    size_t last = 0;
    attn_context context = ATTN_CONTEXT_INIT;
    attn_resources resources;
    context.alloc = some_alloc;
    context.free = some_free;
    context.alloc_data = &last;
    assert_ok(attn_resolve_context(&context, &resources));
    void *memory = attn_allocate(&resources, 1000);
    assert_non_null(memory);
    assert_int_equal(last, 1000);
    attn_release(&resources, memory, 1000);
    memory = attn_allocate(&resources, 0); /* hooks are never asked for nothing */
    assert_int_equal(last, 1);
    attn_release(&resources, memory, 0);
    assert_null(attn_allocate(&resources, 77));
    last = 0;
    assert_null(attn_allocate(&resources, INT64_MAX));
    assert_int_equal(last, 0); /* and not for the impossible */
}

/* ---- Workers ----------------------------------------------------------------------------------------------------- */

enum { MOST_WORKERS = 8, TASKS = 1000 };

typedef struct job {
    attn_task_queue queue;
    int started[MOST_WORKERS]; /* by worker number */
    int done[TASKS];
} job;

static void draw_tasks(void *argument, int worker) {
    job *j = argument;
    if (worker >= 0 && worker < MOST_WORKERS)
        __atomic_add_fetch(&j->started[worker], 1, __ATOMIC_RELAXED);
    for (int64_t task; (task = attn_next_task(&j->queue)) >= 0;)
        __atomic_add_fetch(&j->done[task], 1, __ATOMIC_RELAXED);
}

/* Workers have numbers from 0 without gaps, each once; every task is done once. */
static void check_workers(const attn_resources *resources, int workers) {
    job j = {.queue = {.count = TASKS}};
    assert_ok(attn_run_workers(resources, workers, draw_tasks, &j));
    assert_int_equal(j.started[0], 1);
    for (int w = 1; w < MOST_WORKERS; w++)
        assert_in_range(j.started[w], 0, w < workers ? j.started[w - 1] : 0);
    for (int task = 0; task < TASKS; task++)
        assert_int_equal(j.done[task], 1);
    assert_true(attn_next_task(&j.queue) == -1);
}

static int one_after_the_other(void *data, int workers, attn_parallel_body body, void *argument) {
    for (int w = workers - 1; w >= 0; w--)
        body(argument, w);
    return *(int *)data;
}

static void test_workers(void **state) {
    (void)state;
    attn_resources resources;
    assert_ok(attn_resolve_context(NULL, &resources));
    for (int workers = 1; workers <= MOST_WORKERS; workers++)
        check_workers(&resources, workers);
    int failure = 0;
    resources.parallel_for = one_after_the_other;
    resources.parallel_data = &failure;
    for (int workers = 1; workers <= MOST_WORKERS; workers++)
        check_workers(&resources, workers);
    failure = -3;
    job j = {.queue = {.count = TASKS}};
    assert_refused(ATTN_ERR_THREADS, "context: parallel_for returned -3",
                   attn_run_workers(&resources, 2, draw_tasks, &j));
    assert_ok(attn_run_workers(&resources, 1, draw_tasks, &j)); /* one worker is a plain call */
}

static void test_empty_queue(void **state) {
    (void)state;
    attn_task_queue queue = {.count = 0};
    assert_true(attn_next_task(&queue) == -1);
    assert_true(attn_next_task(&queue) == -1);
}

static void test_threads_here(void **state) {
    (void)state;
    assert_int_equal(attn_threads_here(1), 1);
    assert_int_equal(attn_threads_here(4), 4);
    assert_int_equal(attn_threads_here(0), 1);
    assert_int_equal(attn_threads_here(-7), 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults),       cmocka_unit_test(test_what_is_refused),
        cmocka_unit_test(test_default_memory), cmocka_unit_test(test_memory_of_the_caller),
        cmocka_unit_test(test_workers),        cmocka_unit_test(test_empty_queue),
        cmocka_unit_test(test_threads_here),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
