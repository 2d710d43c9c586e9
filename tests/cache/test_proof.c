/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_proof.c - databases with flipped bits, and full disks. Answers are
 * correct, or an error message names the fault.
 */
#include "harness/cache_harness.h"

#include "cache/lease.h"
#include "compiler/artefact.h"
#include "spc.h"
#include "spc/lab.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <sys/resource.h>
#include <sys/wait.h>

Suite *suite(void);

static void run_sql(sqlite3 *db, const char *text)
{
    char *message = NULL;

    sqlite3_exec(db, text, NULL, NULL, &message);
    ck_assert_msg(message == NULL, "%s: %s", text, message);
}

static sqlite3 *open_sql(const char *name)
{
    sqlite3 *db = NULL;

    ck_assert_int_eq(sqlite3_open(at(name), &db), SQLITE_OK);
    sqlite3_create_collation(db, "spc_buckets", SQLITE_UTF8, NULL,
                             spc__compare_buckets);
    return db;
}

static void copy_file(const char *to, const char *from)
{
    spc__buf bytes = SPC__BUF_INIT;

    assert_ok(spc__file_read(&bytes, at(from), 1 << 28, &error));
    remove_file(to);
    assert_ok(spc__file_write(at(to), bytes.data, bytes.length, &error));
    spc__buf_release(&bytes);
}

/* ---- a bit of any column ------------------------------------------------- */

/* Checks that all remaining lines are lines of the original. */
static void assert_part_of(const char *left, const char *whole, const char *how)
{
    while (*left != '\0') {
        size_t length = strcspn(left, "\n") + 1;
        const char *found = memmem(whole, strlen(whole), left, length);
        ck_assert_msg(found != NULL, "%s made of it: %.*s", how, (int)length,
                      left);
        left += length;
    }
}

typedef struct asked {
    spc__problem_key key;
    spc__choice found[4];
    int count;
    spc__trial *trials; /* all trials of the file */
    int trial_count;
} asked;

/* Enough samples to include every key. */
enum { KEYS = 64 };

/* Records the answers of look-ups, including those for several choices. */
static void ask_all(asked *out, spc__cache *cache)
{
    uint64_t seed = 1;

    for (int i = 0; i < KEYS; i++) {
        out[i].key = draw_key(&seed);
        out[i].count = 0;
        spc__cache_find_choices(cache, &out[i].key, out[i].found, 4,
                                &out[i].count, &error);
    }
}

static void ask_whole(asked *out)
{
    spc__cache *cache = open_user("whole.db");

    ask_all(out, cache);
    for (int i = 0; i < KEYS; i++)
        assert_ok(spc__cache_find_trials(cache, &out[i].key, &out[i].trials,
                                         &out[i].trial_count, &error));
    spc__cache_close(cache);
}

static void forget(asked *all)
{
    for (int i = 0; i < KEYS; i++)
        free(all[i].trials);
}

static bool same_trial(const spc__trial *a, const spc__trial *b)
{
    return a->samples == b->samples &&
           memcmp(&a->median_us, &b->median_us, 8) == 0 &&
           strcmp(a->template_name, b->template_name) == 0 &&
           strcmp(a->artefact, b->artefact) == 0 &&
           spc__attrs_equal(&a->config, &b->config) &&
           spc__attrs_equal(&a->launch, &b->launch);
}

static bool same_key(const spc__problem_key *a, const spc__problem_key *b)
{
    return spc__attrs_equal(&a->layer, &b->layer) &&
           strcmp(a->device, b->device) == 0;
}

static bool same_choice(const spc__choice *a, const spc__choice *b)
{
    return a->problem == b->problem && same_trial(&a->trial, &b->trial) &&
           same_key(&a->key, &b->key);
}

/* True if a replacement of a damaged choice is a trial that existed before the
 * damage. */
static bool was_tried(const spc__choice *found, const asked *then)
{
    if (strcmp(found->reason, SPC__NEXT_REASON) != 0)
        return false;
    for (int i = 0; i < KEYS; i++)
        for (int n = 0; n < then[i].trial_count; n++)
            if (same_key(&found->key, &then[i].key) &&
                same_trial(&found->trial, &then[i].trials[n]))
                return true;
    return false;
}

/* True if the choice existed before the damage. A damaged index may return it
 * under another key; the caller checks whether it can serve. */
static bool is_known(const spc__choice *found, const asked *then)
{
    for (int i = 0; i < KEYS; i++)
        for (int n = 0; n < then[i].count; n++)
            if (same_choice(found, &then[i].found[n]))
                return true;
    return false;
}

static void assert_answers(const asked *now, const asked *then, const char *how)
{
    for (int i = 0; i < KEYS; i++)
        for (int n = 0; n < now[i].count; n++)
            ck_assert_msg(is_known(&now[i].found[n], then) ||
                              was_tried(&now[i].found[n], then),
                          "%s: a choice that there was not", how);
}

/* Checks that a lease can be taken without an error, and is not lost
 * forever. */
static void ask_lease(spc__cache *cache, const char *how)
{
    char holder[SPC__LEASE_OWNER];
    bool taken;

    error.text[0] = '\0';
    spc_status status =
        spc__lease_take(&taken, holder, cache, "work", 1, &error);
    ck_assert_msg(status == SPC_OK || error.text[0] != '\0', "%s", how);
}

/* Opens the file and makes every query. A refusal gives a reason. */
static int networks_read;

static void check_hurt(const char *whole, const asked *then, const char *how)
{
    static asked now[KEYS];
    spc__cache *cache = NULL;
    spc__buf text = SPC__BUF_INIT;
    int64_t damaged = 0;
    const char *file = at("hurt.db");
    char words[200];

    error.text[0] = '\0';
    if (spc__cache_open(&cache, NULL, &file, 1, &error) != SPC_OK) {
        ck_assert_msg(error.text[0] != '\0', "%s: no sentence", how);
        return;
    }
    ask_all(now, cache);
    assert_answers(now, then, how);
    spc_status status =
        spc__cache_export(cache, true, append_text, &text, &damaged, &error);
    ck_assert_msg(status == SPC_OK || error.text[0] != '\0', "%s", how);
    if (status == SPC_OK) {
        char *lines = spread(spc__buf_detach(&text));
        assert_part_of(lines, whole, how);
        free(lines);
    }
    spc__buf_release(&text);
    snprintf(words, sizeof(words), "%s", how);
    networks_read += ask_network(cache, words);
    spc__cache_close(cache);
    if (spc__cache_open(&cache, file, NULL, 0, &error) == SPC_OK)
        ask_lease(cache, how);
    spc__cache_close(cache);
}

/* Flips one bit of a value of any type. */
static int flip(sqlite3 *db, const char *table, const char *column, int row,
                int bit)
{
    char text[900];

    run_sql(db, "PRAGMA writable_schema = 0");
    snprintf(text, sizeof(text),
             "UPDATE OR IGNORE %s SET %s = CASE typeof(%s)"
             " WHEN 'integer' THEN (%s | %d) - (%s & %d)"
             " WHEN 'real' THEN %s + %d * 0.125"
             " WHEN 'null' THEN %d"
             " ELSE CAST(substr(CAST(%s AS BLOB), 1, %d) || char((unicode("
             "substr(%s, %d, 1)) | %d) - (unicode(substr(%s, %d, 1)) & %d))"
             " || substr(CAST(%s AS BLOB), %d) AS TEXT) END WHERE (SELECT"
             " count(*) FROM %s AS o WHERE o.%s < %s.%s) = %d",
             table, column, column, column, 1 << bit, column, 1 << bit, column,
             1 << bit, bit, column, bit % 3, column, bit % 3 + 1, 1 << bit % 5,
             column, bit % 3 + 1, 1 << bit % 5, column, bit % 3 + 2, table,
             column, table, column, row);
    /* a constraint may refuse the change */
    sqlite3_exec(db, text, NULL, NULL, NULL);
    return sqlite3_changes(db) > 0;
}

typedef struct byte_at {
    char table[32], column[32];
} byte_at;

static int list_bytes(byte_at *out, int most)
{
    static const char question[] =
        "SELECT m.name, i.name FROM sqlite_master AS m,"
        " pragma_table_info(m.name) AS i WHERE m.type = 'table'";
    sqlite3 *db = open_sql("whole.db");
    sqlite3_stmt *stmt = NULL;
    int count = 0;

    sqlite3_prepare_v2(db, question, -1, &stmt, NULL);
    while (count < most && sqlite3_step(stmt) == SQLITE_ROW) {
        spc__column_text(out[count].table, 32, stmt, 0);
        spc__column_text(out[count++].column, 32, stmt, 1);
    }
    sqlite3_finalize(stmt);
    sqlite3_close(db);
    return count;
}

static void make_whole(void)
{
    uint64_t seed = 5;
    bool taken;
    sqlite3 *db;

    make_drawn("whole.db", &seed, 30);
    spc__cache *cache = open_user("whole.db");
    assert_ok(put_network(cache, "made", false));
    assert_ok(spc__lease_take(&taken, NULL, cache, "work", 600, &error));
    spc__cache_close(cache);
    db = open_sql("whole.db");
    run_sql(db, "PRAGMA journal_mode = DELETE");
    sqlite3_close(db);
}

/* Tries every column of every table: some bits of some rows, many on
 * request. */
START_TEST(a_bit_that_flips_changes_no_answer)
{
    static asked then[KEYS];
    byte_at bytes_at[100];
    int rounds = suite_wants_all() ? 30 : 1, flips = 0;

    make_whole();
    char *whole = spread(text_of("whole.db"));
    ask_whole(then);
    int count = list_bytes(bytes_at, 100);
    ck_assert_int_gt(count, 60);
    for (int i = 0; i < count * rounds; i++) {
        const byte_at *p = &bytes_at[i % count];
        int bit = (i / count + suite_variant()) % 7, row = (i / count) % 4;
        char how[120];
        snprintf(how, sizeof(how), "bit %d of %s.%s, row %d", bit, p->table,
                 p->column, row);
        copy_file("hurt.db", "whole.db");
        sqlite3 *db = open_sql("hurt.db");
        flips += flip(db, p->table, p->column, row, bit);
        sqlite3_close(db);
        check_hurt(whole, then, how);
    }
    /* some tables have fewer than 4 rows */
    ck_assert_int_gt(flips, count * rounds / 4);
    ck_assert_int_gt(networks_read, count * rounds / 2);
    ck_assert_int_lt(networks_read, count * rounds);
    forget(then);
    free(whole);
}
END_TEST

/* Changes bytes anywhere in the file, also where no SQL statement can. */
START_TEST(a_byte_that_changes_changes_no_answer)
{
    static asked then[KEYS];
    uint64_t seed = 1 + (uint64_t)suite_variant();
    spc__buf bytes = SPC__BUF_INIT;

    make_whole();
    char *whole = spread(text_of("whole.db"));
    ask_whole(then);
    for (int i = 0; i < (suite_wants_all() ? 5000 : 60); i++) {
        char how[60];
        spc__buf_clear(&bytes);
        assert_ok(spc__file_read(&bytes, at("whole.db"), 1 << 28, &error));
        size_t where = draw_bits(&seed) % bytes.length;
        bytes.data[where] ^= (char)(1 << draw(&seed, 8));
        remove_file("hurt.db");
        assert_ok(
            spc__file_write(at("hurt.db"), bytes.data, bytes.length, &error));
        snprintf(how, sizeof(how), "byte %zu", where);
        check_hurt(whole, then, how);
    }
    spc__buf_release(&bytes);
    forget(then);
    free(whole);
}
END_TEST

/* ---- a disk that is full ------------------------------------------------- */

/* Limits the size of files, like a full disk. */
static void limit_files(rlim_t bytes)
{
    struct rlimit limit = {bytes, RLIM_INFINITY};

    signal(SIGXFSZ, SIG_IGN);
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

/* Merges into a file that cannot grow beyond a random size. */
START_TEST(a_merge_into_a_full_disk_is_whole_or_nothing)
{
    uint64_t seed = 3;
    int failed = 0, done = 0;

    make_drawn("into.db", &seed, 10);
    make_drawn("from.db", &seed, 60);
    char *before = text_of("into.db");
    copy_file("all.db", "into.db");
    const char *from = at("from.db");
    for (int i = 0; i < (suite_wants_all() ? 200 : 12); i++) {
        spc__exchange exchange = {0};
        copy_file("full.db", "into.db");
        spc__cache *cache = open_user("full.db");
        limit_files((rlim_t)(4096 + i * (suite_wants_all() ? 4096 : 24576)));
        error.text[0] = '\0';
        spc_status status = spc__cache_merge(cache, from, &exchange, &error);
        limit_files(RLIM_INFINITY);
        spc__cache_close(cache);
        if (status == SPC_OK) {
            done++;
            continue;
        }
        failed++;
        ck_assert_int_eq(status, SPC_EDB);
        ck_assert_ptr_ne(strstr(error.text, "full.db"), NULL);
        char *after = text_of("full.db");
        ck_assert_str_eq(after, before);
        free(after);
    }
    ck_assert_int_gt(failed, 0);
    ck_assert_int_gt(done, 0);
    free(before);
}
END_TEST

/* ---- checking code ------------------------------------------------------- */

typedef struct cubin {
    Elf64_Ehdr header;
    Elf64_Shdr sections[3]; /* null section, names, code */
    char names[32], code[16];
} cubin;

static cubin make_cubin(unsigned capability)
{
    cubin it = {
        .header = {.e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB},
                   .e_machine = EM_CUDA,
                   .e_flags = capability,
                   .e_shoff = offsetof(cubin, sections),
                   .e_shentsize = sizeof(Elf64_Shdr),
                   .e_shnum = 3,
                   .e_shstrndx = 1},
        .sections = {[1] = {.sh_name = 1,
                            .sh_type = SHT_STRTAB,
                            .sh_offset = offsetof(cubin, names),
                            .sh_size = 32},
                     [2] = {.sh_name = 11,
                            .sh_type = SHT_PROGBITS,
                            .sh_offset = offsetof(cubin, code),
                            .sh_size = 16}},
    };

    memcpy(it.names, "\0.shstrtab\0.text.spc_conv", 26);
    return it;
}

START_TEST(a_driver_gets_only_whole_code_for_its_gpu)
{
    cubin it = make_cubin(80);

    assert_ok(spc__cubin_check(&it, sizeof(it), 80, &error));
    assert_ok(spc__cubin_check(&it, sizeof(it), 86, &error));
    assert_status(spc__cubin_check(&it, sizeof(it), 90, &error), SPC_EFORMAT);
    it.header.e_flags = 86;
    assert_status(spc__cubin_check(&it, sizeof(it), 80, &error), SPC_EFORMAT);
    for (size_t bytes = 0; bytes < sizeof(it); bytes++) {
        /* small, so that AddressSanitizer sees overreads */
        char *part = malloc(bytes + 1);
        memcpy(part, &it, bytes);
        ck_assert_int_ne(spc__cubin_check(part, bytes, 86, &error), SPC_OK);
        free(part);
    }
    it.sections[2].sh_offset = 1u << 30;
    assert_status(spc__cubin_check(&it, sizeof(it), 86, &error), SPC_EFORMAT);
    it = make_cubin(86);
    it.header.e_machine = EM_X86_64;
    assert_status(spc__cubin_check(&it, sizeof(it), 86, &error), SPC_EFORMAT);
}
END_TEST

START_TEST(a_scene_larger_than_memory_is_refused_before_it_is_asked_for)
{
    static const int32_t none[4];
    spc_scene *scene = NULL;
    double bytes =
        (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
    int64_t rows = (int64_t)(bytes / 32) + 1;

    if (rows > INT32_MAX) /* this machine's memory holds the largest scene */
        return;
    assert_status(spc_scene_create(&scene, none, rows, "huge", &error),
                  SPC_ENOMEM);
    ck_assert_ptr_ne(strstr(error.text, "this machine has"), NULL);
}
END_TEST

START_TEST(what_was_set_aside_is_called_damaged)
{
    spc__problem_key key;
    spc__choice found;
    char reason[200];
    int count;
    uint64_t seed = 1;
    spc__trial trial = draw_trial(&seed);
    spc__provenance from = draw_provenance(&seed);
    spc__cache *cache = open_user("user.db");

    key = draw_key(&seed);
    trial.status = SPC__TRIAL_OK;
    assert_ok(spc__cache_put_trial(cache, &key, &trial, &from, &error));
    assert_ok(spc__cache_put_choice(cache, &key, &trial, "", &from, &error));
    spc__cache_set_aside(cache, &key, reason, sizeof(reason));
    ck_assert_str_eq(reason, "");
    run_sql(cache->layers[0].db, "UPDATE trial SET samples = 12");
    spc__cache_find_choices(cache, &key, &found, 1, &count, &error);
    ck_assert_int_eq(count, 0);
    spc__cache_set_aside(cache, &key, reason, sizeof(reason));
    ck_assert_msg(strstr(reason, "damaged") != NULL, "'%s'", reason);
    spc__cache_close(cache);
}
END_TEST

Suite *suite(void)
{
    Suite *all = suite_create("proof");
    TCase *part = tcase_create("proof");

    suite_sample(1);
    tcase_set_timeout(part, 7200);
    tcase_add_checked_fixture(part, make_fast_folder, remove_folder);
    tcase_add_test(part, a_bit_that_flips_changes_no_answer);
    tcase_add_test(part, a_byte_that_changes_changes_no_answer);
    tcase_add_test(part, a_merge_into_a_full_disk_is_whole_or_nothing);
    tcase_add_test(part, a_driver_gets_only_whole_code_for_its_gpu);
    tcase_add_test(
        part, a_scene_larger_than_memory_is_refused_before_it_is_asked_for);
    tcase_add_test(part, what_was_set_aside_is_called_damaged);
    suite_add_tcase(all, part);
    return all;
}

int main(void)
{
    return run_suite(suite());
}
