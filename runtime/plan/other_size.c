/* SPDX-License-Identifier: Apache-2.0 */
/* other_size.c - decides if a record of a map of another size applies. */
#include "plan/other_size.h"

#include "context/problem_key.h"
#include "operators/conv.h"

/* The template's default for a number of rows. */
static bool default_for(spc__attrs *out, spc_ctx *ctx, spc__template *tpl,
                        const spc__attrs *problem, int64_t rows)
{
    spc__attrs target = ctx->target;
    spc_error error;

    spc__attrs_set_number(&target, "rows", rows);
    return spc__template_default(out, tpl, problem, &target, &error) == SPC_OK;
}

/* True if the default for `rows` rows differs from that of a large map. */
static bool divides(spc_ctx *ctx, spc__template *tpl, const spc__attrs *problem,
                    int64_t rows)
{
    const int64_t large = 1 << 24;
    spc__attrs here = {0}, there = {0};

    return default_for(&here, ctx, tpl, problem, rows) &&
           default_for(&there, ctx, tpl, problem, large) &&
           !spc__attrs_equal(&here, &there);
}

bool spc__is_of_other_size(spc_ctx *ctx, const spc__attrs *problem,
                           const spc__choice *choice, int64_t rows)
{
    const double near = 2; /* one octave, the width of a bucket */
    double rows_in, there, density;
    spc__library *library;
    spc__template *tpl;

    spc__problem_key_scene(&rows_in, &there, &density, &choice->key);
    if (rows <= 0 ||
        (there <= near * (double)rows && (double)rows <= near * there) ||
        spc__ctx_library(&library, ctx) != SPC_OK)
        return false;
    tpl = spc__library_find(library, choice->trial.template_name);
    /* Either side may be the small one for which the template divides its work
     * differently. */
    return tpl != NULL && (divides(ctx, tpl, problem, rows) ||
                           divides(ctx, tpl, problem, (int64_t)there));
}
