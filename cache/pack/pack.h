/* SPDX-License-Identifier: Apache-2.0 */
/* pack.h - files that ship: choices, code for each target, a manifest. */
#ifndef SPC_CACHE_PACK_H
#define SPC_CACHE_PACK_H

#include "base/buf.h"
#include "cache/cache.h"

typedef enum spc__pack_form {
    SPC__PACK_APART, /* the code of each target in a file beside the pack */
    SPC__PACK_WHOLE  /* all code in the pack */
} spc__pack_form;

typedef struct spc__pack_report {
    int64_t choices, trials, facts, code;
    int files;          /* databases, the first included */
    int64_t bytes;      /* of all of them */
    int64_t code_bytes; /* of the code before it was compressed */
    bool compressed;
    int removed;     /* files of code that an earlier pack of that name left */
    char left[1024]; /* one that is none of ours and is read with it; "" */
} spc__pack_report;

/* What is added to the records before those that lost are left out; NULL:
 * nothing. The cache is that of the records alone. */
typedef spc_status (*spc__pack_adder)(spc__cache *records, spc_error *error);

/*
 * Makes of the uppermost file what ships: PATH, which ends in ".db", with
 * choices, the trials that they chose, code records, facts and networks; the
 * code, compressed where zstd is there, in it or for each target in a file
 * beside it (spc__pack_code_file); and a manifest, PATH without ".db" and with
 * ".manifest". None has a journal: they can be opened where nothing may be
 * written. The files of an earlier pack of that name are replaced when all new
 * ones are complete, each at once; then code files go that this pack has none
 * for. Any other file stays, and nothing is written (place.h).
 */
spc_status spc__cache_pack(spc__cache *cache, const char *path,
                           spc__pack_form form, spc__pack_adder add,
                           spc__pack_report *report, spc_error *error);

/* "pack.sm_90a.db" of "pack.db". */
void spc__pack_code_file(spc__buf *out, const char *path, const char *target);

#endif
