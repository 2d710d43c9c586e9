/* SPDX-License-Identifier: Apache-2.0 */
/* audit_scene.c - makes nearby scenes, of other sizes and densities. */
#include "command/audit/audit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * Buckets are half octaves, so the scenes differ by a quarter, a half, and one
 * octave in size, in density, or in both.
 */
static const struct {
    double cut;  /* share of the extent along x to keep */
    double thin; /* share of the remaining voxels to keep */
} parts[AUDIT_AROUND] = {
    {0.84, 1},  {1, 0.8},  {0.5, 1},    {1, 0.5},
    {0.7, 0.8}, {0.71, 1}, {0.84, 0.8}, {0.5, 0.5},
};

/*
 * A voxel's own number from 0 to 1, the same on every machine (the finaliser of
 * splitmix64).
 */
static double draw(const int32_t at[4])
{
    uint64_t x = 0;

    for (int i = 0; i < 4; i++) {
        x = (x ^ (uint32_t)at[i]) + 0x9e3779b97f4a7c15u;
        x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
        x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
        x ^= x >> 31;
    }
    return (double)(x >> 11) * 0x1p-53;
}

static int by_number(const void *a, const void *b)
{
    int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;

    return (x > y) - (x < y);
}

/* Returns the x below which this share of the voxels lies; on failure nothing
 * is cut. */
static int32_t find_cut(const int32_t *coords, int64_t rows, double part)
{
    int32_t *xs = malloc((size_t)rows * sizeof(*xs));
    int32_t cut = INT32_MAX;

    if (xs == NULL || rows == 0 || part >= 1) {
        free(xs);
        return cut;
    }
    for (int64_t i = 0; i < rows; i++)
        xs[i] = coords[4 * i + 1];
    qsort(xs, (size_t)rows, sizeof(*xs), by_number);
    cut = xs[(int64_t)(part * (double)rows)];
    free(xs);
    return cut;
}

/* Keeps at least one voxel. */
static int64_t keep(int32_t *out, const int32_t *coords, int64_t rows,
                    int32_t cut, double thin)
{
    int64_t kept = 0;

    for (int64_t i = 0; i < rows; i++) {
        const int32_t *at = coords + 4 * i;
        bool is_last = i == rows - 1 && kept == 0;
        if (!is_last && (at[1] > cut || draw(at) >= thin))
            continue;
        memcpy(out + 4 * kept++, at, 4 * sizeof(*out));
    }
    return kept;
}

spc_status audit_scene_near(spc_scene **out, const spc_scene *scene, int i)
{
    const int32_t *coords = spc_scene_coords(scene);
    int64_t rows = spc_scene_rows(scene);
    int32_t *part = malloc((size_t)rows * 4 * sizeof(*part) + 1);
    spc_error error = {0};
    char name[128];

    *out = NULL;
    if (part == NULL)
        return cli_fail(SPC_ENOMEM, "out of memory");
    int64_t kept = keep(part, coords, rows,
                        find_cut(coords, rows, parts[i].cut), parts[i].thin);
    snprintf(name, sizeof(name), "%.90s cut to %.2g, thinned to %.2g",
             spc_scene_name(scene), parts[i].cut, parts[i].thin);
    spc_status status = spc_scene_create(out, part, kept, name, &error);
    free(part);
    return status == SPC_OK ? SPC_OK : cli_fail(status, "%s", error.text);
}
