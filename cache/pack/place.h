/* SPDX-License-Identifier: Apache-2.0 */
/*
 * place.h - where the files of a pack go. Each replaces nothing but the file of
 * an earlier pack of the same name, and only if nobody can be writing to it.
 */
#ifndef SPC_CACHE_PLACE_H
#define SPC_CACHE_PLACE_H

#include "cache/cache_internal.h"

/* May a database of the pack whose manifest has this name be put at `path`?
 * SPC_EINVAL: the file there is one of the layers of `open` (may be NULL), or
 * is not of a pack of this name; SPC_EDB: it may be open elsewhere. */
spc_status spc__place_check(const char *path, const char *manifest,
                            const spc__cache *open, spc_error *error);

/* Checks that, and renames `fresh`, which is on the same file system. */
spc_status spc__place_file(const char *fresh, const char *path,
                           const char *manifest, const spc__cache *open,
                           spc_error *error);

#endif
