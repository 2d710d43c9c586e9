/* SPDX-License-Identifier: Apache-2.0 */
/*
 * net_plan.h - a network on a device: what it consists of, and where its
 * tensors lie.
 *
 * A plan is a list of works, one after the other: all sets and maps, then the
 * layers. net_works.c makes the list, net_sets.c reserves sets and maps,
 * net_memory.c finds room for tensors, net_plan.c makes what works need,
 * net_run.c runs them; net_branches.c makes a graph of a captured run,
 * net_shares.c shares the device out among its branches, and net_waits.c says
 * which layers wait for which. net_siblings.c makes one layer of several that
 * read one tensor.
 */
#ifndef SPC_RUNTIME_NET_PLAN_H
#define SPC_RUNTIME_NET_PLAN_H

#include "device/device.h"
#include "net/net.h"

/* One thing that is done on the stream. */
typedef struct spc__net_work {
    spc_net_step_kind kind;
    int node;   /* of a layer; the convolution, where an ADD became part of it;
                   the first of those that are one wide layer */
    int set;    /* that is filled, or in which the outputs of a layer lie */
    int map;    /* that is filled, or read; -1: linear layers have none */
    bool fills; /* a map that fills the input's set too */
    int in, add, out;    /* tensors */
    int index;           /* that POOL writes, or UNPOOL reads */
    int64_t channel;     /* of `out` that the outputs begin at */
    spc_conv conv;       /* with pitches, and with the ADD */
    spc_feature feature; /* with those of its tensors */
    spc_plan *conv_plan;
    int layout; /* of a linear layer: that of its rows */
    spc_feature_plan *feature_plan;
    void *packed;         /* weights on the device, and */
    float *scale, *bias;  /* both of these */
    size_t weights_bytes; /* of the three */
    size_t workspace,
        bytes; /* where it lies in the memory of a run, its size */
    char kernel[256];
} spc__net_work;

/* A piece of memory that one tensor has, or several side by side. */
typedef struct spc__net_piece {
    size_t bytes, offset;
    int first, last; /* works that write or read it */
} spc__net_piece;

typedef struct spc__net_place {
    int piece;       /* -1: the caller's, or nobody's */
    int64_t channel; /* of the piece's rows */
    int64_t pitch;   /* elements from row to row */
} spc__net_place;

/* A work before the first layer, in a graph (net_branches.c). */
typedef struct spc__net_branch {
    int after[SPC__NET_SOURCES + 1]; /* works that it waits for */
    int after_count;
    int need; /* the first layer that waits for it, or for others that do */
    int turn; /* of the array: the work that is captured at this place */
    unsigned blocks; /* its share of the device */
    double ends;     /* us, in the model of the run */
    spc__mark end;   /* while a graph is captured */
} spc__net_branch;

/* Rows of a set as linear layers read them (net_rows.c). */
typedef struct spc__net_layout {
    int set, tile_rows;
    const spc_plan *plan; /* one of those that read it */
    void *memory;
} spc__net_layout;

struct spc_net_plan {
    spc_ctx *ctx;
    const spc_net *net;
    spc_net_options options;
    spc_voxels *voxels; /* of a plan that takes points; NULL: of no other, and
                           while a sample is indexed */
    spc_voxels_info points; /* as of the last check */
    spc_coords **sets;      /* by set and map of the network; NULL: not used */
    spc_map **maps;
    spc__net_work *works;
    int work_count;
    spc__net_layout *layouts;
    int layout_count;
    float *scales;             /* on the device, by tensor: of I8 */
    spc__net_branch *branches; /* of the first works; NULL: there are none */
    int branch_count;
    int *siblings; /* by node: the next that is computed with it, or -1 */
    spc__net_place *places; /* by tensor */
    spc__net_piece *pieces; /* those of tensors first, then of workspaces */
    int piece_count;
    size_t memory_bytes, weights_bytes;
    bool ran;                 /* since it was planned */
    bool checked;             /* since it ran */
    struct spc__graph *graph; /* NULL: nothing was captured */
    spc_net_buffers captured;
};

/* Fills works and places. SPC_EINVAL: there is no output. */
spc_status spc__net_works(spc_net_plan *plan, spc_error *error);

/* Finds the layers, of those that `may`, which are computed with one before
 * them: these are `joined` (net_siblings.c). The channels of a wide layer, by
 * its first; that layer as one node, to be parted again. */
spc_status spc__net_find_siblings(spc_net_plan *plan, bool *joined,
                                  const bool *may, spc_error *error);
int spc__net_wide_channels(const spc_net_plan *plan, int node);
spc_status spc__net_join(spc__net_node *out, const spc_net_plan *plan,
                         int node);
void spc__net_part(spc__net_node *joined, const spc_net_plan *plan, int node);

/* Reserves the sets and maps that works name; fills them with the sample, or
 * with nothing; reserves what turns points into voxels, if the plan takes
 * points. In this order. */
spc_status spc__net_make_sets(spc_net_plan *plan);
/* A FOOTPRINT set has room for so many times *scale times the plan's capacity,
 * or for the rule's bound if that is less. */
double spc__net_set_times(double *scale, const spc__net_set *set,
                          double growth);
spc_status spc__net_index_sample(spc_net_plan *plan);
spc_status spc__net_make_voxels(spc_net_plan *plan);

/* Of networks of clouds (net_points.c): reserves a set, filled with the sample;
 * makes a map; gives it room for what it has there, once it was filled; fills
 * a set in a run. */
spc_status spc__net_reserve_cloud(spc_net_plan *plan, int set);
spc_status spc__net_make_radius(spc_net_plan *plan, int map);
spc_status spc__net_fit_radius(spc_net_plan *plan, int map);
spc_status spc__net_fill_cloud(const spc_net_plan *plan, int set,
                               const spc_net_buffers *buffers, void *stream);

/* The pieces' offsets, once their bytes are known; returns all bytes. */
size_t spc__net_arrange(spc__net_piece *pieces, int count);

/* Bytes of an element of a tensor. */
size_t spc__net_element(const spc__net_tensor *tensor);

/* Is there what a run reads and writes? */
spc_status spc__net_check_buffers(const spc_net_plan *plan,
                                  const spc_net_buffers *b, spc_error *error);
/* Puts one work on the stream. */
spc_status spc__net_work_run(spc_net_plan *plan, int i,
                             const spc_net_buffers *buffers, void *stream);

/* Finds out what can go side by side, and shares the device out. */
spc_status spc__net_plan_branches(spc_net_plan *plan);

/* How many multiprocessors each of them has. */
spc_status spc__net_share_device(spc_net_plan *plan);

/* Puts the branches into the graph that is captured from the stream, and what
 * comes next behind all of them; then the layers, each behind the branches that
 * it needs. */
spc_status spc__net_run_branches(spc_net_plan *plan,
                                 const spc_net_buffers *buffers, void *stream);
spc_status spc__net_run_layers(spc_net_plan *plan,
                               const spc_net_buffers *buffers, void *stream);

/* Gives layers of one map one row order where that pays; no map is prepared
 * yet. What a layer takes, roughly, us. */
void spc__net_share_orders(const spc_net_plan *plan);
double spc__net_layer_us(const spc_net_plan *plan, const spc__net_work *work);

/* Finds or makes the layout that a linear layer's plan reads; fills those of a
 * set, once that is filled; frees all. */
spc_status spc__net_share_rows(spc_net_plan *plan, spc__net_work *work);
spc_status spc__net_lay_rows(const spc_net_plan *plan, int set, void *stream);
void spc__net_free_rows(spc_net_plan *plan);

/* Which layers wait for which, in a graph (net_waits.c). */
typedef struct spc__net_waits {
    bool *follows; /* [count][count], by work */
    int count;
} spc__net_waits;

/* May layers run side by side? */
bool spc__net_layers_branch(const spc_net_plan *plan);
/* Lets pieces live on while works could run beside their last one. */
spc_status spc__net_keep_apart(spc_net_plan *plan);
/* Once all lies where it will; the caller frees `follows`. */
spc_status spc__net_find_waits(spc__net_waits *out, const spc_net_plan *plan);
/* Does work i follow j, itself or through others? */
bool spc__net_follows(const spc__net_waits *waits, int i, int j);
/* The works that work i waits for itself, into `list`; how many they are. */
int spc__net_waits_of(int *list, const spc__net_waits *waits, int i);

/* The rows of the input's set: those that the points have become, or the
 * caller's. */
spc_net_buffers spc__net_rows(const spc_net_plan *plan,
                              const spc_net_buffers *buffers);

/* The work takes so many blocks at most; 0: as many as are of use. */
void spc__net_limit(const spc_net_plan *plan, int work, unsigned blocks);

/* Where a tensor lies in a run with these buffers. */
void *spc__net_data(const spc_net_plan *plan, const spc_net_buffers *buffers,
                    int tensor);

#endif
