/* SPDX-License-Identifier: Apache-2.0 */
/*
 * geometry.h - which input an output sees at which offset, as a value.
 *
 * Public part: spc_geometry in spc.h. Everything here is integer arithmetic on
 * the host; kernels get what they need of it as arguments.
 */
#ifndef SPC_RUNTIME_GEOMETRY_H
#define SPC_RUNTIME_GEOMETRY_H

#include "spc.h"

/* The largest stride, dilation, padding, origin and displacement; what is above
 * is a mistake, and sums of products of these stay far within 64 bits. */
enum {
    SPC__GEOMETRY_MOST = 65536,
    SPC__SHAPE_MOST = 1 << 30,
    SPC__NEAREST_MOST = 1 << 20
};

/* Are its numbers within their limits, so that no arithmetic on them overflows?
 * Public functions that accept a geometry without spc_geometry_check ask this
 * first. */
bool spc__geometry_is_sound(const spc_geometry *geometry);

/* The origin of an axis, the rule's own where it is SPC_ORIGIN_AUTO. */
int spc__geometry_origin(const spc_geometry *geometry, int axis);

/* The offset whose input is the output itself: of the SUBM rule, the
 * displacement (0, 0, 0); -1 if there is none. */
int spc__geometry_centre(const spc_geometry *geometry);

/* Do the two make the same map of the same sets? Resolved origins count, words
 * that the rule does not use do not. */
bool spc__geometry_equal(const spc_geometry *a, const spc_geometry *b);

/* Least and greatest displacement of any offset, by axis. */
void spc__geometry_span(int64_t low[3], int64_t high[3],
                        const spc_geometry *geometry);

/*
 * How far, in voxels of the set that is searched, a search may look past the
 * outermost coordinates of that set, by axis: what a key's guard band must
 * hold. `inverse`: the output set is searched from the inputs.
 */
void spc__geometry_halo(int64_t before[3], int64_t after[3],
                         const spc_geometry *geometry, bool inverse);

/* May searches of its maps, read the other way, ask for what lies outside the
 * extent of the set? It is then checked, and no guard band needed. */
static inline bool spc__geometry_is_bounded(const spc_geometry *geometry)
{
    return geometry->rule == SPC_RULE_GIVEN ||
           geometry->rule == SPC_RULE_GENERATIVE;
}

/* What is derived by FOOTPRINT and GENERATIVE lies from 0 to below this along an
 * axis; 0: it has no bound. */
int64_t spc__geometry_out_shape(const spc_geometry *geometry, int axis);

/* Are voxels derived from others by a list of offsets, and not by a box, axis by
 * axis? */
bool spc__geometry_derives_by_list(const spc_geometry *geometry);

/* At most so many voxels are derived from one: 1 for SUBM and FLOOR; FOOTPRINT:
 * the product over the axes of ceil(kernel / (stride / gcd(stride, dilation))),
 * of a list those that are alike by the stride; GENERATIVE: the kernel's
 * offsets. */
int spc__geometry_fan_out(const spc_geometry *geometry);

/* value / by, rounded down; `by` is positive. */
static inline int64_t spc__floor_div(int64_t value, int64_t by)
{
    return value >= 0 ? value / by : -((-value + by - 1) / by);
}

#endif
