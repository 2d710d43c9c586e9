/* SPDX-License-Identifier: Apache-2.0 */
/* feature_shape.c - the arrays that an operator on features reads and writes:
 * their rows and elements. */
#include "operators/feature.h"

static bool is_gradient(const spc_feature *f)
{
    return f->pass != SPC_FORWARD;
}

static bool is_norm(const spc_feature *f)
{
    return f->op == SPC_FEATURE_LAYERNORM || f->op == SPC_FEATURE_GROUPNORM;
}

static bool is_global_maximum(const spc_feature *f)
{
    return f->op == SPC_FEATURE_GLOBAL && f->reduction == SPC_REDUCE_MAX;
}

/* ---- inputs -------------------------------------------------------------- */

bool spc__feature_takes_map(const spc_feature *f)
{
    return f->op == SPC_FEATURE_POOL || f->op == SPC_FEATURE_UNPOOL ||
           f->op == SPC_FEATURE_SLICE || f->op == SPC_FEATURE_UNSLICE;
}

bool spc__feature_is_by_row(const spc_feature *f)
{
    return !spc__feature_takes_map(f) && f->op != SPC_FEATURE_GLOBAL &&
           f->op != SPC_FEATURE_GROUPNORM && f->op != SPC_FEATURE_BEV;
}

bool spc__feature_takes_inverse(const spc_feature *f)
{
    if (f->op == SPC_FEATURE_UNPOOL || f->op == SPC_FEATURE_UNSLICE)
        return !is_gradient(f);
    return f->op == SPC_FEATURE_POOL && is_gradient(f) &&
           f->geometry.rule != SPC_RULE_SUBM;
}

bool spc__feature_adds(const spc_feature *f)
{
    if (is_gradient(f))
        return is_norm(f) || is_global_maximum(f) || f->pass == SPC_WGRAD;
    return f->op == SPC_FEATURE_ADD || f->op == SPC_FEATURE_ACTGRAD;
}

bool spc__feature_has_index(const spc_feature *f)
{
    return f->index && spc__feature_takes_map(f);
}

bool spc__feature_has_scale(const spc_feature *f)
{
    return f->pass != SPC_WGRAD &&
           (f->op == SPC_FEATURE_AFFINE || (f->affine && is_norm(f)));
}

bool spc__feature_has_shift(const spc_feature *f)
{
    return !is_gradient(f) && spc__feature_has_scale(f);
}

/* ---- elements ------------------------------------------------------------ */

static int64_t volume(const spc_feature *f)
{
    return (int64_t)f->channels * f->shape[0] * f->shape[1] * f->shape[2];
}

int64_t spc__feature_inputs(const spc_feature *f)
{
    if (is_gradient(f) && f->op == SPC_FEATURE_BEV)
        return 1;
    return is_gradient(f) && f->op == SPC_FEATURE_GROUPMEAN
               ? f->channels / f->by
               : f->channels;
}

int64_t spc__feature_outputs(const spc_feature *f)
{
    if (is_gradient(f))
        return f->pass == SPC_WGRAD ? 1 : f->channels;
    switch (f->op) {
    case SPC_FEATURE_GROUPSUM:
    case SPC_FEATURE_GROUPMEAN:
        return f->channels / f->by;
    case SPC_FEATURE_REPEAT:
        return (int64_t)f->channels * f->by;
    case SPC_FEATURE_SLICE:
        return (int64_t)f->channels * spc_geometry_offset_count(&f->geometry);
    case SPC_FEATURE_UNSLICE:
        return f->channels / spc_geometry_offset_count(&f->geometry);
    case SPC_FEATURE_BEV:
        return 1;
    default:
        return f->channels;
    }
}

spc_dtype spc__feature_out_dtype(const spc_feature *f)
{
    return f->pass == SPC_WGRAD ? SPC_F32 : f->dtype;
}

int64_t spc_feature_elements_in(const spc_feature *f)
{
    if (spc_feature_check(f, NULL) != SPC_OK)
        return 0;
    return is_gradient(f) && f->op == SPC_FEATURE_BEV ? volume(f)
                                                      : spc__feature_inputs(f);
}

int64_t spc_feature_elements_out(const spc_feature *f)
{
    if (spc_feature_check(f, NULL) != SPC_OK)
        return 0;
    if (f->pass == SPC_WGRAD)
        return 2 * (int64_t)f->channels;
    return !is_gradient(f) && f->op == SPC_FEATURE_BEV
               ? volume(f)
               : spc__feature_outputs(f);
}

/* ---- rows ---------------------------------------------------------------- */

/* True if the far side has one row for each batch element. */
static bool is_by_batch(const spc_feature *f)
{
    return f->op == SPC_FEATURE_GLOBAL || f->op == SPC_FEATURE_BEV;
}

int64_t spc_feature_rows_out(const spc_feature *f, int64_t rows,
                             int64_t batches)
{
    if (spc_feature_check(f, NULL) != SPC_OK)
        return 0;
    if (f->pass == SPC_WGRAD)
        return 1;
    return is_by_batch(f) && !is_gradient(f) ? batches : rows;
}

int64_t spc_feature_rows_in(const spc_feature *f, int64_t rows, int64_t batches)
{
    if (spc_feature_check(f, NULL) != SPC_OK)
        return 0;
    return is_by_batch(f) && is_gradient(f) && !is_global_maximum(f) ? batches
                                                                     : rows;
}

int64_t spc_feature_rows_add(const spc_feature *f, int64_t rows,
                             int64_t batches)
{
    if (spc_feature_check(f, NULL) != SPC_OK || !spc__feature_adds(f))
        return 0;
    return is_global_maximum(f) ? batches : rows;
}
