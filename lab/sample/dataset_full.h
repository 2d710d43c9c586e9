/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dataset_full.h - the data set FULL: numbers of all bits over the whole range.
 * dataset.c explains it.
 */
#ifndef SPC_LAB_DATASET_FULL_H
#define SPC_LAB_DATASET_FULL_H

#include "base/random.h"
#include "spc.h"

/*
 * The inputs that an output of a layer of points may see: the bound for sums of
 * integers.
 */
enum { SPC__POINTS_SEEN = 1024 };

/* True if the layer has data of this data set. */
bool spc__full_is_for(const spc_conv *conv);

/*
 * As the functions of the same names in dataset.h; an existing gradient is zero.
 * Values may have more bits than the type.
 */
void spc__full_in(float *out, const spc_conv *conv, int64_t rows,
                  spc__random *random);
void spc__full_weights(float *out, const spc_conv *conv, spc__random *random);
void spc__full_bias(float *out, const spc_conv *conv, spc__random *random);
void spc__full_residual(float *out, const spc_conv *conv, int64_t rows,
                        spc__random *random);
void spc__full_pair(float *x, float *dy, const spc_conv *conv, int64_t rows_in,
                    int64_t rows_out, spc__random *random);

/*
 * The tolerance of a sum of one product: 0 for types whose products fp32 holds.
 */
double spc__full_error(const spc_conv *conv, double sum);

#endif
