/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_near_lookup.c - the trees find the same near records as a search of all
 * records.
 */
#include "harness/cache_harness.h"

#include "base/clock.h"
#include <stdlib.h>

Suite *suite(void);

enum { RECORDS = 800, QUESTIONS = 100, WIDE = 8 };

static const char *const targets[] = {"sm_80", "sm_90a", "sm_100"};

/* The test's copy of a record. */
typedef struct known {
    spc__problem_key key;
    double median_us;
} known;

static known all[RECORDS];
static int known_count;

/* Positions are whole steps, so many distances are equal. */
static spc__problem_key draw_problem(uint64_t *seed, int layers)
{
    spc__problem_key key = {0};
    int cin = draw(seed, 8), cout = draw(seed, 8);

    spc__attrs_set_text(&key.layer, "op", "subm");
    spc__attrs_set_number(&key.layer, "cin", cin);
    spc__attrs_set_number(&key.layer, "cout", cout);
    spc__attrs_set_number(&key.layer, "like", draw(seed, layers));
    spc__attrs_set_text(&key.family, "op", "subm");
    spc__feature_add(&key, "rows", draw(seed, 60) / 2.0, 1, 0.5);
    spc__feature_add(&key, "density", -draw(seed, 12) / 2.0, 0.5, 0.5);
    spc__feature_add(&key, "cin", cin, 2, 0);
    spc__feature_add(&key, "cout", cout, 2, 0);
    strcpy(key.device, "NVIDIA H200");
    strcpy(key.target, targets[draw(seed, 3)]);
    return key;
}

static void fill(spc__cache *cache, uint64_t *seed, int layers)
{
    spc__provenance from = {.version = "0.1.0", .unix_seconds = 1};

    sqlite3_exec(cache->layers[0].db, "PRAGMA synchronous = OFF", NULL, NULL,
                 NULL);
    for (known_count = 0; known_count < RECORDS; known_count++) {
        known *next = &all[known_count];
        spc__trial trial = draw_trial(seed);
        next->key = draw_problem(seed, layers);
        trial.status = SPC__TRIAL_OK;
        trial.samples = 5;
        next->median_us = trial.median_us = 1 + draw(seed, 5);
        assert_ok(
            spc__cache_put_trial(cache, &next->key, &trial, &from, &error));
        assert_ok(spc__cache_put_choice(cache, &next->key, &trial, "fastest",
                                        &from, &error));
    }
}

/* Computes a record's match and distance directly. */
static spc__match match_of(double *distance, const spc__problem_key *of,
                           const spc__problem_key *asked)
{
    bool own = strcmp(of->target, asked->target) == 0 &&
               spc__attrs_equal(&of->layer, &asked->layer);
    double farthest = 0;

    *distance = strcmp(of->target, asked->target) == 0 ? 0 : 4;
    for (int i = 0; i < asked->feature_count; i++) {
        const spc__feature *there = &of->features[i];
        const spc__feature *here = &asked->features[i];
        *distance += here->weight * fabs(there->value - here->value);
        if (here->width > 0)
            farthest = fmax(
                farthest, abs(spc__feature_bucket(there->value, there->width) -
                              spc__feature_bucket(here->value, here->width)));
    }
    if (!own || farthest > 2)
        return SPC__MATCH_NEAREST;
    if (farthest > 0)
        return SPC__MATCH_BUCKET;
    *distance = 0;
    return SPC__MATCH_EXACT;
}

/* True if a later choice of the same problem replaced an earlier one. */
static bool is_replaced(int i)
{
    for (int k = i + 1; k < known_count; k++)
        if (strcmp(all[i].key.target, all[k].key.target) == 0 &&
            spc__same_buckets(&all[i].key, &all[k].key) &&
            spc__attrs_equal(&all[i].key.layer, &all[k].key.layer))
            return true;
    return false;
}

typedef struct near_record {
    int match;
    double distance, median_us;
} near_record;

static int compare(const void *a, const void *b)
{
    const near_record *x = a, *y = b;

    if (x->match != y->match)
        return x->match - y->match;
    if (x->distance != y->distance)
        return x->distance < y->distance ? -1 : 1;
    return x->median_us < y->median_us ? -1 : x->median_us > y->median_us;
}

static void assert_found(spc__cache *cache, const bool *replaced,
                         const spc__problem_key *asked, int capacity)
{
    static near_record near_records[RECORDS];
    spc__choice found[WIDE];
    int count = 0, got = 0;

    for (int i = 0; i < known_count; i++) {
        near_record *next = &near_records[count];
        if (replaced[i])
            continue;
        next->match = match_of(&next->distance, &all[i].key, asked);
        next->median_us = all[i].median_us;
        count++;
    }
    qsort(near_records, (size_t)count, sizeof(*near_records), compare);
    assert_ok(
        spc__cache_find_choices(cache, asked, found, capacity, &got, &error));
    ck_assert_int_eq(got, capacity);
    for (int i = 0; i < got; i++) {
        ck_assert_int_eq(found[i].match, near_records[i].match);
        ck_assert_double_eq_tol(found[i].distance, near_records[i].distance,
                                1e-9);
        ck_assert_double_eq(found[i].trial.median_us,
                            near_records[i].median_us);
    }
}

/* Few layers with many records, and many layers with few. */
static const int layer_counts[] = {1, 4, 1000};

START_TEST(a_tree_finds_what_a_walk_finds)
{
    static bool replaced[RECORDS];
    uint64_t seed = suite_base_seed();

    fprintf(stderr, "near_lookup: seed %llu\n", (unsigned long long)seed);
    spc__cache *cache = open_user("near.db");
    fill(cache, &seed, layer_counts[_i]);
    for (int i = 0; i < known_count; i++)
        replaced[i] = is_replaced(i);
    for (int i = 0; i < QUESTIONS; i++) {
        spc__problem_key asked = i % 2 == 0 ? all[draw(&seed, RECORDS)].key
                                            : draw_problem(&seed, 2000);
        asked.features[0].value += draw(&seed, 5) - 2;
        asked.features[1].value += draw(&seed, 3) - 1;
        assert_found(cache, replaced, &asked, 1);
        assert_found(cache, replaced, &asked, WIDE);
    }
    spc__cache_close(cache);
}
END_TEST

static double look_shown(int64_t point, void *payload)
{
    (void)point;
    ++*(int *)payload;
    return 0.02; /* closer than any two grid points */
}

/* A linear search would visit every point. */
START_TEST(of_many_points_a_few_leaves_are_seen)
{
    enum { SIDE = 64, POINTS = SIDE * SIDE };
    static double points[POINTS][2];
    spc__kd_point at = {.at = {31.01, 17}, .weight = {1, 1}, .count = 2};
    spc__kd_trees trees = {0};
    int shown = 0;

    for (int i = 0; i < POINTS; i++) {
        points[i][0] = i % SIDE;
        points[i][1] = i / SIDE;
    }
    ck_assert(spc__kd_begin(&trees, points[0], 2, POINTS, 2));
    ck_assert_int_eq(spc__kd_add(&trees, 0, POINTS, &at), 0);
    spc__kd_walk(&trees, 0, &at, INFINITY, look_shown, &shown);
    ck_assert_int_ge(shown, 1);
    ck_assert_int_le(shown, 64);
    spc__kd_release(&trees);
}
END_TEST

/* ---- an open handle ------------------------------------------------------ */

#define LENGTH(array) ((int)(sizeof(array) / sizeof((array)[0])))

enum { ASKED = 5 };

static spc__problem_key small_problem(int rows)
{
    spc__problem_key key = {0};

    spc__attrs_set_text(&key.layer, "op", "subm");
    spc__attrs_set_text(&key.family, "op", "subm");
    spc__feature_add(&key, "rows", rows, 1, 0.5);
    strcpy(key.device, "NVIDIA H200");
    strcpy(key.target, "sm_90a");
    return key;
}

/* Ten problems, and a handle that has made near and exact look-ups. */
static spc__cache *open_warm(void)
{
    spc__provenance from = {.version = "0.1.0", .host = "here"};
    spc__cache *cache = open_user("warm.db");
    spc__choice found;
    int got;

    for (int rows = 1; rows <= 10; rows++) {
        spc__problem_key key = small_problem(rows);
        uint64_t seed = (uint64_t)rows;
        spc__trial trial = draw_trial(&seed);
        trial.status = SPC__TRIAL_OK;
        trial.samples = 5;
        trial.median_us = rows;
        assert_ok(spc__cache_put_trial(cache, &key, &trial, &from, &error));
        assert_ok(spc__cache_put_choice(cache, &key, &trial, "fastest", &from,
                                        &error));
    }
    for (int rows = 40; rows >= ASKED; rows -= 35) {
        spc__problem_key key = small_problem(rows);
        assert_ok(
            spc__cache_find_choices(cache, &key, &found, 1, &got, &error));
        ck_assert_int_eq(got, 1);
    }
    return cache;
}

/* Changes by another process to the record that a look-up would serve. */
static const char *const edits[] = {
    "UPDATE trial SET median_us = 0.5 WHERE median_us = 5",
    "UPDATE trial SET launch = 'block=64' WHERE median_us = 5",
    "UPDATE choice SET reason = 'mine' WHERE problem = 5",
    "UPDATE choice SET unix_seconds = unix_seconds + 1 WHERE problem = 5",
    "UPDATE problem SET buckets = 'rows=11' WHERE id = 5",
    "UPDATE provenance SET host = 'there'",
    "UPDATE provenance SET seed = seed + 1",
    "DELETE FROM provenance",
    "UPDATE seal SET digest = upper(digest) WHERE kind = 'choice'",
    "DELETE FROM seal WHERE kind = 'choice' AND record = 5",
};

static void edit_beside(const char *sql)
{
    sqlite3 *db = NULL;

    ck_assert_int_eq(sqlite3_open(at("warm.db"), &db), SQLITE_OK);
    ck_assert_int_eq(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(db);
}

/* Only the choice was edited; the trial is unchanged. */
static bool is_trial_alone(const spc__choice *found)
{
    return strcmp(found->reason, SPC__NEXT_REASON) == 0 &&
           spc__attrs_number(&found->trial.launch, "block", 0) == 128;
}

/* Look-ups are exact, or from so far away that every record is near. */
START_TEST(what_is_edited_beside_an_open_handle_does_not_serve)
{
    spc__cache *cache = open_warm();
    spc__problem_key key = small_problem(ASKED);
    spc__choice found;
    int got;

    edit_beside(edits[_i]);
    for (int times = 0; times < 2; times++) {
        spc__cache_find_choices(cache, &key, &found, 1, &got, NULL);
        if (got > 0)
            ck_assert_msg(
                found.trial.median_us != 0.5 &&
                    (found.trial.median_us != ASKED || is_trial_alone(&found)),
                "an edited record serves");
    }
    spc__cache_close(cache);
}
END_TEST

/* The choice's seal includes the trial's digest, so it shows that the trial's
 * row is unchanged, even if the trial's own seal is lost. */
START_TEST(a_choice_serves_while_its_seal_fits_both_rows)
{
    static const char *const losses[] = {
        "UPDATE seal SET digest = upper(digest) WHERE kind = 'trial'",
        "DELETE FROM seal WHERE kind = 'trial'",
    };
    spc__cache *cache = open_warm();
    spc__problem_key key = small_problem(ASKED);
    spc__choice found;
    int got;

    edit_beside(losses[_i]);
    assert_ok(spc__cache_find_choices(cache, &key, &found, 1, &got, &error));
    ck_assert_int_eq(got, 1);
    ck_assert_double_eq(found.trial.median_us, ASKED);
    edit_beside("UPDATE trial SET note = 'mine' WHERE median_us = 5");
    spc__cache_find_choices(cache, &key, &found, 1, &got, NULL);
    ck_assert(got == 0 || found.trial.median_us != ASKED);
    spc__cache_close(cache);
}
END_TEST

START_TEST(what_is_stored_beside_an_open_handle_serves)
{
    spc__cache *cache = open_warm();
    spc__cache *other = open_user("warm.db");
    spc__problem_key key = small_problem(ASKED);
    spc__provenance from = {.version = "0.1.1", .host = "there"};
    uint64_t seed = 77;
    spc__trial trial = draw_trial(&seed);
    spc__choice found;
    int got;

    trial.status = SPC__TRIAL_OK;
    trial.samples = 5;
    trial.median_us = 0.25;
    spc__attrs_set_number(&trial.config, "rows", 7);
    assert_ok(spc__cache_put_trial(other, &key, &trial, &from, &error));
    assert_ok(
        spc__cache_put_choice(other, &key, &trial, "faster", &from, &error));
    assert_ok(spc__cache_find_choices(cache, &key, &found, 1, &got, &error));
    ck_assert_int_eq(got, 1);
    ck_assert_str_eq(found.reason, "faster");
    spc__cache_close(other);
    spc__cache_close(cache);
}
END_TEST

static int count_one(unsigned what, void *count, void *stmt, void *text)
{
    (void)what;
    (void)stmt;
    (void)text;
    ++*(int *)count;
    return 0;
}

/* The problem and its substitute have records of scenes of these sizes. The
 * look-up lists the nearer ones first, and its own at equal distance. */
START_TEST(choices_of_a_substitute_are_listed_by_match_and_distance)
{
    static const struct {
        int own, substitute, asked; /* rows */
        double serves;              /* 1: its own record; 2: the substitute's */
        int listed;
    } rows[] = {{40, 5, 5, 2, 2}, {40, 6, 5, 2, 2},  {6, 5, 5, 1, 1},
                {5, 5, 5, 1, 1},  {40, 5, 20, 2, 2}, {10, 40, 20, 1, 2}};

    spc__cache *cache = open_user("substitute.db");
    spc__provenance from = {.version = "0.1.0", .host = "here"};
    spc__problem_key own = small_problem(rows[_i].own);
    spc__problem_key substitute = small_problem(rows[_i].substitute);
    spc__choice found[2];
    uint64_t seed = 1;
    int got;

    spc__attrs_set_number(&own.layer, "back", 1);
    spc__attrs_set_number(&own.family, "back", 1);
    for (int i = 0; i < 2; i++) {
        const spc__problem_key *key = i == 0 ? &own : &substitute;
        spc__trial trial = draw_trial(&seed);
        trial.status = SPC__TRIAL_OK;
        trial.samples = 5;
        trial.median_us = 1 + i;
        assert_ok(spc__cache_put_trial(cache, key, &trial, &from, &error));
        assert_ok(spc__cache_put_choice(cache, key, &trial, "fastest", &from,
                                        &error));
    }
    own.features[0].value = substitute.features[0].value = rows[_i].asked;
    for (int capacity = 1; capacity <= 2; capacity++)
        for (int times = 0; times < 2; times++) {
            assert_ok(spc__cache_find_choices_of(
                cache, &own, &substitute, found, capacity, &got, &error));
            ck_assert_int_eq(got, capacity < rows[_i].listed ? capacity
                                                             : rows[_i].listed);
            ck_assert_double_eq(found[0].trial.median_us, rows[_i].serves);
        }
    spc__cache_close(cache);
}
END_TEST

/* Once the families are in memory, a look-up makes two SQLite queries: whether
 * they are current, and the record (exact, of the layer, of another layer, or
 * of a substitute). */
START_TEST(a_lookup_asks_two_questions)
{
    spc__cache *cache = open_warm();
    int asked = 0;

    sqlite3_trace_v2(cache->layers[0].db, SQLITE_TRACE_STMT, count_one, &asked);
    for (int n = 0; n < 5; n++) {
        spc__problem_key key = small_problem(n == 0 ? ASKED : 40);
        spc__problem_key substitute = small_problem(n == 4 ? 20 : ASKED);
        spc__choice found;
        int got;
        if (n >= 2)
            spc__attrs_set_number(&key.layer, "cin", 8);
        if (n >= 3) /* the layer's own family is empty */
            spc__attrs_set_number(&key.family, "back", 1);
        for (int times = n == 3 ? 0 : 1; times < 2; times++) {
            asked = 0;
            assert_ok(spc__cache_find_choices_of(cache, &key,
                                                 n >= 3 ? &substitute : NULL,
                                                 &found, 1, &got, &error));
        }
        ck_assert_int_eq(got, 1);
        ck_assert_int_le(asked, 2);
    }
    spc__cache_close(cache);
}
END_TEST

Suite *suite(void)
{
    Suite *whole = suite_create("near_lookup");
    TCase *near = tcase_create("near");

    tcase_set_timeout(near, 600);
    tcase_add_checked_fixture(near, make_fast_folder, remove_folder);
    tcase_add_loop_test(near, a_tree_finds_what_a_walk_finds, 0, 3);
    tcase_add_test(near, of_many_points_a_few_leaves_are_seen);
    tcase_add_loop_test(near,
                        what_is_edited_beside_an_open_handle_does_not_serve, 0,
                        LENGTH(edits));
    tcase_add_loop_test(near, a_choice_serves_while_its_seal_fits_both_rows, 0,
                        2);
    tcase_add_test(near, what_is_stored_beside_an_open_handle_serves);
    tcase_add_loop_test(
        near, choices_of_a_substitute_are_listed_by_match_and_distance, 0, 6);
    tcase_add_test(near, a_lookup_asks_two_questions);
    suite_add_tcase(whole, near);
    return whole;
}

int main(void)
{
    return run_suite(suite());
}
