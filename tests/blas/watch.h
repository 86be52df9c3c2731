/* Watches every product: libattn's cblas_sgemm and cblas_dgemm come here first. With libattn.a the linker sees to that
 * (--wrap); compiled with WATCH_SHARED, the program has functions of these names, which libattn.so then calls. */
#ifndef BLAS_WATCH_H
#define BLAS_WATCH_H

#include <stdbool.h>

typedef struct watch_report {
    int products;      /* calls of cblas_?gemm */
    int many_threads;  /* of these, when the library would have used more than one thread */
    int foreign;       /* of these, on threads that did not call watch_own_thread() */
    int most_tasks;    /* threads of the process before and after products, the most of all */
    int bad_arguments; /* calls of XERBLA, with which BLAS refuses arguments */
} watch_report;

void watch_begin(void);
watch_report watch_end(void);

/* Marks the calling thread as one that may compute products. */
void watch_own_thread(bool own);

#endif
