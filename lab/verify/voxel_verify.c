/* SPDX-License-Identifier: Apache-2.0 */
/* voxel_verify.c - verifies the voxels of given points. */
#include "base/dtype.h"
#include "base/error.h"
#include "base/plural.h"
#include "coords/voxelise.h"
#include "lab/judge.h"
#include "lab/oracle/voxel_oracle.h"
#include "spc/lab.h"
#include <stdlib.h>
#include <string.h>

/* A device's results, on the host. */
typedef struct fetched {
    int32_t *coords, *points_of;
    void *features; /* features in the stored type */
} fetched;

static void release(fetched *f)
{
    free(f->coords);
    free(f->points_of);
    free(f->features);
}

/* Fetches voxels, counts and features. */
static spc_status fetch(fetched *out, const spc_voxels *v, int64_t voxels,
                        spc_error *error)
{
    size_t rows = (size_t)voxels;
    size_t bytes = rows * (size_t)spc__voxel_oracle_elements(&v->how) *
                   spc__dtype_of(v->how.dtype)->bytes;
    spc_status status = SPC_OK;

    out->coords = malloc(16 * rows + 1);
    out->points_of = malloc(4 * rows + 1);
    out->features = malloc(bytes + 1);
    if (!out->coords || !out->points_of || !out->features)
        status = spc__fail_memory(error, bytes);
    if (status == SPC_OK &&
        (status = spc_memory_download(out->coords, v->ctx, v->coords,
                                      16 * rows)) == SPC_OK &&
        (status = spc_memory_download(out->points_of, v->ctx, v->points_of,
                                      4 * rows)) == SPC_OK)
        status =
            spc_memory_download(out->features, v->ctx, v->features, bytes);
    return status;
}

/* Compares a voxel's coordinates and its number of points, exactly. */
static spc_status check_voxel(const spc__voxel_oracle *o, const fetched *f,
                              int64_t voxel, spc_error *error)
{
    const int32_t *want = spc__voxel_oracle_coords(o, voxel);
    const int32_t *got = f->coords + 4 * voxel;
    int64_t points = spc__voxel_oracle_points(o, voxel);

    if (memcmp(got, want, 16) != 0)
        return spc__fail(
            error, SPC_EWRONG,
            "voxel %lld is (%d, %d, %d, %d), expected (%d, %d, %d, %d)",
            (long long)voxel, got[0], got[1], got[2], got[3], want[0], want[1],
            want[2], want[3]);
    if (f->points_of[voxel] != points)
        return spc__fail(error, SPC_EWRONG, "voxel %lld has %s, expected %lld",
                         (long long)voxel,
                         spc__count(f->points_of[voxel], "point"),
                         (long long)points);
    return SPC_OK;
}

/* Compares the features, within their bounds. */
static spc_status check_features(double *worst, const spc__voxel_oracle *o,
                                 const fetched *f, spc_error *error)
{
    int64_t elements = spc__voxel_oracle_elements(o->how);
    size_t count = (size_t)(o->voxels * elements);
    double *want = malloc((2 * count + 1) * sizeof(*want));
    spc__expected expected = {
        .reference = want, .wide_tolerance = want + count, .rounded = true};
    spc__operand of =
        spc__matrix_of(o->how->dtype, o->voxels, elements, elements);
    spc_status status = SPC_OK;

    if (want == NULL)
        return spc__fail_memory(error, 2 * count * sizeof(*want));
    for (size_t i = 0; i < count; i++)
        want[i] = spc__voxel_oracle_feature(&want[count + i], o,
                                            (int64_t)i / elements,
                                            (int64_t)i % elements);
    spc__worst found = spc__judge(f->features, &of, &expected);
    *worst = found.error;
    if (found.error > 1)
        status = spc__fail(error, SPC_EWRONG,
                           "voxel %lld: feature %d is %.9g, expected %.9g",
                           (long long)found.row, found.channel, found.got,
                           found.reference);
    free(want);
    return status;
}

/* Compares all voxels. */
static spc_status compare(double *worst, const spc__voxel_oracle *o,
                          const spc_voxels *v, spc_error *error)
{
    fetched f = {NULL, NULL, NULL};
    spc_status status = fetch(&f, v, o->voxels, error);

    for (int64_t i = 0; i < o->voxels && status == SPC_OK; i++)
        status = check_voxel(o, &f, i, error);
    if (status == SPC_OK)
        status = check_features(worst, o, &f, error);
    release(&f);
    return status;
}

/* Invalid points are left out here, as the caller has to report them. */
static spc_status look(spc_voxels_info *info, spc_voxels *v)
{
    spc_status status = spc_voxels_check(info, v, NULL);

    return status == SPC_ERANGE ? SPC_OK : status;
}

/* Compares the counts of points inside, outside and bad. */
static spc_status check_counts(const spc__voxel_oracle *o,
                               const spc_voxels_info *info, int64_t rows,
                               spc_error *error)
{
    if (info->points == rows && info->outside == o->outside &&
        info->bad == o->bad && info->voxels == o->voxels)
        return SPC_OK;
    return spc__fail(error, SPC_EWRONG,
                     "%lld voxels of %lld points, of which %lld are outside "
                     "and %lld are bad; expected %lld, %lld, %lld and %lld",
                     (long long)info->voxels, (long long)info->points,
                     (long long)info->outside, (long long)info->bad,
                     (long long)o->voxels, (long long)rows,
                     (long long)o->outside, (long long)o->bad);
}

spc_status spc_voxels_verify(double *worst, spc_voxels *v, const float *points,
                             int64_t rows)
{
    spc_error *error = v != NULL ? spc__error_of(v->ctx) : NULL;
    spc_status status =
        spc__need(error, __func__, "worst", worst, "voxels", v, NULL);
    spc__voxel_oracle oracle;
    spc_voxels_info info;

    if (status != SPC_OK || (status = look(&info, v)) != SPC_OK)
        return status;
    *worst = 0;
    if (rows < 0 || (rows > 0 && points == NULL))
        return spc__fail(error, SPC_EINVAL, "cannot compare with %lld points%s",
                         (long long)rows, rows > 0 ? " that are NULL" : "");
    status = spc__voxel_oracle_init(&oracle, &v->how, points, rows, error);
    if (status != SPC_OK)
        return status;
    /* Checks the counts first, as they give the lengths of the arrays. */
    if ((status = check_counts(&oracle, &info, rows, error)) == SPC_OK)
        status = compare(worst, &oracle, v, error);
    spc__voxel_oracle_release(&oracle);
    return status;
}
