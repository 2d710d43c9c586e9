/*
 * npy.h - the header of a NumPy array (.npy, format versions 1 to 3).
 *
 *   "\x93NUMPY" major minor  header length (u16 in version 1, else u32)
 *   {'descr': '<f4', 'fortran_order': False, 'shape': (1000, 3), }  data
 */
#ifndef SPC_BASE_NPY_H
#define SPC_BASE_NPY_H

#include "spc_status.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SPC__NPY_RANK = 8 };

typedef struct spc__npy {
    char kind;      /* NumPy's letter: 'f', 'i', 'u', 'b', ... */
    int item_bytes; /* at least 1 */
    bool big_endian;
    bool fortran; /* the first index runs fastest */
    int rank;
    /* No number is above 2^52, whatever the file says: a product with one more
     * small number stays within 64 bits. */
    int64_t shape[SPC__NPY_RANK];
    size_t data; /* where the elements begin, in bytes */
} spc__npy;

/* Reads the header of `data`, the contents of the file that sentences call
 * `path`. SPC_EFORMAT, SPC_ENOMEM. What follows the header is not looked at. */
spc_status spc__npy_read(spc__npy *out, const char *path, const void *data,
                         size_t bytes, spc_error *error);

#endif
