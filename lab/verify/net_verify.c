/* SPDX-License-Identifier: Apache-2.0 */
/*
 * net_verify.c - verifies a network's run against the oracle, layer by layer.
 *
 * Sets and maps are computed again on the host, by hashing. Each layer is then
 * compared with the oracle's result on the layer's own inputs from the device.
 * So the tolerance is that of one layer, however deep the network is, and the
 * error names the faulty layer. The first layer reads the caller's features,
 * and every other one what a verified layer wrote, so the whole network is
 * covered.
 */
#include "lab/verify/net_verifier.h"

#include "base/dtype.h"
#include "base/error.h"
#include "base/sized.h"
#include "context/ctx.h"
#include "lab/oracle/feature_oracle.h"
#include "lab/sample/expect.h"
#include "operators/conv.h"
#include "operators/feature.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- tensors ------------------------------------------------------------- */

int64_t spc__net_rows_of(const spc__net_verifier *v, int tensor)
{
    const spc__net_tensor *t = &v->net->tensors[tensor];

    return t->dense ? spc_coords_batches(v->plan->sets[t->set])
                    : spc_scene_rows(v->sets[t->set]);
}

/* Returns the tensor as floats, rows without gaps; the verifier owns them. */
spc_status spc__net_fetch(const float **out, spc__net_verifier *v, int tensor)
{
    const spc__net_tensor *t = &v->net->tensors[tensor];
    const spc__net_position *position = &v->plan->positions[tensor];
    size_t element = spc__net_element(t), columns = (size_t)t->elements;
    size_t pitch = position->piece >= 0 ? (size_t)position->pitch : columns;
    size_t rows = (size_t)spc__net_rows_of(v, tensor);
    size_t bytes = rows > 0 ? ((rows - 1) * pitch + columns) * element : 0;
    spc_status status = SPC_OK;
    char *raw = NULL;

    /* Several layers may read a tensor; it is fetched once. */
    if (v->tensors[tensor] == NULL) {
        v->tensors[tensor] = malloc((rows * columns + 1) * sizeof(float));
        raw = malloc(bytes + 1);
        if (v->tensors[tensor] == NULL || raw == NULL)
            status = spc__fail_memory(v->error, bytes);
        else
            status = spc_memory_download(
                raw, v->plan->ctx, spc__net_data(v->plan, v->buffers, tensor),
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

static bool is_activated(const spc__net_verifier *v, const spc__net_work *work)
{
    const spc__net_node *node = &v->net->nodes[work->node];
    const spc__net_node *last = &v->net->nodes[v->net->tensors[work->out].node];

    return node->conv.activation != SPC_ACT_NONE ||
           node->feature.activation != SPC_ACT_NONE ||
           last->feature.activation != SPC_ACT_NONE;
}

spc_status spc__net_compare(spc__net_verifier *v, const spc__net_work *work,
                            const float *got, const spc__operand *of,
                            const spc__expected *expected)
{
    const char *name = v->net->nodes[work->node].name;
    char text[SPC__WORST_TEXT];
    spc__expected e = *expected;

    /* After an activation an odd value may be any number, as max(NaN, 0) may be
     * 0. */
    e.odd = is_activated(v, work) ? SPC__ODD_ANYTHING : SPC__ODD_NOT_FINITE;
    spc__worst worst = spc__judge(got, of, &e);
    v->out->layers++;
    if (worst.error > v->out->error) {
        v->out->error = worst.error;
        snprintf(v->out->worst, sizeof(v->out->worst), "%s", name);
    }
    if (worst.error <= 1)
        return SPC_OK;
    return spc__fail(v->error, SPC_EWRONG,
                     "layer '%s': %s (%.3g times the tolerance)", name,
                     spc__worst_text(text, &worst), worst.error);
}

/* Returns the weights as stored, and their scale. */
static spc_status stored_params(float **weights, float **scale,
                                const spc__net_verifier *v,
                                const spc__net_node *node)
{
    const spc__dtype *type = spc__dtype_of(node->conv.dtype);
    size_t count = (size_t)node->counts[0];
    void *stored = malloc(count * type->bytes);
    spc_status status = spc__net_stored_params(weights, scale, node, v->error);

    if (status == SPC_OK && stored == NULL)
        status = spc__fail_memory(v->error, count * sizeof(float));
    if (status == SPC_OK) {
        /* The device has rounded the weights to the layer's type. The oracle
         * must round too, or the rounding would look like an error of the
         * kernel. */
        type->encode(stored, *weights, count);
        type->decode(*weights, stored, count);
    }
    free(stored);
    return status;
}

/* The scales of a step's tensors of whole numbers. */
static spc_scales scales_of(const spc__net_verifier *v,
                            const spc__net_work *work, int residual)
{
    const spc__net_tensor *tensors = v->net->tensors;

    return (spc_scales){
        .in = tensors[work->in].scale,
        .out = tensors[work->out].scale,
        .residual = residual != SPC_NO_TENSOR ? tensors[residual].scale : 0,
    };
}

/*
 * Returns the convolution of a unit of work, derived from the layers as they
 * were added and not from the plan's choices.
 */
static void expected_conv(spc_conv *out, int *residual,
                          const spc__net_verifier *v, const spc__net_work *work)
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

/* Compares a convolution with the oracle's sums of the step's own inputs, so
 * that errors of earlier steps do not add up. */
static spc_status compare_sums(spc__net_verifier *v, const spc__net_work *work,
                               const spc_conv *conv,
                               const spc__relation *relation,
                               const spc__values *values, const float *got)
{
    spc_status status = SPC_OK;

    spc__seen seen = spc__relation_seen(relation);
    size_t count = (size_t)relation->rows_out * (size_t)conv->cout;
    double *reference = malloc((count + 1) * sizeof(*reference));
    float *tolerance = malloc((count + 1) * sizeof(*tolerance));
    spc__expected expected = {.reference = reference, .tolerance = tolerance};
    spc__operand of = spc__matrix_of(SPC_F32, relation->rows_out, conv->cout,
                                     conv->cout);
    if (reference == NULL || tolerance == NULL)
        status = spc__fail_memory(v->error, count * sizeof(*reference));
    else
        status = spc__expect(reference, tolerance, conv, &seen,
                             relation->rows_out, values, v->plan->ctx->threads,
                             v->plan->ctx->cancel, v->error);
    if (status == SPC_OK)
        status = spc__net_compare(v, work, got, &of, &expected);
    free(reference);
    free(tolerance);
    return status;
}

/* Each row sees itself. */
static spc_status relate_rows(spc__relation *out, int64_t rows,
                              spc_error *error)
{
    *out = (spc__relation){.rows_in = rows,
                           .rows_out = rows,
                           .pairs = rows,
                           .offsets = 1,
                           .slots = 1};
    out->index = malloc((size_t)rows * sizeof(*out->index) + 1);
    if (out->index == NULL)
        return spc__fail_memory(error, (size_t)rows * sizeof(*out->index));
    for (int64_t row = 0; row < rows; row++)
        out->index[row] = (int32_t)row;
    return SPC_OK;
}

/*
 * Makes the relation of a linear layer: each row of the set to itself. Some
 * points of a set may be equal.
 */
static spc_status compare_conv(spc__net_verifier *v, const spc__net_work *work,
                               const spc_conv *conv, const spc__values *values,
                               const float *got)
{
    const spc__relation *shared;
    spc__relation own = {0};
    spc_status status;

    if (work->map >= 0) {
        status = spc__net_relation_of(&shared, v, work->map);
        return status == SPC_OK
                   ? compare_sums(v, work, conv, shared, values, got)
                   : status;
    }
    status = relate_rows(&own, spc_scene_rows(v->sets[work->set]), v->error);
    if (status == SPC_OK)
        status = compare_sums(v, work, conv, &own, values, got);
    spc__relation_release(&own);
    return status;
}

/* Verifies one convolution, with the weights as the network stores them. */
static spc_status verify_conv(spc__net_verifier *v, const spc__net_work *work)
{
    const spc__net_node *node = &v->net->nodes[work->node];
    spc__values values = {.bias = node->params[2]};
    const float *got;
    float *weights = NULL, *scale = NULL;
    spc_conv conv;
    int residual;
    spc_status status = stored_params(&weights, &scale, v, node);

    values.weights = weights;
    values.scale = node->counts[1] > 0 ? scale : NULL;
    expected_conv(&conv, &residual, v, work);
    values.scales = scales_of(v, work, residual);
    if (status == SPC_OK)
        status = spc__net_fetch(&values.in, v, node->in[0]);
    if (status == SPC_OK && residual != SPC_NO_TENSOR)
        status = spc__net_fetch(&values.residual, v, residual);
    if (status == SPC_OK &&
        (status = spc__net_fetch(&got, v, work->out)) == SPC_OK)
        status = compare_conv(v, work, &conv, &values, got);
    free(weights);
    free(scale);
    return status;
}

/* Verifies each layer of a fused work. */
static spc_status verify_convs(spc__net_verifier *v, const spc__net_work *work)
{
    const int *next = v->plan->siblings;
    spc_status status = verify_conv(v, work);

    for (int i = next[work->node]; i >= 0 && status == SPC_OK; i = next[i]) {
        spc__net_work one = *work;
        one.node = i;
        one.out = v->net->nodes[i].out;
        status = verify_conv(v, &one);
    }
    return status;
}

/* Fetches a tensor of indices, whose type is given by its width. */
static spc_status fetch_index(int32_t **out, spc__net_verifier *v, int tensor,
                              int64_t rows)
{
    const float *stored;
    size_t bytes = (size_t)(rows * v->net->tensors[tensor].elements) * 4;
    spc_status status = spc__net_fetch(&stored, v, tensor);

    if ((*out = malloc(bytes + 4)) == NULL)
        return spc__fail_memory(v->error, bytes);
    if (status == SPC_OK)
        memcpy(*out, stored, bytes);
    return status;
}

/* A pooling stores the rows that it chose. */
static spc_status compare_index(spc__net_verifier *v, const spc__net_work *work,
                                const int32_t *index, int64_t rows)
{
    const spc__net_node *node = &v->net->nodes[work->node];
    int64_t count = rows * node->feature.channels;
    int32_t *got = NULL;
    spc_status status = fetch_index(&got, v, work->index, rows);

    for (int64_t i = 0; i < count && status == SPC_OK; i++)
        if (got[i] != index[i])
            status =
                spc__fail(v->error, SPC_EWRONG,
                          "layer '%s': its index %lld is %d and must be "
                          "%d",
                          node->name, (long long)i, (int)got[i], (int)index[i]);
    free(got);
    return status;
}

/* Compares an operator's result, and the index that it stores. */
static spc_status compare_feature(spc__net_verifier *v,
                                  const spc__net_work *work,
                                  const spc__feature_case *of, const float *got)
{
    const spc_feature *f = &v->net->nodes[work->node].feature;
    int64_t columns = spc_feature_elements_out(f);
    int64_t rows = spc_feature_rows_out(f, of->rows_out, of->batches);
    size_t count = (size_t)rows * (size_t)columns;
    double *reference = malloc((count + 1) * sizeof(*reference));
    double *tolerance = malloc((count + 1) * sizeof(*tolerance));
    int32_t *index = malloc((count + 1) * sizeof(*index));
    spc__expected expected = {.reference = reference,
                              .wide_tolerance = tolerance};
    spc__operand of_out = spc__matrix_of(SPC_F32, rows, columns, columns);
    bool stores = spc__feature_stores_index(f);
    spc_status status = SPC_OK;

    if (reference == NULL || tolerance == NULL || index == NULL) {
        status = spc__fail_memory(v->error, count * sizeof(*reference));
    } else {
        status = spc__feature_oracle(reference, tolerance,
                                     stores ? index : NULL, f, of);
        if (status == SPC_OK && stores)
            status = compare_index(v, work, index, rows);
        for (size_t i = 0; i < count && status == SPC_OK; i++)
            tolerance[i] =
                spc__feature_tolerance(f, reference[i], tolerance[i]);
        if (status == SPC_OK)
            status = spc__net_compare(v, work, got, &of_out, &expected);
    }
    free(reference);
    free(tolerance);
    free(index);
    return status;
}

/* Verifies an operator on features. */
static spc_status verify_feature(spc__net_verifier *v,
                                 const spc__net_work *work)
{
    const spc__net_node *node = &v->net->nodes[work->node];
    int set = v->net->tensors[node->in[0]].set;
    const spc__relation *relation = NULL;
    spc__feature_case of = {
        .rows_in = spc__net_rows_of(v, node->in[0]),
        .rows_out = spc_scene_rows(v->sets[work->set]),
        .batches = spc_coords_batches(v->plan->sets[work->set]),
        .scale = node->params[1],
        .shift = node->params[2],
        .coords = spc_scene_coords(v->sets[set]),
    };
    const float *got;
    int32_t *index = NULL;
    spc_status status = spc__net_fetch(&of.in, v, node->in[0]);

    if (status == SPC_OK && spc__feature_adds(&node->feature))
        status = spc__net_fetch(&of.add, v, node->add);
    if (status == SPC_OK && spc__feature_reads_index(&node->feature))
        status = fetch_index(&index, v, work->index, of.rows_in);
    of.index = index;
    if (status == SPC_OK && spc__feature_takes_map(&node->feature) &&
        (status = spc__net_relation_of(&relation, v, work->map)) == SPC_OK)
        of.map = relation->index;
    if (status == SPC_OK &&
        (status = spc__net_fetch(&got, v, work->out)) == SPC_OK)
        status = compare_feature(v, work, &of, got);
    free(index);
    return status;
}

/* Concatenations that no output needs have no memory. */
static spc_status verify_concats(spc__net_verifier *v)
{
    spc_status status = SPC_OK;

    for (int i = 0; i < v->net->node_count && status == SPC_OK; i++) {
        const spc__net_node *node = &v->net->nodes[i];
        if (node->kind == SPC__NODE_CONCAT &&
            v->plan->positions[node->out].piece >= 0)
            status = spc__net_verify_concat(v, node);
    }
    return status;
}

/* True for a part of a concatenation, which is compared as that part. */
static bool is_copy(const spc__net_verifier *v, const spc__net_work *work)
{
    return v->net->nodes[work->node].kind == SPC__NODE_CONCAT;
}

/* Verifies all steps that compute, then the tensors that are joined. */
static spc_status verify_layers(spc__net_verifier *v)
{
    spc_status status = SPC_OK;

    for (int i = 0; i < v->plan->work_count && status == SPC_OK; i++) {
        const spc__net_work *work = &v->plan->works[i];
        if (work->kind == SPC_NET_CONV)
            status = verify_convs(v, work);
        else if (work->kind == SPC_NET_FEATURE && !is_copy(v, work))
            status = verify_feature(v, work);
        else if (work->kind == SPC_NET_GATHER)
            status = spc__net_verify_gather(v, work);
    }
    return status == SPC_OK ? verify_concats(v) : status;
}

/* ---- entry --------------------------------------------------------------- */

static void release(spc__net_verifier *v)
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

/* Copies the points of the run to the host; the caller owns them. */
static spc_status fetch_points(float **out, spc_net_plan *plan,
                               const spc_net_buffers *buffers)
{
    const spc_net_input *input = &plan->net->input;
    size_t numbers =
        (size_t)input->channels + (plan->options.high[0] > 0 ? 1 : 0);
    size_t bytes = (size_t)plan->points.points * numbers * sizeof(float);

    if ((*out = malloc(bytes + 1)) == NULL)
        return spc__fail_memory(spc__error_of(plan->ctx), bytes);
    return spc_memory_download(*out, plan->ctx, buffers->points, bytes);
}

/* Makes the scene from the voxels of the points, which were verified. */
static spc_status scene_of_points(spc_scene **out, spc_net_plan *plan,
                                  const spc_net_buffers *buffers)
{
    int64_t rows = plan->points.voxels;
    int32_t *coords = malloc(16 * (size_t)rows + 1);
    float *points = NULL;
    double worst;
    spc_status status = fetch_points(&points, plan, buffers);

    *out = NULL;
    if (coords == NULL)
        status = spc__fail_memory(spc__error_of(plan->ctx), 16 * (size_t)rows);
    if (status == SPC_OK &&
        (status = spc_voxels_verify(&worst, plan->voxels, points,
                                    plan->points.points)) == SPC_OK &&
        (status = spc_memory_download(coords, plan->ctx,
                                      spc_voxels_coords(plan->voxels),
                                      16 * (size_t)rows)) == SPC_OK)
        status = spc_scene_create(out, coords, rows, "points",
                                  spc__error_of(plan->ctx));
    free(coords);
    free(points);
    return status;
}

/* Verifies the sets first: layers are compared row by row, which means nothing
 * if the rows differ. */
static spc_status verify(spc__net_verifier *v, const spc_scene *scene)
{
    spc_status status;

    v->sets = calloc((size_t)v->net->set_count + 1, sizeof(*v->sets));
    v->relations = calloc((size_t)v->net->map_count + 1, sizeof(*v->relations));
    v->tensors = calloc((size_t)v->net->tensor_count + 1, sizeof(*v->tensors));
    if (v->sets == NULL || v->relations == NULL || v->tensors == NULL)
        return spc__fail_memory(v->error, sizeof(*v));
    status = spc__net_verify_sets(v, scene);
    return status == SPC_OK ? verify_layers(v) : status;
}

spc_status spc_net_plan_verify(spc_net_verdict *out, spc_net_plan *plan,
                               const spc_net_buffers *buffers,
                               const spc_scene *scene)
{
    spc_error *error = plan != NULL ? spc__error_of(plan->ctx) : NULL;
    bool takes_points = plan != NULL && plan->voxels != NULL;
    spc_scene *voxels = NULL;
    spc_status status =
        spc__need(error, __func__, "out", out, "plan", plan, "buffers", buffers,
                  takes_points ? "out" : "scene",
                  takes_points ? (const void *)out : scene, NULL);

    if (out != NULL)
        memset(out, 0, sizeof(*out));
    if (status != SPC_OK)
        return status;
    if (!plan->options.keep || !plan->checked)
        return spc__fail(error, SPC_ESTATE,
                         plan->checked ? "the network was planned without "
                                         "`keep`: its tensors are gone"
                                       : "there is no run that was checked");
    if ((status = SPC__TAKE(spc_net_buffers, buffers, error)) != SPC_OK ||
        (status = spc__net_check_buffers(plan, buffers, error)) != SPC_OK)
        return status;
    spc__net_verifier v = {.plan = plan,
                           .net = plan->net,
                           .buffers = buffers,
                           .out = out,
                           .error = error};
    if (takes_points)
        status = scene_of_points(&voxels, plan, buffers);
    if (status == SPC_OK)
        status = verify(&v, takes_points ? voxels : scene);
    spc_scene_free(voxels);
    release(&v);
    return status;
}
