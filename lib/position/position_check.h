/* Checks that sinusoidal and rotary positions share. */
#ifndef ATTN_LIB_POSITION_CHECK_H
#define ATTN_LIB_POSITION_CHECK_H

#include <attn/base.h>
#include <inttypes.h>
#include <math.h>

#include "base/status.h"

static inline attn_status attn_check_base(double base) {
    if (isfinite(base) && base > 0)
        return ATTN_OK;
    return attn_fail(ATTN_ERR_VALUE, "base %g is not finite and positive", base);
}

static inline attn_status attn_check_start(int64_t rows, int64_t start) {
    if (rows < 2 || start <= INT64_MAX - (rows - 1))
        return ATTN_OK;
    return attn_fail(ATTN_ERR_OVERFLOW, "start %" PRId64 ": the last of %" PRId64 " positions is no int64", start,
                     rows);
}

static inline attn_status attn_check_positions(int64_t rows, int64_t start, double base) {
    ATTN_TRY(attn_check_base(base));
    return attn_check_start(rows, start);
}

#endif
