/* Ctrl-C. */
#define _POSIX_C_SOURCE 200809L
#include "interrupt.h"

#include <stddef.h>

volatile sig_atomic_t interrupted;

static void on_interrupt(int number) {
    (void)number;
    interrupted = 1;
}

void interrupt_catch(void) {
    struct sigaction action = {.sa_handler = on_interrupt, .sa_flags = (int)SA_RESETHAND};
    sigaction(SIGINT, &action, NULL);
}

bool interrupt_requested(void) {
    return interrupted != 0;
}
