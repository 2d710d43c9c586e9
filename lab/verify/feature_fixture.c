/* SPDX-License-Identifier: Apache-2.0 */
/*
 * feature_fixture.c - runs an operator on features and compares it with its
 * definition.
 */
#include "lab/verify/feature_fixture.h"
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

/* ---- setup --------------------------------------------------------------- */

/* Returns the convolution whose map the operator reads. */
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
static spc_status create_mirrored(spc__feature_fixture *b)
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

static spc_status create_map(spc__feature_fixture *b)
{
    spc_conv conv = layer_of(b->feature);

    return conv.op == SPC_SUBM && spc__feature_takes_inverse(b->feature)
               ? create_mirrored(b)
               : spc_map_create_from_scene(&b->map, b->ctx, &conv, b->scene);
}

/* Builds the map, fetches its index for the oracle, and prepares the plan. */
static spc_status open_map(spc__feature_fixture *b)
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

spc_status spc__feature_fixture_open(spc__feature_fixture *b, spc_ctx *ctx,
                                     const spc_feature *feature,
                                     const spc_scene *scene)
{
    spc_status status;

    *b = (spc__feature_fixture){.ctx = ctx, .feature = feature, .scene = scene};
    spc__guards_init(&b->guards, ctx,
                     (size_t)feature->channels * sizeof(float));
    for (int i = SPC__FEATURE_INDEX; i < SPC__FEATURE_ARRAYS; i++)
        b->arrays[i].is_far = true; /* operators write to these arrays */
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

static int64_t stored_rows(const spc__feature_fixture *b)
{
    bool back =
        spc__feature_reads_index(b->feature) && b->feature->pass == SPC_FORWARD;

    return back ? b->of.rows_in : b->of.rows_out;
}

/* Makes an operand whose rows are `wider` elements apart. */
static spc__operand rows_of(const char *name, spc_dtype dtype, int64_t rows,
                            int64_t columns, int wider)
{
    spc__operand out = spc__matrix_of(dtype, rows, columns, columns + wider);

    out.name = name;
    return out;
}

/* An absent operand has no rows. */
static void set_operands(spc__feature_fixture *b)
{
    const spc_feature *f = b->feature;
    const spc__feature_case *of = &b->of;
    const spc_coords *inputs = b->map != NULL ? spc_map_in(b->map) : b->set;
    int64_t in = spc_feature_rows_in(f, of->rows_in, of->batches);
    int64_t add = spc_feature_rows_add(f, of->rows_in, of->batches);
    int64_t out = spc_feature_rows_out(f, of->rows_out, of->batches);
    int64_t workspace =
        (int64_t)spc_feature_plan_workspace_bytes(b->plan, inputs);
    bool has_index = f->index && spc__feature_takes_map(f);
    int wider = b->data.wider;
    const spc__operand all[] = {
        [SPC__FEATURE_IN] =
            rows_of("in", f->dtype, in, spc_feature_elements_in(f), wider),
        [SPC__FEATURE_ADD] =
            rows_of("add", f->dtype, spc__feature_adds(f) ? add : 0,
                    f->channels, wider),
        [SPC__FEATURE_SCALE] = rows_of("scale", SPC_F32, 1, f->channels, 0),
        [SPC__FEATURE_SHIFT] = rows_of("shift", SPC_F32, 1, f->channels, 0),
        /* Its elements are int32, as wide as an fp32. */
        [SPC__FEATURE_INDEX] = rows_of(
            "index", SPC_F32, has_index ? stored_rows(b) : 0, f->channels, 0),
        [SPC__FEATURE_WORKSPACE] =
            rows_of("workspace", SPC_I8, 1, workspace, 0),
        [SPC__FEATURE_OUT] = rows_of("out", spc__feature_out_dtype(f), out,
                                     spc_feature_elements_out(f), wider),
    };

    memcpy(b->operands, all, sizeof(all));
}

/* Rows of tensors are misaligned as the data set says; other arrays are not. */
static size_t shift_bytes(const spc__feature_fixture *b, int array)
{
    bool is_tensor = array == SPC__FEATURE_IN || array == SPC__FEATURE_ADD ||
                     array == SPC__FEATURE_OUT;

    return is_tensor ? (size_t)b->data.shift *
                           spc__dtype_of(b->operands[array].dtype)->bytes
                     : 0;
}

static spc_status clear(spc__feature_fixture *b, int array)
{
    return spc__guarded_clear(&b->guards, &b->arrays[array],
                              b->operands[array].bytes, shift_bytes(b, array));
}

/* ---- data ---------------------------------------------------------------- */

static float draw_value(bool integers, spc__random *random)
{
    return integers ? (float)spc__random_below(random, 7) - 3
                    : (float)(2 * spc__random_unit(random) - 1);
}

/* Generates numbers that the type holds. */
static spc_status draw_values(float **out, spc__feature_fixture *b,
                              size_t count, spc_dtype dtype,
                              spc__random *random)
{
    void *stored = NULL;
    spc_status status;

    if ((status = allocate(out, b->ctx, count, sizeof(float))) != SPC_OK ||
        (status = allocate(&stored, b->ctx, count, sizeof(float))) != SPC_OK)
        return status;
    for (size_t i = 0; i < count; i++)
        (*out)[i] = draw_value(b->data.integers, random);
    /* Encodes and decodes: the definition must read the rounded numbers that
     * the device gets. */
    spc__dtype_of(dtype)->encode(stored, *out, count);
    spc__dtype_of(dtype)->decode(*out, stored, count);
    free(stored);
    return SPC_OK;
}

/* Generates and uploads an array. */
static spc_status draw_array(spc__feature_fixture *b, int array,
                             spc__random *random)
{
    const spc__operand *of = &b->operands[array];
    size_t count = (size_t)(of->rows * of->columns);
    spc_status status;

    if (of->rows == 0)
        return clear(b, array);
    status = draw_values(&b->host[array], b, count, of->dtype, random);
    return status == SPC_OK
               ? spc__guarded_encode(&b->guards, &b->arrays[array], of,
                                     b->host[array], shift_bytes(b, array))
               : status;
}

/*
 * Stores one of the voxels that see an un-pooled row for each channel,
 * alternately. The gradient reads the map in the other direction, so there it
 * is one of the voxels that the row sees.
 */
static void fill_stored(spc__feature_fixture *b)
{
    bool is_gradient = b->feature->pass != SPC_FORWARD;
    int channels = b->feature->channels;
    int offsets = spc_geometry_offset_count(&b->feature->geometry);

    for (int k = 0; k < offsets; k++)
        for (int64_t row = 0; row < b->of.rows_out; row++) {
            int64_t from = b->index[k * b->of.rows_out + row];
            int64_t to = is_gradient ? row : from;
            for (int64_t c = k; from >= 0 && c < channels; c += offsets)
                b->stored[to * channels + c] =
                    (int32_t)(is_gradient ? from : row);
        }
}

/* Generates the index that the operator reads, or clears the index that it
 * writes. */
static spc_status draw_stored(spc__feature_fixture *b)
{
    const spc__operand *of = &b->operands[SPC__FEATURE_INDEX];
    spc_status status = clear(b, SPC__FEATURE_INDEX);

    if (status != SPC_OK || of->rows == 0)
        return status;
    if ((status = allocate(&b->stored, b->ctx, of->bytes, 1)) != SPC_OK)
        return status;
    memset(b->stored, SPC__ZONE_BYTE, of->bytes);
    if (!spc__feature_reads_index(b->feature))
        return SPC_OK;
    fill_stored(b);
    b->of.index = b->stored;
    return spc_memory_upload(b->arrays[SPC__FEATURE_INDEX].data, b->ctx,
                             b->stored, of->bytes);
}

/* Computes the expected result, and its tolerance in the stored type. */
static spc_status ask_oracle(spc__feature_fixture *b)
{
    const spc__operand *out = &b->operands[SPC__FEATURE_OUT];
    size_t count = (size_t)(out->rows * out->columns);
    spc_status status;

    if ((status = allocate(&b->reference, b->ctx, count, 8)) != SPC_OK ||
        (status = allocate(&b->tolerance, b->ctx, count, 8)) != SPC_OK)
        return status;
    status = spc__feature_oracle(
        b->reference, b->tolerance,
        spc__feature_stores_index(b->feature) ? b->stored : NULL, b->feature,
        &b->of);
    for (size_t i = 0; i < count && status == SPC_OK; i++)
        b->tolerance[i] = spc__feature_tolerance(b->feature, b->reference[i],
                                                 b->tolerance[i]);
    return status == SPC_OK
               ? SPC_OK
               : spc__fail_memory(spc__error_of(b->ctx), (size_t)b->of.rows_in);
}

/* Frees the arrays of a data set, before the next one. */
static void free_data(spc__feature_fixture *b)
{
    for (int i = 0; i < SPC__FEATURE_INDEX; i++)
        free(b->host[i]);
    free(b->stored);
    free(b->reference);
    free(b->tolerance);
    memset(b->host, 0, sizeof(b->host));
    b->of.index = b->stored = NULL;
    b->reference = b->tolerance = NULL;
}

/* Returns the data of an array; NULL if the operator lacks it. */
static void *data_of(const spc__feature_fixture *b, int array)
{
    return b->operands[array].rows > 0 ? b->arrays[array].data : NULL;
}

/* Points the oracle and the operator to the same arrays. */
static void point_to_arrays(spc__feature_fixture *b)
{
    const spc__operand *of = b->operands;

    b->of.in = b->host[SPC__FEATURE_IN];
    b->of.add = b->host[SPC__FEATURE_ADD];
    b->of.scale = b->host[SPC__FEATURE_SCALE];
    b->of.shift = b->host[SPC__FEATURE_SHIFT];
    b->buffers = (spc_feature_buffers){
        .bytes = sizeof(spc_feature_buffers),
        .in = b->arrays[SPC__FEATURE_IN].data,
        .in_pitch = of[SPC__FEATURE_IN].pitch,
        .add = spc__feature_adds(b->feature) ? b->arrays[SPC__FEATURE_ADD].data
                                             : NULL,
        .out = b->arrays[SPC__FEATURE_OUT].data,
        .out_pitch = of[SPC__FEATURE_OUT].pitch,
        .index = data_of(b, SPC__FEATURE_INDEX),
        .scale = data_of(b, SPC__FEATURE_SCALE),
        .shift = data_of(b, SPC__FEATURE_SHIFT),
        .workspace = b->arrays[SPC__FEATURE_WORKSPACE].data,
    };
    if (b->buffers.add != NULL)
        b->buffers.add_pitch = of[SPC__FEATURE_ADD].pitch;
}

spc_status spc__feature_fixture_fill(spc__feature_fixture *b,
                                     const spc__feature_data *how)
{
    spc__random random;
    spc_status status = SPC_OK;

    free_data(b);
    b->data = *how;
    set_operands(b);
    spc__random_init(&random, how->seed);
    for (int i = 0; i < SPC__FEATURE_INDEX && status == SPC_OK; i++)
        status = draw_array(b, i, &random);
    if (status == SPC_OK && (status = draw_stored(b)) == SPC_OK &&
        (status = clear(b, SPC__FEATURE_WORKSPACE)) == SPC_OK)
        status = clear(b, SPC__FEATURE_OUT);
    if (status != SPC_OK)
        return status;
    point_to_arrays(b);
    return ask_oracle(b);
}

/* ---- running ------------------------------------------------------------- */

spc_status spc__feature_fixture_clear(const spc__feature_fixture *b)
{
    return spc__guarded_fill(&b->guards, &b->arrays[SPC__FEATURE_OUT],
                             SPC__ZONE_BYTE);
}

spc_status spc__feature_fixture_run(const spc__feature_fixture *b, void *stream)
{
    return spc_feature_plan_execute(b->plan, b->set, b->map, &b->buffers,
                                    stream);
}

/* ---- checks -------------------------------------------------------------- */

__attribute__((format(printf, 2, 3))) static spc_status
fail_wrong(const spc__feature_fixture *b, const char *format, ...)
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
                     b->data.integers ? "integers" : "real numbers",
                     b->data.shift, b->data.wider);
}

/* Results on integers must be exact, others within the bounds of rounding. */
static spc__expected expected_of(const spc__feature_fixture *b)
{
    bool exact = b->data.integers && spc__feature_is_exact(b->feature);

    return (spc__expected){.reference = b->reference,
                           .wide_tolerance = exact ? NULL : b->tolerance};
}

/* Compares the result. Bytes between its rows belong to the caller, and must
 * stay. */
static spc_status check_rows(const spc__feature_fixture *b, double *error)
{
    const spc__operand *of = &b->operands[SPC__FEATURE_OUT];
    spc__expected expected = expected_of(b);
    spc__worst worst = {0};
    char *result = NULL, text[SPC__WORST_TEXT];
    spc_status status = allocate(&result, b->ctx, of->bytes, 1);

    if (status == SPC_OK &&
        (status = spc_memory_download(result, b->ctx,
                                      b->arrays[SPC__FEATURE_OUT].data,
                                      of->bytes)) == SPC_OK)
        worst = spc__judge(result, of, &expected);
    *error = worst.error > *error ? worst.error : *error;
    if (worst.error > 1)
        status = fail_wrong(b, "%s", spc__worst_text(text, &worst));
    else if (status == SPC_OK && !spc__gaps_hold(result, of))
        status = fail_wrong(b, "something is written between the rows of out");
    free(result);
    return status;
}

/* Compares the zones of all arrays. */
static spc_status check_zones(const spc__feature_fixture *b)
{
    int written, which;
    spc_status status = spc__guarded_check(&written, &which, &b->guards,
                                           b->arrays, SPC__FEATURE_ARRAYS);

    return status == SPC_OK && written != 0
               ? fail_wrong(b, "something is written %s %s",
                            written < 0 ? "before" : "behind",
                            b->operands[which].name)
               : status;
}

/* Compares the index that the operator stores. */
static spc_status check_stored(const spc__feature_fixture *b)
{
    const spc__operand *of = &b->operands[SPC__FEATURE_INDEX];
    int32_t *got = NULL;
    spc_status status = SPC_OK;

    if (!spc__feature_stores_index(b->feature))
        return SPC_OK;
    if ((status = allocate(&got, b->ctx, of->bytes, 1)) == SPC_OK)
        status = spc_memory_download(
            got, b->ctx, b->arrays[SPC__FEATURE_INDEX].data, of->bytes);
    for (size_t i = 0; i < of->bytes / 4 && status == SPC_OK; i++)
        if (got[i] != b->stored[i])
            status = fail_wrong(b, "index %lld is %d, expected %d",
                                (long long)i, (int)got[i], (int)b->stored[i]);
    free(got);
    return status;
}

spc_status spc__feature_fixture_check(const spc__feature_fixture *b,
                                      double *error)
{
    spc_status status;

    if ((status = spc_ctx_synchronize(b->ctx)) == SPC_OK &&
        (status = check_rows(b, error)) == SPC_OK &&
        (status = check_zones(b)) == SPC_OK)
        status = check_stored(b);
    return status;
}

void spc__feature_fixture_release(spc__feature_fixture *b)
{
    free_data(b);
    spc__guarded_release(&b->guards, b->arrays, SPC__FEATURE_ARRAYS);
    free(b->index);
    spc_map_free(b->map);
    spc_coords_free(b->set);
    spc_feature_plan_free(b->plan);
}
