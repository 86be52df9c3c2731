/* One thread per BLAS call, with every library, and the caller's setting back afterwards.
 *
 * libattn starts its own threads over heads and query blocks; a BLAS that starts threads under each of them runs 7 to
 * 20 times slower (OpenBLAS 0.3.21 pthread under OpenMP: 12.6 against 91 GFLOP/s, 2-core Zen 4, 2026-11-29, two OpenMP
 * threads calling sgemm). Libraries differ in whom their setting rules:
 *   one setting per thread   OpenBLAS of the OpenMP flavour (it follows omp_get_max_threads() of the calling thread),
 * MKL one for the process      OpenBLAS of the pthread flavour, BLIS: the first guard in saves it, the last one out
 * restores it; saving and restoring per call would race
 */
#include <pthread.h>
#include <stddef.h>

#include "base/context.h"
#include "blas/blas.h"

extern int openblas_get_num_threads(void) __attribute__((weak));
extern void openblas_set_num_threads(int threads) __attribute__((weak));
extern int omp_get_max_threads(void) __attribute__((weak));
extern void omp_set_num_threads(int threads) __attribute__((weak));
extern int MKL_Set_Num_Threads_Local(int threads) __attribute__((weak));
extern int64_t bli_thread_get_num_threads(void) __attribute__((weak));
extern void bli_thread_set_num_threads(int64_t threads) __attribute__((weak));

/* Each sets the number of BLAS threads and returns the number before. */
static int swap_openmp(int threads) {
    int before = omp_get_max_threads();
    omp_set_num_threads(threads);
    return before;
}

static int swap_openblas(int threads) {
    int before = openblas_get_num_threads();
    if (before != threads)
        openblas_set_num_threads(threads);
    return before;
}

static int swap_blis(int threads) {
    int before = (int)bli_thread_get_num_threads();
    if (before != threads)
        bli_thread_set_num_threads(threads);
    return before;
}

typedef int (*swap_threads)(int threads);

static swap_threads per_thread_setting(void) {
    if (attn_blas_flavour_in_use() == ATTN_BLAS_OPENMP && omp_get_max_threads != NULL && omp_set_num_threads != NULL)
        return swap_openmp;
    return MKL_Set_Num_Threads_Local; /* NULL where MKL is not loaded */
}

static swap_threads process_setting(void) {
    if (openblas_get_num_threads != NULL && openblas_set_num_threads != NULL)
        return swap_openblas;
    return bli_thread_get_num_threads != NULL && bli_thread_set_num_threads != NULL ? swap_blis : NULL;
}

/* The process-wide setting, while any guard is held. */
static struct {
    pthread_mutex_t lock;
    int holders;
    int saved_threads;
    bool left_by_fork; /* a fork happened while guards were held: saved_threads is still to be restored */
} shared = {PTHREAD_MUTEX_INITIALIZER, 0, 0, false};

static void before_fork(void) {
    pthread_mutex_lock(&shared.lock);
}

static void after_fork_in_parent(void) {
    pthread_mutex_unlock(&shared.lock);
}

static void after_fork_in_child(void) {
    /* the holders are gone with their threads; the next guard of the child ends what they began */
    shared.left_by_fork = shared.left_by_fork || shared.holders > 0;
    shared.holders = 0;
    pthread_mutex_init(&shared.lock, NULL);
}

__attribute__((constructor)) static void watch_forks(void) {
    pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
}

void attn_blas_enter(attn_blas_guard *guard) {
    swap_threads swap = per_thread_setting();
    if (swap != NULL) {
        guard->saved_threads = swap(1);
        return;
    }
    swap = process_setting();
    if (swap == NULL)
        return;
    pthread_mutex_lock(&shared.lock);
    if (shared.holders++ == 0) {
        int before = swap(1);
        if (!shared.left_by_fork)
            shared.saved_threads = before;
        shared.left_by_fork = false;
    }
    pthread_mutex_unlock(&shared.lock);
}

void attn_blas_leave(attn_blas_guard *guard) {
    swap_threads swap = per_thread_setting();
    if (swap != NULL) {
        swap(guard->saved_threads);
        return;
    }
    swap = process_setting();
    if (swap == NULL)
        return;
    pthread_mutex_lock(&shared.lock);
    if (--shared.holders == 0)
        swap(shared.saved_threads);
    pthread_mutex_unlock(&shared.lock);
}

typedef struct guarded_job {
    attn_parallel_body body;
    void *argument;
} guarded_job;

static void run_guarded(void *argument, int worker) {
    const guarded_job *job = argument;
    attn_blas_guard guard = {0};
    attn_blas_enter(&guard);
    job->body(job->argument, worker);
    attn_blas_leave(&guard);
}

attn_status attn_run_blas_workers(const attn_resources *resources, int workers, attn_parallel_body body,
                                  void *argument) {
    guarded_job job = {body, argument};
    /* held around the workers too, so that a process-wide setting is not switched by each of them */
    attn_blas_guard guard = {0};
    attn_blas_enter(&guard);
    attn_status status = attn_run_workers(resources, workers, run_guarded, &job);
    attn_blas_leave(&guard);
    return status;
}
