/* SPDX-License-Identifier: Apache-2.0 */
/* batch_norm.c - folds batch normalisations into the scale and bias of an
 * epilogue. */
#include "spc_import.h"

#include "base/error.h"
#include "base/plural.h"
#include "import/array.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Folds one channel: gamma * (x + before - mean) / sqrt(spread) + beta is scale
 * * x + bias. In double, so that only the result is rounded. */
static spc_status fold_channel(float *scale, float *bias, int c,
                               const spc_batch_norm *norm,
                               const float *conv_bias, spc_error *error)
{
    double spread = (double)norm->variance[c] + norm->epsilon;
    double gamma = norm->gamma != NULL ? norm->gamma[c] : 1;
    double beta = norm->beta != NULL ? norm->beta[c] : 0;
    double before = conv_bias != NULL ? conv_bias[c] : 0;

    if (!(spread > 0) || isinf(spread)) /* also catches NaN */
        return spc__fail(
            error, SPC_EINVAL,
            "variance %g + epsilon %g of channel %d is not a positive number",
            (double)norm->variance[c], norm->epsilon, c);
    double exact = gamma / sqrt(spread);
    scale[c] = (float)exact;
    bias[c] = (float)(beta + (before - norm->mean[c]) * exact);
    if (isfinite(scale[c]) && isfinite(bias[c]))
        return SPC_OK;
    return spc__fail(error, SPC_ERANGE,
                     "scale %g and bias %g of channel %d do not fit fp32",
                     exact, beta + (before - norm->mean[c]) * exact, c);
}

spc_status spc_batch_norm_fold(float *scale, float *bias, int channels,
                               const spc_batch_norm *norm,
                               const float *conv_bias, spc_error *error)
{
    spc_status status = spc__need(error, __func__, "scale", scale, "bias", bias,
                                  "norm", norm, NULL);

    if (status == SPC_OK)
        status = spc__need(error, __func__, "norm->mean", norm->mean,
                           "norm->variance", norm->variance, NULL);
    for (int c = 0; c < channels && status == SPC_OK; c++)
        status = fold_channel(scale, bias, c, norm, conv_bias, error);
    return status;
}

/* ---- from a file --------------------------------------------------------- */

/* Loads "NAME.PART" as fp32 into `out`. Returns true if the array exists.
 * *status is SPC_OK unless the array exists and is invalid. */
static bool load_part(float *out, spc_status *status,
                      const spc_weights *weights, const char *name,
                      const char *part, int channels, spc_error *error)
{
    char full[512];
    snprintf(full, sizeof(full), "%s.%s", name, part);
    const spc_array *array = spc_weights_find(weights, full);

    if (array == NULL || *status != SPC_OK)
        return false;
    if (array->rank != 1 || array->shape[0] != channels) {
        char shape[256];
        spc__array_print_shape(shape, sizeof(shape), array);
        *status = spc__fail(error, SPC_EINVAL,
                            "'%s' has the shape %s; the layer has %s", full,
                            shape, spc__count(channels, "channel"));
    } else {
        *status = spc_array_floats(out, array, error);
    }
    return true;
}

/* Loads the four arrays of a normalisation by PyTorch's names, and folds them.
 * Without affine parameters a file has no weight and no bias. */
static spc_status load_and_fold(float *scale, float *bias, float *parts,
                                int channels, const spc_weights *weights,
                                const char *name, double epsilon,
                                const float *conv_bias, spc_error *error)
{
    static const char *const names[] = {"weight", "bias", "running_mean",
                                        "running_var"};
    const float *found[4];
    spc_status status = SPC_OK;

    for (int i = 0; i < 4; i++) {
        float *part = parts + (size_t)i * (size_t)channels;
        found[i] =
            load_part(part, &status, weights, name, names[i], channels, error)
                ? part
                : NULL;
        if (status == SPC_OK && found[i] == NULL && i >= 2)
            status = spc__fail(error, SPC_ENOTFOUND,
                               "there is no array '%s.%s' for a batch "
                               "normalisation",
                               name, names[i]);
    }
    if (status != SPC_OK)
        return status;
    spc_batch_norm norm = {found[0], found[1], found[2], found[3], epsilon};
    status =
        spc_batch_norm_fold(scale, bias, channels, &norm, conv_bias, error);
    if (status != SPC_OK && error != NULL)
        spc__fail_prefix(error, "normalisation '%s': ", name);
    return status;
}

spc_status spc_batch_norm_load(float *scale, float *bias, int channels,
                               const spc_weights *weights, const char *name,
                               double epsilon, const float *conv_bias,
                               spc_error *error)
{
    spc_status status = spc__need(error, __func__, "scale", scale, "bias", bias,
                                  "weights", weights, "name", name, NULL);
    size_t bytes = 4 * (size_t)(channels > 0 ? channels : 0) * sizeof(float);

    if (status != SPC_OK)
        return status;
    float *parts = malloc(bytes + 1);
    if (parts == NULL)
        return spc__fail_memory(error, bytes);
    status = load_and_fold(scale, bias, parts, channels, weights, name, epsilon,
                           conv_bias, error);
    free(parts);
    return status;
}
