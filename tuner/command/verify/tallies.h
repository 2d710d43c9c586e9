/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tallies.h - how many cases of each kernel and type passed, and how many
 * failed.
 */
#ifndef SPC_CMD_TALLIES_H
#define SPC_CMD_TALLIES_H

#include "base/json.h"

#include <stdbool.h>

enum { TALLIES = 512 };

typedef struct tally {
    char kernel[64], type[16];
    int passed, failed;
} tally;

/* Zeroed there are none. */
typedef struct tallies {
    tally at[TALLIES];
    int count;
} tallies;

void tallies_count(tallies *t, const char *kernel, const char *type,
                   bool passed);
/* By name: as a table, or as the array `kernels`. */
void tallies_print(tallies *t);
void tallies_write(tallies *t, spc__json *json);

#endif
