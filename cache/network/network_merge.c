/* SPDX-License-Identifier: Apache-2.0 */
/*
 * network_merge.c - merges networks between files, and lists the networks of a
 * file.
 */
#include "cache/network/network.h"

#include "base/error.h"
#include "cache/exchange/records.h"
#include <sqlite3.h>

/* ---- completeness -------------------------------------------------------- */

/* A reader that only checks that the network is complete. */
static spc_status begin_nothing(const spc__network *network, void *payload,
                                spc_error *error)
{
    (void)network, (void)payload, (void)error;
    return SPC_OK;
}

static spc_status take_nothing(int64_t part, const void *data, size_t bytes,
                               void *payload, spc_error *error)
{
    (void)part, (void)data, (void)bytes, (void)payload, (void)error;
    return SPC_OK;
}

static spc_status end_nothing(void *payload, spc_error *error)
{
    (void)payload, (void)error;
    return SPC_OK;
}

spc_status spc__network_check(spc__layer *layer, const char *name,
                              spc_error *error)
{
    static const spc__network_reader nobody = {begin_nothing, take_nothing,
                                               end_nothing, NULL};

    return spc__network_get(layer, name, &nobody, error);
}

/* ---- copying ------------------------------------------------------------- */

typedef struct copying {
    spc__layer *to, *from;
    bool trusts;         /* true if `from` is trusted */
    sqlite3_stmt *parts; /* parts of the current network */
    spc_status (*each)(spc__fate fate, const char *name, const char *reason,
                       void *payload);
    void *payload;
    spc_error *error;
} copying;

/* Gives the parts in order, one row at a time, so that memory holds only
 * one. */
static spc_status copy_part(const void **data, size_t *bytes, int64_t part,
                            void *payload, spc_error *error)
{
    copying *c = payload;
    bool row;
    spc_status status = spc__layer_step(&row, c->from, c->parts, "read", error);

    if (status != SPC_OK)
        return status;
    if (!row)
        return spc__fail(error, SPC_EDB, "part %lld of '%s' is gone",
                         (long long)part, c->from->path);
    *data = sqlite3_column_blob(c->parts, 1);
    *bytes = (size_t)sqlite3_column_bytes(c->parts, 1);
    return SPC_OK;
}

static spc_status copy(spc__fate *fate, const char **reason, copying *c,
                       const spc__network *network, spc_error *error)
{
    spc__network_source source = {copy_part, c};
    spc_status status =
        spc__layer_statement(&c->parts, c->from, SPC__SQL_GET_PARTS, error);

    if (status != SPC_OK)
        return status;
    sqlite3_bind_int64(c->parts, 1, network->id);
    status = spc__network_offer(fate, reason, c->to, network, c->trusts,
                                &source, error);
    spc__sql_done(c->parts);
    return status;
}

/* Offers a network of the other file, if it is complete. */
static spc_status offer(const spc__network *network, void *payload)
{
    copying *c = payload;
    const char *reason = network->fault;
    spc_error why = {0};
    spc__fate fate = SPC__FATE_REJECTED;
    spc_status status = SPC_OK;

    if (reason == NULL &&
        /* All parts are read once before the first is written, so that a
         * damaged network replaces nothing. */
        spc__network_check(c->from, network->name, &why) != SPC_OK)
        reason = why.text;
    if (reason == NULL && spc__is_from_the_future(network->unix_seconds))
        reason = spc__future_reason;
    if (reason == NULL)
        status = copy(&fate, &reason, c, network, c->error);
    return status == SPC_OK ? c->each(fate, network->name,
                                      reason != NULL ? reason : "", c->payload)
                            : status;
}

spc_status
spc__networks_merge(spc__layer *to, spc__layer *from, bool trusts,
                    spc_status (*each)(spc__fate fate, const char *name,
                                       const char *reason, void *payload),
                    void *payload, spc_error *error)
{
    copying c = {.to = to,
                 .from = from,
                 .trusts = trusts,
                 .each = each,
                 .payload = payload,
                 .error = error};

    return spc__networks_each(from, offer, &c, error);
}

spc_status spc__networks_list(spc__buf *out, spc__layer *layer,
                              const char *name, spc_error *error)
{
    /* A name with a line feed must not add a line: its digest would be
     * signed. */
    static const char question[] =
        "SELECT digest, replace(said, char(10), ' ') FROM"
        " (SELECT s.digest, 'network ' || n.name AS said" SPC__FROM_NETWORKS
        " UNION ALL SELECT x.digest, 'part ' || n.name || ' ' || "
        "w.part" SPC__FROM_PARTS " JOIN network AS n ON n.id = w.network)"
        " WHERE digest IS NOT NULL";
    sqlite3_stmt *stmt = NULL;
    bool row = true;
    spc_status status =
        spc__layer_prepare(&stmt, layer, question, "read", error);

    while (status == SPC_OK && row) {
        status = spc__layer_step(&row, layer, stmt, "read", error);
        if (status == SPC_OK && row)
            spc__buf_printf(out, "%s  %s %s\n", sqlite3_column_text(stmt, 0),
                            name, sqlite3_column_text(stmt, 1));
    }
    sqlite3_finalize(stmt);
    return status;
}
