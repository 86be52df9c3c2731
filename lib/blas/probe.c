/* Which BLAS library runs in this process, asked once through functions that it may or may not have.
 *
 * Several may be loaded, a program's own beside ours: the one in use is the one that our cblas_ddot belongs to. Weak
 * references alone would not do: in a position-dependent program they are 0 when the library at link time lacks the
 * function, whatever runs later.
 */
#define _GNU_SOURCE /* dladdr, RTLD_DEFAULT */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/checks.h"
#include "base/status.h"
#include "blas/blas.h"

extern char *openblas_get_config(void) __attribute__((weak));
extern char *openblas_get_corename(void) __attribute__((weak));
extern int openblas_get_parallel(void) __attribute__((weak));
extern char *bli_info_get_version_str(void) __attribute__((weak));
extern int64_t bli_info_get_enable_openmp(void) __attribute__((weak));
extern int64_t bli_info_get_enable_pthreads(void) __attribute__((weak));
extern int bli_arch_query_id(void) __attribute__((weak));
extern char *bli_arch_string(int id) __attribute__((weak));
extern void MKL_Get_Version_String(char *text, int size) __attribute__((weak));

/* Declared with 64-bit integers on purpose, see integer_width(). */
extern double cblas_ddot(int64_t n, const double *x, int64_t incx, const double *y, int64_t incy);

enum { TEXT = 128 };

static struct {
    void *library; /* for dlsym(): where the products come from */
    const char *name;
    char version[TEXT];
    const char *core;
    attn_blas_flavour flavour;
    int integer_bits;
    bool chooses_core;
    char library_line[2 * TEXT + TEXT];
} found;

/* A handle on the shared library that holds an address; RTLD_DEFAULT for the program itself. */
static void *library_at(const void *address) {
    Dl_info where;
    void *library = dladdr(address, &where) != 0 ? dlopen(where.dli_fname, RTLD_LAZY | RTLD_NOLOAD) : NULL;
    return library != NULL ? library : RTLD_DEFAULT;
}

static bool in_same_library(const void *a, const void *b) {
    Dl_info where_a, where_b;
    return dladdr(a, &where_a) != 0 && dladdr(b, &where_b) != 0 && where_a.dli_fbase == where_b.dli_fbase;
}

static void *find_function(const char *name, const void *linked) {
    void *function = dlsym(found.library, name);
    if (function == NULL && linked != NULL && in_same_library(linked, (const void *)cblas_ddot))
        function = (void *)(uintptr_t)linked;
    return function;
}

#define FIND(name) find_function(#name, (const void *)(name))

static const char unknown_name[] = "unknown CBLAS";

static const char *flavour_name(attn_blas_flavour flavour) {
    static const char *const names[] = {"unknown", "sequential", "pthread", "openmp"};
    return names[flavour];
}

/* A length whose lower half is 2 and which is negative as a whole: a library with 32-bit integers sums two elements,
 * one with 64-bit integers sees a negative length and returns 0. Both are defined behaviour of ddot; the upper half of
 * an argument register is ignored by a callee that takes int on x86-64 and aarch64. */
static int integer_width(void) {
    const double ones[2] = {1, 1};
    const int64_t length = (int64_t)(UINT64_C(0xFFFFFFFF00000000) | 2);
    return cblas_ddot(length, ones, 1, ones, 1) == 2 ? 32 : 64;
}

static void ask_openblas(const char *config) {
    char *(*corename)(void) = FIND(openblas_get_corename);
    int (*parallel)(void) = FIND(openblas_get_parallel);
    found.name = "OpenBLAS";
    (void)sscanf(config, "OpenBLAS %127s", found.version);
    found.chooses_core = strstr(config, "DYNAMIC_ARCH") != NULL;
    if (corename != NULL)
        found.core = corename();
    if (parallel != NULL) {
        static const attn_blas_flavour flavours[] = {ATTN_BLAS_SEQUENTIAL, ATTN_BLAS_PTHREAD, ATTN_BLAS_OPENMP};
        int kind = parallel();
        found.flavour = kind >= 0 && kind <= 2 ? flavours[kind] : ATTN_BLAS_UNKNOWN;
    }
}

static void ask_blis(const char *version) {
    int64_t (*openmp)(void) = FIND(bli_info_get_enable_openmp);
    int64_t (*pthreads)(void) = FIND(bli_info_get_enable_pthreads);
    int (*core)(void) = FIND(bli_arch_query_id);
    char *(*core_name)(int) = FIND(bli_arch_string);
    found.name = "BLIS";
    snprintf(found.version, TEXT, "%s", version);
    if (core != NULL && core_name != NULL)
        found.core = core_name(core());
    if (openmp != NULL && pthreads != NULL)
        found.flavour = openmp() ? ATTN_BLAS_OPENMP : pthreads() ? ATTN_BLAS_PTHREAD : ATTN_BLAS_SEQUENTIAL;
}

static void probe(void) {
    found.library = library_at((const void *)cblas_ddot);
    found.name = unknown_name;
    found.core = "";
    found.flavour = ATTN_BLAS_UNKNOWN;
    char *(*openblas_config)(void) = FIND(openblas_get_config);
    char *(*blis_version)(void) = FIND(bli_info_get_version_str);
    void (*mkl_version)(char *, int) = FIND(MKL_Get_Version_String);
    if (openblas_config != NULL) {
        ask_openblas(openblas_config());
    } else if (mkl_version != NULL) {
        found.name = "MKL";
        mkl_version(found.version, TEXT);
        found.version[TEXT - 1] = 0;
    } else if (blis_version != NULL) {
        ask_blis(blis_version());
    }
    found.integer_bits = integer_width();
    snprintf(found.library_line, sizeof found.library_line, "libattn %d.%d.%d, %s, %s%s%s%s%s %s, %d-bit integers",
             ATTN_VERSION_MAJOR, ATTN_VERSION_MINOR, ATTN_VERSION_PATCH, attn_isa_name(attn_isa_in_use()), found.name,
             found.version[0] ? " " : "", found.version, found.core[0] ? " " : "", found.core,
             flavour_name(found.flavour), found.integer_bits);
}

static void probe_once(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, probe);
}

void *attn_blas_function(const char *name, const void *linked) {
    probe_once();
    return find_function(name, linked);
}

attn_blas_flavour attn_blas_flavour_in_use(void) {
    probe_once();
    return found.flavour;
}

const char *attn_blas_name(void) {
    probe_once();
    return found.name;
}

const char *attn_blas_core(void) {
    probe_once();
    return found.core;
}

bool attn_blas_is_known(void) {
    probe_once();
    return found.name != unknown_name;
}

bool attn_blas_core_is(const char *name) {
    return strcasecmp(attn_blas_core(), name) == 0;
}

bool attn_blas_chooses_core(void) {
    probe_once();
    return found.chooses_core;
}

attn_status attn_blas_check(void) {
    probe_once();
    if (found.integer_bits == ATTN_BLAS_INTEGER_BITS)
        return ATTN_OK;
    return attn_fail(ATTN_ERR_BLAS, "%s in this process has %d-bit integers, libattn was built for %d", found.name,
                     found.integer_bits, ATTN_BLAS_INTEGER_BITS);
}

const char *attn_version_string(void) {
    probe_once();
    return found.library_line;
}

attn_status attn_blas_get_info(attn_blas_info *info) {
    /* size of the struct in 0.1, the first version */
    const size_t first = offsetof(attn_blas_info, integer_bits) + sizeof(int);
    if (info == NULL)
        return attn_fail(ATTN_ERR_NULL, "attn_blas_info is NULL");
    ATTN_TRY(attn_check_struct_size("attn_blas_info", info->struct_size, first, sizeof *info));
    probe_once();
    const attn_blas_info filled = {
        .struct_size = info->struct_size,
        .name = found.name,
        .version = found.version,
        .core = found.core,
        .flavour = flavour_name(found.flavour),
        .integer_bits = found.integer_bits,
        .advice = attn_blas_advice(),
        .own_products = attn_own_products(),
    };
    memcpy(info, &filled, info->struct_size);
    return ATTN_OK;
}
