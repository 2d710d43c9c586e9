/* SPDX-License-Identifier: Apache-2.0 */
/* tuning.h - shared by tune and verify: runs of spc_tune on scenes. */
#ifndef SPC_CMD_TUNING_H
#define SPC_CMD_TUNING_H

#include "command/layers.h"
#include "command/tune/trials.h"

typedef struct tuning_args {
    cli_list scenes;
    spc_effort effort;
    uint64_t seed;
    double limit_s;
    const char *only;
    bool maps, again, missing, in_process, allow_spills, list;
    /* Options of verify: the whole matrix or a part of it; one candidate. */
    bool all;
    const char *cases, *part, *config;
    double minutes;
    /* options of tune; NULL: the operands are layers */
    const char *network, *dtype;
    cli_list points; /* coordinates of the network; empty: use
                      * scenes */
    bool int8;       /* runs the network's convolutions in int8 */
    int capacity;    /* capacity for its scenes; 0: the voxels of
                      * the largest */
    /* growth for its levels; 0: derived from the capacity */
    double growth;
    const char *pass; /* option of tune; NULL: the layer unchanged */
    /* options of tune: a part of a list; a folder of scene files */
    const char *shard, *folder;
    /* budgets of a list and of one of its layers */
    double whole_budget_s, budget_s;
    /* the first items of a list may use the whole budget */
    bool in_order;
    int timed;          /* at least the number of the last layer's candidates */
    const char *chosen; /* store this candidate without measuring; NULL: tune */
    bool at_any_rate;   /* store it even after a signal, to restore a choice */
} tuning_args;

extern const cli_option tune_options[], verify_options[];

/*
 * Runs spc_tune up to `stage` with the job's tuning_args, on the candidates
 * "TEMPLATE CONFIG" of `wanted`, or those of the effort if that is NULL. *found
 * collects the reports; the caller releases it, and prints a failure.
 */
spc_status tuning_run(trials *found, spc_tune_report *report, cli_job *job,
                      const spc_conv *layer, spc_stage stage,
                      const cli_list *wanted);

/*
 * Tunes one layer and prints the result; the second function also returns it,
 * and the caller releases it.
 */
spc_status tune_layer(cli_job *job, const spc_conv *layer, const char *text);
spc_status tune_and_keep(trials *found, spc_tune_report *report, cli_job *job,
                         const spc_conv *layer, const char *text);
/* The passes of the layer that --pass names. */
spc_status tune_passes(cli_job *job, const spc_conv *layer, const char *text);

/* spctune tune --network; prints, or writes to an open array. */
spc_status network_tune(cli *self, tuning_args *args, spc__json *json);

#endif
