/* SPDX-License-Identifier: Apache-2.0 */
/*
 * matrix.c - the tables of `spctune verify --all`.
 *
 * Layers are the product of geometries, channels and types; epilogues, slices
 * and `deterministic` cycle through these, since their code is independent of
 * the geometry.
 */
#include "command/verify/matrix.h"

#include <stdio.h>
#include <string.h>

#define LENGTH(a) ((int)(sizeof(a) / sizeof((a)[0])))

/* ---- layers -------------------------------------------------------------- */

/*
 * Kernels of 1 to 343 offsets: even, flat, longer on one axis; each operator
 * and rule, strides that differ by axis.
 */
static const struct {
    const char *operator, * words;
} geometries[] = {
    {"linear", ""},
    {"subm", ",k=2"},
    {"subm", ",k=3"},
    {"subm", ",k=4"},
    {"subm", ",k=5"},
    {"subm", ",k=7"},
    {"subm", ",k=3x3x1"},
    {"subm", ",k=6x2x1"},
    {"subm", ",k=3,dilation=2"},
    {"subm", ",offsets=0x0x0+1x0x0+-1x0x0+0x2x0+0x-1x1+3x-2x0"},
    {"conv", ",k=2,stride=2,rule=floor"},
    {"conv", ",k=3,stride=2,rule=floor"},
    {"conv", ",k=3x5x1,stride=2x2x1,rule=floor"},
    {"conv", ",k=3,padding=1,rule=footprint"},
    {"conv", ",k=3,stride=2,padding=1,rule=footprint"},
    {"conv", ",k=3x1x1,stride=2x1x1,rule=footprint"},
    {"conv", ",k=3,stride=2,padding=1,rule=footprint,shape=19x16x13"},
    {"conv", ",offsets=0x0x0+2x0x-1+-1x3x0+0x1x1,stride=2x1x2,rule=footprint"},
    {"conv", ",offsets=1x0x0+-2x1x0+0x0x3,rule=footprint,shape=19x16x13"},
    {"conv", ",k=3,stride=2,rule=given"},
    {"conv", ",k=3x3x1,rule=given"},
    {"conv", ",offsets=1x0x1+-2x1x0+0x0x0,stride=2,rule=floor"},
    {"conv", ",k=3,stride=2,rule=expand"},
    {"conv", ",offsets=1x0x1+-2x1x0+0x0x0,stride=2x3x1,rule=expand"},
    {"inverse", ",k=3x2x1,stride=2x1x3,rule=expand"},
    {"inverse", ",k=2,stride=2,rule=floor"},
    {"inverse", ",k=3,stride=2,padding=1,rule=footprint"},
    {"inverse", ",k=5x4x3,stride=3x2x1,padding=2x3x1,rule=footprint"},
    {"transposed", ",k=2,stride=2"},
    {"transposed", ",k=3,stride=2"},
    {"generative", ",k=2,stride=2"},
    {"generative", ",k=3"},
    {"generative", ",k=4,stride=2"},
    {"generative", ",k=3,stride=2,origin=-1,shape=15x11x13"},
    {"generative", ",offsets=0x0x0+1x-1x0+0x2x1+-3x0x0,stride=2x1x3"},
    {"inverse", ",offsets=0x0x0+1x0x1+-1x0x2,stride=2,rule=footprint"},
    {"points", ",k=3,radius=0.0025"},
    {"points", ",k=5x3x1,radius=0.003,voxel=0.002"},
    {"points", ",k=3,radius=0.003,nearest=9"},
    {"inverse", ",k=3,rule=radius,radius=0.0025,voxel=0.0025"},
};

/* Layers with few and odd channels, with those of real networks, with groups,
 * and depthwise ones. */
static const struct {
    int in, out, groups;
} channels[] = {
    {1, 8, 1},     {2, 16, 1},   {3, 18, 1},   {4, 32, 1},   {5, 7, 1},
    {8, 8, 1},     {16, 32, 1},  {18, 20, 1},  {24, 40, 1},  {32, 32, 1},
    {36, 1, 1},    {64, 64, 1},  {64, 128, 1}, {81, 163, 1}, {128, 64, 1},
    {128, 128, 1}, {256, 96, 1}, {24, 24, 24}, {37, 37, 37}, {64, 64, 64},
    {12, 24, 4},   {64, 128, 2}, {16, 48, 16}, {15, 21, 3},
};

/*
 * Gradients exist for types of real numbers. `pitch`: extra elements between
 * the rows of inputs and outputs.
 */
static const struct {
    const char *words;
    int pitch;
} finishes[] = {
    {"", 0},
    {",epilogue=scale+bias+relu", 0},
    {",bias=1", 3},
    {",deterministic=1", 0},
    {",epilogue=scale+bias+relu+add", 0},
    {"", 8},
    {",epilogue=bias+leaky,slope=0.25", 0},
    {",epilogue=add+gelu,out=f32", 0},
    {",epilogue=bias+sigmoid,deterministic=1", 0},
    {",epilogue=silu+add", 8},
    {",epilogue=scale+elu", 0},
    {",pass=dgrad", 0},
    {",pass=wgrad,bias=1", 0},
    {",pass=dgrad,epilogue=add", 8},
    {",pass=wgrad,out=f32,accumulate=1", 0},
    {",accumulator=f16", 0},
    {",accumulator=f16,epilogue=scale+bias+silu+add", 8},
};

/* Counts the types by their names, so that a new type is automatically part of
 * the matrix. */
static int type_count(void)
{
    int count = 0;

    while (spc_dtype_name((spc_dtype)count) != NULL)
        count++;
    return count;
}

/* Writes layer i: its number in the mixed base of types, channels and
 * geometries. */
static void write_layer(char *out, size_t bytes, int i)
{
    int t = i % type_count(), c = i / type_count() % LENGTH(channels);
    int g = i / type_count() / LENGTH(channels);
    /* Uses different steps in each direction, so that neighbours have different
     * epilogues. */
    int f = (g + 2 * c + 5 * t) % LENGTH(finishes);

    if ((t != SPC_F16 && strstr(finishes[f].words, "accumulator=") != NULL) ||
        (t == SPC_I8 && strstr(finishes[f].words, "pass=") != NULL))
        f = 0;
    int length =
        snprintf(out, bytes, "%s,cin=%d,cout=%d,groups=%d%s,dtype=%s%s",
                 geometries[g].operator, channels[c].in, channels[c].out,
                 channels[c].groups, geometries[g].words,
                 spc_dtype_name((spc_dtype)t), finishes[f].words);

    /* A gradient of inputs reads what the layer writes. */
    bool is_dgrad = strstr(finishes[f].words, "pass=dgrad") != NULL;
    int in = is_dgrad ? channels[c].out : channels[c].in;
    int result = is_dgrad ? channels[c].in : channels[c].out;
    if (finishes[f].pitch > 0)
        snprintf(out + length, bytes - (size_t)length,
                 ",in_pitch=%d,out_pitch=%d", in + finishes[f].pitch,
                 result + finishes[f].pitch);
}

/* ---- operators on features ----------------------------------------------- */

/* %d is a divisor of the channels. */
static const char *const features[] = {
    "pool=max,rule=floor,k=2,stride=2,index=1",
    "pool=max,rule=subm,k=3",
    "pool=mean,rule=footprint,k=3x3x1,stride=2x2x1,padding=1x1x0",
    "pool=sum,rule=floor,k=3,stride=2",
    "unpool=nearest,rule=floor,k=2,stride=2",
    "unpool=index,rule=footprint,k=3,stride=2,padding=1",
    "unpool=index,rule=subm,k=3x1x2",
    "pool=slices,rule=floor,k=2,stride=2",
    "pool=slices,rule=footprint,k=3x2x1,stride=2,padding=1",
    "pool=slices,rule=floor,k=2x1x3,stride=2,pass=dgrad",
    "pool=slices,rule=subm,k=3x1x2,pass=dgrad",
    "global=max",
    "global=mean",
    "global=sum",
    "add",
    "add,act=leaky,slope=0.25",
    "act=relu",
    "act=sigmoid",
    "act=silu",
    "act=gelu",
    "act=elu",
    "multiply",
    "actgrad=relu",
    "actgrad=leaky,slope=0.25",
    "actgrad=sigmoid",
    "actgrad=silu",
    "actgrad=gelu",
    "actgrad=elu",
    "norm=layer,eps=1e-3,affine=1",
    "norm=layer,act=gelu",
    "norm=group,groups=%d,affine=1",
    "norm=group,groups=%d,act=silu",
    "groupsum,by=%d",
    "groupmean,by=%d",
    "repeat,by=3",
    "bev,shape=9x7x3,order=zyx",
    "bev,shape=7x10x2,order=xyz",
    "bev,shape=7x10x2,order=volume",
    "affine,act=relu",
    "affine,pass=dgrad",
    "affine,pass=wgrad",
    "pool=sum,rule=footprint,k=3,stride=2,padding=1,pass=dgrad",
    "pool=sum,rule=subm,k=3x2x1,pass=dgrad",
    "pool=mean,rule=floor,k=3,stride=2,pass=dgrad",
    "unpool=nearest,rule=footprint,k=3,stride=2,padding=1,pass=dgrad",
    "unpool=index,rule=floor,k=2,stride=2,pass=dgrad",
    "global=max,pass=dgrad",
    "global=mean,pass=dgrad",
    "global=sum,pass=dgrad",
    "norm=layer,eps=1e-3,affine=1,pass=dgrad",
    "norm=layer,eps=1e-3,affine=1,pass=wgrad",
    "norm=group,groups=%d,eps=1e-3,affine=1,pass=dgrad",
    "norm=group,groups=%d,eps=1e-3,affine=1,pass=wgrad",
    "groupmean,by=%d,pass=dgrad",
    "multiply,pass=wgrad",
    "bev,shape=9x7x3,order=zyx,pass=dgrad",
    "bev,shape=7x10x2,order=xyz,pass=dgrad",
    "bev,shape=7x10x2,order=volume,pass=dgrad",
};

static const struct {
    int count, divisor;
} feature_channels[] = {{1, 1}, {3, 3}, {20, 4}, {64, 8}, {163, 163}, {256, 2}};

static void write_feature(char *out, size_t bytes, int i)
{
    int t = i % type_count(), c = i / type_count() % LENGTH(feature_channels);
    int f = i / type_count() / LENGTH(feature_channels);
    char words[120];

    /* Words without %d ignore the divisor. */
    snprintf(words, sizeof(words), features[f], feature_channels[c].divisor);
    snprintf(out, bytes, "%s,c=%d,dtype=%s", words, feature_channels[c].count,
             spc_dtype_name((spc_dtype)t));
}

/* ---- sets ---------------------------------------------------------------- */

static const char *const sets[] = {
    "prune",
    "union",
    "scale,by=2",
    "scale,by=3x1x2",
    "collapse,axis=x",
    "collapse,axis=y",
    "collapse,axis=z",
    "subdivide",
    "channel2space,by=2x3x1",
    "channel2space,by=4",
    "regroup,scale=1,split=2x1x2",
    "regroup,scale=0x2x1,split=1x2x3",
};

/* ---- rows ---------------------------------------------------------------- */

int matrix_rows(matrix_kind kind)
{
    int layers = LENGTH(geometries) * LENGTH(channels) * type_count();
    int operators = LENGTH(features) * LENGTH(feature_channels) * type_count();

    return kind == MATRIX_LAYERS     ? layers
           : kind == MATRIX_FEATURES ? operators
                                     : LENGTH(sets);
}

/* The rows of a cell are this many rows apart: the number of types. */
static int cell_rows(matrix_kind kind)
{
    return kind == MATRIX_LAYERS     ? LENGTH(channels)
           : kind == MATRIX_FEATURES ? LENGTH(feature_channels)
                                     : 1;
}

int matrix_cells(matrix_kind kind)
{
    return matrix_rows(kind) / cell_rows(kind);
}

/* The stride has no common divisor with the rows of a cell. */
int matrix_cell_row(matrix_kind kind, int cell, int n)
{
    int rows = cell_rows(kind), types = kind == MATRIX_SETS ? 1 : type_count();
    int stride = kind == MATRIX_LAYERS ? 7 : 1;
    int channel = (cell * 7 + n * stride) % rows;

    return n >= rows ? -1
                     : (cell / types * rows + channel) * types + cell % types;
}

bool matrix_row(char *out, size_t bytes, matrix_kind kind, int i,
                spc_error *error)
{
    spc_regrouping set;
    spc_feature feature;
    spc_conv layer;

    switch (kind) {
    case MATRIX_LAYERS:
        write_layer(out, bytes, i);
        if (spc_conv_parse(&layer, out, error) != SPC_OK)
            return false;
        spc_conv_format(out, bytes, &layer);
        return true;
    case MATRIX_FEATURES:
        write_feature(out, bytes, i);
        return spc_feature_parse(&feature, out, error) == SPC_OK;
    default:
        snprintf(out, bytes, "%s", sets[i]);
        return spc_regrouping_parse(&set, out, error) == SPC_OK;
    }
}

/* ---- sizes --------------------------------------------------------------- */

/*
 * Scenes with one row less and one row more than multiples of warps and tiles;
 * nearly full, nearly empty; with one batch element and three; with keys of 64
 * bits. Each check adds its own scenes with no row, one row, and all corners
 * and borders.
 */
static const char *const scenes[] = {
    "gen:uniform,n=2,extent=2",          "gen:uniform,n=31,extent=4",
    "gen:uniform,n=32,extent=5",         "gen:uniform,n=11,extent=4,batch=3",
    "gen:uniform,n=127,extent=6",        "gen:uniform,n=128,extent=13",
    "gen:uniform,n=43,extent=5,batch=3", "gen:shell,r=8",
    "gen:uniform,n=500,extent=10",       "gen:uniform,n=33,extent=90000",
};
enum { WIDE = LENGTH(scenes) - 1 };

const char *matrix_scene(int i)
{
    return i >= 0 && i < LENGTH(scenes) ? scenes[i] : NULL;
}

bool matrix_fits(const char *row, int s)
{
    return s != WIDE || strstr(row, "shape=") == NULL;
}
