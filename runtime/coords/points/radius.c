/* SPDX-License-Identifier: Apache-2.0 */
/*
 * radius.c - maps between clouds of points: finds the points within a radius.
 *
 * A map sorts its clouds by cells with the radius as edge. It finds the
 * triplets (output, input, offset) of every output in the order of the cells,
 * so that the outputs of a tile are neighbours and read the same inputs.
 * Triplets are grouped by output; kernels that work offset by offset get a
 * second list.
 */
#include "coords/points/radius_work.h"

#include "base/error.h"
#include "base/plural.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const spc__device_ops *ops_of(const spc_map *map)
{
    return spc__device_ops_of(map->ctx->device);
}

static bool is_one_cloud(const spc_map *map)
{
    return map->in == map->to;
}

static const sorted_cloud *outputs_of(const spc_map *map)
{
    const radius_work *w = map->work;

    return is_one_cloud(map) ? &w->in : &w->to;
}

/* ---- memory -------------------------------------------------------------- */

static spc_status alloc(void *out, const spc_map *map, size_t bytes,
                        spc_error *error)
{
    return spc__coords_alloc(out, map->to, bytes, error);
}

static void release_cloud(const spc_map *map, sorted_cloud *c)
{
    spc__coords_dealloc(map->to, c->coords);
    spc__coords_dealloc(map->to, c->points);
    spc__coords_dealloc(map->to, c->begin);
    spc_coords_free(c->cells);
}

static void map_destroy(spc_map *map)
{
    radius_work *w = map->work;

    if (!w)
        return;
    release_cloud(map, &w->in);
    release_cloud(map, &w->to);
    spc__coords_dealloc(map->to, w->order);
    spc__coords_dealloc(map->to, w->first);
    spc__coords_dealloc(map->to, w->sums);
    spc__coords_dealloc(map->to, w->total);
    spc__coords_dealloc(map->to, w->list);
    spc__coords_dealloc(map->to, w->counts);
    spc__coords_dealloc(map->to, w->bundles);
    spc__coords_dealloc(map->to, w->limits);
    spc_map_free(w->reversed);
    free(w);
    map->work = NULL;
}

/* Makes the cells of a cloud and a copy of its points in their order. */
static spc_status create_cloud(sorted_cloud *c, const spc_map *map,
                               spc_coords *rows, float inverse,
                               spc_error *error)
{
    size_t points = (size_t)rows->capacity;
    spc_status status;

    c->of = spc__points_of(rows);
    if ((status =
             spc__points_cells_create(&c->cells, &c->coords, c->of, inverse,
                                      /* This policy makes the set record which
                                       * points each cell has. */
                                      SPC_DUPLICATES_SUM, error)) != SPC_OK ||
        (status = alloc(&c->points, map, 16 * points, error)) != SPC_OK)
        return status;
    return alloc(&c->begin, map, 4 * (points + 1), error);
}

/* Replaces the list by one with room for `capacity` triplets. */
spc_status spc__radius_reserve(const spc_map *map, int64_t capacity,
                               spc_error *error)
{
    radius_work *w = map->work;

    /* Frees the old list before the new one is allocated, so that both never
     * exist at once. */
    spc__coords_dealloc(map->to, w->list);
    w->list = NULL;
    w->capacity = capacity;
    if (w->bundles) {
        spc_status status = spc__radius_bundles_reserve(map, error);
        if (status != SPC_OK)
            return status;
    }
    spc_status status = spc__radius_inputs_reserve(map, error);
    return status == SPC_OK
               ? alloc(&w->list, map, 8 * (size_t)capacity, error)
               : status;
}

/* Allocates the lists for the requested capacity. */
static spc_status alloc_arrays(const spc_map *map, spc_error *error)
{
    radius_work *w = map->work;
    size_t rows = (size_t)map->to->rows_padded;
    spc_status status;

    if ((status = alloc(&w->order, map, 4 * rows, error)) != SPC_OK ||
        (status = alloc(&w->first, map, 4 * (rows + 1), error)) != SPC_OK ||
        (status = alloc(&w->sums, map, 4 * (size_t)w->blocks, error)) !=
            SPC_OK ||
        (status = alloc(&w->total, map, 8, error)) != SPC_OK)
        return status;
    /* The map is empty until the first search. */
    if ((status = ops_of(map)->fill(map->ctx->device, w->order, 0xff, 4 * rows,
                                    NULL, error)) != SPC_OK ||
        (status = ops_of(map)->fill(map->ctx->device, w->first, 0,
                                    4 * (rows + 1), NULL, error)) != SPC_OK ||
        (status = ops_of(map)->fill(map->ctx->device, w->total, 0, 8, NULL,
                                    error)) != SPC_OK)
        return status;
    return ops_of(map)->sync(map->ctx->device, NULL, error);
}

static int least(int a, int b)
{
    return a < b ? a : b;
}

/* At least eight outputs a block, one for each warp. */
static void choose_blocks(radius_work *w, const spc_map *map)
{
    int useful = map->to->capacity / SPC_POINTS_WARPS;

    w->blocks = useful < 1 ? 1 : least(useful, w->code.blocks);
}

static bool has_limits(const spc_map *map)
{
    /* Which outputs are nearest is decided for each input, so an inverse map
     * searches for this first (find_limits). */
    return map->inverse && map->geometry.nearest > 0;
}

/* Allocates the limits for the inverse of a layer with `nearest`: for each
 * output of the layer, the last point that counts. */
static spc_status create_limits(const spc_map *map, spc_error *error)
{
    radius_work *w = map->work;
    spc_status status =
        alloc(&w->limits, map, 8 * (size_t)map->in->capacity, error);

    return status == SPC_OK
               /* The limits are searched among the other cloud's cells, whose
                * keys may have another width. */
               ? spc__points_code_load(
                     &w->limits_code, map->ctx,
                     spc__key_bits(&outputs_of(map)->cells->key), error)
               : status;
}

/* Makes everything of a map except its contents. On failure map_destroy()
 * releases the allocated parts. */
static spc_status map_create(spc_map *map, spc_error *error)
{
    radius_work *w = map->work = calloc(1, sizeof *w);
    spc_status status;

    if (!w)
        return spc__fail_memory(error, sizeof *w);
    w->inverse = 1 / map->geometry.radius;
    if ((status = create_cloud(&w->in, map, map->in, w->inverse, error)) !=
            SPC_OK ||
        (!is_one_cloud(map) &&
         (status = create_cloud(&w->to, map, map->to, w->inverse, error)) !=
             SPC_OK) ||
        (status = spc__points_code_load(&w->code, map->ctx,
                                        spc__key_bits(&w->in.cells->key),
                                        error)) != SPC_OK)
        return status;
    /* Needs the number of blocks that loading the code chose. */
    choose_blocks(w, map);
    if (has_limits(map) && (status = create_limits(map, error)) != SPC_OK)
        return status;
    return alloc_arrays(map, error);
}

/* ---- creating ------------------------------------------------------------ */

/* Sets the properties of the map. Its arrays are allocated later. */
static void describe(spc_map *map, spc_points *in, spc_points *to,
                     const spc_geometry *geometry, bool inverse)
{
    map->ctx = in->rows.ctx;
    map->in = spc__coords_share(&in->rows);
    map->to = spc__coords_share(&to->rows);
    map->geometry = *geometry;
    map->inverse = inverse;
    map->offsets = spc_geometry_offset_count(geometry);
    map->mask_words = (map->offsets + 31) / 32;
    map->centre = -1;
}

/* Checks the arguments of a map of points. */
static spc_status check_map(const spc_points *in, const spc_points *to,
                            const spc_geometry *g, int64_t triplets,
                            spc_error *error)
{
    spc_status status = spc_geometry_check(g, error);

    if (status != SPC_OK) {
        spc__fail_prefix(error, "cannot build a map of points: ");
        return status;
    }
    if (g->rule != SPC_RULE_RADIUS)
        return spc__fail(error, SPC_EINVAL,
                         "a map of points has the rule RADIUS");
    if (in->rows.ctx != to->rows.ctx)
        return spc__fail(error, SPC_EINVAL,
                         "the two clouds belong to two contexts");
    /* A total of SPC_INDEX_NO_ROW means "too many", so it cannot be a
     * capacity. */
    if (triplets < 0 || triplets >= SPC_INDEX_NO_ROW)
        return spc__fail(error, SPC_EINVAL,
                         "room for %lld triplets: expected 0 to 2^31-2",
                         (long long)triplets);
    return SPC_OK;
}

spc_status spc__radius_create(spc_map **out, spc_points *in, spc_points *to,
                              const spc_geometry *geometry, int64_t triplets,
                              bool inverse, spc_error *error)
{
    spc_status status = check_map(in, to, geometry, triplets, error);
    spc_map *map;

    *out = NULL;
    if (status != SPC_OK)
        return status;
    if (!(map = calloc(1, sizeof *map)))
        return spc__fail_memory(error, sizeof *map);
    describe(map, in, to, geometry, inverse);
    if ((status = map_create(map, error)) == SPC_OK)
        status = spc__radius_reserve(map, triplets, error);
    if (status == SPC_OK) {
        /* The layout borrows the array. spc_map_free() clears the pointer. */
        map->plain.order = ((radius_work *)map->work)->order;
        *out = map;
    } else {
        spc_map_free(map);
    }
    return status;
}

/* Makes a map for a public function and reports errors in its name. */
static spc_status create_public(const char *name, spc_map **out, spc_points *in,
                                spc_points *to, const spc_geometry *geometry,
                                int64_t triplets, bool inverse)
{
    spc_error error = {0};
    spc_status status =
        spc__need(in ? spc__error_of(in->rows.ctx) : NULL, name, "out", out,
                  "in", in, "to", to, "geometry", geometry, NULL);

    if (out)
        *out = NULL;
    if (status != SPC_OK)
        return status;
    status =
        spc__radius_create(out, in, to, geometry, triplets, inverse, &error);
    return status == SPC_OK ? status : spc__ctx_fail(in->rows.ctx, &error);
}

spc_status spc_map_create_radius(spc_map **out, spc_points *in, spc_points *to,
                                 const spc_geometry *geometry, int64_t triplets)
{
    return create_public(__func__, out, in, to, geometry, triplets, false);
}

spc_status spc_map_create_radius_inverse(spc_map **out, spc_points *in,
                                         spc_points *to,
                                         const spc_geometry *geometry,
                                         int64_t triplets)
{
    return create_public(__func__, out, in, to, geometry, triplets, true);
}

/* ---- filling ------------------------------------------------------------- */

static spc_sorted_cloud sorted_args(const sorted_cloud *c)
{
    return (spc_sorted_cloud){c->cells->keys, c->cells->count, c->begin,
                              c->points, c->of->rows.capacity};
}

/* Finds the cells of a cloud and sorts its points by them. */
static spc_status sort_cloud(const radius_work *w, const sorted_cloud *c,
                             void *stream, spc_error *error)
{
    spc_sort_points_args args = {
        .of = {c->of->at, c->of->rows.count, c->of->rows.capacity},
        .to = sorted_args(c),
        .stats = c->cells->stats,
        .order = c->cells->order,
        .twins = c->cells->twins,
        .twin_begin = c->cells->twin_begin,
    };
    spc_status status = spc__points_cells_fill(c->cells, c->coords, c->of,
                                               w->inverse, stream, error);

    return status == SPC_OK
               ? spc__points_run(&w->code, SPC__POINTS_SORT, &args, sizeof args,
                                 w->blocks, 0, stream, error)
               : status;
}

/* Lengths rounded the same way for both ends of a pair; points.cu.lua gives the
 * reason. */
static void set_lengths(spc_radius_args *args, const spc_geometry *g, float in)
{
    args->inverse = in;
    /* A little more than the radius, whatever the rounding: points.cu.lua has
     * the proof. */
    args->reach = g->radius * (1 + 0x1p-19f);
    args->square = g->radius * g->radius;
    for (int i = 0; i < 3; i++) {
        args->kernel[i] = g->kernel[i];
        args->scale[i] = (float)g->kernel[i] / (2 * g->radius);
        args->half[i] = (float)g->kernel[i] / 2;
    }
}

/* Describes the search to the kernels. */
static spc_radius_args radius_args(const spc_map *map)
{
    const radius_work *w = map->work;
    const sorted_cloud *out = outputs_of(map);
    spc_radius_args args = {
        .in = sorted_args(&w->in),
        .key = w->in.cells->key,
        .out = sorted_args(out),
        .out_at = out->of->at,
        .backwards = map->inverse,
        /* An inverse map counts by the limits of its inputs instead. */
        .nearest = map->inverse ? 0 : map->geometry.nearest,
        .limits = w->limits,
        .rows_padded = map->to->rows_padded,
        .blocks = w->blocks,
        .capacity = (int)w->capacity,
        .order = w->order,
        .first = w->first,
        .sums = w->sums,
        .total = w->total,
        .list = w->list,
    };

    set_lengths(&args, &map->geometry, w->inverse);
    return args;
}

/* Searches in reverse direction: for each input of the map, finds its own
 * nearest. */
static spc_status find_limits(const spc_map *map, void *stream,
                              spc_error *error)
{
    const radius_work *w = map->work;
    const sorted_cloud *out = outputs_of(map);
    spc_radius_args args = radius_args(map);

    /* The clouds change sides, and everything that depends on the side changes
     * with them. */
    args.in = sorted_args(out);
    args.key = out->cells->key;
    args.out = sorted_args(&w->in);
    args.out_at = w->in.of->at;
    args.backwards = 0;
    args.nearest = map->geometry.nearest;
    args.rows_padded = map->in->rows_padded;
    return spc__points_run(&w->limits_code, SPC__RADIUS_LIMITS, &args,
                           sizeof args, w->blocks, SPC_RADIUS_SHARED(0), stream,
                           error);
}

/* Fills the map from two sorted clouds. */
static spc_status search(const spc_map *map, void *stream, spc_error *error)
{
    const radius_work *w = map->work;
    spc_radius_args args = radius_args(map);
    spc_status status = w->limits ? find_limits(map, stream, error) : SPC_OK;

    /* Counting comes first, as every output must know where its triplets begin
     * before any is written. */
    if (status == SPC_OK)
        status =
            spc__points_run(&w->code, SPC__RADIUS_COUNT, &args, sizeof args,
                            w->blocks, SPC_RADIUS_SHARED(0), stream, error);
    if (status == SPC_OK)
        status = spc__points_run(
            &w->code, SPC__RADIUS_WRITE, &args, sizeof args, w->blocks,
            SPC_RADIUS_SHARED((size_t)map->offsets), stream, error);
    /* The lists in other orders are made from this one, so they are never older
     * than it. */
    if (status == SPC_OK)
        status = spc__radius_bundle(map, stream, error);
    return status == SPC_OK ? spc__radius_inputs(map, stream, error) : status;
}

spc_status spc__radius_fill(const spc_map *map, void *stream, spc_error *error)
{
    const radius_work *w = map->work;
    spc_status status = sort_cloud(w, &w->in, stream, error);

    if (status == SPC_OK && !is_one_cloud(map))
        status = sort_cloud(w, &w->to, stream, error);
    return status == SPC_OK ? search(map, stream, error) : status;
}

/* The indexer's function that fills a map. */
static spc_status map_build(spc_map *map, const spc__source *source,
                            const spc__map_layout *sorted, void *stream,
                            spc_error *error)
{
    (void)source; /* unused: clouds are filled separately */
    (void)sorted; /* unused: clouds have one order */
    spc_status status = spc__radius_fill(map, stream, error);

    if (status == SPC_OK)
        spc__map_set_filled(map);
    return status;
}

static spc_status set_build(spc_coords *rows, const spc__source *source,
                            void *stream, spc_error *error)
{
    return spc__points_fill_units(spc__points_of(rows), source->coords,
                                  source->count, source->rows, stream, error);
}

static spc_status no_table(spc_error *error)
{
    return spc__fail(error, SPC_EUNSUPPORTED,
                     "a map of points has no table: an output may see several "
                     "inputs at one offset");
}

static spc_status order_create(spc_map *map, const spc__map_layout *layout,
                               spc_error *error)
{
    (void)map;
    (void)layout;
    return no_table(error);
}

/* The indexer's function that fills a layout, which maps of points do not
 * have. */
static spc_status fill(const spc_map *map, const spc__map_layout *layout,
                       void *stream, spc_error *error)
{
    (void)map;
    (void)layout;
    (void)stream;
    return no_table(error);
}

static spc_status tile(const spc_map *map, const spc__map_layout *layout,
                       const spc__map_tiles *tiles, void *stream,
                       spc_error *error)
{
    (void)tiles;
    return fill(map, layout, stream, error);
}

/* ---- queries of a map ---------------------------------------------------- */

/* Reads back the number of triplets, and whether they fitted. */
static spc_status count_pairs(const spc_map *map, int64_t *out, void *stream,
                              spc_error *error)
{
    const radius_work *w = map->work;
    int total[2];
    spc_status status = ops_of(map)->copy_out(map->ctx->device, total, w->total,
                                              sizeof total, stream, error);

    if (status == SPC_OK)
        status = ops_of(map)->sync(map->ctx->device, stream, error);
    if (status != SPC_OK)
        return status;
    /* total[0] is the number found, total[1] the number stored, which is 0 if
     * they did not fit. */
    *out = total[1];
    if (total[0] == total[1])
        return SPC_OK;
    return spc__fail(
        error, SPC_ECAPACITY,
        total[0] == SPC_INDEX_NO_ROW
            ? "%s or more for a map with room for %lld: none were stored"
            : "%s for a map with room for %lld: none were stored; room for as "
              "many would have fitted",
        spc__count(total[0], "triplet"), (long long)w->capacity);
}

static spc_status inspect(spc_map *map, void *stream, spc_error *error)
{
    spc_status status =
        spc__points_inspect(spc__points_of(map->in), stream, error);

    if (status == SPC_OK && !is_one_cloud(map))
        status = spc__points_inspect(spc__points_of(map->to), stream, error);
    return status == SPC_OK ? count_pairs(map, &map->pairs, stream, error)
                            : status;
}

static int64_t capacity(const spc_map *map)
{
    const radius_work *w = map->work;

    return w->capacity;
}

void spc__radius_view(spc_triplets_view *out, const spc_map *map)
{
    const radius_work *w = map->work;

    *out = (spc_triplets_view){w->first, w->list, (int)w->capacity};
}

/* ---- again ------------------------------------------------------------- */

/* The first search finds the number of triplets. */
spc_status spc__radius_fit(spc_map *map, spc_error *error)
{
    int total = 0;
    /* With room for no triplet this only counts them. */
    spc_status status = map_build(map, NULL, NULL, NULL, error);
    const radius_work *w = map->work;

    if (status == SPC_OK)
        status = ops_of(map)->copy_out(map->ctx->device, &total, w->total,
                                       sizeof total, NULL, error);
    if (status == SPC_OK)
        status = ops_of(map)->sync(map->ctx->device, NULL, error);
    if (status == SPC_OK && total == SPC_INDEX_NO_ROW)
        status = spc__fail(error, SPC_EINVAL,
                           "a radius of %g gives 2^31-1 triplets or more",
                           (double)map->geometry.radius);
    if (status == SPC_OK &&
        /* The clouds are sorted already, so this repeats only the search. */
        (status = spc__radius_reserve(map, total, error)) == SPC_OK)
        status = search(map, NULL, error);
    return status == SPC_OK ? inspect(map, NULL, error) : status;
}

static spc_status rebuild(spc_map *map, const int32_t *units, int64_t rows,
                          void *stream, spc_error *error)
{
    spc_points *scene = spc__points_of(spc__map_scene_set(map));
    spc_points *other =
        spc__points_of(&scene->rows == map->in ? map->to : map->in);
    spc_status status =
        spc__points_fill_units(scene, units, NULL, (int)rows, stream, error);

    /* A sampled cloud is chosen from the scene's new points. */
    if (status == SPC_OK && other->from)
        status = spc__points_pick(other, stream, error);
    if (status == SPC_OK)
        status = map_build(map, NULL, NULL, stream, error);
    return status == SPC_OK && map->plain.pairs
               ? spc__radius_list(map, map->plain.pairs, stream, error)
               : status;
}

static const spc__triplet_ops triplets = {
    .rebuild = rebuild,
    .inspect = inspect,
    .capacity = capacity,
    .view = spc__radius_view,
};

const spc__indexer spc__indexer_points = {
    .name = "points",
    .set_destroy = spc__points_destroy,
    .set_build = set_build,
    .map_create = map_create,
    .map_destroy = map_destroy,
    .map_build = map_build,
    .order_create = order_create,
    .fill = fill,
    .tile = tile,
    .list_create = spc__radius_list_create,
    .list = spc__radius_list,
    .triplets = &triplets,
};
