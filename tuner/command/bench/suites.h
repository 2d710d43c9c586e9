/* SPDX-License-Identifier: Apache-2.0 */
/* suites.h - tables of layers and scenes that are measured together. */
#ifndef SPC_CMD_SUITES_H
#define SPC_CMD_SUITES_H

#include <stdbool.h>

typedef struct suite_row {
    const char *scene; /* a file in --scenes DIR, or a specification */
    const char *layer;
    bool map; /* times pack, sort, map and row order instead */
} suite_row;

typedef struct cli_suite {
    const char *name;
    const char *about;
    const suite_row *rows; /* ends with a row whose scene is NULL */
} cli_suite;

const cli_suite *suite_find(const char *name); /* returns NULL if the name is
                                                * unknown */
const char *suite_names(void);

#endif
