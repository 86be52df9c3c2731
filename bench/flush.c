/* Cold caches. A buffer that is read to push everything else out would have to be larger than the last level, which is
 * hundreds of megabytes on servers, and says nothing where the level is shared; both processors can flush a line. */
#include "flush.h"

/* A line is at least this long on every processor; flushing one twice does no harm. */
#define LINE_BYTES 64

#if defined(__x86_64__)
#define HAVE_FLUSH true
static void flush_line(const char *line) {
    __builtin_ia32_clflush(line);
}
static void wait_for_flushes(void) {
    __builtin_ia32_mfence();
}
#elif defined(__aarch64__) && defined(__linux__)
#define HAVE_FLUSH true
static void flush_line(const char *line) {
    __asm__ volatile("dc civac, %0" ::"r"(line) : "memory");
}
static void wait_for_flushes(void) {
    __asm__ volatile("dsb sy" ::: "memory");
}
#else
#define HAVE_FLUSH false
static void flush_line(const char *line) {
    (void)line;
}
static void wait_for_flushes(void) {}
#endif

bool flush_is_possible(void) {
    return HAVE_FLUSH;
}

void flush_memory(const void *memory, size_t bytes) {
    const char *begin = memory;
    if (bytes == 0)
        return;
    for (size_t i = 0; i < bytes; i += LINE_BYTES)
        flush_line(begin + i);
    flush_line(begin + bytes - 1);
    wait_for_flushes();
}
