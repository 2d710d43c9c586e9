/* SPDX-License-Identifier: Apache-2.0 */
/* geometry.c - rules, kernels and offsets. */
#include "operators/geometry.h"

#include "base/error.h"
#include "base/sized.h"
#include <math.h>
#include <string.h>

static const char axes[] = "xyz";

int spc__geometry_origin(const spc_geometry *g, int axis)
{
    int half = g->dilation[axis] * ((g->kernel[axis] - 1) / 2);

    if (g->origin[axis] != SPC_ORIGIN_AUTO)
        return g->origin[axis];
    switch (g->rule) {
    case SPC_RULE_FOOTPRINT:
        return -g->padding[axis];
    case SPC_RULE_FLOOR:
    case SPC_RULE_GIVEN:
    case SPC_RULE_GENERATIVE:
    case SPC_RULE_EXPAND:
        /* An even kernel has no middle voxel, so its window begins at the
         * output itself. */
        return g->kernel[axis] % 2 != 0 ? -half : 0;
    default:
        return -half;
    }
}

int spc_geometry_offset_count(const spc_geometry *g)
{
    if (g == NULL || g->offset_count < 0 || g->offset_count > SPC_MAX_OFFSETS)
        return 0;
    if (g->offset_count > 0)
        return g->offset_count;
    for (int axis = 0; axis < 3; axis++)
        if (g->kernel[axis] < 1 || g->kernel[axis] > SPC_MAX_OFFSETS)
            return 0;
    /* The sizes were checked one by one, so the product fits an int. */
    int count = g->kernel[0] * g->kernel[1] * g->kernel[2];
    return count <= SPC_MAX_OFFSETS ? count : 0;
}

void spc_geometry_offset_at(int out[3], const spc_geometry *g, int k)
{
    if (out == NULL)
        return;
    out[0] = out[1] = out[2] = 0;
    if (k < 0 || k >= spc_geometry_offset_count(g) ||
        !spc__geometry_is_sound(g))
        return;
    if (g->offset_count > 0) {
        for (int axis = 0; axis < 3; axis++)
            out[axis] = g->offsets[3 * k + axis];
        return;
    }
    /* k counts z fastest, then y and x. */
    for (int axis = 2; axis >= 0; axis--) {
        int place = k % g->kernel[axis];
        k /= g->kernel[axis];
        out[axis] = spc__geometry_origin(g, axis) + g->dilation[axis] * place;
    }
}

int spc__geometry_centre(const spc_geometry *g)
{
    if (g->rule != SPC_RULE_SUBM)
        return -1;
    for (int k = 0; k < spc_geometry_offset_count(g); k++) {
        int at[3];
        spc_geometry_offset_at(at, g, k);
        if (at[0] == 0 && at[1] == 0 && at[2] == 0)
            return k;
    }
    return -1;
}

static bool same_axes(const int a[3], const int b[3])
{
    return memcmp(a, b, 3 * sizeof(*a)) == 0;
}

bool spc__geometry_same_list(const spc_geometry *a, const spc_geometry *b)
{
    if (a->offset_count != b->offset_count)
        return false;
    return a->offset_count == 0 || a->offsets == b->offsets ||
           memcmp(a->offsets, b->offsets, spc__geometry_list_bytes(a)) == 0;
}

bool spc__geometry_equal(const spc_geometry *a, const spc_geometry *b)
{
    if (a->rule != b->rule || !spc__geometry_same_list(a, b) ||
        !same_axes(a->stride, b->stride))
        return false;
    if (a->radius != b->radius || a->nearest != b->nearest ||
        a->voxel != b->voxel)
        return false;
    if (a->offset_count > 0)
        return same_axes(a->shape, b->shape);
    /* Compares values, as one geometry may state the origin that the other has
     * by default. */
    for (int axis = 0; axis < 3; axis++)
        if (spc__geometry_origin(a, axis) != spc__geometry_origin(b, axis))
            return false;
    if (!same_axes(a->kernel, b->kernel) ||
        !same_axes(a->dilation, b->dilation))
        return false;
    return same_axes(a->shape, b->shape) &&
           (a->rule != SPC_RULE_FOOTPRINT || same_axes(a->padding, b->padding));
}

void spc__geometry_span(int64_t low[3], int64_t high[3], const spc_geometry *g)
{
    for (int axis = 0; axis < 3 && g->offset_count == 0; axis++) {
        low[axis] = spc__geometry_origin(g, axis);
        high[axis] =
            low[axis] + (int64_t)g->dilation[axis] * (g->kernel[axis] - 1);
    }
    for (int k = 0; k < g->offset_count; k++)
        for (int axis = 0; axis < 3; axis++) {
            int64_t at = g->offsets[3 * k + axis];
            if (k == 0 || at < low[axis])
                low[axis] = at;
            if (k == 0 || at > high[axis])
                high[axis] = at;
        }
}

/*
 * An output o sees o * s + [low, high].
 *
 * By the floor rule o = floor(i / s) for some input i, so o * s is in [i - (s
 * - 1), i]. By the footprint rule the window of o contains some input i, so it
 * lies within high - low of i. The outputs that see an input i are in [(i -
 * high) / s, (i - low) / s], and the set has an output within these bounds. The
 * outputs that a generative layer's inputs see all exist, or lie within its
 * extent and are left out by its shape. Given sets may hold anything, and an
 * expanded set has outputs far from all inputs: a window
 * outside the set is moved to where it just misses the set, and in the reverse
 * direction positions outside are not searched.
 */
static void reach_of_rule(int64_t *before, int64_t *after,
                          const spc_geometry *g, int64_t s, int64_t low,
                          int64_t high)
{
    int64_t wide = high - low;

    switch (g->rule) {
    case SPC_RULE_GENERATIVE:
    case SPC_RULE_RADIUS: /* searches cells within the sets' extent */
        *before = *after = 0;
        break;
    case SPC_RULE_GIVEN:
    case SPC_RULE_EXPAND:
        *before = *after = wide + 1;
        break;
    case SPC_RULE_FOOTPRINT:
        *before = *after = wide;
        break;
    default:
        /* The default is the floor rule, and SUBM with s = 1. */
        *before = low < 0 ? s - 1 - low : s - 1;
        *after = high > 0 ? high : 0;
    }
}

void spc__geometry_halo(int64_t before[3], int64_t after[3],
                        const spc_geometry *g, bool inverse)
{
    int64_t low[3], high[3];

    spc__geometry_span(low, high, g);
    for (int axis = 0; axis < 3; axis++) {
        int64_t s = g->stride[axis], wide = high[axis] - low[axis];
        reach_of_rule(&before[axis], &after[axis], g, s, low[axis], high[axis]);
        if (inverse && spc__geometry_is_bounded(g)) {
            before[axis] = after[axis] = 0;
        } else if (inverse &&
                   g->rule == SPC_RULE_SUBM) { /* its one set, mirrored */
            before[axis] = high[axis] > 0 ? high[axis] : 0;
            after[axis] = low[axis] < 0 ? -low[axis] : 0;
        } else if (inverse) {
            /* Add both ends and the remainders of both divisions. */
            before[axis] = (before[axis] + wide) / s + 2;
            after[axis] = (after[axis] + wide) / s + 2;
        }
    }
}

/* The window of output o begins at o * stride + low. A box begins at minus its
 * padding, and the same padding is added at the end of the shape. Therefore S +
 * 2 padding - dilation (kernel - 1) equals S - low - high. A list uses the same
 * formula. */
int64_t spc__geometry_out_shape(const spc_geometry *g, int axis)
{
    int64_t low[3], high[3], span;

    if (g->rule == SPC_RULE_GENERATIVE)
        return g->shape[axis];
    if (g->rule != SPC_RULE_FOOTPRINT || g->shape[axis] == 0)
        return 0;
    spc__geometry_span(low, high, g);
    span = (int64_t)g->shape[axis] - low[axis] - high[axis] - 1;
    return span < 0 ? 0 : span / g->stride[axis] + 1;
}

bool spc__geometry_derives_by_list(const spc_geometry *g)
{
    return g->offset_count > 0 &&
           (g->rule == SPC_RULE_FOOTPRINT || spc__geometry_expands(g));
}

/* The greatest common divisor, by Euclid's algorithm. */
static int common_divisor(int a, int b)
{
    while (b != 0) {
        int rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* An input has one output for each offset with the same remainders as the
 * input. The result is the size of the largest such class of offsets. */
static int list_fan_out(const spc_geometry *g)
{
    const int16_t *list = g->offsets;
    int most = 0;

    for (int a = 0; a < g->offset_count; a++) {
        int alike = 0;
        for (int b = 0; b < g->offset_count; b++) {
            bool is = true;
            for (int i = 0; i < 3; i++)
                is &= (list[3 * a + i] - list[3 * b + i]) % g->stride[i] == 0;
            alike += is;
        }
        most = alike > most ? alike : most;
    }
    return most;
}

/* i + padding - dilation * j is a multiple of the stride for every stride /
 * gcd(stride, dilation)-th kernel position j, or for none. */
int spc__geometry_fan_out(const spc_geometry *g)
{
    int fan = 1;

    if (spc__geometry_expands(g))
        return spc_geometry_offset_count(g);
    if (spc__geometry_derives_by_list(g))
        return list_fan_out(g);
    for (int i = 0; i < 3 && g->rule == SPC_RULE_FOOTPRINT; i++) {
        int every = g->stride[i] / common_divisor(g->stride[i], g->dilation[i]);
        fan *= (g->kernel[i] + every - 1) / every;
    }
    return fan;
}

/* ---- checking ------------------------------------------------------------ */

/* Checks the size of a kernel. */
static spc_status check_kernel(const int kernel[3], spc_error *error)
{
    int64_t offsets = 1;

    for (int i = 0; i < 3; i++) {
        if (kernel[i] < 1)
            return spc__fail(error, SPC_EINVAL,
                             "kernel size %d along %c: expected at least 1",
                             kernel[i], axes[i]);
        /* Stops multiplying once the limit is passed, so the product cannot
         * overflow. */
        if (offsets <= SPC_MAX_OFFSETS)
            offsets *= kernel[i];
    }
    if (offsets > SPC_MAX_OFFSETS)
        return spc__fail(error, SPC_EINVAL,
                         "a kernel of %dx%dx%d has more than %d offsets, the "
                         "limit (7x7x7 is the largest cube)",
                         kernel[0], kernel[1], kernel[2], SPC_MAX_OFFSETS);
    return SPC_OK;
}

static spc_status check_range(const char *name, int value, int axis, int low,
                              spc_error *error)
{
    if (value >= low && value <= SPC__GEOMETRY_MOST)
        return SPC_OK;
    return spc__fail(error, SPC_EINVAL, "%s %d along %c: expected %d to %d",
                     name, value, axes[axis], low, SPC__GEOMETRY_MOST);
}

/* Checks the numbers of one axis. */
static spc_status check_axis(const spc_geometry *g, int i, spc_error *error)
{
    spc_status status;

    if ((status = check_range("dilation", g->dilation[i], i, 1, error)) ||
        (status = check_range("stride", g->stride[i], i, 1, error)) ||
        (status = check_range("padding", g->padding[i], i, 0, error)))
        return status;
    if (g->origin[i] != SPC_ORIGIN_AUTO &&
        (status = check_range("origin", g->origin[i], i, -SPC__GEOMETRY_MOST,
                              error)))
        return status;
    if (g->shape[i] < 0 || g->shape[i] > SPC__SHAPE_MOST)
        return spc__fail(error, SPC_EINVAL,
                         "shape %d along %c: a number of voxels up to %d, or "
                         "0 for none",
                         g->shape[i], axes[i], SPC__SHAPE_MOST);
    return SPC_OK;
}

/* Checks that the layer has outputs along an axis, if its shape is known. */
static spc_status check_shape(const spc_geometry *g, int i, spc_error *error)
{
    int64_t low[3], high[3];

    if (g->shape[i] == 0 || spc__geometry_out_shape(g, i) > 0)
        return SPC_OK;
    spc__geometry_span(low, high, g);
    if (g->offset_count > 0)
        return spc__fail(error, SPC_EINVAL,
                         "a shape of %d along %c leaves no output: by "
                         "displacements from %lld to %lld it must be at least "
                         "%lld",
                         g->shape[i], axes[i], (long long)low[i],
                         (long long)high[i], (long long)(low[i] + high[i] + 1));
    return spc__fail(error, SPC_EINVAL,
                     "a shape of %d along %c leaves no output: with "
                     "padding it must be at least %lld",
                     g->shape[i], axes[i],
                     (long long)g->dilation[i] * (g->kernel[i] - 1) + 1);
}

/* Refuses values that the rule does not use, since their author expected an
 * effect. */
static spc_status check_rule(const spc_geometry *g, int i, spc_error *error)
{
    if (g->rule == SPC_RULE_SUBM && g->stride[i] != 1)
        return spc__fail(error, SPC_EINVAL,
                         "stride %d along %c: a submanifold layer keeps the "
                         "voxels of its input, which is stride 1",
                         g->stride[i], axes[i]);
    if (g->rule != SPC_RULE_FOOTPRINT && g->padding[i])
        return spc__fail(error, SPC_EINVAL,
                         "a padding along %c: only the footprint rule has "
                         "one%s",
                         axes[i],
                         g->rule == SPC_RULE_GENERATIVE
                             ? "; set an origin of minus the padding here"
                             : "");
    if (g->rule != SPC_RULE_FOOTPRINT && g->rule != SPC_RULE_GENERATIVE &&
        g->shape[i])
        return spc__fail(error, SPC_EINVAL,
                         "a shape along %c: only the rules footprint and "
                         "generative have one",
                         axes[i]);
    if (g->rule == SPC_RULE_FOOTPRINT && g->origin[i] != SPC_ORIGIN_AUTO &&
        g->origin[i] != -g->padding[i])
        return spc__fail(error, SPC_EINVAL,
                         "origin %d along %c: by the footprint rule it is "
                         "minus the padding, %d",
                         g->origin[i], axes[i], -g->padding[i]);
    if (g->offset_count > 0 && g->padding[i])
        return spc__fail(error, SPC_EINVAL,
                         "a padding along %c: a list of offsets is the whole "
                         "kernel, which the padding is in",
                         axes[i]);
    return check_shape(g, i, error);
}

/* Checks a length. The limits keep its square and its inverse within f32. */
static spc_status check_length(const char *name, float value, bool may_be_0,
                               spc_error *error)
{
    const float least = 0x1p-60f, most = 0x1p60f;

    if ((value >= least && value <= most) || (may_be_0 && value == 0))
        return SPC_OK;
    return spc__fail(error, SPC_EINVAL,
                     "%s=%g: expected a length from %.3g to %.3g", name,
                     (double)value, (double)least, (double)most);
}

/* Checks the properties that only points have, and those that points lack. */
static spc_status check_radius(const spc_geometry *g, spc_error *error)
{
    spc_status status;

    if (g->rule != SPC_RULE_RADIUS)
        return g->radius == 0 && g->nearest == 0 && g->voxel == 0
                   ? SPC_OK
                   : spc__fail(error, SPC_EINVAL,
                               "a radius, nearest or voxel: only layers of "
                               "points, which have the rule radius, have "
                               "one");
    if ((status = check_length("radius", g->radius, false, error)) != SPC_OK ||
        (status = check_length("voxel", g->voxel, true, error)) != SPC_OK)
        return status;
    if (g->nearest < 0 || g->nearest > SPC__NEAREST_MOST)
        return spc__fail(error, SPC_EINVAL,
                         "nearest=%d: a number of points up to %d, or 0 for "
                         "all",
                         g->nearest, SPC__NEAREST_MOST);
    for (int i = 0; i < 3; i++)
        if (g->stride[i] != 1 || g->dilation[i] != 1 ||
            g->origin[i] != SPC_ORIGIN_AUTO)
            return spc__fail(error, SPC_EINVAL,
                             "a stride, dilation or origin along %c: layers of "
                             "points have none",
                             axes[i]);
    return SPC_OK;
}

/* Checks a list of offsets. */
static spc_status check_list(const spc_geometry *g, spc_error *error)
{
    if (g->offset_count == 0)
        return SPC_OK;
    if (g->offset_count < 0 || g->offset_count > SPC_MAX_OFFSETS)
        return spc__fail(error, SPC_EINVAL,
                         "a list of %d offsets: expected 1 to %d",
                         g->offset_count, SPC_MAX_OFFSETS);
    if (g->offsets == NULL)
        return spc__fail(error, SPC_EINVAL,
                         "a list of %d offsets at NULL: expected its address",
                         g->offset_count);
    if (g->rule == SPC_RULE_RADIUS)
        return spc__fail(error, SPC_EINVAL,
                         "a list of offsets is for layers of voxels: those of "
                         "points have cells in their place");
    for (int i = 0; i < 3; i++)
        if (g->dilation[i] != 1 || g->padding[i] != 0 ||
            g->origin[i] != SPC_ORIGIN_AUTO)
            return spc__fail(error, SPC_EINVAL,
                             "a dilation, padding or origin along %c: a list "
                             "of offsets is the whole kernel",
                             axes[i]);
    const int16_t *list = g->offsets;
    /* Quadratic, with at most SPC_MAX_OFFSETS offsets. */
    for (int a = 0; a < g->offset_count; a++)
        for (int b = 0; b < a; b++)
            if (memcmp(list + 3 * a, list + 3 * b, 3 * sizeof(*list)) == 0)
                return spc__fail(error, SPC_EINVAL,
                                 "offsets %d and %d of the list are both (%d, "
                                 "%d, %d): expected each offset once",
                                 b, a, list[3 * a], list[3 * a + 1],
                                 list[3 * a + 2]);
    return SPC_OK;
}

bool spc__geometry_is_sound(const spc_geometry *g)
{
    if (spc_geometry_offset_count(g) == 0 ||
        (g->offset_count > 0 && g->offsets == NULL))
        return false;
    for (int i = 0; i < 3; i++)
        if (g->kernel[i] < 1 || check_axis(g, i, NULL) != SPC_OK)
            return false;
    return true;
}

spc_status spc_geometry_check(const spc_geometry *g, spc_error *error)
{
    spc_status status = spc__need(error, __func__, "geometry", g, NULL);

    /* The kernel is checked first: all other checks compute with its size. */
    if (status != SPC_OK || (status = check_kernel(g->kernel, error)) != SPC_OK)
        return status;
    if ((unsigned)g->rule > SPC_RULE_EXPAND)
        return spc__fail(error, SPC_EINVAL,
                         "unknown rule %d: expected SPC_RULE_SUBM, _FLOOR, "
                         "_FOOTPRINT, _GIVEN, _GENERATIVE, _RADIUS or _EXPAND",
                         (int)g->rule);
    if ((status = check_list(g, error)) != SPC_OK)
        return status;
    for (int i = 0; i < 3; i++) /* rules concern all axes */
        if ((status = check_axis(g, i, error)) != SPC_OK)
            return status;
    for (int i = 0; i < 3; i++)
        if ((status = check_rule(g, i, error)) != SPC_OK)
            return status;
    if ((status = check_radius(g, error)) != SPC_OK)
        return status;
    return SPC__CHECK_RESERVED(spc_geometry, g, error);
}
