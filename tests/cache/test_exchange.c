/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_exchange.c - records between files: merging is a join, text is complete,
 * and the content of a text is checked.
 */
#include <math.h>

#include "cache/exchange/record_form.h"

#include "harness/cache_harness.h"

Suite *suite(void);

#define LENGTH(array) ((int)(sizeof(array) / sizeof(*(array))))

/* ---- merging ------------------------------------------------------------- */

static void merge(const char *into, const char *from)
{
    spc__cache *cache = open_user(into);
    spc__exchange exchange = {.trusts = true};

    assert_ok(spc__cache_merge(cache, at(from), &exchange, &error));
    spc__cache_close(cache);
}

static void start_with(const char *name, const char *from)
{
    remove_file(name);
    merge(name, from);
}

static void assert_same(const char *one, const char *two, const char *law,
                        uint64_t seed)
{
    char *a = text_of(one), *b = text_of(two);

    ck_assert_msg(strcmp(a, b) == 0, "%s, seed %llu:\n%s\n%s", law,
                  (unsigned long long)seed, a, b);
    free(a);
    free(b);
}

static void check_laws(uint64_t seed)
{
    static const char *const files[] = {"a", "b", "c"};
    uint64_t state = seed;

    for (int i = 0; i < 3; i++) {
        remove_file(files[i]);
        make_drawn(files[i], &state, draw(&state, 12));
    }
    start_with("ab", "a");
    merge("ab", "b");
    start_with("ba", "b");
    merge("ba", "a");
    assert_same("ab", "ba", "a with b is b with a", seed);

    start_with("bc", "b");
    merge("bc", "c");
    start_with("a_bc", "a");
    merge("a_bc", "bc");
    merge("ab", "c");
    assert_same("ab", "a_bc", "groups do not matter", seed);

    merge("ab", "b");
    assert_same("ab", "a_bc", "once more is nothing new", seed);
}

/* Tries a few random merges, 10,000 on request, and prints each one that
 * fails. */
START_TEST(merging_is_a_join)
{
    bool all = suite_wants_all();
    uint64_t first = all ? 0 : (uint64_t)suite_variant() * 8,
             count = all ? 10000 : 8;

    for (uint64_t seed = first; seed < first + count; seed++)
        check_laws(seed + 1);
}
END_TEST

START_TEST(what_is_merged_is_sealed_and_found)
{
    uint64_t seed = 7;
    spc__cache *cache;
    int64_t checked = 0;

    make_drawn("from", &seed, 40);
    merge("into", "from");
    assert_same("into", "from", "a copy", seed);
    cache = open_user("into");
    assert_ok(spc__cache_verify(cache, &checked, NULL, NULL, &error));
    ck_assert_int_gt(checked, 10);
    spc__cache_close(cache);
}
END_TEST

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

START_TEST(what_is_damaged_stays_behind)
{
    uint64_t seed = 7;
    spc__exchange exchange = {0};
    spc__cache *cache;

    make_drawn("from", &seed, 40);
    sql("from", "UPDATE trial SET samples = samples + 1 WHERE id = 1");
    cache = open_user("into");
    assert_ok(spc__cache_merge(cache, at("from"), &exchange, &error));
    ck_assert_int_ge(exchange.counts[SPC__FATE_REJECTED], 1);
    ck_assert_int_gt(exchange.counts[SPC__FATE_ACCEPTED], 10);
    spc__cache_close(cache);
    char *text = text_of("into");
    ck_assert_ptr_eq(strstr(text, "samples=12"), NULL);
    free(text);
}
END_TEST

START_TEST(code_for_the_host_is_taken_from_those_who_are_trusted)
{
    spc__attrs none = {0};
    spc__exchange exchange = {0};
    spc__cache *cache = open_user("from");

    assert_ok(spc__cache_put_artefact(cache, "k", "avx2", "gcc", "", &none,
                                      &none, "\177ELF and so on, for a cpu", 24,
                                      &error));
    spc__cache_close(cache);
    cache = open_user("into");
    assert_ok(spc__cache_merge(cache, at("from"), &exchange, &error));
    ck_assert_int_eq(exchange.counts[SPC__FATE_REJECTED], 1);
    exchange = (spc__exchange){.trusts = true};
    assert_ok(spc__cache_merge(cache, at("from"), &exchange, &error));
    ck_assert_int_eq(exchange.counts[SPC__FATE_ACCEPTED], 1);
    spc__cache_close(cache);
}
END_TEST

static spc_status import_text(spc__exchange *exchange, const char *name,
                              const char *text, size_t bytes)
{
    spc__cache *cache = open_user(name);
    spc_status status = spc__cache_import(cache, text, bytes, exchange, &error);

    spc__cache_close(cache);
    return status;
}

static spc_status keep_reason(spc__fate fate, const char *record,
                              const char *reason, int64_t line, void *payload)
{
    ck_assert_int_eq(fate, SPC__FATE_REJECTED);
    ck_assert_ptr_ne(record, NULL);
    ck_assert_int_eq(line, 2);
    snprintf(payload, 300, "%s", reason);
    return SPC_OK;
}

/* Records of an untrusted file, against a file that has `ours`. */
static const struct {
    const char *theirs, *ours, *reason;
    bool is_for_the_trusted;
} strangers[] = {
    {"fact device=d name=gbps value=9 at=99999999999", "", "a clock", false},
    {"trial device=d target=t layer=op=x template=m hash=00 config=a=1"
     " status=ok median_us=1 samples=5 verified=1 at=99999999999 seed=0",
     "", "a clock", false},
    {"choice device=d target=t layer=op=x template=m hash=00 config=a=1"
     " reason=\"pinned by hand\" at=5 seed=0",
     "trial device=d target=t layer=op=x template=m hash=00 config=a=1"
     " status=ok median_us=1 samples=5 verified=1 at=4 seed=0",
     "pinned", true},
};

static void import_line(spc__exchange *exchange, const char *line)
{
    char text[600];

    snprintf(text, sizeof(text), "# records\n%s\n", line);
    assert_ok(import_text(exchange, "into", text, strlen(text)));
}

START_TEST(a_file_that_is_not_trusted_does_not_rule)
{
    char reason[300] = "";
    spc__exchange own = {.trusts = true};
    spc__exchange not_trusted = {.each = keep_reason, .payload = reason};
    spc__exchange trusted = {
        .trusts = true, .each = keep_reason, .payload = reason};

    if (strangers[_i].ours[0] != '\0')
        import_line(&own, strangers[_i].ours);
    import_line(&not_trusted, strangers[_i].theirs);
    ck_assert_int_eq(not_trusted.counts[SPC__FATE_REJECTED], 1);
    ck_assert_msg(strstr(reason, strangers[_i].reason) != NULL, "%s", reason);
    import_line(&trusted, strangers[_i].theirs);
    ck_assert_int_eq(trusted.counts[SPC__FATE_ACCEPTED],
                     strangers[_i].is_for_the_trusted);
}
END_TEST

static void put_gpu_code(const char *name, char mark)
{
    spc__attrs none = {0};
    char code[32] = "\177ELF..............\276\0..";
    spc__cache *cache = open_user(name);

    code[18] = (char)190;
    code[19] = 0;
    code[22] = mark;
    assert_ok(spc__cache_put_artefact(cache, "k", "sm_90a", "nvrtc", "is",
                                      &none, &none, code, sizeof(code),
                                      &error));
    spc__cache_close(cache);
}

/* _i = 0: the stranger's code has the larger bytes; 1: this database's code
 * has. */
START_TEST(code_of_a_key_is_not_replaced_by_a_stranger)
{
    put_gpu_code("into", _i == 0 ? 'a' : 'b');
    put_gpu_code("from", _i == 0 ? 'b' : 'a');
    char *before = text_of("into");
    spc__exchange exchange = {0};
    spc__cache *cache = open_user("into");
    assert_ok(spc__cache_merge(cache, at("from"), &exchange, &error));
    spc__cache_close(cache);
    ck_assert_int_eq(exchange.counts[SPC__FATE_ACCEPTED], 0);
    char *after = text_of("into");
    ck_assert_str_eq(after, before);
    free(before);
    free(after);
}
END_TEST

/* Edits of a line of code: its launch, its identity, or its seal. The first row
 * edits nothing. */
static const struct {
    const char *from, *to, *says;
} edits[] = {
    {NULL, NULL, NULL},
    {"shared=32256", "shared=512", "does not match its seal"},
    {"is=is", "is=other", "does not match its seal"},
    {"target=sm_90a", "target=sm_80", "does not match its seal"},
    {" seal=", NULL, "it has no seal"},
};

/* This concerns text only: the rows of a database file have seals of their
 * own. */
START_TEST(code_whose_line_was_edited_is_rejected)
{
    char reason[300] = "", code[32] = "\177ELF..............\276\0..";
    spc__exchange exchange = {.each = keep_reason, .payload = reason};
    spc__attrs none = {0}, launch = {0};
    spc__cache *cache = open_user("from");
    spc__buf text = SPC__BUF_INIT;
    int64_t damaged;

    code[18] = (char)190;
    code[19] = 0;
    spc__attrs_set_number(&launch, "shared", 32256);
    assert_ok(spc__cache_put_artefact(cache, "k", "sm_90a", "nvrtc", "is",
                                      &launch, &none, code, sizeof(code),
                                      &error));
    assert_ok(spc__cache_export(cache, SPC__EXPORT_CODE, append_text, &text,
                                &damaged, &error));
    spc__cache_close(cache);
    if (edits[_i].from != NULL) {
        char *line = strstr(spc__buf_text(&text), edits[_i].from);
        ck_assert_ptr_nonnull(line);
        size_t rest = strlen(edits[_i].from);
        if (edits[_i].to == NULL) /* replace up to the end of the word */
            rest += strcspn(line + rest, " ");
        char *behind = strdup(line + rest);
        spc__buf edited = SPC__BUF_INIT;
        spc__buf_append(&edited, text.data, (size_t)(line - text.data));
        spc__buf_puts(&edited, edits[_i].to != NULL ? edits[_i].to : "");
        spc__buf_puts(&edited, behind);
        free(behind);
        spc__buf_release(&text);
        text = edited;
    }
    assert_ok(
        import_text(&exchange, "into", spc__buf_text(&text), text.length));
    ck_assert_int_eq(exchange.counts[SPC__FATE_REJECTED],
                     edits[_i].says != NULL);
    ck_assert_int_eq(exchange.counts[SPC__FATE_ACCEPTED],
                     edits[_i].says == NULL);
    if (edits[_i].says != NULL)
        ck_assert_msg(strstr(reason, edits[_i].says) != NULL, "%s", reason);
    spc__buf_release(&text);
}
END_TEST

static spc_status count_side(char side, const char *line, void *payload)
{
    int *counts = payload;

    ck_assert_int_gt((int)strlen(line), 0);
    counts[side == '+']++;
    return SPC_OK;
}

START_TEST(a_difference_has_two_sides)
{
    uint64_t seed = 3;
    int counts[2] = {0};
    spc__cache *cache;

    make_drawn("one", &seed, 20);
    merge("two", "one");
    cache = open_user("one");
    assert_ok(spc__cache_diff(cache, at("two"), count_side, counts, &error));
    ck_assert_int_eq(counts[0] + counts[1], 0);
    sql("two", "DELETE FROM fact");
    sql("two", "UPDATE trial SET note = 'other' WHERE id = 1");
    sql("two", spc__seal_everything[0]);
    sql("two", spc__seal_everything[1]);
    assert_ok(spc__cache_diff(cache, at("two"), count_side, counts, &error));
    ck_assert_int_eq(counts[1], 1);
    ck_assert_int_ge(counts[0], 2);
    spc__cache_close(cache);
}
END_TEST

/* ---- text ---------------------------------------------------------------- */

START_TEST(text_says_all_that_records_say)
{
    for (uint64_t first = 0; first < 3; first++) {
        uint64_t seed = 50 + first + (uint64_t)suite_variant();
        spc__exchange exchange = {.trusts = true};
        remove_file("from");
        remove_file("into");
        make_drawn("from", &seed, 30);
        char *text = text_of("from");
        assert_ok(import_text(&exchange, "into", text, strlen(text)));
        ck_assert_int_eq(exchange.counts[SPC__FATE_REJECTED], 0);
        assert_same("from", "into", "text", 50 + first);
        free(text);
    }
}
END_TEST

/* A candidate whose result is NaN has an infinite error, and an unmeasured
 * value is NaN. Both are written and read, also from file to file. */
START_TEST(numbers_that_are_not_finite_come_back)
{
    spc__provenance from = {.version = "0.1.0", .unix_seconds = 1};
    spc__exchange exchange = {.trusts = true};
    uint64_t seed = 9;
    spc__problem_key key = draw_key(&seed);
    spc__trial trial = draw_trial(&seed);

    key.features[0].value = -INFINITY; /* log2(0): a scene without rows */
    trial.status = SPC__TRIAL_WRONG;
    trial.error = INFINITY;
    trial.median_us = trial.spread_us = trial.compile_ms = NAN;
    spc__cache *cache = open_user("from");
    assert_ok(spc__cache_put_trial(cache, &key, &trial, &from, &error));
    spc__cache_close(cache);
    char *text = text_of("from");
    ck_assert_ptr_nonnull(strstr(text, " inf "));
    assert_ok(import_text(&exchange, "into", text, strlen(text)));
    ck_assert_int_eq(exchange.counts[SPC__FATE_ACCEPTED], 1);
    ck_assert_int_eq(exchange.counts[SPC__FATE_REJECTED], 0);
    assert_same("from", "into", "text", 9);
    merge("merged", "from");
    assert_same("from", "merged", "merge", 9);
    free(text);
}
END_TEST

static const struct {
    const char *line, *says;
} mistakes[] = {
    {"trail device=a", "not a fact, code, trial or choice"},
    {"fact", "not a fact, code, trial or choice"},
    {"fact device=a name=b value=1 at=x", "at='x' makes no sense"},
    {"fact device=a name=b value=1 at=007", "at='007' makes no sense"},
    {"fact device=a value=1 at=1", "it has no 'name'"},
    {"fact name=b device=a value=1 at=1", "in the wrong position"},
    {"fact device=a device=a name=b at=1", "in the wrong position"},
    {"fact device=\"a name=b value=1 at=1", "a '\"' is missing"},
    {"fact device=\"a\\q\" name=b value=1 at=1", "invalid escape follows '\\'"},
    {"fact device=\"a\\x00\" name=b value=1 at=1", "follows '\\'"},
    {"fact device=\"a\"name=b value=1 at=1", "a space is missing"},
    {"fact device=a name=name_of_more_than_23_bytes value=1 at=1", "more than"},
    {"code key=k target=sm_80 sha256=00 code=!!!!", "not base64"},
    {"code key=k target=sm_80 sha256=00 code=AAAA", "does not fit its digest"},
    {"code key=k target=sm_80 sha256=00", "left out"},
    {"choice device=a target=b layer=op=x template=t hash=00 at=1 seed=0",
     "is not there"},
    {"trial device=a target=b layer=op,x template=t hash=00 status=ok at=1",
     "layer='op,x' makes no sense"},
    {"trial device=a target=b layer=op=x template=t hash=00 status=fine at=1",
     "status='fine'"},
    {"trial device=a target=b layer=op=x template=t hash=00 status=ok"
     " median_us=inf samples=1 verified=1 at=1 seed=0",
     "median_us='inf'"},
    {"trial device=a target=b layer=op=x template=t hash=00 status=ok"
     " samples=1 error=nan verified=1 at=1 seed=0",
     "error='nan'"},
    {"trial device=a target=b layer=op=x template=t hash=00 status=ok"
     " samples=1 error=-inf verified=1 at=1 seed=0",
     "error='-inf'"},
};

START_TEST(a_line_that_makes_no_sense_is_rejected_with_the_reason)
{
    char text[400], reason[300] = "";
    spc__exchange exchange = {.each = keep_reason, .payload = reason};

    snprintf(text, sizeof(text), "# a remark\n%s\n", mistakes[_i].line);
    assert_ok(import_text(&exchange, "into", text, strlen(text)));
    ck_assert_int_eq(exchange.counts[SPC__FATE_REJECTED], 1);
    ck_assert_msg(strstr(reason, mistakes[_i].says) != NULL, "%s: %s",
                  mistakes[_i].line, reason);
}
END_TEST

/* A table with a note. The tests below change one line of it. */
static const char table_head[] =
    "template t template=m hash=00 buckets=rows,density config=a,b"
    " launch=block=64,grid\n"
    "note k1 \"the best of all\"\n"
    "for device=d target=t version=1 seed=0\n"
    "for layer=op=x,k*=3 family=op=x\n";
static const char table_row[] = "choice 3,-2 t 1,2 5.5 - $k1\n"
                                " 0.5 10 - 7 s rows=3 - ,big\n";

static const struct {
    const char *head, *row, *says; /* NULL: as above */
} tables[] = {
    {NULL, NULL, NULL},
    {NULL,
     "choice rows=3,density=-2 t a=1,b=2 5.5 - $k1\n"
     " 0.5 10 - 7 s rows=3 - block=64,grid=big\n",
     NULL},
    {NULL, "trial 3,-2 t 1,2 5.5\n 0.5 10 - 7 s rows=3 - ,big\n",
     "no 'cold_us'"},
    {NULL, "trial 3,-2 t 1,2 5.5 -\n", "no 'spread_us'"},
    {NULL, "trial 3,-2 u 1,2 5.5 -\n 0.5 10 - 7\n",
     "no line describes the template 'u'"},
    {NULL, "trial 3,-2\n", "no buckets and template"},
    {NULL, "choice 3,-2 t 1,2,3 5.5 - $k1\n 0.5 10 - 7\n",
     "more values than its template has names for, at '3'"},
    {NULL, "choice 3,-2 t 1,2 5.5 - $k2\n 0.5 10 - 7\n", "no note 'k2'"},
    {NULL, "choice 3,-2 t 1,2 5.5 - $k1\n 0.5 10 - 7 s - ~AAAA\n",
     "not a digest"},
    {NULL, "choice 3,-2 t 1,2 5.5 . $k1\n 0.5 10 - 7\n", "no 'cold_us'"},
    {NULL, "choice 3,-2 t 1,2 5.5 - $k1\n 0.5 10 - 7 \"s\"x\n",
     "a space is missing after"},
    {NULL, "choice 3,-2 t 1,2 5.5 - $k1\n 0.5 ten - 7\n", "samples='ten'"},
    {NULL, "choice 3,-2 t 1,2 5.5 - \"$k1\" . . . . . . . 9\n 0.5 10 - 7\n",
     "continues after its last cell, at '9'"},
    {NULL,
     "choice 3,-2 t 1,2 5.5 - $k1\n"
     " 0.5 10 - 7 s - - - - 0 ok 1 - 9\n",
     "continues after its last cell, at '9'"},
    {NULL, " 0.5 10 - 7\n", "not a fact, code, trial or choice"},
    {"template t template=m hash=00\ntemplate t template=n hash=00\n", "",
     "another line describes the template 't'"},
    {"template t template=m hash=00 colour=a\n", "",
     "not a field of a template"},
    {"template t template=m hash=00 config=a config=b\n", "",
     "not a field of a template"},
    {"template t template=\"m\"x hash=00\n", "", "a space is missing"},
    {"template t template="
     "a_name_of_thirty_two_bytes_here."
     " hash=0\n",
     "", "is too long"},
    {"note k1 a\nnote k1 b\n", "", "another line has the note 'k1'"},
    {"note k1 a b\n", "", "is not one text"},
    {"note k1 $k2\n", "", "is not one text"},
    {"note k1\n", "", "has a key and a text"},
    {"for colour=red\n", "", "not a field of a line 'for'"},
    {"for device=.\n", "", "there is no usual value"},
};

static spc_status keep_last(spc__fate fate, const char *record,
                            const char *reason, int64_t line, void *payload)
{
    ck_assert_int_eq(fate, SPC__FATE_REJECTED);
    ck_assert_ptr_ne(record, NULL);
    ck_assert_int_gt(line, 0);
    snprintf(payload, 300, "%s", reason);
    return SPC_OK;
}

START_TEST(a_table_that_makes_no_sense_is_rejected_with_the_reason)
{
    char text[1200], reason[300] = "";
    spc__exchange exchange = {.each = keep_last, .payload = reason};
    const char *row = tables[_i].row;

    snprintf(text, sizeof(text), "# a remark\n%s%s",
             tables[_i].head != NULL ? tables[_i].head : table_head,
             row != NULL ? row : table_row);
    assert_ok(import_text(&exchange, "into", text, strlen(text)));
    ck_assert_msg((exchange.counts[SPC__FATE_REJECTED] == 0) ==
                      (tables[_i].says == NULL),
                  "%s: %s", text, reason);
    if (tables[_i].says != NULL) {
        ck_assert_msg(strstr(reason, tables[_i].says) != NULL, "%s: %s", text,
                      reason);
        return;
    }
    ck_assert_int_eq(exchange.counts[SPC__FATE_ACCEPTED], 2);
    char *all = text_of("into");
    ck_assert_ptr_nonnull(strstr(all, "for layer=op=x,k*=3 family=op=x"));
    ck_assert_ptr_nonnull(strstr(all, "\"the best of all\""));
    free(all);
}
END_TEST

/* If a line 'for' cannot be read, the layer of the rows below it is unknown. */
START_TEST(rows_without_their_layer_are_rejected)
{
    char text[1200], reason[300] = "";
    spc__exchange exchange = {.each = keep_last, .payload = reason};

    snprintf(text, sizeof(text), "%sfor layer=\"op=y\n%s", table_head,
             table_row);
    assert_ok(import_text(&exchange, "into", text, strlen(text)));
    ck_assert_int_eq(exchange.counts[SPC__FATE_REJECTED], 2);
    ck_assert_int_eq(exchange.counts[SPC__FATE_ACCEPTED], 0);
    ck_assert_msg(strstr(reason, "no line 'for' above") != NULL, "%s", reason);
}
END_TEST

/* The reader distinguishes two texts of one template and a repeated text. */
START_TEST(a_table_has_each_template_once)
{
    static const char text[] =
        "trial device=d target=t layer=op=x template=m hash=00 config=a=1"
        " status=ok samples=1 error=0 verified=1 note=\"a text of some length\""
        " at=1 seed=0\n"
        "trial device=d target=t layer=op=x template=m hash=11 config=a=1,b=2"
        " status=ok samples=1 error=0 verified=1 note=\"a text of some length\""
        " at=1 seed=0\n"
        "trial device=d target=t layer=op=x template=m hash=11 config=b=2,a=1"
        " status=wrong samples=1 error=inf verified=0 note=$aaaa at=1 seed=0\n";
    spc__exchange exchange = {.trusts = true};
    spc__exchange again = {.trusts = true};

    assert_ok(import_text(&exchange, "from", text, strlen(text)));
    ck_assert_int_eq(exchange.counts[SPC__FATE_ACCEPTED], 3);
    char *table = text_of("from");
    ck_assert_ptr_nonnull(strstr(table, "\ntemplate m template=m hash=00"));
    ck_assert_ptr_nonnull(strstr(table, "\ntemplate m.1 template=m hash=11"));
    ck_assert_ptr_nonnull(strstr(table, "\ntrial - m.1 b=2,a=1 - -\n"));
    ck_assert_ptr_nonnull(strstr(table, " wrong 0 \"$aaaa\"\n"));
    char *note = strstr(table, "\nnote ");
    ck_assert_ptr_nonnull(note);
    ck_assert_ptr_eq(strstr(note + 1, "\nnote "), NULL);
    assert_ok(import_text(&again, "into", table, strlen(table)));
    ck_assert_int_eq(again.counts[SPC__FATE_ACCEPTED], 3);
    assert_same("from", "into", "a table", 0);
    free(table);
}
END_TEST

/* Most trials have grid=big, which the table stores once. One has another
 * value, and one has no grid. */
START_TEST(a_value_that_is_not_usual_comes_back)
{
    static const char *const launches[] = {"block=64,grid=big",
                                           "block=64,grid=big", "block=64",
                                           "block=64,grid=small"};
    spc__exchange exchange = {.trusts = true};
    spc__buf text = SPC__BUF_INIT;

    for (int i = 0; i < LENGTH(launches); i++)
        spc__buf_printf(&text,
                        "trial device=d target=t layer=op=x template=m hash=00"
                        " config=a=%d status=ok samples=1 error=0 verified=1"
                        " launch=%s at=1 seed=0\n",
                        i, launches[i]);
    assert_ok(import_text(&exchange, "from", text.data, text.length));
    spc__buf_release(&text);
    char *table = text_of("from");
    ck_assert_ptr_nonnull(strstr(table, " launch=block=64,grid=big\n"));
    ck_assert_ptr_nonnull(strstr(table, " ,! "));
    ck_assert_ptr_nonnull(strstr(table, " ,small "));
    assert_ok(import_text(&exchange, "into", table, strlen(table)));
    assert_same("from", "into", "usual values", 0);
    free(table);
}
END_TEST

/* Any text accepted after damage equals the text that would be written. */
START_TEST(damaged_text_is_rejected_or_read_as_it_stands)
{
    bool all = suite_wants_all();
    uint64_t seed = 1 + (uint64_t)suite_variant(), state = seed;
    spc__record record = {0};
    spc__buf again = SPC__BUF_INIT;

    make_drawn("from", &state, 30);
    char *text = spread(text_of("from"));
    size_t bytes = strlen(text);
    for (int i = 0; i < (all ? 2000000 : 20000); i++) {
        size_t start = draw_bits(&state) % bytes;
        while (start > 0 && text[start - 1] != '\n')
            start--;
        size_t length = strcspn(text + start, "\n");
        char line[2000];
        ck_assert_uint_lt(length, sizeof(line));
        memcpy(line, text + start, length);
        for (int flips = draw(&state, 3); flips >= 0 && length > 0; flips--)
            line[draw_bits(&state) % length] ^= (char)(1 << draw(&state, 8));
        if (spc__record_parse(&record, line, length, NULL) != SPC_OK)
            continue;
        spc__buf_clear(&again);
        spc__record_format(&again, &record, true);
        spc__record second = {0};
        ck_assert_msg(spc__record_parse(&second, again.data, again.length,
                                        &error) == SPC_OK,
                      "seed %llu: %s: %s", (unsigned long long)seed, again.data,
                      error.text);
        ck_assert_int_eq(spc__record_compare(&record, &second), 0);
        spc__record_release(&second);
    }
    spc__record_release(&record);
    spc__buf_release(&again);
    free(text);
}
END_TEST

/* The records that can be read from a damaged table can be exported again. */
START_TEST(a_damaged_table_is_read_as_it_stands)
{
    bool all = suite_wants_all();
    uint64_t seed = 1 + (uint64_t)suite_variant(), state = seed;

    make_drawn("from", &state, 30);
    char *text = text_of("from");
    size_t bytes = strlen(text);
    for (int i = 0; i < (all ? 20000 : 100); i++) {
        spc__exchange first = {.trusts = true};
        spc__exchange second = {.trusts = true};
        char *damaged = strdup(text);
        for (int flips = draw(&state, 3); flips >= 0; flips--)
            damaged[draw_bits(&state) % bytes] ^= (char)(1 << draw(&state, 8));
        remove_file("into");
        remove_file("copy");
        assert_ok(import_text(&first, "into", damaged, bytes));
        char *table = text_of("into");
        assert_ok(import_text(&second, "copy", table, strlen(table)));
        ck_assert_int_eq(second.counts[SPC__FATE_REJECTED], 0);
        assert_same("into", "copy", "a damaged table", seed);
        free(table);
        free(damaged);
    }
    free(text);
}
END_TEST

Suite *suite(void)
{
    Suite *all = suite_create("exchange");
    TCase *merging = tcase_create("merging");
    TCase *text = tcase_create("text");

    suite_sample(1);
    tcase_set_timeout(merging, 7200);
    tcase_set_timeout(text, 7200);
    tcase_add_checked_fixture(merging, make_fast_folder, remove_folder);
    tcase_add_test(merging, merging_is_a_join);
    tcase_add_test(merging, what_is_merged_is_sealed_and_found);
    tcase_add_test(merging, what_is_damaged_stays_behind);
    tcase_add_test(merging,
                   code_for_the_host_is_taken_from_those_who_are_trusted);
    tcase_add_loop_test(merging, a_file_that_is_not_trusted_does_not_rule, 0,
                        LENGTH(strangers));
    tcase_add_loop_test(merging, code_of_a_key_is_not_replaced_by_a_stranger, 0,
                        2);
    tcase_add_loop_test(merging, code_whose_line_was_edited_is_rejected, 0,
                        LENGTH(edits));
    tcase_add_test(merging, a_difference_has_two_sides);
    suite_add_tcase(all, merging);
    tcase_add_checked_fixture(text, make_fast_folder, remove_folder);
    tcase_add_test(text, text_says_all_that_records_say);
    tcase_add_test(text, numbers_that_are_not_finite_come_back);
    tcase_add_loop_test(text,
                        a_line_that_makes_no_sense_is_rejected_with_the_reason,
                        0, LENGTH(mistakes));
    tcase_add_loop_test(text,
                        a_table_that_makes_no_sense_is_rejected_with_the_reason,
                        0, LENGTH(tables));
    tcase_add_test(text, rows_without_their_layer_are_rejected);
    tcase_add_test(text, a_table_has_each_template_once);
    tcase_add_test(text, a_value_that_is_not_usual_comes_back);
    tcase_add_test(text, damaged_text_is_rejected_or_read_as_it_stands);
    tcase_add_test(text, a_damaged_table_is_read_as_it_stands);
    suite_add_tcase(all, text);
    return all;
}

int main(void)
{
    return run_suite(suite());
}
