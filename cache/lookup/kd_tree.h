/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kd_tree.h - which of many points are near: a k-d tree in the measure of
 * distances, the sum of the differences by weights.
 */
#ifndef SPC_CACHE_KD_TREE_H
#define SPC_CACHE_KD_TREE_H

#include "cache/cache.h"

/* A place in the space of features, and what a difference of 1 counts. */
typedef struct spc__kd_point {
    double at[SPC__FEATURES_MAX];
    double weight[SPC__FEATURES_MAX];
    int count; /* of features */
} spc__kd_point;

double spc__kd_distance(const spc__kd_point *from, const double *to);

typedef struct spc__kd_node spc__kd_node;

/* Points by their numbers; {0} is empty. Several trees may share it. */
typedef struct spc__kd_trees {
    int features;
    int32_t *order; /* of the points: those of a leaf stand side by side */
    double *places; /* `features` of each, in that order */
    int64_t order_count;
    spc__kd_node *nodes;
    double *boxes; /* of each node the least, then the greatest of each feature */
    int node_count, node_capacity;
} spc__kd_trees;

/* Takes the points of all trees, `stride` doubles from one to the next; false:
 * out of memory. */
bool spc__kd_begin(spc__kd_trees *trees, const double *points, size_t stride,
                   int64_t count, int features);

/* Makes a tree of the points first .. end - 1. `scale` is the size of a
 * difference for each feature, by which the widest side of a box is found; it
 * is no part of what is found. -1: out of memory. */
int spc__kd_add(spc__kd_trees *trees, int64_t first, int64_t end,
                const spc__kd_point *scale);

void spc__kd_release(spc__kd_trees *trees);

/* Shows points, nearest boxes first. It answers how far off another may be to
 * be of interest still: at that distance it is, beyond it is not. */
typedef double spc__kd_look(int64_t point, void *payload);

/* Shows at least all points of the tree that are of interest; `limit` is the
 * distance to begin with. */
void spc__kd_walk(const spc__kd_trees *trees, int root,
                  const spc__kd_point *from, double limit, spc__kd_look *look,
                  void *payload);

#endif
