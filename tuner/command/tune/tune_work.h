/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tune_work.h - the work of one process on a list: it takes items and tunes
 * them on one device.
 */
#ifndef SPC_CMD_TUNE_WORK_H
#define SPC_CMD_TUNE_WORK_H

#include "command/tune/tuning.h"
#include "command/tune/worklist.h"

/* The state shared by the processes of all devices. */
typedef struct tune_shared {
    int next;   /* index of the next item */
    int status; /* the first failure so far, an spc_status */
    progress_board board;
} tune_shared;

typedef struct tune_list {
    tuning_args *args;
    worklist list;
    cli_job job;
    const work_item *loaded; /* the item whose scenes the job has */
    bool has_no_device;      /* no context could be opened */
    tune_shared *shared;
    spc__buf text; /* output of one item */
} tune_list;

/* Opens the device of the job's options, once. */
spc_status tune_work_open(tune_list *t);

/* Loads what all layers need, so that a failure is reported once. */
spc_status tune_work_prepare(tune_list *t);

/* Records the result of an item. */
void tune_work_note(tune_shared *shared, spc_status status);

/*
 * Takes items until none are left, on the device of the job's options. The
 * shared part has the result.
 */
void tune_work_take(tune_list *t, progress_lane *lane);

#endif
