/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_net_int8.c - networks whose convolutions use i8: which tensors become
 * i8, and the results.
 *
 * Runs on "cpu" and "sim", small, or on the device given as argument.
 */
#include "harness/net_harness.h"
#include "lab/net_tensor.h"
#include "spc/lab.h"

#include <math.h>

/* Loads a network; `text` follows its input. */
static void load_blocks(harness *r, const char *text)
{
    char all[1200];

    memset(r, 0, sizeof(*r));
    snprintf(all, sizeof(all),
             "local x = input {channels = 8}\n"
             "local same = 'subm,cout=16,k=3,epilogue=scale+bias'\n%s",
             text);
    ck_assert_msg(load_text(&r->net, all, SPC_F16) == SPC_OK, "%s", error.text);
    assert_net(spc_net_init_params(r->net, 3, &error));
    spc_net_describe(&r->info, r->net);
}

static const char blocks[] =
    "local a = conv(x, same .. '+relu', {name = 'a'})\n"
    "local b = conv(a, same .. '+relu', {name = 'b'})\n"
    "local c = conv(b, same .. '+add+relu', {name = 'c', residual = a})\n"
    "local d = conv(c, 'conv,cout=32,k=2,stride=2,rule=floor', {name = 'd'})\n"
    "output(conv(d, 'subm,cout=8,k=3', {name = 'e'}), 'out')\n";

/* Writes the type of each tensor as a letter: h for f16, i for i8. */
static const char *types_of(const spc_net *net)
{
    static char out[64];

    for (int t = 0; t < net->tensor_count; t++)
        out[t] = net->tensors[t].dtype == SPC_I8 ? 'i' : 'h';
    out[net->tensor_count] = '\0';
    return out;
}

/* Networks, and the tensors that become i8 if all have a range. */
static const struct {
    const char *text, *types;
    int layers;
} chosen[] = {
    {blocks, "hiiiih", 4},
    /* The input of an operator on features stays f16. */
    {"local a = conv(x, same)\n local b = conv(a, same)\n"
     "output(feature(b, 'act=relu'))\n",
     "hihh", 1},
    /* A residual that is an output stays f16, and so does the tensor that it is
     * added to. */
    {"local a = conv(x, same)\n output(a, 'a')\n local b = conv(a, same)\n"
     "local c = conv(b, same .. '+add', {residual = a})\n"
     "output(conv(c, same))\n",
     "hhihh", 1},
    /* The same holds for a chain of residuals. */
    {"local a = conv(x, same)\n local b = conv(a, same .. '+add', {residual = "
     "a})\n local c = conv(b, same .. '+add', {residual = b})\n output(c)\n",
     "hhhh", 0},
};

START_TEST(what_convolutions_alone_read_becomes_whole)
{
    float ranges[64];
    int layers;
    harness r;

    load_blocks(&r, chosen[_i].text);
    for (int t = 0; t < 64; t++)
        ranges[t] = 2;
    assert_net(spc_net_quantise(&layers, r.net, ranges, &error));
    ck_assert_str_eq(types_of(r.net), chosen[_i].types);
    ck_assert_int_eq(layers, chosen[_i].layers);
    spc_net_free(r.net);
}
END_TEST

START_TEST(ranges_that_cannot_be_are_refused)
{
    float ranges[8] = {0, 1, NAN};
    harness r;

    load_blocks(&r, blocks);
    ck_assert_int_eq(spc_net_quantise(NULL, r.net, ranges, &error), SPC_EINVAL);
    ck_assert_ptr_nonnull(strstr(error.text, "tensor 2 has a range of nan"));
    ck_assert_str_eq(types_of(r.net), "hhhhhh");
    ranges[2] = 0; /* only the residual `a` has one, so neither becomes i8 */
    assert_net(spc_net_quantise(NULL, r.net, ranges, &error));
    ck_assert_str_eq(types_of(r.net), "hhhhhh");
    ck_assert_int_eq(spc_net_plan_widen_ranges(ranges, NULL, NULL), SPC_EINVAL);
    spc_net_free(r.net);
}
END_TEST

static void run_once(harness *r, const spc_scene *scene)
{
    upload(r, scene, 4);
    poison(r);
    assert_ok(r->ctx, spc_net_plan_execute(r->plan, &r->buffers, NULL));
    check_run(r, scene, false);
}

static float *output_numbers(harness *r, size_t *count)
{
    size_t bytes;
    char *stored = outputs_of(r, &bytes);
    float *numbers = malloc(2 * bytes + 4);

    *count = bytes / 2;
    spc__dtype_of(SPC_F16)->decode(numbers, stored, *count);
    free(stored);
    return numbers;
}

/*
 * Compares each layer with the oracle on one device, and the network with its
 * f16 form. Rounding to 127 steps has a root mean square error of the largest
 * magnitude / (127 sqrt(12)). If that magnitude is four times the tensor's
 * mean, the error is a hundredth of the tensor. Weights have half that error.
 * Five layers add up to less than a twentieth.
 */
START_TEST(a_network_of_whole_numbers_is_as_the_oracle_says)
{
    spc_net_options o = options_for(300);
    spc_scene *scene = scene_of(1);
    float ranges[64] = {0};
    size_t count, again;
    double apart = 0, size = 0;
    harness r;

    if (!suite_takes(_i)) {
        spc_scene_free(scene);
        return;
    }
    load_blocks(&r, blocks);
    open_context(&r, device_of(_i));
    o.keep = true;
    plan_net(&r, &o);
    run_once(&r, scene);
    assert_ok(r.ctx, spc_net_plan_widen_ranges(ranges, r.plan, &r.buffers));
    float *want = output_numbers(&r, &count);
    ck_assert_int_eq(spc_net_quantise(NULL, r.net, ranges, &error), SPC_ESTATE);
    close_plan(&r);
    assert_net(spc_net_quantise(NULL, r.net, ranges, &error));
    plan_net(&r, &o);
    run_once(&r, scene);
    float *got = output_numbers(&r, &again);
    ck_assert_uint_eq(count, again);
    for (size_t i = 0; i < count; i++) {
        apart += ((double)got[i] - (double)want[i]) *
                 ((double)got[i] - (double)want[i]);
        size += (double)want[i] * (double)want[i];
    }
    ck_assert_msg(sqrt(apart / size) < 0.05 && apart > 0, "%g of its size",
                  sqrt(apart / size));
    free(want);
    free(got);
    spc_scene_free(scene);
    close_harness(&r);
}
END_TEST

/* ---- ranges -------------------------------------------------------------- */

/* The blocks, planned with `keep` and run in one scene. */
static void run_blocks(harness *r, const char *device, spc_dtype dtype,
                       uint64_t seed, const spc_scene *scene)
{
    spc_net_options o = options_for(300);
    char all[1200];

    memset(r, 0, sizeof(*r));
    snprintf(all, sizeof(all),
             "local x = input {channels = 8}\n"
             "local same = 'subm,cout=16,k=3,epilogue=scale+bias'\n%s",
             blocks);
    ck_assert_msg(load_text(&r->net, all, dtype) == SPC_OK, "%s", error.text);
    assert_net(spc_net_init_params(r->net, 3, &error));
    spc_net_describe(&r->info, r->net);
    open_context(r, device);
    o.keep = true;
    plan_net(r, &o);
    upload(r, scene, seed);
    assert_ok(r->ctx, spc_net_plan_execute(r->plan, &r->buffers, NULL));
    assert_ok(r->ctx, spc_net_plan_check(r->plan, NULL));
}

/* The squared error of rounding a tensor to 127 steps up to the range. */
static double rounded_error(const harness *r, int tensor, double range)
{
    float *values = NULL;
    double sum = 0;
    int64_t count = spc__net_tensor_rows(r->plan, tensor) *
                    r->net->tensors[tensor].elements;

    assert_ok(r->ctx,
              spc__net_tensor_read(&values, r->plan, &r->buffers, tensor));
    for (int64_t i = 0; i < count; i++) {
        double q = rint((double)values[i] / (range / 127));
        q = fmin(fmax(q, -127), 127) * (range / 127);
        sum += ((double)values[i] - q) * ((double)values[i] - q);
    }
    free(values);
    return sum;
}

/* The part of the magnitudes above 0 that the range holds. */
static double held_part(const harness *r, int tensor, double range)
{
    float *values = NULL;
    double held = 0, all = 0;
    int64_t count = spc__net_tensor_rows(r->plan, tensor) *
                    r->net->tensors[tensor].elements;

    assert_ok(r->ctx,
              spc__net_tensor_read(&values, r->plan, &r->buffers, tensor));
    for (int64_t i = 0; i < count; i++) {
        all += values[i] != 0;
        held += values[i] != 0 && fabs((double)values[i]) <= range;
    }
    free(values);
    return held / all;
}

static void ranges_by(float *out, const spc_net_magnitudes *m,
                      spc_range_rule rule, double part)
{
    assert_net(spc_net_magnitudes_ranges(out, m, rule, part, &error));
}

START_TEST(ranges_hold_what_their_rule_says)
{
    float most[64] = {0}, widened[64] = {0}, part[64], whole[64], mse[64];
    spc_scene *scene = draw_scene(250, 2, 5);
    spc_net_magnitudes *m;
    harness r;

    run_blocks(&r, "cpu", SPC_F32, 4, scene);
    assert_net(spc_net_magnitudes_create(&m, r.net, &error));
    assert_ok(r.ctx, spc_net_magnitudes_add(m, r.plan, &r.buffers));
    assert_ok(r.ctx, spc_net_plan_widen_ranges(widened, r.plan, &r.buffers));
    ranges_by(most, m, SPC_RANGE_MAX, 0);
    ranges_by(part, m, SPC_RANGE_PERCENTILE, 0.9);
    ranges_by(whole, m, SPC_RANGE_PERCENTILE, 1);
    ranges_by(mse, m, SPC_RANGE_MSE, 0);
    ck_assert_float_eq(most[0], 0); /* the input is the caller's */
    for (int t = 1; t < r.info.tensors; t++) {
        ck_assert_float_eq(most[t], widened[t]);
        ck_assert_float_eq(most[t], whole[t]);
        /* A bin is at most 1/2048 of the greatest magnitude. */
        ck_assert_double_ge(held_part(&r, t, (double)part[t]), 0.9);
        ck_assert_double_lt(
            held_part(&r, t, (double)part[t] - (double)most[t] / 1024), 0.9);
        double least = rounded_error(&r, t, (double)mse[t]);
        for (int i = 1; i <= 20; i++)
            ck_assert_double_le(
                least, 1.02 * rounded_error(&r, t, (double)most[t] * i / 20));
    }
    spc_net_magnitudes_free(m);
    spc_scene_free(scene);
    close_harness(&r);
}
END_TEST

/* The counts of two runs are those of both, in either order. */
START_TEST(the_order_of_runs_does_not_matter)
{
    float one[64], other[64];
    spc_scene *scene = draw_scene(250, 2, 5);
    spc_net_magnitudes *m[2];
    harness r;

    run_blocks(&r, "cpu", SPC_F32, 4, scene);
    for (int i = 0; i < 2; i++)
        assert_net(spc_net_magnitudes_create(&m[i], r.net, &error));
    for (int i = 0; i < 4; i++) {
        /* seeds 4 and 9, then 9 and 4 */
        upload(&r, scene, i == 0 || i == 3 ? 4 : 9);
        assert_ok(r.ctx, spc_net_plan_execute(r.plan, &r.buffers, NULL));
        assert_ok(r.ctx, spc_net_plan_check(r.plan, NULL));
        assert_ok(r.ctx, spc_net_magnitudes_add(m[i / 2], r.plan, &r.buffers));
    }
    ranges_by(one, m[0], SPC_RANGE_MSE, 0);
    ranges_by(other, m[1], SPC_RANGE_MSE, 0);
    for (int t = 0; t < r.info.tensors; t++)
        ck_assert_float_eq(one[t], other[t]);
    ck_assert_int_eq(
        spc_net_magnitudes_ranges(one, m[0], SPC_RANGE_PERCENTILE, 1.5, &error),
        SPC_EINVAL);
    ck_assert_ptr_nonnull(strstr(error.text, "the part 1.5"));
    for (int i = 0; i < 2; i++)
        spc_net_magnitudes_free(m[i]);
    spc_scene_free(scene);
    close_harness(&r);
}
END_TEST

/* ---- deviations ---------------------------------------------------------- */

/* Makes the harness's network i8 by its ranges in f16, and runs it again. */
static void quantise_and_run(harness *r, const float *ranges,
                             const spc_scene *scene)
{
    spc_net_options o = options_for(300);

    o.keep = true;
    close_plan(r);
    assert_net(spc_net_quantise(NULL, r->net, ranges, &error));
    plan_net(r, &o);
    upload(r, scene, 4);
    assert_ok(r->ctx, spc_net_plan_execute(r->plan, &r->buffers, NULL));
    assert_ok(r->ctx, spc_net_plan_check(r->plan, NULL));
}

/* The sums of squares of a tensor's difference from the reference. */
static double difference(harness *r, harness *wide, int tensor)
{
    float *got = NULL, *want = NULL;
    double sum = 0;
    int64_t count = spc__net_tensor_rows(r->plan, tensor) *
                    r->net->tensors[tensor].elements;

    assert_ok(r->ctx, spc__net_tensor_read(&got, r->plan, &r->buffers, tensor));
    assert_ok(wide->ctx,
              spc__net_tensor_read(&want, wide->plan, &wide->buffers, tensor));
    for (int64_t i = 0; i < count; i++)
        sum += ((double)got[i] - (double)want[i]) *
               ((double)got[i] - (double)want[i]);
    free(got);
    free(want);
    return sum;
}

static void deviations_of(spc_net_deviation *out, harness *r, harness *wide)
{
    memset(out, 0, 64 * sizeof(*out));
    assert_ok(r->ctx, spc_net_plan_deviations(out, r->plan, &r->buffers,
                                              wide->plan, &wide->buffers));
}

/*
 * Tensors of the blocks: 0 is the input, 1 to 5 are a to e, where e is the
 * output in f16 and the others are i8.
 */
START_TEST(deviations_are_those_of_layers_and_of_the_run)
{
    spc_net_deviation d[64];
    float ranges[64] = {0};
    double total[64];
    spc_scene *scene = scene_of(1);
    harness wide, r;

    if (!suite_takes(_i)) {
        spc_scene_free(scene);
        return;
    }
    run_blocks(&wide, device_of(_i), SPC_F32, 4, scene);
    run_blocks(&r, device_of(_i), SPC_F16, 4, scene);
    assert_ok(wide.ctx,
              spc_net_plan_widen_ranges(ranges, wide.plan, &wide.buffers));
    deviations_of(d, &r, &wide);
    for (int t = 1; t < r.info.tensors; t++) {
        ck_assert_double_gt(d[t].size, 0);
        ck_assert_double_lt(d[t].own, 1e-5 * d[t].size); /* f16 */
        ck_assert_double_lt(d[t].total, 1e-5 * d[t].size);
    }
    quantise_and_run(&r, ranges, scene);
    for (int t = 1; t < r.info.tensors; t++)
        total[t] = difference(&r, &wide, t);
    deviations_of(d, &r, &wide);
    for (int t = 1; t < r.info.tensors; t++) {
        ck_assert_int_eq(d[t].layer[0], 'a' + t - 1);
        ck_assert_int_eq(d[t].in, t - 1);
        ck_assert_double_eq_tol(d[t].total, total[t], 1e-9 * total[t]);
        ck_assert_double_gt(d[t].own, 1e-6 * d[t].size);
        ck_assert_double_lt(d[t].own, 0.01 * d[t].size);
        if (t < 5)
            ck_assert_double_eq_tol(d[t].rounding,
                                    rounded_error(&wide, t, (double)ranges[t]),
                                    1e-3 * d[t].rounding);
    }
    /* The first layer reads the caller's input, which nothing has changed. */
    ck_assert_double_eq_tol(d[1].own, d[1].total, 1e-9 * d[1].total);
    /* The others inherit the errors of those before them. */
    ck_assert_double_gt(d[5].total, d[5].own);
    /* Its tensors are no longer those of a run. */
    ck_assert_int_eq(spc_net_plan_deviations(d, r.plan, &r.buffers, wide.plan,
                                             &wide.buffers),
                     SPC_ESTATE);
    spc_scene_free(scene);
    close_harness(&wide);
    close_harness(&r);
}
END_TEST

START_TEST(runs_that_cannot_be_compared_are_refused)
{
    spc_net_deviation d[64] = {{0}};
    spc_scene *one = draw_scene(250, 2, 5), *other = draw_scene(120, 2, 6);
    harness a, b;

    run_blocks(&a, "cpu", SPC_F16, 4, one);
    run_blocks(&b, "cpu", SPC_F32, 4, other);
    ck_assert_int_eq(
        spc_net_plan_deviations(d, a.plan, &a.buffers, b.plan, &b.buffers),
        SPC_EINVAL);
    ck_assert_ptr_nonnull(strstr(spc_ctx_error(a.ctx), "have run two scenes"));
    b.buffers.coords = NULL;
    ck_assert_int_eq(
        spc_net_plan_deviations(d, a.plan, &a.buffers, b.plan, &b.buffers),
        SPC_EINVAL);
    spc_scene_free(one);
    spc_scene_free(other);
    close_harness(&a);
    close_harness(&b);
}
END_TEST

/* ---- floors -------------------------------------------------------------- */

/* The bytes and products of a layer on one row of input, counted by hand. */
START_TEST(floors_count_what_a_layer_moves)
{
    static const int32_t voxel[4] = {0, 1, 1, 1};
    spc_net_floor floors[64], known[64];
    spc_scene *scene;
    spc_net_step step;
    harness r;

    assert_net(spc_scene_create(&scene, voxel, 1, "one", &error));
    run_blocks(&r, "cpu", SPC_F16, 4, scene);
    assert_ok(r.ctx, spc_net_plan_floors(floors, r.plan, NULL));
    assert_ok(r.ctx, spc_net_plan_floors(known, r.plan, "NVIDIA H200"));
    for (int i = 0; i < spc_net_plan_step_count(r.plan); i++) {
        assert_ok(r.ctx, spc_net_plan_step_at(&step, r.plan, i));
        ck_assert_double_eq(floors[i].us, 0); /* rates of a cpu are unknown */
        if (step.kind != SPC_NET_CONV)
            continue;
        ck_assert_double_gt(known[i].us, 0);
        if (strcmp(step.name, "a") != 0)
            continue;
        /* One pair of 8 and 16 channels; 2 bytes each, 4 for scale and bias.
         * The row's mask of 26 other offsets has no bit set. */
        ck_assert_double_eq(floors[i].macs, 8 * 16);
        ck_assert_double_eq(floors[i].gathered_bytes, 8 * 2);
        ck_assert_double_eq(floors[i].compulsory_bytes,
                            8 * 2 + 8 * 16 * 2 + 2 * 16 * 4 + 16 * 2);
    }
    spc_scene_free(scene);
    close_harness(&r);
}
END_TEST

int main(int argc, char **argv)
{
    int status = suite_open(argc, argv);

    if (status != 0)
        return status;
    TCase *tc = tcase_create("int8");
    Suite *suite = suite_create("net_int8");
    suite_sample(2);
    tcase_set_timeout(tc, 300);
    suite_add_tcase(suite, tc);
    tcase_add_loop_test(tc, what_convolutions_alone_read_becomes_whole, 0,
                        LENGTH(chosen));
    tcase_add_test(tc, ranges_that_cannot_be_are_refused);
    tcase_add_loop_test(tc, a_network_of_whole_numbers_is_as_the_oracle_says, 0,
                        suite_device != NULL ? 1 : 2);
    tcase_add_test(tc, ranges_hold_what_their_rule_says);
    tcase_add_test(tc, the_order_of_runs_does_not_matter);
    tcase_add_loop_test(tc, deviations_are_those_of_layers_and_of_the_run, 0,
                        suite_device != NULL ? 1 : 2);
    tcase_add_test(tc, runs_that_cannot_be_compared_are_refused);
    tcase_add_test(tc, floors_count_what_a_layer_moves);
    return run_suite(suite);
}
