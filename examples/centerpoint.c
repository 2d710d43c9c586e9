/*
 * centerpoint.c - points in, a bird's eye view out: a detector's backbone from
 * an ONNX file or a database, captured once, replayed for every scan.
 *
 *     centerpoint MODEL DEVICE DATABASE SCAN.bin... >PLANES
 *
 * MODEL is a file, or the name under which DATABASE has a network (spctune net
 * add). A scan has as many little-endian float32 a point as the network has
 * channels, x, y and z first. A plane is binary16 [channels][y][x]. From a
 * DATABASE that holds the layers ("" for none) nothing is compiled.
 */
#include <spc_import.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { CAPACITY = 160000, POINT_BITS = 20, POINTS = 1 << POINT_BITS };

/* nuScenes at 7.5 cm, which ONNX files do not say. */
static const spc_onnx_options how = {.dtype = SPC_F16,
                                     .voxel = {0.075, 0.075, 0.2},
                                     .low = {-54, -54, -5},
                                     .high = {54, 54, 3}};
static spc_error error;
static spc_ctx *ctx;
static spc_net_plan *plan;
static spc_net_input input;
static spc_net_buffers device;
static int32_t coords[CAPACITY][4], rows; /* of a scan */
static _Float16 *features;
static float *points;
static int64_t entries[POINTS]; /* a voxel's number, then a point's */

static void check(spc_status status)
{
    if (status == SPC_OK)
        return;
    fprintf(stderr, "centerpoint: %s\n",
            ctx != NULL ? spc_ctx_error(ctx) : error.text);
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
    check(spc_alloc(&out, ctx, bytes));
    return out;
}

/* From the file, if there is one; else from the database. */
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

/* Plans the network for the device, captures its graph. */
static void plan_model(spc_net *net)
{
    spc_net_options options = SPC_NET_OPTIONS_INIT;
    spc_net_info info;

    spc_net_describe(&info, net);
    input = info.input;
    need(input.voxel[0] > 0 && input.dtype == SPC_F16,
         "no grid, or not f16:", info.name);
    options.capacity = CAPACITY;
    check(spc_net_plan_create(&plan, ctx, net, &options));
    features = calloc((size_t)input.channels * CAPACITY, sizeof(*features));
    points = calloc((size_t)input.channels * POINTS, sizeof(*points));
    device.rows = CAPACITY;
    device.coords = memory(sizeof(coords));
    device.count = memory(sizeof(rows));
    device.features = memory((size_t)input.channels * CAPACITY * 2);
    device.memory = memory(spc_net_memory_bytes(plan));
    check(spc_net_capture(plan, &device));
    spc_net_free(net);
}

/* The number of a point's voxel, -1 outside the grid. */
static int64_t voxel_of(const float *point)
{
    int64_t voxel = 0;

    for (int i = 0; i < 3; i++) {
        float at =
            floorf((point[i] - (float)input.low[i]) / (float)input.voxel[i]);
        if (!(at >= 0 && at < (float)input.shape[i]))
            return -1;
        voxel = voxel * input.shape[i] + (int64_t)at;
    }
    return voxel;
}

static int ascending(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x < y ? -1 : x > y;
}

/* One row for the points of a voxel: where it is, and their mean. */
static void add_row(const int64_t *at, const int64_t *end)
{
    int64_t voxel = *at >> POINT_BITS, y = input.shape[1], z = input.shape[2];

    coords[rows][1] = (int32_t)(voxel / z / y);
    coords[rows][2] = (int32_t)(voxel / z % y);
    coords[rows][3] = (int32_t)(voxel % z);
    for (int c = 0; c < input.channels; c++) {
        double sum = 0;
        for (const int64_t *i = at; i < end; i++)
            sum += points[(*i & (POINTS - 1)) * input.channels + c];
        features[rows * input.channels + c] = (_Float16)(sum / (end - at));
    }
    rows++;
}

static void read_scan(const char *path)
{
    const size_t channels = (size_t)input.channels;
    size_t inside = 0, next;
    FILE *file = fopen(path, "rb");

    need(file != NULL, "cannot open", path);
    size_t count = fread(points, sizeof(float) * channels, POINTS, file);
    fclose(file);
    for (size_t i = 0; i < count; i++) {
        int64_t voxel = voxel_of(points + i * channels);
        if (voxel >= 0)
            entries[inside++] = voxel << POINT_BITS | (int64_t)i;
    }
    qsort(entries, inside, sizeof(*entries), ascending);
    rows = 0;
    for (size_t i = 0; i < inside; i = next) {
        for (next = i; next < inside && (entries[next] ^ entries[i]) < POINTS;)
            next++;
        need(rows < CAPACITY, "too many voxels in", path);
        add_row(entries + i, entries + next);
    }
}

/* Coordinates, features and their number go in, one launch, a plane comes out.
 */
static void run(void)
{
    spc_net_output out;

    check(spc_copy_to_device(ctx, (void *)device.coords, coords,
                             (size_t)rows * sizeof(*coords)));
    check(spc_copy_to_device(ctx, (void *)device.features, features,
                             (size_t)rows * (size_t)input.channels * 2));
    check(spc_copy_to_device(ctx, (void *)device.count, &rows, sizeof(rows)));
    check(spc_net_replay(plan, NULL));
    check(spc_net_check(plan, NULL));
    check(spc_net_output_at(&out, plan, 0));
    size_t bytes = (size_t)(out.batches * out.elements) * 2;
    void *plane = malloc(bytes);
    check(spc_copy_to_host(ctx, plane, (char *)device.memory + out.offset,
                           bytes));
    need(fwrite(plane, 1, bytes, stdout) == bytes, "cannot write", "a plane");
    fprintf(stderr, "%d voxels, a plane of %zu bytes\n", rows, bytes);
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
        run();
    }
    /* Nothing is freed that the system takes back anyway. */
}
