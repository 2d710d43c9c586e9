/* SPDX-License-Identifier: Apache-2.0 */
/* operators.c - the list of all operators, for programs that show them. */
#include "operators/conv_table.h"
#include "operators/feature_table.h"
#include "spc.h"

static const char sets[] = "sets";

static const spc_operator_info regroupings[] = {
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
enum { REGROUPINGS = sizeof(regroupings) / sizeof(regroupings[0]) };

/* Returns listing `i` of convolutions; if there are fewer, reduces *i by their
 * number. */
static const spc_operator_info *convolution(int *i)
{
    for (int op = 0; op < SPC__CONVS; op++)
        for (int j = 0; j < 2; j++)
            if (spc__conv_row_of((spc_operator)op)->info[j].name != NULL &&
                (*i)-- == 0)
                return &spc__conv_row_of((spc_operator)op)->info[j];
    return NULL;
}

const spc_operator_info *spc_operators(int i)
{
    const spc_operator_info *found = i >= 0 ? convolution(&i) : NULL;

    if (found != NULL || i < 0)
        return found;
    if (i < SPC__FEATURES)
        return &spc__feature_listed(i)->info;
    i -= SPC__FEATURES;
    return i < REGROUPINGS ? &regroupings[i] : NULL;
}
