/*
 * seal.c - seals: the digests by which a record shows that it is what was
 * stored.
 *
 * SQLite finds that a page is torn, not that a number in it is another one, or
 * that two files were joined by somebody who mixed up their rows. So whoever
 * writes a record also writes a digest of all that it says, and of whom it
 * refers to by their words, not by their row numbers; whoever reads it compares
 * them. What does not fit is set aside in the table `quarantine` with a reason,
 * and is not used until it is written anew.
 *
 * The digest is a function of SQL: SHA-256 over all its arguments, each with
 * its type and length. A seal keeps out mistakes and decay, not a forger, who
 * can seal what he likes.
 */
#include "cache_internal.h"

#include "clock.h"
#include "code_form.h"
#include "error.h"
#include "manifest.h"
#include "sha256.h"
#include <stdlib.h>
#include <string.h>

#ifndef SQLITE_INNOCUOUS /* before 3.31, where nothing is asked about it */
#define SQLITE_INNOCUOUS 0
#endif

const char *const spc__seal_everything[] = {
    "REPLACE INTO seal SELECT 'trial', t.id, " SPC__DIGEST_TRIAL ", ''"
    " FROM trial AS t JOIN problem AS p ON p.id = t.problem"
    " LEFT JOIN provenance AS v ON v.id = t.provenance",
    "REPLACE INTO seal SELECT 'choice', p.id, " SPC__DIGEST_CHOICE ", ''"
    " FROM choice AS c JOIN problem AS p ON p.id = c.problem"
    " JOIN seal AS s ON s.kind = 'trial' AND s.record = c.trial"
    " LEFT JOIN provenance AS u ON u.id = c.provenance",
    "REPLACE INTO seal SELECT 'artefact', a.id, " SPC__DIGEST_ARTEFACT(
        "coalesce(s.identity, '')") ", coalesce(s.identity, '') FROM artefact "
                                    "AS a LEFT JOIN seal AS s"
                                    " ON s.kind = 'artefact' AND s.record = "
                                    "a.id",
    "REPLACE INTO seal SELECT 'fact', f.id, " SPC__DIGEST_FACT ", ''"
    " FROM fact AS f",
    "REPLACE INTO seal SELECT 'network', n.id, " SPC__DIGEST_NETWORK ", ''"
    " FROM network AS n",
    "REPLACE INTO seal SELECT 'part', w.id, " SPC__DIGEST_PART ", ''"
    " FROM network_part AS w JOIN seal AS s"
    " ON s.kind = 'network' AND s.record = w.network",
    NULL,
};

/* ---- the digest ---------------------------------------------------------- */

/* The same bytes on every machine. */
static void put_number(spc__sha256 *sha, uint64_t number)
{
    unsigned char bytes[8];

    for (int i = 0; i < 8; i++)
        bytes[i] = (unsigned char)(number >> 8 * i);
    spc__sha256_field(sha, bytes, sizeof(bytes));
}

static void put_real(spc__sha256 *sha, double real)
{
    uint64_t bits;

    memcpy(&bits, &real, sizeof(bits));
    put_number(sha, bits);
}

/* False: there was no memory for the value. */
static bool put_value(spc__sha256 *sha, sqlite3_value *value)
{
    unsigned char type = (unsigned char)sqlite3_value_type(value);
    const void *bytes;

    spc__sha256_update(sha, &type, 1);
    switch (type) {
    case SQLITE_INTEGER:
        put_number(sha, (uint64_t)sqlite3_value_int64(value));
        return true;
    case SQLITE_FLOAT:
        put_real(sha, sqlite3_value_double(value));
        return true;
    case SQLITE_NULL:
        return true;
    }
    bytes =
        sqlite3_value_blob(value); /* of texts as well, as they are stored */
    size_t count = (size_t)sqlite3_value_bytes(value);
    spc__sha256_field(sha, bytes != NULL ? bytes : "", bytes ? count : 0);
    return bytes != NULL || count == 0;
}

static void digest(sqlite3_context *context, int count, sqlite3_value **values)
{
    unsigned char bytes[SPC__SHA256_BYTES];
    char hex[SPC__SHA256_HEX];
    const spc__manifest *manifest = sqlite3_user_data(context);
    bool whole = true;
    spc__sha256 sha;

    spc__sha256_init(&sha);
    for (int i = 0; i < count; i++)
        whole &= put_value(&sha, values[i]);
    spc__sha256_final(&sha, bytes);
    spc__sha256_hex(hex, bytes);
    if (!whole)
        sqlite3_result_error_nomem(context);
    else if (manifest != NULL && !spc__manifest_has(manifest, hex))
        sqlite3_result_text(context, "unsigned", -1, SQLITE_STATIC);
    else
        sqlite3_result_text(context, hex, -1, SQLITE_TRANSIENT);
}

/* The code as it runs; NULL: what is there cannot be unpacked. */
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

/* spc_sha256(code): of its bytes alone, as artefacts have it. */
static void sha256_of(sqlite3_context *context, int count,
                      sqlite3_value **values)
{
    size_t code_bytes = 0;
    void *code = unpack(context, &code_bytes, values[0]);
    unsigned char bytes[SPC__SHA256_BYTES];
    char hex[SPC__SHA256_HEX];
    spc__sha256 sha;

    (void)count;
    if (code == NULL)
        return;
    spc__sha256_init(&sha);
    spc__sha256_update(&sha, code, code_bytes);
    spc__sha256_final(&sha, bytes);
    spc__sha256_hex(hex, bytes);
    sqlite3_result_text(context, hex, -1, SQLITE_TRANSIENT);
    free(code);
}

/* spc_code(code): its bytes. */
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
               ? "it is not what its digest was made of, or not in the signed "
                 "manifest"
               : "it is not what its digest was made of";
}

spc_status spc__seal_check(const spc__layer *layer, sqlite3_stmt *stmt, int i,
                           const char *what, int64_t record, spc_error *error)
{
    bool sealed = sqlite3_column_type(stmt, i) != SQLITE_NULL;

    if (sealed ? sqlite3_column_int(stmt, i) != 0
               : layer->version < SPC__SEALED_VERSION)
        return SPC_OK;
    return spc__fail(error, SPC_EDB,
                     "cannot use %s %lld of '%s': it is damaged, %s; tune the "
                     "layer again, or restore a copy of the file",
                     what, (long long)record, layer->path,
                     spc__seal_fault(layer, sealed));
}

/* ---- quarantine ---------------------------------------------------------- */

/* A lookup must not wait for another writer: who finds the record next will
 * find the same. */
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
