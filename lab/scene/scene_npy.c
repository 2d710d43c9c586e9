/*
 * scene_npy.c - NumPy arrays: float points or integer voxels.
 */
#include "lab/scene/scene.h"

#include "base/error.h"
#include "base/numpy.h"

typedef struct table {
    const spc__scene_file *file;
    spc__numpy array;
    spc__numpy_rows rows;
} table;

static spc_status check_shape(const table *t, spc_error *error)
{
    if (t->rows.columns != 3 && t->rows.columns != 4)
        return spc__fail(error, SPC_EFORMAT,
                         "cannot read '%s': it has %lld columns; 3 or 4 are "
                         "right",
                         t->file->path, (long long)t->rows.columns);
    if (t->rows.count > SPC__SCENE_MAX_POINTS)
        return spc__fail(error, SPC_ECAPACITY,
                         "cannot read '%s': it has %lld rows; at most 2^31 - 1 "
                         "are possible",
                         t->file->path, (long long)t->rows.count);
    return SPC_OK;
}

static spc__place place_of(const table *t, int64_t row, int64_t column)
{
    spc__place place = {t->file->path, row,
                        spc__numpy_byte(&t->rows, row, column)};
    return place;
}

static spc_status read_points(spc__voxels *out, const table *t,
                              spc_error *error)
{
    spc_status status = spc__scene_need_voxel(t->file, error);

    for (int64_t row = 0; row < t->rows.count && status == SPC_OK; row++) {
        double point[3];
        spc__place place = place_of(t, row, 0);
        for (int axis = 0; axis < 3; axis++)
            point[axis] = spc__numpy_float(&t->rows, row, axis);
        status =
            spc__voxels_add_point(out, point, t->file->voxel, &place, error);
    }
    return status;
}

static spc_status read_voxel_row(spc__voxels *out, const table *t, int64_t row,
                                 spc_error *error)
{
    int32_t value[4] = {0};
    int skip = 4 - (int)t->rows.columns;

    for (int column = 0; column < t->rows.columns; column++) {
        spc__place place = place_of(t, row, column);
        int32_t *field = &value[column + skip];
        int64_t wide;
        bool fits = spc__numpy_int(&wide, &t->rows, row, column);
        *field = (int32_t)wide;
        if (!fits || *field != wide)
            return spc__fail(error, SPC_ERANGE,
                             "cannot read '%s': column %d of row %lld (byte "
                             "%lld) does not fit 32 bits",
                             place.path, column, (long long)row,
                             (long long)place.byte);
        if (column + skip == 0 && *field < 0)
            return spc__fail(error, SPC_EFORMAT,
                             "cannot read '%s': the batch of row %lld (byte "
                             "%lld) is %d; batches count from 0",
                             place.path, (long long)row, (long long)place.byte,
                             *field);
    }
    spc__voxels_push(out, value[0], value[1], value[2], value[3]);
    return SPC_OK;
}

static spc_status read_voxels(spc__voxels *out, const table *t,
                              spc_error *error)
{
    spc_status status = SPC_OK;
    if (t->file->voxel > 0)
        return spc__fail(error, SPC_EINVAL,
                         "'%s' holds integer voxels, which take no voxel size; "
                         "drop the @%g",
                         t->file->path, t->file->voxel);
    for (int64_t row = 0; row < t->rows.count && status == SPC_OK; row++)
        status = read_voxel_row(out, t, row, error);
    return status;
}

spc_status spc__scene_read_npy(spc__voxels *out, const spc__scene_file *file,
                               spc_error *error)
{
    table t = {.file = file};
    spc_status status;

    if ((status = spc__numpy_open(&t.array, file->path, file->data, file->bytes,
                                  error)) != SPC_OK ||
        (status = spc__numpy_rows_of(&t.rows, &t.array, error)) != SPC_OK ||
        (status = check_shape(&t, error)) != SPC_OK ||
        (status = spc__voxels_reserve(out, t.rows.count, error)) != SPC_OK)
        return status;
    return spc__numpy_column(&t.rows, 0)->kind == 'f'
               ? read_points(out, &t, error)
               : read_voxels(out, &t, error);
}
