/* SPDX-License-Identifier: Apache-2.0 */
/* conv_table.c - the rows of convolutions. */
#include "operators/conv_table.h"

/* Words that all layers have. */
#define COMMON                                                                 \
    " dtype=f16 epilogue= slope= bias=0 out= in_pitch= out_pitch= add_pitch= " \
    "deterministic=0 pass=forward accumulate=0 accumulator="

#define RULE(name) (1u << SPC_RULE_##name)

static const spc__conv_row rows[SPC__CONVS] = {
    [SPC_SUBM] = {"subm",
                  RULE(SUBM),
                  "subm",
                  false,
                  "subm,cin=64,cout=64,k=3,dtype=f16",
                  {{"convolution", "subm",
                    "outputs at the voxels of the inputs",
                    "cin cout groups=1 k=3 dilation=1 origin= offsets=" COMMON,
                    "subm,cin=64,cout=64,k=3,dtype=f16"},
                   {"convolution", "linear",
                    "each row by itself: subm with k=1",
                    "cin cout groups=1" COMMON, "linear,cin=64,cout=128"}}},
    [SPC_CONV] =
        {"conv",
         RULE(FLOOR) | RULE(FOOTPRINT) | RULE(GIVEN) | RULE(EXPAND),
         "floor, footprint, given or expand",
         false,
         "conv,cin=32,cout=64,k=2,stride=2,rule=floor (MinkowskiEngine's), or "
         "k=3,stride=2,padding=1,rule=footprint (spconv's)",
         {{"convolution", "conv",
           "strided: outputs by rule=floor, footprint, given or expand",
           "cin cout groups=1 rule k=3 stride=1 dilation=1 padding=0 origin= "
           "shape= offsets=" COMMON,
           "conv,cin=32,cout=64,k=3,stride=2,padding=1,rule=footprint"}}},
    [SPC_INVERSE] =
        {"inverse",
         RULE(FLOOR) | RULE(FOOTPRINT) | RULE(RADIUS) | RULE(EXPAND),
         "floor, footprint, expand or radius",
         true,
         "inverse,cin=64,cout=32 and the other words of the layer that it "
         "inverts, as in k=2,stride=2,rule=floor",
         {{"convolution", "inverse",
           "a map by rule=floor, footprint or expand backwards",
           "cin cout groups=1 rule k=3 stride=1 dilation=1 padding=0 origin= "
           "shape= offsets=" COMMON,
           "inverse,cin=64,cout=32,k=3,stride=2,padding=1,rule=footprint"},
          {"convolution", "inverse",
           "a map of points, by rule=radius, backwards",
           "cin cout groups=1 rule k=3 radius nearest= voxel=" COMMON,
           "inverse,cin=64,cout=32,rule=radius,k=3,radius=0.1"}}},
    [SPC_TRANSPOSED] =
        {"transposed",
         RULE(GIVEN),
         "given",
         true,
         "transposed,cin=64,cout=32,k=2,stride=2",
         {{"convolution", "transposed",
           "outputs at the voxels of a given, finer set",
           "cin cout groups=1 k=3 stride=1 dilation=1 origin= offsets=" COMMON,
           "transposed,cin=64,cout=32,k=2,stride=2"}}},
    [SPC_GENERATIVE] =
        {"generative",
         RULE(GENERATIVE),
         "generative",
         true,
         "generative,cin=64,cout=32,k=2,stride=2",
         {{"convolution", "generative",
           "outputs at all voxels that see an input",
           "cin cout groups=1 k=3 stride=1 dilation=1 origin= shape= "
           "offsets=" COMMON,
           "generative,cin=64,cout=32,k=2,stride=2"}}},
    [SPC_POINTS] = {"points",
                    RULE(RADIUS),
                    "radius",
                    false,
                    "points,cin=64,cout=128,k=3,radius=0.1",
                    {{"convolution", "points",
                      "of points that stay where they are",
                      "cin cout groups=1 k=3 radius nearest= voxel=" COMMON,
                      "points,cin=64,cout=128,k=3,radius=0.1"}}},
};

static const spc__conv_row unknown = {.word = "?", .rules = ~0u};

const spc__conv_row *spc__conv_row_of(spc_operator op)
{
    return (unsigned)op < SPC__CONVS ? &rows[op] : &unknown;
}
