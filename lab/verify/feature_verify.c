/* SPDX-License-Identifier: Apache-2.0 */
/*
 * feature_verify.c - verifies an operator on features on given and on awkward
 * scenes.
 *
 * Each scene has four runs: integers and real numbers, each in aligned rows,
 * which allow the widest loads, and in misaligned slices with gaps, which do
 * not.
 */
#include "lab/verify/feature_fixture.h"

#include "base/error.h"
#include "context/ctx.h"
#include "lab/sample/awkward.h"
#include "lab/sample/sample.h"

static const struct {
    bool integers;
    int shift, wider;
} runs[] = {
    {true, 0, 0},
    {false, 8, 16},
    {true, 1, 16},
    {false, 0, 3},
};
enum { RUNS = sizeof(runs) / sizeof(runs[0]) };

/* Runs on one data set and compares. */
static spc_status run_once(spc__feature_fixture *fixture, int i, uint64_t seed,
                           double *error)
{
    spc__feature_data data = {seed + (uint64_t)i, runs[i].integers,
                              runs[i].shift, runs[i].wider};
    spc_status status;

    if ((status = spc__ctx_check_cancel(fixture->ctx)) != SPC_OK ||
        (status = spc__feature_fixture_fill(fixture, &data)) != SPC_OK ||
        (status = spc__feature_fixture_clear(fixture)) != SPC_OK ||
        (status = spc__feature_fixture_run(fixture, NULL)) != SPC_OK)
        return status;
    return spc__feature_fixture_check(fixture, error);
}

/* Verifies on a scene with all data sets. */
static spc_status verify_on(spc_ctx *ctx, const spc_feature *feature,
                            const spc_scene *scene, uint64_t seed,
                            double *error)
{
    spc__feature_fixture fixture;
    spc_status status =
        spc__feature_fixture_open(&fixture, ctx, feature, scene);

    for (int i = 0; i < RUNS && status == SPC_OK; i++)
        status = run_once(&fixture, i, seed, error);
    spc__feature_fixture_release(&fixture);
    return status;
}

/* Verifies on awkward scene i. */
static spc_status verify_awkward(spc_ctx *ctx, const spc_feature *feature,
                                 int i, uint64_t seed, double *error)
{
    spc_conv within = SPC_CONV_INIT;
    spc_scene *scene = NULL;
    spc_status status;

    within.geometry = feature->geometry;
    status = spc__awkward_scene(&scene, i, &within, spc__error_of(ctx));
    if (status == SPC_OK)
        status = verify_on(ctx, feature, scene, seed, error);
    spc_scene_free(scene);
    return status;
}

spc_status spc_feature_verify(double *error, spc_ctx *ctx,
                              const spc_feature *feature,
                              const spc_scene *const *scenes, int scene_count,
                              uint64_t seed)
{
    double ignored, *worst = error != NULL ? error : &ignored;
    spc_error *failure = spc__error_of(ctx);
    spc_status status =
        spc__need(failure, __func__, "ctx", ctx, "feature", feature, NULL);

    *worst = 0;
    if (status == SPC_OK &&
        (status = spc_feature_check(feature, failure)) == SPC_OK)
        status = spc__scenes_check(scenes, scene_count, failure);
    for (int s = 0; s < scene_count && status == SPC_OK; s++)
        status = verify_on(ctx, feature, scenes[s], seed, worst);
    for (int i = 0; i < SPC__AWKWARD && status == SPC_OK; i++)
        status = verify_awkward(ctx, feature, i, seed, worst);
    return status;
}
