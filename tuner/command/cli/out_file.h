/* SPDX-License-Identifier: Apache-2.0 */
/*
 * out_file.h - what a command writes into a file that it was asked for: whole,
 * or not at all. What was there stays until the new file is complete, and for
 * good if it is of another kind.
 */
#ifndef SPC_CMD_OUT_FILE_H
#define SPC_CMD_OUT_FILE_H

#include "base/overwrite.h"
#include "spc.h"
#include <stdio.h>

/* Writes the pieces one behind the other, as spc__overwrite does. */
spc_status out_file_put(const char *path, const spc__piece *pieces, int count);

/* Text that is written bit by bit. */
typedef struct out_file {
    FILE *to; /* NULL: none is open */
    const char *path;
    char *text;
    size_t bytes;
} out_file;

/* `path` NULL: standard output, which has what was written at once. */
spc_status out_file_open(out_file *out, const char *path);

/* Puts what was written until now in its place. */
spc_status out_file_save(out_file *out);

/* Saves if `status` is SPC_OK, and closes. The status, or that of saving. */
spc_status out_file_close(out_file *out, spc_status status);

#endif
