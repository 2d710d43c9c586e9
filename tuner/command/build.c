/* SPDX-License-Identifier: Apache-2.0 */
/*
 * build.c - spctune build: compiles candidates for GPUs that are not installed.
 */
#include "base/plural.h"
#include "command/layers.h"
#include "command/tune/trials.h"
#include "spc/db.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct args {
    cli_list targets;
    spc_effort effort;
    const char *only;
    bool allow_spills, all, choices;
    cli_list layers, names; /* from choices: each entry is a layer and its
                             * candidate */
};

#define AT(member) offsetof(struct args, member)

static const cli_option options[] = {
    {'t', "target", "LIST", CLI_LIST, AT(targets),
     "what to compile for: sm_90a,sm_80,...; default: the device"},
    {'e', "effort", "quick|normal|exhaustive", CLI_EFFORT, AT(effort),
     "which part of the space; default: exhaustive, all of it"},
    {0, "only", "TEMPLATE", CLI_TEXT, AT(only),
     "only candidates of this template"},
    {0, "allow-spills", NULL, CLI_FLAG, AT(allow_spills),
     "admit also candidates that spill registers"},
    {0, "choices", NULL, CLI_FLAG, AT(choices),
     "the chosen candidate of every layer for which the database has a choice"},
    {'a', "all", NULL, CLI_FLAG, AT(all), "print all candidates"},
    {0, NULL, NULL, CLI_FLAG, 0, NULL},
};

static void defaults(void *to)
{
    struct args *args = to;

    args->effort = SPC_EFFORT_EXHAUSTIVE;
}

/* The result of a build, for JSON or text. */
struct summary {
    int good, refused, failed, spilling_defaults;
    double slowest_ms, total_ms;
};

/* Counts the trials by their fate. Defaults are built even if they spill, so
 * they are counted separately. */
static struct summary summarise(const trials *found)
{
    struct summary sum = {0};

    for (int i = 0; i < found->count; i++) {
        const spc_trial *trial = &found->at[i];
        if (trial_is_ok(trial))
            sum.good++;
        else if (trial_is_refused(trial))
            sum.refused++;
        else
            sum.failed++;
        if (trial_is_ok(trial) && trial->is_default && trial->spill_bytes > 0)
            sum.spilling_defaults++;
        sum.total_ms += trial->compile_ms;
        if (trial->compile_ms > sum.slowest_ms)
            sum.slowest_ms = trial->compile_ms;
    }
    return sum;
}

static void print_all(const trials *found)
{
    static const char *const titles[] = {"candidate", ">registers", ">spilled",
                                         ">-shared",  ">--ms",      "note",
                                         NULL};
    table out;

    table_init(&out, titles);
    for (int i = 0; i < found->count; i++) {
        const spc_trial *trial = &found->at[i];
        table_cell(&out, "%s %s%s", trial->template_name, trial->config,
                   trial->is_default ? " (default)" : "");
        table_cell(&out, "%d", trial->registers);
        table_cell(&out, "%d", trial->spill_bytes);
        table_cell(&out, "%d", trial->shared_bytes);
        table_cell(&out, "%.0f", trial->compile_ms);
        table_cell(&out, "%s%s%s", trial_is_ok(trial) ? "" : trial->status,
                   trial_is_ok(trial) ? "" : ": ", trial->note);
    }
    table_print(&out, stdout);
    table_release(&out);
}

static void print_build(const cli_job *job, const trials *found,
                        const struct summary *sum,
                        const spc_tune_report *report, const char *text,
                        const char *target)
{
    const struct args *args = job->args;

    if (args->all)
        print_all(found);
    for (int i = 0; !args->all && i < found->count; i++)
        if (trial_is_failure(&found->at[i]))
            trial_print_failure(&found->at[i]);
    printf("%s for %s: %d built, %d compiled now, %d refused, %d failed; "
           "compiling took %.0f ms a candidate, %.0f ms at most; %.3g s\n",
           text, target, sum->good, report->compiled, sum->refused, sum->failed,
           report->compiled > 0 ? sum->total_ms / report->compiled : 0.0,
           sum->slowest_ms, report->elapsed_s);
    if (sum->spilling_defaults > 0)
        printf("%s for %s: %s %s registers\n", text, target,
               spc__count(sum->spilling_defaults, "default"),
               spc__either(sum->spilling_defaults, "spills", "spill"));
}

static void write_build(const cli_job *job, const trials *found,
                        const struct summary *sum,
                        const spc_tune_report *report, const char *text,
                        const char *target, spc_status status)
{
    spc__json_object(job->json, NULL);
    spc__json_text(job->json, "layer", text);
    spc__json_text(job->json, "target", target);
    spc__json_int(job->json, "built", sum->good);
    spc__json_int(job->json, "compiled", report->compiled);
    spc__json_int(job->json, "refused", sum->refused);
    spc__json_int(job->json, "failed", sum->failed);
    spc__json_int(job->json, "spilling_defaults", sum->spilling_defaults);
    spc__json_real(job->json, "slowest_ms", sum->slowest_ms);
    spc__json_real(job->json, "elapsed_s", report->elapsed_s);
    trials_json(job->json, "candidates", found);
    if (status != SPC_OK)
        json_error(job->json, status, cli_last_error()->text);
    spc__json_end_object(job->json);
}

/* ---- choices ------------------------------------------------------------- */

/* Adds a choice to the list, and each layer only once. */
static spc_status note_choice(const spc_db_row *row, void *payload)
{
    struct args *args = payload;
    char *layer, *name;

    if (row->choice == NULL)
        return SPC_OK;
    for (int i = 0; i < args->layers.count; i++)
        /* A layer may have a record for each scene and often the same choice in
         * all: it is compiled once. */
        if (strcmp(args->layers.at[i], row->layer) == 0 &&
            strcmp(args->names.at[i], row->choice) == 0)
            return SPC_OK;
    /* Copies: the row is valid during this call only. */
    layer = strdup(row->layer);
    name = strdup(row->choice);
    if (layer != NULL && name != NULL &&
        cli_append(&args->layers, layer) == SPC_OK &&
        cli_append(&args->names, name) == SPC_OK)
        return SPC_OK;
    return cli_fail(SPC_ENOMEM, "out of memory");
}

static bool has(const cli_list *list, const char *text)
{
    for (int i = 0; i < list->count; i++)
        if (strcmp(list->at[i], text) == 0)
            return true;
    return false;
}

/* The chosen layers replace the command's operands. */
static spc_status read_choices(cli *self, struct args *args)
{
    spc_ctx *ctx = NULL;
    spc_status status;

    if (self->operands.count > 0 || args->only != NULL)
        return cli_fail(
            SPC_EINVAL,
            "--choices has its own layers and candidates: omit LAYER");
    if ((status = cli_open(&ctx, self)) == SPC_OK &&
        (status = spc_db_each(ctx, note_choice, args)) != SPC_OK &&
        cli_last_error()->status == SPC_OK)
        cli_fail_ctx(status, ctx);
    spc_ctx_free(ctx);
    for (int i = 0; i < args->layers.count && status == SPC_OK; i++)
        if (!has(&self->operands, args->layers.at[i]))
            status = cli_append(&self->operands, args->layers.at[i]);
    if (status == SPC_OK && self->operands.count == 0)
        status = cli_fail(SPC_ENOTFOUND, "the database has no choice");
    return status;
}

/* The candidates chosen for one layer; *out borrows the texts. */
static spc_status list_chosen(cli_list *out, const struct args *args,
                              const char *layer)
{
    spc_status status = SPC_OK;

    for (int i = 0; i < args->layers.count && status == SPC_OK; i++)
        if (strcmp(args->layers.at[i], layer) == 0)
            status = cli_append(out, args->names.at[i]);
    return status;
}

/* ---- one layer for one target -------------------------------------------- */

/* Builds the candidates of a layer for one target; NULL: the device's own. */
static spc_status build_target(cli_job *job, const spc_conv *layer,
                               const char *text, const char *target)
{
    const struct args *args = job->args;
    spc_tune_options tune = SPC_TUNE_OPTIONS_INIT;
    spc_device_info device;
    spc_tune_report report;
    cli_list chosen = {0};
    trials found;
    char label[256];

    trials_init(&found, job->self);
    if (args->choices && list_chosen(&chosen, args, text) != SPC_OK)
        return SPC_ENOMEM;
    found.wanted = &chosen;
    tune.wants = args->choices ? trials_want : NULL;
    tune.stage = SPC_STAGE_BUILD;
    tune.effort = args->effort;
    tune.only = args->only;
    tune.target = target;
    tune.allow_spills = args->allow_spills;
    tune.on_trial = trials_collect;
    tune.on_progress = trials_progress;
    tune.payload = &found;
    tune.cancel = cli_cancel_flag();
    spc_ctx_device(&device, job->ctx);
    spc_status status = spc_tune(&report, job->ctx, layer, NULL, 0, &tune);
    progress_clear(&found.progress);
    struct summary sum = summarise(&found);
    if (target == NULL)
        target = device.target;
    if (job->json == NULL && found.count > 0)
        print_build(job, &found, &sum, &report, text, target);
    if (job->json == NULL && args->choices && report.candidates > 0 &&
        found.count == 0)
        printf("%s for %s: the chosen kernel is not a candidate\n", text,
               target);
    if (status != SPC_OK) {
        cli_fail(status, "%s for %s: %s", text, target,
                 spc_ctx_error(job->ctx));
    } else if (sum.failed > 0) {
        snprintf(label, sizeof(label), "%s for %s", text, target);
        status = trials_fail(&found, SPC_ECOMPILE, report.candidates,
                             "cannot be built", label);
    }
    if (job->json != NULL)
        write_build(job, &found, &sum, &report, text, target, status);
    trials_release(&found);
    free(chosen.at);
    return status;
}

/* Code is stored under the target's name, and only 'a' targets have wgmma. */
static void warn_target(const cli *self, const char *target)
{
    if (strcmp(target, "sm_90") == 0)
        cli_say(self, "spctune: warning: sm_90 is built without wgmma, and an "
                      "H100 or H200 looks for sm_90a: build that for them");
}

/* One --target may list several targets, separated by commas. */
static spc_status build_list(cli_job *job, const spc_conv *layer,
                             const char *text, const char *list)
{
    spc_status first = SPC_OK;

    for (bool more = true; more && first != SPC_EINTERRUPTED;) {
        size_t length = strcspn(list, ",");
        char target[24];
        snprintf(target, sizeof(target), "%.*s", (int)length, list);
        warn_target(job->self, target);
        spc_status status = build_target(job, layer, text, target);
        if (first == SPC_OK || status == SPC_EINTERRUPTED)
            first = status;
        more = list[length] == ',';
        list += length + 1;
    }
    return first;
}

/* Refuses an empty target before hours of compiling. */
static spc_status check_lists(const cli_list *lists)
{
    for (int i = 0; i < lists->count; i++)
        for (const char *at = lists->at[i];; at++) {
            size_t length = strcspn(at, ",");
            if (length == 0)
                return cli_fail(
                    SPC_EINVAL,
                    "--target: '%s' is not a list of names that are "
                    "separated by one comma, such as sm_90a,sm_80",
                    lists->at[i]);
            at += length;
            if (*at == '\0')
                break;
        }
    return SPC_OK;
}

static spc_status build_layer(cli_job *job, const spc_conv *layer,
                              const char *text)
{
    const struct args *args = job->args;
    spc_status first = SPC_OK;

    if (args->targets.count == 0)
        return build_target(job, layer, text, NULL);
    for (int i = 0; i < args->targets.count; i++) {
        spc_status status = build_list(job, layer, text, args->targets.at[i]);
        if (first == SPC_OK)
            first = status;
        /* The error of the first failure is reported, but an interrupt ends
         * all. */
        if (status == SPC_EINTERRUPTED)
            return status;
    }
    return first;
}

static spc_status command_build(cli *self, void *to)
{
    struct args *args = to;
    spc_status status = check_lists(&args->targets);

    if (status == SPC_OK && args->choices)
        status = read_choices(self, args);
    if (status == SPC_OK)
        status = job_run(self, args, NULL, build_layer);
    for (int i = 0; i < args->names.count; i++) {
        free((char *)args->names.at[i]);
        free((char *)args->layers.at[i]);
    }
    free(args->names.at);
    free(args->layers.at);
    return status;
}

const cli_command cli_build = {
    .name = "build",
    .operands = "LAYER...|--choices",
    .summary = "compile the candidates, also for GPUs that are not installed",
    .more =
        "Compiles the candidates of each LAYER for each target and stores "
        "the code in\nthe database. Neither a GPU nor a driver is needed, "
        "only NVRTC (libnvrtc of the\nCUDA Toolkit; $SPC_NVRTC names "
        "another). Candidates that spill registers are\nrefused. Exit "
        "status 9 if any candidate does not compile, 8 if only "
        "templates\nhave mistakes. --choices compiles what the choices of the "
        "database name, for a\npack that serves without a compiler.",
    .options = options,
    .args_bytes = sizeof(struct args),
    .run = command_build,
    .defaults = defaults,
};
