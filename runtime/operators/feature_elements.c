/* SPDX-License-Identifier: Apache-2.0 */
/* feature_elements.c - operators on single elements: addition, activations,
 * scale and shift. */
#include "operators/feature_table.h"
#include "operators/feature_launch.h"

#include "base/error.h"
#include "operators/epilogue.h"
#include "operators/feature.h"

/* Refuses "none", with which the operator would only copy. */
static spc_status check_activation(const spc_feature *f, spc_error *error)
{
    if (f->activation != SPC_ACT_NONE)
        return SPC_OK;
    return spc__fail(error, SPC_EINVAL,
                     "%s=none does nothing: expected relu, leaky, sigmoid, "
                     "silu, gelu or elu",
                     spc__feature_row_of(f->op)->word);
}

/* Both operands get the gradient as it is, and a repeat by 1 is a copy. */
static void dgrad_of_add(spc_feature *out)
{
    spc__feature_become(out, SPC_FEATURE_REPEAT, out->channels, 1);
}

/* The gradient of an activation is an operator of two inputs, x and dy. */
static void dgrad_of_act(spc_feature *out)
{
    spc__feature_become(out, SPC_FEATURE_ACTGRAD, out->channels, out->by);
}

/* ---- launches ------------------------------------------------------------ */

static const spc__feature_launches rows = {
    "feature_rows", "feature_cpu", {{"spc_rows", true, spc__by_pieces, 0}}};
static const spc__feature_launches rows_back = {
    "feature_rows",
    "feature_grad_cpu",
    {{"spc_rows", true, spc__by_pieces, 0}}};
static const spc__feature_launches sums = {
    "feature_norm",
    "feature_grad_cpu",
    {{"spc_channels", true, spc__by_row_parts, SPC__PAIR_BYTES},
     {"spc_sums", false, spc__by_sums, 0}}};

/* The sums for scale and shift, of each part of the rows. */
static void affine_arrays(spc__feature_arrays *out, const spc_feature *f,
                          const spc__feature_sizes *s)
{
    (void)s;
    out->parts = spc__feature_sums_bytes(f);
}

/* ---- rows ---------------------------------------------------------------- */

const spc__feature_row spc__feature_row_add = {
    .name = "add",
    .word = "add",
    .takes = SPC__TAKES_ACT | SPC__TAKES_PASS,
    .info = {"features", "add", "two arrays, then an activation",
             "c" SPC__WORDS_ACT SPC__WORDS_PASS, "add,c=64,act=relu"},
    .attrs = spc__feature_set_activation,
    .adds = true,
    .make_dgrad = dgrad_of_add,
    .launches = {[SPC_FORWARD] = &rows},
};

const spc__feature_row spc__feature_row_act = {
    .name = "act",
    .word = "act",
    .values = spc__activation_names,
    .value_is = "activation",
    .selects = SPC__SELECTS_ACTIVATION,
    .takes = SPC__TAKES_SLOPE | SPC__TAKES_PASS,
    .info = {"features", "act=relu|leaky|sigmoid|silu|gelu|elu",
             "an activation", "c slope=" SPC__WORDS_PASS, "act=silu,c=64"},
    .check = check_activation,
    .attrs = spc__feature_set_activation,
    .make_dgrad = dgrad_of_act,
    .launches = {[SPC_FORWARD] = &rows},
};

const spc__feature_row spc__feature_row_actgrad = {
    .name = "actgrad",
    .word = "actgrad",
    .values = spc__activation_names,
    .value_is = "activation",
    .selects = SPC__SELECTS_ACTIVATION,
    .takes = SPC__TAKES_SLOPE,
    .info = {"features", "actgrad=relu|leaky|sigmoid|silu|gelu|elu",
             "the gradient of an activation", "c slope= dtype=f16",
             "actgrad=silu,c=64"},
    .check = check_activation,
    .attrs = spc__feature_set_activation,
    .adds = true,
    .launches = {[SPC_FORWARD] = &rows},
};

const spc__feature_row spc__feature_row_affine = {
    .name = "affine",
    .word = "affine",
    .takes = SPC__TAKES_ACT | SPC__TAKES_PASS,
    .info = {"features", "affine", "times a scale, plus a shift, by channel",
             "c" SPC__WORDS_ACT SPC__WORDS_PASS, "affine,c=64,act=relu"},
    .attrs = spc__feature_set_activation,
    .scales = true,
    .launches =
        {[SPC_FORWARD] = &rows, [SPC_DGRAD] = &rows_back, [SPC_WGRAD] = &sums},
    .arrays = affine_arrays,
};
