/* SPDX-License-Identifier: Apache-2.0 */
/* odd.h - operands that are infinite or NaN, and the expected results. */
#ifndef SPC_LAB_ODD_H
#define SPC_LAB_ODD_H

#include "lab/oracle/relation.h"

/*
 * Values put into the operands of the data set COUNT, each kind in a separate
 * launch.
 *
 * Sums follow IEEE 754: an output that sees an infinity is infinite, or NaN if
 * it also meets an infinity of the other sign or a weight of zero. A kernel may
 * turn an infinity into NaN, as one that splits a number into parts or pads
 * with zeros does. It must not turn either into a finite number.
 */
typedef enum spc__odd {
    SPC__ODD_INPUTS,   /* whole rows of inputs are NaN */
    SPC__ODD_INFINITE, /* some inputs are infinite */
    SPC__ODD_OTHERS,   /* one weight, bias, scale, and residuals are NaN */
    SPC__ODDS
} spc__odd;

/* The expectation for an element. */
enum {
    SPC__ODD_RIGHT,         /* the same value as without such operands */
    SPC__ODD_RIGHT_OR_NONE, /* the same value or NaN: the output does not see
                             * the weight, but a kernel may multiply the weight
                             * by zero */
    SPC__ODD_NONE,          /* NaN */
    SPC__ODD_PLUS,          /* infinite, or NaN */
    SPC__ODD_MINUS,
    SPC__ODD_ANY /* an activation may turn NaN into a number */
};

/*
 * True if the layer can be tested with such operands. Whole numbers have no
 * NaN, and a gradient of weights sees every row.
 */
bool spc__odd_is_for(const spc_conv *conv);

/*
 * True if input `row` of `rows` becomes NaN: the first and the last, at which
 * indices are clamped, and some between.
 */
bool spc__odd_marks(int64_t row, int64_t rows);

/*
 * Returns the infinity for element (row, column) of the inputs, or 0 to leave
 * it unchanged. Changes one column of a marked row, or all columns if each
 * output sees only some.
 */
float spc__odd_infinite(const spc_conv *conv, int64_t row, int64_t rows,
                        int column);

/*
 * For OTHERS: the index of the weight in canonical weights (-1: none is
 * changed), the channels of bias and scale, and whether a residual is NaN.
 */
int64_t spc__odd_weight(const spc_conv *conv);
int spc__odd_bias(const spc_conv *conv);
int spc__odd_scale(const spc_conv *conv);
bool spc__odd_residual(const spc_conv *conv, int64_t row, int column);

/*
 * Fills [rows out][cout] with the expected values. `weights` are those of the
 * data set.
 */
void spc__odd_expect(unsigned char *out, const spc_conv *conv, spc__odd odd,
                     const spc_relation *relation, const float *weights,
                     const float *scale);

#endif
