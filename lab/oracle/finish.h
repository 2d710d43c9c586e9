/* SPDX-License-Identifier: Apache-2.0 */
/* finish.h - the value of an epilogue, and its error bound. */
#ifndef SPC_RUNTIME_FINISH_H
#define SPC_RUNTIME_FINISH_H

#include "spc.h"
#include "spc/lab.h"

/*
 * The operands of a layer as floats, without gaps between rows; NULL for
 * operands that the layer does not have. Tensors of i8 hold their whole
 * numbers.
 */
typedef struct spc__values {
    const float *in, *weights, *bias, *scale, *residual;
    spc_scales scales;
} spc__values;

/* A number, and the error bound of a kernel's result. */
typedef struct spc__bounded {
    double value, error;
} spc__bounded;

/*
 * True if the epilogue is exact on the data sets of integers. There is then one
 * correct result.
 */
bool spc__epilogue_is_exact(const spc_conv *conv);

/*
 * Applies the epilogue to a sum, before it is stored: for i8 in units of its
 * scale, saturated, not yet rounded. The sum includes the bias if
 * spc__bias_is_in_sum. `at` is the element's index in the residual.
 */
spc__bounded spc__finish(const spc_conv *conv, spc__bounded sum,
                         const spc__values *values, int channel, int64_t at);

/* Returns the error of a number after it is stored in the type of the
 * outputs. */
double spc__stored_error(const spc_conv *conv, spc__bounded number);

/*
 * Returns the largest difference of two correct stored results: 0 if the number
 * has no error.
 */
double spc__stored_slack(const spc_conv *conv, spc__bounded number);

#endif
