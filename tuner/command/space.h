/* SPDX-License-Identifier: Apache-2.0 */
/* space.h - lists the candidates of a layer. */
#ifndef SPC_CMD_SPACE_H
#define SPC_CMD_SPACE_H

#include "command/layers.h"
#include "command/tune/trials.h"

typedef struct space_view {
    const char *target; /* NULL: the target of the device */
    const char *only;   /* only candidates of this template; NULL: all */
    bool all;           /* list each candidate instead of a row for each
                         * template */
    bool admitted;      /* list each candidate that was not refused */
} space_view;

/* Prints the candidates, or writes them as an object. */
spc_status space_list(cli_job *job, const spc_conv *layer, const char *text,
                      const space_view *view);

/* Prints a row for each template. */
void space_print_summary(const trials *found);

#endif
