/*
 * kd_tree.c - a k-d tree: each node has the box that its points lie in, and
 * its two children share them at the median of the box's widest side.
 *
 * The least distance to a box is summed as that to a point is, feature by
 * feature in one order, and each term is at most the point's. Rounding is
 * monotone, so a box is never taken to be farther away than what is in it.
 */
#include "kd_tree.h"

#include <math.h>
#include <stdlib.h>

enum { LEAF = 16 /* points */ };

struct spc__kd_node {
    double low[SPC__FEATURES_MAX], high[SPC__FEATURES_MAX];
    int64_t first, end; /* in the order */
    int children[2];    /* 0: it is a leaf */
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
                   int64_t count)
{
    spc__kd_release(trees);
    trees->points = points;
    trees->stride = stride;
    if (count > INT32_MAX)
        return false;
    trees->order = malloc(((size_t)count + 1) * sizeof(*trees->order));
    trees->order_count = count;
    for (int64_t i = 0; i < count && trees->order != NULL; i++)
        trees->order[i] = (int32_t)i;
    return trees->order != NULL;
}

void spc__kd_release(spc__kd_trees *trees)
{
    free(trees->order);
    free(trees->nodes);
    *trees = (spc__kd_trees){0};
}

static const double *point_at(const spc__kd_trees *trees, int64_t i)
{
    return trees->points + (size_t)trees->order[i] * trees->stride;
}

static void fit_box(spc__kd_node *node, const spc__kd_trees *trees, int count)
{
    for (int f = 0; f < count; f++) {
        node->low[f] = INFINITY;
        node->high[f] = -INFINITY;
    }
    for (int64_t i = node->first; i < node->end; i++) {
        const double *point = point_at(trees, i);
        for (int f = 0; f < count; f++) {
            node->low[f] = fmin(node->low[f], point[f]);
            node->high[f] = fmax(node->high[f], point[f]);
        }
    }
}

/* -1: the points are one. */
static int widest(const spc__kd_node *node, const spc__kd_point *scale)
{
    double most = 0;
    int side = -1;

    for (int f = 0; f < scale->count; f++) {
        double width = scale->weight[f] * (node->high[f] - node->low[f]);
        if (width > most) {
            most = width;
            side = f;
        }
    }
    return side;
}

static void exchange(int32_t *a, int32_t *b)
{
    int32_t kept = *a;
    *a = *b;
    *b = kept;
}

/* Hoare's selection: what stands before `middle` is at most what stands there,
 * and what stands behind is at least that. */
static void share_out(spc__kd_trees *trees, int64_t first, int64_t last,
                      int64_t middle, int side)
{
    while (first < last) {
        double pivot = point_at(trees, first + (last - first) / 2)[side];
        int64_t i = first, j = last;
        while (i <= j) {
            while (point_at(trees, i)[side] < pivot)
                i++;
            while (point_at(trees, j)[side] > pivot)
                j--;
            if (i <= j)
                exchange(&trees->order[i++], &trees->order[j--]);
        }
        if (middle <= j)
            last = j;
        else if (middle >= i)
            first = i;
        else
            return;
    }
}

static int claim_node(spc__kd_trees *trees)
{
    if (trees->node_count == trees->node_capacity) {
        int capacity = trees->node_capacity > 0 ? 2 * trees->node_capacity : 64;
        spc__kd_node *nodes =
            realloc(trees->nodes, (size_t)capacity * sizeof(*nodes));
        if (nodes == NULL)
            return -1;
        trees->nodes = nodes;
        trees->node_capacity = capacity;
    }
    return trees->node_count++;
}

int spc__kd_add(spc__kd_trees *trees, int64_t first, int64_t end,
                const spc__kd_point *scale)
{
    spc__kd_node node = {.first = first, .end = end};
    int at = claim_node(trees);
    int side;

    if (at < 0)
        return -1;
    fit_box(&node, trees, scale->count);
    if (end - first > LEAF && (side = widest(&node, scale)) >= 0) {
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

static double box_distance(const spc__kd_node *node, const spc__kd_point *from)
{
    double nearest[SPC__FEATURES_MAX];

    for (int f = 0; f < from->count; f++)
        nearest[f] = fmin(fmax(from->at[f], node->low[f]), node->high[f]);
    return spc__kd_distance(from, nearest);
}

static void look_at_all(walk *w, const spc__kd_node *leaf)
{
    for (int64_t i = leaf->first; i < leaf->end; i++)
        if (!(spc__kd_distance(w->from, point_at(w->trees, i)) > w->limit))
            w->limit = w->look(w->trees->order[i], w->payload);
}

static void walk_down(walk *w, const spc__kd_node *node)
{
    if (node->children[0] == 0) {
        look_at_all(w, node);
        return;
    }
    const spc__kd_node *one = &w->trees->nodes[node->children[0]];
    const spc__kd_node *other = &w->trees->nodes[node->children[1]];
    double near = box_distance(one, w->from);
    double far = box_distance(other, w->from);
    if (far < near) {
        const spc__kd_node *kept = one;
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

    walk_down(&w, &trees->nodes[root]);
}
