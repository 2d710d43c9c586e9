/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fixture_capacity.c - a fixture whose first scene has a map with spare capacity,
 * as networks and frames have.
 */
#include "coords/map.h"
#include "lab/sample/awkward.h"
#include "lab/sample/fixture.h"
#include "operators/geometry.h"
#include "operators/operands.h"

#include "base/error.h"
#include "operators/conv.h"
#include <string.h>

/* The sets and the map while they are made. */
typedef struct builder {
    const spc__fixture *fixture;
    const spc_geometry *geometry;
    int32_t *coords; /* coordinates on the device */
    int64_t rows;    /* number of coordinates */
    spc_coords *scene, *other;
    spc_map *map;
} builder;

/* Checks that the scene fits, and that the layer can have room to spare. */
static spc_status check(const spc__fixture *fixture, int64_t capacity)
{
    const spc_conv *conv = &fixture->sample->conv;
    const spc__sample_scene *scene = &fixture->sample->scenes[0];
    spc_error *error = spc__error_of(fixture->ctx);
    spc_rule rule = conv->geometry.rule;

    if (capacity < scene->voxels)
        return spc__fail(error, SPC_ECAPACITY,
                         "a capacity of %lld rows: the scene has %lld",
                         (long long)capacity, (long long)scene->voxels);
    if (rule == SPC_RULE_GIVEN || rule == SPC_RULE_RADIUS)
        return spc__fail(
            error, SPC_EUNSUPPORTED,
            "a capacity is for layers that have one set, or derive "
            "the second from it");
    return SPC_OK;
}

/* Returns the halo of the kernel. */
static int halo_of(const spc_geometry *g)
{
    int64_t low[3], high[3], halo = 8;

    spc__geometry_span(low, high, g);
    for (int i = 0; i < 3; i++)
        if (high[i] - low[i] > halo)
            halo = high[i] - low[i];
    return (int)halo;
}

/* Makes the scene's set with room for `capacity` rows. */
static spc_status reserve_scene(builder *r, int64_t capacity)
{
    const spc__sample_scene *scene = &r->fixture->sample->scenes[0];
    spc_coords_options options = SPC_COORDS_OPTIONS_INIT;
    size_t bytes = 16 * (size_t)scene->voxels;
    spc_ctx *ctx = r->fixture->ctx;
    spc_status status = spc_memory_alloc((void **)&r->coords, ctx, bytes);

    options.capacity = capacity;
    options.halo = halo_of(r->geometry);
    spc__coords_extent(options.low, options.high, scene->coords, scene->voxels);
    r->rows = scene->voxels;
    if (status == SPC_OK)
        status = spc_memory_upload(r->coords, ctx, scene->coords, bytes);
    if (status == SPC_OK)
        status =
            spc__coords_reserve(&r->scene, ctx, &options, spc__error_of(ctx));
    return status == SPC_OK
               ? spc_coords_update(r->scene, r->coords, NULL, r->rows, NULL)
               : status;
}

static spc_status reserve_other(builder *r)
{
    spc_status status =
        spc_coords_create_outputs_reserved(&r->other, r->scene, r->geometry, 0);

    return status == SPC_OK ? spc_coords_update(r->other, NULL, NULL, 0, NULL)
                            : status;
}

/* Builds the map between such sets. */
static spc_status build_map(builder *r)
{
    const spc_conv *conv = &r->fixture->sample->conv;
    bool subm = r->geometry->rule == SPC_RULE_SUBM;
    bool ends = spc__conv_ends_at_scene(conv);
    spc_coords *other = subm ? r->scene : r->other;
    spc_coords *in = ends ? other : r->scene, *to = ends ? r->scene : other;
    spc_status status =
        spc__conv_is_inverse(conv)
            ? spc_map_create_inverse(&r->map, in, to, r->geometry)
            : spc_map_create(&r->map, in, to, r->geometry);

    if (status == SPC_OK)
        status = spc_map_update(r->map, subm ? r->coords : NULL, NULL, r->rows,
                                NULL);
    return status == SPC_OK ? spc_map_check(r->map, NULL) : status;
}

/* Replaces the exact map by a map with spare capacity; on failure the exact map
 * stays. */
static spc_status replace_map(spc__fixture *fixture, int64_t capacity)
{
    builder r = {.fixture = fixture,
                 .geometry = &fixture->sample->conv.geometry};
    spc_status status = reserve_scene(&r, capacity);

    if (status == SPC_OK && r.geometry->rule != SPC_RULE_SUBM)
        status = reserve_other(&r);
    if (status == SPC_OK)
        status = build_map(&r);
    if (status == SPC_OK) {
        spc_map *exact = fixture->maps[0];
        fixture->maps[0] = r.map;
        r.map = exact;
    }
    spc_map_free(r.map);
    spc_coords_free(r.other);
    spc_coords_free(r.scene);
    spc_memory_free(fixture->ctx, r.coords);
    return status;
}

/*
 * A linear layer has no map: its arrays get spare capacity, and the count is on
 * the device.
 */
static spc_status reserve_linear(spc__fixture *fixture, int64_t capacity)
{
    int32_t rows = (int32_t)fixture->sample->scenes[0].rows_out;
    spc__operand all[SPC_OPERANDS];
    spc_status status =
        spc_memory_alloc((void **)&fixture->count, fixture->ctx, sizeof rows);

    spc__operands(all, &fixture->sample->conv, capacity, capacity);
    for (int d = 0; d < SPC__DATASETS && status == SPC_OK; d++)
        status = spc__guarded_reserve(&fixture->guards, &fixture->in[0][d],
                                      all[SPC_OPERAND_IN].bytes);
    for (int d = 0; d < SPC__DATASETS && status == SPC_OK; d++)
        status =
            spc__guarded_reserve(&fixture->guards, &fixture->residual[0][d],
                                 all[SPC_OPERAND_RESIDUAL].bytes);
    if (status == SPC_OK)
        status = spc__guarded_reserve(&fixture->guards, &fixture->out,
                                      all[SPC_OPERAND_OUT].bytes);
    if (status == SPC_OK)
        status =
            spc_memory_upload(fixture->count, fixture->ctx, &rows, sizeof rows);
    fixture->capacity = capacity;
    return status == SPC_OK ? spc__fixture_refill(fixture) : status;
}

spc_status spc__fixture_set_capacity(spc__fixture *fixture, int64_t capacity)
{
    spc_status status = check(fixture, capacity);

    if (status != SPC_OK)
        return status;
    return spc_conv_is_linear(&fixture->sample->conv)
               ? reserve_linear(fixture, capacity)
               : replace_map(fixture, capacity);
}

/* ---- one map for a sequence of scenes ------------------------------------ */

/*
 * Spare rows for linear layers; a map has room for its largest scene and is
 * built from it.
 */
enum { SPARE_ROWS = 100 };

static bool has_spare(const spc__fixture *fixture)
{
    spc_rule rule = fixture->sample->conv.geometry.rule;

    return fixture->sample->scene_count > fixture->sample->given &&
           rule != SPC_RULE_GIVEN && rule != SPC_RULE_RADIUS;
}

/*
 * Finds the scene with the most rows of inputs and outputs together. A shape
 * may leave fewer rows on the borders of a scene than on those of a smaller
 * one.
 */
static int largest_of(const spc__fixture *fixture, const int *scenes, int count)
{
    const spc__sample_scene *all = fixture->sample->scenes;
    int most = scenes[0];

    for (int i = 1; i < count; i++) {
        int s = scenes[i];
        if (all[s].rows_in + all[s].rows_out >
            all[most].rows_in + all[most].rows_out)
            most = s;
    }
    return most;
}

/* Keeps the scenes that fit the map of the largest; returns their number. */
static int leave_fitting(const spc__fixture *fixture, int *scenes, int count)
{
    const spc__sample_scene *all = fixture->sample->scenes;
    const spc__sample_scene *most = &all[largest_of(fixture, scenes, count)];
    int left = 0;

    for (int i = 0; i < count; i++)
        if (all[scenes[i]].rows_in <= most->rows_in &&
            all[scenes[i]].rows_out <= most->rows_out)
            scenes[left++] = scenes[i];
    return left;
}

/*
 * The first two scenes have one tile each, so state kept from one tile affects
 * the other in any order of tiles. An emulation has no time for two more
 * scenes.
 */
int spc__fixture_spare_scenes(int scenes[SPC__SPARE_SCENES],
                              const spc__fixture *fixture)
{
    int given = fixture->sample->given, count = 0;

    if (!has_spare(fixture))
        return 0;
    scenes[count++] = given + SPC__AWKWARD_1;
    if (fixture->ops->is_emulation) {
        scenes[count++] = given + SPC__AWKWARD_BORDER;
    } else {
        scenes[count++] = given + SPC__AWKWARD_63;
        scenes[count++] = given + SPC__AWKWARD_MOST;
    }
    scenes[count++] = given + SPC__AWKWARD_BATCHES;
    return leave_fitting(fixture, scenes, count);
}

/* Arrays whose rows are counted must not overlap others. */
static spc_status reserve_arrays(spc__fixture *fixture, const int *scenes,
                                 int count, int64_t rows_in, int64_t rows_out)
{
    spc__operand all[SPC_OPERANDS];

    spc__operands(all, &fixture->sample->conv, rows_in, rows_out);
    spc_status status = spc__guarded_reserve(&fixture->guards, &fixture->out,
                                             all[SPC_OPERAND_OUT].bytes);
    for (int i = 0; i < count && status == SPC_OK; i++) {
        int s = scenes[i];
        status = spc__guarded_reserve(&fixture->guards, &fixture->in[s][0],
                                      all[SPC_OPERAND_IN].bytes);
        if (status == SPC_OK && all[SPC_OPERAND_RESIDUAL].present)
            status =
                spc__guarded_reserve(&fixture->guards, &fixture->residual[s][0],
                                     all[SPC_OPERAND_RESIDUAL].bytes);
    }
    fixture->spare_capacity = rows_out;
    return status;
}

spc_status spc__fixture_build_spare(spc__fixture *fixture)
{
    int scenes[SPC__SPARE_SCENES];
    int count = spc__fixture_spare_scenes(scenes, fixture);

    spc__fixture_free_spare(fixture);
    if (count == 0)
        return SPC_OK;
    int largest = largest_of(fixture, scenes, count);
    int64_t rows = fixture->sample->scenes[largest].rows_out + SPARE_ROWS;
    if (spc_conv_is_linear(&fixture->sample->conv)) {
        spc_status status = spc_memory_alloc((void **)&fixture->spare_count,
                                             fixture->ctx, sizeof(int32_t));
        return status == SPC_OK
                   ? reserve_arrays(fixture, scenes, count, rows, rows)
                   : status;
    }
    spc_status status =
        spc__fixture_build_map(&fixture->spare, fixture, largest);
    if (status == SPC_OK)
        status = spc_memory_alloc(
            (void **)&fixture->spare_coords, fixture->ctx,
            16 * (size_t)fixture->sample->scenes[largest].voxels);
    return status == SPC_OK
               ? reserve_arrays(fixture, scenes, count,
                                spc_coords_capacity(fixture->spare->in),
                                spc_coords_capacity(fixture->spare->to))
               : status;
}

void spc__fixture_free_spare(spc__fixture *fixture)
{
    spc_map_free(fixture->spare);
    spc_memory_free(fixture->ctx, fixture->spare_coords);
    spc_memory_free(fixture->ctx, fixture->spare_count);
    fixture->spare = NULL;
    fixture->spare_coords = fixture->spare_count = NULL;
}

/* Swaps the map of scene s and the spare map; a second call restores both. */
static void swap_spare(spc__fixture *fixture, int s)
{
    spc_map *map = fixture->maps[s];
    int32_t *count = fixture->count;
    int64_t capacity = fixture->capacity;

    fixture->maps[s] = fixture->spare;
    fixture->spare = map;
    fixture->count = fixture->spare_count;
    fixture->spare_count = count;
    fixture->capacity = fixture->spare_capacity;
    fixture->spare_capacity = capacity;
}

/* Fills a map with a scene. */
static spc_status fill_map(const spc__fixture *fixture, spc_map *map,
                           const spc__sample_scene *scene)
{
    spc_status status =
        spc_memory_upload(fixture->spare_coords, fixture->ctx, scene->coords,
                          16 * (size_t)scene->voxels);

    if (status == SPC_OK)
        status = spc__map_rebuild(map, fixture->spare_coords, scene->voxels,
                                  false, NULL);
    return status == SPC_OK ? spc_map_check(map, NULL) : status;
}

spc_status spc__fixture_take_spare(spc__fixture *fixture, int s)
{
    const spc__sample_scene *scene = &fixture->sample->scenes[s];
    int32_t rows = (int32_t)scene->rows_out;

    swap_spare(fixture, s);
    fixture->counted = s;
    return fixture->maps[s] != NULL
               ? fill_map(fixture, fixture->maps[s], scene)
               : spc_memory_upload(fixture->count, fixture->ctx, &rows,
                                   sizeof rows);
}

void spc__fixture_return_spare(spc__fixture *fixture, int s)
{
    swap_spare(fixture, s);
    fixture->counted = 0;
}
