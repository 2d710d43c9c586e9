/* SPDX-License-Identifier: Apache-2.0 */
/* test_lookup.c - which record a lookup chooses for a layer, and the reason
 * that it gives. */
#include "harness/layer_harness.h"
#include "spc/db.h"

#include "base/error.h"
#include "base/file.h"
#include "cache/cache_internal.h"
#include "context/problem_key.h"
#include "harness/suite.h"
#include "plan/lookup.h"
#include "plan/plan.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static spc_error error;
static char folder[300], database[400], shipped[400], templates[300];

static void write_file(const char *directory, const char *name,
                       const char *text)
{
    char path[600];
    snprintf(path, sizeof(path), "%s/%s", directory, name);
    assert_ok(spc__file_write(path, text, strlen(text), &error), error.text);
}

/* A folder with the template "probe" and the header that it includes; `extra`
 * is appended to the template's text. */
static void write_templates(const char *extra)
{
    spc__buf text = SPC__BUF_INIT;

    assert_ok(spc__file_read(&text,
                             SPC_TEST_DATA "/templates/lookup/probe.c.lua",
                             1 << 20, &error),
              error.text);
    spc__buf_puts(&text, extra);
    write_file(templates, "probe.c.lua", spc__buf_text(&text));
    spc__buf_release(&text);
}

static void make_folder(char *out, size_t bytes)
{
    spc__buf path = SPC__BUF_INIT;
    assert_ok(spc__temp_dir_create(&path, &error), error.text);
    snprintf(out, bytes, "%s", spc__buf_text(&path));
    spc__buf_release(&path);
}

static void set_up(void)
{
    make_folder(folder, sizeof(folder));
    make_folder(templates, sizeof(templates));
    snprintf(database, sizeof(database), "%s/own.db", folder);
    snprintf(shipped, sizeof(shipped), "%s/shipped.db", folder);
    write_templates("");
}

static void tear_down(void)
{
    spc__temp_dir_remove(folder);
    spc__temp_dir_remove(templates);
}

/* ---- records ------------------------------------------------------------- */

/* A choice as a tuner stores it, without code. */
typedef struct record {
    const char *layer;
    double octaves; /* of the record's scene */
    const char *template_name;
    const char *config;
    bool stale; /* from an older version of its template */
} record;

static void put_record(spc_ctx *ctx, const spc_map *map, const record *from)
{
    spc__problem_key key;
    spc__provenance provenance;
    spc__trial trial;
    spc_conv conv;

    memset(&trial, 0, sizeof(trial));
    assert_ok(spc_conv_parse(&conv, from->layer, &error), error.text);
    spc__problem_key_init(&key, ctx, &conv, spc_map_rows_out(map),
                          spc_map_rows_out(map), spc_map_density(map));
    ck_assert_str_eq(key.features[0].name, "rows");
    key.features[0].value += from->octaves;
    spc__ctx_provenance(&provenance, ctx);
    snprintf(trial.template_name, sizeof(trial.template_name), "%s",
             from->template_name);
    if (from->stale ||
        !spc__ctx_template_hash(trial.template_hash, ctx, from->template_name))
        memset(trial.template_hash, 'e', sizeof(trial.template_hash) - 1);
    assert_ok(spc__attrs_parse(&trial.config, from->config, &error),
              error.text);
    trial.median_us = 12.5;
    trial.samples = 9;
    trial.verified = true;
    assert_ok(
        spc__cache_put_trial(ctx->cache, &key, &trial, &provenance, &error),
        error.text);
    assert_ok(spc__cache_put_choice(ctx->cache, &key, &trial, "for a test",
                                    &provenance, &error),
              error.text);
}

/* ---- the order ----------------------------------------------------------- */

#define LAYER "subm,cin=8,cout=8,dtype=f32"

static const struct lookup_case {
    const char *layer;
    record records[3];
    unsigned flags;
    spc_match origin;
    const char *config, *says;
} cases[] = {
    {LAYER,
     {{LAYER, 0, "probe", "tile=32,order=gray,arrival=0", false}},
     0,
     SPC_MATCH_EXACT,
     "tile=32,order=gray,arrival=0",
     "exactly this problem"},
    {LAYER,
     {{LAYER, 1, "probe", "tile=64,order=none,arrival=0", false},
      {LAYER, 0, "probe", "tile=32,order=none,arrival=0", false}},
     0,
     SPC_MATCH_EXACT,
     "tile=32,order=none,arrival=0",
     "12.5 us"},
    {LAYER,
     {{LAYER, 0.6, "probe", "tile=32,order=none,arrival=0", false}},
     0,
     SPC_MATCH_BUCKET,
     "tile=32,order=none,arrival=0",
     "similar scene"},
    {LAYER,
     {{LAYER, 6, "probe", "tile=32,order=none,arrival=0", false}},
     0,
     SPC_MATCH_NEAREST,
     "tile=32,order=none,arrival=0",
     "nearest measured problem"},
    {LAYER,
     {{"subm,cin=16,cout=12,dtype=f32", 0, "probe",
       "tile=64,order=gray,arrival=0", false}},
     0,
     SPC_MATCH_NEAREST,
     "tile=64,order=gray,arrival=0",
     "subm,cin=16,cout=12"},
    /* With twice the channels on both sides, the default is preferred. */
    {LAYER,
     {{"subm,cin=16,cout=16,dtype=f32", 0, "probe",
       "tile=64,order=gray,arrival=0", false}},
     0,
     SPC_MATCH_DEFAULT,
     "tile=16,order=none,arrival=0",
     "the nearest record is of channels far from these, "
     "'subm,cin=16,cout=16"},
    /* The nearest record's tile is too wide here. The next record's tile
     * fits. */
    {"subm,cin=4,cout=8,dtype=f32",
     {{LAYER, 0, "probe", "tile=64,order=gray,arrival=0", false},
      {"subm,cin=12,cout=8,dtype=f32", 0, "probe",
       "tile=32,order=gray,arrival=0", false}},
     0,
     SPC_MATCH_NEAREST,
     "tile=32,order=gray,arrival=0",
     "subm,cin=12,cout=8"},
    {"subm,cin=4,cout=8,dtype=f32",
     {{LAYER, 0, "probe", "tile=64,order=gray,arrival=0", false}},
     0,
     SPC_MATCH_DEFAULT,
     "tile=16,order=none,arrival=0",
     "wide tiles need eight channels"},
    /* Another kernel size is a different problem. */
    {LAYER,
     {{"subm,cin=8,cout=8,k=5,dtype=f32", 0, "probe",
       "tile=32,order=gray,arrival=0", false}},
     0,
     SPC_MATCH_DEFAULT,
     "tile=16,order=none,arrival=0",
     "no record near"},
    /* A record of an older template is a hint: its configuration is compiled
     * again. */
    {LAYER,
     {{LAYER, 0, "probe", "tile=32,order=gray,arrival=0", true}},
     0,
     SPC_MATCH_NEAREST,
     "tile=32,order=gray,arrival=0",
     "by an earlier version of its kernel"},
    {LAYER,
     {{LAYER, 0, "probe", "tile=48,order=gray,arrival=0", true}},
     0,
     SPC_MATCH_DEFAULT,
     "tile=16,order=none,arrival=0",
     "tile"},
    {LAYER,
     {{LAYER, 0, "gone", "tile=32", false}},
     0,
     SPC_MATCH_DEFAULT,
     "tile=16,order=none,arrival=0",
     "no longer exists"},
    {LAYER,
     {{LAYER, 0, "probe", "tile=32,order=gray,arrival=0", false}},
     SPC_PLAN_ESTIMATE,
     SPC_MATCH_DEFAULT,
     "tile=16,order=none,arrival=0",
     "estimate"},
    {LAYER ",deterministic=1",
     {{LAYER ",deterministic=1", 0, "probe", "tile=32,order=gray,arrival=1",
       false}},
     0,
     SPC_MATCH_DEFAULT,
     "tile=16,order=none,arrival=0",
     "order of arrival"},
    {LAYER,
     {{NULL, 0, NULL, NULL, false}},
     0,
     SPC_MATCH_DEFAULT,
     "tile=16,order=none,arrival=0",
     "no record"},
};

static void expect_stats(spc_stats stats, spc_match origin)
{
    ck_assert_int_eq(stats.lookups, 1);
    ck_assert_int_eq(stats.hits, origin == SPC_MATCH_EXACT);
    ck_assert_int_eq(stats.near_hits,
                     origin == SPC_MATCH_BUCKET || origin == SPC_MATCH_NEAREST);
    ck_assert_int_eq(stats.misses, origin == SPC_MATCH_DEFAULT);
}

START_TEST(the_record_that_serves_is_the_documented_one)
{
    const struct lookup_case *c = &cases[_i];
    harness r;

    harness_open(&r, open_ctx("cpu", database, templates), c->layer,
                 "gen:uniform,n=300,extent=9");
    for (int i = 0; i < LENGTH(c->records) && c->records[i].layer; i++)
        put_record(r.ctx, r.map, &c->records[i]);
    assert_ok(spc_plan_create(&r.plan, r.ctx, &r.conv, r.map, c->flags),
              spc_ctx_error(r.ctx));
    ck_assert_msg(spc_plan_match(r.plan) == c->origin, "%s",
                  spc_plan_reason(r.plan));
    ck_assert_str_eq(spc_plan_template(r.plan), "probe");
    ck_assert_str_eq(spc_plan_config(r.plan), c->config);
    assert_says(spc_plan_reason(r.plan), c->says);
    expect_stats(spc_ctx_stats(r.ctx), c->origin);
    harness_prepare(&r, SPC_KRSC);
    harness_check(&r);
    harness_close(&r);
}
END_TEST

/* Gives a template a default with wider tiles on maps of more than a thousand
 * rows. */
static void write_sized_template(void)
{
    static const char flat[] = "default = function() return {tile = 16",
                      sized[] = "default = function(problem, target) return "
                                "{tile = target.rows > 1000 and 32 or 16";
    spc__buf text = SPC__BUF_INIT, out = SPC__BUF_INIT;

    assert_ok(spc__file_read(&text,
                             SPC_TEST_DATA "/templates/lookup/probe.c.lua",
                             1 << 20, &error),
              error.text);
    const char *at = strstr(spc__buf_text(&text), flat);
    ck_assert_ptr_nonnull(at);
    spc__buf_append(&out, spc__buf_text(&text),
                    (size_t)(at - spc__buf_text(&text)));
    spc__buf_printf(&out, "%s%s", sized, at + strlen(flat));
    write_file(templates, "probe.c.lua", spc__buf_text(&out));
    spc__buf_release(&text);
    spc__buf_release(&out);
}

/* The query has 300 rows. There are records of 19,200 rows, of 37 rows, of a
 * layer with other channels, and of the same bucket. */
START_TEST(
    a_record_of_a_map_whose_work_is_divided_in_another_way_does_not_serve)
{
    static const struct {
        record from;
        spc_match origin;
        const char *config, *says;
    } rows[] = {
        {{LAYER, 6, "probe", "tile=64,order=gray,arrival=0", false},
         SPC_MATCH_DEFAULT,
         "tile=16,order=none,arrival=0",
         "where 'probe' divides its work in another way"},
        {{LAYER, -3, "probe", "tile=64,order=gray,arrival=0", false},
         SPC_MATCH_DEFAULT,
         "tile=16,order=none,arrival=0",
         "where 'probe' divides its work in another way"},
        {{"subm,cin=16,cout=12,dtype=f32", 0, "probe",
          "tile=64,order=gray,arrival=0", false},
         SPC_MATCH_NEAREST,
         "tile=64,order=gray,arrival=0",
         "nearest measured problem"},
        {{LAYER, 0.6, "probe", "tile=64,order=gray,arrival=0", false},
         SPC_MATCH_BUCKET,
         "tile=64,order=gray,arrival=0",
         "similar scene"},
    };

    write_sized_template();
    for (int i = 0; i < LENGTH(rows); i++) {
        harness r;
        spc__pick pick = {0};
        remove(database);
        harness_open(&r, open_ctx("cpu", database, templates), LAYER,
                     "gen:uniform,n=300,extent=9");
        put_record(r.ctx, r.map, &rows[i].from);
        assert_ok(spc__lookup(&pick, r.ctx, &r.conv, 300, 300,
                              spc_map_density(r.map), SPC__PLAN_UNLOADED, NULL),
                  spc_ctx_error(r.ctx));
        ck_assert_msg(pick.origin == rows[i].origin, "%s", pick.reason);
        ck_assert_str_eq(pick.config, rows[i].config);
        assert_says(pick.reason, rows[i].says);
        harness_close(&r);
    }
}
END_TEST

/* ---- gradients ----------------------------------------------------------- */

#define GRADIENT "subm,cin=32,cout=16,dtype=f32,pass=dgrad"
#define FORWARD "subm,cin=16,cout=32,dtype=f32"
#define SERVES "tile=32,order=gray,arrival=0"
#define OTHER "tile=64,order=gray,arrival=0"

/* The gradient of inputs of 32->16 is the convolution 16->32. The convolution's
 * records apply if the gradient itself is not in the database. */
static const struct gradient_case {
    const char *layer;
    record records[2];
    spc_match origin;
    const char *config, *says;
} gradient_cases[] = {
    {GRADIENT,
     {{"subm,cin=32,cout=32,dtype=f32,pass=dgrad", 0, "probe", OTHER, false},
      {FORWARD, 0, "probe", SERVES, false}},
     SPC_MATCH_NEAREST,
     SERVES,
     "measured for the forward layer that this gradient computes as: "
     "'subm,cin=16,cout=32,k=3,dtype=f32' at"},
    {GRADIENT,
     {{GRADIENT, 6, "probe", OTHER, false},
      {FORWARD, 0.6, "probe", SERVES, false}},
     SPC_MATCH_NEAREST,
     SERVES,
     "forward layer"},
    {GRADIENT,
     {{FORWARD, 0, "probe", OTHER, false},
      {GRADIENT, 0, "probe", SERVES, false}},
     SPC_MATCH_EXACT,
     SERVES,
     "exactly this problem"},
    {GRADIENT,
     {{FORWARD, 0, "probe", OTHER, false},
      {GRADIENT, 0.6, "probe", SERVES, false}},
     SPC_MATCH_BUCKET,
     SERVES,
     "similar scene"},
    /* At equal distance the gradient's own record is preferred. */
    {GRADIENT,
     {{FORWARD, 6, "probe", OTHER, false},
      {GRADIENT, 6, "probe", SERVES, false}},
     SPC_MATCH_NEAREST,
     SERVES,
     "pass=dgrad' at"},
    {GRADIENT,
     {{FORWARD, 0, "probe", "tile=48,order=gray,arrival=0", false},
      {GRADIENT, 6, "probe", SERVES, false}},
     SPC_MATCH_NEAREST,
     SERVES,
     "one before it cannot serve: "},
    /* Records with other channels, another bias, or the opposite direction do
     * not apply. */
    {GRADIENT,
     {{"subm,cin=16,cout=32,bias=1,dtype=f32", 0, "probe", OTHER, false}},
     SPC_MATCH_DEFAULT,
     "tile=16,order=none,arrival=0",
     "no record near"},
    {FORWARD,
     {{GRADIENT, 0, "probe", OTHER, false}},
     SPC_MATCH_DEFAULT,
     "tile=16,order=none,arrival=0",
     "no record near"},
};

START_TEST(what_a_gradient_computes_as_serves_it)
{
    const struct gradient_case *c = &gradient_cases[_i];
    harness r;

    harness_open(&r, open_ctx("cpu", database, templates), c->layer,
                 "gen:uniform,n=300,extent=9");
    for (int i = 0; i < LENGTH(c->records) && c->records[i].layer; i++)
        put_record(r.ctx, r.map, &c->records[i]);
    for (int times = 0; times < 2; times++) { /* from files, then from memory */
        spc__pick pick = {0};
        assert_ok(spc__lookup(&pick, r.ctx, &r.conv, 300, 300,
                              spc_map_density(r.map), SPC__PLAN_UNLOADED, NULL),
                  spc_ctx_error(r.ctx));
        ck_assert_msg(pick.origin == c->origin, "%s", pick.reason);
        ck_assert_str_eq(pick.config, c->config);
        assert_says(pick.reason, c->says);
    }
    harness_close(&r);
}
END_TEST

START_TEST(a_layer_that_no_template_takes_is_unsupported_with_the_reason)
{
    harness r;

    harness_open(&r, open_ctx("cpu", "", templates),
                 "subm,cin=8,cout=8,dtype=f16", "gen:uniform,n=30");
    ck_assert_int_eq(spc_plan_create(&r.plan, r.ctx, &r.conv, r.map, 0),
                     SPC_EUNSUPPORTED);
    assert_says(spc_ctx_error(r.ctx), "f32 only");
    harness_close(&r);
}
END_TEST

/* ---- keys ---------------------------------------------------------------- */

/* Returns the distance that the runtime passes to the cache for two layers. */
static const struct {
    const char *one, *two;
    bool family;
} families[] = {
    {"subm,cin=8,cout=8", "subm,cin=64,cout=16", true},
    {"subm,cin=8,cout=8", "subm,cin=8,cout=8,k=5", false},
    {"subm,cin=8,cout=8", "subm,cin=8,cout=8,dilation=2", false},
    {"subm,cin=8,cout=8", "subm,cin=8,cout=8,dtype=f32", false},
    {"subm,cin=8,cout=8", "subm,cin=8,cout=8,bias=1", false},
    {"subm,cin=8,cout=8", "subm,cin=8,cout=8,deterministic=1", false},
    /* Depthwise layers are one family; other group sizes are others. */
    {"subm,cin=8,cout=8,groups=8", "subm,cin=64,cout=64,groups=64", true},
    {"subm,cin=8,cout=8,groups=8", "subm,cin=8,cout=8", false},
    {"subm,cin=8,cout=8,groups=4", "subm,cin=64,cout=64,groups=4", false},
    {"conv,cin=8,cout=8,k=2,stride=2,rule=floor",
     "conv,cin=4,cout=9,k=2,stride=2,rule=floor", true},
    {"conv,cin=8,cout=8,k=2,stride=2,rule=floor",
     "conv,cin=8,cout=8,k=2,stride=2,rule=footprint", false},
    {"conv,cin=8,cout=8,k=2,stride=2,rule=floor",
     "inverse,cin=8,cout=8,k=2,stride=2,rule=floor", false},
    {"conv,cin=8,cout=8,k=3,stride=2,rule=floor",
     "conv,cin=8,cout=8,k=3,stride=2x2x1,rule=floor", false},
};

static void make_key(spc__problem_key *out, spc_ctx *ctx, const char *layer,
                     int64_t rows_in, int64_t rows_out)
{
    spc_conv conv;

    assert_ok(spc_conv_parse(&conv, layer, &error), error.text);
    spc__problem_key_init(out, ctx, &conv, rows_in, rows_out, 0.25);
}

START_TEST(layers_that_differ_in_channels_are_one_family)
{
    spc_ctx *ctx = open_ctx("cpu", "", templates);
    spc__problem_key one, two;

    make_key(&one, ctx, families[_i].one, 100, 100);
    make_key(&two, ctx, families[_i].two, 100, 100);
    ck_assert_int_eq(spc__attrs_equal(&one.family, &two.family),
                     families[_i].family);
    ck_assert(!spc__attrs_equal(&one.layer, &two.layer));
    ck_assert(spc__same_buckets(&one, &two));
    spc_ctx_free(ctx);
}
END_TEST

/* If a layer has a single set, its rows count once. */
START_TEST(rows_in_and_rows_out_are_compared_apart)
{
    static const struct {
        int64_t in, out;
        double distance;
    } scenes[] = {{4000, 4000, 1}, {1000, 4000, 2}, {8000, 1000, 2.5}};
    spc_ctx *ctx = open_ctx("cpu", "", templates);
    spc__problem_key one, two;
    double in, out, density, distance = 0;

    make_key(&one, ctx, LAYER, 2000, 2000);
    make_key(&two, ctx, LAYER, scenes[_i].in, scenes[_i].out);
    for (int i = 0; i < one.feature_count; i++)
        distance += one.features[i].weight *
                    fabs(one.features[i].value - two.features[i].value);
    ck_assert_double_eq_tol(distance, scenes[_i].distance, 1e-9);
    ck_assert(!spc__same_buckets(&one, &two));
    spc__problem_key_scene(&in, &out, &density, &two);
    ck_assert_double_eq(in, (double)scenes[_i].in);
    ck_assert_double_eq(out, (double)scenes[_i].out);
    ck_assert_double_eq(density, 0.25);
    spc_ctx_free(ctx);
}
END_TEST

static spc_status see_rows(const spc_db_row *row, void *payload)
{
    *(spc_db_row *)payload = *row;
    return SPC_OK;
}

START_TEST(a_record_says_from_how_many_rows_it_came)
{
    spc__provenance provenance;
    spc__problem_key key;
    spc__pick pick;
    spc_db_row row = {0};
    harness r;

    harness_open(&r, open_ctx("cpu", database, templates), LAYER,
                 "gen:uniform,n=300,extent=9");
    spc__ctx_provenance(&provenance, r.ctx);
    spc__trial trial = {.template_name = "probe", .median_us = 5, .samples = 9};
    spc__ctx_template_hash(trial.template_hash, r.ctx, "probe");
    assert_ok(
        spc__attrs_parse(&trial.config, "tile=32,order=gray,arrival=0", &error),
        error.text);
    make_key(&key, r.ctx, LAYER, 800, 200);
    assert_ok(
        spc__cache_put_trial(r.ctx->cache, &key, &trial, &provenance, &error),
        error.text);
    assert_ok(spc__cache_put_choice(r.ctx->cache, &key, &trial, "for a test",
                                    &provenance, &error),
              error.text);
    assert_ok(spc__lookup(&pick, r.ctx, &r.conv, 810, 201, 0.25, 0, NULL),
              spc_ctx_error(r.ctx));
    ck_assert_int_eq(pick.origin, SPC_MATCH_EXACT);
    assert_says(pick.reason, "at 200 rows from 800 and density 0.250");
    assert_ok(spc__lookup(&pick, r.ctx, &r.conv, 200, 200, 0.25, 0, NULL),
              spc_ctx_error(r.ctx));
    ck_assert_int_eq(pick.origin, SPC_MATCH_NEAREST);
    /* 0.14: offset of the rows within a bucket */
    assert_says(pick.reason, "distance 1.14");
    assert_ok(spc_db_each(r.ctx, see_rows, &row), spc_ctx_error(r.ctx));
    ck_assert_double_eq(row.rows, 200);
    ck_assert_double_eq(row.rows_in, 800);
    harness_close(&r);
}
END_TEST

/* ---- records that cannot serve ------------------------------------------- */

/* Opens a trusted read-only layer below a writable database ("": none). */
static spc_ctx *open_layered(const char *file, const char *layer,
                             const char *template_dir)
{
    spc_ctx_options options = SPC_CTX_OPTIONS_INIT;
    spc_ctx *ctx;

    options.device = "cpu";
    options.database = file;
    options.layers = &layer;
    options.layer_count = 1;
    options.trust = true;
    options.template_dir = template_dir;
    assert_ok(spc_ctx_create(&ctx, &options, &error), error.text);
    return ctx;
}

/* Writes records for the scene of these tests to a file and closes it. */
static void fill(const char *file, const record *records, int count)
{
    harness r;

    harness_open(&r, open_ctx("cpu", file, templates), LAYER,
                 "gen:uniform,n=300,extent=9");
    for (int i = 0; i < count && records[i].layer != NULL; i++)
        put_record(r.ctx, r.map, &records[i]);
    harness_close(&r);
}

/* Runs SQL on a file without the library. */
static void harm(const char *file, const char *text)
{
    sqlite3 *db = NULL;

    ck_assert_int_eq(sqlite3_open(file, &db), SQLITE_OK);
    ck_assert_int_eq(spc__seal_open(db), SQLITE_OK);
    ck_assert_int_eq(sqlite3_exec(db, text, NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(db);
}

/* Runs SQL and renews the seals, so that they are valid. */
static void forge(const char *file, const char *text)
{
    harm(file, text);
    for (int i = 0; spc__seal_everything[i] != NULL; i++)
        harm(file, spc__seal_everything[i]);
}

#define DAMAGE "UPDATE trial SET config = '!!' WHERE id = 1"
#define FASTER "UPDATE trial SET median_us = 1 WHERE id = 1"

static const struct hidden_case {
    record own[2], shipped; /* the first of `own` is unusable */
    const char *harm;       /* damages the record */
    spc_match origin;
    const char *config, *says;
} hidden[] = {
    {{{LAYER, 0, "probe", "tile=64,order=gray,arrival=0", false},
      {LAYER, 1, "probe", "tile=32,order=gray,arrival=0", false}},
     {NULL, 0, NULL, NULL, false},
     DAMAGE,
     SPC_MATCH_BUCKET,
     "tile=32,order=gray,arrival=0",
     "is damaged"},
    {{{LAYER, 0, "probe", "tile=64,order=gray,arrival=0", false}},
     {NULL, 0, NULL, NULL, false},
     DAMAGE,
     SPC_MATCH_DEFAULT,
     "tile=16,order=none,arrival=0",
     "is damaged"},
    {{{LAYER, 0, "probe", "tile=64,order=gray,arrival=0", false}},
     {LAYER, 0, "probe", "tile=32,order=gray,arrival=0", false},
     DAMAGE,
     SPC_MATCH_EXACT,
     "tile=32,order=gray,arrival=0",
     "is damaged"},
    /* If both layers have a record of a neighbouring problem, the lower layer's
     * serves. */
    {{{LAYER, 1, "probe", "tile=64,order=gray,arrival=0", false}},
     {LAYER, 1, "probe", "tile=32,order=gray,arrival=0", false},
     DAMAGE,
     SPC_MATCH_BUCKET,
     "tile=32,order=gray,arrival=0",
     "is damaged"},
    {{{LAYER, 0, "probe", "tile=999,order=gray,arrival=0", true},
      {LAYER, 1, "probe", "tile=64,order=gray,arrival=0", false}},
     {LAYER, 0, "probe", "tile=32,order=gray,arrival=0", false},
     FASTER,
     SPC_MATCH_EXACT,
     "tile=32,order=gray,arrival=0",
     "tile"},
};

START_TEST(a_record_that_cannot_serve_hides_no_other)
{
    const struct hidden_case *c = &hidden[_i];
    harness r;

    fill(database, c->own, LENGTH(c->own));
    fill(shipped, &c->shipped, 1);
    if (strcmp(c->harm, DAMAGE) == 0)
        harm(database, c->harm);
    else
        forge(database, c->harm);
    harness_open(&r, open_layered(database, shipped, templates), LAYER,
                 "gen:uniform,n=300,extent=9");
    assert_ok(spc_plan_create(&r.plan, r.ctx, &r.conv, r.map, 0),
              spc_ctx_error(r.ctx));
    ck_assert_msg(spc_plan_match(r.plan) == c->origin, "%s",
                  spc_plan_reason(r.plan));
    ck_assert_str_eq(spc_plan_config(r.plan), c->config);
    assert_says(spc_plan_reason(r.plan), c->says);
    harness_close(&r);
}
END_TEST

/* Trials of one problem, of which the fastest is chosen, and the damage to
 * them. */
static const struct {
    const char *harm;
    spc_match origin;
    const char *config; /* the expected configuration */
} losses[] = {
    {"SELECT 1", SPC_MATCH_EXACT, "tile=64,order=gray,arrival=0"},
    {"UPDATE trial SET median_us = 0.5 WHERE config LIKE 'tile=64%'",
     SPC_MATCH_EXACT, "tile=32,order=gray,arrival=0"},
    {"UPDATE trial SET config = '!!' WHERE config LIKE 'tile=64%'",
     SPC_MATCH_EXACT, "tile=32,order=gray,arrival=0"},
    {"UPDATE trial SET status = 'fault' WHERE config LIKE 'tile=64%'",
     SPC_MATCH_EXACT, "tile=32,order=gray,arrival=0"},
    {"DELETE FROM trial WHERE config LIKE 'tile=64%'", SPC_MATCH_EXACT,
     "tile=32,order=gray,arrival=0"},
    /* The record of the choice is damaged or missing, but the chosen trial is
     * intact. */
    {"UPDATE choice SET reason = 'none'", SPC_MATCH_EXACT,
     "tile=64,order=gray,arrival=0"},
    {"UPDATE choice SET trial = 1", SPC_MATCH_EXACT,
     "tile=64,order=gray,arrival=0"},
    {"DELETE FROM choice", SPC_MATCH_EXACT, "tile=64,order=gray,arrival=0"},
    {"UPDATE choice SET reason = 'none';"
     " UPDATE trial SET median_us = 1 WHERE config LIKE 'tile=32%'",
     SPC_MATCH_EXACT, "tile=64,order=gray,arrival=0"},
    {"UPDATE trial SET config = config || '!' WHERE config NOT LIKE 'tile=16%'",
     SPC_MATCH_EXACT, "tile=16,order=gray,arrival=0"},
    {"UPDATE trial SET median_us = 0.5", SPC_MATCH_DEFAULT,
     "tile=16,order=none,arrival=0"},
    {"DELETE FROM choice; UPDATE trial SET median_us = 0.5", SPC_MATCH_DEFAULT,
     "tile=16,order=none,arrival=0"},
    {"DELETE FROM choice; DELETE FROM seal WHERE kind = 'choice'",
     SPC_MATCH_DEFAULT, "tile=16,order=none,arrival=0"}, /* trials without a
                                                          * choice */
};

/* The slowest trial comes first. Each is chosen when it is stored. */
static void put_trials(const char *file)
{
    static const record trials[] = {
        {LAYER, 0, "probe", "tile=16,order=gray,arrival=0", false},
        {LAYER, 0, "probe", "tile=32,order=gray,arrival=0", false},
        {LAYER, 0, "probe", "tile=8,order=gray,arrival=0", true}, /* stale */
        {LAYER, 0, "probe", "tile=64,order=gray,arrival=0", false},
    };

    fill(file, trials, LENGTH(trials));
    forge(file, "UPDATE trial SET median_us = CASE substr(config, 6, 2) WHEN"
                " '16' THEN 30 WHEN '32' THEN 20 WHEN '64' THEN 10 ELSE 1 END");
    forge(file, "UPDATE trial SET unix_seconds = unix_seconds - 100 WHERE"
                " config LIKE 'tile=8,%'");
}

START_TEST(the_next_best_of_the_problem_takes_the_place_of_what_is_damaged)
{
    harness r;

    put_trials(database);
    harm(database, losses[_i].harm);
    for (int again = 0; again < 2; again++) {
        harness_open(&r, open_ctx("cpu", database, templates), LAYER,
                     "gen:uniform,n=300,extent=9");
        assert_ok(spc_plan_create(&r.plan, r.ctx, &r.conv, r.map, 0),
                  spc_ctx_error(r.ctx));
        ck_assert_msg(spc_plan_match(r.plan) == losses[_i].origin, "%s",
                      spc_plan_reason(r.plan));
        ck_assert_str_eq(spc_plan_config(r.plan), losses[_i].config);
        if (_i == 0 || _i + 1 == LENGTH(losses))
            ck_assert_ptr_null(strstr(spc_plan_reason(r.plan), "damaged"));
        else if (again == 0 || losses[_i].origin == SPC_MATCH_DEFAULT)
            assert_says(spc_plan_reason(r.plan), "is damaged");
        harness_close(&r);
    }
}
END_TEST

/* If the file is read-only, each lookup uses and reports the next best
 * record. */
START_TEST(the_next_best_serves_where_it_cannot_be_chosen)
{
    spc__buf before = SPC__BUF_INIT, after = SPC__BUF_INIT;
    harness r;

    put_trials(shipped);
    harm(shipped, losses[_i].harm);
    assert_ok(spc__file_read(&before, shipped, 1 << 20, &error), error.text);
    for (int again = 0; again < 2; again++) {
        harness_open(&r, open_layered("", shipped, templates), LAYER,
                     "gen:uniform,n=300,extent=9");
        /* the second lookup uses records in memory */
        for (int i = 0; i < 2; i++) {
            assert_ok(spc_plan_create(&r.plan, r.ctx, &r.conv, r.map, 0),
                      spc_ctx_error(r.ctx));
            ck_assert_msg(spc_plan_match(r.plan) == losses[_i].origin, "%s",
                          spc_plan_reason(r.plan));
            ck_assert_str_eq(spc_plan_config(r.plan), losses[_i].config);
            if (_i != 0 && _i + 1 != LENGTH(losses))
                assert_says(spc_plan_reason(r.plan), "is damaged");
            spc_plan_free(r.plan);
            r.plan = NULL;
        }
        harness_close(&r);
    }
    assert_ok(spc__file_read(&after, shipped, 1 << 20, &error), error.text);
    ck_assert_uint_eq(before.length, after.length);
    ck_assert_mem_eq(before.data, after.data, after.length);
    spc__buf_release(&before);
    spc__buf_release(&after);
}
END_TEST

/* ---- code from the database ---------------------------------------------- */

/* Makes the plan once in a separate context that may compile. */
static void compile_once(const char *template_dir, const record *put)
{
    harness r;

    harness_open(&r, open_ctx("cpu", database, template_dir), LAYER,
                 "gen:uniform,n=300,extent=9");
    if (put != NULL)
        put_record(r.ctx, r.map, put);
    assert_ok(spc_plan_create(&r.plan, r.ctx, &r.conv, r.map, 0),
              spc_ctx_error(r.ctx));
    ck_assert_int_eq(spc_ctx_stats(r.ctx).compiles, 1);
    harness_close(&r);
}

START_TEST(cached_only_never_compiles)
{
    static const record choice = {LAYER, 0, "probe",
                                  "tile=32,order=gray,arrival=0", false};
    harness r;

    harness_open(&r, open_ctx("cpu", database, templates), LAYER,
                 "gen:uniform,n=300,extent=9");
    ck_assert_int_eq(
        spc_plan_create(&r.plan, r.ctx, &r.conv, r.map, SPC_PLAN_CACHED_ONLY),
        SPC_ENOTFOUND);
    ck_assert(r.plan == NULL);
    assert_says(spc_ctx_error(r.ctx), "compiling was not permitted");
    harness_close(&r);

    compile_once(templates, &choice);
    harness_open(&r, open_ctx("cpu", database, templates), LAYER,
                 "gen:uniform,n=300,extent=9");
    assert_ok(
        spc_plan_create(&r.plan, r.ctx, &r.conv, r.map, SPC_PLAN_CACHED_ONLY),
        spc_ctx_error(r.ctx));
    ck_assert_int_eq(spc_plan_match(r.plan), SPC_MATCH_EXACT);
    ck_assert_int_eq(spc_ctx_stats(r.ctx).compiles, 0);
    ck_assert_int_eq(spc_ctx_stats(r.ctx).artefacts_loaded, 1);
    harness_prepare(&r, SPC_KRSC);
    harness_check(&r);
    harness_close(&r);
}
END_TEST

/* Checks the default of the emulated device for this many rows (0: unknown). */
static spc__pick default_of(const char *layer, int64_t rows)
{
    spc_ctx *ctx = open_ctx("sim", "", NULL);
    spc__pick pick;
    spc_conv conv;

    assert_ok(spc_conv_parse(&conv, layer, &error), error.text);
    assert_ok(spc__lookup_default(&pick, ctx, &conv, rows, 0),
              spc_ctx_error(ctx));
    spc_ctx_free(ctx);
    return pick;
}

/* The emulated device has four multiprocessors. A tile of 128 channels has 192
 * rows. A tile of 256 channels has 128 rows, or 192 rows with half of the
 * channels. Few output channels have no such kernel. */
static const struct {
    const char *layer;
    int64_t rows; /* 0: unknown */
    const char *split;
    const char *columns;
} few_tiles[] = {
    {"subm,cin=128,cout=128,k=3", 0, "split=none", "n=128,"},
    {"subm,cin=128,cout=128,k=3", 384, "split=stream", "n=128,"},
    {"subm,cin=128,cout=128,k=3", 385, "split=none", "n=128,"},
    {"subm,cin=128,cout=128,k=5", 960, "split=stream", "n=128,"},
    {"subm,cin=256,cout=256,k=3", 128, "split=cluster4", "n=256,"},
    {"subm,cin=256,cout=256,k=3", 129, "split=cluster2", "n=128,"},
    {"subm,cin=256,cout=256,k=3", 100000, "split=none", "n=256,"},
};

START_TEST(a_default_for_few_tiles_shares_them)
{
    spc__pick pick = default_of(few_tiles[_i].layer, few_tiles[_i].rows);

    ck_assert_str_eq(pick.template_name, "os_wgmma");
    ck_assert_msg(strstr(pick.config, few_tiles[_i].split) != NULL, "%s",
                  pick.config);
    ck_assert_msg(strstr(pick.config, few_tiles[_i].columns) != NULL, "%s",
                  pick.config);
}
END_TEST

/* These weights do not fit into shared memory, so the expected kernel reads
 * them in each step. */
static const struct {
    const char *layer;
    int64_t rows; /* 0: unknown */
    const char *template_name;
} large_kernels[] = {
    {"subm,cin=32,cout=64,k=5", 0, "os_warp"},
    {"subm,cin=32,cout=64,k=5", 82658, "os_warp"},
    {"subm,cin=32,cout=64,k=5", 55000, "os_warp"},
    {"subm,cin=32,cout=64,k=5", 54999, "os_wgmma"},
    {"subm,cin=64,cout=32,k=5", 20000, "os_wgmma"},
    {"subm,cin=32,cout=32,k=5", 20000, "os_warp"},
    {"conv,cin=32,cout=64,k=5,stride=2,rule=floor", 20000, "os_warp"},
    {"subm,cin=64,cout=64,k=5", 82658, "os_wgmma"},
};

START_TEST(a_default_with_many_weights_goes_by_the_rows)
{
    spc__pick pick =
        default_of(large_kernels[_i].layer, large_kernels[_i].rows);

    ck_assert_str_eq(pick.template_name, large_kernels[_i].template_name);
}
END_TEST

/* In depthwise layers a kernel walks the offsets of each wide row. For narrow
 * rows, products with a diagonal matrix are faster. */
static const struct {
    const char *layer, *template_name;
} depthwise[] = {
    {"subm,cin=64,cout=64,groups=64,k=3", "os_diagonal"},
    {"subm,cin=128,cout=128,groups=128,k=3", "os_walk"},
    {"subm,cin=256,cout=256,groups=256,k=3,dtype=bf16", "os_walk"},
    {"subm,cin=256,cout=256,groups=256,k=5", "os_diagonal"},
    {"subm,cin=192,cout=192,groups=192,k=3", "os_diagonal"},
    {"subm,cin=8,cout=8,groups=8,k=5,pass=dgrad", "os_diagonal"},
    {"subm,cin=12,cout=12,groups=12,k=3", "os_depthwise"},
    {"subm,cin=16,cout=32,groups=16,k=3", "os_depthwise"},
    {"subm,cin=64,cout=64,groups=64,k=3,dtype=f32", "os_walk"},
    {"subm,cin=32,cout=32,groups=32,k=3,dtype=f32", "os_depthwise"},
};

START_TEST(a_default_for_depthwise_layers_is_the_fastest_known)
{
    spc__pick pick = default_of(depthwise[_i].layer, 82658);

    ck_assert_str_eq(pick.template_name, depthwise[_i].template_name);
}
END_TEST

/* Tiles contain zeros for missing pairs, but lists of pairs do not. */
static const struct {
    const char *layer;
    int64_t rows;
    double density;
    const char *template_name;
} dense[] = {
    {"subm,cin=16,cout=32,k=3,pass=wgrad", 82658, 0.47, "wgrad_tiles"},
    {"subm,cin=32,cout=64,k=3,pass=wgrad", 82658, 0.47, "wgrad_tiles"},
    {"subm,cin=32,cout=64,k=3,pass=wgrad", 15192, 0.47, "wgrad_mma"},
    {"subm,cin=32,cout=64,k=3,pass=wgrad", 82658, 0.23, "wgrad_mma"},
    {"subm,cin=64,cout=64,k=3,pass=wgrad", 82658, 0.47, "wgrad_wgmma"},
    {"subm,cin=64,cout=64,k=3,pass=wgrad", 252392, 0.47, "wgrad_tiles"},
    {"subm,cin=48,cout=48,k=3,pass=wgrad", 252392, 0.47, "wgrad_wgmma"},
    {"subm,cin=16,cout=32,k=3,pass=wgrad", 82658, 0.17, "wgrad_mma"},
    {"subm,cin=16,cout=32,k=3,pass=wgrad", 82658, 0, "wgrad_mma"},
    {"subm,cin=128,cout=128,k=3,pass=wgrad", 82658, 0.47, "wgrad_wgmma"},
    {"conv,cin=16,cout=32,k=2,stride=2,rule=floor,pass=wgrad", 82658, 0.47,
     "wgrad_mma"},
};

START_TEST(a_default_for_dense_maps_is_on_tiles)
{
    spc_ctx *ctx = open_ctx("sim", "", NULL);
    spc__pick pick;
    spc_conv conv;

    assert_ok(spc_conv_parse(&conv, dense[_i].layer, &error), error.text);
    assert_ok(spc__lookup(&pick, ctx, &conv, dense[_i].rows, dense[_i].rows,
                          dense[_i].density, SPC_PLAN_JIT | SPC__PLAN_UNLOADED,
                          NULL),
              spc_ctx_error(ctx));
    ck_assert_str_eq(pick.template_name, dense[_i].template_name);
    spc_ctx_free(ctx);
}
END_TEST

/* Stores a choice with its code, like the tuner. If config is NULL, uses the
 * template's default. */
static void choose_as(harness *r, const char *template_name, const char *config,
                      double octaves)
{
    spc__problem_key key;
    spc__provenance provenance;
    spc__trial trial;
    spc__attrs problem;
    spc__library *library;
    spc__code code;

    memset(&trial, 0, sizeof(trial));
    spc__conv_attrs(&problem, &r->conv);
    assert_ok(spc__ctx_library(&library, r->ctx), spc_ctx_error(r->ctx));
    if (config == NULL)
        assert_ok(spc__template_default(
                      &trial.config, spc__library_find(library, template_name),
                      &problem, &r->ctx->target, &error),
                  error.text);
    else
        assert_ok(spc__attrs_parse(&trial.config, config, &error), error.text);
    assert_ok(
        spc__ctx_code(&code, r->ctx, template_name, &problem, &trial.config, 0),
        spc_ctx_error(r->ctx));
    spc__problem_key_init(&key, r->ctx, &r->conv, spc_map_rows_out(r->map),
                          spc_map_rows_out(r->map), spc_map_density(r->map));
    key.features[0].value += octaves;
    snprintf(trial.template_name, sizeof(trial.template_name), "%s",
             template_name);
    ck_assert(
        spc__ctx_template_hash(trial.template_hash, r->ctx, template_name));
    memcpy(trial.artefact, code.artefact, sizeof(trial.artefact));
    snprintf(trial.note, sizeof(trial.note), "chosen");
    trial.launch = code.launch;
    trial.median_us = 12.5;
    trial.samples = 9;
    trial.verified = true;
    spc__ctx_provenance(&provenance, r->ctx);
    assert_ok(
        spc__cache_put_trial(r->ctx->cache, &key, &trial, &provenance, &error),
        error.text);
    assert_ok(spc__cache_put_choice(r->ctx->cache, &key, &trial, "for a test",
                                    &provenance, &error),
              error.text);
}

static void choose_compiled(const char *template_name)
{
    harness r;

    harness_open(&r, open_ctx("cpu", database, NULL), LAYER,
                 "gen:uniform,n=300,extent=9");
    choose_as(&r, template_name, NULL, 0);
    harness_close(&r);
}

/* Stores two choices of one layer, for scenes of two sizes. */
static void choose_two(const char *file)
{
    harness r;

    harness_open(&r, open_ctx("cpu", file, templates), LAYER,
                 "gen:uniform,n=300,extent=9");
    choose_as(&r, "probe", "tile=32,order=gray,arrival=0", 0);
    choose_as(&r, "probe", "tile=64,order=gray,arrival=0", 1);
    harness_close(&r);
}

#define FIRST "note = 'chosen' AND config LIKE 'tile=32%'"
#define EXCHANGE_CODE                                                          \
    "UPDATE trial SET artefact = (SELECT a.key FROM artefact AS a"             \
    " WHERE a.key <> trial.artefact) WHERE note = 'chosen'"

static const struct {
    const char *harm;
    bool sealed; /* with a valid seal */
    spc_match origin;
    const char *says;
} lies[] = {
    /* Changes one number in the text of a launch geometry or configuration. */
    {"UPDATE trial SET launch = replace(launch, 'packed_bytes=',"
     " 'packed_bytes=1,was=') WHERE " FIRST,
     false, SPC_MATCH_BUCKET, "digest"},
    {"UPDATE trial SET config = replace(config, '32', '16') WHERE " FIRST,
     false, SPC_MATCH_BUCKET, "digest"},
    {"UPDATE choice SET trial = (SELECT max(trial) FROM choice)", false,
     SPC_MATCH_EXACT, "digest"},
    {"UPDATE artefact SET launch = 'block=1' WHERE id = 1", false,
     SPC_MATCH_EXACT, ""},
    /* The rows of two merged files are mixed up. */
    {EXCHANGE_CODE, false, SPC_MATCH_DEFAULT, "digest"},
    {EXCHANGE_CODE, true, SPC_MATCH_DEFAULT, "it is the code of 'probe|"},
    {"UPDATE artefact SET id = -id; UPDATE artefact SET id = 3 + id", false,
     SPC_MATCH_EXACT, ""},
};

/* A record with changed contents is set aside, and the next best is used. */
START_TEST(a_record_that_lies_is_set_aside)
{
    harness r;

    choose_two(database);
    (lies[_i].sealed ? forge : harm)(database, lies[_i].harm);
    for (int again = 0; again < 2; again++) {
        harness_open(&r, open_ctx("cpu", database, templates), LAYER,
                     "gen:uniform,n=300,extent=9");
        assert_ok(spc_plan_create(&r.plan, r.ctx, &r.conv, r.map, 0),
                  spc_ctx_error(r.ctx));
        ck_assert_msg(spc_plan_match(r.plan) == lies[_i].origin, "%s",
                      spc_plan_reason(r.plan));
        if (again == 0)
            assert_says(spc_plan_reason(r.plan), lies[_i].says);
        else if (lies[_i].origin == SPC_MATCH_DEFAULT)
            assert_says(spc_plan_reason(r.plan), "was set aside");
        else /* the record is not read again */
            ck_assert_ptr_null(strstr(spc_plan_reason(r.plan), "digest"));
        harness_prepare(&r, SPC_KRSC);
        harness_check(&r);
        harness_close(&r);
    }
}
END_TEST

/* Makes a compiler whose objects leave a mark when they are loaded. */
static void use_marking_compiler(const char *mark)
{
    static char compiler[400];
    char text[1400];

    snprintf(text, sizeof(text),
             "#include <fcntl.h>\n__attribute__((constructor)) static void "
             "leave(void)\n{\n    open(\"%s\", O_CREAT | O_WRONLY, 0600);\n}\n",
             mark);
    write_file(templates, "mark.inc", text);
    snprintf(text, sizeof(text),
             "#!/bin/sh\ncase \"$1\" in --version) exec cc --version;; esac\n"
             "exec cc -include %s/mark.inc \"$@\"\n",
             templates);
    write_file(templates, "cc.sh", text);
    snprintf(compiler, sizeof(compiler), "%s/cc.sh", templates);
    chmod(compiler, 0700);
    setenv("SPC_CC", compiler, 1);
}

/* A shared object can run code as soon as it is loaded. */
START_TEST(host_code_of_a_layer_runs_only_if_it_is_trusted)
{
    spc_ctx_options options = SPC_CTX_OPTIONS_INIT;
    const char *layer = shipped;
    char mark[400];
    harness r;

    snprintf(mark, sizeof(mark), "%s/mark", folder);
    use_marking_compiler(mark);
    choose_two(shipped);
    unsetenv("SPC_CC");
    ck_assert_int_eq(unlink(mark), 0);
    options.device = "cpu";
    options.database = "";
    options.layers = &layer;
    options.layer_count = 1;
    options.template_dir = templates;
    options.trust = _i == 1;
    spc_ctx *ctx;
    assert_ok(spc_ctx_create(&ctx, &options, &error), error.text);
    harness_open(&r, ctx, LAYER, "gen:uniform,n=300,extent=9");
    spc_status status =
        spc_plan_create(&r.plan, r.ctx, &r.conv, r.map, SPC_PLAN_CACHED_ONLY);
    ck_assert_int_eq(status, _i == 1 ? SPC_OK : SPC_ENOTFOUND);
    ck_assert_int_eq(access(mark, F_OK) == 0, _i == 1);
    if (_i == 0) { /* compiled here, with the measured configuration */
        assert_ok(spc_plan_create(&r.plan, r.ctx, &r.conv, r.map, 0),
                  spc_ctx_error(r.ctx));
        ck_assert_int_eq(spc_plan_match(r.plan), SPC_MATCH_EXACT);
        ck_assert_int_eq(spc_ctx_stats(r.ctx).compiles, 1);
        ck_assert_int_ne(access(mark, F_OK), 0);
    }
    harness_close(&r);
}
END_TEST

START_TEST(a_hit_needs_neither_lua_nor_a_compiler)
{
    harness r;

    choose_compiled("generic");
    setenv("SPC_CC", "/nonexistent/cc", 1);
    harness_open(&r, open_ctx("cpu", database, NULL), LAYER,
                 "gen:uniform,n=300,extent=9");
    assert_ok(
        spc_plan_create(&r.plan, r.ctx, &r.conv, r.map, SPC_PLAN_CACHED_ONLY),
        spc_ctx_error(r.ctx));
    ck_assert_int_eq(spc_ctx_stats(r.ctx).hits, 1);
    ck_assert_int_eq(spc_ctx_stats(r.ctx).compiles, 0);
    ck_assert(r.ctx->library == NULL);
    harness_prepare(&r, SPC_KRSC);
    harness_check(&r);
    harness_close(&r);
}
END_TEST

/* The user's choice has no code, but the shipped one has. */
START_TEST(a_choice_without_code_does_not_hide_one_that_has_it)
{
    static const record own = {LAYER, 0, "probe",
                               "tile=64,order=gray,arrival=0", false};
    static const record other = {LAYER, 0, "probe",
                                 "tile=32,order=gray,arrival=0", false};
    harness r;

    compile_once(templates, &other);
    fill(shipped, &own, 1); /* the user's file is the upper layer */
    forge(shipped, FASTER);
    harness_open(&r, open_layered(shipped, database, templates), LAYER,
                 "gen:uniform,n=300,extent=9");
    assert_ok(
        spc_plan_create(&r.plan, r.ctx, &r.conv, r.map, SPC_PLAN_CACHED_ONLY),
        spc_ctx_error(r.ctx));
    ck_assert_int_eq(spc_plan_match(r.plan), SPC_MATCH_EXACT);
    ck_assert_str_eq(spc_plan_config(r.plan), other.config);
    harness_close(&r);
}
END_TEST

/* The code exists, but the launch numbers exceed any grid. */
START_TEST(a_record_that_cannot_be_launched_is_made_anew)
{
    harness r;

    choose_compiled("generic");
    forge(database, "UPDATE trial SET launch = replace(launch, 'pack_threads=',"
                    " 'pack_threads=1099511627776,was=')"
                    " WHERE note <> 'default'");
    harness_open(&r, open_ctx("cpu", database, NULL), LAYER,
                 "gen:uniform,n=300,extent=9");
    assert_ok(spc_plan_create(&r.plan, r.ctx, &r.conv, r.map, 0),
              spc_ctx_error(r.ctx));
    ck_assert_msg(spc_plan_match(r.plan) == SPC_MATCH_EXACT, "%s",
                  spc_plan_reason(r.plan));
    harness_prepare(&r, SPC_KRSC);
    harness_check(&r);
    harness_close(&r);
}
END_TEST

/* As in a deployment, there is a read-only layer and no writable database. */
START_TEST(a_shipped_layer_serves_alone)
{
    harness r;

    choose_compiled("generic");
    harness_open(&r, open_layered("", database, NULL), LAYER,
                 "gen:uniform,n=300,extent=9");
    assert_ok(
        spc_plan_create(&r.plan, r.ctx, &r.conv, r.map, SPC_PLAN_CACHED_ONLY),
        spc_ctx_error(r.ctx));
    ck_assert_int_eq(spc_plan_match(r.plan), SPC_MATCH_EXACT);
    harness_close(&r);
}
END_TEST

START_TEST(without_a_compiler_the_sentence_says_so)
{
    harness r;

    setenv("SPC_CC", "/nonexistent/cc", 1);
    harness_open(&r, open_ctx("cpu", "", templates), LAYER, "gen:uniform,n=30");
    spc_status status = spc_plan_create(&r.plan, r.ctx, &r.conv, r.map, 0);
    ck_assert_int_eq(status, SPC_EUNSUPPORTED);
    assert_says(spc_ctx_error(r.ctx), "/nonexistent/cc");
    ck_assert_int_eq(
        spc_plan_create(&r.plan, r.ctx, &r.conv, r.map, SPC_PLAN_CACHED_ONLY),
        SPC_ENOTFOUND);
    harness_close(&r);
}
END_TEST

START_TEST(a_changed_template_is_compiled_again)
{
    compile_once(templates, NULL);
    write_templates("enum { changed };\n");
    compile_once(templates, NULL);
}
END_TEST

START_TEST(one_context_loads_a_module_once)
{
    spc_plan *second;
    harness r;

    harness_open(&r, open_ctx("cpu", "", templates), LAYER,
                 "gen:uniform,n=300,extent=9");
    assert_ok(spc_plan_create(&r.plan, r.ctx, &r.conv, r.map, 0),
              spc_ctx_error(r.ctx));
    assert_ok(
        spc_plan_create(&second, r.ctx, &r.conv, r.map, SPC_PLAN_CACHED_ONLY),
        spc_ctx_error(r.ctx));
    ck_assert_int_eq(spc_ctx_stats(r.ctx).compiles, 1);
    ck_assert_int_eq(spc_ctx_stats(r.ctx).lookups, 2);
    spc_plan_free(second);
    harness_close(&r);
}
END_TEST

/* The tuner unloads losing candidates. A plan with the same code must keep
 * it. */
START_TEST(unloading_spares_what_others_use)
{
    spc__code code, again;
    spc__attrs problem;
    harness r;

    harness_open(&r, open_ctx("cpu", "", templates), LAYER,
                 "gen:uniform,n=300,extent=9");
    assert_ok(spc_plan_create(&r.plan, r.ctx, &r.conv, r.map, 0),
              spc_ctx_error(r.ctx));
    harness_prepare(&r, SPC_KRSC);
    spc__conv_attrs(&problem, &r.conv);
    assert_ok(spc__ctx_code(&code, r.ctx, "probe", &problem, NULL, 0),
              spc_ctx_error(r.ctx));
    assert_ok(spc__ctx_load(&again, r.ctx, code.artefact, "", 0, &code.launch),
              spc_ctx_error(r.ctx));
    ck_assert_ptr_eq(again.module, code.module);
    spc__ctx_unload(r.ctx, code.artefact);
    spc__ctx_unload(r.ctx, "no such key");
    harness_check(&r);
    harness_close(&r);
}
END_TEST

START_TEST(the_hash_without_lua_is_the_hash_with_it)
{
    spc_ctx *ctx = open_ctx("cpu", "", NULL);
    char hex[SPC__SHA256_HEX], again[SPC__SHA256_HEX];
    spc__library *library;
    spc_ctx *other = open_ctx("cpu", "", NULL);

    assert_ok(spc__ctx_library(&library, ctx), spc_ctx_error(ctx));
    for (int i = 0; i < spc__library_count(library); i++) {
        const char *name = spc__template_name(spc__library_at(library, i));
        ck_assert(spc__ctx_template_hash(hex, ctx, name));
        ck_assert(spc__ctx_template_hash(again, other, name));
        ck_assert_str_eq(hex, again);
    }
    ck_assert(other->library == NULL);
    ck_assert(!spc__ctx_template_hash(hex, other, "no_such_template"));
    spc_ctx_free(ctx);
    spc_ctx_free(other);
}
END_TEST

/* Asking the real templates takes tens of milliseconds. */
START_TEST(a_stored_default_is_served_without_asking_templates)
{
    harness r;

    compile_once(NULL, NULL);
    setenv("SPC_CC", "/nonexistent/cc", 1);
    harness_open(&r, open_ctx("cpu", database, NULL), LAYER,
                 "gen:uniform,n=300,extent=9");
    assert_ok(
        spc_plan_create(&r.plan, r.ctx, &r.conv, r.map, SPC_PLAN_CACHED_ONLY),
        spc_ctx_error(r.ctx));
    ck_assert_int_eq(spc_plan_match(r.plan), SPC_MATCH_DEFAULT);
    ck_assert(r.ctx->library == NULL);
    harness_prepare(&r, SPC_KRSC);
    harness_check(&r);
    harness_close(&r);
}
END_TEST

/* Plans are made without a record, with a record without code, and with a
 * record that has code. */
START_TEST(an_explanation_is_what_the_plan_will_be)
{
    static const record choice = {LAYER, 0, "probe",
                                  "tile=32,order=gray,arrival=0", false};
    spc_explanation is;
    harness r;

    if (_i == 1)
        fill(database, &choice, 1);
    if (_i == 2)
        compile_once(templates, &choice);
    harness_open(&r, open_ctx("cpu", database, templates), LAYER,
                 "gen:uniform,n=300,extent=9");
    spc_explain_question ask = {.bytes = sizeof(spc_explain_question),
                                &r.conv,
                                300,
                                300,
                                spc_map_pairs(r.map)};
    memset(&is, 0x55, sizeof(is));
    assert_ok(spc_explain(&is, r.ctx, &ask, 0), spc_ctx_error(r.ctx));
    for (size_t i = 0; i < sizeof(is.reserved) / sizeof(*is.reserved); i++)
        ck_assert_int_eq(is.reserved[i], 0);
    ck_assert_int_eq(spc_ctx_stats(r.ctx).compiles, 0);
    ck_assert_int_eq(spc_ctx_stats(r.ctx).artefacts_loaded, 0);
    ck_assert_int_eq(is.has_code, _i == 2);
    ck_assert_int_eq(spc_explain(&is, r.ctx, &ask, SPC_PLAN_CACHED_ONLY),
                     _i == 2 ? SPC_OK : SPC_ENOTFOUND);
    assert_ok(spc_explain(&is, r.ctx, &ask, 0), spc_ctx_error(r.ctx));
    assert_ok(spc_plan_create(&r.plan, r.ctx, &r.conv, r.map, 0),
              spc_ctx_error(r.ctx));
    ck_assert_int_eq(is.match, spc_plan_match(r.plan));
    ck_assert_str_eq(is.template_name, spc_plan_template(r.plan));
    ck_assert_str_eq(is.config, spc_plan_config(r.plan));
    ck_assert_str_eq(is.reason, spc_plan_reason(r.plan));
    ck_assert_uint_eq(is.weights_bytes, spc_plan_weights_bytes(r.plan));
    ck_assert_int_eq(is.workspace_bytes,
                     (int64_t)spc_plan_workspace_bytes(r.plan, r.map));
    ask.rows_in = -1;
    ck_assert_int_eq(spc_explain(&is, r.ctx, &ask, 0), SPC_EINVAL);
    harness_close(&r);
}
END_TEST

/* ---- class defaults of packs --------------------------------------------- */

typedef struct timed {
    const char *layer, *config;
    double us;
    bool chosen;
} timed;

/* The middle configuration is best for no single problem, but best overall. */
static const timed class_trials[] = {
    {LAYER, "tile=16,order=gray,arrival=0", 10, true},
    {LAYER, "tile=32,order=gray,arrival=0", 11, false},
    {LAYER, "tile=64,order=gray,arrival=0", 30, false},
    {"subm,cin=8,cout=5,dtype=f32", "tile=16,order=gray,arrival=0", 90, false},
    {"subm,cin=8,cout=5,dtype=f32", "tile=32,order=gray,arrival=0", 52, false},
    {"subm,cin=8,cout=5,dtype=f32", "tile=64,order=gray,arrival=0", 50, true},
    /* A faster record of another class. */
    {"subm,cin=9,cout=5,dtype=f32", "tile=64,order=none,arrival=0", 1, true},
};

static void put_timed(spc_ctx *ctx, const timed *from)
{
    spc__provenance provenance;
    spc__problem_key key;
    spc__trial trial = {.template_name = "probe", .samples = 9};
    spc_conv conv;

    assert_ok(spc_conv_parse(&conv, from->layer, &error), error.text);
    spc__problem_key_init(&key, ctx, &conv, 300, 300, 0.2);
    spc__ctx_provenance(&provenance, ctx);
    ck_assert(spc__ctx_template_hash(trial.template_hash, ctx, "probe"));
    assert_ok(spc__attrs_parse(&trial.config, from->config, &error),
              error.text);
    trial.median_us = from->us;
    assert_ok(
        spc__cache_put_trial(ctx->cache, &key, &trial, &provenance, &error),
        error.text);
    if (from->chosen)
        assert_ok(spc__cache_put_choice(ctx->cache, &key, &trial, "for a test",
                                        &provenance, &error),
                  error.text);
}

static void pack_classes(void)
{
    spc_ctx *ctx = open_ctx("cpu", database, templates);
    spc_db_packed packed;

    for (int i = 0; i < LENGTH(class_trials); i++)
        put_timed(ctx, &class_trials[i]);
    assert_ok(spc_db_pack(&packed, ctx, shipped, NULL), spc_ctx_error(ctx));
    ck_assert_int_eq(packed.choices, 3 + 2);
    spc_ctx_free(ctx);
}

/* A layer with another kernel size is not of a measured family. */
static const struct {
    const char *layer, *config;
    bool of_class;
} unseen[] = {
    {"subm,cin=7,cout=6,k=2,dtype=f32", "tile=32,order=gray,arrival=0", true},
    {"subm,cin=16,cout=3,k=2,dtype=f32", "tile=64,order=none,arrival=0", true},
    {"subm,cin=4,cout=4,k=2,dtype=f32", "", false},
};

START_TEST(a_pack_serves_an_unseen_layer_by_the_default_of_its_class)
{
    harness r;

    pack_classes();
    harness_open(&r, open_layered("", shipped, templates), unseen[_i].layer,
                 "gen:uniform,n=300,extent=9");
    assert_ok(spc_plan_create(&r.plan, r.ctx, &r.conv, r.map, 0),
              spc_ctx_error(r.ctx));
    ck_assert_int_eq(spc_plan_match(r.plan), SPC_MATCH_DEFAULT);
    ck_assert_msg(
        (strstr(spc_plan_reason(r.plan), "the measured default of its class") !=
         NULL) == unseen[_i].of_class,
        "%s", spc_plan_reason(r.plan));
    if (unseen[_i].of_class)
        ck_assert_str_eq(spc_plan_config(r.plan), unseen[_i].config);
    harness_prepare(&r, SPC_KRSC);
    harness_check(&r);
    harness_close(&r);
}
END_TEST

/* Packing a pack again gives the same choices, because classes are not
 * problems. */
START_TEST(the_classes_of_a_pack_are_the_same_when_packed_again)
{
    char again[500];
    spc_db_packed packed;

    pack_classes();
    snprintf(again, sizeof(again), "%s/again.db", folder);
    spc_ctx *ctx = open_ctx("cpu", shipped, templates);
    assert_ok(spc_db_pack(&packed, ctx, again, NULL), spc_ctx_error(ctx));
    ck_assert_int_eq(packed.choices, 3 + 2);
    spc_ctx_free(ctx);
}
END_TEST

/* ---- listing ------------------------------------------------------------- */

typedef struct seen {
    int rows, trials;
    int64_t id;
    char layer[200], choice[200], config[200];
} seen;

static spc_status see_row(const spc_db_row *row, void *payload)
{
    seen *all = payload;
    all->rows++;
    all->id = row->id;
    snprintf(all->layer, sizeof(all->layer), "%s", row->layer);
    snprintf(all->choice, sizeof(all->choice), "%s", row->choice);
    return SPC_OK;
}

static void see_trial(const spc_trial *trial, void *payload)
{
    seen *all = payload;
    all->trials++;
    snprintf(all->config, sizeof(all->config), "%s", trial->config);
    ck_assert_str_eq(trial->status, "ok");
    ck_assert_double_eq(trial->median_us, 12.5);
    ck_assert(trial->from_database && trial->verified);
}

START_TEST(the_listing_shows_what_was_measured_and_no_code_records)
{
    static const record choice = {LAYER, 0, "probe",
                                  "tile=32,order=gray,arrival=0", false};
    seen all = {0};

    compile_once(templates, &choice);
    spc_ctx *ctx = open_ctx("cpu", database, templates);
    assert_ok(spc_db_each(ctx, see_row, &all), spc_ctx_error(ctx));
    ck_assert_int_eq(all.rows, 1);
    ck_assert_str_eq(all.layer, "subm,cin=8,cout=8,k=3,dtype=f32");
    ck_assert_str_eq(all.choice, "probe tile=32,order=gray,arrival=0");
    assert_ok(spc_db_each_trial(ctx, all.id, see_trial, &all),
              spc_ctx_error(ctx));
    ck_assert_int_eq(all.trials, 1);
    ck_assert_int_eq(spc_db_each_trial(ctx, 999999, see_trial, &all),
                     SPC_ENOTFOUND);
    spc_ctx_free(ctx);
    ctx = open_ctx("cpu", "", templates);
    ck_assert_int_eq(spc_db_each(ctx, see_row, &all), SPC_ENOTFOUND);
    spc_ctx_free(ctx);
}
END_TEST

/* Identifiers are unique only within a file. */
START_TEST(trials_are_those_of_the_problem_that_is_listed_first)
{
    static const record own[] = {
        {LAYER, 0, "probe", "tile=16,order=gray,arrival=0", false}};
    static const record other[] = {
        {LAYER, 2, "probe", "tile=32,order=gray,arrival=0", false},
        {LAYER, 0, "probe", "tile=64,order=gray,arrival=0", false},
        {LAYER, 0, "probe", "tile=32,order=none,arrival=0", false}};
    seen all = {0};

    fill(database, own, LENGTH(own));
    fill(shipped, other, LENGTH(other));
    spc_ctx *ctx = open_layered(database, shipped, templates);
    assert_ok(spc_db_each_trial(ctx, 1, see_trial, &all), spc_ctx_error(ctx));
    ck_assert_int_eq(all.trials, 1);
    ck_assert_str_eq(all.config, own[0].config);
    assert_ok(spc_db_each_trial(ctx, 2, see_trial, &all), spc_ctx_error(ctx));
    ck_assert_int_eq(all.trials, 1 + 2);
    ck_assert_str_eq(all.config, other[2].config);
    ck_assert_int_eq(spc_db_each_trial(ctx, 3, see_trial, &all), SPC_ENOTFOUND);
    spc_ctx_free(ctx);
}
END_TEST

START_TEST(a_damaged_trial_is_named_and_the_others_are_listed)
{
    static const record own[] = {
        {LAYER, 0, "probe", "tile=16,order=gray,arrival=0", false},
        {LAYER, 0, "probe", "tile=32,order=gray,arrival=0", false}};
    seen all = {0};

    fill(database, own, LENGTH(own));
    harm(database, DAMAGE);
    spc_ctx *ctx = open_ctx("cpu", database, templates);
    ck_assert_int_eq(spc_db_each_trial(ctx, 1, see_trial, &all), SPC_EDB);
    assert_says(spc_ctx_error(ctx), "damaged");
    ck_assert_int_eq(all.trials, 1);
    ck_assert_str_eq(all.config, own[1].config);
    spc_ctx_free(ctx);
}
END_TEST

/* ---- suite --------------------------------------------------------------- */

int main(void)
{
    Suite *suite = suite_create("lookup");
    TCase *order = tcase_create("the order"), *code = tcase_create("code");

    tcase_add_checked_fixture(order, set_up, tear_down);
    tcase_add_checked_fixture(code, set_up, tear_down);
    tcase_set_timeout(order, 60);
    tcase_set_timeout(code, 60);
    tcase_add_loop_test(order, the_record_that_serves_is_the_documented_one, 0,
                        LENGTH(cases));
    tcase_add_test(
        order,
        a_record_of_a_map_whose_work_is_divided_in_another_way_does_not_serve);
    tcase_add_test(
        order, a_layer_that_no_template_takes_is_unsupported_with_the_reason);
    tcase_add_loop_test(order, what_a_gradient_computes_as_serves_it, 0,
                        LENGTH(gradient_cases));
    tcase_add_loop_test(order, a_record_that_cannot_serve_hides_no_other, 0,
                        LENGTH(hidden));
    tcase_add_loop_test(
        order, the_next_best_of_the_problem_takes_the_place_of_what_is_damaged,
        0, LENGTH(losses));
    tcase_add_loop_test(order, the_next_best_serves_where_it_cannot_be_chosen,
                        0, LENGTH(losses));
    tcase_add_loop_test(order, layers_that_differ_in_channels_are_one_family, 0,
                        LENGTH(families));
    tcase_add_loop_test(order, rows_in_and_rows_out_are_compared_apart, 0, 3);
    tcase_add_test(order, a_record_says_from_how_many_rows_it_came);
    tcase_add_loop_test(order, a_default_for_few_tiles_shares_them, 0,
                        LENGTH(few_tiles));
    tcase_add_loop_test(order,
                        a_default_for_depthwise_layers_is_the_fastest_known, 0,
                        LENGTH(depthwise));
    tcase_add_loop_test(order, a_default_with_many_weights_goes_by_the_rows, 0,
                        LENGTH(large_kernels));
    tcase_add_loop_test(order, a_default_for_dense_maps_is_on_tiles, 0,
                        LENGTH(dense));
    tcase_add_test(code, cached_only_never_compiles);
    tcase_add_test(code, a_hit_needs_neither_lua_nor_a_compiler);
    tcase_add_loop_test(code, a_record_that_lies_is_set_aside, 0, LENGTH(lies));
    tcase_add_loop_test(code, host_code_of_a_layer_runs_only_if_it_is_trusted,
                        0, 2);
    tcase_add_test(code, a_choice_without_code_does_not_hide_one_that_has_it);
    tcase_add_test(code, a_record_that_cannot_be_launched_is_made_anew);
    tcase_add_test(code, a_shipped_layer_serves_alone);
    tcase_add_test(code, without_a_compiler_the_sentence_says_so);
    tcase_add_test(code, a_changed_template_is_compiled_again);
    tcase_add_test(code, one_context_loads_a_module_once);
    tcase_add_test(code, unloading_spares_what_others_use);
    tcase_add_test(code, the_hash_without_lua_is_the_hash_with_it);
    tcase_add_loop_test(
        code, a_pack_serves_an_unseen_layer_by_the_default_of_its_class, 0,
        LENGTH(unseen));
    tcase_add_test(code, the_classes_of_a_pack_are_the_same_when_packed_again);
    tcase_add_test(code, a_stored_default_is_served_without_asking_templates);
    tcase_add_loop_test(code, an_explanation_is_what_the_plan_will_be, 0, 3);
    tcase_add_test(code,
                   the_listing_shows_what_was_measured_and_no_code_records);
    tcase_add_test(code, trials_are_those_of_the_problem_that_is_listed_first);
    tcase_add_test(code, a_damaged_trial_is_named_and_the_others_are_listed);
    suite_add_tcase(suite, order);
    suite_add_tcase(suite, code);
    return run_suite(suite);
}
