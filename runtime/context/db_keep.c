/* SPDX-License-Identifier: Apache-2.0 */
/* db_keep.c - packs, prunes and pins records, for users of spc.h. */
#include "base/sized.h"
#include "context/class_default.h"
#include "context/ctx.h"
#include "spc/db.h"

#include "base/error.h"
#include "cache/keep.h"
#include "cache/pack/pack.h"
#include <string.h>

spc_status spc_db_pack(spc_db_packed *packed, spc_ctx *ctx, const char *path,
                       const spc_db_pack_options *options)
{
    spc__pack_report report;
    spc_status status = spc__ctx_need_database(ctx, __func__, "path", path);

    if (status != SPC_OK || (status = SPC__TAKE(spc_db_pack_options, options,
                                                spc__error_of(ctx))) != SPC_OK)
        return status;
    bool whole = options != NULL && options->whole;
    status = spc__cache_pack(
        ctx->cache, path, whole ? SPC__PACK_WHOLE : SPC__PACK_APART,
        spc__class_defaults_add, &report, spc__error_of(ctx));
    if (packed != NULL)
        *packed = (spc_db_packed){
            .choices = report.choices,
            .trials = report.trials,
            .facts = report.facts,
            .code = report.code,
            .files = report.files,
            .bytes = report.bytes,
            .code_bytes = report.code_bytes,
            .compressed = report.compressed,
            .removed = report.removed,
        };
    if (report.left[0] != '\0')
        spc__log_printf(
            &ctx->log, SPC_LOG_WARNING,
            "'%s' is not a file of this pack and stays, but is read with it: "
            "move it away, or give the pack another name",
            report.left);
    return status;
}

/* If this library lacks the template, the record's age is unknown. */
static bool is_stale(const char *template_name, const char *hash, void *payload)
{
    char now[SPC__SHA256_HEX];

    return spc__ctx_template_hash(now, payload, template_name) &&
           strcmp(now, hash) != 0;
}

spc_status spc_db_prune(int64_t *removed, spc_ctx *ctx,
                        const spc_db_prune_options *options)
{
    int64_t unwanted;
    spc_status status =
        spc__ctx_need_database(ctx, __func__, "options", options);

    if (status != SPC_OK || (status = SPC__TAKE(spc_db_prune_options, options,
                                                spc__error_of(ctx))) != SPC_OK)
        return status;
    spc__prune what = {
        .losers = options->losers,
        .before_unix_seconds = options->before_unix_seconds,
        .is_stale = options->stale ? is_stale : NULL,
        .payload = ctx,
    };
    return spc__cache_prune(ctx->cache, &what,
                            removed != NULL ? removed : &unwanted,
                            spc__error_of(ctx));
}

spc_status spc_db_restore(int64_t *restored, spc_ctx *ctx)
{
    int64_t unwanted;
    spc_status status = spc__ctx_need_database(ctx, __func__, "ctx", ctx);

    return status == SPC_OK
               ? spc__cache_release(ctx->cache,
                                    restored != NULL ? restored : &unwanted,
                                    spc__error_of(ctx))
               : status;
}

spc_status spc_db_pin(spc_ctx *ctx, int64_t id, const char *choice)
{
    spc_status status = spc__ctx_need_database(ctx, __func__, "ctx", ctx);

    return status == SPC_OK
               ? spc__cache_pin(ctx->cache, id, choice, spc__error_of(ctx))
               : status;
}
