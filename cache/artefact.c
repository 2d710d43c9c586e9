/* SPDX-License-Identifier: Apache-2.0 */
/* artefact.c - stores and finds compiled code by its key. */
#include "cache/cache_internal.h"

#include "base/error.h"
#include "base/sha256.h"
#include "cache/exchange/code_form.h"
#include <stdlib.h>
#include <string.h>

/* Returns the unpacked code in column 0 if it is intact. The caller owns it. */
static spc_status take_code(void **code, size_t *bytes, sqlite3_stmt *stmt,
                            spc_error *error)
{
    char stored[SPC__SHA256_HEX], actual[SPC__SHA256_HEX];
    const void *there = sqlite3_column_blob(stmt, 0);
    size_t there_bytes = (size_t)sqlite3_column_bytes(stmt, 0);
    spc_status status = spc__code_unpack(
        code, bytes, there != NULL ? there : "", there_bytes, error);

    if (status != SPC_OK)
        return status;
    /* Hashes the unpacked code, so that an error of the compression is detected
     * too. */
    spc__column_text(stored, sizeof(stored), stmt, 1);
    spc__sha256_of(actual, *code, *bytes);
    if (strcmp(stored, actual) == 0)
        return SPC_OK;
    free(*code);
    *code = NULL;
    return spc__fail(error, SPC_EDB, "its code is damaged");
}

/* True if the column and the attrs have the same text. */
static bool is_text_of(sqlite3_stmt *stmt, int i, const spc__attrs *attrs)
{
    spc__attrs stored;
    const char *text = (const char *)sqlite3_column_text(stmt, i);

    return text != NULL && spc__attrs_parse(&stored, text, NULL) == SPC_OK &&
           spc__attrs_equal(&stored, attrs);
}

/* Reports code that is intact, but of another target or another kernel. */
static spc_status fail_other(const spc__code_wanted *wanted,
                             const spc__layer *layer, const char *is,
                             const char *wants, spc_error *error)
{
    return spc__fail(error, SPC_EWRONG,
                     "cannot use artefact %.12s of '%s': it is the code of "
                     "'%.300s', not of '%.300s'",
                     wanted->key, layer->path, is, wants);
}

/* Checks that the row is intact and has the wanted code. */
static spc_status check_row(const spc__code_wanted *wanted,
                            const spc__layer *layer, sqlite3_stmt *stmt,
                            spc_error *error)
{
    const char *target = (const char *)sqlite3_column_text(stmt, 4);
    const char *identity = (const char *)sqlite3_column_text(stmt, 5);
    spc_status status = spc__seal_check(layer, stmt, 6, "artefact",
                                        sqlite3_column_int64(stmt, 7), error);

    if (status != SPC_OK)
        return status;
    if (target == NULL || identity == NULL)
        return spc__layer_fail(layer, SQLITE_CORRUPT, "read", error);
    if (wanted->target != NULL && strcmp(target, wanted->target) != 0)
        return fail_other(wanted, layer, target, wanted->target, error);
    /* Code without an identity is accepted by its key alone. */
    if (wanted->identity != NULL && identity[0] != '\0' &&
        strcmp(identity, wanted->identity) != 0)
        return fail_other(wanted, layer, identity, wanted->identity, error);
    /* Devices may launch the same code in different ways. */
    if (wanted->launch != NULL && !is_text_of(stmt, 2, wanted->launch))
        return SPC_ENOTFOUND;
    return SPC_OK;
}

/* Copies code and resources of a row. On failure the caller owns nothing. */
static spc_status copy_row(void **code, size_t *bytes, spc__attrs *resources,
                           const spc__layer *layer, sqlite3_stmt *stmt,
                           const char *key, spc_error *error)
{
    spc_error why = {0};
    spc_status status = take_code(code, bytes, stmt, &why);

    if (status != SPC_OK)
        return spc__fail(error, status,
                         "cannot use artefact %.12s of '%s': %s; compile it "
                         "again, or restore a copy of the file",
                         key, layer->path, why.text);
    if (resources != NULL)
        status = spc__column_attrs(resources, layer, stmt, 3, error);
    if (status != SPC_OK) {
        free(*code);
        *code = NULL;
    }
    return status;
}

/* Returns SPC_ENOTFOUND without a sentence if this layer lacks the key. */
static spc_status get_from(void **code, size_t *bytes, spc__attrs *resources,
                           spc__layer *layer, const spc__code_wanted *wanted,
                           spc_error *error)
{
    sqlite3_stmt *stmt;
    bool row;
    spc_status status =
        spc__layer_statement(&stmt, layer, SPC__SQL_GET_ARTEFACT, error);

    if (status != SPC_OK)
        return status;
    spc__bind_text(stmt, 1, wanted->key);
    status = spc__layer_step(&row, layer, stmt, "read", error);
    if (status == SPC_OK && !row)
        status = SPC_ENOTFOUND;
    if (status == SPC_OK)
        status = check_row(wanted, layer, stmt, error);
    if (status == SPC_OK)
        status =
            copy_row(code, bytes, resources, layer, stmt, wanted->key, error);
    spc__sql_done(stmt);
    return status;
}

/* Uses any intact copy. A failure is reported only if all copies fail. */
spc_status spc__cache_get_artefact(spc__cache *cache,
                                   const spc__code_wanted *wanted, void **code,
                                   size_t *bytes, spc__attrs *resources,
                                   spc_error *error)
{
    /* The user's own file is the first layer. */
    int count = wanted->own_only ? cache->has_user : cache->count;
    spc_status trouble = SPC_ENOTFOUND;

    *code = NULL;
    *bytes = 0;
    for (int i = 0; i < count; i++) {
        spc_status status =
            get_from(code, bytes, resources, &cache->layers[i], wanted,
                     trouble == SPC_ENOTFOUND ? error : NULL);
        if (status == SPC_OK)
            return SPC_OK;
        /* Reports the first failure, which belongs to the uppermost file. */
        if (trouble == SPC_ENOTFOUND)
            trouble = status;
    }
    *bytes = 0;
    if (trouble != SPC_ENOTFOUND)
        return trouble;
    return spc__fail(error, SPC_ENOTFOUND, "no artefact %.12s in the database",
                     wanted->key);
}

/* Checks whether the key exists and its code is intact and the expected one. */
static spc_status is_stored(bool *stored, spc__layer *layer,
                            const spc__code_wanted *meant, spc_error *error)
{
    sqlite3_stmt *stmt;
    bool row;
    void *code = NULL;
    size_t bytes;
    spc_status status =
        spc__layer_statement(&stmt, layer, SPC__SQL_GET_ARTEFACT, error);

    *stored = false;
    if (status != SPC_OK)
        return status;
    spc__bind_text(stmt, 1, meant->key);
    status = spc__layer_step(&row, layer, stmt, "read", error);
    if (status == SPC_OK && row)
        /* A damaged or different row is written again, so its fault is not an
         * error here. */
        *stored = check_row(meant, layer, stmt, NULL) == SPC_OK &&
                  take_code(&code, &bytes, stmt, NULL) == SPC_OK;
    free(code);
    spc__sql_done(stmt);
    return status;
}

/* Seals the code with its identity, which is in the seal's row. */
static spc_status seal(spc__layer *layer, const char *key, const char *identity,
                       spc_error *error)
{
    sqlite3_stmt *stmt;
    spc_status status =
        spc__layer_statement(&stmt, layer, SPC__SQL_SEAL_ARTEFACT, error);

    if (status != SPC_OK)
        return status;
    spc__bind_text(stmt, 1, key);
    spc__bind_text(stmt, 2, identity);
    return spc__layer_run(layer, stmt, error);
}

spc_status
spc__cache_put_artefact(spc__cache *cache, const char *key, const char *target,
                        const char *compiler, const char *identity,
                        const spc__attrs *launch, const spc__attrs *resources,
                        const void *code, size_t bytes, spc_error *error)
{
    spc__code_wanted meant = {
        .key = key, .target = target, .identity = identity};
    char digest[SPC__SHA256_HEX];
    sqlite3_stmt *stmt;
    spc__layer *layer;
    bool stored;
    spc_status status;

    if ((status = spc__cache_writer(&layer, cache, error)) != SPC_OK ||
        (status = is_stored(&stored, layer, &meant, error)) != SPC_OK || stored)
        return status;
    if ((status = spc__cache_code_text(cache, launch, resources, error)) !=
            SPC_OK ||
        (status = spc__layer_statement(&stmt, layer, SPC__SQL_PUT_ARTEFACT,
                                       error)) != SPC_OK ||
        (status = spc__layer_begin(layer, error)) != SPC_OK)
        return status;

    spc__sha256_of(digest, code, bytes);
    spc__bind_text(stmt, 1, key);
    spc__bind_text(stmt, 2, target);
    spc__bind_text(stmt, 3, compiler);
    spc__bind_text(stmt, 4, spc__buf_text(&cache->launch_text));
    spc__bind_text(stmt, 5, spc__buf_text(&cache->resources_text));
    spc__bind_text(stmt, 6, digest);
    /* NULL would be stored as NULL and not as an empty value. */
    sqlite3_bind_blob64(stmt, 7, bytes > 0 ? code : "", bytes, SQLITE_STATIC);
    /* Code and seal are written in one transaction, because code without a seal
     * counts as damaged. */
    status = spc__layer_run(layer, stmt, error);
    if (status == SPC_OK)
        status = seal(layer, key, identity, error);
    return spc__layer_end(layer, status, error);
}
