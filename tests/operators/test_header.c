/* SPDX-License-Identifier: Apache-2.0 */
/* test_header.c - tests what the public headers promise. */
#include "base/sized.h"
#include "harness/header_structs.h"
#include "harness/public_headers.h"
#include "harness/suite.h"
#include "spc.h"
#include "spc/lab.h"
#include "spc/tune.h"

#include <limits.h>
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

START_TEST(the_version_is_that_of_the_header_and_of_the_build)
{
    char text[40];

    ck_assert_int_eq(spc_version(), SPC_VERSION_NUMBER);
    snprintf(text, sizeof(text), "%d.%d.%d", SPC_VERSION_NUMBER / 10000,
             SPC_VERSION_NUMBER / 100 % 100, SPC_VERSION_NUMBER % 100);
    ck_assert_str_eq(text, SPC_TEST_PROJECT_VERSION);
    /* A release candidate has a suffix: "1.0.0-rc1". */
    ck_assert_int_eq(strncmp(SPC_VERSION_TEXT, text, strlen(text)), 0);
    ck_assert(strchr("-", SPC_VERSION_TEXT[strlen(text)]) != NULL);
}
END_TEST

START_TEST(every_struct_of_the_header_has_a_known_size)
{
    glob_t headers;
    int structs = 0;

    find_headers(&headers);
    for (size_t i = 0; i < headers.gl_pathc; i++)
        structs += check_structs(headers.gl_pathv[i], spc_struct_bytes);
    globfree(&headers);
    ck_assert_int_gt(structs, 40);
    ck_assert_uint_eq(spc_struct_bytes("spc_conv"), sizeof(spc_conv));
    ck_assert_uint_eq(spc_struct_bytes("spc_buffers"), sizeof(spc_buffers));
    ck_assert_uint_eq(spc_struct_bytes("spc_error"), sizeof(spc_error));
    ck_assert_uint_eq(spc_struct_bytes("spc_ctx"), 0); /* opaque */
    ck_assert_uint_eq(spc_struct_bytes(""), 0);
    ck_assert_uint_eq(spc_struct_bytes(NULL), 0);
}
END_TEST

/* A struct of two versions. The first version lacked `added`. */
typedef struct grown {
    size_t bytes;
    int kept, added;
    double last;
} grown;

static const grown defaults = {sizeof(grown), 1, 2, 3};
static const size_t earlier_sizes[] = {offsetof(grown, added), 0};
static const spc__sized grown_type = {"spc_grown", sizeof(grown), earlier_sizes,
                                      &defaults};

START_TEST(a_struct_of_an_earlier_version_is_completed_with_defaults)
{
    grown given = {offsetof(grown, added), 7, 8, 9}, whole = {0, 0, 0, 0};
    spc_error error = {SPC_OK, ""};
    const grown *got = spc__sized_whole(&whole, &grown_type, &given, &error);

    ck_assert_ptr_eq(got, &whole);
    ck_assert_uint_eq(got->bytes, sizeof(grown));
    ck_assert_int_eq(got->kept, 7);
    ck_assert_int_eq(got->added, 2);
    ck_assert(got->last == 3);
    given.bytes = sizeof(grown);
    ck_assert_ptr_eq(spc__sized_whole(&whole, &grown_type, &given, &error),
                     &given);
}
END_TEST

START_TEST(a_struct_of_an_unknown_size_is_refused)
{
    static const size_t wrong[] = {0,
                                   1,
                                   sizeof(size_t),
                                   offsetof(grown, added) + 1,
                                   sizeof(grown) - 1,
                                   sizeof(grown) + 8,
                                   SIZE_MAX};
    grown given = {0, 7, 8, 9}, whole;
    spc_error error = {SPC_OK, ""};

    for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
        given.bytes = wrong[i];
        ck_assert_ptr_null(
            spc__sized_whole(&whole, &grown_type, &given, &error));
        ck_assert_int_eq(error.status, SPC_EINVAL);
        ck_assert_ptr_nonnull(strstr(error.text, "with SPC_GROWN_INIT"));
    }
}
END_TEST

START_TEST(every_sized_struct_starts_with_its_size)
{
    for (int i = 0; i < SPC__SIZED_COUNT; i++) {
        const spc__sized *type = &spc__sized_types[i];
        size_t bytes;

        memcpy(&bytes, type->init, sizeof(bytes));
        ck_assert_msg(bytes == type->bytes, "%s", type->name);
        ck_assert_uint_eq(spc_struct_bytes(type->name), bytes);
    }
}
END_TEST

START_TEST(a_context_needs_the_size_of_its_options)
{
    spc_ctx_options options = SPC_CTX_OPTIONS_INIT;
    spc_error error;
    spc_ctx *ctx;

    options.device = "cpu";
    options.database = "";
    options.bytes = 0;
    ck_assert_int_eq(spc_ctx_create(&ctx, &options, &error), SPC_EINVAL);
    ck_assert_ptr_null(ctx);
    ck_assert_ptr_nonnull(strstr(error.text, "spc_ctx_options.bytes is 0"));
}
END_TEST

#define WORDS(value) ((int)(sizeof((value).reserved) / sizeof(int)))

/* A member of a later version must not be ignored. */
START_TEST(a_value_with_a_reserved_member_is_refused)
{
    const spc_conv conv = SPC_CONV_INIT;
    const spc_feature feature = SPC_FEATURE_INIT;
    const spc_voxelisation voxels = SPC_VOXELISATION_INIT;
    spc_error error;

    for (int i = 0; i < WORDS(conv.geometry); i++) {
        spc_geometry g = conv.geometry;
        ck_assert_int_eq(spc_geometry_check(&g, &error), SPC_OK);
        g.reserved[i] = 7;
        ck_assert_int_eq(spc_geometry_check(&g, &error), SPC_EINVAL);
        ck_assert_ptr_nonnull(strstr(error.text, "with SPC_GEOMETRY_INIT"));
    }
    for (int i = 0; i < WORDS(conv); i++) {
        spc_conv c = conv;
        c.cin = c.cout = 8;
        ck_assert_int_eq(spc_conv_check(&c, &error), SPC_OK);
        c.reserved[i] = INT_MIN;
        ck_assert_int_eq(spc_conv_check(&c, &error), SPC_EINVAL);
        ck_assert_ptr_nonnull(strstr(error.text, "spc_conv.reserved["));
    }
    for (int i = 0; i < WORDS(feature); i++) {
        spc_feature f = feature;
        f.channels = 8;
        f.activation = SPC_ACT_RELU;
        ck_assert_int_eq(spc_feature_check(&f, &error), SPC_OK);
        f.reserved[i] = 1;
        ck_assert_int_eq(spc_feature_check(&f, &error), SPC_EINVAL);
        ck_assert_ptr_nonnull(strstr(error.text, "spc_feature.reserved["));
    }
    for (int i = 0; i < WORDS(voxels); i++) {
        spc_voxelisation v = voxels;
        for (int a = 0; a < 3; a++)
            v.voxel[a] = v.high[a] = 1;
        ck_assert_int_eq(spc_voxelisation_check(&v, &error), SPC_OK);
        v.reserved[i] = -1;
        ck_assert_int_eq(spc_voxelisation_check(&v, &error), SPC_EINVAL);
        ck_assert_ptr_nonnull(strstr(error.text, "spc_voxelisation.reserved"));
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
    tcase_add_test(all, the_version_is_that_of_the_header_and_of_the_build);
    tcase_add_test(all, every_struct_of_the_header_has_a_known_size);
    tcase_add_test(all,
                   a_struct_of_an_earlier_version_is_completed_with_defaults);
    tcase_add_test(all, a_struct_of_an_unknown_size_is_refused);
    tcase_add_test(all, every_sized_struct_starts_with_its_size);
    tcase_add_test(all, a_context_needs_the_size_of_its_options);
    tcase_add_test(all, a_value_with_a_reserved_member_is_refused);
    suite_add_tcase(suite, all);
    return run_suite(suite);
}
