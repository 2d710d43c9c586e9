/* SPDX-License-Identifier: Apache-2.0 */
/* test_runtime.c - layers as text, contexts, running plans, and the bench. */
#include "coords/map.h"
#include "harness/comma_locale.h"
#include "harness/counted_allocations.h"
#include "harness/folder_harness.h"
#include "harness/layer_harness.h"
#include "plan/plan.h"
#include "spc/db.h"

#include "base/error.h"
#include "base/file.h"
#include "base/random.h"
#include "harness/suite.h"
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static spc_error error;

/* ---- layers as text ------------------------------------------------------ */

static const struct {
    const char *text, *canonical;
} layers[] = {
    {"subm,cin=64,cout=64", "subm,cin=64,cout=64,k=3,dtype=f16"},
    {"subm,dtype=f32,k=5,cout=2,cin=1", "subm,cin=1,cout=2,k=5,dtype=f32"},
    {"subm,cin=4,cout=4,k=3x3x1", "subm,cin=4,cout=4,k=3x3x1,dtype=f16"},
    {"subm,cin=4,cout=4,k=2x2x2", "subm,cin=4,cout=4,k=2,dtype=f16"},
    {"subm,cin=4,cout=4,k=7,dtype=tf32", "subm,cin=4,cout=4,k=7,dtype=tf32"},
    {"subm,cin=4,cout=4,k=343x1x1", "subm,cin=4,cout=4,k=343x1x1,dtype=f16"},
    {"subm,cin=4,cout=4,dilation=2",
     "subm,cin=4,cout=4,k=3,dilation=2,dtype=f16"},
    {"subm,cin=4,cout=4,dilation=1x2x3,bias=1,deterministic=1",
     "subm,cin=4,cout=4,k=3,dilation=1x2x3,dtype=f16,bias=1,deterministic=1"},
    {"subm,cin=4,cout=4,bias=0,deterministic=0",
     "subm,cin=4,cout=4,k=3,dtype=f16"},
    {"subm,cin=65536,cout=1", "subm,cin=65536,cout=1,k=3,dtype=f16"},
    {"subm,cin=007,cout=1", "subm,cin=7,cout=1,k=3,dtype=f16"},
    {"linear,cin=6,cout=9,bias=1", "subm,cin=6,cout=9,k=1,dtype=f16,bias=1"},
    {"subm,cin=6,cout=9,groups=1", "subm,cin=6,cout=9,k=3,dtype=f16"},
    {"subm,groups=3,cin=6,cout=9", "subm,cin=6,cout=9,groups=3,k=3,dtype=f16"},
};

START_TEST(a_layer_reads_back_as_its_canonical_text)
{
    char text[200], again[200];
    spc_conv conv;

    assert_ok(spc_conv_parse(&conv, layers[_i].text, &error), error.text);
    int length = spc_conv_format(text, sizeof(text), &conv);
    ck_assert_str_eq(text, layers[_i].canonical);
    ck_assert_int_eq(length, (int)strlen(text));
    assert_ok(spc_conv_parse(&conv, text, &error), error.text);
    spc_conv_format(again, sizeof(again), &conv);
    ck_assert_str_eq(again, text);
}
END_TEST

static const struct {
    const char *text, *says;
} bad_layers[] = {
    {"", "empty"},
    {"cnv,cin=1,cout=1", "unknown operator 'cnv'"},
    {"conv,cin=1,cout=1", "'rule' is missing"},
    {"sumb,cin=1,cout=1", "did you mean 'subm'"},
    {"cin=1,cout=1", "begins with its operator"},
    {"subm,cout=1", "'cin' is missing"},
    {"subm,cin=1", "'cout' is missing"},
    {"subm", "'cin' is missing"},
    {"subm,cni=1,cout=1", "did you mean 'cin'"},
    {"subm,cin=1,cout=1,dilatoin=2", "did you mean 'dilation'"},
    {"subm,cin=1,cout=1,kernel=3", "unknown word 'kernel'"},
    {"subm,cin=0,cout=1", "cin=0: expected 1 to 65536 channels"},
    {"subm,cin=1,cout=0", "cout=0"},
    {"subm,cin=-3,cout=1", "cin=-3"},
    {"subm,cin=1.5,cout=1", "cin=1.5"},
    {"subm,cin=,cout=1", "cin="},
    {"subm,cin=65537,cout=1", "1 to 65536"},
    {"subm,cin=99999999999999999999999,cout=1", "1 to 65536"},
    {"subm,cin,cout=1", "'cin' needs a value"},
    {"subm,cin=1,cout=1,cin=2", "'cin' is given twice"},
    {"subm,cin=1,cout=1,", "empty word at position 18"},
    {",subm,cin=1,cout=1", "empty word at position 0"},
    {"subm,,cin=1,cout=1", "empty word at position 5"},
    {"subm, cin=1,cout=1", "unknown word ' cin'"},
    {"subm,cin=1,cout=1,k=0",
     "k=0: expected one number or three, each 1 to 343"},
    {"subm,cin=1,cout=1,k=3x3", "k=3x3: expected one number or three"},
    {"subm,cin=1,cout=1,k=3x3x3x3", "k=3x3x3x3: expected one"},
    {"subm,cin=1,cout=1,k=3xx3", "k=3xx3: expected one number"},
    {"subm,cin=1,cout=1,k=8", "more than 343 offsets"},
    {"subm,cin=1,cout=1,k=7x7x8", "more than 343 offsets"},
    {"subm,cin=1,cout=1,k=100000", "each 1 to 343"},
    {"subm,cin=1,cout=1,k=99999999999", "k=99999999999: expected one number"},
    {"subm,cin=1,cout=1,dilation=0", "dilation=0"},
    {"subm,cin=1,cout=1,dilation=65537", "1 to 65536"},
    {"subm,cin=1,cout=1,dtype=fp16", "did you mean 'f16'"},
    {"subm,cin=1,cout=1,dtype=double", "(f16, f32, tf32"},
    {"linear,cin=6,cout=9,k=1", "unknown word 'k' (cin, cout, groups, dtype"},
    {"linear,cin=6,cout=9,stride=1", "unknown word 'stride' (cin, cout"},
    {"linear,cin=6", "'cout' is missing"},
    {"linaer,cin=6,cout=9", "did you mean 'linear'"},
    {"subm,cin=6,cout=9,groups=2", "groups=2 does not divide cin=6"},
    {"subm,cin=6,cout=9,groups=6", "groups=6 does not divide cin=6 and cout=9"},
    {"subm,cin=6,cout=9,groups=",
     "groups=: expected 1 to 65536 groups that divide"},
    {"subm,cin=1,cout=1,bias=yes", "bias=yes: expected 0 or 1"},
    {"subm,cin=1,cout=1,deterministic=2", "deterministic=2: expected 0 or 1"},
    {"subm,cin=1,cout=1,"
     "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
     "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa=1",
     "too long"},
};

START_TEST(a_bad_layer_is_refused_with_what_would_be_right)
{
    spc_conv conv;
    ck_assert_int_eq(spc_conv_parse(&conv, bad_layers[_i].text, &error),
                     SPC_EINVAL);
    assert_says(error.text, bad_layers[_i].says);
}
END_TEST

/* A changed text is either a layer that reads back as itself, or an error with
 * a message. */
START_TEST(mutated_layers_are_read_or_refused_and_nothing_else)
{
    static const char telling[] = ",=x0123456789-kcdf";
    spc__random random;

    spc__random_init(&random, 20240601);
    for (int i = 0; i < 20000; i++) {
        char text[200], canonical[200], again[200];
        spc_conv conv;
        int length = snprintf(text, sizeof(text), "%s",
                              layers[i % LENGTH(layers)].canonical);
        for (int change = 0; change < 3; change++)
            text[spc__random_below(&random, (uint32_t)length)] =
                telling[spc__random_below(&random, sizeof(telling) - 1)];
        spc__error_clear(&error);
        if (spc_conv_parse(&conv, text, &error) != SPC_OK) {
            ck_assert_uint_gt(strlen(error.text), 10);
            continue;
        }
        spc_conv_format(canonical, sizeof(canonical), &conv);
        assert_ok(spc_conv_parse(&conv, canonical, &error), error.text);
        spc_conv_format(again, sizeof(again), &conv);
        ck_assert_str_eq(again, canonical);
    }
}
END_TEST

START_TEST(a_bad_layer_value_is_refused)
{
    spc_conv good = SPC_CONV_INIT, bad;

    good.cin = good.cout = 4;
    ck_assert_int_eq(spc_conv_check(&good, &error), SPC_OK);
    for (int i = 0; i < 9; i++) {
        bad = good;
        switch (i) {
        case 7:
            bad.groups = 0;
            break;
        case 0:
            bad.op = (spc_operator)9;
            break;
        case 1:
            bad.cin = 0;
            break;
        case 2:
            bad.cout = -1;
            break;
        case 3:
            bad.geometry.kernel[1] = 0;
            break;
        case 4:
            bad.geometry.kernel[0] = bad.geometry.kernel[1] =
                bad.geometry.kernel[2] = 1 << 30;
            break;
        case 5:
            bad.geometry.dilation[2] = 0;
            break;
        case 6:
            bad.dtype = (spc_dtype)9;
            break;
        default:
            bad.dtype = (spc_dtype)-1;
            break;
        }
        ck_assert_int_eq(spc_conv_check(&bad, &error), SPC_EINVAL);
    }
}
END_TEST

START_TEST(a_layer_becomes_attrs_and_comes_back)
{
    char text[200];
    spc_conv conv, back;
    spc__attrs attrs;

    assert_ok(spc_conv_parse(&conv, layers[_i].text, &error), error.text);
    spc__conv_attrs(&attrs, &conv);
    ck_assert_int_eq(spc__attrs_number(&attrs, "offsets", 0),
                     spc__conv_offsets(&conv));
    ck_assert(spc__conv_from_attrs(&back, &attrs));
    spc_conv_format(text, sizeof(text), &back);
    ck_assert_str_eq(text, layers[_i].canonical);
}
END_TEST

/* ---- contexts ------------------------------------------------------------ */

static const struct {
    const char *device;
    spc_status status;
} bad_devices[] = {
    {"gpu", SPC_EINVAL},      {"", SPC_EINVAL},           {"cpu:x", SPC_EINVAL},
    {"cpu:7", SPC_ENODEVICE}, {"cuda:99", SPC_ENODEVICE},
};

START_TEST(a_device_that_is_not_there_is_refused_in_one_sentence)
{
    spc_ctx_options options = SPC_CTX_OPTIONS_INIT;
    spc_ctx *ctx;

    options.device = bad_devices[_i].device;
    options.database = "";
    ck_assert_int_eq(spc_ctx_create(&ctx, &options, &error),
                     bad_devices[_i].status);
    ck_assert(ctx == NULL);
    ck_assert_uint_gt(strlen(error.text), 10);
}
END_TEST

static void count_warning(int level, const char *text, void *payload)
{
    if (level == 2)
        ++*(int *)payload;
    (void)text;
}

static const char *const bad_databases[] = {
    "/proc/self/mem/x.db", /* cannot be a folder */
    "/",                   /* is a folder */
    "garbage",             /* is written below */
};

START_TEST(a_bad_database_is_a_warning_unless_it_is_needed)
{
    spc_ctx_options options = SPC_CTX_OPTIONS_INIT;
    spc_ctx *ctx;
    int warnings = 0;

    options.device = "cpu";
    options.database = bad_databases[_i];
    if (bad_databases[_i][0] != '/') {
        assert_ok(spc__file_write(at("garbage"),
                                  "this is no database, "
                                  "however long one reads it",
                                  46, &error),
                  error.text);
        options.database = at("garbage");
    }
    options.need_database = true;
    ck_assert_int_eq(spc_ctx_create(&ctx, &options, &error), SPC_EDB);
    options.need_database = false;
    options.log = count_warning;
    options.log_payload = &warnings;
    harness r;
    assert_ok(spc_ctx_create(&ctx, &options, &error), error.text);
    ck_assert_int_ge(warnings, 1);
    harness_open(&r, ctx, "subm,cin=4,cout=4,dtype=f32", "gen:uniform,n=50");
    assert_ok(spc_plan_create(&r.plan, ctx, &r.conv, r.map, 0),
              spc_ctx_error(ctx));
    harness_close(&r);
}
END_TEST

START_TEST(a_layer_that_is_missing_leaves_the_others_in_use)
{
    const char *layers_[] = {"/nonexistent/shipped.db"};
    spc_ctx_options options = SPC_CTX_OPTIONS_INIT;
    spc_ctx *ctx;
    int warnings = 0;

    options.device = "cpu";
    options.database = at("own.db");
    options.layers = layers_;
    options.layer_count = 1;
    options.log = count_warning;
    options.log_payload = &warnings;
    assert_ok(spc_ctx_create(&ctx, &options, &error), error.text);
    ck_assert_int_eq(warnings, 1);
    ck_assert(ctx->cache != NULL);
    spc_ctx_free(ctx);
}
END_TEST

START_TEST(the_database_is_found_where_the_environment_says)
{
    setenv("SPC_DATABASE", at("named.db"), 1);
    spc_ctx_free(open_ctx("cpu", NULL, NULL));
    ck_assert_int_eq(access(at("named.db"), F_OK), 0);
    unsetenv("SPC_DATABASE");
    setenv("XDG_CACHE_HOME", spc__buf_text(&folder), 1);
    spc_ctx_free(open_ctx("cpu", NULL, NULL));
    ck_assert_int_eq(access(at("spctune/spctune.db"), F_OK), 0);
    setenv("SPC_DATABASE", "", 1);
    spc_ctx *ctx = open_ctx("cpu", NULL, NULL);
    ck_assert(ctx->cache == NULL);
    spc_ctx_free(ctx);
    unlink(at("spctune/spctune.db"));
    rmdir(at("spctune"));
}
END_TEST

/* Databases of this machine or next to the build must not affect tests. */
START_TEST(a_suite_has_the_databases_that_it_chooses)
{
    const char *device = suite_device != NULL ? suite_device : "cpu";
    spc_ctx *nameless = open_ctx(device, NULL, NULL);
    spc_ctx *own = open_ctx(device, at("chosen.db"), NULL);

    ck_assert_ptr_null(nameless->cache);
    ck_assert_ptr_null(nameless->shipped);
    ck_assert_ptr_nonnull(own->cache);
    ck_assert_ptr_null(own->shipped);
    spc_ctx_free(nameless);
    spc_ctx_free(own);
}
END_TEST

START_TEST(memory_of_the_device_copies_both_ways)
{
    spc_ctx *ctx = open_ctx("cpu", "", NULL);
    char there[] = "there", back[6] = "";
    void *memory, *nothing;

    assert_ok(spc_memory_alloc(&memory, ctx, sizeof(there)),
              spc_ctx_error(ctx));
    assert_ok(spc_memory_alloc(&nothing, ctx, 0), spc_ctx_error(ctx));
    assert_ok(spc_memory_upload(memory, ctx, there, sizeof(there)), "");
    assert_ok(spc_memory_download(back, ctx, memory, sizeof(back)), "");
    ck_assert_str_eq(back, there);
    spc_memory_free(ctx, memory);
    spc_memory_free(ctx, nothing);
    spc_memory_free(ctx, NULL);
    spc_ctx_free(ctx);
}
END_TEST

START_TEST(devices_are_listed_and_counted_whatever_the_room)
{
    spc_device_info infos[16];
    int all = spc_devices_list(infos, 16);

    ck_assert_int_ge(all, 2); /* at least cpu and sim */
    ck_assert_int_eq(spc_devices_list(NULL, 0), all);
    ck_assert_int_eq(spc_devices_list(infos, 1), all);
    ck_assert_str_ne(infos[0].id, "");
}
END_TEST

/* ---- from a layer's text to its checked result --------------------------- */

/* Compiling for the emulation takes seconds per case. Only the first cases,
 * which differ most, run on both devices. The others run on the cpu. */
static const struct {
    const char *layer, *scene;
} cases[] = {
    {"subm,cin=3,cout=5,dtype=f32,bias=1", "gen:uniform,n=400,extent=10"},
    {"subm,cin=64,cout=64,dtype=f16,bias=1", "gen:uniform,n=300,extent=9"},
    {"subm,cin=7,cout=9,k=2,dtype=f16", "gen:uniform,n=300,extent=9"},
    {"subm,cin=4,cout=4,k=7,dtype=f16", "gen:uniform,n=200,extent=14"},
    {"subm,cin=8,cout=130,dtype=f16,deterministic=1",
     "gen:uniform,n=300,extent=10"},
    {"subm,cin=1,cout=1,k=1,dtype=f32", "gen:uniform,n=1"},
    {"subm,cin=16,cout=24,dtype=f16", "gen:uniform,n=400,extent=10"},
    {"subm,cin=33,cout=17,k=2x3x1,dtype=f32", "gen:uniform,n=300,extent=9"},
    {"subm,cin=8,cout=8,k=5,dtype=f16", "gen:uniform,n=300,extent=12"},
    {"subm,cin=8,cout=8,dilation=2,dtype=f32", "gen:uniform,n=300,extent=12"},
    {"subm,cin=32,cout=32,dtype=tf32", "gen:uniform,n=300,extent=10"},
    {"subm,cin=4,cout=4,dtype=f16", "gen:uniform,n=2,extent=2"},
};
enum { ON_BOTH = 5 };

static const char *const devices[] = {"cpu", "sim"};

/* Returns the device given as an argument, or one that every machine has. */
static const char *device_or(const char *otherwise)
{
    return suite_device != NULL ? suite_device : otherwise;
}

static void check_case(const char *device, int i)
{
    harness r;

    harness_open(&r, open_ctx(device, suite_database(), NULL), cases[i].layer,
                 cases[i].scene);
    assert_ok(spc_plan_create(&r.plan, r.ctx, &r.conv, r.map, 0),
              spc_ctx_error(r.ctx));
    ck_assert_int_eq(spc_plan_match(r.plan), SPC_MATCH_DEFAULT);
    assert_says(spc_plan_reason(r.plan), "default");
    harness_prepare(&r, SPC_KRSC);
    harness_check(&r);
    harness_close(&r);
}

START_TEST(every_layer_gives_the_oracles_result)
{
    check_case(device_or("cpu"), _i);
}
END_TEST

START_TEST(the_emulated_gpu_gives_the_oracles_result)
{
    check_case("sim", _i);
}
END_TEST

/* The scene has batch elements, negative coordinates and rows in random order.
 * Rows of features must be the caller's rows. */
START_TEST(rows_keep_the_callers_order_across_batches)
{
    int32_t coords[240][4];
    harness r;

    for (int i = 0; i < 240; i++) {
        int j = i * 97 % 240; /* a permutation */
        coords[i][0] = j % 3;
        coords[i][1] = j / 3 % 4 - 2;
        coords[i][2] = j / 12 % 5 - 7;
        coords[i][3] = j / 60 - 1;
    }
    harness_open(&r, open_ctx(device_or(devices[_i]), suite_database(), NULL),
                 "subm,cin=6,cout=10,dtype=f32,bias=1", "gen:uniform,n=1");
    spc_scene_free(r.scene);
    spc_map_free(r.map);
    assert_ok(spc_scene_create(&r.scene, coords[0], 240, "mixed", &error),
              error.text);
    assert_ok(spc_map_create_from_scene(&r.map, r.ctx, &r.conv, r.scene),
              spc_ctx_error(r.ctx));
    assert_ok(spc_plan_create(&r.plan, r.ctx, &r.conv, r.map, 0),
              spc_ctx_error(r.ctx));
    harness_prepare(&r, SPC_KRSC);
    harness_check(&r);
    harness_close(&r);
}
END_TEST

START_TEST(no_voxels_are_no_trouble)
{
    harness r;

    harness_open(&r, open_ctx(device_or(devices[_i]), suite_database(), NULL),
                 "subm,cin=4,cout=4", "gen:uniform,n=1");
    spc_map_free(r.map);
    assert_ok(spc_map_create_from_rows(&r.map, r.ctx, &r.conv, NULL, 0, NULL),
              spc_ctx_error(r.ctx));
    assert_ok(spc_plan_create(&r.plan, r.ctx, &r.conv, r.map, 0),
              spc_ctx_error(r.ctx));
    assert_ok(spc_plan_execute(r.plan, r.map, &r.buffers, NULL),
              spc_ctx_error(r.ctx));
    harness_close(&r);
}
END_TEST

/* Returns the same weights in the other layout. */
START_TEST(both_weight_layouts_pack_to_the_same_bytes)
{
    harness r;

    harness_open(&r, open_ctx(device_or(devices[_i]), suite_database(), NULL),
                 "subm,cin=6,cout=5,k=3x2x1,dtype=f32", "gen:uniform,n=50");
    assert_ok(spc_plan_create(&r.plan, r.ctx, &r.conv, r.map, 0),
              spc_ctx_error(r.ctx));
    harness_prepare(&r, SPC_RSCK);
    float rsck[6][6][5];
    const float *krsc = r.sample.weights[SPC__REAL];
    for (int k = 0; k < 6; k++)
        for (int ci = 0; ci < 6; ci++)
            for (int co = 0; co < 5; co++)
                rsck[k][ci][co] = krsc[(co * 6 + k) * 6 + ci];
    void *other;
    assert_ok(spc_memory_alloc(&other, r.ctx, sizeof(rsck)), "");
    assert_ok(spc_memory_upload(other, r.ctx, rsck, sizeof(rsck)), "");
    assert_ok(spc_plan_pack(r.packed, r.plan, other, SPC_RSCK, NULL),
              spc_ctx_error(r.ctx));
    harness_check(&r);
    spc_memory_free(r.ctx, other);
    harness_close(&r);
}
END_TEST

/* ---- the execute path ---------------------------------------------------- */

static void open_probe(harness *r)
{
    harness_open(r, open_ctx(device_or("cpu"), suite_database(), NULL),
                 "subm,cin=8,cout=8,dtype=f32,bias=1",
                 "gen:uniform,n=500,extent=10");
    assert_ok(spc_plan_create(&r->plan, r->ctx, &r->conv, r->map, 0),
              spc_ctx_error(r->ctx));
    harness_prepare(r, SPC_KRSC);
}

START_TEST(executing_allocates_nothing)
{
    harness r;

    open_probe(&r);
    harness_check(&r);
    atomic_store(&watching, 1);
    spc_status status = SPC_OK;
    for (int i = 0; i < 20 && status == SPC_OK; i++)
        status = spc_plan_execute(r.plan, r.map, &r.buffers, NULL);
    atomic_store(&watching, 0);
    assert_ok(status, spc_ctx_error(r.ctx));
    ck_assert_int_eq(atomic_load(&allocations), 0);
    harness_close(&r);
}
END_TEST

START_TEST(a_bad_buffer_is_named)
{
    static const char *const names[] = {"in",   "out", "weights",
                                        "bias", "in",  "out"};
    harness r;

    open_probe(&r);
    spc_buffers bad = r.buffers;
    switch (_i) {
    case 0:
        bad.in = NULL;
        break;
    case 1:
        bad.out = NULL;
        break;
    case 2:
        bad.weights = NULL;
        break;
    case 3:
        bad.bias = NULL;
        break;
    case 4:
        bad.in = (const char *)bad.in + 8;
        break;
    default:
        bad.out = (char *)bad.out + 4;
        break;
    }
    ck_assert_int_eq(spc_plan_execute(r.plan, r.map, &bad, NULL), SPC_EINVAL);
    assert_says(spc_ctx_error(r.ctx), names[_i]);
    harness_close(&r);
}
END_TEST

/* No operand may overlap memory that is written. */
START_TEST(buffers_that_overlap_are_refused)
{
    harness r;

    open_probe(&r);
    size_t rows = (size_t)spc_map_rows_out(r.map);
    spc_buffers bad = r.buffers;
    switch (_i) {
    case 0:
        bad.out = (void *)(uintptr_t)bad.in;
        break;
    case 1: /* overlaps the output's last row */
        bad.out = (char *)(uintptr_t)bad.in +
                  (rows - 1) * (size_t)r.conv.cin * sizeof(float);
        break;
    case 2:
        bad.out = (void *)(uintptr_t)bad.weights;
        break;
    default:
        bad.out = (void *)(uintptr_t)bad.bias;
        break;
    }
    ck_assert_int_eq(spc_plan_execute(r.plan, r.map, &bad, NULL), SPC_EINVAL);
    assert_says(spc_ctx_error(r.ctx), "overlap");
    assert_says(spc_ctx_error(r.ctx), "`out`");
    assert_ok(spc_plan_execute(r.plan, r.map, &r.buffers, NULL),
              spc_ctx_error(r.ctx));
    harness_close(&r);
}
END_TEST

/* Layers may read and write slices of one concatenation. */
START_TEST(slices_of_one_buffer_do_not_overlap)
{
    harness r;

    harness_open(&r, open_ctx("cpu", "", NULL),
                 _i == 0
                     ? "subm,cin=8,cout=8,dtype=f32,in_pitch=16,out_pitch=16"
                     : "subm,cin=8,cout=8,dtype=f32,in_pitch=12,out_pitch=12",
                 "gen:uniform,n=50,extent=6");
    assert_ok(spc_plan_create(&r.plan, r.ctx, &r.conv, r.map, 0),
              spc_ctx_error(r.ctx));
    harness_prepare(&r, SPC_KRSC);
    size_t rows = (size_t)spc_map_rows_out(r.map);
    float *both = calloc(rows + 1, 16 * sizeof(float));
    spc_buffers slices = r.buffers;
    slices.in = both + 8 * (size_t)(_i == 0);
    slices.out = both + 8 * (size_t)(_i == 1);
    ck_assert_int_eq(spc_plan_execute(r.plan, r.map, &slices, NULL),
                     _i == 0 ? SPC_OK : SPC_EINVAL);
    free(both);
    harness_close(&r);
}
END_TEST

START_TEST(another_map_must_be_prepared_first)
{
    spc_map *other;
    harness r;

    open_probe(&r);
    assert_ok(spc_map_create_from_scene(&other, r.ctx, &r.conv, r.scene),
              spc_ctx_error(r.ctx));
    ck_assert_int_eq(spc_plan_execute(r.plan, other, &r.buffers, NULL),
                     SPC_ESTATE);
    assert_says(spc_ctx_error(r.ctx), "spc_map_prepare");
    assert_ok(spc_map_prepare(other, r.plan, NULL), spc_ctx_error(r.ctx));
    assert_ok(spc_plan_execute(r.plan, other, &r.buffers, NULL),
              spc_ctx_error(r.ctx));
    spc_map_free(other);
    harness_close(&r);
}
END_TEST

START_TEST(a_plan_refuses_what_makes_no_sense)
{
    spc_plan *plan;
    harness r;

    open_probe(&r);
    ck_assert_int_eq(spc_plan_create(&plan, r.ctx, &r.conv, r.map, 1u << 9),
                     SPC_EINVAL);
    ck_assert_int_eq(spc_plan_create(&plan, r.ctx, &r.conv, NULL, 0),
                     SPC_EINVAL);
    r.conv.cin = 0;
    ck_assert_int_eq(spc_plan_create(&plan, r.ctx, &r.conv, r.map, 0),
                     SPC_EINVAL);
    ck_assert(plan == NULL);
    ck_assert_int_eq(spc_plan_pack(r.packed, r.plan, r.sample.weights,
                                   (spc_weights_layout)5, NULL),
                     SPC_EINVAL);
    ck_assert_int_eq(
        spc_plan_pack(r.packed, r.plan, (char *)r.packed + 1, SPC_KRSC, NULL),
        SPC_EINVAL);
    assert_says(spc_ctx_error(r.ctx), "buffer `weights` is at");
    ck_assert_int_eq(spc_plan_pack(r.packed, r.plan, r.packed, SPC_KRSC, NULL),
                     SPC_EINVAL);
    assert_says(spc_ctx_error(r.ctx), "`packed` and `weights` overlap");
    harness_close(&r);
}
END_TEST

/* Launch geometries that a template must not declare, each with one wrong
 * attribute. */
static const struct {
    const char *launch, *says;
} bad_launches[] = {
    {"tile_rows=16,packed_bytes=4,pack_threads=1", "block=0"},
    {"block=1,packed_bytes=4,pack_threads=1", "tile_rows=0"},
    {"block=1,tile_rows=16,pack_threads=1", "packed_bytes=0"},
    {"block=1,tile_rows=16,packed_bytes=4", "pack_threads=0"},
    {"block=2000,tile_rows=16,packed_bytes=4,pack_threads=1", "block=2000"},
    {"order=random,block=1,tile_rows=1,packed_bytes=4,pack_threads=1",
     "order=random"},
    {"grid=some,block=1,tile_rows=1,packed_bytes=4,pack_threads=1",
     "grid=some"},
    {"layout=heap,block=1,tile_rows=1,packed_bytes=4,pack_threads=1",
     "layout=heap: expected table, pairs, both, triplets, bundles or inputs"},
    {"cluster=9,block=1,tile_rows=1,packed_bytes=4,pack_threads=1",
     "cluster=9: expected 1 to 8"},
    {"block=1,tile_rows=1536,packed_bytes=4,pack_threads=1", "1 to 768"},
    {"block=1,tile_rows=20,packed_bytes=4,pack_threads=1", "divisor of 768"},
    {"block=1,tile_rows=16,packed_bytes=4,pack_threads=9223372036854775807",
     "expected 1 to 2147483647"},
    {"grid=persistent,blocks_per_sm=4294967297,block=1,tile_rows=16,"
     "packed_bytes=4,pack_threads=1",
     "blocks_per_sm=4294967297"},
};

START_TEST(a_launch_geometry_that_cannot_be_is_a_template_error)
{
    spc__code code;
    spc__attrs problem;
    spc_plan *plan;
    harness r;

    open_probe(&r);
    spc__conv_attrs(&problem, &r.conv);
    assert_ok(spc__ctx_code(&code, r.ctx, spc_plan_template(r.plan), &problem,
                            NULL, 0),
              spc_ctx_error(r.ctx));
    assert_ok(spc__attrs_parse(&code.launch, bad_launches[_i].launch, &error),
              error.text);
    ck_assert_int_eq(
        spc__plan_create_from(&plan, r.ctx, &r.conv, &code, "probe", "a=1"),
        SPC_ETEMPLATE);
    ck_assert(plan == NULL);
    assert_says(spc_ctx_error(r.ctx), bad_launches[_i].says);
    harness_close(&r);
}
END_TEST

/* Eight threads share one plan, and each has its own output. One in four calls
 * fails, differently in each thread. Every thread must find its own message,
 * while another thread uses the context for something else. */
enum { THREADS = 8, ROUNDS = 20 };

typedef struct runner {
    const harness *r;
    int number;
    void *out;
    int failed;
} runner;

/* Makes the buffer on which thread `number` fails invalid. Returns the buffer's
 * name. */
static const char *spoil(spc_buffers *buffers, int number)
{
    switch (number % 4) {
    case 0:
        buffers->in = NULL;
        return "`in` is NULL";
    case 1:
        buffers->out = (char *)buffers->out + 4;
        return "`out` is at";
    case 2:
        buffers->weights = NULL;
        return "`weights` is NULL";
    default:
        buffers->bias = NULL;
        return "`bias` is NULL";
    }
}

static void *run_often(void *payload)
{
    runner *self = payload;
    const harness *r = self->r;

    self->failed += strcmp(spc_ctx_error(r->ctx), "") != 0;
    for (int i = 0; i < ROUNDS; i++) {
        spc_buffers buffers = r->buffers;
        buffers.out = self->out;
        self->failed +=
            spc_plan_execute(r->plan, r->map, &buffers, NULL) != SPC_OK;
        const char *says = spoil(&buffers, self->number);
        self->failed +=
            spc_plan_execute(r->plan, r->map, &buffers, NULL) != SPC_EINVAL;
        self->failed += strstr(spc_ctx_error(r->ctx), says) == NULL;
    }
    return NULL;
}

static void assert_equal_on_device(const harness *r, const void *a,
                                   const void *b)
{
    size_t bytes = r->fixture->out.bytes;
    char *host = malloc(2 * bytes);

    assert_ok(spc_memory_download(host, r->ctx, a, bytes),
              spc_ctx_error(r->ctx));
    assert_ok(spc_memory_download(host + bytes, r->ctx, b, bytes),
              spc_ctx_error(r->ctx));
    ck_assert_mem_eq(host, host + bytes, bytes);
    free(host);
}

START_TEST(eight_threads_execute_one_plan_at_a_time)
{
    pthread_t threads[THREADS];
    runner runners[THREADS];
    harness r;

    open_probe(&r);
    harness_check(&r);
    for (int i = 0; i < THREADS; i++) {
        runners[i] = (runner){.r = &r, .number = i};
        assert_ok(
            spc_memory_alloc(&runners[i].out, r.ctx, r.fixture->out.bytes), "");
        ck_assert_int_eq(
            pthread_create(&threads[i], NULL, run_often, &runners[i]), 0);
    }
    for (int i = 0; i < 50; i++) {
        spc_plan *plan;
        ck_assert_int_eq(spc_plan_create(&plan, r.ctx, &r.conv, NULL, 0),
                         SPC_EINVAL);
        assert_says(spc_ctx_error(r.ctx), "`map`");
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        ck_assert_int_eq(runners[i].failed, 0);
        assert_equal_on_device(&r, runners[i].out, r.fixture->out.data);
        spc_memory_free(r.ctx, runners[i].out);
    }
    harness_close(&r);
}
END_TEST

/* ---- bench, ceilings ---------------------------------------------- */

START_TEST(the_bench_checks_and_times_everything)
{
    spc_ctx *ctx = open_ctx(device_or("cpu"), suite_database(), NULL);
    spc_bench_result result;
    spc_scene *scene;
    spc_conv conv;

    assert_ok(spc_conv_parse(&conv, "subm,cin=16,cout=16,bias=1", &error),
              error.text);
    assert_ok(spc_scene_load(&scene, "gen:uniform,n=2000,extent=20", &error),
              error.text);
    assert_ok(spc_bench(&result, ctx, &conv, scene, 1), spc_ctx_error(ctx));
    ck_assert(result.warm_us > 0 && result.cold_us > 0);
    ck_assert(result.index_us > 0 && result.layout_us >= 0);
    ck_assert(result.error <= 1 && result.samples > 0);
    ck_assert_double_eq(result.gathered_bytes * 16, result.flops);
    ck_assert_int_eq(result.match, SPC_MATCH_DEFAULT);
    spc_scene_free(scene);
    spc_ctx_free(ctx);
}
END_TEST

START_TEST(what_takes_long_ends_when_its_context_is_cancelled)
{
    static const volatile int cancel = 1;
    spc_map *map = NULL;
    spc_ctx *ctx = open_ctx(device_or("cpu"), suite_database(), NULL);
    spc_bench_result result;
    spc_scene *scene, *empty;
    spc_conv conv;

    assert_ok(spc_conv_parse(&conv, "subm,cin=16,cout=16", &error), error.text);
    assert_ok(spc_scene_load(&scene, "gen:uniform,n=200,extent=10", &error),
              error.text);
    ck_assert_int_eq(spc_bench(&result, ctx, &conv, NULL, 1), SPC_EINVAL);
    ck_assert_int_eq(spc_bench(&result, ctx, NULL, scene, 1), SPC_EINVAL);
    assert_ok(spc_scene_create(&empty, NULL, 0, "void", &error), error.text);
    ck_assert_int_eq(spc_bench(&result, ctx, &conv, empty, 1), SPC_EINVAL);
    assert_says(spc_ctx_error(ctx), "scene 'void' has no voxels");
    spc_scene_free(empty);
    assert_ok(spc_map_create_from_scene(&map, ctx, &conv, scene),
              spc_ctx_error(ctx));
    ctx->cancel = &cancel;
    ck_assert_int_eq(spc_bench(&result, ctx, &conv, scene, 1),
                     SPC_EINTERRUPTED);
    ck_assert_double_eq(result.warm_us, 0);
    ck_assert_int_eq(spc_device_measure(ctx), SPC_EINTERRUPTED);
    ck_assert_int_eq(spc__map_prepare(map, "gray", 0, NULL), SPC_EINTERRUPTED);
    spc_map_free(map);
    ck_assert_int_eq(spc_map_create_from_scene(&map, ctx, &conv, scene),
                     SPC_EINTERRUPTED);
    ck_assert_ptr_null(map);
    ck_assert_str_eq(spc_ctx_error(ctx), "interrupted");
    spc_scene_free(scene);
    spc_ctx_free(ctx);
}
END_TEST

#ifndef SPC_SANITIZE /* copying gigabytes would take minutes */
START_TEST(a_measured_device_remembers_its_ceilings)
{
    spc_ctx *ctx = open_ctx(device_or("cpu"), at("own.db"), NULL);
    spc_device_info first, again;

    use_decimal_comma(); /* a host program may do this */
    assert_ok(spc_device_measure(ctx), spc_ctx_error(ctx));
    spc_ctx_device(&first, ctx);
    ck_assert(first.memory.copy_gbps > 0.1 && first.cache.read_gbps > 0.1);
    ck_assert(first.f16_tflops > 1e-4 && first.tf32_tflops > 1e-4);
    ck_assert(first.f32_tflops > 1e-4 && first.launch_us > 0);
    spc_ctx_free(ctx);
    ctx = open_ctx(device_or("cpu"), at("own.db"), NULL);
    spc_ctx_device(&again, ctx);
    ck_assert_double_eq_tol(again.memory.copy_gbps, first.memory.copy_gbps,
                            1e-5 * first.memory.copy_gbps);
    ck_assert_int_eq(spc_ctx_stats(ctx).compiles, 0);
    spc_ctx_free(ctx);
}
END_TEST
#endif

/* ---- missing objects ----------------------------------------------------- */

static spc_status tell_nothing(const spc_db_row *row, void *payload)
{
    (void)row;
    (void)payload;
    return SPC_OK;
}

static void see_nothing(const spc_trial *trial, void *payload)
{
    (void)trial;
    (void)payload;
}

/* Every public function with a status, for each pointer that it needs. A row
 * has the name in the message ("": no object keeps the message), the location
 * of the message, and the call. */
#define CALLS_WITHOUT(X)                                                       \
    X("`out`", error.text, spc_ctx_create(NULL, NULL, &error))                 \
    X("`layers`", error.text, spc_ctx_create(&other, &no_layers, &error))      \
    X("`layers[0]`", error.text, spc_ctx_create(&other, &no_layer, &error))    \
    X("", "", spc_ctx_device(&info, NULL))                                     \
    X("`out`", told, spc_ctx_device(NULL, ctx))                                \
    X("", "", spc_device_measure(NULL))                                        \
    X("`out`", told, spc_memory_alloc(NULL, ctx, 1))                           \
    X("", "", spc_memory_alloc(&memory, NULL, 1))                              \
    X("", "", spc_memory_upload(buffer, NULL, buffer, 1))                      \
    X("`device`", told, spc_memory_upload(NULL, ctx, buffer, 1))               \
    X("`host`", told, spc_memory_upload(buffer, ctx, NULL, 1))                 \
    X("", "", spc_memory_download(buffer, NULL, buffer, 1))                    \
    X("`host`", told, spc_memory_download(NULL, ctx, buffer, 1))               \
    X("`device`", told, spc_memory_download(buffer, ctx, NULL, 1))             \
    X("", "", spc_ctx_synchronize(NULL))                                       \
    X("`out`", error.text, spc_conv_parse(NULL, "subm,cin=1,cout=1", &error))  \
    X("empty", error.text, spc_conv_parse(&conv, NULL, &error))                \
    X("`conv`", error.text, spc_conv_check(NULL, &error))                      \
    X("`out`", error.text, spc_scene_load(NULL, "gen:uniform", &error))        \
    X("specification", error.text, spc_scene_load(&scene, NULL, &error))       \
    X("`out`", error.text, spc_scene_create(NULL, buffer, 1, "", &error))      \
    X("NULL", error.text, spc_scene_create(&scene, NULL, 1, "", &error))       \
    X("`out`", told,                                                           \
      spc_map_create_from_rows(NULL, ctx, &r.conv, buffer, 1, NULL))           \
    X("", "", spc_map_create_from_rows(&map, NULL, &r.conv, buffer, 1, NULL))  \
    X("`conv`", told,                                                          \
      spc_map_create_from_rows(&map, ctx, NULL, buffer, 1, NULL))              \
    X("without coordinates", told,                                             \
      spc_map_create_from_rows(&map, ctx, &r.conv, NULL, 1, NULL))             \
    X("`out`", told, spc_map_create_from_scene(NULL, ctx, &r.conv, r.scene))   \
    X("", "", spc_map_create_from_scene(&map, NULL, &r.conv, r.scene))         \
    X("`conv`", told, spc_map_create_from_scene(&map, ctx, NULL, r.scene))     \
    X("`scene`", told, spc_map_create_from_scene(&map, ctx, &r.conv, NULL))    \
    X("", "", spc_map_download(buffer, NULL))                                  \
    X("`index`", told, spc_map_download(NULL, r.map))                          \
    X("`out`", told, spc_plan_create(NULL, ctx, &r.conv, r.map, 0))            \
    X("", "", spc_plan_create(&plan, NULL, &r.conv, r.map, 0))                 \
    X("`conv`", told, spc_plan_create(&plan, ctx, NULL, r.map, 0))             \
    X("`map`", told, spc_plan_create(&plan, ctx, &r.conv, NULL, 0))            \
    X("", "", spc_plan_pack(buffer, NULL, buffer, SPC_KRSC, NULL))             \
    X("`packed`", told, spc_plan_pack(NULL, r.plan, buffer, SPC_KRSC, NULL))   \
    X("`weights`", told,                                                       \
      spc_plan_pack(r.packed, r.plan, NULL, SPC_KRSC, NULL))                   \
    X("`map`", told, spc_map_prepare(NULL, r.plan, NULL))                      \
    X("`plan`", told, spc_map_prepare(r.map, NULL, NULL))                      \
    X("", "", spc_map_prepare(NULL, NULL, NULL))                               \
    X("`plan`", told, spc_plan_execute(NULL, r.map, &r.buffers, NULL))         \
    X("`map`", told, spc_plan_execute(r.plan, NULL, &r.buffers, NULL))         \
    X("buffers", told, spc_plan_execute(r.plan, r.map, NULL, NULL))            \
    X("", "", spc_bench(&result, NULL, &r.conv, r.scene, 1))                   \
    X("`conv`", told, spc_bench(&result, ctx, NULL, r.scene, 1))               \
    X("`scene`", told, spc_bench(&result, ctx, &r.conv, NULL, 1))              \
    X("`out`", told, spc_bench(NULL, ctx, &r.conv, r.scene, 1))                \
    X("", "", spc_tune(NULL, NULL, &r.conv, &one_scene, 1, NULL))              \
    X("NULL", told, spc_tune(NULL, ctx, NULL, &one_scene, 1, NULL))            \
    X("scene", told, spc_tune(NULL, ctx, &r.conv, NULL, 1, NULL))              \
    X("", "", spc_tune_worker(NULL))                                           \
    X("", "", spc_candidate_render(&text, NULL, &r.conv, NULL, 0))             \
    X("`conv`", told, spc_candidate_render(&text, ctx, NULL, NULL, 0))         \
    X("`out`", told, spc_candidate_render(NULL, ctx, &r.conv, NULL, 0))        \
    X("", "", spc_db_each(NULL, tell_nothing, NULL))                           \
    X("`each`", told, spc_db_each(ctx, NULL, NULL))                            \
    X("", "", spc_db_each_trial(NULL, 1, see_nothing, NULL))                   \
    X("`each`", told, spc_db_each_trial(ctx, 1, NULL, NULL))

START_TEST(what_is_null_is_refused_and_named)
{
    static const char *const nowhere[] = {NULL};
    const spc_ctx_options no_layers = {.bytes = sizeof(spc_ctx_options),
                                       .layer_count = 1};
    const spc_ctx_options no_layer = {
        .bytes = sizeof(spc_ctx_options), .layers = nowhere, .layer_count = 1};
    int32_t buffer[64] = {0};
    const spc_scene *one_scene;
    char *text;
    spc_ctx *other;
    void *memory;
    spc_device_info info;
    spc_bench_result result;
    spc_scene *scene;
    spc_plan *plan;
    spc_conv conv;
    spc_map *map;
    harness r;

    open_probe(&r);
    spc_ctx *ctx = r.ctx;
    one_scene = r.scene;
#define X(says, where, call)                                                   \
    spc__error_clear(&error);                                                  \
    spc__error_clear(spc__error_of(ctx));                                      \
    ck_assert_msg((call) == SPC_EINVAL, "%s", #call);                          \
    assert_says((where), (says));
#define told spc_ctx_error(ctx)
    CALLS_WITHOUT(X)
#undef told
#undef X
    ck_assert(memory == NULL && scene == NULL && map == NULL && plan == NULL);
    ck_assert_ptr_null(text);
    ck_assert(other == NULL);
    harness_close(&r);
}
END_TEST

/* Functions that answer a query, free something or have no status. */
START_TEST(null_has_no_rows_and_no_name)
{
    double out[4] = {7};
    char text[8] = "before";

    spc_ctx_free(NULL);
    spc_memory_free(NULL, NULL);
    spc_scene_free(NULL);
    spc_map_free(NULL);
    spc_plan_free(NULL);
    spc_oracle_sums(out, NULL, NULL, NULL, 1, NULL, NULL, NULL, 1);
    spc_oracle_sums(NULL, NULL, NULL, NULL, 1, NULL, NULL, NULL, 1);
    ck_assert_double_eq(out[0], 7);
    assert_says(spc_ctx_error(NULL), "the context is NULL");
    ck_assert_int_eq(spc_ctx_stats(NULL).lookups, 0);
    ck_assert_int_ge(spc_devices_list(NULL, 5), 2);
    ck_assert_int_eq(spc_conv_format(text, sizeof(text), NULL), 0);
    ck_assert_str_eq(text, "");
    ck_assert_int_eq(spc_conv_format(NULL, 9, &(spc_conv)SPC_CONV_INIT),
                     spc_conv_format(NULL, 0, &(spc_conv)SPC_CONV_INIT));
    ck_assert(spc_scene_rows(NULL) == 0 && spc_scene_coords(NULL) == NULL);
    ck_assert_str_eq(spc_scene_name(NULL), "");
    ck_assert(spc_map_rows_out(NULL) == 0 && spc_map_pairs(NULL) == 0);
    ck_assert(spc_map_density(NULL) == 0 && spc_map_key_bits(NULL) == 0);
    ck_assert_int_eq(spc_plan_match(NULL), SPC_MATCH_DEFAULT);
    ck_assert_str_eq(spc_plan_reason(NULL), "");
    ck_assert_str_eq(spc_plan_template(NULL), "");
    ck_assert_str_eq(spc_plan_config(NULL), "");
    ck_assert_uint_eq(spc_plan_weights_bytes(NULL), 0);
    ck_assert_uint_eq(spc_plan_workspace_bytes(NULL, NULL), 0);
}
END_TEST

/* ---- suite --------------------------------------------------------------- */

static TCase *add_case(Suite *suite, const char *name)
{
    TCase *tcase = tcase_create(name);
    tcase_set_timeout(tcase, 120);
    tcase_add_checked_fixture(tcase, make_folder, remove_folder);
    suite_add_tcase(suite, tcase);
    return tcase;
}

static void add_layers(TCase *tcase)
{
    tcase_add_loop_test(tcase, a_layer_reads_back_as_its_canonical_text, 0,
                        LENGTH(layers));
    tcase_add_loop_test(tcase, a_bad_layer_is_refused_with_what_would_be_right,
                        0, LENGTH(bad_layers));
    tcase_add_test(tcase, mutated_layers_are_read_or_refused_and_nothing_else);
    tcase_add_test(tcase, a_bad_layer_value_is_refused);
    tcase_add_loop_test(tcase, a_layer_becomes_attrs_and_comes_back, 0,
                        LENGTH(layers));
}

static void add_contexts(TCase *tcase)
{
    tcase_add_loop_test(tcase,
                        a_device_that_is_not_there_is_refused_in_one_sentence,
                        0, LENGTH(bad_devices));
    tcase_add_loop_test(tcase, a_bad_database_is_a_warning_unless_it_is_needed,
                        0, LENGTH(bad_databases));
    tcase_add_test(tcase, a_layer_that_is_missing_leaves_the_others_in_use);
    tcase_add_test(tcase, the_database_is_found_where_the_environment_says);
    tcase_add_test(tcase, a_suite_has_the_databases_that_it_chooses);
    tcase_add_test(tcase, memory_of_the_device_copies_both_ways);
    tcase_add_test(tcase, devices_are_listed_and_counted_whatever_the_room);
}

static void add_results(TCase *tcase)
{
    int both = LENGTH(devices);

    tcase_add_loop_test(tcase, every_layer_gives_the_oracles_result, 0,
                        LENGTH(cases));
    tcase_add_loop_test(tcase, the_emulated_gpu_gives_the_oracles_result, 0,
                        ON_BOTH);
    tcase_add_loop_test(tcase, rows_keep_the_callers_order_across_batches, 0,
                        both);
    tcase_add_loop_test(tcase, no_voxels_are_no_trouble, 0, both);
    tcase_add_loop_test(tcase, both_weight_layouts_pack_to_the_same_bytes, 0,
                        both);
}

static void add_execution(TCase *tcase)
{
    tcase_add_test(tcase, executing_allocates_nothing);
    tcase_add_loop_test(tcase, a_bad_buffer_is_named, 0, 6);
    tcase_add_loop_test(tcase, buffers_that_overlap_are_refused, 0, 4);
    tcase_add_loop_test(tcase, slices_of_one_buffer_do_not_overlap, 0, 2);
    tcase_add_test(tcase, another_map_must_be_prepared_first);
    tcase_add_test(tcase, a_plan_refuses_what_makes_no_sense);
    tcase_add_loop_test(tcase,
                        a_launch_geometry_that_cannot_be_is_a_template_error, 0,
                        LENGTH(bad_launches));
    tcase_add_test(tcase, eight_threads_execute_one_plan_at_a_time);
}

static void add_nulls(TCase *tcase)
{
    tcase_add_test(tcase, what_is_null_is_refused_and_named);
    tcase_add_test(tcase, null_has_no_rows_and_no_name);
}

static void add_figures(TCase *tcase)
{
    tcase_add_test(tcase, the_bench_checks_and_times_everything);
    tcase_add_test(tcase, what_takes_long_ends_when_its_context_is_cancelled);
#ifndef SPC_SANITIZE
    tcase_add_test(tcase, a_measured_device_remembers_its_ceilings);
#endif
}

/* Tests that run on a GPU. The other tests do not depend on the device. */
static void add_device(Suite *suite)
{
    TCase *results = add_case(suite, "results");
    TCase *execution = add_case(suite, "the execute path");

    tcase_add_loop_test(results, every_layer_gives_the_oracles_result, 0,
                        LENGTH(cases));
    tcase_add_loop_test(results, rows_keep_the_callers_order_across_batches, 0,
                        1);
    tcase_add_loop_test(results, no_voxels_are_no_trouble, 0, 1);
    tcase_add_loop_test(results, both_weight_layouts_pack_to_the_same_bytes, 0,
                        1);
    tcase_add_test(execution, executing_allocates_nothing);
    tcase_add_loop_test(execution, a_bad_buffer_is_named, 0, 6);
    tcase_add_test(execution, another_map_must_be_prepared_first);
    tcase_add_test(execution, a_plan_refuses_what_makes_no_sense);
    tcase_add_test(execution, eight_threads_execute_one_plan_at_a_time);
    tcase_add_test(execution, the_bench_checks_and_times_everything);
#ifndef SPC_SANITIZE
    tcase_add_test(execution, a_measured_device_remembers_its_ceilings);
#endif
}

int main(int argc, char **argv)
{
    int status = suite_open(argc, argv);
    if (status != 0)
        return status;
    Suite *suite = suite_create("runtime");

    if (suite_device != NULL) {
        add_device(suite);
        return run_suite(suite);
    }
    add_layers(add_case(suite, "layers as text"));
    add_contexts(add_case(suite, "contexts"));
    add_results(add_case(suite, "results"));
    add_execution(add_case(suite, "the execute path"));
    add_nulls(add_case(suite, "what is not there"));
    add_figures(add_case(suite, "figures"));
    return run_suite(suite);
}
