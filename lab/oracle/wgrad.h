/* SPDX-License-Identifier: Apache-2.0 */
/* wgrad.h - the gradient of a layer's weights by its definition. */
#ifndef SPC_RUNTIME_WGRAD_H
#define SPC_RUNTIME_WGRAD_H

#include "lab/oracle/finish.h"
#include "lab/oracle/relation.h"

/*
 * Computes the gradient from x (values->in) and dy (values->residual), added to
 * an existing gradient (values->weights) if the problem accumulates. The result
 * is [K * cin / groups, and one row for a bias][cout], with the tolerance of
 * each element. `seen` is as for the oracle. Returns SPC_EINTERRUPTED once
 * *cancel (may be NULL) is set.
 */
spc_status spc__wgrad_expect(double *reference, float *tolerance,
                             const spc_conv *conv, const spc__seen *seen,
                             int64_t rows, const spc__values *values,
                             int threads, const volatile int *cancel,
                             spc_error *error);

/* The same on a data set of integers, whose sums double holds exactly. */
spc_status spc__wgrad_exact(float *out, const spc_conv *conv,
                            const spc__seen *seen, int64_t rows,
                            const spc__values *values, int threads,
                            const volatile int *cancel, spc_error *error);

#endif
