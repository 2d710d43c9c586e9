/* SPDX-License-Identifier: Apache-2.0 */
/* quantise.h - shared by the files of spctune quantise. */
#ifndef SPC_CMD_QUANTISE_H
#define SPC_CMD_QUANTISE_H

#include "command/network/network.h"
#include "spc/lab.h"

typedef struct quantise_args {
    network_args net;   /* with the scenes for the ranges */
    cli_list held_out;  /* scenes, or files of points, for the errors */
    cli_list keep;      /* names of layers that stay in f16 */
    const char *ranges; /* max, percentile or mse; NULL: mse */
    double percentile;  /* 0 to 100 */
    double most;        /* the largest error of a layer by itself */
    double most_output; /* of the last output; 0: any */
    const char *floors; /* a device, or NULL */
    const char *name;   /* of the stored network; NULL: it is not stored */
    bool replace;
} quantise_args;

/* A convolution, by the tensor that it makes. */
typedef struct quantise_layer {
    const char *name;
    int in, out; /* tensors */
    spc_dtype in_type, out_type;
    double rounding, own, total; /* relative to the size of the outputs */
    double f16_own, f16_total;
    /* the error by itself for which i8 was given up; 0: it was not */
    double refused;
    bool asked; /* --keep */
} quantise_layer;

/* What a layer's step costs on the first held-out scene, in both types. */
typedef struct quantise_cost {
    const char *name;
    int64_t rows, pairs;
    spc_net_floor f16, mixed;
} quantise_cost;

typedef struct quantising {
    cli *self;
    const quantise_args *args;
    network_args wide_args, args16;
    cli_list scenes;        /* those for the ranges, then those held out */
    int ranged;             /* the first `ranged` scenes give the ranges */
    network wide;           /* in f32 */
    network net;            /* in f16, then with layers in i8 */
    float *ranges;          /* by tensor; 0: it stays f16 */
    float *shown;           /* the ranges before layers were refused */
    spc_net_deviation *off; /* by tensor, of the last measurement */
    quantise_layer *layers;
    int layer_count;
    quantise_cost *costs;
    int cost_count;
    double output, f16_output; /* errors of the last output */
    int rounds;                /* networks that were measured */
} quantising;

/* Scenes that give errors: those held out, else those of the ranges. */
int quantise_first_measured(const quantising *q);
/* Name of the rule for ranges. */
const char *quantise_rule(const quantise_args *args);

/* Prints the result (quantise_report.c). */
spc_status quantise_report(const quantising *q);

#endif
