/*
 * out_file.h - what a command writes into a file that it was asked for: whole,
 * or not at all. What was there stays until the new file is complete.
 */
#ifndef SPC_CMD_OUT_FILE_H
#define SPC_CMD_OUT_FILE_H

#include "spc.h"
#include <stdio.h>

typedef struct out_piece {
    const void *data;
    size_t bytes;
} out_piece;

/* Writes the pieces one behind the other, beside `path`, and renames. A link
 * stays one, and a file keeps its mode; a pipe or a device is written to as it
 * is. */
spc_status out_file_put(const char *path, const out_piece *pieces, int count);

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
