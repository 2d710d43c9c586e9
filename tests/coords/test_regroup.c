/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_regroup.c - sets made from other sets, and the features of their rows.
 * Expected results are lists made here slot by slot.
 *
 * Runs on "cpu" and "sim", or on the device given as argument. "nvrtc" checks
 * that the code compiles for GPUs that are not installed.
 */
#include "base/dtype.h"
#include "compiler/artefact.h"
#include "compiler/template.h"
#include "coords/regroup/regroup.h"
#include "harness/coords_harness.h"
#include "harness/counted_allocations.h"
#include "device/targets.h"
#include <stdio.h>
#include <time.h>

#define LENGTH(array) ((int)(sizeof(array) / sizeof(*(array))))

enum { SOURCES = 3, CHANNELS = 16 };

/* ---- expected results ---------------------------------------------------- */

typedef struct slot_list {
    int count;
    int *slot; /* ascending */
    int32_t (*at)[4];
    int *row; /* row of the set; -1: none */
    int rows;
} slot_list;

typedef struct plan {
    const char *name;
    int scale[3], split[3];
    int counts[SOURCES]; /* rows of each source; 0: no source */
    int extent;
    int percent; /* share of slots that the mask keeps; 100: no mask */
    bool slices, wide;
} plan;

static const plan plans[] = {
    {"prune", {1, 1, 1}, {1, 1, 1}, {700}, 12, 50, false, false},
    {"prune all", {1, 1, 1}, {1, 1, 1}, {90}, 9, 0, false, false},
    {"scale", {3, 1, 2}, {1, 1, 1}, {500}, 12, 100, false, false},
    {"subdivide", {2, 2, 2}, {2, 2, 2}, {300}, 9, 100, false, false},
    {"channel to space", {2, 2, 2}, {2, 2, 2}, {300}, 9, 40, true, false},
    {"part of it", {2, 3, 1}, {2, 3, 1}, {200}, 9, 60, true, true},
    {"collapse", {1, 1, 0}, {1, 1, 1}, {900}, 13, 100, false, false},
    {"union", {1, 1, 1}, {1, 1, 1}, {400, 1, 350}, 9, 100, false, true},
    {"union of parts",
     {1, 1, 1},
     {1, 1, 1},
     {300, 200, 90},
     9,
     70,
     false,
     false},
    {"collapsed union",
     {1, 0, 1},
     {1, 1, 1},
     {300, 200, 90},
     11,
     100,
     false,
     false},
    {"nothing meets", {1, 1, 1}, {1, 1, 1}, {60, 2}, 60, 100, false, false},
    {"grow", {1, 1, 1}, {2, 1, 2}, {200}, 8, 80, true, false},
};

static int children_of(const plan *p)
{
    return p->split[0] * p->split[1] * p->split[2];
}

static int sources_of(const plan *p)
{
    int n = 0;

    while (n < SOURCES && p->counts[n] > 0)
        n++;
    return n;
}

static void list_row(slot_list *l, const plan *p, const int32_t voxel[4],
                     int row, const uint8_t *mask)
{
    int children = children_of(p);

    for (int child = 0; child < children; child++) {
        int digits[3] = {child % p->split[0], child / p->split[0] % p->split[1],
                         child / p->split[0] / p->split[1]};
        if (mask && !mask[row * children + child])
            continue;
        l->slot[l->count] = row * children + child;
        l->at[l->count][0] = voxel[0];
        for (int a = 0; a < 3; a++)
            l->at[l->count][1 + a] = voxel[1 + a] * p->scale[a] + digits[a];
        l->count++;
    }
}

typedef struct placed {
    int32_t at[4];
    int slot; /* index in slot_list */
} placed;

/* Numbers rows in ascending order of coordinates; equal rows share a number. */
static void number_merged(slot_list *l)
{
    placed *all = calloc((size_t)l->count + 1, sizeof *all);

    for (int i = 0; i < l->count; i++) {
        memcpy(all[i].at, l->at[i], 16);
        all[i].slot = i;
    }
    qsort(all, (size_t)l->count, sizeof *all, compare);
    for (int i = 0; i < l->count; i++) {
        l->rows += i == 0 || compare(all[i].at, all[i - 1].at) != 0;
        l->row[all[i].slot] = l->rows - 1;
    }
    free(all);
}

static void number_rows(slot_list *l, const plan *p)
{
    bool merges = sources_of(p) > 1;

    for (int a = 0; a < 3; a++)
        merges |= p->scale[a] < p->split[a];
    if (merges) {
        number_merged(l);
        return;
    }
    l->rows = l->count;
    for (int i = 0; i < l->count; i++)
        l->row[i] = i;
}

static slot_list list_slots(const plan *p, const rows *sources,
                            const int *capacity, const uint8_t *mask)
{
    int most = 0, first = 0;
    slot_list l = {0};

    for (int s = 0; s < sources_of(p); s++)
        most += sources[s].count * children_of(p);
    l.slot = calloc((size_t)most + 1, 4);
    l.at = calloc((size_t)most + 1, 16);
    l.row = calloc((size_t)most + 1, 4);
    for (int s = 0; s < sources_of(p); first += capacity[s++])
        for (int row = 0; row < sources[s].count; row++)
            list_row(&l, p, sources[s].at[row], first + row, mask);
    number_rows(&l, p);
    return l;
}

static void release_list(slot_list *l)
{
    free(l->slot);
    free(l->at);
    free(l->row);
}

/* ---- comparing a set ----------------------------------------------------- */

static void check_voxels(spc_ctx *ctx, const spc_coords *set,
                         const slot_list *want)
{
    ck_assert_int_eq(spc_coords_rows(set), want->rows);
    int32_t *got = fetch(ctx, spc_coords_data(set), 4 * (size_t)want->rows);
    for (int i = 0; i < want->count; i++)
        require(memcmp(got + 4 * want->row[i], want->at[i], 16) == 0,
                "slot %d: row %d is another voxel", want->slot[i],
                want->row[i]);
    free(got);
}

static void check_lists(spc_ctx *ctx, const spc_coords *set,
                        const slot_list *want, int slots)
{
    spc_row_lists lists;

    ck_assert(spc_coords_row_lists(&lists, set));
    int *begin = fetch(ctx, lists.begin, (size_t)want->rows + 1);
    int *of = fetch(ctx, lists.row_of, (size_t)slots);
    int *members = fetch(ctx, lists.slots, (size_t)want->count);
    ck_assert_int_eq(begin[0], 0);
    ck_assert_int_eq(begin[want->rows], want->count);
    int *next = malloc(4 * (size_t)want->rows + 4);
    memcpy(next, begin, 4 * (size_t)want->rows);
    for (int at = 0, i = 0; at < slots; at++) {
        if (i == want->count || at < want->slot[i]) {
            require(of[at] == -1, "slot %d is nobody's", at);
            continue;
        }
        require(of[at] == want->row[i], "slot %d went to row %d, not %d", at,
                of[at], want->row[i]);
        require(members[next[want->row[i]]++] == at, "slot %d out of order",
                at);
        i++;
    }
    for (int r = 0; r < want->rows; r++)
        require(next[r] == begin[r + 1], "row %d has more slots", r);
    free(begin);
    free(of);
    free(members);
    free(next);
}

/* ---- features ------------------------------------------------------------ */

/* Returns a small integer, so that sums are exact in every type. */
static float feature_of(int source, int row, int channel)
{
    return (float)((source * 31 + row * 7 + channel * 3) % 13 - 6);
}

static void *encode(spc_dtype dtype, const float *from, size_t n)
{
    char *to = malloc(4 * n + 16);

    spc__dtype_of(dtype)->encode(to, from, n);
    return to;
}

/* Returns a device array of `rows` x `channels` sampled features. */
static void *draw_features(spc_ctx *ctx, spc_dtype dtype, int source, int count,
                           int channels)
{
    size_t n = (size_t)count * (size_t)channels;
    float *from = malloc(4 * n + 4);

    for (size_t i = 0; i < n; i++)
        from[i] = feature_of(source, (int)(i / (size_t)channels),
                             (int)(i % (size_t)channels));
    void *bytes = encode(dtype, from, n);
    void *to = upload(ctx, bytes, n * spc__dtype_of(dtype)->bytes);
    free(bytes);
    free(from);
    return to;
}

static float *fetch_features(spc_ctx *ctx, spc_dtype dtype, const void *from,
                             size_t n)
{
    float *to = malloc(4 * n + 4);
    void *bytes = malloc(4 * n + 4);

    assert_ok(ctx, spc_memory_download(bytes, ctx, from,
                                       n * spc__dtype_of(dtype)->bytes));
    spc__dtype_of(dtype)->decode(to, bytes, n);
    free(bytes);
    return to;
}

typedef struct fixture {
    spc_ctx *ctx;
    const plan *p;
    spc_coords *set;
    const int *capacity; /* capacity of each source */
    const slot_list *want;
    spc_gather how;
} fixture;

static int source_of(const fixture *s, int row, int *first)
{
    int source = 0;

    *first = 0;
    while (row >= *first + s->capacity[source])
        *first += s->capacity[source++];
    return source;
}

/* Returns channel c of a slot, by the definition of spc_gather. */
static float slot_feature(const fixture *s, int slot, int c)
{
    int children = children_of(s->p), first, row = slot / children;
    int source = source_of(s, row, &first);

    return feature_of(source, row - first,
                      s->how.slices ? slot % children * s->how.channels + c
                                    : c);
}

static void check_gather(const fixture *s)
{
    int wide = s->how.slices ? children_of(s->p) : 1, c = s->how.channels;
    size_t n = (size_t)s->want->rows * (size_t)c;
    const void *in[SOURCES];
    float *sums = calloc(n + 1, 4);
    void *out;

    for (int i = 0; i < sources_of(s->p); i++)
        in[i] =
            draw_features(s->ctx, s->how.dtype, i, s->capacity[i], wide * c);
    assert_ok(s->ctx, spc_memory_alloc(&out, s->ctx, 4 * n + 16));
    assert_ok(s->ctx,
              spc_coords_gather_features(out, s->set, in, &s->how, NULL));
    float *got = fetch_features(s->ctx, s->how.dtype, out, n);
    for (int i = 0; i < s->want->count; i++)
        for (int k = 0; k < c; k++)
            sums[s->want->row[i] * c + k] +=
                slot_feature(s, s->want->slot[i], k);
    for (size_t i = 0; i < n; i++)
        require(got[i] == sums[i], "row %d, channel %d: %g, not %g", (int)i / c,
                (int)i % c, (double)got[i], (double)sums[i]);
    for (int i = 0; i < sources_of(s->p); i++)
        spc_memory_free(s->ctx, (void *)in[i]);
    spc_memory_free(s->ctx, out);
    free(got);
    free(sums);
}

/* Returns the value that channel c of a source row gets back. */
static float spread_feature(const fixture *s, int row, int c)
{
    int children = children_of(s->p);
    float sum = 0;

    for (int i = 0; i < s->want->count; i++) {
        int child = s->want->slot[i] - row * children;
        if (child < 0 || child >= children)
            continue;
        if (!s->how.slices)
            sum += feature_of(9, s->want->row[i], c);
        else if (child == c / s->how.channels)
            sum += feature_of(9, s->want->row[i], c % s->how.channels);
    }
    return sum;
}

static void check_source(const fixture *s, const void *out, int first,
                         int count, int c)
{
    float *got = fetch_features(s->ctx, s->how.dtype, out, (size_t)(count * c));

    for (int row = 0; row < count; row += 1 + count / 60)
        for (int k = 0; k < c; k++) {
            float want = spread_feature(s, first + row, k);
            require(got[row * c + k] == want,
                    "row %d of all, channel %d: %g, not %g", first + row, k,
                    (double)got[row * c + k], (double)want);
        }
    free(got);
}

static void check_spread(const fixture *s)
{
    int sources = sources_of(s->p), first = 0;
    int c = s->how.channels * (s->how.slices ? children_of(s->p) : 1);
    void *out[SOURCES];
    void *in =
        draw_features(s->ctx, s->how.dtype, 9, s->want->rows, s->how.channels);

    for (int i = 0; i < sources; i++)
        assert_ok(s->ctx,
                  spc_memory_alloc(&out[i], s->ctx,
                                   4 * (size_t)(s->capacity[i] * c) + 16));
    assert_ok(s->ctx,
              spc_coords_scatter_features(out, s->set, in, &s->how, NULL));
    for (int i = 0; i < sources; first += s->capacity[i++])
        check_source(s, out[i], first, s->capacity[i], c);
    for (int i = 0; i < sources; i++)
        spc_memory_free(s->ctx, out[i]);
    spc_memory_free(s->ctx, in);
}

/* Checks features whose rows are copied by 16 bytes at once, or by single
 * channels. */
static void check_features(fixture *s)
{
    static const spc_gather how[] = {
        {SPC_F16, CHANNELS, false},  {SPC_F32, CHANNELS, false},
        {SPC_F16, 3, false},         {SPC_TF32, 5, false},
        {SPC_BF16, CHANNELS, false}, {SPC_BF16, 5, false}};

    for (int i = 0; i < LENGTH(how); i++) {
        s->how = how[i];
        s->how.slices = s->p->slices;
        check_gather(s);
        check_spread(s);
    }
}

/* ---- every plan ---------------------------------------------------------- */

static uint8_t *draw_mask(const plan *p, int slots, uint64_t seed)
{
    uint8_t *mask = malloc((size_t)slots + 1);
    spc__random random;

    spc__random_init(&random, seed);
    for (int i = 0; i < slots; i++)
        mask[i] =
            (uint8_t)(spc__random_below(&random, 100) < (uint32_t)p->percent
                          ? 1 + i % 255
                          : 0);
    return mask;
}

/* Checks the set's own submanifold map by the coordinates of its rows. */
static void check_own_map(spc_ctx *ctx, spc_coords *set)
{
    spc_conv conv = parse("subm,cin=4,cout=4,k=3");
    rows r = {
        fetch(ctx, spc_coords_data(set), 4 * (size_t)spc_coords_rows(set)),
        (int)spc_coords_rows(set)};
    spc_map *map;

    assert_ok(ctx, spc_map_create(&map, set, set, &conv.geometry));
    assert_ok(ctx, spc_map_update(map, NULL, NULL, 0, NULL));
    assert_ok(ctx, spc_map_check(map, NULL));
    check_map(ctx, map, &conv, &r);
    spc_map_free(map);
    free(r.at);
}

static rows draw_source(const plan *p, int i, uint64_t seed)
{
    rows r = draw(p->counts[i], -5 + 2 * i, p->extent, 2, seed + (uint64_t)i);

    if (p->wide && i == 0) /* needs 64-bit keys */
        r.at[0][1] = 200000000;
    return r;
}

static void check_plan(spc_ctx *ctx, const plan *p, uint64_t seed)
{
    int sources = sources_of(p), capacity[SOURCES] = {0}, slots = 0;
    rows r[SOURCES];
    spc_coords *set[SOURCES], *made;
    spc_regrouping how;
    uint8_t *mask = NULL, *device_mask = NULL;

    memcpy(how.scale, p->scale, sizeof how.scale);
    memcpy(how.split, p->split, sizeof how.split);
    for (int i = 0; i < sources; i++) {
        r[i] = draw_source(p, i, seed);
        spc_scene *scene = scene_of(&r[i]);
        assert_ok(ctx, spc_coords_create_from_scene(&set[i], ctx, scene));
        spc_scene_free(scene);
        capacity[i] = r[i].count;
        slots += r[i].count * children_of(p);
    }
    if (p->percent < 100) {
        mask = draw_mask(p, slots, seed);
        device_mask = upload(ctx, mask, (size_t)slots);
    }
    slot_list want = list_slots(p, r, capacity, mask);
    assert_ok(ctx, spc_coords_create_regrouped(&made, set, sources, &how,
                                               device_mask));
    check_voxels(ctx, made, &want);
    check_lists(ctx, made, &want, slots);
    fixture s = {ctx, p, made, capacity, &want, {0}};
    check_features(&s);
    if (!p->wide)
        check_own_map(ctx, made);
    spc_coords_free(made);
    for (int i = 0; i < sources; i++) {
        spc_coords_free(set[i]);
        free(r[i].at);
    }
    if (device_mask)
        spc_memory_free(ctx, device_mask);
    free(mask);
    release_list(&want);
}

START_TEST(sets_are_made_of_others_as_their_slots_say)
{
    spc_ctx *ctx = open_ctx(device_of(_i));

    for (int n = 0; n < LENGTH(plans); n++) {
        if (strcmp(device_of(_i), "sim") == 0 && !suite_takes(n))
            continue;
        printf("%s\n", plans[n].name);
        fflush(stdout);
        check_plan(ctx, &plans[n], (uint64_t)n);
    }
    spc_ctx_free(ctx);
}
END_TEST

/* ---- levels of a network ------------------------------------------------- */

static rows rows_of(spc_ctx *ctx, const spc_coords *set, int scale)
{
    int count = (int)spc_coords_rows(set);
    rows r = {fetch(ctx, spc_coords_data(set), 4 * (size_t)count), count};

    for (int i = 0; i < count; i++)
        for (int a = 1; a < 4; a++)
            r.at[i][a] *= scale;
    return r;
}

static spc_coords *outputs_of(spc_ctx *ctx, spc_coords *in, const char *layer)
{
    spc_conv conv = parse(layer);
    spc_coords *out;

    assert_ok(ctx, spc_coords_create_outputs(&out, in, &conv.geometry));
    return out;
}

static spc_coords *scaled(spc_ctx *ctx, spc_coords *set, int scale)
{
    spc_regrouping how = {{scale, scale, scale}, {1, 1, 1}};
    spc_coords *out;

    assert_ok(ctx, spc_coords_create_regrouped(&out, &set, 1, &how, NULL));
    return out;
}

/* As in VoxelNeXt, voxels of two deeper levels move to the first level, z is
 * dropped, and equal voxels are added up. A convolution that is dilated in the
 * plane follows. */
START_TEST(levels_of_a_network_become_one_plane)
{
    static const plan p = {"plane", {1, 1, 0}, {1, 1, 1}, {1, 1, 1},
                           0,       100,       false,     false};
    static const char down[] = "conv,cin=4,cout=4,k=3,stride=2,padding=1,"
                               "rule=footprint",
                      plane[] = "conv,cin=4,cout=4,k=3x3x1,stride=1,"
                                "padding=1x1x0,rule=footprint";
    spc_regrouping how = {{1, 1, 0}, {1, 1, 1}};
    spc_ctx *ctx = open_ctx(device_of(_i));
    rows fine = draw(150, -9, 24, 2, 5);
    spc_scene *scene = scene_of(&fine);
    spc_coords *level[3], *set[3], *made, *out;
    spc_conv conv = parse(plane);

    assert_ok(ctx, spc_coords_create_from_scene(&level[0], ctx, scene));
    level[1] = outputs_of(ctx, level[0], down);
    level[2] = outputs_of(ctx, level[1], down);
    set[0] = spc__coords_share(level[0]);
    set[1] = scaled(ctx, level[1], 2);
    set[2] = scaled(ctx, level[2], 4);
    rows r[3] = {fine, rows_of(ctx, level[1], 2), rows_of(ctx, level[2], 4)};
    int capacity[SOURCES];
    for (int i = 0; i < 3; i++)
        capacity[i] = (int)spc_coords_capacity(set[i]);
    slot_list want = list_slots(&p, r, capacity, NULL);
    assert_ok(ctx, spc_coords_create_regrouped(&made, set, 3, &how, NULL));
    check_voxels(ctx, made, &want);
    fixture s = {ctx, &p, made, capacity, &want, {SPC_F16, CHANNELS, false}};
    check_gather(&s);
    out = outputs_of(ctx, made, plane);
    rows merged = rows_of(ctx, made, 1);
    check_outputs(ctx, out, &conv, &merged);
    ck_assert_int_lt(merged.count, want.count);
    for (int i = 0; i < 3; i++) {
        spc_coords_free(level[i]);
        spc_coords_free(set[i]);
        free(r[i].at);
    }
    spc_coords_free(made);
    spc_coords_free(out);
    spc_scene_free(scene);
    spc_ctx_free(ctx);
    release_list(&want);
    free(merged.at);
}
END_TEST

/* ---- frames -------------------------------------------------------------- */

static void fill(spc_ctx *ctx, spc_coords *set, const rows *r)
{
    int32_t *coords = upload(ctx, r->at, 16 * (size_t)r->count);
    int32_t *count = upload(ctx, &r->count, 4);

    assert_ok(ctx, spc_coords_update(set, coords, count, 0, NULL));
    assert_ok(ctx, spc_ctx_synchronize(ctx));
    spc_memory_free(ctx, coords);
    spc_memory_free(ctx, count);
}

/* Rows and masks differ between frames, with counts on the device. A frame that
 * exceeds the capacity leaves the set empty; the next one fills it again. */
START_TEST(frames_regroup_within_a_capacity)
{
    static const plan p = {"frames", {1, 1, 0}, {1, 1, 1}, {1, 1},
                           10,       60,        false,     false};
    static const int sizes[][2] = {
        {300, 200}, {20, 0}, {500, 500}, {0, 0}, {400, 9}};
    int capacity[SOURCES] = {500, 500}, most = 700;
    spc_regrouping how = {{1, 1, 0}, {1, 1, 1}};
    spc_ctx *ctx = open_ctx(device_of(_i));
    spc_coords *source[2], *made;

    for (int i = 0; i < 2; i++)
        source[i] = reserve(ctx, capacity[i], -400, 400, SPC_DUPLICATES_ERROR);
    assert_ok(ctx, spc_coords_create_regrouped_reserved(&made, source, 2, &how,
                                                        most));
    for (int n = 0; n < LENGTH(sizes); n++) {
        uint8_t *mask = n == 2 ? NULL : draw_mask(&p, 1000, (uint64_t)n);
        uint8_t *device_mask = mask ? upload(ctx, mask, 1000) : NULL;
        rows r[2];
        for (int i = 0; i < 2; i++) {
            r[i] = draw(sizes[n][i], -9 * i, 11, 2, (uint64_t)(2 * n + i));
            fill(ctx, source[i], &r[i]);
        }
        slot_list want = list_slots(&p, r, capacity, mask);
        assert_ok(ctx, spc_coords_update_regrouped(made, device_mask, NULL));
        spc_status status = spc_coords_check(made, NULL);
        if (want.count > most) {
            ck_assert_int_eq(status, SPC_ECAPACITY);
            ck_assert_ptr_nonnull(strstr(spc_ctx_error(ctx), "would have"));
            want.count = want.rows = 0;
        } else {
            assert_ok(ctx, status);
        }
        check_voxels(ctx, made, &want);
        check_lists(ctx, made, &want, 1000);
        for (int i = 0; i < 2; i++)
            free(r[i].at);
        release_list(&want);
        if (device_mask)
            spc_memory_free(ctx, device_mask);
        free(mask);
    }
    spc_coords_free(made);
    spc_coords_free(source[0]);
    spc_coords_free(source[1]);
    spc_ctx_free(ctx);
}
END_TEST

/* ---- invalid input ------------------------------------------------------ */

#define refused(wanted, says, call)                                            \
    do {                                                                       \
        ck_assert_int_eq(call, wanted);                                        \
        ck_assert_msg(strstr(spc_ctx_error(ctx), says), "%s",                  \
                      spc_ctx_error(ctx));                                     \
    } while (0)

static spc_regrouping regrouping(int scale, int split)
{
    return (spc_regrouping){{scale, scale, scale}, {split, split, split}};
}

START_TEST(impossible_sets_are_refused_with_a_sentence)
{
    spc_ctx *ctx = open_ctx(device_of(_i)), *other = open_ctx(device_of(_i));
    spc_coords *set = reserve(ctx, 10, 0, 400, 0), *made, *none;
    spc_coords *two[2] = {set, NULL}, *strange = reserve(other, 10, 0, 9, 0);
    spc_regrouping how = regrouping(1, 1), negative = regrouping(-1, 1),
                   nothing = regrouping(1, 0), many = regrouping(5, 5),
                   far = regrouping(65536, 1);
    spc_gather gather = {SPC_F32, 4, false};
    const void *in[1] = {NULL};

    refused(SPC_EINVAL, "made of 9 sets",
            spc_coords_create_regrouped_reserved(&none, two, 9, &how, 0));
    refused(SPC_EINVAL, "source 1 is NULL",
            spc_coords_create_regrouped_reserved(&none, two, 2, &how, 0));
    two[1] = strange;
    refused(SPC_EINVAL, "belong to two contexts",
            spc_coords_create_regrouped_reserved(&none, two, 2, &how, 0));
    refused(SPC_EINVAL, "scale -1 along x",
            spc_coords_create_regrouped_reserved(&none, two, 1, &negative, 0));
    refused(SPC_EINVAL, "split 0 along x",
            spc_coords_create_regrouped_reserved(&none, two, 1, &nothing, 0));
    refused(SPC_EINVAL, "more than 64 children",
            spc_coords_create_regrouped_reserved(&none, two, 1, &many, 0));
    refused(SPC_EINVAL, "a capacity of -3",
            spc_coords_create_regrouped_reserved(&none, two, 1, &how, -3));
    refused(SPC_EINVAL, "`how`",
            spc_coords_create_regrouped_reserved(&none, two, 1, NULL, 0));
    ck_assert_ptr_null(none);
    spc_coords *wide = reserve(ctx, 10, 0, 40000, 0);
    refused(SPC_ERANGE, "do not fit 32 bits",
            spc_coords_create_regrouped_reserved(&none, &wide, 1, &far, 0));
    refused(SPC_EINVAL, "was not made of other sets",
            spc_coords_update_regrouped(set, NULL, NULL));
    assert_ok(ctx,
              spc_coords_create_regrouped_reserved(&made, two, 1, &how, 0));
    refused(SPC_EINVAL, "derived from its inputs",
            spc_coords_update(made, (int32_t *)set, NULL, 1, NULL));
    refused(SPC_EINVAL, "`in[0]`",
            spc_coords_gather_features(set, made, in, &gather, NULL));
    gather.channels = 0;
    refused(SPC_EINVAL, "0 channels",
            spc_coords_gather_features(set, made, in, &gather, NULL));
    gather.dtype = (spc_dtype)77;
    refused(SPC_EINVAL, "type 77",
            spc_coords_scatter_features((void **)in, made, set, &gather, NULL));
    spc_coords_free(made);
    spc_coords_free(wide);
    spc_coords_free(set);
    spc_coords_free(strange);
    spc_ctx_free(ctx);
    spc_ctx_free(other);
}
END_TEST

/* ---- memory -------------------------------------------------------------- */

static spc_status make_and_move(spc_ctx *ctx, spc_coords *source)
{
    static float in[40], out[40];
    const spc_regrouping how = {{1, 1, 0}, {1, 1, 1}};
    const spc_gather gather = {SPC_F32, 1, false};
    const void *sources[1] = {in};
    spc_coords *made;
    spc_status status =
        spc_coords_create_regrouped(&made, &source, 1, &how, NULL);

    if (status == SPC_OK)
        status = spc_coords_gather_features(out, made, sources, &gather, NULL);
    spc_coords_free(made);
    return status;
}

START_TEST(every_allocation_may_fail)
{
    spc_ctx_options options = SPC_CTX_OPTIONS_INIT;
    rows r = draw(40, 0, 9, 1, 3);
    spc_scene *scene = scene_of(&r);
    spc_coords *source;
    spc_ctx *ctx;
    int failed = 0;

    options.device = "cpu";
    options.database = "";
    options.threads = 1;
    ck_assert(spc_ctx_create(&ctx, &options, NULL) == SPC_OK);
    assert_ok(ctx, spc_coords_create_from_scene(&source, ctx, scene));
    for (;; failed++) {
        fail_allocation(failed + 1);
        spc_status status = make_and_move(ctx, source);
        fail_allocation(0);
        if (status == SPC_OK)
            break;
        ck_assert_msg(status == SPC_ENOMEM || status == SPC_EDEVICE, "%s",
                      spc_ctx_error(ctx));
    }
    ck_assert_int_gt(failed, 15);
    spc_coords_free(source);
    spc_scene_free(scene);
    spc_ctx_free(ctx);
    free(r.at);
}
END_TEST

/* ---- code for GPUs that are not here ------------------------------------- */

static const char *const gpus[] = {"sm_75",  "sm_80",  "sm_86", "sm_89",
                                   "sm_90a", "sm_100", "sm_120"};

START_TEST(it_compiles_for_every_gpu)
{
    const char *gpu = gpus[_i];
    if (!suite_takes(_i))
        return;
    spc__attrs problem = {0}, target, config = {0};
    spc__buf text = SPC__BUF_INIT, log = SPC__BUF_INIT;
    spc__library *library;
    spc__compiler *nvrtc;
    spc__artefact artefact;
    spc_error error;

    ck_assert(spc__nvrtc_open(&nvrtc, &error) == SPC_OK);
    ck_assert(spc__library_open(&library, NULL, NULL, &error) == SPC_OK);
    ck_assert(spc__target_facts(&target, gpu, &error) == SPC_OK);
    spc__attrs_set_text(&problem, "op", "regroup");
    spc__attrs_set_number(&problem, "threads", 1024);
    spc__template *tpl = spc__library_find(library, "regroup");
    ck_assert_msg(spc__template_render(&text, tpl, &problem, &target, &config,
                                       &error) == SPC_OK,
                  "%s", error.text);
    spc__compile_job job = {.source = text.data,
                            .name = "regroup",
                            .target = gpu,
                            .headers = library};
    ck_assert_msg(spc__compile(&artefact, nvrtc, &job, &log, &error) == SPC_OK,
                  "%s", error.text);
    ck_assert_int_eq(
        (int)spc__attrs_number(&artefact.resources, "spill_bytes", -1), 0);
    spc__artefact_release(&artefact);
    spc__buf_release(&text);
    spc__buf_release(&log);
    spc__library_close(library);
    spc__compiler_close(nvrtc);
}
END_TEST

static int run_nvrtc(void)
{
    spc__compiler *nvrtc = NULL;

    if (spc__nvrtc_open(&nvrtc, NULL) != SPC_OK)
        return suite_skip("there is no NVRTC on this machine");
    spc__compiler_close(nvrtc);
    Suite *suite = suite_create("regroup, NVRTC");
    TCase *tc = tcase_create("nvrtc");
    tcase_set_timeout(tc, 60);
    suite_sample(4);
    tcase_add_loop_test(tc, it_compiles_for_every_gpu, 0, LENGTH(gpus));
    suite_add_tcase(suite, tc);
    return run_suite(suite);
}

int main(int argc, char **argv)
{
    if (suite_is_part(argc, argv, "nvrtc"))
        return run_nvrtc();
    int status = suite_open(argc, argv);
    if (status != 0)
        return status;
#ifdef SPC_SANITIZE /* kernels take seconds to compile */
    suite_sample(4);
#endif
    Suite *suite = suite_create("regroup");
    add(suite, "plans", sets_are_made_of_others_as_their_slots_say, 1);
    add(suite, "network", levels_of_a_network_become_one_plane, 1);
    add(suite, "frames", frames_regroup_within_a_capacity, 1);
    add(suite, "refused", impossible_sets_are_refused_with_a_sentence, 1);
    TCase *memory = tcase_create("memory");
    tcase_add_test(memory, every_allocation_may_fail);
    suite_add_tcase(suite, memory);
    return run_suite(suite);
}
