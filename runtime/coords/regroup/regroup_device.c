/* SPDX-License-Identifier: Apache-2.0 */
/*
 * regroup_device.c - regrouping on cuda and sim: the template "regroup".
 *
 * Filling takes three launches: list the voxels made from the sources, sort the
 * list like any set, and record which rows came from which slots.
 */
#include "base/error.h"
#include "coords/index/index_device.h"
#include "coords/index/indexer.h"
#include "coords/regroup/regroup.h"
#include <stdlib.h>
#include <string.h>

typedef struct regroup_work {
    int *at; /* positions, [all rows] */
    int *counts;
    spc_index_sync *sync;
    unsigned grid, block;
    spc__kernel *list, *rows, *mask, *gather, *spread;
} regroup_work;

static const spc__device_ops *ops_of(const spc_coords *c)
{
    return spc__device_ops_of(c->ctx->device);
}

/* ---- creating --------------------------------------------------------- */

static void device_destroy(spc_coords *c)
{
    regroup_work *w = c->regroup->work;

    if (!w)
        return;
    spc__coords_dealloc(c, w->at);
    spc__coords_dealloc(c, w->counts);
    spc__coords_dealloc(c, w->sync);
    free(w);
    c->regroup->work = NULL;
}

/* Chooses at most one block a multiprocessor, since all blocks of the listing
 * kernel must run at once. */
static void choose_grid(regroup_work *w, const spc_coords *c)
{
    /* No block gets fewer than 128 rows. */
    int useful = (c->regroup->first[c->regroup->sources] + 127) / 128;
    int most = c->ctx->info.multiprocessors;

    w->block = spc__index_block(&c->ctx->target, ops_of(c)->index_block);
    w->grid = useful < 1      ? 1
              : useful < most ? (unsigned)useful
                              : (unsigned)(most > 0 ? most : 1);
}

/* Loads the five kernels, which are of one template. */
static spc_status load_kernels(regroup_work *w, spc_ctx *ctx, spc_error *error)
{
    const struct {
        spc__kernel **to;
        const char *name;
    } kernels[] = {
        {&w->list, "spc_regroup"},  {&w->rows, "spc_regroup_rows"},
        {&w->mask, "spc_mask"},     {&w->gather, "spc_gather"},
        {&w->spread, "spc_spread"},
    };
    spc__attrs problem = {0};
    spc_status status = SPC_OK;

    spc__attrs_set_text(&problem, "op", "regroup");
    spc__attrs_set_number(&problem, "threads", w->block);
    int count = (int)(sizeof kernels / sizeof *kernels);
    for (int i = 0; i < count && status == SPC_OK; i++)
        status = spc__index_load(kernels[i].to, ctx, "regroup", &problem, NULL,
                                 kernels[i].name,
                                 /* Only the first kernel, which lists, uses
                                  * shared memory. */
                                 i == 0 ? SPC_REGROUP_SHARED : 0, error);
    /* It is also the only one that waits for its whole grid. */
    return status == SPC_OK
               ? spc__index_check_resident(ctx, w->list, "spc_regroup",
                                           w->block, SPC_REGROUP_SHARED, error)
               : status;
}

/* Loads the kernels and allocates their memory. */
static spc_status device_create(spc_coords *c, spc_error *error)
{
    spc__regroup *r = c->regroup;
    regroup_work *w = r->work = calloc(1, sizeof *w);
    size_t rows = (size_t)r->first[r->sources];
    spc_status status;

    if (!w)
        return spc__fail_memory(error, sizeof *w);
    choose_grid(w, c);
    if ((status = spc__coords_alloc(&w->at, c, 4 * rows, error)) != SPC_OK ||
        (status = spc__coords_alloc(&w->counts, c, 4 * w->grid, error)) !=
            SPC_OK ||
        (status = spc__coords_alloc(&w->sync, c, sizeof *w->sync, error)) !=
            SPC_OK ||
        (status = ops_of(c)->fill(c->ctx->device, w->sync, 0, sizeof *w->sync,
                                  NULL, error)) != SPC_OK ||
        (status = load_kernels(w, c->ctx, error)) != SPC_OK)
        return status;
    /* The first fill may run on another stream than the clearing. */
    return ops_of(c)->sync(c->ctx->device, NULL, error);
}

/* ---- filling ---------------------------------------------------------- */

/* Describes the sources to the kernels. */
static void add_sources(spc_regroup_args *args, const spc__regroup *r)
{
    args->sources = r->sources;
    args->rows = r->first[r->sources];
    for (int i = 0; i < r->sources; i++)
        args->source[i] = (spc_regroup_source){
            .keys = r->source[i]->keys,
            .order = r->source[i]->order,
            .count = r->source[i]->count,
            .wide = spc__key_bits(&r->source[i]->key) == 64,
            .first = r->first[i],
            .key = r->source[i]->key,
        };
}

/* Describes a fill to the kernels. */
static spc_regroup_args args_of(const spc_coords *c, const uint8_t *mask)
{
    const spc__regroup *r = c->regroup;
    const regroup_work *w = r->work;
    spc_regroup_args args = {
        .children = r->children,
        .mask = mask,
        .at = w->at,
        .counts = w->counts,
        .of = r->of,
        .listed = r->listed,
        .list = r->list,
        .slot = r->slot,
        .capacity = c->capacity,
        .sync = w->sync,
        .merges = r->merges,
        .count = c->count,
        .stats = c->stats,
        .order = c->order,
        .twins = c->twins,
        .twin_begin = c->twin_begin,
        .data = c->data,
        .begin = r->begin,
        .slots = r->slots,
    };

    add_sources(&args, r);
    memcpy(args.scale, r->how.scale, sizeof args.scale);
    memcpy(args.split, r->how.split, sizeof args.split);
    return args;
}

/* Lists the children of all rows, sorts and merges them as a set, and records
 * which row each child became. */
static spc_status device_fill(spc_coords *c, const uint8_t *mask, void *stream,
                              spc_error *error)
{
    const regroup_work *w = c->regroup->work;
    spc_regroup_args args = args_of(c, mask);
    spc__source source = {c->regroup->list, c->regroup->listed, 0};
    spc__launch how = {
        .grid_x = w->grid,
        .grid_y = 1,
        .block = w->block,
        .shared_bytes = SPC_REGROUP_SHARED,
        .cooperative = true,
    };
    spc_status status = ops_of(c)->launch(c->ctx->device, w->list, &how, &args,
                                          sizeof args, stream, error);

    /* Three launches on one stream: each reads the results of the previous
     * launch. */
    if (status == SPC_OK)
        status = c->indexer->set_build(c, &source, stream, error);
    how.shared_bytes = 0;
    how.cooperative = false;
    return status == SPC_OK
               ? ops_of(c)->launch(c->ctx->device, w->rows, &how, &args,
                                   sizeof args, stream, error)
               : status;
}

/* ---- features --------------------------------------------------------- */

/* One thread per item, but no more blocks than can run at once. */
static spc_status launch_items(const spc_coords *c, spc__kernel *kernel,
                               int64_t items, const void *args, size_t bytes,
                               void *stream, spc_error *error)
{
    const regroup_work *w = c->regroup->work;
    int64_t useful = (items + w->block - 1) / w->block;
    int64_t most = 2 * (int64_t)c->ctx->info.multiprocessors;
    spc__launch how = {.grid_y = 1, .block = w->block};

    most = most > 0 ? most : 1;
    how.grid_x = (unsigned)(useful < 1 ? 1 : useful < most ? useful : most);
    return ops_of(c)->launch(c->ctx->device, kernel, &how, args, bytes, stream,
                             error);
}

static spc_status device_mask(const spc_coords *c, const spc_mask_args *args,
                              spc_dtype dtype, void *stream, spc_error *error)
{
    const regroup_work *w = c->regroup->work;
    int64_t slots = (int64_t)args->first[args->sources] * args->children;

    (void)dtype;
    return launch_items(c, w->mask, slots, args, sizeof *args, stream, error);
}

/* Starts a thread for each piece of a row. */
static spc_status device_gather(const spc_coords *c,
                                const spc_gather_args *args, spc_dtype dtype,
                                void *stream, spc_error *error)
{
    const regroup_work *w = c->regroup->work;

    (void)dtype;
    return launch_items(c, w->gather,
                        (int64_t)c->capacity * (args->channels / args->piece),
                        args, sizeof *args, stream, error);
}

static spc_status device_spread(const spc_coords *c,
                                const spc_gather_args *args, spc_dtype dtype,
                                void *stream, spc_error *error)
{
    const regroup_work *w = c->regroup->work;
    int64_t rows = (int64_t)args->first[args->sources] * args->slices;

    (void)dtype;
    return launch_items(c, w->spread, rows * (args->channels / args->piece),
                        args, sizeof *args, stream, error);
}

const spc__regrouper spc__regrouper_device = {
    .create = device_create,
    .destroy = device_destroy,
    .fill = device_fill,
    .mask = device_mask,
    .gather = device_gather,
    .spread = device_spread,
};
