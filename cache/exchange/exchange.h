/* SPDX-License-Identifier: Apache-2.0 */
/*
 * exchange.h - records between files: as text for people and version control,
 * or straight from one database into another.
 *
 * Merging is a join: it does not matter in which order files are merged, in
 * what groups, or how often. What is damaged or set aside stays behind.
 */
#ifndef SPC_CACHE_EXCHANGE_H
#define SPC_CACHE_EXCHANGE_H

#include "cache/cache.h"

/* What became of a record that was offered to a file. */
typedef enum spc__fate {
    SPC__FATE_ACCEPTED,
    SPC__FATE_KNOWN,   /* the file says the same */
    SPC__FATE_OLDER,   /* what the file has is above it */
    SPC__FATE_STALE,   /* accepted; but its template has changed since */
    SPC__FATE_REJECTED /* with a reason */
} spc__fate;

/* What becomes of the records, and who hears of it. */
typedef struct spc__exchange {
    bool trusts;
    bool (*is_stale)(const char *template_name, const char *hash,
                     void *payload);
    void *stale_payload;
    /* For each record that is not simply accepted or known; `record` is what
     * identifies it, `line` that of the text, or 0. May be NULL. */
    spc_status (*each)(spc__fate fate, const char *record, const char *reason,
                       int64_t line, void *payload);
    void *payload;
    int64_t counts[SPC__FATE_REJECTED + 1]; /* by fate */
} spc__exchange;

typedef enum spc__export {
    SPC__EXPORT_RECORDS,
    SPC__EXPORT_CODE,   /* as well */
    SPC__EXPORT_CHOICES /* and their trials, without hosts' names */
} spc__export;

/* The uppermost file's records as text, one a line, sorted. *damaged counts
 * those that were left out. */
spc_status spc__cache_export(spc__cache *cache, spc__export what,
                             spc_status (*write)(const char *text, size_t bytes,
                                                 void *payload),
                             void *payload, int64_t *damaged, spc_error *error);

/* Takes such text, or another file's records, into the writable file: all of
 * it in one transaction. */
spc_status spc__cache_import(spc__cache *cache, const char *text, size_t bytes,
                             spc__exchange *exchange, spc_error *error);
spc_status spc__cache_merge(spc__cache *cache, const char *path,
                            spc__exchange *exchange, spc_error *error);

/* Calls each(side, line) for what differs between the uppermost file and
 * another: '-' only the first has it or says so, '+' the other. */
spc_status spc__cache_diff(spc__cache *cache, const char *path,
                           spc_status (*each)(char side, const char *line,
                                              void *payload),
                           void *payload, spc_error *error);

#endif
