/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shard.h - which part of a list is this process's, among others on other
 * machines that have the same list.
 */
#ifndef SPC_CMD_SHARD_H
#define SPC_CMD_SHARD_H

#include "spc.h"

typedef struct shard {
    int index, count; /* from 0; 0 of 1: all of it is ours */
    char source[120]; /* who said so: "--shard", or variables; "": nobody */
} shard;

/* Reads "2/5" (the second of five parts), or "auto": what the launcher of this
 * process says in variables of the environment. NULL: all. Without such
 * variables all is ours, too. */
spc_status shard_read(shard *out, const char *text);

/* Is what has this key dealt to us? Every key is dealt to exactly one part. */
bool shard_has(const shard *part, const char *key);

#endif
