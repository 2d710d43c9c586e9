/*
 * net_verify.c - a network's run against the oracle, layer by layer.
 *
 * Sets and maps are found anew on the host, by hashing. Each layer is then
 * compared with the oracle's on what the layer itself read: so tolerances are
 * those of one layer, however deep the network is, and the layer that is wrong
 * is the one that is named. That the first layer reads the caller's features,
 * and every other what one before it wrote, makes it all of the network.
 */
#include "net_plan.h"

#include "conv.h"
#include "ctx.h"
#include "dtype.h"
#include "error.h"
#include "expect.h"
#include "feature.h"
#include "feature_oracle.h"
#include "relation.h"
#include "row_set.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct verifier {
    spc_net_plan *plan;
    const spc_net *net;
    const spc_net_buffers *buffers;
    spc_scene **sets;         /* by set: its voxels in the order of its rows */
    spc__relation *relations; /* by map; of those that were needed */
    float **tensors;          /* by tensor, as the device has it */
    spc_net_verdict *out;
    spc_error *error;
} verifier;

/* ---- sets ---------------------------------------------------------------- */

/* A layer that has this map, of one channel. */
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
    else
        out->op = inverse ? SPC_INVERSE : SPC_CONV;
}

static spc_status derive_set(verifier *v, int i)
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

/* What child j of a voxel becomes. */
static void child_of(int32_t out[4], const int32_t *voxel,
                     const spc_regrouping *how, int j)
{
    int place[3] = {j % how->split[0], j / how->split[0] % how->split[1],
                    j / how->split[0] / how->split[1]};

    out[0] = voxel[0];
    for (int a = 0; a < 3; a++)
        out[1 + a] = voxel[1 + a] * how->scale[a] + place[a];
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

static spc_status regroup_set(verifier *v, int i)
{
    const spc__net_set *set = &v->net->sets[i];
    int children = children_of(&set->how);
    int64_t slots = 0, count = 0;

    for (int s = 0; s < set->sources; s++)
        slots += spc_scene_rows(v->sets[set->from[s]]) * children;
    int32_t *rows = malloc(((size_t)slots + 1) * 4 * sizeof(*rows));
    if (rows == NULL)
        return spc__fail_memory(v->error, (size_t)slots * 16);
    for (int s = 0; s < set->sources; s++) {
        const spc_scene *from = v->sets[set->from[s]];
        for (int64_t slot = 0; slot < spc_scene_rows(from) * children; slot++)
            child_of(rows + 4 * count++,
                     spc_scene_coords(from) + 4 * (slot / children), &set->how,
                     (int)(slot % children));
    }
    if (may_merge(set))
        count = sort_unique(rows, count);
    spc_status status =
        spc_scene_create(&v->sets[i], rows, count, "regrouped", v->error);
    free(rows);
    return status;
}

/* The device's voxels must be these, in this order. */
static spc_status compare_set(verifier *v, int i)
{
    const spc_coords *set = v->plan->sets[i];
    int64_t rows = spc_scene_rows(v->sets[i]);
    size_t bytes = (size_t)rows * 16;
    const int32_t *data = spc_coords_data(set);
    spc_status status = SPC_OK;

    if (spc_coords_rows(set) != rows)
        return spc__fail(v->error, SPC_EWRONG,
                         "set %d has %lld voxels on the device, %lld are right",
                         i, (long long)spc_coords_rows(set), (long long)rows);
    if (data == NULL) /* the caller's rows, in their order */
        return SPC_OK;
    int32_t *got = malloc(bytes + 1);
    if (got == NULL)
        return spc__fail_memory(v->error, bytes);
    status = spc_copy_to_host(v->plan->ctx, got, data, bytes);
    if (status == SPC_OK && memcmp(got, spc_scene_coords(v->sets[i]), bytes))
        status = spc__fail(v->error, SPC_EWRONG,
                           "set %d has other voxels on the device than are "
                           "right, or in another order",
                           i);
    free(got);
    return status;
}

static spc_status find_sets(verifier *v, const spc_scene *scene)
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
        if (status == SPC_OK)
            status = compare_set(v, i);
    }
    return status;
}

/* ---- maps ---------------------------------------------------------------- */

/* The relation of a map, found when it is first needed. */
static spc_status relation_of(const spc__relation **out, verifier *v, int i)
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
    bool ends = spc__conv_ends_at_scene(&conv);
    return spc__relation_init_between(
        r, &conv, ends ? to : in,
        conv.geometry.rule == SPC_RULE_GIVEN ? (ends ? in : to) : NULL,
        ctx->threads, ctx->cancel, v->error);
}

/* ---- tensors ------------------------------------------------------------- */

static int64_t rows_of(const verifier *v, int tensor)
{
    const spc__net_tensor *t = &v->net->tensors[tensor];

    return t->dense ? spc_coords_batches(v->plan->sets[t->set])
                    : spc_scene_rows(v->sets[t->set]);
}

/* As floats, rows without gaps; the verifier's. */
static spc_status fetch(const float **out, verifier *v, int tensor)
{
    const spc__net_tensor *t = &v->net->tensors[tensor];
    const spc__net_place *place = &v->plan->places[tensor];
    size_t element = spc__net_element(t), columns = (size_t)t->elements;
    size_t pitch = place->piece >= 0 ? (size_t)place->pitch : columns;
    size_t rows = (size_t)rows_of(v, tensor);
    size_t bytes = rows > 0 ? ((rows - 1) * pitch + columns) * element : 0;
    spc_status status = SPC_OK;
    char *raw = NULL;

    if (v->tensors[tensor] == NULL) {
        v->tensors[tensor] = malloc((rows * columns + 1) * sizeof(float));
        raw = malloc(bytes + 1);
        if (v->tensors[tensor] == NULL || raw == NULL)
            status = spc__fail_memory(v->error, bytes);
        else
            status = spc_copy_to_host(
                v->plan->ctx, raw, spc__net_data(v->plan, v->buffers, tensor),
                bytes);
        for (size_t row = 0; row < rows && status == SPC_OK; row++)
            spc__dtype_of(t->dtype)->decode(v->tensors[tensor] + row * columns,
                                            raw + row * pitch * element,
                                            columns);
    }
    free(raw);
    *out = v->tensors[tensor];
    return status;
}

/* ---- layers -------------------------------------------------------------- */

static spc_status judge(verifier *v, const spc__net_work *work, double error,
                        int64_t row, int64_t column, double got,
                        double reference)
{
    const char *name = v->net->nodes[work->node].name;

    v->out->layers++;
    if (error > v->out->error || isnan(error)) {
        v->out->error = error;
        snprintf(v->out->worst, sizeof(v->out->worst), "%s", name);
    }
    if (error <= 1)
        return SPC_OK;
    return spc__fail(v->error, SPC_EWRONG,
                     "layer '%s': row %lld, channel %lld is %.9g, %.9g is "
                     "right (%.3g times the tolerance)",
                     name, (long long)row, (long long)column, got, reference,
                     error);
}

/* The worst element of a result. */
static spc_status compare(verifier *v, const spc__net_work *work,
                          const float *got, int64_t got_pitch,
                          const double *reference, const double *tolerance,
                          int64_t rows, int64_t columns)
{
    double worst = 0;
    int64_t at = 0;

    for (int64_t i = 0; i < rows * columns; i++) {
        double value = (double)got[i / columns * got_pitch + i % columns];
        double off = fabs(value - reference[i]);
        double error = off == 0 ? 0 : off / tolerance[i];
        if (!(error <= worst)) {
            worst = isnan(error) ? INFINITY : error;
            at = i;
        }
    }
    return judge(v, work, worst, at / columns, at % columns,
                 rows > 0 ? (double)got[at / columns * got_pitch + at % columns]
                          : 0,
                 rows > 0 ? reference[at] : 0);
}

/* Weights as they are stored. */
static spc_status stored_weights(float **out, const verifier *v,
                                 const spc__net_node *node)
{
    const spc__dtype *type = spc__dtype_of(node->conv.dtype);
    size_t count = (size_t)node->counts[0];
    void *stored = malloc(count * type->bytes);

    *out = malloc(count * sizeof(float));
    if (stored == NULL || *out == NULL) {
        free(stored);
        return spc__fail_memory(v->error, count * sizeof(float));
    }
    type->encode(stored, node->params[0], count);
    type->decode(*out, stored, count);
    free(stored);
    return SPC_OK;
}

/* What a work must compute, by the layers as they were added: not by what the
 * plan made of them. */
static void expected_conv(spc_conv *out, int *residual, const verifier *v,
                          const spc__net_work *work)
{
    const spc__net_node *node = &v->net->nodes[work->node];
    const spc__net_node *add = &v->net->nodes[v->net->tensors[work->out].node];
    const spc_feature *f = &add->feature;

    *out = node->conv;
    *residual = node->add;
    if (add == node)
        return;
    *residual = add->in[0] == node->out ? add->add : add->in[0];
    out->activation = f->activation;
    out->add = f->activation == SPC_ACT_NONE ? SPC_ADD_AFTER : SPC_ADD_BEFORE;
    if (f->activation == SPC_ACT_LEAKY || f->activation == SPC_ACT_ELU)
        out->slope = f->slope;
}

static spc_status compare_sums(verifier *v, const spc__net_work *work,
                               const spc_conv *conv,
                               const spc__relation *relation,
                               const spc__values *values, const float *got)
{
    spc_status status = SPC_OK;

    spc__seen seen = spc__relation_seen(relation);
    size_t count = (size_t)relation->rows_out * (size_t)conv->cout;
    double *reference = malloc((count + 1) * sizeof(*reference));
    float *tolerance = malloc((count + 1) * sizeof(*tolerance));
    double *wide = malloc((count + 1) * sizeof(*wide));
    if (reference == NULL || tolerance == NULL || wide == NULL)
        status = spc__fail_memory(v->error, count * sizeof(*reference));
    else
        status = spc__expect(reference, tolerance, conv, &seen,
                             relation->rows_out, values, v->plan->ctx->threads,
                             v->plan->ctx->cancel, v->error);
    for (size_t i = 0; i < count && status == SPC_OK; i++)
        wide[i] = (double)tolerance[i];
    if (status == SPC_OK)
        status = compare(v, work, got, conv->cout, reference, wide,
                         relation->rows_out, conv->cout);
    free(reference);
    free(tolerance);
    free(wide);
    return status;
}

/* A linear layer's relation is its own: that of the set's rows to themselves.
 */
static spc_status compare_conv(verifier *v, const spc__net_work *work,
                               const spc_conv *conv, const spc__values *values,
                               const float *got)
{
    const spc__relation *shared;
    spc__relation own = {0};
    spc_status status;

    if (work->map >= 0) {
        status = relation_of(&shared, v, work->map);
        return status == SPC_OK
                   ? compare_sums(v, work, conv, shared, values, got)
                   : status;
    }
    status = spc__relation_init(&own, conv, v->sets[work->set],
                                v->plan->ctx->threads, v->plan->ctx->cancel,
                                v->error);
    if (status == SPC_OK)
        status = compare_sums(v, work, conv, &own, values, got);
    spc__relation_release(&own);
    return status;
}

static spc_status verify_conv(verifier *v, const spc__net_work *work)
{
    const spc__net_node *node = &v->net->nodes[work->node];
    spc__values values = {.scale = node->params[1], .bias = node->params[2]};
    const float *got;
    float *weights = NULL;
    spc_conv conv;
    int residual;
    spc_status status = stored_weights(&weights, v, node);

    values.weights = weights;
    expected_conv(&conv, &residual, v, work);
    if (status == SPC_OK)
        status = fetch(&values.in, v, node->in[0]);
    if (status == SPC_OK && residual != SPC_NO_TENSOR)
        status = fetch(&values.residual, v, residual);
    if (status == SPC_OK && (status = fetch(&got, v, work->out)) == SPC_OK)
        status = compare_conv(v, work, &conv, &values, got);
    free(weights);
    return status;
}

static spc_status compare_feature(verifier *v, const spc__net_work *work,
                                  const spc__feature_case *of, const float *got)
{
    const spc_feature *f = &v->net->nodes[work->node].feature;
    int64_t columns = spc_feature_row_out(f);
    int64_t rows = spc_feature_rows_out(f, of->rows_out, of->batches);
    size_t count = (size_t)rows * (size_t)columns;
    double *reference = malloc((count + 1) * sizeof(*reference));
    double *tolerance = malloc((count + 1) * sizeof(*tolerance));
    spc_status status = SPC_OK;

    if (reference == NULL || tolerance == NULL) {
        status = spc__fail_memory(v->error, count * sizeof(*reference));
    } else {
        spc__feature_oracle(reference, tolerance, NULL, f, of);
        for (size_t i = 0; i < count; i++)
            tolerance[i] =
                spc__feature_tolerance(f, reference[i], tolerance[i]);
        status =
            compare(v, work, got, columns, reference, tolerance, rows, columns);
    }
    free(reference);
    free(tolerance);
    return status;
}

static spc_status verify_feature(verifier *v, const spc__net_work *work)
{
    const spc__net_node *node = &v->net->nodes[work->node];
    int set = v->net->tensors[node->in[0]].set;
    const spc__relation *relation = NULL;
    spc__feature_case of = {
        .rows_in = spc_scene_rows(v->sets[set]),
        .rows_out = spc_scene_rows(v->sets[work->set]),
        .batches = spc_coords_batches(v->plan->sets[work->set]),
        .scale = node->params[1],
        .shift = node->params[2],
        .coords = spc_scene_coords(v->sets[set]),
    };
    const float *got;
    spc_status status = fetch(&of.in, v, node->in[0]);

    if (status == SPC_OK && node->add != SPC_NO_TENSOR)
        status = fetch(&of.add, v, node->add);
    if (status == SPC_OK && spc__feature_takes_map(&node->feature) &&
        (status = relation_of(&relation, v, work->map)) == SPC_OK)
        of.map = relation->index;
    if (status == SPC_OK && (status = fetch(&got, v, work->out)) == SPC_OK)
        status = compare_feature(v, work, &of, got);
    return status;
}

/* The row of a voxel in a set that is sorted. */
static int64_t find_row(const spc_scene *set, const int32_t voxel[4])
{
    const int32_t *found =
        bsearch(voxel, spc_scene_coords(set), (size_t)spc_scene_rows(set),
                4 * sizeof(*voxel), spc__compare_rows);

    return (found - spc_scene_coords(set)) / 4;
}

/* Adds what a source gives to the rows of the set, and to their magnitudes. */
static void gather_source(double *sum, double *size, const verifier *v,
                          const spc__net_work *work, int s, const float *in,
                          int64_t *slot)
{
    const spc__net_node *node = &v->net->nodes[work->node];
    const spc__net_set *set = &v->net->sets[work->set];
    const spc_scene *from = v->sets[set->from[s]];
    int64_t channels = v->net->tensors[work->out].channels;
    int64_t columns = v->net->tensors[node->in[s]].channels;
    int children = children_of(&set->how);
    bool merges = may_merge(set);

    for (int64_t i = 0; i < spc_scene_rows(from) * children; i++, ++*slot) {
        int32_t child[4];
        int j = (int)(i % children);
        child_of(child, spc_scene_coords(from) + 4 * (i / children), &set->how,
                 j);
        int64_t row = merges ? find_row(v->sets[work->set], child) : *slot;
        const float *x =
            in + i / children * columns + (node->slices ? j * channels : 0);
        for (int64_t c = 0; c < channels; c++) {
            sum[row * channels + c] += (double)x[c];
            size[row * channels + c] += fabs((double)x[c]);
        }
    }
}

/* What became one voxel is added in fp32: n - 1 roundings, and one to the type
 * in memory. */
static void gather_tolerance(double *out, const double *sum, const double *size,
                             int64_t count, int most, const spc__dtype *type)
{
    for (int64_t i = 0; i < count; i++)
        out[i] = (most - 1) * 0x1p-24 * size[i] +
                 ldexp(fabs(sum[i]), -type->stored_bits) + type->least_half;
}

/* So many rows of a set's sources can be one of its own: all of them along an
 * axis that is dropped. */
static int most_merged(const spc__net_set *set, const verifier *v)
{
    int64_t rows = 0;

    for (int s = 0; s < set->sources; s++)
        rows += spc_scene_rows(v->sets[set->from[s]]);
    for (int a = 0; a < 3; a++)
        if (set->how.scale[a] == 0)
            return rows < 1024 ? (int)rows : 1024;
    return set->sources * children_of(&set->how);
}

static spc_status verify_gather(verifier *v, const spc__net_work *work)
{
    const spc__net_node *node = &v->net->nodes[work->node];
    const spc__net_set *set = &v->net->sets[work->set];
    const spc__net_tensor *t = &v->net->tensors[work->out];
    int64_t rows = rows_of(v, work->out), slot = 0;
    size_t count = (size_t)rows * (size_t)t->channels;
    double *sum = calloc(count + 1, sizeof(*sum));
    double *size = calloc(count + 1, sizeof(*size));
    double *tolerance = calloc(count + 1, sizeof(*tolerance));
    const float *in, *got;
    spc_status status = SPC_OK;

    if (sum == NULL || size == NULL || tolerance == NULL)
        status = spc__fail_memory(v->error, count * sizeof(*sum));
    for (int s = 0; s < node->ins && status == SPC_OK; s++)
        if ((status = fetch(&in, v, node->in[s])) == SPC_OK)
            gather_source(sum, size, v, work, s, in, &slot);
    if (status == SPC_OK && (status = fetch(&got, v, work->out)) == SPC_OK) {
        gather_tolerance(tolerance, sum, size, (int64_t)count,
                         most_merged(set, v), spc__dtype_of(t->dtype));
        status = compare(v, work, got, t->channels, sum, tolerance, rows,
                         t->channels);
    }
    free(sum);
    free(size);
    free(tolerance);
    return status;
}

/* Parts lie side by side in their order, each as it is by itself. */
static spc_status verify_part(verifier *v, const spc__net_node *node,
                              const float *whole, int part, int64_t channel)
{
    int64_t rows = rows_of(v, part), all = v->net->tensors[node->out].elements;
    size_t columns = (size_t)v->net->tensors[part].elements;
    const float *own;
    spc_status status = fetch(&own, v, part);

    for (int64_t row = 0; row < rows && status == SPC_OK; row++)
        if (memcmp(whole + row * all + channel, own + row * (int64_t)columns,
                   columns * sizeof(*own)) != 0)
            status = spc__fail(v->error, SPC_EWRONG,
                               "layer '%s': row %lld of what begins at channel "
                               "%lld is not that of its part",
                               node->name, (long long)row, (long long)channel);
    return status;
}

static spc_status verify_concat(verifier *v, const spc__net_node *node)
{
    const float *whole;
    int64_t channel = 0;
    spc_status status = fetch(&whole, v, node->out);

    for (int i = 0; i < node->ins && status == SPC_OK; i++) {
        status = verify_part(v, node, whole, node->in[i], channel);
        channel += v->net->tensors[node->in[i]].elements;
    }
    v->out->layers++;
    return status;
}

/* Those that no output needs have no place. */
static spc_status verify_concats(verifier *v)
{
    spc_status status = SPC_OK;

    for (int i = 0; i < v->net->node_count && status == SPC_OK; i++) {
        const spc__net_node *node = &v->net->nodes[i];
        if (node->kind == SPC__NODE_CONCAT &&
            v->plan->places[node->out].piece >= 0)
            status = verify_concat(v, node);
    }
    return status;
}

/* Of a part of a concatenation, which is compared with the part. */
static bool is_copy(const verifier *v, const spc__net_work *work)
{
    return v->net->nodes[work->node].kind == SPC__NODE_CONCAT;
}

static spc_status verify_layers(verifier *v)
{
    spc_status status = SPC_OK;

    for (int i = 0; i < v->plan->work_count && status == SPC_OK; i++) {
        const spc__net_work *work = &v->plan->works[i];
        if (work->kind == SPC_NET_CONV)
            status = verify_conv(v, work);
        else if (work->kind == SPC_NET_FEATURE && !is_copy(v, work))
            status = verify_feature(v, work);
        else if (work->kind == SPC_NET_GATHER)
            status = verify_gather(v, work);
    }
    return status == SPC_OK ? verify_concats(v) : status;
}

/* ---- entry --------------------------------------------------------------- */

static void release(verifier *v)
{
    for (int i = 0; v->sets != NULL && i < v->net->set_count; i++)
        spc_scene_free(v->sets[i]);
    for (int i = 0; v->relations != NULL && i < v->net->map_count; i++)
        spc__relation_release(&v->relations[i]);
    for (int i = 0; v->tensors != NULL && i < v->net->tensor_count; i++)
        free(v->tensors[i]);
    free(v->sets);
    free(v->relations);
    free(v->tensors);
}

spc_status spc_net_verify(spc_net_verdict *out, spc_net_plan *plan,
                          const spc_net_buffers *buffers,
                          const spc_scene *scene)
{
    spc_error *error = plan != NULL ? spc__error_of(plan->ctx) : NULL;
    spc_status status = spc__need(error, __func__, "out", out, "plan", plan,
                                  "buffers", buffers, "scene", scene, NULL);

    if (out != NULL)
        memset(out, 0, sizeof(*out));
    if (status != SPC_OK)
        return status;
    if (!plan->options.keep || !plan->checked)
        return spc__fail(error, SPC_ESTATE,
                         plan->checked ? "the network was planned without "
                                         "`keep`: its tensors are gone"
                                       : "nothing was run and checked");
    verifier v = {.plan = plan,
                  .net = plan->net,
                  .buffers = buffers,
                  .out = out,
                  .error = error};
    v.sets = calloc((size_t)v.net->set_count + 1, sizeof(*v.sets));
    v.relations = calloc((size_t)v.net->map_count + 1, sizeof(*v.relations));
    v.tensors = calloc((size_t)v.net->tensor_count + 1, sizeof(*v.tensors));
    if (v.sets == NULL || v.relations == NULL || v.tensors == NULL)
        status = spc__fail_memory(error, sizeof(verifier));
    if (status == SPC_OK && (status = find_sets(&v, scene)) == SPC_OK)
        status = verify_layers(&v);
    release(&v);
    return status;
}
