/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_large.c - tensors of more than 2^31 elements. They have a full box of
 * voxels, whose relation and results are known without an oracle.
 *
 *     test_large [sim|cpu|cuda]
 *
 * On "cuda" the box has 225 voxels along each axis and 192 channels (2.2 * 10^9
 * elements, 4.4 GB per tensor; skipped with less than 40 GB). On other devices
 * it has 11, which checks the test itself.
 */
#include "base/dtype.h"
#include "context/ctx.h"
#include "harness/layer_harness.h"
#include "harness/suite.h"
#include "operators/conv.h"
#include "plan/plan.h"

#include <stdlib.h>

enum { CHANNELS = 192, PERIOD = 61, SAMPLES = 48, LARGE = 225, SMALL = 11 };

static const size_t memory_needed = (size_t)40 << 30;

static spc_ctx *ctx;
static int side; /* voxels along each axis of the box */

/* ---- memory -------------------------------------------------------------- */

static int64_t cube(int edge)
{
    return (int64_t)edge * edge * edge;
}

static float feature(int64_t row, int c)
{
    return (float)((row % PERIOD * 3 + c * 5) % 7 - 3);
}

/* Returns a weight. Only 8 of 192 are nonzero at each offset, so that sums are
 * exact in f16. */
static float weight(const spc_conv *conv, int co, int k, int c)
{
    if (conv->groups > 1)
        return (float)((co + k) % 3 - 1);
    return (c + co + 5 * k) % 24 == 0 ? (float)((co + 2 * k + c) % 3 - 1) : 0;
}

static void *take(size_t bytes)
{
    void *out = NULL;

    assert_ok(spc_memory_alloc(&out, ctx, bytes + 16), spc_ctx_error(ctx));
    return out;
}

static void put(void *to, const void *from, size_t bytes)
{
    assert_ok(spc_memory_upload(to, ctx, from, bytes), spc_ctx_error(ctx));
}

/* Returns the address of a row of a tensor on the device. */
static char *row_of(const void *tensor, int64_t row)
{
    return (char *)(uintptr_t)tensor + (size_t)row * CHANNELS * 2;
}

/* Fills rows, which repeat, by copying a period at a time. */
static void *make_features(int64_t rows)
{
    enum { BLOCK = PERIOD * 1024 };
    size_t bytes = (size_t)BLOCK * CHANNELS * 2;
    float values[CHANNELS];
    char *host = malloc(bytes);
    void *out = take((size_t)rows * CHANNELS * 2);

    for (int row = 0; row < BLOCK; row++) {
        for (int c = 0; c < CHANNELS; c++)
            values[c] = feature(row, c);
        spc__dtype_of(SPC_F16)->encode(row_of(host, row), values, CHANNELS);
    }
    for (int64_t row = 0; row < rows; row += BLOCK) {
        int64_t left = rows - row;
        put(row_of(out, row), host,
            (size_t)(left < BLOCK ? left : BLOCK) * CHANNELS * 2);
    }
    free(host);
    return out;
}

/* Makes all voxels of the box, in ascending order. */
static void *make_coords(void)
{
    int32_t *host = malloc((size_t)cube(side) * 16);
    void *out = take((size_t)cube(side) * 16);

    for (int64_t i = 0; i < cube(side); i++) {
        int32_t at[4] = {0, (int32_t)(i / side / side),
                         (int32_t)(i / side % side), (int32_t)(i % side)};
        memcpy(host + 4 * i, at, 16);
    }
    put(out, host, (size_t)cube(side) * 16);
    free(host);
    return out;
}

static void *make_weights(const spc_conv *conv)
{
    int offsets = spc__conv_offsets(conv), in = spc__conv_group_in(conv);
    size_t count = (size_t)offsets * (size_t)in * CHANNELS;
    float *values = malloc(count * sizeof(float));
    void *host = malloc(count * 2), *out = take(count * 2);

    for (size_t i = 0; i < count; i++)
        values[i] =
            weight(conv, (int)(i / (size_t)(offsets * in)),
                   (int)(i / (size_t)in) % offsets, (int)(i % (size_t)in));
    spc__dtype_of(SPC_F16)->encode(host, values, count);
    put(out, host, count * 2);
    free(values);
    free(host);
    return out;
}

/* ---- expected results ---------------------------------------------------- */

/* Returns the number of voxels along an axis of the output set or of the input
 * set. */
static int edge_of(const spc_conv *conv, bool outputs)
{
    bool coarse = conv->op != SPC_SUBM && (conv->op == SPC_CONV) == outputs;

    return coarse ? (side + 1) / 2 : side;
}

/* Returns the input that an output sees along an axis at a position of the
 * kernel, or -1. */
static int see(const spc_conv *conv, int at, int tap)
{
    int to = conv->op == SPC_SUBM   ? at + tap - 1
             : conv->op == SPC_CONV ? 2 * at + tap
             : at % 2 == tap        ? at / 2
                                    : -1;

    return to < edge_of(conv, false) ? to : -1;
}

static int64_t input_of(const spc_conv *conv, int64_t row, int k)
{
    int edge = edge_of(conv, true), from = edge_of(conv, false);
    int size = conv->geometry.kernel[0];
    int x = see(conv, (int)(row / edge / edge), k / size / size);
    int y = see(conv, (int)(row / edge % edge), k / size % size);
    int z = see(conv, (int)(row % edge), k % size);

    return x < 0 || y < 0 || z < 0 ? -1 : ((int64_t)x * from + y) * from + z;
}

static float define(const spc_conv *conv, int64_t row, int co)
{
    int offsets = spc__conv_offsets(conv), in = spc__conv_group_in(conv);
    float sum = 0;

    for (int k = 0; k < offsets; k++) {
        int64_t from = input_of(conv, row, k);
        for (int c = 0; c < in && from >= 0; c++)
            sum += weight(conv, co, k, c) *
                   feature(from, conv->groups > 1 ? co : c);
    }
    return sum;
}

/* Selects sample rows, from the first to the last. */
static int64_t sample(int i, int64_t rows)
{
    return i * (rows - 1) / (SAMPLES - 1);
}

static void poison(void *out, int64_t rows)
{
    char bytes[CHANNELS * 2];

    memset(bytes, 0xff, sizeof(bytes));
    for (int i = 0; i < SAMPLES; i++)
        put(row_of(out, sample(i, rows)), bytes, sizeof(bytes));
}

static void fetch_row(float values[CHANNELS], const void *out, int64_t row)
{
    char bytes[CHANNELS * 2];

    assert_ok(spc_memory_download(bytes, ctx, row_of(out, row), sizeof(bytes)),
              spc_ctx_error(ctx));
    spc__dtype_of(SPC_F16)->decode(values, bytes, CHANNELS);
}

static void check_rows(const spc_conv *conv, const void *out, int64_t rows)
{
    float got[CHANNELS];

    assert_ok(spc_ctx_synchronize(ctx), spc_ctx_error(ctx));
    for (int i = 0; i < SAMPLES; i++) {
        int64_t row = sample(i, rows);
        fetch_row(got, out, row);
        for (int co = 0; co < CHANNELS; co++)
            ck_assert_msg(got[co] == define(conv, row, co),
                          "row %lld, channel %d is %g and must be %g",
                          (long long)row, co, (double)got[co],
                          (double)define(conv, row, co));
    }
}

/* ---- layers -------------------------------------------------------------- */

/* Returns the device whose templates are used. */
static const char *device_name(void)
{
    return suite_device == NULL || strncmp(suite_device, "cpu", 3) == 0
               ? "cpu"
               : "cuda"; /* "sim" emulates it */
}

/* Returns a template's default, or NULL if the template refuses the layer. */
static spc_plan *plan_of(const spc_conv *conv, spc_map *map, const char *name)
{
    spc__attrs problem = {0}, config = {0};
    spc_plan *plan = NULL;
    spc_error error;
    spc__code code;

    spc__conv_attrs(&problem, conv);
    spc__library *library;
    assert_ok(spc__ctx_library(&library, ctx), spc_ctx_error(ctx));
    spc__template *tpl = spc__library_find(library, name);
    if (tpl == NULL || strcmp(spc__template_device(tpl), device_name()) != 0 ||
        spc__template_accepts(tpl, &problem, &ctx->target, &error) ||
        spc__template_default(&config, tpl, &problem, &ctx->target, &error) ||
        spc__template_check(tpl, &problem, &ctx->target, &config, &error))
        return NULL;
    assert_ok(spc__ctx_code(&code, ctx, name, &problem, &config, SPC_PLAN_JIT),
              spc_ctx_error(ctx));
    assert_ok(spc__plan_create_from(&plan, ctx, conv, &code, name, "large"),
              spc_ctx_error(ctx));
    assert_ok(spc_map_prepare(map, plan, NULL), spc_ctx_error(ctx));
    return plan;
}

static void run_plan(spc_plan *plan, const spc_conv *conv, const spc_map *map,
                     const void *in, void *out)
{
    void *weights = make_weights(conv);
    void *packed = take(spc_plan_weights_bytes(plan));
    void *work = take(spc_plan_workspace_bytes(plan, map));
    spc_buffers buffers = {.bytes = sizeof(spc_buffers),
                           .in = in,
                           .out = out,
                           .weights = packed,
                           .workspace = work};

    poison(out, spc_map_rows_out(map));
    assert_ok(spc_plan_pack(packed, plan, weights, SPC_KRSC, NULL),
              spc_ctx_error(ctx));
    assert_ok(spc_plan_execute(plan, map, &buffers, NULL), spc_ctx_error(ctx));
    check_rows(conv, out, spc_map_rows_out(map));
    spc_memory_free(ctx, weights);
    spc_memory_free(ctx, packed);
    spc_memory_free(ctx, work);
}

static const char *const texts[] = {
    "subm,cin=192,cout=192,k=3,dtype=f16",
    "subm,cin=192,cout=192,groups=192,k=3,dtype=f16",
    "conv,cin=192,cout=192,k=2,stride=2,rule=floor,dtype=f16",
    "inverse,cin=192,cout=192,k=2,stride=2,rule=floor,dtype=f16",
};

/* Templates that need no workspace with a partial sum for each pair. */
static const char *const templates[] = {
    "os_wgmma", "os_mma",  "os_depthwise", "os_diagonal",
    "os_walk",  "rowgemm", "depthwise",    "generic"};

static void check_layer(const char *text, const void *coords, const void *in,
                        void *out)
{
    spc_error error = {0};
    int checked = 0;
    spc_conv conv;
    spc_map *map;

    assert_ok(spc_conv_parse(&conv, text, &error), error.text);
    assert_ok(
        spc_map_create_from_rows(&map, ctx, &conv, coords, cube(side), NULL),
        spc_ctx_error(ctx));
    ck_assert_int_eq(spc_map_rows_out(map), cube(edge_of(&conv, true)));
    for (int i = 0; i < LENGTH(templates); i++) {
        spc_plan *plan = plan_of(&conv, map, templates[i]);
        if (plan == NULL)
            continue;
        run_plan(plan, &conv, map, in, out);
        printf("%s: %s\n", text, templates[i]);
        fflush(stdout);
        spc_plan_free(plan);
        checked++;
    }
    ck_assert_int_gt(checked, 0);
    spc_map_free(map);
}

START_TEST(rows_behind_2_31_elements_are_read_and_written)
{
    void *coords = make_coords(), *in = make_features(cube(side));
    void *out = take((size_t)cube(side) * CHANNELS * 2);

    ck_assert(side < LARGE || cube(side) * CHANNELS > INT32_MAX);
    for (int i = 0; i < LENGTH(texts); i++)
        if (side == LARGE || suite_takes(i))
            check_layer(texts[i], coords, in, out);
    spc_memory_free(ctx, coords);
    spc_memory_free(ctx, in);
    spc_memory_free(ctx, out);
}
END_TEST

/* ---- operators on features ----------------------------------------------- */

static void check_operator(const char *text, const spc_coords *set,
                           const void *in, void *out)
{
    spc_feature feature_of;
    spc_feature_plan *plan;
    spc_error error = {0};
    float got[CHANNELS];

    assert_ok(spc_feature_parse(&feature_of, text, &error), error.text);
    assert_ok(spc_feature_plan_create(&plan, ctx, &feature_of, SPC_PLAN_JIT),
              spc_ctx_error(ctx));
    poison(out, cube(side));
    spc_feature_buffers buffers = {
        .bytes = sizeof(spc_feature_buffers), .in = in, .add = in, .out = out};
    assert_ok(spc_feature_plan_execute(plan, set, NULL, &buffers, NULL),
              spc_ctx_error(ctx));
    assert_ok(spc_ctx_synchronize(ctx), spc_ctx_error(ctx));
    for (int i = 0; i < SAMPLES; i++) {
        int64_t row = sample(i, cube(side));
        fetch_row(got, out, row);
        for (int c = 0; c < CHANNELS; c++) {
            float x = feature(row, c), sum = text[1] == 'd' ? x + x : x;
            ck_assert_msg(got[c] == (sum > 0 ? sum : 0),
                          "%s: row %lld, channel %d is %g", text,
                          (long long)row, c, (double)got[c]);
        }
    }
    spc_feature_plan_free(plan);
}

START_TEST(operators_reach_behind_2_31_elements)
{
    void *coords = make_coords(), *in = make_features(cube(side));
    void *out = take((size_t)cube(side) * CHANNELS * 2);
    spc_coords *set;

    assert_ok(spc_coords_create(&set, ctx, coords, cube(side), NULL),
              spc_ctx_error(ctx));
    check_operator("act=relu,c=192,dtype=f16", set, in, out);
    check_operator("add,c=192,act=relu,dtype=f16", set, in, out);
    spc_coords_free(set);
    spc_memory_free(ctx, coords);
    spc_memory_free(ctx, in);
    spc_memory_free(ctx, out);
}
END_TEST

static void open_all(void)
{
    ctx = open_ctx(suite_device != NULL ? suite_device : "cpu",
                   suite_database(), NULL);
}

static void close_all(void)
{
    spc_ctx_free(ctx);
}

static bool has_memory(void)
{
    spc_device_info info[16];
    int count = spc_devices_list(info, 16);

    for (int i = 0; i < count && i < 16; i++)
        if (strncmp(info[i].id, suite_device, strlen(suite_device)) == 0)
            return info[i].memory_bytes >= memory_needed;
    return false;
}

int main(int argc, char **argv)
{
    int status = suite_open(argc, argv);

    if (status != 0)
        return status;
    suite_sample(LENGTH(texts));
    side = suite_is_gpu() ? LARGE : SMALL;
    if (suite_is_gpu() && !has_memory())
        return suite_skip("a GPU with 40 GB is needed");
    Suite *suite = suite_create("large");
    TCase *tcase = tcase_create("large");
    tcase_set_timeout(tcase, 300);
    tcase_add_checked_fixture(tcase, open_all, close_all);
    tcase_add_test(tcase, rows_behind_2_31_elements_are_read_and_written);
    tcase_add_test(tcase, operators_reach_behind_2_31_elements);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
