/* SPDX-License-Identifier: Apache-2.0 */
/*
 * worklist.h - layers and networks with their scenes, from the command line and
 * from list files.
 *
 * A line of such a file is a LAYER or a network's FILE (.lua, .onnx), followed
 * by
 *
 *   --scene SPEC   as on the command line, any number of times; by default
 *                  those of the command line
 *   --dtype TYPE   of a network
 *   --int8         a network's convolutions in int8
 *
 * Empty lines, and text from a "#" at the start of a word, are ignored.
 */
#ifndef SPC_CMD_WORKLIST_H
#define SPC_CMD_WORKLIST_H

#include "command/cli/cli.h"

typedef struct work_item {
    char *text; /* the layer, as spc_conv_format writes it; for a network its
                   file */
    bool is_network;
    char *dtype; /* type of a network; NULL: not given */
    bool int8;   /* runs a network's convolutions in int8 */
    spc_conv layer;
    cli_list scenes; /* strings that the item owns */
} work_item;

typedef struct worklist {
    work_item *at;
    int count;
} worklist;

typedef struct worklist_source {
    const cli_list *operands; /* LAYER, network or list file */
    const cli_list *scenes;   /* scenes of items that name none */
    const char *folder;       /* folder of scene files; NULL: not given */
    const char *command;      /* for error messages */
    bool needs_no_scenes;     /* points replace scenes */
} worklist_source;

/*
 * True if a folder may be put before the scene's name; false for generated
 * scenes.
 */
bool worklist_is_in_folder(const char *spec);

/*
 * Reads all operands. Reports errors with their line through cli_fail. The
 * caller frees *out even after a failure.
 */
spc_status worklist_read(worklist *out, const worklist_source *from);
void worklist_free(worklist *list);

/* Adds the network of --network. */
spc_status worklist_add_network(worklist *list, const worklist_source *from,
                                const char *file, const char *dtype);

/* True if `text` ends with `ending`. */
bool has_ending(const char *text, const char *ending);

#endif
