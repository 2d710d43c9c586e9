/* SPDX-License-Identifier: Apache-2.0 */
/* columns.h - which numbers of a row are its batch, x, y and z. */
#ifndef SPC_BASE_TEXT_COLUMNS_H
#define SPC_BASE_TEXT_COLUMNS_H

#include "base/text/scan.h"
#include "spc/status.h"

enum { SPC__COLUMNS_MOST = 64 };

typedef struct spc__columns {
    int count; /* numbers of a row; 0: unknown */
    int at[4]; /* columns of batch, x, y and z; -1: there is no batch */
} spc__columns;

/* `count` columns; the first three are x, y and z. */
void spc__columns_count(spc__columns *out, int count);

/* Reads "5" or "bxyzi" into an spc__columns. */
spc_status spc__columns_read(void *columns, spc__span text, spc_error *error);

#endif
