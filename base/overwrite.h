/* SPDX-License-Identifier: Apache-2.0 */
/*
 * overwrite.h - files whose names a user gave for results. Such a file replaces
 * nothing but an older one of its kind: no database, and no file of another
 * program.
 */
#ifndef SPC_BASE_OVERWRITE_H
#define SPC_BASE_OVERWRITE_H

#include "base/file.h"

/* May a file that begins with these bytes be written there? SPC_EINVAL, with
 * what the file holds now; SPC_EIO. `start` NULL: what will be written is not
 * known yet, and only a database, or a name that SQLite gives a file beside
 * one, is refused. */
spc_status spc__overwrite_check(const char *path, const void *start,
                                size_t bytes, spc_error *error);

/* Checks, then writes as spc__file_put does. */
spc_status spc__overwrite(const char *path, const spc__piece *pieces, int count,
                          spc_error *error);

#endif
