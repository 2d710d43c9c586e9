/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kd_tree.h - finds near points with a k-d tree. The distance is the weighted
 * sum of the differences.
 */
#ifndef SPC_CACHE_KD_TREE_H
#define SPC_CACHE_KD_TREE_H

#include "cache/cache.h"

/* A position in the space of features, and the weight of a difference of 1. */
typedef struct spc__kd_point {
    double at[SPC__FEATURES_MAX];
    double weight[SPC__FEATURES_MAX];
    int count; /* number of features */
} spc__kd_point;

double spc__kd_distance(const spc__kd_point *from, const double *to);

typedef struct spc__kd_node spc__kd_node;

/* A set of points, identified by number. A zeroed set is empty. Several trees
 * may share it. */
typedef struct spc__kd_trees {
    int features;
    int32_t *order; /* numbers of the points; a leaf's points are adjacent */
    double *positions; /* `features` positions of each point, in this order */
    int64_t order_count;
    spc__kd_node *nodes;
    double
        *boxes; /* by node: the minimum, then the maximum of each feature */
    int node_count, node_capacity;
} spc__kd_trees;

/* Sets the points of all trees, `stride` doubles apart. Returns false if out of
 * memory. */
bool spc__kd_begin(spc__kd_trees *trees, const double *points, size_t stride,
                   int64_t count, int features);

/* Makes a tree of the points first .. end - 1. `scale` is the weight of each
 * feature and is only used to find the widest side of a box; it does not affect
 * results. Returns -1 if out of memory. */
int spc__kd_add(spc__kd_trees *trees, int64_t first, int64_t end,
                const spc__kd_point *scale);

void spc__kd_release(spc__kd_trees *trees);

/* Receives points, nearest boxes first. Returns the largest distance
 * (inclusive) at which another point is still of interest. */
typedef double spc__kd_look(int64_t point, void *payload);

/* Visits at least all points of the tree that are of interest. `limit` is the
 * initial distance. */
void spc__kd_walk(const spc__kd_trees *trees, int root,
                  const spc__kd_point *from, double limit, spc__kd_look *look,
                  void *payload);

#endif
