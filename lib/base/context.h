/* Threads and memory of one call, resolved from the caller's context. */
#ifndef ATTN_LIB_CONTEXT_H
#define ATTN_LIB_CONTEXT_H

#include <attn/base.h>

#include "base/exports.h"

/* A checked context with nothing left to default. */
typedef struct attn_resources {
    int threads; /* at least 1: what the context or OpenMP allows here and now */
    attn_alloc_fn alloc;
    attn_free_fn free;
    void *alloc_data;
    attn_parallel_fn parallel_for;
    void *parallel_data;
} attn_resources;

/* Checks a caller's context (NULL = defaults) and resolves it. Errors: ATTN_ERR_STRUCT_SIZE, _VALUE (threads below 0),
 * _NULL (alloc without free or the other way round). */
ATTN_API attn_status attn_resolve_context(const attn_context *context, attn_resources *resources);

/* The threads a call may start now: `most`, but 1 inside a caller's parallel region and in a forked child. */
ATTN_API int attn_threads_here(int most);

/* Runs body(argument, w) for w in 0 .. workers-1 and waits. OpenMP may give fewer threads than asked for, so a body
 * must draw its tasks from an attn_task_queue rather than own the w-th share. With workers = 1 it is a plain call. */
ATTN_API attn_status attn_run_workers(const attn_resources *resources, int workers, attn_parallel_body body,
                                      void *argument);

/* Tasks 0 .. count-1 handed out one by one to whichever worker asks. Results never depend on who gets which. */
typedef struct attn_task_queue {
    int64_t next, count;
} attn_task_queue;

/* The next task of the queue, or -1 when all are taken. */
static inline int64_t attn_next_task(attn_task_queue *queue) {
    int64_t task = __atomic_fetch_add(&queue->next, 1, __ATOMIC_RELAXED);
    return task < queue->count ? task : -1;
}

/* Memory through the context's hooks, aligned to 64; NULL on failure or for sizes that do not fit. */
ATTN_API void *attn_allocate(const attn_resources *resources, int64_t bytes);
ATTN_API void attn_release(const attn_resources *resources, void *memory, int64_t bytes);

#endif
