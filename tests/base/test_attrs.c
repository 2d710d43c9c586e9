/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_attrs.c - a release build also aborts if attributes do not fit. attrs.c
 * is compiled without assertions here.
 */
#include "base/attrs.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>

#include <signal.h>

static spc__attrs attrs;

static void add_too_many(void)
{
    for (int i = 0; i <= SPC__ATTRS_MAX; i++) {
        char name[SPC__ATTR_NAME];
        snprintf(name, sizeof(name), "n%d", i);
        spc__attrs_set_number(&attrs, name, i);
    }
}

START_TEST(what_does_not_fit_is_not_cut_off)
{
    switch (_i) {
    case 0:
        spc__attrs_set_text(&attrs, "value",
                            "a_word_of_exactly_32_characters_");
        break;
    case 1:
        spc__attrs_set_number(&attrs, "name_of_24_characters_ab", 1);
        break;
    case 2:
        spc__attrs_set_text(&attrs, "value", "no word");
        break;
    default:
        add_too_many();
    }
}
END_TEST

START_TEST(what_fits_is_kept_whole)
{
    spc__attrs_set_text(&attrs, "name_of_23_characters_a",
                        "a_word_of_exactly_31_characters");
    ck_assert_str_eq(spc__attrs_text(&attrs, "name_of_23_characters_a", ""),
                     "a_word_of_exactly_31_characters");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("attrs");
    TCase *all = tcase_create("all");

    tcase_add_test(all, what_fits_is_kept_whole);
    tcase_add_loop_test_raise_signal(all, what_does_not_fit_is_not_cut_off,
                                     SIGABRT, 0, 4);
    suite_add_tcase(suite, all);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed > 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
