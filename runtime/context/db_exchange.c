/* SPDX-License-Identifier: Apache-2.0 */
/* db_exchange.c - exchanges records between files, for users of spc.h. */
#include "context/ctx.h"
#include "spc/db.h"

#include "base/error.h"
#include "cache/exchange/exchange.h"
#include <string.h>

/* ---- import -------------------------------------------------------------- */

/* If this library lacks the template, the record's age is unknown. */
static bool is_stale(const char *template_name, const char *hash, void *payload)
{
    char now[SPC__SHA256_HEX];

    return spc__ctx_template_hash(now, payload, template_name) &&
           strcmp(now, hash) != 0;
}

/* Reports the fate of a record to the user's function. */
static spc_status tell(spc__fate fate, const char *record, const char *reason,
                       int64_t line, void *payload)
{
    const spc_db_exchange *to = payload;
    spc_db_change change = {(spc_db_fate)fate, record, reason, line};

    return to->each != NULL ? to->each(&change, to->payload) : SPC_OK;
}

/* Describes this context to the database. */
static spc__exchange make_exchange(spc_ctx *ctx, spc_db_exchange *to)
{
    return (spc__exchange){.trusts = ctx->trusts_layers,
                           .is_stale = is_stale,
                           .stale_payload = ctx,
                           .each = tell,
                           .payload = to};
}

/* Both enums list the same fates. */
_Static_assert((int)SPC_DB_REJECTED == (int)SPC__FATE_REJECTED &&
                   (int)SPC_DB_STALE == (int)SPC__FATE_STALE &&
                   (int)SPC_DB_OLDER == (int)SPC__FATE_OLDER,
               "spc_db_fate and spc__fate");

spc_status spc_db_import(spc_ctx *ctx, const char *text, size_t bytes,
                         spc_db_exchange *exchange)
{
    spc_db_exchange unwanted = {0};
    spc_db_exchange *to = exchange != NULL ? exchange : &unwanted;
    spc_status status = spc__ctx_need_database(ctx, __func__, "text", text);

    if (status != SPC_OK)
        return status;
    spc__exchange inner = make_exchange(ctx, to);
    status =
        spc__cache_import(ctx->cache, text, bytes, &inner, spc__error_of(ctx));
    memcpy(to->counts, inner.counts, sizeof(to->counts));
    return status;
}

spc_status spc_db_merge(spc_ctx *ctx, const char *path,
                        spc_db_exchange *exchange)
{
    spc_db_exchange unwanted = {0};
    spc_db_exchange *to = exchange != NULL ? exchange : &unwanted;
    spc_status status = spc__ctx_need_database(ctx, __func__, "path", path);

    if (status != SPC_OK)
        return status;
    spc__exchange inner = make_exchange(ctx, to);
    status = spc__cache_merge(ctx->cache, path, &inner, spc__error_of(ctx));
    memcpy(to->counts, inner.counts, sizeof(to->counts));
    return status;
}

/* ---- export -------------------------------------------------------------- */

_Static_assert((int)SPC_DB_CHOICES == (int)SPC__EXPORT_CHOICES &&
                   (int)SPC_DB_RECORDS_AND_CODE == (int)SPC__EXPORT_CODE,
               "spc_db_what and spc__export");

spc_status spc_db_export(int64_t *damaged, spc_ctx *ctx, spc_db_what what,
                         spc_status (*write)(const char *text, size_t bytes,
                                             void *payload),
                         void *payload)
{
    int64_t unwanted;
    /* ISO C cannot convert a function pointer to void *, so another pointer is
     * checked in its place. */
    spc_status status = spc__ctx_need_database(ctx, __func__, "write",
                                               write != NULL ? __func__ : NULL);

    if (status == SPC_OK && (unsigned)what > SPC_DB_CHOICES)
        status = spc__fail(spc__error_of(ctx), SPC_EINVAL,
                           "cannot export %d: expected SPC_DB_RECORDS, "
                           "SPC_DB_RECORDS_AND_CODE or SPC_DB_CHOICES",
                           (int)what);
    if (status != SPC_OK)
        return status;
    return spc__cache_export(ctx->cache, (spc__export)what, write, payload,
                             damaged != NULL ? damaged : &unwanted,
                             spc__error_of(ctx));
}

spc_status spc_db_diff(spc_ctx *ctx, const char *path,
                       spc_status (*each)(char side, const char *line,
                                          void *payload),
                       void *payload)
{
    spc_status status = spc__ctx_need_database(ctx, __func__, "path", path);

    if (status == SPC_OK)
        status = spc__ctx_need_database(ctx, __func__, "each",
                                        each != NULL ? __func__ : NULL);
    return status == SPC_OK ? spc__cache_diff(ctx->cache, path, each, payload,
                                              spc__error_of(ctx))
                            : status;
}
