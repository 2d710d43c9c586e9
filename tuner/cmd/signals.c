/*
 * signals.c - one flag that SIGINT and SIGTERM set.
 *
 * A signal handler has no argument, so this flag is the program's one variable
 * of file scope. A second signal ends the program at once.
 */
#include "cli.h"

#include <signal.h>
#include <stddef.h>

static volatile int cancel;

static void on_signal(int number)
{
    if (cancel) {
        signal(number, SIG_DFL);
        raise(number);
    }
    cancel = 1;
}

const volatile int *cli_cancel_flag(void)
{
    return &cancel;
}

void cli_catch_signals(void)
{
    struct sigaction action = {0};

    action.sa_handler = on_signal;
    sigemptyset(&action.sa_mask);
    action.sa_flags = SA_RESTART;
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
}
