/* SPDX-License-Identifier: Apache-2.0 */
/* device.c - measured facts of a device, one row for each. */
#include "cache/cache_internal.h"

#include "base/clock.h"
#include "base/error.h"
#include <stdio.h>

static spc_status seal_fact(spc__layer *layer, const char *device,
                            const char *name, spc_error *error)
{
    sqlite3_stmt *stmt;
    spc_status status =
        spc__layer_statement(&stmt, layer, SPC__SQL_SEAL_FACT, error);

    if (status != SPC_OK)
        return status;
    spc__bind_text(stmt, 1, device);
    spc__bind_text(stmt, 2, name);
    return spc__layer_run(layer, stmt, error);
}

spc_status spc__cache_put_device(spc__cache *cache, const char *device,
                                 const spc__attrs *facts, spc_error *error)
{
    int64_t now = spc__unix_seconds();
    spc__layer *layer;
    spc_status status;

    if ((status = spc__cache_writer(&layer, cache, error)) != SPC_OK ||
        (status = spc__layer_begin(layer, error)) != SPC_OK)
        return status;
    /* Uses one transaction, so that other processes see all figures of a
     * measurement or none. */
    for (int i = 0; i < facts->count && status == SPC_OK; i++) {
        sqlite3_stmt *stmt;
        status = spc__layer_statement(&stmt, layer, SPC__SQL_PUT_FACT, error);
        if (status != SPC_OK)
            break;
        spc__bind_text(stmt, 1, device);
        spc__bind_text(stmt, 2, facts->at[i].name);
        spc__bind_text(stmt, 3, facts->at[i].text);
        sqlite3_bind_int64(stmt, 4, now);
        status = spc__layer_run(layer, stmt, error);
        if (status == SPC_OK)
            status = seal_fact(layer, device, facts->at[i].name, error);
    }
    return spc__layer_end(layer, status, error);
}

/* Adds the fact of one row unless an upper layer has it. The parser checks the
 * text, since files are not trusted. */
static spc_status take_fact(spc__attrs *facts, const spc__layer *layer,
                            sqlite3_stmt *stmt, spc_error *error)
{
    char name[SPC__ATTR_NAME], value[SPC__ATTR_TEXT];
    char text[sizeof(name) + sizeof(value)];
    spc__attrs one;
    spc_status status = spc__seal_check(layer, stmt, 2, "fact",
                                        sqlite3_column_int64(stmt, 3), error);

    if (status != SPC_OK)
        return status;
    spc__column_text(name, sizeof(name), stmt, 0);
    spc__column_text(value, sizeof(value), stmt, 1);
    snprintf(text, sizeof(text), "%s=%s", name, value);
    if (spc__attrs_parse(&one, text, error) != SPC_OK)
        return spc__layer_fail(layer, SQLITE_CORRUPT, "read", error);
    if (one.count == 1 && facts->count < SPC__ATTRS_MAX &&
        spc__attrs_find(facts, one.at[0].name) == NULL)
        facts->at[facts->count++] = one.at[0];
    return SPC_OK;
}

/* Adds the device's facts of one file. */
static spc_status take_layer(spc__attrs *facts, spc__layer *layer,
                             const char *device, spc_error *error)
{
    sqlite3_stmt *stmt;
    bool row = true;
    spc_status status =
        spc__layer_statement(&stmt, layer, SPC__SQL_ALL_FACTS, error);

    if (status != SPC_OK)
        return status;
    spc__bind_text(stmt, 1, device);
    while (status == SPC_OK && row) {
        status = spc__layer_step(&row, layer, stmt, "read", error);
        if (status == SPC_OK && row)
            status = take_fact(facts, layer, stmt, error);
    }
    spc__sql_done(stmt);
    return status;
}

spc_status spc__cache_get_device(spc__cache *cache, const char *device,
                                 spc__attrs *facts, spc_error *error)
{
    facts->count = 0;
    for (int i = 0; i < cache->count; i++) {
        spc_status status = take_layer(facts, &cache->layers[i], device, error);
        if (status != SPC_OK)
            return status;
    }
    if (facts->count > 0)
        return SPC_OK;
    return spc__fail(error, SPC_ENOTFOUND,
                     "no measured facts of the device '%s' in the database",
                     device);
}
