/*
 * map_layout.c - the layouts of a kernel map: prepared once, looked up when a
 * plan runs, filled again when the map is rebuilt.
 */
#include "error.h"
#include "map_builder.h"
#include <stdlib.h>
#include <string.h>

/* ---- memory ----------------------------------------------------------- */

static void free_tiles(const spc_map *map, spc__map_tiles *tiles)
{
    for (spc__map_tiles *next; tiles; tiles = next) {
        next = tiles->next;
        spc__map_dealloc(map, tiles->order);
        spc__map_dealloc(map, tiles->mask);
        spc__map_dealloc(map, tiles->begin);
        free(tiles);
    }
}

void spc__map_layout_release(const spc_map *map, spc__map_layout *layout)
{
    free_tiles(map, layout->tiles);
    spc__map_dealloc(map, layout->order);
    spc__map_dealloc(map, layout->index);
    spc__map_dealloc(map, layout->mask);
    free(layout->bit_of);
}

spc_status spc__map_layout_alloc(spc__map_layout *layout, const spc_map *map,
                                 spc_error *error)
{
    size_t rows = (size_t)map->rows_padded;
    void *memory;
    spc_status status = spc__map_alloc(&memory, map, 4 * rows, error);

    if (status != SPC_OK)
        return status;
    layout->order = memory;
    status =
        spc__map_alloc(&memory, map, 4 * rows * (size_t)map->mask_words, error);
    layout->mask = memory;
    return status;
}

spc_status spc__map_index_alloc(spc__map_layout *layout, const spc_map *map,
                                spc_error *error)
{
    void *memory;
    spc_status status = spc__map_alloc(
        &memory, map, 4 * (size_t)map->rows_padded * (size_t)map->offsets,
        error);

    layout->index = memory;
    return status;
}

static spc_status create_tiles(spc__map_tiles **out, const spc_map *map,
                               int tile_rows, spc_error *error)
{
    spc__map_tiles *tiles = calloc(1, sizeof *tiles);
    spc_status status;
    void *memory;

    *out = NULL;
    if (!tiles)
        return spc__fail_memory(error, sizeof *tiles);
    tiles->rows = tile_rows;
    tiles->capacity = map->rows_padded / tile_rows;
    status = spc__map_alloc(&memory, map, 4 * (size_t)tiles->capacity, error);
    tiles->order = memory;
    if (status == SPC_OK) {
        status = spc__map_alloc(
            &memory, map, 4 * (size_t)tiles->capacity * (size_t)map->mask_words,
            error);
        tiles->mask = memory;
    }
    if (status == SPC_OK) {
        status = spc__map_alloc(&memory, map, 4 * (size_t)map->offsets, error);
        tiles->begin = memory;
    }
    if (status == SPC_OK)
        *out = tiles;
    else
        free_tiles(map, tiles);
    return status;
}

/* ---- layouts ---------------------------------------------------------- */

/* NULL for "none". */
static spc_status parse_order(const spc__row_order **out, const char *order,
                              spc_error *error)
{
    *out = spc__row_order_find(order);
    if (*out || strcmp(order, "none") == 0)
        return SPC_OK;
    return spc__fail(error, SPC_EINVAL,
                     "unknown row order \"%.32s\": it must be %s", order,
                     spc__row_order_names());
}

/* NULL if it was never prepared. */
static const spc__map_layout *find_layout(const spc_map *map,
                                          const spc__row_order *order)
{
    const spc__map_layout *layout = map->sorted;

    if (!order)
        return map->plain.index ? &map->plain : NULL;
    while (layout && layout->sorted != order)
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

/* The tile tables that filling a layout does not bring. */
static spc_status refill_tiles(const spc_map *map,
                               const spc__map_layout *layout, void *stream,
                               spc_error *error)
{
    const spc__map_tiles *tiles = layout->tiles;
    spc_status status = SPC_OK;

    if (layout->sorted && tiles) /* came with the rows */
        tiles = tiles->next;
    for (; status == SPC_OK && tiles; tiles = tiles->next)
        status = map->builder->tile(map, layout, tiles, stream, error);
    return status;
}

static spc_status add_sorted(spc_map *map, const spc__row_order *order,
                             void *stream, spc_error *error)
{
    spc__map_layout *layout = calloc(1, sizeof *layout);
    spc_status status;

    if (!layout)
        return spc__fail_memory(error, sizeof *layout);
    layout->sorted = order;
    layout->bit_of = malloc((size_t)map->offsets * sizeof *layout->bit_of);
    status = layout->bit_of ? spc__map_layout_alloc(layout, map, error)
                            : spc__fail_memory(error, sizeof *layout);
    if (status == SPC_OK)
        status = spc__map_index_alloc(layout, map, error);
    if (status == SPC_OK) {
        layout->bits = spc__row_order_bits(layout->bit_of, order, &map->conv);
        status = map->builder->fill(map, layout, stream, error);
    }
    if (status == SPC_OK) {
        layout->next = map->sorted;
        map->sorted = layout;
        return SPC_OK;
    }
    spc__map_layout_release(map, layout);
    free(layout);
    return status;
}

static spc_status add_plain_index(spc_map *map, void *stream, spc_error *error)
{
    spc_status status = spc__map_index_alloc(&map->plain, map, error);

    if (status == SPC_OK)
        status = map->builder->fill(map, &map->plain, stream, error);
    if (status != SPC_OK) { /* what is there passes for filled */
        spc__map_dealloc(map, map->plain.index);
        map->plain.index = NULL;
    }
    return status;
}

static spc_status add_tiles(spc_map *map, spc__map_layout *layout,
                            int tile_rows, void *stream, spc_error *error)
{
    spc__map_tiles *tiles = NULL;
    spc_status status;

    if (tile_rows < 0 || SPC_ROW_PAD % tile_rows != 0)
        return spc__fail(error, SPC_EINVAL,
                         "a map cannot have tiles of %d rows: the size must "
                         "divide %d",
                         tile_rows, SPC_ROW_PAD);
    if ((status = create_tiles(&tiles, map, tile_rows, error)) != SPC_OK)
        return status;
    status = map->builder->tile(map, layout, tiles, stream, error);
    if (status != SPC_OK) {
        free_tiles(map, tiles);
        return status;
    }
    tiles->next = layout->tiles;
    layout->tiles = tiles;
    return SPC_OK;
}

spc_status spc__map_prepare(spc_map *map, const char *order, int tile_rows,
                            void *stream)
{
    spc_error error = {0};
    const spc__row_order *sorted;
    spc_status status = parse_order(&sorted, order, &error);

    if (status == SPC_OK && !find_layout(map, sorted))
        status = sorted ? add_sorted(map, sorted, stream, &error)
                        : add_plain_index(map, stream, &error);
    if (status == SPC_OK && tile_rows != 0) {
        /* Ours to write: the map is not const here. */
        spc__map_layout *layout = (spc__map_layout *)find_layout(map, sorted);
        if (!find_tiles(layout, tile_rows))
            status = add_tiles(map, layout, tile_rows, stream, &error);
    }
    return status == SPC_OK ? status : spc__ctx_fail(map->ctx, &error);
}

bool spc__map_view(spc_map_view *out, const spc_map *map, const char *order,
                   int tile_rows)
{
    const spc__map_layout *layout;
    const spc__map_tiles *tiles = NULL;
    const spc__row_order *sorted;

    if (parse_order(&sorted, order, NULL) != SPC_OK ||
        !(layout = find_layout(map, sorted)))
        return false;
    if (tile_rows && !(tiles = find_tiles(layout, tile_rows)))
        return false;
    *out = (spc_map_view){
        .index = layout->index,
        .order = layout->order,
        .mask = layout->mask,
        .tile_order = tiles ? tiles->order : NULL,
        .tile_mask = tiles ? tiles->mask : NULL,
        .tile_begin = tiles ? tiles->begin : NULL,
        .rows = map->rows,
        .rows_padded = map->rows_padded,
        .rows_in = map->rows,
        .offsets = map->offsets,
        .mask_words = map->mask_words,
        .centre = map->centre,
        .tile_rows = tile_rows,
        .tiles = tiles ? spc__map_tile_count(map, tile_rows) : 0,
    };
    return true;
}

spc_status spc__map_rebuild(spc_map *map, const int32_t *coords, int64_t rows,
                            bool index_only, void *stream)
{
    spc_error error = {0};
    spc_status status;

    if (rows < 0 || rows > map->capacity) {
        spc__fail(&error, SPC_ECAPACITY,
                  "cannot rebuild a map with %lld rows: it was created for %d",
                  (long long)rows, map->capacity);
        return spc__ctx_fail(map->ctx, &error);
    }
    map->rows = (int)rows;
    status = map->builder->build(map, coords, index_only ? NULL : map->sorted,
                                 stream, &error);
    if (index_only)
        return status == SPC_OK ? status : spc__ctx_fail(map->ctx, &error);
    if (status == SPC_OK)
        status = refill_tiles(map, &map->plain, stream, &error);
    for (const spc__map_layout *layout = map->sorted;
         layout && status == SPC_OK; layout = layout->next) {
        if (layout != map->sorted) /* the first one came with the build */
            status = map->builder->fill(map, layout, stream, &error);
        if (status == SPC_OK)
            status = refill_tiles(map, layout, stream, &error);
    }
    return status == SPC_OK ? status : spc__ctx_fail(map->ctx, &error);
}

spc_status spc__map_relayout(spc_map *map, const char *order, int tile_rows,
                             void *stream)
{
    const spc__map_layout *layout = NULL;
    const spc__map_tiles *tiles = NULL;
    const spc__row_order *sorted;
    spc_error error = {0};
    spc_status status = parse_order(&sorted, order, &error);

    if (status == SPC_OK &&
        (!(layout = find_layout(map, sorted)) ||
         (tile_rows && !(tiles = find_tiles(layout, tile_rows)))))
        status = spc__fail(&error, SPC_ESTATE,
                           "the map's layout \"%s\" with tiles of %d rows was "
                           "never prepared",
                           order, tile_rows);
    if (status == SPC_OK)
        status = map->builder->fill(map, layout, stream, &error);
    /* A sorted layout's first table came with its rows. */
    if (status == SPC_OK && tiles && !(sorted && tiles == layout->tiles))
        status = map->builder->tile(map, layout, tiles, stream, &error);
    return status == SPC_OK ? status : spc__ctx_fail(map->ctx, &error);
}
