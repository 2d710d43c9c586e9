/* SPDX-License-Identifier: Apache-2.0 */
/*
 * request.h - what the caller of a tuning run asked for: constant once it is
 * made.
 */
#ifndef SPC_TUNER_REQUEST_H
#define SPC_TUNER_REQUEST_H

#include "context/ctx.h"

typedef struct spc__request {
    spc_ctx *ctx;
    const spc_conv *conv;
    const spc_scene *const *scenes;
    int scene_count;
    spc_tune_options options; /* limit_s is a time; `target` is below */
    const char *target;       /* what is compiled for */
    bool is_foreign;          /* and that is not the context's device */
    spc_error *error;         /* the calling thread's with this context */
    uint64_t started_ns;
} spc__request;

/* What an effort means, in samples and candidates. */
typedef struct spc__effort {
    int screening; /* samples that decide whether a candidate is promising */
    int finalists; /* besides what runs untuned */
    int final;     /* samples of a finalist */
    int cold;      /* with a cold cache */
    int sample;    /* of the space; 0: defaults only, -1: all of it */
} spc__effort;

/* `options` may be NULL: the usual ones. Nothing is checked yet. */
void spc__request_init(spc__request *out, spc_ctx *ctx, const spc_conv *conv,
                       const spc_scene *const *scenes, int scene_count,
                       const spc_tune_options *options);

/* Can it be at all? SPC_EINVAL with a sentence. */
spc_status spc__request_check(const spc__request *request);
/* Do the coordinates of its scenes fit the keys of a map? SPC_ERANGE. */
spc_status spc__request_check_keys(const spc__request *request);

/* The compiler for the run's target, and a job for it that lacks name and
 * source. The caller closes it where the target is foreign: else it is the
 * device's. */
spc_status spc__request_compiler(spc__compiler **out, spc__compile_job *job,
                                 const spc__request *request,
                                 const spc__library *headers);

/* Of the one scene that it is for; 0: it is for several, or none. Of a layer
 * with outputs of its own the scene's rows are taken for theirs. */
int64_t spc__request_rows(const spc__request *request);
const spc__effort *spc__request_effort(const spc__request *request);
bool spc__request_cancelled(const spc__request *request);
/* Is the time over in which candidates are begun, and so many seconds more? */
bool spc__request_out_of_time(const spc__request *request, double grace_s);

#endif
