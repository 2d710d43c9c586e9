/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cache_harness.h - shared by the database suites: a folder for files, random
 * records, a random database, its text.
 */
#ifndef SPC_TESTS_CACHE_HARNESS_H
#define SPC_TESTS_CACHE_HARNESS_H

#include "base/file.h"
#include "base/random.h"
#include "base/sha256.h"
#include "cache/cache_internal.h"
#include "cache/exchange/exchange.h"
#include "cache/exchange/table_read.h"
#include "cache/exchange/record_form.h"
#include "harness/folder_harness.h"
#include "harness/suite.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static spc_error error;

#define assert_status(call, expected)                                          \
    do {                                                                       \
        spc_status got_ = (call);                                              \
        ck_assert_msg(got_ == (expected), "%s: %s: %s", #call,                 \
                      spc_status_name(got_), error.text);                      \
    } while (0)
#define assert_ok(call) assert_status(call, SPC_OK)

/* ---- a folder for each test ---------------------------------------------- */

/* Makes the folder, in memory if possible: these tests make thousands of
 * files. */
static inline void make_fast_folder(void)
{
    if (access("/dev/shm", W_OK) == 0)
        setenv("TMPDIR", "/dev/shm", 1);
    make_folder();
}

static inline spc__cache *open_user(const char *name)
{
    spc__cache *cache = NULL;

    assert_ok(spc__cache_open(&cache, at(name), NULL, 0, &error));
    return cache;
}

/* Removes the file and the files that SQLite creates next to it. */
static inline void remove_file(const char *name)
{
    char beside[450];

    unlink(at(name));
    snprintf(beside, sizeof(beside), "%s-wal", at(name));
    unlink(beside);
    snprintf(beside, sizeof(beside), "%s-shm", at(name));
    unlink(beside);
}

/* ---- random records ------------------------------------------------------ */

static inline uint64_t draw_bits(uint64_t *seed)
{
    spc__random random = {*seed};
    uint64_t bits = spc__random_u64(&random);

    *seed = random.state;
    return bits;
}

/* Returns one of few values, so that files often disagree about the same
 * record. */
static inline int draw(uint64_t *seed, int of)
{
    return (int)(draw_bits(seed) % (uint64_t)of);
}

static inline spc__problem_key draw_key(uint64_t *seed)
{
    spc__problem_key key = {0};

    spc__attrs_set_text(&key.layer, "op", "subm");
    spc__attrs_set_number(&key.layer, "cin", 16 << draw(seed, 2));
    /* Two versions of the library may name families differently. */
    spc__attrs_set_text(&key.family, "op", draw(seed, 2) ? "subm" : "sub");
    spc__feature_add(&key, "rows", 15 + draw(seed, 2), 1, 0.5);
    spc__feature_add(&key, "density", -2.25, 0.5, 0.5);
    strcpy(key.device, draw(seed, 2) ? "NVIDIA H200" : "cpu \"odd\"\\");
    strcpy(key.target, "sm_90a");
    return key;
}

static inline spc__trial draw_trial(uint64_t *seed)
{
    spc__trial trial = {
        .template_hash = "00ff",
        .artefact = "abcd",
        .status = draw(seed, 4) ? SPC__TRIAL_OK : SPC__TRIAL_TIMEOUT,
        .median_us = draw(seed, 5) ? 1.1 * (1 + draw(seed, 3)) : NAN,
        .samples = 11,
        .error = 0.1,
        .verified = draw(seed, 2),
    };

    snprintf(trial.template_name, sizeof(trial.template_name), "os_%d",
             draw(seed, 2));
    snprintf(trial.note, sizeof(trial.note), "%s",
             draw(seed, 3) ? "" : "two\nlines\t\"quoted\"");
    spc__attrs_set_number(&trial.config, "rows", 64 << draw(seed, 2));
    spc__attrs_set_number(&trial.launch, "block", 128);
    return trial;
}

static inline spc__provenance draw_provenance(uint64_t *seed)
{
    spc__provenance from = {.version = "0.1.0",
                            .seed = UINT64_MAX - (uint64_t)draw(seed, 2),
                            .unix_seconds = 100 + draw(seed, 3)};

    snprintf(from.host, sizeof(from.host), "host%d", draw(seed, 2));
    return from;
}

static inline void put_drawn(spc__cache *cache, uint64_t *seed)
{
    spc__problem_key key = draw_key(seed);
    spc__trial trial = draw_trial(seed);
    spc__provenance from = draw_provenance(seed);
    spc__attrs fact = {0};
    char code[] = "\177ELF..............\276\0..?", name[8];
    int what = draw(seed, 6);

    code[18] = (char)190;
    code[19] = 0;
    code[22] = (char)('a' + draw(seed, 2));
    if (what == 0) {
        spc__attrs_set_number(&fact, "gbps", draw(seed, 3));
        assert_ok(spc__cache_put_device(cache, key.device, &fact, &error));
    } else if (what == 1) {
        snprintf(name, sizeof(name), "k%d", draw(seed, 3));
        assert_ok(spc__cache_put_artefact(
            cache, name, "sm_90a", "nvrtc", draw(seed, 2) ? "is" : "",
            &trial.launch, &trial.resources, code, sizeof(code), &error));
    } else {
        assert_ok(spc__cache_put_trial(cache, &key, &trial, &from, &error));
        from.unix_seconds += draw(seed, 2);
        if (trial.status == SPC__TRIAL_OK && what > 3)
            assert_ok(spc__cache_put_choice(
                cache, &key, &trial,
                draw(seed, 6) ? "fastest" : SPC__PINNED " by hand", &from,
                &error));
    }
}

static inline void make_drawn(const char *name, uint64_t *seed, int records)
{
    spc__cache *cache = open_user(name);

    for (int i = 0; i < records; i++)
        put_drawn(cache, seed);
    spc__cache_close(cache);
}

/* ---- a network ----------------------------------------------------------- */

enum { NET_PARTS = 3, NET_PART_BYTES = 5000 };

static inline spc_status give_part(const void **data, size_t *bytes,
                                   int64_t part, void *payload, spc_error *e)
{
    static char weights[NET_PARTS][NET_PART_BYTES];

    (void)payload;
    (void)e;
    memset(weights[part], 'a' + (int)part, sizeof(weights[part]));
    *data = weights[part];
    *bytes = sizeof(weights[part]);
    return SPC_OK;
}

static inline void digest_parts(char hex[SPC__SHA256_HEX])
{
    unsigned char digest[SPC__SHA256_BYTES];
    spc__sha256 sha;
    const void *data;
    size_t bytes;

    spc__sha256_init(&sha);
    for (int64_t part = 0; part < NET_PARTS; part++) {
        give_part(&data, &bytes, part, NULL, NULL);
        spc__sha256_update(&sha, data, bytes);
    }
    spc__sha256_final(&sha, digest);
    spc__sha256_hex(hex, digest);
}

static inline spc_status put_network(spc__cache *cache, const char *source,
                                     bool replace)
{
    static const spc__network_source parts = {give_part, NULL};
    char weights[SPC__SHA256_HEX];
    spc__network net = {.name = "net",
                        .graph = "one line\n",
                        .weights = weights,
                        .bytes = NET_PARTS * NET_PART_BYTES,
                        .parts = NET_PARTS,
                        .source = source,
                        .version = "0.1.0",
                        .unix_seconds = 7};

    digest_parts(weights);
    return spc__cache_put_network(cache, &net, &parts, replace, &error);
}

/* Checks that the network that is read equals the stored one, to the last
 * byte. */
static inline spc_status begin_network(const spc__network *network,
                                       void *payload, spc_error *e)
{
    const char *how = payload;

    (void)e;
    ck_assert_msg(strcmp(network->graph, "one line\n") == 0 &&
                      strcmp(network->source, "made") == 0 &&
                      network->bytes == NET_PARTS * NET_PART_BYTES,
                  "%s: another network", how);
    return SPC_OK;
}

static inline spc_status check_part(int64_t part, const void *data,
                                    size_t bytes, void *payload, spc_error *e)
{
    const void *wanted;
    size_t wanted_bytes;

    ck_assert_msg(part >= 0 && part < NET_PARTS, "%s", (const char *)payload);
    give_part(&wanted, &wanted_bytes, part, NULL, e);
    ck_assert_msg(bytes == wanted_bytes && memcmp(data, wanted, bytes) == 0,
                  "%s: other weights", (const char *)payload);
    return SPC_OK;
}

static inline spc_status end_network(void *payload, spc_error *e)
{
    (void)payload;
    (void)e;
    return SPC_OK;
}

/* True if a network was read. */
static inline bool ask_network(spc__cache *cache, char *how)
{
    spc__network_reader reader = {begin_network, check_part, end_network, how};

    error.text[0] = '\0';
    spc_status status = spc__cache_get_network(cache, "net", &reader, &error);
    ck_assert_msg(status == SPC_OK || error.text[0] != '\0', "%s", how);
    return status == SPC_OK;
}

/* ---- text ---------------------------------------------------------------- */

static inline spc_status append_text(const char *text, size_t bytes,
                                     void *payload)
{
    spc__buf_append(payload, text, bytes);
    return SPC_OK;
}

/* Returns the whole file as text, which the caller owns. */
static inline char *text_of(const char *name)
{
    spc__cache *cache = open_user(name);
    spc__buf text = SPC__BUF_INIT;
    int64_t damaged;

    assert_ok(
        spc__cache_export(cache, true, append_text, &text, &damaged, &error));
    ck_assert_int_eq(damaged, 0);
    spc__cache_close(cache);
    return spc__buf_detach(&text);
}

/* Takes the next line of a text, without its end. Returns its length. */
static inline size_t take_line(const char **line, const char **at)
{
    size_t length = strcspn(*at, "\n");

    *line = *at;
    *at += length + ((*at)[length] == '\n');
    return length;
}

static inline bool starts_with(const char *line, const char *word)
{
    return strncmp(line, word, strlen(word)) == 0;
}

static inline void spread_row(spc__buf *out, spc__table_reader *table,
                              const char *line, size_t length, const char **at)
{
    spc__record record = {0};
    const char *details = "";
    size_t more = **at == ' ' ? take_line(&details, at) : 0;
    int kinds = starts_with(line, "choice ") ? 2 : 1;

    for (int i = 0; i < kinds; i++) {
        assert_ok(spc__table_read(&record, table,
                                  i == 0 ? SPC__TRIAL : SPC__CHOICE, line,
                                  length, details, more, &error));
        spc__record_format(out, &record, true);
        spc__buf_puts(out, "\n");
    }
    spc__record_release(&record);
}

/* Returns each record of an exported text as a line with the names of all
 * fields, so that a line is complete by itself. Frees the text. */
static inline char *spread(char *text)
{
    spc__table_reader table = {0};
    spc__buf out = SPC__BUF_INIT;
    const char *line, *at = text;

    while (*at != '\0') {
        size_t length = take_line(&line, &at);
        if (starts_with(line, "note ") || starts_with(line, "template "))
            assert_ok(spc__table_define(&table, line, length, &error));
    }
    for (at = text; *at != '\0';) {
        size_t length = take_line(&line, &at);
        if (starts_with(line, "for ")) {
            assert_ok(spc__table_set(&table, line, length, &error));
        } else if (starts_with(line, "trial ") ||
                   starts_with(line, "choice ")) {
            spread_row(&out, &table, line, length, &at);
        } else if (line[0] != '#' && !starts_with(line, "note ") &&
                   !starts_with(line, "template ")) {
            spc__buf_append(&out, line, length);
            spc__buf_puts(&out, "\n");
        }
    }
    spc__table_reader_release(&table);
    free(text);
    return spc__buf_detach(&out);
}

#endif
