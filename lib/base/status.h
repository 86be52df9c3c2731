/* Failing: how a check turns into a status and a sentence. */
#ifndef ATTN_LIB_STATUS_H
#define ATTN_LIB_STATUS_H

#include <attn/base.h>

#include "base/exports.h"

/* Stores the sentence for attn_last_error() in this thread and returns the status, so that a check reads
 * `return attn_fail(ATTN_ERR_SIZE, "kv_heads %lld does not divide q_heads %lld", ...)`. Cut at ATTN_ERROR_TEXT. */
ATTN_API attn_status attn_fail(attn_status status, const char *format, ...) __attribute__((format(printf, 2, 3)));

enum { ATTN_ERROR_TEXT = 256 };

/* Leaves the function with the status of a check that failed. */
#define ATTN_TRY(call)                                                                                                 \
    do {                                                                                                               \
        attn_status attn_try_status_ = (call);                                                                         \
        if (attn_try_status_ != ATTN_OK)                                                                               \
            return attn_try_status_;                                                                                   \
    } while (0)

#endif
