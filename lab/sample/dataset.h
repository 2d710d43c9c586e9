/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dataset.h - test data for candidates: two data sets of integers, on which a
 * correct kernel is exact; one of arbitrary numbers, where zeros make it exact;
 * and one of real numbers, on which it may round.
 */
#ifndef SPC_LAB_DATASET_H
#define SPC_LAB_DATASET_H

#include "base/random.h"
#include "lab/sample/dataset_full.h"
#include "spc.h"
#include "spc/lab.h"

/* dataset.c explains the purpose of each. */
typedef enum spc__dataset {
    SPC__COUNT, /* small integers: every product changes the sum */
    SPC__WIDE,  /* integers with as many bits as the type multiplies exactly */
    SPC__FULL,  /* numbers with all bits; for i8, the largest sums */
    SPC__REAL,  /* uniform in [-1, 1) */
    SPC__DATASETS
} spc__dataset;

/* True if the layer has data of this data set. */
bool spc__dataset_is_for(const spc_conv *conv, spc__dataset dataset);

/*
 * The scales of the layer's tensors of whole numbers (i8); 1 for other types.
 * For the data sets of integers they are powers of two, so that only results
 * are rounded.
 */
void spc__draw_scales(spc_scales *out, const spc_conv *conv,
                      spc__dataset dataset);

/*
 * Generates values that the layer's type holds: inputs [rows][cin], canonical
 * weights [cout][K][cin / groups], bias and scale [cout]; and a residual
 * [rows][cout] in the type of the outputs.
 */
void spc__draw_in(float *out, const spc_conv *conv, spc__dataset dataset,
                  int64_t rows, spc__random *random);
void spc__draw_weights(float *out, const spc_conv *conv, spc__dataset dataset,
                       spc__random *random);
/*
 * Makes a third of some values of COUNT zero, of either sign; or (`few`) all
 * but a few of the values that an output sees, so that the rest may be large.
 * Some rows are all zeros.
 */
void spc__draw_thinned(float *values, const spc_conv *conv, int64_t rows,
                       int columns, bool few, const spc__random *random);
/*
 * Draws the operands of a WGRAD: x [rows in][cin] and dy [rows out][cout]; the
 * first (`wide` 0) or the second (1) has the wide values of WIDE. Also
 * generates an existing gradient, [rows][cout].
 */
void spc__draw_pair(float *x, float *dy, const spc_conv *conv,
                    spc__dataset dataset, int64_t rows_in, int64_t rows_out,
                    int wide, spc__random *random);
void spc__draw_gradient(float *out, const spc_conv *conv, spc__dataset dataset,
                        int64_t rows, spc__random *random);
/*
 * Turns the weights [cout][K][cin / groups] of a DGRAD into those of its layer,
 * whose outputs are the gradient's inputs: in canonical order, and mirrored if
 * the offsets are.
 */
void spc__layer_weights(float *out, const float *weights, const spc_conv *conv);
void spc__draw_bias(float *out, const spc_conv *conv, spc__dataset dataset,
                    spc__random *random);
void spc__draw_scale(float *out, const spc_conv *conv, spc__dataset dataset,
                     spc__random *random);
void spc__draw_residual(float *out, const spc_conv *conv, spc__dataset dataset,
                        int64_t rows, spc__random *random);

/*
 * Powers of two by which COUNT's inputs may be scaled, so that they and the
 * results lie at the lower end of the type, or at the upper end, if the largest
 * unscaled sum is `largest`. 0 if scaling would cost exactness.
 */
int spc__draw_tiny(const spc_conv *conv);
int spc__draw_huge(const spc_conv *conv, double largest);

#endif
