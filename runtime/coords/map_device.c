/*
 * map_device.c - the map builder of cuda and sim: the templates of role "map".
 *
 * A build is one cooperative launch, with its first layout: no allocation, no
 * host in between, so that it can be captured into a CUDA graph. What the
 * kernel needs to find clear it leaves clear.
 */
#include "error.h"
#include "index_abi.h"
#include "map_builder.h"
#include <stdlib.h>
#include <string.h>

/* SPC_INDEX_SHARES in bits, and the largest number of bins. */
enum { SHARE_BITS = 7, BIN_BITS_MAX = 21 };

typedef struct work {
    /* Keys in two orders while indexing; then digests, and tile masks. */
    char *keys;
    size_t key_bytes;
    int *rows[2];
    unsigned *bins;
    int *begins, *shares;
    int bin_bits;
    int *tables;
    int *first; /* the short form of the map (index_search.cuh) */
    spc_index_sync *sync;
    unsigned grid, block;
    spc__kernel *kernel;
    size_t shared;
} work;

static const spc__device_ops *ops_of(const spc_map *map)
{
    return spc__device_ops_of(map->ctx->device);
}

static bool device_serves(const spc_ctx *ctx)
{
    return !spc__device_ops_of(ctx->device)->builds_maps_on_host;
}

/* ---- choosing sizes --------------------------------------------------- */

static unsigned choose_block(const spc_map *map)
{
    int most = (int)spc__attrs_number(&map->ctx->target, "max_threads", 1024);

    if (ops_of(map)->index_block > 0)
        return ops_of(map)->index_block;
    return most < 1024 ? (unsigned)most : 1024;
}

int spc__index_grid(int most, int threads, int offsets, int key_bytes,
                    int64_t shared)
{
    int grid = most;

    while (grid > SPC_SORT_GROUP &&
           SPC_INDEX_SHARED(threads, offsets, key_bytes, grid) > shared)
        grid = (grid - 1) / SPC_SORT_GROUP * SPC_SORT_GROUP;
    return grid;
}

/* Every multiprocessor takes one block, fewer where rows are few. */
static unsigned choose_grid(const spc_map *map, const work *w)
{
    int most = map->ctx->info.multiprocessors;
    int useful = (map->rows_padded + 127) / 128;
    int64_t shared =
        spc__attrs_number(&map->ctx->target, "shared_block", INT64_MAX);

    most = useful < most ? useful : most > 0 ? most : 1;
    return (unsigned)spc__index_grid(most, (int)w->block, map->offsets,
                                     (int)w->key_bytes, shared);
}

/* About as many bins as rows, so that most hold few keys. */
static int choose_bin_bits(const spc_map *map)
{
    int bits = SHARE_BITS;

    while (bits < BIN_BITS_MAX && bits < map->key.total_bits &&
           1 << bits < map->capacity)
        bits++;
    return bits;
}

/* How the search takes the kernel's offsets (index_search.cuh): in runs of so
 * many neighbours along z, so many runs at once, in so many batches. */
typedef struct runs {
    int length, batch, batches;
} runs;

static runs choose_runs(const spc_conv *conv)
{
    const int *k = conv->geometry.kernel;
    int length = conv->geometry.dilation[2] > 1 ? 1 : k[2] < 8 ? k[2] : 8;
    int count = k[0] * k[1] * ((k[2] + length - 1) / length);
    int batch = count % 3 != 0 && count % 2 == 0 ? 2 : count < 3 ? count : 3;

    return (runs){length, batch, (count + batch - 1) / batch};
}

/* ---- code ------------------------------------------------------------- */

static void index_problem(spc__attrs *out, const spc_map *map, const work *w)
{
    static const char *const bits[4] = {"bits_b", "bits_x", "bits_y", "bits_z"};
    static const char *const kernel[3] = {"kx", "ky", "kz"};
    static const char *const dilation[3] = {"dx", "dy", "dz"};

    memset(out, 0, sizeof *out);
    spc__attrs_set_text(out, "op", "index");
    spc__attrs_set_number(out, "key", spc_map_key_bits(map));
    for (int i = 0; i < 4; i++)
        spc__attrs_set_number(out, bits[i], map->key.bits[i]);
    for (int i = 0; i < 3; i++)
        spc__attrs_set_number(out, kernel[i], map->conv.geometry.kernel[i]);
    for (int i = 0; i < 3; i++)
        spc__attrs_set_number(out, dilation[i], map->conv.geometry.dilation[i]);
    runs r = choose_runs(&map->conv);
    spc__attrs_set_number(out, "run", r.length);
    spc__attrs_set_number(out, "batch", r.batch);
    spc__attrs_set_number(out, "digit", SPC_SORT_DIGIT);
    spc__attrs_set_number(out, "threads", w->block);
}

/* The context words its own failures; the builder's caller expects them in
 * `error`. */
static spc_status load(spc__code *out, const spc_map *map, const char *name,
                       const spc__attrs *problem, spc_error *error)
{
    spc_status status =
        spc__ctx_code(out, map->ctx, name, problem, NULL, SPC_PLAN_JIT);

    if (status != SPC_OK)
        *error = *spc__error_of(map->ctx);
    return status;
}

static spc_status load_kernel(spc_map *map, spc_error *error)
{
    const char *name = "spc_index";
    spc__device *device = map->ctx->device;
    work *w = map->work;
    spc__attrs problem;
    spc__code code;
    int resident;
    spc_status status;

    index_problem(&problem, map, w);
    w->shared = (size_t)SPC_INDEX_SHARED((int)w->block, map->offsets,
                                         (int)w->key_bytes, (int)w->grid);
    if ((status = load(&code, map, "index", &problem, error)) != SPC_OK ||
        (status = ops_of(map)->kernel_get(device, code.module, name, w->shared,
                                          &w->kernel, error)) != SPC_OK ||
        (status = ops_of(map)->occupancy(device, &resident, w->kernel, w->block,
                                         w->shared, error)) != SPC_OK)
        return status;
    /* A cooperative launch needs all its blocks resident. */
    if (resident < 1)
        return spc__fail(error, SPC_EUNSUPPORTED,
                         "kernel '%s' with %u threads and %zu bytes of shared "
                         "memory does not fit a multiprocessor of %s",
                         name, w->block, w->shared, map->ctx->info.name);
    return SPC_OK;
}

/* ---- creating --------------------------------------------------------- */

static void device_destroy(spc_map *map)
{
    work *w = map->work;

    if (!w)
        return;
    spc__map_dealloc(map, w->keys);
    spc__map_dealloc(map, w->rows[0]);
    spc__map_dealloc(map, w->rows[1]);
    spc__map_dealloc(map, w->bins);
    spc__map_dealloc(map, w->begins);
    spc__map_dealloc(map, w->shares);
    spc__map_dealloc(map, w->tables);
    spc__map_dealloc(map, w->first);
    spc__map_dealloc(map, w->sync);
    free(w);
    map->work = NULL;
}

/* Memory whose words are zero when the first kernel runs. */
static spc_status alloc_clear(void *out, const spc_map *map, size_t bytes,
                              spc_error *error)
{
    void **memory = out;
    spc_status status = spc__map_alloc(memory, map, bytes, error);

    return status == SPC_OK ? ops_of(map)->fill(map->ctx->device, *memory, 0,
                                                bytes, NULL, error)
                            : status;
}

static spc_status alloc_work(const spc_map *map, work *w, spc_error *error)
{
    size_t rows = (size_t)map->rows_padded;
    size_t digits = (size_t)1 << SPC_SORT_DIGIT;
    size_t words = (size_t)map->mask_words > 2 ? (size_t)map->mask_words : 2;
    size_t per_row =
        2 * w->key_bytes > 4 * words ? 2 * w->key_bytes : 4 * words;
    size_t tables =
        SPC_SORT_TABLES * SPC_SORT_TABLE((size_t)w->grid, digits) * sizeof(int);
    void *memory = NULL;
    spc_status status = spc__map_alloc(&memory, map, per_row * rows, error);

    w->keys = memory;
    for (int i = 0; i < 2 && status == SPC_OK; i++) {
        status = spc__map_alloc(&memory, map, 4 * rows, error);
        if (status == SPC_OK)
            w->rows[i] = memory;
    }
    if (status == SPC_OK)
        status = spc__map_alloc(
            &memory, map, 16 * rows * (size_t)choose_runs(&map->conv).batches,
            error);
    if (status == SPC_OK)
        w->first = memory;
    if (status == SPC_OK)
        status = alloc_clear(&w->bins, map, (size_t)4 << w->bin_bits, error);
    if (status == SPC_OK)
        status =
            alloc_clear(&w->begins, map, ((size_t)4 << w->bin_bits) + 4, error);
    if (status == SPC_OK)
        status = alloc_clear(&w->shares, map, 4 * SPC_INDEX_SHARES, error);
    if (status == SPC_OK)
        status = alloc_clear(&w->tables, map, tables, error);
    if (status == SPC_OK)
        status = alloc_clear(&w->sync, map, sizeof *w->sync, error);
    /* The build may run on another stream than the clearing. */
    return status == SPC_OK ? ops_of(map)->sync(map->ctx->device, NULL, error)
                            : status;
}

static spc_status device_create(spc_map *map, spc_error *error)
{
    work *w = map->work = calloc(1, sizeof *w);
    spc_status status;

    if (!w)
        return spc__fail_memory(error, sizeof *w);
    w->block = choose_block(map);
    w->key_bytes = spc_map_key_bits(map) == 32 ? 4 : 8;
    w->grid = choose_grid(map, w);
    w->bin_bits = choose_bin_bits(map);
    status = alloc_work(map, w, error);
    return status == SPC_OK ? load_kernel(map, error) : status;
}

/* ---- running ---------------------------------------------------------- */

/* What every launch gets; the caller adds its stages. */
static spc_index_args common_args(const spc_map *map)
{
    const work *w = map->work;
    spc_index_args args = {
        .rows = map->rows,
        .rows_padded = map->rows_padded,
        .keys_a = w->keys,
        .keys_b = w->keys + w->key_bytes * (size_t)map->rows_padded,
        .rows_a = w->rows[0],
        .rows_b = w->rows[1],
        .bin_shift = map->key.total_bits > w->bin_bits
                         ? map->key.total_bits - w->bin_bits
                         : 0,
        .share_shift = w->bin_bits - SHARE_BITS,
        .bins = w->bins,
        .begins = w->begins,
        .shares = w->shares,
        .tables = w->tables,
        .sync = w->sync,
        .keys = map->keys,
        .order = map->plain.order,
        .first = w->first,
        .mask = map->plain.mask,
        .stats = map->stats,
    };

    for (int i = 0; i < 4; i++) {
        args.low[i] = map->key.low[i];
        args.last[i] = map->key.last[i];
    }
    return args;
}

static void add_tiles(spc_index_args *args, const spc_map *map,
                      const spc__map_layout *layout,
                      const spc__map_tiles *tiles)
{
    args->tile = (spc_index_tiles){
        .of = layout->mask,
        .rows = tiles->rows,
        .count = spc__map_tile_count(map, tiles->rows),
        .order = tiles->order,
        .mask = tiles->mask,
        .begin = tiles->begin,
    };
}

static void add_sorted(spc_index_args *args, const spc_map *map,
                       const spc__map_layout *layout)
{
    args->sorted.order = layout->order;
    args->sorted.index = layout->index;
    args->sorted.mask = layout->mask;
    args->sorted.passes = (layout->bits + SPC_SORT_DIGIT - 1) / SPC_SORT_DIGIT;
    if (args->sorted.passes == 0) /* a kernel of one offset */
        args->sorted.passes = 1;
    memcpy(args->sorted.bit_of, layout->bit_of,
           (size_t)map->offsets * sizeof *layout->bit_of);
    if (layout->tiles)
        add_tiles(args, map, layout, layout->tiles);
}

static spc_status launch(const spc_map *map, const spc_index_args *args,
                         void *stream, spc_error *error)
{
    const work *w = map->work;
    spc__launch how = {
        .grid_x = w->grid,
        .grid_y = 1,
        .block = w->block,
        .shared_bytes = w->shared,
        .cooperative = true,
    };

    return ops_of(map)->launch(map->ctx->device, w->kernel, &how, args,
                               sizeof *args, stream, error);
}

static spc_status device_build(spc_map *map, const int32_t *coords,
                               const spc__map_layout *sorted, void *stream,
                               spc_error *error)
{
    spc_index_args args = common_args(map);

    if ((uintptr_t)coords % 16 != 0)
        return spc__fail(error, SPC_EINVAL,
                         "the coordinates must start at a multiple of 16 "
                         "bytes, as device allocations do");
    args.coords = coords;
    args.index = map->plain.index;
    if (sorted)
        add_sorted(&args, map, sorted);
    return launch(map, &args, stream, error);
}

static spc_status device_fill(const spc_map *map, const spc__map_layout *layout,
                              void *stream, spc_error *error)
{
    spc_index_args args = common_args(map);

    if (layout->sorted)
        add_sorted(&args, map, layout);
    else
        args.index = layout->index;
    return launch(map, &args, stream, error);
}

static spc_status device_tile(const spc_map *map, const spc__map_layout *layout,
                              const spc__map_tiles *tiles, void *stream,
                              spc_error *error)
{
    spc_index_args args = common_args(map);

    add_tiles(&args, map, layout, tiles);
    return launch(map, &args, stream, error);
}

const spc__map_builder spc__map_builder_device = {
    .name = "device",
    .serves = device_serves,
    .create = device_create,
    .destroy = device_destroy,
    .build = device_build,
    .fill = device_fill,
    .tile = device_tile,
};
