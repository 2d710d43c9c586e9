/* SPDX-License-Identifier: Apache-2.0 */
/* odd.h - operands that are infinite, or no number, and what must come of them.
 */
#ifndef SPC_LAB_ODD_H
#define SPC_LAB_ODD_H

#include "lab/oracle/relation.h"

/*
 * What is put into the operands of the draw COUNT, each apart from the others.
 *
 * Sums are those of IEEE 754: what sees an infinity is infinite, or no number
 * where another of the other sign, or a weight of zero, meets it. A kernel may
 * make no number of an infinity: one that splits a number into parts, or pads
 * with zeros, does. It must not make a number of either.
 */
typedef enum spc__odd {
    SPC__ODD_INPUTS,   /* whole rows of inputs are no numbers */
    SPC__ODD_INFINITE, /* some inputs are infinite */
    SPC__ODD_OTHERS,   /* one weight, bias, scale, and residuals: no numbers */
    SPC__ODDS
} spc__odd;

/* What an element of the result must be then. */
enum {
    SPC__ODD_RIGHT,         /* what it is without */
    SPC__ODD_RIGHT_OR_NONE, /* that or no number: it does not see the weight,
                               but may be multiplied by it as by zero */
    SPC__ODD_NONE,          /* no number */
    SPC__ODD_PLUS,          /* infinite, or no number */
    SPC__ODD_MINUS,
    SPC__ODD_ANY /* an activation may make a number of what is none */
};

/* Has the layer such operands? Whole numbers are all numbers, and a gradient of
 * weights sees every row. */
bool spc__odd_is_for(const spc_conv *conv);

/* Is input `row` of so many one that becomes no number? The first and the last,
 * at which indices are clamped, and one here and there. */
bool spc__odd_marks(int64_t row, int64_t rows);

/* The value of element (row, column) of inputs where some are infinite; 0: it
 * is as it was. One column of a marked row, or all where each output sees only
 * some. */
float spc__odd_infinite(const spc_conv *conv, int64_t row, int64_t rows,
                        int column);

/* Of OTHERS: where the weight is in canonical weights (-1: none is changed),
 * the channels of bias and scale, and whether a residual is no number. */
int64_t spc__odd_weight(const spc_conv *conv);
int spc__odd_bias(const spc_conv *conv);
int spc__odd_scale(const spc_conv *conv);
bool spc__odd_residual(const spc_conv *conv, int64_t row, int column);

/* Fills [rows out][cout] with what must be. `weights` are those of the draw. */
void spc__odd_expect(unsigned char *out, const spc_conv *conv, spc__odd odd,
                     const spc_relation *relation, const float *weights,
                     const float *scale);

#endif
