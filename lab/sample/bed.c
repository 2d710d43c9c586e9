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

/*
 * Guard zones. A faulty kernel writes whole tiles, so zones have room for this
 * many rows of results.
 */
enum {
    LEAST_ZONE = 4096,
    LEAST_FAR_ZONE = 64 * 1024,
    MAP_ZONE = 64 * 1024,
    ZONE_ROWS = 256
};
_Static_assert((int)SPC__COORDS_ZONE == (int)SPC__ZONE_BYTE,
               "maps lie between zones of the same pattern");

static size_t round_up(size_t bytes)
{
    return (bytes + SPC__PLACES - 1) / SPC__PLACES * SPC__PLACES;
}

static spc_status fill(const spc__bed *bed, void *to, int byte, size_t bytes)
{
    if (bytes == 0)
        return SPC_OK;
    return bed->ops->fill(bed->ctx->device, to, byte, bytes, NULL,
                          spc__error_of(bed->ctx));
}

/* ---- guarded arrays ------------------------------------------------------ */

void spc__bed_release(const spc__bed *bed, spc__guarded *guarded)
{
    spc_memory_free(bed->ctx, guarded->base);
    memset(guarded, 0, sizeof(*guarded));
}

/* A candidate that needs more than the device has at all is refused. A failed
 * allocation of less is trouble of the device and not the candidate's. */
static spc_status check_size(const spc__bed *bed, size_t bytes)
{
    const spc_device_info *info = &bed->ctx->info;

    return info->memory_bytes == 0 || bytes <= info->memory_bytes
               ? SPC_OK
               : spc__fail(spc__error_of(bed->ctx), SPC_ECAPACITY,
                           "memory: an array needs %zu bytes, and %s has %zu",
                           bytes, info->id, info->memory_bytes);
}

spc_status spc__bed_reserve(const spc__bed *bed, spc__guarded *to, size_t bytes)
{
    if (to->base != NULL && bytes <= to->room)
        return SPC_OK;
    if (check_size(bed, bytes) != SPC_OK)
        return SPC_ECAPACITY;
    spc__bed_release(bed, to);
    to->room = round_up(bytes);
    to->is_far = to == &bed->out || to == &bed->workspace;
    size_t zone = bed->zone_bytes[to->is_far];
    spc_status status = spc_memory_alloc((void **)&to->base, bed->ctx,
                                         to->room + 2 * zone + SPC__PLACES);
    to->data = status == SPC_OK ? to->base + zone : NULL;
    return status;
}

_Static_assert((int)SPC__DIGEST_PAD == (int)SPC__ZONE_BYTE,
               "what digests count behind an odd array is a byte of its zone");

char *spc__guarded_zone(const spc__bed *bed, const spc__guarded *of)
{
    return of->data - bed->zone_bytes[of->is_far];
}

char *spc__guarded_end(const spc__guarded *of)
{
    return of->data + (of->bytes + 1) / 2 * 2;
}

static spc_status lay(const spc__bed *bed, spc__guarded *to, size_t bytes,
                      size_t behind)
{
    spc_status status = spc__bed_reserve(bed, to, bytes);

    if (status != SPC_OK)
        return status;
    size_t zone = bed->zone_bytes[to->is_far];
    to->bytes = bytes;
    to->data = to->base + zone + behind;
    if ((status = fill(bed, to->data - zone, SPC__ZONE_BYTE, zone)) != SPC_OK)
        return status;
    return fill(bed, to->data + bytes, SPC__ZONE_BYTE, zone + bytes % 2);
}

spc_status spc__bed_lay(const spc__bed *bed, spc__guarded *to, size_t bytes)
{
    return lay(bed, to, bytes, 0);
}

/*
 * Places an array at an odd multiple of `place`; any multiple if that is
 * SPC__PLACES.
 */
static spc_status lay_at(spc__bed *bed, spc__guarded *to, size_t bytes,
                         size_t place)
{
    uint32_t odd = (uint32_t)(SPC__PLACES / place / 2);

    if (odd == 0)
        return lay(bed, to, bytes, 0);
    return lay(bed, to, bytes,
               place * (2 * spc__random_below(&bed->places, odd) + 1));
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
    return lay(bed, to, bytes,
               (size_t)(to->data - to->base) - bed->zone_bytes[to->is_far]);
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
    size_t zone = bed->zone_bytes[false];
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

static spc_status choose_zone(spc__bed *bed, bool is_far)
{
    size_t rows =
        spc__operand_of(&bed->sample->conv, SPC_OPERAND_OUT, ZONE_ROWS).bytes;
    size_t least = is_far ? LEAST_FAR_ZONE : LEAST_ZONE;
    size_t bytes = round_up(rows > least ? rows : least);
    void *zone = malloc(bytes);

    if (zone == NULL)
        return spc__fail_memory(spc__error_of(bed->ctx), bytes);
    memset(zone, SPC__ZONE_BYTE, bytes);
    bed->zone_bytes[is_far] = bytes;
    bed->zone_digest[is_far] = spc__digest_host(zone, bytes);
    free(zone);
    return SPC_OK;
}

static spc_status build(spc__bed *bed)
{
    size_t most = 1;
    spc_status status = choose_zone(bed, false);

    if (status == SPC_OK)
        status = choose_zone(bed, true);
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
        status = spc__bed_reserve(bed, &bed->out, most);
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
            spc__bed_release(bed, &bed->in[s][d]);
            spc__bed_release(bed, &bed->residual[s][d]);
        }
    }
    for (int d = 0; d < SPC__DRAWS; d++) {
        spc__bed_release(bed, &bed->weights[d]);
        spc__bed_release(bed, &bed->bias[d]);
        spc__bed_release(bed, &bed->scale[d]);
        spc__bed_release(bed, &bed->scales[d]);
        spc__bed_release(bed, &bed->packed[d]);
    }
    spc__bed_free_spare(bed);
    spc__bed_release(bed, &bed->out);
    spc__bed_release(bed, &bed->workspace);
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
            status = spc__bed_reserve(bed, &bed->workspace,
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
    spc_status status = spc__bed_lay(bed, to, bytes);

    /* Elements that packing skips must not keep values of another plan. */
    if (status == SPC_OK)
        status = fill(bed, to->data, SPC__ZONE_BYTE, to->bytes);
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
    return spc__bed_lay(bed, &bed->workspace, workspace_bytes(bed, plan, s));
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
        return fill(bed, bed->out.data, byte, bed->out.bytes);
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
