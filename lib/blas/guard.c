/* One thread per BLAS call, with every library, and the caller's setting back afterwards.
 *
 * libattn starts its own threads over heads and query blocks; a BLAS that starts threads under each of them runs 7 to
 * 20 times slower (OpenBLAS 0.3.21 pthread under OpenMP: 12.6 against 91 GFLOP/s, 2-core Zen 4, 2026-11-29, two OpenMP
 * threads calling sgemm). Libraries differ in whom their setting rules:
 *   one setting per thread        OpenBLAS of the OpenMP flavour, which follows omp_get_max_threads() of the calling
 *                                 thread; MKL. Each guard saves and restores that of its own thread.
 *   one setting for the process   OpenBLAS of the pthread flavour, BLIS of any flavour. The first guard in saves it,
 *                                 the last one out restores it; saving and restoring per call would race.
 */
#define _GNU_SOURCE /* RTLD_DEFAULT, kinds of pthread_rwlock_t */
#include <dlfcn.h>
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
extern int64_t bli_thread_get_jc_nt(void) __attribute__((weak));
extern int64_t bli_thread_get_pc_nt(void) __attribute__((weak));
extern int64_t bli_thread_get_ic_nt(void) __attribute__((weak));
extern int64_t bli_thread_get_jr_nt(void) __attribute__((weak));
extern int64_t bli_thread_get_ir_nt(void) __attribute__((weak));
extern void bli_thread_set_ways(int64_t jc, int64_t pc, int64_t ic, int64_t jr, int64_t ir) __attribute__((weak));

/* ---- The functions of the library in use ------------------------------------------------------------------------- */

enum { BLIS_LOOPS = 5 };

typedef struct openmp_runtime {
    int (*max_threads)(void);
    void (*set_threads)(int threads);
} openmp_runtime;

/* Those of one rule are filled, the others stay 0; all stay 0 for a library that has no threads of its own. */
static struct {
    int runtimes;
    openmp_runtime runtime[ATTN_BLAS_MAX_RUNTIMES];
    int (*mkl_set_local)(int threads);
    int (*openblas_get)(void);
    void (*openblas_set)(int threads);
    int64_t (*blis_get)(void);
    void (*blis_set)(int64_t threads);
    int64_t (*blis_way[BLIS_LOOPS])(void);
    void (*blis_set_ways)(int64_t jc, int64_t pc, int64_t ic, int64_t jr, int64_t ir);
} blas;

static void add_runtime(void *max_threads, void *set_threads) {
    openmp_runtime runtime = {max_threads, set_threads};
    if (max_threads == NULL || set_threads == NULL)
        return;
    for (int i = 0; i < blas.runtimes; i++)
        if (blas.runtime[i].set_threads == runtime.set_threads)
            return;
    blas.runtime[blas.runtimes++] = runtime;
}

/* LLVM's and GNU's OpenMP may both be in a process, and libattn built with one may run with an OpenBLAS that obeys the
 * other. OpenBLAS is bound to the first one in the process or to the one it was linked with: both are told. */
static void find_openmp(void) {
    add_runtime(ATTN_BLAS_FUNCTION(omp_get_max_threads), ATTN_BLAS_FUNCTION(omp_set_num_threads));
    add_runtime(dlsym(RTLD_DEFAULT, "omp_get_max_threads"), dlsym(RTLD_DEFAULT, "omp_set_num_threads"));
}

static void find_blis(void) {
    blas.blis_get = ATTN_BLAS_FUNCTION(bli_thread_get_num_threads);
    blas.blis_set = ATTN_BLAS_FUNCTION(bli_thread_set_num_threads);
    blas.blis_way[0] = ATTN_BLAS_FUNCTION(bli_thread_get_jc_nt);
    blas.blis_way[1] = ATTN_BLAS_FUNCTION(bli_thread_get_pc_nt);
    blas.blis_way[2] = ATTN_BLAS_FUNCTION(bli_thread_get_ic_nt);
    blas.blis_way[3] = ATTN_BLAS_FUNCTION(bli_thread_get_jr_nt);
    blas.blis_way[4] = ATTN_BLAS_FUNCTION(bli_thread_get_ir_nt);
    blas.blis_set_ways = ATTN_BLAS_FUNCTION(bli_thread_set_ways);
}

static void find_functions(void) {
    blas.openblas_get = ATTN_BLAS_FUNCTION(openblas_get_num_threads);
    blas.openblas_set = ATTN_BLAS_FUNCTION(openblas_set_num_threads);
    if (blas.openblas_get != NULL && blas.openblas_set != NULL) {
        if (attn_blas_flavour_in_use() == ATTN_BLAS_OPENMP)
            find_openmp();
        return;
    }
    blas.mkl_set_local = ATTN_BLAS_FUNCTION(MKL_Set_Num_Threads_Local);
    if (blas.mkl_set_local == NULL)
        find_blis();
}

static void find_functions_once(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, find_functions);
}

/* ---- One setting per thread -------------------------------------------------------------------------------------- */

static bool setting_per_thread(void) {
    return blas.runtimes > 0 || blas.mkl_set_local != NULL;
}

static void enter_thread(attn_blas_guard *guard) {
    for (int i = 0; i < blas.runtimes; i++) {
        guard->saved_threads[i] = blas.runtime[i].max_threads();
        blas.runtime[i].set_threads(1);
    }
    if (blas.mkl_set_local != NULL)
        guard->saved_threads[0] = blas.mkl_set_local(1);
}

static void leave_thread(const attn_blas_guard *guard) {
    for (int i = 0; i < blas.runtimes; i++)
        blas.runtime[i].set_threads(guard->saved_threads[i]);
    if (blas.mkl_set_local != NULL)
        blas.mkl_set_local(guard->saved_threads[0]);
}

/* ---- One setting for the process --------------------------------------------------------------------------------- */

/* OpenBLAS has a number of threads. So has BLIS, but numbers for each of its loops overrule it. */
typedef struct process_setting {
    int64_t threads;
    int64_t way[BLIS_LOOPS];
} process_setting;

static process_setting current_setting(void) {
    process_setting now = {.threads = 1};
    if (blas.openblas_get != NULL)
        now.threads = blas.openblas_get();
    else if (blas.blis_get != NULL)
        now.threads = blas.blis_get();
    for (int i = 0; i < BLIS_LOOPS; i++)
        now.way[i] = blas.blis_way[i] != NULL ? blas.blis_way[i]() : 0;
    return now;
}

static bool has_ways(const process_setting *setting) {
    for (int i = 0; i < BLIS_LOOPS; i++)
        if (setting->way[i] > 1)
            return true;
    return false;
}

static bool is_one_thread(const process_setting *setting) {
    return setting->threads == 1 && !has_ways(setting);
}

static void set_threads(int64_t threads) {
    if (blas.openblas_set != NULL)
        blas.openblas_set((int)threads);
    else if (blas.blis_set != NULL)
        blas.blis_set(threads);
}

static void set_ways(const int64_t *way) {
    if (blas.blis_set_ways != NULL)
        blas.blis_set_ways(way[0], way[1], way[2], way[3], way[4]);
}

static void set_one_thread(const process_setting *before) {
    const int64_t ones[BLIS_LOOPS] = {1, 1, 1, 1, 1};
    if (has_ways(before))
        set_ways(ones);
    if (before->threads != 1)
        set_threads(1);
}

static void restore(const process_setting *saved) {
    process_setting now = current_setting();
    if (!is_one_thread(&now))
        return; /* someone has changed it meanwhile, which shall last */
    if (has_ways(saved))
        set_ways(saved->way);
    if (saved->threads != 1)
        set_threads(saved->threads);
}

/* The process-wide setting, while any guard is held. */
static struct {
    pthread_mutex_t lock;
    int holders;
    process_setting saved;
    bool left_by_fork; /* a fork happened while guards were held: `saved` is still to be restored */
} shared = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void enter_process(void) {
    pthread_mutex_lock(&shared.lock);
    if (shared.holders++ == 0) {
        process_setting before = current_setting();
        if (!shared.left_by_fork || !is_one_thread(&before))
            shared.saved = before;
        shared.left_by_fork = false;
        set_one_thread(&before);
    }
    pthread_mutex_unlock(&shared.lock);
}

static void leave_process(void) {
    pthread_mutex_lock(&shared.lock);
    if (--shared.holders == 0)
        restore(&shared.saved);
    pthread_mutex_unlock(&shared.lock);
}

/* ---- Forks ------------------------------------------------------------------------------------------------------- */

/* A BLAS library holds locks of its own for moments of a product, and a fork copies them locked: a child of OpenBLAS
 * 0.3.21 then waits in blas_memory_alloc() for ever (7 of 10,000 forks while two other threads computed small
 * products). So a fork waits for the products that run. Threads share few of these locks, so that they do not wait for
 * each other's cache line. */
enum { LANES = 16, CACHE_LINE = 64 };
static struct { _Alignas(CACHE_LINE) pthread_rwlock_t lock; } lane[LANES];

static pthread_rwlock_t *own_lane(void) {
    static int threads;
    static _Thread_local int mine = -1;
    if (mine < 0)
        mine = (__atomic_fetch_add(&threads, 1, __ATOMIC_RELAXED) & INT32_MAX) % LANES;
    return &lane[mine].lock;
}

void attn_blas_begin_product(void) {
    pthread_rwlock_rdlock(own_lane());
}

void attn_blas_end_product(void) {
    pthread_rwlock_unlock(own_lane());
}

static void init_lanes(void) {
    pthread_rwlockattr_t attributes;
    pthread_rwlockattr_init(&attributes);
#ifdef __GLIBC__
    /* else one product after the other could keep a fork waiting */
    pthread_rwlockattr_setkind_np(&attributes, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
#endif
    for (int i = 0; i < LANES; i++)
        pthread_rwlock_init(&lane[i].lock, &attributes);
    pthread_rwlockattr_destroy(&attributes);
}

static void before_fork(void) {
    for (int i = 0; i < LANES; i++)
        pthread_rwlock_wrlock(&lane[i].lock);
    pthread_mutex_lock(&shared.lock);
}

static void after_fork_in_parent(void) {
    pthread_mutex_unlock(&shared.lock);
    for (int i = 0; i < LANES; i++)
        pthread_rwlock_unlock(&lane[i].lock);
}

static void after_fork_in_child(void) {
    /* The holders are gone with their threads; the next guard of the child ends what they began. Not here: OpenBLAS
     * would start its threads in every child, also in those that only call exec. */
    shared.left_by_fork = shared.left_by_fork || shared.holders > 0;
    shared.holders = 0;
    after_fork_in_parent();
    /* anew, for threads that are gone may stand among those that wait */
    pthread_mutex_init(&shared.lock, NULL);
    init_lanes();
}

__attribute__((constructor)) static void watch_forks(void) {
    init_lanes();
    pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
}

/* ---- The guard --------------------------------------------------------------------------------------------------- */

void attn_blas_enter(attn_blas_guard *guard) {
    find_functions_once();
    if (setting_per_thread())
        enter_thread(guard);
    else
        enter_process();
}

void attn_blas_leave(attn_blas_guard *guard) {
    if (setting_per_thread())
        leave_thread(guard);
    else
        leave_process();
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
