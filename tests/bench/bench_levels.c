/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench_levels.c - how long the sets and maps of a network take:
 * bench_levels DEVICE NETWORK CAPACITY SCENE...
 *
 * Microseconds are medians of warm runs: each set and map alone, on the whole
 * device and on its share of it; all of them one after the other; all of them
 * as a graph has them, side by side; and the replay of the whole network, whose
 * kernels are defaults unless SPC_DATABASE has better ones. The contents of the
 * sets are compared with those before, and a replay's output with that of a run
 * that was not captured.
 */
#include "base/clock.h"
#include "context/ctx.h"
#include "coords/map.h"
#include "net/net_plan.h"
#include "spc/lab.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SAMPLES = 15 };

typedef struct bench {
    spc_ctx *ctx;
    spc_net_plan *plan;
    spc_net_buffers buffers;
    int first, last; /* works */
} bench;

static void fail(const char *what, const char *why)
{
    fprintf(stderr, "bench_levels: %s: %s\n", what, why);
    exit(EXIT_FAILURE);
}

static void must(const bench *b, const char *what, spc_status status)
{
    if (status != SPC_OK)
        fail(what, spc_ctx_error(b->ctx));
}

static void *take(const bench *b, size_t bytes)
{
    void *memory;

    must(b, "memory", spc_memory_alloc(&memory, b->ctx, bytes + 256));
    return memory;
}

/* ---- timed calls --------------------------------------------------------- */

static spc_status one_after_the_other(void *payload, void *stream)
{
    const bench *b = payload;
    spc_status status = SPC_OK;

    for (int i = b->first; i < b->last && status == SPC_OK; i++)
        status = spc__net_work_run(b->plan, i, &b->buffers, stream);
    return status;
}

static spc_status side_by_side(void *payload, void *stream)
{
    const bench *b = payload;

    return spc__net_run_branches(b->plan, &b->buffers, stream);
}

static double median_us(bench *b, spc_status (*enqueue)(void *, void *))
{
    spc__measure how = {
        .enqueue = enqueue, .payload = b, .samples = SAMPLES, .limit_s = 5};
    double samples[SAMPLES];
    spc_error error;
    int count;

    if (spc__device_ops_of(b->ctx->device)
            ->measure(b->ctx->device, &how, samples, &count, &error) != SPC_OK)
        fail("measure", error.text);
    return spc__median(samples, count);
}

/* Returns the wall time of a replay, from its launch to its end. */
static double replay_us(const bench *b)
{
    double samples[SAMPLES];

    must(b, "capture", spc_net_plan_capture(b->plan, &b->buffers));
    for (int i = -3; i < SAMPLES; i++) {
        uint64_t begin = spc__now_ns();
        must(b, "replay", spc_net_plan_replay(b->plan, NULL));
        must(b, "replay", spc_ctx_synchronize(b->ctx));
        if (i >= 0)
            samples[i] = 1e-3 * (double)(spc__now_ns() - begin);
    }
    return spc__median(samples, SAMPLES);
}

/* ---- printing ------------------------------------------------------------ */

/* Prints the layouts that are filled with a map, and their tables of tiles. */
static void print_layouts(const spc_map *map)
{
    for (const spc__map_layout *l = &map->plain; l;
         l = l == &map->plain ? map->sorted : l->next) {
        printf("%s%s", l == &map->plain ? "; plain" : ", ",
               l == &map->plain ? l->index ? " index" : ""
               : l->groups > 1  ? "group"
                                : "sorted");
        for (const spc__map_tiles *t = l->tiles; t; t = t->next)
            printf(" %d", t->rows);
    }
    printf(map->plain.pairs ? ", pairs\n" : "\n");
}

static void print_work(bench *b, int i)
{
    const spc__net_work *work = &b->plan->works[i];
    const spc__net_branch *branch = &b->plan->branches[i];
    spc_coords *set = b->plan->sets[work->set];
    spc_net_step step;

    b->first = i;
    b->last = i + 1;
    spc_net_plan_step_at(&step, b->plan, i);
    double whole = median_us(b, one_after_the_other);
    spc__net_limit(b->plan, i, branch->blocks);
    double share = median_us(b, one_after_the_other);
    spc__net_limit(b->plan, i, 0);
    printf("  %s %2d need %d rows %7d blocks %3u: %6.1f whole, %6.1f share  %s",
           step.name, work->kind == SPC_NET_MAP ? work->map : work->set,
           branch->need, set->rows, branch->blocks, whole, share, step.text);
    if (work->kind == SPC_NET_MAP)
        print_layouts(b->plan->maps[work->map]);
    else
        printf("\n");
}

/* Sums the rows of every set and the pairs of every map. */
static long long holds(const bench *b)
{
    long long all = 0;

    must(b, "check", spc_net_plan_check(b->plan, NULL));
    for (int i = 0; i < b->plan->net->set_count; i++)
        all = 31 * all + spc_coords_rows(b->plan->sets[i]);
    for (int i = 0; i < b->plan->net->map_count; i++)
        all = 31 * all + spc_map_pairs(b->plan->maps[i]);
    return all;
}

/* ---- outputs ------------------------------------------------------------- */

static size_t output_bytes(const spc_net_output *out)
{
    int64_t rows = out->dense ? out->batches : spc_coords_rows(out->set);

    return (size_t)(rows * out->elements) * (out->dtype == SPC_F32 ? 4 : 2);
}

/* Returns the first output; the caller frees it. */
static char *read_output(const bench *b, size_t *bytes)
{
    spc_net_output out;
    const char *memory = b->buffers.memory;

    must(b, "check", spc_net_plan_check(b->plan, NULL));
    must(b, "output", spc_net_plan_output_at(&out, b->plan, 0));
    *bytes = output_bytes(&out);
    char *host = malloc(*bytes + 1);
    must(b, "output",
         spc_memory_download(host, b->ctx, memory + out.offset, *bytes));
    return host;
}

static void poison(const bench *b)
{
    size_t bytes = spc_net_plan_memory_bytes(b->plan);
    char *host = malloc(bytes);

    memset(host, 0x7f, bytes);
    must(b, "poison",
         spc_memory_upload(b->buffers.memory, b->ctx, host, bytes));
    free(host);
}

/* Checks that a replay gives the same bits as a run that was not captured. */
static void compare_bits(const bench *b)
{
    size_t bytes, again;

    poison(b);
    must(b, "run", spc_net_plan_execute(b->plan, &b->buffers, NULL));
    char *want = read_output(b, &bytes);
    must(b, "capture", spc_net_plan_capture(b->plan, &b->buffers));
    for (int i = 0; i < 3; i++) {
        poison(b);
        must(b, "replay", spc_net_plan_replay(b->plan, NULL));
        char *got = read_output(b, &again);
        if (again != bytes || memcmp(want, got, bytes) != 0)
            fail("replay", "the output differs from a run's");
        free(got);
    }
    free(want);
}

static void print_all(bench *b)
{
    compare_bits(b);
    for (int i = 0; i < b->plan->branch_count; i++)
        print_work(b, i);
    b->first = 0;
    b->last = b->plan->branch_count;
    double serial = median_us(b, one_after_the_other);
    long long before = holds(b);
    double beside = median_us(b, side_by_side);
    if (holds(b) != before)
        fail("side by side", "sets and maps are others");
    printf("  all: %.1f one after the other, %.1f side by side; ", serial,
           beside);
    fflush(stdout);
    double replay = replay_us(b);
    printf("replay of the network %.1f\n", replay);
    fflush(stdout);
    if (holds(b) != before)
        fail("replay", "sets and maps are others");
}

/* ---- a network and a scene ----------------------------------------------- */

/* Returns the extent of a sensor as in bench_map, or the scene's extent if it
 * is larger.
 */
static void set_extent(spc_net_options *o, const spc_scene *scene)
{
    static const int32_t low[4] = {0, -1600, -1600, -160},
                         high[4] = {0, 1600, 1600, 64};
    const int32_t *c = spc_scene_coords(scene);

    memcpy(o->low, low, sizeof(low));
    memcpy(o->high, high, sizeof(high));
    for (int64_t i = 0; i < 4 * spc_scene_rows(scene); i++) {
        o->low[i % 4] = c[i] < o->low[i % 4] ? c[i] : o->low[i % 4];
        o->high[i % 4] = c[i] > o->high[i % 4] ? c[i] : o->high[i % 4];
    }
}

/* Makes f16 numbers between -1 and 1 for any number of input channels. */
static void *draw_features(const bench *b, size_t bytes)
{
    uint16_t *host = malloc(bytes);
    void *out = take(b, bytes);
    uint32_t state = 1;

    for (size_t i = 0; i < bytes / 2; i++) {
        state = state * 1664525u + 1013904223u;
        host[i] = (uint16_t)((state >> 16 & 0x8fff) | 0x3000);
    }
    must(b, "features", spc_memory_upload(out, b->ctx, host, bytes));
    free(host);
    return out;
}

static void bench_scene(spc_ctx *ctx, const spc_net *net, const char *spec,
                        int64_t capacity)
{
    spc_net_options o = SPC_NET_OPTIONS_INIT;
    bench b = {.ctx = ctx};
    spc_error error;
    spc_scene *scene;

    if (spc_net_load_scene(&scene, net, spec, &error) != SPC_OK)
        fail(spec, error.text);
    int64_t rows = spc_scene_rows(scene);
    o.capacity = capacity > rows ? capacity : rows;
    o.sample = spc_scene_coords(scene);
    o.sample_rows = rows;
    set_extent(&o, scene);
    must(&b, spec, spc_net_plan_create(&b.plan, ctx, net, &o));
    if (b.plan->branches == NULL)
        fail(spec, "this device has no graphs with branches");
    size_t bytes = 16 * (size_t)rows;
    int32_t *coords = take(&b, bytes);
    must(&b, spec, spc_memory_upload(coords, ctx, o.sample, bytes));
    b.buffers = (spc_net_buffers){
        .bytes = sizeof(spc_net_buffers),
        .coords = coords,
        .rows = rows,
        .features = draw_features(&b, (size_t)o.capacity * 64),
        .memory = take(&b, spc_net_plan_memory_bytes(b.plan)),
    };
    printf("%s, %lld rows, room for %lld\n", spec, (long long)rows,
           (long long)o.capacity);
    print_all(&b);
    spc_memory_free(ctx, coords);
    spc_memory_free(ctx, (void *)(uintptr_t)b.buffers.features);
    spc_memory_free(ctx, b.buffers.memory);
    spc_net_plan_free(b.plan);
    spc_scene_free(scene);
}

int main(int argc, char **argv)
{
    spc_ctx_options options = SPC_CTX_OPTIONS_INIT;
    spc_error error;
    spc_ctx *ctx;
    spc_net *net;

    if (argc < 5) {
        fprintf(stderr,
                "usage: bench_levels DEVICE NETWORK CAPACITY SCENE...\n");
        return EXIT_FAILURE;
    }
    options.device = argv[1];
    if (spc_ctx_create(&ctx, &options, &error) != SPC_OK)
        fail(argv[1], error.text);
    if (spc_net_load(&net, argv[2], SPC_F16, &error) != SPC_OK ||
        spc_net_init_params(net, 3, &error) != SPC_OK)
        fail(argv[2], error.text);
    for (int i = 4; i < argc; i++)
        bench_scene(ctx, net, argv[i], atoll(argv[3]));
    spc_net_free(net);
    spc_ctx_free(ctx);
    return EXIT_SUCCESS;
}
