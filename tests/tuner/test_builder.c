/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_builder.c - candidates are compiled while others are measured.
 */
#include "harness/tune_harness.h"

#include "base/clock.h"
#include "tuner/builder.h"
#include <sys/stat.h>

/*
 * Writes a compiler that runs the shell lines of `before`, the system's
 * compiler, then `after`; $HERE is its folder.
 */
static void write_compiler(const char *folder, const char *before,
                           const char *after)
{
    char path[320];

    snprintf(path, sizeof(path), "%s/cc", folder);
    FILE *file = fopen(path, "w");
    ck_assert_ptr_nonnull(file);
    fprintf(file,
            "#!/bin/sh\n"
            "HERE='%s'\n"
            "[ \"$1\" = --version ] && exec cc --version\n"
            "%s\ncc \"$@\"\nstatus=$?\n%s\nexit $status\n",
            folder, before, after);
    fclose(file);
    ck_assert_int_eq(chmod(path, 0700), 0);
    setenv("SPC_CC", path, 1);
}

typedef struct watch {
    char log[320]; /* has a line for each start and end of a compilation */
    int looks, compiling;
} watch;

static int count_lines(const char *path, const char *line)
{
    FILE *file = fopen(path, "r");
    char text[16];
    int count = 0;

    while (file != NULL && fgets(text, sizeof(text), file) != NULL)
        count += strcmp(text, line) == 0;
    if (file != NULL)
        fclose(file);
    return count;
}

/* Checks whether a candidate was timed while something was being compiled. */
static void look_around(const spc_progress *progress, void *payload)
{
    watch *w = payload;

    if (progress->stage != SPC_STAGE_TIME)
        return;
    w->looks++;
    w->compiling +=
        count_lines(w->log, "end\n") < count_lines(w->log, "begin\n");
}

static const struct {
    const char *device, *templates, *layer, *scene, *only;
    bool overlaps;
} overlaps[] = {
    {"cpu", TEMPLATES "plain", LAYER, SCENE, NULL, false},
    {"sim", NULL, "subm,cin=16,cout=16,k=3,dtype=f16",
     "gen:uniform,n=60,extent=6", "os_warp", true},
};

START_TEST(others_compile_during_a_timing_unless_that_disturbs_it)
{
    if (_i > 0 && !suite_takes(_i))
        return;
    char *folder = make_database();
    watch w = {.looks = 0};

    *strrchr(folder, '/') = '\0';
    write_compiler(folder, "echo begin >>$HERE/log", "echo end >>$HERE/log");
    snprintf(w.log, sizeof(w.log), "%s/log", folder);
    spc_ctx *ctx = open_ctx(overlaps[_i].device, "", overlaps[_i].templates);
    spc_tune_options options = SPC_TUNE_OPTIONS_INIT;
    options.effort = SPC_EFFORT_QUICK;
    options.only = overlaps[_i].only;
    options.on_progress = look_around;
    options.payload = &w;
    assert_ok(tune(ctx, overlaps[_i].layer, overlaps[_i].scene, &options, NULL),
              spc_ctx_error(ctx));
    ck_assert_int_gt(w.looks, 3);
    ck_assert_int_eq(w.compiling > 0, overlaps[_i].overlaps);
    spc_ctx_free(ctx);
    spc__temp_dir_remove(folder);
}
END_TEST

typedef struct workshop { /* a builder whose compiler waits for a file */
    char folder[300], go[320];
    volatile int cancel;
    spc_ctx *ctx;
    spc_conv conv;
    spc__request request;
    spc__candidates candidates;
    spc__builder *builder;
} workshop;

static void workshop_open(workshop *w)
{
    char *folder = make_database();
    spc_error error = {0};

    memset(w, 0, sizeof(*w));
    *strrchr(folder, '/') = '\0';
    snprintf(w->folder, sizeof(w->folder), "%s", folder);
    snprintf(w->go, sizeof(w->go), "%s/go", folder);
    write_compiler(folder,
                   "for i in $(seq 100); do\n"
                   "    [ -e $HERE/go ] && break\n    sleep 0.1\ndone\n"
                   "[ -e $HERE/go ] || exit 1",
                   "");
    w->ctx = open_ctx("cpu", "", TEMPLATES "plain");
    w->ctx->cancel = &w->cancel;
    assert_ok(spc_conv_parse(&w->conv, LAYER, &error), error.text);
    spc__request_init(&w->request, w->ctx, &w->conv, NULL, 0, NULL);
    assert_ok(spc__candidates_open(&w->candidates, &w->request),
              w->request.error->text);
    assert_ok(spc__candidates_admit(&w->candidates, &w->request),
              w->request.error->text);
    assert_ok(spc__builder_create(&w->builder, &w->request, &w->candidates),
              w->request.error->text);
    for (int i = 0; i < 3; i++)
        assert_ok(spc__builder_add(w->builder, &w->candidates.entries[i]),
                  w->request.error->text);
    ck_assert_int_eq(spc__builder_pending(w->builder), 3);
}

static void workshop_close(workshop *w)
{
    spc__builder_free(w->builder);
    spc__candidates_release(&w->candidates);
    spc_ctx_free(w->ctx);
    spc__temp_dir_remove(w->folder);
}

START_TEST(a_builder_compiles_while_its_caller_goes_on)
{
    spc__entry *entry;
    workshop w;

    workshop_open(&w);
    fclose(fopen(w.go, "w"));
    for (int i = 0; i < 3; i++) {
        assert_ok(spc__builder_next(w.builder, &entry), w.request.error->text);
        ck_assert_ptr_nonnull(entry);
        ck_assert_int_eq(entry->state, SPC__BUILT);
        ck_assert_int_gt(entry->code_bytes, 0);
    }
    assert_ok(spc__builder_next(w.builder, &entry), w.request.error->text);
    ck_assert_ptr_null(entry);
    /* Two candidates differ only in the row order. */
    ck_assert_int_eq(spc__builder_compiled(w.builder), 2);
    workshop_close(&w);
}
END_TEST

START_TEST(what_a_cancelled_builder_has_not_compiled_is_new_again)
{
    spc__entry *entry;
    workshop w;

    workshop_open(&w);
    __atomic_store_n(&w.cancel, 1, __ATOMIC_RELAXED);
    uint64_t since = spc__now_ns();
    ck_assert_int_eq(spc__builder_next(w.builder, &entry), SPC_EINTERRUPTED);
    spc__builder_stop(w.builder);
    ck_assert_msg(spc__now_ns() - since < 5000000000ull, "it waited");
    assert_ok(spc__builder_next(w.builder, &entry), w.request.error->text);
    ck_assert_ptr_null(entry);
    ck_assert_int_eq(spc__builder_pending(w.builder), 0);
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(w.candidates.entries[i].state, SPC__NEW);
    workshop_close(&w);
}
END_TEST

/* A sanitizer's shadow memory makes flushing the cache slow. */
static bool is_slow_at_timing(void)
{
#ifdef SPC_SANITIZE
    return strcmp(SPC_SANITIZE, "thread") == 0;
#else
    return false;
#endif
}

/* ---- a machine that is short of memory ----------------------------------- */

/*
 * Makes a compiler that is killed several times, as if the system were out of
 * memory.
 */
static const struct {
    const char *times;
    spc_status status;
} kills[] = {{"1", SPC_OK}, {"2", SPC_OK}, {"99", SPC_ENOMEM}};

START_TEST(a_compiler_that_was_killed_is_tried_again)
{
    char *folder = make_database(), before[200];

    *strrchr(folder, '/') = '\0';
    snprintf(before, sizeof(before),
             "case $* in *plain.c*)\n"
             "    echo x >>$HERE/kills\n"
             "    [ $(wc -l <$HERE/kills) -gt %s ] || kill -9 $$\nesac",
             kills[_i].times);
    write_compiler(folder, before, "");
    spc_ctx *ctx = open_ctx("cpu", "", TEMPLATES "plain");
    spc_tune_options options = SPC_TUNE_OPTIONS_INIT;
    spc_tune_report report;
    options.effort = SPC_EFFORT_EXHAUSTIVE;
    ck_assert_int_eq(tune(ctx, LAYER, SCENE, &options, &report),
                     kills[_i].status);
    if (kills[_i].status == SPC_OK) {
        ck_assert_int_eq(report.timed, 12);
        ck_assert_int_eq(report.failed, 0);
    } else {
        assert_says(spc_ctx_error(ctx), "the compiler fails, not the candid");
    }
    spc_ctx_free(ctx);
    spc__temp_dir_remove(folder);
}
END_TEST

int main(void)
{
    suite_sample(3);
    Suite *suite = suite_create("builder");
    TCase *meanwhile = tcase_create("meanwhile");

    tcase_set_timeout(meanwhile, 240);
    tcase_add_test(meanwhile, a_builder_compiles_while_its_caller_goes_on);
    tcase_add_test(meanwhile,
                   what_a_cancelled_builder_has_not_compiled_is_new_again);
    tcase_add_loop_test(meanwhile, a_compiler_that_was_killed_is_tried_again, 0,
                        LENGTH(kills));
    if (!is_slow_at_timing())
        tcase_add_loop_test(
            meanwhile, others_compile_during_a_timing_unless_that_disturbs_it,
            0, LENGTH(overlaps));
    suite_add_tcase(suite, meanwhile);
    return run_suite(suite);
}
