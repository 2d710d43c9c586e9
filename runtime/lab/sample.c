/* sample.c - random data on the host and on the device. */
#include "sample.h"

#include "error.h"
#include "expect.h"
#include "oracle.h"
#include <stdlib.h>
#include <string.h>

/* *failed becomes the size of what could not be had. */
static void *allocate(size_t count, size_t element_bytes, size_t *failed)
{
    size_t bytes = (count ? count : 1) * element_bytes;
    void *memory = malloc(bytes);

    if (memory == NULL)
        *failed = bytes;
    return memory;
}

static int64_t count_pairs(const int32_t *index, int64_t entries)
{
    int64_t pairs = 0;

    for (int64_t i = 0; i < entries; i++)
        pairs += index[i] >= 0;
    return pairs;
}

static spc_status ask_oracle(spc__sample *sample, spc_ctx *ctx,
                             const spc_scene *scene, const float *in,
                             const float *weights)
{
    spc_error *error = spc__error_of(ctx);
    int64_t entries = spc__conv_offsets(&sample->conv) * sample->rows;
    size_t failed = 0;
    int32_t *index = allocate((size_t)entries, sizeof(*index), &failed);

    if (failed > 0)
        return spc__fail_memory(error, failed);
    spc_status status = spc__oracle_map(index, &sample->conv, scene,
                                        ctx->threads, ctx->cancel, error);
    if (status == SPC_OK) {
        sample->pairs = count_pairs(index, entries);
        status = spc__expect(sample->reference, sample->tolerance,
                             &sample->conv, index, sample->rows, in, weights,
                             sample->bias, ctx->threads, ctx->cancel, error);
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
    size_t failed = 0;
    float *in = allocate(ins, sizeof(float), &failed);
    float *weights = allocate(taps, sizeof(float), &failed);
    spc__random random;
    spc_status status;

    sample->in = allocate(ins, element, &failed);
    sample->weights = allocate(taps, element, &failed);
    sample->reference = allocate(outs, sizeof(double), &failed);
    sample->tolerance = allocate(outs, sizeof(float), &failed);
    if (conv->bias)
        sample->bias = allocate((size_t)conv->cout, sizeof(float), &failed);
    if (failed > 0) {
        status = spc__fail_memory(spc__error_of(ctx), failed);
    } else {
        spc__random_init(&random, seed);
        spc__draw(sample->weights, weights, taps, conv->dtype, &random);
        spc__draw(sample->in, in, ins, conv->dtype, &random);
        if (conv->bias)
            spc__draw_bias(sample->bias, conv->cout, &random);
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

spc_status spc__sample_scene_check(const spc_scene *scene, spc_error *error)
{
    if (spc_scene_rows(scene) > 0)
        return SPC_OK;
    return spc__fail(error, SPC_EINVAL,
                     "scene '%s' has no voxels: there is nothing to measure",
                     spc_scene_name(scene));
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
    free(sample->tolerance);
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

spc_status spc__sample_compare(double *error, const spc__sample *sample,
                               spc_ctx *ctx)
{
    spc__worst worst = {0};
    void *result = malloc(sample->out_bytes + 1);
    spc_status status;

    if (result == NULL)
        return spc__fail_memory(spc__error_of(ctx), sample->out_bytes);
    status =
        spc_copy_to_host(ctx, result, sample->device_out, sample->out_bytes);
    if (status == SPC_OK)
        worst = spc__compare(result, &sample->conv, sample->rows,
                             sample->reference, sample->tolerance);
    free(result);
    if (status != SPC_OK)
        return status;
    *error = worst.error;
    if (worst.error <= 1)
        return SPC_OK;
    return spc__fail(spc__error_of(ctx), SPC_EWRONG,
                     "row %lld, channel %d is %.9g and must be %.9g: %.3g "
                     "times the tolerance",
                     (long long)worst.row, worst.channel, worst.got,
                     worst.reference, worst.error);
}
