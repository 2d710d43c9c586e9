/* SPDX-License-Identifier: Apache-2.0 */
/* file.h - whole files, temporary folders, environment paths. */
#ifndef SPC_BASE_FILE_H
#define SPC_BASE_FILE_H

#include "base/buf.h"
#include "spc_status.h"

/* Reads all of `path` (at most `limit_bytes`) into *out, which must be
 * initialised. SPC_ENOTFOUND, SPC_EIO, or SPC_ECAPACITY past the limit; the
 * sentence names the path and the cause. */
spc_status spc__file_read(spc__buf *out, const char *path, size_t limit_bytes,
                          spc_error *error);

typedef struct spc__piece {
    const void *data;
    size_t bytes;
} spc__piece;

/* Writes the pieces one behind the other, through a temporary name and a
 * rename: whole, or not at all. A link stays one, and a file keeps its mode; a
 * pipe or a device is written to as it is. SPC_EIO. */
spc_status spc__file_put(const char *path, const spc__piece *pieces, int count,
                         spc_error *error);
spc_status spc__file_write(const char *path, const void *data, size_t bytes,
                           spc_error *error);

/* Makes a private folder under $TMPDIR or /tmp; remove with the next one. */
spc_status spc__temp_dir_create(spc__buf *out, spc_error *error);
void spc__temp_dir_remove(const char *path); /* and all in it; NULL is fine */

/* The same for a folder that must not outlive this process: it holds *lock as
 * long as it uses the folder, and closes it after spc__temp_dir_remove. The
 * folder is made in `root`; NULL: where temporary folders are. */
spc_status spc__work_dir_create(spc__buf *out, int *lock, const char *root,
                                spc_error *error);

/* Removes such folders in `root` whose processes were killed. */
void spc__work_dirs_sweep(const char *root);

/*
 * Moves a descriptor to SPC__FD_RAISED or above, closed on exec: where a
 * program was started without standard descriptors, a new one is 0, 1 or 2,
 * and a child would have it in their place. -1 and errno, and `fd` is closed;
 * -1 stays -1.
 */
enum { SPC__FD_RAISED = 10 };
int spc__fd_raise(int fd);

/* Creates `path`'s parent folders (mode 0700). */
spc_status spc__make_parents(const char *path, spc_error *error);

#endif
