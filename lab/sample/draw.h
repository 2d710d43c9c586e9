/* SPDX-License-Identifier: Apache-2.0 */
/*
 * draw.h - the data that candidates are run on: two draws of integers, on which
 * a right kernel is exact, one of any numbers that is so by its zeros, and one
 * of real numbers, on which it may round.
 */
#ifndef SPC_RUNTIME_DRAW_H
#define SPC_RUNTIME_DRAW_H

#include "base/random.h"
#include "spc.h"

/* draw.c says what each is made to find. */
typedef enum spc__draw {
    SPC__COUNT, /* small integers: every product counts */
    SPC__WIDE,  /* integers with as many bits as the type multiplies exactly */
    SPC__FULL,  /* numbers of all bits; of i8, sums as large as they can be */
    SPC__REAL,  /* uniform in [-1, 1) */
    SPC__DRAWS
} spc__draw;

/* Has the layer data of this draw? */
bool spc__draw_is_for(const spc_conv *conv, spc__draw draw);

/* The scales of the layer's tensors of whole numbers (i8); of others 1. Of the
 * draws of integers they are powers of two, so that nothing is rounded but
 * results. */
void spc__draw_scales(spc_scales *out, const spc_conv *conv, spc__draw draw);

/* Values that the layer's type holds: of inputs [rows][cin], of canonical
 * weights [cout][K][cin / groups], of a bias and a scale [cout]; and of a
 * residual [rows][cout], which the type of the outputs holds. */
void spc__draw_in(float *out, const spc_conv *conv, spc__draw draw,
                  int64_t rows, spc__random *random);
void spc__draw_weights(float *out, const spc_conv *conv, spc__draw draw,
                       spc__random *random);
/* Makes zeros, of either sign, of a third of some values of COUNT; or of all
 * but a few of what an output sees (`few`), so that these may be large. Some
 * rows are all zeros. */
void spc__draw_thinned(float *values, const spc_conv *conv, int64_t rows,
                       int columns, bool few, const spc__random *random);
/* What a WGRAD reads: x [rows in][cin] and dy [rows out][cout], of which the
 * first (`wide` 0) or the second (1) has the wide values of WIDE; and a
 * gradient that is there, [rows][cout]. */
void spc__draw_pair(float *x, float *dy, const spc_conv *conv, spc__draw draw,
                    int64_t rows_in, int64_t rows_out, int wide,
                    spc__random *random);
void spc__draw_gradient(float *out, const spc_conv *conv, spc__draw draw,
                        int64_t rows, spc__random *random);
/* The weights [cout][K][cin / groups] of a DGRAD as those of its layer, whose
 * outputs are its inputs: canonical too, and mirrored where offsets are. */
void spc__layer_weights(float *out, const float *weights, const spc_conv *conv);
void spc__draw_bias(float *out, const spc_conv *conv, spc__draw draw,
                    spc__random *random);
void spc__draw_scale(float *out, const spc_conv *conv, spc__draw draw,
                     spc__random *random);
void spc__draw_residual(float *out, const spc_conv *conv, spc__draw draw,
                        int64_t rows, spc__random *random);

/* Powers of two that COUNT's inputs may be scaled by, so that they and results
 * lie at the lower end of the type, or at the upper, where the largest sum of
 * those that are not scaled is this. 0 where that would cost exactness. */
int spc__draw_tiny(const spc_conv *conv);
int spc__draw_huge(const spc_conv *conv, double largest);

/* Inputs that an output of a layer of points may see: what sums of integers are
 * made for. */
enum { SPC__POINTS_SEEN = 1024 };

#endif
