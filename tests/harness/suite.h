/* SPDX-License-Identifier: Apache-2.0 */
/*
 * suite.h - runs a suite of Check and reports the result. It also reads a test
 * program's arguments: a device, and the location of test data.
 */
#ifndef SPC_TESTS_SUITE_H
#define SPC_TESTS_SUITE_H

#include "spc.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

/* ---- the seed --------------------------------------------------------- */

/* Returns the seed of all random data: $SPC_SEED, else 1. Every run of a commit
 * therefore uses the same data. */
static inline uint64_t suite_base_seed(void)
{
    const char *word = getenv("SPC_SEED");

    return word != NULL && word[0] != '\0' ? strtoull(word, NULL, 10) : 1;
}

/* ---- skipped checks ------------------------------------------------------ */

/* The exit status that marks a skipped program for ctest and gpu.sh. */
enum { SUITE_SKIPPED = 77 };

/* Counts the checks that could not run, and keeps the last reason. Shared with
 * the processes that run the checks. */
typedef struct suite_skips {
    int count;
    char why[1024];
} suite_skips;

static suite_skips *suite_skipped;

static inline void suite_share_skips(void)
{
    if (suite_skipped != NULL)
        return;
    suite_skipped = mmap(NULL, sizeof(*suite_skipped), PROT_READ | PROT_WRITE,
                         MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (suite_skipped == MAP_FAILED)
        abort();
}

/* Counts one check that this machine cannot run. */
static inline void suite_note_skip(const char *why)
{
    suite_share_skips();
    __atomic_fetch_add(&suite_skipped->count, 1, __ATOMIC_RELAXED);
    snprintf(suite_skipped->why, sizeof(suite_skipped->why), "%s", why);
}

/* Ends a test that this machine cannot run. Call it before the test has made
 * anything. */
#define skip_test(why)                                                         \
    do {                                                                       \
        suite_note_skip(why);                                                  \
        return;                                                                \
    } while (0)

/* Returns false if the suite lacks a case of the requested name. Check would
 * then run nothing and report success. */
static inline bool suite_has_case(Suite *suite)
{
    const char *name = getenv("CK_RUN_CASE");

    if (name == NULL || suite_tcase(suite, name))
        return true;
    printf("no case \"%s\" is in this suite\n", name);
    return false;
}

/*
 * Makes contexts use no database unless one is named, and no shipped records.
 * So no test depends on the user's own file, or on a file next to the build.
 * Suites pass the database that they need (suite_database), or set these
 * variables.
 */
static inline void suite_choose_databases(void)
{
    setenv("SPC_DATABASE", "", 1);
    setenv("SPC_SHIPPED", "", 1);
}

/* Runs the whole suite and frees it. Returns the exit status of the program:
 * SKIPPED if any check was skipped. */
static inline int run_suite(Suite *suite)
{
    SRunner *runner = srunner_create(suite);

    suite_choose_databases();

    if (!suite_has_case(suite)) {
        srunner_free(runner);
        return EXIT_FAILURE;
    }
    suite_share_skips();
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    int skipped = suite_skipped->count;
    if (skipped > 0)
        printf("skipped: %d of these checks: %s\n", skipped,
               suite_skipped->why);
    munmap(suite_skipped, sizeof(*suite_skipped));
    suite_skipped = NULL;
    if (failed > 0) {
        printf("again the same: SPC_SEED=%llu\n",
               (unsigned long long)suite_base_seed());
        return EXIT_FAILURE;
    }
    return skipped > 0 ? SUITE_SKIPPED : EXIT_SUCCESS;
}

/* For main: return suite_skip("no GPU"). */
static inline int suite_skip(const char *why)
{
    printf("skipped: %s\n", why);
    return SUITE_SKIPPED;
}

/*
 * True if the program should run only one part of its suite. Checks that only
 * some machines can run form a part, which is a separate test of ctest:
 * `test_compiler nvrtc`.
 */
static inline int suite_is_part(int argc, char **argv, const char *part)
{
    return argc > 1 && strcmp(argv[1], part) == 0;
}

/* ---- the device ---------------------------------------------------------- */

/* The device that was given as an argument. NULL: the devices that every
 * machine has. */
static const char *suite_device;

static inline int suite_has_device(const char *device)
{
    spc_device_info info[16];
    int count = spc_devices_list(info, 16);

    for (int i = 0; i < count && i < 16; i++)
        if (strncmp(info[i].id, device, strlen(device)) == 0)
            return 1;
    return 0;
}

static inline int suite_is_gpu(void)
{
    return suite_device != NULL && strncmp(suite_device, "cuda", 4) == 0;
}

/*
 * Reads the argument of a program that runs on a device: `test_map cuda`.
 * Returns 0, or the exit status with which to end at once.
 */
static inline int suite_open(int argc, char **argv)
{
    suite_device = argc > 1 ? argv[1] : NULL;
    if (suite_device == NULL)
        return 0;
    if (!suite_has_device(suite_device)) {
        printf("skipped: no device \"%s\" on this machine\n", suite_device);
        return SUITE_SKIPPED;
    }
    if (suite_is_gpu())
        setenv("CK_FORK", "no", 1); /* a GPU's driver does not survive fork() */
    return 0;
}

/*
 * Returns the database of compiled code that suites share, $SPC_TEST_DATABASE,
 * or "". A suite loads code that an earlier one compiled. Suites that examine
 * the contents of a database must not use it.
 */
static inline const char *suite_database(void)
{
    const char *file = getenv("SPC_TEST_DATABASE");

    return file != NULL ? file : "";
}

/* ---- seeds and samples --------------------------------------------------- */

/*
 * Returns the seed in `word`, an argument of the command line. NULL:
 * suite_base_seed().
 */
static inline uint64_t suite_seed(const char *word)
{
    uint64_t seed = word != NULL ? strtoull(word, NULL, 10) : suite_base_seed();

    printf("drawn with seed %llu\n", (unsigned long long)seed);
    fflush(stdout);
    return seed;
}

/* Returns a number that selects a variant of a test: 0 unless another seed is
 * set. */
static inline int suite_variant(void)
{
    return (int)((suite_base_seed() - 1) % 1000);
}

static int suite_one_in = 1, suite_first;

/* True if sampled tests should run all their cases. */
static inline bool suite_wants_all(void)
{
    return getenv("SPC_TEST_ALL") != NULL;
}

/*
 * From now on suite_takes() is true for one number in `of`, chosen by the seed.
 * $SPC_TEST_ALL takes all numbers. If $SPC_TEST_PART is also set, to "I/N" as
 * in verify --part, N processes share the numbers.
 */
static inline void suite_sample_everywhere(int of)
{
    const char *part = getenv("SPC_TEST_PART");
    int number, parts;

    if (suite_wants_all() && part != NULL) {
        if (sscanf(part, "%d/%d", &number, &parts) != 2 || number < 1 ||
            number > parts) {
            fprintf(stderr, "SPC_TEST_PART=%s: I/N, I from 1 to N\n", part);
            exit(2);
        }
        suite_one_in = parts;
        suite_first = number;
        printf("part %d of %d\n", number, parts);
        return;
    }
    if (suite_wants_all())
        return;
    suite_one_in = of;
    suite_first = suite_variant();
    printf("one case in %d; all: SPC_TEST_ALL=1\n", of);
    fflush(stdout);
}

/* Like suite_sample(), but a GPU without $SPC_SEED takes all numbers. */
static inline void suite_sample(int of)
{
    if (!suite_is_gpu() || getenv("SPC_SEED") != NULL || suite_wants_all())
        suite_sample_everywhere(of);
}

static inline bool suite_takes(int i)
{
    return (i + suite_first) % suite_one_in == 0;
}

/* ---- data ---------------------------------------------------------------- */

/* Returns the folder of the tests' data: $SPC_TEST_DATA, for a tree that was
 * moved after the build, else its location at compile time. */
static inline const char *suite_data(void)
{
    const char *folder = getenv("SPC_TEST_DATA");
#ifdef SPC_TEST_DATA
    return folder != NULL && folder[0] != '\0' ? folder : SPC_TEST_DATA;
#else
    return folder != NULL && folder[0] != '\0' ? folder : "tests";
#endif
}

/* Returns a path in the test data. It is valid until the next call. */
static inline const char *suite_path(const char *name)
{
    static char path[4096];

    snprintf(path, sizeof(path), "%s/%s", suite_data(), name);
    return path;
}

/* Returns the folder of recorded scans: $SPC_SCENES, or shared/scenes next to
 * the source folder. NULL if it does not exist. */
static inline const char *suite_scenes(void)
{
    static char path[4096];
    const char *named = getenv("SPC_SCENES");
    struct stat facts;

    if (named != NULL && named[0] != '\0')
        snprintf(path, sizeof(path), "%s", named);
    else
        snprintf(path, sizeof(path), "%s", suite_path("../../shared/scenes"));
    return stat(path, &facts) == 0 ? path : NULL;
}

#endif
