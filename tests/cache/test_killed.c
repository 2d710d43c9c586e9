/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_killed.c - eight processes write to one file and are killed one after
 * another. The file has all records that they reported as stored.
 */
#include "harness/cache_harness.h"

#include <signal.h>
#include <sys/wait.h>

Suite *suite(void);

/* An operation that a process repeats endlessly. It is stored when the call
 * returns. `n` counts the calls. */
typedef spc_status (*habit)(spc__cache *cache, uint32_t n, uint64_t *seed);

static spc_status put_one(spc__cache *cache, uint32_t n, uint64_t *seed)
{
    spc__problem_key key = draw_key(seed);
    spc__trial trial = draw_trial(seed);
    spc__provenance from = draw_provenance(seed);

    spc__attrs_set_number(&trial.config, "n", n);
    spc__attrs_set_number(&trial.config, "pid", getpid());
    return spc__cache_put_trial(cache, &key, &trial, &from, &error);
}

static spc_status replace_network(spc__cache *cache, uint32_t n, uint64_t *seed)
{
    (void)n;
    (void)seed;
    return put_network(cache, "made", true);
}

static spc_status merge_other(spc__cache *cache, uint32_t n, uint64_t *seed)
{
    spc__exchange exchange = {.trusts = true};

    (void)n;
    (void)seed;
    return spc__cache_merge(cache, at("other.db"), &exchange, &error);
}

enum { AT_ONCE = 8, KILLS = 200 };

static const habit habits[AT_ONCE] = {put_one,     put_one,        put_one,
                                      put_one,     put_one,        put_one,
                                      merge_other, replace_network};

/* Reports each stored record. */
static void work_for_ever(int tell, habit what, uint64_t seed)
{
    spc__cache *cache = open_user("killed.db");

    for (uint32_t n = 0;; n++)
        if (what(cache, n, &seed) != SPC_OK ||
            write(tell, &n, sizeof(n)) != sizeof(n))
            _exit(1);
}

typedef struct victim {
    pid_t pid;
    int told; /* a pipe */
    int64_t stored;
} victim;

static void start_victim(victim *out, habit what, uint64_t seed)
{
    int pipes[2];

    ck_assert_int_eq(pipe(pipes), 0);
    out->pid = fork();
    if (out->pid == 0)
        work_for_ever(pipes[1], what, seed);
    close(pipes[1]);
    out->told = pipes[0];
}

/* Reads how many records it reported. */
static void end_victim(victim *it)
{
    uint32_t last = 0;
    int code = 0;

    while (read(it->told, &last, sizeof(last)) == sizeof(last))
        it->stored = (int64_t)last + 1;
    close(it->told);
    waitpid(it->pid, &code, 0);
    ck_assert_msg(WIFSIGNALED(code), "it ended by itself: %d", code);
}

/* Runs eight processes and kills them one after another at random moments. */
static void kill_all(victim victims[AT_ONCE], uint64_t *seed)
{
    memset(victims, 0, AT_ONCE * sizeof(*victims));
    for (int i = 0; i < AT_ONCE; i++)
        start_victim(&victims[i], habits[i], draw_bits(seed));
    for (int i = 0; i < AT_ONCE; i++) {
        usleep((useconds_t)(2000 + draw(seed, 20000)));
        kill(victims[i].pid, SIGKILL);
    }
    for (int i = 0; i < AT_ONCE; i++)
        end_victim(&victims[i]);
}

static int64_t count_of(const char *text, pid_t child)
{
    char word[40];
    int64_t count = 0;

    snprintf(word, sizeof(word), ",pid=%ld ", (long)child);
    for (const char *at_ = text; (at_ = strstr(at_, word)) != NULL; at_++)
        count++;
    return count;
}

static void assert_stored(const victim *it, int i, const char *text)
{
    if (habits[i] == put_one)
        ck_assert_msg(
            count_of(text, it->pid) >= it->stored, "process %d: %lld of %lld",
            i, (long long)count_of(text, it->pid), (long long)it->stored);
    if (habits[i] == replace_network && it->stored > 0) {
        spc__cache *cache = open_user("killed.db");
        char how[] = "killed";
        ck_assert_msg(ask_network(cache, how), "%s", error.text);
        spc__cache_close(cache);
    }
}

START_TEST(nothing_that_was_stored_is_lost_by_a_kill)
{
    uint64_t seed = 1 + (uint64_t)suite_variant();
    int64_t stored = 0;

    make_drawn("other.db", &seed, 30);
    for (int i = 0; i < KILLS; i += AT_ONCE) {
        victim victims[AT_ONCE];
        int64_t checked;
        kill_all(victims, &seed);
        /* Asserts that no record is damaged. */
        char *text = spread(text_of("killed.db"));
        for (int v = 0; v < AT_ONCE; v++) {
            assert_stored(&victims[v], v, text);
            stored += victims[v].stored;
        }
        free(text);
        spc__cache *cache = open_user("killed.db");
        assert_ok(spc__cache_verify(cache, &checked, NULL, NULL, &error));
        spc__cache_close(cache);
    }
    ck_assert_int_gt(stored, 20);
}
END_TEST

Suite *suite(void)
{
    Suite *all = suite_create("killed");
    TCase *part = tcase_create("killed");

    suite_sample(1);
    tcase_set_timeout(part, 7200);
    tcase_add_checked_fixture(part, make_fast_folder, remove_folder);
    tcase_add_test(part, nothing_that_was_stored_is_lost_by_a_kill);
    suite_add_tcase(all, part);
    return all;
}

int main(void)
{
    return run_suite(suite());
}
