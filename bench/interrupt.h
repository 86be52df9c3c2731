/* Ctrl-C: the step that runs is finished, then what was measured is written. A second one ends the program. */
#ifndef BENCH_INTERRUPT_H
#define BENCH_INTERRUPT_H

#include <signal.h>
#include <stdbool.h>

#define EXIT_INTERRUPTED 130 /* as a shell has it: 128 + SIGINT */

extern volatile sig_atomic_t interrupted;

void interrupt_catch(void);

/* For a timing_goal: no further runs. */
bool interrupt_requested(void);

#endif
