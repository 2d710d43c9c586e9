/* SPDX-License-Identifier: Apache-2.0 */
/*
 * net.h - a network inside the library: its sets, maps, tensors and layers.
 *
 * Public part: the section "networks" of spc.h. A network is a value without a
 * device. All arrays are in the order in which things were added, so whatever
 * something is made of comes before it; all references are indices.
 */
#ifndef SPC_RUNTIME_NET_H
#define SPC_RUNTIME_NET_H

#include "spc.h"

enum { SPC__NET_SOURCES = 8, SPC__NET_PARAMS = 3 };

typedef enum spc__net_set_kind {
    SPC__NET_INPUT,    /* the caller's rows */
    SPC__NET_OUTPUTS,  /* derived from one set by a rule */
    SPC__NET_REGROUPED /* made of the voxels of others */
} spc__net_set_kind;

typedef struct spc__net_set {
    spc__net_set_kind kind;
    int from[SPC__NET_SOURCES];
    int sources;
    spc_geometry rule;  /* OUTPUTS */
    spc_regrouping how; /* REGROUPED */
    /* REGROUPED, of one set: only slots stay whose number in the tensor `mask`
     * is above `above`; `room` as in spc_net_masked. */
    bool masked;
    int mask;
    float above;
    double room;
    int shape[3]; /* voxels along x, y, z, from 0; 0: not known */
    bool cloud;   /* true points; of OUTPUTS those that `rule.voxel` samples */
} spc__net_set;

typedef struct spc__net_map {
    int in, to; /* sets */
    spc_geometry geometry;
    bool inverse;
} spc__net_map;

/* A name that files give to a map, and the first layer that has it. */
typedef struct spc__net_key {
    char *name;
    int map, node;
} spc__net_key;

typedef struct spc__net_tensor {
    int set;
    int channels;
    spc_dtype dtype; /* F16, F32, BF16 or I8: how it lies in memory */
    float scale;     /* of I8: what a whole number is a multiple of */
    bool dense;      /* a row for each batch element */
    bool index;      /* input rows as int32: where maxima are from */
    int64_t elements;
    int node; /* that makes it; -1: the input */
} spc__net_tensor;

typedef enum spc__net_node_kind {
    SPC__NODE_CONV,
    SPC__NODE_FEATURE,
    SPC__NODE_CONCAT,
    SPC__NODE_REGROUP
} spc__net_node_kind;

typedef struct spc__net_node {
    spc__net_node_kind kind;
    char *name, *norm;
    double eps;
    spc_conv conv;       /* CONV, as it was completed */
    spc_feature feature; /* FEATURE */
    bool slices;         /* REGROUP */
    int map;             /* -1: it has none */
    int in[SPC__NET_SOURCES], ins;
    /* The residual, what ADD adds, or the outputs of the pooling whose indices
     * UNPOOL reads; SPC_NO_TENSOR. */
    int add;
    int out;
    float *params[SPC__NET_PARAMS];  /* weights, scale, bias; NULL: not set */
    int64_t counts[SPC__NET_PARAMS]; /* 0: it has none */
    char *notes[SPC__NET_PARAMS];    /* what is odd about them; NULL: nothing */
    /* An earlier layer of the same name: its parameters are this one's, which
     * has a copy. -1: there is none. */
    int shares;
} spc__net_node;

typedef struct spc__net_out {
    char *name;
    int tensor;
} spc__net_out;

struct spc_net {
    int users; /* whoever made it, and plans */
    char *name;
    char *input_name;
    spc_net_input input;
    spc__net_set *sets;
    spc__net_map *maps;
    spc__net_key *keys;
    spc__net_tensor *tensors;
    spc__net_node *nodes;
    spc__net_out *outs;
    char **notes;
    int set_count, map_count, key_count, tensor_count, node_count, out_count,
        note_count;
};

/* The operand of parameter i of a node. */
extern const spc_operand spc__net_operands[SPC__NET_PARAMS];

/* Room for one more element of `bytes` in an array of `count`: its new place,
 * cleared, or NULL. */
void *spc__net_grow(void *array, int count, size_t bytes);

/* The index of an equal set or map, which is added if there is none; -1: no
 * memory, which *error says. */
int spc__net_find_set(spc_net *net, const spc__net_set *set, spc_error *error);
int spc__net_find_map(spc_net *net, const spc__net_map *map, spc_error *error);

/* The set of outputs of `geometry` over the set `from`. */
void spc__net_outputs_of(spc__net_set *out, const spc_net *net, int from,
                         const spc_geometry *geometry);
/* Do the two sets have the same voxels in the same order? */
bool spc__net_set_equal(const spc__net_set *a, const spc__net_set *b);

/* The indices that a pooling stores, or that an un-pooling reads: the tensor
 * after the pooling's outputs; SPC_NO_TENSOR: it has none. */
int spc__net_index(const spc__net_node *node);

/* Do the voxels of the set depend on features? */
bool spc__net_set_is_late(const spc_net *net, int set);

/* Weights and scale of a convolution as its kernel takes them, before weights
 * are rounded to its type: of I8 divided by the step of their channel, which
 * the scale has then. The caller's, also on failure. */
spc_status spc__net_stored_params(float **weights, float **scale,
                                  const spc__net_node *node, spc_error *error);
/* A layer as it was before spc_net_quantise, but for a scale that it may have
 * been given. */
void spc__net_unquantised(spc_conv *conv);

/* 1 where weights are no whole numbers. */
float spc__net_weight_step(const spc__net_node *node, int channel);

/* Has node n a parameter j that is its own, and not an earlier layer's? */
bool spc__net_owns(const spc_net *net, int n, int j);
/* Gives layers that share parameters those that were set. */
spc_status spc__net_copy_shared(spc_net *net, spc_error *error);

/* One more user of the network; spc_net_free takes one away. */
const spc_net *spc__net_share(const spc_net *net);

/* Notes how many values of parameter j are no finite numbers, if any. */
spc_status spc__net_note_values(spc__net_node *node, int j,
                                const float *values, spc_error *error);

/* Copies a text; NULL stays NULL. */
spc_status spc__net_text(char **out, const char *text, spc_error *error);

#endif
