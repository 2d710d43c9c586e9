/* SPDX-License-Identifier: Apache-2.0 */
/*
 * feature_multiply.c - rows times the row of their batch element: y[r][c] =
 * x[r][c] * s[batch of r][c].
 *
 * The gradient of x is the operator itself, with dy in place of x. The gradient
 * of s is the sum of x * dy over the voxels of a batch element, by the parts
 * that global pooling sums.
 */
#include "operators/feature_launch.h"
#include "operators/feature_table.h"

static void make_dgrad(spc_feature *out)
{
    out->pass = SPC_FORWARD;
}

static const spc__feature_launches forward = {
    "feature_multiply",
    "feature_multiply_cpu",
    {{"spc_multiply", true, spc__by_pieces, 0}}};
static const spc__feature_launches sums = {
    "feature_multiply",
    "feature_multiply_cpu",
    {{"spc_part", true, spc__by_parts, SPC__PART_BYTES},
     {"spc_join", false, spc__by_channels, SPC__JOIN_BYTES}}};

static void arrays(spc__feature_arrays *out, const spc_feature *f,
                   const spc__feature_sizes *s)
{
    if (f->pass == SPC_WGRAD)
        out->parts = s->batches * f->channels * 4 * SPC_FEATURE_PARTS;
}

const spc__feature_row spc__feature_row_multiply = {
    .name = "multiply",
    .word = "multiply",
    .takes = SPC__TAKES_PASS,
    .info = {"features", "multiply",
             "rows times the row of their batch element", "c" SPC__WORDS_PASS,
             "multiply,c=64"},
    .reads = SPC__READS_BATCH,
    .adds = true,
    .add_by_batch = true,
    .make_dgrad = make_dgrad,
    .launches = {[SPC_FORWARD] = &forward, [SPC_WGRAD] = &sums},
    .arrays = arrays,
};
