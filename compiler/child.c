/* SPDX-License-Identifier: Apache-2.0 */
/*
 * child.c - runs a child process that can be killed with all its descendants.
 *
 * It uses posix_spawn, because the calling process may have threads. The child
 * has its own process group: a compiler driver starts the real work in further
 * processes, and all of them must be killed on a time-out or when this process
 * is killed.
 */
#include "compiler/child.h"

#include "base/cancel.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/file.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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

/* Copies the environment with LC_ALL=C, because the log is searched for
 * "error:". */
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

/*
 * A shell leads the group. It sets the limits of all processes started in it,
 * and it detects the death of this process: a background reader blocks on the
 * pipe at descriptor 3, whose other end only this process holds. When the pipe
 * closes, the reader kills the group. A signal to the child alone would not
 * reach the processes that a compiler driver starts. The program prints to
 * descriptor 4; the shell itself prints nothing.
 *
 * Arguments: $1 is the limit of processor seconds, $2 the limit of memory in
 * KiB, then the program.
 */
static const char keeper[] =
    "exec 4>&2 2>/dev/null; ulimit -t $1; ulimit -v $2; shift 2\n"
    "{ read -r nothing <&3; kill -9 0; } 4>&- >&- &\n"
    "\"$@\" 2>&4 3<&- 4>&-\n"
    "code=$?; kill -9 $!; exit $code\n";

enum { NOT_FOUND = 127 }; /* the shell's exit status */

/* Returns the command line of a shell that runs `keeper` with the program. The
 * caller frees the list, but not its words. */
static char **make_arguments(const char *path, const char *const *arguments,
                             char seconds[16])
{
    static char memory[] = "4194304"; /* KiB: 4 GiB */
    size_t count = 0, n = 0;

    while (arguments[count] != NULL)
        count++;
    char **list = malloc((count + 8) * sizeof(*list));
    if (list == NULL)
        return NULL;
    list[n++] = (char *)"sh";
    list[n++] = (char *)"-c";
    list[n++] = (char *)keeper;
    list[n++] = (char *)"sh";
    list[n++] = seconds;
    list[n++] = memory;
    list[n++] = (char *)path;
    for (size_t i = 1; i < count; i++)
        list[n++] = (char *)arguments[i];
    list[n] = NULL;
    return list;
}

/* Starts the shell as leader of a new process group. Returns 0 or an errno. */
static int start(pid_t *out, char *const *arguments, char **environment,
                 int write_end, int lifeline)
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
    posix_spawn_file_actions_adddup2(&files, lifeline, 3);
    /* The child must not inherit blocked or ignored signals of the host, or it
     * could not be ended by them. */
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP |
                                              POSIX_SPAWN_SETSIGMASK |
                                              POSIX_SPAWN_SETSIGDEF);
    posix_spawnattr_setpgroup(&attributes, 0);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setsigdefault(&attributes, &all);
    int failure = posix_spawn(out, "/bin/sh", &files, &attributes, arguments,
                              environment);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&files);
    return failure;
}

/* ---- waiting ------------------------------------------------------------- */

enum {
    STEP_MS = 50,    /* between two checks of the clock and the flag */
    MOST_CHUNKS = 16 /* a pipe of 64 KiB holds this many */
};

typedef struct process {
    pid_t id;
    bool ended;
    int exit_code; /* valid after the child ended */
    int output;    /* read end of the pipe; -1 after all writers closed it */
} process;

/* Records the end of the child, if it has ended. With options 0 it waits for
 * the end. */
static void reap(process *child, int options)
{
    int state;
    pid_t found;

    do
        found = waitpid(child->id, &state, options);
    while (found < 0 && errno == EINTR);
    if (found == 0)
        return;
    child->ended = true;
    if (found < 0) /* the host ignores SIGCHLD: rely on the output */
        child->exit_code = 0;
    else
        child->exit_code =
            WIFEXITED(state) ? WEXITSTATUS(state) : 128 + WTERMSIG(state);
}

static void close_output(process *child)
{
    if (child->output >= 0)
        close(child->output);
    child->output = -1;
}

/* Waits up to `wait_ms` for output. Returns false if there was no output. */
static bool read_chunk(spc__buf *to, process *child, int wait_ms)
{
    char chunk[4096];
    struct pollfd wait = {.fd = child->output, .events = POLLIN};

    if (poll(&wait, 1, wait_ms) <= 0)
        return false;
    ssize_t got = read(child->output, chunk, sizeof(chunk));
    if (got < 0 && errno == EINTR)
        return false;
    if (got <= 0)
        close_output(child);
    else
        spc__buf_append(to, chunk, (size_t)got);
    return got > 0;
}

/*
 * Reads until the child has ended. The end of its output is not a reliable
 * sign: the child may close its output and continue, or a process that it
 * leaves behind (a wrapper that starts a server) may keep it open.
 */
static spc_status follow(spc__buf *to, process *child, uint64_t deadline,
                         const volatile int *cancel)
{
    int pause_ms = 1; /* most children end together with their output */

    for (reap(child, WNOHANG); !child->ended; reap(child, WNOHANG)) {
        if (spc__cancelled(cancel))
            return SPC_EINTERRUPTED;
        if (spc__now_ns() >= deadline)
            return SPC_ETIMEOUT;
        if (child->output >= 0) {
            read_chunk(to, child, STEP_MS);
        } else {
            poll(NULL, 0, pause_ms);
            pause_ms = pause_ms * 2 < STEP_MS ? pause_ms * 2 : STEP_MS;
        }
    }
    /* The pipe may still hold output. It is bounded, because a process that was
     * left behind may write for ever. */
    for (int i = 0; i < MOST_CHUNKS && read_chunk(to, child, 0); i++)
        ;
    return SPC_OK;
}

static void close_all(int one, int two)
{
    if (one >= 0)
        close(one);
    if (two >= 0)
        close(two);
}

/* Makes a pipe whose ends are not standard descriptors. On failure it returns
 * false and sets errno. */
static bool make_pipe(int ends[2])
{
    if (pipe2(ends, O_CLOEXEC) != 0)
        return false;
    ends[0] = spc__fd_raise(ends[0]);
    ends[1] = spc__fd_raise(ends[1]);
    return ends[0] >= 0 && ends[1] >= 0;
}

/* Starts the program. The caller closes *lifeline after the program has
 * ended. */
static int start_kept(process *child, int *lifeline, const char *path,
                      const char *const *arguments, const char *folder,
                      int limit_seconds)
{
    spc__buf temp_dir = SPC__BUF_INIT;
    char seconds[16], **environment = NULL, **words = NULL;
    int output[2] = {-1, -1}, life[2] = {-1, -1}, failure = ENOMEM;

    /* The shell's limit is a little longer, so that the limit of this process
     * expires first. */
    snprintf(seconds, sizeof(seconds), "%d", limit_seconds + 5);
    spc__buf_printf(&temp_dir, "TMPDIR=%s", folder != NULL ? folder : "");
    if (!temp_dir.failed)
        environment = make_environment(temp_dir.data, folder);
    words = make_arguments(path, arguments, seconds);
    if (!make_pipe(output) || !make_pipe(life))
        failure = errno;
    else if (environment != NULL && words != NULL)
        failure = start(&child->id, words, environment, output[1], life[0]);
    free(environment);
    free(words);
    spc__buf_release(&temp_dir);
    /* The child has its own copies. While this process held one, the pipe would
     * never end. */
    close_all(output[1], life[0]);
    if (failure != 0)
        close_all(output[0], life[1]);
    child->output = output[0];
    *lifeline = life[1];
    return failure;
}

/* Checks for errors that the shell would hide. */
static int find_obstacle(const char *path)
{
    return strchr(path, '/') != NULL && access(path, X_OK) != 0 ? errno : 0;
}

static spc_status fail_start(const char *path, int cause, spc_error *error)
{
    return spc__fail(error, SPC_EUNSUPPORTED, "cannot run '%s': %s", path,
                     strerror(cause));
}

spc_status spc__child_run(int *exit_code, spc__buf *output, const char *path,
                          const char *const *arguments, const char *folder,
                          int limit_seconds, const volatile int *cancel,
                          spc_error *error)
{
    process child = {0};
    int lifeline, failure = find_obstacle(path);

    if (failure == 0)
        failure = start_kept(&child, &lifeline, path, arguments, folder,
                             limit_seconds);
    if (failure != 0)
        return fail_start(path, failure, error);
    spc_status status =
        follow(output, &child,
               spc__now_ns() + (uint64_t)limit_seconds * 1000000000ull, cancel);
    if (status != SPC_OK)
        /* Kills the whole group, including the children of a compiler
         * driver. */
        kill(-child.id, SIGKILL);
    close_output(&child);
    if (!child.ended)
        reap(&child, 0);
    /* Closes the lifeline only now: earlier, the keeper would kill the
     * group. */
    close(lifeline);
    *exit_code = child.exit_code;
    if (status == SPC_OK && child.exit_code == NOT_FOUND &&
        strchr(path, '/') == NULL)
        status = fail_start(path, ENOENT, error);
    if (status == SPC_ETIMEOUT)
        spc__fail(error, status, "'%s' was killed after %d seconds", path,
                  limit_seconds);
    if (status == SPC_EINTERRUPTED)
        spc__interrupted(error);
    return status;
}
