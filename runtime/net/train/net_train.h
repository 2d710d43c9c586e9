/* SPDX-License-Identifier: Apache-2.0 */
/*
 * net_train.h - training a network on one scene: values, steps, and the way
 * back.
 *
 * What can be trained says net_train_check.c. A layer becomes a few steps
 * (net_train_steps.c), as the gradient of each part needs what went into it: a
 * convolution, its scale, the residual, the activation. Sets that features
 * choose are filled anew by each forward pass, with all that hangs on them. The
 * way back is a list of actions that is made once (net_train_back.c);
 * net_train_run.c runs both, net_train.c has the entry and the parameters.
 */
#ifndef SPC_RUNTIME_NET_TRAIN_H
#define SPC_RUNTIME_NET_TRAIN_H

#include "net/net_plan.h"

enum {
    SPC__TRAIN_PARTS = 5, /* steps of a layer at most */
    SPC__TRAIN_NONE = -1
};

/* What a step makes, or the features. */
typedef struct spc__train_value {
    int set, channels;
    spc_dtype dtype;
    int64_t rows, elements; /* of a row */
    int64_t room;           /* rows that its arrays have */
    bool wanted;            /* its gradient: something is trained before it */
    void *data;             /* NULL: the caller's features */
    int grad; /* while the way back is made: the array with all of it so far */
} spc__train_value;

typedef enum spc__train_kind {
    SPC__TRAIN_CONV,
    SPC__TRAIN_FEATURE,
    SPC__TRAIN_CONCAT,
    SPC__TRAIN_GATHER
} spc__train_kind;

/* A problem of a convolution with its kernel. */
typedef struct spc__train_pass {
    spc_conv conv;
    spc_map *map;
    bool owned; /* the map */
    spc_plan *plan;
    void *packed;
} spc__train_pass;

/* A problem of an operator on features with its kernels. */
typedef struct spc__train_feature {
    spc_feature feature;
    spc_map *map; /* NULL: it reads a set */
    bool owned;
    spc_feature_plan *plan;
} spc__train_feature;

/* What must be filled before a step, as features choose its voxels: a set, or a
 * map. */
typedef struct spc__train_update {
    int set;      /* of the network */
    spc_map *map; /* NULL: it is the set */
} spc__train_update;

typedef struct spc__train_step {
    spc__train_kind kind;
    const spc__net_node *node;
    int in[SPC__NET_SOURCES], ins, add, out;   /* values */
    spc__train_pass forward, dgrad, wgrad;     /* CONV */
    spc__train_feature run, back, sums;        /* FEATURE; sums: wgrad */
    spc__train_feature copy[SPC__NET_SOURCES]; /* CONCAT: of each part */
    int32_t *index; /* FEATURE: where maxima are from */
    bool borrows;   /* that of the pooling, which an un-pooling reads */
    int first_update, update_count;
    /* Parameters: `first` values, then `second`. Of a convolution weights
     * (RSCK) and bias, else scale and shift. */
    int64_t first, second;
    bool keeps_second; /* it is no parameter: a shift that stays 0 */
    float *values;     /* on the host */
    float *vector;     /* on the device: the bias, or scale and shift */
    float *change;     /* on the device: the gradient of values */
} spc__train_step;

typedef enum spc__train_do {
    SPC__TRAIN_WEIGHTS, /* the gradient of parameters */
    SPC__TRAIN_INPUTS,  /* that of inputs */
    SPC__TRAIN_SLICE,   /* the part of a concatenation's */
    SPC__TRAIN_SPREAD,  /* that of the sources of a set */
    SPC__TRAIN_SUM      /* of two that are of the same value */
} spc__train_do;

typedef struct spc__train_action {
    spc__train_do what;
    int step, part;
    int dy, with;              /* arrays */
    int out[SPC__NET_SOURCES]; /* of SPREAD several, else one */
    spc__train_feature sum;    /* SUM */
} spc__train_action;

struct spc_training {
    spc_ctx *ctx;
    spc_net_plan *plan;
    spc__train_value *values; /* 0: the features */
    spc__train_step *steps;
    spc__train_action *actions;
    spc__train_update *updates;
    void **arrays; /* of gradients, on the device; the first ones, by output,
                      are the caller's */
    int value_count, step_count, action_count, array_count, update_count;
    int *value_of; /* by tensor of the network */
    void *work;    /* of one step at a time */
    size_t work_bytes;
    const void *features; /* of the last forward pass; NULL: there was none */
};

/* SPC_EUNSUPPORTED names the layer that cannot be trained. `used` (by node)
 * becomes true for those that the output depends on. */
spc_status spc__train_check(const spc_net *net, bool *used, spc_error *error);

/* Steps, values and parameters, whose memory is taken; then the way back, to
 * the features too if they are wanted. */
spc_status spc__train_steps(spc_training *t, const bool *used, bool features);
spc_status spc__train_back(spc_training *t);

/* The value that is output i. */
const spc__train_value *spc__train_output(const spc_training *t, int i);

/* Device memory; SPC_ENOMEM. */
spc_status spc__train_take(void **out, spc_training *t, size_t bytes);
/* An operator over the set of `value`, or a map from one set to another. */
spc_status spc__train_operator(spc__train_feature *out, spc_training *t,
                               const spc_feature *feature, int in, int to);
void spc__train_release(spc__train_feature *f);

/* Of networks of clouds (net_train_points.c): a map from one set to another,
 * that of rows by themselves where the geometry is a linear layer's. */
spc_status spc__train_cloud_map(spc_map **out, spc_training *t,
                                const spc_geometry *geometry, bool inverse,
                                int in, int to);

/* Packs and copies what the host has. */
spc_status spc__train_put(spc_training *t, spc__train_step *step);

bool spc__train_has_params(const spc__train_step *step);

/* Where weight i of the network, which are KRSC, lies in RSCK. */
int64_t spc__train_place(const spc_conv *conv, int64_t i);

#endif
