/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rows.c - layouts of layers that need no map; the template "rows" or the host
 * fills them.
 */
#include "coords/rows.h"
#include "base/error.h"
#include "coords/index/index_device.h"
#include "templates/shared/index_abi.h"
#include <string.h>

/* Blocks of a multiprocessor: enough to keep memory busy. */
enum { BLOCKS = 4 };

/* Arrays are aligned to this, as kernels copy 16 bytes at once. */
enum { ALIGNMENT = 256 };

spc_status spc__rows_check(const spc__row_count *rows, spc_error *error)
{
    if (rows->rows >= 0 && rows->rows <= INT32_MAX - SPC_ROW_PAD)
        return SPC_OK;
    return spc__fail(error, SPC_EINVAL,
                     "a layer cannot run on %lld rows: expected 0 to %d",
                     (long long)rows->rows, INT32_MAX - SPC_ROW_PAD);
}

int64_t spc__rows_padded(int64_t rows)
{
    int64_t padded = (rows + SPC_ROW_PAD - 1) / SPC_ROW_PAD * SPC_ROW_PAD;

    return padded > 0 ? padded : SPC_ROW_PAD;
}

static int64_t tile_count(int64_t rows, int tile_rows)
{
    return (rows + tile_rows - 1) / tile_rows;
}

static size_t array_bytes(int64_t count)
{
    return ((size_t)count * 4 + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

size_t spc__rows_bytes(int64_t rows, int tile_rows)
{
    return 2 * array_bytes(spc__rows_padded(rows)) +
           2 * array_bytes(tile_count(rows, tile_rows)) + array_bytes(1);
}

/* Places the arrays of a layout in memory. */
static spc_rows_args args_of(void *memory, const spc__row_count *rows,
                             int tile_rows)
{
    int64_t padded = spc__rows_padded(rows->rows);
    int64_t tiles = tile_count(rows->rows, tile_rows);
    size_t of_rows = array_bytes(padded), of_tiles = array_bytes(tiles);
    char *at = memory;

    return (spc_rows_args){
        .count = rows->count,
        .rows = (int)rows->rows,
        .rows_padded = (int)padded,
        .tile_rows = tile_rows,
        .tiles = (int)tiles,
        .order = (int *)at,
        .mask = (unsigned *)(at + of_rows),
        .tile_order = (int *)(at + 2 * of_rows),
        .tile_mask = (unsigned *)(at + 2 * of_rows + of_tiles),
        .tile_begin = (int *)(at + 2 * of_rows + 2 * of_tiles),
    };
}

/* The order serves as index: the input of a row has the same number. */
static void view(spc_map_view *out, const spc_rows_args *args)
{
    *out = (spc_map_view){
        .index = args->order,
        .order = args->order,
        .mask = args->mask,
        .tile_order = args->tile_order,
        .tile_mask = args->tile_mask,
        .tile_begin = args->tile_begin,
        .rows = args->rows,
        .rows_padded = args->rows_padded,
        .rows_in = args->rows,
        .offsets = 1,
        .mask_words = 1,
        .centre = 0,
        .tile_rows = args->tile_rows,
        .tiles = args->tiles,
    };
}

/* Fills the layout of a layer whose rows need no map, as the kernel does on a
 * device. */
static void fill_on_host(const spc_rows_args *args)
{
    int rows = args->count ? *args->count : args->rows;

    /* A count on the device cannot be refused here. An impossible one gives an
     * empty layout. */
    if (rows < 0 || rows > args->rows)
        rows = 0;
    for (int i = 0; i < args->rows_padded; i++) {
        /* Padding has no input and an empty mask, as in a map. */
        args->order[i] = i < rows ? i : -1;
        args->mask[i] = i < rows;
    }
    for (int t = 0; t < args->tiles; t++) {
        bool some = (int64_t)t * args->tile_rows < rows;
        args->tile_order[t] = some ? t : -1;
        args->tile_mask[t] = some;
    }
    args->tile_begin[0] = 0;
}

/* Runs the kernel with as many blocks as the device has work for. */
static spc_status launch(const spc_ctx *ctx, spc__kernel *kernel,
                         const spc_rows_args *args, void *stream,
                         spc_error *error)
{
    unsigned blocks =
        (unsigned)(args->rows_padded + SPC_ROWS_THREADS - 1) / SPC_ROWS_THREADS;
    /* Threads loop over the rows, so fewer blocks suffice. */
    unsigned most = BLOCKS * (unsigned)ctx->info.multiprocessors;
    spc__launch how = {
        .grid_x = most > 0 && most < blocks ? most : blocks,
        .grid_y = 1,
        .block = SPC_ROWS_THREADS,
    };

    return spc__device_ops_of(ctx->device)
        ->launch(ctx->device, kernel, &how, args, sizeof *args, stream, error);
}

void spc__rows_problem(spc__attrs *out)
{
    memset(out, 0, sizeof *out);
    spc__attrs_set_text(out, "op", "rows");
}

spc_status spc__rows_load(spc__kernel **out, spc_ctx *ctx, spc_error *error)
{
    spc__attrs problem;

    *out = NULL;
    /* NULL makes spc__rows_fill use the host. */
    if (spc__device_ops_of(ctx->device)->builds_maps_on_host)
        return SPC_OK;
    spc__rows_problem(&problem);
    return spc__index_load(out, ctx, "rows", &problem, NULL, "spc_rows", 0,
                           error);
}

void spc__rows_view(spc_map_view *out, void *memory, const spc__row_count *rows,
                    int tile_rows)
{
    spc_rows_args args = args_of(memory, rows, tile_rows);

    view(out, &args);
}

spc_status spc__rows_fill(spc_map_view *out, const spc_ctx *ctx,
                          spc__kernel *kernel, void *memory,
                          const spc__row_count *rows, int tile_rows,
                          void *stream, spc_error *error)
{
    spc_rows_args args = args_of(memory, rows, tile_rows);

    view(out, &args);
    if (kernel != NULL)
        return launch(ctx, kernel, &args, stream, error);
    fill_on_host(&args);
    return SPC_OK;
}
