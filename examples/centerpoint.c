/* SPDX-License-Identifier: Apache-2.0 */
/*
 * centerpoint.c - points in, a bird's eye view out: a detector's backbone from
 * an ONNX file or a database, captured once, replayed for every scan.
 *
 *     centerpoint MODEL DEVICE DATABASE SCAN.bin... >PLANES
 *
 * MODEL is a file, or the name of a network in DATABASE (spctune net add). A
 * scan has as many little-endian float32 a point as the network has channels,
 * x, y and z first (SCAN.bin,columns=5 for files with more numbers, which are
 * ignored). A plane is binary16 [channels][y][x]. If DATABASE has the layers
 * ("" for no database), nothing is compiled.
 */
#include "spc/lab.h"
#include <spc_import.h>

#include <stdio.h>
#include <stdlib.h>

enum { VOXELS = 160000, POINTS = 1 << 20 };

/* nuScenes at 7.5 cm, which ONNX files do not state. */
static const spc_onnx_options how = {.bytes = sizeof(spc_onnx_options),
                                     .dtype = SPC_F16,
                                     .voxel = {0.075, 0.075, 0.2},
                                     .low = {-54, -54, -5},
                                     .high = {54, 54, 3}};
static spc_error error;
static spc_ctx *ctx;
static spc_net_plan *plan;
static spc_net_buffers device = SPC_NET_BUFFERS_INIT;
static size_t channels; /* numbers of a point */
static spc_point_rows scan;
static int32_t count;

static void check(spc_status status)
{
    if (status == SPC_OK)
        return;
    fprintf(stderr, "centerpoint: %s\n", spc_error_text(&error, ctx));
    exit(spc_status_exit_code(status));
}

static void need(bool good, const char *what, const char *path)
{
    if (good)
        return;
    fprintf(stderr, "centerpoint: %s %s\n", what, path);
    exit(1);
}

static void *memory(size_t bytes) /* on the device */
{
    void *out = NULL;
    check(spc_memory_alloc(&out, ctx, bytes));
    return out;
}

/*
 * Opens the file if it exists, otherwise the network of that name in the
 * database.
 */
static spc_net *open_model(const char *model)
{
    FILE *file = fopen(model, "rb");
    spc_onnx *onnx = NULL;
    spc_net *net = NULL;

    if (file == NULL) {
        check(spc_net_open(&net, ctx, model));
        return net;
    }
    fclose(file);
    need(spc_onnx_open(&onnx, model, &error) == SPC_OK &&
             spc_onnx_build(&net, onnx, &how, &error) == SPC_OK,
         error.text, "");
    spc_onnx_free(onnx);
    return net;
}

/* Plans the network for the device and captures its graph. */
static void plan_model(spc_net *net)
{
    spc_net_options options = SPC_NET_OPTIONS_INIT;
    spc_net_info info;

    spc_net_describe(&info, net);
    channels = (size_t)info.input->channels;
    need(info.input->voxel[0] > 0 && info.input->dtype == SPC_F16,
         "no grid, or not f16:", info.name);
    options.capacity = VOXELS;
    options.points = POINTS;
    check(spc_net_plan_create(&plan, ctx, net, &options));
    device.points = memory(channels * POINTS * sizeof(*scan.values));
    device.count = memory(sizeof(count));
    device.memory = memory(spc_net_plan_memory_bytes(plan));
    check(spc_net_plan_capture(plan, &device));
    spc_net_free(net);
}

static void read_scan(const char *path)
{
    spc_point_rows_release(&scan);
    need(spc_point_rows_load(&scan, path, (int)channels, &error) == SPC_OK,
         error.text, path);
    need(scan.rows <= POINTS, "too many points:", path);
    count = (int32_t)scan.rows;
}

/* Uploads points and their number, launches once, and downloads a plane. */
static void run_frame(void)
{
    spc_net_output out;
    spc_net_step voxels;

    check(spc_memory_upload((void *)device.points, ctx, scan.values,
                            (size_t)count * channels * sizeof(*scan.values)));
    check(spc_memory_upload((void *)device.count, ctx, &count, sizeof(count)));
    check(spc_net_plan_replay(plan, NULL));
    check(spc_net_plan_check(plan, NULL));
    check(spc_net_plan_output_at(&out, plan, 0));
    check(spc_net_plan_step_at(&voxels, plan, 0));
    size_t bytes = (size_t)(out.batches * out.elements) * 2;
    void *plane = malloc(bytes);
    check(spc_memory_download(plane, ctx, (char *)device.memory + out.offset,
                              bytes));
    need(fwrite(plane, 1, bytes, stdout) == bytes, "cannot write", "a plane");
    fprintf(stderr, "%lld voxels, a plane of %zu bytes\n",
            (long long)voxels.rows_out, bytes);
    free(plane);
}

int main(int argc, char **argv)
{
    spc_ctx_options where = SPC_CTX_OPTIONS_INIT;

    need(argc >= 5, "usage:", "centerpoint MODEL DEVICE DATABASE SCAN...");
    where.device = argv[2];
    where.database = argv[3];
    check(spc_ctx_create(&ctx, &where, &error));
    plan_model(open_model(argv[1]));
    for (int i = 4; i < argc; i++) {
        read_scan(argv[i]);
        run_frame();
    }
    /* The system frees the memory at the end. */
}
