/* What the tests of lib/base share. */
#ifndef BASE_TEST_H
#define BASE_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <attn/attn.h>

#define assert_ok(call) assert_int_equal((call), ATTN_OK)

/* The call fails with the status and the sentence. */
#define assert_refused(wanted_status, sentence, call)                                                                  \
    do {                                                                                                               \
        assert_int_equal((call), (wanted_status));                                                                     \
        assert_string_equal(attn_last_error(), (sentence));                                                            \
    } while (0)

#endif
