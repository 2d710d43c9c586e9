/* SPDX-License-Identifier: Apache-2.0 */
/* map_choice.c - chooses the search configuration of a geometry by the
 * database. */
#include "coords/map_choice.h"

#include "base/error.h"
#include "context/related.h"
#include "coords/index/indexer.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void spc__map_key(spc__problem_key *out, const spc_ctx *ctx,
                  const spc_geometry *geometry, bool inverse)
{
    memset(out, 0, sizeof *out);
    spc__map_attrs(&out->layer, geometry, inverse);
    snprintf(out->device, sizeof out->device, "%s", ctx->info.name);
    snprintf(out->target, sizeof out->target, "%s", ctx->info.target);
}

/* Checks that the template knows the configuration and accepts it for this
 * geometry. */
static spc_status permit(spc_ctx *ctx, const spc_geometry *geometry,
                         bool inverse, const spc__attrs *config,
                         spc_error *error)
{
    spc__library *library;
    spc__template *tpl;
    spc__attrs problem;
    spc_status status = spc__ctx_library(&library, ctx);

    if (status != SPC_OK) {
        *error = *spc__error_of(ctx);
        return status;
    }
    if ((tpl = spc__library_find(library, "index")) == NULL)
        return spc__fail(error, SPC_ENOTFOUND, "there is no template 'index'");
    spc__map_attrs(&problem, geometry, inverse);
    return spc__template_check(tpl, &problem, &ctx->target, config, error);
}

/* A record of the current template needs no check. */
static bool is_current(spc_ctx *ctx, const spc__trial *trial)
{
    char hex[SPC__SHA256_HEX];

    return spc__ctx_template_hash(hex, ctx, "index") &&
           strcmp(hex, trial->template_hash) == 0;
}

/* Finds the record of exactly this geometry, of this device or another one of
 * its architecture; records of other kernels do not apply. */
static bool find_record(spc__choice *out, spc_ctx *ctx,
                        const spc_geometry *geometry, bool inverse)
{
    spc__problem_key key;
    spc_error error = {0};
    int count = 0;

    spc__map_key(&key, ctx, geometry, inverse);
    if (spc__ctx_find_choices(ctx, &key, out, 1, &count, &error) != SPC_OK)
        spc__log_printf(&ctx->log, SPC_LOG_WARNING,
                        "the database does not answer fully: %s", error.text);
    return count > 0 && out->match == SPC__MATCH_EXACT &&
           strcmp(out->trial.template_name, "index") == 0;
}

bool spc__map_choice(spc__attrs *config, spc_ctx *ctx,
                     const spc_geometry *geometry, bool inverse)
{
    spc__choice *choice;
    spc_error error = {0};
    bool found;

    /* On the heap, as a choice has more than 10 KiB. */
    if (ctx->cache == NULL || (choice = malloc(sizeof *choice)) == NULL)
        return false;
    found = find_record(choice, ctx, geometry, inverse);
    /* A record of another template version may name parameters that no longer
     * exist. */
    if (found && !is_current(ctx, &choice->trial) &&
        permit(ctx, geometry, inverse, &choice->trial.config, &error) !=
            SPC_OK) {
        spc__log_printf(&ctx->log, SPC_LOG_INFO,
                        "a record of 'index' cannot serve: %s", error.text);
        found = false;
    }
    if (found)
        *config = choice->trial.config;
    free(choice);
    return found;
}

spc_status spc__map_configure(spc_map *map, const spc__attrs *config,
                              spc_error *error)
{
    const spc__indexer *indexer = map->in->indexer;
    spc_status status = SPC_OK;

    if (indexer->map_configure == NULL)
        return config == NULL ? SPC_OK
                              : spc__fail(error, SPC_EUNSUPPORTED,
                                          "maps of %s have no configurations",
                                          map->ctx->info.id);
    if (config != NULL)
        status = permit(map->ctx, &map->geometry, map->inverse, config, error);
    return status == SPC_OK ? indexer->map_configure(map, config, error)
                            : status;
}
