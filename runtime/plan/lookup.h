/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lookup.h - chooses the kernel of a layer: from the nearest record of the
 * database, or a template's default.
 */
#ifndef SPC_RUNTIME_LOOKUP_H
#define SPC_RUNTIME_LOOKUP_H

#include "plan/pick.h"

/*
 * Picks and loads the kernel for `conv` on a map with these rows in and out and
 * this density. The lookup order is documented at spc_plan_create. Counts the
 * pick in the context's statistics. `allow` has the plan's own lists; NULL:
 * those of the context. Skips and logs records that cannot be used:
 * the current template refuses them, or their code is missing and cannot be
 * compiled.
 */
spc_status spc__lookup(spc__pick *out, spc_ctx *ctx, const spc_conv *conv,
                       int64_t rows_in, int64_t rows_out, double density,
                       unsigned flags, const spc__allow *allow);

/*
 * Names the default that a plan takes if the database has no record for `conv`,
 * without loading it. `rows` is the number of output rows (0: unknown). n = 0
 * is the first choice, n = 1 the one used if that does not compile, and so on.
 * Returns SPC_ENOTFOUND if there are n or fewer.
 */
spc_status spc__lookup_default(spc__pick *out, spc_ctx *ctx,
                               const spc_conv *conv, int64_t rows, int n);

#endif
