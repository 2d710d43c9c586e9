/* npy.h - arrays in NumPy's files: two-dimensional ones are read, any written.
 */
#ifndef SPC_CMD_NPY_H
#define SPC_CMD_NPY_H

#include "spc.h"

/* Numbers of one kind, [rows][columns]; the caller's to free(values). */
typedef struct npy_floats {
    int64_t rows, columns;
    float *values;
} npy_floats;

typedef struct npy_ints {
    int64_t rows, columns;
    int32_t *values;
} npy_ints;

/* <f2, <f4 or <f8 in C order. SPC_ENOTFOUND, SPC_EFORMAT. */
spc_status npy_read_floats(npy_floats *out, const char *path);
/* <i4 or <i8, which must fit 32 bits. */
spc_status npy_read_ints(npy_ints *out, const char *path);

/* `type` is NumPy's: "<f4", "<i4". */
spc_status npy_write(const char *path, const char *type, const int64_t *shape,
                     int dimensions, const void *data, size_t bytes);

#endif
