/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_full_disk.c - a disk that is full at any one write. The record is stored
 * completely or not at all, all others stay, and a sentence gives the reason.
 */
#include "harness/failing_writes.h"

#include "harness/cache_harness.h"

#include "cache/keep.h"
#include "cache/lease.h"
#include "cache/pack/pack.h"

#include <dirent.h>

Suite *suite(void);

/* ---- file contents ------------------------------------------------------- */

static spc_status add_network(const spc__network *at_, void *payload)
{
    ck_assert_msg(at_->fault == NULL, "%s: %s", at_->name, at_->fault);
    spc__buf_printf(payload, "network %s %s %s\n", at_->name, at_->weights,
                    at_->source);
    return SPC_OK;
}

/* Replaces the times that follow a word. */
static void hide_times_after(char *text, const char *word)
{
    for (char *at_ = text; (at_ = strstr(at_, word)) != NULL;)
        for (at_ += strlen(word); *at_ >= '0' && *at_ <= '9'; at_++)
            *at_ = '0';
}

/* Facts and released choices have the time at which a step ran. */
static void hide_times(char *text)
{
    hide_times_after(text, " at=1");
    hide_times_after(text, "\"was pinned by hand\" ");
}

/* Returns the content of a file, which must be intact. The caller owns it. */
static char *all_of(const char *name)
{
    char *records = text_of(name);
    spc__cache *cache = open_user(name);
    spc__buf text = SPC__BUF_INIT;
    int64_t checked;

    assert_ok(spc__cache_verify(cache, &checked, NULL, NULL, &error));
    hide_times(records);
    spc__buf_puts(&text, records);
    assert_ok(spc__cache_each_network(cache, add_network, &text, &error));
    spc__cache_close(cache);
    free(records);
    return spc__buf_detach(&text);
}

static void copy_file(const char *to, const char *from)
{
    spc__buf bytes = SPC__BUF_INIT;

    assert_ok(spc__file_read(&bytes, at(from), 1 << 28, &error));
    remove_file(to);
    assert_ok(spc__file_write(at(to), bytes.data, bytes.length, &error));
    spc__buf_release(&bytes);
}

/* ---- operations ---------------------------------------------------------- */

static spc__buf imported = SPC__BUF_INIT;

/* Steps of an operation. Each is done completely or not at all. */
typedef spc_status (*step)(spc__cache *cache);

static spc_status put_trials(spc__cache *cache, int which)
{
    spc__provenance from = {.version = "0.1.0", .unix_seconds = 100 + which};
    uint64_t seed = 77;
    spc__problem_key key = draw_key(&seed);
    spc__trial trial = draw_trial(&seed);

    trial.status = SPC__TRIAL_OK;
    trial.median_us = 3 + which;
    spc__attrs_set_number(&trial.config, "new", which);
    return spc__cache_put_trial(cache, &key, &trial, &from, &error);
}

static spc_status put_first(spc__cache *cache)
{
    return put_trials(cache, 1);
}

static spc_status put_second(spc__cache *cache)
{
    return put_trials(cache, 2);
}

static spc_status put_code_of(spc__cache *cache, const char *key)
{
    static const char code[9000] = "\177ELF";
    spc__attrs none = {0};

    return spc__cache_put_artefact(cache, key, "sm_90a", "nvrtc", "is", &none,
                                   &none, code, sizeof(code), &error);
}

static spc_status put_code(spc__cache *cache)
{
    return put_code_of(cache, "new");
}

static spc_status put_fact(spc__cache *cache)
{
    spc__attrs fact = {0};

    spc__attrs_set_number(&fact, "gbps", 4711);
    return spc__cache_put_device(cache, "NVIDIA H200", &fact, &error);
}

static spc_status merge(spc__cache *cache)
{
    spc__exchange exchange = {.trusts = true};

    return spc__cache_merge(cache, at("other.db"), &exchange, &error);
}

static spc_status import(spc__cache *cache)
{
    spc__exchange exchange = {.trusts = true};

    return spc__cache_import(cache, imported.data, imported.length, &exchange,
                             &error);
}

static spc_status add_net(spc__cache *cache)
{
    return put_network(cache, "new", true);
}

static spc_status drop_net(spc__cache *cache)
{
    return spc__cache_drop_network(cache, "net", &error);
}

static spc_status prune(spc__cache *cache)
{
    spc__prune what = {.losers = true};
    int64_t removed;

    return spc__cache_prune(cache, &what, &removed, &error);
}

static int64_t pinned; /* the problem of a pinned choice */

static spc_status find_pinned(const spc__cache_row *row, void *payload)
{
    (void)payload;
    if (row->has_choice && strncmp(row->reason, SPC__PINNED, 6) == 0)
        pinned = row->problem_id;
    return SPC_OK;
}

static spc_status unpin(spc__cache *cache)
{
    return spc__cache_pin(cache, pinned, NULL, &error);
}

static spc_status pack(spc__cache *cache)
{
    spc__pack_report report;

    return spc__cache_pack(cache, at("pack.db"), SPC__PACK_APART, NULL, &report,
                           &error);
}

enum { MOST_STEPS = 4 };

static const struct operation {
    const char *name;
    step steps[MOST_STEPS + 1];
} operations[] = {
    {"put", {put_first, put_code, put_second, put_fact, NULL}},
    {"merge", {merge, NULL}},
    {"import", {import, NULL}},
    {"add a network", {add_net, NULL}},
    {"remove a network", {drop_net, NULL}},
    {"prune", {prune, NULL}},
    {"unpin", {unpin, NULL}},
    {"pack", {pack, NULL}},
};

#define LENGTH(array) ((int)(sizeof(array) / sizeof(*(array))))

/* Makes the initial file, the file to merge, and its text. */
static void make_files(void)
{
    uint64_t seed = 9;
    int64_t damaged;

    make_drawn("base.db", &seed, 40);
    spc__cache *cache = open_user("base.db");
    assert_ok(put_network(cache, "old", false));
    /* the random trials name this code */
    assert_ok(put_code_of(cache, "abcd"));
    assert_ok(spc__cache_each(cache, find_pinned, NULL, &error));
    ck_assert_int_ne(pinned, 0);
    sqlite3_exec(cache->layers[0].db, "PRAGMA journal_mode = DELETE", NULL,
                 NULL, NULL);
    spc__cache_close(cache);
    make_drawn("other.db", &seed, 40);
    cache = open_user("other.db");
    assert_ok(spc__cache_export(cache, true, append_text, &imported, &damaged,
                                &error));
    spc__cache_close(cache);
}

/* Computes the file's content after 0, 1, ... steps. */
static int make_states(char **states, const struct operation *of)
{
    int count = 0;

    copy_file("now.db", "base.db");
    states[count++] = all_of("now.db");
    for (int i = 0; of->steps[i] != NULL; i++) {
        spc__cache *cache = open_user("now.db");
        assert_ok(of->steps[i](cache));
        spc__cache_close(cache);
        states[count++] = all_of("now.db");
    }
    return count;
}

/* ---- the disk ------------------------------------------------------------ */

/* Checks that there are no partial files next to the databases. */
static void assert_tidy(const char *how)
{
    DIR *all = opendir(spc__buf_text(&folder));

    for (struct dirent *one; (one = readdir(all)) != NULL;)
        ck_assert_msg(strstr(one->d_name, ".new") == NULL &&
                          strstr(one->d_name, ".part") == NULL &&
                          strstr(one->d_name, ".tmp") == NULL,
                      "%s left '%s'", how, one->d_name);
    closedir(all);
}

/* Checks that the packs are the earlier or the new ones, and intact. */
static void assert_pack(const char *how)
{
    const char *files[] = {at("pack.db"), at("pack.sm_90a.db")};
    spc__cache *cache = NULL;
    int64_t checked;

    ck_assert_msg(spc__cache_open(&cache, NULL, files, 2, &error) == SPC_OK,
                  "%s: %s", how, error.text);
    ck_assert_msg(spc__cache_verify(cache, &checked, NULL, NULL, &error) ==
                      SPC_OK,
                  "%s: %s", how, error.text);
    spc__cache_close(cache);
}

/* The result of an operation. */
typedef struct result {
    int done; /* steps that reported success */
    bool hit; /* a write failed */
} result;

static result try_steps(const struct operation *of, long nth, disk_fault fault)
{
    spc__cache *cache = NULL;
    result out = {0};

    copy_file("now.db", "base.db");
    error.text[0] = '\0';
    fail_write(nth, fault);
    spc_status status = spc__cache_open(&cache, at("now.db"), NULL, 0, &error);
    while (status == SPC_OK && of->steps[out.done] != NULL)
        if ((status = of->steps[out.done](cache)) == SPC_OK)
            out.done++;
    spc__cache_close(cache);
    out.hit = writes_left == 0;
    fail_write(0, fault);
    return out;
}

static void assert_said(const result *of, int steps, const char *how)
{
    if (of->done == steps)
        return;
    ck_assert_msg(of->hit, "%s: %s", how, error.text);
    ck_assert_msg(strstr(error.text, "full") != NULL ||
                      strstr(error.text, "space") != NULL,
                  "%s: '%s'", how, error.text);
}

/* The content must be a state no earlier than the last reported step. */
static void assert_state(char **states, int count, int done, const char *how)
{
    char *now = all_of("now.db");
    int state = count - 1;

    while (state >= done && strcmp(now, states[state]) != 0)
        state--;
    ck_assert_msg(state >= done, "%s: %d steps were done, and are not there",
                  how, done);
    free(now);
}

/* Returns false once no write fails. */
static bool fill_disk(const struct operation *of, char **states, int count,
                      long nth, disk_fault fault)
{
    char how[100];

    snprintf(how, sizeof(how), "%s, write %ld, fault %d", of->name, nth,
             (int)fault);
    result it = try_steps(of, nth, fault);
    assert_said(&it, count - 1, how);
    assert_tidy(how);
    assert_pack(how);
    assert_state(states, count, it.done, how);
    return it.hit;
}

START_TEST(a_full_disk_loses_nothing)
{
    const struct operation *of = &operations[_i];
    char *states[MOST_STEPS + 1];
    disk_fault fault = (disk_fault)(suite_variant() / 3 % 3);

    make_files();
    copy_file("now.db", "base.db");
    spc__cache *cache = open_user("now.db");
    assert_ok(pack(cache));
    spc__cache_close(cache);
    int count = make_states(states, of);
    for (int round = 0; round < (suite_wants_all() ? 3 : 1); round++) {
        long nth = 1;
        while (!suite_takes((int)nth) ||
               fill_disk(of, states, count, nth,
                         (disk_fault)((fault + round) % 3)))
            nth++;
        ck_assert_int_gt(nth, 3);
    }
    for (int i = 0; i < count; i++)
        free(states[i]);
}
END_TEST

Suite *suite(void)
{
    Suite *all = suite_create("full_disk");
    TCase *part = tcase_create("full_disk");

    suite_sample(3);
    tcase_set_timeout(part, 3600);
    tcase_add_checked_fixture(part, make_fast_folder, remove_folder);
    tcase_add_loop_test(part, a_full_disk_loses_nothing, 0, LENGTH(operations));
    suite_add_tcase(all, part);
    return all;
}

int main(void)
{
    return run_suite(suite());
}
