/* SPDX-License-Identifier: Apache-2.0 */
/* trials.c - collects and prints the candidates that the library reports. */
#include "command/tune/trials.h"
#include "base/plural.h"

#include <stdlib.h>
#include <string.h>

void trials_init(trials *t, const cli *self)
{
    memset(t, 0, sizeof(*t));
    progress_init(&t->progress, self);
}

static void free_texts(spc_trial *trial)
{
    free((char *)trial->template_name);
    free((char *)trial->config);
    free((char *)trial->status);
    free((char *)trial->note);
}

void trials_release(trials *t)
{
    for (int i = 0; i < t->count; i++)
        free_texts(&t->at[i]);
    free(t->at);
    memset(t, 0, sizeof(*t));
}

void trials_collect(const spc_trial *trial, void *payload)
{
    trials *t = payload;

    if ((t->count & (t->count - 1)) == 0) { /* full at powers of two */
        size_t capacity = t->count > 0 ? 2 * (size_t)t->count : 1;
        spc_trial *more = realloc(t->at, capacity * sizeof(*more));
        if (more == NULL) {
            t->failed = true;
            return;
        }
        t->at = more;
    }
    spc_trial *kept = &t->at[t->count];
    *kept = *trial;
    /* The library's texts are valid during this call only. */
    kept->template_name = strdup(trial->template_name);
    kept->config = strdup(trial->config);
    kept->status = strdup(trial->status);
    kept->note = strdup(trial->note);
    if (kept->template_name && kept->config && kept->status && kept->note) {
        t->count++;
        return;
    }
    free_texts(kept);
    t->failed = true;
}

bool trials_want(const char *template_name, const char *config, void *payload)
{
    const trials *found = payload;
    char name[320];

    snprintf(name, sizeof(name), "%s %s", template_name, config);
    for (int i = 0; i < found->wanted->count; i++)
        if (strcmp(found->wanted->at[i], name) == 0)
            return true;
    return false;
}

void trials_progress(const spc_progress *state, void *payload)
{
    trials *t = payload;

    progress_show(&t->progress, state);
}

bool trial_is_ok(const spc_trial *trial)
{
    return strcmp(trial->status, "ok") == 0;
}

bool trial_is_refused(const spc_trial *trial)
{
    return strcmp(trial->status, "constraint") == 0;
}

bool trial_is_failure(const spc_trial *trial)
{
    return !trial_is_ok(trial) && !trial_is_refused(trial);
}

bool trial_is_template(const spc_trial *trial)
{
    return strcmp(trial->status, "template") == 0 && trial->config[0] == '\0';
}

void trial_print_failure(const spc_trial *trial)
{
    printf("%s: %s%s%s: %s\n", trial->status, trial->template_name,
           trial->config[0] != '\0' ? " " : "", trial->config, trial->note);
}

spc_status trials_fail(const trials *t, spc_status other, int candidates,
                       const char *how, const char *label)
{
    spc_status status = SPC_ETEMPLATE;
    int failed = 0, templates = 0;
    char more[48] = "";

    for (int i = 0; i < t->count; i++) {
        const spc_trial *trial = &t->at[i];
        if (!trial_is_failure(trial))
            continue;
        /* Mistakes of templates have a status of their own only if nothing else
         * has failed: otherwise the caller's status is more serious. */
        if (strcmp(trial->status, "template") != 0)
            status = other;
        templates += trial_is_template(trial);
        failed += !trial_is_template(trial);
    }
    if (templates > 0)
        snprintf(more, sizeof(more), " and %d of the templates", templates);
    return cli_fail(status, "%s: %d of %s%s %s", label, failed,
                    spc__count(candidates, "candidate"), more, how);
}

/* Sorts correct candidates first, finalists before others, measured ones before
 * the rest, then by time. Names decide last, so that the order is the same in
 * every run. */
static int by_merit(const void *a, const void *b)
{
    const spc_trial *one = a, *two = b;

    if (trial_is_ok(one) != trial_is_ok(two))
        return trial_is_ok(one) ? -1 : 1;
    if (one->is_finalist != two->is_finalist)
        return one->is_finalist ? -1 : 1;
    if ((one->median_us > 0) != (two->median_us > 0))
        return one->median_us > 0 ? -1 : 1;
    if (one->median_us != two->median_us)
        return one->median_us < two->median_us ? -1 : 1;
    int order = strcmp(one->template_name, two->template_name);
    return order != 0 ? order : strcmp(one->config, two->config);
}

void trials_sort(trials *t)
{
    if (t->count > 0)
        qsort(t->at, (size_t)t->count, sizeof(*t->at), by_merit);
}

/* Leaves the cell empty for 0: a processor's kernels have no such figures. */
static void add_count(table *t, int count)
{
    if (count > 0)
        table_cell(t, "%d", count);
    else
        table_blank(t);
}

static void add_row(table *t, const spc_trial *trial)
{
    table_cell(t, "%s %s%s", trial->template_name, trial->config,
               trial->is_default ? " (default)" : "");
    table_us(t, trial->median_us);
    table_us(t, trial->spread_us);
    table_us(t, trial->cold_us);
    add_count(t, trial->samples);
    if (trial->verified)
        table_cell(t, "%.2g", trial->error);
    else
        table_blank(t);
    add_count(t, trial->registers);
    add_count(t, trial->shared_bytes);
    if (trial_is_ok(trial))
        table_cell(t, "%s",
                   trial->from_database ? "known"
                   : trial->is_finalist ? "finalist"
                                        : "");
    else
        table_cell(t, "%s: %s", trial->status, trial->note);
}

void trials_print(const trials *t, int most)
{
    static const char *const titles[] = {
        "candidate", ">us",         ">-+-",     ">--cold us", ">--samples",
        ">--error",  ">-registers", ">-shared", "note",       NULL};
    table out;
    int shown = 0;

    table_init(&out, titles);
    for (int i = 0; i < t->count && (most == 0 || shown < most); i++) {
        /* Refused candidates and templates are not results: the report counts
         * the refused ones, and prints templates on separate lines. */
        if (trial_is_refused(&t->at[i]) || trial_is_template(&t->at[i]))
            continue;
        add_row(&out, &t->at[i]);
        shown++;
    }
    if (shown > 0)
        table_print(&out, stdout);
    table_release(&out);
}

static void write_trial(spc__json *json, const spc_trial *trial)
{
    spc__json_object(json, NULL);
    spc__json_text(json, "template", trial->template_name);
    spc__json_text(json, "config", trial->config);
    spc__json_text(json, "status", trial->status);
    spc__json_text(json, "note", trial->note);
    spc__json_bool(json, "default", trial->is_default);
    spc__json_bool(json, "known", trial->from_database);
    spc__json_bool(json, "finalist", trial->is_finalist);
    spc__json_bool(json, "verified", trial->verified);
    if (trial->verified)
        spc__json_real(json, "error", trial->error);
    if (trial->samples > 0) {
        spc__json_real(json, "median_us", trial->median_us);
        spc__json_real(json, "spread_us", trial->spread_us);
        spc__json_real(json, "cold_us", trial->cold_us);
        spc__json_int(json, "samples", trial->samples);
    }
    spc__json_int(json, "registers", trial->registers);
    spc__json_int(json, "spill_bytes", trial->spill_bytes);
    spc__json_int(json, "shared_bytes", trial->shared_bytes);
    spc__json_real(json, "compile_ms", trial->compile_ms);
    spc__json_end_object(json);
}

void trials_json(spc__json *json, const char *key, const trials *t)
{
    spc__json_array(json, key);
    for (int i = 0; i < t->count; i++)
        write_trial(json, &t->at[i]);
    spc__json_end_array(json);
}
