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

/* Writes through a temporary name and rename: whole, or not at all. */
spc_status spc__file_write(const char *path, const void *data, size_t bytes,
                           spc_error *error);

/* Makes a private folder under $TMPDIR or /tmp; remove with the next one. */
spc_status spc__temp_dir_create(spc__buf *out, spc_error *error);
void spc__temp_dir_remove(const char *path); /* and all in it; NULL is fine */

/* The same for a folder that must not outlive us: *lock is held as long as it
 * is in use. Close it behind spc__temp_dir_remove. */
spc_status spc__work_dir_create(spc__buf *out, int *lock, spc_error *error);

/* Removes such folders whose processes were killed. */
void spc__work_dirs_sweep(void);

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
