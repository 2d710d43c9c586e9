/*
 * map.h - kernel maps inside the runtime.
 *
 * A map is the relation of two coordinate sets by a geometry: for each voxel of
 * the set `to` (its rows) and each offset, the voxel of the set `in` that is
 * seen there. It keeps a short form; what a kernel reads is a layout of it
 * (layout.h), prepared when a plan is made and looked up without work when it
 * runs.
 */
#ifndef SPC_RUNTIME_MAP_H
#define SPC_RUNTIME_MAP_H

#include "coords/coords.h"
#include "coords/layout.h"

struct spc_map {
    spc_ctx *ctx;
    spc_coords *in, *to;
    spc_geometry geometry;
    bool inverse; /* read the other way: outputs lie where the formula of
                     spc_rule has inputs */
    int offsets, mask_words;
    int centre; /* the offset whose input is the output row; -1: there is none
                 */
    void *work; /* the indexer's own */
    spc_map *turned, *turned_by; /* spc__map_turn */
    int64_t pairs;               /* as of the last check */
    bool filled;    /* a filling was enqueued; till then it has no pairs */
    bool in_flight; /* and may still be running (spc__coords_land) */
    bool counted; /* made of coordinates that are known, and they are all its
                     pairs: it was not updated since */
    spc__map_layout plain;   /* in the order of keys */
    spc__map_layout *sorted; /* the sorted orders that were prepared */
};

static inline bool spc__map_is_subm(const spc_map *map)
{
    return map->geometry.rule == SPC_RULE_SUBM;
}

/* spc_map_create_from_scene; the second set of a layer that is given both has
 * the rows of `given` in their order, unless that is NULL. */
spc_status spc__map_create_between(spc_map **out, spc_ctx *ctx,
                                   const spc_conv *conv, const spc_scene *scene,
                                   const spc_scene *given);

/*
 * Builds the map again for other coordinates of its scene's set, with every
 * prepared layout, without allocation or synchronisation: what a bench times
 * and a graph captures. The other set is derived, or built, again too.
 * `index_only` skips the layouts.
 */
spc_status spc__map_rebuild(spc_map *map, const int32_t *coords, int64_t rows,
                            bool index_only, void *stream);

/*
 * `inverse` is the map read the other way round: from now on building `map`
 * finds the pairs of both, and building `inverse`, which must come after, is no
 * search. Where they are not such maps, or the device has no kernel for it,
 * each goes on searching. Either may be freed before the other.
 */
void spc__map_turn(spc_map *map, spc_map *inverse);

/* The set that is not derived from the other: that of the layer's scene. */
spc_coords *spc__map_scene_set(const spc_map *map);

/* SPC_ESTATE: the map was never filled. */
spc_status spc__map_need_filled(const spc_map *map, spc_error *error);

/* The context of the map. */
spc_ctx *spc__map_ctx(const spc_map *map);

/* The coordinates of that set on the device, if it owns a copy, else NULL. */
const int32_t *spc__map_coords(const spc_map *map);

#endif
