/* SPDX-License-Identifier: Apache-2.0 */
/*
 * worker.c - the worker's side: a harness that serves requests from a socket.
 *
 * It lives exactly as long as the tuner at the other end: when that ends, the
 * socket closes. If a candidate hangs then, the kernel ends the worker.
 */
#include "base/error.h"
#include "spc/tune.h"
#include "tuner/worker/runner.h"
#include "tuner/worker/wire.h"
#include "tuner/worker/worker_limits.h"
#include <fenv.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

static spc_status answer(const spc__wire_reply *reply)
{
    return spc__wire_send(SPC__WIRE_SOCKET, reply, sizeof(*reply), -1, NULL);
}

/*
 * All cores may compute until the tuner's limit has passed; a worker that goes
 * on longer has lost its tuner.
 */
static void limit_request(const spc__wire_request *request)
{
    long cores = sysconf(_SC_NPROCESSORS_ONLN);

    spc__limits_compute((request->limit_s + 2) *
                        (double)(cores > 0 ? cores : 1));
}

/* An unknown operation does nothing: the magic number has excluded another
 * build's. */
static void carry_out(spc__outcome *out, spc__harness *harness,
                      const spc__wire_request *request)
{
    memset(out, 0, sizeof(*out));
    switch (request->op) {
    case SPC__WIRE_LOAD:
        spc__harness_load(out, harness, request->slot, &request->code);
        break;
    case SPC__WIRE_VERIFY:
        spc__harness_verify(out, harness, request->slot, &request->code);
        break;
    case SPC__WIRE_TIME:
        spc__harness_time(out, harness, request->slot, &request->order);
        break;
    case SPC__WIRE_CONFIRM:
        spc__harness_confirm(out, harness, request->slot);
        break;
    case SPC__WIRE_UNLOAD:
        spc__harness_unload(harness, request->slot);
        break;
    case SPC__WIRE_PROBE:
        spc__harness_probe(out, harness);
        break;
    }
}

/*
 * The rounding mode belongs to the thread: a candidate that changes it would
 * change the sums of the next one. It is restored, and the worker is replaced.
 */
static void restore_arithmetic(spc__outcome *out, const fenv_t *before)
{
    int rounding = fegetround();

    fesetenv(before);
    if (fegetround() != rounding)
        out->dead = true;
}

/* Serves one request; SPC_EIO when the tuner has hung up. */
static spc_status serve_one(spc__harness *harness, const fenv_t *arithmetic)
{
    spc__wire_request request;
    spc__wire_reply reply;
    void *code = NULL;
    spc_status status = spc__wire_receive(SPC__WIRE_SOCKET, &request,
                                          sizeof(request), -1, NULL);

    if (status != SPC_OK || request.magic != SPC__WIRE_MAGIC)
        return SPC_EIO;
    if (request.code.code_bytes > 0) {
        if ((code = malloc(request.code.code_bytes)) == NULL)
            return SPC_ENOMEM;
        status = spc__wire_receive(SPC__WIRE_SOCKET, code,
                                   request.code.code_bytes, -1, NULL);
    }
    if (status == SPC_OK) {
        memset(&reply, 0, sizeof(reply));
        reply.magic = SPC__WIRE_MAGIC;
        reply.number = request.number;
        request.code.code = code;
        limit_request(&request);
        carry_out(&reply.outcome, harness, &request);
        restore_arithmetic(&reply.outcome, arithmetic);
        status = answer(&reply);
    }
    free(code);
    return status;
}

/*
 * The process ends with its tuner, even if that was killed while a candidate
 * hangs. It leaves no core file, which on a GPU's host has many gigabytes.
 */
static void limit_process(void)
{
    const struct rlimit no_core = {0, 0};

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    setrlimit(RLIMIT_CORE, &no_core);
}

spc_status spc__runner_serve(spc_ctx *ctx, spc_error *error)
{
    spc__sample sample;
    spc__harness *harness = NULL;
    spc__wire_reply hello;
    fenv_t arithmetic;

    memset(&hello, 0, sizeof(hello));
    hello.magic = SPC__WIRE_MAGIC;
    /* Before anything of a candidate has run. */
    fegetenv(&arithmetic);
    limit_process();
    if (spc__sample_attach(&sample, SPC__WIRE_SAMPLE, &hello.run) == SPC_OK)
        spc__harness_create(&harness, ctx, &sample, &hello.run);
    /* Sets the limit after the arrays are made, because it is relative to the
     * current use. */
    spc__limits_grow(spc__limits_memory(),
                     !spc__device_ops_of(ctx->device)->runs_on_host_cores);
    spc_status status = hello.run.status;
    bool is_heard = answer(&hello) == SPC_OK;
    if (!is_heard && status == SPC_OK)
        status = spc__fail(&hello.run, SPC_ESTATE,
                           "no tuner listens on descriptor %d: a worker is "
                           "started by a tuner, not by hand",
                           SPC__WIRE_SOCKET);
    if (status == SPC_OK)
        while ((status = serve_one(harness, &arithmetic)) == SPC_OK)
            ;
    spc__harness_free(harness);
    spc__sample_release(&sample);
    if (hello.run.status != SPC_OK && !is_heard) {
        *error = hello.run;
        return hello.run.status;
    }
    return SPC_OK; /* the tuner closed the socket and reports the failure */
}

spc_status spc_tune_worker(spc_ctx *ctx)
{
    return ctx != NULL ? spc__runner_serve(ctx, spc__error_of(ctx))
                       : SPC_EINVAL;
}
