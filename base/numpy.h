/* SPDX-License-Identifier: Apache-2.0 */
/*
 * numpy.h - reads NumPy arrays (.npy, format versions 1 to 3). Scenes,
 * coordinates, features and weights all use it.
 *
 *   "\x93NUMPY" major minor  header length (u16 in version 1, else u32)
 *   {'descr': '<f4', 'fortran_order': False, 'shape': (1000, 3), }  data
 *
 * It reads floats of 2, 4 and 8 bytes, integers of 1, 2, 4 and 8 bytes, and
 * booleans, in either byte order and either index order. It also reads records
 * of such numbers ([('x', '<f4'), ('y', '<f4'), ...]).
 *
 *   spc__numpy array;
 *   spc__numpy_rows rows;
 *
 *   status = spc__numpy_open(&array, path, data, bytes, error);
 *   if (status == SPC_OK)
 *       status = spc__numpy_rows_of(&rows, &array, error);
 *   for (int64_t row = 0; status == SPC_OK && row < rows.count; row++)
 *       x = spc__numpy_float(&rows, row, 0);
 */
#ifndef SPC_BASE_NUMPY_H
#define SPC_BASE_NUMPY_H

#include "spc/status.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SPC__NUMPY_RANK = 8, SPC__NUMPY_FIELDS = 32 };

/* The type of one number of an element, and its offset. */
typedef struct spc__numpy_field {
    char name[32]; /* "" unless the array has records; cut if too long */
    char kind;     /* NumPy's letter: 'f', 'i', 'u' or 'b' (boolean) */
    bool big_endian;
    int bytes;     /* 1, 2, 4 or 8 */
    size_t offset; /* from the start of the element */
} spc__numpy_field;

typedef struct spc__numpy {
    const char *path;
    /* The numbers of an element: a single one, or the fields of a record. A
     * field that is itself an array ('xyz', '<f4', (3,)) becomes several fields
     * of one name. */
    spc__numpy_field fields[SPC__NUMPY_FIELDS];
    int field_count;
    bool is_record;
    size_t item_bytes;
    bool fortran; /* the first index varies fastest */
    int rank;
    int64_t shape[SPC__NUMPY_RANK];
    int64_t elements;
    size_t data_start; /* data of the file */
    const unsigned char *data;
    /* Empty if the array can be read. Otherwise the file is valid, but has a
     * type that this reader does not support, as in "its elements are texts
     * (<U3)". In that case only path and this field are set. */
    char unreadable[96];
} spc__numpy;

/*
 * Reads the header of `data` and compares its shape with the length. `data` is
 * the content of the file `path`, which messages name. Both must outlive *out.
 * Returns SPC_EFORMAT if the file is damaged, or SPC_ENOMEM. An unsupported
 * type or more than 8 dimensions is not a failure: see `unreadable`.
 */
spc_status spc__numpy_open(spc__numpy *out, const char *path, const void *data,
                           size_t bytes, spc_error *error);

/* Returns SPC_EUNSUPPORTED and a sentence if the array is unreadable. */
spc_status spc__numpy_check(const spc__numpy *array, spc_error *error);

/* Copies all numbers of a readable array without records: little endian, the
 * last index fastest, elements * item_bytes bytes. */
void spc__numpy_copy(void *out, const spc__numpy *array);

/* True if the data already has the layout that spc__numpy_copy would write, so
 * it can be used in place. */
bool spc__numpy_is_plain(const spc__numpy *array);

/* ---- rows ---------------------------------------------------------------- */

/* An array as a table. Its shape is (rows, columns), or (rows) of records,
 * whose fields are the columns. */
typedef struct spc__numpy_rows {
    const spc__numpy *array;
    int64_t count;
    int64_t columns;
} spc__numpy_rows;

/* Returns SPC_EUNSUPPORTED if the array is unreadable, SPC_EFORMAT if it is not
 * a table. */
spc_status spc__numpy_rows_of(spc__numpy_rows *out, const spc__numpy *array,
                              spc_error *error);

/* Returns the type and name of a column. */
const spc__numpy_field *spc__numpy_column(const spc__numpy_rows *rows,
                                          int64_t column);

/* Returns the first column of that name, or -1. Only records name their
 * columns. */
int spc__numpy_find(const spc__numpy_rows *rows, const char *name);

/* Finds the columns of the fields 'batch' or 'b', 'x', 'y' and 'z'. The batch
 * is -1 without such a field. Returns false if x, y or z is missing. */
bool spc__numpy_find_xyz(int at[4], const spc__numpy_rows *rows);

/* Returns a number of any type as a double. Integers beyond 2^53 are
 * rounded. */
double spc__numpy_float(const spc__numpy_rows *rows, int64_t row,
                        int64_t column);

/* Reads a number as an integer. A float with an integral value is accepted.
 * Returns false for a fraction, NaN, or a value that does not fit 64 bits. */
bool spc__numpy_int(int64_t *out, const spc__numpy_rows *rows, int64_t row,
                    int64_t column);

/* Returns the number's offset in the file, for messages. */
int64_t spc__numpy_byte(const spc__numpy_rows *rows, int64_t row,
                        int64_t column);

#endif
