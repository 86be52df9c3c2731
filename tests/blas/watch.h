/* Watches every product: libattn's cblas_sgemm and cblas_dgemm come here first. With libattn.a the linker sees to that
 * (--wrap); compiled with WATCH_SHARED, the program has functions of these names, which libattn.so then calls. */
#ifndef BLAS_WATCH_H
#define BLAS_WATCH_H

#include <stdbool.h>

typedef struct watch_report {
    int products;       /* calls of cblas_?gemm */
    int many_threads;   /* of these, when the library would have used more than one thread */
    int foreign;        /* of these, on threads that did not call watch_own_thread() */
    int too_many_tasks; /* of these, with more threads in the process before or after than the limit */
    int bad_arguments;  /* calls of XERBLA, with which BLAS refuses arguments */
} watch_report;

/* Starts counting. Threads that were joined need a moment to be gone: only more of them that last count. */
enum { WATCH_ANY_TASKS = 1 << 20 };
void watch_begin(int most_tasks);
watch_report watch_end(void);

/* What every product does before it computes; NULL = nothing. */
void watch_set_hook(void (*hook)(void));

/* Marks the calling thread as one that may compute products. */
void watch_own_thread(bool own);

#endif
