/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_import_arguments.c - calls every function of spc_import.h with NULL,
 * negative, huge and out-of-range arguments (arguments.h).
 */
#include "harness/arguments.h"
#include "harness/header_structs.h"
#include "spc_import.h"

static spc_error made;

#define MAKE(call) ck_assert_msg((call) == SPC_OK, "%s: %s", #call, made.text)

static _Alignas(64) float memory[1 << 12];

static spc_weights *some_weights(void)
{
    static spc_weights *weights;
    static char path[4400];
    const char *paths[] = {path};

    snprintf(path, sizeof(path), "%s/corpus/layer.safetensors", SPC_TEST_DATA);
    if (weights == NULL)
        MAKE(spc_weights_open(&weights, paths, 1, &made));
    return weights;
}

static spc_net *a_net(void)
{
    static spc_net *net;
    char path[4400];

    snprintf(path, sizeof(path), "%s/networks/chain.lua", SPC_TEST_DATA);
    if (net == NULL)
        MAKE(spc_net_load(&net, path, SPC_F32, &made));
    return net;
}

/* ---- values -------------------------------------------------------------- */

OUT_HANDLE(spc_weights, weights, spc_weights_free)
OUT_HANDLE(spc_onnx, onnx, spc_onnx_free)
OUT_HANDLE(spc_net, net, spc_net_free)
OUT_VALUE(spc_engine, engine)
OUT_VALUE(spc_kernel_shape, shape)
OUT_VALUE(spc_onnx_range, range)

#define VALUES(type, name, ...)                                                \
    static type name(which w)                                                  \
    {                                                                          \
        type const all[] = {__VA_ARGS__};                                      \
        return PICK(all, w);                                                   \
    }
VALUES(spc_weights *, weights, some_weights(), NULL)
VALUES(spc_weights *, no_weights, NULL)
VALUES(spc_onnx *, no_onnx, NULL)
VALUES(spc_net *, net, a_net(), NULL)
VALUES(float *, floats_out, memory, NULL)
VALUES(const float *, floats, memory + 2048, NULL)
VALUES(void *, buffer, memory, NULL)
VALUES(const void *, other_buffer, memory + 2048, NULL)
VALUES(const char *, word, "a", NULL, "", "%s%n", "xyz")
VALUES(const char *, axes, NULL, "xyz", "", "xyzw", "xx", "%n")
VALUES(const char *, no_file, "/nowhere/at/all", NULL, "", "/")
VALUES(int, channels, 4, 0, -1, INT_MIN)
VALUES(int, count, 0, 1, -1, INT_MIN)
VALUES(size_t, element_bytes, 4, 0, 3)
VALUES(spc_engine, engine, SPC_ENGINE_SPCTUNE, SPC_ENGINE_SPCONV2,
       SPC_ENGINE_TORCHSPARSE, (spc_engine)-1, (spc_engine)99,
       (spc_engine)INT_MAX)
VALUES(spc_element, element, SPC_ELEMENT_F32, (spc_element)-1, SPC_ELEMENTS,
       (spc_element)INT_MAX)

static const spc_array **out_array(which w)
{
    static const spc_array *value;
    const spc_array **const all[] = {&value, NULL};
    return PICK(all, w);
}

static const char *const *paths(which w)
{
    static const char *const good[] = {"/nowhere/at/all"}, *const bad[1];
    const char *const *const all[] = {good, NULL, bad};
    return PICK(all, w);
}

/* Arrays with one wrong field each. */
static const spc_array *array(which w)
{
    static spc_array a;
    static const int64_t bad[] = {0, -1, INT64_MAX, INT64_MIN, 1 << 30};
    enum { BAD = LENGTH(bad), FIELDS = 6 };
    int how = w.i - 2;

    a = (spc_array){.name = "a",
                    .type = SPC_ELEMENT_F32,
                    .rank = 5,
                    .shape = {4, 2, 2, 2, 4},
                    .data = memory,
                    .bytes = 4 * 128};
    if (how >= 0 && how < BAD * 5)
        a.shape[how / BAD] = bad[how % BAD];
    else if (how >= 0 && how < BAD * FIELDS)
        a.rank = (int)bad[how % BAD];
    else if (how == BAD * FIELDS)
        a.type = (spc_element)99;
    else if (how == BAD * FIELDS + 1)
        a.name = NULL;
    else if (how == BAD * FIELDS + 2)
        a.bytes = 0;
    else if (how == BAD * FIELDS + 3)
        a.data = NULL;
    if (w.varies)
        values = 2 + BAD * FIELDS + 4;
    return w.i == 1 ? NULL : &a;
}

static const spc_kernel_form *form(which w)
{
    enum { BYTES = sizeof(spc_kernel_form) };
    static const spc_kernel_form all_of[] = {
        SPC_KERNEL_FORM_INIT,
        {BYTES, .kernel = {-1, -1, -1}},
        {BYTES, SPC_ENGINE_SPCONV2, "zyx", {INT_MAX, INT_MAX, INT_MAX}, 1, 0},
        {BYTES, SPC_ENGINE_MINKOWSKI, "zyx", {INT_MIN, 1, 1}, .strided = 1},
        {BYTES, .engine = (spc_engine)99},
        {BYTES, .axes = ""},
        {BYTES, .offsets = -1},
        {BYTES, .offsets = INT_MAX},
        {0, .axes = "zyx"},
        {BYTES + 8, .axes = "zyx"}};
    const spc_kernel_form *const all[] = {
        &all_of[0], NULL,       &all_of[1], &all_of[2], &all_of[3], &all_of[4],
        &all_of[5], &all_of[6], &all_of[7], &all_of[8], &all_of[9]};
    return PICK(all, w);
}

static const spc_kernel_shape *shape(which w)
{
    static const spc_kernel_shape all_of[] = {
        {4, 4, {2, 2, 2}},  {0, 4, {2, 2, 2}},
        {-1, 4, {2, 2, 2}}, {4, INT_MIN, {2, 2, 2}},
        {4, 4, {0, 2, 2}},  {4, 4, {INT_MAX, INT_MAX, INT_MAX}}};
    const spc_kernel_shape *const all[] = {&all_of[0], NULL,       &all_of[1],
                                           &all_of[2], &all_of[3], &all_of[4],
                                           &all_of[5]};
    return PICK(all, w);
}

static const spc_conv *conv(which w)
{
    static spc_conv good, none, list, huge;
    const spc_conv *const all[] = {&good, NULL, &none, &list, &huge};

    MAKE(spc_conv_parse(&good, "subm,cin=4,cout=4,k=2,dtype=f32", &made));
    list = huge = good;
    list.geometry.offset_count = 344;
    huge.cin = huge.cout = INT_MAX;
    return PICK(all, w);
}

static const spc_batch_norm *norm(which w)
{
    static const spc_batch_norm good = {memory, memory, memory, memory, 1},
                                none = {NULL, NULL, NULL, NULL, 1},
                                nan = {memory, memory, memory, memory, NAN};
    const spc_batch_norm *const all[] = {&good, NULL, &none, &nan};
    return PICK(all, w);
}

static const spc_weights_use *use(which w)
{
    enum { BYTES = sizeof(spc_weights_use) };
    static const spc_weights_use good = SPC_WEIGHTS_USE_INIT,
                                 bad = {BYTES, (spc_engine)99, NULL, NULL},
                                 no_axes = {BYTES, SPC_ENGINE_SPCONV2, "",
                                            "x."},
                                 no_size = {0, SPC_ENGINE_SPCONV2, NULL, NULL};
    const spc_weights_use *const all[] = {&good, NULL, &bad, &no_axes,
                                          &no_size};
    return PICK(all, w);
}

static const spc_onnx_options *onnx_options(which w)
{
    static const spc_onnx_options good = SPC_ONNX_OPTIONS_INIT, no_size = {0};
    const spc_onnx_options *const all[] = {&good, NULL, &no_size};
    return PICK(all, w);
}

/* clang-format off */
#define FUNCTIONS(X)                                                           \
    X(V, 1, spc_import_struct_bytes, word)                                     \
    X(V, 1, spc_element_name, element)                                         \
    X(V, 1, spc_element_bytes, element)                                        \
    X(V, 1, spc_array_elements, array)                                         \
    X(S, 3, spc_array_floats, floats_out, array, error)                        \
    X(S, 4, spc_weights_open, out_weights, paths, count, error)                \
    X(V, 1, spc_weights_free, no_weights)                                      \
    X(V, 1, spc_weights_count, weights)                                        \
    X(V, 2, spc_weights_at, weights, number)                                   \
    X(V, 2, spc_weights_find, weights, word)                                   \
    X(S, 5, spc_weights_save, no_file, array, count, word, error)              \
    X(V, 1, spc_engine_name, engine)                                           \
    X(S, 3, spc_engine_parse, out_engine, word, error)                         \
    X(S, 2, spc_axes_check, axes, error)                                       \
    X(S, 4, spc_kernel_describe, out_shape, array, form, error)                    \
    X(S, 4, spc_kernel_convert, buffer, array, form, error)                    \
    X(S, 6, spc_kernel_restore, buffer, other_buffer, element_bytes, shape,    \
      form, error)                                                             \
    X(S, 5, spc_kernel_load, floats_out, conv, array, form, error)             \
    X(V, 3, spc_engine_origin, engine, number, number)                         \
    X(V, 3, spc_engine_is_kernel, engine, array, axes)                              \
    X(S, 6, spc_batch_norm_fold, floats_out, floats_out, channels, norm,       \
      floats, error)                                                           \
    X(S, 8, spc_batch_norm_load, floats_out, floats_out, channels, weights,    \
      word, real_double, floats, error)                                        \
    X(S, 4, spc_weights_fill_net, net, weights, use, error)                    \
    X(V, 4, spc_weights_find_layer, out_shape, weights, use, word)              \
    X(V, 4, spc_weights_unread_count, out_array, net, weights, use)                  \
    X(S, 3, spc_onnx_open, out_onnx, no_file, error)                           \
    X(V, 1, spc_onnx_free, no_onnx)                                            \
    X(S, 4, spc_onnx_build, out_net, no_onnx, onnx_options, error)             \
    X(S, 3, spc_onnx_range_at, out_range, no_onnx, number)
/* clang-format on */

FUNCTIONS(TRY)

static const row table[] = {FUNCTIONS(ROW)};

START_TEST(a_function_answers_whatever_its_arguments_are)
{
    try_row(&table[_i]);
}
END_TEST

START_TEST(every_public_function_is_tried)
{
    check_table(SPC_TEST_DATA "/../include/spc_import.h", table, LENGTH(table));
}
END_TEST

START_TEST(every_struct_of_the_header_has_a_known_size)
{
    ck_assert_int_gt(check_structs(SPC_TEST_DATA "/../include/spc_import.h",
                                   spc_import_struct_bytes),
                     5);
    ck_assert_uint_eq(spc_import_struct_bytes("spc_array"), sizeof(spc_array));
    ck_assert_uint_eq(spc_import_struct_bytes("spc_weights"), 0); /* opaque */
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("import_arguments");
    TCase *one = tcase_create("each");

    tcase_add_test(one, every_public_function_is_tried);
    tcase_add_test(one, every_struct_of_the_header_has_a_known_size);
    tcase_add_loop_test(one, a_function_answers_whatever_its_arguments_are, 0,
                        LENGTH(table));
    suite_add_tcase(suite, one);
    return run_suite(suite);
}
