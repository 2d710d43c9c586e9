/* SPDX-License-Identifier: Apache-2.0 */
/*
 * runner.h - runs candidates in this process or in a worker process that may
 * crash.
 *
 * A worker that crashes or is late is killed; the candidate gets the status
 * `fault` or `timeout`, and the next one a new worker.
 */
#ifndef SPC_TUNER_RUNNER_H
#define SPC_TUNER_RUNNER_H

#include "tuner/worker/harness.h"

typedef struct spc__runner spc__runner;

typedef struct spc__runner_options {
    bool in_worker;            /* false: run in this process */
    const char *const *worker; /* arguments of the worker */
    double limit_s; /* limit of a request in a worker, by the worker's clock */
} spc__runner_options;

spc_status spc__runner_create(spc__runner **out, spc_ctx *ctx,
                              const spc__sample *sample,
                              const spc__runner_options *options,
                              spc_error *error);
void spc__runner_free(spc__runner *runner);

/*
 * Starts the worker and builds the maps. If it is not called, the first request
 * does this.
 */
spc_status spc__runner_start(spc__runner *runner, spc_error *error);

/*
 * As the harness's functions. A returned failure is one of the run: no worker
 * can be started, SPC_EINTERRUPTED, or this process has lost the device. `time`
 * loads the candidate again if a worker has ended meanwhile.
 */
spc_status spc__runner_verify(spc__outcome *out, spc__runner *runner, int slot,
                              const spc__harness_code *code, spc_error *error);
spc_status spc__runner_time(spc__outcome *out, spc__runner *runner, int slot,
                            const spc__harness_code *code,
                            const spc__harness_order *order, spc_error *error);
/* Repeats a candidate many times before it may win; loads it as `time` does. */
spc_status spc__runner_confirm(spc__outcome *out, spc__runner *runner, int slot,
                               const spc__harness_code *code, spc_error *error);
spc_status spc__runner_unload(spc__runner *runner, int slot, spc_error *error);

/* The worker's loop over the inherited descriptors. */
spc_status spc__runner_serve(spc_ctx *ctx, spc_error *error);

#endif
