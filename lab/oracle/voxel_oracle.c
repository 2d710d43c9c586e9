/* SPDX-License-Identifier: Apache-2.0 */
/* voxel_oracle.c - voxelisation by its definition. */
#include "lab/oracle/voxel_oracle.h"

#include "base/dtype.h"
#include "base/error.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- voxels -------------------------------------------------------------- */

static int64_t numbers_of_point(const spc_voxelisation *how)
{
    return how->columns + how->batched;
}

static const float *row_of(const spc__voxel_oracle *o, int64_t row)
{
    return o->points + row * numbers_of_point(o->how) + o->how->batched;
}

static bool is_bad(const spc_voxelisation *how, const float *xyz)
{
    float batch = how->batched ? xyz[-1] : 0;

    return isnan(xyz[0]) || isnan(xyz[1]) || isnan(xyz[2]) ||
           !(batch >= 0 && batch < (float)how->batches) ||
           floorf(batch) != batch;
}

/* The voxel of a point; false outside the range. In float, as on the device: a
 * point near a border must be in the same voxel. */
static bool is_inside(int32_t voxel[4], const spc_voxelisation *how,
                      const float *xyz)
{
    voxel[0] = how->batched ? (int32_t)xyz[-1] : 0;
    for (int a = 0; a < 3; a++) {
        float cell =
            floorf((xyz[a] - (float)how->low[a]) / (float)how->voxel[a]);
        double cells = round((how->high[a] - how->low[a]) / how->voxel[a]);
        if (!(cell >= 0 && (double)cell < cells))
            return false;
        voxel[1 + a] = (int32_t)cell;
    }
    return true;
}

static int compare_points(const void *a, const void *b)
{
    const spc__voxel_point *x = a, *y = b;

    for (int i = 0; i < 4; i++)
        if (x->voxel[i] != y->voxel[i])
            return x->voxel[i] < y->voxel[i] ? -1 : 1;
    /* Orders equal voxels by row: with a limit of points, the first points of a
     * voxel are kept. */
    return (x->row > y->row) - (x->row < y->row);
}

/* Finds the voxel of each point and sorts them by it; counts those left out. */
static void sort_points(spc__voxel_oracle *o, int64_t rows)
{
    for (int64_t row = 0; row < rows; row++) {
        /* The entry counts only if the point does; otherwise the next point
         * overwrites it. */
        spc__voxel_point *point = &o->sorted[o->count];
        const float *xyz = row_of(o, row);
        point->row = row;
        if (is_bad(o->how, xyz))
            o->bad++;
        else if (!is_inside(point->voxel, o->how, xyz))
            o->outside++;
        else
            o->count++;
    }
    qsort(o->sorted, (size_t)o->count, sizeof *o->sorted, compare_points);
}

static void find_voxels(spc__voxel_oracle *o)
{
    for (int64_t i = 0; i < o->count; i++)
        if (i == 0 || memcmp(o->sorted[i].voxel, o->sorted[i - 1].voxel,
                             sizeof o->sorted[i].voxel) != 0)
            o->begin[o->voxels++] = i;
    o->begin[o->voxels] = o->count;
}

spc_status spc__voxel_oracle_init(spc__voxel_oracle *out,
                                  const spc_voxelisation *how,
                                  const float *points, int64_t rows,
                                  spc_error *error)
{
    *out = (spc__voxel_oracle){.how = how, .points = points};
    out->sorted = malloc(((size_t)rows + 1) * sizeof *out->sorted);
    out->begin = malloc(((size_t)rows + 1) * sizeof *out->begin);
    if (out->sorted == NULL || out->begin == NULL) {
        spc__voxel_oracle_release(out);
        return spc__fail_memory(error, (size_t)rows * sizeof *out->sorted);
    }
    sort_points(out, rows);
    find_voxels(out);
    return SPC_OK;
}

void spc__voxel_oracle_release(spc__voxel_oracle *o)
{
    free(o->sorted);
    free(o->begin);
    o->sorted = NULL;
    o->begin = NULL;
}

/* ---- features ------------------------------------------------------------ */

const int32_t *spc__voxel_oracle_coords(const spc__voxel_oracle *o,
                                        int64_t voxel)
{
    return o->sorted[o->begin[voxel]].voxel;
}

int64_t spc__voxel_oracle_points(const spc__voxel_oracle *o, int64_t voxel)
{
    int64_t count = o->begin[voxel + 1] - o->begin[voxel];

    return o->how->points > 0 && count > o->how->points ? o->how->points
                                                        : count;
}

int64_t spc__voxel_oracle_elements(const spc_voxelisation *how)
{
    return how->columns * (how->features == SPC_VOXELS_MEAN
                               ? (int64_t)1
                               : (int64_t)how->points);
}

static double number(const spc__voxel_oracle *o, int64_t voxel, int64_t i,
                     int64_t column)
{
    return (double)row_of(o, o->sorted[o->begin[voxel] + i].row)[column];
}

/*
 * A sum of n numbers in fp32 has n - 1 roundings, each of a value that is at
 * most the sum of magnitudes; the quotient has one.
 */
static double mean(double *tolerance, const spc__voxel_oracle *o, int64_t voxel,
                   int64_t column)
{
    int64_t count = spc__voxel_oracle_points(o, voxel);
    double sum = 0, size = 0;

    for (int64_t i = 0; i < count; i++) {
        sum += number(o, voxel, i, column);
        size += fabs(number(o, voxel, i, column));
    }
    double lost = (double)count * 0x1p-24;
    *tolerance = count > 1 ? lost / (1 - lost) * size / (double)count : 0;
    return sum / (double)count;
}

double spc__voxel_oracle_feature(double *tolerance, const spc__voxel_oracle *o,
                                 int64_t voxel, int64_t i)
{
    const spc__dtype *type = spc__dtype_of(o->how->dtype);
    int64_t row = i / o->how->columns, column = i % o->how->columns;
    double value = 0;

    *tolerance = 0;
    if (o->how->features == SPC_VOXELS_MEAN)
        value = mean(tolerance, o, voxel, column);
    else if (row < spc__voxel_oracle_points(o, voxel))
        value = number(o, voxel, row, column);
    if (o->how->dtype != SPC_F32)
        *tolerance += ldexp(fabs(value) + *tolerance, -type->stored_bits) +
                      type->least_half;
    return value;
}
