/* BLAS reports bad arguments through xerbla. This one takes the place of the library's own and ends the test program:
 * libattn must never hand BLAS an argument that it refuses. */
#include <stdio.h>
#include <stdlib.h>

static void spring(const char *routine) {
    fprintf(stderr, "xerbla was called by %s\n", routine);
    abort();
}

void xerbla_(const char *routine, const int *argument, int length);
void xerbla_(const char *routine, const int *argument, int length) {
    (void)argument;
    (void)length;
    spring(routine);
}

void cblas_xerbla(int argument, const char *routine, const char *format, ...);
void cblas_xerbla(int argument, const char *routine, const char *format, ...) {
    (void)argument;
    (void)format;
    spring(routine);
}
