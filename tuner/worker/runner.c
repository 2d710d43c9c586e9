/* SPDX-License-Identifier: Apache-2.0 */
/* runner.c - sends requests to a harness in this process or in a worker. */
#include "tuner/worker/runner.h"

#include "base/cancel.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/file.h"
#include "tuner/worker/wire.h"
#include "tuner/worker/worker_clock.h"
#include "tuner/worker/worker_limits.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

/* A worker opens a device and may have to compile the kernels of its maps. */
static const double start_limit_s = 180;
/*
 * Time beyond the limit, for transfers and loading. The repetitions of a
 * finalist depend on its layer's promises.
 */
static const double grace_s = 2;
static const double confirming_grace_s = 20;

enum {
    /* attempts of a request, if the candidate is not at fault */
    TRIES = 3,
    PROBE_LIMIT_S = 1, /* a small kernel takes microseconds */
    PROBES = 60        /* attempts before the device counts as lost */
};

struct spc__runner {
    spc_ctx *ctx;
    const spc__sample *sample;
    spc__runner_options options;
    spc__harness *harness; /* the harness in this process */
    pid_t pid;     /* 0: no worker runs */
    int socket;
    unsigned number;         /* number of the last request */
    spc__worker_clock clock; /* measures this request */
    bool *loaded;            /* for each slot: loaded in the current worker */
    int loaded_count;
    /* signal that ended the last worker, unless this process sent it; 0:
     * none */
    int ended_by;
    int exit_status; /* valid if the worker exited by itself */
    bool must_probe; /* a worker was killed: the device may still be busy */
};

spc_status spc__runner_create(spc__runner **out, spc_ctx *ctx,
                              const spc__sample *sample,
                              const spc__runner_options *options,
                              spc_error *error)
{
    spc__runner *runner = calloc(1, sizeof(*runner));

    *out = runner;
    if (runner == NULL)
        return spc__fail_memory(error, sizeof(*runner));
    runner->ctx = ctx;
    runner->sample = sample;
    runner->options = *options;
    runner->socket = -1;
    return SPC_OK;
}

/* ---- the worker process -------------------------------------------------- */

/* Starts the worker with the two descriptors that it expects. */
static int spawn(pid_t *pid, const char *const *argv, int socket, int sample)
{
    posix_spawn_file_actions_t actions;
    int code = posix_spawn_file_actions_init(&actions);

    if (code != 0)
        return code;
    /*
     * The worker's output goes to standard error, because candidates may print
     * and standard output carries results.
     */
    if (fcntl(2, F_GETFD) < 0)
        posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, 2, 1);
    posix_spawn_file_actions_adddup2(&actions, socket, SPC__WIRE_SOCKET);
    posix_spawn_file_actions_adddup2(&actions, sample, SPC__WIRE_SAMPLE);
    code = posix_spawnp(pid, argv[0], &actions, NULL, (char *const *)argv,
                        environ);
    posix_spawn_file_actions_destroy(&actions);
    return code;
}

/* Ends the worker, and describes how it ended. */
static void reap(spc__runner *runner, bool wait_first, char *how, size_t bytes)
{
    const struct timespec pause = {0, 10 * 1000 * 1000};
    int code = 0;
    pid_t gone = 0;

    if (runner->pid == 0)
        return;
    /* Closes the socket first, as an idle worker ends when it closes. */
    close(runner->socket);
    /* A worker that closed its socket is about to end, and only its own exit
     * status shows why. It therefore has a second before it is killed. */
    for (int i = 0; wait_first && gone == 0 && i < 100; i++)
        if ((gone = waitpid(runner->pid, &code, WNOHANG)) == 0)
            nanosleep(&pause, NULL);
    if (gone == 0) {
        kill(runner->pid, SIGKILL);
        runner->must_probe = true;
        while (waitpid(runner->pid, &code, 0) < 0 && errno == EINTR)
            ;
    }
    runner->ended_by = gone != 0 && WIFSIGNALED(code) ? WTERMSIG(code) : 0;
    runner->exit_status = WIFEXITED(code) ? WEXITSTATUS(code) : 0;
    runner->must_probe |= WIFSIGNALED(code);
    if (how != NULL && WIFSIGNALED(code))
        snprintf(how, bytes, "signal %d (%s)", WTERMSIG(code),
                 strsignal(WTERMSIG(code)));
    else if (how != NULL)
        snprintf(how, bytes, "exit status %d", WEXITSTATUS(code));
    runner->pid = 0;
    runner->socket = -1;
    /* A new worker has loaded nothing. */
    for (int i = 0; i < runner->loaded_count; i++)
        runner->loaded[i] = false;
}

/* Waits until the worker is ready. The magic number comes with the first
 * message: a worker of another build would misread all later ones. */
static spc_status greet(spc__runner *runner, spc_error *error)
{
    spc__wire_reply hello;
    char how[64] = "";
    spc_status status = spc__wire_receive(runner->socket, &hello, sizeof(hello),
                                          start_limit_s, runner->ctx->cancel);

    if (status == SPC_OK && hello.magic == SPC__WIRE_MAGIC &&
        hello.run.status == SPC_OK)
        return SPC_OK;
    reap(runner, status == SPC_EIO, how, sizeof(how));
    if (spc__cancelled(runner->ctx->cancel))
        return spc__interrupted(error);
    if (status != SPC_OK)
        return spc__fail(
            error, SPC_EDEVICE, "the measuring worker '%s' was not ready %s%s",
            runner->options.worker[0],
            status == SPC_ETIMEOUT ? "in time: killed, " : "before its end: ",
            how);
    if (hello.magic != SPC__WIRE_MAGIC)
        return spc__fail(error, SPC_ESTATE,
                         "the measuring worker '%s' is another build of libspc",
                         runner->options.worker[0]);
    *error = hello.run;
    return error->status;
}

/* Starts a worker with one end of a socket pair, and the sample in a shared
 * file. All descriptors close on exec, but for the copies that spawn() makes;
 * they are raised first, so that dup2() onto the worker's fixed numbers
 * overwrites none of them. */
static spc_status start_process(spc__runner *runner, spc_error *error)
{
    int ends[2] = {-1, -1};
    int code;

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
        return spc__fail(error, SPC_EIO, "cannot make a socket pair: %s",
                         strerror(errno));
    int ours = spc__fd_raise(ends[0]);
    int theirs = spc__fd_raise(ends[1]);
    int sample = fcntl(runner->sample->fd, F_DUPFD_CLOEXEC, SPC__FD_RAISED);
    if (ours < 0 || theirs < 0 || sample < 0)
        code = errno;
    else
        code = spawn(&runner->pid, runner->options.worker, theirs, sample);
    /* Only the worker may hold the other end, so that its death closes it. */
    if (theirs >= 0)
        close(theirs);
    if (sample >= 0)
        close(sample);
    if (code != 0) {
        if (ours >= 0)
            close(ours);
        runner->pid = 0;
        return spc__fail(error, SPC_EIO,
                         "cannot start the measuring worker '%s': %s",
                         runner->options.worker[0], strerror(code));
    }
    runner->socket = ours;
    return greet(runner, error);
}

static spc_status exchange(spc__runner *runner, spc__wire_request *request,
                           spc__wire_reply *reply);

/* Checks that the current worker can run a small kernel; ends it if not. */
static bool is_free(spc__runner *runner)
{
    spc__wire_request probe = {.op = SPC__WIRE_PROBE};
    spc__wire_reply reply;
    bool answers = exchange(runner, &probe, &reply) == SPC_OK &&
                   !reply.outcome.dead && reply.outcome.trouble == SPC_OK &&
                   reply.outcome.status == SPC__TRIAL_OK;

    if (!answers)
        reap(runner, false, NULL, 0);
    return answers;
}

/*
 * Starts a worker on a device that responds. Kernels of a killed worker may
 * still run on a GPU; the next candidate would wait for them and seem to hang.
 * The host's processors do not queue kernels.
 */
static spc_status start_worker(spc__runner *runner, spc_error *error)
{
    const spc__device_ops *ops = spc__device_ops_of(runner->ctx->device);
    spc_status status;

    if (runner->pid != 0)
        return SPC_OK;
    for (int i = 0; i < PROBES; i++) {
        if ((status = start_process(runner, error)) != SPC_OK)
            return status;
        if (!runner->must_probe || ops->runs_on_host_cores || is_free(runner)) {
            runner->must_probe = false;
            return SPC_OK;
        }
        if (spc__cancelled(runner->ctx->cancel))
            return spc__interrupted(error);
    }
    return spc__fail(error, SPC_EDEVICE,
                     "%s no longer runs even a small kernel since a worker was killed: reset it, or restart the machine",
                     runner->ctx->info.id);
}

/*
 * The time limit of a worker. A timed candidate may hang, and again in a fresh
 * worker: both together cost no more than the limit and the time for its
 * samples.
 */
static double limit_of(const spc__runner *runner,
                       const spc__wire_request *request)
{
    double limit = runner->options.limit_s;

    switch (request->op) {
    case SPC__WIRE_TIME:
        return limit / 2 + request->order.limit_s;
    case SPC__WIRE_CONFIRM:
        return limit + confirming_grace_s;
    case SPC__WIRE_PROBE:
        return PROBE_LIMIT_S;
    default:
        return limit + grace_s;
    }
}

/*
 * Waits for a reply until the worker's own clock exceeds the limit: on a busy
 * machine it waits for processors, which no candidate causes. Polls in slices,
 * to notice a cancel whose signal another thread received.
 */
static spc_status await_reply(spc__runner *runner, double limit_s)
{
    enum { SLICE_MS = 50 };
    uint64_t start = spc__now_ns();
    struct pollfd one = {runner->socket, POLLIN, 0};

    for (;;) {
        int ready = poll(&one, 1, SLICE_MS);
        double wall_s = (double)(spc__now_ns() - start) * 1e-9;
        if (spc__cancelled(runner->ctx->cancel))
            return SPC_EINTERRUPTED;
        if (ready > 0)
            return SPC_OK;
        if (ready < 0 && errno != EINTR)
            return SPC_EIO;
        if (wall_s > limit_s &&
            spc__worker_clock_read(&runner->clock) > limit_s)
            return SPC_ETIMEOUT;
    }
}

/*
 * Makes one exchange with a running worker. SPC_EFORMAT: the data received is
 * no reply to this request.
 */
static spc_status exchange(spc__runner *runner, spc__wire_request *request,
                           spc__wire_reply *reply)
{
    size_t bytes = request->code.code_bytes;
    spc_status status;

    request->magic = SPC__WIRE_MAGIC;
    request->limit_s = limit_of(runner, request);
    request->number = ++runner->number;
    /* Bytes before the request can only be written by a candidate. */
    if (!spc__wire_is_silent(runner->socket))
        return SPC_EFORMAT;
    status = spc__wire_send(runner->socket, request, sizeof(*request),
                            request->limit_s, runner->ctx->cancel);
    if (status == SPC_OK)
        status = spc__wire_send(runner->socket, request->code.code, bytes,
                                request->limit_s, runner->ctx->cancel);
    if (status != SPC_OK)
        return status;
    /* After sending: the transfer is not the candidate's time. */
    spc__worker_clock_start(&runner->clock, runner->pid);
    if ((status = await_reply(runner, request->limit_s)) == SPC_OK)
        status = spc__wire_receive(runner->socket, reply, sizeof(*reply),
                                   request->limit_s, runner->ctx->cancel);
    if (status == SPC_OK &&
        (reply->magic != SPC__WIRE_MAGIC || reply->number != request->number))
        status = SPC_EFORMAT;
    return status;
}

/* Handles a worker that ended before its reply. */
static void blame_end(spc__outcome *out, const spc__runner *runner,
                      const char *how)
{
    out->status = SPC__TRIAL_FAULT;
    if (runner->ended_by == SIGXCPU) {
        out->status = SPC__TRIAL_TIMEOUT;
        snprintf(out->note, sizeof(out->note),
                 "had all processors for longer than its limit: ended by %s",
                 how);
    } else if (runner->ended_by == 0 &&
               runner->exit_status == SPC__LIMITS_GROWN) {
        snprintf(out->note, sizeof(out->note),
                 "took more than %.1f GiB of memory besides its arrays",
                 (double)spc__limits_memory() / (1 << 30));
    } else {
        /*
         * A candidate does not kill itself with SIGKILL; the kernel does when
         * memory runs out.
         */
        out->trouble = runner->ended_by == SIGKILL ? SPC_ENOMEM : SPC_OK;
        snprintf(out->note, sizeof(out->note), "its process ended by %s", how);
    }
}

/* Turns the end of a worker into the outcome of its candidate. */
static spc_status blame(spc__outcome *out, spc__runner *runner,
                        spc_status status, spc_error *error)
{
    char how[64] = "";

    reap(runner, status == SPC_EIO, how, sizeof(how));
    /* Ctrl-C also reached the worker. */
    if (spc__cancelled(runner->ctx->cancel))
        return spc__interrupted(error);
    memset(out, 0, sizeof(*out));
    if (status == SPC_ETIMEOUT) {
        out->status = SPC__TRIAL_TIMEOUT;
        snprintf(out->note, sizeof(out->note),
                 "did not end within the limit of %g s",
                 runner->options.limit_s);
    } else if (status == SPC_EFORMAT) {
        out->status = SPC__TRIAL_FAULT;
        snprintf(
            out->note, sizeof(out->note),
            "wrote to a foreign descriptor: its worker's replies are invalid");
    } else {
        blame_end(out, runner, how);
    }
    return SPC_OK;
}

/* Compares with the words of gate.h. */
static bool is_out_of_bounds(const spc__outcome *out)
{
    return out->status == SPC__TRIAL_WRONG &&
           (strncmp(out->note, "canary:", 7) == 0 ||
            strncmp(out->note, "read-only:", 10) == 0);
}

/* Tries once, with the current worker or a new one. */
static spc_status ask_worker(spc__outcome *out, spc__runner *runner,
                             spc__wire_request *request, spc_error *error)
{
    spc__wire_reply reply;
    spc_status status = start_worker(runner, error);

    if (status != SPC_OK)
        return status;
    if ((status = exchange(runner, request, &reply)) != SPC_OK)
        return blame(out, runner, status, error);
    *out = reply.outcome;
    /*
     * An out-of-bounds write may have hit more than was found, so the worker is
     * replaced.
     */
    if (out->dead || out->trouble != SPC_OK || is_out_of_bounds(out))
        reap(runner, false, NULL, 0);
    return SPC_OK;
}

/* ---- requests ------------------------------------------------------------ */

static spc_status start_harness(spc__runner *runner, spc_error *error)
{
    return runner->harness != NULL
               ? SPC_OK
               : spc__harness_create(&runner->harness, runner->ctx,
                                     runner->sample, error);
}

spc_status spc__runner_start(spc__runner *runner, spc_error *error)
{
    return runner->options.in_worker ? start_worker(runner, error)
                                     : start_harness(runner, error);
}

static spc_status fail_troubled(const spc__outcome *out,
                                const spc__harness_code *code, spc_error *error)
{
    return spc__fail(error, out->trouble,
                     "the measuring process fails, not the candidates: %s; "
                     "'%s' was tried last",
                     out->note, code->template_name);
}

/* Carries a request out in this process. Nothing protects it from a candidate's
 * fault, so a lost device ends the run. */
static spc_status ask_harness(spc__outcome *out, spc__runner *runner,
                              const spc__wire_request *request,
                              spc_error *error)
{
    spc_status status = start_harness(runner, error);

    if (status != SPC_OK)
        return status;
    if (request->op == SPC__WIRE_VERIFY)
        spc__harness_verify(out, runner->harness, request->slot,
                            &request->code);
    else if (request->op == SPC__WIRE_LOAD)
        spc__harness_load(out, runner->harness, request->slot, &request->code);
    else if (request->op == SPC__WIRE_TIME)
        spc__harness_time(out, runner->harness, request->slot, &request->order);
    else if (request->op == SPC__WIRE_CONFIRM)
        spc__harness_confirm(out, runner->harness, request->slot);
    if (spc__cancelled(runner->ctx->cancel)) /* not the candidate's fault */
        return spc__interrupted(error);
    if (out->trouble != SPC_OK)
        return fail_troubled(out, &request->code, error);
    if (out->dead)
        return spc__fail(error, SPC_EDEVICE,
                         "the device is lost to this process after '%s': %s; "
                         "tune in a worker process to survive this",
                         request->code.template_name, out->note);
    return SPC_OK;
}

/* Makes one request, in a worker or in this process. */
static spc_status ask(spc__outcome *out, spc__runner *runner,
                      spc__wire_request *request, spc_error *error)
{
    memset(out, 0, sizeof(*out));
    if (spc__cancelled(runner->ctx->cancel))
        return spc__interrupted(error);
    return runner->options.in_worker ? ask_worker(out, runner, request, error)
                                     : ask_harness(out, runner, request, error);
}

/* Waits longer at each attempt, so that a missing resource can become available
 * again. */
static void nap(int seconds)
{
    const struct timespec pause = {seconds, 100 * 1000 * 1000};

    nanosleep(&pause, NULL);
}

/* A request together with its preparation. */
typedef spc_status (*attempt)(spc__outcome *out, spc__runner *runner,
                              const spc__harness_code *code,
                              spc__wire_request *request, spc_error *error);

/* True for a verdict that the worker's state may have caused. */
static bool is_doubtful(const spc__outcome *out)
{
    return out->status == SPC__TRIAL_TIMEOUT || out->status == SPC__TRIAL_FAULT;
}

/*
 * A failure of the harness does not count against the candidate. The request is
 * retried in a fresh worker after a while, and ends the run if the failure
 * persists. A timeout or a fault may be the effect of an earlier candidate on
 * the worker: it counts only if a fresh worker repeats it.
 */
static spc_status ask_firmly(attempt try_once, spc__outcome *out,
                             spc__runner *runner, const spc__harness_code *code,
                             spc__wire_request *request, spc_error *error)
{
    bool repeated = false;
    spc_status status;

    for (int troubles = 0; troubles < TRIES;) {
        status = try_once(out, runner, code, request, error);
        if (status != SPC_OK || !runner->options.in_worker)
            break;
        if (out->trouble != SPC_OK)
            nap(troubles++);
        else if (is_doubtful(out) && !repeated)
            repeated = true;
        else
            break;
        reap(runner, false, NULL, 0);
    }
    if (status == SPC_OK && out->trouble != SPC_OK)
        status = fail_troubled(out, code, error);
    return status;
}

/* Records which slots the current worker has loaded. */
static bool remember(spc__runner *runner, int slot, bool is_loaded)
{
    if (slot >= runner->loaded_count) {
        int count = 2 * slot + 64;
        bool *more = realloc(runner->loaded, (size_t)count * sizeof(*more));
        if (more == NULL)
            return false;
        memset(more + runner->loaded_count, 0,
               (size_t)(count - runner->loaded_count));
        runner->loaded = more;
        runner->loaded_count = count;
    }
    runner->loaded[slot] = is_loaded;
    return true;
}

static spc_status verify(spc__outcome *out, spc__runner *runner,
                         const spc__harness_code *code,
                         spc__wire_request *request, spc_error *error)
{
    (void)code;
    return ask(out, runner, request, error);
}

spc_status spc__runner_verify(spc__outcome *out, spc__runner *runner, int slot,
                              const spc__harness_code *code, spc_error *error)
{
    spc__wire_request request = {
        .op = SPC__WIRE_VERIFY, .slot = slot, .code = *code};

    /* The entry exists before the request, so that noting the answer cannot
     * fail. */
    if (!remember(runner, slot, false))
        return spc__fail_memory(error, (size_t)slot);
    spc_status status = ask_firmly(verify, out, runner, code, &request, error);
    runner->loaded[slot] =
        status == SPC_OK && out->status == SPC__TRIAL_OK && !out->dead;
    return status;
}

/*
 * Sends a request for a loaded candidate; loads it again if its worker has
 * ended.
 */
static spc_status ask_loaded(spc__outcome *out, spc__runner *runner,
                             const spc__harness_code *code,
                             spc__wire_request *request, spc_error *error)
{
    int slot = request->slot;
    spc__wire_request load = {
        .op = SPC__WIRE_LOAD, .slot = slot, .code = *code};
    spc_status status;

    if (slot >= runner->loaded_count && !remember(runner, slot, false))
        return spc__fail_memory(error, (size_t)slot);
    if (!runner->loaded[slot]) {
        if ((status = ask(out, runner, &load, error)) != SPC_OK ||
            out->status != SPC__TRIAL_OK || out->trouble != SPC_OK)
            return status;
        runner->loaded[slot] = !out->dead;
    }
    return ask(out, runner, request, error);
}

spc_status spc__runner_time(spc__outcome *out, spc__runner *runner, int slot,
                            const spc__harness_code *code,
                            const spc__harness_order *order, spc_error *error)
{
    spc__wire_request time = {
        .op = SPC__WIRE_TIME, .slot = slot, .order = *order};

    return ask_firmly(ask_loaded, out, runner, code, &time, error);
}

spc_status spc__runner_confirm(spc__outcome *out, spc__runner *runner, int slot,
                               const spc__harness_code *code, spc_error *error)
{
    spc__wire_request confirm = {.op = SPC__WIRE_CONFIRM, .slot = slot};
    spc_status status =
        ask_firmly(ask_loaded, out, runner, code, &confirm, error);

    if (status == SPC_OK && out->status != SPC__TRIAL_OK)
        runner->loaded[slot] = false; /* the harness has dropped the
                                       * candidate */
    return status;
}

spc_status spc__runner_unload(spc__runner *runner, int slot, spc_error *error)
{
    spc__wire_request request = {.op = SPC__WIRE_UNLOAD, .slot = slot};
    spc__outcome out;

    if (slot >= runner->loaded_count || !runner->loaded[slot])
        return SPC_OK;
    runner->loaded[slot] = false;
    if (runner->harness != NULL) {
        spc__harness_unload(runner->harness, slot);
        return SPC_OK;
    }
    return ask(&out, runner, &request, error);
}

void spc__runner_free(spc__runner *runner)
{
    if (runner == NULL)
        return;
    reap(runner, false, NULL, 0);
    spc__harness_free(runner->harness);
    free(runner->loaded);
    free(runner);
}
