/* SPDX-License-Identifier: Apache-2.0 */
/* points_steps.c - loads and runs the steps of points. */
#include "coords/points/points_steps.h"

#include "coords/index/index_device.h"
#include <string.h>

/* Blocks of a multiprocessor: enough to balance blocks that end early, and
 * still few sums to add up. */
enum { BLOCKS = 8 };

static const char *const names[SPC__POINTS_STEPS] = {
    [SPC__POINTS_PLACE] = "spc_points_place",
    [SPC__POINTS_PICK] = "spc_pick",
    [SPC__POINTS_CELLS] = "spc_cells",
    [SPC__POINTS_SORT] = "spc_sort_points",
    [SPC__RADIUS_LIMITS] = "spc_radius_limits",
    [SPC__RADIUS_COUNT] = "spc_radius_count",
    [SPC__RADIUS_WRITE] = "spc_radius_write",
    [SPC__OFFSETS_COUNT] = "spc_offsets_count",
    [SPC__OFFSETS_SUM] = "spc_offsets_sum",
    [SPC__OFFSETS_WRITE] = "spc_offsets_write",
    [SPC__POINTS_BUNDLE] = "spc_bundle",
    [SPC__BUNDLE_TILES] = "spc_bundle_tiles",
};

static bool runs_on_host(const spc_ctx *ctx)
{
    return spc__device_ops_of(ctx->device)->builds_maps_on_host;
}

void spc__points_problem(spc__attrs *out, int key_bits)
{
    memset(out, 0, sizeof *out);
    spc__attrs_set_text(out, "op", "points_search");
    spc__attrs_set_number(out, "key", key_bits);
}

spc_status spc__points_code_load(spc__points_code *out, spc_ctx *ctx,
                                 int key_bits, spc_error *error)
{
    int processors = ctx->info.multiprocessors;
    spc__attrs problem;
    spc_status status = SPC_OK;

    /* The cpu device has no blocks; one means that its steps are called
     * once. */
    *out = (spc__points_code){.ctx = ctx, .blocks = 1};
    if (runs_on_host(ctx))
        return SPC_OK;
    out->blocks = BLOCKS * (processors > 0 ? processors : 1);
    spc__points_problem(&problem, key_bits);
    for (int i = 0; i < SPC__POINTS_STEPS && status == SPC_OK; i++)
        status = spc__index_load(&out->kernels[i], ctx, "points", &problem,
                                 NULL, names[i],
                                 /* Loads the kernel with the most shared memory
                                  * that any step may request, so that one
                                  * kernel serves every kernel size. */
                                 SPC_RADIUS_SHARED(SPC_MAX_OFFSETS), error);
    return status;
}

spc_status spc__points_run(const spc__points_code *code, spc__points_step step,
                           const void *args, size_t bytes, int blocks,
                           size_t shared, void *stream, spc_error *error)
{
    spc__device *device = code->ctx->device;
    spc__launch how = {.grid_x = (unsigned)blocks,
                       .grid_y = 1,
                       .block = SPC_POINTS_THREADS,
                       .shared_bytes = shared};

    if (runs_on_host(code->ctx)) {
        spc__points_host[step](code->ctx, args);
        return SPC_OK;
    }
    return spc__device_ops_of(device)->launch(device, code->kernels[step], &how,
                                              args, bytes, stream, error);
}
