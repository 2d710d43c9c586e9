/* SPDX-License-Identifier: Apache-2.0 */
/*
 * net_plan.h - a network on a device: its works and the memory of its tensors.
 *
 * A plan is a list of works in order: first all sets and maps, then the layers.
 * net_works.c makes the list, net_sets.c reserves sets and maps, net_memory.c
 * places tensors, net_plan.c makes what works need, and net_run.c runs them.
 * net_branches.c makes a graph of a captured run, net_shares.c divides the
 * device among its branches, and net_waits.c finds which layers wait for which.
 * net_siblings.c merges layers that read the same tensor into one.
 */
#ifndef SPC_RUNTIME_NET_PLAN_H
#define SPC_RUNTIME_NET_PLAN_H

#include "base/scratch.h"
#include "device/device.h"
#include "net/net.h"

/* One operation on the stream. */
typedef struct spc__net_work {
    spc_net_step_kind kind;
    /* node of the layer: the convolution if an ADD is fused into it, or the
     * first of siblings that form one wide layer */
    int node;
    int set;    /* the set that is filled, or the set of a layer's outputs */
    int map;    /* the map that is filled or read; -1 for linear layers */
    bool fills; /* the map also fills the input's set */
    int in, add, out;    /* tensors */
    int index;           /* written by POOL, read by UNPOOL */
    int64_t channel;     /* first channel of the outputs in `out` */
    spc_conv conv;       /* problem with pitches and the fused ADD */
    spc_feature feature; /* operator with the pitches of its tensors */
    spc_plan *conv_plan;
    struct spc__binding *rows; /* plan of a linear layer on a layout of rows
                                * (net_rows.c) */
    spc_feature_plan *feature_plan;
    void *packed;            /* weights on the device */
    float *scale, *bias;     /* scale and bias on the device */
    size_t weights_bytes;    /* bytes of `packed`, `scale` and `bias` */
    size_t workspace, bytes; /* position and size of the workspace in the memory
                                of a run */
    char kernel[256];
} spc__net_work;

/* A piece of memory for one tensor, or for several side by side. */
typedef struct spc__net_piece {
    size_t bytes, offset;
    int first, last; /* works that write or read it */
} spc__net_piece;

typedef struct spc__net_position {
    int piece;       /* -1: the caller's memory, or unused */
    int64_t channel; /* first channel in the piece's rows */
    int64_t pitch;   /* elements from one row to the next */
} spc__net_position;

/* A work before the first layer, as part of a graph (net_branches.c). */
typedef struct spc__net_branch {
    int after[SPC__NET_SOURCES + 1]; /* works that it waits for */
    int after_count;
    int need; /* first layer that depends on it */
    int captured;    /* entry i: the work that is captured at position i */
    unsigned blocks; /* multiprocessors assigned to the branch */
    double ends;     /* estimated end of the branch in the model, us */
    spc__mark end;   /* during the capture of a graph */
} spc__net_branch;

/* Rows of a set as linear layers read them (net_rows.c). */
typedef struct spc__net_layout {
    int set, tile_rows;
    const spc_plan *plan; /* one of the plans that read it */
    void *memory;
} spc__net_layout;

struct spc_net_plan {
    spc_ctx *ctx;
    const spc_net *net;
    spc_net_options options;
    spc_voxels *voxels; /* voxeliser of a plan that takes points; NULL in other
                         * plans and while a sample is indexed */
    spc_voxels_info points; /* result of the last check */
    spc_coords **sets;      /* indexed by set or map of the network; NULL:
                               unused */
    spc_map **maps;
    /* memory of checks, which is allocated once */
    spc__scratch lists, counters;
    spc__net_work *works;
    int work_count;
    spc__net_layout *layouts;
    int layout_count;
    float *scales;             /* scales on the device, by tensor; used for
                                  I8 */
    spc__net_branch *branches; /* branches of the first works; NULL: none */
    int branch_count;
    int *siblings; /* by node: the next sibling computed with it, or -1 */
    spc__net_position *positions; /* one for each tensor */
    spc__net_piece *pieces; /* first the pieces of tensors, then the pieces of
                             * workspaces */
    int piece_count;
    size_t memory_bytes, weights_bytes;
    bool ran;                 /* the plan ran since it was made */
    bool checked;             /* the last run was checked */
    struct spc__graph *graph; /* NULL: no run was captured */
    spc_net_buffers captured;
};

/* Makes the list of works and the places of tensors. Returns SPC_EINVAL if the
 * network has no output. */
spc_status spc__net_works(spc_net_plan *plan, spc_error *error);

/*
 * Finds the layers that can be computed with an earlier one; only layers in
 * `may` take part, and those found are set in `joined` (net_siblings.c). Also:
 * the channels of a wide layer, given its first node, and the wide layer as one
 * node, to be released by the caller.
 */
spc_status spc__net_find_siblings(spc_net_plan *plan, bool *joined,
                                  const bool *may, spc_error *error);
int spc__net_wide_channels(const spc_net_plan *plan, int node);
spc_status spc__net_join(spc__net_node *out, const spc_net_plan *plan,
                         int node);
void spc__net_part(spc__net_node *joined, const spc_net_plan *plan, int node);

/* Reserves the sets and maps of the works, fills them with the sample or with
 * no rows, and reserves the voxeliser if the plan takes points. Call in this
 * order. */
spc_status spc__net_make_sets(spc_net_plan *plan);
/* The capacity of a FOOTPRINT set is this factor times *scale times the plan's
 * capacity, or the rule's bound if that is less. */
double spc__net_set_times(double *scale, const spc__net_set *set,
                          double growth);
spc_status spc__net_index_sample(spc_net_plan *plan);
spc_status spc__net_make_voxels(spc_net_plan *plan);

/* Makes the set of BATCHES, if the network has one; lays its rows for the linear
 * layers that were planned (net_batches.c). */
spc_status spc__net_make_batches(spc_net_plan *plan);
spc_status spc__net_lay_batches(spc_net_plan *plan);

/* For networks of clouds (net_points.c): reserves a set and fills it with the
 * sample; makes a map; sets the map's capacity from its first fill; fills a set
 * in a run. */
spc_status spc__net_reserve_cloud(spc_net_plan *plan, int set);
spc_status spc__net_make_radius(spc_net_plan *plan, int map);
spc_status spc__net_fit_radius(spc_net_plan *plan, int map);
spc_status spc__net_fill_cloud(const spc_net_plan *plan, int set,
                               const spc_net_buffers *buffers, void *stream);

/* Assigns the offsets of the pieces once their sizes are known. Returns the
 * total size. */
size_t spc__net_arrange(spc__net_piece *pieces, int count);

/* Bytes of an element of a tensor. */
size_t spc__net_element(const spc__net_tensor *tensor);

/* Checks that the buffers that a run reads and writes were given. */
spc_status spc__net_check_buffers(const spc_net_plan *plan,
                                  const spc_net_buffers *b, spc_error *error);
/* Enqueues one work. */
spc_status spc__net_work_run(spc_net_plan *plan, int i,
                             const spc_net_buffers *buffers, void *stream);

/* Finds the works that can run side by side, and divides the device. */
spc_status spc__net_plan_branches(spc_net_plan *plan);

/* Chooses the number of multiprocessors of each branch. */
spc_status spc__net_share_device(spc_net_plan *plan);

/* Captures the branches, and makes later work on the stream wait for all of
 * them. Also: captures the layers, each after the branches it needs. */
spc_status spc__net_run_branches(spc_net_plan *plan,
                                 const spc_net_buffers *buffers, void *stream);
spc_status spc__net_run_layers(spc_net_plan *plan,
                               const spc_net_buffers *buffers, void *stream);

/* Chooses a common row order for layers of one map if that is faster; called
 * before maps are prepared. Also: the estimated time of a layer in us. */
void spc__net_share_orders(const spc_net_plan *plan);
double spc__net_layer_us(const spc_net_plan *plan, const spc__net_work *work);

/* Finds or makes the layout that a linear layer's plan reads; fills the layouts
 * of a set after the set; frees all. */
spc_status spc__net_share_rows(spc_net_plan *plan, spc__net_work *work);
spc_status spc__net_lay_rows(const spc_net_plan *plan, int set, void *stream);
void spc__net_free_rows(spc_net_plan *plan);

/* Which layers wait for which in a graph (net_waits.c). */
typedef struct spc__net_waits {
    bool *follows; /* [count][count], by work */
    int count;
} spc__net_waits;

/* True if layers may run side by side. */
bool spc__net_layers_branch(const spc_net_plan *plan);
/* Extends the lifetime of pieces over works that may run at the same time as
 * their last user. */
spc_status spc__net_keep_apart(spc_net_plan *plan);
/* Called when all memory is placed; the caller frees `follows`. */
spc_status spc__net_find_waits(spc__net_waits *out, const spc_net_plan *plan);
/* True if work i follows j, directly or indirectly. */
bool spc__net_follows(const spc__net_waits *waits, int i, int j);
/* Lists the works that work i waits for directly. Returns their number. */
int spc__net_waits_of(int *list, const spc__net_waits *waits, int i);

/* The rows of the input's set: from the caller, or from points that became
 * voxels. */
spc_net_buffers spc__net_rows(const spc_net_plan *plan,
                              const spc_net_buffers *buffers);

/* Limits the blocks of a work; 0 removes the limit. */
void spc__net_limit(const spc_net_plan *plan, int work, unsigned blocks);

/* Address of a tensor in a run with these buffers. */
void *spc__net_data(const spc_net_plan *plan, const spc_net_buffers *buffers,
                    int tensor);

#endif
