/* SPDX-License-Identifier: Apache-2.0 */
/* space.c - enumerates every candidate of every template for one problem. */
#include "compiler/space.h"

#include "base/error.h"
#include "compiler/internal.h"
#include <lauxlib.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Constraints counted separately, plus one for the target's limits. */
enum { MOST_CONSTRAINTS = 64 };

/* The constraint that refused the most candidates, used to explain an empty
 * space. */
typedef struct culprit {
    int count;
    int candidate; /* a candidate that was refused for this reason */
    int total;     /* configurations of that template */
} culprit;

typedef struct builder {
    spc__space *space;
    culprit worst;
    spc_status status; /* first template error, if any */
    spc_error fault;
} builder;

/* ---- one template -------------------------------------------------------- */

/* Makes room for `more` candidates, which may move the list. */
static spc__candidate *reserve(lua_State *L, spc__space *space, int more)
{
    size_t count = (size_t)space->count + (size_t)more;
    spc__candidate *list =
        realloc(space->candidates, count * sizeof(space->candidates[0]));
    if (list == NULL)
        luaL_error(L, "out of memory for %d candidates", (int)count);
    space->candidates = list;
    return list + space->count;
}

static void note_refusal(builder *build, int *counts, int which, int total)
{
    /* All further constraints share the last counter. */
    which = which < MOST_CONSTRAINTS ? which : MOST_CONSTRAINTS;
    counts[which]++;
    if (counts[which] > build->worst.count)
        build->worst = (culprit){counts[which], build->space->count, total};
}

/* Checks the i-th configuration, which becomes the last candidate. */
static void add_candidate(lua_State *L, builder *build,
                          const spc__domains *domains, int i,
                          const spc__attrs *favourite, int *counts, int total)
{
    const spc__question *question = lua_touserdata(L, SPC__AT_QUESTION);
    spc__space *space = build->space;
    spc__candidate *candidate = &space->candidates[space->count];
    spc_error why;
    int which;

    candidate->tpl = question->tpl;
    candidate->launch.count = 0;
    candidate->why[0] = '\0';
    spc__domains_config(&candidate->config, domains, i);
    candidate->is_default = spc__attrs_equal(&candidate->config, favourite);
    candidate->admitted = spc__session_admits(L, &candidate->config,
                                              &candidate->launch, &which, &why);
    if (!candidate->admitted) {
        snprintf(candidate->why, sizeof(candidate->why), "%.191s", why.text);
        note_refusal(build, counts, which, total);
    }
    space->admitted += candidate->admitted;
    space->count++;
}

/* Adds all configurations of one template, admitted or not. */
static int ask_space(lua_State *L)
{
    spc__question *question = spc__session_open(L);
    builder *build = question->more;
    int counts[MOST_CONSTRAINTS + 1] = {0};
    spc__attrs favourite;

    if (!spc__session_accepts(L, question->error)) {
        question->status = SPC_EUNSUPPORTED;
        return 0;
    }
    spc__domains_read(L, &question->domains);
    int product = spc__domains_product(&question->domains);
    if (product < 0)
        luaL_error(L, "more than %d configurations", SPC__MOST_CONFIGS);
    spc__session_default(L, &question->domains, &favourite);
    reserve(L, build->space, product);
    for (int i = 0; i < product; i++) {
        /* The limits are meant for one configuration, and there may be
         * thousands. */
        spc__sandbox_refill(spc__sandbox_of(L));
        add_candidate(L, build, &question->domains, i, &favourite, counts,
                      product);
    }
    return 0;
}

/* ---- all templates ------------------------------------------------------- */

/* Notes that a template takes no part, and why. */
static spc_status add_refusal(spc__space *space, const spc__template *tpl,
                              bool is_mistake, const char *why,
                              spc_error *error)
{
    struct spc__refusal *list = realloc(
        space->refusals, ((size_t)space->refusal_count + 1) * sizeof(*list));
    if (list == NULL)
        return spc__fail_memory(error, sizeof(*list));
    space->refusals = list;
    struct spc__refusal *refusal = &list[space->refusal_count++];
    refusal->template_name = spc__template_name(tpl);
    refusal->is_mistake = is_mistake;
    snprintf(refusal->why, sizeof(refusal->why), "%.191s", why);
    return SPC_OK;
}

/* A template with an error must not affect the others: it becomes a refusal.
 * Its error is returned only if no other template can serve. */
static spc_status add_template(builder *build, spc__template *tpl,
                               const spc__attrs *problem,
                               const spc__attrs *target, spc_error *error)
{
    spc_error why;
    int count = build->space->count, admitted = build->space->admitted;
    spc__question question = {.tpl = tpl,
                              .problem = problem,
                              .target = target,
                              .more = build,
                              .error = &why};

    spc_status status = spc__ask(&question, ask_space);
    if (status == SPC_OK)
        return SPC_OK;
    /* The template is not at fault for these, and they end the search. */
    if (status == SPC_ENOMEM || status == SPC_EINTERRUPTED)
        return spc__fail(error, status, "%s", why.text);
    build->space->count = count; /* drops the candidates added before the
                                  * error */
    build->space->admitted = admitted;
    bool is_mistake = status != SPC_EUNSUPPORTED;
    if (is_mistake && build->status == SPC_OK) {
        build->status = status;
        build->fault = why;
    }
    return add_refusal(build->space, tpl, is_mistake, why.text, error);
}

/* True for a template of this role and kind of device; `only` names a single
 * one. */
static bool is_wanted(const spc__template *tpl, const char *role,
                      const char *only, const char *device)
{
    return strcmp(spc__template_role(tpl), role) == 0 &&
           strcmp(spc__template_device(tpl), device) == 0 &&
           (only == NULL || strcmp(spc__template_name(tpl), only) == 0);
}

/* Reports that the template exists, but for another kind of device. */
static spc_status fail_device(const spc__template *tpl, const char *device,
                              spc_error *error)
{
    bool is_cuda = strcmp(spc__template_device(tpl), "cuda") == 0;

    return spc__fail(error, SPC_EUNSUPPORTED,
                     "template '%s' is not for device '%s': use %s",
                     spc__template_name(tpl), device,
                     is_cuda ? "a GPU, or 'sim' without one" : "'cpu'");
}

/* Reports an unknown template name and lists those of this role and device. */
static spc_status fail_name(spc__library *library, const char *role,
                            const char *only, const spc__attrs *target,
                            spc_error *error)
{
    const char *device = spc__attrs_text(target, "device", "");
    const spc__template *tpl =
        only != NULL ? spc__library_find(library, only) : NULL;
    spc__buf list = SPC__BUF_INIT;

    if (tpl != NULL && strcmp(spc__template_role(tpl), role) == 0)
        return fail_device(tpl, device, error);
    for (int i = 0; i < spc__library_count(library); i++) {
        tpl = spc__library_at(library, i);
        if (is_wanted(tpl, role, NULL, spc__target_templates(target)))
            spc__buf_printf(&list, "%s%s", list.length > 0 ? ", " : "",
                            spc__template_name(tpl));
    }
    if (list.length == 0)
        spc__fail(error, SPC_EUNSUPPORTED,
                  "there is no template of role '%s' for device '%s'", role,
                  device);
    else
        spc__fail(error, SPC_EUNSUPPORTED,
                  "there is no template '%s' of role '%s' for device '%s', "
                  "only %s",
                  only, role, device, spc__buf_text(&list));
    spc__buf_release(&list);
    return SPC_EUNSUPPORTED;
}

/* Explains why no candidate is left. */
static spc_status explain(const builder *build, spc__library *library,
                          const char *role, const char *only,
                          const spc__attrs *target, spc_error *error)
{
    const spc__space *space = build->space;
    spc__buf list = SPC__BUF_INIT;

    if (build->status != SPC_OK)
        return spc__fail(error, build->status, "%s", build->fault.text);
    if (space->count > 0) {
        const spc__candidate *example =
            &space->candidates[build->worst.candidate];
        return spc__fail(error, SPC_EUNSUPPORTED,
                         "no configuration is left: %d of %d of '%s' were "
                         "refused by: %s",
                         build->worst.count, build->worst.total,
                         spc__template_name(example->tpl), example->why);
    }
    if (space->refusal_count == 0)
        return fail_name(library, role, only, target, error);
    for (int i = 0; i < space->refusal_count; i++)
        spc__buf_printf(&list, "%s '%s': %s", i > 0 ? ";" : "",
                        space->refusals[i].template_name,
                        space->refusals[i].why);
    spc__fail(error, SPC_EUNSUPPORTED, "no template takes the problem:%s",
              spc__buf_text(&list));
    spc__buf_release(&list);
    return SPC_EUNSUPPORTED;
}

spc_status spc__space_create(spc__space **out, spc__library *library,
                             const char *role, const char *only,
                             const spc__attrs *problem,
                             const spc__attrs *target, spc_error *error)
{
    const char *device = spc__target_templates(target);
    spc_status status = SPC_OK;

    *out = NULL;
    spc__space *space = calloc(1, sizeof(*space));
    if (space == NULL)
        return spc__fail_memory(error, sizeof(*space));
    builder build = {.space = space};
    for (int i = 0; i < spc__library_count(library) && status == SPC_OK; i++) {
        spc__template *tpl = spc__library_at(library, i);
        if (is_wanted(tpl, role, only, device))
            status = add_template(&build, tpl, problem, target, error);
    }
    if (status == SPC_OK && space->admitted == 0)
        status = explain(&build, library, role, only, target, error);
    if (status == SPC_OK) {
        *out = space;
        space = NULL;
    }
    spc__space_free(space);
    return status;
}

void spc__space_free(spc__space *space)
{
    if (space == NULL)
        return;
    free(space->candidates);
    free(space->refusals);
    free(space);
}
