/* SPDX-License-Identifier: Apache-2.0 */
/*
 * records.h - the records of a file, read one by one, and taken into another.
 */
#ifndef SPC_CACHE_RECORDS_H
#define SPC_CACHE_RECORDS_H

#include "cache/cache_internal.h"
#include "cache/exchange/exchange.h"
#include "cache/exchange/record_form.h"

/* Reads the records of one kind of a file, in the order of their keys. */
typedef struct spc__record_cursor {
    spc__layer *layer;
    sqlite3_stmt *stmt;
    spc__kind kind;
    int64_t damaged; /* passed over: damaged, or in quarantine */
    int64_t row;     /* of the last one */
} spc__record_cursor;

spc_status spc__cursor_open(spc__record_cursor *out, spc__layer *layer,
                            spc__kind kind, spc_error *error);
/* *more is false at the end. */
spc_status spc__cursor_next(bool *more, spc__record *out,
                            spc__record_cursor *cursor, spc_error *error);
void spc__cursor_close(spc__record_cursor *cursor);

/* How records are taken into the writable file. */
typedef struct spc__intake {
    spc__layer *layer;
    bool trusts; /* also code for the host, pins, other code of a key */
    /* Has the template another hash now? NULL: nobody knows. */
    bool (*is_stale)(const char *template_name, const char *hash,
                     void *payload);
    void *payload;
    spc__record there; /* what the file has */
    sqlite3_stmt *find[SPC__KINDS];
    sqlite3_stmt *reseal[3];
} spc__intake;

/* A transaction: begin; take...; return end(status). */
spc_status spc__intake_begin(spc__intake *intake, spc__cache *cache,
                             spc_error *error);
spc_status spc__intake_end(spc__intake *intake, spc_status status,
                           spc_error *error);

/* Offers a record. That it is rejected is no failure: *why says the reason. */
spc_status spc__intake_take(spc__fate *fate, spc_error *why,
                            spc__intake *intake, const spc__record *record,
                            spc_error *error);

/* Is a record dated so later than clocks may differ? And what is said then. */
bool spc__is_from_the_future(int64_t unix_seconds);
extern const char spc__future_reason[];

/* Is this an ELF file for a GPU? All else is run by the host. */
bool spc__is_gpu_code(const void *code, size_t bytes);

#endif
