/* Asking for memory before it is read. */
#ifndef ATTN_LIB_FETCH_H
#define ATTN_LIB_FETCH_H

#include <stdint.h>

/* Where to: for what is read a few hundred cycles later, or for what is read so late, or is so much, that it would
 * drive other things from the first-level cache. */
typedef enum attn_fetch_to { ATTN_FETCH_TO_L1, ATTN_FETCH_TO_L2 } attn_fetch_to;

enum { ATTN_FETCH_LINE = 64 };

/* The address so many bytes from x, for asking only: as a number, since it may be outside of the array. */
static inline const void *attn_fetch_address(const void *x, int64_t bytes) {
    return (const void *)((uintptr_t)x + (uintptr_t)bytes);
}

/* Asks for a cache line every 64 bytes. Those are all of these bytes when they begin with a line; else a part of the
 * last line may be left out, which for rows of numbers costs less than finding out (LADDER.md, "In the fused engine").
 * Inlined by force, as must be whatever does nothing but call it: gcc 12 takes a static function that only asks for
 * memory for one without effect and drops its calls. */
static inline __attribute__((always_inline)) void attn_fetch(const void *begin, int64_t bytes, attn_fetch_to to) {
    const char *line = begin;
    for (int64_t i = 0; i < bytes; i += ATTN_FETCH_LINE) {
        if (to == ATTN_FETCH_TO_L1)
            __builtin_prefetch(line + i, 0, 3);
        else
            __builtin_prefetch(line + i, 0, 2);
    }
}

/* Asks for every line that holds a part of these bytes, wherever they begin. */
static inline __attribute__((always_inline)) void attn_fetch_all(const void *begin, int64_t bytes, attn_fetch_to to) {
    int64_t before = (int64_t)((uintptr_t)begin % ATTN_FETCH_LINE);
    attn_fetch(attn_fetch_address(begin, -before), before + bytes, to);
}

#endif
