/* Texts of files of the source tree, put into the program when it is built (cmake/AttnEmbed.cmake). */
#ifndef BENCH_EMBEDDED_H
#define BENCH_EMBEDDED_H

extern const char embedded_plot[];          /* bench/plot.gp */
extern const char embedded_textbook[];      /* bench/textbook.c: the projection as the formula is written */
extern const char embedded_naive[];         /* lib/sdpa/naive.c: attention likewise */
extern const char embedded_cache_ordered[]; /* bench/cache_ordered.c */

#endif
