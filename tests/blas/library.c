/* The BLAS library under test as its caller sees it. */
#define _GNU_SOURCE /* RTLD_DEFAULT */
#include "library.h"

#include <attn/base.h>
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef enum library_kind { SEQUENTIAL, OPENBLAS_PTHREAD, OPENBLAS_OPENMP, BLIS } library_kind;

static void *function(const char *name) {
    return dlsym(RTLD_DEFAULT, name);
}

static void *needed(const char *name) {
    void *found = function(name);
    if (found == NULL)
        abort();
    return found;
}

static library_kind kind(void) {
    attn_blas_info info = {.struct_size = sizeof info};
    if (attn_blas_get_info(&info) != ATTN_OK)
        abort();
    if (strcmp(info.name, "BLIS") == 0)
        return BLIS;
    if (strcmp(info.name, "OpenBLAS") != 0 || strcmp(info.flavour, "sequential") == 0)
        return SEQUENTIAL;
    return strcmp(info.flavour, "openmp") == 0 ? OPENBLAS_OPENMP : OPENBLAS_PTHREAD;
}

bool library_has_threads(void) {
    return kind() != SEQUENTIAL;
}

bool library_threads_belong_to_thread(void) {
    return kind() == OPENBLAS_OPENMP;
}

static int int_from(const char *name) {
    int (*ask)(void) = needed(name);
    return ask();
}

static int64_t blis_from(const char *name) {
    int64_t (*ask)(void) = needed(name);
    return ask();
}

int library_threads(void) {
    switch (kind()) {
    case OPENBLAS_PTHREAD:
        return int_from("openblas_get_num_threads");
    case OPENBLAS_OPENMP:
        return int_from("omp_get_max_threads");
    case BLIS:
        return (int)blis_from("bli_thread_get_num_threads");
    default:
        return 1;
    }
}

void library_set_threads(int threads) {
    if (kind() == BLIS) {
        void (*set)(int64_t) = needed("bli_thread_set_num_threads");
        set(threads);
    } else if (kind() != SEQUENTIAL) {
        void (*set)(int) = needed(kind() == OPENBLAS_OPENMP ? "omp_set_num_threads" : "openblas_set_num_threads");
        set(threads);
    }
}

bool library_would_use_one_thread(void) {
    static const char *const ways[] = {"bli_thread_get_jc_nt", "bli_thread_get_pc_nt", "bli_thread_get_ic_nt",
                                       "bli_thread_get_jr_nt", "bli_thread_get_ir_nt"};
    if (kind() == OPENBLAS_OPENMP)
        return library_threads() == 1 || int_from("omp_in_parallel");
    if (kind() == BLIS)
        for (int i = 0; i < 5; i++)
            if (blis_from(ways[i]) > 1)
                return false;
    return library_threads() == 1;
}

int openmp_max_threads(void) {
    int (*ask)(void) = function("omp_get_max_threads");
    return ask != NULL ? ask() : 0;
}

int count_tasks(void) {
    char line[1024];
    FILE *file = fopen("/proc/self/stat", "r");
    if (file == NULL || fgets(line, sizeof line, file) == NULL)
        abort();
    fclose(file);
    /* the number of threads is the 18th field after the program's name, which stands in parentheses */
    const char *at = strrchr(line, ')');
    for (int field = 0; field < 18 && at != NULL; field++)
        at = strchr(at + 1, ' ');
    if (at == NULL)
        abort();
    return atoi(at);
}
