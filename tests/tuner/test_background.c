/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_background.c - background mode: plans run at once and are replaced when
 * a better kernel is ready. Also tests the lease by which processes share work.
 */
#include "harness/folder_harness.h"
#include "harness/layer_harness.h"
#include "spc/tune.h"

#include "base/clock.h"
#include "base/file.h"
#include "cache/cache.h"
#include "cache/lease.h"
#include "harness/suite.h"

#include <pthread.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

Suite *suite(void);

static spc_error error;

static void set_up(void)
{
    make_folder();
    setenv("SPC_CPU_ISA", "portable", 1);
}

/* ---- background mode ----------------------------------------------------- */

static const char layer[] = "subm,cin=4,cout=6,k=3,dtype=f32";
static const char scene[] = "gen:uniform,n=300,extent=12";

static void open_harness(harness *r, const char *database)
{
    harness_open(
        r, open_ctx("cpu", at(database), suite_path("templates/tuner/plain")),
        layer, scene);
}

static void make_plan(harness *r)
{
    spc_plan_free(r->plan);
    assert_ok(spc_plan_create(&r->plan, r->ctx, &r->conv, r->map,
                              SPC_PLAN_BACKGROUND),
              spc_ctx_error(r->ctx));
}

/* Computes and compares the result of a plan. */
static void run_plan(harness *r)
{
    harness_prepare(r, SPC_KRSC);
    harness_check(r);
    spc__fixture_free(r->fixture);
    spc__sample_release(&r->sample);
    spc_memory_free(r->ctx, r->packed);
    spc_memory_free(r->ctx, r->workspace);
    r->fixture = NULL;
    r->packed = r->workspace = NULL;
    memset(&r->sample, 0, sizeof(r->sample));
}

START_TEST(a_plan_runs_at_once_and_a_better_one_comes)
{
    spc_background_options options = {.bytes = sizeof(spc_background_options),
                                      .tune = spc_tune,
                                      .effort = SPC_EFFORT_QUICK};
    harness r;

    open_harness(&r, "user.db");
    assert_ok(spc_background_start(r.ctx, &options), spc_ctx_error(r.ctx));
    make_plan(&r);
    ck_assert_int_eq(spc_plan_match(r.plan), SPC_MATCH_DEFAULT);
    run_plan(&r);
    spc_background_wait(r.ctx);
    ck_assert(spc_plan_is_outdated(r.plan));
    run_plan(&r); /* the old plan still works */
    int64_t compiled = spc_ctx_stats(r.ctx).compiles;
    make_plan(&r);
    ck_assert_int_eq(spc_plan_match(r.plan), SPC_MATCH_EXACT);
    ck_assert_int_eq(spc_ctx_stats(r.ctx).compiles, compiled);
    ck_assert(!spc_plan_is_outdated(r.plan));
    run_plan(&r);
    harness_close(&r);
}
END_TEST

/* The thread starts the worker only after the caller has reused its array. */
START_TEST(the_arguments_of_a_worker_are_copied)
{
    char first[500], other[500], command[32] = "/bin/sh", *words[4];
    spc_background_options options = {.bytes = sizeof(spc_background_options),
                                      .tune = spc_tune,
                                      .effort = SPC_EFFORT_QUICK};
    char wanted[450], unwanted[450];
    harness r;

    snprintf(wanted, sizeof(wanted), "%s", at("wanted"));
    snprintf(unwanted, sizeof(unwanted), "%s", at("unwanted"));
    snprintf(first, sizeof(first), "touch %s", wanted);
    snprintf(other, sizeof(other), "touch %s", unwanted);
    words[0] = command;
    words[1] = "-c";
    words[2] = first;
    words[3] = NULL;
    options.worker = (const char *const *)words;
    open_harness(&r, "user.db");
    assert_ok(spc_background_start(r.ctx, &options), spc_ctx_error(r.ctx));
    words[2] = other;
    memcpy(first, other, sizeof(first));
    make_plan(&r);
    spc_background_wait(r.ctx);
    ck_assert_int_eq(access(wanted, F_OK), 0);
    ck_assert_int_ne(access(unwanted, F_OK), 0);
    harness_close(&r);
}
END_TEST

/* Another layer's record gives a configuration to compile. */
START_TEST(without_leave_to_tune_it_compiles)
{
    harness r;
    spc_conv wider;

    open_harness(&r, "user.db");
    assert_ok(spc_tune(NULL, r.ctx, &r.conv, (const spc_scene *const *)&r.scene,
                       1,
                       &(spc_tune_options){.bytes = sizeof(spc_tune_options),
                                           .stage = SPC_STAGE_TIME,
                                           .effort = SPC_EFFORT_QUICK,
                                           .seed = 1}),
              spc_ctx_error(r.ctx));
    assert_ok(spc_conv_parse(&wider, "subm,cin=4,cout=5,k=3,dtype=f32", &error),
              error.text);
    r.conv = wider;
    assert_ok(spc_background_start(r.ctx, NULL), spc_ctx_error(r.ctx));
    make_plan(&r);
    spc_background_wait(r.ctx);
    int64_t compiled = spc_ctx_stats(r.ctx).compiles;
    make_plan(&r);
    ck_assert_int_eq(spc_plan_match(r.plan), SPC_MATCH_NEAREST);
    ck_assert_int_eq(spc_ctx_stats(r.ctx).compiles, compiled);
    ck_assert(!spc_plan_is_outdated(r.plan));
    harness_close(&r);
}
END_TEST

START_TEST(what_it_needs_is_asked_for)
{
    harness r;
    spc_ctx *without = open_ctx("cpu", "", suite_path("templates/tuner/plain"));

    ck_assert_int_eq(spc_background_start(without, NULL), SPC_EDB);
    spc_ctx_free(without);
    open_harness(&r, "user.db");
    ck_assert_int_eq(
        spc_plan_create(&r.plan, r.ctx, &r.conv, r.map, SPC_PLAN_BACKGROUND),
        SPC_ESTATE);
    ck_assert_int_eq(
        spc_plan_create(&r.plan, r.ctx, &r.conv, r.map,
                        SPC_PLAN_BACKGROUND | SPC_PLAN_CACHED_ONLY),
        SPC_EINVAL);
    assert_ok(spc_background_start(r.ctx, NULL), spc_ctx_error(r.ctx));
    ck_assert_int_eq(spc_background_start(r.ctx, NULL), SPC_ESTATE);
    ck_assert(!spc_plan_is_outdated(NULL));
    harness_close(&r);
}
END_TEST

/* Freeing a context must not wait for a tuning run. */
START_TEST(the_end_comes_soon)
{
    spc_background_options options = {.bytes = sizeof(spc_background_options),
                                      .tune = spc_tune,
                                      .effort = SPC_EFFORT_EXHAUSTIVE};
    harness r;

    open_harness(&r, "user.db");
    assert_ok(spc_background_start(r.ctx, &options), spc_ctx_error(r.ctx));
    make_plan(&r);
    uint64_t start = spc__now_ns();
    harness_close(&r);
    ck_assert_uint_lt(spc__now_ns() - start, 20ull * 1000 * 1000 * 1000);
}
END_TEST

/* Threads execute the current plan while another thread requests a better
 * one. */
enum { RUNNERS = 8, CONTEXTS = 3 };

typedef struct runner {
    pthread_t thread;
    spc_plan *plan;
    const spc_map *map;
    spc_buffers buffers;
    atomic_bool *ends;
    int64_t runs;
} runner;

static void *run_often(void *payload)
{
    /* other threads tune at the same time */
    const struct timespec pause = {0, 200 * 1000};
    runner *r = payload;

    while (!atomic_load(r->ends)) {
        if (spc_plan_execute(r->plan, r->map, &r->buffers, NULL) != SPC_OK)
            return "an execution failed";
        spc_plan_is_outdated(r->plan); /* like a loop over frames */
        r->runs++;
        nanosleep(&pause, NULL);
    }
    return NULL;
}

/* Each thread has its own output and workspace. */
static void start_runner(runner *out, harness *r, const void *in,
                         const void *packed, atomic_bool *ends)
{
    void *own;

    *out = (runner){.plan = r->plan, .map = r->map, .ends = ends};
    assert_ok(
        spc_memory_alloc(&own, r->ctx,
                         spc_conv_operand_bytes(&r->conv, SPC_OPERAND_OUT,
                                                spc_map_rows_out(r->map))),
        spc_ctx_error(r->ctx));
    out->buffers = (spc_buffers){
        .bytes = sizeof(spc_buffers), .in = in, .out = own, .weights = packed};
    assert_ok(spc_memory_alloc(&out->buffers.workspace, r->ctx,
                               spc_plan_workspace_bytes(r->plan, r->map)),
              spc_ctx_error(r->ctx));
    ck_assert_int_eq(pthread_create(&out->thread, NULL, run_often, out), 0);
}

START_TEST(threads_execute_while_a_better_plan_is_made)
{
    spc_background_options options = {.bytes = sizeof(spc_background_options),
                                      .tune = spc_tune,
                                      .effort = SPC_EFFORT_QUICK};
    runner runners[RUNNERS];
    atomic_bool ends = false;
    void *in, *weights, *packed, *failed;
    harness r;

    open_harness(&r, "user.db");
    assert_ok(spc_background_start(r.ctx, &options), spc_ctx_error(r.ctx));
    make_plan(&r);
    assert_ok(spc_memory_alloc(&in, r.ctx,
                               spc_conv_operand_bytes(&r.conv, SPC_OPERAND_IN,
                                                      spc_map_rows_in(r.map))),
              spc_ctx_error(r.ctx));
    assert_ok(spc_memory_alloc(
                  &weights, r.ctx,
                  spc_conv_operand_bytes(&r.conv, SPC_OPERAND_WEIGHTS, 0)),
              spc_ctx_error(r.ctx));
    memset(in, 0,
           spc_conv_operand_bytes(&r.conv, SPC_OPERAND_IN,
                                  spc_map_rows_in(r.map)));
    memset(weights, 0, spc_conv_operand_bytes(&r.conv, SPC_OPERAND_WEIGHTS, 0));
    assert_ok(spc_memory_alloc(&packed, r.ctx, spc_plan_weights_bytes(r.plan)),
              spc_ctx_error(r.ctx));
    assert_ok(spc_plan_pack(packed, r.plan, weights, SPC_KRSC, NULL),
              spc_ctx_error(r.ctx));
    for (int i = 0; i < RUNNERS; i++)
        start_runner(&runners[i], &r, in, packed, &ends);
    for (int i = 0; i < 20; i++) { /* one plan is made for all requests */
        spc_plan *again = NULL;
        assert_ok(
            spc_plan_create(&again, r.ctx, &r.conv, r.map, SPC_PLAN_BACKGROUND),
            spc_ctx_error(r.ctx));
        spc_plan_free(again);
    }
    spc_background_wait(r.ctx);
    const struct timespec some = {0, 50 * 1000 * 1000};
    nanosleep(&some, NULL); /* lets each check again */
    atomic_store(&ends, true);
    for (int i = 0; i < RUNNERS; i++) {
        pthread_join(runners[i].thread, &failed);
        ck_assert_msg(failed == NULL, "%s", (const char *)failed);
        ck_assert_int_gt(runners[i].runs, 0);
        ck_assert(spc_plan_is_outdated(runners[i].plan));
        spc_memory_free(r.ctx, runners[i].buffers.out);
        spc_memory_free(r.ctx, runners[i].buffers.workspace);
    }
    make_plan(&r);
    ck_assert_int_eq(spc_plan_match(r.plan), SPC_MATCH_EXACT);
    spc_memory_free(r.ctx, in);
    spc_memory_free(r.ctx, weights);
    spc_memory_free(r.ctx, packed);
    harness_close(&r);
}
END_TEST

/*
 * Contexts with a thread each, on one file and one problem: a lease lets one of
 * them tune, and its result serves all.
 */
typedef struct server {
    pthread_t thread;
    spc_ctx *ctx; /* used by the thread */
    const harness *shared;
} server;

static void *serve_one(void *payload)
{
    spc_background_options options = {.bytes = sizeof(spc_background_options),
                                      .tune = spc_tune,
                                      .effort = SPC_EFFORT_QUICK};
    const server *self = payload;
    const harness *shared = self->shared;
    spc_ctx *ctx = self->ctx;
    spc_map *map = NULL;
    spc_plan *plan = NULL;
    const char *failed = NULL;

    if (spc_background_start(ctx, &options) != SPC_OK ||
        spc_map_create_from_scene(&map, ctx, &shared->conv, shared->scene) !=
            SPC_OK ||
        spc_plan_create(&plan, ctx, &shared->conv, map, SPC_PLAN_BACKGROUND) !=
            SPC_OK)
        failed = "no plan at once";
    spc_background_wait(ctx);
    spc_plan_free(plan);
    plan = NULL;
    if (failed == NULL && (spc_plan_create(&plan, ctx, &shared->conv, map,
                                           SPC_PLAN_CACHED_ONLY) != SPC_OK ||
                           spc_plan_match(plan) != SPC_MATCH_EXACT))
        failed = "no choice in the end";
    spc_plan_free(plan);
    spc_map_free(map);
    spc_ctx_free(ctx);
    return (void *)failed;
}

START_TEST(contexts_of_one_process_share_the_work)
{
    server servers[CONTEXTS];
    void *failed;
    harness r;

    open_harness(&r, "user.db");
    for (int i = 0; i < CONTEXTS; i++) {
        servers[i] = (server){.shared = &r};
        servers[i].ctx =
            open_ctx("cpu", at("user.db"), suite_path("templates/tuner/plain"));
    }
    for (int i = 0; i < CONTEXTS; i++)
        ck_assert_int_eq(
            pthread_create(&servers[i].thread, NULL, serve_one, &servers[i]),
            0);
    for (int i = 0; i < CONTEXTS; i++) {
        pthread_join(servers[i].thread, &failed);
        ck_assert_msg(failed == NULL, "%s", (const char *)failed);
    }
    harness_close(&r);
}
END_TEST

/* ---- leases -------------------------------------------------------------- */

static spc__cache *open_cache(void)
{
    spc__cache *cache = NULL;

    assert_ok(spc__cache_open(&cache, at("lease.db"), NULL, 0, &error),
              error.text);
    return cache;
}

static bool take(spc__cache *cache, const char *work, int seconds, char *holder)
{
    bool taken = false;

    assert_ok(spc__lease_take(&taken, holder, cache, work, seconds, &error),
              error.text);
    return taken;
}

/* A process that takes the lease and then sleeps, or ends at once. */
static pid_t start_holder(int seconds, bool ends)
{
    int pipes[2];
    char byte = 0;

    ck_assert_int_eq(pipe(pipes), 0);
    pid_t child = fork();
    if (child == 0) {
        spc__cache *cache = open_cache();
        byte = (char)take(cache, "work", seconds, NULL);
        if (write(pipes[1], &byte, 1) != 1)
            _exit(1);
        while (!ends)
            pause();
        _exit(0); /* without releasing it */
    }
    ck_assert_int_eq((int)read(pipes[0], &byte, 1), 1);
    ck_assert_int_eq(byte, 1);
    close(pipes[0]);
    close(pipes[1]);
    return child;
}

START_TEST(a_lease_is_held_by_one_process)
{
    char holder[SPC__LEASE_OWNER], wanted[20];
    pid_t child = start_holder(600, false);
    spc__cache *cache = open_cache();

    ck_assert(!take(cache, "work", 600, holder));
    snprintf(wanted, sizeof(wanted), "%ld@", (long)child);
    ck_assert_msg(strncmp(holder, wanted, strlen(wanted)) == 0, "%s", holder);
    ck_assert(take(cache, "other work", 600, holder));
    ck_assert(take(cache, "other work", 600, holder)); /* renewed */
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    ck_assert(take(cache, "work", 600, holder));
    spc__cache_close(cache);
}
END_TEST

START_TEST(a_lease_ends_by_itself)
{
    char holder[SPC__LEASE_OWNER];
    pid_t child = start_holder(-1, false);
    spc__cache *cache = open_cache();

    ck_assert(take(cache, "work", 600, holder)); /* the lease has expired */
    spc__lease_drop(cache, "work");
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    child = start_holder(600, true);
    waitpid(child, NULL, 0);
    ck_assert(take(cache, "work", 600, holder));
    spc__cache_close(cache);
}
END_TEST

/* Writes a lease of another process. */
static void forge_lease(const char *owner, int64_t until)
{
    sqlite3 *db = NULL;
    sqlite3_stmt *stmt = NULL;

    ck_assert_int_eq(sqlite3_open(at("lease.db"), &db), SQLITE_OK);
    sqlite3_prepare_v2(db, "REPLACE INTO lease VALUES ('work', ?1, ?2)", -1,
                       &stmt, NULL);
    sqlite3_bind_text(stmt, 1, owner, -1, SQLITE_TRANSIENT);
    sqlite3_bind_int64(stmt, 2, until);
    ck_assert_int_eq(sqlite3_step(stmt), SQLITE_DONE);
    sqlite3_finalize(stmt);
    sqlite3_close(db);
}

/*
 * Returns the owner of the lease, "PID@HOST START", replaced by a process that
 * does not exist.
 */
static void name_nobody(char out[SPC__LEASE_OWNER])
{
    char host[65] = "";
    sqlite3 *db = NULL;
    sqlite3_stmt *stmt = NULL;

    gethostname(host, sizeof(host) - 1);
    ck_assert_int_eq(sqlite3_open(at("lease.db"), &db), SQLITE_OK);
    sqlite3_prepare_v2(db, "SELECT owner FROM lease", -1, &stmt, NULL);
    ck_assert_int_eq(sqlite3_step(stmt), SQLITE_ROW);
    const char *space =
        strstr((const char *)sqlite3_column_text(stmt, 0), " pid:[");
    ck_assert_ptr_nonnull(space);
    snprintf(out, SPC__LEASE_OWNER, "99999999@%s 1%s", host, space);
    sqlite3_finalize(stmt);
    sqlite3_close(db);
}

/*
 * Imitates two containers with one host name. Process numbers of one container
 * mean nothing in the other.
 */
START_TEST(a_holder_in_another_namespace_is_not_taken_for_dead)
{
    char holder[SPC__LEASE_OWNER], nobody[SPC__LEASE_OWNER];
    spc__cache *cache = open_cache();
    int64_t until = spc__unix_seconds() + 600;

    ck_assert(take(cache, "work", 600, holder));
    name_nobody(nobody);
    forge_lease(nobody, until);
    /* an ended process of this host */
    ck_assert(take(cache, "work", 600, holder));
    (*strpbrk(strstr(nobody, "pid:[") + 5, "0123456789"))++;
    forge_lease(nobody, until);
    ck_assert(!take(cache, "work", 600, holder));
    ck_assert_msg(strncmp(holder, "99999999@", 9) == 0, "%s", holder);
    *strstr(nobody, " pid:[") = '\0'; /* written by an older version */
    forge_lease(nobody, until);
    ck_assert(!take(cache, "work", 600, holder));
    spc__cache_close(cache);
}
END_TEST

/* The clock was set back by a day after it was taken. */
START_TEST(a_lease_that_ends_in_a_day_is_not_waited_for)
{
    char holder[SPC__LEASE_OWNER];
    spc__cache *cache = open_cache();

    forge_lease("1@elsewhere 1", spc__unix_seconds() + 86400);
    ck_assert(take(cache, "work", 600, holder));
    spc__cache_close(cache);
}
END_TEST

Suite *suite(void)
{
    Suite *all = suite_create("background");
    TCase *modes = tcase_create("modes"), *leases = tcase_create("leases");

    tcase_set_timeout(modes, 60);
    tcase_add_checked_fixture(modes, set_up, remove_folder);
    tcase_add_test(modes, a_plan_runs_at_once_and_a_better_one_comes);
    tcase_add_test(modes, the_arguments_of_a_worker_are_copied);
    tcase_add_test(modes, without_leave_to_tune_it_compiles);
    tcase_add_test(modes, what_it_needs_is_asked_for);
    tcase_add_test(modes, the_end_comes_soon);
    tcase_add_test(modes, threads_execute_while_a_better_plan_is_made);
    tcase_add_test(modes, contexts_of_one_process_share_the_work);
    suite_add_tcase(all, modes);
    tcase_add_checked_fixture(leases, set_up, remove_folder);
    tcase_add_test(leases, a_lease_is_held_by_one_process);
    tcase_add_test(leases, a_lease_ends_by_itself);
    tcase_add_test(leases, a_holder_in_another_namespace_is_not_taken_for_dead);
    tcase_add_test(leases, a_lease_that_ends_in_a_day_is_not_waited_for);
    suite_add_tcase(all, leases);
    return all;
}

int main(void)
{
    return run_suite(suite());
}
