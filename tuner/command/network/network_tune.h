/* SPDX-License-Identifier: Apache-2.0 */
/* network_tune.h - tunes a network: its layers, and the results. */
#ifndef SPC_CMD_NETWORK_TUNE_H
#define SPC_CMD_NETWORK_TUNE_H

#include "command/network/joint_layouts.h"
#include "command/network/network.h"
#include "command/network/rivals.h"
#include "command/tune/tuning.h"

/* A layer on one level of the network. */
typedef struct problem {
    char text[320];
    spc_conv layer;
    /* coordinate set on whose voxels the layer is tuned; 0: the set of the
     * input */
    int set;
    double us, floor_us; /* time of all occurrences of this layer */
    joint_layer known;   /* its fastest kernel for each row order */
    rivals rivals;       /* kernels that are nearly as fast as the chosen one */
    char *untuned;       /* the kernel of a plan without records; owned */
    bool gives_way;      /* the untuned kernel replaces the chosen one */
} problem;

typedef struct tuning {
    network net;
    cli_job job;
    problem *problems;
    int count;
    double *price_us;    /* for each map, the cost of one row order */
    double spent_ms;     /* time spent on layers */
    bool is_cut;         /* the budget ended before all layers were tuned */
    spc_scene ***levels; /* [scenes][sets]; NULL if no layer uses the set */
} tuning;

/* Makes the voxels of the layer's level the scenes of the job. */
void network_bring_scenes(tuning *t, const problem *p);

/* The problem of a step that is a convolution, or NULL. */
problem *network_find_problem(const tuning *t, const spc_net_step *step);

/*
 * Tests the layers' own choices in the network, and prints the network's time
 * (network_confirm.c).
 */
spc_status network_confirm(tuning *t);

#endif
