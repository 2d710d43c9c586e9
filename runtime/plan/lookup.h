/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lookup.h - chooses the kernel of a layer: from the nearest record of the
 * database, or a template's default.
 */
#ifndef SPC_RUNTIME_LOOKUP_H
#define SPC_RUNTIME_LOOKUP_H

#include "context/ctx.h"

typedef struct spc__pick {
    spc__code code;
    spc_match origin;
    spc_level level;
    bool is_shipped; /* from a database that is installed with the library */
    char template_name[32];
    char config[256];
    char reason[512]; /* one sentence: which record, how far away, and why */
} spc__pick;

/*
 * Picks and loads the kernel for `conv` on a map with these rows in and out and
 * this density. The lookup order is documented at spc_plan_create. Counts the
 * pick in the context's statistics. Skips and logs records that cannot be used:
 * the current template refuses them, or their code is missing and cannot be
 * compiled.
 */
spc_status spc__lookup(spc__pick *out, spc_ctx *ctx, const spc_conv *conv,
                       int64_t rows_in, int64_t rows_out, double density,
                       unsigned flags);

/*
 * Names the default that a plan takes if the database has no record for `conv`,
 * without loading it. `rows` is the number of output rows (0: unknown). n = 0
 * is the first choice, n = 1 the one used if that does not compile, and so on.
 * Returns SPC_ENOTFOUND if there are n or fewer.
 */
spc_status spc__lookup_default(spc__pick *out, spc_ctx *ctx,
                               const spc_conv *conv, int64_t rows, int n);

#endif
