/* SPDX-License-Identifier: Apache-2.0 */
/*
 * large.c - a scene of more than 2^17 rows, and of more than the largest bucket
 * of the given scenes, since a choice is served to any scene; and a solid block
 * of 16^3 voxels, whose inner rows see all offsets of most kernels.
 *
 * Inputs and residuals repeat every PATTERN rows, so that drawing them is
 * cheap. PATTERN is an odd prime: rows whose indices differ by a power of two
 * have different data, so a lost bit of an index shows. The oracle computes
 * some rows only: the first and the last, those at 2^12, 2^16 and 2^17, and
 * others evenly spread.
 */
#include "lab/gate/large.h"

#include "base/clock.h"
#include "base/dtype.h"
#include "base/error.h"
#include "base/random.h"
#include "coords/map.h"
#include "lab/oracle/exact.h"
#include "lab/oracle/relation.h"
#include "operators/epilogue.h"
#include "operators/operands.h"
#include "plan/plan.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { PATTERN = SPC__LARGE_PATTERN, LEAST_ROWS = 140000, MANY_ROWS = 4096 };
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

typedef struct maker {
    spc__large *to;
    int kind;
    spc__fixture *fixture;
    const spc_conv *conv;
    spc_scene *scene;
    spc__random random;
    float *in, *residual; /* [PATTERN] rows */
    float *weights;       /* of COUNT, in the oracle's layout */
    spc_error *error;
} maker;

/* ---- how large ----------------------------------------------------------- */

static int64_t given_rows(const spc__fixture *fixture)
{
    const spc__sample *sample = fixture->sample;
    int64_t most = 0;

    for (int s = 0; s < sample->given; s++)
        if (sample->scenes[s].voxels > most)
            most = sample->scenes[s].voxels;
    return most;
}

static bool has_room(const spc__fixture *fixture, int64_t rows)
{
    return rows <= most_entries / spc__conv_offsets(&fixture->sample->conv);
}

/* A row of many has few neighbours; a row of a block has all. */
static double products_of(const spc__fixture *fixture, int kind, int64_t rows)
{
    const spc_conv *conv = &fixture->sample->conv;
    double seen = spc__conv_offsets(conv);

    if (kind == SPC__LARGE_MANY)
        seen = fmin(seen, 4);
    return (double)rows * seen * spc__conv_group_in(conv) * conv->cout;
}

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
 * Half as many again as a given scene has, as a bucket is half an octave. A
 * processor without time for 2^17 rows gets four times the given rows.
 */
static int64_t many_rows(const spc__fixture *fixture)
{
    int64_t given = given_rows(fixture), rows = given + given / 2;
    bool is_gradient = fixture->sample->conv.pass == SPC_WGRAD;

    if (rows < LEAST_ROWS)
        rows = LEAST_ROWS;
    if (!fixture->ops->runs_on_host_cores || given >= MANY_ROWS ||
        (has_room(fixture, rows) && has_time(fixture, SPC__LARGE_MANY, rows)))
        return rows;
    if (is_gradient && 4 * given < GRADIENT_ROWS &&
        has_room(fixture, GRADIENT_ROWS) &&
        has_time(fixture, SPC__LARGE_MANY, GRADIENT_ROWS))
        return GRADIENT_ROWS;
    return 4 * given;
}

static int64_t wanted_rows(const spc__fixture *fixture, int kind)
{
    return kind == SPC__LARGE_BLOCK ? BLOCK_ROWS : many_rows(fixture);
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

static void place(int32_t at[4], const maker *m, int64_t edge, int64_t cell)
{
    const spc_geometry *g = &m->conv->geometry;
    int64_t apart = 1;

    if (g->rule == SPC_RULE_RADIUS) /* points half a radius apart */
        apart = (int64_t)fmin(fmax((double)g->radius * 512, 1), 1 << 20);
    for (int a = 2; a >= 0; a--) {
        int64_t wide = edge_of(m->conv, a, edge);
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
static int64_t cell_of_block(const maker *m, int64_t i)
{
    const int64_t low = 6, in = i / BLOCK_EDGE % BLOCK_EDGE;
    int64_t wide = edge_of(m->conv, 2, EXTENT);
    int64_t x = low + i / BLOCK_EDGE / BLOCK_EDGE, y = low + in;
    int64_t z = low + i % BLOCK_EDGE;

    return (x * edge_of(m->conv, 1, EXTENT) + y) * wide + z;
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
static spc_status draw_scene(maker *m, int64_t rows)
{
    int64_t edge = EXTENT, cells, count = 0;
    bool is_block = m->kind == SPC__LARGE_BLOCK;

    while (edge < MOST_EXTENT && cells_of(m->conv, edge) < 2 * rows)
        edge *= 2;
    cells = cells_of(m->conv, edge);
    if (rows > cells)
        rows = cells;
    int32_t(*coords)[4] = malloc((size_t)rows * sizeof(*coords));
    if (coords == NULL)
        return spc__fail_memory(m->error, (size_t)rows * sizeof(*coords));
    int bits = 1;
    while ((int64_t)1 << bits < cells)
        bits++;
    place(coords[count++], m, edge, 0);
    if (rows > 1)
        place(coords[count++], m, edge, cells - 1);
    for (uint64_t i = 0; count < rows; i++) {
        int64_t cell = is_block ? cell_of_block(m, (int64_t)i)
                                : (int64_t)shuffled(i, bits);
        if (cell > 0 && cell < cells - 1)
            place(coords[count++], m, edge, cell);
    }
    spc_status status =
        spc_scene_create(&m->scene, coords[0], rows,
                         is_block ? "a block" : "many rows", m->error);
    free(coords);
    return status;
}

static spc_status build_map(maker *m)
{
    spc__large *to = m->to;
    spc_ctx *ctx = m->fixture->ctx;

    to->rows_in = to->rows_out = spc_scene_rows(m->scene);
    if (spc_conv_is_linear(m->conv))
        return SPC_OK;
    spc_status status =
        spc_map_create_from_scene(&to->map, ctx, m->conv, m->scene);
    if (status == SPC_OK) {
        to->rows_in = spc_map_rows_in(to->map);
        to->rows_out = spc_map_rows_out(to->map);
    }
    return status;
}

/* ---- data ---------------------------------------------------------------- */

spc_status spc__large_upload(spc__guarded *to, spc__fixture *fixture,
                             spc_operand which, const float *pattern,
                             int64_t rows)
{
    const spc_conv *conv = &fixture->sample->conv;
    spc__operand all = spc__operand_of(conv, which, rows);
    spc__operand some = spc__operand_of(conv, which, PATTERN);
    size_t step =
        (size_t)(some.pitch * PATTERN) * spc__dtype_of(some.dtype)->bytes;
    char *encoded = malloc(step);

    if (encoded == NULL)
        return spc__fail_memory(spc__error_of(fixture->ctx), step);
    spc__encode_rows(encoded, &some, pattern);
    spc_status status = spc__guarded_lay(&fixture->guards, to, all.bytes, 0);
    for (size_t at = 0; at < all.bytes && status == SPC_OK; at += step)
        status =
            spc_memory_upload(to->data + at, fixture->ctx, encoded,
                              all.bytes - at < step ? all.bytes - at : step);
    free(encoded);
    return status;
}

static spc_status draw_patterns(maker *m)
{
    const spc_conv *conv = m->conv;
    bool adds = spc__operand_of(conv, SPC_OPERAND_RESIDUAL, 1).present;
    size_t in = (size_t)PATTERN * (size_t)conv->cin * sizeof(float);
    size_t out = (size_t)PATTERN * (size_t)conv->cout * sizeof(float);

    if ((m->in = malloc(in)) == NULL || (m->residual = malloc(out)) == NULL)
        return spc__fail_memory(m->error, in + out);
    spc__draw_in(m->in, conv, SPC__COUNT, PATTERN, &m->random);
    spc_status status = spc__large_upload(
        &m->to->in, m->fixture, SPC_OPERAND_IN, m->in, m->to->rows_in);
    if (!adds || status != SPC_OK)
        return status;
    spc__draw_residual(m->residual, conv, SPC__COUNT, PATTERN, &m->random);
    return spc__large_upload(&m->to->residual, m->fixture, SPC_OPERAND_RESIDUAL,
                             m->residual, m->to->rows_out);
}

/* ---- expected results ---------------------------------------------------- */

/* In ascending order, each once. */
static void choose_rows(maker *m)
{
    const int64_t edge = 65536, part = 4096, far = 131072;
    const int64_t few[] = {0,    1,        part - 1, part, part + 1, edge - 1,
                           edge, edge + 1, far - 1,  far,  far + 1};
    const int count = sizeof(few) / sizeof(few[0]);
    spc__large *to = m->to;
    int64_t rows = to->rows_out, last = -1, next = 0;
    int64_t step = rows / (SPC__LARGE_ROWS - 16) + 1;

    to->count = 0;
    for (int64_t i = 0; i < rows; i = next) {
        int64_t pick =
            i + (int64_t)spc__random_below(&m->random, (uint32_t)step);
        next = i + step;
        for (int f = 0; f < count; f++)
            if (few[f] >= i && few[f] < next && few[f] < rows &&
                few[f] != pick && few[f] > last)
                to->at[to->count++] = last = few[f];
        if (pick > last && pick < rows)
            to->at[to->count++] = last = pick;
    }
    if (rows > 0 && last < rows - 1)
        to->at[to->count++] = rows - 1;
}

/*
 * Weights of COUNT have the device's layout in the sample: those of a DGRAD are
 * mirrored, which mirroring their offsets undoes.
 */
static spc_status read_weights(maker *m)
{
    const spc_conv *conv = m->conv;
    spc__operand as = spc__operand_of(conv, SPC_OPERAND_WEIGHTS, 0);
    size_t n = (size_t)(as.rows * as.columns), bytes = n * sizeof(float);
    float *turned;

    if ((m->weights = malloc(3 * bytes)) == NULL)
        return spc__fail_memory(m->error, 3 * bytes);
    spc__dtype_of(conv->dtype)
        ->decode(m->weights, m->fixture->sample->weights[SPC__COUNT], n);
    if (conv->pass != SPC_DGRAD)
        return SPC_OK;
    float *places = m->weights + n;
    turned = places + n;
    for (size_t i = 0; i < n; i++)
        places[i] = (float)i;
    spc__layer_weights(turned, places, conv);
    for (size_t i = 0; i < n; i++)
        places[(size_t)turned[i]] = m->weights[i];
    memcpy(m->weights, places, bytes);
    return SPC_OK;
}

/* The residuals of the chosen rows, in their order; NULL without residuals. */
static float *chosen_residuals(const maker *m, float *to)
{
    size_t columns = (size_t)m->conv->cout;

    if (m->to->residual.data == NULL)
        return NULL;
    for (int64_t i = 0; i < m->to->count; i++)
        memcpy(to + (size_t)i * columns,
               m->residual + (size_t)(m->to->at[i] % PATTERN) * columns,
               columns * sizeof(float));
    return to;
}

static spc_status expect(maker *m, const spc_relation *relation, float *sums,
                         float *residual)
{
    const spc__sample *sample = m->fixture->sample;
    spc__large *to = m->to;
    spc__values values = {m->in,
                          m->weights,
                          sample->bias[SPC__COUNT],
                          sample->scale[SPC__COUNT],
                          residual,
                          sample->scales[SPC__COUNT]};
    spc__seen seen = spc__relation_seen(relation);
    spc__operand out = spc__operand_of(m->conv, SPC_OPERAND_OUT, to->count);
    spc_ctx *ctx = m->fixture->ctx;

    for (int64_t i = 0; i < seen.slots * to->count; i++)
        relation->index[i] %= PATTERN; /* -1 is kept */
    spc_status status = spc__oracle_exact(
        sums, m->conv, &seen, to->count, values.in, values.weights, values.bias,
        ctx->threads, ctx->cancel, m->error);
    if (status != SPC_OK)
        return status;
    spc__finish_exact(sums, to->slack, m->conv, to->count, &values,
                      ctx->threads);
    spc__encode_rows(to->exact, &out, sums);
    return SPC_OK;
}

static spc_status know_rows(maker *m)
{
    spc__large *to = m->to;
    spc_ctx *ctx = m->fixture->ctx;
    spc__operand out = spc__operand_of(m->conv, SPC_OPERAND_OUT, to->count);
    size_t results = (size_t)(to->count * m->conv->cout), extra = 16;
    spc__row_list only = {to->at, to->count};
    spc_relation relation = {0};
    float *sums = malloc((2 * results + extra) * sizeof(*sums));

    to->got = malloc(out.bytes + extra);
    to->exact = malloc(out.bytes + extra);
    if (!spc__epilogue_is_exact(m->conv))
        to->slack = malloc((results + extra) * sizeof(float));
    if (sums == NULL || to->got == NULL || to->exact == NULL ||
        (to->slack == NULL && !spc__epilogue_is_exact(m->conv))) {
        free(sums);
        return spc__fail_memory(m->error, results * sizeof(*sums));
    }
    spc_status status =
        spc__relation_init_rows(&relation, m->conv, m->scene, &only,
                                ctx->threads, ctx->cancel, m->error);
    if (status == SPC_OK)
        status =
            expect(m, &relation, sums, chosen_residuals(m, sums + results));
    spc__relation_release(&relation);
    free(sums);
    return status;
}

/* ---- all of it ----------------------------------------------------------- */

/*
 * The chosen rows are the only terms of a gradient, and the only known rows of
 * other results.
 */
static spc_status draw_and_know(maker *m)
{
    spc_status status;

    choose_rows(m);
    if (m->conv->pass == SPC_WGRAD)
        return spc__large_know_gradient(m->to, m->fixture, m->scene,
                                        &m->random);
    if ((status = draw_patterns(m)) == SPC_OK &&
        (status = read_weights(m)) == SPC_OK)
        status = know_rows(m);
    return status;
}

static spc_status make(maker *m, int64_t rows)
{
    spc__large *to = m->to;
    spc_status status = draw_scene(m, rows);

    if (status == SPC_OK)
        status = build_map(m);
    if (status == SPC_OK)
        status = draw_and_know(m);
    if (status == SPC_OK)
        status = spc__guarded_lay(
            &m->fixture->guards, &to->out,
            spc__operand_of(m->conv, SPC_OPERAND_OUT, to->rows_out).bytes, 0);
    to->is_there = status == SPC_OK && to->count > 0;
    spc_scene_free(m->scene);
    free(m->in);
    free(m->residual);
    free(m->weights);
    return status;
}

/* Frees everything that the scene uses. */
static void give_up(spc__large *large, const spc__fixture *fixture)
{
    spc__log_printf(&fixture->ctx->log, SPC_LOG_WARNING,
                    "a large scene is not looked at: %s",
                    spc__error_of(fixture->ctx)->text);
    spc__error_clear(spc__error_of(fixture->ctx));
    spc_map_free(large->map);
    large->map = NULL;
    spc__guarded_release(&fixture->guards, &large->in);
    spc__guarded_release(&fixture->guards, &large->residual);
    spc__guarded_release(&fixture->guards, &large->out);
    spc__guarded_release(&fixture->guards, &large->workspace);
    large->is_there = false;
}

/*
 * False for an inverse layer of nearest points: the oracle needs all outputs to
 * find each nearest one.
 */
static bool is_for(const spc__fixture *fixture)
{
    const spc_conv *conv = &fixture->sample->conv;
    spc__operand weights = spc__operand_of(conv, SPC_OPERAND_WEIGHTS, 0);
    bool places_are_exact = weights.rows * weights.columns < 1 << 24;

    if (spc__conv_has_triplets(conv) && spc__conv_is_inverse(conv) &&
        conv->geometry.nearest > 0)
        return false;
    return fixture->sample->weights[SPC__COUNT] != NULL &&
           (conv->pass != SPC_DGRAD || places_are_exact);
}

spc_status spc__fixture_large(spc__large **out, spc__fixture *fixture, int kind)
{
    spc__large *large = fixture->large[kind];
    maker m = {
        .kind = kind, .fixture = fixture, .conv = &fixture->sample->conv};
    int64_t rows = wanted_rows(fixture, kind);

    *out = large;
    if (large != NULL)
        return SPC_OK;
    m.error = spc__error_of(fixture->ctx);
    if ((m.to = large = fixture->large[kind] = calloc(1, sizeof(*large))) ==
        NULL)
        return spc__fail_memory(m.error, sizeof(*large));
    *out = large;
    if (!is_for(fixture) || (kind == SPC__LARGE_BLOCK && !fits_block(m.conv)))
        return SPC_OK;
    bool in_time = has_time(fixture, kind, rows);
    if (!in_time || !has_room(fixture, rows)) {
        spc__log_printf(&fixture->ctx->log, SPC_LOG_DEBUG,
                        "a scene of %lld rows is not looked at: that takes "
                        "too much %s",
                        (long long)rows, in_time ? "memory" : "time here");
        return SPC_OK;
    }
    spc__random_init(&m.random,
                     fixture->sample->seed ^ 0x6c61726765 ^ (uint64_t)kind);
    uint64_t start = spc__now_ns();
    spc_status status = make(&m, rows);
    if (status == SPC_OK)
        spc__log_printf(&fixture->ctx->log, SPC_LOG_DEBUG,
                        "a scene of %lld rows, of which %lld are compared, "
                        "made in %.3f s",
                        (long long)large->rows_out, (long long)large->count,
                        (double)(spc__now_ns() - start) * 1e-9);
    if (status == SPC_OK || status == SPC_EINTERRUPTED)
        return status;
    give_up(large, fixture);
    return SPC_OK;
}

void spc__large_free(spc__large *large, const spc__fixture *fixture)
{
    if (large == NULL)
        return;
    spc_map_free(large->map);
    spc__guarded_release(&fixture->guards, &large->in);
    spc__guarded_release(&fixture->guards, &large->residual);
    spc__guarded_release(&fixture->guards, &large->out);
    spc__guarded_release(&fixture->guards, &large->workspace);
    free(large->got);
    free(large->exact);
    free(large->slack);
    free(large);
}

/* ---- running ------------------------------------------------------------- */

static spc_status prepare(spc__large *large, const spc__fixture *fixture,
                          spc_plan *plan)
{
    spc_status status =
        large->map != NULL ? spc_map_prepare(large->map, plan, NULL) : SPC_OK;
    size_t bytes = large->map != NULL
                       ? spc_plan_workspace_bytes(plan, large->map)
                       : spc_plan_workspace_bytes_linear(plan, large->rows_out);

    return status == SPC_OK
               ? spc__guarded_lay(&fixture->guards, &large->workspace, bytes, 0)
               : status;
}

static spc_status fetch(const spc__large *large, const spc__fixture *fixture)
{
    spc__operand out = spc__operand_of(&fixture->sample->conv, SPC_OPERAND_OUT,
                                       large->rows_out);
    size_t element = spc__dtype_of(out.dtype)->bytes;
    size_t pitch = (size_t)out.pitch * element;
    spc_status status = SPC_OK;

    if (fixture->sample->conv.pass == SPC_WGRAD)
        return spc_memory_download(large->got, fixture->ctx, large->out.data,
                                   large->out.bytes);
    for (int64_t i = 0; i < large->count && status == SPC_OK; i++)
        status = spc_memory_download(
            (char *)large->got + (size_t)i * pitch, fixture->ctx,
            large->out.data + (size_t)large->at[i] * pitch,
            (size_t)out.columns * element);
    return status;
}

spc_status spc__large_run(spc__large *large, spc__fixture *fixture,
                          spc_plan *plan, const void *packed)
{
    spc_ctx *ctx = fixture->ctx;
    spc_buffers buffers = SPC_BUFFERS_INIT;
    spc_status status = prepare(large, fixture, plan);

    if (status == SPC_ENOMEM) {
        give_up(large, fixture);
        return SPC_OK;
    }
    spc__fixture_buffers(&buffers, fixture, 0, SPC__COUNT);
    buffers.in = large->in.data;
    buffers.out = large->out.data;
    buffers.residual = large->residual.data;
    buffers.workspace = large->workspace.data;
    buffers.weights = packed;
    if (status == SPC_OK)
        status =
            fixture->ops->fill(ctx->device, large->out.data, SPC__ZONE_BYTE,
                               large->out.bytes, NULL, spc__error_of(ctx));
    if (status == SPC_OK)
        status = large->map != NULL
                     ? spc_plan_execute(plan, large->map, &buffers, NULL)
                     : spc_plan_execute_linear(plan, large->rows_out, NULL,
                                               &buffers, NULL);
    if (status == SPC_OK)
        status = spc_ctx_synchronize(ctx);
    return status == SPC_OK ? fetch(large, fixture) : status;
}
