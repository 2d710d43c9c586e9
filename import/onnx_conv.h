/* SPDX-License-Identifier: Apache-2.0 */
/* onnx_conv.h - a layer while its node is read, for both kinds of files. */
#ifndef SPC_IMPORT_ONNX_CONV_H
#define SPC_IMPORT_ONNX_CONV_H

#include "import/onnx_net.h"

typedef struct spc__onnx_layer {
    spc__onnx_builder *b;
    const spc__onnx_node *node;
    spc__onnx_value *in;
    spc__onnx_value *out; /* the layer's output value; after fusion that of the
                           * last fused node */
    char name[64], rulebook[64];
    int subm, inverse, transposed;
    int out_padding[3];       /* only for a transposed convolution */
    spc__onnx_rulebook *made; /* rulebook of a strided convolution; else NULL */
    spc_net_layer layer;
} spc__onnx_layer;

/* Returns the rule of a layer whose sizes are in *g. */
spc_status spc__onnx_make_subm(spc__onnx_layer *r, spc_geometry *g);
spc_status spc__onnx_make_strided(spc__onnx_layer *r, spc_geometry *g);
spc_status spc__onnx_make_transposed(spc__onnx_layer *r, spc_geometry *g);

/* Fuses a Relu that follows; and an Add that follows as the residual, with a
 * Relu after that. */
void spc__onnx_take_activation(spc__onnx_layer *r);
void spc__onnx_take_add(spc__onnx_layer *r);

#endif
