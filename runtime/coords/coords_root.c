/* SPDX-License-Identifier: Apache-2.0 */
/* coords_root.c - combines several rules in a row into one. */
#include "coords/root.h"

#include "coords/coords.h"
#include "operators/geometry.h"
#include <string.h>

/* Limit on the length of an axis that same_along() walks. */
enum { WALK_MOST = 1 << 16 };

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* One step: the outputs of the set's own rule. */
static void from_inputs(spc__derivation *out, const spc_coords *c)
{
    const spc_geometry *g = &c->rule;

    out->root = c->from;
    out->rule = g->rule;
    for (int i = 0; i < 3; i++) {
        out->kernel[i] = g->kernel[i];
        out->stride[i] = g->stride[i];
        out->dilation[i] = g->dilation[i];
        /* The origin is the offset of the first place, which is minus the
         * padding. */
        out->padding[i] = -spc__geometry_origin(g, i);
    }
}

/* Writes floor(i / stride) as a footprint. */
static void floor_as_footprint(spc__derivation *d)
{
    if (d->rule != SPC_RULE_FLOOR)
        return;
    d->rule = SPC_RULE_FOOTPRINT;
    for (int i = 0; i < 3; i++) {
        d->kernel[i] = d->stride[i];
        d->dilation[i] = 1;
        d->padding[i] = 0;
    }
}

/* Range of outputs of an input i along an axis. */
typedef struct outputs {
    int64_t first, last;
} outputs;

/* The outputs along an axis that read input i. */
static outputs outputs_of(const spc__derivation *d, int axis, int64_t i)
{
    /* From i = o s - p + r with 0 <= r < k: o is at least (i + p - k + 1) / s,
     * rounded up, and at most (i + p) / s. The ceiling is written as -floor of
     * the negative. */
    int64_t top = i + d->padding[axis], s = d->stride[axis];

    return (outputs){-spc__floor_div(d->kernel[axis] - 1 - top, s),
                     spc__floor_div(top, s)};
}

/* Cuts a range of outputs to a set with a known shape. */
static outputs within(outputs o, int64_t bound)
{
    if (bound > 0) {
        o.first = larger(o.first, 0);
        o.last = smaller(o.last, bound - 1);
    }
    return o;
}

/* True if every output that `all` gives an input can also be reached through
 * outputs of `first` within its bound. The reachable outputs are always outputs
 * of `all`. */
static bool same_along(const spc__derivation *all, const spc__derivation *then,
                       const spc__derivation *first, int64_t first_bound,
                       int64_t bound, int axis)
{
    const spc_index_key *key = &all->root->key;
    int64_t low = key->low[1 + axis], high = spc__key_high(key, 1 + axis);

    /* Without a bound, the formula of root.h is exact. */
    if (first_bound == 0)
        return true;
    /* Too long to walk: the set is derived from its inputs, which is always
     * right. */
    if (high - low >= WALK_MOST)
        return false;
    for (int64_t i = low; i <= high; i++) {
        outputs between = within(outputs_of(first, axis, i), first_bound);
        outputs to = within(outputs_of(all, axis, i), bound);
        for (int64_t o = to.first; o <= to.last; o++) {
            int64_t seen = o * then->stride[axis] - then->padding[axis];
            if (larger(between.first, seen) >
                smaller(between.last, seen + then->kernel[axis] - 1))
                return false;
        }
    }
    return true;
}

/* Combines `first` and `then` along an axis. Returns false if the result is no
 * single rule or its numbers are too large. */
static bool join_axis(spc__derivation *out, const spc__derivation *first,
                      const spc__derivation *then, int i)
{
    int64_t s = first->stride[i];
    int64_t kernel = first->kernel[i] + s * (then->kernel[i] - 1);
    int64_t stride = s * then->stride[i];
    int64_t padding = first->padding[i] + s * then->padding[i];
    int64_t most = larger(kernel, larger(stride, padding));

    /* A stride longer than the kernel leaves gaps in the inner rule, and then
     * the combined window has gaps that no single kernel has. */
    if (first->dilation[i] != 1 || then->dilation[i] != 1 ||
        (first->kernel[i] < s && then->kernel[i] > 1) ||
        most > SPC__GEOMETRY_MOST || padding < -SPC__GEOMETRY_MOST)
        return false;
    out->kernel[i] = (int)kernel;
    out->stride[i] = (int)stride;
    out->dilation[i] = 1;
    out->padding[i] = (int)padding;
    return true;
}

static bool is_joined(const spc_geometry *g)
{
    return g->rule == SPC_RULE_FLOOR ||
           (g->rule == SPC_RULE_FOOTPRINT && g->offset_count == 0);
}

/* Goes up one set if the two rules combine into one. */
static bool go_up(spc__derivation *out, const spc_coords *c)
{
    const spc_coords *inputs = out->root;
    spc__derivation first, then = *out, all = {0};

    if (inputs->from == NULL || !is_joined(&c->rule) ||
        !is_joined(&inputs->rule))
        return false;
    from_inputs(&first, inputs);
    /* Records the rule before both become footprints, since two floors combine
     * to a floor. */
    bool floors = first.rule == SPC_RULE_FLOOR && then.rule == SPC_RULE_FLOOR;
    floor_as_footprint(&first);
    floor_as_footprint(&then);
    all.root = inputs->from;
    all.rule = floors ? SPC_RULE_FLOOR : SPC_RULE_FOOTPRINT;
    for (int i = 0; i < 3; i++)
        if (!join_axis(&all, &first, &then, i) ||
            !same_along(&all, &then, &first,
                        spc__geometry_out_shape(&inputs->rule, i),
                        spc__geometry_out_shape(&c->rule, i), i))
            return false;
    *out = all;
    return true;
}

void spc__coords_find_root(spc__derivation *out, const spc_coords *c)
{
    from_inputs(out, c);
    /* Each step moves the root one set up, so this ends at a set without
     * inputs. */
    while (go_up(out, c))
        ;
}
