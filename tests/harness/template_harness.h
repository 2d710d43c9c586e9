/* SPDX-License-Identifier: Apache-2.0 */
/*
 * template_harness.h - for tests: runs the default of each template through the
 * gate on a device, and compiles it with NVRTC for GPUs that this machine
 * lacks.
 */
#ifndef TEMPLATE_HARNESS_H
#define TEMPLATE_HARNESS_H

#include "compiler/artefact.h"
#include "compiler/template.h"
#include "context/ctx.h"
#include "harness/layer_harness.h"
#include "lab/gate/gate.h"
#include "lab/sample/fixture.h"
#include "operators/conv.h"
#include "plan/plan.h"
#include "device/targets.h"

#include <stdio.h>

/*
 * Runs the template's default through the whole gate, if it accepts the layer.
 */
static inline bool check_template(spc__fixture *fixture, spc__template *tpl,
                                  const char *layer)
{
    spc_ctx *ctx = fixture->ctx;
    const char *name = spc__template_name(tpl);
    spc__attrs problem = {0};
    spc__tested tested = {0};
    spc__verdict verdict;
    spc_plan *plan = NULL;
    spc__code code;

    if (strcmp(spc__template_role(tpl), "conv") != 0 ||
        !spc__ctx_serves(ctx, tpl))
        return false;
    spc__conv_attrs(&problem, &fixture->sample->conv);
    if (spc__template_accepts(tpl, &problem, &ctx->target,
                              spc__error_of(ctx)) != SPC_OK)
        return false;
    assert_ok(spc__ctx_code(&code, ctx, name, &problem, NULL, SPC_PLAN_JIT),
              spc_ctx_error(ctx));
    assert_ok(spc__plan_create_from(&plan, ctx, &fixture->sample->conv, &code,
                                    name, "default"),
              spc_ctx_error(ctx));
    assert_ok(spc__gate_enter(&tested, fixture, plan), spc_ctx_error(ctx));
    spc__gate_verify(&verdict, fixture, &tested);
    ck_assert_msg(verdict.status == SPC__TRIAL_OK, "%s, %s: %s", layer, name,
                  verdict.note);
    spc__gate_leave(&tested, fixture);
    spc_plan_free(plan);
    return true;
}

/* Checks all templates that accept the layer, on random data of `seed`. Returns
 * their number. */
static inline int check_layer(spc_ctx *ctx, const char *layer, uint64_t seed)
{
    spc__sample_options options = {seed, true, 2, NULL, 0};
    spc__sample_source source = {0};
    spc_scene *scene = NULL;
    spc__library *library;
    spc__sample sample;
    spc_error error = {0};
    spc__fixture *fixture;
    spc_conv conv;
    int taken = 0;

    assert_ok(spc_conv_parse(&conv, layer, &error), error.text);
    assert_ok(spc_scene_load(&scene, "gen:uniform,n=90,extent=6", &error),
              error.text);
    source.scene = scene;
    assert_ok(spc__sample_init(&sample, &conv, &source, 1, &options, &error),
              error.text);
    assert_ok(spc__fixture_create(&fixture, ctx, &sample), spc_ctx_error(ctx));
    assert_ok(spc__ctx_library(&library, ctx), spc_ctx_error(ctx));
    for (int i = 0; i < spc__library_count(library); i++)
        taken += check_template(fixture, spc__library_at(library, i), layer);
    spc__fixture_free(fixture);
    spc__sample_release(&sample);
    spc_scene_free(scene);
    return taken;
}

static const char *const template_gpus[] = {
    "sm_75", "sm_80", "sm_86", "sm_89", "sm_90a", "sm_100", "sm_120"};

/* Compiles a template's default, if it accepts the layer. It must not spill. */
static inline bool compile_default(spc__library *library, spc__template *tpl,
                                   const spc_conv *conv, const char *gpu,
                                   const char *layer)
{
    spc__attrs problem = {0}, target, config = {0};
    spc__buf text = SPC__BUF_INIT, log = SPC__BUF_INIT;
    spc__compiler *nvrtc;
    spc__artefact artefact;
    spc_error error = {0};

    spc__conv_attrs(&problem, conv);
    assert_ok(spc__target_facts(&target, gpu, &error), error.text);
    if (spc__template_accepts(tpl, &problem, &target, &error) != SPC_OK)
        return false;
    assert_ok(spc__template_default(&config, tpl, &problem, &target, &error),
              error.text);
    assert_ok(
        spc__template_render(&text, tpl, &problem, &target, &config, &error),
        error.text);
    spc__compile_job job = {.source = text.data,
                            .name = spc__template_name(tpl),
                            .target = gpu,
                            .headers = library};
    assert_ok(spc__nvrtc_open(&nvrtc, &error), error.text);
    assert_ok(spc__compile(&artefact, nvrtc, &job, &log, &error), error.text);
    int spilled =
        (int)spc__attrs_number(&artefact.resources, "spill_bytes", -1);
    printf("%s %s %s: %d registers\n", gpu, spc__template_name(tpl), layer,
           (int)spc__attrs_number(&artefact.resources, "registers", 0));
    fflush(stdout);
    ck_assert_msg(spilled == 0, "%s on %s spills %d bytes: %s",
                  spc__template_name(tpl), gpu, spilled, layer);
    spc__artefact_release(&artefact);
    spc__compiler_close(nvrtc);
    spc__buf_release(&text);
    spc__buf_release(&log);
    return true;
}

#endif
