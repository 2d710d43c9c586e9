/* SPDX-License-Identifier: Apache-2.0 */
/* passes.h - the requested passes of a layer. */
#ifndef SPC_CMD_PASSES_H
#define SPC_CMD_PASSES_H

#include "command/cli/cli.h"

enum { PASSES = 3 };

typedef struct passes {
    int count;
    struct {
        spc_conv layer;
        char text[240];
    } at[PASSES];
} passes;

/* `word` is a pass, or "all" for a training step; NULL leaves the layer
 * unchanged. */
spc_status passes_of(passes *out, const spc_conv *layer, const char *word);

#endif
