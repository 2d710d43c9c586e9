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
    double rows; /* out, of the measured scene */
    double rows_in;
    double density;
    int trials, trials_ok;
    const char *choice; /* "os_warp rows=16,..." or NULL */
    double median_us, spread_us;
    const char *provenance;
    const char *kind; /* "layer", "map" (its search), "code" (a record of code
                         without measurements) */
} spc_db_row;

/* Calls each(row, payload) for every problem of the database. A status but
 * SPC_OK from it ends the listing and is returned. SPC_ENOTFOUND: no database;
 * SPC_EDB: damaged records were left out, and the sentence names the first of
 * them; the others were reported. */
SPC_API spc_status spc_db_each(spc_ctx *ctx,
                               spc_status (*each)(const spc_db_row *row,
                                                  void *payload),
                               void *payload);

/* The same with the records of maps and code, whose `layer` is the list of
 * words by which they are found. */
SPC_API spc_status spc_db_each_record(spc_ctx *ctx,
                                      spc_status (*each)(const spc_db_row *row,
                                                         void *payload),
                                      void *payload);

/* The trials of problem `id`. IDs count in each file: of several problems it is
 * the one that spc_db_each lists first, in the uppermost file. SPC_EDB: some
 * trials could not be read, the others were reported. */
SPC_API spc_status spc_db_each_trial(spc_ctx *ctx, int64_t id,
                                     void (*each)(const spc_trial *trial,
                                                  void *payload),
                                     void *payload);

/* A record that is not what was stored, or was set aside; strings live during
 * the call. */
typedef struct spc_db_fault {
    const char *file;
    const char *kind; /* "trial", "choice", "artefact", "code" (of an artefact),
                         "fact", "network", "part" (of its weights), "table"
                         (or what else is in a file by a name) */
    int64_t id;       /* its row; of a choice, that of its problem; or 0 */
    const char *reason;
} spc_db_fault;

/* Compares every record of the database's files with its digest; *checked (may
 * be NULL) is how many there are. A damaged record is reported and is
 * not a failure. Fails as spc_db_each. */
SPC_API spc_status spc_db_verify(int64_t *checked, spc_ctx *ctx,
                                 spc_status (*each)(const spc_db_fault *fault,
                                                    void *payload),
                                 void *payload);

/*
 * Moving records between files. A record states its whole meaning in words. Of
 * two records about the same thing one is kept: a choice pinned by a person
 * first, then the newer one, then by text. So merging is commutative,
 * associative and idempotent. All of these functions use the context's own
 * file, or the first of its layers if it lacks one.
 */
typedef enum spc_db_fate {
    SPC_DB_ACCEPTED,
    SPC_DB_KNOWN,   /* the file said the same already */
    SPC_DB_OLDER,   /* the file has a newer one */
    SPC_DB_STALE,   /* accepted, but its template has changed since: a hint */
    SPC_DB_REJECTED /* with a reason */
} spc_db_fate;

enum { SPC_DB_FATES = SPC_DB_REJECTED + 1 };

/* The outcome of one record; strings live during the call. */
typedef struct spc_db_change {
    spc_db_fate fate;
    const char *record; /* "choice device=... layer=...": what identifies it */
    const char *reason;
    int64_t line; /* of the text that was imported; else 0 */
} spc_db_change;

typedef struct spc_db_exchange {
    int64_t counts[SPC_DB_FATES]; /* filled in, by fate */
    /* Hears of what is older, stale or rejected. May be NULL. */
    spc_status (*each)(const spc_db_change *change, void *payload);
    void *payload;
} spc_db_exchange;

typedef enum spc_db_what {
    SPC_DB_RECORDS,          /* choices, trials, facts of devices */
    SPC_DB_RECORDS_AND_CODE, /* those, and compiled code */
    SPC_DB_CHOICES /* choices and the trials that they chose, for shipping:
                      host names are left out */
} spc_db_what;

/* Writes records as sorted text, in parts of `bytes` bytes. *damaged (may be
 * NULL): how many were left out because they are not what was stored. A status
 * but SPC_OK from `write` ends it and is returned. SPC_ENOTFOUND: no database;
 * SPC_EDB. */
SPC_API spc_status spc_db_export(
    int64_t *damaged, spc_ctx *ctx, spc_db_what what,
    spc_status (*write)(const char *text, size_t bytes, void *payload),
    void *payload);

/* Takes such text, or the records of another database, in one transaction. Host
 * code, and a network that would replace one of the same name, is rejected
 * unless the context trusts files of others. SPC_ENOTFOUND: no database, or no
 * file at `path`; SPC_EFORMAT: a bad text, with its line; SPC_EDBVERSION;
 * SPC_EDB. After a failure nothing was taken. */
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
    int64_t bytes;      /* of all of them */
    int64_t code_bytes; /* of the code before it was compressed */
    bool compressed;    /* zstd was there */
    int removed; /* files of code that an earlier pack of that name had left */
    int64_t reserved[4]; /* 0 */
} spc_db_packed;

typedef struct spc_db_pack_options {
    size_t bytes; /* sizeof this struct: SPC_DB_PACK_OPTIONS_INIT sets it */
    /* The code in the pack as well: with a network, one file is all that a
     * program needs, as `layers` or as `database` of its context. */
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
 * minisign -Sm NAME.manifest. None of them is ever written to again. Files of
 * an earlier pack of that name are replaced, and its code files that this pack
 * does not replace are removed; both only if the file itself records that
 * NAME.manifest lists it. SPC_EINVAL: `path` is not such a name, is a file that
 * this context has open, or an unrelated file exists there; SPC_EDB: the file
 * may be open elsewhere, because SQLite keeps a log for it. Nothing is written
 * on these errors. `options` may be NULL.
 */
SPC_API spc_status spc_db_pack(spc_db_packed *packed, spc_ctx *ctx,
                               const char *path,
                               const spc_db_pack_options *options);

typedef struct spc_db_prune_options {
    size_t bytes; /* sizeof this struct: SPC_DB_PRUNE_OPTIONS_INIT sets it */
    bool losers; /* trials that were not chosen, where something was */
    bool stale;  /* records whose templates have changed */
    int64_t before_unix_seconds; /* older records; 0: of any age */
} spc_db_prune_options;

#define SPC_DB_PRUNE_OPTIONS_INIT                                              \
    {                                                                          \
        sizeof(spc_db_prune_options), false, false, 0                          \
    }

/* Removes that, what was set aside as damaged, and what nothing refers to any
 * more. Pinned choices stay. *removed (may be NULL) counts trials,
 * choices and code. SPC_ENOTFOUND: no database; SPC_EDB. */
SPC_API spc_status spc_db_prune(int64_t *removed, spc_ctx *ctx,
                                const spc_db_prune_options *options);

/* Uses records again that were set aside as damaged and are intact now, because
 * the file was restored or a read had failed. A record whose code was refused
 * stays aside until its layer is tuned again. *restored (may be NULL)
 * counts them. SPC_ENOTFOUND: no database; SPC_EDB. */
SPC_API spc_status spc_db_restore(int64_t *restored, spc_ctx *ctx);

/* Chooses for problem `id` of the context's file the trial that is listed as
 * `choice` ("os_warp rows=16,...") by hand: it comes before all that is
 * faster, and neither tuning nor merging replaces it. NULL lets it go.
 * SPC_ENOTFOUND; SPC_EINVAL: that trial did not end well. */
SPC_API spc_status spc_db_pin(spc_ctx *ctx, int64_t id, const char *choice);

#ifdef __cplusplus
}
#endif
#endif
