/* SPDX-License-Identifier: Apache-2.0 */
/* numpy_rows.c - the numbers of a NumPy array. */
#include "base/numpy.h"

#include "base/dtype.h"
#include "base/error.h"
#include <string.h>

/* ---- all templates ------------------------------------------------------- */

bool spc__numpy_is_plain(const spc__numpy *array)
{
    const spc__numpy_field *field = &array->fields[0];

    return (!array->fortran || array->rank < 2) &&
           (field->bytes == 1 || !field->big_endian);
}

/* Copies an element in the order of bytes of this machine. */
static void copy_element(unsigned char *to, const unsigned char *from,
                         const spc__numpy_field *field)
{
    int last = field->bytes - 1;

    /* The copy is little-endian. */
    for (int i = 0; i <= last; i++)
        to[field->big_endian ? last - i : i] = from[i];
}

/* Computes the distance, in elements, between neighbours along each index. */
static void find_strides(int64_t *out, const spc__numpy *array)
{
    int64_t size = 1;

    for (int k = 0; k < array->rank; k++) {
        int i = array->fortran ? k : array->rank - 1 - k;
        out[i] = size;
        size *= array->shape[i];
    }
}

void spc__numpy_copy(void *out, const spc__numpy *array)
{
    const spc__numpy_field *field = &array->fields[0];
    int64_t stride[SPC__NUMPY_RANK], at[SPC__NUMPY_RANK] = {0}, from = 0;
    unsigned char *to = out;

    find_strides(stride, array);
    for (int64_t n = 0; n < array->elements; n++, to += field->bytes) {
        copy_element(to, array->data + from * field->bytes, field);
        /* Advance to the next element like an odometer: the last index moves
         * first. */
        for (int i = array->rank - 1; i >= 0; i--) {
            from += stride[i];
            if (++at[i] < array->shape[i])
                break;
            from -= stride[i] * array->shape[i];
            at[i] = 0;
        }
    }
}

/* ---- rows ---------------------------------------------------------------- */

spc_status spc__numpy_rows_of(spc__numpy_rows *out, const spc__numpy *array,
                              spc_error *error)
{
    spc_status status = spc__numpy_check(array, error);
    int rank = array->is_record ? 1 : 2;

    if (status != SPC_OK)
        return status;
    *out = (spc__numpy_rows){array, array->shape[0],
                             array->is_record ? array->field_count
                                              : array->shape[1]};
    if (array->rank == rank)
        return SPC_OK;
    return spc__fail(error, SPC_EFORMAT,
                     "cannot read '%s': it has %d dimensions; %s", array->path,
                     array->rank,
                     array->is_record ? "an array of records needs one, (rows)"
                                      : "a table has two, (rows, columns)");
}

const spc__numpy_field *spc__numpy_column(const spc__numpy_rows *rows,
                                          int64_t column)
{
    return &rows->array->fields[rows->array->is_record ? column : 0];
}

int spc__numpy_find(const spc__numpy_rows *rows, const char *name)
{
    const spc__numpy *array = rows->array;

    for (int i = 0; i < array->field_count && array->is_record; i++)
        if (strcmp(array->fields[i].name, name) == 0)
            return i;
    return -1;
}

bool spc__numpy_find_xyz(int at[4], const spc__numpy_rows *rows)
{
    static const char *const names[] = {"batch", "x", "y", "z"};

    for (int i = 0; i < 4; i++)
        at[i] = spc__numpy_find(rows, names[i]);
    if (at[0] < 0)
        at[0] = spc__numpy_find(rows, "b");
    return at[1] >= 0 && at[2] >= 0 && at[3] >= 0;
}

/* The byte at which an element begins. A record's columns are its fields. */
static int64_t offset_of(const spc__numpy_rows *rows, int64_t row,
                         int64_t column)
{
    const spc__numpy *array = rows->array;

    if (array->is_record)
        return row * (int64_t)array->item_bytes +
               (int64_t)array->fields[column].offset;
    int64_t element = array->fortran ? column * rows->count + row
                                     : row * rows->columns + column;
    return element * (int64_t)array->item_bytes;
}

int64_t spc__numpy_byte(const spc__numpy_rows *rows, int64_t row,
                        int64_t column)
{
    return (int64_t)rows->array->data_start + offset_of(rows, row, column);
}

/* An element's bits as a number of this machine, whatever its byte order in the
 * file. */
static uint64_t bits_of(const spc__numpy_rows *rows, int64_t row,
                        int64_t column)
{
    const spc__numpy_field *field = spc__numpy_column(rows, column);
    const unsigned char *bytes =
        rows->array->data + offset_of(rows, row, column);
    uint64_t bits = 0;

    for (int i = 0; i < field->bytes; i++) {
        int byte = field->big_endian ? field->bytes - 1 - i : i;
        bits |= (uint64_t)bytes[i] << 8 * byte;
    }
    return bits;
}

/* The value of a floating-point number of 2, 4 or 8 bytes. Reading through
 * memcpy() keeps to the rules of aliasing. */
static double float_of(uint64_t bits, int bytes)
{
    uint32_t low = (uint32_t)bits;
    float narrow;
    double wide;

    if (bytes == 2)
        return spc__half_to_float((uint16_t)bits);
    if (bytes == 4) {
        memcpy(&narrow, &low, sizeof(narrow));
        return narrow;
    }
    memcpy(&wide, &bits, sizeof(wide));
    return wide;
}

/* The value of a signed integer of 1 to 8 bytes. */
static int64_t signed_of(uint64_t bits, int bytes)
{
    int unused = 64 - 8 * bytes;
    /* Shifts up in unsigned and down in signed arithmetic, which extends the
     * sign. */
    return (int64_t)(bits << unused) >> unused;
}

double spc__numpy_float(const spc__numpy_rows *rows, int64_t row,
                        int64_t column)
{
    const spc__numpy_field *field = spc__numpy_column(rows, column);
    uint64_t bits = bits_of(rows, row, column);

    if (field->kind == 'f')
        return float_of(bits, field->bytes);
    return field->kind == 'i' ? (double)signed_of(bits, field->bytes)
                              : (double)bits;
}

bool spc__numpy_int(int64_t *out, const spc__numpy_rows *rows, int64_t row,
                    int64_t column)
{
    const spc__numpy_field *field = spc__numpy_column(rows, column);
    uint64_t bits = bits_of(rows, row, column);

    if (field->kind == 'f') {
        double value = float_of(bits, field->bytes);
        /* Tests the range before the cast, which is undefined outside of it.
         * The upper end is exclusive, as 2^63 - 1 is not a double. */
        bool fits = value >= -0x1p63 && value < 0x1p63;
        *out = fits ? (int64_t)value : 0;
        return fits && (double)*out == value;
    }
    *out = field->kind == 'i' ? signed_of(bits, field->bytes) : (int64_t)bits;
    return field->kind == 'i' || bits <= INT64_MAX;
}
