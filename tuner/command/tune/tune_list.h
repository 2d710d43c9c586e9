/* SPDX-License-Identifier: Apache-2.0 */
/* tune_list.h - a list of layers and networks that is tuned. */
#ifndef SPC_CMD_TUNE_LIST_H
#define SPC_CMD_TUNE_LIST_H

#include "command/tune/tuning.h"
#include "command/tune/worklist.h"

/* What the processes of all devices share. */
typedef struct tune_shared {
    int next;   /* item */
    int status; /* an spc_status: how the list went so far */
    progress_board board;
} tune_shared;

typedef struct tune_list {
    tuning_args *args;
    worklist list;
    cli_job job;
    const work_item *loaded; /* whose scenes the job has */
    bool has_no_device;      /* no context could be opened */
    tune_shared *shared;
    spc__buf text; /* lanes.c: what one item has printed */
} tune_list;

/* spctune tune */
spc_status tune_list_run(cli *self, tuning_args *args);

/* Opens the device of the job's options, unless that was done. */
spc_status tune_list_open(tune_list *t);
/* What became of an item. */
void tune_list_note(tune_shared *shared, spc_status status);

/* Takes items until there is none, on the device of the job's options. How that
 * went is in the list's shared part. */
void tune_list_work(tune_list *t, progress_lane *lane);

#endif
