/* SPDX-License-Identifier: Apache-2.0 */
/*
 * net.h - a network inside the library: its sets, maps, tensors and layers.
 * Public part: spc/net.h.
 *
 * A network is a value and belongs to no device. Arrays are in the order of
 * creation, so an element comes after everything that it refers to. All
 * references are indices.
 */
#ifndef SPC_RUNTIME_NET_H
#define SPC_RUNTIME_NET_H

#include "spc.h"

enum { SPC__NET_SOURCES = 8, SPC__NET_PARAMS = 3 };

typedef enum spc__net_set_kind {
    SPC__NET_INPUT,    /* the caller's rows */
    SPC__NET_OUTPUTS,  /* derived from one set by a rule */
    SPC__NET_REGROUPED, /* made from the voxels of other sets */
    SPC__NET_BATCHES    /* a row for each batch element (net_batches.c) */
} spc__net_set_kind;

typedef struct spc__net_set {
    spc__net_set_kind kind;
    int from[SPC__NET_SOURCES];
    int sources;
    spc_geometry rule;  /* for OUTPUTS */
    spc_regrouping how; /* for REGROUPED */
    /* For a REGROUPED set with one source: keeps only slots whose value in the
     * tensor `mask` is above `above`. `room` as in spc_net_masked. */
    bool masked;
    int mask;
    float above;
    double room;
    int shape[3]; /* voxels along x, y and z; 0: unknown */
    bool cloud;   /* points and not voxels; for OUTPUTS the points sampled by
                   * `rule.voxel` */
} spc__net_set;

typedef struct spc__net_map {
    int in, to; /* indices of sets */
    spc_geometry geometry;
    bool inverse;
} spc__net_map;

/* A name that a file gives to a map, and the first layer with it. */
typedef struct spc__net_key {
    char *name;
    int map, node;
} spc__net_key;

typedef struct spc__net_tensor {
    int set;
    int channels;
    spc_dtype dtype; /* type in memory: F16, F32, BF16 or I8 */
    float scale;     /* for I8: the quantisation step */
    /* one row for each batch element: rows of the set BATCHES, or dense planes,
     * which no layer reads */
    bool dense;
    bool index;      /* int32 indices of the input rows with the maxima */
    int64_t elements;
    int node; /* the node that makes it; -1: the input */
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
    spc_conv conv;       /* completed layer, for CONV */
    spc_feature feature; /* for FEATURE */
    bool slices;         /* for REGROUP */
    int map;             /* -1: none */
    int in[SPC__NET_SOURCES], ins;
    /* The residual, the second operand of ADD, or the outputs of the pooling
     * whose indices UNPOOL reads; else SPC_NO_TENSOR. */
    int add;
    int out;
    float *params[SPC__NET_PARAMS];  /* weights, scale, bias; NULL: not set */
    /* number of elements; 0: no such parameter */
    int64_t counts[SPC__NET_PARAMS];
    char *notes[SPC__NET_PARAMS];    /* remarks about unusual values; NULL:
                                      * none */
    /* An earlier layer of the same name, whose parameters this layer copies;
     * -1: none. */
    int shares;
} spc__net_node;

typedef struct spc__net_out {
    char *name;
    int tensor;
} spc__net_out;

struct spc_net {
    int users; /* references: the creator and plans */
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

/* The operand of each parameter of a node. */
extern const spc_operand spc__net_operands[SPC__NET_PARAMS];

/* Makes space for one more element of `bytes` bytes in an array of `count`.
 * Returns the array with the new element zeroed, or NULL. */
void *spc__net_grow(void *array, int count, size_t bytes);

/* Returns the index of an equal set or map, adding it if necessary. Returns -1
 * if out of memory and sets *error. */
int spc__net_find_set(spc_net *net, const spc__net_set *set, spc_error *error);
int spc__net_find_map(spc_net *net, const spc__net_map *map, spc_error *error);

/* Makes the set of outputs of `geometry` over the set `from`. */
void spc__net_outputs_of(spc__net_set *out, const spc_net *net, int from,
                         const spc_geometry *geometry);
/* True if the two sets have the same voxels in the same order. */
bool spc__net_set_equal(const spc__net_set *a, const spc__net_set *b);

/* The tensor of indices that a pooling stores or an un-pooling reads, which
 * follows the pooling's outputs; else SPC_NO_TENSOR. */
int spc__net_index(const spc__net_node *node);

/* True if the voxels of the set depend on features. */
bool spc__net_set_is_late(const spc_net *net, int set);

/*
 * Returns weights and scale of a convolution as its kernel takes them, before
 * weights are rounded to its type. For I8, weights are divided by the
 * quantisation step of their channel, and the scale is multiplied by it. The
 * caller frees both, also on failure.
 */
spc_status spc__net_stored_params(float **weights, float **scale,
                                  const spc__net_node *node, spc_error *error);
/* Restores the layer before spc_net_quantise, except for a scale that was
 * added. */
void spc__net_unquantised(spc_conv *conv);

/* The quantisation step of a channel's weights; 1 if the weights are not quantised. */
float spc__net_weight_step(const spc__net_node *node, int channel);

/* True if node n has its own parameter j and does not copy an earlier
 * layer's. */
bool spc__net_owns(const spc_net *net, int n, int j);
/* Copies parameters that were set to the layers that share them. */
spc_status spc__net_copy_shared(spc_net *net, spc_error *error);

/* Adds a reference, which spc_net_free releases. */
const spc_net *spc__net_share(const spc_net *net);

/* Notes how many values of parameter j are not finite, if any. */
spc_status spc__net_note_values(spc__net_node *node, int j, const float *values,
                                spc_error *error);

/* Copies a text; NULL stays NULL. */
spc_status spc__net_text(char **out, const char *text, spc_error *error);

#endif
