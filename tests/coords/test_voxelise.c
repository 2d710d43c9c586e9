/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_voxelise.c - turning points into voxels. Results equal the definition,
 * every device gives the same bits, and bad points are reported.
 *
 * Runs on "cpu" and "sim", or on the device given as argument.
 */
#include "base/random.h"
#include "context/ctx.h"
#include "coords/voxelise.h"
#include "harness/map_harness.h"
#include "spc/lab.h"
#include <math.h>

#define LENGTH(array) ((int)(sizeof(array) / sizeof(*(array))))

enum { POINTS = 700, NUMBERS = 7 };

/* Contexts stay open, since features of both devices are compared. */
static spc_ctx *ctxs[2];
static int devices;

static void open_contexts(void)
{
    spc_ctx_options options = SPC_CTX_OPTIONS_INIT;
    spc_error error;

    devices = suite_device != NULL ? 1 : 2;
    for (int i = 0; i < devices; i++) {
        options.device = suite_device != NULL ? suite_device
                         : i                  ? "sim"
                                              : "cpu";
        options.database = suite_database();
        options.threads = 2;
        ck_assert_msg(spc_ctx_create(&ctxs[i], &options, &error) == SPC_OK,
                      "%s", error.text);
    }
}

static void close_contexts(void)
{
    for (int i = 0; i < devices; i++)
        spc_ctx_free(ctxs[i]);
}

/* ---- points -------------------------------------------------------------- */

/* The grid has 20 x 12 x 5 voxels. */
static spc_voxelisation grid(void)
{
    spc_voxelisation how = SPC_VOXELISATION_INIT;
    static const double voxel[3] = {0.5, 0.25, 2}, low[3] = {-5, 1, -3},
                        high[3] = {5, 4, 7};

    memcpy(how.voxel, voxel, sizeof(voxel));
    memcpy(how.low, low, sizeof(low));
    memcpy(how.high, high, sizeof(high));
    return how;
}

/* Returns a number at or next to an edge of a voxel, anywhere inside it, or far
 * away. */
static float draw_coordinate(spc__random *random, double low, double high,
                             double voxel)
{
    static const float odd[] = {NAN, INFINITY, -INFINITY, 1e30f};
    uint32_t kind = spc__random_below(random, 40);
    int cells = (int)lround((high - low) / voxel);
    double cell = (int)spc__random_below(random, (uint32_t)cells + 4) - 2;
    float edge = (float)(low + cell * voxel);

    if (kind < 4)
        return kind == 0 ? odd[spc__random_below(random, LENGTH(odd))]
                         : edge + (float)(voxel / 2);
    if (kind < 8)
        return kind < 6 ? nextafterf(edge, -INFINITY) : edge;
    return (float)(low + (high - low) * spc__random_unit(random));
}

/* Samples points. Half of them are in four voxels; other columns have random
 * values. */
static void draw_points(float *out, const spc_voxelisation *how, int rows,
                        uint64_t seed)
{
    spc__random random;
    int pitch = how->columns + how->batched;

    spc__random_init(&random, seed);
    for (int i = 0; i < rows; i++) {
        float *point = out + i * pitch, *at = point + how->batched;
        for (int c = 0; c < pitch; c++)
            point[c] = (float)spc__random_unit(&random) * 100 - 50;
        if (how->batched)
            point[0] = (float)spc__random_below(&random, 60) / 20 - 0.05f;
        if (how->batched && i % 5)
            point[0] = (float)(i % how->batches);
        for (int a = 0; a < 3; a++)
            at[a] = i % 2 ? (float)(how->low[a] +
                                    how->voxel[a] * (1 + i % 4 / 2) * 0.9)
                          : draw_coordinate(&random, how->low[a], how->high[a],
                                            how->voxel[a]);
    }
}

/* ---- a voxelisation on a device ------------------------------------------ */

typedef struct harness {
    spc_ctx *ctx;
    spc_voxels *voxels;
    void *points;
    int32_t *count;
} harness;

static void open_harness(harness *r, spc_ctx *ctx, const spc_voxelisation *how,
                         int points, int capacity)
{
    void *count;

    *r = (harness){.ctx = ctx};
    assert_ok(ctx, spc_voxels_create(&r->voxels, ctx, how, points, capacity));
    assert_ok(ctx, spc_memory_alloc(&r->points, ctx,
                                    4 * (size_t)points * NUMBERS + 4));
    assert_ok(ctx, spc_memory_alloc(&count, ctx, 4));
    r->count = count;
}

static void close_harness(harness *r)
{
    spc_memory_free(r->ctx, r->points);
    spc_memory_free(r->ctx, r->count);
    spc_voxels_free(r->voxels);
}

/* Overwrites the results, so that old contents do not pass for new ones. */
static void poison(harness *r)
{
    const spc_voxels *v = r->voxels;
    size_t rows = (size_t)v->capacity;
    size_t each =
        v->how.features == SPC_VOXELS_MEAN ? 1 : (size_t)v->how.points;
    size_t bytes = rows * each * (size_t)v->how.columns *
                   (v->how.dtype == SPC_F32 ? 4 : 2);
    void *nonsense = malloc(bytes + 16 * rows + 1);

    memset(nonsense, 0x5a, bytes + 16 * rows + 1);
    assert_ok(r->ctx, spc_memory_upload(v->features, r->ctx, nonsense, bytes));
    assert_ok(r->ctx,
              spc_memory_upload(v->coords, r->ctx, nonsense, 16 * rows));
    assert_ok(r->ctx,
              spc_memory_upload(v->points_of, r->ctx, nonsense, 4 * rows));
    free(nonsense);
}

/* Runs with a count on the device or from the caller. */
static void voxelise(harness *r, const float *points, int rows, bool counted)
{
    size_t bytes = 4 * (size_t)rows * (size_t)r->voxels->pitch;
    int32_t count = rows;

    poison(r);
    assert_ok(r->ctx, spc_memory_upload(r->points, r->ctx, points, bytes));
    assert_ok(r->ctx, spc_memory_upload(r->count, r->ctx, &count, 4));
    assert_ok(r->ctx,
              spc_voxels_update(r->voxels, r->points, counted ? r->count : NULL,
                                counted ? 0 : rows, NULL));
}

/* ---- against the definition ---------------------------------------------- */

static void choose(spc_voxelisation *how, int i)
{
    static const spc_dtype dtypes[] = {SPC_F32, SPC_F16, SPC_BF16};
    static const int most[] = {0, 1, 3, 10};

    *how = grid();
    how->dtype = dtypes[i % 3];
    how->columns = 3 + i % 4;
    how->batched = i / 2 % 2;
    how->batches = how->batched ? 3 : 1;
    how->features = i % 5 == 4 ? SPC_VOXELS_POINTS : SPC_VOXELS_MEAN;
    how->points = most[i / 3 % 4];
    if (how->features == SPC_VOXELS_POINTS && how->points == 0)
        how->points = 2;
}

static void compare_bits(const harness *a, const harness *b)
{
    const spc_voxels *v = a->voxels;
    spc_voxels_info info;
    spc_status status = spc_voxels_check(&info, a->voxels, NULL);
    ck_assert(status == SPC_OK || status == SPC_ERANGE);
    size_t rows = (size_t)info.voxels;
    size_t each =
        v->how.features == SPC_VOXELS_MEAN ? 1 : (size_t)v->how.points;
    size_t bytes = rows * each * (size_t)v->how.columns *
                   (v->how.dtype == SPC_F32 ? 4 : 2);
    char *x = malloc(bytes + 1), *y = malloc(bytes + 1);

    assert_ok(a->ctx, spc_memory_download(x, a->ctx, v->features, bytes));
    assert_ok(b->ctx, spc_memory_download(
                          y, b->ctx, spc_voxels_features(b->voxels), bytes));
    ck_assert_msg(memcmp(x, y, bytes) == 0, "the devices differ");
    free(x);
    free(y);
}

START_TEST(voxels_are_as_the_definition_says)
{
    static const int counts[] = {POINTS, 1, 0, 257, POINTS};
    float points[POINTS * NUMBERS];
    spc_voxelisation how;
    harness harnesses[2];
    double worst;

    if (!suite_takes(_i))
        return;
    open_contexts();
    choose(&how, _i);
    for (int d = 0; d < devices; d++)
        open_harness(&harnesses[d], ctxs[d], &how, POINTS, POINTS);
    for (int i = 0; i < LENGTH(counts); i++) {
        draw_points(points, &how, counts[i], (uint64_t)(_i * 10 + i));
        for (int d = 0; d < devices; d++) {
            voxelise(&harnesses[d], points, counts[i], i % 2);
            ck_assert_msg(spc_voxels_verify(&worst, harnesses[d].voxels, points,
                                            counts[i]) == SPC_OK,
                          "case %d, %s: %s", _i, d ? "second" : "first",
                          spc_ctx_error(ctxs[d]));
        }
        if (devices == 2)
            compare_bits(&harnesses[0], &harnesses[1]);
    }
    for (int d = 0; d < devices; d++)
        close_harness(&harnesses[d]);
    close_contexts();
}
END_TEST

/* Checks crowded voxels. Means of two, four or eight integers are exact. */
/* Points outside the grid, and those of a voxel next to the sensor, would be a
 * thousand equal rows each; sets sort these more slowly. */
START_TEST(points_that_crowd_are_sorted_as_all_others)
{
    enum { MANY = 2600 };
    spc_voxelisation how = grid();
    float *points = malloc(MANY * 4 * sizeof(*points));
    int32_t most_keys;
    double worst;
    harness r;

    how.points = 10;
    how.dtype = SPC_F32;
    draw_points(points, &how, MANY, 5);
    for (int i = 0; i < MANY; i++)
        if (i % 20 < 19) /* far away, or all in one voxel */
            for (int a = 0; a < 3; a++)
                points[4 * i + a] =
                    i % 2 ? 1000 : (float)(how.low[a] + how.voxel[a] / 2);
    open_contexts();
    spc_ctx *ctx = ctxs[devices - 1]; /* this device launches blocks */
    open_harness(&r, ctx, &how, MANY, MANY);
    voxelise(&r, points, MANY, false);
    ck_assert_msg(spc_voxels_verify(&worst, r.voxels, points, MANY) == SPC_OK,
                  "%s", spc_ctx_error(ctx));
    assert_ok(ctx, spc_memory_download(
                       &most_keys, ctx,
                       r.voxels->set->stats + SPC_INDEX_MOST_KEYS, 4));
    ck_assert_int_eq(most_keys, 0);
    close_harness(&r);
    close_contexts();
    free(points);
}
END_TEST

START_TEST(means_of_whole_numbers_are_exact)
{
    float points[64 * 4], got[64 * 4];
    int32_t counts[64];
    spc_voxelisation how = grid();
    harness r;

    open_contexts();
    how.dtype = SPC_F32;
    how.points = 4;
    for (int i = 0; i < 64; i++) {
        float row[4] = {-4.75f + 0.5f * (float)(i % 8), 1.125f, 0, (float)i};
        memcpy(points + 4 * i, row, sizeof(row));
    }
    for (int d = 0; d < devices; d++) {
        open_harness(&r, ctxs[d], &how, 64, 8);
        voxelise(&r, points, 64, false);
        assert_ok(r.ctx, spc_voxels_check(NULL, r.voxels, NULL));
        assert_ok(r.ctx,
                  spc_memory_download(got, r.ctx, spc_voxels_features(r.voxels),
                                      8 * 4 * 4));
        assert_ok(r.ctx, spc_memory_download(counts, r.ctx,
                                             spc_voxels_point_counts(r.voxels),
                                             8 * 4));
        for (int v = 0; v < 8; v++) {
            /* Points v, v + 8, v + 16 and v + 24 are in the same voxel. */
            require(got[4 * v + 3] == (float)(v + 12), "voxel %d: %g", v,
                    (double)got[4 * v + 3]);
            require(counts[v] == 4, "voxel %d has %d points", v, counts[v]);
        }
        close_harness(&r);
    }
    close_contexts();
}
END_TEST

/* ---- errors -------------------------------------------------------------- */

START_TEST(what_is_wrong_with_points_is_a_status)
{
    float points[POINTS * NUMBERS], nan_point[4] = {0, NAN, 0, 1};
    spc_voxelisation how = grid();
    spc_voxels_info info;
    double worst;
    harness r;

    open_contexts();
    for (int d = 0; d < devices; d++) {
        open_harness(&r, ctxs[d], &how, 100, 3);
        for (int i = 0; i < 100; i++) {
            float row[4] = {-4.9f + 0.5f * (float)(i % 3), 1.1f, 0, 1};
            memcpy(points + 4 * i, row, sizeof(row));
        }
        memcpy(points + 4 * 7, nan_point, sizeof(nan_point));
        memcpy(points + 4 * 9, nan_point, sizeof(nan_point));
        points[4 * 20] = 5; /* the first point outside */
        voxelise(&r, points, 100, true);
        ck_assert_int_eq(spc_voxels_check(&info, r.voxels, NULL), SPC_ERANGE);
        ck_assert_str_eq(spc_ctx_error(r.ctx),
                         "2 points left out: NaN or infinite coordinate; the "
                         "first is point 7");
        ck_assert_int_eq(info.points, 100);
        ck_assert_int_eq(info.bad, 2);
        ck_assert_int_eq(info.outside, 1);
        ck_assert_int_eq(info.voxels, 3);
        assert_ok(r.ctx, spc_voxels_verify(&worst, r.voxels, points, 100));
        points[4 * 30 + 1] = 3;
        voxelise(&r, points, 100, true); /* a point in a fourth voxel */
        ck_assert_int_eq(spc_voxels_check(&info, r.voxels, NULL),
                         SPC_ECAPACITY);
        ck_assert_ptr_nonnull(strstr(spc_ctx_error(r.ctx),
                                     "4 voxels: a capacity of 4 would have"));
        voxelise(&r, points, 101, true);
        ck_assert_int_eq(spc_voxels_check(&info, r.voxels, NULL),
                         SPC_ECAPACITY);
        ck_assert_int_eq(info.voxels, 0);
        int32_t below = -3;
        assert_ok(r.ctx, spc_memory_upload(r.count, r.ctx, &below, 4));
        assert_ok(r.ctx,
                  spc_voxels_update(r.voxels, r.points, r.count, 0, NULL));
        ck_assert_int_eq(spc_voxels_check(&info, r.voxels, NULL),
                         SPC_ECAPACITY);
        ck_assert_str_eq(spc_ctx_error(r.ctx),
                         "a count of -3 points: none became a voxel");
        ck_assert_int_eq(spc_voxels_update(r.voxels, r.points, NULL, 101, NULL),
                         SPC_ECAPACITY);
        ck_assert_int_eq(spc_voxels_update(r.voxels, NULL, NULL, 1, NULL),
                         SPC_EINVAL);
        ck_assert_int_eq(spc_voxels_update(r.voxels,
                                           (float *)((char *)r.points + 2),
                                           NULL, 1, NULL),
                         SPC_EINVAL);
        assert_ok(r.ctx, spc_voxels_update(r.voxels, NULL, NULL, 0, NULL));
        assert_ok(r.ctx, spc_voxels_check(&info, r.voxels, NULL));
        ck_assert_int_eq(info.voxels, 0);
        ck_assert_int_eq(spc_voxels_verify(&worst, r.voxels, NULL, 3),
                         SPC_EINVAL);
        close_harness(&r);
    }
    close_contexts();
}
END_TEST

#define REFUSED(what, sentence)                                                \
    {                                                                          \
        how = grid();                                                          \
        what;                                                                  \
        ck_assert_int_eq(spc_voxelisation_check(&how, &error), SPC_EINVAL);    \
        ck_assert_msg(strstr(error.text, sentence) != NULL, "%s", error.text); \
    }

START_TEST(what_cannot_be_is_refused)
{
    spc_voxelisation how = grid();
    spc_error error;

    ck_assert_int_eq(spc_voxelisation_check(&how, &error), SPC_OK);
    REFUSED(how.voxel[1] = 0, "voxels along y of 0 from 1 to 4");
    REFUSED(how.high[2] = NAN, "voxels along z of 2 from -3 to nan");
    REFUSED(how.voxel[0] = 1e-9, "voxels along x: expected 1 to 1048576");
    REFUSED(how.columns = 2, "points of 2 columns: expected 3 to 64");
    REFUSED(how.batches = 2, "2 batch elements: expected 1");
    REFUSED(how.points = -1, "-1 points of a voxel: expected 0 to 65536");
    REFUSED(how.features = SPC_VOXELS_POINTS,
            "0 points of a voxel: expected 1");
    REFUSED(how.dtype = SPC_I8, "f16, bf16 or f32");
    REFUSED(how.features = (spc_voxel_features)9, "unknown kind 9 of features");
}
END_TEST

int main(int argc, char **argv)
{
    int status = suite_open(argc, argv);

    if (status != 0)
        return status;
    TCase *tc = tcase_create("voxelise");
    Suite *suite = suite_create("voxelise");
    suite_sample(4);
    tcase_set_timeout(tc, 300);
    suite_add_tcase(suite, tc);
    tcase_add_loop_test(tc, voxels_are_as_the_definition_says, 0, 60);
    tcase_add_test(tc, points_that_crowd_are_sorted_as_all_others);
    tcase_add_test(tc, means_of_whole_numbers_are_exact);
    tcase_add_test(tc, what_is_wrong_with_points_is_a_status);
    tcase_add_test(tc, what_cannot_be_is_refused);
    return run_suite(suite);
}
