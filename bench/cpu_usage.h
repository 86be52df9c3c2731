/* Who else used the processors while the bench ran. */
#ifndef BENCH_CPU_USAGE_H
#define BENCH_CPU_USAGE_H

#include <stdbool.h>

/* Seconds since some moment, of all processors together. */
typedef struct cpu_usage {
    bool known;
    double wall, busy, stolen, own; /* stolen: what the host of a virtual machine gave to others */
} cpu_usage;

cpu_usage cpu_usage_now(void);

/* Processors that others used on average between two moments: other programs, and the host. False when the system does
 * not say. */
bool cpu_usage_of_others(const cpu_usage *from, const cpu_usage *to, double *programs, double *host);

#endif
