/* SPDX-License-Identifier: Apache-2.0 */
/* request.c - the options of a run, and whether they are valid. */
#include "tuner/request.h"

#include "base/cancel.h"
#include "base/clock.h"
#include "base/error.h"
#include "coords/coords.h"
#include "lab/sample/sample.h"
#include <string.h>

/*
 * By stage. If nothing is timed, the limit is for kernels that hang and not for
 * slow ones: `generic` needs 17 s of a core to verify generative 81->163 with
 * k=4 (1 M multiplications an input, many runs), and machines are busy.
 */
static const double default_limits_s[] = {
    [SPC_STAGE_LIST] = 10,
    [SPC_STAGE_BUILD] = 10,
    [SPC_STAGE_VERIFY] = 120,
    [SPC_STAGE_TIME] = 10,
};

static const spc__effort efforts[] = {
    [SPC_EFFORT_QUICK] = {3, 3, 15, 7, 0},
    [SPC_EFFORT_NORMAL] = {5, 4, 31, 11, 160},
    [SPC_EFFORT_EXHAUSTIVE] = {5, 6, 61, 21, -1},
};

/*
 * True if `target` differs from the target of the context's own compiler. The
 * target of an emulation only names the imitated GPU.
 */
static bool is_foreign(const spc_ctx *ctx, const char *target)
{
    return target != NULL && (strcmp(target, ctx->info.target) != 0 ||
                              spc__device_ops_of(ctx->device)->is_emulation);
}

void spc__request_init(spc__request *out, spc_ctx *ctx, const spc_conv *conv,
                       const spc_scene *const *scenes, int scene_count,
                       const spc_tune_options *options)
{
    static const spc_tune_options standard = SPC_TUNE_OPTIONS_INIT;

    *out = (spc__request){
        .ctx = ctx,
        .conv = conv,
        .scenes = scenes,
        .scene_count = scene_count,
        .options = options != NULL ? *options : standard,
        .error = spc__error_of(ctx),
        .started_ns = spc__now_ns(),
    };
    out->is_foreign = is_foreign(ctx, out->options.target);
    out->target = out->is_foreign ? out->options.target : ctx->info.target;
    if (out->options.limit_s == 0 &&
        (unsigned)out->options.stage <= SPC_STAGE_TIME)
        out->options.limit_s = default_limits_s[out->options.stage];
}

/* ---- checks -------------------------------------------------------------- */

/* Checks the options before anything is read from disk. Enums are compared as
 * unsigned, which also catches negative ones. */
static spc_status check_options(const spc__request *request)
{
    const spc_tune_options *options = &request->options;
    const char *const *worker = options->worker;

    if (request->conv == NULL)
        return spc__fail(request->error, SPC_EINVAL,
                         "the layer to tune is NULL");
    if ((unsigned)options->stage > SPC_STAGE_TIME)
        return spc__fail(
            request->error, SPC_EINVAL,
            "stage %d: expected SPC_STAGE_LIST (%d) to SPC_STAGE_TIME (%d)",
            (int)options->stage, SPC_STAGE_LIST, SPC_STAGE_TIME);
    if (options->wants != NULL && options->stage == SPC_STAGE_LIST)
        return spc__fail(request->error, SPC_EINVAL,
                         "`wants` chooses among candidates that are built, "
                         "verified or timed: expected stages %d to %d",
                         SPC_STAGE_BUILD, SPC_STAGE_TIME);
    if ((unsigned)options->effort > SPC_EFFORT_EXHAUSTIVE)
        return spc__fail(request->error, SPC_EINVAL,
                         "effort %d: expected SPC_EFFORT_QUICK (%d) to "
                         "SPC_EFFORT_EXHAUSTIVE (%d)",
                         (int)options->effort, SPC_EFFORT_QUICK,
                         SPC_EFFORT_EXHAUSTIVE);
    /* The comparison also refuses NaN. */
    if (!(options->limit_s >= 0))
        return spc__fail(request->error, SPC_EINVAL,
                         "a limit of %g s: expected a time >= 0; 0 means %g s",
                         options->limit_s, default_limits_s[options->stage]);
    if (!(options->budget_s >= 0))
        return spc__fail(
            request->error, SPC_EINVAL,
            "a budget of %g s: expected a time >= 0; 0 means no limit",
            options->budget_s);
    if (worker != NULL && (worker[0] == NULL || worker[0][0] == '\0'))
        return spc__fail(request->error, SPC_EINVAL,
                         "the worker's arguments begin with no program's name");
    return SPC_OK;
}

/* Stages that measure need scenes, and a device that is here. */
static spc_status check_scenes(const spc__request *request)
{
    int count = request->scene_count;
    bool measures = request->options.stage >= SPC_STAGE_VERIFY;
    spc_status status = SPC_OK;

    if (count < 0 || count > SPC__SCENES_MAX || (count == 0 && measures))
        return spc__fail(request->error, SPC_EINVAL,
                         "%d sample scenes: expected 1 to %d", count,
                         SPC__SCENES_MAX);
    for (int s = 0; s < count; s++)
        if (request->scenes == NULL || request->scenes[s] == NULL)
            return spc__fail(request->error, SPC_EINVAL,
                             "sample scene %d of %d is NULL", s + 1, count);
    if (measures && request->is_foreign)
        return spc__fail(request->error, SPC_EINVAL,
                         "a layer can be built for '%s', but not measured "
                         "without that device",
                         request->target);
    for (int s = 0; s < count && measures && status == SPC_OK; s++)
        status = spc__sample_scene_check(request->scenes[s], request->error);
    return status;
}

spc_status spc__request_check(const spc__request *request)
{
    spc_status status = check_options(request);

    return status == SPC_OK ? check_scenes(request) : status;
}

spc_status spc__request_check_keys(const spc__request *request)
{
    for (int s = 0; s < request->scene_count; s++) {
        const spc_scene *scene = request->scenes[s];
        if (spc__coords_fit(&request->conv->geometry, spc_scene_coords(scene),
                            spc_scene_rows(scene), request->error) != SPC_OK)
            return spc__fail_prefix(request->error,
                                    "scene '%s': ", spc_scene_name(scene));
    }
    return SPC_OK;
}

/* ---- questions ----------------------------------------------------------- */

int64_t spc__request_rows(const spc__request *request)
{
    /* Several scenes differ in size: templates then choose their defaults as
     * for an unknown one. */
    return request->scene_count == 1 ? spc_scene_rows(request->scenes[0]) : 0;
}

const spc__effort *spc__request_effort(const spc__request *request)
{
    return &efforts[request->options.effort];
}

bool spc__request_cancelled(const spc__request *request)
{
    return spc__cancelled(request->ctx->cancel);
}

/* ---- tools --------------------------------------------------------------- */

spc_status spc__request_compiler(spc__compiler **out, spc__compile_job *job,
                                 const spc__request *request,
                                 const spc__library *headers)
{
    spc_status status;

    if (request->is_foreign) {
        status = spc__nvrtc_open(out, request->error);
        /* The target is checked once here, since every candidate would report
         * the same error. */
        if (status == SPC_OK &&
            (status = spc__nvrtc_check_target(*out, request->target,
                                              request->error)) != SPC_OK) {
            spc__compiler_close(*out);
            *out = NULL;
        }
        *job = (spc__compile_job){
            .target = request->target, .options = "", .headers = headers};
    } else {
        status = spc__ctx_compiler(out, job, request->ctx);
    }
    job->cancel = request->ctx->cancel;
    return status;
}

bool spc__request_out_of_time(const spc__request *request, double grace_s)
{
    double spent_s = (double)(spc__now_ns() - request->started_ns) * 1e-9;

    return request->options.budget_s > 0 &&
           spent_s >= request->options.budget_s + grace_s;
}
