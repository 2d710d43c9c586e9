/* SPDX-License-Identifier: Apache-2.0 */
/*
 * layer_harness.h - for tests: runs one layer, from its text to its checked
 * result.
 */
#ifndef LAYER_HARNESS_H
#define LAYER_HARNESS_H

#include "lab/gate/gate.h"
#include <check.h>
#include <string.h>

#define LENGTH(a) ((int)(sizeof(a) / sizeof((a)[0])))

#define assert_ok(call, text)                                                  \
    do {                                                                       \
        spc_status status_ = (call);                                           \
        ck_assert_msg(status_ == SPC_OK, "%s: %s", #call, (text));             \
    } while (0)

#define assert_says(text, wanted)                                              \
    ck_assert_msg(strstr((text), (wanted)) != NULL, "'%s' does not say '%s'",  \
                  (text), (wanted))

/* Everything needed to run one layer. */
typedef struct harness {
    spc_ctx *ctx;
    spc_conv conv;
    spc_scene *scene;
    spc_map *map;
    spc_plan *plan;
    spc__sample sample;
    spc__fixture *fixture;
    spc_buffers buffers;
    void *packed, *workspace;
} harness;

static inline spc_ctx *open_ctx(const char *device, const char *database,
                                const char *template_dir)
{
    spc_ctx_options options = SPC_CTX_OPTIONS_INIT;
    spc_error error = {0};
    spc_ctx *ctx = NULL;

    options.device = device;
    options.database = database;
    options.template_dir = template_dir;
    options.threads = 2;
    assert_ok(spc_ctx_create(&ctx, &options, &error), error.text);
    return ctx;
}

/* Opens a layer and a scene from their texts, without a plan. Takes ownership
 * of the context. */
static inline void harness_open(harness *r, spc_ctx *ctx, const char *layer,
                                const char *scene)
{
    spc_error error = {0};

    memset(r, 0, sizeof(*r));
    r->ctx = ctx;
    assert_ok(spc_conv_parse(&r->conv, layer, &error), error.text);
    assert_ok(spc_scene_load(&r->scene, scene, &error), error.text);
    assert_ok(spc_map_create_from_scene(&r->map, ctx, &r->conv, r->scene),
              spc_ctx_error(ctx));
}

/* Prepares what the current plan needs for execution. */
static inline void harness_prepare(harness *r, spc_weights_layout layout)
{
    spc_ctx *ctx = r->ctx;

    spc__sample_source source = {.scene = r->scene};
    spc__sample_options options = {7, false, 2, NULL, 0};
    spc_error error = {0};

    assert_ok(
        spc__sample_init(&r->sample, &r->conv, &source, 1, &options, &error),
        error.text);
    assert_ok(spc__fixture_create(&r->fixture, ctx, &r->sample),
              spc_ctx_error(ctx));
    assert_ok(spc__guarded_lay(&r->fixture->guards, &r->fixture->out,
                               spc_conv_operand_bytes(&r->conv, SPC_OPERAND_OUT,
                                                      spc_scene_rows(r->scene)),
                               0),
              spc_ctx_error(ctx));
    assert_ok(
        spc_memory_alloc(&r->packed, ctx, spc_plan_weights_bytes(r->plan)),
        spc_ctx_error(ctx));
    assert_ok(spc_memory_alloc(&r->workspace, ctx,
                               spc_plan_workspace_bytes(r->plan, r->map)),
              spc_ctx_error(ctx));
    if (layout == SPC_KRSC)
        assert_ok(spc_plan_pack(r->packed, r->plan,
                                r->fixture->weights[SPC__REAL].data, layout,
                                NULL),
                  spc_ctx_error(ctx));
    spc__fixture_buffers(&r->buffers, r->fixture, 0, SPC__REAL);
    r->buffers.weights = r->packed;
    r->buffers.workspace = r->workspace;
}

/* Fills the result with NaN, so that unwritten elements are detected. */
static inline void harness_poison(harness *r)
{
    assert_ok(r->fixture->ops->fill(r->ctx->device, r->fixture->out.data, 0xff,
                                    r->fixture->out.bytes, NULL,
                                    spc__error_of(r->ctx)),
              spc_ctx_error(r->ctx));
}

/* Compares the result with the oracle's. */
static inline void harness_compare(harness *r)
{
    assert_ok(spc__fixture_fetch(r->fixture), spc_ctx_error(r->ctx));
    spc__worst worst =
        spc__sample_compare(&r->sample, 0, SPC__REAL, r->fixture->host);
    ck_assert_msg(worst.error <= 1, "row %lld, channel %d is %g, must be %g",
                  (long long)worst.row, worst.channel, worst.got,
                  worst.reference);
}

static inline void harness_check(harness *r)
{
    harness_poison(r);
    assert_ok(spc_plan_execute(r->plan, r->map, &r->buffers, NULL),
              spc_ctx_error(r->ctx));
    assert_ok(spc_ctx_synchronize(r->ctx), spc_ctx_error(r->ctx));
    harness_compare(r);
}

static inline void harness_close(harness *r)
{
    spc__fixture_free(r->fixture);
    spc__sample_release(&r->sample);
    spc_memory_free(r->ctx, r->packed);
    spc_memory_free(r->ctx, r->workspace);
    spc_plan_free(r->plan);
    spc_map_free(r->map);
    spc_scene_free(r->scene);
    spc_ctx_free(r->ctx);
}

#endif
