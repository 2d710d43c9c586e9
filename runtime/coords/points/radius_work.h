/* SPDX-License-Identifier: Apache-2.0 */
/* radius_work.h - data of a map of points, shared by radius.c, which finds the
 * triplets, and radius_lists.c, which lists them in other orders. */
#ifndef SPC_RUNTIME_RADIUS_WORK_H
#define SPC_RUNTIME_RADIUS_WORK_H

#include "coords/points/points.h"

#include "coords/index/indexer.h"

/* A cloud sorted by cells of the map's radius. */
typedef struct sorted_cloud {
    spc_points *of;
    spc_coords *cells;
    int32_t *coords; /* cell of each row */
    float *points;
    int *begin;
} sorted_cloud;

typedef struct radius_work {
    spc__points_code code;
    float inverse; /* 1 / radius */
    int blocks;
    sorted_cloud in, to; /* `to` only if there are two clouds */
    int *order, *first, *sums, *total, *list;
    int64_t capacity;
    int *counts;     /* counts for the list by offset */
    int *bundles;    /* the list by bundles; NULL: not needed */
    spc_map *reversed; /* the reverse relation; NULL: not needed */
    /* For an inverse map with only the nearest points: the last that counts for
     * each input, and the code that finds it among the cells of the outputs. */
    unsigned *limits;
    spc__points_code limits_code;
} radius_work;

/* The list by offset (spc__indexer). */
spc_status spc__radius_list_create(spc_map *map, spc_error *error);
spc_status spc__radius_list(const spc_map *map, const spc__map_pairs *pairs,
                            void *stream, spc_error *error);

/* Allocates the list by bundles, and fills it if it was allocated. */
spc_status spc__radius_bundles_reserve(const spc_map *map, spc_error *error);
spc_status spc__radius_bundle(const spc_map *map, void *stream,
                              spc_error *error);

/* Allocates the triplets by inputs, and finds them if they were allocated. */
spc_status spc__radius_inputs_reserve(const spc_map *map, spc_error *error);
spc_status spc__radius_inputs(const spc_map *map, void *stream,
                              spc_error *error);

/* Sorts the clouds of a map and searches (radius.c). */
spc_status spc__radius_fill(const spc_map *map, void *stream, spc_error *error);

#endif
