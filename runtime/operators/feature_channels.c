/* SPDX-License-Identifier: Apache-2.0 */
/* feature_channels.c - operators that join or repeat neighbouring channels. */
#include "operators/feature_table.h"
#include "operators/feature_launch.h"

#include "operators/conv.h"

static spc_status check_group(const spc_feature *f, spc_error *error)
{
    return spc__feature_check_divisor("by", f->by, f->channels, error);
}

static spc_status check_repeat(const spc_feature *f, spc_error *error)
{
    return spc__feature_check_range("by", f->by, 1,
                                    SPC__CHANNELS_MOST / f->channels, error);
}

static void set_by(spc__attrs *out, const spc_feature *f)
{
    spc__attrs_set_number(out, "by", f->by);
}

static int64_t group_outputs(const spc_feature *f)
{
    return f->channels / f->by;
}

static int64_t repeat_outputs(const spc_feature *f)
{
    return (int64_t)f->channels * f->by;
}

/* Every channel of a group gets the gradient of the group's sum. The gradient
 * of a mean also has a factor, so it has separate kernels. */
static void dgrad_of_sum(spc_feature *out)
{
    spc__feature_become(out, SPC_FEATURE_REPEAT, out->channels / out->by,
                        out->by);
}

/* The gradients of equal channels add up. */
static void dgrad_of_repeat(spc_feature *out)
{
    spc__feature_become(out, SPC_FEATURE_GROUPSUM, out->channels * out->by,
                        out->by);
}

static const spc__feature_launches rows = {
    "feature_rows", "feature_cpu", {{"spc_rows", true, spc__by_pieces, 0}}};
static const spc__feature_launches rows_back = {
    "feature_rows",
    "feature_grad_cpu",
    {{"spc_rows", true, spc__by_pieces, 0}}};

/* ---- rows ---------------------------------------------------------------- */

const spc__feature_row spc__feature_row_groupsum = {
    .name = "groupsum",
    .word = "groupsum",
    .takes = SPC__TAKES_BY | SPC__TAKES_PASS,
    .info = {"features", "groupsum", "neighbouring channels become their sum",
             "c by" SPC__WORDS_PASS, "groupsum,c=128,by=2"},
    .check = check_group,
    .attrs = set_by,
    .outputs = group_outputs,
    .make_dgrad = dgrad_of_sum,
    .launches = {[SPC_FORWARD] = &rows},
};

const spc__feature_row spc__feature_row_groupmean = {
    .name = "groupmean",
    .word = "groupmean",
    .takes = SPC__TAKES_BY | SPC__TAKES_PASS,
    .info = {"features", "groupmean", "neighbouring channels become their mean",
             "c by" SPC__WORDS_PASS, "groupmean,c=128,by=2"},
    .check = check_group,
    .attrs = set_by,
    .outputs = group_outputs,
    .launches = {[SPC_FORWARD] = &rows, [SPC_DGRAD] = &rows_back},
};

const spc__feature_row spc__feature_row_repeat = {
    .name = "repeat",
    .word = "repeat",
    .takes = SPC__TAKES_BY | SPC__TAKES_PASS,
    .info = {"features", "repeat", "a channel becomes several equal ones",
             "c by" SPC__WORDS_PASS, "repeat,c=64,by=2"},
    .check = check_repeat,
    .attrs = set_by,
    .outputs = repeat_outputs,
    .make_dgrad = dgrad_of_repeat,
    .launches = {[SPC_FORWARD] = &rows},
};
