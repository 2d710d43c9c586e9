/* SPDX-License-Identifier: Apache-2.0 */
/* regroup_oracle.c - sets made of other sets, by their definition. */
#include "lab/oracle/regroup_oracle.h"
#include "spc/lab.h"

#include "base/error.h"
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static int children_of(const spc_regrouping *how)
{
    return how->split[0] * how->split[1] * how->split[2];
}

/* ---- slots --------------------------------------------------------------- */

/* Returns the voxel of child `child`, numbered with x fastest. */
static void put_voxel(int32_t out[4], const spc_regrouping *how,
                      const int32_t voxel[4], int child)
{
    out[0] = voxel[0];
    for (int a = 0; a < 3; a++) {
        out[1 + a] = voxel[1 + a] * how->scale[a] + child % how->split[a];
        child /= how->split[a];
    }
}

/* Lists the children of a row that the mask keeps. */
static void list_row(spc__slot_list *out, const spc_regrouping *how,
                     const int32_t voxel[4], int row, const uint8_t *mask)
{
    int children = children_of(how);

    for (int child = 0; child < children; child++) {
        int slot = row * children + child;
        if (mask != NULL && mask[slot] == 0)
            continue;
        out->slot[out->count] = slot;
        put_voxel(out->at[out->count++], how, voxel, child);
    }
}

/* ---- rows ---------------------------------------------------------------- */

typedef struct placed {
    int32_t at[4];
    int number; /* number of slots in the list */
} placed;

static int compare(const void *a, const void *b)
{
    const placed *one = a, *two = b;

    for (int i = 0; i < 4; i++)
        if (one->at[i] != two->at[i])
            return one->at[i] < two->at[i] ? -1 : 1;
    return 0;
}

/* Numbers rows in ascending order of their voxels; equal voxels share a row. */
static bool number_merged(spc__slot_list *out)
{
    placed *all = calloc((size_t)out->count + 1, sizeof(*all));

    if (all == NULL)
        return false;
    for (int i = 0; i < out->count; i++) {
        memcpy(all[i].at, out->at[i], sizeof(all[i].at));
        all[i].number = i;
    }
    qsort(all, (size_t)out->count, sizeof(*all), compare);
    for (int i = 0; i < out->count; i++) {
        out->rows += i == 0 || compare(&all[i], &all[i - 1]) != 0;
        out->row[all[i].number] = out->rows - 1;
    }
    free(all);
    return true;
}

/* If no two voxels can be equal, rows are in the order of slots. */
static bool number_rows(spc__slot_list *out, const spc_regrouping *how,
                        int sources)
{
    bool merges = sources > 1;

    for (int a = 0; a < 3; a++)
        merges |= how->scale[a] < how->split[a];
    if (merges)
        return number_merged(out);
    out->rows = out->count;
    for (int i = 0; i < out->count; i++)
        out->row[i] = i;
    return true;
}

spc_status spc__regroup_oracle(spc__slot_list *out, const spc_regrouping *how,
                               const spc_scene *const *scenes, int count,
                               const uint8_t *mask, spc_error *error)
{
    size_t most = 0;
    int row = 0;

    memset(out, 0, sizeof(*out));
    for (int s = 0; s < count; s++)
        most += (size_t)spc_scene_rows(scenes[s]) * (size_t)children_of(how);
    out->slot = calloc(most + 1, sizeof(*out->slot));
    out->row = calloc(most + 1, sizeof(*out->row));
    out->at = calloc(most + 1, sizeof(*out->at));
    if (out->slot == NULL || out->row == NULL || out->at == NULL)
        return spc__fail_memory(error, most * sizeof(*out->at));
    for (int s = 0; s < count; s++)
        for (int64_t r = 0; r < spc_scene_rows(scenes[s]); r++)
            list_row(out, how, spc_scene_coords(scenes[s]) + 4 * r, row++,
                     mask);
    return number_rows(out, how, count) ? SPC_OK
                                        : spc__fail_memory(error, most);
}

void spc__slot_list_release(spc__slot_list *list)
{
    free(list->slot);
    free(list->row);
    free(list->at);
    memset(list, 0, sizeof(*list));
}
