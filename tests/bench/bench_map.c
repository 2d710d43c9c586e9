/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench_map.c - how long voxel indexing takes:
 * bench_map [--frames | --index] [--templates DIR] [--database FILE] DEVICE
 * SCENE...
 *
 * Rows are shuffled first, so that sorting has real work. Microseconds are
 * medians of warm runs, for kernel sizes 1, 3 and 5: the index in coordinate
 * order (pack, sort, search); row order plus tile table of a built map; and
 * both as one build, which writes the index in its final order only. Then, for
 * every row order, the rows that tiles execute over the pairs that are needed;
 * and the update of a map that was reserved for a capacity, with row order and
 * tiles and the count on the device, as a vehicle does for every frame, of the
 * same scene and of two in turn; with --frames that alone, with --index the
 * first three of kernel sizes 3 and 5. In a database code is compiled once.
 */
#include "base/clock.h"
#include "base/random.h"
#include "context/ctx.h"
#include "coords/index/indexer.h"
#include "coords/map.h"
#include "spc/lab.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SAMPLES = 15, TILE_ROWS = 64, CAPACITY = 160000 };

typedef struct run {
    spc_map *map;
    const int32_t *coords;
    int64_t rows;
    bool index, order;
} run;

static spc_status enqueue(void *payload, void *stream)
{
    run *r = payload;

    if (r->index)
        return spc__map_rebuild(r->map, r->coords, r->rows, !r->order, stream);
    return spc__map_relayout(r->map, "gray", TILE_ROWS, stream);
}

static void fail(const char *what, const char *why)
{
    fprintf(stderr, "bench_map: %s: %s\n", what, why);
    exit(EXIT_FAILURE);
}

static double median_us_of(spc_ctx *ctx,
                           spc_status (*enqueued)(void *payload, void *stream),
                           void *payload, bool cold)
{
    spc__measure how = {.enqueue = enqueued,
                        .payload = payload,
                        .samples = SAMPLES,
                        .limit_s = 10,
                        .cold = cold};
    double samples[SAMPLES];
    spc_error error;
    int count;

    if (spc__device_ops_of(ctx->device)
            ->measure(ctx->device, &how, samples, &count, &error) != SPC_OK)
        fail("measure", error.text);
    return spc__median(samples, count);
}

static double median_us(spc_ctx *ctx, run r, bool cold)
{
    return median_us_of(ctx, enqueue, &r, cold);
}

/* ---- frames -------------------------------------------------------------- */

typedef struct frame {
    spc_map *map;
    int32_t *coords, *count; /* in device memory */
    int32_t *mirrored;       /* a second scene of the same size */
} frame;

static spc_status enqueue_frame(void *payload, void *stream)
{
    frame *f = payload;

    return spc_map_update(f->map, f->coords, f->count, 0, stream);
}

static void *upload(spc_ctx *ctx, const void *from, size_t bytes)
{
    void *to;

    if (spc_memory_alloc(&to, ctx, bytes) != SPC_OK ||
        spc_memory_upload(to, ctx, from, bytes) != SPC_OK)
        fail("upload", spc_ctx_error(ctx));
    return to;
}

/* Alternates two frames that differ, so that data of the previous frame are of
 * no use. */
static spc_status enqueue_two(void *payload, void *stream)
{
    frame *f = payload;
    spc_status status =
        spc_map_update(f->map, f->mirrored, f->count, 0, stream);

    return status == SPC_OK ? enqueue_frame(payload, stream) : status;
}

/* Mirrors the rows along x. */
static int32_t *upload_mirrored(spc_ctx *ctx, const spc_scene *scene)
{
    size_t bytes = 16 * (size_t)spc_scene_rows(scene);
    int32_t *rows = malloc(bytes + 1);

    memcpy(rows, spc_scene_coords(scene), bytes);
    for (size_t i = 1; i < bytes / 4; i += 4)
        rows[i] = -rows[i];
    int32_t *out = upload(ctx, rows, bytes);
    free(rows);
    return out;
}

/* Uses the extent of a sensor instead of the scene's: 80 m at 5 cm, 8 m down
 * and 3 m up. */
static spc_coords *reserve(spc_ctx *ctx, int64_t capacity)
{
    spc_coords_options options = {.bytes = sizeof(spc_coords_options),
                                  .capacity = capacity,
                                  .low = {0, -1600, -1600, -160},
                                  .high = {0, 1600, 1600, 64},
                                  .duplicates = SPC_DUPLICATES_FIRST};
    spc_coords *set;

    if (spc_coords_create_reserved(&set, ctx, &options) != SPC_OK)
        fail("reserve", spc_ctx_error(ctx));
    return set;
}

static void bench_frame(spc_ctx *ctx, const spc_scene *scene, int kernel,
                        int64_t capacity)
{
    spc_geometry geometry = SPC_GEOMETRY_INIT;
    int32_t rows = (int32_t)spc_scene_rows(scene);
    spc_coords *set = reserve(ctx, capacity > rows ? capacity : rows);
    frame f = {.coords =
                   upload(ctx, spc_scene_coords(scene), 16 * (size_t)rows),
               .count = upload(ctx, &rows, sizeof(rows)),
               .mirrored = upload_mirrored(ctx, scene)};

    for (int i = 0; i < 3; i++)
        geometry.kernel[i] = kernel;
    if (spc_map_create(&f.map, set, set, &geometry) != SPC_OK ||
        enqueue_frame(&f, NULL) != SPC_OK ||
        spc__map_prepare(f.map, "gray", TILE_ROWS, NULL) != SPC_OK)
        fail(spc_scene_name(scene), spc_ctx_error(ctx));
    double warm = median_us_of(ctx, enqueue_frame, &f, false);
    double cold = median_us_of(ctx, enqueue_frame, &f, true);
    double two = median_us_of(ctx, enqueue_two, &f, false);
    if (spc_coords_check(set, NULL) != SPC_OK ||
        spc_map_check(f.map, NULL) != SPC_OK || spc_map_rows_out(f.map) != rows)
        fail(spc_scene_name(scene), spc_ctx_error(ctx));
    printf("    frame of K%d, room for %lld, %d-bit keys: warm %.1f, cold "
           "%.1f, one of two in turn %.1f\n",
           kernel, (long long)spc_coords_capacity(set),
           spc_coords_key_bits(set), warm, cold, two / 2);
    fflush(stdout);
    spc_map_free(f.map);
    spc_coords_free(set);
    spc_memory_free(ctx, f.coords);
    spc_memory_free(ctx, f.count);
    spc_memory_free(ctx, f.mirrored);
}

/* ---- scenes -------------------------------------------------------------- */

static spc_scene *load_shuffled(const char *spec)
{
    spc_error error;
    spc_scene *scene, *shuffled;
    spc__random random;

    if (spc_scene_load(&scene, spec, &error) != SPC_OK)
        fail(spec, error.text);
    int64_t rows = spc_scene_rows(scene);
    int32_t(*at)[4] = malloc(16 * (size_t)rows + 1);
    memcpy(at, spc_scene_coords(scene), 16 * (size_t)rows);
    spc__random_init(&random, 1);
    for (int64_t i = rows - 1; i > 0; i--) {
        int32_t swap[4];
        uint32_t j = spc__random_below(&random, (uint32_t)i + 1);
        memcpy(swap, at[i], 16);
        memcpy(at[i], at[j], 16);
        memcpy(at[j], swap, 16);
    }
    if (spc_scene_create(&shuffled, at[0], rows, spec, &error) != SPC_OK)
        fail(spec, error.text);
    free(at);
    spc_scene_free(scene);
    return shuffled;
}

static void check(spc_map *map, const spc_conv *conv, const spc_scene *scene)
{
    size_t bytes = 4 * (size_t)(map->offsets * spc_scene_rows(scene));
    int32_t *got = malloc(bytes);
    spc_relation want = {0};

    if (spc_map_download(got, map) != SPC_OK ||
        spc_oracle_relation(&want, conv, scene, 0, NULL) != SPC_OK ||
        memcmp(got, want.index, bytes) != 0)
        fail(spc_scene_name(scene), "the map differs from the oracle's");
    free(got);
    spc_relation_release(&want);
}

/* Counts the rows that the tiles of a group of offsets execute. */
static double rows_executed(spc_ctx *ctx, const spc_map *map, const char *order,
                            int tile_rows, int group)
{
    spc_map_view view;
    double rows = 0;

    if (!spc__map_view_group(&view, map, order, tile_rows, group))
        fail(order, spc_ctx_error(ctx));
    size_t words = (size_t)view.tiles * (size_t)view.mask_words;
    unsigned *mask = malloc(4 * words + 4);
    spc_memory_download(mask, ctx, view.tile_mask, 4 * words);
    for (size_t i = 0; i < words; i++)
        rows += tile_rows * __builtin_popcount(mask[i]);
    free(mask);
    return rows;
}

/* Returns the ratio of executed rows to needed pairs. */
static double tile_waste(spc_ctx *ctx, spc_map *map, const char *order,
                         int tile_rows)
{
    int groups = spc__row_order_groups(spc__row_order_find(order));
    double rows = 0;

    if (spc__map_prepare(map, order, tile_rows, NULL) != SPC_OK)
        fail(order, spc_ctx_error(ctx));
    for (int g = 0; g < groups; g++)
        rows += rows_executed(ctx, map, order, tile_rows, g);
    return rows / (double)spc_map_pairs(map);
}

/* Prints the ratio for every order and several sizes. */
static void print_waste(spc_ctx *ctx, spc_map *map)
{
    static const char *const orders[] = {"gray",   "gray_x", "gray_y",
                                         "planes", "gray2",  "gray3",
                                         "gray4",  "dense",  "morton"};
    static const int sizes[] = {16, 64, 128, 192};

    for (size_t i = 0; i < sizeof orders / sizeof *orders; i++) {
        printf("    waste, %-6s tiles of 16 64 128 192:", orders[i]);
        for (size_t j = 0; j < sizeof sizes / sizeof *sizes; j++)
            printf(" %.3f", tile_waste(ctx, map, orders[i], sizes[j]));
        printf("\n");
    }
}

static void bench(spc_ctx *ctx, const spc_scene *scene, int kernel, bool waste)
{
    spc_conv conv = SPC_CONV_INIT;
    spc_map *map;

    conv.cin = conv.cout = 16;
    for (int i = 0; i < 3; i++)
        conv.geometry.kernel[i] = kernel;
    if (spc_map_create_from_scene(&map, ctx, &conv, scene) != SPC_OK ||
        spc__map_prepare(map, "gray", TILE_ROWS, NULL) != SPC_OK)
        fail(spc_scene_name(scene), spc_ctx_error(ctx));
    check(map, &conv, scene);
    run r = {map, spc__map_coords(map), spc_scene_rows(scene), false, true};
    double order = median_us(ctx, r, false);
    r.index = true;
    double both = median_us(ctx, r, false);
    check(map, &conv, scene);
    r.order = false;
    if (spc__map_prepare(map, "none", 0, NULL) != SPC_OK)
        fail(spc_scene_name(scene), spc_ctx_error(ctx));
    double index = median_us(ctx, r, false), cold = median_us(ctx, r, true);
    if (spc_map_check(map, NULL) != SPC_OK)
        fail(spc_scene_name(scene), spc_ctx_error(ctx));
    check(map, &conv, scene);
    printf("%-32s %8lld %2d %3d %8.1f %8.1f %8.1f %8.1f %6.3f\n",
           spc_scene_name(scene), (long long)spc_map_rows_out(map),
           spc_map_key_bits(map), kernel, index, cold, order, both,
           tile_waste(ctx, map, "gray", TILE_ROWS));
    if (waste)
        print_waste(ctx, map);
    fflush(stdout);
    spc_map_free(map);
}

int main(int argc, char **argv)
{
    spc_ctx_options options = SPC_CTX_OPTIONS_INIT;
    spc_error error;
    spc_ctx *ctx;

    bool frames = argc > 1 && strcmp(argv[1], "--frames") == 0;
    bool index = argc > 1 && strcmp(argv[1], "--index") == 0;
    argc -= frames || index;
    argv += frames || index;
    if (argc > 2 && strcmp(argv[1], "--templates") == 0) {
        options.template_dir = argv[2];
        argc -= 2;
        argv += 2;
    }
    options.database = "";
    if (argc > 2 && strcmp(argv[1], "--database") == 0) {
        options.database = argv[2];
        argc -= 2;
        argv += 2;
    }
    if (argc < 3) {
        fprintf(stderr, "usage: bench_map [--frames | --index] [--templates "
                        "DIR] [--database FILE] DEVICE SCENE...\n");
        return EXIT_FAILURE;
    }
    options.device = argv[1];
    if (spc_ctx_create(&ctx, &options, &error) != SPC_OK)
        fail(argv[1], error.text);
    printf("%-32s %8s %2s %3s %8s %8s %8s %8s %6s\n", "scene", "voxels", "b",
           "K", "index", "cold", "order", "both", "waste");
    for (int i = 2; i < argc; i++) {
        spc_scene *scene = load_shuffled(argv[i]);
        for (int kernel = index ? 3 : 1; kernel <= 5 && !frames; kernel += 2)
            bench(ctx, scene, kernel, !index);
        if (!index)
            bench_frame(ctx, scene, 3, 0);
        for (int kernel = 3; kernel <= 7 && !index; kernel += 2)
            bench_frame(ctx, scene, kernel, CAPACITY);
        spc_scene_free(scene);
    }
    spc_ctx_free(ctx);
    return EXIT_SUCCESS;
}
