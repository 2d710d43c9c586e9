/* SPDX-License-Identifier: Apache-2.0 */
/*
 * net_plan.c - plans a network: checks options, then makes kernels, weights and
 * memory for tensors, once.
 */
#include "net/net_plan.h"

#include "base/dtype.h"
#include "base/error.h"
#include "base/sized.h"
#include "context/ctx.h"
#include "coords/map.h"
#include "operators/feature.h"
#include "operators/geometry.h"
#include "operators/operands.h"
#include "plan/plan.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- checks -------------------------------------------------------------- */

/* Points need a grid. */
static spc_status check_points(const spc_net *net, const spc_net_options *o,
                               spc_error *error)
{
    spc_voxelisation how;

    if (net->set_count > 0 && net->sets[0].cloud && o->points > 0)
        return spc__fail(error, SPC_EINVAL,
                         "a network of clouds makes no voxels of its points: "
                         "set `capacity` to the most points, and `points` to "
                         "0");
    return o->points > 0
               ? spc_net_voxelisation(&how, net, o->high[0] + 1, error)
               : SPC_OK;
}

/* Names the first layer without parameters. */
static spc_status check_params(const spc_net *net, spc_error *error)
{
    for (int i = 0; i < net->node_count; i++)
        for (int j = 0; j < SPC__NET_PARAMS; j++)
            if (net->nodes[i].counts[j] > 0 && net->nodes[i].params[j] == NULL)
                return spc__fail(
                    error, SPC_EINVAL,
                    "layer '%s' has no %s yet: "
                    "spc_net_set_param, or "
                    "spc_net_init_params",
                    net->nodes[i].name,
                    spc__net_operands[j] == SPC_OPERAND_WEIGHTS ? "weights"
                    : spc__net_operands[j] == SPC_OPERAND_SCALE ? "scale"
                                                                : "bias");
    return SPC_OK;
}

/* Checks the options as far as they do not depend on the network. */
static spc_status check_options(const spc_net_options *o, spc_error *error)
{
    if (o->capacity < 1)
        return spc__fail(error, SPC_EINVAL,
                         "a network for %lld rows: expected at least 1",
                         (long long)o->capacity);
    if (o->duplicates != SPC_DUPLICATES_ERROR &&
        o->duplicates != SPC_DUPLICATES_FIRST)
        return spc__fail(error, SPC_EINVAL,
                         "the input of a network is only read: of equal rows "
                         "the first counts (SPC_DUPLICATES_FIRST), or they are "
                         "an error (SPC_DUPLICATES_ERROR)");
    if (!(o->growth >= 0))
        return spc__fail(error, SPC_EINVAL,
                         "a growth of %g: expected a positive number, or 0",
                         o->growth);
    if (!(o->neighbours >= 0))
        return spc__fail(error, SPC_EINVAL,
                         "%g neighbours: expected a positive number, or 0",
                         o->neighbours);
    if (o->points < 0)
        return spc__fail(error, SPC_EINVAL, "scenes of %lld points",
                         (long long)o->points);
    if (o->sample_rows < 0 || o->sample_rows > o->capacity ||
        (o->sample_rows > 0 && o->sample == NULL))
        return spc__fail(error, SPC_EINVAL,
                         "a sample of %lld rows, of a network for %lld",
                         (long long)o->sample_rows, (long long)o->capacity);
    return SPC_OK;
}

/* ---- weights ------------------------------------------------------------- */

/* Copies a parameter to the device. */
static spc_status put_floats(float **out, spc_net_plan *plan,
                             spc__net_work *work, const float *values,
                             int64_t count)
{
    size_t bytes = (size_t)count * sizeof(float);
    void *memory = NULL;
    spc_status status;

    if (bytes == 0)
        return SPC_OK;
    if ((status = spc_memory_alloc(&memory, plan->ctx, bytes)) != SPC_OK)
        return status;
    *out = memory;
    work->weights_bytes += bytes;
    return spc_memory_upload(memory, plan->ctx, values, bytes);
}

/* Uploads canonical weights in the layer's type. */
static spc_status put_canonical(void **out, spc_net_plan *plan,
                                const spc__net_node *node, const float *weights)
{
    size_t bytes = spc_conv_operand_bytes(&node->conv, SPC_OPERAND_WEIGHTS, 0);
    void *host = malloc(bytes);
    spc_status status;

    if (host == NULL)
        return spc__fail_memory(spc__error_of(plan->ctx), bytes);
    /* Parameters are kept in f32, and kernels read the layer's type. */
    spc__dtype_of(node->conv.dtype)
        ->encode(host, weights, (size_t)node->counts[0]);
    if ((status = spc_memory_alloc(out, plan->ctx, bytes)) == SPC_OK)
        status = spc_memory_upload(*out, plan->ctx, host, bytes);
    free(host);
    return status;
}

/* Packs weights into the order that the chosen kernel reads. */
static spc_status pack_weights(spc_net_plan *plan, spc__net_work *work,
                               const spc__net_node *node, const float *weights)
{
    size_t bytes = spc_plan_weights_bytes(work->conv_plan);
    void *canonical = NULL;
    spc_status status = put_canonical(&canonical, plan, node, weights);

    if (status == SPC_OK)
        status = spc_memory_alloc(&work->packed, plan->ctx, bytes);
    work->weights_bytes += bytes;
    if (status == SPC_OK)
        status = spc_plan_pack(work->packed, work->conv_plan, canonical,
                               SPC_KRSC, NULL);
    if (status == SPC_OK)
        status = spc_ctx_synchronize(plan->ctx); /* before canonical is freed */
    spc_memory_free(plan->ctx, canonical);
    return status;
}

/* Packs a layer's weights and copies its scale. */
static spc_status pack(spc_net_plan *plan, spc__net_work *work,
                       const spc__net_node *node)
{
    float *weights, *scale;
    spc_status status;

    if (node->conv.dtype != SPC_I8) {
        status = pack_weights(plan, work, node, node->params[0]);
        return status == SPC_OK ? put_floats(&work->scale, plan, work,
                                             node->params[1], node->counts[1])
                                : status;
    }
    /* Weights of i8 are stored as whole numbers, with a scale that was chosen
     * when the network was quantised. */
    status = spc__net_stored_params(&weights, &scale, node,
                                    spc__error_of(plan->ctx));
    if (status == SPC_OK &&
        (status = pack_weights(plan, work, node, weights)) == SPC_OK)
        status = put_floats(&work->scale, plan, work, scale, node->counts[1]);
    free(weights);
    free(scale);
    return status;
}

/* Uploads one scale per tensor, though only I8 tensors use theirs. */
static spc_status put_scales(spc_net_plan *plan)
{
    size_t count = (size_t)plan->net->tensor_count;
    float *scales = malloc(count * sizeof(*scales));
    void *memory = NULL;
    spc_status status;

    if (scales == NULL)
        return spc__fail_memory(spc__error_of(plan->ctx), count * 4);
    for (size_t t = 0; t < count; t++)
        scales[t] = plan->net->tensors[t].scale;
    status = spc_memory_alloc(&memory, plan->ctx, count * sizeof(*scales));
    plan->scales = memory;
    if (status == SPC_OK)
        status = spc_memory_upload(memory, plan->ctx, scales,
                                   count * sizeof(*scales));
    free(scales);
    return status;
}

/* Uploads scale and bias of a normalisation, and the bias of a convolution. */
static spc_status put_params(spc_net_plan *plan, spc__net_work *work,
                             const spc__net_node *node)
{
    spc_status status = SPC_OK;

    if (node->kind != SPC__NODE_CONV)
        status = put_floats(&work->scale, plan, work, node->params[1],
                            node->counts[1]);
    return status == SPC_OK ? put_floats(&work->bias, plan, work,
                                         node->params[2], node->counts[2])
                            : status;
}

/* ---- kernels ------------------------------------------------------------- */

/* For a set that was never checked, only the capacity is known. */
static spc_status make_linear(spc_net_plan *plan, spc__net_work *work)
{
    const spc_coords *set = plan->sets[work->set];

    spc_status status = spc_plan_create_linear(
        &work->conv_plan, plan->ctx, &work->conv,
        set->checked ? set->rows : set->capacity, plan->options.flags);
    return status == SPC_OK ? spc__net_share_rows(plan, work) : status;
}

static spc_status choose_conv(spc_net_plan *plan, spc__net_work *work)
{
    return work->map >= 0
               ? spc__plan_create_unprepared(&work->conv_plan, plan->ctx,
                                             &work->conv, plan->maps[work->map],
                                             plan->options.flags)
               : make_linear(plan, work);
}

/* Prepares the map for a layer, packs its parameters and finds its
 * workspace. */
static spc_status make_conv(spc_net_plan *plan, spc__net_work *work)
{
    spc_map *map = work->map >= 0 ? plan->maps[work->map] : NULL;
    spc__net_node layer;
    /* Now that all layers of the map agreed on its row order. */
    spc_status status =
        map != NULL ? spc__plan_prepare(work->conv_plan, map) : SPC_OK;

    if (status != SPC_OK)
        return status;
    /* Merged layers are packed as one layer with the channels of all. */
    if ((status = spc__net_join(&layer, plan, work->node)) == SPC_OK &&
        (status = pack(plan, work, &layer)) == SPC_OK)
        status = put_params(plan, work, &layer);
    spc__net_part(&layer, plan, work->node);
    if (status != SPC_OK)
        return status;
    work->bytes =
        map != NULL ? spc_plan_workspace_bytes(work->conv_plan, map)
                    : spc__plan_workspace_laid(work->conv_plan,
                                               plan->sets[work->set]->capacity);
    snprintf(work->kernel, sizeof(work->kernel), "%s %.220s",
             spc_plan_template(work->conv_plan),
             spc_plan_config(work->conv_plan));
    return SPC_OK;
}

/* Makes the plan of an operator on features. */
static spc_status make_feature(spc_net_plan *plan, spc__net_work *work)
{
    unsigned flags = plan->options.flags & SPC_PLAN_CACHED_ONLY;
    spc_status status = spc_feature_plan_create(&work->feature_plan, plan->ctx,
                                                &work->feature, flags);

    /* Runs may use other streams than the preparation. */
    if (status == SPC_OK && spc__feature_takes_map(&work->feature) &&
        (status = spc_feature_plan_prepare(
             work->feature_plan, plan->maps[work->map], NULL)) == SPC_OK)
        status = spc_ctx_synchronize(plan->ctx);
    if (status != SPC_OK)
        return status;
    work->bytes = spc_feature_plan_workspace_bytes(work->feature_plan,
                                                   plan->sets[work->set]);
    snprintf(work->kernel, sizeof(work->kernel), "%s",
             spc__feature_plan_template(work->feature_plan));
    const spc__net_node *node = &plan->net->nodes[work->node];
    return node->kind == SPC__NODE_FEATURE ? put_params(plan, work, node)
                                           : SPC_OK;
}

static spc_status fail_layer(const spc_net_plan *plan,
                             const spc__net_work *work)
{
    return spc__fail_prefix(spc__error_of(plan->ctx),
                            "layer '%s': ", plan->net->nodes[work->node].name);
}

/* Chooses the kernels of all convolutions before it prepares any map, since the
 * layers of a map choose its row order together. */
static spc_status choose_kernels(spc_net_plan *plan)
{
    for (int i = 0; i < plan->work_count; i++)
        if (plan->works[i].kind == SPC_NET_CONV &&
            choose_conv(plan, &plan->works[i]) != SPC_OK)
            return fail_layer(plan, &plan->works[i]);
    spc__net_share_orders(plan);
    return SPC_OK;
}

/* Chooses the kernels of all layers first, since they may share row orders, and
 * then makes them. */
static spc_status make_kernels(spc_net_plan *plan)
{
    spc_status status = choose_kernels(plan);

    if (status != SPC_OK)
        return status;
    for (int i = 0; i < plan->work_count; i++) {
        spc__net_work *work = &plan->works[i];
        if (work->kind == SPC_NET_CONV)
            status = make_conv(plan, work);
        else if (work->kind == SPC_NET_FEATURE)
            status = make_feature(plan, work);
        if (status != SPC_OK)
            return fail_layer(plan, work);
        plan->weights_bytes += work->weights_bytes;
    }
    return SPC_OK;
}

/* ---- memory -------------------------------------------------------------- */

/* The memory of a tensor for the capacity of its set. */
static size_t tensor_bytes(const spc_net_plan *plan, int tensor)
{
    const spc__net_tensor *t = &plan->net->tensors[tensor];
    const spc_coords *set = plan->sets[t->set];
    int64_t rows = t->dense ? spc_coords_batches(set) : set->capacity;

    /* With the pitch, as the tensor may lie within wider rows. */
    return (size_t)rows * (size_t)plan->positions[tensor].pitch *
           spc__net_element(t);
}

/* Lets the life of a tensor's memory include this work. */
static void use(spc_net_plan *plan, int tensor, int work)
{
    int p = tensor != SPC_NO_TENSOR ? plan->positions[tensor].piece : -1;
    spc__net_piece *piece = p >= 0 ? &plan->pieces[p] : NULL;

    if (piece == NULL)
        return;
    piece->first = work < piece->first ? work : piece->first;
    piece->last = work > piece->last ? work : piece->last;
}

/* Does so for all tensors of a work. */
static void use_all(spc_net_plan *plan, int i)
{
    const spc__net_work *work = &plan->works[i];
    const spc__net_node *node =
        work->kind == SPC_NET_GATHER ? &plan->net->nodes[work->node] : NULL;

    use(plan, work->in, i);
    use(plan, work->add, i);
    use(plan, work->index, i);
    use(plan, work->out, i);
    for (int j = 0; node != NULL && j < node->ins; j++)
        use(plan, node->in[j], i);
}

/* A piece must hold the rows of all its tensors. */
static void measure_pieces(spc_net_plan *plan)
{
    for (int i = 0; i < plan->net->tensor_count; i++) {
        const spc__net_position *position = &plan->positions[i];
        size_t bytes = position->piece >= 0 ? tensor_bytes(plan, i) : 0;
        if (bytes > 0 && bytes > plan->pieces[position->piece].bytes)
            plan->pieces[position->piece].bytes = bytes;
    }
}

/* Outputs stay live until the next run; with `keep` all tensors do. */
static void set_lives(spc_net_plan *plan, int tensors)
{
    /* An empty lifetime, which use() widens. */
    for (int i = 0; i < tensors; i++)
        plan->pieces[i].first = plan->work_count, plan->pieces[i].last = -1;
    for (int i = 0; i < plan->work_count; i++)
        use_all(plan, i);
    /* One past the last work. */
    for (int i = 0; i < plan->net->out_count; i++)
        use(plan, plan->net->outs[i].tensor, plan->work_count);
    for (int i = 0; i < tensors && plan->options.keep; i++) {
        plan->pieces[i].first = 0;
        plan->pieces[i].last = plan->work_count;
    }
}

/* Places tensors and workspaces in one block of memory, where pieces that are
 * never needed together may overlap. */
static spc_status arrange(spc_net_plan *plan)
{
    int tensors = plan->piece_count;
    size_t most = (size_t)(tensors + plan->work_count + 1);

    plan->pieces = calloc(most, sizeof(*plan->pieces));
    if (plan->pieces == NULL)
        return spc__fail_memory(spc__error_of(plan->ctx),
                                most * sizeof(*plan->pieces));
    measure_pieces(plan);
    set_lives(plan, tensors);
    for (int i = 0; i < plan->work_count; i++)
        plan->pieces[plan->piece_count++] =
            (spc__net_piece){plan->works[i].bytes, 0, i, i};
    /* After all lifetimes are known and before addresses follow from them. */
    spc_status status = spc__net_keep_apart(plan);
    if (status != SPC_OK)
        return status;
    plan->memory_bytes = spc__net_arrange(plan->pieces, plan->piece_count);
    for (int i = 0; i < plan->work_count; i++)
        plan->works[i].workspace = plan->pieces[tensors + i].offset;
    return SPC_OK;
}

/* ---- entry --------------------------------------------------------------- */

/* Makes all parts of a plan. On failure the caller frees the allocated
 * parts. */
static spc_status make(spc_net_plan *plan)
{
    spc_status status;

    /* In this order: kernels are chosen by the sets of the sample, and memory
     * is placed when every workspace is known. */
    if ((status = spc__net_make_sets(plan)) != SPC_OK ||
        (status = spc__net_index_sample(plan)) != SPC_OK ||
        (status = spc__net_make_voxels(plan)) != SPC_OK ||
        (status = spc__net_plan_branches(plan)) != SPC_OK ||
        (status = put_scales(plan)) != SPC_OK ||
        (status = make_kernels(plan)) != SPC_OK ||
        (status = spc__net_lay_batches(plan)) != SPC_OK)
        return status;
    return arrange(plan);
}

spc_status spc_net_plan_create(spc_net_plan **out, spc_ctx *ctx,
                               const spc_net *net,
                               const spc_net_options *options)
{
    spc_error error = {0};
    spc_net_plan *plan;
    spc_status status =
        spc__need(spc__error_of(ctx), __func__, "out", out, "ctx", ctx, "net",
                  net, "options", options, NULL);

    if (out != NULL)
        *out = NULL;
    if (status != SPC_OK)
        return status;
    if ((status = SPC__TAKE(spc_net_options, options, &error)) != SPC_OK ||
        (status = check_options(options, &error)) != SPC_OK ||
        (status = check_points(net, options, &error)) != SPC_OK ||
        (status = check_params(net, &error)) != SPC_OK)
        return spc__ctx_fail(ctx, &error);
    if ((plan = calloc(1, sizeof(*plan))) == NULL)
        return spc__fail_memory(spc__error_of(ctx), sizeof(*plan));
    plan->ctx = spc__ctx_share(ctx);
    plan->net = spc__net_share(net);
    plan->options = *options;
    if ((status = spc__net_works(plan, &error)) != SPC_OK)
        spc__ctx_fail(ctx, &error);
    else
        status = make(plan);
    plan->options.sample = NULL; /* owned by the caller */
    if (status == SPC_OK) {
        *out = plan;
        plan = NULL;
    }
    spc_net_plan_free(plan);
    return status;
}

static void release_work(spc_net_plan *plan, spc__net_work *work)
{
    free(work->rows);
    spc_plan_free(work->conv_plan);
    spc_feature_plan_free(work->feature_plan);
    spc_memory_free(plan->ctx, work->packed);
    spc_memory_free(plan->ctx, work->scale);
    spc_memory_free(plan->ctx, work->bias);
}

void spc_net_plan_free(spc_net_plan *plan)
{
    if (plan == NULL)
        return;
    /* The graph refers to kernels and memory of everything below, so it goes
     * first. */
    spc__device_ops_of(plan->ctx->device)
        ->graph_free(plan->ctx->device, plan->graph);
    for (int i = 0; i < plan->work_count; i++)
        release_work(plan, &plan->works[i]);
    for (int i = 0; plan->maps != NULL && i < plan->net->map_count; i++)
        spc_map_free(plan->maps[i]);
    for (int i = 0; plan->sets != NULL && i < plan->net->set_count; i++)
        spc_coords_free(plan->sets[i]);
    spc_voxels_free(plan->voxels);
    spc__net_free_rows(plan);
    spc_memory_free(plan->ctx, plan->scales);
    free(plan->lists.memory);
    free(plan->counters.memory);
    free(plan->sets);
    free(plan->maps);
    free(plan->works);
    free(plan->branches);
    free(plan->siblings);
    free(plan->positions);
    free(plan->pieces);
    /* A share of the network (spc__net_share), which the plan only reads. */
    spc_net_free((spc_net *)(uintptr_t)plan->net);
    spc__ctx_leave(plan->ctx);
    free(plan);
}
