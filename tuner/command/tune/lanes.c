/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lanes.c - processes that share a list.
 *
 * They start before this process opens a device or starts a thread, as neither
 * survives a fork. Each writes the output of its items to a pipe, with a byte
 * of 0 after every item; so items stay whole, in the order in which they end.
 * This process receives the signals and passes them on.
 */
#include "command/tune/lanes.h"
#include "command/cli/output.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

typedef struct child {
    pid_t pid;
    int pipe;      /* -1: closed */
    spc__buf text; /* output of the current item */
} child;

typedef struct family {
    tune_list *list;
    const lanes *devices;
    child at[PROGRESS_LANES];
    int count, open, items; /* number of items printed */
    bool stopped;
    spc__buf json; /* the output of --json at the end */
    progress progress;
} family;

/* ---- choice of devices --------------------------------------------------- */

/*
 * A driver that was initialised here would be unusable in children, so a child
 * counts the GPUs.
 */
static int count_gpus(void)
{
    spc_device_info *info;
    int status, found = 0;
    pid_t pid = fork();

    if (pid < 0)
        return 0;
    if (pid == 0) {
        info = calloc(PROGRESS_LANES, sizeof(*info));
        int count = info != NULL ? spc_devices_list(info, PROGRESS_LANES) : 0;
        for (int i = 0; i < count && i < PROGRESS_LANES; i++)
            found += strncmp(info[i].id, "cuda:", 5) == 0;
        /* Uses _exit(), so that buffered output of the parent is not printed
         * twice. */
        _exit(found);
    }
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        continue;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 0;
}

/* Appends one name of the list. The child that opens the device finds out
 * whether it exists. */
static spc_status add_device(lanes *out, const char *word, size_t length)
{
    if (length == 0 || length >= sizeof(out->device[0]))
        return cli_fail(SPC_EINVAL,
                        "--device: '%.*s' names no device of a list such as "
                        "cuda:0,cuda:1",
                        (int)length, word);
    if (out->count == PROGRESS_LANES)
        return cli_fail(SPC_EINVAL, "--device: more than %d devices",
                        PROGRESS_LANES);
    snprintf(out->device[out->count++], sizeof(out->device[0]), "%.*s",
             (int)length, word);
    return SPC_OK;
}

/*
 * Reports that no GPU can be used. No children follow, so the driver may be
 * initialised here.
 */
static spc_status fail_without_gpu(void)
{
    spc_ctx_options asked = SPC_CTX_OPTIONS_INIT;
    spc_error error = {0};
    spc_ctx *ctx = NULL;

    asked.device = "cuda";
    asked.database = "";
    spc_status status = spc_ctx_create(&ctx, &asked, &error);
    spc_ctx_free(ctx);
    if (status == SPC_OK || status == SPC_ENODEVICE)
        return cli_fail(SPC_ENODEVICE, "--device cuda:all: no GPU found");
    return cli_fail(status, "--device cuda:all: %s", error.text);
}

/* Makes a lane for each GPU. */
static spc_status add_all(lanes *out)
{
    int count = count_gpus();
    char word[16];
    spc_status status = SPC_OK;

    if (count == 0)
        return fail_without_gpu();
    for (int i = 0; i < count && status == SPC_OK; i++) {
        snprintf(word, sizeof(word), "cuda:%d", i);
        status = add_device(out, word, strlen(word));
    }
    return status;
}

spc_status lanes_read(lanes *out, const cli *self)
{
    const char *word = self->globals.device;
    spc_status status = SPC_OK;

    memset(out, 0, sizeof(*out));
    if (word == NULL)
        return SPC_OK;
    if (strcmp(word, "cuda:all") == 0)
        return add_all(out);
    if (strchr(word, ',') == NULL)
        return SPC_OK;
    while (status == SPC_OK) {
        size_t length = strcspn(word, ",");
        status = add_device(out, word, length);
        if (word[length] == '\0')
            break;
        word += length + 1;
    }
    return status;
}

/* ---- memory -------------------------------------------------------------- */

spc_status lanes_share(tune_list *t, const lanes *devices)
{
    void *memory = mmap(NULL, sizeof(*t->shared), PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    if (memory == MAP_FAILED)
        return cli_fail(SPC_ENOMEM, "out of memory");
    t->shared = memory; /* initially zero */
    t->shared->board.lanes = devices->count > 1 ? devices->count : 1;
    for (int i = 0; i < PROGRESS_LANES; i++)
        t->shared->board.lane[i].item = -1;
    return SPC_OK;
}

void lanes_unshare(tune_list *t)
{
    if (t->shared != NULL)
        munmap(t->shared, sizeof(*t->shared));
    t->shared = NULL;
}

/* ---- in a child ---------------------------------------------------------- */

/* The body of a child. It never returns: the parent's stack and buffers are
 * copies here. */
static void be_child(family *f, int lane, int pipe)
{
    tune_list *t = f->list;
    cli *self = t->job.self;
    progress_lane *own = &t->shared->board.lane[lane];
    spc__json json;

    /* A killed parent could not pass its signal on. */
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    setpgid(0, 0); /* Ctrl-C reaches only the parent process */
    dup2(pipe, STDOUT_FILENO);
    /* Closes the inherited ends of earlier children's pipes, and of its own. */
    for (int i = 0; i <= lane; i++)
        if (f->at[i].pipe >= 0)
            close(f->at[i].pipe);
    close(pipe);
    self->is_lane = true;
    self->globals.device = f->devices->device[lane];
    if (self->globals.json)
        t->job.json = &json;
    cli_catch_signals(self);
    /* A process without a device must not take items that other processes could
     * tune. */
    spc_status status = tune_work_open(t);
    if (status == SPC_OK)
        tune_work_take(t, own);
    else
        tune_work_note(t->shared, status);
    spc__buf_release(&t->text);
    fflush(stdout);
    cli_tidy();
    _exit(0);
}

/* ---- in the parent ------------------------------------------------------- */

/* Starts the process of one lane, whose output comes through a pipe. */
static spc_status start_child(family *f, int lane)
{
    progress_lane *own = &f->list->shared->board.lane[lane];
    child *c = &f->at[lane];
    int ends[2];

    snprintf(own->device, sizeof(own->device), "%s", f->devices->device[lane]);
    c->pipe = -1;
    if (pipe(ends) != 0)
        return cli_fail(SPC_EIO, "no pipe for %s: %s", own->device,
                        strerror(errno));
    c->pipe = ends[0];
    fflush(stdout); /* otherwise the child would print it again */
    if ((c->pid = fork()) == 0)
        be_child(f, lane, ends[1]);
    /* Only the child keeps this end, so that its death closes the pipe. */
    close(ends[1]);
    if (c->pid < 0)
        return cli_fail(SPC_EIO, "no process for %s: %s", own->device,
                        strerror(errno));
    f->count++;
    f->open++;
    return SPC_OK;
}

/* Prints the whole output of an item, so that items of several lanes do not
 * mix. */
static void print_item(family *f, child *c)
{
    bool json = f->list->job.self->globals.json;

    if (c->text.length == 0)
        return;
    progress_clear(&f->progress);
    if (json) {
        spc__buf_puts(&f->json, f->items++ > 0 ? "," : "");
        spc__buf_append(&f->json, c->text.data, c->text.length);
    } else {
        fputs(f->items++ > 0 ? "\n" : "", stdout);
        fwrite(c->text.data, 1, c->text.length, stdout);
        fflush(stdout);
    }
    spc__buf_clear(&c->text);
}

/* Reads output from the pipe; items end with a byte of 0. */
static void read_child(family *f, child *c)
{
    char bytes[4096];
    ssize_t got = read(c->pipe, bytes, sizeof(bytes));

    if (got < 0 && errno == EINTR)
        return;
    if (got <= 0) {
        print_item(f, c); /* the partial output of an unfinished item */
        close(c->pipe);
        c->pipe = -1;
        f->open--;
        return;
    }
    for (ssize_t i = 0; i < got; i++)
        if (bytes[i] != '\0')
            spc__buf_append(&c->text, bytes + i, 1);
        else
            print_item(f, c);
}

static void pass_signal_on(family *f)
{
    if (!*cli_cancel_flag() || f->stopped)
        return;
    f->stopped = true;
    for (int i = 0; i < f->count; i++)
        kill(f->at[i].pid, SIGTERM);
}

/* Waits a short time for output, and returns earlier if there is some. The time
 * limit keeps the progress line and the signals working. */
static void wait_for_output(family *f)
{
    struct pollfd polls[PROGRESS_LANES];
    enum { STEP_MS = 100 };

    for (int i = 0; i < f->count; i++) /* poll() ignores negative descriptors */
        polls[i] = (struct pollfd){f->at[i].pipe, POLLIN, 0};
    if (poll(polls, (nfds_t)f->count, STEP_MS) <= 0)
        return;
    for (int i = 0; i < f->count; i++)
        if (f->at[i].pipe >= 0 && polls[i].revents != 0)
            read_child(f, &f->at[i]);
}

/* If a process crashes, its item fails and the others continue. */
static void reap(family *f, int lane)
{
    tune_shared *shared = f->list->shared;
    progress_lane *own = &shared->board.lane[lane];
    int status = 0;

    while (waitpid(f->at[lane].pid, &status, 0) < 0 && errno == EINTR)
        continue;
    spc__buf_release(&f->at[lane].text);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return;
    shared->status =
        cli_fail(f->stopped ? SPC_EINTERRUPTED : SPC_EINTERNAL,
                 "the process of %s ended by %s %d%s%s", own->device,
                 WIFSIGNALED(status) ? "signal" : "status",
                 WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status),
                 own->item >= 0 ? " while it tuned " : "",
                 own->item >= 0 ? f->list->list.at[own->item].text : "");
}

spc_status lanes_run(tune_list *t, const lanes *devices)
{
    family f = {.list = t, .devices = devices};
    spc_status status = SPC_OK, written = SPC_OK;

    progress_init(&f.progress, t->job.self);
    for (int i = 0; i < devices->count && status == SPC_OK; i++)
        status = start_child(&f, i);
    cli_catch_signals(t->job.self); /* this starts a thread */
    spc__buf_puts(&f.json, "[");
    while (f.open > 0) {
        pass_signal_on(&f);
        wait_for_output(&f);
        progress_lanes(&f.progress, &t->shared->board);
    }
    progress_clear(&f.progress);
    spc__buf_puts(&f.json, "]");
    for (int i = 0; i < f.count; i++)
        reap(&f, i);
    if (t->job.self->globals.json)
        written = output_json(&f.json);
    spc__buf_release(&f.json);
    if (status == SPC_OK)
        status = (spc_status)t->shared->status;
    return status != SPC_OK ? status : written;
}
