/* SPDX-License-Identifier: Apache-2.0 */
/* feature.c - an operator on features as a value: its rules and its attrs. */
#include "operators/feature.h"

#include "base/dtype.h"
#include "base/error.h"
#include "base/text/names.h"
#include "operators/conv.h"
#include "operators/epilogue.h"
#include "operators/pass.h"
#include <math.h>
#include <string.h>

const char *const spc__reduction_names[] = {"max", "mean", "sum", NULL};
const char *const spc__bev_order_names[] = {"zyx", "xyz", "volume", NULL};
const int spc__bev_axes[][3] = {{2, 1, 0}, {2, 0, 1}, {0, 1, 2}};

/* The names used by templates. */
static const char *const op_names[] = {
    "pool",      "unpool",   "global",    "add",    "act", "layernorm",
    "groupnorm", "groupsum", "groupmean", "repeat", "bev", "actgrad",
    "affine",    "slice",    "unslice",   NULL,
};

/* ---- rules --------------------------------------------------------------- */

static spc_status check_range(const char *name, int64_t value, int64_t low,
                              int64_t high, spc_error *error)
{
    if (value >= low && value <= high)
        return SPC_OK;
    return spc__fail(error, SPC_EINVAL, "%s=%lld: %lld to %lld is right", name,
                     (long long)value, (long long)low, (long long)high);
}

static spc_status check_divisor(const char *name, int value, int channels,
                                spc_error *error)
{
    if (value >= 1 && channels % value == 0)
        return SPC_OK;
    return spc__fail(error, SPC_EINVAL,
                     "%s=%d: a divisor of the %d channels is right", name,
                     value, channels);
}

static spc_status check_enums(const spc_feature *f, spc_error *error)
{
    spc_status status;

    if ((status =
             check_range("operator", f->op, 0, SPC_FEATURE_UNSLICE, error)) ||
        (status = check_range("reduction", f->reduction, 0, SPC_REDUCE_SUM,
                              error)) ||
        (status =
             check_range("activation", f->activation, 0, SPC_ACT_ELU, error)) ||
        (status = check_range("order", f->order, 0, SPC_BEV_VOLUME, error)))
        return status;
    if (f->dtype != SPC_F16 && f->dtype != SPC_BF16 && f->dtype != SPC_F32)
        return spc__fail(error, SPC_EINVAL,
                         "dtype=%s: features are f16, bf16 or f32",
                         spc__name_at(spc__dtype_names, f->dtype));
    return SPC_OK;
}

static spc_status check_pool(const spc_feature *f, spc_error *error)
{
    if (f->index && f->op == SPC_FEATURE_POOL && f->reduction != SPC_REDUCE_MAX)
        return spc__fail(error, SPC_EINVAL,
                         "index=1: only a maximum is from one row; pool=max "
                         "is right");
    if (f->geometry.rule == SPC_RULE_GENERATIVE ||
        f->geometry.rule == SPC_RULE_RADIUS)
        return spc__fail(
            error, SPC_EINVAL,
            "rule %s: pooling is by the rules subm, floor, "
            "footprint and given",
            spc__name_at(spc__rule_names, (unsigned)f->geometry.rule));
    return spc_geometry_check(&f->geometry, error);
}

/* Each row of the coarser set has the channels of all offsets. */
static spc_status check_slices(const spc_feature *f, spc_error *error)
{
    spc_status status = check_pool(f, error);
    int offsets = spc_geometry_offset_count(&f->geometry);

    if (status != SPC_OK)
        return status;
    if (f->op == SPC_FEATURE_SLICE)
        return f->channels <= SPC__CHANNELS_MOST / offsets
                   ? SPC_OK
                   : spc__fail(error, SPC_EINVAL,
                               "c=%d: 1 to %d is right, as the outputs have "
                               "a slice for each of the kernel's %d offsets, "
                               "and at most %d channels",
                               f->channels, SPC__CHANNELS_MOST / offsets,
                               offsets, SPC__CHANNELS_MOST);
    if (f->channels % offsets == 0)
        return SPC_OK;
    return spc__fail(error, SPC_EINVAL,
                     "c=%d: a multiple of the kernel's %d offsets is right, "
                     "each of which has a slice",
                     f->channels, offsets);
}

static spc_status check_norm(const spc_feature *f, spc_error *error)
{
    if (!(f->eps >= 0) || isinf(f->eps))
        return spc__fail(error, SPC_EINVAL,
                         "eps=%g: a number that is not negative is right",
                         (double)f->eps);
    return f->op == SPC_FEATURE_GROUPNORM
               ? check_divisor("groups", f->groups, f->channels, error)
               : SPC_OK;
}

static spc_status check_bev(const spc_feature *f, spc_error *error)
{
    const int *axes = spc__bev_axes[f->order];
    int64_t plane = (int64_t)f->shape[axes[1]] * f->shape[axes[2]];

    for (int i = 0; i < 3; i++)
        if (f->shape[i] < 1 || f->shape[i] > SPC__BEV_MOST)
            return spc__fail(error, SPC_EINVAL,
                             "shape=%dx%dx%d: 1 to %d voxels along each of "
                             "x, y, z is right",
                             f->shape[0], f->shape[1], f->shape[2],
                             SPC__BEV_MOST);
    if (plane > INT32_MAX)
        return spc__fail(error, SPC_EINVAL,
                         "shape=%dx%dx%d: at most %d cells in a plane are "
                         "right",
                         f->shape[0], f->shape[1], f->shape[2], INT32_MAX);
    return SPC_OK;
}

static spc_status check_words(const spc_feature *f, spc_error *error)
{
    switch (f->op) {
    case SPC_FEATURE_POOL:
    case SPC_FEATURE_UNPOOL:
        return check_pool(f, error);
    case SPC_FEATURE_SLICE:
    case SPC_FEATURE_UNSLICE:
        return check_slices(f, error);
    case SPC_FEATURE_ACT:
    case SPC_FEATURE_ACTGRAD:
        if (f->activation == SPC_ACT_NONE)
            return spc__fail(error, SPC_EINVAL,
                             "%s=none does nothing: relu, leaky, sigmoid, "
                             "silu, gelu or elu is right",
                             f->op == SPC_FEATURE_ACT ? "act" : "actgrad");
        return SPC_OK;
    case SPC_FEATURE_LAYERNORM:
    case SPC_FEATURE_GROUPNORM:
        return check_norm(f, error);
    case SPC_FEATURE_GROUPSUM:
    case SPC_FEATURE_GROUPMEAN:
        return check_divisor("by", f->by, f->channels, error);
    case SPC_FEATURE_REPEAT:
        return check_range("by", f->by, 1, SPC__CHANNELS_MOST / f->channels,
                           error);
    case SPC_FEATURE_BEV:
        return check_bev(f, error);
    default:
        return SPC_OK;
    }
}

spc_status spc_feature_check(const spc_feature *feature, spc_error *error)
{
    spc_status status = spc__need(error, __func__, "feature", feature, NULL);

    if (status != SPC_OK || (status = check_enums(feature, error)) != SPC_OK ||
        (status = check_range("c", feature->channels, 1, SPC__CHANNELS_MOST,
                              error)) != SPC_OK ||
        (status = spc__slope_check(feature->slope, error)) != SPC_OK)
        return status;
    status = check_words(feature, error);
    return status == SPC_OK ? spc__feature_check_pass(feature, error) : status;
}

/* ---- attrs --------------------------------------------------------------- */

static void set_activation(spc__attrs *out, const spc_feature *f)
{
    spc__attrs_set_text(out, "act", spc__activation_names[f->activation]);
}

/* The gradient of scale and shift does not read their values. */
static void set_norm(spc__attrs *out, const spc_feature *f)
{
    if (f->pass != SPC_WGRAD)
        spc__attrs_set_number(out, "affine", f->affine);
    if (f->op == SPC_FEATURE_GROUPNORM)
        spc__attrs_set_number(out, "groups", f->groups);
    if (f->pass == SPC_FORWARD)
        set_activation(out, f);
}

static void set_bev(spc__attrs *out, const spc_feature *f)
{
    spc__attrs_set_text(out, "order", spc__bev_order_names[f->order]);
    spc__attrs_set_number(out, "x", f->shape[0]);
    spc__attrs_set_number(out, "y", f->shape[1]);
    spc__attrs_set_number(out, "z", f->shape[2]);
}

/* Writes the box that numbers the slices. A list numbers them in its own
 * order. */
static void set_slices(spc__attrs *out, const spc_feature *f)
{
    static const char *const names[] = {"kx", "ky", "kz"};
    int list = f->geometry.offset_count;

    for (int i = 0; i < 3; i++)
        spc__attrs_set_number(out, names[i],
                              list == 0 ? f->geometry.kernel[i]
                              : i == 2  ? list
                                        : 1);
}

void spc__feature_attrs(spc__attrs *out, const spc_feature *f)
{
    memset(out, 0, sizeof(*out));
    spc__attrs_set_text(out, "op", op_names[f->op]);
    spc__attrs_set_number(out, "channels", f->channels);
    spc__attrs_set_text(out, "dtype", spc__dtype_of(f->dtype)->name);
    switch (f->op) {
    case SPC_FEATURE_POOL:
        spc__attrs_set_text(out, "reduce", spc__reduction_names[f->reduction]);
        /* fall through */
    case SPC_FEATURE_UNPOOL:
        spc__attrs_set_number(out, "offsets",
                              spc_geometry_offset_count(&f->geometry));
        spc__attrs_set_number(out, "index", f->index);
        break;
    case SPC_FEATURE_SLICE:
    case SPC_FEATURE_UNSLICE:
        set_slices(out, f);
        break;
    case SPC_FEATURE_GLOBAL:
        spc__attrs_set_text(out, "reduce", spc__reduction_names[f->reduction]);
        break;
    case SPC_FEATURE_ADD:
    case SPC_FEATURE_ACT:
    case SPC_FEATURE_ACTGRAD:
    case SPC_FEATURE_AFFINE:
        if (f->pass == SPC_FORWARD)
            set_activation(out, f);
        break;
    case SPC_FEATURE_LAYERNORM:
    case SPC_FEATURE_GROUPNORM:
        set_norm(out, f);
        break;
    case SPC_FEATURE_BEV:
        set_bev(out, f);
        break;
    default:
        spc__attrs_set_number(out, "by", f->by);
    }
    if (f->pass != SPC_FORWARD)
        spc__attrs_set_text(out, "pass", spc__pass_names[f->pass]);
}
