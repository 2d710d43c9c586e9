/* SPDX-License-Identifier: Apache-2.0 */
/*
 * candidates.c - the space of a run, and its admitted candidates as entries.
 */
#include "tuner/search/candidates.h"

#include "base/error.h"
#include "operators/pass.h"
#include "templates/shared/spc_abi.h"
#include "device/targets.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

spc_status spc__candidates_begin(spc__candidates *out,
                                 const spc__request *request)
{
    spc_error *error = request->error;
    spc_status status;

    memset(out, 0, sizeof(*out));
    if ((status = spc_conv_check(request->conv, error)) != SPC_OK)
        return status;
    out->target = request->ctx->target;
    if (request->is_foreign &&
        (status = spc__target_facts(&out->target, request->target, error)) !=
            SPC_OK)
        return status;
    if ((status = spc__ctx_library(&out->library, request->ctx)) != SPC_OK)
        return status;
    spc__conv_attrs(&out->problem, request->conv);
    return SPC_OK;
}

/* The target, with the facts by which templates choose their defaults. */
static spc__attrs target_of(const spc__candidates *candidates,
                            const spc__request *request)
{
    int64_t rows = spc__request_rows(request);
    spc__attrs of_scene = candidates->target;

    if (rows > 0)
        spc__attrs_set_number(&of_scene, "rows", rows);
    return of_scene;
}

spc_status spc__candidates_open(spc__candidates *out,
                                const spc__request *request)
{
    spc_status status = spc__candidates_begin(out, request);
    spc__attrs of_scene = target_of(out, request);

    return status != SPC_OK
               ? status
               : spc__space_create(&out->space, out->library,
                                   spc__problem_role(&out->problem),
                                   request->options.only, &out->problem,
                                   &of_scene, request->error);
}

/* ---- admission ----------------------------------------------------------- */

/*
 * Constraints that apply to every template: a layer with deterministic sums
 * allows no atomics, and maps are padded to a multiple of SPC_ROW_PAD rows,
 * which tiles must divide.
 */
static const char *refuse(const spc__request *request, const spc__attrs *launch)
{
    int64_t tile_rows = spc__attrs_number(launch, "tile_rows", 1);
    const spc_conv *conv = request->conv;

    if (spc__attrs_number(launch, "gemm_depth", 0) != 0 &&
        !request->is_foreign && !spc__device_has_gemm(request->ctx->device))
        return "no library for products of matrices is present";
    if (conv->deterministic && spc__attrs_number(launch, "atomics", 0) != 0)
        return "its sums depend on the order of arrival";
    if (tile_rows < 1 || SPC_ROW_PAD % tile_rows != 0)
        return "the rows of a tile do not divide the padding of a map";
    return NULL;
}

/*
 * A candidate for few tiles (`few_tiles` blocks share one) serves scenes that
 * leave multiprocessors idle. With two blocks for each multiprocessor it gains
 * nothing, and every such candidate costs a quick search time. For a layer with
 * its own outputs, the scene's rows are the estimate of their number.
 */
static bool has_few_tiles(const spc__request *request, const spc__attrs *target,
                          const spc__attrs *launch)
{
    int64_t share = spc__attrs_number(launch, "few_tiles", 0) *
                    spc__attrs_number(launch, "grid_y", 1);
    int64_t processors = spc__attrs_number(target, "multiprocessors", 0);
    int64_t tile_rows = spc__attrs_number(launch, "tile_rows", 1);

    if (share == 0 || processors == 0 || request->scene_count == 0)
        return true;
    for (int s = 0; s < request->scene_count; s++) {
        int64_t rows = spc_scene_rows(request->scenes[s]);
        if ((rows + tile_rows - 1) / tile_rows * share < 2 * processors)
            return true;
    }
    return false;
}

/* Refuses candidates that a template's own constraints admit. */
static void refuse_all(spc__candidates *candidates, const spc__request *request)
{
    spc__space *space = candidates->space;

    for (int i = 0; i < space->count; i++) {
        spc__candidate *candidate = &space->candidates[i];
        const char *why =
            candidate->admitted ? refuse(request, &candidate->launch) : NULL;
        if (candidate->admitted &&
            !spc__allow_has(&request->ctx->allow, request->conv->pass,
                            spc__template_name(candidate->tpl)))
            why = "its template is not in the list of allowed ones";
        if (candidate->admitted && why == NULL &&
            !has_few_tiles(request, &candidates->target, &candidate->launch))
            why = "there are tiles enough for all multiprocessors";
        if (why == NULL)
            continue;
        candidate->admitted = false;
        space->admitted--;
        snprintf(candidate->why, sizeof(candidate->why), "%s", why);
    }
}

/* Fills what is known before anything is built: names, hash, launch. */
static spc_status init_entry(spc__entry *entry, const spc__candidate *candidate,
                             spc_error *error)
{
    spc__buf config = SPC__BUF_INIT;
    spc__trial *trial = &entry->trial;

    spc__attrs_format(&config, &candidate->config);
    entry->config = spc__buf_detach(&config);
    /* A template without parameters: its buffer has never been allocated. */
    if (entry->config == NULL && (entry->config = strdup("")) == NULL)
        return spc__fail_memory(error, 1);
    entry->candidate = candidate;
    snprintf(trial->template_name, sizeof(trial->template_name), "%s",
             spc__template_name(candidate->tpl));
    snprintf(trial->template_hash, sizeof(trial->template_hash), "%s",
             spc__template_hash(candidate->tpl));
    trial->config = candidate->config;
    trial->launch = candidate->launch;
    return SPC_OK;
}

/* By template, then configuration: the order of by_config. */
static int compare(const char *name, const char *config,
                   const spc__entry *entry)
{
    int order = strcmp(name, entry->trial.template_name);

    return order != 0 ? order : strcmp(config, entry->config);
}

static int by_config(const void *a, const void *b)
{
    const spc__entry *one = *(spc__entry *const *)a;

    return compare(one->trial.template_name, one->config,
                   *(spc__entry *const *)b);
}

/* Makes an entry of each admitted candidate, in the order of the space, and a
 * second list sorted for the search by name. Entries are never moved: builder,
 * meter and record keep pointers to them. */
static spc_status make_entries(spc__candidates *candidates, spc_error *error)
{
    const spc__space *space = candidates->space;
    size_t count = (size_t)space->admitted;
    spc_status status = SPC_OK;

    candidates->entries = calloc(count + 1, sizeof(*candidates->entries));
    candidates->by_config = calloc(count + 1, sizeof(*candidates->by_config));
    if (candidates->entries == NULL || candidates->by_config == NULL)
        return spc__fail_memory(error, count * sizeof(*candidates->entries));
    for (int i = 0; i < space->count && status == SPC_OK; i++) {
        if (!space->candidates[i].admitted)
            continue;
        spc__entry *entry = &candidates->entries[candidates->count];
        entry->number = candidates->count;
        candidates->by_config[candidates->count++] = entry;
        status = init_entry(entry, &space->candidates[i], error);
    }
    if (status == SPC_OK)
        qsort(candidates->by_config, (size_t)candidates->count,
              sizeof(*candidates->by_config), by_config);
    return status;
}

spc_status spc__candidates_admit(spc__candidates *candidates,
                                 const spc__request *request)
{
    spc__space *space = candidates->space;
    spc__span allowed = request->ctx->allow.lists[request->conv->pass];

    refuse_all(candidates, request);
    if (space->admitted == 0 && allowed.at != NULL)
        return spc__fail(request->error, SPC_EUNSUPPORTED,
                         "no candidate of the allowed templates (%.*s) is left",
                         (int)allowed.length, allowed.at);
    if (space->admitted == 0)
        return spc__fail(request->error, SPC_EUNSUPPORTED,
                         "no candidate is left: '%s' is refused because %s",
                         spc__template_name(space->candidates[0].tpl),
                         space->candidates[0].why);
    return make_entries(candidates, request->error);
}

/* ---- earlier trials ------------------------------------------------------ */

/*
 * Makes a candidate from a trial of the template's current version; false if
 * the trial is of another.
 */
static bool take_trial(spc__candidate *out, const spc__candidates *candidates,
                       const spc__request *request, const spc__trial *trial)
{
    spc__attrs of_scene = target_of(candidates, request), config;
    const char *only = request->options.only;
    spc_error error;

    if ((only != NULL && strcmp(only, trial->template_name) != 0) ||
        !spc__allow_has(&request->ctx->allow, request->conv->pass,
                        trial->template_name))
        return false;
    out->tpl = spc__library_find(candidates->library, trial->template_name);
    if (out->tpl == NULL ||
        strcmp(spc__template_hash(out->tpl), trial->template_hash) != 0)
        return false;
    out->config = trial->config;
    out->launch = trial->launch;
    out->admitted = true;
    out->is_default =
        spc__template_default(&config, out->tpl, &candidates->problem,
                              &of_scene, &error) == SPC_OK &&
        spc__attrs_equal(&config, &trial->config);
    return true;
}

spc_status spc__candidates_tried(spc__candidates *out,
                                 const spc__request *request,
                                 const spc__trial *trials, int count)
{
    spc__space *space = calloc(1, sizeof(*space));
    spc__candidate *list = calloc((size_t)count + 1, sizeof(*list));
    spc_status status = spc__candidates_begin(out, request);

    if (space == NULL || list == NULL) {
        free(space);
        free(list);
        return spc__fail_memory(request->error, sizeof(*list));
    }
    /* From here on spc__candidates_release() frees both. */
    space->candidates = list;
    out->space = space;
    for (int i = 0; i < count && status == SPC_OK; i++)
        if (trials[i].status == SPC__TRIAL_OK &&
            take_trial(&list[space->count], out, request, &trials[i]))
            space->admitted = ++space->count;
    return status == SPC_OK ? make_entries(out, request->error) : status;
}

/* ---- life ---------------------------------------------------------------- */

static void release_entry(spc__entry *entry)
{
    free(entry->config);
    free(entry->source);
    free(entry->code);
    for (int s = 0; s < SPC__SCENES_MAX; s++)
        free(entry->timings[s].all);
}

void spc__candidates_release(spc__candidates *candidates)
{
    for (int i = 0; i < candidates->count; i++)
        release_entry(&candidates->entries[i]);
    free(candidates->entries);
    free(candidates->by_config);
    spc__space_free(candidates->space);
}

/* ---- finding ------------------------------------------------------------- */

spc__entry *spc__candidates_find(const spc__candidates *candidates,
                                 const char *template_name, const char *config)
{
    int low = 0, high = candidates->count;

    while (low < high) {
        int middle = (low + high) / 2;
        spc__entry *entry = candidates->by_config[middle];
        int order = compare(template_name, config, entry);
        if (order == 0)
            return entry;
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return NULL;
}

const spc__entry *spc__candidates_original(const spc__candidates *candidates,
                                           const spc__entry *entry)
{
    for (int i = 0; i < candidates->count; i++) {
        const spc__entry *other = &candidates->entries[i];
        /* A twin is itself a copy, so the note names the original. */
        if (other != entry && !other->is_duplicate &&
            strcmp(other->identity, entry->identity) == 0)
            return other;
    }
    return NULL;
}

const spc__entry *spc__candidates_model(const spc__candidates *candidates,
                                        const spc__entry *entry)
{
    const spc__entry *found = NULL;

    for (int i = 0; i < candidates->count; i++) {
        const spc__entry *other = &candidates->entries[i];
        if (other == entry || strcmp(other->body, entry->body) != 0)
            continue;
        /* Prefers existing code to code that is still being compiled. */
        if (other->code != NULL)
            return other;
        if (other->state == SPC__COMPILING)
            found = other;
    }
    return found;
}

/* ---- one of them --------------------------------------------------------- */

void spc__entry_fail(spc__entry *entry, spc__trial_status status,
                     const char *note)
{
    entry->state = SPC__FAILED;
    entry->trial.status = status;
    snprintf(entry->trial.note, sizeof(entry->trial.note), "%.190s", note);
}

double spc__entry_score(const spc__entry *entry, int scenes)
{
    double logs = 0;

    for (int s = 0; s < scenes; s++)
        /* Uses the geometric mean, so that only ratios count and a large scene
         * does not dominate. */
        logs += log(entry->timings[s].median_us);
    return exp(logs / scenes);
}

/* ---- reading the space --------------------------------------------------- */

/* Renders number i of the space, counted as the list stage reports it. */
static spc_status render_one(spc__buf *source,
                             const spc__candidates *candidates, int i,
                             spc_error *error)
{
    const spc__space *space = candidates->space;

    if (i < 0 || i >= space->count)
        return spc__fail(error, SPC_EINVAL,
                         "there is no candidate %d: expected 0 to %d", i,
                         space->count - 1);
    const spc__candidate *candidate = &space->candidates[i];
    if (!candidate->admitted)
        return spc__fail(error, SPC_EUNSUPPORTED,
                         "candidate %d is refused by: %s", i, candidate->why);
    return spc__template_render(source, candidate->tpl, &candidates->problem,
                                &candidates->target, &candidate->config, error);
}

spc_status spc_candidate_render(char **out, spc_ctx *ctx, const spc_conv *conv,
                                const char *target, int i)
{
    spc_tune_options options = SPC_TUNE_OPTIONS_INIT;
    spc_error *error = spc__error_of(ctx);
    spc__buf source = SPC__BUF_INIT;
    spc__candidates candidates;
    spc__request request;
    spc_status status =
        spc__need(error, __func__, "out", out, "ctx", ctx, "conv", conv, NULL);

    if (out != NULL)
        *out = NULL;
    if (status != SPC_OK)
        return status;
    options.target = target;
    spc__request_init(&request, ctx, conv, NULL, 0, &options);
    if ((status = spc__candidates_open(&candidates, &request)) == SPC_OK)
        status = render_one(&source, &candidates, i, error);
    if (status == SPC_OK && (*out = spc__buf_detach(&source)) == NULL)
        status = spc__fail_memory(error, 1);
    spc__buf_release(&source);
    spc__candidates_release(&candidates);
    return status;
}
