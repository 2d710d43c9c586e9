/* SPDX-License-Identifier: Apache-2.0 */
/*
 * net_verify_sets.c - computes the sets and maps of a network's run on the
 * host, and verifies layers that only move or concatenate features.
 */
#include "lab/verify/net_verifier.h"

#include "base/dtype.h"
#include "base/error.h"
#include "base/plural.h"
#include "context/ctx.h"
#include "coords/points/points.h"
#include "lab/oracle/points_oracle.h"
#include "lab/oracle/row_set.h"
#include "operators/conv.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- sets ---------------------------------------------------------------- */

/* Makes a layer of one channel that has this map. */
static void layer_of(spc_conv *out, const spc_geometry *g, bool inverse)
{
    *out = (spc_conv)SPC_CONV_INIT;
    out->cin = out->cout = 1;
    out->geometry = *g;
    if (g->rule == SPC_RULE_SUBM)
        out->op = SPC_SUBM;
    else if (g->rule == SPC_RULE_GENERATIVE)
        out->op = SPC_GENERATIVE;
    else if (g->rule == SPC_RULE_GIVEN)
        out->op = inverse ? SPC_TRANSPOSED : SPC_CONV;
    else if (g->rule == SPC_RULE_RADIUS && !inverse)
        out->op = SPC_POINTS;
    else
        out->op = inverse ? SPC_INVERSE : SPC_CONV;
}

/* Derives a set of outputs with the oracle. */
static spc_status derive_set(spc__net_verifier *v, int i)
{
    const spc__net_set *set = &v->net->sets[i];
    spc__relation relation;
    spc_conv conv;
    spc_status status;

    layer_of(&conv, &set->rule, false);
    status = spc__relation_init(&relation, &conv, v->sets[set->from[0]],
                                v->plan->ctx->threads, v->plan->ctx->cancel,
                                v->error);
    if (status != SPC_OK)
        return status;
    status = spc_scene_create(&v->sets[i], relation.coords_out,
                              relation.rows_out, "outputs", v->error);
    spc__relation_release(&relation);
    return status;
}

/* Returns the voxel of child j. */
static void child_of(int32_t out[4], const int32_t *voxel,
                     const spc_regrouping *how, int j)
{
    int tap[3] = {j % how->split[0], j / how->split[0] % how->split[1],
                  j / how->split[0] / how->split[1]};

    out[0] = voxel[0];
    for (int a = 0; a < 3; a++)
        out[1 + a] = voxel[1 + a] * how->scale[a] + tap[a];
}

static int children_of(const spc_regrouping *how)
{
    return how->split[0] * how->split[1] * how->split[2];
}

static bool may_merge(const spc__net_set *set)
{
    bool apart = set->sources == 1;

    for (int a = 0; a < 3; a++)
        apart &= set->how.scale[a] >= set->how.split[a];
    return !apart;
}

/* Sorts rows and drops equal ones; returns the number left. */
static int64_t sort_unique(int32_t *rows, int64_t count)
{
    int64_t kept = 0;

    qsort(rows, (size_t)count, 4 * sizeof(*rows), spc__compare_rows);
    for (int64_t i = 0; i < count; i++)
        if (i == 0 ||
            spc__compare_rows(rows + 4 * i, rows + 4 * (kept - 1)) != 0)
            memmove(rows + 4 * kept++, rows + 4 * i, 4 * sizeof(*rows));
    return kept;
}

/* Fetches the numbers that select slots; NULL if all are kept. */
static spc_status fetch_mask(const float **out, spc__net_verifier *v,
                             const spc__net_set *set)
{
    *out = NULL;
    /* These are the device's numbers; the layer that makes them is verified
     * separately. */
    return set->masked ? spc__net_fetch(out, v, set->mask) : SPC_OK;
}

static bool stays(const spc__net_set *set, const float *mask, int64_t slot)
{
    return mask == NULL || mask[slot] > set->above;
}

/* Derives a set by moving voxels of others. */
static spc_status regroup_set(spc__net_verifier *v, int i)
{
    const spc__net_set *set = &v->net->sets[i];
    int children = children_of(&set->how);
    int64_t slots = 0, count = 0;
    const float *mask;
    spc_status status = fetch_mask(&mask, v, set);

    for (int s = 0; s < set->sources; s++)
        slots += spc_scene_rows(v->sets[set->from[s]]) * children;
    if (status != SPC_OK)
        return status;
    int32_t *rows = malloc(((size_t)slots + 1) * 4 * sizeof(*rows));
    if (rows == NULL)
        return spc__fail_memory(v->error, (size_t)slots * 16);
    for (int s = 0; s < set->sources; s++) {
        const spc_scene *from = v->sets[set->from[s]];
        for (int64_t slot = 0; slot < spc_scene_rows(from) * children; slot++)
            if (stays(set, mask, slot))
                child_of(rows + 4 * count++,
                         spc_scene_coords(from) + 4 * (slot / children),
                         &set->how, (int)(slot % children));
    }
    if (may_merge(set))
        count = sort_unique(rows, count);
    status = spc_scene_create(&v->sets[i], rows, count, "regrouped", v->error);
    free(rows);
    return status;
}

/* Makes a voxel at the origin of each batch element. */
static spc_status list_batches(spc__net_verifier *v, int i)
{
    size_t count = (size_t)spc_coords_batches(v->plan->sets[0]);
    int32_t *rows = calloc(count, 4 * sizeof(*rows));
    spc_status status;

    if (rows == NULL)
        return spc__fail_memory(v->error, count * 16);
    for (size_t b = 0; b < count; b++)
        rows[4 * b] = (int32_t)b;
    status = spc_scene_create(&v->sets[i], rows, (int64_t)count, "batches",
                              v->error);
    free(rows);
    return status;
}

/* Fetches the set's rows from the device; points are in units of 1/1024. */
static spc_status fetch_set(int32_t **out, const spc__net_verifier *v, int i)
{
    spc_coords *set = v->plan->sets[i];

    return v->net->sets[i].cloud
               ? spc__points_units(out, spc__points_of(set), v->error)
               : spc__coords_fetch(out, v->plan->ctx, spc_coords_data(set),
                                   spc_coords_rows(set), NULL, v->error);
}

/* The device's voxels must equal these, in this order. */
static spc_status compare_set(spc__net_verifier *v, int i)
{
    const spc_coords *set = v->plan->sets[i];
    int64_t rows = spc_scene_rows(v->sets[i]);
    size_t bytes = (size_t)rows * 16;
    int32_t *got = NULL;
    spc_status status = SPC_OK;

    if (spc_coords_rows(set) != rows)
        return spc__fail(
            v->error, SPC_EWRONG, "set %d has %s on the device, expected %lld",
            i, spc__count(spc_coords_rows(set), "row"), (long long)rows);
    if (!v->net->sets[i].cloud && spc_coords_data(set) == NULL)
        return SPC_OK; /* the caller's rows keep their order */
    status = fetch_set(&got, v, i);
    if (status == SPC_OK && rows > 0 &&
        memcmp(got, spc_scene_coords(v->sets[i]), bytes) != 0)
        status = spc__fail(
            v->error, SPC_EWRONG,
            "set %d has wrong rows on the device, or in another order", i);
    free(got);
    return status;
}

spc_status spc__net_verify_sets(spc__net_verifier *v, const spc_scene *scene)
{
    spc_status status =
        spc_scene_create(&v->sets[0], spc_scene_coords(scene),
                         spc_scene_rows(scene), "input", v->error);

    for (int i = 0; i < v->net->set_count && status == SPC_OK; i++) {
        if (v->plan->sets[i] == NULL)
            continue;
        if (v->net->sets[i].kind == SPC__NET_OUTPUTS)
            status = derive_set(v, i);
        else if (v->net->sets[i].kind == SPC__NET_REGROUPED)
            status = regroup_set(v, i);
        else if (v->net->sets[i].kind == SPC__NET_BATCHES)
            status = list_batches(v, i);
        if (status == SPC_OK)
            status = compare_set(v, i);
    }
    return status;
}

/* ---- maps ---------------------------------------------------------------- */

/* Returns the relation of a map, which its first use computes. */
spc_status spc__net_relation_of(const spc__relation **out, spc__net_verifier *v,
                                int i)
{
    const spc__net_map *map = &v->net->maps[i];
    spc__relation *r = &v->relations[i];
    const spc_scene *in = v->sets[map->in], *to = v->sets[map->to];
    spc_ctx *ctx = v->plan->ctx;
    spc_conv conv;

    *out = r;
    if (r->index != NULL)
        return SPC_OK;
    layer_of(&conv, &map->geometry, map->inverse);
    if (conv.geometry.rule == SPC_RULE_RADIUS)
        return spc__points_relation_between(r, &conv, in, to, ctx->threads,
                                            ctx->cancel, v->error);
    bool ends = spc__conv_ends_at_scene(&conv);
    return spc__relation_init_between(
        r, &conv, ends ? to : in,
        conv.geometry.rule == SPC_RULE_GIVEN ? (ends ? in : to) : NULL,
        ctx->threads, ctx->cancel, v->error);
}

/* ---- features that move ------------------------------------------------ */

/* Returns the row of a voxel in a sorted set. */
static int64_t find_row(const spc_scene *set, const int32_t voxel[4])
{
    const int32_t *found =
        bsearch(voxel, spc_scene_coords(set), (size_t)spc_scene_rows(set),
                4 * sizeof(*voxel), spc__compare_rows);

    return (found - spc_scene_coords(set)) / 4;
}

/* The expected rows of a set: sums, and sums of magnitudes. */
typedef struct gathered {
    double *sum, *size;
    const float *mask; /* NULL: all slots are kept */
    int64_t next;      /* row of the next kept slot, if none merge */
} gathered;

static void add_slot(gathered *out, int64_t row, const float *x,
                     int64_t channels)
{
    for (int64_t c = 0; c < channels; c++) {
        out->sum[row * channels + c] += (double)x[c];
        out->size[row * channels + c] += fabs((double)x[c]);
    }
}

/* Adds the rows of a source to those of the set. */
static void gather_source(gathered *out, const spc__net_verifier *v,
                          const spc__net_work *work, int s, const float *in)
{
    const spc__net_node *node = &v->net->nodes[work->node];
    const spc__net_set *set = &v->net->sets[work->set];
    const spc_scene *from = v->sets[set->from[s]];
    int64_t channels = v->net->tensors[work->out].channels;
    int64_t columns = v->net->tensors[node->in[s]].channels;
    int children = children_of(&set->how);
    bool merges = may_merge(set);

    for (int64_t i = 0; i < spc_scene_rows(from) * children; i++) {
        int32_t child[4];
        int j = (int)(i % children);
        if (!stays(set, out->mask, i))
            continue;
        child_of(child, spc_scene_coords(from) + 4 * (i / children), &set->how,
                 j);
        add_slot(
            out, merges ? find_row(v->sets[work->set], child) : out->next++,
            in + i / children * columns + (node->slices ? j * channels : 0),
            channels);
    }
}

/*
 * Merged voxels are added in fp32: n - 1 roundings, and one to the stored type.
 */
static void gather_tolerance(double *out, const double *sum, const double *size,
                             int64_t count, int most, const spc__dtype *type)
{
    for (int64_t i = 0; i < count; i++)
        out[i] = (most - 1) * 0x1p-24 * size[i] +
                 ldexp(fabs(sum[i]), -type->stored_bits) + type->least_half;
}

/*
 * Returns the most source rows that can merge into one row: all along a dropped
 * axis.
 */
static int most_merged(const spc__net_set *set, const spc__net_verifier *v)
{
    int64_t rows = 0;

    for (int s = 0; s < set->sources; s++)
        rows += spc_scene_rows(v->sets[set->from[s]]);
    for (int a = 0; a < 3; a++)
        if (set->how.scale[a] == 0)
            return rows < 1024 ? (int)rows : 1024;
    return set->sources * children_of(&set->how);
}

spc_status spc__net_verify_gather(spc__net_verifier *v,
                                  const spc__net_work *work)
{
    const spc__net_node *node = &v->net->nodes[work->node];
    const spc__net_set *set = &v->net->sets[work->set];
    const spc__net_tensor *t = &v->net->tensors[work->out];
    int64_t rows = spc__net_rows_of(v, work->out);
    size_t count = (size_t)rows * (size_t)t->channels;
    double *sum = calloc(count + 1, sizeof(*sum));
    double *size = calloc(count + 1, sizeof(*size));
    gathered all = {.sum = sum, .size = size};
    double *tolerance = calloc(count + 1, sizeof(*tolerance));
    spc__expected expected = {.reference = sum, .wide_tolerance = tolerance};
    spc__operand of =
        spc__matrix_of(SPC_F32, rows, t->channels, t->channels);
    const float *in, *got;
    spc_status status = SPC_OK;

    if (sum == NULL || size == NULL || tolerance == NULL)
        status = spc__fail_memory(v->error, count * sizeof(*sum));
    else
        status = fetch_mask(&all.mask, v, set);
    for (int s = 0; s < node->ins && status == SPC_OK; s++)
        if ((status = spc__net_fetch(&in, v, node->in[s])) == SPC_OK)
            gather_source(&all, v, work, s, in);
    if (status == SPC_OK &&
        (status = spc__net_fetch(&got, v, work->out)) == SPC_OK) {
        gather_tolerance(tolerance, sum, size, (int64_t)count,
                         most_merged(set, v), spc__dtype_of(t->dtype));
        status = spc__net_compare(v, work, got, &of, &expected);
    }
    free(sum);
    free(size);
    free(tolerance);
    return status;
}

/* Parts are side by side in order, each unchanged. */
static spc_status verify_part(spc__net_verifier *v, const spc__net_node *node,
                              const float *whole, int part, int64_t channel)
{
    int64_t rows = spc__net_rows_of(v, part),
            all = v->net->tensors[node->out].elements;
    size_t columns = (size_t)v->net->tensors[part].elements;
    const float *own;
    spc_status status = spc__net_fetch(&own, v, part);

    /* Compares bytes, as a copy keeps NaN too. */
    for (int64_t row = 0; row < rows && status == SPC_OK; row++)
        if (memcmp(whole + row * all + channel, own + row * (int64_t)columns,
                   columns * sizeof(*own)) != 0)
            status = spc__fail(v->error, SPC_EWRONG,
                               "layer '%s': row %lld of what begins at channel "
                               "%lld is not that of its part",
                               node->name, (long long)row, (long long)channel);
    return status;
}

spc_status spc__net_verify_concat(spc__net_verifier *v,
                                  const spc__net_node *node)
{
    const float *whole;
    int64_t channel = 0;
    spc_status status = spc__net_fetch(&whole, v, node->out);

    for (int i = 0; i < node->ins && status == SPC_OK; i++) {
        status = verify_part(v, node, whole, node->in[i], channel);
        channel += v->net->tensors[node->in[i]].elements;
    }
    v->out->layers++;
    return status;
}
