/* SPDX-License-Identifier: Apache-2.0 */
/*
 * spc/db.h - the database: listing, exchanging, packing and pruning its
 * records.
 */
#ifndef SPC_DB_H
#define SPC_DB_H

#include "tune.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- the database -------------------------------------------------------- */

/* One problem of the database, for listings; strings live during the call. */
typedef struct spc_db_row {
    const char *file;
    int64_t id;
    const char *layer;  /* canonical text */
    const char *device; /* device class */
    const char *target;
    double rows; /* output rows of the measured scene */
    double rows_in;
    double density;
    int trials, trials_ok;
    const char *choice; /* "os_warp rows=16,..." or NULL */
    double median_us, spread_us;
    const char *provenance;
    const char *kind; /* "layer", "map" (its search), "code" (a record of code
                         without measurements) */
} spc_db_row;

/* Calls each(row, payload) for every problem of the database. If the callback
 * returns another status than SPC_OK, the listing ends and returns this status.
 * SPC_ENOTFOUND: no database; SPC_EDB: damaged records were left out, and the
 * message names the first; the others were reported. */
SPC_API spc_status spc_db_each(spc_ctx *ctx,
                               spc_status (*each)(const spc_db_row *row,
                                                  void *payload),
                               void *payload);

/* Lists in the same way the records of maps and code. Their `layer` is the list
 * of words that identifies them. Fails as spc_db_each. */
SPC_API spc_status spc_db_each_record(spc_ctx *ctx,
                                      spc_status (*each)(const spc_db_row *row,
                                                         void *payload),
                                      void *payload);

/* The trials of problem `id`. IDs are unique only within one file: if several
 * files have this ID, the problem of the highest-priority file is used, which
 * spc_db_each lists first. SPC_EDB: some trials could not be read; the others
 * were reported. */
SPC_API spc_status spc_db_each_trial(spc_ctx *ctx, int64_t id,
                                     void (*each)(const spc_trial *trial,
                                                  void *payload),
                                     void *payload);

/* A record that differs from the stored one, or was set aside. Its strings live
 * during the call. */
typedef struct spc_db_fault {
    const char *file;
    const char *kind; /* "trial", "choice", "artefact", "code" (of an artefact),
                         "fact", "network", "part" (of its weights), "table"
                         (or what else is in a file by a name) */
    int64_t id;       /* row in the file; for a choice, the row of its problem;
                         or 0 */
    const char *reason;
} spc_db_fault;

/* Compares every record of the database's files with its digest; *checked (may
 * be NULL) receives the number of records. A damaged record is reported to the
 * callback and does not make the call fail. Fails as spc_db_each. */
SPC_API spc_status spc_db_verify(int64_t *checked, spc_ctx *ctx,
                                 spc_status (*each)(const spc_db_fault *fault,
                                                    void *payload),
                                 void *payload);

/*
 * Moving records between files. A record is self-contained text. If two records
 * describe the same thing, one is kept: a choice that a user has pinned, else
 * the newer record, else the order of their texts decides. So merging is
 * commutative, associative and idempotent. These functions use the context's
 * own file, or the first of its layers if there is no such file.
 */
typedef enum spc_db_fate {
    SPC_DB_ACCEPTED,
    SPC_DB_KNOWN,   /* the file already has this record */
    SPC_DB_OLDER,   /* the file has a newer record */
    SPC_DB_STALE,   /* accepted, but its template has changed since: a hint */
    SPC_DB_REJECTED /* rejected, with a reason */
} spc_db_fate;

enum { SPC_DB_FATES = SPC_DB_REJECTED + 1 };

/* The outcome of one record; strings live during the call. */
typedef struct spc_db_change {
    spc_db_fate fate;
    const char *record; /* "choice device=... layer=...": identifies the
                           record */
    const char *reason;
    int64_t line; /* line of the imported text; else 0 */
} spc_db_change;

typedef struct spc_db_exchange {
    int64_t counts[SPC_DB_FATES]; /* receives the number of records of each
                                     fate */
    /* Called for each record that is older, stale or rejected. May be NULL. */
    spc_status (*each)(const spc_db_change *change, void *payload);
    void *payload;
} spc_db_exchange;

typedef enum spc_db_what {
    SPC_DB_RECORDS,          /* choices, trials, facts of devices */
    SPC_DB_RECORDS_AND_CODE, /* choices, trials, facts of devices, and compiled
                                code */
    SPC_DB_CHOICES /* choices and their trials, for shipping: host names are
                      left out */
} spc_db_what;

/* Writes records as sorted text, in parts of `bytes` bytes. *damaged (may be
 * NULL) receives the number of damaged records, which were left out. If `write`
 * returns another status than SPC_OK, the export ends and returns this status.
 * SPC_ENOTFOUND: no database; SPC_EDB. */
SPC_API spc_status spc_db_export(
    int64_t *damaged, spc_ctx *ctx, spc_db_what what,
    spc_status (*write)(const char *text, size_t bytes, void *payload),
    void *payload);

/* Imports such text, or the records of another database, in one transaction.
 * Host code, and a network that would replace one of the same name, is rejected
 * unless the context trusts files of others. SPC_ENOTFOUND: no database, or no
 * file at `path`; SPC_EFORMAT: invalid text (the message names the line);
 * SPC_EDBVERSION; SPC_EDB. A failed call imports nothing. */
SPC_API spc_status spc_db_import(spc_ctx *ctx, const char *text, size_t bytes,
                                 spc_db_exchange *exchange);
SPC_API spc_status spc_db_merge(spc_ctx *ctx, const char *path,
                                spc_db_exchange *exchange);

/* Calls each(side, line) for every record in which the file differs from
 * another: '-' marks a record of this file, '+' one of the other. Fails as
 * spc_db_merge and spc_db_each. */
SPC_API spc_status spc_db_diff(spc_ctx *ctx, const char *path,
                               spc_status (*each)(char side, const char *line,
                                                  void *payload),
                               void *payload);

/* The contents of a pack. */
typedef struct spc_db_packed {
    int64_t choices, trials, facts, code;
    int files;          /* databases */
    int64_t bytes;      /* bytes of all files */
    int64_t code_bytes; /* bytes of the code before compression */
    bool compressed;    /* zstd was available */
    int removed; /* code files left by an earlier pack of that name */
    int64_t reserved[4]; /* 0 */
} spc_db_packed;

typedef struct spc_db_pack_options {
    size_t bytes; /* sizeof this struct: SPC_DB_PACK_OPTIONS_INIT sets it */
    /* The pack also contains the code. With a network, one file is then enough
     * for a program, as one of its context's `layers` or as its `database`. */
    bool whole;
} spc_db_pack_options;

#define SPC_DB_PACK_OPTIONS_INIT                                               \
    {                                                                          \
        sizeof(spc_db_pack_options), false                                     \
    }

/*
 * Writes the files to ship: `path`, which ends in ".db", with choices, the
 * records that they need, and networks; in the same folder, unless the pack is
 * to be whole, the code of each target ("NAME.sm_90a.db"); and a manifest
 * ("NAME.manifest") with the SHA-256 of every record, for minisign to sign:
 * minisign -Sm NAME.manifest. These files are never written again. Files of an
 * earlier pack of that name are replaced, and its remaining code files are
 * removed; both only if the file itself records that NAME.manifest lists it.
 * SPC_EINVAL: `path` does not end in ".db", is a file that this context has
 * open, or is an unrelated file; SPC_EDB: the file may be open elsewhere,
 * because SQLite keeps a log for it. Nothing is written on these errors.
 * `options` may be NULL.
 */
SPC_API spc_status spc_db_pack(spc_db_packed *packed, spc_ctx *ctx,
                               const char *path,
                               const spc_db_pack_options *options);

typedef struct spc_db_prune_options {
    size_t bytes; /* sizeof this struct: SPC_DB_PRUNE_OPTIONS_INIT sets it */
    bool losers; /* trials that were not chosen, of problems that have a
                    choice */
    bool stale;  /* records whose templates have changed */
    int64_t before_unix_seconds; /* older records; 0: of any age */
} spc_db_prune_options;

#define SPC_DB_PRUNE_OPTIONS_INIT                                              \
    {                                                                          \
        sizeof(spc_db_prune_options), false, false, 0                          \
    }

/* Removes the selected records, records that were set aside as damaged, and
 * data without a reference. Pinned choices stay. *removed (may be NULL) counts
 * trials, choices and code. SPC_ENOTFOUND: no database; SPC_EDB. */
SPC_API spc_status spc_db_prune(int64_t *removed, spc_ctx *ctx,
                                const spc_db_prune_options *options);

/* Restores records that were set aside as damaged and are intact now, because
 * the file was restored or the read error was temporary. A record whose code
 * was refused stays aside until its layer is tuned again. *restored (may be
 * NULL) counts them. SPC_ENOTFOUND: no database; SPC_EDB. */
SPC_API spc_status spc_db_restore(int64_t *restored, spc_ctx *ctx);

/* Pins the trial that is listed as `choice` ("os_warp rows=16,...") for problem
 * `id` of the context's file. A pinned choice precedes faster ones, and neither
 * tuning nor merging replaces it. NULL removes the pin. SPC_ENOTFOUND;
 * SPC_EINVAL: the trial did not succeed. */
SPC_API spc_status spc_db_pin(spc_ctx *ctx, int64_t id, const char *choice);

#ifdef __cplusplus
}
#endif
#endif
