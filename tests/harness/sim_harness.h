/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sim_harness.h - for tests: kernels of tests/templates/sim, compiled for a sim
 * device that the test opens itself.
 */
#ifndef SPC_TESTS_SIM_HARNESS_H
#define SPC_TESTS_SIM_HARNESS_H

#include "base/error.h"
#include "compiler/artefact.h"
#include "compiler/template.h"
#include "device/device.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef SPC_TEST_DATA
#define SPC_TEST_DATA "tests"
#endif

extern const spc__device_ops spc__device_sim;
static const spc__device_ops *const ops = &spc__device_sim;

static spc_error error;

#define assert_ok(call)                                                        \
    ck_assert_msg((call) == SPC_OK, "%s: %s", #call, error.text)

static inline spc__device *open_device(const char *schedule, const char *async,
                                       int threads)
{
    spc__device *device = NULL;
    spc__device_options options = {.threads = threads};
    setenv("SPC_SIM_SCHEDULE", schedule, 1);
    setenv("SPC_SIM_ASYNC", async, 1);
    assert_ok(ops->open(&device, -1, &options, &error));
    return device;
}

static inline void compile(spc__artefact *out, spc__device *device,
                           const char *template_name, const char *bug)
{
    spc__attrs problem = {0}, config = {0}, target;
    spc__buf source = SPC__BUF_INIT;
    spc__compiler *compiler;
    spc__library *library;
    const char *options;

    assert_ok(spc__library_open(&library, SPC_TEST_DATA "/templates/sim", NULL,
                                &error));
    spc__template *tpl = spc__library_find(library, template_name);
    ck_assert_ptr_nonnull(tpl);
    spc__attrs_set_text(&problem, "op", "test");
    if (bug != NULL)
        spc__attrs_set_text(&config, "bug", bug);
    ops->target(device, &target);
    assert_ok(
        spc__template_render(&source, tpl, &problem, &target, &config, &error));
    assert_ok(ops->compiler(device, &compiler, &options, &error));
    spc__compile_job job = {source.data, template_name, "",
                            options,     library,       NULL};
    assert_ok(spc__compile(out, compiler, &job, NULL, &error));
    spc__buf_release(&source);
    spc__library_close(library);
}

enum { BUILT = 32 };

/*
 * Modules that this process, or its parent before fork(), has compiled.
 */
static struct built {
    char name[64];
    spc__artefact artefact;
} built[BUILT];

static inline const spc__artefact *
build(spc__device *device, const char *template_name, const char *bug)
{
    char name[64];
    int i = 0;
    snprintf(name, sizeof(name), "%s %s", template_name, bug ? bug : "");
    while (built[i].name[0] != '\0' && strcmp(built[i].name, name) != 0)
        i++;
    ck_assert_int_lt(i, BUILT - 1);
    if (built[i].name[0] == '\0') {
        compile(&built[i].artefact, device, template_name, bug);
        memcpy(built[i].name, name, sizeof(name));
    }
    return &built[i].artefact;
}

static inline void forget_builds(void)
{
    for (int i = 0; i < BUILT; i++)
        if (built[i].name[0] != '\0')
            spc__artefact_release(&built[i].artefact);
}

#endif
