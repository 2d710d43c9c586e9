/*
 * finish.h - what an epilogue makes of a sum: its value, and how far from it
 * rounding may lead.
 */
#ifndef SPC_RUNTIME_FINISH_H
#define SPC_RUNTIME_FINISH_H

#include "spc.h"

/* The operands of a layer as floats, without gaps between rows; NULL for what
 * it has not. Tensors of i8 are the whole numbers that they hold. */
typedef struct spc__values {
    const float *in, *weights, *bias, *scale, *residual;
    spc_scales scales;
} spc__values;

/* A number, and how far a kernel's may be from it. */
typedef struct spc__bounded {
    double value, error;
} spc__bounded;

/* Is the epilogue free of rounding wherever the draws of integers are? Then
 * there is one right result. */
bool spc__epilogue_is_exact(const spc_conv *conv);

/* The epilogue behind a sum, before it is stored: of i8 in units of its scale,
 * saturated, and not rounded yet. The sum has the bias in it where
 * spc__bias_is_in_sum says so. `at` is the element's place in the residual. */
spc__bounded spc__finish(const spc_conv *conv, spc__bounded sum,
                         const spc__values *values, int channel, int64_t at);

/* The error of a number that is stored in the type of the outputs. */
double spc__stored_error(const spc_conv *conv, spc__bounded number);

/* How far apart two right results may be that are stored: 0 where the number
 * has no error. */
double spc__stored_slack(const spc_conv *conv, spc__bounded number);

#endif
