/* Memory of what is timed. */
#include "memory.h"

#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>

void *bench_memory(size_t bytes) {
    const size_t line = 64, huge = (size_t)2 << 20;
    size_t alignment = bytes >= 2 * huge ? huge : line;
    if (bytes > SIZE_MAX - alignment)
        return NULL;
    size_t rounded = (bytes / alignment + 1) * alignment;
    void *memory = aligned_alloc(alignment, rounded);
    if (memory && alignment == huge)
        madvise(memory, rounded, MADV_HUGEPAGE);
    return memory;
}
