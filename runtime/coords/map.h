/* SPDX-License-Identifier: Apache-2.0 */
/*
 * map.h - kernel maps inside the runtime.
 *
 * A map relates two coordinate sets by a geometry: for each voxel of the set
 * `to` (its rows) and each offset, it has the voxel of the set `in` at that
 * offset. It is stored in a short form. Kernels read a layout of it (layout.h),
 * which is prepared when a plan is made, so that running the plan only looks it
 * up.
 */
#ifndef SPC_RUNTIME_MAP_H
#define SPC_RUNTIME_MAP_H

#include "base/scratch.h"
#include "coords/coords.h"
#include "coords/layout.h"

/* Data that another room keeps with a map (plan/binding.h). It begins with this
 * struct, and the map frees it. `owner` identifies it. */
typedef struct spc__attachment {
    struct spc__attachment *next;
    const void *owner;
    void (*release)(struct spc__attachment *attachment);
} spc__attachment;

/* Lists of attachments, so that each is short. */
enum { SPC__ATTACHMENTS = 16 };

struct spc_map {
    spc_ctx *ctx;
    spc_coords *in, *to;
    spc_geometry geometry;
    bool inverse; /* reverse direction: outputs are where the formula of
                   * spc_rule has inputs */
    int offsets, mask_words;
    int centre; /* the offset whose input is the output row, or -1 */
    void *work; /* private to the indexer */
    spc_map *derived, *derived_from; /* linked by spc__map_derive */
    int64_t pairs;                   /* pairs at the last check */
    bool filled;          /* a fill was enqueued; until then the map is empty */
    int in_rows, to_rows; /* capacities of its sets at the last fill */
    bool in_flight;       /* the fill may still be running (spc__coords_land) */
    bool counted; /* `pairs` is exact: the coordinates were known and were not
                   * updated since */
    bool checked; /* checked since the last fill */
    bool fits_lists;         /* set by spc_map_fit_lists */
    spc__map_layout plain;   /* the order of keys */
    spc__map_layout *sorted; /* prepared sorted orders */
    spc__attachment *attached[SPC__ATTACHMENTS];
};

static inline bool spc__map_is_subm(const spc_map *map)
{
    return map->geometry.rule == SPC_RULE_SUBM;
}

/* Like spc_map_create_from_scene. The second set of a layer whose outputs are
 * given gets the rows of `given` in their order; NULL generates it. */
spc_status spc__map_create_between(spc_map **out, spc_ctx *ctx,
                                   const spc_conv *conv, const spc_scene *scene,
                                   const spc_scene *given);

/*
 * Builds the map with all prepared layouts for new coordinates of its scene's
 * set. The other set is also derived or built again. Neither allocates nor
 * synchronises, so a bench can time it and a graph capture it. `index_only`
 * skips the layouts.
 */
spc_status spc__map_rebuild(spc_map *map, const int32_t *coords, int64_t rows,
                            bool index_only, void *stream);

/*
 * Links `inverse`, the same map in reverse direction: from now on building
 * `map` finds the pairs of both, and building `inverse`, which must come after,
 * needs no search. Does nothing if the maps are not inverse to each other or
 * the device has no kernel for it. Either map may be freed first.
 */
void spc__map_derive(spc_map *map, spc_map *inverse);

/* Returns the set of the scene, which is not derived from the other set. */
spc_coords *spc__map_scene_set(const spc_map *map);

/* True if the map was filled since the capacity of its sets last changed, which
 * the layouts depend on. */
bool spc__map_is_filled(const spc_map *map);
void spc__map_set_filled(spc_map *map);

/* Returns SPC_ESTATE if the map is not filled. */
spc_status spc__map_need_filled(const spc_map *map, spc_error *error);

/* The context of the map. */
spc_ctx *spc__map_ctx(const spc_map *map);

/* The scene's coordinates on the device if that set owns a copy, else NULL. */
const int32_t *spc__map_coords(const spc_map *map);

/* ---- for map_scene.c ---------------------------------------------------- */

/* Fails if a map with these rows and offsets has too many entries. */
spc_status spc__map_check_entries(int64_t rows, int offsets, spc_error *error);
/* Makes an empty map. */
spc_status spc__map_make(spc_map **out, spc_coords *in, spc_coords *to,
                         const spc_geometry *geometry, bool inverse,
                         spc_error *error);
/* Fills a map. With a source, it also fills the set of a submanifold map. With
 * `index_only` its sorted layouts stay as they are. */
struct spc__source;
spc_status spc__map_build(spc_map *map, const struct spc__source *source,
                          bool index_only, void *stream, spc_error *error);
/* True for maps of points, which have lists of triplets. */
bool spc__map_is_of_points(const spc_map *map);

/*
 * Waits for `stream` once, and reads the statistics of these sets and the
 * numbers of pairs of these maps, none of points. The sets then know their
 * rows. spc__coords_verdict reports their errors; `pairs` of a map mean nothing
 * if one of its sets has an error. `scratch`: what a caller keeps, so that
 * later calls allocate nothing; or NULL.
 */
spc_status spc__inspect(spc_coords *const *sets, int set_count,
                        spc_map *const *maps, int64_t *pairs, int map_count,
                        spc__scratch *scratch, void *stream, spc_error *error);
/* Reports the last errors read from its sets; without errors, stores this
 * number of pairs in the map. */
spc_status spc__map_verdict(spc_map *map, int64_t pairs, const int32_t *host,
                            spc_error *error);
/* Reads back the results of an update: errors, and the number of pairs. */
spc_status spc__map_inspect(spc_map *map, const int32_t *host, void *stream,
                            spc_error *error);

#endif
