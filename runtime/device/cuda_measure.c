/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuda_measure.c - measures the duration of one run on a GPU.
 *
 * Warm: N runs are captured into one CUDA graph. Each sample is the time of one
 * replay between two events, divided by N. A replay lasts about a millisecond,
 * so the cost of the events and of launching the graph is negligible.
 *
 * Cold: before each run a buffer of four times the last-level cache is
 * overwritten (with random replacement, 2 % of the old content would remain). A
 * sample is one run between two events and includes the cost of the events
 * (about 2 us).
 */
#include "base/clock.h"
#include "base/error.h"
#include "device/cuda_device.h"
#include <time.h>

enum { REPLAY_US = 1000, RUNS_MIN = 10, RUNS_MAX = 2000, FLUSHED_CACHES = 4 };

typedef struct timing {
    const spc__cuda_device *device;
    const spc__cuda *api;
    const spc__measure *measure;
    spc_error *error;
    uint64_t deadline;
    CUstream stream;
    CUevent start, end;
    CUgraphExec replay;
    CUdeviceptr flush;
    size_t flush_bytes;
} timing;

static spc_status check(timing *t, CUresult result, const char *what)
{
    return spc__cuda_check(t->api, result, t->error, what);
}

/* If the payload already recorded a failure, keep its sentence. */
static spc_status enqueue(timing *t)
{
    spc_status status = t->measure->enqueue(t->measure->payload, t->stream);

    if (status != SPC_OK && t->error && t->error->status != status)
        spc__fail(t->error, status, "cannot enqueue the run to be measured: %s",
                  spc_status_text(status));
    return status;
}

/* Waits for the end event until the deadline, since a kernel may hang. */
static spc_status wait_end(timing *t)
{
    /* Polling with a pause leaves the core to other processes. */
    struct timespec pause = {0, 20000};
    CUresult result;

    while ((result = t->api->EventQuery(t->end)) == CUDA_ERROR_NOT_READY) {
        if (spc__now_ns() > t->deadline)
            return spc__fail(t->error, SPC_ETIMEOUT,
                             "the run did not end within the limit of %g s",
                             t->measure->limit_s);
        nanosleep(&pause, NULL);
    }
    return check(t, result, "finish the measured run");
}

/* Waits for the second event and reads the time since the first. */
static spc_status elapsed(timing *t, double *us)
{
    float ms = 0;
    spc_status status = wait_end(t);

    if (status != SPC_OK)
        return status;
    status = check(t, t->api->EventElapsedTime(&ms, t->start, t->end),
                   "read the time between two events");
    *us = 1e3 * (double)ms;
    return status;
}

static spc_status record(timing *t, CUevent event)
{
    return check(t, t->api->EventRecord(event, t->stream), "record an event");
}

/* Times one run between the events. */
static spc_status time_run(timing *t, double *us)
{
    spc_status status;

    if ((status = record(t, t->start)) != SPC_OK)
        return status;
    if ((status = enqueue(t)) != SPC_OK)
        return status;
    if ((status = record(t, t->end)) != SPC_OK)
        return status;
    return elapsed(t, us);
}

/* Enqueues the caller's work before a run, and before the cache is flushed. */
static spc_status prelude(timing *t)
{
    return t->measure->before != NULL
               ? t->measure->before(t->measure->payload, t->stream)
               : SPC_OK;
}

/* The value changes each time, so that the writes differ from the cached
 * data. */
static spc_status time_cold(timing *t, int i, double *us)
{
    spc_status status =
        check(t,
              t->api->MemsetD8Async(t->flush, (unsigned char)(i * 37 + 1),
                                    t->flush_bytes, t->stream),
              "flush the cache");

    return status == SPC_OK ? time_run(t, us) : status;
}

/* Times one replay of the graph. */
static spc_status time_replay(timing *t, double *us)
{
    spc_status status;

    if ((status = record(t, t->start)) != SPC_OK)
        return status;
    if ((status = check(t, t->api->GraphLaunch(t->replay, t->stream),
                        "replay the measured runs")) != SPC_OK)
        return status;
    if ((status = record(t, t->end)) != SPC_OK)
        return status;
    return elapsed(t, us);
}

/* Returns the runs of one replay, about REPLAY_US together. A run so slow that
 * RUNS_MIN of them would take too long is replayed as a single run. */
static int choose_runs(double run_us)
{
    if (run_us >= 10.0 * REPLAY_US)
        return 1;
    double runs = REPLAY_US / (run_us > 0.1 ? run_us : 0.1);
    return runs < RUNS_MIN ? RUNS_MIN : runs > RUNS_MAX ? RUNS_MAX : (int)runs;
}

/* Captures several runs in a graph, so that the cost of launching them is not
 * timed. */
static spc_status capture(timing *t, int runs)
{
    CUgraph graph = NULL;
    spc_status status, ended;

    status = check(t,
                   t->api->StreamBeginCapture(
                       /* Other threads of the program may allocate meanwhile,
                        * which the global mode would refuse. */
                       t->stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL),
                   "begin to capture the measured runs");
    if (status != SPC_OK)
        return status;
    for (int i = 0; i < runs && status == SPC_OK; i++)
        status = enqueue(t);
    /* The capture must end even after a failure. Its sentence takes
     * precedence. */
    CUresult result = t->api->StreamEndCapture(t->stream, &graph);
    if (status == SPC_OK) {
        ended = check(t, result, "capture the measured runs");
        status = ended != SPC_OK
                     ? ended
                     : check(t, t->api->GraphInstantiate(&t->replay, graph, 0),
                             "instantiate the graph of the measured runs");
    }
    if (graph)
        t->api->GraphDestroy(graph);
    return status;
}

/* Makes the stream, the events and the buffer. The caller releases them, also
 * on failure. */
static spc_status prepare(timing *t)
{
    spc_status status;

    /* Our own stream must see the results of the caller's earlier work. */
    if ((status = check(t, t->api->StreamSynchronize(NULL),
                        "finish earlier work")) != SPC_OK)
        return status;
    /* Non-blocking: work of the caller on the default stream must not be
     * timed. */
    if ((status =
             check(t, t->api->StreamCreate(&t->stream, CU_STREAM_NON_BLOCKING),
                   "create a stream")) != SPC_OK)
        return status;
    if ((status = check(t, t->api->EventCreate(&t->start, CU_EVENT_DEFAULT),
                        "create an event")) != SPC_OK)
        return status;
    if ((status = check(t, t->api->EventCreate(&t->end, CU_EVENT_DEFAULT),
                        "create an event")) != SPC_OK)
        return status;
    if (!t->measure->cold)
        return SPC_OK;
    t->flush_bytes = FLUSHED_CACHES * t->device->l2_bytes;
    /* Some devices do not report their cache. */
    if (t->flush_bytes < (size_t)1 << 20)
        t->flush_bytes = (size_t)1 << 20;
    return check(t, t->api->MemAlloc(&t->flush, t->flush_bytes),
                 "allocate the buffer that flushes the cache");
}

/* After a time-out the stream is still busy, and freeing memory would wait for
 * it forever. The context then frees the buffer. */
static void release(timing *t, spc_status status)
{
    if (t->replay)
        t->api->GraphExecDestroy(t->replay);
    if (t->flush && status != SPC_ETIMEOUT)
        t->api->MemFree(t->flush);
    if (t->start)
        t->api->EventDestroy(t->start);
    if (t->end)
        t->api->EventDestroy(t->end);
    if (t->stream)
        t->api->StreamDestroy(t->stream);
}

/* Times one run, or a replay of many. */
static spc_status time_one(timing *t, int i, double *us)
{
    spc_status status = prelude(t);

    if (status != SPC_OK)
        return status;
    if (t->measure->cold)
        return time_cold(t, i, us);
    /* Work before each run cannot be part of a replay, which would time it. */
    return t->measure->before != NULL ? time_run(t, us) : time_replay(t, us);
}

/* Takes the samples. A time limit may end the measurement early, but not before
 * the first sample. */
static spc_status sample(timing *t, double *samples, int *count)
{
    double run_us = 0, us = 0;
    int runs = 1;
    spc_status status;

    /* The first run loads the code. The second one is timed to choose the
     * number of runs. */
    if ((status = time_run(t, &run_us)) != SPC_OK)
        return status;
    if ((status = time_run(t, &run_us)) != SPC_OK)
        return status;
    if (!t->measure->cold && t->measure->before == NULL) {
        runs = choose_runs(run_us);
        if ((status = capture(t, runs)) != SPC_OK)
            return status;
    }
    for (int i = -1; i < t->measure->samples; i++) { /* -1 is the warm-up */
        status = time_one(t, i, &us);
        if (status == SPC_ETIMEOUT && *count > 0)
            return SPC_OK;
        if (status != SPC_OK)
            return status;
        if (i >= 0)
            samples[(*count)++] = us / runs;
        if (*count > 0 && spc__now_ns() > t->deadline)
            return SPC_OK;
    }
    return SPC_OK;
}

spc_status spc__cuda_measure(spc__device *device, const spc__measure *measure,
                             double *samples, int *count, spc_error *error)
{
    const spc__cuda_device *d = (const spc__cuda_device *)device;
    double limit_s = measure->limit_s > 0 ? measure->limit_s : 60;
    timing t = {
        .device = d,
        .api = &d->api,
        .measure = measure,
        .error = error,
        .deadline = spc__now_ns() + (uint64_t)(1e9 * limit_s),
    };
    bool pushed;
    spc_status status;

    *count = 0;
    /* enqueue() reports by its status whether it wrote a message. */
    spc__error_clear(error);
    if ((status = spc__cuda_enter(d, &pushed, error)) != SPC_OK)
        return status;
    if ((status = prepare(&t)) == SPC_OK)
        status = sample(&t, samples, count);
    release(&t, status);
    spc__cuda_leave(d, pushed);
    return status;
}
