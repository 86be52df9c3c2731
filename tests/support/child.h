/* A part of a test in a forked child. */
#ifndef ATTN_SUPPORT_CHILD_H
#define ATTN_SUPPORT_CHILD_H

#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

/* What became of a child: the exit code that body(argument) returned, the signal as a negative number, or this. */
#define SUPPORT_NO_CHILD (-1000)

/* Forks, runs body(argument) in the child and waits for it. One that hangs, as libgomp does when it waits for threads
 * that are gone, is ended by an alarm. */
static inline int support_in_child(int (*body)(void *argument), void *argument) {
    enum { CHILD_SECONDS = 300 };
    int status = 0;
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        alarm(CHILD_SECONDS);
        _exit(body(argument));
    }
    if (child < 0 || waitpid(child, &status, 0) != child)
        return SUPPORT_NO_CHILD;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

#endif
