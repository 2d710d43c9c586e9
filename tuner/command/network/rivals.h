/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rivals.h - tests whether a network is faster with another kernel of a layer.
 *
 * A layer that is timed alone has the device and its cache to itself. In a
 * network other layers run beside, before and after it, so kernels that are
 * nearly as fast alone, its rivals, are tried in the network, and the time of a
 * replay decides.
 */
#ifndef SPC_CMD_RIVALS_H
#define SPC_CMD_RIVALS_H

#include "spc/status.h"
#include <stdbool.h>

enum { RIVALS_MOST = 4 };

/* The kernels of a layer as "TEMPLATE CONFIG"; the list owns all texts. */
typedef struct rivals {
    char *now; /* NULL: unknown, and nothing is tried */
    char *other[RIVALS_MOST];
    double us[RIVALS_MOST]; /* time of each kernel alone */
    int count;
} rivals;

/*
 * Adds a kernel with its time alone; a full list keeps the fastest kernels.
 * Returns false if memory is short.
 */
bool rivals_add(rivals *layer, const char *kernel, double us);

/* Moves the kernel to the front, if it is listed, so that it is tried first. */
void rivals_put_first(rivals *layer, const char *kernel);

/*
 * Makes `kernel` the layer's own, and the old one its first rival; false: the
 * layer has no kernel, or out of memory.
 */
bool rivals_give_way(rivals *layer, const char *kernel);
void rivals_release(rivals *layer);

/*
 * True if one replay is faster than the other by more than the difference that
 * two medians of the same replays may have.
 */
bool rivals_is_faster(double us, double than);

/*
 * The search's interface to the network. `back`: restores the layer's earlier
 * kernel, even if the search is interrupted.
 */
typedef struct rivals_network {
    spc_status (*take)(void *payload, int layer, const char *kernel, bool back);
    spc_status (*time)(void *payload, double *us); /* measures the time of a
                                                    * replay */
    bool (*has_time)(void *payload);
    void *payload;
} rivals_network;

/*
 * Tries the rivals of each layer, the first rival of each layer before the
 * second of any, while there is time. Keeps those that make a replay faster
 * both times that it is timed, even if the search ends early. *us is the time
 * of a replay before and after; *changed returns the number of layers with
 * another kernel.
 */
spc_status rivals_try(rivals *layers, int count, const rivals_network *network,
                      double *us, int *changed);

#endif
