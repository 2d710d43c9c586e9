/* SPDX-License-Identifier: Apache-2.0 */
/*
 * scene_npy.c - NumPy arrays as rows: float points or integer voxels.
 *
 * Columns are x, y, z and others; for integers b, x, y, z. A specification may
 * state another order, and the fields of records have names.
 */
#include "lab/scene/scene.h"

#include "base/error.h"
#include "base/numpy.h"
#include "base/plural.h"
#include <string.h>

/* Finds x, y, z and the optional batch among the fields of records. */
static spc_status find_fields(spc__columns *out, const spc__numpy_rows *rows,
                              spc_error *error)
{
    out->count = (int)rows->columns;
    if (spc__numpy_find_xyz(out->at, rows))
        return SPC_OK;
    return spc__fail(error, SPC_EFORMAT,
                     "cannot read '%s': its records have no fields 'x', 'y' "
                     "and 'z'",
                     rows->array->path);
}

/* Sets the default columns: four integers are batch, x, y, z. */
static spc_status find_columns(spc__columns *out, const spc__numpy_rows *rows,
                               bool whole, spc_error *error)
{
    int count = (int)rows->columns;

    spc__columns_count(out, count);
    if (whole && count == 4)
        *out = (spc__columns){4, {0, 1, 2, 3}};
    if (!whole || count <= 4)
        return SPC_OK;
    return spc__fail(error, SPC_EFORMAT,
                     "cannot read '%s': its rows have %d integers; state which "
                     "are the batch, x, y and z by a letter for each: "
                     "%s,columns=bxyz and one letter more for each other",
                     rows->array->path, count, rows->array->path);
}

static bool is_whole(const spc__numpy_rows *rows, int64_t column)
{
    return spc__numpy_column(rows, column)->kind != 'f';
}

/* Determines the meaning of the columns. */
static spc_status choose_columns(spc__columns *out, bool *whole,
                                 const spc__numpy_rows *rows,
                                 const spc__scene_file *file, spc_error *error)
{
    spc_status status = SPC_OK;

    if (rows->columns < 3 || rows->columns > SPC__COLUMNS_MOST)
        return spc__fail(error, SPC_EFORMAT,
                         "cannot read '%s': its rows have %s; expected 3 to "
                         "%d, among them x, y and z",
                         file->path, spc__count(rows->columns, "number"),
                         SPC__COLUMNS_MOST);
    if (file->columns.count > 0 && file->columns.count != rows->columns)
        return spc__fail(
            error, SPC_EINVAL,
            "cannot read '%s': its rows have %s, columns= states %d",
            file->path, spc__count(rows->columns, "number"),
            file->columns.count);
    if (file->columns.count > 0)
        *out = file->columns;
    else if (rows->array->is_record)
        status = find_fields(out, rows, error);
    else
        status = find_columns(out, rows, is_whole(rows, 0), error);
    *whole = status == SPC_OK && is_whole(rows, out->at[1]);
    return status;
}

/* Passes on all rows as numbers. */
static spc_status take_rows(spc__rows *to, const spc__numpy_rows *rows,
                            const spc__scene_file *file, spc_error *error)
{
    spc__columns columns;
    double numbers[SPC__COLUMNS_MOST];
    bool whole = false;
    spc_status status = choose_columns(&columns, &whole, rows, file, error);

    if (status == SPC_OK && rows->count > SPC__SCENE_MAX_POINTS)
        return spc__fail(error, SPC_ECAPACITY,
                         "cannot read '%s': it has %lld rows; at most 2^31 - 1 "
                         "are possible",
                         file->path, (long long)rows->count);
    if (status == SPC_OK)
        status = to->begin(to, rows->count, &columns, whole, error);
    for (int64_t row = 0; row < rows->count && status == SPC_OK; row++) {
        spc__source_position source = {file->path, row,
                                       spc__numpy_byte(rows, row, 0)};
        for (int c = 0; c < columns.count; c++)
            numbers[c] = spc__numpy_float(rows, row, c);
        status = to->take(to, numbers, &source, error);
    }
    return status;
}

spc_status spc__scene_read_npy(spc__rows *to, const spc__scene_file *file,
                               spc_error *error)
{
    spc__numpy array;
    spc__numpy_rows rows;
    spc_status status;

    if ((status = spc__numpy_open(&array, file->path, file->data, file->bytes,
                                  error)) != SPC_OK ||
        (status = spc__numpy_rows_of(&rows, &array, error)) != SPC_OK)
        return status;
    return take_rows(to, &rows, file, error);
}
