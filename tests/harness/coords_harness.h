/* SPDX-License-Identifier: Apache-2.0 */
/*
 * coords_harness.h - for tests of sets and maps: tests for each device, random
 * rows, and a comparison of a map with the relation that the oracle finds by
 * hashing.
 */
#ifndef SPC_TESTS_COORDS_HARNESS_H
#define SPC_TESTS_COORDS_HARNESS_H

#include "base/random.h"
#include "harness/map_harness.h"
#include "lab/oracle/relation.h"
#include "lab/scene/scene.h"
#include <unistd.h>

static const char *const devices[2] = {"cpu", "sim"};

static inline int loops(int count)
{
    return suite_device ? count : 2 * count;
}

static inline const char *device_of(int loop)
{
    return suite_device ? suite_device : devices[loop % 2];
}

static inline int case_of(int loop)
{
    return suite_device ? loop : loop / 2;
}

/* Adds a test case that runs `count` times on each device. */
static inline void add(Suite *suite, const char *name, const TTest *test,
                       int count)
{
    TCase *tc = tcase_create(name);

    tcase_set_timeout(tc, 60);
    tcase_add_loop_test(tc, test, 0, loops(count));
    suite_add_tcase(suite, tc);
}

static inline spc_ctx *open_ctx(const char *device)
{
    spc_ctx_options options = SPC_CTX_OPTIONS_INIT;
    spc_error error;
    spc_ctx *ctx;

    options.device = device;
    options.database = suite_database();
    options.threads = 2;
    spc_status status = spc_ctx_create(&ctx, &options, &error);
    ck_assert_msg(status == SPC_OK, "%s", error.text);
    return ctx;
}

static inline spc_conv parse(const char *layer)
{
    spc_error error;
    spc_conv conv;
    spc_status status = spc_conv_parse(&conv, layer, &error);

    ck_assert_msg(status == SPC_OK, "%s", error.text);
    return conv;
}

/* ---- scenes ----------------------------------------------------------- */

typedef struct rows {
    int32_t (*at)[4];
    int count;
} rows;

static inline int compare(const void *a, const void *b)
{
    const int32_t *x = a, *y = b;

    for (int i = 0; i < 4; i++)
        if (x[i] != y[i])
            return x[i] < y[i] ? -1 : 1;
    return 0;
}

/* Returns distinct rows within low .. low + extent, in random order. */
static inline rows draw(int count, int low, int extent, int batches,
                        uint64_t seed)
{
    rows r = {calloc((size_t)count + 1, 16), 0};
    spc__random random;

    spc__random_init(&random, seed);
    for (int i = 0; i < count; i++) {
        r.at[i][0] = (int)spc__random_below(&random, (uint32_t)batches);
        for (int a = 1; a < 4; a++)
            r.at[i][a] =
                low + (int)spc__random_below(&random, (uint32_t)extent);
    }
    qsort(r.at, (size_t)count, 16, compare);
    for (int i = 0; i < count; i++)
        if (i == 0 || compare(r.at[i], r.at[r.count - 1]) != 0)
            memmove(r.at[r.count++], r.at[i], 16);
    for (int i = r.count - 1; i > 0; i--) {
        int32_t swap[4];
        int j = (int)spc__random_below(&random, (uint32_t)i + 1);
        memcpy(swap, r.at[i], 16);
        memcpy(r.at[i], r.at[j], 16);
        memcpy(r.at[j], swap, 16);
    }
    return r;
}

static inline spc_scene *scene_of(const rows *r)
{
    spc_error error;
    spc_scene *scene;
    spc_status status =
        spc_scene_create(&scene, &r->at[0][0], r->count, "drawn", &error);

    ck_assert_msg(status == SPC_OK, "%s", error.text);
    return scene;
}

static inline void *upload(spc_ctx *ctx, const void *from, size_t bytes)
{
    void *memory;

    assert_ok(ctx, spc_memory_alloc(&memory, ctx, bytes + 16));
    assert_ok(ctx, spc_memory_upload(memory, ctx, from, bytes));
    return memory;
}

/* ---- a map against its relation ---------------------------------------- */

/* Returns the map's index as [K][rows out], without the padding up to
 * capacity. */
static inline int32_t *download(spc_ctx *ctx, const spc_map *map)
{
    size_t capacity = (size_t)spc_coords_capacity(spc_map_out(map));
    size_t rows_out = (size_t)spc_map_rows_out(map);
    int32_t *index = malloc(4 * (size_t)map->offsets * (capacity + 1));

    assert_ok(ctx, spc_map_download(index, map));
    for (size_t k = 1; k < (size_t)map->offsets; k++)
        memmove(index + k * rows_out, index + k * capacity, 4 * rows_out);
    return index;
}

static inline void check_relation(spc_ctx *ctx, spc_map *map,
                                  const spc__relation *want)
{
    ck_assert_int_eq(spc_map_rows_out(map), want->rows_out);
    ck_assert_int_eq(spc_map_rows_in(map), want->rows_in);
    ck_assert_int_eq(spc_map_pairs(map), want->pairs);
    int32_t *got = download(ctx, map);
    for (int64_t i = 0; i < want->offsets * want->rows_out; i++)
        require(got[i] == want->index[i], "offset %d of row %d: %d, not %d",
                (int)(i / want->rows_out), (int)(i % want->rows_out), got[i],
                want->index[i]);
    check_layouts(ctx, map, got);
    free(got);
}

static inline void check_map(spc_ctx *ctx, spc_map *map, const spc_conv *conv,
                             const rows *r)
{
    spc_scene *scene = scene_of(r);
    spc__relation want;
    spc_error error = {0};

    spc_status status = spc__relation_init(&want, conv, scene, 2, NULL, &error);
    ck_assert_msg(status == SPC_OK, "%s", error.text);
    check_relation(ctx, map, &want);
    spc__relation_release(&want);
    spc_scene_free(scene);
}

/* Returns the coordinates of a set of outputs, by row. */
static inline void check_outputs(spc_ctx *ctx, const spc_coords *out,
                                 const spc_conv *conv, const rows *r)
{
    spc_scene *scene = scene_of(r);
    spc__relation want;
    spc_error error = {0};

    ck_assert(spc__relation_init(&want, conv, scene, 2, NULL, &error) ==
              SPC_OK);
    ck_assert_int_eq(spc_coords_rows(out), want.rows_out);
    int32_t *got = fetch(ctx, spc_coords_data(out), 4 * (size_t)want.rows_out);
    require(memcmp(got, want.coords_out, 16 * (size_t)want.rows_out) == 0,
            "the outputs' coordinates differ");
    free(got);
    spc__relation_release(&want);
    spc_scene_free(scene);
}

static inline spc_coords *reserve(spc_ctx *ctx, int capacity, int low, int high,
                                  spc_duplicates duplicates)
{
    spc_coords_options options = SPC_COORDS_OPTIONS_INIT;
    spc_coords *coords;

    options.capacity = capacity;
    options.high[0] = 1;
    for (int i = 1; i < 4; i++) {
        options.low[i] = low;
        options.high[i] = high;
    }
    options.duplicates = duplicates;
    assert_ok(ctx, spc_coords_create_reserved(&coords, ctx, &options));
    return coords;
}

#endif
