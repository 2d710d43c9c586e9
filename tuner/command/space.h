/* space.h - the candidates of a layer, listed. */
#ifndef SPC_CMD_SPACE_H
#define SPC_CMD_SPACE_H

#include "command/layers.h"

typedef struct space_view {
    const char *target; /* NULL: the device */
    const char *only;   /* of this template; NULL: of all */
    bool admitted;      /* without what was refused */
} space_view;

/* Prints them, or writes them as an object. */
spc_status space_list(cli_job *job, const spc_conv *layer, const char *text,
                      const space_view *view);

#endif
