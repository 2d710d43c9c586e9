/*
 * root.h - the set that a set of outputs can be derived from in one step, so
 * that levels need not wait for each other.
 */
#ifndef SPC_RUNTIME_ROOT_H
#define SPC_RUNTIME_ROOT_H

#include "spc.h"

/* How a set of outputs follows from its root: by its own rule from the set of
 * its inputs, or by one rule in the place of several from a set farther up.
 * Along each axis an input i has the outputs (i + padding - dilation * place) /
 * stride, where that is whole, of all places below `kernel`; by FLOOR floor(i /
 * stride); by GENERATIVE i * stride - padding + dilation * place. What bounds
 * them is the set's own rule (spc__geometry_out_shape). */
typedef struct spc__derivation {
    const spc_coords *root;
    spc_rule rule;
    int kernel[3], stride[3], dilation[3], padding[3];
} spc__derivation;

/*
 * Finds it for a set whose inputs and rule are known; the inputs have theirs.
 *
 * floor(floor(i / a) / b) is floor(i / (a b)), whatever the sign of i. And a
 * footprint of footprints is one: from i = o s - p + r and o = q t - u + v
 * follows i = q (s t) - (p + s u) + (r + s v), where r + s v is every number
 * from 0 to k - 1 + s (l - 1), if r < k and v < l leave no gaps: k >= s, or l
 * = 1. Outputs o that the inner rule's bound leaves out can make a difference;
 * whether they do is looked at input by input, over the extent of the root.
 */
void spc__coords_find_root(spc__derivation *out, const spc_coords *coords);

#endif
