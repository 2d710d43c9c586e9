/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench_cache.c - the time of lookups among many problems, of opening shipped
 * files, and of the first use of a layer.
 *
 *     bench_cache [PROBLEMS]     (100000)
 *     bench_cache in FILE [PROBLEMS]     lookups in FILE, made if it is missing
 *     bench_cache only KIND FILE [PROBLEMS]     for a profile: exact, network,
 *                                               known, near, other or
 *                                               substitute; CPU time
 *     bench_cache open FILE...     each alone as a layer, then all together
 *     bench_cache first PACK.db TEMPLATES LAYER SCENE     on the cpu
 *
 * Not a test: it prints medians, and ends with 1 where one is above its goal:
 * 20 us for a lookup, 5 ms to open a pack. Lookups are measured in fifty parts.
 * The least median of a part is printed first, since other load on the machine
 * only adds time.
 */
#include "harness/cache_harness.h"

#include "base/clock.h"
#include "cache/pack/pack.h"
#include "spc.h"
#include "spc/lab.h"

#include <fcntl.h>
#include <sys/resource.h>

enum { LAYERS = 2000, MOST_SAMPLES = 20000 };

/* Makes problem n; there are many layers, each on scenes of all sizes. */
static spc__problem_key key_of(int n)
{
    spc__problem_key key = {0};
    int layer = n % LAYERS;

    spc__attrs_set_text(&key.layer, "op", "subm");
    spc__attrs_set_number(&key.layer, "cin", 4 + layer % 50);
    spc__attrs_set_number(&key.layer, "cout", 4 + layer / 50);
    spc__attrs_set_text(&key.layer, "dtype", "f16");
    spc__attrs_set_text(&key.family, "op", "subm");
    spc__attrs_set_text(&key.family, "dtype", "f16");
    spc__feature_add(&key, "rows", 8 + 0.5 * (n / LAYERS % 25), 1, 0.5);
    spc__feature_add(&key, "density", -4 + 0.5 * (n / LAYERS / 25), 0.5, 0.5);
    spc__feature_add(&key, "cin", log2(4 + layer % 50), 2, 0);
    spc__feature_add(&key, "cout", log2(4 + layer / 50), 2, 0);
    strcpy(key.device, "NVIDIA H200");
    strcpy(key.target, "sm_90a");
    return key;
}

static void put_problem(spc__cache *cache, int n)
{
    spc__provenance from = {.version = "0.1.0", .unix_seconds = 1};
    spc__problem_key key = key_of(n);
    uint64_t seed = (uint64_t)n;
    spc__trial trial = draw_trial(&seed);

    trial.status = SPC__TRIAL_OK;
    trial.median_us = 10;
    assert_ok(spc__cache_put_trial(cache, &key, &trial, &from, &error));
    assert_ok(
        spc__cache_put_choice(cache, &key, &trial, "fastest", &from, &error));
}

/* Does not wait for the disk, which is not measured. */
static void fill(spc__cache *cache, int problems)
{
    uint64_t start = spc__now_ns();

    sqlite3_exec(cache->layers[0].db, "PRAGMA synchronous = OFF", NULL, NULL,
                 NULL);
    for (int n = 0; n < problems; n++)
        put_problem(cache, n);
    printf("%-44s %10.1f us each\n", "putting a trial and a choice",
           (double)(spc__now_ns() - start) / 1e3 / problems);
}

static double samples[MOST_SAMPLES];

static void look_up(int sample, spc__cache *cache, const spc__problem_key *key,
                    const spc__problem_key *substitute)
{
    spc__choice found;
    int got = 0;

    uint64_t start = spc__now_ns();
    spc_status status = spc__cache_find_choices_of(cache, key, substitute,
                                                   &found, 1, &got, &error);
    samples[sample] = (double)(spc__now_ns() - start) / 1e3;
    /* an assertion for each call would write to a file */
    if (status != SPC_OK || got != 1)
        ck_abort_msg("%d found: %s", got, error.text);
}

/* The least median of fifty parts, and the median of all. */
typedef struct latency {
    double least, median;
} latency;

static latency medians(int count)
{
    enum { PARTS = 50 };
    latency out = {INFINITY, 0};

    for (int i = 0; i < PARTS; i++)
        out.least = fmin(
            out.least, spc__median(samples + count / PARTS * i, count / PARTS));
    out.median = spc__median(samples, count);
    return out;
}

static latency lookups(spc__cache *cache, int problems, double off, int count)
{
    uint64_t seed = 1;

    for (int i = 0; i < count; i++) {
        spc__problem_key key = key_of(draw(&seed, problems));
        key.features[0].value += off;
        look_up(i, cache, &key, NULL);
    }
    return medians(count);
}

/* A layer that was never tuned, with channels between those of other layers. */
static spc__problem_key draw_other(uint64_t *seed, int problems)
{
    spc__problem_key key = key_of(draw(seed, problems));

    spc__attrs_set_number(&key.layer, "cin", 1000 + draw(seed, 1000));
    for (int f = 0; f < key.feature_count; f++)
        key.features[f].value += draw(seed, 100) / 100.0;
    return key;
}

static latency others(spc__cache *cache, int problems, int count)
{
    uint64_t seed = 1;

    for (int i = 0; i < count; i++) {
        spc__problem_key key = draw_other(&seed, problems);
        look_up(i, cache, &key, NULL);
    }
    return medians(count);
}

/* Times lookups of a gradient whose forward layer was tuned: both are
 * ranked. */
static latency substitutes(spc__cache *cache, int problems, int count)
{
    uint64_t seed = 1;

    for (int i = 0; i < count; i++) {
        spc__problem_key key = draw_other(&seed, problems);
        spc__problem_key substitute = key_of(draw(&seed, problems));
        look_up(i, cache, &key, &substitute);
    }
    return medians(count);
}

/* Drops the file's pages from the kernel's cache, as after a start of the
 * machine. */
static void forget(const char *path)
{
    int file = open(path, O_RDONLY);

    posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
    close(file);
}

static double open_ms(const char *const *files, int count, bool cold)
{
    enum { TIMES = 51 };

    for (int i = 0; i < TIMES; i++) {
        spc__cache *cache = NULL;
        for (int f = 0; f < count && cold; f++)
            forget(files[f]);
        uint64_t start = spc__now_ns();
        assert_ok(spc__cache_open(&cache, NULL, files, count, &error));
        samples[i] = (double)(spc__now_ns() - start) / 1e6;
        spc__cache_close(cache);
    }
    return spc__median(samples, TIMES);
}

static int print(const char *what, double value, const char *unit, double goal)
{
    printf("%-44s %10.2f %s", what, value, unit);
    if (goal > 0)
        printf("   goal %g: %s", goal, value < goal ? "met" : "NOT met");
    putchar('\n');
    return goal > 0 && value >= goal;
}

static int print_lookups(const char *what, latency found, double goal)
{
    printf("%-44s %10.2f us (%.2f)", what, found.least, found.median);
    if (goal > 0)
        printf("   goal %g: %s", goal, found.least < goal ? "met" : "NOT met");
    putchar('\n');
    return goal > 0 && found.least >= goal;
}

/* The kinds of lookups. Near lookups come last: they load the family into
 * memory, which would make later exact lookups faster. */
static latency exact(spc__cache *cache, int problems, int count)
{
    return lookups(cache, problems, 0, count);
}

static latency network(spc__cache *cache, int problems, int count)
{
    return lookups(cache, problems < 100 ? problems : 100, 0, count);
}

static latency near_one(spc__cache *cache, int problems, int count)
{
    return lookups(cache, problems, 20, count);
}

static const struct {
    const char *word, *what;
    latency (*ask)(spc__cache *cache, int problems, int count);
    bool reads_family; /* reads the family into memory first */
    double goal;       /* in us; 0: no goal */
} kinds[] = {
    {"exact", "an exact hit", exact, false, 20},
    {"network", "the same among the hundred of a network", network, false, 20},
    {"known", "an exact hit after a near one", exact, true, 20},
    {"near", "a near hit of the layer, buckets away", near_one, true, 20},
    {"other", "a near hit of another layer", others, true, 20},
    {"substitute", "a gradient, by its forward layer", substitutes, true, 20},
};
enum { KINDS = sizeof(kinds) / sizeof(*kinds), ASKED = 20000 };

static void read_family(spc__cache *cache, int problems)
{
    uint64_t start = spc__now_ns();

    near_one(cache, problems, 1);
    print("the first near hit, which reads the family",
          (double)(spc__now_ns() - start) / 1e6, "ms", 0);
}

/* Returns how many lookups miss the goal. */
static int bench_kinds(spc__cache *cache, int problems)
{
    bool is_read = false;
    int missed = 0;

    printf("%d problems:\n", problems);
    for (int i = 0; i < KINDS; i++) {
        if (kinds[i].reads_family && !is_read)
            read_family(cache, problems);
        is_read |= kinds[i].reads_family;
        missed += print_lookups(
            kinds[i].what, kinds[i].ask(cache, problems, ASKED), kinds[i].goal);
    }
    return missed;
}

static double cpu_us(void)
{
    struct rusage used;

    getrusage(RUSAGE_SELF, &used);
    return (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) * 1e6 +
           (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec);
}

/* Runs one kind of lookup for a profile, after opening the file. */
static int bench_only(const char *word, const char *path, int problems)
{
    enum { ROUNDS = 10 };
    spc__cache *cache = NULL;

    for (int i = 0; i < KINDS; i++) {
        if (strcmp(kinds[i].word, word) != 0)
            continue;
        assert_ok(spc__cache_open(&cache, path, NULL, 0, &error));
        if (kinds[i].reads_family)
            read_family(cache, problems);
        double start = cpu_us();
        for (int n = 0; n < ROUNDS; n++)
            print_lookups(kinds[i].what, kinds[i].ask(cache, problems, ASKED),
                          kinds[i].goal);
        print("time of the processor, with what asks",
              (cpu_us() - start) / ROUNDS / ASKED, "us", 0);
        spc__cache_close(cache);
        return 0;
    }
    printf("bench_cache: no kind of lookup is called '%s'\n", word);
    return 1;
}

static int bench_in(const char *path, int problems)
{
    spc__cache *cache = NULL;
    int missed;

    bool is_there = access(path, F_OK) == 0;
    assert_ok(spc__cache_open(&cache, path, NULL, 0, &error));
    if (!is_there)
        fill(cache, problems);
    missed = bench_kinds(cache, problems);
    spc__cache_close(cache);
    return missed > 0;
}

static int bench_lookups(int problems)
{
    spc__pack_report packed;
    const char *file;
    const char *many[24];
    spc__cache *cache;
    int missed = 0;

    make_fast_folder();
    file = at("pack.db");
    cache = open_user("large.db");
    fill(cache, problems);
    missed += bench_kinds(cache, problems);
    uint64_t start = spc__now_ns();
    assert_ok(
        spc__cache_pack(cache, file, SPC__PACK_APART, NULL, &packed, &error));
    print("packing", (double)(spc__now_ns() - start) / 1e9, "s", 0);
    spc__cache_close(cache);
    missed += print("opening the pack", open_ms(&file, 1, false), "ms", 5);
    missed += print("opening it cold", open_ms(&file, 1, true), "ms", 5);
    assert_ok(spc__cache_open(&cache, NULL, &file, 1, &error));
    missed += print_lookups("an exact hit in the pack",
                            lookups(cache, problems, 0, 20000), 20);
    spc__cache_close(cache);
    for (int i = 0; i < 24; i++)
        many[i] = file;
    assert_ok(spc__cache_open(&cache, NULL, many, 24, &error));
    print_lookups("an exact hit in 24 layers",
                  lookups(cache, problems, 0, 5000), 0);
    spc__cache_close(cache);
    remove_folder();
    return missed > 0;
}

/* Times the start of a program with a shipped pack, up to its first plan.
 */
static int bench_first(char **words)
{
    const char *layers[] = {words[0]};
    spc_ctx_options options = SPC_CTX_OPTIONS_INIT;
    spc_ctx *ctx = NULL;
    spc_scene *scene = NULL;
    spc_map *map = NULL;
    spc_plan *plan = NULL;
    spc_conv conv;

    options.device = "cpu";
    options.database = "";
    options.layers = layers;
    options.layer_count = 1;
    options.template_dir = words[1][0] != '\0' ? words[1] : NULL;
    options.need_database = options.trust = true;
    assert_ok(spc_conv_parse(&conv, words[2], &error));
    assert_ok(spc_scene_load(&scene, words[3], &error));
    uint64_t start = spc__now_ns();
    assert_ok(spc_ctx_create(&ctx, &options, &error));
    uint64_t opened = spc__now_ns();
    assert_ok(spc_map_create_from_scene(&map, ctx, &conv, scene));
    uint64_t mapped = spc__now_ns();
    assert_ok(spc_plan_create(&plan, ctx, &conv, map, SPC_PLAN_CACHED_ONLY));
    uint64_t planned = spc__now_ns();
    print("opening a context with the pack", (double)(opened - start) / 1e6,
          "ms", 0);
    print("the map", (double)(mapped - opened) / 1e6, "ms", 0);
    print("the plan, its code from the pack", (double)(planned - mapped) / 1e6,
          "ms", 0);
    printf("origin %d: %s\n", (int)spc_plan_match(plan), spc_plan_reason(plan));
    spc_plan_free(plan);
    spc_map_free(map);
    spc_ctx_free(ctx);
    spc_scene_free(scene);
    return 0;
}

static int bench_open(char **files, int count)
{
    int missed = 0;

    for (int i = 0; i <= count; i++) {
        const char *const *some = (const char *const *)files + i % count;
        int n = i < count ? 1 : count;
        printf("%s\n", n == 1 ? files[i] : "all of them");
        missed += print("  opening", open_ms(some, n, false), "ms", 5);
        missed += print("  opening cold", open_ms(some, n, true), "ms", 5);
    }
    return missed > 0;
}

static int word_count, result;
static char **all_words;

/* Runs as a test, since its helpers use assertions. */
START_TEST(figures)
{
    if (word_count > 3 && strcmp(all_words[1], "only") == 0)
        result = bench_only(all_words[2], all_words[3],
                            word_count > 4 ? atoi(all_words[4]) : 100000);
    else if (word_count > 2 && strcmp(all_words[1], "open") == 0)
        result = bench_open(all_words + 2, word_count - 2);
    else if (word_count == 6 && strcmp(all_words[1], "first") == 0)
        result = bench_first(all_words + 2);
    else if (word_count > 2 && strcmp(all_words[1], "in") == 0)
        result = bench_in(all_words[2],
                          word_count > 3 ? atoi(all_words[3]) : 100000);
    else
        result = bench_lookups(word_count > 1 ? atoi(all_words[1]) : 100000);
}
END_TEST

int main(int argc, char **argv)
{
    Suite *suite = suite_create("bench_cache");
    TCase *only = tcase_create("figures");

    word_count = argc;
    all_words = argv;
    tcase_add_test(only, figures);
    tcase_set_timeout(only, 3600);
    suite_add_tcase(suite, only);
    setenv("CK_FORK", "no", 1);
    int failed = run_suite(suite);
    return failed != 0 ? failed : result;
}
