/* SPDX-License-Identifier: Apache-2.0 */
/* conv_shape.c - sizes that follow from a layer. */
#include "operators/conv_shape.h"

int spc__conv_offsets(const spc_conv *conv)
{
    return spc_geometry_offset_count(&conv->geometry);
}

int spc__conv_group_in(const spc_conv *conv)
{
    return conv->cin / conv->groups;
}

int spc__conv_group_out(const spc_conv *conv)
{
    return conv->cout / conv->groups;
}
