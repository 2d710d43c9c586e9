/* SPDX-License-Identifier: Apache-2.0 */
/*
 * network_tune.h - tuning a network: its layers, and what is found out about
 * them.
 */
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
    int set;             /* whose voxels are its scene; 0: the network's own */
    double us, floor_us; /* of all steps that are this layer */
    joint_layer known;   /* its fastest kernels, by the order that they read */
    rivals rivals;       /* those that are nearly as fast as its own */
    char *untuned;       /* what a plan would have without records; owned */
    bool gives_way;      /* its own kernel, to that one */
} problem;

typedef struct tuning {
    network net;
    cli_job job;
    problem *problems;
    int count;
    double *price_us;    /* by map: of one order of it */
    double spent_ms;     /* on layers */
    bool is_cut;         /* the budget was over before the layers were */
    spc_scene ***levels; /* [scenes][sets]; NULL: no layer's */
} tuning;

/* The voxels of its level become the job's scenes. */
void network_bring_scenes(tuning *t, const problem *p);

/* The problem of a step, which is a convolution; NULL: none. */
problem *network_find_problem(const tuning *t, const spc_net_step *step);

/* What layers were given alone is tried in the network, and what the network
 * takes is printed (network_confirm.c). */
spc_status network_confirm(tuning *t);

#endif
