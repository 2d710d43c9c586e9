/* SPDX-License-Identifier: Apache-2.0 */
/*
 * root.h - how a set of outputs can be derived in one step from a set farther
 * up, so that levels need not wait for each other.
 */
#ifndef SPC_RUNTIME_ROOT_H
#define SPC_RUNTIME_ROOT_H

#include "spc.h"

/*
 * How a set of outputs follows from its root: by its own rule from its inputs,
 * or by one combined rule from a set farther up. Along each axis an input i has
 * the outputs (i + padding - dilation * place) / stride, for each place below
 * `kernel` where the division leaves no remainder. With FLOOR it has floor(i /
 * stride), with GENERATIVE i * stride - padding + dilation * place, with EXPAND
 * floor(i / stride) - padding + dilation * place. The outputs are bounded by
 * the set's own rule (spc__geometry_out_shape).
 */
typedef struct spc__derivation {
    const spc_coords *root;
    spc_rule rule;
    int kernel[3], stride[3], dilation[3], padding[3];
} spc__derivation;

#endif
