/* radius_work.h - what a map of points works with: for radius.c, which finds
 * the triplets, and radius_lists.c, which lists them in other orders. */
#ifndef SPC_RUNTIME_RADIUS_WORK_H
#define SPC_RUNTIME_RADIUS_WORK_H

#include "coords/points/points.h"

#include "coords/index/indexer.h"

/* A cloud sorted by cells of the map's radius. */
typedef struct sorted_cloud {
    spc_points *of;
    spc_coords *cells;
    int32_t *coords; /* of the cells, by row */
    float *points;
    int *begin;
} sorted_cloud;

typedef struct radius_work {
    spc__points_code code;
    float inverse; /* of the radius */
    int blocks;
    sorted_cloud in, to; /* `to` only where the clouds are two */
    int *order, *first, *sums, *total, *list;
    int64_t capacity;
    int *counts;     /* for listing by offset */
    int *bundles;    /* the list by bundles; NULL: nobody reads it */
    spc_map *turned; /* the relation from the other side; NULL: likewise */
    /* Of an inverse map with the nearest only: the last that counts for each
     * input, and the code that finds it among cells of outputs. */
    unsigned *limits;
    spc__points_code limits_code;
} radius_work;

/* By offset (spc__indexer). */
spc_status spc__radius_list_create(spc_map *map, spc_error *error);
spc_status spc__radius_list(const spc_map *map, const spc__map_pairs *pairs,
                            void *stream, spc_error *error);

/* Room for the list by bundles; fills it, where there is one. */
spc_status spc__radius_bundles_reserve(const spc_map *map, spc_error *error);
spc_status spc__radius_bundle(const spc_map *map, void *stream,
                              spc_error *error);

/* Room for the triplets by inputs; finds them, where somebody reads them. */
spc_status spc__radius_inputs_reserve(const spc_map *map, spc_error *error);
spc_status spc__radius_inputs(const spc_map *map, void *stream,
                              spc_error *error);

/* Sorts the clouds of a map, and searches (radius.c). */
spc_status spc__radius_fill(const spc_map *map, void *stream, spc_error *error);

#endif
