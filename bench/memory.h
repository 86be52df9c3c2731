/* Memory of what is timed. */
#ifndef BENCH_MEMORY_H
#define BENCH_MEMORY_H

#include <stddef.h>

/* As the library's allocator would take it and most numerical programs do: whole cache lines, huge pages for much of
 * it. NULL when there is none; free() takes it back. */
void *bench_memory(size_t bytes);

#endif
