/* SPDX-License-Identifier: Apache-2.0 */
/*
 * deployed.c - runs a network from a database alone, without a file of its
 * layers, Lua, or a compiler, and prints the time to the first result.
 *
 *     deployed DATABASE NETWORK DEVICE|best VOXELS.npy
 *
 * `spctune net add` stores the network, `spctune tune --network` the kernels of
 * its layers, and `spctune scene SPEC -o VOXELS.npy` the voxels of a scene.
 * It needs libspc alone, which may be one that has only the runtime.
 */
#include <spc.h>
#include <spc/lab.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static spc_error error;
static spc_ctx *ctx;

static void check(spc_status status)
{
    if (status == SPC_OK)
        return;
    fprintf(stderr, "deployed: %s\n", spc_error_text(&error, ctx));
    exit(spc_status_exit_code(status));
}

static double seconds(void)
{
    struct timespec now;

    timespec_get(&now, TIME_UTC);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static void *memory(size_t bytes) /* on the device */
{
    void *out = NULL;

    check(spc_memory_alloc(&out, ctx, bytes));
    return out;
}

/* Ends the program if `path` is not [rows][4] int32: batch, x, y, z. */
static int32_t *read_voxels(int64_t *rows, const char *path)
{
    FILE *file = fopen(path, "rb");
    unsigned char start[10] = {0};
    char header[1024] = "", *shape;
    long long count = -1;
    int32_t *out = NULL;

    /* A file begins with magic, version, and the header's length (16 bits). */
    if (file != NULL && fread(start, 1, 10, file) == 10 &&
        memcmp(start, "\x93NUMPY\1", 7) == 0) {
        size_t bytes = start[8] + 256u * start[9];
        if (bytes < sizeof(header) && fread(header, 1, bytes, file) == bytes &&
            strstr(header, "'<i4'") != NULL &&
            (shape = strstr(header, "'shape': (")) != NULL &&
            strstr(shape, ", 4)") != NULL)
            sscanf(shape, "'shape': (%lld", &count);
    }
    if (count > 0 && (out = malloc(16 * (size_t)count)) != NULL)
        *rows = (int64_t)fread(out, 16, (size_t)count, file);
    if (out == NULL || *rows != count) {
        fprintf(stderr,
                "deployed: '%s' has no voxels: expected an array of int32 with "
                "four columns (batch, x, y, z)\n",
                path);
        exit(2);
    }
    fclose(file);
    return out;
}

/* Makes room for the voxels; their number and densities choose the kernels. */
static spc_net_options options_for(const int32_t *coords, int64_t rows)
{
    spc_net_options o = SPC_NET_OPTIONS_INIT;

    o.capacity = o.sample_rows = rows;
    o.sample = coords;
    o.flags = SPC_PLAN_CACHED_ONLY;
    for (int64_t i = 0; i < 4 * o.capacity; i++) {
        o.low[i % 4] = coords[i] < o.low[i % 4] ? coords[i] : o.low[i % 4];
        o.high[i % 4] = coords[i] > o.high[i % 4] ? coords[i] : o.high[i % 4];
    }
    return o;
}

/* Fills features with ones, as binary16 or fp32. */
static void fill(void *features, size_t count, spc_dtype dtype)
{
    size_t bytes = count * (dtype == SPC_F32 ? 4 : 2);
    char *ones = malloc(bytes);

    for (size_t i = 0; i < count; i++)
        if (dtype == SPC_F32)
            ((float *)ones)[i] = 1;
        else
            ((uint16_t *)ones)[i] = dtype == SPC_F16 ? 0x3c00 : 0x3f80;
    check(spc_memory_upload(features, ctx, ones, bytes));
    free(ones);
}

/* The sum of the output's bytes, to compare two runs. */
static unsigned long sum_of(const spc_net_output *out, const void *memory)
{
    int64_t rows = out->dense ? out->batches : spc_coords_rows(out->set);
    size_t bytes =
        (size_t)(rows * out->elements) * (out->dtype == SPC_F32 ? 4 : 2);
    unsigned char *host = malloc(bytes + 1);
    unsigned long sum = 0;

    check(spc_memory_download(host, ctx, (const char *)memory + out->offset,
                              bytes));
    for (size_t i = 0; i < bytes; i++)
        sum = sum * 31 + host[i];
    free(host);
    return sum & 0xffffffff;
}

int main(int argc, char **argv)
{
    spc_ctx_options where = SPC_CTX_OPTIONS_INIT;
    spc_net_plan *plan;
    spc_net *net;
    spc_net_info info;
    spc_net_output out;
    int64_t voxels = 0;
    double start = seconds(), opened, planned;

    if (argc != 5)
        return puts("usage: deployed DATABASE NETWORK DEVICE|best "
                    "VOXELS.npy"),
               2;
    where.database = argv[1];
    where.need_database = true;
    where.device = strcmp(argv[3], "best") != 0 ? argv[3] : NULL;
    check(spc_ctx_create(&ctx, &where, &error));
    check(spc_net_open(&net, ctx, argv[2]));
    spc_net_describe(&info, net);
    opened = seconds();
    const int32_t *sample = read_voxels(&voxels, argv[4]);
    spc_net_options options = options_for(sample, voxels);
    check(spc_net_plan_create(&plan, ctx, net, &options));
    planned = seconds();
    size_t rows = (size_t)options.capacity;
    size_t count = rows * (size_t)info.input->channels;
    void *coords = memory(16 * rows), *features = memory(4 * count);
    spc_net_buffers buffers = {.bytes = sizeof(spc_net_buffers),
                               .coords = coords,
                               .rows = options.capacity,
                               .features = features,
                               .memory =
                                   memory(spc_net_plan_memory_bytes(plan))};
    check(spc_memory_upload(coords, ctx, options.sample, 16 * rows));
    fill(features, count, info.input->dtype);
    check(spc_net_plan_capture(plan, &buffers));
    check(spc_net_plan_replay(plan, NULL));
    check(spc_net_plan_check(plan, NULL));
    double done = seconds();
    check(spc_net_plan_output_at(&out, plan, info.outputs - 1));
    spc_stats stats = spc_ctx_stats(ctx);
    printf("%s: opened in %.1f ms, planned in %.1f ms, first result after %.1f "
           "ms; %lld kernels loaded, %lld compiled; sum %08lx\n",
           argv[2], 1e3 * (opened - start), 1e3 * (planned - opened),
           1e3 * (done - start), (long long)stats.artefacts_loaded,
           (long long)stats.compiles, sum_of(&out, buffers.memory));
    return 0; /* memory is left to the system */
}
