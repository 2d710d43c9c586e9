/* SPDX-License-Identifier: Apache-2.0 */
/*
 * network_int8.c - networks with convolutions in int8. Ranges come from the
 * file, otherwise from running the scenes in f16. Outputs are compared with the
 * f16 outputs.
 */
#include "command/network/network.h"
#include "spc/lab.h"

#include "base/dtype.h"
#include "base/plural.h"
#include <math.h>
#include <stdlib.h>

spc_status network_fetch_output(float **out, int64_t *count, const network *n)
{
    spc_net_output o;
    spc_status status =
        spc_net_plan_output_at(&o, n->plan, n->info.outputs - 1);

    *out = NULL;
    if (status != SPC_OK)
        return cli_fail_ctx(status, n->ctx);
    const spc__dtype *type = spc__dtype_of(o.dtype);
    *count = (o.dense ? o.batches : spc_coords_rows(o.set)) * o.elements;
    char *stored = malloc((size_t)*count * type->bytes + 1);
    *out = malloc(((size_t)*count + 1) * sizeof(**out));
    if (stored == NULL || *out == NULL)
        status = cli_fail(SPC_ENOMEM, "out of memory");
    else if ((status = spc_memory_download(
                  stored, n->ctx, (char *)n->buffers.memory + o.offset,
                  (size_t)*count * type->bytes)) != SPC_OK)
        cli_fail_ctx(status, n->ctx);
    else
        type->decode(*out, stored, (size_t)*count);
    free(stored);
    return status;
}

/* Runs a scene in f16 and widens the ranges to hold the values of its tensors.
 * The first output is kept for comparison. */
static spc_status run_scene(network *n, int scene, float *ranges)
{
    spc_status status = network_upload(n, scene);

    if (status != SPC_OK)
        return status;
    if ((status = spc_net_plan_execute(n->plan, &n->buffers, NULL)) != SPC_OK ||
        (status = network_check(n)) != SPC_OK ||
        (status = spc_net_plan_widen_ranges(ranges, n->plan, &n->buffers)) !=
            SPC_OK)
        return network_fail(n, status);
    return scene == 0
               ? network_fetch_output(&n->reference, &n->reference_count, n)
               : SPC_OK;
}

/*
 * Plans the int8 network without keeping tensors: only the f16 plan needs them,
 * for the ranges.
 */
static spc_status plan_whole(network *n)
{
    n->whole_layers = network_whole_layers(n->net);
    if (n->whole_layers == 0)
        return cli_fail(SPC_EINVAL,
                        "--int8: no layer of '%s' can work on i8, as "
                        "convolutions of f16 can that convolutions feed",
                        n->info.name);
    return network_replan(n, SPC_PLAN_JIT);
}

/* Finds the ranges of all tensors on the scenes, then turns the network into
 * int8. */
static spc_status calibrate(network *n)
{
    spc_error error = {0};
    float *ranges = NULL;
    spc_status status = network_need_voxels(n);

    if (status != SPC_OK)
        return status;
    ranges = calloc((size_t)n->info.tensors + 1, sizeof(*ranges));
    if (ranges == NULL)
        return cli_fail(SPC_ENOMEM, "out of memory");
    for (int i = 0; i < n->scene_count && status == SPC_OK; i++)
        status = run_scene(n, i, ranges);
    if (status == SPC_OK) {
        /* The plan refers to the network, whose layers change now. */
        network_drop_plan(n);
        status = spc_net_quantise(NULL, n->net, ranges, &error);
        if (status != SPC_OK)
            cli_fail(status, "%s", error.text);
    }
    free(ranges);
    return status;
}

/* Uses the file's ranges; only the first scene runs in f16, for comparison. */
static spc_status take_stated(network *n, spc_net *stated)
{
    float *ranges = calloc((size_t)n->info.tensors + 1, sizeof(*ranges));
    spc_status status = ranges != NULL ? run_scene(n, 0, ranges)
                                       : cli_fail(SPC_ENOMEM, "out of memory");

    free(ranges);
    network_drop_plan(n);
    spc_net_free(n->net);
    n->net = stated;
    spc_net_describe(&n->info, stated);
    return status;
}

spc_status network_calibrate(network *n)
{
    spc_net *stated;
    spc_status status = network_read_stated(&stated, n->args);

    if (status != SPC_OK)
        return status;
    n->ranges_stated = stated != NULL;
    if (n->ranges_stated)
        cli_say(n->self, "%s: int8 by the ranges that it states",
                n->args->file);
    status = stated != NULL ? take_stated(n, stated) : calibrate(n);
    n->calibrates = false;
    return status == SPC_OK ? plan_whole(n) : status;
}

spc_status network_int8_error(double *out, const network *n)
{
    double apart = 0, size = 0;
    int64_t count;
    float *values;
    spc_status status = network_fetch_output(&values, &count, n);

    if (status == SPC_OK && count != n->reference_count)
        status = cli_fail(SPC_EWRONG,
                          "the output has %s, of f16 it "
                          "had %lld",
                          spc__count(count, "number"),
                          (long long)n->reference_count);
    for (int64_t i = 0; i < count && status == SPC_OK; i++) {
        double off = (double)values[i] - (double)n->reference[i];
        apart += off * off;
        size += (double)n->reference[i] * (double)n->reference[i];
    }
    *out = size > 0 ? sqrt(apart / size) : 0;
    free(values);
    return status;
}
