/* SPDX-License-Identifier: Apache-2.0 */
/*
 * root.h - finds the set from which a set of outputs can be derived in one
 * step, so that levels need not wait for each other.
 */
#ifndef SPC_RUNTIME_ROOT_H
#define SPC_RUNTIME_ROOT_H

#include "spc.h"

/*
 * How a set of outputs follows from its root: by its own rule from its inputs,
 * or by one combined rule from a set farther up. Along each axis an input i has
 * the outputs (i + padding - dilation * place) / stride, for each place below
 * `kernel` where the division leaves no remainder. With FLOOR it has floor(i /
 * stride), with GENERATIVE i * stride - padding + dilation * place. The outputs
 * are bounded by the set's own rule (spc__geometry_out_shape).
 */
typedef struct spc__derivation {
    const spc_coords *root;
    spc_rule rule;
    int kernel[3], stride[3], dilation[3], padding[3];
} spc__derivation;

/*
 * Finds the root of a set with known inputs and rule; the roots of the inputs
 * must be known already.
 *
 * Two floors combine: floor(floor(i / a) / b) is floor(i / (a b)) for either
 * sign of i. So do two footprints: i = o s - p + r and o = q t - u + v give i =
 * q (s t) - (p + s u) + (r + s v). With r < k and v < l, r + s v takes every
 * value from 0 to k - 1 + s (l - 1) if they leave no gaps: k >= s, or l = 1.
 * Outputs o outside the inner rule's bound can make a difference. This is
 * checked for every input coordinate over the extent of the root.
 */
void spc__coords_find_root(spc__derivation *out, const spc_coords *coords);

#endif
