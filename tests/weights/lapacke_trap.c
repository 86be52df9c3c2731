/* LAPACKE's functions as the linker's --wrap hands them over: counted, and failing on demand. */
#include <lapacke.h>
#include <stddef.h>
#include <string.h>

void trap_lapacke(const char *routine, int call, int info);
int trapped_calls(void);
void trap_set_hook(void (*hook)(void));

static const char *trapped;
static int trapped_call, trapped_info, calls, calls_of_trapped;
static void (*call_hook)(void);

void trap_lapacke(const char *routine, int call, int info) {
    trapped = routine;
    trapped_call = call;
    trapped_info = info;
    calls = calls_of_trapped = 0;
}

int trapped_calls(void) {
    return calls;
}

void trap_set_hook(void (*hook)(void)) {
    call_hook = hook;
}

static int falls_into_trap(const char *routine) {
    __atomic_add_fetch(&calls, 1, __ATOMIC_RELAXED);
    if (call_hook != NULL)
        call_hook();
    return trapped != NULL && strcmp(trapped, routine) == 0 &&
           __atomic_fetch_add(&calls_of_trapped, 1, __ATOMIC_RELAXED) == trapped_call;
}

#define TRAP(function, routine, parameters, arguments, lwork)                                                          \
    lapack_int __real_##function parameters;                                                                           \
    lapack_int __wrap_##function parameters;                                                                           \
    lapack_int __wrap_##function parameters {                                                                          \
        return (lwork) != -1 && falls_into_trap(routine) ? trapped_info : __real_##function arguments;                 \
    }

#define TRAPS(letter, type)                                                                                            \
    TRAP(LAPACKE_##letter##geqrf_work, "geqrf",                                                                        \
         (int layout, lapack_int m, lapack_int n, type *a, lapack_int lda, type *tau, type *work, lapack_int lwork),   \
         (layout, m, n, a, lda, tau, work, lwork), lwork)                                                              \
    TRAP(LAPACKE_##letter##orgqr_work, "orgqr",                                                                        \
         (int layout, lapack_int m, lapack_int n, lapack_int k, type *a, lapack_int lda, const type *tau, type *work,  \
          lapack_int lwork),                                                                                           \
         (layout, m, n, k, a, lda, tau, work, lwork), lwork)                                                           \
    TRAP(LAPACKE_##letter##ormqr_work, "ormqr",                                                                        \
         (int layout, char side, char trans, lapack_int m, lapack_int n, lapack_int k, const type *a, lapack_int lda,  \
          const type *tau, type *c, lapack_int ldc, type *work, lapack_int lwork),                                     \
         (layout, side, trans, m, n, k, a, lda, tau, c, ldc, work, lwork), lwork)                                      \
    TRAP(LAPACKE_##letter##gesdd_work, "gesdd",                                                                        \
         (int layout, char jobz, lapack_int m, lapack_int n, type *a, lapack_int lda, type *s, type *u,                \
          lapack_int ldu, type *vt, lapack_int ldvt, type *work, lapack_int lwork, lapack_int *iwork),                 \
         (layout, jobz, m, n, a, lda, s, u, ldu, vt, ldvt, work, lwork, iwork), lwork)

TRAPS(s, float)
TRAPS(d, double)
