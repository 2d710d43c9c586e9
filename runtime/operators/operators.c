/* SPDX-License-Identifier: Apache-2.0 */
/* operators.c - the list of all operators, for programs that show them. */
#include "spc.h"

/* Words are separated by blanks. A required word stands alone. An optional word
 * has its default, as in "word=value"; "word=" alone has no value for its
 * default. */
#define FINISH                                                                 \
    " dtype=f16 epilogue= slope= bias=0 out= in_pitch= out_pitch= add_pitch= " \
    "deterministic=0 pass=forward accumulate=0 accumulator="
#define MAPPED                                                                 \
    " rule k stride=1 dilation=1 padding=0 origin= shape= "                    \
    "offsets="
#define SUMMED " act=none slope="
#define GRADS " dtype=f16 pass=forward"

static const char convolution[] = "convolution", features[] = "features",
                  sets[] = "sets";

static const spc_operator_info operators[] = {
    {convolution, "subm", "outputs at the voxels of the inputs",
     "cin cout groups=1 k=3 dilation=1 origin= offsets=" FINISH,
     "subm,cin=64,cout=64,k=3,dtype=f16"},
    {convolution, "linear", "each row by itself: subm with k=1",
     "cin cout groups=1" FINISH, "linear,cin=64,cout=128"},
    {convolution, "conv", "strided: outputs by rule=floor, footprint or given",
     "cin cout groups=1 rule k=3 stride=1 dilation=1 padding=0 origin= "
     "shape= offsets=" FINISH,
     "conv,cin=32,cout=64,k=3,stride=2,padding=1,rule=footprint"},
    {convolution, "inverse", "a map by rule=floor or footprint backwards",
     "cin cout groups=1 rule k=3 stride=1 dilation=1 padding=0 origin= "
     "shape= offsets=" FINISH,
     "inverse,cin=64,cout=32,k=3,stride=2,padding=1,rule=footprint"},
    {convolution, "inverse", "a map of points, by rule=radius, backwards",
     "cin cout groups=1 rule k=3 radius nearest= voxel=" FINISH,
     "inverse,cin=64,cout=32,rule=radius,k=3,radius=0.1"},
    {convolution, "transposed", "outputs at the voxels of a given, finer set",
     "cin cout groups=1 k=3 stride=1 dilation=1 origin= offsets=" FINISH,
     "transposed,cin=64,cout=32,k=2,stride=2"},
    {convolution, "generative", "outputs at all voxels that see an input",
     "cin cout groups=1 k=3 stride=1 dilation=1 origin= shape= "
     "offsets=" FINISH,
     "generative,cin=64,cout=32,k=2,stride=2"},
    {convolution, "points", "of points that stay where they are",
     "cin cout groups=1 k=3 radius nearest= voxel=" FINISH,
     "points,cin=64,cout=128,k=3,radius=0.1"},
    {features, "pool=max|mean|sum",
     "by a map of rule=subm, floor, footprint or given",
     "c" MAPPED " index=0" GRADS, "pool=max,c=64,rule=floor,k=2,stride=2"},
    {features, "unpool=nearest|index", "back to the voxels that were pooled",
     "c" MAPPED GRADS, "unpool=nearest,c=64,rule=floor,k=2,stride=2"},
    {features, "pool=slices", "space to channel: an offset's input is a slice",
     "c" MAPPED GRADS, "pool=slices,c=64,rule=floor,k=2,stride=2"},
    {features, "unpool=slices", "channel to space: slices back to the voxels",
     "c" MAPPED GRADS, "unpool=slices,c=512,rule=floor,k=2,stride=2"},
    {features, "global=max|mean|sum", "over the voxels of each batch element",
     "c" GRADS, "global=mean,c=64"},
    {features, "add", "two arrays, then an activation", "c" SUMMED GRADS,
     "add,c=64,act=relu"},
    {features, "act=relu|leaky|sigmoid|silu|gelu|elu", "an activation",
     "c slope=" GRADS, "act=silu,c=64"},
    {features, "actgrad=relu|leaky|sigmoid|silu|gelu|elu",
     "the gradient of an activation", "c slope= dtype=f16",
     "actgrad=silu,c=64"},
    {features, "affine", "times a scale, plus a shift, by channel",
     "c" SUMMED GRADS, "affine,c=64,act=relu"},
    {features, "norm=layer", "by mean and variance of a row",
     "c eps=1e-5 affine=0" SUMMED GRADS, "norm=layer,c=96,eps=1e-5,affine=1"},
    {features, "norm=group", "by those of a batch element and a group",
     "c groups eps=1e-5 affine=0" SUMMED GRADS, "norm=group,c=768,groups=32"},
    {features, "groupsum", "neighbouring channels become their sum",
     "c by" GRADS, "groupsum,c=128,by=2"},
    {features, "groupmean", "neighbouring channels become their mean",
     "c by" GRADS, "groupmean,c=128,by=2"},
    {features, "repeat", "a channel becomes several equal ones", "c by" GRADS,
     "repeat,c=64,by=2"},
    {features, "bev", "dense planes: voxels of a column are channels",
     "c shape order=zyx" GRADS, "bev,c=64,shape=176x200x2,order=zyx"},
    {sets, "prune", "the rows that a mask leaves", "", "prune"},
    {sets, "union", "the voxels of several sets, each once", "", "union"},
    {sets, "scale", "voxels times `by`", "by", "scale,by=2"},
    {sets, "collapse", "all voxels along an axis become one", "axis",
     "collapse,axis=z"},
    {sets, "subdivide", "a voxel becomes its children", "by=2", "subdivide"},
    {sets, "channel2space", "the same, children have slices of its channels",
     "by=2", "channel2space,by=2"},
    {sets, "regroup", "voxels times `scale`, plus 0 to `split` - 1",
     "scale=1 split=1", "regroup,scale=2x2x1,split=2x1x1"},
};
enum { OPERATORS = sizeof(operators) / sizeof(operators[0]) };

const spc_operator_info *spc_operators(int i)
{
    return i >= 0 && i < OPERATORS ? &operators[i] : NULL;
}
