/*
 * points.h - clouds of points, and the maps between them, inside the library.
 *
 * Public part: spc_points and spc_map_radius in spc.h. A cloud is a coordinate
 * set to maps and plans: its rows, and who fills maps of them; but it has no
 * keys. points.c owns clouds and radius.c their maps; what runs on a device are
 * the steps of points_steps.h.
 */
#ifndef SPC_RUNTIME_POINTS_H
#define SPC_RUNTIME_POINTS_H

#include "coords/coords.h"
#include "coords/map.h"
#include "coords/points/points_steps.h"

struct spc_points {
    spc_coords rows; /* comes first: maps know a cloud by it */
    spc__points_code code;
    float *at; /* spc_cloud */
    int32_t *stats;
    int batches;
    float low[3], high[3];
    /* Of a sampled one: of what, and the voxels by which it was chosen. */
    spc_points *from;
    float inverse; /* of their edge */
    spc_coords *voxels;
    int32_t *voxel_coords;
    int *sources;
};

static inline spc_points *spc__points_of(spc_coords *rows)
{
    return (spc_points *)(void *)rows;
}

extern const spc__indexer spc__indexer_points; /* radius.c */

/* Can a cloud have so many rows; can they be read from there? SPC_EINVAL. */
spc_status spc__points_check_rows(int64_t rows, spc_error *error);
spc_status spc__points_check_aligned(const float *xyz, const int32_t *batch,
                                     const int32_t *count, spc_error *error);

/* SPC_EINVAL: the extent was left at the one point (0, 0, 0), for more points
 * than one. */
spc_status spc__points_check_extent(const spc_points_options *options,
                                    spc_error *error);

/* An empty cloud; `from` is not NULL for a sampled one, of it. */
spc_status spc__points_make(spc_points **out, spc_ctx *ctx,
                            const spc_points_options *options, spc_points *from,
                            spc_error *error);
/* A sampled one with room for so many. */
spc_status spc__points_make_sampled(spc_points **out, spc_points *in,
                                    float edge, int64_t capacity,
                                    spc_error *error);
/* Fills it from the caller's points (spc_points_update). */
spc_status spc__points_fill(spc_points *points, const float *xyz,
                            const int32_t *batch, const int32_t *count,
                            int64_t rows, void *stream, spc_error *error);

/* Frees what `rows` does not know of. */
void spc__points_destroy(spc_coords *rows);

/* Fills it from a scene's coordinates (device, [rows][4]). */
spc_status spc__points_fill_steps(spc_points *points, const int32_t *steps,
                                  const int32_t *count, int rows, void *stream,
                                  spc_error *error);
/* Fills a sampled one from its source. */
spc_status spc__points_pick(spc_points *points, void *stream, spc_error *error);

/* Waits; what is wrong with the rows. */
spc_status spc__points_inspect(spc_points *points, void *stream,
                               spc_error *error);

/* The same with a scene's coordinates (host), which it fits exactly. */
spc_status spc__points_create_steps(spc_points **out, spc_ctx *ctx,
                                    const int32_t *host, int64_t rows,
                                    spc_error *error);

/* The points of a checked cloud on the host, malloc'd, in the units of a scene;
 * waits. What lies between two steps is rounded. */
spc_status spc__points_steps(int32_t **out, const spc_points *points,
                             spc_error *error);

/* A set of the cells of a cloud, with the coordinates to fill it from. */
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
/* Fills it, with room for exactly what there is; waits. */
spc_status spc__radius_fit(spc_map *map, spc_error *error);
/* Gives it room for so many triplets; it must be filled anew. */
spc_status spc__radius_reserve(const spc_map *map, int64_t triplets,
                               spc_error *error);

/* The whole of map.c's business for a map of points: from a scene, again, and
 * what is wrong with it. */
spc_status spc__radius_from_steps(spc_map **out, spc_ctx *ctx,
                                  const spc_conv *conv, const int32_t *host,
                                  int64_t rows, spc_error *error);
spc_status spc__radius_rebuild(spc_map *map, const int32_t *steps, int64_t rows,
                               void *stream, spc_error *error);
spc_status spc__radius_inspect(spc_map *map, void *stream, spc_error *error);
int64_t spc__radius_capacity(const spc_map *map);

/* The triplets by output, as kernels read them. */
void spc__radius_view(spc_triplets_view *out, const spc_map *map);

#endif
