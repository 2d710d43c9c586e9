/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lookup.h - which kernel serves a layer: the record of the database that is
 * nearest to it, or a template's default.
 */
#ifndef SPC_RUNTIME_LOOKUP_H
#define SPC_RUNTIME_LOOKUP_H

#include "context/ctx.h"

typedef struct spc__pick {
    spc__code code;
    spc_origin origin;
    bool is_shipped; /* it came with the library */
    char template_name[32];
    char config[256];
    char reason[512]; /* one sentence: which record, how far, why */
} spc__pick;

/*
 * Picks and loads the kernel for `conv` on a map of so many rows in and out and
 * this density, in the order that spc_plan_create documents, and counts it in
 * the context's statistics. Records that cannot serve (their template changed
 * and now refuses them, their code is gone and cannot be made) are passed over
 * and logged.
 */
spc_status spc__lookup(spc__pick *out, spc_ctx *ctx, const spc_conv *conv,
                       int64_t rows_in, int64_t rows_out, double density,
                       unsigned flags);

/*
 * Names, without loading it, the default that a plan for so many output rows
 * (0: not known) takes where the database has nothing for `conv`: with n = 0
 * the first, with n = 1 the one it takes if that does not compile, and so on.
 * SPC_ENOTFOUND: there are not so many.
 */
spc_status spc__lookup_default(spc__pick *out, spc_ctx *ctx,
                               const spc_conv *conv, int64_t rows, int n);

#endif
