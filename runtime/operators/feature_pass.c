/* SPDX-License-Identifier: Apache-2.0 */
/*
 * feature_pass.c - the gradients of operators on features, as problems derived
 * from the operators.
 *
 * Some gradients are other operators and share their kernel.
 */
#include "operators/feature.h"

#include "base/error.h"
#include "operators/feature_table.h"
#include "operators/pass.h"

/* ---- from an operator ---------------------------------------------------- */

static bool is_activated(const spc_feature *f)
{
    return f->op != SPC_FEATURE_ACT && f->activation != SPC_ACT_NONE;
}

/* Checks that the operator can have a gradient. */
static spc_status check_layer(const spc_feature *f, spc_error *error)
{
    if (f->pass != SPC_FORWARD || f->op == SPC_FEATURE_ACTGRAD)
        return spc__fail(
            error, SPC_EINVAL,
            "the operator is a gradient itself: expected a forward one");
    if (is_activated(f))
        return spc__fail(error, SPC_EINVAL,
                         "the operator has an activation: in training, an "
                         "activation is an operator of its own");
    return SPC_OK;
}

/* A submanifold map is its own inverse with opposite offsets. */
bool spc__feature_is_mirrored(const spc_feature *f)
{
    return f->op == SPC_FEATURE_POOL && f->pass == SPC_DGRAD &&
           f->geometry.rule == SPC_RULE_SUBM;
}

void spc__feature_become(spc_feature *out, spc_feature_op op, int channels,
                         int by)
{
    out->op = op;
    out->pass = SPC_FORWARD;
    out->channels = channels;
    out->by = by;
}

spc_status spc_feature_pass(spc_feature *out, const spc_feature *layer,
                            spc_pass pass, spc_error *error)
{
    int16_t room[SPC__LIST_NUMBERS];
    spc_status status =
        spc__need(error, __func__, "out", out, "layer", layer, NULL);

    if (status != SPC_OK ||
        (status = spc_feature_check(layer, error)) != SPC_OK ||
        (pass != SPC_FORWARD && (status = check_layer(layer, error)) != SPC_OK))
        return status;
    /* A copy, as `out` and `layer` may be the same. */
    spc_feature made = *layer;
    made.pass = pass;
    const spc__feature_row *row = spc__feature_row_of(layer->op);
    if (pass == SPC_DGRAD && row->make_dgrad != NULL)
        row->make_dgrad(&made);
    if (spc__feature_is_mirrored(&made))
        spc__geometry_mirror(&made.geometry, room);
    if ((status = spc_feature_check(&made, error)) == SPC_OK &&
        (status = spc__geometry_keep(&made.geometry, error)) == SPC_OK)
        *out = made;
    return status;
}

/* ---- rules --------------------------------------------------------------- */

/* True for operators whose gradient is not another operator. */
static bool has_dgrad(const spc_feature *f)
{
    const spc__feature_row *row = spc__feature_row_of(f->op);

    return row->launches[SPC_DGRAD] != NULL &&
           (row->has_dgrad == NULL || row->has_dgrad(f));
}

spc_status spc__feature_check_pass(const spc_feature *f, spc_error *error)
{
    if ((unsigned)f->pass > SPC_WGRAD)
        return spc__fail(
            error, SPC_EINVAL,
            "unknown pass %d: expected SPC_FORWARD, SPC_DGRAD or SPC_WGRAD",
            (int)f->pass);
    if (f->pass == SPC_FORWARD)
        return SPC_OK;
    if (is_activated(f))
        return spc__fail(error, SPC_EINVAL,
                         "a gradient has no activation: expected act=none");
    if (f->pass == SPC_WGRAD && !spc__feature_has_params(f) &&
        !spc__feature_adds_by_batch(f))
        return spc__fail(error, SPC_EINVAL,
                         "pass=wgrad is the gradient of scale and shift, which "
                         "affine and, with affine=1, the norms have, or of "
                         "the rows that multiply reads");
    if (f->pass == SPC_DGRAD && !has_dgrad(f))
        return spc__fail(error, SPC_EINVAL,
                         "the gradient of this operator is another operator: "
                         "spc_feature_pass names it");
    return SPC_OK;
}
