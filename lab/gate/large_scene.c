/* SPDX-License-Identifier: Apache-2.0 */
/*
 * large_scene.c - how large a large scene is, and its voxels.
 *
 * One kind has more than 2^17 rows, and more than the largest bucket of the
 * given scenes, since a choice is served to any scene. The other is a solid
 * block of 16^3 voxels, whose inner rows see all offsets of most kernels.
 */
#include "lab/gate/large.h"

#include "base/error.h"
#include "operators/conv.h"
#include "operators/operands.h"
#include <math.h>
#include <stdlib.h>

enum { LEAST_ROWS = 140000, MANY_ROWS = 4096 };
enum { BLOCK_EDGE = 16, BLOCK_ROWS = BLOCK_EDGE * BLOCK_EDGE * BLOCK_EDGE };

/*
 * Rows of a gradient of weights on a processor: kernels split the pairs of an
 * offset into parts of some thousands at most, and the centre has as many pairs
 * as there are rows.
 */
enum { GRADIENT_ROWS = 9000 };

/*
 * A box of the awkward scenes' extent, so that their index kernels apply; wider
 * if the rows would fill more than half of its two batches.
 */
enum { LOW = -7, EXTENT = 64, MOST_EXTENT = 512 };

/* Limit of a map's entries, as each tested row order copies them. */
static const int64_t most_entries = (int64_t)1 << 28;

/*
 * Limits of offset searches and of products: on a processor where the given
 * scenes are large and where they are small, and on an emulation.
 */
static const double host_searches = 0x1p22, host_products = 0x1p31,
                    few_products = 0x1p28, emulated_products = 0x1p20;

/* ---- limits -------------------------------------------------------------- */

static int64_t given_rows(const spc__fixture *fixture)
{
    const spc__sample *sample = fixture->sample;
    int64_t most = 0;

    for (int s = 0; s < sample->given; s++)
        if (sample->scenes[s].voxels > most)
            most = sample->scenes[s].voxels;
    return most;
}

static bool fits_memory(const spc__fixture *fixture, int64_t rows)
{
    return rows <= most_entries / spc__conv_offsets(&fixture->sample->conv);
}

/* In the scene of many rows a row has few neighbours; in the block a row has
 * all. */
static double products_of(const spc__fixture *fixture, int kind, int64_t rows)
{
    const spc_conv *conv = &fixture->sample->conv;
    double seen = spc__conv_offsets(conv);

    if (kind == SPC__LARGE_MANY)
        seen = fmin(seen, 4);
    return (double)rows * seen * spc__conv_group_in(conv) * conv->cout;
}

/* True if a run is short on this device. */
static bool has_time(const spc__fixture *fixture, int kind, int64_t rows)
{
    double products = products_of(fixture, kind, rows);
    double most = given_rows(fixture) < MANY_ROWS && rows >= LEAST_ROWS
                      ? few_products
                      : host_products;

    if (!fixture->ops->runs_on_host_cores)
        return true;
    if (fixture->ops->is_emulation)
        return kind == SPC__LARGE_BLOCK && products <= emulated_products;
    return products <= most &&
           (double)rows * spc__conv_offsets(&fixture->sample->conv) <=
               host_searches;
}

/*
 * Returns 1.5 times the rows of a given scene, as a bucket is half an octave. A
 * processor without time for 2^17 rows gets four times the given rows.
 */
static int64_t many_rows(const spc__fixture *fixture)
{
    int64_t given = given_rows(fixture), rows = given + given / 2;
    bool is_gradient = fixture->sample->conv.pass == SPC_WGRAD;

    if (rows < LEAST_ROWS)
        rows = LEAST_ROWS;
    if (!fixture->ops->runs_on_host_cores || given >= MANY_ROWS ||
        (fits_memory(fixture, rows) &&
         has_time(fixture, SPC__LARGE_MANY, rows)))
        return rows;
    if (is_gradient && 4 * given < GRADIENT_ROWS &&
        fits_memory(fixture, GRADIENT_ROWS) &&
        has_time(fixture, SPC__LARGE_MANY, GRADIENT_ROWS))
        return GRADIENT_ROWS;
    return 4 * given;
}

/* ---- the scene ----------------------------------------------------------- */

/* The edge of the box along an axis, within the shape of the layer. */
static int64_t edge_of(const spc_conv *conv, int axis, int64_t edge)
{
    int shape = conv->geometry.shape[axis];

    return shape > 0 && shape < edge ? shape : edge;
}

static int64_t cells_of(const spc_conv *conv, int64_t edge)
{
    return 2 * edge_of(conv, 0, edge) * edge_of(conv, 1, edge) *
           edge_of(conv, 2, edge);
}

/*
 * Returns the i-th of 2^bits cells in a pseudo-random order: each step is a
 * bijection.
 */
static uint64_t shuffled(uint64_t i, int bits)
{
    uint64_t mask = ((uint64_t)1 << bits) - 1;

    i = (i * 0x9e3779b1u) & mask;
    i ^= i >> (bits / 2 + 1);
    return (i * 0x85ebca6bu) & mask;
}

/* The coordinates of a cell of the box. */
static void put_voxel(int32_t at[4], const spc_conv *conv, int64_t edge,
                      int64_t cell)
{
    const spc_geometry *g = &conv->geometry;
    int64_t apart = 1;

    if (g->rule == SPC_RULE_RADIUS) /* points half a radius apart */
        apart = (int64_t)fmin(fmax((double)g->radius * 512, 1), 1 << 20);
    for (int a = 2; a >= 0; a--) {
        int64_t wide = edge_of(conv, a, edge);
        int64_t low = g->shape[a] > 0 ? 0 : LOW;
        at[1 + a] = (int32_t)((low + cell % wide) * apart);
        cell /= wide;
    }
    at[0] = (int32_t)cell;
}

/*
 * Cell i of a block, counted from the third row: the box's corners are the
 * first two.
 */
static int64_t cell_of_block(const spc_conv *conv, int64_t i)
{
    const int64_t low = 6, in = i / BLOCK_EDGE % BLOCK_EDGE;
    int64_t wide = edge_of(conv, 2, EXTENT);
    int64_t x = low + i / BLOCK_EDGE / BLOCK_EDGE, y = low + in;
    int64_t z = low + i % BLOCK_EDGE;

    return (x * edge_of(conv, 1, EXTENT) + y) * wide + z;
}

/* True if the shape of the layer has room for a block. */
static bool fits_block(const spc_conv *conv)
{
    for (int a = 0; a < 3; a++)
        if (edge_of(conv, a, EXTENT) < 8 + BLOCK_EDGE)
            return false;
    return true;
}

/*
 * Takes `rows` cells of the box, or all; its corners come first, as they set
 * the extent.
 */
static void fill_box(int32_t (*coords)[4], const spc_conv *conv, int kind,
                     int64_t edge, int64_t rows)
{
    int64_t cells = cells_of(conv, edge), count = 0;
    int bits = 1;

    while ((int64_t)1 << bits < cells)
        bits++;
    put_voxel(coords[count++], conv, edge, 0);
    if (rows > 1)
        put_voxel(coords[count++], conv, edge, cells - 1);
    for (uint64_t i = 0; count < rows; i++) {
        int64_t cell = kind == SPC__LARGE_BLOCK
                           ? cell_of_block(conv, (int64_t)i)
                           : (int64_t)shuffled(i, bits);
        if (cell > 0 && cell < cells - 1)
            put_voxel(coords[count++], conv, edge, cell);
    }
}

/* Makes the scene in a box that has twice as many cells as rows, if the layer's
 * grid allows. */
static spc_status create(spc_scene **out, const spc__fixture *fixture, int kind,
                         int64_t rows)
{
    const spc_conv *conv = &fixture->sample->conv;
    spc_error *error = spc__error_of(fixture->ctx);
    int64_t edge = EXTENT;

    while (edge < MOST_EXTENT && cells_of(conv, edge) < 2 * rows)
        edge *= 2;
    if (rows > cells_of(conv, edge))
        rows = cells_of(conv, edge);
    int32_t(*coords)[4] = malloc((size_t)rows * sizeof(*coords));
    if (coords == NULL)
        return spc__fail_memory(error, (size_t)rows * sizeof(*coords));
    fill_box(coords, conv, kind, edge, rows);
    spc_status status = spc_scene_create(
        out, coords[0], rows,
        kind == SPC__LARGE_BLOCK ? "a block" : "many rows", error);
    free(coords);
    return status;
}

spc_status spc__large_scene_create(spc_scene **out, const spc__fixture *fixture,
                                   int kind)
{
    int64_t rows =
        kind == SPC__LARGE_BLOCK ? (int64_t)BLOCK_ROWS : many_rows(fixture);
    bool in_time = has_time(fixture, kind, rows);

    *out = NULL;
    if (kind == SPC__LARGE_BLOCK && !fits_block(&fixture->sample->conv))
        return SPC_OK;
    if (in_time && fits_memory(fixture, rows))
        return create(out, fixture, kind, rows);
    spc__log_printf(&fixture->ctx->log, SPC_LOG_DEBUG,
                    "skipping a scene of %lld rows: it takes too much %s",
                    (long long)rows, in_time ? "memory" : "time here");
    return SPC_OK;
}
