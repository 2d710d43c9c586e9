/* tune.c - spctune tune: finds the fastest kernel for layers on scenes. */
#include "layers.h"
#include "trials.h"

#include <string.h>

struct args {
    cli_list scenes;
    spc_effort effort;
    uint64_t seed;
    double limit_s;
    const char *only;
    bool again, in_process, allow_spills, all;
};

#define AT(member) offsetof(struct args, member)

static const cli_option options[] = {
    {'s', "scene", "SPEC", CLI_LIST, AT(scenes),
     "a sample scene (may be repeated); see spctune scene --help"},
    {'e', "effort", "WORD", CLI_EFFORT, AT(effort),
     "quick, normal (default) or exhaustive"},
    {0, "seed", "N", CLI_SEED, AT(seed), "of weights, inputs and order"},
    {0, "limit", "SECONDS", CLI_REAL, AT(limit_s),
     "for one candidate's run; default: 10"},
    {0, "only", "TEMPLATE", CLI_TEXT, AT(only), "candidates of this one only"},
    {0, "again", NULL, CLI_FLAG, AT(again),
     "measure also what the database knows"},
    {0, "in-process", NULL, CLI_FLAG, AT(in_process),
     "measure in this process: no protection from crashes and hangs"},
    {0, "allow-spills", NULL, CLI_FLAG, AT(allow_spills),
     "run also candidates that spill registers"},
    {'a', "all", NULL, CLI_FLAG, AT(all),
     "print all candidates, not the best ten"},
    {0, NULL, NULL, CLI_FLAG, 0, NULL},
};

static void defaults(void *to)
{
    struct args *args = to;

    args->effort = SPC_EFFORT_NORMAL;
    args->seed = 1;
}

static void print_report(const spc_tune_report *report, int scenes)
{
    if (report->winner[0] != '\0') {
        printf("winner: %s, %.2f us", report->winner, report->winner_us);
        if (report->default_us > 0)
            printf(" (untuned %.2f us, %.2f times)", report->default_us,
                   report->default_us / report->winner_us);
        putchar('\n');
    }
    if (report->winner[0] != '\0' && scenes > 1)
        printf("worst scene: %s, %.3f times its own best\n",
               report->worst_scene[0] != '\0' ? report->worst_scene : "none",
               report->worst_ratio > 0 ? report->worst_ratio : 1.0);
    printf("%d candidates, %d refused, %d known, %d compiled, %d verified, "
           "%d timed, %d failed in %.3g s\n",
           report->candidates, report->refused, report->known, report->compiled,
           report->verified, report->timed, report->failed, report->elapsed_s);
}

static void write_report(spc__json *json, const char *layer,
                         const spc_tune_report *report, const trials *found,
                         spc_status status, const char *message)
{
    spc__json_object(json, NULL);
    spc__json_text(json, "layer", layer);
    spc__json_text(json, "status", spc_status_name(status));
    spc__json_text(json, "winner", report->winner);
    spc__json_real(json, "winner_us", report->winner_us);
    spc__json_real(json, "default_us", report->default_us);
    spc__json_text(json, "worst_scene", report->worst_scene);
    spc__json_real(json, "worst_ratio", report->worst_ratio);
    spc__json_int(json, "candidates", report->candidates);
    spc__json_int(json, "refused", report->refused);
    spc__json_int(json, "known", report->known);
    spc__json_int(json, "compiled", report->compiled);
    spc__json_int(json, "verified", report->verified);
    spc__json_int(json, "timed", report->timed);
    spc__json_int(json, "failed", report->failed);
    spc__json_real(json, "elapsed_s", report->elapsed_s);
    trials_json(json, "trials", found);
    if (status != SPC_OK)
        json_error(json, status, message);
    spc__json_end_object(json);
}

static spc_status tune_layer(cli_job *job, const spc_conv *layer,
                             const char *text)
{
    const struct args *args = job->args;
    spc_tune_options tune = SPC_TUNE_OPTIONS_INIT;
    spc_tune_report report;
    trials found;

    trials_init(&found, job->self);
    tune.effort = args->effort;
    tune.only = args->only;
    tune.seed = args->seed;
    tune.limit_s = args->limit_s;
    tune.again = args->again;
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
    trials_sort(&found);
    if (job->json != NULL) {
        write_report(job->json, text, &report, &found, status,
                     spc_ctx_error(job->ctx));
    } else if (status == SPC_OK || report.candidates > 0) {
        printf("%s, seed %llu\n", text, (unsigned long long)args->seed);
        trials_print(&found, args->all ? 0 : 10);
        print_report(&report, job->scenes.count);
    }
    if (status != SPC_OK)
        cli_fail(status, "%s: %s", text, spc_ctx_error(job->ctx));
    trials_release(&found);
    return status;
}

static spc_status run(cli *self, void *args)
{
    return job_run(self, args, &((struct args *)args)->scenes, tune_layer);
}

const cli_command cli_tune = {
    .name = "tune",
    .operands = "LAYER... --scene SPEC...",
    .summary = "find the fastest kernel of a layer and store it",
    .more =
        "Compiles the candidates of each LAYER, compares every one with the\n"
        "oracle on every scene, times those that are right, and stores all\n"
        "measurements and the winner (by geometric mean over the scenes) in "
        "the\ndatabase. What the database already knows is not measured "
        "again: a run\nthat was interrupted goes on where it was.\n\n"
        "A LAYER is written subm,cin=64,cout=64,k=3,dtype=f16; further words\n"
        "are dilation=, bias=1, deterministic=1.\n\n"
        "Efforts: quick times of every template its default and what differs\n"
        "from it in one parameter, then climbs from the best; normal adds an\n"
        "even sample of the space; exhaustive times all of it.\n\n"
        "Ctrl-C ends the run with exit status 130; what was measured is "
        "kept.",
    .options = options,
    .args_bytes = sizeof(struct args),
    .run = run,
    .defaults = defaults,
};
