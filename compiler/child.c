/*
 * child.c - a killable child process.
 *
 * posix_spawn, because the process that calls may have threads. The child leads
 * a process group of its own, since a compiler driver starts the real work in
 * children of its own, and all of them must go.
 */
#include "child.h"

#include "cancel.h"
#include "clock.h"
#include "error.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

/* ---- environment --------------------------------------------------------- */

static bool is_replaced(const char *entry, const char *folder)
{
    return strncmp(entry, "LC_ALL=", 7) == 0 ||
           strncmp(entry, "LANGUAGE=", 9) == 0 ||
           (folder != NULL && strncmp(entry, "TMPDIR=", 7) == 0);
}

/* Our environment with LC_ALL=C, because the log is searched for "error:". */
static char **make_environment(char *temp_dir, const char *folder)
{
    static char english[] = "LC_ALL=C";
    size_t count = 0, kept = 0;

    while (environ != NULL && environ[count] != NULL)
        count++;
    char **list = malloc((count + 3) * sizeof(*list));
    if (list == NULL)
        return NULL;
    for (size_t i = 0; i < count; i++)
        if (!is_replaced(environ[i], folder))
            list[kept++] = environ[i];
    list[kept++] = english;
    if (folder != NULL)
        list[kept++] = temp_dir;
    list[kept] = NULL;
    return list;
}

/* ---- starting ------------------------------------------------------------ */

static const struct rlimit most_memory = {(rlim_t)8 << 30, (rlim_t)8 << 30};

static int start(pid_t *out, const char *path, const char *const *arguments,
                 char **environment, int write_end)
{
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attributes;
    sigset_t none, all;

    sigemptyset(&none);
    sigfillset(&all);
    if (posix_spawn_file_actions_init(&files) != 0)
        return ENOMEM;
    if (posix_spawnattr_init(&attributes) != 0) {
        posix_spawn_file_actions_destroy(&files);
        return ENOMEM;
    }
    posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&files, write_end, 1);
    posix_spawn_file_actions_adddup2(&files, write_end, 2);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP |
                                              POSIX_SPAWN_SETSIGMASK |
                                              POSIX_SPAWN_SETSIGDEF);
    posix_spawnattr_setpgroup(&attributes, 0);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setsigdefault(&attributes, &all);
    /* The prototype lacks a const; the arguments are not written to. */
    int failure = posix_spawnp(out, path, &files, &attributes,
                               (char *const *)arguments, environment);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&files);
    if (failure == 0) /* a source that never ends must not take all memory */
        prlimit(*out, RLIMIT_AS, &most_memory, NULL);
    return failure;
}

/* ---- waiting ------------------------------------------------------------- */

enum { STEP_MS = 50 }; /* between two looks at the clock and the flag */

/* Reads until all writers are gone: SPC_OK. */
static spc_status drain(spc__buf *output, int fd, uint64_t deadline,
                        const volatile int *cancel)
{
    char chunk[4096];

    for (;;) {
        if (spc__cancelled(cancel))
            return SPC_EINTERRUPTED;
        if (spc__now_ns() >= deadline)
            return SPC_ETIMEOUT;
        struct pollfd wait = {.fd = fd, .events = POLLIN};
        int ready = poll(&wait, 1, STEP_MS);
        if (ready <= 0)
            continue;
        ssize_t got = read(fd, chunk, sizeof(chunk));
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return SPC_OK;
        spc__buf_append(output, chunk, (size_t)got);
    }
}

static int reap(pid_t child)
{
    int state;

    while (waitpid(child, &state, 0) < 0)
        if (errno != EINTR)
            return 0; /* the host ignores SIGCHLD; the output will tell */
    return WIFEXITED(state) ? WEXITSTATUS(state) : 128 + WTERMSIG(state);
}

spc_status spc__child_run(int *exit_code, spc__buf *output, const char *path,
                          const char *const *arguments, const char *folder,
                          int limit_seconds, const volatile int *cancel,
                          spc_error *error)
{
    spc__buf temp_dir = SPC__BUF_INIT;
    int pipe_ends[2];
    pid_t child;

    if (pipe2(pipe_ends, O_CLOEXEC) != 0)
        return spc__fail(error, SPC_EIO, "cannot make a pipe: %s",
                         strerror(errno));
    spc__buf_printf(&temp_dir, "TMPDIR=%s", folder != NULL ? folder : "");
    char **environment =
        temp_dir.failed ? NULL : make_environment(temp_dir.data, folder);
    int failure = environment == NULL ? ENOMEM
                                      : start(&child, path, arguments,
                                              environment, pipe_ends[1]);
    free(environment);
    spc__buf_release(&temp_dir);
    close(pipe_ends[1]);
    if (failure != 0) {
        close(pipe_ends[0]);
        return spc__fail(error, SPC_EUNSUPPORTED, "cannot run '%s': %s", path,
                         strerror(failure));
    }
    spc_status status =
        drain(output, pipe_ends[0],
              spc__now_ns() + (uint64_t)limit_seconds * 1000000000ull, cancel);
    if (status != SPC_OK)
        kill(-child, SIGKILL);
    close(pipe_ends[0]);
    *exit_code = reap(child);
    if (status == SPC_ETIMEOUT)
        spc__fail(error, status, "'%s' was killed after %d seconds", path,
                  limit_seconds);
    if (status == SPC_EINTERRUPTED)
        spc__interrupted(error);
    return status;
}
