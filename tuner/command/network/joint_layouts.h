/* SPDX-License-Identifier: Apache-2.0 */
/*
 * joint_layouts.h - chooses the layouts of a map for all layers that read it.
 *
 * Each layer alone would take its fastest kernel, and with it the row order
 * that this kernel reads; but each order in use is made again for every scene.
 * So the orders of a map are chosen to minimise the sum of its layers' times
 * and of the orders' own costs: an order that several layers read is paid for
 * once.
 */
#ifndef SPC_CMD_JOINT_LAYOUTS_H
#define SPC_CMD_JOINT_LAYOUTS_H

#include <stdbool.h>

enum { JOINT_ORDERS = 10, JOINT_NAME = 24 };

/* The fastest kernel of a layer that reads one order. */
typedef struct joint_option {
    /* "none": the order of the map, which costs nothing; hybrids read two, as
     * "gray+pairs" */
    char order[JOINT_NAME];
    char *kernel; /* "TEMPLATE CONFIG"; owned */
    double us;
} joint_option;

typedef struct joint_layer {
    int map;  /* the map of the layer; -1 for linear layers, which read none */
    int uses; /* how many times a run has this layer */
    joint_option options[JOINT_ORDERS];
    int count;
    int own, chosen; /* indices of options; -1: not set yet */
} joint_layer;

/*
 * Adds a candidate with its time; `is_own`: the choice of the layer alone.
 * false: out of memory.
 */
bool joint_layer_add(joint_layer *layer, const char *template_name,
                     const char *config, double us, bool is_own);
void joint_layer_release(joint_layer *layer);

/*
 * Returns the order that a kernel with this configuration reads, or the
 * template's name if it has no parameter for the order. Kernels with a
 * threshold (near=) read lists of pairs, which cost about as much as an order,
 * and hybrids read an order as well.
 */
void joint_order_of(char out[JOINT_NAME], const char *template_name,
                    const char *config);

/*
 * Sets `chosen` of the layers that read `map`, where each order costs
 * `price_us`; returns the time that they save, which may be 0.
 */
double joint_choose(joint_layer *layers, int count, int map, double price_us);

#endif
