/* SPDX-License-Identifier: Apache-2.0 */
/*
 * net_train.c - training of a network on one scene: the public interface, its
 * parameters, and plain gradient descent.
 */
#include "net/train/net_train.h"

#include "base/dtype.h"
#include "base/error.h"
#include "context/ctx.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef spc__train_step step;

/* ---- weights ------------------------------------------------------------- */

static spc_status pack(const spc__train_pass *p, const void *weights)
{
    return p->plan != NULL
               ? spc_plan_pack(p->packed, p->plan, weights, SPC_RSCK, NULL)
               : SPC_OK;
}

/* Packs a layer's weights for its forward pass and for the gradient of its
 * inputs. */
static spc_status put_weights(spc_training *t, step *s)
{
    const spc__dtype *type = spc__dtype_of(s->forward.conv.dtype);
    size_t bytes = (size_t)s->first * type->bytes;
    void *host = malloc(bytes + 1), *weights = NULL;
    spc_status status = spc__train_take(&weights, t, bytes);

    if (host == NULL)
        status = spc__fail_memory(spc__error_of(t->ctx), bytes);
    else
        type->encode(host, s->values, (size_t)s->first);
    if (status == SPC_OK)
        status = spc_memory_upload(weights, t->ctx, host, bytes);
    /* The copies below are freed at once, while packing may still read them. */
    if (status == SPC_OK && (status = pack(&s->forward, weights)) == SPC_OK &&
        (status = pack(&s->dgrad, weights)) == SPC_OK)
        status = spc_ctx_synchronize(t->ctx);
    spc_memory_free(t->ctx, weights);
    free(host);
    return status;
}

/* A convolution's vector is its bias only. */
spc_status spc__train_put(spc_training *t, step *s)
{
    bool is_conv = s->kind == SPC__TRAIN_CONV;
    /* Weights are packed for the passes, so only the bias is copied as it
     * is. */
    int64_t skipped = is_conv ? s->first : 0;
    spc_status status = is_conv ? put_weights(t, s) : SPC_OK;

    if (status != SPC_OK)
        return status;
    return spc_memory_upload(s->vector, t->ctx, s->values + skipped,
                             (size_t)(s->first + s->second - skipped) *
                                 sizeof(float));
}

/* Copies all parameters to the device. */
static spc_status put_all(spc_training *t)
{
    spc_status status = SPC_OK;

    for (int i = 0; i < t->step_count && status == SPC_OK; i++)
        if (spc__train_has_params(&t->steps[i]))
            status = spc__train_put(t, &t->steps[i]);
    return status;
}

/* ---- lifetime ------------------------------------------------------------ */

/* The options of a plan for this scene and no larger one. */
static spc_net_options options_for(const spc_scene *scene, unsigned flags)
{
    spc_net_options o = SPC_NET_OPTIONS_INIT;
    const int32_t *at = spc_scene_coords(scene);

    o.capacity = o.sample_rows = spc_scene_rows(scene);
    o.sample = at;
    o.flags = flags;
    /* The rule's bound, because training must not run out of capacity. */
    o.growth = 0;
    for (int64_t i = 0; i < 4 * o.capacity; i++) {
        int axis = (int)(i % 4);
        if (i < 4 || at[i] < o.low[axis])
            o.low[axis] = at[i];
        if (i < 4 || at[i] > o.high[axis])
            o.high[axis] = at[i];
    }
    return o;
}

/* Makes all parts of a training. On failure the caller frees the allocated
 * parts. */
static spc_status make(spc_training *t, const spc_net *net, const bool *used,
                       const spc_scene *scene, unsigned flags)
{
    /* The flag exists only for training, and the plan would refuse it. */
    unsigned own = SPC_TRAINING_FEATURES;
    spc_net_options options = options_for(scene, flags & ~own);
    spc_status status;

    if ((status = spc_net_plan_create(&t->plan, t->ctx, net, &options)) !=
            SPC_OK ||
        (status = spc__train_steps(t, used, flags & own)) != SPC_OK ||
        (status = spc__train_back(t)) != SPC_OK ||
        /* Last, as every step and action may need more of it. */
        (status = spc__train_take(&t->work, t, t->work_bytes)) != SPC_OK)
        return status;
    return put_all(t);
}

spc_status spc_training_create(spc_training **out, spc_ctx *ctx,
                               const spc_net *net, const spc_scene *scene,
                               unsigned flags)
{
    spc_error error = {0};
    spc_training *t = NULL;
    spc_status status = spc__need(spc__error_of(ctx), __func__, "out", out,
                                  "ctx", ctx, "net", net, "scene", scene, NULL);

    if (out != NULL)
        *out = NULL;
    if (status != SPC_OK)
        return status;
    bool *used = calloc((size_t)net->node_count + 1, sizeof(*used));
    if (used == NULL || (t = calloc(1, sizeof(*t))) == NULL)
        status = spc__fail_memory(spc__error_of(ctx), sizeof(*t));
    else if ((status = spc__train_check(net, used, &error)) != SPC_OK)
        spc__ctx_fail(ctx, &error);
    if (status == SPC_OK) {
        t->ctx = ctx;
        if ((status = make(t, net, used, scene, flags)) == SPC_OK) {
            *out = t;
            t = NULL;
        }
    }
    spc_training_free(t);
    free(used);
    return status;
}

static void release_pass(const spc_training *t, spc__train_pass *p)
{
    spc_plan_free(p->plan);
    spc_memory_free(t->ctx, p->packed);
    if (p->owned)
        spc_map_free(p->map);
}

/* Frees the memory that a step owns. */
static void release_step(const spc_training *t, step *s)
{
    release_pass(t, &s->forward);
    release_pass(t, &s->dgrad);
    release_pass(t, &s->wgrad);
    spc__train_release(&s->run);
    spc__train_release(&s->back);
    spc__train_release(&s->sums);
    for (int i = 0; i < SPC__NET_SOURCES; i++)
        spc__train_release(&s->copy[i]);
    if (!s->borrows)
        spc_memory_free(t->ctx, s->index);
    spc_memory_free(t->ctx, s->vector);
    spc_memory_free(t->ctx, s->change);
    free(s->values);
}

void spc_training_free(spc_training *t)
{
    if (t == NULL)
        return;
    for (int i = 0; i < t->step_count; i++)
        release_step(t, &t->steps[i]);
    for (int i = 0; i < t->action_count; i++)
        spc__train_release(&t->actions[i].sum);
    for (int i = 0; i < t->value_count; i++)
        spc_memory_free(t->ctx, t->values[i].data);
    /* The first arrays are the caller's gradients, one for each output. */
    for (int i = t->array_count > 0 ? t->plan->net->out_count : 0;
         i < t->array_count; i++)
        spc_memory_free(t->ctx, t->arrays[i]);
    spc_memory_free(t->ctx, t->work);
    free(t->steps);
    free(t->values);
    free(t->value_of);
    free(t->actions);
    free(t->updates);
    free(t->arrays);
    /* Steps refer to its sets and maps, so it goes last. */
    spc_net_plan_free(t->plan);
    free(t);
}

const spc__train_value *spc__train_output(const spc_training *t, int i)
{
    return &t->values[t->value_of[t->plan->net->outs[i].tensor]];
}

int64_t spc_training_rows(const spc_training *t)
{
    return t != NULL ? spc__train_output(t, 0)->rows : 0;
}

spc_status spc_training_output_at(spc_training_out *out, const spc_training *t,
                                  int i)
{
    if (out == NULL || t == NULL)
        return SPC_EINVAL;
    if (i < 0 || i >= t->plan->net->out_count)
        return spc__fail(spc__error_of(t->ctx), SPC_EINVAL,
                         "there is no output %d: the network has %d", i,
                         t->plan->net->out_count);
    const spc__train_value *v = spc__train_output(t, i);
    bool is_input = v == &t->values[0];

    *out = (spc_training_out){.name = t->plan->net->outs[i].name,
                              .data = is_input ? t->features : v->data,
                              .dtype = v->dtype,
                              .rows = v->rows,
                              .elements = v->elements,
                              .set = t->plan->sets[v->set]};
    return SPC_OK;
}

/* ---- parameters ---------------------------------------------------------- */

/* Position of a parameter among the values of a step: the first values, or the
 * second. */
typedef struct param {
    step *step;
    bool second;
    int64_t count;
} param;

/* A convolution has weights. Its bias is a parameter of the scale step if there
 * is one, else of the convolution. */
static bool is_param(param *out, step *s, spc_operand which)
{
    bool weights = s->kind == SPC__TRAIN_CONV;
    bool second = which == SPC_OPERAND_BIAS;

    if (!spc__train_has_params(s) || (second && s->keeps_second) ||
        (!second &&
         which != (weights ? SPC_OPERAND_WEIGHTS : SPC_OPERAND_SCALE)))
        return false;
    *out = (param){s, second, second ? s->second : s->first};
    return out->count > 0;
}

/* Finds a parameter by its layer and operand. */
static bool find_param(param *out, spc_training *t, const char *layer,
                       spc_operand which)
{
    for (int i = 0; i < t->step_count; i++)
        if (t->steps[i].node->name != NULL &&
            strcmp(t->steps[i].node->name, layer) == 0 &&
            is_param(out, &t->steps[i], which))
            return true;
    return false;
}

static spc_status fetch(const spc_training *t, const step *s, float *change)
{
    return spc_memory_download(change, t->ctx, s->change,
                               (size_t)(s->first + s->second) * sizeof(float));
}

/* Index of value i of a parameter among the step's values. The network stores
 * weights as KRSC, the step as RSCK. */
static int64_t index_in(const param *p, int64_t i)
{
    const step *s = p->step;

    if (p->second)
        return s->first + i;
    return s->kind == SPC__TRAIN_CONV
               ? spc__train_weight_index(&s->forward.conv, i)
               : i;
}

static void give(float *out, const param *p, const float *from)
{
    for (int64_t i = 0; i < p->count; i++)
        out[i] = from[index_in(p, i)];
}

/* Copies a parameter's gradient to the caller, in the order of the caller's
 * weights. */
static spc_status give_gradient(float *out, const spc_training *t,
                                const param *p)
{
    size_t bytes = (size_t)(p->step->first + p->step->second) * sizeof(float);
    float *change = malloc(bytes);
    spc_status status;

    if (change == NULL)
        return spc__fail_memory(spc__error_of(t->ctx), bytes);
    /* The backward pass may still run on a stream of the caller. */
    if ((status = spc_ctx_synchronize(t->ctx)) == SPC_OK &&
        (status = fetch(t, p->step, change)) == SPC_OK)
        give(out, p, change);
    free(change);
    return status;
}

/* Finds the parameter and checks the number of values. */
static spc_status take_param(param *out, spc_training *t, const char *function,
                             const char *layer, spc_operand which,
                             int64_t count)
{
    spc_error *error = t != NULL ? spc__error_of(t->ctx) : NULL;
    spc_status status =
        spc__need(error, function, "training", t, "layer", layer, NULL);

    *out = (param){0};
    if (status != SPC_OK)
        return status;
    bool has = find_param(out, t, layer, which);
    if (!has)
        return spc__fail(error, SPC_ENOTFOUND,
                         "no layer '%.60s' has such an array that an output "
                         "depends on",
                         layer);
    return count == out->count
               ? SPC_OK
               : spc__fail(error, SPC_EINVAL,
                           "layer '%.60s' has %lld such values, not %lld",
                           layer, (long long)out->count, (long long)count);
}

spc_status spc_training_get_param(float *values, float *gradient,
                                  spc_training *t, const char *layer,
                                  spc_operand which, int64_t count)
{
    param p;
    spc_status status = take_param(&p, t, __func__, layer, which, count);

    if (status != SPC_OK)
        return status;
    if (values != NULL)
        give(values, &p, p.step->values);
    return gradient != NULL ? give_gradient(gradient, t, &p) : SPC_OK;
}

spc_status spc_training_set_param(spc_training *t, const char *layer,
                                  spc_operand which, const float *values,
                                  int64_t count)
{
    param p;
    spc_status status = take_param(&p, t, __func__, layer, which, count);

    if (status == SPC_OK)
        status =
            spc__need(spc__error_of(t->ctx), __func__, "values", values, NULL);
    /* A pass that still runs must not see half of the new values. */
    if (status != SPC_OK || (status = spc_ctx_synchronize(t->ctx)) != SPC_OK)
        return status;
    for (int64_t i = 0; i < count; i++)
        p.step->values[index_in(&p, i)] = values[i];
    return spc__train_put(t, p.step);
}

/* ---- descent ------------------------------------------------------------- */

/* Changes a step's parameters against their gradient, on the host. */
static spc_status descend(const spc_training *t, step *s, float rate)
{
    int64_t trained = s->first + (s->keeps_second ? 0 : s->second);
    size_t bytes = (size_t)(s->first + s->second) * sizeof(float);
    float *change = malloc(bytes);
    spc_status status;

    if (change == NULL)
        return spc__fail_memory(spc__error_of(t->ctx), bytes);
    status = fetch(t, s, change);
    for (int64_t i = 0; i < trained && status == SPC_OK; i++)
        s->values[i] -= rate * change[i];
    free(change);
    return status;
}

spc_status spc_training_descend(spc_training *t, float rate)
{
    spc_status status = spc__need(t != NULL ? spc__error_of(t->ctx) : NULL,
                                  __func__, "training", t, NULL);

    if (status == SPC_OK && !isfinite(rate))
        status = spc__fail(spc__error_of(t->ctx), SPC_EINVAL,
                           "a rate of %g: expected a finite number above 0",
                           (double)rate);
    if (status == SPC_OK)
        status = spc_ctx_synchronize(t->ctx);
    for (int i = 0; status == SPC_OK && i < t->step_count; i++)
        if (spc__train_has_params(&t->steps[i]))
            status = descend(t, &t->steps[i], rate);
    /* All parameters change before any is packed, so a failure to read a
     * gradient leaves the device as it was. */
    return status == SPC_OK ? put_all(t) : status;
}
