/* SPDX-License-Identifier: Apache-2.0 */
/* net_train_run.c - runs the two passes of training: steps forward, actions
 * backward. */
#include "net/train/net_train.h"

#include "base/dtype.h"
#include "base/error.h"
#include "context/ctx.h"
#include "operators/feature.h"

typedef spc__train_action action;
typedef spc__train_step step;

static const void *data_of(const spc_training *t, int value)
{
    if (value == SPC__TRAIN_NONE)
        return NULL;
    return value == 0 ? t->features : t->values[value].data;
}

/* Runs a pass of a convolution. */
static spc_status run_pass(const spc_training *t, const spc__train_pass *p,
                           spc_buffers buffers, void *stream)
{
    /* Steps run one after the other on one stream, so they share the
     * workspace. */
    buffers.weights = p->packed;
    buffers.workspace = t->work;
    return spc_plan_execute(p->plan, p->map, &buffers, stream);
}

/* Runs an operator over its map, or over the set of `value`. */
static spc_status run_operator(const spc_training *t,
                               const spc__train_feature *f, int value,
                               spc_feature_buffers buffers, void *stream)
{
    const spc_coords *set = t->plan->sets[t->values[value].set];

    buffers.workspace = t->work;
    return spc_feature_plan_execute(f->plan, f->map != NULL ? NULL : set,
                                    f->map, &buffers, stream);
}

/* ---- forward ------------------------------------------------------------- */

/* Runs a convolution. */
static spc_status conv_forward(const spc_training *t, const step *s,
                               void *stream)
{
    spc_buffers buffers = {.bytes = sizeof(spc_buffers),
                           .in = data_of(t, s->in[0]),
                           .out = t->values[s->out].data,
                           .bias = s->vector};

    return run_pass(t, &s->forward, buffers, stream);
}

/* Runs an operator on features. */
static spc_status feature_forward(const spc_training *t, const step *s,
                                  void *stream)
{
    spc_feature_buffers buffers = {.bytes = sizeof(spc_feature_buffers),
                                   .in = data_of(t, s->in[0]),
                                   .add = data_of(t, s->add),
                                   .out = t->values[s->out].data,
                                   .index = s->index,
                                   .scale = s->vector};

    if (s->vector != NULL)
        buffers.shift = s->vector + s->first;
    return run_operator(t, &s->run, s->in[0], buffers, stream);
}

/* Byte offset of part i of a concatenation in a row. */
static size_t part_offset(const spc_training *t, const step *s, int i)
{
    size_t channels = 0;

    for (int j = 0; j < i; j++)
        channels += (size_t)t->values[s->in[j]].channels;
    return channels * spc__dtype_of(t->values[s->out].dtype)->bytes;
}

/* Copies each part to its channels. */
static spc_status concat_forward(const spc_training *t, const step *s,
                                 void *stream)
{
    const spc__train_value *out = &t->values[s->out];
    spc_status status = SPC_OK;

    for (int i = 0; i < s->ins && status == SPC_OK; i++) {
        spc_feature_buffers buffers = {.bytes = sizeof(spc_feature_buffers),
                                       .in = data_of(t, s->in[i]),
                                       .out = (char *)out->data +
                                              part_offset(t, s, i),
                                       .out_pitch = out->channels};
        status = run_operator(t, &s->copy[i], s->out, buffers, stream);
    }
    return status;
}

static spc_gather gather_of(const spc_training *t, const step *s)
{
    const spc__train_value *out = &t->values[s->out];

    return (spc_gather){out->dtype, out->channels, s->node->slices};
}

/* Runs the gather of a regrouped set's features. */
static spc_status gather_forward(const spc_training *t, const step *s,
                                 void *stream)
{
    const spc__train_value *out = &t->values[s->out];
    const void *in[SPC__NET_SOURCES];
    spc_gather how = gather_of(t, s);

    for (int i = 0; i < s->ins; i++)
        in[i] = data_of(t, s->in[i]);
    return spc_coords_gather_features(out->data, t->plan->sets[out->set], in,
                                      &how, stream);
}

/* The mask is in the workspace, which nothing else uses at that time. */
static spc_status choose_voxels(const spc_training *t, int set, void *stream)
{
    const spc__net_set *of = &t->plan->net->sets[set];
    const spc__train_value *v = &t->values[t->value_of[of->mask]];
    const void *numbers = data_of(t, t->value_of[of->mask]);
    spc_coords *coords = t->plan->sets[set];
    spc_status status = spc_coords_mask_above(t->work, coords, &numbers,
                                              v->dtype, of->above, stream);

    return status == SPC_OK
               ? spc_coords_update_regrouped(coords, t->work, stream)
               : status;
}

/* Fills a set or a map that depends on features. */
static spc_status update(const spc_training *t, const spc__train_update *u,
                         void *stream)
{
    if (u->map != NULL)
        return spc_map_update(u->map, NULL, NULL, 0, stream);
    if (t->plan->net->sets[u->set].masked)
        return choose_voxels(t, u->set, stream);
    return spc_coords_update(t->plan->sets[u->set], NULL, NULL, 0, stream);
}

/* Runs a step. */
static spc_status step_forward(const spc_training *t, const step *s,
                               void *stream)
{
    spc_status status = SPC_OK;

    /* Sets that depend on features are filled when these features exist: right
     * before the first step that needs them. */
    for (int i = 0; i < s->update_count && status == SPC_OK; i++)
        status = update(t, &t->updates[s->first_update + i], stream);
    if (status != SPC_OK)
        return status;
    switch (s->kind) {
    case SPC__TRAIN_CONV:
        return conv_forward(t, s, stream);
    case SPC__TRAIN_FEATURE:
        return feature_forward(t, s, stream);
    case SPC__TRAIN_CONCAT:
        return concat_forward(t, s, stream);
    default:
        return gather_forward(t, s, stream);
    }
}

static spc_status name_step(const spc_training *t, const step *s,
                            spc_status status)
{
    return status == SPC_OK ? SPC_OK
                            : spc__fail_prefix(spc__error_of(t->ctx),
                                               "layer '%s': ", s->node->name);
}

spc_status spc_training_forward(const void **out, spc_training *t,
                                const void *features, void *stream)
{
    spc_status status =
        spc__need(t != NULL ? spc__error_of(t->ctx) : NULL, __func__,
                  "training", t, "features", features, "out", out, NULL);

    if (status != SPC_OK)
        return status;
    /* Kept for the backward pass, where gradients of weights read the
     * inputs. */
    t->features = features;
    for (int i = 0; i < t->step_count && status == SPC_OK; i++)
        status =
            name_step(t, &t->steps[i], step_forward(t, &t->steps[i], stream));
    if (status != SPC_OK) /* without a complete forward pass there is no
                           * backward pass */
        t->features = NULL;
    *out = data_of(t, t->value_of[t->plan->net->outs[0].tensor]);
    return status;
}

/* ---- backward ------------------------------------------------------------ */

/* The gradient of a step's parameters. */
static spc_status to_weights(const spc_training *t, const action *a,
                             const void *dy, void *stream)
{
    const step *s = &t->steps[a->step];
    const void *x = data_of(t, s->in[0]);

    if (s->kind == SPC__TRAIN_CONV)
        return run_pass(t, &s->wgrad,
                        (spc_buffers){.bytes = sizeof(spc_buffers),
                                      .in = x,
                                      .grad = dy,
                                      .out = s->change},
                        stream);
    return run_operator(
        t, &s->sums, s->in[0],
        (spc_feature_buffers){.bytes = sizeof(spc_feature_buffers),
                              .in = x,
                              .add = dy,
                              .out = s->change},
        stream);
}

/* An operator that needs the inputs in addition to dy gets them as `add`. */
static spc_status to_inputs(const spc_training *t, const action *a,
                            const void *dy, void *stream)
{
    const step *s = &t->steps[a->step];
    void *out = t->arrays[a->out[0]];
    bool adds =
        s->kind == SPC__TRAIN_FEATURE && spc__feature_adds(&s->back.feature);

    if (s->kind == SPC__TRAIN_CONV)
        return run_pass(
            t, &s->dgrad,
            (spc_buffers){.bytes = sizeof(spc_buffers), .in = dy, .out = out},
            stream);
    spc_feature_buffers buffers = {.bytes = sizeof(spc_feature_buffers),
                                   .in = adds ? data_of(t, s->in[0]) : dy,
                                   .add = adds ? dy : NULL,
                                   .out = out,
                                   .index = s->index,
                                   .scale = s->vector};
    /* multiplies dy by the factors */
    if (spc__feature_adds_by_batch(&s->back.feature)) {
        buffers.in = dy;
        buffers.add = data_of(t, s->add);
    }
    return run_operator(t, &s->back, s->in[0], buffers, stream);
}

/* Computes the gradient of the second operand of a product. */
static spc_status to_factors(const spc_training *t, const action *a,
                             const void *dy, void *stream)
{
    const step *s = &t->steps[a->step];
    spc_feature_buffers buffers = {.bytes = sizeof(spc_feature_buffers),
                                   .in = data_of(t, s->in[0]),
                                   .add = dy,
                                   .out = t->arrays[a->out[0]]};

    return run_operator(t, &s->sums, s->in[0], buffers, stream);
}

/* The gradient of a part of a concatenation: its channels. */
static spc_status to_part(const spc_training *t, const action *a,
                          const void *dy, void *stream)
{
    const step *s = &t->steps[a->step];
    spc_feature_buffers buffers = {.bytes = sizeof(spc_feature_buffers),
                                   .in = (const char *)dy +
                                         part_offset(t, s, a->part),
                                   .in_pitch = t->values[s->out].channels,
                                   .out = t->arrays[a->out[0]]};

    return run_operator(t, &s->copy[a->part], s->out, buffers, stream);
}

/* The gradients of the sources of a gather. */
static spc_status to_sources(const spc_training *t, const action *a,
                             const void *dy, void *stream)
{
    const step *s = &t->steps[a->step];
    spc_gather how = gather_of(t, s);
    void *out[SPC__NET_SOURCES];

    for (int i = 0; i < s->ins; i++)
        out[i] = t->arrays[a->out[i]];
    return spc_coords_scatter_features(
        out, t->plan->sets[t->values[s->out].set], dy, &how, stream);
}

/* Adds two gradients of one value. */
static spc_status add_up(const spc_training *t, const action *a, const void *dy,
                         void *stream)
{
    spc_feature_buffers buffers = {.bytes = sizeof(spc_feature_buffers),
                                   .in = dy,
                                   .add = t->arrays[a->with],
                                   .out = t->arrays[a->out[0]]};

    return run_operator(t, &a->sum, a->part, buffers, stream);
}

typedef spc_status (*runner)(const spc_training *t, const action *a,
                             const void *dy, void *stream);

/* Indexed by spc__train_do. */
static const runner runners[] = {to_weights, to_inputs,  to_factors,
                                 to_part,    to_sources, add_up};

/* Runs the backward pass. */
static spc_status run_actions(spc_training *t, void *stream)
{
    spc_status status = SPC_OK;

    for (int i = 0; i < t->action_count && status == SPC_OK; i++) {
        const action *a = &t->actions[i];
        status = runners[a->what](t, a, t->arrays[a->dy], stream);
        if (a->step != SPC__TRAIN_NONE)
            status = name_step(t, &t->steps[a->step], status);
    }
    return status;
}

spc_status spc_training_backward_all(spc_training *t, const void *const *grads,
                                     int count, void *stream)
{
    spc_error *error = t != NULL ? spc__error_of(t->ctx) : NULL;
    spc_status status =
        spc__need(error, __func__, "training", t, "grads", grads, NULL);

    if (status != SPC_OK)
        return status;
    if (t->features == NULL)
        return spc__fail(error, SPC_ESTATE,
                         "there was no forward pass to go back from: call "
                         "spc_training_forward first");
    if (count != t->plan->net->out_count)
        return spc__fail(
            error, SPC_EINVAL,
            "%d gradients of %d outputs: expected one for each output", count,
            t->plan->net->out_count);
    for (int i = 0; i < count; i++) {
        if (grads[i] == NULL)
            return spc__fail(error, SPC_EINVAL,
                             "the gradient of output %d is NULL", i);
        t->arrays[i] = (void *)(uintptr_t)grads[i]; /* these arrays are only
                                                     * read */
    }
    return run_actions(t, stream);
}

const void *spc_training_features_gradient(const spc_training *t)
{
    int array =
        t != NULL && t->values[0].wanted ? t->values[0].grad : SPC__TRAIN_NONE;

    return array != SPC__TRAIN_NONE ? t->arrays[array] : NULL;
}

spc_status spc_training_backward(spc_training *t, const void *grad,
                                 void *stream)
{
    spc_status status = spc__need(t != NULL ? spc__error_of(t->ctx) : NULL,
                                  __func__, "training", t, "grad", grad, NULL);

    return status == SPC_OK ? spc_training_backward_all(t, &grad, 1, stream)
                            : status;
}
