/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shard.h - selects this process's part of a list that processes on other
 * machines share.
 */
#ifndef SPC_CMD_SHARD_H
#define SPC_CMD_SHARD_H

#include "spc.h"

typedef struct shard {
    int index, count; /* index from 0; part 0 of 1 is the whole list */
    char source[120]; /* source of the part: "--shard" or names of variables;
                       * "": none */
} shard;

/*
 * Reads "2/5" (the second of five parts), or "auto": from the variables that
 * the launcher of this process has set. NULL is the whole list, and so is
 * "auto" without such variables.
 */
spc_status shard_read(shard *out, const char *text);

/*
 * True if the element with this key is in the part. Every key is in exactly one
 * part.
 */
bool shard_has(const shard *part, const char *key);

#endif
