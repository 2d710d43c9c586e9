/* SPDX-License-Identifier: Apache-2.0 */
/*
 * whole_layer.h - for tests: runs a layer of integers on the test's voxels by a
 * map and a plan. Inputs and outputs are arrays of floats.
 */
#ifndef SPC_TESTS_WHOLE_LAYER_H
#define SPC_TESTS_WHOLE_LAYER_H

#include "base/dtype.h"
#include "base/random.h"
#include "harness/layer_harness.h"
#include "harness/suite.h"
#include "operators/epilogue.h"
#include "plan/plan.h"

#include <stdio.h>
#include <stdlib.h>

static const char *const devices[] = {"cpu", "sim"};
enum { DEVICES = 2, MOST = 200 };

/* Returns the i-th device that every machine has, unless a device is named. */
static inline const char *device_of(int i, int count)
{
    return suite_device != NULL ? suite_device : devices[i / count % DEVICES];
}

/* ---- voxels -------------------------------------------------------------- */

typedef struct cloud {
    int rows;
    int32_t at[MOST][4];
} cloud;

/*
 * Makes voxels of three batch elements, one after the other. Coordinates start
 * at -4.
 */
static inline void draw_cloud(cloud *out, int each, int extent, uint64_t seed)
{
    spc__random random;

    spc__random_init(&random, seed);
    out->rows = 0;
    for (int b = 0; b < 3; b++)
        for (int32_t cell = 0; cell < extent * extent * extent; cell++) {
            int left = extent * extent * extent - cell;
            int wanted = (b + 1) * each - out->rows;
            if ((int)spc__random_below(&random, (uint32_t)left) >= wanted)
                continue;
            int32_t *at = out->at[out->rows++];
            at[0] = b;
            at[1] = cell / extent / extent - 4;
            at[2] = cell / extent % extent - 4;
            at[3] = cell % extent - 4;
        }
}

/* ---- a layer on them ----------------------------------------------------- */

typedef struct layer {
    spc_ctx *ctx;
    spc_conv conv;
    spc_map *map;
    const float *bias; /* on the host, [cout], if the layer has a bias */
    int64_t rows_in, rows_out;
} layer;

static inline spc_conv conv_of(const char *text)
{
    spc_conv conv;
    spc_error error = {0};

    assert_ok(spc_conv_parse(&conv, text, &error), error.text);
    return conv;
}

static inline void layer_open(layer *out, spc_ctx *ctx, const spc_conv *conv,
                              const cloud *voxels)
{
    void *coords = NULL;
    size_t bytes = (size_t)voxels->rows * 16;

    *out = (layer){.ctx = ctx, .conv = *conv};
    assert_ok(spc_memory_alloc(&coords, ctx, bytes + 16), spc_ctx_error(ctx));
    assert_ok(spc_memory_upload(coords, ctx, voxels->at, bytes),
              spc_ctx_error(ctx));
    assert_ok(spc_map_create_from_rows(&out->map, ctx, conv, coords,
                                       voxels->rows, NULL),
              spc_ctx_error(ctx));
    assert_ok(spc_ctx_synchronize(ctx), spc_ctx_error(ctx));
    spc_memory_free(ctx, coords);
    out->rows_in = spc_map_rows_in(out->map);
    out->rows_out = spc_map_rows_out(out->map);
}

static inline void layer_close(layer *l)
{
    spc_map_free(l->map);
}

/* Returns small integers. The caller frees them. */
static inline float *draw(int64_t count, uint64_t seed)
{
    float *out = malloc((size_t)count * sizeof(*out) + 4);
    spc__random random;

    spc__random_init(&random, seed);
    for (int64_t i = 0; i < count; i++)
        out[i] = (float)spc__random_below(&random, 7) - 3;
    return out;
}

static inline int64_t weight_count(const spc_conv *conv)
{
    return (int64_t)spc__conv_offsets(conv) * spc__conv_group_in(conv) *
           conv->cout;
}

static inline void *upload(spc_ctx *ctx, spc_dtype dtype, const float *values,
                           int64_t count)
{
    const spc__dtype *type = spc__dtype_of(dtype);
    size_t bytes = (size_t)count * type->bytes;
    void *stored = malloc(bytes + 16), *out = NULL;

    type->encode(stored, values, (size_t)count);
    assert_ok(spc_memory_alloc(&out, ctx, bytes + 16), spc_ctx_error(ctx));
    assert_ok(spc_memory_upload(out, ctx, stored, bytes), spc_ctx_error(ctx));
    free(stored);
    return out;
}

static inline float *download(spc_ctx *ctx, spc_dtype dtype, const void *from,
                              int64_t count)
{
    const spc__dtype *type = spc__dtype_of(dtype);
    size_t bytes = (size_t)count * type->bytes;
    void *stored = malloc(bytes + 16);
    float *out = malloc((size_t)count * sizeof(*out) + 4);

    assert_ok(spc_ctx_synchronize(ctx), spc_ctx_error(ctx));
    assert_ok(spc_memory_download(stored, ctx, from, bytes),
              spc_ctx_error(ctx));
    type->decode(out, stored, (size_t)count);
    free(stored);
    return out;
}

/*
 * Makes the default plan of the layer or, if `name` is given, a candidate of
 * that template, whose default is changed by `values`. Returns NULL if there is
 * no such candidate.
 */
static inline spc_plan *plan_of(layer *l, const char *name, const char *values)
{
    spc__attrs problem = {0}, config = {0}, said = {0};
    spc_plan *plan = NULL;
    spc_error error;
    spc__code code;

    if (name == NULL) {
        assert_ok(
            spc_plan_create(&plan, l->ctx, &l->conv, l->map, SPC_PLAN_ESTIMATE),
            spc_ctx_error(l->ctx));
        return plan;
    }
    spc__conv_attrs(&problem, &l->conv);
    spc__template *tpl = spc__library_find(l->ctx->library, name);
    if (spc__template_accepts(tpl, &problem, &l->ctx->target, &error) != SPC_OK)
        return NULL;
    assert_ok(
        spc__template_default(&config, tpl, &problem, &l->ctx->target, &error),
        error.text);
    assert_ok(spc__attrs_parse(&said, values, &error), error.text);
    for (int i = 0; i < said.count; i++)
        if (said.at[i].is_number)
            spc__attrs_set_number(&config, said.at[i].name, said.at[i].number);
        else
            spc__attrs_set_text(&config, said.at[i].name, said.at[i].text);
    if (spc__template_check(tpl, &problem, &l->ctx->target, &config, &error) !=
        SPC_OK)
        return NULL;
    assert_ok(
        spc__ctx_code(&code, l->ctx, name, &problem, &config, SPC_PLAN_JIT),
        spc_ctx_error(l->ctx));
    assert_ok(
        spc__plan_create_from(&plan, l->ctx, &l->conv, &code, name, values),
        spc_ctx_error(l->ctx));
    assert_ok(spc_map_prepare(l->map, plan, NULL), spc_ctx_error(l->ctx));
    return plan;
}

/* Returns the layer's outputs [rows_out][cout] for inputs [rows_in][cin], with
 * canonical weights. Takes ownership of the plan. */
static inline float *run_plan(layer *l, spc_plan *plan, const float *in,
                              const float *weights)
{
    spc_ctx *ctx = l->ctx;
    void *packed = NULL, *work = NULL, *bias = NULL;
    float *nothing = calloc((size_t)(l->rows_out * l->conv.cout) + 1, 4);
    spc_dtype type = spc__conv_out(&l->conv);
    void *x = upload(ctx, l->conv.dtype, in, l->rows_in * l->conv.cin);
    void *w = upload(ctx, l->conv.dtype, weights, weight_count(&l->conv));
    void *y = upload(ctx, type, nothing, l->rows_out * l->conv.cout);

    if (l->bias != NULL)
        bias = upload(ctx, SPC_F32, l->bias, l->conv.cout);
    assert_ok(spc_memory_alloc(&packed, ctx, spc_plan_weights_bytes(plan)),
              spc_ctx_error(ctx));
    assert_ok(
        spc_memory_alloc(&work, ctx, spc_plan_workspace_bytes(plan, l->map)),
        spc_ctx_error(ctx));
    assert_ok(spc_plan_pack(packed, plan, w, SPC_KRSC, NULL),
              spc_ctx_error(ctx));
    assert_ok(spc_plan_execute(plan, l->map,
                               &(spc_buffers){.bytes = sizeof(spc_buffers),
                                              .in = x,
                                              .out = y,
                                              .weights = packed,
                                              .bias = bias,
                                              .workspace = work},
                               NULL),
              spc_ctx_error(ctx));
    float *out = download(ctx, type, y, l->rows_out * l->conv.cout);
    void *all[] = {x, w, y, bias, packed, work};
    for (int i = 0; i < LENGTH(all); i++)
        spc_memory_free(ctx, all[i]);
    free(nothing);
    spc_plan_free(plan);
    return out;
}

static inline float *apply(layer *l, const float *in, const float *weights)
{
    return run_plan(l, plan_of(l, NULL, NULL), in, weights);
}

static inline void assert_same(const float *got, const float *want,
                               int64_t count, const char *what)
{
    for (int64_t i = 0; i < count; i++)
        ck_assert_msg(got[i] == want[i], "%s: element %lld is %g, not %g", what,
                      (long long)i, (double)got[i], (double)want[i]);
}

#endif
