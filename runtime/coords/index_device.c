/*
 * index_device.c - the indexer of cuda and sim: the templates of role "map".
 *
 * A build is one cooperative launch, with its first layout: no allocation, no
 * host in between, so that it can be captured into a CUDA graph. What the
 * kernel needs to find clear it leaves clear. The layout of keys, the number of
 * rows and the extent are arguments: code differs only by the width of keys and
 * the geometry, so a database that has it serves any scene.
 */
#include "index_device.h"
#include "error.h"
#include "indexer.h"
#include "map_choice.h"
#include <stdlib.h>
#include <string.h>

/* SPC_INDEX_SHARES in bits, and the largest number of bins. */
enum { SHARE_BITS = 7, BIN_BITS_MAX = 21 };

extern const spc__regrouper spc__regrouper_device; /* regroup_device.c */
extern const spc__voxeliser spc__voxeliser_device;

/* What a launch of the indexing kernel works with. */
typedef struct scratch {
    char *keys; /* two orders of keys; then digests, and tile masks */
    size_t key_bytes;
    int *rows[2];
    int *tables;
    spc_index_sync *sync;
    unsigned grid, block;
    size_t shared;
    spc__kernel *kernel;
} scratch;

/* Of a coordinate set. */
typedef struct set_work {
    scratch s;
    unsigned *bins;
    int *begins, *shares;
    int bin_bits;
    /* Of one that is derived. */
    void *table;
    unsigned slots;
    int32_t *list; /* outputs in no order */
    int *listed;   /* how many */
    spc__kernel *derive;
    spc__kernel *merge;
} set_work;

/* Of a map. */
typedef struct map_work {
    scratch s;
    spc__attrs config; /* by which it is searched */
    bool configured;   /* false: by the template's default */
    int *first;        /* the short form of the map (index_runs.cuh) */
    int *pairs;        /* [grid * warps] */
    int32_t *list;     /* displacements of a kernel that is no box */
    void *table;       /* of the hash searcher */
    int *places;
    int *counts; /* [offsets][grid], for listing pairs */
    spc__kernel *list_pairs;
    spc__kernel *layout; /* for what s.kernel does not make */
} map_work;

static const spc__device_ops *ops_of(const spc_ctx *ctx)
{
    return spc__device_ops_of(ctx->device);
}

static bool device_serves(const spc_ctx *ctx)
{
    return !ops_of(ctx)->builds_maps_on_host;
}

/* ---- memory ----------------------------------------------------------- */

/* Memory whose words are zero when the first kernel runs. */
static spc_status alloc_clear(void *out, const spc_coords *c, size_t bytes,
                              spc_error *error)
{
    void *memory;
    spc_status status = spc__coords_alloc(&memory, c, bytes, error);

    memcpy(out, &memory, sizeof memory);
    return status == SPC_OK ? ops_of(c->ctx)->fill(c->ctx->device, memory, 0,
                                                   bytes, NULL, error)
                            : status;
}

static void scratch_release(const spc_coords *c, scratch *s)
{
    spc__coords_dealloc(c, s->keys);
    spc__coords_dealloc(c, s->rows[0]);
    spc__coords_dealloc(c, s->rows[1]);
    spc__coords_dealloc(c, s->tables);
    spc__coords_dealloc(c, s->sync);
}

static spc_status scratch_alloc(scratch *s, const spc_coords *c, int mask_words,
                                spc_error *error)
{
    size_t rows = (size_t)c->rows_padded;
    size_t digits = (size_t)1 << SPC_SORT_DIGIT;
    size_t words = mask_words > 2 ? (size_t)mask_words : 2;
    size_t per_row =
        2 * s->key_bytes > 4 * words ? 2 * s->key_bytes : 4 * words;
    size_t tables =
        SPC_SORT_TABLES * SPC_SORT_TABLE((size_t)s->grid, digits) * sizeof(int);
    spc_status status;

    if ((status = spc__coords_alloc(&s->keys, c, per_row * rows, error)) !=
            SPC_OK ||
        (status = spc__coords_alloc(&s->rows[0], c, 4 * rows, error)) !=
            SPC_OK ||
        (status = spc__coords_alloc(&s->rows[1], c, 4 * rows, error)) !=
            SPC_OK ||
        (status = alloc_clear(&s->tables, c, tables, error)) != SPC_OK)
        return status;
    return alloc_clear(&s->sync, c, sizeof *s->sync, error);
}

/* ---- choosing sizes --------------------------------------------------- */

unsigned spc__index_block(const spc__attrs *target, unsigned block)
{
    int most = (int)spc__attrs_number(target, "max_threads", 1024);

    return block > 0 ? block : most < 1024 ? (unsigned)most : 1024;
}

static unsigned choose_block(const spc_ctx *ctx)
{
    return spc__index_block(&ctx->target, ops_of(ctx)->index_block);
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
static unsigned choose_grid(const spc_coords *c, const scratch *s, int offsets)
{
    const spc_ctx *ctx = c->ctx;
    int most = ctx->info.multiprocessors;
    int useful = (c->rows_padded + 127) / 128;
    int64_t shared = spc__attrs_number(&ctx->target, "shared_block", INT64_MAX);

    most = useful < most ? useful : most > 0 ? most : 1;
    return (unsigned)spc__index_grid(most, (int)s->block, offsets,
                                     (int)s->key_bytes, shared);
}

static void scratch_init(scratch *s, const spc_coords *c, int key_bits,
                         int offsets)
{
    s->block = choose_block(c->ctx);
    s->key_bytes = (size_t)key_bits / 8;
    s->grid = choose_grid(c, s, offsets);
    s->shared = (size_t)SPC_INDEX_SHARED((int)s->block, offsets,
                                         (int)s->key_bytes, (int)s->grid);
}

/* About as many bins as rows, so that most hold few keys. */
static int choose_bin_bits(const spc_coords *c)
{
    int bits = SHARE_BITS;

    while (bits < BIN_BITS_MAX && bits < c->key.bits && 1 << bits < c->capacity)
        bits++;
    return bits;
}

/* ---- code ------------------------------------------------------------- */

static spc__index_width width_of(const scratch *s, const spc_coords *other)
{
    return (spc__index_width){(int)s->key_bytes * 8, spc__key_bits(&other->key),
                              s->block};
}

/* The kernel of the template "index" that searches by `config`. */
static spc_status load_index(spc__kernel **out, const scratch *s,
                             const spc_coords *to, const spc_geometry *g,
                             bool inverse, const spc__attrs *config,
                             spc_error *error)
{
    spc_ctx *ctx = to->ctx;
    spc__index_width w = width_of(s, to);
    spc__attrs problem;
    spc_status status;

    spc__index_problem(&problem, &w, g, inverse);
    status = spc__index_load(out, ctx, "index", &problem, config, "spc_index",
                             s->shared, error);
    return status == SPC_OK
               ? spc__index_check_resident(ctx, *out, "spc_index", s->block,
                                           s->shared, error)
               : status;
}

/* ---- sets ------------------------------------------------------------- */

static void set_destroy(spc_coords *c)
{
    set_work *w = c->work;

    if (!w)
        return;
    scratch_release(c, &w->s);
    spc__coords_dealloc(c, w->bins);
    spc__coords_dealloc(c, w->begins);
    spc__coords_dealloc(c, w->shares);
    spc__coords_dealloc(c, w->table);
    spc__coords_dealloc(c, w->list);
    spc__coords_dealloc(c, w->listed);
    free(w);
    c->work = NULL;
}

/* Twice as many slots as keys: probes stay short (Knuth, volume 3, 6.4). */
static spc_status create_derived(spc_coords *c, set_work *w, spc_error *error)
{
    spc__index_width bits = width_of(&w->s, c->from);
    spc__attrs problem;
    spc_status status;

    w->slots = 64;
    while (w->slots < 2u * (unsigned)c->capacity && w->slots < 1u << 31)
        w->slots *= 2;
    if ((status =
             spc__coords_alloc(&w->table, c, w->s.key_bytes * (size_t)w->slots,
                               error)) != SPC_OK ||
        (status = spc__coords_alloc(&w->list, c, 16 * (size_t)c->capacity,
                                    error)) != SPC_OK ||
        (status = alloc_clear(&w->listed, c, sizeof *w->listed, error)) !=
            SPC_OK)
        return status;
    spc__coords_problem(&problem, &bits, &c->rule);
    status = spc__index_load(&w->derive, c->ctx, "coords", &problem, NULL,
                             "spc_derive", 0, error);
    return status == SPC_OK
               ? spc__index_check_resident(c->ctx, w->derive, "spc_derive",
                                           w->s.block, 0, error)
               : status;
}

static spc_status load_merge(spc_coords *c, set_work *w, spc_error *error)
{
    spc__index_width bits = width_of(&w->s, c->from ? c->from : c);
    spc__attrs problem;

    spc__coords_problem(&problem, &bits, &c->rule);
    return spc__index_load(&w->merge, c->ctx, "coords", &problem, NULL,
                           "spc_merge", 0, error);
}

static spc_status load_sorting(spc_coords *c, spc_error *error)
{
    set_work *w = c->work;
    spc_geometry sorting = spc__index_sorting_only();

    return w->s.kernel ? SPC_OK
                       : load_index(&w->s.kernel, &w->s, c, &sorting, false,
                                    NULL, error);
}

static spc_status alloc_bins(spc_coords *c, set_work *w, spc_error *error)
{
    size_t bytes = (size_t)4 << w->bin_bits;
    spc_status status = alloc_clear(&w->bins, c, bytes, error);

    if (status == SPC_OK)
        status = alloc_clear(&w->begins, c, bytes + 4, error);
    if (status == SPC_OK)
        status = alloc_clear(&w->shares, c, 4 * SPC_INDEX_SHARES, error);
    return status;
}

static spc_status set_create(spc_coords *c, spc_error *error)
{
    set_work *w = c->work = calloc(1, sizeof *w);
    spc_status status;

    if (!w)
        return spc__fail_memory(error, sizeof *w);
    scratch_init(&w->s, c, spc__key_bits(&c->key), 1);
    w->bin_bits = choose_bin_bits(c);
    if ((status = scratch_alloc(&w->s, c, 1, error)) != SPC_OK ||
        (status = alloc_bins(c, w, error)) != SPC_OK)
        return status;
    if (c->by_itself && (status = load_sorting(c, error)) != SPC_OK)
        return status;
    if (c->from && (status = create_derived(c, w, error)) != SPC_OK)
        return status;
    if (c->twins && !c->regroup && (status = load_merge(c, w, error)) != SPC_OK)
        return status;
    /* The first build may run on another stream than the clearing. */
    return ops_of(c->ctx)->sync(c->ctx->device, NULL, error);
}

static spc_index_set set_args(const spc_coords *c)
{
    const set_work *w = c->work;
    spc_index_set args;

    spc__coords_args(&args, c, w->bin_bits, w->begins, w->shares);
    return args;
}

static void add_scratch(spc_index_args *args, const scratch *s, int rows_padded)
{
    args->keys_a = s->keys;
    args->keys_b = s->keys + s->key_bytes * (size_t)rows_padded;
    args->rows_a = s->rows[0];
    args->rows_b = s->rows[1];
    args->tables = s->tables;
    args->sync = s->sync;
}

/* The stage that builds a set. */
static spc_status add_build(spc_index_args *args, const spc_coords *c,
                            const spc__source *source, spc_error *error)
{
    const set_work *w = c->work;

    if ((uintptr_t)source->coords % 16 != 0)
        return spc__fail(error, SPC_EINVAL,
                         "the coordinates must start at a multiple of 16 "
                         "bytes, as device allocations do");
    args->stages |= SPC_INDEX_BUILD;
    args->coords = source->coords;
    args->source = source->count;
    args->source_rows = source->rows;
    args->stats = c->stats;
    args->data = c->from ? c->data : NULL;
    args->twins = c->twins;
    args->twin_begin = c->twin_begin;
    args->bins = w->bins;
    args->set = set_args(c);
    return SPC_OK;
}

static spc_status launch_kernel(const spc_ctx *ctx, spc__kernel *kernel,
                                const scratch *s, const spc_index_args *args,
                                void *stream, spc_error *error)
{
    spc__launch how = {
        .grid_x = s->grid,
        .grid_y = 1,
        .block = s->block,
        .shared_bytes = s->shared,
        .cooperative = true,
    };

    return ops_of(ctx)->launch(ctx->device, kernel, &how, args, sizeof *args,
                               stream, error);
}

static spc_status launch(const spc_ctx *ctx, const scratch *s,
                         const spc_index_args *args, void *stream,
                         spc_error *error)
{
    return launch_kernel(ctx, s->kernel, s, args, stream, error);
}

static spc_status set_build(spc_coords *c, const spc__source *source,
                            void *stream, spc_error *error)
{
    const set_work *w = c->work;
    spc_index_args args = {0};
    spc_status status = load_sorting(c, error);

    if (status == SPC_OK)
        status = add_build(&args, c, source, error);
    if (status != SPC_OK)
        return status;
    add_scratch(&args, &w->s, c->rows_padded);
    args.in = args.set;
    return launch(c->ctx, &w->s, &args, stream, error);
}

static spc_derive_args derive_args(const spc_coords *c)
{
    const set_work *w = c->work;
    const spc_geometry *g = &c->rule;
    spc_derive_args args = {
        .in = set_args(c->from),
        .key = c->key,
        .rule = g->rule == SPC_RULE_FOOTPRINT,
        .table = w->table,
        .slots = w->slots,
        .capacity = c->capacity,
        .coords = w->list,
        .count = w->listed,
        .sync = w->s.sync,
    };

    for (int i = 0; i < 3; i++) {
        args.kernel[i] = g->kernel[i];
        args.stride[i] = g->stride[i];
        args.dilation[i] = g->dilation[i];
        args.padding[i] = -spc__geometry_origin(g, i);
        args.bound[i] = (int)spc__geometry_out_shape(g, i);
    }
    return args;
}

static spc_status set_derive(spc_coords *c, void *stream, spc_error *error)
{
    const set_work *w = c->work;
    spc_derive_args args = derive_args(c);
    spc__source source = {w->list, w->listed, 0};
    spc__launch how = {
        .grid_x = w->s.grid,
        .grid_y = 1,
        .block = w->s.block,
        .cooperative = true,
    };
    spc_status status = ops_of(c->ctx)->launch(
        c->ctx->device, w->derive, &how, &args, sizeof args, stream, error);

    return status == SPC_OK ? set_build(c, &source, stream, error) : status;
}

static spc_status set_merge(const spc_coords *c, void *features,
                            spc_dtype dtype, int channels, void *stream,
                            spc_error *error)
{
    const set_work *w = c->work;
    spc_merge_args args = {
        .features = features,
        .channels = channels,
        .half = dtype == SPC_F16    ? 1
                : dtype == SPC_BF16 ? 2
                                    : 0,
        .mean = c->duplicates == SPC_DUPLICATES_MEAN,
        .twins = c->twins,
        .twin_begin = c->twin_begin,
        .count = c->count,
        .stats = c->stats,
    };
    spc__launch how = {.grid_x = w->s.grid, .grid_y = 1, .block = w->s.block};

    return ops_of(c->ctx)->launch(c->ctx->device, w->merge, &how, &args,
                                  sizeof args, stream, error);
}

/* ---- maps ------------------------------------------------------------- */

static void map_destroy(spc_map *map)
{
    map_work *w = map->work;

    if (!w)
        return;
    scratch_release(map->to, &w->s);
    spc__coords_dealloc(map->to, w->first);
    spc__coords_dealloc(map->to, w->pairs);
    spc__coords_dealloc(map->to, w->list);
    spc__coords_dealloc(map->to, w->table);
    spc__coords_dealloc(map->to, w->places);
    spc__coords_dealloc(map->to, w->counts);
    free(w);
    map->work = NULL;
}

static size_t pair_words(const scratch *s)
{
    return (size_t)s->grid * (s->block / 32);
}

static spc_status upload_list(map_work *w, const spc_map *map, spc_error *error)
{
    const spc_geometry *g = &map->geometry;
    int32_t list[SPC_MAX_OFFSETS][3];
    size_t bytes = (size_t)g->offset_count * sizeof list[0];
    spc_status status;

    if (g->offset_count == 0)
        return SPC_OK;
    for (int k = 0; k < g->offset_count; k++)
        for (int i = 0; i < 3; i++)
            list[k][i] = g->offsets[k][i];
    status = spc__coords_alloc(&w->list, map->to, bytes, error);
    return status == SPC_OK
               ? ops_of(map->ctx)->copy_in(map->ctx->device, w->list, list,
                                           bytes, NULL, error)
               : status;
}

/* ---- choosing a searcher ---------------------------------------------- */

/* As many slots as the kernel takes of a full set (index_hash.cuh). */
static size_t table_slots(const spc_coords *in)
{
    size_t slots = SPC_INDEX_TABLE_LEAST;

    while (slots < 2 * (size_t)in->capacity)
        slots *= 2;
    return slots;
}

static spc_status alloc_table(map_work *w, const spc_map *map, spc_error *error)
{
    size_t slots = table_slots(map->in);
    spc_status status;

    if (w->places)
        return SPC_OK;
    if (!w->table &&
        (status = spc__coords_alloc(&w->table, map->to, w->s.key_bytes * slots,
                                    error)) != SPC_OK)
        return status;
    return spc__coords_alloc(&w->places, map->to, 4 * slots, error);
}

static bool is_hash(const spc__attrs *config)
{
    const char *search = config ? spc__attrs_text(config, "search", "") : "";

    return strcmp(search, "hash") == 0;
}

static spc_status map_configure(spc_map *map, const spc__attrs *config,
                                spc_error *error)
{
    map_work *w = map->work;
    spc__kernel *kernel;
    spc_status status = SPC_OK;

    if (is_hash(config))
        status = alloc_table(w, map, error);
    if (status == SPC_OK)
        status = load_index(&kernel, &w->s, map->to, &map->geometry,
                            map->inverse, config, error);
    if (status != SPC_OK)
        return status;
    w->s.kernel = kernel;
    w->configured = config != NULL;
    if (config)
        w->config = *config;
    return SPC_OK;
}

/* What was measured to be fastest; where that cannot be had, the default. */
static spc_status configure_chosen(spc_map *map, spc_error *error)
{
    spc__attrs config;

    if (spc__map_choice(&config, map->ctx, &map->geometry, map->inverse)) {
        if (map_configure(map, &config, error) == SPC_OK)
            return SPC_OK;
        spc__log_printf(&map->ctx->log, SPC_LOG_INFO,
                        "the recorded choice for this map cannot serve: %s",
                        error->text);
    }
    return map_configure(map, NULL, error);
}

static size_t pairs_shared(const spc_map *map)
{
    const map_work *w = map->work;

    return (size_t)SPC_PAIRS_SHARED((int)w->s.block, map->offsets);
}

/* ---- creating and filling --------------------------------------------- */

static spc_status map_create(spc_map *map, spc_error *error)
{
    const spc_coords *to = map->to;
    map_work *w = map->work = calloc(1, sizeof *w);
    spc__index_runs r = spc__index_choose_runs(&map->geometry, map->inverse);
    spc_status status;

    if (!w)
        return spc__fail_memory(error, sizeof *w);
    scratch_init(&w->s, to, spc__key_bits(&map->in->key), map->offsets);
    if ((status = scratch_alloc(&w->s, to, map->mask_words, error)) != SPC_OK ||
        (status = spc__coords_alloc(
             &w->first, to, 16 * (size_t)to->rows_padded * (size_t)r.batches,
             error)) != SPC_OK ||
        (status = alloc_clear(&w->pairs, to, 4 * pair_words(&w->s), error)) !=
            SPC_OK ||
        (status = upload_list(w, map, error)) != SPC_OK ||
        (status = configure_chosen(map, error)) != SPC_OK)
        return status;
    return ops_of(map->ctx)->sync(map->ctx->device, NULL, error);
}

/* What every launch for a map gets; the caller adds its stages. */
static spc_index_args map_args(const spc_map *map)
{
    const map_work *w = map->work;
    spc_index_args args = {
        .set = set_args(map->to),
        .in = set_args(map->in),
        .first = w->first,
        .mask = map->plain.mask,
        .pairs = w->pairs,
        .list = w->list,
        .table = w->table,
        .table_places = w->places,
    };

    add_scratch(&args, &w->s, map->to->rows_padded);
    return args;
}

static void add_tiles(spc_index_args *args, const spc__map_layout *layout,
                      const spc__map_tiles *tiles)
{
    args->stages |= SPC_INDEX_TILE;
    args->tile = (spc_index_tiles){
        .of = layout->mask,
        .rows = tiles->rows,
        .capacity = tiles->capacity,
        .order = tiles->order,
        .mask = tiles->mask,
        .begin = tiles->begin,
    };
}

static void add_sorted(spc_index_args *args, const spc_map *map,
                       const spc__map_layout *layout)
{
    args->stages |= SPC_INDEX_SORT;
    args->sorted.order = layout->order;
    args->sorted.index = layout->index;
    args->sorted.mask = layout->mask;
    args->sorted.passes = (layout->bits + SPC_SORT_DIGIT - 1) / SPC_SORT_DIGIT;
    if (args->sorted.passes == 0) /* a kernel of one offset */
        args->sorted.passes = 1;
    size_t entries =
        layout->by == SPC_INDEX_BY_KEY ? SPC__KEY_BITS : (size_t)map->offsets;
    memcpy(args->sorted.bit_of, layout->bit_of,
           entries * sizeof *layout->bit_of);
    if (layout->tiles)
        add_tiles(args, layout, layout->tiles);
}

/* ---- sorted orders that the indexing kernel does not make -------------- */

static bool is_by_another_way(const spc__map_layout *layout)
{
    return layout->sorted &&
           (layout->by != SPC_INDEX_BY_GRAY || layout->groups > 1);
}

static spc_status map_order_create(spc_map *map, const spc__map_layout *layout,
                                   spc_error *error)
{
    map_work *w = map->work;
    spc__index_width bits = width_of(&w->s, map->to);
    spc__attrs problem;
    spc_status status;

    if (w->layout || !is_by_another_way(layout))
        return SPC_OK;
    spc__layout_problem(&problem, &bits, &map->geometry, map->inverse);
    status = spc__index_load(&w->layout, map->ctx, "index", &problem, NULL,
                             "spc_layout", w->s.shared, error);
    return status == SPC_OK
               ? spc__index_check_resident(map->ctx, w->layout, "spc_layout",
                                           w->s.block, w->s.shared, error)
               : status;
}

static spc_status launch_layout(const spc_map *map, spc_index_args *args,
                                const spc__map_layout *layout, void *stream,
                                spc_error *error)
{
    const map_work *w = map->work;

    args->way = (spc_index_way){
        .by = layout->by,
        .is_group = layout->groups > 1,
        .begin = layout->begin,
        .end = layout->end,
    };
    return launch_kernel(map->ctx, w->layout, &w->s, args, stream, error);
}

/* ---- filling ----------------------------------------------------------- */

static spc_status map_fill(const spc_map *map, const spc__map_layout *layout,
                           void *stream, spc_error *error)
{
    const map_work *w = map->work;
    spc_index_args args = map_args(map);

    if (layout->sorted) {
        add_sorted(&args, map, layout);
    } else {
        args.stages = SPC_INDEX_PLAIN;
        args.index = layout->index;
    }
    return is_by_another_way(layout)
               ? launch_layout(map, &args, layout, stream, error)
               : launch(map->ctx, &w->s, &args, stream, error);
}

static spc_status map_build(spc_map *map, const spc__source *source,
                            const spc__map_layout *sorted, void *stream,
                            spc_error *error)
{
    const map_work *w = map->work;
    spc_index_args args = map_args(map);
    spc_status status = SPC_OK;

    if (source)
        status = add_build(&args, map->to, source, error);
    if (status != SPC_OK)
        return status;
    args.stages |= SPC_INDEX_SEARCH;
    args.index = map->plain.index;
    bool apart = sorted && is_by_another_way(sorted);
    if (sorted && !apart)
        add_sorted(&args, map, sorted);
    status = launch(map->ctx, &w->s, &args, stream, error);
    return status == SPC_OK && apart ? map_fill(map, sorted, stream, error)
                                     : status;
}

static spc_status map_tile(const spc_map *map, const spc__map_layout *layout,
                           const spc__map_tiles *tiles, void *stream,
                           spc_error *error)
{
    const map_work *w = map->work;
    spc_index_args args = map_args(map);

    add_tiles(&args, layout, tiles);
    return is_by_another_way(layout)
               ? launch_layout(map, &args, layout, stream, error)
               : launch(map->ctx, &w->s, &args, stream, error);
}

/* ---- pairs by offset -------------------------------------------------- */

/* The kernel is the same in the code of every configuration: that of the one at
 * hand is taken. */
static spc_status map_list_create(spc_map *map, spc_error *error)
{
    map_work *w = map->work;
    spc_ctx *ctx = map->ctx;
    size_t shared = pairs_shared(map);
    spc__index_width bits = width_of(&w->s, map->to);
    spc__attrs problem;
    spc_status status = SPC_OK;

    spc__index_problem(&problem, &bits, &map->geometry, map->inverse);
    if (!w->counts)
        status = spc__coords_alloc(&w->counts, map->to,
                                   4 * (size_t)map->offsets * w->s.grid, error);
    if (status == SPC_OK)
        status = spc__index_load(&w->list_pairs, ctx, "index", &problem,
                                 w->configured ? &w->config : NULL, "spc_pairs",
                                 shared, error);
    return status == SPC_OK
               ? spc__index_check_resident(ctx, w->list_pairs, "spc_pairs",
                                           w->s.block, shared, error)
               : status;
}

static spc_status map_list(const spc_map *map, const spc__map_pairs *pairs,
                           void *stream, spc_error *error)
{
    const map_work *w = map->work;
    spc_index_args args = map_args(map);
    spc__launch how = {
        .grid_x = w->s.grid,
        .grid_y = 1,
        .block = w->s.block,
        .shared_bytes = pairs_shared(map),
        .cooperative = true,
    };

    args.by_offset = (spc_index_by_offset){
        .in = pairs->in,
        .out = pairs->out,
        .place = pairs->place,
        .first = pairs->first,
        .begin = pairs->begin,
        .counts = w->counts,
    };
    return ops_of(map->ctx)->launch(map->ctx->device, w->list_pairs, &how,
                                    &args, sizeof args, stream, error);
}

/* ---- counting --------------------------------------------------------- */

static spc_status map_pairs(const spc_map *map, int64_t *out, void *stream,
                            spc_error *error)
{
    const map_work *w = map->work;
    spc__device *device = map->ctx->device;
    size_t words = pair_words(&w->s);
    int *counts = malloc(4 * words);
    spc_status status;

    if (!counts)
        return spc__fail_memory(error, 4 * words);
    status = ops_of(map->ctx)->copy_out(device, counts, w->pairs, 4 * words,
                                        stream, error);
    if (status == SPC_OK)
        status = ops_of(map->ctx)->sync(device, stream, error);
    *out = 0;
    for (size_t i = 0; status == SPC_OK && i < words; i++)
        *out += counts[i];
    free(counts);
    return status;
}

const spc__indexer spc__indexer_device = {
    .name = "device",
    .serves = device_serves,
    .set_create = set_create,
    .set_destroy = set_destroy,
    .set_build = set_build,
    .set_derive = set_derive,
    .set_merge = set_merge,
    .map_create = map_create,
    .map_destroy = map_destroy,
    .map_configure = map_configure,
    .map_build = map_build,
    .order_create = map_order_create,
    .fill = map_fill,
    .tile = map_tile,
    .list_create = map_list_create,
    .list = map_list,
    .pairs = map_pairs,
    .regrouper = &spc__regrouper_device,
    .voxeliser = &spc__voxeliser_device,
};
