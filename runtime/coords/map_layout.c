/* SPDX-License-Identifier: Apache-2.0 */
/*
 * map_layout.c - the layouts of a kernel map: prepared once, looked up when a
 * plan runs, and filled again when the map is rebuilt.
 */
#include "base/error.h"
#include "coords/index/indexer.h"
#include "coords/map.h"
#include <stdlib.h>
#include <string.h>

/* ---- memory ----------------------------------------------------------- */

static spc_status alloc(void *out, const spc_map *map, size_t bytes,
                        spc_error *error)
{
    return spc__coords_alloc(out, map->to, bytes, error);
}

static void dealloc(const spc_map *map, void *memory)
{
    spc__coords_dealloc(map->to, memory);
}

static void free_tiles(const spc_map *map, spc__map_tiles *tiles)
{
    for (spc__map_tiles *next; tiles; tiles = next) {
        next = tiles->next;
        dealloc(map, tiles->order);
        dealloc(map, tiles->mask);
        dealloc(map, tiles->begin);
        free(tiles);
    }
}

static void free_pairs(const spc_map *map, spc__map_pairs *pairs)
{
    if (!pairs)
        return;
    dealloc(map, pairs->in);
    dealloc(map, pairs->out);
    dealloc(map, pairs->place);
    dealloc(map, pairs->first);
    dealloc(map, pairs->begin);
    free(pairs);
}

void spc__map_layout_release(const spc_map *map, spc__map_layout *layout)
{
    free_tiles(map, layout->tiles);
    free_pairs(map, layout->pairs);
    dealloc(map, layout->order);
    if (!layout->borrows_index)
        dealloc(map, layout->index);
    dealloc(map, layout->mask);
    free(layout->bit_of);
}

spc_status spc__map_layout_alloc(spc__map_layout *layout, const spc_map *map,
                                 spc_error *error)
{
    /* Arrays are sized for the reserved rows, so that spc_coords_set_capacity()
     * needs no allocation and addresses stay valid. */
    size_t rows = (size_t)map->to->reserved_padded;
    spc_status status = SPC_OK;

    /* The set owns the array of the plain order. spc_map_free() clears the
     * pointer before it releases the layout. */
    if (!layout->sorted)
        layout->order = map->to->order;
    else
        status = alloc(&layout->order, map, 4 * rows, error);
    if (status == SPC_OK)
        status = alloc(&layout->mask, map, 4 * rows * (size_t)map->mask_words,
                       error);
    return status;
}

spc_status spc__map_index_alloc(spc__map_layout *layout, const spc_map *map,
                                spc_error *error)
{
    return alloc(&layout->index, map,
                 4 * (size_t)map->to->reserved_padded * (size_t)map->offsets,
                 error);
}

static int tiles_of(int rows, int tile_rows)
{
    return (rows + tile_rows - 1) / tile_rows;
}

int spc__map_tile_count(const spc_map *map, int tile_rows)
{
    return tiles_of(map->to->capacity, tile_rows);
}

/* Makes a table of the tiles in the order of their masks, sized for the
 * reserved rows, as is every array of a map. */
static spc_status create_tiles(spc__map_tiles **out, const spc_map *map,
                               int tile_rows, spc_error *error)
{
    spc__map_tiles *tiles = calloc(1, sizeof *tiles);
    spc_status status;

    *out = NULL;
    if (!tiles)
        return spc__fail_memory(error, sizeof *tiles);
    tiles->rows = tile_rows;
    size_t count = (size_t)tiles_of(map->to->reserved, tile_rows);
    status = alloc(&tiles->order, map, 4 * count, error);
    if (status == SPC_OK)
        status = alloc(&tiles->mask, map, 4 * count * (size_t)map->mask_words,
                       error);
    if (status == SPC_OK)
        status = alloc(&tiles->begin, map, 4 * (size_t)map->offsets, error);
    if (status == SPC_OK)
        *out = tiles;
    else
        free_tiles(map, tiles);
    return status;
}

/* ---- layouts ---------------------------------------------------------- */

/* Sets *out to NULL for "none". */
static spc_status parse_order(const spc__row_order **out, const char *order,
                              spc_error *error)
{
    *out = NULL;
    if (strcmp(order, "none") == 0 || (*out = spc__row_order_find(order)))
        return SPC_OK;
    return spc__fail(error, SPC_EINVAL, "unknown row order '%.32s' (%s)", order,
                     spc__row_order_names());
}

/* Returns NULL if the layout was never prepared. */
static const spc__map_layout *
find_layout(const spc_map *map, const spc__row_order *order, int group)
{
    const spc__map_layout *layout = map->sorted;

    /* The plain layout always exists, but counts as prepared only with an
     * index. */
    if (!order)
        return map->plain.index ? &map->plain : NULL;
    while (layout && (layout->sorted != order || layout->group != group))
        layout = layout->next;
    return layout;
}

static const spc__map_tiles *find_tiles(const spc__map_layout *layout,
                                        int tile_rows)
{
    const spc__map_tiles *tiles = layout->tiles;

    while (tiles && tiles->rows != tile_rows)
        tiles = tiles->next;
    return tiles;
}

/* Returns the first table that is not made together with this one. */
static const spc__map_tiles *tiles_after(const spc_map *map,
                                         const spc__map_tiles *tiles)
{
    const spc__indexer *indexer = map->in->indexer;
    int count = indexer->tables ? indexer->tables(map, tiles) : 1;

    for (int i = 0; i < count && tiles; i++)
        tiles = tiles->next;
    return tiles;
}

/* Refills the tile tables that filling a layout does not make. */
static spc_status refill_tiles(const spc_map *map,
                               const spc__map_layout *layout, void *stream,
                               spc_error *error)
{
    const spc__map_tiles *tiles = layout->tiles;
    spc_status status = SPC_OK;

    if (layout->sorted && tiles) /* the tiles are made together with the rows */
        tiles = tiles_after(map, tiles);
    for (; status == SPC_OK && tiles; tiles = tiles_after(map, tiles))
        status = map->in->indexer->tile(map, layout, tiles, stream, error);
    return status;
}

/* True if sorting the rows also makes this table of tiles. */
static bool comes_with_rows(const spc_map *map, const spc__map_layout *layout,
                            const spc__map_tiles *tiles)
{
    const spc__map_tiles *first = layout->sorted ? layout->tiles : NULL;
    const spc__map_tiles *end = first ? tiles_after(map, first) : NULL;

    while (first != end && first != tiles)
        first = first->next;
    return first != end;
}

/* Groups after the first share its index. */
static spc_status alloc_sorted(spc__map_layout *layout, const spc_map *map,
                               spc_error *error)
{
    spc_status status = spc__map_layout_alloc(layout, map, error);

    /* Groups are prepared in ascending order (spc__map_prepare), so group 0
     * exists by now. */
    if (status != SPC_OK || layout->group == 0)
        return status == SPC_OK ? spc__map_index_alloc(layout, map, error)
                                : status;
    layout->index = find_layout(map, layout->sorted, 0)->index;
    layout->borrows_index = true;
    return SPC_OK;
}

/* Adds a layout whose rows are sorted, and fills it if the map has been
 * filled. */
static spc_status add_sorted(spc_map *map, const spc__row_order *order,
                             int group, void *stream, spc_error *error)
{
    const spc__indexer *indexer = map->in->indexer;
    spc__map_layout *layout = calloc(1, sizeof *layout);
    spc_status status;

    if (!layout)
        return spc__fail_memory(error, sizeof *layout);
    if ((status = spc__row_order_describe(layout, order, &map->geometry,
                                          &map->to->key, group, error)) ==
            SPC_OK &&
        (status = alloc_sorted(layout, map, error)) == SPC_OK &&
        (status = indexer->order_create(map, layout, error)) == SPC_OK &&
        spc__map_is_filled(map))
        status = indexer->fill(map, layout, stream, error);
    if (status == SPC_OK) {
        /* Links the layout last, as a plan must not find one that failed
         * halfway. */
        layout->next = map->sorted;
        map->sorted = layout;
        return SPC_OK;
    }
    spc__map_layout_release(map, layout);
    free(layout);
    return status;
}

/* Adds the index of the unsorted layout, which a map makes only on demand. */
static spc_status add_plain_index(spc_map *map, void *stream, spc_error *error)
{
    spc_status status = spc__map_index_alloc(&map->plain, map, error);

    if (status == SPC_OK && spc__map_is_filled(map))
        status = map->in->indexer->fill(map, &map->plain, stream, error);
    if (status != SPC_OK) { /* an existing index would count as filled */
        dealloc(map, map->plain.index);
        map->plain.index = NULL;
    }
    return status;
}

/* Adds a table of tiles to a layout. */
static spc_status add_tiles(spc_map *map, spc__map_layout *layout,
                            int tile_rows, void *stream, spc_error *error)
{
    spc__map_tiles *tiles = NULL;
    spc_status status;

    /* Rows are padded to SPC_ROW_PAD, so a tile whose size divides it never
     * reads past the end. */
    if (tile_rows < 0 || SPC_ROW_PAD % tile_rows != 0)
        return spc__fail(error, SPC_EINVAL,
                         "a map cannot have tiles of %d rows: the size must "
                         "divide %d",
                         tile_rows, SPC_ROW_PAD);
    if ((status = create_tiles(&tiles, map, tile_rows, error)) != SPC_OK)
        return status;
    /* Otherwise the table is made when the map is filled. */
    if (spc__map_is_filled(map))
        status = map->in->indexer->tile(map, layout, tiles, stream, error);
    if (status != SPC_OK) {
        free_tiles(map, tiles);
        return status;
    }
    tiles->next = layout->tiles;
    layout->tiles = tiles;
    return SPC_OK;
}

/* Makes the parts of a layout that a plan needs, unless they exist. */
static spc_status prepare_group(spc_map *map, const spc__row_order *sorted,
                                int group, int tile_rows, void *stream,
                                spc_error *error)
{
    spc_status status = SPC_OK;

    if (!find_layout(map, sorted, group))
        status = sorted ? add_sorted(map, sorted, group, stream, error)
                        : add_plain_index(map, stream, error);
    if (status == SPC_OK && tile_rows != 0) {
        /* The map is not const here, so its layout may be written. */
        spc__map_layout *layout =
            (spc__map_layout *)find_layout(map, sorted, group);
        if (!find_tiles(layout, tile_rows))
            status = add_tiles(map, layout, tile_rows, stream, error);
    }
    return status;
}

spc_status spc__map_prepare(spc_map *map, const char *order, int tile_rows,
                            void *stream)
{
    spc_error error = {0};
    const spc__row_order *sorted;
    spc_status status = parse_order(&sorted, order, &error);

    for (int g = 0; status == SPC_OK && g < spc__row_order_groups(sorted); g++)
        status = prepare_group(map, sorted, g, tile_rows, stream, &error);
    return status == SPC_OK ? status : spc__ctx_fail(map->ctx, &error);
}

static void view_layout(spc_map_view *out, const spc_map *map,
                        const spc__map_layout *layout,
                        const spc__map_tiles *tiles)
{
    *out = (spc_map_view){
        .index = layout->index,
        .order = layout->order,
        .mask = layout->mask,
        .tile_order = tiles ? tiles->order : NULL,
        .tile_mask = tiles ? tiles->mask : NULL,
        .tile_begin = tiles ? tiles->begin : NULL,
        .rows = map->to->capacity,
        .rows_padded = map->to->rows_padded,
        .rows_in = map->in->capacity,
        .offsets = map->offsets,
        .mask_words = map->mask_words,
        .centre = map->centre,
        .tile_rows = tiles ? tiles->rows : 0,
        .tiles = tiles ? spc__map_tile_count(map, tiles->rows) : 0,
    };
}

bool spc__map_view_group(spc_map_view *out, const spc_map *map,
                         const char *order, int tile_rows, int group)
{
    const spc__map_layout *layout;
    const spc__map_tiles *tiles = NULL;
    const spc__row_order *sorted;

    if (parse_order(&sorted, order, NULL) != SPC_OK ||
        !(layout = find_layout(map, sorted, group)))
        return false;
    if (tile_rows && !(tiles = find_tiles(layout, tile_rows)))
        return false;
    view_layout(out, map, layout, tiles);
    return true;
}

bool spc__map_view(spc_map_view *out, const spc_map *map, const char *order,
                   int tile_rows)
{
    return spc__map_view_group(out, map, order, tile_rows, 0);
}

void spc__map_view_rows(spc_map_view *out, const spc_map *map, int tile_rows)
{
    /* The index may exist, but it is hidden, so that these kernels do not
     * depend on what other plans prepared. */
    view_layout(out, map, &map->plain, NULL);
    out->index = NULL;
    out->tile_rows = tile_rows;
    out->tiles = spc__map_tile_count(map, tile_rows);
}

/* ---- pairs by offset -------------------------------------------------- */

/* Entries for this number of rows; map.c checks that they fit an int. */
static size_t pair_capacity(const spc_map *map, int rows_padded)
{
    const spc__triplet_ops *triplets = map->in->indexer->triplets;

    if (triplets != NULL)
        return (size_t)triplets->capacity(map);
    /* Upper bound: every row has every offset. */
    return (size_t)map->offsets * (size_t)rows_padded;
}

/* True if lists may have memory for the pairs that the map has now. */
static bool knows_pairs(const spc_map *map)
{
    return map->fits_lists && map->checked && spc__map_is_filled(map);
}

int64_t spc__map_pair_capacity(const spc_map *map)
{
    return map->counted || knows_pairs(map)
               ? map->pairs
               : (int64_t)pair_capacity(map, map->to->rows_padded);
}

/* Adds a quarter, so that most later scenes also fit. */
static size_t fitting_entries(const spc_map *map)
{
    size_t most = pair_capacity(map, map->to->reserved_padded);
    size_t entries = (size_t)map->pairs + (size_t)map->pairs / 4 + 1;

    return entries < most ? entries : most;
}

/* Allocates the lists of pairs: for the most pairs that the map can have, or
 * for those that it has (spc_map_fit_lists). */
static spc_status create_pairs(spc__map_pairs **out, const spc_map *map,
                               spc_error *error)
{
    spc__map_pairs *pairs = calloc(1, sizeof *pairs);
    size_t rows = (size_t)map->to->reserved_padded;
    spc_status status;

    *out = NULL;
    if (!pairs)
        return spc__fail_memory(error, sizeof *pairs);
    pairs->fits = knows_pairs(map);
    pairs->entries = pairs->fits ? fitting_entries(map)
                                 : pair_capacity(map, map->to->reserved_padded);
    size_t bytes = 4 * pairs->entries;
    if ((status = alloc(&pairs->in, map, bytes, error)) == SPC_OK &&
        (status = alloc(&pairs->out, map, bytes, error)) == SPC_OK &&
        (status = alloc(&pairs->place, map, bytes, error)) == SPC_OK &&
        (status = alloc(&pairs->first, map, 4 * rows, error)) == SPC_OK &&
        (status = alloc(&pairs->begin, map, 4 * ((size_t)map->offsets + 1),
                        error)) == SPC_OK)
        *out = pairs;
    else
        free_pairs(map, pairs);
    return status;
}

/* Adds the lists of pairs to the map. */
static spc_status add_pairs(spc_map *map, void *stream, spc_error *error)
{
    const spc__indexer *indexer = map->in->indexer;
    spc__map_pairs *pairs = NULL;
    spc_status status;

    if ((status = create_pairs(&pairs, map, error)) == SPC_OK &&
        (status = indexer->list_create(map, error)) == SPC_OK &&
        spc__map_is_filled(map))
        status = indexer->list(map, pairs, stream, error);
    if (status == SPC_OK)
        map->plain.pairs = pairs;
    else
        free_pairs(map, pairs);
    return status;
}

/* Lists the pairs anew, with more memory where they need it. */
static spc_status renew_pairs(spc_map *map, void *stream, spc_error *error)
{
    spc__map_pairs *pairs = map->plain.pairs;
    spc_status status;

    if (!knows_pairs(map) || (size_t)map->pairs > pairs->entries) {
        free_pairs(map, pairs);
        map->plain.pairs = NULL;
        return add_pairs(map, stream, error);
    }
    status = map->in->indexer->list(map, pairs, stream, error);
    pairs->is_stale = status != SPC_OK;
    return status;
}

spc_status spc__map_prepare_pairs(spc_map *map, void *stream)
{
    spc_error error = {0};
    spc_status status = SPC_OK;

    if (!map->plain.pairs)
        status = add_pairs(map, stream, &error);
    else if (map->plain.pairs->is_stale)
        status = renew_pairs(map, stream, &error);
    return status == SPC_OK ? status : spc__ctx_fail(map->ctx, &error);
}

bool spc__map_pairs_view(spc_pairs_view *out, const spc_map *map)
{
    const spc__map_pairs *pairs = map->plain.pairs;

    if (!pairs || pairs->is_stale)
        return false;
    *out = (spc_pairs_view){
        .in = pairs->in,
        .out = pairs->out,
        .place = pairs->place,
        .first = pairs->first,
        .begin = pairs->begin,
        .offsets = map->offsets,
        .capacity = pairs->fits ? (int)pairs->entries
                                : (int)pair_capacity(map, map->to->rows_padded),
    };
    return true;
}

bool spc__map_triplets_view(spc_triplets_view *out, const spc_map *map)
{
    const spc__triplet_ops *triplets = map->in->indexer->triplets;

    if (triplets != NULL)
        triplets->view(out, map);
    return triplets != NULL;
}

/* ---- the transposed table --------------------------------------------- */

spc_status spc__map_create_transposed(spc_map **out, const spc_map *map)
{
    /* The rows and the inputs change sides together with the direction, so the
     * geometry stays the same. */
    return map->inverse
               ? spc_map_create(out, map->to, map->in, &map->geometry)
               : spc_map_create_inverse(out, map->to, map->in, &map->geometry);
}

/* ---- filling again ---------------------------------------------------- */

spc_status spc__map_refill(const spc_map *map, bool first_is_filled,
                           void *stream, spc_error *error)
{
    const spc__indexer *indexer = map->in->indexer;
    spc_status status = refill_tiles(map, &map->plain, stream, error);

    if (status == SPC_OK && map->plain.pairs && !map->plain.pairs->is_stale)
        status = indexer->list(map, map->plain.pairs, stream, error);
    for (const spc__map_layout *layout = map->sorted;
         layout && status == SPC_OK; layout = layout->next) {
        /* The launch that built the map may have filled the first one already
         * (build() in map.c). */
        if (layout != map->sorted || !first_is_filled)
            status = indexer->fill(map, layout, stream, error);
        if (status == SPC_OK)
            status = refill_tiles(map, layout, stream, error);
    }
    return status;
}

/* Fills a group's layout again, and its tiles. */
static spc_status relayout_group(const spc_map *map,
                                 const spc__map_layout *layout, int tile_rows,
                                 void *stream, spc_error *error)
{
    const spc__map_tiles *tiles = find_tiles(layout, tile_rows);
    spc_status status = map->in->indexer->fill(map, layout, stream, error);

    if (status == SPC_OK && tiles && !comes_with_rows(map, layout, tiles))
        status = map->in->indexer->tile(map, layout, tiles, stream, error);
    return status;
}

spc_status spc__map_relayout(spc_map *map, const char *order, int tile_rows,
                             void *stream)
{
    const spc__row_order *sorted;
    spc_error error = {0};
    spc_status status = parse_order(&sorted, order, &error);

    for (int g = 0; status == SPC_OK && g < spc__row_order_groups(sorted);
         g++) {
        const spc__map_layout *layout = find_layout(map, sorted, g);
        if (layout && (tile_rows == 0 || find_tiles(layout, tile_rows)))
            status = relayout_group(map, layout, tile_rows, stream, &error);
        else
            status = spc__fail(&error, SPC_ESTATE,
                               "the map's layout \"%s\" with tiles of %d rows "
                               "was never prepared",
                               order, tile_rows);
    }
    return status == SPC_OK ? status : spc__ctx_fail(map->ctx, &error);
}

spc_status spc__map_relist(spc_map *map, void *stream)
{
    spc_error error = {0};
    spc_status status =
        map->plain.pairs && !map->plain.pairs->is_stale
            ? map->in->indexer->list(map, map->plain.pairs, stream, &error)
            : spc__fail(&error, SPC_ESTATE,
                        "the map's pairs by offset were never prepared");

    return status == SPC_OK ? status : spc__ctx_fail(map->ctx, &error);
}
