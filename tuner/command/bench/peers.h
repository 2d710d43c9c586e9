/* SPDX-License-Identifier: Apache-2.0 */
/*
 * peers.h - measured times of other engines, read from a file.
 *
 * One record a line; empty lines and lines that begin with "#" are ignored. The
 * first record is "spctune-peers 1". The others may have any order, but an
 * engine comes before its figures:
 *
 *   gpu NAME                 as printed by 'spctune devices'
 *   date TEXT                of the measurements
 *   method TEXT              how it was measured; may be repeated
 *   engine WORD TEXT         an engine, its version, and its settings
 *   us SCENE LAYER WORD MICROSECONDS [NOTE]
 *
 * SCENE is a scene's specification, without the folder of its file. LAYER is a
 * layer (subm,cin=32,cout=32,k=3), or "map," and the words of a geometry
 * (map,k=3): coordinates packed and sorted, the map, and the order of its rows;
 * or "step," and a layer: its forward pass, dgrad and wgrad together.
 */
#ifndef SPC_CMD_PEERS_H
#define SPC_CMD_PEERS_H

#include "spc.h"

typedef struct peers peers;

typedef struct peer_figure {
    const char *engine;
    double us;
    const char *note; /* "" without a note */
} peer_figure;

/* Reports errors with their line through cli_fail. */
spc_status peers_read(peers **out, const char *path);
void peers_free(peers *all); /* NULL is fine */

const char *peers_gpu(const peers *all);
const char *peers_date(const peers *all);

/*
 * Returns the fastest figure for the layer, or for its map, on the scene of
 * that name, or NULL. Marks the figures that it has found as used.
 */
const peer_figure *peers_best(peers *all, const char *scene,
                              const spc_conv *layer, bool map);
/* The same for a training step of the layer. */
const peer_figure *peers_step(peers *all, const char *scene,
                              const spc_conv *layer);
/* The number of unused figures. */
int peers_left(const peers *all);

#endif
