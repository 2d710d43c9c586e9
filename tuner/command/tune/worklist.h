/* SPDX-License-Identifier: Apache-2.0 */
/*
 * worklist.h - layers and networks with their scenes: of the command line, and
 * of files that list them.
 *
 * A line of such a file is a LAYER or a network's FILE (.lua, .onnx), and then
 *
 *   --scene SPEC   as on the command line, any number of times; none: those of
 *                  the command line
 *   --dtype TYPE   of a network
 *
 * Empty lines, and what follows "#" at the begin of a word, are comments.
 */
#ifndef SPC_CMD_WORKLIST_H
#define SPC_CMD_WORKLIST_H

#include "command/cli/cli.h"

typedef struct work_item {
    char *text; /* the layer, as spc_conv_format writes it; of a network
                   its file */
    bool is_network;
    char *dtype; /* of a network; NULL: none was said */
    spc_conv layer;
    cli_list scenes; /* of strings that the item owns */
} work_item;

typedef struct worklist {
    work_item *at;
    int count;
} worklist;

typedef struct worklist_source {
    const cli_list *operands; /* LAYER, network or list file */
    const cli_list *scenes;   /* of items that name none */
    const char *folder;       /* of scene files; NULL: none */
    const char *command;      /* for sentences */
    bool needs_no_scenes;     /* points stand in their place */
} worklist_source;

/* May the scene's name begin with that folder? Generated ones have none. */
bool worklist_is_in_folder(const char *spec);

/* Reads all that is named. Says what is wrong, and in which line, through
 * cli_fail. The caller frees *out also after a failure. */
spc_status worklist_read(worklist *out, const worklist_source *from);
void worklist_free(worklist *list);

/* Adds a network, as --network names it. */
spc_status worklist_add_network(worklist *list, const worklist_source *from,
                                const char *file, const char *dtype);

/* Has `text` this ending? */
bool has_ending(const char *text, const char *ending);

#endif
