/* SPDX-License-Identifier: Apache-2.0 */
/* tune.c - spctune tune: finds the fastest kernel for layers on scenes. */
#include "base/plural.h"
#include "command/bench/passes.h"
#include "command/database.h"
#include "command/tune/tune_list.h"

#include <string.h>

static void defaults(void *to)
{
    tuning_args *args = to;

    args->effort = SPC_EFFORT_NORMAL;
    args->seed = 1;
}

/* Prints the end of a search. `is_kept`: the database has its measurements. */
static void print_report(const spc_tune_report *report, int scenes,
                         bool is_kept)
{
    if (report->winner[0] != '\0') {
        printf("winner: %s, %.2f us", report->winner, report->winner_us);
        if (report->layout_us > 0)
            printf(", %.2f us with its layout of the map",
                   report->winner_us + report->layout_us);
        if (report->default_us > 0)
            printf(" (untuned %.2f us, %.2f times)", report->default_us,
                   report->default_us / report->winner_us);
        putchar('\n');
    }
    if (report->winner[0] != '\0' && scenes > 1)
        printf("worst scene: %s, %.3f times its own best\n",
               report->worst_scene[0] != '\0' ? report->worst_scene : "none",
               report->worst_ratio > 0 ? report->worst_ratio : 1.0);
    printf("%s, %d refused, %d known, %d compiled, %d verified, "
           "%d timed, %d failed in %.3g s, %.2g s of it in the gate\n",
           spc__count(report->candidates, "candidate"), report->refused,
           report->known, report->compiled, report->verified, report->timed,
           report->failed, report->elapsed_s, report->gate_s);
    if (report->was_there)
        puts("the database already had this choice");
    if (report->out_of_time)
        printf("the budget ended before the search%s: %s\n",
               report->winner[0] == '\0'
                   ? ", and before the untuned kernel was timed; nothing is "
                     "chosen"
                   : "",
               is_kept ? "run the command again to continue"
                       : "without a database the next run starts anew");
}

/* Writes one layer's report; `message` is the error if there was one. */
static void write_report(spc__json *json, const char *layer,
                         const spc_tune_report *report, const trials *found,
                         spc_status status, const char *message)
{
    spc__json_object(json, NULL);
    spc__json_text(json, "layer", layer);
    spc__json_text(json, "status", spc_status_name(status));
    spc__json_text(json, "winner", report->winner);
    spc__json_real(json, "winner_us", report->winner_us);
    spc__json_real(json, "layout_us", report->layout_us);
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
    spc__json_real(json, "gate_s", report->gate_s);
    spc__json_real(json, "draw_s", report->draw_s);
    spc__json_real(json, "start_s", report->start_s);
    spc__json_real(json, "verify_s", report->verify_s);
    spc__json_real(json, "time_s", report->time_s);
    spc__json_real(json, "wait_s", report->wait_s);
    spc__json_bool(json, "out_of_time", report->out_of_time);
    spc__json_bool(json, "was_there", report->was_there);
    trials_json(json, "trials", found);
    if (status != SPC_OK)
        json_error(json, status, message);
    spc__json_end_object(json);
}

/*
 * The table may be cut, and has candidates only, so templates are printed here.
 */
static void print_templates(const trials *found)
{
    for (int i = 0; i < found->count; i++)
        if (trial_is_template(&found->at[i]))
            trial_print_failure(&found->at[i]);
}

spc_status tune_and_keep(trials *found, spc_tune_report *report, cli_job *job,
                         const spc_conv *layer, const char *text)
{
    const tuning_args *args = job->args;
    spc_status status =
        tuning_run(found, report, job, layer, SPC_STAGE_TIME, NULL);

    /* Prints this after an error too, with everything that was measured until
     * then. */
    trials_sort(found);
    if (job->json != NULL) {
        write_report(job->json, text, report, found, status,
                     spc_ctx_error(job->ctx));
    } else if (status == SPC_OK || report->candidates > 0) {
        printf("%s, seed %llu\n", text, (unsigned long long)args->seed);
        trials_print(found, args->list ? 0 : 10);
        print_templates(found);
        print_report(report, job->scenes.count, cli_has_database(job->self));
    }
    if (status != SPC_OK)
        cli_fail(status, "%s: %s", text, spc_ctx_error(job->ctx));
    return status;
}

spc_status tune_layer(cli_job *job, const spc_conv *layer, const char *text)
{
    spc_tune_report report;
    trials found;
    spc_status status = tune_and_keep(&found, &report, job, layer, text);

    trials_release(&found);
    return status;
}

spc_status tune_passes(cli_job *job, const spc_conv *layer, const char *text)
{
    const tuning_args *args = job->args;
    spc_status status;
    passes list;

    (void)text;
    if ((status = passes_of(&list, layer, args->pass)) != SPC_OK)
        return status;
    for (int p = 0; p < list.count && status == SPC_OK; p++)
        status = tune_layer(job, &list.at[p].layer, list.at[p].text);
    return status;
}

static spc_status command_tune(cli *self, void *to)
{
    return tune_list_run(self, to);
}

const cli_command cli_tune = {
    .name = "tune",
    .operands = "LAYER|NETWORK|LIST... --scene SPEC...",
    .summary = "find the fastest kernel of a layer and store it",
    .more =
        "Compiles the candidates of each LAYER, compares each with the "
        "oracle on every\n"
        "scene, times the correct ones, and stores all measurements and "
        "the winner (by\n"
        "geometric mean over the scenes) in the database. What the "
        "database already\n"
        "knows is not measured again: a run that was interrupted continues "
        "where it\n"
        "was.\n\n"
        "The finalists, the untuned kernel among them, are timed once more,\n"
        "interleaved. Only these times decide, and they come first in the "
        "table. The\n"
        "other times, which the database keeps, are from earlier moments, "
        "when the\n"
        "clock may have been faster.\n\n"
        "A LAYER is written subm,cin=64,cout=64,k=3,dtype=f16; strided\n"
        "conv,cin=32,cout=64,k=2,stride=2,rule=floor or\n"
        "conv,cin=32,cout=64,k=3,stride=2,padding=1,rule=footprint; "
        "inverse,... with\n"
        "the words of the layer that it inverts. Further words are "
        "groups=, dilation=,\n"
        "origin=, shape=, deterministic=1, epilogue=scale+bias+relu+add "
        "and the like,\n"
        "out=f32, out_pitch=.\n\n"
        "With --maps the search of each LAYER's map is tuned instead: its "
        "candidates\n"
        "are compared with the oracle's map and timed. Maps with the same "
        "kernel,\n"
        "stride and so on use the fastest from then on.\n\n"
        "With --network each layer of the network is tuned, once for each "
        "level that it\n"
        "is on, with the pitches that it has there, on the voxels of that "
        "level in the\n"
        "scenes. Layers that can save a replay most come first and get "
        "most of a\n"
        "budget. Then layers that read one map choose together: a row "
        "order that only\n"
        "one layer reads costs the time to make it. The joint choice is "
        "kept if it\n"
        "makes a replay faster. At the end, the time of a replay is "
        "compared with that\n"
        "of the untuned network.\n\n"
        "In the place of a LAYER, a file name is a network (.lua, .onnx) "
        "or a list.\n"
        "Each line of a list is a LAYER or a network's file, with --scene "
        "SPEC of its\n"
        "own or those of the command line; comments begin with #. With "
        "--budget the\n"
        "layers share the time. --device cuda:all (or cuda:0,cuda:2) runs "
        "the list with\n"
        "a process for each GPU. --shard takes a part of it, by a hash of "
        "layer and\n"
        "scenes, for machines that share the work.\n\n"
        "Efforts: quick times the default of every template, then improves "
        "the best of\n"
        "them one parameter at a time, or two where one alone is refused; "
        "normal adds\n"
        "an even sample of the space; exhaustive times all of it.\n\n"
        "Ctrl-C ends the run with exit status 130, SIGTERM and SIGUSR1 "
        "with 75.\n"
        "Measurements are kept, and the same command continues. A second "
        "signal ends it\n"
        "at once. If the database cannot store the results, they are "
        "printed all the\n"
        "same, and the exit status is 12.",
    .options = tune_options,
    .args_bytes = sizeof(tuning_args),
    .run = command_tune,
    .defaults = defaults,
    .resumes = true,
};
