/* SPDX-License-Identifier: Apache-2.0 */
/* npy.h - NumPy's files: reads tables, and writes arrays of any shape. */
#ifndef SPC_CMD_NPY_H
#define SPC_CMD_NPY_H

#include "base/buf.h"
#include "base/numpy.h"
#include "spc_import.h"

/* A file that holds a table: (rows, columns), or records. */
typedef struct npy_table {
    spc__buf text;
    spc_weights *archive; /* the .npz file whose data `array` refers to */
    spc__numpy array;
    spc__numpy_rows rows;
} npy_table;

/*
 * Reads the whole file; call npy_close() in any case. In an archive,
 * FILE.npz:NAME is the array NAME. FILE.npz alone is its only array, or the
 * array named `usual`. `path` must outlive *out.
 */
spc_status npy_open(npy_table *out, const char *path, const char *usual);
void npy_close(npy_table *table);

/* Returns all numbers as [rows][columns]; the caller frees them with free(). */
spc_status npy_floats(float **out, const npy_table *table);

/* `type` is NumPy's: "<f4", "<i4". */
spc_status npy_write(const char *path, const char *type, const int64_t *shape,
                     int dimensions, const void *data, size_t bytes);

#endif
