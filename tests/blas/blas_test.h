/* What the tests of this folder share. */
#ifndef BLAS_TEST_H
#define BLAS_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "calls.h"
#include "library.h"
#include "watch.h"

#define for_each_call(dtype, call)                                                                                     \
    for (attn_dtype dtype = ATTN_F32; dtype <= ATTN_F64; dtype++)                                                      \
        for (product_call call = 0; call < CALL_COUNT; call++)

/* Fails with the name of the call. */
static inline void assert_call_right(attn_dtype dtype, product_call call, const char *wrong) {
    if (wrong != NULL)
        fail_msg("%s: %s", call_name(dtype, call), wrong);
}

/* The library that runs is the one that the test is registered for (ATTN_TEST_BLAS, such as "OpenBLAS openmp"). */
static inline void assert_library_meant(void) {
    const char *meant = getenv("ATTN_TEST_BLAS");
    char text[64];
    attn_blas_info info = {.struct_size = sizeof info};
    assert_int_equal(attn_blas_get_info(&info), ATTN_OK);
    snprintf(text, sizeof text, "%s %s", info.name, info.flavour);
    if (meant != NULL)
        assert_string_equal(text, meant);
}

#endif
