/* SPDX-License-Identifier: Apache-2.0 */
/*
 * scene_room.c - the fused depth images of a generated furnished room: surfaces
 * sampled densely and evenly, as an RGB-D camera sees them, in the camera's
 * own, tilted frame.
 */
#include "lab/scene/scene.h"

#include "base/error.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double SPACING = 0.007; /* distance of samples, in metres */
static const double DEPTH_NOISE = 0.003;
/*
 * A room has about 1.3 times this many samples. If a number of points is
 * requested, a third more are taken, as some coincide.
 */
static const double SAMPLES = 700000;
/* Points are rounded to this step, as layers of points take them. */
static const double POINT_STEP = 1.0 / 1024;

enum { ROOM_SEED, ROOM_POINTS };

typedef struct room {
    spc__voxels *out;
    double spacing;    /* distance between samples */
    double rotation[3][3]; /* rotation from room to camera */
    spc__random random;
} room;

typedef struct cuboid {
    double at[3];   /* lowest corner */
    double size[3]; /* size; may be 0 for a sheet */
} cuboid;

/*
 * C leaves the order of arguments and of initialisers open: at most one of them
 * may draw a random number.
 */
static double between(room *r, double low, double high)
{
    return low + (high - low) * spc__random_unit(&r->random);
}

static spc_status add_point(room *r, const double p[3], spc_error *error)
{
    double point[3];
    spc__source_position source = {"gen:room", r->out->count, 0};
    for (int i = 0; i < 3; i++)
        point[i] = spc__scene_float(r->rotation[i][0] * p[0] +
                                    r->rotation[i][1] * p[1] +
                                    r->rotation[i][2] * p[2]);
    return spc__voxels_add_point(r->out, 0, point, &source, error);
}

static int64_t samples_along(const room *r, double length)
{
    return (int64_t)(length / r->spacing) + 1;
}

/* Samples the face of a cuboid across `axis` at its low or high end. */
static spc_status add_face(room *r, const cuboid *box, int axis, bool high,
                           spc_error *error)
{
    int u = (axis + 1) % 3, v = (axis + 2) % 3;
    int64_t nu = samples_along(r, box->size[u]), nv = samples_along(r, box->size[v]);
    spc_status status = spc__voxels_reserve(r->out, nu * nv, error);

    for (int64_t i = 0; i < nu * nv && status == SPC_OK; i++) {
        double p[3];
        p[u] = box->at[u] +
               r->spacing * ((double)(i / nv) + spc__random_unit(&r->random));
        p[v] = box->at[v] +
               r->spacing * ((double)(i % nv) + spc__random_unit(&r->random));
        p[axis] = box->at[axis] + (high ? box->size[axis] : 0) +
                  DEPTH_NOISE * spc__scene_noise(&r->random);
        status = add_point(r, p, error);
    }
    return status;
}

/* The camera never sees faces from below. */
static spc_status add_cuboid(room *r, const cuboid *box, spc_error *error)
{
    spc_status status = add_face(r, box, 2, true, error);
    for (int axis = 0; axis < 2 && status == SPC_OK; axis++) {
        status = add_face(r, box, axis, false, error);
        if (status == SPC_OK)
            status = add_face(r, box, axis, true, error);
    }
    return status;
}

/* Adds a table or a chair's seat: a board on four legs. */
static spc_status add_board(room *r, double x, double y, double height,
                            const double size[2], spc_error *error)
{
    const double leg = 0.05;
    cuboid board = {{x, y, height - 0.03}, {size[0], size[1], 0.03}};
    spc_status status = add_cuboid(r, &board, error);

    for (int i = 0; i < 4 && status == SPC_OK; i++) {
        cuboid post = {{x + (i & 1 ? size[0] - leg : 0),
                        y + (i & 2 ? size[1] - leg : 0), 0},
                       {leg, leg, height - 0.03}};
        status = add_cuboid(r, &post, error);
    }
    return status;
}

static spc_status add_chair(room *r, double x, double y, spc_error *error)
{
    double width = between(r, 0.4, 0.48), depth = between(r, 0.4, 0.48);
    double size[2] = {width, depth};
    cuboid back = {{x, y, 0.46}, {size[0], 0.03, between(r, 0.4, 0.5)}};
    spc_status status = add_board(r, x, y, 0.46, size, error);
    return status == SPC_OK ? add_cuboid(r, &back, error) : status;
}

/* Adds shelf boards between two sides, with objects on them. */
static spc_status add_shelf(room *r, double x, double y, spc_error *error)
{
    spc_status status = SPC_OK;
    for (int i = 0; i < 5 && status == SPC_OK; i++) {
        double z = 0.1 + 0.36 * i, along = between(r, 0.05, 0.5);
        double width = between(r, 0.1, 0.35), height = between(r, 0.1, 0.3);
        cuboid board = {{x, y, z}, {0.9, 0.3, 0.02}};
        cuboid thing = {{x + along, y + 0.05, z + 0.02}, {width, 0.2, height}};
        status = add_cuboid(r, &board, error);
        if (status == SPC_OK)
            status = add_cuboid(r, &thing, error);
    }
    for (int i = 0; i < 2 && status == SPC_OK; i++) {
        cuboid side = {{x + 0.9 * i, y, 0}, {0.02, 0.3, 1.6}};
        status = add_cuboid(r, &side, error);
    }
    return status;
}

/* Adds the floor, two walls, and the furniture. */
static spc_status furnish(room *r, spc_error *error)
{
    double length = between(r, 3.2, 4.2), width = between(r, 2.8, 3.6);
    double across = between(r, 1.2, 1.6), deep = between(r, 0.7, 0.9);
    double table[2] = {across, deep};
    double tx = between(r, 1.0, 1.4), ty = between(r, 1.2, 1.6);
    cuboid ground = {{0, 0, 0}, {length, width, 0}};
    cuboid walls = {{0, 0, 0}, {length, width, 2.4}};
    cuboid sofa = {{0.05, 0.4, 0}, {0.8, between(r, 1.4, 1.8), 0.42}};
    cuboid rest = {{0.05, 0.4, 0.42}, {0.2, sofa.size[1], 0.4}};
    spc_status status;

    if ((status = add_face(r, &ground, 2, false, error)) != SPC_OK ||
        (status = add_face(r, &walls, 0, false, error)) != SPC_OK ||
        (status = add_face(r, &walls, 1, false, error)) != SPC_OK ||
        (status = add_cuboid(r, &sofa, error)) != SPC_OK ||
        (status = add_cuboid(r, &rest, error)) != SPC_OK ||
        (status = add_board(r, tx, ty, 0.74, table, error)) != SPC_OK ||
        (status = add_chair(r, tx + 0.2, ty - 0.5, error)) != SPC_OK ||
        (status = add_chair(r, tx + 0.8, ty + table[1], error)) != SPC_OK)
        return status;
    return add_shelf(r, length - 1.1, 0.05, error);
}

/*
 * Turns by any yaw and a small pitch, so that no surface is parallel to the
 * grid.
 */
static void aim(room *r)
{
    double cy, sy, cp, sp;
    spc__scene_sincos(&cy, &sy, between(r, 0.02, 0.23));
    spc__scene_sincos(&cp, &sp, between(r, 0.02, 0.06));
    double rotation[3][3] = {
        {cy, -sy, 0}, {cp * sy, cp * cy, -sp}, {sp * sy, sp * cy, cp}};
    for (int i = 0; i < 9; i++)
        r->rotation[i / 3][i % 3] = rotation[i / 3][i % 3];
}

/*
 * Keeps exactly `points` points, all with equal probability (Knuth, volume 2,
 * 3.4.2, algorithm S).
 */
static spc_status keep(room *r, int64_t points, spc_error *error)
{
    spc__voxels *all = r->out;
    int64_t kept = 0;
    spc_status status = spc__voxels_sort(all, error);

    if (status != SPC_OK || all->count < points)
        return status != SPC_OK
                   ? status
                   : spc__fail(error, SPC_EINVAL,
                               "gen:room,n=%lld: only %lld of its points "
                               "differ at a voxel of %g",
                               (long long)points, (long long)all->count,
                               all->size[0]);
    for (int64_t i = 0; i < all->count && kept < points; i++)
        if ((double)(all->count - i) * spc__random_unit(&r->random) <
            (double)(points - kept))
            memmove(all->at + 4 * kept++, all->at + 4 * i,
                    4 * sizeof(*all->at));
    all->count = kept;
    return SPC_OK;
}

spc_status spc__scene_room(spc__voxels *out, const spc__scene_values *values,
                           spc_error *error)
{
    int64_t points = values->at[ROOM_POINTS];
    room r = {.out = out, .spacing = SPACING};
    if (points > 0) {
        for (int a = 0; a < 3 && !values->has_voxel; a++)
            out->size[a] = POINT_STEP;
        r.spacing = SPACING * sqrt(SAMPLES / (double)points);
    }
    spc__random_init(&r.random, (uint64_t)values->at[ROOM_SEED]);
    aim(&r);
    spc_status status = furnish(&r, error);
    return status == SPC_OK && points > 0 ? keep(&r, points, error) : status;
}
