/* Where a run took place: processor, memory, system, BLAS, compiler, library, as a list of named facts. */
#ifndef BENCH_MACHINE_H
#define BENCH_MACHINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "cpu_usage.h"

typedef struct machine_fact {
    const char *key;   /* name in JSON */
    const char *label; /* in the header of a table; NULL = JSON only */
    char text[256];
    bool is_number; /* text is a whole number */
} machine_fact;

#define MACHINE_MAX_FACTS 48

typedef struct machine {
    machine_fact fact[MACHINE_MAX_FACTS];
    int count;
    int cpus;         /* online */
    int threads;      /* asked for */
    double available; /* bytes of memory that can be had now, 0 = unknown */
    double load;      /* load average of the last minute, below 0 = unknown */
    cpu_usage start;
} machine;

void machine_read(machine *m, int threads);
void machine_print(const machine *m, FILE *out);

/* At the end of the run: adds what others used meanwhile to the facts; `out` is told when it is much (NULL =
 * nobody). */
void machine_finish(machine *m, FILE *out);

/* Bytes of memory that can be had now, 0 when the system does not say. */
double machine_available_memory(void);

#endif
