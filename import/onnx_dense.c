/* SPDX-License-Identifier: Apache-2.0 */
/*
 * onnx_dense.c - tracks the axes of dense outputs through the nodes that
 * exporters add. After a ScatterDense the axes are N, C and those of the file.
 * Transpose permutes them, and Reshape merges C and Z. Nothing is computed: the
 * result is one operator that writes a plane with channels c * Z + z.
 */
#include "import/onnx_net.h"

#include <stdio.h>
#include <string.h>

/* ---- the axes of a dense value ------------------------------------------- */

/* Size of an axis; 0: unknown. */
static int64_t size_of(const spc_tensor_info *info, char axis)
{
    return axis == 'c' ? info->channels : info->shape[axis - 'x'];
}

static spc_status check_layout(const spc__onnx_node *node)
{
    char layout[16] = "NCHW";
    spc_status status =
        spc__onnx_text(node, layout, sizeof(layout), "output_layout");

    if (status != SPC_OK || strcmp(layout, "NCHW") == 0)
        return status;
    return spc__onnx_fail(node, SPC_EUNSUPPORTED,
                          "has the output_layout %s: NCHW is written", layout);
}

spc_status spc__onnx_scatter(spc__onnx_builder *b, const spc__onnx_node *node)
{
    spc__onnx_value *in = NULL, *out = spc__onnx_output(b, node);
    spc_status status;

    if ((status = spc__onnx_input(&in, b, node, 0, SPC__ONNX_ROWS)) != SPC_OK ||
        (status = check_layout(node)) != SPC_OK ||
        (status = spc__onnx_check_shape(b, node, in->tensor,
                                        "input_spatial_shape")) != SPC_OK)
        return status;
    out->kind = SPC__ONNX_DENSE;
    out->tensor = in->tensor;
    snprintf(out->order, sizeof(out->order), "c%s", b->axes);
    return SPC_OK;
}

/*
 * The inputs of Autoware's node are zeros, coordinates and rows. The rows are
 * scattered, and channels are the last axis. The caller makes the first two
 * inputs, which only give batch size and shape.
 */
spc_status spc__onnx_scatter_nd(spc__onnx_builder *b,
                                const spc__onnx_node *node)
{
    spc__onnx_value *in = NULL, *out = spc__onnx_output(b, node);
    spc_status status = spc__onnx_input(&in, b, node, 2, SPC__ONNX_ROWS);

    if (status != SPC_OK)
        return status;
    out->kind = SPC__ONNX_DENSE;
    out->tensor = in->tensor;
    snprintf(out->order, sizeof(out->order), "%sc", b->axes);
    return SPC_OK;
}

spc_status spc__onnx_transpose(spc__onnx_builder *b, const spc__onnx_node *node)
{
    spc__onnx_value *in = NULL, *out = spc__onnx_output(b, node);
    int dims[5] = {-1, -1, -1, -1, -1};
    spc_status status = spc__onnx_input(&in, b, node, 0, SPC__ONNX_DENSE);

    if (status == SPC_OK)
        status = spc__onnx_ints(node, dims, 5,
                                spc__onnx_has(node, "perm") ? "perm" : "dims");
    if (status != SPC_OK)
        return status;
    bool is_right = dims[0] == 0 && !in->merged;
    *out = (spc__onnx_value){
        out->name, out->users, out->consumer, SPC__ONNX_DENSE, in->tensor,
        0,         "",         false};
    for (int i = 0; i < 4 && is_right; i++) {
        is_right = dims[i + 1] >= 1 && dims[i + 1] <= 4 &&
                   strchr(out->order, in->order[dims[i + 1] - 1]) == NULL;
        if (is_right)
            out->order[i] = in->order[dims[i + 1] - 1];
    }
    return is_right
               ? SPC_OK
               : spc__onnx_fail(node, SPC_EUNSUPPORTED,
                                "does not move the five axes N, C, Z, Y, X "
                                "with N first");
}

/* ---- Reshape ------------------------------------------------------------- */

static bool fits(int64_t dim, int64_t size)
{
    return dim == -1 || dim == size;
}

/* Merges to N, C*Z and the two axes of the plane. */
static spc_status merge(spc__onnx_builder *b, const spc__onnx_node *node,
                        const spc__onnx_value *in, const int64_t *dims,
                        int count)
{
    spc__onnx_value *out = spc__onnx_output(b, node);
    spc_tensor_info info;
    spc_status status = spc_net_tensor_at(&info, b->net, in->tensor, b->error);

    if (status != SPC_OK)
        return status;
    const char *order = in->order;
    if (count != 4 || order[0] != 'c' ||
        !fits(dims[1], info.channels * size_of(&info, order[1])) ||
        !fits(dims[2], size_of(&info, order[2])) ||
        !fits(dims[3], size_of(&info, order[3])))
        return spc__onnx_fail(node, SPC_EUNSUPPORTED,
                              "makes something else than N, C*Z and a plane of "
                              "a dense value with axes N, %c, %c, %c, %c",
                              order[0], order[1], order[2], order[3]);
    out->kind = SPC__ONNX_DENSE;
    out->tensor = in->tensor;
    out->merged = true;
    memcpy(out->order, in->order, sizeof(out->order));
    return SPC_OK;
}

/* Splits [rows][channels] into [rows][channels / by][by]. */
static spc_status split(spc__onnx_builder *b, const spc__onnx_node *node,
                        const spc__onnx_value *in, const int64_t *dims,
                        int count)
{
    spc__onnx_value *out = spc__onnx_output(b, node);
    spc_tensor_info info;
    spc_status status = spc_net_tensor_at(&info, b->net, in->tensor, b->error);

    if (status != SPC_OK)
        return status;
    int64_t groups = count == 3 ? dims[1] : 0;
    if (groups < 1 || groups > info.channels || info.channels % groups != 0 ||
        !fits(dims[2], info.channels / groups))
        return spc__onnx_fail(node, SPC_EUNSUPPORTED,
                              "makes something else than [rows][channels / "
                              "q][q] of rows of %d channels",
                              info.channels);
    out->kind = SPC__ONNX_GROUPED;
    out->tensor = in->tensor;
    out->by = (int)(info.channels / groups);
    return SPC_OK;
}

spc_status spc__onnx_reshape(spc__onnx_builder *b, const spc__onnx_node *node)
{
    spc__onnx_value *in = NULL;
    int count = 0;
    const int64_t *dims = spc__onnx_list(node, &count, "dims");
    spc__onnx_node silent = *node;
    spc_status status;

    silent.error = NULL;
    /* Handles a shape that the file computes; the data do not depend on it. */
    if (dims == NULL && b->is_autoware)
        return spc__onnx_same(b, node);
    if (dims == NULL)
        return spc__onnx_fail(node, SPC_EFORMAT,
                              "has no attribute 'dims' of 1 to 8 numbers");
    if (spc__onnx_input(&in, b, &silent, 0, SPC__ONNX_DENSE) == SPC_OK)
        return merge(b, node, in, dims, count);
    status = spc__onnx_input(&in, b, node, 0, SPC__ONNX_ROWS);
    return status == SPC_OK ? split(b, node, in, dims, count) : status;
}

/* ---- outputs ------------------------------------------------------------- */

/* Returns SPC_BEV_VOLUME + 1 if no order matches. */
static spc_bev_order order_of(const spc__onnx_value *value)
{
    static const char *const orders[] = {"czyx", "czxy", "cxyz"};
    int i = 0;

    while (i <= SPC_BEV_VOLUME && strcmp(value->order, orders[i]) != 0)
        i++;
    return (spc_bev_order)i;
}

/* Adds the operator that scatters rows into a dense plane. */
static spc_status scatter(spc_tensor *out, spc__onnx_builder *b,
                          const spc__onnx_value *value)
{
    spc_feature f = SPC_FEATURE_INIT;
    spc_tensor_info info;
    spc_status status =
        spc_net_tensor_at(&info, b->net, value->tensor, b->error);

    if (status != SPC_OK)
        return status;
    f.op = SPC_FEATURE_BEV;
    f.channels = info.channels;
    f.dtype = info.dtype;
    f.order = order_of(value);
    memcpy(f.shape, info.shape, sizeof(f.shape));
    return spc_net_add_feature(out, b->net, value->name, &f, value->tensor,
                               SPC_NO_TENSOR, SPC_NO_TENSOR, b->error);
}

spc_status spc__onnx_put_out(spc_tensor *out, spc__onnx_builder *b,
                             const spc__onnx_value *value)
{
    *out = value->tensor;
    if (value->kind == SPC__ONNX_ROWS)
        return SPC_OK;
    if (value->kind == SPC__ONNX_DENSE && order_of(value) <= SPC_BEV_VOLUME)
        return scatter(out, b, value);
    /* The value is dense, so a node made it: the graph's inputs are rows. */
    spc__onnx_node node = spc__onnx_node_at(
        b->onnx, (int)(value - b->values) - b->input_count, b->error);
    return spc__onnx_fail(&node, SPC_EUNSUPPORTED,
                          "makes an output that is neither rows nor N, C*Z, Y, "
                          "X nor N, C*Z, X, Y nor N, C, X, Y, Z");
}
