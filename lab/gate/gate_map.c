/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gate_map.c - verifies that a candidate left the map unchanged. A candidate
 * that writes to it may be correct itself, but later readers of the map are
 * not.
 *
 * Its arrays lie between zones, like all arrays of a fixture
 * (spc_ctx.zone_bytes). One digest covers an array and both of its zones, as
 * there are many.
 */
#include "lab/gate/gate_launch.h"

#include "base/error.h"
#include "coords/map.h"
#include "plan/plan_parts.h"
#include <string.h>

typedef spc__map_array array;

/* ---- arrays of a plan ---------------------------------------------------- */

static int add(array *list, int count, const char *name, const void *data,
               size_t entries)
{
    if (data != NULL)
        list[count++] = (array){name, data, entries * sizeof(int)};
    return count;
}

/* Lists the arrays of one view of a map. */
static int add_view(array *list, int count, const spc_map_view *v)
{
    size_t rows = (size_t)v->rows_padded, words = (size_t)v->mask_words;
    size_t tiles = (size_t)v->tiles;

    count = add(list, count, "row order", v->order, rows);
    count = add(list, count, "mask", v->mask, rows * words);
    count = add(list, count, "order of tiles", v->tile_order, tiles);
    count = add(list, count, "mask of tiles", v->tile_mask, tiles * words);
    return add(list, count, "begin of tiles", v->tile_begin,
               (size_t)v->offsets);
}

/* Lists the table of a map as this candidate reads it. Groups share the index,
 * which is listed once. */
static int add_table(array *list, int count, const spc_map *map,
                     const spc__launch_geometry *geometry)
{
    spc_map_view view;

    for (int group = 0; group < geometry->groups; group++) {
        if (!spc__map_view_group(&view, map, geometry->order,
                                 geometry->tile_rows, group))
            break;
        if (group == 0)
            count = add(list, count, "index", view.index,
                        (size_t)view.rows_padded * (size_t)view.offsets);
        count = add_view(list, count, &view);
    }
    return count;
}

/* Lists the pairs of a map. */
static int add_pairs(array *list, int count, const spc_map *map,
                     const spc_pairs_view *v)
{
    size_t capacity = (size_t)v->capacity;

    count = add(list, count, "input of pairs", v->in, capacity);
    count = add(list, count, "output of pairs", v->out, capacity);
    count = add(list, count, "place of pairs", v->place, capacity);
    count = add(list, count, "first place of pairs", v->first,
                (size_t)map->to->rows_padded);
    return add(list, count, "begin of pairs", v->begin, (size_t)v->offsets + 1);
}

static int add_triplets(array *list, int count, const spc_map *map,
                        const spc_triplets_view *v)
{
    count = add(list, count, "begin of triplets", v->first,
                (size_t)map->to->rows_padded + 1);
    return add(list, count, "list of triplets", v->list,
               2 * (size_t)v->capacity);
}

int spc__gate_list_map(array list[SPC__MAP_ARRAYS], const spc__gate *g,
                       const spc_map *map)
{
    const spc__launch_geometry *geometry = spc__plan_launch(g->tested->plan);
    spc_triplets_view triplets;
    spc_pairs_view pairs;
    spc_map_view rows;
    int count = 0;

    if (geometry->reads_table) {
        count = add_table(list, count, map, geometry);
    } else {
        spc__map_view_rows(&rows, map, geometry->tile_rows);
        count =
            add(list, count, "row order", rows.order, (size_t)rows.rows_padded);
        count = add(list, count, "mask", rows.mask,
                    (size_t)rows.rows_padded * (size_t)rows.mask_words);
    }
    if (geometry->reads_pairs && spc__map_pairs_view(&pairs, map))
        count = add_pairs(list, count, map, &pairs);
    if (geometry->reads_triplets && spc__map_triplets_view(&triplets, map))
        count = add_triplets(list, count, map, &triplets);
    if (geometry->reads_bundles && spc__map_bundles_view(&triplets, map))
        count = add(list, count, "triplets by bundles", triplets.list,
                    2 * (size_t)triplets.capacity +
                        (size_t)map->to->rows_padded * 5 / 64);
    if (geometry->reads_inputs &&
        spc__map_inputs_view(&triplets, &pairs, map)) {
        count = add(list, count, "inputs in order", pairs.in,
                    (size_t)pairs.capacity);
        count = add(list, count, "first triplets of inputs", triplets.first,
                    (size_t)pairs.capacity + 1);
        count = add(list, count, "triplets by inputs", triplets.list,
                    2 * (size_t)triplets.capacity);
    }
    return count;
}

/* ---- digests ------------------------------------------------------------- */

/* Digests each array of a map, zones included. */
static spc_status digest_map(const spc__gate *g, int s, uint64_t *digests,
                             array *list, int *count)
{
    const spc_map *map = g->fixture->maps[s];
    spc__digester *digester = g->fixture->digester;
    spc_status status = spc__digester_begin(digester);
    size_t zone = map->to->zone_bytes;

    *count = spc__gate_list_map(list, g, map);
    for (int i = 0; i < *count && status == SPC_OK; i++)
        status = spc__digester_add(digester, (const char *)list[i].data - zone,
                                   list[i].bytes + 2 * zone);
    return status == SPC_OK ? spc__digester_end(digester, digests) : status;
}

bool spc__gate_note_maps(spc__gate *g)
{
    array list[SPC__MAP_ARRAYS];
    int count;

    for (int s = 0; s < g->fixture->sample->scene_count; s++)
        if (g->fixture->maps[s] != NULL &&
            digest_map(g, s, g->map_digest[s], list, &count) != SPC_OK) {
            spc__gate_failed(g);
            return false;
        }
    g->notes_maps = true;
    return true;
}

/* True if a zone on the device is unchanged. */
static bool zone_holds(const spc__gate *g, const char *zone, size_t bytes)
{
    unsigned char seen[256];

    for (size_t i = 0; i < bytes; i += sizeof(seen)) {
        if (spc_memory_download(seen, g->fixture->ctx, zone + i,
                                sizeof(seen)) != SPC_OK)
            return true;
        for (size_t at = 0; at < sizeof(seen); at++)
            if (seen[at] != SPC__ZONE_BYTE)
                return false;
    }
    return true;
}

/* Reports where the candidate has written. The map is spoilt, also for the
 * candidates after it. */
static void blame(const spc__gate *g, int s, const array *of)
{
    size_t zone = g->fixture->maps[s]->to->zone_bytes;
    const char *data = of->data;

    g->out->spoilt = true;
    if (!zone_holds(g, data - zone, zone))
        spc__gate_wrong(g, "canary: something is written before the map's %s",
                        of->name);
    else if (!zone_holds(g, data + of->bytes, zone))
        spc__gate_wrong(g, "canary: a write after the end of the map's %s",
                        of->name);
    else
        spc__gate_wrong(g, "read-only: the map's %s is written to", of->name);
}

void spc__gate_map_holds(const spc__gate *g, int s)
{
    uint64_t digests[SPC__MAP_ARRAYS];
    array list[SPC__MAP_ARRAYS];
    int count;

    if (g->fixture->maps[s] == NULL || !g->notes_maps)
        return;
    if (digest_map(g, s, digests, list, &count) != SPC_OK) {
        spc__gate_failed(g);
        return;
    }
    for (int i = 0; i < count; i++)
        if (digests[i] != g->map_digest[s][i]) {
            blame(g, s, &list[i]);
            return;
        }
}

void spc__gate_maps_hold(const spc__gate *g)
{
    for (int s = 0; s < g->fixture->sample->scene_count; s++)
        if (g->out->status == SPC__TRIAL_OK)
            spc__gate_map_holds(g, s);
}
