/*
 * test_cache.c - the database: what is put is found, in every condition that
 * a file, a folder and a disk may be in.
 *
 * Each test runs in a process of its own, so it may give up privileges, limit
 * its files and fail its allocations.
 */
#include "cache.h"
#include "cache_internal.h"
#include "clock.h"
#include "error.h"
#include "file.h"
#include "suite.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

Suite *suite(void);

#define LENGTH(array) ((int)(sizeof(array) / sizeof(*(array))))

static spc_error error;

#define assert_status(call, expected)                                          \
    do {                                                                       \
        spc_status got_ = (call);                                              \
        ck_assert_msg(got_ == (expected), "%s: %s: %s", #call,                 \
                      spc_status_name(got_), error.text);                      \
    } while (0)
#define assert_ok(call) assert_status(call, SPC_OK)

static void assert_says(const char *words)
{
    ck_assert_msg(strstr(error.text, words) != NULL, "'%s' does not say '%s'",
                  error.text, words);
}

/* A folder for each test */

static spc__buf folder = SPC__BUF_INIT;

static void make_folder(void)
{
    assert_ok(spc__temp_dir_create(&folder, &error));
}

static void remove_folder(void)
{
    chmod(spc__buf_text(&folder), 0755);
    spc__temp_dir_remove(spc__buf_text(&folder));
    spc__buf_release(&folder);
}

/* The path of `name` in it; a few paths live at a time. */
static const char *at(const char *name)
{
    static char paths[8][400];
    static int next;
    char *path = paths[next++ % LENGTH(paths)];
    snprintf(path, sizeof(paths[0]), "%s/%s", spc__buf_text(&folder), name);
    return path;
}

/* Permissions bind root only once it is nobody. */
static bool drop_root(void)
{
    return geteuid() != 0 || (setegid(65534) == 0 && seteuid(65534) == 0);
}

#define NOT_NOBODY "permissions do not bind this user, who cannot drop root"

/* False: permissions cannot be tested by this user. */
static bool become_nobody(void)
{
    chmod(spc__buf_text(&folder), 0777);
    return drop_root();
}

static void become_root(void)
{
    if (getuid() == 0)
        ck_assert_int_eq(seteuid(0), 0);
}

/* Records to put */

static spc__problem_key make_key(int cin, int cout, double log2_rows)
{
    spc__problem_key key = {.log2_rows = log2_rows, .density = 0.25};
    spc__attrs_set_text(&key.layer, "op", "subm");
    spc__attrs_set_number(&key.layer, "cin", cin);
    spc__attrs_set_number(&key.layer, "cout", cout);
    spc__attrs_set_text(&key.layer, "kernel", "3x3x3");
    spc__attrs_set_text(&key.layer, "dtype", "f16");
    strcpy(key.device, "NVIDIA H200");
    strcpy(key.target, "sm_90a");
    return key;
}

static spc__trial make_trial(int rows, double median_us)
{
    spc__trial trial = {
        .template_name = "os_mma",
        .template_hash = "00ff",
        .artefact = "abcd",
        .median_us = median_us,
        .spread_us = 0.5,
        .cold_us = 2 * median_us,
        .samples = 11,
        .error = 0.125,
        .verified = true,
        .compile_ms = 321.5,
    };
    spc__attrs_set_number(&trial.config, "rows", rows);
    spc__attrs_set_number(&trial.config, "stages", 3);
    spc__attrs_set_text(&trial.launch, "grid", "tiles");
    spc__attrs_set_number(&trial.launch, "block", 128);
    spc__attrs_set_number(&trial.resources, "registers", 96);
    return trial;
}

static const spc__provenance provenance = {
    .version = "0.1.0",
    .compiler = "nvrtc 13.0",
    .driver = "580.1",
    .host = "box",
    .scenes = "lidar:seed=1",
    .seed = UINT64_MAX - 1,
    .unix_seconds = 1750000000,
};

static spc__cache *open_user(const char *name)
{
    spc__cache *cache = NULL;
    assert_ok(spc__cache_open(&cache, at(name), NULL, 0, &error));
    return cache;
}

static void put(spc__cache *cache, const spc__problem_key *key,
                const spc__trial *trial)
{
    assert_ok(spc__cache_put_trial(cache, key, trial, &provenance, &error));
}

static void put_chosen(spc__cache *cache, const spc__problem_key *key,
                       const spc__trial *trial)
{
    put(cache, key, trial);
    assert_ok(spc__cache_put_choice(cache, key, trial, "fastest", &provenance,
                                    &error));
}

/* A file with one choice, closed. */
static void make_file(const char *name, int rows, double median_us)
{
    spc__cache *cache = open_user(name);
    spc__problem_key key = make_key(64, 64, 17);
    spc__trial trial = make_trial(rows, median_us);
    put_chosen(cache, &key, &trial);
    spc__cache_close(cache);
}

static int find(spc__cache *cache, const spc__problem_key *key,
                spc__choice *found, int capacity)
{
    int count = -1;
    assert_ok(
        spc__cache_find_choices(cache, key, found, capacity, &count, &error));
    return count;
}

/* Runs SQL behind the cache's back. */
static void sql(const char *name, const char *text)
{
    sqlite3 *db = NULL;
    char *message = NULL;
    ck_assert_int_eq(sqlite3_open(at(name), &db), SQLITE_OK);
    int rc = sqlite3_exec(db, text, NULL, NULL, &message);
    ck_assert_msg(rc == SQLITE_OK, "%s: %s", text, message);
    sqlite3_close(db);
}

static int rows_of(spc__cache *cache, const char *table)
{
    sqlite3_stmt *stmt = NULL;
    char text[60];

    snprintf(text, sizeof(text), "SELECT count(*) FROM %s", table);
    sqlite3_prepare_v2(cache->layers[0].db, text, -1, &stmt, NULL);
    ck_assert_int_eq(sqlite3_step(stmt), SQLITE_ROW);
    int rows = sqlite3_column_int(stmt, 0);
    sqlite3_finalize(stmt);
    return rows;
}

static void read_bytes(spc__buf *out, const char *name)
{
    spc__buf_clear(out);
    assert_ok(spc__file_read(out, at(name), 1 << 24, &error));
}

static void copy_file(const char *to, const char *from, size_t bytes)
{
    spc__buf text = SPC__BUF_INIT;
    read_bytes(&text, from);
    size_t take = bytes < text.length ? bytes : text.length;
    assert_ok(spc__file_write(at(to), text.data, take, &error));
    spc__buf_release(&text);
}

static void assert_trial_eq(const spc__trial *a, const spc__trial *b)
{
    ck_assert_str_eq(a->template_name, b->template_name);
    ck_assert_str_eq(a->template_hash, b->template_hash);
    ck_assert(spc__attrs_equal(&a->config, &b->config));
    ck_assert(spc__attrs_equal(&a->launch, &b->launch));
    ck_assert(spc__attrs_equal(&a->resources, &b->resources));
    ck_assert_str_eq(a->artefact, b->artefact);
    ck_assert_str_eq(a->note, b->note);
    ck_assert_int_eq(a->status, b->status);
    ck_assert_double_eq(a->median_us, b->median_us);
    ck_assert_double_eq(a->spread_us, b->spread_us);
    ck_assert_double_eq(a->cold_us, b->cold_us);
    ck_assert_double_eq(a->compile_ms, b->compile_ms);
    ck_assert_int_eq(a->samples, b->samples);
    ck_assert_int_eq(a->verified, b->verified);
    ck_assert(a->error == b->error || (isnan(a->error) && isnan(b->error)));
}

/* Putting and finding */

START_TEST(a_choice_that_was_put_is_found_exactly)
{
    spc__cache *cache = open_user("user.db");
    spc__problem_key key = make_key(64, 96, 17.1);
    spc__trial slow = make_trial(32, 40), fast = make_trial(64, 30);
    spc__choice found[4];

    put(cache, &key, &slow);
    put_chosen(cache, &key, &fast);
    for (int capacity = 1; capacity <= 4; capacity += 3) {
        ck_assert_int_eq(find(cache, &key, found, capacity), 1);
        ck_assert_int_eq(found[0].match, SPC__MATCH_EXACT);
        ck_assert_double_eq(found[0].distance, 0);
        assert_trial_eq(&found[0].trial, &fast);
        ck_assert(spc__attrs_equal(&found[0].key.layer, &key.layer));
        ck_assert_double_eq(found[0].key.log2_rows, 17.1);
        ck_assert_double_eq(found[0].key.density, 0.25);
        ck_assert_str_eq(found[0].key.device, key.device);
        ck_assert_str_eq(found[0].key.target, key.target);
        ck_assert_str_eq(found[0].reason, "fastest");
        ck_assert_str_eq(found[0].file, at("user.db"));
    }
    spc__cache_close(cache);
}
END_TEST

START_TEST(a_later_choice_replaces_the_earlier_one)
{
    spc__cache *cache = open_user("user.db");
    spc__problem_key key = make_key(64, 64, 17);
    spc__trial one = make_trial(32, 30), two = make_trial(64, 40);
    spc__choice found;

    put_chosen(cache, &key, &one);
    put_chosen(cache, &key, &two);
    ck_assert_int_eq(find(cache, &key, &found, 1), 1);
    assert_trial_eq(&found.trial, &two);
    spc__cache_close(cache);
}
END_TEST

START_TEST(what_was_put_is_there_in_the_next_process)
{
    spc__problem_key key = make_key(64, 64, 17);
    spc__choice found;
    make_file("a folder/with 100%?#/user.db", 64, 30);
    spc__cache *cache = open_user("a folder/with 100%?#/user.db");
    ck_assert_int_eq(find(cache, &key, &found, 1), 1);
    spc__cache_close(cache);
    ck_assert_int_eq(unlink(at("a folder/with 100%?#/user.db")), 0);
    ck_assert_int_eq(rmdir(at("a folder/with 100%?#")), 0);
    ck_assert_int_eq(rmdir(at("a folder")), 0);
}
END_TEST

START_TEST(every_kind_of_trial_comes_back_as_it_was)
{
    spc__cache *cache = open_user("user.db");
    spc__problem_key key = make_key(64, 64, 17);
    spc__trial *found;
    int count;

    assert_ok(spc__cache_find_trials(cache, &key, &found, &count, &error));
    ck_assert_int_eq(count, 0);
    ck_assert_ptr_null(found);
    for (int status = SPC__TRIAL_OK; status <= SPC__TRIAL_WRONG; status++) {
        spc__trial trial = make_trial(status, 10 + status);
        trial.status = (spc__trial_status)status;
        trial.error = status == SPC__TRIAL_WRONG ? NAN : INFINITY;
        snprintf(trial.note, sizeof(trial.note), "it's %d \"\xc3\xa9\"",
                 status);
        put(cache, &key, &trial);
        assert_ok(spc__cache_find_trials(cache, &key, &found, &count, &error));
        ck_assert_int_eq(count, status + 1);
        assert_trial_eq(&found[status], &trial);
        free(found);
    }
    ck_assert_str_eq(spc__trial_status_name(SPC__TRIAL_TIMEOUT), "timeout");
    spc__cache_close(cache);
}
END_TEST

START_TEST(a_trial_timed_again_replaces_itself)
{
    spc__cache *cache = open_user("user.db");
    spc__problem_key key = make_key(64, 64, 17);
    spc__trial trial = make_trial(64, 30), *found;
    int count;

    put_chosen(cache, &key, &trial);
    trial.median_us = 25;
    put(cache, &key, &trial);
    assert_ok(spc__cache_find_trials(cache, &key, &found, &count, &error));
    ck_assert_int_eq(count, 1);
    assert_trial_eq(&found[0], &trial);
    free(found);

    /* Of a template that changed it is another trial. */
    strcpy(trial.template_hash, "0100");
    put(cache, &key, &trial);
    assert_ok(spc__cache_find_trials(cache, &key, &found, &count, &error));
    ck_assert_int_eq(count, 2);
    free(found);
    spc__cache_close(cache);
}
END_TEST

START_TEST(only_a_trial_that_was_put_and_ran_may_be_chosen)
{
    spc__cache *cache = open_user("user.db");
    spc__problem_key key = make_key(64, 64, 17);
    spc__trial trial = make_trial(64, 30);
    spc__choice found;

    assert_status(
        spc__cache_put_choice(cache, &key, &trial, "", &provenance, &error),
        SPC_ENOTFOUND);
    assert_says("rows=64,stages=3");
    trial.status = SPC__TRIAL_WRONG;
    put(cache, &key, &trial);
    assert_status(
        spc__cache_put_choice(cache, &key, &trial, "", &provenance, &error),
        SPC_EINVAL);
    assert_says("'wrong'");

    /* A choice whose trial fails later is no longer valid. */
    trial.status = SPC__TRIAL_OK;
    put_chosen(cache, &key, &trial);
    ck_assert_int_eq(find(cache, &key, &found, 1), 1);
    trial.status = SPC__TRIAL_FAULT;
    put(cache, &key, &trial);
    ck_assert_int_eq(find(cache, &key, &found, 1), 0);
    spc__cache_close(cache);
}
END_TEST

START_TEST(an_artefact_is_stored_once_and_comes_back_whole)
{
    spc__cache *cache = open_user("user.db");
    spc__trial trial = make_trial(64, 30);
    spc__attrs launch, resources;
    char code[40000];
    void *got;
    size_t bytes;

    for (int i = 0; i < LENGTH(code); i++)
        code[i] = (char)(i * 31);
    assert_status(
        spc__cache_get_artefact(cache, "k", &got, &bytes, NULL, NULL, &error),
        SPC_ENOTFOUND);
    ck_assert_ptr_null(got);
    for (int i = 0; i < 2; i++)
        assert_ok(spc__cache_put_artefact(cache, "k", "sm_90a", "nvrtc 13.0",
                                          &trial.launch, &trial.resources, code,
                                          i == 0 ? sizeof(code) : 1, &error));
    assert_ok(spc__cache_put_artefact(cache, "empty", "sm_90a", "nvrtc 13.0",
                                      &trial.launch, &trial.resources, NULL, 0,
                                      &error));
    assert_ok(spc__cache_get_artefact(cache, "k", &got, &bytes, &launch,
                                      &resources, &error));
    ck_assert_uint_eq(bytes, sizeof(code));
    ck_assert_mem_eq(got, code, sizeof(code));
    ck_assert(spc__attrs_equal(&launch, &trial.launch));
    ck_assert(spc__attrs_equal(&resources, &trial.resources));
    free(got);
    assert_ok(spc__cache_get_artefact(cache, "empty", &got, &bytes, NULL, NULL,
                                      &error));
    ck_assert_uint_eq(bytes, 0);
    free(got);
    spc__cache_close(cache);
}
END_TEST

START_TEST(a_damaged_artefact_is_refused_and_can_be_put_again)
{
    spc__trial trial = make_trial(64, 30);
    spc__cache *cache = open_user("user.db");
    void *got;
    size_t bytes;

    assert_ok(spc__cache_put_artefact(cache, "k", "sm_90a", "nvrtc 13.0",
                                      &trial.launch, &trial.resources, "code",
                                      4, &error));
    spc__cache_close(cache);
    sql("user.db", "UPDATE artefact SET code = x'636f6465ff'");
    cache = open_user("user.db");
    assert_status(
        spc__cache_get_artefact(cache, "k", &got, &bytes, NULL, NULL, &error),
        SPC_EDB);
    assert_says("damaged");
    assert_ok(spc__cache_put_artefact(cache, "k", "sm_90a", "nvrtc 13.0",
                                      &trial.launch, &trial.resources, "code",
                                      4, &error));
    assert_ok(
        spc__cache_get_artefact(cache, "k", &got, &bytes, NULL, NULL, &error));
    ck_assert_mem_eq(got, "code", 4);
    free(got);
    spc__cache_close(cache);
}
END_TEST

START_TEST(facts_of_a_device_add_up)
{
    spc__cache *cache = open_user("user.db");
    spc__attrs facts = {0};

    assert_status(spc__cache_get_device(cache, "cpu", &facts, &error),
                  SPC_ENOTFOUND);
    spc__attrs_set_number(&facts, "copy_gbps", 4300);
    spc__attrs_set_number(&facts, "launch_ns", 600);
    assert_ok(spc__cache_put_device(cache, "NVIDIA H200", &facts, &error));
    facts.count = 0;
    spc__attrs_set_number(&facts, "launch_ns", 700);
    spc__attrs_set_text(&facts, "bus", "sxm");
    assert_ok(spc__cache_put_device(cache, "NVIDIA H200", &facts, &error));
    assert_ok(spc__cache_get_device(cache, "NVIDIA H200", &facts, &error));
    ck_assert_int_eq(facts.count, 3);
    ck_assert_int_eq(spc__attrs_number(&facts, "copy_gbps", 0), 4300);
    ck_assert_int_eq(spc__attrs_number(&facts, "launch_ns", 0), 700);
    ck_assert_str_eq(spc__attrs_text(&facts, "bus", ""), "sxm");
    spc__cache_close(cache);
}
END_TEST

typedef struct seen {
    int rows;
    spc__cache_row last;
} seen;

static spc_status see(const spc__cache_row *row, void *payload)
{
    seen *all = payload;
    all->last = *row;
    return ++all->rows == 3 ? SPC_EINTERRUPTED : SPC_OK;
}

START_TEST(a_listing_tells_each_problem_with_its_choice)
{
    spc__cache *cache = open_user("user.db");
    spc__problem_key one = make_key(16, 16, 17), two = make_key(32, 32, 17);
    spc__trial good = make_trial(64, 30), bad = make_trial(32, 0);
    seen all = {0};

    bad.status = SPC__TRIAL_TIMEOUT;
    put(cache, &one, &bad);
    put(cache, &two, &bad);
    put_chosen(cache, &two, &good);
    assert_ok(spc__cache_each(cache, see, &all, &error));
    ck_assert_int_eq(all.rows, 2);
    ck_assert(all.last.has_choice);
    ck_assert_int_eq(all.last.trials, 2);
    ck_assert_int_eq(all.last.trials_ok, 1);
    ck_assert_str_eq(all.last.reason, "fastest");
    ck_assert_str_eq(all.last.file, at("user.db"));
    ck_assert(spc__attrs_equal(&all.last.key.layer, &two.layer));
    assert_trial_eq(&all.last.choice, &good);
    ck_assert_mem_eq(all.last.provenance.host, "box", 4);
    ck_assert_uint_eq(all.last.provenance.seed, provenance.seed);
    ck_assert_int_eq(all.last.provenance.unix_seconds, 1750000000);
    assert_status(spc__cache_each(cache, see, &all, &error), SPC_EINTERRUPTED);
    ck_assert(!all.last.has_choice);
    ck_assert_str_eq(all.last.provenance.scenes, "lidar:seed=1");

    ck_assert_int_eq(rows_of(cache, "problem"), 2);
    ck_assert_int_eq(rows_of(cache, "trial"), 3);
    ck_assert_int_eq(rows_of(cache, "choice"), 1);
    spc__cache_close(cache);
}
END_TEST

START_TEST(a_cache_without_files_finds_nothing_and_stores_nothing)
{
    spc__cache *cache;
    spc__problem_key key = make_key(64, 64, 17);
    spc__trial trial = make_trial(64, 30);
    spc__choice found;

    assert_ok(spc__cache_open(&cache, NULL, NULL, 0, &error));
    ck_assert_int_eq(find(cache, &key, &found, 1), 0);
    ck_assert_int_eq(find(cache, &key, &found, 0), 0);
    assert_status(
        spc__cache_put_trial(cache, &key, &trial, &provenance, &error),
        SPC_EDB);
    assert_says("no writable database");
    spc__cache_close(cache);
    spc__cache_close(NULL);
}
END_TEST

/* Buckets and neighbours */

static const struct {
    double value;
    int rows, density;
} buckets[] = {
    {17, 34, 8},          {17.2, 34, 8},     {17.25, 35, 8},
    {16.8, 34, 8},        {1, 2, 0},         {0.25, 1, -4},
    {0.3, 1, -3},         {0, 0, -128},      {1e9, 128, 60},
    {-1, -2, -128},       {NAN, -128, -128}, {-INFINITY, -128, -128},
    {INFINITY, 128, 128},
};

START_TEST(buckets_are_half_octaves)
{
    ck_assert_int_eq(spc__bucket_rows(buckets[_i].value), buckets[_i].rows);
    ck_assert_int_eq(spc__bucket_density(buckets[_i].value),
                     buckets[_i].density);
}
END_TEST

/* What a record put for 64 -> 64 channels, 2^17 rows, density 1/4 is to
 * another question. */
static const struct {
    int cin, cout;
    double log2_rows, density;
    const char *target;
    spc__match match;
    double distance;
} neighbours[] = {
    {64, 64, 17, 0.25, "sm_90a", SPC__MATCH_EXACT, 0},
    {64, 64, 17.2, 0.26, "sm_90a", SPC__MATCH_EXACT, 0},
    {64, 64, 17.5, 0.25, "sm_90a", SPC__MATCH_BUCKET, 0.5},
    {64, 64, 16, 0.5, "sm_90a", SPC__MATCH_BUCKET, 1.5},
    {64, 64, 19, 0.25, "sm_90a", SPC__MATCH_NEAREST, 2},
    {64, 64, 17, 0.0625, "sm_90a", SPC__MATCH_NEAREST, 1},
    {32, 64, 17, 0.25, "sm_90a", SPC__MATCH_NEAREST, 2},
    {64, 256, 17, 0.25, "sm_90a", SPC__MATCH_NEAREST, 4},
    {64, 64, 17, 0.25, "sm_90", SPC__MATCH_NEAREST, 4},
    {128, 32, 15, 1, "sm_80", SPC__MATCH_NEAREST, 11},
};

START_TEST(a_neighbour_is_found_at_its_distance)
{
    make_file("user.db", 64, 30);
    spc__cache *cache = open_user("user.db");
    spc__problem_key key = make_key(neighbours[_i].cin, neighbours[_i].cout,
                                    neighbours[_i].log2_rows);
    spc__choice found[3];

    key.density = neighbours[_i].density;
    strcpy(key.target, neighbours[_i].target);
    for (int capacity = 1; capacity <= 3; capacity += 2) {
        ck_assert_int_eq(find(cache, &key, found, capacity), 1);
        ck_assert_int_eq(found[0].match, neighbours[_i].match);
        bool exact = neighbours[_i].match == SPC__MATCH_EXACT;
        ck_assert_double_eq_tol(found[0].distance, neighbours[_i].distance,
                                exact ? 1e-9 : 1e-6);
    }
    spc__cache_close(cache);
}
END_TEST

/* Buckets that no key has count as the last ones. */
START_TEST(a_bucket_out_of_range_is_far_away)
{
    static const struct {
        const char *harm;
        double distance;
    } far[] = {
        {"UPDATE problem SET rows_bucket = -2147483648", 64 + 17},
        {"UPDATE problem SET rows_bucket = 4294967296 + 34", 64 - 17},
        {"UPDATE problem SET density_bucket = 2147483647", (64 + 2) / 2.0},
        {"UPDATE problem SET density_bucket = -1e300", (64 - 2) / 2.0},
    };
    spc__problem_key key = make_key(64, 64, 17);
    spc__choice found[2];

    make_file("user.db", 64, 30);
    sql("user.db", far[_i].harm);
    spc__cache *cache = open_user("user.db");
    ck_assert_int_eq(find(cache, &key, found, 2), 1);
    ck_assert_int_eq(found[0].match, SPC__MATCH_NEAREST);
    ck_assert_double_eq(found[0].distance, far[_i].distance);
    spc__cache_close(cache);
}
END_TEST

/* Near lookups remember what they read; writers of every kind are noticed. */
START_TEST(a_near_lookup_sees_what_was_put_since)
{
    spc__problem_key asked = make_key(64, 64, 17);
    spc__problem_key far = make_key(64, 64, 12), near = make_key(64, 64, 15);
    spc__trial trial = make_trial(64, 30);
    spc__cache *cache = open_user("user.db"), *other;
    spc__choice found[4];

    ck_assert_int_eq(find(cache, &asked, found, 4), 0);
    put_chosen(cache, &far, &trial); /* by the same handle */
    ck_assert_int_eq(find(cache, &asked, found, 4), 1);
    ck_assert_double_eq(found[0].distance, 5);
    other = open_user("user.db");
    put_chosen(other, &near, &trial);
    spc__cache_close(other);
    ck_assert_int_eq(find(cache, &asked, found, 4), 2);
    ck_assert_double_eq(found[0].distance, 2);
    sql("user.db", "UPDATE trial SET status = 'wrong' WHERE id = 1");
    ck_assert_int_eq(find(cache, &asked, found, 4), 1);
    asked.layer = make_key(64, 32, 0).layer; /* similar: the same memory */
    ck_assert_int_eq(find(cache, &asked, found, 1), 1);
    strcpy(asked.device, "another");
    ck_assert_int_eq(find(cache, &asked, found, 1), 0);
    spc__cache_close(cache);
}
END_TEST

START_TEST(what_differs_in_more_than_channels_is_no_neighbour)
{
    make_file("user.db", 64, 30);
    spc__cache *cache = open_user("user.db");
    spc__problem_key dtype = make_key(64, 64, 17);
    spc__problem_key device = make_key(64, 64, 17);
    spc__choice found[3];

    spc__attrs_set_text(&dtype.layer, "dtype", "bf16");
    strcpy(device.device, "NVIDIA H100");
    ck_assert_int_eq(find(cache, &dtype, found, 1), 0);
    ck_assert_int_eq(find(cache, &dtype, found, 3), 0);
    ck_assert_int_eq(find(cache, &device, found, 1), 0);
    ck_assert_int_eq(find(cache, &device, found, 3), 0);
    spc__cache_close(cache);
}
END_TEST

START_TEST(neighbours_come_in_the_order_of_match_and_distance)
{
    static const struct {
        int cin;
        double log2_rows;
    } order[] = {{64, 17},   {64, 16.5}, {64, 18},
                 {64, 18.5}, {32, 17},   {16, 17}};
    spc__cache *cache = open_user("user.db");
    spc__problem_key asked = make_key(64, 64, 17);
    spc__choice found[8];

    for (int i = LENGTH(order) - 1; i >= 0; i--) {
        spc__problem_key key = make_key(order[i].cin, 64, order[i].log2_rows);
        spc__trial trial = make_trial(i, 30);
        put_chosen(cache, &key, &trial);
    }
    for (int capacity = 1; capacity <= 8; capacity++) {
        int count = find(cache, &asked, found, capacity);
        ck_assert_int_eq(count, capacity < 6 ? capacity : 6);
        for (int i = 0; i < count; i++)
            ck_assert_int_eq(
                spc__attrs_number(&found[i].trial.config, "rows", -1), i);
    }
    spc__cache_close(cache);
}
END_TEST

/* Layers */

static const struct {
    double user_us, shipped_us;
    int samples, winner;
} contests[] = {
    {30, 20, 11, 1}, /* the shipped record is faster */
    {20, 30, 11, 0},
    {25, 25, 11, 0}, /* a tie is the user's */
    {20, 30, 0, 1},  /* the user's was never timed */
};

START_TEST(the_best_record_of_all_layers_wins)
{
    const char *shipped = at("shipped.db");
    spc__problem_key key = make_key(64, 64, 17);
    spc__trial user = make_trial(32, contests[_i].user_us);
    spc__choice found[4];
    spc__cache *cache;

    make_file("shipped.db", 64, contests[_i].shipped_us);
    assert_ok(spc__cache_open(&cache, at("user.db"), &shipped, 1, &error));
    user.samples = contests[_i].samples;
    put_chosen(cache, &key, &user);
    for (int capacity = 1; capacity <= 4; capacity += 3) {
        ck_assert_int_eq(find(cache, &key, found, capacity),
                         capacity < 2 ? capacity : 2);
        ck_assert_str_eq(found[0].file,
                         contests[_i].winner ? shipped : at("user.db"));
    }
    spc__cache_close(cache);
}
END_TEST

START_TEST(layers_complete_each_other)
{
    const char *layers[2];
    spc__problem_key key = make_key(64, 64, 17);
    spc__trial trial = make_trial(32, 30), *trials;
    spc__attrs facts = {0};
    spc__cache *cache;
    void *code;
    size_t bytes;
    int count;

    make_file("b.db", 64, 20);
    make_file("c.db", 64, 50);
    cache = open_user("c.db");
    put(cache, &key, &trial);
    assert_ok(spc__cache_put_artefact(cache, "k", "t", "c", &trial.launch,
                                      &trial.resources, "code", 4, &error));
    spc__attrs_set_number(&facts, "x", 1);
    assert_ok(spc__cache_put_device(cache, "d", &facts, &error));
    spc__cache_close(cache);

    layers[0] = at("b.db");
    layers[1] = at("c.db");
    assert_ok(spc__cache_open(&cache, at("a.db"), layers, 2, &error));
    spc__attrs_set_number(&facts, "x", 2);
    spc__attrs_set_number(&facts, "y", 3);
    assert_ok(spc__cache_put_device(cache, "d", &facts, &error));
    assert_ok(spc__cache_get_device(cache, "d", &facts, &error));
    ck_assert_int_eq(facts.count, 2);
    ck_assert_int_eq(spc__attrs_number(&facts, "x", 0), 2);

    /* rows=64 is in both shipped layers and listed from the upper one. */
    assert_ok(spc__cache_find_trials(cache, &key, &trials, &count, &error));
    ck_assert_int_eq(count, 2);
    ck_assert_double_eq(trials[0].median_us, 20);
    ck_assert_double_eq(trials[1].median_us, 30);
    free(trials);
    assert_ok(
        spc__cache_get_artefact(cache, "k", &code, &bytes, NULL, NULL, &error));
    free(code);
    spc__cache_close(cache);
}
END_TEST

/* The columns of a trial that can make no sense. */
static const char *const damages[] = {
    "UPDATE trial SET config = '!!' WHERE id = 1",
    "UPDATE trial SET launch = 'a=1,a=2' WHERE id = 1",
    "UPDATE trial SET status = 'fine' WHERE id = 1",
};

/* One is damaged in the upper layer, and sound or not there in the lower. */
START_TEST(a_damaged_trial_hides_no_other)
{
    const char *shipped = at("shipped.db");
    spc__problem_key key = make_key(64, 64, 17);
    spc__trial first = make_trial(1, 30), second = make_trial(2, 40), *trials;
    spc__cache *cache;
    int count;

    make_file(_i < LENGTH(damages) ? "shipped.db" : "other.db", 1, 20);
    cache = open_user("user.db");
    put(cache, &key, &first);
    put(cache, &key, &second);
    spc__cache_close(cache);
    sql("user.db", damages[_i % LENGTH(damages)]);
    assert_ok(spc__cache_open(&cache, at("user.db"), &shipped,
                              _i < LENGTH(damages), &error));
    assert_status(spc__cache_find_trials(cache, &key, &trials, &count, &error),
                  SPC_EDB);
    assert_says("user.db");
    assert_says("damaged");
    ck_assert_int_eq(count, _i < LENGTH(damages) ? 2 : 1);
    ck_assert_double_eq(trials[0].median_us, 40);
    if (count > 1)
        ck_assert_double_eq(trials[1].median_us, 20);
    free(trials);
    spc__cache_close(cache);
}
END_TEST

START_TEST(a_shipped_file_is_read_where_nothing_can_be_written)
{
    const char *shipped = at("shipped.db");
    spc__problem_key key = make_key(64, 64, 17);
    spc__buf before = SPC__BUF_INIT, after = SPC__BUF_INIT;
    spc__choice found;
    spc__cache *cache;
    struct stat facts;

    make_file("shipped.db", 64, 30);
    if (_i == 1)
        sql("shipped.db", "PRAGMA journal_mode = DELETE");
    read_bytes(&before, "shipped.db");
    assert_ok(spc__cache_open(&cache, NULL, &shipped, 1, &error));
    ck_assert_int_eq(find(cache, &key, &found, 1), 1);
    ck_assert_int_ne(stat(at("shipped.db-wal"), &facts), 0);
    ck_assert_int_ne(stat(at("shipped.db-shm"), &facts), 0);
    spc__cache_close(cache);
    read_bytes(&after, "shipped.db");
    ck_assert_uint_eq(before.length, after.length);
    ck_assert_mem_eq(before.data, after.data, before.length);
    spc__buf_release(&before);
    spc__buf_release(&after);
}
END_TEST

/* A process that ends without closing what it has written. */
static void leave_wal(const char *name)
{
    pid_t writer = fork();

    if (writer == 0) {
        spc__cache *cache = open_user(name);
        spc__problem_key key = make_key(64, 64, 17);
        spc__trial trial = make_trial(64, 30);
        put_chosen(cache, &key, &trial);
        _exit(0);
    }
    ck_assert_int_eq(waitpid(writer, NULL, 0), writer);
}

/* ... nor what it was about to write. */
static void leave_journal(const char *name)
{
    make_file(name, 64, 30);
    pid_t writer = fork();
    if (writer == 0) {
        sqlite3 *db = NULL;
        sqlite3_open(at(name), &db);
        sqlite3_exec(db,
                     "PRAGMA journal_mode = DELETE; PRAGMA cache_size = 1;"
                     "BEGIN; CREATE TABLE t (x);"
                     "WITH RECURSIVE n (i) AS (SELECT 0 UNION ALL"
                     " SELECT i + 1 FROM n WHERE i < 999)"
                     " INSERT INTO t SELECT zeroblob(3000) FROM n",
                     NULL, NULL, NULL);
        _exit(0);
    }
    ck_assert_int_eq(waitpid(writer, NULL, 0), writer);
}

/* 0: all is left; 1: but the shared memory; 2: the layer is a link. */
START_TEST(a_layer_whose_writer_was_stopped_is_read_with_its_journal)
{
    const char *layer = at(_i == 2 ? "link.db" : "shipped.db");
    spc__problem_key key = make_key(64, 64, 17);
    spc__choice found;
    spc__cache *cache;

    leave_wal("shipped.db");
    ck_assert_int_gt(spc__sibling_bytes(at("shipped.db"), "-wal"), 0);
    if (_i == 1)
        unlink(at("shipped.db-shm"));
    if (_i == 2)
        ck_assert_int_eq(symlink("shipped.db", layer), 0);
    assert_ok(spc__cache_open(&cache, NULL, &layer, 1, &error));
    ck_assert_int_eq(find(cache, &key, &found, 1), 1);
    ck_assert_int_eq(
        spc__cache_put_trial(cache, &key, &found.trial, &provenance, &error),
        SPC_EDB);
    spc__cache_close(cache);
}
END_TEST

START_TEST(a_layer_that_is_being_written_shows_what_was_put_since)
{
    const char *layer = at("shipped.db");
    spc__problem_key key = make_key(64, 64, 17);
    spc__trial trial = make_trial(64, 30);
    spc__choice found;
    spc__cache *writer, *cache;

    make_file("shipped.db", 64, 50);
    writer = open_user("shipped.db"); /* which has put nothing yet */
    assert_ok(spc__cache_open(&cache, NULL, &layer, 1, &error));
    put_chosen(writer, &key, &trial);
    ck_assert_int_eq(find(cache, &key, &found, 1), 1);
    ck_assert_double_eq(found.trial.median_us, 30);
    spc__cache_close(writer);
    spc__cache_close(cache);
}
END_TEST

/* Neither as a layer nor, where nothing can be written, as the user's file:
 * what the journal holds must not be left out silently. */
START_TEST(a_journal_that_cannot_be_read_is_named)
{
    const char *layer = at("left.db");
    spc__cache *cache;

    if (_i > 0 && !become_nobody())
        skip_test(NOT_NOBODY);
    if (_i == 0)
        leave_journal("left.db");
    else
        leave_wal("left.db");
    if (_i > 0) {
        unlink(at("left.db-shm"));
        chmod(at("left.db"), 0444);
        become_root();
        chmod(spc__buf_text(&folder), 0555);
        drop_root();
    }
    assert_status(spc__cache_open(&cache, _i == 2 ? layer : NULL, &layer,
                                  _i != 2, &error),
                  SPC_EDB);
    assert_says("left.db");
    assert_says("journal beside it");
    become_root();
}
END_TEST

START_TEST(a_layer_that_is_not_there_is_named_and_creates_nothing)
{
    const char *layer = at("none.db");
    struct stat facts;
    spc__cache *cache;

    assert_status(spc__cache_open(&cache, at("user.db"), &layer, 1, &error),
                  SPC_ENOTFOUND);
    ck_assert_ptr_null(cache);
    assert_says("none.db");
    ck_assert_int_ne(stat(at("user.db"), &facts), 0);
}
END_TEST

START_TEST(a_layer_that_breaks_later_does_not_hide_the_others)
{
    const char *layers[2];
    spc__problem_key key = make_key(64, 64, 17);
    spc__choice found[2];
    spc__cache *cache;
    int count;

    make_file("bad.db", 64, 10);
    make_file("good.db", 32, 30);
    sql("bad.db", "DROP TABLE choice");
    layers[0] = at("bad.db");
    layers[1] = at("good.db");
    assert_ok(spc__cache_open(&cache, NULL, layers, 2, &error));
    for (int capacity = 1; capacity <= 2; capacity++) {
        assert_status(spc__cache_find_choices(cache, &key, found, capacity,
                                              &count, &error),
                      SPC_EDB);
        assert_says("bad.db");
        ck_assert_int_eq(count, 1);
        ck_assert_str_eq(found[0].file, layers[1]);
    }
    spc__cache_close(cache);
}
END_TEST

/* Files that are not what they should be */

static void make_newer(const char *name)
{
    make_file(name, 64, 30);
    sql(name, "PRAGMA user_version = 7");
}

static void make_foreign(const char *name)
{
    sql(name, "CREATE TABLE t (x); PRAGMA application_id = 1");
}

static void make_anonymous(const char *name)
{
    sql(name, "CREATE TABLE t (x)");
}

static void make_versionless(const char *name)
{
    make_file(name, 64, 30);
    sql(name, "PRAGMA user_version = 0");
}

static void make_text(const char *name)
{
    char text[2000];
    memset(text, 'x', sizeof(text));
    assert_ok(spc__file_write(at(name), text, sizeof(text), &error));
}

static void make_short(const char *name)
{
    assert_ok(spc__file_write(at(name), "SQLite", 6, &error));
}

static void make_truncated(const char *name)
{
    make_file("whole.db", 64, 30);
    copy_file(name, "whole.db", 10000);
}

static void make_header_only(const char *name)
{
    make_file("whole.db", 64, 30);
    copy_file(name, "whole.db", 100);
}

static void make_a_folder(const char *name)
{
    ck_assert_int_eq(mkdir(at(name), 0755), 0);
}

static void make_a_pipe(const char *name)
{
    ck_assert_int_eq(mkfifo(at(name), 0644), 0);
}

static const struct {
    void (*make)(const char *name);
    spc_status status;
    const char *says, *advises;
} refusals[] = {
    {make_newer, SPC_EDBVERSION, "version 7, and this spctune knows version 1",
     "update spctune"},
    {make_foreign, SPC_EDB, "another program (application id 0x00000001",
     "name another file"},
    {make_anonymous, SPC_EDB, "another program", "name another file"},
    {make_versionless, SPC_EDB, "no version", "move it away"},
    {make_text, SPC_EDB, "not a SQLite database", "name another file"},
    {make_short, SPC_EDB, "not a SQLite database", "name another file"},
    {make_truncated, SPC_EDB, "10000 of its", "restore a copy"},
    {make_header_only, SPC_EDB, "100 of its", "restore a copy"},
    {make_a_folder, SPC_EDB, "a folder", "name a database file"},
    {make_a_pipe, SPC_EDB, "not a plain file", "name a database file"},
};

START_TEST(a_file_that_will_not_do_is_refused_in_words_and_left_alone)
{
    spc__buf before = SPC__BUF_INIT, after = SPC__BUF_INIT;
    const char *path = at("odd.db");
    spc__cache *cache;
    struct stat facts;

    refusals[_i].make("odd.db");
    ck_assert_int_eq(stat(path, &facts), 0);
    if (S_ISREG(facts.st_mode))
        read_bytes(&before, "odd.db");
    for (int shipped = 0; shipped < 2; shipped++) {
        error.text[0] = '\0';
        assert_status(spc__cache_open(&cache, shipped ? NULL : path, &path,
                                      shipped, &error),
                      refusals[_i].status);
        ck_assert_ptr_null(cache);
        assert_says("odd.db");
        assert_says(refusals[_i].says);
        assert_says(refusals[_i].advises);
    }
    if (S_ISREG(facts.st_mode)) {
        read_bytes(&after, "odd.db");
        ck_assert_uint_eq(before.length, after.length);
        ck_assert_mem_eq(before.data, after.data, before.length);
        ck_assert_int_ne(stat(at("odd.db-wal"), &facts), 0);
    } else {
        remove(path);
    }
    spc__buf_release(&before);
    spc__buf_release(&after);
}
END_TEST

START_TEST(an_empty_file_is_filled_but_not_as_a_shipped_one)
{
    const char *path = at("empty.db");
    spc__cache *cache;

    assert_ok(spc__file_write(path, "", 0, &error));
    assert_status(spc__cache_open(&cache, NULL, &path, 1, &error), SPC_EDB);
    assert_says("it is empty");
    make_file("empty.db", 64, 30);
    assert_ok(spc__cache_open(&cache, NULL, &path, 1, &error));
    spc__cache_close(cache);
}
END_TEST

static spc_status count_row(const spc__cache_row *row, void *payload)
{
    (*(int *)payload)++;
    (void)row;
    return SPC_OK;
}

/* Every call on a damaged file ends in a status; the sanitizers and the fork
 * of each test watch that it ends in nothing worse. */
static void use_everything(spc__cache *cache)
{
    spc__problem_key key = make_key(64, 64, 17);
    spc__trial trial = make_trial(64, 30), *trials = NULL;
    spc__choice found[4];
    spc__attrs facts = {0};
    size_t bytes;
    void *code;
    int count;

    spc__cache_find_choices(cache, &key, found, 1, &count, &error);
    spc__cache_find_choices(cache, &key, found, 4, &count, &error);
    spc__cache_find_trials(cache, &key, &trials, &count, &error);
    free(trials);
    spc__cache_trials_of(cache, cache->layers[0].path, 1, &trials, &count,
                         &error);
    free(trials);
    spc__cache_get_artefact(cache, "k", &code, &bytes, &facts, NULL, &error);
    free(code);
    spc__cache_get_device(cache, "NVIDIA H200", &facts, &error);
    spc__cache_each(cache, count_row, &count, &error);
    spc__cache_put_trial(cache, &key, &trial, &provenance, &error);
    spc__cache_put_choice(cache, &key, &trial, NULL, &provenance, &error);
    spc__cache_put_artefact(cache, "k2", "t", "c", &trial.launch,
                            &trial.resources, "code", 4, &error);
    spc__cache_put_device(cache, "cpu", &trial.config, &error);
}

static void make_full_file(const char *name)
{
    spc__cache *cache = open_user(name);
    spc__attrs facts = {0};

    spc__attrs_set_number(&facts, "copy_gbps", 4300);
    assert_ok(spc__cache_put_device(cache, "NVIDIA H200", &facts, &error));
    for (int i = 0; i < 30; i++) {
        spc__problem_key key = make_key(64, 32 + 8 * (i % 5), 15 + i / 5);
        spc__trial trial = make_trial(i, 30);
        put_chosen(cache, &key, &trial);
    }
    assert_ok(spc__cache_put_artefact(cache, "k", "t", "c", &facts, &facts,
                                      facts.at, 3000, &error));
    spc__cache_close(cache);
}

START_TEST(a_corrupt_file_is_an_error_and_never_a_crash)
{
    spc__buf whole = SPC__BUF_INIT;
    uint64_t state = 12345 + (uint64_t)_i;

    make_full_file("whole.db");
    read_bytes(&whole, "whole.db");
    for (int round = 0; round < 12; round++) {
        spc__cache *cache;
        for (int hits = 0; hits < 40; hits++) {
            state = state * 6364136223846793005u + 1442695040888963407u;
            /* The first 100 bytes are the header's, tested elsewhere. */
            size_t where = 100 + (state >> 33) % (whole.length - 100);
            whole.data[where] = (char)(state >> 20);
        }
        assert_ok(
            spc__file_write(at("bad.db"), whole.data, whole.length, &error));
        if (spc__cache_open(&cache, at("bad.db"), NULL, 0, &error) == SPC_OK)
            use_everything(cache);
        spc__cache_close(cache);
        unlink(at("bad.db-wal"));
        unlink(at("bad.db-shm"));
    }
    spc__buf_release(&whole);
}
END_TEST

START_TEST(a_record_that_makes_no_sense_is_reported_as_damage)
{
    static const char *const harm[] = {
        "UPDATE trial SET config = 'nonsense'",
        "UPDATE trial SET launch = 'a=1,a=2'",
        "UPDATE trial SET resources = x'ff00'",
        "UPDATE problem SET layer = layer || '\xc3', rows_bucket = 35",
    };
    spc__problem_key key = make_key(64, 64, 17);
    spc__choice found[2];
    int count;

    make_file("user.db", 64, 30);
    sql("user.db", harm[_i]);
    spc__cache *cache = open_user("user.db");
    assert_status(
        spc__cache_find_choices(cache, &key, found, 2, &count, &error),
        SPC_EDB);
    assert_says("user.db");
    assert_says("damaged");
    ck_assert_int_eq(count, 0);
    spc__cache_close(cache);
}
END_TEST

/* Folders and disks */

START_TEST(an_unwritable_parent_is_named)
{
    spc__cache *cache;

    if (!become_nobody())
        skip_test(NOT_NOBODY);
    mkdir(at("closed"), 0555);
    assert_status(
        spc__cache_open(&cache, at("closed/sub/user.db"), NULL, 0, &error),
        SPC_EDB);
    assert_says("closed/sub");
    assert_says("Permission denied");
    assert_status(
        spc__cache_open(&cache, at("closed/user.db"), NULL, 0, &error),
        SPC_EDB);
    assert_says("folder accessible");
    rmdir(at("closed"));
    become_root();
}
END_TEST

START_TEST(a_file_where_a_folder_should_be_is_named)
{
    spc__cache *cache;

    assert_ok(spc__file_write(at("file"), "", 0, &error));
    assert_status(spc__cache_open(&cache, at("file/user.db"), NULL, 0, &error),
                  SPC_EDB);
    assert_says("Not a directory");
}
END_TEST

START_TEST(an_unreadable_file_is_named)
{
    spc__cache *cache;

    if (!become_nobody())
        skip_test(NOT_NOBODY);
    make_file("user.db", 64, 30);
    chmod(at("user.db"), 0000);
    assert_status(spc__cache_open(&cache, at("user.db"), NULL, 0, &error),
                  SPC_EDB);
    assert_says("Permission denied");
    become_root();
}
END_TEST

/* A read-only file, and a file in WAL mode in a read-only folder, where not
 * even its shared memory can be made. */
START_TEST(a_read_only_file_is_read_and_takes_no_writes)
{
    spc__problem_key key = make_key(64, 64, 17);
    spc__trial trial = make_trial(32, 10);
    spc__attrs facts = trial.config;
    spc__choice found;

    if ((_i & 5) == 4)
        return; /* nothing is read-only then */
    if (!become_nobody())
        skip_test(NOT_NOBODY);
    make_file("user.db", 64, 30);
    if (_i & 2)
        sql("user.db", "PRAGMA journal_mode = DELETE");
    chmod(at("user.db"), _i & 1 ? 0444 : 0644);
    become_root();
    chmod(spc__buf_text(&folder), _i & 4 ? 0777 : 0555);
    drop_root();

    spc__cache *cache = open_user("user.db");
    ck_assert_int_eq(find(cache, &key, &found, 1), 1);
    assert_status(
        spc__cache_put_trial(cache, &key, &trial, &provenance, &error),
        SPC_EDB);
    assert_says("user.db");
    assert_says("another file");
    assert_status(spc__cache_put_choice(cache, &key, &found.trial, "",
                                        &provenance, &error),
                  SPC_EDB);
    assert_status(spc__cache_put_device(cache, "cpu", &facts, &error), SPC_EDB);
    assert_status(spc__cache_put_artefact(cache, "k", "t", "c", &facts, &facts,
                                          "", 0, &error),
                  SPC_EDB);
    ck_assert_int_eq(find(cache, &key, &found, 1), 1);
    spc__cache_close(cache);
    become_root();
}
END_TEST

/* Puts artefacts until the disk is full; returns how many were taken. */
static int fill(spc__cache *cache)
{
    static char code[20000];
    spc__attrs none = {0};

    for (int i = 0; i < 1000; i++) {
        char key[20];
        snprintf(key, sizeof(key), "key%d", i);
        spc_status status = spc__cache_put_artefact(
            cache, key, "t", "c", &none, &none, code, sizeof(code), &error);
        if (status == SPC_OK)
            continue;
        ck_assert_int_eq(status, SPC_EDB);
        return i;
    }
    ck_abort_msg("the disk did not fill");
    return 0;
}

START_TEST(a_full_disk_loses_nothing_that_was_stored)
{
    struct rlimit before, small = {600000, RLIM_INFINITY};
    spc__problem_key key = make_key(64, 64, 17);
    spc__trial trial = make_trial(64, 30);
    spc__cache *cache = open_user("user.db");
    spc__choice found;

    put_chosen(cache, &key, &trial);
    getrlimit(RLIMIT_FSIZE, &before);
    small.rlim_max = before.rlim_max;
    if (_i == 0) {
        sqlite3_exec(cache->layers[0].db, "PRAGMA max_page_count = 100", NULL,
                     NULL, NULL);
    } else {
        signal(SIGXFSZ, SIG_IGN);
        setrlimit(RLIMIT_FSIZE, &small);
    }
    int taken = fill(cache);
    ck_assert_int_gt(taken, 3);
    assert_says(_i == 0 ? "the disk is full" : "refused");
    assert_says("is kept");

    /* It can still be read, here and by the next process. */
    ck_assert_int_eq(find(cache, &key, &found, 1), 1);
    spc__cache_close(cache);
    setrlimit(RLIMIT_FSIZE, &before);
    cache = open_user("user.db");
    ck_assert_int_eq(find(cache, &key, &found, 1), 1);
    ck_assert_int_eq(rows_of(cache, "artefact"), taken);
    put(cache, &key, &trial);
    spc__cache_close(cache);
}
END_TEST

/* A file system without shared memory, as NFS: a layer over SQLite's own
 * access to files whose shared memory fails. */
static sqlite3_vfs weak_vfs;
static sqlite3_vfs *real_vfs;
static sqlite3_io_methods weak_methods;

static int no_shared_memory(sqlite3_file *file, int page, int size, int extend,
                            void volatile **out)
{
    (void)file, (void)page, (void)size, (void)extend;
    *out = NULL;
    return SQLITE_PROTOCOL;
}

static int weak_open(sqlite3_vfs *vfs, sqlite3_filename name,
                     sqlite3_file *file, int flags, int *out_flags)
{
    (void)vfs;
    int rc = real_vfs->xOpen(real_vfs, name, file, flags, out_flags);
    if (rc == SQLITE_OK && file->pMethods != NULL &&
        flags & SQLITE_OPEN_MAIN_DB) {
        weak_methods = *file->pMethods;
        weak_methods.xShmMap = no_shared_memory;
        file->pMethods = &weak_methods;
    }
    return rc;
}

static void use_weak_file_system(void)
{
    real_vfs = sqlite3_vfs_find(NULL);
    weak_vfs = *real_vfs;
    weak_vfs.zName = "weak";
    weak_vfs.xOpen = weak_open;
    ck_assert_int_eq(sqlite3_vfs_register(&weak_vfs, 1), SQLITE_OK);
}

START_TEST(a_file_system_without_shared_memory_is_worked_on_all_the_same)
{
    spc__problem_key key = make_key(64, 64, 17);
    spc__trial trial = make_trial(32, 20);
    spc__choice found;

    if (_i == 1)
        make_file("user.db", 64, 30); /* made in WAL mode on a better one */
    use_weak_file_system();
    spc__cache *cache = open_user("user.db");
    put_chosen(cache, &key, &trial);
    /* A second one at the same time: no lock may be left behind. */
    spc__cache *other = open_user("user.db");
    ck_assert_int_eq(find(other, &key, &found, 1), 1);
    assert_trial_eq(&found.trial, &trial);
    put_chosen(other, &key, &trial);
    spc__cache_close(other);
    spc__cache_close(cache);
    sqlite3_vfs_unregister(&weak_vfs);
}
END_TEST

/* Several processes */

enum { WRITERS = 8, PUTS = 25 };

static void write_many(int writer)
{
    spc__cache *cache = open_user("user.db");
    spc__problem_key key = make_key(64, 64, 17);
    for (int i = 0; i < PUTS; i++) {
        spc__trial trial = make_trial(writer * PUTS + i, 30);
        put_chosen(cache, &key, &trial);
    }
    spc__cache_close(cache);
}

START_TEST(eight_processes_write_one_new_file_at_the_same_time)
{
    spc__problem_key key = make_key(64, 64, 17);
    spc__trial *trials;
    spc__choice found;
    int count;

    for (int i = 0; i < WRITERS; i++)
        if (fork() == 0) {
            write_many(i);
            _exit(0);
        }
    for (int i = 0; i < WRITERS; i++) {
        int result;
        ck_assert_int_gt(wait(&result), 0);
        ck_assert_msg(WIFEXITED(result) && WEXITSTATUS(result) == 0,
                      "a writer failed");
    }
    spc__cache *cache = open_user("user.db");
    assert_ok(spc__cache_find_trials(cache, &key, &trials, &count, &error));
    ck_assert_int_eq(count, WRITERS * PUTS);
    free(trials);
    ck_assert_int_eq(find(cache, &key, &found, 1), 1);
    spc__cache_close(cache);
}
END_TEST

/* Writes for ever, telling each trial that is stored. */
static void write_and_tell(int fd)
{
    spc__cache *cache = open_user("user.db");
    spc__problem_key key = make_key(64, 64, 17);
    for (int i = 0;; i++) {
        spc__trial trial = make_trial(i, 30);
        put_chosen(cache, &key, &trial);
        if (write(fd, "x", 1) != 1)
            _exit(1);
    }
}

static bool is_sound(const char *name)
{
    sqlite3 *db;
    sqlite3_stmt *stmt;
    ck_assert_int_eq(sqlite3_open(at(name), &db), SQLITE_OK);
    sqlite3_prepare_v2(db, "PRAGMA integrity_check", -1, &stmt, NULL);
    bool sound = sqlite3_step(stmt) == SQLITE_ROW &&
                 strcmp((const char *)sqlite3_column_text(stmt, 0), "ok") == 0;
    sqlite3_finalize(stmt);
    sqlite3_close(db);
    return sound;
}

START_TEST(a_writer_killed_in_the_middle_loses_nothing_it_told)
{
    spc__problem_key key = make_key(64, 64, 17);
    spc__trial *trials;
    int count, told = 0, ends[2];
    char byte;

    ck_assert_int_eq(pipe(ends), 0);
    pid_t writer = fork();
    if (writer == 0) {
        close(ends[0]);
        write_and_tell(ends[1]);
    }
    close(ends[1]);
    usleep((useconds_t)(4000 * _i)); /* at 0, even while it is being created */
    ck_assert_int_eq(kill(writer, SIGKILL), 0);
    ck_assert_int_eq(waitpid(writer, NULL, 0), writer);
    while (read(ends[0], &byte, 1) == 1)
        told++;
    close(ends[0]);

    spc__cache *cache = open_user("user.db");
    assert_ok(spc__cache_find_trials(cache, &key, &trials, &count, &error));
    ck_assert_int_ge(count, told);
    ck_assert_int_le(count, told + 1);
    free(trials);
    spc__cache_close(cache);
    ck_assert(is_sound("user.db"));
}
END_TEST

START_TEST(a_lock_that_stays_is_an_error_after_the_time_limit)
{
    spc__problem_key key = make_key(64, 64, 17);
    spc__trial trial = make_trial(64, 30);
    spc__cache *cache = open_user("user.db"), *other = open_user("user.db");
    spc__choice found;

    put_chosen(cache, &key, &trial);
    sqlite3_busy_timeout(cache->layers[0].db, 50);
    assert_ok(spc__layer_begin(&other->layers[0], &error));
    assert_status(
        spc__cache_put_trial(cache, &key, &trial, &provenance, &error),
        SPC_EDB);
    assert_says("another process keeps it locked");
    ck_assert_int_eq(find(cache, &key, &found, 1), 1); /* reading goes on */
    assert_ok(spc__layer_end(&other->layers[0], SPC_OK, &error));
    put(cache, &key, &trial);
    spc__cache_close(cache);
    spc__cache_close(other);
}
END_TEST

/* Memory. Every allocation fails once: SQLite's through its hooks, ours where
 * the build wraps them. */

static int allocations_left = -1; /* -1: no limit */
static bool allocation_failed;

static bool allocation_allowed(void)
{
    if (allocations_left < 0)
        return true;
    if (allocations_left-- > 0)
        return true;
    allocations_left = -1; /* once */
    allocation_failed = true;
    return false;
}

#ifdef SPC_TEST_WRAP_MALLOC
void *__real_malloc(size_t bytes);
void *__wrap_malloc(size_t bytes);
void *__real_calloc(size_t count, size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
void *__real_realloc(void *old, size_t bytes);
void *__wrap_realloc(void *old, size_t bytes);
char *__real_strdup(const char *text);
char *__wrap_strdup(const char *text);

void *__wrap_malloc(size_t bytes)
{
    return allocation_allowed() ? __real_malloc(bytes) : NULL;
}

void *__wrap_calloc(size_t count, size_t bytes)
{
    return allocation_allowed() ? __real_calloc(count, bytes) : NULL;
}

void *__wrap_realloc(void *old, size_t bytes)
{
    return allocation_allowed() ? __real_realloc(old, bytes) : NULL;
}

char *__wrap_strdup(const char *text)
{
    return allocation_allowed() ? __real_strdup(text) : NULL;
}
#endif

static sqlite3_mem_methods real_memory;

static void *limited_malloc(int bytes)
{
    return allocation_allowed() ? real_memory.xMalloc(bytes) : NULL;
}

static void *limited_realloc(void *old, int bytes)
{
    return allocation_allowed() ? real_memory.xRealloc(old, bytes) : NULL;
}

static void limit_sqlite_memory(void)
{
    sqlite3_mem_methods limited;
    sqlite3_shutdown();
    sqlite3_config(SQLITE_CONFIG_GETMALLOC, &real_memory);
    limited = real_memory;
    limited.xMalloc = limited_malloc;
    limited.xRealloc = limited_realloc;
    ck_assert_int_eq(sqlite3_config(SQLITE_CONFIG_MALLOC, &limited), SQLITE_OK);
    /* Small buffers set aside would hide allocations. */
    sqlite3_config(SQLITE_CONFIG_LOOKASIDE, 0, 0);
    sqlite3_initialize();
}

/* Whatever failed, a status said so and nothing crashed, leaked or is lost. */
START_TEST(each_allocation_may_fail)
{
    spc__problem_key key = make_key(64, 64, 17);
    spc__choice found;

    limit_sqlite_memory();
    make_full_file("user.db");
    for (int n = 0;; n++) {
        spc__cache *cache = NULL;
        allocation_failed = false;
        allocations_left = n;
        spc_status status =
            spc__cache_open(&cache, at("user.db"), NULL, 0, &error);
        if (status == SPC_OK)
            use_everything(cache);
        allocations_left = -1; /* Check allocates too */
        ck_assert((status == SPC_OK) == (cache != NULL));
        spc__cache_close(cache);
        if (!allocation_failed)
            break;
    }
    spc__cache *cache = open_user("user.db");
    ck_assert_int_eq(find(cache, &key, &found, 1), 1);
    spc__cache_close(cache);
    ck_assert(is_sound("user.db"));
}
END_TEST

/* How fast, for the record: generous limits, so that a loaded machine or a
 * sanitizer does not fail them. SPC_TEST_TIMES prints what was measured. */
START_TEST(a_hot_lookup_is_a_matter_of_microseconds)
{
    spc__problem_key key = make_key(64, 64, 17);
    spc__choice found[8];
    double open_us[50], hot_us[2000], wide_us[2000];
    spc__cache *cache = NULL;

    make_full_file("user.db");
    for (int i = 0; i < LENGTH(open_us); i++) {
        spc__cache_close(cache);
        uint64_t start = spc__now_ns();
        cache = open_user("user.db");
        find(cache, &key, found, 1);
        open_us[i] = (double)(spc__now_ns() - start) / 1000;
    }
    for (int i = 0; i < LENGTH(hot_us); i++) {
        uint64_t start = spc__now_ns();
        ck_assert_int_eq(find(cache, &key, found, 1), 1);
        hot_us[i] = (double)(spc__now_ns() - start) / 1000;
        start = spc__now_ns();
        ck_assert_int_eq(find(cache, &key, found, 8), 8);
        wide_us[i] = (double)(spc__now_ns() - start) / 1000;
    }
    spc__cache_close(cache);
    double open = spc__median(open_us, LENGTH(open_us));
    double hot = spc__median(hot_us, LENGTH(hot_us));
    double wide = spc__median(wide_us, LENGTH(wide_us));
    if (getenv("SPC_TEST_TIMES") != NULL)
        fprintf(stderr,
                "open + first lookup %.0f us, exact %.1f us, eight of thirty "
                "%.1f us\n",
                open, hot, wide);
    ck_assert_double_lt(open, 20000);
    ck_assert_double_lt(hot, 500);
}
END_TEST

/* 5000 choices: 40 classes of rows, 5 of density, 25 pairs of channels. */
static void make_large_file(const char *name)
{
    make_file(name, 64, 30);
    sql(name,
        "WITH RECURSIVE n (i) AS"
        " (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 4999)"
        " INSERT INTO problem (device, layer, target, rows_bucket,"
        "  density_bucket, cin, cout, shape)"
        " SELECT device, replace(replace(layer, 'cin=64', 'cin=' ||"
        "  (8 << i / 200 % 5)), 'cout=64', 'cout=' || (8 << i / 1000)),"
        "  'sm_80', 10 + i % 40, -8 + i / 40 % 5, 8 << i / 200 % 5,"
        "  8 << i / 1000, shape FROM problem, n WHERE id = 1;"
        "INSERT INTO trial (problem, template, template_hash, config, status,"
        "  median_us, samples, log2_rows, density, verified, artefact, launch,"
        "  resources, note, provenance, unix_seconds)"
        " SELECT p.id, template, template_hash, config, status, median_us,"
        "  samples, rows_bucket / 2.0, density, verified, artefact, launch,"
        "  resources, note, provenance, unix_seconds FROM problem AS p, trial "
        "AS t"
        "  WHERE p.id > 1 AND t.id = 1;"
        "INSERT INTO choice SELECT t.problem, t.id, 'fastest', provenance, 0"
        " FROM trial AS t WHERE t.id > 1");
}

START_TEST(a_near_lookup_among_thousands_is_a_matter_of_microseconds)
{
    spc__problem_key key = make_key(48, 24, 12.2);
    spc__choice found[8];
    double one_us[300], eight_us[300], first;
    spc__cache *cache;

    make_large_file("user.db");
    cache = open_user("user.db");
    uint64_t start = spc__now_ns();
    ck_assert_int_eq(find(cache, &key, found, 1), 1);
    first = (double)(spc__now_ns() - start) / 1000;
    for (int i = 0; i < LENGTH(one_us); i++) {
        start = spc__now_ns();
        ck_assert_int_eq(find(cache, &key, found, 1), 1);
        one_us[i] = (double)(spc__now_ns() - start) / 1000;
        start = spc__now_ns();
        ck_assert_int_eq(find(cache, &key, found, 8), 8);
        eight_us[i] = (double)(spc__now_ns() - start) / 1000;
    }
    spc__cache_close(cache);
    ck_assert_int_eq(found[0].match, SPC__MATCH_NEAREST);
    ck_assert_double_eq(found[0].key.log2_rows, 12);
    ck_assert_int_eq(spc__attrs_number(&found[0].key.layer, "cin", 0), 64);
    ck_assert_int_eq(spc__attrs_number(&found[0].key.layer, "cout", 0), 32);
    double one = spc__median(one_us, LENGTH(one_us));
    double eight = spc__median(eight_us, LENGTH(eight_us));
    if (getenv("SPC_TEST_TIMES") != NULL)
        fprintf(stderr,
                "near among 5000: first %.0f us, one %.1f us, eight %.1f us\n",
                first, one, eight);
    ck_assert_double_lt(one, first / 8); /* which reads them all */
}
END_TEST

static TCase *records(void)
{
    TCase *tc = tcase_create("records");
    tcase_add_checked_fixture(tc, make_folder, remove_folder);
    tcase_add_test(tc, a_choice_that_was_put_is_found_exactly);
    tcase_add_test(tc, a_later_choice_replaces_the_earlier_one);
    tcase_add_test(tc, what_was_put_is_there_in_the_next_process);
    tcase_add_test(tc, every_kind_of_trial_comes_back_as_it_was);
    tcase_add_test(tc, a_trial_timed_again_replaces_itself);
    tcase_add_test(tc, only_a_trial_that_was_put_and_ran_may_be_chosen);
    tcase_add_test(tc, an_artefact_is_stored_once_and_comes_back_whole);
    tcase_add_test(tc, a_damaged_artefact_is_refused_and_can_be_put_again);
    tcase_add_test(tc, facts_of_a_device_add_up);
    tcase_add_test(tc, a_listing_tells_each_problem_with_its_choice);
    tcase_add_test(tc, a_cache_without_files_finds_nothing_and_stores_nothing);
    tcase_add_loop_test(tc, buckets_are_half_octaves, 0, LENGTH(buckets));
    tcase_add_loop_test(tc, a_neighbour_is_found_at_its_distance, 0,
                        LENGTH(neighbours));
    tcase_add_loop_test(tc, a_bucket_out_of_range_is_far_away, 0, 4);
    tcase_add_test(tc, what_differs_in_more_than_channels_is_no_neighbour);
    tcase_add_test(tc, a_near_lookup_sees_what_was_put_since);
    tcase_add_test(tc, neighbours_come_in_the_order_of_match_and_distance);
    return tc;
}

static TCase *layers(void)
{
    TCase *tc = tcase_create("layers");
    tcase_add_checked_fixture(tc, make_folder, remove_folder);
    tcase_add_loop_test(tc, the_best_record_of_all_layers_wins, 0,
                        LENGTH(contests));
    tcase_add_test(tc, layers_complete_each_other);
    tcase_add_loop_test(tc, a_damaged_trial_hides_no_other, 0,
                        2 * LENGTH(damages));
    tcase_add_loop_test(tc, a_shipped_file_is_read_where_nothing_can_be_written,
                        0, 2);
    tcase_add_loop_test(
        tc, a_layer_whose_writer_was_stopped_is_read_with_its_journal, 0, 3);
    tcase_add_test(tc, a_layer_that_is_being_written_shows_what_was_put_since);
    tcase_add_loop_test(tc, a_journal_that_cannot_be_read_is_named, 0, 3);
    tcase_add_test(tc, a_layer_that_is_not_there_is_named_and_creates_nothing);
    tcase_add_test(tc, a_layer_that_breaks_later_does_not_hide_the_others);
    return tc;
}

static TCase *conditions(void)
{
    TCase *tc = tcase_create("conditions");
    tcase_set_timeout(tc, 60);
    tcase_add_checked_fixture(tc, make_folder, remove_folder);
    tcase_add_loop_test(
        tc, a_file_that_will_not_do_is_refused_in_words_and_left_alone, 0,
        LENGTH(refusals));
    tcase_add_test(tc, an_empty_file_is_filled_but_not_as_a_shipped_one);
    tcase_add_loop_test(tc, a_corrupt_file_is_an_error_and_never_a_crash, 0, 4);
    tcase_add_loop_test(tc, a_record_that_makes_no_sense_is_reported_as_damage,
                        0, 4);
    tcase_add_test(tc, an_unwritable_parent_is_named);
    tcase_add_test(tc, a_file_where_a_folder_should_be_is_named);
    tcase_add_test(tc, an_unreadable_file_is_named);
    tcase_add_loop_test(tc, a_read_only_file_is_read_and_takes_no_writes, 0, 8);
    tcase_add_loop_test(tc, a_full_disk_loses_nothing_that_was_stored, 0, 2);
    tcase_add_loop_test(
        tc, a_file_system_without_shared_memory_is_worked_on_all_the_same, 0,
        2);
    tcase_add_test(tc, eight_processes_write_one_new_file_at_the_same_time);
    tcase_add_loop_test(tc, a_writer_killed_in_the_middle_loses_nothing_it_told,
                        0, 8);
    tcase_add_test(tc, a_lock_that_stays_is_an_error_after_the_time_limit);
    tcase_add_test(tc, each_allocation_may_fail);
    tcase_add_test(tc, a_hot_lookup_is_a_matter_of_microseconds);
    tcase_add_test(tc,
                   a_near_lookup_among_thousands_is_a_matter_of_microseconds);
    return tc;
}

Suite *suite(void)
{
    Suite *all = suite_create("cache");
    suite_add_tcase(all, records());
    suite_add_tcase(all, layers());
    suite_add_tcase(all, conditions());
    return all;
}

int main(void)
{
    return run_suite(suite());
}
