/* SPDX-License-Identifier: Apache-2.0 */
/*
 * archive.h - zip archives that are mapped into memory. A stated size is
 * checked before memory is allocated for it.
 */
#ifndef SPC_IMPORT_ARCHIVE_H
#define SPC_IMPORT_ARCHIVE_H

#include "import/weights.h"
#include <zip.h>

typedef struct spc__archive {
    spc_weights *out; /* owns the unpacked members */
    zip_t *zip;
    const spc__weight_file *file;
    zip_uint64_t left_bytes; /* bytes of the file that members which were not
                              * unpacked yet may occupy */
    spc_error *error;
} spc__archive;

typedef struct spc__member {
    zip_uint64_t index;
    const char *name;
    zip_uint64_t bytes, packed_bytes;
    zip_uint16_t method;
} spc__member;

/* Opens the archive. The caller ends it with zip_discard(out->zip). */
spc_status spc__archive_open(spc__archive *out, spc_weights *weights,
                             const spc__weight_file *file, spc_error *error);

/* Reads the name and the sizes of a member from the archive's directory. */
spc_status spc__archive_look(spc__member *out, const spc__archive *archive,
                             zip_uint64_t index);

/* Unpacks a member and checks its checksum. Call it once for each member. *out
 * is freed with the collection of weights. */
spc_status spc__archive_unpack(void **out, spc__archive *archive,
                               const spc__member *member);

/* Returns "weights.npz: conv1.npy", for messages and spc_array.file; NULL if
 * out of memory. It is freed with the collection. */
char *spc__archive_path(const spc__archive *archive, const spc__member *member);

#endif
