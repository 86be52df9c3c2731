/* A text that grows past its room: counted to the end, written as far as it fits. */
#ifndef ATTN_LIB_TEXT_H
#define ATTN_LIB_TEXT_H

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

typedef struct attn_text {
    char *text; /* NULL with room 0 */
    size_t room, used;
} attn_text;

__attribute__((format(printf, 2, 3))) static inline void attn_add_text(attn_text *out, const char *format, ...) {
    size_t left = out->used < out->room ? out->room - out->used : 0;
    va_list values;
    va_start(values, format);
    int added = vsnprintf(left > 0 ? out->text + out->used : NULL, left, format, values);
    va_end(values);
    out->used += added > 0 ? (size_t)added : 0;
}

#endif
