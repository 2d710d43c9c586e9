/* SPDX-License-Identifier: Apache-2.0 */
/*
 * net_train_back.c - makes the backward pass, a list of actions: which array
 * holds which gradient, and where gradients of several readers are summed.
 *
 * Steps are visited from last to first, so when a step is reached, all readers
 * of its outputs are done and their gradient is complete. The step then
 * contributes a share to the gradient of each input. The first share is the
 * gradient itself; a later one is added to it in a new array. So no array is
 * written twice, and several values may use one array, such as the two inputs
 * of an addition.
 */
#include "net/train/net_train.h"

#include "base/dtype.h"
#include "base/error.h"
#include "context/ctx.h"
#include "operators/feature.h"
#include <stdlib.h>

typedef spc__train_action action;
typedef spc__train_step step;

/* ---- arrays -------------------------------------------------------------- */

/* Adds an array of the shape of a value. Returns SPC__TRAIN_NONE if out of
 * memory. */
static int add_array(spc_training *t, int value)
{
    const spc__train_value *v = &t->values[value];
    size_t bytes = (size_t)v->capacity * (size_t)v->elements *
                   spc__dtype_of(v->dtype)->bytes;
    void *arrays = spc__net_grow(t->arrays, t->array_count, sizeof(void *));

    if (arrays == NULL) {
        spc__fail_memory(spc__error_of(t->ctx), sizeof(void *));
        return SPC__TRAIN_NONE;
    }
    t->arrays = arrays;
    return spc__train_take(&t->arrays[t->array_count], t, bytes) == SPC_OK
               ? t->array_count++
               : SPC__TRAIN_NONE;
}

/* Adds an action of the backward pass. The pointer holds until the next one is
 * added. */
static action *add_action(spc_training *t, spc__train_do what, int s, int dy)
{
    void *actions =
        spc__net_grow(t->actions, t->action_count, sizeof(*t->actions));

    if (actions == NULL) {
        spc__fail_memory(spc__error_of(t->ctx), sizeof(*t->actions));
        return NULL;
    }
    t->actions = actions;
    /* Growing the list may move it, so indices and not pointers refer to
     * actions. */
    action *a = &t->actions[t->action_count++];
    a->what = what;
    a->step = s;
    a->dy = dy;
    return a;
}

/* ---- shares -------------------------------------------------------------- */

/* Adds a share to a value's gradient. The sum gets a separate array, since
 * kernels do not add in place. */
static spc_status add_sum(spc_training *t, int value, int array)
{
    spc__train_value *v = &t->values[value];
    action *a = add_action(t, SPC__TRAIN_SUM, SPC__TRAIN_NONE, v->grad);
    spc_feature f = SPC_FEATURE_INIT;

    if (a == NULL)
        return SPC_ENOMEM;
    f.op = SPC_FEATURE_ADD;
    f.channels = v->channels;
    f.dtype = v->dtype;
    a->with = array;
    a->part = value;
    if ((a->out[0] = v->grad = add_array(t, value)) == SPC__TRAIN_NONE)
        return SPC_ENOMEM;
    /* The pointer is still valid: no action was added since. */
    return spc__train_operator(&a->sum, t, &f, v->set, v->set);
}

/* Adds `array` as a share of the gradient of a value. */
static spc_status share(spc_training *t, int value, int array)
{
    spc__train_value *v = &t->values[value];

    if (v->grad != SPC__TRAIN_NONE)
        return add_sum(t, value, array);
    v->grad = array;
    return SPC_OK;
}

/* Adds an action that makes a share of the gradient of `value`. */
static spc_status make_share(spc_training *t, spc__train_do what, int s,
                             int part, int value, int dy)
{
    int array;
    action *a = add_action(t, what, s, dy);

    if (a == NULL || (array = add_array(t, value)) == SPC__TRAIN_NONE)
        return SPC_ENOMEM;
    a->part = part;
    a->out[0] = array;
    /* The action is complete by now: share() may add one and move the list. */
    return share(t, value, array);
}

/* ---- steps --------------------------------------------------------------- */

/* Each source gets an array, even if its gradient is not needed. */
static spc_status spread(spc_training *t, int s, int dy)
{
    action *a = add_action(t, SPC__TRAIN_SPREAD, s, dy);
    int arrays[SPC__NET_SOURCES], count = t->steps[s].ins;
    spc_status status = SPC_OK;

    if (a == NULL)
        return SPC_ENOMEM;
    for (int i = 0; i < count; i++) {
        arrays[i] = a->out[i] = add_array(t, t->steps[s].in[i]);
        if (arrays[i] == SPC__TRAIN_NONE)
            return SPC_ENOMEM;
    }
    /* A second loop, as share() may move the list of actions. */
    for (int i = 0; i < count && status == SPC_OK; i++)
        if (t->values[t->steps[s].in[i]].wanted)
            status = share(t, t->steps[s].in[i], arrays[i]);
    return status;
}

static bool is_addition(const step *s)
{
    return s->kind == SPC__TRAIN_FEATURE &&
           s->run.feature.op == SPC_FEATURE_ADD;
}

static bool multiplies(const step *s)
{
    return s->kind == SPC__TRAIN_FEATURE &&
           spc__feature_adds_by_batch(&s->run.feature);
}

/* The gradient of an addition. */
static spc_status add_up(spc_training *t, const step *s, int dy)
{
    int both[] = {s->in[0], s->add};
    spc_status status = SPC_OK;

    /* The gradient of a sum is the gradient of both operands, so both use the
     * same array. */
    for (int i = 0; i < 2 && status == SPC_OK; i++)
        if (t->values[both[i]].wanted)
            status = share(t, both[i], dy);
    return status;
}

/* Adds the actions that carry the gradient back through a step. */
static spc_status add_backward(spc_training *t, int i)
{
    const step *s = &t->steps[i];
    int dy = t->values[s->out].grad;
    bool joins = s->kind == SPC__TRAIN_CONCAT;
    spc_status status = SPC_OK;

    /* No output depends on it, or nothing before it is trained. */
    if (dy == SPC__TRAIN_NONE || !t->values[s->out].wanted)
        return SPC_OK;
    if (spc__train_has_params(s) &&
        add_action(t, SPC__TRAIN_WEIGHTS, i, dy) == NULL)
        return SPC_ENOMEM;
    if (is_addition(s))
        return add_up(t, s, dy);
    if (s->kind == SPC__TRAIN_GATHER)
        return spread(t, i, dy);
    for (int j = 0; j < s->ins && status == SPC_OK; j++)
        if (t->values[s->in[j]].wanted)
            status = make_share(t, joins ? SPC__TRAIN_SLICE : SPC__TRAIN_INPUTS,
                                i, j, s->in[j], dy);
    if (status == SPC_OK && multiplies(s) && t->values[s->add].wanted)
        status = make_share(t, SPC__TRAIN_FACTORS, i, 0, s->add, dy);
    return status;
}

/* ---- entry --------------------------------------------------------------- */

/* Uses the arrays that the caller gives, by output. */
static spc_status take_outputs(spc_training *t)
{
    const spc_net *net = t->plan->net;

    for (int i = 0; i < net->out_count; i++) {
        void *arrays = spc__net_grow(t->arrays, i, sizeof(void *));
        if (arrays == NULL)
            return spc__fail_memory(spc__error_of(t->ctx), sizeof(void *));
        t->arrays = arrays;
        t->array_count++;
        /* An output's gradient begins with the caller's array. Later readers
         * add to it in new arrays. */
        t->values[t->value_of[net->outs[i].tensor]].grad = i;
    }
    return SPC_OK;
}

spc_status spc__train_back(spc_training *t)
{
    spc_status status = take_outputs(t);

    for (int i = t->step_count - 1; i >= 0 && status == SPC_OK; i--)
        status = add_backward(t, i);
    return status;
}
