/* SPDX-License-Identifier: Apache-2.0 */
/*
 * large.c - the data of a large scene, some rows of its result, and a run.
 *
 * Inputs and residuals repeat every PATTERN rows, so that drawing them is
 * cheap. PATTERN is an odd prime: rows whose indices differ by a power of two
 * have different data, so a lost bit of an index shows. The oracle computes
 * some rows only: the first and the last, those at 2^12, 2^16 and 2^17, and
 * others evenly spread.
 */
#include "lab/gate/large.h"

#include "base/clock.h"
#include "base/dtype.h"
#include "base/error.h"
#include "base/random.h"
#include "coords/map.h"
#include "lab/oracle/exact.h"
#include "lab/oracle/relation.h"
#include "operators/epilogue.h"
#include "operators/operands.h"
#include "plan/plan.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { PATTERN = SPC__LARGE_PATTERN };

typedef struct maker {
    spc__large *to;
    spc__fixture *fixture;
    const spc_conv *conv;
    spc_scene *scene;
    uint64_t start;
    spc__random random;
    float *in, *residual; /* inputs and residuals, [PATTERN] rows */
    float *weights;       /* weights of data set COUNT in the oracle's layout */
    spc_error *error;
} maker;

/* Builds the map, if the layer has one, and notes the rows. */
static spc_status build_map(maker *m)
{
    spc__large *to = m->to;
    spc_ctx *ctx = m->fixture->ctx;

    to->rows_in = to->rows_out = spc_scene_rows(m->scene);
    if (spc_conv_is_linear(m->conv))
        return SPC_OK;
    spc_status status =
        spc_map_create_from_scene(&to->map, ctx, m->conv, m->scene);
    if (status == SPC_OK) {
        to->rows_in = spc_map_rows_in(to->map);
        to->rows_out = spc_map_rows_out(to->map);
    }
    return status;
}

/* ---- data ---------------------------------------------------------------- */

spc_status spc__large_upload(spc__guarded *to, spc__fixture *fixture,
                             spc_operand which, const float *pattern,
                             int64_t rows)
{
    const spc_conv *conv = &fixture->sample->conv;
    spc__operand all = spc__operand_of(conv, which, rows);
    spc__operand some = spc__operand_of(conv, which, PATTERN);
    size_t chunk =
        (size_t)(some.pitch * PATTERN) * spc__dtype_of(some.dtype)->bytes;
    char *encoded = malloc(chunk);

    if (encoded == NULL)
        return spc__fail_memory(spc__error_of(fixture->ctx), chunk);
    spc__encode_rows(encoded, &some, pattern);
    spc_status status = spc__guarded_lay(&fixture->guards, to, all.bytes, 0);
    for (size_t at = 0; at < all.bytes && status == SPC_OK; at += chunk)
        status =
            spc_memory_upload(to->data + at, fixture->ctx, encoded,
                              all.bytes - at < chunk ? all.bytes - at : chunk);
    free(encoded);
    return status;
}

/* Generates the pattern of rows, and repeats it on the device. */
static spc_status draw_patterns(maker *m)
{
    const spc_conv *conv = m->conv;
    bool adds = spc__operand_of(conv, SPC_OPERAND_RESIDUAL, 1).present;
    size_t in = (size_t)PATTERN * (size_t)conv->cin * sizeof(float);
    size_t out = (size_t)PATTERN * (size_t)conv->cout * sizeof(float);

    if ((m->in = malloc(in)) == NULL || (m->residual = malloc(out)) == NULL)
        return spc__fail_memory(m->error, in + out);
    spc__draw_in(m->in, conv, SPC__COUNT, PATTERN, &m->random);
    spc_status status = spc__large_upload(
        &m->to->in, m->fixture, SPC_OPERAND_IN, m->in, m->to->rows_in);
    if (!adds || status != SPC_OK)
        return status;
    spc__draw_residual(m->residual, conv, SPC__COUNT, PATTERN, &m->random);
    return spc__large_upload(&m->to->residual, m->fixture, SPC_OPERAND_RESIDUAL,
                             m->residual, m->to->rows_out);
}

/* ---- expected results ---------------------------------------------------- */

/* Sorts the rows and drops duplicates. */
static void choose_rows(maker *m)
{
    const int64_t edge = 65536, part = 4096, far = 131072;
    const int64_t few[] = {0,    1,        part - 1, part, part + 1, edge - 1,
                           edge, edge + 1, far - 1,  far,  far + 1};
    const int count = sizeof(few) / sizeof(few[0]);
    spc__large *to = m->to;
    int64_t rows = to->rows_out, last = -1, next = 0;
    int64_t spacing = rows / (SPC__LARGE_ROWS - 16) + 1;

    to->count = 0;
    for (int64_t i = 0; i < rows; i = next) {
        int64_t pick =
            i + (int64_t)spc__random_below(&m->random, (uint32_t)spacing);
        next = i + spacing;
        for (int f = 0; f < count; f++)
            if (few[f] >= i && few[f] < next && few[f] < rows &&
                few[f] != pick && few[f] > last)
                to->at[to->count++] = last = few[f];
        if (pick > last && pick < rows)
            to->at[to->count++] = last = pick;
    }
    if (rows > 0 && last < rows - 1)
        to->at[to->count++] = rows - 1;
}

/*
 * Weights of COUNT have the device's layout in the sample: those of a DGRAD are
 * mirrored, which mirroring their offsets undoes.
 */
static spc_status read_weights(maker *m)
{
    const spc_conv *conv = m->conv;
    spc__operand as = spc__operand_of(conv, SPC_OPERAND_WEIGHTS, 0);
    size_t n = (size_t)(as.rows * as.columns), bytes = n * sizeof(float);
    float *mirrored;

    if ((m->weights = malloc(3 * bytes)) == NULL)
        return spc__fail_memory(m->error, 3 * bytes);
    spc__dtype_of(conv->dtype)
        ->decode(m->weights, m->fixture->sample->weights[SPC__COUNT], n);
    if (conv->pass != SPC_DGRAD)
        return SPC_OK;
    float *indices = m->weights + n;
    mirrored = indices + n;
    for (size_t i = 0; i < n; i++)
        indices[i] = (float)i;
    spc__layer_weights(mirrored, indices, conv);
    for (size_t i = 0; i < n; i++)
        indices[(size_t)mirrored[i]] = m->weights[i];
    memcpy(m->weights, indices, bytes);
    return SPC_OK;
}

/* Returns the residuals of the chosen rows, in their order; NULL without
 * residuals. */
static float *chosen_residuals(const maker *m, float *to)
{
    size_t columns = (size_t)m->conv->cout;

    if (m->to->residual.data == NULL)
        return NULL;
    for (int64_t i = 0; i < m->to->count; i++)
        memcpy(to + (size_t)i * columns,
               m->residual + (size_t)(m->to->at[i] % PATTERN) * columns,
               columns * sizeof(float));
    return to;
}

spc_status spc__large_relation(spc_relation *out, const spc__large *large,
                               const spc__fixture *fixture,
                               const spc_scene *scene)
{
    spc_ctx *ctx = fixture->ctx;
    spc__row_list only = {large->at, large->count};
    spc_status status =
        spc__relation_init_rows(out, &fixture->sample->conv, scene, &only,
                                ctx->threads, ctx->cancel, spc__error_of(ctx));

    for (int64_t i = 0;
         status == SPC_OK && i < spc__relation_seen(out).slots * large->count;
         i++)
        out->index[i] %= PATTERN; /* leaves -1 as it is */
    return status;
}

/* Computes the sums of the chosen rows, and their tolerances. */
static spc_status expect(maker *m, float *sums, float *residual)
{
    const spc__sample *sample = m->fixture->sample;
    spc__large *to = m->to;
    spc_ctx *ctx = m->fixture->ctx;
    spc_relation relation = {0};
    spc__values values = {m->in,
                          m->weights,
                          sample->bias[SPC__COUNT],
                          sample->scale[SPC__COUNT],
                          residual,
                          sample->scales[SPC__COUNT]};
    spc_status status =
        spc__large_relation(&relation, to, m->fixture, m->scene);
    spc__seen seen = spc__relation_seen(&relation);

    if (status == SPC_OK)
        status = spc__oracle_exact(sums, m->conv, &seen, to->count, values.in,
                                   values.weights, values.bias, ctx->threads,
                                   ctx->cancel, m->error);
    if (status == SPC_OK)
        spc__finish_exact(sums, to->slack, m->conv, to->count, &values,
                          ctx->threads);
    spc__relation_release(&relation);
    return status;
}

/* Computes the expected values of the chosen rows. */
static spc_status know_rows(maker *m)
{
    spc__large *to = m->to;
    spc__operand out = spc__operand_of(m->conv, SPC_OPERAND_OUT, to->count);
    size_t results = (size_t)(to->count * m->conv->cout), extra = 16;
    bool has_slack = !spc__epilogue_is_exact(m->conv);
    float *sums = malloc((2 * results + extra) * sizeof(*sums));

    to->got = malloc(out.bytes + extra);
    to->exact = malloc(out.bytes + extra);
    if (has_slack)
        to->slack = malloc((results + extra) * sizeof(float));
    if (sums == NULL || to->got == NULL || to->exact == NULL ||
        (to->slack == NULL && has_slack)) {
        free(sums);
        return spc__fail_memory(m->error, results * sizeof(*sums));
    }
    spc_status status = expect(m, sums, chosen_residuals(m, sums + results));
    if (status == SPC_OK)
        spc__encode_rows(to->exact, &out, sums);
    free(sums);
    return status;
}

/* ---- the scene ----------------------------------------------------------- */

/*
 * Only the chosen rows contribute to a gradient, and only these rows of other
 * results are known.
 */
static spc_status draw_and_know(maker *m)
{
    spc_status status;

    choose_rows(m);
    if (m->conv->pass == SPC_WGRAD)
        return spc__large_know_gradient(m->to, m->fixture, m->scene,
                                        &m->random);
    if ((status = draw_patterns(m)) == SPC_OK &&
        (status = read_weights(m)) == SPC_OK)
        status = know_rows(m);
    return status;
}

/* Makes a large scene, its arrays and its expected results. */
static spc_status make(maker *m)
{
    spc__large *to = m->to;
    spc_status status = build_map(m);

    if (status == SPC_OK)
        status = draw_and_know(m);
    if (status == SPC_OK)
        status = spc__guarded_lay(
            &m->fixture->guards, &to->out,
            spc__operand_of(m->conv, SPC_OPERAND_OUT, to->rows_out).bytes, 0);
    to->is_there = status == SPC_OK && to->count > 0;
    free(m->in);
    free(m->residual);
    free(m->weights);
    if (status == SPC_OK)
        spc__log_printf(&m->fixture->ctx->log, SPC_LOG_DEBUG,
                        "a scene of %lld rows, of which %lld are compared, "
                        "made in %.3f s",
                        (long long)to->rows_out, (long long)to->count,
                        (double)(spc__now_ns() - m->start) * 1e-9);
    return status;
}

static void release_device(spc__large *large, const spc__fixture *fixture)
{
    spc__guarded *arrays[] = {&large->in, &large->residual, &large->out,
                              &large->workspace};

    spc_map_free(large->map);
    large->map = NULL;
    for (size_t i = 0; i < sizeof(arrays) / sizeof(arrays[0]); i++)
        spc__guarded_release(&fixture->guards, arrays[i], 1);
}

/* Frees the device memory that the scene uses. */
static void give_up(spc__large *large, const spc__fixture *fixture)
{
    spc__log_printf(&fixture->ctx->log, SPC_LOG_WARNING,
                    "skipping a large scene: %s",
                    spc__error_of(fixture->ctx)->text);
    spc__error_clear(spc__error_of(fixture->ctx));
    release_device(large, fixture);
    large->is_there = false;
}

/*
 * False for an inverse layer of nearest points: the oracle needs all outputs to
 * find the nearest of each.
 */
static bool is_for(const spc__fixture *fixture)
{
    const spc_conv *conv = &fixture->sample->conv;
    spc__operand weights = spc__operand_of(conv, SPC_OPERAND_WEIGHTS, 0);
    /* read_weights() converts positions to floats, which hold whole numbers
     * only up to 2^24. */
    bool indices_are_exact = weights.rows * weights.columns < 1 << 24;

    if (spc__conv_has_triplets(conv) && spc__conv_is_inverse(conv) &&
        conv->geometry.nearest > 0)
        return false;
    return fixture->sample->weights[SPC__COUNT] != NULL &&
           (conv->pass != SPC_DGRAD || indices_are_exact);
}

static void free_large(spc__large *large, const spc__fixture *fixture)
{
    release_device(large, fixture);
    free(large->got);
    free(large->exact);
    free(large->slack);
    free(large);
}

spc_status spc__fixture_large(spc__large **out, spc__fixture *fixture, int kind)
{
    spc__large *large = fixture->large[kind];
    maker m = {.fixture = fixture,
               .conv = &fixture->sample->conv,
               .start = spc__now_ns(),
               .error = spc__error_of(fixture->ctx)};

    *out = large;
    if (large != NULL)
        return SPC_OK;
    *out = m.to = large = fixture->large[kind] = calloc(1, sizeof(*large));
    if (large == NULL)
        return spc__fail_memory(m.error, sizeof(*large));
    fixture->free_large = free_large;
    if (!is_for(fixture))
        return SPC_OK;
    spc__random_init(&m.random,
                     fixture->sample->seed ^ 0x6c61726765 ^ (uint64_t)kind);
    spc_status status = spc__large_scene_create(&m.scene, fixture, kind);
    if (status == SPC_OK && m.scene != NULL)
        status = make(&m);
    spc_scene_free(m.scene);
    /* A candidate is not at fault for a scene that does not fit. */
    if (status == SPC_OK || status == SPC_EINTERRUPTED)
        return status;
    give_up(large, fixture);
    return SPC_OK;
}

/* ---- running ------------------------------------------------------------- */

/* Prepares map and workspace for this candidate. */
static spc_status prepare(spc__large *large, const spc__fixture *fixture,
                          spc_plan *plan)
{
    spc_status status =
        large->map != NULL ? spc_map_prepare(large->map, plan, NULL) : SPC_OK;

    return status == SPC_OK
               ? spc__guarded_lay(&fixture->guards, &large->workspace,
                                  spc__fixture_workspace_bytes(plan, large->map,
                                                               large->rows_out),
                                  0)
               : status;
}

/* Fetches the chosen rows only: the whole output has gigabytes. A gradient of
 * weights is small, and all of it is fetched. */
static spc_status fetch(const spc__large *large, const spc__fixture *fixture)
{
    spc__operand out = spc__operand_of(&fixture->sample->conv, SPC_OPERAND_OUT,
                                       large->rows_out);
    size_t element = spc__dtype_of(out.dtype)->bytes;
    size_t pitch = (size_t)out.pitch * element;
    spc_status status = SPC_OK;

    if (fixture->sample->conv.pass == SPC_WGRAD)
        return spc_memory_download(large->got, fixture->ctx, large->out.data,
                                   large->out.bytes);
    for (int64_t i = 0; i < large->count && status == SPC_OK; i++)
        status = spc_memory_download(
            (char *)large->got + (size_t)i * pitch, fixture->ctx,
            large->out.data + (size_t)large->at[i] * pitch,
            (size_t)out.columns * element);
    return status;
}

spc_status spc__large_run(spc__large *large, spc__fixture *fixture,
                          spc_plan *plan, const void *packed)
{
    spc_ctx *ctx = fixture->ctx;
    spc_buffers buffers = SPC_BUFFERS_INIT;
    spc_status status = prepare(large, fixture, plan);

    /* A candidate's workspace may exceed the memory. Then this test is skipped
     * for all later candidates, and the candidate does not fail. */
    if (status == SPC_ENOMEM) {
        give_up(large, fixture);
        return SPC_OK;
    }
    spc__fixture_buffers(&buffers, fixture, 0, SPC__COUNT);
    /* The vectors come from the sample; only the rows belong to this scene. */
    buffers.in = large->in.data;
    buffers.out = large->out.data;
    buffers.residual = large->residual.data;
    buffers.workspace = large->workspace.data;
    buffers.weights = packed;
    if (status == SPC_OK)
        status =
            spc__guarded_fill(&fixture->guards, &large->out, SPC__ZONE_BYTE);
    if (status == SPC_OK)
        status = spc__fixture_launch(plan, large->map, large->rows_out, NULL,
                                     &buffers, NULL);
    if (status == SPC_OK)
        status = spc_ctx_synchronize(ctx);
    return status == SPC_OK ? fetch(large, fixture) : status;
}
