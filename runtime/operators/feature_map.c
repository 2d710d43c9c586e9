/* SPDX-License-Identifier: Apache-2.0 */
/* feature_map.c - operators over a map: pooling, un-pooling, and slices. */
#include "operators/feature_table.h"
#include "operators/feature_launch.h"

#include "base/error.h"
#include "base/text/names.h"
#include "operators/conv.h"
#include "operators/feature.h"
#include "operators/geometry.h"

/* ---- checks -------------------------------------------------------------- */

/* Checks a pooling. */
static spc_status check_pool(const spc_feature *f, spc_error *error)
{
    if (f->index && f->op == SPC_FEATURE_POOL && f->reduction != SPC_REDUCE_MAX)
        return spc__fail(error, SPC_EINVAL,
                         "index=1: only pool=max has an index");
    if (spc__geometry_expands(&f->geometry) ||
        f->geometry.rule == SPC_RULE_RADIUS)
        return spc__fail(
            error, SPC_EINVAL,
            "rule %s: pooling is by the rules subm, floor, "
            "footprint and given",
            spc__name_at(spc__rule_names, (unsigned)f->geometry.rule));
    return spc_geometry_check(&f->geometry, error);
}

/* Each row of the coarser set has the channels of all offsets. */
static spc_status check_slice(const spc_feature *f, spc_error *error)
{
    spc_status status = check_pool(f, error);
    int offsets = spc_geometry_offset_count(&f->geometry);

    /* Divides instead of multiplying, since the product may not fit an int. */
    if (status != SPC_OK || f->channels <= SPC__CHANNELS_MOST / offsets)
        return status;
    return spc__fail(
        error, SPC_EINVAL,
        "c=%d: expected 1 to %d, since the outputs have a slice for each of "
        "the kernel's %d offsets, and at most %d channels",
        f->channels, SPC__CHANNELS_MOST / offsets, offsets, SPC__CHANNELS_MOST);
}

/* Checks that the channels divide into a slice for each offset. */
static spc_status check_unslice(const spc_feature *f, spc_error *error)
{
    spc_status status = check_pool(f, error);
    int offsets = spc_geometry_offset_count(&f->geometry);

    if (status != SPC_OK || f->channels % offsets == 0)
        return status;
    return spc__fail(error, SPC_EINVAL,
                     "c=%d: expected a multiple of the kernel's %d offsets, "
                     "each of which has a slice",
                     f->channels, offsets);
}

/* ---- attrs --------------------------------------------------------------- */

static void set_unpool(spc__attrs *out, const spc_feature *f)
{
    spc__attrs_set_number(out, "offsets",
                          spc_geometry_offset_count(&f->geometry));
    spc__attrs_set_number(out, "index", f->index);
}

static void set_pool(spc__attrs *out, const spc_feature *f)
{
    spc__attrs_set_text(out, "reduce", spc__reduction_names[f->reduction]);
    set_unpool(out, f);
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

/* ---- shapes and passes --------------------------------------------------- */

static int64_t slice_outputs(const spc_feature *f)
{
    return (int64_t)f->channels * spc_geometry_offset_count(&f->geometry);
}

static int64_t unslice_outputs(const spc_feature *f)
{
    return f->channels / spc_geometry_offset_count(&f->geometry);
}

/* The gradient of a maximum is an un-pooling, and not a pass of the pooling. */
static bool is_no_maximum(const spc_feature *f)
{
    return f->reduction != SPC_REDUCE_MAX;
}

/* The gradient of a maximum is an un-pooling to the places of the maxima. */
static void dgrad_of_pool(spc_feature *out)
{
    if (out->reduction == SPC_REDUCE_MAX) {
        out->op = SPC_FEATURE_UNPOOL;
        out->index = true; /* the gradient needs the positions of the maxima */
        out->pass = SPC_FORWARD;
    }
}

static void dgrad_of_slice(spc_feature *out)
{
    spc__feature_become(out, SPC_FEATURE_UNSLICE, (int)slice_outputs(out),
                        out->by);
}

static void dgrad_of_unslice(spc_feature *out)
{
    spc__feature_become(out, SPC_FEATURE_SLICE, (int)unslice_outputs(out),
                        out->by);
}

/* ---- launches ------------------------------------------------------------ */

static const spc__feature_launches pool = {
    "feature_pool", "feature_cpu", {{"spc_pool", true, spc__by_pieces, 0}}};
static const spc__feature_launches pool_back = {
    "feature_pool",
    "feature_grad_cpu",
    {{"spc_pool", true, spc__by_pieces, 0}}};
static const spc__feature_launches pool_back_counted = {
    "feature_pool",
    "feature_grad_cpu",
    {{"spc_count", false, spc__by_rows, 0},
     {"spc_pool", true, spc__by_pieces, 0}}};
static const spc__feature_launches slices = {
    "feature_slices", "feature_cpu", {{"spc_slices", true, spc__by_pieces, 0}}};

/* The gradient of a mean divides by the number of inputs that each output
 * had. */
static bool pool_counts(const spc_feature *f)
{
    return f->reduction == SPC_REDUCE_MEAN;
}

static bool unpool_counts(const spc_feature *f)
{
    return !f->index;
}

/* A number for each row of the gradient's inputs. Counts start at 0; a minimum
 * starts at a large value. */
static void pool_arrays(spc__feature_arrays *out, const spc_feature *f,
                        const spc__feature_sizes *s)
{
    out->cells = spc__feature_counts(f) ? s->seen * 4 : 0;
    out->empty = f->op == SPC_FEATURE_POOL ? 0 : 0x7f;
}

/* ---- rows ---------------------------------------------------------------- */

static const char *const unpool_values[] = {"nearest", "index", NULL};
static const char *const slice_values[] = {"slices", NULL};

const spc__feature_row spc__feature_row_pool = {
    .name = "pool",
    .word = "pool",
    .values = spc__reduction_names,
    .value_is = "reduction",
    .selects = SPC__SELECTS_REDUCTION,
    .takes = SPC__TAKES_MAP | SPC__TAKES_INDEX | SPC__TAKES_PASS,
    .info = {"features", "pool=max|mean|sum",
             "by a map of rule=subm, floor, footprint or given",
             "c" SPC__WORDS_MAP " index=0" SPC__WORDS_PASS,
             "pool=max,c=64,rule=floor,k=2,stride=2"},
    .check = check_pool,
    .attrs = set_pool,
    .reads = SPC__READS_MAP,
    .stores_index = true,
    .make_dgrad = dgrad_of_pool,
    .has_dgrad = is_no_maximum,
    .launches = {[SPC_FORWARD] = &pool, [SPC_DGRAD] = &pool_back},
    .counts = pool_counts,
    .counted = &pool_back_counted,
    .arrays = pool_arrays,
};

const spc__feature_row spc__feature_row_unpool = {
    .name = "unpool",
    .word = "unpool",
    .values = unpool_values,
    .value_is = "way to un-pool",
    .selects = SPC__SELECTS_INDEX,
    .takes = SPC__TAKES_MAP | SPC__TAKES_PASS,
    .info = {"features", "unpool=nearest|index",
             "back to the voxels that were pooled",
             "c" SPC__WORDS_MAP SPC__WORDS_PASS,
             "unpool=nearest,c=64,rule=floor,k=2,stride=2"},
    .check = check_pool,
    .attrs = set_unpool,
    .reads = SPC__READS_MAP,
    .inverse = true,
    .reads_index = true,
    .launches = {[SPC_FORWARD] = &pool, [SPC_DGRAD] = &pool_back},
    .counts = unpool_counts,
    .counted = &pool_back_counted,
    .arrays = pool_arrays,
};

const spc__feature_row spc__feature_row_slice = {
    .name = "slice",
    .word = "pool",
    .values = slice_values,
    .value_is = "reduction",
    .takes = SPC__TAKES_MAP | SPC__TAKES_PASS,
    .info = {"features", "pool=slices",
             "space to channel: an offset's input is a slice",
             "c" SPC__WORDS_MAP SPC__WORDS_PASS,
             "pool=slices,c=64,rule=floor,k=2,stride=2"},
    .check = check_slice,
    .attrs = set_slices,
    .reads = SPC__READS_MAP,
    .outputs = slice_outputs,
    .make_dgrad = dgrad_of_slice,
    .launches = {[SPC_FORWARD] = &slices},
};

const spc__feature_row spc__feature_row_unslice = {
    .name = "unslice",
    .word = "unpool",
    .values = slice_values,
    .value_is = "way to un-pool",
    .takes = SPC__TAKES_MAP | SPC__TAKES_PASS,
    .info = {"features", "unpool=slices",
             "channel to space: slices back to the voxels",
             "c" SPC__WORDS_MAP SPC__WORDS_PASS,
             "unpool=slices,c=512,rule=floor,k=2,stride=2"},
    .check = check_unslice,
    .attrs = set_slices,
    .reads = SPC__READS_MAP,
    .outputs = unslice_outputs,
    .inverse = true,
    .make_dgrad = dgrad_of_unslice,
    .launches = {[SPC_FORWARD] = &slices},
};
