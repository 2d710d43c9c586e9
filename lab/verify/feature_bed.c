/* SPDX-License-Identifier: Apache-2.0 */
/*
 * feature_bed.c - runs an operator on features and compares it with its
 * definition.
 */
#include "lab/verify/feature_bed.h"
#include "spc/lab.h"

#include "base/dtype.h"
#include "base/error.h"
#include "base/random.h"
#include "context/ctx.h"
#include "lab/judge.h"
#include "operators/feature.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The zone before and after an array; a multiple of every alignment. */
enum { ZONE = 256, PATTERN = 0xff };

/* ---- setup --------------------------------------------------------------- */

/* The convolution whose map the operator reads. */
static spc_conv layer_of(const spc_feature *f)
{
    spc_conv conv = SPC_CONV_INIT;

    conv.geometry = f->geometry;
    conv.cin = conv.cout = 1;
    if (f->geometry.rule != SPC_RULE_SUBM)
        conv.op = spc__feature_takes_inverse(f) ? SPC_INVERSE : SPC_CONV;
    return conv;
}

static spc_status allocate(void *out, spc_ctx *ctx, size_t count, size_t bytes)
{
    void *memory = calloc(count + 1, bytes);

    memcpy(out, &memory, sizeof(memory));
    return memory != NULL ? SPC_OK
                          : spc__fail_memory(spc__error_of(ctx), count * bytes);
}

/* Makes a map of one set in the other direction, which no layer has. */
static spc_status create_mirrored(spc__feature_bed *b)
{
    spc_coords *set;
    spc_status status = spc_coords_create_from_scene(&set, b->ctx, b->scene);

    if (status == SPC_OK)
        status =
            spc_map_create_inverse(&b->map, set, set, &b->feature->geometry);
    if (status == SPC_OK)
        status = spc_map_update(b->map, NULL, NULL, 0, NULL);
    spc_coords_free(set); /* the map keeps a reference */
    return status == SPC_OK ? spc_map_check(b->map, NULL) : status;
}

static spc_status create_map(spc__feature_bed *b)
{
    spc_conv conv = layer_of(b->feature);

    return conv.op == SPC_SUBM && spc__feature_takes_inverse(b->feature)
               ? create_mirrored(b)
               : spc_map_create_from_scene(&b->map, b->ctx, &conv, b->scene);
}

static spc_status open_map(spc__feature_bed *b)
{
    spc_status status = create_map(b);

    if (status != SPC_OK)
        return status;
    b->of.rows_in = spc_map_rows_in(b->map);
    b->of.rows_out = spc_map_rows_out(b->map);
    size_t entries = (size_t)b->of.rows_out *
                     (size_t)spc_geometry_offset_count(&b->feature->geometry);
    if ((status = allocate(&b->index, b->ctx, entries, 4)) == SPC_OK &&
        (status = spc_map_download(b->index, b->map)) == SPC_OK)
        status = spc_feature_plan_prepare(b->plan, b->map, NULL);
    b->of.map = b->index;
    return status;
}

spc_status spc__feature_bed_open(spc__feature_bed *b, spc_ctx *ctx,
                                 const spc_feature *feature,
                                 const spc_scene *scene)
{
    spc_status status;

    *b = (spc__feature_bed){.ctx = ctx, .feature = feature, .scene = scene};
    if ((status = spc_feature_plan_create(&b->plan, ctx, feature,
                                          SPC_PLAN_JIT)) != SPC_OK)
        return status;
    b->of.rows_in = b->of.rows_out = spc_scene_rows(scene);
    b->of.coords = spc_scene_coords(scene);
    if (spc__feature_takes_map(feature))
        return open_map(b);
    status = spc_coords_create_from_scene(&b->set, ctx, scene);
    b->of.batches = spc_coords_batches(b->set);
    return status;
}

/* ---- arrays -------------------------------------------------------------- */

static size_t element_bytes(const spc__feature_rows *r)
{
    return spc__dtype_of(r->dtype)->bytes;
}

static size_t offset_of(const spc__feature_rows *r, int64_t row)
{
    return r->first + (size_t)(row * r->pitch) * element_bytes(r);
}

static void *data_of(const spc__feature_rows *r)
{
    return r->base + r->first;
}

static spc_status alloc_rows(spc__feature_rows *out, spc__feature_bed *b,
                             int64_t rows, int64_t row, spc_dtype dtype)
{
    void *memory = NULL;

    *out = (spc__feature_rows){
        .rows = rows, .row = row, .pitch = row + b->draw.wider, .dtype = dtype};
    out->first = ZONE + (size_t)b->draw.shift * element_bytes(out);
    out->bytes = offset_of(out, rows) + ZONE;
    spc_status status = spc_memory_alloc(&memory, b->ctx, out->bytes);
    out->base = memory;
    return status;
}

/* Uploads the rows of the host's `values`, with the pattern between them. */
static spc_status move_rows(const spc__feature_rows *to, spc_ctx *ctx,
                            const float *values)
{
    char *image = NULL;
    spc_status status = allocate(&image, ctx, to->bytes, 1);

    if (status != SPC_OK)
        return status;
    memset(image, PATTERN, to->bytes);
    for (int64_t i = 0; i < to->rows; i++)
        spc__dtype_of(to->dtype)->encode(image + offset_of(to, i),
                                         values + i * to->row, (size_t)to->row);
    status = spc_memory_upload(to->base, ctx, image, to->bytes);
    free(image);
    return status;
}

/* ---- draws --------------------------------------------------------------- */

static float draw_value(bool integers, spc__random *random)
{
    return integers ? (float)spc__random_below(random, 7) - 3
                    : (float)(2 * spc__random_unit(random) - 1);
}

/* Draws numbers that the type holds. */
static spc_status draw_values(float **out, spc__feature_bed *b, size_t count,
                              spc_dtype dtype, spc__random *random)
{
    void *stored = NULL;
    spc_status status;

    if ((status = allocate(out, b->ctx, count, sizeof(float))) != SPC_OK ||
        (status = allocate(&stored, b->ctx, count, sizeof(float))) != SPC_OK)
        return status;
    for (size_t i = 0; i < count; i++)
        (*out)[i] = draw_value(b->draw.integers, random);
    spc__dtype_of(dtype)->encode(stored, *out, count);
    spc__dtype_of(dtype)->decode(*out, stored, count);
    free(stored);
    return SPC_OK;
}

/* Allocates a device array and fills it from `from`, or with the pattern. */
static spc_status move(void *out, spc_ctx *ctx, const void *from, size_t bytes)
{
    void *memory = NULL;
    spc_status status = spc_memory_alloc(&memory, ctx, bytes + 16);

    if (status == SPC_OK && from != NULL)
        status = spc_memory_upload(memory, ctx, from, bytes);
    else if (status == SPC_OK)
        status = spc__device_ops_of(ctx->device)
                     ->fill(ctx->device, memory, PATTERN, bytes + 16, NULL,
                            spc__error_of(ctx));
    memcpy(out, &memory, sizeof(memory));
    return status;
}

static spc_status draw_vector(float **host, const float **device,
                              spc__feature_bed *b, spc__random *random)
{
    size_t count = (size_t)b->feature->channels;
    spc_status status = draw_values(host, b, count, SPC_F32, random);

    return status == SPC_OK ? move(device, b->ctx, *host, count * sizeof(float))
                            : status;
}

/*
 * Stores one of the voxels that see an un-pooled row for each channel,
 * alternately. The gradient reads the map in the other direction, so there it
 * is one of the voxels that the row sees.
 */
static void fill_stored(spc__feature_bed *b)
{
    bool turned = b->feature->pass != SPC_FORWARD;
    int channels = b->feature->channels;
    int offsets = spc_geometry_offset_count(&b->feature->geometry);

    for (int k = 0; k < offsets; k++)
        for (int64_t row = 0; row < b->of.rows_out; row++) {
            int64_t from = b->index[k * b->of.rows_out + row];
            int64_t to = turned ? row : from;
            for (int64_t c = k; from >= 0 && c < channels; c += offsets)
                b->stored[to * channels + c] = (int32_t)(turned ? from : row);
        }
}

static size_t stored_count(const spc__feature_bed *b)
{
    bool back = spc__feature_reads_index(b->feature) &&
                b->feature->pass == SPC_FORWARD;

    return (size_t)(back ? b->of.rows_in : b->of.rows_out) *
           (size_t)b->feature->channels;
}

static spc_status draw_stored(spc__feature_bed *b)
{
    size_t count = stored_count(b);
    spc_status status;

    if (!b->feature->index || !spc__feature_takes_map(b->feature))
        return SPC_OK;
    if ((status = allocate(&b->stored, b->ctx, count, 4)) != SPC_OK)
        return status;
    memset(b->stored, PATTERN, count * 4);
    if (!spc__feature_reads_index(b->feature))
        return move(&b->buffers.index, b->ctx, NULL, count * 4);
    fill_stored(b);
    b->of.index = b->stored;
    return move(&b->buffers.index, b->ctx, b->stored, count * 4);
}

/* Draws and uploads an array of rows. */
static spc_status draw_array(float **host, spc__feature_rows *to,
                             spc__feature_bed *b, int64_t rows, int64_t row,
                             spc__random *random)
{
    spc_dtype dtype = b->feature->dtype;
    spc_status status =
        draw_values(host, b, (size_t)(rows * row), dtype, random);

    if (status == SPC_OK &&
        (status = alloc_rows(to, b, rows, row, dtype)) == SPC_OK)
        status = move_rows(to, b->ctx, *host);
    return status;
}

static spc_status draw_rows(spc__feature_bed *b, spc__random *random)
{
    const spc_feature *f = b->feature;
    int64_t in = spc_feature_rows_in(f, b->of.rows_in, b->of.batches);
    int64_t add = spc_feature_rows_add(f, b->of.rows_in, b->of.batches);
    spc_status status = draw_array(&b->host[0], &b->in, b, in,
                                   spc_feature_elements_in(f), random);

    return status == SPC_OK && spc__feature_adds(f)
               ? draw_array(&b->host[1], &b->add, b, add, f->channels, random)
               : status;
}

static spc_status ask_oracle(spc__feature_bed *b)
{
    size_t count = (size_t)(b->out.rows * b->out.row);
    spc_status status;

    if ((status = allocate(&b->reference, b->ctx, count, 8)) != SPC_OK ||
        (status = allocate(&b->tolerance, b->ctx, count, 8)) != SPC_OK)
        return status;
    status = spc__feature_oracle(b->reference, b->tolerance,
                                 spc__feature_stores_index(b->feature)
                                     ? b->stored
                                     : NULL,
                                 b->feature, &b->of);
    for (size_t i = 0; i < count && status == SPC_OK; i++)
        b->tolerance[i] = spc__feature_tolerance(b->feature, b->reference[i],
                                                 b->tolerance[i]);
    return status == SPC_OK
               ? SPC_OK
               : spc__fail_memory(spc__error_of(b->ctx), (size_t)b->of.rows_in);
}

static void drop_draw(spc__feature_bed *b)
{
    void *on_device[] = {b->in.base,
                         b->add.base,
                         b->out.base,
                         b->buffers.index,
                         b->buffers.workspace,
                         (void *)b->buffers.scale,
                         (void *)b->buffers.shift};

    for (int i = 0; i < (int)(sizeof(on_device) / sizeof(on_device[0])); i++)
        spc_memory_free(b->ctx, on_device[i]);
    for (int i = 0; i < 4; i++)
        free(b->host[i]);
    free(b->stored);
    free(b->reference);
    free(b->tolerance);
    memset(b->host, 0, sizeof(b->host));
    memset(&b->buffers, 0, sizeof(b->buffers));
    b->in.base = b->add.base = b->out.base = NULL;
    b->stored = NULL;
    b->reference = b->tolerance = NULL;
}

static void point_to_rows(spc__feature_bed *b)
{
    b->of.in = b->host[0];
    b->of.add = b->host[1];
    b->of.scale = b->host[2];
    b->of.shift = b->host[3];
    b->buffers.in = data_of(&b->in);
    b->buffers.in_pitch = b->in.pitch;
    if (b->add.base != NULL) {
        b->buffers.add = data_of(&b->add);
        b->buffers.add_pitch = b->add.pitch;
    }
    b->buffers.out = data_of(&b->out);
    b->buffers.out_pitch = b->out.pitch;
}

spc_status spc__feature_bed_fill(spc__feature_bed *b,
                                 const spc__feature_draw *how)
{
    const spc_feature *f = b->feature;
    int64_t rows = spc_feature_rows_out(f, b->of.rows_out, b->of.batches);
    const spc_coords *inputs = b->map != NULL ? spc_map_in(b->map) : b->set;
    spc__random random;
    spc_status status;

    drop_draw(b);
    b->draw = *how;
    spc__random_init(&random, how->seed);
    if ((status = draw_rows(b, &random)) ||
        (status = draw_vector(&b->host[2], &b->buffers.scale, b, &random)) ||
        (status = draw_vector(&b->host[3], &b->buffers.shift, b, &random)) ||
        (status = draw_stored(b)) ||
        (status = move(&b->buffers.workspace, b->ctx, NULL,
                       spc_feature_plan_workspace_bytes(b->plan, inputs))) ||
        (status = alloc_rows(&b->out, b, rows, spc_feature_elements_out(f),
                             spc__feature_out_dtype(f))))
        return status;
    point_to_rows(b);
    return ask_oracle(b);
}

/* ---- running ------------------------------------------------------------- */

spc_status spc__feature_bed_clear(const spc__feature_bed *b)
{
    return spc__device_ops_of(b->ctx->device)
        ->fill(b->ctx->device, b->out.base, PATTERN, b->out.bytes, NULL,
               spc__error_of(b->ctx));
}

spc_status spc__feature_bed_run(const spc__feature_bed *b, void *stream)
{
    return spc_feature_plan_execute(b->plan, b->set, b->map, &b->buffers,
                                    stream);
}

/* ---- judging ------------------------------------------------------------- */

__attribute__((format(printf, 2, 3))) static spc_status
fail_wrong(const spc__feature_bed *b, const char *format, ...)
{
    char what[160];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(what, sizeof(what), format, arguments);
    va_end(arguments);
    return spc__fail(spc__error_of(b->ctx), SPC_EWRONG,
                     "%s: %s, scene '%.60s', %s, rows %d elements off "
                     "alignment and %d apart",
                     spc__feature_plan_template(b->plan), what,
                     spc_scene_name(b->scene),
                     b->draw.integers ? "integers" : "real numbers",
                     b->draw.shift, b->draw.wider);
}

/* Integers are exact; other results are within the bounds of rounding. */
static spc__expected expected_of(const spc__feature_bed *b)
{
    bool exact = b->draw.integers && spc__feature_is_exact(b->feature);

    return (spc__expected){.reference = b->reference,
                           .wide_tolerance = exact ? NULL : b->tolerance};
}

static spc_status check_rows(const spc__feature_bed *b, const char *result,
                             double *error)
{
    const spc__feature_rows *out = &b->out;
    spc__operand of =
        spc__matrix_of(out->dtype, out->rows, out->row, out->pitch);
    spc__expected expected = expected_of(b);
    spc__worst worst = spc__judge(result + out->first, &of, &expected);
    char text[SPC__WORST_TEXT];

    *error = worst.error > *error ? worst.error : *error;
    return worst.error <= 1 ? SPC_OK
                            : fail_wrong(b, "%s", spc__worst_text(text, &worst));
}

static bool is_element(const spc__feature_rows *r, size_t byte)
{
    size_t pitch = (size_t)r->pitch * element_bytes(r);
    size_t width = (size_t)r->row * element_bytes(r);

    return byte >= r->first && (byte - r->first) % pitch < width &&
           (byte - r->first) / pitch < (size_t)r->rows;
}

static spc_status check_gaps(const spc__feature_bed *b, const char *result)
{
    for (size_t i = 0; i < b->out.bytes; i++)
        if ((unsigned char)result[i] != PATTERN && !is_element(&b->out, i))
            return fail_wrong(b,
                              "something is written beside the rows of out, "
                              "at byte %lld",
                              (long long)i - (long long)b->out.first);
    return SPC_OK;
}

static spc_status check_stored(const spc__feature_bed *b)
{
    size_t count = stored_count(b);
    int32_t *got = NULL;
    spc_status status = SPC_OK;

    if (!spc__feature_stores_index(b->feature))
        return SPC_OK;
    if ((status = allocate(&got, b->ctx, count, 4)) == SPC_OK)
        status = spc_memory_download(got, b->ctx, b->buffers.index, count * 4);
    for (size_t i = 0; i < count && status == SPC_OK; i++)
        if (got[i] != b->stored[i])
            status = fail_wrong(b, "index %lld is %d and must be %d",
                                (long long)i, (int)got[i], (int)b->stored[i]);
    free(got);
    return status;
}

spc_status spc__feature_bed_check(const spc__feature_bed *b, double *error)
{
    char *result = NULL;
    spc_status status = allocate(&result, b->ctx, b->out.bytes, 1);

    if (status == SPC_OK && (status = spc_ctx_synchronize(b->ctx)) == SPC_OK)
        status = spc_memory_download(result, b->ctx, b->out.base, b->out.bytes);
    if (status == SPC_OK && (status = check_rows(b, result, error)) == SPC_OK &&
        (status = check_gaps(b, result)) == SPC_OK)
        status = check_stored(b);
    free(result);
    return status;
}

void spc__feature_bed_release(spc__feature_bed *b)
{
    drop_draw(b);
    free(b->index);
    spc_map_free(b->map);
    spc_coords_free(b->set);
    spc_feature_plan_free(b->plan);
}
