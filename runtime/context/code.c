/* SPDX-License-Identifier: Apache-2.0 */
/*
 * code.c - gets compiled kernels from memory, from the database, or by
 * compiling.
 *
 * Loaded modules are kept by artefact key until the context ends. A list of
 * names maps template, problem and configuration to a module, so a repeated
 * request needs no rendering. The database holds the same list as *code
 * records*. A code record is a problem whose layer is the problem's attrs and
 * template=NAME, in one neutral bucket, with an untimed trial. With code
 * records a shipped database can serve without Lua.
 */
#include "context/ctx.h"

#include "base/clock.h"
#include "base/error.h"
#include "compiler/space.h"
#include "context/modules.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The state of one call of spc__ctx_code. */
typedef struct request {
    spc_ctx *ctx;
    const char *template_name;
    const spc__attrs *problem;
    const spc__attrs *config; /* NULL: the template's default */
    unsigned flags;
    spc__template *tpl; /* the fields from here on are set only after Lua was
                         * queried */
    spc__attrs chosen;  /* config, or the default */
    spc__attrs launch;
    char artefact[SPC__SHA256_HEX];
} request;

/* ---- names --------------------------------------------------------------- */

void spc__code_identity(spc__buf *out, const char *template_name,
                        const spc__attrs *problem, const spc__attrs *config)
{
    /* The text is also stored with artefacts and must not change. */
    spc__buf_printf(out, "%s|", template_name);
    spc__attrs_format(out, problem);
    spc__buf_puts(out, "|");
    if (config != NULL)
        spc__attrs_format(out, config);
    else
        spc__buf_puts(out, "default");
}

static void write_name(spc__buf *out, const request *want)
{
    spc__code_identity(out, want->template_name, want->problem, want->config);
}

/* ---- code records of the database ---------------------------------------- */

/* Whose records: the device's own, or those made for its target where no such
 * GPU is. */
typedef enum record_owner { OWN, ANY, OWNERS } record_owner;

/* The key of the kernel's trials in the database. The template's name is a part
 * of it. */
static void record_key(spc__problem_key *out, const request *want,
                       record_owner owner)
{
    const spc_device_info *info = &want->ctx->info;

    memset(out, 0, sizeof(*out));
    out->layer = *want->problem;
    spc__attrs_set_text(&out->layer, "template", want->template_name);
    if (owner == OWN)
        snprintf(out->device, sizeof(out->device), "%s", info->name);
    else
        spc__any_device(out->device, sizeof(out->device), info->target);
    snprintf(out->target, sizeof(out->target), "%s", info->target);
}

/* Warns once: a database that fails would otherwise fill the log. */
static void database_trouble(spc_ctx *ctx, const spc_error *error)
{
    if (spc__modules_first_trouble(ctx->modules))
        spc__log_printf(&ctx->log, SPC_LOG_WARNING,
                        "continuing without the database's help: %s",
                        error->text);
}

/* True if the trial has the requested configuration. A template's default is
 * recorded under its own name in the trial's note. */
static bool is_asked_for(const request *want, const spc__trial *trial)
{
    if (want->config != NULL)
        return spc__attrs_equal(&trial->config, want->config);
    return strcmp(trial->note, "default") == 0;
}

/* Reads the kernel's trials, oldest first. The caller frees them. */
static void read_trials(spc__trial **out, int *count, const request *want,
                        record_owner owner)
{
    spc__problem_key key;
    spc_error error;

    *out = NULL;
    *count = 0;
    record_key(&key, want, owner);
    if (spc__cache_find_trials(want->ctx->cache, &key, out, count, &error) !=
        SPC_OK)
        database_trouble(want->ctx, &error);
}

/* Finds the trial that names the code, if its template has not changed. */
static bool find_record(spc__trial *out, const request *want,
                        record_owner owner)
{
    spc__trial *trials;
    char hex[SPC__SHA256_HEX];
    int count;
    bool found = false;

    /* Without the template's hash, the age of a record is unknown. */
    if (!spc__ctx_template_hash(hex, want->ctx, want->template_name))
        return false;
    read_trials(&trials, &count, want, owner);
    for (int i = 0; i < count && !found; i++) {
        found = is_asked_for(want, &trials[i]) &&
                strcmp(trials[i].template_hash, hex) == 0;
        if (found)
            *out = trials[i];
    }
    free(trials);
    return found;
}

bool spc__ctx_wants_own_code(const spc_ctx *ctx)
{
    return !ctx->trusts_layers &&
           spc__device_ops_of(ctx->device)->runs_on_host_cores;
}

/* Loads from the database and counts one use. */
static spc_status load_artefact(spc__loaded **out, spc_ctx *ctx,
                                const spc__code_wanted *wanted,
                                spc_error *error)
{
    spc__attrs resources = {0};
    void *code = NULL;
    size_t bytes = 0;
    spc_status status = spc__cache_get_artefact(ctx->cache, wanted, &code,
                                                &bytes, &resources, error);

    if (status == SPC_OK)
        status = spc__modules_load(out, ctx, wanted->key, code, bytes,
                                   &resources, error);
    ctx->stats.artefacts_loaded += status == SPC_OK;
    free(code);
    return status;
}

/* Takes the artefact from memory or the database. SPC_ENOTFOUND is normal,
 * other failures are logged; either way the caller compiles the code. The
 * code's own description is authoritative: the `launch` of a record must match
 * it. */
static spc_status take_artefact(spc__code *out, spc_ctx *ctx,
                                const char *artefact, const char *identity,
                                const spc__attrs *launch, bool is_recorded)
{
    spc__code_wanted wanted = {artefact, ctx->info.target, identity,
                               is_recorded ? launch : NULL,
                               spc__ctx_wants_own_code(ctx)};
    /* Already loaded for another problem: the same source gives the same
     * artefact. */
    spc__loaded *entry = spc__modules_find(ctx->modules, artefact);
    spc_error error;
    spc_status status = SPC_OK;

    if (entry == NULL && ctx->cache == NULL)
        return SPC_ENOTFOUND;
    if (entry != NULL)
        spc__loaded_use(entry);
    else
        status = load_artefact(&entry, ctx, &wanted, &error);
    if (status == SPC_OK)
        spc__loaded_code(out, entry, launch);
    /* The caller must know of damage, to set the record aside. */
    else if (status == SPC_EWRONG)
        spc__ctx_fail(ctx, &error);
    else if (status != SPC_ENOTFOUND)
        database_trouble(ctx, &error);
    return status;
}

/* Checks that the database has the code that a trial names. Like take_artefact,
 * but loads nothing. */
static spc_status see_artefact(spc__code *out, spc_ctx *ctx,
                               const spc__trial *trial, const char *identity)
{
    spc__code_wanted wanted = {trial->artefact, ctx->info.target, identity,
                               &trial->launch, spc__ctx_wants_own_code(ctx)};
    void *code = NULL;
    size_t bytes = 0;
    spc_error error;

    if (ctx->cache == NULL)
        return SPC_ENOTFOUND;
    spc_status status = spc__cache_get_artefact(ctx->cache, &wanted, &code,
                                                &bytes, NULL, &error);
    free(code);
    if (status == SPC_EWRONG)
        return spc__ctx_fail(ctx, &error);
    memset(out, 0, sizeof(*out));
    out->launch = trial->launch;
    snprintf(out->artefact, sizeof(out->artefact), "%s", trial->artefact);
    return status;
}

spc_status spc__ctx_recorded(spc__code *out, spc_ctx *ctx,
                             const spc__attrs *problem, const spc__trial *trial,
                             unsigned flags)
{
    spc__buf identity = SPC__BUF_INIT;
    char hex[SPC__SHA256_HEX];
    spc_status status;

    if (trial->artefact[0] == '\0' ||
        !spc__ctx_template_hash(hex, ctx, trial->template_name) ||
        strcmp(hex, trial->template_hash) != 0)
        return SPC_ENOTFOUND;
    spc__code_identity(&identity, trial->template_name, problem,
                       &trial->config);
    if (flags & SPC__PLAN_UNLOADED)
        status = see_artefact(out, ctx, trial, spc__buf_text(&identity));
    else
        status = take_artefact(out, ctx, trial->artefact,
                               spc__buf_text(&identity), &trial->launch, true);
    spc__buf_release(&identity);
    return status;
}

/* Takes the code of a trial on record, if the database has one for this
 * request. */
static spc_status from_record(spc__code *out, const request *want)
{
    spc__trial *trial;
    spc_status status = SPC_ENOTFOUND;

    if (want->ctx->cache == NULL || (trial = malloc(sizeof(*trial))) == NULL)
        return SPC_ENOTFOUND;
    for (int owner = OWN; owner < OWNERS && status != SPC_OK; owner++)
        if (find_record(trial, want, owner))
            status = spc__ctx_recorded(out, want->ctx, want->problem, trial,
                                       want->flags);
    free(trial);
    return status;
}

spc_status spc__ctx_stored_code(spc__code *out, spc__attrs *config,
                                spc_ctx *ctx, const char *template_name,
                                const spc__attrs *problem, unsigned flags)
{
    request want = {
        .ctx = ctx, .template_name = template_name, .problem = problem};
    spc__trial *trials;
    spc_status status = SPC_ENOTFOUND;
    int count;

    if (ctx->cache == NULL)
        return SPC_ENOTFOUND;
    for (int owner = OWN; owner < OWNERS && status != SPC_OK; owner++) {
        read_trials(&trials, &count, &want, owner);
        for (int i = count - 1; i >= 0 && status != SPC_OK; i--)
            if ((status = spc__ctx_recorded(out, ctx, problem, &trials[i],
                                            flags)) == SPC_OK)
                *config = trials[i].config;
        free(trials);
    }
    return status;
}

/* Stores compiled code with its record if the context has a writable database.
 * Failures are logged, never returned. */
static void store(const request *want, const spc__artefact *artefact,
                  const char *identity, const char *target)
{
    spc_ctx *ctx = want->ctx;
    spc__problem_key key;
    spc__provenance provenance;
    spc_error error;
    spc__trial *trial = calloc(1, sizeof(*trial));
    spc_status status = SPC_OK;

    if (trial == NULL || !ctx->stores) {
        free(trial);
        return;
    }
    if (artefact != NULL)
        status = spc__cache_put_artefact(
            ctx->cache, want->artefact, target, artefact->compiler, identity,
            &want->launch, &artefact->resources, artefact->code,
            artefact->code_bytes, &error);
    record_key(&key, want, OWN);
    spc__ctx_provenance(&provenance, ctx);
    snprintf(trial->template_name, sizeof(trial->template_name), "%s",
             want->template_name);
    spc__ctx_template_hash(trial->template_hash, ctx, want->template_name);
    trial->config = want->chosen;
    trial->launch = want->launch;
    memcpy(trial->artefact, want->artefact, sizeof(trial->artefact));
    snprintf(trial->note, sizeof(trial->note), "%s",
             want->config == NULL ? "default" : "");
    trial->status = SPC__TRIAL_OK;
    /* NULL if the code was in the database already. How it was compiled is then
     * unknown here. */
    if (artefact != NULL) {
        trial->resources = artefact->resources;
        trial->compile_ms = (double)artefact->compile_ns * 1e-6;
        snprintf(provenance.compiler, sizeof(provenance.compiler), "%s",
                 artefact->compiler);
    }
    if (status == SPC_OK)
        status =
            spc__cache_put_trial(ctx->cache, &key, trial, &provenance, &error);
    if (status != SPC_OK)
        database_trouble(ctx, &error);
    free(trial);
}

/* ---- compiling ----------------------------------------------------------- */

bool spc__ctx_serves(const spc_ctx *ctx, const spc__template *tpl)
{
    return strcmp(spc__template_device(tpl),
                  spc__target_templates(&ctx->target)) == 0;
}

spc_status spc__ctx_compiler(spc__compiler **compiler, spc__compile_job *job,
                             spc_ctx *ctx)
{
    const char *options = "";
    spc__library *library;
    spc_status status =
        spc__device_ops_of(ctx->device)
            ->compiler(ctx->device, compiler, &options, spc__error_of(ctx));

    if (status != SPC_OK ||
        (status = spc__ctx_library(&library, ctx)) != SPC_OK)
        return status;
    /* The target of an emulation means nothing to the host's compiler, which
     * needs only the options. */
    bool nvrtc = strncmp(spc__compiler_identity(*compiler), "nvrtc", 5) == 0;
    memset(job, 0, sizeof(*job));
    job->options = options != NULL ? options : "";
    job->target = nvrtc ? ctx->info.target : "";
    job->headers = library;
    job->cancel = ctx->cancel;
    return SPC_OK;
}

/* Asks the template for its configuration and launch geometry. */
static spc_status question_template(request *want)
{
    spc_ctx *ctx = want->ctx;
    spc__library *library;
    spc_status status;

    if ((status = spc__ctx_library(&library, ctx)) != SPC_OK)
        return status;
    want->tpl = spc__library_find(library, want->template_name);
    if (want->tpl == NULL)
        return spc__fail(spc__error_of(ctx), SPC_ENOTFOUND,
                         "there is no template '%s'", want->template_name);
    if (want->config != NULL)
        want->chosen = *want->config;
    else if ((status = spc__template_default(&want->chosen, want->tpl,
                                             want->problem, &ctx->target,
                                             spc__error_of(ctx))) != SPC_OK)
        return status;
    want->launch.count = 0;
    /* Only kernels of layers have a launch geometry; those of maps and features
     * are launched by fixed rules. */
    if (strcmp(spc__template_role(want->tpl), "conv") != 0 &&
        strcmp(spc__template_role(want->tpl), "wgrad") != 0)
        return SPC_OK;
    return spc__template_launch(&want->launch, want->tpl, want->problem,
                                &ctx->target, &want->chosen,
                                spc__error_of(ctx));
}

/* Compiles, loads and stores the code. */
static spc_status compile(spc__code *out, request *want,
                          spc__compiler *compiler, const spc__compile_job *job,
                          const char *identity)
{
    spc_ctx *ctx = want->ctx;
    spc__artefact artefact = {0};
    spc__loaded *entry = NULL;
    spc_status status =
        spc__compile(&artefact, compiler, job, NULL, spc__error_of(ctx));

    if (status == SPC_OK) {
        ctx->stats.compiles++;
        spc__log_printf(&ctx->log, SPC_LOG_INFO, "compiled '%s' in %.0f ms",
                        want->template_name,
                        (double)artefact.compile_ns * 1e-6);
        status = spc__modules_load(&entry, ctx, want->artefact, artefact.code,
                                   artefact.code_bytes, &artefact.resources,
                                   spc__error_of(ctx));
    }
    /* Code that cannot be loaded is not stored. */
    if (status == SPC_OK) {
        spc__loaded_code(out, entry, &want->launch);
        store(want, &artefact, identity, ctx->info.target);
    }
    spc__artefact_release(&artefact);
    return status;
}

/* Explains why no code was found. Read-only databases may contain the code but
 * not be trusted. */
static spc_status fail_uncompiled(const request *want)
{
    const spc_ctx *ctx = want->ctx;
    bool skips = ctx->cache != NULL &&
                 spc__cache_files(ctx->cache) > ctx->stores &&
                 spc__ctx_wants_own_code(ctx);

    return spc__fail(spc__error_of(want->ctx), SPC_ENOTFOUND,
                     "the database has no code of '%s' for this problem on "
                     "%s%s, and compiling was not permitted",
                     want->template_name, ctx->info.target,
                     skips ? " (code of layers runs only if they are trusted)"
                           : "");
}

/* Gets the code of rendered source: from an artefact, or by compiling. */
static spc_status make_code(spc__code *out, request *want,
                            spc__compiler *compiler,
                            const spc__compile_job *job, const char *identity)
{
    spc_ctx *ctx = want->ctx;
    spc_status status =
        take_artefact(out, ctx, want->artefact, identity, &want->launch, false);

    /* The artefact was found by its source. Storing its name lets the next
     * process find the code without rendering. */
    if (status == SPC_OK)
        store(want, NULL, identity, ctx->info.target);
    else if (status != SPC_OK && want->flags & SPC_PLAN_CACHED_ONLY)
        status = fail_uncompiled(want);
    else if (status != SPC_OK)
        status = compile(out, want, compiler, job, identity);
    return status;
}

/* Renders the source, then takes its artefact or compiles it. */
static spc_status make(spc__code *out, request *want)
{
    spc_ctx *ctx = want->ctx;
    spc__compiler *compiler;
    spc__compile_job job;
    spc__buf source = SPC__BUF_INIT, identity = SPC__BUF_INIT;
    spc_status status;

    /* The compiler is opened before the source is rendered: its version is part
     * of the artefact's key. */
    if ((status = question_template(want)) != SPC_OK ||
        (status = spc__ctx_compiler(&compiler, &job, ctx)) != SPC_OK ||
        (status = spc__template_render(&source, want->tpl, want->problem,
                                       &ctx->target, &want->chosen,
                                       spc__error_of(ctx))) != SPC_OK)
        goto done;
    job.name = want->template_name;
    job.source = spc__buf_text(&source);
    spc__artefact_key(want->artefact, compiler, &job);
    spc__code_identity(&identity, want->template_name, want->problem,
                       &want->chosen);
    status = make_code(out, want, compiler, &job, spc__buf_text(&identity));
done:
    spc__buf_release(&source);
    spc__buf_release(&identity);
    return status;
}

/* Computes the launch geometry without code. */
static spc_status describe(spc__code *out, request *want)
{
    spc_status status;

    if (want->flags & SPC_PLAN_CACHED_ONLY)
        return fail_uncompiled(want);
    memset(out, 0, sizeof(*out));
    if ((status = question_template(want)) == SPC_OK)
        out->launch = want->launch;
    return status;
}

/* Gets code that is not in memory: from a record, or newly made. */
static spc_status find_code(spc__code *out, request *want)
{
    spc_status status = from_record(out, want);

    if (status == SPC_OK)
        return SPC_OK;
    if (want->flags & SPC__PLAN_RECORDED)
        return fail_uncompiled(want);
    return want->flags & SPC__PLAN_UNLOADED ? describe(out, want)
                                            : make(out, want);
}

spc_status spc__ctx_code(spc__code *out, spc_ctx *ctx,
                         const char *template_name, const spc__attrs *problem,
                         const spc__attrs *config, unsigned flags)
{
    request want = {ctx,  template_name, problem, config, flags,
                    NULL, {0},           {0},     ""};
    spc__buf name = SPC__BUF_INIT;
    spc_status status = SPC_OK;

    write_name(&name, &want);
    if (!spc__modules_named(out, want.ctx, spc__buf_text(&name))) {
        status = find_code(out, &want);
        /* Code that was only looked at has no module to remember. */
        if (status == SPC_OK && !(flags & SPC__PLAN_UNLOADED))
            spc__modules_name(ctx->modules, spc__buf_text(&name), out);
    }
    spc__buf_release(&name);
    /* The caller asked for cached code only, so a missing compiler means that
     * the code was not found. */
    if (status == SPC_EUNSUPPORTED && flags & SPC_PLAN_CACHED_ONLY)
        status = spc__error_of(ctx)->status = SPC_ENOTFOUND;
    return status;
}
