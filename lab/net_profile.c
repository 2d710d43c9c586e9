/* SPDX-License-Identifier: Apache-2.0 */
/* net_profile.c - measures each unit of work of a network and computes its
 * floor. */
#include "base/sized.h"
#include "net/net_plan.h"
#include "spc/lab.h"

#include "base/clock.h"
#include "base/error.h"
#include "context/ctx.h"
#include "lab/floor.h"
#include "lab/oracle/feature_oracle.h"
#include "operators/feature.h"
#include <stdlib.h>
#include <string.h>

enum { SAMPLES = 15 };
static const double limit_s = 1; /* seconds for each unit of work */

/* ---- times --------------------------------------------------------------- */

typedef struct one_work {
    spc_net_plan *plan;
    const spc_net_buffers *buffers;
    int i;
} one_work;

static spc_status enqueue(void *payload, void *stream)
{
    const one_work *w = payload;
    spc_status status = spc__ctx_check_cancel(w->plan->ctx);

    return status == SPC_OK
               ? spc__net_work_run(w->plan, w->i, w->buffers, stream)
               : status;
}

/* Times one step of the network by itself. */
static spc_status measure(double *out, spc_net_plan *plan, int i,
                          const spc_net_buffers *buffers)
{
    double samples[SAMPLES];
    one_work work = {plan, buffers, i};
    spc__measure what = {enqueue, &work, SAMPLES, limit_s, false, NULL};
    int taken = 0;
    spc_status status = spc__device_ops_of(plan->ctx->device)
                            ->measure(plan->ctx->device, &what, samples, &taken,
                                      spc__error_of(plan->ctx));

    if (status == SPC_OK)
        *out = spc__median(samples, taken);
    return status;
}

/* ---- floors -------------------------------------------------------------- */

/* Numbers of inputs that some output sees, and of offsets that have a pair. */
typedef struct work_seen {
    int64_t rows_in;
    int offsets;
} work_seen;

/* Counts the distinct inputs and offsets of a map: the floor counts each of
 * them once. */
static void count_seen(work_seen *out, const int32_t *index,
                       unsigned char *read, int offsets, int64_t capacity,
                       int64_t rows)
{
    for (int k = 0; k < offsets; k++) {
        bool any = false;
        for (int64_t row = 0; row < rows; row++) {
            int32_t from = index[k * capacity + row];
            if (from < 0)
                continue;
            any = true;
            out->rows_in += !read[from];
            read[from] = 1;
        }
        out->offsets += any;
    }
}

/* The same from triplets. */
static void count_triplets(work_seen *out, const spc_triplet *all,
                           int64_t count, unsigned char *read)
{
    bool any[SPC_MAX_OFFSETS] = {false};

    for (int64_t i = 0; i < count; i++) {
        out->rows_in += !read[all[i].in];
        read[all[i].in] = 1;
        out->offsets += !any[all[i].k];
        any[all[i].k] = true;
    }
}

/* Fetches the triplets of a map and counts. */
static spc_status look_at_triplets(work_seen *out, spc_net_plan *plan,
                                   const spc_map *m)
{
    size_t count = (size_t)spc_map_pairs(m);
    spc_triplet *all = malloc((count + 1) * sizeof(*all));
    unsigned char *read =
        calloc((size_t)spc_coords_capacity(spc_map_in(m)) + 1, 1);
    spc_status status;

    *out = (work_seen){0, 0};
    if (all == NULL || read == NULL)
        status =
            spc__fail_memory(spc__error_of(plan->ctx), count * sizeof(*all));
    else if ((status = spc_map_download_triplets(all, m)) == SPC_OK)
        count_triplets(out, all, (int64_t)count, read);
    free(all);
    free(read);
    return status;
}

/* Fetches a map and counts what it reads. */
static spc_status look_at_map(work_seen *out, spc_net_plan *plan, int map)
{
    const spc_map *m = plan->maps[map];

    if (plan->net->maps[map].geometry.rule == SPC_RULE_RADIUS)
        return look_at_triplets(out, plan, m);
    int64_t capacity = spc_coords_capacity(spc_map_out(m));
    int64_t inputs = spc_coords_capacity(spc_map_in(m));
    int offsets = spc_geometry_offset_count(&plan->net->maps[map].geometry);
    size_t entries = (size_t)capacity * (size_t)offsets;
    int32_t *index = malloc((entries + 1) * sizeof(*index));
    unsigned char *read = calloc((size_t)inputs + 1, 1);
    spc_status status;

    *out = (work_seen){0, 0};
    if (index == NULL || read == NULL)
        status = spc__fail_memory(spc__error_of(plan->ctx), entries * 4);
    else if ((status = spc_map_download(index, m)) == SPC_OK)
        count_seen(out, index, read, offsets, capacity, spc_map_rows_out(m));
    free(index);
    free(read);
    return status;
}

/* Each row reads only itself. */
static void floor_of_linear(spc__floor *out, const spc_net_plan *plan,
                            const spc__net_work *work,
                            const spc_device_info *device)
{
    int64_t rows = spc_coords_rows(plan->sets[work->set]);
    spc__work needed = {
        .conv = &work->conv,
        .rows_in = rows,
        .rows_out = rows,
        .pairs = rows,
        .offsets = rows > 0,
    };

    spc__floor_compute(out, &needed, device);
}

/* Computes the floor of a convolution with its map in this scene. */
static spc_status floor_of_conv(spc__floor *out, spc_net_plan *plan,
                                const spc__net_work *work,
                                const spc_device_info *device)
{
    const spc_map *map = plan->maps[work->map];
    work_seen seen;
    spc_status status = look_at_map(&seen, plan, work->map);
    spc__work needed = {
        .conv = &work->conv,
        .rows_in = seen.rows_in,
        .rows_out = spc_map_rows_out(map),
        .pairs = spc_map_pairs(map),
        .offsets = seen.offsets,
    };

    if (status == SPC_OK)
        spc__floor_compute(out, &needed, device);
    return status;
}

/* Computes the floor of an operator on features, from its bytes. */
static void floor_of_feature(spc__floor *out, const spc_net_plan *plan,
                             const spc__net_work *work,
                             const spc_device_info *device)
{
    const spc__net_tensor *in = &plan->net->tensors[work->in];
    const spc_coords *to = plan->sets[work->set];
    double read, written;

    spc__feature_bytes(
        &read, &written, &work->feature, spc_coords_rows(plan->sets[in->set]),
        spc_coords_rows(to), spc_coords_batches(to),
        work->map >= 0 ? spc_map_pairs(plan->maps[work->map]) : 0);
    spc__floor_of_bytes(out, read, written, device);
}

/* Every row of the set is written once, and at least as much is read. */
static void floor_of_gather(spc__floor *out, const spc_net_plan *plan,
                            const spc__net_work *work,
                            const spc_device_info *device)
{
    const spc__net_tensor *t = &plan->net->tensors[work->out];
    double bytes = (double)spc_coords_rows(plan->sets[work->set]) *
                   (double)t->channels * (double)spc__net_element(t);

    spc__floor_of_bytes(out, 0, bytes, device);
}

/* Computes the floor of a step. Sets and maps have no floor. */
static spc_status find_floor(spc__floor *out, spc_net_plan *plan,
                             const spc__net_work *work,
                             const spc_device_info *device)
{
    *out = (spc__floor){.warm_by = ""};
    if (work->kind == SPC_NET_CONV && work->map >= 0)
        return floor_of_conv(out, plan, work, device);
    if (work->kind == SPC_NET_CONV)
        floor_of_linear(out, plan, work, device);
    else if (work->kind == SPC_NET_FEATURE)
        floor_of_feature(out, plan, work, device);
    else if (work->kind == SPC_NET_GATHER)
        floor_of_gather(out, plan, work, device);
    return SPC_OK;
}

spc_status spc_net_plan_floors(spc_net_floor *out, spc_net_plan *plan,
                               const char *device)
{
    spc_error *error = plan != NULL ? spc__error_of(plan->ctx) : NULL;
    spc_status status =
        spc__need(error, __func__, "out", out, "plan", plan, NULL);
    spc_device_info info;
    spc__floor floor;

    if (status != SPC_OK)
        return status;
    if (!plan->checked)
        return spc__fail(error, SPC_ESTATE, "there is no run that was checked");
    info = plan->ctx->info;
    if (device != NULL)
        spc__floor_device(&info, plan->ctx, device);
    for (int i = 0; i < plan->work_count && status == SPC_OK; i++) {
        status = find_floor(&floor, plan, &plan->works[i], &info);
        out[i] = (spc_net_floor){
            .macs = floor.flops / 2,
            .gathered_bytes = floor.gathered_bytes,
            .compulsory_bytes = floor.read_bytes + floor.written_bytes,
            .us = floor.warm_us,
            .by = floor.warm_by,
        };
    }
    return status;
}

/* ---- entry --------------------------------------------------------------- */

spc_status spc_net_plan_profile(spc_net_time *out, spc_net_plan *plan,
                                const spc_net_buffers *buffers)
{
    spc_error *error = plan != NULL ? spc__error_of(plan->ctx) : NULL;
    spc_status status = spc__need(error, __func__, "out", out, "plan", plan,
                                  "buffers", buffers, NULL);

    if (status != SPC_OK)
        return status;
    if (!plan->checked)
        return spc__fail(error, SPC_ESTATE, "there is no run that was checked");
    if ((status = SPC__TAKE(spc_net_buffers, buffers, error)) != SPC_OK ||
        (status = spc__net_check_buffers(plan, buffers, error)) != SPC_OK)
        return status;
    memset(out, 0, (size_t)plan->work_count * sizeof(*out));
    /* Floors come first: they need counts that later steps do not change. */
    for (int i = 0; i < plan->work_count && status == SPC_OK; i++) {
        spc__floor floor;
        status = find_floor(&floor, plan, &plan->works[i], &plan->ctx->info);
        out[i].floor_us = floor.warm_us;
        out[i].floor_by = floor.warm_by;
    }
    for (int i = 0; i < plan->work_count && status == SPC_OK; i++)
        status = measure(&out[i].warm_us, plan, i, buffers);
    if (status != SPC_OK)
        return status;
    /*
     * The voxels are those of the previous run, so the host may read their
     * count. Points that were left out have already been reported.
     */
    status = spc_net_plan_check(plan, NULL);
    return plan->checked ? SPC_OK : status;
}
