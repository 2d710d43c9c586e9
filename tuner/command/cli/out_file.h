/* SPDX-License-Identifier: Apache-2.0 */
/*
 * out_file.h - output files of a command, written completely or not at all. An
 * old file stays until the new one is complete, and is never replaced if it is
 * of another kind.
 */
#ifndef SPC_CMD_OUT_FILE_H
#define SPC_CMD_OUT_FILE_H

#include "base/overwrite.h"
#include "spc.h"
#include <stdio.h>

/* Writes the concatenated pieces, as spc__overwrite does. */
spc_status out_file_put(const char *path, const spc__piece *pieces, int count);

/* Text that is written in parts. */
typedef struct out_file {
    FILE *to; /* NULL: the file is closed */
    const char *path;
    char *text;
    size_t bytes;
} out_file;

/* `path` NULL: standard output, which is written immediately. */
spc_status out_file_open(out_file *out, const char *path);

/* Replaces the file with everything written so far. */
spc_status out_file_save(out_file *out);

/*
 * Saves if `status` is SPC_OK, and closes. Returns `status`, or the failure of
 * saving.
 */
spc_status out_file_close(out_file *out, spc_status status);

#endif
