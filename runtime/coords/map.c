/*
 * map.c - kernel maps: creating, looking at and checking them.
 *
 * A map owns its memory; filling it in is the work of a builder: templates on
 * cuda and sim (map_device.c), threaded C on the cpu device (map_host.c).
 */
#include "error.h"
#include "map_builder.h"
#include <stdlib.h>
#include <string.h>

extern const spc__map_builder spc__map_builder_device; /* map_device.c */
extern const spc__map_builder spc__map_builder_host;   /* map_host.c */

/* The first that serves the context's device builds. */
static const spc__map_builder *const builders[] = {
    &spc__map_builder_device,
    &spc__map_builder_host,
};

/* ---- memory ----------------------------------------------------------- */

static const spc__device_ops *ops_of(const spc_map *map)
{
    return spc__device_ops_of(map->ctx->device);
}

spc_status spc__map_alloc(void **out, const spc_map *map, size_t bytes,
                          spc_error *error)
{
    return ops_of(map)->alloc(map->ctx->device, out, bytes ? bytes : 1, error);
}

void spc__map_dealloc(const spc_map *map, void *memory)
{
    if (memory)
        ops_of(map)->dealloc(map->ctx->device, memory);
}

/* ---- creating --------------------------------------------------------- */

static spc_status check_request(const spc_conv *conv, const int32_t *coords,
                                int64_t rows, spc_error *error)
{
    spc_status status = spc_geometry_check(&conv->geometry, error);

    if (status != SPC_OK) {
        spc__fail_prefix(error, "cannot build a kernel map: ");
        return status;
    }
    int64_t offsets = spc__conv_offsets(conv);
    if (rows < 0 || (rows > 0 && !coords))
        return spc__fail(
            error, SPC_EINVAL, "cannot build a kernel map of %lld rows%s",
            (long long)rows, rows < 0 ? "" : " without coordinates");
    if (rows > (INT32_MAX / offsets) - SPC_ROW_PAD)
        return spc__fail(error, SPC_EINVAL,
                         "cannot build a kernel map of %lld rows and %lld "
                         "offsets: at most 2^31-1 entries are possible; split "
                         "the scene by batch",
                         (long long)rows, (long long)offsets);
    return SPC_OK;
}

static int round_up(int value, int unit)
{
    return (value + unit - 1) / unit * unit;
}

static void describe(spc_map *map, spc_ctx *ctx, const spc_conv *conv,
                     int64_t rows)
{
    const int *k = conv->geometry.kernel;

    map->ctx = ctx;
    map->conv = *conv;
    map->offsets = k[0] * k[1] * k[2];
    map->mask_words = (map->offsets + 31) / 32;
    map->centre =
        ((k[0] - 1) / 2 * k[1] + (k[1] - 1) / 2) * k[2] + (k[2] - 1) / 2;
    map->rows = map->capacity = (int)rows;
    map->rows_padded = round_up(rows ? (int)rows : 1, SPC_ROW_PAD);
    for (size_t i = 0; i < sizeof builders / sizeof *builders; i++)
        if (!map->builder && builders[i]->serves(ctx))
            map->builder = builders[i];
}

static spc_status alloc_common(spc_map *map, spc_error *error)
{
    spc_status status = spc__map_layout_alloc(&map->plain, map, error);
    void *memory;

    if (status != SPC_OK)
        return status;
    /* u64 also where the key is u32: a builder may work in the wider type. */
    status = spc__map_alloc(
        &memory, map, 8 * ((size_t)map->rows_padded + SPC__KEY_SLACK), error);
    map->keys = memory;
    if (status != SPC_OK)
        return status;
    status = spc__map_alloc(&memory, map, 4 * (size_t)SPC__MAP_STATS, error);
    map->stats = memory;
    return status;
}

static spc_status check_batches(int32_t lowest, const int32_t *coords,
                                int64_t rows, spc_error *error)
{
    for (int64_t row = 0; lowest < 0 && row < rows; row++)
        if (coords[4 * row] < 0)
            return spc__fail(error, SPC_ERANGE,
                             "cannot build a kernel map: the batch of row %lld "
                             "is %d; batches count from 0",
                             (long long)row, (int)coords[4 * row]);
    return SPC_OK;
}

/* `host` holds the coordinates for learning the extent. */
static spc_status create(spc_map **out, spc_ctx *ctx, const spc_conv *conv,
                         const int32_t *host, int64_t rows, spc_error *error)
{
    spc_map *map = calloc(1, sizeof *map);
    int32_t low[4], high[4];
    spc_status status;

    *out = NULL;
    if (!map)
        return spc__fail_memory(error, sizeof *map);
    describe(map, ctx, conv, rows);
    spc__coords_extent(low, high, host, rows);
    status = check_batches(low[0], host, rows, error);
    if (status == SPC_OK)
        status = spc__key_layout_choose(&map->key, conv, low, high, error);
    if (status == SPC_OK)
        status = alloc_common(map, error);
    if (status == SPC_OK)
        status = map->builder->create(map, error);
    if (status == SPC_OK)
        *out = map;
    else
        spc_map_free(map);
    return status;
}

static spc_status fetch(int32_t **out, spc_ctx *ctx, const int32_t *coords,
                        int64_t rows, void *stream, spc_error *error)
{
    const spc__device_ops *ops = spc__device_ops_of(ctx->device);
    size_t bytes = 16 * (size_t)rows;
    spc_status status;

    *out = malloc(bytes ? bytes : 1);
    if (!*out)
        return spc__fail_memory(error, bytes);
    status = ops->copy_out(ctx->device, *out, coords, bytes, stream, error);
    return status == SPC_OK ? ops->sync(ctx->device, stream, error) : status;
}

static spc_status build_checked(spc_map *map, const int32_t *coords,
                                void *stream)
{
    /* To the kernels, no coordinates mean that the map is built already; of no
     * rows they read none. */
    if (coords == NULL)
        coords = map->keys;
    spc_status status =
        spc__map_rebuild(map, coords, map->capacity, true, stream);

    return status == SPC_OK ? spc__map_check(map, stream) : status;
}

spc_status spc_map_create(spc_map **out, spc_ctx *ctx, const spc_conv *conv,
                          const int32_t *coords, int64_t rows, void *stream)
{
    int32_t *host = NULL;
    spc_map *map = NULL;
    spc_error error = {0};
    spc_status status = spc__need(spc__error_of(ctx), __func__, "out", out,
                                  "ctx", ctx, "conv", conv, NULL);

    if (out != NULL)
        *out = NULL;
    if (status != SPC_OK)
        return status;
    if ((status = check_request(conv, coords, rows, &error)) != SPC_OK)
        goto done;
    if ((status = fetch(&host, ctx, coords, rows, stream, &error)) != SPC_OK)
        goto done;
    if ((status = create(&map, ctx, conv, host, rows, &error)) != SPC_OK)
        goto done;
    if ((status = build_checked(map, coords, stream)) != SPC_OK) {
        spc_map_free(map); /* the sentence is in the context already */
        free(host);
        return status;
    }
    *out = map;
done:
    free(host);
    return status == SPC_OK ? status : spc__ctx_fail(ctx, &error);
}

static spc_status upload(spc_map *map, const int32_t *coords, int64_t rows,
                         spc_error *error)
{
    void *memory;
    spc_status status = spc__map_alloc(&memory, map, 16 * (size_t)rows, error);

    map->coords = memory;
    if (status == SPC_OK)
        status = ops_of(map)->copy_in(map->ctx->device, memory, coords,
                                      16 * (size_t)rows, NULL, error);
    return status;
}

spc_status spc_map_create_from_scene(spc_map **out, spc_ctx *ctx,
                                     const spc_conv *conv,
                                     const spc_scene *scene)
{
    const int32_t *coords = spc_scene_coords(scene);
    int64_t rows = spc_scene_rows(scene);
    spc_map *map = NULL;
    spc_error error = {0};
    spc_status status =
        spc__need(spc__error_of(ctx), __func__, "out", out, "ctx", ctx, "conv",
                  conv, "scene", scene, NULL);

    if (out != NULL)
        *out = NULL;
    if (status != SPC_OK)
        return status;
    if ((status = check_request(conv, coords, rows, &error)) != SPC_OK)
        goto done;
    if ((status = create(&map, ctx, conv, coords, rows, &error)) != SPC_OK)
        goto done;
    if ((status = upload(map, coords, rows, &error)) != SPC_OK)
        goto done;
    if ((status = build_checked(map, map->coords, NULL)) != SPC_OK) {
        spc_map_free(map);
        return status;
    }
    *out = map;
    map = NULL;
done:
    spc_map_free(map);
    return status == SPC_OK ? status : spc__ctx_fail(ctx, &error);
}

void spc_map_free(spc_map *map)
{
    if (!map)
        return;
    map->builder->destroy(map);
    for (spc__map_layout *next, *layout = map->sorted; layout; layout = next) {
        next = layout->next;
        spc__map_layout_release(map, layout);
        free(layout);
    }
    spc__map_layout_release(map, &map->plain);
    spc__map_dealloc(map, map->coords);
    spc__map_dealloc(map, map->keys);
    spc__map_dealloc(map, map->stats);
    free(map);
}

/* ---- looking at a map ------------------------------------------------- */

int64_t spc_map_rows(const spc_map *map)
{
    return map != NULL ? map->rows : 0;
}

int64_t spc_map_pairs(const spc_map *map)
{
    return map != NULL ? map->pairs : 0;
}

double spc_map_density(const spc_map *map)
{
    if (map == NULL || map->rows == 0)
        return 0;
    return (double)map->pairs / map->rows / map->offsets;
}

int spc_map_key_bits(const spc_map *map)
{
    if (map == NULL)
        return 0;
    return map->key.total_bits <= 32 ? 32 : 64;
}

spc_ctx *spc__map_ctx(const spc_map *map)
{
    return map->ctx;
}

const spc_conv *spc__map_conv(const spc_map *map)
{
    return &map->conv;
}

const int32_t *spc__map_coords(const spc_map *map)
{
    return map->coords;
}

/* From coordinate order to the caller's. */
static void unsort(int32_t *out, const spc_map *map, const int32_t *order,
                   const int32_t *index)
{
    for (int k = 0; k < map->offsets; k++)
        for (int p = 0; p < map->rows; p++)
            out[(size_t)k * (size_t)map->rows + (size_t)order[p]] =
                index[(size_t)k * (size_t)map->rows_padded + (size_t)p];
}

/* Copies the plain layout: its order, then its index. */
static spc_status fetch_plain(int32_t *host, const spc_map *map,
                              const spc__map_layout *plain, spc_error *error)
{
    spc__device *device = map->ctx->device;
    size_t rows = (size_t)map->rows_padded;
    spc_status status;

    if ((status = ops_of(map)->copy_out(device, host, plain->order, 4 * rows,
                                        NULL, error)) != SPC_OK ||
        (status = ops_of(map)->copy_out(device, host + rows, plain->index,
                                        4 * rows * (size_t)map->offsets, NULL,
                                        error)) != SPC_OK)
        return status;
    return ops_of(map)->sync(device, NULL, error);
}

spc_status spc_map_download(const spc_map *map, int32_t *index)
{
    spc_error error = {0};
    spc_status status = spc__need(NULL, __func__, "map", map, NULL);

    if (status != SPC_OK)
        return status;
    if (map->rows > 0 && index == NULL)
        return spc__need(spc__error_of(map->ctx), __func__, "index", index,
                         NULL);
    size_t rows = (size_t)map->rows_padded;
    size_t bytes = 4 * rows * (size_t)(1 + map->offsets);
    int32_t *host = malloc(bytes);
    spc__map_layout plain = map->plain;

    if (!host)
        status = spc__fail_memory(&error, bytes);
    if (status == SPC_OK && !map->plain.index) {
        status = spc__map_index_alloc(&plain, map, &error);
        if (status == SPC_OK)
            status = map->builder->fill(map, &plain, NULL, &error);
    }
    if (status == SPC_OK)
        status = fetch_plain(host, map, &plain, &error);
    if (status == SPC_OK)
        unsort(index, map, host, host + rows);
    if (plain.index != map->plain.index)
        spc__map_dealloc(map, plain.index);
    free(host);
    return status == SPC_OK ? status : spc__ctx_fail(map->ctx, &error);
}

/* ---- trouble ---------------------------------------------------------- */

static spc_status fail_range(const spc_map *map, const int32_t *bad_row,
                             spc_error *error)
{
    static const char *const fields[4] = {"batch", "x", "y", "z"};
    int at = 0;

    for (int i = 1; i < 4; i++)
        if (bad_row[i] < bad_row[at])
            at = i;
    long long low = map->key.low[at];
    return spc__fail(error, SPC_ERANGE,
                     "row %d: its %s lies outside the map's key layout, which "
                     "holds %lld to %lld; create a new map for this scene",
                     (int)bad_row[at], fields[at], low,
                     low + (long long)map->key.last[at]);
}

static uint64_t key_at(const spc_map *map, const void *keys, int p)
{
    if (map->builder == &spc__map_builder_host || map->key.total_bits > 32)
        return ((const uint64_t *)keys)[p];
    return ((const uint32_t *)keys)[p];
}

static void unpack(int64_t out[4], const spc__key_layout *layout, uint64_t key)
{
    for (int i = 3; i >= 0; i--) {
        uint64_t field = key;
        if (layout->bits[i] < 64)
            field &= ((uint64_t)1 << layout->bits[i]) - 1;
        out[i] = (int64_t)field - layout->before[i] + layout->low[i];
        key = layout->bits[i] < 64 ? key >> layout->bits[i] : 0;
    }
}

/* The pair whose second row comes first in the caller's order. */
static spc_status fail_duplicate(const spc_map *map, spc_error *error)
{
    size_t rows = (size_t)map->rows;
    int32_t *order = malloc(4 * rows);
    uint64_t *keys = malloc(8 * rows);
    spc__device *device = map->ctx->device;
    int first = -1, second = INT32_MAX;
    int64_t c[4] = {0};
    spc_status status = SPC_OK;

    if (!order || !keys)
        status = spc__fail_memory(error, 8 * rows);
    if (status == SPC_OK)
        status = ops_of(map)->copy_out(device, order, map->plain.order,
                                       4 * rows, NULL, error);
    if (status == SPC_OK)
        status = ops_of(map)->copy_out(device, keys, map->keys, 8 * rows, NULL,
                                       error);
    if (status == SPC_OK)
        status = ops_of(map)->sync(device, NULL, error);
    for (int p = 1; status == SPC_OK && p < map->rows; p++) {
        int a = order[p - 1], b = order[p];
        if (key_at(map, keys, p - 1) != key_at(map, keys, p) ||
            (a > b ? a : b) >= second)
            continue;
        first = a < b ? a : b;
        second = a > b ? a : b;
        unpack(c, &map->key, key_at(map, keys, p));
    }
    free(order);
    free(keys);
    if (status != SPC_OK)
        return status;
    return spc__fail(error, SPC_EDUPLICATE,
                     "rows %d and %d have the same coordinate (batch %lld, "
                     "x %lld, y %lld, z %lld); merge duplicates first",
                     first, second, (long long)c[0], (long long)c[1],
                     (long long)c[2], (long long)c[3]);
}

spc_status spc__map_check(spc_map *map, void *stream)
{
    int32_t stats[SPC__MAP_STATS];
    spc__device *device = map->ctx->device;
    spc_error error = {0};
    spc_status status;

    status = ops_of(map)->copy_out(device, stats, map->stats, sizeof stats,
                                   stream, &error);
    if (status == SPC_OK)
        status = ops_of(map)->sync(device, stream, &error);
    if (status != SPC_OK)
        return spc__ctx_fail(map->ctx, &error);
    for (int i = 0; i < 4; i++)
        if (stats[SPC__MAP_BAD_ROW + i] != SPC__MAP_NO_ROW) {
            fail_range(map, stats + SPC__MAP_BAD_ROW, &error);
            return spc__ctx_fail(map->ctx, &error);
        }
    if (stats[SPC__MAP_DUPLICATES] != 0) {
        fail_duplicate(map, &error);
        return spc__ctx_fail(map->ctx, &error);
    }
    map->pairs = ((int64_t)(uint32_t)stats[SPC__MAP_PAIRS + 1] << 16) +
                 (uint32_t)stats[SPC__MAP_PAIRS];
    return SPC_OK;
}
