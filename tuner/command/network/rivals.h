/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rivals.h - is a network faster with another kernel of a layer?
 *
 * A layer that is timed alone has the device and its cache to itself. In a
 * network others run beside it, before it and after it, so kernels that are
 * nearly as fast alone, its rivals, are tried in the network, and the time of a
 * replay decides.
 */
#ifndef SPC_CMD_RIVALS_H
#define SPC_CMD_RIVALS_H

#include "spc_status.h"
#include <stdbool.h>

enum { RIVALS_MOST = 4 };

/* The kernels "TEMPLATE CONFIG" of a layer; all are owned. */
typedef struct rivals {
    char *now; /* NULL: none is known, and nothing is tried */
    char *other[RIVALS_MOST];
    double us[RIVALS_MOST]; /* alone */
    int count;
} rivals;

/* One that took so long alone; of more than there is room for the fastest stay.
 * false: out of memory. */
bool rivals_add(rivals *layer, const char *kernel, double us);

/* It is tried before all others, if it is among them. */
void rivals_put_first(rivals *layer, const char *kernel);

/* `kernel` takes the place of the layer's own, which is its first rival then;
 * false: it has none, or out of memory. */
bool rivals_give_way(rivals *layer, const char *kernel);
void rivals_release(rivals *layer);

/* Is this time of a replay less than that one, for all that two medians of the
 * same replays differ by? */
bool rivals_is_faster(double us, double than);

/* The network, as the search sees it. `back`: that is what the layer had, and
 * has again even if the search is interrupted. */
typedef struct rivals_network {
    spc_status (*take)(void *payload, int layer, const char *kernel, bool back);
    spc_status (*time)(void *payload, double *us); /* a replay */
    bool (*has_time)(void *payload);
    void *payload;
} rivals_network;

/*
 * Tries the rivals of each layer, the first of each before the second of any,
 * as long as there is time, and keeps those with which a replay is faster both
 * times that it is timed; so it is if the search ends early. *us is the time of
 * a replay before and after; returns in *changed how many layers have another
 * kernel.
 */
spc_status rivals_try(rivals *layers, int count, const rivals_network *network,
                      double *us, int *changed);

#endif
