/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_pack.c - shipped files: the content of a pack, its signature, and
 * pruning before it.
 */
#include "harness/cache_harness.h"

#include "cache/exchange/code_form.h"
#include "cache/keep.h"
#include "cache/pack/manifest.h"
#include "cache/pack/pack.h"
#include "cache/pack/signature.h"

#include <dirent.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#ifdef SPC_WITH_SODIUM
#include "base/base64.h"
#include <sodium.h>
#endif

Suite *suite(void);

static spc__pack_report packed;

static void sql(const char *name, const char *text)
{
    sqlite3 *db = NULL;
    char *message = NULL;

    ck_assert_int_eq(sqlite3_open(at(name), &db), SQLITE_OK);
    ck_assert_int_eq(spc__seal_open(db), SQLITE_OK);
    sqlite3_exec(db, text, NULL, NULL, &message);
    ck_assert_msg(message == NULL, "%s: %s", text, message);
    sqlite3_close(db);
}

/* ---- a database to pack -------------------------------------------------- */

enum { CODE_BYTES = 20000 };

static char code_of_winner[CODE_BYTES];

static spc__trial make_trial(int rows, double us)
{
    spc__trial trial = {.template_name = "os_mma",
                        .template_hash = "00ff",
                        .median_us = us,
                        .samples = 5,
                        .verified = true};

    spc__attrs_set_number(&trial.config, "rows", rows);
    snprintf(trial.artefact, sizeof(trial.artefact), "key%d", rows);
    return trial;
}

static spc__problem_key make_key(int cin)
{
    spc__problem_key key = {0};

    spc__attrs_set_number(&key.layer, "cin", cin);
    spc__attrs_set_text(&key.family, "op", "subm");
    spc__feature_add(&key, "rows", 17, 1, 0.5);
    strcpy(key.device, "NVIDIA H200");
    strcpy(key.target, "sm_90a");
    return key;
}

static const spc__provenance from = {.version = "0.1.0",
                                     .unix_seconds = 1750000000};

static void put_code(spc__cache *cache, const char *key)
{
    spc__attrs none = {0};

    for (int i = 0; i < CODE_BYTES; i++) /* compressible data */
        code_of_winner[i] = (char)(i % 97 * (i % 7));
    memcpy(code_of_winner, "\177ELF", 4);
    assert_ok(spc__cache_put_artefact(cache, key, "sm_90a", "nvrtc", "is",
                                      &none, &none, code_of_winner, CODE_BYTES,
                                      &error));
}

/* Two trials of one problem, the first chosen; a code record; a fact. */
static void make_tuned(const char *name)
{
    spc__cache *cache = open_user(name);
    spc__problem_key key = make_key(64), code = make_key(1);
    spc__trial winner = make_trial(64, 10), loser = make_trial(128, 20);
    spc__trial record = make_trial(32, 0);
    spc__attrs facts = {0};

    record.samples = 0;
    put_code(cache, "key64");
    put_code(cache, "key128");
    put_code(cache, "key32");
    assert_ok(spc__cache_put_trial(cache, &key, &winner, &from, &error));
    assert_ok(spc__cache_put_trial(cache, &key, &loser, &from, &error));
    assert_ok(spc__cache_put_trial(cache, &code, &record, &from, &error));
    assert_ok(
        spc__cache_put_choice(cache, &key, &winner, "fastest", &from, &error));
    spc__attrs_set_number(&facts, "copy_gbps", 4300);
    assert_ok(spc__cache_put_device(cache, "NVIDIA H200", &facts, &error));
    spc__cache_close(cache);
}

static void pack(const char *name, const char *into)
{
    spc__cache *cache = open_user(name);

    assert_ok(spc__cache_pack(cache, at(into), SPC__PACK_APART, NULL, &packed,
                              &error));
    spc__cache_close(cache);
}

/* Opens the pack with the key, or without one if NULL. */
static spc__cache *open_pack(const char *key)
{
    const char *files[] = {at("pack.db"), at("pack.sm_90a.db")};
    spc__cache *cache = NULL;

    assert_ok(spc__cache_open_signed(&cache, NULL, files, 2, key, &error));
    return cache;
}

static int find(spc__cache *cache, spc__choice *found)
{
    spc__problem_key key = make_key(64);
    int count = 0;

    spc__cache_find_choices(cache, &key, found, 1, &count, &error);
    return count;
}

static spc_status get_code(spc__cache *cache, const char *key)
{
    spc__code_wanted wanted = {.key = key, .target = "sm_90a"};
    void *code = NULL;
    size_t bytes = 0;
    spc_status status =
        spc__cache_get_artefact(cache, &wanted, &code, &bytes, NULL, &error);

    if (status == SPC_OK) {
        ck_assert_uint_eq(bytes, CODE_BYTES);
        ck_assert_mem_eq(code, code_of_winner, CODE_BYTES);
    }
    free(code);
    return status;
}

/* ---- packs --------------------------------------------------------------- */

START_TEST(a_pack_holds_what_serves_and_nothing_else)
{
    spc__choice found;

    make_tuned("from.db");
    pack("from.db", "pack.db");
    ck_assert_int_eq(packed.choices, 1);
    ck_assert_int_eq(packed.trials, 2);
    ck_assert_int_eq(packed.code, 2);
    ck_assert_int_eq(packed.files, 2);
    spc__cache *cache = open_pack(NULL);
    ck_assert_int_eq(find(cache, &found), 1);
    ck_assert_str_eq(found.trial.artefact, "key64");
    assert_ok(get_code(cache, "key64"));
    assert_ok(get_code(cache, "key32"));
    assert_status(get_code(cache, "key128"), SPC_ENOTFOUND);
    spc__cache_close(cache);
}
END_TEST

/* The pack is read as a layer and as the database itself. Neither use writes to
 * it. */
START_TEST(a_whole_pack_is_all_that_there_is)
{
    spc__problem_key key = make_key(64);
    spc__trial trial = make_trial(256, 5);
    spc__buf before = SPC__BUF_INIT, after = SPC__BUF_INIT;
    spc__cache *cache;
    spc__choice found;

    make_tuned("from.db");
    cache = open_user("from.db");
    assert_ok(spc__cache_pack(cache, at("whole.db"), SPC__PACK_WHOLE, NULL,
                              &packed, &error));
    spc__cache_close(cache);
    ck_assert_int_eq(packed.files, 1);
    ck_assert_int_eq(packed.code, 2);
    ck_assert_int_ne(access(at("whole.sm_90a.db"), F_OK), 0);
    assert_ok(spc__file_read(&before, at("whole.db"), 1 << 24, &error));
    for (int as_layer = 0; as_layer < 2; as_layer++) {
        const char *file = at("whole.db");
        assert_ok(spc__cache_open(&cache, as_layer ? NULL : file, &file,
                                  as_layer, &error));
        ck_assert_int_eq(find(cache, &found), 1);
        assert_ok(get_code(cache, "key64"));
        assert_ok(get_code(cache, "key32"));
        assert_status(get_code(cache, "key128"), SPC_ENOTFOUND);
        assert_status(spc__cache_put_trial(cache, &key, &trial, &from, &error),
                      SPC_EDB);
        ck_assert(as_layer || strstr(error.text, "it is a pack") != NULL);
        ck_assert_int_ne(access(at("whole.db-wal"), F_OK), 0);
        spc__cache_close(cache);
    }
    assert_ok(spc__file_read(&after, at("whole.db"), 1 << 24, &error));
    ck_assert_uint_eq(after.length, before.length);
    ck_assert_mem_eq(after.data, before.data, before.length);
    spc__buf_release(&before);
    spc__buf_release(&after);
}
END_TEST

/* An earlier pack of the same name had code files, which contexts would read
 * along with the new pack. Files of other packs, and files of no pack, must
 * stay. */
START_TEST(code_of_an_earlier_pack_of_the_name_is_removed)
{
    spc__cache *cache;
    int whole = _i;

    make_tuned("from.db");
    pack("from.db", "pack.db");
    pack("from.db", "pack.sm_100a.db"); /* also writes pack.sm_100a.sm_90a.db */
    ck_assert_int_eq(packed.removed, 0);
    cache = open_user("pack.sm_80.db"); /* a file of no pack */
    spc__cache_close(cache);
    assert_ok(spc__file_write(at("pack.x.db"), "text", 4, &error));
    cache = open_user(whole ? "from.db" : "empty.db");
    assert_ok(spc__cache_pack(cache, at("pack.db"),
                              whole ? SPC__PACK_WHOLE : SPC__PACK_APART, NULL,
                              &packed, &error));
    spc__cache_close(cache);
    ck_assert_int_eq(packed.removed, 1);
    ck_assert_int_ne(access(at("pack.sm_90a.db"), F_OK), 0);
    ck_assert_int_eq(access(at("pack.sm_100a.db"), F_OK), 0);
    ck_assert_int_eq(access(at("pack.sm_100a.sm_90a.db"), F_OK), 0);
    ck_assert_int_eq(access(at("pack.sm_80.db"), F_OK), 0);
    ck_assert_int_eq(access(at("pack.x.db"), F_OK), 0);
    ck_assert(strstr(packed.left, "/pack.sm_80.db") != NULL ||
              strstr(packed.left, "/pack.sm_100a.db") != NULL);
}
END_TEST

START_TEST(a_pack_is_one_file_without_a_journal)
{
    static const char *const files[] = {"pack.db", "pack.sm_90a.db"};
    spc__buf bytes = SPC__BUF_INIT;

    make_tuned("from.db");
    pack("from.db", "pack.db");
    for (int i = 0; i < 2; i++) {
        spc__buf_clear(&bytes);
        assert_ok(spc__file_read(&bytes, at(files[i]), 1 << 24, &error));
        /* 1 means a rollback journal (https://sqlite.org/fileformat2.html). */
        ck_assert_int_eq(bytes.data[18], 1);
        ck_assert_int_eq(bytes.data[19], 1);
    }
    ck_assert_int_ne(access(at("pack.db-wal"), F_OK), 0);
    spc__buf_release(&bytes);
}
END_TEST

START_TEST(code_is_compressed_where_zstd_is_there)
{
    make_tuned("from.db");
    pack("from.db", "pack.db");
    ck_assert_int_eq(packed.code_bytes, 2 * CODE_BYTES);
    ck_assert_int_eq(packed.compressed, spc__code_can_pack());
    spc__buf bytes = SPC__BUF_INIT;
    assert_ok(spc__file_read(&bytes, at("pack.sm_90a.db"), 1 << 24, &error));
    if (spc__code_can_pack())
        ck_assert_ptr_ne(
            memmem(bytes.data, bytes.length, "\x28\xb5\x2f\xfd", 4), NULL);
    spc__buf_release(&bytes);
}
END_TEST

/* SQLite attaches ten files at most, so each layer is opened separately. */
START_TEST(there_may_be_any_number_of_layers)
{
    enum { LAYERS = 24 };
    static char names[LAYERS][450];
    const char *files[LAYERS];
    spc__cache *cache = NULL;
    spc__choice found;

    make_tuned("from.db");
    pack("from.db", "pack.db");
    spc__cache_close(open_user("empty.db"));
    for (int i = 0; i < LAYERS; i++) {
        snprintf(names[i], sizeof(names[i]), "%s",
                 at(i < LAYERS - 1 ? "empty.db" : "pack.db"));
        files[i] = names[i];
    }
    assert_ok(spc__cache_open(&cache, NULL, files, LAYERS, &error));
    ck_assert_int_eq(find(cache, &found), 1);
    ck_assert_str_eq(found.file, names[LAYERS - 1]);
    spc__cache_close(cache);
}
END_TEST

/* Changes each byte of the compressed code. */
START_TEST(damaged_code_is_no_code)
{
    make_tuned("from.db");
    pack("from.db", "pack.db");
    for (int i = 0; i < 40; i++) {
        char text[300];
        int place = 1 + i * 7;
        snprintf(text, sizeof(text),
                 "UPDATE artefact SET code = substr(code, 1, %d) || x'%02x' || "
                 "substr(code, %d) WHERE key = 'key64' AND length(code) > %d",
                 place - 1, i * 5 % 256, place + 1, place);
        sql("pack.sm_90a.db", text);
        spc__cache *cache = open_pack(NULL);
        spc_status status = get_code(cache, "key64");
        ck_assert(status == SPC_OK || status == SPC_EDB);
        assert_ok(get_code(cache, "key32"));
        spc__cache_close(cache);
    }
}
END_TEST

START_TEST(packing_again_gives_the_same_records)
{
    uint64_t seed = 11 + (uint64_t)suite_variant();

    make_drawn("from.db", &seed, 40);
    pack("from.db", "pack.db");
    spc__buf one = SPC__BUF_INIT, two = SPC__BUF_INIT;
    assert_ok(spc__file_read(&one, at("pack.manifest"), 1 << 24, &error));
    pack("from.db", "pack.db");
    assert_ok(spc__file_read(&two, at("pack.manifest"), 1 << 24, &error));
    ck_assert_str_eq(spc__buf_text(&one), spc__buf_text(&two));
    spc__buf_release(&one);
    spc__buf_release(&two);
}
END_TEST

/* ---- replacing packs ----------------------------------------------------- */

static spc_status try_to_pack(const char *name, const char *path)
{
    spc__cache *cache = open_user(name);
    spc_status status =
        spc__cache_pack(cache, path, SPC__PACK_APART, NULL, &packed, &error);

    spc__cache_close(cache);
    return status;
}

static int files_in_folder(void)
{
    DIR *folders = opendir(spc__buf_text(&folder));
    int count = -2;

    while (readdir(folders) != NULL)
        count++;
    closedir(folders);
    return count;
}

/* Files that exist before "from.db" is packed. */
static const struct {
    const char *into;  /* the name of the pack */
    const char *taken; /* existing file: `text`, or a database if NULL */
    const char *text;
    spc_status status;
    const char *says;
} occupied[] = {
    {"from.db", "from.db", NULL, SPC_EINVAL, "is open here"},
    {"other.db", "other.db", NULL, SPC_EINVAL, "not an earlier pack"},
    {"notes.db", "notes.db", "text", SPC_EINVAL, "not an earlier pack"},
    {"ship.db", "ship.sm_90a.db", NULL, SPC_EINVAL, "not an earlier pack"},
    {"ship.db", "ship.manifest", "text", SPC_EINVAL, "it holds text"},
    {"ship.db", "ship.db-wal", "frames", SPC_EDB, "open elsewhere"},
    {"ship.db", "ship.db-journal", "pages", SPC_EDB, "open elsewhere"},
    {"ship.db", "ship.sm_90a.db-wal", "frames", SPC_EDB, "open elsewhere"},
};

enum { OCCUPIED = sizeof(occupied) / sizeof(*occupied) };

START_TEST(a_pack_replaces_nothing_but_an_earlier_one)
{
    spc__buf before = SPC__BUF_INIT, after = SPC__BUF_INIT;
    const char *name = occupied[_i].taken, *text = occupied[_i].text;

    make_tuned("from.db");
    if (text != NULL)
        assert_ok(spc__file_write(at(name), text, strlen(text), &error));
    else if (strcmp(name, "from.db") != 0)
        make_tuned(name);
    assert_ok(spc__file_read(&before, at(name), 1 << 24, &error));
    int files = files_in_folder();
    assert_status(try_to_pack("from.db", at(occupied[_i].into)),
                  occupied[_i].status);
    ck_assert_msg(strstr(error.text, occupied[_i].says) != NULL, "%s",
                  error.text);
    ck_assert_int_eq(files_in_folder(), files);
    assert_ok(spc__file_read(&after, at(name), 1 << 24, &error));
    ck_assert_uint_eq(after.length, before.length);
    ck_assert_mem_eq(after.data, before.data, before.length);
    spc__buf_release(&before);
    spc__buf_release(&after);
}
END_TEST

/* Refuses any name of the file, including the name of a layer. */
START_TEST(a_database_that_is_open_is_no_place_for_a_pack)
{
    spc__cache *cache = NULL;

    make_tuned("from.db");
    pack("from.db", "pack.db");
    ck_assert_int_eq(symlink("from.db", at("link.db")), 0);
    assert_status(try_to_pack("from.db", at("link.db")), SPC_EINVAL);
    const char *layer = at("pack.db");
    assert_ok(spc__cache_open(&cache, at("from.db"), &layer, 1, &error));
    assert_status(
        spc__cache_pack(cache, layer, SPC__PACK_APART, NULL, &packed, &error),
        SPC_EINVAL);
    spc__cache_close(cache);
    assert_status(try_to_pack("pack.db", at("pack.db")), SPC_EINVAL);
    cache = open_pack(NULL);
    assert_ok(get_code(cache, "key64"));
    spc__cache_close(cache);
}
END_TEST

START_TEST(the_name_of_a_pack_is_checked)
{
    static const char *const wrong[] = {"",  ".db",      "db",
                                        "x", "none/.db", "ship.dbs"};

    make_tuned("from.db");
    for (int i = 0; i < 6; i++) {
        assert_status(try_to_pack("from.db", wrong[i]), SPC_EINVAL);
        ck_assert_ptr_nonnull(strstr(error.text, "ends in '.db'"));
    }
    ck_assert_int_ne(access(".db", F_OK), 0);
}
END_TEST

static spc_status die(spc__cache *records, spc_error *unused)
{
    (void)records, (void)unused;
    kill(getpid(), SIGKILL);
    return SPC_OK;
}

/* The earlier pack stays complete, and the next one removes partial files. */
START_TEST(a_pack_that_is_killed_leaves_nothing_for_the_next)
{
    int state;

    make_tuned("from.db");
    pack("from.db", "pack.db");
    spc__cache_close(open_user("from.db"));
    int files = files_in_folder();
    pid_t child = fork();
    if (child == 0) {
        spc__cache *cache = open_user("from.db");
        spc__cache_pack(cache, at("pack.db"), SPC__PACK_APART, die, &packed,
                        &error);
        _exit(0);
    }
    ck_assert_int_eq(waitpid(child, &state, 0), child);
    ck_assert(WIFSIGNALED(state));
    ck_assert_int_gt(files_in_folder(), files);
    spc__cache *cache = open_pack(NULL);
    assert_ok(get_code(cache, "key64"));
    spc__cache_close(cache);
    pack("from.db", "pack.db");
    ck_assert_int_eq(files_in_folder(), files);
}
END_TEST

/* ---- signatures ---------------------------------------------------------- */

#ifdef SPC_WITH_SODIUM

static char *read_text(const char *name)
{
    spc__buf text = SPC__BUF_INIT;
    char path[100];

    snprintf(path, sizeof(path), "corpus/minisign/%s", name);
    assert_ok(spc__file_read(&text, suite_path(path), 10000, &error));
    return spc__buf_detach(&text);
}

/* Signatures made by the program minisign, with and without hashing. */
START_TEST(signatures_of_minisign_are_known)
{
    char *key = read_text("key.pub"), *text = read_text("text");
    char *signature = read_text(_i == 0 ? "hashed.minisig" : "plain.minisig");
    size_t bytes = strlen(text);

    assert_ok(spc__signature_check(key, signature, text, bytes, &error));
    assert_ok(spc__signature_check(strchr(key, '\n') + 1, signature, text,
                                   bytes, &error));
    text[3] ^= 1;
    assert_status(spc__signature_check(key, signature, text, bytes, &error),
                  SPC_EWRONG);
    text[3] ^= 1;
    strstr(signature, "a comment")[0] = 'A';
    assert_status(spc__signature_check(key, signature, text, bytes, &error),
                  SPC_EWRONG);
    assert_status(spc__signature_check("key", signature, text, bytes, &error),
                  SPC_EFORMAT);
    free(key);
    free(text);
    free(signature);
}
END_TEST

/* Changing any byte of a signature or key makes it invalid. */
START_TEST(a_signature_with_another_byte_is_none)
{
    char *key = read_text("key.pub"), *text = read_text("text");
    char *signature = read_text("hashed.minisig");
    size_t start = (size_t)(strchr(signature, '\n') - signature) + 1;

    for (size_t i = start; i < strlen(signature) - 1; i++) {
        char was = signature[i];
        signature[i] = was == 'A' ? 'B' : 'A';
        spc_status status =
            spc__signature_check(key, signature, text, strlen(text), &error);
        ck_assert_msg(status == SPC_EWRONG || status == SPC_EFORMAT, "%zu", i);
        signature[i] = was;
    }
    free(key);
    free(text);
    free(signature);
}
END_TEST

/* Padding and the end of the last line may be left out. */
static size_t bytes_that_count(const char *text)
{
    size_t count = strlen(text);

    while (count > 0 && strchr("=\n", text[count - 1]) != NULL)
        count--;
    return count;
}

START_TEST(a_signature_that_is_cut_short_is_none)
{
    char *key = read_text("key.pub"), *text = read_text("text");
    char *signature = read_text("hashed.minisig");
    size_t whole = bytes_that_count(signature);

    for (size_t left = 0; left < whole; left++) {
        char was = signature[left];
        signature[left] = '\0';
        spc_status status =
            spc__signature_check(key, signature, text, strlen(text), &error);
        ck_assert_msg(status == SPC_EWRONG || status == SPC_EFORMAT, "%zu",
                      left);
        signature[left] = was;
    }
    for (size_t left = bytes_that_count(key) - 1; left > 0; left--) {
        key[left] = '\0';
        assert_status(
            spc__signature_check(key, signature, text, strlen(text), &error),
            SPC_EFORMAT);
    }
    free(key);
    free(text);
    free(signature);
}
END_TEST

/* A key made by the test, which signs like minisign. */
typedef struct signer {
    unsigned char public_key[32], secret[64];
    char text[100];
} signer;

static signer make_signer(int number)
{
    signer out;
    unsigned char seed[32] = {(unsigned char)number}, key[42] = "Ednumber..";
    spc__buf text = SPC__BUF_INIT;

    ck_assert_int_ge(sodium_init(), 0);
    crypto_sign_seed_keypair(out.public_key, out.secret, seed);
    memcpy(key + 10, out.public_key, 32);
    spc__base64_append(&text, key, sizeof(key));
    snprintf(out.text, sizeof(out.text), "%s", spc__buf_text(&text));
    spc__buf_release(&text);
    return out;
}

static void sign(const signer *with, const char *name)
{
    unsigned char digest[64], line[74] = "EDnumber..", both[64 + 7], second[64];
    spc__buf text = SPC__BUF_INIT, out = SPC__BUF_INIT;
    char path[450];

    assert_ok(spc__file_read(&text, at(name), 1 << 24, &error));
    crypto_generichash(digest, 64, (const unsigned char *)text.data,
                       text.length, NULL, 0);
    crypto_sign_detached(line + 10, NULL, digest, 64, with->secret);
    memcpy(both, line + 10, 64);
    memcpy(both + 64, "remarks", 7);
    crypto_sign_detached(second, NULL, both, sizeof(both), with->secret);
    spc__buf_puts(&out, "untrusted comment: none\n");
    spc__base64_append(&out, line, sizeof(line));
    spc__buf_puts(&out, "\ntrusted comment: remarks\n");
    spc__base64_append(&out, second, sizeof(second));
    spc__buf_puts(&out, "\n");
    snprintf(path, sizeof(path), "%s.minisig", at(name));
    assert_ok(spc__file_write(path, out.data, out.length, &error));
    spc__buf_release(&text);
    spc__buf_release(&out);
}

static int faults_found;

static spc_status count_fault(const spc__fault *fault, void *payload)
{
    (void)payload;
    ck_assert_ptr_ne(fault->reason, NULL);
    faults_found++;
    return SPC_OK;
}

static int faults_of(spc__cache *cache)
{
    int64_t checked;

    faults_found = 0;
    assert_ok(spc__cache_verify(cache, &checked, count_fault, NULL, &error));
    return faults_found;
}

START_TEST(a_signed_pack_serves_who_has_the_key)
{
    signer ours = make_signer(1), theirs = make_signer(2);
    const char *file = at("pack.db");
    spc__choice found;
    spc__cache *cache;

    make_tuned("from.db");
    pack("from.db", "pack.db");
    assert_status(
        spc__cache_open_signed(&cache, NULL, &file, 1, ours.text, &error),
        SPC_EDB);
    sign(&ours, "pack.manifest");
    cache = open_pack(ours.text);
    ck_assert_int_eq(find(cache, &found), 1);
    assert_ok(get_code(cache, "key64"));
    ck_assert_int_eq(faults_of(cache), 0);
    spc__cache_close(cache);
    assert_status(
        spc__cache_open_signed(&cache, NULL, &file, 1, theirs.text, &error),
        SPC_EDB);
}
END_TEST

/* A forger can compute seals but not signatures. */
START_TEST(what_was_sealed_anew_is_not_signed)
{
    static const char *const forgeries[] = {
        "UPDATE trial SET config = 'rows=256'",
        "UPDATE trial SET artefact = 'key32'",
        "UPDATE choice SET reason = 'other'",
        "UPDATE fact SET value = '1'",
    };
    signer ours = make_signer(1);
    spc__choice found;

    make_tuned("from.db");
    pack("from.db", "pack.db");
    sign(&ours, "pack.manifest");
    sql("pack.db", forgeries[_i]);
    for (int i = 0; spc__seal_everything[i] != NULL; i++)
        sql("pack.db", spc__seal_everything[i]);
    spc__cache *cache = open_pack(NULL);
    ck_assert_int_eq(find(cache, &found), 1);
    ck_assert_int_eq(faults_of(cache), 0);
    spc__cache_close(cache);
    cache = open_pack(ours.text);
    ck_assert_int_eq(find(cache, &found), _i >= 2);
    if (_i == 2) /* the signature covers the trial but not its failure note */
        ck_assert_str_eq(found.reason, SPC__NEXT_REASON);
    ck_assert_int_ge(faults_of(cache), 1);
    spc__cache_close(cache);
}
END_TEST

START_TEST(what_was_taken_out_is_missed)
{
    signer ours = make_signer(1);

    make_tuned("from.db");
    pack("from.db", "pack.db");
    sign(&ours, "pack.manifest");
    sql("pack.db", "DELETE FROM choice");
    if (_i == 1)
        sql("pack.db", "DELETE FROM seal WHERE kind = 'choice'");
    spc__cache *cache = open_pack(ours.text);
    /* the manifest; at 0 also the choice */
    ck_assert_int_eq(faults_of(cache), 2 - _i);
    spc__cache_close(cache);
}
END_TEST

#endif

/* ---- pruning and pinning ------------------------------------------------- */

START_TEST(pruning_leaves_what_serves)
{
    spc__prune what = {.losers = true};
    int64_t removed = 0, checked = 0;
    spc__choice found;

    make_tuned("from.db");
    spc__cache *cache = open_user("from.db");
    assert_ok(spc__cache_prune(cache, &what, &removed, &error));
    ck_assert_int_eq(removed, 2); /* the losing trial and its code */
    ck_assert_int_eq(find(cache, &found), 1);
    assert_ok(get_code(cache, "key64"));
    assert_ok(get_code(cache, "key32"));
    assert_status(get_code(cache, "key128"), SPC_ENOTFOUND);
    assert_ok(spc__cache_verify(cache, &checked, NULL, NULL, &error));
    assert_ok(spc__cache_prune(cache, &what, &removed, &error));
    ck_assert_int_eq(removed, 0);
    spc__cache_close(cache);
}
END_TEST

static bool says_stale(const char *name, const char *hash, void *payload)
{
    return strcmp(name, payload) == 0 && strcmp(hash, "00ff") == 0;
}

START_TEST(pruning_by_age_or_by_template_takes_choices_with_it)
{
    spc__prune by_age = {.before_unix_seconds = 1750000001};
    spc__prune by_name = {.is_stale = says_stale, .payload = "os_mma"};
    int64_t removed = 0;
    spc__choice found;

    make_tuned("from.db");
    spc__cache *cache = open_user("from.db");
    assert_ok(spc__cache_prune(cache, _i == 0 ? &by_age : &by_name, &removed,
                               &error));
    ck_assert_int_eq(removed, 7); /* a choice, three trials and their code */
    ck_assert_int_eq(find(cache, &found), 0);
    spc__cache_close(cache);
}
END_TEST

START_TEST(a_pinned_choice_stays)
{
    spc__problem_key key = make_key(64);
    spc__trial faster = make_trial(256, 1);
    spc__prune what = {.losers = true, .before_unix_seconds = 1750000001};
    int64_t removed;
    spc__choice found;
    spc__cache *cache;

    make_tuned("from.db");
    cache = open_user("from.db");
    ck_assert_int_eq(find(cache, &found), 1);
    assert_ok(spc__cache_pin(cache, found.problem, "os_mma rows=128", &error));
    assert_ok(spc__cache_put_trial(cache, &key, &faster, &from, &error));
    assert_ok(
        spc__cache_put_choice(cache, &key, &faster, "fastest", &from, &error));
    ck_assert_int_eq(find(cache, &found), 1);
    ck_assert_str_eq(found.trial.artefact, "key128");
    assert_ok(spc__cache_prune(cache, &what, &removed, &error));
    ck_assert_int_eq(find(cache, &found), 1);
    ck_assert_str_eq(found.trial.artefact, "key128");
    assert_status(spc__cache_pin(cache, found.problem, "os_mma rows=1", &error),
                  SPC_ENOTFOUND);
    assert_ok(spc__cache_pin(cache, found.problem, NULL, &error));
    assert_ok(spc__cache_put_trial(cache, &key, &faster, &from, &error));
    assert_ok(
        spc__cache_put_choice(cache, &key, &faster, "fastest", &from, &error));
    ck_assert_int_eq(find(cache, &found), 1);
    ck_assert_str_eq(found.trial.artefact, "key256");
    assert_status(spc__cache_pin(cache, found.problem, NULL, &error),
                  SPC_ENOTFOUND);
    spc__cache_close(cache);
}
END_TEST

/* A pinned choice takes precedence over faster measurements in a layer. */
START_TEST(a_pinned_choice_comes_first_of_all_layers)
{
    const char *layer = at("layer.db");
    spc__problem_key key = make_key(64);
    spc__trial faster = make_trial(256, 1);
    spc__choice found;
    spc__cache *cache;

    make_tuned("layer.db");
    cache = open_user("layer.db");
    assert_ok(spc__cache_put_trial(cache, &key, &faster, &from, &error));
    assert_ok(spc__cache_put_choice(cache, &key, &faster, "", &from, &error));
    spc__cache_close(cache);
    make_tuned("user.db");
    assert_ok(spc__cache_open(&cache, at("user.db"), &layer, 1, &error));
    ck_assert_int_eq(find(cache, &found), 1);
    ck_assert_str_eq(found.trial.artefact, "key256");
    sql("user.db", "SELECT 1");
    assert_ok(spc__cache_pin(cache, 1, "os_mma rows=128", &error));
    ck_assert_int_eq(find(cache, &found), 1);
    ck_assert_str_eq(found.trial.artefact, "key128");
    spc__cache_close(cache);
}
END_TEST

static void add(Suite *all, const char *name, const TTest *const *tests,
                const int *loops)
{
    TCase *part = tcase_create(name);

    tcase_add_checked_fixture(part, make_fast_folder, remove_folder);
    for (int i = 0; tests[i] != NULL; i++)
        tcase_add_loop_test(part, tests[i], 0, loops[i]);
    suite_add_tcase(all, part);
}

Suite *suite(void)
{
    Suite *all = suite_create("pack");

    suite_sample(1);
    add(all, "packs",
        (const TTest *const[]){a_pack_holds_what_serves_and_nothing_else,
                               a_whole_pack_is_all_that_there_is,
                               code_of_an_earlier_pack_of_the_name_is_removed,
                               a_pack_is_one_file_without_a_journal,
                               code_is_compressed_where_zstd_is_there,
                               damaged_code_is_no_code,
                               packing_again_gives_the_same_records,
                               there_may_be_any_number_of_layers, NULL},
        (const int[]){1, 1, 2, 1, 1, 1, 1, 1});
    add(all, "places",
        (const TTest *const[]){
            a_pack_replaces_nothing_but_an_earlier_one,
            a_database_that_is_open_is_no_place_for_a_pack,
            the_name_of_a_pack_is_checked,
            a_pack_that_is_killed_leaves_nothing_for_the_next, NULL},
        (const int[]){OCCUPIED, 1, 1, 1});
#ifdef SPC_WITH_SODIUM
    add(all, "signatures",
        (const TTest *const[]){signatures_of_minisign_are_known,
                               a_signature_with_another_byte_is_none,
                               a_signature_that_is_cut_short_is_none,
                               a_signed_pack_serves_who_has_the_key,
                               what_was_sealed_anew_is_not_signed,
                               what_was_taken_out_is_missed, NULL},
        (const int[]){2, 1, 1, 1, 4, 2});
#else
    suite_note_skip("built without libsodium: no signature can be checked");
#endif
    add(all, "keeping",
        (const TTest *const[]){
            pruning_leaves_what_serves,
            pruning_by_age_or_by_template_takes_choices_with_it,
            a_pinned_choice_stays, a_pinned_choice_comes_first_of_all_layers,
            NULL},
        (const int[]){1, 2, 1, 1, 1});
    return all;
}

int main(void)
{
    return run_suite(suite());
}
