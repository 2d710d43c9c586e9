/* SPDX-License-Identifier: Apache-2.0 */
/*
 * signals.c - SIGINT, SIGTERM and SIGHUP, and SIGUSR1 for commands that can be
 * resumed: the first sets a flag that all long work checks, the second ends the
 * program.
 *
 * A thread waits for them, since at the end files must be removed, which a
 * signal handler may not do. All temporary folders, including those of killed
 * workers, are in one folder, which is removed at the end in both cases.
 */
#include "command/cli/cli.h"

#include "base/file.h"
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* The program's only variable of file scope, as signals are global. */
static struct {
    volatile int cancel;
    bool caught;  /* a thread waits for signals */
    bool resumes; /* another run can continue the command */
    int first;    /* the first signal received; 0: none */
    bool talks;   /* messages go to a terminal */
    int lock;     /* lock of the folder */
    char folder[4096];
} signals;

const volatile int *cli_cancel_flag(void)
{
    return &signals.cancel;
}

bool cli_was_preempted(void)
{
    int first = __atomic_load_n(&signals.first, __ATOMIC_RELAXED);

    return signals.resumes && (first == SIGTERM || first == SIGUSR1);
}

/* ---- temporary files ----------------------------------------------------- */

/* If we are killed, the next process removes the folder. */
static void make_folder(void)
{
    spc__buf path = SPC__BUF_INIT;

    /* First removes folders that killed processes left. */
    spc__work_dirs_sweep(NULL);
    /* Code that needs a file will report the missing space. */
    if (spc__work_dir_create(&path, &signals.lock, NULL, NULL) == SPC_OK &&
        path.length < sizeof(signals.folder) &&
        setenv("TMPDIR", path.data, 1) == 0)
        memcpy(signals.folder, path.data, path.length + 1);
    spc__buf_release(&path);
}

void cli_tidy(void)
{
    /* A compiler that is being killed may still create a file: try again. */
    for (int i = 0; signals.folder[0] != '\0' && i < 3; i++) {
        spc__temp_dir_remove(signals.folder);
        if (access(signals.folder, F_OK) != 0)
            break;
    }
}

/*
 * If the reader of the output has closed the pipe, the program ends
 * immediately, as usual. A signal handler is enough here: output is printed
 * only after all files in the folder were removed.
 */
static void on_broken_pipe(int number)
{
    rmdir(signals.folder);
    signal(number, SIG_DFL);
    raise(number);
}

/* ---- waiting ------------------------------------------------------------- */

/* Overwrites the line of progress. */
static void say(const char *text)
{
    if (signals.talks)
        fprintf(stderr, "\r\033[Kspctune: %s\n", text);
}

/* The thread for signals. The second one ends the program from here, as work
 * that checks no flag may go on for long. */
static void *wait_for_signals(void *payload)
{
    /* Compilers need this long to notice the flag and to be killed. */
    const struct timespec pause = {0, 100 * 1000 * 1000};
    const sigset_t *set = payload;
    int number;

    if (sigwait(set, &number) != 0)
        return NULL;
    __atomic_store_n(&signals.first, number, __ATOMIC_RELAXED);
    __atomic_store_n(&signals.cancel, 1, __ATOMIC_RELAXED);
    say("stopping; a second signal ends it at once");
    if (sigwait(set, &number) != 0)
        return NULL;
    nanosleep(&pause, NULL);
    cli_tidy();
    _exit(cli_was_preempted() ? CLI_PREEMPTED
                              : spc_status_exit_code(SPC_EINTERRUPTED));
}

/* True if the signal is ignored, as nohup does for SIGHUP. */
static bool is_ignored(int number)
{
    struct sigaction now;

    return sigaction(number, NULL, &now) == 0 && now.sa_handler == SIG_IGN;
}

void cli_catch_signals(const cli *self)
{
    static sigset_t set;
    pthread_t thread;

    if (signals.caught)
        return;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    /* Schedulers send it some time before they end a job. */
    signals.resumes = self->command != NULL && self->command->resumes;
    if (signals.resumes)
        sigaddset(&set, SIGUSR1);
    if (!is_ignored(SIGHUP))
        sigaddset(&set, SIGHUP);
    /* All threads inherit the mask, so only our thread receives the signals. */
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    signals.talks = !self->globals.quiet && isatty(STDERR_FILENO);
    signals.caught = pthread_create(&thread, NULL, wait_for_signals, &set) == 0;
    if (!signals.caught) {
        pthread_sigmask(SIG_UNBLOCK, &set, NULL);
        return;
    }
    pthread_detach(thread);
    make_folder();
    if (!is_ignored(SIGPIPE))
        signal(SIGPIPE, on_broken_pipe);
}

spc_status cli_run_apart(void *(*work)(void *payload), void *payload)
{
    enum {
        STEP_NS = 50 * 1000 * 1000
    }; /* time between two checks of the
        * flag */
    pthread_t thread;

    /* Without a thread the work cannot be interrupted, but it is done. */
    if (pthread_create(&thread, NULL, work, payload) != 0) {
        work(payload);
        return SPC_OK;
    }
    while (!*cli_cancel_flag()) {
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += STEP_NS;
        until.tv_sec += until.tv_nsec / 1000000000;
        until.tv_nsec %= 1000000000;
        if (pthread_timedjoin_np(thread, NULL, &until) == 0)
            return SPC_OK;
    }
    /* The thread continues until the process ends, as its work checks no
     * flag. */
    pthread_detach(thread);
    return SPC_EINTERRUPTED;
}
