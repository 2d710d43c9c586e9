/* suite.h - runs a suite of Check and says how it went. */
#ifndef SPC_TESTS_SUITE_H
#define SPC_TESTS_SUITE_H

#include <check.h>
#include <stdlib.h>

/* Runs all of the suite, which it frees; the exit status of the program. */
static int run_suite(Suite *suite)
{
    SRunner *runner = srunner_create(suite);

    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

#endif
