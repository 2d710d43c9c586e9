/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_net.c - networks: what layers share, what is refused, results, and the
 * driver calls of a run.
 *
 * Without an argument it runs on "cpu" and "sim", small, and on the fake driver
 * (ctest sets LD_LIBRARY_PATH for it). `test_net scenes` runs on recorded
 * scans; with a device as argument it runs there.
 */
#include "harness/net_harness.h"

#include <limits.h>
#include <math.h>

/* ---- building networks --------------------------------------------------- */

/* Every inverse map is counted. Layers of size 1 have no map. */
static const struct {
    const char *file;
    int layers, sets, maps, outputs;
} known[] = {
    {"resn21.lua", 21, 5, 8, 1},         {"resnl.lua", 20, 4, 7, 1},
    {"unet42.lua", 49, 5, 13, 1},        {"minkunet_w20.lua", 49, 5, 13, 1},
    {"minkunet18a.lua", 49, 5, 14, 1},   {"minkunet34c.lua", 63, 5, 14, 1},
    {"spunet.lua", 60, 5, 14, 1},        {"second.lua", 12, 5, 8, 1},
    {"centerpoint.lua", 21, 5, 8, 1},    {"unetv2.lua", 28, 5, 11, 2},
    {"voxelnext.lua", 104, 10, 13, 36},  {"largekernel3d.lua", 25, 5, 10, 1},
    {"ptv3.lua", 57, 5, 14, 1},          {"trellis_mesh.lua", 7, 3, 2, 1},
    {"completion.lua", 31, 25, 25, 7},   {"trellis2_shape.lua", 110, 5, 5, 1},
    {"pointresnet18.lua", 20, 4, 10, 1},
};

START_TEST(known_networks_share_what_they_can)
{
    for (int i = 0; i < LENGTH(known); i++) {
        spc_net_info info;
        spc_net *net;
        assert_net(
            spc_net_load(&net, network_path(known[i].file), SPC_F16, &error));
        spc_net_describe(&info, net);
        ck_assert_msg(
            info.layers == known[i].layers && info.sets == known[i].sets &&
                info.maps == known[i].maps && info.outputs == known[i].outputs,
            "%s: %d layers, %d sets, %d maps, %d outputs", known[i].file,
            info.layers, info.sets, info.maps, info.outputs);
        ck_assert_ptr_null(spc_net_note_at(net, 0));
        spc_net_free(net);
    }
}
END_TEST

/* eps is 1e-3 in all detectors and in Pointcept's networks. It is 1e-5 in the
 * others and in the first layers of VoxelNeXt's heads. */
static const struct {
    const char *file;
    double eps;
    const char *others[2]; /* prefix of layers with 1e-5; NULL: none */
} epsilons[] = {
    {"second.lua", 1e-3, {NULL}},
    {"centerpoint.lua", 1e-3, {NULL}},
    {"unetv2.lua", 1e-3, {NULL}},
    {"largekernel3d.lua", 1e-3, {NULL}},
    {"spunet.lua", 1e-3, {NULL}},
    {"voxelnext.lua", 1e-3, {"shared_conv", "heads_list"}},
    {"minkunet18a.lua", 1e-5, {NULL}},
    {"minkunet34c.lua", 1e-5, {NULL}},
    {"minkunet_w20.lua", 1e-5, {NULL}},
    {"resn21.lua", 1e-5, {NULL}},
    {"unet42.lua", 1e-5, {NULL}},
    {"completion.lua", 1e-5, {NULL}},
};

START_TEST(normalisations_have_the_epsilon_they_were_trained_with)
{
    for (int i = 0; i < LENGTH(epsilons); i++) {
        int norms = 0;
        spc_net *net;
        assert_net(spc_net_load(&net, network_path(epsilons[i].file), SPC_F16,
                                &error));
        for (int n = 0; n < net->node_count; n++) {
            const spc__net_node *node = &net->nodes[n];
            double wanted = epsilons[i].eps;
            for (int o = 0; o < 2 && node->norm != NULL; o++) {
                const char *begin = epsilons[i].others[o];
                if (begin != NULL &&
                    strncmp(node->norm, begin, strlen(begin)) == 0)
                    wanted = 1e-5;
            }
            norms += node->norm != NULL;
            ck_assert_msg(node->norm == NULL || node->eps == wanted,
                          "%s: '%s' has %g", epsilons[i].file, node->norm,
                          node->eps);
        }
        ck_assert_int_gt(norms, 0);
        spc_net_free(net);
    }
}
END_TEST

START_TEST(a_key_that_disagrees_is_reported)
{
    spc_net *net;
    const char *note;

    ck_assert_int_eq(load_text(&net,
                               "local x = input {channels = 4}\n"
                               "local y = conv(x, 'subm,cout=4,k=1x3x3', "
                               "{name = 'one', key = 'k'})\n"
                               "y = conv(y, 'subm,cout=4,k=3', "
                               "{name = 'two', key = 'k'})\n"
                               "output(y)\n",
                               SPC_F32),
                     SPC_OK);
    note = spc_net_note_at(net, 0);
    ck_assert_ptr_nonnull(note);
    ck_assert_str_eq(note, "layers 'one' and 'two' have the key 'k', but their "
                           "maps differ: the key is not followed");
    ck_assert_ptr_null(spc_net_note_at(net, 1));
    spc_net_free(net);
}
END_TEST

/* Texts that follow "local x = input {channels = 4, shape = {9, 8, 7}}". */
static const struct {
    const char *text, *says;
} refused[] = {
    {"conv(x, 'subm,cout=8,k=3')", "network without an output"},
    {"y = 1 + ]", "net.lua:2: unexpected symbol"},
    {"conv(x, 'subm,cout=8,kk=3')", "unknown word 'kk': did you mean 'k'?"},
    {"conv(x, 'subm,cin=5,cout=8,k=3')",
     "it takes 5 channels, the tensor has 4"},
    {"conv(x, 'subm,cout=8,k=3,dtype=f16')",
     "it takes f16, the tensor has f32"},
    {"conv(x, 'subm,cout=8,k=3', {nam = 'a'})", "unknown name 'nam'"},
    {"conv(7, 'subm,cout=8,k=3')",
     "net.lua:2: there is no tensor 7: the network has 1"},
    {"conv('a', 'subm,cout=8,k=3')", "argument 1 must be a tensor"},
    {"conv(x, 'subm,cout=4,k=3,out=i8')", "tensors of i8 need ranges"},
    {"conv(x, 'subm,cout=4,k=3', {residual = x})",
     "which its epilogue does not add"},
    {"conv(x, 'subm,cout=4,k=3,epilogue=add')", "its `residual` is missing"},
    {"conv(x, 'subm,cout=5,k=3,epilogue=add', {residual = x})",
     "its residual must have 5 channels"},
    {"conv(x, 'conv,cout=4,k=2,stride=2,rule=floor,epilogue=add', "
     "{residual = x})",
     "has another coordinate set than its outputs"},
    {"conv(x, 'inverse,cout=4,k=2,stride=2,rule=floor')",
     "nothing to go back to"},
    {"y = conv(x, 'conv,cout=4,k=2,stride=2,rule=floor')"
     " conv(y, 'inverse,cout=4,k=3,stride=3,rule=floor')",
     "not what its geometry derives"},
    {"conv(x, 'conv,cout=4,k=3,stride=2,rule=footprint,shape=9x9x9')",
     "shape=9x9x9: its inputs have 9x8x7"},
    {"conv(x, 'transposed,cout=4,k=2,stride=2')", "its `at` is missing"},
    {"conv(x, 'subm,cout=4,k=3', {name = 'a'})"
     " conv(x, 'subm,cout=4,k=3x3x1', {name = 'a'})",
     "layer 'a': another layer of this name has different weights"},
    {"conv(x, 'subm,cout=4,k=3', {name = 'a'})"
     " conv(x, 'subm,cout=4,k=3', {name = 'a', norm = 'bn'})",
     "layer 'a': another layer of this name has different weights"},
    {"feature(x, 'act=relu', {name = 'a'}) feature(x, 'act=relu', {name = "
     "'a'})",
     "layer 'a': another layer has this name"},
    {"cat(x, conv(x, 'conv,cout=4,k=2,stride=2,rule=floor'))",
     "parts 0 and 1 have two coordinate sets"},
    {"feature(x, 'add')", "its `add` is missing"},
    {"y = feature(x, 'pool=max,rule=floor,k=2,stride=2')"
     " feature(y, 'unpool=index,rule=floor,k=2,stride=2', {index = y})",
     "must be the outputs of a pool=max with index=1"},
    {"feature(x, 'unpool=index,rule=floor,k=2,stride=2')",
     "which indices does it read?"},
    {"y = feature(x, 'pool=max,rule=floor,k=2,stride=2,index=1')"
     " feature(x, 'unpool=index,rule=floor,k=2,stride=2', {index = y})",
     "another coordinate set than the indices"},
    {"y = feature(x, 'pool=max,rule=floor,k=2,stride=2,index=1')"
     " feature(cat(y, y), 'unpool=index,rule=floor,k=2,stride=2', {index = y})",
     "its indices are of 4 channels, the tensor has 8"},
    {"y = feature(x, 'pool=max,rule=floor,k=2,stride=2,index=1', {name = 'p'})"
     " feature(y, 'unpool=index,rule=floor,k=3,stride=2', {index = y})",
     "of layer 'p', which pooled other voxels or by another geometry"},
    {"y = feature(x, 'pool=max,rule=floor,k=2,stride=2,index=1')"
     " conv(y + 1, 'linear,cout=4')",
     "its `in` is tensor 2, the indices of a pooling"},
    {"y = feature(x, 'pool=max,rule=floor,k=2,stride=2,index=1')"
     " output(y + 1)",
     "the indices of a pooling"},
    {"feature(x, 'add', {add = x, index = x})",
     "add, index or by: one of them"},
    {"feature(x, 'multiply')", "its `by` is missing"},
    {"feature(x, 'multiply', {by = x})", "a row for each batch element"},
    {"y = conv(feature(x, 'global=mean'), 'linear,cout=3')"
     " feature(x, 'multiply', {by = y})",
     "it multiplies by 4 channels, the tensor has 3"},
    {"feature(feature(x, 'global=max'), 'global=max')",
     "a row for each batch element: linear layers"},
    {"y = feature(x, 'global=max') feature(y, 'multiply', {by = y})",
     "a row for each batch element: linear layers"},
    {"conv(conv(feature(x, 'global=max'), 'linear,cout=4'), "
     "'subm,cout=4,k=3')",
     "its `in` is dense, a row for each batch element"},
    {"feature(x, 'add', {add = feature(x, 'global=max')})",
     "its operands have two coordinate sets"},
    {"feature(feature(x, 'bev'), 'act=relu')", "its `in` is dense"},
    {"conv(feature(x, 'global=max'), 'subm,cout=4,k=3')", "its `in` is dense"},
    {"regroup({x}, {scale = {1, -1, 1}})", "scale -1 along y: expected 0 to 65536"},
    {"regroup({x}, {split = {3, 1, 1}, slices = true})",
     "4 channels cannot be cut into slices for 3 children"},
    {"regroup({x}, {split = {1.5, 1, 1}})", "split must be a whole number"},
    {"output(x)", "is the network's input"},
    {"y = conv(x, 'linear,cout=4') output(y, 'a') output(y, 'a')",
     "two outputs are called 'a'"},
    {"input {channels = 4}", "the network has an input already"},
    {"include '../x.lua'", "files of the same folder"},
    {"include 'net.lua'", "does one include itself"},
    {"while true do end", "an endless loop?"},
};

START_TEST(a_mistake_is_named_with_its_line)
{
    static const char start[] =
        "local x = input {channels = 4, shape = {9, 8, 7}} local y\n";
    char text[600];
    spc_net *net;

    /* A file that includes itself declares the input twice. */
    snprintf(text, sizeof(text), "%s%s\n",
             strstr(refused[_i].text, "'net.lua'") ? "" : start,
             refused[_i].text);
    ck_assert_int_eq(load_text(&net, text, SPC_F32), SPC_ETEMPLATE);
    ck_assert_msg(strstr(error.text, refused[_i].says) != NULL, "'%s' says: %s",
                  refused[_i].text, error.text);
    ck_assert_ptr_null(net);
}
END_TEST

START_TEST(weights_are_set_by_name)
{
    float values[4 * 4] = {0};
    spc_net_param p;
    harness r;

    load(&r, "chain.lua", SPC_F32);
    ck_assert_int_eq(
        spc_net_set_param(r.net, "aa", SPC_OPERAND_WEIGHTS, values, 16, &error),
        SPC_ENOTFOUND);
    ck_assert_ptr_nonnull(strstr(error.text, "did you mean 'a'?"));
    ck_assert_int_eq(
        spc_net_set_param(r.net, "f", SPC_OPERAND_BIAS, values, 8, &error),
        SPC_ENOTFOUND);
    ck_assert_str_eq(error.text, "layer 'f' has no bias");
    ck_assert_int_eq(
        spc_net_set_param(r.net, "a", SPC_OPERAND_BIAS, values, 7, &error),
        SPC_EINVAL);
    ck_assert_str_eq(error.text, "layer 'a' has 8 bias, these are 7");
    ck_assert_int_eq(spc_net_param_at(&p, r.net, 0), SPC_OK);
    ck_assert_str_eq(p.layer, "a");
    ck_assert_int_eq(p.count, 8 * 27 * 8);
    ck_assert_int_eq(spc_net_param_at(&p, r.net, r.info.params), SPC_EINVAL);
    spc_net_free(r.net);
}
END_TEST

/* ---- memory -------------------------------------------------------------- */

START_TEST(pieces_that_live_together_lie_apart)
{
    enum { MOST = 40 };
    spc__net_piece pieces[MOST];
    spc__random random;

    spc__random_init(&random, (uint64_t)_i);
    int count = 2 + (int)spc__random_below(&random, MOST - 2);
    size_t all = 0;
    for (int i = 0; i < count; i++) {
        int first = (int)spc__random_below(&random, 20);
        pieces[i] =
            (spc__net_piece){spc__random_below(&random, 5000), 0, first,
                             first + (int)spc__random_below(&random, 6)};
        all += (pieces[i].bytes + 255) / 256 * 256;
    }
    size_t total = spc__net_arrange(pieces, count);
    ck_assert_uint_le(total, all);
    for (int i = 0; i < count; i++) {
        const spc__net_piece *a = &pieces[i];
        ck_assert_uint_eq(a->offset % 256, 0);
        ck_assert_uint_le(a->offset + a->bytes, total);
        for (int j = 0; j < i; j++) {
            const spc__net_piece *b = &pieces[j];
            bool in_time = a->first <= b->last && b->first <= a->last;
            bool in_place = a->offset < b->offset + b->bytes &&
                            b->offset < a->offset + a->bytes;
            require(!in_time || !in_place || !a->bytes || !b->bytes,
                    "pieces %d and %d", i, j);
        }
    }
}
END_TEST

/* ---- results ------------------------------------------------------------ */

/* Two files for each type and device. Only some run, since compiling is
 * slow. */
static const char *const small_files[] = {"every.lua", "operators.lua",
                                          "batches.lua"};
enum { SMALL_FILES = LENGTH(small_files), TYPES = 3 };

START_TEST(networks_of_all_operators_are_as_the_oracle_says)
{
    static const spc_dtype dtypes[TYPES] = {SPC_F32, SPC_F16, SPC_BF16};
    spc_net_options o = options_for(300);
    int kind = _i % (TYPES * SMALL_FILES);
    harness r;

    if (!suite_takes(_i))
        return;
    spc_scene *sample = scene_of(0);
    load(&r, small_files[kind / TYPES], dtypes[kind % TYPES]);
    open_context(&r, device_of(_i / (TYPES * SMALL_FILES)));
    o.keep = true;
    o.growth = 0; /* isolated voxels make more outputs than scans */
    o.sample = spc_scene_coords(sample);
    o.sample_rows = spc_scene_rows(sample);
    plan_net(&r, &o);
    for (int i = 0; i < 6; i++) {
        spc_scene *scene = scene_of(i);
        upload(&r, scene, (uint64_t)i);
        poison(&r);
        assert_ok(r.ctx, spc_net_plan_execute(r.plan, &r.buffers, NULL));
        check_run(&r, scene, false);
        spc_scene_free(scene);
    }
    spc_scene_free(sample);
    close_harness(&r);
}
END_TEST

/* Values are -1, 0 and 1: sums of a few layers are integers that fp32 holds
 * exactly. */
static void set_integers(spc_net *net, uint64_t seed)
{
    spc_net_param p;
    spc__random random;

    spc__random_init(&random, seed);
    for (int i = 0; spc_net_param_at(&p, net, i) == SPC_OK; i++) {
        float *values = malloc(sizeof(float) * (size_t)p.count);
        for (int64_t j = 0; j < p.count; j++)
            values[j] = p.which == SPC_OPERAND_SCALE
                            ? 1
                            : (float)spc__random_below(&random, 3) - 1;
        assert_net(
            spc_net_set_param(net, p.layer, p.which, values, p.count, &error));
        free(values);
    }
}

START_TEST(integers_come_out_exactly)
{
    spc_net_options o = options_for(300);
    spc_scene *scene = scene_of(1);
    harness r;

    load(&r, "chain.lua", SPC_F32);
    set_integers(r.net, 5);
    open_context(&r, device_of(_i));
    o.keep = true;
    plan_net(&r, &o);
    upload(&r, scene, 1);
    assert_ok(r.ctx, spc_net_plan_execute(r.plan, &r.buffers, NULL));
    check_run(&r, scene, true);
    spc_scene_free(scene);
    close_harness(&r);
}
END_TEST

/* One feature is NaN or infinite. As in the oracle, the outputs that read it
 * are not finite, and all others are correct. */
START_TEST(what_is_no_number_harms_what_sees_it_alone)
{
    static const float odd[4] = {NAN, 1, INFINITY, -INFINITY};
    spc_net_options o = options_for(300);
    spc_scene *scene = scene_of(1);
    size_t bytes;
    int none = 0;
    harness r;

    load(&r, "chain.lua", SPC_F32);
    open_context(&r, device_of(_i));
    o.keep = true;
    plan_net(&r, &o);
    upload(&r, scene, 1);
    assert_ok(r.ctx, spc_memory_upload(r.features, r.ctx, odd, sizeof(odd)));
    assert_ok(r.ctx, spc_net_plan_execute(r.plan, &r.buffers, NULL));
    check_run(&r, scene, false);
    float *values = (float *)(void *)outputs_of(&r, &bytes);
    int count = (int)(bytes / sizeof(*values));
    for (int i = 0; i < count; i++)
        none += !isfinite(values[i]);
    ck_assert_int_gt(none, 0);
    ck_assert_int_lt(none, count);
    free(values);
    spc_scene_free(scene);
    close_harness(&r);
}
END_TEST

START_TEST(a_replay_gives_the_bits_of_a_run)
{
    spc_net_options o = options_for(300);
    harness r;

    o.growth = 0;
    load(&r, suite_is_gpu() ? "every.lua" : "chain.lua", SPC_F32);
    make_deterministic(r.net);
    open_context(&r, device_of(_i));
    compare_replays(&r, &o, suite_is_gpu() ? 100 : 3);
    close_harness(&r);
}
END_TEST

/* ---- errors -------------------------------------------------------------- */

/* Each voxel has eight separate outputs. */
static spc_scene *scattered(int count) /* at most 30 */
{
    int32_t coords[30][4];
    spc_scene *scene;

    for (int i = 0; i < count; i++) {
        int32_t row[4] = {0, 1 + 4 * (i % 5), 1 + 4 * (i / 5 % 3), 1};
        row[3] += 4 * (i / 15);
        memcpy(coords[i], row, sizeof(row));
    }
    assert_net(spc_scene_create(&scene, &coords[0][0], count, "s", &error));
    return scene;
}

START_TEST(a_level_that_overflows_says_what_would_have_fitted)
{
    spc_net_options o = options_for(60);
    spc_scene *good = draw_scene(60, 2, 9), *bad = scattered(30);
    harness r;

    load(&r, "every.lua", SPC_F32);
    open_context(&r, suite_device != NULL ? suite_device : "cpu");
    o.keep = true;
    o.growth = 3.5;
    plan_net(&r, &o);
    upload(&r, bad, 1);
    assert_ok(r.ctx, spc_net_plan_execute(r.plan, &r.buffers, NULL));
    ck_assert_int_eq(spc_net_plan_check(r.plan, NULL), SPC_ECAPACITY);
    ck_assert_msg(strstr(spc_ctx_error(r.ctx), "layer 'c'") != NULL &&
                      strstr(spc_ctx_error(r.ctx),
                             "240 rows for a set of 210, which is growth 3.5 "
                             "times the plan's capacity of 60: none were "
                             "stored; growth 4 or a capacity of 69 would have "
                             "fitted") != NULL,
                  "%s", spc_ctx_error(r.ctx));
    r.buffers.rows = 61;
    r.buffers.count = NULL;
    ck_assert_int_eq(spc_net_plan_execute(r.plan, &r.buffers, NULL),
                     SPC_ECAPACITY);
    r.buffers.count = r.count;
    /* The next scene fits the rule's bound and must be unaffected. */
    close_plan(&r);
    o.growth = 0;
    plan_net(&r, &o);
    for (int i = 0; i < 2; i++) {
        upload(&r, i ? good : bad, 2);
        assert_ok(r.ctx, spc_net_plan_execute(r.plan, &r.buffers, NULL));
        check_run(&r, i ? good : bad, false);
    }
    spc_scene_free(good);
    spc_scene_free(bad);
    close_harness(&r);
}
END_TEST

/* In floating point 4.64 times 50 gives 231 and not 232. */
START_TEST(the_growth_that_would_have_fitted_fits)
{
    spc_net_options o = options_for(50);
    spc_scene *scene = scattered(29);
    harness r;

    load(&r, "every.lua", SPC_F32);
    open_context(&r, suite_device != NULL ? suite_device : "cpu");
    o.growth = 4;
    plan_net(&r, &o);
    upload(&r, scene, 1);
    assert_ok(r.ctx, spc_net_plan_execute(r.plan, &r.buffers, NULL));
    ck_assert_int_eq(spc_net_plan_check(r.plan, NULL), SPC_ECAPACITY);
    const char *said = strstr(spc_ctx_error(r.ctx), "were stored; growth ");
    ck_assert_msg(said != NULL &&
                      sscanf(said, "were stored; growth %lf", &o.growth) == 1,
                  "%s", spc_ctx_error(r.ctx));
    close_plan(&r);
    plan_net(&r, &o);
    upload(&r, scene, 1);
    assert_ok(r.ctx, spc_net_plan_execute(r.plan, &r.buffers, NULL));
    ck_assert_msg(spc_net_plan_check(r.plan, NULL) == SPC_OK, "growth %g: %s",
                  o.growth, spc_ctx_error(r.ctx));
    spc_scene_free(scene);
    close_harness(&r);
}
END_TEST

/* An isolated voxel makes 27 outputs if no axis has a stride, and 9 * 2 if one
 * has. The default capacity must suffice. */
START_TEST(layers_that_dilate_have_room_by_default)
{
    static const struct {
        const char *layer;
        int64_t rows;
    } cases[] = {
        {"conv,cin=4,cout=4,rule=footprint,k=3,padding=1,dtype=f32", 27 * 30},
        {"conv,cin=4,cout=4,rule=footprint,k=3,stride=1x1x2,padding=1,"
         "dtype=f32",
         9 * 30 * 2},
    };
    spc_net_options o = options_for(30);
    spc_scene *scene = scattered(30);
    spc_net_input input = SPC_NET_INPUT_INIT;
    spc_net_layer layer = SPC_NET_LAYER_INIT;
    spc_tensor x, y;
    harness r = {0};

    input.channels = 4;
    input.dtype = SPC_F32;
    assert_net(spc_net_create(&r.net, "dilates", &error));
    assert_net(spc_net_add_input(&x, r.net, &input, &error));
    assert_net(spc_conv_parse(&layer.conv, cases[_i].layer, &error));
    layer.in = x;
    assert_net(spc_net_add_conv(&y, r.net, &layer, &error));
    assert_net(spc_net_add_output(r.net, y, "y", &error));
    assert_net(spc_net_init_params(r.net, 1, &error));
    spc_net_describe(&r.info, r.net);
    open_context(&r, suite_device != NULL ? suite_device : "cpu");
    ck_assert_double_eq(o.growth, 2);
    plan_net(&r, &o);
    upload(&r, scene, 1);
    assert_ok(r.ctx, spc_net_plan_execute(r.plan, &r.buffers, NULL));
    ck_assert_msg(spc_net_plan_check(r.plan, NULL) == SPC_OK, "%s",
                  spc_ctx_error(r.ctx));
    ck_assert_int_eq(spc_coords_rows(r.plan->sets[1]), cases[_i].rows);
    spc_scene_free(scene);
    close_harness(&r);
}
END_TEST

START_TEST(what_cannot_be_planned_is_refused)
{
    spc_net_options o = options_for(0);
    spc_net *empty;
    harness r;

    load(&r, "chain.lua", SPC_F32);
    open_context(&r, "cpu");
    ck_assert_int_eq(spc_net_plan_create(&r.plan, r.ctx, r.net, &o),
                     SPC_EINVAL);
    ck_assert_str_eq(spc_ctx_error(r.ctx),
                     "a network for 0 rows: expected at least 1");
    o.capacity = 10;
    o.duplicates = SPC_DUPLICATES_SUM;
    ck_assert_int_eq(spc_net_plan_create(&r.plan, r.ctx, r.net, &o),
                     SPC_EINVAL);
    o.duplicates = SPC_DUPLICATES_FIRST;
    assert_net(
        spc_net_load(&empty, network_path("chain.lua"), SPC_F32, &error));
    ck_assert_int_eq(spc_net_plan_create(&r.plan, r.ctx, empty, &o),
                     SPC_EINVAL);
    ck_assert_ptr_nonnull(
        strstr(spc_ctx_error(r.ctx), "layer 'a' has no weights yet"));
    spc_net_free(empty);
    assert_ok(r.ctx, spc_net_plan_create(&r.plan, r.ctx, r.net, &o));
    ck_assert_int_eq(
        spc_net_plan_execute(
            r.plan,
            &(spc_net_buffers){.bytes = sizeof(spc_net_buffers), .rows = 1},
            NULL),
        SPC_EINVAL);
    spc_net_free(r.net); /* the plan keeps it alive */
    r.net = NULL;
    ck_assert_int_gt(spc_net_plan_step_count(r.plan), 0);
    close_harness(&r);
}
END_TEST

/* ---- driver calls of a run ----------------------------------------------- */

START_TEST(a_run_is_nothing_but_launches_and_a_replay_is_one)
{
    spc_net_options o = options_for(20000);
    harness r;

    open_doubles();
    load(&r, _i ? "unet42.lua" : "resn21.lua", SPC_F16);
    open_context(&r, "cuda");
    plan_net(&r, &o);
    count_calls(&r, 21);
    close_harness(&r);
    ck_assert_int_eq(fake->live.graph_execs, 0);
    ck_assert_int_eq(fake->live.memory, 0);
}
END_TEST

/* Returns the node that fills this set. */
static size_t node_of_set(const void *keys, size_t nodes)
{
    for (size_t n = 1; n <= nodes; n++) {
        const fake_launch *it = launch_at(n);
        if (is_kernel(it, "spc_index") &&
            it->args.index.stages & SPC_INDEX_BUILD &&
            it->args.index.set.keys == keys)
            return n;
    }
    ck_abort_msg("no node fills a set");
    return 0;
}

static bool builds(const fake_launch *it)
{
    return is_kernel(it, "spc_index") &&
           it->args.index.stages & SPC_INDEX_BUILD;
}

static bool searches(const fake_launch *it)
{
    return is_kernel(it, "spc_index") &&
           it->args.index.stages & SPC_INDEX_SEARCH;
}

/* Checks that a set's inputs are complete, and that levels are made from the
 * caller's rows. */
static void check_waits(const fake_launch *it, size_t nodes)
{
    const spc_index_args *index = &it->args.index;

    if (is_kernel(it, "spc_derive"))
        ck_assert_ptr_nonnull(it->args.derive.rows);
    if (!is_kernel(it, "spc_index") || builds(it))
        return;
    ck_assert(follows(it, node_of_set(index->set.keys, nodes)));
    ck_assert(follows(it, node_of_set(index->in.keys, nodes)));
}

static int count_searches_before(const fake_launch *it)
{
    int count = 0;

    for (size_t n = 1; n < it->node; n++)
        count += searches(launch_at(n)) && follows(it, n);
    return count;
}

/* Returns the node that searches the map with these indices. */
static size_t node_of_map(const void *index, size_t nodes)
{
    for (size_t n = 1; n <= nodes; n++)
        if (searches(launch_at(n)) &&
            (launch_at(n)->args.index.index == index ||
             launch_at(n)->args.index.sorted.index == index))
            return n;
    ck_abort_msg("no node searches a map");
    return 0;
}

/* A layer waits for its own map and those of earlier layers, but not for later
 * ones. */
static void check_layers(size_t nodes, int maps)
{
    int seen = 0;

    for (size_t n = 1; n <= nodes; n++) {
        const fake_launch *it = launch_at(n);
        if (!is_kernel(it, "spc_conv"))
            continue;
        int now = count_searches_before(it);
        ck_assert(follows(it, node_of_map(it->args.conv.map.index, nodes)));
        ck_assert_int_le(now, seen + 1);
        ck_assert_int_ge(now, seen);
        seen = now;
    }
    ck_assert_int_eq(seen, maps);
}

/* Returns how many indexing blocks run at the same time at most, if each node
 * waits only for what it reads. That is the largest sum of the blocks of a node
 * and of all nodes that neither precede nor follow it. */
static unsigned blocks_beside(size_t node, size_t nodes)
{
    const fake_launch *it = launch_at(node);
    unsigned blocks = it->grid[0];

    for (size_t n = 1; n <= nodes; n++) {
        const fake_launch *other = launch_at(n);
        if (n != node && !is_kernel(other, "spc_conv") && !follows(it, n) &&
            !follows(other, node) && other->after_count == 0)
            blocks += other->grid[0];
    }
    return blocks;
}

/* The first layer's level has most of the device. The last one's level has
 * little, since no layer waits for it yet. */
START_TEST(who_is_needed_first_has_most_of_the_device)
{
    spc_net_options o = options_for(100000);
    unsigned most = 0, least = UINT_MAX, first = 0;
    harness r;

    open_doubles();
    load(&r, "resn21.lua", SPC_F16);
    open_context(&r, "cuda");
    plan_net(&r, &o);
    for (int i = 0; i < r.plan->branch_count; i++) {
        const spc__net_branch *branch = &r.plan->branches[i];
        most = branch->blocks > most ? branch->blocks : most;
        least = branch->blocks < least ? branch->blocks : least;
        if (branch->need == r.plan->branch_count)
            first = branch->blocks;
        ck_assert(branch->ends > 0 && branch->ends < 2000);
    }
    /* only its map, as an earlier branch has the set */
    ck_assert_uint_eq(first, most);
    ck_assert_uint_ge(least, 1);
    ck_assert_uint_gt(most, 4 * least);
    close_harness(&r);
}
END_TEST

START_TEST(layers_of_a_graph_wait_for_their_own_maps)
{
    spc_net_options o = options_for(20000);
    harness r;

    open_doubles();
    load(&r, "resn21.lua", SPC_F16);
    open_context(&r, "cuda");
    plan_net(&r, &o);
    int launched = fake->launches;
    assert_ok(r.ctx, spc_net_plan_capture(r.plan, &r.buffers));
    size_t nodes = (size_t)(fake->launches - launched);
    ck_assert_uint_le(nodes, FAKE_LAUNCHES);
    for (size_t n = 1; n <= nodes; n++) {
        const fake_launch *it = launch_at(n);
        check_waits(it, nodes);
        if (it->after_count == 0)
            ck_assert_uint_le(blocks_beside(n, nodes),
                              (unsigned)r.ctx->info.multiprocessors);
    }
    check_layers(nodes, 8);
    close_harness(&r);
}
END_TEST

/* Returns the work before the first layer that makes a map. */
static int branch_of(const spc_net_plan *plan, const spc_map *map)
{
    for (int i = 0; i < plan->branch_count; i++)
        if (plan->works[i].kind == SPC_NET_MAP &&
            plan->maps[plan->works[i].map] == map)
            return i;
    return -1;
}

/* Of 13 maps 9 are searched. Inverse maps are derived from the maps that they
 * invert, and wait for them. */
START_TEST(inverse_maps_come_with_those_that_they_invert)
{
    spc_net_options o = options_for(20000);
    int derived = 0;
    harness r;

    open_doubles();
    load(&r, "unet42.lua", SPC_F16);
    open_context(&r, "cuda");
    plan_net(&r, &o);
    for (int i = 0; i < r.net->map_count; i++) {
        const spc_map *map = r.plan->maps[i], *by = map->derived_from;
        ck_assert(map->inverse == (by != NULL));
        if (by == NULL)
            continue;
        derived++;
        const spc__net_branch *branch =
            &r.plan->branches[branch_of(r.plan, map)];
        ck_assert_int_eq(branch->after_count, 1);
        ck_assert_int_eq(branch->after[0], branch_of(r.plan, by));
    }
    ck_assert_int_eq(derived, 4);
    close_harness(&r);
}
END_TEST

static void drop_graph(harness *r)
{
    spc__device_ops_of(r->ctx->device)
        ->graph_free(r->ctx->device, r->plan->graph);
    r->plan->graph = NULL;
}

/* Each call of a capture fails once. Nothing may leak. */
START_TEST(a_capture_that_fails_leaves_nothing)
{
    spc_net_options o = options_for(1000);
    harness r;

    open_doubles();
    load(&r, "chain.lua", SPC_F16);
    open_context(&r, "cuda");
    plan_net(&r, &o);
    int calls = fake->calls, failures = 0;
    assert_ok(r.ctx, spc_net_plan_capture(r.plan, &r.buffers));
    calls = fake->calls - calls;
    drop_graph(&r);
    fake->fail_with = FAKE_LAUNCH_FAILED;
    for (int i = 1; i <= calls; i++) {
        fake->fail_at = fake->calls + i;
        spc_status status = spc_net_plan_capture(r.plan, &r.buffers);
        fake->fail_at = 0;
        ck_assert_int_eq(fake->live.streams, 0);
        ck_assert_int_eq(fake->live.graphs, 0);
        ck_assert_int_eq(fake->live.graph_execs, status == SPC_OK);
        ck_assert(status == SPC_OK || status == SPC_EDEVICE);
        failures += status != SPC_OK;
        drop_graph(&r);
    }
    /* calls of a capture, except those for contexts */
    ck_assert_int_gt(failures, 15);
    close_harness(&r);
}
END_TEST

/* ---- recorded scans ------------------------------------------------------ */

/* The expected rows of each set: the levels, then the set after the last
 * convolution. */
static const struct {
    const char *network, *file;
    int64_t rows[5];
} scans[] = {
    {"second.lua", "kitti_hdl64_full.bin", {40836, 53319, 28850, 10989, 8432}},
    {"centerpoint.lua",
     "nuscenes_sweep1.bin",
     {17509, 29374, 21571, 11174, 9204}},
};

START_TEST(recorded_scans_have_the_published_levels)
{
    spc_net_options o = options_for(0);
    char path[4200];
    spc_scene *scene;
    harness r;

    load(&r, scans[_i].network, SPC_F16);
    snprintf(path, sizeof(path), "%s/%s", suite_scenes(), scans[_i].file);
    assert_net(spc_net_load_scene(&scene, r.net, path, &error));
    open_context(&r, "cpu");
    o.capacity = o.sample_rows = spc_scene_rows(scene);
    o.sample = spc_scene_coords(scene);
    assert_ok(r.ctx, spc_net_plan_create(&r.plan, r.ctx, r.net, &o));
    for (int i = 0; i < 5; i++)
        ck_assert_int_eq(spc_coords_rows(r.plan->sets[i]), scans[_i].rows[i]);
    spc_scene_free(scene);
    close_harness(&r);
}
END_TEST

static TCase *add(Suite *suite, const char *name)
{
    TCase *tc = tcase_create(name);

    tcase_set_timeout(tc, 300);
    suite_add_tcase(suite, tc);
    return tc;
}

static void add_host_tests(Suite *suite)
{
    TCase *tc = add(suite, "graph");

    tcase_add_test(tc, known_networks_share_what_they_can);
    tcase_add_test(tc, normalisations_have_the_epsilon_they_were_trained_with);
    tcase_add_test(tc, a_key_that_disagrees_is_reported);
    tcase_add_loop_test(tc, a_mistake_is_named_with_its_line, 0,
                        LENGTH(refused));
    tcase_add_test(tc, weights_are_set_by_name);
    tcase_add_loop_test(tc, pieces_that_live_together_lie_apart, 0, 20);
    tcase_add_test(tc, what_cannot_be_planned_is_refused);
    tc = add(suite, "driver");
    tcase_add_loop_test(tc, a_run_is_nothing_but_launches_and_a_replay_is_one,
                        0, 2);
    tcase_add_test(tc, layers_of_a_graph_wait_for_their_own_maps);
    tcase_add_test(tc, inverse_maps_come_with_those_that_they_invert);
    tcase_add_test(tc, who_is_needed_first_has_most_of_the_device);
    tcase_add_test(tc, a_capture_that_fails_leaves_nothing);
}

static void add_device_tests(Suite *suite)
{
    TCase *tc = add(suite, "results");
    int devices = suite_device != NULL ? 1 : 2;

    tcase_add_loop_test(tc, networks_of_all_operators_are_as_the_oracle_says, 0,
                        TYPES * SMALL_FILES * devices);
    tcase_add_loop_test(tc, integers_come_out_exactly, 0, devices);
    tcase_add_loop_test(tc, what_is_no_number_harms_what_sees_it_alone, 0,
                        devices);
    tcase_add_loop_test(tc, a_replay_gives_the_bits_of_a_run, 0, devices);
    tcase_add_test(tc, a_level_that_overflows_says_what_would_have_fitted);
    tcase_add_test(tc, the_growth_that_would_have_fitted_fits);
    tcase_add_loop_test(tc, layers_that_dilate_have_room_by_default, 0, 2);
}

int main(int argc, char **argv)
{
    bool recorded = suite_is_part(argc, argv, "scenes");
    int status = recorded ? 0 : suite_open(argc, argv);

    if (status != 0)
        return status;
    if (recorded && suite_scenes() == NULL)
        return suite_skip("no folder of recorded scans; SPC_SCENES names it");
    Suite *suite = suite_create("net");
    if (recorded) {
        tcase_add_loop_test(add(suite, "scans"),
                            recorded_scans_have_the_published_levels, 0,
                            LENGTH(scans));
    } else {
        suite_sample(3);
        if (suite_device == NULL)
            add_host_tests(suite);
        add_device_tests(suite);
    }
    return run_suite(suite);
}
