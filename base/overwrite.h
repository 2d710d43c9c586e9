/* SPDX-License-Identifier: Apache-2.0 */
/*
 * overwrite.h - checks files whose names a user gave for results. Such a file
 * only replaces an older one of its kind, never a database or a file of another
 * program.
 */
#ifndef SPC_BASE_OVERWRITE_H
#define SPC_BASE_OVERWRITE_H

#include "base/file.h"

/* Checks whether a file that begins with these bytes may be written there.
 * Returns SPC_EINVAL and names the present content, or SPC_EIO. `start` NULL
 * means that the new content is not known yet; then only a database, or a name
 * that SQLite uses for a file next to one, is refused. */
spc_status spc__overwrite_check(const char *path, const void *start,
                                size_t bytes, spc_error *error);

/* Checks the same, then writes like spc__file_put. */
spc_status spc__overwrite(const char *path, const spc__piece *pieces, int count,
                          spc_error *error);

#endif
