/* SPDX-License-Identifier: Apache-2.0 */
/*
 * network_points.c - files of points for networks: computes their voxels once
 * in advance, so that capacities and kernels fit. Runs then begin with points.
 */
#include "command/network/network.h"

#include "base/plural.h"
#include "command/layers.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A point has x, y, z and as many other numbers as the input has channels. */
static spc_status read_points(network *n)
{
    int channels = n->info.input->channels;
    spc_point_rows read;
    spc_error error = {0};
    char *spec;
    spc_status status = network_file_spec(&spec, n, n->args->points);

    if (status != SPC_OK)
        return status;
    status = spc_point_rows_load(&read, spec, channels, &error);
    free(spec);
    if (status != SPC_OK)
        return cli_fail(status, "%s", error.text);
    n->points = read.values; /* owned by the network from here on */
    n->point_rows = read.rows;
    if (read.found > channels)
        cli_say(n->self,
                "%s: a point has %s, of which the network takes the first %d",
                n->args->points, spc__count(read.found, "number"), channels);
    return SPC_OK;
}

/* Reports points outside the grid. */
static void say_left_out(const network *n, const spc_voxels_info *found)
{
    int channels = n->info.input->channels;
    spc_scene_info info = {.points = n->point_rows};

    for (int64_t row = n->point_rows - 1; row >= 0; row--) {
        const float *at = n->points + row * channels;
        if (isfinite(at[0]) && isfinite(at[1]) && isfinite(at[2]))
            continue;
        info.bad++;
        info.first_bad = row;
    }
    info.outside = found->outside + found->bad - info.bad;
    say_left_out_of(n->self, n->args->points, &info);
}

/* Makes the network's scene from the voxels of the points. */
static spc_status take_voxels(network *n, spc_voxels *voxels)
{
    spc_voxels_info info;
    spc_error error = {0};
    spc_status status = spc_voxels_check(&info, voxels, NULL);
    int32_t *coords;

    /* SPC_ERANGE only means that points are left out */
    if (status != SPC_OK && status != SPC_ERANGE)
        return cli_fail_ctx(status, n->ctx);
    say_left_out(n, &info);
    if ((coords = malloc(16 * (size_t)info.voxels + 1)) == NULL)
        return cli_fail(SPC_ENOMEM, "out of memory");
    status = spc_memory_download(coords, n->ctx, spc_voxels_coords(voxels),
                                 16 * (size_t)info.voxels);
    if (status != SPC_OK)
        cli_fail_ctx(status, n->ctx);
    else if ((status = spc_scene_create(&n->scenes[0], coords, info.voxels,
                                        n->args->points, &error)) != SPC_OK)
        cli_fail(status, "%s", error.text);
    free(coords);
    return status;
}

/* Turns the points into voxels on the device, and makes a scene of the voxels
 * for the plan. */
static spc_status find_voxels(network *n)
{
    size_t bytes =
        (size_t)n->point_rows * (size_t)n->info.input->channels * sizeof(float);
    spc_voxelisation how;
    spc_voxels *voxels = NULL;
    spc_error error = {0};
    spc_status status = spc_net_voxelisation(&how, n->net, 1, &error);

    if (status != SPC_OK)
        return cli_fail(status, "%s", error.text);
    if ((status = spc_voxels_create(&voxels, n->ctx, &how, n->point_rows,
                                    n->point_rows)) == SPC_OK &&
        (status = spc_memory_upload(n->points_there, n->ctx, n->points,
                                    bytes)) == SPC_OK)
        status = spc_voxels_update(voxels, n->points_there, NULL, n->point_rows,
                                   NULL);
    status = status == SPC_OK ? take_voxels(n, voxels)
                              : cli_fail_ctx(status, n->ctx);
    spc_voxels_free(voxels);
    return status;
}

/* Makes a row of a scene, in units of 1/1024; false if a coordinate is out of
 * range. */
static bool take_point(int32_t out[4], const float *point)
{
    bool fits = true;

    out[0] = 0;
    for (int a = 0; a < 3; a++) {
        float units = point[a] * 1024;
        fits = fits && fabsf(units) < 0x1p31f;
        out[1 + a] = fits ? (int32_t)lrintf(units) : 0;
    }
    return fits;
}

/* Drops points that are not finite, with their features. */
static spc_status take_points(network *n, int32_t *units)
{
    int channels = n->info.input->channels;
    spc_scene_info info = {.points = n->point_rows};
    int64_t kept = 0;

    for (int64_t row = 0; row < n->point_rows; row++) {
        const float *at = n->points + row * channels;
        if (!isfinite(at[0]) || !isfinite(at[1]) || !isfinite(at[2])) {
            info.first_bad = info.bad++ > 0 ? info.first_bad : row;
            continue;
        }
        if (!take_point(units + 4 * kept, at))
            return cli_fail(SPC_ERANGE,
                            "'%s': point %lld has a coordinate farther than "
                            "2097152 from 0",
                            n->args->points, (long long)row);
        memmove(n->points + kept++ * channels, at,
                (size_t)channels * sizeof(float));
    }
    n->point_rows = kept;
    say_left_out_of(n->self, n->args->points, &info);
    return SPC_OK;
}

/*
 * In a network of clouds the points are the scene, and their numbers are the
 * features.
 */
static spc_status take_cloud(network *n)
{
    int32_t *units = malloc(16 * (size_t)n->point_rows + 1);
    spc_error error = {0};
    spc_status status;

    if (units == NULL)
        return cli_fail(SPC_ENOMEM, "out of memory");
    if ((status = take_points(n, units)) == SPC_OK &&
        (status = spc_scene_create(&n->scenes[0], units, n->point_rows,
                                   n->args->points, &error)) != SPC_OK)
        cli_fail(status, "%s", error.text);
    n->features = n->points;
    n->points = NULL;
    n->point_rows = 0;
    n->scene_count = status == SPC_OK;
    free(units);
    return status;
}

spc_status network_load_points(network *n)
{
    spc_status status;

    if (n->info.input->channels < 3)
        return cli_fail(SPC_EINVAL,
                        "points have x, y and z at least: the "
                        "input of the network has %s",
                        spc__count(n->info.input->channels, "channel"));
    if (n->args->scenes.count > 0 || n->args->coords != NULL ||
        n->args->features != NULL)
        return cli_fail(SPC_EINVAL, "--points are the scene and its features: "
                                    "drop --scene, --coords and --features");
    if ((n->scenes = calloc(1, sizeof(*n->scenes))) == NULL)
        return cli_fail(SPC_ENOMEM, "out of memory");
    if ((status = read_points(n)) != SPC_OK)
        return status;
    if (n->info.input->cloud)
        return take_cloud(n);
    status = spc_memory_alloc(&n->points_there, n->ctx,
                              (size_t)n->point_rows *
                                      (size_t)n->info.input->channels *
                                      sizeof(float) +
                                  1);
    if (status != SPC_OK)
        return cli_fail_ctx(status, n->ctx);
    if ((status = find_voxels(n)) == SPC_OK)
        n->scene_count = 1;
    return status;
}

spc_status network_upload_points(network *n)
{
    int32_t rows = (int32_t)n->point_rows;
    spc_status status =
        spc_memory_upload(n->count, n->ctx, &rows, sizeof(rows));

    return status == SPC_OK ? status : cli_fail_ctx(status, n->ctx);
}
