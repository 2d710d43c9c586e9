/* SPDX-License-Identifier: Apache-2.0 */
/* fixture.c - guarded arrays, maps, and one run on them. */
#include "lab/sample/fixture.h"

#include "base/dtype.h"
#include "base/error.h"
#include "coords/map.h"
#include "operators/conv.h"
#include "operators/operands.h"
#include "plan/plan.h"
#include <stdlib.h>
#include <string.h>

enum { MAP_ZONE = 64 * 1024 };
_Static_assert((int)SPC__COORDS_ZONE == (int)SPC__ZONE_BYTE,
               "maps lie between zones of the same pattern");
_Static_assert(
    (int)SPC__DIGEST_PAD == (int)SPC__ZONE_BYTE,
    "the byte that digests count after an odd array belongs to its zone");

/* ---- positions of arrays ------------------------------------------------- */

/*
 * Places an array at an odd multiple of `align`; any multiple if that is
 * SPC__ALIGN_TIMED.
 */
static spc_status lay_at(spc__fixture *fixture, spc__guarded *to, size_t bytes,
                         size_t align)
{
    uint32_t odd = (uint32_t)(SPC__ALIGN_TIMED / align / 2);

    if (odd == 0)
        return spc__guarded_lay(&fixture->guards, to, bytes, 0);
    return spc__guarded_lay(
        &fixture->guards, to, bytes,
        align * (2 * spc__random_below(&fixture->offsets, odd) + 1));
}

/*
 * Places new data at the old address, so that a kernel that remembers data by
 * address is found.
 */
static spc_status lay_again(spc__fixture *fixture, spc__guarded *to,
                            size_t bytes, size_t align)
{
    if (to->base == NULL || bytes > to->capacity)
        return lay_at(fixture, to, bytes, align);
    return spc__guarded_lay(
        &fixture->guards, to, bytes,
        (size_t)(spc__guarded_zone(&fixture->guards, to) - to->base));
}

static spc_status upload(spc__fixture *fixture, spc__guarded *to,
                         const void *from, size_t bytes, size_t align)
{
    spc_status status = lay_again(fixture, to, bytes, align);

    return status != SPC_OK || bytes == 0
               ? status
               : spc_memory_upload(to->data, fixture->ctx, from, bytes);
}

/* ---- building ------------------------------------------------------------ */

/* Index of the array that holds a data set. */
static int array_of(const spc__fixture *fixture, int s, spc__dataset dataset)
{
    return s < fixture->sample->given ? (int)dataset : 0;
}

/* Uploads inputs and residual of a scene. Their digests are computed from the
 * host's copy, so an upload that fails silently is seen. */
static spc_status upload_dataset(spc__fixture *fixture, int s,
                                 spc__dataset dataset)
{
    const spc__sample_scene *scene = &fixture->sample->scenes[s];
    int array = array_of(fixture, s, dataset);
    /* Only arrays that are timed are aligned well: see guarded.h. */
    bool timed = dataset == SPC__REAL && s < fixture->sample->given;
    size_t align = timed ? SPC__ALIGN_TIMED : SPC__ALIGN_TENSOR;
    spc__operand all[SPC_OPERANDS];

    spc__operands(all, &fixture->sample->conv, scene->rows_in, scene->rows_out);
    fixture->loaded[s] = dataset;
    fixture->in_digest[s][dataset] =
        spc__digest_host(scene->in[dataset], all[SPC_OPERAND_IN].bytes);
    spc_status status =
        upload(fixture, &fixture->in[s][array], scene->in[dataset],
               all[SPC_OPERAND_IN].bytes, align);
    if (status != SPC_OK || scene->residual[dataset] == NULL)
        return status;
    fixture->residual_digest[s][dataset] = spc__digest_host(
        scene->residual[dataset], all[SPC_OPERAND_RESIDUAL].bytes);
    return upload(fixture, &fixture->residual[s][array],
                  scene->residual[dataset], all[SPC_OPERAND_RESIDUAL].bytes,
                  align);
}

static spc_status upload_scene(spc__fixture *fixture, int s)
{
    spc_status status = SPC_OK;

    for (int d = 0; d < SPC__DATASETS && status == SPC_OK; d++)
        if (spc__sample_has(fixture->sample, s, (spc__dataset)d))
            status = upload_dataset(fixture, s, (spc__dataset)d);
    return status;
}

bool spc__fixture_is_loaded(const spc__fixture *fixture, int s,
                            spc__dataset dataset)
{
    return spc__sample_has(fixture->sample, s, dataset) &&
           (s < fixture->sample->given || fixture->loaded[s] == dataset);
}

spc_status spc__fixture_load(spc__fixture *fixture, int s, spc__dataset dataset)
{
    return spc__fixture_is_loaded(fixture, s, dataset)
               ? SPC_OK
               : upload_dataset(fixture, s, dataset);
}

spc_status spc__fixture_reload(spc__fixture *fixture, int s,
                               spc__dataset dataset)
{
    return upload_dataset(fixture, s, dataset);
}

static const void *in_of(const spc__fixture *fixture, int s,
                         spc__dataset dataset)
{
    return fixture->in[s][array_of(fixture, s, dataset)].data;
}

/* Uploads bias, scales of channels, and scales of tensors. */
static spc_status upload_vectors(spc__fixture *fixture, int d)
{
    const spc__sample *sample = fixture->sample;
    size_t align = d == SPC__REAL ? SPC__ALIGN_TIMED : SPC__ALIGN_VECTOR;
    spc_status status = SPC_OK;

    if (sample->bias[d] != NULL)
        status = upload(
            fixture, &fixture->bias[d], sample->bias[d],
            spc__operand_of(&sample->conv, SPC_OPERAND_BIAS, 0).bytes, align);
    if (sample->scale[d] != NULL && status == SPC_OK)
        status = upload(
            fixture, &fixture->scale[d], sample->scale[d],
            spc__operand_of(&sample->conv, SPC_OPERAND_SCALE, 0).bytes, align);
    if (sample->weights[d] != NULL && status == SPC_OK)
        status = upload(fixture, &fixture->scales[d], &sample->scales[d],
                        sizeof(sample->scales[d]), align);
    return status;
}

/* ---- weights ------------------------------------------------------------- */

/* Digests the unpacked weights with their zones, which packing may only
 * read. */
static spc_status digest_weights(const spc__fixture *fixture, uint64_t *digests)
{
    size_t zone = fixture->guards.zone_bytes[false];
    spc_status status = spc__digester_begin(fixture->digester);

    /* Data sets without weights must compare as equal. */
    memset(digests, 0, sizeof(fixture->weights_digest));
    for (int d = 0; d < SPC__DATASETS && status == SPC_OK; d++) {
        const spc__guarded *of = &fixture->weights[d];
        if (of->base != NULL)
            status = spc__digester_add(
                fixture->digester, of->data - zone,
                (size_t)(spc__guarded_end(of) - of->data) + 2 * zone);
    }
    return status == SPC_OK ? spc__digester_end(fixture->digester, digests)
                            : status;
}

spc_weights_layout spc__fixture_layout(spc__dataset dataset)
{
    return dataset == SPC__WIDE ? SPC_RSCK : SPC_KRSC;
}

/*
 * Transposes KRSC to RSCK. The weights of a DGRAD are those of its layer, whose
 * outputs are the gradient's inputs.
 */
static void transpose_weights(char *to, const char *from, const spc_conv *conv)
{
    bool is_dgrad = conv->pass == SPC_DGRAD;
    size_t element = spc__dtype_of(conv->dtype)->bytes;
    size_t outputs = (size_t)(is_dgrad ? conv->cin : conv->cout);
    size_t inputs = (size_t)spc__conv_offsets(conv) *
                    (size_t)(is_dgrad ? spc__conv_group_out(conv)
                                      : spc__conv_group_in(conv));

    for (size_t out = 0; out < outputs; out++)
        for (size_t in = 0; in < inputs; in++)
            memcpy(to + (in * outputs + out) * element,
                   from + (out * inputs + in) * element, element);
}

/*
 * Places weights at an odd multiple of an element, as no more is promised;
 * digests read two bytes at once.
 */
static spc_status upload_layout(spc__fixture *fixture, spc__dataset dataset,
                                size_t bytes)
{
    const spc_conv *conv = &fixture->sample->conv;
    size_t element = spc__dtype_of(conv->dtype)->bytes;
    size_t align = element > 2 ? element : 2;
    const void *weights = fixture->sample->weights[dataset];

    if (conv->pass == SPC_WGRAD || spc__fixture_layout(dataset) == SPC_KRSC)
        return upload(fixture, &fixture->weights[dataset], weights, bytes,
                      align);
    char *transposed = malloc(bytes);
    if (transposed == NULL)
        return spc__fail_memory(spc__error_of(fixture->ctx), bytes);
    transpose_weights(transposed, weights, conv);
    spc_status status =
        upload(fixture, &fixture->weights[dataset], transposed, bytes, align);
    free(transposed);
    return status;
}

/* Uploads the weights of each data set in the caller's layout. */
static spc_status upload_weights(spc__fixture *fixture)
{
    const spc__sample *sample = fixture->sample;
    size_t bytes = spc__operand_of(&sample->conv, SPC_OPERAND_WEIGHTS, 0).bytes;
    spc_status status = SPC_OK;

    for (int d = 0; d < SPC__DATASETS && status == SPC_OK; d++)
        if (sample->weights[d] != NULL && bytes > 0)
            status = upload_layout(fixture, (spc__dataset)d, bytes);
    return status == SPC_OK ? digest_weights(fixture, fixture->weights_digest)
                            : status;
}

spc_status spc__fixture_mend_weights(bool *held, spc__fixture *fixture)
{
    uint64_t digests[SPC__DATASETS];
    spc_status status = digest_weights(fixture, digests);

    /* A failure to read gives no verdict. */
    *held = status != SPC_OK ||
            memcmp(digests, fixture->weights_digest, sizeof(digests)) == 0;
    return *held ? status : upload_weights(fixture);
}

spc_status spc__fixture_refill(spc__fixture *fixture)
{
    spc_status status = SPC_OK;

    for (int s = 0; s < fixture->sample->scene_count && status == SPC_OK; s++)
        status = upload_scene(fixture, s);
    for (int d = 0; d < SPC__DATASETS && status == SPC_OK; d++)
        status = upload_vectors(fixture, d);
    return status == SPC_OK ? upload_weights(fixture) : status;
}

/* A linear layer runs without maps. */
static bool is_linear(const spc__fixture *fixture)
{
    return spc_conv_is_linear(&fixture->sample->conv);
}

spc_status spc__fixture_build_map(spc_map **out, const spc__fixture *fixture,
                                  int s)
{
    const spc__sample_scene *scene = &fixture->sample->scenes[s];
    spc_error *error = spc__error_of(fixture->ctx);
    spc_scene *copy = NULL, *given = NULL;
    if (is_linear(fixture))
        return SPC_OK;
    spc_status status =
        spc_scene_create(&copy, scene->coords, scene->voxels, "", error);

    if (status == SPC_OK && scene->given != NULL)
        status = spc_scene_create(&given, scene->given, scene->given_voxels, "",
                                  error);
    /* Only this map gets zones around its arrays: the context is set back at
     * once. */
    fixture->ctx->zone_bytes = MAP_ZONE;
    if (status == SPC_OK)
        status = spc__map_create_between(out, fixture->ctx,
                                         &fixture->sample->conv, copy, given);
    fixture->ctx->zone_bytes = 0;
    spc_scene_free(copy);
    spc_scene_free(given);
    return status;
}

spc_status spc__fixture_remake_maps(spc__fixture *fixture)
{
    spc_status status = SPC_OK;

    for (int s = 0; s < fixture->sample->scene_count && status == SPC_OK; s++) {
        spc_map_free(fixture->maps[s]);
        fixture->maps[s] = NULL;
        status = spc__fixture_build_map(&fixture->maps[s], fixture, s);
    }
    return status == SPC_OK && fixture->spare != NULL
               ? spc__fixture_build_spare(fixture)
               : status;
}

static size_t out_bytes(const spc__fixture *fixture, int s)
{
    return spc__operand_of(&fixture->sample->conv, SPC_OPERAND_OUT,
                           fixture->sample->scenes[s].rows_out)
        .bytes;
}

/* The digest of an untouched zone. */
static spc_status digest_zone(spc__fixture *fixture, bool is_far)
{
    size_t bytes = fixture->guards.zone_bytes[is_far];
    void *zone = malloc(bytes);

    if (zone == NULL)
        return spc__fail_memory(spc__error_of(fixture->ctx), bytes);
    memset(zone, SPC__ZONE_BYTE, bytes);
    fixture->zone_digest[is_far] = spc__digest_host(zone, bytes);
    free(zone);
    return SPC_OK;
}

/* Builds maps and arrays. The output is reserved for the largest scene: one
 * array serves all. */
static spc_status build(spc__fixture *fixture)
{
    size_t most = 1;
    spc_status status = digest_zone(fixture, false);

    if (status == SPC_OK)
        status = digest_zone(fixture, true);
    if (status == SPC_OK)
        status = spc__digester_create(&fixture->digester, fixture->ctx);
    for (int s = 0; s < fixture->sample->scene_count && status == SPC_OK; s++) {
        status = spc__fixture_build_map(&fixture->maps[s], fixture, s);
        if (out_bytes(fixture, s) > most)
            most = out_bytes(fixture, s);
    }
    if (status == SPC_OK)
        status = spc__fixture_build_spare(fixture);
    if (status == SPC_OK && (status = spc__fixture_refill(fixture)) == SPC_OK)
        status = spc__guarded_reserve(&fixture->guards, &fixture->out, most);
    if (status == SPC_OK && (fixture->host = malloc(most)) == NULL)
        status = spc__fail_memory(spc__error_of(fixture->ctx), most);
    return status;
}

spc_status spc__fixture_create(spc__fixture **out, spc_ctx *ctx,
                               const spc__sample *sample)
{
    spc__fixture *fixture = calloc(1, sizeof(*fixture));
    spc_status status;

    *out = NULL;
    if (fixture == NULL)
        return spc__fail_memory(spc__error_of(ctx), sizeof(*fixture));
    fixture->ctx = ctx;
    fixture->sample = sample;
    fixture->ops = spc__device_ops_of(ctx->device);
    spc__guards_init(&fixture->guards, ctx,
                     spc__operand_of(&sample->conv, SPC_OPERAND_OUT, 1).bytes);
    fixture->out.is_far = fixture->workspace.is_far = true;
    spc__random_init(&fixture->offsets, sample->seed);
    if ((status = build(fixture)) != SPC_OK) {
        spc__fixture_free(fixture);
        return status;
    }
    *out = fixture;
    return SPC_OK;
}

void spc__fixture_free(spc__fixture *fixture)
{
    if (fixture == NULL)
        return;
    for (int i = 0; i < SPC__LARGES; i++)
        if (fixture->large[i] != NULL)
            fixture->free_large(fixture->large[i], fixture);
    const spc__guards *guards = &fixture->guards;
    for (int s = 0; s < fixture->sample->scene_count; s++) {
        spc_map_free(fixture->maps[s]);
        spc__guarded_release(guards, fixture->in[s], SPC__DATASETS);
        spc__guarded_release(guards, fixture->residual[s], SPC__DATASETS);
    }
    spc__guarded_release(guards, fixture->weights, SPC__DATASETS);
    spc__guarded_release(guards, fixture->bias, SPC__DATASETS);
    spc__guarded_release(guards, fixture->scale, SPC__DATASETS);
    spc__guarded_release(guards, fixture->scales, SPC__DATASETS);
    spc__guarded_release(guards, fixture->packed, SPC__DATASETS);
    spc__fixture_free_spare(fixture);
    spc__guarded_release(guards, &fixture->out, 1);
    spc__guarded_release(guards, &fixture->workspace, 1);
    spc_memory_free(fixture->ctx, fixture->count);
    spc__digester_free(fixture->digester);
    free(fixture->host);
    free(fixture);
}

/* ---- a candidate --------------------------------------------------------- */

/* Returns the rows on which a linear layer runs. */
static int64_t linear_rows(const spc__fixture *fixture, int s)
{
    return s == fixture->counted && fixture->count != NULL
               ? fixture->capacity
               : fixture->sample->scenes[s].rows_out;
}

size_t spc__fixture_workspace_bytes(const spc_plan *plan, const spc_map *map,
                                    int64_t rows)
{
    return map != NULL ? spc_plan_workspace_bytes(plan, map)
                       : spc_plan_workspace_bytes_linear(plan, rows);
}

static size_t workspace_bytes(const spc__fixture *fixture, const spc_plan *plan,
                              int s)
{
    return spc__fixture_workspace_bytes(plan, fixture->maps[s],
                                        linear_rows(fixture, s));
}

spc_status spc__fixture_prepare(spc__fixture *fixture, spc_plan *plan)
{
    spc_status status = is_linear(fixture) ? spc__plan_take_rows(plan) : SPC_OK;

    for (int s = 0; s < fixture->sample->scene_count && status == SPC_OK; s++) {
        if (!is_linear(fixture))
            status = spc_map_prepare(fixture->maps[s], plan, NULL);
        if (status == SPC_OK)
            status = spc__guarded_reserve(&fixture->guards, &fixture->workspace,
                                          workspace_bytes(fixture, plan, s));
    }
    if (status == SPC_OK && fixture->spare != NULL)
        status = spc_map_prepare(fixture->spare, plan, NULL);
    return status;
}

spc_status spc__fixture_pack(const spc__fixture *fixture, spc__guarded *to,
                             const spc_plan *plan, spc__dataset dataset)
{
    size_t bytes = spc_plan_weights_bytes(plan);
    /* Elements that packing skips must not keep values of another plan. */
    spc_status status = spc__guarded_clear(&fixture->guards, to, bytes, 0);

    if (status != SPC_OK ||
        (fixture->sample->conv.pass == SPC_WGRAD && bytes == 0))
        return status;
    /* the gradient to which the layer adds */
    if (fixture->sample->conv.pass == SPC_WGRAD)
        return spc_memory_upload(to->data, fixture->ctx,
                                 fixture->sample->weights[dataset], bytes);
    return spc_plan_pack(to->data, plan, fixture->weights[dataset].data,
                         spc__fixture_layout(dataset), NULL);
}

/* Lays out output and workspace for scene s, each with zones around it. */
static spc_status set(spc__fixture *fixture, const spc_plan *plan, int s,
                      size_t align)
{
    spc_status status =
        lay_at(fixture, &fixture->out, out_bytes(fixture, s), align);

    fixture->out_rows = fixture->sample->scenes[s].rows_out;
    if (status != SPC_OK)
        return status;
    return spc__guarded_lay(&fixture->guards, &fixture->workspace,
                            workspace_bytes(fixture, plan, s), 0);
}

spc_status spc__fixture_set(spc__fixture *fixture, const spc_plan *plan, int s)
{
    return set(fixture, plan, s, SPC__ALIGN_TENSOR);
}

spc_status spc__fixture_set_timed(spc__fixture *fixture, const spc_plan *plan,
                                  int s)
{
    return set(fixture, plan, s, SPC__ALIGN_TIMED);
}

/*
 * Devices fill contiguous bytes only, so rows with gaps are made on the host.
 */
spc_status spc__fixture_fill_out(spc__fixture *fixture, int byte)
{
    spc__operand out = spc__operand_of(&fixture->sample->conv, SPC_OPERAND_OUT,
                                       fixture->out_rows);
    size_t element = spc__dtype_of(out.dtype)->bytes;
    char *rows = fixture->host;

    if (out.bytes == out.dense_bytes || byte == SPC__ZONE_BYTE)
        return spc__guarded_fill(&fixture->guards, &fixture->out, byte);
    memset(rows, SPC__ZONE_BYTE, out.bytes);
    for (int64_t row = 0; row < out.rows; row++)
        memset(rows + (size_t)(row * out.pitch) * element, byte,
               (size_t)out.columns * element);
    return spc_memory_upload(fixture->out.data, fixture->ctx, rows, out.bytes);
}

/* Sets the scales; those of absent tensors are ignored. */
static void point_at_scales(spc_buffers *buffers, const spc__guarded *scales)
{
    buffers->in_scale =
        (const float *)(scales->data + offsetof(spc_scales, in));
    buffers->out_scale =
        (const float *)(scales->data + offsetof(spc_scales, out));
    buffers->residual_scale =
        (const float *)(scales->data + offsetof(spc_scales, residual));
}

void spc__fixture_buffers(spc_buffers *out, const spc__fixture *fixture, int s,
                          spc__dataset dataset)
{
    *out = (spc_buffers){
        .bytes = sizeof(spc_buffers),
        .in = in_of(fixture, s, dataset),
        .out = fixture->out.data,
        .bias = (const float *)fixture->bias[dataset].data,
        .workspace = fixture->workspace.data,
        .scale = (const float *)fixture->scale[dataset].data,
        .residual = fixture->residual[s][array_of(fixture, s, dataset)].data,
    };
    point_at_scales(out, &fixture->scales[dataset]);
}

spc_status spc__fixture_launch(const spc_plan *plan, const spc_map *map,
                               int64_t rows, const int32_t *count,
                               const spc_buffers *buffers, void *stream)
{
    return map != NULL
               ? spc_plan_execute(plan, map, buffers, stream)
               : spc_plan_execute_linear(plan, rows, count, buffers, stream);
}

spc_status spc__fixture_execute_on(const spc__fixture *fixture,
                                   const spc_plan *plan, int s,
                                   const spc_buffers *buffers, void *stream)
{
    return spc__fixture_launch(plan, fixture->maps[s], linear_rows(fixture, s),
                               s == fixture->counted ? fixture->count : NULL,
                               buffers, stream);
}

spc_status spc__fixture_execute(const spc__fixture *fixture,
                                const spc_plan *plan, int s,
                                spc__dataset dataset, const void *packed,
                                void *stream)
{
    spc_buffers buffers = SPC_BUFFERS_INIT;
    spc_status status = spc__ctx_check_cancel(fixture->ctx);

    if (status != SPC_OK)
        return status;
    spc__fixture_buffers(&buffers, fixture, s, dataset);
    buffers.weights = packed;
    return spc__fixture_execute_on(fixture, plan, s, &buffers, stream);
}

spc_status spc__fixture_fetch(const spc__fixture *fixture)
{
    if (fixture->out.bytes == 0)
        return SPC_OK;
    return spc_memory_download(fixture->host, fixture->ctx, fixture->out.data,
                               fixture->out.bytes);
}
