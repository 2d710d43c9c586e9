/* SPDX-License-Identifier: Apache-2.0 */
/*
 * large_gradient.c - a gradient of weights over many rows.
 *
 * It is a sum over all rows, and kernels split long sums into parts. The
 * expected result would cost as much as the gradient itself, unless most rows
 * are zero: the outputs' gradient is zero except in the chosen rows, which are
 * spread evenly. Every part contains some of them, so a part that is lost or
 * counted twice shows. Integers of COUNT keep a few hundred products exact.
 */
#include "lab/gate/large.h"

#include "base/dtype.h"
#include "base/error.h"
#include "lab/oracle/wgrad.h"
#include "operators/operands.h"
#include <stdlib.h>

typedef struct maker {
    spc__large *to;
    spc__fixture *fixture;
    const spc_conv *conv;
    spc__operand out;
    /* arrays of [PATTERN] and [count] rows, and one in the result's layout */
    float *x, *dy, *before, *sums;
} maker;

/* One block for all real numbers, so that one pointer is freed. */
static spc_status allocate(maker *m)
{
    const spc_conv *conv = m->conv;
    size_t x = (size_t)(SPC__LARGE_PATTERN * conv->cin);
    size_t dy = (size_t)(m->to->count * conv->cout);
    size_t results = (size_t)(m->out.rows * m->out.columns);
    size_t all = x + dy + 2 * results;

    m->x = malloc((all + 1) * sizeof(float));
    m->to->got = malloc(m->out.bytes + 1);
    m->to->exact = malloc(m->out.bytes + 1);
    if (m->x == NULL || m->to->got == NULL || m->to->exact == NULL)
        return spc__fail_memory(spc__error_of(m->fixture->ctx),
                                all * sizeof(float));
    m->dy = m->x + x;
    m->before = m->dy + dy;
    m->sums = m->before + results;
    return SPC_OK;
}

/* Uploads zeros, and the chosen rows at their indices. */
static spc_status upload_dy(const maker *m)
{
    spc__large *to = m->to;
    spc_ctx *ctx = m->fixture->ctx;
    spc__operand all =
        spc__operand_of(m->conv, SPC_OPERAND_RESIDUAL, to->rows_out);
    spc__operand one = spc__operand_of(m->conv, SPC_OPERAND_RESIDUAL, 1);
    size_t pitch = (size_t)all.pitch * spc__dtype_of(all.dtype)->bytes;
    char *encoded = malloc(one.bytes);

    if (encoded == NULL)
        return spc__fail_memory(spc__error_of(ctx), one.bytes);
    spc_status status =
        spc__guarded_lay(&m->fixture->guards, &to->residual, all.bytes, 0);
    if (status == SPC_OK)
        status = spc__guarded_fill(&m->fixture->guards, &to->residual, 0);
    for (int64_t i = 0; i < to->count && status == SPC_OK; i++) {
        spc__encode_rows(encoded, &one, m->dy + i * m->conv->cout);
        status =
            spc_memory_upload(to->residual.data + (size_t)to->at[i] * pitch,
                              ctx, encoded, one.bytes);
    }
    free(encoded);
    return status;
}

/* Computes the exact gradient, to which only the chosen rows add. */
static spc_status expect(const maker *m, const spc_scene *scene)
{
    spc__large *to = m->to;
    spc_ctx *ctx = m->fixture->ctx;
    spc_relation relation = {0};
    spc__values values = {.in = m->x, .residual = m->dy, .weights = m->before};
    spc_status status = spc__large_relation(&relation, to, m->fixture, scene);
    spc__seen seen = spc__relation_seen(&relation);

    if (status == SPC_OK)
        status =
            spc__wgrad_exact(m->sums, m->conv, &seen, to->count, &values,
                             ctx->threads, ctx->cancel, spc__error_of(ctx));
    spc__relation_release(&relation);
    if (status == SPC_OK)
        spc__encode_rows(to->exact, &m->out, m->sums);
    return status;
}

spc_status spc__large_know_gradient(spc__large *large, spc__fixture *fixture,
                                    const spc_scene *scene, spc__random *random)
{
    const spc__sample *sample = fixture->sample;
    maker m = {.to = large, .fixture = fixture, .conv = &sample->conv};

    m.out = spc__operand_of(m.conv, SPC_OPERAND_OUT, large->rows_out);
    spc_status status = allocate(&m);
    if (status == SPC_OK) {
        spc__draw_pair(m.x, m.dy, m.conv, SPC__COUNT, SPC__LARGE_PATTERN,
                       large->count, 0, random);
        if (m.conv->accumulate)
            spc__dtype_of(m.out.dtype)
                ->decode(m.before, sample->weights[SPC__COUNT],
                         (size_t)(m.out.rows * m.out.columns));
        status = spc__large_upload(&large->in, fixture, SPC_OPERAND_IN, m.x,
                                   large->rows_in);
    }
    if (status == SPC_OK)
        status = upload_dy(&m);
    if (status == SPC_OK)
        status = expect(&m, scene);
    free(m.x);
    return status;
}
