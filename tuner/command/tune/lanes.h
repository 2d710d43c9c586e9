/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lanes.h - a list tuned on several devices at once: a process for each, which
 * takes items from the list that all share.
 */
#ifndef SPC_CMD_LANES_H
#define SPC_CMD_LANES_H

#include "command/tune/tune_list.h"

/* The devices of --device: one; several, "cuda:0,cuda:2"; "cuda:all". */
typedef struct lanes {
    char device[PROGRESS_LANES][16];
    int count; /* at most 1: the word of --device as it is */
} lanes;

spc_status lanes_read(lanes *out, const cli *self);

/* Memory that processes begun from now on share. */
spc_status lanes_share(tune_list *t, const lanes *devices);
void lanes_unshare(tune_list *t);

/* Begins the processes and prints what they print, an item at a time. */
spc_status lanes_run(tune_list *t, const lanes *devices);

/* Around the output of an item. */
void lanes_begin(tune_list *t, int item);
void lanes_end(tune_list *t);

#endif
