/* SPDX-License-Identifier: Apache-2.0 */
/*
 * numpy.h - the one reader of NumPy's arrays (.npy, format versions 1 to 3):
 * scenes, coordinates, features and weights are all read by it.
 *
 *   "\x93NUMPY" major minor  header length (u16 in version 1, else u32)
 *   {'descr': '<f4', 'fortran_order': False, 'shape': (1000, 3), }  data
 *
 * It reads what NumPy writes: floats of 2, 4 and 8 bytes, integers of 1, 2, 4
 * and 8, and booleans; in either byte order and either order of indices; and
 * records of such numbers ([('x', '<f4'), ('y', '<f4'), ...]).
 *
 *   spc__numpy array;
 *   spc__numpy_rows rows;
 *   if ((status = spc__numpy_open(&array, path, data, bytes, error)) == SPC_OK
 * && (status = spc__numpy_rows_of(&rows, &array, error)) == SPC_OK) for
 * (int64_t row = 0; row < rows.count; row++) x = spc__numpy_float(&rows, row,
 * 0);
 */
#ifndef SPC_BASE_NUMPY_H
#define SPC_BASE_NUMPY_H

#include "spc_status.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SPC__NUMPY_RANK = 8, SPC__NUMPY_FIELDS = 32 };

/* Where a number lies in an element, and what it is. */
typedef struct spc__numpy_field {
    char name[32]; /* "" for an array that is not of records; cut if longer */
    char kind;     /* NumPy's letter: 'f', 'i', 'u' or 'b' (boolean) */
    bool big_endian;
    int bytes;     /* 1, 2, 4 or 8 */
    size_t offset; /* from the start of the element */
} spc__numpy_field;

typedef struct spc__numpy {
    const char *path;
    /* An element's numbers: one, or those of a record. A field that is itself
     * an array ('xyz', '<f4', (3,)) is as many fields of one name. */
    spc__numpy_field fields[SPC__NUMPY_FIELDS];
    int field_count;
    bool is_record;
    size_t item_bytes;
    bool fortran; /* the first index runs fastest */
    int rank;
    int64_t shape[SPC__NUMPY_RANK];
    int64_t elements;
    size_t data_start; /* in the file */
    const unsigned char *data;
    /* "": the array can be read. Otherwise the file is sound, but holds what
     * this reader does not take, and this says what: "its elements are texts
     * (<U3)". Then only path and this are set. */
    char unreadable[96];
} spc__numpy;

/*
 * Reads the header of `data`, the contents of the file that sentences call
 * `path`, and compares its shape with the length. Both must outlive *out.
 * SPC_EFORMAT: the file is damaged; SPC_ENOMEM. An array of another type or of
 * more than 8 dimensions is no failure: see `unreadable`.
 */
spc_status spc__numpy_open(spc__numpy *out, const char *path, const void *data,
                           size_t bytes, spc_error *error);

/* SPC_EUNSUPPORTED and a sentence if the array is unreadable. */
spc_status spc__numpy_check(const spc__numpy *array, spc_error *error);

/* Copies all numbers of an array that is readable and not of records: little
 * endian, the last index fastest; elements * item_bytes bytes. */
void spc__numpy_copy(void *out, const spc__numpy *array);

/* Can the data be used in place, as spc__numpy_copy would write it? */
bool spc__numpy_is_plain(const spc__numpy *array);

/* ---- rows ---------------------------------------------------------------- */

/* An array as a table: the shape (rows, columns), or (rows) of records, whose
 * fields are the columns. */
typedef struct spc__numpy_rows {
    const spc__numpy *array;
    int64_t count;
    int64_t columns;
} spc__numpy_rows;

/* SPC_EUNSUPPORTED: the array is unreadable; SPC_EFORMAT: it is no table. */
spc_status spc__numpy_rows_of(spc__numpy_rows *out, const spc__numpy *array,
                              spc_error *error);

/* The type and name of a column. */
const spc__numpy_field *spc__numpy_column(const spc__numpy_rows *rows,
                                          int64_t column);

/* The first column of that name, or -1; only records name their columns. */
int spc__numpy_find(const spc__numpy_rows *rows, const char *name);

/* The columns of the fields 'batch' or 'b', 'x', 'y' and 'z'; -1 where a table
 * has no batch. False: x, y or z is missing. */
bool spc__numpy_find_xyz(int at[4], const spc__numpy_rows *rows);

/* One number of any type. An integer beyond 2^53 is rounded. */
double spc__numpy_float(const spc__numpy_rows *rows, int64_t row,
                        int64_t column);

/* One number as an integer; false if it is a fraction, NaN, or does not fit 64
 * bits. A float that is a whole number is an integer. */
bool spc__numpy_int(int64_t *out, const spc__numpy_rows *rows, int64_t row,
                    int64_t column);

/* Its offset in the file, for sentences. */
int64_t spc__numpy_byte(const spc__numpy_rows *rows, int64_t row,
                        int64_t column);

#endif
