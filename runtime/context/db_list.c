/* SPDX-License-Identifier: Apache-2.0 */
/* db_list.c - lists the problems and trials of the database, for users of
 * spc.h. */
#include "context/class_default.h"
#include "context/ctx.h"
#include "spc/db.h"

#include "base/error.h"
#include "context/problem_key.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct listing {
    spc_status (*each)(const spc_db_row *row, void *payload);
    void *payload;
    bool all; /* also lists records that are not of layers */
} listing;

/* Describes a kernel: template and configuration. */
static void choice_text(char *out, size_t bytes, const spc__trial *trial)
{
    spc__buf config = SPC__BUF_INIT;

    spc__attrs_format(&config, &trial->config);
    snprintf(out, bytes, "%s %s", trial->template_name, spc__buf_text(&config));
    spc__buf_release(&config);
}

/* Describes the circumstances of a measurement. */
static void provenance_text(char *out, size_t bytes,
                            const spc__provenance *from)
{
    snprintf(out, bytes, "spctune %s, %s, driver %s, on %s, seed %llu: %s",
             from->version, from->compiler[0] ? from->compiler : "no compiler",
             from->driver[0] ? from->driver : "none", from->host,
             (unsigned long long)from->seed, from->scenes);
}

/* A record stores only a digest of a list of offsets, so the layer cannot be
 * restored. */
static bool has_list(const spc__attrs *layer)
{
    return spc__attrs_find(layer, "list") != NULL &&
           spc__attrs_find(layer, "cin") != NULL;
}

/* Code records (code.c) name compiled code, not measurements. Records of maps
 * (coords/map_choice.h) have a geometry; records of classes (class_default.h)
 * have a kind of layer. */
static const char *kind_of(const spc__problem_key *key)
{
    spc_conv conv;

    if (spc__attrs_find(&key->layer, "template") != NULL)
        return "code";
    if (spc__class_is(key))
        return "class";
    return has_list(&key->layer) || spc__conv_from_attrs(&conv, &key->layer)
               ? "layer"
               : "map";
}

static bool is_layer(const spc__problem_key *key)
{
    return strcmp(kind_of(key), "layer") == 0;
}

/* Writes a layer in the form that users write. Other records are written as
 * attrs. */
static void layer_text(char *out, size_t bytes, const spc__problem_key *key)
{
    spc__buf words = SPC__BUF_INIT;
    spc_conv conv;

    if (is_layer(key) && spc__conv_from_attrs(&conv, &key->layer)) {
        spc_conv_format(out, bytes, &conv);
        return;
    }
    spc__attrs_format(&words, &key->layer);
    snprintf(out, bytes, "%s", spc__buf_text(&words));
    spc__buf_release(&words);
}

/* Shows a problem to the user's function. The texts live until it returns. */
static spc_status list_row(const spc__cache_row *from, void *payload)
{
    const listing *to = payload;
    char layer[1200], choice[512], provenance[512];
    double rows_in, rows_out, density;

    if (!to->all && !is_layer(&from->key))
        return SPC_OK;
    layer_text(layer, sizeof(layer), &from->key);
    choice_text(choice, sizeof(choice), &from->choice);
    provenance_text(provenance, sizeof(provenance), &from->provenance);
    spc__problem_key_scene(&rows_in, &rows_out, &density, &from->key);
    spc_db_row row = {
        .file = from->file,
        .id = from->problem_id,
        .layer = layer,
        .device = from->key.device,
        .target = from->key.target,
        .rows = rows_out,
        .rows_in = rows_in,
        .density = density,
        .trials = from->trials,
        .trials_ok = from->trials_ok,
        .choice = from->has_choice ? choice : NULL,
        .median_us = from->has_choice ? from->choice.median_us : 0,
        .spread_us = from->has_choice ? from->choice.spread_us : 0,
        .provenance = provenance,
        .kind = kind_of(&from->key),
    };
    return to->each(&row, to->payload);
}

/* Checks the arguments of a call. `has_each`: its callback is not NULL. */
static spc_status check_call(spc_ctx *ctx, const char *function, bool has_each)
{
    return spc__ctx_need_database(ctx, function, "each",
                                  has_each ? function : NULL);
}

spc_status spc_db_each(spc_ctx *ctx,
                       spc_status (*each)(const spc_db_row *row, void *payload),
                       void *payload)
{
    listing to = {each, payload, false};
    spc_status status = check_call(ctx, __func__, each != NULL);

    if (status != SPC_OK)
        return status;
    return spc__cache_each(ctx->cache, list_row, &to, spc__error_of(ctx));
}

spc_status spc_db_each_record(spc_ctx *ctx,
                              spc_status (*each)(const spc_db_row *row,
                                                 void *payload),
                              void *payload)
{
    listing to = {each, payload, true};
    spc_status status = check_call(ctx, __func__, each != NULL);

    if (status != SPC_OK)
        return status;
    return spc__cache_each(ctx->cache, list_row, &to, spc__error_of(ctx));
}

/* ---- trials -------------------------------------------------------------- */

typedef struct trial_query {
    int64_t id;
    /* uppermost file that lists the network; NULL: none so far */
    const char *file;
} trial_query;

/* Finds the file that a listing showed with this problem. */
static spc_status find_problem(const spc__cache_row *row, void *payload)
{
    trial_query *query = payload;

    /* Files are listed from the top, and the uppermost one hides the others. */
    if (query->file == NULL && row->problem_id == query->id)
        query->file = row->file;
    return SPC_OK;
}

/* Shows a trial to the user's function in the public form. */
static void report_trial(const spc__trial *from,
                         void (*each)(const spc_trial *trial, void *payload),
                         void *payload)
{
    const spc__attrs *resources = &from->resources;
    spc__buf config = SPC__BUF_INIT;

    spc__attrs_format(&config, &from->config);
    spc_trial trial = {
        .template_name = from->template_name,
        .config = spc__buf_text(&config),
        .status = spc__trial_status_name(from->status),
        .note = from->note,
        .from_database = true,
        .verified = from->verified,
        .error = from->error,
        .median_us = from->median_us,
        .spread_us = from->spread_us,
        .cold_us = from->cold_us,
        .samples = from->samples,
        .registers = (int)spc__attrs_number(resources, "registers", 0),
        .spill_bytes = (int)spc__attrs_number(resources, "spill_bytes", 0),
        .shared_bytes =
            (int)(spc__attrs_number(resources, "static_shared_bytes", 0) +
                  spc__attrs_number(&from->launch, "shared", 0)),
        .compile_ms = from->compile_ms,
    };
    each(&trial, payload);
    spc__buf_release(&config);
}

spc_status spc_db_each_trial(spc_ctx *ctx, int64_t id,
                             void (*each)(const spc_trial *trial,
                                          void *payload),
                             void *payload)
{
    trial_query query = {.id = id};
    spc__trial *trials = NULL;
    int count = 0;
    spc_status status = check_call(ctx, __func__, each != NULL);

    if (status == SPC_OK)
        status = spc__cache_each(ctx->cache, find_problem, &query,
                                 spc__error_of(ctx));
    if (status == SPC_EDB && query.file != NULL) /* another file is damaged */
        status = SPC_OK;
    if (status == SPC_OK && query.file == NULL)
        status = spc__fail(
            spc__error_of(ctx), SPC_ENOTFOUND,
            "the database has no problem %lld: db ls lists its problems",
            (long long)id);
    if (status == SPC_OK)
        status = spc__cache_trials_of(ctx->cache, query.file, id, &trials,
                                      &count, spc__error_of(ctx));
    for (int i = 0; i < count; i++)
        report_trial(&trials[i], each, payload);
    free(trials);
    return status;
}

typedef struct verification {
    spc_status (*each)(const spc_db_fault *fault, void *payload);
    void *payload;
} verification;

/* Shows a fault to the user's function in the public form. */
static spc_status report_fault(const spc__fault *fault, void *payload)
{
    const verification *v = payload;
    spc_db_fault out = {fault->file, fault->kind, fault->record, fault->reason};

    return v->each(&out, v->payload);
}

spc_status spc_db_verify(int64_t *checked, spc_ctx *ctx,
                         spc_status (*each)(const spc_db_fault *fault,
                                            void *payload),
                         void *payload)
{
    verification v = {each, payload};
    int64_t count = 0;
    spc_status status = check_call(ctx, __func__, each != NULL);

    if (status == SPC_OK)
        status = spc__cache_verify(ctx->cache, &count, report_fault, &v,
                                   spc__error_of(ctx));
    if (checked != NULL)
        *checked = count;
    return status;
}
