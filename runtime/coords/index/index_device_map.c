/* SPDX-License-Identifier: Apache-2.0 */
/*
 * index_device_map.c - kernel maps on cuda and sim: launches the search and
 * fills row orders, tiles and pairs.
 */
#include "base/error.h"
#include "coords/index/index_device.h"
#include "coords/map_choice.h"
#include <stdlib.h>
#include <string.h>

/* Device data of a map. */
typedef struct map_work {
    spc__index_scratch s;
    spc__attrs config; /* search configuration */
    bool configured;   /* false: the template's default configuration */
    int *first;        /* the short form of the map (index_runs.cuh) */
    unsigned *fours;   /* masks of more than one word, with groups of four words
                        * side by side */
    int *pairs;        /* [grid * warps] */
    int32_t *list;     /* offset list of a kernel that is not a box */
    void *table;       /* table of the hash search */
    int *places;
    int *counts; /* [offsets][grid], used to list pairs */
    spc__kernel *list_pairs;
    spc__kernel *layout; /* makes the layouts that s.kernel does not make */
} map_work;
static const spc__device_ops *ops_of(const spc_ctx *ctx)
{
    return spc__device_ops_of(ctx->device);
}

static spc_status launch(const spc_ctx *ctx, const spc__index_scratch *s,
                         const spc_index_args *args, void *stream,
                         spc_error *error)
{
    return spc__index_launch(ctx, s->kernel, s, args, stream, error);
}

/* ---- maps ------------------------------------------------------------- */

void spc__device_map_destroy(spc_map *map)
{
    map_work *w = map->work;

    if (!w)
        return;
    /* All members are NULL until they are allocated, so this serves a map that
     * failed halfway. */
    spc__index_scratch_release(map->to, &w->s);
    spc__coords_dealloc(map->to, w->first);
    spc__coords_dealloc(map->to, w->fours);
    spc__coords_dealloc(map->to, w->pairs);
    spc__coords_dealloc(map->to, w->list);
    spc__coords_dealloc(map->to, w->table);
    spc__coords_dealloc(map->to, w->places);
    spc__coords_dealloc(map->to, w->counts);
    free(w);
    map->work = NULL;
}

void spc__device_map_limit(spc_map *map, unsigned blocks)
{
    map_work *w = map->work;

    spc__index_scratch_limit(&w->s, blocks);
}

/* One count of pairs a warp, so that warps need no atomics. */
static size_t pair_words(const spc__index_scratch *s)
{
    return (size_t)s->grid * (s->block / 32);
}

/* ---- choosing a searcher ---------------------------------------------- */

/* Slots for a full set, computed as in the kernel (index_hash.cuh). */
static size_t table_slots(const spc_coords *in)
{
    size_t slots = SPC_INDEX_TABLE_LEAST;

    while (slots < 2 * (size_t)in->reserved)
        slots *= 2;
    return slots;
}

/* The hash table that some configurations search instead of the sorted keys. */
static spc_status alloc_table(map_work *w, const spc_map *map, spc_error *error)
{
    size_t slots = table_slots(map->in);
    spc_status status;

    /* Another configuration of this map may have made the table. `places` is
     * allocated last, so both exist. */
    if (w->places)
        return SPC_OK;
    if (!w->table &&
        (status = spc__coords_alloc(&w->table, map->to, w->s.key_bytes * slots,
                                    error)) != SPC_OK)
        return status;
    return spc__coords_alloc(&w->places, map->to, 4 * slots, error);
}

static bool is_hash(const spc__attrs *config)
{
    const char *search = config ? spc__attrs_text(config, "search", "") : "";

    return strncmp(search, "hash", 4) == 0; /* hash and hash_half */
}

spc_status spc__device_map_configure(spc_map *map, const spc__attrs *config,
                                     spc_error *error)
{
    map_work *w = map->work;
    spc__kernel *kernel;
    spc_status status = SPC_OK;

    if (is_hash(config))
        status = alloc_table(w, map, error);
    if (status == SPC_OK)
        status = spc__index_load_search(&kernel, &w->s, map->to, &map->geometry,
                                        map->inverse, config, error);
    if (status != SPC_OK)
        return status;
    /* Sets it only now, so that after a failure the map keeps its earlier
     * configuration. */
    w->s.kernel = kernel;
    w->configured = config != NULL;
    if (config)
        w->config = *config;
    return SPC_OK;
}

/* Uses the configuration measured as fastest, or the default if that one is not
 * available. */
static spc_status configure_chosen(spc_map *map, spc_error *error)
{
    spc__attrs config;

    if (spc__map_choice(&config, map->ctx, &map->geometry, map->inverse)) {
        if (spc__device_map_configure(map, &config, error) == SPC_OK)
            return SPC_OK;
        spc__log_printf(&map->ctx->log, SPC_LOG_INFO,
                        "the recorded choice for this map cannot serve: %s",
                        error->text);
    }
    return spc__device_map_configure(map, NULL, error);
}

static size_t pairs_shared(const spc_map *map)
{
    const map_work *w = map->work;

    return (size_t)SPC_PAIRS_SHARED((int)w->s.block, map->offsets);
}

/* ---- creating and filling --------------------------------------------- */

/* The masks with the four words of a row side by side. */
static spc_status alloc_fours(map_work *w, const spc_map *map, spc_error *error)
{
    /* The sort by Gray rank reads four words of a mask at once. Kernels without
     * a second word, and inverse maps, do not have this copy (FOURS in
     * index.cu.lua). */
    size_t fours = ((size_t)map->mask_words + 3) / 4;

    return map->mask_words == 1 || map->inverse
               ? SPC_OK
               : spc__coords_alloc(&w->fours, map->to,
                                   16 * fours *
                                       (size_t)map->to->reserved_padded,
                                   error);
}

spc_status spc__device_map_create(spc_map *map, spc_error *error)
{
    const spc_coords *to = map->to;
    map_work *w = map->work = calloc(1, sizeof *w);
    spc__index_runs r = spc__index_choose_runs(&map->geometry, map->inverse);
    spc_status status;

    if (!w)
        return spc__fail_memory(error, sizeof *w);
    spc__index_scratch_init(&w->s, to, spc__key_bits(&map->in->key),
                            map->offsets);
    if ((status = spc__index_scratch_alloc(&w->s, to, map->mask_words,
                                           error)) != SPC_OK ||
        (status = spc__coords_alloc(
             /* 16 bytes a row and batch: the short form has one four-word entry
              * each (index_runs.cuh). */
             &w->first, to,
             16 * (size_t)to->reserved_padded * (size_t)r.batches, error)) !=
            SPC_OK ||
        (status = alloc_fours(w, map, error)) != SPC_OK ||
        (status = spc__index_alloc_clear(&w->pairs, to, 4 * pair_words(&w->s),
                                         error)) != SPC_OK ||
        (status = spc__index_upload_list(&w->list, map->to, &map->geometry,
                                         error)) != SPC_OK ||
        (status = configure_chosen(map, error)) != SPC_OK)
        return status;
    /* The first build may run on another stream than the clearing. */
    return ops_of(map->ctx)->sync(map->ctx->device, NULL, error);
}

/* Arguments that every launch for a map shares; the caller adds stages. */
static spc_index_args map_args(const spc_map *map)
{
    const map_work *w = map->work;
    spc_index_args args = {
        .set = spc__index_set_args(map->to),
        .in = spc__index_set_args(map->in),
        .first = w->first,
        .mask = map->plain.mask,
        .fours = w->fours,
        .pairs = w->pairs,
        .pair_words = (int)pair_words(&w->s),
        .list = w->list,
        .table = w->table,
        .table_places = w->places,
    };

    spc__index_add_scratch(&args, &w->s, map->to->rows_padded);
    return args;
}

/* ---- tile tables ------------------------------------------------------- */

/* Limit for blocks that write whole tiles of two sizes at once. With longer
 * units too few blocks would get any work. */
enum { UNIT_MOST = 128 };

static int least_multiple(int a, int b)
{
    int all = a;

    while (all % b != 0)
        all += a;
    return all;
}

static size_t tile_words(const spc_map *map, const spc__map_tiles *tiles)
{
    return (size_t)spc__map_tile_count(map, tiles->rows) *
           (size_t)map->mask_words;
}

/* True if the tables fit beside those that a launch already makes. Tile masks
 * reuse the memory of the keys. */
static bool tiles_fit(const spc_index_args *args, const spc_map *map,
                      const spc__map_tiles *tiles, int count, size_t words)
{
    const map_work *w = map->work;
    /* A launch that makes tiles no longer needs the keys. */
    size_t capacity = spc__index_scratch_row(&w->s, map->mask_words) / 4 *
                      (size_t)map->to->rows_padded;

    /* A launch makes at least one table, whatever its size. */
    if (count == 0)
        return true;
    return count < SPC_INDEX_TILES &&
           least_multiple(args->unit, tiles->rows) <= UNIT_MOST &&
           words + tile_words(map, tiles) <= capacity;
}

/* Adds as many of these tables as one launch can make, at least the first.
 * Returns how many it added. */
static int add_tiles(spc_index_args *args, const spc_map *map,
                     const spc__map_layout *layout, const spc__map_tiles *tiles)
{
    const map_work *w = map->work;
    /* The first three tables belong to the sort, so the tiles' tables come
     * after them. */
    size_t table = SPC_SORT_TABLE((size_t)w->s.grid, 1u << SPC_SORT_DIGIT);
    size_t words = 0;
    int count = 0;

    /* A block writes whole tiles of every size, so its unit is a common
     * multiple of all sizes and of a warp. */
    args->unit = 32;
    for (; tiles && tiles_fit(args, map, tiles, count, words);
         tiles = tiles->next) {
        args->tile[count] = (spc_index_tiles){
            .table = w->s.tables + table * (size_t)(3 + count),
            .scratch = (unsigned *)(void *)w->s.keys + words,
            .of = layout->mask,
            .rows = tiles->rows,
            .capacity = spc__map_tile_count(map, tiles->rows),
            .order = tiles->order,
            .mask = tiles->mask,
            .begin = tiles->begin,
        };
        args->stages |= SPC_INDEX_TILE;
        args->unit = least_multiple(args->unit, tiles->rows);
        words += tile_words(map, tiles);
        count++;
    }
    return count;
}

int spc__device_map_tables(const spc_map *map, const spc__map_tiles *tiles)
{
    /* Asks the same function that launches use, so that both always agree. */
    spc_index_args args = {0};

    return add_tiles(&args, map, &map->plain, tiles);
}

/* Adds the stages that sort a layout's rows and write its index and tiles. */
static void add_sorted(spc_index_args *args, const spc_map *map,
                       const spc__map_layout *layout)
{
    args->stages |= SPC_INDEX_SORT;
    args->sorted.order = layout->order;
    args->sorted.index = layout->index;
    args->sorted.mask = layout->mask;
    args->sorted.passes = (layout->bits + SPC_SORT_DIGIT - 1) / SPC_SORT_DIGIT;
    if (args->sorted.passes == 0) /* true for a kernel of one offset */
        args->sorted.passes = 1;
    /* For orders by key, the table maps the bits of a key, else the offsets. */
    size_t entries =
        layout->by == SPC_INDEX_BY_KEY ? SPC__KEY_BITS : (size_t)map->offsets;
    memcpy(args->sorted.bit_of, layout->bit_of,
           entries * sizeof *layout->bit_of);
    add_tiles(args, map, layout, layout->tiles);
}

/* ---- sorted orders that the indexing kernel does not make -------------- */

static bool is_by_another_way(const spc__map_layout *layout)
{
    return layout->sorted &&
           (layout->by != SPC_INDEX_BY_GRAY || layout->groups > 1);
}

spc_status spc__device_map_order_create(spc_map *map,
                                        const spc__map_layout *layout,
                                        spc_error *error)
{
    map_work *w = map->work;
    spc__index_width bits = spc__index_width_of(&w->s, map->to);
    spc__attrs problem;
    spc_status status;

    /* One kernel makes all orders of this kind, so it is loaded once a map. */
    if (w->layout || !is_by_another_way(layout))
        return SPC_OK;
    spc__layout_problem(&problem, &bits, &map->geometry, map->inverse);
    status = spc__index_load(&w->layout, map->ctx, "index", &problem, NULL,
                             "spc_layout", w->s.shared, error);
    return status == SPC_OK
               ? spc__index_check_resident(map->ctx, w->layout, "spc_layout",
                                           w->s.block, w->s.shared, error)
               : status;
}

/* Starts the kernel for one layout. */
static spc_status launch_layout(const spc_map *map, spc_index_args *args,
                                const spc__map_layout *layout, void *stream,
                                spc_error *error)
{
    const map_work *w = map->work;

    args->way = (spc_index_way){
        .by = layout->by,
        .is_group = layout->groups > 1,
        .begin = layout->begin,
        .end = layout->end,
    };
    return spc__index_launch(map->ctx, w->layout, &w->s, args, stream, error);
}

/* ---- filling ----------------------------------------------------------- */

spc_status spc__device_map_fill(const spc_map *map,
                                const spc__map_layout *layout, void *stream,
                                spc_error *error)
{
    const map_work *w = map->work;
    spc_index_args args = map_args(map);

    if (layout->sorted) {
        add_sorted(&args, map, layout);
    } else {
        args.stages = SPC_INDEX_PLAIN;
        args.index = layout->index;
    }
    return is_by_another_way(layout)
               ? launch_layout(map, &args, layout, stream, error)
               : launch(map->ctx, &w->s, &args, stream, error);
}

/* Builds the layouts of a map that the search of another map has already
 * filled. */
static spc_status build_derived(spc_map *map, const spc__map_layout *sorted,
                                void *stream, spc_error *error)
{
    const map_work *w = map->work;
    spc_index_args args = map_args(map);
    bool apart = sorted && is_by_another_way(sorted);
    spc_status status = SPC_OK;

    /* The search of the other map wrote the short form and the masks of this
     * one. */
    args.index = map->plain.index;
    args.stages = args.index ? SPC_INDEX_PLAIN : 0;
    if (sorted && !apart)
        add_sorted(&args, map, sorted);
    /* Without layouts there is nothing left to launch. */
    if (args.stages)
        status = launch(map->ctx, &w->s, &args, stream, error);
    return status == SPC_OK && apart
               ? spc__device_map_fill(map, sorted, stream, error)
               : status;
}

/* Lets the search write the map of the other direction as well. */
static void add_derived(spc_index_args *args, const spc_map *derived)
{
    const map_work *w = derived->work;

    args->turned = (spc_index_turned){
        .first = w->first,
        .mask = derived->plain.mask,
        .rows_padded = derived->to->rows_padded,
    };
}

spc_status spc__device_map_build(spc_map *map, const spc__source *source,
                                 const spc__map_layout *sorted, void *stream,
                                 spc_error *error)
{
    const map_work *w = map->work;
    spc_index_args args = map_args(map);
    spc_status status = SPC_OK;

    if (map->derived_from)
        return build_derived(map, sorted, stream, error);
    if (source)
        status = spc__index_add_build(&args, map->to, source, error);
    if (status != SPC_OK)
        return status;
    if (map->derived)
        add_derived(&args, map->derived);
    args.index = map->plain.index;
    args.stages |= SPC_INDEX_SEARCH | (args.index ? SPC_INDEX_PLAIN : 0);
    /* A separate kernel makes this order. It needs the finished masks, so it is
     * a second launch on the same stream. */
    bool apart = sorted && is_by_another_way(sorted);
    if (sorted && !apart)
        add_sorted(&args, map, sorted);
    status = launch(map->ctx, &w->s, &args, stream, error);
    return status == SPC_OK && apart
               ? spc__device_map_fill(map, sorted, stream, error)
               : status;
}

spc_status spc__device_map_tile(const spc_map *map,
                                const spc__map_layout *layout,
                                const spc__map_tiles *tiles, void *stream,
                                spc_error *error)
{
    const map_work *w = map->work;
    spc_index_args args = map_args(map);

    add_tiles(&args, map, layout, tiles);
    return is_by_another_way(layout)
               ? launch_layout(map, &args, layout, stream, error)
               : launch(map->ctx, &w->s, &args, stream, error);
}

/* ---- pairs by offset -------------------------------------------------- */

/* The kernel is the same in the code of every configuration, so this loads it
 * with the map's current one. */
spc_status spc__device_map_list_create(spc_map *map, spc_error *error)
{
    map_work *w = map->work;
    spc_ctx *ctx = map->ctx;
    size_t shared = pairs_shared(map);
    spc__index_width bits = spc__index_width_of(&w->s, map->to);
    spc__attrs problem;
    spc_status status = SPC_OK;

    spc__index_problem(&problem, &bits, &map->geometry, map->inverse);
    /* This may be called again after a failure, and then the memory exists. */
    if (!w->counts)
        status = spc__coords_alloc(&w->counts, map->to,
                                   4 * (size_t)map->offsets * w->s.grid, error);
    if (status == SPC_OK)
        status = spc__index_load(&w->list_pairs, ctx, "index", &problem,
                                 w->configured ? &w->config : NULL, "spc_pairs",
                                 shared, error);
    return status == SPC_OK
               ? spc__index_check_resident(ctx, w->list_pairs, "spc_pairs",
                                           w->s.block, shared, error)
               : status;
}

spc_status spc__device_map_list(const spc_map *map, const spc__map_pairs *pairs,
                                void *stream, spc_error *error)
{
    const map_work *w = map->work;
    spc_index_args args = map_args(map);
    spc__launch how = {
        .grid_x = w->s.blocks,
        .grid_y = 1,
        .block = w->s.block,
        .shared_bytes = pairs_shared(map),
        /* The kernel waits for all blocks between counting and listing, so all
         * must be resident at once. */
        .cooperative = true,
    };

    args.by_offset = (spc_index_by_offset){
        .in = pairs->in,
        .out = pairs->out,
        .place = pairs->place,
        .first = pairs->first,
        .begin = pairs->begin,
        .counts = w->counts,
    };
    return ops_of(map->ctx)->launch(map->ctx->device, w->list_pairs, &how,
                                    &args, sizeof args, stream, error);
}

/* ---- counting --------------------------------------------------------- */

const int *spc__device_map_pairs(const spc_map *map, size_t *words)
{
    /* The search of the other map counts the pairs of a linked map. */
    const map_work *w = map->derived_from ? map->derived_from->work : map->work;

    *words = pair_words(&w->s);
    return w->pairs;
}
