/* SPDX-License-Identifier: Apache-2.0 */
/* onnx_range.c - reads the ranges in a file and quantises a network by them. */
#include "import/onnx_net.h"

#include "base/error.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static bool is_int8(const spc__onnx_node *node, const char *name)
{
    char text[16] = "";

    return spc__onnx_text(node, text, sizeof(text), name) == SPC_OK &&
           strcmp(text, "int8") == 0;
}

/* The attributes with the range of input i / 2. */
static const char *const inputs[] = {
    "input_dynamic_range", "input0_dynamic_range", "input1_dynamic_range"};

/* Reads the ranges that a node states. A range of zero means: not stated. */
static void read_range(spc_onnx_range *out, const spc__onnx_node *node)
{
    *out =
        (spc_onnx_range){.layer = node->pb->name != NULL ? node->pb->name : ""};
    for (int i = 0; i < 3; i++)
        spc__onnx_float(node, &out->inputs[i / 2], inputs[i]);
    for (size_t i = 0; i < node->pb->n_attribute; i++) {
        const Spc__Pb__Attribute *a = node->pb->attribute[i];
        if (strcmp(a->name, "weight_dynamic_ranges") == 0) {
            out->weights = a->floats;
            out->weight_count = (int)a->n_floats;
        }
    }
    out->int8 = is_int8(node, "precision");
    if (strcmp(node->pb->op_type, "ImplicitGemmInt8") == 0) {
        float step = 0;
        spc__onnx_float(node, &step, "input_scale");
        /* The file states a quantisation step. A range has 127 steps on each
         * side. */
        out->inputs[0] = 127 * step;
        out->int8 = true;
    }
    out->int8_out = is_int8(node, "output_precision");
}

/* Files with other types have ranges with another meaning. */
static spc_status check_precision(const spc__onnx_node *node, const char *name)
{
    static const char *const known[] = {"", "int8", "fp16", "fp32"};
    char text[16] = "";
    spc_status status = spc__onnx_text(node, text, sizeof(text), name);

    if (status != SPC_OK)
        return status;
    for (size_t i = 0; i < sizeof(known) / sizeof(*known); i++)
        if (strcmp(text, known[i]) == 0)
            return SPC_OK;
    return spc__onnx_fail(node, SPC_EUNSUPPORTED,
                          "has %s '%s': int8, fp16 and fp32 are known", name,
                          text);
}

/* One range for each output channel, or none. */
static spc_status check_weight_ranges(const spc__onnx_node *node)
{
    spc_onnx_range r;
    int channels = 0;
    spc_status status = spc__onnx_int(node, &channels, "out_channels");

    read_range(&r, node);
    if (status != SPC_OK || r.weight_count == 0)
        return status;
    if (r.weight_count != channels)
        return spc__onnx_fail(node, SPC_EFORMAT,
                              "has %d weight_dynamic_ranges: expected %d, one "
                              "for each of its out_channels",
                              r.weight_count, channels);
    for (int i = 0; i < r.weight_count; i++)
        /* The comparison also refuses NaN. */
        if (!(r.weights[i] >= 0 && r.weights[i] < INFINITY))
            return spc__onnx_fail(
                node, SPC_EFORMAT,
                "has weight_dynamic_ranges with %g: expected numbers >= 0",
                (double)r.weights[i]);
    return SPC_OK;
}

/* Checks precisions and ranges. */
static spc_status check_ranges(const spc__onnx_node *node)
{
    spc_status status = check_precision(node, "precision");

    if (status == SPC_OK)
        status = check_precision(node, "output_precision");
    if (status == SPC_OK)
        status = check_weight_ranges(node);
    if (status == SPC_OK && spc__onnx_has(node, "input_scale")) {
        float step = 0;
        status = spc__onnx_float(node, &step, "input_scale");
        if (status == SPC_OK && !(step > 0 && step < INFINITY))
            status = spc__onnx_fail(node, SPC_EFORMAT,
                                    "has an input_scale of %g: expected a "
                                    "number above 0",
                                    (double)step);
    }
    for (int i = 0; i < 3 && status == SPC_OK; i++) {
        float range = 0;
        status = spc__onnx_float(node, &range, inputs[i]);
        if (status == SPC_OK && !(range >= 0 && range < INFINITY))
            status = spc__onnx_fail(node, SPC_EFORMAT,
                                    "has an %s of %g: expected a number >= 0",
                                    inputs[i], (double)range);
    }
    return status;
}

/* Takes the ranges that a node states for its inputs. The larger of two ranges
 * applies, and a tensor that some layer reads as f16 stays f16. */
static void take_range(float *ranges, const spc__onnx_builder *b,
                       const spc__onnx_node *node)
{
    bool is_layer = strcmp(node->pb->op_type, "SparseConvolution") == 0 ||
                    spc__onnx_is_gemm(node->pb);
    spc_onnx_range r;

    read_range(&r, node);
    for (size_t i = 0; i < node->pb->n_input && i < 2; i++) {
        const spc__onnx_value *value = spc__onnx_find(b, node->pb->input[i]);
        if (value == NULL || value->kind != SPC__ONNX_ROWS)
            continue;
        float *range = &ranges[value->tensor];
        if (is_layer && !r.int8)
            /* Below zero it stays so, whatever nodes after this one state. */
            *range = -1;
        else if (*range >= 0 && r.inputs[i] > *range)
            *range = r.inputs[i];
    }
}

spc_status spc__onnx_quantise(spc__onnx_builder *b)
{
    spc_net_info info;
    spc_status status = SPC_OK;

    spc_net_describe(&info, b->net);
    float *ranges = calloc((size_t)info.tensors + 1, sizeof(*ranges));
    if (ranges == NULL)
        return spc__fail_memory(b->error, (size_t)info.tensors * 4);
    for (size_t n = 0; n < b->onnx->model->graph->n_node && status == SPC_OK;
         n++) {
        spc__onnx_node node = spc__onnx_node_at(b->onnx, (int)n, b->error);
        if ((status = check_ranges(&node)) == SPC_OK)
            take_range(ranges, b, &node);
    }
    for (int t = 0; t < info.tensors; t++)
        ranges[t] = ranges[t] > 0 ? ranges[t] : 0;
    if (status == SPC_OK)
        status = spc_net_quantise(NULL, b->net, ranges, b->error);
    free(ranges);
    return status;
}

spc_status spc_onnx_range_at(spc_onnx_range *out, const spc_onnx *onnx, int i)
{
    if (out == NULL || onnx == NULL || i < 0)
        return SPC_EINVAL;
    for (size_t n = 0; n < onnx->model->graph->n_node; n++) {
        /* Passes no error: an unreadable attribute counts as not stated. */
        spc__onnx_node node = spc__onnx_node_at(onnx, (int)n, NULL);
        bool has = spc__onnx_has(&node, "input_dynamic_range") ||
                   spc__onnx_has(&node, "input0_dynamic_range") ||
                   spc__onnx_has(&node, "input_scale");
        if (has && i-- == 0) {
            read_range(out, &node);
            return SPC_OK;
        }
    }
    return SPC_EINVAL;
}
