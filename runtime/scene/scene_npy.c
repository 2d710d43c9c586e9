/*
 * scene_npy.c - NumPy arrays (.npy, format versions 1 to 3): float points or
 * integer voxels.
 *
 *   "\x93NUMPY" major minor  header length (u16 in version 1, else u32)
 *   {'descr': '<f4', 'fortran_order': False, 'shape': (1000, 3), }  data
 */
#include "scene.h"

#include "error.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct npy {
    const spc__scene_file *file;
    const unsigned char *data;
    char kind; /* 'f', 'i', 'u' */
    bool big_endian;
    int item_bytes;
    bool fortran;
    int64_t rows;
    int64_t columns;
} npy;

static spc_status bad(const npy *array, spc_error *error, const char *what)
{
    return spc__fail(error, SPC_EFORMAT, "cannot read '%s': %s",
                     array->file->path, what);
}

/* ---- the header ---------------------------------------------------------- */

static const char *skip_spaces(const char *text)
{
    while (*text == ' ' || *text == '\t' || *text == '\n')
        text++;
    return text;
}

/* The value behind 'key':, or NULL. */
static const char *find_value(const char *header, const char *key)
{
    const char *found = strstr(header, key);
    if (found == NULL)
        return NULL;
    found = skip_spaces(found + strlen(key));
    return *found == ':' ? skip_spaces(found + 1) : NULL;
}

/* '<f4', "|i1", '>i8'. */
static spc_status read_descr(npy *array, const char *text, spc_error *error)
{
    bool quoted = text != NULL && (*text == '\'' || *text == '"');
    if (!quoted || strlen(text) < 5 || strchr("<>|=", text[1]) == NULL ||
        (text[4] != *text))
        return bad(array, error,
                   "the header's 'descr' is not a plain type such as '<f4'");
    array->big_endian = text[1] == '>';
    array->kind = text[2];
    array->item_bytes = text[3] - '0';
    bool is_float = array->kind == 'f' &&
                    (array->item_bytes == 4 || array->item_bytes == 8);
    bool is_integer = (array->kind == 'i' || array->kind == 'u') &&
                      (array->item_bytes == 1 || array->item_bytes == 2 ||
                       array->item_bytes == 4 || array->item_bytes == 8);
    if (!is_float && !is_integer)
        return spc__fail(error, SPC_EFORMAT,
                         "cannot read '%s': elements of type '%.3s' are not "
                         "supported; float32 or float64 points and int8 to "
                         "int64 voxels are",
                         array->file->path, text + 1);
    return SPC_OK;
}

static bool read_count(int64_t *out, const char **text)
{
    char *end;
    if (**text < '0' || **text > '9')
        return false;
    unsigned long long value = strtoull(*text, &end, 10);
    /* Past this every product below stays within int64. */
    *out =
        value > (unsigned long long)1 << 52 ? (int64_t)1 << 52 : (int64_t)value;
    *text = skip_spaces(end);
    return true;
}

/* (rows, columns). */
static spc_status read_shape(npy *array, const char *text, spc_error *error)
{
    bool good = text != NULL && *text++ == '(';
    if (good) {
        text = skip_spaces(text);
        good = read_count(&array->rows, &text) && *text++ == ',';
    }
    if (good) {
        text = skip_spaces(text);
        good = read_count(&array->columns, &text);
        if (good && *text == ',')
            text = skip_spaces(text + 1);
        good = good && *text == ')';
    }
    if (!good)
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

static spc_status read_fields(npy *array, const char *header, spc_error *error)
{
    const char *order = find_value(header, "'fortran_order'");
    spc_status status = read_descr(array, find_value(header, "'descr'"), error);

    if (status != SPC_OK)
        return status;
    array->fortran = order != NULL && strncmp(order, "True", 4) == 0;
    if (!array->fortran && (order == NULL || strncmp(order, "False", 5) != 0))
        return bad(array, error,
                   "the header's 'fortran_order' is neither True nor False");
    return read_shape(array, find_value(header, "'shape'"), error);
}

static spc_status read_header(npy *array, spc_error *error)
{
    const spc__scene_file *file = array->file;
    const unsigned char *bytes = (const unsigned char *)file->data;
    size_t start, length;

    if (file->bytes < 6 || memcmp(bytes, "\x93NUMPY", 6) != 0)
        return bad(array, error,
                   "byte 0 is not the start of a .npy file (\\x93NUMPY)");
    if (file->bytes < 12)
        return spc__fail(error, SPC_EFORMAT,
                         "cannot read '%s': it ends at byte %zu inside the "
                         "header",
                         file->path, file->bytes);
    if (bytes[6] < 1 || bytes[6] > 3)
        return spc__fail(error, SPC_EFORMAT,
                         "cannot read '%s': byte 6 says format version %d; 1, "
                         "2 and 3 are known",
                         file->path, bytes[6]);
    start = bytes[6] == 1 ? 10 : 12;
    length = (size_t)bytes[8] | (size_t)bytes[9] << 8;
    if (bytes[6] != 1)
        length |= (size_t)bytes[10] << 16 | (size_t)bytes[11] << 24;
    if (length > file->bytes - start)
        return spc__fail(error, SPC_EFORMAT,
                         "cannot read '%s': byte 8 announces a header of %zu "
                         "bytes, but only %zu follow",
                         file->path, length, file->bytes - start);

    char *header = strndup(file->data + start, length);
    if (header == NULL)
        return spc__fail_memory(error, length + 1);
    spc_status status = read_fields(array, header, error);
    free(header);
    array->data = bytes + start + length;
    return status;
}

static spc_status check_size(const npy *array, spc_error *error)
{
    const spc__scene_file *file = array->file;
    size_t start = (size_t)(array->data - (const unsigned char *)file->data);
    int64_t have = (int64_t)(file->bytes - start);
    int64_t want = array->rows * array->columns * array->item_bytes;

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
    int64_t element = array->fortran ? column * array->rows + row
                                     : row * array->columns + column;
    return element * array->item_bytes;
}

static uint64_t bits_of(const npy *array, int64_t row, int64_t column)
{
    const unsigned char *bytes = array->data + byte_of(array, row, column);
    uint64_t bits = 0;
    for (int i = 0; i < array->item_bytes; i++) {
        int place = array->big_endian ? array->item_bytes - 1 - i : i;
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
    int unused = 64 - 8 * array->item_bytes;
    if (array->kind == 'u') {
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
                float_of(bits_of(array, row, axis), array->item_bytes);
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
    return array.kind == 'f' ? read_points(out, &array, error)
                             : read_voxels(out, &array, error);
}
