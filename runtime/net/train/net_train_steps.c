/* SPDX-License-Identifier: Apache-2.0 */
/*
 * net_train_steps.c - makes the steps of a network in training.
 *
 * It uses the sets and maps of a plan of the network for the scene, and makes
 * the maps that only gradients read. The size of sets that depend on features
 * is unknown, so their values have the largest possible capacity.
 */
#include "net/train/net_train.h"

#include "base/dtype.h"
#include "base/error.h"
#include "context/ctx.h"
#include "coords/map.h"
#include "operators/conv.h"
#include "operators/feature.h"
#include "operators/geometry.h"
#include <stdlib.h>
#include <string.h>

typedef spc__train_step step;
typedef spc__train_value value;

/* ---- values -------------------------------------------------------------- */

static size_t bytes_of(const value *v)
{
    return (size_t)v->capacity * (size_t)v->elements *
           spc__dtype_of(v->dtype)->bytes;
}

/* Adds a value with the rows and type of a tensor and this many channels. */
static int add_value(spc_training *t, const spc__net_tensor *like)
{
    value *v = &t->values[t->value_count];
    const spc_coords *set = t->plan->sets[like->set];

    *v = (value){.set = like->set,
                 .channels = like->channels,
                 .dtype = like->dtype,
                 .elements = like->dense ? like->elements : like->channels,
                 .grad = SPC__TRAIN_NONE};
    bool late = spc__net_set_is_late(t->plan->net, like->set);
    bool cloud = t->plan->net->sets[like->set].cloud;
    /* The rows of a late set change with every forward pass, so its values have
     * room for all. */
    v->rows = like->dense ? spc_coords_batches(set)
              : late      ? spc_coords_capacity(set)
                          : spc_coords_rows(set);
    v->capacity = cloud ? spc_coords_capacity(set) : v->rows;
    return t->value_count++;
}

/* ---- sets that depend on features --------------------------------------- */

static void need_work(spc_training *t, size_t bytes)
{
    if (bytes > t->work_bytes)
        t->work_bytes = bytes;
}

/* One byte for each slot. */
static size_t mask_bytes(const spc_training *t, const spc__net_set *set)
{
    const int *split = set->how.split;

    return (size_t)spc_coords_capacity(t->plan->sets[set->from[0]]) *
           (size_t)(split[0] * split[1] * split[2]);
}

/* Adds the filling of a set, or of a map, before the current step. */
static spc_status add_update(spc_training *t, int set, spc_map *map)
{
    /* Called while a step is made, so the step that needs the set is the last
     * one. */
    step *s = &t->steps[t->step_count - 1]; /* the current step */
    void *updates =
        spc__net_grow(t->updates, t->update_count, sizeof(*t->updates));

    if (updates == NULL)
        return spc__fail_memory(spc__error_of(t->ctx), sizeof(*t->updates));
    t->updates = updates;
    /* Updates of a step are neighbours in the list. */
    if (s->update_count++ == 0)
        s->first_update = t->update_count;
    t->updates[t->update_count++] = (spc__train_update){set, map};
    return SPC_OK;
}

static bool is_updated(const spc_training *t, int set, const spc_map *map)
{
    /* A map is identified by its pointer, a set by its number. */
    for (int i = 0; i < t->update_count; i++)
        if (t->updates[i].map == map &&
            (map != NULL || t->updates[i].set == set))
            return true;
    return false;
}

/* Adds a late set and the sets that it is made from, unless an earlier step
 * fills it. */
static spc_status bring_set(spc_training *t, int set)
{
    const spc__net_set *of = &t->plan->net->sets[set];
    spc_status status = SPC_OK;

    if (!spc__net_set_is_late(t->plan->net, set) || is_updated(t, set, NULL))
        return SPC_OK;
    for (int i = 0; i < of->sources && status == SPC_OK; i++)
        status = bring_set(t, of->from[i]);
    /* The mask is written to the workspace that all steps share. */
    if (of->masked)
        need_work(t, mask_bytes(t, of));
    return status == SPC_OK ? add_update(t, set, NULL) : status;
}

/* Adds the fillings that a map needs, if any of its parts depends on
 * features. */
static spc_status bring_map(spc_training *t, spc_map *map, int in, int to)
{
    const spc_net *net = t->plan->net;
    spc_status status;

    if ((!spc__net_set_is_late(net, in) && !spc__net_set_is_late(net, to)) ||
        is_updated(t, 0, map))
        return SPC_OK;
    if ((status = bring_set(t, in)) != SPC_OK ||
        (status = bring_set(t, to)) != SPC_OK)
        return status;
    return add_update(t, to, map);
}

/* ---- maps and operators -------------------------------------------------- */

/* Returns the map from set `in` to set `to`: the plan's, or a new one. */
static spc_status make_map(spc_map **out, bool *owned, spc_training *t,
                           const spc_geometry *geometry, bool inverse, int in,
                           int to)
{
    const spc_net *net = t->plan->net;
    spc_coords *from = t->plan->sets[in], *at = t->plan->sets[to];
    spc_status status;

    /* A map that the forward pass uses often serves a gradient as well. */
    for (int i = 0; i < net->map_count; i++)
        if (t->plan->maps[i] != NULL && net->maps[i].in == in &&
            net->maps[i].to == to && net->maps[i].inverse == inverse &&
            spc__geometry_equal(&net->maps[i].geometry, geometry)) {
            *out = t->plan->maps[i];
            return SPC_OK;
        }
    *owned = true;
    if (net->sets[in].cloud)
        return spc__train_cloud_map(out, t, geometry, inverse, in, to);
    status = inverse ? spc_map_create_inverse(out, from, at, geometry)
                     : spc_map_create(out, from, at, geometry);
    /* Fills and checks the map now, as its number of pairs selects kernels. */
    if (status == SPC_OK)
        status = spc_map_update(*out, NULL, NULL, 0, NULL);
    return status == SPC_OK ? spc_map_check(*out, NULL) : status;
}

static spc_status find_map(spc_map **out, bool *owned, spc_training *t,
                           const spc_geometry *geometry, bool inverse, int in,
                           int to)
{
    spc_status status = make_map(out, owned, t, geometry, inverse, in, to);

    return status == SPC_OK ? bring_map(t, *out, in, to) : status;
}

spc_status spc__train_take(void **out, spc_training *t, size_t bytes)
{
    /* 16 bytes more, so that an array of no values has an address. */
    return spc_memory_alloc(out, t->ctx, bytes + 16);
}

spc_status spc__train_operator(spc__train_feature *out, spc_training *t,
                               const spc_feature *feature, int in, int to)
{
    unsigned flags = t->plan->options.flags & SPC_PLAN_CACHED_ONLY;
    spc_status status;

    out->feature = *feature;
    if ((status = spc_feature_plan_create(&out->plan, t->ctx, feature,
                                          flags)) != SPC_OK)
        return status;
    need_work(t,
              spc_feature_plan_workspace_bytes(out->plan, t->plan->sets[in]));
    if (!spc__feature_takes_map(feature))
        return SPC_OK;
    status = find_map(&out->map, &out->owned, t, &feature->geometry,
                      spc__feature_takes_inverse(feature), in, to);
    return status == SPC_OK
               ? spc_feature_plan_prepare(out->plan, out->map, NULL)
               : status;
}

void spc__train_release(spc__train_feature *f)
{
    spc_feature_plan_free(f->plan);
    if (f->owned)
        spc_map_free(f->map);
}

/* Makes the plan of the pass; its map must exist. */
static spc_status plan_pass(spc__train_pass *p, spc_training *t)
{
    spc_status status = spc_plan_create(&p->plan, t->ctx, &p->conv, p->map,
                                        t->plan->options.flags);

    if (status != SPC_OK)
        return status;
    need_work(t, spc_plan_workspace_bytes(p->plan, p->map));
    return spc__train_take(&p->packed, t, spc_plan_weights_bytes(p->plan));
}

/* Makes a pass of a layer with its map and kernel. */
static spc_status make_pass(spc__train_pass *p, spc_training *t,
                            const spc_conv *layer, spc_pass which, int in,
                            int to)
{
    spc_error *error = spc__error_of(t->ctx);
    spc_status status = spc_conv_pass(&p->conv, layer, which, error);

    /* Parameters are trained in f32, whatever the type of the features. */
    if (status == SPC_OK && which == SPC_WGRAD)
        p->conv.out = SPC_OUT_F32;
    if (status == SPC_OK)
        status = find_map(&p->map, &p->owned, t, &p->conv.geometry,
                          spc__conv_is_inverse(&p->conv), in, to);
    return status == SPC_OK ? plan_pass(p, t) : status;
}

/* ---- parameters ---------------------------------------------------------- */

bool spc__train_has_params(const step *s)
{
    return s->first > 0;
}

int64_t spc__train_weight_index(const spc_conv *conv, int64_t i)
{
    int64_t in = spc__conv_group_in(conv), offsets = spc__conv_offsets(conv);
    /* KRSC has one row of offsets and input channels for each output channel,
     * and RSCK has output channels last. */
    int64_t co = i / (offsets * in), tap = i % (offsets * in);

    return tap * conv->cout + co;
}

/* Allocates host and device memory for `first` and `second` values. The
 * gradient is 0 until it is computed. */
static spc_status take_params(step *s, spc_training *t, int64_t first,
                              int64_t second)
{
    size_t bytes = (size_t)(first + second) * sizeof(float);
    void *vector = NULL, *change = NULL;
    spc_status status;

    s->first = first;
    s->second = second;
    if ((s->values = calloc(1, bytes + 1)) == NULL)
        return spc__fail_memory(spc__error_of(t->ctx), bytes);
    status = spc__train_take(&vector, t, bytes);
    s->vector = vector;
    if (status == SPC_OK)
        status = spc__train_take(&change, t, bytes);
    s->change = change;
    return status == SPC_OK
               ? spc_memory_upload(change, t->ctx, s->values, bytes)
               : status;
}

static void copy_param(float *to, const spc__net_node *node, int which)
{
    if (node->params[which] != NULL)
        memcpy(to, node->params[which],
               (size_t)node->counts[which] * sizeof(float));
}

/* Takes a convolution's weights in the order in which gradients are
 * computed. */
static spc_status take_weights(step *s, spc_training *t)
{
    const spc_conv *conv = &s->forward.conv;
    int64_t count = s->node->counts[0];
    spc_status status = take_params(s, t, count, conv->bias ? conv->cout : 0);

    if (status != SPC_OK)
        return status;
    for (int64_t i = 0; i < count; i++)
        s->values[spc__train_weight_index(conv, i)] = s->node->params[0][i];
    if (conv->bias)
        copy_param(s->values + count, s->node, 2);
    return SPC_OK;
}

/* Takes scale and shift. A layer without shift gets zeros that are never
 * trained. */
static spc_status take_vectors(step *s, spc_training *t, int channels)
{
    spc_status status = take_params(s, t, channels, channels);

    if (status != SPC_OK)
        return status;
    s->keeps_second = s->node->counts[2] == 0;
    copy_param(s->values, s->node, 1);
    copy_param(s->values + channels, s->node, 2);
    return SPC_OK;
}

/* ---- steps --------------------------------------------------------------- */

/* Adds a step. There is room for all, so pointers to steps stay valid. */
static step *add_step(spc_training *t, spc__train_kind kind,
                      const spc__net_node *node, int in)
{
    step *s = &t->steps[t->step_count++];

    s->kind = kind;
    s->node = node;
    s->in[0] = in;
    s->ins = 1;
    s->add = SPC__TRAIN_NONE;
    return s;
}

/* Finishes a step's outputs. Their gradient is needed if the gradient of an
 * input is, or if the step has parameters. */
static spc_status finish_step(spc_training *t, step *s,
                              const spc__net_tensor *like)
{
    s->out = add_value(t, like);
    value *out = &t->values[s->out];

    /* A gradient is computed only where a step with parameters comes first. */
    out->wanted = spc__train_has_params(s);
    for (int i = 0; i < s->ins; i++)
        out->wanted |= t->values[s->in[i]].wanted;
    if (s->add != SPC__TRAIN_NONE)
        out->wanted |= t->values[s->add].wanted;
    return spc__train_take(&out->data, t, bytes_of(out));
}

/* Makes the gradient of the inputs. It is not needed if the inputs are the
 * features, unless the caller requested it. */
static spc_status make_dgrad(step *s, spc_training *t, const spc_conv *plain,
                             int in, int to)
{
    return t->values[s->in[0]].wanted
               ? make_pass(&s->dgrad, t, plain, SPC_DGRAD, to, in)
               : SPC_OK;
}

/* Makes the step of a convolution without its epilogue. */
static spc_status make_conv(spc_training *t, const spc__net_node *node, int in,
                            int *out)
{
    const spc__net_tensor *tensor = &t->plan->net->tensors[node->out];
    step *s = add_step(t, SPC__TRAIN_CONV, node, in);
    int from = t->values[in].set, to = tensor->set;
    spc_conv plain = node->conv;
    spc_status status;

    /* The gradient of each part needs that part's own input, so scale, residual
     * and activation become separate steps. */
    plain.activation = SPC_ACT_NONE;
    plain.slope = 0;
    plain.add = SPC_ADD_NONE;
    /* With a scale, the bias is added after it and belongs to the scale's
     * step. */
    plain.bias = node->conv.bias && !node->conv.scale;
    plain.scale = false;
    if ((status = make_pass(&s->forward, t, &plain, SPC_FORWARD, from, to)) ||
        (status = make_pass(&s->wgrad, t, &plain, SPC_WGRAD, from, to)) ||
        (status = make_dgrad(s, t, &plain, from, to)) ||
        (status = take_weights(s, t)))
        return status;
    status = finish_step(t, s, tensor);
    *out = s->out;
    return status;
}

/* True if rows that multiply need their gradient. */
static bool wants_factors(const spc_training *t, const step *s,
                          const spc_feature *f)
{
    return spc__feature_adds_by_batch(f) && t->values[s->add].wanted;
}

/* An addition passes its gradient on unchanged. A gradient without a map runs
 * over the set of the layer itself. */
static spc_status make_gradients(step *s, spc_training *t, const spc_feature *f,
                                 int from, int to)
{
    spc_error *error = spc__error_of(t->ctx);
    spc_feature of;
    spc_status status = SPC_OK;

    if ((spc__feature_has_params(f) || wants_factors(t, s, f)) &&
        ((status = spc_feature_pass(&of, f, SPC_WGRAD, error)) != SPC_OK ||
         (status = spc__train_operator(&s->sums, t, &of, from, to)) != SPC_OK))
        return status;
    if (!t->values[s->in[0]].wanted || f->op == SPC_FEATURE_ADD)
        return SPC_OK;
    if ((status = spc_feature_pass(&of, f, SPC_DGRAD, error)) != SPC_OK)
        return status;
    return spc__train_operator(&s->back, t, &of,
                               spc__feature_takes_map(&of) ? to : from, from);
}

/* The indices of maxima that an earlier pooling stored. */
static int32_t *index_of(const spc_training *t, int pooled)
{
    int i = t->step_count;

    while (t->steps[--i].out != pooled)
        ;
    return t->steps[i].index;
}

/* Makes an operator without its activation; `add` may be SPC__TRAIN_NONE. */
static spc_status make_operator(spc_training *t, const spc__net_node *node,
                                const spc_feature *f, int in, int add, int *out)
{
    const spc__net_tensor *tensor = &t->plan->net->tensors[node->out];
    step *s = add_step(t, SPC__TRAIN_FEATURE, node, in);
    int from = t->values[in].set, to = tensor->set;
    void *index = NULL;
    spc_status status;

    s->add = add;
    if ((status = spc__train_operator(&s->run, t, f, from, to)) ||
        (status = make_gradients(s, t, f, from, to)) ||
        (spc__feature_has_params(f) &&
         (status = take_vectors(s, t, f->channels))) ||
        (status = finish_step(t, s, tensor)))
        return status;
    *out = s->out;
    if (!f->index)
        return SPC_OK;
    if (spc__feature_reads_index(f)) {
        s->index = index_of(t, t->value_of[node->add]);
        /* The pooling's step frees it. */
        s->borrows = true;
        return SPC_OK;
    }
    status = spc__train_take(
        &index, t, (size_t)(t->values[s->out].rows * f->channels) * 4);
    s->index = index;
    return status;
}

/* The parts after a convolution (scale, residual, activation) as operators. */
static spc_feature operator_of(const spc_conv *conv, spc_feature_op op)
{
    spc_feature f = SPC_FEATURE_INIT;

    f.op = op;
    f.channels = conv->cout;
    f.dtype = conv->dtype == SPC_TF32 ? SPC_F32 : conv->dtype;
    if (op != SPC_FEATURE_ACT)
        return f;
    f.activation = conv->activation;
    if (conv->slope != 0 || conv->activation == SPC_ACT_ELU)
        f.slope = conv->slope != 0 ? conv->slope : 1;
    return f;
}

static spc_status make_part(spc_training *t, const spc__net_node *node,
                            bool wanted, spc_feature_op op, int add, int *at)
{
    spc_feature f = operator_of(&node->conv, op);

    return wanted ? make_operator(t, node, &f, *at, add, at) : SPC_OK;
}

/* Makes the steps of a convolution and its epilogue. */
static spc_status make_conv_node(spc_training *t, const spc__net_node *node)
{
    const spc_conv *conv = &node->conv;
    int add =
        node->add != SPC_NO_TENSOR ? t->value_of[node->add] : SPC__TRAIN_NONE;
    int *at = &t->value_of[node->out];
    spc_status status = make_conv(t, node, t->value_of[node->in[0]], at);

    /* In the order of an epilogue (spc/layer.h). */
    if (status == SPC_OK)
        status = make_part(t, node, conv->scale, SPC_FEATURE_AFFINE,
                           SPC__TRAIN_NONE, at);
    if (status == SPC_OK)
        status = make_part(t, node, conv->add == SPC_ADD_BEFORE,
                           SPC_FEATURE_ADD, add, at);
    if (status == SPC_OK)
        status = make_part(t, node, conv->activation != SPC_ACT_NONE,
                           SPC_FEATURE_ACT, SPC__TRAIN_NONE, at);
    return status == SPC_OK ? make_part(t, node, conv->add == SPC_ADD_AFTER,
                                        SPC_FEATURE_ADD, add, at)
                            : status;
}

/* A maximum stores its indices for the gradient. */
static spc_status make_feature_node(spc_training *t, const spc__net_node *node)
{
    spc_feature f = node->feature, act = node->feature;
    int add = spc__feature_adds(&f) ? t->value_of[node->add] : SPC__TRAIN_NONE;
    int in = t->value_of[node->in[0]], *at = &t->value_of[node->out];
    spc_status status;

    if (f.op == SPC_FEATURE_POOL && f.reduction == SPC_REDUCE_MAX)
        f.index |= t->values[in].wanted;
    if (f.op != SPC_FEATURE_ACT)
        f.activation = SPC_ACT_NONE;
    status = make_operator(t, node, &f, in, add, at);
    if (status != SPC_OK || f.activation == node->feature.activation)
        return status;
    /* The activation reads the operator's outputs in the backward pass, so it
     * is a separate step. */
    act = (spc_feature)SPC_FEATURE_INIT;
    act.channels = t->values[*at].channels;
    act.dtype = f.dtype;
    act.activation = node->feature.activation;
    act.slope = f.slope;
    return make_operator(t, node, &act, *at, SPC__TRAIN_NONE, at);
}

static void take_sources(spc_training *t, step *s, const spc__net_node *node)
{
    s->ins = node->ins;
    for (int i = 0; i < node->ins; i++)
        s->in[i] = t->value_of[node->in[i]];
}

/* Makes the step of a concatenation, a copy for each part. */
static spc_status make_concat_node(spc_training *t, const spc__net_node *node)
{
    const spc__net_tensor *tensor = &t->plan->net->tensors[node->out];
    step *s = add_step(t, SPC__TRAIN_CONCAT, node, SPC__TRAIN_NONE);
    spc_status status = SPC_OK;

    take_sources(t, s, node);
    for (int i = 0; i < s->ins && status == SPC_OK; i++) {
        spc_feature f = SPC_FEATURE_INIT;
        f.op = SPC_FEATURE_REPEAT;
        f.channels = t->values[s->in[i]].channels;
        f.dtype = tensor->dtype;
        status =
            spc__train_operator(&s->copy[i], t, &f, tensor->set, tensor->set);
    }
    if (status == SPC_OK)
        status = finish_step(t, s, tensor);
    t->value_of[node->out] = s->out;
    return status;
}

/* The backward pass writes all rows of a source's capacity. */
static spc_status make_gather_node(spc_training *t, const spc__net_node *node)
{
    const spc__net_tensor *tensor = &t->plan->net->tensors[node->out];
    step *s = add_step(t, SPC__TRAIN_GATHER, node, SPC__TRAIN_NONE);
    spc_status status;

    take_sources(t, s, node);
    for (int i = 0; i < s->ins; i++) {
        value *v = &t->values[s->in[i]];
        v->capacity = spc_coords_capacity(t->plan->sets[v->set]);
    }
    if ((status = bring_set(t, tensor->set)) == SPC_OK)
        status = finish_step(t, s, tensor);
    t->value_of[node->out] = s->out;
    return status;
}

/* Makes the steps of a layer. */
static spc_status make_node(spc_training *t, const spc__net_node *node)
{
    switch (node->kind) {
    case SPC__NODE_CONV:
        return make_conv_node(t, node);
    case SPC__NODE_FEATURE:
        return make_feature_node(t, node);
    case SPC__NODE_CONCAT:
        return make_concat_node(t, node);
    default:
        return make_gather_node(t, node);
    }
}

/* ---- entry --------------------------------------------------------------- */

/* Allocates the lists for the largest possible number of steps. */
static spc_status alloc_lists(spc_training *t)
{
    const spc_net *net = t->plan->net;
    size_t most = SPC__TRAIN_PARTS * (size_t)net->node_count + 1;

    t->steps = calloc(most, sizeof(*t->steps));
    t->values = calloc(most, sizeof(*t->values));
    t->value_of = calloc((size_t)net->tensor_count, sizeof(*t->value_of));
    return t->steps != NULL && t->values != NULL && t->value_of != NULL
               ? SPC_OK
               : spc__fail_memory(spc__error_of(t->ctx),
                                  most * sizeof(*t->steps));
}

spc_status spc__train_steps(spc_training *t, const bool *used, bool features)
{
    const spc_net *net = t->plan->net;
    spc_status status = alloc_lists(t);

    if (status != SPC_OK)
        return status;
    /* Value 0 is the features, which data_of() takes from the caller. */
    t->value_of[0] = add_value(t, &net->tensors[0]);
    t->values[0].wanted = features;
    for (int i = 0; i < net->node_count && status == SPC_OK; i++) {
        const spc__net_node *node = &net->nodes[i];
        if (used[i] && (status = make_node(t, node)) != SPC_OK)
            spc__fail_prefix(spc__error_of(t->ctx), "layer '%s': ", node->name);
    }
    return status;
}
