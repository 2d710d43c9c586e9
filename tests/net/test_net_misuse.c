/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_net_misuse.c - misuse of networks: NaN, negative or huge counts, missing
 * buffers, voxels outside. Each call must return an error with a message, and
 * the next one must succeed.
 *
 *     test_net_misuse [sim|cpu|cuda]
 */
#include "harness/net_harness.h"
#include "spc/tune.h"

#include <limits.h>
#include <math.h>

#define assert_says(said, part)                                                \
    ck_assert_msg(strstr(said, part) != NULL, "'%s' lacks '%s'", said, part)

/* ---- building ------------------------------------------------------------ */

static const double nothing[3],
    none[3] = {NAN, NAN, NAN}, ones[3] = {1, 1, 1}, below[3] = {-1, -1, -1},
    endless[3] = {INFINITY, INFINITY, INFINITY}, far[3] = {1e9, 1e9, 1e9},
    tiny[3] = {1e-300, 1e-300, 1e-300};

static const struct {
    int channels, points;
    const double *voxel, *low, *high;
    const char *says;
} inputs[] = {
    {0, 0, nothing, nothing, nothing, "an input of 0 channels"},
    {INT_MAX, 0, nothing, nothing, nothing, "an input of 2147483647 channels"},
    {8, -3, nothing, nothing, nothing, "-3 points of a voxel"},
    {8, 0, none, nothing, ones, "voxels along x of nan"},
    {8, 0, below, nothing, ones, "voxels along x of -1"},
    {8, 0, endless, nothing, ones, "voxels along x of inf"},
    {8, 0, ones, none, ones, "from nan to 1"},
    {8, 0, ones, nothing, endless, "from 0 to inf"},
    {8, 0, ones, ones, nothing, "from 1 to 0"},
    {8, 0, nothing, none, nothing, "from nan to 0"},
    {8, 0, ones, nothing, far, "1e+09 voxels along x: expected 1 to"},
    {8, 0, tiny, nothing, ones, "1e+300 voxels along x: expected 1 to"},
    {8, 0, far, nothing, ones, "1e-09 voxels along x: expected 1 to"},
};

START_TEST(axes_that_are_none_are_refused)
{
    static const char *const wrong[] = {"", "yxz", "xyzb", "zy"};
    spc_net_input in = SPC_NET_INPUT_INIT;
    spc_net_info info;
    spc_tensor x;
    spc_net *net;

    assert_net(spc_net_create(&net, "n", &error));
    in.channels = 8;
    for (int i = 0; i < LENGTH(wrong); i++) {
        in.axes = wrong[i];
        ck_assert_int_eq(spc_net_add_input(&x, net, &in, &error), SPC_EINVAL);
        assert_says(error.text, "expected xyz or zyx");
        ck_assert_int_eq(x, SPC_NO_TENSOR);
    }
    char own[] = "zyx"; /* the network copies it */
    in.axes = own;
    assert_net(spc_net_add_input(&x, net, &in, &error));
    own[0] = '?';
    spc_net_describe(&info, net);
    ck_assert_str_eq(info.input->axes, "zyx");
    spc_net_free(net);
}
END_TEST

START_TEST(an_input_that_cannot_be_is_refused)
{
    spc_net_input in = SPC_NET_INPUT_INIT;
    spc_tensor x;
    spc_net *net;

    assert_net(spc_net_create(&net, "n", &error));
    in.channels = inputs[_i].channels;
    in.points = inputs[_i].points;
    memcpy(in.voxel, inputs[_i].voxel, sizeof(in.voxel));
    memcpy(in.low, inputs[_i].low, sizeof(in.low));
    memcpy(in.high, inputs[_i].high, sizeof(in.high));
    ck_assert_int_eq(spc_net_add_input(&x, net, &in, &error), SPC_EINVAL);
    assert_says(error.text, inputs[_i].says);
    ck_assert_int_eq(x, SPC_NO_TENSOR);
    ck_assert_int_eq(
        spc_net_set_param(net, "a", SPC_OPERAND_BIAS, (float[]){1}, 1, &error),
        SPC_ENOTFOUND);
    ck_assert_str_eq(error.text, "unknown layer 'a': none exist");
    spc_net_free(net);
}
END_TEST

/* Adds a layer that reads {8 channels, set 0}. Each would make a new set or
 * map. */
static const struct {
    const char *layer;
    int residual;
    double eps;
    const char *says;
} layers[] = {
    {"conv,cin=8,cout=8,k=2,stride=2,rule=floor,epilogue=add,dtype=f32", 0, 0,
     "has another coordinate set"},
    {"subm,cin=8,cout=4,k=3,epilogue=add,dtype=f32", 0, 0,
     "its residual must have 4 channels"},
    {"subm,cin=8,cout=8,k=3,dtype=f32", 55, 0, "which its epilogue does not"},
    {"subm,cin=8,cout=8,k=3,dtype=f32", SPC_NO_TENSOR, NAN, "an eps of nan"},
    {"subm,cin=8,cout=8,k=3,dtype=f32", SPC_NO_TENSOR, -1, "an eps of -1"},
    {"subm,cin=8,cout=8,k=3,dtype=f16", SPC_NO_TENSOR, 0, "it takes f16"},
};

START_TEST(what_a_refused_layer_made_is_gone)
{
    spc_net_layer layer = SPC_NET_LAYER_INIT;
    spc_net_info before, after;
    spc_tensor out;
    harness r;

    load(&r, "chain.lua", SPC_F32);
    spc_net_describe(&before, r.net);
    assert_net(spc_conv_parse(&layer.conv, layers[_i].layer, &error));
    layer.in = 0;
    layer.residual = layers[_i].residual;
    layer.eps = layers[_i].eps;
    layer.key = "new";
    layer.conv.geometry.kernel[0] = 5; /* not of an existing layer */
    ck_assert_int_eq(spc_net_add_conv(&out, r.net, &layer, &error), SPC_EINVAL);
    assert_says(error.text, layers[_i].says);
    spc_net_describe(&after, r.net);
    ck_assert_int_eq(after.sets, before.sets);
    ck_assert_int_eq(after.maps, before.maps);
    ck_assert_int_eq(after.tensors, before.tensors);
    ck_assert_int_eq(after.params, before.params);
    spc_net_free(r.net);
}
END_TEST

/* Makes a network with an input of 16 channels in a shape of 64^3 voxels. */
static spc_net *make_shaped(spc_tensor *x)
{
    spc_net_input in = SPC_NET_INPUT_INIT;
    spc_net *net;

    assert_net(spc_net_create(&net, "n", &error));
    in.channels = 16;
    in.dtype = SPC_F32;
    in.shape[0] = in.shape[1] = in.shape[2] = 64;
    assert_net(spc_net_add_input(x, net, &in, &error));
    return net;
}

/* A set's shape is divided by the stride, so an unchecked stride of 0 would
 * divide by zero. */
START_TEST(a_stride_of_0_is_refused)
{
    static const char *const convs[] = {
        "inverse,cin=16,cout=16,k=2,stride=2,rule=floor,dtype=f32",
        "inverse,cin=16,cout=16,k=2,stride=2,rule=footprint,dtype=f32",
        "conv,cin=16,cout=16,k=2,stride=2,rule=floor,dtype=f32",
        "conv,cin=16,cout=16,k=2,stride=2,rule=footprint,dtype=f32",
    };
    static const char *const features[] = {
        "unpool=nearest,c=16,rule=floor,k=2,stride=2,dtype=f32",
        "pool=max,c=16,rule=floor,k=2,stride=2,dtype=f32",
    };
    spc_tensor x, out;
    spc_net *net = make_shaped(&x);

    for (int i = 0; i < LENGTH(convs); i++) {
        spc_net_layer layer = SPC_NET_LAYER_INIT;
        assert_net(spc_conv_parse(&layer.conv, convs[i], &error));
        layer.conv.geometry.stride[1] = 0;
        layer.in = layer.at = x;
        ck_assert_int_eq(spc_net_add_conv(&out, net, &layer, &error),
                         SPC_EINVAL);
        assert_says(error.text, "stride 0 along y: expected 1 to");
    }
    for (int i = 0; i < LENGTH(features); i++) {
        spc_feature f = SPC_FEATURE_INIT;
        assert_net(spc_feature_parse(&f, features[i], &error));
        f.geometry.stride[1] = 0;
        ck_assert_int_eq(spc_net_add_feature(&out, net, "p", &f, x,
                                             SPC_NO_TENSOR, x, &error),
                         SPC_EINVAL);
        assert_says(error.text, "stride 0 along y: expected 1 to");
    }
    spc_net_free(net);
}
END_TEST

/* Both numbers select a row of a table or a bit, so they must be in range. */
START_TEST(an_operator_or_a_rule_that_is_none_is_refused)
{
    static const int wrong[] = {-1, 33, 34, 35, 36, INT_MAX, INT_MIN};
    spc_tensor x, out;
    spc_net *net = make_shaped(&x);

    for (int i = 0; i < LENGTH(wrong); i++) {
        spc_feature f = SPC_FEATURE_INIT;
        spc_net_layer layer = SPC_NET_LAYER_INIT;
        f.op = (spc_feature_op)wrong[i];
        ck_assert_int_eq(spc_net_add_feature(&out, net, "f", &f, x,
                                             SPC_NO_TENSOR, x, &error),
                         SPC_EINVAL);
        assert_says(error.text, "expected 0 to");
        layer.conv.op = SPC_CONV;
        layer.conv.geometry.rule = (spc_rule)wrong[i];
        layer.in = x;
        layer.conv.cout = 4;
        ck_assert_int_eq(spc_net_add_conv(&out, net, &layer, &error),
                         SPC_EINVAL);
        assert_says(error.text, "operator conv has the rule");
    }
    spc_net_free(net);
}
END_TEST

/* Numbers whose products do not fit an int. */
START_TEST(a_regrouping_that_is_too_large_is_refused)
{
    static const struct {
        int scale, split[3];
        const char *says;
    } cases[] = {
        {1, {1, 65536, 65536}, "split 65536 along y: expected 1 to 64"},
        {1, {64, 64, 64}, "a split of 64x64x64 makes more than 64 children"},
        {65536, {1, 1, 1}, ""},
        {65536, {1, 1, 1}, "makes a shape of 270582939649 voxels"},
    };
    spc_tensor x, out;
    spc_net *net = make_shaped(&x);

    for (int i = 0; i < LENGTH(cases); i++) {
        spc_regrouping how = SPC_REGROUPING_INIT;
        how.scale[0] = cases[i].scale;
        memcpy(how.split, cases[i].split, sizeof(how.split));
        spc_status status =
            spc_net_add_regroup(&out, net, &x, 1, &how, false, &error);
        ck_assert_int_eq(status, cases[i].says[0] ? SPC_EINVAL : SPC_OK);
        if (status == SPC_OK)
            x = out;
        else
            assert_says(error.text, cases[i].says);
    }
    spc_net_free(net);
}
END_TEST

START_TEST(a_concatenation_that_is_too_wide_is_refused)
{
    enum { PARTS = 8 };
    spc_tensor x, parts[PARTS];
    spc_net *net = make_shaped(&x);
    spc_status status = SPC_OK;
    int made = 0;

    for (; status == SPC_OK && made < 12; made++) {
        for (int i = 0; i < PARTS; i++)
            parts[i] = x;
        status = spc_net_add_concat(&x, net, parts, PARTS, &error);
    }
    ck_assert_int_eq(status, SPC_EINVAL);
    ck_assert_int_eq(made, 5); /* 16 * 8^4 is 65536 */
    assert_says(error.text, "parts 0 to 1 have 131072 channels: expected at "
                            "most 65536");
    spc_net_free(net);
}
END_TEST

/* ---- planning ------------------------------------------------------------ */

static spc_net_options spoil(int i, spc_net_options o)
{
    static const int32_t twins[] = {0, 1, 1, 1, 0, 1, 1, 1};

    switch (i) {
    case 0:
        o.capacity = -1;
        break;
    case 1:
        o.capacity = LLONG_MAX;
        break;
    case 2:
        o.growth = NAN;
        break;
    case 3:
        o.neighbours = NAN;
        break;
    case 4:
        o.points = -1;
        break;
    case 5:
        o.low[0] = -1;
        break;
    case 6:
        o.sample_rows = 5;
        break;
    case 7:
        o.sample = twins, o.sample_rows = 2;
        break;
    case 8:
        o.sample = twins, o.sample_rows = 1 << 30;
        break;
    }
    return o;
}

static const char *const said_of_plans[] = {
    "a network for -1 rows",
    "expected 0 to 2147482879",
    "a growth of nan",
    "nan neighbours",
    "scenes of -1 points",
    "batches count from 0",
    "a sample of 5 rows",
    "the sample: the input: 1 row with the coordinate of an earlier",
    "a sample of 1073741824 rows",
};

START_TEST(options_that_cannot_be_are_refused)
{
    spc_net_options o = spoil(_i, options_for(60));
    harness r;

    load(&r, "every.lua", SPC_F32);
    open_context(&r, "cpu");
    ck_assert_int_ne(spc_net_plan_create(&r.plan, r.ctx, r.net, &o), SPC_OK);
    assert_says(spc_ctx_error(r.ctx), said_of_plans[_i]);
    ck_assert_ptr_null(r.plan);
    spc_net_free(r.net);
    spc_ctx_free(r.ctx);
}
END_TEST

/* A growth beyond any number of rows gives the rule's bound. */
START_TEST(an_endless_growth_is_the_rules_bound)
{
    spc_net_options o = options_for(60);
    size_t bytes[2];
    harness r;

    load(&r, "every.lua", SPC_F32);
    open_context(&r, "cpu");
    for (int i = 0; i < 2; i++) {
        o.growth = i == 0 ? 0 : INFINITY;
        assert_ok(r.ctx, spc_net_plan_create(&r.plan, r.ctx, r.net, &o));
        bytes[i] = spc_net_plan_memory_bytes(r.plan);
        spc_net_plan_free(r.plan);
    }
    ck_assert_uint_eq(bytes[0], bytes[1]);
    spc_net_free(r.net);
    spc_ctx_free(r.ctx);
}
END_TEST

/* ---- running ------------------------------------------------------------- */

typedef spc_status (*action)(harness *r, const spc_net_buffers *b);

static spc_status execute(harness *r, const spc_net_buffers *b)
{
    return spc_net_plan_execute(r->plan, b, NULL);
}

static spc_status capture(harness *r, const spc_net_buffers *b)
{
    return spc_net_plan_capture(r->plan, b);
}

static spc_status profile(harness *r, const spc_net_buffers *b)
{
    spc_net_time times[100];

    return spc_net_plan_profile(times, r->plan, b);
}

static spc_status widen(harness *r, const spc_net_buffers *b)
{
    float ranges[100] = {0};

    return spc_net_plan_widen_ranges(ranges, r->plan, b);
}

static spc_status write_down(harness *r, const spc_net_buffers *b)
{
    return spc_record_layers(r->plan, "never", b);
}

static void check_missing(harness *r, action act)
{
    spc_net_buffers b = r->buffers;

    b.coords = NULL;
    ck_assert_int_eq(act(r, &b), SPC_EINVAL);
    ck_assert_str_eq(spc_ctx_error(r->ctx), "buffer `coords` is NULL");
    b = r->buffers;
    b.features = NULL;
    ck_assert_int_eq(act(r, &b), SPC_EINVAL);
    ck_assert_str_eq(spc_ctx_error(r->ctx), "buffer `features` is NULL");
    b = r->buffers;
    b.memory = NULL;
    ck_assert_int_eq(act(r, &b), SPC_EINVAL);
    assert_says(spc_ctx_error(r->ctx), "buffer `memory` is NULL");
    b.memory = (char *)r->buffers.memory + 16;
    ck_assert_int_eq(act(r, &b), SPC_EINVAL);
    assert_says(spc_ctx_error(r->ctx), "256-byte aligned");
}

/* Runs must be correct after any failure. */
static void check_good(harness *r, const spc_scene *scene)
{
    upload(r, scene, 1);
    poison(r);
    assert_ok(r->ctx, spc_net_plan_execute(r->plan, &r->buffers, NULL));
    check_run(r, scene, false);
}

START_TEST(a_missing_buffer_is_named)
{
    static const action actions[] = {execute, capture, profile, widen,
                                     write_down};
    spc_net_options o = options_for(60);
    spc_scene *scene = draw_scene(60, 2, 9);
    harness r;

    load(&r, "chain.lua", SPC_F32);
    open_context(&r, device_of(0));
    o.keep = true;
    plan_net(&r, &o);
    check_good(&r, scene);
    for (int i = 0; i < LENGTH(actions); i++)
        check_missing(&r, actions[i]);
    ck_assert_int_eq(spc_net_plan_replay(r.plan, NULL), SPC_ESTATE);
    check_good(&r, scene);
    spc_scene_free(scene);
    close_harness(&r);
}
END_TEST

/* Counts are on the device, so the host cannot check them before the run. */
static const struct {
    int32_t count;
    spc_status status;
    const char *says;
} counts[] = {
    {-5, SPC_ECAPACITY, "the input: a count of -5 rows"},
    {INT32_MIN, SPC_ECAPACITY, "a count of -2147483648 rows"},
    {61, SPC_ECAPACITY, "a capacity of 61 would have fitted"},
    {INT32_MAX, SPC_ECAPACITY, "2147483647 rows for a set of 60"},
};

static const struct {
    int32_t row[4];
    const char *says;
} strays[] = {
    {{-1, 0, 0, 0}, "row 3: its batch is outside"},
    {{2, 0, 0, 0}, "row 3: its batch is outside"},
    {{INT32_MAX, 0, 0, 0}, "row 3: its batch is outside"},
    {{0, INT32_MIN, 0, 0}, "row 3: its x is outside"},
    {{0, 0, INT32_MAX, 0}, "row 3: its y is outside"},
    {{0, 0, 0, 64}, "row 3: its z is outside"},
};

/* Plans a network for the 60 voxels of the scene; the caller frees the
 * scene. */
static spc_scene *plan_chain(harness *r, const char *device)
{
    spc_net_options o = options_for(60);

    load(r, "chain.lua", SPC_F32);
    open_context(r, device);
    o.keep = true;
    plan_net(r, &o);
    return draw_scene(60, 2, 9);
}

/* A count on the host is checked before anything runs. */
START_TEST(rows_that_a_plan_has_no_room_for_are_refused)
{
    static const action actions[] = {execute, capture, profile};
    harness r;
    spc_scene *scene = plan_chain(&r, device_of(_i));

    check_good(&r, scene);
    for (int i = 0; i < LENGTH(actions); i++) {
        spc_net_buffers b = r.buffers;
        b.count = NULL;
        b.rows = 61;
        ck_assert_int_eq(actions[i](&r, &b), SPC_ECAPACITY);
        ck_assert_str_eq(spc_ctx_error(r.ctx),
                         "the input: 61 rows for a plan of 60: `capacity` of "
                         "61 would have fitted");
        b.rows = -1;
        ck_assert_int_eq(actions[i](&r, &b), SPC_EINVAL);
        ck_assert_str_eq(spc_ctx_error(r.ctx), "buffers of -1 rows");
    }
    check_good(&r, scene);
    spc_scene_free(scene);
    close_harness(&r);
}
END_TEST

static void run_and_expect(harness *r, spc_status status, const char *says)
{
    assert_ok(r->ctx, spc_net_plan_execute(r->plan, &r->buffers, NULL));
    ck_assert_int_eq(spc_net_plan_check(r->plan, NULL), status);
    assert_says(spc_ctx_error(r->ctx), says);
}

START_TEST(what_is_wrong_on_the_device_is_found_behind_the_run)
{
    harness r;
    spc_scene *scene = plan_chain(&r, device_of(_i));

    for (int i = 0; i < LENGTH(counts); i++) {
        upload(&r, scene, 1);
        assert_ok(r.ctx,
                  spc_memory_upload(r.count, r.ctx, &counts[i].count, 4));
        run_and_expect(&r, counts[i].status, counts[i].says);
    }
    for (int i = 0; i < LENGTH(strays); i++) {
        upload(&r, scene, 1);
        assert_ok(r.ctx, spc_memory_upload((char *)r.coords + 3 * 16, r.ctx,
                                           strays[i].row, 16));
        run_and_expect(&r, SPC_ERANGE, strays[i].says);
    }
    check_good(&r, scene);
    spc_scene_free(scene);
    close_harness(&r);
}
END_TEST

START_TEST(questions_past_the_end_have_their_sentence)
{
    spc_net_options o = options_for(60);
    spc_net_output output;
    spc_net_step step;
    harness r;

    load(&r, "chain.lua", SPC_F32);
    open_context(&r, device_of(0));
    plan_net(&r, &o);
    for (int i = -1; i < 100; i += 100) {
        ck_assert_int_eq(spc_net_plan_output_at(&output, r.plan, i),
                         SPC_EINVAL);
        assert_says(spc_ctx_error(r.ctx), "the network has 1");
        ck_assert_int_eq(spc_net_plan_step_at(&step, r.plan, i), SPC_EINVAL);
        assert_says(spc_ctx_error(r.ctx), "there is no step");
    }
    close_harness(&r);
}
END_TEST

int main(int argc, char **argv)
{
    int status = suite_open(argc, argv);

    if (status != 0)
        return status;
    Suite *suite = suite_create("net_misuse");
    TCase *tc = tcase_create("misuse");
    tcase_set_timeout(tc, 120);
    tcase_add_test(tc, axes_that_are_none_are_refused);
    tcase_add_loop_test(tc, an_input_that_cannot_be_is_refused, 0,
                        LENGTH(inputs));
    tcase_add_test(tc, a_stride_of_0_is_refused);
    tcase_add_test(tc, an_operator_or_a_rule_that_is_none_is_refused);
    tcase_add_test(tc, a_regrouping_that_is_too_large_is_refused);
    tcase_add_test(tc, a_concatenation_that_is_too_wide_is_refused);
    tcase_add_loop_test(tc, what_a_refused_layer_made_is_gone, 0,
                        LENGTH(layers));
    tcase_add_loop_test(tc, options_that_cannot_be_are_refused, 0,
                        LENGTH(said_of_plans));
    tcase_add_test(tc, an_endless_growth_is_the_rules_bound);
    tcase_add_test(tc, a_missing_buffer_is_named);
    tcase_add_loop_test(tc, rows_that_a_plan_has_no_room_for_are_refused, 0,
                        suite_device != NULL ? 1 : 2);
    tcase_add_loop_test(tc, what_is_wrong_on_the_device_is_found_behind_the_run,
                        0, suite_device != NULL ? 1 : 2);
    tcase_add_test(tc, questions_past_the_end_have_their_sentence);
    suite_add_tcase(suite, tc);
    return run_suite(suite);
}
