/* SPDX-License-Identifier: Apache-2.0 */
/* feature_bev.c - dense planes of a bird's-eye view. */
#include "operators/feature_table.h"
#include "operators/feature_launch.h"

#include "base/error.h"
#include "operators/feature.h"

/* Checks the shape of the planes. */
static spc_status check_bev(const spc_feature *f, spc_error *error)
{
    const int *axes = spc__bev_axes[f->order];
    int64_t plane = (int64_t)f->shape[axes[1]] * f->shape[axes[2]];

    for (int i = 0; i < 3; i++)
        if (f->shape[i] < 1 || f->shape[i] > SPC__BEV_MOST)
            return spc__fail(
                error, SPC_EINVAL,
                "shape=%dx%dx%d: expected 1 to %d voxels along each of x, y, z",
                f->shape[0], f->shape[1], f->shape[2], SPC__BEV_MOST);
    if (plane > INT32_MAX)
        return spc__fail(error, SPC_EINVAL,
                         "shape=%dx%dx%d: expected at most %d cells in a plane",
                         f->shape[0], f->shape[1], f->shape[2], INT32_MAX);
    return SPC_OK;
}

static void set_bev(spc__attrs *out, const spc_feature *f)
{
    spc__attrs_set_text(out, "order", spc__bev_order_names[f->order]);
    spc__attrs_set_number(out, "x", f->shape[0]);
    spc__attrs_set_number(out, "y", f->shape[1]);
    spc__attrs_set_number(out, "z", f->shape[2]);
}

/* Its channels are a plane apart. */
static int64_t one(const spc_feature *f)
{
    (void)f;
    return 1;
}

static int64_t cells(const spc_feature *f)
{
    return (int64_t)f->shape[0] * f->shape[1] * f->shape[2];
}

/* A thread for each cell, as every element is written once, zeros included. */
static int64_t by_cells(const spc_feature *f, const spc__feature_sizes *s)
{
    return s->batches * cells(f);
}

static const spc__feature_launches forward = {
    "feature_bev",
    "feature_cpu",
    {{"spc_place", false, spc__by_rows, 0}, {"spc_dense", true, by_cells, 0}}};
static const spc__feature_launches back = {
    "feature_bev",
    "feature_grad_cpu",
    {{"spc_fetch", true, spc__by_elements, 0}}};

/* The row in each cell; at first -1. */
static void arrays(spc__feature_arrays *out, const spc_feature *f,
                   const spc__feature_sizes *s)
{
    out->cells = f->pass == SPC_FORWARD ? s->batches * cells(f) * 4 : 0;
    out->empty = 0xff;
}

const spc__feature_row spc__feature_row_bev = {
    .name = "bev",
    .word = "bev",
    .takes = SPC__TAKES_PLANES | SPC__TAKES_PASS,
    .info = {"features", "bev", "dense planes: voxels of a column are channels",
             "c shape order=zyx" SPC__WORDS_PASS,
             "bev,c=64,shape=176x200x2,order=zyx"},
    .check = check_bev,
    .attrs = set_bev,
    .reads = SPC__READS_BATCH,
    .outputs = one,
    .out_by_batch = true,
    .planes = true,
    .launches = {[SPC_FORWARD] = &forward, [SPC_DGRAD] = &back},
    .arrays = arrays,
};
