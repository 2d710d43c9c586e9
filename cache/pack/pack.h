/* SPDX-License-Identifier: Apache-2.0 */
/* pack.h - files that ship: choices, code for each target, a manifest. */
#ifndef SPC_CACHE_PACK_H
#define SPC_CACHE_PACK_H

#include "base/buf.h"
#include "cache/cache.h"

typedef enum spc__pack_form {
    SPC__PACK_APART, /* code in one file per target next to the pack */
    SPC__PACK_WHOLE  /* all code in the pack */
} spc__pack_form;

typedef struct spc__pack_report {
    int64_t choices, trials, facts, code;
    int files;          /* databases, including the first */
    int64_t bytes;      /* size of all of them */
    int64_t code_bytes; /* size of the code before compression */
    bool compressed;
    int removed;     /* removed code files of an earlier pack of this name */
    char left[1024]; /* a foreign file that will be read with the pack, or "" */
} spc__pack_report;

/* Adds records before the trials that lost are removed. NULL: nothing. The
 * cache has only the records. */
typedef spc_status (*spc__pack_adder)(spc__cache *records, spc_error *error);

/*
 * Makes the files to ship from the uppermost file. PATH, which ends in ".db",
 * has choices, their trials, code records, facts and networks. The code,
 * compressed if zstd is available, is in it or in one file for each target next
 * to it (spc__pack_code_file). The manifest is PATH with ".manifest" instead of
 * ".db". The files have no journal, so they can be opened in a read-only
 * folder. The files of an earlier pack of that name are replaced one by one
 * when all new ones are complete. Then code files without a new version are
 * removed. If any other file is in the way, it stays and nothing is written
 * (place.h).
 */
spc_status spc__cache_pack(spc__cache *cache, const char *path,
                           spc__pack_form form, spc__pack_adder add,
                           spc__pack_report *report, spc_error *error);

/* Makes "pack.sm_90a.db" from "pack.db". */
void spc__pack_code_file(spc__buf *out, const char *path, const char *target);

#endif
