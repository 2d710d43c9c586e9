/*
 * scene_npy.c - NumPy arrays: float points or integer voxels.
 */
#include "scene.h"

#include "error.h"
#include "npy.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct npy {
    const spc__scene_file *file;
    const unsigned char *data;
    spc__npy is;
    int64_t rows;
    int64_t columns;
} npy;

static spc_status bad(const npy *array, spc_error *error, const char *what)
{
    return spc__fail(error, SPC_EFORMAT, "cannot read '%s': %s",
                     array->file->path, what);
}

/* ---- the header ---------------------------------------------------------- */

static spc_status check_type(const npy *array, spc_error *error)
{
    char kind = array->is.kind;
    int bytes = array->is.item_bytes;
    bool is_float = kind == 'f' && (bytes == 4 || bytes == 8);
    bool is_integer = (kind == 'i' || kind == 'u') &&
                      (bytes == 1 || bytes == 2 || bytes == 4 || bytes == 8);

    if (is_float || is_integer)
        return SPC_OK;
    return spc__fail(error, SPC_EFORMAT,
                     "cannot read '%s': elements of type '%s%c%d' are not "
                     "supported; float32 or float64 points and int8 to int64 "
                     "voxels are",
                     array->file->path, array->is.big_endian ? ">" : "<", kind,
                     bytes);
}

/* (rows, columns). */
static spc_status check_shape(const npy *array, spc_error *error)
{
    if (array->is.rank != 2)
        return bad(array, error,
                   "the header's 'shape' is not a pair (rows, columns)");
    if (array->columns != 3 && array->columns != 4)
        return spc__fail(error, SPC_EFORMAT,
                         "cannot read '%s': its shape is (%lld, %lld); 3 or 4 "
                         "columns are right",
                         array->file->path, (long long)array->rows,
                         (long long)array->columns);
    if (array->rows > SPC__SCENE_MAX_POINTS)
        return spc__fail(error, SPC_ECAPACITY,
                         "cannot read '%s': it has %lld rows; at most 2^31 - 1 "
                         "are possible",
                         array->file->path, (long long)array->rows);
    return SPC_OK;
}

static spc_status read_header(npy *array, spc_error *error)
{
    const spc__scene_file *file = array->file;
    spc_status status =
        spc__npy_read(&array->is, file->path, file->data, file->bytes, error);

    array->rows = array->is.shape[0];
    array->columns = array->is.shape[1];
    array->data = (const unsigned char *)file->data + array->is.data;
    if (status == SPC_OK)
        status = check_type(array, error);
    return status == SPC_OK ? check_shape(array, error) : status;
}

static spc_status check_size(const npy *array, spc_error *error)
{
    const spc__scene_file *file = array->file;
    size_t start = (size_t)(array->data - (const unsigned char *)file->data);
    int64_t have = (int64_t)(file->bytes - start);
    int64_t want = array->rows * array->columns * array->is.item_bytes;

    if (have == want)
        return SPC_OK;
    return spc__fail(error, SPC_EFORMAT,
                     "cannot read '%s': %lld bytes of data follow the header "
                     "at byte %zu, but its shape (%lld, %lld) takes %lld",
                     file->path, (long long)have, start, (long long)array->rows,
                     (long long)array->columns, (long long)want);
}

/* ---- elements ------------------------------------------------------------ */

static int64_t byte_of(const npy *array, int64_t row, int64_t column)
{
    int64_t element = array->is.fortran ? column * array->rows + row
                                        : row * array->columns + column;
    return element * array->is.item_bytes;
}

static uint64_t bits_of(const npy *array, int64_t row, int64_t column)
{
    const unsigned char *bytes = array->data + byte_of(array, row, column);
    uint64_t bits = 0;
    for (int i = 0; i < array->is.item_bytes; i++) {
        int place = array->is.big_endian ? array->is.item_bytes - 1 - i : i;
        bits |= (uint64_t)bytes[i] << 8 * place;
    }
    return bits;
}

static double float_of(uint64_t bits, int item_bytes)
{
    float narrow;
    double wide;
    uint32_t low = (uint32_t)bits;

    if (item_bytes == 4) {
        memcpy(&narrow, &low, sizeof(narrow));
        return narrow;
    }
    memcpy(&wide, &bits, sizeof(wide));
    return wide;
}

/* False if the value does not fit int32. */
static bool integer_of(int32_t *out, const npy *array, uint64_t bits)
{
    int unused = 64 - 8 * array->is.item_bytes;
    if (array->is.kind == 'u') {
        *out = (int32_t)bits;
        return bits <= INT32_MAX;
    }
    int64_t value = (int64_t)(bits << unused) >> unused;
    *out = (int32_t)value;
    return value >= INT32_MIN && value <= INT32_MAX;
}

static spc__place place_of(const npy *array, int64_t row, int64_t column)
{
    int64_t start =
        (int64_t)(array->data - (const unsigned char *)array->file->data);
    spc__place place = {array->file->path, row,
                        start + byte_of(array, row, column)};
    return place;
}

/* ---- rows ---------------------------------------------------------------- */

static spc_status read_points(spc__voxels *out, const npy *array,
                              spc_error *error)
{
    spc_status status = spc__scene_need_voxel(array->file, error);

    for (int64_t row = 0; row < array->rows && status == SPC_OK; row++) {
        double point[3];
        spc__place place = place_of(array, row, 0);
        for (int axis = 0; axis < 3; axis++)
            point[axis] =
                float_of(bits_of(array, row, axis), array->is.item_bytes);
        status = spc__voxels_add_point(out, point, array->file->voxel, &place,
                                       error);
    }
    return status;
}

static spc_status read_voxel_row(spc__voxels *out, const npy *array,
                                 int64_t row, spc_error *error)
{
    int32_t value[4] = {0};
    int skip = 4 - (int)array->columns;

    for (int column = 0; column < array->columns; column++) {
        uint64_t bits = bits_of(array, row, column);
        spc__place place = place_of(array, row, column);
        int32_t *field = &value[column + skip];
        if (!integer_of(field, array, bits))
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

static spc_status read_voxels(spc__voxels *out, const npy *array,
                              spc_error *error)
{
    spc_status status = SPC_OK;
    if (array->file->voxel > 0)
        return spc__fail(error, SPC_EINVAL,
                         "'%s' holds integer voxels, which take no voxel size; "
                         "drop the @%g",
                         array->file->path, array->file->voxel);
    for (int64_t row = 0; row < array->rows && status == SPC_OK; row++)
        status = read_voxel_row(out, array, row, error);
    return status;
}

spc_status spc__scene_read_npy(spc__voxels *out, const spc__scene_file *file,
                               spc_error *error)
{
    npy array = {.file = file};
    spc_status status;

    if ((status = read_header(&array, error)) != SPC_OK ||
        (status = check_size(&array, error)) != SPC_OK ||
        (status = spc__voxels_reserve(out, array.rows, error)) != SPC_OK)
        return status;
    return array.is.kind == 'f' ? read_points(out, &array, error)
                                : read_voxels(out, &array, error);
}
