/* SPDX-License-Identifier: Apache-2.0 */
/* test_net_weights.c - sets the weights of a network from arrays by name. */
#include "base/random.h"
#include "harness/suite.h"
#include "import/weights.h"
#include "spc_import.h"

#include <math.h>

enum { CIN = 4, COUT = 6 };

static spc_error error;

#define assert_ok(call) ck_assert_msg((call) == SPC_OK, "%s", error.text)

/* ---- arrays -------------------------------------------------------------- */

/* Arrays of distinct numbers, by name. */
static spc_weights *weights;

static void open_weights(void)
{
    weights = spc__weights_create();
}

static void free_weights(void)
{
    spc_weights_free(weights);
}

static float *add_array(const char *name, int rank, const int64_t *shape)
{
    spc_array array = {
        .name = name, .file = "drawn", .type = SPC_ELEMENT_F32, .rank = rank};
    int64_t count = 1;
    spc__random random;

    for (int i = 0; i < rank; i++)
        count *= array.shape[i] = shape[i];
    array.bytes = (size_t)count * sizeof(float);
    float *values = spc__weights_alloc(weights, array.bytes);
    spc__random_init(&random, (uint64_t)strlen(name) * 977 + (uint64_t)name[0]);
    for (int64_t i = 0; i < count; i++)
        values[i] = (float)(0.1 + spc__random_unit(&random));
    array.data = values;
    assert_ok(spc__weights_add(weights, &array, &error));
    return values;
}

static const float *add_vector(const char *name, int64_t count)
{
    return add_array(name, 1, &count);
}

static void add_norm(const char *name, int64_t channels)
{
    static const char *const parts[] = {"weight", "bias", "running_mean",
                                        "running_var"};
    char full[64];

    for (int i = 0; i < 4; i++) {
        snprintf(full, sizeof(full), "%s.%s", name, parts[i]);
        add_vector(full, channels);
    }
}

static const float *values_of(const char *name)
{
    const spc_array *array = spc_weights_find(weights, name);
    ck_assert_msg(array != NULL, "%s", name);
    return array->data;
}

/* ---- the network --------------------------------------------------------- */

static spc_net *net;
static spc_tensor last;

static void open_net(void)
{
    spc_net_input input = SPC_NET_INPUT_INIT;

    assert_ok(spc_net_create(&net, "test", &error));
    input.channels = CIN;
    assert_ok(spc_net_add_input(&last, net, &input, &error));
}

static void free_net(void)
{
    spc_net_free(net);
}

static void add_conv(const char *text, const char *name, const char *norm)
{
    spc_net_layer layer = SPC_NET_LAYER_INIT;

    assert_ok(spc_conv_parse(&layer.conv, text, &error));
    layer.name = name;
    layer.norm = norm;
    layer.eps = 1e-3;
    layer.in = last;
    assert_ok(spc_net_add_conv(&last, net, &layer, &error));
}

static const float *param(const char *layer, spc_operand which, int64_t *count)
{
    spc_net_info info;

    spc_net_describe(&info, net);
    for (int i = 0; i < info.params; i++) {
        spc_net_param p;
        assert_ok(spc_net_param_at(&p, net, i));
        if (p.which == which && strcmp(p.layer, layer) == 0) {
            *count = p.count;
            ck_assert_ptr_nonnull(p.values);
            return p.values;
        }
    }
    ck_abort_msg("no such array of %s", layer);
    return NULL;
}

static void assert_vector(const char *layer, spc_operand which,
                          const float *want, int64_t count)
{
    int64_t have;
    const float *got = param(layer, which, &have);

    ck_assert_int_eq(have, count);
    ck_assert_mem_eq(got, want, (size_t)count * sizeof(*want));
}

/* Computes the expected result of folding, with or without a convolution's
 * bias. */
static void assert_folded(const char *layer, const char *norm,
                          const float *conv_bias)
{
    float scale[COUT], bias[COUT];

    assert_ok(spc_batch_norm_load(scale, bias, COUT, weights, norm, 1e-3,
                                  conv_bias, &error));
    assert_vector(layer, SPC_OPERAND_SCALE, scale, COUT);
    assert_vector(layer, SPC_OPERAND_BIAS, bias, COUT);
}

/* Checks kernels as [cout][z][y][x][cin], which detectors use. */
static void assert_kernel_zyx(const char *layer, const float *theirs)
{
    int64_t count;
    const float *got = param(layer, SPC_OPERAND_WEIGHTS, &count);

    ck_assert_int_eq(count, COUT * 27 * CIN);
    for (int co = 0; co < COUT; co++)
        for (int k = 0; k < 27; k++)
            for (int ci = 0; ci < CIN; ci++) {
                int flipped = k % 3 * 9 + k / 3 % 3 * 3 + k / 9;
                ck_assert(got[(co * 27 + k) * CIN + ci] ==
                          theirs[(co * 27 + flipped) * CIN + ci]);
            }
}

/* ---- whole networks ------------------------------------------------------ */

static void add_detector_arrays(void)
{
    const int64_t k3[] = {COUT, 3, 3, 3, CIN}, k1[] = {COUT, 1, 1, 1, COUT};

    add_array("backbone.conv1.0.weight", 5, k3);
    add_norm("backbone.conv1.1", COUT);
    add_array("backbone.conv2.weight", 5, k1);
    add_vector("backbone.conv2.bias", COUT);
    add_norm("backbone.bn2", COUT);
    const int64_t matrix[] = {2, COUT};
    add_array("backbone.head.weight", 2, matrix);
    add_vector("backbone.head.bias", 2);
}

static void add_detector_layers(void)
{
    add_conv("subm,cin=4,cout=6,k=3,epilogue=scale+bias+relu", "conv1.0",
             "conv1.1");
    add_conv("subm,cin=6,cout=6,k=1,epilogue=scale+bias", "conv2", "bn2");
    add_conv("linear,cin=6,cout=2,bias=1", "head", NULL);
}

START_TEST(a_detector_of_spconv_is_filled)
{
    const spc_weights_use use = {sizeof(spc_weights_use), SPC_ENGINE_SPCONV2,
                                 "zyx", "backbone."};
    int64_t count;

    add_detector_arrays();
    assert_ok(spc__weights_finish(weights, &error));
    add_detector_layers();
    assert_ok(spc_weights_fill_net(net, weights, &use, &error));

    assert_kernel_zyx("conv1.0", values_of("backbone.conv1.0.weight"));
    assert_folded("conv1.0", "backbone.conv1.1", NULL);
    /* The bias of a convolution is added before its normalisation. */
    assert_folded("conv2", "backbone.bn2", values_of("backbone.conv2.bias"));
    const float *matrix = values_of("backbone.conv2.weight");
    const float *got = param("conv2", SPC_OPERAND_WEIGHTS, &count);
    for (int co = 0; co < COUT; co++)
        for (int ci = 0; ci < COUT; ci++)
            ck_assert(got[co * COUT + ci] == matrix[ci * COUT + co]);
    assert_vector("head", SPC_OPERAND_WEIGHTS,
                  values_of("backbone.head.weight"), 2 * COUT);
    assert_vector("head", SPC_OPERAND_BIAS, values_of("backbone.head.bias"), 2);
    const spc_array *first;
    ck_assert_int_eq(spc_weights_unread_count(&first, net, weights, &use), 0);
    ck_assert_ptr_null(first);
}
END_TEST

/* A checkpoint may have more arrays than the network needs. Those under another
 * prefix and those for training are not counted. */
START_TEST(arrays_that_no_layer_reads_are_counted)
{
    const spc_weights_use use = {sizeof(spc_weights_use), SPC_ENGINE_SPCONV2,
                                 "zyx", "backbone."};
    const int64_t k3[] = {COUT, 3, 3, 3, COUT};
    const spc_array *first;

    add_detector_arrays();
    add_vector("backbone.bn2.num_batches_tracked", 1);
    add_vector("head.weight", 3);
    add_array("backbone.conv3.weight", 5, k3);
    add_norm("backbone.bn3", COUT);
    assert_ok(spc__weights_finish(weights, &error));
    add_detector_layers();
    assert_ok(spc_weights_fill_net(net, weights, &use, &error));
    ck_assert_int_eq(spc_weights_unread_count(&first, net, weights, &use), 5);
    ck_assert_str_eq(first->name, "backbone.bn3.bias");
}
END_TEST

START_TEST(a_network_of_minkowski_engine_is_filled)
{
    const spc_weights_use use = {sizeof(spc_weights_use), SPC_ENGINE_MINKOWSKI,
                                 NULL, NULL};
    const int64_t kernel[] = {27, CIN, COUT}, matrix[] = {3, COUT};
    int64_t count;

    float *theirs = add_array("conv0.kernel", 3, kernel);
    add_norm("bn0.bn", COUT);
    add_array("final.linear.weight", 2, matrix);
    assert_ok(spc__weights_finish(weights, &error));
    add_conv("subm,cin=4,cout=6,k=3,epilogue=scale+bias", "conv0", "bn0");
    add_conv("linear,cin=6,cout=3", "final", NULL);
    assert_ok(spc_weights_fill_net(net, weights, &use, &error));

    assert_folded("conv0", "bn0.bn", NULL);
    const float *got = param("conv0", SPC_OPERAND_WEIGHTS, &count);
    for (int k = 0; k < 27; k++) /* x varies fastest there, z here */
        ck_assert(got[k * CIN] ==
                  theirs[(k % 3 * 9 + k / 3 % 3 * 3 + k / 9) * CIN * COUT]);
    assert_vector("final", SPC_OPERAND_WEIGHTS,
                  values_of("final.linear.weight"), 3 * COUT);
}
END_TEST

static const struct {
    const char *text, *name, *norm;
    spc_status status;
    const char *said;
} missing[] = {
    {"subm,cin=4,cout=6,k=3", "conv9", NULL, SPC_ENOTFOUND,
     "'backbone.conv9' with the ending .weight"},
    {"subm,cin=4,cout=6,k=5", "conv1.0", NULL, SPC_EINVAL,
     "the layer's has the sizes 5x5x5"},
    {"subm,cin=4,cout=8,k=3", "conv1.0", NULL, SPC_EINVAL,
     "differs from the layer subm,cin=4,cout=8"},
    {"subm,cin=4,cout=6,k=3,epilogue=scale+bias", "conv1.0", "bn7",
     SPC_ENOTFOUND, "'backbone.bn7.running_mean'"},
    {"linear,cin=4,cout=2", "head", NULL, SPC_EINVAL,
     "an array 'backbone.head.bias', but the layer 'head' has no bias"},
    {"subm,cin=4,cout=6,k=3,bias=1", "conv1.0", NULL, SPC_ENOTFOUND,
     "'backbone.conv1.0' with the ending .bias"},
};

START_TEST(what_is_missing_or_of_another_layer_is_named)
{
    const spc_weights_use use = {sizeof(spc_weights_use), SPC_ENGINE_SPCONV2,
                                 "zyx", "backbone."};

    add_detector_arrays();
    assert_ok(spc__weights_finish(weights, &error));
    add_conv(missing[_i].text, missing[_i].name, missing[_i].norm);
    ck_assert_int_eq(spc_weights_fill_net(net, weights, &use, &error),
                     missing[_i].status);
    ck_assert_msg(strstr(error.text, missing[_i].said) != NULL,
                  "'%s' lacks '%s'", error.text, missing[_i].said);
}
END_TEST

/* A layer's own scale and bias are not the weight and bias of a batch
 * normalisation. */
START_TEST(a_batch_normalisation_is_no_scale_and_bias)
{
    const spc_weights_use use = {sizeof(spc_weights_use), SPC_ENGINE_SPCONV2,
                                 "zyx", "backbone."};
    spc_feature affine;

    add_detector_arrays();
    add_vector("backbone.free.weight", CIN);
    add_vector("backbone.free.bias", CIN);
    add_norm("backbone.folded", CIN);
    assert_ok(spc__weights_finish(weights, &error));
    assert_ok(spc_feature_parse(&affine, "affine,c=4", &error));
    assert_ok(spc_net_add_feature(&last, net, "free", &affine, last,
                                  SPC_NO_TENSOR, SPC_NO_TENSOR, &error));
    assert_ok(spc_weights_fill_net(net, weights, &use, &error));
    assert_vector("free", SPC_OPERAND_SCALE, values_of("backbone.free.weight"),
                  CIN);
    assert_ok(spc_net_add_feature(&last, net, "folded", &affine, last,
                                  SPC_NO_TENSOR, SPC_NO_TENSOR, &error));
    ck_assert_int_eq(spc_weights_fill_net(net, weights, &use, &error),
                     SPC_EUNSUPPORTED);
    ck_assert_msg(strstr(error.text, "a batch normalisation there"), "%s",
                  error.text);
}
END_TEST

/* MinkowskiLinear keeps its arrays in an inner PyTorch layer. */
START_TEST(a_linear_layer_of_minkowski_engine_has_its_bias)
{
    spc_weights_use use = {sizeof(spc_weights_use), SPC_ENGINE_MINKOWSKI, NULL,
                           NULL};
    const int64_t shape[] = {COUT, CIN};
    const spc_array *unread;

    add_array("fc.linear.weight", 2, shape);
    add_vector("fc.linear.bias", COUT);
    assert_ok(spc__weights_finish(weights, &error));
    add_conv("subm,cin=4,cout=6,k=1,epilogue=bias", "fc", NULL);
    assert_ok(spc_weights_fill_net(net, weights, &use, &error));
    assert_vector("fc", SPC_OPERAND_WEIGHTS, values_of("fc.linear.weight"),
                  COUT * CIN);
    assert_vector("fc", SPC_OPERAND_BIAS, values_of("fc.linear.bias"), COUT);
    ck_assert_int_eq(spc_weights_unread_count(&unread, net, weights, &use), 0);
    free_net();
    open_net();
    add_conv("subm,cin=4,cout=6,k=1", "fc", NULL);
    ck_assert_int_eq(spc_weights_fill_net(net, weights, &use, &error),
                     SPC_EINVAL);
    ck_assert_ptr_nonnull(
        strstr(error.text, "there is an array 'fc.linear.bias'"));
    use.bytes = 0; /* an uninitialised value */
    ck_assert_int_eq(spc_weights_fill_net(net, weights, &use, &error),
                     SPC_EINVAL);
    ck_assert_ptr_nonnull(strstr(error.text, "spc_weights_use.bytes is 0"));
}
END_TEST

/* ---- layers of one name -------------------------------------------------- */

/* A head over two levels has its arrays once in the file, and both layers get
 * them. */
START_TEST(layers_of_one_name_have_one_array)
{
    const spc_weights_use use = SPC_WEIGHTS_USE_INIT;
    const int64_t shape[] = {COUT, 1, 1, 1, CIN}, down[] = {CIN, 2, 2, 2, CIN};
    const spc_array *unread;
    spc_net_info info;
    spc_tensor first = last;

    add_array("head.weight", 5, shape);
    add_array("down.weight", 5, down);
    assert_ok(spc__weights_finish(weights, &error));
    add_conv("subm,cin=4,cout=6,k=1", "head", NULL);
    last = first;
    add_conv("conv,cin=4,cout=4,k=2,stride=2,rule=floor", "down", NULL);
    add_conv("subm,cin=4,cout=6,k=1", "head", NULL);
    spc_net_describe(&info, net);
    ck_assert_int_eq(info.params, 2);
    assert_ok(spc_weights_fill_net(net, weights, &use, &error));
    assert_vector("head", SPC_OPERAND_WEIGHTS, values_of("head.weight"),
                  COUT * CIN);
    ck_assert_int_eq(spc_weights_unread_count(&unread, net, weights, &use), 0);
}
END_TEST

/* ---- exceeded capacities ------------------------------------------------- */

/* The largest half is 65504; values below 65520 are rounded to it. */
static const struct {
    const char *type;
    float values[4];
    const char *said; /* NULL: accepted */
} storing[] = {
    {"f16", {65504, -65519, 1e-30f, 0}, NULL},
    {"f16",
     {65504, 65520, 1, -7e4f},
     "2 of the 96 numbers of 'conv.weight' would be infinite as f16, which "
     "ends at 65504; the greatest is -70000: "
     "dtype=bf16 or f32 (--dtype) holds them"},
    {"f16", {1, 3.4e38f, 1, 1}, ": dtype=f32 (--dtype) holds them"},
    {"f16", {INFINITY, -1e9f, NAN, 1}, "1 of the 96 numbers"},
    {"bf16", {1e38f, -7e4f, 1, 1}, NULL},
    {"bf16", {-3.4e38f, 1, 1, 1}, "as bf16, which ends at 3.38953e+38"},
    {"f32", {3.4e38f, 1, 1, 1}, NULL},
    {"tf32", {3.4e38f, 1, 1, 1}, NULL},
};

START_TEST(what_would_become_infinite_is_refused_with_what_would_fit)
{
    const spc_weights_use use = SPC_WEIGHTS_USE_INIT;
    const spc_kernel_form form = SPC_KERNEL_FORM_INIT;
    const int64_t shape[] = {COUT, 2, 2, 1, CIN};
    const char *said = storing[_i].said;
    char text[96];
    float *theirs = add_array("conv.weight", 5, shape), got[COUT * 4 * CIN];
    spc_net_param p;
    spc_conv conv;

    memcpy(theirs + 7, storing[_i].values, sizeof(storing[_i].values));
    assert_ok(spc__weights_finish(weights, &error));
    snprintf(text, sizeof(text),
             "conv,cin=4,cout=6,k=2x2x1,stride=2x2x1,rule=floor,dtype=%s",
             storing[_i].type);
    assert_ok(spc_conv_parse(&conv, text, &error));
    if (strcmp(storing[_i].type, "f16") == 0) {
        add_conv(text, "conv", NULL);
        spc_status status = spc_weights_fill_net(net, weights, &use, &error);
        ck_assert_int_eq(status, said != NULL ? SPC_ERANGE : SPC_OK);
        assert_ok(spc_net_param_at(&p, net, 0));
        ck_assert_int_eq(p.values == NULL, said != NULL);
    }
    spc_error none = {SPC_OK, ""};
    error = none;
    spc_kernel_load(got, &conv, spc_weights_find(weights, "conv.weight"), &form,
                    &error);
    ck_assert_msg(said == NULL ? error.status == SPC_OK
                               : error.status == SPC_ERANGE &&
                                     strstr(error.text, said) != NULL,
                  "%s", error.text);
}
END_TEST

/* A file with NaN or infinity is accepted, and a note reports it. */
START_TEST(what_is_no_number_is_noted)
{
    const spc_weights_use use = SPC_WEIGHTS_USE_INIT;
    const int64_t shape[] = {COUT, 3, 3, 3, CIN};
    float *theirs = add_array("conv.weight", 5, shape);
    float *bias = add_array("conv.bias", 1, (int64_t[]){COUT});

    theirs[3] = NAN;
    theirs[300] = -INFINITY;
    bias[2] = NAN;
    assert_ok(spc__weights_finish(weights, &error));
    add_conv("subm,cin=4,cout=6,k=3,epilogue=bias", "conv", NULL);
    assert_ok(spc_weights_fill_net(net, weights, &use, &error));
    ck_assert_str_eq(spc_net_note_at(net, 0),
                     "layer 'conv': 2 of its 648 numbers called weights are "
                     "NaN or infinite, and so would be its results");
    ck_assert_ptr_nonnull(
        strstr(spc_net_note_at(net, 1), "6 numbers called bias"));
    ck_assert_ptr_null(spc_net_note_at(net, 2));

    float ranges[2] = {1, 1};
    spc_net_info info;
    spc_net_describe(&info, net);
    ck_assert_int_le(info.tensors, 2);
    bias[2] = theirs[3] = theirs[300] = 0; /* without the unusual values */
    assert_ok(spc_weights_fill_net(net, weights, &use, &error));
    ck_assert_ptr_null(spc_net_note_at(net, 0));
    assert_ok(spc_net_quantise(NULL, net, ranges, &error));
}
END_TEST

START_TEST(steps_of_i8_need_numbers)
{
    float values[COUT * 27 * COUT] = {[5] = NAN}, ranges[3] = {1, 1, 1};

    add_conv("subm,cin=4,cout=6,k=3", "a", NULL);
    add_conv("subm,cin=6,cout=6,k=3", "b", NULL);
    assert_ok(spc_net_set_param(net, "b", SPC_OPERAND_WEIGHTS, values,
                                COUT * 27 * COUT, &error));
    ck_assert_int_eq(spc_net_quantise(NULL, net, ranges, &error), SPC_EINVAL);
    ck_assert_ptr_nonnull(strstr(error.text, "layer 'b': 1 of its 972"));
    values[5] = 65520;
    ck_assert_int_eq(spc_net_set_param(net, "b", SPC_OPERAND_WEIGHTS, values,
                                       COUT * 27 * COUT, &error),
                     SPC_ERANGE);
    ck_assert_ptr_nonnull(strstr(error.text, "the weights of layer 'b'"));
}
END_TEST

/* ---- networks like another one ------------------------------------------- */

static const spc_weights_use of_detector = {.bytes = sizeof(spc_weights_use),
                                            .engine = SPC_ENGINE_SPCONV2,
                                            .axes = "zyx",
                                            .prefix = "b."};

static bool find_layer(int *cin, int *cout, const char *layer, void *payload)
{
    spc_kernel_shape shape;

    (void)payload;
    if (!spc_weights_find_layer(&shape, weights, &of_detector, layer))
        return false;
    *cin = shape.cin;
    *cout = shape.cout;
    return true;
}

/* Adds the arrays of a kernel and its normalisation. */
static void add_layer(const char *kernel, const char *norm, int cout, int cin,
                      int z, int y, int x)
{
    char name[48];

    snprintf(name, sizeof(name), "b.%.30s.weight", kernel);
    add_array(name, 5, (int64_t[]){cout, z, y, x, cin});
    snprintf(name, sizeof(name), "b.%.30s", norm);
    add_norm(name, cout);
}

static void add_numbered(const char *format, int number, int cout, int cin)
{
    char kernel[64], norm[64];

    snprintf(kernel, sizeof(kernel), "%s.%d.0", format, number);
    snprintf(norm, sizeof(norm), "%s.%d.1", format, number);
    add_layer(kernel, norm, cout, cin, 3, 3, 3);
}

/* SECOND with six channels, narrow levels, and another number of layers in each
 * level. */
static void add_second(void)
{
    static const int widths[] = {8, 12, 20, 28}, blocks[] = {2, 3, 1, 2};
    char level[16];

    add_layer("conv_input.0", "conv_input.1", 8, 6, 3, 3, 3);
    for (int l = 0; l < 4; l++) {
        snprintf(level, sizeof(level), "conv%d", l + 1);
        int from = l == 0 ? 0 : 1;
        for (int i = from; i < from + blocks[l]; i++) {
            char kernel[64], norm[64];
            snprintf(kernel, sizeof(kernel), "%s.%d.0", level, i);
            snprintf(norm, sizeof(norm), "%s.%d.1", level, i);
            add_layer(kernel, norm, widths[l], widths[l], 3, 3, 3);
        }
        if (l > 0)
            add_numbered(level, 0, widths[l], widths[l - 1]);
    }
    add_layer("conv_out.0", "conv_out.1", 40, 28, 3, 1, 1);
    assert_ok(spc__weights_finish(weights, &error));
}

static spc_net_like like_second(void)
{
    spc_net_like like = SPC_NET_LIKE_INIT;

    like.find = find_layer;
    for (int i = 0; i < 3; i++) {
        like.voxel[i] = i < 2 ? 0.1 : 0.25;
        like.low[i] = -4 * (i + 1);
        like.high[i] = 4;
    }
    return like;
}

START_TEST(a_network_like_another_has_its_own_widths_and_grid)
{
    static const int shape[3] = {80, 120, 65};
    char path[4400];
    spc_net_like like = like_second();
    spc_net *second = NULL;
    spc_net_info info;
    spc_tensor_info out;
    const spc_array *first;

    add_second();
    snprintf(path, sizeof(path), "%s",
             suite_path("../examples/networks/second.lua"));
    assert_ok(spc_net_load_like(&second, path, SPC_F32, &like, &error));
    spc_net_describe(&info, second);
    ck_assert_int_eq(info.input->channels, 6);
    /* As in the file, the shape has one voxel more along z than the grid. */
    ck_assert_mem_eq(info.input->shape, shape, sizeof(shape));
    ck_assert_double_eq(info.input->voxel[2], 0.25);
    ck_assert_double_eq(info.input->low[1], -8);
    ck_assert_int_eq(info.layers, 1 + 2 + 4 + 2 + 3 + 1);
    ck_assert_int_eq(info.maps, 8);
    assert_ok(spc_net_tensor_at(&out, second, info.tensors - 1, &error));
    ck_assert(out.dense);
    /* The first level has 40 channels. The levels have 65, 33, 17, 8 and 3
     * voxels along z. */
    ck_assert_int_eq(out.elements, 40 * 3 * (80 / 8) * (120 / 8));
    assert_ok(spc_weights_fill_net(second, weights, &of_detector, &error));
    ck_assert_int_eq(
        spc_weights_unread_count(&first, second, weights, &of_detector), 0);
    spc_net_free(second);
}
END_TEST

/* Without weights and with the file's grid, the result is the file's
 * network. */
START_TEST(a_network_like_another_and_nothing_else_is_that_one)
{
    spc_net_like like = SPC_NET_LIKE_INIT;
    char path[4400];
    spc_net *one = NULL, *other = NULL;
    spc_net_info a, b;

    snprintf(path, sizeof(path), "%s",
             suite_path("../examples/networks/centerpoint.lua"));
    assert_ok(spc_net_load(&one, path, SPC_F16, &error));
    spc_net_describe(&a, one);
    memcpy(like.voxel, a.input->voxel, sizeof(like.voxel));
    memcpy(like.low, a.input->low, sizeof(like.low));
    memcpy(like.high, a.input->high, sizeof(like.high));
    assert_ok(spc_net_load_like(&other, path, SPC_F16, &like, &error));
    spc_net_describe(&b, other);
    ck_assert_int_eq(a.layers, b.layers);
    ck_assert_int_eq(a.params, b.params);
    ck_assert_mem_eq(a.input->shape, b.input->shape, sizeof(b.input->shape));
    for (int i = 0; i < a.params; i++) {
        spc_net_param p, q;
        ck_assert_int_eq(spc_net_param_at(&p, one, i), SPC_OK);
        ck_assert_int_eq(spc_net_param_at(&q, other, i), SPC_OK);
        ck_assert_str_eq(p.layer, q.layer);
        ck_assert_int_eq(p.count, q.count);
    }
    spc_net_free(one);
    spc_net_free(other);
}
END_TEST

static const struct {
    const char *file;
    double voxel, high;
    const char *said;
} unlike[] = {
    {"second.lua", 0, 4, "weights have none"},
    {"minkunet18a.lua", 0.1, 4, "it states no grid"},
    {"second.lua", 0.1, 4.05, "no whole number of voxels"},
    {"second.lua", 0.1, -100, "no whole number of voxels"},
    {"nothing.lua", 0.1, 4, "nothing.lua"},
};

START_TEST(what_is_not_like_the_file_is_refused_in_one_sentence)
{
    char path[4400];
    spc_net_like like = like_second();
    spc_net *none = net;

    like.voxel[0] = unlike[_i].voxel;
    like.high[0] = unlike[_i].high;
    snprintf(path, sizeof(path), "%s/../examples/networks/%s", suite_data(),
             unlike[_i].file);
    ck_assert_int_ne(spc_net_load_like(&none, path, SPC_F16, &like, &error),
                     SPC_OK);
    ck_assert_ptr_null(none);
    ck_assert_msg(strstr(error.text, unlike[_i].said) != NULL, "'%s'",
                  error.text);
}
END_TEST

START_TEST(a_grid_that_the_file_has_wrong_is_refused)
{
    static const char text[] =
        "local x = input {channels = 4, shape = {4, 4, 4},\n"
        "                 voxel = {1, 0, 1}, high = {4, 4, 4}}\n"
        "output(conv(x, 'subm,k=3,cout=4', {name = 'a'}))\n";
    char path[] = "/tmp/likeXXXXXX";
    spc_net_like like = like_second();
    spc_net *none = net;
    FILE *file = fdopen(mkstemp(path), "w");

    ck_assert_ptr_nonnull(file);
    fputs(text, file);
    fclose(file);
    ck_assert_int_eq(spc_net_load_like(&none, path, SPC_F16, &like, &error),
                     SPC_ETEMPLATE);
    ck_assert_ptr_null(none);
    ck_assert_ptr_nonnull(strstr(error.text, "its own grid has no whole"));
    remove(path);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("net_weights");
    TCase *tcase = tcase_create("networks");

    tcase_add_checked_fixture(tcase, open_weights, free_weights);
    tcase_add_checked_fixture(tcase, open_net, free_net);
    tcase_add_test(tcase, a_detector_of_spconv_is_filled);
    tcase_add_test(tcase, a_network_of_minkowski_engine_is_filled);
    tcase_add_test(tcase, arrays_that_no_layer_reads_are_counted);
    tcase_add_test(tcase, a_batch_normalisation_is_no_scale_and_bias);
    tcase_add_loop_test(tcase, what_is_missing_or_of_another_layer_is_named, 0,
                        (int)(sizeof(missing) / sizeof(*missing)));
    tcase_add_loop_test(
        tcase, what_would_become_infinite_is_refused_with_what_would_fit, 0,
        (int)(sizeof(storing) / sizeof(*storing)));
    tcase_add_test(tcase, a_linear_layer_of_minkowski_engine_has_its_bias);
    tcase_add_test(tcase, layers_of_one_name_have_one_array);
    tcase_add_test(tcase, what_is_no_number_is_noted);
    tcase_add_test(tcase, steps_of_i8_need_numbers);
    tcase_add_test(tcase, a_network_like_another_has_its_own_widths_and_grid);
    tcase_add_test(tcase, a_network_like_another_and_nothing_else_is_that_one);
    tcase_add_test(tcase, a_grid_that_the_file_has_wrong_is_refused);
    tcase_add_loop_test(tcase,
                        what_is_not_like_the_file_is_refused_in_one_sentence, 0,
                        (int)(sizeof(unlike) / sizeof(*unlike)));
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
