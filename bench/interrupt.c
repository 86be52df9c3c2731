/* Ctrl-C. */
#define _POSIX_C_SOURCE 200809L
#include "interrupt.h"

#include <stddef.h>
#include <unistd.h>

volatile sig_atomic_t interrupted;

static volatile sig_atomic_t on_terminal;

/* The handler is for one signal: the next one ends the program. */
static void on_interrupt(int number) {
    static const char said[] = "\nending after the run under way; Ctrl-C once more ends at once\n";
    (void)number;
    interrupted = 1;
    ssize_t written = on_terminal ? write(STDERR_FILENO, said, sizeof said - 1) : 0;
    (void)written;
}

void interrupt_catch(void) {
    on_terminal = isatty(STDERR_FILENO);
    struct sigaction action = {.sa_handler = on_interrupt, .sa_flags = (int)SA_RESETHAND};
    sigaction(SIGINT, &action, NULL);
}

bool interrupt_requested(void) {
    return interrupted != 0;
}
