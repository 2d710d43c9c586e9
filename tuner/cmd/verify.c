/* verify.c - spctune verify: every candidate against the oracle. */
#include "tuning.h"

#include <stdio.h>

static void defaults(void *to)
{
    tuning_args *args = to;

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
    int failed = judge(found, &worst);

    for (int i = 0; i < found->count; i++) {
        const spc_trial *trial = &found->at[i];
        if (trial_is_failure(trial))
            trial_print_failure(trial);
        else if (trial_is_ok(trial) && args->all)
            printf("ok: %s %s: error %.3g\n", trial->template_name,
                   trial->config, trial->error);
    }
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
    const tuning_args *args = job->args;
    spc_tune_report report;
    trials found;
    double worst;
    spc_status status =
        tuning_run(&found, &report, job, layer, SPC_STAGE_VERIFY);

    if (job->json == NULL && (status == SPC_OK || report.candidates > 0))
        print_result(&found, text, args, &report);
    int failed = judge(&found, &worst);
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

static spc_status run(cli *self, void *args)
{
    return job_run(self, args, &((tuning_args *)args)->scenes, verify_layer);
}

const cli_command cli_verify = {
    .name = "verify",
    .operands = "LAYER... --scene SPEC...",
    .summary = "compare every candidate with the oracle",
    .more = "Compiles the candidates of each LAYER and compares every element "
            "of their\nresults with an oracle: on integers exactly, on real "
            "numbers within the bound of\nrounding, on each SPEC and on small "
            "scenes of its own, over different contents\nof output and "
            "workspace. All data is drawn from the seed. Nothing is timed. "
            "Exit\nstatus 17 if any candidate fails; its line begins with the "
            "test that it failed.",
    .options = tuning_options + 4,
    .args_bytes = sizeof(tuning_args),
    .run = run,
    .defaults = defaults,
};
