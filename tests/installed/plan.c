/* SPDX-License-Identifier: Apache-2.0 */
/*
 * plan.c - a program that needs only libspc: runs a layer that a database has,
 * and compares the result with sums that are known here.
 *
 *     plan DATABASE
 */
#include <spc.h>

#include <stdio.h>
#include <stdlib.h>

enum { SIDE = 7, ROWS = SIDE * SIDE * SIDE, CHANNELS = 4 };

static spc_error error;
static spc_ctx *ctx;

static void check(spc_status status)
{
    if (status == SPC_OK)
        return;
    printf("plan: %s\n", spc_error_text(&error, ctx));
    exit(spc_status_exit_code(status));
}

/* Allocates device memory and fills it with `count` times `value`. */
static float *filled(size_t count, float value)
{
    float *host = malloc(count * sizeof(*host));
    void *out;

    for (size_t i = 0; i < count; i++)
        host[i] = value;
    check(spc_memory_alloc(&out, ctx, count * sizeof(*host)));
    check(spc_memory_upload(out, ctx, host, count * sizeof(*host)));
    free(host);
    return out;
}

/* Makes the voxels of a solid cube, in the order of their keys. */
static spc_scene *cube(void)
{
    int32_t at[ROWS][4];
    spc_scene *out;

    for (int i = 0; i < ROWS; i++) {
        at[i][0] = 0;
        at[i][1] = i / (SIDE * SIDE);
        at[i][2] = i / SIDE % SIDE;
        at[i][3] = i % SIDE;
    }
    check(spc_scene_create(&out, at[0], ROWS, "cube", &error));
    return out;
}

/* Returns how many voxels of the cube are at most one step from `at` along one
 * axis. */
static int near(int at)
{
    return at == 0 || at == SIDE - 1 ? 2 : 3;
}

int main(int argc, char **argv)
{
    spc_ctx_options where = SPC_CTX_OPTIONS_INIT;
    spc_buffers buffers = SPC_BUFFERS_INIT;
    float sums[ROWS][CHANNELS];
    spc_scene *scene;
    spc_map *map;
    spc_plan *plan;
    spc_conv conv;
    void *packed, *workspace;

    if (argc != 2)
        return puts("usage: plan DATABASE"), 2;
    where.device = "cpu";
    where.database = argv[1];
    check(spc_ctx_create(&ctx, &where, &error));
    check(spc_conv_parse(&conv, "subm,cin=4,cout=4,k=3,dtype=f32", &error));
    scene = cube();
    check(spc_map_create_from_scene(&map, ctx, &conv, scene));
    check(spc_plan_create(&plan, ctx, &conv, map, SPC_PLAN_CACHED_ONLY));
    float *weights = filled(27 * CHANNELS * CHANNELS, 0.5f);
    check(spc_memory_alloc(&packed, ctx, spc_plan_weights_bytes(plan)));
    check(spc_memory_alloc(&workspace, ctx,
                           spc_plan_workspace_bytes(plan, map)));
    check(spc_plan_pack(packed, plan, weights, SPC_KRSC, NULL));
    buffers.in = filled(ROWS * CHANNELS, 1);
    buffers.out = filled(ROWS * CHANNELS, -1);
    buffers.weights = packed;
    buffers.workspace = workspace;
    check(spc_plan_execute(plan, map, &buffers, NULL));
    check(spc_ctx_synchronize(ctx));
    check(spc_memory_download(sums, ctx, buffers.out, sizeof(sums)));
    for (int i = 0; i < ROWS; i++) {
        int neighbours = near(i / (SIDE * SIDE)) * near(i / SIDE % SIDE) *
                         near(i % SIDE);
        for (int c = 0; c < CHANNELS; c++)
            if (sums[i][c] != 0.5f * CHANNELS * (float)neighbours)
                return printf("voxel %d, channel %d: %g\n", i, c,
                              sums[i][c]),
                       1;
    }
    printf("%d sums are right: %s, %lld compiled\n", ROWS * CHANNELS,
           spc_plan_reason(plan), (long long)spc_ctx_stats(ctx).compiles);
    spc_plan_free(plan);
    spc_map_free(map);
    spc_scene_free(scene);
    spc_ctx_free(ctx);
    return 0;
}
