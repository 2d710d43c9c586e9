/* SPDX-License-Identifier: Apache-2.0 */
/*
 * records.h - reads the records of a file one by one, and takes them into
 * another.
 */
#ifndef SPC_CACHE_RECORDS_H
#define SPC_CACHE_RECORDS_H

#include "cache/cache_internal.h"
#include "cache/exchange/fate.h"
#include "cache/exchange/record_form.h"

/* Reads the records of one kind from a file, in the order of their keys. */
typedef struct spc__record_cursor {
    spc__layer *layer;
    sqlite3_stmt *stmt;
    spc__kind kind;
    int64_t damaged; /* skipped: damaged or in quarantine */
    int64_t row;     /* row of the last record */
} spc__record_cursor;

spc_status spc__cursor_open(spc__record_cursor *out, spc__layer *layer,
                            spc__kind kind, spc_error *error);
/* Reads the next record. *more is false at the end. */
spc_status spc__cursor_next(bool *more, spc__record *out,
                            spc__record_cursor *cursor, spc_error *error);
void spc__cursor_close(spc__record_cursor *cursor);

/* Prepares to read single records, and reads the one with the same key. */
spc_status spc__cursor_open_by_key(spc__record_cursor *out, spc__layer *layer,
                                   spc__kind kind, spc_error *error);
spc_status spc__cursor_find(bool *found, spc__record *out,
                            spc__record_cursor *cursor, const spc__record *like,
                            spc_error *error);

/* Options and state of a merge into the writable file. */
typedef struct spc__intake {
    spc__layer *layer;
    bool trusts; /* accepts host code, pins, and other code for a known key */
    /* True if the template's hash has changed. NULL: unknown. */
    bool (*is_stale)(const char *template_name, const char *hash,
                     void *payload);
    void *payload;
    spc__record there; /* the file's own record */
    spc__record_cursor find[SPC__KINDS];
    sqlite3_stmt *reseal[3];
} spc__intake;

/* A transaction: begin; take...; return end(status). */
spc_status spc__intake_begin(spc__intake *intake, spc__cache *cache,
                             spc_error *error);
spc_status spc__intake_end(spc__intake *intake, spc_status status,
                           spc_error *error);

/* Offers a record. A rejection is not a failure: *why has the reason. */
spc_status spc__intake_take(spc__fate *fate, spc_error *why,
                            spc__intake *intake, const spc__record *record,
                            spc_error *error);

/* True if the date is later than clock differences allow. The second reports
 * it. */
bool spc__is_from_the_future(int64_t unix_seconds);
extern const char spc__future_reason[];

/* True for an ELF file for a GPU. All other code runs on the host. */
bool spc__is_gpu_code(const void *code, size_t bytes);

#endif
