/* SPDX-License-Identifier: Apache-2.0 */
/*
 * net_deviation.c - how far the tensors of a network's run are from those of
 * the same network in a wider type.
 */
#include "base/sized.h"
#include "lab/net_tensor.h"
#include "spc/lab.h"

#include "base/error.h"
#include "context/ctx.h"
#include <stdlib.h>
#include <string.h>

/* A run, and the run in the wider type that it is compared with. */
typedef struct pair {
    spc_net_plan *plan, *reference;
    const spc_net_buffers *buffers, *reference_buffers;
    spc_net_deviation *out;
} pair;

static size_t numbers_of(const pair *p, int tensor)
{
    return (size_t)(spc__net_tensor_rows(p->plan, tensor) *
                    p->plan->net->tensors[tensor].elements);
}

static bool is_compared(const pair *p, int tensor)
{
    return spc__net_tensor_is_there(p->plan, tensor) &&
           spc__net_tensor_is_there(p->reference, tensor);
}

/* Reads a tensor of the reference. */
static spc_status read_wide(float **out, const pair *p, int tensor)
{
    spc_status status =
        spc__net_tensor_read(out, p->reference, p->reference_buffers, tensor);

    /* The contexts differ, and the caller reads the error of the plan's. */
    return status == SPC_OK ? status
                            : spc__fail(spc__error_of(p->plan->ctx), status,
                                        "%s", spc_ctx_error(p->reference->ctx));
}

static double squares(const float *a, const float *b, size_t count)
{
    double sum = 0;

    for (size_t i = 0; i < count; i++) {
        double off = (double)a[i] - (b != NULL ? (double)b[i] : 0);
        sum += off * off;
    }
    return sum;
}

/* ---- the run ------------------------------------------------------------- */

/* Adds the size of a tensor, and what rounding and the whole run change. */
static spc_status compare(pair *p, int tensor)
{
    spc_net_deviation *d = &p->out[tensor];
    size_t count = numbers_of(p, tensor);
    float *want = NULL, *got = NULL;
    spc_status status = read_wide(&want, p, tensor);

    if (status == SPC_OK)
        status = spc__net_tensor_read(&got, p->plan, p->buffers, tensor);
    if (status == SPC_OK) {
        d->size += squares(want, NULL, count);
        d->total += squares(got, want, count);
        memcpy(got, want, count * sizeof(*got));
        status =
            spc__net_tensor_round(got, count, &p->plan->net->tensors[tensor],
                                  spc__error_of(p->plan->ctx));
    }
    if (status == SPC_OK)
        d->rounding += squares(got, want, count);
    free(want);
    free(got);
    return status;
}

/* ---- layers by themselves ------------------------------------------------ */

/* Replaces what the run has written by the reference's numbers. The input is
 * the caller's, and is the same in both runs. */
static spc_status give_reference(const pair *p, int tensor)
{
    float *values = NULL;
    spc_status status;

    if (tensor == SPC_NO_TENSOR || p->plan->net->tensors[tensor].node < 0)
        return SPC_OK;
    if (!is_compared(p, tensor))
        return spc__fail(spc__error_of(p->plan->ctx), SPC_ESTATE,
                         "tensor %d has no memory in one of the plans", tensor);
    status = read_wide(&values, p, tensor);
    if (status == SPC_OK)
        status = spc__net_tensor_write(p->plan, p->buffers, tensor, values);
    free(values);
    return status;
}

/* Notes which layer makes the tensor, and what the layer itself changes. */
static spc_status note_layer(pair *p, int node, int tensor)
{
    const spc__net_node *layer = &p->plan->net->nodes[node];
    spc_net_deviation *d = &p->out[tensor];
    float *want = NULL, *got = NULL;
    spc_status status = read_wide(&want, p, tensor);

    d->layer = layer->name;
    d->in = layer->in[0];
    if (status == SPC_OK)
        status = spc__net_tensor_read(&got, p->plan, p->buffers, tensor);
    if (status == SPC_OK)
        d->own += squares(got, want, numbers_of(p, tensor));
    free(want);
    free(got);
    return status;
}

/* Runs a convolution on the reference's inputs. Several layers may have become
 * one wide layer. */
static spc_status run_alone(pair *p, int i)
{
    const spc__net_work *work = &p->plan->works[i];
    spc_status status = give_reference(p, work->in);

    if (status != SPC_OK || (status = give_reference(p, work->add)) != SPC_OK ||
        (status = spc__net_work_run(p->plan, i, p->buffers, NULL)) != SPC_OK ||
        (status = spc_ctx_synchronize(p->plan->ctx)) != SPC_OK ||
        (status = note_layer(p, work->node, work->out)) != SPC_OK)
        return status;
    for (int n = p->plan->siblings[work->node]; n >= 0 && status == SPC_OK;
         n = p->plan->siblings[n])
        status = note_layer(p, n, p->plan->net->nodes[n].out);
    return status;
}

/* ---- entry --------------------------------------------------------------- */

/* Checks that both plans are of one network and have run one scene. */
static spc_status check_pair(const pair *p)
{
    const spc_net *net = p->plan->net, *wide = p->reference->net;
    spc_error *error = spc__error_of(p->plan->ctx);

    if (net->tensor_count != wide->tensor_count ||
        net->node_count != wide->node_count)
        return spc__fail(error, SPC_EINVAL,
                         "the plans are of two networks: one has %d tensors, "
                         "the other %d",
                         net->tensor_count, wide->tensor_count);
    for (int t = 0; t < net->tensor_count; t++)
        if (is_compared(p, t) &&
            (net->tensors[t].elements != wide->tensors[t].elements ||
             spc__net_tensor_rows(p->plan, t) !=
                 spc__net_tensor_rows(p->reference, t)))
            return spc__fail(error, SPC_EINVAL,
                             "the plans have run two scenes: tensor %d has "
                             "%lld rows in one and %lld in the other",
                             t, (long long)spc__net_tensor_rows(p->plan, t),
                             (long long)spc__net_tensor_rows(p->reference, t));
    return SPC_OK;
}

static spc_status compare_all(pair *p)
{
    spc_status status = check_pair(p);

    if (status != SPC_OK)
        return status;
    for (int t = 0; t < p->plan->net->tensor_count && status == SPC_OK; t++)
        if (is_compared(p, t))
            status = compare(p, t);
    /* Last, as it overwrites the results of the run. */
    for (int i = 0; i < p->plan->work_count && status == SPC_OK; i++)
        if (p->plan->works[i].kind == SPC_NET_CONV)
            status = run_alone(p, i);
    /* The tensors are no longer those of a run. */
    p->plan->checked = false;
    return status;
}

spc_status spc_net_plan_deviations(spc_net_deviation *out, spc_net_plan *plan,
                                   const spc_net_buffers *buffers,
                                   spc_net_plan *reference,
                                   const spc_net_buffers *reference_buffers)
{
    spc_error *error = plan != NULL ? spc__error_of(plan->ctx) : NULL;
    spc_status status = spc__need(error, __func__, "out", out, "plan", plan,
                                  "buffers", buffers, "reference", reference,
                                  "reference_buffers", reference_buffers, NULL);

    if (status != SPC_OK || (status = spc__net_need_tensors(plan)) != SPC_OK ||
        (status = SPC__TAKE(spc_net_buffers, buffers, error)) != SPC_OK ||
        (status = spc__net_check_buffers(plan, buffers, error)) != SPC_OK)
        return status;
    if (!reference->options.keep || !reference->checked)
        return spc__fail(error, SPC_ESTATE,
                         "the reference needs a plan with `keep`, and a "
                         "checked run");
    if ((status = SPC__TAKE(spc_net_buffers, reference_buffers, error)) !=
            SPC_OK ||
        (status = spc__net_check_buffers(reference, reference_buffers,
                                         error)) != SPC_OK)
        return status;
    pair p = {plan, reference, buffers, reference_buffers, out};
    return compare_all(&p);
}
