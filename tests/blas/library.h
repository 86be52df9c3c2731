/* The BLAS library under test as its caller sees it: its number of threads, found at run time as the library may be
 * any.
 */
#ifndef BLAS_LIBRARY_H
#define BLAS_LIBRARY_H

#include <stdbool.h>

/* True when the caller can choose a number of threads: not with a sequential library. */
bool library_has_threads(void);

/* The caller's number of threads: of the process, or of the calling thread where every thread has its own. */
int library_threads(void);
void library_set_threads(int threads);
bool library_threads_belong_to_thread(void);

/* True when a product that this thread starts now would run on this thread alone. */
bool library_would_use_one_thread(void);

/* OpenMP's number for the calling thread; 0 when no OpenMP is in the process. */
int openmp_max_threads(void);

/* Threads of this process, those that sleep included. */
int count_tasks(void);

#endif
