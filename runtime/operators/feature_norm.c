/* SPDX-License-Identifier: Apache-2.0 */
/* feature_norm.c - normalisation: of a row, or of a group of channels in a
 * batch element. */
#include "operators/feature_table.h"
#include "operators/feature_launch.h"

#include "base/error.h"
#include "operators/feature.h"
#include <math.h>

/* Checks eps. */
static spc_status check_layer(const spc_feature *f, spc_error *error)
{
    if (!(f->eps >= 0) || isinf(f->eps))
        return spc__fail(error, SPC_EINVAL, "eps=%g: expected a number >= 0",
                         (double)f->eps);
    return SPC_OK;
}

/* Checks eps, and that groups divide the channels. */
static spc_status check_group(const spc_feature *f, spc_error *error)
{
    spc_status status = check_layer(f, error);

    return status == SPC_OK ? spc__feature_check_divisor("groups", f->groups,
                                                         f->channels, error)
                            : status;
}

/* The gradient of scale and shift does not read their values. */
static void set_norm(spc__attrs *out, const spc_feature *f)
{
    if (f->pass != SPC_WGRAD)
        spc__attrs_set_number(out, "affine", f->affine);
    if (f->op == SPC_FEATURE_GROUPNORM)
        spc__attrs_set_number(out, "groups", f->groups);
    spc__feature_set_activation(out, f);
}

/* A gradient reads the inputs, whose mean and variance it finds again. */
static bool always(const spc_feature *f)
{
    (void)f;
    return true;
}

/* ---- launches ------------------------------------------------------------ */

/* A warp for each group of each batch element. */
static int64_t by_groups(const spc_feature *f, const spc__feature_sizes *s)
{
    return s->batches * f->groups * SPC__WARP;
}

static const spc__feature_launches layer = {
    "feature_norm", "feature_cpu", {{"spc_norm", true, spc__by_warps, 0}}};
static const spc__feature_launches layer_back = {
    "feature_norm", "feature_grad_cpu", {{"spc_norm", true, spc__by_warps, 0}}};
static const spc__feature_launches layer_sums = {
    "feature_norm",
    "feature_grad_cpu",
    {{"spc_moments", true, spc__by_warps, 0},
     {"spc_channels", true, spc__by_row_parts, SPC__PAIR_BYTES},
     {"spc_sums", false, spc__by_sums, 0}}};

static const spc__feature_launches group = {
    "feature_batch",
    "feature_cpu",
    {{"spc_part", true, spc__by_parts, 0},
     {"spc_join", false, by_groups, 0},
     {"spc_apply", true, spc__by_pieces, 0}}};
static const spc__feature_launches group_back = {
    "feature_batch",
    "feature_grad_cpu",
    {{"spc_part", true, spc__by_parts, 0},
     {"spc_join", false, by_groups, 0},
     {"spc_part_back", true, spc__by_parts, 0},
     {"spc_join_back", false, by_groups, 0},
     {"spc_apply", true, spc__by_pieces, 0}}};
static const spc__feature_launches group_sums = {
    "feature_batch",
    "feature_grad_cpu",
    {{"spc_part", true, spc__by_parts, 0},
     {"spc_join", false, by_groups, 0},
     {"spc_channels", true, spc__by_row_parts, SPC__PAIR_BYTES},
     {"spc_sums", false, spc__by_sums, 0}}};

/* The mean and 1 / sqrt of each row. */
static void layer_arrays(spc__feature_arrays *out, const spc_feature *f,
                         const spc__feature_sizes *s)
{
    out->parts = spc__feature_sums_bytes(f);
    out->moments = f->pass == SPC_WGRAD ? s->rows * 8 : 0;
}

/* The mean and 1 / sqrt of each group; in a gradient also two means of
 * gradients. Parts of groups and parts of rows use the same memory. */
static void group_arrays(spc__feature_arrays *out, const spc_feature *f,
                         const spc__feature_sizes *s)
{
    int64_t groups = s->batches * f->groups * 8;
    int64_t of_groups = groups * SPC_FEATURE_PARTS;
    int64_t of_rows = spc__feature_sums_bytes(f);

    out->parts = of_groups > of_rows ? of_groups : of_rows;
    out->moments = groups * (f->pass == SPC_DGRAD ? 2 : 1);
}

/* ---- rows ---------------------------------------------------------------- */

static const char *const layer_values[] = {"layer", NULL};
static const char *const group_values[] = {"group", NULL};

const spc__feature_row spc__feature_row_layernorm = {
    .name = "layernorm",
    .word = "norm",
    .values = layer_values,
    .value_is = "normalisation",
    .takes = SPC__TAKES_EPS | SPC__TAKES_ACT | SPC__TAKES_PASS,
    .info = {"features", "norm=layer", "by mean and variance of a row",
             "c eps=1e-5 affine=0" SPC__WORDS_ACT SPC__WORDS_PASS,
             "norm=layer,c=96,eps=1e-5,affine=1"},
    .check = check_layer,
    .attrs = set_norm,
    .scales_if_affine = true,
    .needs_in = always,
    .launches = {&layer, &layer_back, &layer_sums},
    .arrays = layer_arrays,
};

const spc__feature_row spc__feature_row_groupnorm = {
    .name = "groupnorm",
    .word = "norm",
    .values = group_values,
    .value_is = "normalisation",
    .takes =
        SPC__TAKES_EPS | SPC__TAKES_GROUPS | SPC__TAKES_ACT | SPC__TAKES_PASS,
    .info = {"features", "norm=group",
             "by those of a batch element and a group",
             "c groups eps=1e-5 affine=0" SPC__WORDS_ACT SPC__WORDS_PASS,
             "norm=group,c=768,groups=32"},
    .check = check_group,
    .attrs = set_norm,
    .reads = SPC__READS_BATCH,
    .scales_if_affine = true,
    .needs_in = always,
    .launches = {&group, &group_back, &group_sums},
    .arrays = group_arrays,
};
