/* SPDX-License-Identifier: Apache-2.0 */
/* verify.c - spctune verify: every candidate against the oracle. */
#include "command/verify/verify.h"
#include "base/plural.h"
#include "command/cli/idle.h"
#include "command/space.h"

#include <stdio.h>
#include <string.h>

static void defaults(void *to)
{
    tuning_args *args = to;

    args->effort = SPC_EFFORT_EXHAUSTIVE;
    args->seed = 1;
}

/* Finds the largest passing error, and counts the failures. */
static int count_failures(const trials *found, double *worst)
{
    int failed = 0;

    *worst = 0;
    for (int i = 0; i < found->count; i++) {
        const spc_trial *trial = &found->at[i];
        failed += trial_is_failure(trial);
        if (trial_is_ok(trial) && trial->error > *worst)
            *worst = trial->error;
    }
    return failed;
}

static void print_result(const trials *found, const char *layer,
                         const tuning_args *args, const spc_tune_report *report)
{
    double worst;
    int failed = count_failures(found, &worst);

    for (int i = 0; i < found->count; i++)
        if (trial_is_failure(&found->at[i]))
            trial_print_failure(&found->at[i]);
    printf("%s: %d verified (exact on integers; largest rounding error %.3g of "
           "its bound), %d failed, "
           "%d refused, seed %llu, %.3g s\n",
           layer, report->verified, worst, failed, report->refused,
           (unsigned long long)args->seed, report->elapsed_s);
}

static void write_result(spc__json *json, const char *layer,
                         const trials *found, const tuning_args *args,
                         const spc_tune_report *report, spc_status status)
{
    double worst;

    spc__json_object(json, NULL);
    spc__json_text(json, "layer", layer);
    spc__json_int(json, "seed", (int64_t)args->seed);
    spc__json_int(json, "verified", report->verified);
    spc__json_int(json, "failed", count_failures(found, &worst));
    spc__json_int(json, "refused", report->refused);
    spc__json_real(json, "largest_error", worst);
    spc__json_real(json, "elapsed_s", report->elapsed_s);
    trials_json(json, "trials", found);
    if (status != SPC_OK)
        json_error(json, status, cli_last_error()->text);
    spc__json_end_object(json);
}

static spc_status no_candidate(trials *found, const char *text,
                               const char *name)
{
    trials_release(found);
    return cli_fail(SPC_ENOTFOUND,
                    "%s: no candidate is '%s': 'spctune space' lists all candidates",
                    text, name);
}

/* Verifies a layer's candidates, or the one that --config names. */
static spc_status verify_layer(cli_job *job, const spc_conv *layer,
                               const char *text)
{
    const tuning_args *args = job->args;
    spc_tune_report report;
    trials found;
    double worst;
    char name[320];
    const char *names[] = {name};
    const cli_list one = {names, 1};

    snprintf(name, sizeof(name), "%s %s", args->only != NULL ? args->only : "",
             args->config != NULL ? args->config : "");
    spc_status status =
        tuning_run(&found, &report, job, layer, SPC_STAGE_VERIFY,
                   args->config != NULL ? &one : NULL);

    /* Without this check a misspelt configuration would pass as verified. */
    if (status == SPC_OK && args->config != NULL && found.count == 0)
        return no_candidate(&found, text, name);
    if (job->json == NULL && (status == SPC_OK || report.candidates > 0))
        print_result(&found, text, args, &report);
    int failed = count_failures(&found, &worst);
    if (status != SPC_OK)
        cli_fail(status, "%s: %s", text, spc_ctx_error(job->ctx));
    else if (failed > 0)
        status =
            trials_fail(&found, SPC_EWRONG, report.candidates, "fail", text);
    if (job->json != NULL)
        write_result(job->json, text, &found, args, &report, status);
    trials_release(&found);
    return status;
}

/* Lists the candidates without verifying them. */
static spc_status list_layer(cli_job *job, const spc_conv *layer,
                             const char *text)
{
    const tuning_args *args = job->args;

    return space_list(job, layer, text,
                      &(space_view){.only = args->only, .admitted = true});
}

/* ---- other operators ----------------------------------------------------- */

const char *verify_kind(const char *text)
{
    size_t length = strcspn(text, ",=");

    for (int i = 0; spc_operators(i) != NULL; i++) {
        const spc_operator_info *of = spc_operators(i);
        if (strcspn(of->name, "=") == length &&
            strncmp(of->name, text, length) == 0)
            return of->kind;
    }
    return "convolution";
}

static spc_status verify_set(spc_ctx *ctx, const char *text,
                             const scene_set *scenes, uint64_t seed)
{
    spc_regrouping how;
    spc_status status = spc_regrouping_parse(&how, text, NULL);

    if (status != SPC_OK)
        return status;
    return spc_regrouping_verify(
        ctx, &how, (const spc_scene *const *)scenes->at, scenes->count, seed);
}

spc_status verify_operator(spc_ctx *ctx, const char *text,
                           const scene_set *scenes, uint64_t seed,
                           double *error)
{
    spc_feature feature;
    spc_status status;

    *error = 0;
    if (strcmp(verify_kind(text), "sets") == 0)
        return verify_set(ctx, text, scenes, seed);
    if ((status = spc_feature_parse(&feature, text, NULL)) != SPC_OK)
        return status;
    return spc_feature_verify(error, ctx, &feature,
                              (const spc_scene *const *)scenes->at,
                              scenes->count, seed);
}

struct operators {
    cli *self;
    const tuning_args *args;
    spc_ctx *ctx;
    scene_set scenes;
    spc__json *json;
};

static spc_status verify_one(struct operators *o, const char *text)
{
    double worst = 0;
    spc_status status =
        verify_operator(o->ctx, text, &o->scenes, o->args->seed, &worst);

    if (status != SPC_OK)
        cli_fail(status, "%s: %s", text, spc_ctx_error(o->ctx));
    if (o->json == NULL && status == SPC_OK)
        printf("%s: right on %s and small ones (largest rounding error "
               "%.3g of its bound), seed %llu\n",
               text, spc__count(o->scenes.count, "scene"), worst,
               (unsigned long long)o->args->seed);
    if (o->json == NULL)
        return status;
    spc__json_object(o->json, NULL);
    spc__json_text(o->json, "operator", text);
    spc__json_real(o->json, "largest_error", worst);
    if (status != SPC_OK)
        json_error(o->json, status, cli_last_error()->text);
    spc__json_end_object(o->json);
    return status;
}

/* A failure does not stop the others; an interrupt does. */
static spc_status verify_each(struct operators *o)
{
    spc_status first = SPC_OK;

    for (int i = 0; i < o->self->operands.count; i++) {
        spc_status status = verify_one(o, o->self->operands.at[i]);
        if (first == SPC_OK)
            first = status;
        if (status == SPC_EINTERRUPTED)
            break;
    }
    return first;
}

static spc_status verify_each_json(struct operators *o)
{
    spc__buf text = SPC__BUF_INIT;
    spc__json json;

    spc__json_init(&json, &text);
    spc__json_array(&json, NULL);
    o->json = &json;
    spc_status status = verify_each(o);
    spc__json_end_array(&json);
    spc_status printed = output_json(&text);
    return status != SPC_OK ? status : printed;
}

/*
 * Checks that operand `i` is of the same kind as the first operand, which is
 * not a layer.
 */
static spc_status check_operand(const cli *self, int i)
{
    const char *text = self->operands.at[i], *kind = verify_kind(text);
    spc_regrouping set;
    spc_feature feature;
    spc_error error;

    if (strcmp(kind, "convolution") == 0)
        return cli_fail(
            SPC_EINVAL,
            "'%s' is a layer, '%s' is not: verify one kind at a time", text,
            self->operands.at[0]);
    spc_status status = strcmp(kind, "sets") == 0
                            ? spc_regrouping_parse(&set, text, &error)
                            : spc_feature_parse(&feature, text, &error);
    return status == SPC_OK ? SPC_OK : cli_fail(status, "%s", error.text);
}

/* Verifies operators without templates. Reads all of them before it opens a
 * device. */
static spc_status run_operators(cli *self, const tuning_args *args)
{
    struct operators o = {.self = self, .args = args};
    spc_status status = SPC_OK;

    idle_say_but(self, "on operators other than convolutions", "scene seed");
    for (int i = 0; i < self->operands.count && status == SPC_OK; i++)
        status = check_operand(self, i);
    if (status != SPC_OK)
        return status;
    cli_catch_signals(self);
    if ((args->scenes.count == 0 ||
         (status = load_scenes(&o.scenes, self, &args->scenes)) == SPC_OK) &&
        (status = cli_open(&o.ctx, self)) == SPC_OK)
        status = self->globals.json ? verify_each_json(&o) : verify_each(&o);
    spc_ctx_free(o.ctx);
    free_scenes(&o.scenes);
    return status;
}

/* ---- entry --------------------------------------------------------------- */

static spc_status command_verify(cli *self, void *to)
{
    const tuning_args *args = to;

    if (args->all) {
        idle_say(self, "with --all", "config list");
        return verify_all(self, args);
    }
    idle_say(self, "without --all", "cases part minutes");
    if (args->config != NULL && args->only == NULL)
        return cli_fail(SPC_EINVAL, "--config needs --only: the template that "
                                    "it is a configuration of");
    if (self->operands.count > 0 &&
        strcmp(verify_kind(self->operands.at[0]), "convolution") != 0)
        return run_operators(self, args);
    if (args->list) {
        idle_say_but(self, "with --list", "list only all cases part minutes");
        return job_run(self, to, NULL, list_layer);
    }
    return job_run(self, to, &args->scenes, verify_layer);
}

const cli_command cli_verify = {
    .name = "verify",
    .operands = "LAYER... --scene SPEC... | --all",
    .summary = "compare every candidate with the oracle",
    .more = "Compiles the candidates of each LAYER and compares every element "
            "of their\nresults with an oracle: on integers exactly, on real "
            "numbers within the bound of\nrounding, on each SPEC and on small "
            "scenes of its own, over different contents\nof output and "
            "workspace. All data is drawn from the seed. Nothing is timed. "
            "Exit\nstatus 17 if any candidate fails; its line begins with the "
            "test that it failed.\nOperators on features and sets made of "
            "others ('spctune layers') are verified\nalike; of these a SPEC is "
            "not needed.\n\nWith --all it is a sample of everything: "
            "operators, types, kinds of channels,\nkernels at the ends of "
            "their parameters, numbers of rows around what tiles are\n"
            "multiples of, borders, batches. Each failure comes with the "
            "command that repeats it.",
    .options = verify_options,
    .args_bytes = sizeof(tuning_args),
    .run = command_verify,
    .defaults = defaults,
};
