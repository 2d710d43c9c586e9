/* SPDX-License-Identifier: Apache-2.0 */
/* corners.c - selects the candidates of a layer that cover its space best. */
#include "command/verify/corners.h"
#include "spc/tune.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the space ----------------------------------------------------------- */

/* Finds value `p` of "a=1,b=2"; false past the last. */
static bool value_at(char out[16], const char *config, int p)
{
    for (; p > 0 && config != NULL; p--) {
        config = strchr(config, ',');
        config += config != NULL;
    }
    if (config == NULL || (config = strchr(config, '=')) == NULL)
        return false;
    snprintf(out, 16, "%.*s", (int)strcspn(config + 1, ","), config + 1);
    return true;
}

static int find_value(const corner_template *t, int p, const char *value)
{
    int i = 0;

    while (i < t->value_count[p] && strcmp(t->values[p][i], value) != 0)
        i++;
    return i;
}

/*
 * Reads refused candidates too: only then do each parameter's values appear in
 * the order of the declaration.
 */
static void note_values(corner_template *t, const char *config)
{
    char value[16];

    for (int p = 0; p < CORNER_PARAMETERS && value_at(value, config, p); p++) {
        int i = find_value(t, p, value);
        if (i == t->value_count[p] && i < CORNER_VALUES) {
            memcpy(t->values[p][i], value, sizeof(value));
            t->value_count[p]++;
        }
        t->parameters = p + 1 > t->parameters ? p + 1 : t->parameters;
    }
}

/* Returns the last template if it has this name, else a new one, as candidates
 * come template by template. NULL if there are too many. */
static corner_template *template_of(corners *list, const char *name)
{
    corner_template *last = list->templates + list->template_count - 1;

    if (list->template_count > 0 && strcmp(last->name, name) == 0)
        return last;
    if (list->template_count == CORNER_TEMPLATES)
        return NULL;
    last = &list->templates[list->template_count++];
    snprintf(last->name, sizeof(last->name), "%s", name);
    last->first = list->count;
    return last;
}

/* Appends a candidate; false without memory. */
static bool add_candidate(corners *list, const spc_trial *trial)
{
    size_t length = strlen(trial->template_name) + strlen(trial->config) + 2;

    if ((list->count & (list->count - 1)) == 0) { /* full at powers of two */
        size_t capacity = list->count > 0 ? 2 * (size_t)list->count : 1;
        corner_candidate *more = realloc(list->at, capacity * sizeof(*more));
        if (more == NULL)
            return false;
        list->at = more;
    }
    char *name = malloc(length);
    if (name == NULL)
        return false;
    snprintf(name, length, "%s %s", trial->template_name, trial->config);
    list->at[list->count++] =
        (corner_candidate){name, trial->is_default, false};
    return true;
}

/* Adds a name to the list; true if it is new. */
static bool is_new(corner_names *names, const char *name)
{
    int i = 0;

    while (i < names->count && strcmp(names->at[i], name) != 0)
        i++;
    if (i < names->count || i == CORNER_TEMPLATES)
        return false;
    snprintf(names->at[names->count++], sizeof(names->at[0]), "%s", name);
    return true;
}

static bool has_name(const corner_names *names, const char *name)
{
    for (int i = 0; i < names->count; i++)
        if (strcmp(names->at[i], name) == 0)
            return true;
    return false;
}

/* Called for each candidate of the space, in its order. */
static void collect(const spc_trial *trial, void *payload)
{
    corners *list = payload;
    bool admitted = strcmp(trial->status, "ok") == 0;

    if (list->names != NULL)
        is_new(list->names, trial->template_name);
    if (!admitted && trial->config[0] == '\0')
        return; /* the template refuses the layer as a whole */
    corner_template *t = template_of(list, trial->template_name);
    if (t == NULL) {
        list->failed = true;
        return;
    }
    note_values(t, trial->config);
    if (!admitted)
        return;
    list->failed |= !add_candidate(list, trial);
    t->count = list->count - t->first;
}

/* Adds the candidates of a template, or of all if it is NULL. */
static spc_status list_template(corners *list, spc_ctx *ctx,
                                const spc_conv *layer, const char *name)
{
    spc_tune_options options = SPC_TUNE_OPTIONS_INIT;
    spc_tune_report report;

    options.stage = SPC_STAGE_LIST;
    options.only = name;
    options.on_trial = collect;
    options.payload = list;
    spc_status status = spc_tune(&report, ctx, layer, NULL, 0, &options);
    if (status == SPC_OK && list->failed)
        return cli_fail(SPC_ENOMEM, "out of memory");
    return status;
}

static spc_status start(corners *out)
{
    memset(out, 0, sizeof(*out));
    out->templates = calloc(CORNER_TEMPLATES, sizeof(*out->templates));
    return out->templates != NULL ? SPC_OK
                                  : cli_fail(SPC_ENOMEM, "out of memory");
}

spc_status corners_list(corners *out, spc_ctx *ctx, const spc_conv *layer,
                        const char *only)
{
    spc_status status = start(out);

    return status != SPC_OK ? status : list_template(out, ctx, layer, only);
}

spc_status corners_templates(corner_names *out, spc_ctx *ctx,
                             const spc_conv *layer)
{
    corners list;
    spc_status status = start(&list);

    list.names = out;
    if (status == SPC_OK)
        status = list_template(&list, ctx, layer, NULL);
    corners_release(&list);
    return status;
}

spc_status corners_list_unseen(corners *out, spc_ctx *ctx,
                               const spc_conv *layer, corner_names *names,
                               const corner_names *seen)
{
    spc_status status = start(out);

    if (status == SPC_OK && names->count == 0) {
        out->names = names;
        return list_template(out, ctx, layer, NULL);
    }
    for (int i = 0; i < names->count && status == SPC_OK; i++)
        if (!has_name(seen, names->at[i])) {
            status = list_template(out, ctx, layer, names->at[i]);
            if (status == SPC_EUNSUPPORTED) /* the template refuses the layer */
                status = SPC_OK;
        }
    return status;
}

void corners_release(corners *list)
{
    for (int i = 0; i < list->count; i++)
        free(list->at[i].name);
    free(list->at);
    free(list->templates);
    memset(list, 0, sizeof(*list));
}

/* ---- distance from the centre -------------------------------------------- */

static const char *config_of(const corner_candidate *candidate)
{
    return strchr(candidate->name, ' ') + 1;
}

/* Counts the parameters with the first or the last of their values. */
static int count_ends(const corner_template *t, const corner_candidate *of)
{
    char value[16];
    int ends = 0;

    for (int p = 0; p < t->parameters && value_at(value, config_of(of), p);
         p++) {
        int i = find_value(t, p, value);
        ends += i == 0 || i == t->value_count[p] - 1;
    }
    return ends;
}

/* Counts the parameters in which two candidates differ. */
static int count_differences(const corner_template *t,
                             const corner_candidate *a,
                             const corner_candidate *b)
{
    char one[16], two[16];
    int differ = 0;

    for (int p = 0; p < t->parameters; p++)
        differ += value_at(one, config_of(a), p) &&
                  value_at(two, config_of(b), p) && strcmp(one, two) != 0;
    return differ;
}

static corner_candidate *default_of(const corners *list,
                                    const corner_template *t)
{
    for (int i = t->first; i < t->first + t->count; i++)
        if (list->at[i].is_default)
            return &list->at[i];
    return NULL;
}

/* ---- choosing ------------------------------------------------------------ */

static spc_status take(cli_list *out, corner_candidate *candidate)
{
    candidate->taken = true;
    return cli_append(out, candidate->name);
}

/*
 * Returns the default; or any candidate, to cover the values between; or, half
 * of the time, the most extreme of a few random ones. NULL if all of them were
 * taken.
 */
static corner_candidate *draw_from(corners *list, const corner_template *t,
                                   spc__random *random)
{
    uint32_t way = spc__random_below(random, 4);
    int draws = way < 2 ? 5 : 1;
    corner_candidate *best = NULL;

    if (way == 3 && (best = default_of(list, t)) != NULL)
        return best->taken ? NULL : best;

    for (int i = 0; i < draws && t->count > 0; i++) {
        corner_candidate *drawn =
            &list->at[t->first +
                      (int)spc__random_below(random, (uint32_t)t->count)];
        if (!drawn->taken &&
            (best == NULL || count_ends(t, drawn) > count_ends(t, best)))
            best = drawn;
    }
    return best;
}

spc_status corners_draw(cli_list *out, corners *list, int wanted,
                        spc__random *random)
{
    int templates = list->template_count, misses = 0;
    int at =
        templates > 0 ? (int)spc__random_below(random, (uint32_t)templates) : 0;
    spc_status status = SPC_OK;

    while (wanted > 0 && misses < 2 * templates && status == SPC_OK) {
        corner_candidate *drawn =
            draw_from(list, &list->templates[at++ % templates], random);
        misses = drawn == NULL ? misses + 1 : 0;
        if (drawn == NULL)
            continue;
        status = take(out, drawn);
        wanted--;
    }
    return status;
}

spc_status corners_unseen(cli_list *out, corners *list, corner_names *seen,
                          spc__random *random)
{
    spc_status status = SPC_OK;

    for (int n = 0; n < list->template_count && status == SPC_OK; n++) {
        const corner_template *t = &list->templates[n];
        if (t->count > 0 && is_new(seen, t->name))
            status = take(out, draw_from(list, t, random));
    }
    return status;
}

spc_status corners_all(cli_list *out, corners *list)
{
    spc_status status = SPC_OK;

    for (int n = 0; n < list->template_count; n++) {
        const corner_template *t = &list->templates[n];
        const corner_candidate *own = default_of(list, t);
        for (int i = t->first; i < t->first + t->count && status == SPC_OK;
             i++) {
            corner_candidate *one = &list->at[i];
            if (one->is_default || count_ends(t, one) == t->parameters ||
                (own != NULL && count_differences(t, one, own) == 1))
                status = take(out, one);
        }
    }
    return status;
}
