/* other_size.c - is a record of a map of another size a good word for this one?
 */
#include "other_size.h"

#include "conv.h"

static bool default_for(spc__attrs *out, spc_ctx *ctx, spc__template *tpl,
                        const spc__attrs *problem, int64_t rows)
{
    spc__attrs target = ctx->target;
    spc_error error;

    spc__attrs_set_number(&target, "rows", rows);
    return spc__template_default(out, tpl, problem, &target, &error) == SPC_OK;
}

bool spc__is_of_other_size(spc_ctx *ctx, const spc__attrs *problem,
                           const spc__choice *choice, int64_t rows)
{
    spc__attrs here = {0}, there = {0};
    double rows_in, rows_out, density;
    spc__library *library;
    spc__template *tpl;

    if (rows <= 0 || spc__ctx_library(&library, ctx) != SPC_OK)
        return false;
    tpl = spc__library_find(library, choice->trial.template_name);
    spc__conv_key_scene(&rows_in, &rows_out, &density, &choice->key);
    return tpl != NULL && default_for(&here, ctx, tpl, problem, rows) &&
           default_for(&there, ctx, tpl, problem, (int64_t)rows_out) &&
           !spc__attrs_equal(&here, &there);
}
