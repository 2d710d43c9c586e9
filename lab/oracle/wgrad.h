/* wgrad.h - the gradient of a layer's weights by its definition. */
#ifndef SPC_RUNTIME_WGRAD_H
#define SPC_RUNTIME_WGRAD_H

#include "lab/oracle/finish.h"
#include "lab/oracle/relation.h"

/*
 * Of x (values->in) and dy (values->residual), and of a gradient that is there
 * (values->weights) if the problem accumulates: what the result
 * [K * cin / groups, and one for a bias][cout] must be, and how far from it
 * each element may lie. `seen` is as for the oracle. Once *cancel (may
 * be NULL) is set: SPC_EINTERRUPTED.
 */
spc_status spc__wgrad_expect(double *reference, float *tolerance,
                             const spc_conv *conv, const spc__seen *seen,
                             int64_t rows, const spc__values *values,
                             int threads, const volatile int *cancel,
                             spc_error *error);

/* The same on a draw of integers, whose sums double holds exactly. */
spc_status spc__wgrad_exact(float *out, const spc_conv *conv,
                            const spc__seen *seen, int64_t rows,
                            const spc__values *values, int threads,
                            const volatile int *cancel, spc_error *error);

#endif
