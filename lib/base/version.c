/* The version number; attn_version_string() stands in blas/probe.c, which knows what it has to tell. */
#include <attn/base.h>

int attn_version_number(void) {
    return ATTN_VERSION_NUMBER;
}
