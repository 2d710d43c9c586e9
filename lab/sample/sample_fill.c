/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sample_fill.c - generates the data of a sample, encodes it in the device's
 * layout, and computes the expected results.
 */
#include "lab/sample/sample_block.h"

#include "base/cancel.h"
#include "base/dtype.h"
#include "base/error.h"
#include "context/ctx.h"
#include "lab/oracle/exact.h"
#include "lab/oracle/oracle.h"
#include "lab/oracle/relation.h"
#include "lab/oracle/wgrad.h"
#include "lab/sample/digest.h"
#include "operators/epilogue.h"
#include "operators/operands.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- data ---------------------------------------------------------------- */

/*
 * Encodes in the device's layout, where the weights of a DGRAD are those of its
 * layer.
 */
static spc_status encode_weights(spc__sample_maker *m, int d,
                                 const spc__operand *operand)
{
    const spc_conv *conv = &m->sample->conv;
    void *to = (void *)m->sample->weights[d];
    float *mirrored;

    if (conv->pass != SPC_DGRAD) {
        spc__encode_rows(to, operand, m->weights[d]);
        return SPC_OK;
    }
    /* Returns the array as floats. */
    if ((mirrored = malloc(operand->dense_bytes * 4)) == NULL)
        return spc__fail_memory(m->error, operand->dense_bytes * 4);
    spc__layer_weights(mirrored, m->weights[d], conv);
    spc__encode_rows(to, operand, mirrored);
    free(mirrored);
    return SPC_OK;
}

/* Generates weights and vectors of each data set. The oracle needs the real
 * numbers in addition to their stored form. */
static spc_status draw_weights(spc__sample_maker *m)
{
    const spc_conv *conv = &m->sample->conv;
    spc__operand operand = spc__operand_of(conv, SPC_OPERAND_WEIGHTS, 0);
    size_t n = (size_t)(operand.rows * operand.columns);

    for (int d = 0; d < SPC__DATASETS; d++) {
        if (m->sample->weights[d] == NULL)
            continue;
        if ((m->weights[d] = malloc(n * sizeof(float) + 1)) == NULL)
            return spc__fail_memory(m->error, n * sizeof(float));
        if (conv->pass == SPC_WGRAD)
            spc__draw_gradient(m->weights[d], conv, (spc__dataset)d,
                               operand.rows, &m->random);
        else
            spc__draw_weights(m->weights[d], conv, (spc__dataset)d, &m->random);
        if (encode_weights(m, d, &operand) != SPC_OK)
            return m->error->status;
        if (m->sample->bias[d] != NULL)
            spc__draw_bias((float *)m->sample->bias[d], conv, (spc__dataset)d,
                           &m->random);
        if (conv->scale)
            spc__draw_scale((float *)m->sample->scale[d], conv, (spc__dataset)d,
                            &m->random);
    }
    return SPC_OK;
}

static bool is_gradient(const spc__sample_maker *m)
{
    return m->sample->conv.pass == SPC_WGRAD;
}

/*
 * Sums of FULL have more bits than fp32, to which kernels round the complete
 * sum; f32 may lose some earlier.
 */
static spc_status expect_full(spc__sample_maker *m, float *sums, float *slack,
                              const spc__seen *seen, int64_t rows,
                              const spc__values *values)
{
    const spc_conv *conv = &m->sample->conv;
    size_t n = (size_t)(rows * conv->cout);
    double *all = malloc((2 * n + 1) * sizeof(*all));

    if (all == NULL)
        return spc__fail_memory(m->error, 2 * n * sizeof(*all));
    spc_status status = spc__oracle(
        all, all + n, conv, seen, rows, values->in, values->weights,
        values->bias, m->options->threads, m->options->cancel, m->error);
    if (status == SPC_OK)
        spc__finish_full(sums, slack, conv, rows, all, values);
    free(all);
    return status;
}

/* The same for a gradient of weights, which has no epilogue. */
static spc_status expect_full_gradient(spc__sample_maker *m, float *sums,
                                       float *slack, const spc__seen *seen,
                                       int64_t rows, const spc__values *values)
{
    const spc_conv *conv = &m->sample->conv;
    spc__operand out = spc__operand_of(conv, SPC_OPERAND_OUT, rows);
    spc_status status =
        spc__wgrad_exact(sums, conv, seen, rows, values, m->options->threads,
                         m->options->cancel, m->error);

    for (int64_t i = 0; i < out.rows * out.columns && status == SPC_OK; i++)
        slack[i] = spc__full_slack(conv, (double)sums[i]);
    return status;
}

/* Computes the exact result of the layer or of its gradient. */
static spc_status sum_exact(spc__sample_maker *m, float *sums, float *slack,
                            const spc__seen *seen, int64_t rows,
                            const spc__values *values)
{
    const spc_conv *conv = &m->sample->conv;
    int threads = m->options->threads;

    if (is_gradient(m))
        return spc__wgrad_exact(sums, conv, seen, rows, values, threads,
                                m->options->cancel, m->error);
    spc_status status =
        spc__oracle_exact(sums, conv, seen, rows, values->in, values->weights,
                          values->bias, threads, m->options->cancel, m->error);
    if (status == SPC_OK)
        spc__finish_exact(sums, slack, conv, rows, values, threads);
    return status;
}

static spc_status expect_sums(spc__sample_maker *m, float *sums, float *slack,
                              spc__dataset dataset, const spc__seen *seen,
                              int64_t rows, const spc__values *values)
{
    if (dataset != SPC__FULL)
        return sum_exact(m, sums, slack, seen, rows, values);
    return is_gradient(m)
               ? expect_full_gradient(m, sums, slack, seen, rows, values)
               : expect_full(m, sums, slack, seen, rows, values);
}

/* Computes sums without rounding, in the type of the outputs. */
static spc_status expect_exact(spc__sample_maker *m, int s,
                               spc__dataset dataset, const spc__seen *seen,
                               const spc__values *values)
{
    spc__sample *sample = m->sample;
    const spc__sample_scene *scene = &sample->scenes[s];
    spc__operand out =
        spc__operand_of(&sample->conv, SPC_OPERAND_OUT, scene->rows_out);
    size_t n = (size_t)(out.rows * out.columns);
    float *sums = malloc(n * sizeof(float) + 1);

    if (sums == NULL)
        return spc__fail_memory(m->error, n * sizeof(float));
    spc_status status = expect_sums(m, sums, (float *)scene->slack[dataset],
                                    dataset, seen, scene->rows_out, values);
    if (status == SPC_OK) {
        void *exact = (void *)scene->exact[dataset];
        spc__encode_rows(exact, &out, sums);
        m->header->scenes[s].digest[dataset] =
            spc__digest_host(exact, out.bytes);
    }
    free(sums);
    return status;
}

/* ---- numbers at the ends of a type --------------------------------------- */

/* Finds the largest sum of a data set, without an epilogue, for scaling. */
static spc_status largest_sum(spc__sample_maker *m, int s,
                              const spc__seen *seen, const float *in,
                              double *largest)
{
    const spc__sample_scene *scene = &m->sample->scenes[s];
    const spc_conv *conv = &m->sample->conv;
    size_t n = (size_t)(scene->rows_out * conv->cout);
    float *sums = malloc(n * sizeof(float) + 1);

    if (sums == NULL)
        return spc__fail_memory(m->error, n * sizeof(float));
    spc_status status = spc__oracle_exact(
        sums, conv, seen, scene->rows_out, in, m->weights[SPC__COUNT], NULL,
        m->options->threads, m->options->cancel, m->error);
    /* Computes in floats, as GCC 12 for aarch64 fails to compile the maximum of
     * doubles that are converted from floats. */
    float most = 0;
    for (size_t i = 0; i < n && status == SPC_OK; i++)
        most = fmaxf(most, fabsf(sums[i]));
    *largest = fmax(*largest, most);
    free(sums);
    return status;
}

/* Three of the size scenes have zeros, and three have no zeros. */
static void thin_inputs(spc__sample_maker *m, int s, float *in, float *gradient)
{
    const spc__sample_scene *scene = &m->sample->scenes[s];
    const spc_conv *conv = &m->sample->conv;
    bool few = s % 3 == 2 && !is_gradient(m);

    if (!spc__sample_is_size(m->sample, s) || s / 3 % 2 == 0)
        return;
    spc__draw_thinned(in, conv, scene->rows_in, conv->cin, few, &m->random);
    if (is_gradient(m))
        spc__draw_thinned(gradient, conv, scene->rows_out, conv->cout, false,
                          &m->random);
}

static void scale(float *values, int64_t n, int power)
{
    for (int64_t i = 0; i < n; i++)
        values[i] = ldexpf(values[i], power);
}

/*
 * Scales COUNT on the size scenes: unchanged, tiny and huge alternate. Huge
 * inputs are even larger if only a few are not zero. fp16 residuals (NULL:
 * none) are then equally huge.
 */
static spc_status scale_arrays(spc__sample_maker *m, int s,
                               const spc__seen *seen, float *in,
                               float *residual)
{
    const spc__sample_scene *scene = &m->sample->scenes[s];
    const spc_conv *conv = &m->sample->conv;
    bool adds = residual != NULL && spc__conv_out(conv) == SPC_F16;
    int rule = s % 3, power = 0;
    double largest = 3;

    if (!spc__sample_is_size(m->sample, s) || rule == 0)
        return SPC_OK;
    if (rule == 1)
        power = spc__draw_tiny(conv);
    else if (largest_sum(m, s, seen, in, &largest) != SPC_OK)
        return m->error->status;
    else
        power = spc__draw_huge(conv, largest + (adds ? 3 : 0));
    scale(in, scene->rows_in * conv->cin, power);
    if (adds && rule == 2)
        scale(residual, scene->rows_out * conv->cout, power);
    return SPC_OK;
}

/* Generates the arrays of a scene, and computes the expected results. */
static spc_status fill_arrays(spc__sample_maker *m, int s, spc__dataset dataset,
                              const spc__seen *seen, float *in, float *residual)
{
    spc__sample *sample = m->sample;
    const spc__sample_scene *scene = &sample->scenes[s];
    const spc_conv *conv = &sample->conv;
    spc__operand all[SPC_OPERANDS];
    spc__values values = {in,
                          m->weights[dataset],
                          sample->bias[dataset],
                          sample->scale[dataset],
                          residual,
                          sample->scales[dataset]};

    spc__operands(all, conv, scene->rows_in, scene->rows_out);
    if (is_gradient(m)) {
        spc__draw_pair(in, residual, conv, dataset, scene->rows_in,
                       scene->rows_out, s % 2, &m->random);
        thin_inputs(m, s, in, residual);
    } else {
        spc__draw_in(in, conv, dataset, scene->rows_in, &m->random);
        thin_inputs(m, s, in, NULL);
        if (all[SPC_OPERAND_RESIDUAL].present)
            spc__draw_residual(residual, conv, dataset, scene->rows_out,
                               &m->random);
        if (scale_arrays(m, s, seen, in, residual) != SPC_OK)
            return m->error->status;
    }
    spc__encode_rows((void *)scene->in[dataset], &all[SPC_OPERAND_IN], in);
    if (all[SPC_OPERAND_RESIDUAL].present)
        spc__encode_rows((void *)scene->residual[dataset],
                         &all[SPC_OPERAND_RESIDUAL], residual);
    if (dataset != SPC__REAL)
        return expect_exact(m, s, dataset, seen, &values);
    if (is_gradient(m))
        return spc__wgrad_expect((double *)scene->reference,
                                 (float *)scene->tolerance, conv, seen,
                                 scene->rows_out, &values, m->options->threads,
                                 m->options->cancel, m->error);
    return spc__expect((double *)scene->reference, (float *)scene->tolerance,
                       conv, seen, scene->rows_out, &values,
                       m->options->threads, m->options->cancel, m->error);
}

/* Generates the arrays of a scene and computes their results. */
static spc_status fill_dataset(spc__sample_maker *m, int s,
                               spc__dataset dataset, const spc__seen *seen)
{
    const spc_conv *conv = &m->sample->conv;
    const spc__sample_scene *scene = &m->sample->scenes[s];
    bool adds = spc__operand_of(conv, SPC_OPERAND_RESIDUAL, 1).present;
    size_t n = (size_t)(scene->rows_in * conv->cin);
    size_t added = adds ? (size_t)(scene->rows_out * conv->cout) : 0;
    float *in = malloc((n + added) * sizeof(float) + 1);

    if (in == NULL)
        return spc__fail_memory(m->error, (n + added) * sizeof(float));
    spc_status status =
        fill_arrays(m, s, dataset, seen, in, adds ? in + n : NULL);
    free(in);
    return status;
}

/* Counts the inputs and offsets that some pair uses. */
static spc_status count_used(spc__sample_maker *m, int s,
                             const spc_relation *relation)
{
    size_t bytes = (size_t)relation->rows_in + SPC_MAX_OFFSETS;
    char *used = calloc(bytes, 1);

    if (used == NULL)
        return spc__fail_memory(m->error, bytes);
    char *offsets = used + relation->rows_in;
    for (int64_t i = 0; i < relation->slots * relation->rows_out; i++) {
        int32_t from = relation->index[i];
        int64_t k =
            relation->cells ? relation->cells[i] : i / relation->rows_out;
        if (from < 0)
            continue;
        m->header->scenes[s].rows_read += !used[from];
        m->header->scenes[s].offsets_used += !offsets[k];
        used[from] = offsets[k] = 1;
    }
    free(used);
    return SPC_OK;
}

/* Fills all arrays of a scene. */
static spc_status fill_scene(spc__sample_maker *m, int s,
                             const spc__sample_source *from)
{
    const spc__sample_scene *scene = &m->sample->scenes[s];
    spc__seen seen = spc__relation_seen(from->relation);
    spc_status status = count_used(m, s, from->relation);

    if (spc_scene_rows(from->scene) > 0)
        memcpy((void *)scene->coords, spc_scene_coords(from->scene),
               (size_t)spc_scene_rows(from->scene) * 4 * sizeof(int32_t));
    if (scene->given != NULL)
        memcpy((void *)scene->given, spc_scene_coords(from->given),
               (size_t)scene->given_voxels * 4 * sizeof(int32_t));
    for (int d = 0; d < SPC__DATASETS && status == SPC_OK; d++)
        if (scene->in[d] != NULL)
            status = fill_dataset(m, s, (spc__dataset)d, &seen);
    for (int odd = 0; odd < SPC__ODDS && status == SPC_OK; odd++)
        if (scene->odd[odd] != NULL)
            spc__odd_expect((unsigned char *)scene->odd[odd], &m->sample->conv,
                            (spc__odd)odd, from->relation,
                            m->weights[SPC__COUNT],
                            m->sample->scale[SPC__COUNT]);
    return status;
}

spc_status spc__sample_fill(spc__sample_maker *m,
                            const spc__sample_source *sources, int count)
{
    /* All arrays use one stream of random numbers in a fixed order, so a seed
     * gives the same sample again and a reported failure can be repeated. */
    spc__random_init(&m->random, m->options->seed);
    spc_status status = draw_weights(m);

    for (int s = 0; s < count && status == SPC_OK; s++)
        status = fill_scene(m, s, &sources[s]);
    for (int d = 0; d < SPC__DATASETS; d++) {
        free(m->weights[d]);
        m->weights[d] = NULL;
    }
    return status;
}
