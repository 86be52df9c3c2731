/* Threads and memory of one call. */
#define _GNU_SOURCE /* RTLD_DEFAULT */
#include "base/context.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/mman.h>
#endif
#ifdef _OPENMP
#include <omp.h>
#endif

#include "base/checks.h"
#include "base/ledger.h"
#include "base/status.h"

/* The process that loaded the library. In a forked child libgomp would wait for threads that are gone. */
static pid_t loading_process;

/* The first OpenMP in the process: the program's, which need not be the one that libattn was built with. NULL when the
 * program and its libraries use none. */
static int (*program_omp_get_level)(void);

__attribute__((constructor)) static void remember_process(void) {
    loading_process = getpid();
    program_omp_get_level = (int (*)(void))dlsym(RTLD_DEFAULT, "omp_get_level");
}

/* Large blocks start on a huge page and ask for huge pages: 28.9 against 22 to 26 GB/s of read bandwidth
 * (2-core Zen 4, 2026-11-29, DESIGN's read test). */
enum { HUGE_PAGE = 2 << 20 };

static void *default_alloc(void *data, size_t bytes) {
    (void)data;
    size_t alignment = bytes >= 2 * (size_t)HUGE_PAGE ? HUGE_PAGE : ATTN_LEDGER_ALIGN;
    size_t rounded = (bytes + alignment - 1) / alignment * alignment;
    void *memory = rounded < bytes || rounded > PTRDIFF_MAX ? NULL : aligned_alloc(alignment, rounded);
#ifdef MADV_HUGEPAGE
    if (memory != NULL && alignment == HUGE_PAGE)
        (void)madvise(memory, rounded, MADV_HUGEPAGE); /* a hint: failing costs speed only */
#endif
    return memory;
}

static void default_free(void *data, void *memory, size_t bytes) {
    (void)data;
    (void)bytes;
    free(memory);
}

/* Size of attn_context in 0.1, the first version. */
#define CONTEXT_FIRST_SIZE (offsetof(attn_context, parallel_data) + sizeof(void *))

attn_status attn_context_init(attn_context *context, size_t struct_size) {
    return attn_init_struct("attn_context", context, struct_size, CONTEXT_FIRST_SIZE, sizeof(attn_context));
}

static int default_threads(void) {
#ifdef _OPENMP
    return omp_get_max_threads();
#else
    return 1;
#endif
}

/* OpenMP ends the process when it cannot start a thread, so that it is not asked for thousands. */
static int within_reason(int threads) {
    enum { MOST_PER_PROCESSOR = 8, ALWAYS_ALLOWED = 64 };
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    long most = MOST_PER_PROCESSOR * (processors < 1 ? 1 : processors);
    most = most < ALWAYS_ALLOWED ? ALWAYS_ALLOWED : most;
    return threads < most ? threads : (int)most;
}

attn_status attn_resolve_context(const attn_context *context, attn_resources *resources) {
    attn_context given = ATTN_CONTEXT_INIT;
    if (context != NULL) {
        ATTN_TRY(attn_check_struct_size("attn_context", context->struct_size, CONTEXT_FIRST_SIZE, sizeof given));
        memcpy(&given, context, context->struct_size);
    }
    if (given.threads < 0)
        return attn_fail(ATTN_ERR_VALUE, "context: threads %d is below 0 (0 = the default number)", given.threads);
    if ((given.alloc == NULL) != (given.free == NULL))
        return attn_fail(ATTN_ERR_NULL, "context: %s is given without %s", given.alloc ? "alloc" : "free",
                         given.alloc ? "free" : "alloc");
    int threads = given.threads > 0 ? given.threads : default_threads();
    *resources = (attn_resources){
        .threads = given.parallel_for != NULL ? threads : within_reason(threads),
        .alloc = given.alloc != NULL ? given.alloc : default_alloc,
        .free = given.free != NULL ? given.free : default_free,
        .alloc_data = given.alloc_data,
        .parallel_for = given.parallel_for,
        .parallel_data = given.parallel_data,
    };
    return ATTN_OK;
}

/* By the level: omp_in_parallel() is 0 in a region of one thread. */
static bool in_parallel_region(void) {
#ifdef _OPENMP
    if (omp_get_level() > 0)
        return true;
#endif
    return program_omp_get_level != NULL && program_omp_get_level() > 0;
}

int attn_threads_here(int most) {
    if (most < 1 || getpid() != loading_process || in_parallel_region())
        return 1;
    return most;
}

attn_status attn_run_workers(const attn_resources *resources, int workers, attn_parallel_body body, void *argument) {
    if (workers <= 1) {
        body(argument, 0);
        return ATTN_OK;
    }
    if (resources->parallel_for != NULL) {
        int failure = resources->parallel_for(resources->parallel_data, workers, body, argument);
        return failure == 0 ? ATTN_OK : attn_fail(ATTN_ERR_THREADS, "context: parallel_for returned %d", failure);
    }
#ifdef _OPENMP
    /* numbered here: with a second OpenMP in the process omp_get_thread_num() might be the other one's */
    int next_worker = 0;
#pragma omp parallel num_threads(workers)
    body(argument, __atomic_fetch_add(&next_worker, 1, __ATOMIC_RELAXED));
#else
    for (int worker = 0; worker < workers; worker++)
        body(argument, worker);
#endif
    return ATTN_OK;
}

void *attn_allocate(const attn_resources *resources, int64_t bytes) {
    if (bytes < 0 || bytes >= INT64_MAX || (uint64_t)bytes > SIZE_MAX / 2)
        return NULL;
    return resources->alloc(resources->alloc_data, bytes > 0 ? (size_t)bytes : 1);
}

void attn_release(const attn_resources *resources, void *memory, int64_t bytes) {
    if (memory != NULL)
        resources->free(resources->alloc_data, memory, bytes > 0 ? (size_t)bytes : 1);
}
