/* SPDX-License-Identifier: Apache-2.0 */
/*
 * points.h - clouds of points and the maps between them, inside the library.
 * Public part: spc_points and spc_map_create_radius in spc/points.h.
 *
 * To maps and plans a cloud is a coordinate set: it has rows and an indexer
 * that fills maps of them, but no keys. points.c owns clouds, radius.c their
 * maps; points_steps.h has the kernels that they run.
 */
#ifndef SPC_RUNTIME_POINTS_H
#define SPC_RUNTIME_POINTS_H

#include "coords/coords.h"
#include "coords/map.h"
#include "coords/points/points_steps.h"

struct spc_points {
    spc_coords rows; /* must be first, as a map's set is cast to its cloud */
    spc__points_code code;
    float *at; /* coordinates (spc_cloud) */
    int32_t *stats;
    int batches;
    float low[3], high[3];
    /* For a sampled cloud: its source, and the voxels that chose its points. */
    spc_points *from;
    float inverse; /* 1 / edge length */
    spc_coords *voxels;
    int32_t *voxel_coords;
    int *sources;
};

static inline spc_points *spc__points_of(spc_coords *rows)
{
    return (spc_points *)(void *)rows;
}

extern const spc__indexer spc__indexer_points; /* radius.c */

/* Checks the number of rows and the pointers. Returns SPC_EINVAL on failure. */
spc_status spc__points_check_rows(int64_t rows, spc_error *error);
spc_status spc__points_check_aligned(const float *xyz, const int32_t *batch,
                                     const int32_t *count, spc_error *error);

/* Returns SPC_EINVAL if there is more than one point and the extent is still
 * the single point (0, 0, 0). */
spc_status spc__points_check_extent(const spc_points_options *options,
                                    spc_error *error);

/* Makes an empty cloud. `from` is the source of a sampled cloud, else NULL. */
spc_status spc__points_make(spc_points **out, spc_ctx *ctx,
                            const spc_points_options *options, spc_points *from,
                            spc_error *error);
/* Makes a sampled cloud with this capacity, of the first point of each voxel, or
 * of the one nearest to its centre. */
spc_status spc__points_make_sampled(spc_points **out, spc_points *in,
                                    float edge, int64_t capacity, bool centred,
                                    spc_error *error);
/* Fills the cloud from the caller's points (spc_points_update). */
spc_status spc__points_fill(spc_points *points, const float *xyz,
                            const int32_t *batch, const int32_t *count,
                            int64_t rows, void *stream, spc_error *error);

/* Frees the members of the cloud except `rows`. */
void spc__points_destroy(spc_coords *rows);

/* Fills the cloud from a scene's coordinates (device, [rows][4]). */
spc_status spc__points_fill_units(spc_points *points, const int32_t *units,
                                  const int32_t *count, int rows, void *stream,
                                  spc_error *error);
/* Fills a sampled cloud from its source. */
spc_status spc__points_pick(spc_points *points, void *stream, spc_error *error);

/* Waits, and reports errors in the rows. */
spc_status spc__points_inspect(spc_points *points, void *stream,
                               spc_error *error);

/* Makes and fills a cloud that exactly fits a scene's coordinates (host). */
spc_status spc__points_create_units(spc_points **out, spc_ctx *ctx,
                                    const int32_t *host, int64_t rows,
                                    spc_error *error);

/* Returns the points of a checked cloud in the units of a scene, rounded to
 * whole units. The array is on the host; the caller frees it. Waits. */
spc_status spc__points_units(int32_t **out, const spc_points *points,
                             spc_error *error);

/* Makes a set of the cells of a cloud, and the coordinates to fill it from. */
spc_status spc__points_cells_create(spc_coords **set, int32_t **coords,
                                    const spc_points *points, float inverse,
                                    spc_duplicates duplicates,
                                    spc_error *error);
spc_status spc__points_cells_fill(spc_coords *set, int32_t *coords,
                                  const spc_points *points, float inverse,
                                  void *stream, spc_error *error);

/* ---- maps ---------------------------------------------------------------- */

spc_status spc__radius_create(spc_map **out, spc_points *in, spc_points *to,
                              const spc_geometry *geometry, int64_t triplets,
                              bool inverse, spc_error *error);
/* Fills the map and gives it exactly the capacity it needs; waits. */
spc_status spc__radius_fit(spc_map *map, spc_error *error);
/* Sets the capacity in triplets; the map must then be filled again. */
spc_status spc__radius_reserve(const spc_map *map, int64_t triplets,
                               spc_error *error);

/* Makes a map of points from the rows of a scene, for map_scene.c. */
spc_status spc__radius_from_units(spc_map **out, spc_ctx *ctx,
                                  const spc_conv *conv, const int32_t *host,
                                  int64_t rows, spc_error *error);

/* Returns the triplets by output, as kernels read them. */
void spc__radius_view(spc_triplets_view *out, const spc_map *map);

#endif
