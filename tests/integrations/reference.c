/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reference.c - runs a network of a database with libspc itself and writes an
 * output's bytes. Operators of other runtimes are compared with these.
 *
 *     reference DATABASE NETWORK OUTPUT CAPACITY COORDS FEATURES OUT
 *
 * COORDS has rows of four int32, FEATURES their features, on the cpu device.
 * The rows of an output that is not dense are followed by their voxels.
 */
#include <spc.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static spc_error error;
static spc_ctx *ctx;

static void check(spc_status status)
{
    if (status == SPC_OK)
        return;
    fprintf(stderr, "reference: %s\n", spc_error_text(&error, ctx));
    exit(1);
}

/* Reads the whole file into device memory. The cpu's is host memory. */
static void *read_file(size_t *bytes, const char *path, size_t room)
{
    FILE *file = fopen(path, "rb");
    void *out = NULL;

    check(spc_memory_alloc(&out, ctx, room));
    if (file == NULL)
        exit(2);
    *bytes = fread(out, 1, room, file);
    fclose(file);
    return out;
}

int main(int argc, char **argv)
{
    spc_ctx_options where = SPC_CTX_OPTIONS_INIT;
    spc_net_options options = SPC_NET_OPTIONS_INIT;
    spc_net_buffers buffers = SPC_NET_BUFFERS_INIT;
    spc_net_output out;
    spc_net *net;
    spc_net_plan *plan;
    size_t coords, features, room;
    int i = 0;

    if (argc != 8)
        return 2;
    where.device = "cpu";
    where.database = argv[1];
    check(spc_ctx_create(&ctx, &where, &error));
    check(spc_net_open(&net, ctx, argv[2]));
    options.capacity = atoll(argv[4]);
    room = (size_t)options.capacity * 64;
    check(spc_net_plan_create(&plan, ctx, net, &options));
    check(spc_memory_alloc(&buffers.memory, ctx,
                           spc_net_plan_memory_bytes(plan)));
    buffers.coords = read_file(&coords, argv[5], room);
    buffers.features = read_file(&features, argv[6], room);
    buffers.rows = (int64_t)coords / 16;
    check(spc_net_plan_execute(plan, &buffers, NULL));
    check(spc_net_plan_check(plan, NULL));
    do
        check(spc_net_plan_output_at(&out, plan, i++));
    while (strcmp(out.name, argv[3]) != 0);
    size_t rows = (size_t)(out.dense ? out.batches : spc_coords_rows(out.set));
    size_t bytes = rows * (size_t)out.elements * (out.dtype == SPC_F32 ? 4 : 2);
    FILE *file = fopen(argv[7], "wb");
    if (file == NULL ||
        fwrite((char *)buffers.memory + out.offset, 1, bytes, file) != bytes)
        return 2;
    if (!out.dense && fwrite(spc_coords_data(out.set), 16, rows, file) != rows)
        return 2;
    fclose(file);
    return 0;
}
