/* SPDX-License-Identifier: Apache-2.0 */
/*
 * conv.c - a convolution layer as a value: its rules and its attrs.
 */
#include "operators/conv.h"

#include "base/dtype.h"
#include "base/error.h"
#include "base/number.h"
#include "base/sha256.h"
#include "base/sized.h"
#include "base/text/names.h"
#include "operators/conv_table.h"
#include "operators/epilogue.h"
#include "operators/geometry.h"
#include "operators/pass.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- names --------------------------------------------------------------- */

const char *const spc__rule_names[] = {
    "subm",       "floor",  "footprint", "given",
    "generative", "radius", "expand",    NULL,
};

const char *spc_dtype_name(spc_dtype dtype)
{
    const spc__dtype *type = spc__dtype_of(dtype);

    return type != NULL ? type->name : NULL;
}

/* ---- rules --------------------------------------------------------------- */

static spc_status check_channels(const char *name, int value, spc_error *error)
{
    if (value >= 1 && value <= SPC__CHANNELS_MOST)
        return SPC_OK;
    return spc__fail(error, SPC_EINVAL, "%s=%d: expected 1 to %d channels",
                     name, value, SPC__CHANNELS_MOST);
}

/* Checks that groups divide both widths. */
static spc_status check_groups(const spc_conv *conv, spc_error *error)
{
    if (conv->groups >= 1 && conv->cin % conv->groups == 0 &&
        conv->cout % conv->groups == 0)
        return SPC_OK;
    return spc__fail(error, SPC_EINVAL,
                     "groups=%d does not divide cin=%d and cout=%d: groups are "
                     "equal parts of both, at least 1",
                     conv->groups, conv->cin, conv->cout);
}

spc_status spc__operator_check(const spc_conv *conv, spc_error *error)
{
    unsigned rule = (unsigned)conv->geometry.rule;

    /* This DGRAD has a forward layer, although no text names it directly. */
    if (conv->pass == SPC_DGRAD && rule == SPC_RULE_GENERATIVE &&
        conv->op == SPC_CONV)
        return SPC_OK;

    if ((unsigned)conv->op >= SPC__CONVS)
        return spc__fail(error, SPC_EINVAL,
                         "unknown operator %d: expected SPC_SUBM, _CONV, "
                         "_INVERSE, _TRANSPOSED, _GENERATIVE or _POINTS",
                         (int)conv->op);
    const spc__conv_row *row = spc__conv_row_of(conv->op);
    /* One bit for each rule (conv_table.h); any other number is invalid. */
    if (rule < 32 && row->rules >> rule & 1u)
        return SPC_OK;
    if (conv->op == SPC_SUBM)
        return spc__fail(error, SPC_EINVAL,
                         "rule %s: a submanifold layer has the rule subm; "
                         "other operators have the others",
                         spc__name_at(spc__rule_names, rule));
    return spc__fail(error, SPC_EINVAL, "rule %s: operator %s has the rule %s",
                     spc__name_at(spc__rule_names, rule), row->word,
                     row->rules_text);
}

/* Checks the type in which products are summed. */
static spc_status check_sums(const spc_conv *conv, spc_error *error)
{
    if (conv->accumulator == SPC_ACCUMULATOR_DEFAULT)
        return SPC_OK;
    if (conv->accumulator != SPC_ACCUMULATOR_F16)
        return spc__fail(error, SPC_EINVAL,
                         "unknown accumulator %d: expected "
                         "SPC_ACCUMULATOR_DEFAULT or SPC_ACCUMULATOR_F16",
                         (int)conv->accumulator);
    if (conv->dtype != SPC_F16)
        return spc__fail(error, SPC_EINVAL,
                         "accumulator=f16: layers of %s are summed in %s; "
                         "those of f16 may be in f16",
                         spc__name_at(spc__dtype_names, (unsigned)conv->dtype),
                         conv->dtype == SPC_I8 ? "i32" : "f32");
    if (conv->pass == SPC_WGRAD)
        return spc__fail(error, SPC_EINVAL,
                         "accumulator=f16: gradients of weights are summed in "
                         "f32");
    return SPC_OK;
}

spc_status spc_conv_check(const spc_conv *conv, spc_error *error)
{
    spc_status status = spc__need(error, __func__, "conv", conv, NULL);

    if (status != SPC_OK)
        return status;
    /* In this order, as later checks compute with what earlier ones checked. */
    if ((status = check_channels("cin", conv->cin, error)) != SPC_OK ||
        (status = check_channels("cout", conv->cout, error)) != SPC_OK ||
        (status = check_groups(conv, error)) != SPC_OK ||
        (status = spc_geometry_check(&conv->geometry, error)) != SPC_OK ||
        (status = spc__operator_check(conv, error)) != SPC_OK)
        return status;
    if (spc__dtype_of(conv->dtype) == NULL)
        return spc__fail(error, SPC_EINVAL,
                         "unknown dtype %d: expected SPC_F16, SPC_F32, "
                         "SPC_TF32, SPC_BF16 or SPC_I8",
                         (int)conv->dtype);
    if ((status = check_sums(conv, error)) != SPC_OK ||
        (status = spc__pass_check(conv, error)) != SPC_OK)
        return status;
    if ((status = spc__epilogue_check(conv, error)) != SPC_OK)
        return status;
    return SPC__CHECK_RESERVED(spc_conv, conv, error);
}

/* ---- attrs --------------------------------------------------------------- */

/* Three attrs, left out if all of them equal `otherwise`. */
typedef struct axes_attrs {
    const char *names[3];
    size_t at; /* offset of an int[3] in spc_geometry */
    int otherwise;
    bool always;
} axes_attrs;

static const axes_attrs geometry_attrs[] = {
    {{"kx", "ky", "kz"}, offsetof(spc_geometry, kernel), 0, true},
    {{"dx", "dy", "dz"}, offsetof(spc_geometry, dilation), 1, true},
    {{"sx", "sy", "sz"}, offsetof(spc_geometry, stride), 1, false},
    {{"px", "py", "pz"}, offsetof(spc_geometry, padding), 0, false},
    {{"ox", "oy", "oz"},
     offsetof(spc_geometry, origin),
     SPC_ORIGIN_AUTO,
     false},
    {{"hx", "hy", "hz"}, offsetof(spc_geometry, shape), 0, false},
};
enum { GEOMETRY_ATTRS = sizeof(geometry_attrs) / sizeof(geometry_attrs[0]) };

/* A list of offsets is identified by its digest. */
static void set_list(spc__attrs *out, const spc_geometry *g)
{
    char hex[SPC__SHA256_HEX];
    spc__sha256 hash;

    spc__sha256_init(&hash);
    spc__sha256_update(&hash, g->offsets, spc__geometry_list_bytes(g));
    spc__sha256_end(hex, &hash);
    /* Cut to the longest text of an attribute, which is still enough to tell
     * lists apart. */
    hex[SPC__ATTR_TEXT - 1] = '\0';
    spc__attrs_set_text(out, "list", hex);
}

/* Writes a length as text, with the digits that the layer's text has. */
static void set_length(spc__attrs *out, const char *name, float value)
{
    char text[24];

    spc__number_print_word(text, sizeof(text), 6, value);
    if (value != 0)
        spc__attrs_set_text(out, name, text);
}

static void set_radius(spc__attrs *out, const spc_geometry *g)
{
    set_length(out, "radius", g->radius);
    if (g->nearest > 0)
        spc__attrs_set_number(out, "nearest", g->nearest);
    set_length(out, "voxel", g->voxel);
}

/* Writes a geometry into a problem's attributes. Usual values are left out,
 * which keeps the keys of old records valid. */
static void set_geometry(spc__attrs *out, const spc_geometry *g)
{
    if (g->rule != SPC_RULE_SUBM)
        spc__attrs_set_text(out, "rule", spc__rule_names[g->rule]);
    if (g->offset_count > 0)
        set_list(out, g);
    for (int a = 0; a < GEOMETRY_ATTRS; a++) {
        const axes_attrs *row = &geometry_attrs[a];
        const int *value = (const int *)((const char *)g + row->at);
        bool differs = false;
        for (int i = 0; i < 3; i++)
            differs |= value[i] != row->otherwise;
        for (int i = 0; i < 3 && (differs || row->always); i++)
            spc__attrs_set_number(out, row->names[i], value[i]);
    }
    set_radius(out, g);
}

/* The order is part of the database's keys: op, channels, kernel, dilation,
 * then the attrs of other rules. Attrs that later versions added come last. */
void spc__conv_layer(spc__attrs *out, const spc_conv *conv)
{
    out->count = 0;
    spc__attrs_set_text(out, "op", spc__conv_row_of(conv->op)->word);
    spc__attrs_set_number(out, "cin", conv->cin);
    spc__attrs_set_number(out, "cout", conv->cout);
    /* Omits groups=1, as older records of layers lack the word. */
    if (conv->groups != 1)
        spc__attrs_set_number(out, "groups", conv->groups);
    set_geometry(out, &conv->geometry);
    spc__attrs_set_text(out, "dtype", spc__dtype_names[conv->dtype]);
    spc__attrs_set_number(out, "bias", conv->bias);
    spc__attrs_set_number(out, "deterministic", conv->deterministic);
    spc__epilogue_attrs(out, conv);
    spc__pass_attrs(out, conv);
    if (conv->accumulator == SPC_ACCUMULATOR_F16)
        spc__attrs_set_text(out, "accumulator", "f16");
}

bool spc__conv_is_inverse(const spc_conv *conv)
{
    return spc__conv_row_of(conv->op)->inverse;
}

bool spc__conv_ends_at_scene(const spc_conv *conv)
{
    return conv->op == SPC_INVERSE || conv->op == SPC_TRANSPOSED ||
           (conv->op == SPC_CONV && conv->geometry.rule == SPC_RULE_GENERATIVE);
}

bool spc__conv_has_triplets(const spc_conv *conv)
{
    return conv->geometry.rule == SPC_RULE_RADIUS;
}

bool spc_conv_is_linear(const spc_conv *conv)
{
    return conv != NULL && conv->op == SPC_SUBM && conv->pass != SPC_WGRAD &&
           spc__conv_offsets(conv) == 1 &&
           spc__geometry_centre(&conv->geometry) == 0;
}

void spc__conv_attrs(spc__attrs *out, const spc_conv *conv)
{
    spc__conv_layer(out, conv);
    spc__attrs_set_number(out, "offsets", spc__conv_offsets(conv));
    spc__attrs_set_number(out, "centre", spc__geometry_centre(&conv->geometry));
    if (spc__conv_has_triplets(conv))
        spc__attrs_set_number(out, "triplets", 1);
}

static float length_from_attrs(const spc__attrs *attrs, const char *name)
{
    double length = 0;

    spc__number_read(&length, spc__attrs_text(attrs, name, "0"));
    return (float)length;
}

/* Reads a geometry back. Attributes that are missing have their usual value. */
static void geometry_from_attrs(spc_geometry *g, const spc__attrs *attrs)
{
    int rule = spc__name_index(spc__rule_names,
                               spc__attrs_text(attrs, "rule", "subm"));

    g->rule = (spc_rule)rule; /* the check refuses -1 */
    for (int a = 0; a < GEOMETRY_ATTRS; a++) {
        const axes_attrs *row = &geometry_attrs[a];
        int *value = (int *)((char *)g + row->at);
        for (int i = 0; i < 3; i++)
            value[i] =
                (int)spc__attrs_number(attrs, row->names[i], row->otherwise);
    }
    g->radius = length_from_attrs(attrs, "radius");
    g->nearest = (int)spc__attrs_number(attrs, "nearest", 0);
    g->voxel = length_from_attrs(attrs, "voxel");
}

bool spc__conv_from_attrs(spc_conv *out, const spc__attrs *attrs)
{
    spc_conv conv = SPC_CONV_INIT;
    int op = spc__operator_find(spc__attrs_text(attrs, "op", ""));
    int dtype =
        spc__name_index(spc__dtype_names, spc__attrs_text(attrs, "dtype", ""));

    /* A digest cannot be turned back into a list. */
    if (op < 0 || dtype < 0 || spc__attrs_find(attrs, "list") != NULL ||
        !spc__epilogue_from_attrs(&conv, attrs) ||
        !spc__pass_from_attrs(&conv, attrs))
        return false;
    conv.op = (spc_operator)op;
    conv.dtype = (spc_dtype)dtype;
    conv.cin = (int)spc__attrs_number(attrs, "cin", 0);
    conv.cout = (int)spc__attrs_number(attrs, "cout", 0);
    conv.groups = (int)spc__attrs_number(attrs, "groups", 1);
    geometry_from_attrs(&conv.geometry, attrs);
    conv.bias = spc__attrs_number(attrs, "bias", 0) != 0;
    conv.deterministic = spc__attrs_number(attrs, "deterministic", 0) != 0;
    if (spc__attrs_find(attrs, "accumulator") != NULL)
        conv.accumulator = SPC_ACCUMULATOR_F16;
    *out = conv;
    /* A record is data from a file, so the layer is checked like a caller's. */
    return spc_conv_check(&conv, NULL) == SPC_OK;
}
