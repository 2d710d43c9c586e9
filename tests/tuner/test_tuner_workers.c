/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_tuner_workers.c - candidates that crash, hang, give wrong results or
 * harm their process, and the worker processes that contain them.
 */
#include "harness/tune_harness.h"

#include "base/clock.h"
#include "lab/oracle/relation.h"
#include "tuner/work_lease.h"
#include "tuner/worker/harness.h"
#include "tuner/worker/wire.h"
#include "tuner/worker/worker_clock.h"
#include "tuner/worker/worker_limits.h"
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* ---- candidates that misbehave ------------------------------------------- */

static const struct {
    const char *candidate, *status, *note;
} moods[] = {
    {"unruly tile=64,mood=good", "ok", ""},
    {"unruly tile=64,mood=crash", "fault", "signal 11"},
    {"unruly tile=64,mood=hang", "timeout", "the limit of 0.5 s"},
    {"unruly tile=64,mood=wrong", "wrong", "row 1, channel 1"},
    {"unruly tile=64,mood=lazy", "wrong", "nan"},
    {"unruly tile=64,mood=broken", "compile", "unruly.c.lua:32"},
};

START_TEST(a_candidate_that_misbehaves_costs_a_worker_and_not_the_run)
{
    static const char *const worker[] = {
        SPC_TEST_COMMAND, "-d", "cpu", "--database", "", "worker", NULL};
    static const spc_stage stages[] = {SPC_STAGE_TIME, SPC_STAGE_VERIFY};
    spc_ctx *ctx = open_ctx("cpu", "", TEMPLATES "unruly");
    spc_tune_report report;
    recorded t;
    spc_tune_options options = options_for(&t);

    options.worker = worker;
    options.limit_s = 0.5;
    options.stage = stages[_i];
    assert_ok(tune(ctx, LAYER, SCENE, &options, &report), spc_ctx_error(ctx));
    ck_assert_int_eq(report.failed, LENGTH(moods) - 1);
    ck_assert_int_eq(report.verified, 1);
    for (int m = 0; m < LENGTH(moods); m++) {
        int i = find(&t, moods[m].candidate);
        ck_assert_str_eq(t.at[i].status, moods[m].status);
        assert_says(t.at[i].note, moods[m].note);
    }
    if (stages[_i] == SPC_STAGE_TIME)
        ck_assert_str_eq(report.winner, moods[0].candidate);
    spc_ctx_free(ctx);
}
END_TEST

/*
 * At least one candidate must be measured, but the budget must hold: each of
 * the eight that hang would take the whole limit, and again in a fresh worker.
 * The limit leaves time to compile the first one on a busy machine.
 */
/* The emulation runs a kernel within the call that launches it. */
START_TEST(a_kernel_that_fails_is_a_fault_whichever_call_reports_it)
{
    static const char *const strays[] = {"strays where=pack",
                                         "strays where=run"};
    spc_ctx *ctx = open_ctx("sim", "", TEMPLATES "strays");
    spc_tune_report report;
    recorded t;
    spc_tune_options options = options_for(&t);

    options.stage = SPC_STAGE_VERIFY;
    spc_status status = tune(ctx, LAYER, SCENE, &options, &report);
    ck_assert_msg(status == SPC_OK || status == SPC_EDEVICE, "%s",
                  spc_ctx_error(ctx));
    for (int i = 0; i < LENGTH(strays); i++) {
        int at = find(&t, strays[i]);
        ck_assert_str_eq(t.at[at].status, "fault");
        assert_says(t.at[at].note, "outside the block's shared memory");
    }
    spc_ctx_free(ctx);
}
END_TEST

START_TEST(a_budget_ends_a_run_in_which_nothing_can_be_measured)
{
    static const char *const worker[] = {
        SPC_TEST_COMMAND, "-d", "cpu", "--database", "", "worker", NULL};
    spc_ctx *ctx = open_ctx("cpu", "", TEMPLATES "stuck");
    spc_tune_report report;
    recorded t;
    spc_tune_options options = options_for(&t);

    options.worker = worker;
    options.limit_s = 4;
    options.budget_s = 0.01;
    options.effort = SPC_EFFORT_EXHAUSTIVE;
    ck_assert_int_eq(tune(ctx, LAYER, SCENE, &options, &report), SPC_ETIMEOUT);
    ck_assert_int_ge(report.failed, 1);
    ck_assert_int_le(report.failed, 2);
    spc_ctx_free(ctx);
}
END_TEST

/* Acts as if compiling took longer than the budget. No candidate has failed. */
START_TEST(a_budget_in_which_nothing_is_compiled_is_said_to_be_too_small)
{
    spc_ctx *ctx = open_ctx("cpu", "", NULL);
    spc_tune_report report;
    recorded t;
    spc_tune_options options = options_for(&t);

    options.limit_s = 1e-4;
    options.budget_s = 1e-4;
    ck_assert_int_eq(tune(ctx, LAYER, SCENE, &options, &report), SPC_ETIMEOUT);
    assert_says(spc_ctx_error(ctx), "no candidate could be measured within the "
                                    "budget of 0.0001 s");
    spc_ctx_free(ctx);
}
END_TEST

/*
 * The effects of candidates on their process must not count against the next
 * candidate.
 */
static const struct {
    const char *candidate, *status, *note;
} spoilers[] = {
    {"nasty tile=64,mood=good", "ok", ""},
    {"nasty tile=64,mood=careful", "ok", ""},
    {"nasty tile=64,mood=babble", "fault", "descriptor"},
    {"nasty tile=64,mood=next", "ok", ""},
    {"nasty tile=64,mood=flaky", "ok", ""},
    {"nasty tile=64,mood=starved", "ok", ""},
    {"nasty tile=64,mood=greedy", "fault", "signal 11"},
    {"nasty tile=64,mood=spent", "timeout", "had all processors"},
    {"nasty tile=64,mood=grown", "fault", "GiB of memory"},
};

static const char *const nasty_worker[] = {
    SPC_TEST_COMMAND, "-d", "cpu", "--database", "", "worker", NULL};

static void set_mark(char mark[400], const char *database)
{
    snprintf(mark, 400, "%s.mark", database);
    setenv("SPC_TEST_MARK", mark, 1);
}

START_TEST(a_spoiled_process_is_no_verdict_on_the_next_candidate)
{
    char *database = make_database(), mark[400];
    spc_ctx *ctx = open_ctx("cpu", "", TEMPLATES "nasty");
    spc_tune_report report;
    recorded t;
    spc_tune_options options = options_for(&t);

    set_mark(mark, database);
    options.worker = nasty_worker;
    options.stage = SPC_STAGE_VERIFY;
    options.effort = SPC_EFFORT_EXHAUSTIVE;
    assert_ok(tune(ctx, LAYER, SCENE, &options, &report), spc_ctx_error(ctx));
    for (int m = 0; m < LENGTH(spoilers); m++) {
        int i = find(&t, spoilers[m].candidate);
        ck_assert_msg(strcmp(t.at[i].status, spoilers[m].status) == 0,
                      "%s: %s: %s", t.at[i].candidate, t.at[i].status,
                      t.at[i].note);
        assert_says(t.at[i].note, spoilers[m].note);
    }
    spc_ctx_free(ctx);
    remove_database(database);
}
END_TEST

/* Runs in a worker and in this process. Only the faulty candidate is
 * refused. */
START_TEST(a_candidate_that_asks_for_too_much_memory_is_refused)
{
    static const char *const large[] = {"packed", "work", "rows", "sum"};
    char *database = make_database();
    spc_ctx *ctx = open_ctx("cpu", database, TEMPLATES "vast");
    spc_tune_report report;
    recorded t;
    spc_tune_options options = options_for(&t);

    options.worker = _i == 0 ? nasty_worker : NULL;
    options.effort = SPC_EFFORT_EXHAUSTIVE;
    assert_ok(tune(ctx, LAYER, SCENE, &options, &report), spc_ctx_error(ctx));
    ck_assert_str_eq(report.winner, "vast tile=64,mood=good");
    ck_assert_int_eq(report.refused, LENGTH(large));
    ck_assert_int_eq(report.failed, 0);
    for (int m = 0; m < LENGTH(large); m++) {
        char name[60];
        snprintf(name, sizeof(name), "vast tile=64,mood=%s", large[m]);
        int i = find(&t, name);
        ck_assert_msg(strcmp(t.at[i].status, "constraint") == 0, "%s: %s: %s",
                      name, t.at[i].status, t.at[i].note);
        assert_says(t.at[i].note, "memory: an array needs");
    }
    spc_ctx_free(ctx);
    remove_database(database);
}
END_TEST

/* Runs `body` in a process with a limit. Returns how the process ended. */
static int end_of(void (*body)(void))
{
    int code = 0;
    pid_t child = fork();

    if (child == 0) {
        body();
        _exit(0);
    }
    ck_assert_int_eq(waitpid(child, &code, 0), child);
    return code;
}

static void compute_for_ever(void)
{
    spc__limits_compute(0);
    for (volatile int forever = 1; forever;)
        ;
}

enum { MUCH = 64 << 20 };

static void fill_memory(void)
{
    const struct timespec second = {1, 0};

    if (!spc__limits_grow(MUCH / 4, true))
        _exit(1);
    char *much = mmap(NULL, MUCH, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(much, 1, MUCH);
    nanosleep(&second, NULL);
}

/*
 * If the address space is limited, the allocation fails and the process
 * survives.
 */
static void ask_for_space(void)
{
    if (!spc__limits_grow(MUCH / 4, false))
        _exit(1);
    if (mmap(NULL, MUCH, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) !=
        MAP_FAILED)
        _exit(2);
    if (mmap(NULL, MUCH / 8, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) ==
        MAP_FAILED)
        _exit(3);
}

START_TEST(a_worker_has_limits_of_its_own)
{
    int code = end_of(compute_for_ever);

    ck_assert(WIFSIGNALED(code) && WTERMSIG(code) == SIGXCPU);
    code = end_of(fill_memory);
    ck_assert(WIFEXITED(code) && WEXITSTATUS(code) == SPC__LIMITS_GROWN);
    code = end_of(ask_for_space);
    ck_assert(WIFEXITED(code));
    ck_assert_int_eq(WEXITSTATUS(code), 0);
}
END_TEST

/*
 * After a killed worker this runs before the next candidate is tested. It must
 * finish within a second, so it may compile nothing.
 */
START_TEST(a_device_that_answers_runs_a_small_kernel)
{
    spc_ctx *ctx = open_ctx("sim", "", NULL);
    spc__sample_options options = {1, false, 1, NULL, 0};
    spc_error error = {0};
    spc__sample_source source;
    spc_relation relation;
    spc__outcome outcome;
    spc__sample sample;
    spc_scene *scene;
    spc_conv conv;
    spc__harness *measuring;

    assert_ok(spc_conv_parse(&conv, LAYER, &error), error.text);
    assert_ok(spc_scene_load(&scene, "gen:uniform,n=20,extent=4", &error),
              error.text);
    assert_ok(spc__relation_init(&relation, &conv, scene, 1, NULL, &error),
              error.text);
    source = (spc__sample_source){.scene = scene, .relation = &relation};
    assert_ok(spc__sample_init(&sample, &conv, &source, 1, &options, &error),
              error.text);
    assert_ok(spc__harness_create(&measuring, ctx, &sample, &error),
              error.text);
    int64_t compiled = spc_ctx_stats(ctx).compiles;
    spc__harness_probe(&outcome, measuring);
    ck_assert_int_eq(spc_ctx_stats(ctx).compiles, compiled);
    ck_assert_msg(outcome.status == SPC__TRIAL_OK && !outcome.dead, "%s",
                  outcome.note);
    ck_assert_int_eq(outcome.trouble, SPC_OK);
    spc__harness_free(measuring);
    spc__sample_release(&sample);
    spc__relation_release(&relation);
    spc_scene_free(scene);
    spc_ctx_free(ctx);
}
END_TEST

/* Counts candidates, except those that match the SQL expression `but`. */
static int faults_in(const char *path, const char *but)
{
    sqlite3 *db = NULL;
    sqlite3_stmt *stmt = NULL;
    char sql[300];

    sqlite3_open(path, &db);
    snprintf(sql, sizeof(sql),
             "SELECT count(*) FROM trial WHERE status NOT IN"
             " ('ok', 'constraint') AND NOT (%s)",
             but);
    sqlite3_prepare_v2(db, sql, -1, &stmt, NULL);
    ck_assert_int_eq(sqlite3_step(stmt), SQLITE_ROW);
    int count = sqlite3_column_int(stmt, 0);
    sqlite3_finalize(stmt);
    sqlite3_close(db);
    return count;
}

/* Acts as if the system killed processes because memory ran out. */
START_TEST(a_harness_that_fails_ends_the_run_and_leaves_no_verdict)
{
    char *database = make_database(), mark[400];
    spc_ctx *ctx = open_ctx("cpu", database, TEMPLATES "nasty");
    spc_tune_report report;
    recorded t;
    spc_tune_options options = options_for(&t);

    set_mark(mark, database);
    setenv("SPC_TEST_DOOM", "1", 1);
    options.worker = nasty_worker;
    options.effort = SPC_EFFORT_EXHAUSTIVE;
    ck_assert_int_eq(tune(ctx, LAYER, SCENE, &options, &report), SPC_ENOMEM);
    assert_says(spc_ctx_error(ctx), "not the candidates");
    assert_says(spc_ctx_error(ctx), "signal 9");
    unsetenv("SPC_TEST_DOOM");
    spc_ctx_free(ctx);
    /* Only the faulty candidate and earlier ones may have faults. Their order
     * is not defined. */
    ck_assert_int_eq(faults_in(database, "config LIKE '%babble'"
                                         " OR config LIKE '%greedy'"
                                         " OR config LIKE '%spent'"
                                         " OR config LIKE '%grown'"),
                     0);
    remove_database(database);
}
END_TEST

/*
 * Acts as if the device were lost in the middle of a run. The candidate of the
 * first crash is not tried again, so no verdict is stored.
 */
START_TEST(no_verdict_is_stored_where_no_worker_starts_any_more)
{
    static const char once[] = "if [ -e \"$0\" ]; then exit 10; fi; : >\"$0\"; "
                               "exec \"$1\" -d cpu --database '' worker";
    char *database = make_database(), mark[400], started[440];
    const char *worker[] = {"/bin/sh",        "-c", once, started,
                            SPC_TEST_COMMAND, NULL};
    spc_ctx *ctx = open_ctx("cpu", database, TEMPLATES "nasty");
    spc_tune_report report;
    recorded t;
    spc_tune_options options = options_for(&t);

    set_mark(mark, database);
    snprintf(started, sizeof(started), "%s.started", database);
    options.worker = worker;
    options.effort = SPC_EFFORT_EXHAUSTIVE;
    ck_assert_int_eq(tune(ctx, LAYER, SCENE, &options, &report), SPC_EDEVICE);
    assert_says(spc_ctx_error(ctx), "was not ready before its end: exit status "
                                    "10");
    spc_ctx_free(ctx);
    ck_assert_int_eq(faults_in(database, "0"), 0);
    unlink(started);
    remove_database(database);
}
END_TEST

/* A timeout is the exception: a second run must repeat it. */
START_TEST(failures_are_known_the_second_time)
{
    static const char *const worker[] = {
        SPC_TEST_COMMAND, "-d", "cpu", "--database", "", "worker", NULL};
    char *database = make_database(), mark[400];
    spc_ctx *ctx = open_ctx("cpu", database, TEMPLATES "nasty");
    spc_tune_report report;
    recorded t;
    spc_tune_options options = options_for(&t);

    options.worker = worker;
    options.effort = SPC_EFFORT_EXHAUSTIVE;
    set_mark(mark, database);
    assert_ok(tune(ctx, LAYER, SCENE, &options, &report), spc_ctx_error(ctx));
    memset(&t, 0, sizeof(t));
    assert_ok(tune(ctx, LAYER, SCENE, &options, &report), spc_ctx_error(ctx));
    ck_assert_int_eq(report.known, 9);
    ck_assert_int_eq(report.timed, 0);
    ck_assert_str_eq(t.at[find(&t, spoilers[2].candidate)].status, "fault");
    const char *spent = t.at[find(&t, "nasty tile=64,mood=spent")].note;
    assert_says(spent, "had all processors");
    assert_says(spent, "nor did it in an earlier run");
    memset(&t, 0, sizeof(t));
    assert_ok(tune(ctx, LAYER, SCENE, &options, &report), spc_ctx_error(ctx));
    ck_assert_int_eq(report.known, 10);
    ck_assert_int_eq(report.compiled, 0);
    spc_ctx_free(ctx);
    remove_database(database);
}
END_TEST

/* ---- busy machines ------------------------------------------------------- */

enum { OTHERS = 9 };

/*
 * Confines this process and its workers to one processor, and starts processes
 * there that compute forever.
 */
static void crowd(pid_t others[OTHERS])
{
    cpu_set_t one;

    CPU_ZERO(&one);
    CPU_SET(sched_getcpu(), &one);
    ck_assert_int_eq(sched_setaffinity(0, sizeof(one), &one), 0);
    for (int i = 0; i < OTHERS; i++)
        if ((others[i] = fork()) == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            for (volatile int forever = 1; forever;)
                ;
        }
}

static void disperse(const pid_t others[OTHERS])
{
    for (int i = 0; i < OTHERS; i++) {
        kill(others[i], SIGKILL);
        waitpid(others[i], NULL, 0);
    }
}

/* Uses this much processor time. */
static void compute(double seconds)
{
    struct timespec now = {0};

    while ((double)now.tv_sec + (double)now.tv_nsec * 1e-9 < seconds)
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
}

/*
 * Half a second of work takes ten times as long, but less than twice as long on
 * the worker's clock.
 */
START_TEST(a_workers_clock_stands_still_while_others_have_the_processor)
{
    spc__worker_clock clock;
    pid_t others[OTHERS];
    siginfo_t end;

    crowd(others);
    pid_t child = fork();
    if (child == 0) {
        compute(0.5);
        _exit(0);
    }
    uint64_t start = spc__now_ns();
    const struct timespec slice = {0, 50 * 1000 * 1000};
    double had_s = 0;
    spc__worker_clock_start(&clock, child);
    do {
        had_s = spc__worker_clock_read(&clock);
        nanosleep(&slice, NULL);
        memset(&end, 0, sizeof(end));
        waitid(P_PID, (id_t)child, &end, WEXITED | WNOHANG | WNOWAIT);
    } while (end.si_pid == 0);
    double wall_s = (double)(spc__now_ns() - start) * 1e-9;
    waitpid(child, NULL, 0);
    disperse(others);
    ck_assert_double_gt(wall_s, 2);
    ck_assert_double_lt(had_s, 1);
}
END_TEST

/*
 * A candidate that needs a fraction of its limit on an idle machine must not
 * time out on a busy one. Kernels are compiled before the load starts.
 */
START_TEST(a_busy_machine_makes_no_timeouts)
{
    static const char *const worker[] = {
        SPC_TEST_COMMAND, "-d", "cpu", "--database", "", "worker", NULL};
    static const char scene[] = "gen:uniform,n=60000,extent=60";
    char *database = make_database();
    spc_ctx *ctx = open_ctx("cpu", database, TEMPLATES "plain");
    spc_tune_report report;
    recorded t;
    spc_tune_options options = options_for(&t);
    pid_t others[OTHERS];

    options.worker = worker;
    options.limit_s = 0.1;
    options.stage = SPC_STAGE_BUILD;
    assert_ok(tune(ctx, LAYER, scene, &options, &report), spc_ctx_error(ctx));
    options.stage = SPC_STAGE_VERIFY;
    crowd(others);
    spc_status status = tune(ctx, LAYER, scene, &options, &report);
    disperse(others);
    ck_assert_msg(status == SPC_OK && report.failed == 0, "%s: %s",
                  spc_ctx_error(ctx), t.at[t.count - 1].note);
    ck_assert_int_ge(report.verified, 1);
    spc_ctx_free(ctx);
    remove_database(database);
}
END_TEST

START_TEST(a_worker_that_is_no_worker_is_said_to_be_none)
{
    static const char *const workers[][3] = {
        {"/bin/false", NULL},
        {"/nonexistent/worker", NULL},
    };
    spc_ctx *ctx = open_ctx("cpu", "", NULL);
    recorded t;
    spc_tune_options options = options_for(&t);
    spc_tune_report report;

    options.worker = workers[_i];
    ck_assert_int_ne(tune(ctx, LAYER, SCENE, &options, &report), SPC_OK);
    assert_says(spc_ctx_error(ctx), workers[_i][0]);
    spc_ctx_free(ctx);
}
END_TEST

static void add_option(const char *variable, const char *option)
{
    const char *old = getenv(variable);
    char text[512];

    snprintf(text, sizeof(text), "%s:%s", old != NULL ? old : "", option);
    setenv(variable, text, 1);
}

/* Runs a worker with a tuner and without a device. */
static void run_worker(int socket, int errors)
{
    int high = fcntl(socket, F_DUPFD, 10), said = fcntl(errors, F_DUPFD, 10);
    int nothing = fcntl(open("/dev/null", O_RDONLY), F_DUPFD, 10);

    dup2(high, SPC__WIRE_SOCKET);
    dup2(nothing, SPC__WIRE_SAMPLE);
    dup2(said, STDERR_FILENO);
    close(high);
    close(said);
    execl(SPC_TEST_COMMAND, SPC_TEST_COMMAND, "-d", "cpu", "--database", "",
          "worker", (char *)NULL);
    _exit(127);
}

/*
 * The tuner reports the failure. The common text appears once or twice,
 * depending on which process is faster.
 */
START_TEST(a_worker_tells_its_tuner_what_went_wrong_and_nobody_else)
{
    spc__wire_reply hello;
    int ends[2], errors[2], status;
    char said[200];

    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    ck_assert_int_eq(pipe(errors), 0);
    pid_t child = fork();
    if (child == 0)
        run_worker(ends[1], errors[1]);
    close(ends[1]);
    close(errors[1]);
    ck_assert_int_eq(
        spc__wire_receive(ends[0], &hello, sizeof(hello), 20, NULL), SPC_OK);
    ck_assert_int_eq(hello.run.status, SPC_ESTATE);
    assert_says(hello.run.text, "holds no sample data");
    ck_assert_int_eq(read(errors[0], said, sizeof(said)), 0);
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
    close(ends[0]);
    close(errors[0]);
}
END_TEST

/* Makes a worker that is stopped, or that hangs while it reads. */
START_TEST(what_nobody_reads_is_not_sent_for_ever)
{
    static char code[8 << 20];
    volatile int cancel = 0;
    int ends[2];

    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    uint64_t start = spc__now_ns();
    ck_assert_int_eq(spc__wire_send(ends[0], code, sizeof(code), 0.3, &cancel),
                     SPC_ETIMEOUT);
    ck_assert_uint_lt(spc__now_ns() - start, 5000000000u);
    cancel = 1;
    ck_assert_int_eq(spc__wire_send(ends[0], code, sizeof(code), -1, &cancel),
                     SPC_EINTERRUPTED);
    close(ends[1]);
    ck_assert_int_eq(spc__wire_send(ends[0], code, sizeof(code), -1, NULL),
                     SPC_EIO);
    close(ends[0]);
}
END_TEST

/* Holds the lease of the layer until the process is killed. */
static pid_t start_other_tuner(const char *database)
{
    int said[2];
    char byte = 0;

    ck_assert_int_eq(pipe(said), 0);
    pid_t child = fork();
    if (child == 0) {
        spc_ctx *ctx = open_ctx("cpu", database, TEMPLATES "plain");
        spc_scene *scene = NULL;
        spc_conv conv;
        spc__request request;
        spc__work_lease lease = {0};
        spc_conv_parse(&conv, LAYER, NULL);
        spc_scene_load(&scene, SCENE, NULL);
        spc__request_init(&request, ctx, &conv,
                          (const spc_scene *const *)&scene, 1, NULL);
        byte = spc__work_lease_take(&lease, &request) == SPC_OK &&
               lease.work.length > 0;
        if (write(said[1], &byte, 1) == 1)
            pause();
        _exit(1);
    }
    ck_assert_int_eq((int)read(said[0], &byte, 1), 1);
    ck_assert_int_eq(byte, 1);
    close(said[0]);
    close(said[1]);
    return child;
}

START_TEST(a_budget_ends_waiting_for_another_tuner_too)
{
    char *database = make_database(), name[40];
    pid_t other = start_other_tuner(database);
    spc_ctx *ctx = open_ctx("cpu", database, TEMPLATES "plain");
    spc_tune_report report;
    recorded t;
    spc_tune_options options = options_for(&t);

    options.budget_s = 0.5;
    snprintf(name, sizeof(name), "process %ld@", (long)other);
    uint64_t start = spc__now_ns();
    ck_assert_int_eq(tune(ctx, LAYER, SCENE, &options, &report), SPC_ETIMEOUT);
    ck_assert_uint_lt(spc__now_ns() - start, 20000000000u);
    assert_says(spc_ctx_error(ctx), name);
    assert_says(spc_ctx_error(ctx), "the budget of 0.5 s");
    kill(other, SIGKILL);
    waitpid(other, NULL, 0);
    options.budget_s = 0;
    assert_ok(tune(ctx, LAYER, SCENE, &options, &report), spc_ctx_error(ctx));
    spc_ctx_free(ctx);
    remove_database(database);
}
END_TEST

int main(void)
{
    /* Workers must crash under a sanitizer as well. */
    add_option("ASAN_OPTIONS", "handle_segv=0");
    add_option("TSAN_OPTIONS", "handle_segv=0");
    Suite *suite = suite_create("tuner_workers");
    TCase *workers = tcase_create("workers"), *busy = tcase_create("busy");

    tcase_set_timeout(workers, 240);
    tcase_add_test(workers,
                   a_budget_ends_a_run_in_which_nothing_can_be_measured);
    tcase_add_test(
        workers, a_budget_in_which_nothing_is_compiled_is_said_to_be_too_small);
    tcase_add_loop_test(
        workers, a_candidate_that_misbehaves_costs_a_worker_and_not_the_run, 0,
        2);
    tcase_add_test(workers,
                   a_kernel_that_fails_is_a_fault_whichever_call_reports_it);
    tcase_add_test(workers, what_nobody_reads_is_not_sent_for_ever);
    tcase_add_test(workers, a_budget_ends_waiting_for_another_tuner_too);
    tcase_add_loop_test(
        workers, a_candidate_that_asks_for_too_much_memory_is_refused, 0, 2);
    tcase_add_test(workers, failures_are_known_the_second_time);
    tcase_add_test(workers, a_worker_has_limits_of_its_own);
    tcase_add_test(workers,
                   a_worker_tells_its_tuner_what_went_wrong_and_nobody_else);
    tcase_add_test(workers, a_device_that_answers_runs_a_small_kernel);
    tcase_add_test(workers,
                   a_spoiled_process_is_no_verdict_on_the_next_candidate);
    tcase_add_test(workers,
                   a_harness_that_fails_ends_the_run_and_leaves_no_verdict);
    tcase_add_test(workers,
                   no_verdict_is_stored_where_no_worker_starts_any_more);
    tcase_add_loop_test(workers, a_worker_that_is_no_worker_is_said_to_be_none,
                        0, 2);
    suite_add_tcase(suite, workers);
    tcase_set_timeout(busy, 240);
    tcase_add_test(
        busy, a_workers_clock_stands_still_while_others_have_the_processor);
    tcase_add_test(busy, a_busy_machine_makes_no_timeouts);
    suite_add_tcase(suite, busy);
    return run_suite(suite);
}
