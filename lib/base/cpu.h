/* What this CPU and its operating system can run. */
#ifndef ATTN_LIB_CPU_H
#define ATTN_LIB_CPU_H

#include <attn/base.h>
#include <stdbool.h>

/* The best instruction set, capped by the environment variable ATTN_MAX_ISA; decided when the library is loaded and
 * constant from then on. What is compiled in may be less: attn_isa_in_use(). */
attn_isa attn_cpu_isa(void);

/* True where memory that is read in order, with computations between, comes faster when it is asked for ahead: on
 * Intel's processors. Four rows at a time read 15 GB/s instead of 12 on a 2-core Xeon (Emerald Rapids, 2026-11-30:
 * LADDER.md, few queries); AMD's Zen 4 fetches by itself. For what is not read from several places: the last rows of
 * attention's keys and values, and weights. */
bool attn_cpu_is_to_be_asked(void);

/* True where memory that is read once comes faster from several places at once than in order: on AMD's processors
 * before Zen 4, which fetch ahead within a page only (23 GB/s of keys and values in place of 13 on a 2-core Zen 3), and
 * on Intel's (13 in place of 9.6 on a 2-core Sapphire Rapids; both 2026-12-01: LADDER.md, few queries). */
bool attn_cpu_reads_apart(void);

/* For tests, while nothing computes: as if it were such a CPU or not. */
void attn_cpu_read_apart(bool apart);

#endif
