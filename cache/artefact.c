/*
 * artefact.c - compiled code by its key.
 */
#include "cache_internal.h"

#include "error.h"
#include "sha256.h"
#include <stdlib.h>
#include <string.h>

static void digest_of(char hex[SPC__SHA256_HEX], const void *code, size_t bytes)
{
    unsigned char digest[SPC__SHA256_BYTES];
    spc__sha256 sha;

    spc__sha256_init(&sha);
    spc__sha256_update(&sha, code, bytes);
    spc__sha256_final(&sha, digest);
    spc__sha256_hex(hex, digest);
}

/* The code in column 0, if it is still what was stored. NULL: it is not. */
static const void *sound_code(size_t *bytes, sqlite3_stmt *stmt)
{
    char stored[SPC__SHA256_HEX], actual[SPC__SHA256_HEX];
    const void *code = sqlite3_column_blob(stmt, 0);

    *bytes = (size_t)sqlite3_column_bytes(stmt, 0);
    if (code == NULL) /* how SQLite gives a blob of no bytes */
        code = "";
    spc__column_text(stored, sizeof(stored), stmt, 1);
    digest_of(actual, code, *bytes);
    return strcmp(stored, actual) == 0 ? code : NULL;
}

static spc_status copy_row(void **code, size_t *bytes, spc__attrs *launch,
                           spc__attrs *resources, const spc__layer *layer,
                           sqlite3_stmt *stmt, const char *key,
                           spc_error *error)
{
    spc_status status = SPC_OK;
    const void *stored = sound_code(bytes, stmt);

    if (stored == NULL)
        return spc__fail(error, SPC_EDB,
                         "cannot use artefact %.12s of '%s': its code is "
                         "damaged; compile it again, or restore a copy of the "
                         "file",
                         key, layer->path);
    if (launch != NULL)
        status = spc__column_attrs(launch, layer, stmt, 2, error);
    if (status == SPC_OK && resources != NULL)
        status = spc__column_attrs(resources, layer, stmt, 3, error);
    if (status != SPC_OK)
        return status;
    *code = malloc(*bytes + 1);
    if (*code == NULL)
        return spc__fail_memory(error, *bytes + 1);
    memcpy(*code, stored, *bytes);
    return SPC_OK;
}

/* SPC_ENOTFOUND without a sentence if this layer has no such key. */
static spc_status get_from(void **code, size_t *bytes, spc__attrs *launch,
                           spc__attrs *resources, spc__layer *layer,
                           const char *key, spc_error *error)
{
    sqlite3_stmt *stmt;
    bool row;
    spc_status status =
        spc__layer_statement(&stmt, layer, SPC__SQL_GET_ARTEFACT, error);

    if (status != SPC_OK)
        return status;
    spc__bind_text(stmt, 1, key);
    status = spc__layer_step(&row, layer, stmt, "read", error);
    if (status == SPC_OK)
        status = row ? copy_row(code, bytes, launch, resources, layer, stmt,
                                key, error)
                     : SPC_ENOTFOUND;
    spc__sql_done(stmt);
    return status;
}

/* Any sound copy will do; trouble counts only if there is none. */
spc_status spc__cache_get_artefact(spc__cache *cache, const char *key,
                                   void **code, size_t *bytes,
                                   spc__attrs *launch, spc__attrs *resources,
                                   spc_error *error)
{
    spc_status trouble = SPC_ENOTFOUND;

    *code = NULL;
    *bytes = 0;
    for (int i = 0; i < cache->count; i++) {
        spc_status status =
            get_from(code, bytes, launch, resources, &cache->layers[i], key,
                     trouble == SPC_ENOTFOUND ? error : NULL);
        if (status == SPC_OK)
            return SPC_OK;
        if (trouble == SPC_ENOTFOUND)
            trouble = status;
    }
    *bytes = 0;
    if (trouble != SPC_ENOTFOUND)
        return trouble;
    return spc__fail(error, SPC_ENOTFOUND, "no artefact %.12s in the database",
                     key);
}

/* Is the key there, and its code sound? */
static spc_status is_stored(bool *stored, spc__layer *layer, const char *key,
                            spc_error *error)
{
    sqlite3_stmt *stmt;
    bool row;
    size_t bytes;
    spc_status status =
        spc__layer_statement(&stmt, layer, SPC__SQL_GET_ARTEFACT, error);

    *stored = false;
    if (status != SPC_OK)
        return status;
    spc__bind_text(stmt, 1, key);
    status = spc__layer_step(&row, layer, stmt, "read", error);
    if (status == SPC_OK && row)
        *stored = sound_code(&bytes, stmt) != NULL;
    spc__sql_done(stmt);
    return status;
}

spc_status spc__cache_put_artefact(spc__cache *cache, const char *key,
                                   const char *target, const char *compiler,
                                   const spc__attrs *launch,
                                   const spc__attrs *resources,
                                   const void *code, size_t bytes,
                                   spc_error *error)
{
    char digest[SPC__SHA256_HEX];
    sqlite3_stmt *stmt;
    spc__layer *layer;
    bool stored;
    spc_status status;

    if ((status = spc__cache_writer(&layer, cache, error)) != SPC_OK ||
        (status = is_stored(&stored, layer, key, error)) != SPC_OK || stored)
        return status;
    if ((status = spc__cache_code_text(cache, launch, resources, error)) !=
            SPC_OK ||
        (status = spc__layer_statement(&stmt, layer, SPC__SQL_PUT_ARTEFACT,
                                       error)) != SPC_OK)
        return status;

    digest_of(digest, code, bytes);
    spc__bind_text(stmt, 1, key);
    spc__bind_text(stmt, 2, target);
    spc__bind_text(stmt, 3, compiler);
    spc__bind_text(stmt, 4, spc__buf_text(&cache->launch_text));
    spc__bind_text(stmt, 5, spc__buf_text(&cache->resources_text));
    spc__bind_text(stmt, 6, digest);
    sqlite3_bind_blob64(stmt, 7, bytes > 0 ? code : "", bytes, SQLITE_STATIC);
    return spc__layer_run(layer, stmt, error);
}
