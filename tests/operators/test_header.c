/* SPDX-License-Identifier: Apache-2.0 */
/* test_header.c - spc.h compiles alone, and says what it promises. */
#include "rig/suite.h"
#include "spc.h"

#include <stdlib.h>

START_TEST(the_defaults_are_those_of_the_comments)
{
    spc_conv conv = SPC_CONV_INIT;
    spc_ctx_options ctx = SPC_CTX_OPTIONS_INIT;
    spc_tune_options tune = SPC_TUNE_OPTIONS_INIT;

    ck_assert_int_eq(conv.op, SPC_SUBM);
    ck_assert_int_eq(conv.geometry.kernel[0] * conv.geometry.kernel[1] *
                         conv.geometry.kernel[2],
                     27);
    ck_assert_int_eq(conv.geometry.dilation[2], 1);
    ck_assert_int_eq(conv.dtype, SPC_F16);
    ck_assert(ctx.device == NULL && ctx.layer_count == 0 && !ctx.need_database);
    ck_assert_int_eq(tune.stage, SPC_STAGE_TIME);
    ck_assert_uint_eq(tune.seed, 1);
}
END_TEST

START_TEST(every_free_accepts_null)
{
    spc_ctx_free(NULL);
    spc_scene_free(NULL);
    spc_map_free(NULL);
    spc_plan_free(NULL);
}
END_TEST

START_TEST(every_status_has_a_name_a_text_and_an_exit_status)
{
    for (int status = 0; status >= SPC_EINTERNAL; status--) {
        ck_assert_str_ne(spc_status_name((spc_status)status), "");
        ck_assert_str_ne(spc_status_text((spc_status)status), "");
        ck_assert_int_eq(spc_status_exit_code((spc_status)status) == 0,
                         status == 0);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("header");
    TCase *all = tcase_create("header");

    tcase_add_test(all, the_defaults_are_those_of_the_comments);
    tcase_add_test(all, every_free_accepts_null);
    tcase_add_test(all, every_status_has_a_name_a_text_and_an_exit_status);
    suite_add_tcase(suite, all);
    return run_suite(suite);
}
