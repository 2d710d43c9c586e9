/* SPDX-License-Identifier: Apache-2.0 */
/*
 * buffers.h - the arrays that a caller gives to a plan. The plan lists
 * them once, and each call checks its addresses against that list.
 */
#ifndef SPC_RUNTIME_BUFFERS_H
#define SPC_RUNTIME_BUFFERS_H

#include "operators/operands.h"
#include "plan/launch_geometry.h"

/* One array. It has `pitch` bytes from row to row, and `width` bytes in each.
 */
typedef struct spc__buffer {
    const char *name;
    size_t member;    /* offset of its address in spc_buffers */
    size_t alignment; /* a power of two */
    size_t pitch, width;
    spc__operand_rows rows;
    bool always; /* needs an address even without bytes */
} spc__buffer;

enum { SPC__BUFFER_OUT, SPC__BUFFER_WORKSPACE, SPC__BUFFER_IN };

/* The arrays of a layer: those above, then the other operands in the order of
 * spc_operand. Only the first two are written. */
typedef struct spc__buffer_list {
    spc__buffer all[SPC_OPERANDS + 1];
    int count;
    bool in_place; /* `weights` may be `out` */
} spc__buffer_list;

/* Sizes that may differ between calls. */
typedef struct spc__buffer_sizes {
    /* row counts by spc__operand_rows; the first is 1 */
    int64_t rows[SPC__ROWS_OUT + 1];
    size_t workspace_bytes;
} spc__buffer_sizes;

/* Lists the arrays of a layer that is launched this way. */
void spc__buffers_list(spc__buffer_list *out, const spc_conv *conv,
                       const spc__launch_geometry *geometry);

/* Returns SPC_EINVAL and names an array that is missing or misaligned, or two
 * that overlap although one is written. */
spc_status spc__buffers_check(const spc__buffer_list *list,
                              const spc__buffer_sizes *sizes,
                              const spc_buffers *given, spc_error *error);

#endif
