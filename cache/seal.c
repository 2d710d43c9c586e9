/* SPDX-License-Identifier: Apache-2.0 */
/*
 * seal.c - seals: digests that show whether a record is intact.
 *
 * SQLite detects a torn page, but not a changed number, or rows mixed up by
 * joining two files. Each write of a record therefore also writes a digest of
 * its content and of the records it refers to, by their text instead of their
 * row numbers. Each read compares the digest. A record that does not match is
 * put into the table `quarantine` with a reason, and is not used until it is
 * written again.
 *
 * The digest is an SQL function: SHA-256 over all its arguments, each with its
 * type and length. A seal detects errors and decay. It does not stop a forger,
 * who can compute a valid seal.
 */
#include "cache/cache_internal.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/sha256.h"
#include "cache/exchange/code_form.h"
#include "cache/pack/manifest.h"
#include <stdlib.h>
#include <string.h>

#ifndef SQLITE_INNOCUOUS /* SQLite before 3.31 lacks this flag */
#define SQLITE_INNOCUOUS 0
#endif

#define STATEMENT(kind, row, s, digest, from)                                  \
    SPC__SEAL(kind, row, s, digest, from),
const char *const spc__seal_everything[] = {SPC__SEALED(STATEMENT) NULL};
#undef STATEMENT

/* ---- the digest ---------------------------------------------------------- */

/* Each value is hashed as its type, then its content: bytes after their count,
 * a number as eight bytes in the same order on every machine. */
enum { HEAD = 9 };

static void write_u64(char *out, uint64_t number)
{
    for (int i = 0; i < 8; i++)
        out[i] = (char)(number >> 8 * i);
}

static char *put_head(spc__buf *out, int type, uint64_t count, size_t behind)
{
    char *at = spc__buf_extend(out, HEAD + behind);

    if (at == NULL)
        return NULL;
    at[0] = (char)type;
    write_u64(at + 1, count);
    return at + HEAD;
}

static void put_number(spc__buf *out, int type, uint64_t number)
{
    char *at = put_head(out, type, sizeof(number), sizeof(number));

    if (at != NULL)
        write_u64(at, number);
}

void spc__seal_put_null(spc__buf *out)
{
    spc__buf_append(out, &(char){SQLITE_NULL}, 1);
}

void spc__seal_put_integer(spc__buf *out, int64_t value)
{
    put_number(out, SQLITE_INTEGER, (uint64_t)value);
}

void spc__seal_put_real(spc__buf *out, double value)
{
    uint64_t bits;

    memcpy(&bits, &value, sizeof(bits));
    put_number(out, SQLITE_FLOAT, bits);
}

void spc__seal_put_bytes(spc__buf *out, int type, const void *bytes,
                         size_t count)
{
    char *at = put_head(out, type, count, count);

    if (at != NULL && count > 0)
        memcpy(at, bytes, count);
}

static void flush(spc__buf *bytes, spc__sha256 *sha)
{
    spc__sha256_update(sha, bytes->data, bytes->length);
    spc__buf_clear(bytes);
}

/* Large values (weights) are hashed without a copy. Returns false if there was
 * no memory for the value. */
static bool put_text(spc__buf *out, spc__sha256 *sha, sqlite3_value *value)
{
    /* This also returns texts in their stored form. */
    const void *bytes = sqlite3_value_blob(value);
    size_t count = (size_t)sqlite3_value_bytes(value);

    put_head(out, sqlite3_value_type(value), count, 0);
    if (!out->failed)
        flush(out, sha);
    if (bytes != NULL)
        spc__sha256_update(sha, bytes, count);
    return !out->failed && (bytes != NULL || count == 0);
}

static bool put_value(spc__buf *out, spc__sha256 *sha, sqlite3_value *value)
{
    switch (sqlite3_value_type(value)) {
    case SQLITE_INTEGER:
        spc__seal_put_integer(out, sqlite3_value_int64(value));
        break;
    case SQLITE_FLOAT:
        spc__seal_put_real(out, sqlite3_value_double(value));
        break;
    case SQLITE_NULL:
        spc__seal_put_null(out);
        break;
    default:
        return put_text(out, sha, value);
    }
    return !out->failed;
}

/* spc_digest(...): the digest of all arguments. With a manifest, one that it
 * does not list is "unsigned", which equals no seal. */
static void digest(sqlite3_context *context, int count, sqlite3_value **values)
{
    char hex[SPC__SHA256_HEX];
    const spc__manifest *manifest = sqlite3_user_data(context);
    spc__buf pending = SPC__BUF_INIT;
    bool whole = true;
    spc__sha256 sha;

    spc__sha256_init(&sha);
    for (int i = 0; i < count && whole; i++)
        whole = put_value(&pending, &sha, values[i]);
    if (whole)
        flush(&pending, &sha);
    spc__buf_release(&pending);
    spc__sha256_end(hex, &sha);
    if (!whole)
        sqlite3_result_error_nomem(context);
    /* A text that equals no seal: the record then counts as damaged. */
    else if (manifest != NULL && !spc__manifest_has(manifest, hex))
        sqlite3_result_text(context, "unsigned", -1, SQLITE_STATIC);
    else
        sqlite3_result_text(context, hex, -1, SQLITE_TRANSIENT);
}

/* Returns the unpacked code, or NULL if it cannot be unpacked. */
static void *unpack(sqlite3_context *context, size_t *bytes,
                    sqlite3_value *value)
{
    const void *code = sqlite3_value_blob(value);
    void *out = NULL;

    if (spc__code_unpack(&out, bytes, code != NULL ? code : "",
                         (size_t)sqlite3_value_bytes(value),
                         NULL) == SPC_ENOMEM)
        sqlite3_result_error_nomem(context);
    return out;
}

/* spc_sha256(code): the digest of its bytes alone, as stored in artefacts. */
static void sha256_of(sqlite3_context *context, int count,
                      sqlite3_value **values)
{
    size_t code_bytes = 0;
    void *code = unpack(context, &code_bytes, values[0]);
    char hex[SPC__SHA256_HEX];

    (void)count;
    if (code == NULL)
        return;
    spc__sha256_of(hex, code, code_bytes);
    sqlite3_result_text(context, hex, -1, SQLITE_TRANSIENT);
    free(code);
}

/* spc_code(code): the unpacked bytes. */
static void code_of(sqlite3_context *context, int count, sqlite3_value **values)
{
    size_t bytes = 0;
    void *code = unpack(context, &bytes, values[0]);

    (void)count;
    if (code != NULL)
        sqlite3_result_blob64(context, code, bytes, free);
}

enum { FLAGS = SQLITE_UTF8 | SQLITE_DETERMINISTIC | SQLITE_INNOCUOUS };

int spc__seal_restrict(sqlite3 *db, const spc__manifest *manifest)
{
    return sqlite3_create_function(db, "spc_digest", -1, FLAGS,
                                   (void *)manifest, digest, NULL, NULL);
}

int spc__seal_open(sqlite3 *db)
{
    int flags = FLAGS;
    int rc = spc__seal_restrict(db, NULL);

    if (rc == SQLITE_OK)
        rc = sqlite3_create_function(db, "spc_sha256", 1, flags, NULL,
                                     sha256_of, NULL, NULL);
    return rc != SQLITE_OK ? rc
                           : sqlite3_create_function(db, "spc_code", 1, flags,
                                                     NULL, code_of, NULL, NULL);
}

/* ---- reading ------------------------------------------------------------- */

const char *spc__seal_fault(const spc__layer *layer, bool sealed)
{
    if (!sealed)
        return "it has no digest";
    return layer->manifest != NULL
               ? "it does not match its digest, or not in the signed "
                 "manifest"
               : "it does not match its digest";
}

spc_status spc__seal_check(const spc__layer *layer, sqlite3_stmt *stmt, int i,
                           const char *what, int64_t record, spc_error *error)
{
    bool sealed = sqlite3_column_type(stmt, i) != SQLITE_NULL;

    if (sealed && sqlite3_column_int(stmt, i) != 0)
        return SPC_OK;
    return spc__seal_fail(layer, spc__seal_fault(layer, sealed), what, record,
                          error);
}

spc_status spc__seal_fail(const spc__layer *layer, const char *fault,
                          const char *what, int64_t record, spc_error *error)
{
    return spc__fail(error, SPC_EDB,
                     "cannot use %s %lld of '%s': it is damaged, %s; tune the "
                     "layer again, or restore a copy of the file",
                     what, (long long)record, layer->path, fault);
}

/* ---- quarantine ---------------------------------------------------------- */

/* A look-up must not wait for another writer. If the file is busy, the next
 * reader of the record detects the damage again. */
void spc__quarantine(spc__layer *layer, const char *kind, int64_t record,
                     const char *reason)
{
    sqlite3_stmt *stmt;

    if (!layer->writable ||
        spc__layer_statement(&stmt, layer, SPC__SQL_QUARANTINE, NULL) != SPC_OK)
        return;
    spc__bind_text(stmt, 1, kind);
    sqlite3_bind_int64(stmt, 2, record);
    spc__bind_text(stmt, 3, reason);
    sqlite3_bind_int64(stmt, 4, spc__unix_seconds());
    sqlite3_busy_timeout(layer->db, 0);
    spc__layer_run(layer, stmt, NULL);
    sqlite3_busy_timeout(layer->db, SPC__BUSY_MS);
}

void spc__cache_refuse(spc__cache *cache, const spc__choice *choice,
                       const char *reason)
{
    for (int i = 0; i < cache->count; i++)
        if (cache->layers[i].path == choice->file)
            spc__quarantine(&cache->layers[i], "choice", choice->problem,
                            reason);
}
