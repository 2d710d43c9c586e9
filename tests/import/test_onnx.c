/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_onnx.c - networks from ONNX files. They equal the networks in Lua from
 * which the files were written. Unsupported nodes give error messages.
 */
#include "base/file.h"
#include "base/random.h"
#include "harness/autoware_harness.h"
#include "harness/onnx_harness.h"
#include "harness/suite.h"
#include "import/onnx_file.h"
#include "operators/conv.h"
#include "operators/geometry.h"

#include <limits.h>
#include <math.h>

static spc_error error;

#define assert_ok(call) ck_assert_msg((call) == SPC_OK, "%s", error.text)

/* ---- networks ------------------------------------------------------------ */

/* Sets weights that are exact in f16, and scales of 1, so that folding and
 * rounding for a file change nothing. */
static void draw_halves(spc_net *net)
{
    spc__random random;

    spc__random_init(&random, 11);
    for (int i = 0; i < net->node_count; i++)
        for (int j = 0; j < SPC__NET_PARAMS; j++) {
            spc__net_node *n = &net->nodes[i];
            float *values = malloc((size_t)n->counts[j] * sizeof(float) + 1);
            for (int64_t k = 0; k < n->counts[j]; k++)
                values[k] =
                    j == 1
                        ? 1
                        : (float)((int)spc__random_below(&random, 17) - 8) / 64;
            if (n->counts[j] > 0)
                assert_ok(spc_net_set_param(net, n->name, spc__net_operands[j],
                                            values, n->counts[j], &error));
            free(values);
        }
}

static spc_net *load_lua(const char *path)
{
    spc_net *net;

    assert_ok(spc_net_load(&net, path, SPC_F16, &error));
    draw_halves(net);
    return net;
}

static spc_onnx *read_onnx(const spc__buf *file)
{
    spc_onnx *onnx;

    assert_ok(
        spc__onnx_read(&onnx, "scn.onnx", file->data, file->length, &error));
    return onnx;
}

/* `axes`: NULL, or the order for a file that does not state it. */
static spc_net *import(const spc__buf *file, const char *axes)
{
    spc_onnx_options options = SPC_ONNX_OPTIONS_INIT;
    spc_onnx *onnx = read_onnx(file);
    spc_net *net;

    options.axes = axes;
    assert_ok(spc_onnx_build(&net, onnx, &options, &error));
    spc_onnx_free(onnx);
    return net;
}

/* ---- equal networks ------------------------------------------------------ */

/* Returns convolution number `i`, or NULL. */
static const spc__net_node *conv_at(const spc_net *net, int i)
{
    for (int n = 0; n < net->node_count; n++)
        if (net->nodes[n].kind == SPC__NODE_CONV && i-- == 0)
            return &net->nodes[n];
    return NULL;
}

static bool same_geometry(const spc_geometry *lua, const spc_geometry *onnx)
{
    /* True if both rules give the same outputs: for kernel 2 and stride 2 they
     * do, as shapes are even here. */
    if (lua->rule == SPC_RULE_FLOOR)
        return onnx->rule == SPC_RULE_FOOTPRINT &&
               memcmp(lua->kernel, onnx->kernel, sizeof(lua->kernel)) == 0 &&
               memcmp(lua->stride, onnx->stride, sizeof(lua->stride)) == 0;
    return spc__geometry_equal(lua, onnx);
}

static void assert_same_conv(const spc__net_node *lua,
                             const spc__net_node *onnx)
{
    char text[2][512];

    spc_conv_format(text[0], sizeof(text[0]), &lua->conv);
    spc_conv_format(text[1], sizeof(text[1]), &onnx->conv);
    bool is_same = lua->conv.op == onnx->conv.op &&
                   lua->conv.cin == onnx->conv.cin &&
                   lua->conv.cout == onnx->conv.cout &&
                   lua->conv.activation == onnx->conv.activation &&
                   lua->conv.add == onnx->conv.add &&
                   lua->conv.bias == onnx->conv.bias && !onnx->conv.scale &&
                   same_geometry(&lua->conv.geometry, &onnx->conv.geometry);
    ck_assert_msg(is_same, "%s is\n  %s, not\n  %s", lua->name, text[1],
                  text[0]);
    ck_assert_int_eq(lua->counts[0], onnx->counts[0]);
    for (int j = 0; j < SPC__NET_PARAMS; j += 2)
        ck_assert_msg(lua->counts[j] == 0 ||
                          memcmp(lua->params[j], onnx->params[j],
                                 (size_t)lua->counts[j] * sizeof(float)) == 0,
                      "%s (%s): other numbers", lua->name, text[1]);
}

static void assert_same_layers(const spc_net *lua, const spc_net *onnx)
{
    spc_net_info a, b;

    spc_net_describe(&a, lua);
    spc_net_describe(&b, onnx);
    ck_assert_int_eq(a.layers, b.layers);
    ck_assert_int_eq(a.sets, b.sets);
    ck_assert_int_eq(a.maps, b.maps);
    ck_assert_int_eq(a.outputs, b.outputs);
    ck_assert_int_eq(lua->node_count, onnx->node_count);
    for (int i = 0; i < a.layers; i++)
        assert_same_conv(conv_at(lua, i), conv_at(onnx, i));
    for (int i = 0; i < a.outputs; i++) {
        const spc__net_tensor *x = &lua->tensors[lua->outs[i].tensor];
        const spc__net_tensor *y = &onnx->tensors[onnx->outs[i].tensor];
        ck_assert_int_eq(x->dense, y->dense);
        ck_assert_int_eq(x->elements, y->elements);
        if (x->dense)
            ck_assert_int_eq(lua->nodes[x->node].feature.order,
                             onnx->nodes[y->node].feature.order);
    }
}

static bool has_matrix(const spc_net *net)
{
    for (int i = 0; i < net->node_count; i++)
        if (net->nodes[i].kind == SPC__NODE_CONV &&
            net->nodes[i].conv.op == SPC_SUBM &&
            spc_geometry_offset_count(&net->nodes[i].conv.geometry) == 1)
            return true;
    return false;
}

static void assert_same_net(const spc_net *lua, const spc_net *onnx)
{
    assert_same_layers(lua, onnx);
    /* The rulebooks are correct, so the only note is about the layout of
     * kernels of one offset. */
    const char *note = spc_net_note_at(onnx, 0);
    ck_assert_int_eq(note != NULL, has_matrix(lua));
    ck_assert(note == NULL || strstr(note, "of one offset") != NULL);
    ck_assert_ptr_null(note == NULL ? NULL : spc_net_note_at(onnx, 1));
}

static const struct {
    const char *file, *axes;
    int shape[3];
} networks[] = {
    {"second.lua", "zyx", {1408, 1600, 41}},
    {"second.lua", "xyz", {1408, 1600, 41}},
    {"centerpoint.lua", "zyx", {1440, 1440, 41}},
    {"unetv2.lua", "zyx", {1408, 1600, 41}},
    {"minkunet18a.lua", "xyz", {96, 64, 32}},
};

START_TEST(a_file_is_the_network_that_it_was_written_from)
{
    char path[512];
    spc__buf file = SPC__BUF_INIT;

    snprintf(path, sizeof(path), "../examples/networks/%s", networks[_i].file);
    spc_net *lua = load_lua(suite_path(path));
    onnx_write(&file, lua, networks[_i].axes, networks[_i].shape, false);
    spc_net *onnx = import(&file, networks[_i].axes);
    assert_same_net(lua, onnx);
    spc_net_free(lua);
    spc_net_free(onnx);
    spc__buf_release(&file);
}
END_TEST

/* ---- rulebooks ----------------------------------------------------------- */

#define DIFFER(layer)                                                          \
    "layers 'conv0' and '" layer                                               \
    "' have the key 'all', but their maps differ: "                            \
    "the key is not followed"

static const struct {
    const char *file;
    int shape[3], maps;
    onnx_keys keys;
    const char *noted; /* the first note */
} keyed[] = {
    {"centerpoint.lua", {1440, 1440, 41}, 8, KEYS_RIGHT, NULL},
    {"centerpoint.lua", {1440, 1440, 41}, 8, KEYS_NONE, NULL},
    {"centerpoint.lua", {1440, 1440, 41}, 8, KEYS_EACH, NULL},
    {"centerpoint.lua", {1440, 1440, 41}, 8, KEYS_ONE, DIFFER("conv9")},
    {"unetv2.lua",
     {1408, 1600, 41},
     11,
     KEYS_NONE,
     "layer 'conv21' is inverse and names no rulebook: it inverts "
     "'conv8', which made its rows"},
    {"unetv2.lua",
     {1408, 1600, 41},
     11,
     KEYS_EACH,
     "layer 'conv21' is inverse and names the rulebook 'own21', which no "
     "strided layer before it has: it inverts 'conv8', which made its "
     "rows"},
    {"unetv2.lua", {1408, 1600, 41}, 11, KEYS_ONE, DIFFER("conv2")},
};

/* Maps depend only on voxels and geometry. The number of maps is the same
 * without rulebooks and with one for each layer (for which spconv makes 21 in
 * CenterPoint). A single name for all rulebooks is reported. */
START_TEST(rulebooks_are_hints)
{
    char path[512];
    spc__buf file = SPC__BUF_INIT;
    spc_net_info info;

    snprintf(path, sizeof(path), "../examples/networks/%s", keyed[_i].file);
    spc_net *lua = load_lua(suite_path(path));
    onnx_write_keyed(&file, lua, "zyx", keyed[_i].shape, keyed[_i].keys);
    spc_net *onnx = import(&file, "zyx");
    spc_net_describe(&info, onnx);
    ck_assert_int_eq(info.maps, keyed[_i].maps);
    assert_same_layers(lua, onnx);
    const char *note = spc_net_note_at(onnx, 0);
    const char *said = keyed[_i].noted;
    ck_assert_str_eq(note != NULL ? note : "", said != NULL ? said : "");
    spc_net_free(lua);
    spc_net_free(onnx);
    spc__buf_release(&file);
}
END_TEST

/* ---- equal results ------------------------------------------------------- */

/* Four layers of 4 channels, on a grid of 24x20x16, use all supported features.
 * Nothing is folded, so both networks have the same kernels. */
static const char small_lua[] =
    "network 'small'\n"
    "local x = input {channels = 4, shape = {24, 20, 16}}\n"
    "local y = conv(x, 'subm,k=3,cout=4,epilogue=bias+add+relu',\n"
    "               {residual = x})\n"
    "local down = ',k=3,stride=2,rule=footprint,padding=1x0x1,cout=4'\n"
    "local z = conv(y, 'conv' .. down .. ',epilogue=bias+relu', {})\n"
    "output(feature(z, 'bev,order=ORDER'), 'bev')\n"
    "local up = conv(z, 'inverse' .. down .. ',epilogue=bias', {})\n"
    "local both = cat(up, y)\n"
    "local sums = feature(both, 'groupsum,by=2')\n"
    "output(conv(both, 'subm,k=3,epilogue=relu+add,cout=4',\n"
    "            {residual = sums}), 'rows')\n"
    "local grown = conv(z, 'generative,k=3x2x3,stride=2,dilation=1x2x1,' ..\n"
    "                   'origin=-1x0x-1,shape=24x21x15,cout=4', {})\n"
    "output(conv(grown, 'subm,k=3,cout=4', {}), 'grown')\n";

enum { ROWS = 300, CAPACITY = 512, MOST_CHANNELS = 8 };

/* Makes distinct random rows, with features of this many channels. */
static void draw_scene(int32_t *coords, float *features, int channels)
{
    static bool taken[24][20][16];
    spc__random random;

    memset(taken, 0, sizeof(taken));
    spc__random_init(&random, 5);
    for (int row = 0; row < ROWS;) {
        int x = (int)spc__random_below(&random, 24);
        int y = (int)spc__random_below(&random, 20);
        int z = (int)spc__random_below(&random, 16);
        if (taken[x][y][z])
            continue;
        taken[x][y][z] = true;
        memcpy(coords + 4 * row++, (int32_t[]){0, x, y, z}, 16);
    }
    for (int i = 0; i < channels * CAPACITY; i++)
        features[i] = (float)((int)spc__random_below(&random, 9) - 4) / 4;
}

typedef struct run_result {
    int64_t elements[4];
    float *values[4];
    int count;
} run_result;

static void take_output(run_result *out, const spc_net_plan *plan, int i,
                        const char *memory)
{
    spc_net_output o;

    ck_assert_int_eq(spc_net_plan_output_at(&o, plan, i), SPC_OK);
    int64_t rows = o.dense ? o.batches : spc_coords_rows(o.set);
    out->elements[i] = rows * o.elements;
    out->values[i] = malloc((size_t)out->elements[i] * sizeof(float) + 1);
    spc__dtype_of(o.dtype)->decode(out->values[i], memory + o.offset,
                                   (size_t)out->elements[i]);
}

/* Runs the network on the cpu device, whose memory is host memory. */
static void run_net(run_result *out, const spc_net *net, spc_ctx *ctx)
{
    static int32_t coords[4 * CAPACITY];
    static float values[MOST_CHANNELS * CAPACITY];
    static float features[MOST_CHANNELS * CAPACITY]; /* in the network's type */
    spc_net_options options = SPC_NET_OPTIONS_INIT;
    spc_net_plan *plan;
    spc_net_info info;
    void *memory;

    spc_net_describe(&info, net);
    ck_assert_int_le(info.input->channels, MOST_CHANNELS);
    draw_scene(coords, values, info.input->channels);
    spc__dtype_of(info.input->dtype)
        ->encode(features, values,
                 (size_t)CAPACITY * (size_t)info.input->channels);
    options.capacity = CAPACITY;
    options.growth = 16;
    for (int i = 1; i < 4; i++) /* for networks of unknown shape */
        options.high[i] = 31;
    ck_assert_msg(spc_net_plan_create(&plan, ctx, net, &options) == SPC_OK,
                  "%s", spc_ctx_error(ctx));
    ck_assert_int_eq(
        spc_memory_alloc(&memory, ctx, spc_net_plan_memory_bytes(plan)),
        SPC_OK);
    spc_net_buffers buffers = {.bytes = sizeof(spc_net_buffers),
                               coords,
                               NULL,
                               ROWS,
                               features,
                               memory,
                               .points = NULL};
    ck_assert_msg(spc_net_plan_execute(plan, &buffers, NULL) == SPC_OK &&
                      spc_net_plan_check(plan, NULL) == SPC_OK,
                  "%s", spc_ctx_error(ctx));
    out->count = info.outputs;
    for (int i = 0; i < info.outputs; i++)
        take_output(out, plan, i, memory);
    spc_memory_free(ctx, memory);
    spc_net_plan_free(plan);
}

static void release_result(run_result *result)
{
    for (int i = 0; i < result->count; i++)
        free(result->values[i]);
}

/* True if an output has nonzero values. */
static bool has_values(const run_result *result, int i)
{
    size_t other = 0;

    for (int64_t k = 0; k < result->elements[i]; k++)
        other += result->values[i][k] != 0;
    return other > 50;
}

/* Returns the difference of two results relative to the largest value. */
static double difference_of(const run_result *a, const run_result *b, int i)
{
    double most = 0, apart = 0;

    for (int64_t k = 0; k < a->elements[i]; k++) {
        double x = (double)a->values[i][k], y = (double)b->values[i][k];
        most = fmax(most, fabs(x));
        /* also true for NaN */
        apart = fabs(x - y) <= apart ? apart : fabs(x - y);
    }
    return apart / most;
}

/* Checks that the results differ by at most `allowed`. */
static void assert_same_results(const spc_net *lua, const spc_net *onnx,
                                double allowed)
{
    spc_ctx_options options = SPC_CTX_OPTIONS_INIT;
    run_result a, b;
    spc_ctx *ctx;

    options.device = "cpu";
    options.database = suite_database();
    assert_ok(spc_ctx_create(&ctx, &options, &error));
    run_net(&a, lua, ctx);
    run_net(&b, onnx, ctx);
    ck_assert_int_eq(a.count, b.count);
    for (int i = 0; i < a.count; i++) {
        ck_assert(has_values(&a, i));
        ck_assert_int_eq(a.elements[i], b.elements[i]);
        double apart = difference_of(&a, &b, i);
        ck_assert_msg(apart <= allowed, "output %d: %g apart", i, apart);
    }
    release_result(&a);
    release_result(&b);
    spc_ctx_free(ctx);
}

/* Loads a network in Lua with this axis order of its plane. */
static spc_net *load_words(const char *words, const char *order,
                           spc_dtype dtype)
{
    spc__buf folder = SPC__BUF_INIT, text = SPC__BUF_INIT;
    char path[512];
    const char *at = strstr(words, "ORDER");

    assert_ok(spc__temp_dir_create(&folder, &error));
    snprintf(path, sizeof(path), "%s/small.lua", spc__buf_text(&folder));
    spc__buf_printf(&text, "%.*s%s%s", (int)(at - words), words, order,
                    at + strlen("ORDER"));
    assert_ok(spc__file_write(path, text.data, text.length, &error));
    spc_net *net;
    assert_ok(spc_net_load(&net, path, dtype, &error));
    draw_halves(net);
    spc__temp_dir_remove(spc__buf_text(&folder));
    spc__buf_release(&folder);
    spc__buf_release(&text);
    return net;
}

static spc_net *load_small(const char *order)
{
    return load_words(small_lua, order, SPC_F16);
}

static const int small_shape[3] = {24, 20, 16};

static const struct {
    const char *axes, *order;
} small_files[] = {
    {"zyx", "zyx"}, {"zyx", "xyz"}, {"xyz", "xyz"}, {"xyz", "zyx"}};

static const char *axes_of(const spc_net *net)
{
    spc_net_info info;

    spc_net_describe(&info, net);
    return info.input->axes;
}

START_TEST(a_file_computes_what_its_network_does)
{
    spc__buf file = SPC__BUF_INIT;
    spc_net *lua = load_small(small_files[_i].order);

    onnx_write(&file, lua, small_files[_i].axes, small_shape, false);
    spc_net *onnx = import(&file, NULL);
    assert_same_net(lua, onnx);
    assert_same_results(lua, onnx, 0);
    ck_assert_str_eq(axes_of(onnx), small_files[_i].axes);
    ck_assert_str_eq(axes_of(lua), "xyz");
    spc_net_free(lua);
    spc_net_free(onnx);
    spc__buf_release(&file);
}
END_TEST

/* Whole networks in f32, of which one runs. Rounding differs: the networks in
 * Lua multiply by the scales of normalisations, which are 1, and kernels may
 * add in another order. */
START_TEST(a_whole_network_computes_what_its_file_does)
{
    spc_onnx_options options = SPC_ONNX_OPTIONS_INIT;
    spc__buf file = SPC__BUF_INIT;
    char path[512];
    spc_net *lua, *net;

    if (!suite_takes(_i))
        return;
    snprintf(path, sizeof(path), "../examples/networks/%s", networks[_i].file);
    assert_ok(spc_net_load(&lua, suite_path(path), SPC_F32, &error));
    draw_halves(lua);
    onnx_write(&file, lua, networks[_i].axes, networks[_i].shape, false);
    spc_onnx *onnx = read_onnx(&file);
    options.axes = networks[_i].axes;
    options.dtype = SPC_F32;
    assert_ok(spc_onnx_build(&net, onnx, &options, &error));
    assert_same_results(lua, net, 1e-4);
    spc_onnx_free(onnx);
    spc_net_free(lua);
    spc_net_free(net);
    spc__buf_release(&file);
}
END_TEST

/* ---- files by hand ------------------------------------------------------- */

/* Adds a submanifold layer of size 3 that reads tensor `in`, with 4
 * channels. */
static int put_conv(onnx_graph *g, int in, const char *name, int kernel)
{
    const int shape[3] = {16, 20, 24}, sizes[3] = {kernel, kernel, kernel};
    const uint16_t zeros[4 * 27 * 4] = {0};
    char weight[64];
    spc__buf node;
    int out;

    snprintf(weight, sizeof(weight), "%s.weight", name);
    add_halves(g, weight, (int[]){4, kernel, kernel, kernel, 4}, 5, zeros,
               true);
    node_begin(&node, g, "SparseConvolution", name, &in, 1, &out);
    pb_text(&node, 1, weight);
    attr_ints(&node, "input_spatial_shape", shape, 3, false);
    attr_ints(&node, "kernel_size", sizes, 3, true);
    attr_int(&node, "in_channels", 4);
    attr_int(&node, "out_channels", 4);
    attr_int(&node, "subm", 1);
    node_end(&node, g, out);
    return out;
}

/* PyTorch computes the shortcut last, so the shortcut's layer is fused with the
 * sum. */
START_TEST(a_shortcut_that_comes_last_takes_the_sum)
{
    onnx_graph g = {0};
    spc__buf file = SPC__BUF_INIT;
    spc_net_info info;

    add_value(&g, 11, 0);
    int x = put_conv(&g, 0, "first", 3);
    int y = put_conv(&g, x, "main", 3);
    int s = put_conv(&g, x, "short", 1);
    int sum = add_plain(&g, "Add", (int[]){y, s}, 2);
    int out = add_plain(&g, "Relu", &sum, 1);
    add_value(&g, 12, out);
    onnx_finish(&file, &g);
    spc_net *net = import(&file, NULL);

    spc_net_describe(&info, net);
    ck_assert_int_eq(info.layers, 3);
    ck_assert_int_eq(net->node_count, 3);
    ck_assert_int_eq(conv_at(net, 2)->conv.add, SPC_ADD_BEFORE);
    ck_assert_int_eq(conv_at(net, 2)->conv.activation, SPC_ACT_RELU);
    ck_assert_int_eq(conv_at(net, 2)->add, conv_at(net, 1)->out);
    ck_assert_int_eq(conv_at(net, 1)->conv.add, SPC_ADD_NONE);
    spc_net_free(net);
    spc__buf_release(&file);
}
END_TEST

/* A value that a second node reads must remain. */
START_TEST(what_has_two_readers_is_not_folded_away)
{
    onnx_graph g = {0};
    spc__buf file = SPC__BUF_INIT;

    add_value(&g, 11, 0);
    int x = put_conv(&g, 0, "first", 3);
    int y = put_conv(&g, x, "second", 3);
    int relu = add_plain(&g, "Relu", &x, 1); /* the second reader of x */
    int third = put_conv(&g, relu, "third", 3);
    int sum = add_plain(&g, "Add", (int[]){third, y}, 2);
    int twice = add_plain(&g, "Add", (int[]){sum, sum}, 2);
    add_value(&g, 12, twice);
    onnx_finish(&file, &g);
    spc_net *net = import(&file, NULL);

    ck_assert_int_eq(net->node_count, 5);
    ck_assert_int_eq(conv_at(net, 0)->conv.activation, SPC_ACT_NONE);
    ck_assert_int_eq(net->nodes[2].feature.op, SPC_FEATURE_ACT);
    ck_assert_int_eq(conv_at(net, 2)->conv.add, SPC_ADD_AFTER);
    ck_assert_int_eq(net->nodes[4].feature.op, SPC_FEATURE_ADD);
    spc_net_free(net);
    spc__buf_release(&file);
}
END_TEST

/* A kernel of one offset: spconv 2 multiplies by its memory as [in][out]; other
 * exporters write [out][in]. */
START_TEST(a_matrix_is_read_as_its_exporter_wrote_it)
{
    spc_onnx_options options = SPC_ONNX_OPTIONS_INIT;
    uint16_t halves[16];
    onnx_graph g = {0};
    spc__buf file = SPC__BUF_INIT, node;
    int in = 0, out;

    for (int i = 0; i < 16; i++)
        halves[i] = spc__half_from_float((float)i);
    add_value(&g, 11, 0);
    add_halves(&g, "w", (int[]){4, 1, 1, 1, 4}, 5, halves, true);
    node_begin(&node, &g, "SparseConvolution", "conv0", &in, 1, &out);
    pb_text(&node, 1, "w");
    attr_int(&node, "in_channels", 4);
    attr_int(&node, "out_channels", 4);
    attr_ints(&node, "kernel_size", (int[]){1, 1, 1}, 3, true);
    node_end(&node, &g, out);
    add_value(&g, 12, out);
    onnx_finish(&file, &g);
    spc_onnx *onnx = read_onnx(&file);
    for (int plain = 0; plain < 2; plain++) {
        spc_net *net;
        options.plain_matrices = plain == 1;
        assert_ok(spc_onnx_build(&net, onnx, &options, &error));
        const float *got = conv_at(net, 0)->params[0];
        for (int co = 0; co < 4; co++)
            for (int ci = 0; ci < 4; ci++)
                ck_assert(got[co * 4 + ci] ==
                          (float)(plain ? co * 4 + ci : ci * 4 + co));
        const char *note = spc_net_note_at(net, 0);
        ck_assert_int_eq(note != NULL, !plain);
        ck_assert(plain ||
                  strstr(note, "1 kernel of one offset (the first: "
                               "'conv0') is read as spconv 2") != NULL);
        spc_net_free(net);
    }
    spc_onnx_free(onnx);
    spc__buf_release(&file);
}
END_TEST

/* A ScatterDense may be the last node, or be followed by a Reshape that merges
 * C and the first axis. The values then have the order of the format. */
START_TEST(a_dense_value_alone_lies_as_its_format_says)
{
    static const struct {
        const char *format;
        bool merged;
        spc_bev_order order;
        int dims[4];
    } forms[] = {
        {"zyx", false, SPC_BEV_ZYX, {0}},
        {"xyz", false, SPC_BEV_VOLUME, {0}},
        {"zyx", true, SPC_BEV_ZYX, {1, 4 * 5, 6, 7}},
        {"xyz", true, SPC_BEV_VOLUME, {1, -1, 6, 7}},
    };
    onnx_graph g = {0};
    spc__buf file = SPC__BUF_INIT, node;
    uint16_t zeros[16] = {0};
    int in = 0, out;

    add_value(&g, 11, 0);
    add_halves(&g, "w", (int[]){4, 1, 1, 1, 4}, 5, zeros, true);
    node_begin(&node, &g, "SparseConvolution", "conv0", &in, 1, &out);
    pb_text(&node, 1, "w");
    attr_int(&node, "in_channels", 4);
    attr_int(&node, "out_channels", 4);
    attr_ints(&node, "kernel_size", (int[]){1, 1, 1}, 3, true);
    attr_ints(&node, "input_spatial_shape", (int[]){5, 6, 7}, 3, true);
    node_end(&node, &g, out);
    in = out;
    node_begin(&node, &g, "ScatterDense", "scatter0", &in, 1, &out);
    attr_ints(&node, "input_spatial_shape", (int[]){5, 6, 7}, 3, true);
    attr_text(&node, "format", forms[_i].format);
    node_end(&node, &g, out);
    if (forms[_i].merged) {
        in = out;
        node_begin(&node, &g, "Reshape", "reshape0", &in, 1, &out);
        attr_ints(&node, "dims", forms[_i].dims, 4, false);
        node_end(&node, &g, out);
    }
    add_value(&g, 12, out);
    onnx_finish(&file, &g);
    spc_net *net = import(&file, NULL);
    const spc__net_node *dense = &net->nodes[net->node_count - 1];
    bool volume = forms[_i].order == SPC_BEV_VOLUME;
    ck_assert_int_eq(dense->feature.op, SPC_FEATURE_BEV);
    ck_assert_int_eq(dense->feature.order, forms[_i].order);
    ck_assert_int_eq(dense->feature.shape[0], volume ? 5 : 7);
    ck_assert_int_eq(dense->feature.shape[1], 6);
    spc_net_free(net);
    spc__buf_release(&file);
}
END_TEST

/* spconv centres submanifold layers regardless of their padding and stride;
 * Pointcept and PTv3 write kernel 5 and padding 1. */
START_TEST(a_submanifold_layer_ignores_padding_and_stride)
{
    onnx_graph g = {0};
    spc__buf file = SPC__BUF_INIT, node;
    uint16_t *zeros = calloc(125 * 16, sizeof(*zeros));
    int in = 0, out;

    add_value(&g, 11, 0);
    add_halves(&g, "w", (int[]){4, 5, 5, 5, 4}, 5, zeros, true);
    node_begin(&node, &g, "SparseConvolution", "conv0", &in, 1, &out);
    pb_text(&node, 1, "w");
    attr_int(&node, "in_channels", 4);
    attr_int(&node, "out_channels", 4);
    attr_ints(&node, "kernel_size", (int[]){5, 5, 5}, 3, true);
    attr_ints(&node, "stride", (int[]){2, 2, 2}, 3, true);
    attr_ints(&node, "padding", (int[]){1, 1, 1}, 3, true);
    attr_ints(&node, "dilation", (int[]){2, 1, 1}, 3, true); /* as z, y, x */
    attr_int(&node, "subm", 1);
    node_end(&node, &g, out);
    add_value(&g, 12, out);
    onnx_finish(&file, &g);
    spc_net *net = import(&file, NULL);
    const spc_geometry *got = &conv_at(net, 0)->conv.geometry;
    int first[3];

    spc_geometry_offset_at(first, got, 0);
    ck_assert_int_eq(got->rule, SPC_RULE_SUBM);
    ck_assert_int_eq(net->set_count, 1);
    ck_assert(first[0] == -2 && first[1] == -2 && first[2] == -4);
    spc_net_free(net);
    spc__buf_release(&file);
    free(zeros);
}
END_TEST

static const char block_lua[] =
    "network 'block'\n"
    "local x = input {channels = 4, shape = {24, 20, 16}}\n"
    "local same = 'subm,k=3,cout=4,epilogue=bias'\n"
    "local a = conv(x, same .. '+relu', {})\n"
    "local b = conv(a, same .. '+relu', {})\n"
    "local c = conv(b, same .. '+add+relu', {residual = a})\n"
    "output(feature(conv(c, same, {}), 'bev,order=ORDER'), 'bev')\n";

/* Tensors between layers become i8, with a step of range / 127. */
static void check_quantised(const spc_onnx *onnx)
{
    spc_onnx_options options = SPC_ONNX_OPTIONS_INIT;
    spc_net *net;
    int whole = 0;

    options.int8 = true;
    assert_ok(spc_onnx_build(&net, onnx, &options, &error));
    for (int i = 0; i < net->node_count; i++) {
        const spc__net_node *node = &net->nodes[i];
        const spc__net_tensor *in = &net->tensors[node->in[0]];
        if (node->kind != SPC__NODE_CONV || in->dtype != SPC_I8)
            continue;
        float range = 1.5f + (float)atoi(node->name + 4);
        ck_assert(node->conv.dtype == SPC_I8);
        ck_assert_msg(in->scale >= range / 127, "%s: a step of %g", node->name,
                      (double)in->scale);
        whole++;
    }
    ck_assert_int_eq(whole, 3);
    spc_net_free(net);
}

START_TEST(ranges_for_int8_are_kept)
{
    spc__buf file = SPC__BUF_INIT;
    spc_net *lua = load_small("zyx");
    spc_onnx_range range;
    int count = 0;

    onnx_write(&file, lua, "zyx", small_shape, true);
    spc_onnx *onnx = read_onnx(&file);
    while (spc_onnx_range_at(&range, onnx, count) == SPC_OK) {
        const spc__net_node *n = conv_at(lua, count++);
        ck_assert_int_eq(strncmp(range.layer, "conv", 4), 0);
        ck_assert(range.inputs[0] == 1.5f + (float)atoi(range.layer + 4));
        ck_assert(range.int8 && !range.int8_out);
        ck_assert_int_eq(range.weight_count, n->conv.cout);
        ck_assert(range.weights[n->conv.cout - 1] ==
                  0.5f + (float)(n->conv.cout - 1));
    }
    ck_assert_ptr_null(conv_at(lua, count));
    spc_onnx_free(onnx);
    spc_net_free(lua);
    spc__buf_release(&file);
}
END_TEST

START_TEST(a_file_is_quantised_by_its_ranges)
{
    spc__buf file = SPC__BUF_INIT;
    spc_net *lua = load_words(block_lua, "zyx", SPC_F16);

    onnx_write(&file, lua, "zyx", small_shape, true);
    spc_onnx *onnx = read_onnx(&file);
    check_quantised(onnx);
    spc_onnx_free(onnx);
    spc_net_free(lua);
    spc__buf_release(&file);
}
END_TEST

/* ---- error messages ------------------------------------------------------ */

/* Invalid files with one convolution and its dense output. */
typedef struct spoiled {
    const char *name;
    void (*write)(onnx_graph *g);
    spc_status status;
    const char *said;
} spoiled;

static int begin_conv(spc__buf *node, onnx_graph *g, const char *weight)
{
    const uint16_t zeros[4 * 27 * 4] = {0};
    int in = 0, out;

    add_value(g, 11, 0);
    add_halves(g, "w", (int[]){4, 3, 3, 3, 4}, 5, zeros, true);
    node_begin(node, g, "SparseConvolution", "conv0", &in, 1, &out);
    pb_text(node, 1, weight);
    attr_int(node, "in_channels", 4);
    attr_int(node, "out_channels", 4);
    return out;
}

static void end_conv(spc__buf *node, onnx_graph *g, int out)
{
    attr_ints(node, "kernel_size", (int[]){3, 3, 3}, 3, true);
    node_end(node, g, out);
    add_value(g, 12, out);
}

#define SPOILED(name, line)                                                    \
    static void name(onnx_graph *g)                                            \
    {                                                                          \
        spc__buf node;                                                         \
        int out = begin_conv(&node, g, "w");                                   \
        line;                                                                  \
        end_conv(&node, g, out);                                               \
    }

SPOILED(nothing_wrong, (void)node)
SPOILED(unknown_attribute, attr_int(&node, "spatial_groups", 2))
SPOILED(other_domain, pb_text(&node, 7, "torch.nn"))
SPOILED(groups_of_two, attr_int(&node, "groups", 2))
SPOILED(transposed, attr_int(&node, "transposed", 1))
SPOILED(more_outputs,
        attr_ints(&node, "output_padding", (int[]){0, 1, 0}, 3, true))
SPOILED(nothing_left,
        (attr_int(&node, "transposed", 1),
         attr_ints(&node, "input_spatial_shape", (int[]){2, 8, 8}, 3, false),
         attr_ints(&node, "padding", (int[]){2, 1, 1}, 3, false)))
SPOILED(text_for_number, attr_text(&node, "subm", "yes"))
SPOILED(huge_number, attr_int(&node, "subm", (int64_t)1 << 40))
SPOILED(two_strides, attr_ints(&node, "stride", (int[]){2, 2}, 2, false))
SPOILED(said_twice,
        (attr_int(&node, "groups", 1), attr_int(&node, "groups", 2)))
SPOILED(no_voxels,
        attr_ints(&node, "input_spatial_shape", (int[]){8, 0, 8}, 3, false))
SPOILED(zero_stride, attr_ints(&node, "stride", (int[]){0, 1, 1}, 3, false))
SPOILED(strange_activation, attr_text(&node, "activation", "Swish"))
SPOILED(no_such_rulebook,
        (attr_int(&node, "inverse", 1), attr_text(&node, "rulebook", "r")))
SPOILED(long_rulebook,
        attr_text(&node, "rulebook",
                  "a text of more than sixty-three letters, which is more than "
                  "any name of a rulebook has"))
SPOILED(other_shape,
        (attr_ints(&node, "input_spatial_shape", (int[]){8, 8, 8}, 3, false),
         attr_int(&node, "subm", 1),
         attr_ints(&node, "output_spatial_shape", (int[]){8, 8, 9}, 3, false)))

SPOILED(subm_and_inverse,
        (attr_int(&node, "subm", 1), attr_int(&node, "inverse", 1)))
SPOILED(subm_and_transposed,
        (attr_int(&node, "subm", 1), attr_int(&node, "transposed", 1)))
SPOILED(endless_stride,
        attr_ints(&node, "stride", (int[]){INT_MAX, 1, 1}, 3, false))
SPOILED(padding_below_zero,
        attr_ints(&node, "padding", (int[]){-1, 0, 0}, 3, false))
SPOILED(endless_padding,
        attr_ints(&node, "padding", (int[]){INT_MAX, 0, 0}, 3, false))
SPOILED(endless_dilation,
        (attr_int(&node, "subm", 1),
         attr_ints(&node, "dilation", (int[]){INT_MAX, 1, 1}, 3, false)))
SPOILED(endless_shape, attr_ints(&node, "input_spatial_shape",
                                 (int[]){INT_MAX, INT_MAX, INT_MAX}, 3, false))
SPOILED(endless_growth,
        (attr_int(&node, "transposed", 1),
         attr_ints(&node, "input_spatial_shape", (int[]){1 << 20, 8, 8}, 3,
                   false),
         attr_ints(&node, "stride", (int[]){1 << 16, 1, 1}, 3, false)))

/* A convolution with these attributes, including its kernel, and a bias. */
static void conv_of(onnx_graph *g, int cin, int cout, const int kernel[3],
                    int biases)
{
    const uint16_t zeros[4 * 27 * 4] = {0};
    spc__buf node;
    int in = 0, out;

    add_value(g, 11, 0);
    add_halves(g, "w", (int[]){4, 3, 3, 3, 4}, 5, zeros, true);
    add_halves(g, "b", &biases, 1, zeros, true);
    node_begin(&node, g, "SparseConvolution", "conv0", &in, 1, &out);
    pb_text(&node, 1, "w");
    pb_text(&node, 1, "b");
    attr_int(&node, "subm", 1);
    attr_int(&node, "in_channels", cin);
    if (cout != 0)
        attr_int(&node, "out_channels", cout);
    attr_ints(&node, "kernel_size", kernel, 3, true);
    node_end(&node, g, out);
    add_value(g, 12, out);
}

static const int three[3] = {3, 3, 3};

static void no_width(onnx_graph *g)
{
    conv_of(g, 4, 0, three, 4);
}

static void other_width(onnx_graph *g)
{
    conv_of(g, 4, 5, three, 5);
}

static void no_channels(onnx_graph *g)
{
    conv_of(g, -4, 4, three, 4);
}

static void other_bias(onnx_graph *g)
{
    conv_of(g, 4, 4, three, 5);
}

static void no_kernel(onnx_graph *g)
{
    conv_of(g, 4, 4, (int[]){3, 0, 3}, 4);
}

static void kernel_below_zero(onnx_graph *g)
{
    conv_of(g, 4, 4, (int[]){-3, 3, -3}, 4);
}

static void endless_kernel(onnx_graph *g)
{
    conv_of(g, 4, 4, (int[]){INT_MAX, INT_MAX, INT_MAX}, 4);
}

/* Tests a valid convolution, followed by a node of this type. */
static int behind_conv(onnx_graph *g, const char *type, int count,
                       const int *inputs)
{
    spc__buf node;
    int out = begin_conv(&node, g, "w");

    attr_ints(&node, "input_spatial_shape", (int[]){8, 8, 8}, 3, false);
    attr_int(&node, "subm", 1);
    end_conv(&node, g, out);
    return add_plain(g, type, inputs, count);
}

static void sum_of_three(onnx_graph *g)
{
    behind_conv(g, "Add", 3, (int[]){0, 1, 1});
}

static void sum_of_one(onnx_graph *g)
{
    behind_conv(g, "Add", 1, (int[]){1});
}

static void sum_with_itself_to_be(onnx_graph *g)
{
    behind_conv(g, "Add", 2, (int[]){1, 2});
}

static void nothing_joined(onnx_graph *g)
{
    behind_conv(g, "Concat", 0, NULL);
}

static void dense_twice(onnx_graph *g)
{
    int dense = behind_conv(g, "ScatterDense", 1, (int[]){1});

    add_plain(g, "ScatterDense", &dense, 1);
}

static void relu_of_two(onnx_graph *g)
{
    behind_conv(g, "Relu", 2, (int[]){1, 0});
}

/* Without this node the convolution would be fused. */
static void relu_with_a_slope(onnx_graph *g)
{
    spc__buf node;
    int out = begin_conv(&node, g, "w"), relu;

    attr_int(&node, "subm", 1);
    attr_ints(&node, "kernel_size", three, 3, true);
    node_end(&node, g, out);
    node_begin(&node, g, "Relu", "relu", &out, 1, &relu);
    attr_float(&node, "slope", 0.1f);
    node_end(&node, g, relu);
    add_value(g, 12, relu);
}

static void sum_over_two_sets(onnx_graph *g)
{
    spc__buf node;
    int first = behind_conv(g, "Relu", 1, (int[]){1}), strided;

    node_begin(&node, g, "SparseConvolution", "down", &first, 1, &strided);
    pb_text(&node, 1, "w");
    attr_int(&node, "in_channels", 4);
    attr_int(&node, "out_channels", 4);
    attr_ints(&node, "kernel_size", three, 3, true);
    attr_ints(&node, "stride", (int[]){2, 2, 2}, 3, true);
    node_end(&node, g, strided);
    add_plain(g, "Add", (int[]){strided, first}, 2);
}

static void no_array(onnx_graph *g)
{
    spc__buf node;
    int out = begin_conv(&node, g, "v");
    end_conv(&node, g, out);
}

static void two_of_a_name(onnx_graph *g)
{
    spc__buf node;
    int out = begin_conv(&node, g, "w");
    end_conv(&node, g, out);
    add_halves(g, "w", (int[]){1}, 1, (uint16_t[]){0}, true);
}

static void even_subm(onnx_graph *g)
{
    spc__buf node;
    int out = begin_conv(&node, g, "w");
    attr_int(&node, "subm", 1);
    attr_ints(&node, "kernel_size", (int[]){2, 2, 2}, 3, true);
    node_end(&node, g, out);
    add_value(g, 12, out);
}

static void other_channels(onnx_graph *g)
{
    spc__buf node;
    int out = begin_conv(&node, g, "w");
    attr_ints(&node, "kernel_size", (int[]){1, 3, 3}, 3, true);
    node_end(&node, g, out);
    add_value(g, 12, out);
}

static void unknown_node(onnx_graph *g)
{
    spc__buf node;
    int out = begin_conv(&node, g, "w");
    end_conv(&node, g, out);
    add_plain(g, "MaxPool", &out, 1);
}

static void before_its_time(onnx_graph *g)
{
    spc__buf node;
    int out = begin_conv(&node, g, "w"), later = 3;
    end_conv(&node, g, out);
    add_plain(g, "Relu", &later, 1);
    add_plain(g, "Relu", &out, 1);
}

static void no_output(onnx_graph *g)
{
    spc__buf node;
    int out = begin_conv(&node, g, "w");
    end_conv(&node, g, out);
    add_value(g, 12, 77);
}

static void input_put_out(onnx_graph *g)
{
    spc__buf node;
    int out = begin_conv(&node, g, "w");
    add_value(g, 12, 0);
    end_conv(&node, g, out);
}

static void two_inputs(onnx_graph *g)
{
    add_value(g, 11, 40);
    no_output(g);
}

static void made_twice(onnx_graph *g)
{
    spc__buf node;
    int out = begin_conv(&node, g, "w");
    end_conv(&node, g, out);
    g->tensors = 0;
    add_plain(g, "Relu", &out, 1);
}

static void steering_name(onnx_graph *g)
{
    spc__buf node;
    int out = begin_conv(&node, g, "w");
    end_conv(&node, g, out);
    add_plain(g, "\033[2J", &out, 1);
}

/* The plane is N, C, Y, X, Z. */
static void planes_by_y(onnx_graph *g)
{
    spc__buf node;
    int out = begin_conv(&node, g, "w"), dense;

    attr_ints(&node, "input_spatial_shape", (int[]){8, 8, 8}, 3, false);
    attr_int(&node, "subm", 1);
    attr_ints(&node, "kernel_size", (int[]){3, 3, 3}, 3, true);
    node_end(&node, g, out);
    node_begin(&node, g, "ScatterDense", "scatter", &out, 1, &dense);
    attr_text(&node, "format", "xyz");
    node_end(&node, g, dense);
    node_begin(&node, g, "Transpose", "turn", &dense, 1, &out);
    attr_ints(&node, "dims", (int[]){0, 1, 3, 2, 4}, 5, false);
    node_end(&node, g, out);
    add_value(g, 12, out);
}

static const spoiled spoiled_files[] = {
    {"unknown attribute", unknown_attribute, SPC_EUNSUPPORTED,
     "node 0 ('conv0', SparseConvolution) has an unknown attribute "
     "'spatial_groups'"},
    {"groups", groups_of_two, SPC_EUNSUPPORTED, "groups 2"},
    {"transposed", transposed, SPC_EUNSUPPORTED,
     "is transposed, and the spatial shape of its inputs"},
    {"output padding", more_outputs, SPC_EUNSUPPORTED,
     "which only transposed layers have"},
    {"no voxel", nothing_left, SPC_EFORMAT,
     "makes a shape of 0 voxels along z"},
    {"text", text_for_number, SPC_EFORMAT, "'subm' that is not a whole number"},
    {"huge", huge_number, SPC_EFORMAT, "'subm' that is not a whole number"},
    {"two strides", two_strides, SPC_EFORMAT, "'stride' that is not 3 whole"},
    {"zero stride", zero_stride, SPC_EINVAL, "cannot be added"},
    {"an attribute twice", said_twice, SPC_EFORMAT,
     "has the attribute 'groups' twice"},
    {"an array twice", two_of_a_name, SPC_EFORMAT, "array 'w' occurs twice"},
    {"no voxels", no_voxels, SPC_EINVAL, "its input '0' cannot be added"},
    {"activation", strange_activation, SPC_EUNSUPPORTED, "'Swish'"},
    {"inverse of none", no_such_rulebook, SPC_EFORMAT, "the rulebook 'r'"},
    {"long rulebook", long_rulebook, SPC_EFORMAT, "not a short text"},
    {"even subm", even_subm, SPC_EUNSUPPORTED, "odd sizes only"},
    {"other shape", other_shape, SPC_EFORMAT,
     "output_spatial_shape 9x8x8 (x, y, z), but the layers before it give "
     "8x8x8"},
    {"no array", no_array, SPC_EFORMAT, "reads 'v', which is not an array"},
    {"other kernel", other_channels, SPC_EINVAL, "the layer's has the sizes"},
    {"unknown node", unknown_node, SPC_EUNSUPPORTED, "MaxPool) is of a type"},
    {"order", before_its_time, SPC_EFORMAT,
     "reads '3', which no node before it makes"},
    {"no output", no_output, SPC_EFORMAT, "no node makes its output '77'"},
    {"the input", input_put_out, SPC_EINVAL, "is the network's input"},
    {"two inputs", two_inputs, SPC_EUNSUPPORTED, "2 inputs"},
    {"made twice", made_twice, SPC_EFORMAT, "two nodes make '1'"},
    {"control characters", steering_name, SPC_EFORMAT, "control characters"},
    {"subm and inverse", subm_and_inverse, SPC_EFORMAT,
     "subm 1, inverse 1 and transposed 0: expected at most one"},
    {"subm and transposed", subm_and_transposed, SPC_EFORMAT,
     "subm 1, inverse 0 and transposed 1: expected at most one"},
    {"endless stride", endless_stride, SPC_EINVAL, "stride 2147483647 along z"},
    {"padding below zero", padding_below_zero, SPC_EINVAL,
     "padding -1 along z"},
    {"endless padding", endless_padding, SPC_EINVAL,
     "padding 2147483647 along z"},
    {"endless dilation", endless_dilation, SPC_EINVAL,
     "dilation 2147483647 along z"},
    {"endless shape", endless_shape, SPC_EINVAL,
     "a shape of 2147483647x2147483647x2147483647"},
    {"endless growth", endless_growth, SPC_EFORMAT,
     "makes a shape of 68719411203 voxels along z"},
    {"no width", no_width, SPC_EINVAL, "cout=0: expected 1 to 65536 channels"},
    {"other width", other_width, SPC_EINVAL,
     "differs from the layer subm,cin=4,cout=5"},
    {"no channels", no_channels, SPC_EINVAL, "an input of -4 channels"},
    {"other bias", other_bias, SPC_EINVAL, "has 4 bias, these are 5"},
    {"no kernel", no_kernel, SPC_EUNSUPPORTED, "a kernel of 3x0x3"},
    {"kernel below zero", kernel_below_zero, SPC_EINVAL,
     "kernel size -3 along x"},
    {"endless kernel", endless_kernel, SPC_EINVAL, "has more than 343 offsets"},
    {"sum of three", sum_of_three, SPC_EUNSUPPORTED,
     "has 3 inputs: expected 2"},
    {"sum of one", sum_of_one, SPC_EUNSUPPORTED, "has 1 input: expected 2"},
    {"sum with itself to be", sum_with_itself_to_be, SPC_EFORMAT,
     "reads '2', which no node before it makes"},
    {"nothing joined", nothing_joined, SPC_EUNSUPPORTED,
     "has 0 inputs: 1 to 8 are possible"},
    {"dense twice", dense_twice, SPC_EUNSUPPORTED, "reads '2', which is dense"},
    {"domain", other_domain, SPC_EUNSUPPORTED,
     "has the unknown domain 'torch.nn'"},
    {"relu of two", relu_of_two, SPC_EUNSUPPORTED, "has 2 inputs: expected 1"},
    {"relu with a slope", relu_with_a_slope, SPC_EUNSUPPORTED,
     "has an unknown attribute 'slope'"},
    {"sum over two sets", sum_over_two_sets, SPC_EINVAL,
     "have two coordinate sets"},
    {"planes by y", planes_by_y, SPC_EUNSUPPORTED, "neither rows nor"},
};

static spc_status try_import(const spc__buf *file)
{
    spc_onnx_options options = SPC_ONNX_OPTIONS_INIT;
    spc_onnx *onnx = NULL;
    spc_net *net = NULL;
    spc_status status =
        spc__onnx_read(&onnx, "scn.onnx", file->data, file->length, &error);

    if (status == SPC_OK)
        status = spc_onnx_build(&net, onnx, &options, &error);
    ck_assert(status == SPC_OK || net == NULL);
    spc_onnx_free(onnx);
    spc_net_free(net);
    return status;
}

SPOILED(range_is_none, attr_float(&node, "input_dynamic_range", NAN))
SPOILED(range_below_zero, attr_float(&node, "input_dynamic_range", -1))
SPOILED(range_is_a_text, attr_text(&node, "input_dynamic_range", "much"))
SPOILED(precision_of_four_bits, attr_text(&node, "precision", "int4"))
SPOILED(few_weight_ranges,
        attr_floats(&node, "weight_dynamic_ranges", (float[]){1, 2, 3}, 3))
SPOILED(weight_range_below_zero,
        attr_floats(&node, "weight_dynamic_ranges", (float[]){1, 2, 3, -4}, 4))

/* Ranges must be valid if the network is quantised by them; otherwise they are
 * ignored. */
static const spoiled spoiled_ranges[] = {
    {"none", range_is_none, SPC_EFORMAT, "an input_dynamic_range of nan"},
    {"below 0", range_below_zero, SPC_EFORMAT, "an input_dynamic_range of -1"},
    {"a text", range_is_a_text, SPC_EFORMAT, "that is not a number"},
    {"four bits", precision_of_four_bits, SPC_EUNSUPPORTED,
     "has precision 'int4': int8, fp16 and fp32 are known"},
    {"few", few_weight_ranges, SPC_EFORMAT,
     "has 3 weight_dynamic_ranges: expected 4"},
    {"a weight's below 0", weight_range_below_zero, SPC_EFORMAT,
     "weight_dynamic_ranges with -4"},
};

START_TEST(a_range_that_cannot_be_is_refused)
{
    const spoiled *c = &spoiled_ranges[_i];
    spc_onnx_options options = SPC_ONNX_OPTIONS_INIT;
    onnx_graph g = {0};
    spc__buf file = SPC__BUF_INIT;
    spc_net *net = NULL;

    c->write(&g);
    onnx_finish(&file, &g);
    assert_ok(try_import(&file));
    spc_onnx *onnx = read_onnx(&file);
    options.int8 = true;
    ck_assert_int_eq(spc_onnx_build(&net, onnx, &options, &error), c->status);
    ck_assert_msg(strstr(error.text, c->said) != NULL, "'%s' lacks '%s'",
                  error.text, c->said);
    spc_onnx_free(onnx);
    spc__buf_release(&file);
}
END_TEST

START_TEST(what_is_not_known_is_refused_in_one_sentence)
{
    const spoiled *c = &spoiled_files[_i];
    onnx_graph g = {0};
    spc__buf file = SPC__BUF_INIT;

    c->write(&g);
    onnx_finish(&file, &g);
    spc_status status = try_import(&file);
    ck_assert_msg(status == c->status, "%s: %s, not %s: %s", c->name,
                  spc_status_name(status), spc_status_name(c->status),
                  status == SPC_OK ? "" : error.text);
    ck_assert_msg(strstr(error.text, c->said) != NULL, "'%s' lacks '%s'",
                  error.text, c->said);
    spc__buf_release(&file);
}
END_TEST

/* ---- Autoware ------------------------------------------------------------ */

/* Puts rows last, so that the plane is the first output in both networks. */
static const char autoware_lua[] =
    "network 'small'\n"
    "local x = input {channels = 4, shape = {24, 20, 16}}\n"
    "local y = conv(x, 'subm,k=3,cout=4,epilogue=bias+relu', {})\n"
    "y = conv(y, 'subm,k=3,cout=4,epilogue=bias+add+relu', {residual = y})\n"
    "local down = ',k=3,stride=2,rule=footprint,padding=1x0x1,cout=4'\n"
    "local z = conv(y, 'conv' .. down .. ',epilogue=bias+relu', {})\n"
    "output(feature(z, 'bev,order=ORDER'), 'bev')\n"
    "local grown = conv(z, 'generative,k=3x2x3,stride=2,dilation=1x2x1,' ..\n"
    "                   'origin=-1x0x-1,shape=24x21x15,cout=4', {})\n"
    "output(conv(grown, 'subm,k=3,cout=4,epilogue=bias', {}), 'grown')\n";

static spc_net *import_f32(const spc__buf *file, const char *axes, bool int8)
{
    spc_onnx_options options = SPC_ONNX_OPTIONS_INIT;
    spc_onnx *onnx = read_onnx(file);
    spc_net *net;

    options.axes = axes;
    options.dtype = int8 ? SPC_F16 : SPC_F32;
    options.int8 = int8;
    assert_ok(spc_onnx_build(&net, onnx, &options, &error));
    spc_onnx_free(onnx);
    return net;
}

static void assert_notes(const spc_net *net, const char *words)
{
    char all[2000] = "";

    for (int i = 0; spc_net_note_at(net, i) != NULL; i++) {
        size_t end = strlen(all);
        snprintf(all + end, sizeof(all) - end, "%s\n",
                 spc_net_note_at(net, i));
    }
    ck_assert_msg(strstr(all, words) != NULL, "'%s' lacks '%s'", all, words);
}

/* Runs every style of layers, both orders of axes, with and without dense
 * layers after them. */
START_TEST(a_file_of_autoware_computes_what_its_network_does)
{
    const char *axes = _i % 2 == 0 ? "xyz" : "zyx";
    autoware_writer w = {.axes = axes,
                         .style = (autoware_style)(_i / 2 % AUTOWARE_STYLES),
                         .tail = _i / 2 / AUTOWARE_STYLES == 1};
    spc__buf file = SPC__BUF_INIT;
    spc_net_info info;
    spc_net *lua = load_words(autoware_lua, axes, SPC_F32);

    w.net = lua;
    autoware_write(&file, &w, small_shape);
    /* z is the smallest axis, so the shape shows the order of axes. */
    spc_net *onnx = import_f32(&file, NULL, false);
    spc_net_describe(&info, onnx);
    ck_assert_str_eq(info.input->axes, axes);
    ck_assert_str_eq(info.input->name, "features");
    ck_assert_int_eq(info.outputs, 2);
    if (!w.tail)
        assert_same_results(lua, onnx, 1e-6);
    ck_assert_str_eq(onnx->outs[w.tail].name, "spatial_features");
    assert_notes(onnx, "begins at the features 'features' and the coordinates "
                       "'coords' (batch, then ");
    if (w.tail)
        assert_notes(onnx,
                     "the network ends at 'spatial_features': 6 nodes behind "
                     "it (Conv, BatchNormalization, Relu, ConvTranspose, "
                     "Concat, Split) stay the caller's");
    spc_net_free(lua);
    spc_net_free(onnx);
    spc__buf_release(&file);
}
END_TEST

/* Whole detectors must have the layers, maps and sets of the networks in
 * Lua. */
START_TEST(detectors_of_autoware_are_the_networks_in_lua)
{
    static const struct {
        const char *file;
        int shape[3];
    } whole[] = {{"second.lua", {1408, 1600, 41}},
                 {"centerpoint.lua", {1440, 1440, 41}}};
    char path[512];
    spc__buf file = SPC__BUF_INIT;
    spc_net_info a, b;

    snprintf(path, sizeof(path), "../examples/networks/%s",
             whole[_i % 2].file);
    spc_net *lua = load_lua(suite_path(path));
    autoware_writer w = {.net = lua,
                         .axes = _i < 2 ? "xyz" : "zyx",
                         .style = _i < 2 ? AUTOWARE_FUSED : AUTOWARE_NODES,
                         .tail = true};
    autoware_write(&file, &w, whole[_i % 2].shape);
    spc_net *onnx = import(&file, NULL);
    spc_net_describe(&a, lua);
    spc_net_describe(&b, onnx);
    ck_assert_int_eq(a.layers, b.layers);
    ck_assert_int_eq(a.sets, b.sets);
    ck_assert_int_eq(a.maps, b.maps);
    ck_assert_int_eq(b.outputs, 1);
    ck_assert_int_eq(lua->node_count, onnx->node_count);
    for (int i = 0; i < a.layers; i++)
        assert_same_conv(conv_at(lua, i), conv_at(onnx, i));
    spc_net_free(lua);
    spc_net_free(onnx);
    spc__buf_release(&file);
}
END_TEST

START_TEST(a_file_of_autoware_is_quantised_by_its_scales)
{
    autoware_writer w = {.axes = "xyz", .style = AUTOWARE_INT8};
    spc__buf file = SPC__BUF_INIT;
    spc_net *lua = load_words(autoware_lua, "xyz", SPC_F32);
    spc_onnx_range range;
    int whole = 0;

    w.net = lua;
    autoware_write(&file, &w, small_shape);
    spc_net *onnx = import_f32(&file, NULL, true);
    for (int i = 0; conv_at(onnx, i) != NULL; i++)
        whole += conv_at(onnx, i)->conv.dtype == SPC_I8;
    ck_assert_int_ge(whole, 1);
    spc_onnx *read = read_onnx(&file);
    ck_assert_int_eq(spc_onnx_range_at(&range, read, 0), SPC_OK);
    ck_assert_float_eq(range.inputs[0], 0.25f * 127);
    ck_assert(range.int8);
    spc_onnx_free(read);
    spc_net_free(lua);
    spc_net_free(onnx);
    spc__buf_release(&file);
}
END_TEST

/* There are few layers, because the fuzzer reads the file many times. */
static const char corpus_lua[] =
    "network 'small'\n"
    "local x = input {channels = 2, shape = {24, 20, 16}}\n"
    "x = conv(x, 'subm,k=3,cout=4,epilogue=bias+relu', {})\n"
    "x = conv(x, 'conv,k=2,stride=2,rule=footprint,cout=4,epilogue=bias', {})\n"
    "x = conv(x, 'subm,k=3,cout=2,epilogue=bias+add+relu',\n"
    "         {residual = conv(x, 'subm,k=1x3x1,cout=2', {})})\n"
    "output(feature(x, 'bev,order=ORDER'), 'bev')\n";

/* Compares with the file that the fuzzer changes. SPC_RECORD=1 writes it
 * anew. */
START_TEST(the_file_of_the_corpus_is_what_is_written_here)
{
    autoware_writer w = {
        .axes = "xyz", .style = AUTOWARE_NODES, .tail = true};
    spc__buf file = SPC__BUF_INIT, kept = SPC__BUF_INIT;
    spc_net *lua = load_words(corpus_lua, "xyz", SPC_F32);
    const char *path = suite_path("corpus/autoware.onnx");

    w.net = lua;
    autoware_write(&file, &w, small_shape);
    if (getenv("SPC_RECORD") != NULL)
        assert_ok(spc__file_write(path, file.data, file.length, &error));
    assert_ok(spc__file_read(&kept, path, 1 << 20, &error));
    ck_assert_uint_eq(kept.length, file.length);
    ck_assert_mem_eq(kept.data, file.data, file.length);
    spc_net_free(lua);
    spc__buf_release(&file);
    spc__buf_release(&kept);
}
END_TEST

/* Dense layers after a ScatterDense are also left to the caller. */
START_TEST(dense_layers_of_the_other_files_are_cut_off)
{
    onnx_graph g = {0};
    spc__buf file = SPC__BUF_INIT, node;
    int at = put_conv(&g, 0, "conv", 3), out;

    add_value(&g, 11, 0);
    node_begin(&node, &g, "ScatterDense", "dense", &at, 1, &out);
    attr_text(&node, "format", "xyz");
    node_end(&node, &g, out);
    int relu = add_plain(&g, "Relu", &out, 1);
    add_value(&g, 12, add_plain(&g, "Conv", (int[]){relu, relu}, 2));
    onnx_finish(&file, &g);
    spc_net *net = import(&file, NULL);
    ck_assert_int_eq(net->out_count, 1);
    ck_assert_str_eq(net->outs[0].name, "2");
    assert_notes(net, "the network ends at '2': 2 nodes behind it (Relu, Conv) "
                      "stay the caller's");
    spc_net_free(net);
    spc__buf_release(&file);
}
END_TEST

/* ---- invalid files of Autoware ------------------------------------------- */

/* Builds one layer by hand and damages one part of its nodes. */
typedef struct spoiled_layer {
    const char *pairs_in, *gemm_in, *behind, *behind_in, *said;
    int subm, is_subm, act_type, version, shape[3];
    spc_status status;
} spoiled_layer;

#define WELL .version = 1, .shape = {24, 20, 16}, .subm = 1, .is_subm = 1
#define GEMM "x,w,pairs,mask,order"

static const spoiled_layer spoiled_layers[] = {
    {"coords", "x,w,mask,pairs,order", WELL,
     .said = "reads the pairs of a node before it", .status = SPC_EFORMAT},
    {"coords", "x,b,pairs,mask,order", WELL,
     .said = "is the first layer, and its features or its weights",
     .status = SPC_EFORMAT},
    {"coords", GEMM ",w", WELL, .said = "whose input 5 is not an array of 4",
     .status = SPC_EFORMAT},
    {"coords", "x,w,pairs", WELL, .said = "has 3 inputs: 5 to 6",
     .status = SPC_EUNSUPPORTED},
    {"coords", GEMM, .version = 1, .shape = {24, 20, 16}, .is_subm = 1,
     .said = "has is_subm 1, but its pairs have subm 0", .status = SPC_EFORMAT},
    {"coords", GEMM, WELL, .act_type = 4, .said = "has the act_type 4",
     .status = SPC_EUNSUPPORTED},
    {"coords", GEMM, .version = 2, .shape = {24, 20, 16}, .subm = 1,
     .is_subm = 1, .said = "has version 2: 1 is known",
     .status = SPC_EUNSUPPORTED},
    {"coords", GEMM, .version = 1, .shape = {16, 16, 16}, .subm = 1,
     .is_subm = 1, .said = "state the order of its axes",
     .status = SPC_EUNSUPPORTED},
    {"coords", GEMM, WELL, .behind = "BatchNormalization",
     .behind_in = "y,b,b,b,w", .said = "whose input 4 is not an array",
     .status = SPC_EFORMAT},
    {"coords", GEMM, WELL, .behind = "BatchNormalization",
     .behind_in = "y,b,b,b,b", .said = "has the variance -1",
     .status = SPC_EFORMAT},
    {"coords", GEMM, WELL, .behind = "ImplicitGemm",
     .behind_in = "y,w,other_pairs,mask,order",
     .said = "reads features at the coordinates 'coords', and pairs of the "
             "coordinates 'x'",
     .status = SPC_EFORMAT},
};

static void put_pairs(autoware_writer *w, const spoiled_layer *c,
                      const char *in, const char *out)
{
    spc__buf node;

    aw_begin(&node, w, "autoware", "GetIndicePairsImplicitGemm", in, out);
    attr_ints(&node, "spatial_shape", c->shape, 3, false);
    attr_ints(&node, "ksize", (int[]){3, 3, 3}, 3, false);
    attr_int(&node, "subm", c->subm);
    aw_end(&node, w);
}

START_TEST(a_bad_layer_of_autoware_is_refused_in_one_sentence)
{
    const spoiled_layer *c = &spoiled_layers[_i];
    autoware_writer w = {.axes = "xyz", .version = c->version};
    float zeros[4 * 27 * 4] = {0};
    spc__buf file = SPC__BUF_INIT, node;

    aw_named(&w, 11, "x");
    aw_named(&w, 11, "coords");
    aw_floats(&w, "w", (int[]){4, 3, 3, 3, 4}, 5, zeros);
    aw_filled(&w, "b", 4, -1);
    put_pairs(&w, c, c->pairs_in, "out,pairs,mask,order,count");
    put_pairs(&w, c, "x", "o2,other_pairs,m2,a2,c2");
    aw_begin(&node, &w, "autoware", "ImplicitGemm", c->gemm_in, "y");
    attr_int(&node, "is_subm", c->is_subm);
    attr_int(&node, "act_type", c->act_type);
    aw_end(&node, &w);
    if (c->behind != NULL) {
        aw_begin(&node, &w, c->behind[0] == 'I' ? "autoware" : "", c->behind,
                 c->behind_in, "end");
        if (c->behind[0] == 'I')
            attr_int(&node, "is_subm", 1);
        aw_end(&node, &w);
    }
    aw_named(&w, 12, c->behind != NULL ? "end" : "y");
    autoware_finish(&file, &w);
    spc_status status = try_import(&file);
    ck_assert_msg(status == c->status, "case %d: %s: %s", _i,
                  spc_status_name(status), error.text);
    ck_assert_msg(strstr(error.text, c->said) != NULL, "'%s' lacks '%s'",
                  error.text, c->said);
    spc__buf_release(&file);
}
END_TEST

START_TEST(what_is_no_model_is_refused)
{
    const spc__buf nonsense = {(char *)"no model at all", 15, 0, false};
    spc_onnx *onnx = (spc_onnx *)&error;

    ck_assert_int_eq(try_import(&nonsense), SPC_EFORMAT);
    ck_assert_ptr_nonnull(strstr(error.text, "not an ONNX model"));
    ck_assert_int_eq(spc_onnx_open(&onnx, "/nonexistent.onnx", &error),
                     SPC_ENOTFOUND);
    ck_assert_ptr_null(onnx);
}
END_TEST

static const struct {
    int opset;
    bool is_known;
} opsets[] = {{1, false}, {6, false}, {7, true}, {23, true}, {24, false}};

START_TEST(an_opset_that_is_not_known_is_refused)
{
    onnx_graph g = {.opset = opsets[_i].opset};
    spc__buf file = SPC__BUF_INIT;
    char said[120];

    nothing_wrong(&g);
    onnx_finish(&file, &g);
    snprintf(said, sizeof(said),
             "opset %d: 7 to 23 are known; export it with one",
             opsets[_i].opset);
    ck_assert_int_eq(try_import(&file),
                     opsets[_i].is_known ? SPC_OK : SPC_EUNSUPPORTED);
    if (!opsets[_i].is_known)
        ck_assert_msg(strstr(error.text, said) != NULL, "%s", error.text);
    spc__buf_release(&file);
}
END_TEST

/* Arrays with a wrong type, location, or number of bytes. */
static void put_array(spc__buf *file, int type, int location, int bytes)
{
    spc__buf graph = SPC__BUF_INIT, t = SPC__BUF_INIT;

    pb_int(&t, 1, 3);
    pb_int(&t, 2, type);
    pb_text(&t, 8, "w");
    pb_bytes(&t, 9, "0123456789", (size_t)bytes);
    pb_int(&t, 14, location);
    pb_message(&graph, 5, &t);
    pb_message(file, 7, &graph);
}

START_TEST(an_array_that_cannot_be_is_refused)
{
    static const struct {
        int type, location, bytes;
        const char *said;
    } arrays[] = {
        {10, 0, 5, "'w' has 5 bytes of data; its shape (3) takes 6"},
        {7, 0, 6, "elements of type 7"},
        {10, 1, 6, "is in another file"},
    };
    spc__buf file = SPC__BUF_INIT;

    put_array(&file, arrays[_i].type, arrays[_i].location, arrays[_i].bytes);
    ck_assert_int_ne(try_import(&file), SPC_OK);
    ck_assert_msg(strstr(error.text, arrays[_i].said) != NULL,
                  "'%s' lacks '%s'", error.text, arrays[_i].said);
    spc__buf_release(&file);
}
END_TEST

#define COUNT(array) (int)(sizeof(array) / sizeof(*(array)))

int main(void)
{
    suite_sample(COUNT(networks));
    Suite *suite = suite_create("onnx");
    TCase *files = tcase_create("files"), *bad = tcase_create("sentences");

    tcase_add_loop_test(files, a_file_is_the_network_that_it_was_written_from,
                        0, COUNT(networks));
    tcase_add_loop_test(files, rulebooks_are_hints, 0, COUNT(keyed));
    tcase_add_loop_test(files, a_file_computes_what_its_network_does, 0,
                        COUNT(small_files));
    tcase_add_loop_test(files, a_whole_network_computes_what_its_file_does, 0,
                        COUNT(networks));
    tcase_add_test(files, a_shortcut_that_comes_last_takes_the_sum);
    tcase_add_test(files, what_has_two_readers_is_not_folded_away);
    tcase_add_test(files, a_matrix_is_read_as_its_exporter_wrote_it);
    tcase_add_loop_test(files, a_dense_value_alone_lies_as_its_format_says, 0,
                        4);
    tcase_add_test(files, a_submanifold_layer_ignores_padding_and_stride);
    tcase_add_test(files, ranges_for_int8_are_kept);
    tcase_add_test(files, a_file_is_quantised_by_its_ranges);
    tcase_add_loop_test(files, a_file_of_autoware_computes_what_its_network_does,
                        0, 4 * AUTOWARE_STYLES);
    tcase_add_loop_test(files, detectors_of_autoware_are_the_networks_in_lua, 0,
                        4);
    tcase_add_test(files, a_file_of_autoware_is_quantised_by_its_scales);
    tcase_add_test(files, the_file_of_the_corpus_is_what_is_written_here);
    tcase_add_test(files, dense_layers_of_the_other_files_are_cut_off);
    tcase_set_timeout(files, 300);
    suite_add_tcase(suite, files);
    tcase_add_loop_test(bad, what_is_not_known_is_refused_in_one_sentence, 0,
                        COUNT(spoiled_files));
    tcase_add_loop_test(bad, an_opset_that_is_not_known_is_refused, 0,
                        COUNT(opsets));
    tcase_add_loop_test(bad, a_range_that_cannot_be_is_refused, 0,
                        COUNT(spoiled_ranges));
    tcase_add_loop_test(bad, a_bad_layer_of_autoware_is_refused_in_one_sentence,
                        0, COUNT(spoiled_layers));
    tcase_add_test(bad, what_is_no_model_is_refused);
    tcase_add_loop_test(bad, an_array_that_cannot_be_is_refused, 0, 3);
    suite_add_tcase(suite, bad);
    return run_suite(suite);
}
