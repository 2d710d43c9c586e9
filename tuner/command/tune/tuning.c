/* SPDX-License-Identifier: Apache-2.0 */
/* tuning.c - shared by tune and verify. */
#include "command/tune/tuning.h"

#include <stdio.h>
#include <string.h>

#define AT(member) offsetof(tuning_args, member)

/* clang-format off */
#define COMMON                                                                 \
    {'s', "scene", "SPEC", CLI_LIST, AT(scenes),                               \
     "a sample scene (may be repeated); see spctune scene --help"},            \
    {'e', "effort", "quick|normal|exhaustive", CLI_EFFORT, AT(effort),         \
     "default: normal to tune, exhaustive to verify"},                         \
    {0, "seed", "N", CLI_SEED, AT(seed), "of weights, inputs and order"},      \
    {0, "limit", "SECONDS", CLI_REAL, AT(limit_s),                             \
     "for one candidate's run; default: 10 to tune, 120 to verify"},           \
    {0, "only", "TEMPLATE", CLI_TEXT, AT(only), "only candidates of this template"},\
    {0, "in-process", NULL, CLI_FLAG, AT(in_process),                          \
     "run candidates in this process: for a debugger, without protection "     \
     "from crashes and hangs"},                                                \
    {0, "allow-spills", NULL, CLI_FLAG, AT(allow_spills),                      \
     "run also candidates that spill registers"}
/* clang-format on */

const cli_option tune_options[] = {
    {0, "pass", "forward|dgrad|wgrad|all", CLI_WORD, AT(pass),
     "a pass of training, or all of them"},
    {0, "maps", NULL, CLI_FLAG, AT(maps),
     "how the layers' maps are searched, not their kernels"},
    {0, "again", NULL, CLI_FLAG, AT(again), "measure known candidates again"},
    {0, "missing", NULL, CLI_FLAG, AT(missing),
     "only layers that the database has no choice for, or a stale or hasty "
     "one"},
    {0, "budget", "TIME", CLI_TIME, AT(whole_budget_s),
     "start nothing more after this time, such as 10m or 1h30m; a list's "
     "layers "
     "share it"},
    {0, "in-order", NULL, CLI_FLAG, AT(in_order),
     "with --budget: the first items of the list matter most and are not cut "
     "short for later ones"},
    {0, "shard", "K/N", CLI_TEXT, AT(shard),
     "the K-th of N parts of the list; auto: from Slurm, MPI, Kubernetes or "
     "torchrun"},
    {0, "scenes", "DIR", CLI_TEXT, AT(folder), "where the files of scenes are"},
    {'n', "network", "FILE", CLI_TEXT, AT(network),
     "each layer of a network, on the voxels of its level"},
    {0, "dtype", "f16|bf16|f32", CLI_WORD, AT(dtype),
     "of the network; default: f16"},
    {0, "int8", NULL, CLI_FLAG, AT(int8),
     "of the network: convolutions on i8, as for spctune run"},
    {0, "points", "FILE", CLI_LIST, AT(points),
     "of the network: points instead of scenes, as for spctune run"},
    {0, "capacity", "N", CLI_ROWS, AT(capacity),
     "of the network: most voxels of a scene, as for spctune run"},
    {0, "growth", "X", CLI_REAL, AT(growth),
     "of the network: room of levels that may have more voxels"},
    COMMON,
    {'a', "all", NULL, CLI_FLAG, AT(list), "print all candidates"},
    {0, NULL, NULL, CLI_FLAG, 0, NULL},
};

const cli_option verify_options[] = {
    {0, "all", NULL, CLI_FLAG, AT(all),
     "cases of every operator, type and kernel, on awkward sizes"},
    {'n', "cases", "N", CLI_TEXT, AT(cases),
     "how many of them, drawn by the seed; each: every template of "
     "every operator, kernel and type once; or all; default: 300"},
    {0, "part", "I/N", CLI_TEXT, AT(part),
     "of all N-ths of the layers the I-th, for runs that are divided"},
    {0, "minutes", "M", CLI_REAL, AT(minutes),
     "begin no further layer after so long"},
    COMMON,
    {0, "config", "CONFIG", CLI_TEXT, AT(config),
     "this candidate of --only's template"},
    {'l', "list", NULL, CLI_FLAG, AT(list),
     "list the candidates, as spctune space does, and verify none"},
    {0, NULL, NULL, CLI_FLAG, 0, NULL},
};

spc_status tuning_run(trials *found, spc_tune_report *report, cli_job *job,
                      const spc_conv *layer, spc_stage stage,
                      const cli_list *wanted)
{
    static const int never = 0;
    tuning_args *args = job->args;
    spc_tune_options options = SPC_TUNE_OPTIONS_INIT;

    trials_init(found, job->self);
    found->wanted = wanted;
    /* In a lane the parent shows the progress of all lanes. */
    found->progress.enabled &= job->is_alone;
    options.wants = wanted != NULL ? trials_want : NULL;
    options.stage = stage;
    options.effort = args->effort;
    options.only = args->only;
    options.seed = args->seed;
    options.limit_s = args->limit_s;
    options.again = args->again;
    options.missing = args->missing;
    options.allow_spills = args->allow_spills;
    options.budget_s = args->budget_s;
    options.chosen = args->chosen;
    /* Restoring a choice must not stop half-way, even after Ctrl-C. */
    if (args->chosen != NULL && args->at_any_rate)
        options.cancel = &never;
    options.on_trial = trials_collect;
    options.on_progress = trials_progress;
    options.payload = found;
    if (args->maps) {
        spc_status tuned = spc_tune_map(
            report, job->ctx, layer, (const spc_scene *const *)job->scenes.at,
            job->scenes.count, &options);
        progress_clear(&found->progress);
        return tuned;
    }
    /* In a worker process a candidate that crashes or hangs ends only the
     * worker. */
    if (!args->in_process)
        options.worker = cli_worker_arguments(job->self);
    spc_status status = spc_tune(report, job->ctx, layer,
                                 (const spc_scene *const *)job->scenes.at,
                                 job->scenes.count, &options);
    progress_clear(&found->progress);
    /* Counts measured layers, to estimate the time of the others. */
    args->timed += report->timed;
    return status;
}
