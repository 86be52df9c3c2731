/* What this CPU and its operating system can run. */
#ifndef ATTN_LIB_CPU_H
#define ATTN_LIB_CPU_H

#include <attn/base.h>

/* The best instruction set, capped by the environment variable ATTN_MAX_ISA; decided when the library is loaded and
 * constant from then on. What is compiled in may be less: attn_isa_in_use(). */
attn_isa attn_cpu_isa(void);

#endif
