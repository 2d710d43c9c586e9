/* SPDX-License-Identifier: Apache-2.0 */
/*
 * net_train.h - training of a network on one scene: values, steps and the
 * backward pass.
 *
 * net_train_check.c defines what can be trained. A layer becomes a few steps
 * (net_train_steps.c), since the gradient of each part needs its own input:
 * convolution, scale, residual, activation. Sets that depend on features, and
 * everything that depends on those sets, are filled again in each forward pass.
 * The backward pass is a list of actions that is made once (net_train_back.c).
 * net_train_run.c runs both; net_train.c has the interface and the parameters.
 */
#ifndef SPC_RUNTIME_NET_TRAIN_H
#define SPC_RUNTIME_NET_TRAIN_H

#include "net/net_plan.h"
#include "spc/train.h"

enum {
    SPC__TRAIN_PARTS = 5, /* maximum number of steps of a layer */
    SPC__TRAIN_NONE = -1
};

/* The result of a step, or the features. */
typedef struct spc__train_value {
    int set, channels;
    spc_dtype dtype;
    int64_t rows, elements; /* elements of a row */
    int64_t capacity;       /* rows allocated in its arrays */
    /* its gradient is needed, as a trained step precedes it */
    bool wanted;
    void *data; /* NULL: the caller's features */
    int grad;   /* during construction of the backward pass: the array with the
                 * sum so far */
} spc__train_value;

typedef enum spc__train_kind {
    SPC__TRAIN_CONV,
    SPC__TRAIN_FEATURE,
    SPC__TRAIN_CONCAT,
    SPC__TRAIN_GATHER
} spc__train_kind;

/* A convolution problem with its kernel. */
typedef struct spc__train_pass {
    spc_conv conv;
    spc_map *map;
    bool owned; /* the map belongs to this pass */
    spc_plan *plan;
    void *packed;
} spc__train_pass;

/* A feature operator with its kernels. */
typedef struct spc__train_feature {
    spc_feature feature;
    spc_map *map; /* NULL: it reads a set */
    bool owned;
    spc_feature_plan *plan;
} spc__train_feature;

/* A set or map that must be filled before a step, since its voxels depend on
 * features. */
typedef struct spc__train_update {
    int set;      /* index of the set in the network */
    spc_map *map; /* NULL: fill the set */
} spc__train_update;

typedef struct spc__train_step {
    spc__train_kind kind;
    const spc__net_node *node;
    int in[SPC__NET_SOURCES], ins, add, out;   /* values */
    spc__train_pass forward, dgrad, wgrad;     /* for CONV */
    spc__train_feature run, back, sums;        /* for FEATURE; `sums` is its
                                                * wgrad */
    spc__train_feature copy[SPC__NET_SOURCES]; /* for CONCAT, one for each
                                                * part */
    int32_t *index; /* for FEATURE: input rows that have the maxima */
    bool borrows;   /* an un-pooling uses the pooling's array */
    int first_update, update_count;
    /* Parameters: `first` values, then `second`: weights (RSCK) and bias for a
     * convolution, else scale and shift. */
    int64_t first, second;
    bool keeps_second; /* not a parameter: a shift that stays 0 */
    float *values;     /* values on the host */
    float *vector;     /* on the device: bias, or scale and shift */
    float *change;     /* on the device: the gradient of `values` */
} spc__train_step;

typedef enum spc__train_do {
    SPC__TRAIN_WEIGHTS, /* gradient of parameters */
    SPC__TRAIN_INPUTS,  /* gradient of inputs */
    SPC__TRAIN_FACTORS, /* gradient of the rows that multiply them */
    SPC__TRAIN_SLICE,   /* gradient of one part of a concatenation */
    SPC__TRAIN_SPREAD,  /* gradients of the sources of a set */
    SPC__TRAIN_SUM      /* sum of two gradients of the same value */
} spc__train_do;

typedef struct spc__train_action {
    spc__train_do what;
    int step, part;
    int dy, with;              /* indices of arrays */
    int out[SPC__NET_SOURCES]; /* several for SPREAD, else one */
    spc__train_feature sum;    /* for SUM */
} spc__train_action;

struct spc_training {
    spc_ctx *ctx;
    spc_net_plan *plan;
    spc__train_value *values; /* value 0 is the features */
    spc__train_step *steps;
    spc__train_action *actions;
    spc__train_update *updates;
    void **arrays; /* gradients, on the device; the first ones, by output,
                    * belong to the caller */
    int value_count, step_count, action_count, array_count, update_count;
    int *value_of; /* value number of each tensor of the network */
    void *work;    /* workspace, shared by all steps */
    size_t work_bytes;
    const void *features; /* input of the last forward pass; NULL: none yet */
};

/* Checks that the network can be trained. SPC_EUNSUPPORTED names the layer that
 * cannot. Sets `used` (by node) for layers that the output depends on. */
spc_status spc__train_check(const spc_net *net, bool *used, spc_error *error);

/* Makes steps, values and parameters with their memory, then the backward pass.
 * It includes the gradient of the features if wanted. */
spc_status spc__train_steps(spc_training *t, const bool *used, bool features);
spc_status spc__train_back(spc_training *t);

/* The value of output i. */
const spc__train_value *spc__train_output(const spc_training *t, int i);

/* Allocates device memory; SPC_ENOMEM on failure. */
spc_status spc__train_take(void **out, spc_training *t, size_t bytes);
/* Makes an operator over the set of `value`, or over a map between two sets. */
spc_status spc__train_operator(spc__train_feature *out, spc_training *t,
                               const spc_feature *feature, int in, int to);
void spc__train_release(spc__train_feature *f);

/* For networks of clouds (net_train_points.c): makes a map from one set to
 * another, or for a linear layer the identity map. */
spc_status spc__train_cloud_map(spc_map **out, spc_training *t,
                                const spc_geometry *geometry, bool inverse,
                                int in, int to);

/* Packs the parameters and copies them to the device. */
spc_status spc__train_put(spc_training *t, spc__train_step *step);

bool spc__train_has_params(const spc__train_step *step);

/* Index in RSCK of weight i of the network, which is stored as KRSC. */
int64_t spc__train_weight_index(const spc_conv *conv, int64_t i);

#endif
