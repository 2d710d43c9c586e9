/* SPDX-License-Identifier: Apache-2.0 */
/*
 * points_oracle.c - the triplets of a layer of points. It tests every pair that
 * x does not exclude.
 *
 * Inputs are sorted along x. For each output it tests all inputs within a
 * little more than the radius along x. The rule is that of spc.h, operation by
 * operation; the build fuses none.
 */
#include "lab/oracle/points_oracle.h"

#include "base/cancel.h"
#include "base/error.h"
#include "base/parallel.h"
#include "lab/sample/dataset_full.h"
#include "operators/conv.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct point {
    float at[3];
    int batch;
    int row;
    int cell[3]; /* cell of the sampling grid, or of the search grid */
} point;

typedef struct cloud {
    point *at;
    int64_t count;
} cloud;

/* An input that an output sees. */
typedef struct seen {
    const point *from;
    float square;
    int k;
} seen;

typedef struct problem {
    const spc_geometry *g;
    bool inverse;
    const point *in; /* inputs sorted by batch and x */
    int64_t count;
    const point *to;
    spc__relation *out;
    int64_t *seen; /* number of inputs of each output */
    const volatile int *cancel;
    int failed; /* out of memory */
    /*
     * For inverse layers of nearest points: the last neighbour that counts for
     * each input.
     */
    seen *last;
    point *by_x;
} problem;

/* ---- clouds -------------------------------------------------------------- */

/* Makes the points of a scene, whose coordinates are in 1024ths. */
static spc_status make_cloud(cloud *out, const spc_scene *scene, float edge,
                             spc_error *error)
{
    const int32_t *coords = spc_scene_coords(scene);
    float inverse = 1 / edge;

    out->count = spc_scene_rows(scene);
    out->at = malloc((size_t)out->count * sizeof *out->at + 1);
    if (!out->at)
        return spc__fail_memory(error, (size_t)out->count * sizeof *out->at);
    for (int64_t row = 0; row < out->count; row++) {
        point *p = &out->at[row];
        *p = (point){.batch = coords[4 * row], .row = (int)row};
        for (int i = 0; i < 3; i++) {
            p->at[i] = (float)coords[4 * row + 1 + i] / 1024;
            p->cell[i] = (int)floorf(p->at[i] * inverse);
        }
    }
    return SPC_OK;
}

static int compare(int a, int b)
{
    return (a > b) - (a < b);
}

/* Orders by batch, cell and row. */
static int by_cell(const void *left, const void *right)
{
    const point *a = left, *b = right;
    int order = compare(a->batch, b->batch);

    for (int i = 0; i < 3 && order == 0; i++)
        order = compare(a->cell[i], b->cell[i]);
    return order ? order : compare(a->row, b->row);
}

static int by_x(const void *left, const void *right)
{
    const point *a = left, *b = right;
    int order = compare(a->batch, b->batch);

    if (order == 0)
        order = (a->at[0] > b->at[0]) - (a->at[0] < b->at[0]);
    return order ? order : compare(a->row, b->row);
}

/* Keeps the first row of each cell, and renumbers the rows. */
static void keep_first(cloud *c)
{
    int64_t kept = 0;

    qsort(c->at, (size_t)c->count, sizeof *c->at, by_cell);
    for (int64_t i = 0; i < c->count; i++) {
        const point *p = &c->at[i], *last = kept > 0 ? &c->at[kept - 1] : p;
        if (kept > 0 && p->batch == last->batch &&
            memcmp(p->cell, last->cell, sizeof p->cell) == 0)
            continue;
        c->at[kept++] = *p;
    }
    for (int64_t i = 0; i < kept; i++)
        c->at[i].row = (int)i;
    c->count = kept;
}

/* Sets the cells of the search, which order equal distances. */
static void set_cells(cloud *c, float radius)
{
    float inverse = 1 / radius;

    for (int64_t i = 0; i < c->count; i++)
        for (int axis = 0; axis < 3; axis++)
            c->at[i].cell[axis] = (int)floorf(c->at[i].at[axis] * inverse);
}

/* ---- one output ---------------------------------------------------------- */

/* The first input of the batch that is not below x. */
static int64_t find(const problem *p, int batch, double x)
{
    int64_t low = 0, high = p->count;

    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        const point *at = &p->in[middle];
        if (at->batch < batch || (at->batch == batch && (double)at->at[0] < x))
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static int cell_along(const spc_geometry *g, int axis, float d)
{
    float scale = (float)g->kernel[axis] / (2 * g->radius);
    float scaled = d * scale;
    float cell = floorf(scaled + (float)g->kernel[axis] / 2);

    return cell < 0                            ? 0
           : cell > (float)g->kernel[axis] - 1 ? g->kernel[axis] - 1
                                               : (int)cell;
}

/* Orders the nearest first, and equal distances by cells. */
static int by_distance(const void *left, const void *right)
{
    const seen *a = left, *b = right;
    int order = (a->square > b->square) - (a->square < b->square);

    return order ? order : by_cell(a->from, b->from);
}

/* True if `to` is among the nearest points of `from`. */
static bool counts_there(const problem *p, const point *to, const seen *s)
{
    const seen *last = &p->last[s->from->row];
    seen back = {to, s->square, 0};

    return last->from == NULL || by_distance(&back, last) <= 0;
}

/* Returns whether `to` sees `from`, and the distance. */
static bool sees(const problem *p, const point *to, const point *from, seen *s)
{
    const spc_geometry *g = p->g;
    float d[3], square[3];

    for (int i = 0; i < 3; i++) {
        d[i] = from->at[i] - to->at[i];
        square[i] = d[i] * d[i];
        if (p->inverse) /* here the found point is the layer's output */
            d[i] = to->at[i] - from->at[i];
    }
    float plane = square[0] + square[1];
    *s = (seen){from, plane + square[2], 0};
    if (!(s->square <= g->radius * g->radius))
        return false;
    for (int i = 0; i < 3; i++)
        s->k = s->k * g->kernel[i] + cell_along(g, i, d[i]);
    return !p->last || counts_there(p, to, s);
}

/* Writes the inputs of an output to `out` (NULL: only counts them). */
static int64_t look(const problem *p, const point *to, seen *out)
{
    double far = (double)p->g->radius * 1.001, x = (double)to->at[0];
    int64_t count = 0;
    seen s;

    for (int64_t i = find(p, to->batch, x - far);
         i < p->count && p->in[i].batch == to->batch &&
         (double)p->in[i].at[0] <= x + far;
         i++)
        if (sees(p, to, &p->in[i], &s)) {
            if (out)
                out[count] = s;
            count++;
        }
    return count;
}

static int64_t kept_of(const problem *p, int64_t count)
{
    bool all = p->g->nearest == 0 || p->inverse;

    return !all && count > p->g->nearest ? p->g->nearest : count;
}

static void count_row(void *payload, int64_t row)
{
    problem *p = payload;

    p->seen[row] = spc__cancelled(p->cancel) ? 0 : look(p, &p->to[row], NULL);
}

/* Fills the slots of one output with the inputs that it sees, or the nearest of
 * them. */
static void fill_row(void *payload, int64_t row)
{
    problem *p = payload;
    int64_t rows = p->out->rows_out, count = p->seen[row];
    seen *all = malloc((size_t)count * sizeof *all + 1);

    if (!all) {
        p->failed = 1;
        return;
    }
    if (!spc__cancelled(p->cancel)) {
        look(p, &p->to[row], all);
        if (p->g->nearest > 0 && !p->inverse)
            qsort(all, (size_t)count, sizeof *all, by_distance);
        for (int64_t s = 0; s < p->out->slots; s++) {
            bool some = s < kept_of(p, count);
            p->out->index[s * rows + row] = some ? all[s].from->row : -1;
            p->out->cells[s * rows + row] = some ? (uint16_t)all[s].k : 0;
        }
    }
    free(all);
}

/* ---- all outputs --------------------------------------------------------- */

static spc_status check_seen(int64_t most, spc_error *error)
{
    if (most <= SPC__POINTS_SEEN)
        return SPC_OK;
    return spc__fail(error, SPC_EINVAL,
                     "a point sees %lld others, and at most %d can be "
                     "verified: use a smaller radius",
                     (long long)most, SPC__POINTS_SEEN);
}

/* Every row has as many slots as the row with the most inputs. */
static spc_status alloc_slots(problem *p, spc_error *error)
{
    spc__relation *r = p->out;

    for (int64_t row = 0; row < r->rows_out; row++) {
        int64_t kept = kept_of(p, p->seen[row]);
        r->slots = kept > r->slots ? (int)kept : r->slots;
        r->pairs += kept;
    }
    size_t entries = (size_t)r->slots * (size_t)r->rows_out;
    r->index = malloc(entries * sizeof *r->index + 1);
    r->cells = malloc(entries * sizeof *r->cells + 1);
    if (!r->index || !r->cells)
        return spc__fail_memory(error, entries * 6);
    return check_seen(r->slots, error);
}

/* Runs two passes: the first counts, so that memory for the second can be
 * allocated. */
static spc_status relate(problem *p, int threads, spc_error *error)
{
    spc__relation *r = p->out;
    spc_status status;

    p->seen = calloc((size_t)r->rows_out + 1, sizeof *p->seen);
    if (!p->seen)
        return spc__fail_memory(error, (size_t)r->rows_out * sizeof *p->seen);
    spc__parallel_for(r->rows_out, threads, count_row, p);
    if ((status = alloc_slots(p, error)) == SPC_OK) {
        spc__parallel_for(r->rows_out, threads, fill_row, p);
        if (p->failed)
            status = spc__fail_memory(error, 1);
    }
    free(p->seen);
    return status == SPC_OK && spc__cancelled(p->cancel)
               ? spc__interrupted(error)
               : status;
}

/* ---- inverse of nearest points ------------------------------------------- */

/* Finds the farthest output that still keeps this input: the inverse of a limit
 * to the nearest must keep the very same pairs. */
static void find_last(void *payload, int64_t i)
{
    problem *p = payload;
    problem forth = {.g = p->g, .in = p->by_x, .count = p->out->rows_out};
    int64_t count = look(&forth, &p->in[i], NULL);
    seen *all = malloc((size_t)count * sizeof *all + 1);

    if (!all) {
        p->failed = 1;
        return;
    }
    look(&forth, &p->in[i], all);
    qsort(all, (size_t)count, sizeof *all, by_distance);
    if (count > p->g->nearest)
        p->last[p->in[i].row] = all[p->g->nearest - 1];
    free(all);
}

/* Runs find_last() for all inputs. */
static spc_status find_all_last(problem *p, const cloud *to, int threads,
                                spc_error *error)
{
    size_t bytes = (size_t)to->count * sizeof *p->by_x;
    seen *last = calloc((size_t)p->count + 1, sizeof *last);

    p->last = NULL; /* not used yet */
    p->by_x = malloc(bytes + 1);
    if (last && p->by_x) {
        memcpy(p->by_x, to->at, bytes);
        qsort(p->by_x, (size_t)to->count, sizeof *p->by_x, by_x);
        p->last = last;
        spc__parallel_for(p->count, threads, find_last, p);
    } else {
        free(last);
        p->failed = 1;
    }
    return p->failed ? spc__fail_memory(error, bytes) : SPC_OK;
}

/* Converts back to 1024ths, which is exact. */
static spc_status copy_coords(int32_t **out, const cloud *c, spc_error *error)
{
    size_t bytes = 16 * (size_t)c->count;

    if (!(*out = malloc(bytes + 1)))
        return spc__fail_memory(error, bytes);
    for (int64_t i = 0; i < c->count; i++) {
        const point *p = &c->at[i];
        (*out)[4 * i] = p->batch;
        for (int a = 0; a < 3; a++)
            (*out)[4 * i + 1 + a] = (int32_t)(p->at[a] * 1024);
    }
    return SPC_OK;
}

/* Sorts the inputs by x, so that each output looks at a slice only. */
static spc_status compute(problem *p, cloud *in, const cloud *to, int threads,
                          spc_error *error)
{
    spc__relation *r = p->out;
    spc_status status;

    r->rows_in = in->count;
    r->rows_out = to->count;
    r->offsets = spc_geometry_offset_count(p->g);
    if ((status = copy_coords(&r->coords_in, in, error)) != SPC_OK ||
        (status = copy_coords(&r->coords_out, to, error)) != SPC_OK)
        return status;
    qsort(in->at, (size_t)in->count, sizeof *in->at, by_x);
    p->in = in->at;
    p->count = in->count;
    p->to = to->at;
    if (!p->inverse || p->g->nearest == 0)
        return relate(p, threads, error);
    if ((status = find_all_last(p, to, threads, error)) == SPC_OK)
        status = relate(p, threads, error);
    free(p->last);
    free(p->by_x);
    return status;
}

/* Keeps the listed points of a cloud. */
static void keep_listed(cloud *c, const spc__row_list *only)
{
    for (int64_t i = 0; i < only->count; i++) {
        c->at[i] = c->at[only->at[i]];
        c->at[i].row = (int)i;
    }
    c->count = only->count;
}

/* Moves the wanted columns of a relation of all outputs to the front. */
static void keep_columns(spc__relation *r, const spc__row_list *only)
{
    int64_t to = 0;

    for (int s = 0; s < r->slots; s++)
        for (int64_t i = 0; i < only->count; i++, to++) {
            int64_t at = s * r->rows_out + only->at[i];
            r->index[to] = r->index[at];
            r->cells[to] = r->cells[at];
        }
    r->rows_out = only->count;
}

spc_status spc__points_relation(spc__relation *out, const spc_conv *conv,
                                const spc_scene *scene,
                                const spc__row_list *only, int threads,
                                const volatile int *cancel, spc_error *error)
{
    const spc_geometry *g = &conv->geometry;
    bool inverse = spc__conv_is_inverse(conv);
    problem p = {.g = g, .inverse = inverse, .out = out, .cancel = cancel};
    cloud all = {0}, some = {0};
    spc_status status = make_cloud(&all, scene, g->radius, error);

    if (status == SPC_OK)
        status = make_cloud(&some, scene, g->voxel > 0 ? g->voxel : g->radius,
                            error);
    if (status == SPC_OK && g->voxel > 0) {
        keep_first(&some);
        set_cells(&some, g->radius);
    }
    /* The nearest points of an inverse layer need all outputs. */
    bool early = only != NULL && !(inverse && g->nearest > 0);
    if (status == SPC_OK && early)
        keep_listed(inverse ? &all : &some, only);
    if (status == SPC_OK)
        status = compute(&p, inverse ? &some : &all, inverse ? &all : &some,
                         threads, error);
    if (status == SPC_OK && only != NULL && !early)
        keep_columns(out, only);
    free(all.at);
    free(some.at);
    return status;
}

spc_status spc__points_relation_between(spc__relation *out,
                                        const spc_conv *conv,
                                        const spc_scene *in,
                                        const spc_scene *to, int threads,
                                        const volatile int *cancel,
                                        spc_error *error)
{
    const spc_geometry *g = &conv->geometry;
    problem p = {.g = g,
                 .inverse = spc__conv_is_inverse(conv),
                 .out = out,
                 .cancel = cancel};
    cloud from = {0}, at = {0};
    spc_status status = make_cloud(&from, in, g->radius, error);

    memset(out, 0, sizeof *out);
    if (status == SPC_OK)
        status = make_cloud(&at, to, g->radius, error);
    if (status == SPC_OK)
        status = compute(&p, &from, &at, threads, error);
    if (status != SPC_OK)
        spc_relation_release(out);
    free(from.at);
    free(at.at);
    return status;
}
