/* SPDX-License-Identifier: Apache-2.0 */
/* conv_shape.h - sizes that follow from a layer. */
#ifndef SPC_RUNTIME_CONV_SHAPE_H
#define SPC_RUNTIME_CONV_SHAPE_H

#include "spc.h"

int spc__conv_offsets(const spc_conv *conv); /* kernel volume */

/* The input and output channels of one group. */
int spc__conv_group_in(const spc_conv *conv);
int spc__conv_group_out(const spc_conv *conv);

#endif
