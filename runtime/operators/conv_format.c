/* SPDX-License-Identifier: Apache-2.0 */
/* conv_format.c - writes a layer as text. */
#include "operators/conv.h"

#include "base/dtype.h"
#include "base/number.h"
#include "base/text/names.h"
#include "operators/conv_table.h"
#include "operators/epilogue.h"
#include "operators/geometry.h"
#include "operators/offset_list.h"
#include "operators/pass.h"
#include <stdio.h>

/* Writes three equal axes as one number. */
static void format_axes(char out[40], const int axes[3])
{
    if (axes[0] == axes[1] && axes[0] == axes[2])
        snprintf(out, 40, "%d", axes[0]);
    else
        snprintf(out, 40, "%dx%dx%d", axes[0], axes[1], axes[2]);
}

/* Writes ",name=axes", or nothing if the axes have their default. */
static size_t format_word(char *out, size_t bytes, size_t length,
                          const char *name, const int axes[3], int otherwise)
{
    char text[40];

    if (axes[0] == otherwise && axes[1] == otherwise && axes[2] == otherwise)
        return length;
    format_axes(text, axes);
    /* Like snprintf(): the length counts text that did not fit, and nothing is
     * written past the end. */
    return length + (size_t)snprintf(out + (length < bytes ? length : bytes),
                                     length < bytes ? bytes - length : 0,
                                     ",%s=%s", name, text);
}

/* Writes ",name=length", or nothing for 0. */
static size_t format_length(char *out, size_t bytes, size_t length,
                            const char *name, float value)
{
    char text[24];

    if (value == 0)
        return length;
    spc__number_print_word(text, sizeof(text), 6, value);
    return length + (size_t)snprintf(out + (length < bytes ? length : bytes),
                                     length < bytes ? bytes - length : 0,
                                     ",%s=%s", name, text);
}

/* Writes the kernel: its list of offsets or its size. */
static size_t format_kernel(char *out, size_t bytes, size_t length,
                            const spc_geometry *g)
{
    char list[SPC__LIST_BYTES];

    if (g->offset_count == 0)
        return format_word(out, bytes, length, "k", g->kernel, 0);
    spc__list_format(list, sizeof(list), g);
    return length + (size_t)snprintf(out + (length < bytes ? length : bytes),
                                     length < bytes ? bytes - length : 0,
                                     ",offsets=%s", list);
}

/* If one axis has an explicit origin, writes the origins of all axes. */
static size_t format_origin(char *out, size_t bytes, size_t length,
                            const spc_geometry *g)
{
    bool is_own = false;
    int origin[3];

    for (int axis = 0; axis < 3; axis++) {
        is_own |= g->origin[axis] != SPC_ORIGIN_AUTO;
        origin[axis] = spc__geometry_origin(g, axis);
    }
    return is_own ? format_word(out, bytes, length, "origin", origin,
                                SPC_ORIGIN_AUTO)
                  : length;
}

/* Writes the words of a geometry. Usual values are left out. */
static int format_geometry(char *out, size_t bytes, const spc_geometry *g,
                           bool has_rules)
{
    size_t length = 0;

    if (has_rules)
        length =
            (size_t)snprintf(out, bytes, ",rule=%s",
                             spc__name_at(spc__rule_names, (unsigned)g->rule));
    length = format_kernel(out, bytes, length, g);
    length = format_word(out, bytes, length, "stride", g->stride, 1);
    length = format_word(out, bytes, length, "dilation", g->dilation, 1);
    length = format_word(out, bytes, length, "padding", g->padding, 0);
    length = format_origin(out, bytes, length, g);
    length = format_word(out, bytes, length, "shape", g->shape, 0);
    length = format_length(out, bytes, length, "radius", g->radius);
    if (g->nearest > 0)
        length += (size_t)snprintf(out + (length < bytes ? length : bytes),
                                   length < bytes ? bytes - length : 0,
                                   ",nearest=%d", g->nearest);
    length = format_length(out, bytes, length, "voxel", g->voxel);
    return (int)length;
}

int spc_conv_format(char *out, size_t bytes, const spc_conv *conv)
{
    char geometry[320 + SPC__LIST_BYTES], epilogue[160], groups[24] = "";
    int16_t room[SPC__LIST_NUMBERS];
    spc_conv layer;

    if (out == NULL)
        bytes = 0;
    if (conv == NULL || !spc__geometry_is_sound(&conv->geometry))
        return snprintf(out, bytes, "%s", "");
    spc__epilogue_format(epilogue, sizeof(epilogue), conv);
    layer = *conv;
    /* Exchanging twice gives the layer that this is the gradient of. */
    if (conv->pass == SPC_DGRAD)
        spc__conv_exchange(&layer, room);
    conv = &layer;
    if (conv->groups != 1)
        snprintf(groups, sizeof(groups), ",groups=%d", conv->groups);
    format_geometry(geometry, sizeof(geometry), &conv->geometry,
                    spc__operator_only_rule(conv->op) !=
                        (int)conv->geometry.rule);
    return snprintf(
        out, bytes, "%s,cin=%d,cout=%d%s%s,dtype=%s%s%s%s%s%s%s",
        spc__conv_row_of(conv->op)->word, conv->cin, conv->cout, groups,
        geometry, spc__name_at(spc__dtype_names, (unsigned)conv->dtype),
        epilogue, conv->deterministic ? ",deterministic=1" : "",
        conv->pass != SPC_FORWARD ? ",pass=" : "",
        conv->pass != SPC_FORWARD
            ? spc__name_at(spc__pass_names, (unsigned)conv->pass)
            : "",
        conv->accumulate ? ",accumulate=1" : "",
        conv->accumulator == SPC_ACCUMULATOR_F16 ? ",accumulator=f16" : "");
}

int spc__geometry_format(char *out, size_t bytes, const spc_geometry *geometry)
{
    return format_geometry(out, bytes, geometry,
                           geometry->rule != SPC_RULE_SUBM);
}
