/* A few threads that do one job together. */
#include "team.h"

#include <pthread.h>
#include <stdbool.h>

typedef struct member {
    void (*body)(void *, int, int);
    void *argument;
    int worker, workers;
    pthread_t thread;
    bool started;
} member;

static void *run_member(void *pointer) {
    member *m = pointer;
    m->body(m->argument, m->worker, m->workers);
    return NULL;
}

void team_run(int workers, void (*body)(void *argument, int worker, int workers), void *argument) {
    member team[TEAM_MAX_WORKERS];
    if (workers > TEAM_MAX_WORKERS)
        workers = TEAM_MAX_WORKERS;
    for (int w = workers - 1; w >= 0; w--) {
        team[w] = (member){.body = body, .argument = argument, .worker = w, .workers = workers};
        team[w].started = w > 0 && pthread_create(&team[w].thread, NULL, run_member, &team[w]) == 0;
        if (!team[w].started)
            run_member(&team[w]);
    }
    for (int w = 1; w < workers; w++)
        if (team[w].started)
            pthread_join(team[w].thread, NULL);
}
