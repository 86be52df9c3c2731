/* What the tests of the chain share: matrices with NaN between their rows, poisoned outputs, comparisons that fail on
 * NaN, an allocator that counts and can fail. */
#ifndef CHAIN_TEST_H
#define CHAIN_TEST_H

#include <attn/attn.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/real.h"
#include "support.h"

#define EPS ((long double)(sizeof(real) == 4 ? FLT_EPSILON : DBL_EPSILON))

/* ---- Fewer problems ---------------------------------------------------------------------------------------------- */

/* Where tests look at memory and not at numbers, and are many times slower for it, one of so many problems is enough:
 * the environment variable ATTN_ONE_PROBLEM_OF, which run.sh sets. */
static inline size_t stride_of_problems(void) {
    const char *stride = getenv("ATTN_ONE_PROBLEM_OF");
    long of = stride != NULL ? strtol(stride, NULL, 10) : 1;
    return of > 1 ? (size_t)of : 1;
}

/* Where to begin: double with another problem than float, and generic kernels with others than those, so that the three
 * have all of them with one of three. ATTN_FIRST_PROBLEM is where float begins. */
static inline size_t first_problem(void) {
    const char *first = getenv("ATTN_FIRST_PROBLEM"), *isa = getenv("ATTN_MAX_ISA");
    size_t begin = first != NULL ? strtoul(first, NULL, 10) : 0;
    bool is_generic = isa != NULL && strcmp(isa, "generic") == 0;
    return (begin + (sizeof(real) == 8 ? 1 : 0) + (is_generic ? 2 : 0)) % stride_of_problems();
}

/* ---- Memory ------------------------------------------------------------------------------------------------------ */

static inline real *poisoned(int64_t count) {
    real *memory = support_alloc_poisoned(REAL_DTYPE, count);
    assert_non_null(memory);
    return memory;
}

static inline real *random_numbers(int64_t count, uint64_t stream) {
    real *memory = poisoned(count);
    support_fill_normal(REAL_DTYPE, memory, count, 1, stream, 0, 1);
    return memory;
}

/* Elements from the first to the last of a matrix, nothing after its last row. */
static inline int64_t matrix_extent(int64_t rows, int64_t cols, int64_t stride) {
    return rows == 0 || cols == 0 ? 0 : (rows - 1) * stride + cols;
}

/* [rows, cols] of standard normals, NaN between the rows. */
static inline real *random_matrix(int64_t rows, int64_t cols, int64_t stride, uint64_t stream) {
    real *memory = poisoned(matrix_extent(rows, cols, stride));
    for (int64_t r = 0; r < rows; r++)
        support_fill_normal(REAL_DTYPE, memory + r * stride, cols, 1, stream, (uint64_t)(r * cols), 1);
    return memory;
}

static inline bool all_poison(const void *memory, size_t bytes) {
    const unsigned char *at = memory;
    for (size_t i = 0; i < bytes; i++)
        if (at[i] != 0xff)
            return false;
    return true;
}

static inline void assert_untouched(const real *memory, int64_t count) {
    assert_true(all_poison(memory, (size_t)count * sizeof(real)));
}

/* Every row of a matrix was written, nothing between them was. */
static inline void assert_rows_only(const real *matrix, int64_t rows, int64_t cols, int64_t stride) {
    for (int64_t r = 0; r < rows; r++) {
        for (int64_t c = 0; c < cols; c++)
            if (all_poison(&matrix[r * stride + c], sizeof(real)))
                fail_msg("row %lld, column %lld was not written", (long long)r, (long long)c);
        if (r + 1 < rows)
            assert_untouched(matrix + r * stride + cols, stride - cols);
    }
}

static inline void assert_same_bits(const real *a, const real *b, int64_t count) {
    if (count == 0 || memcmp(a, b, (size_t)count * sizeof(real)) == 0)
        return;
    for (int64_t i = 0; i < count; i++)
        if (memcmp(&a[i], &b[i], sizeof(real)) != 0)
            fail_msg("element %lld: %a and %a", (long long)i, (double)a[i], (double)b[i]);
}

/* ---- Numbers ----------------------------------------------------------------------------------------------------- */

/* |got - wanted| <= tolerance; NaN fails. */
static inline void assert_near(long double got, long double wanted, long double tolerance) {
    long double error = got > wanted ? got - wanted : wanted - got;
    if (!(error <= tolerance))
        fail_msg("%.17Lg is not within %.3Lg of %.17Lg", got, tolerance, wanted);
}

static inline long double absolute(long double x) {
    return x < 0 ? -x : x;
}

/* ---- Failures ---------------------------------------------------------------------------------------------------- */

/* The call fails with the status, and the thread's sentence is the given one. */
#define assert_refused(wanted_status, sentence, call)                                                                  \
    do {                                                                                                               \
        assert_int_equal((call), (wanted_status));                                                                     \
        assert_string_equal(attn_last_error(), (sentence));                                                            \
    } while (0)

#define assert_ok(call)                                                                                                \
    do {                                                                                                               \
        attn_status assert_ok_status_ = (call);                                                                        \
        if (assert_ok_status_ != ATTN_OK)                                                                              \
            fail_msg("status %d: %s", (int)assert_ok_status_, attn_last_error());                                      \
    } while (0)

/* ---- Contexts ---------------------------------------------------------------------------------------------------- */

/* Memory as a context's hooks hand it out. */
typedef struct counting_allocator {
    int64_t calls;    /* to alloc */
    int64_t fail_at;  /* this call returns NULL; -1 = none */
    int64_t live;     /* pieces not freed yet */
    size_t live_size; /* their bytes */
} counting_allocator;

static inline void *counting_alloc(void *data, size_t bytes) {
    counting_allocator *a = data;
    if (a->calls++ == a->fail_at)
        return NULL;
    void *memory = aligned_alloc(64, (bytes + 63) / 64 * 64);
    assert_non_null(memory);
    memset(memory, 0xff, bytes);
    a->live++;
    a->live_size += bytes;
    return memory;
}

static inline void counting_free(void *data, void *memory, size_t bytes) {
    counting_allocator *a = data;
    assert_non_null(memory);
    a->live--;
    a->live_size -= bytes;
    free(memory);
}

static inline attn_context counting_context(counting_allocator *allocator) {
    attn_context context = ATTN_CONTEXT_INIT;
    context.alloc = counting_alloc;
    context.free = counting_free;
    context.alloc_data = allocator;
    return context;
}

/* A thread for each worker. */
enum { MOST_WORKERS = 64 };

typedef struct pthread_worker {
    pthread_t thread;
    attn_parallel_body body;
    void *argument;
    int worker;
} pthread_worker;

static inline void *run_pthread_worker(void *data) {
    pthread_worker *w = data;
    w->body(w->argument, w->worker);
    return NULL;
}

static inline int on_pthreads(void *data, int workers, attn_parallel_body body, void *argument) {
    (void)data;
    pthread_worker all[MOST_WORKERS];
    if (workers > MOST_WORKERS)
        return 1;
    for (int w = 0; w < workers; w++) {
        all[w] = (pthread_worker){.body = body, .argument = argument, .worker = w};
        if (pthread_create(&all[w].thread, NULL, run_pthread_worker, &all[w]) != 0)
            abort();
    }
    for (int w = 0; w < workers; w++)
        pthread_join(all[w].thread, NULL);
    return 0;
}

/* Without OpenMP, as under thread sanitizer, the library would take the workers one after the other. */
static inline attn_context threads_context(int threads) {
    attn_context context = ATTN_CONTEXT_INIT;
    context.threads = threads;
#ifdef ATTN_WITHOUT_OPENMP
    context.parallel_for = on_pthreads;
#endif
    return context;
}

#endif
