/* SPDX-License-Identifier: Apache-2.0 */
/*
 * frames.c - the loop of a vehicle: sets and maps are made once, then filled on
 * the device for every frame, without waits, allocations or a compiler.
 *
 *     frames [DEVICE [FRAMES [SCALE [DATABASE]]]]
 *
 * A frame has 10,803 to 135,306 voxels (the range of real scans), divided by
 * SCALE: use 200 for sim. If DATABASE has the layers, nothing is compiled.
 */
#include <spc.h>
#include <spc/lab.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { LEAST = 10803, MOST = 135306, CAPACITY = 160000, LAYERS = 3 };

/* The layers stay on the fine level, go down to the coarse one, and back up. */
static const char *const words[LAYERS] = {
    "subm,cin=16,cout=16,k=3",
    "conv,cin=16,cout=16,k=3,stride=2,padding=1,rule=footprint",
    "inverse,cin=16,cout=16,k=3,stride=2,padding=1,rule=footprint"};

static spc_ctx *ctx;
static spc_conv layers[LAYERS];
static spc_coords *fine, *coarse;
static spc_map *maps[LAYERS];
static spc_plan *plans[LAYERS];
static spc_buffers buffers[LAYERS];
static int32_t *coords, *count;     /* this frame's, on the device */
static void *owned[4 * LAYERS + 3]; /* allocated by memory() */
static int owned_count;

static void check(spc_status status)
{
    if (status != SPC_OK) {
        fprintf(stderr, "frames: %s\n", spc_ctx_error(ctx));
        exit(spc_status_exit_code(status));
    }
}

static void *memory(size_t bytes) /* on the device, all zero */
{
    void *out = NULL, *zeros = calloc(bytes + 1, 1);

    check(spc_memory_alloc(&out, ctx, bytes + 1));
    check(spc_memory_upload(out, ctx, zeros, bytes + 1));
    free(zeros);
    return owned[owned_count++] = out;
}

/*
 * Makes room for the range of the sensor, here 80 m at 5 cm, and for the most
 * voxels of a frame. Few voxels have more than four outputs on the coarse
 * level.
 */
static void make_maps(int64_t capacity)
{
    spc_coords_options set = {.bytes = sizeof(spc_coords_options),
                              .capacity = capacity,
                              .low = {0, -1600, -1600, -100},
                              .high = {0, 1600, 1600, 100},
                              .duplicates = SPC_DUPLICATES_FIRST};

    for (int i = 0; i < LAYERS; i++)
        check(spc_conv_parse(&layers[i], words[i], NULL));
    check(spc_coords_create_reserved(&fine, ctx, &set));
    check(spc_coords_create_outputs_reserved(&coarse, fine, &layers[1].geometry,
                                             4 * capacity));
    check(spc_map_create(&maps[0], fine, fine, &layers[0].geometry));
    check(spc_map_create(&maps[1], fine, coarse, &layers[1].geometry));
    check(spc_map_create_inverse(&maps[2], coarse, fine, &layers[2].geometry));
    coords = memory(16 * (size_t)capacity);
    count = memory(sizeof(*count));
}

/* Simulates the sensor: any n consecutive voxels of a scan. */
static void receive(const spc_scene *scan, int32_t n)
{
    int64_t first = rand() % (spc_scene_rows(scan) - n + 1);

    check(spc_memory_upload(coords, ctx, spc_scene_coords(scan) + 4 * first,
                            16 * (size_t)n));
    check(spc_memory_upload(count, ctx, &n, sizeof(n)));
}

/* Update and execution only enqueue work, so a CUDA graph may capture them. */
static void update(void)
{
    check(spc_map_update(maps[0], coords, count, 0, NULL));
    check(spc_coords_update(coarse, NULL, NULL, 0, NULL));
    check(spc_map_update(maps[1], NULL, NULL, 0, NULL));
    check(spc_map_update(maps[2], NULL, NULL, 0, NULL));
}

/* The size of the first frame chooses the kernels. */
static void make_plan(int i, unsigned flags)
{
    int64_t rows_in = spc_coords_capacity(spc_map_in(maps[i]));
    int64_t rows_out = spc_coords_capacity(spc_map_out(maps[i]));
    void *weights =
        memory(spc_conv_operand_bytes(&layers[i], SPC_OPERAND_WEIGHTS, 0));

    check(spc_map_check(maps[i], NULL));
    check(spc_plan_create(&plans[i], ctx, &layers[i], maps[i], flags));
    void *packed = memory(spc_plan_weights_bytes(plans[i]));
    check(spc_plan_pack(packed, plans[i], weights, SPC_KRSC, NULL));
    buffers[i] = (spc_buffers){
        .bytes = sizeof(spc_buffers),
        .in = i ? buffers[i - 1].out
                : memory(spc_conv_operand_bytes(&layers[i], SPC_OPERAND_IN,
                                                rows_in)),
        .out = memory(
            spc_conv_operand_bytes(&layers[i], SPC_OPERAND_OUT, rows_out)),
        .weights = packed,
        .workspace = memory(spc_plan_workspace_bytes(plans[i], maps[i]))};
}

static void release(void)
{
    for (int i = 0; i < LAYERS; i++) {
        spc_plan_free(plans[i]);
        spc_map_free(maps[i]);
    }
    spc_coords_free(coarse);
    spc_coords_free(fine);
    while (owned_count > 0)
        spc_memory_free(ctx, owned[--owned_count]);
    spc_ctx_free(ctx);
}

int main(int argc, char **argv)
{
    spc_ctx_options options = SPC_CTX_OPTIONS_INIT;
    int frames = argc > 2 ? atoi(argv[2]) : 1000;
    int scale = argc > 3 ? atoi(argv[3]) : 1;
    spc_status status = SPC_OK;
    spc_error error = {0};
    struct timespec start, end;
    spc_scene *scan;

    options.device = argc > 1 ? argv[1] : NULL;
    options.database = argc > 4 ? argv[4] : NULL;
    if (frames < 1 || scale < 1 || scale > LEAST)
        return fputs("usage: frames [DEVICE [FRAMES [SCALE [DATABASE]]]]\n",
                     stderr),
               2;
    if (spc_ctx_create(&ctx, &options, &error) != SPC_OK ||
        spc_scene_load(&scan, "gen:lidar,beams=128@0.05", &error) != SPC_OK)
        return fprintf(stderr, "frames: %s\n", error.text), 1;
    make_maps(CAPACITY / scale);
    receive(scan, LEAST / scale);
    update();
    for (int i = 0; i < LAYERS; i++)
        make_plan(i, argc > 4 ? SPC_PLAN_CACHED_ONLY : SPC_PLAN_JIT);

    timespec_get(&start, TIME_UTC);
    for (int f = 0; f < frames; f++) {
        receive(scan, (LEAST + rand() % (MOST - LEAST + 1)) / scale);
        update();
        for (int i = 0; i < LAYERS; i++)
            check(spc_plan_execute(plans[i], maps[i], &buffers[i], NULL));
    }
    check(spc_ctx_synchronize(ctx));
    timespec_get(&end, TIME_UTC);
    double us = (double)(end.tv_sec - start.tv_sec) * 1e6 +
                (double)(end.tv_nsec - start.tv_nsec) * 1e-3;

    for (int i = 0; i < LAYERS && status == SPC_OK; i++)
        status = spc_map_check(maps[i], NULL); /* was on the device until now */
    printf("%d frames, %.1f us each; the last one: %lld voxels, %s\n", frames,
           us / frames, (long long)spc_coords_rows(fine),
           status == SPC_OK ? "all well" : spc_ctx_error(ctx));
    release();
    spc_scene_free(scan);
    return spc_status_exit_code(status);
}
