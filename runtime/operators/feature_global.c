/* SPDX-License-Identifier: Apache-2.0 */
/* feature_global.c - pooling over the voxels of each batch element. */
#include "operators/feature_table.h"
#include "operators/feature_launch.h"

#include "operators/feature.h"

static void set_global(spc__attrs *out, const spc_feature *f)
{
    spc__attrs_set_text(out, "reduce", spc__reduction_names[f->reduction]);
}

static bool is_maximum(const spc_feature *f)
{
    return f->reduction == SPC_REDUCE_MAX;
}

static const spc__feature_launches forward = {
    "feature_batch",
    "feature_cpu",
    {{"spc_part", true, spc__by_parts, SPC__PART_BYTES},
     {"spc_join", false, spc__by_channels, SPC__JOIN_BYTES}}};
static const spc__feature_launches back = {
    "feature_batch",
    "feature_grad_cpu",
    {{"spc_spread", true, spc__by_warps, 0}}};
static const spc__feature_launches back_of_maximum = {
    "feature_batch",
    "feature_grad_cpu",
    {{"spc_part", true, spc__by_parts, SPC__PART_BYTES},
     {"spc_join", false, spc__by_channels, SPC__JOIN_BYTES},
     {"spc_find", false, spc__by_elements, 0},
     {"spc_spread", true, spc__by_warps, 0}}};

/* The gradient of a maximum computes the maximum again and then finds the first
 * voxel that has this value. */
static void arrays(spc__feature_arrays *out, const spc_feature *f,
                   const spc__feature_sizes *s)
{
    int64_t sums = s->batches * f->channels * 4;
    bool counts = spc__feature_counts(f);

    if (f->pass == SPC_FORWARD || counts)
        out->parts = sums * SPC_FEATURE_PARTS;
    if (counts)
        out->moments = out->cells = sums;
    out->empty = 0x7f; /* a minimum starts at a large value */
}

const spc__feature_row spc__feature_row_global = {
    .name = "global",
    .word = "global",
    .values = spc__reduction_names,
    .value_is = "reduction",
    .selects = SPC__SELECTS_REDUCTION,
    .takes = SPC__TAKES_PASS,
    .info = {"features", "global=max|mean|sum",
             "over the voxels of each batch element", "c" SPC__WORDS_PASS,
             "global=mean,c=64"},
    .attrs = set_global,
    .reads = SPC__READS_BATCH,
    .out_by_batch = true,
    .needs_in = is_maximum,
    .launches = {[SPC_FORWARD] = &forward, [SPC_DGRAD] = &back},
    .counts = is_maximum,
    .counted = &back_of_maximum,
    .arrays = arrays,
};
