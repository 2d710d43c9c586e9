/* SPDX-License-Identifier: Apache-2.0 */
/*
 * manifest.h - the list of all records of a pack, which somebody may sign.
 *
 * A text: a heading, then for each record a line with the SHA-256 of all that
 * it says (its seal), the file it is in, and what identifies it; sorted, so
 * that a digest is found by halving. It lies beside the files of its pack,
 * whose table `meta` names it; NAME.minisig is its signature.
 */
#ifndef SPC_CACHE_MANIFEST_H
#define SPC_CACHE_MANIFEST_H

#include "cache/cache_internal.h"

typedef struct spc__manifest spc__manifest;

/* Reads the manifest that the layer names, and checks its signature with the
 * text of a public key. SPC_EDB: there is none, or it is not signed so. */
spc_status spc__manifest_open(spc__manifest **out, spc__layer *layer,
                              const char *key, spc_error *error);
void spc__manifest_free(spc__manifest *manifest);

bool spc__manifest_has(const spc__manifest *manifest, const char *digest);

/* How many lines it has for the file of this name. */
int64_t spc__manifest_count(const spc__manifest *manifest, const char *file);

/* Adds a line for every record of the open file, which will be called `name`;
 * sorts all lines and puts the heading before them. */
spc_status spc__manifest_list(spc__buf *out, spc__layer *layer,
                              const char *name, spc_error *error);
spc_status spc__manifest_finish(spc__buf *text, spc_error *error);

/* The file that `layer` and `name` share a folder with. */
void spc__beside(spc__buf *out, const char *path, const char *name);

#endif
