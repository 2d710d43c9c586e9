/* SPDX-License-Identifier: Apache-2.0 */
/*
 * manifest.h - the list of all records of a pack, which can be signed.
 *
 * It is a text: a heading, then one line for each record with its SHA-256 (its
 * seal), its file, and its identity. The lines are sorted, so a digest is found
 * by binary search. It is in the folder of the pack's files, whose table `meta`
 * names it. NAME.minisig is its signature.
 */
#ifndef SPC_CACHE_MANIFEST_H
#define SPC_CACHE_MANIFEST_H

#include "cache/cache_internal.h"

typedef struct spc__manifest spc__manifest;

/* Reads the manifest that the layer names, and checks its signature with the
 * text of a public key. Returns SPC_EDB if it is missing or not signed with
 * this key. */
spc_status spc__manifest_open(spc__manifest **out, spc__layer *layer,
                              const char *key, spc_error *error);
void spc__manifest_free(spc__manifest *manifest);

bool spc__manifest_has(const spc__manifest *manifest, const char *digest);

/* Returns the number of lines for the file of this name. */
int64_t spc__manifest_count(const spc__manifest *manifest, const char *file);

/* Adds a line for every record of the open file, which will be called `name`.
 * The second sorts all lines and inserts the heading at the top. */
spc_status spc__manifest_list(spc__buf *out, spc__layer *layer,
                              const char *name, spc_error *error);
spc_status spc__manifest_finish(spc__buf *text, spc_error *error);

/* Makes the path of the file `name` in the folder of `path`. */
void spc__beside(spc__buf *out, const char *path, const char *name);

#endif
