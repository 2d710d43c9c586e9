/* SPDX-License-Identifier: Apache-2.0 */
/* file.h - whole files, temporary folders, environment paths. */
#ifndef SPC_BASE_FILE_H
#define SPC_BASE_FILE_H

#include "base/buf.h"
#include "spc/status.h"

/* Reads all of `path` (at most `limit_bytes`) into *out, which must be
 * initialised. Returns SPC_ENOTFOUND, SPC_EIO, or SPC_ECAPACITY past the limit.
 * The sentence names the path and the cause. */
spc_status spc__file_read(spc__buf *out, const char *path, size_t limit_bytes,
                          spc_error *error);

typedef struct spc__piece {
    const void *data;
    size_t bytes;
} spc__piece;

/* Writes the pieces in sequence to a temporary name and renames it, so the file
 * is complete or unchanged. A link stays a link, and a file keeps its mode. A
 * pipe or a device is written to directly. Returns SPC_EIO on failure. */
spc_status spc__file_put(const char *path, const spc__piece *pieces, int count,
                         spc_error *error);
spc_status spc__file_write(const char *path, const void *data, size_t bytes,
                           spc_error *error);

/* Creates a private folder under $TMPDIR or /tmp. Remove it with the next
 * function. */
spc_status spc__temp_dir_create(spc__buf *out, spc_error *error);
void spc__temp_dir_remove(const char *path); /* removes its content first;
                                              * NULL is fine */

/* Creates a work folder that must not outlive this process, in `root` or, if
 * that is NULL, where temporary folders are. The process keeps *lock open while
 * it uses the folder, and closes it after spc__temp_dir_remove. */
spc_status spc__work_dir_create(spc__buf *out, int *lock, const char *root,
                                spc_error *error);

/* Removes the work folders in `root` of processes that were killed. */
void spc__work_dirs_sweep(const char *root);

/*
 * Moves a descriptor to SPC__FD_RAISED or above, closed on exec. If the program
 * was started without standard descriptors, a new descriptor is 0, 1 or 2, and
 * a child would use it as a standard stream. On failure it returns -1, sets
 * errno and closes `fd`. An `fd` of -1 stays -1.
 */
enum { SPC__FD_RAISED = 10 };
int spc__fd_raise(int fd);

/* Creates the parent folders of `path` (mode 0700). */
spc_status spc__make_parents(const char *path, spc_error *error);

#endif
