/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_search.c - all search configurations make the same map. Also tests
 * layouts other than tables by rows: transposed tables, and pairs by offset.
 *
 * Runs on "cpu" and "sim", or on the device given as argument. "nvrtc" checks
 * that the code of every configuration compiles for GPUs that are not
 * installed.
 */
#include "base/random.h"
#include "compiler/template.h"
#include "coords/index/indexer.h"
#include "coords/map_choice.h"
#include "harness/map_harness.h"
#include "lab/oracle/relation.h"
#include "spc/tune.h"
#include "device/targets.h"
#include <unistd.h>

static const char *const devices[2] = {"cpu", "sim"};

static int loops(int count)
{
    return suite_device ? count : 2 * count;
}

static int case_of(int loop)
{
    return suite_device ? loop : loop / 2;
}

static const char *device_of(int loop)
{
    return suite_device ? suite_device : devices[loop % 2];
}

/* Returns a device that has several configurations. */
static const char *searching_device(void)
{
    return suite_device ? suite_device : "sim";
}

static spc_ctx *open_ctx(const char *device)
{
    spc_ctx_options options = SPC_CTX_OPTIONS_INIT;
    spc_error error;
    spc_ctx *ctx;

    options.device = device;
    options.database = suite_database();
    options.threads = 2;
    spc_status status = spc_ctx_create(&ctx, &options, &error);
    ck_assert_msg(status == SPC_OK, "%s", error.text);
    return ctx;
}

/* ---- layers on scenes ------------------------------------------------- */

static const struct {
    const char *layer;
    int rows, extent, batches;
    int outlier; /* x of a distant voxel, or 0 */
} cases[] = {
    {"subm,cin=4,cout=4,k=3", 900, 12, 2, 0},
    {"subm,cin=4,cout=4,k=3", 3000, 15, 1, 60000},
    {"subm,cin=4,cout=4,k=3", 700, 11, 1, 200000000},
    {"subm,cin=4,cout=4,k=5", 400, 9, 2, 0},
    {"subm,cin=4,cout=4,k=7", 300, 10, 1, 0},
    {"subm,cin=4,cout=4,k=1x1x33", 300, 40, 1, 0},
    {"subm,cin=4,cout=4,k=3,dilation=2x1x3", 500, 13, 1, 0},
    {"subm,cin=4,cout=4,k=1", 200, 9, 1, 0},
    {"subm,cin=4,cout=4,k=3", 1, 5, 1, 0},
    {"conv,cin=4,cout=4,k=3,stride=2,padding=1,rule=footprint", 900, 16, 2, 0},
    {"conv,cin=4,cout=4,k=2,stride=2,rule=floor", 700, 19, 1, 300000000},
    {"conv,cin=4,cout=4,k=5x4x3,stride=3x2x1,dilation=1x2x3,padding=2x3x1,"
     "rule=footprint",
     300, 17, 2, 0},
    {"inverse,cin=4,cout=4,k=3,stride=2,padding=1,rule=footprint", 900, 16, 2,
     0},
    {"inverse,cin=4,cout=4,k=2,stride=2,rule=floor", 700, 19, 1, 300000000},
    {"conv,cin=4,cout=4,k=3,stride=2,rule=expand", 500, 14, 2, 0},
    {"inverse,cin=4,cout=4,k=3x2x3,stride=2x1x3,rule=expand", 300, 12, 1,
     100000},
};

enum { CASES = sizeof cases / sizeof *cases };

/* A layer, a scene of distinct rows in random order, and their relation. */
typedef struct fixture {
    spc_conv conv;
    spc_scene *scene;
    spc__relation relation;
} fixture;

static int compare(const void *a, const void *b)
{
    const int32_t *x = a, *y = b;

    for (int i = 0; i < 4; i++)
        if (x[i] != y[i])
            return x[i] < y[i] ? -1 : 1;
    return 0;
}

static int keep_distinct(int32_t (*at)[4], int count)
{
    int kept = 0;

    qsort(at, (size_t)count, 16, compare);
    for (int i = 0; i < count; i++)
        if (kept == 0 || compare(at[i], at[kept - 1]) != 0)
            memmove(at[kept++], at[i], 16);
    return kept;
}

static void shuffle(int32_t (*at)[4], int count, spc__random *random)
{
    for (int i = count - 1; i > 0; i--) {
        int j = (int)spc__random_below(random, (uint32_t)i + 1);
        int32_t swap[4];
        memcpy(swap, at[i], 16);
        memcpy(at[i], at[j], 16);
        memcpy(at[j], swap, 16);
    }
}

static spc_scene *draw(int number, int rows, uint64_t seed)
{
    int32_t(*at)[4] = calloc((size_t)rows + 1, 16);
    spc__random random;
    spc_scene *scene;
    spc_error error;

    spc__random_init(&random, seed);
    for (int i = 0; i < rows; i++) {
        at[i][0] =
            (int)spc__random_below(&random, (uint32_t)cases[number].batches);
        for (int a = 1; a < 4; a++)
            at[i][a] = -4 + (int)spc__random_below(
                                &random, (uint32_t)cases[number].extent);
    }
    if (cases[number].outlier)
        at[0][1] = cases[number].outlier;
    int count = keep_distinct(at, rows);
    shuffle(at, count, &random);
    spc_status status = spc_scene_create(&scene, at[0], count, "drawn", &error);
    ck_assert_msg(status == SPC_OK, "%s", error.text);
    free(at);
    return scene;
}

static fixture fixture_of(int number, int rows, uint64_t seed)
{
    fixture s;
    spc_error error = {0};

    spc_status status = spc_conv_parse(&s.conv, cases[number].layer, &error);
    ck_assert_msg(status == SPC_OK, "%s", error.text);
    s.scene = draw(number, rows, seed);
    status = spc__relation_init(&s.relation, &s.conv, s.scene, 2, NULL, &error);
    ck_assert_msg(status == SPC_OK, "%s", error.text);
    return s;
}

static void release(fixture *s)
{
    spc__relation_release(&s->relation);
    spc_scene_free(s->scene);
}

static spc_map *map_of(spc_ctx *ctx, const fixture *s)
{
    spc_map *map;

    assert_ok(ctx, spc_map_create_from_scene(&map, ctx, &s->conv, s->scene));
    return map;
}

/* Fills the map with other rows, as a next frame does, with all its layouts. */
static void rebuild(spc_ctx *ctx, spc_map *map, const fixture *s)
{
    size_t bytes = 16 * (size_t)spc_scene_rows(s->scene);
    void *coords;

    assert_ok(ctx, spc_memory_alloc(&coords, ctx, bytes));
    assert_ok(
        ctx, spc_memory_upload(coords, ctx, spc_scene_coords(s->scene), bytes));
    assert_ok(ctx, spc__map_rebuild(map, coords, spc_scene_rows(s->scene),
                                    false, NULL));
    assert_ok(ctx, spc_map_check(map, NULL));
    spc_memory_free(ctx, coords);
}

/* ---- maps against the relation ---------------------------------------- */

/* Checks the index, [offsets][rows], with the caller's row numbers. */
static void check_index(spc_ctx *ctx, const spc_map *map,
                        const spc__relation *want)
{
    size_t capacity = (size_t)spc_coords_capacity(spc_map_out(map));
    size_t rows = (size_t)want->rows_out;
    int32_t *got = malloc(4 * (size_t)map->offsets * (capacity + 1));

    ck_assert_int_eq(spc_map_rows_out(map), want->rows_out);
    ck_assert_int_eq(spc_map_pairs(map), want->pairs);
    assert_ok(ctx, spc_map_download(got, map));
    for (size_t k = 0; k < (size_t)map->offsets; k++)
        for (size_t row = 0; row < rows; row++)
            require(got[k * capacity + row] == want->index[k * rows + row],
                    "offset %d of row %d: %d, not %d", (int)k, (int)row,
                    got[k * capacity + row], want->index[k * rows + row]);
    free(got);
}

static const struct {
    const char *order;
    int tile_rows;
} views[] = {{"none", 16}, {"gray", 64}, {"gray_x", 32}, {"gray_y", 3}};

enum { VIEWS = sizeof views / sizeof *views };

static void prepare_views(spc_ctx *ctx, spc_map *map)
{
    for (int i = 0; i < VIEWS; i++)
        assert_ok(ctx, spc__map_prepare(map, views[i].order, views[i].tile_rows,
                                        NULL));
}

/* Checks that one array of a view is the same in both maps. */
static void check_same(spc_ctx *ctx, const void *a, const void *b, size_t count,
                       const char *what)
{
    void *one = fetch(ctx, a, count), *two = fetch(ctx, b, count);

    require(memcmp(one, two, 4 * count) == 0, "%s: not the same", what);
    free(one);
    free(two);
}

static void check_same_views(spc_ctx *ctx, const spc_map *a, const spc_map *b)
{
    for (int i = 0; i < VIEWS; i++) {
        spc_map_view v, w;
        ck_assert(spc__map_view(&v, a, views[i].order, views[i].tile_rows) &&
                  spc__map_view(&w, b, views[i].order, views[i].tile_rows));
        /* If both maps are sorted, their padding must agree too. */
        size_t padded = (size_t)v.rows_padded, tiles = (size_t)v.tiles;
        check_same(ctx, v.order, w.order, padded, "order");
        check_same(ctx, v.index, w.index, padded * (size_t)v.offsets, "index");
        check_same(ctx, v.mask, w.mask, padded * (size_t)v.mask_words, "mask");
        check_same(ctx, v.tile_order, w.tile_order, tiles, "tile order");
        check_same(ctx, v.tile_mask, w.tile_mask, tiles * (size_t)v.mask_words,
                   "tile mask");
        check_same(ctx, v.tile_begin, w.tile_begin, (size_t)v.offsets,
                   "tile begin");
    }
}

/* ---- searchers -------------------------------------------------------- */

static const char *const searchers[] = {
    "zdelta", "binary", "hash", "zdelta_half", "binary_half", "hash_half",
};

enum { SEARCHERS = sizeof searchers / sizeof *searchers };

static spc_status configure(spc_map *map, const char *searcher,
                            spc_error *error)
{
    spc__attrs config = {0};

    spc__attrs_set_text(&config, "search", searcher);
    return spc__map_configure(map, &config, error);
}

static int64_t compiles(const spc_ctx *ctx)
{
    return ctx->stats.compiles;
}

/* Overwrites a map's arrays, so that old contents do not pass for the result of
 * a build. */
static void poison(spc_ctx *ctx, spc_map *map)
{
    const spc__device_ops *ops = spc__device_ops_of(ctx->device);
    size_t padded = (size_t)map->to->rows_padded;
    spc_error error = {0};

    assert_ok(ctx,
              ops->fill(ctx->device, map->plain.mask, 0x5a,
                        4 * padded * (size_t)map->mask_words, NULL, &error));
    assert_ok(ctx, ops->fill(ctx->device, map->plain.index, 0x5a,
                             4 * padded * (size_t)map->offsets, NULL, &error));
}

static bool takes(const fixture *s, const char *searcher)
{
    const spc_geometry *g = &s->conv.geometry;

    if (strstr(searcher, "_half") != NULL)
        return s->conv.op == SPC_SUBM && g->kernel[2] < 8 &&
               g->kernel[0] * g->kernel[1] > 1;
    return s->conv.op != SPC_INVERSE || strcmp(searcher, "zdelta") != 0;
}

START_TEST(every_searcher_makes_the_same_map)
{
    if (!suite_takes(_i))
        return;
    fixture s = fixture_of(_i, cases[_i].rows, 7);
    spc_ctx *ctx = open_ctx(searching_device());
    spc_map *first = map_of(ctx, &s), *map = map_of(ctx, &s);
    int made = 0;

    prepare_views(ctx, first);
    prepare_views(ctx, map);
    for (int i = 0; i < SEARCHERS; i++) {
        int64_t before = compiles(ctx);
        spc_error error = {0};
        if (!takes(&s, searchers[i]))
            continue;
        spc_status status = configure(map, searchers[i], &error);
        ck_assert_msg(status == SPC_OK, "%s", error.text);
        made += (int)(compiles(ctx) - before);
        poison(ctx, map);
        rebuild(ctx, map, &s);
        check_index(ctx, map, &s.relation);
        check_same_views(ctx, first, map);
    }
    check_layouts(ctx, map, s.relation.index);
    /* Equal text is compiled once. The default was compiled above, others
     * perhaps in an earlier run. */
    ck_assert_int_le(made, s.conv.op == SPC_INVERSE ? 1
                           : takes(&s, "hash_half") ? 5
                                                    : 2);
    spc_map_free(map);
    spc_map_free(first);
    spc_ctx_free(ctx);
    release(&s);
}
END_TEST

/* Frames with fewer and with other rows leave nothing in a hash table. */
START_TEST(every_searcher_takes_the_next_frame)
{
    static const int chosen[] = {0, 2, 9, 12};
    int number = chosen[_i], rows = cases[number].rows;
    fixture s = fixture_of(number, rows, 1);
    spc_ctx *ctx = open_ctx(searching_device());
    spc_map *map = map_of(ctx, &s);

    for (int i = 0; i < SEARCHERS; i++)
        for (int frame = 0; frame < 3 && takes(&s, searchers[i]); frame++) {
            fixture next = {s.conv, NULL, {0}};
            spc_error error = {0};
            int32_t *at = malloc(16 * (size_t)rows);
            int count = (int)spc_scene_rows(s.scene) * (3 - frame) / 3;
            memcpy(at, spc_scene_coords(s.scene), 16 * (size_t)count);
            ck_assert_int_eq(
                spc_scene_create(&next.scene, at, count, "frame", &error),
                SPC_OK);
            ck_assert_int_eq(spc__relation_init(&next.relation, &s.conv,
                                                next.scene, 2, NULL, &error),
                             SPC_OK);
            ck_assert_int_eq(configure(map, searchers[i], &error), SPC_OK);
            rebuild(ctx, map, &next);
            check_index(ctx, map, &next.relation);
            release(&next);
            free(at);
        }
    spc_map_free(map);
    spc_ctx_free(ctx);
    release(&s);
}
END_TEST

/* A line of 140 voxels, with a kernel of 3. */
static void check_line(spc_ctx *ctx, spc_map *map)
{
    spc_error error = {0};
    int64_t pairs = 0;

    assert_ok(ctx, spc__inspect(NULL, 0, &map, &pairs, 1, NULL, NULL, &error));
    ck_assert_int_eq(pairs, 140 * 3 - 2);
}

/* Duplicate and invalid rows are removed in the launch that searches, so only
 * the remaining rows are hashed. */
START_TEST(every_searcher_sees_merged_sets)
{
    int32_t rows[300][4] = {{0}};
    spc_coords_options options = SPC_COORDS_OPTIONS_INIT;
    spc_geometry g = SPC_GEOMETRY_INIT;
    spc_ctx *ctx = open_ctx(searching_device());
    spc_coords *set;
    spc_map *map;
    void *coords;

    for (int i = 0; i < 300; i++) /* a line: each voxel twice, some outside */
        rows[i][3] = i % 150 < 140 ? i % 150 : 5000;
    options.capacity = 300;
    options.high[1] = options.high[2] = options.high[3] = 160;
    options.duplicates = SPC_DUPLICATES_FIRST;
    assert_ok(ctx, spc_coords_create_reserved(&set, ctx, &options));
    assert_ok(ctx, spc_map_create(&map, set, set, &g));
    assert_ok(ctx, spc_memory_alloc(&coords, ctx, sizeof rows));
    assert_ok(ctx, spc_memory_upload(coords, ctx, rows, sizeof rows));
    for (int i = 0; i < SEARCHERS; i++) {
        spc_error error = {0};
        ck_assert_int_eq(configure(map, searchers[i], &error), SPC_OK);
        assert_ok(ctx, spc_map_update(map, coords, NULL, 300, NULL));
        check_line(ctx, map);
        assert_ok(ctx, spc_map_update(map, NULL, NULL, 0, NULL));
        check_line(ctx, map); /* the search ran again without sorting */
        ck_assert_int_eq(spc_map_check(map, NULL), SPC_ERANGE);
    }
    spc_memory_free(ctx, coords);
    spc_map_free(map);
    spc_coords_free(set);
    spc_ctx_free(ctx);
}
END_TEST

START_TEST(what_cannot_search_is_refused_with_a_sentence)
{
    fixture s = fixture_of(12, 50, 3);
    spc_ctx *ctx = open_ctx(device_of(_i));
    spc_map *map = map_of(ctx, &s);
    bool host = map->in->indexer->map_configure == NULL;
    spc_error error = {0};

    ck_assert_int_ne(configure(map, "zdelta", &error), SPC_OK);
    ck_assert_ptr_nonnull(strstr(error.text, host ? "have no configurations"
                                                  : "neighbours of outputs"));
    ck_assert_int_ne(configure(map, "guesswork", &error), SPC_OK);
    ck_assert_int_eq(spc__map_configure(map, NULL, &error), SPC_OK);
    rebuild(ctx, map, &s);
    check_index(ctx, map, &s.relation);
    spc_map_free(map);
    spc_ctx_free(ctx);
    release(&s);
}
END_TEST

/* ---- choices of the database ------------------------------------------ */

/* A context with an empty database. */
static spc_ctx *open_recording(char path[64])
{
    spc_ctx_options options = SPC_CTX_OPTIONS_INIT;
    spc_error error;
    spc_ctx *ctx;

    snprintf(path, 64, "/tmp/spc_search_%d_XXXXXX", (int)getpid());
    int file = mkstemp(path);
    ck_assert_int_ge(file, 0);
    close(file);
    unlink(path);
    options.device = searching_device();
    options.database = path;
    options.threads = 2;
    spc_status status = spc_ctx_create(&ctx, &options, &error);
    ck_assert_msg(status == SPC_OK, "%s", error.text);
    return ctx;
}

static void record(spc_ctx *ctx, const spc_geometry *g, const char *searcher,
                   const char *hash)
{
    spc__problem_key key;
    spc__provenance provenance;
    spc__trial trial = {.status = SPC__TRIAL_OK, .median_us = 1, .samples = 1};
    spc_error error = {0};

    spc__map_key(&key, ctx, g, false);
    spc__ctx_provenance(&provenance, ctx);
    strcpy(trial.template_name, "index");
    if (hash)
        strcpy(trial.template_hash, hash);
    else
        ck_assert(spc__ctx_template_hash(trial.template_hash, ctx, "index"));
    spc__attrs_set_text(&trial.config, "search", searcher);
    ck_assert_int_eq(
        spc__cache_put_trial(ctx->cache, &key, &trial, &provenance, &error),
        SPC_OK);
    ck_assert_int_eq(spc__cache_put_choice(ctx->cache, &key, &trial, "a test",
                                           &provenance, &error),
                     SPC_OK);
}

/* Checks that the map uses this search: its code exists already, and that of
 * the other one is compiled now. */
static void check_searcher(spc_ctx *ctx, spc_map *map, const char *searcher,
                           const char *other)
{
    spc_error error = {0};
    int64_t before = compiles(ctx);

    ck_assert_int_eq(configure(map, searcher, &error), SPC_OK);
    ck_assert_int_eq(compiles(ctx), before);
    ck_assert_int_eq(configure(map, other, &error), SPC_OK);
    ck_assert_int_eq(compiles(ctx), before + 1);
}

/* A record applies; one of an older template applies if that template still
 * permits it. */
static const struct {
    const char *searcher, *hash;
    const char *used, *other;
} recorded[] = {
    {"hash", NULL, "hash", "binary"},
    {"binary", "of yesterday", "binary", "hash"},
    {"abacus", "of yesterday", "zdelta", "binary"},
};

START_TEST(maps_are_searched_as_the_database_says)
{
    fixture s = fixture_of(0, 300, 3);
    char path[64];
    spc_ctx *ctx = open_recording(path);

    record(ctx, &s.conv.geometry, recorded[_i].searcher, recorded[_i].hash);
    spc_map *map = map_of(ctx, &s);
    check_index(ctx, map, &s.relation);
    check_searcher(ctx, map, recorded[_i].used, recorded[_i].other);
    spc_map_free(map);
    spc_ctx_free(ctx);
    unlink(path);
    release(&s);
}
END_TEST

/* The next map must use the choice that a tuning run stores. */
START_TEST(tuning_a_map_stores_its_choice)
{
    fixture s = fixture_of(0, 300, 3);
    const spc_scene *scenes[] = {s.scene};
    spc_tune_report report;
    spc__attrs config;
    spc__buf text = SPC__BUF_INIT;
    char path[64];
    spc_ctx *ctx = open_recording(path);

    ck_assert(!spc__map_choice(&config, ctx, &s.conv.geometry, false));
    assert_ok(ctx, spc_tune_map(&report, ctx, &s.conv, scenes, 1, NULL));
    ck_assert_int_eq(report.candidates, SEARCHERS);
    ck_assert_int_eq(report.verified, SEARCHERS);
    ck_assert(report.winner_us > 0 && report.winner_us <= report.default_us);
    ck_assert(spc__map_choice(&config, ctx, &s.conv.geometry, false));
    spc__attrs_format(&text, &config);
    ck_assert_ptr_nonnull(strstr(report.winner, spc__buf_text(&text)));
    /* The database has no record of another kernel. */
    s.conv.geometry.kernel[0] = 5;
    ck_assert(!spc__map_choice(&config, ctx, &s.conv.geometry, false));
    spc__buf_release(&text);
    spc_ctx_free(ctx);
    unlink(path);
    release(&s);
}
END_TEST

START_TEST(the_host_has_no_searchers_to_choose_from)
{
    fixture s = fixture_of(0, 30, 3);
    const spc_scene *scenes[] = {s.scene};
    spc_ctx *ctx = open_ctx("cpu");

    ck_assert_int_eq(spc_tune_map(NULL, ctx, &s.conv, scenes, 1, NULL),
                     SPC_EUNSUPPORTED);
    ck_assert_int_eq(spc_tune_map(NULL, ctx, &s.conv, scenes, 0, NULL),
                     SPC_EINVAL);
    spc_ctx_free(ctx);
    release(&s);
}
END_TEST

/* ---- pairs by offset -------------------------------------------------- */

/* Returns the output rows in ascending order of their coordinates. */
static int *rows_by_key(const spc__relation *r)
{
    size_t count = (size_t)r->rows_out;
    int32_t(*keyed)[5] = malloc(20 * count + 4);
    int *order = malloc(4 * count + 4);

    for (size_t i = 0; i < count; i++) {
        memcpy(keyed[i], r->coords_out + 4 * i, 16);
        keyed[i][4] = (int)i;
    }
    qsort(keyed, count, sizeof *keyed, compare);
    for (size_t i = 0; i < count; i++)
        order[i] = keyed[i][4];
    free(keyed);
    return order;
}

/* Returns the position of each output row's first pair. Rows are in ascending
 * order of keys. */
static int *places_of(const spc__relation *r, const int *order)
{
    size_t rows = (size_t)r->rows_out;
    int *first = malloc(4 * rows + 4), next = 0;

    for (size_t p = 0; p < rows; p++) {
        first[order[p]] = next;
        for (size_t k = 0; k < (size_t)r->offsets; k++)
            next += r->index[k * rows + (size_t)order[p]] >= 0;
    }
    return first;
}

static void check_pairs(spc_ctx *ctx, const spc_map *map,
                        const spc__relation *want)
{
    size_t rows = (size_t)want->rows_out;
    int *order = rows_by_key(want), at = 0;
    spc_pairs_view v;

    ck_assert(spc__map_pairs_view(&v, map));
    ck_assert_int_eq(v.offsets, want->offsets);
    ck_assert_int_ge(v.capacity, want->pairs);
    int *in = fetch(ctx, v.in, (size_t)want->pairs);
    int *out = fetch(ctx, v.out, (size_t)want->pairs);
    int *place = fetch(ctx, v.place, (size_t)want->pairs);
    int *first = fetch(ctx, v.first, rows);
    int *next = places_of(want, order);
    int *begin = fetch(ctx, v.begin, (size_t)v.offsets + 1);
    for (int k = 0; k < v.offsets; k++) {
        require(begin[k] == at, "offset %d begins at %d, not %d", k, begin[k],
                at);
        for (size_t p = 0; p < rows; p++) {
            int row = want->index[(size_t)k * rows + (size_t)order[p]];
            if (row < 0)
                continue;
            require(in[at] == row && out[at] == order[p],
                    "pair %d of offset %d: %d -> %d, not %d -> %d", at, k,
                    in[at], out[at], row, order[p]);
            require(place[at] == next[order[p]] &&
                        (k > 0 || first[order[p]] == place[at]),
                    "pair %d of offset %d: place %d, not %d", at, k, place[at],
                    next[order[p]]);
            next[order[p]]++;
            at++;
        }
    }
    ck_assert_int_eq(begin[v.offsets], want->pairs);
    /* each row's pairs end where the next one's begin */
    for (size_t p = 0; p < rows; p++)
        require(p + 1 == rows || next[order[p]] == first[order[p + 1]],
                "the places of row %d end at %d", order[p], next[order[p]]);
    free(place);
    free(first);
    free(next);
    free(order);
    free(in);
    free(out);
    free(begin);
}

START_TEST(pairs_by_offset_are_those_of_the_relation)
{
    if (!suite_takes(case_of(_i)))
        return;
    int number = case_of(_i);
    fixture s = fixture_of(number, cases[number].rows, 5);
    spc_ctx *ctx = open_ctx(device_of(_i));
    spc_map *map = map_of(ctx, &s);
    spc_pairs_view v;

    ck_assert(!spc__map_pairs_view(&v, map));
    assert_ok(ctx, spc__map_prepare_pairs(map, NULL));
    assert_ok(ctx, spc__map_prepare_pairs(map, NULL)); /* has no effect */
    check_pairs(ctx, map, &s.relation);
    spc_map_free(map);
    spc_ctx_free(ctx);
    release(&s);
}
END_TEST

/* A set without voxels has no pairs at any offset. */
START_TEST(no_rows_have_no_pairs)
{
    spc_coords_options options = SPC_COORDS_OPTIONS_INIT;
    spc_geometry g = SPC_GEOMETRY_INIT;
    spc_ctx *ctx = open_ctx(device_of(_i));
    spc_pairs_view v;
    spc_coords *set;
    spc_map *map;
    void *coords;

    options.capacity = 500;
    options.high[1] = options.high[2] = options.high[3] = 30;
    assert_ok(ctx, spc_coords_create_reserved(&set, ctx, &options));
    assert_ok(ctx, spc_map_create(&map, set, set, &g));
    assert_ok(ctx, spc_memory_alloc(&coords, ctx, 16));
    assert_ok(ctx, spc_map_update(map, coords, NULL, 0, NULL));
    assert_ok(ctx, spc__map_prepare_pairs(map, NULL));
    ck_assert(spc__map_pairs_view(&v, map));
    int *begin = fetch(ctx, v.begin, 28);
    for (int k = 0; k <= 27; k++)
        ck_assert_int_eq(begin[k], 0);
    free(begin);
    spc_memory_free(ctx, coords);
    spc_map_free(map);
    spc_coords_free(set);
    spc_ctx_free(ctx);
}
END_TEST

/* Frames of different sizes in one map, listed again each time. */
START_TEST(pairs_follow_the_frames)
{
    static const int chosen[] = {0, 3, 9, 12};
    int number = chosen[case_of(_i)], rows = cases[number].rows;
    fixture s = fixture_of(number, rows, 1);
    spc_ctx *ctx = open_ctx(device_of(_i));
    spc_map *map = map_of(ctx, &s);

    assert_ok(ctx, spc__map_prepare(map, "gray", 64, NULL));
    assert_ok(ctx, spc__map_prepare_pairs(map, NULL));
    for (int frame = 0; frame < 4; frame++) {
        int64_t count = spc_scene_rows(s.scene) * (frame % 2 ? 4 : 4 - frame);
        fixture next = {s.conv, NULL, {0}};
        spc_error error = {0};
        ck_assert_int_eq(spc_scene_create(&next.scene,
                                          spc_scene_coords(s.scene), count / 4,
                                          "frame", &error),
                         SPC_OK);
        ck_assert_int_eq(spc__relation_init(&next.relation, &s.conv, next.scene,
                                            2, NULL, &error),
                         SPC_OK);
        rebuild(ctx, map, &next);
        check_pairs(ctx, map, &next.relation);
        release(&next);
    }
    spc_map_free(map);
    spc_ctx_free(ctx);
    release(&s);
}
END_TEST

/* Lists that fit the pairs of one frame are dropped with it. The next list is
 * larger if the frame has more pairs. */
START_TEST(fitting_pairs_follow_the_frames)
{
    static const int chosen[] = {0, 3, 9, 12}, quarters[] = {2, 1, 4, 2};
    int number = chosen[case_of(_i)], rows = cases[number].rows;
    fixture s = fixture_of(number, rows, 1);
    spc_ctx *ctx = open_ctx(device_of(_i));
    spc_map *map = map_of(ctx, &s);
    int most = map->offsets * map->to->rows_padded;
    const int *at = NULL;
    spc_pairs_view v;

    spc_map_fit_lists(map);
    for (int frame = 0; frame < 4; frame++) {
        int64_t count = spc_scene_rows(s.scene) * quarters[frame] / 4;
        fixture next = {s.conv, NULL, {0}};
        spc_error error = {0};
        ck_assert_int_eq(spc_scene_create(&next.scene,
                                          spc_scene_coords(s.scene), count,
                                          "frame", &error),
                         SPC_OK);
        ck_assert_int_eq(spc__relation_init(&next.relation, &s.conv, next.scene,
                                            2, NULL, &error),
                         SPC_OK);
        rebuild(ctx, map, &next);
        ck_assert(!spc__map_pairs_view(&v, map));
        ck_assert_int_eq(spc__map_relist(map, NULL), SPC_ESTATE);
        assert_ok(ctx, spc__map_prepare_pairs(map, NULL));
        check_pairs(ctx, map, &next.relation);
        ck_assert(spc__map_pairs_view(&v, map));
        require(v.capacity < most, "room for %d pairs of at most %d",
                v.capacity, most);
        /* The second and the last frame have fewer pairs than those before. */
        ck_assert(frame % 2 == 0 || v.in == at);
        at = v.in;
        release(&next);
    }
    spc_map_free(map);
    spc_ctx_free(ctx);
    release(&s);
}
END_TEST

/* Several maps are checked with one wait. */
START_TEST(maps_are_checked_together)
{
    fixture s = fixture_of(0, cases[0].rows, 1);
    fixture t = fixture_of(3, cases[3].rows, 2);
    spc_ctx *ctx = open_ctx(device_of(_i));
    spc_map *maps[3] = {map_of(ctx, &s), map_of(ctx, &t), NULL};
    int failed = 7;

    /* The number is read from the device, not remembered. */
    rebuild(ctx, maps[0], &s);
    rebuild(ctx, maps[1], &t);
    maps[0]->pairs = maps[1]->pairs = 0;
    assert_ok(ctx, spc_map_check_many(&failed, maps, 2, NULL));
    ck_assert_int_eq(failed, -1);
    /* The cpu device counts when it fills. */
    if (maps[0]->in->indexer->pairs != NULL) {
        ck_assert_int_eq(spc_map_pairs(maps[0]), s.relation.pairs);
        ck_assert_int_eq(spc_map_pairs(maps[1]), t.relation.pairs);
    }
    ck_assert(maps[0]->checked && maps[1]->checked);
    assert_ok(ctx, spc_map_create(&maps[2], spc_map_in(maps[0]),
                                  spc_map_out(maps[0]), &s.conv.geometry));
    ck_assert_int_eq(spc_map_check_many(&failed, maps, 3, NULL), SPC_ESTATE);
    ck_assert_int_eq(failed, 2);
    for (int i = 0; i < 3; i++)
        spc_map_free(maps[i]);
    spc_ctx_free(ctx);
    release(&s);
    release(&t);
}
END_TEST

/* ---- transposed tables ------------------------------------------------ */

/* index[k][j] = i in one map if and only if index[k][i] = j in the other. */
static void check_transposed(spc_ctx *ctx, const spc_map *map,
                             const spc__relation *want)
{
    size_t in = (size_t)want->rows_in, out = (size_t)want->rows_out;
    size_t capacity = (size_t)spc_coords_capacity(spc_map_out(map));
    int32_t *got = malloc(4 * (size_t)map->offsets * (capacity + 1));
    int32_t *expected = malloc(4 * in + 4);

    ck_assert_int_eq(spc_map_rows_out(map), want->rows_in);
    ck_assert_int_eq(spc_map_rows_in(map), want->rows_out);
    ck_assert_int_eq(spc_map_pairs(map), want->pairs);
    assert_ok(ctx, spc_map_download(got, map));
    for (size_t k = 0; k < (size_t)map->offsets; k++) {
        memset(expected, 0xff, 4 * in);
        for (size_t j = 0; j < out; j++)
            if (want->index[k * out + j] >= 0)
                expected[want->index[k * out + j]] = (int)j;
        for (size_t i = 0; i < in; i++)
            require(got[k * capacity + i] == expected[i],
                    "offset %d of input %d: %d, not %d", (int)k, (int)i,
                    got[k * capacity + i], expected[i]);
    }
    free(expected);
    free(got);
}

START_TEST(a_transposed_table_is_the_transposition_of_the_table)
{
    if (!suite_takes(case_of(_i)))
        return;
    int number = case_of(_i);
    fixture s = fixture_of(number, cases[number].rows, 9);
    spc_ctx *ctx = open_ctx(device_of(_i));
    spc_map *map = map_of(ctx, &s), *other;

    assert_ok(ctx, spc__map_create_transposed(&other, map));
    assert_ok(ctx, spc_map_update(other, NULL, NULL, 0, NULL));
    assert_ok(ctx, spc_map_check(other, NULL));
    check_transposed(ctx, other, &s.relation);
    spc_map_free(other);
    spc_map_free(map);
    spc_ctx_free(ctx);
    release(&s);
}
END_TEST

/* ---- code for GPUs that are not installed ----------------------------- */

/* The oldest GPU, with the fewest registers, and the one that is tuned for:
 * spills are an error there. */
static const struct {
    const char *name;
    int key_bits;
    int may_spill[SEARCHERS]; /* allowed bytes; -1: any */
} gpus[] = {{"sm_75", 32, {-1, -1, -1, -1, -1, -1}},
            {"sm_90a", 64, {8, 8, 104, 8, 0, 104}}};

static const char *const kinds[] = {"subm", "strided", "inverse", "given",
                                    "transposed"};

enum { GPUS = 2, KINDS = 5 };

static spc__attrs index_problem(const char *kind, int key)
{
    bool given = strcmp(kind, "given") == 0 || strcmp(kind, "transposed") == 0;
    bool inverse =
        strcmp(kind, "inverse") == 0 || strcmp(kind, "transposed") == 0;
    spc_geometry g = SPC_GEOMETRY_INIT;
    spc__attrs problem;

    if (strcmp(kind, "subm") != 0) {
        g.rule = given ? SPC_RULE_GIVEN : SPC_RULE_FOOTPRINT;
        g.stride[0] = g.stride[1] = g.stride[2] = 2;
    }
    spc__map_attrs(&problem, &g, inverse);
    spc__attrs_set_number(&problem, "key", key);
    spc__attrs_set_number(&problem, "row_key", key);
    spc__attrs_set_number(&problem, "run", inverse ? 1 : 3);
    spc__attrs_set_number(&problem, "batch", 3);
    spc__attrs_set_number(&problem, "digit", SPC_SORT_DIGIT);
    spc__attrs_set_number(&problem, "threads", 1024);
    return problem;
}

static bool holds(const spc__artefact *artefact, const char *name)
{
    return memmem(artefact->code, artefact->code_bytes, name,
                  strlen(name) + 1) != NULL;
}

static void check_code(spc__compiler *nvrtc, spc__library *library, int gpu,
                       const spc__attrs *problem, int which)
{
    const char *searcher = searchers[which];
    int may_spill = gpus[gpu].may_spill[which];
    spc__attrs target, config = {0};
    spc__buf text = SPC__BUF_INIT, log = SPC__BUF_INIT;
    spc__template *tpl = spc__library_find(library, "index");
    spc_error error = {0};
    spc__artefact artefact;

    spc__attrs_set_text(&config, "search", searcher);
    ck_assert(spc__target_facts(&target, gpus[gpu].name, &error) == SPC_OK);
    if (spc__template_check(tpl, problem, &target, &config, &error) != SPC_OK)
        return; /* inverse maps are searched by z-delta */
    ck_assert_msg(spc__template_render(&text, tpl, problem, &target, &config,
                                       &error) == SPC_OK,
                  "%s", error.text);
    spc__compile_job job = {.source = text.data,
                            .name = "index",
                            .target = gpus[gpu].name,
                            .headers = library};
    ck_assert_msg(spc__compile(&artefact, nvrtc, &job, &log, &error) == SPC_OK,
                  "%s", error.text);
    int spilled =
        (int)spc__attrs_number(&artefact.resources, "spill_bytes", -1);
    ck_assert_msg(spilled >= 0 && (may_spill < 0 || spilled <= may_spill),
                  "%s on %s spills %d bytes", searcher, gpus[gpu].name,
                  spilled);
    ck_assert(holds(&artefact, "spc_index") && holds(&artefact, "spc_pairs"));
    spc__artefact_release(&artefact);
    spc__buf_release(&text);
    spc__buf_release(&log);
}

START_TEST(every_searcher_compiles_for_every_gpu)
{
    int gpu = _i / KINDS;
    if (!suite_takes(_i))
        return;
    spc__attrs problem = index_problem(kinds[_i % KINDS], gpus[gpu].key_bits);
    spc__library *library;
    spc__compiler *nvrtc;
    spc_error error;

    ck_assert(spc__nvrtc_open(&nvrtc, &error) == SPC_OK);
    ck_assert(spc__library_open(&library, NULL, NULL, &error) == SPC_OK);
    for (int i = 0; i < SEARCHERS; i++)
        check_code(nvrtc, library, gpu, &problem, i);
    spc__library_close(library);
    spc__compiler_close(nvrtc);
}
END_TEST

static bool is_nvrtc(void)
{
    spc__compiler *nvrtc = NULL;
    bool present = spc__nvrtc_open(&nvrtc, NULL) == SPC_OK;

    spc__compiler_close(nvrtc);
    return present;
}

/* ---- the suite -------------------------------------------------------- */

static void add(Suite *suite, const char *name, const TTest *test, int count)
{
    TCase *tc = tcase_create(name);

    tcase_set_timeout(tc, 120);
    tcase_add_loop_test(tc, test, 0, count);
    suite_add_tcase(suite, tc);
}

static int run_nvrtc(void)
{
    if (!is_nvrtc())
        return suite_skip("there is no NVRTC on this machine");
    suite_sample(6);
    Suite *suite = suite_create("search, NVRTC");
    add(suite, "nvrtc", every_searcher_compiles_for_every_gpu, KINDS * GPUS);
    return run_suite(suite);
}

int main(int argc, char **argv)
{
    int status;

    if (suite_is_part(argc, argv, "nvrtc"))
        return run_nvrtc();
    if ((status = suite_open(argc, argv)) != 0)
        return status;
    suite_sample(3);
    Suite *suite = suite_create("search");
    add(suite, "same", every_searcher_makes_the_same_map, CASES);
    add(suite, "next", every_searcher_takes_the_next_frame, 4);
    add(suite, "merged", every_searcher_sees_merged_sets, 1);
    add(suite, "refused", what_cannot_search_is_refused_with_a_sentence,
        loops(1));
    add(suite, "choices", maps_are_searched_as_the_database_says,
        sizeof recorded / sizeof *recorded);
    add(suite, "tuning", tuning_a_map_stores_its_choice, 1);
    add(suite, "host", the_host_has_no_searchers_to_choose_from, 1);
    add(suite, "pairs", pairs_by_offset_are_those_of_the_relation,
        loops(CASES));
    add(suite, "empty", no_rows_have_no_pairs, loops(1));
    add(suite, "frames", pairs_follow_the_frames, loops(4));
    add(suite, "fitting", fitting_pairs_follow_the_frames, loops(4));
    add(suite, "together", maps_are_checked_together, loops(1));
    add(suite, "transposed",
        a_transposed_table_is_the_transposition_of_the_table, loops(CASES));
    return run_suite(suite);
}
