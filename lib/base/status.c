/* Status texts and the thread's last error sentence. */
#include "base/status.h"

#include <stdarg.h>
#include <stdio.h>

static _Thread_local char last_error[ATTN_ERROR_TEXT];

attn_status attn_fail(attn_status status, const char *format, ...) {
    va_list values;
    va_start(values, format);
    vsnprintf(last_error, sizeof last_error, format, values);
    va_end(values);
    return status;
}

const char *attn_last_error(void) {
    return last_error;
}

const char *attn_status_string(attn_status status) {
    switch (status) {
    case ATTN_OK:
        return "success";
    case ATTN_ERR_NULL:
        return "a pointer that is needed is NULL";
    case ATTN_ERR_SIZE:
        return "a size is negative or sizes do not fit each other";
    case ATTN_ERR_STRIDE:
        return "a stride is too small";
    case ATTN_ERR_VALUE:
        return "a number is outside its range";
    case ATTN_ERR_ID:
        return "a token id is no row of the table";
    case ATTN_ERR_LENGTH:
        return "a sequence length does not fit its buffer";
    case ATTN_ERR_OVERFLOW:
        return "sizes or strides overflow";
    case ATTN_ERR_OVERLAP:
        return "an output overlaps another array";
    case ATTN_ERR_WORKSPACE:
        return "the workspace is too small or misaligned";
    case ATTN_ERR_FLAG:
        return "flags that are unknown or do not fit";
    case ATTN_ERR_STRUCT_SIZE:
        return "struct_size does not belong to a known version";
    case ATTN_ERR_UNSUPPORTED:
        return "not supported by this version or engine";
    case ATTN_ERR_DTYPE:
        return "wrong precision";
    case ATTN_ERR_NOMEM:
        return "out of memory";
    case ATTN_ERR_BLAS:
        return "the BLAS library cannot be used";
    case ATTN_ERR_THREADS:
        return "the parallel_for callback failed";
    case ATTN_ERR_LAPACK:
        return "LAPACK failed";
    }
    return "unknown status";
}
