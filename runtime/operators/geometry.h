/* SPDX-License-Identifier: Apache-2.0 */
/*
 * geometry.h - defines which input an output sees at which offset, as a value.
 *
 * The public part is spc_geometry in spc/layer.h. All of this is integer
 * arithmetic on the host. Kernels receive the results as arguments.
 */
#ifndef SPC_RUNTIME_GEOMETRY_H
#define SPC_RUNTIME_GEOMETRY_H

#include "spc.h"

/* The largest stride, dilation, padding, origin and displacement. Larger values
 * are errors. Sums of products of these fit 64 bits by far. */
enum {
    SPC__GEOMETRY_MOST = 65536,
    SPC__SHAPE_MOST = 1 << 30,
    SPC__NEAREST_MOST = 1 << 20
};

/* True if all numbers are within their limits, so that arithmetic on them
 * cannot overflow. Public functions that accept a geometry without calling
 * spc_geometry_check call this first. */
bool spc__geometry_is_sound(const spc_geometry *geometry);

/* Returns the origin of an axis. SPC_ORIGIN_AUTO is replaced by the rule's
 * own. */
int spc__geometry_origin(const spc_geometry *geometry, int axis);

/* Returns the offset whose input is the output itself (for SUBM, the
 * displacement (0, 0, 0)), or -1. */
int spc__geometry_centre(const spc_geometry *geometry);

/* True if both give the same map for the same sets. Compares resolved origins
 * and ignores words that the rule does not use. */
bool spc__geometry_equal(const spc_geometry *a, const spc_geometry *b);

/* True if both have the same list of offsets, or none. */
bool spc__geometry_same_list(const spc_geometry *a, const spc_geometry *b);

static inline size_t spc__geometry_list_bytes(const spc_geometry *geometry)
{
    return 3 * (size_t)geometry->offset_count * sizeof(geometry->offsets[0]);
}

/* Computes the smallest and largest displacement of all offsets, by axis. */
void spc__geometry_span(int64_t low[3], int64_t high[3],
                        const spc_geometry *geometry);

/*
 * Computes how far a search may look past the outermost coordinates of the
 * searched set, in its voxels, by axis. A key's guard band must be this wide.
 * `inverse`: the output set is searched from the inputs.
 */
void spc__geometry_halo(int64_t before[3], int64_t after[3],
                        const spc_geometry *geometry, bool inverse);

/* True if reverse searches of its maps may ask for positions outside the extent
 * of the set. Such positions are checked, so they need no guard band. */
static inline bool spc__geometry_is_bounded(const spc_geometry *geometry)
{
    return geometry->rule == SPC_RULE_GIVEN ||
           geometry->rule == SPC_RULE_GENERATIVE ||
           geometry->rule == SPC_RULE_EXPAND;
}

/* True if outputs may be anywhere, also where they see no input. */
static inline bool spc__geometry_is_far(const spc_geometry *geometry)
{
    return geometry->rule == SPC_RULE_GIVEN ||
           geometry->rule == SPC_RULE_EXPAND;
}

/* True if each input makes a voxel for every offset of the kernel. */
static inline bool spc__geometry_expands(const spc_geometry *geometry)
{
    return geometry->rule == SPC_RULE_GENERATIVE ||
           geometry->rule == SPC_RULE_EXPAND;
}

/* Returns the exclusive upper bound of derived coordinates along an axis for
 * FOOTPRINT and GENERATIVE. The lower bound is 0. Returns 0 if there is no
 * bound. */
int64_t spc__geometry_out_shape(const spc_geometry *geometry, int axis);

/* True if voxels are derived by a list of offsets instead of a box, axis by
 * axis. */
bool spc__geometry_derives_by_list(const spc_geometry *geometry);

/* Returns the largest number of voxels derived from one. SUBM and FLOOR: 1.
 * FOOTPRINT: the product over the axes of ceil(kernel / (stride / gcd(stride,
 * dilation))), or for a list the largest number of offsets that are equal
 * modulo the stride. GENERATIVE, EXPAND: the number of offsets of the kernel.
 */
int spc__geometry_fan_out(const spc_geometry *geometry);

/* value / by, rounded down; `by` is positive. */
static inline int64_t spc__floor_div(int64_t value, int64_t by)
{
    return value >= 0 ? value / by : -((-value + by - 1) / by);
}

#endif
