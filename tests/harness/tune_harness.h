/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tune_harness.h - for tests: runs the tuner with a temporary database, and
 * keeps its reports.
 */
#ifndef TUNE_HARNESS_H
#define TUNE_HARNESS_H

#include "harness/layer_harness.h"
#include "spc/tune.h"

#include "base/file.h"
#include "cache/cache_internal.h"
#include "harness/suite.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TEMPLATES SPC_TEST_DATA "/templates/tuner/"
#define LAYER "subm,cin=4,cout=6,k=3,dtype=f32"
#define SCENE "gen:uniform,n=300,extent=12"

/* ---- a run and its reports ----------------------------------------------- */

enum { MOST = 512 };

typedef struct recorded {
    int count;
    struct {
        char candidate[200], status[16], note[200];
        bool from_database, verified, is_finalist;
        int samples;
        double us, cold_us, error;
    } at[MOST];
    volatile int cancel;
    int cancel_after; /* ends the run after this many timed trials; 0: never */
    sqlite3 *locker;  /* transaction to roll back after the first timed trial */
} recorded;

static inline void on_trial(const spc_trial *trial, void *payload)
{
    recorded *t = payload;

    if (t->count == MOST)
        return;
    snprintf(t->at[t->count].candidate, 200, "%s %s", trial->template_name,
             trial->config);
    snprintf(t->at[t->count].status, 16, "%s", trial->status);
    snprintf(t->at[t->count].note, 200, "%s", trial->note);
    t->at[t->count].from_database = trial->from_database;
    t->at[t->count].verified = trial->verified;
    t->at[t->count].is_finalist = trial->is_finalist;
    t->at[t->count].samples = trial->samples;
    t->at[t->count].us = trial->median_us;
    t->at[t->count].cold_us = trial->cold_us;
    t->at[t->count].error = trial->error;
    t->count++;
}

static inline void on_progress(const spc_progress *progress, void *payload)
{
    recorded *t = payload;

    ck_assert_int_le(progress->done, progress->total);
    if (t->cancel_after > 0 && progress->stage == SPC_STAGE_TIME &&
        progress->done >= t->cancel_after)
        t->cancel = 1;
    if (t->locker != NULL && progress->stage == SPC_STAGE_TIME)
        sqlite3_exec(t->locker, "ROLLBACK", NULL, NULL, NULL);
}

static inline int find(const recorded *t, const char *candidate)
{
    for (int i = 0; i < t->count; i++)
        if (strcmp(t->at[i].candidate, candidate) == 0)
            return i;
    ck_abort_msg("no report of '%s'", candidate);
    return -1;
}

static inline spc_tune_options options_for(recorded *t)
{
    spc_tune_options options = SPC_TUNE_OPTIONS_INIT;

    memset(t, 0, sizeof(*t));
    options.effort = SPC_EFFORT_QUICK;
    options.on_trial = on_trial;
    options.on_progress = on_progress;
    options.payload = t;
    options.cancel = &t->cancel;
    return options;
}

static inline spc_status tune_on(spc_ctx *ctx, const char *layer,
                                 const char *const *specs, int count,
                                 const spc_tune_options *options,
                                 spc_tune_report *report)
{
    spc_scene *scenes[4] = {NULL};
    spc_error error = {0};
    spc_conv conv;

    assert_ok(spc_conv_parse(&conv, layer, &error), error.text);
    for (int s = 0; s < count; s++)
        assert_ok(spc_scene_load(&scenes[s], specs[s], &error), error.text);
    spc_status status = spc_tune(
        report, ctx, &conv, (const spc_scene *const *)scenes, count, options);
    for (int s = 0; s < count; s++)
        spc_scene_free(scenes[s]);
    return status;
}

static inline spc_status tune(spc_ctx *ctx, const char *layer,
                              const char *scene,
                              const spc_tune_options *options,
                              spc_tune_report *report)
{
    return tune_on(ctx, layer, &scene, 1, options, report);
}

/* A temporary database. */
static inline char *make_database(void)
{
    static char path[300];
    spc__buf folder = SPC__BUF_INIT;
    spc_error error = {0};

    assert_ok(spc__temp_dir_create(&folder, &error), error.text);
    snprintf(path, sizeof(path), "%s/tuner.db", spc__buf_text(&folder));
    spc__buf_release(&folder);
    return path;
}

static inline void remove_database(char *path)
{
    *strrchr(path, '/') = '\0';
    spc__temp_dir_remove(path);
}

/* Checks the plan that a program gets from the filled database. Takes ownership
 * of the context. */
static inline void check_plan(spc_ctx *ctx, const char *layer,
                              const char *scene, const char *winner)
{
    int64_t before = spc_ctx_stats(ctx).compiles;
    spc_device_info info;
    char plan[300];
    harness r;

    harness_open(&r, ctx, layer, scene);
    assert_ok(
        spc_plan_create(&r.plan, ctx, &r.conv, r.map, SPC_PLAN_CACHED_ONLY),
        spc_ctx_error(ctx));
    ck_assert_int_eq(spc_plan_match(r.plan), SPC_MATCH_EXACT);
    assert_ok(spc_ctx_device(&info, ctx), spc_ctx_error(ctx));
    if (strcmp(info.id, "cpu") == 0) /* maps need no kernel on this device */
        ck_assert_int_eq(spc_ctx_stats(ctx).compiles, before);
    snprintf(plan, sizeof(plan), "%s %s", spc_plan_template(r.plan),
             spc_plan_config(r.plan));
    ck_assert_str_eq(plan, winner);
    harness_close(&r);
}

/* With a sanitizer a case takes minutes, so only one case of a suite runs. */
static inline void choose_case(const char *const *cases, int count)
{
#ifdef SPC_SANITIZE
    suite_sample(count);
    if (suite_one_in > 1)
        setenv("CK_RUN_CASE", cases[suite_variant() % count], 0);
#endif
    (void)cases;
    (void)count;
}

#endif
