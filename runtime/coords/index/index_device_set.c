/* SPDX-License-Identifier: Apache-2.0 */
/*
 * index_device_set.c - coordinate sets on cuda and sim: launches sorting,
 * deriving and merging.
 */
#include "base/error.h"
#include "coords/index/index_device.h"
#include <stdlib.h>
#include <string.h>

/* At least one group of bins for each share. */
enum {
    BIN_BITS_LEAST = 12,
    BIN_BITS_MAX = 21,
};

static const spc__device_ops *ops_of(const spc_ctx *ctx)
{
    return spc__device_ops_of(ctx->device);
}

/*
 * Uses about as many bins as rows, so that most bins hold few keys. A level of
 * a scan has at most half the voxels of the previous one, or with a footprint a
 * few more, and the same or twice the capacity. Fewer bins mean less memory to
 * scan, at the cost of a few more keys per bin.
 */
static int choose_bin_bits(const spc_coords *c)
{
    int bits = BIN_BITS_LEAST;

    while (bits < BIN_BITS_MAX && bits < c->key.bits &&
           1 << bits < c->capacity / 2)
        bits++;
    for (; c->from && !spc__geometry_expands(&c->rule); c = c->from)
        bits -= bits > BIN_BITS_LEAST;
    return bits;
}

/* ---- sets ------------------------------------------------------------- */

void spc__device_set_destroy(spc_coords *c)
{
    spc__index_set_work *w = c->work;

    if (!w)
        return;
    spc__index_scratch_release(c, &w->s);
    spc__coords_dealloc(c, w->bins);
    spc__coords_dealloc(c, w->begins);
    spc__coords_dealloc(c, w->shares);
    spc__coords_dealloc(c, w->table);
    spc__coords_dealloc(c, w->list);
    spc__coords_dealloc(c, w->listed);
    spc__coords_dealloc(c, w->offsets);
    free(w);
    c->work = NULL;
}

spc_status spc__index_upload_list(int32_t **out, const spc_coords *c,
                                  const spc_geometry *g, spc_error *error)
{
    int32_t list[SPC_MAX_OFFSETS][3];
    size_t bytes = (size_t)g->offset_count * sizeof list[0];
    spc_status status;

    /* The geometry's own list has another element type, so it is converted. */
    if (g->offset_count == 0)
        return SPC_OK;
    for (int k = 0; k < g->offset_count; k++)
        for (int i = 0; i < 3; i++)
            list[k][i] = g->offsets[3 * k + i];
    status = spc__coords_alloc(out, c, bytes, error);
    return status == SPC_OK ? ops_of(c->ctx)->copy_in(c->ctx->device, *out,
                                                      list, bytes, NULL, error)
                            : status;
}

/* Twice as many slots as keys keeps probe sequences short (Knuth, volume 3,
 * section 6.4). */
static spc_status create_derived(spc_coords *c, spc__index_set_work *w,
                                 spc_error *error)
{
    spc__index_width bits = spc__index_width_of(&w->s, c->by.root);
    spc__attrs problem;
    spc_status status;

    w->slots = 64;
    /* The slots are a power of two, so that a hash is reduced by a mask. The
     * second limit keeps the shift within 32 bits. */
    while (w->slots < 2u * (unsigned)c->capacity && w->slots < 1u << 31)
        w->slots *= 2;
    if ((status =
             spc__coords_alloc(&w->table, c, w->s.key_bytes * (size_t)w->slots,
                               error)) != SPC_OK ||
        (status = spc__coords_alloc(&w->list, c, 16 * (size_t)c->capacity,
                                    error)) != SPC_OK ||
        (status = spc__index_alloc_clear(&w->listed, c, sizeof *w->listed,
                                         error)) != SPC_OK ||
        (spc__geometry_derives_by_list(&c->rule) &&
         (status = spc__index_upload_list(&w->offsets, c, &c->rule, error)) !=
             SPC_OK))
        return status;
    spc__coords_problem(&problem, &bits, &c->rule);
    status = spc__index_load(&w->derive, c->ctx, "coords", &problem, NULL,
                             "spc_derive", 0, error);
    return status == SPC_OK
               ? spc__index_check_resident(c->ctx, w->derive, "spc_derive",
                                           w->s.block, 0, error)
               : status;
}

static spc_status load_merge(spc_coords *c, spc__index_set_work *w,
                             spc_error *error)
{
    spc__index_width bits = spc__index_width_of(&w->s, c->from ? c->from : c);
    spc__attrs problem;

    spc__coords_problem(&problem, &bits, &c->rule);
    return spc__index_load(&w->merge, c->ctx, "coords", &problem, NULL,
                           "spc_merge", 0, error);
}

/* The launch of a submanifold map may sort its set, which then never needs this
 * kernel, so the kernel is loaded on first use. */
static spc_status load_sorting(spc_coords *c, spc_error *error)
{
    spc__index_set_work *w = c->work;
    spc_geometry sorting = spc__index_sorting_only();

    return w->s.kernel ? SPC_OK
                       : spc__index_load_search(&w->s.kernel, &w->s, c,
                                                &sorting, false, NULL, error);
}

/* The arrays of a sort by bins of the key's upper bits. */
static spc_status alloc_bins(spc_coords *c, spc__index_set_work *w,
                             spc_error *error)
{
    size_t bytes = (size_t)4 << w->bin_bits;
    /* Bins are zero between launches: a build clears the bins that it used
     * (index_abi.h). */
    spc_status status = spc__index_alloc_clear(
        &w->bins, c, bytes + 4 * SPC_INDEX_BEHIND_BINS, error);

    if (status == SPC_OK)
        status = spc__index_alloc_clear(&w->begins, c, bytes + 4, error);
    if (status == SPC_OK)
        status =
            spc__index_alloc_clear(&w->shares, c, 4 * SPC_INDEX_SHARES, error);
    return status;
}

spc_status spc__device_set_create(spc_coords *c, spc_error *error)
{
    spc__index_set_work *w = c->work = calloc(1, sizeof *w);
    spc_status status;

    if (!w)
        return spc__fail_memory(error, sizeof *w);
    spc__index_scratch_init(&w->s, c, spc__key_bits(&c->key), 1);
    w->bin_bits = choose_bin_bits(c);
    if ((status = spc__index_scratch_alloc(&w->s, c, 1, error)) != SPC_OK ||
        (status = alloc_bins(c, w, error)) != SPC_OK)
        return status;
    /* Loading compiles or allocates, which a fill must not do in a graph
     * capture. Sets that are filled without a map therefore load here. */
    if (c->by_itself && (status = load_sorting(c, error)) != SPC_OK)
        return status;
    if (c->from && (status = create_derived(c, w, error)) != SPC_OK)
        return status;
    /* A regrouped set adds features by its own kernel. */
    if (c->twins && !c->regroup && (status = load_merge(c, w, error)) != SPC_OK)
        return status;
    /* The first build may run on another stream than the clearing. */
    return ops_of(c->ctx)->sync(c->ctx->device, NULL, error);
}

void spc__device_set_limit(spc_coords *c, unsigned blocks)
{
    spc__index_set_work *w = c->work;

    spc__index_scratch_limit(&w->s, blocks);
}

spc_index_set spc__index_set_args(const spc_coords *c)
{
    const spc__index_set_work *w = c->work;
    spc_index_set args;

    spc__coords_args(&args, c, w->bin_bits, w->begins, w->shares);
    return args;
}

/* Adds the stage that builds a set. */
spc_status spc__index_add_build(spc_index_args *args, const spc_coords *c,
                                const spc__source *source, spc_error *error)
{
    const spc__index_set_work *w = c->work;

    /* Kernels load a row of four coordinates at once. */
    if ((uintptr_t)source->coords % 16 != 0)
        return spc__fail(error, SPC_EINVAL,
                         "the coordinates must start at a multiple of 16 "
                         "bytes, as device allocations do");
    args->stages |= SPC_INDEX_BUILD;
    args->coords = source->coords;
    args->source = source->count;
    args->source_rows = source->rows;
    args->stats = c->stats;
    /* The rows of a caller's set stay with the caller. Derived rows are stored
     * in key order. */
    args->data = c->from ? c->data : NULL;
    args->twins = c->twins;
    args->twin_begin = c->twin_begin;
    args->bins = w->bins;
    args->set = spc__index_set_args(c);
    return SPC_OK;
}

spc_status spc__device_set_build(spc_coords *c, const spc__source *source,
                                 void *stream, spc_error *error)
{
    const spc__index_set_work *w = c->work;
    spc_index_args args = {0};
    spc_status status = load_sorting(c, error);

    if (status == SPC_OK)
        status = spc__index_add_build(&args, c, source, error);
    if (status != SPC_OK)
        return status;
    spc__index_add_scratch(&args, &w->s, c->rows_padded);
    /* The kernel searches in `in`. A launch that only sorts has no search, but
     * its arguments must be valid. */
    args.in = args.set;
    return spc__index_launch(c->ctx, w->s.kernel, &w->s, &args, stream, error);
}

/* Describes a derived set to the kernels. */
static spc_derive_args derive_args(const spc_coords *c, const spc__source *rows)
{
    const spc__index_set_work *w = c->work;
    const spc__derivation *by = &c->by;
    spc_derive_args args = {
        .in = spc__index_set_args(by->root),
        .key = c->key,
        .rule = by->rule == SPC_RULE_FOOTPRINT,
        .table = w->table,
        .slots = w->slots,
        .capacity = c->capacity,
        .coords = w->list,
        .count = w->listed,
        .sync = w->s.sync,
    };

    if (rows) {
        args.rows = rows->coords;
        args.source = rows->count;
        args.source_rows = rows->rows;
    }
    for (int i = 0; i < 3; i++) {
        args.kernel[i] = by->kernel[i];
        args.stride[i] = by->stride[i];
        args.dilation[i] = by->dilation[i];
        args.padding[i] = by->padding[i];
        /* The bound belongs to the set's own rule; the other numbers may belong
         * to a combined rule (root.h). */
        args.bound[i] = (int)spc__geometry_out_shape(&c->rule, i);
    }
    args.offsets = w->offsets;
    args.offset_count = c->rule.offset_count;
    return args;
}

spc_status spc__device_set_derive(spc_coords *c, const spc__source *rows,
                                  void *stream, spc_error *error)
{
    const spc__index_set_work *w = c->work;
    spc_derive_args args = derive_args(c, rows);
    /* The list of derived voxels has no duplicates, and its length is on the
     * device. Sorting it like given rows makes the set. */
    spc__source source = {w->list, w->listed, 0};
    spc__launch how = {
        .grid_x = w->s.blocks,
        .grid_y = 1,
        .block = w->s.block,
        /* The kernel synchronises its whole grid, so all blocks must be
         * resident. */
        .cooperative = true,
    };
    spc_status status = ops_of(c->ctx)->launch(
        c->ctx->device, w->derive, &how, &args, sizeof args, stream, error);

    return status == SPC_OK ? spc__device_set_build(c, &source, stream, error)
                            : status;
}

spc_status spc__device_set_merge(const spc_coords *c, void *features,
                                 spc_dtype dtype, int channels, void *stream,
                                 spc_error *error)
{
    const spc__index_set_work *w = c->work;
    spc_merge_args args = {
        .features = features,
        .channels = channels,
        .half = dtype == SPC_F16    ? 1
                : dtype == SPC_BF16 ? 2
                                    : 0,
        .mean = c->duplicates == SPC_DUPLICATES_MEAN,
        .twins = c->twins,
        .twin_begin = c->twin_begin,
        .count = c->count,
        .stats = c->stats,
    };
    /* No block waits for another here, so this launch ignores the limit of
     * blocks and is not cooperative. */
    spc__launch how = {.grid_x = w->s.grid, .grid_y = 1, .block = w->s.block};

    return ops_of(c->ctx)->launch(c->ctx->device, w->merge, &how, &args,
                                  sizeof args, stream, error);
}
