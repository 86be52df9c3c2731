/* Watches every product. */
#define _GNU_SOURCE /* RTLD_NEXT */
#include "watch.h"

#include <dlfcn.h>
#include <stddef.h>
#include <time.h>

#include "library.h"

static watch_report seen;
static _Thread_local bool own_thread;

static int add(int *counter, int count) {
    return __atomic_add_fetch(counter, count, __ATOMIC_RELAXED);
}

static int task_limit = WATCH_ANY_TASKS;

void watch_begin(int most_tasks) {
    seen = (watch_report){0};
    task_limit = most_tasks;
}

static bool too_many_tasks(void) {
    enum { PATIENCE = 500 };
    const struct timespec a_moment = {.tv_nsec = 1000 * 1000};
    if (task_limit == WATCH_ANY_TASKS)
        return false;
    for (int i = 0; count_tasks() > task_limit; i++) {
        if (i == PATIENCE)
            return true;
        nanosleep(&a_moment, NULL);
    }
    return false;
}

watch_report watch_end(void) {
    task_limit = WATCH_ANY_TASKS;
    return seen;
}

void watch_own_thread(bool own) {
    own_thread = own;
}

static void (*product_hook)(void);

void watch_set_hook(void (*hook)(void)) {
    product_hook = hook;
}

static void before_product(void) {
    if (product_hook != NULL)
        product_hook();
    add(&seen.products, 1);
    add(&seen.many_threads, !library_would_use_one_thread());
    add(&seen.foreign, !own_thread);
    add(&seen.too_many_tasks, too_many_tasks());
}

static void after_product(void) {
    add(&seen.too_many_tasks, too_many_tasks());
}

/* Enumerators as they come: all CBLAS libraries pass them as int. */
#define PARAMETERS(type)                                                                                               \
    int order, int transpose_a, int transpose_b, int m, int n, int k, type alpha, const type *a, int lda,              \
        const type *b, int ldb, type beta, type *c, int ldc
#ifdef WATCH_SHARED
#define WATCHED(name) name
#define REAL_PRODUCT(name, type) void (*real)(PARAMETERS(type)) = dlsym(RTLD_NEXT, #name)
#else
#define WATCHED(name) __wrap_##name
#define REAL_PRODUCT(name, type)                                                                                       \
    void __real_##name(PARAMETERS(type));                                                                              \
    void (*real)(PARAMETERS(type)) = __real_##name
#endif

#define WATCHED_PRODUCT(name, type)                                                                                    \
    void WATCHED(name)(PARAMETERS(type));                                                                              \
    void WATCHED(name)(PARAMETERS(type)) {                                                                             \
        REAL_PRODUCT(name, type);                                                                                      \
        before_product();                                                                                              \
        real(order, transpose_a, transpose_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);                           \
        after_product();                                                                                               \
    }
WATCHED_PRODUCT(cblas_sgemm, float)
WATCHED_PRODUCT(cblas_dgemm, double)

/* XERBLA under the names by which BLAS libraries call it; in place of theirs, which print or stop the program. */
int xerbla_(const char *name, const int *argument, size_t length);
int xerbla_(const char *name, const int *argument, size_t length) {
    (void)name;
    (void)argument;
    (void)length;
    return add(&seen.bad_arguments, 1);
}

void cblas_xerbla(int argument, const char *name, const char *format, ...);
void cblas_xerbla(int argument, const char *name, const char *format, ...) {
    (void)argument;
    (void)name;
    (void)format;
    add(&seen.bad_arguments, 1);
}
