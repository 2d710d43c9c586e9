/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kd_tree.c - a k-d tree: each node has the bounding box of its points. Its two
 * children divide them at the median of the box's widest side.
 *
 * The smallest distance to a box is summed like that to a point, feature by
 * feature in the same order, and each term is at most the point's. Rounding is
 * monotone, so a box is never computed to be farther away than a point in it.
 */
#include "cache/lookup/kd_tree.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LEAF = 32 /* points */ };

struct spc__kd_node {
    int32_t first, end; /* range in `order` */
    int children[2];    /* 0 for a leaf */
};

double spc__kd_distance(const spc__kd_point *from, const double *to)
{
    double sum = 0;

    for (int i = 0; i < from->count; i++)
        sum += from->weight[i] * fabs(to[i] - from->at[i]);
    return sum;
}

/* ---- building ------------------------------------------------------------ */

bool spc__kd_begin(spc__kd_trees *trees, const double *points, size_t stride,
                   int64_t count, int features)
{
    size_t bytes = (size_t)features * sizeof(double);

    spc__kd_release(trees);
    if (count > INT32_MAX)
        return false;
    trees->order = malloc(((size_t)count + 1) * sizeof(*trees->order));
    /* The positions are copied in the order of leaves, so that a leaf is
     * contiguous in memory. */
    trees->positions = malloc((size_t)count * bytes + 1);
    trees->order_count = count;
    trees->features = features;
    for (int64_t i = 0; i < count && trees->order && trees->positions; i++) {
        trees->order[i] = (int32_t)i;
        memcpy(trees->positions + i * features, points + (size_t)i * stride,
               bytes);
    }
    return trees->order != NULL && trees->positions != NULL;
}

void spc__kd_release(spc__kd_trees *trees)
{
    free(trees->order);
    free(trees->positions);
    free(trees->nodes);
    free(trees->boxes);
    *trees = (spc__kd_trees){0};
}

static double *position_at(const spc__kd_trees *trees, int64_t i)
{
    return trees->positions + i * trees->features;
}

static double *box_of(const spc__kd_trees *trees, int node)
{
    return trees->boxes + (size_t)node * 2 * (size_t)trees->features;
}

static void fit_box(const spc__kd_trees *trees, int at, int64_t first,
                    int64_t end)
{
    int count = trees->features;
    double *low = box_of(trees, at), *high = low + count;

    for (int f = 0; f < count; f++) {
        low[f] = INFINITY;
        high[f] = -INFINITY;
    }
    for (int64_t i = first; i < end; i++) {
        const double *position = position_at(trees, i);
        for (int f = 0; f < count; f++) {
            low[f] = fmin(low[f], position[f]);
            high[f] = fmax(high[f], position[f]);
        }
    }
}

/* Returns -1 if all points are equal. */
static int widest(const spc__kd_trees *trees, int node,
                  const spc__kd_point *scale)
{
    const double *low = box_of(trees, node), *high = low + trees->features;
    double most = 0;
    int side = -1;

    for (int f = 0; f < trees->features; f++) {
        double width = scale->weight[f] * (high[f] - low[f]);
        if (width > most) {
            most = width;
            side = f;
        }
    }
    return side;
}

/* Exchanges two points, with their numbers. */
static void exchange(spc__kd_trees *trees, int64_t a, int64_t b)
{
    double *one = position_at(trees, a), *other = position_at(trees, b);
    int32_t kept = trees->order[a];

    trees->order[a] = trees->order[b];
    trees->order[b] = kept;
    for (int f = 0; f < trees->features; f++) {
        double position = one[f];
        one[f] = other[f];
        other[f] = position;
    }
}

/* Hoare's selection: elements before `middle` are at most the one there,
 * elements after it at least. */
static void share_out(spc__kd_trees *trees, int64_t first, int64_t last,
                      int64_t middle, int side)
{
    while (first < last) {
        double pivot = position_at(trees, first + (last - first) / 2)[side];
        int64_t i = first, j = last;
        while (i <= j) {
            while (position_at(trees, i)[side] < pivot)
                i++;
            while (position_at(trees, j)[side] > pivot)
                j--;
            if (i <= j)
                exchange(trees, i++, j--);
        }
        if (middle <= j)
            last = j;
        else if (middle >= i)
            first = i;
        else
            return;
    }
}

static bool grow(spc__kd_trees *trees)
{
    int capacity = trees->node_capacity > 0 ? 2 * trees->node_capacity : 64;
    size_t box = 2 * (size_t)trees->features * sizeof(double) + 1;
    spc__kd_node *nodes =
        realloc(trees->nodes, (size_t)capacity * sizeof(*nodes));
    double *boxes = realloc(trees->boxes, (size_t)capacity * box);

    if (nodes != NULL)
        trees->nodes = nodes;
    if (boxes != NULL)
        trees->boxes = boxes;
    if (nodes == NULL || boxes == NULL)
        return false;
    trees->node_capacity = capacity;
    return true;
}

int spc__kd_add(spc__kd_trees *trees, int64_t first, int64_t end,
                const spc__kd_point *scale)
{
    spc__kd_node node = {.first = (int32_t)first, .end = (int32_t)end};
    int side;

    if (trees->node_count == trees->node_capacity && !grow(trees))
        return -1;
    int at = trees->node_count++;
    fit_box(trees, at, first, end);
    if (end - first > LEAF && (side = widest(trees, at, scale)) >= 0) {
        int64_t middle = first + (end - first) / 2;
        share_out(trees, first, end - 1, middle, side);
        node.children[0] = spc__kd_add(trees, first, middle, scale);
        node.children[1] = spc__kd_add(trees, middle, end, scale);
        if (node.children[0] < 0 || node.children[1] < 0)
            return -1;
    }
    trees->nodes[at] = node; /* the array may have moved since */
    return at;
}

/* ---- finding ------------------------------------------------------------- */

typedef struct walk {
    const spc__kd_trees *trees;
    const spc__kd_point *from;
    double limit;
    spc__kd_look *look;
    void *payload;
} walk;

/* fmin() and fmax() would be calls. */
static double box_distance(const spc__kd_trees *trees, int node,
                           const spc__kd_point *from)
{
    const double *low = box_of(trees, node), *high = low + trees->features;
    double nearest[SPC__FEATURES_MAX];

    for (int f = 0; f < from->count; f++) {
        double at = from->at[f];
        nearest[f] = at < low[f] ? low[f] : at > high[f] ? high[f] : at;
    }
    return spc__kd_distance(from, nearest);
}

static void look_at_all(walk *w, const spc__kd_node *leaf)
{
    for (int64_t i = leaf->first; i < leaf->end; i++)
        /* The form of the comparison ensures that a NaN does not hide a
         * record. */
        if (!(spc__kd_distance(w->from, position_at(w->trees, i)) > w->limit))
            w->limit = w->look(w->trees->order[i], w->payload);
}

/* Visits a node's points, or its children in the order of their distance. The
 * limit may shrink on the way. */
static void walk_down(walk *w, int at)
{
    const spc__kd_node *node = &w->trees->nodes[at];

    if (node->children[0] == 0) {
        look_at_all(w, node);
        return;
    }
    int one = node->children[0], other = node->children[1];
    double near = box_distance(w->trees, one, w->from);
    double far = box_distance(w->trees, other, w->from);
    /* Visits the nearer side first, because its points may rule out the other
     * side. */
    if (far < near) {
        int kept = one;
        double distance = near;
        one = other;
        other = kept;
        near = far;
        far = distance;
    }
    if (!(near > w->limit))
        walk_down(w, one);
    if (!(far > w->limit))
        walk_down(w, other);
}

void spc__kd_walk(const spc__kd_trees *trees, int root,
                  const spc__kd_point *from, double limit, spc__kd_look *look,
                  void *payload)
{
    walk w = {trees, from, limit, look, payload};

    walk_down(&w, root);
}
