/* SPDX-License-Identifier: Apache-2.0 */
/*
 * exchange.h - exchanges records between files: as text for people and version
 * control, or directly from one database to another.
 *
 * Merging is a join: the order of merges, their grouping and repetitions do not
 * matter. Damaged records and those in quarantine are not exchanged.
 */
#ifndef SPC_CACHE_EXCHANGE_H
#define SPC_CACHE_EXCHANGE_H

#include "cache/cache.h"
#include "cache/exchange/fate.h"

/* The results of an exchange, and its callbacks. */
typedef struct spc__exchange {
    bool trusts;
    bool (*is_stale)(const char *template_name, const char *hash,
                     void *payload);
    void *stale_payload;
    /* Called for each record that is neither simply accepted nor known.
     * `record` is its identity, `line` its line in the text, or 0. May be
     * NULL. */
    spc_status (*each)(spc__fate fate, const char *record, const char *reason,
                       int64_t line, void *payload);
    void *payload;
    int64_t counts[SPC__FATE_REJECTED + 1]; /* number of records by fate */
} spc__exchange;

typedef enum spc__export {
    SPC__EXPORT_RECORDS,
    SPC__EXPORT_CODE,   /* records and code */
    SPC__EXPORT_CHOICES /* choices and their trials, without host names */
} spc__export;

/* Writes the uppermost file's records as sorted text: trials and choices as a
 * table (table.h), others one per line. *damaged counts the records that were
 * left out. */
spc_status spc__cache_export(spc__cache *cache, spc__export what,
                             spc_status (*write)(const char *text, size_t bytes,
                                                 void *payload),
                             void *payload, int64_t *damaged, spc_error *error);

/* Imports such text, or another file's records, into the writable file, in one
 * transaction. */
spc_status spc__cache_import(spc__cache *cache, const char *text, size_t bytes,
                             spc__exchange *exchange, spc_error *error);
spc_status spc__cache_merge(spc__cache *cache, const char *path,
                            spc__exchange *exchange, spc_error *error);

/* Calls each(side, line) for every difference between the uppermost file and
 * another: '-' for a record only in the first file, or its version of it, '+'
 * for the other file. */
spc_status spc__cache_diff(spc__cache *cache, const char *path,
                           spc_status (*each)(char side, const char *line,
                                              void *payload),
                           void *payload, spc_error *error);

#endif
