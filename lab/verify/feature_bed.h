/* SPDX-License-Identifier: Apache-2.0 */
/*
 * feature_bed.h - an operator on features on a scene: its arrays on a device,
 * each between zones of a pattern that nobody may write to, and what must come
 * out.
 */
#ifndef SPC_RUNTIME_FEATURE_BED_H
#define SPC_RUNTIME_FEATURE_BED_H

#include "lab/oracle/feature_oracle.h"

/* Rows on a device. All bytes that are no element have the pattern. */
typedef struct spc__feature_rows {
    char *base; /* zone, rows with their gaps, zone */
    size_t bytes, first;
    int64_t rows, row, pitch; /* elements of a row, and from row to row */
    spc_dtype dtype;
} spc__feature_rows;

/* What is drawn, and how it lies. */
typedef struct spc__feature_draw {
    uint64_t seed;
    bool integers; /* small ones, whose sums are exact; else real numbers */
    int shift;     /* elements off alignment */
    int wider;     /* elements between the rows */
} spc__feature_draw;

typedef struct spc__feature_bed {
    spc_ctx *ctx;
    const spc_feature *feature;
    const spc_scene *scene;
    spc_feature_plan *plan;
    spc_coords *set;
    spc_map *map;
    spc__feature_case of;
    int32_t *index; /* of the map, on the host */
    /* Of the draw at hand. */
    spc__feature_draw draw;
    spc__feature_rows in, add, out;
    spc_feature_buffers buffers;
    float *host[4];  /* in, add, scale, shift */
    int32_t *stored; /* rows of maxima */
    double *reference, *tolerance;
} spc__feature_bed;

/* Plan, set and map; the caller releases *out also after a failure. */
spc_status spc__feature_bed_open(spc__feature_bed *out, spc_ctx *ctx,
                                 const spc_feature *feature,
                                 const spc_scene *scene);
void spc__feature_bed_release(spc__feature_bed *bed);

/* Draws the inputs, moves them there, and asks the oracle. */
spc_status spc__feature_bed_fill(spc__feature_bed *bed,
                                 const spc__feature_draw *how);

/* The output becomes what no result is. */
spc_status spc__feature_bed_clear(const spc__feature_bed *bed);
spc_status spc__feature_bed_run(const spc__feature_bed *bed, void *stream);

/* Is the result right, and all beside it as it was? SPC_EWRONG says what is
 * not. *error grows to the largest error over its tolerance. */
spc_status spc__feature_bed_check(const spc__feature_bed *bed, double *error);

#endif
