/* SPDX-License-Identifier: Apache-2.0 */
/* request.h - the options of a tuning run: constant once they are set. */
#ifndef SPC_TUNER_REQUEST_H
#define SPC_TUNER_REQUEST_H

#include "context/ctx.h"
#include "spc/tune.h"

typedef struct spc__request {
    spc_ctx *ctx;
    const spc_conv *conv;
    const spc_scene *const *scenes;
    int scene_count;
    spc_tune_options options; /* limit_s is resolved; the target is below */
    const char *target;       /* the target of the compiler */
    bool is_foreign;          /* the target is not the context's device */
    spc_error *error;         /* the calling thread's error in this context */
    uint64_t started_ns;
} spc__request;

/* The meaning of an effort, in samples and candidates. */
typedef struct spc__effort {
    int screening; /* samples that decide whether a candidate is promising */
    int finalists; /* finalists in addition to the untuned plan's */
    int final;     /* samples of a finalist */
    int cold;      /* samples with a cold cache */
    /* candidates to sample from the space; 0: defaults only; -1: all */
    int sample;
} spc__effort;

/* `options` may be NULL for the defaults. Checks nothing yet. */
void spc__request_init(spc__request *out, spc_ctx *ctx, const spc_conv *conv,
                       const spc_scene *const *scenes, int scene_count,
                       const spc_tune_options *options);

/* Checks the request. SPC_EINVAL with a message. */
spc_status spc__request_check(const spc__request *request);
/*
 * Checks that the coordinates of its scenes fit the keys of a map. SPC_ERANGE.
 */
spc_status spc__request_check_keys(const spc__request *request);

/*
 * The compiler for the run's target, and a job for it without name and source.
 * The caller closes a foreign target's compiler; otherwise it is the device's.
 */
spc_status spc__request_compiler(spc__compiler **out, spc__compile_job *job,
                                 const spc__request *request,
                                 const spc__library *headers);

/*
 * The rows of the only scene; 0 if there are several, or none. The scene's rows
 * also stand for the outputs of a layer with its own outputs.
 */
int64_t spc__request_rows(const spc__request *request);
const spc__effort *spc__request_effort(const spc__request *request);
bool spc__request_cancelled(const spc__request *request);
/*
 * True if the time for starting candidates is over, with `grace_s` seconds
 * added.
 */
bool spc__request_out_of_time(const spc__request *request, double grace_s);

#endif
