/* SPDX-License-Identifier: Apache-2.0 */
/*
 * panels.h - a convolution by its definition, with output channels in panels as
 * wide as a processor's registers.
 *
 * A group's channels fill panels of `lanes`; the last may be shorter.
 */
#ifndef SPC_PANELS_H
#define SPC_PANELS_H

#include "lab/oracle/seen.h"
#include "operators/conv.h"
#include "operators/epilogue.h"

typedef struct spc__panels {
    const spc__seen *seen;
    int64_t rows;
    const float *in, *weights, *bias; /* weights KRSC; bias or NULL */
    const volatile int *cancel;
    int row_in;    /* floats of an input row */
    int cin, cout; /* input channels of a group; output channels of all
                    * groups */
    int group_out, group_panels;
    int offsets, panels, lanes;
} spc__panels;

static inline spc__panels spc__panels_of(const spc_conv *conv, int lanes)
{
    spc__panels p = {
        .row_in = conv->cin,
        .cin = spc__conv_group_in(conv),
        .cout = conv->cout,
        .group_out = spc__conv_group_out(conv),
        .offsets = spc__conv_offsets(conv),
        .lanes = lanes,
    };

    p.group_panels = (p.group_out + lanes - 1) / lanes;
    p.panels = conv->groups * p.group_panels;
    return p;
}

/* Operands of the sum; includes the bias only if the sum begins with it. */
static inline void spc__panels_read(spc__panels *p, const spc_conv *conv,
                                    const spc__seen *seen, int64_t rows,
                                    const float *in, const float *weights,
                                    const float *bias)
{
    p->seen = seen;
    p->rows = rows;
    p->in = in;
    p->weights = weights;
    p->bias = spc__bias_is_in_sum(conv) ? bias : NULL;
}

/* Weights of all panels, [K][panels][cin][lanes]. */
static inline size_t spc__panels_weights(const spc__panels *p)
{
    return (size_t)p->offsets * (size_t)p->panels * (size_t)p->cin *
           (size_t)p->lanes;
}

static inline int64_t spc__panel_at(const spc__panels *p, int64_t k, int panel)
{
    return (k * p->panels + panel) * p->cin * p->lanes;
}

/* Returns the first channel of a panel. */
static inline int spc__panel_first(const spc__panels *p, int panel)
{
    return panel / p->group_panels * p->group_out +
           panel % p->group_panels * p->lanes;
}

static inline int spc__panel_lanes(const spc__panels *p, int panel)
{
    int left = p->group_out - panel % p->group_panels * p->lanes;
    return left < p->lanes ? left : p->lanes;
}

/* Returns the inputs of a row that output channel `co` sees. */
static inline const float *spc__panel_in(const spc__panels *p, int64_t row,
                                         int64_t co)
{
    return p->in + row * p->row_in + co / p->group_out * p->cin;
}

/* A weight in its panel; 0 in lanes beyond the channels. */
static inline float spc__panel_weight(const spc__panels *p, int64_t k,
                                      int panel, int ci, int lane)
{
    int64_t co = spc__panel_first(p, panel) + lane;

    return lane < spc__panel_lanes(p, panel)
               ? p->weights[(co * p->offsets + k) * p->cin + ci]
               : 0;
}

/* Returns the cell of the kernel whose weights apply to slot `s` of a row. */
static inline int64_t spc__panel_cell(const spc__panels *p, int64_t s,
                                      int64_t row)
{
    return p->seen->cells ? p->seen->cells[s * p->rows + row] : s;
}

#endif
