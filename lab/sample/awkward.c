/* SPDX-License-Identifier: Apache-2.0 */
/*
 * awkward.c - scenes that test the ends of tiles, of the extent, and of a
 * batch.
 *
 * All scenes with more than one row share two opposite corners of a box, so
 * that their keys are packed alike and one set of map kernels serves all.
 */
#include "lab/sample/awkward.h"
#include "spc/lab.h"

#include "base/error.h"
#include "base/random.h"
#include "coords/given.h"
#include "operators/conv.h"
#include "templates/shared/spc_abi.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_ROWS = 1024, EXTENT = 64, LOW = -7 };

typedef struct cloud {
    int low[3], high[3];
    int rows;
    int32_t coords[MOST_ROWS][4];
} cloud;

/*
 * Adds a voxel, relative to the box's low corner, unless it exists or is
 * outside the box.
 */
static void add(cloud *c, int batch, int x, int y, int z)
{
    const int32_t at[4] = {batch, c->low[0] + x, c->low[1] + y, c->low[2] + z};

    for (int a = 0; a < 3; a++)
        if (at[1 + a] > c->high[a])
            return;
    for (int i = 0; i < c->rows; i++)
        if (c->coords[i][0] == at[0] && c->coords[i][1] == at[1] &&
            c->coords[i][2] == at[2] && c->coords[i][3] == at[3])
            return;
    for (int i = 0; i < 4; i++)
        c->coords[c->rows][i] = at[i];
    c->rows++;
}

static void add_corners(cloud *c)
{
    add(c, 0, 0, 0, 0);
    add(c, 1, c->high[0] - c->low[0], c->high[1] - c->low[1],
        c->high[2] - c->low[2]);
}

/* Adds a solid block of edge `edge`, up to `rows` rows in all. */
static void add_block(cloud *c, int batch, int edge, int rows)
{
    for (int i = 0; i < edge * edge * edge && c->rows < rows; i++)
        add(c, batch, 6 + i / edge / edge, 6 + i / edge % edge, 6 + i % edge);
}

/*
 * Adds distinct cells spread over the box: an odd factor permutes them. Most
 * voxels have no neighbour, so that tiles have few offsets.
 */
static void add_spread(cloud *c, int rows)
{
    for (uint32_t i = 0; i < 100 * MOST_ROWS && c->rows < rows; i++) {
        uint32_t cell = i * 0x9e3779b1u >> 7;
        add(c, cell >> 18 & 1, cell & 63, cell >> 6 & 63, cell >> 12 & 63);
    }
}

/*
 * Adds blocks of 2x2x2 in every corner of the box: their neighbours would lie
 * outside.
 */
static void add_border(cloud *c)
{
    for (int i = 0; i < 4 * 4 * 4; i++) {
        int at[3] = {i / 16, i / 4 % 4, i % 4};
        for (int a = 0; a < 3; a++)
            if (at[a] > 1)
                at[a] = c->high[a] - c->low[a] - 3 + at[a];
        for (int a = 0; a < 3; a++)
            if (at[a] < 0)
                at[a] = 0;
        add(c, 0, at[0], at[1], at[2]);
        add(c, 1, at[0], at[1], at[2]);
    }
}

static void draw_none(cloud *c)
{
    (void)c;
}

static void draw_one(cloud *c)
{
    add(c, 0, 3, 1, 2);
}

static void draw_63(cloud *c)
{
    add_corners(c);
    add_block(c, 0, 4, 63);
}

static void draw_65(cloud *c)
{
    add_corners(c);
    add_block(c, 1, 4, 65);
}

static void draw_1024(cloud *c)
{
    add_corners(c);
    add_block(c, 0, 4, 66);
    add_spread(c, MOST_ROWS);
}

static void draw_border(cloud *c)
{
    add_corners(c);
    add_border(c);
}

static void draw_batches(cloud *c)
{
    add_corners(c);
    add_block(c, 0, 3, 29);
    add_block(c, 1, 3, 56);
}

static const struct {
    const char *name;
    void (*draw)(cloud *c);
} scenes[SPC__AWKWARD] = {
    {"no row", draw_none},       {"one row", draw_one},
    {"63 rows", draw_63},        {"65 rows", draw_65},
    {"1024 rows", draw_1024},    {"a border", draw_border},
    {"2 batches", draw_batches},
};

/*
 * Returns the rows of size `i`. The first is a multiple of all tiles: all tiles
 * divide SPC_ROW_PAD, and maps are padded to it. The others are random, so that
 * no kernel can be written for them: eight consecutive sizes from 2 to 160, and
 * eight from 160 to 310 with the other remainders modulo 16. So all remainders
 * modulo 16 occur.
 */
static int rows_of_size(int i, uint64_t seed)
{
    enum {
        MULTIPLE = 512,
        NEAR = 3,
        RUN = 8,
        STEP = 16,
        LEAST = 2,
        HALF = 160,
        STEPS = 9
    };
    spc__random random;

    if (i == 0)
        return MULTIPLE;
    if (--i < NEAR)
        return SPC_ROW_PAD - 1 + i;
    spc__random_init(&random, seed ^ 0x73697a6573);
    int few = LEAST + (int)spc__random_below(&random, HALF - RUN - LEAST + 1);
    int more = HALF + (few + RUN) % STEP +
               STEP * (int)spc__random_below(&random, STEPS);
    i -= NEAR;
    return i < RUN ? few + i : more + i - RUN;
}

static void draw_size(cloud *c, int i, int rows)
{
    add_corners(c);
    add_block(c, i % 2, 4, rows < 40 ? rows : 40);
    add_spread(c, rows);
}

/*
 * Spaces points by half a radius, so that outputs see some inputs and miss
 * others. Many points lie exactly on the radius or on the border of two cells,
 * and every seventh repeats the previous point.
 */
static void convert_to_points(cloud *c, float radius)
{
    double half = (double)radius * 1024 / 2;
    int32_t apart = half < 1 ? 1 : half > 1 << 20 ? 1 << 20 : (int32_t)half;

    for (int i = 0; i < c->rows; i++)
        for (int a = 1; a < 4; a++)
            c->coords[i][a] *= apart;
    for (int i = 7; i < c->rows; i += 7)
        for (int a = 0; a < 4; a++)
            c->coords[i][a] = c->coords[i - 1][a];
}

/* Starts a cloud in the box, within the shape of the layer. */
static cloud *new_cloud(const spc_conv *conv, spc_error *error)
{
    cloud *c = calloc(1, sizeof(*c));

    if (c == NULL) {
        spc__fail_memory(error, sizeof(*c));
        return NULL;
    }
    for (int a = 0; a < 3; a++) {
        int shape = conv->geometry.shape[a];
        c->low[a] = shape > 0 ? 0 : LOW;
        c->high[a] = c->low[a] + EXTENT - 1;
        if (shape > 0 && shape < EXTENT)
            c->high[a] = shape - 1;
    }
    return c;
}

static spc_status make_scene(spc_scene **out, cloud *c, const spc_conv *conv,
                             const char *name, spc_error *error)
{
    if (conv->geometry.rule == SPC_RULE_RADIUS)
        convert_to_points(c, conv->geometry.radius);
    spc_status status =
        spc_scene_create(out, c->coords[0], c->rows, name, error);
    free(c);
    return status;
}

spc_status spc__awkward_scene(spc_scene **out, int i, const spc_conv *conv,
                              spc_error *error)
{
    cloud *c = new_cloud(conv, error);

    *out = NULL;
    if (c == NULL)
        return error->status;
    scenes[i].draw(c);
    return make_scene(out, c, conv, scenes[i].name, error);
}

spc_status spc__awkward_size(spc_scene **out, int i, uint64_t seed,
                             const spc_conv *conv, spc_error *error)
{
    cloud *c = new_cloud(conv, error);
    char name[32];

    *out = NULL;
    if (c == NULL)
        return error->status;
    draw_size(c, i, rows_of_size(i, seed));
    snprintf(name, sizeof(name), "%d rows", c->rows);
    return make_scene(out, c, conv, name, error);
}

/* ---- outputs that see no input ------------------------------------------- */

/* More rows than two tiles of any size. */
enum { NEAR_EDGE = 3, FAR_ROWS = 600, FAR_AWAY = 1000 };

/* Copies the rows of a set, and adds a block far away after them. */
static spc_status add_far(spc_scene **out, const int32_t *near, int64_t rows,
                          spc_error *error)
{
    enum { EDGE = 9 };
    int32_t(*all)[4] = malloc((size_t)(rows + FAR_ROWS) * sizeof(*all));

    if (all == NULL)
        return spc__fail_memory(error, (size_t)rows * sizeof(*all));
    memcpy(all, near, (size_t)rows * sizeof(*all));
    for (int i = 0; i < FAR_ROWS; i++) {
        int32_t *at = all[rows + i];
        at[0] = 0;
        at[1] = FAR_AWAY + i / EDGE / EDGE;
        at[2] = i / EDGE % EDGE;
        at[3] = i % EDGE;
    }
    spc_status status = spc_scene_create(out, all[0], rows + FAR_ROWS,
                                         "far from inputs", error);
    free(all);
    return status;
}

spc_status spc__awkward_far(spc_scene **out, spc_scene **given,
                            const spc_conv *conv, spc_error *error)
{
    int32_t near[NEAR_EDGE * NEAR_EDGE * NEAR_EDGE][4] = {{0}}, *drawn = NULL;
    const int64_t count = NEAR_EDGE * NEAR_EDGE * NEAR_EDGE;
    bool ends = spc__conv_ends_at_scene(conv); /* the scene holds the outputs */
    int64_t rows;

    for (int i = 0; i < count; i++)
        for (int a = 3, left = i; a > 0; a--, left /= NEAR_EDGE)
            near[i][a] = left % NEAR_EDGE;
    spc_status status =
        spc__given_draw(&drawn, &rows, &conv->geometry, near[0], count, error);
    if (status == SPC_OK && ends)
        status = add_far(out, near[0], count, error);
    if (status == SPC_OK && !ends)
        status = add_far(given, drawn, rows, error);
    if (status == SPC_OK && ends)
        status = spc_scene_create(given, drawn, rows, "given", error);
    if (status == SPC_OK && !ends)
        status =
            spc_scene_create(out, near[0], count, "far from inputs", error);
    free(drawn);
    return status;
}
