/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench_points.c - how long large layers and their passes take, of points or
 * voxels, whose results as a whole would take the oracle minutes:
 * bench_points [--templates DIR] DEVICE SPEC LAYER...
 *
 * Microseconds are medians of warm runs: the map (of points: clouds, cells and
 * triplets), the layout that the plan's kernel reads besides, and the layer.
 * Megabytes: inputs and outputs, the map's triplets, those in the layout's
 * order, and the workspace. Of points some outputs are compared with their sums
 * in double precision, and their triplets with a search through all points.
 */
#include "base/clock.h"
#include "base/dtype.h"
#include "base/random.h"
#include "context/ctx.h"
#include "coords/map.h"
#include "plan/plan_parts.h"
#include "spc/lab.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SAMPLES = 15, LOOKS = 64 };

typedef struct bench {
    spc_ctx *ctx;
    spc_conv conv;
    const spc_scene *scene;
    int32_t *coords; /* on the device */
    spc_map *map;
    spc_plan *plan;
    spc_buffers buffers;
    uint16_t *in, *weights; /* on the host */
} bench;

static void fail(const char *what, const char *why)
{
    fprintf(stderr, "bench_points: %s: %s\n", what, why);
    exit(EXIT_FAILURE);
}

static void must(const bench *b, const char *what, spc_status status)
{
    if (status != SPC_OK)
        fail(what, spc_ctx_error(b->ctx));
}

/* ---- timed calls --------------------------------------------------------- */

static spc_status run_map(void *payload, void *stream)
{
    const bench *b = payload;

    return spc__map_rebuild(b->map, b->coords, spc_scene_rows(b->scene), false,
                            stream);
}

static spc_status run_layout(void *payload, void *stream)
{
    const bench *b = payload;

    return spc__plan_relayout(b->plan, b->map, stream);
}

static spc_status run_layer(void *payload, void *stream)
{
    const bench *b = payload;

    return spc_plan_execute(b->plan, b->map, &b->buffers, stream);
}

static double median_us(bench *b, spc_status (*enqueue)(void *, void *))
{
    spc__measure how = {
        .enqueue = enqueue, .payload = b, .samples = SAMPLES, .limit_s = 10};
    double samples[SAMPLES];
    spc_error error;
    int count;

    if (spc__device_ops_of(b->ctx->device)
            ->measure(b->ctx->device, &how, samples, &count, &error) != SPC_OK)
        fail("measure", error.text);
    return spc__median(samples, count);
}

/* ---- making a layer ------------------------------------------------------ */

static void *take(const bench *b, size_t bytes)
{
    void *memory;

    must(b, "memory", spc_memory_alloc(&memory, b->ctx, bytes + 256));
    return memory;
}

/* Makes f16 numbers of 11 bits in [-1, 1); the host keeps a copy. */
static void *draw(const bench *b, uint16_t **host, size_t bytes, uint64_t seed)
{
    const spc__dtype *type = spc__dtype_of(SPC_F16);
    spc__random random;
    void *out = take(b, bytes);

    spc__random_init(&random, seed);
    *host = malloc(bytes);
    for (size_t i = 0; i < bytes / 2; i++) {
        float v = (float)spc__random_below(&random, 2048) / 1024 - 1;
        type->encode(*host + i, &v, 1);
    }
    must(b, "operands", spc_memory_upload(out, b->ctx, *host, bytes));
    return out;
}

static void make_layer(bench *b)
{
    size_t in = spc_conv_operand_bytes(&b->conv, SPC_OPERAND_IN,
                                       spc_map_rows_in(b->map));
    size_t weights = spc_conv_operand_bytes(&b->conv, SPC_OPERAND_WEIGHTS, 0);

    must(b, "plan",
         spc_plan_create(&b->plan, b->ctx, &b->conv, b->map, SPC_PLAN_JIT));
    bool is_wgrad = b->conv.pass == SPC_WGRAD;
    size_t grad = spc_conv_operand_bytes(&b->conv, SPC_OPERAND_RESIDUAL,
                                         spc_map_rows_out(b->map));
    void *raw = draw(b, &b->weights, is_wgrad ? grad : weights, 2);
    void *packed = take(b, spc_plan_weights_bytes(b->plan));
    if (!is_wgrad)
        must(b, "weights", spc_plan_pack(packed, b->plan, raw, SPC_KRSC, NULL));
    b->buffers = (spc_buffers){
        .bytes = sizeof(spc_buffers),
        .in = draw(b, &b->in, in, 1),
        .out = take(b, spc_conv_operand_bytes(&b->conv, SPC_OPERAND_OUT,
                                              spc_map_rows_out(b->map))),
        .weights = packed,
        .workspace = take(b, spc_plan_workspace_bytes(b->plan, b->map)),
        .grad = is_wgrad ? raw : NULL,
    };
    must(b, "layout", spc_map_prepare(b->map, b->plan, NULL));
    must(b, "run", run_layer(b, NULL));
    must(b, "run", spc_ctx_synchronize(b->ctx));
    if (!is_wgrad)
        spc_memory_free(b->ctx, raw);
}

static void free_layer(bench *b)
{
    spc_memory_free(b->ctx, (void *)(uintptr_t)b->buffers.in);
    spc_memory_free(b->ctx, (void *)(uintptr_t)b->buffers.weights);
    spc_memory_free(b->ctx, (void *)(uintptr_t)b->buffers.grad);
    spc_memory_free(b->ctx, b->buffers.out);
    spc_memory_free(b->ctx, b->buffers.workspace);
    spc_plan_free(b->plan);
    free(b->in);
    free(b->weights);
}

/* ---- checks of some outputs ---------------------------------------------- */

static float value(uint16_t bits)
{
    float out;

    spc__dtype_of(SPC_F16)->decode(&out, &bits, 1);
    return out;
}

/* True within the radius, by the rule of the library's interface. */
static int64_t count_seen(const bench *b, int row)
{
    const int32_t *at = spc_scene_coords(b->scene),
                  *own = at + 4 * (int64_t)row;
    float radius = b->conv.geometry.radius;
    int64_t count = 0;

    for (int64_t i = 0; i < spc_scene_rows(b->scene); i++) {
        float square = 0;
        for (int axis = 1; axis < 4; axis++) {
            float d = (float)at[4 * i + axis] / 1024 - (float)own[axis] / 1024;
            square += d * d;
        }
        count += at[4 * i] == own[0] && square <= radius * radius;
    }
    return count;
}

/* Returns the largest error of an output's channels, relative to a bound: half
 * a unit of f16 in the last place, and 2^-12 of the sum of magnitudes for
 * partial sums. */
static double worst_of(const bench *b, const spc_triplet *t, int64_t count,
                       const uint16_t *got)
{
    int cin = b->conv.cin, cout = b->conv.cout;
    int offsets = b->conv.geometry.kernel[0] * b->conv.geometry.kernel[1] *
                  b->conv.geometry.kernel[2];
    double worst = 0;

    for (int co = 0; co < cout; co++) {
        double sum = 0, size = 0;
        for (int64_t i = 0; i < count; i++)
            for (int ci = 0; ci < cin; ci++) {
                double product =
                    (double)value(b->in[(int64_t)t[i].in * cin + ci]) *
                    (double)value(
                        b->weights[((int64_t)co * offsets + t[i].k) * cin +
                                   ci]);
                sum += product;
                size += fabs(product);
            }
        double bound = fabs(sum) * 0x1p-11 + size * 0x1p-18 + 0x1p-24;
        double error = fabs((double)value(got[co]) - sum) / bound;
        worst = error > worst ? error : worst;
    }
    return worst;
}

/* Triplets of a row lie together; those of the last search. */
static void look_at(const bench *b, const spc_triplet *all, int64_t at)
{
    int64_t begin = at, end = at, pairs = spc_map_pairs(b->map);
    size_t bytes = 2 * (size_t)b->conv.cout;
    uint16_t *got = malloc(bytes);

    while (begin > 0 && all[begin - 1].out == all[at].out)
        begin--;
    while (end < pairs && all[end].out == all[at].out)
        end++;
    if (count_seen(b, all[at].out) != end - begin)
        fail("triplets", "an output has not those within the radius");
    must(b, "output",
         spc_memory_download(got, b->ctx,
                             (const char *)b->buffers.out +
                                 (size_t)all[at].out * bytes,
                             bytes));
    double worst = worst_of(b, all + begin, end - begin, got);
    if (!(worst <= 1))
        fail("output", "a sum is wrong");
    free(got);
}

static void look(const bench *b)
{
    int64_t pairs = spc_map_pairs(b->map);
    spc_triplet *all = malloc((size_t)pairs * sizeof(*all) + 1);
    spc__random random;

    must(b, "triplets", spc_map_download_triplets(all, b->map));
    spc__random_init(&random, 3);
    for (int i = 0; i < LOOKS && pairs > 0; i++)
        look_at(b, all, spc__random_below(&random, (uint32_t)pairs));
    free(all);
}

/* ---- a layer ------------------------------------------------------------- */

static void print_layer(bench *b, const char *text)
{
    const spc__launch_geometry *launch = spc__plan_launch(b->plan);
    bool is_points = b->conv.geometry.rule == SPC_RULE_RADIUS;
    double mega = 1e-6, pairs = (double)spc_map_pairs(b->map);
    bool lists =
        launch->reads_pairs || launch->reads_bundles || launch->reads_inputs;
    size_t rows = spc_conv_operand_bytes(&b->conv, SPC_OPERAND_IN,
                                         spc_map_rows_in(b->map)) +
                  spc_conv_operand_bytes(&b->conv, SPC_OPERAND_OUT,
                                         spc_map_rows_out(b->map));

    bool looks = is_points && b->conv.pass == SPC_FORWARD;

    if (looks)
        look(b);
    double layer = median_us(b, run_layer), map = median_us(b, run_map);
    double layout = lists || !is_points ? median_us(b, run_layout) : 0;
    must(b, "map", spc_map_check(b->map, NULL));
    printf("%-44s %8lld rows %9.0f pairs  layer %8.1f us  map %8.1f  layout "
           "%7.1f  MB: rows %6.1f triplets %6.1f in another order %6.1f "
           "workspace %.1f  %s %s%s\n",
           text, (long long)spc_map_rows_out(b->map), pairs, layer, map, layout,
           mega * (double)rows, is_points ? 8 * mega * pairs : 0,
           is_points && lists ? 8 * mega * pairs : 0,
           mega * (double)spc_plan_workspace_bytes(b->plan, b->map),
           spc_plan_template(b->plan), spc_plan_config(b->plan),
           looks ? "" : " (not compared)");
    fflush(stdout);
}

static void bench_layer(bench *b, const char *text)
{
    spc_error error;

    if (spc_conv_parse(&b->conv, text, &error) != SPC_OK)
        fail(text, error.text);
    if (b->conv.dtype != SPC_F16)
        fail(text, "only f16 is timed here");
    must(b, text,
         spc_map_create_from_scene(&b->map, b->ctx, &b->conv, b->scene));
    make_layer(b);
    print_layer(b, text);
    free_layer(b);
    spc_map_free(b->map);
}

int main(int argc, char **argv)
{
    spc_ctx_options options = SPC_CTX_OPTIONS_INIT;
    spc_error error;
    spc_scene *scene;
    bench b = {0};

    if (argc > 2 && strcmp(argv[1], "--templates") == 0) {
        options.template_dir = argv[2];
        argc -= 2;
        argv += 2;
    }
    if (argc < 4)
        fail("usage", "bench_points [--templates DIR] DEVICE SPEC LAYER...");
    options.device = argv[1];
    if (spc_ctx_create(&b.ctx, &options, &error) != SPC_OK)
        fail(argv[1], error.text);
    if (spc_scene_load(&scene, argv[2], &error) != SPC_OK)
        fail(argv[2], error.text);
    b.scene = scene;
    size_t bytes = 16 * (size_t)spc_scene_rows(scene);
    b.coords = take(&b, bytes);
    must(&b, "coordinates",
         spc_memory_upload(b.coords, b.ctx, spc_scene_coords(scene), bytes));
    for (int i = 3; i < argc; i++)
        bench_layer(&b, argv[i]);
    spc_memory_free(b.ctx, b.coords);
    spc_scene_free(scene);
    spc_ctx_free(b.ctx);
    return EXIT_SUCCESS;
}
