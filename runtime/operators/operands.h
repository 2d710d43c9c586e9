/* SPDX-License-Identifier: Apache-2.0 */
/*
 * operands.h - the arrays that a layer reads and writes. Their sizes in bytes
 * are computed only here.
 */
#ifndef SPC_RUNTIME_OPERANDS_H
#define SPC_RUNTIME_OPERANDS_H

#include "spc.h"

/* The rows of an operand: a fixed number, or the rows of the map. */
typedef enum spc__operand_rows {
    SPC__ROWS_OWN,
    SPC__ROWS_IN,
    SPC__ROWS_OUT
} spc__operand_rows;

/* A matrix [rows][columns], row major, `pitch` elements from row to row. An
 * operand that the layer lacks has 0 rows and 0 bytes. */
typedef struct spc__operand {
    const char *name; /* name of the member of spc_buffers */
    bool present;     /* true if the layer has the operand */
    int64_t rows, columns, pitch;
    spc__operand_rows by; /* what `rows` counts */
    spc_dtype dtype;
    size_t bytes;       /* from the first element to the end of the last */
    size_t dense_bytes; /* without the gaps between rows */
    size_t alignment;
    bool written;  /* the layer writes it; other operands are only read */
    bool in_place; /* may be the same array as the written one */
    bool packed;   /* kernels read a packed form, whose size the plan knows */
} spc__operand;

/* Computes the operands of `conv`, indexed by spc_operand, on a map with these
 * rows. Weights have the canonical layout. */
void spc__operands(spc__operand out[SPC_OPERANDS], const spc_conv *conv,
                   int64_t rows_in, int64_t rows_out);

/* Returns one operand, with zero bytes if the layer lacks it. */
spc__operand spc__operand_of(const spc_conv *conv, spc_operand which,
                             int64_t rows);

/* Checks that the array `name` has memory and is aligned. */
spc_status spc__check_buffer(const char *name, const void *memory,
                             size_t alignment, spc_error *error);

#endif
