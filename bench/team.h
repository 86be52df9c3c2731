/* A few threads that do one job together: for the bench's own loops and for ceilings of several threads. */
#ifndef BENCH_TEAM_H
#define BENCH_TEAM_H

#define TEAM_MAX_WORKERS 1024

/* Calls body(argument, w, workers) for w in 0 .. workers-1, each on a thread of its own (w 0 on the caller), and
 * returns when all have ended. A thread that cannot be started has its part done by the caller. */
void team_run(int workers, void (*body)(void *argument, int worker, int workers), void *argument);

#endif
