/* SPDX-License-Identifier: Apache-2.0 */
/* scene.c - scenes: coordinates on the host, with a name. */
#include "coords/scene.h"

#include "base/error.h"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct spc_scene {
    int32_t *coords; /* [rows][4] */
    int64_t rows;
    char *name;
    spc_scene_info info;
};

spc_status spc__scene_check_memory(int64_t rows, spc_error *error)
{
    /* 16 bytes for the coordinates, and as many for the sort keys. */
    enum { ROW_BYTES = 32 };
    double machine =
        (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
    double needed = (double)rows * ROW_BYTES;

    if (machine <= 0 || needed <= machine)
        return SPC_OK;
    return spc__fail(error, SPC_ENOMEM,
                     "a scene of %lld voxels needs %.0f GiB of memory, and "
                     "this machine has %.0f: make it smaller, or its voxels "
                     "larger",
                     (long long)rows, needed / (1 << 30), machine / (1 << 30));
}

spc_status spc__scene_take(spc_scene **out, int32_t *coords, int64_t rows,
                           const spc_scene_info *info, const char *name,
                           spc_error *error)
{
    spc_scene *scene = calloc(1, sizeof(*scene));

    if (scene != NULL)
        scene->name = strdup(name != NULL ? name : "");
    if (scene == NULL || scene->name == NULL) {
        free(scene);
        return spc__fail_memory(error, sizeof(*scene));
    }
    scene->coords = coords;
    scene->rows = rows;
    scene->info = *info;
    *out = scene;
    return SPC_OK;
}

spc_status spc_scene_create(spc_scene **out, const int32_t *coords,
                            int64_t rows, const char *name, spc_error *error)
{
    spc_status status = spc__need(error, __func__, "out", out, NULL);
    int32_t *copy = NULL;

    if (status != SPC_OK)
        return status;
    *out = NULL;
    if (rows < 0 || rows > SPC__SCENE_MAX_POINTS)
        return spc__fail(error, SPC_EINVAL,
                         "a scene cannot have %lld rows: expected 0 to %d",
                         (long long)rows, (int)SPC__SCENE_MAX_POINTS);
    if (rows > 0 && coords == NULL)
        return spc__fail(error, SPC_EINVAL,
                         "a scene of %lld rows needs coordinates, not NULL",
                         (long long)rows);
    if ((status = spc__scene_check_memory(rows, error)) != SPC_OK)
        return status;
    if (rows > 0) {
        size_t bytes = (size_t)rows * 4 * sizeof(*coords);
        if ((copy = malloc(bytes)) == NULL)
            return spc__fail_memory(error, bytes);
        memcpy(copy, coords, bytes);
    }
    status = spc__scene_take(out, copy, rows, &(spc_scene_info){.points = rows},
                             name, error);
    if (status != SPC_OK)
        free(copy);
    return status;
}

void spc_scene_free(spc_scene *scene)
{
    if (scene == NULL)
        return;
    free(scene->coords);
    free(scene->name);
    free(scene);
}

int64_t spc_scene_rows(const spc_scene *scene)
{
    return scene != NULL ? scene->rows : 0;
}

const int32_t *spc_scene_coords(const spc_scene *scene)
{
    return scene != NULL ? scene->coords : NULL;
}

const char *spc_scene_name(const spc_scene *scene)
{
    return scene != NULL ? scene->name : "";
}

void spc_scene_describe(spc_scene_info *out, const spc_scene *scene)
{
    if (out != NULL)
        *out = scene != NULL ? scene->info : (spc_scene_info){0};
}
