/* SPDX-License-Identifier: Apache-2.0 */
/*
 * space.c - spctune space: lists the candidates, and what refused the others.
 */
#include "command/space.h"

#include "base/plural.h"
#include "base/text/scan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct args {
    space_view view;
    const char *render; /* a number as text, since 0 is valid */
};

#define AT(member) offsetof(struct args, member)

static const cli_option options[] = {
    {'t', "target", "TARGET", CLI_TEXT, AT(view.target),
     "the space on this GPU, present or not: sm_90a, sm_80, ..."},
    {0, "only", "TEMPLATE", CLI_TEXT, AT(view.only),
     "only candidates of this template"},
    {0, "all", NULL, CLI_FLAG, AT(view.all),
     "list every candidate, and what refused it"},
    {'a', "admitted", NULL, CLI_FLAG, AT(view.admitted),
     "list the candidates that were not refused"},
    {0, "render", "N", CLI_TEXT, AT(render),
     "print the source of candidate N instead"},
    {0, NULL, NULL, CLI_FLAG, 0, NULL},
};

/* Prints the source of one candidate. Its number counts the whole space, so
 * --only would shift it. */
static spc_status render(cli_job *job, const spc_conv *layer, const char *text)
{
    const struct args *args = job->args;
    char *source = NULL;
    int64_t number;

    if (!spc__scan_integer(&number, spc__span_of(args->render), 0, 1 << 30))
        return cli_fail(SPC_EINVAL,
                        "--render: '%s' is not the number of a candidate, as "
                        "'spctune space --all' prints it",
                        args->render);
    if (args->view.only != NULL)
        return cli_fail(SPC_EINVAL, "--render counts the candidates of all "
                                    "templates: leave out --only");
    spc_status status = spc_candidate_render(&source, job->ctx, layer,
                                             args->view.target, (int)number);
    if (status != SPC_OK)
        return cli_fail(status, "%s: %s", text, spc_ctx_error(job->ctx));
    if (job->json != NULL)
        spc__json_text(job->json, NULL, source);
    else
        fputs(source, stdout);
    free(source);
    return SPC_OK;
}

/* Returns the position of a template in a listing of all templates. */
struct position {
    const char *name;
    int before;
    bool found;
};

static void count_before(const spc_trial *trial, void *payload)
{
    struct position *position = payload;

    position->found |= strcmp(trial->template_name, position->name) == 0;
    position->before += !position->found;
}

/*
 * The number of the first candidate of a listing: they are counted over all
 * templates, so that --render has the same meaning with and without --only.
 */
static spc_status find_first(int *out, cli_job *job, const spc_conv *layer,
                             spc_tune_options tune)
{
    struct position position = {.name = tune.only};
    spc_tune_report report;
    spc_status status = SPC_OK;

    if (tune.only != NULL) {
        tune.only = NULL;
        tune.on_trial = count_before;
        tune.payload = &position;
        status = spc_tune(&report, job->ctx, layer, NULL, 0, &tune);
    }
    *out = position.before;
    return status;
}

/* Templates that refuse the whole layer come last, without a number. */
static void print_space(const space_view *view, const trials *found,
                        const spc_tune_report *report, int first,
                        const char *text)
{
    static const char *const titles[] = {">number", "candidate", "is",
                                         "refused by", NULL};
    table out;

    printf("%s: %s, %d refused\n", text,
           spc__count(report->candidates, "candidate"), report->refused);
    if (!view->all && !view->admitted) {
        space_print_summary(found);
        return;
    }
    table_init(&out, titles);
    for (int i = 0; i < found->count; i++) {
        const spc_trial *trial = &found->at[i];
        bool whole = trial->config[0] == '\0' && !trial_is_ok(trial);
        if (view->admitted && trial_is_refused(trial))
            continue;
        if (whole)
            table_blank(&out);
        else
            table_cell(&out, "%d", first + i);
        table_cell(&out, "%s %s", trial->template_name, trial->config);
        table_cell(&out, "%s", trial->is_default ? "default" : "");
        table_cell(&out, "%s", trial->note);
    }
    table_print(&out, stdout);
    table_release(&out);
}

spc_status space_list(cli_job *job, const spc_conv *layer, const char *text,
                      const space_view *view)
{
    spc_tune_options tune = SPC_TUNE_OPTIONS_INIT;
    spc_tune_report report;
    trials found;
    int first = 0;

    trials_init(&found, job->self);
    tune.stage = SPC_STAGE_LIST;
    tune.target = view->target;
    tune.only = view->only;
    tune.on_trial = trials_collect;
    tune.payload = &found;
    spc_status status = spc_tune(&report, job->ctx, layer, NULL, 0, &tune);
    if (status == SPC_OK)
        status = find_first(&first, job, layer, tune);
    if (status != SPC_OK) {
        cli_fail(status, "%s: %s", text, spc_ctx_error(job->ctx));
    } else if (job->json != NULL) {
        spc__json_object(job->json, NULL);
        spc__json_text(job->json, "layer", text);
        spc__json_int(job->json, "candidates", report.candidates);
        spc__json_int(job->json, "refused", report.refused);
        spc__json_int(job->json, "first", first);
        trials_json(job->json, "space", &found);
        spc__json_end_object(job->json);
    } else {
        print_space(view, &found, &report, first, text);
    }
    trials_release(&found);
    return status;
}

static spc_status show_layer(cli_job *job, const spc_conv *layer,
                             const char *text)
{
    const struct args *args = job->args;

    return args->render != NULL ? render(job, layer, text)
                                : space_list(job, layer, text, &args->view);
}

static spc_status command_space(cli *self, void *args)
{
    return job_run(self, args, NULL, show_layer);
}

const cli_command cli_space = {
    .name = "space",
    .operands = "LAYER...",
    .summary = "the search space of a layer: templates and candidates",
    .more = "Enumerates every configuration of every template for the device, "
            "or for a\nGPU that is not here (--target). Prints a row for each "
            "template: how many\ncandidates it has, how many of them its "
            "constraints admit, and which constraint\nrefuses most. --all "
            "lists every candidate with what refused it. --render prints\nthe "
            "source of one candidate, as the compiler gets it.",
    .options = options,
    .args_bytes = sizeof(struct args),
    .run = command_space,
};
