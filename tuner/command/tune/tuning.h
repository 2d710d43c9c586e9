/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tuning.h - what tune and verify have in common: runs of spc_tune on scenes.
 */
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
    /* verify: the whole matrix, or a part of it; one candidate. */
    bool all;
    const char *cases, *part, *config;
    double minutes;
    const char *network, *dtype; /* tune; NULL: layers */
    const char *points;          /* of the network; NULL: scenes */
    bool int8;                   /* its convolutions on i8 */
    int capacity;                /* of its scenes; 0: as the largest */
    double growth;               /* of its levels; 0: by the capacity */
    const char *pass;            /* tune; NULL: the layer as it is */
    const char *shard, *folder;  /* tune: a part of a list; of scene files */
    double whole_budget_s, budget_s; /* of a list, and of one layer of it */
    bool in_order;                   /* a list's first items have all of it */
    int timed;                       /* candidates of the last layer, or more */
    const char *chosen; /* of a layer, and nothing measured; NULL: not */
    bool at_any_rate;   /* that, even after a signal: it takes a choice back */
} tuning_args;

extern const cli_option tune_options[], verify_options[];

/* Runs spc_tune up to `stage` as the job's tuning_args say, on the candidates
 * with the names "TEMPLATE CONFIG" of `wanted`, or where that is NULL on those
 * of the effort; *found, which the caller releases, has what it reported. A
 * failure is the caller's to print. */
spc_status tuning_run(trials *found, spc_tune_report *report, cli_job *job,
                      const spc_conv *layer, spc_stage stage,
                      const cli_list *wanted);

/* Tunes one layer and prints what came of it; the second keeps it, too, for the
 * caller to release. */
spc_status tune_layer(cli_job *job, const spc_conv *layer, const char *text);
spc_status tune_and_keep(trials *found, spc_tune_report *report, cli_job *job,
                         const spc_conv *layer, const char *text);
/* The passes of it that --pass names. */
spc_status tune_passes(cli_job *job, const spc_conv *layer, const char *text);

/* spctune tune --network; prints, or writes to an array that is open. */
spc_status network_tune(cli *self, tuning_args *args, spc__json *json);

#endif
