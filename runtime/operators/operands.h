/* SPDX-License-Identifier: Apache-2.0 */
/*
 * operands.h - the arrays that a layer reads and writes. The only place where
 * their bytes are computed.
 */
#ifndef SPC_RUNTIME_OPERANDS_H
#define SPC_RUNTIME_OPERANDS_H

#include "spc.h"

/* A matrix [rows][columns], row major, `pitch` elements from row to row. What a
 * layer has not has no rows, and 0 bytes. */
typedef struct spc__operand {
    const char *name; /* as in spc_buffers */
    bool present;     /* the layer has it */
    int64_t rows, columns, pitch;
    spc_dtype dtype;
    size_t bytes;       /* from the first element to behind the last */
    size_t dense_bytes; /* without what lies between rows */
    size_t alignment;
    bool written;  /* by the layer; all others are only read */
    bool in_place; /* it may be what is written */
    bool packed;   /* kernels read a form of their own, which a plan sizes */
} spc__operand;

/* The operands of `conv` on a map of so many rows, by spc_operand; weights in
 * the canonical layout. */
void spc__operands(spc__operand out[SPC_OPERANDS], const spc_conv *conv,
                   int64_t rows_in, int64_t rows_out);

/* One of them; zero bytes for what the layer has not. */
spc__operand spc__operand_of(const spc_conv *conv, spc_operand which,
                             int64_t rows);

/* Is there memory for the array `name`, and aligned? */
spc_status spc__check_buffer(const char *name, const void *memory,
                             size_t alignment, spc_error *error);

#endif
