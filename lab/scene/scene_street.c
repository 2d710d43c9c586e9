/* SPDX-License-Identifier: Apache-2.0 */
/*
 * scene_street.c - one revolution of a spinning lidar in a generated street.
 *
 * The sensor is at the origin, HEIGHT above the road, which runs along x:
 * parked cars, kerbs and pavements with trees and poles, house fronts with
 * windows. Beams, rate, range and noise are those of a Velodyne HDL-64E (32
 * beams from +2 degrees down in thirds, 32 below in halves); other counts of
 * beams spread over the same angles. For each azimuth only objects whose circle
 * the ray's vertical plane meets are tried.
 */
#include "lab/scene/scene.h"

#include "base/error.h"
#include <math.h>
#include <stdlib.h>

static const double HEIGHT = 1.73;       /* height of the sensor, in metres */
static const double ROAD = 6;            /* half of the road's width */
static const double KERB = 0.14;         /* height of the pavement */
static const double RANGE = 80;          /* farthest return */
static const double NEAREST = 2.5;       /* closest return */
static const double RANGE_NOISE = 0.012; /* deviation of the noise, in metres */

enum { STREET_SEED, STREET_BEAMS };
enum { AZIMUTHS = 2080, MOST_OBJECTS = 256 };

typedef enum shape { BOX, HOUSE, POLE, CROWN } shape;

typedef struct object {
    shape shape;
    double x, y, z;  /* centre */
    double cos, sin; /* cosine and sine of the yaw, for boxes */
    double a, b, c;  /* half extents; radius a, half height c */
    double circle;   /* radius of the bounding circle on the ground */
} object;

typedef struct street {
    object objects[MOST_OBJECTS];
    int count;
    spc__random random;
} street;

typedef struct ray {
    double x, y, z; /* unit direction */
} ray;

/*
 * C leaves the order of arguments and of initialisers open: at most one of them
 * may draw a random number.
 */

/* ---- building the street ------------------------------------------------- */

static double between(street *s, double low, double high)
{
    return low + (high - low) * spc__random_unit(&s->random);
}

static void add(street *s, object thing)
{
    if (s->count < MOST_OBJECTS)
        s->objects[s->count++] = thing;
}

/* Adds a box that stands on `bottom`. Its circle on the ground serves to skip
 * it quickly. */
static void add_box(street *s, shape kind, double x, double y, double bottom,
                    const double half[3], double yaw_turns)
{
    object box = {.shape = kind,
                  .x = x,
                  .y = y,
                  .z = bottom + half[2],
                  .a = half[0],
                  .b = half[1],
                  .c = half[2]};
    spc__scene_sincos(&box.cos, &box.sin, yaw_turns);
    box.circle = sqrt(box.a * box.a + box.b * box.b);
    add(s, box);
}

/* Adds a pole or a crown. */
static void add_round(street *s, shape kind, double x, double y, double bottom,
                      double radius, double half_height)
{
    object thing = {.shape = kind,
                    .x = x,
                    .y = y,
                    .z = bottom + half_height,
                    .a = radius,
                    .b = radius,
                    .c = half_height,
                    .circle = radius};
    add(s, thing);
}

/* Adds a car: a body and a cabin on top. */
static void add_car(street *s, double x, double y)
{
    double yaw = between(s, -0.01, 0.01);
    double length = between(s, 1.9, 2.4), width = between(s, 0.82, 0.95);
    double body[3] = {length, width, 0.38};
    double cabin[3] = {body[0] * 0.55, body[1] * 0.88, between(s, 0.25, 0.4)};
    add_box(s, BOX, x, y, -HEIGHT + 0.22, body, yaw);
    add_box(s, BOX, x - 0.2, y, -HEIGHT + 0.98, cabin, yaw);
}

static void add_tree(street *s, double x, double y)
{
    double ground = -HEIGHT + KERB;
    double trunk = between(s, 1.0, 1.5), girth = between(s, 0.12, 0.25);
    double radius = between(s, 1.4, 2.6), half = between(s, 1.3, 2.2);
    add_round(s, POLE, x, y, ground, girth, trunk);
    add_round(s, CROWN, x, y, ground + 1.6 * trunk, radius, half);
}

/* Adds one side of the street; `side` is 1 or -1. */
static void add_side(street *s, double side)
{
    double ground = -HEIGHT + KERB;
    for (double x = -78; x < 78;) {
        double width = between(s, 4, 9);
        double half[3] = {width, 5, between(s, 2.8, 6)};
        double front = between(s, 11, 13.5);
        add_box(s, HOUSE, x + width, side * (front + half[1]), ground, half,
                between(s, -0.003, 0.003));
        x += 2 * width + (spc__random_unit(&s->random) < 0.3 ? 6 : 0.3);
    }
    for (double x = -74; x < 74; x += between(s, 7, 13))
        add_tree(s, x, side * between(s, 7.5, 9.5));
    for (double x = -70; x < 70; x += between(s, 20, 30))
        add_round(s, POLE, x, side * between(s, 6.3, 6.6), ground, 0.08, 3);
    for (double x = -70; x < 70; x += between(s, 6, 16))
        if (fabs(x) > 4)
            add_car(s, x, side * between(s, 4.6, 5));
}

static void build(street *s)
{
    add_side(s, 1);
    add_side(s, -1);
    for (double x = -60; x < 60; x += between(s, 18, 40))
        if (fabs(x) > 8)
            add_car(s, x, between(s, -2.2, 2.2));
}

/* ---- rays ---------------------------------------------------------------- */

/* Narrows [*in, *out] to where |origin + t * step| <= half. */
static void clip_slab(double *in, double *out, double origin, double step,
                      double half)
{
    if (step == 0) {
        if (fabs(origin) > half)
            *out = -1;
        return;
    }
    double t0 = (-half - origin) / step, t1 = (half - origin) / step;
    double low = t0 < t1 ? t0 : t1, high = t0 < t1 ? t1 : t0;
    *in = low > *in ? low : *in;
    *out = high < *out ? high : *out;
}

/* Returns the distance to a box, or RANGE. */
static double hit_box(const object *o, const ray *r)
{
    double in = 0, out = RANGE;
    double x = -(o->cos * o->x + o->sin * o->y);
    double y = o->sin * o->x - o->cos * o->y;

    clip_slab(&in, &out, x, o->cos * r->x + o->sin * r->y, o->a);
    clip_slab(&in, &out, y, o->cos * r->y - o->sin * r->x, o->b);
    clip_slab(&in, &out, -o->z, r->z, o->c);
    return in <= out ? in : RANGE;
}

/* Finds both ends of a ray in an ellipsoid (`flat`: an upright cylinder). */
static bool hit_round(double *in, double *out, const object *o, const ray *r,
                      bool flat)
{
    double scale = flat ? 0 : o->a / o->c;
    double dz = r->z * scale, z = o->z * scale;
    double a = r->x * r->x + r->y * r->y + dz * dz;
    double b = r->x * o->x + r->y * o->y + dz * z;
    double c = o->x * o->x + o->y * o->y + z * z - o->a * o->a;
    double root = b * b - a * c;

    if (root < 0)
        return false;
    root = sqrt(root);
    *in = (b - root) / a;
    *out = (b + root) / a;
    return *in > 0;
}

static double hit_pole(const object *o, const ray *r)
{
    double in, out;
    if (!hit_round(&in, &out, o, r, true) || fabs(in * r->z - o->z) > o->c)
        return RANGE;
    return in;
}

/* Leaves stop most rays at some depth, and some rays pass. */
static double hit_crown(street *s, const object *o, const ray *r)
{
    double in, out;
    double depth = spc__random_unit(&s->random);
    bool through = spc__random_unit(&s->random) < 0.25;
    if (!hit_round(&in, &out, o, r, false) || through)
        return RANGE;
    return in + (out - in) * depth * depth * 0.7;
}

/* A front has windows, set back a little; glass often returns nothing. */
static double hit_house(street *s, const object *o, const ray *r)
{
    double t = hit_box(o, r);
    bool glass = spc__random_unit(&s->random) < 0.6;
    if (t >= RANGE)
        return RANGE;
    double u = (t * r->x - o->x) / 1.4, v = (t * r->z - o->z) / 1.5;
    double du = u - floor(u), dv = v - floor(v);
    if (du < 0.3 || du > 0.8 || dv < 0.35 || dv > 0.9)
        return t;
    return glass ? -1 : t + 0.15;
}

/* The road, the kerb and the pavement. */
static double hit_ground(const ray *r)
{
    if (r->z >= 0)
        return RANGE;
    double road = -HEIGHT / r->z;
    if (fabs(road * r->y) <= ROAD)
        return road;
    double pavement = (KERB - HEIGHT) / r->z;
    if (fabs(pavement * r->y) > ROAD)
        return pavement;
    return ROAD / fabs(r->y); /* the kerb's face */
}

static double hit_object(street *s, const object *o, const ray *r)
{
    switch (o->shape) {
    case BOX:
        return hit_box(o, r);
    case HOUSE:
        return hit_house(s, o, r);
    case POLE:
        return hit_pole(o, r);
    default:
        return hit_crown(s, o, r);
    }
}

/*
 * Returns the distance of the return. RANGE or more, or a negative number,
 * means no return.
 */
static double trace(street *s, const ray *r, const int *near, int near_count)
{
    double nearest = hit_ground(r);
    for (int i = 0; i < near_count; i++) {
        double t = hit_object(s, &s->objects[near[i]], r);
        if (t < nearest)
            nearest = t;
    }
    return nearest;
}

/* ---- the scan ------------------------------------------------------------ */

/* Finds the objects that the vertical plane of an azimuth can meet. */
static int find_near(int *near, const street *s, double cosine, double sine)
{
    int count = 0;
    for (int i = 0; i < s->count; i++) {
        const object *o = &s->objects[i];
        double along = o->x * cosine + o->y * sine;
        double across = o->y * cosine - o->x * sine;
        if (fabs(across) <= o->circle && along > -o->circle)
            near[count++] = i;
    }
    return count;
}

/* Returns the elevation of a beam in turns. */
static double elevation(int64_t beam, int64_t beams)
{
    double source = beams > 1 ? (double)(beam * 63) / (double)(beams - 1) : 31;
    double degrees = source < 32 ? 2 - source / 3 : -8.83 - (source - 32) * 0.5;
    return degrees / 360;
}

/* Adds the point that a beam returns, with noise; a few returns are lost, as in
 * a real scan. */
static spc_status add_return(spc__voxels *out, street *s, const ray *r,
                             double distance, spc_error *error)
{
    /* Draws both random numbers before any test, so that all beams take equally
     * many. */
    double noisy = distance + RANGE_NOISE * spc__scene_noise(&s->random);
    bool lost = spc__random_unit(&s->random) < 0.03;

    if (!(noisy > NEAREST) || distance >= RANGE || lost)
        return SPC_OK;
    double point[3] = {spc__scene_float(noisy * r->x),
                       spc__scene_float(noisy * r->y),
                       spc__scene_float(noisy * r->z)};
    spc__source_position source = {"gen:lidar", out->count, 0};
    return spc__voxels_add_point(out, 0, point, &source, error);
}

/* Scans one direction with all beams. Objects near it are found once for
 * all. */
static spc_status scan_azimuth(spc__voxels *out, street *s, int azimuth,
                               const spc__scene_values *values,
                               spc_error *error)
{
    int64_t beams = values->at[STREET_BEAMS];
    int near[MOST_OBJECTS];
    double ca, sa, ce, se;
    spc_status status = SPC_OK;

    spc__scene_sincos(&ca, &sa, (double)azimuth / AZIMUTHS);
    int near_count = find_near(near, s, ca, sa);
    for (int64_t beam = 0; beam < beams && status == SPC_OK; beam++) {
        spc__scene_sincos(&ce, &se, elevation(beam, beams));
        ray r = {ca * ce, sa * ce, se};
        double distance = trace(s, &r, near, near_count);
        status = add_return(out, s, &r, distance, error);
    }
    return status;
}

spc_status spc__scene_street(spc__voxels *out, const spc__scene_values *values,
                             spc_error *error)
{
    street *s = calloc(1, sizeof(*s));
    spc_status status;

    if (s == NULL)
        return spc__fail_memory(error, sizeof(*s));
    spc__random_init(&s->random, (uint64_t)values->at[STREET_SEED]);
    build(s);
    status =
        spc__voxels_reserve(out, values->at[STREET_BEAMS] * AZIMUTHS, error);
    for (int i = 0; i < AZIMUTHS && status == SPC_OK; i++)
        status = scan_azimuth(out, s, i, values, error);
    free(s);
    return status;
}
