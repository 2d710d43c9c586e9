/* SPDX-License-Identifier: Apache-2.0 */
/*
 * place.h - puts the files of a pack in place, and removes those of an earlier
 * one. A file only replaces one of an earlier pack of the same name, and only
 * if no process can be writing to that.
 */
#ifndef SPC_CACHE_PLACE_H
#define SPC_CACHE_PLACE_H

#include "cache/cache_internal.h"

/* Checks whether a database of the pack with this manifest may be put at
 * `path`. Returns SPC_EINVAL if the file there is one of the layers of `open`
 * (may be NULL) or not of a pack of this name, SPC_EDB if it may be open
 * elsewhere. */
spc_status spc__place_check(const char *path, const char *manifest,
                            const spc__cache *open, spc_error *error);

/* Checks the same and renames `fresh`, which is on the same file system. */
spc_status spc__place_file(const char *fresh, const char *path,
                           const char *manifest, const spc__cache *open,
                           spc_error *error);

typedef struct spc__earlier {
    const char *manifest; /* the name of the pack's manifest */
    /* targets with code in the pack: "\nsm_90a\nsm_100a\n" */
    const char *targets;
    bool whole;  /* the pack itself contains the code */
    int removed; /* removed files */
    /* a foreign file that will be read with the pack, or "" */
    char left[1024];
} spc__earlier;

/* Removes the code files next to the pack at `path` that belong to an earlier
 * pack of its name, and fills in the result. */
spc_status spc__pack_remove_earlier(spc__earlier *of, const char *path,
                                    spc_error *error);

#endif
