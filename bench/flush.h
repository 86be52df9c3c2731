/* Cold caches: puts memory out of all of them, line by line. */
#ifndef BENCH_FLUSH_H
#define BENCH_FLUSH_H

#include <stdbool.h>
#include <stddef.h>

/* False where the processor has no instruction for it that programs may use. */
bool flush_is_possible(void);

/* Puts `bytes` bytes out of every cache; what was written goes to memory. NULL with 0 bytes is fine. */
void flush_memory(const void *memory, size_t bytes);

#endif
