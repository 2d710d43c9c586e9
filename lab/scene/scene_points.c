/* SPDX-License-Identifier: Apache-2.0 */
/*
 * scene_points.c - the points of a file as an array on the host, in the form
 * that networks take.
 */
#include "lab/scene/scene.h"

#include "base/error.h"
#include "base/plural.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct point_rows {
    spc__rows rows;
    spc_point_rows *out;
    const char *path;
    spc__columns columns;
    /* the file's column for each column of the result */
    int order[SPC__COLUMNS_MOST];
} point_rows;

static bool holds(const int *at, int count, int column)
{
    for (int i = 0; i < count; i++)
        if (at[i] == column)
            return true;
    return false;
}

/* The result has x, y and z first, then the other columns in the file's order,
 * without the batch element. */
static void set_order(point_rows *p)
{
    int numbers = 3;

    memcpy(p->order, p->columns.at + 1, 3 * sizeof(int));
    for (int c = 0; c < p->columns.count; c++)
        if (!holds(p->columns.at, 4, c))
            p->order[numbers++] = c;
    p->out->found = numbers;
}

/* Allocates the points, whose number a file announces. */
static spc_status begin_points(spc__rows *to, int64_t rows,
                               const spc__columns *columns, bool whole,
                               spc_error *error)
{
    point_rows *p = (point_rows *)to;
    size_t each = (size_t)p->out->columns * sizeof(float);

    (void)whole;
    p->columns = *columns;
    set_order(p);
    if (p->out->found < p->out->columns)
        return spc__fail(error, SPC_EINVAL,
                         "'%s' has %s a point, and %d are needed", p->path,
                         spc__count(p->out->found, "number"), p->out->columns);
    p->out->values = malloc((size_t)rows * each + 1);
    return p->out->values != NULL
               ? SPC_OK
               : spc__fail_memory(error, (size_t)rows * each + 1);
}

/* Takes one point in the network's order of columns. */
static spc_status take_point(spc__rows *to, const double *numbers,
                             const spc__source_position *source,
                             spc_error *error)
{
    point_rows *p = (point_rows *)to;
    spc_point_rows *out = p->out;
    int batch = p->columns.at[0];

    if (batch >= 0 && numbers[batch] != 0)
        return spc__fail(error, SPC_EUNSUPPORTED,
                         "'%s': the batch element of row %lld is %g; the "
                         "points of one, 0, are read",
                         p->path, (long long)source->row, numbers[batch]);
    for (int c = 0; c < out->columns; c++)
        out->values[out->rows * out->columns + c] =
            (float)numbers[p->order[c]];
    out->rows++;
    return SPC_OK;
}

static spc_status load(spc_point_rows *out, const spc__scene_spec *spec,
                       const char *text, spc_error *error)
{
    const int expected[SPC__EXPECTED] = {out->columns};
    point_rows to = {.rows = {begin_points, take_point},
                     .out = out,
                     .path = spec->name};

    if (spec->voxel[0] > 0 || spec->level > 0)
        return spc__fail(error, SPC_EINVAL,
                         "'%s': a file of points is named without the size of "
                         "a voxel and without a level: FILE or "
                         "FILE,columns=5",
                         text);
    return spc__scene_read_file(&to.rows, spec, expected, error);
}

spc_status spc_point_rows_load(spc_point_rows *out, const char *spec,
                               int columns, spc_error *error)
{
    spc__scene_spec read;
    spc_status status =
        spc__need(error, __func__, "out", out, "spec", spec, NULL);

    if (status != SPC_OK)
        return status;
    *out = (spc_point_rows){.columns = columns};
    if (columns < 3 || columns > SPC__COLUMNS_MOST)
        return spc__fail(
            error, SPC_EINVAL,
            "points of %d numbers: expected 3 to %d, x, y and z first", columns,
            SPC__COLUMNS_MOST);
    if ((status = spc__file_spec_read(&read, spec, error)) == SPC_OK)
        status = load(out, &read, spec, error);
    spc__scene_spec_release(&read);
    if (status != SPC_OK)
        spc_point_rows_release(out);
    return status;
}

void spc_point_rows_release(spc_point_rows *rows)
{
    if (rows == NULL)
        return;
    free(rows->values);
    *rows = (spc_point_rows){0};
}
