/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_related.c - which other device's choices serve a device: on a double of
 * the CUDA driver that is any GPU, on the emulation, and on the processor.
 *
 * Needs LD_LIBRARY_PATH to name the double's folder, as ctest sets it.
 */
#include "harness/fake_driver.h"
#include "harness/folder_harness.h"
#include "harness/layer_harness.h"

#include "base/error.h"
#include "cache/exchange/exchange.h"
#include "context/problem_key.h"
#include "context/related.h"
#include "context/shipped.h"
#include "coords/map_choice.h"
#include "device/architecture.h"
#include "harness/suite.h"
#include "spc/tune.h"
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define TEMPLATES SPC_TEST_DATA "/templates/related"
#define NARROW "subm,cin=32,cout=32,dtype=f16"
#define WIDE "subm,cin=64,cout=64,dtype=f16"

static spc_error error;
static char database[400];

/* ---- devices ------------------------------------------------------------- */

enum { NONE, H200, H100, GH200, H20, A100, L40S, B200, SIM, OLD_SIM, CPU };

static const struct device {
    const char *name; /* of a GPU */
    int sm, multiprocessors, shared_block, memory_khz, bus_bits;
} devices[] = {
    [H200] = {"NVIDIA H200", 90, 132, 232448, 3201000, 6144},
    [H100] = {"NVIDIA H100 80GB HBM3", 90, 132, 232448, 2619000, 5120},
    [GH200] = {"NVIDIA GH200 480GB", 90, 132, 232448, 2619000, 6144},
    [H20] = {"NVIDIA H20", 90, 78, 232448, 2619000, 6144},
    [A100] = {"NVIDIA A100-SXM4-80GB", 80, 108, 166912, 1593000, 5120},
    [L40S] = {"NVIDIA L40S", 89, 142, 101376, 9001000, 384},
    [B200] = {"NVIDIA B200", 100, 148, 232448, 3996000, 8192},
    [SIM] = {NULL, 90, 0, 0, 0, 0},
    [OLD_SIM] = {NULL, 80, 0, 0, 0, 0},
    [CPU] = {NULL, 0, 0, 0, 0, 0},
};

static void set_up(void)
{
    load_fake_driver();
    setenv("SPC_SHIPPED", "", 1);
    make_folder();
    snprintf(database, sizeof(database), "%s", at("own.db"));
}

/* Opens a context on one of the devices. */
static spc_ctx *open_on(int which, const char *path, const char *templates,
                        const char *ships)
{
    const struct device *d = &devices[which];
    spc_ctx_options options = SPC_CTX_OPTIONS_INIT;
    spc_ctx *ctx = NULL;

    options.device = which == CPU ? "cpu" : d->name == NULL ? "sim" : "cuda";
    options.database = path;
    options.template_dir = templates;
    options.shipped = ships;
    options.threads = 1;
    setenv("SPC_SIM_TARGET", which == OLD_SIM ? "sm_80" : "sm_90a", 1);
    if (d->name != NULL) {
        snprintf(fake->name, sizeof(fake->name), "%s", d->name);
        fake->major = d->sm / 10;
        fake->minor = d->sm % 10;
        fake->multiprocessors = d->multiprocessors;
        fake->shared_block = d->shared_block;
        fake->memory_khz = d->memory_khz;
        fake->bus_bits = d->bus_bits;
    }
    assert_ok(spc_ctx_create(&ctx, &options, &error), error.text);
    return ctx;
}

/* ---- records ------------------------------------------------------------- */

enum { ROWS = 10000, PAIRS = 60000 };

/* A choice as a tuner on that device would store it, without code. */
typedef struct record {
    int device;
    const char *layer;
    double octaves; /* distance in rows from the question */
    const char *template_name, *config;
} record;

static spc__problem_key key_of(const spc_ctx *ctx, const char *layer)
{
    spc__problem_key key;
    spc_conv conv;

    assert_ok(spc_conv_parse(&conv, layer, &error), error.text);
    spc__problem_key_init(&key, ctx, &conv, ROWS, ROWS,
                          (double)PAIRS / (ROWS * 27.0));
    return key;
}

static void put_key(spc_ctx *ctx, const spc__problem_key *key,
                    const char *template_name, const char *config)
{
    spc__trial trial = {.median_us = 12.5, .samples = 9, .verified = true};
    spc__provenance from;

    spc__ctx_provenance(&from, ctx);
    snprintf(trial.template_name, sizeof(trial.template_name), "%s",
             template_name);
    ck_assert(spc__ctx_template_hash(trial.template_hash, ctx, template_name));
    assert_ok(spc__attrs_parse(&trial.config, config, &error), error.text);
    assert_ok(spc__cache_put_trial(ctx->cache, key, &trial, &from, &error),
              error.text);
    assert_ok(spc__cache_put_choice(ctx->cache, key, &trial, "for a test",
                                    &from, &error),
              error.text);
}

static void put(const char *path, const record *from)
{
    spc_ctx *ctx = open_on(from->device, path, TEMPLATES, "");
    spc__problem_key key = key_of(ctx, from->layer);

    key.features[0].value += from->octaves;
    put_key(ctx, &key, from->template_name, from->config);
    spc__ctx_note_facts(ctx);
    spc_ctx_free(ctx);
}

static spc_status ask(spc_explanation *out, spc_ctx *ctx, const char *layer,
                      unsigned flags)
{
    spc_explain_question question = SPC_EXPLAIN_QUESTION_INIT;
    spc_conv conv;

    assert_ok(spc_conv_parse(&conv, layer, &error), error.text);
    question.conv = &conv;
    question.rows_in = question.rows_out = ROWS;
    question.pairs = PAIRS;
    return spc_explain(out, ctx, &question, flags);
}

/* ---- the order ----------------------------------------------------------- */

#define ANOTHER "not tuned on this device; on another one of its architecture, "
#define FOREIGN "not tuned on this architecture; on the nearest device, "
#define EXACTLY "measured for exactly this problem"

static const struct level_case {
    int device;
    const char *layer;
    record records[3];
    spc_level level;
    spc_match match;
    const char *config, *says;
} cases[] = {
    /* The device itself comes first, if its record is of the layer. */
    {H100,
     NARROW,
     {{H200, NARROW, 0, "plain", "tile=64"},
      {H100, NARROW, 0, "plain", "tile=32"}},
     SPC_LEVEL_DEVICE,
     SPC_MATCH_EXACT,
     "tile=32",
     "measured for exactly"},
    {H100,
     NARROW,
     {{H200, NARROW, 0, "plain", "tile=64"},
      {H100, NARROW, 0.6, "plain", "tile=32"}},
     SPC_LEVEL_DEVICE,
     SPC_MATCH_BUCKET,
     "tile=32",
     "on a similar scene"},
    /* All devices of one architecture serve each other, as untuned. */
    {H100,
     NARROW,
     {{H200, NARROW, 0, "plain", "tile=64"}},
     SPC_LEVEL_ARCHITECTURE,
     SPC_MATCH_NEAREST,
     "tile=64",
     ANOTHER EXACTLY},
    {GH200,
     WIDE,
     {{H200, WIDE, 0, "hopper", "stages=4"}},
     SPC_LEVEL_ARCHITECTURE,
     SPC_MATCH_NEAREST,
     "stages=4",
     "on NVIDIA H200 took 12.5 us"},
    {H200,
     NARROW,
     {{H20, NARROW, 0.6, "plain", "tile=64"}},
     SPC_LEVEL_ARCHITECTURE,
     SPC_MATCH_NEAREST,
     "tile=64",
     ANOTHER "measured for this layer on a similar scene"},
    {H200,
     NARROW,
     {{H20, NARROW, 6, "plain", "tile=64"}},
     SPC_LEVEL_ARCHITECTURE,
     SPC_MATCH_NEAREST,
     "tile=64",
     ANOTHER "the nearest measured problem"},
    /* This layer elsewhere precedes another problem here, which precedes
     * another problem elsewhere. */
    {H100,
     NARROW,
     {{H200, NARROW, 0, "plain", "tile=64"},
      {H100, NARROW, 6, "plain", "tile=32"}},
     SPC_LEVEL_ARCHITECTURE,
     SPC_MATCH_NEAREST,
     "tile=64",
     ANOTHER EXACTLY},
    {H100,
     NARROW,
     {{H200, NARROW, 5, "plain", "tile=64"},
      {H100, NARROW, 6, "plain", "tile=32"}},
     SPC_LEVEL_DEVICE,
     SPC_MATCH_NEAREST,
     "tile=32",
     "the nearest measured problem"},
    /* A layer with far channels here does not hide a near one elsewhere. */
    {H100,
     NARROW,
     {{H200, "subm,cin=32,cout=48,dtype=f16", 0, "plain", "tile=64"},
      {H100, "subm,cin=128,cout=128,dtype=f16", 0, "plain", "tile=32"}},
     SPC_LEVEL_ARCHITECTURE,
     SPC_MATCH_NEAREST,
     "tile=64",
     "the nearest measured problem"},
    {H100,
     NARROW,
     {{H200, "subm,cin=128,cout=128,dtype=f16", 0, "plain", "tile=64"}},
     SPC_LEVEL_DEFAULT,
     SPC_MATCH_DEFAULT,
     "tile=16",
     "channels far from these"},
    /* Of one architecture, the nearest by facts. */
    {GH200,
     NARROW,
     {{H20, NARROW, 0, "plain", "tile=32"},
      {H200, NARROW, 0, "plain", "tile=64"}},
     SPC_LEVEL_ARCHITECTURE,
     SPC_MATCH_NEAREST,
     "tile=64",
     "NVIDIA H200"},
    /* Bandwidth decides between two that have as many multiprocessors. */
    {GH200,
     NARROW,
     {{H200, NARROW, 0, "plain", "tile=32"},
      {H100, NARROW, 0, "plain", "tile=64"}},
     SPC_LEVEL_ARCHITECTURE,
     SPC_MATCH_NEAREST,
     "tile=64",
     "NVIDIA H100 80GB HBM3"},
    /* The next device serves if the nearest has no record of the layer. */
    {GH200,
     NARROW,
     {{H20, NARROW, 0, "plain", "tile=32"},
      {H200, WIDE, 0, "hopper", "stages=4"}},
     SPC_LEVEL_ARCHITECTURE,
     SPC_MATCH_NEAREST,
     "tile=32",
     "NVIDIA H20 "},
    /* Another architecture comes after all of these, and before the default. */
    {A100,
     NARROW,
     {{H200, NARROW, 0, "plain", "tile=32"}},
     SPC_LEVEL_FACTS,
     SPC_MATCH_NEAREST,
     "tile=32",
     FOREIGN EXACTLY},
    {H100,
     NARROW,
     {{A100, NARROW, 0, "plain", "tile=32"},
      {H200, NARROW, 6, "plain", "tile=64"}},
     SPC_LEVEL_ARCHITECTURE,
     SPC_MATCH_NEAREST,
     "tile=64",
     "NVIDIA H200"},
    {H100,
     NARROW,
     {{A100, NARROW, 0, "plain", "tile=32"},
      {B200, NARROW, 0, "plain", "tile=64"}},
     SPC_LEVEL_FACTS,
     SPC_MATCH_NEAREST,
     "tile=64",
     "NVIDIA B200"},
    {L40S,
     NARROW,
     {{A100, NARROW, 0, "plain", "tile=32"},
      {B200, NARROW, 0, "plain", "tile=16"}},
     SPC_LEVEL_FACTS,
     SPC_MATCH_NEAREST,
     "tile=32",
     "NVIDIA A100-SXM4-80GB"},
    /* Only what is valid here: instructions, and shared memory. */
    {L40S,
     WIDE,
     {{H200, WIDE, 0, "hopper", "stages=4"}},
     SPC_LEVEL_DEFAULT,
     SPC_MATCH_DEFAULT,
     "tile=16",
     "needs sm_90"},
    {L40S,
     NARROW,
     {{H200, NARROW, 0, "plain", "tile=64"}},
     SPC_LEVEL_DEFAULT,
     SPC_MATCH_DEFAULT,
     "tile=16",
     "fits in shared memory"},
    /* The A100's search could not choose what is the default here. */
    {H100,
     WIDE,
     {{A100, WIDE, 0, "plain", "tile=32"}},
     SPC_LEVEL_DEFAULT,
     SPC_MATCH_DEFAULT,
     "stages=2",
     "no record near"},
    {B200,
     WIDE,
     {{A100, WIDE, 0, "plain", "tile=32"}},
     SPC_LEVEL_FACTS,
     SPC_MATCH_NEAREST,
     "tile=32",
     "NVIDIA A100-SXM4-80GB"},
    /* A gradient of inputs, by the forward layer. */
    {H100,
     NARROW ",pass=dgrad",
     {{H200, NARROW, 0, "plain", "tile=64"}},
     SPC_LEVEL_ARCHITECTURE,
     SPC_MATCH_NEAREST,
     "tile=64",
     ANOTHER "measured for the forward layer"},
    /* An emulation and a GPU do not serve each other. */
    {H100,
     NARROW,
     {{SIM, NARROW, 0, "plain", "tile=64"}},
     SPC_LEVEL_DEFAULT,
     SPC_MATCH_DEFAULT,
     "tile=16",
     "no record near"},
    {SIM,
     NARROW,
     {{H200, NARROW, 0, "plain", "tile=64"}},
     SPC_LEVEL_DEFAULT,
     SPC_MATCH_DEFAULT,
     "tile=16",
     "no record near"},
    {OLD_SIM,
     NARROW,
     {{SIM, NARROW, 0, "plain", "tile=32"}},
     SPC_LEVEL_FACTS,
     SPC_MATCH_NEAREST,
     "tile=32",
     FOREIGN},
};

START_TEST(the_nearest_device_serves)
{
    const struct level_case *c = &cases[_i];
    spc_explanation is;

    for (int i = 0; i < LENGTH(c->records) && c->records[i].device; i++)
        put(database, &c->records[i]);
    spc_ctx *ctx = open_on(c->device, database, TEMPLATES, "");
    assert_ok(ask(&is, ctx, c->layer, 0), spc_ctx_error(ctx));
    ck_assert_msg(is.level == c->level, "%d: %s", is.level, is.reason);
    ck_assert_msg(is.match == c->match, "%d: %s", is.match, is.reason);
    ck_assert_msg(strcmp(is.config, c->config) == 0, "%s: %s", is.config,
                  is.reason);
    assert_says(is.reason, c->says);
    /* The same without a second reading of the files. */
    assert_ok(ask(&is, ctx, c->layer, 0), spc_ctx_error(ctx));
    ck_assert_str_eq(is.config, c->config);
    ck_assert_int_eq(
        spc_ctx_stats(ctx).near_hits,
        c->match == SPC_MATCH_BUCKET || c->match == SPC_MATCH_NEAREST ? 2 : 0);
    spc_ctx_free(ctx);
}
END_TEST

/* ---- other questions ----------------------------------------------------- */

/* The processor has templates of its own, so its records are read without
 * one. */
START_TEST(a_processor_is_related_to_nothing)
{
    const record one = {H200, NARROW, 0, "plain", "tile=64"};
    const spc__related *list;

    put(database, &one);
    spc_ctx *ctx = open_on(CPU, database, NULL, "");
    ck_assert_int_eq(spc__ctx_related(&list, ctx), 0);
    spc_ctx_free(ctx);
}
END_TEST

START_TEST(only_devices_of_one_kind_are_related)
{
    static const struct {
        spc__cache_device a, b;
        int level; /* -1: not related */
    } pairs[] = {
        {{"NVIDIA H200", "sm_90a"}, {"NVIDIA H100", "sm_90a"}, 1},
        {{"NVIDIA H200", "sm_90a"}, {"NVIDIA H100", "sm_90"}, 1},
        {{"NVIDIA H200", "sm_90a"}, {"NVIDIA L40S", "sm_89"}, 2},
        /* An architecture that the table lacks. */
        {{"NVIDIA H200", "sm_90a"}, {"NVIDIA B300", "sm_103"}, 2},
        {{"NVIDIA H200", "sm_90a"}, {"NVIDIA H200", "sm_90a"}, -1},
        {{"NVIDIA H200", "sm_90a"}, {"sim sm_90a", "sm_90a"}, -1},
        {{"sim sm_80", "sm_80"}, {"sim sm_90a", "sm_90a"}, 2},
        {{"cpu avx512", "avx512"}, {"cpu avx2", "avx2"}, -1},
        {{"cpu avx512", "avx512"}, {"NVIDIA H200", "sm_90a"}, -1},
        {{"NVIDIA H200", "sm_90a"}, {"cpu odd", "sm_90a"}, -1},
        {{"NVIDIA H200", "sm_90a"}, {"NVIDIA X", "sm_"}, -1},
        {{"NVIDIA H200", "sm_90a"}, {"simple GPU", "sm_90a"}, 1},
    };

    for (int i = 0; i < LENGTH(pairs); i++)
        for (int turned = 0; turned < 2; turned++) {
            spc_level level = SPC_LEVEL_DEVICE;
            bool is = spc__devices_are_related(
                &level, turned ? &pairs[i].b : &pairs[i].a,
                turned ? &pairs[i].a : &pairs[i].b);
            ck_assert_msg(is == (pairs[i].level > 0), "%s and %s",
                          pairs[i].a.device, pairs[i].b.device);
            ck_assert(!is || (int)level == pairs[i].level);
        }
}
END_TEST

START_TEST(facts_that_are_missing_do_not_count)
{
    const spc__device_facts here = {90, 132, 232448, 4800};
    const spc__device_facts unknown = {90, 0, 0, 0};
    const spc__device_facts half = {90, 66, 232448, 4800};
    const spc__device_facts older = {80, 132, 232448, 4800};

    ck_assert_double_eq(spc__device_facts_distance(&here, &unknown), 0);
    ck_assert_double_eq_tol(spc__device_facts_distance(&here, &half), 1, 1e-9);
    ck_assert_double_eq_tol(spc__device_facts_distance(&here, &older), 2.5,
                            1e-9);
    ck_assert_double_eq(spc__device_facts_distance(&half, &here),
                        spc__device_facts_distance(&here, &half));
}
END_TEST

/* Records that cannot run here are not used, and nothing is compiled for
 * them. */
START_TEST(without_a_compiler_only_code_of_this_target_serves)
{
    const record one = {H200, NARROW, 0, "plain", "tile=32"};
    spc_explanation is;

    put(database, &one);
    for (int device = H100; device <= A100; device++) {
        spc_ctx *ctx = open_on(device, database, TEMPLATES, "");
        ck_assert_int_eq(ask(&is, ctx, NARROW, SPC_PLAN_CACHED_ONLY),
                         SPC_ENOTFOUND);
        spc_ctx_free(ctx);
    }
}
END_TEST

START_TEST(a_file_that_changes_is_read_again)
{
    const record far = {H20, NARROW, 0, "plain", "tile=32"};
    const record near = {H200, NARROW, 0, "plain", "tile=64"};
    spc_explanation is;

    put(database, &far);
    spc_ctx *ctx = open_on(H100, database, TEMPLATES, "");
    assert_ok(ask(&is, ctx, NARROW, 0), spc_ctx_error(ctx));
    ck_assert_str_eq(is.config, "tile=32");
    put(database, &near); /* by another handle */
    assert_ok(ask(&is, ctx, NARROW, 0), spc_ctx_error(ctx));
    ck_assert_str_eq(is.config, "tile=64");
    spc_ctx_free(ctx);
}
END_TEST

/* The tuner starts from the choices of related devices, but the layer counts as
 * untuned: the key of such a choice names the other device. */
START_TEST(the_tuner_sees_whose_choice_it_is)
{
    const record one = {H200, NARROW, 0, "plain", "tile=64"};
    const record foreign = {A100, NARROW, 0, "plain", "tile=32"};
    spc__choice found[4];
    int count = 0;

    put(database, &one);
    put(database, &foreign);
    spc_ctx *ctx = open_on(H100, database, TEMPLATES, "");
    spc__problem_key key = key_of(ctx, NARROW);
    assert_ok(spc__ctx_find_choices(ctx, &key, found, 4, &count, &error),
              error.text);
    ck_assert_int_eq(count, 1);
    ck_assert_str_eq(found[0].key.device, "NVIDIA H200");
    ck_assert_int_eq(found[0].match, SPC__MATCH_EXACT);
    assert_ok(
        spc__cache_find_choices(ctx->cache, &key, found, 4, &count, &error),
        error.text);
    ck_assert_int_eq(count, 0);
    spc_ctx_free(ctx);
}
END_TEST

/* An emulation under another name, as a second class of one architecture, has
 * tuned the layer. Here it counts as missing until it is tuned here. */
START_TEST(a_layer_that_another_device_has_tuned_is_missing_here)
{
    spc_tune_options options = SPC_TUNE_OPTIONS_INIT;
    spc_tune_report report;
    spc_scene *scene;
    spc_conv conv;

    assert_ok(spc_conv_parse(&conv, "subm,cin=4,cout=4,dtype=f32", &error),
              error.text);
    assert_ok(spc_scene_load(&scene, "gen:uniform,n=60,extent=6", &error),
              error.text);
    const spc_scene *scenes[] = {scene};
    options.effort = SPC_EFFORT_QUICK;
    options.only = "os_generic";
    options.missing = true;
    options.limit_s = 60;
    for (int i = 0; i < 3; i++) {
        spc_ctx *ctx = open_on(SIM, database, NULL, "");
        if (i == 0)
            snprintf(ctx->info.name, sizeof(ctx->info.name), "sim twin");
        assert_ok(spc_tune(&report, ctx, &conv, scenes, 1, &options),
                  spc_ctx_error(ctx));
        ck_assert_msg(report.was_there == (i == 2), "tuning %d", i);
        spc_ctx_free(ctx);
    }
    spc_scene_free(scene);
}
END_TEST

/* The kernel that searches maps also has choices. */
START_TEST(a_search_of_maps_is_chosen_by_architecture)
{
    static const struct {
        int device;
        bool serves;
    } rows[] = {{H200, true}, {H100, true}, {A100, false}, {SIM, false}};
    spc_conv conv;
    spc__attrs config;
    spc__problem_key key;
    spc_ctx *ctx = open_on(H200, database, NULL, "");

    assert_ok(spc_conv_parse(&conv, NARROW, &error), error.text);
    spc__map_key(&key, ctx, &conv.geometry, false);
    put_key(ctx, &key, "index", "made=1");
    spc_ctx_free(ctx);
    for (int i = 0; i < LENGTH(rows); i++) {
        ctx = open_on(rows[i].device, database, NULL, "");
        ck_assert_msg(spc__map_choice(&config, ctx, &conv.geometry, false) ==
                          rows[i].serves,
                      "device %d", rows[i].device);
        spc_ctx_free(ctx);
    }
}
END_TEST

static spc_status append(const char *text, size_t bytes, void *payload)
{
    spc__buf_append(payload, text, bytes);
    return SPC_OK;
}

START_TEST(facts_are_stored_once_and_exported_with_choices)
{
    const record one = {H200, NARROW, 0, "plain", "tile=64"};
    spc__attrs facts = {0}, again = {0};
    spc__buf text = SPC__BUF_INIT;
    int64_t damaged;

    put(database, &one);
    spc_ctx *ctx = open_on(H200, database, TEMPLATES, "");
    assert_ok(spc__cache_get_device(ctx->cache, "NVIDIA H200", &facts, &error),
              error.text);
    ck_assert_int_eq(spc__attrs_number(&facts, "multiprocessors", 0), 132);
    ck_assert_int_eq(spc__attrs_number(&facts, "shared_block", 0), 232448);
    /* 2 x 3.201 GHz x 768 bytes */
    ck_assert_str_eq(spc__attrs_text(&facts, "memory_gbps", ""), "4916.74");
    fake->multiprocessors = 131; /* is not asked again */
    spc__ctx_note_facts(ctx);
    assert_ok(spc__cache_get_device(ctx->cache, "NVIDIA H200", &again, &error),
              error.text);
    ck_assert(spc__attrs_equal(&facts, &again));
    assert_ok(spc__cache_export(ctx->cache, SPC__EXPORT_CHOICES, append, &text,
                                &damaged, &error),
              error.text);
    assert_says(spc__buf_text(&text), "multiprocessors");
    spc__buf_release(&text);
    spc_ctx_free(ctx);
    /* An emulation stores none. */
    ctx = open_on(SIM, database, TEMPLATES, "");
    spc__ctx_note_facts(ctx);
    ck_assert_int_eq(
        spc__cache_get_device(ctx->cache, "sim sm_90a", &again, &error),
        SPC_ENOTFOUND);
    spc_ctx_free(ctx);
}
END_TEST

/* ---- what ships ---------------------------------------------------------- */

static void expect_shipped(int device, const char *name)
{
    spc_ctx *ctx = open_on(device, database, TEMPLATES, spc__buf_text(&folder));

    if (name == NULL)
        ck_assert_msg(ctx->shipped == NULL, "%s", ctx->shipped);
    else
        ck_assert_str_eq(ctx->shipped != NULL ? ctx->shipped : "none",
                         at(name));
    spc_ctx_free(ctx);
}

START_TEST(the_file_of_the_nearest_device_is_the_one_that_ships)
{
    const record hopper = {H200, WIDE, 0, "hopper", "stages=4"};
    const record ampere = {A100, NARROW, 0, "plain", "tile=32"};
    const char junk[] = "no database";
    spc_explanation is;

    setenv("SPC_DATABASE", database, 1);
    put(at("nvidia-h200.db"), &hopper);
    put(at("nvidia-a100-sxm4-80gb.db"), &ampere);
    /* Code, a broken file, and one for processors are left out. */
    put(at("nvidia-gh200.sm_90a.db"), &hopper);
    write_at("nvidia-broken.db", junk, sizeof(junk), "");
    remove(database);
    expect_shipped(H200, "nvidia-h200.db");
    expect_shipped(H100, "nvidia-h200.db");
    expect_shipped(GH200, "nvidia-h200.db");
    expect_shipped(L40S, "nvidia-a100-sxm4-80gb.db");
    expect_shipped(SIM, NULL);

    spc_ctx *ctx = open_on(H100, database, TEMPLATES, spc__buf_text(&folder));
    assert_ok(ask(&is, ctx, WIDE, 0), spc_ctx_error(ctx));
    ck_assert_str_eq(is.config, "stages=4");
    ck_assert_int_eq(is.level, SPC_LEVEL_ARCHITECTURE);
    assert_says(is.reason, "shipped with the library, " ANOTHER);
    spc_ctx_free(ctx);
    put(at("nvidia-h100-80gb-hbm3.db"), &hopper);
    expect_shipped(H100, "nvidia-h100-80gb-hbm3.db");
    unsetenv("SPC_DATABASE");
}
END_TEST

START_TEST(the_architecture_of_a_target_is_its_number)
{
    static const struct {
        const char *target;
        int sm;
    } rows[] = {{"sm_90", 90}, {"sm_90a", 90},  {"sm_103", 103},
                {"sm_", 0},    {"avx512", 0},   {"", 0},
                {"sm_x", 0},   {"sm_120f", 120}};

    for (int i = 0; i < LENGTH(rows); i++)
        ck_assert_int_eq(spc__architecture_sm(rows[i].target), rows[i].sm);
    ck_assert_ptr_nonnull(spc__architecture_find("sm_90a"));
    ck_assert_ptr_null(spc__architecture_find("sm_103"));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("related");
    TCase *all = tcase_create("related devices");

    tcase_add_checked_fixture(all, set_up, remove_folder);
    tcase_add_loop_test(all, the_nearest_device_serves, 0, LENGTH(cases));
    tcase_add_test(all, a_processor_is_related_to_nothing);
    tcase_add_test(all, only_devices_of_one_kind_are_related);
    tcase_add_test(all, facts_that_are_missing_do_not_count);
    tcase_add_test(all, without_a_compiler_only_code_of_this_target_serves);
    tcase_add_test(all, a_file_that_changes_is_read_again);
    tcase_add_test(all, the_tuner_sees_whose_choice_it_is);
    tcase_add_test(all, a_layer_that_another_device_has_tuned_is_missing_here);
    tcase_add_test(all, a_search_of_maps_is_chosen_by_architecture);
    tcase_set_timeout(all, 300);
    tcase_add_test(all, facts_are_stored_once_and_exported_with_choices);
    tcase_add_test(all, the_file_of_the_nearest_device_is_the_one_that_ships);
    tcase_add_test(all, the_architecture_of_a_target_is_its_number);
    suite_add_tcase(suite, all);
    return run_suite(suite);
}
