/* Which BLAS library runs in this process, asked once through symbols that may or may not be there. */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/checks.h"
#include "base/status.h"
#include "blas/blas.h"

/* Optional symbols: NULL where the library in use is another one. */
extern char *openblas_get_config(void) __attribute__((weak));
extern char *openblas_get_corename(void) __attribute__((weak));
extern int openblas_get_parallel(void) __attribute__((weak));
extern char *bli_info_get_version_str(void) __attribute__((weak));
extern void MKL_Get_Version_String(char *text, int size) __attribute__((weak));

/* Declared with 64-bit integers on purpose, see integer_width(). */
extern double cblas_ddot(int64_t n, const double *x, int64_t incx, const double *y, int64_t incy);

enum { TEXT = 128 };

static struct {
    const char *name;
    char version[TEXT];
    const char *core;
    attn_blas_flavour flavour;
    int integer_bits;
    char library_line[2 * TEXT + TEXT];
} found;

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

static void probe(void) {
    found.name = "unknown CBLAS";
    found.core = "";
    found.flavour = ATTN_BLAS_UNKNOWN;
    if (openblas_get_config != NULL) {
        found.name = "OpenBLAS";
        (void)sscanf(openblas_get_config(), "OpenBLAS %127s", found.version);
        if (openblas_get_corename != NULL)
            found.core = openblas_get_corename();
        if (openblas_get_parallel != NULL) {
            int parallel = openblas_get_parallel();
            found.flavour = parallel == 0 ? ATTN_BLAS_SEQUENTIAL : parallel == 1 ? ATTN_BLAS_PTHREAD : ATTN_BLAS_OPENMP;
        }
    } else if (MKL_Get_Version_String != NULL) {
        found.name = "MKL";
        MKL_Get_Version_String(found.version, TEXT);
        found.version[TEXT - 1] = 0;
    } else if (bli_info_get_version_str != NULL) {
        found.name = "BLIS";
        snprintf(found.version, TEXT, "%s", bli_info_get_version_str());
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

attn_blas_flavour attn_blas_flavour_in_use(void) {
    probe_once();
    return found.flavour;
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
    };
    memcpy(info, &filled, info->struct_size);
    return ATTN_OK;
}
