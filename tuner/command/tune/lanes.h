/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lanes.h - tunes a list on several devices at once: a process for each takes
 * items from the shared list.
 */
#ifndef SPC_CMD_LANES_H
#define SPC_CMD_LANES_H

#include "command/tune/tune_work.h"

/* The devices of --device: one, several ("cuda:0,cuda:2"), or "cuda:all". */
typedef struct lanes {
    char device[PROGRESS_LANES][16];
    int count; /* if at most 1, --device is used unchanged */
} lanes;

spc_status lanes_read(lanes *out, const cli *self);

/* Allocates memory that is shared with processes started later. */
spc_status lanes_share(tune_list *t, const lanes *devices);
void lanes_unshare(tune_list *t);

/* Starts the processes and prints their output, item by item. */
spc_status lanes_run(tune_list *t, const lanes *devices);

#endif
