/* SPDX-License-Identifier: Apache-2.0 */
/* cell.h - numbers as files of points store them: a type and a byte order. */
#ifndef SPC_LAB_CELL_H
#define SPC_LAB_CELL_H

#include <stdbool.h>

typedef enum spc__cell {
    SPC__CELL_NONE,
    SPC__CELL_I8,
    SPC__CELL_U8,
    SPC__CELL_I16,
    SPC__CELL_U16,
    SPC__CELL_I32,
    SPC__CELL_U32,
    SPC__CELL_F32,
    SPC__CELL_F64,
    SPC__CELL_I64,
    SPC__CELL_U64
} spc__cell;

int spc__cell_bytes(spc__cell type);

/* Returns the number at `at`, which may be unaligned. Whole numbers beyond 2^53
 * are rounded.
 */
double spc__cell_read(spc__cell type, const char *at, bool is_big_endian);

#endif
