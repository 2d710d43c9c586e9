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
static spc_status read_points(network *n, int i)
{
    int channels = n->info.input->channels;
    const char *file = n->args->points.at[i];
    spc_point_rows read;
    spc_error error = {0};
    char *spec;
    spc_status status = network_file_spec(&spec, n, file);

    if (status != SPC_OK)
        return status;
    status = spc_point_rows_load(&read, spec, channels, &error);
    free(spec);
    if (status != SPC_OK)
        return cli_fail(status, "%s", error.text);
    /* owned by the network from here on */
    n->clouds[i] = (network_cloud){read.values, read.rows};
    if (read.found > channels)
        cli_say(n->self,
                "%s: a point has %s, of which the network takes the first %d",
                file, spc__count(read.found, "number"), channels);
    return SPC_OK;
}

/* Reports points outside the grid. */
static void say_left_out(const network *n, int i, const spc_voxels_info *found)
{
    int channels = n->info.input->channels;
    const network_cloud *cloud = &n->clouds[i];
    spc_scene_info info = {.points = cloud->rows};

    for (int64_t row = cloud->rows - 1; row >= 0; row--) {
        const float *at = cloud->values + row * channels;
        if (isfinite(at[0]) && isfinite(at[1]) && isfinite(at[2]))
            continue;
        info.bad++;
        info.first_bad = row;
    }
    info.outside = found->outside + found->bad - info.bad;
    say_left_out_of(n->self, n->args->points.at[i], &info);
}

/* Makes scene i from the voxels of its points. */
static spc_status take_voxels(network *n, int i, spc_voxels *voxels)
{
    spc_voxels_info info;
    spc_error error = {0};
    spc_status status = spc_voxels_check(&info, voxels, NULL);
    int32_t *coords;

    /* SPC_ERANGE only means that points are left out */
    if (status != SPC_OK && status != SPC_ERANGE)
        return cli_fail_ctx(status, n->ctx);
    say_left_out(n, i, &info);
    if ((coords = malloc(16 * (size_t)info.voxels + 1)) == NULL)
        return cli_fail(SPC_ENOMEM, "out of memory");
    status = spc_memory_download(coords, n->ctx, spc_voxels_coords(voxels),
                                 16 * (size_t)info.voxels);
    if (status != SPC_OK)
        cli_fail_ctx(status, n->ctx);
    else if ((status = spc_scene_create(&n->scenes[i], coords, info.voxels,
                                        n->args->points.at[i], &error)) !=
             SPC_OK)
        cli_fail(status, "%s", error.text);
    free(coords);
    return status;
}

static spc_status upload_points(network *n, int i)
{
    return spc_memory_upload(n->points_there, n->ctx, n->clouds[i].values,
                             (size_t)n->clouds[i].rows *
                                 (size_t)n->info.input->channels *
                                 sizeof(float));
}

/* Turns the points into voxels on the device, and makes a scene of the voxels
 * for the plan. */
static spc_status find_voxels(network *n, int i)
{
    int64_t rows = n->clouds[i].rows;
    spc_voxelisation how;
    spc_voxels *voxels = NULL;
    spc_error error = {0};
    spc_status status = spc_net_voxelisation(&how, n->net, 1, &error);

    if (status != SPC_OK)
        return cli_fail(status, "%s", error.text);
    if ((status = spc_voxels_create(&voxels, n->ctx, &how, rows, rows)) ==
            SPC_OK &&
        (status = upload_points(n, i)) == SPC_OK)
        status = spc_voxels_update(voxels, n->points_there, NULL, rows, NULL);
    status = status == SPC_OK ? take_voxels(n, i, voxels)
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
    network_cloud *cloud = &n->clouds[0];
    spc_scene_info info = {.points = cloud->rows};
    int64_t kept = 0;

    for (int64_t row = 0; row < cloud->rows; row++) {
        const float *at = cloud->values + row * channels;
        if (!isfinite(at[0]) || !isfinite(at[1]) || !isfinite(at[2])) {
            info.first_bad = info.bad++ > 0 ? info.first_bad : row;
            continue;
        }
        if (!take_point(units + 4 * kept, at))
            return cli_fail(SPC_ERANGE,
                            "'%s': point %lld has a coordinate farther than "
                            "2097152 from 0",
                            n->args->points.at[0], (long long)row);
        memmove(cloud->values + kept++ * channels, at,
                (size_t)channels * sizeof(float));
    }
    cloud->rows = kept;
    say_left_out_of(n->self, n->args->points.at[0], &info);
    return SPC_OK;
}

/*
 * In a network of clouds the points are the scene, and their numbers are the
 * features.
 */
static spc_status take_cloud(network *n)
{
    spc_error error = {0};
    spc_status status;
    int32_t *units;

    if (n->args->points.count > 1)
        return cli_fail(SPC_EUNSUPPORTED,
                        "a network of clouds takes one file of points: there "
                        "are %d",
                        n->args->points.count);
    if ((units = malloc(16 * (size_t)n->clouds[0].rows + 1)) == NULL)
        return cli_fail(SPC_ENOMEM, "out of memory");
    if ((status = take_points(n, units)) == SPC_OK &&
        (status = spc_scene_create(&n->scenes[0], units, n->clouds[0].rows,
                                   n->args->points.at[0], &error)) != SPC_OK)
        cli_fail(status, "%s", error.text);
    n->features = n->clouds[0].values;
    free(n->clouds);
    n->clouds = NULL;
    n->scene_count = status == SPC_OK;
    free(units);
    return status;
}

int64_t network_point_rows(const network *n)
{
    int64_t most = 1; /* a plan has room for at least one point */

    for (int i = 0; i < n->args->points.count; i++)
        most = n->clouds[i].rows > most ? n->clouds[i].rows : most;
    return most;
}

/* The memory is that of the cloud with the most points, as a captured graph
 * keeps its address. */
static spc_status take_clouds(network *n)
{
    spc_status status =
        spc_memory_alloc(&n->points_there, n->ctx,
                         (size_t)network_point_rows(n) *
                             (size_t)n->info.input->channels * sizeof(float));

    if (status != SPC_OK)
        return cli_fail_ctx(status, n->ctx);
    for (int i = 0; i < n->args->points.count && status == SPC_OK; i++)
        if ((status = find_voxels(n, i)) == SPC_OK)
            n->scene_count++;
    return status;
}

spc_status network_load_points(network *n)
{
    size_t count = (size_t)n->args->points.count;
    spc_status status = SPC_OK;

    if (n->info.input->channels < 3)
        return cli_fail(SPC_EINVAL,
                        "points have x, y and z at least: the "
                        "input of the network has %s",
                        spc__count(n->info.input->channels, "channel"));
    if (n->args->scenes.count > 0 || n->args->coords != NULL ||
        n->args->features != NULL)
        return cli_fail(SPC_EINVAL, "--points are the scene and its features: "
                                    "drop --scene, --coords and --features");
    n->scenes = calloc(count, sizeof(*n->scenes));
    n->clouds = calloc(count, sizeof(*n->clouds));
    if (n->scenes == NULL || n->clouds == NULL)
        return cli_fail(SPC_ENOMEM, "out of memory");
    for (int i = 0; i < n->args->points.count && status == SPC_OK; i++)
        status = read_points(n, i);
    if (status != SPC_OK)
        return status;
    return n->info.input->cloud ? take_cloud(n) : take_clouds(n);
}

spc_status network_upload_points(network *n, int i)
{
    int32_t rows = (int32_t)n->clouds[i].rows;
    spc_status status = upload_points(n, i);

    if (status == SPC_OK)
        status = spc_memory_upload(n->count, n->ctx, &rows, sizeof(rows));
    return status == SPC_OK ? status : cli_fail_ctx(status, n->ctx);
}
