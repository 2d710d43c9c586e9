/* SPDX-License-Identifier: Apache-2.0 */
/*
 * voxel_oracle.h - voxelisation by its definition: sorts points by voxel and
 * row on the host and computes means in double precision. Shares no code with
 * devices.
 */
#ifndef SPC_LAB_VOXEL_ORACLE_H
#define SPC_LAB_VOXEL_ORACLE_H

#include "spc.h"

typedef struct spc__voxel_point {
    int32_t voxel[4];
    int64_t row;
} spc__voxel_point;

typedef struct spc__voxel_oracle {
    const spc_voxelisation *how; /* owned by the caller, like the points */
    const float *points;
    spc__voxel_point *sorted; /* the points that have a voxel */
    int64_t count;
    int64_t *begin; /* [voxels + 1] in `sorted` */
    int64_t voxels;
    int64_t outside, bad;
} spc__voxel_oracle;

spc_status spc__voxel_oracle_init(spc__voxel_oracle *out,
                                  const spc_voxelisation *how,
                                  const float *points, int64_t rows,
                                  spc_error *error);
void spc__voxel_oracle_release(spc__voxel_oracle *oracle);

const int32_t *spc__voxel_oracle_coords(const spc__voxel_oracle *o,
                                        int64_t voxel);
/* Returns the number of a voxel's points that count. */
int64_t spc__voxel_oracle_points(const spc__voxel_oracle *o, int64_t voxel);
/* Returns element i of the voxel's features, and its tolerance. */
double spc__voxel_oracle_feature(double *tolerance, const spc__voxel_oracle *o,
                                 int64_t voxel, int64_t i);
/* Returns the number of elements of a voxel's features. */
int64_t spc__voxel_oracle_elements(const spc_voxelisation *how);

#endif
