/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench_execute.c - host time of the launches of plans, for
 * docs/performance.md:
 *
 *   bench_execute cpu|double [CALLS [NAME]]
 *
 * Runs layers and operators on eight rows, on the cpu device or on the double
 * of the CUDA driver, all or the one called NAME. Prints nanoseconds of one
 * call, and of one whose launch does nothing: the time of the code above the
 * devices. The kernels of layers are empty. Each figure is the smallest mean of
 * BATCHES batches. Times vary, but instruction counts repeat exactly. Counts
 * half of these calls with
 *
 *   valgrind --tool=callgrind --toggle-collect=spc_plan_execute \
 *       bench_execute cpu 1000 layer
 */
#include "base/clock.h"
#include "plan/plan_parts.h"
#include "spc/lab.h"
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LAYER "subm,cin=16,cout=16,k=3,dtype=f32"
#define LINEAR "linear,cin=16,cout=16,dtype=f32"
#define ACT "act=relu,c=16,dtype=f32"
#define POOL "pool=max,c=16,k=3,rule=subm,dtype=f32"

enum { BATCHES = 30, ROWS = 8, BYTES = 1 << 16 };

typedef struct bench {
    spc_ctx *ctx;
    spc_conv layer, linear;
    spc_scene *scene;
    spc_map *map;
    spc_plan *layer_plan, *linear_plan;
    spc_feature_plan *act, *pool;
    spc__binding *rows; /* binding of the linear layer */
    void *memory[8];
    int count; /* used entries of `memory` */
    spc_buffers buffers;
    spc_feature_buffers features;
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

/* ---- setting up ---------------------------------------------------------- */

/* Loads the double first. The device then opens the driver by the same name,
 * and the loader returns the double. */
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

static void *need(bench *b)
{
    void **out = &b->memory[b->count++];

    must(b, "memory", spc_memory_alloc(out, b->ctx, BYTES));
    return *out;
}

static void open_layers(bench *b)
{
    spc_error error = {0};

    if (spc_conv_parse(&b->layer, LAYER, &error) != SPC_OK ||
        spc_conv_parse(&b->linear, LINEAR, &error) != SPC_OK ||
        spc_scene_load(&b->scene, "gen:uniform,n=8,extent=4", &error) != SPC_OK)
        fail("the layers", error.text);
    must(b, "the map",
         spc_map_create_from_scene(&b->map, b->ctx, &b->layer, b->scene));
    must(b, LAYER,
         spc_plan_create(&b->layer_plan, b->ctx, &b->layer, b->map, 0));
    must(b, LINEAR,
         spc_plan_create_linear(&b->linear_plan, b->ctx, &b->linear, ROWS, 0));
    b->buffers = (spc_buffers){.bytes = sizeof(spc_buffers),
                               .in = need(b),
                               .out = need(b),
                               .weights = need(b),
                               .workspace = need(b)};
    void *layout = need(b);
    must(b, "the layout of rows",
         spc__plan_lay_rows(b->linear_plan, layout, ROWS, NULL, NULL));
    must(b, "the binding",
         spc__plan_bind_rows(&b->rows, b->linear_plan, layout, ROWS));
}

static void open_operator(bench *b, spc_feature_plan **out, const char *text)
{
    spc_feature feature;
    spc_error error = {0};

    if (spc_feature_parse(&feature, text, &error) != SPC_OK)
        fail(text, error.text);
    must(b, text, spc_feature_plan_create(out, b->ctx, &feature, 0));
}

static void open_operators(bench *b)
{
    open_operator(b, &b->act, ACT);
    open_operator(b, &b->pool, POOL);
    must(b, POOL, spc_feature_plan_prepare(b->pool, b->map, NULL));
    b->features = (spc_feature_buffers){.bytes = sizeof(spc_feature_buffers),
                                        .in = b->buffers.in,
                                        .out = b->buffers.out,
                                        .workspace = b->buffers.workspace};
}

static void close_bench(bench *b)
{
    free(b->rows);
    spc_plan_free(b->layer_plan);
    spc_plan_free(b->linear_plan);
    spc_feature_plan_free(b->act);
    spc_feature_plan_free(b->pool);
    spc_map_free(b->map);
    spc_scene_free(b->scene);
    for (int i = 0; i < b->count; i++)
        spc_memory_free(b->ctx, b->memory[i]);
    spc_ctx_free(b->ctx);
}

/* ---- timed calls --------------------------------------------------------- */

static spc_status run_layer(const bench *b)
{
    return spc_plan_execute(b->layer_plan, b->map, &b->buffers, NULL);
}

static spc_status run_linear(const bench *b)
{
    return spc__plan_execute_bound(b->linear_plan, b->rows, &b->buffers, NULL);
}

static spc_status run_act(const bench *b)
{
    return spc_feature_plan_execute(b->act, spc_map_out(b->map), NULL,
                                    &b->features, NULL);
}

static spc_status run_pool(const bench *b)
{
    return spc_feature_plan_execute(b->pool, NULL, b->map, &b->features, NULL);
}

typedef struct timed {
    const char *name, *text;
    spc_status (*run)(const bench *b);
} timed;

static const timed launches[] = {
    {"layer", LAYER, run_layer},
    {"linear", LINEAR ", in a network", run_linear},
    {"act", ACT, run_act},
    {"pool", POOL, run_pool},
};

static double batch_ns(const bench *b, const timed *s, int calls)
{
    uint64_t began = spc__now_ns();

    for (int i = 0; i < calls; i++)
        must(b, s->text, s->run(b));
    return (double)(spc__now_ns() - began) / calls;
}

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

/* Batches of both kinds alternate, so that both run at the same clock rate. */
static void report(const bench *b, const timed *s, int calls)
{
    const spc__device_ops *ops = spc__device_ops_of(b->ctx->device);
    spc__device_ops without = *ops;
    double whole = 1e9, host = 1e9;

    without.launch = skip_launch;
    for (int i = 0; i < BATCHES; i++) {
        double ns = batch_ns(b, s, calls);
        whole = ns < whole ? ns : whole;
        set_ops(b, &without);
        ns = batch_ns(b, s, calls);
        host = ns < host ? ns : host;
        set_ops(b, ops);
    }
    printf("%-44s %8.1f ns, %6.1f ns without the launch\n", s->text, whole,
           host);
}

int main(int argc, char **argv)
{
    const char *device = argc > 1 ? argv[1] : "";
    const char *name = argc > 3 ? argv[3] : NULL;
    bool on_double = strcmp(device, "double") == 0;
    int calls = argc > 2 ? atoi(argv[2]) : 20000;
    bench b = {0};

    if ((strcmp(device, "cpu") != 0 && !on_double) || argc > 4 || calls < 1)
        fail("usage", "bench_execute cpu|double [CALLS [NAME]]");
    if (on_double)
        open_double();
    open_ctx(&b, on_double ? "cuda" : "cpu");
    open_layers(&b);
    open_operators(&b);
    for (size_t i = 0; i < sizeof(launches) / sizeof(*launches); i++)
        if (name == NULL || strcmp(name, launches[i].name) == 0)
            report(&b, &launches[i], calls);
    close_bench(&b);
    return EXIT_SUCCESS;
}
