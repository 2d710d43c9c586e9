/* SPDX-License-Identifier: Apache-2.0 */
/*
 * net_ranges.c - the magnitudes of each tensor in a network's runs, and the
 * ranges for quantisation that follow from them.
 *
 * Magnitudes are counted in bins of equal width. The width is a power of two,
 * and it doubles when a larger magnitude appears, by adding up pairs of bins.
 * So the counts do not depend on the order of the runs.
 */
#include "base/sized.h"
#include "lab/net_tensor.h"
#include "spc/lab.h"

#include "base/error.h"
#include "context/ctx.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { BINS = 4096, STEPS = 127 };

typedef struct counts {
    double width, greatest;
    int64_t total; /* magnitudes above 0 */
    int64_t bins[BINS];
} counts;

struct spc_net_magnitudes {
    int tensors;
    counts *of;
};

/* ---- counting ------------------------------------------------------------ */

/* Doubles the width until the magnitude has a bin. */
static void make_room(counts *c, double magnitude)
{
    /* The first magnitude is in the upper half of the bins. */
    if (c->width == 0)
        c->width = ldexp(1, ilogb(magnitude) + 1) / BINS;
    while (magnitude >= c->width * BINS) {
        for (int i = 0; i < BINS / 2; i++)
            c->bins[i] = c->bins[2 * i] + c->bins[2 * i + 1];
        memset(c->bins + BINS / 2, 0, sizeof(c->bins) / 2);
        c->width *= 2;
    }
}

/* Zeros are exact in every range, so they are not counted. */
static void count(counts *c, const float *values, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        double magnitude = fabs((double)values[i]);
        if (!(magnitude > 0) || isinf(magnitude))
            continue;
        if (c->width == 0 || magnitude >= c->width * BINS)
            make_room(c, magnitude);
        c->bins[(int)(magnitude / c->width)]++;
        c->total++;
        c->greatest = fmax(c->greatest, magnitude);
    }
}

spc_status spc_net_magnitudes_create(spc_net_magnitudes **out,
                                     const spc_net *net, spc_error *error)
{
    spc_status status =
        spc__need(error, __func__, "out", out, "net", net, NULL);
    spc_net_magnitudes *m;

    if (out != NULL)
        *out = NULL;
    if (status != SPC_OK)
        return status;
    m = calloc(1, sizeof(*m));
    if (m != NULL)
        m->of = calloc((size_t)net->tensor_count + 1, sizeof(*m->of));
    if (m == NULL || m->of == NULL) {
        free(m);
        return spc__fail_memory(error,
                                sizeof(*m->of) * (size_t)net->tensor_count);
    }
    m->tensors = net->tensor_count;
    *out = m;
    return SPC_OK;
}

void spc_net_magnitudes_free(spc_net_magnitudes *magnitudes)
{
    if (magnitudes != NULL)
        free(magnitudes->of);
    free(magnitudes);
}

spc_status spc_net_magnitudes_add(spc_net_magnitudes *magnitudes,
                                  spc_net_plan *plan,
                                  const spc_net_buffers *buffers)
{
    spc_error *error = plan != NULL ? spc__error_of(plan->ctx) : NULL;
    spc_status status = spc__need(error, __func__, "magnitudes", magnitudes,
                                  "plan", plan, "buffers", buffers, NULL);

    if (status != SPC_OK || (status = spc__net_need_tensors(plan)) != SPC_OK ||
        (status = SPC__TAKE(spc_net_buffers, buffers, error)) != SPC_OK ||
        (status = spc__net_check_buffers(plan, buffers, error)) != SPC_OK)
        return status;
    if (magnitudes->tensors != plan->net->tensor_count)
        return spc__fail(error, SPC_EINVAL,
                         "the magnitudes are of a network with %d tensors, and "
                         "the plan's has %d",
                         magnitudes->tensors, plan->net->tensor_count);
    for (int t = 0; t < magnitudes->tensors && status == SPC_OK; t++) {
        float *values = NULL;
        if (!spc__net_tensor_is_there(plan, t) || plan->net->tensors[t].dense)
            continue;
        status = spc__net_tensor_read(&values, plan, buffers, t);
        if (status == SPC_OK)
            count(&magnitudes->of[t], values,
                  (size_t)(spc__net_tensor_rows(plan, t) *
                           plan->net->tensors[t].elements));
        free(values);
    }
    return status;
}

/* ---- rules --------------------------------------------------------------- */

/* The least upper end of a bin below which this part of the magnitudes lies. */
static double percentile(const counts *c, double part)
{
    double below = 0;

    for (int i = 0; i < BINS; i++) {
        below += (double)c->bins[i];
        if (below >= part * (double)c->total)
            return fmin((i + 1) * c->width, c->greatest);
    }
    return c->greatest;
}

/* Sum of squared errors if magnitudes are rounded to steps up to `range`. */
static double squared_error(const counts *c, double range)
{
    double step = range / STEPS, sum = 0;

    for (int i = 0; i < BINS; i++) {
        double middle = (i + 0.5) * c->width;
        double rounded = fmin(rint(middle / step), STEPS) * step;
        if (c->bins[i] > 0)
            sum += (double)c->bins[i] * (middle - rounded) * (middle - rounded);
    }
    return sum;
}

/*
 * The range with the least squared error. A range below STEPS bins would have
 * steps that are finer than the bins.
 */
static double least_squares(const counts *c)
{
    enum { APART = 8 };
    double best = c->greatest, least = squared_error(c, best);

    for (int i = STEPS; i < BINS; i += APART) {
        double range = i * c->width;
        double error = range < c->greatest ? squared_error(c, range) : least;
        if (error < least) {
            least = error;
            best = range;
        }
    }
    return best;
}

static double range_of(const counts *c, spc_range_rule rule, double part)
{
    if (c->total == 0)
        return 0;
    if (rule == SPC_RANGE_MAX)
        return c->greatest;
    return rule == SPC_RANGE_PERCENTILE ? percentile(c, part)
                                        : least_squares(c);
}

spc_status spc_net_magnitudes_ranges(float *ranges,
                                     const spc_net_magnitudes *magnitudes,
                                     spc_range_rule rule, double part,
                                     spc_error *error)
{
    spc_status status = spc__need(error, __func__, "ranges", ranges,
                                  "magnitudes", magnitudes, NULL);

    if (status != SPC_OK)
        return status;
    if (rule != SPC_RANGE_MAX && rule != SPC_RANGE_PERCENTILE &&
        rule != SPC_RANGE_MSE)
        return spc__fail(error, SPC_EINVAL, "there is no range rule %d",
                         (int)rule);
    if (rule == SPC_RANGE_PERCENTILE && !(part > 0 && part <= 1))
        return spc__fail(error, SPC_EINVAL,
                         "a range cannot hold the part %g of all magnitudes: "
                         "expected more than 0 and at most 1",
                         part);
    for (int t = 0; t < magnitudes->tensors; t++)
        ranges[t] = (float)range_of(&magnitudes->of[t], rule, part);
    return SPC_OK;
}

/* ---- the greatest alone -------------------------------------------------- */

spc_status spc_net_plan_widen_ranges(float *ranges, spc_net_plan *plan,
                                     const spc_net_buffers *buffers)
{
    spc_net_magnitudes *m = NULL;
    spc_status status =
        spc__need(plan != NULL ? spc__error_of(plan->ctx) : NULL, __func__,
                  "ranges", ranges, "plan", plan, "buffers", buffers, NULL);

    if (status != SPC_OK)
        return status;
    status = spc_net_magnitudes_create(&m, plan->net, spc__error_of(plan->ctx));
    if (status == SPC_OK)
        status = spc_net_magnitudes_add(m, plan, buffers);
    for (int t = 0; t < plan->net->tensor_count && status == SPC_OK; t++)
        ranges[t] = fmaxf(ranges[t], (float)m->of[t].greatest);
    spc_net_magnitudes_free(m);
    return status;
}
