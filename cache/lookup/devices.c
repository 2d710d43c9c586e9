/* SPDX-License-Identifier: Apache-2.0 */
/*
 * devices.c - lists the devices that have records in any file.
 *
 * The list is kept until a file changes. Reading it takes one search of an
 * index for each device, however many records the device has.
 */
#include "cache/cache_internal.h"

#include "base/error.h"
#include <stdlib.h>
#include <string.h>

/* The list, and the state of the files when it was read. */
struct spc__device_list {
    spc__cache_device *at;
    int count, capacity;
    uint64_t version;           /* increases when the list is read again */
    spc__file_version *read_at; /* of each layer; NULL: never read */
};

static bool is_listed(const spc__device_list *list, const char *device)
{
    for (int i = 0; i < list->count; i++)
        if (strcmp(list->at[i].device, device) == 0)
            return true;
    return false;
}

/* Adds the device of the current row unless an upper layer has it. */
static spc_status add_device(spc__device_list *list, sqlite3_stmt *stmt,
                             spc_error *error)
{
    spc__cache_device next;

    spc__column_text(next.device, sizeof(next.device), stmt, 0);
    spc__column_text(next.target, sizeof(next.target), stmt, 1);
    if (is_listed(list, next.device))
        return SPC_OK;
    if (list->count == list->capacity) {
        int capacity = list->capacity > 0 ? 2 * list->capacity : 8;
        size_t bytes = (size_t)capacity * sizeof(*list->at);
        spc__cache_device *at = realloc(list->at, bytes);
        if (at == NULL)
            return spc__fail_memory(error, bytes);
        list->at = at;
        list->capacity = capacity;
    }
    list->at[list->count++] = next;
    return SPC_OK;
}

static spc_status read_layer(spc__device_list *list, spc__layer *layer,
                             spc_error *error)
{
    sqlite3_stmt *stmt;
    bool row = true;
    spc_status status =
        spc__layer_statement(&stmt, layer, SPC__SQL_ALL_DEVICES, error);

    if (status != SPC_OK)
        return status;
    while ((status = spc__layer_step(&row, layer, stmt, "read", error)) ==
               SPC_OK &&
           row && (status = add_device(list, stmt, error)) == SPC_OK)
        continue;
    spc__sql_done(stmt);
    return status;
}

static bool is_fresh(const spc__device_list *list, const spc__cache *cache)
{
    bool fresh = list->read_at != NULL;

    for (int i = 0; i < cache->count && fresh; i++) {
        const spc__file_version *now = &cache->layers[i].seen;
        fresh = now->others >= 0 && now->others == list->read_at[i].others &&
                now->own == list->read_at[i].own;
    }
    return fresh;
}

/* A layer that cannot be read adds no device. The look-up of a choice, which
 * comes before, has reported it. */
static spc_status read_again(spc__device_list *list, spc__cache *cache,
                             spc_error *error)
{
    size_t bytes = ((size_t)cache->count + 1) * sizeof(*list->read_at);

    if (list->read_at == NULL && (list->read_at = malloc(bytes)) == NULL)
        return spc__fail_memory(error, bytes);
    list->count = 0;
    list->version++;
    for (int i = 0; i < cache->count; i++) {
        list->read_at[i] = cache->layers[i].seen;
        if (read_layer(list, &cache->layers[i], error) == SPC_ENOMEM)
            return SPC_ENOMEM;
    }
    return SPC_OK;
}

spc_status spc__cache_devices(const spc__cache_device **out, int *count,
                              uint64_t *version, spc__cache *cache,
                              spc_error *error)
{
    spc_status status = SPC_OK;

    *count = 0;
    if (cache->devices == NULL &&
        (cache->devices = calloc(1, sizeof(*cache->devices))) == NULL)
        return spc__fail_memory(error, sizeof(*cache->devices));
    spc__cache_begin_reading(cache);
    if (!is_fresh(cache->devices, cache))
        status = read_again(cache->devices, cache, error);
    spc__cache_end_reading(cache);
    *out = cache->devices->at;
    *count = cache->devices->count;
    *version = cache->devices->version;
    return status;
}

void spc__devices_free(spc__cache *cache)
{
    if (cache->devices == NULL)
        return;
    free(cache->devices->at);
    free(cache->devices->read_at);
    free(cache->devices);
    cache->devices = NULL;
}
