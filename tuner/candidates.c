/*
 * candidates.c - the space of a run, and its admitted candidates as entries.
 */
#include "run.h"

#include "error.h"
#include "spc_abi.h"
#include "targets.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The emulation's target only says which GPU it takes the part of. */
bool spc__run_is_native(const spc_ctx *ctx, const char *target)
{
    return target == NULL ||
           (strcmp(target, ctx->info.target) == 0 &&
            !spc__device_ops_of(ctx->device)->is_emulation);
}

static spc_status find_target(spc__attrs *out, spc_ctx *ctx, const char *target)
{
    if (spc__run_is_native(ctx, target)) {
        *out = ctx->target;
        return SPC_OK;
    }
    return spc__target_facts(out, target, spc__error_of(ctx));
}

spc_status spc__run_open_space(spc__run *run)
{
    spc_ctx *ctx = run->ctx;
    spc_status status;

    if ((status = spc_conv_check(run->conv, run->error)) != SPC_OK ||
        (status = find_target(&run->target, ctx, run->options.target)) !=
            SPC_OK ||
        (status = spc__ctx_library(&run->library, ctx)) != SPC_OK)
        return status;
    spc__conv_attrs(&run->problem, run->conv);
    return spc__space_create(&run->space, run->library, "conv",
                             run->options.only, &run->problem, &run->target,
                             run->error);
}

/* What no template's constraints know: a layer that must give the same sums
 * always takes no atomics, and the rows of a map are padded to a multiple of
 * SPC_ROW_PAD, which tiles must divide for every number of rows. */
static const char *refuse(const spc__run *run, const spc__attrs *launch)
{
    int64_t tile_rows = spc__attrs_number(launch, "tile_rows", 1);

    if (run->conv->deterministic &&
        spc__attrs_number(launch, "atomics", 0) != 0)
        return "its sums depend on the order of arrival";
    if (tile_rows < 1 || SPC_ROW_PAD % tile_rows != 0)
        return "the rows of a tile do not divide the padding of a map";
    return NULL;
}

void spc__run_refuse(spc__run *run)
{
    for (int i = 0; i < run->space->count; i++) {
        spc__candidate *candidate = &run->space->candidates[i];
        const char *why =
            candidate->admitted ? refuse(run, &candidate->launch) : NULL;
        if (why == NULL)
            continue;
        candidate->admitted = false;
        run->space->admitted--;
        snprintf(candidate->why, sizeof(candidate->why), "%s", why);
    }
}

static spc_status init_entry(spc__run *run, spc__entry *entry,
                             const spc__candidate *candidate)
{
    spc__buf config = SPC__BUF_INIT;
    spc__trial *trial = &entry->trial;

    spc__attrs_format(&config, &candidate->config);
    entry->config = spc__buf_detach(&config);
    if (entry->config == NULL && (entry->config = strdup("")) == NULL)
        return spc__fail_memory(run->error, 1);
    entry->candidate = candidate;
    snprintf(trial->template_name, sizeof(trial->template_name), "%s",
             spc__template_name(candidate->tpl));
    snprintf(trial->template_hash, sizeof(trial->template_hash), "%s",
             spc__template_hash(candidate->tpl));
    trial->config = candidate->config;
    trial->launch = candidate->launch;
    return SPC_OK;
}

static int by_config(const void *a, const void *b)
{
    const spc__entry *one = *(spc__entry *const *)a;
    const spc__entry *two = *(spc__entry *const *)b;
    int order = strcmp(one->trial.template_name, two->trial.template_name);

    return order != 0 ? order : strcmp(one->config, two->config);
}

spc_status spc__run_make_entries(spc__run *run)
{
    size_t count = (size_t)run->space->admitted;
    spc_status status = SPC_OK;

    run->entries = calloc(count + 1, sizeof(*run->entries));
    run->by_config = calloc(count + 1, sizeof(*run->by_config));
    if (run->entries == NULL || run->by_config == NULL)
        return spc__fail_memory(run->error, count * sizeof(*run->entries));
    for (int i = 0; i < run->space->count && status == SPC_OK; i++) {
        const spc__candidate *candidate = &run->space->candidates[i];
        if (!candidate->admitted)
            continue;
        spc__entry *entry = &run->entries[run->count];
        run->by_config[run->count++] = entry;
        status = init_entry(run, entry, candidate);
    }
    if (status == SPC_OK)
        qsort(run->by_config, (size_t)run->count, sizeof(*run->by_config),
              by_config);
    return status;
}

spc_status spc_space_render(char **out, spc_ctx *ctx, const spc_conv *conv,
                            const char *target, int i)
{
    spc_error *error = spc__error_of(ctx);
    spc__run run = {.ctx = ctx, .conv = conv, .error = error};
    spc__buf source = SPC__BUF_INIT;
    spc_status status =
        spc__need(error, __func__, "out", out, "ctx", ctx, "conv", conv, NULL);

    if (out != NULL)
        *out = NULL;
    if (status != SPC_OK)
        return status;
    run.options.target = target;
    if ((status = spc__run_open_space(&run)) != SPC_OK)
        return status;
    if (i < 0 || i >= run.space->count) {
        status = spc__fail(error, SPC_EINVAL,
                           "there is no candidate %d: 0 to %d are right", i,
                           run.space->count - 1);
        goto done;
    }
    const spc__candidate *candidate = &run.space->candidates[i];
    if (!candidate->admitted)
        status = spc__fail(error, SPC_EUNSUPPORTED,
                           "candidate %d is refused by: %s", i, candidate->why);
    else
        status = spc__template_render(&source, candidate->tpl, &run.problem,
                                      &run.target, &candidate->config, error);
    if (status == SPC_OK && (*out = spc__buf_detach(&source)) == NULL)
        status = spc__fail_memory(error, 1);
done:
    spc__buf_release(&source);
    spc__space_free(run.space);
    return status;
}
