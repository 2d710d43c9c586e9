/* SPDX-License-Identifier: Apache-2.0 */
/*
 * regroup_verify.c - verifies a set made of others against its definition, and
 * that features move along.
 *
 * Features are small integers, so that their sums in fp32 are exact, and are
 * rounded once.
 */
#include "lab/oracle/regroup_oracle.h"

#include "base/dtype.h"
#include "base/error.h"
#include "base/plural.h"
#include "base/random.h"
#include "context/ctx.h"
#include "lab/guarded.h"
#include "lab/judge.h"
#include "lab/sample/awkward.h"
#include "lab/sample/sample.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SOURCES = 8, MASK_PERCENT = 60 };

/* 16 bytes at once, or one channel at a time. */
static const int channel_counts[] = {16, 3};
enum { CHANNEL_COUNTS = sizeof(channel_counts) / sizeof(channel_counts[0]) };

typedef struct subject {
    spc_ctx *ctx;
    const spc_regrouping *how;
    const spc_scene *const *scenes;
    int count;    /* of sources */
    int children; /* of a voxel */
    int slots;    /* of all sources */
    bool masked;
    uint8_t *mask;
    void *device_mask;
    spc_coords *source[SOURCES];
    spc_coords *set;
    spc__slot_list want;
    spc_gather gather;
    spc__guards guards;
} subject;

__attribute__((format(printf, 2, 3))) static spc_status
fail_wrong(const subject *s, const char *format, ...)
{
    char what[160], how[80];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(what, sizeof(what), format, arguments);
    va_end(arguments);
    spc_regrouping_format(how, sizeof(how), s->how);
    return spc__fail(spc__error_of(s->ctx), SPC_EWRONG,
                     "%s: %s; %d sources, the first is scene '%.60s', %s mask",
                     how, what, s->count, spc_scene_name(s->scenes[0]),
                     s->masked ? "with a" : "without a");
}

static spc_status allocate(void *out, const subject *s, size_t bytes)
{
    void *memory = malloc(bytes + 16);

    memcpy(out, &memory, sizeof(memory));
    return memory != NULL ? SPC_OK
                          : spc__fail_memory(spc__error_of(s->ctx), bytes);
}

/* ---- the set ------------------------------------------------------------- */

static spc_status draw_mask(subject *s, uint64_t seed)
{
    spc__random random;
    spc_status status;

    if (!s->masked)
        return SPC_OK;
    if ((status = allocate(&s->mask, s, (size_t)s->slots)) != SPC_OK)
        return status;
    spc__random_init(&random, seed);
    for (int i = 0; i < s->slots; i++)
        s->mask[i] = spc__random_below(&random, 100) < MASK_PERCENT
                         ? (uint8_t)(1 + i % 255)
                         : 0;
    if ((status = spc_memory_alloc(&s->device_mask, s->ctx,
                                   (size_t)s->slots + 16)) != SPC_OK)
        return status;
    return spc_memory_upload(s->device_mask, s->ctx, s->mask, (size_t)s->slots);
}

static spc_status make_set(subject *s, uint64_t seed)
{
    spc_status status = SPC_OK;

    s->children = s->how->split[0] * s->how->split[1] * s->how->split[2];
    for (int i = 0; i < s->count && status == SPC_OK; i++) {
        s->slots += (int)spc_scene_rows(s->scenes[i]) * s->children;
        status =
            spc_coords_create_from_scene(&s->source[i], s->ctx, s->scenes[i]);
    }
    if (status != SPC_OK || (status = draw_mask(s, seed)) != SPC_OK ||
        (status = spc__regroup_oracle(&s->want, s->how, s->scenes, s->count,
                                      s->mask, spc__error_of(s->ctx))) !=
            SPC_OK)
        return status;
    return spc_coords_create_regrouped(&s->set, s->source, s->count, s->how,
                                       s->device_mask);
}

/* Copies ints from the device; the caller frees *out. */
static spc_status fetch(int32_t **out, const subject *s, const int32_t *from,
                        int count)
{
    size_t bytes = (size_t)count * sizeof(**out);
    spc_status status = allocate(out, s, bytes);

    return status == SPC_OK && count > 0
               ? spc_memory_download(*out, s->ctx, from, bytes)
               : status;
}

static spc_status check_voxels(const subject *s)
{
    const spc__slot_list *want = &s->want;
    int32_t *got = NULL;
    spc_status status;

    if (spc_coords_rows(s->set) != want->rows)
        return fail_wrong(s, "it has %s and must have %d",
                          spc__count(spc_coords_rows(s->set), "row"),
                          want->rows);
    status = fetch(&got, s, spc_coords_data(s->set), 4 * want->rows);
    for (int i = 0; i < want->count && status == SPC_OK; i++)
        if (memcmp(got + 4 * want->row[i], want->at[i], sizeof(want->at[i])))
            status = fail_wrong(s, "row %d is another voxel than slot %d",
                                want->row[i], want->slot[i]);
    free(got);
    return status;
}

/* ---- lists of rows ------------------------------------------------------- */

/* `next` is the expected position of the next slot of each row. */
static spc_status compare_slots(const subject *s, const int32_t *of,
                                const int32_t *members, int32_t *next)
{
    const spc__slot_list *want = &s->want;

    for (int slot = 0, i = 0; slot < s->slots; slot++) {
        bool is_in = i < want->count && want->slot[i] == slot;
        int row = is_in ? want->row[i++] : -1;
        if (of[slot] != row)
            return fail_wrong(s, "slot %d went to row %d, not %d", slot,
                              (int)of[slot], row);
        if (is_in && members[next[row]++] != slot)
            return fail_wrong(s, "slot %d is not in its place of row %d", slot,
                              row);
    }
    return SPC_OK;
}

static spc_status compare_lists(const subject *s, const int32_t *begin,
                                const int32_t *of, const int32_t *members)
{
    int rows = s->want.rows;
    int32_t *next = NULL;
    spc_status status = allocate(&next, s, (size_t)rows * sizeof(*next));

    if (status != SPC_OK)
        return status;
    memcpy(next, begin, (size_t)rows * sizeof(*next));
    if (begin[0] != 0 || begin[rows] != s->want.count)
        status = fail_wrong(s, "the rows have %d slots and must have %d",
                            (int)(begin[rows] - begin[0]), s->want.count);
    else
        status = compare_slots(s, of, members, next);
    for (int r = 0; r < rows && status == SPC_OK; r++)
        if (next[r] != begin[r + 1])
            status = fail_wrong(s, "row %d ends at slot %d, not %d", r,
                                (int)begin[r + 1], (int)next[r]);
    free(next);
    return status;
}

static spc_status check_lists(const subject *s)
{
    spc_row_lists lists;
    int32_t *begin = NULL, *of = NULL, *members = NULL;
    spc_status status;

    if (!spc_coords_row_lists(&lists, s->set))
        return fail_wrong(s, "it has no lists of rows");
    if ((status = fetch(&begin, s, lists.begin, s->want.rows + 1)) == SPC_OK &&
        (status = fetch(&of, s, lists.row_of, s->slots)) == SPC_OK &&
        (status = fetch(&members, s, lists.slots, s->want.count)) == SPC_OK)
        status = compare_lists(s, begin, of, members);
    free(begin);
    free(of);
    free(members);
    return status;
}

/* ---- features ------------------------------------------------------------ */

/* The feature of row `row` of a source; of the set if `source` is -1. */
static float feature_of(int source, int64_t row, int64_t channel)
{
    return (float)(((source + 1) * 31 + row * 7 + channel * 3) % 13 - 6);
}

/* Uploads rows of drawn features. */
static spc_status draw_features(spc__guarded *to, const subject *s, int source,
                                int64_t rows, int channels)
{
    const spc__dtype *type = spc__dtype_of(s->gather.dtype);
    size_t count = (size_t)rows * (size_t)channels;
    float *values = NULL;
    void *stored = NULL;
    spc_status status;

    if ((status = allocate(&values, s, count * 4)) == SPC_OK &&
        (status = allocate(&stored, s, count * 4)) == SPC_OK) {
        for (size_t i = 0; i < count; i++)
            values[i] = feature_of(source, (int64_t)i / channels,
                                   (int64_t)i % channels);
        type->encode(stored, values, count);
        status = spc__guarded_lay(&s->guards, to, count * type->bytes, 0);
    }
    if (status == SPC_OK)
        status = spc_memory_upload(to->data, s->ctx, stored, to->bytes);
    free(values);
    free(stored);
    return status;
}

/* Makes room for rows that an operator writes. */
static spc_status lay_results(spc__guarded *to, const subject *s, int64_t rows,
                              int channels)
{
    size_t bytes =
        (size_t)(rows * channels) * spc__dtype_of(s->gather.dtype)->bytes;
    spc_status status = spc__guarded_lay(&s->guards, to, bytes, 0);

    return status == SPC_OK ? spc__guarded_fill(&s->guards, to, SPC__ZONE_BYTE)
                            : status;
}

/* Nothing may be written beside any array. */
static spc_status check_zones(const subject *s, const spc__guarded *arrays)
{
    spc_status status = SPC_OK;

    for (int i = 0; i <= s->count && status == SPC_OK; i++) {
        int written;
        status = spc__guarded_check(&written, &s->guards, &arrays[i]);
        if (status == SPC_OK && written != 0)
            status = fail_wrong(s, "something is written %s features of %s",
                                written < 0 ? "before" : "behind",
                                i < s->count ? "a source" : "the set");
    }
    return status;
}

/* Compares `rows` rows on the device with sums rounded once. */
static spc_status compare_features(const subject *s, const void *device,
                                   const double *want, int64_t rows,
                                   int64_t channels, const char *what)
{
    spc__operand of =
        spc__matrix_of(s->gather.dtype, rows, channels, channels);
    spc__expected expected = {.reference = want};
    spc__worst worst = {0};
    char *got = NULL, text[SPC__WORST_TEXT];
    spc_status status = allocate(&got, s, of.bytes);

    if (status == SPC_OK &&
        (status = spc_memory_download(got, s->ctx, device, of.bytes)) == SPC_OK)
        worst = spc__judge(got, &of, &expected);
    if (worst.error > 1)
        status = fail_wrong(s, "%s: of %d %s channels, %s", what,
                            s->gather.channels, spc__dtype_of(of.dtype)->name,
                            spc__worst_text(text, &worst));
    free(got);
    return status;
}

/*
 * The source that a row of the concatenated sources belongs to, and its index
 * there.
 */
static int source_of(const subject *s, int row, int64_t *own)
{
    int source = 0;

    *own = row;
    while (*own >= spc_scene_rows(s->scenes[source]))
        *own -= spc_scene_rows(s->scenes[source++]);
    return source;
}

static void sum_slots(const subject *s, double *sums)
{
    int channels = s->gather.channels;

    for (int i = 0; i < s->want.count; i++) {
        int slot = s->want.slot[i], child = slot % s->children;
        int first = s->gather.slices ? child * channels : 0;
        int64_t row;
        int source = source_of(s, slot / s->children, &row);
        for (int c = 0; c < channels; c++)
            sums[s->want.row[i] * channels + c] +=
                feature_of(source, row, first + c);
    }
}

static int source_channels(const subject *s)
{
    return s->gather.channels * (s->gather.slices ? s->children : 1);
}

static spc_status run_gather(const subject *s, const spc__guarded *arrays)
{
    size_t count = (size_t)(s->want.rows * s->gather.channels);
    const spc__guarded *out = &arrays[s->count];
    const void *in[SOURCES];
    double *sums = NULL;
    spc_status status = allocate(&sums, s, count * sizeof(*sums));

    if (status != SPC_OK)
        return status;
    memset(sums, 0, count * sizeof(*sums));
    sum_slots(s, sums);
    for (int i = 0; i < s->count; i++)
        in[i] = arrays[i].data;
    if ((status = spc_coords_gather_features(out->data, s->set, in, &s->gather,
                                             NULL)) == SPC_OK &&
        (status = spc_ctx_synchronize(s->ctx)) == SPC_OK)
        status = compare_features(s, out->data, sums, s->want.rows,
                                  s->gather.channels, "gathered");
    free(sums);
    return status == SPC_OK ? check_zones(s, arrays) : status;
}

static void free_arrays(const subject *s, spc__guarded *arrays)
{
    for (int i = 0; i <= s->count; i++)
        spc__guarded_release(&s->guards, &arrays[i]);
}

static spc_status check_gather(const subject *s)
{
    spc__guarded arrays[SOURCES + 1] = {0}; /* the sources' and the set's */
    spc_status status = SPC_OK;

    for (int i = 0; i < s->count && status == SPC_OK; i++)
        status = draw_features(&arrays[i], s, i, spc_scene_rows(s->scenes[i]),
                               source_channels(s));
    if (status == SPC_OK)
        status =
            lay_results(&arrays[s->count], s, s->want.rows, s->gather.channels);
    if (status == SPC_OK)
        status = run_gather(s, arrays);
    free_arrays(s, arrays);
    return status;
}

/* The expected features of all sources after spreading. */
static void spread_slots(const subject *s, double *back)
{
    int channels = s->gather.channels, width = source_channels(s);

    for (int i = 0; i < s->want.count; i++) {
        int slot = s->want.slot[i];
        int first = s->gather.slices ? slot % s->children * channels : 0;
        for (int c = 0; c < channels; c++)
            back[(int64_t)(slot / s->children) * width + first + c] +=
                feature_of(-1, s->want.row[i], c);
    }
}

static spc_status run_spread(const subject *s, const spc__guarded *arrays)
{
    int64_t rows = s->slots / s->children, first = 0;
    size_t width = (size_t)source_channels(s);
    double *back = NULL;
    void *out[SOURCES];
    spc_status status =
        allocate(&back, s, (size_t)rows * width * sizeof(*back));

    if (status != SPC_OK)
        return status;
    memset(back, 0, (size_t)rows * width * sizeof(*back));
    spread_slots(s, back);
    for (int i = 0; i < s->count; i++)
        out[i] = arrays[i].data;
    if ((status = spc_coords_scatter_features(
             out, s->set, arrays[s->count].data, &s->gather, NULL)) == SPC_OK)
        status = spc_ctx_synchronize(s->ctx);
    for (int i = 0; i < s->count && status == SPC_OK; i++) {
        int64_t own = spc_scene_rows(s->scenes[i]);
        status = compare_features(s, out[i], back + (size_t)first * width, own,
                                  (int64_t)width, "spread");
        first += own;
    }
    free(back);
    return status == SPC_OK ? check_zones(s, arrays) : status;
}

static spc_status check_spread(const subject *s)
{
    spc__guarded arrays[SOURCES + 1] = {0};
    spc_status status = draw_features(&arrays[s->count], s, -1, s->want.rows,
                                      s->gather.channels);

    for (int i = 0; i < s->count && status == SPC_OK; i++)
        status = lay_results(&arrays[i], s, spc_scene_rows(s->scenes[i]),
                             source_channels(s));
    if (status == SPC_OK)
        status = run_spread(s, arrays);
    free_arrays(s, arrays);
    return status;
}

/* ---- all of it ----------------------------------------------------------- */

/* True for types that a device may refuse; the others must be supported. */
static bool may_refuse(spc_dtype dtype)
{
    return dtype == SPC_I8;
}

static spc_status check_features(subject *s)
{
    int slices = s->children > 1 ? 2 : 1; /* layouts of children */
    spc_status status = SPC_OK;

    for (unsigned t = 0; spc__dtype_of((spc_dtype)t) != NULL; t++)
        for (int i = 0; i < slices * CHANNEL_COUNTS && status == SPC_OK; i++) {
            s->gather =
                (spc_gather){(spc_dtype)t, channel_counts[i % CHANNEL_COUNTS],
                             i >= CHANNEL_COUNTS};
            status = check_gather(s);
            if (status == SPC_EINVAL && may_refuse((spc_dtype)t)) {
                status = SPC_OK;
                break;
            }
            if (status == SPC_OK)
                status = check_spread(s);
        }
    return status;
}

static void release(subject *s)
{
    spc_coords_free(s->set);
    for (int i = 0; i < s->count; i++)
        spc_coords_free(s->source[i]);
    spc_memory_free(s->ctx, s->device_mask);
    free(s->mask);
    spc__slot_list_release(&s->want);
}

static spc_status verify_on(spc_ctx *ctx, const spc_regrouping *how,
                            const spc_scene *const *scenes, int count,
                            uint64_t seed)
{
    spc_status status = SPC_OK;

    for (int masked = 0; masked < 2 && status == SPC_OK; masked++) {
        subject s = {.ctx = ctx,
                     .how = how,
                     .scenes = scenes,
                     .count = count,
                     .masked = masked == 1};
        spc__guards_init(&s.guards, ctx, 0);
        if ((status = spc__ctx_check_cancel(ctx)) == SPC_OK &&
            (status = make_set(&s, seed)) == SPC_OK &&
            (status = check_voxels(&s)) == SPC_OK &&
            (status = check_lists(&s)) == SPC_OK)
            status = check_features(&s);
        release(&s);
    }
    return status;
}

static spc_status verify_awkward(spc_ctx *ctx, const spc_regrouping *how, int i,
                                 uint64_t seed)
{
    static const spc_conv anywhere = SPC_CONV_INIT;
    spc_scene *scene = NULL;
    spc_status status =
        spc__awkward_scene(&scene, i, &anywhere, spc__error_of(ctx));
    const spc_scene *one = scene;

    if (status == SPC_OK)
        status = verify_on(ctx, how, &one, 1, seed);
    spc_scene_free(scene);
    return status;
}

spc_status spc_regrouping_verify(spc_ctx *ctx, const spc_regrouping *how,
                                 const spc_scene *const *scenes,
                                 int scene_count, uint64_t seed)
{
    spc_error *error = spc__error_of(ctx);
    int together = scene_count < SOURCES ? scene_count : SOURCES;
    spc_status status = spc__need(error, __func__, "ctx", ctx, NULL);

    if (status == SPC_OK &&
        (status = spc_regrouping_check(how, error)) == SPC_OK)
        status = spc__scenes_check(scenes, scene_count, error);
    for (int s = 0; s < scene_count && status == SPC_OK; s++)
        status = verify_on(ctx, how, &scenes[s], 1, seed);
    if (together > 1 && status == SPC_OK)
        status = verify_on(ctx, how, scenes, together, seed);
    for (int i = 0; i < SPC__AWKWARD && status == SPC_OK; i++)
        status = verify_awkward(ctx, how, i, seed);
    return status;
}
