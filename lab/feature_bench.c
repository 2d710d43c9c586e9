/* SPDX-License-Identifier: Apache-2.0 */
/*
 * feature_bench.c - measures an operator on features and compares it with the
 * floor.
 */
#include "lab/verify/feature_fixture.h"
#include "operators/feature.h"
#include "spc/lab.h"

#include "base/clock.h"
#include "base/error.h"
#include "context/ctx.h"
#include "lab/floor.h"
#include <stdio.h>
#include <string.h>

enum { WARM_SAMPLES = 31, COLD_SAMPLES = 21 };
static const double limit_s = 3; /* seconds for each kind of measurement */

/* Checks for cancellation before each run. */
static spc_status enqueue(void *payload, void *stream)
{
    const spc__feature_fixture *fixture = payload;
    spc_status status = spc__ctx_check_cancel(fixture->ctx);

    return status == SPC_OK ? spc__feature_fixture_run(fixture, stream)
                            : status;
}

/* Times runs over a wrong result and verifies the output afterwards. */
static spc_status time_runs(spc__feature_fixture *fixture, int wanted,
                            bool cold, double *median, double *spread,
                            spc_bench_result *out)
{
    spc_ctx *ctx = fixture->ctx;
    double samples[WARM_SAMPLES];
    spc__measure what = {enqueue, fixture, wanted, limit_s, cold, NULL};
    int taken = wanted;
    spc_status status = spc__feature_fixture_clear(fixture);

    if (status == SPC_OK)
        status = spc__device_ops_of(ctx->device)
                     ->measure(ctx->device, &what, samples, &taken,
                               spc__error_of(ctx));
    if (status != SPC_OK)
        return status;
    *median = spc__median(samples, taken);
    *spread = spc__half_iqr(samples, taken);
    if (!cold)
        out->samples = taken;
    return spc__feature_fixture_check(fixture, &out->error);
}

/* The floor of operators on features depends only on their bytes. */
static void compute_floor(const spc__feature_fixture *fixture,
                          spc_bench_result *out)
{
    double read, written;
    spc__floor floor;

    spc__feature_bytes(&read, &written, fixture->feature, fixture->of.rows_in,
                       fixture->of.rows_out, fixture->of.batches,
                       spc_map_pairs(fixture->map));
    spc__floor_of_bytes(&floor, read, written, &fixture->ctx->info);
    out->compulsory_bytes = read + written;
    out->warm_floor_us = floor.warm_us;
    out->warm_floor_by = floor.warm_by;
    out->cold_floor_us = floor.cold_us;
    out->cold_floor_by = floor.cold_by;
    out->floor_measured = floor.measured;
}

/* Checks the operator against the oracle, then times it. */
static spc_status verify_and_time(spc__feature_fixture *fixture, uint64_t seed,
                                  spc_bench_result *out)
{
    spc__feature_data data = {.seed = seed};
    spc_status status;

    snprintf(out->plan, sizeof(out->plan), "%s",
             spc__feature_plan_template(fixture->plan));
    out->match = SPC_MATCH_DEFAULT;
    if ((status = spc__feature_fixture_fill(fixture, &data)) != SPC_OK ||
        (status = spc__feature_fixture_clear(fixture)) != SPC_OK ||
        (status = enqueue(fixture, NULL)) != SPC_OK ||
        (status = spc__feature_fixture_check(fixture, &out->error)) != SPC_OK)
        return status;
    compute_floor(fixture, out);
    if ((status = time_runs(fixture, WARM_SAMPLES, false, &out->warm_us,
                            &out->warm_spread_us, out)) != SPC_OK)
        return status;
    return time_runs(fixture, COLD_SAMPLES, true, &out->cold_us,
                     &out->cold_spread_us, out);
}

spc_status spc_feature_bench(spc_bench_result *out, spc_ctx *ctx,
                             const spc_feature *feature, const spc_scene *scene,
                             uint64_t seed)
{
    spc__feature_fixture fixture;
    spc_error *error = spc__error_of(ctx);
    spc_status status = spc__need(error, __func__, "out", out, "ctx", ctx,
                                  "feature", feature, "scene", scene, NULL);

    if (out != NULL) {
        memset(out, 0, sizeof(*out));
        out->warm_floor_by = out->cold_floor_by = "";
    }
    if (status != SPC_OK ||
        (status = spc_feature_check(feature, error)) != SPC_OK)
        return status;
    if (spc_scene_rows(scene) == 0)
        return spc__fail(error, SPC_EINVAL,
                         "the scene '%.100s' has no voxels: there is nothing "
                         "to time",
                         spc_scene_name(scene));
    if ((status = spc__feature_fixture_open(&fixture, ctx, feature, scene)) ==
        SPC_OK)
        status = verify_and_time(&fixture, seed, out);
    spc__feature_fixture_release(&fixture);
    return status;
}
