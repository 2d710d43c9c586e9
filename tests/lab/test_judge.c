/* SPDX-License-Identifier: Apache-2.0 */
/* test_judge.c - comparing a result with the expected one. */
#include "lab/judge.h"

#include "base/dtype.h"
#include "harness/suite.h"

#include <math.h>
#include <string.h>

/* One fp16 element: the expected value, the result, and the error. */
static const struct {
    double reference;
    float tolerance; /* negative: no bound */
    bool rounded;
    spc__odd_results odd;
    float got;
    double error;
} cases[] = {
    {2, 0.5f, false, SPC__ODD_WRONG, 2, 0},
    {2, 0.5f, false, SPC__ODD_WRONG, 2.25f, 0.5},
    {2, 0.5f, false, SPC__ODD_WRONG, 1, 2},
    {2, 0, false, SPC__ODD_WRONG, 2, 0},
    {2, 0, false, SPC__ODD_WRONG, 2.25f, INFINITY},
    {2, 0.5f, false, SPC__ODD_WRONG, NAN, INFINITY},
    {2, 0.5f, false, SPC__ODD_ANYTHING, NAN, INFINITY},
    {2, 0.5f, false, SPC__ODD_WRONG, INFINITY, INFINITY},
    /* 2049 is halfway between the fp16 numbers 2048 and 2050, and rounds to
     * 2048. */
    {2049, -1, false, SPC__ODD_WRONG, 2048, 0},
    {2049, -1, false, SPC__ODD_WRONG, 2050, INFINITY},
    {2049, 0.25f, true, SPC__ODD_WRONG, 2048, 0},
    {2049, 0.25f, true, SPC__ODD_WRONG, 2050, 4},
    {2049, 0.25f, false, SPC__ODD_WRONG, 2048, 4},
    {0, -1, false, SPC__ODD_WRONG, -0.0f, 0},
    {1e9, -1, false, SPC__ODD_WRONG, INFINITY, 0},
    {INFINITY, 1, false, SPC__ODD_WRONG, INFINITY, INFINITY},
    {INFINITY, 1, false, SPC__ODD_NOT_FINITE, NAN, 0},
    {INFINITY, 1, false, SPC__ODD_NOT_FINITE, 3, INFINITY},
    {NAN, 1, false, SPC__ODD_ANYTHING, 3, 0},
};

static void check_error(double got, double want)
{
    if (isinf(want))
        ck_assert(isinf(got));
    else
        ck_assert_double_eq_tol(got, want, 1e-12);
}

START_TEST(an_element_has_an_error_over_its_tolerance)
{
    double wide = (double)cases[_i].tolerance;
    spc__expected e = {.reference = &cases[_i].reference,
                       .rounded = cases[_i].rounded,
                       .odd = cases[_i].odd};
    spc__operand of = spc__matrix_of(SPC_F16, 1, 1, 1);
    uint16_t stored;

    spc__dtype_of(SPC_F16)->encode(&stored, &cases[_i].got, 1);
    if (cases[_i].tolerance >= 0)
        e.tolerance = &cases[_i].tolerance;
    check_error(spc__judge(&stored, &of, &e).error, cases[_i].error);
    if (cases[_i].tolerance >= 0) {
        e.tolerance = NULL;
        e.wide_tolerance = &wide;
    }
    check_error(spc__judge(&stored, &of, &e).error, cases[_i].error);
}
END_TEST

enum { ROWS = 3, COLUMNS = 300, PITCH = 304 };

/* Rows have gaps and are longer than the part that is decoded at once. */
START_TEST(the_worst_element_is_named)
{
    static float got[ROWS * PITCH], right[ROWS * PITCH];
    static float slack[ROWS * COLUMNS];
    spc__operand of = spc__matrix_of(SPC_F32, ROWS, COLUMNS, PITCH);
    spc__expected e = {.stored = right, .tolerance = slack};

    memset(got, SPC__ZONE_BYTE, sizeof(got));
    memset(right, SPC__ZONE_BYTE, sizeof(right));
    for (int i = 0; i < ROWS * COLUMNS; i++) {
        int at = i / COLUMNS * PITCH + i % COLUMNS;
        got[at] = right[at] = (float)i;
        slack[i] = 4;
    }
    ck_assert_double_eq(spc__judge(got, &of, &e).error, 0);
    ck_assert(spc__gaps_hold(got, &of));
    got[1 * PITCH + 7] += 1;
    got[2 * PITCH + 299] += 2;
    spc__worst worst = spc__judge(got, &of, &e);
    ck_assert_double_eq(worst.error, 0.5);
    ck_assert_int_eq(worst.row, 2);
    ck_assert_int_eq(worst.channel, 299);
    ck_assert_double_eq(worst.got - worst.reference, 2);
    spc__worst one = spc__judge_element(got, &of, &e, 1 * COLUMNS + 7);
    ck_assert_double_eq(one.error, 0.25);
    one = spc__judge_element(got, &of, &e, 5); /* is right */
    ck_assert_double_eq(one.error, 0);
    ck_assert_double_eq(one.got, 5);
    e.tolerance = NULL;
    worst = spc__judge(got, &of, &e);
    ck_assert(isinf(worst.error));
    ck_assert_int_eq(worst.row, 1);
    ck_assert_int_eq(worst.channel, 7);
    got[1 * PITCH + COLUMNS] = 0; /* in a gap between rows */
    ck_assert(!spc__gaps_hold(got, &of));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("judge");
    TCase *tcase = tcase_create("judge");

    tcase_add_loop_test(tcase, an_element_has_an_error_over_its_tolerance, 0,
                        sizeof(cases) / sizeof(cases[0]));
    tcase_add_test(tcase, the_worst_element_is_named);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
