/* SPDX-License-Identifier: Apache-2.0 */
/*
 * index_device.c - the indexer of cuda and sim: the templates of role "map".
 *
 * A build is one cooperative launch that also makes the first layout. It
 * allocates nothing and needs no host in between, so it can be captured into a
 * CUDA graph. The kernel expects some memory to be zero and leaves it zero. The
 * key layout, the number of rows and the extent are arguments: the code depends
 * only on the key width and the geometry, so compiled code in a database serves
 * any scene.
 *
 * This file contains the code that sets (index_device_set.c) and maps
 * (index_device_map.c) share.
 */
#include "coords/index/index_device.h"
#include "base/error.h"
#include <string.h>

extern const spc__regrouper spc__regrouper_device; /* regroup_device.c */
extern const spc__voxeliser spc__voxeliser_device;

static const spc__device_ops *ops_of(const spc_ctx *ctx)
{
    return spc__device_ops_of(ctx->device);
}

static bool device_serves(const spc_ctx *ctx)
{
    return !ops_of(ctx)->builds_maps_on_host;
}
/* ---- memory ----------------------------------------------------------- */

/* Allocates memory that is zero when the first kernel runs. */
spc_status spc__index_alloc_clear(void *out, const spc_coords *c, size_t bytes,
                                  spc_error *error)
{
    void *memory;
    spc_status status = spc__coords_alloc(&memory, c, bytes, error);

    memcpy(out, &memory, sizeof memory);
    return status == SPC_OK ? ops_of(c->ctx)->fill(c->ctx->device, memory, 0,
                                                   bytes, NULL, error)
                            : status;
}

void spc__index_scratch_release(const spc_coords *c, spc__index_scratch *s)
{
    spc__coords_dealloc(c, s->keys);
    spc__coords_dealloc(c, s->rows[0]);
    spc__coords_dealloc(c, s->rows[1]);
    spc__coords_dealloc(c, s->tables);
    spc__coords_dealloc(c, s->sync);
}

size_t spc__index_scratch_row(const spc__index_scratch *s, int mask_words)
{
    /* Keys in two buffers, or masks while a layout is sorted: the larger one.
     * The two uses never overlap in time. */
    size_t words = mask_words > 2 ? (size_t)mask_words : 2;

    return 2 * s->key_bytes > 4 * words ? 2 * s->key_bytes : 4 * words;
}

spc_status spc__index_scratch_alloc(spc__index_scratch *s, const spc_coords *c,
                                    int mask_words, spc_error *error)
{
    size_t rows = (size_t)c->reserved_padded;
    size_t digits = (size_t)1 << SPC_SORT_DIGIT;
    size_t tables =
        SPC_SORT_TABLES * SPC_SORT_TABLE((size_t)s->grid, digits) * sizeof(int);
    spc_status status;

    if ((status = spc__coords_alloc(
             &s->keys, c, spc__index_scratch_row(s, mask_words) * rows,
             error)) != SPC_OK ||
        (status = spc__coords_alloc(&s->rows[0], c, 8 * rows, error)) !=
            SPC_OK ||
        (status = spc__coords_alloc(&s->rows[1], c, 8 * rows, error)) !=
            SPC_OK ||
        (status = spc__index_alloc_clear(&s->tables, c, tables, error)) !=
            SPC_OK)
        return status;
    return spc__index_alloc_clear(&s->sync, c, sizeof *s->sync, error);
}

/* ---- choosing sizes --------------------------------------------------- */

unsigned spc__index_block(const spc__attrs *target, unsigned block)
{
    int most = (int)spc__attrs_number(target, "max_threads", 1024);

    return block > 0 ? block : most < 1024 ? (unsigned)most : 1024;
}

static unsigned choose_block(const spc_ctx *ctx)
{
    return spc__index_block(&ctx->target, ops_of(ctx)->index_block);
}

int spc__index_grid(int most, int threads, int offsets, int key_bytes,
                    int64_t shared)
{
    int grid = most;

    /* Whole groups of blocks, as shared memory holds a table a group. */
    while (grid > SPC_SORT_GROUP &&
           SPC_INDEX_SHARED(threads, offsets, key_bytes, grid) > shared)
        grid = (grid - 1) / SPC_SORT_GROUP * SPC_SORT_GROUP;
    return grid;
}

/* One block per multiprocessor; fewer if there are few rows. */
static unsigned choose_grid(const spc_coords *c, const spc__index_scratch *s,
                            int offsets)
{
    const spc_ctx *ctx = c->ctx;
    int most = ctx->info.multiprocessors;
    /* No block gets fewer than 128 rows. */
    int useful = (c->reserved_padded + 127) / 128;
    int64_t shared = spc__attrs_number(&ctx->target, "shared_block", INT64_MAX);

    most = useful < most ? useful : most > 0 ? most : 1;
    return (unsigned)spc__index_grid(most, (int)s->block, offsets,
                                     (int)s->key_bytes, shared);
}

void spc__index_scratch_init(spc__index_scratch *s, const spc_coords *c,
                             int key_bits, int offsets)
{
    s->block = choose_block(c->ctx);
    s->key_bytes = (size_t)key_bits / 8;
    /* Memory is allocated for `grid`. `blocks` may be lowered later, so that
     * other kernels run at the same time. */
    s->grid = s->blocks = choose_grid(c, s, offsets);
    s->shared = (size_t)SPC_INDEX_SHARED((int)s->block, offsets,
                                         (int)s->key_bytes, (int)s->grid);
}

void spc__index_scratch_limit(spc__index_scratch *s, unsigned blocks)
{
    s->blocks = blocks > 0 && blocks < s->grid ? blocks : s->grid;
}

/* ---- code ------------------------------------------------------------- */

spc__index_width spc__index_width_of(const spc__index_scratch *s,
                                     const spc_coords *other)
{
    return (spc__index_width){(int)s->key_bytes * 8, spc__key_bits(&other->key),
                              s->block};
}

/* Loads the kernel of the template "index" that searches by `config`. */
spc_status spc__index_load_search(spc__kernel **out,
                                  const spc__index_scratch *s,
                                  const spc_coords *to, const spc_geometry *g,
                                  bool inverse, const spc__attrs *config,
                                  spc_error *error)
{
    spc_ctx *ctx = to->ctx;
    spc__index_width w = spc__index_width_of(s, to);
    spc__attrs problem;
    spc_status status;

    spc__index_problem(&problem, &w, g, inverse);
    status = spc__index_load(out, ctx, "index", &problem, config, "spc_index",
                             s->shared, error);
    /* Cooperative launches fail on a device that cannot hold all blocks. This
     * names the kernel while the map is made. */
    return status == SPC_OK
               ? spc__index_check_resident(ctx, *out, "spc_index", s->block,
                                           s->shared, error)
               : status;
}
void spc__index_add_scratch(spc_index_args *args, const spc__index_scratch *s,
                            int rows_padded)
{
    args->keys_a = s->keys;
    /* The second buffer begins after rows_padded keys and not after the
     * reserved rows, so it moves with the capacity. */
    args->keys_b = s->keys + s->key_bytes * (size_t)rows_padded;
    args->rows_a = s->rows[0];
    args->rows_b = s->rows[1];
    args->tables = s->tables;
    args->sync = s->sync;
}

spc_status spc__index_launch(const spc_ctx *ctx, spc__kernel *kernel,
                             const spc__index_scratch *s,
                             const spc_index_args *args, void *stream,
                             spc_error *error)
{
    spc__launch how = {
        .grid_x = s->blocks,
        .grid_y = 1,
        .block = s->block,
        .shared_bytes = s->shared,
        .cooperative = true,
    };

    return ops_of(ctx)->launch(ctx->device, kernel, &how, args, sizeof *args,
                               stream, error);
}

const spc__indexer spc__indexer_device = {
    .name = "device",
    .serves = device_serves,
    .set_create = spc__device_set_create,
    .set_destroy = spc__device_set_destroy,
    .set_build = spc__device_set_build,
    .set_derive = spc__device_set_derive,
    .set_merge = spc__device_set_merge,
    .set_limit = spc__device_set_limit,
    .map_limit = spc__device_map_limit,
    .derives = true,
    .map_create = spc__device_map_create,
    .map_destroy = spc__device_map_destroy,
    .map_configure = spc__device_map_configure,
    .map_build = spc__device_map_build,
    .order_create = spc__device_map_order_create,
    .fill = spc__device_map_fill,
    .tile = spc__device_map_tile,
    .tables = spc__device_map_tables,
    .list_create = spc__device_map_list_create,
    .list = spc__device_map_list,
    .pairs = spc__device_map_pairs,
    .regrouper = &spc__regrouper_device,
    .voxeliser = &spc__voxeliser_device,
};
