/*
 * suite.h - runs a suite of Check and says how it went; what a program of
 * tests is given: a device, and where the data of the tests is.
 */
#ifndef SPC_TESTS_SUITE_H
#define SPC_TESTS_SUITE_H

#include "spc.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Runs all of the suite, which it frees; the exit status of the program. */
static inline int run_suite(Suite *suite)
{
    SRunner *runner = srunner_create(suite);

    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

/* ---- what is not here ---------------------------------------------------- */

/* The exit status by which ctest, and gpu.sh, know a skipped program. */
enum { SUITE_SKIPPED = 77 };

/* For main: return suite_skip("no GPU"). */
static inline int suite_skip(const char *why)
{
    printf("skipped: %s\n", why);
    return SUITE_SKIPPED;
}

/* ---- the device ---------------------------------------------------------- */

/* The device that the program got as its argument; NULL: none, which means
 * those that every machine has. */
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
    if (strncmp(suite_device, "cuda", 4) == 0)
        setenv("CK_FORK", "no", 1); /* a GPU's driver does not survive fork() */
    return 0;
}

/* ---- data ---------------------------------------------------------------- */

/* The folder of the tests' data: that of $SPC_TEST_DATA, for a tree that was
 * moved after it was built, else where it was when this was compiled. */
static inline const char *suite_data(void)
{
    const char *folder = getenv("SPC_TEST_DATA");
#ifdef SPC_TEST_DATA
    return folder != NULL && folder[0] != '\0' ? folder : SPC_TEST_DATA;
#else
    return folder != NULL && folder[0] != '\0' ? folder : "tests";
#endif
}

/* A file or folder in there; lives until the next call. */
static inline const char *suite_path(const char *name)
{
    static char path[4096];

    snprintf(path, sizeof(path), "%s/%s", suite_data(), name);
    return path;
}

#endif
