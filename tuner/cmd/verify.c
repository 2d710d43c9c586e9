/* verify.c - spctune verify: every candidate against the oracle. */
#include "layers.h"
#include "trials.h"

#include <stdio.h>

struct args {
    cli_list scenes;
    spc_effort effort;
    uint64_t seed;
    double limit_s;
    const char *only;
    bool in_process, allow_spills, all;
};

#define AT(member) offsetof(struct args, member)

static const cli_option options[] = {
    {'s', "scene", "SPEC", CLI_LIST, AT(scenes),
     "a scene to verify on (may be repeated)"},
    {'e', "effort", "WORD", CLI_EFFORT, AT(effort),
     "which part of the space; default: exhaustive, all of it"},
    {0, "seed", "N", CLI_SEED, AT(seed), "of weights and inputs"},
    {0, "limit", "SECONDS", CLI_REAL, AT(limit_s),
     "for one candidate's run; default: 10"},
    {0, "only", "TEMPLATE", CLI_TEXT, AT(only), "candidates of this one only"},
    {0, "in-process", NULL, CLI_FLAG, AT(in_process),
     "run in this process, for a debugger or compute-sanitizer"},
    {0, "allow-spills", NULL, CLI_FLAG, AT(allow_spills),
     "run also candidates that spill registers"},
    {'a', "all", NULL, CLI_FLAG, AT(all), "print also those that pass"},
    {0, NULL, NULL, CLI_FLAG, 0, NULL},
};

static void defaults(void *to)
{
    struct args *args = to;

    args->effort = SPC_EFFORT_EXHAUSTIVE;
    args->seed = 1;
}

/* The worst that was passed, and how many were not. */
static int judge(const trials *found, double *worst)
{
    int failed = 0;

    *worst = 0;
    for (int i = 0; i < found->count; i++) {
        const spc_trial *trial = &found->at[i];
        failed += !trial_is_ok(trial) && !trial_is_refused(trial);
        if (trial_is_ok(trial) && trial->error > *worst)
            *worst = trial->error;
    }
    return failed;
}

static void print_result(const trials *found, const char *layer,
                         const struct args *args, const spc_tune_report *report)
{
    double worst;
    int failed = judge(found, &worst);

    for (int i = 0; i < found->count; i++) {
        const spc_trial *trial = &found->at[i];
        if (trial_is_refused(trial))
            continue;
        if (!trial_is_ok(trial))
            printf("%s: %s %s: %s\n", trial->status, trial->template_name,
                   trial->config, trial->note);
        else if (args->all)
            printf("ok: %s %s: error %.3g\n", trial->template_name,
                   trial->config, trial->error);
    }
    printf("%s: %d verified (largest error %.3g of the tolerance), %d failed, "
           "%d refused, seed %llu, %.3g s\n",
           layer, report->verified, worst, failed, report->refused,
           (unsigned long long)args->seed, report->elapsed_s);
}

static void write_result(spc__json *json, const char *layer,
                         const trials *found, const struct args *args,
                         const spc_tune_report *report, spc_status status)
{
    double worst;

    spc__json_object(json, NULL);
    spc__json_text(json, "layer", layer);
    spc__json_int(json, "seed", (int64_t)args->seed);
    spc__json_int(json, "verified", report->verified);
    spc__json_int(json, "failed", judge(found, &worst));
    spc__json_int(json, "refused", report->refused);
    spc__json_real(json, "largest_error", worst);
    spc__json_real(json, "elapsed_s", report->elapsed_s);
    trials_json(json, "trials", found);
    if (status != SPC_OK)
        json_error(json, status, cli_last_error()->text);
    spc__json_end_object(json);
}

static spc_status verify_layer(cli_job *job, const spc_conv *layer,
                               const char *text)
{
    const struct args *args = job->args;
    spc_tune_options tune = SPC_TUNE_OPTIONS_INIT;
    spc_tune_report report;
    trials found;
    double worst;

    trials_init(&found, job->self);
    tune.stage = SPC_STAGE_VERIFY;
    tune.effort = args->effort;
    tune.only = args->only;
    tune.seed = args->seed;
    tune.limit_s = args->limit_s;
    tune.allow_spills = args->allow_spills;
    tune.on_trial = trials_collect;
    tune.on_progress = trials_progress;
    tune.payload = &found;
    tune.cancel = cli_cancel_flag();
    tune.worker = args->in_process ? NULL : cli_worker_arguments(job->self);
    spc_status status =
        spc_tune(job->ctx, layer, (const spc_scene *const *)job->scenes.at,
                 job->scenes.count, &tune, &report);
    progress_clear(&found.progress);
    if (job->json == NULL && (status == SPC_OK || report.candidates > 0))
        print_result(&found, text, args, &report);
    int failed = judge(&found, &worst);
    if (status != SPC_OK)
        cli_fail(status, "%s: %s", text, spc_ctx_error(job->ctx));
    else if (failed > 0)
        status = cli_fail(trials_failure(&found, SPC_EWRONG),
                          "%s: %d of %d candidates fail", text, failed,
                          report.candidates);
    if (job->json != NULL)
        write_result(job->json, text, &found, args, &report, status);
    trials_release(&found);
    return status;
}

static spc_status run(cli *self, void *args)
{
    return job_run(self, args, &((struct args *)args)->scenes, verify_layer);
}

const cli_command cli_verify = {
    .name = "verify",
    .operands = "LAYER... --scene SPEC...",
    .summary = "compare every candidate with the oracle",
    .more = "Compiles the candidates of each LAYER and compares every element "
            "of their\nresults with an oracle in double precision, on fresh "
            "random data drawn from\nthe seed. Nothing is timed. Exit status "
            "17 if any candidate fails.",
    .options = options,
    .args_bytes = sizeof(struct args),
    .run = run,
    .defaults = defaults,
};
