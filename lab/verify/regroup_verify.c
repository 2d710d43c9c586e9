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

typedef struct fixture {
    spc_ctx *ctx;
    const spc_regrouping *how;
    const spc_scene *const *scenes;
    int count;    /* number of sources */
    int children; /* children of a voxel */
    int slots;    /* slots of all sources */
    bool masked;
    uint8_t *mask;
    void *device_mask;
    spc_coords *source[SOURCES];
    spc_coords *set;
    spc__slot_list want;
    spc_gather gather;
    spc__guards guards;
} fixture;

__attribute__((format(printf, 2, 3))) static spc_status
fail_wrong(const fixture *f, const char *format, ...)
{
    char what[160], how[80];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(what, sizeof(what), format, arguments);
    va_end(arguments);
    spc_regrouping_format(how, sizeof(how), f->how);
    return spc__fail(spc__error_of(f->ctx), SPC_EWRONG,
                     "%s: %s; %d sources, the first is scene '%.60s', %s mask",
                     how, what, f->count, spc_scene_name(f->scenes[0]),
                     f->masked ? "with a" : "without a");
}

static spc_status allocate(void *out, const fixture *f, size_t bytes)
{
    void *memory = malloc(bytes + 16);

    memcpy(out, &memory, sizeof(memory));
    return memory != NULL ? SPC_OK
                          : spc__fail_memory(spc__error_of(f->ctx), bytes);
}

/* ---- the set ------------------------------------------------------------- */

/* Generates a mask that contains all nonzero bytes, as any of them means
 * "keep". */
static spc_status draw_mask(fixture *f, uint64_t seed)
{
    spc__random random;
    spc_status status;

    if (!f->masked)
        return SPC_OK;
    if ((status = allocate(&f->mask, f, (size_t)f->slots)) != SPC_OK)
        return status;
    spc__random_init(&random, seed);
    for (int i = 0; i < f->slots; i++)
        f->mask[i] = spc__random_below(&random, 100) < MASK_PERCENT
                         ? (uint8_t)(1 + i % 255)
                         : 0;
    if ((status = spc_memory_alloc(&f->device_mask, f->ctx,
                                   (size_t)f->slots + 16)) != SPC_OK)
        return status;
    return spc_memory_upload(f->device_mask, f->ctx, f->mask, (size_t)f->slots);
}

/* Makes the set on the device and with the oracle. */
static spc_status make_set(fixture *f, uint64_t seed)
{
    spc_status status = SPC_OK;

    f->children = f->how->split[0] * f->how->split[1] * f->how->split[2];
    for (int i = 0; i < f->count && status == SPC_OK; i++) {
        f->slots += (int)spc_scene_rows(f->scenes[i]) * f->children;
        status =
            spc_coords_create_from_scene(&f->source[i], f->ctx, f->scenes[i]);
    }
    if (status != SPC_OK || (status = draw_mask(f, seed)) != SPC_OK ||
        (status = spc__regroup_oracle(&f->want, f->how, f->scenes, f->count,
                                      f->mask, spc__error_of(f->ctx))) !=
            SPC_OK)
        return status;
    return spc_coords_create_regrouped(&f->set, f->source, f->count, f->how,
                                       f->device_mask);
}

/* Copies ints from the device; the caller frees *out. */
static spc_status fetch(int32_t **out, const fixture *f, const int32_t *from,
                        int count)
{
    size_t bytes = (size_t)count * sizeof(**out);
    spc_status status = allocate(out, f, bytes);

    return status == SPC_OK && count > 0
               ? spc_memory_download(*out, f->ctx, from, bytes)
               : status;
}

/* Compares the voxels. */
static spc_status check_voxels(const fixture *f)
{
    const spc__slot_list *want = &f->want;
    int32_t *got = NULL;
    spc_status status;

    if (spc_coords_rows(f->set) != want->rows)
        return fail_wrong(f, "it has %s and must have %d",
                          spc__count(spc_coords_rows(f->set), "row"),
                          want->rows);
    status = fetch(&got, f, spc_coords_data(f->set), 4 * want->rows);
    for (int i = 0; i < want->count && status == SPC_OK; i++)
        if (memcmp(got + 4 * want->row[i], want->at[i], sizeof(want->at[i])))
            status = fail_wrong(f, "row %d is another voxel than slot %d",
                                want->row[i], want->slot[i]);
    free(got);
    return status;
}

/* ---- lists of rows ------------------------------------------------------- */

/* `next` is the expected position of the next slot of each row. */
static spc_status compare_slots(const fixture *f, const int32_t *of,
                                const int32_t *members, int32_t *next)
{
    const spc__slot_list *want = &f->want;

    for (int slot = 0, i = 0; slot < f->slots; slot++) {
        bool is_in = i < want->count && want->slot[i] == slot;
        int row = is_in ? want->row[i++] : -1;
        if (of[slot] != row)
            return fail_wrong(f, "slot %d went to row %d, not %d", slot,
                              (int)of[slot], row);
        if (is_in && members[next[row]++] != slot)
            return fail_wrong(f, "slot %d is not in its place of row %d", slot,
                              row);
    }
    return SPC_OK;
}

/* Compares the lists of slots by row: each row has its slots in order, and no
 * slot is missing. */
static spc_status compare_lists(const fixture *f, const int32_t *begin,
                                const int32_t *of, const int32_t *members)
{
    int rows = f->want.rows;
    int32_t *next = NULL;
    spc_status status = allocate(&next, f, (size_t)rows * sizeof(*next));

    if (status != SPC_OK)
        return status;
    memcpy(next, begin, (size_t)rows * sizeof(*next));
    if (begin[0] != 0 || begin[rows] != f->want.count)
        status = fail_wrong(f, "the rows have %d slots and must have %d",
                            (int)(begin[rows] - begin[0]), f->want.count);
    else
        status = compare_slots(f, of, members, next);
    for (int r = 0; r < rows && status == SPC_OK; r++)
        if (next[r] != begin[r + 1])
            status = fail_wrong(f, "row %d ends at slot %d, not %d", r,
                                (int)begin[r + 1], (int)next[r]);
    free(next);
    return status;
}

/* Fetches the lists and compares. */
static spc_status check_lists(const fixture *f)
{
    spc_row_lists lists;
    int32_t *begin = NULL, *of = NULL, *members = NULL;
    spc_status status;

    if (!spc_coords_row_lists(&lists, f->set))
        return fail_wrong(f, "it has no lists of rows");
    if ((status = fetch(&begin, f, lists.begin, f->want.rows + 1)) == SPC_OK &&
        (status = fetch(&of, f, lists.row_of, f->slots)) == SPC_OK &&
        (status = fetch(&members, f, lists.slots, f->want.count)) == SPC_OK)
        status = compare_lists(f, begin, of, members);
    free(begin);
    free(of);
    free(members);
    return status;
}

/* ---- features ------------------------------------------------------------ */

/* Returns the feature of row `row` of a source, or of the set if `source` is
 * -1. */
static float feature_of(int source, int64_t row, int64_t channel)
{
    return (float)(((source + 1) * 31 + row * 7 + channel * 3) % 13 - 6);
}

/* Uploads rows of random features. */
static spc_status draw_features(spc__guarded *to, const fixture *f, int source,
                                int64_t rows, int channels)
{
    spc__operand as = spc__matrix_of(f->gather.dtype, rows, channels, channels);
    int64_t count = rows * channels;
    float *values = NULL;
    spc_status status = allocate(&values, f, (size_t)count * sizeof(*values));

    if (status != SPC_OK)
        return status;
    for (int64_t i = 0; i < count; i++)
        values[i] = feature_of(source, i / channels, i % channels);
    status = spc__guarded_encode(&f->guards, to, &as, values, 0);
    free(values);
    return status;
}

/* Makes room for rows that an operator writes. */
static spc_status lay_results(spc__guarded *to, const fixture *f, int64_t rows,
                              int channels)
{
    return spc__guarded_clear(
        &f->guards, to,
        (size_t)(rows * channels) * spc__dtype_of(f->gather.dtype)->bytes, 0);
}

/* Nothing may be written beside any array. */
static spc_status check_zones(const fixture *f, const spc__guarded *arrays)
{
    int written, which;
    spc_status status =
        spc__guarded_check(&written, &which, &f->guards, arrays, f->count + 1);

    return status == SPC_OK && written != 0
               ? fail_wrong(f, "something is written %s features of %s",
                            written < 0 ? "before" : "behind",
                            which < f->count ? "a source" : "the set")
               : status;
}

/* Compares `rows` rows on the device with sums rounded once. */
static spc_status compare_features(const fixture *f, const void *device,
                                   const double *want, int64_t rows,
                                   int64_t channels, const char *what)
{
    spc__operand of = spc__matrix_of(f->gather.dtype, rows, channels, channels);
    spc__expected expected = {.reference = want};
    spc__worst worst = {0};
    char *got = NULL, text[SPC__WORST_TEXT];
    spc_status status = allocate(&got, f, of.bytes);

    if (status == SPC_OK &&
        (status = spc_memory_download(got, f->ctx, device, of.bytes)) == SPC_OK)
        worst = spc__judge(got, &of, &expected);
    if (worst.error > 1)
        status = fail_wrong(f, "%s: of %d %s channels, %s", what,
                            f->gather.channels, spc__dtype_of(of.dtype)->name,
                            spc__worst_text(text, &worst));
    free(got);
    return status;
}

/*
 * Finds the source of a row of the concatenated sources, and the row's index in
 * this source.
 */
static int source_of(const fixture *f, int row, int64_t *own)
{
    int source = 0;

    *own = row;
    while (*own >= spc_scene_rows(f->scenes[source]))
        *own -= spc_scene_rows(f->scenes[source++]);
    return source;
}

/* Computes the expected features of a gather. */
static void sum_slots(const fixture *f, double *sums)
{
    int channels = f->gather.channels;

    for (int i = 0; i < f->want.count; i++) {
        int slot = f->want.slot[i], child = slot % f->children;
        int first = f->gather.slices ? child * channels : 0;
        int64_t row;
        int source = source_of(f, slot / f->children, &row);
        for (int c = 0; c < channels; c++)
            sums[f->want.row[i] * channels + c] +=
                feature_of(source, row, first + c);
    }
}

static int source_channels(const fixture *f)
{
    return f->gather.channels * (f->gather.slices ? f->children : 1);
}

/* Gathers, and compares with sums on the host. */
static spc_status run_gather(const fixture *f, const spc__guarded *arrays)
{
    size_t count = (size_t)(f->want.rows * f->gather.channels);
    const spc__guarded *out = &arrays[f->count];
    const void *in[SOURCES];
    double *sums = NULL;
    spc_status status = allocate(&sums, f, count * sizeof(*sums));

    if (status != SPC_OK)
        return status;
    memset(sums, 0, count * sizeof(*sums));
    sum_slots(f, sums);
    for (int i = 0; i < f->count; i++)
        in[i] = arrays[i].data;
    if ((status = spc_coords_gather_features(out->data, f->set, in, &f->gather,
                                             NULL)) == SPC_OK &&
        (status = spc_ctx_synchronize(f->ctx)) == SPC_OK)
        status = compare_features(f, out->data, sums, f->want.rows,
                                  f->gather.channels, "gathered");
    free(sums);
    return status == SPC_OK ? check_zones(f, arrays) : status;
}

/* Draws features and checks a gather of them. */
static spc_status check_gather(const fixture *f)
{
    spc__guarded arrays[SOURCES + 1] = {0}; /* features of the sources and of
                                             * the set */
    spc_status status = SPC_OK;

    for (int i = 0; i < f->count && status == SPC_OK; i++)
        status = draw_features(&arrays[i], f, i, spc_scene_rows(f->scenes[i]),
                               source_channels(f));
    if (status == SPC_OK)
        status =
            lay_results(&arrays[f->count], f, f->want.rows, f->gather.channels);
    if (status == SPC_OK)
        status = run_gather(f, arrays);
    spc__guarded_release(&f->guards, arrays, f->count + 1);
    return status;
}

/* Computes the expected features of all sources after spreading. */
static void spread_slots(const fixture *f, double *back)
{
    int channels = f->gather.channels, width = source_channels(f);

    for (int i = 0; i < f->want.count; i++) {
        int slot = f->want.slot[i];
        int first = f->gather.slices ? slot % f->children * channels : 0;
        for (int c = 0; c < channels; c++)
            back[(int64_t)(slot / f->children) * width + first + c] +=
                feature_of(-1, f->want.row[i], c);
    }
}

/* Spreads features back, and compares for each source. */
static spc_status run_spread(const fixture *f, const spc__guarded *arrays)
{
    int64_t rows = f->slots / f->children, first = 0;
    size_t width = (size_t)source_channels(f);
    double *back = NULL;
    void *out[SOURCES];
    spc_status status =
        allocate(&back, f, (size_t)rows * width * sizeof(*back));

    if (status != SPC_OK)
        return status;
    memset(back, 0, (size_t)rows * width * sizeof(*back));
    spread_slots(f, back);
    for (int i = 0; i < f->count; i++)
        out[i] = arrays[i].data;
    if ((status = spc_coords_scatter_features(
             out, f->set, arrays[f->count].data, &f->gather, NULL)) == SPC_OK)
        status = spc_ctx_synchronize(f->ctx);
    for (int i = 0; i < f->count && status == SPC_OK; i++) {
        int64_t own = spc_scene_rows(f->scenes[i]);
        status = compare_features(f, out[i], back + (size_t)first * width, own,
                                  (int64_t)width, "spread");
        first += own;
    }
    free(back);
    return status == SPC_OK ? check_zones(f, arrays) : status;
}

/* Draws features and checks that they are spread back. */
static spc_status check_spread(const fixture *f)
{
    spc__guarded arrays[SOURCES + 1] = {0};
    spc_status status = draw_features(&arrays[f->count], f, -1, f->want.rows,
                                      f->gather.channels);

    for (int i = 0; i < f->count && status == SPC_OK; i++)
        status = lay_results(&arrays[i], f, spc_scene_rows(f->scenes[i]),
                             source_channels(f));
    if (status == SPC_OK)
        status = run_spread(f, arrays);
    spc__guarded_release(&f->guards, arrays, f->count + 1);
    return status;
}

/* ---- entry point --------------------------------------------------------- */

/* True for types that a device may refuse; the others must be supported. */
static bool may_refuse(spc_dtype dtype)
{
    return dtype == SPC_I8;
}

/* Checks every type, with few and many channels. */
static spc_status check_features(fixture *f)
{
    int slices = f->children > 1 ? 2 : 1; /* layouts of children */
    spc_status status = SPC_OK;

    for (unsigned t = 0; spc__dtype_of((spc_dtype)t) != NULL; t++)
        for (int i = 0; i < slices * CHANNEL_COUNTS && status == SPC_OK; i++) {
            f->gather =
                (spc_gather){(spc_dtype)t, channel_counts[i % CHANNEL_COUNTS],
                             i >= CHANNEL_COUNTS};
            status = check_gather(f);
            if (status == SPC_EINVAL && may_refuse((spc_dtype)t)) {
                status = SPC_OK;
                break;
            }
            if (status == SPC_OK)
                status = check_spread(f);
        }
    return status;
}

static void release(fixture *f)
{
    spc_coords_free(f->set);
    for (int i = 0; i < f->count; i++)
        spc_coords_free(f->source[i]);
    spc_memory_free(f->ctx, f->device_mask);
    free(f->mask);
    spc__slot_list_release(&f->want);
}

/* Verifies without and with a mask. */
static spc_status verify_on(spc_ctx *ctx, const spc_regrouping *how,
                            const spc_scene *const *scenes, int count,
                            uint64_t seed)
{
    spc_status status = SPC_OK;

    for (int masked = 0; masked < 2 && status == SPC_OK; masked++) {
        fixture f = {.ctx = ctx,
                     .how = how,
                     .scenes = scenes,
                     .count = count,
                     .masked = masked == 1};
        spc__guards_init(&f.guards, ctx, 0);
        if ((status = spc__ctx_check_cancel(ctx)) == SPC_OK &&
            (status = make_set(&f, seed)) == SPC_OK &&
            (status = check_voxels(&f)) == SPC_OK &&
            (status = check_lists(&f)) == SPC_OK)
            status = check_features(&f);
        release(&f);
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
