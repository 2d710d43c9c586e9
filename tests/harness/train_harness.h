/* SPDX-License-Identifier: Apache-2.0 */
/*
 * train_harness.h - for tests: a network in training, with its data on the
 * device.
 */
#ifndef TRAIN_HARNESS_H
#define TRAIN_HARNESS_H

#include "base/random.h"
#include "harness/layer_harness.h"
#include "harness/suite.h"

#include <math.h>
#include <stdlib.h>

static spc_error error;

/* Returns numbers from -1 to 1. The caller owns them. */
static inline float *draw(int64_t count, uint64_t seed)
{
    float *out = malloc((size_t)count * sizeof(*out) + 1);
    spc__random random;

    spc__random_init(&random, seed);
    for (int64_t i = 0; i < count; i++)
        out[i] = (float)(2 * spc__random_unit(&random) - 1);
    return out;
}

static inline void *upload(spc_ctx *ctx, const float *values, int64_t count)
{
    void *out = NULL;
    size_t bytes = (size_t)count * sizeof(float);

    assert_ok(spc_memory_alloc(&out, ctx, bytes + 1), spc_ctx_error(ctx));
    assert_ok(spc_memory_upload(out, ctx, values, bytes), spc_ctx_error(ctx));
    return out;
}

static inline spc_ctx *open_device(void)
{
    return open_ctx(suite_device != NULL ? suite_device : "cpu",
                    suite_database(), NULL);
}

#endif
