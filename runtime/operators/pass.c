/* SPDX-License-Identifier: Apache-2.0 */
/* pass.c - the gradients that a training step needs from a layer. */
#include "operators/pass.h"

#include "base/dtype.h"
#include "base/error.h"
#include "base/text/names.h"
#include "operators/conv_shape.h"
#include "operators/epilogue.h"
#include "operators/geometry.h"
#include <string.h>

const char *const spc__pass_names[] = {"forward", "dgrad", "wgrad", NULL};

/* ---- reversing ----------------------------------------------------------- */

/* Offset k becomes the opposite of offset K - 1 - k. */
static void mirror_list(spc_geometry *g, int16_t *room)
{
    for (int k = 0; k < g->offset_count; k++)
        for (int axis = 0; axis < 3; axis++)
            room[3 * k + axis] =
                (int16_t)-g->offsets[3 * (g->offset_count - 1 - k) + axis];
    g->offsets = room;
}

/* An origin equal to the rule's own is stored as SPC_ORIGIN_AUTO. */
static void mirror_box(spc_geometry *g, int axis)
{
    /* The window from origin to origin + last becomes the one from -(origin +
     * last) to -origin. */
    int last = g->dilation[axis] * (g->kernel[axis] - 1);
    int mirrored = -(spc__geometry_origin(g, axis) + last);

    g->origin[axis] = SPC_ORIGIN_AUTO;
    if (spc__geometry_origin(g, axis) != mirrored)
        g->origin[axis] = mirrored;
}

void spc__geometry_mirror(spc_geometry *g, int16_t room[SPC__LIST_NUMBERS])
{
    if (g->offset_count > 0) {
        mirror_list(g, room);
        return;
    }
    for (int axis = 0; axis < 3; axis++)
        mirror_box(g, axis);
}

/* The operator of the gradient of a layer's inputs. */
static spc_operator opposite(const spc_conv *conv)
{
    if (conv->geometry.rule == SPC_RULE_RADIUS)
        return conv->op == SPC_POINTS ? SPC_INVERSE : SPC_POINTS;
    if (conv->op != SPC_CONV)
        return conv->op == SPC_SUBM ? SPC_SUBM : SPC_CONV;
    return conv->geometry.rule == SPC_RULE_GIVEN        ? SPC_TRANSPOSED
           : conv->geometry.rule == SPC_RULE_GENERATIVE ? SPC_GENERATIVE
                                                        : SPC_INVERSE;
}

void spc__conv_exchange(spc_conv *conv, int16_t room[SPC__LIST_NUMBERS])
{
    int cin = conv->cin;

    /* Both sides of a submanifold layer are one set, so only the offsets change
     * their signs. The other operators have an inverse one. */
    if (conv->op == SPC_SUBM)
        spc__geometry_mirror(&conv->geometry, room);
    conv->op = opposite(conv);
    conv->cin = conv->cout;
    conv->cout = cin;
}

/* ---- from a layer -------------------------------------------------------- */

spc_status spc__pass_read(spc_conv *conv, spc_error *error)
{
    int16_t room[SPC__LIST_NUMBERS];
    spc_status status;

    if (conv->pass != SPC_DGRAD)
        return SPC_OK;
    /* The geometry must be valid before it can be mirrored. */
    if ((status = spc_geometry_check(&conv->geometry, error)) != SPC_OK)
        return status;
    spc__conv_exchange(conv, room);
    return spc__geometry_keep(&conv->geometry, error);
}

/* Checks that the layer has nothing but sums and a bias. */
static spc_status check_plain(const spc_conv *layer, spc_error *error)
{
    if (layer->pass != SPC_FORWARD)
        return spc__fail(
            error, SPC_EINVAL,
            "the layer is a pass=%s itself: expected a forward layer",
            spc__name_at(spc__pass_names, (unsigned)layer->pass));
    if (!spc__has_epilogue(layer) && layer->out == SPC_OUT_DEFAULT)
        return SPC_OK;
    return spc__fail(error, SPC_EINVAL,
                     "the layer has integers, another type of outputs, or an "
                     "epilogue besides its bias: in training, operations after "
                     "the sums are layers of their own");
}

spc_status spc_conv_pass(spc_conv *out, const spc_conv *layer, spc_pass pass,
                         spc_error *error)
{
    int16_t room[SPC__LIST_NUMBERS];
    spc_status status =
        spc__need(error, __func__, "out", out, "layer", layer, NULL);

    if (status != SPC_OK || (status = spc_conv_check(layer, error)) != SPC_OK)
        return status;
    if (pass != SPC_FORWARD && (status = check_plain(layer, error)) != SPC_OK)
        return status;
    spc_conv made = *layer;
    made.pass = pass;
    if (pass == SPC_DGRAD) {
        spc__conv_exchange(&made, room);
        made.bias = false;
        /* The inputs of this gradient have the layout of the layer's outputs,
         * and vice versa. */
        made.in_pitch = layer->out_pitch;
        made.out_pitch = layer->in_pitch;
    } else if (pass == SPC_WGRAD) {
        made.add_pitch = layer->out_pitch;
        made.out_pitch = 0;
        /* Gradients of weights are summed in f32 (check_sums in conv.c). */
        made.accumulator = SPC_ACCUMULATOR_DEFAULT;
    }
    if ((status = spc_conv_check(&made, error)) == SPC_OK &&
        (status = spc__geometry_keep(&made.geometry, error)) == SPC_OK)
        *out = made;
    return status;
}

/* ---- rules --------------------------------------------------------------- */

/* Refuses options that a gradient of weights cannot have. */
static spc_status check_wgrad(const spc_conv *conv, spc_error *error)
{
    if (conv->scale || conv->activation != SPC_ACT_NONE ||
        conv->add != SPC_ADD_NONE || conv->out_pitch != 0)
        return spc__fail(error, SPC_EINVAL,
                         "pass=wgrad has no out_pitch, and no epilogue except "
                         "a bias, whose gradient it computes");
    return SPC_OK;
}

spc_status spc__pass_check(const spc_conv *conv, spc_error *error)
{
    if ((unsigned)conv->pass > SPC_WGRAD)
        return spc__fail(
            error, SPC_EINVAL,
            "unknown pass %d: expected SPC_FORWARD, SPC_DGRAD or SPC_WGRAD",
            (int)conv->pass);
    if (conv->accumulate && conv->pass != SPC_WGRAD)
        return spc__fail(error, SPC_EINVAL,
                         "accumulate=1 is for pass=wgrad: other passes add "
                         "with epilogue=add");
    if (conv->pass == SPC_FORWARD)
        return SPC_OK;
    if (spc__conv_in_is_whole(conv) || spc__conv_out_is_whole(conv))
        return spc__fail(
            error, SPC_EINVAL,
            "pass=%s needs real numbers: expected f16, bf16, f32 or tf32",
            spc__pass_names[conv->pass]);
    return conv->pass == SPC_WGRAD ? check_wgrad(conv, error) : SPC_OK;
}

/* ---- attrs --------------------------------------------------------------- */

void spc__pass_attrs(spc__attrs *out, const spc_conv *conv)
{
    if (conv->pass != SPC_FORWARD)
        spc__attrs_set_text(out, "pass", spc__pass_names[conv->pass]);
    if (conv->accumulate)
        spc__attrs_set_number(out, "accumulate", 1);
}

bool spc__pass_from_attrs(spc_conv *out, const spc__attrs *attrs)
{
    int pass = spc__name_index(spc__pass_names,
                               spc__attrs_text(attrs, "pass", "forward"));

    out->pass = pass < 0 ? SPC_FORWARD : (spc_pass)pass;
    out->accumulate = spc__attrs_number(attrs, "accumulate", 0) != 0;
    return pass >= 0;
}

const char *spc__problem_role(const spc__attrs *problem)
{
    return strcmp(spc__attrs_text(problem, "pass", ""), "wgrad") == 0 ? "wgrad"
                                                                      : "conv";
}

/* ---- weights ------------------------------------------------------------- */

/* The strides of the weights of a layer in the caller's order. */
static void set_layer_strides(spc_pack_args *args, const spc_conv *conv,
                              bool rsck)
{
    long long offsets = spc__conv_offsets(conv);
    long long cin = spc__conv_group_in(conv), cout = conv->cout;

    args->stride_k = rsck ? cin * cout : cin;
    args->stride_in = rsck ? cout : 1;
    args->stride_out = rsck ? 1 : offsets * cin;
    args->stride_group = 0;
}

/* The layer has conv->cin outputs. In each group it has as many inputs as this
 * problem has outputs: KRSC [cin][K][out], RSCK [K][out][cin]. */
static void set_transposed_strides(spc_pack_args *args, const spc_conv *conv,
                                   bool rsck)
{
    long long offsets = spc__conv_offsets(conv), cin = conv->cin;
    long long in = spc__conv_group_in(conv), out = spc__conv_group_out(conv);

    args->stride_k = rsck ? out * cin : out;
    args->stride_in = rsck ? 1 : offsets * out;
    args->stride_out = rsck ? cin : 1;
    /* Packing numbers outputs through all groups and inputs within one. The
     * layer numbers outputs within one group and inputs through all groups. */
    args->stride_group = in * args->stride_in - out * args->stride_out;
}

void spc__pass_strides(spc_pack_args *args, const spc_conv *conv,
                       spc_weights_layout layout)
{
    long long last = spc__conv_offsets(conv) - 1;

    if (conv->pass != SPC_DGRAD) {
        set_layer_strides(args, conv, layout == SPC_RSCK);
        return;
    }
    set_transposed_strides(args, conv, layout == SPC_RSCK);
    if (conv->op != SPC_SUBM || args->weights == NULL)
        return;
    /* A mirrored submanifold kernel has its offsets in the opposite order, so
     * packing starts at the last one and goes backwards. */
    args->weights =
        (const char *)args->weights +
        last * args->stride_k * (long long)spc__dtype_of(conv->dtype)->bytes;
    args->stride_k = -args->stride_k;
}
