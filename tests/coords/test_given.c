/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_given.c - maps between two sets of the caller, and sets that a
 * generative layer makes, compared with the relation that the oracle finds by
 * hashing.
 *
 * Runs on "cpu" and "sim", or on the device given as argument.
 */
#include "coords/map_choice.h"
#include "harness/coords_harness.h"
#include "spc/tune.h"
#include <stdio.h>
#include <time.h>

#define LENGTH(array) ((int)(sizeof(array) / sizeof(*(array))))

/* ---- layers on scenes -------------------------------------------------- */

static const struct {
    const char *layer;
    int count, low, extent, batches;
} cases[] = {
    {"conv,cin=4,cout=4,k=3,stride=2,rule=given", 900, -9, 17, 2},
    {"conv,cin=4,cout=4,k=5x2x3,stride=1x3x2,dilation=1x2x2,origin=-3x0x5,"
     "rule=given",
     700, -11, 17, 2},
    {"transposed,cin=4,cout=4,k=2,stride=2", 700, -9, 17, 2},
    {"transposed,cin=4,cout=4,k=3x2x4,stride=2x3x1,dilation=1x1x2", 500, -7, 15,
     1},
    {"generative,cin=4,cout=4,k=2,stride=2", 300, -9, 12, 2},
    {"generative,cin=4,cout=4,k=4,stride=2", 60, -3, 9, 2},
    {"generative,cin=4,cout=4,k=3", 60, -3, 9, 1},
    {"generative,cin=4,cout=4,k=3x1x2,stride=5x2x3,dilation=2x1x4,origin=-"
     "1x7x0",
     300, -8, 11, 1},
    {"generative,cin=4,cout=4,k=3,stride=2,origin=-1,shape=15x11x13", 200, -2,
     10, 2},
    {"generative,cin=4,cout=4,k=2x3x1,stride=3x1x2,dilation=2x1x1,shape=9x7x8",
     200, -3, 9, 1},
    {"generative,cin=4,cout=4,k=2,stride=2,shape=4", 60, 5, 9, 1},
};

/* Kernels take seconds to compile under a sanitizer, so it skips some cases. */
static bool is_costly(const char *device)
{
#ifdef SPC_SANITIZE
    return strcmp(device, "sim") == 0;
#else
    (void)device;
    return false;
#endif
}

/* Compiling for sim is slow, so it runs only one of the cases. */
static bool is_drawn(int n, const char *device)
{
    return strcmp(device, "sim") != 0 || suite_takes(n);
}

/* The same relation in reverse direction: that of the transposed table. */
static void check_transposed(spc_ctx *ctx, const spc_map *map)
{
    size_t in = (size_t)spc_map_rows_in(map),
           to = (size_t)spc_map_rows_out(map);
    spc_map *back;

    assert_ok(ctx, spc__map_create_transposed(&back, map));
    assert_ok(ctx, spc_map_update(back, NULL, NULL, 0, NULL));
    assert_ok(ctx, spc_map_check(back, NULL));
    ck_assert_int_eq(spc_map_pairs(back), spc_map_pairs(map));
    int32_t *forth = download(ctx, map), *got = download(ctx, back);
    for (size_t k = 0; k < (size_t)map->offsets; k++)
        for (size_t row = 0; row < to; row++) {
            int seen = forth[k * to + row];
            require(seen < 0 || got[k * in + (size_t)seen] == (int)row,
                    "offset %d of output %d", (int)k, (int)row);
        }
    free(forth);
    free(got);
    spc_map_free(back);
}

START_TEST(maps_of_given_and_generated_sets_are_their_relations)
{
    int n = case_of(_i);

    if (!is_drawn(n, device_of(_i)))
        return;
    spc_conv conv = parse(cases[n].layer);
    spc_ctx *ctx = open_ctx(device_of(_i));
    rows r = draw(cases[n].count, cases[n].low, cases[n].extent,
                  cases[n].batches, (uint64_t)n + 1);
    spc_scene *scene = scene_of(&r);
    spc_map *map;

    assert_ok(ctx, spc_map_create_from_scene(&map, ctx, &conv, scene));
    check_map(ctx, map, &conv, &r);
    if (!is_costly(device_of(_i)))
        check_transposed(ctx, map);
    if (conv.op == SPC_GENERATIVE)
        check_outputs(ctx, spc_map_out(map), &conv, &r);
    spc_map_free(map);
    spc_scene_free(scene);
    spc_ctx_free(ctx);
    free(r.at);
}
END_TEST

/* ---- any two sets ------------------------------------------------------- */

/* The other set overlaps partly, has other batches, is far away, or is at the
 * limit of int32. */
static const struct {
    int low, extent, batches;
} boxes[] = {
    {-4, 12, 1},
    {3, 12, 3},
    {5000, 9, 2},
    {-5000, 9, 2},
    {INT32_MAX - 8, 8, 2},
    {INT32_MIN + 1, 8, 2},
    {0, 1, 1},
};

static spc_coords *set_of(spc_ctx *ctx, const rows *r)
{
    spc_scene *scene = scene_of(r);
    spc_coords *set;

    assert_ok(ctx, spc_coords_create_from_scene(&set, ctx, scene));
    spc_scene_free(scene);
    return set;
}

static void use_searcher(spc_map *map, const char *search)
{
    spc__attrs config = {0};
    spc_error error = {0};

    spc__attrs_set_text(&config, "search", search);
    spc_status status = spc__map_configure(map, &config, &error);
    ck_assert_msg(status == SPC_OK, "%s", error.text);
}

/* Checks every search configuration of the device. */
static void check_between(spc_ctx *ctx, const spc_conv *conv, const rows *mine,
                          const rows *theirs, const char *const *searchers)
{
    bool ends = spc__conv_ends_at_scene(conv);
    spc_scene *scene = scene_of(mine), *other = scene_of(theirs);
    spc_coords *a = set_of(ctx, mine);
    spc_coords *b = mine == theirs ? spc__coords_share(a) : set_of(ctx, theirs);
    spc__relation want;
    spc_error error = {0};
    spc_map *map;

    spc_status status =
        spc__relation_init_between(&want, conv, scene, other, 1, NULL, &error);
    ck_assert_msg(status == SPC_OK, "%s", error.text);
    assert_ok(ctx, ends ? spc_map_create_inverse(&map, b, a, &conv->geometry)
                        : spc_map_create(&map, a, b, &conv->geometry));
    for (int i = 0; searchers[i]; i++) {
        if (searchers[i][0])
            use_searcher(map, searchers[i]);
        assert_ok(ctx, spc_map_update(map, NULL, NULL, 0, NULL));
        assert_ok(ctx, spc_map_check(map, NULL));
        check_relation(ctx, map, &want);
    }
    spc__relation_release(&want);
    spc_map_free(map);
    spc_coords_free(a);
    spc_coords_free(b);
    spc_scene_free(scene);
    spc_scene_free(other);
}

START_TEST(any_two_sets_have_a_map)
{
    static const char *const plain[] = {"", NULL};
    const char *other = suite_variant() % 2 ? "hash" : "binary";
    const char *const forth[] = {"zdelta", other, NULL}, *const back[] = {other,
                                                                          NULL};
    const char *device = device_of(_i);
    bool host = strcmp(device, "cpu") == 0;
    spc_ctx *ctx = open_ctx(device);
    spc_conv layers[2] = {parse("conv,cin=4,cout=4,k=3,stride=2,rule=given"),
                          parse("transposed,cin=4,cout=4,k=3,stride=2")};
    rows mine = draw(400, -4, 9, 2, 11);

    for (int p = 0; p < LENGTH(boxes); p++) {
        rows theirs = draw(200, boxes[p].low, boxes[p].extent, boxes[p].batches,
                           (uint64_t)p);
        for (int l = 0; l < 2; l++) {
            if (is_costly(device) && l != suite_variant() % 2)
                continue;
            check_between(ctx, &layers[l], &mine, &theirs,
                          host     ? plain
                          : l == 0 ? forth
                                   : back);
            check_between(ctx, &layers[l], &theirs, &mine,
                          host     ? plain
                          : l == 0 ? forth
                                   : back);
        }
        free(theirs.at);
    }
    check_between(ctx, &layers[suite_variant() % 2], &mine, &mine,
                  host                       ? plain
                  : suite_variant() % 2 == 0 ? forth
                                             : back);
    free(mine.at);
    spc_ctx_free(ctx);
}
END_TEST

/* ---- frames ------------------------------------------------------------- */

typedef struct frame {
    spc_ctx *ctx;
    spc_conv up, given;
    spc_coords *coarse, *fine, *targets;
    spc_map *generated, *between;
} frame;

static void open_frame(frame *f, const char *device, int capacity)
{
    f->ctx = open_ctx(device);
    f->up = parse("generative,cin=4,cout=4,k=2,stride=2");
    f->given = parse("conv,cin=4,cout=4,k=3,stride=2,rule=given");
    f->coarse = reserve(f->ctx, capacity, -400, 400, SPC_DUPLICATES_ERROR);
    f->targets = reserve(f->ctx, capacity, -400, 400, SPC_DUPLICATES_ERROR);
    assert_ok(f->ctx, spc_coords_create_outputs_reserved(&f->fine, f->coarse,
                                                         &f->up.geometry, 0));
    ck_assert_int_eq(spc_coords_capacity(f->fine), 8 * capacity);
    assert_ok(f->ctx, spc_map_create_inverse(&f->generated, f->coarse, f->fine,
                                             &f->up.geometry));
    assert_ok(f->ctx, spc_map_create(&f->between, f->coarse, f->targets,
                                     &f->given.geometry));
    assert_ok(f->ctx, spc__map_prepare(f->generated, "gray", 64, NULL));
}

static void close_frame(frame *f)
{
    spc_map_free(f->generated);
    spc_map_free(f->between);
    spc_coords_free(f->fine);
    spc_coords_free(f->targets);
    spc_coords_free(f->coarse);
    spc_ctx_free(f->ctx);
}

static void fill(frame *f, spc_coords *set, const rows *r)
{
    int32_t *coords = upload(f->ctx, r->at, 16 * (size_t)r->count);
    int32_t *count = upload(f->ctx, &r->count, 4);

    assert_ok(f->ctx, spc_coords_update(set, coords, count, 0, NULL));
    assert_ok(f->ctx, spc_ctx_synchronize(f->ctx));
    spc_memory_free(f->ctx, coords);
    spc_memory_free(f->ctx, count);
}

static void check_given(frame *f, const rows *mine, const rows *theirs)
{
    spc_scene *scene = scene_of(mine), *other = scene_of(theirs);
    spc__relation want;
    spc_error error = {0};

    spc_status status = spc__relation_init_between(&want, &f->given, scene,
                                                   other, 1, NULL, &error);
    ck_assert_msg(status == SPC_OK, "%s", error.text);
    check_relation(f->ctx, f->between, &want);
    spc__relation_release(&want);
    spc_scene_free(scene);
    spc_scene_free(other);
}

/* Counts stay on the device; nothing is read back between the steps. */
START_TEST(frames_fill_given_and_generated_sets_anew)
{
    static const int sizes[][2] = {{300, 40}, {7, 300}, {0, 9}, {300, 1}};
    frame f;

    open_frame(&f, device_of(_i), 300);
    for (int n = 0; n < LENGTH(sizes); n++) {
        rows r = draw(sizes[n][0], -20 + 10 * n, 12, 2, (uint64_t)n);
        rows to = draw(sizes[n][1], -10 + 5 * n, 7, 2, (uint64_t)n + 9);
        fill(&f, f.coarse, &r);
        fill(&f, f.targets, &to);
        assert_ok(f.ctx, spc_coords_update(f.fine, NULL, NULL, 0, NULL));
        assert_ok(f.ctx, spc_map_update(f.generated, NULL, NULL, 0, NULL));
        assert_ok(f.ctx, spc_map_update(f.between, NULL, NULL, 0, NULL));
        assert_ok(f.ctx, spc_map_check(f.generated, NULL));
        assert_ok(f.ctx, spc_map_check(f.between, NULL));
        check_map(f.ctx, f.generated, &f.up, &r);
        check_outputs(f.ctx, f.fine, &f.up, &r);
        check_given(&f, &r, &to);
        free(r.at);
        free(to.at);
    }
    close_frame(&f);
}
END_TEST

/* ---- from text to result ------------------------------------------------- */

static const char *const layers[] = {
    "generative,cin=3,cout=5,k=2,stride=2,dtype=f32",
    "transposed,cin=4,cout=8,k=3,stride=2,dtype=f32,bias=1",
};

/* Samples, maps, gate and timing accept these layers like any other. */
START_TEST(layers_are_verified_and_benched)
{
    spc_ctx *ctx = open_ctx("cpu");
    spc_conv conv = parse(layers[_i]);
    spc_tune_options options = SPC_TUNE_OPTIONS_INIT;
    spc_tune_report report;
    spc_bench_result bench;
    spc_scene *scene;
    spc_error error;

    options.stage = SPC_STAGE_VERIFY;
    options.effort = SPC_EFFORT_QUICK;
    options.only = "generic";
    ck_assert(spc_scene_load(&scene, "gen:uniform,n=90,extent=9", &error) ==
              SPC_OK);
    const spc_scene *const scenes[] = {scene};
    assert_ok(ctx, spc_tune(&report, ctx, &conv, scenes, 1, &options));
    ck_assert_int_gt(report.verified, 0);
    ck_assert_int_eq(report.failed, 0);
    assert_ok(ctx, spc_bench(&bench, ctx, &conv, scene, 1));
    ck_assert_double_le(bench.error, 1);
    spc_scene_free(scene);
    spc_ctx_free(ctx);
}
END_TEST

/* ---- invalid input ------------------------------------------------------- */

#define refused(wanted, says, call)                                            \
    do {                                                                       \
        ck_assert_int_eq(call, wanted);                                        \
        ck_assert_msg(strstr(spc_ctx_error(ctx), says), "%s",                  \
                      spc_ctx_error(ctx));                                     \
    } while (0)

START_TEST(impossible_sets_are_refused_with_a_sentence)
{
    spc_ctx *ctx = open_ctx(device_of(_i));
    spc_conv given = parse("conv,cin=4,cout=4,k=3,stride=2,rule=given"),
             wide = parse("conv,cin=4,cout=4,k=7,dilation=2,rule=given"),
             up = parse("generative,cin=4,cout=4,k=2,stride=2");
    spc_coords *set = reserve(ctx, 20, -400, 400, 0),
               *high = reserve(ctx, 20, 1 << 30, (1 << 30) + 9, 0), *none, *out;
    rows r = draw(20, 0, 20, 2, 3);
    int32_t *coords = upload(ctx, r.at, 16 * (size_t)r.count);
    spc_map *map;

    refused(SPC_EINVAL, "a set that the caller has",
            spc_coords_create_outputs(&none, set, &given.geometry));
    refused(SPC_ERANGE, "reserve it with halo=13",
            spc_map_create(&map, set, high, &wide.geometry));
    refused(SPC_ERANGE, "do not fit 32 bits",
            spc_coords_create_outputs_reserved(&none, high, &up.geometry, 0));
    refused(SPC_EINVAL, "only the rules SUBM and GIVEN",
            spc_map_create_inverse(&map, set, set, &up.geometry));
    assert_ok(ctx,
              spc_coords_create_outputs_reserved(&out, set, &up.geometry, 100));
    assert_ok(ctx, spc_coords_update(set, coords, NULL, r.count, NULL));
    assert_ok(ctx, spc_coords_update(out, NULL, NULL, 0, NULL));
    refused(SPC_ECAPACITY, "a capacity of", spc_coords_check(out, NULL));
    ck_assert_int_eq(spc_coords_rows(out), 0);
    spc_coords_free(out);
    spc_coords_free(high);
    spc_coords_free(set);
    spc_memory_free(ctx, coords);
    spc_ctx_free(ctx);
    free(r.at);
}
END_TEST

int main(int argc, char **argv)
{
    int status = suite_open(argc, argv);

    if (status != 0)
        return status;
    suite_sample(LENGTH(cases));
    Suite *suite = suite_create("given");
    add(suite, "relations",
        maps_of_given_and_generated_sets_are_their_relations, LENGTH(cases));
    add(suite, "between", any_two_sets_have_a_map, 1);
    TCase *words = tcase_create("words");
    tcase_set_timeout(words, 60);
    tcase_add_loop_test(words, layers_are_verified_and_benched, 0,
                        suite_device ? 0 : LENGTH(layers));
    suite_add_tcase(suite, words);
    add(suite, "frames", frames_fill_given_and_generated_sets_anew, 1);
    add(suite, "refused", impossible_sets_are_refused_with_a_sentence, 1);
    return run_suite(suite);
}
