/* SPDX-License-Identifier: Apache-2.0 */
#include "tuner/refer.h"

#include "base/error.h"
#include <stdlib.h>
#include <string.h>

/* The choices to change, collected before the first write. */
typedef struct referral {
    const spc__record *record;
    const spc__candidates *candidates;
    spc__attrs layer;
    spc__cache_row *rows;
    int count, room;
    spc_error *error;
} referral;

static spc_status collect(const spc__cache_row *row, void *payload)
{
    referral *r = payload;
    spc__cache_row *rows = r->rows;

    if (!row->has_choice || strcmp(row->key.target, r->record->target) != 0 ||
        !spc__attrs_equal(&row->key.layer, &r->layer))
        return SPC_OK;
    const spc__entry *entry = spc__record_entry_of(r->candidates, &row->choice);
    if (entry == NULL || entry->state != SPC__BUILT || entry->code_pending ||
        strcmp(entry->trial.artefact, row->choice.artefact) == 0)
        return SPC_OK;
    if (r->count == r->room) {
        r->room = 2 * r->room + 8;
        rows = realloc(rows, (size_t)r->room * sizeof(*rows));
        if (rows == NULL)
            return spc__fail_memory(r->error, (size_t)r->room * sizeof(*rows));
        r->rows = rows;
    }
    r->rows[r->count] = *row;
    memcpy(r->rows[r->count].choice.artefact, entry->trial.artefact,
           sizeof(entry->trial.artefact));
    r->rows[r->count++].choice.resources = entry->trial.resources;
    return SPC_OK;
}

spc_status spc__refer(const spc__record *record,
                      const spc__candidates *candidates,
                      const spc__request *request)
{
    referral r = {
        .record = record, .candidates = candidates, .error = request->error};
    spc__cache *cache = record->ctx->cache;
    spc_status status = SPC_OK;

    if (cache == NULL || !record->ctx->stores)
        return SPC_OK;
    spc__conv_layer(&r.layer, request->conv);
    status = spc__cache_each(cache, collect, &r, request->error);
    for (int i = 0; i < r.count && status == SPC_OK; i++)
        status = spc__cache_name_code(cache, &r.rows[i], request->error);
    free(r.rows);
    return status;
}
