/* SPDX-License-Identifier: Apache-2.0 */
/*
 * transpose.h - gradients of weights in KRSC.
 *
 * Kernels write RSCK: a matrix [taps][cout], followed by the gradient of the
 * bias. KRSC is its transpose, followed by the same bias. The template
 * "transpose" moves a gradient from one layout to the other, or the host does
 * where it also builds maps.
 */
#ifndef SPC_RUNTIME_TRANSPOSE_H
#define SPC_RUNTIME_TRANSPOSE_H

#include "context/ctx.h"
#include "templates/shared/transpose_abi.h"

#define SPC__TRANSPOSE "transpose"

/* Fills in the problem of the template. */
void spc__transpose_problem(spc__attrs *out);

/* Loads the kernel; NULL if the host transposes. `flags` as of spc__ctx_code. */
spc_status spc__transpose_load(spc__kernel **out, spc_ctx *ctx, unsigned flags);

/* Enqueues the transposition. With `pdl` it may be scheduled while the kernel
 * before it still runs. */
spc_status spc__transpose(const spc_ctx *ctx, spc__kernel *kernel,
                          const spc_transpose_args *args, bool pdl,
                          void *stream, spc_error *error);

#endif
