/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_net_int8.c - networks whose convolutions use i8: which tensors become
 * i8, and the results.
 *
 * Runs on "cpu" and "sim", small, or on the device given as argument.
 */
#include "harness/net_harness.h"

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
    return run_suite(suite);
}
