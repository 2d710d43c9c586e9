/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_net_store.c - networks in the database are read back unchanged, and
 * damaged ones are refused with a message.
 */
#include "harness/counted_allocations.h"
#include "harness/folder_harness.h"
#include "harness/suite.h"
#include "spc/db.h"

#include "base/dtype.h"
#include "base/file.h"
#include "base/random.h"
#include "cache/cache_internal.h"
#include "cache/exchange/exchange.h"
#include "cache/pack/pack.h"
#include "context/ctx.h"
#include "harness/mutate.h"
#include "net/form/net_text.h"
#include "operators/geometry.h"
#include <math.h>
#include <sqlite3.h>

#define LENGTH(array) ((int)(sizeof(array) / sizeof(*(array))))

static spc_error error;

#define assert_net(call)                                                       \
    ck_assert_msg((call) == SPC_OK, "%s: %s", #call, error.text)
#define assert_ok(call)                                                        \
    ck_assert_msg((call) == SPC_OK, "%s: %s", #call, spc_ctx_error(ctx))

static void assert_says(const char *text, const char *words)
{
    ck_assert_msg(strstr(text, words) != NULL, "'%s' does not say '%s'", text,
                  words);
}

/* ---- a folder, a database, networks -------------------------------------- */

static spc_ctx *ctx;

static void open_layered(const char *layer)
{
    spc_ctx_options options = SPC_CTX_OPTIONS_INIT;

    options.device = "cpu";
    options.database = at("user.db");
    options.layers = &layer;
    options.layer_count = layer != NULL;
    options.need_database = true;
    options.threads = 2;
    assert_net(spc_ctx_create(&ctx, &options, &error));
}

static void open_database(void)
{
    make_folder();
    open_layered(NULL);
}

static void close_database(void)
{
    spc_ctx_free(ctx);
    remove_folder();
}

static void sql(const char *name, const char *text)
{
    sqlite3 *db;
    char *message = NULL;

    ck_assert_int_eq(sqlite3_open(at(name), &db), SQLITE_OK);
    sqlite3_busy_timeout(db, 5000);
    ck_assert_msg(sqlite3_exec(db, text, NULL, NULL, &message) == SQLITE_OK,
                  "%s: %s", text, message);
    sqlite3_close(db);
}

static int64_t number_in(const char *name, const char *query)
{
    sqlite3 *db;
    sqlite3_stmt *stmt;

    ck_assert_int_eq(sqlite3_open(at(name), &db), SQLITE_OK);
    ck_assert_int_eq(sqlite3_prepare_v2(db, query, -1, &stmt, NULL), SQLITE_OK);
    ck_assert_int_eq(sqlite3_step(stmt), SQLITE_ROW);
    int64_t number = sqlite3_column_int64(stmt, 0);
    sqlite3_finalize(stmt);
    sqlite3_close(db);
    return number;
}

static spc_net *load(const char *file)
{
    spc_net *net;

    assert_net(spc_net_load(&net, suite_path(file), SPC_F32, &error));
    return net;
}

/* Loads every.lua with weights. */
static spc_net *load_every(uint64_t seed)
{
    spc_net *net = load("networks/every.lua");

    assert_net(spc_net_init_params(net, seed, &error));
    return net;
}

/* Reads all arrays of a network as fp32, whether set or not. */
static spc__net_array *plain_arrays(int *count, int64_t *bytes,
                                    const spc_net *net)
{
    spc__net_array *out = calloc((size_t)net->node_count * 3 + 1, sizeof(*out));

    *count = 0;
    *bytes = 0;
    for (int n = 0; n < net->node_count; n++)
        for (int j = 0; j < SPC__NET_PARAMS; j++)
            if (spc__net_owns(net, n, j)) {
                out[*count] =
                    (spc__net_array){n, j, SPC_F32, net->nodes[n].counts[j]};
                *bytes += (int64_t)spc__net_array_bytes(&out[(*count)++]);
            }
    return out;
}

static void write_text(spc__buf *out, const spc_net *net, int64_t *bytes)
{
    int count;
    spc__net_array *arrays = plain_arrays(&count, bytes, net);

    assert_net(spc__net_write(out, net, arrays, count, &error));
    free(arrays);
}

/* ---- comparing ----------------------------------------------------------- */

static void compare_conv(const spc_conv *a, const spc_conv *b)
{
    ck_assert(a->op == b->op && a->cin == b->cin && a->cout == b->cout);
    ck_assert(a->groups == b->groups && a->dtype == b->dtype);
    ck_assert(a->bias == b->bias && a->scale == b->scale);
    ck_assert(a->deterministic == b->deterministic);
    ck_assert(a->activation == b->activation && a->slope == b->slope);
    ck_assert(a->add == b->add && a->out == b->out);
    ck_assert_mem_eq(&a->geometry, &b->geometry,
                     offsetof(spc_geometry, offsets));
    ck_assert(spc__geometry_same_list(&a->geometry, &b->geometry));
}

static void compare_feature(const spc_feature *a, const spc_feature *b)
{
    ck_assert(a->op == b->op && a->channels == b->channels);
    ck_assert(a->dtype == b->dtype && a->index == b->index);
    ck_assert(a->affine == b->affine && a->groups == b->groups);
    if (a->op == SPC_FEATURE_POOL || a->op == SPC_FEATURE_GLOBAL)
        ck_assert_int_eq(a->reduction, b->reduction);
    if (a->activation == SPC_ACT_LEAKY || a->activation == SPC_ACT_ELU)
        ck_assert(a->slope == b->slope);
    ck_assert_int_eq(a->activation, b->activation);
    if (a->op == SPC_FEATURE_LAYERNORM || a->op == SPC_FEATURE_GROUPNORM)
        ck_assert(a->eps == b->eps);
    if (a->op == SPC_FEATURE_BEV)
        ck_assert(a->order == b->order &&
                  memcmp(a->shape, b->shape, sizeof(a->shape)) == 0);
    ck_assert_int_eq(a->by, b->by);
    if (a->op == SPC_FEATURE_POOL || a->op == SPC_FEATURE_UNPOOL)
        ck_assert_mem_eq(&a->geometry, &b->geometry,
                         offsetof(spc_geometry, offsets));
}

static bool same_text(const char *a, const char *b)
{
    return strcmp(a != NULL ? a : "", b != NULL ? b : "") == 0;
}

static void compare_node(const spc__net_node *a, const spc__net_node *b)
{
    ck_assert_int_eq(a->kind, b->kind);
    ck_assert_str_eq(a->name, b->name);
    ck_assert(same_text(a->norm, b->norm));
    ck_assert(a->kind != SPC__NODE_CONV || a->eps == b->eps);
    ck_assert(a->slices == b->slices && a->map == b->map);
    ck_assert(a->ins == b->ins && a->out == b->out && a->add == b->add);
    ck_assert_mem_eq(a->in, b->in, (size_t)a->ins * sizeof(a->in[0]));
    if (a->kind == SPC__NODE_CONV)
        compare_conv(&a->conv, &b->conv);
    if (a->kind == SPC__NODE_FEATURE)
        compare_feature(&a->feature, &b->feature);
    ck_assert_mem_eq(a->counts, b->counts, sizeof(a->counts));
}

static void compare_inputs(const spc_net_input *a, const spc_net_input *b)
{
    ck_assert(a->channels == b->channels && a->dtype == b->dtype);
    ck_assert_int_eq(a->points, b->points);
    ck_assert_mem_eq(a->shape, b->shape, sizeof(a->shape));
    ck_assert_mem_eq(a->voxel, b->voxel, sizeof(a->voxel));
    ck_assert_mem_eq(a->low, b->low, sizeof(a->low));
    ck_assert_mem_eq(a->high, b->high, sizeof(a->high));
}

/* Returns the size without the weights. */
static void compare_nets(const spc_net *a, const spc_net *b)
{
    ck_assert_str_eq(a->name, b->name);
    ck_assert_str_eq(a->input_name, b->input_name);
    compare_inputs(&a->input, &b->input);
    ck_assert_int_eq(a->node_count, b->node_count);
    for (int i = 0; i < a->node_count; i++)
        compare_node(&a->nodes[i], &b->nodes[i]);
    ck_assert_int_eq(a->set_count, b->set_count);
    ck_assert_int_eq(a->map_count, b->map_count);
    ck_assert_int_eq(a->tensor_count, b->tensor_count);
    for (int i = 0; i < a->tensor_count; i++) {
        const spc__net_tensor *x = &a->tensors[i], *y = &b->tensors[i];
        ck_assert(x->set == y->set && x->channels == y->channels &&
                  x->dtype == y->dtype && x->dense == y->dense &&
                  x->elements == y->elements && x->scale == y->scale);
        ck_assert_mem_eq(a->sets[x->set].shape, b->sets[y->set].shape, 12);
        ck_assert(a->sets[x->set].masked == b->sets[y->set].masked &&
                  a->sets[x->set].mask == b->sets[y->set].mask &&
                  a->sets[x->set].above == b->sets[y->set].above &&
                  a->sets[x->set].room == b->sets[y->set].room);
    }
    ck_assert_int_eq(a->out_count, b->out_count);
    for (int i = 0; i < a->out_count; i++) {
        ck_assert_str_eq(a->outs[i].name, b->outs[i].name);
        ck_assert_int_eq(a->outs[i].tensor, b->outs[i].tensor);
    }
}

static void compare_weights(const spc_net *a, const spc_net *b)
{
    for (int n = 0; n < a->node_count; n++)
        for (int j = 0; j < SPC__NET_PARAMS; j++)
            if (a->nodes[n].counts[j] > 0)
                ck_assert_mem_eq(a->nodes[n].params[j], b->nodes[n].params[j],
                                 (size_t)a->nodes[n].counts[j] * 4);
}

/* ---- the text ------------------------------------------------------------ */

/* The first networks have clouds, which do not support i8. */
enum { OF_CLOUDS = 2 };
static const char *const examples[] = {
    "networks/cloud.lua",
    "../examples/networks/pointresnet18.lua",
    "networks/every.lua",
    "networks/chain.lua",
    "networks/masked.lua",
    "networks/shared.lua",
    "networks/batches.lua",
    "../examples/networks/centerpoint.lua",
    "../examples/networks/completion.lua",
    "../examples/networks/largekernel3d.lua",
    "../examples/networks/minkunet18a.lua",
    "../examples/networks/minkunet34c.lua",
    "../examples/networks/minkunet_w20.lua",
    "../examples/networks/ptv3.lua",
    "../examples/networks/resn21.lua",
    "../examples/networks/resnl.lua",
    "../examples/networks/second.lua",
    "../examples/networks/spunet.lua",
    "../examples/networks/trellis2_shape.lua",
    "../examples/networks/trellis_mesh.lua",
    "../examples/networks/unet42.lua",
    "../examples/networks/unetv2.lua",
    "../examples/networks/voxelnext.lua",
};

static void check_text(const spc_net *net)
{
    spc__buf text = SPC__BUF_INIT, again = SPC__BUF_INIT;
    spc__net_array *arrays;
    spc_net *back;
    int64_t bytes;
    int count;

    write_text(&text, net, &bytes);
    assert_net(spc__net_read(&back, &arrays, &count, spc__buf_text(&text),
                             bytes, &error));
    compare_nets(net, back);
    write_text(&again, back, &bytes);
    ck_assert_str_eq(spc__buf_text(&again), spc__buf_text(&text));
    spc_net_free(back);
    free(arrays);
    spc__buf_release(&text);
    spc__buf_release(&again);
}

START_TEST(every_network_reads_back_from_its_text)
{
    spc_net *net = load(examples[_i]);

    check_text(net);
    spc_net_free(net);
}
END_TEST

/* Loads a network of f16 and gives its tensors ranges that are not integers. */
static spc_net *load_quantised(const char *file, uint64_t seed, int *layers)
{
    spc_net *net;
    spc__random random;

    spc__random_init(&random, seed);
    assert_net(spc_net_load(&net, suite_path(file), SPC_F16, &error));
    float *ranges = malloc((size_t)net->tensor_count * sizeof(*ranges));
    for (int t = 0; t < net->tensor_count; t++)
        ranges[t] = 0.01f + 9 * (float)spc__random_unit(&random);
    assert_net(spc_net_quantise(layers, net, ranges, &error));
    free(ranges);
    return net;
}

START_TEST(every_network_reads_back_quantised)
{
    int layers;
    spc_net *net = load_quantised(examples[_i], 3 + (uint64_t)_i, &layers);

    check_text(net);
    spc_net_free(net);
}
END_TEST

/* Weights of layers that stay f16 are rounded when they are stored. */
static void round_halves(spc_net *net)
{
    for (int n = 0; n < net->node_count; n++) {
        const spc__net_node *node = &net->nodes[n];
        for (int64_t i = 0; node->conv.dtype == SPC_F16 && i < node->counts[0];
             i++)
            node->params[0][i] =
                spc__half_to_float(spc__half_from_float(node->params[0][i]));
    }
}

START_TEST(a_quantised_network_is_stored_and_opened)
{
    int layers, count;
    int64_t bytes;
    spc__buf text = SPC__BUF_INIT;
    spc__net_array *arrays;
    spc_net *back,
        *net = load_quantised("../examples/networks/resn21.lua", 7, &layers);

    ck_assert_int_ge(layers, 19); /* of 21: f16 input and output */
    assert_net(spc_net_init_params(net, 7, &error));
    round_halves(net);
    assert_ok(spc_net_store(ctx, net, "small", NULL, false));
    assert_ok(spc_net_open(&back, ctx, "small"));
    compare_nets(net, back);
    compare_weights(net, back);
    float *ranges = calloc((size_t)net->tensor_count, sizeof(*ranges));
    ck_assert_int_eq(spc_net_quantise(NULL, back, ranges, &error), SPC_ESTATE);
    assert_says(error.text, "quantised already");
    free(ranges);
    spc_net_free(back);
    write_text(&text, net, &bytes); /* range of a tensor that is an output */
    char *wrong = malloc(text.length + 40), *at_arrays;
    at_arrays = strstr(spc__buf_text(&text), "array\t");
    sprintf(wrong, "%.*swhole\t%d\t0.5\n%s",
            (int)(at_arrays - spc__buf_text(&text)), spc__buf_text(&text),
            net->outs[0].tensor, at_arrays);
    ck_assert_int_eq(
        spc__net_read(&back, &arrays, &count, wrong, bytes, &error),
        SPC_EFORMAT);
    assert_says(error.text, "cannot be of whole numbers");
    free(wrong);
    spc__buf_release(&text);
    spc_net_free(net);
}
END_TEST

/* Tests lists of offsets, given sets and unusual names. */
static spc_net *make_odd(void)
{
    spc_net_input input = SPC_NET_INPUT_INIT;
    spc_net_layer layer = SPC_NET_LAYER_INIT;
    int16_t list[] = {-3, 0, 0, 0, 4, 0, 0, 0, 11};
    spc_tensor x, a, b;
    spc_net *net;

    assert_net(spc_net_create(&net, "odd\tname\n100%", &error));
    input.channels = 4;
    input.axes = "zyx";
    input.voxel[0] = input.voxel[1] = input.voxel[2] = 0.1;
    input.high[0] = input.high[1] = input.high[2] = 1.0 / 3;
    assert_net(spc_net_add_input(&x, net, &input, &error));
    layer.in = x;
    layer.conv.cin = layer.conv.cout = 4;
    layer.conv.geometry.offset_count = 3;
    layer.conv.geometry.offsets = list;
    layer.name = "a\x01%b\xc3\xa9 \x7f";
    layer.norm = "\tnorm";
    layer.eps = 1.0 / 7;
    assert_net(spc_net_add_conv(&a, net, &layer, &error));
    memset(list, 0, sizeof(list)); /* the network has a copy */
    layer = (spc_net_layer)SPC_NET_LAYER_INIT;
    assert_net(spc_conv_parse(&layer.conv,
                              "conv,cin=4,cout=8,k=2,stride=2,rule=floor,"
                              "epilogue=bias+leaky,slope=0.3,groups=2",
                              &error));
    layer.in = a;
    assert_net(spc_net_add_conv(&b, net, &layer, &error));
    assert_net(spc_conv_parse(&layer.conv, "conv,cin=8,cout=4,k=3,rule=given",
                              &error));
    layer.in = b;
    layer.at = x;
    assert_net(spc_net_add_conv(&b, net, &layer, &error));
    layer = (spc_net_layer)SPC_NET_LAYER_INIT;
    assert_net(spc_conv_parse(&layer.conv,
                              "conv,cin=4,cout=4,offsets=0x0x0+1x2x0,"
                              "rule=footprint,shape=40x40x1,accumulator=f16",
                              &error));
    layer.in = b;
    assert_net(spc_net_add_conv(&b, net, &layer, &error));
    assert_net(spc_net_add_output(net, b, "", &error));
    return net;
}

START_TEST(what_networks_seldom_have_reads_back_too)
{
    spc_net *net = make_odd();

    check_text(net);
    spc_net_free(net);
}
END_TEST

/* Stores a set that does not follow from its layer's text. */
START_TEST(what_a_text_cannot_say_is_not_stored)
{
    spc_net *net = load_every(1);

    for (int i = 0; i < net->set_count; i++)
        if (net->sets[i].kind == SPC__NET_OUTPUTS)
            net->sets[i].rule.stride[2]++;
    ck_assert_int_eq(spc_net_store(ctx, net, "n", NULL, false),
                     SPC_EUNSUPPORTED);
    assert_says(spc_ctx_error(ctx), "layer 'c' is of a kind that cannot be "
                                    "stored");
    spc_net_free(net);
}
END_TEST

static const struct {
    const char *find, *put, *says;
} wrongs[] = {
    {"spctune network 1", "spctune networks 1", "not the text of a network"},
    {"conv\ta\t0", "conv\ta\t9", "line 4: layer 'a': its `in` is tensor 9"},
    {"conv\ta\t0", "conv\ta\t0x", "line 4: '0x' is not an integer"},
    {"conv\ta\t0", "konv\ta\t0", "line 4: unknown word 'konv'"},
    {"conv\ta\t0", "conv\ta%0", "line 4: 7 fields, expected 8"},
    {"cin=8", "cin=9", "it takes 9 channels"},
    {"conv\tb\t", "conv\ta\t", "another layer of this name"},
    {"24x24x16", "24x24", "is not three integers"},
    {"0.5,0.5,0.5", "0.5,0.5,", "is not a grid"},
    {"output\tmean\t20", "output\tmean\t99", "tensor 99"},
    {"array\t0\tweights\tf32\t1728", "array\t0\tweights\tf32\t1727",
     "the network has no such array"},
    {"array\t0\tscale\tf32\t8\n", "", "11 of its 12 arrays"},
    {"array\t0\tscale\tf32", "array\t0\tscale\tf16", "bytes, and"},
    {"array\t0\tscale", "array\t0\tweights", "no such array"},
    {"regroup\t1x1x0", "regroup\t1x1x-9", "scale -9"},
    {"array\t0\tw", "whole\t99\t1\narray\t0\tw", "a tensor and its scale"},
    {"array\t0\tw", "whole\t1\t-1\narray\t0\tw", "a tensor and its scale"},
    {"conv\ta\t0", "whole\t0\t1\nconv\ta\t0",
     "line 5: nodes follow the scales of tensors"},
    {"concat\t8\t5", "concat\t8\t5\t5\t5\t5\t5\t5\t5\t5", "fields"},
    {"\nconv\ta\t0", "\txyz\nconv\ta\t0", "line 3: 'xyz' is not a word"},
    {"\nconv\ta\t0", "\tzyx\tzyx\nconv\ta\t0", "line 3: 'zyx' is not a word"},
    {"\nconv\ta\t0", "\tzyx\tcloud\nconv\ta\t0", "'cloud' is not a word"},
};

/* Replaces the only occurrence of `find` in `text`. */
static char *exchange(const char *text, const char *find, const char *put)
{
    const char *where = strstr(text, find);
    char *out = malloc(strlen(text) + strlen(put) + 1);

    ck_assert_msg(where != NULL, "there is no '%s'", find);
    sprintf(out, "%.*s%s%s", (int)(where - text), text, put,
            where + strlen(find));
    return out;
}

static spc_status read_text(const char *text, int64_t bytes)
{
    spc__net_array *arrays;
    spc_net *net;
    int count;

    error.text[0] = '\0';
    spc_status status =
        spc__net_read(&net, &arrays, &count, text, bytes, &error);
    ck_assert((status == SPC_OK) == (net != NULL));
    spc_net_free(net);
    free(arrays);
    return status;
}

START_TEST(a_mistake_in_a_text_is_named_with_its_line)
{
    spc__buf text = SPC__BUF_INIT;
    spc_net *net = load("networks/every.lua");
    int64_t bytes;

    write_text(&text, net, &bytes);
    char *wrong =
        exchange(spc__buf_text(&text), wrongs[_i].find, wrongs[_i].put);
    ck_assert_int_eq(read_text(wrong, bytes), SPC_EFORMAT);
    assert_says(error.text, wrongs[_i].says);
    free(wrong);
    wrong = exchange(spc__buf_text(&text), "network 1", "network 3");
    ck_assert_int_eq(read_text(wrong, bytes), SPC_EDBVERSION);
    assert_says(error.text, "this spctune knows forms 1 and 2");
    free(wrong);
    spc__buf_release(&text);
    spc_net_free(net);
}
END_TEST

/* Any result must be a network or an error with a message. */
START_TEST(a_text_that_was_changed_at_random_is_read_or_refused)
{
    enum { ROUNDS = 400 };
    uint64_t seed = (uint64_t)suite_variant();
    spc__buf text = SPC__BUF_INIT;
    spc_net *net = load("networks/every.lua");
    spc__random random;
    int64_t bytes;
    int refused = 0;

    printf("texts of seed %llu\n", (unsigned long long)seed);
    spc__random_init(&random, seed);
    write_text(&text, net, &bytes);
    char *copy = malloc(2 * text.length + 1);
    for (int i = 0; i < ROUNDS; i++) {
        memcpy(copy, text.data, text.length);
        size_t length = mutate(copy, text.length, 2 * text.length, &random);
        copy[length] = '\0';
        if (read_text(copy, bytes) != SPC_OK) {
            refused++;
            ck_assert_uint_gt(strlen(error.text), 10);
        }
    }
    ck_assert_int_gt(refused, ROUNDS / 2);
    free(copy);
    spc__buf_release(&text);
    spc_net_free(net);
}
END_TEST

/* ---- stored and opened --------------------------------------------------- */

START_TEST(what_is_stored_is_opened_with_the_same_bits)
{
    spc_net *net = load_every(5), *back;
    float halves[8] = {1, -2, 0.5, 65504, 0x1p-24f, 0, 3, 1};

    assert_net(
        spc_net_set_param(net, "a", SPC_OPERAND_SCALE, halves, 8, &error));
    assert_ok(spc_net_store(ctx, net, "every", "a file", false));
    assert_ok(spc_net_open(&back, ctx, "every"));
    compare_nets(net, back);
    compare_weights(net, back);
    /* Arrays that are exact in f16 are stored as f16. */
    ck_assert_int_eq(number_in("user.db", "SELECT graph LIKE '%scale_f16_8%'"
                                          " FROM network"),
                     1);
    ck_assert_int_eq(
        number_in("user.db", "SELECT sum(length(bytes)) FROM network_part"),
        number_in("user.db", "SELECT bytes FROM network"));
    spc_net_free(back);
    spc_net_free(net);
}
END_TEST

/* Both heads have weights, and the file stores them once. */
START_TEST(what_layers_share_is_stored_once)
{
    spc_net *net = load("networks/shared.lua"), *back;
    spc_net_param p;
    float bias[3] = {1, 2, 3};
    spc_net_info info;

    spc_net_describe(&info, net);
    ck_assert_int_eq(info.params, 9); /* parts: 1 + 1 + 3 + 2 + 2 */
    assert_net(spc_net_init_params(net, 5, &error));
    ck_assert_int_eq(net->node_count, 8);
    for (int n = 2; n < 5; n++) {
        ck_assert_str_eq(net->nodes[n].name, net->nodes[n + 3].name);
        for (int j = 0; j < SPC__NET_PARAMS; j++)
            if (net->nodes[n].counts[j] > 0)
                ck_assert_mem_eq(net->nodes[n].params[j],
                                 net->nodes[n + 3].params[j],
                                 (size_t)net->nodes[n].counts[j] * 4);
    }
    assert_net(
        spc_net_set_param(net, "head.2", SPC_OPERAND_BIAS, bias, 3, &error));
    ck_assert(net->nodes[7].params[2][1] == 2);
    for (int i = 0; spc_net_param_at(&p, net, i) == SPC_OK; i++)
        ck_assert(p.layer != net->nodes[5].name);
    assert_ok(spc_net_store(ctx, net, "shared", NULL, false));
    assert_ok(spc_net_open(&back, ctx, "shared"));
    compare_nets(net, back);
    compare_weights(net, back);
    assert_says(
        spc_net_note_at(back, 0),
        "layers 3 and 6 are both called 'head.0' and share its weights");
    spc_net_free(back);
    spc_net_free(net);
}
END_TEST

START_TEST(what_is_no_number_is_said_of_a_stored_network_too)
{
    spc_net *net, *back;

    assert_net(
        spc_net_load(&net, suite_path("networks/chain.lua"), SPC_F16, &error));
    assert_net(spc_net_init_params(net, 4, &error));
    net->nodes[0].params[0][9] = NAN;
    assert_ok(spc_net_store(ctx, net, "n", NULL, false));
    assert_ok(spc_net_open(&back, ctx, "n"));
    assert_says(spc_net_note_at(back, 0), "layer 'a': 1 of its 1728 numbers");
    ck_assert_ptr_null(spc_net_note_at(back, 1));
    spc_net_free(back);
    spc_net_free(net);
}
END_TEST

/* Weights of an f16 layer are stored exactly as they are packed. */
START_TEST(weights_are_stored_as_their_layer_multiplies_them)
{
    static const spc_dtype types[] = {SPC_F16, SPC_BF16};
    const spc__dtype *type = spc__dtype_of(types[_i]);
    spc_net *net, *back;

    assert_net(spc_net_load(&net, suite_path("networks/chain.lua"), types[_i],
                            &error));
    assert_net(spc_net_init_params(net, 4, &error));
    assert_ok(spc_net_store(ctx, net, "n", NULL, false));
    assert_ok(spc_net_open(&back, ctx, "n"));
    for (int n = 0; n < net->node_count; n++) {
        for (int64_t i = 0; i < net->nodes[n].counts[0]; i++) {
            uint16_t want, got;
            type->encode(&want, net->nodes[n].params[0] + i, 1);
            type->encode(&got, back->nodes[n].params[0] + i, 1);
            ck_assert_uint_eq(want, got);
        }
        for (int j = 1; j < SPC__NET_PARAMS; j++)
            if (net->nodes[n].counts[j] > 0)
                ck_assert_mem_eq(net->nodes[n].params[j],
                                 back->nodes[n].params[j],
                                 (size_t)net->nodes[n].counts[j] * 4);
    }
    ck_assert_int_eq(number_in("user.db", "SELECT bytes FROM network"),
                     2 * (1728 + 512 + 1728 + 512 + 3456) + 4 * 4 * 8);
    spc_net_free(back);
    spc_net_free(net);
}
END_TEST

/* The linear layer has large weights only because of its many channels. */
START_TEST(large_arrays_are_stored_in_parts)
{
    spc_net_input input = SPC_NET_INPUT_INIT;
    spc_net_layer layer = SPC_NET_LAYER_INIT;
    spc_net *net, *back;
    spc_tensor x;

    assert_net(spc_net_create(&net, "wide", &error));
    input.channels = 600;
    input.dtype = SPC_F32;
    assert_net(spc_net_add_input(&x, net, &input, &error));
    assert_net(spc_conv_parse(
        &layer.conv, "linear,cin=600,cout=1100,bias=1,dtype=f32", &error));
    layer.in = x;
    assert_net(spc_net_add_conv(&x, net, &layer, &error));
    assert_net(spc_net_add_output(net, x, "y", &error));
    assert_net(spc_net_init_params(net, 1, &error));
    assert_ok(spc_net_store(ctx, net, "wide", NULL, false));
    ck_assert_int_eq(number_in("user.db", "SELECT parts FROM network"), 4);
    ck_assert_int_le(
        number_in("user.db", "SELECT max(length(bytes)) FROM network_part"),
        1 << 20);
    assert_ok(spc_net_open(&back, ctx, "wide"));
    compare_weights(net, back);
    spc_net_free(back);
    spc_net_free(net);
}
END_TEST

static spc_status count_row(const spc_net_row *row, void *payload)
{
    int *counts = payload;

    counts[0]++;
    counts[1] += row->fault != NULL;
    return SPC_OK;
}

static void assert_listed(int all, int faults)
{
    int counts[2] = {0};

    assert_ok(spc_net_each(ctx, count_row, counts));
    ck_assert_int_eq(counts[0], all);
    ck_assert_int_eq(counts[1], faults);
}

START_TEST(names_are_taken_replaced_and_removed)
{
    spc_net *one = load_every(1), *two = load_every(2), *back;

    ck_assert_int_eq(spc_net_open(&back, ctx, "n"), SPC_ENOTFOUND);
    assert_ok(spc_net_store(ctx, one, "n", "one", false));
    ck_assert_int_eq(spc_net_store(ctx, two, "n", "two", false), SPC_ESTATE);
    assert_says(spc_ctx_error(ctx), "already has a network 'n'");
    assert_ok(spc_net_open(&back, ctx, "n"));
    compare_weights(one, back);
    spc_net_free(back);
    assert_ok(spc_net_store(ctx, two, "n", "two", true));
    assert_ok(spc_net_open(&back, ctx, "n"));
    compare_weights(two, back);
    spc_net_free(back);
    assert_listed(1, 0);
    assert_ok(spc_net_remove(ctx, "n"));
    ck_assert_int_eq(spc_net_remove(ctx, "n"), SPC_ENOTFOUND);
    assert_listed(0, 0);
    ck_assert_int_eq(number_in("user.db", "SELECT (SELECT count(*) FROM seal) +"
                                          " (SELECT count(*) FROM "
                                          "network_part)"),
                     0);
    spc_net_free(one);
    spc_net_free(two);
}
END_TEST

START_TEST(what_cannot_be_stored_is_refused)
{
    static const char *const names[] = {"",
                                        "a b",
                                        "a/b",
                                        "-a",
                                        "a\n",
                                        ("0123456789012345678901234567890123456"
                                         "789012345678901234567890123456789")};
    spc_net *net = load("networks/chain.lua"), *back;

    ck_assert_int_eq(spc_net_store(ctx, net, "n", NULL, false), SPC_ESTATE);
    assert_says(spc_ctx_error(ctx), "layer 'a' has no weights yet");
    assert_net(spc_net_init_params(net, 1, &error));
    for (int i = 0; i < LENGTH(names); i++) {
        ck_assert_int_eq(spc_net_store(ctx, net, names[i], NULL, false),
                         SPC_EINVAL);
        assert_says(spc_ctx_error(ctx), "is not a valid name of a network");
    }
    ck_assert_int_eq(spc_net_store(ctx, NULL, "n", NULL, false), SPC_EINVAL);
    ck_assert_int_eq(spc_net_open(&back, ctx, NULL), SPC_EINVAL);
    spc_net_free(net);
}
END_TEST

/* ---- damage -------------------------------------------------------------- */

static spc_status count_fault(const spc_db_fault *fault, void *payload)
{
    ck_assert_uint_gt(strlen(fault->reason), 10);
    ++*(int *)payload;
    return SPC_OK;
}

static const char *const damages[] = {
    "UPDATE network SET name = 'm' WHERE name = 'n';"
    "UPDATE network SET name = 'n' WHERE name = 'other'",
    "UPDATE network SET graph = replace(graph, 'relu', 'silu')",
    "UPDATE network SET weights = replace(weights, '0', '1')",
    "UPDATE network SET bytes = bytes + 4",
    "UPDATE network SET parts = parts - 1",
    "UPDATE network SET source = 'another'",
    "UPDATE network SET version = '9'",
    "UPDATE network SET unix_seconds = unix_seconds + 1",
    "UPDATE network_part SET bytes = zeroblob(length(bytes)) WHERE part = 3",
    "UPDATE network_part SET bytes = bytes || x'00' WHERE part = 10",
    "UPDATE network_part SET part = part + 100 WHERE part = 10",
    "UPDATE network_part SET part = -1 WHERE part = 0;"
    "UPDATE network_part SET part = 0 WHERE part = 3;"
    "UPDATE network_part SET part = 3 WHERE part = -1",
    "DELETE FROM network_part WHERE part = 5",
    "DELETE FROM network_part WHERE part = 10",
    "DELETE FROM network_part",
    "UPDATE network_part SET part = part + 100 WHERE network = 1;"
    "UPDATE network_part SET network = 1 WHERE network = 2;"
    "UPDATE network_part SET network = 2, part = part - 100 WHERE part >= 100",
    "DELETE FROM seal WHERE kind = 'network'",
    "DELETE FROM seal WHERE kind = 'part'",
    "UPDATE seal SET digest = replace(digest, 'a', 'b') WHERE kind = 'part'",
};

/* A second network with the same layers has parts of its own. */
static void store_two(void)
{
    spc_net *one = load_every(1), *two = load_every(2);

    assert_ok(spc_net_store(ctx, one, "n", "f", false));
    assert_ok(spc_net_store(ctx, two, "other", "f", false));
    spc_net_free(one);
    spc_net_free(two);
}

START_TEST(a_file_that_is_no_database_is_the_reason)
{
    spc_ctx_options options = SPC_CTX_OPTIONS_INIT;
    spc_ctx *other;
    spc_net *back;

    assert_net(spc__file_write(at("notes.db"), "no database", 11, &error));
    options.device = "cpu";
    options.database = at("notes.db");
    assert_net(spc_ctx_create(&other, &options, &error));
    ck_assert_int_eq(spc_net_open(&back, other, "n"), SPC_ENOTFOUND);
    assert_says(spc_ctx_error(other), "no database is open: ");
    assert_says(spc_ctx_error(other), "notes.db");
    spc_ctx_free(other);

    ck_assert_int_eq(spc_net_open(&back, ctx, "n"), SPC_ENOTFOUND);
    assert_says(spc_ctx_error(ctx), "user.db' has no network 'n'");
}
END_TEST

START_TEST(a_changed_record_is_set_aside_with_a_sentence)
{
    spc_net *back, *net = load_every(1);
    int faults = 0;

    store_two();
    sql("user.db", damages[_i]);
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(spc_net_open(&back, ctx, "n"), SPC_EDB);
        ck_assert_ptr_null(back);
        assert_says(spc_ctx_error(ctx), "cannot use the network 'n' of");
        assert_says(spc_ctx_error(ctx), "add it again");
    }
    ck_assert_int_eq(number_in("user.db", "SELECT count(*) FROM quarantine"),
                     1);
    assert_ok(spc_db_verify(NULL, ctx, count_fault, &faults));
    ck_assert_int_gt(faults, 0);
    /* Storing the network again repairs it. */
    assert_ok(spc_net_store(ctx, net, "n", "f", true));
    assert_ok(spc_net_open(&back, ctx, "n"));
    compare_weights(net, back);
    spc_net_free(back);
    spc_net_free(net);
}
END_TEST

static void flip_bit(int64_t part, int byte, int bit)
{
    sqlite3 *db;
    sqlite3_blob *blob;
    unsigned char one;

    ck_assert_int_eq(sqlite3_open(at("user.db"), &db), SQLITE_OK);
    ck_assert_int_eq(
        sqlite3_blob_open(db, "main", "network_part", "bytes", part, 1, &blob),
        SQLITE_OK);
    byte %= sqlite3_blob_bytes(blob);
    ck_assert_int_eq(sqlite3_blob_read(blob, &one, 1, byte), SQLITE_OK);
    one ^= (unsigned char)(1 << bit);
    ck_assert_int_eq(sqlite3_blob_write(blob, &one, 1, byte), SQLITE_OK);
    sqlite3_blob_close(blob);
    sqlite3_close(db);
}

START_TEST(a_flipped_bit_is_never_a_weight)
{
    spc__random random;
    spc_net *back;

    spc__random_init(&random, (uint64_t)_i);
    store_two();
    /* The first network has parts 1 to 11. */
    flip_bit(1 + (int)spc__random_below(&random, 11),
             (int)spc__random_below(&random, 1 << 20),
             (int)spc__random_below(&random, 8));
    ck_assert_int_eq(spc_net_open(&back, ctx, "n"), SPC_EDB);
    assert_ok(spc_net_open(&back, ctx, "other"));
    spc_net_free(back);
}
END_TEST

START_TEST(a_layer_below_serves_what_is_damaged_above)
{
    spc_net *below = load_every(7), *back;

    assert_ok(spc_net_store(ctx, below, "n", "f", false));
    spc_ctx_free(ctx);
    ck_assert_int_eq(rename(at("user.db"), at("shipped.db")), 0);
    open_layered(at("shipped.db"));
    assert_ok(spc_net_open(&back, ctx, "n"));
    spc_net_free(back);
    store_two();
    assert_listed(3, 0);
    sql("user.db", damages[8]);
    assert_ok(spc_net_open(&back, ctx, "n"));
    compare_weights(below, back);
    spc_net_free(back);
    assert_listed(3, 1);
    spc_net_free(below);
}
END_TEST

/* ---- from file to file --------------------------------------------------- */

static void merge_from(const char *name, spc__fate want)
{
    spc__exchange exchange = {.trusts = true};

    assert_net(spc__cache_merge(ctx->cache, at(name), &exchange, &error));
    for (int fate = 0; fate <= SPC__FATE_REJECTED; fate++)
        ck_assert_int_eq(exchange.counts[fate], fate == (int)want);
}

static void seal_everything(void)
{
    for (int i = 0; spc__seal_everything[i] != NULL; i++)
        ck_assert_int_eq(sqlite3_exec(ctx->cache->layers[0].db,
                                      spc__seal_everything[i], NULL, NULL,
                                      NULL),
                         SQLITE_OK);
}

/* Makes a separate file with a network stored at this time. */
static void make_other(const char *name, uint64_t seed, int64_t when)
{
    spc_net *net = load_every(seed);
    char text[200];

    assert_ok(spc_net_store(ctx, net, "n", "f", true));
    spc_ctx_free(ctx);
    snprintf(text, sizeof(text),
             "UPDATE network SET unix_seconds = %lld; DELETE FROM seal",
             (long long)when);
    sql("user.db", text);
    open_layered(NULL);
    seal_everything();
    spc_ctx_free(ctx);
    ck_assert_int_eq(rename(at("user.db"), at(name)), 0);
    open_layered(NULL);
    spc_net_free(net);
}

static void assert_seed(uint64_t seed)
{
    spc_net *want = load_every(seed), *back;

    assert_ok(spc_net_open(&back, ctx, "n"));
    compare_weights(want, back);
    spc_net_free(back);
    spc_net_free(want);
}

START_TEST(the_newer_network_stays_in_whatever_order_files_are_merged)
{
    int faults = 0;

    make_other("old.db", 1, 1000);
    make_other("new.db", 2, 2000);
    merge_from(_i ? "new.db" : "old.db", SPC__FATE_ACCEPTED);
    merge_from(_i ? "old.db" : "new.db",
               _i ? SPC__FATE_OLDER : SPC__FATE_ACCEPTED);
    merge_from("new.db", SPC__FATE_KNOWN);
    assert_seed(2);
    assert_ok(spc_db_verify(NULL, ctx, count_fault, &faults));
    ck_assert_int_eq(faults, 0);
}
END_TEST

START_TEST(a_damaged_network_is_not_merged)
{
    make_other("bad.db", 1, 1000);
    sql("bad.db", damages[8]);
    merge_from("bad.db", SPC__FATE_REJECTED);
    assert_listed(0, 0);
}
END_TEST

/* ---- as text ------------------------------------------------------------- */

static spc_status append(const char *text, size_t bytes, void *payload)
{
    spc__buf_append(payload, text, bytes);
    return SPC_OK;
}

/* Exports the network of this seed as text, from a new database. */
static char *text_of(uint64_t seed, int64_t when, size_t *length)
{
    char name[20];
    spc__buf text = SPC__BUF_INIT;
    int64_t damaged = -1;

    snprintf(name, sizeof(name), "%lld.db", (long long)when);
    make_other(name, seed, when);
    spc_ctx_free(ctx);
    ck_assert_int_eq(rename(at("user.db"), at("empty.db")), 0);
    ck_assert_int_eq(rename(at(name), at("user.db")), 0);
    open_layered(NULL);
    assert_net(
        spc__cache_export(ctx->cache, false, append, &text, &damaged, &error));
    ck_assert_ptr_null(strstr(spc__buf_text(&text), "network")); /* no bytes */
    spc__buf_clear(&text);
    assert_net(
        spc__cache_export(ctx->cache, true, append, &text, &damaged, &error));
    ck_assert_int_eq(damaged, 0);
    spc_ctx_free(ctx);
    ck_assert_int_eq(rename(at("empty.db"), at("user.db")), 0);
    open_layered(NULL);
    *length = text.length;
    return text.data;
}

static void import_text(const char *text, size_t length, spc__fate want)
{
    spc__exchange exchange = {.trusts = true};

    assert_net(spc__cache_import(ctx->cache, text, length, &exchange, &error));
    for (int fate = 0; fate <= SPC__FATE_REJECTED; fate++)
        ck_assert_int_eq(exchange.counts[fate], fate == (int)want);
}

static char refusal[200];

static spc_status note_refusal(spc__fate fate, const char *record,
                               const char *reason, int64_t line, void *payload)
{
    (void)line, (void)payload;
    snprintf(refusal, sizeof(refusal), "%d %s: %s", (int)fate, record, reason);
    return SPC_OK;
}

/* The sender of a file can set any date. _i selects a merge or an import of
 * text. */
START_TEST(a_file_that_is_not_trusted_replaces_no_network)
{
    spc__exchange exchange = {.each = note_refusal};
    size_t length;
    char *text = text_of(2, 2000, &length);

    make_other("old.db", 1, 1000);
    make_other("new.db", 2, 2000);
    merge_from("old.db", SPC__FATE_ACCEPTED);
    assert_net(
        _i ? spc__cache_import(ctx->cache, text, length, &exchange, &error)
           : spc__cache_merge(ctx->cache, at("new.db"), &exchange, &error));
    ck_assert_int_eq(exchange.counts[SPC__FATE_REJECTED], 1);
    ck_assert_str_eq(refusal, "4 network n: there is another network of this "
                              "name here, which stays, as the file is not "
                              "trusted");
    assert_seed(1);
    free(text);
}
END_TEST

START_TEST(networks_go_as_text_too)
{
    size_t lengths[2];
    int faults = 0;
    char *old = text_of(1, 1000, &lengths[0]);
    char *new = text_of(2, 2000, &lengths[1]);

    assert_listed(0, 0);
    import_text(old, lengths[0], SPC__FATE_ACCEPTED);
    assert_seed(1);
    import_text(new, lengths[1], SPC__FATE_ACCEPTED);
    import_text(new, lengths[1], SPC__FATE_KNOWN);
    import_text(old, lengths[0], SPC__FATE_OLDER);
    assert_seed(2);
    assert_ok(spc_db_verify(NULL, ctx, count_fault, &faults));
    ck_assert_int_eq(faults, 0);
    free(old);
    free(new);
}
END_TEST

/* Changes any byte. The result must be the network, a valid one with other
 * words, or an error, but never other weights. */
START_TEST(a_changed_text_is_never_a_weight)
{
    enum { ROUNDS = 60 };
    uint64_t seed = (uint64_t)suite_variant();
    spc__random random;
    size_t length;
    char *text = text_of(1, 1000, &length);
    const char *lines = strstr(text, "\nnetwork ") + 1;
    uint32_t first = (uint32_t)(lines - text);
    spc_net *back;

    printf("texts of seed %llu\n", (unsigned long long)seed);
    spc__random_init(&random, seed);
    for (int i = 0; i < ROUNDS; i++) {
        spc__exchange exchange = {0};
        uint32_t at =
            first + spc__random_below(&random, (uint32_t)length - first);
        char before = text[at];
        text[at] = (char)(32 + spc__random_below(&random, 95));
        assert_net(
            spc__cache_import(ctx->cache, text, length, &exchange, &error));
        text[at] = before;
        if (spc_net_open(&back, ctx, "n") != SPC_OK)
            continue;
        spc_net_free(back);
        assert_seed(1);
        assert_ok(spc_net_remove(ctx, "n"));
    }
    free(text);
}
END_TEST

/* A pack contains the network, and a manifest that lists all its parts. */
START_TEST(a_pack_has_its_networks)
{
    spc__pack_report report;
    spc__buf manifest = SPC__BUF_INIT;
    spc_net *net = load_every(3), *other = load_every(4);

    assert_ok(spc_net_store(ctx, net, "n", "f", false));
    assert_net(spc__cache_pack(ctx->cache, at("pack.db"), SPC__PACK_APART, NULL,
                               &report, &error));
    assert_ok(spc_net_store(ctx, other, "n", "f", true));
    assert_ok(spc_net_remove(ctx, "n"));
    spc_ctx_free(ctx);
    open_layered(at("pack.db"));
    assert_seed(3);
    assert_net(spc__file_read(&manifest, at("pack.manifest"), 1 << 20, &error));
    assert_says(spc__buf_text(&manifest), "pack.db network n\n");
    for (int i = 0; i < 11; i++) {
        char line[40];
        snprintf(line, sizeof(line), "pack.db part n %d\n", i);
        assert_says(spc__buf_text(&manifest), line);
    }
    spc__buf_release(&manifest);
    spc_net_free(net);
    spc_net_free(other);
}
END_TEST

/* Anyone can seal a network of any name, and a pack of it may be signed. */
START_TEST(a_name_adds_no_line_to_a_manifest)
{
    spc__pack_report report;
    spc__buf manifest = SPC__BUF_INIT;
    spc_net *net = load_every(3);

    assert_ok(spc_net_store(ctx, net, "n", "f", false));
    spc_ctx_free(ctx);
    sql("user.db", "UPDATE network SET name = 'n' || char(10) || 'forged'");
    open_layered(NULL);
    seal_everything();
    assert_net(spc__cache_pack(ctx->cache, at("pack.db"), SPC__PACK_APART, NULL,
                               &report, &error));
    assert_net(spc__file_read(&manifest, at("pack.manifest"), 1 << 20, &error));
    assert_says(spc__buf_text(&manifest), "pack.db network n forged\n");
    assert_says(spc__buf_text(&manifest), "pack.db part n forged 10\n");
    ck_assert(strstr(spc__buf_text(&manifest), "\nforged") == NULL);
    spc__buf_release(&manifest);
    spc_net_free(net);
}
END_TEST

START_TEST(every_allocation_may_fail)
{
    spc_net *net = load_every(1), *back;
    int nth = 1;
    spc_status status = SPC_ENOMEM;

    /* A thread's first failure allocates memory for the message, so it fails
     * once before the test. */
    ck_assert_int_eq(spc_net_open(&back, ctx, "n"), SPC_ENOTFOUND);
    for (; status == SPC_ENOMEM; nth++) {
        fail_allocation(nth);
        status = spc_net_store(ctx, net, "n", "f", true);
        fail_allocation(0);
    }
    assert_ok(status);
    ck_assert_int_gt(nth, 5);
    status = SPC_ENOMEM;
    for (nth = 1; status == SPC_ENOMEM; nth++) {
        fail_allocation(nth);
        status = spc_net_open(&back, ctx, "n");
        fail_allocation(0);
    }
    assert_ok(status);
    ck_assert_int_gt(nth, 50);
    compare_weights(net, back);
    ck_assert_int_eq(number_in("user.db", "SELECT count(*) FROM quarantine"),
                     0);
    spc_net_free(back);
    spc_net_free(net);
}
END_TEST

static TCase *add(Suite *suite, const char *name)
{
    TCase *tc = tcase_create(name);

    tcase_set_timeout(tc, 60);
    suite_add_tcase(suite, tc);
    return tc;
}

int main(void)
{
    Suite *suite = suite_create("net_store");
    TCase *tc = add(suite, "text");

    tcase_add_loop_test(tc, every_network_reads_back_from_its_text, 0,
                        LENGTH(examples));
    tcase_add_loop_test(tc, every_network_reads_back_quantised, OF_CLOUDS,
                        LENGTH(examples));
    tcase_add_test(tc, what_networks_seldom_have_reads_back_too);
    tcase_add_loop_test(tc, a_mistake_in_a_text_is_named_with_its_line, 0,
                        LENGTH(wrongs));
    tcase_add_test(tc, a_text_that_was_changed_at_random_is_read_or_refused);
    tc = add(suite, "database");
    tcase_add_test(tc, a_quantised_network_is_stored_and_opened);
    tcase_add_checked_fixture(tc, open_database, close_database);
    tcase_add_test(tc, what_is_stored_is_opened_with_the_same_bits);
    tcase_add_test(tc, what_layers_share_is_stored_once);
    tcase_add_test(tc, what_is_no_number_is_said_of_a_stored_network_too);
    tcase_add_loop_test(tc, weights_are_stored_as_their_layer_multiplies_them,
                        0, 2);
    tcase_add_test(tc, large_arrays_are_stored_in_parts);
    tcase_add_test(tc, names_are_taken_replaced_and_removed);
    tcase_add_test(tc, what_cannot_be_stored_is_refused);
    tcase_add_test(tc, what_a_text_cannot_say_is_not_stored);
    tcase_add_loop_test(tc, a_changed_record_is_set_aside_with_a_sentence, 0,
                        LENGTH(damages));
    tcase_add_loop_test(tc, a_flipped_bit_is_never_a_weight, 0, 3);
    tcase_add_test(tc, a_layer_below_serves_what_is_damaged_above);
    tcase_add_loop_test(
        tc, the_newer_network_stays_in_whatever_order_files_are_merged, 0, 2);
    tcase_add_test(tc, networks_go_as_text_too);
    tcase_add_test(tc, a_changed_text_is_never_a_weight);
    tcase_add_loop_test(tc, a_file_that_is_not_trusted_replaces_no_network, 0,
                        2);
    tcase_add_test(tc, a_damaged_network_is_not_merged);
    tcase_add_test(tc, a_file_that_is_no_database_is_the_reason);
    tcase_add_test(tc, a_pack_has_its_networks);
    tcase_add_test(tc, a_name_adds_no_line_to_a_manifest);
    tcase_add_test(tc, every_allocation_may_fail);
    return run_suite(suite);
}
