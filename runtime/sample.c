/* sample.c - random inputs, the oracle's answer, and the comparison. */
#include "sample.h"

#include "error.h"
#include "half.h"
#include "oracle.h"
#include "random.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static void *allocate(size_t count, size_t element_bytes, bool *failed)
{
    void *memory = malloc((count ? count : 1) * element_bytes);
    if (memory == NULL)
        *failed = true;
    return memory;
}

/* Uniform in [-1, 1), rounded to the layer's type; the oracle sees what the
 * kernel sees. */
static void draw(void *out, float *rounded, size_t count, spc_dtype dtype,
                 spc__random *random)
{
    for (size_t i = 0; i < count; i++) {
        float value = (float)(2 * spc__random_unit(random) - 1);
        if (dtype == SPC_F16) {
            uint16_t half = spc__half_from_float(value);
            ((uint16_t *)out)[i] = half;
            rounded[i] = spc__half_to_float(half);
        } else {
            ((float *)out)[i] = rounded[i] = value;
        }
    }
}

static void count_terms(spc__sample *sample, const int32_t *index)
{
    int offsets = spc__conv_offsets(&sample->conv);

    memset(sample->terms, 0, (size_t)sample->rows * sizeof(int32_t));
    for (int k = 0; k < offsets; k++)
        for (int64_t row = 0; row < sample->rows; row++)
            sample->terms[row] += index[k * sample->rows + row] >= 0;
    for (int64_t row = 0; row < sample->rows; row++) {
        sample->pairs += sample->terms[row];
        sample->terms[row] *= sample->conv.cin;
    }
}

static spc_status ask_oracle(spc__sample *sample, spc_ctx *ctx,
                             const spc_scene *scene, const float *in,
                             const float *weights)
{
    bool failed = false;
    int32_t *index = allocate((size_t)spc__conv_offsets(&sample->conv) *
                                  (size_t)sample->rows,
                              sizeof(*index), &failed);
    spc_status status = SPC_OK;

    if (failed)
        return spc__fail_memory(spc__error_of(ctx), (size_t)sample->rows * 4);
    status = spc__oracle_map(index, &sample->conv, scene, ctx->threads,
                             ctx->cancel, spc__error_of(ctx));
    if (status == SPC_OK) {
        count_terms(sample, index);
        status =
            spc__oracle(sample->reference, sample->magnitude, &sample->conv,
                        index, sample->rows, in, weights, sample->bias,
                        ctx->threads, ctx->cancel, spc__error_of(ctx));
    }
    free(index);
    return status;
}

/* Draws everything on the host and asks the oracle. */
static spc_status fill_host(spc__sample *sample, spc_ctx *ctx,
                            const spc_scene *scene, uint64_t seed)
{
    const spc_conv *conv = &sample->conv;
    size_t element = spc__conv_element_bytes(conv);
    size_t ins = sample->in_bytes / element;
    size_t outs = sample->out_bytes / element;
    size_t taps = sample->weights_bytes / element;
    bool failed = false;
    float *in = allocate(ins, sizeof(float), &failed);
    float *weights = allocate(taps, sizeof(float), &failed);
    spc__random random;
    spc_status status;

    sample->in = allocate(ins, element, &failed);
    sample->weights = allocate(taps, element, &failed);
    sample->reference = allocate(outs, sizeof(double), &failed);
    sample->magnitude = allocate(outs, sizeof(double), &failed);
    sample->terms = allocate((size_t)sample->rows, sizeof(int32_t), &failed);
    if (conv->bias)
        sample->bias = allocate((size_t)conv->cout, sizeof(float), &failed);
    if (failed) {
        status = spc__fail_memory(spc__error_of(ctx), outs * sizeof(double));
    } else {
        spc__random_init(&random, seed);
        draw(sample->weights, weights, taps, conv->dtype, &random);
        draw(sample->in, in, ins, conv->dtype, &random);
        for (int i = 0; conv->bias && i < conv->cout; i++)
            sample->bias[i] = (float)(2 * spc__random_unit(&random) - 1);
        status = ask_oracle(sample, ctx, scene, in, weights);
    }
    free(in);
    free(weights);
    return status;
}

static spc_status to_device(void **out, spc_ctx *ctx, const void *host,
                            size_t bytes)
{
    spc_status status = spc_alloc(out, ctx, bytes);
    if (status == SPC_OK && host != NULL)
        status = spc_copy_to_device(ctx, *out, host, bytes);
    return status;
}

spc_status spc__sample_init(spc__sample *out, spc_ctx *ctx,
                            const spc_conv *conv, const spc_scene *scene,
                            uint64_t seed)
{
    size_t element = spc__conv_element_bytes(conv);
    spc_status status;

    memset(out, 0, sizeof(*out));
    out->conv = *conv;
    out->rows = spc_scene_rows(scene);
    out->in_bytes = (size_t)out->rows * (size_t)conv->cin * element;
    out->out_bytes = (size_t)out->rows * (size_t)conv->cout * element;
    out->weights_bytes = (size_t)spc__conv_offsets(conv) * (size_t)conv->cin *
                         (size_t)conv->cout * element;
    if ((status = fill_host(out, ctx, scene, seed)) != SPC_OK ||
        (status = to_device(&out->device_in, ctx, out->in, out->in_bytes)) !=
            SPC_OK ||
        (status = to_device(&out->device_weights, ctx, out->weights,
                            out->weights_bytes)) != SPC_OK ||
        (status = to_device(&out->device_out, ctx, NULL, out->out_bytes)) !=
            SPC_OK)
        return status;
    if (!conv->bias)
        return SPC_OK;
    return to_device((void **)&out->device_bias, ctx, out->bias,
                     (size_t)conv->cout * sizeof(float));
}

void spc__sample_release(spc__sample *sample, spc_ctx *ctx)
{
    free(sample->in);
    free(sample->weights);
    free(sample->bias);
    free(sample->reference);
    free(sample->magnitude);
    free(sample->terms);
    spc_dealloc(ctx, sample->device_in);
    spc_dealloc(ctx, sample->device_out);
    spc_dealloc(ctx, sample->device_weights);
    spc_dealloc(ctx, sample->device_bias);
    memset(sample, 0, sizeof(*sample));
}

spc_status spc__sample_poison(spc__sample *sample, spc_ctx *ctx)
{
    return spc__device_ops_of(ctx->device)
        ->fill(ctx->device, sample->device_out, 0xff, sample->out_bytes, NULL,
               spc__error_of(ctx));
}

/* The worst element so far. */
typedef struct worst {
    double error, got;
    int64_t row;
    int channel;
} worst;

static void compare_row(worst *most, const spc__sample *sample,
                        const void *result, int64_t row)
{
    const spc_conv *conv = &sample->conv;

    for (int c = 0; c < conv->cout; c++) {
        int64_t i = row * conv->cout + c;
        double got = conv->dtype == SPC_F16
                         ? spc__half_to_float(((const uint16_t *)result)[i])
                         : ((const float *)result)[i];
        double tolerance =
            spc__tolerance(conv, sample->reference[i], sample->magnitude[i],
                           sample->terms[row]);
        double off = fabs(got - sample->reference[i]);
        double error = off == 0 ? 0 : off / tolerance;
        if (!(error <= most->error)) { /* also if it is not a number */
            *most = (worst){isnan(error) ? INFINITY : error, got, row, c};
        }
    }
}

spc_status spc__sample_compare(double *error, const spc__sample *sample,
                               spc_ctx *ctx)
{
    worst most = {0};
    void *result = malloc(sample->out_bytes + 1);
    spc_status status;

    if (result == NULL)
        return spc__fail_memory(spc__error_of(ctx), sample->out_bytes);
    status =
        spc_copy_to_host(ctx, result, sample->device_out, sample->out_bytes);
    if (status == SPC_OK) {
        for (int64_t row = 0; row < sample->rows; row++)
            compare_row(&most, sample, result, row);
        *error = most.error;
    }
    free(result);
    if (status == SPC_OK && most.error > 1)
        return spc__fail(
            spc__error_of(ctx), SPC_EWRONG,
            "row %lld, channel %d is %.9g and must be %.9g: %.3g times the "
            "tolerance",
            (long long)most.row, most.channel, most.got,
            sample->reference[most.row * sample->conv.cout + most.channel],
            most.error);
    return status;
}
