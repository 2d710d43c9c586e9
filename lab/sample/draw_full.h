/* SPDX-License-Identifier: Apache-2.0 */
/* draw_full.h - the draw FULL: numbers of all bits, as large and as small as
 * they may be. draw.c says what of. */
#ifndef SPC_LAB_DRAW_FULL_H
#define SPC_LAB_DRAW_FULL_H

#include "base/random.h"
#include "spc.h"

/* Has the layer data of this draw? */
bool spc__full_is_for(const spc_conv *conv);

/* As the functions of draw.h that have their names; a gradient that is there is
 * zero. What is drawn may have more bits than its type. */
void spc__full_in(float *out, const spc_conv *conv, int64_t rows,
                  spc__random *random);
void spc__full_weights(float *out, const spc_conv *conv, spc__random *random);
void spc__full_bias(float *out, const spc_conv *conv, spc__random *random);
void spc__full_residual(float *out, const spc_conv *conv, int64_t rows,
                        spc__random *random);
void spc__full_pair(float *x, float *dy, const spc_conv *conv, int64_t rows_in,
                    int64_t rows_out, spc__random *random);

/* How far from a sum of one product a kernel's may be: 0 of types whose
 * products an fp32 holds. */
double spc__full_error(const spc_conv *conv, double sum);

#endif
