/* SPDX-License-Identifier: Apache-2.0 */
/*
 * feature_grad_oracle.h - gradients of operators on features by their
 * definition, in double precision; called by spc__feature_oracle.
 */
#ifndef SPC_RUNTIME_FEATURE_GRAD_ORACLE_H
#define SPC_RUNTIME_FEATURE_GRAD_ORACLE_H

#include "lab/oracle/feature_case.h"

/* Computes a gradient and the tolerance of each element. May return
 * SPC_ENOMEM. */
typedef spc_status spc__feature_gradient(double *out, double *tolerance,
                                         const spc_feature *feature,
                                         const spc__feature_case *of);

/* Gradients of the inputs: of pooling and un-pooling over a map, global
 * pooling, BEV, groupmean, affine and the normalisations. All functions add to
 * arrays of zeros. */
spc__feature_gradient spc__map_gradient, spc__global_gradient,
    spc__planes_gradient, spc__mean_gradient, spc__affine_gradient,
    spc__norm_gradient;

/* Gradients of scale and shift, and of the rows that multiply. */
spc__feature_gradient spc__affine_sums, spc__norm_sums, spc__multiply_sums;

#endif
