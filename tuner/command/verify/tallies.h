/* SPDX-License-Identifier: Apache-2.0 */
/* tallies.h - counts the passed and failed cases of each kernel and type. */
#ifndef SPC_CMD_TALLIES_H
#define SPC_CMD_TALLIES_H

#include "base/json.h"

#include <stdbool.h>

enum { TALLIES = 512 };

typedef struct tally {
    char kernel[64], type[16];
    int passed, failed;
} tally;

/* A zeroed struct is empty. */
typedef struct tallies {
    tally at[TALLIES];
    int count;
} tallies;

void tallies_count(tallies *t, const char *kernel, const char *type,
                   bool passed);
/* Prints them by name: as a table, or as the array `kernels`. */
void tallies_print(tallies *t);
void tallies_write(tallies *t, spc__json *json);

#endif
