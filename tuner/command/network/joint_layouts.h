/* SPDX-License-Identifier: Apache-2.0 */
/*
 * joint_layouts.h - which layouts a map has, when the layers that read it
 * choose together.
 *
 * Each layer alone would take its fastest kernel, and with it the row order
 * that this kernel reads; but each order that anybody reads is made anew for
 * every scene. So the orders of a map are chosen that make the sum of its
 * layers' times and of the orders' own prices least: one that several layers
 * read is paid for once.
 */
#ifndef SPC_CMD_JOINT_LAYOUTS_H
#define SPC_CMD_JOINT_LAYOUTS_H

#include <stdbool.h>

enum { JOINT_ORDERS = 10, JOINT_NAME = 24 };

/* A layer's fastest kernel of those that read one order. */
typedef struct joint_option {
    char order[JOINT_NAME]; /* "none": that of the map itself, which costs
                               nothing */
    char *kernel;           /* "TEMPLATE CONFIG"; owned */
    double us;
} joint_option;

typedef struct joint_layer {
    int map;   /* -1: linear layers read none */
    int steps; /* of the network that are this layer */
    joint_option options[JOINT_ORDERS];
    int count;
    int own, chosen; /* options; -1: none yet */
} joint_layer;

/* A candidate that took so long; `is_own`: what the layer alone would take.
 * false: out of memory. */
bool joint_layer_add(joint_layer *layer, const char *template_name,
                     const char *config, double us, bool is_own);
void joint_layer_release(joint_layer *layer);

/* The order that a kernel with this configuration reads; its template's name
 * where it does not say one: pairs and the like. */
void joint_order_of(char out[JOINT_NAME], const char *template_name,
                    const char *config);

/* Sets `chosen` of the layers that read `map`, one of whose orders costs
 * `price_us`; returns by how much they are faster so, which may be 0. */
double joint_choose(joint_layer *layers, int count, int map, double price_us);

#endif
