/* BLAS reports bad arguments through xerbla. This one takes the place of the library's own, for which it must be
 * visible, and ends the test program: libattn must never hand BLAS an argument that it refuses. */
#include <stdio.h>
#include <stdlib.h>

#define VISIBLE __attribute__((visibility("default")))

static void spring(const char *routine) {
    fprintf(stderr, "xerbla was called by %s\n", routine);
    abort();
}

VISIBLE void xerbla_(const char *routine, const int *argument, int length);
void xerbla_(const char *routine, const int *argument, int length) {
    (void)argument;
    (void)length;
    spring(routine);
}

VISIBLE void cblas_xerbla(int argument, const char *routine, const char *format, ...);
void cblas_xerbla(int argument, const char *routine, const char *format, ...) {
    (void)argument;
    (void)format;
    spring(routine);
}
