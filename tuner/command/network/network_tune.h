/* SPDX-License-Identifier: Apache-2.0 */
/* network_tune.h - tunes a network: its layers, and the results. */
#ifndef SPC_CMD_NETWORK_TUNE_H
#define SPC_CMD_NETWORK_TUNE_H

#include "command/network/joint_layouts.h"
#include "command/network/network.h"
#include "command/network/rivals.h"
#include "command/tune/tuning.h"

/* A layer of a level. */
typedef struct problem {
    char text[320];
    spc_conv layer;
    /* coordinate set on whose voxels it is tuned; 0: the input's */
    int set;
    double us, floor_us; /* of all steps with this layer */
    joint_layer known;   /* its fastest kernels, by the order that they read */
    rivals rivals;       /* those that are nearly as fast as its own */
    char *untuned;       /* the kernel of a plan without records; owned */
    bool gives_way;      /* the untuned kernel replaces its own */
} problem;

typedef struct tuning {
    network net;
    cli_job job;
    problem *problems;
    int count;
    double *price_us;    /* by map: cost of one order */
    double spent_ms;     /* on layers */
    bool is_cut;         /* the budget ended before the layers did */
    spc_scene ***levels; /* [scenes][sets]; NULL: no layer's */
} tuning;

/* Makes the voxels of its level the job's scenes. */
void network_bring_scenes(tuning *t, const problem *p);

/* The problem of a step that is a convolution, or NULL. */
problem *network_find_problem(const tuning *t, const spc_net_step *step);

/*
 * Tests the layers' own choices in the network, and prints the network's time
 * (network_confirm.c).
 */
spc_status network_confirm(tuning *t);

#endif
