/* SPDX-License-Identifier: Apache-2.0 */
/* bed.c - guarded arrays, maps, and one run on them. */
#include "lab/sample/bed.h"

#include "base/dtype.h"
#include "base/error.h"
#include "coords/map.h"
#include "lab/gate/large.h"
#include "operators/conv.h"
#include "operators/operands.h"
#include "plan/plan.h"
#include <stdlib.h>
#include <string.h>

enum { MAP_ZONE = 64 * 1024 };
_Static_assert((int)SPC__COORDS_ZONE == (int)SPC__ZONE_BYTE,
               "maps lie between zones of the same pattern");
_Static_assert((int)SPC__DIGEST_PAD == (int)SPC__ZONE_BYTE,
               "what digests count behind an odd array is a byte of its zone");

/* ---- places of arrays ---------------------------------------------------- */

/*
 * Places an array at an odd multiple of `place`; any multiple if that is
 * SPC__PLACES.
 */
static spc_status lay_at(spc__bed *bed, spc__guarded *to, size_t bytes,
                         size_t place)
{
    uint32_t odd = (uint32_t)(SPC__PLACES / place / 2);

    if (odd == 0)
        return spc__guarded_lay(&bed->guards, to, bytes, 0);
    return spc__guarded_lay(&bed->guards, to, bytes,
                            place *
                                (2 * spc__random_below(&bed->places, odd) + 1));
}

/*
 * Places new data at the old address, so that a kernel that remembers data by
 * address is found.
 */
static spc_status lay_again(spc__bed *bed, spc__guarded *to, size_t bytes,
                            size_t place)
{
    if (to->base == NULL || bytes > to->room)
        return lay_at(bed, to, bytes, place);
    return spc__guarded_lay(
        &bed->guards, to, bytes,
        (size_t)(spc__guarded_zone(&bed->guards, to) - to->base));
}

static spc_status upload(spc__bed *bed, spc__guarded *to, const void *from,
                         size_t bytes, size_t place)
{
    spc_status status = lay_again(bed, to, bytes, place);

    return status != SPC_OK || bytes == 0
               ? status
               : spc_memory_upload(to->data, bed->ctx, from, bytes);
}

/* ---- building ------------------------------------------------------------ */

/* Index of the array that holds a draw. */
static int array_of(const spc__bed *bed, int s, spc__draw draw)
{
    return s < bed->sample->given ? (int)draw : 0;
}

static spc_status upload_draw(spc__bed *bed, int s, spc__draw draw)
{
    const spc__sample_scene *scene = &bed->sample->scenes[s];
    int array = array_of(bed, s, draw);
    bool timed = draw == SPC__REAL && s < bed->sample->given;
    size_t place = timed ? SPC__PLACES : SPC__TENSOR_PLACE;
    spc__operand all[SPC_OPERANDS];

    spc__operands(all, &bed->sample->conv, scene->rows_in, scene->rows_out);
    bed->loaded[s] = draw;
    bed->in_digest[s][draw] =
        spc__digest_host(scene->in[draw], all[SPC_OPERAND_IN].bytes);
    spc_status status = upload(bed, &bed->in[s][array], scene->in[draw],
                               all[SPC_OPERAND_IN].bytes, place);
    if (status != SPC_OK || scene->residual[draw] == NULL)
        return status;
    bed->residual_digest[s][draw] = spc__digest_host(
        scene->residual[draw], all[SPC_OPERAND_RESIDUAL].bytes);
    return upload(bed, &bed->residual[s][array], scene->residual[draw],
                  all[SPC_OPERAND_RESIDUAL].bytes, place);
}

static spc_status upload_scene(spc__bed *bed, int s)
{
    spc_status status = SPC_OK;

    for (int d = 0; d < SPC__DRAWS && status == SPC_OK; d++)
        if (spc__sample_has(bed->sample, s, (spc__draw)d))
            status = upload_draw(bed, s, (spc__draw)d);
    return status;
}

bool spc__bed_is_loaded(const spc__bed *bed, int s, spc__draw draw)
{
    return spc__sample_has(bed->sample, s, draw) &&
           (s < bed->sample->given || bed->loaded[s] == draw);
}

spc_status spc__bed_load(spc__bed *bed, int s, spc__draw draw)
{
    return spc__bed_is_loaded(bed, s, draw) ? SPC_OK
                                            : upload_draw(bed, s, draw);
}

spc_status spc__bed_reload(spc__bed *bed, int s, spc__draw draw)
{
    return upload_draw(bed, s, draw);
}

static const void *in_of(const spc__bed *bed, int s, spc__draw draw)
{
    return bed->in[s][array_of(bed, s, draw)].data;
}

static spc_status upload_vectors(spc__bed *bed, int d)
{
    const spc__sample *sample = bed->sample;
    size_t place = d == SPC__REAL ? SPC__PLACES : SPC__VECTOR_PLACE;
    spc_status status = SPC_OK;

    if (sample->bias[d] != NULL)
        status = upload(
            bed, &bed->bias[d], sample->bias[d],
            spc__operand_of(&sample->conv, SPC_OPERAND_BIAS, 0).bytes, place);
    if (sample->scale[d] != NULL && status == SPC_OK)
        status = upload(
            bed, &bed->scale[d], sample->scale[d],
            spc__operand_of(&sample->conv, SPC_OPERAND_SCALE, 0).bytes, place);
    if (sample->weights[d] != NULL && status == SPC_OK)
        status = upload(bed, &bed->scales[d], &sample->scales[d],
                        sizeof(sample->scales[d]), place);
    return status;
}

/* ---- weights ------------------------------------------------------------- */

static spc_status digest_weights(const spc__bed *bed, uint64_t *digests)
{
    size_t zone = bed->guards.zone_bytes[false];
    spc_status status = spc__digester_begin(bed->digester);

    memset(digests, 0, sizeof(bed->weights_digest));
    for (int d = 0; d < SPC__DRAWS && status == SPC_OK; d++) {
        const spc__guarded *of = &bed->weights[d];
        if (of->base != NULL)
            status = spc__digester_add(
                bed->digester, of->data - zone,
                (size_t)(spc__guarded_end(of) - of->data) + 2 * zone);
    }
    return status == SPC_OK ? spc__digester_end(bed->digester, digests)
                            : status;
}

spc_weights_layout spc__bed_layout(spc__draw draw)
{
    return draw == SPC__WIDE ? SPC_RSCK : SPC_KRSC;
}

/*
 * Transposes KRSC to RSCK. The weights of a DGRAD are those of its layer, whose
 * outputs are the gradient's inputs.
 */
static void turn_weights(char *to, const char *from, const spc_conv *conv)
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
static spc_status upload_layout(spc__bed *bed, spc__draw draw, size_t bytes)
{
    const spc_conv *conv = &bed->sample->conv;
    size_t element = spc__dtype_of(conv->dtype)->bytes;
    size_t place = element > 2 ? element : 2;
    const void *weights = bed->sample->weights[draw];

    if (conv->pass == SPC_WGRAD || spc__bed_layout(draw) == SPC_KRSC)
        return upload(bed, &bed->weights[draw], weights, bytes, place);
    char *turned = malloc(bytes);
    if (turned == NULL)
        return spc__fail_memory(spc__error_of(bed->ctx), bytes);
    turn_weights(turned, weights, conv);
    spc_status status = upload(bed, &bed->weights[draw], turned, bytes, place);
    free(turned);
    return status;
}

static spc_status upload_weights(spc__bed *bed)
{
    const spc__sample *sample = bed->sample;
    size_t bytes = spc__operand_of(&sample->conv, SPC_OPERAND_WEIGHTS, 0).bytes;
    spc_status status = SPC_OK;

    for (int d = 0; d < SPC__DRAWS && status == SPC_OK; d++)
        if (sample->weights[d] != NULL && bytes > 0)
            status = upload_layout(bed, (spc__draw)d, bytes);
    return status == SPC_OK ? digest_weights(bed, bed->weights_digest) : status;
}

spc_status spc__bed_mend_weights(bool *held, spc__bed *bed)
{
    uint64_t digests[SPC__DRAWS];
    spc_status status = digest_weights(bed, digests);

    *held = status != SPC_OK ||
            memcmp(digests, bed->weights_digest, sizeof(digests)) == 0;
    return *held ? status : upload_weights(bed);
}

spc_status spc__bed_refill(spc__bed *bed)
{
    spc_status status = SPC_OK;

    for (int s = 0; s < bed->sample->scene_count && status == SPC_OK; s++)
        status = upload_scene(bed, s);
    for (int d = 0; d < SPC__DRAWS && status == SPC_OK; d++)
        status = upload_vectors(bed, d);
    return status == SPC_OK ? upload_weights(bed) : status;
}

/* A linear layer runs without maps. */
static bool is_linear(const spc__bed *bed)
{
    return spc_conv_is_linear(&bed->sample->conv);
}

spc_status spc__bed_build_map(spc_map **out, const spc__bed *bed, int s)
{
    const spc__sample_scene *scene = &bed->sample->scenes[s];
    spc_error *error = spc__error_of(bed->ctx);
    spc_scene *copy = NULL, *given = NULL;
    if (is_linear(bed))
        return SPC_OK;
    spc_status status =
        spc_scene_create(&copy, scene->coords, scene->voxels, "", error);

    if (status == SPC_OK && scene->given != NULL)
        status = spc_scene_create(&given, scene->given, scene->given_voxels, "",
                                  error);
    bed->ctx->zone_bytes = MAP_ZONE;
    if (status == SPC_OK)
        status = spc__map_create_between(out, bed->ctx, &bed->sample->conv,
                                         copy, given);
    bed->ctx->zone_bytes = 0;
    spc_scene_free(copy);
    spc_scene_free(given);
    return status;
}

spc_status spc__bed_remake_maps(spc__bed *bed)
{
    spc_status status = SPC_OK;

    for (int s = 0; s < bed->sample->scene_count && status == SPC_OK; s++) {
        spc_map_free(bed->maps[s]);
        bed->maps[s] = NULL;
        status = spc__bed_build_map(&bed->maps[s], bed, s);
    }
    return status == SPC_OK && bed->spare != NULL ? spc__bed_build_spare(bed)
                                                  : status;
}

static size_t out_bytes(const spc__bed *bed, int s)
{
    return spc__operand_of(&bed->sample->conv, SPC_OPERAND_OUT,
                           bed->sample->scenes[s].rows_out)
        .bytes;
}

static spc_status digest_zone(spc__bed *bed, bool is_far)
{
    size_t bytes = bed->guards.zone_bytes[is_far];
    void *zone = malloc(bytes);

    if (zone == NULL)
        return spc__fail_memory(spc__error_of(bed->ctx), bytes);
    memset(zone, SPC__ZONE_BYTE, bytes);
    bed->zone_digest[is_far] = spc__digest_host(zone, bytes);
    free(zone);
    return SPC_OK;
}

static spc_status build(spc__bed *bed)
{
    size_t most = 1;
    spc_status status = digest_zone(bed, false);

    if (status == SPC_OK)
        status = digest_zone(bed, true);
    if (status == SPC_OK)
        status = spc__digester_create(&bed->digester, bed->ctx);
    for (int s = 0; s < bed->sample->scene_count && status == SPC_OK; s++) {
        status = spc__bed_build_map(&bed->maps[s], bed, s);
        if (out_bytes(bed, s) > most)
            most = out_bytes(bed, s);
    }
    if (status == SPC_OK)
        status = spc__bed_build_spare(bed);
    if (status == SPC_OK && (status = spc__bed_refill(bed)) == SPC_OK)
        status = spc__guarded_reserve(&bed->guards, &bed->out, most);
    if (status == SPC_OK && (bed->host = malloc(most)) == NULL)
        status = spc__fail_memory(spc__error_of(bed->ctx), most);
    return status;
}

spc_status spc__bed_create(spc__bed **out, spc_ctx *ctx,
                           const spc__sample *sample)
{
    spc__bed *bed = calloc(1, sizeof(*bed));
    spc_status status;

    *out = NULL;
    if (bed == NULL)
        return spc__fail_memory(spc__error_of(ctx), sizeof(*bed));
    bed->ctx = ctx;
    bed->sample = sample;
    bed->ops = spc__device_ops_of(ctx->device);
    spc__guards_init(&bed->guards, ctx,
                     spc__operand_of(&sample->conv, SPC_OPERAND_OUT, 1).bytes);
    bed->out.is_far = bed->workspace.is_far = true;
    spc__random_init(&bed->places, sample->seed);
    if ((status = build(bed)) != SPC_OK) {
        spc__bed_free(bed);
        return status;
    }
    *out = bed;
    return SPC_OK;
}

void spc__bed_free(spc__bed *bed)
{
    if (bed == NULL)
        return;
    for (int i = 0; i < SPC__LARGES; i++)
        spc__large_free(bed->large[i], bed);
    for (int s = 0; s < bed->sample->scene_count; s++) {
        spc_map_free(bed->maps[s]);
        for (int d = 0; d < SPC__DRAWS; d++) {
            spc__guarded_release(&bed->guards, &bed->in[s][d]);
            spc__guarded_release(&bed->guards, &bed->residual[s][d]);
        }
    }
    for (int d = 0; d < SPC__DRAWS; d++) {
        spc__guarded_release(&bed->guards, &bed->weights[d]);
        spc__guarded_release(&bed->guards, &bed->bias[d]);
        spc__guarded_release(&bed->guards, &bed->scale[d]);
        spc__guarded_release(&bed->guards, &bed->scales[d]);
        spc__guarded_release(&bed->guards, &bed->packed[d]);
    }
    spc__bed_free_spare(bed);
    spc__guarded_release(&bed->guards, &bed->out);
    spc__guarded_release(&bed->guards, &bed->workspace);
    spc_memory_free(bed->ctx, bed->count);
    spc__digester_free(bed->digester);
    free(bed->host);
    free(bed);
}

/* ---- a candidate --------------------------------------------------------- */

/* The rows that a linear layer runs on. */
static int64_t linear_rows(const spc__bed *bed, int s)
{
    return s == bed->counted && bed->count != NULL
               ? bed->capacity
               : bed->sample->scenes[s].rows_out;
}

static size_t workspace_bytes(const spc__bed *bed, const spc_plan *plan, int s)
{
    return is_linear(bed)
               ? spc_plan_workspace_bytes_linear(plan, linear_rows(bed, s))
               : spc_plan_workspace_bytes(plan, bed->maps[s]);
}

spc_status spc__bed_prepare(spc__bed *bed, spc_plan *plan)
{
    spc_status status = is_linear(bed) ? spc__plan_take_rows(plan) : SPC_OK;

    for (int s = 0; s < bed->sample->scene_count && status == SPC_OK; s++) {
        if (!is_linear(bed))
            status = spc_map_prepare(bed->maps[s], plan, NULL);
        if (status == SPC_OK)
            status = spc__guarded_reserve(&bed->guards, &bed->workspace,
                                          workspace_bytes(bed, plan, s));
    }
    if (status == SPC_OK && bed->spare != NULL)
        status = spc_map_prepare(bed->spare, plan, NULL);
    return status;
}

spc_status spc__bed_pack(const spc__bed *bed, spc__guarded *to,
                         const spc_plan *plan, spc__draw draw)
{
    size_t bytes = spc_plan_weights_bytes(plan);
    spc_status status = spc__guarded_lay(&bed->guards, to, bytes, 0);

    /* Elements that packing skips must not keep values of another plan. */
    if (status == SPC_OK)
        status = spc__guarded_fill(&bed->guards, to, SPC__ZONE_BYTE);
    if (status != SPC_OK || (bed->sample->conv.pass == SPC_WGRAD && bytes == 0))
        return status;
    if (bed->sample->conv.pass == SPC_WGRAD) /* an existing gradient */
        return spc_memory_upload(to->data, bed->ctx, bed->sample->weights[draw],
                                 bytes);
    return spc_plan_pack(to->data, plan, bed->weights[draw].data,
                         spc__bed_layout(draw), NULL);
}

static spc_status set(spc__bed *bed, const spc_plan *plan, int s, size_t place)
{
    spc_status status = lay_at(bed, &bed->out, out_bytes(bed, s), place);

    bed->out_rows = bed->sample->scenes[s].rows_out;
    if (status != SPC_OK)
        return status;
    return spc__guarded_lay(&bed->guards, &bed->workspace,
                            workspace_bytes(bed, plan, s), 0);
}

spc_status spc__bed_set(spc__bed *bed, const spc_plan *plan, int s)
{
    return set(bed, plan, s, SPC__TENSOR_PLACE);
}

spc_status spc__bed_set_timed(spc__bed *bed, const spc_plan *plan, int s)
{
    return set(bed, plan, s, SPC__PLACES);
}

/*
 * Devices fill contiguous bytes only, so rows with gaps are made on the host.
 */
spc_status spc__bed_fill_out(spc__bed *bed, int byte)
{
    spc__operand out =
        spc__operand_of(&bed->sample->conv, SPC_OPERAND_OUT, bed->out_rows);
    size_t element = spc__dtype_of(out.dtype)->bytes;
    char *rows = bed->host;

    if (out.bytes == out.dense_bytes || byte == SPC__ZONE_BYTE)
        return spc__guarded_fill(&bed->guards, &bed->out, byte);
    memset(rows, SPC__ZONE_BYTE, out.bytes);
    for (int64_t row = 0; row < out.rows; row++)
        memset(rows + (size_t)(row * out.pitch) * element, byte,
               (size_t)out.columns * element);
    return spc_memory_upload(bed->out.data, bed->ctx, rows, out.bytes);
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

void spc__bed_buffers(spc_buffers *out, const spc__bed *bed, int s,
                      spc__draw draw)
{
    *out = (spc_buffers){
        .in = in_of(bed, s, draw),
        .out = bed->out.data,
        .bias = (const float *)bed->bias[draw].data,
        .workspace = bed->workspace.data,
        .scale = (const float *)bed->scale[draw].data,
        .residual = bed->residual[s][array_of(bed, s, draw)].data,
    };
    point_at_scales(out, &bed->scales[draw]);
}

spc_status spc__bed_execute_on(const spc__bed *bed, const spc_plan *plan, int s,
                               const spc_buffers *buffers, void *stream)
{
    return is_linear(bed)
               ? spc_plan_execute_linear(plan, linear_rows(bed, s),
                                         s == bed->counted ? bed->count : NULL,
                                         buffers, stream)
               : spc_plan_execute(plan, bed->maps[s], buffers, stream);
}

spc_status spc__bed_execute(const spc__bed *bed, const spc_plan *plan, int s,
                            spc__draw draw, const void *packed, void *stream)
{
    spc_buffers buffers;
    spc_status status = spc__ctx_check_cancel(bed->ctx);

    if (status != SPC_OK)
        return status;
    spc__bed_buffers(&buffers, bed, s, draw);
    buffers.weights = packed;
    return spc__bed_execute_on(bed, plan, s, &buffers, stream);
}

spc_status spc__bed_fetch(const spc__bed *bed)
{
    if (bed->out.bytes == 0)
        return SPC_OK;
    return spc_memory_download(bed->host, bed->ctx, bed->out.data,
                               bed->out.bytes);
}
