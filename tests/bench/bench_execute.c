/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench_execute.c - host time of spc_plan_execute, for docs/performance.md:
 *
 *   bench_execute cpu|double [CALLS [LAYER]]
 *
 * Runs a layer of eight rows whose kernel is empty, on the cpu device or on the
 * double of the CUDA driver. Prints nanoseconds of one call, and of one whose
 * launch does nothing, which is the time of the code above the devices. Each
 * figure is the smallest mean of BATCHES batches. Instructions repeat exactly
 * where times do not; two thirds of these calls launch nothing:
 *
 *   valgrind --tool=callgrind --toggle-collect=spc_plan_execute \
 *       bench_execute cpu 1000
 */
#include "base/clock.h"
#include "plan/plan_parts.h"
#include "spc/lab.h"
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BATCHES = 30, FEATURES = 1 << 16 };

typedef struct bench {
    spc_ctx *ctx;
    spc_conv conv;
    spc_scene *scene;
    spc_map *map;
    spc_plan *plan;
    spc_buffers buffers;
} bench;

_Noreturn static void fail(const char *what, const char *why)
{
    fprintf(stderr, "bench_execute: %s: %s\n", what, why);
    exit(EXIT_FAILURE);
}

static void must(const bench *b, const char *what, spc_status status)
{
    if (status != SPC_OK)
        fail(what, spc_ctx_error(b->ctx));
}

/* The loader finds a library that is loaded by its name, so the device opens
 * the double. */
static void open_double(void)
{
    if (dlopen(SPC_TEST_CUDA, RTLD_NOW | RTLD_GLOBAL) == NULL)
        fail("the double of the driver", dlerror());
    setenv("SPC_NVRTC", SPC_TEST_NVRTC, 1);
}

static void open_ctx(bench *b, const char *device)
{
    spc_ctx_options options = SPC_CTX_OPTIONS_INIT;
    spc_error error = {0};

    options.device = device;
    options.database = "";
    options.template_dir = SPC_TEST_DATA "/templates/launch";
    options.threads = 1;
    if (spc_ctx_create(&b->ctx, &options, &error) != SPC_OK)
        fail("the context", error.text);
}

static void *need(const bench *b, size_t bytes)
{
    void *memory = NULL;

    must(b, "memory", spc_memory_alloc(&memory, b->ctx, bytes > 0 ? bytes : 1));
    return memory;
}

static void open_layer(bench *b, const char *layer)
{
    spc_error error = {0};

    if (spc_conv_parse(&b->conv, layer, &error) != SPC_OK ||
        spc_scene_load(&b->scene, "gen:uniform,n=8,extent=4", &error) != SPC_OK)
        fail("the layer", error.text);
    must(b, "the map",
         spc_map_create_from_scene(&b->map, b->ctx, &b->conv, b->scene));
    must(b, "the plan", spc_plan_create(&b->plan, b->ctx, &b->conv, b->map, 0));
    b->buffers = (spc_buffers){
        .in = need(b, FEATURES),
        .out = need(b, FEATURES),
        .weights = need(b, spc_plan_weights_bytes(b->plan)),
        .bias = need(b, FEATURES),
        .workspace = need(b, spc_plan_workspace_bytes(b->plan, b->map)),
        .scale = need(b, FEATURES),
        .residual = need(b, FEATURES),
    };
}

/* ---- the launch left out ------------------------------------------------- */

static spc_status skip_launch(spc__device *device, spc__kernel *kernel,
                              const spc__launch *launch, const void *args,
                              size_t args_bytes, void *stream, spc_error *error)
{
    (void)device, (void)kernel, (void)launch, (void)args;
    (void)args_bytes, (void)stream, (void)error;
    return SPC_OK;
}

/* Gives the device another table of functions. */
static void set_ops(const bench *b, const spc__device_ops *ops)
{
    ((struct spc__device_head *)b->ctx->device)->ops = ops;
}

static double batch_ns(const bench *b, int calls)
{
    uint64_t began = spc__now_ns();

    for (int i = 0; i < calls; i++)
        must(b, "a call", spc_plan_execute(b->plan, b->map, &b->buffers, NULL));
    return (double)(spc__now_ns() - began) / calls;
}

/* Batches of both kinds take turns, so that both meet the same clock rate. */
static void report(const bench *b, int calls)
{
    const spc__device_ops *ops = spc__device_ops_of(b->ctx->device);
    spc__device_ops without = *ops;
    double whole = 1e9, host = 1e9;

    without.launch = skip_launch;
    for (int i = 0; i < BATCHES; i++) {
        double ns = batch_ns(b, calls);
        whole = ns < whole ? ns : whole;
        set_ops(b, &without);
        ns = batch_ns(b, calls);
        host = ns < host ? ns : host;
        set_ops(b, ops);
    }
    printf("spc_plan_execute: %.1f ns, %.1f ns without the launch\n", whole,
           host);
}

int main(int argc, char **argv)
{
    const char *device = argc > 1 ? argv[1] : "";
    int calls = argc > 2 ? atoi(argv[2]) : 20000;
    bench b = {0};

    if ((strcmp(device, "cpu") != 0 && strcmp(device, "double") != 0) ||
        argc > 4 || calls < 1)
        fail("usage", "bench_execute cpu|double [CALLS [LAYER]]");
    if (strcmp(device, "double") == 0)
        open_double();
    open_ctx(&b, strcmp(device, "double") == 0 ? "cuda" : "cpu");
    open_layer(&b, argc > 3 ? argv[3] : "subm,cin=16,cout=16,k=3,dtype=f32");
    report(&b, calls);
    spc_plan_free(b.plan);
    spc_map_free(b.map);
    spc_scene_free(b.scene);
    void *const memory[] = {(void *)(uintptr_t)b.buffers.in,
                            b.buffers.out,
                            (void *)(uintptr_t)b.buffers.weights,
                            (void *)(uintptr_t)b.buffers.bias,
                            b.buffers.workspace,
                            (void *)(uintptr_t)b.buffers.scale,
                            (void *)(uintptr_t)b.buffers.residual};
    for (size_t i = 0; i < sizeof(memory) / sizeof(*memory); i++)
        spc_memory_free(b.ctx, memory[i]);
    spc_ctx_free(b.ctx);
    return EXIT_SUCCESS;
}
